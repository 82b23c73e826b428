// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// selectedNode annotates a claim with the node chosen by the scheduler for the first pod.
const selectedNode = "volume.kubernetes.io/selected-node"

// provisionedBy annotates a volume with its provisioner: Kubernetes then leaves the volume to the provisioner.
const provisionedBy = "pv.kubernetes.io/provisioned-by"

// placeholderPath is the source of the volumes of providers: nothing in this cluster mounts them.
const placeholderPath = "/tmp/liqo-placeholder"

// Reasons of the events on claims.
const (
	reasonReschedule = "ReschedulingRequired"
	reasonFailed     = "ProvisioningFailed"
	reasonSucceeded  = "ProvisioningSucceeded"
	reasonLost       = "VolumeLost"
	reasonResize     = "VolumeResizeFailed"
)

// bindingInputs are the inputs of the binding of a claim. Absent objects are nil.
type bindingInputs struct {
	claim *corev1.PersistentVolumeClaim
	class *storagev1.StorageClass
	// node is the selected node, and virtualNode the VirtualNode of a virtual node.
	node        *corev1.Node
	virtualNode *offv1beta1.VirtualNode
	// mapped reports whether the provider of virtualNode has a remote namespace, or is asked for one; offloaded reports whether the namespace is
	// offloaded at all.
	mapped, offloaded bool
	// real is the real claim, and realVolume the volume of a bound real claim.
	real       *corev1.PersistentVolumeClaim
	realVolume *corev1.PersistentVolume
	// realClass is the class of new real claims, and noClass why there is none.
	realClass string
	noClass   error
	// volumes are all virtual volumes.
	volumes          []corev1.PersistentVolume
	storageNamespace string
}

// binding is the action for an unbound claim: at most one field is set.
type binding struct {
	// volume is the virtual volume to create. Kubernetes then binds the volume.
	volume *corev1.PersistentVolume
	// real is the real claim to create, and dropReal is set if the present real claim is for another node.
	real     *corev1.PersistentVolumeClaim
	dropReal bool
	// reschedule is why the scheduler has to choose another node.
	reschedule string
}

// decideBinding decides about an unbound claim of a class of Liqo. The data is where the first volume is: a bound real claim decides, also if another
// node is selected since.
func decideBinding(in bindingInputs) (binding, error) {
	node := in.claim.Annotations[selectedNode]
	if in.real != nil && in.real.Status.Phase == corev1.ClaimBound {
		if in.realVolume == nil {
			return binding{}, kube.Wait(0, "the volume of the real claim is not there yet")
		}
		return binding{volume: localVolume(in)}, nil
	}
	if in.real != nil && in.real.Status.Phase == corev1.ClaimLost {
		return binding{}, kube.Invalid(reasonFailed, fmt.Errorf("the real claim %s/%s lost its volume", in.real.Namespace, in.real.Name))
	}
	switch spec := in.claim.Spec; {
	case spec.Selector != nil, spec.DataSource != nil, spec.DataSourceRef != nil:
		return binding{}, kube.Invalid(reasonFailed, fmt.Errorf("claims of StorageClass %q cannot have selector, dataSource or dataSourceRef", in.class.Name))
	case in.class.VolumeBindingMode == nil || *in.class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return binding{}, kube.Invalid(reasonFailed, fmt.Errorf("invalid StorageClass %q: volumeBindingMode must be WaitForFirstConsumer", in.class.Name))
	case node == "":
		return binding{}, nil
	case in.node == nil:
		return binding{}, kube.Wait(0, "the selected node does not exist")
	case in.node.Labels[names.NodeType] == names.NodeTypeVirtualNode:
		if in.real != nil { // the scheduler chose a local node before
			return binding{dropReal: true}, nil
		}
		return decideRemote(in)
	case in.real == nil:
		return decideLocal(in, node)
	case in.real.Annotations[selectedNode] == "":
		return binding{reschedule: fmt.Sprintf("the provisioner of StorageClass %q makes no volume for node %q", classOf(in.real), node)}, nil
	case in.real.Annotations[selectedNode] != node:
		return binding{dropReal: true}, nil
	}
	return binding{}, kube.Wait(0, "the real claim is not bound yet")
}

func decideLocal(in bindingInputs, node string) (binding, error) {
	if in.noClass != nil {
		return binding{}, kube.Invalid(reasonFailed, in.noClass)
	}
	claim := in.claim
	labels := map[string]string{}
	for key, value := range map[string]string{names.VirtualClaimNamespace: claim.Namespace, names.VirtualClaimName: claim.Name} {
		if len(value) <= validation.LabelValueMaxLength { // names of claims may be longer
			labels[key] = value
		}
	}
	spec := claim.Spec.DeepCopy()
	spec.VolumeName, spec.StorageClassName = "", new(in.realClass)
	return binding{real: &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: in.storageNamespace, Name: string(claim.UID), Labels: labels,
			Annotations: map[string]string{selectedNode: node, names.VirtualClaimNamespace: claim.Namespace, names.VirtualClaimName: claim.Name},
		},
		Spec: *spec,
	}}, nil
}

func decideRemote(in bindingInputs) (binding, error) {
	if in.virtualNode == nil {
		return binding{}, kube.Wait(0, "the virtual node has no VirtualNode")
	}
	provider, offered := in.virtualNode.Spec.ClusterID, in.virtualNode.Spec.StorageClasses
	if len(offered) == 0 {
		return binding{reschedule: fmt.Sprintf("cluster %q offers no storage for node %q", provider, in.virtualNode.Name)}, nil
	}
	if !in.mapped && in.offloaded {
		return binding{}, kube.Wait(0, "the namespace is not mapped yet")
	}
	if !in.mapped {
		return binding{reschedule: fmt.Sprintf("namespace %q is not offloaded to cluster %q", in.claim.Namespace, provider)}, nil
	}
	class, err := remoteClass(in.claim, offered)
	if err != nil {
		return binding{}, kube.Invalid(reasonFailed, fmt.Errorf("cluster %q: %w", provider, err))
	}
	volume := newVolume(in)
	volume.Labels[names.RemoteClusterID] = string(provider)
	volume.Annotations[names.RemoteClaim] = remoteName(in, provider)
	volume.Annotations[names.RemoteStorageClass] = class
	volume.Spec.AccessModes = in.claim.Spec.AccessModes
	volume.Spec.VolumeMode = in.claim.Spec.VolumeMode
	volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: in.claim.Spec.Resources.Requests[corev1.ResourceStorage]}
	volume.Spec.HostPath = &corev1.HostPathVolumeSource{Path: placeholderPath}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: names.RemoteClusterID, Operator: corev1.NodeSelectorOpIn, Values: []string{string(provider)}}},
	}}}}
	return binding{volume: volume}, nil
}

// remoteClass returns the class of the claim in the provider: from the annotation, else the provider's default.
func remoteClass(claim *corev1.PersistentVolumeClaim, offered []liqov1beta1.StorageType) (string, error) {
	wanted := claim.Annotations[names.RemoteStorageClass]
	if wanted == "" {
		i := max(slices.IndexFunc(offered, func(c liqov1beta1.StorageType) bool { return c.Default }), 0)
		return offered[i].StorageClassName, nil
	}
	var list []string
	for _, c := range offered {
		list = append(list, c.StorageClassName)
	}
	if !slices.Contains(list, wanted) {
		return "", fmt.Errorf("StorageClass %q of the annotation %s is not offered: %s", wanted, names.RemoteStorageClass, strings.Join(list, ", "))
	}
	return wanted, nil
}

// remoteName returns the name of the claim in the provider: the claim's own, unless another remaining volume has the name in the provider.
func remoteName(in bindingInputs, provider liqov1beta1.ClusterID) string {
	taken := slices.ContainsFunc(in.volumes, func(v corev1.PersistentVolume) bool {
		return v.Name != volumeName(in.claim) && v.Labels[names.RemoteClusterID] == string(provider) && v.Annotations[names.RemoteClaim] == in.claim.Name &&
			v.Spec.ClaimRef != nil && v.Spec.ClaimRef.Namespace == in.claim.Namespace && !policy.IsReclaimed(&v)
	})
	if !taken {
		return in.claim.Name
	}
	const maxName, short = validation.DNS1123SubdomainMaxLength, 8
	name := in.claim.Name[:min(len(in.claim.Name), maxName-short-1)]
	return strings.TrimRight(name, ".-") + "-" + string(in.claim.UID)[:min(len(in.claim.UID), short)]
}

// localVolume returns the volume for data of this cluster, with the source of the real volume. Its pods stay on nodes of this cluster.
func localVolume(in bindingInputs) *corev1.PersistentVolume {
	out, spec := newVolume(in), in.realVolume.Spec.DeepCopy()
	out.Spec.PersistentVolumeSource, out.Spec.Capacity, out.Spec.AccessModes = spec.PersistentVolumeSource, spec.Capacity, spec.AccessModes
	out.Spec.VolumeMode, out.Spec.MountOptions = spec.VolumeMode, slices.Concat(spec.MountOptions, out.Spec.MountOptions)
	slices.Sort(out.Spec.MountOptions)
	out.Spec.MountOptions = slices.Compact(out.Spec.MountOptions)
	out.Spec.NodeAffinity = onLocalNodes(spec.NodeAffinity)
	return out
}

// onLocalNodes restricts an affinity, nil for none, to nodes of this cluster. Terms are alternatives: each is restricted.
func onLocalNodes(of *corev1.VolumeNodeAffinity) *corev1.VolumeNodeAffinity {
	local := corev1.NodeSelectorRequirement{Key: names.NodeType, Operator: corev1.NodeSelectorOpDoesNotExist}
	terms := []corev1.NodeSelectorTerm{{}}
	if of != nil && of.Required != nil {
		terms = of.Required.DeepCopy().NodeSelectorTerms
	}
	for i := range terms {
		terms[i].MatchExpressions = append(terms[i].MatchExpressions, local)
	}
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
}

func newVolume(in bindingInputs) *corev1.PersistentVolume {
	reclaim := corev1.PersistentVolumeReclaimDelete
	if in.class.ReclaimPolicy != nil {
		reclaim = *in.class.ReclaimPolicy
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: volumeName(in.claim), Labels: map[string]string{names.StorageProvisioner: "true"},
			Annotations: map[string]string{provisionedBy: names.StorageProvider},
		},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: in.class.Name, PersistentVolumeReclaimPolicy: reclaim, MountOptions: slices.Clone(in.class.MountOptions),
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: in.claim.Namespace, Name: in.claim.Name, UID: in.claim.UID,
			},
		},
	}
}

// volumePrefix and the UID of the first claim are the name of a virtual volume.
const volumePrefix = "pvc-"

func volumeName(claim *corev1.PersistentVolumeClaim) string { return volumePrefix + string(claim.UID) }

// realName returns the name of the real claim behind a local volume.
func realName(volume string) string { return strings.TrimPrefix(volume, volumePrefix) }

// isRemote reports whether the data of a virtual volume is in a provider.
func isRemote(v *corev1.PersistentVolume) bool { return v.Labels[names.RemoteClusterID] != "" }

func classOf(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// isDefaultClass annotates the default StorageClass.
const isDefaultClass = "storageclass.kubernetes.io/is-default-class"

// chooseRealClass returns the class of real claims: the configured class, else the newest of the cluster's defaults, as Kubernetes chooses.
func chooseRealClass(classes []storagev1.StorageClass, configured string) (string, error) {
	own := func(c storagev1.StorageClass) bool { return c.Provisioner == names.StorageProvider }
	if configured != "" {
		if slices.ContainsFunc(classes, func(c storagev1.StorageClass) bool { return c.Name == configured && own(c) }) {
			return "", fmt.Errorf("invalid StorageClass %q for volumes of this cluster: its provisioner is %s", configured, names.StorageProvider)
		}
		return configured, nil
	}
	defaults := slices.DeleteFunc(slices.Clone(classes), func(c storagev1.StorageClass) bool { return own(c) || c.Annotations[isDefaultClass] != "true" })
	if len(defaults) == 0 {
		return "", errors.New("this cluster has no default StorageClass for volumes on its own nodes: set the value storage.realStorageClassName")
	}
	newest := slices.MaxFunc(defaults, func(a, b storagev1.StorageClass) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	return newest.Name, nil
}
