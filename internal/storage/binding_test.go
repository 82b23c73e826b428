// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// inputs returns those of an unbound claim "data", as changed.
func inputs(change func(*bindingInputs)) bindingInputs {
	in := bindingInputs{
		claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "0123456789", Annotations: map[string]string{selectedNode: "local"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: new("liqo"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		},
		class: &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "liqo"}, Provisioner: names.StorageProvider, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
		},
		node:      &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "local"}},
		realClass: "disk", storageNamespace: "liqo-storage",
	}
	change(&in)
	return in
}

// selectVirtual selects a virtual node of the provider milan with these classes.
func selectVirtual(in *bindingInputs, classes ...string) {
	in.claim.Annotations[selectedNode] = "milan"
	in.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{names.NodeType: names.NodeTypeVirtualNode}}}
	in.mapped, in.offloaded = true, true
	in.virtualNode = &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: offv1beta1.VirtualNodeSpec{ClusterID: "milan"}}
	for i, name := range classes {
		in.virtualNode.Spec.StorageClasses = append(in.virtualNode.Spec.StorageClasses, liqov1beta1.StorageType{StorageClassName: name, Default: i == 1})
	}
}

func realClaim(in *bindingInputs, node string, phase corev1.PersistentVolumeClaimPhase) {
	in.real = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-storage", Name: "0123456789", Annotations: map[string]string{selectedNode: node}},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: new("disk")},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: phase},
	}
	if phase == corev1.ClaimBound {
		in.realVolume = &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}, MountOptions: []string{"noatime"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data/x"}},
		}}
	}
}

func TestDecideBinding(t *testing.T) {
	taken := func(phase corev1.PersistentVolumePhase, policy corev1.PersistentVolumeReclaimPolicy) corev1.PersistentVolume {
		return corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{
				Name: "pvc-old", Labels: map[string]string{names.RemoteClusterID: "milan"}, Annotations: map[string]string{names.RemoteClaim: "data"},
			},
			Spec:   corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data"}, PersistentVolumeReclaimPolicy: policy},
			Status: corev1.PersistentVolumeStatus{Phase: phase},
		}
	}
	for name, test := range map[string]struct {
		change func(*bindingInputs)
		want   string
	}{
		"no node":                        {func(in *bindingInputs) { in.claim.Annotations = nil }, "nothing"},
		"a local node":                   {func(*bindingInputs) {}, "make liqo-storage/0123456789 of class disk on local"},
		"a copy":                         {func(in *bindingInputs) { in.claim.Spec.DataSource = &corev1.TypedLocalObjectReference{} }, "ProvisioningFailed: claims of StorageClass \"liqo\" cannot have selector, dataSource or dataSourceRef"},
		"no class for it":                {func(in *bindingInputs) { in.noClass = errors.New("no default") }, "ProvisioningFailed: no default"},
		"a node that is gone":            {func(in *bindingInputs) { in.node = nil }, "wait: the selected node does not exist"},
		"a class that does not wait":     {func(in *bindingInputs) { in.class.VolumeBindingMode = nil }, "ProvisioningFailed: invalid StorageClass \"liqo\": volumeBindingMode must be WaitForFirstConsumer"},
		"the real claim waits":           {func(in *bindingInputs) { realClaim(in, "local", corev1.ClaimPending) }, "wait: the real claim is not bound yet"},
		"the real claim is bound":        {func(in *bindingInputs) { realClaim(in, "local", corev1.ClaimBound) }, "volume pvc-0123456789 of 2Gi at /data/x where liqo.io/type DoesNotExist"},
		"bound, and another node chosen": {func(in *bindingInputs) { realClaim(in, "local", corev1.ClaimBound); selectVirtual(in, "fast") }, "volume pvc-0123456789 of 2Gi at /data/x where liqo.io/type DoesNotExist"},
		"the real claim is lost":         {func(in *bindingInputs) { realClaim(in, "local", corev1.ClaimLost) }, "ProvisioningFailed: the real claim liqo-storage/0123456789 lost its volume"},
		"another local node":             {func(in *bindingInputs) { realClaim(in, "other", corev1.ClaimPending) }, "drop"},
		"a virtual node instead":         {func(in *bindingInputs) { realClaim(in, "local", corev1.ClaimPending); selectVirtual(in, "fast") }, "drop"},
		"the provisioner gave up":        {func(in *bindingInputs) { realClaim(in, "", corev1.ClaimPending) }, "reschedule: the provisioner of StorageClass \"disk\" makes no volume for node \"local\""},
		"a virtual node":                 {func(in *bindingInputs) { selectVirtual(in, "slow", "fast") }, "volume pvc-0123456789 of 1Gi at /tmp/liqo-placeholder where liqo.io/remote-cluster-id In milan; data of class fast"},
		"the only class":                 {func(in *bindingInputs) { selectVirtual(in, "slow") }, "volume pvc-0123456789 of 1Gi at /tmp/liqo-placeholder where liqo.io/remote-cluster-id In milan; data of class slow"},
		"the class of the annotation": {func(in *bindingInputs) {
			selectVirtual(in, "slow", "fast")
			in.claim.Annotations[names.RemoteStorageClass] = "slow"
		}, "volume pvc-0123456789 of 1Gi at /tmp/liqo-placeholder where liqo.io/remote-cluster-id In milan; data of class slow"},
		"a class that is not offered": {func(in *bindingInputs) {
			selectVirtual(in, "slow", "fast")
			in.claim.Annotations[names.RemoteStorageClass] = "gold"
		}, "ProvisioningFailed: cluster \"milan\": StorageClass \"gold\" of the annotation liqo.io/remote-storage-class is not offered: slow, fast"},
		"a provider without storage": {func(in *bindingInputs) { selectVirtual(in) }, "reschedule: cluster \"milan\" offers no storage for node \"milan\""},
		"a namespace not mapped yet": {func(in *bindingInputs) { selectVirtual(in, "a"); in.mapped = false }, "wait: the namespace is not mapped yet"},
		"a namespace that is not offloaded": {func(in *bindingInputs) { selectVirtual(in, "a"); in.mapped, in.offloaded = false, false },
			"reschedule: namespace \"shop\" is not offloaded to cluster \"milan\""},
		"a node of no VirtualNode": {func(in *bindingInputs) { selectVirtual(in, "a"); in.virtualNode = nil }, "wait: the virtual node has no VirtualNode"},
		"the name of a retained volume": {func(in *bindingInputs) {
			selectVirtual(in, "slow")
			in.volumes = []corev1.PersistentVolume{taken(corev1.VolumeReleased, corev1.PersistentVolumeReclaimRetain)}
		}, "volume pvc-0123456789 of 1Gi at /tmp/liqo-placeholder where liqo.io/remote-cluster-id In milan; data-01234567 of class slow"},
		"the name of a volume about to go": {func(in *bindingInputs) {
			selectVirtual(in, "slow")
			in.volumes = []corev1.PersistentVolume{taken(corev1.VolumeReleased, corev1.PersistentVolumeReclaimDelete)}
		}, "volume pvc-0123456789 of 1Gi at /tmp/liqo-placeholder where liqo.io/remote-cluster-id In milan; data of class slow"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decideBinding(inputs(test.change))
			if text := describeBinding(got, err); text != test.want {
				t.Errorf("got  %s\nwant %s", text, test.want)
			}
		})
	}
}

func describeBinding(b binding, err error) string {
	if reason, _, ok := kube.WaitReason(err); ok {
		return "wait: " + reason
	}
	if reason, ok := kube.InvalidReason(err); ok {
		return reason + ": " + err.Error()
	}
	switch {
	case err != nil:
		return err.Error()
	case b.volume != nil:
		out := "volume " + b.volume.Name + " of " + b.volume.Spec.Capacity.Storage().String() + " at " + b.volume.Spec.HostPath.Path + " where "
		for _, r := range b.volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions {
			out += strings.TrimSpace(r.Key + " " + string(r.Operator) + " " + strings.Join(r.Values, ","))
		}
		if claim := b.volume.Annotations[names.RemoteClaim]; claim != "" {
			out += "; " + claim + " of class " + b.volume.Annotations[names.RemoteStorageClass]
		}
		return out
	case b.real != nil:
		return "make " + b.real.Namespace + "/" + b.real.Name + " of class " + classOf(b.real) + " on " + b.real.Annotations[selectedNode]
	case b.dropReal:
		return "drop"
	case b.reschedule != "":
		return "reschedule: " + b.reschedule
	}
	return "nothing"
}

// TestLocalAffinity: terms are alternatives, and fields of nodes stay.
func TestLocalAffinity(t *testing.T) {
	in := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}},
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpExists}}},
	}}}
	local := corev1.NodeSelectorRequirement{Key: "liqo.io/type", Operator: corev1.NodeSelectorOpDoesNotExist}
	want := in.DeepCopy()
	for i := range want.Required.NodeSelectorTerms {
		want.Required.NodeSelectorTerms[i].MatchExpressions = append(want.Required.NodeSelectorTerms[i].MatchExpressions, local)
	}
	if diff := cmp.Diff(want, onLocalNodes(in)); diff != "" {
		t.Error(diff)
	}
}

func TestChooseRealClass(t *testing.T) {
	class := func(name, provisioner, isDefault string, created int64) storagev1.StorageClass {
		return storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: name, Annotations: map[string]string{isDefaultClass: isDefault}, CreationTimestamp: metav1.NewTime(time.Unix(created, 0))},
			Provisioner: provisioner,
		}
	}
	classes := []storagev1.StorageClass{class("old", "disk", "true", 1), class("new", "disk", "true", 2), class("other", "disk", "false", 3), class("liqo", names.StorageProvider, "true", 4)}
	for name, test := range map[string]struct {
		classes          []storagev1.StorageClass
		configured, want string
		fails            bool
	}{
		"the newest default":    {classes: classes, want: "new"},
		"the configured one":    {classes: classes, configured: "other", want: "other"},
		"one that is not there": {classes: classes, configured: "later", want: "later"},
		"that of Liqo":          {classes: classes, configured: "liqo", fails: true},
		"no default":            {classes: classes[2:], fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := chooseRealClass(test.classes, test.configured)
			if got != test.want || (err != nil) != test.fails {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
