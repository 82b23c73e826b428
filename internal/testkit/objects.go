// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// patience with what a controller is to do.
const patience = 3 * time.Minute

// Create makes objects.
func Create(t testing.TB, c client.Client, objs ...client.Object) {
	t.Helper()
	for _, obj := range objs {
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatalf("creating %T: %v", obj, err)
		}
	}
}

// Ensure makes an object what it is wanted to be.
func Ensure(t testing.TB, c *ControlPlane, obj client.Object) {
	t.Helper()
	if _, err := kube.Ensure(t.Context(), c.Client, obj); err != nil {
		t.Fatalf("ensuring %T: %v", obj, err)
	}
	if err := inForce(t.Context(), c.Client, obj); err != nil {
		t.Fatal(err)
	}
}

// Update changes an object until nobody was faster.
func Update[T client.Object](t testing.TB, c client.Client, obj T, edit func(T)) {
	t.Helper()
	Eventually(t, patience, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		edit(obj)
		return c.Update(t.Context(), obj)
	})
}

// UpdateStatus is Update for the status.
func UpdateStatus[T client.Object](t testing.TB, c client.Client, obj T, edit func(T)) {
	t.Helper()
	Eventually(t, patience, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		edit(obj)
		return c.Status().Update(t.Context(), obj)
	})
}

// Rule is one right.
func Rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// Allow gives a user rights in one namespace, or everywhere if it is "".
func Allow(t testing.TB, c *ControlPlane, namespace, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: user}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	if namespace == "" {
		ref.Kind = "ClusterRole"
		Ensure(t, c, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules})
		Ensure(t, c, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
		return
	}
	Ensure(t, c, &rbacv1.Role{ObjectMeta: meta, Rules: rules})
	Ensure(t, c, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
}

// UniqueID is another cluster's ID in every test: the API server is shared.
func UniqueID() string { return fmt.Sprintf("peer-%d", time.Now().UnixNano()) }

// WantEvent expects an event about an object.
func WantEvent(t testing.TB, c *ControlPlane, obj client.Object, reason, text string) {
	t.Helper()
	Eventually(t, patience, func() error {
		var list eventsv1.EventList
		if err := c.Client.List(t.Context(), &list, client.InNamespace(obj.GetNamespace())); err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			if e.Regarding.Name == obj.GetName() && e.Reason == reason && strings.Contains(e.Note, text) {
				return nil
			}
			seen = append(seen, e.Regarding.Name+" "+e.Reason+": "+e.Note)
		}
		return fmt.Errorf("no event %s on %s with %q among %q", reason, obj.GetName(), text, seen)
	})
}
