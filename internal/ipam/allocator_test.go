// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/prefix"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) {
	// Each check takes a second; -rapid.checks asks for more.
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
	testkit.Main(m)
}

var errLost = errors.New("the answer was lost")

// leader is a process that believes to lead. What it has heard of objects is old.
type leader struct {
	allocator *allocator
	heard     map[types.UID]client.Object
	faults    []fault // what happens to its next writes
}

// fault is what happens to a write.
type fault struct {
	before, after bool   // it is lost, or its answer is
	meanwhile     func() // what others do while it is on its way
}

// cluster is what the leaders are at work on.
type cluster struct {
	t       *rapid.T
	live    client.WithWatch
	where   string // the namespace of everything
	leaders []*leader
	granted map[types.UID]string // to whom what was ever granted
	serial  int
}

var pool = netip.MustParsePrefix("10.0.0.0/24")

func (c *cluster) start() *leader {
	l := &leader{heard: map[types.UID]client.Object{}}
	direct := interceptor.NewClient(c.live, interceptor.Funcs{
		// While it reads, it goes on to hear what is old.
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := w.List(ctx, list, opts...)
			for _, obj := range l.heard {
				l.allocator.recordObject(obj)
			}
			return err
		},
		Update: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return l.faulty(func() error { return w.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, w client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			return l.faulty(func() error { return w.Patch(ctx, obj, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return l.faulty(func() error { return w.SubResource(sub).Patch(ctx, obj, p, opts...) })
		},
	})
	none := func(context.Context) ([]prefix.Claim, error) { return nil, nil }
	l.allocator = newAllocator(direct, Options{LiqoNamespace: c.where, Pools: []netip.Prefix{pool}}, none)
	return l
}

func (l *leader) faulty(write func() error) error {
	if len(l.faults) == 0 {
		return write()
	}
	f := l.faults[0]
	l.faults = l.faults[1:]
	if f.meanwhile != nil {
		f.meanwhile()
	}
	if f.before {
		return errLost
	}
	if err := write(); err != nil {
		return err
	}
	if f.after {
		return errLost
	}
	return nil
}

// all reads what there is.
func (c *cluster) all() map[types.UID]client.Object {
	var networks ipamv1alpha1.NetworkList
	var ips ipamv1alpha1.IPList
	var nodes networkingv1beta1.InternalNodeList
	if err := errors.Join(c.live.List(c.t.Context(), &networks), c.live.List(c.t.Context(), &ips), c.live.List(c.t.Context(), &nodes)); err != nil {
		c.t.Fatal(err)
	}
	out := map[types.UID]client.Object{}
	for i := range nodes.Items {
		out[nodes.Items[i].UID] = &nodes.Items[i]
	}
	for i := range networks.Items {
		out[networks.Items[i].UID] = &networks.Items[i]
	}
	for i := range ips.Items {
		out[ips.Items[i].UID] = &ips.Items[i]
	}
	return out
}

// deliverEvents has a leader catch up with everything.
func (c *cluster) deliverEvents(l *leader) {
	now := c.all()
	for uid := range l.heard {
		if now[uid] == nil {
			l.allocator.removeObject(uid)
		}
	}
	for _, obj := range now {
		l.allocator.recordObject(obj)
	}
	l.heard = now
}

// work has a leader look at one of the objects it has heard of, as a controller does.
func (c *cluster) work(l *leader, obj client.Object) error {
	var err error
	switch obj := obj.DeepCopyObject().(type) {
	case *ipamv1alpha1.Network:
		if obj.Status.CIDR == "" {
			_, err = l.allocator.toNetwork(c.t.Context(), obj)
		}
	case *ipamv1alpha1.IP:
		if obj.Status.IP == "" {
			_, err = l.allocator.toIP(c.t.Context(), obj)
		}
	case *networkingv1beta1.InternalNode:
		if obj.Spec.Interface.Node.IP == "" {
			err = l.allocator.toNode(c.t.Context(), obj)
		}
	}
	return err
}

// expected tells whether a leader may fail so.
func expected(err error) bool {
	_, refused := kube.InvalidReason(err)
	return err == nil || refused || kube.IsWait(err) || errors.Is(err, errLost)
}

func (c *cluster) anyLeader() *leader { return rapid.SampledFrom(c.leaders).Draw(c.t, "leader") }

// anyOf returns one of the objects, nil if there is none.
func (c *cluster) anyOf(objects map[types.UID]client.Object) client.Object {
	if len(objects) == 0 {
		return nil
	}
	sorted := slices.SortedFunc(maps.Values(objects), func(a, b client.Object) int {
		return slices.Compare([]byte(a.GetName()), []byte(b.GetName()))
	})
	return rapid.SampledFrom(sorted).Draw(c.t, "object")
}

func (c *cluster) create(obj client.Object) {
	c.serial++
	obj.SetName(fmt.Sprintf("%03d", c.serial))
	if _, node := obj.(*networkingv1beta1.InternalNode); !node {
		obj.SetNamespace(c.where)
	}
	if err := c.live.Create(c.t.Context(), obj); err != nil {
		c.t.Fatal(err)
	}
}

// newNetwork is one that a user may make.
func (c *cluster) newNetwork() client.Object {
	bits := rapid.IntRange(25, 28).Draw(c.t, "bits")
	host := rapid.IntRange(0, 255).Draw(c.t, "host")
	wish := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(host)}), bits).Masked()
	n := &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}},
		Spec:       ipamv1alpha1.NetworkSpec{CIDR: networkingv1beta1.CIDR(wish.String()), PreAllocated: int32(rapid.IntRange(0, 2).Draw(c.t, "reserved"))},
	}
	switch rapid.SampledFrom([]string{"peer", "pod", "external", "fixed"}).Draw(c.t, "kind") {
	case "pod":
		n.Labels[names.NetworkType], n.Labels[names.NetworkNotRemapped], n.Labels[names.NetworkShared] = names.NetworkTypePod, "true", "true"
	case "external":
		n.Labels[names.NetworkType] = names.NetworkTypeExternal
	case "fixed":
		n.Labels[names.NetworkNotRemapped] = "true"
	}
	return n
}

// newIP is one that a user may make.
func (c *cluster) newIP() client.Object {
	ip := &ipamv1alpha1.IP{Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.1"}}
	if name := rapid.IntRange(0, c.serial).Draw(c.t, "network"); name > 0 {
		ip.Spec.NetworkRef = &corev1.ObjectReference{Namespace: c.where, Name: fmt.Sprintf("%03d", name)}
	}
	return ip
}

func (c *cluster) newNode() client.Object { return &networkingv1beta1.InternalNode{} }

// check finds what must never be.
func (c *cluster) check() {
	var networks []*ipamv1alpha1.Network
	holders := map[string]string{}
	prefixes := map[string]*ipamv1alpha1.Network{}
	var ips []*ipamv1alpha1.IP
	var nodes []*networkingv1beta1.InternalNode
	for uid, obj := range c.all() {
		granted := ""
		switch obj := obj.(type) {
		case *ipamv1alpha1.Network:
			if granted = string(obj.Status.CIDR); granted != "" {
				networks = append(networks, obj)
				prefixes[granted] = obj
			}
		case *ipamv1alpha1.IP:
			if granted = string(obj.Status.IP); granted != "" {
				ips = append(ips, obj)
				if other, taken := holders[granted]; taken {
					c.t.Fatalf("%s is that of IP %s and of IP %s", granted, other, obj.Name)
				}
				holders[granted] = obj.Name
				if p := parsePrefix(string(obj.Status.CIDR)); !p.Contains(netip.MustParseAddr(granted)) {
					c.t.Fatalf("IP %s has %s of %s", obj.Name, granted, p)
				}
			}
		case *networkingv1beta1.InternalNode:
			if granted = string(obj.Spec.Interface.Node.IP); granted != "" {
				nodes = append(nodes, obj)
				if other, taken := holders[granted]; taken {
					c.t.Fatalf("%s is that of %s and of node %s", granted, other, obj.Name)
				}
				holders[granted] = "node " + obj.Name
			}
		}
		if was := c.granted[uid]; was != "" && was != granted {
			c.t.Fatalf("%s had %s and has %q", obj.GetName(), was, granted)
		}
		c.granted[uid] = granted
	}
	shared := func(n *ipamv1alpha1.Network) bool { return n.Labels[names.NetworkShared] == "true" }
	for i, a := range networks {
		p := parsePrefix(string(a.Status.CIDR))
		if a.Labels[names.NetworkNotRemapped] == "true" && a.Status.CIDR != a.Spec.CIDR {
			c.t.Fatalf("Network %s has %s for %s, which is fixed", a.Name, a.Status.CIDR, a.Spec.CIDR)
		}
		for _, b := range networks[:i] {
			if p.Overlaps(parsePrefix(string(b.Status.CIDR))) && !(shared(a) && shared(b)) {
				c.t.Fatalf("Networks %s and %s have %s and %s", a.Name, b.Name, a.Status.CIDR, b.Status.CIDR)
			}
		}
		for _, node := range nodes {
			if addr := string(node.Spec.Interface.Node.IP); p.Contains(netip.MustParseAddr(addr)) && networkOf(a, c.where).kind != names.NetworkTypeExternal && !shared(a) {
				c.t.Fatalf("node %s has %s, which is in %s of Network %s", node.Name, addr, p, a.Name)
			}
		}
		for _, ip := range ips {
			own := ip.Status.CIDR == a.Status.CIDR && aliasOf(ip).asksIn(networkOf(a, c.where))
			if p.Contains(netip.MustParseAddr(string(ip.Status.IP))) && !own && !shared(a) {
				c.t.Fatalf("IP %s has %s of %s, which is in %s of Network %s", ip.Name, ip.Status.IP, ip.Status.CIDR, p, a.Name)
			}
		}
	}
}

// Two processes grant at the same time, each on old news; writes and their answers are lost, processes start anew, users delete
// what was granted, and one process is stopped between any two of its writes while the other goes on. Nothing is granted
// twice, and nothing that was granted changes.
func TestNoDoubleAllocation(t *testing.T) {
	kubernetes := testkit.Cluster(t)
	live, err := client.NewWithWatch(kubernetes.Config, client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	where := testkit.Namespace(t, kubernetes, "ipam", nil)
	t.Cleanup(func() { deleteAll(t, live) })
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{t: t, live: live, where: where, granted: map[types.UID]string{}}
		for _, obj := range c.all() {
			if err := live.Delete(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}
		c.leaders = []*leader{c.start(), c.start()}
		try := func(l *leader) {
			if obj := c.anyOf(l.heard); obj != nil {
				if err := c.work(l, obj); !expected(err) {
					c.t.Fatalf("granting to %s: %v", obj.GetName(), err)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"":        func(t *rapid.T) { c.t = t; c.check() },
			"network": func(t *rapid.T) { c.t = t; c.create(c.newNetwork()) },
			"ip":      func(t *rapid.T) { c.t = t; c.create(c.newIP()) },
			"node":    func(t *rapid.T) { c.t = t; c.create(c.newNode()) },
			"hear":    func(t *rapid.T) { c.t = t; c.deliverEvents(c.anyLeader()) },
			"work":    func(t *rapid.T) { c.t = t; l := c.anyLeader(); c.deliverEvents(l); try(l) },
			"work on old news": func(t *rapid.T) {
				c.t = t
				try(c.anyLeader())
			},
			"faults": func(t *rapid.T) {
				c.t = t
				l := c.anyLeader()
				for range rapid.IntRange(0, 2).Draw(t, "writes that work first") {
					l.faults = append(l.faults, fault{})
				}
				lost := rapid.SampledFrom([]fault{{before: true}, {after: true}}).Draw(t, "fault")
				l.faults = append(l.faults, lost)
			},
			"interrupted": func(t *rapid.T) {
				c.t = t
				at, other := c.leaders[0], c.leaders[1]
				if rapid.Bool().Draw(t, "the other") {
					at, other = other, at
				}
				mine := rapid.SampledFrom([]func() client.Object{c.newNetwork, c.newIP, c.newNode}).Draw(t, "what")()
				theirs := mine.DeepCopyObject().(client.Object) // wants the very same
				c.create(mine)
				c.create(theirs)
				c.deliverEvents(at)
				c.deliverEvents(other)
				gone := rapid.Bool().Draw(t, "deleted meanwhile")
				at.faults = make([]fault, rapid.IntRange(0, 1).Draw(t, "after writes"))
				at.faults = append(at.faults, fault{meanwhile: func() {
					if gone {
						_ = live.Delete(t.Context(), mine)
					}
					if err := c.work(other, theirs); !expected(err) {
						t.Fatalf("granting to %s meanwhile: %v", theirs.GetName(), err)
					}
				}})
				if err := c.work(at, mine); !expected(err) {
					t.Fatalf("granting to %s: %v", mine.GetName(), err)
				}
				at.faults = nil
			},
			"delete": func(t *rapid.T) {
				c.t = t
				if obj := c.anyOf(c.all()); obj != nil {
					if err := live.Delete(t.Context(), obj); err != nil {
						t.Fatal(err)
					}
				}
			},
			"the lease goes": func(t *rapid.T) {
				c.t = t
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: where, Name: names.IPAMLease}}
				if err := live.Delete(t.Context(), lease); client.IgnoreNotFound(err) != nil {
					t.Fatal(err)
				}
			},
			"restart": func(t *rapid.T) {
				c.t = t
				c.leaders[rapid.IntRange(0, 1).Draw(t, "which")] = c.start()
			},
		})
		c.t = t
		c.check()
		// Whoever is left without anything is refused for a reason. The first grant may complete one of a process that is gone.
		l := c.start()
		for range 2 {
			c.deliverEvents(l)
			for _, obj := range l.heard {
				if err := c.work(l, obj); !expected(err) {
					t.Fatalf("granting to %s in the end: %v", obj.GetName(), err)
				}
			}
		}
		c.deliverEvents(l)
		for _, obj := range l.heard {
			err := c.work(l, obj)
			if _, refused := kube.InvalidReason(err); err != nil && !refused {
				t.Fatalf("granting to %s in the end: %v", obj.GetName(), err)
			}
		}
		c.check()
	})
}
