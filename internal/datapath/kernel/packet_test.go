// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
)

// cable has addresses of one family for a pod, a router and what is behind it. The far side has addresses of the pods' prefix,
// too, and is seen here in another.
type cable struct {
	family                               datapath.Family
	pods, seen                           netip.Prefix // the far side's own, and ours for it
	pod, near, here, there, far, farHere netip.Addr
	link                                 int // bits of the prefixes of both cables
}

var cables = map[string]cable{
	"ip": {
		datapath.IPv4, parsePrefix("10.200.0.0/16"), parsePrefix("10.71.0.0/16"),
		addr("10.200.1.5"), addr("10.200.1.1"), addr("169.254.18.1"), addr("169.254.18.2"), addr("10.200.1.77"), addr("10.71.1.77"), 24,
	},
	"ip6": {
		datapath.IPv6, parsePrefix("fd00:200::/64"), parsePrefix("fd00:71::/64"),
		addr("fd00:200::5"), addr("fd00:200::1"), addr("fd00:18::1"), addr("fd00:18::2"), addr("fd00:200::77"), addr("fd00:71::77"), 120,
	},
}

func eachCable(t *testing.T, f func(t *testing.T, c cable)) {
	for name, c := range cables {
		t.Run(name, func(t *testing.T) { f(t, c) })
	}
}

// lay makes three namespaces in a row, of which the one in the middle forwards.
func (c cable) lay(t *testing.T) (pod, router, far *testNamespace) {
	t.Helper()
	pod, router, far = newTestNamespace(t), newTestNamespace(t), newTestNamespace(t)
	connect(t, pod, "eth0", router, "pod0")
	connect(t, router, "liqo-tunnel", far, "eth0")
	on := func(a netip.Addr) string { return netip.PrefixFrom(a, c.link).String() }
	alone := func(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }
	everything := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if c.family == datapath.IPv6 {
		everything = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	pod.address(t, "eth0", on(c.pod))
	router.address(t, "pod0", on(c.near))
	router.address(t, "liqo-tunnel", on(c.here))
	far.address(t, "eth0", on(c.there))
	far.address(t, "lo", alone(c.far))
	// A tunnel asks for no neighbours, and neither does this one.
	tunnel, end := router.link(t, "liqo-tunnel").Attrs(), far.link(t, "eth0").Attrs()
	fatal(t, router.NeighSet(&netlink.Neigh{LinkIndex: tunnel.Index, IP: c.there.AsSlice(), HardwareAddr: end.HardwareAddr, State: netlink.NUD_PERMANENT}))
	fatal(t, far.NeighSet(&netlink.Neigh{LinkIndex: end.Index, IP: c.here.AsSlice(), HardwareAddr: tunnel.HardwareAddr, State: netlink.NUD_PERMANENT}))
	pod.route(t, everything.String(), c.near.String(), "eth0")
	far.route(t, everything.String(), c.here.String(), "eth0")
	for _, s := range []*testNamespace{pod, far} { // checksums are made by the sender and not left to the device
		s.inside(t, func() error { return computeChecksums("eth0") })
	}
	return pod, router, far
}

func computeChecksums(device string) error {
	const setTransmitChecksum = 0x17
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	value := struct{ command, data uint32 }{setTransmitChecksum, 0}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&value)}
	copy(request.name[:], device)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return fmt.Errorf("turning checksums of %s off: %w", device, errno)
	}
	return nil
}

// gateway translates between the cables: what comes from the far side when it enters, what goes there when it leaves, each
// before or after anything else, without state.
func (c cable) gateway() datapath.State {
	type rule = []datapath.Statement
	jump := func(kind datapath.VerdictKind, chain string) datapath.Verdict {
		return datapath.Verdict{Kind: kind, Chain: chain}
	}
	is := func(f datapath.Field, p netip.Prefix) datapath.Cmp {
		return datapath.Cmp{Field: f, Values: []datapath.Value{datapath.Prefix(p)}}
	}
	types := []uint32{3, 11, 12}
	if c.family == datapath.IPv6 {
		types = []uint32{1, 2, 3, 4}
	}
	errorsOf := datapath.Number{Field: datapath.ICMPType, Numbers: types}
	return datapath.State{
		Routes: []datapath.Route{
			{Table: 101, To: c.seen, Unreachable: true, Metric: datapath.UnreachableMetric},
			{Table: 101, To: c.seen, Via: c.there, Device: "liqo-tunnel"},
		},
		Rules: []datapath.Rule{{Priority: 101, Family: c.family, Table: 101}},
		Tables: []datapath.Table{{Family: c.family, Name: datapath.TableName, Counters: []string{"dropped", "entered"}, Chains: []datapath.Chain{
			{Name: "from_peer", Rules: []rule{
				{errorsOf, jump(datapath.Jump, "quoted_in")},
				{is(datapath.Source, c.pods), datapath.SetPrefix{Field: datapath.Source, Prefix: c.seen}, datapath.Counter{Name: "entered"}, datapath.Notrack{}, datapath.Verdict{Kind: datapath.Accept}},
				{datapath.Counter{Name: "dropped"}, datapath.Verdict{Kind: datapath.Drop}},
			}},
			{Name: "quoted_in", Rules: []rule{
				{is(datapath.QuotedDestination, c.pods), datapath.SetPrefix{Field: datapath.QuotedDestination, Prefix: c.seen}},
			}},
			{Name: "in", Type: datapath.Filter, Hook: datapath.Prerouting, Priority: -450, Rules: []rule{
				{is(datapath.Source, netip.PrefixFrom(c.there, c.there.BitLen())), datapath.Verdict{Kind: datapath.Accept}},
				{datapath.Word{Field: datapath.InputDevice, Word: "liqo-tunnel"}, jump(datapath.GoTo, "from_peer")},
				{is(datapath.Destination, c.seen), datapath.Notrack{}},
			}},
			{Name: "out", Type: datapath.Filter, Hook: datapath.Postrouting, Priority: 400, Rules: []rule{
				{datapath.Word{Field: datapath.OutputDevice, Word: "liqo-tunnel"}, is(datapath.Destination, c.seen), errorsOf, jump(datapath.Jump, "quoted_out")},
				{datapath.Word{Field: datapath.OutputDevice, Word: "liqo-tunnel"}, is(datapath.Destination, c.seen), datapath.SetPrefix{Field: datapath.Destination, Prefix: c.pods}},
			}},
			{Name: "quoted_out", Rules: []rule{
				{is(datapath.QuotedSource, c.seen), datapath.SetPrefix{Field: datapath.QuotedSource, Prefix: c.pods}},
			}},
			// Connection tracking is on, as a chain that translates needs it, and would put fragments together.
			{Name: "tracked", Type: datapath.NAT, Hook: datapath.Postrouting, Priority: 100, Rules: []rule{{datapath.Masquerade{}}}},
		}}},
	}
}

// echo answers on a port of UDP and one of TCP until the test ends.
func echo(t *testing.T, s *testNamespace, at netip.Addr) {
	t.Helper()
	s.inside(t, func() error {
		packets, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, 7)))
		if err != nil {
			return err
		}
		streams, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(at, 7)))
		if err != nil {
			return errors.Join(err, packets.Close())
		}
		t.Cleanup(func() {
			packets.Close()
			streams.Close()
		})
		go answerPackets(packets)
		go answerStreams(streams)
		return nil
	})
}

func answerPackets(c *net.UDPConn) {
	buffer := make([]byte, 1<<16)
	for {
		n, from, err := c.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return
		}
		c.WriteToUDPAddrPort(append(append([]byte{}, buffer[:n]...), from.Addr().Unmap().String()...), from)
	}
}

func answerStreams(l *net.TCPListener) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			io.Copy(c, c)
			fmt.Fprint(c, c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap())
		}()
	}
}

// exchange sends a packet and reads what comes back, again and again for a while: the kernel makes a new address of IPv6 its
// own only a little later, and tells of a way that is narrower than it knew by an error.
func exchange(c *net.UDPConn, packet, response []byte) (n int, err error) {
	const attempt = 200 * time.Millisecond
	for range patience / attempt {
		c.SetDeadline(time.Now().Add(attempt))
		if _, err = c.Write(packet); err == nil {
			n, err = c.Read(response)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, syscall.EMSGSIZE) {
			return n, err
		}
	}
	return n, fmt.Errorf("a packet of %d bytes: %w", len(packet), err)
}

// ask sends a packet and returns who the other side saw.
func ask(to netip.Addr, size int) (string, error) {
	return askAt(netip.AddrPortFrom(to, 7), size)
}

func askAt(to netip.AddrPort, size int) (string, error) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return "", err
	}
	defer c.Close()
	sent, got := bytes.Repeat([]byte{'x'}, size), make([]byte, size+100)
	n, err := exchange(c, sent, got)
	if err != nil {
		return "", err
	}
	who, ok := bytes.CutPrefix(got[:n], sent)
	if !ok {
		return "", fmt.Errorf("a packet of %d bytes came back as %d others", size, n)
	}
	return string(who), nil
}

// stream sends so many bytes by TCP and returns who the other side saw.
func stream(to netip.Addr, size int) (string, error) {
	return streamTo(netip.AddrPortFrom(to, 7), size)
}

func streamTo(to netip.AddrPort, size int) (string, error) {
	c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to))
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	sent := bytes.Repeat([]byte("stream"), size/6)
	go func() {
		c.Write(sent)
		c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil {
		return "", err
	}
	who, ok := bytes.CutPrefix(got, sent)
	if !ok {
		return "", fmt.Errorf("%d bytes came back otherwise", len(sent))
	}
	return string(who), nil
}

func TestGatewayPrefixTranslation(t *testing.T) {
	eachCable(t, func(t *testing.T, c cable) {
		pod, router, far := c.lay(t)
		k := router.open(t)
		k.mustApply(t, c.gateway())
		echo(t, far, c.far)
		pod.inside(t, func() error {
			var errs []error
			for _, size := range []int{0, 500, 4000, 9000} { // the larger ones in fragments
				if who, err := ask(c.farHere, size); who != c.pod.String() {
					errs = append(errs, fmt.Errorf("seen as %q: %w", who, err))
				}
			}
			if who, err := stream(c.farHere, 6<<17); who != c.pod.String() {
				errs = append(errs, fmt.Errorf("seen as %q: %w", who, err))
			}
			return errors.Join(errs...)
		})
		counters, err := k.Counted()
		fatal(t, err)
		if counters["entered"] < 10 {
			t.Errorf("counters: %v", counters)
		}
	})
}

// waitForPortUnreachable is nil if a connected socket is told that nobody listens there.
func waitForPortUnreachable(from, to netip.Addr) error {
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := exchange(c, []byte("anybody?"), make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("from %s: %v, and not: connection refused", from, err)
	}
	return nil
}

func TestICMPErrorTranslation(t *testing.T) {
	eachCable(t, func(t *testing.T, c cable) {
		pod, router, far := c.lay(t)
		router.open(t).mustApply(t, c.gateway())
		pod.inside(t, func() error { return waitForPortUnreachable(c.pod, c.farHere) })
		far.inside(t, func() error { return waitForPortUnreachable(c.far, c.pod) })
	})
}

// masquerading is the table of a CNI, which is not ours: whatever leaves by the tunnel gets the router's address.
func (c cable) masquerading(t *testing.T, k *Kernel) {
	t.Helper()
	k.foreign(t, datapath.Table{Family: c.family, Name: "cni", Chains: []datapath.Chain{
		{Name: "post", Type: datapath.NAT, Hook: datapath.Postrouting, Priority: 100, Rules: [][]datapath.Statement{
			{datapath.Word{Field: datapath.OutputDevice, Word: "liqo-tunnel"}, datapath.Masquerade{}},
		}},
	}})
}

func TestIdentityBeforeMasquerade(t *testing.T) {
	eachCable(t, func(t *testing.T, c cable) {
		pod, router, far := c.lay(t)
		k := router.open(t)
		c.masquerading(t, k)
		far.address(t, "lo", netip.PrefixFrom(c.farHere, c.farHere.BitLen()).String())
		router.route(t, c.seen.String(), c.there.String(), "liqo-tunnel")
		echo(t, far, c.farHere)
		echo(t, far, c.there)
		k.mustApply(t, datapath.State{Tables: []datapath.Table{{
			Family: c.family, Name: datapath.TableName,
			Sets: []datapath.Set{{Name: "direct", Key: []datapath.Type{datapath.TypeAddress}, Elements: []datapath.Element{{Key: []datapath.Value{datapath.Prefix(c.seen)}}}}},
			Chains: []datapath.Chain{{Name: "post", Type: datapath.NAT, Hook: datapath.Postrouting, Priority: 99, Rules: [][]datapath.Statement{
				{datapath.Lookup{Fields: []datapath.Field{datapath.OriginalDestination}, Set: "direct"}, datapath.TranslateSource{Identity: true}},
			}}},
		}}})
		for to, want := range map[netip.Addr]netip.Addr{c.farHere: c.pod, c.there: c.here} {
			pod.inside(t, func() error {
				one, err := ask(to, 100)
				two, streamError := stream(to, 6000)
				if one != want.String() || two != want.String() {
					return fmt.Errorf("%s sees %s and %s, not %s: %v", to, one, two, want, errors.Join(err, streamError))
				}
				return nil
			})
		}
		forgotten(t, c, router, k)
	})
}

// forgotten checks that just the flows to the prefix are gone.
func forgotten(t *testing.T, c cable, router *testNamespace, k *Kernel) {
	t.Helper()
	flows := func() (matching, others int) {
		h, err := netlink.NewHandleAt(router.handle, unix.NETLINK_NETFILTER)
		fatal(t, err)
		defer h.Close()
		all, err := h.ConntrackTableList(netlink.ConntrackTable, netlink.InetFamily(familyOf(c.pod)))
		fatal(t, err)
		for _, f := range all {
			if (prefixes{c.seen}).MatchConntrackFlow(f) {
				matching++
			} else {
				others++
			}
		}
		return matching, others
	}
	matching, others := flows()
	n, err := k.Forget(c.seen, parsePrefix("192.0.2.0/24"), parsePrefix("2001:db8::/32"))
	fatal(t, err)
	remaining, rest := flows()
	if matching == 0 || others == 0 || n != matching || remaining != 0 || rest != others {
		t.Errorf("of %d flows and %d others %d are forgotten, and %d and %d left", matching, others, n, remaining, rest)
	}
}

// udpless is how far the inner packet is into the payload of the outer one.
const udpless = vxlanHeader + ethernetHeader

// vxlan is the payload of a packet that carries one of another source.
func vxlan(source netip.Addr) []byte {
	etherType, header, at := []byte{0x08, 0x00}, make([]byte, 20), 12
	if source.Is6() {
		etherType, header, at = []byte{0x86, 0xdd}, make([]byte, 40), 8
	}
	copy(header[at:], source.AsSlice())
	ethernet := append(make([]byte, 12), etherType...)
	return append(append([]byte{8, 0, 0, 0, 0, 0, 1, 0}, ethernet...), header...)
}

func TestGatewayAntiSpoofing(t *testing.T) {
	eachCable(t, func(t *testing.T, c cable) {
		_, router, far := c.lay(t)
		k := router.open(t)
		state := datapath.State{Tables: []datapath.Table{{
			Family: c.family, Name: datapath.TableName, Counters: []string{"forged", "spoken"},
			Sets: []datapath.Set{
				{Name: "speaks", Key: []datapath.Type{datapath.TypeAddress, datapath.TypeAddress}, Elements: []datapath.Element{
					{Key: []datapath.Value{datapath.Addr(c.there), datapath.Prefix(c.seen)}},
				}},
				{Name: "speaks_other", Key: []datapath.Type{datapath.TypeAddress, datapath.TypeOtherAddress}, Elements: []datapath.Element{
					{Key: []datapath.Value{datapath.Addr(c.there), datapath.OtherPrefix(cables[otherFamily(c.family).String()].seen)}},
				}},
			},
			Chains: []datapath.Chain{{Name: "outer", Type: datapath.Filter, Hook: datapath.Prerouting, Priority: -300, Rules: [][]datapath.Statement{
				{datapath.Cmp{Field: datapath.DestinationPort, Not: true, Values: []datapath.Value{datapath.Port(6091)}}, datapath.Verdict{Kind: datapath.Return}},
				{datapath.Lookup{Fields: []datapath.Field{datapath.Source, datapath.InnerSource}, Set: "speaks"}, datapath.Counter{Name: "spoken"}, datapath.Verdict{Kind: datapath.Accept}},
				{datapath.Lookup{Fields: []datapath.Field{datapath.Source, datapath.OtherInnerSource}, Set: "speaks_other"}, datapath.Counter{Name: "spoken"}, datapath.Verdict{Kind: datapath.Accept}},
				{datapath.Counter{Name: "forged"}, datapath.Verdict{Kind: datapath.Drop}},
			}}},
		}}}
		k.mustApply(t, state)
		echo(t, router, c.here)
		strange := cables[otherFamily(c.family).String()]
		confused := vxlan(strange.far) // of the other family, with an address that may speak where one of ours would be
		copy(confused[headerOf(c.family).source+udpless:], c.farHere.AsSlice())
		for _, packet := range []struct {
			from  netip.Addr
			inner []byte
		}{
			{c.there, vxlan(c.farHere)}, {c.there, vxlan(c.seen.Addr())}, {c.there, vxlan(c.far)}, {c.far, vxlan(c.farHere)}, {c.there, confused}, {c.there, vxlan(strange.farHere)},
		} {
			far.inside(t, func() error {
				conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(packet.from, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(c.here, 6091)))
				if err != nil {
					return err
				}
				defer conn.Close()
				_, err = conn.Write(packet.inner)
				return err
			})
		}
		far.inside(t, func() error { _, err := ask(c.here, 1); return err }) // of another port, and not counted
		want := map[string]uint64{"spoken": 3, "forged": 3}
		for range 2 {
			var counters map[string]uint64
			if err := soon("all packets to be counted", func() (_ bool, err error) {
				counters, err = k.Counted()
				return maps.Equal(want, counters), err
			}); err != nil {
				t.Errorf("%v: %s", err, cmp.Diff(want, counters))
			}
			state.Tables[0].Chains[0].Rules = state.Tables[0].Chains[0].Rules[:1] // counters stay when rules change
			k.mustApply(t, state)
		}
	})
}

func TestUnreachablePrefix(t *testing.T) {
	eachCable(t, func(t *testing.T, c cable) {
		pod, router, _ := c.lay(t)
		state := c.gateway()
		state.Routes = state.Routes[:1] // without the gateway's peer there is only the last resort
		router.open(t).mustApply(t, state)
		pod.inside(t, func() error {
			_, err := stream(c.farHere, 6)
			if errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH) {
				return nil
			}
			return fmt.Errorf("%v, and not: unreachable", err)
		})
	})
}

func TestFabricFamilies(t *testing.T) {
	eachFamily(t, func(t *testing.T, inner sample) {
		eachCable(t, func(t *testing.T, outer cable) {
			_, a, b := outer.lay(t)
			end := func(own, other, outer netip.Addr) datapath.State {
				host := func(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
				return datapath.State{
					Links:      []datapath.Link{{Name: names.FabricDevice, VXLAN: &datapath.VXLAN{ID: 1, Port: 6091, MAC: datapath.MAC(own)}, MTU: 1340}},
					Addresses:  []datapath.Address{{Device: "lo", Prefix: host(own)}},
					Neighbours: []datapath.Neighbour{{Device: names.FabricDevice, Next: other, MAC: datapath.MAC(other), Outer: outer}},
					Routes:     []datapath.Route{{Table: 6091, To: host(other), Via: other, Device: names.FabricDevice, OnLink: true, Source: own, MTU: 1340}},
					Rules:      []datapath.Rule{{Priority: 105, Family: inner.family, Table: 6091}},
				}
			}
			a.open(t).mustApply(t, end(inner.own, inner.alias, outer.there))
			b.open(t).mustApply(t, end(inner.alias, inner.own, outer.here))
			echo(t, b, inner.alias)
			a.inside(t, func() error {
				packet, err := ask(inner.alias, 4000)
				flow, streamError := stream(inner.alias, 6<<14)
				if packet != inner.own.String() || flow != inner.own.String() {
					return fmt.Errorf("seen as %q and %q: %w", packet, flow, errors.Join(err, streamError))
				}
				return nil
			})
		})
	})
}

func TestRouteIPv4ViaIPv6(t *testing.T) {
	_, a, b := cables["ip6"].lay(t)
	four, six, outer := samples["ip"], samples["ip6"], cables["ip6"]
	end := func(own, other, next, outer netip.Addr) datapath.State {
		return datapath.State{
			Links:      []datapath.Link{{Name: names.FabricDevice, VXLAN: &datapath.VXLAN{ID: 1, Port: 6091, MAC: datapath.MAC(own)}, MTU: 1340}},
			Addresses:  []datapath.Address{{Device: "lo", Prefix: netip.PrefixFrom(own, 32)}},
			Neighbours: []datapath.Neighbour{{Device: names.FabricDevice, Next: next, MAC: datapath.MAC(other), Outer: outer}},
			Routes:     []datapath.Route{{Table: 6091, To: netip.PrefixFrom(other, 32), Via: next, Device: names.FabricDevice, OnLink: true, Source: own}},
			Rules:      []datapath.Rule{{Priority: 105, Family: datapath.IPv4, Table: 6091}},
		}
	}
	here := end(four.own, four.alias, six.alias, outer.there)
	k := a.open(t)
	k.mustApply(t, here)
	b.open(t).mustApply(t, end(four.alias, four.own, six.own, outer.here))
	here.Sort()
	if diff := cmp.Diff(here.String(), k.mustObserve(t)); diff != "" {
		t.Error(diff)
	}
	if c := k.mustApply(t, here); len(c.Writes) > 0 {
		t.Errorf("a second time: %q", c.Writes)
	}
	echo(t, b, four.alias)
	a.inside(t, func() error {
		who, err := ask(four.alias, 100)
		if who != four.own.String() {
			return fmt.Errorf("seen as %q: %w", who, err)
		}
		return nil
	})
}

func TestServiceMap(t *testing.T) {
	eachCable(t, func(t *testing.T, c cable) {
		pod, router, far := c.lay(t)
		echo(t, far, c.there)
		service := c.farHere
		key := func(protocol uint8) []datapath.Value {
			return []datapath.Value{datapath.Addr(service), datapath.ProtocolValue(protocol), datapath.Port(443)}
		}
		router.open(t).mustApply(t, datapath.State{Tables: []datapath.Table{{
			Family: c.family, Name: datapath.TableName,
			Sets: []datapath.Set{{
				Name: "services", Key: []datapath.Type{datapath.TypeAddress, datapath.TypeProtocol, datapath.TypePort},
				Value: []datapath.Type{datapath.TypeAddress, datapath.TypePort},
				Elements: []datapath.Element{
					{Key: key(datapath.TCP), Value: []datapath.Value{datapath.Addr(c.there), datapath.Port(7)}},
					{Key: key(datapath.UDP), Value: []datapath.Value{datapath.Addr(c.there), datapath.Port(9)}},
				},
			}},
			Chains: []datapath.Chain{{Name: "services", Type: datapath.NAT, Hook: datapath.Prerouting, Priority: -101, Rules: [][]datapath.Statement{
				{datapath.TranslateDestination{Map: "services", Key: []datapath.Field{datapath.Destination, datapath.L4Protocol, datapath.DestinationPort}}},
			}}},
		}}})
		pod.inside(t, func() error {
			who, err := streamTo(netip.AddrPortFrom(service, 443), 6000)
			if who != c.pod.String() {
				return fmt.Errorf("seen as %q: %w", who, err)
			}
			return nil
		})
	})
}

func TestMSSClamping(t *testing.T) {
	eachCable(t, func(t *testing.T, c cable) {
		headers := map[datapath.Family]int{datapath.IPv4: 20 + 20, datapath.IPv6: 40 + 20}[c.family]
		for name, tc := range map[string]struct {
			clamp datapath.ClampMSS
			want  int
		}{
			"the route":  {datapath.ClampMSS{}, 1300 - headers},
			"the number": {datapath.ClampMSS{Size: 700}, 700},
			"neither":    {datapath.ClampMSS{Size: 9000}, 1500 - headers}, // it asks for less already
		} {
			t.Run(name, func(t *testing.T) {
				pod, router, far := c.lay(t)
				all := netip.PrefixFrom(c.farHere, c.farHere.BitLen())
				far.address(t, "lo", all.String())
				router.open(t).mustApply(t, datapath.State{
					Routes: []datapath.Route{
						{Table: 101, To: all, Via: c.there, Device: "liqo-tunnel"},
						{Table: 101, To: netip.PrefixFrom(c.pod, c.pod.BitLen()), Via: c.pod, Device: "pod0", OnLink: true, MTU: 1300},
					},
					Rules: []datapath.Rule{{Priority: 101, Family: c.family, Table: 101}},
					Tables: []datapath.Table{{Family: c.family, Name: datapath.TableName, Chains: []datapath.Chain{
						{Name: "mss", Type: datapath.Filter, Hook: datapath.Forward, Rules: [][]datapath.Statement{{datapath.SYN{}, tc.clamp}}},
					}}},
				})
				echo(t, far, c.farHere)
				pod.inside(t, func() error {
					got, err := segment(netip.AddrPortFrom(c.farHere, 7))
					if got != tc.want {
						return fmt.Errorf("segments of %d bytes, not %d: %w", got, tc.want, err)
					}
					return nil
				})
			})
		}
	})
}

// segment is the size of segments that the other side may be sent, without the room that timestamps take.
func segment(to netip.AddrPort) (int, error) {
	c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	const timestamps = 12
	size := 0
	var option error
	err = raw.Control(func(fd uintptr) { size, option = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG) })
	return size + timestamps, errors.Join(err, option)
}
