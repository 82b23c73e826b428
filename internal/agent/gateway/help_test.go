// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/datapath/wg"
)

// patient is a device that notes what is done for it.
type patient struct {
	status wg.Status
	done   string
}

func (p *patient) Keep(...wg.PublicKey) error  { return nil }
func (p *patient) Apply(wg.Config) error       { return nil }
func (p *patient) Observe() (wg.Status, error) { return p.status, nil }
func (p *patient) OnUnreachable(func())        {}
func (p *patient) Close() error                { return nil }

func (p *patient) Implementation() wg.Implementation { return wg.Userspace }

func (p *patient) Restart(wg.PublicKey) error {
	p.done += "restart "
	return nil
}

func (p *patient) Rebind() error {
	p.done += "rebind "
	return nil
}

// A probe is sent each second. The last handshake is as old as the first probe.
func TestRehandshakeSilentTunnel(t *testing.T) {
	peer := newKey(t).Public()
	for name, test := range map[string]struct {
		server, unknown bool
		handshake       float64  // when
		answered        float64  // when the last answer came
		latency         float64  // of it
		asked           float64  // when the peer last asked
		left            float64  // when it said goodbye
		received        []uint64 // by then
		at              []float64
		want            string
	}{
		"nothing is lost":             {answered: 3, at: []float64{3.5, 4.5}},
		"something is lost":           {answered: 3, at: []float64{5.1}, want: "restart "},
		"not at each turn":            {answered: 3, at: []float64{5.1, 6, 7, 7.2}, want: "restart restart "},
		"a little sooner":             {answered: 3, at: []float64{5.1, 6, 7.05}, want: "restart restart "},
		"at each turn, of one near":   {answered: 3, latency: 0.1, at: []float64{5.1, 5.5, 6.05, 7}, want: "restart restart restart "},
		"of one that is far away":     {answered: 3, latency: 0.6, at: []float64{5.1, 6, 7.1}, want: "restart restart "},
		"after a handshake":           {answered: 3, handshake: 5, at: []float64{5.1, 6}},
		"of a clock that was set":     {answered: 3, handshake: 3600, at: []float64{5.1}, want: "restart "},
		"while data flows":            {answered: 3, received: []uint64{10, 20, 30, 40}, at: []float64{4.1, 5.1, 6.1, 7.1}},
		"heard of and asked":          {answered: 3, asked: 5, received: []uint64{10, 20}, at: []float64{4.1, 5.1}, want: "restart "},
		"asked for long":              {answered: 3, asked: 18, received: []uint64{10, 20, 30}, at: []float64{4.1, 17.1, 18.1}, want: "restart rebind "},
		"asked, but never answered":   {asked: 2, received: []uint64{10, 20}, at: []float64{1.1, 2.1}, want: "restart "},
		"asked when last answered":    {answered: 3, asked: 3.9, received: []uint64{10, 20, 30}, at: []float64{4.1, 5.1, 6.1}},
		"asked no more":               {answered: 3, asked: 4, received: []uint64{10, 20, 30, 40}, at: []float64{4.1, 4.9, 6, 7}},
		"heard of without a session":  {answered: 3, handshake: -174.5, received: []uint64{10, 20, 30, 40, 50}, at: []float64{4.1, 5.1, 6.1, 7.1, 18.1}, want: "restart rebind "},
		"when no more data flows":     {answered: 3, received: []uint64{10, 20, 20, 20, 0}, at: []float64{4.1, 5.1, 6, 6.2, 7}, want: "restart "},
		"silent after data":           {answered: 3, received: []uint64{10, 20, 20, 0}, at: []float64{4.1, 5.1, 6.2, 20.1}, want: "restart rebind "},
		"a server waits":              {server: true, answered: 3, at: []float64{5.1, 30}},
		"nobody knows where":          {unknown: true, answered: 3, at: []float64{5.1, 30}},
		"silent for long":             {answered: 3, at: []float64{18.1}, want: "rebind "},
		"silent from the beginning":   {at: []float64{2.1, 15.1, 16.1, 31}, want: "restart rebind restart rebind "},
		"a server that left":          {answered: 3, left: 3.5, at: []float64{3.51, 3.6, 3.8, 4.06}, want: "rebind restart rebind restart rebind restart "},
		"the next one has a session":  {answered: 3, left: 3.5, handshake: 3.8, at: []float64{3.81, 4.1}},
		"the last one had one more":   {answered: 3, left: 3.5, handshake: 3.6, at: []float64{3.81}, want: "rebind restart "},
		"a server that left long ago": {answered: 14, left: 3.5, at: []float64{14.5}},
		"heard of later than greeted": {answered: 17, at: []float64{19.1}, want: "restart "},
	} {
		h := newTimedHealth()
		h.ask(0)
		if test.answered > 0 {
			h.ask(test.answered - test.latency)
			h.Small.Hear(wire(h.at(test.answered-test.latency)), h.at(test.answered))
		}
		if test.asked > 0 {
			h.Asked = h.at(test.asked)
		}
		if test.left > 0 {
			h.Left = h.at(test.left)
		}
		p := &patient{status: wg.Status{Peers: []wg.PeerStatus{{PublicKey: peer, LastHandshake: wire(h.at(test.handshake))}}}}
		if !test.unknown {
			p.status.Peers[0].Endpoint = netip.MustParseAddrPort("192.0.2.1:7")
		}
		g := &gateway{device: p, options: Options{Server: test.server}, endpoints: newEndpoints(nil)}
		for i, at := range test.at {
			if test.received != nil {
				p.status.Peers[0].Received = test.received[i]
			}
			if err := g.keepPath(t.Context(), peer, h.PathHealth, h.at(at)); err != nil {
				t.Fatal(err)
			}
		}
		if p.done != test.want {
			t.Errorf("%s: %q, want %q", name, p.done, test.want)
		}
	}
}

// A server that answers fast is asked each second, last at 4 s. Another replica of it may be reached from another port, or by another endpoint.
func TestSilentServerFound(t *testing.T) {
	peer := newKey(t).Public()
	for name, test := range map[string]struct {
		latency   float64 // 0: a twentieth of a second
		handshake float64
		received  []uint64
		at        []float64
		want      string
		endpoints []string // that are used after the last look; one if there are none
	}{
		"its_answer_is_under_way": {at: []float64{4.1}},
		"one_answer_is_lost":      {at: []float64{4.3, 4.6, 5.0, 5.1, 5.2}},
		"two_are_lost":            {at: []float64{4.3, 5.3}, want: "restart "},
		"it_is_far_away":          {latency: 0.3, at: []float64{4.7, 5.5}},
		"and_late":                {latency: 0.3, at: []float64{5.7}, want: "restart "},
		"twice_a_second":          {at: []float64{5.3, 5.5, 5.8, 5.9}, want: "restart restart "},
		"from_another_port":       {at: []float64{5.9, 6.3, 6.5}, want: "restart rebind restart "},
		"after_a_handshake":       {handshake: 5.2, at: []float64{5.3, 5.6}},
		"while_data_flows":        {received: []uint64{10, 20}, at: []float64{5.0, 5.3}},
		"at_another_endpoint":     {at: []float64{5.3, 6.2, 6.8}, want: "restart restart ", endpoints: []string{"192.0.2.1:7", "192.0.2.2:7"}},
		"after_ten_seconds":       {at: []float64{14.3}, want: "restart "},
	} {
		t.Run(name, func(t *testing.T) {
			h, latency := newTimedHealth(), cmp.Or(test.latency, 0.05)
			h.ask(3)
			h.Small.Hear(wire(h.at(3)), h.at(3+latency))
			h.ask(4)
			p := &patient{status: wg.Status{Peers: []wg.PeerStatus{{PublicKey: peer, Endpoint: netip.MustParseAddrPort("192.0.2.1:7"), LastHandshake: wire(h.at(test.handshake))}}}}
			g := &gateway{device: p, endpoints: newEndpoints(nil)}
			g.endpoints.currentEndpoint(t.Context(), test.endpoints)
			for i, at := range test.at {
				if test.received != nil {
					p.status.Peers[0].Received = test.received[i]
				}
				if err := g.keepPath(t.Context(), peer, h.PathHealth, h.at(at)); err != nil {
					t.Fatal(err)
				}
			}
			if p.done != test.want {
				t.Errorf("%q, want %q", p.done, test.want)
			}
			if n := len(test.endpoints); n > 0 {
				if at := g.endpoints.currentEndpoint(t.Context(), test.endpoints); at.String() != test.endpoints[n-1] {
					t.Errorf("it uses %s, want %s", at, test.endpoints[n-1])
				}
			}
		})
	}
}

// It is looked at each second. The peer says at least every 10 s that it is there, and WireGuard renews a session after 120 s.
func TestRehandshakeUnwatchedTunnel(t *testing.T) {
	key := newKey(t).Public()
	for name, test := range map[string]struct {
		server  bool
		greeted []int // when
		until   int   // when the peer is heard of last
		end     int
		want    []int // when another way is taken
	}{
		"a peer that is there":               {greeted: []int{1, 121, 241}, until: 300, end: 300},
		"a peer that goes":                   {greeted: []int{1, 121}, until: 130, end: 190, want: []int{154, 169, 184}},
		"a peer that goes after a handshake": {greeted: []int{5}, until: 5, end: 40, want: []int{29}},
		"a peer that never was there":        {end: 46, want: []int{15, 30, 45}},
		"a peer that is found":               {greeted: []int{17}, until: 60, end: 60, want: []int{15}},
		"a peer that hears nothing":          {greeted: []int{1}, until: 200, end: 200, want: []int{182, 197}},
		"a server, which has no other way":   {server: true, end: 60},
	} {
		h := newTimedHealth()
		p := &patient{status: wg.Status{Peers: []wg.PeerStatus{{PublicKey: key, Endpoint: netip.MustParseAddrPort("192.0.2.1:7")}}}}
		g := &gateway{device: p, options: Options{Server: test.server, Unwatched: true}, endpoints: newEndpoints(nil), moved: h.at(0)}
		var got []int
		for s := range test.end + 1 {
			peer := &p.status.Peers[0]
			if greeted := slices.Contains(test.greeted, s); greeted || s%10 == 0 && s <= test.until {
				peer.Received += 32
				if greeted {
					peer.LastHandshake = wire(h.at(float64(s)))
				}
			}
			p.done = ""
			if err := g.keepPath(t.Context(), key, agent.PathHealth{}, h.at(float64(s))); err != nil {
				t.Fatal(err)
			}
			switch p.done {
			case "":
			case "rebind ":
				got = append(got, s)
			default:
				t.Errorf("%s: %s after %d s", name, p.done, s)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: after %v s, want %v", name, got, test.want)
		}
	}
}

// What nobody watches is kept by the age of the last handshake.
func TestEndpointKeptUnwatched(t *testing.T) {
	key, h := newKey(t).Public(), newTimedHealth()
	at := func(handshake float64, endpoint string) *patient {
		return &patient{status: wg.Status{Peers: []wg.PeerStatus{{PublicKey: key, Endpoint: netip.MustParseAddrPort(endpoint), LastHandshake: wire(h.at(handshake))}}}}
	}
	for handshake, want := range map[float64]string{-200: "", -100: "192.0.2.2:7"} {
		s := &gateway{device: at(handshake, "192.0.2.2:7"), options: Options{Server: true, Unwatched: true}, learned: memoryIn(t.TempDir())}
		if err := s.keepPath(t.Context(), key, agent.PathHealth{}, h.at(0)); err != nil {
			t.Fatal(err)
		}
		if kept := s.learned.loadEndpoint(); kept.IsValid() != (want != "") || want != "" && kept.String() != want {
			t.Errorf("a server keeps %s, want %q, with a handshake %g s ago", kept, want, -handshake)
		}
	}
	for handshake, want := range map[float64]string{-10: "192.0.2.1:7", 1: "192.0.2.2:7"} { // before and after that way was taken
		c := &gateway{device: at(handshake, "192.0.2.2:7"), options: Options{Unwatched: true}, endpoints: newEndpoints(nil), moved: h.at(0)}
		c.endpoints.currentEndpoint(t.Context(), []string{"192.0.2.2:7"})
		if err := c.keepPath(t.Context(), key, agent.PathHealth{}, h.at(2)); err != nil {
			t.Fatal(err)
		}
		if used := c.endpoints.currentEndpoint(t.Context(), []string{"192.0.2.1:7", "192.0.2.2:7"}); used.String() != want {
			t.Errorf("a client uses %s, want %s, with a handshake at %g s", used, want, handshake)
		}
	}
}

// The device tells when the last handshake was by the clock of the machine, which is set in between.
func TestHandshakeAgeClockStep(t *testing.T) {
	type look struct{ at, set, handshake float64 } // when, how far the clock is ahead by then, and what it showed at the last handshake
	for name, test := range map[string]struct {
		looks []look
		want  float64 // age after the last look; -1: there was none, or nobody knows
	}{
		"a clock that nobody sets":         {[]look{{10, 0, 5}, {20, 0, 5}}, 15},
		"set forward":                      {[]look{{10, 0, 5}, {20, 3600, 5}}, 15},
		"set back":                         {[]look{{10, 0, 5}, {20, -3600, 5}}, 15},
		"set forward, and a new handshake": {[]look{{10, 0, 5}, {20, 3600, 3618}}, 2},
		"set back, and a new handshake":    {[]look{{10, 0, 5}, {20, -3600, -3582}}, 2},
		"set forward after a new one":      {[]look{{10, 0, 5}, {20, 3600, 18}}, 10}, // since the last look
		"set back after a new one":         {[]look{{10, 0, 5}, {20, -3600, 18}}, 0},
		"the first one, set forward":       {[]look{{10, 0, 0}, {20, 3600, 18}, {30, 3600, 18}}, 20},
		"set back before the first look":   {[]look{{10, -3600, 5}, {20, -3600, 5}}, -1},
		"begun anew":                       {[]look{{10, 0, 5}, {20, 3600, 0}}, -1},
		"never":                            {[]look{{10, 0, 0}, {20, 0, 0}}, -1},
	} {
		h := newTimedHealth()
		var g handshakeClock
		got := -1.0
		for _, l := range test.looks {
			reported := time.Time{}
			if l.handshake != 0 {
				reported = wire(h.at(l.handshake))
			}
			if at := g.lastHandshake(reported, h.at(l.at), wire(h.at(l.at+l.set))); at.IsZero() {
				got = -1
			} else {
				got = h.at(l.at).Sub(at).Seconds()
			}
		}
		if got != test.want {
			t.Errorf("%s: %g s, want %g", name, got, test.want)
		}
	}
}

func TestClientTriesOtherEndpoint(t *testing.T) {
	peer, h := newKey(t).Public(), newTimedHealth()
	h.ask(0)
	p := &patient{status: wg.Status{Peers: []wg.PeerStatus{{PublicKey: peer, Endpoint: netip.MustParseAddrPort("192.0.2.1:7")}}}}
	g := &gateway{device: p, endpoints: newEndpoints(nil)}
	addresses := []string{"192.0.2.1:7", "192.0.2.2:7"}
	for i, want := range []string{"192.0.2.1:7", "192.0.2.2:7", "192.0.2.1:7"} {
		if at := g.endpoints.currentEndpoint(t.Context(), addresses); at.String() != want {
			t.Errorf("turn %d: %s, want %s", i, at, want)
		}
		if err := g.keepPath(t.Context(), peer, h.PathHealth, h.zero.Add(time.Duration(i+1)*silence)); err != nil {
			t.Fatal(err)
		}
	}
}

// The news of it come when another place has been silent for some time.
func TestNewEndpointFullTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, h := newKey(t).Public(), newTimedHealth()
		p := &patient{status: wg.Status{Peers: []wg.PeerStatus{{PublicKey: key, Endpoint: netip.MustParseAddrPort("192.0.2.1:7")}}}}
		g := &gateway{device: p, endpoints: newEndpoints(nil), prober: newProber(Options{}, netip.Addr{}, netip.Addr{}, logr.Discard(), func() {})}
		h.zero = time.Now()
		h.ask(0)
		at := func(endpoint string, seconds int, want string) {
			t.Helper()
			g.recordPeers([]wg.Peer{{PublicKey: key, Endpoint: netip.MustParseAddrPort(endpoint)}})
			time.Sleep(time.Duration(seconds) * time.Second)
			p.done = ""
			if err := g.keepPath(t.Context(), key, h.PathHealth, time.Now()); err != nil || p.done != want {
				t.Errorf("%d s at %s: %q, %v; want %q", seconds, endpoint, p.done, err, want)
			}
		}
		at("192.0.2.1:7", 14, "restart ")
		at("192.0.2.2:7", 14, "restart ")
		at("192.0.2.2:7", 1, "rebind ")
	})
}

func TestClientKeepsEndpoint(t *testing.T) {
	peer := newKey(t).Public()
	for answered, want := range map[bool]string{true: "192.0.2.2:7", false: "192.0.2.1:7"} {
		h := newTimedHealth()
		h.ask(0)
		if answered {
			h.padded(0, 0.1)
		}
		p := &patient{status: wg.Status{Peers: []wg.PeerStatus{{PublicKey: peer, Endpoint: netip.MustParseAddrPort("192.0.2.2:7")}}}}
		g := &gateway{device: p, endpoints: newEndpoints(nil)}
		g.endpoints.currentEndpoint(t.Context(), []string{"192.0.2.2:7"})
		if err := g.keepPath(t.Context(), peer, h.PathHealth, h.at(0.5)); err != nil {
			t.Fatal(err)
		}
		if at := g.endpoints.currentEndpoint(t.Context(), []string{"192.0.2.1:7", "192.0.2.2:7"}); at.String() != want {
			t.Errorf("answered %t: %s, want %s", answered, at, want)
		}
	}
}
