// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/testkit"
)

func TestOffloadWaitRetriesAPIErrors(t *testing.T) {
	c := testkit.Cluster(t)
	for name, trouble := range map[string]*http.Response{
		"watches are refused":        testkit.Answer(503, ""),
		"a watch ends with an error": testkit.Answer(200, `{"type":"ERROR","object":`+testkit.InternalError+"}\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nso := anOffloading(t, c)
			var met atomic.Bool
			kubeClient := testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
				if !testkit.IsWatch(r) || met.Swap(true) {
					return nil, nil
				}
				if err := ctltest.Answer(t.Context(), c.Client, nso.Namespace, 1, offv1beta1.ReadyOffloadingPhaseType); err != nil {
					t.Error(err)
				}
				return trouble, nil
			})
			final, err := cluster.AwaitOffloading(t.Context(), kubeClient, nso)
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

func TestOffloadTimeoutMessage(t *testing.T) {
	c := testkit.Cluster(t)
	for want, generation := range map[string]int64{
		`the offloading is "not looked at": `:                                    2,
		`the offloading is "InProgress"; Cluster cl02: Refused: reserved name: `: 1,
	} {
		nso := anOffloading(t, c)
		if err := ctltest.Answer(t.Context(), c.Client, nso.Namespace, 1, offv1beta1.InProgressOffloadingPhaseType); err != nil {
			t.Fatal(err)
		}
		nso.Generation = generation
		ctx, cancel := context.WithCancel(t.Context())
		var watches atomic.Int32
		kubeClient := testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
			if testkit.IsWatch(r) && watches.Add(1) == 1 {
				return testkit.Answer(200, ""), nil
			}
			if testkit.IsWatch(r) {
				cancel()
			}
			return nil, nil
		})
		if _, err := cluster.AwaitOffloading(ctx, kubeClient, nso); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestOffloadDeletedWhileWaiting(t *testing.T) {
	c := testkit.Cluster(t)
	nso := anOffloading(t, c)
	again := nso.DeepCopy()
	if err := c.Client.Delete(t.Context(), nso); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.AwaitOffloading(t.Context(), testkit.Troubled(t, c, ctltest.Nothing), nso); !errors.Is(err, cluster.ErrOffloadingGone) {
		t.Errorf("got %v", err)
	}
	again.ResourceVersion, again.UID = "", ""
	testkit.Create(t, c.Client, again)
	if _, err := cluster.AwaitOffloading(t.Context(), testkit.Troubled(t, c, ctltest.Nothing), nso); !errors.Is(err, cluster.ErrOffloadingGone) {
		t.Errorf("another of the name: got %v", err)
	}
}
