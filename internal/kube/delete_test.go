// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deleter records deletions, and answers each with the error of that name.
type deleter struct {
	client.Writer
	errs    map[string]error
	deleted []string
}

func (d *deleter) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	o := (&client.DeleteOptions{}).ApplyOptions(opts)
	text := obj.GetName() + " " + string(*o.Preconditions.UID)
	if len(o.DryRun) > 0 {
		text += " dry-run"
	}
	d.deleted = append(d.deleted, text)
	return d.errs[obj.GetName()]
}

func TestDeleteObjects(t *testing.T) {
	object := func(name string, at *metav1.Time) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: name, UID: types.UID("uid-" + name), DeletionTimestamp: at}}
	}
	all := []client.Object{object("a", nil), object("ending", new(metav1.Now())), object("gone", nil), object("denied", nil), object("last", nil)}
	of := schema.GroupResource{Resource: "configmaps"}
	d := &deleter{errs: map[string]error{"gone": apierrors.NewNotFound(of, "gone"), "denied": apierrors.NewForbidden(of, "denied", nil)}}
	err := DeleteObjects(t.Context(), d, all, client.DryRunAll)
	if want := []string{"a uid-a dry-run", "gone uid-gone dry-run", "denied uid-denied dry-run"}; !slices.Equal(d.deleted, want) {
		t.Errorf("deleted %q, want %q", d.deleted, want)
	}
	if !apierrors.IsForbidden(err) || err.Error() != `deleting liqo/denied: configmaps "denied" is forbidden: <nil>` {
		t.Errorf("it ended with %v", err)
	}
}

func TestDeleteObject(t *testing.T) {
	of := schema.GroupResource{Resource: "configmaps"}
	d := &deleter{errs: map[string]error{"gone": apierrors.NewNotFound(of, "gone"), "denied": apierrors.NewForbidden(of, "denied", nil)}}
	for name, want := range map[string]string{"there": "", "gone": "", "denied": `dropping denied: configmaps "denied" is forbidden: <nil>`} {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid"}}
		got := ""
		if err := DeleteObject(t.Context(), d, obj, "dropping %s", name); err != nil {
			got = err.Error()
		}
		if got != want || d.deleted[len(d.deleted)-1] != name+" uid" {
			t.Errorf("%s: %q, want %q; deleted %q", name, got, want, d.deleted)
		}
	}
}

func TestWaitForAnObject(t *testing.T) {
	now := func(version, uid string, finalizers ...string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "a", ResourceVersion: version, UID: types.UID(uid), Finalizers: finalizers}}
	}
	event := func(kind watch.EventType, obj *corev1.ConfigMap) watch.Event {
		return watch.Event{Type: kind, Object: obj}
	}
	for name, tc := range map[string]struct {
		events []watch.Event
		ready  bool // the wait is for readiness instead of the end
		want   string
		told   []string
	}{
		"end":     {events: []watch.Event{event(watch.Modified, now("8", "old", "x", "y")), event(watch.Deleted, now("9", "old"))}, told: []string{"ConfigMap liqo/a is still there, held by x", "ConfigMap liqo/a is still there, held by x, y"}},
		"another": {events: []watch.Event{event(watch.Modified, now("8", "new"))}, told: []string{"ConfigMap liqo/a is still there, held by x"}},
		"ready":   {events: []watch.Event{event(watch.Modified, now("8", "old"))}, ready: true, told: []string{"it is held"}},
		"deleted": {events: []watch.Event{event(watch.Deleted, now("8", "old"))}, ready: true, want: "the ConfigMap liqo/a was deleted while waiting", told: []string{"it is held"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var messages []string
				ctx := WithProgress(t.Context(), func(missing string) { messages = append(messages, missing) })
				script := &followed{reads: []*corev1.ConfigMap{now("7", "old", "x")}, events: [][]watch.Event{tc.events}}
				obj, got := now("7", "old"), ""
				wait := func() error { return WaitForDeletion(ctx, script, obj, nil) }
				if tc.ready {
					wait = func() error {
						return WaitForReady(ctx, script, obj, func(_ context.Context, obj *corev1.ConfigMap) error {
							if len(obj.Finalizers) > 0 {
								return Pending("it is held")
							}
							return nil
						})
					}
				}
				err := wait()
				if err != nil {
					got = err.Error()
				}
				if got != tc.want || !slices.Equal(messages, tc.told) {
					t.Errorf("it ended with %q and told %q; want %q and %q", got, messages, tc.want, tc.told)
				}
			})
		})
	}
}
