// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// listCounter counts lists, and keeps the last watch so that a test can end it.
type listCounter struct {
	client.WithWatch
	lists int
	last  watch.Interface
}

// List counts.
func (c *listCounter) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.lists++
	return c.WithWatch.List(ctx, list, opts...)
}

// Watch keeps the watch.
func (c *listCounter) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	events, err := c.WithWatch.Watch(ctx, list, opts...)
	c.last = events
	return events, err
}

// TestWaitForList has a list that is read once and then changes, and is read again after its watch ended.
func TestWaitForList(t *testing.T) {
	c := testkit.Cluster(t)
	namespace := testkit.Namespace(t, c, "list", nil)
	labels := map[string]string{"of": "list"}
	object := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	}
	first := object("first")
	testkit.Create(t, c.Client, first, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}})
	counted := &listCounter{WithWatch: c.Client}
	steps := []struct {
		want string // of the list, after the step before
		do   func()
	}{
		{"first=", func() { testkit.Create(t, c.Client, object("second")) }},
		{"first= second=", func() {
			testkit.Update(t, c.Client, first, func(m *corev1.ConfigMap) { m.Data = map[string]string{"x": "1"} })
		}},
		{"first=1 second=", func() { testkit.Update(t, c.Client, first, func(m *corev1.ConfigMap) { m.Labels = nil }) }},
		{"second=", func() { testkit.Update(t, c.Client, first, func(m *corev1.ConfigMap) { m.Labels = labels }) }},
		{"first=1 second=", func() {
			if err := c.Client.Delete(t.Context(), object("second")); err != nil {
				t.Error(err)
			}
		}},
		{"first=1", func() {
			counted.last.Stop()
			testkit.Create(t, c.Client, object("third"))
		}},
		{"first=1 third=", nil},
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var list corev1.ConfigMapList
	err := kube.WaitForList(ctx, counted, &list, func(context.Context) error {
		var texts []string
		for _, m := range list.Items {
			texts = append(texts, m.Name+"="+m.Data["x"])
		}
		slices.Sort(texts)
		if got := strings.Join(texts, " "); got != steps[0].want {
			return kube.Pending(fmt.Sprintf("the list is %q, not %q", got, steps[0].want))
		}
		if steps[0].do == nil {
			return nil
		}
		steps[0].do()
		steps = steps[1:]
		return kube.Pending("the next step")
	}, client.InNamespace(namespace), client.MatchingLabels(labels))
	if err != nil || counted.lists != 2 {
		t.Errorf("%v after %d lists", err, counted.lists)
	}
}
