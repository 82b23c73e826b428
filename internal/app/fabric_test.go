// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFabricPodTransform(t *testing.T) {
	kept := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "7", ResourceVersion: "8"},
		Spec:       corev1.PodSpec{NodeName: "worker", HostNetwork: true},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.200.1.5"}}},
	}
	whole := kept.DeepCopy()
	whole.Labels = map[string]string{"a": "b"}
	whole.Spec.Containers = []corev1.Container{{Name: "c"}}
	whole.Status.Message = "long"
	got, err := slimPod(whole)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&kept, got); diff != "" {
		t.Error(diff)
	}
	if other, err := slimPod("no pod"); err != nil || other != any("no pod") {
		t.Errorf("what is no pod becomes %v, %v", other, err)
	}
}

func TestFabricInvalidFlags(t *testing.T) {
	const ping = "--ping-interval is not below zero, and --ping-loss-threshold above"
	for want, args := range map[string][][]string{
		"--nodename is missing: it is the name of this node": {{}},
		ping: {{"--nodename=n", "--ping-interval=-1s"}, {"--nodename=n", "--ping-loss-threshold=0"}},
	} {
		for _, given := range args {
			cmd := newFabricCommand()
			cmd.SetArgs(given)
			cmd.SilenceUsage, cmd.SilenceErrors = true, true
			if err := cmd.ExecuteContext(t.Context()); err == nil || err.Error() != want {
				t.Errorf("%q: %v, want %s", given, err, want)
			}
		}
	}
}
