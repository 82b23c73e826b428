// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"
)

func TestProxyConnectOnly(t *testing.T) {
	const api = "kubernetes.default.svc:443"
	pinned := []string{api, "10.0.0.7:6443", "[fd00::7]:6443", "bare.example", "fd00::8"}
	for name, tc := range map[string]struct {
		hosts []string
		request
		status int // 0: served
	}{
		"any host":                {nil, request{"CONNECT", "api.example:6443", false}, 0},
		"an address":              {nil, request{"CONNECT", "10.0.0.7:6443", false}, 0},
		"an address of IPv6":      {nil, request{"CONNECT", "[fd00::7]:6443", false}, 0},
		"one of the hosts":        {pinned, request{"CONNECT", "10.0.0.7:6443", false}, 0},
		"its IPv6":                {pinned, request{"CONNECT", "[fd00::7]:6443", false}, 0},
		"in capitals":             {pinned, request{"CONNECT", "Kubernetes.Default.SVC:443", false}, 0},
		"with the dot of a root":  {pinned, request{"CONNECT", "kubernetes.default.svc.:443", false}, 0},
		"with zeros":              {pinned, request{"CONNECT", "kubernetes.default.svc:0443", false}, 0},
		"the usual port":          {pinned, request{"CONNECT", "bare.example:443", false}, 0},
		"that of an address":      {pinned, request{"CONNECT", "[fd00::8]:443", false}, 0},
		"another port":            {pinned, request{"CONNECT", "10.0.0.7:22", false}, http.StatusForbidden},
		"another host":            {pinned, request{"CONNECT", "10.0.0.8:6443", false}, http.StatusForbidden},
		"what begins like a host": {pinned, request{"CONNECT", "kubernetes.default.svc.example:443", false}, http.StatusForbidden},
		"a GET":                   {nil, request{"GET", "http://api.example/", false}, http.StatusMethodNotAllowed},
		"a GET of a path":         {nil, request{"GET", "/", false}, http.StatusMethodNotAllowed},
		"OPTIONS of all":          {nil, request{"OPTIONS", "*", false}, http.StatusMethodNotAllowed},
		"in small letters":        {nil, request{"connect", api, false}, http.StatusMethodNotAllowed},
		"HTTP/2":                  {nil, request{"PRI", "*", false}, http.StatusMethodNotAllowed},
		"a path":                  {nil, request{"CONNECT", "/", false}, http.StatusBadRequest},
		"a URL":                   {nil, request{"CONNECT", "https://api.example:443", false}, http.StatusBadRequest},
		"no port":                 {nil, request{"CONNECT", "api.example", false}, http.StatusBadRequest},
		"port 0":                  {nil, request{"CONNECT", "api.example:0", false}, http.StatusBadRequest},
		"a port that is none":     {nil, request{"CONNECT", "api.example:65536", false}, http.StatusBadRequest},
		"a port with a sign":      {nil, request{"CONNECT", "api.example:+443", false}, http.StatusBadRequest},
		"a port with a name":      {nil, request{"CONNECT", "api.example:https", false}, http.StatusBadRequest},
		"no host":                 {nil, request{"CONNECT", ":443", false}, http.StatusBadRequest},
		"a user":                  {nil, request{"CONNECT", "user@api.example:443", false}, http.StatusBadRequest},
		"a long host":             {nil, request{"CONNECT", strings.Repeat("a", 254) + ":443", false}, http.StatusBadRequest},
		"a body":                  {nil, request{"CONNECT", api, true}, http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := newRule(tc.hosts)
			if err != nil {
				t.Fatal(err)
			}
			status := 0
			if why := r.checkRequest(tc.request); why != nil {
				status = why.status
			}
			if status != tc.status {
				t.Errorf("got %d, want %d", status, tc.status)
			}
		})
	}
	for _, host := range []string{"", "a b", "a:b:c", "https://a", "a:99999", "a/"} {
		if _, err := newRule([]string{host}); err == nil {
			t.Errorf("%q is taken as a host", host)
		}
	}
}

// Whatever comes, what is served is CONNECT, to one of the hosts, without a body.
func FuzzRequest(f *testing.F) {
	for _, head := range []string{
		"CONNECT a:443 HTTP/1.1\r\n\r\n", "CONNECT b:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", "CONNECT /a:443 HTTP/1.1\r\n\r\n",
		"CONNECT a:443 HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", "CONNECT A.:0443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET http://a:443/ HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT [::1%25lo]:1 HTTP/1.1\r\n\r\n",
	} {
		f.Add([]byte(head))
	}
	pinned, err := newRule([]string{"a:443", "[::1]:6443"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
		if err != nil {
			return
		}
		q := requestOf(req)
		for _, r := range []hostRule{{}, pinned} {
			if why := r.checkRequest(q); why != nil {
				if why.status < 400 || why.result == resultAccepted || why.why == "" {
					t.Errorf("%+v is refused with %+v", q, why)
				}
				continue
			}
			host, ok := parseAuthority(q.target)
			if again, same := parseAuthority(host); q.method != http.MethodConnect || q.body || !ok || !same || again != host {
				t.Errorf("%+v is served as %q", q, host)
			}
			if strings.ContainsAny(host, " /@?#\\\r\n\x00") {
				t.Errorf("%q is a host", host)
			}
			if len(r.hosts) > 0 && host != "a:443" && host != "[::1]:6443" {
				t.Errorf("%q is served", host)
			}
		}
	})
}
