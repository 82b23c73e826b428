// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
)

func amounts(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// granted is the Quota of the slice of the guide, in a provider that has not changed its defaults.
func granted(namespace, user string) *offv1beta1.Quota {
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "test"}}
	slice.Spec.Resources = amounts("cpu", "20", "memory", "128Gi")
	defaults := policy.SliceDefaults{Resources: amounts("cpu", "4", "memory", "8Gi", "pods", "110", "ephemeral-storage", "20Gi")}
	policy.GrantResources(&slice.Spec, defaults, &slice.Status)
	return policy.NewQuota(slice, user, offv1beta1.NoLimitsEnforcement, false)
}

// as is a client of a user who may do everything but what admission refuses.
func as(t *testing.T, c *testkit.ControlPlane, name string) client.Client {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}
	if err := c.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	user, err := client.New(c.User(t, name), client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return user
}

func TestQuotaEnforcement(t *testing.T) {
	c := testkit.Cluster(t)
	install(t, c, 1, Options{EnforceResources: true})
	tenant := testkit.Namespace(t, c, "tenant", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: "violet"})
	remoteNamespace := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "violet"})
	user := as(t, c, "slice-violet")
	ask := func(requests corev1.ResourceList) error {
		sp := &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, GenerateName: "web-", Labels: map[string]string{names.OffloadingOrigin: "violet"}}}
		sp.Spec.Pod = pod(remoteNamespace).Spec
		sp.Spec.Pod.Containers[0].Resources.Requests = requests
		return user.Create(t.Context(), sp, client.DryRunAll)
	}
	refused := func(requests corev1.ResourceList, reason string) {
		t.Helper()
		soon(t, func() error { return refusedWith(ask(requests), reason) })
	}

	const none = `failed getting quota: user "slice-violet" has none for cluster "violet"`
	refused(nil, none)
	otherQuota := granted(testkit.Namespace(t, c, "other", nil), "slice-violet") // what another consumer may name after this user
	if err := c.Client.Create(t.Context(), otherQuota); err != nil {
		t.Fatal(err)
	}
	refused(nil, none)

	budget := granted(tenant, "slice-violet")
	if err := c.Client.Create(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	soon(t, func() error { return ask(nil) })
	for name, requests := range map[string]corev1.ResourceList{
		"cpu and memory":      amounts("cpu", "100m", "memory", "64Mi"),
		"all that is granted": amounts("cpu", "20", "memory", "128Gi", "ephemeral-storage", "20Gi"),
	} {
		if err := ask(requests); err != nil {
			t.Errorf("a pod that asks for %s: %v", name, err)
		}
	}
	existing := &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: "existing", Labels: map[string]string{names.OffloadingOrigin: "violet"}}}
	existing.Spec.Pod = pod(remoteNamespace).Spec
	existing.Spec.Pod.Containers = append(existing.Spec.Pod.Containers, corev1.Container{Name: "second", Image: "web"})
	if err := user.Create(t.Context(), existing); err != nil {
		t.Fatal(err)
	}
	refused(amounts("cpu", "20001m"), "peering cpu quota usage exceeded - requested 20001m, more than was granted")
	refused(amounts("ephemeral-storage", "21Gi"), "peering ephemeral-storage quota usage exceeded - requested 21Gi, more than was granted")
	refused(amounts("example.com/gpu", "1"), "example.com/gpu quota limit not found for this peering")
	if err := refusedWith(c.Client.Create(t.Context(), &offv1beta1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: "web", Labels: map[string]string{names.OffloadingOrigin: "violet"}},
		Spec:       offv1beta1.ShadowPodSpec{Pod: pod(remoteNamespace).Spec},
	}, client.DryRunAll), "failed getting quota"); err != nil {
		t.Error("somebody else:", err)
	}

	before := budget.DeepCopy()
	budget.Spec.Cordoned = new(true)
	if err := c.Client.Patch(t.Context(), budget, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	refused(nil, `user is cordoned: the pods of "slice-violet" run on, and new ones are refused`)
	if err := c.Client.Delete(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	refused(nil, none)
	t.Run("existing objects can be changed and deleted", func(t *testing.T) { othersMay(t, c, existing) })
}

// othersMay tells the story of a ShadowPod whose user has no Quota any more, and of those who look after it.
func othersMay(t *testing.T, c *testkit.ControlPlane, sp *offv1beta1.ShadowPod) {
	admin, sibling := c.Client, as(t, c, "second-slice-violet")
	edit := func(who client.Client, change func(*offv1beta1.ShadowPod)) error {
		if err := who.Get(t.Context(), client.ObjectKeyFromObject(sp), sp); err != nil {
			return err
		}
		before := sp.DeepCopy()
		change(sp)
		return who.Patch(t.Context(), sp, client.MergeFrom(before))
	}
	for rule, err := range map[string]error{
		"the administrator labels it":      edit(admin, func(sp *offv1beta1.ShadowPod) { sp.Labels["seen"] = "yes" }),
		"another slice changes its image":  edit(sibling, func(sp *offv1beta1.ShadowPod) { sp.Spec.Pod.Containers[0].Image = "web:2" }),
		"a finalizer comes":                edit(admin, func(sp *offv1beta1.ShadowPod) { sp.Finalizers = []string{"example.com/kept"} }),
		"a finalizer goes":                 edit(admin, func(sp *offv1beta1.ShadowPod) { sp.Finalizers = nil }),
		"a finalizer comes before the end": edit(admin, func(sp *offv1beta1.ShadowPod) { sp.Finalizers = []string{"example.com/kept"} }),
	} {
		if err != nil {
			t.Errorf("%s: %v", rule, err)
		}
	}
	if err := refusedWith(edit(sibling, func(sp *offv1beta1.ShadowPod) { sp.Spec.Pod.Containers = sp.Spec.Pod.Containers[:1] }), "only images"); err != nil {
		t.Error("fewer containers:", err)
	}
	if sp.Labels[names.CreatorUser] != "slice-violet" {
		t.Errorf("the creator is %q", sp.Labels[names.CreatorUser])
	}
	if err := admin.Delete(t.Context(), sp); err != nil {
		t.Error("deleting it:", err)
	}
	if err := edit(admin, func(sp *offv1beta1.ShadowPod) { sp.Finalizers = nil }); err != nil {
		t.Error("taking the finalizer off what is being deleted:", err)
	}
}

// What is left of a peering is a sentence for the consumer, not trouble of the provider.
func TestQuotaWithoutTenantNamespace(t *testing.T) {
	c := testkit.Cluster(t)
	install(t, c, 1, Options{EnforceResources: true})
	remoteNamespace := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "nowhere"})
	sp := &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: "web", Labels: map[string]string{names.OffloadingOrigin: "nowhere"}}}
	sp.Spec.Pod = pod(remoteNamespace).Spec
	soon(t, func() error {
		return refusedWith(c.Client.Create(t.Context(), sp.DeepCopy(), client.DryRunAll), `has none for cluster "nowhere"`)
	})
}

// Which of two tenant namespaces counts nobody can tell: that is a sentence, too, and says what to do.
func TestQuotaTwoTenantNamespaces(t *testing.T) {
	c := testkit.Cluster(t)
	install(t, c, 1, Options{EnforceResources: true})
	labels := map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: "twice"}
	one, other := testkit.Namespace(t, c, "tenant", labels), testkit.Namespace(t, c, "tenant", labels)
	remoteNamespace := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "twice"})
	sp := &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: "web", Labels: map[string]string{names.OffloadingOrigin: "twice"}}}
	sp.Spec.Pod = pod(remoteNamespace).Spec
	soon(t, func() error {
		return errors.Join(
			refusedWith(c.Client.Create(t.Context(), sp.DeepCopy(), client.DryRunAll), "takes the label "+names.TenantNamespace+" off"),
			refusedWith(c.Client.Create(t.Context(), sp.DeepCopy(), client.DryRunAll), min(one, other)+", "+max(one, other)))
	})
}
