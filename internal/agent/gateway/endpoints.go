// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/policy"
)

// What the peer says is tried up to here: it takes time to choose among many, and each name is looked up by itself.
const (
	maxTold  = 1000
	maxNames = 16
)

// endpointSpec are the endpoints of the server, those that its user says first. Where the user says nothing, a gateway was started with what the peer
// said when it was made, or with what is in its template: the peer knows better now.
func endpointSpec(started []string, gw *networkingv1beta1.GatewayClient) []string {
	switch {
	case gw == nil:
		return started
	case len(gw.Spec.Endpoint.Addresses) == 0 && gw.Status.Endpoint != nil && len(gw.Status.Endpoint.Addresses) > 0:
		out := dialledAddresses(nil, gw.Status.Endpoint)
		return append(out, slices.DeleteFunc(slices.Clone(started), func(one string) bool { return slices.Contains(out, one) })...)
	}
	return dialledAddresses(started, gw.Status.Endpoint)
}

// dialledAddresses are the endpoints that a gateway was started with, which its user says, and then those that the peer says.
func dialledAddresses(spec []string, told *networkingv1beta1.EndpointStatus) []string {
	out := slices.Clone(spec)
	if told == nil {
		return out
	}
	ports := told.Ports
	if len(ports) == 0 {
		ports = []int32{told.Port}
	}
	known := map[string]bool{}
	for _, one := range spec {
		known[one] = true
	}
	names := 0
	for _, address := range told.Addresses {
		if _, err := netip.ParseAddr(address); err != nil {
			if names++; names > maxNames {
				continue
			}
		}
		for _, port := range ports {
			one := net.JoinHostPort(address, strconv.Itoa(int(port)))
			if known[one] {
				continue
			}
			if len(out) == len(spec)+maxTold {
				return out
			}
			known[one] = true
			out = append(out, one)
		}
	}
	return out
}

// dnsResolver finds the addresses of a name.
type dnsResolver func(ctx context.Context, network, host string) ([]netip.Addr, error)

// resolving is how long a name server may take.
const resolving = 3 * time.Second

// endpoints are the ways to a server: what is said of it, names resolved, each address once. Nobody waits for a name server: until it
// answers, its last answer counts.
type endpoints struct {
	resolve dnsResolver
	moved   func() // is called when names have other addresses than before

	mu       sync.Mutex // guards what follows
	said     []string
	asked    []string                // what was said when names were last looked up
	asking   int                     // names, now
	answers  map[string][]netip.Addr // of name servers, the last ones
	found    []netip.AddrPort
	current  int
	settled  bool                    // it stays in use though another is said before it: it works, or it is its turn
	failed   map[netip.AddrPort]bool // of those found, what was given up and has not worked since
	problems map[string]string       // why something that is said is no use, as it was logged
}

func newEndpoints(moved func()) *endpoints {
	return &endpoints{resolve: net.DefaultResolver.LookupNetIP, moved: moved, answers: map[string][]netip.Addr{}, failed: map[netip.AddrPort]bool{}, problems: map[string]string{}}
}

// currentEndpoint is the endpoint to use; the zero value while none is known.
func (e *endpoints) currentEndpoint(ctx context.Context, said []string) netip.AddrPort {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(said, e.said) {
		e.said = slices.Clone(said)
		e.resolveAll(ctx)
	}
	if !slices.Equal(e.said, e.asked) || len(e.found) == 0 {
		e.requestResolve(ctx)
	}
	return e.usedEndpoint()
}

// nextEndpoint takes another way, and looks names up anew.
func (e *endpoints) nextEndpoint(ctx context.Context) netip.AddrPort {
	e.mu.Lock()
	defer e.mu.Unlock()
	if used := e.usedEndpoint(); used.IsValid() {
		e.failed[used] = true
	}
	e.current++
	e.settled = true
	e.requestResolve(ctx)
	return e.usedEndpoint()
}

// markWorking tells that the way that is used is a good one.
func (e *endpoints) markWorking() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settled = true
	delete(e.failed, e.usedEndpoint())
}

func (e *endpoints) usedEndpoint() netip.AddrPort {
	if len(e.found) == 0 {
		return netip.AddrPort{}
	}
	return e.found[e.current%len(e.found)]
}

// resolveAll takes what is said one by one. What is no use keeps nothing else from being tried. The way that is used stays in use while it is
// one, if it works: where the first is a name, others are known before it. Once it is gone the first follows that did not fail: where a
// server moves again, that is not the place that it left first. A way that failed and is tried again, since there was no other, gives way to one
// of which nobody knew.
func (e *endpoints) resolveAll(ctx context.Context) {
	used, before := e.usedEndpoint(), e.found
	e.found = nil
	for _, one := range e.said {
		host, port, err := splitHostPort(one)
		if err != nil {
			e.logOnce(ctx, one, err)
			continue
		}
		addrs := e.answers[host]
		if a, err := netip.ParseAddr(host); err == nil {
			addrs = []netip.Addr{a.Unmap()}
		}
		var refused error
		addrs = slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool {
			err := policy.CheckPeerAddress(a, false)
			if err != nil {
				refused = fmt.Errorf("checking the endpoint %q: %w", one, err)
			}
			return err != nil
		})
		e.logOnce(ctx, one, refused)
		for _, a := range addrs {
			if at := netip.AddrPortFrom(a, port); !slices.Contains(e.found, at) {
				e.found = append(e.found, at)
			}
		}
	}
	maps.DeleteFunc(e.failed, func(a netip.AddrPort, _ bool) bool { return !slices.Contains(e.found, a) })
	at := slices.Index(e.found, used)
	news := slices.ContainsFunc(e.found, func(a netip.AddrPort) bool { return !slices.Contains(before, a) })
	if e.settled = e.settled && at >= 0 && !(news && e.failed[used]); !e.settled {
		at = max(0, slices.IndexFunc(e.found, func(a netip.AddrPort) bool { return !e.failed[a] }))
	}
	e.current = at
}

func splitHostPort(said string) (host string, port uint16, err error) {
	host, service, err := net.SplitHostPort(said)
	if err != nil {
		return "", 0, fmt.Errorf("reading the endpoint %q: %w", said, err)
	}
	n, err := strconv.ParseUint(service, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("reading the endpoint %q: %q is no port", said, service)
	}
	return host, uint16(n), nil
}

// logOnce logs what is wrong, once.
func (e *endpoints) logOnce(ctx context.Context, of string, err error) {
	if err == nil {
		delete(e.problems, of)
		return
	}
	if e.problems[of] != err.Error() {
		log.FromContext(ctx).Info("an endpoint of the server is no use", "reason", err.Error())
	}
	e.problems[of] = err.Error()
}

// requestResolve begins to look names up, if that is not being done.
func (e *endpoints) requestResolve(ctx context.Context) {
	var hosts []string
	for _, one := range e.said {
		host, _, err := splitHostPort(one)
		if _, literal := netip.ParseAddr(host); err == nil && literal != nil && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	if e.asking > 0 {
		return
	}
	e.asked, e.asking = e.said, len(hosts)
	for _, host := range hosts {
		go e.resolveHost(ctx, host) // by itself: a name that nobody answers for holds up no other
	}
}

// resolveHost has a name server answer. From one that does not, what it said last is better than nothing.
func (e *endpoints) resolveHost(ctx context.Context, host string) {
	addrs, err := e.lookupHost(ctx, host)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asking--
	if e.logOnce(ctx, host, err); err == nil {
		e.answers[host] = addrs
	}
	before := e.found
	e.resolveAll(ctx)
	if !slices.Equal(before, e.found) {
		e.moved()
	}
}

func (e *endpoints) lookupHost(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, resolving)
	defer cancel()
	addrs, err := e.resolve(ctx, "ip", host)
	if err == nil && len(addrs) == 0 {
		err = errors.New("it has no address")
	}
	if err != nil {
		return nil, fmt.Errorf("resolving %s: %w", host, plainError(err))
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return addrs, nil
}

// plainError is the end of what a name server's error says: before it are addresses, with a port of ours that is another one each time.
func plainError(err error) error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		parts := strings.Split(dns.Err, ": ")
		return errors.New(parts[len(parts)-1])
	}
	return err
}
