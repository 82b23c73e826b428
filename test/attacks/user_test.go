// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

// authenticate returns a user, as a ServiceAccount with a token of its own.
func authenticate(t *testing.T, of *clusters.Cluster, namespace, name string) attacker {
	t.Helper()
	out, err := accountParty(t.Context(), of, namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func virtualNode(namespace, name, image string) *offv1beta1.VirtualNode {
	vn := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	vn.Spec.ClusterID, vn.Spec.CreateNode = liqov1beta1.ClusterID(provider.ID), new(false)
	if image != "" {
		vn.Spec.Template = &offv1beta1.DeploymentTemplate{}
		vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{Name: "virtual-kubelet", Image: image}}
	}
	return vn
}

// A user of the consumer who may make VirtualNodes gets no process with the rights of a virtual kubelet by them, but where an administrator
// says so.
func TestUserVirtualNodes(t *testing.T) {
	dev := authenticate(t, consumer, "attacks-dev", "dev")
	allowed := dev.create(virtualNode("attacks-nodes", "attack", ""))
	runAttacks(t, map[string]attack{
		"own_namespace":    {dev.create(virtualNode("attacks-dev", "attack", "")), "must be in the tenant namespace", allowed},
		"tenant_namespace": {dev.create(virtualNode(consumerTenant, "attack", "")), forbidden, allowed},
		"name_of_node":     {dev.create(virtualNode("attacks-nodes", provider.ID, "")), "exists already", allowed},
		"image":            {dev.create(virtualNode("attacks-nodes", "attack", "docker.io/library/busybox:latest")), "virtualKubelet.images", allowed},
	})
	t.Run("kubelet", func(t *testing.T) { kubeletOfUser(t, dev) })
}

// kubeletOfUser checks that the VirtualNode of a user gets a virtual kubelet with the image of the installation: what the refused ones lack.
func kubeletOfUser(t *testing.T, dev attacker) {
	vn := virtualNode("attacks-nodes", "attacks-plain", "")
	if err := dev.Create(t.Context(), vn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kubectl(t, consumer, "", "delete", "virtualnode", vn.Name, "-n", vn.Namespace, "--timeout=2m") })
	story.Eventually(t, "the virtual kubelet with the image of the installation", patience, func(ctx context.Context) error {
		return consumer.Client.Get(ctx, client.ObjectKey{Namespace: vn.Namespace, Name: names.VirtualKubelet(vn.Name)}, &appsv1.Deployment{})
	})
}

// A user of the provider who may make and change namespaces decides nothing about peers.
func TestUserNamespaces(t *testing.T) {
	portal := authenticate(t, provider, staff, "portal")
	namespace := func(labels map[string]string) request {
		return portal.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "attacks-new", Labels: labels}})
	}
	patch := func(name, text string) request {
		return portal.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, text)
	}
	const originate, team = "may originate tenants", `{"metadata":{"labels":{"team":"x"}}}`
	runAttacks(t, map[string]attack{
		"second_tenant_namespace": {namespace(map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: consumer.ID}), originate, namespace(map[string]string{"team": "x"})},
		"tenant_labels":           {patch(staff, `{"metadata":{"labels":{"liqo.io/tenant-namespace":"true","liqo.io/remote-cluster-id":"`+consumer.ID+`"}}}`), originate, patch(staff, team)},
		"tenant_label_removal":    {patch(providerTenant, `{"metadata":{"labels":{"liqo.io/tenant-namespace":null}}}`), originate, patch(providerTenant, team)},
		"other_cluster":           {patch(providerTenant, `{"metadata":{"labels":{"liqo.io/remote-cluster-id":"cl-other"}}}`), originate, patch(providerTenant, team)},
	})
}
