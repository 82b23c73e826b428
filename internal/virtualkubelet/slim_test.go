// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// onePod has something in each part that is read of a pod.
func onePod(change func(*corev1.Pod)) *corev1.Pod {
	cpu := func(n string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "shop", UID: "uid", Generation: 3,
			Labels:          map[string]string{names.OffloadingOrigin: "rome", names.OffloadingDestination: "milan", names.OffloadingNodeName: "milan"},
			Annotations:     map[string]string{names.OffloadingUID: "local", "other": "value"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", APIVersion: "apps/v1", Name: "agents", Controller: new(true)}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Spec: corev1.PodSpec{
			NodeName:                      "milan",
			InitContainers:                []corev1.Container{{Name: "init", Image: "i", Resources: cpu("1")}},
			Containers:                    []corev1.Container{{Name: "app", Image: "i", Resources: cpu("2"), Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}},
			TerminationGracePeriodSeconds: new(int64(7)),
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, ObservedGeneration: 3, PodIP: "10.0.0.1",
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "app", RestartCount: 2, Ready: true}},
		},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

func TestSlimRemote(t *testing.T) {
	target := translate.Target{Origin: "rome", Destination: "milan", Node: "milan"}
	for name, change := range map[string]func(*corev1.Pod){
		"running": nil,
		"resized": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
		},
		"being deleted": func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(5))
		},
		"another's": func(p *corev1.Pod) { p.Labels, p.Annotations = nil, nil },
		"ended":     func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
	} {
		t.Run(name, func(t *testing.T) {
			local := onePod(func(p *corev1.Pod) { p.UID, p.DeletionGracePeriodSeconds = "local", new(int64(3)) })
			full := onePod(change)
			slim := full.DeepCopy()
			slimRemote.Apply(slim)
			if slim.Spec.Containers[0].Image != "" || slim.ManagedFields != nil {
				t.Error("it is not slim")
			}
			tell := func(remote *corev1.Pod) []any {
				seconds, way := translate.Grace(local, remote)
				return []any{
					translate.PodStatus(translate.StatusInput{Local: local, Remote: remote, HostIPs: []string{"10.0.0.9"}}),
					seconds, way, target.OwnsPod(remote), translate.IsOfAnother(remote, local), translate.Replaceable(remote), podProblems(remote),
				}
			}
			if diff := cmp.Diff(tell(full), tell(slim)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSlimLocal(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"of a DaemonSet":                nil,
		"of a DaemonSet that may":       func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: names.VirtualNodeTaint}} },
		"of a DaemonSet, tolerates all": func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} },
		"of nobody":                     func(p *corev1.Pod) { p.OwnerReferences = nil },
	} {
		t.Run(name, func(t *testing.T) {
			full := onePod(change)
			slim := full.DeepCopy()
			if _, err := slimLocal(slim); err != nil {
				t.Fatal(err)
			}
			if slim.Spec.Containers != nil || slim.Status.ContainerStatuses != nil {
				t.Error("it is not slim")
			}
			if got, want := policy.KeptOff(slim), policy.KeptOff(full); got != want {
				t.Errorf("kept off: %v, want %v", got, want)
			}
			if hasEnded(slim) != hasEnded(full) {
				t.Error("it ended or did not")
			}
			if slim.Spec.NodeName != full.Spec.NodeName || slim.Name != full.Name || slim.UID != full.UID {
				t.Errorf("lost: %v", slim)
			}
		})
	}
}
