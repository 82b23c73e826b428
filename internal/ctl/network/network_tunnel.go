// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"

	"liqo.io/liqo/internal/ctl/cluster"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// GatewayPair holds the two gateways to create. The server is in the remote cluster.
type GatewayPair struct {
	Local, Remote *cluster.Cluster
	Server        *gateway
	Client        *gateway
	// Opposite reports that both gateways exist, with the server in the local cluster.
	Opposite bool
}

// CreateTunnel creates both gateways, exchanges the public keys and, if wanted, waits until both gateways report the tunnel as up. Each step starts
// as early as possible, independent of the order of the lines: the client starts while the server still does.
func (t *GatewayPair) CreateTunnel(ctx context.Context, c *cluster.Session, o *ConnectOptions) error {
	p := ui.NewPlan(c.Printer)
	var endpoint networkingv1beta1.EndpointStatus
	serves := t.Remote.AddStep(p, "Setting up gateway server", "Gateway server correctly set up", func(ctx context.Context) error {
		return applyGateway(ctx, t.Remote, c, t.Server)
	})
	awaitPod(t.Remote, p, t.Server, serves)
	exposes := t.Remote.AddStep(p, "Waiting for gateway server Service to be created", "Gateway server Service created successfully", func(ctx context.Context) (err error) {
		endpoint, err = t.awaitEndpoint(ctx, o)
		return err
	}, serves)
	dials := t.Local.AddStep(p, "Setting up gateway client", "Gateway client correctly set up", func(ctx context.Context) error {
		t.Client.dialer.Spec.Endpoint = endpoint
		return applyGateway(ctx, t.Local, c, t.Client)
	}, exposes)
	awaitPod(t.Local, p, t.Client, dials)
	if !o.keysNotToShare {
		t.shareKeys(p, c, serves, dials)
		if o.Wait {
			t.WaitForTunnel(p, p.All()...)
		}
	}
	return p.Run(ctx)
}

// awaitEndpoint waits until the endpoint of the server is known.
func (t *GatewayPair) awaitEndpoint(ctx context.Context, o *ConnectOptions) (networkingv1beta1.EndpointStatus, error) {
	gw := t.Server.deepCopy()
	err := gw.awaitState(ctx, t.Remote.Kube, func(ctx context.Context) error {
		if err := gw.checkExposed(); err != nil {
			return err
		}
		return gw.checkConnected(ctx, t.Remote.Kube)
	}, gw.watchSecrets())
	endpoint := networkingv1beta1.EndpointStatus{Protocol: new(corev1.ProtocolUDP)}
	switch {
	case kube.IsSkipped(err):
		if o.address == "" || o.port == 0 {
			return networkingv1beta1.EndpointStatus{Addresses: []string{cluster.Assigned}, Protocol: endpoint.Protocol}, nil
		}
	case err != nil:
		return endpoint, err
	default:
		endpoint = *gw.server.Status.Endpoint.DeepCopy()
	}
	if o.address != "" {
		endpoint.Addresses = []string{o.address}
	}
	if o.port != 0 {
		endpoint.Port, endpoint.Ports = o.port, nil
	}
	return endpoint, nil
}

func applyGateway(ctx context.Context, s *cluster.Cluster, c *cluster.Session, gw *gateway) error {
	c.SetCommonMetadata(gw.Object)
	if err := cluster.ApplyObject(ctx, s.Kube, gw.Object); err != nil {
		return err
	}
	return gw.readGateway(ctx, s.Kube)
}

func awaitPod(s *cluster.Cluster, p *ui.Plan, gw *gateway, made *ui.Step) {
	awaitPodAnd(s, p, gw, "Gateway pod "+names.Gateway(gw.GetName())+" is ready", made)
}

// awaitPodAnd prints done once a pod is ready, unless done is "".
func awaitPodAnd(s *cluster.Cluster, p *ui.Plan, gw *gateway, done string, made ...*ui.Step) {
	s.AddStep(p, "Waiting for gateway pod "+names.Gateway(gw.GetName())+" to be ready", done, func(ctx context.Context) error {
		gw := gw.deepCopy()
		if len(made) > 0 { // created by this command
			if err := gw.awaitChange(ctx, s.Kube); err != nil {
				return err
			}
		}
		return gw.awaitPod(ctx, s.Kube)
	}, made...)
}

// shareKeys exchanges the public keys of the gateways.
func (t *GatewayPair) shareKeys(p *ui.Plan, c *cluster.Session, serves, dials *ui.Step) {
	for _, from := range []struct {
		side  *cluster.Cluster
		gw    *gateway
		kind  string
		made  *ui.Step
		to    *cluster.Cluster
		owner *gateway
	}{{t.Remote, t.Server, server, serves, t.Local, t.Client}, {t.Local, t.Client, dialer, dials, t.Remote, t.Server}} {
		var public [32]byte
		known := from.side.AddStep(p, "Waiting for gateway "+from.kind+" Secret to be created", "Gateway "+from.kind+" Secret created successfully", func(ctx context.Context) (err error) {
			gw := from.gw.deepCopy()
			if err = gw.awaitKeys(ctx, from.side.Kube); err == nil {
				public, err = gw.publicKey(ctx, from.side.Kube)
			} else if kube.IsSkipped(err) {
				copy(public[:], cluster.Assigned)
			}
			return err
		}, from.made)
		from.to.AddStep(p, "Creating public key", "Public key correctly created", func(ctx context.Context) error {
			return learnKey(ctx, from.to, c, from.side.ID, public, from.owner)
		}, known, serves, dials)
	}
}

// learnKey creates the PublicKey of the remote gateway in this cluster, owned by the local gateway.
func learnKey(ctx context.Context, s *cluster.Cluster, c *cluster.Session, other string, public [32]byte, owner *gateway) error {
	in := owner.GetNamespace() // the gateway looks for keys in this namespace
	want := newPublicKey(client.ObjectKey{Namespace: in, Name: other}, other, public)
	current, err := keysFrom(ctx, s, other, in)
	if err != nil {
		return err
	}
	for i := range current {
		key := &current[i]
		if of := metav1.GetControllerOf(key); of == nil || of.UID == owner.GetUID() {
			want.Name = key.Name
			continue
		}
		// The PublicKey of a deleted gateway would be garbage-collected at any moment.
		if err := client.IgnoreNotFound(s.Kube.Delete(ctx, key, client.Preconditions{UID: &key.UID})); err != nil {
			return fmt.Errorf("deleting the PublicKey of an earlier gateway: %w", err)
		}
	}
	c.SetCommonMetadata(want)
	return cluster.ApplyObject(ctx, s.Kube, want, kube.OwnedBy(owner.Object, s.Kube.Scheme()))
}

// keysFrom returns the PublicKeys of the remote cluster, oldest first: the gateway uses the newest.
func keysFrom(ctx context.Context, s *cluster.Cluster, other, in string) ([]networkingv1beta1.PublicKey, error) {
	var current networkingv1beta1.PublicKeyList
	if err := s.Kube.List(ctx, &current, client.InNamespace(in), client.MatchingLabels{names.RemoteClusterID: other}); err != nil {
		return nil, fmt.Errorf("reading PublicKeys: %w", err)
	}
	slices.SortFunc(current.Items, func(a, b networkingv1beta1.PublicKey) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return current.Items, nil
}

// tunnelEndpoint is one of the two gateways of a tunnel, with its cluster.
type tunnelEndpoint struct {
	*cluster.Cluster
	gw *gateway
}

// bothEndpoints returns both endpoints by cluster.
func (t *GatewayPair) bothEndpoints() (local, remote tunnelEndpoint) {
	if t.Opposite {
		return tunnelEndpoint{t.Local, t.Server}, tunnelEndpoint{t.Remote, t.Client}
	}
	return tunnelEndpoint{t.Local, t.Client}, tunnelEndpoint{t.Remote, t.Server}
}

// WaitForTunnel waits until both gateways report the tunnel as up. For existing gateways only problems are printed.
func (t *GatewayPair) WaitForTunnel(p *ui.Plan, made ...*ui.Step) {
	local, remote := t.bothEndpoints()
	if t.Opposite {
		awaitPodAnd(local.Cluster, p, local.gw, "")
		awaitPodAnd(remote.Cluster, p, remote.gw, "")
	}
	for _, e := range []tunnelEndpoint{remote, local} {
		e.AddStep(p, "Waiting for Connection to be created", "Connection created successfully", func(ctx context.Context) error {
			return e.gw.deepCopy().awaitConnection(ctx, e.Kube, false)
		}, made...)
	}
	for _, e := range []tunnelEndpoint{local, remote} {
		e.AddStep(p, "Waiting for Connection status to be established", "Connection is established", func(ctx context.Context) error {
			return e.gw.deepCopy().awaitConnection(ctx, e.Kube, true)
		}, made...)
	}
}
