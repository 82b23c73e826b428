// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/await"
	"liqo.io/liqo/internal/ctl/dryrun"
	"liqo.io/liqo/internal/ctl/step"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// gatewayPair holds the two gateways to create. The server is in the remote cluster.
type gatewayPair struct {
	local, remote *Cluster
	server        *gateway
	client        *gateway
	// opposite reports that both gateways exist, with the server in the local cluster.
	opposite bool
}

// createTunnel creates both gateways, gives each the public key of the other and, if wanted, waits until both report the tunnel as up.
// Each step starts as early as possible, independent of the order of the lines: the client starts while the server still does.
func (t *gatewayPair) createTunnel(ctx context.Context, c *cli, o *connectOptions) error {
	p := step.New(c.Printer)
	var endpoint networkingv1beta1.EndpointStatus
	serves := t.remote.addStep(p, "Setting up gateway server", "Gateway server correctly set up", func(ctx context.Context) error {
		return t.remote.applyGateway(ctx, c, t.server)
	})
	t.remote.awaitPod(p, t.server, serves)
	exposes := t.remote.addStep(p, "Waiting for gateway server Service to be created", "Gateway server Service created successfully", func(ctx context.Context) (err error) {
		endpoint, err = t.awaitEndpoint(ctx, o)
		return err
	}, serves)
	dials := t.local.addStep(p, "Setting up gateway client", "Gateway client correctly set up", func(ctx context.Context) error {
		t.client.dialer.Spec.Endpoint = endpoint
		return t.local.applyGateway(ctx, c, t.client)
	}, exposes)
	t.local.awaitPod(p, t.client, dials)
	if !o.keysNotToShare {
		t.shareKeys(p, c, serves, dials)
		if o.wait {
			t.waitForTunnel(p, p.All()...)
		}
	}
	return p.Run(ctx)
}

// awaitEndpoint waits until the endpoint of the server is known.
func (t *gatewayPair) awaitEndpoint(ctx context.Context, o *connectOptions) (networkingv1beta1.EndpointStatus, error) {
	gw := t.server.deepCopy()
	err := gw.awaitState(ctx, t.remote.kube, func(ctx context.Context) error {
		if err := gw.checkExposed(); err != nil {
			return err
		}
		return gw.checkConnected(ctx, t.remote.kube)
	}, gw.watchSecrets())
	endpoint := networkingv1beta1.EndpointStatus{Protocol: new(corev1.ProtocolUDP)}
	switch {
	case await.IsSkipped(err):
		if o.address == "" || o.port == 0 {
			return networkingv1beta1.EndpointStatus{Addresses: []string{dryrun.Assigned}, Protocol: endpoint.Protocol}, nil
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

func (s *Cluster) applyGateway(ctx context.Context, c *cli, gw *gateway) error {
	c.setCommonMetadata(gw.Object)
	if err := applyObject(ctx, s.kube, gw.Object); err != nil {
		return err
	}
	return gw.readGateway(ctx, s.kube)
}

func (s *Cluster) awaitPod(p *step.Plan, gw *gateway, made *step.Step) {
	s.awaitPodAnd(p, gw, "Gateway pod "+names.Gateway(gw.GetName())+" is ready", made)
}

// awaitPodAnd prints done once a pod is ready, unless done is "".
func (s *Cluster) awaitPodAnd(p *step.Plan, gw *gateway, done string, made ...*step.Step) {
	s.addStep(p, "Waiting for gateway pod "+names.Gateway(gw.GetName())+" to be ready", done, func(ctx context.Context) error {
		gw := gw.deepCopy()
		if len(made) > 0 { // created by this command
			if err := gw.awaitChange(ctx, s.kube); err != nil {
				return err
			}
		}
		return gw.awaitPod(ctx, s.kube)
	}, made...)
}

// shareKeys gives each gateway the public key of the other.
func (t *gatewayPair) shareKeys(p *step.Plan, c *cli, serves, dials *step.Step) {
	for _, from := range []struct {
		side  *Cluster
		gw    *gateway
		kind  string
		made  *step.Step
		to    *Cluster
		owner *gateway
	}{{t.remote, t.server, server, serves, t.local, t.client}, {t.local, t.client, dialer, dials, t.remote, t.server}} {
		var public [32]byte
		known := from.side.addStep(p, "Waiting for gateway "+from.kind+" Secret to be created", "Gateway "+from.kind+" Secret created successfully", func(ctx context.Context) (err error) {
			gw := from.gw.deepCopy()
			if err = gw.awaitKeys(ctx, from.side.kube); err == nil {
				public, err = gw.publicKey(ctx, from.side.kube)
			} else if await.IsSkipped(err) {
				copy(public[:], dryrun.Assigned)
			}
			return err
		}, from.made)
		from.to.addStep(p, "Creating public key", "Public key correctly created", func(ctx context.Context) error {
			return from.to.learnKey(ctx, c, from.side.id, public, from.owner)
		}, known, serves, dials)
	}
}

// learnKey creates the PublicKey of the other gateway in this cluster, owned by the local gateway.
func (s *Cluster) learnKey(ctx context.Context, c *cli, other string, public [32]byte, owner *gateway) error {
	in := owner.GetNamespace() // the namespace in which the gateway looks for keys
	want := newPublicKey(client.ObjectKey{Namespace: in, Name: other}, other, public)
	have, err := s.keysFrom(ctx, other, in)
	if err != nil {
		return err
	}
	for i := range have {
		key := &have[i]
		if of := metav1.GetControllerOf(key); of == nil || of.UID == owner.GetUID() {
			want.Name = key.Name
			continue
		}
		// The PublicKey of a deleted gateway would be garbage-collected at any moment.
		if err := client.IgnoreNotFound(s.kube.Delete(ctx, key, client.Preconditions{UID: &key.UID})); err != nil {
			return fmt.Errorf("deleting the PublicKey of an earlier gateway: %w", err)
		}
	}
	c.setCommonMetadata(want)
	return applyObject(ctx, s.kube, want, kube.OwnedBy(owner.Object, s.kube.Scheme()))
}

// keysFrom returns the PublicKeys of the other cluster, oldest first: the gateway uses the newest.
func (s *Cluster) keysFrom(ctx context.Context, other, in string) ([]networkingv1beta1.PublicKey, error) {
	var have networkingv1beta1.PublicKeyList
	if err := s.kube.List(ctx, &have, client.InNamespace(in), client.MatchingLabels{names.RemoteClusterID: other}); err != nil {
		return nil, fmt.Errorf("reading PublicKeys: %w", err)
	}
	slices.SortFunc(have.Items, func(a, b networkingv1beta1.PublicKey) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return have.Items, nil
}

// tunnelEndpoint is one of the two gateways of a tunnel, with its cluster.
type tunnelEndpoint struct {
	*Cluster
	gw *gateway
}

// bothEndpoints returns both endpoints by cluster.
func (t *gatewayPair) bothEndpoints() (local, remote tunnelEndpoint) {
	if t.opposite {
		return tunnelEndpoint{t.local, t.server}, tunnelEndpoint{t.remote, t.client}
	}
	return tunnelEndpoint{t.local, t.client}, tunnelEndpoint{t.remote, t.server}
}

// waitForTunnel waits until both gateways report the tunnel as up. For existing gateways only problems are printed.
func (t *gatewayPair) waitForTunnel(p *step.Plan, made ...*step.Step) {
	local, remote := t.bothEndpoints()
	if t.opposite {
		local.awaitPodAnd(p, local.gw, "")
		remote.awaitPodAnd(p, remote.gw, "")
	}
	for _, e := range []tunnelEndpoint{remote, local} {
		e.addStep(p, "Waiting for Connection to be created", "Connection created successfully", func(ctx context.Context) error {
			return e.gw.deepCopy().awaitConnection(ctx, e.kube, false)
		}, made...)
	}
	for _, e := range []tunnelEndpoint{local, remote} {
		e.addStep(p, "Waiting for Connection status to be established", "Connection is established", func(ctx context.Context) error {
			return e.gw.deepCopy().awaitConnection(ctx, e.kube, true)
		}, made...)
	}
}
