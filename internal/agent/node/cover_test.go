// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/datapath/kernel"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/prefix"
)

func pod(host bool, phase corev1.PodPhase, ips ...string) corev1.Pod {
	p := corev1.Pod{Spec: corev1.PodSpec{HostNetwork: host}, Status: corev1.PodStatus{Phase: phase}}
	for _, ip := range ips {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return p
}

func TestCoveringPrefixes(t *testing.T) {
	inside, outside := pod(false, corev1.PodRunning, "10.200.1.5"), pod(false, corev1.PodRunning, "10.200.9.5")
	for name, test := range map[string]struct {
		cidrs string
		pods  []corev1.Pod
		want  string
	}{
		"nothing":            {},
		"the share":          {cidrs: "10.200.1.0/24", pods: []corev1.Pod{inside}, want: "10.200.1.0/24"},
		"of both families":   {cidrs: "fd00:1::/64 10.200.1.0/24", want: "10.200.1.0/24 fd00:1::/64"},
		"with host bits":     {cidrs: "10.200.1.9/24", pods: []corev1.Pod{inside}, want: "10.200.1.0/24"},
		"what is no prefix":  {cidrs: "nonsense", pods: []corev1.Pod{inside}, want: "10.200.1.5/32"},
		"a pod outside":      {cidrs: "10.200.1.0/24", pods: []corev1.Pod{outside, inside}, want: "10.200.1.0/24 10.200.9.5/32"},
		"the share first":    {cidrs: "10.200.9.0/24", pods: []corev1.Pod{outside, inside}, want: "10.200.9.0/24 10.200.1.5/32"},
		"no share":           {pods: []corev1.Pod{outside, inside, inside}, want: "10.200.1.5/32 10.200.9.5/32"},
		"both families":      {cidrs: "10.200.1.0/24", pods: []corev1.Pod{pod(false, corev1.PodRunning, "10.200.1.5", "fd00::5")}, want: "10.200.1.0/24 fd00::5/128"},
		"pods of the host":   {pods: []corev1.Pod{pod(true, corev1.PodRunning, "172.29.1.1")}},
		"pods that are over": {pods: []corev1.Pod{pod(false, corev1.PodSucceeded, "10.200.9.1"), pod(false, corev1.PodFailed, "10.200.9.2")}},
		"pods that come":     {pods: []corev1.Pod{pod(false, corev1.PodPending), pod(false, corev1.PodPending, "10.200.9.3")}, want: "10.200.9.3/32"},
		"what is no address": {pods: []corev1.Pod{pod(false, corev1.PodRunning, "here")}},
	} {
		var got []string
		for _, p := range coveringPrefixes(strings.Fields(test.cidrs), test.pods) {
			got = append(got, p.String())
		}
		if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestPodCIDRsLimit(t *testing.T) {
	var logged []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}))
	n := &nodeAgent{}
	all := make([]netip.Prefix, networkingv1beta1.MaxPodCIDRs+1)
	for i := range all {
		all[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 200, byte(i >> 8), byte(i)}), 32)
	}
	for run, test := range []struct{ prefixes, want, logged int }{
		{networkingv1beta1.MaxPodCIDRs, networkingv1beta1.MaxPodCIDRs, 0},
		{networkingv1beta1.MaxPodCIDRs + 1, networkingv1beta1.MaxPodCIDRs, 1},
		{networkingv1beta1.MaxPodCIDRs + 1, networkingv1beta1.MaxPodCIDRs, 1},
		{1, 1, 1},
		{networkingv1beta1.MaxPodCIDRs + 1, networkingv1beta1.MaxPodCIDRs, 2},
	} {
		if got := n.limitPodCIDRs(ctx, all[:test.prefixes]); len(got) != test.want || len(logged) != test.logged {
			t.Errorf("run %d with %d prefixes: %d are reported, the log has %q", run, test.prefixes, len(got), logged)
		}
	}
}

// With some CNIs each pod that starts or ends changes the InternalNode of its node.
func TestPodsOfOtherNodes(t *testing.T) {
	old := &networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{Name: "worker-2"}}
	pods, moved := old.DeepCopy(), old.DeepCopy()
	pods.Status.PodCIDRs = []networkingv1beta1.CIDR{"10.200.9.5/32"}
	moved.Status = networkingv1beta1.InternalNodeStatus{PodCIDRs: pods.Status.PodCIDRs, NodeIP: networkingv1beta1.InternalNodeStatusNodeIP{Local: new(networkingv1beta1.IP("10.200.2.1"))}}
	for _, test := range []struct {
		options    Options
		pods, move bool
	}{
		{Options{Node: "worker-1"}, false, true},
		{Options{Node: "worker-1", IsolateConsumers: true}, true, true},
		{Options{Node: "worker-2"}, true, true},
	} {
		n := &nodeAgent{options: test.options}
		if got := n.isRelevant(old, pods); got != test.pods {
			t.Errorf("pods of worker-2 matter to %+v: %t, want %t", test.options, got, test.pods)
		}
		if got := n.isRelevant(old, moved); got != test.move {
			t.Errorf("a move of worker-2 matters to %+v: %t, want %t", test.options, got, test.move)
		}
	}
}

// forgetful notes which prefixes are forgotten.
type forgetful struct{ forgotten string }

func (f *forgetful) Forget(of ...netip.Prefix) (int, error) {
	for _, p := range of {
		f.forgotten += p.String() + " "
	}
	return len(of), nil
}

func (*forgetful) Unsettle() (bool, error) { return false, nil }
func (*forgetful) Settle() error           { return nil }

func peers(prefixes ...string) (out []plan.Peer) {
	for _, p := range prefixes {
		out = append(out, plan.Peer{Pods: []prefix.Pair{{Local: netip.MustParsePrefix(p)}}})
	}
	return out
}

func alias(masquerade bool, alias, address string) plan.TranslatedIP {
	return plan.TranslatedIP{Alias: netip.MustParseAddr(alias), Address: netip.MustParseAddr(address), Masquerade: masquerade}
}

func TestFlowsAfterTranslationChange(t *testing.T) {
	f := &forgetful{}
	n := agent.Flows{Tracker: f}
	n.Changed(kernel.Changes{Writes: []string{"all"}})
	external := peers("10.71.0.0/16")
	external[0].External = []prefix.Pair{{Local: netip.MustParsePrefix("10.68.0.0/16")}}
	for name, step := range []struct {
		cluster plan.Cluster
		want    string
	}{
		{plan.Cluster{Peers: external}, "10.68.0.0/16 10.71.0.0/16 "},
		{plan.Cluster{Peers: external}, ""},
		{plan.Cluster{Peers: append(external, peers("10.72.0.0/16")...)}, "10.72.0.0/16 "},
		{plan.Cluster{Peers: external}, "10.72.0.0/16 "},
		{plan.Cluster{Peers: external, Aliases: []plan.TranslatedIP{alias(true, "10.70.0.22", "192.0.2.1")}}, "10.70.0.22/32 "},
		{plan.Cluster{Peers: external, Aliases: []plan.TranslatedIP{alias(true, "10.70.0.22", "192.0.2.2")}}, "10.70.0.22/32 "},
		{plan.Cluster{Peers: external, Aliases: []plan.TranslatedIP{alias(false, "10.70.0.22", "192.0.2.2")}}, "10.70.0.22/32 "},
		{plan.Cluster{}, "10.68.0.0/16 10.70.0.22/32 10.71.0.0/16 "},
		{plan.Cluster{}, ""},
	} {
		f.forgotten = ""
		if err := n.Forget(translationsOf(step.cluster)); err != nil || f.forgotten != step.want {
			t.Errorf("step %d: forgot %q, want %q: %v", name, f.forgotten, step.want, err)
		}
	}
}
