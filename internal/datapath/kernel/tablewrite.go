// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
)

// Policies of base chains, by the kernel's numbers.
const (
	policyDrop   = 0
	policyAccept = 1
)

var hooks = map[datapath.Hook]uint32{
	datapath.Prerouting: unix.NF_INET_PRE_ROUTING, datapath.Input: unix.NF_INET_LOCAL_IN, datapath.Forward: unix.NF_INET_FORWARD,
	datapath.Output: unix.NF_INET_LOCAL_OUT, datapath.Postrouting: unix.NF_INET_POST_ROUTING,
}

func hookName(number uint32) datapath.Hook {
	for name, n := range hooks {
		if n == number {
			return name
		}
	}
	return ""
}

func baseOf(c datapath.Chain) (base, error) {
	if c.Hook == "" {
		return base{}, nil
	}
	hook, ok := hooks[c.Hook]
	if !ok || c.Type != datapath.Filter && c.Type != datapath.NAT {
		return base{}, fmt.Errorf("chain %s has no hook %q of type %q", c.Name, c.Hook, c.Type)
	}
	b := base{kind: string(c.Type), hook: hook, priority: int32(c.Priority), policy: policyAccept}
	if c.Policy == datapath.Drop {
		b.policy = policyDrop
	}
	return b, nil
}

// builtTable is a wanted table in the kernel's terms.
type builtTable struct {
	id       tableID
	counters []string
	sets     []builtSet
	chains   []builtChain
}

type builtSet struct {
	name     string
	form     setForm
	elements map[interval]string
}

type builtChain struct {
	name string
	base
	rules  []compiled
	hashes []string
}

func build(t datapath.Table) (builtTable, error) {
	out := builtTable{id: idOf(t), counters: t.Counters}
	for _, s := range t.Sets {
		form, err := formOf(t.Family, s)
		if err != nil {
			return out, err
		}
		elements, err := flat(s)
		if err != nil {
			return out, err
		}
		out.sets = append(out.sets, builtSet{s.Name, form, elements})
	}
	for _, c := range t.Chains {
		b, err := baseOf(c)
		if err != nil {
			return out, err
		}
		chain := builtChain{name: c.Name, base: b}
		for _, rule := range c.Rules {
			one, err := compile(t, rule)
			if err != nil {
				return out, fmt.Errorf("chain %s: %w", c.Name, err)
			}
			hash, err := one.hash(out.id.family)
			if err != nil {
				return out, fmt.Errorf("chain %s: rule %q: %w", c.Name, one.text, err)
			}
			chain.rules, chain.hashes = append(chain.rules, one), append(chain.hashes, hash)
		}
		out.chains = append(out.chains, chain)
	}
	return out, nil
}

// applyTables changes all tables in one transaction, and is false if ours are not as wanted after it. A table of a user's that
// cannot be made does not stop ours.
func (r *run) applyTables() bool {
	want := map[tableID]bool{}
	var ours, users []builtTable
	for _, t := range r.want.Tables {
		id := idOf(t)
		twice := want[id]
		want[id] = true
		built, err := build(t)
		switch have := r.have.tables[id]; {
		case twice:
			r.errs = append(r.errs, fmt.Errorf("table %s %s is wanted twice: only the first is made", t.Family, t.Name))
		case err != nil && t.Name == datapath.TableName:
			r.errs = append(r.errs, fmt.Errorf("building table %s %s: %w", t.Family, t.Name, err))
			return false
		case err != nil:
			r.errs = append(r.errs, fmt.Errorf("building table %s %s: %w", t.Family, t.Name, err))
		case have != nil && !have.ours:
			r.errs = append(r.errs, fmt.Errorf("table %s %s is there already and is not ours: it stays as it is", t.Family, t.Name))
		case t.Name == datapath.TableName:
			ours = append(ours, built)
		default:
			users = append(users, built)
		}
	}
	return r.commitTables(want, ours, users)
}

// commitTables writes all in one transaction. If the kernel refuses that, a table of a user's may be the reason: then each goes
// alone, and ours do not depend on it.
func (r *run) commitTables(want map[tableID]bool, ours, users []builtTable) bool {
	whole := r.removal(want)
	for _, t := range append(slices.Clone(ours), users...) {
		r.transaction(whole, t)
	}
	told := len(r.errs)
	if r.commit(whole) || len(users) == 0 {
		return len(r.errs) == told
	}
	r.errs = r.errs[:told] // it is told of the table that it is about
	essential := r.removal(want)
	for _, t := range ours {
		r.transaction(essential, t)
	}
	if !r.commit(essential) {
		return false
	}
	for _, t := range users {
		one := &batch{}
		r.transaction(one, t)
		r.commit(one)
	}
	return true
}

func (r *run) commit(b *batch) bool {
	return b.empty() || r.write(b.text(), func() error { return r.sockets.commit(b) })
}

// removal is the deletion of all tables of ours that are not wanted.
func (r *run) removal(want map[tableID]bool) *batch {
	b := &batch{}
	for _, id := range slices.SortedFunc(maps.Keys(r.have.tables), compareTables) {
		if r.have.tables[id].ours && !want[id] {
			b.add(id, unix.NFT_MSG_DELTABLE, 0, "delete all", attr(unix.NFTA_TABLE_NAME, zeroEnded(id.name)))
		}
	}
	return b
}

// transaction makes a table the wanted one.
func (r *run) transaction(b *batch, t builtTable) {
	have := r.have.tables[t.id]
	if have == nil {
		b.add(t.id, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, "add all", attr(unix.NFTA_TABLE_NAME, zeroEnded(t.id.name)))
		have = &heldTable{}
	}
	if !t.id.named() && !have.marked {
		b.newChain(t.id, builtChain{name: markChain})
		b.flushChain(t.id, markChain)
	}
	b.table(t, have)
}

func compareTables(a, b tableID) int {
	return cmp.Or(cmp.Compare(a.family, b.family), cmp.Compare(a.name, b.name))
}

// table adds what is different. What goes is taken from those that use it before; what comes is there before it is used.
func (b *batch) table(t builtTable, have *heldTable) {
	rebuilt := slices.ContainsFunc(t.sets, func(s builtSet) bool {
		old := have.sets[s.name]
		return old != nil && !old.holds(s.form)
	})
	fresh := map[string]bool{} // chains whose rules are all to be added
	wanted := map[string]builtChain{}
	for _, c := range t.chains {
		wanted[c.name] = c
		old := have.chains[c.name]
		fresh[c.name] = old == nil || rebuilt || !old.remade(c) || !slices.EqualFunc(old.rules, c.hashes, func(r heldRule, hash string) bool { return r.hash == hash })
	}
	for _, name := range slices.Sorted(maps.Keys(have.chains)) {
		if _, ok := wanted[name]; (!ok || fresh[name]) && len(have.chains[name].rules) > 0 {
			b.flushChain(t.id, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have.chains)) {
		if c, ok := wanted[name]; !ok || !have.chains[name].remade(c) {
			b.add(t.id, unix.NFT_MSG_DELCHAIN, 0, "delete chain "+name, attr(unix.NFTA_CHAIN_TABLE, zeroEnded(t.id.name)), attr(unix.NFTA_CHAIN_NAME, zeroEnded(name)))
		}
	}
	b.setsOf(t, have)
	b.countersOf(t, have)
	for _, c := range t.chains {
		if old := have.chains[c.name]; old == nil || old.base != c.base {
			b.newChain(t.id, c)
		}
	}
	for _, c := range t.chains {
		if fresh[c.name] {
			b.rules(t.id, c)
		}
	}
}

// remade is true if a chain can become the wanted one in place: only a policy changes.
func (c *heldChain) remade(want builtChain) bool {
	have := c.base
	have.policy = want.policy
	return have == want.base
}

func (b *batch) newChain(id tableID, c builtChain) {
	attrs := join(attr(unix.NFTA_CHAIN_TABLE, zeroEnded(id.name)), attr(unix.NFTA_CHAIN_NAME, zeroEnded(c.name)))
	if c.kind != "" {
		attrs = join(attrs,
			nested(unix.NFTA_CHAIN_HOOK, attr(unix.NFTA_HOOK_HOOKNUM, big32(c.hook)), attr(unix.NFTA_HOOK_PRIORITY, big32(c.priority))),
			attr(unix.NFTA_CHAIN_POLICY, big32(c.policy)), attr(unix.NFTA_CHAIN_TYPE, zeroEnded(c.kind)))
	}
	b.add(id, unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, "add chain "+c.name, attrs)
}

func (b *batch) flushChain(id tableID, name string) {
	b.add(id, unix.NFT_MSG_DELRULE, 0, "flush chain "+name, attr(unix.NFTA_RULE_TABLE, zeroEnded(id.name)), attr(unix.NFTA_RULE_CHAIN, zeroEnded(name)))
}

func (b *batch) countersOf(t builtTable, have *heldTable) {
	counter := func(name string) []byte {
		return join(attr(unix.NFTA_OBJ_TABLE, zeroEnded(t.id.name)), attr(unix.NFTA_OBJ_NAME, zeroEnded(name)), attr(unix.NFTA_OBJ_TYPE, big32(uint32(unix.NFT_OBJECT_COUNTER))))
	}
	for _, name := range slices.Sorted(maps.Keys(have.counters)) {
		if !slices.Contains(t.counters, name) {
			b.add(t.id, unix.NFT_MSG_DELOBJ, 0, "delete counter "+name, counter(name))
		}
	}
	for _, name := range t.counters {
		if _, ok := have.counters[name]; !ok {
			b.add(t.id, unix.NFT_MSG_NEWOBJ, unix.NLM_F_CREATE|unix.NLM_F_EXCL, "add counter "+name, counter(name), nested(unix.NFTA_OBJ_DATA))
		}
	}
}

func (b *batch) setsOf(t builtTable, have *heldTable) {
	wanted := map[string]builtSet{}
	for _, s := range t.sets {
		wanted[s.name] = s
	}
	for _, name := range slices.Sorted(maps.Keys(have.sets)) {
		if s, ok := wanted[name]; !ok || !have.sets[name].holds(s.form) {
			b.add(t.id, unix.NFT_MSG_DELSET, 0, "delete set "+name, attr(unix.NFTA_SET_TABLE, zeroEnded(t.id.name)), attr(unix.NFTA_SET_NAME, zeroEnded(name)))
		}
	}
	for _, s := range t.sets {
		old := have.sets[s.name]
		if old == nil || !old.holds(s.form) {
			b.newSet(t.id, s.name, s.form, b.nextSet(), false)
			b.elements(t.id, unix.NFT_MSG_NEWSETELEM, s, slices.SortedFunc(maps.Keys(s.elements), compareIntervals))
			continue
		}
		s.form = old.setForm // it may be one for ranges, whose elements are written otherwise
		b.elements(t.id, unix.NFT_MSG_DELSETELEM, builtSet{s.name, s.form, old.elements}, differing(old.elements, s.elements))
		b.elements(t.id, unix.NFT_MSG_NEWSETELEM, s, missing(s.elements, old.elements, compareIntervals))
	}
}

// differing are the elements of a set that it must lose: those that are not wanted, and those wanted with another value.
func differing(have, want map[interval]string) []interval {
	return missing(have, want, compareIntervals)
}

// Byte orders of keys as nft remembers them, in attributes of its own.
const (
	nftKeyOrder  = 0
	nftDataOrder = 1
	nftHost      = 1
	nftNetwork   = 2
)

func (b *batch) newSet(id tableID, name string, form setForm, number uint32, host bool) {
	keyOrder := byte(nftNetwork)
	if host {
		keyOrder = nftHost
	}
	memory := []byte{nftKeyOrder, 4, keyOrder, 0, 0, 0}
	attrs := join(attr(unix.NFTA_SET_TABLE, zeroEnded(id.name)), attr(unix.NFTA_SET_NAME, zeroEnded(name)),
		attr(unix.NFTA_SET_FLAGS, big32(form.flags)), attr(unix.NFTA_SET_KEY_TYPE, big32(form.keyType)), attr(unix.NFTA_SET_KEY_LEN, big32(form.keyLen)),
		attr(unix.NFTA_SET_ID, big32(number)))
	if form.flags&unix.NFT_SET_MAP != 0 {
		attrs = join(attrs, attr(unix.NFTA_SET_DATA_TYPE, big32(form.dataType)), attr(unix.NFTA_SET_DATA_LEN, big32(form.dataLen)))
		memory = append(memory, nftDataOrder, 4, nftNetwork, 0, 0, 0)
	}
	if form.flags&setConcat != 0 {
		const concat, fieldLength = 2, 1
		var fields []byte
		for _, size := range fieldSizes(form.keyType) {
			fields = append(fields, nested(unix.NFTA_LIST_ELEM, attr(fieldLength, big32(size)))...)
		}
		attrs = join(attrs, nested(unix.NFTA_SET_DESC, nested(concat, fields)))
	}
	what := "add set " + name
	if form.flags&unix.NFT_SET_ANONYMOUS != 0 {
		what = ""
	}
	b.add(id, unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, what, attrs, attr(unix.NFTA_SET_USERDATA, memory))
}

// fieldSizes are the lengths of concatenated types.
func fieldSizes(magic uint32) []uint32 {
	sizes := map[uint32]uint32{magicIPv4: 4, magicIPv6: 16, magicProtocol: 1, magicPort: 2}
	var out []uint32
	for ; magic != 0; magic >>= magicBits {
		out = append(out, sizes[magic&(1<<magicBits-1)])
	}
	slices.Reverse(out)
	return out
}

// elementsPerMessage keeps a list of elements below the 64 KiB that an attribute can hold.
const elementsPerMessage = 250

func (b *batch) elements(id tableID, message int, s builtSet, keys []interval) {
	b.elementsByNumber(id, message, s, keys, 0)
}

func (b *batch) elementsByNumber(id tableID, message int, s builtSet, keys []interval, number uint32) {
	verb, flags := "add", unix.NLM_F_CREATE
	if message == unix.NFT_MSG_DELSETELEM {
		verb, flags = "delete", 0
	}
	for chunk := range slices.Chunk(keys, elementsPerMessage) {
		var list []byte
		for _, key := range chunk {
			list = append(list, key.encoded(s.elements[key], s.form)...)
		}
		attrs := join(attr(unix.NFTA_SET_ELEM_LIST_TABLE, zeroEnded(id.name)), attr(unix.NFTA_SET_ELEM_LIST_SET, zeroEnded(s.name)))
		what := fmt.Sprintf("%s %d elements of %s", verb, len(chunk), s.name)
		if number != 0 {
			attrs, what = join(attrs, attr(unix.NFTA_SET_ELEM_LIST_SET_ID, big32(number))), ""
		}
		b.add(id, message, flags, what, attrs, nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, list))
	}
}

func (b *batch) rules(id tableID, c builtChain) {
	for i, rule := range c.rules {
		for _, s := range rule.sets {
			number := b.nextSet()
			s.lookup.SetID = number
			name := s.lookup.SetName
			b.newSet(id, name, s.form, number, s.host)
			b.elementsByNumber(id, unix.NFT_MSG_NEWSETELEM, builtSet{name, s.form, s.elements}, slices.SortedFunc(maps.Keys(s.elements), compareIntervals), number)
		}
		var list []byte
		for _, p := range rule.parts {
			one, err := p.bytes(id.family)
			if err != nil {
				b.fail(err)
				return
			}
			list = append(list, nested(unix.NFTA_LIST_ELEM, one)...)
		}
		b.add(id, unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, fmt.Sprintf("add rule %s %s", c.name, rule.text),
			attr(unix.NFTA_RULE_TABLE, zeroEnded(id.name)), attr(unix.NFTA_RULE_CHAIN, zeroEnded(c.name)),
			nested(unix.NFTA_RULE_EXPRESSIONS, list), attr(unix.NFTA_RULE_USERDATA, memory(c.hashes[i], rule.text)))
	}
}
