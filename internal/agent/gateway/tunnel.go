// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/datapath/wg"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
)

// keepalive keeps what is on the way between both ends, such as NAT, in mind of them.
const keepalive = 10 * time.Second

// silence is how long a client without a handshake waits until it takes another way: the address may have moved, or something on the
// way may hold the old source port for what is gone.
const silence = 15 * time.Second

// Device is what a gateway does with WireGuard.
type Device interface {
	Apply(wg.Config) error
	Observe() (wg.Status, error)
	Restart(wg.PublicKey) error
	Rebind() error
	Close() error
}

// config is what the device must be. Without a key of the peer it has no peer, and lets nothing through.
func (o Options) config(peers []networkingv1beta1.PublicKey, of *plan.Peer, endpoint netip.AddrPort) (wg.Config, []plan.Problem, error) {
	remote, problems := publicKey(peers)
	key, err := o.privateKey()
	if err != nil {
		return wg.Config{}, problems, err
	}
	out := wg.Config{MTU: o.MTU, PrivateKey: key, ListenPort: o.ListenPort}
	if remote == nil || of == nil {
		return out, problems, nil
	}
	peer := wg.Peer{PublicKey: *remote, Endpoint: endpoint, Keepalive: keepalive, AllowedIPs: []netip.Prefix{plan.TunnelNetwork()}}
	for _, pair := range slices.Concat(of.Pods, of.External) {
		peer.AllowedIPs = append(peer.AllowedIPs, pair.There)
	}
	out.Peers = []wg.Peer{peer}
	return out, problems, nil
}

func (o Options) privateKey() (wg.PrivateKey, error) {
	data, err := os.ReadFile(filepath.Join(o.KeysDir, names.PrivateKeyKey))
	if err != nil {
		return wg.PrivateKey{}, fmt.Errorf("reading the private key: %w", err)
	}
	key, err := wg.ParsePrivateKey(data)
	if err != nil {
		return wg.PrivateKey{}, fmt.Errorf("reading the private key: %w", err)
	}
	return key, nil
}

// publicKey is that of the peer: of several the newest, since whoever changes a key adds the new one before taking the old one away.
// What is no key takes the place of none.
func publicKey(all []networkingv1beta1.PublicKey) (newest *wg.PublicKey, problems []plan.Problem) {
	all = slices.DeleteFunc(slices.Clone(all), func(k networkingv1beta1.PublicKey) bool { return !k.DeletionTimestamp.IsZero() })
	slices.SortFunc(all, func(a, b networkingv1beta1.PublicKey) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	for i := range all {
		key, err := wg.ParsePublicKey(all[i].Spec.PublicKey)
		switch {
		case err != nil:
			problems = append(problems, plan.Problem{Of: keyObject(&all[i]), Message: fmt.Sprintf("spec.publicKey: %v", err)})
		case newest == nil:
			newest = &key
		}
	}
	return newest, problems
}

func keyObject(k *networkingv1beta1.PublicKey) plan.Object {
	return plan.Object{Kind: "PublicKey", Namespace: k.Namespace, Name: k.Name}
}

// resolver finds the addresses of a name.
type resolver func(ctx context.Context, network, host string) ([]netip.Addr, error)

// endpoints are the ways to a server: what is said of it, names resolved, each address once.
type endpoints struct {
	resolve resolver
	found   []netip.AddrPort
	said    []string // what was resolved
	current int
}

func newEndpoints() *endpoints { return &endpoints{resolve: net.DefaultResolver.LookupNetIP} }

// get is the endpoint to use; the zero value while none is known.
func (e *endpoints) get(ctx context.Context, said []string) (netip.AddrPort, error) {
	var err error
	if !slices.Equal(said, e.said) || len(e.found) == 0 {
		err = e.look(ctx, said)
	}
	if len(e.found) == 0 {
		return netip.AddrPort{}, err
	}
	return e.found[e.current%len(e.found)], nil
}

// next takes another way, and looks names up anew.
func (e *endpoints) next(ctx context.Context) error {
	tried := netip.AddrPort{}
	if len(e.found) > 0 {
		tried = e.found[e.current%len(e.found)]
	}
	err := e.look(ctx, e.said)
	e.current = slices.Index(e.found, tried) + 1
	return err
}

// look resolves host:port one by one. What cannot be resolved now keeps nothing else from being tried.
func (e *endpoints) look(ctx context.Context, said []string) error {
	var found []netip.AddrPort
	var errs []error
	for _, one := range said {
		addrs, err := e.addresses(ctx, one)
		errs = append(errs, err)
		for _, a := range addrs {
			if !slices.Contains(found, a) {
				found = append(found, a)
			}
		}
	}
	err := errors.Join(errs...)
	if len(found) > 0 || err == nil { // what was known is better than nothing
		if !slices.Equal(found, e.found) {
			e.current = 0
		}
		e.found = found
	}
	e.said = slices.Clone(said)
	return err
}

func (e *endpoints) addresses(ctx context.Context, said string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(said)
	if err != nil {
		return nil, fmt.Errorf("reading the endpoint %q: %w", said, err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("reading the endpoint %q: %q is no port", said, service)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(a.Unmap(), uint16(port))}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolving)
	defer cancel()
	addrs, err := e.resolve(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("resolving %s: %w", host, err)
	}
	var out []netip.AddrPort
	for _, a := range addrs {
		out = append(out, netip.AddrPortFrom(a.Unmap(), uint16(port)))
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return out, nil
}

// resolving is how long a name server may take.
const resolving = 3 * time.Second
