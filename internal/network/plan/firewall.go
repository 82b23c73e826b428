// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/api/networking/v1beta1/firewall"
	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/prefix"
)

// FirewallOf converts a FirewallConfiguration into a table for IPv4, for IPv6, or both for INET. Unsupported parts are left out with a Problem. Parts
// that a kernel would refuse are detected here, because the kernel would refuse the whole transaction.
func FirewallOf(c *networkingv1beta1.FirewallConfiguration) (Firewall, []Problem) {
	w := firewallBuilder{Firewall: Firewall{Of: Object{"FirewallConfiguration", c.Namespace, c.Name}, Since: c.CreationTimestamp.Time}}
	table := &c.Spec.Table
	if table.Name == nil || checkName(*table.Name) != nil {
		w.reject("the name of the table is invalid")
		return w.Firewall, w.problems
	}
	families, err := tableFamilies(table.Family)
	if err != nil {
		w.reject("table %s: %v", *table.Name, err)
		return w.Firewall, w.problems
	}
	for _, f := range families {
		t := datapath.Table{Family: f, Name: *table.Name}
		for i := range table.Chains {
			w.addChain(&t, &table.Chains[i], families)
		}
		w.Tables = append(w.Tables, t)
	}
	slices.SortFunc(w.problems, func(a, b Problem) int { return strings.Compare(a.Message, b.Message) })
	w.problems = slices.Compact(w.problems) // both families report the same problems
	return w.Firewall, w.problems
}

// firewallBuilder builds a Firewall.
type firewallBuilder struct {
	Firewall
	problems []Problem
}

func (w *firewallBuilder) reject(format string, args ...any) {
	w.problems = append(w.problems, Problem{Of: w.Of, Message: fmt.Sprintf(format, args...)})
}

func tableFamilies(f *firewall.TableFamily) ([]datapath.Family, error) {
	if f == nil {
		return nil, errors.New("it has no family")
	}
	switch *f {
	case firewall.TableFamilyIPv4:
		return []datapath.Family{datapath.IPv4}, nil
	case firewall.TableFamilyIPv6:
		return []datapath.Family{datapath.IPv6}, nil
	case firewall.TableFamilyINet:
		return []datapath.Family{datapath.IPv4, datapath.IPv6}, nil
	}
	return nil, fmt.Errorf("the family %q is not supported", *f)
}

// addChain adds a chain with its supported rules. Chains of type route have no effect and are accepted.
func (w *firewallBuilder) addChain(t *datapath.Table, in *firewall.Chain, families []datapath.Family) {
	if in.Type == firewall.ChainTypeRoute {
		return
	}
	c, err := chainOf(in)
	if err == nil && slices.ContainsFunc(t.Chains, func(o datapath.Chain) bool { return o.Name == c.Name }) {
		err = errors.New("there is another one")
	}
	if err != nil {
		w.reject("chain %s: %v", stringOrEmpty(in.Name), err)
		return
	}
	add := func(i int, name *string, r rule, err error) {
		var foreign *foreignFamily
		switch {
		case errors.As(err, &foreign) && slices.Contains(families, foreign.family): // belongs to the other table
		case err != nil && name != nil:
			w.reject("chain %s, rule %s: %v", c.Name, *name, err)
		case err != nil:
			w.reject("chain %s, rule %d: %v", c.Name, i+1, err)
		default:
			c.Rules = append(c.Rules, r)
		}
	}
	for i := range in.Rules.FilterRules {
		r := &in.Rules.FilterRules[i]
		out, err := filterRule(r, c, t.Family)
		add(i, r.Name, out, err)
		w.Stateful = w.Stateful || err == nil && (r.Action == firewall.ActionCtMark || r.Action == firewall.ActionMetaMarkFromCtMark)
	}
	for i := range in.Rules.NatRules {
		r := &in.Rules.NatRules[i]
		out, err := natRule(r, c, t.Family)
		add(i, r.Name, out, err)
		w.Stateful = w.Stateful || err == nil
	}
	t.Chains = append(t.Chains, c)
}

func stringOrEmpty(s *string) string {
	if s == nil {
		return "without name"
	}
	return *s
}

// connectionTracking is the priority of conntrack: NAT chains must come after it.
const connectionTracking = -200

func chainOf(in *firewall.Chain) (datapath.Chain, error) {
	var out datapath.Chain
	if in.Name == nil || in.Hook == nil {
		return out, errors.New("it has no name or no hook")
	}
	out = datapath.Chain{Name: *in.Name, Type: datapath.ChainType(in.Type), Hook: datapath.Hook(*in.Hook)}
	if err := checkName(out.Name); err != nil {
		return out, err
	}
	if in.Policy != nil {
		switch *in.Policy {
		case firewall.ChainPolicyDrop:
			out.Policy = datapath.Drop
		case firewall.ChainPolicyAccept:
		default:
			return out, fmt.Errorf("%q is not a valid policy", *in.Policy)
		}
	}
	if in.Priority != nil {
		out.Priority = int(*in.Priority)
	}
	hooks := []datapath.Hook{datapath.Prerouting, datapath.Input, datapath.Output, datapath.Postrouting}
	switch out.Type {
	case datapath.NAT:
		if out.Priority <= connectionTracking {
			return out, fmt.Errorf("translation at %d would come before connection tracking, which is at %d", out.Priority, connectionTracking)
		}
	case datapath.Filter:
		hooks = append(hooks, datapath.Forward)
	default:
		return out, fmt.Errorf("%q is not a valid chain type", in.Type)
	}
	if !slices.Contains(hooks, out.Hook) {
		return out, fmt.Errorf("chains of type %s have no hook %q", out.Type, *in.Hook)
	}
	if len(in.Rules.NatRules) > 0 && out.Type != datapath.NAT || len(in.Rules.FilterRules) > 0 && out.Type != datapath.Filter ||
		len(in.Rules.RouteRules) > 0 {
		return out, fmt.Errorf("the chain of type %s has rules of another type", out.Type)
	}
	return out, nil
}

// filterRule converts a rule of a filter chain.
func filterRule(in *firewall.FilterRule, c datapath.Chain, f datapath.Family) (rule, error) {
	out, err := compileMatches(in.Match, f)
	if err != nil {
		return nil, err
	}
	action, err := actionOf(in, c)
	if err != nil {
		return nil, err
	}
	if in.Counter {
		out = append(out, datapath.AnonymousCounter{})
	}
	return append(out, action...), nil
}

func actionOf(in *firewall.FilterRule, c datapath.Chain) (rule, error) {
	value := ""
	if in.Value != nil {
		value = *in.Value
	}
	switch in.Action {
	case firewall.ActionAccept:
		return rule{accept}, nil
	case firewall.ActionDrop:
		return rule{datapath.Verdict{Kind: datapath.Drop}}, nil
	case firewall.ActionReject:
		if c.Hook == datapath.Postrouting {
			return nil, errors.New("nothing is rejected in postrouting")
		}
		return rule{datapath.Reject{}}, nil
	case firewall.ActionNotrack:
		return rule{datapath.Notrack{}}, nil
	case firewall.ActionCtMark:
		mark, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is not a mark", value)
		}
		return rule{datapath.SetNumber{Field: datapath.FlowMark, Number: uint32(mark)}}, nil
	case firewall.ActionMetaMarkFromCtMark:
		return rule{datapath.Copy{To: datapath.Mark, From: datapath.FlowMark}}, nil
	case firewall.ActionTCPMssClamp:
		return clampMSS(in.Match, value, c.Hook)
	}
	return nil, fmt.Errorf("unknown action %q", in.Action)
}

// clampMSS clamps the MSS to a size or to the route's MTU, which is known on the way out only.
func clampMSS(match []firewall.Match, value string, hook datapath.Hook) (rule, error) {
	if !slices.ContainsFunc(match, func(m firewall.Match) bool {
		return m.Op != firewall.MatchOperationNeq && m.Proto != nil && m.Proto.Value == firewall.L4ProtoTCP
	}) {
		return nil, errors.New("clamping the MSS requires a match of the protocol tcp")
	}
	size := uint64(0)
	if value != "" {
		var err error
		if size, err = strconv.ParseUint(value, 10, 16); err != nil {
			return nil, fmt.Errorf("%q is not a valid segment size", value)
		}
	}
	if size == 0 && (hook == datapath.Prerouting || hook == datapath.Input) {
		return nil, fmt.Errorf("clamping to the MTU of the route is not possible at hook %s", hook)
	}
	return rule{datapath.SYN{}, datapath.ClampMSS{Size: uint16(size)}}, nil
}

// natRule converts a rule of a NAT chain.
func natRule(in *firewall.NatRule, c datapath.Chain, f datapath.Family) (rule, error) {
	out, err := compileMatches(in.Match, f)
	if err != nil {
		return nil, err
	}
	destination := c.Hook == datapath.Prerouting || c.Hook == datapath.Output
	switch {
	case in.NatType == firewall.NatTypeMasquerade:
		if in.To != nil && *in.To != "" {
			return nil, errors.New("masquerade takes no target address")
		}
		if c.Hook != datapath.Postrouting {
			return nil, fmt.Errorf("in %s nothing is masqueraded", c.Hook)
		}
		return append(out, datapath.Masquerade{}), nil
	case in.NatType == firewall.NatTypeDestination && destination:
		to, err := natTarget(in.To, f)
		return append(out, datapath.TranslateDestination{To: to}), err
	case in.NatType == firewall.NatTypeSource && !destination:
		to, err := natTarget(in.To, f)
		return append(out, datapath.TranslateSource{To: to}), err
	}
	return nil, fmt.Errorf("there is no %q in %s", in.NatType, c.Hook)
}

func natTarget(to *string, f datapath.Family) (netip.Prefix, error) {
	if to == nil || *to == "" {
		return netip.Prefix{}, errors.New("the target of the translation is missing")
	}
	p, err := prefix.ParsePrefix(*to)
	if err != nil {
		a, err := parseAddress(*to)
		if err != nil {
			return netip.Prefix{}, fmt.Errorf("%q is neither address nor network", *to)
		}
		p = hostPrefix(a)
	}
	return p, inFamily(p.Addr(), f)
}

// foreignFamily is the error of a rule with an address of another family than the table's.
type foreignFamily struct {
	addr   netip.Addr
	family datapath.Family // of addr
}

func (e *foreignFamily) Error() string {
	return fmt.Sprintf("%s is not of the family of the table", e.addr)
}

func inFamily(a netip.Addr, f datapath.Family) error {
	if of := datapath.FamilyOf(a); of != f {
		return &foreignFamily{a, of}
	}
	return nil
}

// compileMatches returns the conjunction of all matches.
func compileMatches(in []firewall.Match, f datapath.Family) (rule, error) {
	var out rule
	for i := range in {
		m, err := compileMatch(&in[i], f)
		if err != nil {
			return nil, err
		}
		out = append(out, m...)
	}
	return out, nil
}

func compileMatch(in *firewall.Match, f datapath.Family) (rule, error) {
	var not bool
	switch in.Op {
	case firewall.MatchOperationEq, "":
	case firewall.MatchOperationNeq:
		not = true
	default:
		return nil, fmt.Errorf("unknown operator %q", in.Op)
	}
	var out rule
	if in.Proto != nil {
		n, ok := map[firewall.L4Proto]uint8{firewall.L4ProtoTCP: datapath.TCP, firewall.L4ProtoUDP: datapath.UDP}[in.Proto.Value]
		if !ok {
			return nil, fmt.Errorf("the protocol %q is neither tcp nor udp", in.Proto.Value)
		}
		alone := in.Dev == nil && in.IP == nil && in.Port == nil // combined with other matches, proto is their protocol and is not negated
		out = append(out, datapath.Cmp{Field: datapath.L4Protocol, Not: not && alone, Values: []datapath.Value{datapath.ProtocolValue(n)}})
	}
	if in.Dev != nil {
		field, ok := map[firewall.MatchDevPosition]datapath.Field{
			firewall.MatchDevPositionIn: datapath.InputDevice, firewall.MatchDevPositionOut: datapath.OutputDevice,
		}[in.Dev.Position]
		if !ok {
			return nil, fmt.Errorf("unknown device position %q", in.Dev.Position)
		}
		if err := checkDevice(in.Dev.Value); err != nil {
			return nil, err
		}
		out = append(out, datapath.Word{Field: field, Not: not, Word: in.Dev.Value})
	}
	if in.IP != nil {
		v, err := parseAddresses(in.IP.Value, f)
		if err != nil {
			return nil, err
		}
		field, err := fieldOfPosition(in.IP.Position, datapath.Source, datapath.Destination)
		if err != nil {
			return nil, err
		}
		out = append(out, datapath.Cmp{Field: field, Not: not, Values: []datapath.Value{v}})
	}
	if in.Port != nil {
		v, err := parsePorts(in.Port.Value)
		if err != nil {
			return nil, err
		}
		field, err := fieldOfPosition(in.Port.Position, datapath.SourcePort, datapath.DestinationPort)
		if err != nil {
			return nil, err
		}
		out = append(out, datapath.Cmp{Field: field, Not: not, Values: []datapath.Value{v}})
	}
	return out, nil
}

func fieldOfPosition(p firewall.MatchPosition, source, destination datapath.Field) (datapath.Field, error) {
	switch p {
	case firewall.MatchPositionSrc:
		return source, nil
	case firewall.MatchPositionDst:
		return destination, nil
	}
	return 0, fmt.Errorf("%q is neither src nor dst", p)
}

// parseAddresses parses an address, a CIDR, or a range a-b.
func parseAddresses(s string, f datapath.Family) (datapath.Value, error) {
	var none datapath.Value
	if first, last, ok := strings.Cut(s, "-"); ok {
		low, err := parseAddress(first)
		if err != nil {
			return none, err
		}
		high, err := parseAddress(last)
		if err != nil {
			return none, err
		}
		if datapath.FamilyOf(low) != datapath.FamilyOf(high) || high.Less(low) {
			return none, fmt.Errorf("%q is not a valid address range", s)
		}
		return datapath.Value{Type: datapath.TypeAddress, Low: string(low.AsSlice()), High: string(high.AsSlice())}, inFamily(low, f)
	}
	if p, err := prefix.ParsePrefix(s); err == nil {
		return datapath.Prefix(p), inFamily(p.Addr(), f)
	}
	a, err := parseAddress(s)
	if err != nil {
		return none, fmt.Errorf("%q is not an address, network or range", s)
	}
	return datapath.Addr(a), inFamily(a, f)
}

// parsePorts parses a port or a range a-b.
func parsePorts(s string) (datapath.Value, error) {
	first, last, ok := strings.Cut(s, "-")
	if !ok {
		last = first
	}
	low, err := strconv.ParseUint(first, 10, 16)
	if err != nil {
		return datapath.Value{}, fmt.Errorf("%q is not a valid port", s)
	}
	high, err := strconv.ParseUint(last, 10, 16)
	if err != nil || high < low {
		return datapath.Value{}, fmt.Errorf("%q is not a range of ports", s)
	}
	return datapath.Ports(uint16(low), uint16(high)), nil
}

// checkName validates the name of a table or chain.
func checkName(name string) error {
	if name == "" || len(name) > 128 || strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./", r)
	}) {
		return fmt.Errorf("%q is not the name of a table or chain", name)
	}
	return nil
}
