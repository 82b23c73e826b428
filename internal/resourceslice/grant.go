// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

func (r *remoteSlices) refuseSlice(slice *authv1beta1.ResourceSlice, reason string) {
	policy.AuthenticationDenied(reason).Set(&slice.Status, r.options.Now())
	policy.ResourcesDenied(reason).Set(&slice.Status, r.options.Now())
	slice.Status.AuthParams = nil
	r.grants.Drop(slice)
	if policy.IsDefaultClass(slice.Spec.Class) {
		policy.RevokeResources(&slice.Status)
	}
}

// grantResources decides about the resources. ResourceSlices of other classes are left to the controllers of these
// classes.
func (r *remoteSlices) grantResources(slice *authv1beta1.ResourceSlice, in *sliceView) {
	status, now := &slice.Status, r.options.Now()
	own, reason := policy.IsDefaultClass(slice.Spec.Class), in.pauseReason()
	switch {
	case reason != "":
		if !policy.IsAccepted(slice, authv1beta1.ResourceSliceConditionTypeResources) {
			policy.ResourcesDenied(reason).Set(status, now)
		}
	case !own:
		if deniedForTenant(slice, policy.ResourcesDenied) {
			policy.ClearDecision(status, authv1beta1.ResourceSliceConditionTypeResources)
		}
	case r.options.DisableDefaultClass:
		policy.RevokeResources(status)
		policy.DefaultClassDisabled().Set(status, now)
	default:
		r.grantDefault(slice, in)
	}
}

func (r *remoteSlices) grantDefault(slice *authv1beta1.ResourceSlice, in *sliceView) {
	status, now := &slice.Status, r.options.Now()
	if err := policy.CheckSliceAmounts(slice.Spec.Resources); err != nil {
		policy.RevokeResources(status)
		policy.ResourcesDenied(err.Error()).Set(status, now)
		return
	}
	defaults := r.options.Defaults
	defaults.StorageClasses = storageOffer(in.storage, r.options.RealStorageClass)
	defaults.NodeLabels = commonPlatformLabels(in.nodes)
	maps.Copy(defaults.NodeLabels, r.options.Defaults.NodeLabels)
	if minor := oldestKubelet(in.nodes); minor != "" {
		defaults.NodeLabels[names.KubernetesMinor] = minor
	}
	defaults.DeclaredFeatures = commonFeatures(in.nodes)
	if r.options.Caps.Bounded() {
		would := &authv1beta1.ResourceSliceStatus{}
		policy.GrantResources(&slice.Spec, defaults, would)
		if err := r.grants.Take(r.options.Caps, slice, would.Resources, in.siblings); err != nil {
			policy.RevokeResources(status)
			policy.ResourcesDenied(err.Error()).Set(status, now)
			return
		}
	}
	policy.GrantResources(&slice.Spec, defaults, status)
	policy.ResourcesAccepted().Set(status, now)
}

// deniedForTenant reports whether this controller set the denial, because of the Tenant alone.
func deniedForTenant(slice *authv1beta1.ResourceSlice, denied func(reason string) policy.Verdict) bool {
	for _, reason := range []string{whyNoTenant, whyDrained, whyCordoned, whyNotReady, whyVersion} {
		v := denied(reason)
		if slices.ContainsFunc(slice.Status.Conditions, func(c authv1beta1.ResourceSliceCondition) bool {
			return c.Type == v.Type && c.Reason == v.Reason && strings.HasPrefix(c.Message, v.Message)
		}) {
			return true
		}
	}
	return false
}

// checkBounds maintains the Quota of the grant. A ResourceSlice with denied credentials has none: the earlier certificate
// stays valid, and the Quota is the condition for access to the consumer's namespaces.
func (r *remoteSlices) checkBounds(ctx context.Context, slice *authv1beta1.ResourceSlice, in *sliceView) error {
	if !policy.IsAccepted(slice, authv1beta1.ResourceSliceConditionTypeResources) || policy.IsDenied(slice, authv1beta1.ResourceSliceConditionTypeAuthentication) {
		return r.dropQuota(ctx, slice, in)
	}
	cordoned := policy.IsCordoned(slice) || in.pauseReason() != ""
	quota := policy.NewQuota(slice, in.subject.CommonName, r.options.LimitsEnforcement, cordoned)
	quota.Labels = map[string]string{names.RemoteClusterID: string(in.consumer), names.ResourceSliceName: slice.Name}
	if _, err := kube.Ensure(ctx, r.client, quota, kube.OwnedBy(slice, r.client.Scheme())); err != nil {
		return fmt.Errorf("bounding the slice: %w", err)
	}
	return nil
}

// dropQuota deletes the Quota, without which no new pod starts.
func (r *remoteSlices) dropQuota(ctx context.Context, slice *authv1beta1.ResourceSlice, in *sliceView) error {
	var quota offv1beta1.Quota
	key := types.NamespacedName{Namespace: slice.Namespace, Name: in.subject.CommonName}
	if err := r.client.Get(ctx, key, &quota); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading the Quota of the slice: %w", err)
	}
	if !metav1.IsControlledBy(&quota, slice) {
		return nil
	}
	return kube.DeleteObject(ctx, r.client, &quota, "removing the Quota of the slice")
}

// defaultStorageClass is the annotation of the default StorageClass.
const defaultStorageClass = "storageclass.kubernetes.io/is-default-class"

// storageOffer returns the storage classes of this cluster. The default is the configured class, else the cluster's
// own.
func storageOffer(classes []storagev1.StorageClass, configured string) []liqov1beta1.StorageType {
	var out []liqov1beta1.StorageType
	for i := range classes {
		class := &classes[i]
		if class.Provisioner == names.StorageProvider {
			// The class of Liqo represents classes of other clusters.
			continue
		}
		isDefault := class.Annotations[defaultStorageClass] == "true"
		if configured != "" {
			isDefault = class.Name == configured
		}
		out = append(out, liqov1beta1.StorageType{StorageClassName: class.Name, Default: isDefault})
	}
	slices.SortFunc(out, func(a, b liqov1beta1.StorageType) int { return cmp.Compare(a.StorageClassName, b.StorageClassName) })
	return out
}

// platformLabels are the labels that an image's platform has to match.
var platformLabels = []string{corev1.LabelArchStable, corev1.LabelOSStable}

// commonPlatformLabels returns the platformLabels shared by all nodes of this cluster. In a mixed cluster a label is left out:
// one virtual node cannot have two platforms.
func commonPlatformLabels(nodes []corev1.Node) map[string]string {
	out := map[string]string{}
	for _, label := range platformLabels {
		if value := commonLabel(nodes, label); value != "" {
			out[label] = value
		}
	}
	return out
}

// commonFeatures returns the features that all real nodes declare: a pod may run on any of them.
func commonFeatures(nodes []corev1.Node) []string {
	var common []string
	first := true
	for i := range nodes {
		if nodes[i].Labels[names.NodeType] == names.NodeTypeVirtualNode {
			continue
		}
		declared := policy.DeclaredFeatures(nodes[i].Status.DeclaredFeatures)
		if first {
			common, first = declared, false
			continue
		}
		common = slices.DeleteFunc(common, func(name string) bool { return !slices.Contains(declared, name) })
	}
	return common
}

// oldestKubelet returns the minor version of the oldest kubelet of the real nodes, "" if unknown. A pod field unknown to the kubelet
// has no effect, even if the API server knows the field. The API server is never older.
func oldestKubelet(nodes []corev1.Node) string {
	var oldest *version.Version
	for i := range nodes {
		of, err := version.ParseGeneric(nodes[i].Status.NodeInfo.KubeletVersion)
		if err != nil || nodes[i].Labels[names.NodeType] == names.NodeTypeVirtualNode {
			continue
		}
		if oldest == nil || of.LessThan(oldest) {
			oldest = of
		}
	}
	if oldest == nil {
		return ""
	}
	return strconv.Itoa(int(oldest.Minor()))
}

// commonLabel returns the value of a label that all real nodes share, or "".
func commonLabel(nodes []corev1.Node, label string) string {
	value := ""
	for i := range nodes {
		labels := nodes[i].Labels
		if labels[names.NodeType] == names.NodeTypeVirtualNode {
			continue
		}
		if labels[label] == "" || value != "" && labels[label] != value {
			return ""
		}
		value = labels[label]
	}
	return value
}

// platformChanged passes nodes that are added, deleted, or change their platform, version or features.
func platformChanged() predicate.Predicate {
	differ := func(a, b client.Object) bool {
		before, ok := a.(*corev1.Node)
		after, same := b.(*corev1.Node)
		if ok && same && (before.Status.NodeInfo.KubeletVersion != after.Status.NodeInfo.KubeletVersion ||
			!slices.Equal(before.Status.DeclaredFeatures, after.Status.DeclaredFeatures)) {
			return true
		}
		for _, label := range append(platformLabels, names.NodeType) {
			if a.GetLabels()[label] != b.GetLabels()[label] {
				return true
			}
		}
		return false
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return !e.IsInInitialList },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return differ(e.ObjectOld, e.ObjectNew) },
	}
}
