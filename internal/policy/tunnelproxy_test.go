// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

func TestRemapTunnelProxy(t *testing.T) {
	const configured, moved = "http://10.71.0.9:8118", "http://10.42.0.9:8118"
	result := func(url string) *authv1beta1.TunnelProxy {
		return &authv1beta1.TunnelProxy{ConfiguredURL: configured, URL: url}
	}
	const present = "10.71.0.9"
	for _, v := range []struct {
		name, url string
		previous  *authv1beta1.TunnelProxy
		local     string // "" for none
		want      *authv1beta1.TunnelProxy
	}{
		{"recognized", configured, nil, present, result(configured)},
		{"another address", configured, nil, "10.71.0.8", nil},
		{"moved", configured, result(configured), "10.42.0.9", result(moved)},
		{"moved back", configured, result(moved), present, result(configured)},
		{"no address for now", configured, result(moved), "", result(moved)},
		{"no address, never recognized", configured, nil, "", nil},
		{"name", "http://proxy.example:8118", nil, present, nil},
		{"port", "http://10.71.0.9:3128", nil, present, nil},
		{"user", "http://me:secret@10.71.0.9:8118", nil, present, nil},
		{"TLS", "https://10.71.0.9:8118", nil, present, nil},
		{"path", "http://10.71.0.9:8118/", nil, present, nil},
		{"IPv6", "http://[fd01::9]:8118", nil, "fd01::9", &authv1beta1.TunnelProxy{ConfiguredURL: "http://[fd01::9]:8118", URL: "http://[fd01::9]:8118"}},
	} {
		t.Run(v.name, func(t *testing.T) {
			local, _ := netip.ParseAddr(v.local)
			if diff := cmp.Diff(v.want, RemapTunnelProxy(v.url, v.previous, local)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
