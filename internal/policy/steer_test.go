// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

const (
	local  = offv1beta1.LocalPodOffloadingStrategyType
	remote = offv1beta1.RemotePodOffloadingStrategyType
	either = offv1beta1.LocalAndRemotePodOffloadingStrategyType
)

// term reads "region=eu name:node-1 liqo.io/type!virtual-node": labels in and not in, and fields.
func term(text string) corev1.NodeSelectorTerm {
	var t corev1.NodeSelectorTerm
	for _, f := range strings.Fields(text) {
		switch i := strings.IndexAny(f, "=!:"); f[i] {
		case '=':
			t.MatchExpressions = append(t.MatchExpressions, corev1.NodeSelectorRequirement{Key: f[:i], Operator: corev1.NodeSelectorOpIn, Values: []string{f[i+1:]}})
		case '!':
			t.MatchExpressions = append(t.MatchExpressions, corev1.NodeSelectorRequirement{Key: f[:i], Operator: corev1.NodeSelectorOpNotIn, Values: []string{f[i+1:]}})
		default:
			t.MatchFields = append(t.MatchFields, corev1.NodeSelectorRequirement{Key: "metadata." + f[:i], Operator: corev1.NodeSelectorOpIn, Values: []string{f[i+1:]}})
		}
	}
	return t
}

// terms reads alternatives, separated by |.
func terms(text string) []corev1.NodeSelectorTerm {
	if text == "" {
		return nil
	}
	var out []corev1.NodeSelectorTerm
	for alternative := range strings.SplitSeq(text, "|") {
		out = append(out, term(alternative))
	}
	return out
}

func show(terms []corev1.NodeSelectorTerm) string {
	var alternatives []string
	for _, t := range terms {
		var parts []string
		for _, r := range t.MatchExpressions {
			op := map[corev1.NodeSelectorOperator]string{corev1.NodeSelectorOpIn: "=", corev1.NodeSelectorOpNotIn: "!"}[r.Operator]
			parts = append(parts, r.Key+op+strings.Join(r.Values, ","))
		}
		for _, r := range t.MatchFields {
			parts = append(parts, strings.TrimPrefix(r.Key, "metadata.")+":"+strings.Join(r.Values, ","))
		}
		alternatives = append(alternatives, strings.Join(parts, " "))
	}
	return strings.Join(alternatives, "|")
}

func podRequiring(text string) *corev1.Pod {
	pod := &corev1.Pod{}
	if text != "" {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms(text)},
		}}
	}
	return pod
}

func requires(pod *corev1.Pod) string {
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	return show(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
}

func offloading(strategy offv1beta1.PodOffloadingStrategyType, selector string) *offv1beta1.NamespaceOffloading {
	nso := &offv1beta1.NamespaceOffloading{Spec: offv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: strategy}}
	if selector != "" {
		nso.Spec.ClusterSelector = &corev1.NodeSelector{NodeSelectorTerms: terms(selector)}
	}
	return nso
}

func TestSteerPodAffinity(t *testing.T) {
	for name, tc := range map[string]struct {
		strategy            offv1beta1.PodOffloadingStrategyType
		selector, pod, want string
	}{
		"remote, any cluster":                          {strategy: remote, want: "liqo.io/type=virtual-node"},
		"remote, chosen clusters":                      {strategy: remote, selector: "region=eu|region=us", want: "region=eu liqo.io/type=virtual-node|region=us liqo.io/type=virtual-node"},
		"either, any cluster: no affinity at all":      {strategy: either},
		"either, chosen clusters or a real node":       {strategy: either, selector: "region=eu", want: "region=eu|liqo.io/type!virtual-node"},
		"a cluster chosen by the name of its node":     {strategy: either, selector: "name:n1", want: "name:n1|liqo.io/type!virtual-node"},
		"an empty term chooses no cluster":             {strategy: either, selector: "|region=eu", want: "region=eu|liqo.io/type!virtual-node"},
		"only empty terms leave only real nodes":       {strategy: either, selector: "|", want: "liqo.io/type!virtual-node"},
		"remote adds to what the pod requires":         {strategy: remote, pod: "disk=ssd", want: "disk=ssd liqo.io/type=virtual-node"},
		"alternatives multiply":                        {strategy: either, selector: "region=eu", pod: "disk=ssd|gpu=yes", want: "disk=ssd region=eu|disk=ssd liqo.io/type!virtual-node|gpu=yes region=eu|gpu=yes liqo.io/type!virtual-node"},
		"fields of the pod survive":                    {strategy: remote, pod: "name:n1", want: "liqo.io/type=virtual-node name:n1"},
		"what the pod requires already stays as it is": {strategy: remote, pod: "liqo.io/type=virtual-node disk=ssd", want: "liqo.io/type=virtual-node disk=ssd"},
		"a pod that matches nothing still does":        {strategy: remote, pod: "|", want: "|"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podRequiring(tc.pod)
			if !SteerPod(pod, offloading(tc.strategy, tc.selector), "liqo") {
				t.Error("reported no change, though at least the toleration is new")
			}
			if got := requires(pod); got != tc.want {
				t.Errorf("requires %q, want %q", got, tc.want)
			}
			if diff := cmp.Diff([]corev1.Toleration{VirtualNodeToleration()}, pod.Spec.Tolerations); diff != "" {
				t.Errorf("tolerations: %s", diff)
			}
			if SteerPod(pod, offloading(tc.strategy, tc.selector), "liqo") {
				t.Errorf("doing it twice changed it again, to %q", requires(pod))
			}
		})
	}
}

func TestSteerPodLeavesAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		strategy offv1beta1.PodOffloadingStrategyType
		change   func(*corev1.Pod)
	}{
		"every pod of a local namespace": {strategy: local, change: func(*corev1.Pod) {}},
		"a pod of the Liqo runtime class": {strategy: remote, change: func(p *corev1.Pod) {
			p.Spec.RuntimeClassName = new("liqo")
		}},
		"a pod that names its node": {strategy: local, change: func(p *corev1.Pod) { p.Spec.NodeName = "node-1" }},
		"a pod of a DaemonSet": {strategy: remote, change: func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: new(true)}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podRequiring("name:node-1")
			tc.change(pod)
			before := pod.DeepCopy()
			if SteerPod(pod, offloading(tc.strategy, "region=eu"), "liqo") || !reflect.DeepEqual(before, pod) {
				t.Errorf("changed: %s", cmp.Diff(before, pod))
			}
		})
	}
}

func TestSteerPodThatNamesItsNode(t *testing.T) {
	for _, strategy := range []offv1beta1.PodOffloadingStrategyType{either, remote} {
		pod := podRequiring("name:node-1")
		pod.Spec.NodeName = "node-1"
		want := pod.DeepCopy()
		want.Spec.Tolerations = append(want.Spec.Tolerations, VirtualNodeToleration())
		if changed := SteerPod(pod, offloading(strategy, "region=eu"), "liqo"); !changed {
			t.Error("reported no change")
		}
		if diff := cmp.Diff(want, pod); diff != "" {
			t.Errorf("%s (-want +got):\n%s", strategy, diff)
		}
		if SteerPod(pod, offloading(strategy, "region=eu"), "liqo") {
			t.Error("doing it twice changed it again")
		}
	}
}

func TestSteerPodAnnotation(t *testing.T) {
	pod := &corev1.Pod{}
	SteerPod(pod, offloading(either, "region=eu disk!ssd name:n1|region=us"), "liqo")
	want := "region In eu; disk NotIn ssd; @metadata.name In n1 | region In us | liqo.io/type NotIn virtual-node"
	if got := pod.Annotations[names.ImposedAffinity]; got != want {
		t.Errorf("annotation = %q, want %q", got, want)
	}
}

// The API server stores no empty list in a pod, but in a NamespaceOffloading.
func TestSteerPodEmptyValues(t *testing.T) {
	nso := offloading(remote, "")
	nso.Spec.ClusterSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "gpu", Operator: corev1.NodeSelectorOpExists, Values: []string{}}}},
	}}
	pod := &corev1.Pod{}
	SteerPod(pod, nso, "liqo")
	pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Values = nil
	if SteerPod(pod, nso, "liqo") {
		t.Errorf("doing it twice changed it again, to %q", requires(pod))
	}
}

func TestSteerPodTolerations(t *testing.T) {
	limited := VirtualNodeToleration()
	limited.TolerationSeconds = new(int64(30))
	for name, tc := range map[string]struct {
		have corev1.Toleration
		adds bool
	}{
		"the same one is not repeated":       {have: VirtualNodeToleration()},
		"one of everything is enough":        {have: corev1.Toleration{Operator: corev1.TolerationOpExists}},
		"one of the value is enough":         {have: corev1.Toleration{Key: "virtual-node.liqo.io/not-allowed", Value: "true"}},
		"one with a time limit is too short": {have: limited, adds: true},
		"one of another effect is another":   {have: corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}, adds: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{tc.have}}}
			if got := SteerPod(pod, offloading(either, ""), "liqo"); got != tc.adds {
				t.Errorf("added = %v, want %v", got, tc.adds)
			}
		})
	}
}

// A node fits the steered pod exactly if it fits the pod as it was and is where the strategy wants it, as the scheduler's
// own matching sees it.
func TestSteerPodNodes(t *testing.T) {
	requirement := rapid.SampledFrom([]string{"region=eu", "region=us", "region!eu", "disk=ssd", "liqo.io/type=virtual-node", "liqo.io/type!virtual-node", "name:n1", "name:n2", ""})
	selector := rapid.Custom(func(t *rapid.T) string {
		alternatives := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(requirement, 1, 2).Draw(t, "requirements"), " ")
		}), 0, 3).Draw(t, "terms")
		return strings.Join(alternatives, "|")
	})
	rapid.Check(t, func(t *rapid.T) {
		own, chosen := selector.Draw(t, "pod"), selector.Draw(t, "selector")
		strategy := rapid.SampledFrom([]offv1beta1.PodOffloadingStrategyType{remote, either}).Draw(t, "strategy")
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name:   rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node"),
			Labels: map[string]string{"region": rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region")},
		}}
		isVirtual := rapid.Bool().Draw(t, "virtual")
		if isVirtual {
			node.Labels["liqo.io/type"] = "virtual-node"
		}
		if rapid.Bool().Draw(t, "ssd") {
			node.Labels["disk"] = "ssd"
		}
		selected := chosen == "" || fits(t, podRequiring(chosen), node)
		if strategy == remote && len(strings.Trim(strings.ReplaceAll(chosen, "|", ""), " ")) == 0 {
			selected = true // no cluster can be chosen: the pod waits on any virtual node
		}
		want := fits(t, podRequiring(own), node) && (isVirtual && selected || strategy == either && !isVirtual)
		if strategy == either && chosen == "" {
			want = fits(t, podRequiring(own), node)
		}
		pod := podRequiring(own)
		SteerPod(pod, offloading(strategy, chosen), "liqo")
		if got := fits(t, pod, node); got != want {
			t.Fatalf("node fits = %v, want %v; pod requires %q", got, want, requires(pod))
		}
	})
}

func fits(t *rapid.T, pod *corev1.Pod, node *corev1.Node) bool {
	ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}
