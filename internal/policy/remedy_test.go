// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func ownedBy(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Controller: new(true)}}
		p.Spec.RestartPolicy = corev1.RestartPolicyAlways
		if kind == "Job" {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
		}
	}
}

func TestRemedyForWaiting(t *testing.T) {
	replicated, job := ownedBy("ReplicaSet"), ownedBy("Job")
	for name, tc := range map[string]struct {
		strategy      offv1beta1.PodOffloadingStrategyType
		selector, pod string
		change        func(*corev1.Pod)
		want          Remedy
	}{
		"either, any cluster: the toleration is enough": {strategy: either, want: Tolerate},
		"whoever owns it": {strategy: either, change: replicated, want: Tolerate},
		"also of a Job":   {strategy: either, change: job, want: Tolerate},
		"what tolerates virtual nodes already is left":     {strategy: either, change: tolerating, want: Leave},
		"Remote needs affinity of next pod":                {strategy: remote, change: replicated, want: Recreate},
		"so do chosen clusters":                            {strategy: either, selector: "region=eu", change: replicated, want: Recreate},
		"a toleration without the affinity is not enough":  {strategy: remote, change: also(replicated, tolerating), want: Recreate},
		"a pod that nobody makes anew is left to the user": {strategy: remote, want: Tell},
		"a Job would count the deletion as a failure":      {strategy: remote, change: job, want: Tell},
		"pod with own node affinity":                       {strategy: remote, pod: "liqo.io/type=virtual-node", want: Tolerate},
		"pod steered to earlier clusters":                  {strategy: remote, selector: "region=us", pod: "region=eu liqo.io/type=virtual-node", change: also(replicated, tolerating), want: Recreate},
		"a local namespace asks for nothing":               {strategy: local, change: replicated, want: Leave},
		"a pod of a DaemonSet has its place":               {strategy: remote, change: ownedBy("DaemonSet"), want: Leave},
		"a pod of the Liqo runtime class has its place":    {strategy: remote, change: func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("liqo") }, want: Leave},
		"a pod that found a node is none of these":         {strategy: remote, change: func(p *corev1.Pod) { p.Spec.NodeName = "worker" }, want: Leave},
		"a pod on its way out goes":                        {strategy: remote, change: func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }, want: Leave},
		"a pod that ended without a node stays as it is":   {strategy: remote, change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, want: Leave},
		"pod steered to virtual nodes, now unrestricted":   {strategy: either, change: also(replicated, steeredFor(remote, "")), want: Recreate},
		"or is to stay here":                               {strategy: local, change: also(replicated, steeredFor(remote, "region=eu")), want: Recreate},
		"or to clusters that need not be chosen now":       {strategy: either, change: also(replicated, steeredFor(either, "region=eu")), want: Recreate},
		"or to fewer clusters than now":                    {strategy: remote, change: also(replicated, steeredFor(remote, "region=eu")), want: Recreate},
		"which nobody makes anew":                          {strategy: local, change: steeredFor(remote, ""), want: Tell},
		"what its owner requires is its owner's business":  {strategy: either, pod: "liqo.io/type=virtual-node", change: also(replicated, steeredFor(remote, "")), want: Leave},
		"a steered pod that found a node":                  {strategy: local, change: also(steeredFor(remote, ""), func(p *corev1.Pod) { p.Spec.NodeName = "worker" }), want: Leave},
		"pod that matches no node":                         {strategy: remote, pod: "|", change: tolerating, want: Leave},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podRequiring(tc.pod)
			if tc.change != nil {
				tc.change(pod)
			}
			if got := RemedyForWaiting(pod, offloading(tc.strategy, tc.selector), "liqo"); got != tc.want {
				t.Errorf("remedy = %s, want %s", got, tc.want)
			}
		})
	}
}

func steeredFor(strategy offv1beta1.PodOffloadingStrategyType, selector string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { SteerPod(p, offloading(strategy, selector), "liqo") }
}

func tolerating(p *corev1.Pod) {
	p.Spec.Tolerations = append(p.Spec.Tolerations, VirtualNodeToleration())
}

func also(a, b func(*corev1.Pod)) func(*corev1.Pod) { return func(p *corev1.Pod) { a(p); b(p) } }

// What the webhook made needs no remedy: otherwise a pod would be made anew for ever.
func TestRemedyForSteered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		selectors := rapid.SampledFrom([]string{"", "|", "region=eu", "region=eu|name:n1", "region!eu disk=ssd"})
		nso := offloading(rapid.SampledFrom([]offv1beta1.PodOffloadingStrategyType{local, remote, either}).Draw(t, "strategy"), selectors.Draw(t, "selector"))
		pod := podRequiring(selectors.Draw(t, "pod"))
		ownedBy(rapid.SampledFrom([]string{"ReplicaSet", "Job", "DaemonSet"}).Draw(t, "owner"))(pod)
		SteerPod(pod, nso, "liqo")
		if got := RemedyForWaiting(pod, nso, "liqo"); got != Leave {
			t.Fatalf("remedy = %s for a pod that requires %q", got, requires(pod))
		}
	})
}

func TestRemedyForRunning(t *testing.T) {
	worker := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	milan := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{"liqo.io/type": "virtual-node", "region": "eu"}}}
	for name, tc := range map[string]struct {
		strategy offv1beta1.PodOffloadingStrategyType
		selector string
		node     *corev1.Node
		change   func(*corev1.Pod)
		want     Remedy
	}{
		"local: off virtual nodes":                       {strategy: local, node: milan, want: Evict},
		"local: stays on real ones":                      {strategy: local, node: worker, want: Leave},
		"remote: off real nodes":                         {strategy: remote, node: worker, want: Evict},
		"remote: stays on virtual ones":                  {strategy: remote, node: milan, want: Leave},
		"remote: stays on those that are chosen":         {strategy: remote, selector: "region=eu", node: milan, want: Leave},
		"remote: off those that are not":                 {strategy: remote, selector: "region=us", node: milan, want: Evict},
		"a node may be chosen by its name":               {strategy: remote, selector: "name:milan", node: milan, want: Leave},
		"either: stays anywhere":                         {strategy: either, node: worker, want: Leave},
		"either: off virtual nodes that are not chosen":  {strategy: either, selector: "region=us", node: milan, want: Evict},
		"either: stays on real nodes with a selector":    {strategy: either, selector: "region=us", node: worker, want: Leave},
		"a Job's pod goes too, if that is asked for":     {strategy: remote, node: worker, change: ownedBy("Job"), want: Evict},
		"a pod that nobody makes anew is not taken away": {strategy: remote, node: worker, change: func(p *corev1.Pod) { p.OwnerReferences = nil }, want: Tell},
		"a pod of a DaemonSet would come back":           {strategy: remote, node: worker, change: ownedBy("DaemonSet"), want: Leave},
		"a static pod is its kubelet's":                  {strategy: remote, node: worker, change: func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }, want: Leave},
		"a pod that ended stays as it is":                {strategy: remote, node: worker, change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, want: Leave},
		"nothing is decided about a node nobody knows":   {strategy: remote, node: nil, want: Leave},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podRequiring("")
			ownedBy("ReplicaSet")(pod)
			if tc.change != nil {
				tc.change(pod)
			}
			if got := RemedyForRunning(pod, tc.node, offloading(tc.strategy, tc.selector), "liqo"); got != tc.want {
				t.Errorf("remedy = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestRemedyForReleased(t *testing.T) {
	replicated := ownedBy("ReplicaSet")
	for name, tc := range map[string]struct {
		pod    string
		change func(*corev1.Pod)
		want   Remedy
	}{
		"what was steered to virtual nodes is made anew": {change: also(replicated, steeredFor(remote, "")), want: Recreate},
		"or to chosen ones":                           {change: also(replicated, steeredFor(either, "region=eu")), want: Recreate},
		"toleration of nodes that run nothing":        {change: also(replicated, steeredFor(either, "")), want: Recreate},
		"whatever it requires itself":                 {pod: "disk=ssd", change: also(replicated, steeredFor(remote, "")), want: Recreate},
		"steered pod without owner":                   {change: steeredFor(remote, ""), want: Tell},
		"a Job would count it as a failure":           {change: also(ownedBy("Job"), steeredFor(remote, "")), want: Tell},
		"a toleration keeps no pod from running here": {change: steeredFor(either, ""), want: Leave},
		"what nobody steered stays":                   {change: replicated, want: Leave},
		"as does one of a DaemonSet":                  {change: also(ownedBy("DaemonSet"), tolerating), want: Leave},
		"and one that found a node":                   {change: also(also(replicated, steeredFor(remote, "")), func(p *corev1.Pod) { p.Spec.NodeName = "worker" }), want: Leave},
		"and one on its way out":                      {change: also(also(replicated, steeredFor(remote, "")), func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }), want: Leave},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podRequiring(tc.pod)
			tc.change(pod)
			if got := RemedyForReleased(pod, "liqo"); got != tc.want {
				t.Errorf("remedy = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestRemedyForStranded(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   Remedy
	}{
		"one that never started is made anew":       {change: ownedBy("ReplicaSet"), want: Recreate},
		"one that nobody makes anew stays":          {change: func(*corev1.Pod) {}, want: Leave},
		"a Job would count it as a failure":         {change: ownedBy("Job"), want: Leave},
		"one of a DaemonSet would come back":        {change: ownedBy("DaemonSet"), want: Leave},
		"one that started is the virtual kubelet's": {change: also(ownedBy("ReplicaSet"), func(p *corev1.Pod) { p.Status.ContainerStatuses = make([]corev1.ContainerStatus, 1) }), want: Leave},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}
			tc.change(pod)
			if got := RemedyForStranded(pod); got != tc.want {
				t.Errorf("remedy = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestKeptOff(t *testing.T) {
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	for name, tc := range map[string]struct {
		owner       string
		tolerations []corev1.Toleration
		want        bool
	}{
		"a DaemonSet that tolerates everything":           {owner: "DaemonSet", tolerations: []corev1.Toleration{everything}, want: true},
		"one bound there by hand":                         {owner: "DaemonSet", want: true},
		"a DaemonSet that names virtual nodes wants them": {owner: "DaemonSet", tolerations: []corev1.Toleration{everything, VirtualNodeToleration()}},
		"pod with other tolerations":                      {owner: "ReplicaSet", tolerations: []corev1.Toleration{everything}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: tc.tolerations}}
			ownedBy(tc.owner)(pod)
			if got := KeptOff(pod); got != tc.want {
				t.Errorf("kept off = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestKeepDaemonSetOff(t *testing.T) {
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	for name, tc := range map[string]struct {
		change func(*appsv1.DaemonSet)
		want   bool
	}{
		"one that tolerates everything": {func(*appsv1.DaemonSet) {}, true},
		"one that names the taint": {func(ds *appsv1.DaemonSet) {
			ds.Spec.Template.Spec.Tolerations = append(ds.Spec.Template.Spec.Tolerations, VirtualNodeToleration())
		}, false},
		"one that tolerates nothing":      {func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.Tolerations = nil }, false},
		"one that is not to be scheduled": {func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.Tolerations[0].Effect = corev1.TaintEffectNoSchedule }, false},
		"one that names the type of nodes": {func(ds *appsv1.DaemonSet) {
			ds.Spec.Template.Spec.NodeSelector = map[string]string{"liqo.io/type": "virtual-node"}
		}, false},
		"one that wants to be left alone": {func(ds *appsv1.DaemonSet) {
			ds.Annotations = map[string]string{"liqo.io/keep-off-virtual-nodes": "false"}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ds := &appsv1.DaemonSet{}
			ds.Spec.Template.Spec.Tolerations = []corev1.Toleration{everything}
			tc.change(ds)
			if got := KeepDaemonSetOff(ds); got != tc.want {
				t.Errorf("changed %v", got)
			}
			if terms := *required(&ds.Spec.Template.Spec); tc.want != (len(terms) == 1 && terms[0].MatchExpressions[0].Operator == corev1.NodeSelectorOpNotIn) {
				t.Errorf("it requires %v", terms)
			}
			if KeepDaemonSetOff(ds) {
				t.Error("it is changed once more")
			}
		})
	}
}
