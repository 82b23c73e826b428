// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// inOrder has one pod after the other dealt with: what is newer comes later.
func inOrder(o *Options) { o.Pods.Workers = 1 }

// stays tells whether an object is there and is not being deleted, after the virtual kubelet has dealt with something newer.
func (s *testEnv) stays(c *testkit.ControlPlane, obj client.Object, newer func()) {
	s.t.Helper()
	newer()
	eventually(s, c, obj, exists)
	if !obj.GetDeletionTimestamp().IsZero() {
		s.t.Errorf("%T %s is being deleted", obj, obj.GetName())
	}
}

func (s *testEnv) nextPod() {
	s.t.Helper()
	s.pod(s.local, "newer")
	eventually(s, s.provider, s.shadow("newer"), exists)
}

func TestCacheLagRemotePodEnded(t *testing.T) {
	s := newTestEnv(t, inOrder)
	remoteProxy, config := newCountingProxy(t, s.provider.User(t, "slice", "system:masters"))
	s.useKubeconfig(testkit.Kubeconfig(t, config))
	s.run()
	s.pod(s.local, "job")
	remote := s.runRemotely(eventually(s, s.provider, s.shadow("job"), exists), "10.7.0.9")
	local := eventually(s, s.consumer, s.localPod("job"), phaseIs(corev1.PodRunning))

	// An earlier process saw the end. This one hears of it here first.
	release := remoteProxy.delay("/pods")
	t.Cleanup(release)
	s.succeed(remote)
	local.Status.Phase = corev1.PodSucceeded
	if err := s.consumer.Client.Status().Update(t.Context(), local); err != nil {
		t.Fatal(err)
	}
	s.stays(s.provider, s.shadow("job"), s.nextPod)
}

func TestCacheLagPodEnd(t *testing.T) {
	s := newTestEnv(t, inOrder)
	localProxy, config := newCountingProxy(t, s.consumer.Config)
	s.options.Config = config
	s.run()
	s.pod(s.local, "job")
	s.pod(s.local, "other")
	first := s.runRemotely(eventually(s, s.provider, s.shadow("job"), exists), "10.7.0.9")
	other := s.runRemotely(eventually(s, s.provider, s.shadow("other"), exists), "10.7.0.10")
	for _, name := range []string{"job", "other"} {
		eventually(s, s.consumer, s.localPod(name), phaseIs(corev1.PodRunning))
	}

	release := localProxy.delay("/pods")
	t.Cleanup(release)
	s.succeed(first)
	eventually(s, s.consumer, s.localPod("job"), phaseIs(corev1.PodSucceeded))
	s.deleteNow(s.provider, first) // and the provider makes it again, for it knows of no end
	s.waitUntilDeleted(s.provider, first.DeepCopy())
	s.runRemotely(eventually(s, s.provider, s.shadow("job"), exists), "10.7.0.11")
	unready := *other.Status.DeepCopy()
	unready.Conditions[0].Status = corev1.ConditionFalse
	s.report(other, unready) // which waits for a bunch, as what the new pod says would
	eventually(s, s.consumer, s.localPod("other"), func(pod *corev1.Pod) error {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse {
				return nil
			}
		}
		return errors.New("the pod is still Ready")
	})
	if is := eventually(s, s.consumer, s.localPod("job"), exists); is.Status.Phase != corev1.PodSucceeded {
		t.Errorf("a pod that ended is %s again", is.Status.Phase)
	}
	release()
	s.waitUntilDeleted(s.provider, s.shadow("job"))
	eventually(s, s.consumer, s.localPod("job"), phaseIs(corev1.PodSucceeded))
}

func TestCacheLagPodDeletion(t *testing.T) {
	t.Parallel()
	s := newTestEnv(t, inOrder)
	remoteProxy, config := newCountingProxy(t, s.provider.User(t, "slice", "system:masters"))
	s.useKubeconfig(testkit.Kubeconfig(t, config))
	s.run()
	s.pod(s.local, "first") // the watches are there
	s.runRemotely(eventually(s, s.provider, s.shadow("first"), exists), "10.7.0.8")
	eventually(s, s.consumer, s.localPod("first"), phaseIs(corev1.PodRunning))

	release := remoteProxy.delay("/pods")
	t.Cleanup(release)
	s.pod(s.local, "web")
	remote := s.runRemotely(eventually(s, s.provider, s.shadow("web"), exists), "10.7.0.9")
	if err := s.consumer.Client.Delete(t.Context(), s.localPod("web")); err != nil {
		t.Fatal(err)
	}
	s.waitUntilDeleted(s.provider, s.shadow("web"))
	s.nextPod()
	eventually(s, s.consumer, s.localPod("web"), exists)
	s.deleteNow(s.provider, remote)
	s.waitUntilDeleted(s.consumer, s.localPod("web"))
}

func TestCacheLagShadowPod(t *testing.T) {
	s := newTestEnv(t, inOrder)
	localProxy, config := newCountingProxy(t, s.consumer.Config)
	s.options.Config = config
	s.run()
	s.pod(s.local, "first")
	eventually(s, s.provider, s.shadow("first"), exists)

	// Another process made the ShadowPod, and is gone.
	release := localProxy.delay("/pods")
	t.Cleanup(release)
	local := s.pod(s.local, "web")
	shadowOf := func(local *corev1.Pod) *offv1beta1.ShadowPod {
		return translate.ShadowPod(translate.Input{Target: s.options.targetIn(s.remoteNamespace), Pod: local})
	}
	s.create(s.provider, shadowOf(local))
	s.stays(s.provider, s.shadow("web"), func() {
		stray := shadowOf(s.newPod(s.local, "stray"))
		s.create(s.provider, stray)
		s.waitUntilDeleted(s.provider, stray)
	})
	release()
	s.runRemotely(eventually(s, s.provider, s.shadow("web"), exists), "10.7.0.9")
	eventually(s, s.consumer, s.localPod("web"), phaseIs(corev1.PodRunning))
}
