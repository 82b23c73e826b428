// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"strings"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/names"
)

// TunnelProxyURL returns the URL of a provider's API server proxy that has an address in this cluster.
func TunnelProxyURL(addr netip.Addr) string {
	return "http://" + netip.AddrPortFrom(addr, names.ProxyPort).String()
}

// ParseTunnelProxy returns the address in a URL of the form of TunnelProxyURL; false for another form.
func ParseTunnelProxy(proxyURL string) (netip.Addr, bool) {
	host, found := strings.CutPrefix(proxyURL, "http://")
	addr, err := netip.ParseAddrPort(host)
	return addr.Addr(), found && err == nil && addr.Port() == names.ProxyPort
}

// RemapTunnelProxy returns the API server proxy of a provider meant by the proxy URL of an Identity, nil if the URL means another proxy. previous is
// the last result for the URL. local is the present address of the proxy in this cluster; without one, the previous address stays. A URL is
// recognized while it has the present address, and from then on.
func RemapTunnelProxy(proxyURL string, previous *authv1beta1.TunnelProxy, local netip.Addr) *authv1beta1.TunnelProxy {
	configured, ok := ParseTunnelProxy(proxyURL)
	switch {
	case !ok:
		return nil
	case !local.IsValid():
		return previous
	case previous == nil && local != configured:
		return nil
	}
	return &authv1beta1.TunnelProxy{ConfiguredURL: proxyURL, URL: TunnelProxyURL(local)}
}
