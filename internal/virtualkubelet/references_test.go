// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

func TestReferencesComparedOnce(t *testing.T) {
	type look struct {
		since, at time.Duration
		equal     bool
		compared  bool
		left      time.Duration
	}
	const ms = time.Millisecond
	for name, looks := range map[string][]look{
		"equal":               {{0, 0, true, true, 0}, {0, time.Hour, false, false, 0}},
		"a_newer_pod":         {{0, 0, true, true, 0}, {20 * ms, 20 * ms, true, false, 80 * ms}, {20 * ms, 100 * ms, true, true, 0}, {90 * ms, 110 * ms, false, false, 0}},
		"later":               {{0, 0, false, true, 100 * ms}, {0, 40 * ms, true, false, 60 * ms}, {0, 100 * ms, true, true, 0}},
		"less_and_less_often": {{0, 0, false, true, 100 * ms}, {0, 4 * time.Second, false, true, time.Second}, {0, 29 * time.Second, false, true, 2 * time.Second}},
		"many_pods":           {{0, 0, false, true, 100 * ms}, {10 * ms, 10 * ms, true, false, 90 * ms}, {10 * ms, 100 * ms, true, true, 0}, {0, 100 * ms, false, false, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var r referenceWaits
			begin := time.Unix(1000, 0)
			for i, l := range looks {
				compared := false
				remaining, err := r.awaitReference(reference{name: "a"}, begin.Add(l.since), begin.Add(l.at), func() (bool, error) {
					compared = true
					return l.equal, nil
				})
				if err != nil || compared != l.compared || remaining != l.left {
					t.Errorf("look %d: compared %t, waits %s, %v; want %t, %s", i, compared, remaining, err, l.compared, l.left)
				}
			}
			r.Set([]multicluster.Pair{{Local: "other"}})
			if len(r.of) != 0 {
				t.Errorf("%d objects of a namespace without a twin are remembered", len(r.of))
			}
		})
	}
}

func TestReferencesComparedAgain(t *testing.T) {
	var r referenceWaits
	now := time.Unix(1000, 0)
	if remaining, err := r.awaitReference(reference{}, now, now, func() (bool, error) { return false, errors.New("no answer") }); err == nil || remaining == 0 {
		t.Errorf("waits %s: %v", remaining, err)
	}
	if remaining, err := r.awaitReference(reference{}, now, now.Add(referenceDelay), func() (bool, error) { return true, nil }); err != nil || remaining != 0 {
		t.Errorf("waits %s: %v", remaining, err)
	}
}

// The time that a pod waits is not used up by an outage, nor by the life of an earlier ShadowPod.
func TestReferencesWaitRestart(t *testing.T) {
	noAnswer := errors.New("no answer")
	for name, between := range map[string]func(k *podKind, it *podItem, look func(error) error) error{
		"after_an_outage": func(_ *podKind, _ *podItem, look func(error) error) error {
			if err := look(noAnswer); !errors.Is(err, noAnswer) {
				return fmt.Errorf("the comparison failed, and the pod is sent: %w", err)
			}
			return nil
		},
		"after_a_shadow_pod": func(k *podKind, it *podItem, _ func(error) error) error {
			it.shadow = &offv1beta1.ShadowPod{}
			k.setComparisonBasis(it, it.shadow)
			return k.applyShadow(t.Context(), it)
		},
	} {
		t.Run(name, func(t *testing.T) {
			now, events := time.Unix(1000, 0), record.NewFakeRecorder(10)
			k := &podKind{
				states: newPodStates(func() time.Time { return now }), events: newEventLog(events),
				prioritize: func(string, multicluster.Pair, string) {},
			}
			it := &podItem{local: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1", Generation: 1}}}
			look := func(err error) error {
				return k.awaitCopies(it.local, []reference{{kind: configMapKindName, name: "settings"}}, func(reference) (bool, error) { return false, err })
			}
			if err := look(nil); !kube.IsWait(err) {
				t.Fatalf("the pod does not wait: %v", err)
			}
			now = now.Add(referenceTimeout)
			if err := between(k, it, look); err != nil {
				t.Fatal(err)
			}
			now = now.Add(referenceTimeout)
			for range 2 {
				if err := look(nil); !kube.IsWait(err) {
					t.Fatalf("the pod does not wait again: %v", err)
				}
				now = now.Add(referenceTimeout / 2)
			}
			if err := look(nil); err != nil || len(events.Events) != 1 {
				t.Errorf("the pod waits for more than %s, with %d events: %v", referenceTimeout, len(events.Events), err)
			}
		})
	}
}

// What a pod waits for is copied before others, again and again, but less and less often, and not for each of many pods.
func TestReferencesPriority(t *testing.T) {
	now, prioritized := time.Unix(1000, 0), 0
	k := &podKind{
		states: newPodStates(func() time.Time { return now }), prioritize: func(string, multicluster.Pair, string) { prioritized++ },
	}
	const pods = 20
	for range referenceTimeout / (100 * time.Millisecond) {
		for i := range pods {
			local := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint(i))}}
			if err := k.awaitCopies(local, []reference{{kind: configMapKindName, name: "settings"}}, func(reference) (bool, error) { return false, nil }); !kube.IsWait(err) {
				t.Fatal(err)
			}
		}
		now = now.Add(100 * time.Millisecond)
	}
	if again := prioritized - pods; again < 5 || again > 12 {
		t.Errorf("prioritized %d times again in %s", again, referenceTimeout)
	}
}

// optional has a pod take variables from a ConfigMap and a Secret, if they are there.
func optional(pod *corev1.Pod, configMap, secret string) *corev1.Pod {
	pod.Spec.AutomountServiceAccountToken = new(false)
	pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}, Optional: new(true)}},
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Optional: new(true)}},
	}
	return pod
}

// Each pod is sent when what it refers to is in the provider as it is here, and no pod waits for what never comes.
func TestReferencesFirst(t *testing.T) {
	for _, policy := range []translate.ReflectionType{translate.DenyList, translate.UsedByPods} {
		t.Run(string(policy), func(t *testing.T) {
			s := newTestEnv(t, func(o *Options) { o.ConfigMaps.Type, o.Secrets.Type = policy, policy })
			remoteProxy, config := newCountingProxy(t, s.provider.User(t, "slice", "system:masters"))
			s.useKubeconfig(testkit.Kubeconfig(t, config))
			settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.local, Name: "settings"}, Data: map[string]string{"mode": "first"}}
			password := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.local, Name: "password"}, Data: map[string][]byte{"key": []byte("first")}}
			private := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: s.local, Name: "private", Annotations: map[string]string{"liqo.io/skip-reflection": "true"},
			}}
			for _, obj := range []client.Object{settings, password, private} {
				s.create(s.consumer, obj)
			}
			for i := range 2 {
				want := fmt.Sprint("version ", i)
				remoteProxy.close([]string{"/configmaps", "/secrets"}[i])
				if i == 0 {
					s.run()
				}
				settings.Data["mode"], password.Data["key"] = want, []byte(want)
				for _, obj := range []client.Object{settings, password} {
					if err := s.consumer.Client.Update(t.Context(), obj); err != nil {
						t.Fatal(err)
					}
				}
				name := fmt.Sprint("web-", i)
				s.create(s.consumer, optional(s.newPod(s.local, name), "settings", "password"))
				free := fmt.Sprint("free-", i)
				s.create(s.consumer, optional(s.newPod(s.local, free), "private", "missing"))
				eventually(s, s.provider, s.shadow(free), exists)
				if err := s.provider.Client.Get(t.Context(), client.ObjectKeyFromObject(s.shadow(name)), s.shadow(name)); !apierrors.IsNotFound(err) {
					t.Fatalf("the pod is sent before what it refers to: %v", err)
				}
				remoteProxy.close("")
				eventually(s, s.provider, s.shadow(name), exists)
				var cm corev1.ConfigMap
				var secret corev1.Secret
				if err := s.provider.Client.Get(t.Context(), client.ObjectKey{Namespace: s.remoteNamespace, Name: "settings"}, &cm); err != nil || cm.Data["mode"] != want {
					t.Errorf("the pod was sent with settings %v, want %q: %v", cm.Data, want, err)
				}
				if err := s.provider.Client.Get(t.Context(), client.ObjectKey{Namespace: s.remoteNamespace, Name: "password"}, &secret); err != nil || string(secret.Data["key"]) != want {
					t.Errorf("the pod was sent with an older password: %v", err)
				}
			}
		})
	}
}

// A pod does not start with what was removed from its configuration before the pod was made. What others add there does not matter.
func TestReferencesRemoved(t *testing.T) {
	s := newTestEnv(t, inOrder)
	remoteProxy, config := newCountingProxy(t, s.provider.User(t, "slice", "system:masters"))
	s.useKubeconfig(testkit.Kubeconfig(t, config))
	settings := configMap(s.local, "settings", map[string]string{"mode": "fast", "old": "yes"})
	settings.BinaryData = map[string][]byte{"blob": {0xff}}
	s.create(s.consumer, settings)
	s.create(s.consumer, secret(s.local, "password"))
	s.run()
	copied := eventually(s, s.provider, configMap(s.remoteNamespace, "settings", nil), exists)
	eventually(s, s.provider, secret(s.remoteNamespace, "password"), exists)
	s.patch(s.provider, copied, `{"data":{"injected":"by the provider"}}`)

	for _, story := range []struct {
		name, kind string
		change     func()
		isDone     func(*corev1.ConfigMap, *corev1.Secret) bool
	}{
		{"a-key", "/configmaps", func() { s.patch(s.consumer, settings, `{"data":{"old":null}}`) }, func(cm *corev1.ConfigMap, _ *corev1.Secret) bool {
			return cm.Data["old"] == "" && cm.Data["injected"] != ""
		}},
		{"a-binary-key", "/configmaps", func() { s.patch(s.consumer, settings, `{"binaryData":null}`) }, func(cm *corev1.ConfigMap, _ *corev1.Secret) bool {
			return len(cm.BinaryData) == 0
		}},
		{"a-key-of-a-secret", "/secrets", func() { s.patch(s.consumer, secret(s.local, "password"), `{"data":{"k":null,"other":"dg=="}}`) },
			func(_ *corev1.ConfigMap, s *corev1.Secret) bool { return len(s.Data) == 1 && s.Data["other"] != nil }},
		{"a-skipped-object", "/secrets", func() {
			s.patch(s.consumer, secret(s.local, "password"), `{"metadata":{"annotations":{"liqo.io/skip-reflection":"true"}}}`)
		}, func(_ *corev1.ConfigMap, s *corev1.Secret) bool { return s.UID == "" }},
		{"an-object", "/configmaps", func() { s.deleteNow(s.consumer, settings) }, func(cm *corev1.ConfigMap, _ *corev1.Secret) bool { return cm.UID == "" }},
	} {
		s.step(story.name, func() {
			remoteProxy.close(story.kind)
			story.change()
			s.create(s.consumer, optional(s.newPod(s.local, story.name), "settings", "password"))
			free := story.name + "-free"
			s.create(s.consumer, optional(s.newPod(s.local, free), "missing", "missing"))
			eventually(s, s.provider, s.shadow(free), exists)
			s.absent(s.provider, s.shadow(story.name))
			remoteProxy.close("")
			eventually(s, s.provider, s.shadow(story.name), exists)
			cm, password := &corev1.ConfigMap{}, &corev1.Secret{}
			for name, obj := range map[string]client.Object{"settings": cm, "password": password} {
				if err := s.provider.Client.Get(s.t.Context(), client.ObjectKey{Namespace: s.remoteNamespace, Name: name}, obj); client.IgnoreNotFound(err) != nil {
					s.t.Fatal(err)
				}
			}
			if !story.isDone(cm, password) {
				s.t.Errorf("the pod was sent while the copies were %v %v and %d keys", cm.Data, cm.BinaryData, len(password.Data))
			}
		})
	}
}

// The provider takes no ConfigMaps: the pod waits for as long as it may, and then an event says what it lacks.
func TestReferencesMissing(t *testing.T) {
	t.Parallel()
	s := newTestEnv(t, nil)
	remoteProxy, config := newCountingProxy(t, s.provider.User(t, "slice", "system:masters"))
	s.useKubeconfig(testkit.Kubeconfig(t, config))
	remoteProxy.close("/configmaps")
	s.create(s.consumer, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.local, Name: "settings"}})
	s.run()
	pod := optional(s.newPod(s.local, "web"), "settings", "missing")
	begun := time.Now()
	s.create(s.consumer, pod)
	eventually(s, s.provider, s.shadow("web"), exists)
	if waited := time.Since(begun); waited < referenceTimeout {
		t.Errorf("it waited for %s", waited)
	}
	s.event(pod, "ReferencesNotReflected", `ConfigMap "settings"`)
}
