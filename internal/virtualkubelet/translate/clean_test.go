// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit/hostile"
)

// hostilePod is a local pod with several containers of each sort.
func hostilePod(containers int) *corev1.Pod {
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data"}}
	for i := range containers {
		c := corev1.Container{
			Name: fmt.Sprint("c", i), VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"example.org/device": resource.MustParse("1")}},
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon(c)})
	}
	return pod
}

var believable = hostile.Fields{
	"ContainerStateTerminated.Message": {"a", "b", "c", "d", "e", hostile.Text}, "ContainerStatus.ImageID": {"a", "b", hostile.Text}, "ContainerStatus.Image": {"a", "b", hostile.Text},
	"PodStatus.Phase": {"Running"}, "PodCondition.Type": {"Ready", "PodScheduled", "example.org/a", "example.org/b", "example.org/c", hostile.Text},
	"PodCondition.Status": {"True", "False", "Unknown", "Maybe"}, "PodStatus.PodIP": {"10.1.0.1", hostile.Text}, "PodIP.IP": {"10.1.0.1", "10.1.0.2", hostile.Text},
	"PodStatus.Resize": {"Deferred"}, "ContainerStatus.Name": {"c0", "c1", "c2", "other", hostile.Text},
	"ContainerStatus.StopSignal": {"SIGTERM", hostile.Text}, "ResourceStatus.Name": {"example.org/device", "cpu"},
	"ResourceHealth.Health": {"Healthy", "Wild"}, "ResourceHealth.ResourceID": {"gpu-1", hostile.Text},
	"VolumeMountStatus.Name": {"data"}, "VolumeMountStatus.MountPath": {"/data", "/etc"}, "VolumeMountStatus.RecursiveReadOnly": {"Disabled", "Wild"},
	"ResourceHealth.Message": {"a", hostile.Text}, "ImageVolumeStatus.ImageRef": {"registry.example.com/a@sha256:b", hostile.Text},
	"PodVolumeHealth.Name": {"data", "other"}, "VolumeHealthCondition.Status": {"Degraded", "Wild"},
	"LinuxContainerUser.UID": {int64(7)}, "LinuxContainerUser.GID": {int64(7)}, "LinuxContainerUser.SupplementalGroups": {int64(-1), int64(8)},
}

// A field that a newer Kubernetes adds to the status of pods fails here until there is a rule for it.
func TestHostilePodStatus(t *testing.T) {
	message, reason := hostile.Short(policy.MaxForeignMessage), hostile.Short(policy.MaxForeignReason)
	checks := map[string]hostile.Rule{
		"PodStatus.ObservedGeneration": hostile.Never, "PodStatus.Phase": hostile.OneOf("Running"), "PodStatus.Conditions": hostile.AtMost(maxConditions),
		"PodStatus.Message": message, "PodStatus.Reason": reason, "PodStatus.NominatedNodeName": hostile.Never,
		"PodStatus.HostIP": hostile.OneOf("192.168.0.1"), "PodStatus.HostIPs": hostile.AtMost(1), "HostIP.IP": hostile.OneOf("192.168.0.1"),
		"PodStatus.PodIP": hostile.OneOf("10.71.0.1", "10.71.0.2"), "PodStatus.PodIPs": hostile.AtMost(2), "PodIP.IP": hostile.OneOf("10.71.0.1", "10.71.0.2"),
		"PodStatus.StartTime": hostile.Moment, "PodStatus.InitContainerStatuses": hostile.AtMost(3), "PodStatus.ContainerStatuses": hostile.AtMost(3),
		"PodStatus.QOSClass": hostile.OneOf("Burstable"), "PodStatus.EphemeralContainerStatuses": hostile.AtMost(3), "PodStatus.Resize": hostile.OneOf("Deferred"),
		"PodStatus.ResourceClaimStatuses": hostile.Never, "PodResourceClaimStatus.Name": hostile.Never, "PodResourceClaimStatus.ResourceClaimName": hostile.Never,
		"PodExtendedResourceClaimStatus.RequestMappings": hostile.Never, "PodExtendedResourceClaimStatus.ResourceClaimName": hostile.Never,
		"ContainerExtendedResourceRequest.ContainerName": hostile.Never, "ContainerExtendedResourceRequest.ResourceName": hostile.Never,
		"ContainerExtendedResourceRequest.RequestName": hostile.Never,
		"PodStatus.AllocatedResources":                 hostile.AtMost(64, hostile.Amounts),
		"PodCondition.Type":                            hostile.OneOf("Ready", "PodScheduled", "example.org/a", "example.org/b", "example.org/c"),
		"PodCondition.ObservedGeneration":              hostile.Never, "PodCondition.Status": hostile.OneOf("True", "False", "Unknown"),
		"PodCondition.LastProbeTime": hostile.Moment, "PodCondition.LastTransitionTime": hostile.Moment, "PodCondition.Reason": reason, "PodCondition.Message": message,
		"ContainerStatus.Name": hostile.OneOf("c0", "c1", "c2"), "ContainerStatus.Ready": hostile.Harmless, "ContainerStatus.RestartCount": hostile.Between(0, maxRestartCount),
		"ContainerStatus.Image": hostile.Short(maxImage), "ContainerStatus.ImageID": hostile.Short(maxImage), "ContainerStatus.ContainerID": hostile.Short(maxContainerID),
		"ContainerStatus.Started": hostile.Harmless, "ContainerStatus.AllocatedResources": hostile.AtMost(64, hostile.Amounts),
		"ContainerStatus.VolumeMounts": hostile.AtMost(1), "ContainerStatus.AllocatedResourcesStatus": hostile.AtMost(maxDevices), "ContainerStatus.StopSignal": hostile.OneOf("SIGTERM"),
		"ContainerStateWaiting.Reason": reason, "ContainerStateWaiting.Message": message, "ContainerStateRunning.StartedAt": hostile.Moment,
		"ContainerStateTerminated.ExitCode": hostile.Harmless, "ContainerStateTerminated.Signal": hostile.Harmless, "ContainerStateTerminated.Reason": reason,
		"ContainerStateTerminated.Message": hostile.Short(maxTermination), "ContainerStateTerminated.StartedAt": hostile.Moment,
		"ContainerStateTerminated.FinishedAt": hostile.Moment, "ContainerStateTerminated.ContainerID": hostile.Short(maxContainerID),
		"ResourceRequirements.Limits": hostile.AtMost(64, hostile.Amounts), "ResourceRequirements.Requests": hostile.AtMost(64, hostile.Amounts),
		"ResourceRequirements.Claims": hostile.Never, "ResourceClaim.Name": hostile.Never, "ResourceClaim.Request": hostile.Never,
		"VolumeMountStatus.Name": hostile.OneOf("data"), "VolumeMountStatus.MountPath": hostile.OneOf("/data"), "VolumeMountStatus.ReadOnly": hostile.Harmless,
		"VolumeMountStatus.RecursiveReadOnly": hostile.OneOf("Disabled"),
		"LinuxContainerUser.UID":              hostile.Between(0, math.MaxInt32), "LinuxContainerUser.GID": hostile.Between(0, math.MaxInt32),
		"LinuxContainerUser.SupplementalGroups": hostile.AtMost(maxGroups),
		"ResourceStatus.Name":                   hostile.OneOf("example.org/device"), "ResourceStatus.Resources": hostile.AtMost(maxDeviceOfPod),
		"ResourceHealth.Message": message, "ImageVolumeStatus.ImageRef": hostile.Short(maxImage),
		"PodStatus.NodeAllocatableResourceClaimStatuses": hostile.Never, "NodeAllocatableResourceClaimStatus.ResourceClaimName": hostile.Never,
		"NodeAllocatableResourceClaimStatus.Containers": hostile.Never, "NodeAllocatableResourceClaimStatus.Mapping": hostile.Never,
		"NodeAllocatableMappedResources.Name": hostile.Never, "NodeAllocatableMappedResources.Quantity": hostile.Never,
		"NodeAllocatableResourceClaimStatus.Overhead": hostile.Never, "NodeAllocatableOverheadResources.Name": hostile.Never,
		"NodeAllocatableOverheadResources.PerPod": hostile.Never, "NodeAllocatableOverheadResources.PerContainer": hostile.Never,
		"PodStatus.VolumeHealth": hostile.AtMost(maxVolumes), "PodVolumeHealth.Name": hostile.OneOf("data"), "PodVolumeHealth.HealthConditions": hostile.AtMost(3),
		"VolumeHealthCondition.Status": hostile.OneOf("Degraded"), "VolumeHealthCondition.Reason": reason, "VolumeHealthCondition.Message": message,
		"PodVolumeHealth.LastTransitionTime": hostile.Moment,
		"ResourceHealth.ResourceID":          hostile.OneOf("gpu-1"), "ResourceHealth.Health": hostile.OneOf("Healthy"),
	}
	all := corev1.PodStatus{}
	for _, only := range []string{"terminated", "running", "waiting"} { // of a container one state counts
		local, remote := hostilePod(3), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "remote"}}
		hostile.Fill(&remote.Status, believable)
		for _, list := range [][]corev1.ContainerStatus{remote.Status.InitContainerStatuses, remote.Status.ContainerStatuses, remote.Status.EphemeralContainerStatuses} {
			for i := range list {
				if only != "terminated" {
					list[i].State.Terminated, list[i].LastTerminationState.Terminated = nil, nil
				}
				if only == "waiting" {
					list[i].State.Running, list[i].LastTerminationState.Running = nil, nil
				}
			}
		}
		got := PodStatus(StatusInput{
			Local: local, Remote: remote, HostIPs: []string{"192.168.0.1"}, IPs: PodIPs{Peer: peerMap("10.1.0.0/16", "10.71.0.0/16")},
			Restarts: Restarts{}.Count(local, remote),
		})
		if raw, err := json.Marshal(got); err != nil || len(raw) > MaxPodStatus {
			t.Errorf("%s: %d bytes, %v", only, len(raw), err)
		}
		all = join(all, got)
	}
	hostile.Check(t, all, checks)
}

// join has the lists of both.
func join(a, b corev1.PodStatus) corev1.PodStatus {
	if a.Phase == "" {
		return b
	}
	for i := range a.ContainerStatuses {
		for _, s := range b.ContainerStatuses {
			if s.Name != a.ContainerStatuses[i].Name {
				continue
			}
			to := &a.ContainerStatuses[i].State
			if s.State.Running != nil {
				to.Running = s.State.Running
			}
			if s.State.Waiting != nil {
				to.Waiting = s.State.Waiting
			}
		}
	}
	return a
}

func TestPodStatusIsBoundedHoweverManyContainers(t *testing.T) {
	for _, containers := range []int{1, 10, 40, 100} {
		local, remote := hostilePod(containers), &corev1.Pod{}
		text := strings.Repeat("<", 100_000)
		for i := range containers {
			for _, list := range []*[]corev1.ContainerStatus{&remote.Status.InitContainerStatuses, &remote.Status.ContainerStatuses, &remote.Status.EphemeralContainerStatuses} {
				ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: text, Reason: text, ContainerID: text}}
				*list = append(*list, corev1.ContainerStatus{Name: fmt.Sprint("c", i), Image: text, ImageID: text, ContainerID: text, State: ended, LastTerminationState: ended})
			}
		}
		got := cleanStatus(local, &remote.Status)
		raw, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		stored := got.Size()
		if most := max(MaxPodStatus, 3*containers*maxOfContainer); stored > most {
			t.Errorf("%d containers: %d bytes are stored, more than %d (%d of JSON)", containers, stored, most, len(raw))
		}
	}
}

func TestHonestPodStatusIsBelieved(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC))
	local := hostilePod(1)
	reported := corev1.PodStatus{
		Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory.", StartTime: &now, PodIP: "10.1.0.1", PodIPs: []corev1.PodIP{{IP: "10.1.0.1"}, {IP: "fd00::1"}},
		Conditions: []corev1.PodCondition{{Type: "Ready", Status: "False", Reason: "PodFailed", LastTransitionTime: now}, {Type: "example.org/mine", Status: "True", Message: "two\nlines"}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c0", Image: "docker.io/library/web:1", ImageID: "docker.io/library/web@sha256:" + strings.Repeat("a", 64), ContainerID: "containerd://" + strings.Repeat("b", 64),
			State:        corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Signal: 9, Reason: "OOMKilled", Message: strings.Repeat("result\n", 500), StartedAt: now, FinishedAt: now}},
			Resources:    &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}, Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}},
			User:         &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: 1000, GID: 3000, SupplementalGroups: []int64{4000}}},
			VolumeMounts: []corev1.VolumeMountStatus{{Name: "data", MountPath: "/data", ReadOnly: true, RecursiveReadOnly: new(corev1.RecursiveReadOnlyDisabled)}},
			Started:      new(false), RestartCount: 4, AllocatedResources: corev1.ResourceList{"cpu": resource.MustParse("100m")}, StopSignal: new(corev1.SIGTERM),
		}},
	}
	if diff := cmp.Diff(reported, cleanStatus(local, &reported)); diff != "" {
		t.Error(diff)
	}
}
