// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// complains waits for the event about a VirtualNode.
func complains(t *testing.T, c *testkit.ControlPlane, vn *offv1beta1.VirtualNode, reason string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		all := &eventsv1.EventList{}
		if err := c.Client.List(t.Context(), all, client.InNamespace(vn.Namespace)); err != nil {
			return err
		}
		for _, e := range all.Items {
			if e.Regarding.Name == vn.Name && e.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("no event %s among %d", reason, len(all.Items))
	})
}

// A user who may make VirtualNodes in a namespace of its own gets no process with the rights of a virtual kubelet there.
func TestAVirtualNodeInANamespaceOfAUserGetsNoRights(t *testing.T) {
	c := home(t)
	provide(t, c, "mantua", "mantua-1", "")
	stray := vnode("stray", "mantua", "")
	stray.Namespace = testkit.Namespace(t, c, "user", nil)
	if err := c.Client.Create(t.Context(), &stray); err != nil {
		t.Fatal(err)
	}
	complains(t, c, &stray, "WrongNamespace")
	for _, obj := range []client.Object{clusterRoleBinding(&stray), serviceAccount(&stray), kubeletOf(&stray)} {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			t.Errorf("%T: %v", obj, err)
		}
	}
	namespace := &corev1.Namespace{}
	namespace.Name = stray.Namespace
	testkit.Update(t, c.Client, namespace, func(ns *corev1.Namespace) { ns.Labels = map[string]string{names.AllowVirtualNodes: "true"} })
	exists(t, c, kubeletOf(&stray))
}

// What runs with the rights of a virtual kubelet is ours.
func TestAVirtualKubeletRunsNoImageOfAUser(t *testing.T) {
	c := home(t)
	vn := provide(t, c, "ferrara", "ferrara-1", "")
	exists(t, c, kubeletOf(vn))
	testkit.Update(t, c.Client, vn, func(vn *offv1beta1.VirtualNode) {
		vn.Spec.Template = &offv1beta1.DeploymentTemplate{}
		vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{Name: "virtual-kubelet", Image: "example.com/mine:1"}}
	})
	complains(t, c, vn, "ImageNotAllowed")
	d := &appsv1.Deployment{}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(kubeletOf(vn)), d); err != nil {
		t.Fatal(err)
	}
	if image := d.Spec.Template.Spec.Containers[0].Image; image == "example.com/mine:1" {
		t.Errorf("it runs %s", image)
	}
}
