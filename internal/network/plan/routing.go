// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/prefix"
)

// tableID returns the number of the routing table with a name.
func tableID(name string) int {
	h := sha256.Sum256([]byte(name))
	h[1] |= 1
	h[3] >>= 1
	return int(binary.LittleEndian.Uint32(h[:4]))
}

// RoutingOf converts a RouteConfiguration. Unsupported parts are left out with a Problem.
func RoutingOf(c *networkingv1beta1.RouteConfiguration) (Routing, []Problem) {
	table := c.Spec.Table
	r := routingBuilder{Routing: Routing{Of: Object{"RouteConfiguration", c.Namespace, c.Name}, Since: c.CreationTimestamp.Time, Table: tableID(table.Name)}}
	if table.Name == "" {
		r.reject("the table has no name")
		return r.Routing, r.problems
	}
	for i := range table.Rules {
		r.addRoutes(i, table.Rules[i].Routes)
	}
	for i := range table.Rules {
		r.addRules(i, &table.Rules[i])
	}
	return r.Routing, r.problems
}

// routingBuilder builds a Routing.
type routingBuilder struct {
	Routing
	problems []Problem
}

func (r *routingBuilder) reject(format string, args ...any) {
	r.problems = append(r.problems, Problem{Of: r.Of, Message: fmt.Sprintf(format, args...)})
}

func (r *routingBuilder) addRoutes(of int, routes []networkingv1beta1.Route) {
	for i := range routes {
		one, err := routeOf(&routes[i])
		if err != nil {
			r.reject("route %d of rule %d: %v", i+1, of+1, err)
			continue
		}
		same := slices.IndexFunc(r.Routes, func(o datapath.Route) bool { return o.To == one.To })
		switch {
		case same < 0:
			r.Routes = append(r.Routes, one)
		case r.Routes[same] != one:
			r.reject("route %d of rule %d: there is another route to %s", i+1, of+1, one.To)
		}
	}
}

func routeOf(in *networkingv1beta1.Route) (datapath.Route, error) {
	var out datapath.Route
	var err error
	if in.Dst == nil {
		return out, errors.New("it has no dst")
	}
	if out.To, err = prefix.ParsePrefix(string(*in.Dst)); err != nil {
		return out, err
	}
	if out.Source, err = optionalAddress(in.Src); err != nil {
		return out, err
	}
	if out.Via, err = optionalAddress(in.Gw); err != nil {
		return out, err
	}
	if out.Device, err = optionalDevice(in.Dev); err != nil {
		return out, err
	}
	out.OnLink = in.Onlink != nil && *in.Onlink
	switch f := familyOf(out.To); {
	case out.Source.IsValid() && datapath.FamilyOf(out.Source) != f:
		return out, fmt.Errorf("%s is not of the family of %s", out.Source, out.To)
	case out.Via.IsValid() && f == datapath.IPv6 && out.Via.Is4():
		return out, fmt.Errorf("%s is not reached via %s", out.To, out.Via)
	case !out.Via.IsValid() && out.Device == "":
		return out, errors.New("it has neither gw nor dev")
	case out.OnLink && (out.Device == "" || !out.Via.IsValid()):
		return out, errors.New("onlink requires gw and dev")
	}
	if in.Scope == nil {
		return out, nil
	}
	out.Scope, err = scopeOf(*in.Scope)
	return out, err
}

func scopeOf(s networkingv1beta1.Scope) (datapath.Scope, error) {
	switch s {
	case networkingv1beta1.GlobalScope:
		return datapath.ScopeGlobal, nil
	case networkingv1beta1.SiteScope:
		return datapath.ScopeSite, nil
	case networkingv1beta1.LinkScope:
		return datapath.ScopeLink, nil
	case networkingv1beta1.HostScope:
		return datapath.ScopeHost, nil
	}
	return 0, fmt.Errorf("no route has the scope %q", s)
}

func (r *routingBuilder) addRules(i int, in *networkingv1beta1.Rule) {
	one, err := ruleOf(in)
	if err != nil {
		r.reject("rule %d: %v", i+1, err)
		return
	}
	for _, f := range r.ruleFamilies(one) {
		one.Family = f
		one.Table = r.Table
		if !slices.Contains(r.Rules, one) {
			r.Rules = append(r.Rules, one)
		}
	}
}

// ruleFamilies returns the families of a rule: of its addresses, else of the routes in its table.
func (r *routingBuilder) ruleFamilies(of datapath.Rule) []datapath.Family {
	for _, p := range []netip.Prefix{of.From, of.To} {
		if p.IsValid() {
			return []datapath.Family{familyOf(p)}
		}
	}
	return familiesOf(func(f datapath.Family) bool {
		return slices.ContainsFunc(r.Routes, func(o datapath.Route) bool { return familyOf(o.To) == f })
	})
}

func ruleOf(in *networkingv1beta1.Rule) (datapath.Rule, error) {
	var out datapath.Rule
	var err error
	if in.Src != nil {
		if out.From, err = prefix.ParsePrefix(string(*in.Src)); err != nil {
			return out, err
		}
	}
	if in.Dst != nil {
		if out.To, err = prefix.ParsePrefix(string(*in.Dst)); err != nil {
			return out, err
		}
	}
	if out.From.IsValid() && out.To.IsValid() && familyOf(out.From) != familyOf(out.To) {
		return out, fmt.Errorf("%s and %s are not of the same family", out.From, out.To)
	}
	if out.Input, err = optionalDevice(in.Iif); err != nil {
		return out, err
	}
	if out.Output, err = optionalDevice(in.Oif); err != nil {
		return out, err
	}
	if in.FwMark != nil {
		if *in.FwMark < 0 || *in.FwMark > math.MaxUint32 {
			return out, fmt.Errorf("%d is not a mark", *in.FwMark)
		}
		out.Mark = uint32(*in.FwMark)
	}
	if in.Priority != nil {
		if *in.Priority < 0 || *in.Priority >= mainPriority {
			return out, fmt.Errorf("the priority %d is not between 0 and %d", *in.Priority, mainPriority-1)
		}
		out.Priority = *in.Priority
	}
	return out, nil
}

// mainPriority is the priority of the rule for the main table: no rule after it takes effect.
const mainPriority = 32766

func optionalAddress(in *networkingv1beta1.IP) (netip.Addr, error) {
	if in == nil {
		return netip.Addr{}, nil
	}
	return parseAddress(string(*in))
}

func optionalDevice(in *string) (string, error) {
	if in == nil {
		return "", nil
	}
	return *in, checkDevice(*in)
}

// checkDevice validates the name of a device.
func checkDevice(name string) error {
	if name == "" || len(name) > 15 || name == "." || name == ".." || strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '/' || r == ':'
	}) {
		return fmt.Errorf("%q is not the name of a device", name)
	}
	return nil
}

// parseAddress parses an address.
func parseAddress(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if a = a.Unmap(); err != nil || !isUsable(a) {
		return netip.Addr{}, fmt.Errorf("%q is not an address", s)
	}
	return a, nil
}
