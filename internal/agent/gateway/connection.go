// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
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
	"liqo.io/liqo/internal/datapath/wg"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// tend looks how the tunnel fares, helps where it does not, and says so. It returns when to look again. Without a peer nobody is
// waited for, and no answer counts.
func (g *gateway) tend(ctx context.Context) (time.Duration, error) {
	now, beat := time.Now(), pulse{}
	if len(g.peers) > 0 && !g.options.Unwatched {
		beat = g.prober.now()
		if err := g.learn(g.peers[0].PublicKey, beat, now); err != nil {
			return 0, err
		}
		if err := g.help(ctx, g.peers[0].PublicKey, beat, now); err != nil {
			return 0, err
		}
	}
	conn, err := g.connection(ctx)
	if err != nil || conn == nil {
		return g.options.PingInterval, err
	}
	status := wanted(conn.Status, beat, now, g.options.StatusInterval)
	if g.options.Unwatched && len(g.peers) > 0 {
		status = networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected}
	}
	if apiequality.Semantic.DeepEqual(status, conn.Status) {
		return g.options.PingInterval, nil
	}
	changed := conn.DeepCopy()
	changed.Status = status
	if err := g.client.Status().Patch(ctx, changed, client.MergeFrom(conn)); err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("writing the status of the Connection: %w", err)
	}
	if status.Value != conn.Status.Value {
		log.FromContext(ctx).Info("the tunnel changed", "was", conn.Status.Value, "is", status.Value)
	}
	return g.options.PingInterval, nil
}

// learn keeps where the client of a server is.
func (g *gateway) learn(peer wg.PublicKey, beat pulse, now time.Time) error {
	if !g.options.Server || !beat.up(now) {
		return nil
	}
	status, err := g.device.Observe()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(status.Peers, func(p wg.PeerStatus) bool { return p.PublicKey == peer })
	if i < 0 {
		return nil
	}
	return g.learned.keep(status.Peers[i].Endpoint)
}

// restartAfter is how many lost probes make a client begin a session anew: WireGuard itself would take 15 seconds to try.
const restartAfter = 2

// help has a client do what WireGuard itself does late or not at all. A server waits for it.
func (g *gateway) help(ctx context.Context, peer wg.PublicKey, beat pulse, now time.Time) error {
	if g.options.Server || beat.lost(beat.small, now) < restartAfter {
		return nil
	}
	status, err := g.device.Observe()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(status.Peers, func(p wg.PeerStatus) bool { return p.PublicKey == peer })
	if i < 0 || !status.Peers[i].Endpoint.IsValid() {
		return nil // there is nowhere to look for it
	}
	handshake := status.Peers[i].LastHandshake
	if handshake.After(now) {
		handshake = time.Time{} // the clock was set back
	}
	switch {
	case now.Sub(latest(handshake, beat.small.at, g.moved, beat.began)) >= silence:
		g.moved = now
		if err := g.endpoints.next(ctx); err != nil {
			log.FromContext(ctx).Info("the endpoint of the server cannot be resolved", "reason", err.Error())
		}
		log.FromContext(ctx).Info("no handshake, taking another way", "endpoints", g.endpoints.found)
		return g.device.Rebind()
	case now.Sub(latest(g.restarted, handshake)) >= restartAfter*beat.interval:
		g.restarted = now
		return g.device.Restart(peer)
	}
	return nil
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// wanted is the status of a Connection. Connected means that packets of all sizes pass.
func wanted(was networkingv1beta1.ConnectionStatus, beat pulse, now time.Time, interval time.Duration) networkingv1beta1.ConnectionStatus {
	out := was
	switch {
	case beat.up(now):
		out.Value = networkingv1beta1.Connected
	case beat.failed(now):
		out.Value = networkingv1beta1.ConnectionError
	case was.Value != networkingv1beta1.ConnectionError: // which it is until an answer comes
		out.Value = networkingv1beta1.Connecting
	}
	if out.Value == networkingv1beta1.Connected && (out.Value != was.Value || now.Sub(was.Latency.Timestamp.Time).Abs() >= interval) {
		out.Latency = networkingv1beta1.ConnectionLatency{Value: latencyText(beat.small.latency), Timestamp: metav1.NewTime(now)}
	}
	return out
}

// latencyText is a round trip as other versions write it.
func latencyText(d time.Duration) string {
	if d < time.Millisecond {
		return fmt.Sprintf("%dμs", d.Microseconds())
	}
	return fmt.Sprintf("%dms", d.Milliseconds())
}

// connection is the object that shows the tunnel; nil until the cache shows it. It is made for the first peer.
func (g *gateway) connection(ctx context.Context) (*networkingv1beta1.Connection, error) {
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
