// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/testkit"
)

// tokenOf is what a pod of an account on a node gets from its kubelet, or what the account gets by itself where there is none.
func tokenOf(t *testing.T, c *testkit.ControlPlane, account *corev1.ServiceAccount, node string) client.Client {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if node != "" {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, GenerateName: "fabric-"}, Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: account.Name, AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{Name: "c", Image: "i"}},
		}}
		testkit.Create(t, c.Client, pod)
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	if err := c.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(c.Config)
	cfg.BearerToken = request.Status.Token
	return clientOf(t, cfg)
}

func TestFabricPolicy(t *testing.T) {
	c := install(t)
	if err := c.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-system"}}); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-system", Name: "liqo-fabric"}}
	here, there := testkit.UniqueID(), testkit.UniqueID()
	internal := func(name string) *networkingv1beta1.InternalNode {
		return &networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	testkit.Create(t, c.Client, account, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: here}}, internal(here), internal(there))
	bind(t, c, "", "liqo-fabric", "system:serviceaccount:liqo-system:liqo-fabric")

	ofPod, ofNoPod := tokenOf(t, c, account, here), tokenOf(t, c, account, "")
	rights(t, func() error { return ofPod.Get(t.Context(), client.ObjectKey{Name: "x"}, internal("")) })
	const own = "only write the status of the InternalNode of that node"
	for name, tc := range map[string]struct {
		as         client.Client
		node, want string
	}{
		"its own node":                    {ofPod, here, ""},
		"another node":                    {ofPod, there, own},
		"a node by a token without a pod": {ofNoPod, here, own},
		"any node as an administrator":    {c.Client, there, ""},
	} {
		t.Run(name, func(t *testing.T) {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"nodeIP":{},"podCIDRs":["10.200.7.0/24"]}}`))
			dry := &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}}
			expect(t, tc.as.Status().Patch(t.Context(), internal(tc.node), patch, dry), tc.want)
		})
	}
}
