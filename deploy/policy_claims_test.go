// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/internal/webhook"
)

func claimOf(namespace string, edit func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	out := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "data-", Labels: map[string]string{names.OffloadingOrigin: "milan"}, Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("fast"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if edit != nil {
		edit(out)
	}
	return out
}

func withSize(size string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
	}
}

// grantStorage makes a slice of milan with classes and amounts, and its Quota.
func grantStorage(t *testing.T, c *testkit.ControlPlane, namespace, name string, amounts corev1.ResourceList, classes ...string) {
	t.Helper()
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	testkit.Create(t, c.Client, slice)
	for _, class := range classes {
		slice.Status.StorageClasses = append(slice.Status.StorageClasses, liqov1beta1.StorageType{StorageClassName: class})
	}
	if err := c.Client.Status().Update(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	testkit.Create(t, c.Client, &offv1beta1.Quota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{names.RemoteClusterID: "milan", names.ResourceSliceName: name}},
		Spec:       offv1beta1.QuotaSpec{User: name, Resources: amounts},
	})
}

func TestClaimsPolicy(t *testing.T) {
	c := install(t)
	remoteNamespace := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "milan"})
	sibling := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "milan"})
	tenant := tenantNamespace(t, c, "milan")
	peer := clientOf(t, c.User(t, "gold-claims", "milan", "system:authenticated"))
	for _, namespace := range []string{remoteNamespace, sibling} {
		bind(t, c, namespace, names.RoleVirtualKubeletRemote, "gold-claims")
		rights(t, func() error {
			return peer.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "x"}, &corev1.PersistentVolumeClaim{})
		})
	}
	amount := func(storage, claims string) corev1.ResourceList {
		return corev1.ResourceList{"requests.storage": resource.MustParse(storage), "persistentvolumeclaims": resource.MustParse(claims)}
	}
	grantStorage(t, c, tenant, "gold-claims", amount("3Gi", "1"), "fast")
	grantStorage(t, c, tenant, "silver-claims", amount("2Gi", "2"), "slow")
	serveWebhooks(t, c, webhook.Options{EnforceResources: true}, "claim.validate.liqo.io")
	first := claimOf(remoteNamespace, withSize("2Gi"))
	testkit.Eventually(t, 60*time.Second, func() error { return peer.Create(t.Context(), first) }) // the webhook may have begun just now

	const own, empty, annotations = "may only write what it reflects itself", "gets a new and empty volume", "annotations of schedulers and provisioners"
	for name, tc := range map[string]struct {
		edit func(*corev1.PersistentVolumeClaim)
		want string
	}{
		"a claim":                 {nil, ""},
		"of another slice":        {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("slow") }, ""},
		"a class not offered":     {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("gold") }, `StorageClass "gold" is not offered to cluster "milan": fast, slow`},
		"no class":                {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }, "must name a StorageClass"},
		"volumes without a class": {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("") }, "must name a StorageClass"},
		"more than is granted":    {withSize("4Gi"), "peering requests.storage quota usage exceeded - free 3Gi / requested 4Gi"},
		"100Ti":                   {withSize("100Ti"), "quota usage exceeded"},
		"of nobody":               {func(c *corev1.PersistentVolumeClaim) { c.Labels = nil }, own},
		"of another cluster":      {func(c *corev1.PersistentVolumeClaim) { c.Labels[names.OffloadingOrigin] = "turin" }, own},
		"an existing volume":      {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }, empty},
		"one of some volumes":     {func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }, empty},
		"a copy": {func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "x"}
		}, empty},
		"a populator": {func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: new("example.com"), Kind: "Populator", Name: "x"}
		}, empty},
		"attributes": {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = new("fast-io") }, empty},
		"a node": {func(c *corev1.PersistentVolumeClaim) {
			c.Annotations["volume.kubernetes.io/selected-node"] = "control-plane"
		}, annotations},
		"the old class": {func(c *corev1.PersistentVolumeClaim) {
			c.Annotations["volume.beta.kubernetes.io/storage-class"] = "gold"
		}, annotations},
		"as if it was bound": {func(c *corev1.PersistentVolumeClaim) { c.Annotations["pv.kubernetes.io/bind-completed"] = "yes" }, annotations},
		"a finalizer":        {func(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{foreignFinalizer} }, "may not touch finalizers"},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, peer.Create(t.Context(), claimOf(remoteNamespace, tc.edit), client.DryRunAll), tc.want)
		})
	}
	// All namespaces count together, also when the caches do not show the last claim yet; changes that cost nothing are free.
	second := claimOf(sibling, withSize("3Gi"))
	testkit.Create(t, peer, second)
	third := claimOf(sibling, withSize("1Mi"))
	if err := refused(peer.Create(t.Context(), third), "free 0 / requested 1Mi"); err != nil {
		t.Error(err)
	}
	second.Labels["app"] = "db"
	if err := peer.Update(t.Context(), second); err != nil {
		t.Error("a change of labels:", err)
	}
	if err := refused(peer.Patch(t.Context(), second.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"volumeName":"pv"}}`))), empty); err != nil {
		t.Error(err)
	}
	first.Finalizers = nil
	if err := c.Client.Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 60*time.Second, func() error { return peer.Create(t.Context(), claimOf(sibling, withSize("2Gi"))) })
	// The status is not the consumer's to write, and neither are volumes.
	for what, err := range map[string]error{
		"a status": peer.Status().Update(t.Context(), second),
		"a volume": peer.Create(t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "x"}}),
	} {
		if err := refused(err, "forbidden"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
