// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/testkit"
)

// TestMembers lets remote ConfigMaps name the items that they belong to.
func TestMembers(t *testing.T) {
	var mu sync.Mutex
	members, syncs := map[string]string{}, map[string]int{}
	s := play(t, multicluster.Kind{
		Name: "members",
		Remote: []multicluster.Source{{
			Object: &corev1.ConfigMap{}, Labels: mine, Members: true,
			Keys: func(o client.Object) []string { return strings.Fields(o.GetAnnotations()["items"]) },
		}},
		Sync: func(_ context.Context, it *multicluster.Item) error {
			mu.Lock()
			defer mu.Unlock()
			var names []string
			for _, cm := range multicluster.Of[*corev1.ConfigMap](it.Remote, it.Name) {
				names = append(names, cm.Name)
			}
			members[it.Name] = strings.Join(names, " ")
			syncs[it.Name]++
			return nil
		},
	})
	p := s.pair(t)
	set := func(name, items, value string) {
		t.Helper()
		cm := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: p.Remote, Name: name, Labels: map[string]string{mine: "true"}, Annotations: map[string]string{"items": items},
			},
			Data: map[string]string{"v": value},
		}
		err := s.far.Client.Create(t.Context(), cm)
		if err != nil {
			err = s.far.Client.Update(t.Context(), cm)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want map[string]string) {
		t.Helper()
		testkit.Eventually(t, limit, func() error {
			mu.Lock()
			defer mu.Unlock()
			for item, names := range want {
				if members[item] != names {
					return fmt.Errorf("item %s has %q, want %q", item, members[item], names)
				}
			}
			return nil
		})
	}
	set("a", "x y", "1")
	s.engine.Set([]multicluster.Pair{p})
	expect(map[string]string{"x": "a", "y": "a"})
	set("b", "x", "1")
	expect(map[string]string{"x": "a b", "y": "a"})

	mu.Lock()
	before := syncs["y"]
	mu.Unlock()
	set("a", "x y", "2") // a change of a member is no news to its items
	set("a", "x", "2")
	expect(map[string]string{"x": "a b", "y": ""})
	mu.Lock()
	if n := syncs["y"] - before; n != 1 {
		t.Errorf("item y was synced %d times, once for the member that left", n)
	}
	mu.Unlock()
	if err := s.far.Client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.Remote, Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	expect(map[string]string{"x": "b"})
}
