// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/names"
)

func claimOf(size, capacity string, annotations map[string]string) *corev1.PersistentVolumeClaim {
	out := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"app": "db"}, Annotations: annotations},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("liqo"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: "pvc-1",
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}
	if capacity != "" {
		out.Status.Phase, out.Status.Capacity = corev1.ClaimBound, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(capacity)}
	}
	return out
}

func TestRemoteClaim(t *testing.T) {
	target := Target{Origin: "rome", Destination: "milan", Namespace: "shop-rome"}
	existing := func(size, capacity string) *corev1.PersistentVolumeClaim {
		out := claimOf(size, capacity, nil)
		out.Spec.StorageClassName, out.Spec.AccessModes = new("old"), []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
		return out
	}
	for name, test := range map[string]struct {
		local, existing *corev1.PersistentVolumeClaim
		reclaim         corev1.PersistentVolumeReclaimPolicy
		class, want     string
	}{
		"new": {local: claimOf("1Gi", "", map[string]string{"volume.kubernetes.io/selected-node": "milan", "note": "x"}), class: "fast",
			want: "there of fast [ReadWriteOnce] 1Gi, note=x storage.liqo.io/virtual-pv=pvc-1"},
		"without a class":      {local: claimOf("1Gi", "", nil), want: "there of none [ReadWriteOnce] 1Gi, storage.liqo.io/virtual-pv=pvc-1"},
		"other modes":          {local: claimOf("1Gi", "", map[string]string{names.RemoteAccessModes: " ReadWriteMany,ReadOnlyMany, "}), want: "there of none [ReadWriteMany ReadOnlyMany] 1Gi, storage.liqo.io/virtual-pv=pvc-1"},
		"retained":             {local: claimOf("1Gi", "", nil), reclaim: corev1.PersistentVolumeReclaimRetain, want: "there of none [ReadWriteOnce] 1Gi, storage.liqo.io/reclaim-policy=Retain storage.liqo.io/virtual-pv=pvc-1"},
		"its class never goes": {local: claimOf("1Gi", "", nil), existing: existing("1Gi", "1Gi"), class: "fast", want: "there of old [ReadOnlyMany] 1Gi, storage.liqo.io/virtual-pv=pvc-1"},
		"larger":               {local: claimOf("3Gi", "", nil), existing: existing("1Gi", "2Gi"), want: "there of old [ReadOnlyMany] 3Gi, storage.liqo.io/virtual-pv=pvc-1"},
		"as large as it is":    {local: claimOf("2Gi", "", nil), existing: existing("1Gi", "2Gi"), want: "there of old [ReadOnlyMany] 1Gi, storage.liqo.io/virtual-pv=pvc-1"},
		"larger before bound":  {local: claimOf("3Gi", "", nil), existing: existing("1Gi", ""), want: "there of old [ReadOnlyMany] 1Gi, storage.liqo.io/virtual-pv=pvc-1"},
		"of no claim any more": {existing: existing("1Gi", "1Gi"), want: "there of old [ReadOnlyMany] 1Gi, storage.liqo.io/virtual-pv=pvc-1"},
	} {
		t.Run(name, func(t *testing.T) {
			volume := &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", Annotations: map[string]string{names.RemoteClaim: "there", names.RemoteStorageClass: test.class}},
				Spec:       corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: test.reclaim},
			}
			claim := target.RemoteClaim(volume, test.local, test.existing)
			class := "none"
			if claim.Spec.StorageClassName != nil {
				class = *claim.Spec.StorageClassName
			}
			annotations := strings.TrimSuffix(strings.TrimPrefix(strings.ReplaceAll(fmt.Sprint(claim.Annotations), ":", "="), "map["), "]")
			got := fmt.Sprintf("%s of %s %v %s, %s", claim.Name, class, claim.Spec.AccessModes, claim.Spec.Resources.Requests.Storage(), annotations)
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if claim.Spec.VolumeName != "" || claim.Namespace != "shop-rome" || !target.Owns(claim) || claim.Labels["app"] != "db" {
				t.Errorf("the claim is %v of %v", claim.Spec, claim.ObjectMeta)
			}
		})
	}
}

// TestClaimStatus: the provider reports sizes and known conditions, and its text is cleaned.
func TestClaimStatus(t *testing.T) {
	local, remote := claimOf("1Gi", "1Gi", nil), claimOf("1Gi", "", nil)
	local.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: "example.com/Own", Status: corev1.ConditionTrue}, {Type: corev1.PersistentVolumeClaimResizing}}
	if diff := cmp.Diff(local.Status, ClaimStatus(local, remote)); diff != "" {
		t.Errorf("before the remote claim is bound:\n%s", diff)
	}
	remote = claimOf("1Gi", "2Gi", nil)
	remote.Status.Capacity["evil"] = resource.MustParse("1")
	remote.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
		{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: "Perhaps", Message: "a\x1b[31m"}, {Type: "example.com/Evil", Status: corev1.ConditionTrue},
	}
	got := ClaimStatus(local, remote)
	var conditions []string
	for _, c := range got.Conditions {
		conditions = append(conditions, fmt.Sprintf("%s=%s %q", c.Type, c.Status, c.Message))
	}
	want := []string{`example.com/Own=True ""`, `storage.liqo.io/Provisioned=True ""`, `FileSystemResizePending=Unknown "a[31m"`}
	if diff := cmp.Diff(want, conditions); diff != "" || len(got.Capacity) != 1 || got.Capacity.Storage().String() != "2Gi" || got.Phase != corev1.ClaimBound {
		t.Errorf("capacity %v, conditions (-want +got):\n%s", got.Capacity, diff)
	}
	local.Status = got
	if again := ClaimStatus(local, remote); !cmp.Equal(again, got) {
		t.Errorf("the same is written again:\n%s", cmp.Diff(got, again))
	}
}

func TestPodClaims(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "a", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
		{Name: "b", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		{Name: "c", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	if diff := cmp.Diff([]PodClaim{{Volume: "a", Claim: "data"}, {Volume: "b", Claim: "web-b", Generic: true}}, PodClaims(pod)); diff != "" {
		t.Error(diff)
	}
}
