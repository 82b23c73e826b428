// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAuditCounts(t *testing.T) {
	const log = `{"stage":"ResponseComplete","verb":"create","userAgent":"virtual-kubelet/v1","user":{"username":"system:serviceaccount:bench-to-provider:bench"},"objectRef":{"resource":"shadowpods"},"responseStatus":{"code":201}}
{"stage":"ResponseComplete","verb":"patch","userAgent":"liqo/v1","user":{"username":"someone-new"},"objectRef":{"resource":"pods","subresource":"status"},"responseStatus":{"code":409}}
{"stage":"ResponseComplete","verb":"create","userAgent":"kube-scheduler/v1 (linux)","user":{"username":"system:kube-scheduler"},"objectRef":{"resource":"pods","subresource":"binding"},"responseStatus":{"code":201}}
{"stage":"ResponseComplete","verb":"create","userAgent":"kube-controller-manager/v1","user":{"username":"system:serviceaccount:kube-system:replicaset-controller"},"objectRef":{"resource":"pods"},"responseStatus":{"code":201}}
{"stage":"ResponseStarted","verb":"watch","user":{"username":"someone"},"objectRef":{"resource":"pods"}}
{"stage":"ResponseComplete","verb":"watch","user":{"username":"someone"},"objectRef":{"resource":"pods"}}
{"stage":"ResponseComplete","verb":"update","user":{"username":"someone"},"objectRef":{"resource":"leases"}}
{"stage":"ResponseComplete","verb":"get","user":{"username":"someone"}}
{"stage":"ResponseComplete","verb":"get","user":{"username":"system:apiserver"},"objectRef":{"resource":"services"}}
{"stage":"ResponseComplete","verb":"list","userAgent":"liqo-bench","user":{"username":"kubernetes-admin"},"objectRef":{"resource":"pods"}}
{"stage":"ResponseComp`
	requests, err := readAudit("a", strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"a create shadowpods by liqo (bench)":                              1,
		"a patch pods/status by liqo (someone-new) → 409":                  1,
		"a create pods/binding by kube-scheduler":                          1,
		"a create pods by kube-controller-manager (replicaset-controller)": 1,
	}
	if diff := cmp.Diff(want, tally(requests)); diff != "" {
		t.Error(diff)
	}
	if ours := slices.DeleteFunc(requests, func(r request) bool { return !r.ours() }); len(ours) != 2 {
		t.Errorf("%d requests are ours, want 2", len(ours))
	}
}

func TestRedundantWrites(t *testing.T) {
	old := map[string]bool{"old": true}
	for name, c := range map[string]struct {
		user, verb, resource, object string
		want                         bool
	}{
		"a pod that was there":        {"x", "patch", "pods", "old", true},
		"a pod that is new":           {"x", "create", "shadowpods", "new", false},
		"a pod that is only read":     {"x", "get", "pods", "old", false},
		"a pod that others write":     {"system:kube-scheduler", "patch", "pods", "old", false},
		"a Node that did not change":  {"x", "patch", "nodes", "bench", true},
		"a certificate for a process": {"x", "create", "certificatesigningrequests", "csr", false},
	} {
		var r request
		r.User.Name, r.Verb, r.Object.Resource, r.Object.Name = c.user, c.verb, c.resource, c.object
		if got := r.redundant(old); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestProcessStat(t *testing.T) {
	got, err := parseStat("17 (a) b (c) S 4 17 17 0 -1 4194560 1 2 3 4 150 50 25 75 20 0 9 0 100 1 1")
	if err != nil {
		t.Fatal(err)
	}
	if got.parent != 4 || math.Abs(got.cpu-3) > 1e-9 {
		t.Errorf("got %+v, want parent 4 and 3 s", got)
	}
	if _, err := parseStat("17 (a) S 4"); err == nil {
		t.Error("half a line was read")
	}
}

func TestProcessClusters(t *testing.T) {
	stats := map[int]stat{10: {parent: 1}, 11: {parent: 10}, 12: {parent: 11}, 20: {parent: 1}, 21: {parent: 20}}
	for pid, want := range map[int]string{10: "a", 12: "a", 21: "", 99: ""} {
		if got := ancestor(stats, map[int]string{10: "a"}, pid); got != want {
			t.Errorf("process %d is of cluster %q, want %q", pid, got, want)
		}
	}
}

func TestProcessRoles(t *testing.T) {
	for line, want := range map[string]string{
		"/home/bin/kube-apiserver --x":        "kube-apiserver",
		"/usr/bin/liqo virtual-kubelet --x":   "virtual-kubelet",
		"/usr/bin/virtual-kubelet --x":        "virtual-kubelet",
		"/proc/self/exe internal node /x":     "playground node",
		"/usr/bin/crd-replicator --x":         "crd-replicator",
		"/home/bin/kube-controller-manager x": "kube-controller-manager",
	} {
		if got := roleOf(strings.Fields(line)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	for role, want := range map[string]bool{
		"a virtual-kubelet": true, "b controller-manager": true, "a crd-replicator": true,
		"a kube-controller-manager": false, "a kubelet": false,
	} {
		if our(role) != want {
			t.Errorf("%s is ours: %v", role, !want)
		}
	}
}

func TestVerdictMedians(t *testing.T) {
	r := &result{Restart: &restart{Pods: 100, Ready: 6, Writes: map[string]int{"a patch pods by liqo (x)": 2}}}
	for _, seconds := range []float64{1, 9, 2} {
		r.Bursts = append(r.Bursts, &burst{Pods: 100, Seconds: seconds, CPU: 1}, &burst{Pods: 100, Offloaded: true, Seconds: 3 * seconds, CPU: 4, Ours: 5})
	}
	broken := map[string]float64{}
	for _, row := range r.verdict() {
		if !row.Kept() {
			broken[row.What] = row.Value
		}
	}
	want := map[string]float64{
		"100 pods: CPU of both clusters":                               4,
		"start of the virtual kubelet with 100 pods: ready":            6,
		"start of the virtual kubelet with 100 pods: redundant writes": 2,
	}
	if diff := cmp.Diff(want, broken); diff != "" {
		t.Error(diff)
	}
}
