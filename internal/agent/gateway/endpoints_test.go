// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestEndpointsThatAreFound(t *testing.T) {
	book := phonebook{"rome.example": "192.0.2.9 192.0.2.7", "dual.example": "2001:db8::7 ::ffff:192.0.2.3"}
	for said, test := range map[string]struct{ want, err string }{
		"192.0.2.1:51840":                        {want: "192.0.2.1:51840"},
		"[2001:db8::1]:51840":                    {want: "[2001:db8::1]:51840"},
		"[::ffff:192.0.2.1]:51840":               {want: "192.0.2.1:51840"},
		"rome.example:7":                         {want: "192.0.2.7:7 192.0.2.9:7"},
		"dual.example:7":                         {want: "192.0.2.3:7 [2001:db8::7]:7"},
		"192.0.2.1:7 rome.example:7 192.0.2.1:7": {want: "192.0.2.1:7 192.0.2.7:7 192.0.2.9:7"},
		"oslo.example:7 192.0.2.1:7":             {want: "192.0.2.1:7", err: "resolving oslo.example: nobody knows"},
		"2001:db8::1:51840":                      {err: `reading the endpoint "2001:db8::1:51840"`},
		"192.0.2.1:0":                            {err: `reading the endpoint "192.0.2.1:0": "0" is no port`},
		"192.0.2.1:70000":                        {err: `reading the endpoint "192.0.2.1:70000": "70000" is no port`},
		"":                                       {},
	} {
		e := endpoints{resolve: book.resolve}
		err := e.look(t.Context(), strings.Fields(said))
		if got := text(e.found); got != test.want {
			t.Errorf("%s: %s, want %s", said, got, test.want)
		}
		if message := fmt.Sprint(err); err != nil && (test.err == "" || !strings.Contains(message, test.err)) || err == nil && test.err != "" {
			t.Errorf("%s: %v, want %s", said, err, test.err)
		}
	}
}

func text(found []netip.AddrPort) string {
	var out []string
	for _, a := range found {
		out = append(out, a.String())
	}
	return strings.Join(out, " ")
}

func TestEndpointsTakeTurns(t *testing.T) {
	book := phonebook{"rome.example": "192.0.2.1 192.0.2.2"}
	e := endpoints{resolve: book.resolve}
	said := []string{"rome.example:7", "[2001:db8::3]:7"}
	var got []string
	use := func() {
		at, err := e.get(t.Context(), said)
		if err != nil {
			t.Error(err)
		}
		got = append(got, at.Addr().String())
	}
	next := func() { _ = e.next(t.Context()) }
	for range 3 {
		use()
		use() // the same until something is wrong with it
		next()
	}
	use()
	book["rome.example"] = "192.0.2.4 192.0.2.5" // it moved
	next()
	use()
	delete(book, "rome.example") // the name server is away
	next()
	use()
	said = []string{"192.0.2.8:7"}
	use()
	want := []string{"192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2", "2001:db8::3", "2001:db8::3", "192.0.2.1", "192.0.2.4", "2001:db8::3", "192.0.2.8"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatWasKnownIsBetterThanNothing(t *testing.T) {
	book := phonebook{"rome.example": "192.0.2.1"}
	e := endpoints{resolve: book.resolve}
	said := []string{"rome.example:7"}
	if _, err := e.get(t.Context(), said); err != nil {
		t.Fatal(err)
	}
	delete(book, "rome.example")
	if err := e.next(t.Context()); err == nil {
		t.Error("that a name is not known is not told")
	}
	if at, err := e.get(t.Context(), said); err != nil || at.String() != "192.0.2.1:7" {
		t.Errorf("found %s, %v", at, err)
	}
}

func TestNothingIsKnownYet(t *testing.T) {
	book := phonebook{}
	e := endpoints{resolve: book.resolve}
	if err := e.next(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if at, err := e.get(t.Context(), []string{"rome.example:7"}); err == nil || at.IsValid() {
			t.Errorf("found %s, %v", at, err)
		}
	}
	book["rome.example"] = "192.0.2.1"
	if at, err := e.get(t.Context(), []string{"rome.example:7"}); err != nil || at.String() != "192.0.2.1:7" {
		t.Errorf("found %s, %v", at, err)
	}
}
