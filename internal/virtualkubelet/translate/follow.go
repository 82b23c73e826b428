// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// Change is one kind of change of a running pod.
type Change string

// The kinds of changes.
const (
	ChangeImages      Change = "images"
	ChangeResources   Change = "resources"
	ChangeDeadline    Change = "activeDeadlineSeconds"
	ChangeTolerations Change = "tolerations"
	ChangeEphemeral   Change = "ephemeral containers"
	// ChangeMetadata changes only labels and annotations; the other kinds exclude them.
	ChangeMetadata Change = "labels and annotations"
)

var allChanges = []Change{ChangeImages, ChangeResources, ChangeDeadline, ChangeTolerations, ChangeEphemeral}

// Changes returns the kinds of changes missing in the existing ShadowPod, for a provider that refuses all of them together.
func Changes(in Input) []Change {
	return slices.DeleteFunc(slices.Clone(allChanges), func(c Change) bool {
		in.Only = c
		now := *in.Existing.Spec.Pod.DeepCopy()
		followReferences(&now, in)
		return equality.Semantic.DeepEqual(now, in.Existing.Spec.Pod)
	})
}

// followReferences copies the mutable fields of the local pod to the spec of a ShadowPod: images, resources, the deadline, additional
// tolerations, ephemeral containers. With Only, one kind is copied.
func followReferences(spec *corev1.PodSpec, in Input) {
	local := in.Pod.Spec.DeepCopy()
	has := func(c Change) bool { return in.Only == "" || in.Only == c }
	for _, lists := range [][2][]corev1.Container{{spec.Containers, local.Containers}, {spec.InitContainers, local.InitContainers}} {
		followContainers(lists[0], lists[1], has(ChangeImages), has(ChangeResources))
	}
	if local.Resources != nil && has(ChangeResources) {
		spec.Resources = local.Resources
	}
	if local.ActiveDeadlineSeconds != nil && has(ChangeDeadline) {
		spec.ActiveDeadlineSeconds = local.ActiveDeadlineSeconds
	}
	for _, t := range in.translateTolerations(local.Tolerations) {
		if has(ChangeTolerations) && !hasToleration(spec.Tolerations, t) {
			spec.Tolerations = append(spec.Tolerations, t)
		}
	}
	if has(ChangeEphemeral) {
		spec.EphemeralContainers = in.ephemeralContainers(local.EphemeralContainers)
	}
}

func followContainers(remote, local []corev1.Container, images, resources bool) {
	for _, l := range withoutClaims(local) {
		for i := range remote {
			if remote[i].Name != l.Name {
				continue
			}
			if images {
				remote[i].Image = l.Image
			}
			if resources {
				remote[i].Resources = l.Resources
			}
		}
	}
}

// ephemeralContainers returns the containers that still run, or did not run yet: none may run twice if the remote pod is recreated.
func (in Input) ephemeralContainers(local []corev1.EphemeralContainer) []corev1.EphemeralContainer {
	var out []corev1.EphemeralContainer
	for _, c := range local {
		over := slices.ContainsFunc(in.Pod.Status.EphemeralContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.Name == c.Name && s.State.Terminated != nil
		})
		if over {
			continue
		}
		if showsLocalNamespace(in.Pod) {
			showNamespaceInEnv(c.Env, in.Pod.Namespace)
		}
		if AccessOf(in.Pod, in.Route) != AccessRemote {
			localizeEnv((*corev1.Container)(&c.EphemeralContainerCommon), in)
		}
		out = append(out, c)
	}
	return out
}

// Lost returns the fields of a pod that are not reflected, for the user.
func Lost(pod *corev1.Pod) []string {
	var out []string
	for _, lost := range []struct {
		field string
		is    bool
	}{
		{"hostNetwork", pod.Spec.HostNetwork}, {"hostPID", pod.Spec.HostPID}, {"hostIPC", pod.Spec.HostIPC},
		{"resourceClaims", len(pod.Spec.ResourceClaims) > 0},
	} {
		if lost.is {
			out = append(out, lost.field)
		}
	}
	var taints []string
	for _, t := range pod.Spec.Tolerations {
		if policy.ToleratesRole(t) {
			taints = append(taints, "the toleration of "+t.Key+" (unless the provider sets "+policy.ControlPlaneValue+")")
		}
	}
	return append(out, uniqueNames(taints)...)
}

// IsOfAnother reports whether a remote object was made for an earlier local pod of the same name.
func IsOfAnother(remote metav1.Object, local *corev1.Pod) bool {
	uid := remote.GetAnnotations()[names.OffloadingUID]
	return uid != "" && uid != string(local.UID)
}

const defaultGrace = 30

// Grace returns the grace period of the remote pod, and whether it is shorter (-1) or longer (1) than the present one. No
// remote deletion is forced: the provider's node decides when the pod is gone, and a terminating pod's period can only get
// shorter.
func Grace(local, remote *corev1.Pod) (seconds int64, change int) {
	if remote == nil || local.DeletionGracePeriodSeconds == nil {
		return 0, 0
	}
	want, current := max(1, *local.DeletionGracePeriodSeconds), int64(defaultGrace)
	switch {
	case !remote.DeletionTimestamp.IsZero():
		current = want
		if own := remote.DeletionGracePeriodSeconds; own != nil {
			current = *own
		}
		return want, min(0, cmp.Compare(want, current))
	case remote.Spec.TerminationGracePeriodSeconds != nil:
		current = *remote.Spec.TerminationGracePeriodSeconds
	}
	return want, cmp.Compare(want, current)
}
