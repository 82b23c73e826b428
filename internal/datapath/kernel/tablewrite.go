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

// Policies of base chains, as the kernel numbers them.
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

func baseOf(c datapath.Chain) (baseChain, error) {
	if c.Hook == "" {
		return baseChain{}, nil
	}
	hook, ok := hooks[c.Hook]
	if !ok || c.Type != datapath.Filter && c.Type != datapath.NAT {
		return baseChain{}, fmt.Errorf("chain %s has no hook %q of type %q", c.Name, c.Hook, c.Type)
	}
	b := baseChain{kind: string(c.Type), hook: hook, priority: int32(c.Priority), policy: policyAccept}
	if c.Policy == datapath.Drop {
		b.policy = policyDrop
	}
	return b, nil
}

// builtTable is a wanted table with compiled rules.
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
	baseChain
	rules  []compiledRule
	hashes []string
}

func buildTable(t datapath.Table) (builtTable, error) {
	out := builtTable{id: idOf(t), counters: t.Counters}
	for _, s := range t.Sets {
		form, err := formOf(t.Family, s)
		if err != nil {
			return out, err
		}
		elements, err := flattenElements(s)
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
		chain := builtChain{name: c.Name, baseChain: b}
		for _, rule := range c.Rules {
			one, err := compileRule(t, rule)
			if err != nil {
				return out, fmt.Errorf("chain %s: %w", c.Name, err)
			}
			hash, err := one.contentHash(out.id.family)
			if err != nil {
				return out, fmt.Errorf("chain %s: rule %q: %w", c.Name, one.text, err)
			}
			chain.rules, chain.hashes = append(chain.rules, one), append(chain.hashes, hash)
		}
		out.chains = append(out.chains, chain)
	}
	return out, nil
}

// applyTables changes all tables in one transaction and returns false if our own tables are not as wanted afterwards. An invalid table of a user does
// not stop our own tables.
func (r *applyRun) applyTables() bool {
	want := map[tableID]bool{}
	var owned, users []builtTable
	for _, t := range r.want.Tables {
		id := idOf(t)
		twice := want[id]
		want[id] = true
		built, err := buildTable(t)
		switch current := r.have.tables[id]; {
		case twice:
			r.errs = append(r.errs, fmt.Errorf("table %s %s is requested twice: only the first is created", t.Family, t.Name))
		case err != nil && t.Name == datapath.TableName:
			r.errs = append(r.errs, fmt.Errorf("building table %s %s: %w", t.Family, t.Name, err))
			return false
		case err != nil:
			r.errs = append(r.errs, fmt.Errorf("building table %s %s: %w", t.Family, t.Name, err))
		case current != nil && !current.ours:
			r.errs = append(r.errs, fmt.Errorf("table %s %s already exists and was not created by Liqo: it is left alone", t.Family, t.Name))
		case t.Name == datapath.TableName:
			owned = append(owned, built)
		default:
			users = append(users, built)
		}
	}
	return r.commitTables(want, owned, users)
}

// commitTables commits all tables in one transaction. If the kernel refuses, the reason may be a user's table: then our own tables are committed
// without the users' tables, and each user's table alone.
func (r *applyRun) commitTables(want map[tableID]bool, owned, users []builtTable) bool {
	whole := r.removeTables(want)
	for _, t := range append(slices.Clone(owned), users...) {
		r.addTransaction(whole, t)
	}
	count := len(r.errs)
	if r.commitBatch(whole) || len(users) == 0 {
		return len(r.errs) == count
	}
	r.errs = r.errs[:count] // the retry reports the error with its table
	essential := r.removeTables(want)
	for _, t := range owned {
		r.addTransaction(essential, t)
	}
	if !r.commitBatch(essential) {
		return false
	}
	for _, t := range users {
		one := &batch{}
		r.addTransaction(one, t)
		r.commitBatch(one)
	}
	return true
}

func (r *applyRun) commitBatch(b *batch) bool {
	return b.isEmpty() || r.writeKernel(b.text(), func() error { return r.sockets.commitBatch(b) })
}

// removeTables returns the deletion of all our tables that are not wanted.
func (r *applyRun) removeTables(want map[tableID]bool) *batch {
	b := &batch{}
	for _, id := range slices.SortedFunc(maps.Keys(r.have.tables), compareTables) {
		if r.have.tables[id].ours && !want[id] {
			b.addMessage(id, unix.NFT_MSG_DELTABLE, 0, "delete all", encodeAttr(unix.NFTA_TABLE_NAME, zeroEnded(id.name)))
		}
	}
	return b
}

// addTransaction adds the changes from the present to the wanted table.
func (r *applyRun) addTransaction(b *batch, t builtTable) {
	current := r.have.tables[t.id]
	if current == nil {
		b.addMessage(t.id, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, "add all", encodeAttr(unix.NFTA_TABLE_NAME, zeroEnded(t.id.name)))
		current = &kernelTable{}
	}
	if !t.id.isOurs() && !current.marked {
		b.newChain(t.id, builtChain{name: markChain})
		b.flushChain(t.id, markChain)
	}
	b.addTable(t, current)
}

func compareTables(a, b tableID) int {
	return cmp.Or(cmp.Compare(a.family, b.family), cmp.Compare(a.name, b.name))
}

// addTable adds the differences. Users of an object are removed before the object, and an object is added before its users.
func (b *batch) addTable(t builtTable, current *kernelTable) {
	rebuilt := slices.ContainsFunc(t.sets, func(s builtSet) bool {
		old := current.sets[s.name]
		return old != nil && !old.canHold(s.form)
	})
	fresh := map[string]bool{} // chains whose rules are all added
	wanted := map[string]builtChain{}
	for _, c := range t.chains {
		wanted[c.name] = c
		old := current.chains[c.name]
		fresh[c.name] = old == nil || rebuilt || !old.canUpdate(c) || !slices.EqualFunc(old.rules, c.hashes, func(r kernelRule, hash string) bool { return r.hash == hash })
	}
	for _, name := range slices.Sorted(maps.Keys(current.chains)) {
		if _, ok := wanted[name]; (!ok || fresh[name]) && len(current.chains[name].rules) > 0 {
			b.flushChain(t.id, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(current.chains)) {
		if c, ok := wanted[name]; !ok || !current.chains[name].canUpdate(c) {
			b.addMessage(t.id, unix.NFT_MSG_DELCHAIN, 0, "delete chain "+name, encodeAttr(unix.NFTA_CHAIN_TABLE, zeroEnded(t.id.name)), encodeAttr(unix.NFTA_CHAIN_NAME, zeroEnded(name)))
		}
	}
	b.setsOf(t, current)
	b.countersOf(t, current)
	for _, c := range t.chains {
		if old := current.chains[c.name]; old == nil || old.baseChain != c.baseChain {
			b.newChain(t.id, c)
		}
	}
	for _, c := range t.chains {
		if fresh[c.name] {
			b.addRules(t.id, c)
		}
	}
}

// canUpdate reports whether the chain can become the wanted one in place: only a policy can change.
func (c *kernelChain) canUpdate(want builtChain) bool {
	current := c.baseChain
	current.policy = want.policy
	return current == want.baseChain
}

func (b *batch) newChain(id tableID, c builtChain) {
	attrs := joinBytes(encodeAttr(unix.NFTA_CHAIN_TABLE, zeroEnded(id.name)), encodeAttr(unix.NFTA_CHAIN_NAME, zeroEnded(c.name)))
	if c.kind != "" {
		attrs = joinBytes(attrs,
			encodeNested(unix.NFTA_CHAIN_HOOK, encodeAttr(unix.NFTA_HOOK_HOOKNUM, bigUint32(c.hook)), encodeAttr(unix.NFTA_HOOK_PRIORITY, bigUint32(c.priority))),
			encodeAttr(unix.NFTA_CHAIN_POLICY, bigUint32(c.policy)), encodeAttr(unix.NFTA_CHAIN_TYPE, zeroEnded(c.kind)))
	}
	b.addMessage(id, unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, "add chain "+c.name, attrs)
}

func (b *batch) flushChain(id tableID, name string) {
	b.addMessage(id, unix.NFT_MSG_DELRULE, 0, "flush chain "+name, encodeAttr(unix.NFTA_RULE_TABLE, zeroEnded(id.name)), encodeAttr(unix.NFTA_RULE_CHAIN, zeroEnded(name)))
}

func (b *batch) countersOf(t builtTable, current *kernelTable) {
	counter := func(name string) []byte {
		return joinBytes(encodeAttr(unix.NFTA_OBJ_TABLE, zeroEnded(t.id.name)), encodeAttr(unix.NFTA_OBJ_NAME, zeroEnded(name)), encodeAttr(unix.NFTA_OBJ_TYPE, bigUint32(uint32(unix.NFT_OBJECT_COUNTER))))
	}
	for _, name := range slices.Sorted(maps.Keys(current.counters)) {
		if !slices.Contains(t.counters, name) {
			b.addMessage(t.id, unix.NFT_MSG_DELOBJ, 0, "delete counter "+name, counter(name))
		}
	}
	for _, name := range t.counters {
		if _, ok := current.counters[name]; !ok {
			b.addMessage(t.id, unix.NFT_MSG_NEWOBJ, unix.NLM_F_CREATE|unix.NLM_F_EXCL, "add counter "+name, counter(name), encodeNested(unix.NFTA_OBJ_DATA))
		}
	}
}

func (b *batch) setsOf(t builtTable, current *kernelTable) {
	wanted := map[string]builtSet{}
	for _, s := range t.sets {
		wanted[s.name] = s
	}
	for _, name := range slices.Sorted(maps.Keys(current.sets)) {
		if s, ok := wanted[name]; !ok || !current.sets[name].canHold(s.form) {
			b.addMessage(t.id, unix.NFT_MSG_DELSET, 0, "delete set "+name, encodeAttr(unix.NFTA_SET_TABLE, zeroEnded(t.id.name)), encodeAttr(unix.NFTA_SET_NAME, zeroEnded(name)))
		}
	}
	for _, s := range t.sets {
		old := current.sets[s.name]
		if old == nil || !old.canHold(s.form) {
			b.newSet(t.id, s.name, s.form, b.nextSet(), false)
			b.addElements(t.id, unix.NFT_MSG_NEWSETELEM, s, slices.SortedFunc(maps.Keys(s.elements), compareIntervals))
			continue
		}
		s.form = old.setForm // it may be an interval set, with another encoding of elements
		b.addElements(t.id, unix.NFT_MSG_DELSETELEM, builtSet{s.name, s.form, old.elements}, differingElements(old.elements, s.elements))
		b.addElements(t.id, unix.NFT_MSG_NEWSETELEM, s, missingKeys(s.elements, old.elements, compareIntervals))
	}
}

// differingElements returns the elements to delete from a set: surplus elements and elements with another value.
func differingElements(current, want map[interval]string) []interval {
	return missingKeys(current, want, compareIntervals)
}

// Byte orders of keys in the user data of a set, as nft encodes them.
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
	attrs := joinBytes(encodeAttr(unix.NFTA_SET_TABLE, zeroEnded(id.name)), encodeAttr(unix.NFTA_SET_NAME, zeroEnded(name)),
		encodeAttr(unix.NFTA_SET_FLAGS, bigUint32(form.flags)), encodeAttr(unix.NFTA_SET_KEY_TYPE, bigUint32(form.keyType)), encodeAttr(unix.NFTA_SET_KEY_LEN, bigUint32(form.keyLen)),
		encodeAttr(unix.NFTA_SET_ID, bigUint32(number)))
	if form.flags&unix.NFT_SET_MAP != 0 {
		attrs = joinBytes(attrs, encodeAttr(unix.NFTA_SET_DATA_TYPE, bigUint32(form.dataType)), encodeAttr(unix.NFTA_SET_DATA_LEN, bigUint32(form.dataLen)))
		memory = append(memory, nftDataOrder, 4, nftNetwork, 0, 0, 0)
	}
	if form.flags&setConcat != 0 {
		const concat, fieldLength = 2, 1
		var fields []byte
		for _, size := range fieldSizes(form.keyType) {
			fields = append(fields, encodeNested(unix.NFTA_LIST_ELEM, encodeAttr(fieldLength, bigUint32(size)))...)
		}
		attrs = joinBytes(attrs, encodeNested(unix.NFTA_SET_DESC, encodeNested(concat, fields)))
	}
	what := "add set " + name
	if form.flags&unix.NFT_SET_ANONYMOUS != 0 {
		what = ""
	}
	b.addMessage(id, unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, what, attrs, encodeAttr(unix.NFTA_SET_USERDATA, memory))
}

// fieldSizes returns the lengths of the types of a concatenation.
func fieldSizes(magic uint32) []uint32 {
	sizes := map[uint32]uint32{magicIPv4: 4, magicIPv6: 16, magicProtocol: 1, magicPort: 2}
	var out []uint32
	for ; magic != 0; magic >>= magicBits {
		out = append(out, sizes[magic&(1<<magicBits-1)])
	}
	slices.Reverse(out)
	return out
}

// elementsPerMessage keeps a list of elements below 64 KiB, the limit of an attribute.
const elementsPerMessage = 250

func (b *batch) addElements(id tableID, message int, s builtSet, keys []interval) {
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
			list = append(list, key.encodeElement(s.elements[key], s.form)...)
		}
		attrs := joinBytes(encodeAttr(unix.NFTA_SET_ELEM_LIST_TABLE, zeroEnded(id.name)), encodeAttr(unix.NFTA_SET_ELEM_LIST_SET, zeroEnded(s.name)))
		what := fmt.Sprintf("%s %d elements of %s", verb, len(chunk), s.name)
		if number != 0 {
			attrs, what = joinBytes(attrs, encodeAttr(unix.NFTA_SET_ELEM_LIST_SET_ID, bigUint32(number))), ""
		}
		b.addMessage(id, message, flags, what, attrs, encodeNested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, list))
	}
}

func (b *batch) addRules(id tableID, c builtChain) {
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
			one, err := p.encode(id.family)
			if err != nil {
				b.addError(err)
				return
			}
			list = append(list, encodeNested(unix.NFTA_LIST_ELEM, one)...)
		}
		b.addMessage(id, unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, fmt.Sprintf("add rule %s %s", c.name, rule.text),
			encodeAttr(unix.NFTA_RULE_TABLE, zeroEnded(id.name)), encodeAttr(unix.NFTA_RULE_CHAIN, zeroEnded(c.name)),
			encodeNested(unix.NFTA_RULE_EXPRESSIONS, list), encodeAttr(unix.NFTA_RULE_USERDATA, encodeUserData(c.hashes[i], rule.text)))
	}
}
