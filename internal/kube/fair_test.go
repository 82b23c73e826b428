// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func requestIn(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func byNamespace(r reconcile.Request) string { return r.Namespace }

// A consumer that asks for ten thousand things delays what another one asks for by one of them.
func TestFairQueueGroups(t *testing.T) {
	queue := fairWorkQueue(byNamespace)("fair", RateLimiter())
	t.Cleanup(queue.ShutDown)
	for i := range 10_000 {
		queue.Add(requestIn("greedy", fmt.Sprint(i)))
	}
	queue.Add(requestIn("modest", "one"))
	for taken := 1; ; taken++ {
		next, _ := queue.Get()
		queue.Done(next)
		if next.Namespace == "modest" {
			if taken > 2 {
				t.Errorf("it waited for %d others", taken-1)
			}
			return
		}
		if taken > 10 {
			t.Fatal("it waits behind all of them")
		}
	}
}

func TestFairQueueBackoff(t *testing.T) {
	queue := fairWorkQueue(byNamespace)("fair", RateLimiter())
	t.Cleanup(queue.ShutDown)
	r := requestIn("a", "one")
	queue.AddRateLimited(r)
	if queue.NumRequeues(r) != 1 {
		t.Errorf("%d requeues", queue.NumRequeues(r))
	}
	queue.AddAfter(requestIn("a", "two"), time.Millisecond)
	for range 2 {
		next, shut := queue.Get()
		if shut {
			t.Fatal("the queue is shut down")
		}
		queue.Done(next)
	}
}

// Each request comes out once, those of a group in order, and no group is served twice while another one waits.
func TestFairQueueOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queue := newFairQueue(byNamespace)
		in := map[string]int{}
		out := map[string]int{}
		since := map[string]int{} // of each group that waits, how many were served since it waits
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				group := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group")
				if in[group] == out[group] {
					since[group] = 0
				}
				queue.Push(requestIn(group, fmt.Sprint(in[group])))
				in[group]++
			},
			"pop": func(t *rapid.T) {
				if queue.Len() == 0 {
					return
				}
				next := queue.Pop()
				if want := fmt.Sprint(out[next.Namespace]); next.Name != want {
					t.Fatalf("%s came out, want %s", next, want)
				}
				out[next.Namespace]++
				since[next.Namespace] = 0
				for _, group := range []string{"a", "b", "c"} {
					if group == next.Namespace || in[group] == out[group] {
						continue
					}
					if since[group]++; since[group] > 3 {
						t.Fatalf("%s waits for ever", group)
					}
				}
			},
			"": func(t *rapid.T) {
				remaining := 0
				for group := range in {
					remaining += in[group] - out[group]
				}
				if queue.Len() != remaining {
					t.Fatalf("length %d, want %d", queue.Len(), remaining)
				}
			},
		})
	})
}
