// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

func TestInformerPack(t *testing.T) {
	c := testkit.Cluster(t)
	namespace := testkit.Namespace(t, c, "packed", nil)
	cluster, err := kube.NewCluster(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	type change struct{ old, now client.Object }
	changes := make(chan change, 10)
	informer, err := kube.NewInformer(kube.InformerOptions{
		Cluster: cluster, Object: &corev1.Pod{}, Namespace: namespace, Pack: true,
		Changed: func(old, now client.Object) { changes <- change{old, now} },
	})
	if err != nil {
		t.Fatal(err)
	}
	go informer.Run(t.Context())
	next := func() change {
		t.Helper()
		select {
		case change := <-changes:
			return change
		case <-time.After(limit):
			t.Fatalf("nothing changed: %v", informer.Err())
			return change{}
		}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{}, AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "main", Image: "web:1", Env: []corev1.EnvVar{{Name: "EMPTY"}}}},
		},
	}
	testkit.Create(t, c.Client, pod)
	if made := next(); made.old != nil || made.now.GetName() != "web" {
		t.Errorf("a new object was told as %v", made)
	}
	was := pod.DeepCopy()
	pod.Labels["app"] = "other"
	if err := c.Client.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	edited := next()
	was.ManagedFields = nil
	if diff := cmp.Diff(was, edited.old, ignoreTypeMeta); diff != "" {
		t.Errorf("what it was before (-want +got):\n%s", diff)
	}
	now, read := pod.DeepCopy(), &corev1.Pod{Status: corev1.PodStatus{Reason: "of another"}}
	now.ManagedFields = nil
	if found, err := informer.Read(namespace, "web", read); err != nil || !found {
		t.Fatalf("Read: %v, %v", found, err)
	}
	for how, got := range map[string]client.Object{"Changed": edited.now, "Get": informer.Get(namespace, "web"), "List": informer.List()[0], "Read": read} {
		if diff := cmp.Diff(client.Object(now), got, ignoreTypeMeta); diff != "" {
			t.Errorf("%s (-want +got):\n%s", how, diff)
		}
	}
	if err := c.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	gone := next()
	for gone.now != nil { // it may be told to go first
		gone = next()
	}
	if gone.old.GetUID() != pod.UID {
		t.Errorf("an object that went was told as %v", gone)
	}
	if found, err := informer.Read(namespace, "web", read); err != nil || found || informer.Get(namespace, "web") != nil {
		t.Errorf("an object that went is still read: %v, %v", found, err)
	}
}

func TestInformerPackNeedsProtobuf(t *testing.T) {
	_, err := kube.NewInformer(kube.InformerOptions{Cluster: kube.Cluster{Scheme: kube.Scheme}, Object: &offv1beta1.ShadowPod{}, Pack: true})
	if err == nil || !strings.Contains(err.Error(), "ShadowPod has no protobuf encoding") {
		t.Errorf("got %v", err)
	}
}

var ignoreTypeMeta = cmp.FilterPath(func(p cmp.Path) bool { return strings.HasSuffix(p.GoString(), ".TypeMeta") }, cmp.Ignore())
