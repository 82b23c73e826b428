// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package node is the agent of a node: the agent routes the node's network namespace to peers through their gateways, and reports to gateways how the
// node is reached, and the peers reached by its pods.
package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/policy"
)

// Options identify the node and configure its agent.
type Options struct {
	Node string
	// LiqoNamespace is the namespace of the installation.
	LiqoNamespace string
	// RulePriority is the priority of the policy routing rule for peers; 0 for the default of plan.Node.
	RulePriority int
	// PingInterval is the time between two probes of the path to a peer, 0 for none; PingLossThreshold is the number of probes lost
	// in a row after which the path is down.
	PingInterval      time.Duration
	PingLossThreshold int
	// OffloadedOnly and IsolateConsumers are those of plan.PodAccess.
	OffloadedOnly, IsolateConsumers bool
}

// Host is the network namespace of the node.
type Host interface {
	agent.Kernel
	Source(to netip.Addr) (netip.Addr, error)
}

// Setup registers the agent of a node whose network namespace k is.
func Setup(mgr ctrl.Manager, k Host, o Options) error {
	n := newNode(mgr, k, o)
	if err := metrics.Registry.Register(newExporter(o.Node, n.prober.pathStates, k.Counted)); err != nil {
		return fmt.Errorf("registering the metrics of the node: %w", err)
	}
	if err := agent.ServeProbes(mgr, n.prober); err != nil {
		return err
	}
	return n.setupController(mgr)
}

func newNode(mgr ctrl.Manager, k Host, o Options) *nodeAgent {
	n := &nodeAgent{
		client: mgr.GetClient(), kernel: k, options: o, trigger: agent.NewTrigger(), flows: agent.Flows{Tracker: k},
		sources: agent.Sources{
			Home: o.LiqoNamespace, Node: true,
			RoutesHere:    func(obj metav1.Object) bool { return plan.RoutesOnNode(obj, o.LiqoNamespace) },
			FirewallsHere: func(obj metav1.Object) bool { return plan.FirewallOnNode(obj, o.LiqoNamespace, o.Node) },
		},
		reporter: agent.Reporter{Client: mgr.GetClient(), Events: mgr.GetEventRecorder("liqo-fabric"), Host: o.Node},
	}
	n.prober = newProber(o, mgr.GetLogger().WithName("prober"), n.trigger.Send)
	return n
}

func (n *nodeAgent) setupController(mgr ctrl.Manager) error {
	l := agent.Loop{
		Name: "fabric", Kinds: append(n.sources.Kinds(), n.options.accessKinds()...), Matters: n.isRelevant, Run: n.runOnce,
		Watches: []agent.Watch{n.kernel.Watch}, Trigger: n.trigger, Health: &n.state,
	}
	if n.options.PingInterval > 0 {
		l.Prober = n.prober
	}
	return l.Setup(mgr)
}

type nodeAgent struct {
	client   client.Client
	kernel   Host
	options  Options
	sources  agent.Sources
	reporter agent.Reporter
	writer   agent.Writer
	state    agent.Health
	prober   *pathProber
	trigger  agent.Trigger // requests a run, which updates the reachable peers
	flows    agent.Flows
	excess   bool // the last run had more prefixes of pods than an InternalNode may have
}

// isRelevant extends the common filter by reports of other agents about this node. Only the isolation of consumers needs the pods of other nodes.
func (n *nodeAgent) isRelevant(old, now client.Object) bool {
	if now.GetName() != n.options.Node && !n.options.IsolateConsumers {
		now = agent.WithPodsOf(old, now)
	}
	if was, ok := old.(*networkingv1beta1.InternalNode); ok && now.GetName() == n.options.Node &&
		!apiequality.Semantic.DeepEqual(was.Status.Peers, now.(*networkingv1beta1.InternalNode).Status.Peers) {
		return true
	}
	return agent.Matters(old, now) || n.reporter.Lost(old, now)
}

// runOnce reconciles the node, and reports how it is reached.
func (n *nodeAgent) runOnce(ctx context.Context) (time.Duration, error) {
	snapshot, err := n.sources.Read(ctx, n.client)
	if err != nil {
		return 0, err
	}
	access, err := n.podAccess(ctx)
	if err != nil {
		return 0, err
	}
	state, problems := plan.Node(plan.NodeInput{
		Cluster: snapshot.Cluster, Name: n.options.Node, RulePriority: n.options.RulePriority, Access: access,
	})
	problems = append(snapshot.Problems, problems...)
	translated := translationsOf(snapshot.Cluster)
	unmarked := n.flows.Unsettle(translated)
	changes, failed := n.kernel.Apply(ctx, state)
	n.state.Set(failed)
	n.flows.Changed(changes)
	if failed == nil {
		failed = n.flows.Forget(translated)
	}
	failed = errors.Join(unmarked, failed)
	if len(changes.Writes) > 0 {
		log.FromContext(ctx).Info("changed the node", "writes", len(changes.Writes))
		for _, w := range changes.Writes {
			log.FromContext(ctx).V(1).Info("changed", "write", w)
		}
	}
	n.prober.setTargets(plan.Probes(snapshot.Peers, state))
	n.reporter.ReportProblems(ctx, snapshot, problems)
	return 0, errors.Join(failed, n.writer.Write(ctx, func(ctx context.Context) error {
		return errors.Join(n.writeReport(ctx, snapshot), n.reporter.Applied(ctx, snapshot, problems, failed))
	}))
}

// translationsOf returns the translation of each destination of peers and of translated IPs: for a translated IP its address, if nodes know the
// address, too. The networks of translated IPs cover IPs that were deleted unnoticed.
func translationsOf(c plan.Cluster) agent.Translations {
	out := agent.Translations{}
	for _, p := range c.External {
		out[p] = ""
	}
	for _, p := range c.Peers {
		for _, pair := range append(slices.Clone(p.Pods), p.External...) {
			out[pair.Local] = ""
		}
	}
	for _, a := range c.Aliases {
		out[netip.PrefixFrom(a.Alias, a.Alias.BitLen())] = fmt.Sprint(a.Address, a.Masquerade)
	}
	return out
}

// writeReport writes into the InternalNode how gateways reach this node.
func (n *nodeAgent) writeReport(ctx context.Context, snapshot *agent.Snapshot) error {
	obj := snapshot.Objects[plan.Object{Kind: "InternalNode", Name: n.options.Node}]
	if obj == nil {
		return nil
	}
	internal := obj.(*networkingv1beta1.InternalNode)
	status, err := n.newStatus(ctx, internal.Status, snapshot.Gateways)
	if err != nil {
		return err
	}
	status.Peers = peersOf(internal.Status.Peers, n.prober.pathStates())
	changed := internal.DeepCopy()
	changed.Status = status
	if apiequality.Semantic.DeepEqual(status, internal.Status) {
		return nil
	}
	n.logChanges(ctx, internal.Status.Peers, status.Peers)
	if err := n.client.Status().Patch(ctx, changed, client.MergeFrom(internal)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of the InternalNode: %w", err)
	}
	return nil
}

// logChanges logs the changes of the reports about peers.
func (n *nodeAgent) logChanges(ctx context.Context, was, is []networkingv1beta1.InternalNodePeer) {
	for _, p := range is {
		if !slices.Contains(was, p) {
			log.FromContext(ctx).Info("the way to a peer changed", "peer", p.ClusterID, "is", p.Value)
		}
	}
}

// newStatus returns the status of the InternalNode. The source address of a gateway that is not running now stays
// unchanged.
func (n *nodeAgent) newStatus(ctx context.Context, was networkingv1beta1.InternalNodeStatus, gateways []agent.Gateway) (networkingv1beta1.InternalNodeStatus, error) {
	out := *was.DeepCopy()
	for _, g := range gateways {
		if !g.Tunnel.Active.IsValid() || g.Node == "" {
			continue
		}
		source, err := n.kernel.Source(g.Tunnel.Active)
		if err != nil {
			log.FromContext(ctx).Info("the gateway cannot be reached", "gateway", g.Tunnel.Of.String(), "address", g.Tunnel.Active, "reason", err.Error())
			continue
		}
		ip := networkingv1beta1.IP(source.String())
		if g.Node == n.options.Node {
			out.NodeIP.Local = &ip
		} else {
			out.NodeIP.Remote = &ip
		}
	}
	var err error
	out.PodCIDRs, err = n.podCIDRs(ctx)
	return out, err
}

// podCIDRs returns prefixes that cover the pods of this node: the share of the node in the cluster's range, and the pod addresses that a CNI assigned
// outside of the range.
func (n *nodeAgent) podCIDRs(ctx context.Context) ([]networkingv1beta1.CIDR, error) {
	var self corev1.Node
	if err := n.client.Get(ctx, client.ObjectKey{Name: n.options.Node}, &self); err != nil {
		return nil, fmt.Errorf("reading the Node: %w", err)
	}
	var pods corev1.PodList
	if err := n.client.List(ctx, &pods); err != nil {
		return nil, fmt.Errorf("listing the pods of the node: %w", err)
	}
	return n.limitPodCIDRs(ctx, coveringPrefixes(self.Spec.PodCIDRs, pods.Items)), nil
}

// limitPodCIDRs returns as many prefixes as an InternalNode may have. The log reports an excess once.
func (n *nodeAgent) limitPodCIDRs(ctx context.Context, all []netip.Prefix) []networkingv1beta1.CIDR {
	excess := len(all) > networkingv1beta1.MaxPodCIDRs
	if excess && !n.excess {
		log.FromContext(ctx).Info("some pods of this node are not reached by peers", "prefixes", len(all), "limit", networkingv1beta1.MaxPodCIDRs)
	}
	n.excess = excess
	var out []networkingv1beta1.CIDR
	for _, p := range all[:min(len(all), networkingv1beta1.MaxPodCIDRs)] {
		out = append(out, networkingv1beta1.CIDR(p.String()))
	}
	return out
}

// coveringPrefixes returns the prefixes that cover the pods, the node's share of the cluster's range first.
func coveringPrefixes(cidrs []string, pods []corev1.Pod) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range cidrs {
		if p, err := netip.ParsePrefix(text); err == nil && !slices.Contains(out, p.Masked()) {
			out = append(out, p.Masked())
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	shares := len(out)
	for i := range pods {
		if pods[i].Spec.HostNetwork || policy.Ended(pods[i].Status.Phase) {
			continue
		}
		for _, ip := range pods[i].Status.PodIPs {
			a, err := netip.ParseAddr(ip.IP)
			if err == nil && !slices.ContainsFunc(out[:shares], func(p netip.Prefix) bool { return p.Contains(a) }) {
				out = append(out, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	slices.SortFunc(out[shares:], netip.Prefix.Compare)
	return append(out[:shares:shares], slices.Compact(out[shares:])...)
}

// peersOf returns the reports about peers that follow was. All nodes and gateways watch the reports, so an unchanged report is not rewritten: a path
// without health keeps the report of the previous process, which stays valid after the end of the process, and a latency is only updated with another
// change.
func peersOf(was []networkingv1beta1.InternalNodePeer, ways []pathState) []networkingv1beta1.InternalNodePeer {
	var out []networkingv1beta1.InternalNodePeer
	for _, w := range ways {
		i := slices.IndexFunc(was, func(p networkingv1beta1.InternalNodePeer) bool { return p.ClusterID == w.Peer })
		known := w.value == networkingv1beta1.Connected || w.value == networkingv1beta1.ConnectionError
		switch {
		case i >= 0 && (!known || was[i].Value == w.value):
			out = append(out, was[i])
		case known:
			p := networkingv1beta1.InternalNodePeer{ClusterID: w.Peer, Value: w.value, Since: metav1.NewTime(w.since.Truncate(time.Second))}
			if w.value == networkingv1beta1.Connected {
				p.Latency = agent.LatencyText(w.pulse.Small.Latency)
			}
			out = append(out, p)
		}
	}
	return out
}
