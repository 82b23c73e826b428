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
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/policy"
)

// Limits of the endpoints that a peer reports: trying many takes time, and each name is resolved separately.
const (
	maxTold  = 1000
	maxNames = 16
)

// endpointSpec returns the endpoints of the server, with the endpoints set by its user first. Without any from the user, the arguments are the peer's
// endpoints at the creation of the gateway, or from its template: the current report of the peer takes precedence.
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

// dialledAddresses returns the endpoints from the arguments, set by the user, followed by the endpoints that the peer
// reports.
func dialledAddresses(spec []string, reported *networkingv1beta1.EndpointStatus) []string {
	out := slices.Clone(spec)
	if reported == nil {
		return out
	}
	ports := reported.Ports
	if len(ports) == 0 {
		ports = []int32{reported.Port}
	}
	known := map[string]bool{}
	for _, one := range spec {
		known[one] = true
	}
	names := 0
	for _, address := range reported.Addresses {
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

// serverEndpoints are the addresses of a server: names are resolved, duplicates removed. A lookup does not block: until the name server
// answers, its last answer is used.
type serverEndpoints struct {
	resolve dnsResolver
	moved   func() // called when the addresses of a name change

	mu       sync.Mutex // guards the fields below
	said     []string
	asked    []string                // hosts and addresses at the last lookup
	asking   int                     // names, now
	answers  map[string][]netip.Addr // last answers of the name servers, by host
	found    []netip.AddrPort
	current  int
	settled  bool                    // the endpoint stays in use even if another precedes: the endpoint works, or its timeout has not passed
	failed   map[netip.AddrPort]bool // endpoints that were given up and have not worked since
	problems map[string]string       // why an endpoint is unusable, as logged
}

func newEndpoints(moved func()) *serverEndpoints {
	return &serverEndpoints{resolve: net.DefaultResolver.LookupNetIP, moved: moved, answers: map[string][]netip.Addr{}, failed: map[netip.AddrPort]bool{}, problems: map[string]string{}}
}

// currentEndpoint is the endpoint to use; the zero value while none is known.
func (e *serverEndpoints) currentEndpoint(ctx context.Context, addresses []string) netip.AddrPort {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(addresses, e.said) {
		e.said = slices.Clone(addresses)
		e.resolveAll(ctx)
	}
	if !slices.Equal(e.said, e.asked) || len(e.found) == 0 {
		e.requestResolve(ctx)
	}
	return e.usedEndpoint()
}

// nextEndpoint takes another way, and looks names up anew.
func (e *serverEndpoints) nextEndpoint(ctx context.Context) netip.AddrPort {
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

// hasOthers reports whether there are several endpoints.
func (e *serverEndpoints) hasOthers() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.found) > 1
}

// markWorking records that the current endpoint works.
func (e *serverEndpoints) markWorking() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settled = true
	delete(e.failed, e.usedEndpoint())
}

func (e *serverEndpoints) usedEndpoint() netip.AddrPort {
	if len(e.found) == 0 {
		return netip.AddrPort{}
	}
	return e.found[e.current%len(e.found)]
}

// resolveAll resolves the endpoints separately; an unusable endpoint does not stop the loop. The current endpoint stays in use while listed and
// working: where the first endpoint is a name, later endpoints are resolved earlier. After the removal of the current endpoint, the first endpoint
// that did not fail follows: if a server moves again, its first address is outdated. A failed endpoint retried for lack of an alternative gives way
// to a new endpoint.
func (e *serverEndpoints) resolveAll(ctx context.Context) {
	used, before := e.usedEndpoint(), e.found
	e.found = nil
	listed := map[string]bool{} // endpoints and their hosts
	for _, one := range e.said {
		host, port, err := splitHostPort(one)
		listed[one], listed[host] = true, true
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
	maps.DeleteFunc(e.answers, func(host string, _ []netip.Addr) bool { return !listed[host] }) // the peer may report others at any rate
	maps.DeleteFunc(e.problems, func(of, _ string) bool { return !listed[of] })
	maps.DeleteFunc(e.failed, func(a netip.AddrPort, _ bool) bool { return !slices.Contains(e.found, a) })
	at := slices.Index(e.found, used)
	news := slices.ContainsFunc(e.found, func(a netip.AddrPort) bool { return !slices.Contains(before, a) })
	if e.settled = e.settled && at >= 0 && !(news && e.failed[used]); !e.settled {
		at = max(0, slices.IndexFunc(e.found, func(a netip.AddrPort) bool { return !e.failed[a] }))
	}
	e.current = at
}

func splitHostPort(address string) (host string, port uint16, err error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("reading the endpoint %q: %w", address, err)
	}
	n, err := strconv.ParseUint(service, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("reading the endpoint %q: invalid port %q", address, service)
	}
	return host, uint16(n), nil
}

// logOnce logs a problem once.
func (e *serverEndpoints) logOnce(ctx context.Context, of string, err error) {
	if err == nil {
		delete(e.problems, of)
		return
	}
	if e.problems[of] != err.Error() {
		log.FromContext(ctx).Info("an endpoint of the server is unusable", "reason", err.Error())
	}
	e.problems[of] = err.Error()
}

// requestResolve starts the lookup of names unless one is running.
func (e *serverEndpoints) requestResolve(ctx context.Context) {
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
		go e.resolveHost(ctx, host) // separate goroutines: a name without an answer delays no other name
	}
}

// resolveHost resolves a name. If the name server does not answer, its last answer stays in use.
func (e *serverEndpoints) resolveHost(ctx context.Context, host string) {
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

func (e *serverEndpoints) lookupHost(ctx context.Context, host string) ([]netip.Addr, error) {
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

// plainError returns the innermost error of a lookup: the text before contains addresses, with a local port that differs each time.
func plainError(err error) error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		parts := strings.Split(dns.Err, ": ")
		return errors.New(parts[len(parts)-1])
	}
	return err
}

// learnedFile has the endpoint of a server's client.
const learnedFile = "endpoint"

// endpointMemory is a file with the last endpoint of the client, and outlives the process. An outdated endpoint is harmless: a moved client announces
// itself.
type endpointMemory struct{ path string } // "" for none

func memoryIn(dir string) endpointMemory {
	if dir == "" {
		return endpointMemory{}
	}
	return endpointMemory{filepath.Join(dir, learnedFile)}
}

// loadEndpoint returns the stored endpoint, or the zero value.
func (m endpointMemory) loadEndpoint() netip.AddrPort {
	data, err := os.ReadFile(m.path)
	if err != nil {
		return netip.AddrPort{}
	}
	endpoint, err := netip.ParseAddrPort(string(data))
	if err != nil {
		return netip.AddrPort{}
	}
	return endpoint
}

// storeEndpoint writes the endpoint if it changed.
func (m endpointMemory) storeEndpoint(endpoint netip.AddrPort) error {
	if m.path == "" || !endpoint.IsValid() || m.loadEndpoint() == endpoint {
		return nil
	}
	if err := os.WriteFile(m.path, []byte(endpoint.String()), 0o600); err != nil {
		return fmt.Errorf("keeping the endpoint of the client: %w", err)
	}
	return nil
}
