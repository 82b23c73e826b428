// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package vnode

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-logr/logr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilproxy "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"liqo.io/liqo/internal/remote"
)

// provider is the way to the provider's API server for requests of users.
type provider struct {
	conn *remote.Conn
	base *url.URL
	// transport is shared with everything else that goes there.
	transport http.RoundTripper
}

func newProvider(conn *remote.Conn) (*provider, error) {
	base, _, err := rest.DefaultServerUrlFor(conn.Config())
	if err != nil {
		return nil, fmt.Errorf("reading the address of the provider: %w", err)
	}
	if !strings.HasSuffix(base.Path, "/") {
		base.Path += "/" // the proxy answers an empty path with a redirect
	}
	ordinary, err := rest.TransportFor(conn.Config())
	if err != nil {
		return nil, fmt.Errorf("preparing requests to the provider: %w", err)
	}
	return &provider{conn: conn, base: base, transport: ordinary}, nil
}

// forwarded are the headers that belong to the request itself. Above all the credentials with which the local API
// server came in stay here.
var forwarded = []string{
	"Accept", "Accept-Encoding", "Connection", "Upgrade", "User-Agent", "X-Stream-Protocol-Version",
	"Sec-Websocket-Extensions", "Sec-Websocket-Key", "Sec-Websocket-Protocol", "Sec-Websocket-Version",
}

// forward sends req to a path of the provider's API server with our own credentials.
func (p *provider) forward(w http.ResponseWriter, req *http.Request, to *url.URL, logger logr.Logger) {
	answer := responder{logger}
	upgrade, err := upgradeTransport(p.conn.StreamConfig(), p.base)
	if err != nil {
		answer.Error(w, req, err)
		return
	}
	out := req.Clone(req.Context())
	out.URL, out.Header = to, http.Header{}
	for _, key := range forwarded {
		if values := req.Header.Values(key); len(values) > 0 {
			out.Header[key] = values
		}
	}
	handler := utilproxy.NewUpgradeAwareHandler(p.base, p.transport, false, false, answer)
	handler.UpgradeTransport = upgrade
	handler.UseRequestLocation, handler.AppendLocationPath, handler.UseLocationHost = true, true, true
	handler.RejectForwardingRedirects = true
	handler.FlushInterval = -1 // a followed log shows each line as it comes
	handler.ServeHTTP(w, out)
}

// upgradeTransport keeps to HTTP/1.1, which streams need, on a connection of their own.
func upgradeTransport(cfg *rest.Config, base *url.URL) (utilproxy.UpgradeRequestRoundTripper, error) {
	config, err := cfg.TransportConfig()
	if err != nil {
		return nil, err
	}
	tlsConfig, err := transport.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	connection := utilnet.SetOldTransportDefaults(&http.Transport{
		TLSClientConfig: tlsConfig, DialContext: dialVia(cfg.Proxy, base), DisableCompression: true,
	})
	request, err := transport.HTTPWrappersForConfig(config, utilproxy.MirrorRequest)
	if err != nil {
		return nil, err
	}
	return utilproxy.NewUpgradeRequestRoundTripper(connection, request), nil
}
