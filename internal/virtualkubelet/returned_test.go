// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// eventThere makes an event in the provider about an object of the twin.
func (s *testEnv) eventThere(about client.Object, kind, name, level, reason, message string) *corev1.Event {
	s.t.Helper()
	now := metav1.Now()
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.remoteNamespace, Name: name},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: kind, Namespace: s.remoteNamespace, Name: about.GetName(), UID: about.GetUID(), FieldPath: "spec.containers{main}",
		},
		Type: level, Reason: reason, Message: message, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: "kubelet", Host: "w1"},
	}
	s.create(s.provider, e)
	return e
}

// eventsHere are the events about a local object that came from the provider or go along with those.
func (s *testEnv) eventsHere(name string) []corev1.Event {
	s.t.Helper()
	var list corev1.EventList
	if err := s.consumer.Client.List(s.t.Context(), &list, client.InNamespace(s.local), client.MatchingLabels{names.OffloadingDestination: string(s.providerID)}); err != nil {
		s.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return e.InvolvedObject.Name != name })
}

// eventHere reads the event of that name until check is content.
func (s *testEnv) eventHere(name string, check func(*corev1.Event) error) *corev1.Event {
	s.t.Helper()
	return eventually(s, s.consumer, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: s.local, Name: name}}, check)
}

func TestRemoteEvents(t *testing.T) {
	t.Parallel()
	s := newTestEnv(t, nil)
	stop := s.run()
	s.pod(s.local, "web")
	shadow := eventually(s, s.provider, s.shadow("web"), exists)
	s.eventThere(shadow, "ShadowPod", "web.refused", corev1.EventTypeWarning, "FailedCreatePod", "no quota left")
	remote := s.runRemotely(shadow, "10.7.0.9")
	local := eventually(s, s.consumer, s.localPod("web"), phaseIs(corev1.PodRunning))

	s.step("about the ShadowPod: it is the pod that this is about", func() {
		e := s.eventHere("web.refused", exists[*corev1.Event])
		want := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: s.local, Name: "web", UID: local.UID, FieldPath: "spec.containers{main}"}
		if diff := cmp.Diff(want, e.InvolvedObject); diff != "" {
			s.t.Errorf("(-want +got):\n%s", diff)
		}
		if e.Source.Component != "kubelet (remote)" || e.Source.Host != "w1" {
			s.t.Errorf("source is %v", e.Source)
		}
		if diff := cmp.Diff(map[string]string{
			names.OffloadingOrigin: "rome", names.OffloadingDestination: "milan", names.OffloadingNodeName: s.node,
		}, e.Labels); diff != "" {
			s.t.Errorf("labels (-want +got):\n%s", diff)
		}
	})
	s.step("counts follow", func() {
		e := s.eventThere(remote, "Pod", "web.backoff", corev1.EventTypeWarning, "BackOff", "restarting")
		s.eventHere("web.backoff", exists[*corev1.Event])
		for range 3 {
			e.Count++
			if err := s.provider.Client.Update(s.t.Context(), e); err != nil {
				s.t.Fatal(err)
			}
		}
		s.eventHere("web.backoff", func(e *corev1.Event) error {
			if e.Count != 4 {
				return fmt.Errorf("counts %d", e.Count)
			}
			return nil
		})
	})
	s.step("what is routine comes in one event", func() {
		for _, reason := range []string{"Scheduled", "Pulled", "Created", "Started"} {
			s.eventThere(remote, "Pod", "web."+strings.ToLower(reason), corev1.EventTypeNormal, reason, "it is "+reason)
		}
		s.eventHere("reflected-"+string(local.UID), func(e *corev1.Event) error {
			for _, part := range []string{`Successfully reflected object to cluster "milan"`, "Scheduled: it is Scheduled", "Started: it is Started"} {
				if !strings.Contains(e.Message, part) {
					return fmt.Errorf("%q does not say %q", e.Message, part)
				}
			}
			return nil
		})
	})
	s.step("what is not about ours stays there", func() {
		foreign := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "an-earlier-one"}}
		s.eventThere(foreign, "Pod", "web.old", corev1.EventTypeWarning, "Failed", "of an earlier pod")
		s.eventThere(foreign, "Node", "web.node", corev1.EventTypeWarning, "Failed", "of a node")
		other := configMap(s.remoteNamespace, "theirs", nil)
		s.create(s.provider, other)
		s.create(s.consumer, configMap(s.local, "theirs", nil))
		s.eventThere(other, "ConfigMap", "theirs.1", corev1.EventTypeWarning, "Failed", "of an object of the provider")
		s.eventThere(remote, "Pod", "web.last", corev1.EventTypeWarning, "Last", "comes after those")
		s.eventHere("web.last", exists[*corev1.Event])
	})
	s.step("about a reflected object, too", func() {
		s.create(s.consumer, configMap(s.local, "settings", nil))
		cm := eventually(s, s.provider, configMap(s.remoteNamespace, "settings", nil), exists)
		s.eventThere(cm, "ConfigMap", "settings.1", corev1.EventTypeNormal, "Created", "seen by an operator")
		e := s.eventHere("settings.1", exists[*corev1.Event])
		own := eventually(s, s.consumer, configMap(s.local, "settings", nil), exists)
		if e.InvolvedObject.UID != own.UID || e.InvolvedObject.Kind != "ConfigMap" {
			s.t.Errorf("it is about %v", e.InvolvedObject)
		}
	})
	var known []string
	for _, name := range []string{"web", "theirs", "settings"} {
		for _, e := range s.eventsHere(name) {
			known = append(known, e.Name)
		}
	}
	slices.Sort(known)
	if diff := cmp.Diff([]string{"reflected-" + string(local.UID), "settings.1", "web.backoff", "web.last", "web.refused"}, sortedFirst(known, "reflected-")); diff != "" {
		t.Errorf("events at home (-want +got):\n%s", diff)
	}

	s.step("a restart writes none of them again", func() {
		stop()
		versions := s.eventVersions()
		s.run()
		s.eventThere(remote, "Pod", "web.marker", corev1.EventTypeWarning, "Marker", "after the restart")
		s.eventHere("web.marker", exists[*corev1.Event])
		now := s.eventVersions()
		for name, version := range versions {
			if now[name] != version {
				s.t.Errorf("event %s was written again", name)
			}
		}
	})
}

func sortedFirst(in []string, prefix string) []string {
	slices.SortStableFunc(in, func(a, b string) int {
		switch {
		case strings.HasPrefix(a, prefix) && !strings.HasPrefix(b, prefix):
			return -1
		case strings.HasPrefix(b, prefix):
			return 1
		}
		return strings.Compare(a, b)
	})
	return in
}

func (s *testEnv) eventVersions() map[string]string {
	out := map[string]string{}
	for _, name := range []string{"web", "settings"} {
		for _, e := range s.eventsHere(name) {
			out[e.Name] = e.ResourceVersion
		}
	}
	return out
}

// TestRemoteEventsOnePod counts what a pod that starts as it should leaves at home.
func TestRemoteEventsOnePod(t *testing.T) {
	s := newTestEnv(t, nil)
	s.run()
	const pods = 5
	for i := range pods {
		name := fmt.Sprintf("web-%d", i)
		s.pod(s.local, name)
		remote := s.runRemotely(eventually(s, s.provider, s.shadow(name), exists), fmt.Sprintf("10.7.0.%d", i+1))
		for _, reason := range []string{"Scheduled", "Pulling", "Pulled", "Created", "Started"} {
			s.eventThere(remote, "Pod", name+"."+strings.ToLower(reason), corev1.EventTypeNormal, reason, reason)
		}
	}
	for i := range pods {
		name := fmt.Sprintf("web-%d", i)
		s.event(s.localPod(name), "Started", "Started")
		local := eventually(s, s.consumer, s.localPod(name), exists)
		var list corev1.EventList
		if err := s.consumer.Client.List(t.Context(), &list, client.InNamespace(s.local)); err != nil {
			t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.InvolvedObject.UID == local.UID && e.Name != "reflected-"+string(local.UID) {
				t.Errorf("pod %s: one more event: %s %s", name, e.Reason, e.Message)
			}
		}
	}
}

func TestRemoteEventsMerged(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	event := func(reason string, ago time.Duration, uid types.UID) *corev1.Event {
		return &corev1.Event{
			Type: corev1.EventTypeNormal, Reason: reason, Message: strings.ToLower(reason),
			LastTimestamp: metav1.NewTime(now.Add(-ago)), InvolvedObject: corev1.ObjectReference{UID: uid},
		}
	}
	warning := event("Failed", time.Second, "r")
	warning.Type = corev1.EventTypeWarning
	r := &returningEvents{
		local: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "u"}}, kind: "Pod", apiVersion: "v1",
		remote: []types.UID{"r", "s"}, now: now,
		events: []*corev1.Event{
			event("Started", time.Second, "r"), event("Scheduled", 3*time.Second, "r"), event("CreatedPod", 4*time.Second, "s"),
			event("Pulled", 2*time.Hour, "r"), event("Pulled", time.Second, "another"), warning,
		},
	}
	source := corev1.EventSource{Component: "c", Host: "h"}
	if got, want := r.mergeEvents([]string{"own"}, nil, source).Message, "own; CreatedPod: createdpod; Scheduled: scheduled; Started: started"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	have := &corev1.Event{Message: "own; Pulled: pulled; Started: started"}
	if got, want := r.mergeEvents(nil, have, source).Message, "own; Pulled: pulled; Started: started; CreatedPod: createdpod; Scheduled: scheduled"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if single := r.singleEvents(); len(single) != 1 || single[0] != warning {
		t.Errorf("single events are %v", single)
	}
	r.events = nil
	if got := r.mergeEvents(nil, have, source); got != nil {
		t.Errorf("made %v of nothing", got)
	}
	if got := shortenText(strings.Repeat("é", maxEventText)); len(got) > maxEventText || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-6:])
	}
}

func TestRemoteEventsWaitLimits(t *testing.T) {
	now := time.Unix(1000, 0)
	k := newEventKind(Options{}, "node", nil)
	k.now = func() time.Time { return now }
	pod := types.NamespacedName{Namespace: "shop", Name: "web"}
	for i, tc := range []struct {
		after   time.Duration
		message string
		begun   bool
		want    time.Duration
	}{
		{0, "a", false, gatherLimit},
		{time.Second, "a b", true, gatherPause},
		{time.Second, "a b c", true, gatherPause},
		{7 * time.Second, "a b c d", true, time.Second}, // the limit counts from the first
		{time.Second, "a b c d", true, 0},
	} {
		now = now.Add(tc.after)
		if got := max(0, k.countMore(pod, tc.message, tc.begun)); got != tc.want {
			t.Errorf("step %d: waits %s, want %s", i, got, tc.want)
		}
	}
}

func TestRemoteEventsDuringWrite(t *testing.T) {
	k := newEventKind(Options{}, "node", nil)
	pod := types.NamespacedName{Namespace: "shop", Name: "web"}
	k.rememberText(pod, "first")
	written := len(k.rememberedTexts(pod))
	k.rememberText(pod, "second")
	k.forgetPod(pod, written)
	if diff := cmp.Diff([]string{"second"}, k.rememberedTexts(pod)); diff != "" {
		t.Errorf("left to say (-want +got):\n%s", diff)
	}
	k.forgetPod(pod, 1)
	k.forgetPod(pod, 1)
	if len(k.own) != 0 {
		t.Errorf("remembered: %v", k.own)
	}
}

func TestRemoteEventsNewest(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r := &returningEvents{local: &corev1.Pod{}, kind: "Pod", remote: []types.UID{"r"}, now: now}
	for i := range 50 {
		r.events = append(r.events, &corev1.Event{
			Type: corev1.EventTypeWarning, Reason: "Failed", LastTimestamp: metav1.NewTime(now.Add(-time.Duration(i) * time.Second)),
			InvolvedObject: corev1.ObjectReference{UID: "r"},
		})
	}
	single := r.singleEvents()
	if len(single) != maxEvents || single[len(single)-1] != r.events[0] {
		t.Errorf("%d events come home, the last from %v", len(single), single[len(single)-1].LastTimestamp)
	}
}

// A provider that gives no right to its events has its node ready as soon as any other.
func TestRemoteEventsForbidden(t *testing.T) {
	s := newTestEnv(t, func(o *Options) { o.NodeLeaseDuration = time.Hour })
	read := rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.tenant}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "pods", "secrets"}, Verbs: []string{rbacv1.VerbAll}},
		{APIGroups: []string{offv1beta1.GroupVersion.Group}, Resources: []string{"shadowpods"}, Verbs: []string{rbacv1.VerbAll}},
	}}
	s.create(s.provider, &read)
	s.bind(s.provider, s.remoteNamespace, read.Name, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "eventless"})
	s.useKubeconfig(testkit.Kubeconfig(t, s.provider.User(t, "eventless", "rome")))
	s.run()
	eventually(s, s.consumer, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}, nodeReady(corev1.ConditionTrue))
}
