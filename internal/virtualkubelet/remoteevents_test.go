// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An event may come before the object that it is about, in each of the two clusters.
func TestRemoteEventsBeforeObjects(t *testing.T) {
	o := Options{ClusterID: "rome", Provider: "milan", Node: "milan"}.withDefaults()
	for name, k := range map[string]*eventKind{"pods": podEvents(o), "shared": sharedEvents(o, secretKind(o), configMapKind(o))} {
		t.Run(name, func(t *testing.T) {
			kind := k.engineKind()
			for side, sources := range map[string][]string{"local": {}, "remote": {}} {
				all := kind.Local
				if side == "remote" {
					all = kind.Remote
				}
				for _, source := range all {
					if _, isEvent := source.Object.(*corev1.Event); isEvent {
						continue
					}
					obj := source.Object.DeepCopyObject().(client.Object)
					obj.SetName("web")
					keys := source.Keys
					if keys == nil {
						keys = func(obj client.Object) []string { return []string{source.Key(obj)} }
					}
					if got := keys(obj); len(got) != 1 || got[0] == "" {
						t.Errorf("%s %T wakes %q", side, obj, got)
					}
					sources = append(sources, side)
				}
				if len(sources) == 0 {
					t.Errorf("no object is watched on the %s side", side)
				}
			}
		})
	}
}

func TestRemoteEventsByHand(t *testing.T) {
	s := newTestEnv(t, nil)
	s.run()
	for _, local := range []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.local, Name: "keys"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.local, Name: "settings"}},
	} {
		s.create(s.consumer, local)
		kind, remote := "Secret", client.Object(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.remoteNamespace, Name: local.GetName()}})
		if _, ok := local.(*corev1.ConfigMap); ok {
			kind, remote = "ConfigMap", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.remoteNamespace, Name: local.GetName()}}
		}
		eventually(s, s.provider, remote, exists)
		s.create(s.provider, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: s.remoteNamespace, Name: "by-hand-" + local.GetName()},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: s.remoteNamespace, Name: local.GetName()},
			Type:           corev1.EventTypeWarning, Reason: "ByHand", Message: "look at \x1b[31mthis",
		})
		s.eventHere("by-hand-"+local.GetName(), func(e *corev1.Event) error {
			if e.InvolvedObject.UID != local.GetUID() || e.Message != "look at [31mthis" {
				t.Errorf("event %+v", e)
			}
			return nil
		})
	}
}
