// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/datapath/wg"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// reconcileConnection checks the tunnel, reconnects a dead tunnel (keepPath), and writes the Connection status even if a reconnection failed.
// reconcileConnection returns the delay until the next check. Without a peer there is no wait, and answers are ignored.
func (g *gateway) reconcileConnection(ctx context.Context, nodes []nodeReport) (time.Duration, error) {
	now, health, again := time.Now(), agent.PathHealth{}, g.options.PingInterval
	var failed error
	if len(g.peers) > 0 && !g.options.Unwatched {
		health = g.prober.pathHealth()
		again = health.Next(now)
	}
	if len(g.peers) > 0 {
		failed = g.keepPath(ctx, g.peers[0].PublicKey, health, now)
	}
	late, known := answerDelay(health, now)
	if now.Sub(health.Left) < moveLimit || !g.options.Server && known && late >= 0 && late < moveLimit {
		again = min(again, health.Interval/movesPerInterval)
	}
	return again, errors.Join(failed, g.writer.Write(ctx, func(ctx context.Context) error { return g.writeConnection(ctx, health, nodes, now) }))
}

// writeConnection writes the state of the tunnel, and of the path of pods to it, to the status.
func (g *gateway) writeConnection(ctx context.Context, health agent.PathHealth, nodes []nodeReport, now time.Time) error {
	conn, err := g.readConnection(ctx)
	if err != nil || conn == nil {
		return err
	}
	was := g.shown.lastStatus(conn.Status)
	tunnel := nextStatus(tunnelOf(was), health, now, g.options.StatusInterval)
	timeout := time.Duration(g.options.PingLossThreshold) * g.options.PingInterval
	status := withNodes(tunnel, g.comeback.delayReports(tunnel.Value == networkingv1beta1.Connected, nodes, now, timeout))
	if g.options.Unwatched && len(g.peers) > 0 {
		status = networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected}
	}
	if status.MTU = g.mtu; apiequality.Semantic.DeepEqual(status, was) {
		return nil
	}
	changed, err := g.writeStatus(ctx, conn, status)
	if err != nil {
		return err
	}
	g.shown = publishedStatus{all: status, kept: changed.Status}
	if status.Value != was.Value || status.Reach != was.Reach || !slices.Equal(status.FailedNodes, was.FailedNodes) {
		small, full := health.Losses(now)
		log.FromContext(ctx).Info("the tunnel changed", "was", was.Value, "is", status.Value, "lostSmall", small, "lostFull", full,
			"reach", status.Reach, "failedNodes", status.FailedNodes)
	}
	return nil
}

// anything differs from every desired status in each field.
var anything = networkingv1beta1.ConnectionStatus{
	Value: "-", Latency: networkingv1beta1.ConnectionLatency{Value: "-", Timestamp: metav1.Unix(1, 0)}, Lost: "-", Reach: "-", FailedNodes: []string{"-"}, MTU: -1,
}

// writeStatus replaces the whole status. The cached Connection may be older than the last write: a patch of the difference to it would leave stale
// fields in place.
func (g *gateway) writeStatus(ctx context.Context, conn *networkingv1beta1.Connection, status networkingv1beta1.ConnectionStatus) (*networkingv1beta1.Connection, error) {
	before, changed := conn.DeepCopy(), conn.DeepCopy()
	before.Status, changed.Status = anything, status
	if err := g.client.Status().Patch(ctx, changed, client.MergeFrom(before)); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("writing the status of the Connection: %w", err)
	}
	return changed, nil
}

// keepPath stores the endpoint of the peer on a server. On a client keepPath resolves, changes endpoints and restarts handshakes, because WireGuard
// does this late or not at all. keepPath does not block.
func (g *gateway) keepPath(ctx context.Context, key wg.PublicKey, health agent.PathHealth, now time.Time) error {
	status, err := g.device.Observe()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(status.Peers, func(p wg.PeerStatus) bool { return p.PublicKey == key })
	if i < 0 {
		return nil
	}
	peer := status.Peers[i]
	handshake := g.greeted.lastHandshake(peer.LastHandshake, now, now.Round(0))
	up := health.Up(now)
	if g.options.Unwatched {
		up = now.Sub(handshake) <= alive && (g.options.Server || handshake.After(g.moved))
	}
	switch {
	case !g.options.Server:
		if up {
			g.endpoints.markWorking()
		}
		return g.rehandshake(ctx, peer, handshake, health, now)
	case up:
		if g.elector != nil {
			g.elector.setEndpoint(peer.Endpoint)
		}
		return g.learned.storeEndpoint(peer.Endpoint)
	}
	return nil
}

// restartAfter is how many lost probes make a client begin a session anew: WireGuard itself would take 15 seconds to try.
const restartAfter = 2

// After a goodbye of its server, a client restarts the handshake movesPerInterval times per interval, for moveLimit: until the Service knows the new
// pod of the server, packets go to the old pod. The old pod may still answer the first attempt. Each attempt comes from another port, because
// kube-proxy leaves the packets of one port to the old pod until the pod has ended.
const (
	moveLimit        = 10 * time.Second
	movesPerInterval = 4
)

// alive is the maximum age of a WireGuard session; a session with traffic in both directions is rekeyed after
// 120 s.
const alive = 180 * time.Second

// rehandshake restarts the handshake of a tunnel that receives nothing. A tunnel that loses probes but carries other packets is left alone while the
// tunnel has a session and is not one-way: a server without packets from its client still sends. An unwatched tunnel is judged by received bytes
// alone: a peer sends at least a keepalive now and then.
func (g *gateway) rehandshake(ctx context.Context, peer wg.PeerStatus, handshake time.Time, health agent.PathHealth, now time.Time) error {
	if peer.Received > g.received {
		g.heard = g.looked
	}
	g.received, g.looked = peer.Received, now
	watched := !g.options.Unwatched
	last := latestOf(health.Small.At, health.Began)
	if turn := health.Interval / movesPerInterval; peer.Endpoint.IsValid() && now.Sub(health.Left) < moveLimit && handshake.Sub(health.Left) < turn {
		if now.Sub(g.restarted) < turn {
			return nil
		}
		g.restarted = now
		return errors.Join(g.device.Rebind(), g.device.Restart(peer.PublicKey))
	}
	late, known := answerDelay(health, now)
	if watched && peer.Endpoint.IsValid() && known && late >= health.Interval && late < moveLimit && now.Sub(latestOf(g.heard, handshake)) > health.Interval/2 {
		return g.findServer(ctx, peer.PublicKey, late, health.Interval, now)
	}
	switch session := now.Sub(handshake) <= alive; {
	case session && !watched:
		last = g.heard.Add(keepalive)
	case session && !isOneWay(health, now):
		last = latestOf(last, g.heard)
	}
	quiet := now.Sub(last)
	if !peer.Endpoint.IsValid() || watched && (health.Began.IsZero() || quiet < restartAfter*health.Interval || known && late < health.Interval) {
		return nil
	}
	switch {
	case min(quiet, now.Sub(latestOf(handshake, g.moved))) >= cmp.Or(g.silence, silence):
		g.moved = now
		log.FromContext(ctx).Info("no handshake, taking another way", "endpoint", g.endpoints.nextEndpoint(ctx))
		return g.device.Rebind()
	case watched && now.Sub(latestOf(g.restarted, handshake)) >= tryFor(health):
		g.restarted = now
		return g.device.Restart(peer.PublicKey)
	}
	return nil
}

// answerDelay returns how long an answer of a usually fast server has been late; a value below 0 means not late yet. known is false if nothing is
// unanswered, or if answers took long before.
func answerDelay(health agent.PathHealth, now time.Time) (late time.Duration, known bool) {
	silent, l := health.Small.Unanswered(now), health.Small.Latency
	return silent - max(health.Interval/movesPerInterval, 2*l), silent > 0 && l > 0 && l <= health.Interval/2
}

// findServer begins a session twice per interval after two lost probes in a row: another replica may have taken over, and kube-proxy may lead the
// packets of the present port to the last replica. A new session drops the keys and waiting packets of the old session, so that one lost probe is no
// reason for a new session. Later findServer takes another endpoint after each interval, because an endpoint on a failed node no longer answers, or
// else another port: until then a server that knows this client may begin the session.
func (g *gateway) findServer(ctx context.Context, key wg.PublicKey, late, interval time.Duration, now time.Time) error {
	if now.Sub(g.restarted) < interval/2 {
		return nil
	}
	g.restarted = now
	switch {
	case late < restartAfter*interval:
		return g.device.Restart(key)
	case now.Sub(g.moved) >= interval && g.endpoints.hasOthers():
		g.moved, g.restarted = now, time.Time{}
		log.FromContext(ctx).Info("the server is silent, taking another way", "endpoint", g.endpoints.nextEndpoint(ctx))
		g.trigger.Send()
		return nil
	}
	return errors.Join(g.device.Rebind(), g.device.Restart(key))
}

// tryFor returns the timeout of a handshake attempt: after fast answers, at most the time until the next probe. A server that comes back hears from
// its client with the next attempt.
func tryFor(health agent.PathHealth) time.Duration {
	turns := time.Duration(restartAfter)
	if l := health.Small.Latency; l > 0 && l <= health.Interval/2 {
		turns = 1
	}
	return turns*health.Interval - health.Interval/4 // a ticker of one interval fires slightly early at times
}

// handshakeClock converts the time of the last handshake to the monotonic clock. The device reports wall time, which may be set at any moment: a
// reported handshake must not age by a step of the wall clock.
type handshakeClock struct {
	told   time.Time // by the device, last
	at     time.Time // time of the handshake; zero without a handshake, or if unknown
	looked time.Time // by the monotonic clock, last
}

// lastHandshake returns the monotonic time of the handshake that the device reports at the wall time reported. now is monotonic, and
// wallClock is the wall time of now.
func (g *handshakeClock) lastHandshake(reported, now, wallClock time.Time) time.Time {
	before := g.looked
	g.looked = now
	if reported.Equal(g.told) && !before.IsZero() {
		return g.at
	}
	g.told, g.at = reported, time.Time{}
	age := wallClock.Sub(reported)
	switch {
	case reported.IsZero():
	case !before.IsZero(): // the handshake is newer than the last check
		g.at = now.Add(-min(max(age, 0), now.Sub(before)))
	case age >= 0:
		g.at = now.Add(-age)
	}
	return g.at
}

// isOneWay reports whether the peer still sends probes but does not answer: packets to it are lost. Where probes are dropped in both
// directions, the last probe of the peer is older than our next answer would be.
func isOneWay(health agent.PathHealth, now time.Time) bool {
	return health.Asked.Sub(latestOf(health.Small.At, health.Began)) >= health.Interval && now.Sub(health.Asked) < restartAfter*health.Interval
}

func latestOf(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// nextStatus returns the status of the tunnel. Connected means that packets of all sizes pass.
func nextStatus(was networkingv1beta1.ConnectionStatus, health agent.PathHealth, now time.Time, interval time.Duration) networkingv1beta1.ConnectionStatus {
	out := was
	out.Value = health.Value(was.Value, now)
	out.Lost = isLost(was.Lost, out.Value, health, now)
	reported := was.Latency.Timestamp.Time
	// The latency of the first answer may include the wait for the handshake.
	first := !reported.After(health.Small.Since) && health.Small.At.After(health.Small.Since)
	if out.Value == networkingv1beta1.Connected && (out.Value != was.Value || first || now.Sub(reported).Abs() >= interval) {
		out.Latency = networkingv1beta1.ConnectionLatency{Value: agent.LatencyText(health.Small.Latency), Timestamp: metav1.NewTime(now)}
	}
	return out
}

// isLost returns the packet sizes lost by a tunnel. For a tunnel that is still down after a restart, the previous value stays. Where large probes are
// always lost, a small probe may be lost by chance.
func isLost(was networkingv1beta1.ConnectionLoss, value networkingv1beta1.ConnectionStatusValue, health agent.PathHealth, now time.Time) networkingv1beta1.ConnectionLoss {
	small, _ := health.Losses(now)
	switch {
	case value != networkingv1beta1.ConnectionError:
		return ""
	case !health.Failed(now):
		return was
	case small >= min(2, health.Threshold):
		return networkingv1beta1.LostAll
	}
	return networkingv1beta1.LostLarge
}

// readConnection returns the Connection of the tunnel, or nil until the cache contains it. The Connection is
// created for the first peer.
func (g *gateway) readConnection(ctx context.Context) (*networkingv1beta1.Connection, error) {
	o := g.options
	kind, owner, end := "WgGatewayClient", "GatewayClient", networkingv1beta1.ConnectionTypeClient
	if o.Server {
		kind, owner, end = "WgGatewayServer", "GatewayServer", networkingv1beta1.ConnectionTypeServer
	}
	version := networkingv1beta1.GroupVersion.String()
	want := &networkingv1beta1.Connection{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Namespace, Name: names.Gateway(o.Name), Labels: map[string]string{names.RemoteClusterID: o.RemoteClusterID},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: version, Kind: owner, Name: o.Name, UID: o.UID, Controller: new(true)}},
		},
		Spec: networkingv1beta1.ConnectionSpec{
			Type:       end,
			GatewayRef: corev1.ObjectReference{APIVersion: version, Kind: kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID},
		},
	}
	if len(g.peers) > 0 {
		if _, err := kube.Ensure(ctx, g.client, want); err != nil {
			return nil, err
		}
	}
	current := &networkingv1beta1.Connection{}
	err := g.client.Get(ctx, client.ObjectKeyFromObject(want), current)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Connection: %w", err)
	}
	return current, nil
}
