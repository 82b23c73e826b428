// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// succeed is the end of a remote pod.
func (s *testEnv) succeed(remote *corev1.Pod) {
	s.t.Helper()
	status := *remote.Status.DeepCopy()
	status.Phase = corev1.PodSucceeded
	s.report(remote, status)
}

func TestPodEndIsFinal(t *testing.T) {
	s := newTestEnv(t, nil)
	s.run()
	s.pod(s.local, "job")
	shadow := eventually(s, s.provider, s.shadow("job"), exists)
	first := s.runRemotely(shadow, "10.7.0.9")
	s.succeed(first)
	eventually(s, s.consumer, s.localPod("job"), phaseIs(corev1.PodSucceeded))

	// The provider lost the pod before its end was written into the ShadowPod, and makes it again.
	s.deleteNow(s.provider, first)
	s.waitUntilDeleted(s.provider, first.DeepCopy())
	s.runRemotelyUnlessGone(shadow)
	s.waitUntilDeleted(s.provider, s.shadow("job"))
	eventually(s, s.consumer, s.localPod("job"), phaseIs(corev1.PodSucceeded))
}

// runRemotelyUnlessGone is runRemotely of a ShadowPod that may be deleted in the same moment.
func (s *testEnv) runRemotelyUnlessGone(shadow *offv1beta1.ShadowPod) {
	s.t.Helper()
	if err := s.provider.Client.Get(s.t.Context(), client.ObjectKeyFromObject(shadow), shadow); err == nil {
		s.runRemotely(shadow, "10.7.0.10")
	} else if !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
}

func TestPodEndWithoutRemotePod(t *testing.T) {
	s := newTestEnv(t, nil)
	localProxy, config := newCountingProxy(t, s.consumer.Config)
	s.options.Config = config
	s.run()
	s.pod(s.local, "job")
	shadow := eventually(s, s.provider, s.shadow("job"), exists)
	remote := s.runRemotely(shadow, "10.7.0.9")
	eventually(s, s.consumer, s.localPod("job"), phaseIs(corev1.PodRunning))

	const status = "/pods/job/status"
	localProxy.close(status)
	before := len(localProxy.to(status))
	s.succeed(remote)
	testkit.Eventually(t, limit, func() error {
		if len(localProxy.to(status)) == before {
			return errors.New("nobody tried to write the end")
		}
		return nil
	})
	s.deleteNow(s.provider, shadow)
	s.deleteNow(s.provider, remote)
	s.waitUntilDeleted(s.provider, remote)
	localProxy.close("")
	eventually(s, s.consumer, s.localPod("job"), phaseIs(corev1.PodSucceeded))
	s.waitUntilDeleted(s.provider, s.shadow("job"))
}

func TestPodEndForeignClaims(t *testing.T) {
	t.Parallel()
	s := newTestEnv(t, nil)
	s.run()
	s.pod(s.local, "runs")
	remote := s.runRemotely(eventually(s, s.provider, s.shadow("runs"), exists), "10.7.0.9")
	eventually(s, s.consumer, s.localPod("runs"), phaseIs(corev1.PodRunning))
	s.pod(s.local, "asked")
	asked := eventually(s, s.provider, s.shadow("asked"), exists)

	s.mapNamespaces(map[string]offv1beta1.RemoteNamespaceStatus{s.local: {RemoteNamespace: s.remoteNamespace, Phase: offv1beta1.MappingCreationLoopBackOff}})
	s.pod(s.local, "late")
	eventually(s, s.consumer, s.localPod("late"), reasonIs("OffloadingBackOff")) // the mapping was seen
	s.pod(s.local, "taken")
	s.create(s.provider, &corev1.Pod{ObjectMeta: s.shadow("taken").ObjectMeta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}}})
	eventually(s, s.consumer, s.localPod("taken"), reasonIs("OffloadingBackOff"))

	s.unlabel(s.consumer, s.localPod("runs"), names.ShadowPod)
	s.unlabel(s.provider, remote, names.OffloadingOrigin)
	for _, name := range []string{"runs", "asked", "taken"} {
		if err := s.consumer.Client.Delete(t.Context(), s.localPod(name)); err != nil {
			t.Fatal(err)
		}
	}
	s.waitUntilDeleted(s.consumer, s.localPod("taken")) // never there, whoever has its name
	for _, name := range []string{"runs", "asked"} {
		eventually(s, s.consumer, s.localPod(name), exists)
	}
	s.deleteNow(s.provider, asked)
	s.waitUntilDeleted(s.consumer, s.localPod("asked"))
	eventually(s, s.consumer, s.localPod("runs"), exists)
	s.deleteNow(s.provider, s.shadow("runs"))
	s.deleteNow(s.provider, remote)
	s.waitUntilDeleted(s.consumer, s.localPod("runs"))
}

func (s *testEnv) unlabel(c *testkit.ControlPlane, pod *corev1.Pod, key string) {
	s.t.Helper()
	eventually(s, c, pod, exists)
	before := pod.DeepCopy()
	delete(pod.Labels, key)
	if err := c.Client.Patch(s.t.Context(), pod, client.MergeFrom(before)); err != nil {
		s.t.Fatal(err)
	}
}

// Jobs count how their pods end, and hold them until then: a pod that goes has ended, whether it ran or not.
func TestPodEndBeforeDeletion(t *testing.T) {
	s := newTestEnv(t, nil)
	s.run()
	other := testkit.Namespace(t, s.consumer, "other", nil) // which is not offloaded
	held := func(namespace, name string) *corev1.Pod {
		pod := s.newPod(namespace, name)
		pod.Finalizers = []string{"batch.kubernetes.io/job-tracking"}
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		s.create(s.consumer, pod)
		return pod
	}
	waits, runs, stranded := held(s.local, "waits"), held(s.local, "runs"), held(other, "stranded")
	eventually(s, s.provider, s.shadow("waits"), exists)
	remote := s.runRemotely(eventually(s, s.provider, s.shadow("runs"), exists), "10.7.0.9")
	eventually(s, s.consumer, runs, phaseIs(corev1.PodRunning))
	eventually(s, s.consumer, stranded, reasonIs(translate.ReasonBackOff))
	for _, pod := range []*corev1.Pod{waits, runs, stranded} {
		if err := s.consumer.Client.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	s.waitUntilDeleted(s.provider, s.shadow("runs"))
	s.deleteNow(s.provider, remote) // by a provider that says nothing of how it ended
	for pod, reason := range map[*corev1.Pod]string{waits: translate.ReasonNotStarted, stranded: translate.ReasonNotStarted, runs: translate.ReasonRemoteTerminated} {
		eventually(s, s.consumer, pod, phaseIs(corev1.PodFailed))
		if pod.Status.Reason != reason {
			t.Errorf("%s ended with %s, want %s", pod.Name, pod.Status.Reason, reason)
		}
		before := pod.DeepCopy()
		pod.Finalizers = nil
		if err := s.consumer.Client.Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		s.waitUntilDeleted(s.consumer, pod)
	}
}
