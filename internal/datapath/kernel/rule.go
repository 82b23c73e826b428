// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
)

// Actions of rules, missing in x/sys.
const (
	toTable       = 1
	toRule        = 2
	toNext        = 3
	toUnreachable = 7
)

// ipRule is a policy routing rule of ours with all fields: rules have no names, the kernel identifies a rule by its fields.
type ipRule struct {
	family     byte
	priority   uint32
	from, to   netip.Prefix
	input      string
	output     string
	mark, mask uint32
	table      uint32
	target     uint32 // priority of the goto target
	action     byte
}

func compareRules(a, b ipRule) int {
	return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.family, b.family), a.from.Compare(b.from), a.to.Compare(b.to),
		cmp.Compare(a.input, b.input), cmp.Compare(a.output, b.output), cmp.Compare(a.mark, b.mark), cmp.Compare(a.mask, b.mask),
		cmp.Compare(a.table, b.table), cmp.Compare(a.target, b.target), cmp.Compare(a.action, b.action))
}

func (k *Kernel) readRules() (map[ipRule]bool, error) {
	rules := map[ipRule]bool{}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		request := make([]byte, unix.SizeofRtMsg)
		request[0] = family
		err := k.sockets.dumpAll(unix.NETLINK_ROUTE, unix.RTM_GETRULE, request, func(msg []byte) error {
			if r, owned := parseRule(msg); owned {
				rules[r] = true
			}
			return nil
		})
		if err != nil && !errors.Is(err, syscall.EAFNOSUPPORT) && !errors.Is(err, syscall.EOPNOTSUPP) {
			return nil, fmt.Errorf("reading rules: %w", err)
		}
	}
	return rules, nil
}

func parseRule(msg []byte) (ipRule, bool) {
	if len(msg) < unix.SizeofRtMsg {
		return ipRule{}, false
	}
	a := parseBody(msg, unix.SizeofRtMsg)
	r := ipRule{
		family: msg[0], priority: a.nativeUint32(nl.FRA_PRIORITY), input: a.stringOf(nl.FRA_IIFNAME), output: a.stringOf(nl.FRA_OIFNAME),
		mark: a.nativeUint32(nl.FRA_FWMARK), mask: a.nativeUint32(nl.FRA_FWMASK), table: a.nativeUint32(nl.FRA_TABLE),
		target: a.nativeUint32(nl.FRA_GOTO), action: msg[7],
	}
	if a[nl.FRA_SRC] != nil {
		r.from = a.prefixOf(nl.FRA_SRC, int(msg[2]), r.family)
	}
	if a[nl.FRA_DST] != nil {
		r.to = a.prefixOf(nl.FRA_DST, int(msg[1]), r.family)
	}
	return r, a.uint8Of(nl.FRA_PROTOCOL) == datapath.Protocol
}

func ruleOf(w datapath.Rule) ipRule {
	r := ipRule{
		family: unix.AF_INET, priority: uint32(w.Priority), input: w.Input, output: w.Output,
		mark: w.Mark, table: uint32(w.Table), action: toTable,
	}
	if w.Family == datapath.IPv6 {
		r.family = unix.AF_INET6
	}
	switch {
	case w.Unreachable:
		r.table, r.action = 0, toUnreachable
	case w.GoTo != 0:
		r.table, r.target, r.action = 0, uint32(w.GoTo), toRule
	case w.Nop:
		r.table, r.action = 0, toNext
	}
	if w.Mark != 0 {
		r.mask = math.MaxUint32
	}
	if w.From.Bits() > 0 {
		r.from = w.From.Masked()
	}
	if w.To.Bits() > 0 {
		r.to = w.To.Masked()
	}
	return r
}

func (r ipRule) toDatapath() datapath.Rule {
	out := datapath.Rule{
		Priority: int(r.priority), Family: datapath.IPv4, From: r.from, To: r.to, Input: r.input, Output: r.output,
		Mark: r.mark, Table: int(r.table), Unreachable: r.action == toUnreachable,
		GoTo: int(r.target), Nop: r.action == toNext,
	}
	if r.family == unix.AF_INET6 {
		out.Family = datapath.IPv6
	}
	return out
}

// requestBody returns the body of a netlink message about the rule.
func (r ipRule) requestBody() []byte {
	head := make([]byte, unix.SizeofRtMsg)
	head[0], head[7] = r.family, r.action
	out := joinBytes(encodeAttr(nl.FRA_PRIORITY, nativeUint32(r.priority)), encodeAttr(nl.FRA_PROTOCOL, []byte{datapath.Protocol}))
	if r.to.IsValid() {
		head[1] = byte(r.to.Bits())
		out = joinBytes(out, encodeAttr(nl.FRA_DST, r.to.Addr().AsSlice()))
	}
	if r.from.IsValid() {
		head[2] = byte(r.from.Bits())
		out = joinBytes(out, encodeAttr(nl.FRA_SRC, r.from.Addr().AsSlice()))
	}
	if r.input != "" {
		out = joinBytes(out, encodeAttr(nl.FRA_IIFNAME, zeroEnded(r.input)))
	}
	if r.output != "" {
		out = joinBytes(out, encodeAttr(nl.FRA_OIFNAME, zeroEnded(r.output)))
	}
	if r.mask != 0 {
		out = joinBytes(out, encodeAttr(nl.FRA_FWMARK, nativeUint32(r.mark)), encodeAttr(nl.FRA_FWMASK, nativeUint32(r.mask)))
	}
	if r.table != 0 {
		out = joinBytes(out, encodeAttr(nl.FRA_TABLE, nativeUint32(r.table)))
	}
	if r.target != 0 {
		out = joinBytes(out, encodeAttr(nl.FRA_GOTO, nativeUint32(r.target)))
	}
	return joinBytes(head, out)
}

func (r *applyRun) wantedRules() map[ipRule]bool {
	out := map[ipRule]bool{}
	for _, w := range r.want.Rules {
		out[ruleOf(w)] = true
	}
	return out
}

func (r *applyRun) addRules() {
	for _, one := range missingKeys(r.wantedRules(), r.have.rules, compareRules) {
		r.writeKernel("add "+one.toDatapath().String(), func() error {
			_, err := r.sockets.sendRequest(unix.NETLINK_ROUTE, unix.RTM_NEWRULE, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, one.requestBody())
			return explainConflict(err)
		})
	}
}

// removeRules removes surplus rules: with replaced, only rules with a wanted one at the same priority; without, only the rest.
func (r *applyRun) removeRules(replaced bool) {
	type place struct {
		family   byte
		priority uint32
	}
	want := r.wantedRules()
	places := map[place]bool{}
	for one := range want {
		places[place{one.family, one.priority}] = true
	}
	for _, one := range surplusKeys(want, r.have.rules, compareRules) {
		if places[place{one.family, one.priority}] != replaced {
			continue
		}
		if r.writeKernel("delete "+one.toDatapath().String(), func() error {
			_, err := r.sockets.sendRequest(unix.NETLINK_ROUTE, unix.RTM_DELRULE, unix.NLM_F_ACK, one.requestBody())
			return err
		}, gone...) {
			delete(r.have.rules, one)
		}
	}
}
