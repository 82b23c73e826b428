// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

func TestPodChanges(t *testing.T) {
	t.Parallel()
	s := newTestEnv(t, nil)
	s.run()
	created := s.podWith("web", func(spec *corev1.PodSpec) {
		spec.HostNetwork = true
		spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}}
		spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	})
	shadow := eventually(s, s.provider, s.shadow("web"), exists)
	if port := shadow.Spec.Pod.Containers[0].Ports[0]; port.HostPort != 0 {
		t.Errorf("the port of the host's network went along: %+v", port)
	}
	s.event(created, "FieldsNotReflected", "without hostNetwork")
	remote := s.runRemotely(shadow, "10.7.0.9")
	local := eventually(s, s.consumer, s.localPod("web"), phaseIs(corev1.PodRunning))

	s.step("image, tolerations and deadline", func() {
		s.patch(s.consumer, local, `{"spec":{"activeDeadlineSeconds":900,"tolerations":[{"operator":"Exists"},{"key":"late","operator":"Exists"}]}}`)
		before := local.DeepCopy()
		local.Spec.Containers[0].Image = "web:2"
		if err := s.consumer.Client.Patch(t.Context(), local, client.StrategicMergeFrom(before)); err != nil {
			s.t.Fatal(err)
		}
		eventually(s, s.provider, s.shadow("web"), func(sp *offv1beta1.ShadowPod) error {
			spec := sp.Spec.Pod
			if spec.Containers[0].Image != "web:2" || len(spec.Tolerations) != 2 || spec.ActiveDeadlineSeconds == nil {
				return fmt.Errorf("the ShadowPod has %+v", spec)
			}
			return nil
		})
	})
	s.step("ephemeral containers, whose statuses come back", func() {
		eventually(s, s.consumer, local, exists)
		before := local.DeepCopy()
		local.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "debug", Image: "debug:1", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}}}
		if err := s.consumer.Client.SubResource("ephemeralcontainers").Patch(t.Context(), local, client.StrategicMergeFrom(before)); err != nil {
			s.t.Fatal(err)
		}
		eventually(s, s.provider, s.shadow("web"), func(sp *offv1beta1.ShadowPod) error {
			if len(sp.Spec.Pod.EphemeralContainers) != 1 {
				return fmt.Errorf("there are %d", len(sp.Spec.Pod.EphemeralContainers))
			}
			return nil
		})
		status := *remote.Status.DeepCopy()
		status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debug", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		s.report(remote, status)
		eventually(s, s.consumer, s.localPod("web"), func(p *corev1.Pod) error {
			if list := p.Status.EphemeralContainerStatuses; len(list) != 1 || list[0].State.Running == nil {
				return fmt.Errorf("statuses are %+v", list)
			}
			return nil
		})
	})
	s.step("resources", func() {
		status := *remote.Status.DeepCopy()
		status.ContainerStatuses[0].Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}
		s.report(remote, status)
		eventually(s, s.consumer, local, func(p *corev1.Pod) error {
			if p.Status.ContainerStatuses[0].Resources == nil {
				return fmt.Errorf("the kubelet does not say that it can resize")
			}
			return nil
		})
		before := local.DeepCopy()
		local.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("200m")
		if err := s.consumer.Client.SubResource("resize").Patch(t.Context(), local, client.StrategicMergeFrom(before)); err != nil {
			s.t.Fatal(err)
		}
		eventually(s, s.provider, s.shadow("web"), func(sp *offv1beta1.ShadowPod) error {
			if got := sp.Spec.Pod.Containers[0].Resources.Requests.Cpu().String(); got != "200m" {
				return fmt.Errorf("requests %s", got)
			}
			return nil
		})
		if local.Status.ObservedGeneration >= local.Generation {
			s.t.Errorf("generation %d is observed before the provider has the resources", local.Generation)
		}
	})
}

// What the provider refuses of a change keeps nothing else back: neither the other changes nor the status.
func TestPodChangesRefused(t *testing.T) {
	s := newTestEnv(t, nil)
	s.run()
	pod := s.pod(s.local, "web")
	remote := s.runRemotely(eventually(s, s.provider, s.shadow("web"), exists), "10.7.0.9")
	s.refuseOf(offv1beta1.GroupVersion.WithResource("shadowpods"), admissionv1.Validation{
		Expression: "!has(object.spec.pod.ephemeralContainers) || object.spec.pod.ephemeralContainers.size() == 0", Message: "nobody debugs here",
	})
	testkit.Eventually(t, limit, func() error {
		probe := s.shadow("probe")
		probe.Spec.Pod = corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}, EphemeralContainers: []corev1.EphemeralContainer{{}}}
		if err := s.provider.Client.Create(t.Context(), probe, client.DryRunAll); !isRefused(err) {
			return fmt.Errorf("the policy is not in force: %w", err)
		}
		return nil
	})
	local := eventually(s, s.consumer, s.localPod("web"), phaseIs(corev1.PodRunning))
	before := local.DeepCopy()
	local.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", Image: "debug:1", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}}}
	if err := s.consumer.Client.SubResource("ephemeralcontainers").Patch(t.Context(), local, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	s.event(pod, "FailedReflection", "nobody debugs here")
	s.patch(s.consumer, local, `{"metadata":{"labels":{"first":"yes"}}}`)
	eventually(s, s.provider, s.shadow("web"), func(sp *offv1beta1.ShadowPod) error {
		if sp.Labels["first"] != "yes" {
			return fmt.Errorf("the ShadowPod has %v", sp.Labels)
		}
		return nil
	})
	s.patch(s.consumer, local, `{"spec":{"activeDeadlineSeconds":900,"tolerations":[{"operator":"Exists"},{"key":"late","operator":"Exists"}]}}`)
	s.patch(s.consumer, local, `{"metadata":{"labels":{"more":"yes"}}}`)
	before = local.DeepCopy()
	local.Spec.Containers[0].Image = "web:2"
	if err := s.consumer.Client.Patch(t.Context(), local, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	eventually(s, s.provider, s.shadow("web"), func(sp *offv1beta1.ShadowPod) error {
		spec := sp.Spec.Pod
		if spec.Containers[0].Image != "web:2" || len(spec.Tolerations) != 2 || spec.ActiveDeadlineSeconds == nil || sp.Labels["more"] != "yes" || len(spec.EphemeralContainers) > 0 {
			return fmt.Errorf("the ShadowPod has %v and %+v", sp.Labels, spec)
		}
		return nil
	})
	status := *remote.Status.DeepCopy()
	status.ContainerStatuses[0].RestartCount = 7
	s.report(remote, status)
	eventually(s, s.consumer, s.localPod("web"), func(p *corev1.Pod) error {
		if got := p.Status.ContainerStatuses[0].RestartCount; got != 7 {
			return fmt.Errorf("%d restarts", got)
		}
		return nil
	})
}

// Labels that the provider refuses keep no other change back.
func TestPodChangesRefusedLabels(t *testing.T) {
	s := newTestEnv(t, nil)
	s.run()
	pod := s.pod(s.local, "web")
	s.runRemotely(eventually(s, s.provider, s.shadow("web"), exists), "10.7.0.9")
	local := eventually(s, s.consumer, s.localPod("web"), phaseIs(corev1.PodRunning))
	s.refuseOf(offv1beta1.GroupVersion.WithResource("shadowpods"), admissionv1.Validation{
		Expression: "!('team' in object.metadata.labels)", Message: "no teams here",
	})
	testkit.Eventually(t, limit, func() error {
		probe := s.shadow("probe")
		probe.Labels = map[string]string{"team": "blue"}
		probe.Spec.Pod = corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}}
		if err := s.provider.Client.Create(t.Context(), probe, client.DryRunAll); !isRefused(err) {
			return fmt.Errorf("the policy is not in force: %w", err)
		}
		return nil
	})
	before := local.DeepCopy()
	local.Labels["team"], local.Spec.Containers[0].Image = "blue", "web:2"
	if err := s.consumer.Client.Patch(t.Context(), local, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	eventually(s, s.provider, s.shadow("web"), func(sp *offv1beta1.ShadowPod) error {
		if sp.Spec.Pod.Containers[0].Image != "web:2" {
			return fmt.Errorf("the ShadowPod has %+v", sp.Spec.Pod.Containers)
		}
		return nil
	})
	s.event(pod, "FailedReflection", "changing its labels and annotations")
}

// A ShadowPod is made without them, so it may not count as right because it is as it was made.
func TestPodChangesEphemeralContainers(t *testing.T) {
	s := newTestEnv(t, nil)
	debug := func(name string) {
		local := eventually(s, s.consumer, s.localPod(name), exists)
		before := local.DeepCopy()
		local.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "debug", Image: "debug:1", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}}}
		if err := s.consumer.Client.SubResource("ephemeralcontainers").Patch(t.Context(), local, client.StrategicMergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	debugged := func(sp *offv1beta1.ShadowPod) error {
		if len(sp.Spec.Pod.EphemeralContainers) != 1 {
			return fmt.Errorf("there are %d", len(sp.Spec.Pod.EphemeralContainers))
		}
		return nil
	}
	s.pod(s.local, "early")
	debug("early")
	s.run()
	eventually(s, s.provider, s.shadow("early"), debugged)
	s.pod(s.local, "late")
	s.runRemotely(eventually(s, s.provider, s.shadow("late"), exists), "10.7.0.9")
	eventually(s, s.consumer, s.localPod("late"), phaseIs(corev1.PodRunning))
	debug("late")
	eventually(s, s.provider, s.shadow("late"), debugged)
}

func TestPodDeletionGrace(t *testing.T) {
	s := newTestEnv(t, nil)
	s.run()
	s.pod(s.local, "web")
	remote := s.runRemotely(eventually(s, s.provider, s.shadow("web"), exists), "10.7.0.9")
	eventually(s, s.consumer, s.localPod("web"), phaseIs(corev1.PodRunning))
	has := func(seconds int64) func(*corev1.Pod) error {
		return func(p *corev1.Pod) error {
			if p.DeletionTimestamp.IsZero() || *p.DeletionGracePeriodSeconds != seconds {
				return fmt.Errorf("the remote pod has %v", p.DeletionGracePeriodSeconds)
			}
			return nil
		}
	}
	for _, seconds := range []int64{120, 7} {
		if err := s.consumer.Client.Delete(t.Context(), s.localPod("web"), client.GracePeriodSeconds(seconds)); err != nil {
			t.Fatal(err)
		}
		eventually(s, s.provider, remote, has(seconds))
	}
	s.waitUntilDeleted(s.provider, s.shadow("web"))
	s.deleteNow(s.provider, remote)
	s.waitUntilDeleted(s.consumer, s.localPod("web"))
}

// The provider would make another pod for a ShadowPod whose pod goes first.
func TestPodDeletionShorterGrace(t *testing.T) {
	s := newTestEnv(t, nil)
	remoteProxy, config := newCountingProxy(t, s.provider.User(t, "slice", "system:masters"))
	s.useKubeconfig(testkit.Kubeconfig(t, config))
	s.run()
	s.pod(s.local, "web")
	remote := s.runRemotely(eventually(s, s.provider, s.shadow("web"), exists), "10.7.0.9")
	eventually(s, s.consumer, s.localPod("web"), phaseIs(corev1.PodRunning))
	remoteProxy.take(s.remoteNamespace)
	if err := s.consumer.Client.Delete(t.Context(), s.localPod("web"), client.GracePeriodSeconds(7)); err != nil {
		t.Fatal(err)
	}
	eventually(s, s.provider, remote, func(p *corev1.Pod) error {
		if p.DeletionTimestamp.IsZero() {
			return fmt.Errorf("the remote pod is not ending")
		}
		return nil
	})
	deletes := slices.DeleteFunc(remoteProxy.to("pods/web"), func(write string) bool { return !strings.HasPrefix(write, "DELETE") })
	if len(deletes) < 2 || !strings.HasSuffix(deletes[0], "/shadowpods/web") {
		t.Errorf("written in this order: %v", deletes)
	}
}

func TestPodOfSameName(t *testing.T) {
	s := newTestEnv(t, nil)
	stop := s.run()
	first := s.pod(s.local, "web")
	shadow := eventually(s, s.provider, s.shadow("web"), exists)
	remote := s.runRemotely(shadow, "10.7.0.9")
	eventually(s, s.consumer, s.localPod("web"), phaseIs(corev1.PodRunning))
	stop()

	s.deleteNow(s.consumer, first)
	second := s.pod(s.local, "web")
	s.run()
	s.waitUntilDeleted(s.provider, s.shadow("web"))
	s.deleteNow(s.provider, remote)
	now := eventually(s, s.provider, s.shadow("web"), exists)
	if uid := types.UID(now.Annotations[names.OffloadingUID]); uid != second.UID || now.UID == shadow.UID {
		t.Errorf("the ShadowPod is for %s, want %s", uid, second.UID)
	}
}

func TestRemotePodDeletion(t *testing.T) {
	s := newTestEnv(t, nil)
	s.run()
	s.podWith("web", func(spec *corev1.PodSpec) { spec.RestartPolicy = corev1.RestartPolicyNever })
	remote := s.runRemotely(eventually(s, s.provider, s.shadow("web"), exists), "10.7.0.9")
	local := eventually(s, s.consumer, s.localPod("web"), phaseIs(corev1.PodRunning))
	if err := s.provider.Client.Delete(t.Context(), remote); err != nil {
		t.Fatal(err)
	}
	eventually(s, s.consumer, local, reasonIs(translate.ReasonRemoteMissing))
	eventually(s, s.provider, remote, exists)
	// What its kubelet says of a pod that is deleted.
	status := *remote.Status.DeepCopy()
	status.Phase = corev1.PodFailed
	status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143, FinishedAt: *remote.DeletionTimestamp}}
	s.report(remote, status)
	s.deleteNow(s.provider, remote)
	s.runRemotely(eventually(s, s.provider, s.shadow("web"), exists), "10.7.0.10")
	eventually(s, s.consumer, local, func(p *corev1.Pod) error {
		if p.Status.Phase != corev1.PodRunning {
			t.Fatalf("the pod is %s", p.Status.Phase)
		}
		c := p.Status.ContainerStatuses[0]
		if c.State.Running == nil || c.RestartCount != 5 {
			return fmt.Errorf("the container is %+v", c)
		}
		return nil
	})
}

func (s *testEnv) podWith(name string, edit func(*corev1.PodSpec)) *corev1.Pod {
	s.t.Helper()
	pod := s.newPod(s.local, name)
	edit(&pod.Spec)
	s.create(s.consumer, pod)
	return pod
}
