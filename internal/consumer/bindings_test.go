// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestKubeletTenantPermissions(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "prato", "prato-1", "")
	may := func(verb, secret string) bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               fmt.Sprintf("system:serviceaccount:%s:%s", vn.Namespace, vn.Name),
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: vn.Namespace, Verb: verb, Resource: "secrets", Name: secret},
		}}
		if err := c.Client.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}
	// Its right follows the VirtualNode.
	for _, name := range []string{"first", "second"} {
		testkit.Eventually(t, patience, func() error {
			now := &offv1beta1.VirtualNode{}
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(vn), now); err != nil {
				return err
			}
			now.Spec.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: name}
			return c.Client.Update(t.Context(), now)
		})
		testkit.Eventually(t, patience, func() error {
			for _, verb := range []string{"get", "list", "watch"} {
				if !may(verb, name) {
					return fmt.Errorf("it may not %s %s", verb, name)
				}
			}
			return nil
		})
	}
	for _, secret := range []string{"first", "controlplane-kubeconfig", ""} {
		for _, verb := range []string{"get", "list", "watch"} {
			if may(verb, secret) {
				t.Errorf("it may %s the Secret %q", verb, secret)
			}
		}
	}
}

func TestTenantBindingUpgrade(t *testing.T) {
	c := consumerCluster(t)
	tenant := testkit.Namespace(t, c, "peering-arezzo", map[string]string{names.RemoteClusterID: "arezzo", names.TenantNamespace: "true"})
	old := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: names.VirtualNodeBinding("arezzo-1")},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "liqo-virtual-kubelet-local-tenant"},
	}
	testkit.Create(t, c.Client, old)
	vn := provide(t, c, "arezzo", "arezzo-1", "")
	exists(t, c, kubeletOf(vn))
	if exists(t, c, old); old.RoleRef != tenantBinding(vn).RoleRef {
		t.Errorf("it binds %v", old.RoleRef)
	}
}
