// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package archtest holds the import table of the tree. Its tests fail with the sentence that was broken.
package archtest

import (
	"slices"
	"strings"
)

// Module is the import path of the product.
const Module = "liqo.io/liqo"

// level is one row of the import table: who it is, which of our packages and which kinds of others it may import.
type level struct {
	sentence string
	packages []string // patterns relative to Module; a trailing /* takes sub-packages in
	own      []string // patterns of ours that may be imported
	others   []string // prefixes of foreign packages that may be imported; nil = any
	not      []string // prefixes of packages of std that may not be imported
}

var (
	words = []string{"api/*", "internal/names"}
	// Leaves that work with addresses and with what the kernel is to be told.
	translating = []string{"internal/network/plan", "internal/virtualkubelet/translate"}
	leaves      = append([]string{
		"internal/election", "internal/exposition", "internal/prefix", "internal/pki", "internal/policy",
	}, translating...)
	kernel = []string{"internal/datapath/*"}
	kit    = []string{"internal/benchmark", "internal/certissuer", "internal/kube", "internal/mover", "internal/multicluster", "internal/peer", "internal/probe", "internal/servingcert", "internal/uninstall"}
	rooms  = []string{
		"internal/ipam", "internal/peering", "internal/auth", "internal/resourceslice", "internal/replicator", "internal/network",
		"internal/agent/*", "internal/consumer", "internal/provider", "internal/virtualkubelet", "internal/webhook", "internal/proxy", "internal/metricagent", "internal/storage",
	}
	// Of the programs, what is linked into that of the virtual kubelet.
	virtualKubelet = []string{"internal/app/kubelet", "internal/app/program"}
	words0         = []string{"k8s.io/api", "k8s.io/apimachinery"}
	// A client, the kernel or a log in a leaf would make a rule depend on more than its arguments. How a scheduler reads
	// node selectors and counts requests is better taken from Kubernetes than written again; YAML is the form of kubeconfigs.
	leafDeps = []string{"k8s.io/api", "k8s.io/apimachinery", "go4.org/netipx", "k8s.io/component-helpers/scheduling", "k8s.io/component-helpers/resource", "sigs.k8s.io/yaml"}
	impure   = []string{"log", "net/http", "net/rpc", "os", "syscall"}
)

// table is the import table. The first row whose packages match decides.
var table = []level{
	{
		sentence: "level 0, words: api/* and names import only std, k8s.io/api and apimachinery",
		packages: words, own: words, others: words0,
	},
	{
		sentence: "level 1, pki: imports level 0, std and the kubeconfig types of client-go",
		packages: []string{"internal/pki"}, own: words,
		others: append([]string{"k8s.io/client-go/tools/clientcmd/api"}, leafDeps...), not: impure,
	},
	{
		sentence: "level 1, leaves: plan and translate import level 0, std, netipx, prefix, policy and the types of datapath; no client, kernel or log",
		packages: translating, own: append([]string{"internal/prefix", "internal/policy", "internal/datapath"}, words...), others: leafDeps, not: impure,
	},
	{
		sentence: "level 1, leaves: pure packages import level 0, std and netipx; no client, kernel or log",
		packages: leaves, own: words, others: leafDeps, not: impure,
	},
	{
		sentence: "level 1, leaves: the words of datapath import level 0 and std; no kernel, client or log",
		packages: []string{"internal/datapath"}, own: words, others: []string{}, not: impure,
	},
	{
		sentence: "level 1, kernel: datapath imports levels 0 and 1, netlink, nftables and wireguard, and no Kubernetes client",
		packages: kernel, own: slices.Concat(words, leaves, kernel),
		others: append([]string{"github.com/vishvananda", "github.com/google/nftables", "golang.zx2c4.com/wireguard", "golang.org/x"}, leafDeps...),
	},
	{
		sentence: "level 2, kit: imports levels 0 and 1 and other kit, controller-runtime and client-go",
		packages: kit, own: slices.Concat(words, leaves, kit),
	},
	{
		sentence: "level 3, agents: import levels 0 to 2, datapath, and what both have in common",
		packages: []string{"internal/agent/*"}, own: slices.Concat(words, leaves, kit, kernel, []string{"internal/agent"}),
	},
	{
		sentence: "level 3, rooms: import levels 0 to 2, and never each other",
		packages: rooms, own: slices.Concat(words, leaves, kit),
	},
	{
		sentence: "level 4, the virtual kubelet's program: imports its room and levels 0 to 2, and no other room and no datapath",
		packages: append([]string{"cmd/virtual-kubelet"}, virtualKubelet...), own: slices.Concat(words, leaves, kit, []string{"internal/virtualkubelet"}, virtualKubelet),
	},
	{
		sentence: "level 4, the in-cluster program: app and cmd/liqo import rooms, and no Helm and nothing of the CLI",
		packages: []string{"internal/app", "cmd/liqo"}, own: slices.Concat(words, leaves, kit, rooms, kernel, []string{"internal/app/*"}),
	},
	{
		sentence: "helpers for tests of the CLI: ctltest imports ctl's packages, peer and testkit",
		packages: []string{"internal/ctl/ctltest"}, own: slices.Concat(words, []string{"internal/ctl/*", "internal/peer", "internal/testkit"}),
	},
	{
		sentence: "rules of the CLI: diagnose and fleet import levels 0 and 1, kube and peer, and read no cluster: no std that does, no client-go",
		packages: []string{"internal/ctl/diagnose", "internal/ctl/fleet"}, own: slices.Concat(words, leaves, []string{"internal/kube", "internal/peer", "internal/ctl/diagnose"}),
		others: append([]string{"sigs.k8s.io/controller-runtime/pkg/client"}, leafDeps...), not: impure,
	},
	{
		sentence: "level 4, the CLI: ctl and cmd/liqoctl import levels 0 to 2 and the chart, and no room and no datapath",
		packages: []string{"internal/ctl/*", "cmd/liqoctl"}, own: slices.Concat(words, leaves, kit, []string{"internal/ctl/*", "deploy"}),
	},
	{
		sentence: "test/* sees clusters through kubeconfigs only: it imports level 0, and what measures connections",
		packages: []string{"test/*"}, own: append([]string{"test/*", "internal/benchmark"}, words...),
	},
}

// forbidden are foreign packages that never get into a binary, however deep.
var forbidden = map[string][]string{
	"cmd/liqo":            {"helm.sh/helm"},
	"cmd/virtual-kubelet": {"helm.sh/helm", "github.com/vishvananda/netlink", "github.com/google/nftables", "golang.zx2c4.com/wireguard"},
	"cmd/liqoctl":         {"github.com/vishvananda/netlink", "github.com/google/nftables", "golang.zx2c4.com/wireguard"},
}

// check returns the sentence that pkg breaks by importing imp, or "".
func check(pkg, imp string) string {
	row := slices.IndexFunc(table, func(l level) bool { return matches(l.packages, rel(pkg)) })
	if row < 0 {
		return ""
	}
	l := table[row]
	switch {
	case rel(imp) != "":
		if rel(imp) != rel(pkg) && !matches(l.own, rel(imp)) {
			return l.sentence
		}
	case !strings.Contains(strings.SplitN(imp, "/", 2)[0], "."): // std
		if slices.ContainsFunc(l.not, func(p string) bool { return imp == p || strings.HasPrefix(imp, p+"/") }) {
			return l.sentence
		}
	case l.others != nil && !slices.ContainsFunc(l.others, func(p string) bool { return imp == p || strings.HasPrefix(imp, p+"/") }):
		return l.sentence
	}
	return ""
}

// rel is an import path relative to the module, "" for a foreign one.
func rel(path string) string {
	if r, ok := strings.CutPrefix(path, Module+"/"); ok {
		return r
	}
	return ""
}

func matches(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if dir, ok := strings.CutSuffix(p, "/*"); ok {
			return path == dir || strings.HasPrefix(path, dir+"/")
		}
		return path == p
	})
}
