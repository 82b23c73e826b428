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

// A provider writes the status of its pods, and can write anything. The accepted values are limited to those that the
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
	maxVolumes       = 16
)

// cleanStatus returns the sanitized remote status. The two share no memory.
func cleanStatus(local *corev1.Pod, reported *corev1.PodStatus) corev1.PodStatus {
	out := corev1.PodStatus{
		ObservedGeneration: reported.ObservedGeneration,
		Phase:              reported.Phase,
		Conditions:         cleanConditions(reported.Conditions),
		Message:            policy.CleanText(reported.Message, policy.MaxForeignMessage),
		Reason:             policy.CleanLine(reported.Reason, policy.MaxForeignReason),
		PodIP:              policy.CleanLine(reported.PodIP, policy.MaxForeignReason),
		PodIPs:             cleanAddresses(reported.PodIPs),
		StartTime:          cleanTimeOf(reported.StartTime),
		AllocatedResources: policy.Amounts(reported.AllocatedResources),
		Resources:          cleanResources(reported.Resources),
		VolumeHealth:       cleanVolumeHealth(reported.VolumeHealth, local.Spec.Volumes),

		InitContainerStatuses:      cleanContainers(reported.InitContainerStatuses, local.Spec.InitContainers),
		ContainerStatuses:          cleanContainers(reported.ContainerStatuses, local.Spec.Containers),
		EphemeralContainerStatuses: cleanContainers(reported.EphemeralContainerStatuses, ephemeralDebuggers(local)),
	}
	if isOneOf(reported.Resize, corev1.PodResizeStatusDeferred, corev1.PodResizeStatusInfeasible, corev1.PodResizeStatusInProgress) {
		out.Resize = reported.Resize
	}
	shrinkStatus(&out)
	return out
}

// cleanAddresses returns the first address of each family.
func cleanAddresses(reported []corev1.PodIP) []corev1.PodIP {
	var out []corev1.PodIP
	var seen [2]bool
	for _, ip := range reported[:min(len(reported), maxAddressesSeen)] {
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

func cleanConditions(reported []corev1.PodCondition) []corev1.PodCondition {
	var out []corev1.PodCondition
	for _, c := range reported {
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

// cleanContainers returns at most one status for each container of the local pod.
func cleanContainers(reported []corev1.ContainerStatus, of []corev1.Container) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for i := range reported {
		spec := slices.IndexFunc(of, func(c corev1.Container) bool { return c.Name == reported[i].Name })
		if spec >= 0 && !slices.ContainsFunc(out, func(o corev1.ContainerStatus) bool { return o.Name == reported[i].Name }) {
			out = append(out, cleanContainer(&reported[i], &of[spec]))
		}
	}
	return out
}

var signalName = regexp.MustCompile(`^SIG[A-Z0-9+-]{1,12}$`)

func cleanContainer(reported *corev1.ContainerStatus, of *corev1.Container) corev1.ContainerStatus {
	out := corev1.ContainerStatus{
		Name:                 reported.Name,
		State:                cleanState(reported.State),
		LastTerminationState: cleanState(reported.LastTerminationState),
		Ready:                reported.Ready,
		RestartCount:         cleanRestarts(reported.RestartCount),
		Image:                policy.CleanLine(reported.Image, maxImage),
		ImageID:              policy.CleanLine(reported.ImageID, maxImage),
		ContainerID:          policy.CleanLine(reported.ContainerID, maxContainerID),
		Started:              copyOf(reported.Started),
		AllocatedResources:   policy.Amounts(reported.AllocatedResources),
		Resources:            cleanResources(reported.Resources),
		VolumeMounts:         cleanMounts(reported.VolumeMounts, of),
		User:                 cleanUser(reported.User),
	}
	if reported.StopSignal != nil && signalName.MatchString(string(*reported.StopSignal)) {
		out.StopSignal = copyOf(reported.StopSignal)
	}
	for _, s := range reported.AllocatedResourcesStatus[:min(len(reported.AllocatedResourcesStatus), maxDevices)] {
		_, requested := of.Resources.Requests[s.Name]
		_, limited := of.Resources.Limits[s.Name]
		if requested || limited {
			out.AllocatedResourcesStatus = append(out.AllocatedResourcesStatus, corev1.ResourceStatus{Name: s.Name, Resources: cleanDevices(s.Resources)})
		}
	}
	return out
}

func cleanDevices(reported []corev1.ResourceHealth) []corev1.ResourceHealth {
	var out []corev1.ResourceHealth
	for _, d := range reported[:min(len(reported), maxDeviceOfPod)] {
		id := policy.CleanLine(string(d.ResourceID), maxContainerID)
		if id == string(d.ResourceID) && isOneOf(d.Health, corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown) {
			if d.Message != nil {
				d.Message = new(policy.CleanText(*d.Message, policy.MaxForeignMessage))
			}
			out = append(out, d)
		}
	}
	return out
}

// cleanVolumeHealth returns the health of volumes of the local pod, one condition of each kind.
func cleanVolumeHealth(reported []corev1.PodVolumeHealth, of []corev1.Volume) []corev1.PodVolumeHealth {
	var out []corev1.PodVolumeHealth
	for _, v := range reported {
		known := slices.ContainsFunc(of, func(o corev1.Volume) bool { return o.Name == v.Name })
		twice := slices.ContainsFunc(out, func(o corev1.PodVolumeHealth) bool { return o.Name == v.Name })
		if !known || twice || len(out) == maxVolumes {
			continue
		}
		health := corev1.PodVolumeHealth{Name: v.Name, LastTransitionTime: CleanTime(v.LastTransitionTime)}
		for _, c := range v.HealthConditions {
			again := slices.ContainsFunc(health.HealthConditions, func(o corev1.VolumeHealthCondition) bool { return o.Status == c.Status })
			if !again && isOneOf(c.Status, corev1.VolumeHealthInaccessible, corev1.VolumeHealthDataLoss, corev1.VolumeHealthDegraded) {
				c.Reason, c.Message = policy.CleanLine(c.Reason, policy.MaxForeignReason), policy.CleanText(c.Message, policy.MaxForeignMessage)
				health.HealthConditions = append(health.HealthConditions, c)
			}
		}
		out = append(out, health)
	}
	return out
}

func cleanRestarts(reported int32) int32 { return min(max(reported, 0), maxRestartCount) }

// cleanState returns the one effective state, the latest in the life of a container.
func cleanState(reported corev1.ContainerState) corev1.ContainerState {
	switch {
	case reported.Terminated != nil:
		t := reported.Terminated
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: t.ExitCode, Signal: t.Signal, Reason: policy.CleanLine(t.Reason, policy.MaxForeignReason), Message: policy.CleanText(t.Message, maxTermination),
			StartedAt: CleanTime(t.StartedAt), FinishedAt: CleanTime(t.FinishedAt), ContainerID: policy.CleanLine(t.ContainerID, maxContainerID),
		}}
	case reported.Running != nil:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: CleanTime(reported.Running.StartedAt)}}
	case reported.Waiting != nil:
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: policy.CleanLine(reported.Waiting.Reason, policy.MaxForeignReason), Message: policy.CleanText(reported.Waiting.Message, policy.MaxForeignMessage),
		}}
	}
	return corev1.ContainerState{}
}

func cleanResources(reported *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if reported == nil {
		return nil
	}
	return &corev1.ResourceRequirements{Limits: policy.Amounts(reported.Limits), Requests: policy.Amounts(reported.Requests)}
}

// cleanMounts returns the mounts that the local container has too.
func cleanMounts(reported []corev1.VolumeMountStatus, of *corev1.Container) []corev1.VolumeMountStatus {
	var out []corev1.VolumeMountStatus
	for _, m := range reported {
		requested := slices.ContainsFunc(of.VolumeMounts, func(v corev1.VolumeMount) bool { return v.Name == m.Name && v.MountPath == m.MountPath })
		twice := slices.ContainsFunc(out, func(o corev1.VolumeMountStatus) bool { return o.MountPath == m.MountPath })
		if !requested || twice || len(out) == maxMountsOfStats {
			continue
		}
		if m.RecursiveReadOnly != nil {
			if mode := *m.RecursiveReadOnly; isOneOf(mode, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled) {
				m.RecursiveReadOnly = &mode
			} else {
				m.RecursiveReadOnly = nil
			}
		}
		m.VolumeStatus = cleanVolumeStatus(m.VolumeStatus)
		out = append(out, m)
	}
	return out
}

func cleanVolumeStatus(reported *corev1.VolumeStatus) *corev1.VolumeStatus {
	if reported == nil || reported.Image == nil {
		return nil
	}
	return &corev1.VolumeStatus{Image: &corev1.ImageVolumeStatus{ImageRef: policy.CleanLine(reported.Image.ImageRef, maxImage)}}
}

func cleanUser(reported *corev1.ContainerUser) *corev1.ContainerUser {
	if reported == nil || reported.Linux == nil {
		return nil
	}
	groups := slices.Clone(reported.Linux.SupplementalGroups[:min(len(reported.Linux.SupplementalGroups), maxGroups)])
	groups = slices.DeleteFunc(groups, func(id int64) bool { return !isID(id) })
	if !isID(reported.Linux.UID) || !isID(reported.Linux.GID) {
		return nil
	}
	return &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: reported.Linux.UID, GID: reported.Linux.GID, SupplementalGroups: groups}}
}

func isID(id int64) bool { return id >= 0 && id <= math.MaxInt32 }

// CleanTime returns the zero time for a time that cannot be marshalled: clients could read neither the object nor a list with the object.
func CleanTime(reported metav1.Time) metav1.Time {
	if year := reported.UTC().Year(); year < 1 || year > lastYear {
		return metav1.Time{}
	}
	return reported
}

func cleanTimeOf(reported *metav1.Time) *metav1.Time {
	if reported == nil {
		return nil
	}
	out := CleanTime(*reported)
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
		for i := range status.VolumeHealth {
			for j := range status.VolumeHealth[i].HealthConditions {
				c := &status.VolumeHealth[i].HealthConditions[j]
				c.Message = policy.CleanText(c.Message, limit)
			}
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
	for i := range s.AllocatedResourcesStatus {
		for j := range s.AllocatedResourcesStatus[i].Resources {
			if d := &s.AllocatedResourcesStatus[i].Resources[j]; d.Message != nil {
				*d.Message = policy.CleanText(*d.Message, limit)
			}
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
