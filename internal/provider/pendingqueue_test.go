// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// What is free goes to those who would get it if unlimitedRefusals were asked in turn.
func TestPendingQueueServe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, all := newPendingQueue(), map[types.NamespacedName]*pendingPod{}
		size := func(w *pendingPod) int { return int(w.need.Cpu().Value()) }
		rank := func(w *pendingPod) string { return listText(w.need) }
		key := rapid.Custom(func(t *rapid.T) types.NamespacedName {
			return types.NamespacedName{Name: fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "name"))}
		})
		turn := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				k := key.Draw(t, "key")
				l.removePod(k)
				turn++
				w := &pendingPod{key: k, created: time.Unix(rapid.Int64Range(0, 3).Draw(t, "second"), 0), turn: turn, need: cpus(fmt.Sprint(rapid.IntRange(1, 4).Draw(t, "size")))}
				all[k] = w
				l.addPod(w, rank(w))
			},
			"move": func(t *rapid.T) {
				if w := l.of[key.Draw(t, "key")]; w != nil {
					w.need = cpus(fmt.Sprint(rapid.IntRange(1, 4).Draw(t, "size")))
					l.movePod(w, rank(w))
				}
			},
			"lose hope": func(t *rapid.T) {
				if w := l.of[key.Draw(t, "key")]; w != nil {
					l.movePod(w, unsatisfiable)
				}
			},
			"remove": func(t *rapid.T) {
				k := key.Draw(t, "key")
				if got := l.removePod(k); got != all[k] {
					t.Fatalf("removed %v, want %v", got, all[k])
				}
				delete(all, k)
			},
			"serve": func(t *rapid.T) {
				free := rapid.IntRange(0, 12).Draw(t, "free")
				var waiting []*pendingPod
				for _, w := range all {
					if w.rank != unsatisfiable {
						waiting = append(waiting, w)
					}
				}
				slices.SortFunc(waiting, inOrder)
				var want, got []string
				remaining := free
				for _, w := range waiting {
					if size(w) <= remaining {
						want, remaining = append(want, w.key.Name), remaining-size(w)
					}
				}
				remaining = free
				l.servePods(func(w *pendingPod) bool {
					if size(w) > remaining {
						return false
					}
					got, remaining = append(got, w.key.Name), remaining-size(w)
					l.removePod(w.key)
					delete(all, w.key)
					return true
				})
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("served (-want +got):\n%s", diff)
				}
			},
			"": func(t *rapid.T) {
				count := 0
				for _, same := range l.ranks {
					count += len(same)
				}
				for _, w := range l.of {
					if w.rank == unsatisfiable {
						count++
					}
				}
				if len(l.of) != len(all) || count != len(all) {
					t.Fatalf("%d wait, %d in ranks, want %d", len(l.of), count, len(all))
				}
			},
		})
	})
}
