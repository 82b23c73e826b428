// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// request is one call of an API server, as its audit log has it.
type request struct {
	Cluster string
	Stage   string `json:"stage"`
	Verb    string `json:"verb"`
	Agent   string `json:"userAgent"`
	User    struct {
		Name string `json:"username"`
	} `json:"user"`
	Object struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// agent is the user agent of the benchmark itself, whose requests are no part of what is measured.
const agent = "liqo-bench"

// counts tells whether a request is part of the work that is measured: no watch, which lasts, no sign of life, nothing
// that an API server asks of itself.
func (r request) counts() bool {
	return r.Stage == "ResponseComplete" && r.Verb != "watch" && r.Object.Resource != "" && r.Object.Resource != "leases" &&
		r.User.Name != "system:apiserver" && !strings.HasPrefix(r.Agent, agent)
}

// others are the users that are not ours: whoever is not known here counts as ours.
var others = []string{"system:node:", "system:kube-", "system:serviceaccount:kube-system:", "kubernetes-admin"}

func (r request) ours() bool {
	return !slices.ContainsFunc(others, func(prefix string) bool { return strings.HasPrefix(r.User.Name, prefix) })
}

func (r request) writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
}

// what is the kind of a request, for lists of who does what.
func (r request) what() string {
	resource := r.Object.Resource
	if r.Object.Subresource != "" {
		resource += "/" + r.Object.Subresource
	}
	who, _, _ := strings.Cut(r.Agent, " ")
	who, _, _ = strings.Cut(who, "/")
	if r.ours() {
		who = "liqo (" + r.User.Name[strings.LastIndexByte(r.User.Name, ':')+1:] + ")"
	} else if account, ok := strings.CutPrefix(r.User.Name, "system:serviceaccount:kube-system:"); ok {
		who += " (" + account + ")"
	}
	out := fmt.Sprintf("%s %s %s by %s", r.Cluster, r.Verb, resource, who)
	if r.Response.Code >= 400 {
		out += fmt.Sprintf(" → %d", r.Response.Code)
	}
	return out
}

// mark is a place in the audit logs of both clusters.
type mark map[string]int64

func (p playground) auditLog(cluster string) string {
	return p.path("clusters", cluster, "log", "audit.log")
}

func (p playground) mark() (mark, error) {
	m := mark{}
	for _, c := range []string{consumerName, providerName} {
		info, err := os.Stat(p.auditLog(c))
		if err != nil {
			return nil, fmt.Errorf("looking at the audit log (playground up --audit): %w", err)
		}
		m[c] = info.Size()
	}
	return m, nil
}

// since returns what was asked of both API servers since a mark.
func (p playground) since(m mark) ([]request, error) {
	var all []request
	for c, offset := range m {
		f, err := os.Open(p.auditLog(c))
		if err != nil {
			return nil, fmt.Errorf("opening the audit log: %w", err)
		}
		defer f.Close()
		if _, err := f.Seek(offset, io.SeekStart); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		requests, err := readAudit(c, f)
		if err != nil {
			return nil, err
		}
		all = append(all, requests...)
	}
	return all, nil
}

// readAudit returns the requests that count. The last line may be half written.
func readAudit(cluster string, from io.Reader) ([]request, error) {
	var out []request
	lines := bufio.NewReaderSize(from, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		r := request{Cluster: cluster}
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("reading a line of the audit log: %w", err)
		}
		if r.counts() {
			out = append(out, r)
		}
	}
}

// tally counts requests by what they are.
func tally(requests []request) map[string]int {
	out := map[string]int{}
	for _, r := range requests {
		out[r.what()]++
	}
	return out
}
