// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/datapath/wg"
	"liqo.io/liqo/internal/election"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// cut keeps the Lease of a replica from being read and written, as an API server that is away does, and the other objects of the election. It counts
// the attempts for the Lease, and the writes with a standby.
type cut struct {
	off          *atomic.Bool
	tries, added *atomic.Int32
}

func newCut() cut { return cut{&atomic.Bool{}, &atomic.Int32{}, &atomic.Int32{}} }

func (c cut) client(to client.Client) client.Client { return leaseClient{to, c} }
func (c cut) reader(to client.Reader) client.Reader { return leaseReader{to, c} }

func (c cut) try(obj client.Object) error {
	if !c.off.Load() {
		return nil
	}
	if _, is := obj.(*coordinationv1.Lease); is {
		c.tries.Add(1)
	}
	return errors.New("away")
}

type leaseClient struct {
	client.Client
	cut
}

func (c leaseClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	if err := c.try(obj); err != nil {
		return err
	}
	if obj.GetAnnotations()[names.GatewayStandbys] != "" {
		c.added.Add(1)
	}
	return c.Client.Update(ctx, obj, opts...)
}

type leaseReader struct {
	client.Reader
	cut
}

func (c leaseClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if err := c.try(obj); err != nil {
		return err
	}
	return c.Client.Patch(ctx, obj, patch, opts...)
}

func (c leaseReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.try(obj); err != nil {
		return err
	}
	return c.Reader.Get(ctx, key, obj, opts...)
}

// hangingReader reads nothing, as if the API server had lost its power.
type hangingReader struct{ client.Reader }

func (hangingReader) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestReplacedHangingAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, start := &elector{live: hangingReader{}}, time.Now()
		if replaced := e.isReplaced(t.Context()); replaced || time.Since(start) != writeLimit {
			t.Errorf("it is replaced: %t, after %s", replaced, time.Since(start))
		}
	})
}

const standbyAt = "192.0.2.3"

// addReplica makes a second pod of a server, on the same link as the client.
func addReplica(t *testing.T, first, cl *testGateway) *testGateway {
	t.Helper()
	second := &testGateway{Client: first.Client, cluster: first.cluster, options: first.options, key: first.key, space: testkit.NewSpace(t, "lqag")}
	second.options.Address, second.options.StateDir = netip.MustParseAddr(standbyAt), t.TempDir()
	second.device = inside{space: second.space, mute: &atomic.Bool{}}
	first.options.Pod, second.options.Pod = "gw-a", "gw-b"
	first.options.LeaderElection, second.options.LeaderElection = true, true
	first.cut, second.cut = newCut(), newCut()

	// The bridge has a namespace of its own: filters of a gateway may apply to what its namespace bridges.
	lan, bridge := testkit.NewSpace(t, "lqag"), &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "lan"}}
	if err := errors.Join(cl.space.LinkDel(cl.space.Link(t, "eth0")), lan.LinkAdd(bridge)); err != nil {
		t.Fatal(err)
	}
	lan.Up(t, "lan", true)
	for i, s := range []*testGateway{first, second, cl} {
		plug(t, lan, fmt.Sprint("port", i), bridge, s)
	}
	return second
}

// plug links a gateway with a bridge.
func plug(t *testing.T, lan *testkit.Space, port string, bridge netlink.Link, s *testGateway) {
	t.Helper()
	inner, err := netns.GetFromPath(s.space.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: port}, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(inner))}
	address, err := netlink.ParseAddr(s.options.Address.String() + "/24")
	if err := lan.LinkAdd(veth); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(err, lan.LinkSetMaster(lan.Link(t, port), bridge), s.space.AddrAdd(s.space.Link(t, "eth0"), address)); err != nil {
		t.Fatal(err)
	}
	lan.Up(t, port, true)
	s.space.Up(t, "eth0", true)
}

// publish makes the gateway with its replicas, and the Lease that they compete for.
func publish(t *testing.T, replicas ...*testGateway) *coordinationv1.Lease {
	t.Helper()
	gw := &networkingv1beta1.GatewayServer{ObjectMeta: replicas[0].meta(replicas[0].options.Name)}
	testkit.Create(t, replicas[0], gw)
	list(t, replicas...)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: gw.Namespace, Name: names.Gateway(gw.Name), Labels: map[string]string{names.NetworkingComponent: names.ComponentGateway},
	}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: lease.ObjectMeta, AddressType: discoveryv1.AddressTypeIPv4}
	for _, r := range replicas {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{r.options.Address.String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: r.options.Pod},
		})
	}
	testkit.Create(t, replicas[0], lease, slice)
	return lease
}

// list has the gateway have these replicas, and no others.
func list(t *testing.T, replicas ...*testGateway) {
	t.Helper()
	gw := &networkingv1beta1.GatewayServer{ObjectMeta: replicas[0].meta(replicas[0].options.Name)}
	testkit.UpdateStatus(t, replicas[0], gw, func(g *networkingv1beta1.GatewayServer) {
		g.Status.Replicas = nil
		for _, r := range replicas {
			g.Status.Replicas = append(g.Status.Replicas, networkingv1beta1.GatewayReplica{Name: r.options.Pod, IP: networkingv1beta1.IP(r.options.Address.String()), Node: r.options.Node})
		}
	})
}

// watchPeers fails the test if the packets of a peer ever pass two replicas, and returns how many have one now. A process that gets no time removes
// its peer late, but its fence closes.
func watchPeers(t *testing.T, replicas ...*testGateway) (count func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	countIf := func(counts func(*testGateway) bool) (n int) {
		for _, r := range replicas {
			if status, err := r.device.Device.Observe(); err == nil && len(status.Peers) > 0 && counts(r) {
				n++
			}
		}
		return n
	}
	count = func() int { return countIf(func(*testGateway) bool { return true }) }
	done.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			// A handover between two looks is seen once.
			if count() > 1 && countIf((*testGateway).isOpen) > 1 && countIf((*testGateway).isOpen) > 1 {
				t.Error("two replicas have a peer, and open fences")
				return
			}
			<-tick.C
		}
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return count
}

// waitForElector waits until the elector of a replica is in a state.
func (s *testGateway) waitForElector(t *testing.T, is func(*elector) bool) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		s.elector.mu.Lock()
		defer s.elector.mu.Unlock()
		if !is(s.elector) {
			return fmt.Errorf("it writes: %t; it may be active until %s", s.elector.writing, s.elector.rule.ActiveUntil())
		}
		return nil
	})
}

// waitForSession waits for a handshake of the client after some time, and returns how long it took.
func (s *testGateway) waitForSession(t *testing.T, since time.Time) time.Duration {
	t.Helper()
	var at time.Time
	testkit.Eventually(t, patience, func() error {
		status, err := s.device.Observe()
		if err == nil && (len(status.Peers) != 1 || !status.Peers[0].LastHandshake.After(since)) {
			err = errors.New("there was no handshake")
		}
		if err == nil {
			at = status.Peers[0].LastHandshake
		}
		return err
	})
	return at.Sub(since)
}

// standbys returns the replicas that the Lease lets follow its holder.
func (s *testGateway) standbys(t *testing.T) string {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: s.options.Namespace, Name: names.Gateway(s.options.Name)}, lease); err != nil {
		t.Fatal(err)
	}
	return lease.Annotations[names.GatewayStandbys]
}

// holder returns the active one of two replicas, and the other, once that is its standby.
func holder(t *testing.T, replicas ...*testGateway) (active, standby *testGateway) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		i := slices.IndexFunc(replicas, func(r *testGateway) bool { return r.elector.isActive() && r.elector.hasStandby() })
		if i < 0 {
			return errors.New("no replica is active with a standby")
		}
		active, standby = replicas[i], replicas[1-i]
		if now := active.standbys(t); now != standby.options.Pod {
			return fmt.Errorf("the standbys of %s are %q", active.options.Pod, now)
		}
		return nil
	})
	return active, standby
}

// leads waits until the Service leads to a replica, and to no other.
func (s *testGateway) leads(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.options.Namespace, Name: names.Gateway(s.options.Name)}}
		if err := s.Get(t.Context(), client.ObjectKeyFromObject(slice), slice); err != nil {
			return err
		}
		for _, e := range slice.Endpoints {
			if *e.Conditions.Ready != (e.TargetRef.Name == s.options.Pod) || e.Conditions.Serving == nil || *e.Conditions.Serving != *e.Conditions.Ready {
				return fmt.Errorf("the Service leads to %+v", slice.Endpoints)
			}
		}
		return nil
	})
}

// One pod of a server ends in each way that there is. The client has a session with the other one soon, which begins it.
func TestGatewayFailover(t *testing.T) {
	a, b := newTestGateways(t)
	c := addReplica(t, a, b)
	b.options.Endpoints = append(b.options.Endpoints, standbyAt+":51840")
	publish(t, a, c)
	stops := map[*testGateway]func(){a: a.run(t), c: c.run(t)}
	watchPeers(t, a, c)
	b.run(t)
	a.trust(t, "peer", b)
	b.trust(t, "peer", a)
	b.is(t, connected)
	for _, test := range []struct {
		name string
		fail func(active *testGateway)
	}{
		{"it_is_told_to_end", func(active *testGateway) { stops[active]() }},
		{"it_dies", func(active *testGateway) {
			active.cut.off.Store(true)
			stops[active]()
		}},
		{"it_is_cut_off", func(active *testGateway) {
			active.cut.off.Store(true)
			active.space.Up(t, "eth0", false)
			stops[active]()
		}},
	} {
		active, standby := holder(t, a, c)
		testkit.Eventually(t, patience, func() error {
			if at := memoryIn(standby.options.StateDir).loadEndpoint(); at.Addr().String() != clientAt {
				return fmt.Errorf("the standby knows a client at %s", at)
			}
			return nil
		})
		since := time.Now()
		test.fail(active)
		took := b.waitForSession(t, since)
		t.Logf("%s: a session after %s", test.name, took.Round(time.Millisecond))
		standby.peers(t, b.key.Public())
		standby.leads(t)
		active.cut.off.Store(false)
		active.space.Up(t, "eth0", true)
		stops[active] = active.run(t)
		b.is(t, connected)
	}
}

// While the API server is away the tunnel stays. It goes if the standby is away as well, since it may be the others that are well, and comes back
// with the standby.
func TestGatewayReplicaAlone(t *testing.T) {
	a, b := newTestGateways(t)
	c := addReplica(t, a, b)
	lease := publish(t, a, c)
	stops := map[*testGateway]func(){a: a.run(t), c: c.run(t)}
	watchPeers(t, a, c)
	b.run(t)
	a.trust(t, "peer", b)
	b.trust(t, "peer", a)
	active, standby := holder(t, a, c)
	active.peers(t, b.key.Public())
	version := func() string {
		if err := a.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
			t.Fatal(err)
		}
		return lease.ResourceVersion
	}
	active.cut.off.Store(true)
	standby.cut.off.Store(true)
	noWrite := func(e *elector) bool { return !e.writing }
	active.waitForElector(t, noWrite)
	standby.waitForElector(t, noWrite)
	before := version()
	time.Sleep(2 * election.Default().Lease) // the length of the outage is the story
	active.peers(t, b.key.Public())          // a machine that stands still may lose it until both hear each other again
	if now := version(); now != before {
		t.Errorf("the Lease was written: %s after %s", now, before)
	}
	standby.space.Up(t, "eth0", false)
	tries := standby.cut.tries.Load()
	active.peers(t)
	testkit.Eventually(t, patience, func() error {
		if standby.cut.tries.Load() == tries {
			return errors.New("the standby did not try to take the Lease")
		}
		return nil
	})
	standby.space.Up(t, "eth0", true)
	active.peers(t, b.key.Public())
	stops[standby]()
	active.peers(t)
	active.cut.off.Store(false)
	active.peers(t, b.key.Public())

	// The standby does not run any more: there is none that could take over, so nothing ends the tunnel.
	testkit.Eventually(t, patience, func() error {
		if now := active.standbys(t); now != "" {
			return fmt.Errorf("the standbys are %q", now)
		}
		return nil
	})
	active.waitForElector(t, func(e *elector) bool { return !e.writing && e.rule.ActiveUntil().After(time.Now().Add(time.Hour)) })
	active.cut.off.Store(true)
	tries = active.cut.tries.Load()
	time.Sleep(2 * election.Default().Lease)
	if !active.elector.isActive() {
		t.Error("an outage of the API server ended the tunnel of a replica without a standby")
	}
	if now := active.cut.tries.Load(); now != tries {
		t.Errorf("%d attempts to write a Lease that needs no renewal", now-tries)
	}
	active.tells(t, "Elect", standby.options.Pod)
}

// A process of a replica hangs, as a stopped or dead one whose device goes on: its tunnel passes nothing when the standby takes over. When it goes
// on, its peer goes first; and so it does in the process that follows a dead one.
func TestGatewayReplicaStopped(t *testing.T) {
	a, b := newTestGateways(t)
	c := addReplica(t, a, b)
	b.options.Endpoints = append(b.options.Endpoints, standbyAt+":51840")
	publish(t, a, c)
	stops := map[*testGateway]func(){a: a.run(t), c: c.run(t)}
	b.run(t)
	a.trust(t, "peer", b)
	b.trust(t, "peer", a)
	for _, dies := range []bool{false, true} {
		active, standby := holder(t, a, c)
		active.peers(t, b.key.Public())
		b.is(t, connected)
		since := time.Now()
		stopped := active.elector
		stopped.mu.Lock()
		resume := sync.OnceFunc(stopped.mu.Unlock)
		t.Cleanup(resume)
		standby.peers(t, b.key.Public())
		at := standby.options.Address
		testkit.Eventually(t, patience, func() error {
			status, err := b.device.Observe()
			if err == nil && (len(status.Peers) != 1 || status.Peers[0].Endpoint.Addr() != at || !status.Peers[0].LastHandshake.After(since)) {
				err = fmt.Errorf("the client has %+v", status.Peers)
			}
			return err
		})
		active.peers(t, b.key.Public()) // it still has the peer
		for range 20 {
			time.Sleep(50 * time.Millisecond) // the probes of the stopped replica would come meanwhile
			if status, err := b.device.Observe(); err == nil && status.Peers[0].Endpoint.Addr() != at {
				t.Fatalf("the client hears %s", status.Peers[0].Endpoint)
			}
		}
		resume()
		if dies {
			stops[active]()
			stops[active] = active.run(t)
		}
		active.peers(t)
		standby.peers(t, b.key.Public())
		standby.leads(t)
	}
}

// tells waits for an event of a gateway.
func (s *testGateway) tells(t *testing.T, action, what string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		var all eventsv1.EventList
		err := s.List(t.Context(), &all, client.InNamespace(s.options.Namespace))
		isTold := func(e eventsv1.Event) bool { return e.Action == action && strings.Contains(e.Note, what) }
		if err == nil && !slices.ContainsFunc(all.Items, isTold) {
			err = fmt.Errorf("no event %q tells of %s", action, what)
		}
		return err
	})
}

// A replica whose rules the kernel refuses gives up the tunnel, if another one can apply them.
func TestGatewayReplicaUnable(t *testing.T) {
	a, b := newTestGateways(t)
	c := addReplica(t, a, b)
	publish(t, a, c)
	a.run(t)
	c.run(t)
	watchPeers(t, a, c)
	a.trust(t, "peer", b)
	active, standby := holder(t, a, c)
	active.peers(t, b.key.Public())
	active.kernel.refuses.Store(true)
	standby.peers(t, b.key.Public())
	a.tells(t, "Resign", active.options.Pod)
	standby.kernel.refuses.Store(true)
	active.kernel.refuses.Store(false)
	active.peers(t, b.key.Public())
}

// fence calls f with the table of the fence in the kernel, and the elements that hold it open.
func (s *testGateway) fence(t *testing.T, f func(conn *nftables.Conn, table *nftables.Table, open []nftables.SetElement) error) {
	t.Helper()
	err := s.space.Inside(func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		table := &nftables.Table{Name: "liqo_fence", Family: nftables.TableFamilyINet}
		set, err := conn.GetSetByName(table, "open")
		if err != nil {
			return err
		}
		open, err := conn.GetSetElements(set)
		return errors.Join(err, f(conn, table, open))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// isOpen reports whether packets pass the fence; they do without one.
func (s *testGateway) isOpen() bool {
	open := true
	_ = s.space.Inside(func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		set, err := conn.GetSetByName(&nftables.Table{Name: "liqo_fence", Family: nftables.TableFamilyINet}, "open")
		if err != nil {
			return err
		}
		elements, err := conn.GetSetElements(set)
		open = err != nil || len(elements) > 0
		return err
	})
	return open
}

// unfence deletes the fence, and has the kernel refuse another one.
func (s *testGateway) unfence(t *testing.T) {
	t.Helper()
	s.kernel.refusesFence.Store(true)
	s.fence(t, func(conn *nftables.Conn, table *nftables.Table, _ []nftables.SetElement) error {
		conn.DelTable(table)
		return conn.Flush()
	})
}

// The process of a replica without a standby dies and does not come back, while its device goes on. Another replica takes over once the list of
// replicas says so, and then nothing passes the tunnel of the dead one.
func TestGatewayReplicaCrashed(t *testing.T) {
	a, b := newTestGateways(t)
	c := addReplica(t, a, b)
	b.options.Endpoints = append(b.options.Endpoints, standbyAt+":51840")
	publish(t, a)
	a.run(t)
	b.run(t)
	a.trust(t, "peer", b)
	b.trust(t, "peer", a)
	a.peers(t, b.key.Public())
	b.is(t, connected)
	a.fence(t, func(_ *nftables.Conn, _ *nftables.Table, open []nftables.SetElement) error {
		if len(open) == 0 {
			return errors.New("the fence of the active replica is closed")
		}
		return nil
	})
	a.elector.mu.Lock() // it hangs, which is the same to others
	resume := sync.OnceFunc(a.elector.mu.Unlock)
	t.Cleanup(resume)
	c.run(t)
	list(t, c)
	c.peers(t, b.key.Public())
	a.fence(t, func(_ *nftables.Conn, _ *nftables.Table, open []nftables.SetElement) error {
		if len(open) > 0 {
			return errors.New("the tunnel of the dead process is open while another replica has the peer")
		}
		return nil
	})
	resume()
	a.peers(t)
}

// A replica that has just started goes by no promise: without the API server its tunnel ends, and comes back with it.
func TestGatewayReplicaStarts(t *testing.T) {
	a, b := newTestGateways(t)
	c := addReplica(t, a, b)
	a.settle, c.settle = time.Hour, time.Hour
	publish(t, a, c)
	a.run(t)
	c.run(t)
	watchPeers(t, a, c)
	a.trust(t, "peer", b)
	active, standby := holder(t, a, c)
	active.peers(t, b.key.Public())
	active.cut.off.Store(true)
	standby.cut.off.Store(true)
	active.peers(t)
	active.cut.off.Store(false)
	active.peers(t, b.key.Public())
}

// A replica whose fence the kernel refuses, after the table was deleted, passes nothing. It adds no standby, and lets another one take over. The last
// one has a fence again as soon as the kernel makes one.
func TestGatewayReplicaUnfenced(t *testing.T) {
	a, b := newTestGateways(t)
	c := addReplica(t, a, b)
	publish(t, a, c)
	a.run(t)
	a.trust(t, "peer", b)
	a.peers(t, b.key.Public())
	a.unfence(t)
	a.tells(t, "Elect", "no fence")
	c.run(t)
	c.peers(t, b.key.Public())
	a.peers(t)
	a.tells(t, "Resign", "no fence")
	if n := a.cut.added.Load(); n > 0 {
		t.Errorf("%d standbys were added without a fence", n)
	}
	c.unfence(t)
	c.peers(t)
	c.tells(t, "Elect", c.options.Pod)
	c.kernel.refusesFence.Store(false)
	c.peers(t, b.key.Public())
	c.fence(t, func(_ *nftables.Conn, _ *nftables.Table, open []nftables.SetElement) error {
		if len(open) == 0 {
			return errors.New("the fence is closed")
		}
		return nil
	})
}

// A fence that the kernel refuses is tried now and then, however often the replica is woken.
func TestRefusedFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		e := &elector{newFence: func() (fence, error) {
			tries++
			return nil, errors.New("no fence")
		}}
		for want := 1; want <= 2; want++ {
			for range 100 {
				if err := e.setFence(0); err == nil {
					t.Fatal("there is a fence")
				}
			}
			if tries != want {
				t.Errorf("%d attempts, want %d", tries, want)
			}
			time.Sleep(fenceRetry)
		}
	})
}

// A replica whose fence the kernel refuses takes a Lease that no other takes, and gives it up to one that it cannot ask whether it is able.
func TestGatewayReplicaUnfencedAndDeaf(t *testing.T) {
	a, b := newTestGateways(t)
	c := addReplica(t, a, b)
	publish(t, a)
	a.kernel.refusesFence.Store(true)
	a.run(t)
	a.trust(t, "peer", b)
	a.tells(t, "Elect", "no fence")
	if err := a.space.LinkSetDown(a.space.Link(t, "eth0")); err != nil {
		t.Fatal(err)
	}
	list(t, a, c)
	c.run(t)
	c.peers(t, b.key.Public())
}

// The kernel refuses the fences of both replicas, and the port between them is blocked: the Lease changes hands less and less often, and an event names
// the port. The one whose kernel makes a fence again takes over.
func TestGatewayReplicasUnfencedAndDeaf(t *testing.T) {
	a, b := newTestGateways(t)
	c := addReplica(t, a, b)
	lease := publish(t, a, c)
	for _, r := range []*testGateway{a, c} {
		r.kernel.refusesFence.Store(true)
		r.space.Up(t, "eth0", false)
		r.run(t)
	}
	a.trust(t, "peer", b)
	a.tells(t, "Resign", "UDP 12346")
	waits := func(r *testGateway) bool {
		r.elector.mu.Lock()
		defer r.elector.mu.Unlock()
		return r.elector.rule.IsHolder() && !r.elector.rule.HasSuccessor(time.Now().Add(election.Default().Silence*3/2))
	}
	testkit.Eventually(t, patience, func() error {
		if !waits(a) && !waits(c) {
			return errors.New("no holder waits for longer than at first")
		}
		return nil
	})
	a.kernel.refusesFence.Store(false)
	a.peers(t, b.key.Public())
	if err := a.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil || holderOf(lease) != a.options.Pod {
		t.Errorf("the Lease is of %q: %v", holderOf(lease), err)
	}
}

// A replica whose fence the kernel refuses loses the API server, too: its standby, which hears it, takes over.
func TestGatewayReplicaUnfencedWithoutAPI(t *testing.T) {
	a, b := newTestGateways(t)
	c := addReplica(t, a, b)
	publish(t, a, c)
	a.run(t)
	c.run(t)
	a.trust(t, "peer", b)
	active, standby := holder(t, a, c)
	active.cut.off.Store(true)
	active.unfence(t)
	standby.peers(t, b.key.Public())
	active.peers(t)
}

// What an earlier process had in the device is gone before anything else.
func TestPeerOfDeadProcess(t *testing.T) {
	a, b := newTestGateways(t)
	a.options.Pod, a.options.LeaderElection, a.cut = "gw-a", true, newCut()
	a.left = []wg.Peer{{PublicKey: b.key.Public()}}
	a.run(t) // it looks at the device
}

func TestReplicaMessages(t *testing.T) {
	key := newKey(t)
	ours, err := newSealer(key, "one")
	if err != nil {
		t.Fatal(err)
	}
	m := replicaMessage{election.Message{From: "gw-a", To: "gw-b", UID: "7", Term: 3, Nonce: election.Nonce{1}, Echo: election.Nonce{2}}, netip.MustParseAddrPort("192.0.2.2:7")}
	data, err := ours.sealMessage(m)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ours.openMessage(data); err != nil || got != m {
		t.Errorf("%+v, %v", got, err)
	}
	for name, other := range map[string]struct {
		key wg.PrivateKey
		of  string
	}{"another_key": {newKey(t), "one"}, "another_gateway": {key, "two"}} {
		theirs, err := newSealer(other.key, other.of)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := theirs.openMessage(data); err == nil {
			t.Errorf("%s opens the message", name)
		}
	}
	long := m
	long.From = string(make([]byte, messageSize))
	if _, err := ours.sealMessage(long); err == nil {
		t.Error("a long message is sealed")
	}
	short, _ := ours.sealMessage(replicaMessage{})
	if len(short) != len(data) {
		t.Errorf("messages of %d and %d bytes", len(short), len(data))
	}
}

// The number of replicas was set to one: nodes reach the next pod, which takes part in no election.
func TestGatewayElectionEnds(t *testing.T) {
	a, b := newTestGateways(t)
	a.options.Pod, a.options.LeaderElection, a.cut = "gw-a", true, newCut()
	ended, end := context.WithCancel(t.Context())
	a.ending, a.ended = t.Context(), end
	lease := publish(t, a)
	a.run(t)
	a.trust(t, "peer", b)
	a.peers(t, b.key.Public())
	gw := &networkingv1beta1.GatewayServer{ObjectMeta: a.meta(a.options.Name)}
	testkit.UpdateStatus(t, a, gw, func(g *networkingv1beta1.GatewayServer) {
		g.Status.Replicas = nil
		g.Status.InternalEndpoint = &networkingv1beta1.InternalGatewayEndpoint{IP: new(networkingv1beta1.IP(standbyAt)), Node: &a.options.Node}
	})
	renewed := func() int64 {
		if err := a.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
			t.Fatal(err)
		}
		return leaseOf(lease).Renewed
	}
	for range 2 { // the list may be outdated: while the Lease names it, it goes on
		before := renewed()
		testkit.Eventually(t, patience, func() error {
			if renewed() == before {
				return errors.New("the Lease is not renewed")
			}
			return nil
		})
	}
	a.peers(t, b.key.Public())
	if ended.Err() != nil {
		t.Fatal("it ended while the Lease named it")
	}
	if err := a.Delete(t.Context(), lease); err != nil { // as the controller does when no pod is left to take part
		t.Fatal(err)
	}
	a.peers(t)
	testkit.Eventually(t, patience, func() error {
		if ended.Err() == nil {
			return errors.New("it did not end")
		}
		return nil
	})
}
