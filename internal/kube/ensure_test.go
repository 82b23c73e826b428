// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// applier applies in a namespace of its own and counts what is sent.
type applier struct {
	client    client.Client
	namespace string
	traffic   *writeCounter
}

func newApplier(t *testing.T) *applier {
	t.Helper()
	c := testkit.Cluster(t)
	cfg, counts := counted(c.Config)
	direct, err := client.New(cfg, client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &applier{client: direct, namespace: testkit.Namespace(t, c, "ensure", nil), traffic: counts}
}

func (a *applier) ensure(t *testing.T, want client.Object, opts ...kube.EnsureOption) bool {
	t.Helper()
	changed, err := kube.Ensure(t.Context(), a.client, want, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func (a *applier) get(t *testing.T, name string, into client.Object) {
	t.Helper()
	if err := a.client.Get(t.Context(), client.ObjectKey{Namespace: a.namespace, Name: name}, into); err != nil {
		t.Fatal(err)
	}
}

func (a *applier) configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "x"}, Data: data}
}

func TestEnsureEqual(t *testing.T) {
	a := newApplier(t)
	labels := map[string]string{"app": "web"}
	deployment := func() client.Object {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "x", Labels: labels},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{
						Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
						Containers: []corev1.Container{{
							Name: "c", Image: "i", Args: []string{"a", "b"},
							Ports:     []corev1.ContainerPort{{ContainerPort: 80}},
							Env:       []corev1.EnvVar{{Name: "E", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}},
							Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1000m"), "memory": resource.MustParse("1024Mi")}},
						}},
					},
				},
			},
		}
	}
	for name, want := range map[string]func() client.Object{
		"a typed Deployment, which the API server fills with defaults": deployment,
		"a RoleBinding": func() client.Object {
			return &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "x"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
				Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "milan"}},
			}
		},
		"an unstructured Service with a number for a port": func() client.Object {
			return &unstructured.Unstructured{Object: parse(t, `
apiVersion: v1
kind: Service
metadata: {name: x, namespace: `+a.namespace+`}
spec: {selector: {app: web}, ports: [{port: 80}]}
`)}
		},
		"a custom resource with zero values": func() client.Object {
			return &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "x"}, Spec: authv1beta1.TenantSpec{ClusterID: "milan"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !a.ensure(t, want()) {
				t.Error("the first call changed nothing")
			}
			sent := a.traffic.of("/x")
			for range 3 {
				if a.ensure(t, want()) {
					t.Error("a later call changed something")
				}
			}
			if got := a.traffic.of("/x"); got != sent {
				t.Errorf("%d requests were sent for what is equal", got-sent)
			}
		})
	}
}

func TestEnsureRemovesFields(t *testing.T) {
	a := newApplier(t)
	a.ensure(t, a.configMap(map[string]string{"a": "1", "b": "2"}))
	if !a.ensure(t, a.configMap(map[string]string{"a": "1"})) {
		t.Error("a removed key was not noticed")
	}
	var got corev1.ConfigMap
	a.get(t, "x", &got)
	if diff := cmp.Diff(map[string]string{"a": "1"}, got.Data); diff != "" {
		t.Error(diff)
	}
}

func TestEnsureRepairs(t *testing.T) {
	a := newApplier(t)
	want := a.configMap(map[string]string{"a": "1"})
	a.ensure(t, want)
	var current corev1.ConfigMap
	a.get(t, "x", &current)
	current.Data = map[string]string{"a": "changed", "theirs": "kept"}
	if err := a.client.Update(t.Context(), &current); err != nil {
		t.Fatal(err)
	}
	if !a.ensure(t, want) {
		t.Error("a changed value was not noticed")
	}
	a.get(t, "x", &current)
	if diff := cmp.Diff(map[string]string{"a": "1", "theirs": "kept"}, current.Data); diff != "" {
		t.Error(diff)
	}
}

func TestEnsureTwoManagers(t *testing.T) {
	a := newApplier(t)
	ours, foreign := a.configMap(map[string]string{"a": "1"}), a.configMap(map[string]string{"b": "2"})
	a.ensure(t, ours)
	a.ensure(t, foreign, kube.FieldManager("another"))
	if a.ensure(t, ours) || a.ensure(t, foreign, kube.FieldManager("another")) {
		t.Error("two managers of one object write in turn")
	}
	a.ensure(t, a.configMap(nil), kube.FieldManager("another"))
	var got corev1.ConfigMap
	a.get(t, "x", &got)
	if diff := cmp.Diff(map[string]string{"a": "1"}, got.Data); diff != "" {
		t.Error(diff)
	}
}

func TestEnsureKeepsArgument(t *testing.T) {
	a := newApplier(t)
	owner := a.configMap(nil)
	owner.Name = "owner"
	if err := a.client.Create(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	want := a.configMap(map[string]string{"a": "1"})
	// The hash of another cluster's writer must not come along with a copied object.
	want.Annotations = map[string]string{names.AppliedHash: "foreign", names.AppliedHash + ".liqo-replicator": "foreign", "kept": "yes"}
	before := want.DeepCopy()
	a.ensure(t, want, kube.OwnedBy(owner, kube.Scheme))
	if diff := cmp.Diff(before, want); diff != "" {
		t.Error(diff)
	}
	var got corev1.ConfigMap
	a.get(t, "x", &got)
	if controller := metav1.GetControllerOf(&got); controller == nil || controller.UID != owner.UID {
		t.Errorf("the controller is %v, want %s", controller, owner.Name)
	}
	if len(got.Annotations) != 2 || got.Annotations["kept"] != "yes" || got.Annotations[names.AppliedHash] == "foreign" {
		t.Errorf("annotations %v, want ours and the kept one", got.Annotations)
	}
}

func TestEnsureTerminating(t *testing.T) {
	a := newApplier(t)
	old := a.configMap(nil)
	old.Finalizers = []string{"test.liqo.io/hold"}
	if err := a.client.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := a.client.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.Ensure(t.Context(), a.client, a.configMap(map[string]string{"a": "1"})); !kube.IsWait(err) {
		t.Errorf("got %v, want a wait", err)
	}
	a.get(t, "x", old)
	old.Finalizers = nil
	if err := a.client.Update(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if !a.ensure(t, a.configMap(map[string]string{"a": "1"})) {
		t.Error("the object was not made again")
	}
}

func TestApplyMetadata(t *testing.T) {
	a := newApplier(t)
	want := a.configMap(map[string]string{"a": "1"})
	want.Labels = map[string]string{"app": "web"}
	application, err := kube.NewApplication(want, corev1.SchemeGroupVersion.WithKind("ConfigMap"), "tests")
	if err != nil {
		t.Fatal(err)
	}
	now, err := application.Apply(t.Context(), a.client, nil)
	if err != nil {
		t.Fatal(err)
	}
	stored := &corev1.ConfigMap{}
	a.get(t, "x", stored)
	if now == nil || now.UID != stored.UID || now.ResourceVersion != stored.ResourceVersion || now.Labels["app"] != "web" {
		t.Errorf("%+v is not the metadata of %+v", now, stored.ObjectMeta)
	}
	if now, err = application.Apply(t.Context(), a.client, stored); now != nil || err != nil {
		t.Errorf("%v, %v for what is there already", now, err)
	}
}

// A cache shows an object for a moment after it is gone, or after another took its name.
func TestApplyOtherUID(t *testing.T) {
	a := newApplier(t)
	a.ensure(t, a.configMap(map[string]string{"k": "v"}))
	old := &corev1.ConfigMap{}
	a.get(t, "x", old)
	application, err := kube.NewApplication(a.configMap(map[string]string{"k": "w"}), corev1.SchemeGroupVersion.WithKind("ConfigMap"), names.FieldManager)
	if err != nil {
		t.Fatal(err)
	}
	refused := func() {
		t.Helper()
		if _, err := application.Apply(t.Context(), a.client, old); err == nil || kube.Classify(err).Failed() || kube.Classify(err).Invalid() {
			t.Errorf("applying to one that is gone: %v", err)
		}
	}
	if err := a.client.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	refused()
	decided := func() {
		t.Helper()
		if changed, err := kube.Ensure(t.Context(), a.client, a.configMap(nil), kube.DecidedOf(old.UID)); changed || !kube.IsWait(err) {
			t.Errorf("%v, %v for what was decided of one that is gone", changed, err)
		}
	}
	decided()
	a.ensure(t, a.configMap(map[string]string{"k": "other"}))
	refused()
	decided()
	now := &corev1.ConfigMap{}
	if a.get(t, "x", now); now.Data["k"] != "other" {
		t.Errorf("the one that took its name has %v", now.Data)
	}
	if _, err := application.Apply(t.Context(), a.client, now); err != nil {
		t.Error(err)
	}
}

// staleClient reads nothing that is there, as a cache does for a moment.
type staleClient struct{ client.Client }

func (staleClient) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(corev1.Resource("configmaps"), key.Name)
}

func TestEnsureStaleCache(t *testing.T) {
	a := newApplier(t)
	direct := a.client
	a.client = staleClient{direct}
	if !a.ensure(t, a.configMap(map[string]string{"k": "first"}), kube.AsSeen()) {
		t.Error("what is not there is not made")
	}
	if changed, err := kube.Ensure(t.Context(), a.client, a.configMap(map[string]string{"k": "second"}), kube.AsSeen()); changed || !kube.IsWait(err) {
		t.Errorf("%v, %v for what is there and not seen yet", changed, err)
	}
	a.client = direct
	now := &corev1.ConfigMap{}
	if a.get(t, "x", now); now.Data["k"] != "first" {
		t.Errorf("it was written over: %v", now.Data)
	}
	if !a.ensure(t, a.configMap(map[string]string{"k": "second"}), kube.AsSeen()) {
		t.Error("what is seen is not changed")
	}
}

func TestEnsureUnknownFields(t *testing.T) {
	a := newApplier(t)
	for _, known := range []bool{false, true} {
		spec := map[string]any{"clusterID": "milan"}
		if !known {
			spec["clusterName"] = "milan"
		}
		tenant := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": authv1beta1.GroupVersion.String(), "kind": "Tenant",
			"metadata": map[string]any{"namespace": a.namespace, "name": "x"}, "spec": spec,
		}}
		changed, err := kube.Ensure(t.Context(), a.client, tenant)
		switch {
		case known && (err != nil || !changed):
			t.Errorf("changed is %v, the error %v", changed, err)
		case !known && (err == nil || !strings.Contains(err.Error(), "clusterName")):
			t.Errorf("the error does not name the field: %v", err)
		}
	}
}

// Whoever applies at the same time does so under its own name.
func TestApplyFieldManagers(t *testing.T) {
	a := newApplier(t)
	var all sync.WaitGroup
	for n := range 16 {
		name := fmt.Sprintf("x-%d", n)
		all.Go(func() {
			want := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name}, Data: map[string]string{"a": "1"}}
			if _, err := kube.Ensure(t.Context(), a.client, want, kube.FieldManager("manager-of-"+name)); err != nil {
				t.Error(err)
				return
			}
			stored := &corev1.ConfigMap{}
			if err := a.client.Get(t.Context(), client.ObjectKeyFromObject(want), stored); err != nil {
				t.Error(err)
			} else if len(stored.ManagedFields) != 1 || stored.ManagedFields[0].Manager != "manager-of-"+name {
				t.Errorf("%s is managed by %v", name, stored.ManagedFields)
			}
		})
	}
	all.Wait()
}
