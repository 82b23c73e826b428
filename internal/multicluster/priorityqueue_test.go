// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"fmt"
	"slices"
	"testing"

	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"
)

func TestPriorityOfPeerChanges(t *testing.T) {
	urgent := map[string]bool{"c": true}
	l := newLanes(func(k itemKey) bool { return urgent[k.name] })
	for _, name := range []string{"a", "b", "c", "d"} {
		l.Push(itemKey{name: name})
	}
	urgent["b"] = true
	l.Touch(itemKey{name: "b"})
	var got []string
	for l.Len() > 0 {
		got = append(got, l.Pop().name)
	}
	if want := []string{"c", "b", "a", "d"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What was asked for first stays first, although both clusters are not known yet. What a peer has then is all new.
func TestPriorityOfParkedItem(t *testing.T) {
	k := newKind(Kind{Name: t.Name()}, "peer")
	defer k.queue.ShutDown()
	pk := &pairKind{kind: k, ctx: t.Context(), parked: map[string]bool{}}
	e := &Engine{pairs: map[Pair]*pairRun{{}: {kinds: map[string]*pairKind{"told": pk}}}}
	for i := range 50 {
		pk.enqueue(fmt.Sprint(i), true)
	}
	for _, name := range []string{"first", "7"} {
		e.EnqueueFirst("told", Pair{}, name)
		e.Enqueue("told", Pair{}, name)
	}
	pk.unparkItems()
	got := []string{}
	for range 2 {
		item, _ := k.queue.Get()
		got = append(got, item.name)
	}
	slices.Sort(got)
	if want := []string{"7", "first"}; !slices.Equal(got, want) {
		t.Errorf("%v go first, want %v", got, want)
	}
}

func TestPriorityStarvation(t *testing.T) {
	l := newLanes(func(k itemKey) bool { return k.name != "new" })
	l.Push(itemKey{name: "new"})
	for i := range fairness + 1 {
		l.Push(itemKey{name: fmt.Sprint(i)})
		if l.Pop().name == "new" {
			return
		}
	}
	t.Errorf("not among the first %d", fairness+1)
}

// Whatever is pushed and touched, each queued item comes out once.
func TestPriorityQueueLossless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		urgent, queued := map[itemKey]bool{}, map[itemKey]bool{}
		l := newLanes(func(k itemKey) bool { return urgent[k] })
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			item := itemKey{name: rapid.StringMatching("[a-f]").Draw(t, "item")}
			switch {
			case rapid.Bool().Draw(t, "pop") && len(queued) > 0:
				got := l.Pop()
				if !queued[got] {
					t.Fatalf("%v was not queued", got)
				}
				delete(queued, got)
				delete(urgent, got)
			case rapid.Bool().Draw(t, "urgent"):
				urgent[item] = true
				fallthrough
			default:
				if queued[item] {
					l.Touch(item)
				} else {
					l.Push(item)
				}
				queued[item] = true
			}
			if l.Len() != len(queued) {
				t.Fatalf("%d queued, want %d", l.Len(), len(queued))
			}
		}
	})
}
