// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestClusterServesOurKinds(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "kinds", nil)
	quota := &offv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "q"}, Spec: offv1beta1.QuotaSpec{User: "milan", Resources: corev1.ResourceList{}}}
	if err := c.Client.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
}

func TestUserHasNoRightsUntilGiven(t *testing.T) {
	c := testkit.Cluster(t)
	user, err := client.New(c.User(t, "nobody", "guests"), client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	err = user.List(t.Context(), &corev1.PodList{})
	if !apierrors.IsForbidden(err) {
		t.Fatalf("listing pods: got %v, want forbidden", err)
	}
}

func TestPodsGetATokenVolume(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "pods", nil)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if err := c.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if got := len(pod.Spec.Volumes); got != 1 {
		t.Fatalf("got %d volumes, want the token volume alone", got)
	}
}

func TestNamespaceControllerEmptiesNamespaces(t *testing.T) {
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller"))
	name := testkit.Namespace(t, c, "gone", nil)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Client.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		err := c.Client.Get(t.Context(), client.ObjectKey{Name: name}, ns)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace %s: got %v, want not found", name, err)
		}
		return nil
	})
}

func TestSecondClusterIsAnother(t *testing.T) {
	first, second := testkit.Cluster(t), testkit.SecondCluster(t)
	ns := testkit.Namespace(t, first, "only-here", nil)
	err := second.Client.Get(t.Context(), client.ObjectKey{Name: ns}, &corev1.Namespace{})
	if !apierrors.IsNotFound(err) {
		t.Fatalf("namespace of the first cluster in the second: got %v, want not found", err)
	}
}

func TestOutageKeepsWhatWasStored(t *testing.T) {
	c := testkit.SecondCluster(t)
	ns := testkit.Namespace(t, c, "kept", nil)
	c.StopAPIServer(t)
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: ns}, &corev1.Namespace{}); err == nil {
		t.Fatal("a stopped API server answered")
	}
	c.StartAPIServer(t)
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: ns}, &corev1.Namespace{}); err != nil {
		t.Fatal(err)
	}
}
