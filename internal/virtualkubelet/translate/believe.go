// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"encoding/json"
	"math"
	"net/netip"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"liqo.io/liqo/internal/policy"
)

// A provider writes the status of its pods, and can write anything. The accepted values are limited here to those that the
// kubelet of a real node can report of the containers of the local pod.

const (
	// MaxPodStatus limits the stored bytes of a remote status. Pods of many containers get maxOfContainer for each instead.
	MaxPodStatus   = 32 << 10
	maxOfContainer = 1 << 10

	maxTermination   = 4096 // kubelets truncate termination messages to this
	maxImage         = 512
	maxContainerID   = 256
	maxConditions    = 32
	maxGroups        = 64
	maxDevices       = 16
	maxRestartCount  = 1 << 30
	maxAddressesSeen = 16
	lastYear         = 9999
	maxDeviceOfPod   = 64
	maxMountsOfStats = 128
)

// believedStatus returns the sanitized remote status. The two share no memory.
func believedStatus(local *corev1.Pod, said *corev1.PodStatus) corev1.PodStatus {
	out := corev1.PodStatus{
		ObservedGeneration: said.ObservedGeneration,
		Phase:              said.Phase,
		Conditions:         believedConditions(said.Conditions),
		Message:            policy.CleanText(said.Message, policy.MaxForeignMessage),
		Reason:             policy.CleanLine(said.Reason, policy.MaxForeignReason),
		PodIP:              policy.CleanLine(said.PodIP, policy.MaxForeignReason),
		PodIPs:             believedAddresses(said.PodIPs),
		StartTime:          cleanTimeOf(said.StartTime),
		AllocatedResources: policy.Amounts(said.AllocatedResources),
		Resources:          believedResources(said.Resources),

		InitContainerStatuses:      believedContainers(said.InitContainerStatuses, local.Spec.InitContainers),
		ContainerStatuses:          believedContainers(said.ContainerStatuses, local.Spec.Containers),
		EphemeralContainerStatuses: believedContainers(said.EphemeralContainerStatuses, ephemeralDebuggers(local)),
	}
	if isOneOf(said.Resize, corev1.PodResizeStatusDeferred, corev1.PodResizeStatusInfeasible, corev1.PodResizeStatusInProgress) {
		out.Resize = said.Resize
	}
	shrinkStatus(&out)
	return out
}

// believedAddresses returns the first address of each family.
func believedAddresses(said []corev1.PodIP) []corev1.PodIP {
	var out []corev1.PodIP
	var seen [2]bool
	for _, ip := range said[:min(len(said), maxAddressesSeen)] {
		addr, err := netip.ParseAddr(ip.IP)
		family := 0
		if addr.Is4() || addr.Is4In6() {
			family = 1
		}
		if err == nil && !seen[family] {
			seen[family] = true
			out = append(out, corev1.PodIP{IP: addr.String()})
		}
	}
	return out
}

func isOneOf[T comparable](value T, of ...T) bool { return slices.Contains(of, value) }

// ephemeralDebuggers returns the ephemeral containers of a pod as containers.
func ephemeralDebuggers(pod *corev1.Pod) []corev1.Container {
	var out []corev1.Container
	for i := range pod.Spec.EphemeralContainers {
		out = append(out, corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return out
}

func believedConditions(said []corev1.PodCondition) []corev1.PodCondition {
	var out []corev1.PodCondition
	for _, c := range said {
		twice := hasCondition(out, c.Type)
		valued := isOneOf(c.Status, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown)
		room := len(out) < maxConditions-len(ofKubelet) || isOneOf(c.Type, ofKubelet...)
		if twice || !valued || !room || len(validation.IsQualifiedName(string(c.Type))) > 0 {
			continue
		}
		c.ObservedGeneration = max(c.ObservedGeneration, 0)
		c.Reason, c.Message = policy.CleanLine(c.Reason, policy.MaxForeignReason), policy.CleanText(c.Message, policy.MaxForeignMessage)
		c.LastProbeTime, c.LastTransitionTime = CleanTime(c.LastProbeTime), CleanTime(c.LastTransitionTime)
		out = append(out, c)
	}
	return out
}

// believedContainers returns at most one status for each container of the local pod.
func believedContainers(said []corev1.ContainerStatus, of []corev1.Container) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for i := range said {
		spec := slices.IndexFunc(of, func(c corev1.Container) bool { return c.Name == said[i].Name })
		if spec >= 0 && !slices.ContainsFunc(out, func(o corev1.ContainerStatus) bool { return o.Name == said[i].Name }) {
			out = append(out, believedContainer(&said[i], &of[spec]))
		}
	}
	return out
}

var signalName = regexp.MustCompile(`^SIG[A-Z0-9+-]{1,12}$`)

func believedContainer(said *corev1.ContainerStatus, of *corev1.Container) corev1.ContainerStatus {
	out := corev1.ContainerStatus{
		Name:                 said.Name,
		State:                believedState(said.State),
		LastTerminationState: believedState(said.LastTerminationState),
		Ready:                said.Ready,
		RestartCount:         believedRestarts(said.RestartCount),
		Image:                policy.CleanLine(said.Image, maxImage),
		ImageID:              policy.CleanLine(said.ImageID, maxImage),
		ContainerID:          policy.CleanLine(said.ContainerID, maxContainerID),
		Started:              copyOf(said.Started),
		AllocatedResources:   policy.Amounts(said.AllocatedResources),
		Resources:            believedResources(said.Resources),
		VolumeMounts:         believedMounts(said.VolumeMounts, of),
		User:                 believedUser(said.User),
	}
	if said.StopSignal != nil && signalName.MatchString(string(*said.StopSignal)) {
		out.StopSignal = copyOf(said.StopSignal)
	}
	for _, s := range said.AllocatedResourcesStatus[:min(len(said.AllocatedResourcesStatus), maxDevices)] {
		_, requested := of.Resources.Requests[s.Name]
		_, limited := of.Resources.Limits[s.Name]
		if requested || limited {
			out.AllocatedResourcesStatus = append(out.AllocatedResourcesStatus, corev1.ResourceStatus{Name: s.Name, Resources: believedDevices(s.Resources)})
		}
	}
	return out
}

func believedDevices(said []corev1.ResourceHealth) []corev1.ResourceHealth {
	var out []corev1.ResourceHealth
	for _, d := range said[:min(len(said), maxDeviceOfPod)] {
		id := policy.CleanLine(string(d.ResourceID), maxContainerID)
		if id == string(d.ResourceID) && isOneOf(d.Health, corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown) {
			out = append(out, d)
		}
	}
	return out
}

func believedRestarts(said int32) int32 { return min(max(said, 0), maxRestartCount) }

// believedState returns the one effective state, the latest in the life of a container.
func believedState(said corev1.ContainerState) corev1.ContainerState {
	switch {
	case said.Terminated != nil:
		t := said.Terminated
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: t.ExitCode, Signal: t.Signal, Reason: policy.CleanLine(t.Reason, policy.MaxForeignReason), Message: policy.CleanText(t.Message, maxTermination),
			StartedAt: CleanTime(t.StartedAt), FinishedAt: CleanTime(t.FinishedAt), ContainerID: policy.CleanLine(t.ContainerID, maxContainerID),
		}}
	case said.Running != nil:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: CleanTime(said.Running.StartedAt)}}
	case said.Waiting != nil:
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: policy.CleanLine(said.Waiting.Reason, policy.MaxForeignReason), Message: policy.CleanText(said.Waiting.Message, policy.MaxForeignMessage),
		}}
	}
	return corev1.ContainerState{}
}

func believedResources(said *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if said == nil {
		return nil
	}
	return &corev1.ResourceRequirements{Limits: policy.Amounts(said.Limits), Requests: policy.Amounts(said.Requests)}
}

// believedMounts returns the mounts that the local container has too.
func believedMounts(said []corev1.VolumeMountStatus, of *corev1.Container) []corev1.VolumeMountStatus {
	var out []corev1.VolumeMountStatus
	for _, m := range said {
		asked := slices.ContainsFunc(of.VolumeMounts, func(v corev1.VolumeMount) bool { return v.Name == m.Name && v.MountPath == m.MountPath })
		twice := slices.ContainsFunc(out, func(o corev1.VolumeMountStatus) bool { return o.MountPath == m.MountPath })
		if !asked || twice || len(out) == maxMountsOfStats {
			continue
		}
		if m.RecursiveReadOnly != nil {
			if mode := *m.RecursiveReadOnly; isOneOf(mode, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled) {
				m.RecursiveReadOnly = &mode
			} else {
				m.RecursiveReadOnly = nil
			}
		}
		out = append(out, m)
	}
	return out
}

func believedUser(said *corev1.ContainerUser) *corev1.ContainerUser {
	if said == nil || said.Linux == nil {
		return nil
	}
	groups := slices.Clone(said.Linux.SupplementalGroups[:min(len(said.Linux.SupplementalGroups), maxGroups)])
	groups = slices.DeleteFunc(groups, func(id int64) bool { return !isID(id) })
	if !isID(said.Linux.UID) || !isID(said.Linux.GID) {
		return nil
	}
	return &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: said.Linux.UID, GID: said.Linux.GID, SupplementalGroups: groups}}
}

func isID(id int64) bool { return id >= 0 && id <= math.MaxInt32 }

// CleanTime returns the zero time for a time that cannot be marshalled: clients could not read the object, nor any list with it.
func CleanTime(said metav1.Time) metav1.Time {
	if year := said.UTC().Year(); year < 1 || year > lastYear {
		return metav1.Time{}
	}
	return said
}

func cleanTimeOf(said *metav1.Time) *metav1.Time {
	if said == nil {
		return nil
	}
	out := CleanTime(*said)
	return &out
}

func copyOf[T any](value *T) *T {
	if value == nil {
		return nil
	}
	return new(*value)
}

// shrinkStatus truncates texts step by step until the status has at most MaxPodStatus bytes.
func shrinkStatus(status *corev1.PodStatus) {
	most := max(MaxPodStatus, maxOfContainer*(len(status.InitContainerStatuses)+len(status.ContainerStatuses)+len(status.EphemeralContainerStatuses)))
	for _, limit := range []int{policy.MaxForeignMessage, 256, 64, 0} {
		if sizeOf(status) <= most {
			return
		}
		for i := range status.Conditions {
			status.Conditions[i].Message = policy.CleanText(status.Conditions[i].Message, limit)
		}
		for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
			for i := range list {
				shrinkContainer(&list[i], limit)
			}
		}
	}
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool { return !isOneOf(c.Type, ofKubelet...) })
}

func shrinkContainer(s *corev1.ContainerStatus, limit int) {
	for _, state := range []*corev1.ContainerState{&s.State, &s.LastTerminationState} {
		if w := state.Waiting; w != nil {
			w.Message = policy.CleanText(w.Message, limit)
		}
		if t := state.Terminated; t != nil {
			t.Message = policy.CleanText(t.Message, limit)
		}
	}
	if limit == 0 {
		s.AllocatedResourcesStatus, s.VolumeMounts, s.User = nil, nil, nil
		s.AllocatedResources, s.Resources = nil, nil
		s.Image, s.ImageID, s.LastTerminationState = policy.CleanLine(s.Image, maxContainerID), "", corev1.ContainerState{}
		if t := s.State.Terminated; t != nil {
			t.ContainerID = ""
		}
	}
}

// sizeOf returns the length of the JSON of a status, or a cheaper estimate if that is well below the limit.
func sizeOf(status *corev1.PodStatus) int {
	const wellBelow = MaxPodStatus / 8
	if size := status.Size(); size < wellBelow {
		return size
	}
	raw, err := json.Marshal(status)
	if err != nil {
		return math.MaxInt
	}
	return len(raw)
}
