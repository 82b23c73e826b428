// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// serve answers on a port of its own, for as long as the test runs.
func serve(t *testing.T, name string) string {
	t.Helper()
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- Serve(ctx, on, name) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return on.Addr().String()
}

// service answers with one name after the other.
func service(t *testing.T, names ...string) string {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, names[int(n.Add(1)-1)%len(names)])
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// once answers with a name, and then no more.
func once(t *testing.T, name string) string {
	t.Helper()
	var requests atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Swap(true) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, name)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// status answers with nothing but a code.
func status(t *testing.T, code int) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// silent takes connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = on.Close() })
	return on.Addr().String()
}

func closed(t *testing.T) string {
	t.Helper()
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := on.Close(); err != nil {
		t.Fatal(err)
	}
	return on.Addr().String()
}

func TestProbe(t *testing.T) {
	t.Parallel()
	// An answer may be late, but only what is never well is asked until the time is over.
	shortly := Options{For: 3 * time.Second}
	for name, tc := range map[string]struct {
		target Target
		want   string
		o      Options
	}{
		"the right one":           {Target{At: serve(t, "a"), Answers: []string{"a"}}, "", Options{}},
		"everybody behind it":     {Target{At: service(t, "a", "a", "b", "c"), Answers: []string{"c", "b", "a"}}, "", Options{}},
		"a stranger":              {Target{At: serve(t, "x"), Answers: []string{"a", "b"}}, `"x" answers instead of a, b`, Options{}},
		"a stranger among others": {Target{At: service(t, "a", "x"), Answers: []string{"a", "b"}}, `"x" answers instead of a, b`, Options{}},
		"one of two":              {Target{At: service(t, "a"), Answers: []string{"a", "b"}}, "no answer from b", shortly},
		"nobody":                  {Target{At: closed(t), Answers: []string{"a"}}, "connect: connection refused", shortly},
		"somebody who is silent":  {Target{At: silent(t), Answers: []string{"a"}}, "no answer in time", Options{For: shortly.For, Each: 200 * time.Millisecond}},
		"somebody else's server":  {Target{At: status(t, 404), Answers: []string{"a"}}, "the answer is 404 Not Found", shortly},
		"the right one, often":    {Target{At: serve(t, "a"), Answers: []string{"a"}, Times: 9}, "", Options{}},
		"a stranger, later":       {Target{At: service(t, "a", "a", "x"), Answers: []string{"a"}, Times: 9}, `"x" answers instead of a`, Options{}},
		"one who stops answering": {Target{At: once(t, "a"), Answers: []string{"a"}, Times: 9}, "only 1 answers of 9; the last error is: the answer is 503", shortly},
		"what is no address":      {Target{At: "a b:80", Answers: []string{"a"}}, `invalid character " " in host name`, shortly},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Ask(t.Context(), []Target{tc.target}, tc.o)[0]
			switch {
			case tc.want == "" && err != nil, tc.want != "" && err == nil:
				t.Errorf("got %v, want %q", err, tc.want)
			case err != nil && !strings.Contains(err.Error(), tc.want):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// A name server that always tells the same address first is no reason to ask nobody else.
func TestProbeAllAddresses(t *testing.T) {
	t.Parallel()
	first := serve(t, "a")
	_, port, err := net.SplitHostPort(first)
	if err != nil {
		t.Fatal(err)
	}
	on, err := net.Listen("tcp", net.JoinHostPort("127.0.0.2", port))
	if err != nil {
		t.Fatal(err)
	}
	second := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "b") }), ReadHeaderTimeout: time.Minute}
	go func() { _ = second.Serve(on) }()
	defer second.Close()
	asking := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: byName(func(_ context.Context, _, host string) ([]netip.Addr, error) {
		if host != "headless.default.svc" {
			return nil, &net.DNSError{Err: "no such host", Name: host}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::ffff:127.0.0.2")}, nil
	})}}
	if err := (Target{At: "headless.default.svc:" + port, Answers: []string{"a", "b"}}).probeTarget(t.Context(), asking, time.Minute); err != nil {
		t.Error(err)
	}
	unknown := Target{At: "another.default.svc:" + port, Answers: []string{"a"}}.probeTarget(t.Context(), asking, time.Second)
	if dns, ok := errors.AsType[*net.DNSError](unknown); !ok || dns.Name != "another.default.svc" {
		t.Errorf("of another name: %v", unknown)
	}
}

func TestProbeLateAnswer(t *testing.T) {
	var requests atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "a")
	}))
	defer s.Close()
	if err := Ask(t.Context(), []Target{{At: s.Listener.Addr().String(), Answers: []string{"a"}}}, Options{})[0]; err != nil {
		t.Error(err)
	}
}

func TestProbeTimeout(t *testing.T) {
	t.Parallel()
	at := closed(t)
	targets := make([]Target, 3*askedAtOnce)
	for i := range targets {
		targets[i] = Target{At: at, Answers: []string{"a"}}
	}
	start := time.Now()
	for i, err := range Ask(t.Context(), targets, Options{For: time.Hour, Within: time.Second}) {
		if err == nil {
			t.Errorf("target %d is reached", i)
		}
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("it took %s", took)
	}
}

// The last of sixty is found by the 600th answer, each of which takes 50 ms: one after the other that takes more than half a minute.
func TestProbeMany(t *testing.T) {
	t.Parallel()
	names := make([]string, 60)
	for i := range names {
		names[i] = fmt.Sprintf("server-%d", i)
	}
	var requests atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := int(requests.Add(1) - 1)
		last := n >= 600
		time.Sleep(50 * time.Millisecond) // how far it is
		if last {
			fmt.Fprint(w, names[59])
			return
		}
		fmt.Fprint(w, names[n%59])
	}))
	defer s.Close()
	if err := Ask(t.Context(), []Target{{At: s.Listener.Addr().String(), Answers: names}}, Options{})[0]; err != nil {
		t.Errorf("after %d answers: %v", requests.Load(), err)
	}
}

func TestProbeManyTimeout(t *testing.T) {
	for n, want := range map[int]time.Duration{0: 0, 1: 0, 2: 69 * time.Millisecond, 60: 12283 * time.Millisecond} {
		if got := (Target{Answers: make([]string, n)}).extraTime().Truncate(time.Millisecond); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

// Of some nothing is known yet when the time is over, others are not even asked.
func TestProbeUntried(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var requests atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == askedAtOnce {
			cancel()
		}
		<-r.Context().Done()
	}))
	defer s.Close()
	targets := make([]Target, 3*askedAtOnce)
	for i := range targets {
		targets[i] = Target{At: s.Listener.Addr().String(), Answers: []string{"a"}}
	}
	at := closed(t)
	for i, err := range Ask(ctx, targets, Options{For: time.Hour, Each: time.Hour}) {
		if !errors.Is(err, ErrUntried) {
			t.Errorf("target %d: %v", i, err)
		}
	}
	// What was found wrong before the time was over stays wrong.
	for i, err := range Ask(t.Context(), []Target{{At: at, Answers: []string{"a"}}}, Options{For: time.Hour, Within: 5 * time.Second}) {
		if err == nil || errors.Is(err, ErrUntried) {
			t.Errorf("target %d: %v", i, err)
		}
	}
}

func TestProbeConcurrency(t *testing.T) {
	targets := make([]Target, 40)
	for i := range targets {
		targets[i] = Target{At: serve(t, "a"), Answers: []string{"a"}}
	}
	targets[7].Answers = []string{"b"}
	for i, err := range Ask(t.Context(), targets, Options{}) {
		if (err != nil) != (i == 7) {
			t.Errorf("target %d: %v", i, err)
		}
	}
}

func TestResultsSize(t *testing.T) {
	for name, errs := range map[string][]error{
		"none":                {},
		"all well":            {nil, nil},
		"one failed":          {nil, errors.New("refused"), nil},
		"no time for one":     {ErrUntried, nil, errors.New("refused")},
		"quotes and newlines": {errors.New("\"a\"\n<b>")},
		"many failed":         all(MostTargets, strings.Repeat("y", 1000)),
		"letters of two":      all(MostTargets, strings.Repeat("ü", 1000)),
	} {
		t.Run(name, func(t *testing.T) {
			message, err := NewResults(errs).Message()
			if err != nil || len(message) > longestMessage {
				t.Fatalf("%d bytes, %v", len(message), err)
			}
			back, err := ParseResults(string(message), len(errs))
			if err != nil {
				t.Fatal(err)
			}
			for i, got := range back.Errors() {
				if (got == nil) != (errs[i] == nil) {
					t.Fatalf("target %d: got %v, want %v", i, got, errs[i])
				}
				if errors.Is(got, ErrUntried) != errors.Is(errs[i], ErrUntried) {
					t.Fatalf("target %d: got %v, want %v", i, got, errs[i])
				}
				if got != nil && got != errUnsaid && !strings.HasPrefix(errs[i].Error(), got.Error()) {
					t.Fatalf("target %d: got %v, want %v", i, got, errs[i])
				}
			}
		})
	}
}

func all(n int, reason string) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = errors.New(reason)
	}
	return errs
}

func TestResultsInvalid(t *testing.T) {
	for message, want := range map[string]string{
		"":                               "not a list of results",
		`liqo: unknown command "reach"`:  `"liqo: unknown command \"reach\"" is not a list of results`,
		`{"marks":"."}`:                  "there are 1 results for 2 targets",
		`{"marks":"..x","why":{"2":"y"}`: "not a list of results",
	} {
		if _, err := ParseResults(message, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", message, err)
		}
	}
}
