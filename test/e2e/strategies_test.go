// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

//go:embed testdata/spread.yaml
var spreadYAML string

// An offloading is one NamespaceOffloading, and where the two pods of its namespace run, of which as many as can be run on
// different nodes.
type offloading struct {
	name              string // of the namespace, after that of the story
	mapping, strategy string
	selector          string // a node selector term; "" is none
	twin              func(namespace string) string
	here, there       int
}

var mappings = []struct {
	name string
	twin func(namespace string) string
}{
	{"DefaultName", func(ns string) string { return ns + "-" + consumer.ID }},
	{"EnforceSameName", func(ns string) string { return ns }},
	{"SelectedName", func(ns string) string { return "chosen-for-" + ns }},
}

var podStrategies = []struct {
	name        string
	here, there int
}{{"LocalAndRemote", 1, 1}, {"Remote", 0, 2}, {"Local", 2, 0}}

// offloadings are all strategies of both sorts, and selectors that choose the virtual node, or nothing.
func offloadings() []offloading {
	var all []offloading
	for _, m := range mappings {
		for _, s := range podStrategies {
			all = append(all, offloading{name: m.name + "-" + s.name, mapping: m.name, strategy: s.name, twin: m.twin, here: s.here, there: s.there})
		}
	}
	provider := "{matchExpressions: [{key: liqo.io/remote-cluster-id, operator: In, values: [" + provider.ID + "]}]}"
	noCluster := "{matchExpressions: [{key: liqo.io/remote-cluster-id, operator: In, values: [cl-nobody]}]}"
	nowhere := func(string) string { return "" }
	return append(all,
		offloading{name: "selected", mapping: "DefaultName", strategy: "LocalAndRemote", selector: provider, twin: mappings[0].twin, here: 1, there: 1},
		offloading{name: "not-selected", mapping: "DefaultName", strategy: "LocalAndRemote", selector: noCluster, twin: nowhere, here: 2},
		offloading{name: "remote-not-selected", mapping: "DefaultName", strategy: "Remote", selector: noCluster, twin: nowhere},
	)
}

func (o offloading) namespace(p *peering) string { return p.Slice + "-" + strings.ToLower(o.name) }

func (o offloading) manifest(p *peering) string {
	ns := o.namespace(p)
	chosen := ""
	if o.mapping == "SelectedName" {
		chosen = ", remoteNamespaceName: " + o.twin(ns)
	}
	return fmt.Sprintf(`
{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s}}
---
{apiVersion: offloading.liqo.io/v1beta1, kind: NamespaceOffloading, metadata: {name: offloading, namespace: %[1]s}, spec: {namespaceMappingStrategy: %[2]s%[3]s, podOffloadingStrategy: %[4]s, clusterSelector: {nodeSelectorTerms: [%[5]s]}}}
`, ns, o.mapping, chosen, o.strategy, o.selector)
}

// offloaded wants the namespace to be steered: pods that have a node already stay there.
func (o offloading) offloaded(ctx context.Context, p *peering) error {
	var found offv1beta1.NamespaceOffloading
	if err := consumer.Client.Get(ctx, client.ObjectKey{Namespace: o.namespace(p), Name: "offloading"}, &found); err != nil {
		return err
	}
	want := offv1beta1.ReadyOffloadingPhaseType
	if o.twin(o.namespace(p)) == "" {
		want = offv1beta1.NoClusterSelectedOffloadingPhaseType
	}
	if found.Status.OffloadingPhase != want {
		return fmt.Errorf("the phase is %q, want %q", found.Status.OffloadingPhase, want)
	}
	return nil
}

// All namespaces are offloaded at once, used at once, and taken back at once.
func TestOffloadingStrategies(t *testing.T) {
	unchanged := leavesNothing(t)
	p := newPeering(t, "strategies")
	all := offloadings()
	var manifests, pods, names []string
	for _, o := range all {
		manifests, names = append(manifests, o.manifest(p)), append(names, o.namespace(p))
		pods = append(pods, strings.Replace(spreadYAML, "NAMESPACE", o.namespace(p), 1))
	}
	t.Cleanup(func() {
		consumer.mustKubectl(t, append([]string{"delete", "namespace", "--timeout=2m", "--ignore-not-found"}, names...)...)
		p.end(t)
		unchanged()
	})
	p.begin(t)
	consumer.apply(t, strings.Join(manifests, "\n---\n"))
	for _, o := range all {
		eventually(t, o.name+" to be offloaded", func(ctx context.Context) error { return o.offloaded(ctx, p) })
	}
	consumer.apply(t, strings.Join(pods, "\n---\n"))
	for _, o := range all {
		t.Run(o.name, func(t *testing.T) {
			eventually(t, "the twin and the pods of "+o.name, func(ctx context.Context) error { return o.check(ctx, p) })
		})
	}
	for _, ns := range names {
		offloading := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "offloading"}}
		if err := consumer.Client.Delete(t.Context(), offloading); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range all {
		t.Run(o.name+" no more", func(t *testing.T) {
			eventually(t, "everything of "+o.name+" to come home", func(ctx context.Context) error { return o.home(ctx, p) })
		})
	}
}

// check expects one remote namespace of that name, and the pods where they belong, in both clusters.
func (o offloading) check(ctx context.Context, p *peering) error {
	ns := o.namespace(p)
	remoteNamespace := o.twin(ns)
	if err := o.twins(ctx, p, remoteNamespace); err != nil {
		return err
	}
	local, remote, waiting, err := o.placed(ctx, p)
	if err != nil {
		return err
	}
	if len(local) != o.here || len(remote) != o.there || waiting != 2-o.here-o.there {
		return fmt.Errorf("%d ready pods run here, %d there, %d wait; want %d, %d and the rest", len(local), len(remote), waiting, o.here, o.there)
	}
	if remoteNamespace == "" {
		return nil
	}
	var pods corev1.PodList
	if err := provider.Client.List(ctx, &pods, client.InNamespace(remoteNamespace)); err != nil {
		return err
	}
	var inTwin []string
	for _, pod := range pods.Items {
		inTwin = append(inTwin, pod.Name)
	}
	slices.Sort(inTwin)
	if !slices.Equal(inTwin, remote) {
		return fmt.Errorf("the twin has the pods %v, want %v", inTwin, remote)
	}
	return nil
}

// twins expects remoteNamespace to be the only namespace of the provider whose name contains that of the namespace.
func (o offloading) twins(ctx context.Context, p *peering, remoteNamespace string) error {
	var all corev1.NamespaceList
	if err := provider.Client.List(ctx, &all); err != nil {
		return err
	}
	var found []string
	for _, n := range all.Items {
		if slices.Contains([]string{o.namespace(p), o.namespace(p) + "-" + consumer.ID, "chosen-for-" + o.namespace(p)}, n.Name) {
			found = append(found, n.Name)
		}
	}
	if got := strings.Join(found, " "); got != remoteNamespace {
		return fmt.Errorf("the namespaces of the provider are %q, want %q", got, remoteNamespace)
	}
	return nil
}

// placed returns the sorted names of the ready pods on real and on virtual nodes, and how many the scheduler refuses.
func (o offloading) placed(ctx context.Context, p *peering) (local, remote []string, waiting int, err error) {
	var pods corev1.PodList
	if err := consumer.Client.List(ctx, &pods, client.InNamespace(o.namespace(p))); err != nil {
		return nil, nil, 0, err
	}
	for _, pod := range pods.Items {
		switch {
		case isTrue(&pod, corev1.PodReady) && pod.Spec.NodeName == p.Slice:
			remote = append(remote, pod.Name)
		case isTrue(&pod, corev1.PodReady):
			local = append(local, pod.Name)
		case reasonOf(&pod, corev1.PodScheduled) == corev1.PodReasonUnschedulable:
			waiting++
		}
	}
	slices.Sort(local)
	slices.Sort(remote)
	return local, remote, waiting, nil
}

// home wants no twin any more, and both pods on real nodes, also where none could run before.
func (o offloading) home(ctx context.Context, p *peering) error {
	if err := o.twins(ctx, p, ""); err != nil {
		return err
	}
	local, remote, _, err := o.placed(ctx, p)
	if err == nil && (len(local) != 2 || len(remote) != 0) {
		err = fmt.Errorf("%d ready pods run here, %d there, want 2 and none", len(local), len(remote))
	}
	return err
}

func isTrue(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
}

func reasonOf(pod *corev1.Pod, kind corev1.PodConditionType) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Reason
		}
	}
	return ""
}
