// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"liqo.io/liqo/internal/testkit"
)

func TestPermissionsOfAdministrator(t *testing.T) {
	c := testkit.Cluster(t)
	s, _ := newBareCluster(t, c, "local", "rome-admin")
	var requests atomic.Int32
	s.Kube = testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
			requests.Add(1)
		}
		return nil, nil
	})
	if err := s.RequirePermissions(t.Context(), s.PermissionsFor(s.Namespace, "write Configuration", "watch gateway")...); err != nil {
		t.Error(err)
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("the API server was asked %d times", n)
	}
}
