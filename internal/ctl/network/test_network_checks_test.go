// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/prefix"
	"liqo.io/liqo/internal/probe"
)

func testNode(name, address string, labels ...string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, l := range labels {
		n.Labels[l] = ""
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func partyOf(id string, nodes ...corev1.Node) *testCluster {
	return &testCluster{Cluster: &cluster.Cluster{ID: id, Scope: ui.NewPrinter(strings.NewReader(""), io.Discard, io.Discard).Scope(id)}, nodes: schedulableNodes(nodes), reached: servingPorts(nodes)}
}

// romeAndMilan have two nodes and one, and see each other under other addresses.
func romeAndMilan() ([2]*testCluster, []serverPod, map[*testCluster]exposure) {
	const control = "node-role.kubernetes.io/control-plane"
	tainted := testNode("r0", "192.0.2.9", control)
	tainted.Spec.Taints = []corev1.Taint{{Key: control, Effect: corev1.TaintEffectNoSchedule}}
	outside := testNode("m1", "2001:db8::1")
	outside.Status.Addresses = append(outside.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "198.51.100.1"})
	rome := partyOf("rome", testNode("r2", "192.0.2.2"), tainted, testNode("r1", "192.0.2.1", control))
	milan := partyOf("milan", outside)
	servers := []serverPod{
		{name: "server-0-0", of: rome, node: "r1", at: map[string]string{"milan": "10.71.0.1"}},
		{name: "server-0-1", of: rome, node: "r2", at: map[string]string{"milan": "10.71.0.2"}},
		{name: "server-1-0", of: milan, at: map[string]string{"rome": "fd00::1"}},
	}
	all := []string{"server-0-0", "server-0-1", "server-1-0"}
	return [2]*testCluster{rome, milan}, servers, map[*testCluster]exposure{
		rome: {
			of: rome, name: "echo-1.rome.svc", headless: "echo-1-headless.rome.svc", nodePort: 30001, localPort: 30003, loadBalancer: "203.0.113.1", answers: all,
			own: map[string][]string{"r1": {"server-0-0"}, "r2": {"server-0-1"}},
		},
		milan: {
			of: milan, name: "echo-1.milan.svc", headless: "echo-1-headless.milan.svc", nodePort: 30002, localPort: 30004, loadBalancer: "", err: fmt.Errorf("it has none"), answers: all,
			own: map[string][]string{"m1": {"server-1-0"}},
		},
	}
}

func written(checks []*check) string {
	var text strings.Builder
	for _, c := range checks {
		fmt.Fprintf(&text, "%s, %s > %s: %s > %s, %s = %s %v\n", c.way, c.from, c.to, c.origin, c.goal, c.target.At, strings.Join(c.target.Answers, " "), c.err)
	}
	return strings.ReplaceAll(strings.ReplaceAll(text.String(), " <nil>", ""), "server-0-0 server-0-1 server-1-0", "all")
}

func TestPlanChecks(t *testing.T) {
	const fromPods = `pod to pod, rome > milan: a pod on node r1 of rome > pod server-1-0 of milan, [fd00::1]:8080 = server-1-0
pod to pod, rome > milan: a pod on node r2 of rome > pod server-1-0 of milan, [fd00::1]:8080 = server-1-0
pod to pod, milan > rome: a pod on node m1 of milan > the pod on node r1 of rome, 10.71.0.1:8080 = server-0-0
pod to pod, milan > rome: a pod on node m1 of milan > the pod on node r2 of rome, 10.71.0.2:8080 = server-0-1
`
	for name, tc := range map[string]struct {
		o    testNetworkOptions
		want string
	}{
		"only pods": {testNetworkOptions{basic: true}, fromPods},
		"the usual": {testNetworkOptions{}, `pod to pod, rome > milan: a pod on node r1 of rome > pod server-1-0 of milan, [fd00::1]:8080 = server-1-0
pod to Service, rome > milan: a pod on node r1 of rome > a Service, echo-1.rome.svc:80 = all
pod to headless Service, rome > milan: a pod on node r1 of rome > a headless Service, echo-1-headless.rome.svc:8080 = all
node to pod, rome > milan: a process of node r1 of rome > pod server-1-0 of milan, [fd00::1]:8080 = server-1-0
pod to pod, rome > milan: a pod on node r2 of rome > pod server-1-0 of milan, [fd00::1]:8080 = server-1-0
pod to Service, rome > milan: a pod on node r2 of rome > a Service, echo-1.rome.svc:80 = all
pod to headless Service, rome > milan: a pod on node r2 of rome > a headless Service, echo-1-headless.rome.svc:8080 = all
node to pod, rome > milan: a process of node r2 of rome > pod server-1-0 of milan, [fd00::1]:8080 = server-1-0
pod to pod, milan > rome: a pod on node m1 of milan > the pod on node r1 of rome, 10.71.0.1:8080 = server-0-0
pod to pod, milan > rome: a pod on node m1 of milan > the pod on node r2 of rome, 10.71.0.2:8080 = server-0-1
pod to Service, milan > rome: a pod on node m1 of milan > a Service, echo-1.milan.svc:80 = all
pod to headless Service, milan > rome: a pod on node m1 of milan > a headless Service, echo-1-headless.milan.svc:8080 = all
node to pod, milan > rome: a process of node m1 of milan > the pod on node r1 of rome, 10.71.0.1:8080 = server-0-0
node to pod, milan > rome: a process of node m1 of milan > the pod on node r2 of rome, 10.71.0.2:8080 = server-0-1
`},
		"NodePorts of workers": {testNetworkOptions{nodePortPods: true, nodePortNodes: workers}, `pod to NodePort, rome > milan: a pod on node r1 of rome > the NodePort of node r2 of rome, 192.0.2.2:30001 = all
pod to NodePort, rome > milan: a pod on node r2 of rome > the NodePort of node r2 of rome, 192.0.2.2:30001 = all
pod to NodePort, milan > rome: a pod on node m1 of milan > the NodePort of node m1 of milan, [2001:db8::1]:30002 = all
`},
		"NodePorts of control planes, from outside": {testNetworkOptions{nodePortOutside: true, nodePortNodes: controlPlanes},
			`outside to NodePort, here > rome: this machine > the NodePort of node r0 of rome, 192.0.2.9:30001 = all
outside to NodePort, here > rome: this machine > the NodePort of node r1 of rome, 192.0.2.1:30001 = all
outside to NodePort (Local), here > rome: this machine > the NodePort (Local) of node r1 of rome, 192.0.2.1:30003 = server-0-0
`},
		"all NodePorts, and load balancers": {testNetworkOptions{nodePortOutside: true, loadBalancer: true, nodePortNodes: allNodes},
			`outside to NodePort, here > rome: this machine > the NodePort of node r0 of rome, 192.0.2.9:30001 = all
outside to NodePort, here > rome: this machine > the NodePort of node r1 of rome, 192.0.2.1:30001 = all
outside to NodePort, here > rome: this machine > the NodePort of node r2 of rome, 192.0.2.2:30001 = all
outside to NodePort (Local), here > rome: this machine > the NodePort (Local) of node r1 of rome, 192.0.2.1:30003 = server-0-0
outside to NodePort (Local), here > rome: this machine > the NodePort (Local) of node r2 of rome, 192.0.2.2:30003 = server-0-1
outside to load balancer, here > rome: this machine > the load balancer of rome, 203.0.113.1:80 = all
outside to NodePort, here > milan: this machine > the NodePort of node m1 of milan, 198.51.100.1:30002 = all
outside to NodePort (Local), here > milan: this machine > the NodePort (Local) of node m1 of milan, 198.51.100.1:30004 = server-1-0
outside to load balancer, here > milan: this machine > the load balancer of milan, :80 = all it has none
`},
	} {
		t.Run(name, func(t *testing.T) {
			pair, servers, services := romeAndMilan()
			checks := checksOf(planChecks(&tc.o, pair, servers, services))
			switch {
			case tc.o.nodePortPods: // the others are as usual
				var only []*check
				for _, c := range checks {
					if c.way == podToNodePort {
						only = append(only, c)
					}
				}
				checks = only
			case tc.o.nodePortOutside:
				checks = planOutside(&tc.o, pair, services)
			}
			if diff := cmp.Diff(tc.want, written(checks)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Who asks from a node, or with an address of pods, is no stranger to it.
func TestPlanChecksLocalPolicy(t *testing.T) {
	networks := []prefix.Pair{{Remote: netip.MustParsePrefix("10.200.0.0/16"), Local: netip.MustParsePrefix("10.71.0.0/16")}}
	for name, tc := range map[string]struct {
		source string
		want   string
	}{
		"a machine of the world":          {"203.0.113.9", "r1 r2"},
		"one with an address of the peer": {"10.71.0.9", "r1 r2"},
		"one of the nodes":                {"192.0.2.2", "r1"},
		"a pod":                           {"10.200.3.4", ""},
		"nobody knows":                    {"", "r1 r2"},
	} {
		_, _, services := romeAndMilan()
		var rome exposure
		for p, e := range services {
			if p.ID == "rome" {
				rome = e
			}
		}
		source, _ := netip.ParseAddr(tc.source)
		n := rome.leaveOut(networks, func(string) netip.Addr { return source })
		if got := strings.Join(cluster.SortedKeys(rome.own), " "); got != tc.want || n+len(rome.own) != 2 {
			t.Errorf("from %s: %q are asked, want %q; %d are not", name, got, tc.want, n)
		}
	}
	if got := sourceTo("127.0.0.1"); got != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("this machine asks itself from %s", got)
	}
}

func TestClientPodPerNode(t *testing.T) {
	pair, servers, services := romeAndMilan()
	first := planChecks(&testNetworkOptions{}, pair, servers, services)
	turin := partyOf("turin", pair[1].nodes...)
	services[turin] = services[pair[1]]
	all := append(first, planChecks(&testNetworkOptions{}, [2]*testCluster{pair[0], turin}, []serverPod{{name: "s", of: turin, at: map[string]string{"rome": "10.9.0.1"}}}, services)...)
	want := len(checksOf(all))
	var got []string
	clients := mergeClients(all)
	for _, a := range clients {
		got = append(got, fmt.Sprintf("%s %s/%s %v: %d", a.name, a.of.ID, a.node, a.host, len(a.checks)))
	}
	if diff := cmp.Diff([]string{
		"asker-0 rome/r1 false: 6", "asker-1 rome/r1 true: 2", "asker-2 rome/r2 false: 6", "asker-3 rome/r2 true: 2",
		"asker-4 milan/m1 false: 4", "asker-5 milan/m1 true: 2", "asker-6 turin/m1 false: 2",
	}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if n := len(checksOf(clients)); n != want {
		t.Errorf("%d checks of %d are left", n, want)
	}
}

func TestClientPodSplitByCount(t *testing.T) {
	pair, _, _ := romeAndMilan()
	checks := make([]*check, probe.MostTargets+1)
	for i := range checks {
		checks[i] = &check{}
	}
	clients := mergeClients([]*clientPod{{of: pair[0], node: "r1", checks: checks}})
	if len(clients) != 2 || len(clients[1].checks) != 1 || clients[0].name == clients[1].name {
		t.Errorf("got %d askers", len(clients))
	}
}

func TestClientPodSplitBySize(t *testing.T) {
	everybody := make([]string, 1500)
	for i := range everybody {
		everybody[i] = fmt.Sprintf("server-1-%d", i)
	}
	checks := make([]*check, 20)
	for i := range checks {
		checks[i] = &check{target: probe.Target{At: "192.0.2.1:30001", Answers: everybody}}
	}
	pair, _, _ := romeAndMilan()
	clients := mergeClients([]*clientPod{{of: pair[0], node: "r1", checks: checks}})
	for _, a := range clients {
		pod, err := a.newPod()
		if err != nil {
			t.Fatal(err)
		}
		args := pod.Spec.Containers[0].Args
		if n := len(args[len(args)-1]); n > mostBytes+len("[]") {
			t.Errorf("%s has %d bytes", a.name, n)
		}
	}
	if n := len(checksOf(clients)); n != len(checks) || len(clients) != 10 {
		t.Errorf("%d checks of %d askers", n, len(clients))
	}
}

func TestNodePortsWithoutNode(t *testing.T) {
	worker := func(id string) *testCluster { return partyOf(id, testNode(id, "192.0.2.1")) }
	pair, _, _ := romeAndMilan()
	for name, tc := range map[string]struct {
		pair [2]*testCluster
		o    testNetworkOptions
		want bool
	}{
		"none is tried":                {[2]*testCluster{worker("a"), worker("b")}, testNetworkOptions{nodePortNodes: controlPlanes}, true},
		"nowhere":                      {[2]*testCluster{worker("a"), worker("b")}, testNetworkOptions{nodePortNodes: controlPlanes, nodePortOutside: true}, false},
		"nowhere, for pods":            {[2]*testCluster{worker("a"), worker("b")}, testNetworkOptions{nodePortNodes: controlPlanes, nodePortPods: true}, false},
		"in one, though it has taints": {pair, testNetworkOptions{nodePortNodes: controlPlanes, nodePortPods: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&networkTest{testNetworkOptions: &tc.o, fixtures: fixtures{consumer: tc.pair[0], providers: tc.pair[1:]}}).checkNodePorts()
			if (err == nil) != tc.want {
				t.Error(err)
			}
		})
	}
}

func TestClientPodResults(t *testing.T) {
	ended := func(phase corev1.PodPhase, message string) corev1.PodStatus {
		return corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Message: message, Reason: "Error"},
		}}}}
	}
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		ended  bool
		want   string
	}{
		"it still asks":    {corev1.PodStatus{Phase: corev1.PodRunning}, false, "0 0"},
		"all well":         {ended(corev1.PodSucceeded, `{"marks":".."}`), true, "1 1"},
		"one failed":       {ended(corev1.PodSucceeded, `{"marks":".x","why":{"1":"refused"}}`), true, "1 2 refused"},
		"no time for one":  {ended(corev1.PodSucceeded, `{"marks":".-"}`), true, "1 0"},
		"no room for why":  {ended(corev1.PodSucceeded, `{"marks":"x."}`), true, "2 not reached 1"},
		"another image":    {ended(corev1.PodFailed, "liqo: unknown command"), true, "2 the pod that asks failed: liqo: unknown command 2 the pod that asks failed: liqo: unknown command"},
		"it was evicted":   {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}, true, "2 the pod that asks failed: Evicted 2 the pod that asks failed: Evicted"},
		"nothing was said": {corev1.PodStatus{Phase: corev1.PodFailed}, true, "2 the pod that asks ended without a word 2 the pod that asks ended without a word"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &clientPod{checks: []*check{{}, {}}}
			if got := a.hasAnswered(&corev1.Pod{Status: tc.status}); got != tc.ended {
				t.Errorf("ended: %v", got)
			}
			var got []string
			for _, c := range a.checks {
				got = append(got, fmt.Sprint(int(c.state)))
				if c.err != nil {
					got = append(got, c.err.Error())
				}
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSchedulableNodes(t *testing.T) {
	all := []corev1.Node{testNode("b", ""), testNode("a", ""), testNode("tainted", ""), testNode("preferred", ""), testNode("cordoned", ""), testNode("virtual", ""), testNode("down", "")}
	all[2].Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
	all[3].Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectPreferNoSchedule}}
	all[4].Spec.Unschedulable = true
	all[5].Labels["liqo.io/type"] = "virtual-node"
	all[6].Status.Conditions = nil
	var got []string
	for _, n := range schedulableNodes(all) {
		got = append(got, n.Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "preferred"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got = nil
	for _, n := range servingPorts(all) {
		got = append(got, n.Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "cordoned", "preferred", "tainted"}, got); diff != "" {
		t.Errorf("with NodePorts, -want +got:\n%s", diff)
	}
}

func TestProviderWithoutReadyNode(t *testing.T) {
	ofMilan := func(name string, ready corev1.ConditionStatus) corev1.Node {
		n := testNode(name, "")
		n.Labels["liqo.io/type"], n.Labels["liqo.io/remote-cluster-id"] = "virtual-node", "milan"
		n.Status.Conditions[0].Status, n.Status.Conditions[0].Message = ready, "the network to milan is down"
		return n
	}
	for name, tc := range map[string]struct {
		nodes []corev1.Node
		want  string
	}{
		"none":         {[]corev1.Node{testNode("a", "")}, "no virtual node of milan found: no pod can be offloaded to it"},
		"one, not yet": {[]corev1.Node{ofMilan("m", corev1.ConditionFalse)}, "no virtual node of milan is ready: m: the network to milan is down"},
		"one of two":   {[]corev1.Node{ofMilan("m", corev1.ConditionTrue), ofMilan("n", corev1.ConditionFalse)}, ""},
	} {
		got := ""
		if err := checkOffloadable(tc.nodes, "milan"); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestReadyVirtualNodes(t *testing.T) {
	var nodes []corev1.Node
	var virtual []offv1beta1.VirtualNode
	for _, one := range []struct {
		name, of string
		ready    corev1.ConditionStatus
	}{{"ready", "milan", corev1.ConditionTrue}, {"down", "milan", corev1.ConditionFalse}, {"another", "turin", corev1.ConditionTrue}} {
		n := testNode(one.name, "")
		n.Labels["liqo.io/type"], n.Status.Conditions[0].Status = "virtual-node", one.ready
		nodes = append(nodes, n)
		v := offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: one.name}}
		v.Spec.ClusterID = liqov1beta1.ClusterID(one.of) // some made by hand have no label
		virtual = append(virtual, v)
	}
	virtual = append(virtual, offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "without a node"}, Spec: offv1beta1.VirtualNodeSpec{ClusterID: "milan"}})
	if got := readyVirtualNodes(virtual, "milan", offloadableProviders(nodes)); len(got) != 1 || got[0].Name != "ready" {
		t.Errorf("got %v", got)
	}
}

func TestLentNodes(t *testing.T) {
	nodes := []corev1.Node{testNode("plain", ""), testNode("fast", "", "fast"), testNode("big", "", "big")}
	patched := func(patch *offv1beta1.OffloadingPatch) offv1beta1.VirtualNode {
		return offv1beta1.VirtualNode{Spec: offv1beta1.VirtualNodeSpec{OffloadingPatch: patch}}
	}
	affinity := func(key string, op corev1.NodeSelectorOperator) *offv1beta1.OffloadingPatch {
		return &offv1beta1.OffloadingPatch{Affinity: &offv1beta1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op}}},
			}},
		}}}
	}
	fast := patched(&offv1beta1.OffloadingPatch{NodeSelector: map[string]string{"fast": ""}})
	for name, tc := range map[string]struct {
		virtual []offv1beta1.VirtualNode
		want    string
	}{
		"nothing is known":        {nil, "plain fast big"},
		"no patch":                {[]offv1beta1.VirtualNode{patched(nil)}, "plain fast big"},
		"a selector":              {[]offv1beta1.VirtualNode{fast}, "fast"},
		"a selector, and none":    {[]offv1beta1.VirtualNode{fast, patched(nil)}, "plain fast big"},
		"an affinity":             {[]offv1beta1.VirtualNode{patched(affinity("big", corev1.NodeSelectorOpDoesNotExist))}, "plain fast"},
		"a selector, an affinity": {[]offv1beta1.VirtualNode{fast, patched(affinity("big", corev1.NodeSelectorOpExists))}, "fast big"},
		"nobody":                  {[]offv1beta1.VirtualNode{patched(affinity("none", corev1.NodeSelectorOpExists))}, ""},
	} {
		found, err := nodesOf(nodes, tc.virtual)
		var got []string
		for _, n := range found {
			got = append(got, n.Name)
		}
		if err != nil || strings.Join(got, " ") != tc.want {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, tc.want)
		}
	}
	if _, err := nodesOf(nodes, []offv1beta1.VirtualNode{patched(affinity("a b", corev1.NodeSelectorOpExists))}); err == nil {
		t.Error("an affinity that cannot be read is read")
	}
}

func TestNetworkTestReport(t *testing.T) {
	failed := &check{way: podToIP, from: "rome", to: "milan", target: probe.Target{At: "10.68.0.9:16080"}}
	failed.setResult(errors.New("no answer in time"))
	got := testOf(partyOf("rome")).newReport([]*check{failed, {way: podToIP, from: "rome", to: "milan"}})
	want := networkReport{
		Networks: []networkSeen{}, Ways: []wayReport{{podToIP, "rome", "milan", 0, 1, 1}},
		Checks: []checkReport{
			{Way: podToIP, From: "rome", To: "milan", Address: "10.68.0.9:16080", Result: "Failed", Error: "no answer in time"},
			{Way: podToIP, From: "rome", To: "milan", Result: "NotTried"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Of two IPs for one address the older counts: the test takes one that nobody shows.
func TestNodeWithoutIP(t *testing.T) {
	nodes := []corev1.Node{testNode("a", ""), testNode("b", "192.0.2.2"), testNode("c", "192.0.2.3")}
	by := []ipamv1alpha1.IP{{Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.2"}}}
	if got := nodeWithoutIP(nodes, by); got == nil || got.Name != "c" {
		t.Errorf("got %v", got)
	}
	if got := nodeWithoutIP(nodes, append(by, ipamv1alpha1.IP{Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.3"}})); got != nil {
		t.Errorf("got %s", got.Name)
	}
}
