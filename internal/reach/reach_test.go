// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
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

func TestWhoAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		target Target
		want   string
	}{
		"the right one":            {Target{serve(t, "a"), []string{"a"}}, ""},
		"everybody behind it":      {Target{service(t, "a", "a", "b", "c"), []string{"c", "b", "a"}}, ""},
		"a stranger":               {Target{serve(t, "x"), []string{"a", "b"}}, `"x" answers instead of a, b`},
		"a stranger among others":  {Target{service(t, "a", "x"), []string{"a", "b"}}, `"x" answers instead of a, b`},
		"one of two":               {Target{service(t, "a"), []string{"a", "b"}}, "no answer from b"},
		"nobody":                   {Target{closed(t), []string{"a"}}, "connect: connection refused"},
		"somebody who is silent":   {Target{silent(t), []string{"a"}}, "no answer in time"},
		"somebody else's server":   {Target{status(t, 404), []string{"a"}}, "the answer is 404 Not Found"},
		"nobody, for whom no name": {Target{"nobody.invalid:80", []string{"a"}}, "no such host"},
		"what is no address":       {Target{"a b:80", []string{"a"}}, `invalid character " " in host name`},
	} {
		t.Run(name, func(t *testing.T) {
			err := Ask(t.Context(), []Target{tc.target}, Options{For: time.Second, Each: 200 * time.Millisecond})[0]
			switch {
			case tc.want == "" && err != nil, tc.want != "" && err == nil:
				t.Errorf("got %v, want %q", err, tc.want)
			case err != nil && !strings.Contains(err.Error(), tc.want) && name != "nobody, for whom no name": // a machine may have no name server at all
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestWhatComesLateIsWaitedFor(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "a")
	}))
	defer s.Close()
	if err := Ask(t.Context(), []Target{{s.Listener.Addr().String(), []string{"a"}}}, Options{})[0]; err != nil {
		t.Error(err)
	}
}

func TestAllOfItEndsInTime(t *testing.T) {
	at := closed(t)
	targets := make([]Target, 3*askedAtOnce)
	for i := range targets {
		targets[i] = Target{at, []string{"a"}}
	}
	began := time.Now()
	for i, err := range Ask(t.Context(), targets, Options{For: time.Hour, Within: time.Second}) {
		if err == nil {
			t.Errorf("target %d is reached", i)
		}
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s", took)
	}
}

func TestManyAreAskedAtOnce(t *testing.T) {
	targets := make([]Target, 40)
	for i := range targets {
		targets[i] = Target{serve(t, "a"), []string{"a"}}
	}
	targets[7].Answers = []string{"b"}
	for i, err := range Ask(t.Context(), targets, Options{}) {
		if (err != nil) != (i == 7) {
			t.Errorf("target %d: %v", i, err)
		}
	}
}

func TestResultsFitIntoTheStatusOfAPod(t *testing.T) {
	for name, errs := range map[string][]error{
		"none":                {},
		"all well":            {nil, nil},
		"one failed":          {nil, errors.New("refused"), nil},
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
				if got != nil && got != errUnsaid && !strings.HasPrefix(errs[i].Error(), got.Error()) {
					t.Fatalf("target %d: got %v, want %v", i, got, errs[i])
				}
			}
		})
	}
}

func all(n int, why string) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = errors.New(why)
	}
	return errs
}

func TestWhatIsNoResult(t *testing.T) {
	for message, want := range map[string]string{
		"":                               "no list of results",
		`liqo: unknown command "reach"`:  `"liqo: unknown command \"reach\"" is no list of results`,
		`{"marks":"."}`:                  "there are 1 results for 2 targets",
		`{"marks":"..x","why":{"2":"y"}`: "no list of results",
	} {
		if _, err := ParseResults(message, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", message, err)
		}
	}
}
