// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package kernel makes a network namespace hold what a datapath.State says, and nothing else of ours. What is ours is found
// again after a restart by marks in the kernel; what is not is never changed.
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

// Options say where the kernel is.
type Options struct {
	// Namespace is a path of a network namespace; "" is the one that we are in. To enter another takes more rights than to
	// change this one, for which those of an administrator of networks are enough.
	Namespace string

	// before is called before every write, with what is written.
	before func(what string)
}

// Kernel is one network namespace. Its methods may be called from several goroutines; Apply calls wait for each other.
type Kernel struct {
	options  Options
	ns       netns.NsHandle
	sockets  sockets
	applying sync.Mutex

	mu       sync.Mutex // guards interest, which is replaced and never changed
	interest watchInterest
}

// Changes are what one Apply did.
type Changes struct {
	// Writes are all that was written, one by one, as one would type it.
	Writes []string
	// Waiting are devices of others that are absent, down or without the address that a route needs. What hangs on them is
	// left out; Watch tells when to try again.
	Waiting []string
}

// Open begins to talk with the kernel. It changes nothing.
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

// Close ends the conversation. What the kernel holds stays.
func (k *Kernel) Close() error {
	k.sockets.closeAll()
	if !k.ns.IsOpen() {
		return nil
	}
	return k.ns.Close()
}

// kernelState is what the namespace holds of ours, and all of its links.
type kernelState struct {
	kernelLinks
	addresses  map[kernelAddress]bool
	neighbours map[kernelNeighbour][6]byte
	forwards   map[fdbEntry]netip.Addr
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

// readRouting reads all that comes and goes with links.
func (k *Kernel) readRouting(h *kernelState) error {
	var err error
	if h.addresses, err = k.readAddresses(h.kernelLinks); err != nil {
		return err
	}
	if h.neighbours, h.forwards, err = k.readHops(h.kernelLinks); err != nil {
		return err
	}
	if h.routes, err = k.readRoutes(); err != nil {
		return err
	}
	h.rules, err = k.readRules()
	return err
}

// applyRun is one Apply.
type applyRun struct {
	*Kernel
	ctx     context.Context
	want    datapath.State
	have    *kernelState
	changes Changes
	waiting map[string]bool
	errs    []error
}

// Apply makes the namespace hold what want says, by the smallest change. What cannot be done is told, and does not keep the
// rest from being done; but nothing comes before all of our own tables are as wanted. It may be ended at any moment: the next
// Apply, of this process or of another, goes on from there.
func (k *Kernel) Apply(ctx context.Context, want datapath.State) (Changes, error) {
	k.applying.Lock()
	defer k.applying.Unlock()
	want, refused := dropImpossible(want)
	have, err := k.readState()
	if err != nil {
		return Changes{}, err
	}
	k.setInterest(interestOf(want, have))
	r := &applyRun{Kernel: k, ctx: ctx, want: want, have: have, waiting: map[string]bool{}, errs: refused}
	r.applyAll()
	r.changes.Waiting = slices.Sorted(maps.Keys(r.waiting))
	if err := ctx.Err(); err != nil {
		r.errs = append(r.errs, err)
	}
	return r.changes, errors.Join(r.errs...)
}

// applyAll keeps an order in which no packet passes that is not filtered and translated: what brings packets goes first and
// comes last. Where one thing follows another in the same place, the new one comes before the old one goes.
func (r *applyRun) applyAll() {
	r.removeRules(false)
	r.removeRoutes(false)
	r.removeAddresses(false)
	r.removeLinks()
	if !r.applyTables() {
		return
	}
	clear(r.waiting) // for devices that are made only now
	if r.applyLinks() {
		if err := r.rereadState(); err != nil {
			r.errs = append(r.errs, err)
			return
		}
	}
	r.addAddresses()
	r.addHops()
	r.addRoutes()
	r.addRules()
	r.removeRules(true)
	r.removeRoutes(true)
	r.removeHops()
	r.removeAddresses(true)
}

// rereadState reads what links took with them, and where new ones are.
func (r *applyRun) rereadState() error {
	if err := r.readLinks(r.have); err != nil {
		return err
	}
	r.setInterest(interestOf(r.want, r.have))
	return r.readRouting(r.have)
}

// writeKernel does one write. It returns false if it failed for any other reason than those that are fine.
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

// gone are the errors of deleting what is not there any more.
var gone = []syscall.Errno{syscall.ESRCH, syscall.ENOENT, syscall.ENODEV, syscall.EADDRNOTAVAIL}

// dropImpossible is a state without what no kernel can hold, and why that is left out.
func dropImpossible(want datapath.State) (datapath.State, []error) {
	var errs []error
	refuse := func(format string, about ...any) bool {
		errs = append(errs, fmt.Errorf(format, about...))
		return true
	}
	want.Links = slices.DeleteFunc(slices.Clone(want.Links), func(l datapath.Link) bool {
		kind := kindOf(l)
		return kind != "" && !isMade(l.Name, kind) && refuse("a %s called %s would not be found again: it is not made", kind, l.Name)
	})
	hops := slices.Clone(want.Neighbours)
	slices.SortFunc(hops, func(a, b datapath.Neighbour) int { return a.Next.Compare(b.Next) }) // it is always the same one that is left out
	macs := map[[6]byte]datapath.Neighbour{}
	var first datapath.Neighbour // on the fabric
	want.Neighbours = nil
	for _, h := range hops {
		fabric := h.Device == names.FabricDevice
		other, ok := macs[h.MAC]
		switch {
		case !fabric && !isMade(h.Device, kindVeth):
			refuse("hop %s is on %s, which is not made", h.Next, h.Device)
		case fabric != h.Outer.IsValid():
			refuse("hop %s is on %s: only and all those on %s go to an outer address", h.Next, h.Device, names.FabricDevice)
		case !fabric:
			want.Neighbours = append(want.Neighbours, h)
		case ok && other.Outer != h.Outer:
			refuse("hops %s and %s have one MAC and go to %s and %s: the first is made", other.Next, h.Next, other.Outer, h.Outer)
		case first.Outer.IsValid() && h.Outer.Is4() != first.Outer.Is4():
			refuse("hops %s and %s go to outer addresses of two families, and a VXLAN has one: the first is made", first.Next, h.Next)
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

// Observe tells what the namespace holds of ours. Rules of tables are known by the text that they were made from.
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
	s.Neighbours = h.toDatapathHops()
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

// missingKeys are the keys of want that have lacks or has otherwise, in order.
func missingKeys[K, V comparable](want, have map[K]V, order func(a, b K) int) []K {
	var out []K
	for key, v := range want {
		if other, ok := have[key]; !ok || other != v {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, order)
	return out
}

// surplusKeys are the keys of have that want lacks, in order.
func surplusKeys[K comparable, V, W any](want map[K]V, have map[K]W, order func(a, b K) int) []K {
	var out []K
	for key := range have {
		if _, ok := want[key]; !ok {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, order)
	return out
}
