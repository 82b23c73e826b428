// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func (s *testEnv) claim(namespace, name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("liqo"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// remoteVolume makes the virtual volume of a claim, as the controller-manager does, and binds the two.
func (s *testEnv) remoteVolume(claim *corev1.PersistentVolumeClaim, remote string) *corev1.PersistentVolume {
	s.t.Helper()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "pvc-" + string(claim.UID),
			Labels:      map[string]string{names.StorageProvisioner: "true", names.RemoteClusterID: string(s.providerID)},
			Annotations: map[string]string{names.RemoteClaim: remote, names.RemoteStorageClass: "fast"},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, StorageClassName: "liqo",
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/liqo-placeholder"}},
		},
	}
	s.bindClaim(volume, claim)
	return volume
}

func (s *testEnv) bindClaim(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) {
	s.t.Helper()
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: claimKindName, Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	if volume.UID == "" {
		volume.Spec.ClaimRef = ref
		s.create(s.consumer, volume)
	} else {
		testkit.Update(s.t, s.consumer.Client, volume, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = ref })
	}
	testkit.Update(s.t, s.consumer.Client, claim, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = volume.Name })
	testkit.UpdateStatus(s.t, s.consumer.Client, claim, func(c *corev1.PersistentVolumeClaim) {
		c.Status.Phase, c.Status.Capacity = corev1.ClaimBound, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	})
}

// bindRemotely reports a claim as bound to a volume of that size, as the provider does.
func (s *testEnv) bindRemotely(remote *corev1.PersistentVolumeClaim, size string) {
	s.t.Helper()
	testkit.UpdateStatus(s.t, s.provider.Client, remote, func(c *corev1.PersistentVolumeClaim) {
		c.Status.Phase, c.Status.Capacity = corev1.ClaimBound, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue, Message: "to " + size}}
	})
}

func capacityIs(size string) func(*corev1.PersistentVolumeClaim) error {
	return func(c *corev1.PersistentVolumeClaim) error {
		if now := c.Status.Capacity.Storage().String(); now != size {
			return fmt.Errorf("capacity is %s", now)
		}
		return nil
	}
}

// deleteForGood deletes an object that Kubernetes would keep for its protection controllers, which do not run here.
func (s *testEnv) deleteForGood(c *testkit.ControlPlane, obj client.Object) {
	s.t.Helper()
	s.patch(c, obj, `{"metadata":{"finalizers":null}}`)
	s.deleteNow(c, obj)
}

func TestClaims(t *testing.T) {
	s := newTestEnv(t, nil)
	s.chartRights()
	for name, c := range map[string]*testkit.ControlPlane{"liqo": s.consumer, "fast": s.provider} { // which allow resizing
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/disk", AllowVolumeExpansion: new(true)}
		if err := client.IgnoreAlreadyExists(c.Client.Create(t.Context(), class)); err != nil {
			t.Fatal(err)
		}
	}
	s.run()
	claim := s.claim(s.local, "data")
	claim.Labels, claim.Annotations = map[string]string{"app": "db"}, map[string]string{names.RemoteAccessModes: "ReadWriteMany, ReadOnlyMany", "pv.kubernetes.io/bind-completed": "yes", "note": "mine"}
	s.create(s.consumer, claim)
	volume := s.remoteVolume(claim, "data")
	remote := eventually(s, s.provider, s.claim(s.remoteNamespace, "data"), exists)
	s.step("what_is_made", func() {
		modes := fmt.Sprint(remote.Spec.AccessModes)
		if *remote.Spec.StorageClassName != "fast" || modes != "[ReadWriteMany ReadOnlyMany]" || remote.Labels["app"] != "db" || remote.Annotations["note"] != "mine" ||
			remote.Annotations["pv.kubernetes.io/bind-completed"] != "" || remote.Annotations[names.VirtualVolume] != volume.Name {
			s.t.Errorf("the claim is %v of %v", remote.Spec, remote.ObjectMeta)
		}
	})
	s.step("capacity_and_conditions", func() {
		s.bindRemotely(remote, "2Gi")
		eventually(s, s.consumer, claim, capacityIs("2Gi"))
		if text := fmt.Sprint(claim.Status.Conditions); !strings.Contains(text, "to 2Gi") || !strings.Contains(text, names.ClaimProvisioned) {
			s.t.Errorf("conditions are %s", text)
		}
	})
	s.step("events", func() {
		s.create(s.provider, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.remoteNamespace, Name: "data.1"}, Reason: "ProvisioningFailed", Message: "no space", Type: corev1.EventTypeWarning,
			InvolvedObject: corev1.ObjectReference{Kind: claimKindName, Namespace: s.remoteNamespace, Name: "data", UID: remote.UID},
		})
		s.event(claim, "ProvisioningFailed", "no space")
	})
	s.step("warning_on_the_pod", func() {
		pod := s.newPod(s.local, "waits")
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		s.create(s.consumer, pod)
		s.create(s.provider, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.remoteNamespace, Name: "data.2"}, Reason: "ProvisioningFailed", Message: "disk is full", Type: corev1.EventTypeWarning,
			InvolvedObject: corev1.ObjectReference{Kind: claimKindName, Namespace: s.remoteNamespace, Name: "data", UID: remote.UID},
		})
		s.event(pod, reasonClaimWarning, `in cluster "milan", claim "data": ProvisioningFailed: disk is full`)
	})
	s.step("resize", func() {
		testkit.Update(s.t, s.consumer.Client, claim, func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("3Gi")
		})
		eventually(s, s.provider, remote, func(c *corev1.PersistentVolumeClaim) error {
			if now := c.Spec.Resources.Requests.Storage().String(); now != "3Gi" {
				return errors.New("requested are " + now)
			}
			return nil
		})
	})
	s.step("pod", func() {
		pod := s.newPod(s.local, "db")
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data", ReadOnly: true}}}}
		s.create(s.consumer, pod)
		shadow := eventually(s, s.provider, s.shadow("db"), exists)
		if got := shadow.Spec.Pod.Volumes[0].PersistentVolumeClaim; got.ClaimName != "data" || !got.ReadOnly {
			s.t.Errorf("the volume is %v", got)
		}
	})
	s.step("another_claim_of_the_volume", func() {
		testkit.Update(s.t, s.consumer.Client, volume, func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		})
		eventually(s, s.provider, remote, func(c *corev1.PersistentVolumeClaim) error {
			if c.Annotations[names.ReclaimPolicy] != "Retain" {
				return errors.New("not retained")
			}
			return nil
		})
		moved := s.claim(s.local, "moved")
		s.create(s.consumer, moved)
		s.bindClaim(volume, moved)
		eventually(s, s.consumer, moved, capacityIs("2Gi"))
		pod := s.newPod(s.local, "db-2")
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "moved"}}}}
		s.create(s.consumer, pod)
		shadow := eventually(s, s.provider, s.shadow("db-2"), exists)
		if got := shadow.Spec.Pod.Volumes[0].PersistentVolumeClaim; got.ClaimName != "data" {
			s.t.Errorf("the volume is %v", got)
		}
		claim = moved
	})
	s.step("lost", func() {
		s.deleteForGood(s.provider, remote)
		s.event(claim, reasonVolumeLost, "does not exist")
		s.absent(s.provider, s.claim(s.remoteNamespace, "data"))
	})
}

// TestClaimDeletion: the claim of the provider goes with the volume, also if that is deleted while no virtual kubelet runs; that of a retained
// volume stays, and its name is not taken. A volume is not retained in that sense while its claim is moved.
func TestClaimDeletion(t *testing.T) {
	s := newTestEnv(t, nil)
	stop := s.run()
	claims, volumes := map[string]*corev1.PersistentVolumeClaim{}, map[string]*corev1.PersistentVolume{}
	for _, name := range []string{"deleted", "retained", "moved"} {
		claims[name] = s.claim(s.local, name)
		s.create(s.consumer, claims[name])
		volumes[name] = s.remoteVolume(claims[name], name)
		eventually(s, s.provider, s.claim(s.remoteNamespace, name), exists)
	}
	testkit.Update(s.t, s.consumer.Client, volumes["moved"], func(v *corev1.PersistentVolume) {
		v.Labels[names.MovedClaim] = "moved"
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
	testkit.Update(s.t, s.consumer.Client, volumes["retained"], func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
	eventually(s, s.provider, s.claim(s.remoteNamespace, "retained"), func(c *corev1.PersistentVolumeClaim) error {
		if c.Annotations[names.ReclaimPolicy] == "" {
			return errors.New("not marked")
		}
		return nil
	})
	stop()
	for _, name := range []string{"deleted", "retained", "moved"} {
		s.deleteForGood(s.consumer, volumes[name])
		s.deleteForGood(s.consumer, claims[name])
		s.patch(s.provider, s.claim(s.remoteNamespace, name), `{"metadata":{"finalizers":null}}`)
	}
	s.run()
	s.waitUntilDeleted(s.provider, s.claim(s.remoteNamespace, "deleted"))
	s.waitUntilDeleted(s.provider, s.claim(s.remoteNamespace, "moved"))
	again := s.claim(s.local, "retained")
	s.create(s.consumer, again)
	s.remoteVolume(again, "retained")
	s.event(again, reasonFailed, "retained volume "+volumes["retained"].Name)
	eventually(s, s.provider, s.claim(s.remoteNamespace, "retained"), exists)
}

// TestForeignClaims: pods with claims whose data is not in the provider say so, unless the provider has a claim of the name.
func TestForeignClaims(t *testing.T) {
	t.Parallel()
	s := newTestEnv(t, nil)
	s.run()
	for _, name := range []string{"theirs", "nowhere"} {
		claim := s.claim(s.local, name)
		claim.Spec.StorageClassName = new("disk")
		s.create(s.consumer, claim)
	}
	s.create(s.provider, s.claim(s.remoteNamespace, "theirs"))
	for _, name := range []string{"theirs", "nowhere", "only-there"} {
		pod := s.newPod(s.local, name)
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
		s.create(s.consumer, pod)
	}
	eventually(s, s.provider, s.shadow("theirs"), exists)
	eventually(s, s.provider, s.shadow("only-there"), exists)
	s.event(s.localPod("nowhere"), reasonClaimElsewhere, `claim "nowhere" of StorageClass "disk" has no data in cluster "milan"`)
	s.absent(s.provider, s.shadow("nowhere"))
	s.create(s.provider, s.claim(s.remoteNamespace, "nowhere"))
	eventually(s, s.provider, s.shadow("nowhere"), exists)
}

// TestGenericEphemeralVolume: the claim that Kubernetes made for the pod is mounted.
func TestGenericEphemeralVolume(t *testing.T) {
	s := newTestEnv(t, nil)
	s.run()
	claim := s.claim(s.local, "job-scratch")
	pod := s.newPod(s.local, "job")
	pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claim.Spec},
	}}}}
	s.create(s.consumer, claim)
	s.remoteVolume(claim, "job-scratch")
	s.create(s.consumer, pod)
	shadow := eventually(s, s.provider, s.shadow("job"), exists)
	if got := shadow.Spec.Pod.Volumes[0]; got.Ephemeral != nil || got.PersistentVolumeClaim == nil || got.PersistentVolumeClaim.ClaimName != "job-scratch" {
		t.Errorf("the volume is %v", got)
	}
}
