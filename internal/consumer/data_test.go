// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// TestDataInProvider: a remote namespace and the last virtual node stay while a volume has its data in the provider.
func TestDataInProvider(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "matera", "matera-1", "region=eu")
	nso := extend(t, c, func(s *offv1beta1.NamespaceOffloadingSpec) { s.ClusterSelector = choosing("region=eu") })
	remoteNamespace := nso.Namespace + "-home"
	desires(t, c, vn, nso.Namespace, remoteNamespace)
	answer(t, c, vn, nso.Namespace, remoteNamespace, offv1beta1.MappingAccepted)
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pvc-", Labels: map[string]string{names.StorageProvisioner: "true", names.RemoteClusterID: "matera"}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
			ClaimRef:               &corev1.ObjectReference{Namespace: nso.Namespace, Name: "data"},
		},
	}
	testkit.Create(t, c.Client, volume)
	want := `cluster "matera" has the data of ` + nso.Namespace + "/data"

	testkit.Update(t, c.Client, nso, func(nso *offv1beta1.NamespaceOffloading) { nso.Spec.ClusterSelector = choosing("region=us") })
	testkit.WantEvent(t, c, nso, "DataInProvider", want)
	desires(t, c, vn, nso.Namespace, remoteNamespace)

	for _, obj := range []client.Object{nso, vn} {
		if err := c.Client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, c, vn, func() error {
		for _, condition := range vn.Status.Conditions {
			if strings.Contains(condition.Message, want) {
				return nil
			}
		}
		return errors.New("the virtual node does not say why it stays")
	})
	phaseIs(t, c, nso, offv1beta1.TerminatingOffloadingPhaseType)
	desires(t, c, vn, nso.Namespace, remoteNamespace)
	exists(t, c, kubeletOf(vn))

	testkit.Update(t, c.Client, volume, func(v *corev1.PersistentVolume) { v.Finalizers = nil })
	if err := c.Client.Delete(t.Context(), volume); err != nil {
		t.Fatal(err)
	}
	desires(t, c, vn, nso.Namespace, "")
	answer(t, c, vn, nso.Namespace, "", "")
	waitUntilDeleted(t, c, nso)
	waitUntilDeleted(t, c, vn)
}
