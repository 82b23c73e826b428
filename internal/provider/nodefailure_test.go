// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// ending makes a pod on a node and deletes it: nobody is there to end it.
func ending(t *testing.T, c *testkit.ControlPlane, namespace, name, node string, labels map[string]string, grace int64) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	pod.Spec = corev1.PodSpec{
		NodeName: node, AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{Name: "c", Image: "i"}},
		TerminationGracePeriodSeconds: &grace,
	}
	testkit.Create(t, c.Client, pod)
	if err := c.Client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func nodeWith(t *testing.T, c *testkit.ControlPlane, name string, ready corev1.ConditionStatus) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	testkit.Create(t, c.Client, node)
	say(t, c, node, ready)
	return node
}

func say(t *testing.T, c *testkit.ControlPlane, node *corev1.Node, ready corev1.ConditionStatus) {
	t.Helper()
	testkit.UpdateStatus(t, c.Client, node, func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	})
}

func TestNodeFailure(t *testing.T) {
	c := testkit.Cluster(t)
	testkit.Manager(t, c.Config, kube.ManagerOptions{Name: "host"}, func(mgr ctrl.Manager) error {
		return SetupShadowPods(mgr, ShadowPodOptions{NodeFailure: true})
	})
	ns := testkit.Namespace(t, c, "failing", nil)
	ours := map[string]string{names.ManagedBy: madeFrom}
	dead, silent, well := nodeWith(t, c, "dead-"+ns, corev1.ConditionFalse), nodeWith(t, c, "silent-"+ns, corev1.ConditionUnknown), nodeWith(t, c, "well-"+ns, corev1.ConditionTrue)

	stays := []*corev1.Pod{
		ending(t, c, ns, "of-a-healthy-node", well.Name, ours, 1),
		ending(t, c, ns, "of-somebody-else", dead.Name, nil, 1),
		ending(t, c, ns, "in-its-time", dead.Name, ours, 3600),
	}
	goes := []*corev1.Pod{
		ending(t, c, ns, "of-a-dead-node", dead.Name, ours, 1),
		ending(t, c, ns, "of-a-silent-node", silent.Name, ours, 1),
	}
	for _, pod := range goes {
		waitUntilDeleted(t, c, pod)
		event := fmt.Sprintf("The node %s is not ready and did not end the pod in time: it is removed, to run elsewhere", pod.Spec.NodeName)
		testkit.Eventually(t, patience, func() error {
			var list eventsv1.EventList
			if err := c.Client.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
				return err
			}
			for _, e := range list.Items {
				if e.Regarding.UID == pod.UID && e.Reason == reasonNodeFailed && e.Note == event {
					return nil
				}
			}
			return errors.New("no event says so")
		})
	}
	for _, pod := range stays {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			t.Errorf("%s: %v", pod.Name, err)
		}
	}
	// A node may fail later than its pods are deleted.
	say(t, c, well, corev1.ConditionUnknown)
	waitUntilDeleted(t, c, stays[0])
	for _, pod := range stays[1:] {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); apierrors.IsNotFound(err) {
			t.Errorf("%s was removed", pod.Name)
		}
	}
}
