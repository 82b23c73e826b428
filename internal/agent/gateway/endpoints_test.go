// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/log"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// phonebook resolves what is in it.
type phonebook map[string]string

func (b phonebook) resolve(_ context.Context, _, host string) ([]netip.Addr, error) {
	if b[host] == "" {
		return nil, errors.New("nobody knows")
	}
	var out []netip.Addr
	for _, a := range strings.Fields(b[host]) {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

func TestEndpointsOfUserFirst(t *testing.T) {
	type endpoint = networkingv1beta1.EndpointStatus
	for name, tc := range map[string]struct {
		spec []string
		told *endpoint
		want []string
	}{
		"nothing":                     {},
		"what the user says":          {spec: []string{"b:1", "a:1"}, want: []string{"b:1", "a:1"}},
		"then all that the peer says": {spec: []string{"c:1"}, told: &endpoint{Addresses: []string{"b", "a"}, Port: 2}, want: []string{"c:1", "b:2", "a:2"}},
		"each once":                   {spec: []string{"b:1", "a:1"}, told: &endpoint{Addresses: []string{"a", "c", "b"}, Port: 1}, want: []string{"b:1", "a:1", "c:1"}},
		"the same at another port":    {spec: []string{"a:1"}, told: &endpoint{Addresses: []string{"a"}, Port: 2}, want: []string{"a:1", "a:2"}},
		"what the peer says alone":    {told: &endpoint{Addresses: []string{"fd00::1"}, Port: 2}, want: []string{"[fd00::1]:2"}},
		"with several ports":          {told: &endpoint{Addresses: []string{"a", "b"}, Ports: []int32{2, 3}}, want: []string{"a:2", "a:3", "b:2", "b:3"}},
	} {
		before := slices.Clone(tc.spec)
		if got := dialledAddresses(tc.spec, tc.told); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if !slices.Equal(before, tc.spec) {
			t.Errorf("%s: the arguments are %q now", name, tc.spec)
		}
	}
}

// The arguments of a gateway stay, whatever its peer says.
func TestEndpointsReported(t *testing.T) {
	type endpoint = networkingv1beta1.EndpointStatus
	a, b := &endpoint{Addresses: []string{"a"}, Port: 1}, &endpoint{Addresses: []string{"b"}, Port: 2}
	for name, tc := range map[string]struct {
		spec endpoint
		told *endpoint
		want []string
	}{
		"the user says":                {spec: *a, want: []string{"a:1"}},
		"the user says, and the peer":  {spec: *a, told: b, want: []string{"a:1", "b:2"}},
		"the peer says":                {told: a, want: []string{"a:1"}},
		"the peer says something else": {told: b, want: []string{"b:2", "a:1"}},
		"it is at another port":        {told: &endpoint{Addresses: []string{"a"}, Ports: []int32{3, 4}}, want: []string{"a:3", "a:4", "a:1"}},
		"the peer says nothing now":    {want: []string{"a:1"}},
		"the peer says no address now": {told: &endpoint{Port: 2}, want: []string{"a:1"}},
	} {
		gw := &networkingv1beta1.GatewayClient{}
		gw.Spec.Endpoint, gw.Status.Endpoint = tc.spec, tc.told
		if got := endpointSpec([]string{"a:1"}, gw); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if got := endpointSpec([]string{"a:1"}, nil); !slices.Equal(got, []string{"a:1"}) {
		t.Errorf("before the object is known: %q", got)
	}
}

func TestEndpointsBounded(t *testing.T) {
	reported := &networkingv1beta1.EndpointStatus{}
	for i := range 100 {
		reported.Addresses = append(reported.Addresses, fmt.Sprintf("node-%d.example", i), fmt.Sprintf("192.0.2.%d", i))
	}
	for i := range 64 {
		reported.Ports = append(reported.Ports, int32(i+1))
	}
	got := dialledAddresses([]string{"a:1"}, reported)
	hosts := map[string]bool{}
	for _, one := range got {
		if host, _, _ := net.SplitHostPort(one); strings.HasPrefix(host, "node-") {
			hosts[host] = true
		}
	}
	if len(got) != 1+maxTold || len(hosts) == 0 || len(hosts) > maxNames {
		t.Errorf("%d endpoints with %d names", len(got), len(hosts))
	}
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoints(func() {})
		e.resolve = func(_ context.Context, _, host string) ([]netip.Addr, error) {
			if strings.HasPrefix(host, "known") {
				return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
			}
			return nil, errors.New("nobody knows")
		}
		for i := range 1000 { // reports, one after another
			e.currentEndpoint(t.Context(), []string{fmt.Sprintf("known-%d.example:7", i), fmt.Sprintf("unknown-%d.example:7", i), fmt.Sprintf("127.0.0.1:%d", i), "192.0.2.1:7"})
			if i%2 == 0 { // else its lookup ends after the next report
				synctest.Wait()
			}
		}
		synctest.Wait()
		e.currentEndpoint(t.Context(), []string{"192.0.2.1:7"})
		synctest.Wait()
		if len(e.answers)+len(e.problems)+len(e.failed) > 0 {
			t.Errorf("after 1000 reports: %d answers, %d problems, %d failures", len(e.answers), len(e.problems), len(e.failed))
		}
	})
}

func TestEndpointsResolved(t *testing.T) {
	book := phonebook{"rome.example": "192.0.2.9 192.0.2.7", "inside.example": "127.0.0.1 192.0.2.8", "dual.example": "2001:db8::7 ::ffff:192.0.2.3"}
	for address, test := range map[string]struct{ want, problem string }{
		"192.0.2.1:51840":                        {want: "192.0.2.1:51840"},
		"[2001:db8::1]:51840":                    {want: "[2001:db8::1]:51840"},
		"[::ffff:192.0.2.1]:51840":               {want: "192.0.2.1:51840"},
		"rome.example:7":                         {want: "192.0.2.7:7 192.0.2.9:7"},
		"dual.example:7":                         {want: "192.0.2.3:7 [2001:db8::7]:7"},
		"192.0.2.1:7 rome.example:7 192.0.2.1:7": {want: "192.0.2.1:7 192.0.2.7:7 192.0.2.9:7"},
		"oslo.example:7 192.0.2.1:7":             {want: "192.0.2.1:7", problem: "resolving oslo.example: nobody knows"},
		"2001:db8::1:51840":                      {problem: `reading the endpoint "2001:db8::1:51840"`},
		"169.254.169.254:7 192.0.2.1:7":          {want: "192.0.2.1:7", problem: `checking the endpoint "169.254.169.254:7": 169.254.169.254 is a link-local address`},
		"127.0.0.1:7":                            {problem: `checking the endpoint "127.0.0.1:7": 127.0.0.1 is a loopback address`},
		"inside.example:7":                       {want: "192.0.2.8:7", problem: `checking the endpoint "inside.example:7": 127.0.0.1 is a loopback address`},
		"192.0.2.1:0":                            {problem: `reading the endpoint "192.0.2.1:0": invalid port "0"`},
		"192.0.2.1:70000":                        {problem: `reading the endpoint "192.0.2.1:70000": invalid port "70000"`},
		"":                                       {},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := book.endpoints()
			e.currentEndpoint(t.Context(), strings.Fields(address))
			synctest.Wait()
			if got := text(e.found); got != test.want {
				t.Errorf("%s: %s, want %s", address, got, test.want)
			}
			if got := fmt.Sprint(slices.Collect(maps.Values(e.problems))); !strings.HasPrefix(got, "["+test.problem) || test.problem == "" && got != "[]" {
				t.Errorf("%s: %s, want %s", address, got, test.problem)
			}
		})
	}
}

func (b phonebook) endpoints() *serverEndpoints {
	e := newEndpoints(func() {})
	e.resolve = b.resolve
	return e
}

func text(found []netip.AddrPort) string {
	var out []string
	for _, a := range found {
		out = append(out, a.String())
	}
	return strings.Join(out, " ")
}

func TestEndpointsRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := phonebook{"rome.example": "192.0.2.1 192.0.2.2"}
		e := book.endpoints()
		addresses := []string{"rome.example:7", "[2001:db8::3]:7"}
		var got []string
		use := func() {
			e.currentEndpoint(t.Context(), addresses)
			synctest.Wait() // for names
			got = append(got, e.currentEndpoint(t.Context(), addresses).Addr().String())
		}
		next := func() { e.nextEndpoint(t.Context()) }
		use()
		use() // the same until something is wrong with it
		next()
		use()
		next()
		use()
		next()
		use()
		book["rome.example"] = "192.0.2.4 192.0.2.5" // it moved
		next()
		use()
		delete(book, "rome.example") // the name server is away
		next()
		use()
		addresses = []string{"192.0.2.8:7", "192.0.2.5:7"} // what is in use stays so
		use()
		addresses = []string{"192.0.2.8:7"}
		use()
		want := []string{
			"192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::3", "192.0.2.1", "192.0.2.4", "192.0.2.5", "192.0.2.5", "192.0.2.8",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// A user configured an endpoint of the server, and the peer reports another one.
func TestEndpointsServerMoves(t *testing.T) {
	e := phonebook{}.endpoints()
	var got []string
	address := func(all ...string) { got = append(got, e.currentEndpoint(t.Context(), all).String()) }
	address("192.0.2.1:7")
	e.markWorking()
	address("192.0.2.1:7", "192.0.2.2:7")
	e.nextEndpoint(t.Context()) // it left
	e.markWorking()
	address("192.0.2.1:7", "192.0.2.3:7")
	e.markWorking()
	address("192.0.2.1:7", "192.0.2.3:7", "192.0.2.4:7")
	e.nextEndpoint(t.Context())
	e.markWorking()
	address("192.0.2.1:7", "192.0.2.3:7") // both were left: it begins anew
	e.markWorking()                       // it is back
	e.nextEndpoint(t.Context())
	e.markWorking()
	address("192.0.2.3:7", "192.0.2.1:7")
	e.markWorking()
	address("192.0.2.1:7")
	want := []string{"192.0.2.1:7", "192.0.2.1:7", "192.0.2.3:7", "192.0.2.3:7", "192.0.2.1:7", "192.0.2.3:7", "192.0.2.1:7"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The turn of a place that the server left comes round again before it is known where the server went.
func TestEndpointsNewsEndsRetry(t *testing.T) {
	for name, test := range map[string]struct{ said, want string }{
		"a place that nobody knew":      {"192.0.2.1:7 192.0.2.3:7", "192.0.2.3:7"},
		"said before it":                {"192.0.2.4:7 192.0.2.1:7 192.0.2.2:7", "192.0.2.4:7"},
		"nothing new":                   {"192.0.2.1:7 192.0.2.2:7", "192.0.2.1:7"},
		"what failed, in another order": {"192.0.2.2:7 192.0.2.1:7", "192.0.2.1:7"},
		"less":                          {"192.0.2.1:7", "192.0.2.1:7"},
	} {
		e := phonebook{}.endpoints()
		e.currentEndpoint(t.Context(), []string{"192.0.2.1:7", "192.0.2.2:7"})
		e.nextEndpoint(t.Context())
		e.markWorking()
		if got := e.nextEndpoint(t.Context()).String(); got != "192.0.2.1:7" {
			t.Fatalf("%s: the next one is %s", name, got)
		}
		addresses := strings.Fields(test.said)
		for range 2 { // and stays there
			if got := e.currentEndpoint(t.Context(), addresses).String(); got != test.want {
				t.Errorf("%s: it is at %s, want %s", name, got, test.want)
			}
		}
	}
}

// A place that is tried for the first time keeps its time: it is as good as what is new.
func TestEndpointsNewsDuringFirstTry(t *testing.T) {
	e := phonebook{}.endpoints()
	e.currentEndpoint(t.Context(), []string{"192.0.2.1:7", "192.0.2.2:7"})
	e.nextEndpoint(t.Context())
	if got := e.currentEndpoint(t.Context(), []string{"192.0.2.3:7", "192.0.2.1:7", "192.0.2.2:7"}).String(); got != "192.0.2.2:7" {
		t.Errorf("it is at %s", got)
	}
}

func TestEndpointsFirstName(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(*serverEndpoints)
		want      string
	}{
		"while none works":           {func(*serverEndpoints) {}, "192.0.2.1:7"},
		"also if another is retried": {func(e *serverEndpoints) { e.nextEndpoint(t.Context()) }, "192.0.2.1:7"},
		"but not if another works":   {func(e *serverEndpoints) { e.markWorking() }, "192.0.2.3:7"},
		"but not if another is tried": {func(e *serverEndpoints) {
			e.currentEndpoint(t.Context(), []string{"rome.example:7", "192.0.2.3:7", "192.0.2.4:7"})
			e.nextEndpoint(t.Context())
		}, "192.0.2.4:7"},
		"nor if what worked is gone": {func(e *serverEndpoints) {
			e.markWorking()
			e.currentEndpoint(t.Context(), []string{"rome.example:7", "192.0.2.4:7"})
		}, "192.0.2.1:7"},
	} {
		synctest.Test(t, func(t *testing.T) {
			may := make(chan struct{})
			e := newEndpoints(func() {})
			e.resolve = func(context.Context, string, string) ([]netip.Addr, error) {
				<-may
				return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
			}
			e.markWorking() // of which nothing is known yet
			if got := e.currentEndpoint(t.Context(), []string{"rome.example:7", "192.0.2.3:7"}); got.String() != "192.0.2.3:7" {
				t.Errorf("%s: at first %s", name, got)
			}
			test.meanwhile(e)
			close(may)
			synctest.Wait()
			if got := e.currentEndpoint(t.Context(), e.said); got.String() != test.want {
				t.Errorf("%s: %s, want %s", name, got, test.want)
			}
		})
	}
}

// Errors of a name server tell the port that was asked from, another one each time.
func TestEndpointsNameError(t *testing.T) {
	for address, want := range map[string]string{
		"read udp 10.244.0.5:%d->10.96.0.10:53: i/o timeout":            "resolving rome.example: i/o timeout",
		"read udp [fd00::5]:%d->[fd00::a]:53: read: connection refused": "resolving rome.example: connection refused",
		"no such host": "resolving rome.example: no such host",
	} {
		synctest.Test(t, func(t *testing.T) {
			port, logged := 40000, []string{}
			e := newEndpoints(func() {})
			e.resolve = func(_ context.Context, _, host string) ([]netip.Addr, error) {
				port++
				return nil, &net.DNSError{Err: strings.Replace(address, "%d", strconv.Itoa(port), 1), Name: host, Server: "10.96.0.10:53"}
			}
			ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}))
			for range 2 {
				e.currentEndpoint(ctx, []string{"rome.example:7"})
				synctest.Wait()
			}
			if len(logged) != 1 || !strings.Contains(logged[0], strconv.Quote(want)) || port != 40002 {
				t.Errorf("asked %d times, logged %q, want %q once", port-40000, logged, want)
			}
		})
	}
}

func TestEndpointsDeadName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moved := 0
		e := newEndpoints(func() { moved++ })
		e.resolve = func(ctx context.Context, _, host string) ([]netip.Addr, error) {
			if host == "dead.example" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
		}
		begin, addresses := time.Now(), []string{"dead.example:7", "rome.example:7"}
		e.currentEndpoint(t.Context(), addresses)
		synctest.Wait()
		if got := e.currentEndpoint(t.Context(), addresses); got.String() != "192.0.2.1:7" || moved != 1 || time.Since(begin) > 0 {
			t.Errorf("found %s after %s, moved %d times", got, time.Since(begin), moved)
		}
		time.Sleep(resolving)
		synctest.Wait()
		if got := e.currentEndpoint(t.Context(), addresses); got.String() != "192.0.2.1:7" || moved != 1 {
			t.Errorf("found %s, moved %d times", got, moved)
		}
	})
}

// The resolver says nothing until it is told to, or given up.
func TestEndpointsSlowResolver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moved, may := 0, make(chan struct{})
		var requests atomic.Int32
		e := newEndpoints(func() { moved++ })
		e.resolve = func(ctx context.Context, _, host string) ([]netip.Addr, error) {
			requests.Add(1)
			select {
			case <-may:
				return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		addresses := []string{"rome.example:7"}
		is := func(want string, asks int32, moves int) {
			t.Helper()
			got := e.currentEndpoint(t.Context(), addresses)
			synctest.Wait()
			if want == "" && got.IsValid() || want != "" && got.String() != want || requests.Load() != asks || moved != moves {
				t.Errorf("found %s, want %q; asked %d times, want %d; moved %d times, want %d", got, want, requests.Load(), asks, moved, moves)
			}
		}
		is("", 1, 0)
		is("", 1, 0)
		time.Sleep(resolving)
		synctest.Wait()
		is("", 2, 0)
		may <- struct{}{}
		synctest.Wait()
		is("192.0.2.1:7", 2, 1)
		e.nextEndpoint(t.Context())
		is("192.0.2.1:7", 3, 1)
		time.Sleep(resolving)
		synctest.Wait()
		is("192.0.2.1:7", 3, 1)
		addresses = append(addresses, "192.0.2.2:7", "oslo.example:7")
		is("192.0.2.2:7", 5, 1) // both names at once; what failed gives way
		close(may)
		synctest.Wait()
		if got := text(e.found); got != "192.0.2.1:7 192.0.2.2:7" {
			t.Errorf("found %s", got)
		}
	})
}
