// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cached is a cache with these pods, in this order: a real one has them in any.
type cached struct {
	client.Client
	pods []corev1.Pod
}

func (c cached) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*corev1.PodList).Items = c.pods
	return nil
}

// The provider lets in who asks first, and those that it refused may ask anew now.
func TestNetworkOldestPodsFirst(t *testing.T) {
	pod := func(namespace, name string, second int64) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(time.Unix(second, 0))}}
	}
	pods := []corev1.Pod{pod("b", "two", 20), pod("b", "four", 40), pod("a", "two", 20), pod("a", "three", 30), pod("c", "one", 10), pod("a", "deux", 20)}
	var got []string
	n := &networkState{client: cached{pods: pods}, changed: func(pod client.ObjectKey) { got = append(got, pod.String()) }}
	if err := n.lookAtPods(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"c/one", "a/deux", "a/two", "b/two", "a/three", "b/four"}, got); diff != "" {
		t.Error(diff)
	}
}
