// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Results of requests: label values of the metric.
const (
	resultAccepted    = "accepted"
	resultMethod      = "method_refused"
	resultMalformed   = "malformed"
	resultHost        = "host_refused"
	resultUnreachable = "unreachable"
	resultFull        = "too_many"
)

// request is the first line of a request, and whether the request has a body.
type request struct {
	method, target string
	body           bool
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

func requestOf(req *http.Request) request {
	return request{method: req.Method, target: req.RequestURI, body: req.ContentLength != 0 || len(req.TransferEncoding) > 0}
}

// rejectedRequest is the response to a rejected request.
type rejectedRequest struct {
	status      int
	result, why string
}

// hostRule validates requests. The zero value allows all CONNECT requests.
type hostRule struct {
	// hosts are the allowed hosts with ports; any if empty.
	hosts []string
}

// newRule parses hosts with optional ports.
func newRule(hosts []string) (hostRule, error) {
	var out hostRule
	for _, h := range hosts {
		host, ok := parseAuthority(h)
		if bare := strings.Trim(h, "[]"); !ok && (!strings.Contains(bare, ":") || isAddress(bare)) {
			host, ok = parseAuthority(net.JoinHostPort(bare, "443"))
		}
		if !ok {
			return hostRule{}, fmt.Errorf("%q is not a host", h)
		}
		out.hosts = append(out.hosts, host)
	}
	return out, nil
}

// checkRequest returns the reason to reject a request, nil if allowed.
func (r hostRule) checkRequest(q request) *rejectedRequest {
	if q.method != http.MethodConnect {
		return &rejectedRequest{http.StatusMethodNotAllowed, resultMethod, "only CONNECT is served"}
	}
	host, ok := parseAuthority(q.target)
	switch {
	case !ok:
		return &rejectedRequest{http.StatusBadRequest, resultMalformed, "the target is not a host with a port"}
	case q.body:
		return &rejectedRequest{http.StatusBadRequest, resultMalformed, "CONNECT has no body"}
	case len(r.hosts) > 0 && !slices.Contains(r.hosts, host):
		return &rejectedRequest{http.StatusForbidden, resultHost, "this host is not served"}
	}
	return nil
}

// longestHost is the maximum length of a DNS name.
const longestHost = 253

// parseAuthority parses and normalises a host with a port.
func parseAuthority(text string) (string, bool) {
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" || len(host) > longestHost || strings.ContainsFunc(host, outOfPlace) {
		return "", false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", false
	}
	return net.JoinHostPort(strings.TrimSuffix(strings.ToLower(host), "."), strconv.FormatUint(n, 10)), true
}

// outOfPlace reports whether the character is invalid in host names and addresses.
func outOfPlace(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return !strings.ContainsRune("-._:%", r)
}
