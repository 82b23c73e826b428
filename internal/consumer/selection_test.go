// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

func providerMap(id string, desired map[string]string, current map[string]offv1beta1.RemoteNamespaceStatus) offv1beta1.NamespaceMap {
	return offv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Name: id, Labels: map[string]string{names.ReplicationDestination: id}},
		Spec:       offv1beta1.NamespaceMapSpec{DesiredMapping: desired},
		Status:     offv1beta1.NamespaceMapStatus{CurrentMapping: current},
	}
}

// vnode reads labels from "region=eu tier=gold".
func vnode(name, provider, labels string) offv1beta1.VirtualNode {
	vn := offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name}}
	vn.Spec.ClusterID = liqov1beta1.ClusterID(provider)
	vn.Spec.Labels = map[string]string{}
	for _, f := range strings.Fields(labels) {
		key, value, _ := strings.Cut(f, "=")
		vn.Spec.Labels[key] = value
	}
	return vn
}

func storing(vn offv1beta1.VirtualNode) offv1beta1.VirtualNode {
	vn.Spec.StorageClasses = []liqov1beta1.StorageType{{StorageClassName: "fast", Default: true}}
	return vn
}

func leaving(vn offv1beta1.VirtualNode) offv1beta1.VirtualNode {
	vn.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0)))
	return vn
}

// choosing reads a selector of alternatives "region=eu|name:node".
func choosing(text string) *corev1.NodeSelector {
	selector := &corev1.NodeSelector{}
	if text == "" {
		return selector
	}
	for alternative := range strings.SplitSeq(text, "|") {
		var term corev1.NodeSelectorTerm
		for _, f := range strings.Fields(alternative) {
			if name, ok := strings.CutPrefix(f, "name:"); ok {
				term.MatchFields = append(term.MatchFields, corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}})
				continue
			}
			key, value, _ := strings.Cut(f, "=")
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
		}
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, term)
	}
	return selector
}

func viewOf(selector *corev1.NodeSelector, maps []offv1beta1.NamespaceMap, nodes ...offv1beta1.VirtualNode) *offloadingView {
	nso := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "offloading", Generation: 3}}
	nso.Spec.ClusterSelector = selector
	return &offloadingView{clusterID: "home", nso: nso, maps: maps, nodes: nodes, kubeNodes: map[string]*corev1.Node{}, dead: map[string]bool{}}
}

func TestSelected(t *testing.T) {
	milan, rome := providerMap("milan", nil, nil), providerMap("rome", nil, nil)
	mapped := providerMap("milan", map[string]string{"demo": "demo-home"}, nil)
	for name, tc := range map[string]struct {
		selector string
		maps     []offv1beta1.NamespaceMap
		nodes    []offv1beta1.VirtualNode
		want     string
	}{
		"no terms select every provider":                 {maps: []offv1beta1.NamespaceMap{milan, rome}, nodes: []offv1beta1.VirtualNode{vnode("m", "milan", ""), vnode("r", "rome", "")}, want: "milan rome"},
		"a provider without a virtual node has none":     {maps: []offv1beta1.NamespaceMap{milan, rome}, nodes: []offv1beta1.VirtualNode{vnode("m", "milan", "")}, want: "milan"},
		"labels of the virtual node count":               {selector: "region=eu", maps: []offv1beta1.NamespaceMap{milan, rome}, nodes: []offv1beta1.VirtualNode{vnode("m", "milan", "region=eu"), vnode("r", "rome", "region=us")}, want: "milan"},
		"one matching node of several is enough":         {selector: "region=eu", maps: []offv1beta1.NamespaceMap{milan}, nodes: []offv1beta1.VirtualNode{vnode("a", "milan", "region=us"), vnode("b", "milan", "region=eu"), vnode("c", "milan", "region=us")}, want: "milan"},
		"the name of the node can be chosen":             {selector: "name:r", maps: []offv1beta1.NamespaceMap{milan, rome}, nodes: []offv1beta1.VirtualNode{vnode("m", "milan", ""), vnode("r", "rome", "")}, want: "rome"},
		"the provider's ID can be chosen":                {selector: "liqo.io/remote-cluster-id=rome", maps: []offv1beta1.NamespaceMap{milan, rome}, nodes: []offv1beta1.VirtualNode{vnode("m", "milan", ""), vnode("r", "rome", "")}, want: "rome"},
		"type and storage labels before the Node":        {selector: "liqo.io/type=virtual-node storage.liqo.io/available=false", maps: []offv1beta1.NamespaceMap{milan}, nodes: []offv1beta1.VirtualNode{vnode("m", "milan", "")}, want: "milan"},
		"storage is available where classes are offered": {selector: "storage.liqo.io/available=true", maps: []offv1beta1.NamespaceMap{milan, rome}, nodes: []offv1beta1.VirtualNode{storing(vnode("m", "milan", "")), vnode("r", "rome", "")}, want: "milan"},
		"a node on its way out keeps what is mapped":     {maps: []offv1beta1.NamespaceMap{mapped}, nodes: []offv1beta1.VirtualNode{leaving(vnode("m", "milan", ""))}, want: "milan"},
		"and gets nothing new":                           {maps: []offv1beta1.NamespaceMap{milan}, nodes: []offv1beta1.VirtualNode{leaving(vnode("m", "milan", ""))}},
		"an empty term selects nothing":                  {selector: " ", maps: []offv1beta1.NamespaceMap{milan}, nodes: []offv1beta1.VirtualNode{vnode("m", "milan", "")}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := viewOf(choosing(tc.selector), tc.maps, tc.nodes...).selectedClusters()
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(slices.Sorted(maps.Keys(got)), " "); text != tc.want {
				t.Errorf("selected %q, want %q", text, tc.want)
			}
		})
	}
}

func TestSelectedNodeLabels(t *testing.T) {
	for name, tc := range map[string]struct {
		selector string
		node     map[string]string
		want     bool
	}{
		"labels that are on their way count":       {"tier=gold", nil, true},
		"so do those of every virtual node":        {names.RemoteClusterID + "=milan", nil, true},
		"an old value of a label does not":         {"tier=silver", map[string]string{"tier": "silver"}, false},
		"its new value does":                       {"tier=gold", map[string]string{"tier": "silver"}, true},
		"a label that others gave the Node counts": {"zone=a", map[string]string{"zone": "a"}, true},
		"a label that neither has does not":        {"zone=a", map[string]string{"zone": "b"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := viewOf(choosing(tc.selector), []offv1beta1.NamespaceMap{providerMap("milan", nil, nil)}, vnode("m", "milan", "tier=gold"))
			v.kubeNodes["m"] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: tc.node}}
			if got, err := v.selectedClusters(); err != nil || got["milan"] != tc.want {
				t.Errorf("selected %v, %v", got, err)
			}
		})
	}
}

func TestSelectedInvalidSelector(t *testing.T) {
	bad := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Like"}}}}}
	if _, err := viewOf(bad, nil).selectedClusters(); err == nil {
		t.Error("accepted")
	}
}

func TestSelectedNodeOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := rapid.Custom(func(t *rapid.T) offv1beta1.VirtualNode {
			return vnode(rapid.StringMatching("[a-z]{3}").Draw(t, "name"), rapid.SampledFrom([]string{"milan", "rome"}).Draw(t, "provider"), rapid.SampledFrom([]string{"", "region=eu", "region=us"}).Draw(t, "labels"))
		})
		nodes := rapid.SliceOfN(node, 0, 5).Draw(t, "nodes")
		all := []offv1beta1.NamespaceMap{providerMap("milan", nil, nil), providerMap("rome", nil, nil)}
		first, err := viewOf(choosing("region=eu"), all, nodes...).selectedClusters()
		if err != nil {
			t.Fatal(err)
		}
		shuffled := rapid.Permutation(nodes).Draw(t, "shuffled")
		second, err := viewOf(choosing("region=eu"), all, shuffled...).selectedClusters()
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(first, second) {
			t.Fatalf("%v, but in another order %v", first, second)
		}
	})
}

func TestStatus(t *testing.T) {
	going := func(nm offv1beta1.NamespaceMap) offv1beta1.NamespaceMap {
		nm.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0)))
		return nm
	}
	status := func(phase offv1beta1.MappingPhase) map[string]offv1beta1.RemoteNamespaceStatus {
		return map[string]offv1beta1.RemoteNamespaceStatus{"demo": {RemoteNamespace: "demo-home", Phase: phase}}
	}
	const (
		accepted    = offv1beta1.MappingAccepted
		failed      = offv1beta1.MappingCreationLoopBackOff
		terminating = offv1beta1.MappingTerminating
	)
	for name, tc := range map[string]struct {
		maps     []offv1beta1.NamespaceMap
		selected map[string]bool
		deleting bool
		want     string
	}{
		"no provider at all":               {want: "NoClusterSelected"},
		"a provider that is not selected":  {maps: []offv1beta1.NamespaceMap{providerMap("milan", nil, nil)}, want: "NoClusterSelected milan:OffloadingRequired=False/ClusterNotSelected"},
		"selected, no answer yet":          {maps: []offv1beta1.NamespaceMap{providerMap("milan", nil, nil)}, selected: map[string]bool{"milan": true}, want: "InProgress milan:OffloadingRequired=True/ClusterSelected,Ready=False/Creating"},
		"accepted":                         {maps: []offv1beta1.NamespaceMap{providerMap("milan", nil, status(accepted))}, selected: map[string]bool{"milan": true}, want: "Ready milan:OffloadingRequired=True/ClusterSelected,Ready=True/NamespaceCreated"},
		"accepted under an older name":     {maps: []offv1beta1.NamespaceMap{providerMap("milan", nil, map[string]offv1beta1.RemoteNamespaceStatus{"demo": {RemoteNamespace: "old", Phase: accepted}})}, selected: map[string]bool{"milan": true}, want: "InProgress milan:OffloadingRequired=True/ClusterSelected,Ready=False/Creating"},
		"the only one failed":              {maps: []offv1beta1.NamespaceMap{providerMap("milan", nil, status(failed))}, selected: map[string]bool{"milan": true}, want: "AllFailed milan:OffloadingRequired=True/ClusterSelected,Ready=False/CreationLoopBackOff"},
		"one of two failed":                {maps: []offv1beta1.NamespaceMap{providerMap("milan", nil, status(failed)), providerMap("rome", nil, status(accepted))}, selected: map[string]bool{"milan": true, "rome": true}, want: "SomeFailed milan:OffloadingRequired=True/ClusterSelected,Ready=False/CreationLoopBackOff rome:OffloadingRequired=True/ClusterSelected,Ready=True/NamespaceCreated"},
		"no longer selected, not gone yet": {maps: []offv1beta1.NamespaceMap{providerMap("milan", nil, status(accepted))}, want: "NoClusterSelected milan:OffloadingRequired=False/ClusterNotSelected,Ready=False/Terminating"},
		"the provider deletes it":          {maps: []offv1beta1.NamespaceMap{providerMap("milan", nil, status(terminating))}, selected: map[string]bool{"milan": true}, want: "InProgress milan:OffloadingRequired=True/ClusterSelected,Ready=False/Terminating"},
		"one goes, a new one is there":     {maps: []offv1beta1.NamespaceMap{providerMap("milan", nil, status(accepted)), going(providerMap("milan", nil, status(terminating)))}, selected: map[string]bool{"milan": true}, want: "Ready milan:OffloadingRequired=True/ClusterSelected,Ready=True/NamespaceCreated"},
		"on its way out":                   {maps: []offv1beta1.NamespaceMap{providerMap("milan", nil, status(terminating))}, deleting: true, want: "Terminating milan:OffloadingRequired=False/ClusterNotSelected,Ready=False/Terminating"},
	} {
		t.Run(name, func(t *testing.T) {
			v := viewOf(nil, tc.maps)
			if tc.deleting {
				v.nso.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0)))
			}
			got := v.newStatus(tc.selected, metav1.NewTime(time.Unix(9, 0)))
			if text := showStatus(got); text != tc.want {
				t.Errorf("status\n\t%s, want\n\t%s", text, tc.want)
			}
			if got.RemoteNamespaceName != "demo-home" || got.ObservedGeneration != 3 {
				t.Errorf("remote name %q, generation %d", got.RemoteNamespaceName, got.ObservedGeneration)
			}
		})
	}
}

func TestStatusProviderReasons(t *testing.T) {
	const failed = offv1beta1.MappingCreationLoopBackOff
	for name, tc := range map[string]struct {
		said  offv1beta1.RemoteNamespaceStatus
		phase offv1beta1.OffloadingPhaseType
		want  string
	}{
		"refused": {
			offv1beta1.RemoteNamespaceStatus{Phase: failed, Reason: offv1beta1.MappingNameReserved, Message: `the namespace "argocd" is reserved by the provider`}, "AllFailed",
			`CreationLoopBackOff: Some problems occurred during remote namespace creation: the namespace "argocd" is reserved by the provider`,
		},
		"older_provider": {offv1beta1.RemoteNamespaceStatus{Phase: failed}, "AllFailed", "CreationLoopBackOff: Some problems occurred during remote namespace creation"},
		"reason_only":    {offv1beta1.RemoteNamespaceStatus{Phase: failed, Reason: "Odd"}, "AllFailed", "CreationLoopBackOff: Some problems occurred during remote namespace creation: Odd"},
		"retried": {
			offv1beta1.RemoteNamespaceStatus{Phase: failed, Reason: offv1beta1.MappingRetried, Message: "failed and is being retried"}, "InProgress",
			"Creating: The remote namespace is being created: failed and is being retried",
		},
		"pending": {offv1beta1.RemoteNamespaceStatus{Phase: failed, Reason: offv1beta1.MappingTenantPending}, "InProgress", "Creating: The remote namespace is being created: TenantPending"},
		"terminal_escapes": {
			offv1beta1.RemoteNamespaceStatus{Phase: failed, Reason: "Odd", Message: "\x1b]0;owned\a\nfine\xff"}, "AllFailed",
			"CreationLoopBackOff: Some problems occurred during remote namespace creation: ]0;owned fine",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.said.RemoteNamespace = "demo-home"
			v := viewOf(nil, []offv1beta1.NamespaceMap{providerMap("milan", nil, map[string]offv1beta1.RemoteNamespaceStatus{"demo": tc.said})})
			got := v.newStatus(map[string]bool{"milan": true}, metav1.Now())
			c := got.RemoteNamespacesConditions["milan"][1]
			if text := c.Reason + ": " + c.Message; text != tc.want || got.OffloadingPhase != tc.phase {
				t.Errorf("%s\n%q, want %s\n%q", got.OffloadingPhase, text, tc.phase, tc.want)
			}
			if events := refusalEvents(&got); (len(events) > 0) != (tc.phase == "AllFailed") {
				t.Errorf("events = %v", events)
			}
		})
	}
	if got := foreignText(strings.Repeat("é", 5000)); len(got) > 520 {
		t.Errorf("%d bytes of a peer are repeated", len(got))
	}
}

func showStatus(s offv1beta1.NamespaceOffloadingStatus) string {
	out := string(s.OffloadingPhase)
	for _, name := range slices.Sorted(maps.Keys(s.RemoteNamespacesConditions)) {
		var parts []string
		for _, c := range s.RemoteNamespacesConditions[name] {
			parts = append(parts, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
		}
		out += " " + name + ":" + strings.Join(parts, ",")
	}
	return out
}

func TestStatusTransitionTime(t *testing.T) {
	v := viewOf(nil, []offv1beta1.NamespaceMap{providerMap("milan", nil, nil)})
	selected := map[string]bool{"milan": true}
	v.nso.Status = v.newStatus(selected, metav1.NewTime(time.Unix(1, 0)))
	v.maps[0].Status.CurrentMapping = map[string]offv1beta1.RemoteNamespaceStatus{"demo": {RemoteNamespace: "demo-home", Phase: offv1beta1.MappingAccepted}}
	got := v.newStatus(selected, metav1.NewTime(time.Unix(2, 0))).RemoteNamespacesConditions["milan"]
	if required, ready := got[0].LastTransitionTime.Unix(), got[1].LastTransitionTime.Unix(); required != 1 || ready != 2 {
		t.Errorf("OffloadingRequired since %d, Ready since %d", required, ready)
	}
}

// Several virtual nodes of one provider have different labels; which of them is listed first must not matter.
func TestSelectionOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		labels := rapid.SampledFrom([]string{"region=eu", "region=us", "region=eu tier=gold", ""})
		ids := []string{"milan", "rome", "turin"}
		var providers []offv1beta1.NamespaceMap
		var nodes []offv1beta1.VirtualNode
		for _, id := range ids {
			providers = append(providers, providerMap(id, nil, nil))
			for i := range rapid.IntRange(0, 4).Draw(t, "nodes of "+id) {
				nodes = append(nodes, vnode(fmt.Sprintf("%s-%d", id, i), id, labels.Draw(t, "labels")))
			}
		}
		selector := choosing(rapid.SampledFrom([]string{"", "region=eu", "tier=gold|region=us", "name:rome-1"}).Draw(t, "selector"))
		now := metav1.NewTime(time.Unix(1, 0))
		show := func(v *offloadingView) string {
			selected, err := v.selectedClusters()
			if err != nil {
				t.Fatal(err)
			}
			return showStatus(v.newStatus(selected, now))
		}
		want := show(viewOf(selector, providers, nodes...))
		got := show(viewOf(selector, rapid.Permutation(providers).Draw(t, "maps"), rapid.Permutation(nodes).Draw(t, "nodes")...))
		if got != want {
			t.Fatalf("%s, in another order %s", want, got)
		}
	})
}

func TestRemoteName(t *testing.T) {
	for strategy, want := range map[offv1beta1.NamespaceMappingStrategyType]string{
		offv1beta1.EnforceSameNameMappingStrategyType: "demo",
		offv1beta1.DefaultNameMappingStrategyType:     "demo-home",
		offv1beta1.SelectedNameMappingStrategyType:    "chosen",
		"": "demo-home",
	} {
		v := viewOf(nil, nil)
		v.nso.Spec.NamespaceMappingStrategy, v.nso.Spec.RemoteNamespaceName = strategy, "chosen"
		if got := remoteName(v.nso, "home"); got != want {
			t.Errorf("%s: %q, want %q", strategy, got, want)
		}
	}
}

func TestRemainingLostProvider(t *testing.T) {
	current := map[string]offv1beta1.RemoteNamespaceStatus{"demo": {}}
	v := viewOf(nil, []offv1beta1.NamespaceMap{providerMap("milan", nil, current), providerMap("rome", nil, current), providerMap("turin", nil, nil)})
	v.dead["rome"] = true
	if diff := cmp.Diff([]string{"milan"}, v.remainingClusters()); diff != "" {
		t.Error(diff)
	}
}

func TestServedNodes(t *testing.T) {
	v := viewOf(nil, []offv1beta1.NamespaceMap{providerMap("milan", nil, nil), providerMap("rome", nil, map[string]offv1beta1.RemoteNamespaceStatus{"demo": {}}), providerMap("turin", nil, nil)},
		vnode("m", "milan", ""), vnode("r", "rome", ""), vnode("t", "turin", ""))
	names := func(nodes []offv1beta1.VirtualNode) (out []string) {
		for _, vn := range nodes {
			out = append(out, vn.Name)
		}
		return out
	}
	selected := map[string]bool{"milan": true}
	if diff := cmp.Diff([]string{"m"}, names(v.servedNodes(selected))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"r"}, names(v.leavingNodes(selected))); diff != "" {
		t.Error(diff)
	}
}

func TestDiffering(t *testing.T) {
	a := providerMap("milan", map[string]string{"same": "x", "renamed": "x", "gone": "x"}, nil)
	b := providerMap("milan", map[string]string{"same": "x", "renamed": "y", "new": "x"}, map[string]offv1beta1.RemoteNamespaceStatus{"answered": {}})
	got := differingNamespaces(&a, &b)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"answered", "gone", "new", "renamed"}, got); diff != "" {
		t.Error(diff)
	}
}
