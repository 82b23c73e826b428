// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package gateway is the agent of a gateway: it maintains the tunnel to one peer, programs its own network namespace, and
// reports in a Connection whether pods can communicate.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/datapath/kernel"
	"liqo.io/liqo/internal/datapath/wg"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
)

// Options identify the gateway and configure its agent.
type Options struct {
	// Name, Namespace and UID identify the GatewayServer or GatewayClient.
	Name, Namespace string
	UID             types.UID
	RemoteClusterID string
	// Server is this end of the tunnel.
	Server bool
	// LiqoNamespace is the namespace of the installation.
	LiqoNamespace string
	// Node is where this pod runs, Address the pod's own.
	Node    string
	Address netip.Addr
	// MTU of the tunnel at most, in bytes.
	MTU int
	// ListenPort is the UDP port of a server; 0 for any.
	ListenPort uint16
	// Endpoints of the server, as host:port, for a client.
	Endpoints []string
	// KeysDir has the file privateKey.
	KeysDir string
	// StateDir outlives the process, but not the pod; "" for none.
	StateDir string
	// PingPort, PingInterval and PingLossThreshold configure the connection check; StatusInterval is the minimum time
	// between status writes that change nothing but times and latencies.
	PingPort                     uint16
	PingInterval, StatusInterval time.Duration
	PingLossThreshold            int
	// NoIPv6 is a kernel without IPv6.
	NoIPv6 bool
	// Unwatched disables probes: the tunnel counts as connected.
	Unwatched bool
}

func (o Options) peerKey() plan.PeerKey {
	return plan.PeerKey{Namespace: o.Namespace, ClusterID: o.RemoteClusterID}
}

// Setup registers the agent of a gateway whose network namespace k is, and whose tunnel device is.
func Setup(mgr ctrl.Manager, k agent.Kernel, device Device, o Options) error {
	g := newGateway(mgr, k, device, o)
	if err := metrics.Registry.Register(g.exporter); err != nil {
		return fmt.Errorf("registering the metrics of the tunnel: %w", err)
	}
	return g.setupController(mgr)
}

func newGateway(mgr ctrl.Manager, k agent.Kernel, device Device, o Options) *gateway {
	g := &gateway{
		client: mgr.GetClient(), kernel: k, device: device, options: o, trigger: agent.NewTrigger(), flows: agent.Flows{Tracker: k},
		learned: memoryIn(o.StateDir),
		sources: agent.Sources{
			Home:          o.LiqoNamespace,
			RoutesHere:    func(obj metav1.Object) bool { return plan.RoutesOnGateway(obj, o.LiqoNamespace, o.peerKey(), o.Node) },
			FirewallsHere: func(obj metav1.Object) bool { return plan.FirewallOnGateway(obj, o.LiqoNamespace, o.peerKey()) },
		},
		reporter: agent.Reporter{Client: mgr.GetClient(), Events: mgr.GetEventRecorder("liqo-gateway"), Host: o.Name, Namespace: o.Namespace},
	}
	g.endpoints = newEndpoints(g.trigger.Send)
	local, remote := plan.TunnelAddresses(o.Server)
	g.prober = newProber(o, local, remote, mgr.GetLogger().WithName("prober"), g.trigger.Send)
	g.exporter = newExporter(o, device, k.Counted, g.prober.pathHealth, g.prober.foundMTU)
	g.prober.answered = g.exporter.observeLatency
	return g
}

func (g *gateway) setupController(mgr ctrl.Manager) error {
	kinds := append(g.sources.Kinds(), &networkingv1beta1.PublicKey{}, &networkingv1beta1.Connection{})
	keys := func(ctx context.Context) (<-chan struct{}, error) { return watchFiles(ctx, g.options.KeysDir) }
	return agent.Loop{
		Name: "gateway", Kinds: kinds, Matters: g.isRelevant, Run: g.runOnce,
		Watches: []agent.Watch{g.kernel.Watch, keys}, Trigger: g.trigger, Prober: g.prober, Health: &g.state,
	}.Setup(mgr)
}

type gateway struct {
	client    client.Client
	kernel    agent.Kernel
	device    Device
	options   Options
	sources   agent.Sources
	reporter  agent.Reporter
	endpoints *serverEndpoints
	prober    *tunnelProber
	exporter  *tunnelExporter
	trigger   agent.Trigger // requests a run, which checks the tunnel
	silence   time.Duration // time without a handshake after which the next endpoint is tried; 0: default
	state     agent.Health
	flows     agent.Flows

	learned   endpointMemory  // endpoint of the client, for the next process
	opened    bool            // the device is up, with or without peers
	peers     []wg.Peer       // last peers given to the device: one, or none
	restarted time.Time       // the peer of the device, last
	moved     time.Time       // to another endpoint, last
	greeted   handshakeClock  // by the peer of the device, last
	looked    time.Time       // at the peer of the device, last
	received  uint64          // bytes from the peer, by then
	heard     time.Time       // of the peer at all, last; or a little later
	mtu       int             // of the tunnel, as published; 0 before the first run
	shown     publishedStatus // in the Connection
	comeback  recoveryDelay   // of the tunnel
}

// isRelevant extends the common filter by the reports of nodes about this peer.
func (g *gateway) isRelevant(old, now client.Object) bool {
	if was, ok := old.(*networkingv1beta1.InternalNode); ok && nodeReportOf(was, g.options.RemoteClusterID).Value != nodeReportOf(now.(*networkingv1beta1.InternalNode), g.options.RemoteClusterID).Value {
		return true
	}
	return agent.Matters(old, now) || g.reporter.Lost(old, now)
}

// runOnce reconciles the namespace and the tunnel, and reports the state of the tunnel even if a step failed.
func (g *gateway) runOnce(ctx context.Context) (time.Duration, error) {
	snapshot, err := g.sources.Read(ctx, g.client)
	if err != nil {
		return 0, err
	}
	g.setMTU(ctx, snapshot)
	peers, problems, failed := g.wantedPeers(ctx, snapshot)
	state, more := plan.Gateway(g.planInput(snapshot))
	problems = slices.Concat(snapshot.Problems, problems, more)
	if failed == nil {
		failed = g.applyState(ctx, state, peers)
	}
	g.state.Set(failed)
	g.reporter.ReportProblems(ctx, snapshot, problems)
	again, err := g.reconcileConnection(ctx, nodeReports(snapshot, g.options.RemoteClusterID))
	return again, errors.Join(failed, g.reporter.Applied(ctx, snapshot, problems, failed), err)
}

// applyState removes an outdated peer first, even if a later step fails. Translation and filters are applied before the tunnel admits new
// traffic.
func (g *gateway) applyState(ctx context.Context, state datapath.State, peers []wg.Peer) error {
	var keys []wg.PublicKey
	for _, p := range peers {
		keys = append(keys, p.PublicKey)
	}
	revoked := g.device.Keep(keys...)
	g.recordPeers(slices.DeleteFunc(slices.Clone(g.peers), func(p wg.Peer) bool { return !slices.Contains(keys, p.PublicKey) }))
	config, tunnel := g.options.wireguardConfig()
	if tunnel == nil && !g.opened {
		tunnel = g.device.Apply(config)
		g.opened = tunnel == nil
	}
	changes, rules, flows := g.applyTranslation(ctx, state)
	if len(changes.Writes) > 0 {
		log.FromContext(ctx).Info("changed the gateway", "writes", len(changes.Writes))
	}
	if config.Peers = peers; rules != nil {
		config.Peers = g.peers
	}
	if tunnel == nil {
		tunnel = g.device.Apply(config)
	}
	if tunnel == nil {
		g.recordPeers(config.Peers)
	}
	return errors.Join(revoked, rules, flows, tunnel)
}

// applyTranslation reconciles the namespace, and flushes the flows whose translation changed. A failed flush does not block new flows.
func (g *gateway) applyTranslation(ctx context.Context, state datapath.State) (changes kernel.Changes, rules, flows error) {
	translated := agent.Translations(plan.Translations(state.Tables))
	unmarked := g.flows.Unsettle(translated)
	changes, rules = g.kernel.Apply(ctx, state)
	g.flows.Changed(changes)
	if rules == nil {
		flows = g.flows.Forget(translated)
	}
	return changes, rules, errors.Join(unmarked, flows)
}

// recordPeers records the peers of the device. A new peer starts with no health, and a peer with a new endpoint gets the full timeout, wherever the
// endpoint came from.
func (g *gateway) recordPeers(peers []wg.Peer) {
	if len(peers) > 0 && (len(g.peers) == 0 || peers[0].Endpoint != g.peers[0].Endpoint) {
		g.moved = time.Now()
	}
	if !slices.EqualFunc(g.peers, peers, func(a, b wg.Peer) bool { return a.PublicKey == b.PublicKey }) {
		g.prober.resetAnswers()
	}
	g.peers = peers
}

func (g *gateway) planInput(snapshot *agent.Snapshot) plan.GatewayInput {
	kind := "GatewayClient"
	if g.options.Server {
		kind = "GatewayServer"
	}
	return plan.GatewayInput{
		Cluster: snapshot.Cluster, Of: plan.Object{Kind: kind, Namespace: g.options.Namespace, Name: g.options.Name}, Peer: g.options.peerKey(),
		Address: g.options.Address, Node: g.options.Node, Server: g.options.Server, MTU: g.options.MTU,
		Passing: g.mtu, ProbePort: g.options.PingPort, NoIPv6: g.options.NoIPv6,
	}
}

// wantedPeers returns the desired peers of the device by the snapshot: one, or none.
func (g *gateway) wantedPeers(ctx context.Context, snapshot *agent.Snapshot) ([]wg.Peer, []plan.Problem, error) {
	var keys networkingv1beta1.PublicKeyList
	own := client.MatchingLabels{names.RemoteClusterID: g.options.RemoteClusterID}
	if err := g.client.List(ctx, &keys, client.InNamespace(g.options.Namespace), own); err != nil {
		return nil, nil, fmt.Errorf("listing PublicKeys: %w", err)
	}
	for i := range keys.Items {
		snapshot.Objects[keyObject(&keys.Items[i])] = &keys.Items[i]
	}
	var peer *plan.Peer
	if i := slices.IndexFunc(snapshot.Peers, func(p plan.Peer) bool { return p.Key == g.options.peerKey() }); i >= 0 {
		peer = &snapshot.Peers[i]
	}
	endpoint := g.learned.loadEndpoint() // of a client, so that a restarted server finds it at once
	if !g.options.Server {
		endpoint = g.endpoints.currentEndpoint(ctx, endpointSpec(g.options.Endpoints, g.gatewayClient(snapshot)))
	}
	peers, problems := wantedPeers(keys.Items, peer, endpoint)
	return peers, problems, nil
}

// gatewayClient returns the object of a client, or nil if it does not exist.
func (g *gateway) gatewayClient(snapshot *agent.Snapshot) *networkingv1beta1.GatewayClient {
	out, _ := snapshot.Objects[g.planInput(snapshot).Of].(*networkingv1beta1.GatewayClient)
	return out
}

// watchFiles returns a channel that reports changes in a directory, for example of a mounted Secret.
func watchFiles(ctx context.Context, dir string) (<-chan struct{}, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", dir, err)
	}
	if err := w.Add(dir); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("watching %s: %w", dir, err)
	}
	out := make(chan struct{})
	go func() {
		defer close(out)
		defer w.Close()
		for {
			select {
			case <-w.Events:
			case <-w.Errors: // some events were lost
			case <-ctx.Done():
				return
			}
			select {
			case out <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}
