// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package names

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestNamesUnique(t *testing.T) {
	for name, tc := range map[string]struct {
		limit int
		build func(string) string
	}{
		"SliceIdentity":             {63, SliceIdentity},
		"ControlPlaneIdentity":      {63, ControlPlaneIdentity},
		"KubeconfigSecret":          {63, KubeconfigSecret},
		"VirtualKubelet":            {63, VirtualKubelet},
		"DefaultTwin of namespaces": {63, func(s string) string { return DefaultTwin(s, "consumer") }},
		"DefaultTwin of consumers":  {63, func(s string) string { return DefaultTwin("shop", s) }},
		"ClusterRoleBinding":        {253, func(s string) string { return ClusterRoleBinding(RoleVirtualKubeletRemote, s) }},
		"PeerKeysSecret":            {253, PeerKeysSecret},
		"RemoteCertificate":         {253, RemoteCertificate},
		"VirtualNodeBinding":        {253, VirtualNodeBinding},
		"Gateway":                   {63, Gateway},
		"GatewayReplica":            {63, GatewayReplica},
		"GatewayKeys":               {63, GatewayKeys},
		"GatewayLabel":              {63, GatewayLabel},
		"DefaultTenantNamespace":    {63, DefaultTenantNamespace},
		"HostFieldManager":          {128, HostFieldManager},
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[string]string{}
			for _, length := range []int{1, 40, 62, 63, 64, 230, 252, 253} {
				for _, end := range []string{"a", "b"} {
					in := strings.Repeat("x", length-1) + end
					out := tc.build(in)
					if len(out) > tc.limit {
						t.Errorf("%d characters become %d, more than %d", length, len(out), tc.limit)
					}
					if problems := validation.IsDNS1123Subdomain(out); len(problems) > 0 {
						t.Errorf("%q: %v", out, problems)
					}
					if again := tc.build(in); again != out {
						t.Errorf("%q is %q at first and then %q", in, out, again)
					}
					if other, taken := seen[out]; taken {
						t.Errorf("%q and %q are both %q", other, in, out)
					}
					seen[out] = in
				}
			}
		})
	}
}

func TestNameTruncation(t *testing.T) {
	for _, sign := range []string{"--", "."} {
		for length := 40; length < 63; length++ {
			out := Join("x", strings.Repeat("a", length)+sign+strings.Repeat("b", 63))
			if problems := validation.IsDNS1123Subdomain(out); len(problems) > 0 || len(out) > maxLabel {
				t.Errorf("%q (%d): %v", out, len(out), problems)
			}
		}
	}
}

func TestRootCA(t *testing.T) {
	for consumer, want := range map[string]string{
		"milan": "kube-root-ca.crt.milan", "rome": "kube-root-ca.crt.rome", "milano": "kube-root-ca.crt.milan",
		"a-b--c": "kube-root-ca.crt.a-b--a", "abcd.ef": "kube-root-ca.crt.abcd.a",
	} {
		if got := RootCA(consumer); got != want {
			t.Errorf("RootCA(%q) = %q, want %q", consumer, got, want)
		}
	}
}
