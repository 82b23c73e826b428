// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
)

// markChain is an empty chain that marks our tables with names chosen by the user. Other kinds of marks are lost on kernels before 5.10.
const markChain = "liqo_made_this"

// tableID identifies an nftables table.
type tableID struct {
	family byte
	name   string
}

func idOf(t datapath.Table) tableID { return tableID{protocolFamily(t.Family), t.Name} }

// isOurs reports whether the table is ours by name. In other families than IPv4 and IPv6 the name is not reserved.
func (id tableID) isOurs() bool { return id.name == datapath.TableName && id.ofIP() }

func (id tableID) ofIP() bool {
	return id.family == unix.NFPROTO_IPV4 || id.family == unix.NFPROTO_IPV6
}

func protocolFamily(f datapath.Family) byte {
	if f == datapath.IPv4 {
		return unix.NFPROTO_IPV4
	}
	return unix.NFPROTO_IPV6
}

// kernelTable is a table in the kernel. The contents of foreign tables are not read.
type kernelTable struct {
	ours     bool
	marked   bool
	chains   map[string]*kernelChain
	sets     map[string]*kernelSet
	counters map[string]uint64 // packets
}

// kernelChain is a chain in the kernel with its rules.
type kernelChain struct {
	baseChain
	rules []kernelRule
}

// baseChain holds the properties of a base chain; the zero value for regular chains.
type baseChain struct {
	kind     string
	hook     uint32
	priority int32
	policy   uint32
}

// kernelRule is the user data of a rule: the hash and text of its source.
type kernelRule struct{ hash, text string }

// kernelSet is a set or map in the kernel.
type kernelSet struct {
	setForm
	elements map[interval]string // values are map values
}

// setForm holds the immutable properties of a set.
type setForm struct {
	keyType, keyLen   uint32
	dataType, dataLen uint32
	flags             uint32
}

func nftType(message int) int { return unix.NFNL_SUBSYS_NFTABLES<<8 | message }

func encodeGenmsg(family byte) []byte { return []byte{family, unix.NFNETLINK_V0, 0, 0} }

// sizeofGenmsg is the length of the header of netfilter messages.
const sizeofGenmsg = 4

// readNames dumps the names of all tables and chains.
func (k *Kernel) readNames() (map[tableID]*kernelTable, error) {
	tables := map[tableID]*kernelTable{}
	if err := k.readNFT(unix.NFT_MSG_GETTABLE, encodeGenmsg(unix.NFPROTO_UNSPEC), func(family byte, a attributes) {
		id := tableID{family, a.stringOf(unix.NFTA_TABLE_NAME)}
		tables[id] = &kernelTable{ours: id.isOurs(), chains: map[string]*kernelChain{}, sets: map[string]*kernelSet{}, counters: map[string]uint64{}}
	}); err != nil {
		return nil, fmt.Errorf("reading tables of nftables: %w", err)
	}
	if err := k.readChains(tables); err != nil {
		return nil, fmt.Errorf("reading chains of nftables: %w", err)
	}
	return tables, nil
}

// readTables reads our tables with their contents, and the names of foreign ones.
func (k *Kernel) readTables() (map[tableID]*kernelTable, error) {
	tables, err := k.readNames()
	if err != nil {
		return nil, err
	}
	return tables, k.readOurs(tables)
}

// readOurs reads the contents of our tables in a fixed order, so that a persistent failure has a stable text: callers report an error again if the
// text differs.
func (k *Kernel) readOurs(tables map[tableID]*kernelTable) error {
	for _, id := range slices.SortedFunc(maps.Keys(tables), compareTables) {
		t := tables[id]
		if !t.ours {
			continue
		}
		if err := errors.Join(k.readTableRules(id, t), k.readSets(id, t), k.readCounters(id, t)); err != nil {
			return fmt.Errorf("reading table %s of nftables: %w", id.name, err)
		}
	}
	return nil
}

// readNFT dumps objects. A table deleted meanwhile counts as empty.
func (k *Kernel) readNFT(message int, request []byte, read func(family byte, a attributes)) error {
	err := k.sockets.dumpAll(unix.NETLINK_NETFILTER, nftType(message), request, func(msg []byte) error {
		if len(msg) >= sizeofGenmsg {
			read(msg[0], parseBody(msg, sizeofGenmsg))
		}
		return nil
	})
	if errors.Is(err, syscall.ENOENT) {
		return nil
	}
	return err
}

func (k *Kernel) readChains(tables map[tableID]*kernelTable) error {
	return k.readNFT(unix.NFT_MSG_GETCHAIN, encodeGenmsg(unix.NFPROTO_UNSPEC), func(family byte, a attributes) {
		id, name := tableID{family, a.stringOf(unix.NFTA_CHAIN_TABLE)}, a.stringOf(unix.NFTA_CHAIN_NAME)
		t := tables[id]
		switch {
		case t == nil:
		case name == markChain && id.ofIP():
			t.ours, t.marked = true, true
		default:
			c := &kernelChain{}
			if hook, ok := a[unix.NFTA_CHAIN_HOOK]; ok {
				h := parseAttrs(hook)
				c.baseChain = baseChain{
					a.stringOf(unix.NFTA_CHAIN_TYPE), h.bigUint32(unix.NFTA_HOOK_HOOKNUM), int32(h.bigUint32(unix.NFTA_HOOK_PRIORITY)),
					a.bigUint32(unix.NFTA_CHAIN_POLICY),
				}
			}
			t.chains[name] = c
		}
	})
}

func (id tableID) requestBody(table uint16) []byte {
	return joinBytes(encodeGenmsg(id.family), encodeAttr(table, zeroEnded(id.name)))
}

func (k *Kernel) readTableRules(id tableID, t *kernelTable) error {
	return k.readNFT(unix.NFT_MSG_GETRULE, id.requestBody(unix.NFTA_RULE_TABLE), func(family byte, a attributes) {
		if c := t.chains[a.stringOf(unix.NFTA_RULE_CHAIN)]; c != nil && family == id.family {
			c.rules = append(c.rules, decodeUserData(a[unix.NFTA_RULE_USERDATA]))
		} else if c == nil && a.stringOf(unix.NFTA_RULE_CHAIN) == markChain {
			t.marked = false // the mark chain must be empty; the transaction empties it
		}
	})
}

func (k *Kernel) readSets(id tableID, t *kernelTable) error {
	if err := k.readNFT(unix.NFT_MSG_GETSET, id.requestBody(unix.NFTA_SET_TABLE), func(family byte, a attributes) {
		if family != id.family || a.stringOf(unix.NFTA_SET_TABLE) != id.name || a.bigUint32(unix.NFTA_SET_FLAGS)&unix.NFT_SET_ANONYMOUS != 0 {
			return
		}
		t.sets[a.stringOf(unix.NFTA_SET_NAME)] = &kernelSet{setForm: setForm{
			a.bigUint32(unix.NFTA_SET_KEY_TYPE), a.bigUint32(unix.NFTA_SET_KEY_LEN), a.bigUint32(unix.NFTA_SET_DATA_TYPE),
			a.bigUint32(unix.NFTA_SET_DATA_LEN), a.bigUint32(unix.NFTA_SET_FLAGS),
		}}
	}); err != nil {
		return err
	}
	return k.readElements(id, t)
}

func (k *Kernel) readElements(id tableID, t *kernelTable) error {
	for _, name := range slices.Sorted(maps.Keys(t.sets)) {
		s := t.sets[name]
		var raw []rawElement
		request := joinBytes(encodeGenmsg(id.family), encodeAttr(unix.NFTA_SET_ELEM_LIST_TABLE, zeroEnded(id.name)), encodeAttr(unix.NFTA_SET_ELEM_LIST_SET, zeroEnded(name)))
		if err := k.readNFT(unix.NFT_MSG_GETSETELEM, request, func(_ byte, a attributes) {
			eachAttr(a[unix.NFTA_SET_ELEM_LIST_ELEMENTS], func(_ uint16, data []byte) { raw = append(raw, parseElement(data)) })
		}); err != nil {
			return fmt.Errorf("reading set %s: %w", name, err)
		}
		s.elements = toIntervals(raw, s.simpleInterval())
	}
	return nil
}

// Counted returns the packets of the named counters in our own tables, summed over both families.
func (k *Kernel) Counted() (map[string]uint64, error) {
	out := map[string]uint64{}
	for _, family := range []byte{unix.NFPROTO_IPV4, unix.NFPROTO_IPV6} {
		t := &kernelTable{counters: map[string]uint64{}}
		if err := k.readCounters(tableID{family, datapath.TableName}, t); err != nil {
			return nil, fmt.Errorf("reading counters of nftables: %w", err)
		}
		for name, packets := range t.counters {
			out[name] += packets
		}
	}
	return out, nil
}

func (k *Kernel) readCounters(id tableID, t *kernelTable) error {
	return k.readNFT(unix.NFT_MSG_GETOBJ, id.requestBody(unix.NFTA_OBJ_TABLE), func(family byte, a attributes) {
		if family == id.family && a.stringOf(unix.NFTA_OBJ_TABLE) == id.name && a.bigUint32(unix.NFTA_OBJ_TYPE) == unix.NFT_OBJECT_COUNTER {
			t.counters[a.stringOf(unix.NFTA_OBJ_NAME)] = parseAttrs(a[unix.NFTA_OBJ_DATA]).bigUint64(unix.NFTA_COUNTER_PACKETS)
		}
	})
}

// toDatapath converts the table into a datapath.Table.
func (t *kernelTable) toDatapath(id tableID) datapath.Table {
	out := datapath.Table{Family: datapath.IPv4, Name: id.name, Counters: slices.Sorted(maps.Keys(t.counters))}
	if id.family == unix.NFPROTO_IPV6 {
		out.Family = datapath.IPv6
	}
	for name, s := range t.sets {
		out.Sets = append(out.Sets, s.toDatapath(out.Family, name))
	}
	for _, name := range slices.Sorted(maps.Keys(t.chains)) {
		c := t.chains[name]
		chain := datapath.Chain{Name: name}
		if c.kind != "" {
			chain.Type, chain.Hook, chain.Priority = datapath.ChainType(c.kind), hookName(c.hook), int(c.priority)
			if chain.Policy = datapath.Accept; c.policy == policyDrop {
				chain.Policy = datapath.Drop
			}
		}
		for _, r := range c.rules {
			chain.Rules = append(chain.Rules, []datapath.Statement{datapath.Observed{Text: r.text}})
		}
		out.Chains = append(out.Chains, chain)
	}
	return out
}
