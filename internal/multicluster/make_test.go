// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/multicluster"
)

// What is not in the cache may have been made a moment ago, by anybody.
func TestMakeExisting(t *testing.T) {
	results := make(chan string, 1)
	s := play(t, multicluster.Kind{
		Name:   "making",
		Local:  []multicluster.Source{{Object: &corev1.ConfigMap{}, Labels: mine}},
		Remote: []multicluster.Source{{Object: &corev1.ConfigMap{}, Labels: copied}},
		Sync: func(ctx context.Context, it *multicluster.Item) error {
			want := func(data map[string]string) *corev1.ConfigMap {
				return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: it.Name}, Data: data}
			}
			created, err := it.Remote.Make(ctx, want(map[string]string{"value": "ours", "more": "1"}))
			if created { // what was made is applied from then on: a field that goes away here goes there
				_, err = it.Remote.Apply(ctx, want(map[string]string{"value": "ours"}))
			}
			results <- fmt.Sprint(it.Name, " ", created, " ", err)
			return nil
		},
	})
	p := s.pair(t)
	put(t, s.far, p.Remote, "taken", "theirs") // not in the cache, for want of the label
	s.engine.Set([]multicluster.Pair{p})
	for name, want := range map[string]string{"taken": "taken false <nil>", "free": "free true <nil>"} {
		put(t, s.local, p.Local, name, "any", mine)
		if got := <-results; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	s.eventually(t, p, map[string]string{"taken": "theirs", "free": "ours"})
	var free corev1.ConfigMap
	if err := s.far.Client.Get(t.Context(), client.ObjectKey{Namespace: p.Remote, Name: "free"}, &free); err != nil || len(free.Data) != 1 {
		t.Errorf("it holds %v (%v)", free.Data, err)
	}
}
