// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/spec"
)

func TestParseClusterNames(t *testing.T) {
	for text, want := range map[string][]string{
		"1": {"a"}, "3": {"a", "b", "c"}, "c": {"c"}, "a,d": {"a", "d"}, "0": nil, "27": nil,
	} {
		got, err := parseClusterNames(text)
		if diff := cmp.Diff(want, got); diff != "" || (err != nil) != (want == nil) {
			t.Errorf("--clusters %s: %v %s", text, err, diff)
		}
	}
}

func TestResolveClusters(t *testing.T) {
	for name, c := range map[string]struct {
		flags   string
		workers int
		err     string
	}{
		"no flags keep the configuration":   {"--clusters a", 2, ""},
		"same flags":                        {"--clusters a --workers 2 --audit", 2, ""},
		"more workers":                      {"--clusters a --workers 3", 3, ""},
		"fewer workers":                     {"--clusters a --workers 1", 0, "workers cannot be removed"},
		"other IP family":                   {"--clusters a --ip-family dual", 0, "created with other flags"},
		"invalid CNI":                       {"--clusters b --cni magic", 0, "must be masquerade, plain, overlay, flannel, kube-router, cilium or cilium-without-kube-proxy"},
		"number of CNIs":                    {"--clusters a,b,c --cni overlay,plain", 0, "one value for all clusters or one for each"},
		"other CNI":                         {"--clusters a --cni overlay", 0, "created with other flags"},
		"invalid number of simulated nodes": {"--clusters b --simulated-nodes 101", 0, "must be between 0 and 100"},
		"invalid name of a cluster":         {"--clusters A", 0, "must be one letter"},
		"short lifetime of certificates":    {"--clusters b --cluster-signing-duration 1s", 0, "must be at least 1m"},
	} {
		t.Run(name, func(t *testing.T) {
			h := testHome(t)
			existing := spec.Default("a", h.World)
			existing.Workers, existing.Audit = 2, true
			if err := h.Save(existing); err != nil {
				t.Fatal(err)
			}
			cmd, o := newUpCommand(nil)
			if err := cmd.ParseFlags(strings.Fields(c.flags)); err != nil {
				t.Fatal(err)
			}
			got, err := o.resolveClusters(h)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := existing
			want.Workers = c.workers
			if diff := cmp.Diff([]spec.Cluster{want}, got, cmp.Comparer(func(a, b spec.World) bool { return a == b })); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCNIOfEachCluster(t *testing.T) {
	for flags, want := range map[string]string{
		"--clusters 2":                                "masquerade masquerade",
		"--clusters 2 --cni overlay":                  "overlay overlay",
		"--clusters c,a --cni masquerade,overlay":     "masquerade overlay",
		"--clusters 3 --cni plain,overlay,masquerade": "plain overlay masquerade",
	} {
		cmd, o := newUpCommand(nil)
		if err := cmd.ParseFlags(strings.Fields(flags)); err != nil {
			t.Fatal(err)
		}
		clusters, err := o.resolveClusters(testHome(t))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range clusters {
			got = append(got, string(c.CNI))
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: %s", flags, diff)
		}
	}
}

func TestBuildOfInvalidCNI(t *testing.T) {
	cmd := buildCommand(nil)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs([]string{"--cni", "flannel,overlay"})
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), `invalid --cni "overlay"`) {
		t.Errorf("the error is %v", err)
	}
}

func TestParseTarget(t *testing.T) {
	h := testHome(t)
	c := spec.Default("a", h.World)
	c.Workers = 2
	if err := h.Save(c); err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{
		"a2": "node a2", "a/apiserver": "program kube-apiserver", "a/etcd": "program etcd",
		"a3": "no node", "a": "invalid target", "b1": "no cluster", "a/kubelet": "invalid program", "../x": "no cluster",
	} {
		f := fault{home: h}
		got := "nothing"
		switch err := f.parseTarget(target); {
		case err != nil:
			got = err.Error()
		case f.node != nil:
			got = "node " + f.node.Name
		default:
			got = "program " + f.program
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
}

func TestExistingClustersAfterKilledRun(t *testing.T) {
	h := testHome(t)
	for _, file := range []string{h.Cluster("a") + "/pki/ca.key", h.Node("b12") + "/log/x", h.Node("notes") + "/x"} {
		if err := home.Write(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := existingClusters(h)
	if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	nodes, err := existingNodes(h, "b")
	if diff := cmp.Diff([]string{"b12"}, nodes); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func testHome(t *testing.T) home.Home {
	t.Helper()
	t.Setenv("LIQO_PLAYGROUND_HOME", t.TempDir())
	t.Setenv("LIQO_PLAYGROUND_NAME", "pgcli") // tests of no other package use this name
	h, err := home.Open()
	if err != nil {
		t.Fatal(err)
	}
	return h
}
