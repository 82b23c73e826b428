// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
)

func TestInvalidAnnotationEvent(t *testing.T) {
	s := newTestEnv(t, nil)
	s.run()
	pod := s.newPod(s.local, "web")
	pod.Annotations = map[string]string{names.AntiAffinityPreset: "Hard", names.APIServerSupport: "x"}
	s.create(s.consumer, pod)
	shadow := eventually(s, s.provider, s.shadow("web"), exists)
	if shadow.Spec.Pod.Affinity != nil || *shadow.Spec.Pod.AutomountServiceAccountToken {
		t.Errorf("the pod is not as by default: %+v", shadow.Spec.Pod)
	}
	s.event(pod, "InvalidAnnotation", `The pod runs in cluster "milan" with the default, because `+
		`the annotation liqo.io/anti-affinity-preset is "Hard", which means nothing: it can be propagate, soft, hard; `+
		`the annotation liqo.io/api-server-support is "x", which means nothing: it can be remote, disabled`)
	var list corev1.EventList
	if err := s.consumer.Client.List(t.Context(), &list, client.InNamespace(s.local)); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == "InvalidAnnotation" && e.Type != corev1.EventTypeWarning {
			t.Errorf("the event is %s", e.Type)
		}
	}
	if got := s.events("web", "InvalidAnnotation"); got != 1 {
		t.Errorf("%d events InvalidAnnotation, want 1", got)
	}
}
