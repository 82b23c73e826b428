// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package gateway is the agent of a gateway: the agent maintains the tunnel to one peer, programs its own network namespace, and reports in a
// Connection whether pods can communicate.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
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
	"liqo.io/liqo/internal/kube"
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
	// Node is the node of this pod, Pod its name, Address its address.
	Node, Pod string
	Address   netip.Addr
	// LeaderElection is set where several replicas run: one at a time is active.
	LeaderElection bool
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

// handoverLimit is how long a gateway that was told to end waits for the new pod at most.
const handoverLimit = 3 * time.Second

// FencedKernel is the network namespace of a gateway.
type FencedKernel interface {
	agent.Kernel
	// NewFence returns the fence of its tunnel.
	NewFence() (*kernel.Fence, error)
}

// Setup registers the agent of a gateway with the network namespace of k and the tunnel of device. Setup returns the context of the manager. The
// context ends after ctx: when nodes reach another pod, if this pod is to be replaced.
func Setup(ctx context.Context, mgr ctrl.Manager, k FencedKernel, device Device, o Options) (context.Context, error) {
	g := newGateway(mgr, k, device, o)
	if err := metrics.Registry.Register(g.exporter); err != nil {
		return nil, fmt.Errorf("registering the metrics of the tunnel: %w", err)
	}
	if err := agent.ServeProbes(mgr, g.prober); err != nil {
		return nil, err
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	g.endAfter(ctx, end, handoverLimit)
	return running, g.setupController(mgr)
}

// endAfter calls end after the context ended and nodes reach another pod, or no pod takes over within the limit.
func (g *gateway) endAfter(ctx context.Context, end context.CancelFunc, limit time.Duration) {
	g.ending, g.end = ctx, end
	context.AfterFunc(ctx, func() {
		time.AfterFunc(limit, end)
		g.trigger.Send()
	})
}

func newGateway(mgr ctrl.Manager, k FencedKernel, device Device, o Options) *gateway {
	var fenced *fencedDevice
	if o.LeaderElection {
		fenced = &fencedDevice{Device: device}
		device = fenced
	}
	g := &gateway{
		client: mgr.GetClient(), kernel: k, device: device, options: o, ending: context.Background(), trigger: agent.NewTrigger(), flows: agent.Flows{Tracker: k},
		learned: memoryIn(o.StateDir),
		sources: agent.Sources{
			Home:          o.LiqoNamespace,
			Own:           client.ObjectKey{Namespace: o.Namespace, Name: names.Gateway(o.Name)},
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
	if !o.Server && !o.Unwatched {
		device.OnUnreachable(g.prober.suspectServer)
	}
	if fenced != nil {
		newFence := func() (fence, error) { return k.NewFence() }
		g.elector = newElector(mgr, o, fenced, newFence, g.learned, g.trigger.Send)
	}
	return g
}

func (g *gateway) setupController(mgr ctrl.Manager) error {
	if g.elector != nil {
		if err := g.elector.setFence(0); err != nil {
			g.elector.log.Error(err, "this replica cannot be active yet")
			g.elector.setUnable(true) // another one may
			g.failing = time.Now().Add(-unableAfter)
		}
		if err := g.elector.device.setOpen(false); err != nil { // the kernel may still have the peer of an earlier process
			return err
		}
		if err := mgr.Add(g.elector); err != nil {
			return fmt.Errorf("adding the election of the active replica: %w", err)
		}
	}
	kinds := append(g.sources.Kinds(), &networkingv1beta1.PublicKey{}, &networkingv1beta1.Connection{})
	keys := func(ctx context.Context) (<-chan struct{}, error) { return watchFiles(ctx, g.options.KeysDir) }
	return agent.Loop{
		Name: "gateway", Kinds: kinds, Matters: g.isRelevant, Run: g.runOnce,
		Watches: []agent.Watch{g.kernel.Watch, keys}, Trigger: g.trigger, Prober: g.prober, Health: &g.state,
	}.Setup(mgr)
}

type gateway struct {
	client    client.Client
	kernel    FencedKernel
	device    Device
	options   Options
	sources   agent.Sources
	reporter  agent.Reporter
	writer    agent.Writer
	endpoints *serverEndpoints
	prober    *tunnelProber
	exporter  *tunnelExporter
	elector   *elector      // nil: this is the only replica
	trigger   agent.Trigger // requests a run, which checks the tunnel
	silence   time.Duration // time without a handshake after which the next endpoint is tried; 0: default
	state     agent.Health
	flows     agent.Flows
	ending    context.Context // ends when the process is told to end; end ends it
	end       context.CancelFunc
	said      time.Time // the goodbye of a server that leaves
	silent    time.Time // since then, no other running replica can take over
	reported  bool      // an event reported this
	failing   time.Time // first of the last attempts to apply the state, which all failed
	warned    bool      // an event reported failing, and the lack of a successor

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

// isRelevant extends the common filter by the reports of nodes about this peer, and by the report of the peer where its server is.
func (g *gateway) isRelevant(old, now client.Object) bool {
	if was, ok := old.(*networkingv1beta1.InternalNode); ok && nodeReportOf(was, g.options.RemoteClusterID).Value != nodeReportOf(now.(*networkingv1beta1.InternalNode), g.options.RemoteClusterID).Value {
		return true
	}
	if was, ok := old.(*networkingv1beta1.GatewayClient); ok && !g.options.Server && client.ObjectKeyFromObject(now) == (client.ObjectKey{Namespace: g.options.Namespace, Name: g.options.Name}) &&
		!apiequality.Semantic.DeepEqual(was.Status.Endpoint, now.(*networkingv1beta1.GatewayClient).Status.Endpoint) {
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
	standby, ends := g.isStandby(snapshot), g.ending.Err() != nil && !g.isActive(snapshot)
	if g.elector != nil {
		standby, ends = g.followElection(ctx, snapshot)
	}
	if wait := g.sayGoodbye(standby || ends); wait > 0 {
		return wait, nil
	}
	if ends {
		defer g.end()
		if g.elector != nil {
			g.elector.releaseLease()
			standby = true
		}
	}
	g.setMTU(ctx, snapshot)
	peers, problems, failed := g.wantedPeers(ctx, snapshot)
	if standby {
		peers = nil
	}
	state, more := plan.Gateway(g.planInput(snapshot))
	problems = slices.Concat(snapshot.Problems, problems, more)
	if failed == nil {
		failed = g.applyState(ctx, state, peers)
		if g.elector != nil {
			failed = errors.Join(failed, g.elector.fenceError())
		}
		g.reportUnable(ctx, snapshot, failed)
	}
	g.state.Set(failed)
	if standby && (failed == nil || !g.elector.isHolder()) {
		return g.options.PingInterval, failed // the active replica reports
	}
	g.reportSilence(snapshot)
	g.reporter.ReportProblems(ctx, snapshot, problems)
	again, err := g.reconcileConnection(ctx, nodeReports(snapshot, g.options.RemoteClusterID))
	applied := g.writer.Write(ctx, func(ctx context.Context) error { return g.reporter.Applied(ctx, snapshot, problems, failed) })
	return again, errors.Join(failed, applied, err)
}

// followElection gives the elector the replicas, and returns whether this replica stands by, and whether this replica ends now: an active replica
// ends when another can take over, or when nodes reach a pod that takes part in no election. The list of replicas also lacks a just crashed replica:
// its next process continues while the Lease names the replica.
func (g *gateway) followElection(ctx context.Context, snapshot *agent.Snapshot) (standby, ends bool) {
	var replicas []networkingv1beta1.GatewayReplica
	switch own := snapshot.Objects[g.planInput(snapshot).Of].(type) {
	case *networkingv1beta1.GatewayServer:
		replicas = own.Status.Replicas
	case *networkingv1beta1.GatewayClient:
		replicas = own.Status.Replicas
	}
	elsewhere := g.isStandby(snapshot)
	key, err := g.options.privateKey()
	if err == nil {
		err = g.elector.setReplicas(replicas, elsewhere, &key)
	} else {
		err = errors.Join(err, g.elector.setReplicas(replicas, elsewhere, nil))
	}
	if err != nil {
		g.elector.log.V(1).Info("other replicas are not heard", "reason", err.Error())
	}
	active, told := g.elector.isActive(), g.ending.Err() != nil
	return !active, told && (!active || elsewhere || g.elector.hasStandby()) || active && elsewhere && len(replicas) == 0 && g.elector.isReplaced(ctx)
}

// unableAfter is how long a replica tries to apply its state before another replica is preferred.
const unableAfter = 2 * time.Second

// reportUnable makes a replica that cannot apply its state give up the tunnel, if another replica can.
func (g *gateway) reportUnable(ctx context.Context, snapshot *agent.Snapshot, failed error) {
	if g.elector == nil {
		return
	}
	if failed == nil {
		g.failing = time.Time{}
	} else if g.failing.IsZero() {
		g.failing = time.Now()
	}
	unable := failed != nil && time.Since(g.failing) >= unableAfter
	if g.elector.setUnable(unable); !unable {
		g.warned = false
		return
	}
	silent := g.elector.silentReplicas()
	resigned, err := g.elector.resignLease(ctx)
	if err != nil {
		log.FromContext(ctx).Info("the Lease is not given up", "reason", err.Error())
	}
	switch own := snapshot.Objects[g.planInput(snapshot).Of]; {
	case own == nil:
	case resigned && len(silent) > 0:
		g.reporter.Events.Eventf(own, nil, corev1.EventTypeWarning, reasonNoStandby, "Resign",
			"replica %s could not apply its state and gave up the tunnel, to no known standby: %s does not answer on UDP %d. Allow that port between them. The state: %s",
			g.options.Pod, strings.Join(silent, ", "), names.ReplicaPort, kube.Note(failed.Error()))
	case resigned:
		g.reporter.Events.Eventf(own, nil, corev1.EventTypeWarning, networkingv1beta1.ReasonApplyFailed, "Resign",
			"replica %s gave up the tunnel, since it could not apply its state: %s", g.options.Pod, kube.Note(failed.Error()))
	case g.elector.isHolder() && !g.warned:
		g.warned = true
		g.reporter.Events.Eventf(own, nil, corev1.EventTypeWarning, networkingv1beta1.ReasonApplyFailed, "Elect",
			"replica %s cannot apply its state, and no other replica can take over: %s", g.options.Pod, kube.Note(failed.Error()))
	}
}

// reasonNoStandby is the reason of events that no replica is known to be able to take over.
const reasonNoStandby = "NoStandby"

// silenceLimit is how long other replicas run without an answer before an event reports that none can take over.
const silenceLimit = 10 * time.Second

// reportSilence reports once that other replicas run and none of them can take over.
func (g *gateway) reportSilence(snapshot *agent.Snapshot) {
	var silent []string
	if g.elector != nil {
		silent = g.elector.silentReplicas()
	}
	switch {
	case len(silent) == 0:
		g.silent, g.reported = time.Time{}, false
	case g.silent.IsZero():
		g.silent = time.Now()
	case !g.reported && time.Since(g.silent) >= silenceLimit:
		g.reported = true
		if own := snapshot.Objects[g.planInput(snapshot).Of]; own != nil {
			g.reporter.Events.Eventf(own, nil, corev1.EventTypeWarning, reasonNoStandby, "Elect",
				"no replica can take over from %s: %s does not answer on UDP %d", g.options.Pod, strings.Join(silent, ", "), names.ReplicaPort)
		}
	}
}

// goodbyeTime is how long the tunnel keeps its peer after a goodbye: a tunnel without a peer would not send the goodbye.
const goodbyeTime = 100 * time.Millisecond

// sayGoodbye sends the client of a leaving server one goodbye, and returns how long the goodbye may still be on its way.
func (g *gateway) sayGoodbye(leaves bool) time.Duration {
	switch {
	case !leaves:
		g.said = time.Time{}
		return 0
	case !g.options.Server || len(g.peers) == 0:
		return 0
	case g.said.IsZero():
		g.said = time.Now()
		g.prober.sendGoodbye()
	}
	return goodbyeTime - time.Since(g.said)
}

// isStandby reports whether nodes reach another replica of this gateway: the new pod before the takeover, or the old pod after the takeover. Two
// replicas with a peer would take the session from each other, because both have one key.
func (g *gateway) isStandby(snapshot *agent.Snapshot) bool {
	active := g.activeReplica(snapshot)
	return active != "" && active != g.options.Address.String()
}

// isActive reports whether nodes reach this replica.
func (g *gateway) isActive(snapshot *agent.Snapshot) bool {
	return g.activeReplica(snapshot) == g.options.Address.String()
}

// activeReplica returns the address at which nodes reach this gateway, or "" if there is none, or the gateway is being deleted.
func (g *gateway) activeReplica(snapshot *agent.Snapshot) string {
	own := snapshot.Objects[g.planInput(snapshot).Of]
	var active *networkingv1beta1.InternalGatewayEndpoint
	switch own := own.(type) {
	case *networkingv1beta1.GatewayServer:
		active = own.Status.InternalEndpoint
	case *networkingv1beta1.GatewayClient:
		active = own.Status.InternalEndpoint
	}
	if active == nil || active.IP == nil || own.GetDeletionTimestamp() != nil {
		return ""
	}
	return active.IP.String()
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
	endpoint := g.learned.loadEndpoint() // endpoint of the client, so that a restarted server finds the client at once
	if !g.options.Server {
		endpoint = g.endpoints.currentEndpoint(ctx, endpointSpec(g.options.Endpoints, g.gatewayClient(snapshot)))
	}
	peers, problems := g.options.wantedPeers(keys.Items, peer, endpoint)
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
