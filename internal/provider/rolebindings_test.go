// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func tenantIn(t *testing.T, c *testkit.ControlPlane, namespace string) *authv1beta1.Tenant {
	t.Helper()
	tenants := &authv1beta1.TenantList{}
	if err := c.Client.List(t.Context(), tenants, client.InNamespace(namespace)); err != nil || len(tenants.Items) != 1 {
		t.Fatalf("%d Tenants, %v", len(tenants.Items), err)
	}
	return &tenants.Items[0]
}

// setTenantReady says what the controller of Tenants says of the Tenant as it is now.
func setTenantReady(t *testing.T, c *testkit.ControlPlane, namespace string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	tenant := tenantIn(t, c, namespace)
	before := tenant.DeepCopy()
	apimeta.SetStatusCondition(&tenant.Status.Conditions, metav1.Condition{
		Type: authv1beta1.TenantReady, Status: status, Reason: reason, ObservedGeneration: tenant.Generation,
	})
	if err := c.Client.Status().Patch(t.Context(), tenant, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// grant makes what a granted slice leaves in the namespace of the peering.
func grant(t *testing.T, c *testkit.ControlPlane, namespace, user string) *offv1beta1.Quota {
	t.Helper()
	quota := &offv1beta1.Quota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user},
		Spec:       offv1beta1.QuotaSpec{User: user, Resources: corev1.ResourceList{}},
	}
	if err := c.Client.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	return quota
}

func subjectsAre(rb *rbacv1.RoleBinding, users ...string) error {
	var want []rbacv1.Subject
	for _, user := range users {
		want = append(want, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user})
	}
	if diff := cmp.Diff(want, rb.Subjects); diff != "" {
		return fmt.Errorf("subjects: %s", diff)
	}
	return nil
}

func TestRightsTenantNotReady(t *testing.T) {
	c := provider(t, NamespaceMapOptions{})
	nm := stranger(t, c, "olive", map[string]string{"demo": "demo-olive"})
	grant(t, c, nm.Namespace, "pool-olive")
	missing := func(name string) {
		t.Helper()
		if err := c.Client.Get(t.Context(), client.ObjectKey{Name: name}, namespaceOf("")); !apierrors.IsNotFound(err) {
			t.Errorf("namespace %s: %v", name, err)
		}
	}

	mapping(t, c, nm, "demo", "demo-olive", offv1beta1.MappingCreationLoopBackOff)
	missing("demo-olive")
	setTenantReady(t, c, nm.Namespace, metav1.ConditionFalse, "ClusterIDTaken")
	waitForEvent(t, c, nm, "CreationLoopBackOff", "the Tenant is not ready")
	missing("demo-olive")

	setTenantReady(t, c, nm.Namespace, metav1.ConditionTrue, "TenantReady")
	mapping(t, c, nm, "demo", "demo-olive", offv1beta1.MappingAccepted)
	rb := bindingIn(nm, "demo-olive")
	eventually(t, c, rb, func() error { return subjectsAre(rb, "pool-olive") })

	t.Run("refused Tenant loses permissions and keeps namespace", func(t *testing.T) {
		setTenantReady(t, c, nm.Namespace, metav1.ConditionFalse, "NotUnique")
		waitUntilDeleted(t, c, bindingIn(nm, "demo-olive"))
		mapping(t, c, nm, "demo", "demo-olive", offv1beta1.MappingAccepted)
		setTenantReady(t, c, nm.Namespace, metav1.ConditionTrue, "TenantReady")
		rb = bindingIn(nm, "demo-olive")
		eventually(t, c, rb, func() error { return subjectsAre(rb, "pool-olive") })
	})
	t.Run("unprocessed change keeps existing bindings", func(t *testing.T) {
		switchTenant(t, c, nm.Namespace, authv1beta1.TenantConditionCordoned)
		more := ""
		for i := 0; nm.Status.CurrentMapping[more].Phase != offv1beta1.MappingCreationLoopBackOff; i++ { // until the controller has learnt of it
			more = fmt.Sprint("more-", i)
			desire(t, c, nm, more, more+"-olive")
			eventually(t, c, nm, func() error {
				if phase := nm.Status.CurrentMapping[more].Phase; phase != offv1beta1.MappingCreationLoopBackOff && phase != offv1beta1.MappingAccepted {
					return fmt.Errorf("phase of %s is %q", more, phase)
				}
				return nil
			})
		}
		more = "later" // the one before may have been made when its mapping was not written yet
		desire(t, c, nm, more, more+"-olive")
		mapping(t, c, nm, more, more+"-olive", offv1beta1.MappingCreationLoopBackOff)
		missing(more + "-olive")
		uid := rb.UID
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(rb), rb); err != nil || rb.UID != uid {
			t.Errorf("the binding was withdrawn: %v", err)
		}
		setTenantReady(t, c, nm.Namespace, metav1.ConditionTrue, "TenantCordoned")
		mapping(t, c, nm, more, more+"-olive", offv1beta1.MappingAccepted)
		rb := bindingIn(nm, more+"-olive")
		eventually(t, c, rb, func() error { return subjectsAre(rb, "pool-olive") })
	})
}

// The certificates of all slices of a consumer have its group, and cannot be revoked.
func TestRightsOfUsers(t *testing.T) {
	c := provider(t, NamespaceMapOptions{})
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: names.RoleVirtualKubeletRemote},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}},
	}
	if err := c.Client.Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	nm := stranger(t, c, "plum", map[string]string{"demo": "demo-plum"})
	setTenantReady(t, c, nm.Namespace, metav1.ConditionTrue, "TenantReady")
	mapping(t, c, nm, "demo", "demo-plum", offv1beta1.MappingAccepted)
	may := func(user string, want bool) {
		t.Helper()
		as, err := client.New(c.User(t, user, "plum"), client.Options{Scheme: kube.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, patience, func() error {
			err := as.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace("demo-plum"))
			if want && err != nil || !want && !apierrors.IsForbidden(err) {
				return fmt.Errorf("%s works in the twin: want %t, got %v", user, want, err)
			}
			return nil
		})
	}
	rb := bindingIn(nm, "demo-plum")
	exact := func(users ...string) {
		t.Helper()
		eventually(t, c, rb, func() error { return subjectsAre(rb, users...) })
	}

	may("second-plum", false)
	second := grant(t, c, nm.Namespace, "second-plum")
	may("second-plum", true)
	may("first-plum", false)
	first := grant(t, c, nm.Namespace, "first-plum")
	exact("first-plum", "second-plum")
	may("first-plum", true)

	before := first.DeepCopy()
	first.Spec.Cordoned = new(true)
	if err := c.Client.Patch(t.Context(), first, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Delete(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	exact("first-plum")
	may("second-plum", false)
	may("first-plum", true) // its pods run on

	if err := c.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	waitUntilDeleted(t, c, bindingIn(nm, "demo-plum"))
	may("first-plum", false)
	mapping(t, c, nm, "demo", "demo-plum", offv1beta1.MappingAccepted)
}
