// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/datapath/wg"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/pki"
)

// keepalive is the interval that keeps NAT mappings between both gateways open.
const keepalive = 10 * time.Second

// silence is the default time without a handshake after which a client tries the next endpoint or source port: the address may have moved,
// or a NAT may map the old source port to a dead target.
const silence = 15 * time.Second

// Device is the WireGuard device of a gateway.
type Device interface {
	Keep(...wg.PublicKey) error
	Apply(wg.Config) error
	Observe() (wg.Status, error)
	Implementation() wg.Implementation
	Restart(wg.PublicKey) error
	Rebind() error
	OnUnreachable(func())
	Close() error
}

// wireguardConfig returns the desired device, without peers.
func (o Options) wireguardConfig() (wg.Config, error) {
	key, err := o.privateKey()
	return wg.Config{MTU: plan.UsableMTU(o.MTU), PrivateKey: key, ListenPort: o.ListenPort, Mark: names.TunnelMark}, err
}

// wantedPeers returns the peer with its networks as allowed IPs, if the key of the peer is known. A device without a peer passes nothing.
func (o Options) wantedPeers(keys []networkingv1beta1.PublicKey, of *plan.Peer, endpoint netip.AddrPort) ([]wg.Peer, []plan.Problem) {
	remote, problems := publicKey(keys)
	if remote == nil || of == nil {
		return nil, problems
	}
	peer := wg.Peer{PublicKey: *remote, Endpoint: endpoint, Keepalive: o.persistentKeepalive(), AllowedIPs: []netip.Prefix{plan.TunnelNetwork()}}
	for _, pair := range slices.Concat(of.Pods, of.External) {
		peer.AllowedIPs = append(peer.AllowedIPs, pair.Remote)
	}
	return []wg.Peer{peer}, problems
}

// persistentKeepalive returns the interval of keepalives, or 0 where probes keep the mappings open and another replica may be active: the kernel
// would send keepalives for a dead process, and the peer would take this replica for the active replica.
func (o Options) persistentKeepalive() time.Duration {
	if o.LeaderElection && !o.Unwatched {
		return 0
	}
	return keepalive
}

func (o Options) privateKey() (wg.PrivateKey, error) {
	data, err := os.ReadFile(filepath.Join(o.KeysDir, names.PrivateKeyKey))
	if err != nil {
		return wg.PrivateKey{}, fmt.Errorf("reading the private key: %w", err)
	}
	key, err := pki.ParseTunnelKey(data)
	if err != nil {
		return wg.PrivateKey{}, fmt.Errorf("reading the private key: %w", err)
	}
	return key, nil
}

// publicKey returns the newest key of the peer, because a rotation adds the new key before it removes the old key. An invalid key is skipped.
func publicKey(all []networkingv1beta1.PublicKey) (newest *wg.PublicKey, problems []plan.Problem) {
	all = slices.DeleteFunc(slices.Clone(all), func(k networkingv1beta1.PublicKey) bool { return !k.DeletionTimestamp.IsZero() })
	slices.SortFunc(all, func(a, b networkingv1beta1.PublicKey) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	for i := range all {
		key, err := pki.ParseTunnelPublicKey(all[i].Spec.PublicKey)
		switch {
		case err != nil:
			problems = append(problems, plan.Problem{Of: keyObject(&all[i]), Message: fmt.Sprintf("spec.publicKey: %v", err)})
		case newest == nil:
			newest = (*wg.PublicKey)(&key)
		}
	}
	return newest, problems
}

func keyObject(k *networkingv1beta1.PublicKey) plan.Object {
	return plan.Object{Kind: "PublicKey", Namespace: k.Namespace, Name: k.Name}
}
