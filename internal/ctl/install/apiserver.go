// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"net/netip"
	"net/url"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/policy"
)

// checkReachable fails early with a clear error if the API server is unreachable.
func (i *Installer) checkReachable(ctx context.Context) error {
	cfg := rest.CopyConfig(i.Config)
	cfg.Timeout = 10 * time.Second
	dc, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}
	// The typed call takes no context.
	answer := make(chan error, 1)
	go func() {
		_, err := dc.ServerVersion()
		answer <- err
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-answer:
		if err != nil {
			return ui.Fail("the API server cannot be reached: %w", err).Hint("Check --kubeconfig and --context: they choose the cluster to install into")
		}
		return nil
	}
}

// chooseAPIServer returns the address for peers: of the flag, else of the previous installation, else of the kubeconfig unless it is a loopback
// address. If empty, the controllers choose an address of their nodes.
func (i *Installer) chooseAPIServer(previous string) string {
	switch {
	case i.APIServerURL != "":
		return i.APIServerURL
	case previous != "":
		return previous
	case i.apiServerFromTheNode:
		return ""
	}
	if host, _ := hostPort(i.Config.Host); isLoopback(host) {
		return ""
	}
	return i.Config.Host
}

func (i *Installer) validateAPIServer(address string) error {
	if address == "" {
		return nil
	}
	if err := validateHost(address); err != nil || i.SkipAPIServerCheck {
		return err
	}
	host, port := hostPort(address)
	if wantHost, wantPort := hostPort(i.Config.Host); host != wantHost || port != wantPort {
		return ui.Fail("validating API Server URL %q: the retrieved API server URL (%q) does not match the kubeconfig one (%q). If correct, skip with --disable-api-server-sanity-check",
			address, address, i.Config.Host)
	}
	return nil
}

// validateHost rejects an address not reachable by peers.
func validateHost(address string) error {
	host, _ := hostPort(address)
	if host == "" {
		return ui.Fail("validating API Server URL %q: it names no host", address)
	}
	if isLoopback(host) {
		return ui.Fail("validating API Server URL %q: peers cannot reach a cluster at %s", address, host)
	}
	return nil
}

// hostPort splits an address with or without a scheme. The default port is the port of HTTPS.
func hostPort(address string) (host, port string) {
	address, err := policy.APIServerURL(address, nil)
	if err != nil {
		return "", ""
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", ""
	}
	if port = u.Port(); port == "" {
		port = "443"
	}
	return u.Hostname(), port
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.IsLoopback() || ip.IsUnspecified())
}
