// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// hall is a namespace that has room for pods, and refuses those that are too large.
type hall struct {
	retries retryQueue
	free    int
	sizes   map[string]int
	queue   []string
	asked   []string
}

func newHall() *hall {
	h := &hall{sizes: map[string]int{}}
	h.retries.wake = func(key types.NamespacedName) { h.queue = append(h.queue, key.Name) }
	return h
}

// ask is one attempt to make a pod.
func (h *hall) ask(name string) {
	h.asked = append(h.asked, name)
	key := types.NamespacedName{Namespace: "twin", Name: name}
	size, waits := h.sizes[name]
	if !waits {
		return
	}
	if size > h.free {
		var second int
		_, _ = fmt.Sscanf(name, "p%d", &second)
		sp := &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "twin", Name: name, CreationTimestamp: metav1.Unix(int64(second), 0)}}
		h.retries.Add(sp, fmt.Sprint("requested ", size))
		return
	}
	h.free -= size
	delete(h.sizes, name)
	h.retries.Drop(key)
}

func (h *hall) arrive(name string, size int) {
	h.sizes[name] = size
	h.ask(name)
}

// release makes room, and answers whoever is woken by that.
func (h *hall) release(free, refusals int) {
	h.free, h.asked = h.free+free, nil
	h.retries.Retry("twin", refusals)
	h.run()
}

func (h *hall) run() {
	for len(h.queue) > 0 {
		name := h.queue[0]
		h.queue = h.queue[1:]
		h.ask(name)
	}
}

func TestRetryQueueUnsatisfiable(t *testing.T) {
	h := newHall()
	h.arrive("p1", 100)
	h.arrive("p2", 2)
	h.release(2, refusalsPerRelease)
	if _, waits := h.sizes["p2"]; waits {
		t.Errorf("it waits; asked were %v", h.asked)
	}
}

func TestRetryQueueRequests(t *testing.T) {
	h := newHall()
	for i := range 2000 {
		h.arrive(fmt.Sprint("p", i), 5)
	}
	h.release(10, refusalsPerRelease)
	if got := fmt.Sprint(h.asked); got != "[p0 p1 p2]" {
		t.Errorf("asked were %s", got)
	}
}

func TestRetryQueueFairness(t *testing.T) {
	h := newHall()
	const all = 50
	for i := range all {
		h.arrive(fmt.Sprint("p", i), 1000+i)
	}
	seen := map[string]bool{}
	for range all/(refusalsPerRelease-1) + 1 {
		h.release(0, refusalsPerRelease)
		if len(h.asked) > refusalsPerRelease {
			t.Errorf("%d were asked after one release", len(h.asked))
		}
		for _, name := range h.asked {
			seen[name] = true
		}
	}
	if len(seen) < all {
		t.Errorf("%d of %d had a turn", len(seen), all)
	}
}

// A pod that is being deleted tells nothing of its turn.
func TestRetryQueueTimeout(t *testing.T) {
	h := newHall()
	h.arrive("p1", 2)
	h.retries.Retry("twin", refusalsPerRelease)
	h.queue = nil
	h.retries.in["twin"].since = time.Now().Add(-turnLimit)
	h.release(2, refusalsPerRelease)
	if len(h.sizes) > 0 {
		t.Errorf("it waits; asked were %v", h.asked)
	}
}

func TestRetryQueueRounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHall()
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) { n++; h.arrive(fmt.Sprint("p", n), rapid.IntRange(1, 6).Draw(t, "size")) },
			"leave": func(t *rapid.T) {
				name := fmt.Sprint("p", rapid.IntRange(0, n).Draw(t, "name"))
				delete(h.sizes, name)
				h.retries.Drop(types.NamespacedName{Namespace: "twin", Name: name})
			},
			"release": func(t *rapid.T) {
				h.release(rapid.IntRange(0, 8).Draw(t, "free"), refusalsPerRelease)
				for name, size := range h.sizes {
					if size <= h.free {
						t.Fatalf("%s waits with %d of %d free", name, size, h.free)
					}
				}
			},
			"release at once": func(t *rapid.T) { // while a round is under way
				h.free++
				h.retries.Retry("twin", refusalsPerRelease)
				h.free++
				h.retries.Retry("twin", unlimitedRefusals)
				h.run()
			},
			"": func(t *rapid.T) {
				for name, here := range h.retries.in {
					if here.pod.Name != "" {
						t.Fatalf("a round in %s has no end", name)
					}
				}
				if len(h.sizes) == 0 && len(h.retries.in) > 0 {
					t.Fatal("something is left")
				}
			},
		})
	})
}
