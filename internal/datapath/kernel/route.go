// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
)

// defaultMetric6 is the kernel's default metric of IPv6 routes.
const defaultMetric6 = 1024

// sizeofFamily is the length of the address family in host byte order at the start of the attribute "via".
const sizeofFamily = 2

// routeKey identifies a route: we keep at most one route per key.
type routeKey struct {
	table  uint32
	to     netip.Prefix
	metric uint32
}

// kernelRoute is the value of a routeKey.
type kernelRoute struct {
	unreachable bool
	index       int32
	via         netip.Addr
	onlink      bool
	source      netip.Addr
	mtu         uint32
	scope       byte
}

// compareRoutes sorts the routes of a prefix by descending metric: the worst is added first.
func compareRoutes(a, b routeKey) int {
	return cmp.Or(cmp.Compare(a.table, b.table), a.to.Compare(b.to), cmp.Compare(b.metric, a.metric))
}

func (k *Kernel) readRoutes() (map[routeKey]kernelRoute, error) {
	routes := map[routeKey]kernelRoute{}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		request := make([]byte, unix.SizeofRtMsg)
		request[0], request[5] = family, datapath.Protocol
		err := k.sockets.dumpAll(unix.NETLINK_ROUTE, unix.RTM_GETROUTE, request, func(msg []byte) error {
			if key, r, owned := parseRoute(msg); owned {
				routes[key] = r
			}
			return nil
		})
		if err != nil && !errors.Is(err, syscall.EAFNOSUPPORT) && !errors.Is(err, syscall.EOPNOTSUPP) {
			return nil, fmt.Errorf("reading routes: %w", err)
		}
	}
	return routes, nil
}

func parseRoute(msg []byte) (routeKey, kernelRoute, bool) {
	if len(msg) < unix.SizeofRtMsg {
		return routeKey{}, kernelRoute{}, false
	}
	head, a := msg[:unix.SizeofRtMsg], parseBody(msg, unix.SizeofRtMsg)
	flags := nativeOrder().Uint32(head[8:])
	key := routeKey{table: uint32(head[4]), to: a.prefixOf(unix.RTA_DST, int(head[1]), head[0]), metric: a.nativeUint32(unix.RTA_PRIORITY)}
	if _, ok := a[unix.RTA_TABLE]; ok {
		key.table = a.nativeUint32(unix.RTA_TABLE)
	}
	r := kernelRoute{unreachable: head[7] == unix.RTN_UNREACHABLE}
	if !r.unreachable { // the kernel reports IPv6 unreachable routes on lo
		r.index, r.via, r.onlink = int32(a.nativeUint32(unix.RTA_OIF)), a.addrOf(unix.RTA_GATEWAY), flags&unix.RTNH_F_ONLINK != 0
		if via := a[unix.RTA_VIA]; len(via) > sizeofFamily { // IPv4 via an IPv6 next hop
			r.via, _ = netip.AddrFromSlice(via[sizeofFamily:])
		}
		r.source, r.mtu, r.scope = a.addrOf(unix.RTA_PREFSRC), parseAttrs(a[unix.RTA_METRICS]).nativeUint32(unix.RTAX_MTU), head[6]
	}
	return key, r, head[5] == datapath.Protocol && flags&unix.RTM_F_CLONED == 0
}

func (r kernelRoute) toDatapath(key routeKey, names map[int32]string) datapath.Route {
	out := datapath.Route{
		Table: int(key.table), To: key.to, Unreachable: r.unreachable, Metric: int(key.metric),
		Device: names[r.index], Via: r.via, OnLink: r.onlink, Source: r.source, MTU: int(r.mtu), Scope: datapath.Scope(r.scope),
	}
	if key.to.Addr().Is6() && key.metric == defaultMetric6 {
		out.Metric = 0
	}
	return out
}

// requestBody returns the body of a netlink message about the route.
func (r kernelRoute) requestBody(key routeKey) []byte {
	head := make([]byte, unix.SizeofRtMsg)
	head[0], head[1], head[5], head[6], head[7] = familyOf(key.to.Addr()), byte(key.to.Bits()), datapath.Protocol, r.scope, unix.RTN_UNICAST
	out := joinBytes(encodeAttr(unix.RTA_DST, key.to.Addr().AsSlice()), encodeAttr(unix.RTA_TABLE, nativeUint32(key.table)), encodeAttr(unix.RTA_PRIORITY, nativeUint32(key.metric)))
	if r.unreachable {
		head[7] = unix.RTN_UNREACHABLE
		return joinBytes(head, out)
	}
	if r.onlink {
		nativeOrder().PutUint32(head[8:], unix.RTNH_F_ONLINK)
	}
	out = joinBytes(out, encodeAttr(unix.RTA_OIF, nativeUint32(r.index)))
	switch {
	case r.via.IsValid() && r.via.Is4() == key.to.Addr().Is4():
		out = joinBytes(out, encodeAttr(unix.RTA_GATEWAY, r.via.AsSlice()))
	case r.via.IsValid():
		out = joinBytes(out, encodeAttr(unix.RTA_VIA, nativeUint16(uint16(familyOf(r.via))), r.via.AsSlice()))
	}
	if r.source.IsValid() {
		out = joinBytes(out, encodeAttr(unix.RTA_PREFSRC, r.source.AsSlice()))
	}
	if r.mtu != 0 {
		out = joinBytes(out, encodeNested(unix.RTA_METRICS, encodeAttr(unix.RTAX_MTU, nativeUint32(r.mtu))))
	}
	return joinBytes(head, out)
}

func keyOf(w datapath.Route) routeKey {
	key := routeKey{uint32(w.Table), w.To.Masked(), uint32(w.Metric)}
	if w.To.Addr().Is6() && w.Metric == 0 {
		key.metric = defaultMetric6
	}
	return key
}

func (r *applyRun) wantedRoutes() map[routeKey]kernelRoute {
	out := map[routeKey]kernelRoute{}
	for _, w := range r.want.Routes {
		if w.Unreachable {
			out[keyOf(w)] = kernelRoute{unreachable: true}
			continue
		}
		l, ok := r.have.usableLink(w.Device)
		if !ok {
			r.waiting[w.Device] = true
			continue
		}
		one := kernelRoute{index: l.index, via: w.Via, onlink: w.OnLink, source: w.Source, mtu: uint32(w.MTU)}
		if w.To.Addr().Is4() {
			one.scope = byte(w.Scope) // IPv6 routes have no scope
		}
		out[keyOf(w)] = one
	}
	return out
}

func (r *applyRun) addRoutes() {
	want := r.wantedRoutes()
	foreign := r.foreignRoutes(want)
	for _, key := range missingKeys(want, r.have.routes, compareRoutes) {
		one := want[key]
		what, flags := "add", unix.NLM_F_CREATE|unix.NLM_F_EXCL
		if _, ok := r.have.routes[key]; ok {
			what, flags = "replace", unix.NLM_F_REPLACE
		}
		text := fmt.Sprintf("%s %s", what, one.toDatapath(key, r.have.names))
		if foreign[key] {
			r.errs = append(r.errs, fmt.Errorf("%s: a route of others is in the same place, and stays", text))
			continue
		}
		r.writeKernel(text, func() error {
			_, err := r.sockets.sendRequest(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE, unix.NLM_F_ACK|flags, one.requestBody(key))
			if unreachableYet(err) && !one.unreachable {
				r.waiting[r.have.names[one.index]] = true
				return syscall.ENETDOWN
			}
			return explainConflict(err)
		}, syscall.ENETDOWN)
	}
}

// unreachableYet reports whether the error means a device that is down or has no address yet.
func unreachableYet(err error) bool {
	for _, e := range []syscall.Errno{syscall.ENETDOWN, syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENODEV} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// explainConflict explains EEXIST on creation.
func explainConflict(err error) error {
	if errors.Is(err, syscall.EEXIST) {
		return fmt.Errorf("a foreign one already exists, and is kept: %w", err)
	}
	return err
}

// foreignRoutes returns the keys of changed routes with a foreign route at the same key: a replace could hit the foreign route.
func (r *applyRun) foreignRoutes(want map[routeKey]kernelRoute) map[routeKey]bool {
	type part struct {
		family byte
		table  uint32
	}
	parts, foreign := map[part]bool{}, map[routeKey]bool{}
	for key, one := range want {
		if current, ok := r.have.routes[key]; ok && current != one {
			parts[part{familyOf(key.to.Addr()), key.table}] = true
		}
	}
	for p := range parts {
		request := make([]byte, unix.SizeofRtMsg)
		request[0] = p.family
		err := r.sockets.dumpAll(unix.NETLINK_ROUTE, unix.RTM_GETROUTE, joinBytes(request, encodeAttr(unix.RTA_TABLE, nativeUint32(p.table))), func(msg []byte) error {
			if key, _, owned := parseRoute(msg); !owned {
				foreign[key] = true
			}
			return nil
		})
		if err != nil && !errors.Is(err, syscall.ENOENT) { // ENOENT: the table has no routes
			r.errs = append(r.errs, fmt.Errorf("reading routes of table %d: %w", p.table, err))
		}
	}
	return foreign
}

// removeRoutes removes surplus routes: with replaced, only routes to a prefix with a wanted route in the same table; without, only the rest.
// Of several routes to a prefix the best goes first, so that "unreachable" is last.
func (r *applyRun) removeRoutes(replaced bool) {
	type place struct {
		table uint32
		to    netip.Prefix
	}
	want := r.wantedRoutes()
	places := map[place]bool{}
	for key, one := range want {
		// An unreachable fallback is no replacement: its prefix must not remain routed while the filters change.
		if !one.unreachable {
			places[place{key.table, key.to}] = true
		}
	}
	keys := surplusKeys(want, r.have.routes, func(a, b routeKey) int { return compareRoutes(b, a) })
	for _, key := range keys {
		if places[place{key.table, key.to}] != replaced {
			continue
		}
		one := r.have.routes[key]
		if r.writeKernel(fmt.Sprintf("delete %s", one.toDatapath(key, r.have.names)), func() error {
			_, err := r.sockets.sendRequest(unix.NETLINK_ROUTE, unix.RTM_DELROUTE, unix.NLM_F_ACK, one.requestBody(key))
			return err
		}, gone...) {
			delete(r.have.routes, key)
		}
	}
}

// Source returns the source address for packets to an address.
func (k *Kernel) Source(to netip.Addr) (netip.Addr, error) {
	h, err := netlink.NewHandleAt(k.ns)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("opening a netlink socket: %w", err)
	}
	defer h.Close()
	routes, err := h.RouteGet(to.AsSlice())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("finding the route to %s: %w", to, err)
	}
	for _, r := range routes {
		if a, ok := netip.AddrFromSlice(r.Src); ok {
			return a.Unmap(), nil
		}
	}
	return netip.Addr{}, errors.New("the route to " + to.String() + " has no source")
}
