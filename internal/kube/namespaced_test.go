// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// requestRecorder collects the objects that a source named.
type requestRecorder struct {
	mu    sync.Mutex
	names []string
}

func (s *requestRecorder) Reconcile(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, req.String())
	return reconcile.Result{}, nil
}

func (s *requestRecorder) times(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, seen := range s.names {
		if seen == name {
			n++
		}
	}
	return n
}

func (s *requestRecorder) eventually(t *testing.T, name string, times int) {
	t.Helper()
	testkit.Eventually(t, limit, func() error {
		if got := s.times(name); got < times {
			return fmt.Errorf("%s was named %d times, want %d", name, got, times)
		}
		return nil
	})
}

// watchSecrets runs a NamespacedWatch of Secrets as a user who may read namespaces, and Secrets where allow says so.
func watchSecrets(t *testing.T, c *testkit.ControlPlane, user, tenantLabel string) (*kube.NamespacedWatch, *requestRecorder) {
	t.Helper()
	allow(t, c, "", user, "namespaces")
	watched := &requestRecorder{}
	var watch *kube.NamespacedWatch
	testkit.Manager(t, c.User(t, user), kube.ManagerOptions{}, func(mgr ctrl.Manager) error {
		watch = kube.NewNamespacedWatch(mgr.GetConfig(), mgr.GetCache(), &corev1.Secret{},
			labels.SelectorFromSet(labels.Set{"tenant": tenantLabel}), labels.SelectorFromSet(labels.Set{"ours": "true"}))
		if err := mgr.Add(watch); err != nil {
			return err
		}
		return ctrl.NewControllerManagedBy(mgr).Named("secrets").
			WatchesRawSource(watch.Source(&handler.EnqueueRequestForObject{})).Complete(watched)
	})
	return watch, watched
}

// allow lets a user read a resource, in one namespace or, without one, in the cluster.
func allow(t *testing.T, c *testkit.ControlPlane, namespace, user, resource string) {
	t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "read-" + resource},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get", "list", "watch"}}},
	}
	if err := client.IgnoreAlreadyExists(c.Client.Create(t.Context(), role)); err != nil {
		t.Fatal(err)
	}
	subjects := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
	meta := metav1.ObjectMeta{GenerateName: user + "-", Namespace: namespace}
	var binding client.Object = &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	if namespace == "" {
		binding = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	}
	if err := c.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
}

func secret(t *testing.T, c *testkit.ControlPlane, namespace, name string, labels map[string]string) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	if err := c.Client.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return s
}

var ours = map[string]string{"ours": "true"}

func TestNamespacedWatchLabelsAndPermissions(t *testing.T) {
	c := testkit.Cluster(t)
	first := testkit.Namespace(t, c, "watched", map[string]string{"tenant": "a"})
	later := testkit.Namespace(t, c, "later", nil)
	allow(t, c, first, "watcher", "secrets")
	secret(t, c, first, "x", ours)
	secret(t, c, first, "foreign", nil)
	secret(t, c, later, "y", ours)
	watch, watched := watchSecrets(t, c, "watcher", "a")
	watched.eventually(t, first+"/x", 1)

	// A namespace that is labelled before the right to read it is given.
	label(t, c, later, "a")
	testkit.Eventually(t, limit, func() error {
		err := watch.Get(t.Context(), client.ObjectKey{Namespace: later, Name: "y"}, &corev1.Secret{})
		if !kube.IsWait(err) {
			return fmt.Errorf("reading a namespace that cannot be read yet: got %v, want a wait", err)
		}
		return nil
	})
	if err := watch.List(t.Context(), &corev1.SecretList{}); !kube.IsWait(err) {
		t.Errorf("listing while one namespace is unknown: got %v, want a wait", err)
	}
	allow(t, c, later, "watcher", "secrets")
	watched.eventually(t, later+"/y", 1)
	var list corev1.SecretList
	testkit.Eventually(t, limit, func() error { return watch.List(t.Context(), &list) })
	var names []string
	for _, s := range list.Items {
		names = append(names, s.Namespace+"/"+s.Name)
	}
	want := []string{first + "/x", later + "/y"}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("listed %v, want %v", names, want)
	}

	// Without the label the namespace is no longer ours, and its objects are gone for those who listen.
	label(t, c, later, "none")
	watched.eventually(t, later+"/y", 2)
	err := watch.Get(t.Context(), client.ObjectKey{Namespace: later, Name: "y"}, &corev1.Secret{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want not found", err)
	}
	if got := watched.times(first + "/foreign"); got > 0 {
		t.Error("an object that the selector leaves out was named")
	}
}

func TestNamespacedWatchCopies(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "copies", map[string]string{"tenant": "copies"})
	allow(t, c, ns, "copier", "secrets")
	secret(t, c, ns, "x", ours)
	watch, watched := watchSecrets(t, c, "copier", "copies")
	watched.eventually(t, ns+"/x", 1)
	for range 2 {
		var got corev1.Secret
		testkit.Eventually(t, limit, func() error {
			return watch.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "x"}, &got)
		})
		if got.Labels["changed"] != "" {
			t.Fatal("the cache was changed by a reader")
		}
		got.Labels["changed"] = "by a reader"
	}
}

func label(t *testing.T, c *testkit.ControlPlane, namespace, value string) {
	t.Helper()
	ns := &corev1.Namespace{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: namespace}, ns); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(ns.DeepCopy())
	metav1.SetMetaDataLabel(&ns.ObjectMeta, "tenant", value)
	if err := c.Client.Patch(t.Context(), ns, patch); err != nil {
		t.Fatal(err)
	}
}

func TestManagerUnwatchedKinds(t *testing.T) {
	c := testkit.Cluster(t)
	var mgr ctrl.Manager
	testkit.Manager(t, c.Config, kube.ManagerOptions{}, func(m ctrl.Manager) error {
		mgr = m
		_, err := m.GetCache().GetInformer(t.Context(), &corev1.Namespace{})
		return err
	})
	testkit.Eventually(t, limit, func() error {
		return mgr.GetClient().List(t.Context(), &corev1.NamespaceList{})
	})
	if err := mgr.GetClient().List(t.Context(), &corev1.SecretList{}); err == nil {
		t.Error("a kind that nobody watches was read, and so is cached now")
	}
	var ns corev1.Namespace
	if err := mgr.GetClient().Get(t.Context(), client.ObjectKey{Name: "default"}, &ns); err != nil {
		t.Fatal(err)
	}
	if len(ns.ManagedFields) > 0 {
		t.Error("managed fields are cached")
	}
}
