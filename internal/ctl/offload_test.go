// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/testkit"
)

func TestOffloadPrintsTheManifest(t *testing.T) {
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

func TestOffloadRefusesWhatItCannotMean(t *testing.T) {
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

func TestOffloadWaitsForTheControllers(t *testing.T) {
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
			go func() { done <- answer(t.Context(), c.Client, ns, 1, tc.phase) }()
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

// answer is the controller: it looks at that generation of the object and says a phase.
func answer(ctx context.Context, c client.Client, ns string, generation int64, phase offv1beta1.OffloadingPhaseType) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		nso := &offv1beta1.NamespaceOffloading{}
		err := c.Get(ctx, client.ObjectKey{Namespace: ns, Name: "offloading"}, nso)
		if err == nil && nso.Generation >= generation {
			nso.Status.OffloadingPhase, nso.Status.ObservedGeneration = phase, nso.Generation
			nso.Status.RemoteNamespacesConditions = map[string]offv1beta1.RemoteNamespaceConditions{"cl02": {
				{Type: offv1beta1.NamespaceReady, Status: corev1.ConditionFalse, Reason: "Refused", Message: "reserved name"},
				{Type: offv1beta1.NamespaceNetworkPoliciesEnforced, Status: corev1.ConditionFalse, Reason: "NotReflected", Message: "not enforced: deny-all"},
				{Type: offv1beta1.NamespacePodSecuritySatisfied, Status: corev1.ConditionFalse, Reason: "PodsForbidden", Message: "refused, such as web"},
			}}
			return c.Status().Update(ctx, nso)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestAnOffloadingIsWaitedForThroughTroubles(t *testing.T) {
	c := testkit.Cluster(t)
	for name, trouble := range map[string]*http.Response{
		"watches are refused":        testkit.Answer(503, ""),
		"a watch ends with an error": testkit.Answer(200, `{"type":"ERROR","object":`+testkit.InternalError+"}\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nso := anOffloading(t, c)
			var met atomic.Bool
			cluster := testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
				if !testkit.IsWatch(r) || met.Swap(true) {
					return nil, nil
				}
				if err := answer(t.Context(), c.Client, nso.Namespace, 1, offv1beta1.ReadyOffloadingPhaseType); err != nil {
					t.Error(err)
				}
				return trouble, nil
			})
			final, err := awaitOffloading(t.Context(), cluster, nso)
			if err != nil || !met.Load() || final.Status.OffloadingPhase != offv1beta1.ReadyOffloadingPhaseType {
				t.Errorf("the wait ended: %v; met %v, %+v", err, met.Load(), final)
			}
		})
	}
}

func anOffloading(t *testing.T, c *testkit.ControlPlane) *offv1beta1.NamespaceOffloading {
	t.Helper()
	nso := (&offloadOptions{mapping: "DefaultName", podStrategy: "Local"}).newNamespaceOffloading(testkit.Namespace(t, c, "offloading", nil), &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{}})
	testkit.Create(t, c.Client, nso)
	return nso
}

func TestOffloadSaysWhatItWaitedFor(t *testing.T) {
	c := testkit.Cluster(t)
	for want, generation := range map[string]int64{
		`the offloading is "not looked at": `:                                    2,
		`the offloading is "InProgress"; Cluster cl02: Refused: reserved name: `: 1,
	} {
		nso := anOffloading(t, c)
		if err := answer(t.Context(), c.Client, nso.Namespace, 1, offv1beta1.InProgressOffloadingPhaseType); err != nil {
			t.Fatal(err)
		}
		nso.Generation = generation
		ctx, cancel := context.WithCancel(t.Context())
		var watches atomic.Int32
		cluster := testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
			if testkit.IsWatch(r) && watches.Add(1) == 1 {
				return testkit.Answer(200, ""), nil
			}
			if testkit.IsWatch(r) {
				cancel()
			}
			return nil, nil
		})
		if _, err := awaitOffloading(ctx, cluster, nso); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestAnOffloadingThatIsGoneIsNotWaitedFor(t *testing.T) {
	c := testkit.Cluster(t)
	nso := anOffloading(t, c)
	again := nso.DeepCopy()
	if err := c.Client.Delete(t.Context(), nso); err != nil {
		t.Fatal(err)
	}
	if _, err := awaitOffloading(t.Context(), testkit.Troubled(t, c, nothing), nso); !errors.Is(err, errOffloadingGone) {
		t.Errorf("got %v", err)
	}
	again.ResourceVersion, again.UID = "", ""
	testkit.Create(t, c.Client, again)
	if _, err := awaitOffloading(t.Context(), testkit.Troubled(t, c, nothing), nso); !errors.Is(err, errOffloadingGone) {
		t.Errorf("another of the name: got %v", err)
	}
}

func nothing(*http.Request) (*http.Response, error) { return nil, nil }

func TestOffloadAgainAndNoMore(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "slow", nil)
	answered := make(chan error, 1)
	go func() { answered <- answer(t.Context(), c.Client, ns, 1, offv1beta1.ReadyOffloadingPhaseType) }()
	liqoctl(t, c.Config, "offload", "namespace", ns, "--timeout", "5m").succeeds(t)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	// The specification changes, and with it the generation: whoever answers has to look again.
	go func() { answered <- answer(t.Context(), c.Client, ns, 2, offv1beta1.ReadyOffloadingPhaseType) }()
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
	go func() { answered <- answer(t.Context(), c.Client, next, 1, offv1beta1.ReadyOffloadingPhaseType) }()
	liqoctl(t, c.Config, "offload", "namespace", ns, next, "--timeout", "10s").refuses(t,
		fmt.Sprintf("offloading namespace %q", ns), fmt.Sprintf("Offloading of namespace %q correctly enabled", next), "Offloading completed successfully")
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
}
