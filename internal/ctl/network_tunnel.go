// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/await"
	"liqo.io/liqo/internal/ctl/step"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// tunnel is the two gateways to make. The server is in the remote cluster.
type tunnel struct {
	local, remote *clusterSide
	server        *gateway
	client        *gateway
	// opposite says that both are there, and that the server is in the local cluster.
	opposite bool
}

// createTunnel makes both gateways, tells each the key of the other and, if that is asked for, waits until both say that the tunnel is up.
// Each step begins as soon as it can, whatever the order of the lines: the client starts while the server still does.
func (t *tunnel) createTunnel(ctx context.Context, c *cli, o *connectOptions) error {
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

// awaitEndpoint waits until it is known where the server is.
func (t *tunnel) awaitEndpoint(ctx context.Context, o *connectOptions) (networkingv1beta1.EndpointStatus, error) {
	gw := t.server.deepCopy()
	err := await.Until(ctx, t.remote.kube, func(ctx context.Context) error {
		if err := gw.readGateway(ctx, t.remote.kube); err != nil {
			return err
		}
		if err := gw.checkExposed(); err != nil {
			return err
		}
		return gw.checkConnected(ctx, t.remote.kube)
	}, gw.watchGateway(), gw.watchSecrets())
	if err != nil {
		return networkingv1beta1.EndpointStatus{}, err
	}
	endpoint := *gw.server.Status.Endpoint.DeepCopy()
	if o.address != "" {
		endpoint.Addresses = []string{o.address}
	}
	if o.port != 0 {
		endpoint.Port, endpoint.Ports = o.port, nil
	}
	return endpoint, nil
}

func (s *clusterSide) applyGateway(ctx context.Context, c *cli, gw *gateway) error {
	c.setCommonMetadata(gw.Object)
	if err := applyObject(ctx, s.kube, gw.Object); err != nil {
		return err
	}
	return gw.readGateway(ctx, s.kube)
}

func (s *clusterSide) awaitPod(p *step.Plan, gw *gateway, made *step.Step) {
	s.awaitPodAnd(p, gw, "Gateway pod "+names.Gateway(gw.GetName())+" is ready", made)
}

// awaitPodAnd says done once a pod is ready, unless that is "".
func (s *clusterSide) awaitPodAnd(p *step.Plan, gw *gateway, done string, made ...*step.Step) {
	s.addStep(p, "Waiting for gateway pod "+names.Gateway(gw.GetName())+" to be ready", done, func(ctx context.Context) error {
		gw := gw.deepCopy()
		if len(made) > 0 { // by this command
			if err := gw.awaitChange(ctx, s.kube); err != nil {
				return err
			}
		}
		return gw.awaitPod(ctx, s.kube)
	}, made...)
}

// shareKeys tells each gateway the public key of the other.
func (t *tunnel) shareKeys(p *step.Plan, c *cli, serves, dials *step.Step) {
	for _, from := range []struct {
		side  *clusterSide
		gw    *gateway
		kind  string
		made  *step.Step
		to    *clusterSide
		owner *gateway
	}{{t.remote, t.server, server, serves, t.local, t.client}, {t.local, t.client, dialer, dials, t.remote, t.server}} {
		var public [32]byte
		known := from.side.addStep(p, "Waiting for gateway "+from.kind+" Secret to be created", "Gateway "+from.kind+" Secret created successfully", func(ctx context.Context) (err error) {
			gw := from.gw.deepCopy()
			if err = gw.awaitKeys(ctx, from.side.kube); err == nil {
				public, err = gw.publicKey(ctx, from.side.kube)
			}
			return err
		}, from.made)
		from.to.addStep(p, "Creating public key", "Public key correctly created", func(ctx context.Context) error {
			return from.to.learnKey(ctx, c, from.side.id, public, from.owner)
		}, known, serves, dials)
	}
}

// learnKey has the gateway of this cluster know the key of the other. It goes with the gateway.
func (s *clusterSide) learnKey(ctx context.Context, c *cli, other string, public [32]byte, owner *gateway) error {
	in := owner.GetNamespace() // where it looks for keys
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
		// It was that of a gateway which is gone, and would go any moment.
		if err := client.IgnoreNotFound(s.kube.Delete(ctx, key, client.Preconditions{UID: &key.UID})); err != nil {
			return fmt.Errorf("deleting the PublicKey of an earlier gateway: %w", err)
		}
	}
	c.setCommonMetadata(want)
	return applyObject(ctx, s.kube, want, kube.OwnedBy(owner.Object, s.kube.Scheme()))
}

// keysFrom are the PublicKeys of the other cluster, oldest first: of several the gateway takes the newest.
func (s *clusterSide) keysFrom(ctx context.Context, other, in string) ([]networkingv1beta1.PublicKey, error) {
	var have networkingv1beta1.PublicKeyList
	if err := s.kube.List(ctx, &have, client.InNamespace(in), client.MatchingLabels{names.RemoteClusterID: other}); err != nil {
		return nil, fmt.Errorf("reading PublicKeys: %w", err)
	}
	slices.SortFunc(have.Items, func(a, b networkingv1beta1.PublicKey) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return have.Items, nil
}

// tunnelEndpoint is one of the two of a tunnel.
type tunnelEndpoint struct {
	*clusterSide
	gw *gateway
}

// bothEndpoints are both, by clusters.
func (t *tunnel) bothEndpoints() (local, remote tunnelEndpoint) {
	if t.opposite {
		return tunnelEndpoint{t.local, t.server}, tunnelEndpoint{t.remote, t.client}
	}
	return tunnelEndpoint{t.local, t.client}, tunnelEndpoint{t.remote, t.server}
}

// waitForTunnel waits until both gateways say that the tunnel is up. Of those that were there already only what goes wrong with them is told.
func (t *tunnel) waitForTunnel(p *step.Plan, made ...*step.Step) {
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
