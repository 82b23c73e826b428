// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// Who may do anything is asked once, and anybody else about each thing.
func TestWhoMayDoAnythingIsAskedOnce(t *testing.T) {
	c := testkit.Cluster(t)
	for name, tc := range map[string]struct {
		who  *rest.Config
		want string
		asks int32
	}{
		"an administrator": {c.Config, "", 1},
		"nobody":           {c.User(t, "nobody"), "in the local cluster: you are not allowed to get x.networking.liqo.io, delete x.networking.liqo.io in namespace default", 1 + 2*2},
	} {
		t.Run(name, func(t *testing.T) {
			var asks atomic.Int32
			cluster, err := client.NewWithWatch(testkit.Answered(tc.who, func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
					asks.Add(1)
				}
				return nil, nil
			}), client.Options{Scheme: kube.Scheme})
			if err != nil {
				t.Fatal(err)
			}
			s := &side{name: "local", kube: cluster, grants: &grants{}}
			err = atOnce(
				func() error { return s.demand(t.Context(), networking("default", "x", "get", "delete")) },
				func() error { return s.demand(t.Context()) },
				func() error { return s.demand(t.Context(), networking("default", "x", "get", "delete")) },
			)
			if got := text(err); got != tc.want {
				t.Errorf("it ended with %q, want %q", got, tc.want)
			}
			if n := asks.Load(); n != tc.asks {
				t.Errorf("it asked %d times, want %d", n, tc.asks)
			}
		})
	}
}

// text is what an error says, "" for none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
