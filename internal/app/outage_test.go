// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// A process that ended for its API server, or for a lease that it could not renew, would be begun again by kubelet after up to five minutes.
func TestAPIServerOutage(t *testing.T) {
	c := testkit.NthCluster(t, 2*worlds+1)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	health := fmt.Sprintf("127.0.0.1:%d", testkit.Port(t))
	relay, cfg := testkit.NewRelay(t, c.Config)
	relay.Cut(math.MaxInt)
	p := c.Run(t, cfg, "outliving", []string{asProgram + "=yes"}, self, replicatorRole, "--cluster-id=here", "--liqo-namespace=default", "--metrics-address=0",
		"--health-probe-address="+health, "--leader-lease-duration=3s", "--leader-renew-deadline=2s", "--leader-retry-period=1s")
	defer p.Kill()
	eventually := func(check func() error) {
		t.Helper()
		testkit.Eventually(t, limit, func() error {
			if err := p.Alive(); err != nil {
				t.Fatalf("it ended: %v\n%s", err, p.Log())
			}
			return check()
		})
	}
	says := func(path string, status int, text string) func() error {
		return func() error {
			resp, err := http.Get("http://" + health + path)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if got, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != status || !strings.Contains(string(got), text) {
				return fmt.Errorf("%s: %s, %s, %v", path, resp.Status, got, err)
			}
			return nil
		}
	}
	leader := ""
	for range 2 {
		eventually(says("/healthz", http.StatusOK, ""))
		eventually(says("/readyz", http.StatusServiceUnavailable, "the API server does not answer"))
		relay.Cut(0)
		eventually(says("/readyz", http.StatusOK, ""))
		eventually(func() error {
			lease := &coordinationv1.Lease{}
			if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: names.CRDReplicator}, lease); err != nil {
				return err
			}
			if holder := *lease.Spec.HolderIdentity; holder != "" && holder != leader {
				leader = holder
				return nil
			}
			return fmt.Errorf("the leader is %q as before", leader)
		})
		relay.Cut(math.MaxInt)
	}
}
