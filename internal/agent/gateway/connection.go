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

// reconcileConnection looks how the tunnel fares, helps where it does not, and says so, whatever became of the help. It returns when to look again.
// Without a peer nobody is waited for, and no answer counts.
func (g *gateway) reconcileConnection(ctx context.Context, nodes []nodeReport) (time.Duration, error) {
	now, beat, again := time.Now(), agent.PathHealth{}, g.options.PingInterval
	var failed error
	if len(g.peers) > 0 && !g.options.Unwatched {
		beat = g.prober.pathHealth()
		again = beat.Next(now)
	}
	if len(g.peers) > 0 {
		failed = g.keepPath(ctx, g.peers[0].PublicKey, beat, now)
	}
	return again, errors.Join(failed, g.writeConnection(ctx, beat, nodes, now))
}

// writeConnection says how the tunnel fares, and the way of pods to it.
func (g *gateway) writeConnection(ctx context.Context, beat agent.PathHealth, nodes []nodeReport, now time.Time) error {
	conn, err := g.readConnection(ctx)
	if err != nil || conn == nil {
		return err
	}
	was := g.shown.lastStatus(conn.Status)
	tunnel := nextStatus(tunnelOf(was), beat, now, g.options.StatusInterval)
	patience := time.Duration(g.options.PingLossThreshold) * g.options.PingInterval
	status := withNodes(tunnel, g.comeback.delayReports(tunnel.Value == networkingv1beta1.Connected, nodes, now, patience))
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
		small, full := beat.Losses(now)
		log.FromContext(ctx).Info("the tunnel changed", "was", was.Value, "is", status.Value, "lostSmall", small, "lostFull", full,
			"reach", status.Reach, "failedNodes", status.FailedNodes)
	}
	return nil
}

// anything differs in each field from every status that is wanted.
var anything = networkingv1beta1.ConnectionStatus{
	Value: "-", Latency: networkingv1beta1.ConnectionLatency{Value: "-", Timestamp: metav1.Unix(1, 0)}, Lost: "-", Reach: "-", FailedNodes: []string{"-"}, MTU: -1,
}

// writeStatus writes a status whole. What is known of the Connection may be older than what was written last: a patch of what differs from that would
// leave the rest of what is there.
func (g *gateway) writeStatus(ctx context.Context, conn *networkingv1beta1.Connection, status networkingv1beta1.ConnectionStatus) (*networkingv1beta1.Connection, error) {
	before, changed := conn.DeepCopy(), conn.DeepCopy()
	before.Status, changed.Status = anything, status
	if err := g.client.Status().Patch(ctx, changed, client.MergeFrom(before)); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("writing the status of the Connection: %w", err)
	}
	return changed, nil
}

// keepPath has a gateway keep where its peer is, and a client do what WireGuard itself does late or not at all. It waits for nobody.
func (g *gateway) keepPath(ctx context.Context, key wg.PublicKey, beat agent.PathHealth, now time.Time) error {
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
	up := beat.Up(now)
	if g.options.Unwatched {
		up = now.Sub(handshake) <= alive && (g.options.Server || handshake.After(g.moved))
	}
	switch {
	case !g.options.Server:
		if up {
			g.endpoints.markWorking()
		}
		return g.rehandshake(ctx, peer, handshake, beat, now)
	case up:
		return g.learned.storeEndpoint(peer.Endpoint)
	}
	return nil
}

// restartAfter is how many lost probes make a client begin a session anew: WireGuard itself would take 15 seconds to try.
const restartAfter = 2

// alive is how long WireGuard uses a session at most; one that packets pass both ways is renewed after 120 s.
const alive = 180 * time.Second

// rehandshake gets a tunnel going again from which nothing comes. One that loses probes and carries other packets has none of it, while it has
// a session and its server is not deaf: a server that hears nothing of its client sends, too. One that nobody watches goes by that alone:
// a peer sends something in a while, if only that it is there.
func (g *gateway) rehandshake(ctx context.Context, peer wg.PeerStatus, handshake time.Time, beat agent.PathHealth, now time.Time) error {
	if peer.Received > g.received {
		g.heard = g.looked
	}
	g.received, g.looked = peer.Received, now
	watched := !g.options.Unwatched
	last := latestOf(beat.Small.At, beat.Began)
	switch session := now.Sub(handshake) <= alive; {
	case session && !watched:
		last = g.heard.Add(keepalive)
	case session && !isOneWay(beat, now):
		last = latestOf(last, g.heard)
	}
	quiet := now.Sub(last)
	if !peer.Endpoint.IsValid() || watched && (beat.Began.IsZero() || quiet < restartAfter*beat.Interval) {
		return nil
	}
	switch {
	case min(quiet, now.Sub(latestOf(handshake, g.moved))) >= cmp.Or(g.silence, silence):
		g.moved = now
		log.FromContext(ctx).Info("no handshake, taking another way", "endpoint", g.endpoints.nextEndpoint(ctx))
		return g.device.Rebind()
	case watched && now.Sub(latestOf(g.restarted, handshake)) >= tryFor(beat):
		g.restarted = now
		return g.device.Restart(peer.PublicKey)
	}
	return nil
}

// tryFor is how long a handshake is given before the next one: where answers used to come soon, no longer than it takes to ask again. A
// server that comes back hears of its client when the next one begins.
func tryFor(beat agent.PathHealth) time.Duration {
	turns := time.Duration(restartAfter)
	if l := beat.Small.Latency; l > 0 && l <= beat.Interval/2 {
		turns = 1
	}
	return turns*beat.Interval - beat.Interval/4 // who looks each interval comes a little sooner at times
}

// handshakeClock has the time of the last handshake by the monotonic clock. The device tells it by the clock of the machine, which may be set
// at any moment; what it told once does not grow older or younger by that.
type handshakeClock struct {
	told   time.Time // by the device, last
	at     time.Time // when that was; the zero value: never, or nobody knows
	looked time.Time // by the monotonic clock, last
}

// lastHandshake is when the handshake was that is told as of then. now has the monotonic clock, and wall is what the other one shows.
func (g *handshakeClock) lastHandshake(told, now, wall time.Time) time.Time {
	before := g.looked
	g.looked = now
	if told.Equal(g.told) && !before.IsZero() {
		return g.at
	}
	g.told, g.at = told, time.Time{}
	age := wall.Sub(told)
	switch {
	case told.IsZero():
	case !before.IsZero(): // it was since then
		g.at = now.Add(-min(max(age, 0), now.Sub(before)))
	case age >= 0:
		g.at = now.Add(-age)
	}
	return g.at
}

// isOneWay tells whether the peer still asks, but does not answer: what is sent there gets lost. Where probes are dropped both ways, its last
// question came before our next answer would have.
func isOneWay(beat agent.PathHealth, now time.Time) bool {
	return beat.Asked.Sub(latestOf(beat.Small.At, beat.Began)) >= beat.Interval && now.Sub(beat.Asked) < restartAfter*beat.Interval
}

func latestOf(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// nextStatus is the status of the tunnel. Connected means that packets of all sizes pass.
func nextStatus(was networkingv1beta1.ConnectionStatus, beat agent.PathHealth, now time.Time, interval time.Duration) networkingv1beta1.ConnectionStatus {
	out := was
	out.Value = beat.Value(was.Value, now)
	out.Lost = isLost(was.Lost, out.Value, beat, now)
	told := was.Latency.Timestamp.Time
	// What was told with the first answer may be how long it waited for the handshake.
	first := !told.After(beat.Small.Since) && beat.Small.At.After(beat.Small.Since)
	if out.Value == networkingv1beta1.Connected && (out.Value != was.Value || first || now.Sub(told).Abs() >= interval) {
		out.Latency = networkingv1beta1.ConnectionLatency{Value: agent.LatencyText(beat.Small.Latency), Timestamp: metav1.NewTime(now)}
	}
	return out
}

// isLost is what gets lost in a tunnel. Of one that is still down after a restart nothing else is known than before. A small probe may be
// lost by chance where large ones always are.
func isLost(was networkingv1beta1.ConnectionLoss, value networkingv1beta1.ConnectionStatusValue, beat agent.PathHealth, now time.Time) networkingv1beta1.ConnectionLoss {
	small, _ := beat.Losses(now)
	switch {
	case value != networkingv1beta1.ConnectionError:
		return ""
	case !beat.Failed(now):
		return was
	case small >= min(2, beat.Threshold):
		return networkingv1beta1.LostAll
	}
	return networkingv1beta1.LostLarge
}

// readConnection is the object that shows the tunnel; nil until the cache shows it. It is made for the first peer.
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
	have := &networkingv1beta1.Connection{}
	err := g.client.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Connection: %w", err)
	}
	return have, nil
}
