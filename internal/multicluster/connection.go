// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/policy"
)

// ErrOtherServer means that a new kubeconfig is for another server and needs a new Conn.
var ErrOtherServer = errors.New("the kubeconfig is for another server")

// Client-side limits of one connection; the API server's priority and fairness sets the effective limits.
const (
	qps   = 1000
	burst = 2000
)

// maxHeader is the limit in bytes of a response's header.
const maxHeader = 256 << 10

// Conn is a connection to another cluster. Its methods are safe for concurrent use.
type Conn struct {
	config    *rest.Config
	server    *url.URL
	dialer    *connrotation.Dialer
	transport *http.Transport
	health    *http.Client
	current   atomic.Pointer[credentials]
	// allowLoopback is for clusters on one machine.
	allowLoopback bool
	// limits apply to responses; misbehaviours records the limits reached, and may be nil.
	limits        kube.Limits
	misbehaviours *Misbehaviours
}

// Dialer returns a dialer that refuses addresses invalid for a peer. The IP address is checked after name resolution.
func (c *Conn) Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("reading the address %q: %w", address, err)
		}
		return policy.CheckPeerAddress(to.Addr(), c.allowLoopback)
	}}
}

// credentials are replaced as a whole: no request mixes old and new.
type credentials struct {
	kubeconfig  pki.Kubeconfig
	certificate *tls.Certificate // nil for none
	proxy       *url.URL         // nil for that of the environment
}

// Option configures a connection.
type Option func(*Conn)

// AllowLoopback allows connections to this machine, for clusters on one machine.
func AllowLoopback(yes bool) Option { return func(c *Conn) { c.allowLoopback = yes } }

// WithLimits sets the limits of responses; the default is kube.DefaultLimits.
func WithLimits(l kube.Limits) Option { return func(c *Conn) { c.limits = l } }

// WithMisbehaviours records the limits reached.
func WithMisbehaviours(misbehaviours *Misbehaviours) Option {
	return func(c *Conn) { c.misbehaviours = misbehaviours }
}

// NewConn returns a connection for a kubeconfig, without sending a request. It refuses addresses invalid for a peer at each connection, when
// the name of the server or of the proxy is resolved.
func NewConn(kubeconfig []byte, opts ...Option) (*Conn, error) {
	creds, err := parseKubeconfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	c := &Conn{limits: kube.DefaultLimits}
	for _, opt := range opts {
		opt(c)
	}
	if err := c.checkAddresses(creds.kubeconfig); err != nil {
		return nil, err
	}
	dial := c.Dialer(15 * time.Second)
	dial.KeepAlive = 15 * time.Second
	c.dialer = connrotation.NewDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial.DialContext(ctx, network, address)
		if err == nil && c.isFormerProxy(address) {
			conn.Close()
			return nil, errFormerProxy
		}
		return conn, err
	})
	if c.server, err = url.Parse(creds.kubeconfig.Server); err != nil {
		return nil, fmt.Errorf("reading the address of the server: %w", err)
	}
	c.current.Store(creds)
	if c.transport, err = c.newTransport(creds.kubeconfig); err != nil {
		return nil, err
	}
	c.config = &rest.Config{
		Host:               creds.kubeconfig.Server,
		Transport:          kube.LimitResponses(authenticated{conn: c, next: c.transport}, c.limits, c.misbehaviours.Report),
		QPS:                qps,
		Burst:              burst,
		DisableCompression: true,
	}
	c.health = &http.Client{Transport: c.config.Transport, Timeout: 10 * time.Second}
	return c, nil
}

// checkAddresses refuses a server or proxy that a peer must not name.
func (c *Conn) checkAddresses(k pki.Kubeconfig) error {
	for _, to := range []string{k.Server, k.ProxyURL} {
		if err := policy.CheckPeerURL(to, c.allowLoopback); to != "" && err != nil {
			return fmt.Errorf("checking the kubeconfig: %w", err)
		}
	}
	return nil
}

func parseKubeconfig(kubeconfig []byte) (*credentials, error) {
	k, err := pki.ParseKubeconfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	out := &credentials{kubeconfig: *k}
	if k.ProxyURL != "" {
		if out.proxy, err = url.Parse(k.ProxyURL); err != nil {
			return nil, errors.New("the kubeconfig's proxy-url is not a URL")
		}
	}
	if len(k.Certificate) > 0 {
		pair, err := tls.X509KeyPair(k.Certificate, k.Key)
		if err != nil {
			return nil, fmt.Errorf("reading the client certificate: %w", err)
		}
		out.certificate = &pair
	}
	return out, nil
}

// User returns the common name of the present client certificate; empty without one.
func (c *Conn) User() string {
	if pair := c.current.Load().certificate; pair != nil && pair.Leaf != nil {
		return pair.Leaf.Subject.CommonName
	}
	return ""
}

// NamesAuthority reports whether the kubeconfig contains a certificate authority; otherwise those of the system are trusted.
func (c *Conn) NamesAuthority() bool { return len(c.current.Load().kubeconfig.CA) > 0 }

// newTransport returns a transport with the server and the trusted certificate authority of the kubeconfig. It asks for the present proxy at each
// connection, and for the present client certificate at each handshake.
func (c *Conn) newTransport(k pki.Kubeconfig) (*http.Transport, error) {
	roots, err := rootsOf(k)
	if err != nil {
		return nil, err
	}
	return utilnet.SetTransportDefaults(&http.Transport{
		Proxy:               c.proxyFor,
		DialContext:         c.dialer.DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 25,
		// A few compressed bytes can become gigabytes, and headers are unlimited by default.
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		TLSClientConfig: &tls.Config{
			MinVersion:           tls.VersionTLS12,
			RootCAs:              roots,
			ServerName:           k.TLSServerName,
			GetClientCertificate: c.clientCertificate,
		},
	}), nil
}

// rootsOf returns nil, the roots of the system, for a kubeconfig without a certificate authority.
func rootsOf(k pki.Kubeconfig) (*x509.CertPool, error) {
	if len(k.CA) == 0 {
		return nil, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(k.CA) {
		return nil, errors.New("the kubeconfig's certificate authority holds no certificate")
	}
	return roots, nil
}

func (c *Conn) proxyFor(req *http.Request) (*url.URL, error) {
	if proxy := c.current.Load().proxy; proxy != nil {
		return proxy, nil
	}
	return http.ProxyFromEnvironment(req)
}

var errFormerProxy = errors.New("the proxy has another address now")

// isFormerProxy reports whether a dialled address is not the address of the present proxy; Swap may have set another proxy meanwhile. Names
// are not compared.
func (c *Conn) isFormerProxy(address string) bool {
	creds := c.current.Load()
	if creds.proxy == nil {
		return false
	}
	dialled, err := netip.ParseAddrPort(address)
	present, notIP := netip.ParseAddrPort(creds.proxy.Host)
	return err == nil && notIP == nil && dialled != present
}

func (c *Conn) clientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if cert := c.current.Load().certificate; cert != nil {
		return cert, nil
	}
	return &tls.Certificate{}, nil
}

// ErrRedirected means that a redirect would have sent a request to another server.
var ErrRedirected = errors.New("the API server redirects to another server, which is not followed")

// authenticated adds the present token to each request, and refuses requests to other servers: http.Client above follows redirects with the
// headers of the first request.
type authenticated struct {
	conn *Conn
	next http.RoundTripper
}

func (a authenticated) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != a.conn.server.Scheme || !strings.EqualFold(req.URL.Host, a.conn.server.Host) {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, ErrRedirected
	}
	creds := a.conn.current.Load()
	if creds.certificate == nil && creds.kubeconfig.Token != "" {
		req = utilnet.CloneRequest(req)
		req.Header.Set("Authorization", "Bearer "+creds.kubeconfig.Token)
	}
	return a.next.RoundTrip(req)
}

// WrappedRoundTripper returns the transport for client-go, for instance to close idle connections.
func (a authenticated) WrappedRoundTripper() http.RoundTripper { return a.next }

// Config returns the configuration of clients of this cluster, with the newest credentials for the life of the Conn. Each call returns the
// same pointer; copy it before a change.
func (c *Conn) Config() *rest.Config { return c.config }

// StreamConfig returns a configuration with the present credentials, for client-go's own connections: exec, attach and port-forward.
func (c *Conn) StreamConfig() *rest.Config {
	k := c.current.Load().kubeconfig
	cfg := &rest.Config{
		Host:            k.Server,
		TLSClientConfig: rest.TLSClientConfig{CAData: k.CA, ServerName: k.TLSServerName, CertData: k.Certificate, KeyData: k.Key},
		Proxy:           c.transport.Proxy,
		QPS:             qps,
		Burst:           burst,
	}
	if len(k.Certificate) == 0 {
		cfg.BearerToken = k.Token
	}
	return cfg
}

// Swap replaces the credentials and the proxy, and closes every connection, watches included: clients reconnect with the new ones. A kubeconfig of
// another server or certificate authority returns ErrOtherServer and changes nothing; an equal kubeconfig closes nothing.
func (c *Conn) Swap(kubeconfig []byte) error {
	next, err := parseKubeconfig(kubeconfig)
	if err != nil {
		return err
	}
	before := c.current.Load().kubeconfig
	if !sameServer(before, next.kubeconfig) {
		return ErrOtherServer
	}
	if sameUser(before, next.kubeconfig) && before.ProxyURL == next.kubeconfig.ProxyURL {
		return nil
	}
	if err := c.checkAddresses(next.kubeconfig); err != nil {
		return err
	}
	// Store before closing: connections opened in between use the new credentials
	c.current.Store(next)
	c.closeConnections()
	return nil
}

func sameServer(a, b pki.Kubeconfig) bool {
	return strings.TrimSuffix(a.Server, "/") == strings.TrimSuffix(b.Server, "/") && bytes.Equal(a.CA, b.CA) &&
		a.TLSServerName == b.TLSServerName
}

func sameUser(a, b pki.Kubeconfig) bool {
	return a.Token == b.Token && bytes.Equal(a.Certificate, b.Certificate) && bytes.Equal(a.Key, b.Key)
}

func (c *Conn) closeConnections() {
	c.dialer.CloseAll()
	c.transport.CloseIdleConnections()
}

// ErrRefused means that the API server is alive and rejects our credentials, or denies the permissions of a peer.
var ErrRefused = errors.New("the API server refuses our credentials")

// Healthy returns nil if the API server is alive and accepts our credentials.
func (c *Conn) Healthy(ctx context.Context) error {
	target, err := url.JoinPath(c.config.Host, "livez")
	if err != nil {
		return fmt.Errorf("making the address: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return fmt.Errorf("making the request: %w", err)
	}
	resp, err := c.health.Do(req)
	if err != nil {
		return fmt.Errorf("asking for the health of the API server: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized {
		return fmt.Errorf("asking for the health of the API server: %w", ErrRefused)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("asking for the health of the API server: %s", resp.Status)
	}
	return nil
}

// Close closes every connection. Clients of this Conn must have been stopped.
func (c *Conn) Close() { c.closeConnections() }
