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
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// tunnel is the two gateways to make. The server is in the remote cluster.
type tunnel struct {
	local, remote *side
	server        *gateway
	client        *gateway
}

// make makes both gateways, and tells each the key of the other. The client starts while the server still does; the lines are in the
// order in which one needs the other.
func (t *tunnel) make(ctx context.Context, c *cli, o *connectOptions) error {
	if err := t.remote.applyGateway(ctx, c, t.server, "Gateway server correctly set up"); err != nil {
		return err
	}
	if err := t.makeClient(ctx, c, o); err != nil {
		return err
	}
	if !o.keysNotToShare {
		if err := t.shareKeys(ctx, c); err != nil {
			return err
		}
	}
	if err := t.remote.awaitPod(ctx, t.server); err != nil {
		return err
	}
	t.remote.Success("Gateway server Service created successfully")
	t.local.Success("Gateway client correctly set up")
	if err := t.local.awaitPod(ctx, t.client); err != nil || o.keysNotToShare {
		return err
	}
	t.remote.Success("Gateway server Secret created successfully")
	t.local.Success("Public key correctly created")
	t.local.Success("Gateway client Secret created successfully")
	t.remote.Success("Public key correctly created")
	return nil
}

// makeClient makes the client as soon as it is known where the server is.
func (t *tunnel) makeClient(ctx context.Context, c *cli, o *connectOptions) error {
	err := t.remote.during("Waiting for gateway server Service to be created", "", func() error {
		return await.Until(ctx, t.remote.kube, func(ctx context.Context) error {
			if err := t.server.read(ctx, t.remote.kube); err != nil {
				return err
			}
			if err := exposed(t.server.server); err != nil {
				return err
			}
			return settled(ctx, t.remote.kube, t.server.server)
		}, t.server.self(), await.Watched{List: &networkingv1beta1.WgGatewayServerList{}, Opts: []client.ListOption{client.InNamespace(t.server.GetNamespace())}})
	})
	if err != nil {
		return err
	}
	endpoint := t.server.server.Status.Endpoint.DeepCopy()
	if o.address != "" {
		endpoint.Addresses = []string{o.address}
	}
	if o.port != 0 {
		endpoint.Port, endpoint.Ports = o.port, nil
	}
	t.client.dialer.Spec.Endpoint = *endpoint
	return t.local.applyGateway(ctx, c, t.client, "")
}

func (s *side) applyGateway(ctx context.Context, c *cli, gw *gateway, done string) error {
	return s.during("Setting up the gateway", done, func() error {
		c.stamp(gw.Object)
		if err := apply(ctx, s.kube, gw.Object); err != nil {
			return err
		}
		return gw.read(ctx, s.kube)
	})
}

func (s *side) awaitPod(ctx context.Context, gw *gateway) error {
	pod := names.Gateway(gw.GetName())
	return s.during("Waiting for gateway pod "+pod+" to be ready", "Gateway pod "+pod+" is ready", func() error { return gw.awaitPod(ctx, s.kube) })
}

// shareKeys tells each gateway the public key of the other.
func (t *tunnel) shareKeys(ctx context.Context, c *cli) error {
	for _, from := range []struct {
		side  *side
		gw    *gateway
		to    *side
		owner *gateway
	}{{t.remote, t.server, t.local, t.client}, {t.local, t.client, t.remote, t.server}} {
		var public [32]byte
		if err := from.side.during("Waiting for the keys of the gateway", "", func() (err error) {
			if err = from.gw.awaitKeys(ctx, from.side.kube); err == nil {
				public, err = from.gw.publicKey(ctx, from.side.kube)
			}
			return err
		}); err != nil {
			return err
		}
		if err := from.to.during("Creating public key", "", func() error {
			return from.to.learnKey(ctx, c, from.side.id, public, from.owner)
		}); err != nil {
			return err
		}
	}
	return nil
}

// learnKey has the gateway of this cluster know the key of the other. It goes with the gateway.
func (s *side) learnKey(ctx context.Context, c *cli, other string, public [32]byte, owner *gateway) error {
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
	c.stamp(want)
	return apply(ctx, s.kube, want, kube.OwnedBy(owner.Object, s.kube.Scheme()))
}

// keysFrom are the PublicKeys of the other cluster, oldest first: of several the gateway takes the newest.
func (s *side) keysFrom(ctx context.Context, other, in string) ([]networkingv1beta1.PublicKey, error) {
	var have networkingv1beta1.PublicKeyList
	if err := s.kube.List(ctx, &have, client.InNamespace(in), client.MatchingLabels{names.RemoteClusterID: other}); err != nil {
		return nil, fmt.Errorf("reading PublicKeys: %w", err)
	}
	slices.SortFunc(have.Items, func(a, b networkingv1beta1.PublicKey) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return have.Items, nil
}

// await waits until both gateways say that the tunnel is up.
func (t *tunnel) await(ctx context.Context) error {
	type end struct {
		*side
		gw *gateway
	}
	for _, e := range []end{{t.remote, t.server}, {t.local, t.client}} {
		if err := e.during("Waiting for Connection to be created", "Connection created successfully", func() error {
			return e.gw.awaitConnection(ctx, e.kube, false)
		}); err != nil {
			return err
		}
	}
	for _, e := range []end{{t.local, t.client}, {t.remote, t.server}} {
		if err := e.during("Waiting for Connection status to be established", "Connection is established", func() error {
			return e.gw.awaitConnection(ctx, e.kube, true)
		}); err != nil {
			return err
		}
	}
	return nil
}
