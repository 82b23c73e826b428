// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package kernel reconciles a network namespace with a datapath.State. Marks in the kernel (protocol, label, metric, table names) identify our
// objects after a restart; foreign objects are never changed.
package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/vishvananda/netns"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
)

// Options configure Open.
type Options struct {
	// Namespace is the path of a network namespace; "" is the current one. Entering another namespace needs more than CAP_NET_ADMIN, changing
	// the current one does not.
	Namespace string

	// before is called before every write, with its text.
	before func(what string)
}

// Kernel is one network namespace. Its methods are safe for concurrent use; Apply calls are serialised.
type Kernel struct {
	options  Options
	ns       netns.NsHandle
	sockets  sockets
	applying sync.Mutex

	mu       sync.Mutex // guards interest, which is replaced and never modified
	interest watchInterest
}

// Changes is the result of one Apply.
type Changes struct {
	// Writes are the writes in order, in the syntax of ip and nft.
	Writes []string
	// Waiting are devices created elsewhere that are absent, down or without the address needed by a route. Objects that depend on them are left out;
	// Watch triggers the retry.
	Waiting []string
}

// Open opens the netlink sockets. It changes nothing.
func Open(options Options) (*Kernel, error) {
	ns, err := openNamespace(options.Namespace)
	if err != nil {
		return nil, err
	}
	k := &Kernel{options: options, ns: ns}
	if k.sockets, err = dialNetlink(ns); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

func openNamespace(path string) (netns.NsHandle, error) {
	if path == "" {
		return netns.None(), nil
	}
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return 0, fmt.Errorf("opening network namespace %s: %w", path, err)
	}
	return ns, nil
}

// Close closes the netlink sockets. The state in the kernel remains.
func (k *Kernel) Close() error {
	k.sockets.closeAll()
	if !k.ns.IsOpen() {
		return nil
	}
	return k.ns.Close()
}

// kernelState is our state in the namespace, and all of its links.
type kernelState struct {
	kernelLinks
	addresses  map[kernelAddress]bool
	neighbours map[kernelNeighbour][6]byte
	fdb        map[fdbEntry]netip.Addr
	routes     map[routeKey]kernelRoute
	rules      map[ipRule]bool
	tables     map[tableID]*kernelTable
}

func (k *Kernel) readState() (*kernelState, error) {
	h := &kernelState{}
	if err := k.readLinks(h); err != nil {
		return nil, err
	}
	var err error
	if h.tables, err = k.readTables(); err != nil {
		return nil, err
	}
	return h, k.readRouting(h)
}

// readRouting reads the objects that depend on links.
func (k *Kernel) readRouting(h *kernelState) error {
	var err error
	if h.addresses, err = k.readAddresses(h.kernelLinks); err != nil {
		return err
	}
	if h.neighbours, h.fdb, err = k.readNeighbours(h.kernelLinks); err != nil {
		return err
	}
	if h.routes, err = k.readRoutes(); err != nil {
		return err
	}
	h.rules, err = k.readRules()
	return err
}

// applyRun is one run of Apply.
type applyRun struct {
	*Kernel
	ctx     context.Context
	want    datapath.State
	have    *kernelState
	changes Changes
	waiting map[string]bool
	errs    []error
}

// Apply reconciles the namespace with want by the smallest change. A failed part is reported and does not stop the rest, except that nothing
// is added before all of our own nftables tables are as wanted. Apply is idempotent and may be interrupted at any moment: the next Apply, of
// this process or another, continues.
func (k *Kernel) Apply(ctx context.Context, want datapath.State) (Changes, error) {
	k.applying.Lock()
	defer k.applying.Unlock()
	want, refused := dropImpossible(want)
	current, err := k.readState()
	if err != nil {
		return Changes{}, err
	}
	k.setInterest(interestOf(want, current))
	r := &applyRun{Kernel: k, ctx: ctx, want: want, have: current, waiting: map[string]bool{}, errs: refused}
	r.applyAll()
	r.changes.Waiting = slices.Sorted(maps.Keys(r.waiting))
	if err := ctx.Err(); err != nil {
		r.errs = append(r.errs, err)
	}
	return r.changes, errors.Join(r.errs...)
}

// applyAll keeps an order in which no packet passes unfiltered or untranslated: objects that attract packets are removed first and added last. A
// replacement is added before its predecessor in the same place is removed.
func (r *applyRun) applyAll() {
	r.removeRules(false)
	r.removeRoutes(false)
	r.removeAddresses(false)
	r.removeLinks()
	if !r.applyTables() {
		return
	}
	clear(r.waiting) // devices created in this run are no longer missing
	if r.applyLinks() {
		if err := r.rereadState(); err != nil {
			r.errs = append(r.errs, err)
			return
		}
	}
	r.addAddresses()
	r.addNeighbours()
	r.addRoutes()
	r.addRules()
	r.removeRules(true)
	r.removeRoutes(true)
	r.removeNeighbours()
	r.removeAddresses(true)
}

// rereadState reads the objects removed together with links, and the indices of new links.
func (r *applyRun) rereadState() error {
	if err := r.readLinks(r.have); err != nil {
		return err
	}
	r.setInterest(interestOf(r.want, r.have))
	return r.readRouting(r.have)
}

// writeKernel does a write, and returns false if the write failed with an error not in fine.
func (r *applyRun) writeKernel(what string, do func() error, fine ...syscall.Errno) bool {
	if r.ctx.Err() != nil {
		return false
	}
	if r.options.before != nil {
		r.options.before(what)
	}
	err := do()
	switch {
	case err == nil:
		r.changes.Writes = append(r.changes.Writes, what)
	case slices.ContainsFunc(fine, func(e syscall.Errno) bool { return errors.Is(err, e) }):
	default:
		r.errs = append(r.errs, fmt.Errorf("%s: %w", what, err))
		return false
	}
	return true
}

// gone lists the errors of deleting an absent object.
var gone = []syscall.Errno{syscall.ESRCH, syscall.ENOENT, syscall.ENODEV, syscall.EADDRNOTAVAIL}

// dropImpossible returns the state without the parts that no kernel can hold, and the reasons.
func dropImpossible(want datapath.State) (datapath.State, []error) {
	var errs []error
	refuse := func(format string, about ...any) bool {
		errs = append(errs, fmt.Errorf(format, about...))
		return true
	}
	want.Links = slices.DeleteFunc(slices.Clone(want.Links), func(l datapath.Link) bool {
		kind := kindOf(l)
		return kind != "" && !isMade(l.Name, kind) && refuse("a %s called %s could not be recognized later: it is not created", kind, l.Name)
	})
	hops := slices.Clone(want.Neighbours)
	slices.SortFunc(hops, func(a, b datapath.Neighbour) int { return a.Next.Compare(b.Next) }) // deterministic: the same neighbour is left out each time
	macs := map[[6]byte]datapath.Neighbour{}
	var first datapath.Neighbour // on the fabric
	want.Neighbours = nil
	for _, h := range hops {
		fabric := h.Device == names.FabricDevice
		other, ok := macs[h.MAC]
		switch {
		case !fabric && !isMade(h.Device, kindVeth):
			refuse("hop %s is on %s, which is not created", h.Next, h.Device)
		case fabric != h.Outer.IsValid():
			refuse("hop %s is on %s: only and all those on %s go to an outer address", h.Next, h.Device, names.FabricDevice)
		case !fabric:
			want.Neighbours = append(want.Neighbours, h)
		case ok && other.Outer != h.Outer:
			refuse("hops %s and %s have one MAC and lead to %s and %s: only the first is created", other.Next, h.Next, other.Outer, h.Outer)
		case first.Outer.IsValid() && h.Outer.Is4() != first.Outer.Is4():
			refuse("hops %s and %s have outer addresses of two families, and a VXLAN has one: only the first is created", first.Next, h.Next)
		default:
			macs[h.MAC] = h
			if !first.Outer.IsValid() {
				first = h
			}
			want.Neighbours = append(want.Neighbours, h)
		}
	}
	return want, errs
}

// Observe returns our state in the namespace. Rules of nftables tables are returned as the text in their user data.
func (k *Kernel) Observe() (datapath.State, error) {
	h, err := k.readState()
	if err != nil {
		return datapath.State{}, err
	}
	var s datapath.State
	s.Links = h.observedLinks()
	for a := range h.addresses {
		s.Addresses = append(s.Addresses, datapath.Address{Device: h.names[a.index], Prefix: a.prefix})
	}
	s.Neighbours = h.toDatapathNeighbours()
	for key, r := range h.routes {
		s.Routes = append(s.Routes, r.toDatapath(key, h.names))
	}
	for r := range h.rules {
		s.Rules = append(s.Rules, r.toDatapath())
	}
	for id, t := range h.tables {
		if t.ours {
			s.Tables = append(s.Tables, t.toDatapath(id))
		}
	}
	s.Sort()
	slices.SortFunc(s.Tables, func(a, b datapath.Table) int {
		return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Name, b.Name))
	})
	return s, nil
}

// missingKeys returns the keys of want that are missing in current or differ there, sorted.
func missingKeys[K, V comparable](want, current map[K]V, order func(a, b K) int) []K {
	var out []K
	for key, v := range want {
		if other, ok := current[key]; !ok || other != v {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, order)
	return out
}

// surplusKeys returns the keys of current that are missing in want, sorted.
func surplusKeys[K comparable, V, W any](want map[K]V, current map[K]W, order func(a, b K) int) []K {
	var out []K
	for key := range current {
		if _, ok := want[key]; !ok {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, order)
	return out
}
