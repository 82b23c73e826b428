// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/testkit"
)

func TestOffloadDryRun(t *testing.T) {
	r := liqoctl(t, nil, "offload", "namespace", "shop", "web", "--output", "yaml", "--global-labels", "app=${namespace}-${kind}",
		"-l", "region in (eu,asia),!spot", "-l", "zone=b,arch=arm64")
	r.succeeds(t)
	want := func(ns string) string {
		return `apiVersion: offloading.liqo.io/v1beta1
kind: NamespaceOffloading
metadata:
  labels:
    app: ` + ns + `-NamespaceOffloading
  name: offloading
  namespace: ` + ns + `
spec:
  clusterSelector:
    nodeSelectorTerms:
    - matchExpressions:
      - key: region
        operator: In
        values:
        - asia
        - eu
      - key: spot
        operator: DoesNotExist
    - matchExpressions:
      - key: arch
        operator: In
        values:
        - arm64
      - key: zone
        operator: In
        values:
        - b
  namespaceMappingStrategy: DefaultName
  podOffloadingStrategy: LocalAndRemote
status: {}
---
`
	}
	if diff := cmp.Diff(want("shop")+want("web"), r.stdout); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if r.stderr != "" {
		t.Errorf("stderr is %q", r.stderr)
	}
}

func TestOffloadInvalid(t *testing.T) {
	for want, args := range map[string][]string{
		"namespace name or label selector must be specified":                                        {},
		"must not be specified together":                                                            {"x", "--ns-selector", "a=b"},
		"the remote namespace name cannot be specified when offloading multiple namespaces at once": {"x", "y", "--remote-namespace-name", "z"},
		"--remote-namespace-name is required with the SelectedName strategy":                        {"x", "--namespace-mapping-strategy", "SelectedName"},
		"it is one of Local, Remote, LocalAndRemote":                                                {"x", "--pod-offloading-strategy", "Somewhere"},
		`--selector "a in" is not a label selector`:                                                 {"x", "-l", "a in"},
		`--ns-selector: "=" is not a label selector`:                                                {"--ns-selector", "="},
	} {
		liqoctl(t, nil, append([]string{"offload", "namespace"}, args...)...).refuses(t, want)
	}
}

func TestOffloadWaits(t *testing.T) {
	c := testkit.Cluster(t)
	for story, tc := range map[string]struct {
		phase offv1beta1.OffloadingPhaseType
		flags []string
		fails bool
		words []string
	}{
		"ready": {offv1beta1.ReadyOffloadingPhaseType, nil, false, []string{
			"Offloading completed successfully\n WARN  Cluster cl02: not enforced: deny-all\n WARN  Cluster cl02: refused, such as web\n"}},
		"none": {offv1beta1.NoClusterSelectedOffloadingPhaseType, nil, false, []string{" WARN  Offloading completed, but no cluster was selected"}},
		"none-is-less": {offv1beta1.NoClusterSelectedOffloadingPhaseType, []string{"--exit-code"}, true, []string{"Offloading completed, but no cluster was selected", "kubectl get nodes -l liqo.io/type=virtual-node",
			"\n INFO  See docs/troubleshooting.md#clusternotselected\n"}},
		"some-failed": {offv1beta1.SomeFailedOffloadingPhaseType, nil, true, []string{`the offloading is in "SomeFailed" state`, "Cluster cl02: Refused: reserved name",
			"\n INFO  See docs/troubleshooting.md#a-namespace-is-somefailed-allfailed-or-stays-inprogress\n"}},
	} {
		t.Run(story, func(t *testing.T) {
			ns := testkit.Namespace(t, c, "offload", map[string]string{"story": story})
			done := make(chan error, 1)
			go func() { done <- ctltest.Answer(t.Context(), c.Client, ns, 1, tc.phase) }()
			r := liqoctl(t, c.Config, append([]string{"offload", "namespace", "--ns-selector", "story=" + story, "--timeout", "5m"}, tc.flags...)...)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			words := append(tc.words, `Offloading of namespace "`+ns+`" correctly enabled`)
			if tc.fails {
				r.refuses(t, words...)
			} else {
				r.succeeds(t, words...)
			}
		})
	}
}

func TestOffloadIdempotent(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "slow", nil)
	answered := make(chan error, 1)
	go func() { answered <- ctltest.Answer(t.Context(), c.Client, ns, 1, offv1beta1.ReadyOffloadingPhaseType) }()
	liqoctl(t, c.Config, "offload", "namespace", ns, "--timeout", "5m").succeeds(t)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	// The specification changes, and with it the generation: whoever answers has to look again.
	go func() { answered <- ctltest.Answer(t.Context(), c.Client, ns, 2, offv1beta1.ReadyOffloadingPhaseType) }()
	liqoctl(t, c.Config, "offload", "namespace", ns, "--timeout", "5m", "--pod-offloading-strategy", "Remote").succeeds(t,
		" WARN  The PodOffloadingStrategy was mutated to a more restrictive setting")
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	liqoctl(t, c.Config, "unoffload", "ns", ns, "--skip-confirm").succeeds(t, "Unoffloading completed successfully")
	liqoctl(t, c.Config, "unoffload", "ns", ns, "--skip-confirm").succeeds(t, "Unoffloading completed successfully")
	liqoctl(t, c.Config, "offload", "ns", "--ns-selector", "nobody=has-it").succeeds(t, "No namespaces can be offloaded")

	// All of them are offloaded at once: one that takes too long takes no time of the next one's.
	next := testkit.Namespace(t, c, "next", nil)
	go func() {
		answered <- ctltest.Answer(t.Context(), c.Client, next, 1, offv1beta1.ReadyOffloadingPhaseType)
	}()
	liqoctl(t, c.Config, "offload", "namespace", ns, next, "--timeout", "30s").refuses(t,
		fmt.Sprintf("offloading namespace %q", ns), fmt.Sprintf("Offloading of namespace %q correctly enabled", next), "Offloading completed successfully")
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
}
