// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"testing"

	certv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// A virtual kubelet that was taken over reads and writes with the token of its ServiceAccount.
func TestVirtualKubelet(t *testing.T) {
	remote, local := read(t, consumer, pod(shop, "remote")), read(t, consumer, pod(payroll, "local"))
	node := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	own, physical := node(provider.ID), node(local.Spec.NodeName)
	if remote.Spec.NodeName != own.Name || physical.Name == "" || physical.Name == own.Name {
		t.Fatalf("pods are on the nodes %q and %q", remote.Spec.NodeName, physical.Name)
	}
	added := node("attacks-node")
	added.Labels = map[string]string{names.NodeType: names.NodeTypeVirtualNode}
	added.Spec.Taints = []corev1.Taint{{Key: names.VirtualNodeTaint, Value: "true", Effect: corev1.TaintEffectNoExecute}}
	lease := func(namespace, name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	event := func(of corev1.ObjectReference) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: "attack"}, InvolvedObject: of, Type: corev1.EventTypeNormal, Reason: "Test", Message: "test"}
	}
	configMap := func(namespace string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "attack"}}
	}
	mine := metav1.ObjectMeta{Namespace: consumerTenant, Name: provider.ID}
	const label, ownNode, ownPods = `{"metadata":{"labels":{"attacks/tier":"gold"}}}`, "its own node", "pods of its own node"
	labels := kubelet.patch(own, label)
	status := kubelet.patchStatus(remote, `{"status":{"message":"x"}}`)
	canary := kubelet.get(secret(shop, "canary"))
	admin := kubelet.impersonateAdmin(t, consumer)
	runAttacks(t, map[string]attack{
		"node":                 {kubelet.patch(physical, label), ownNode, labels},
		"node_status":          {kubelet.patchStatus(physical, `{"status":{"phase":"Terminated"}}`), ownNode, kubelet.patchStatus(own, `{"status":{"phase":"Running"}}`)},
		"node_without_taint":   {kubelet.patch(own, `{"spec":{"taints":null}}`), "keeps the taint", labels},
		"node_without_type":    {kubelet.patch(own, `{"metadata":{"labels":{"liqo.io/type":null}}}`), "keeps the label", labels},
		"control_plane_node":   {kubelet.patch(own, `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`), "no control-plane node", labels},
		"new_node":             {kubelet.create(added), ownNode, labels},
		"deletion_of_node":     {kubelet.remove(physical), forbidden, labels},
		"pod_status":           {kubelet.patchStatus(local, `{"status":{"phase":"Failed"}}`), ownPods, status},
		"pod_label":            {kubelet.patchStatus(remote, `{"metadata":{"labels":{"app":"database"}}}`), "may only change the labels", status},
		"pod_spec":             {kubelet.patch(remote, label), forbidden, status},
		"deletion_of_pod":      {kubelet.remove(local), ownPods, kubelet.remove(remote)},
		"new_pod":              {kubelet.create(pod(shop, "attack")), forbidden, status},
		"lease_of_node":        {kubelet.patch(lease(corev1.NamespaceNodeLease, physical.Name), label), "its own leases", kubelet.patch(lease(corev1.NamespaceNodeLease, own.Name), label)},
		"lease_of_leader":      {kubelet.create(lease(metav1.NamespaceSystem, "attack")), "its own leases", kubelet.create(lease(consumerTenant, "attack"))},
		"event_about_secret":   {kubelet.create(event(corev1.ObjectReference{Kind: "Secret", Namespace: payroll, Name: "canary"})), "may only write events", kubelet.create(event(corev1.ObjectReference{Kind: "Pod", Namespace: shop, Name: "remote"}))},
		"event_about_node":     {kubelet.create(event(corev1.ObjectReference{Kind: "Node", Namespace: metav1.NamespaceDefault, Name: physical.Name})), "may only write events", kubelet.create(event(corev1.ObjectReference{Kind: "Node", Namespace: metav1.NamespaceDefault, Name: own.Name}))},
		"token_without_a_pod":  {kubelet.token(shop, "default", nil), "bound to pods", kubelet.token(shop, "default", remote)},
		"token_of_account":     {kubelet.token(shop, "cashier", remote), "different serviceaccount", kubelet.token(shop, "default", remote)},
		"token_elsewhere":      {kubelet.token(payroll, "default", local), forbidden, kubelet.token(shop, "default", remote)},
		"secret":               {kubelet.get(secret(payroll, "canary")), forbidden, canary},
		"secret_elsewhere":     {kubelet.get(secret(elsewhere, "canary")), forbidden, canary},
		"all_secrets":          {kubelet.list(&corev1.SecretList{}, ""), forbidden, kubelet.list(&corev1.SecretList{}, shop)},
		"secrets_of_liqo":      {kubelet.list(&corev1.SecretList{}, names.LiqoNamespace), forbidden, canary},
		"tenant_secrets":       {kubelet.list(&corev1.SecretList{}, consumerTenant), forbidden, kubelet.get(secret(consumerTenant, names.KubeconfigSecret(names.SliceIdentity(provider.ID))))},
		"control_plane":        {kubelet.get(secret(consumerTenant, names.KubeconfigSecret(names.ControlPlaneIdentity(provider.ID)))), forbidden, canary},
		"config_maps":          {kubelet.list(&corev1.ConfigMapList{}, payroll), forbidden, kubelet.list(&corev1.ConfigMapList{}, shop)},
		"new_secret":           {kubelet.create(secret(shop, "attack")), forbidden, canary},
		"new_config_map":       {kubelet.create(configMap(shop)), forbidden, kubelet.list(&corev1.ConfigMapList{}, shop)},
		"namespace":            {kubelet.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: payroll}}, label), forbidden, labels},
		"offloading":           {kubelet.create(&offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: payroll, Name: "offloading"}}), forbidden, labels},
		"namespace_map":        {kubelet.patch(&offv1beta1.NamespaceMap{ObjectMeta: mine}, `{"spec":{"desiredMapping":{"`+payroll+`":"loot"}}}`), forbidden, kubelet.get(&offv1beta1.NamespaceMap{ObjectMeta: mine})},
		"namespace_map_status": {kubelet.patchStatus(&offv1beta1.NamespaceMap{ObjectMeta: mine}, `{"status":{"currentMapping":null}}`), forbidden, kubelet.get(&offv1beta1.NamespaceMap{ObjectMeta: mine})},
		"virtual_node":         {kubelet.patch(&offv1beta1.VirtualNode{ObjectMeta: mine}, label), forbidden, kubelet.get(&offv1beta1.VirtualNode{ObjectMeta: mine})},
		"foreign_cluster":      {kubelet.patchStatus(&liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: provider.ID}}, `{"status":{"role":"Unknown"}}`), forbidden, kubelet.list(&liqov1beta1.ForeignClusterList{}, "")},
		"role_binding":         {kubelet.create(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: payroll, Name: "attack"}}), forbidden, labels},
		"certificate_approval": {kubelet.patch(&certv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "attack"}}, label), forbidden, kubelet.list(&certv1.CertificateSigningRequestList{}, "")},
		"impersonation":        {admin.list(&corev1.SecretList{}, ""), "cannot impersonate", canary},
	})
}
