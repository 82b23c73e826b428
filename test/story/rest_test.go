// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package story

import "testing"

func TestMostFrequentWrites(t *testing.T) {
	var kept []Request
	for _, test := range []struct {
		user, verb, resource, name string
		times                      int
	}{
		{"system:serviceaccount:liqo:liqo-controller-manager", "patch", "secrets", "keys", 2},
		{"system:serviceaccount:liqo-tenant-milan:gw", "patch", "connections", "milan", 3},
		{"system:serviceaccount:kube-system:namespace-controller", "update", "namespaces", "milan", 9},
		{"cl-consumer", "update", "secrets", "keys", 2},
		{"cl-consumer", "get", "secrets", "keys", 9},
		{"cl-consumer", "update", "leases", "a", 9},
		{"cl-consumer", "create", "events", "", 9},
		{"slice-x", "patch", "shadowpods", "web", 3},
		{"kubernetes-admin", "patch", "pods", "web", 9},
		{"system:kube-controller-manager", "update", "pods", "web", 9},
	} {
		for range test.times {
			var r Request
			r.User.Username, r.Verb, r.Ref.Resource, r.Ref.Namespace, r.Ref.Name = test.user, test.verb, test.resource, "liqo", test.name
			if r.writes() {
				kept = append(kept, r)
			}
		}
	}
	if most, times := mostWritten(kept); most != "secrets liqo/keys" || times != 4 {
		t.Errorf("%d times %s", times, most)
	}
}
