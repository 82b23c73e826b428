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

// ErrOtherServer says that a new kubeconfig leads elsewhere: that needs another Conn.
var ErrOtherServer = errors.New("the kubeconfig is of another server")

// Limits of one connection; the API server's priority and fairness is what really decides.
const (
	qps   = 1000
	burst = 2000
)

// maxHeader is how many bytes the header of an answer has at most.
const maxHeader = 256 << 10

// Conn is a connection to another cluster. Its methods may be called from any goroutine.
type Conn struct {
	config    *rest.Config
	server    *url.URL
	dialer    *connrotation.Dialer
	transport *http.Transport
	health    *http.Client
	current   atomic.Pointer[credentials]
	// allowLoopback is for clusters on one machine.
	allowLoopback bool
	// limits of what is read, and conduct, which is told of what reaches them; nil for nobody.
	limits  kube.Limits
	conduct *Conduct
}

// Dialer returns a dialer that connects to no address that no peer can have. It looks at the address itself, after names were resolved.
func (c *Conn) Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("reading the address %q: %w", address, err)
		}
		return policy.CheckPeerAddress(to.Addr(), c.allowLoopback)
	}}
}

// credentials are replaced as a whole, so that no request mixes old and new.
type credentials struct {
	kubeconfig  pki.Kubeconfig
	certificate *tls.Certificate // nil for none
}

// Option changes a connection.
type Option func(*Conn)

// AllowLoopback lets the connection lead to this very machine, where clusters run beside each other.
func AllowLoopback(yes bool) Option { return func(c *Conn) { c.allowLoopback = yes } }

// WithLimits bounds what is read; kube.DefaultLimits otherwise.
func WithLimits(l kube.Limits) Option { return func(c *Conn) { c.limits = l } }

// WithConduct has what reaches the limits told.
func WithConduct(conduct *Conduct) Option { return func(c *Conn) { c.conduct = conduct } }

// NewConn makes a connection from a kubeconfig. Nothing is sent before it is used. It leads to no address that no peer can have, whatever the
// name of the server, or of the proxy, resolves to at that moment.
func NewConn(kubeconfig []byte, opts ...Option) (*Conn, error) {
	creds, err := parseKubeconfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	c := &Conn{limits: kube.DefaultLimits}
	for _, opt := range opts {
		opt(c)
	}
	for _, to := range []string{creds.kubeconfig.Server, creds.kubeconfig.ProxyURL} {
		if err := policy.CheckPeerURL(to, c.allowLoopback); to != "" && err != nil {
			return nil, fmt.Errorf("checking the kubeconfig: %w", err)
		}
	}
	dial := c.Dialer(15 * time.Second)
	dial.KeepAlive = 15 * time.Second
	c.dialer = connrotation.NewDialer(dial.DialContext)
	if c.server, err = url.Parse(creds.kubeconfig.Server); err != nil {
		return nil, fmt.Errorf("reading the address of the server: %w", err)
	}
	c.current.Store(creds)
	if c.transport, err = c.newTransport(creds.kubeconfig); err != nil {
		return nil, err
	}
	c.config = &rest.Config{
		Host:               creds.kubeconfig.Server,
		Transport:          kube.LimitResponses(authenticated{conn: c, next: c.transport}, c.limits, c.conduct.Report),
		QPS:                qps,
		Burst:              burst,
		DisableCompression: true,
	}
	c.health = &http.Client{Transport: c.config.Transport, Timeout: 10 * time.Second}
	return c, nil
}

func parseKubeconfig(kubeconfig []byte) (*credentials, error) {
	k, err := pki.ParseKubeconfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	out := &credentials{kubeconfig: *k}
	if len(k.Certificate) > 0 {
		pair, err := tls.X509KeyPair(k.Certificate, k.Key)
		if err != nil {
			return nil, fmt.Errorf("reading the client certificate: %w", err)
		}
		out.certificate = &pair
	}
	return out, nil
}

// User is the name in the client certificate of the moment; empty where there is none.
func (c *Conn) User() string {
	if pair := c.current.Load().certificate; pair != nil && pair.Leaf != nil {
		return pair.Leaf.Subject.CommonName
	}
	return ""
}

// NamesAuthority tells whether the kubeconfig says which certificate authority to trust; otherwise it is those of the system.
func (c *Conn) NamesAuthority() bool { return len(c.current.Load().kubeconfig.CA) > 0 }

// newTransport makes a transport that knows where to go and whom to trust, and asks for the client certificate at each
// handshake.
func (c *Conn) newTransport(k pki.Kubeconfig) (*http.Transport, error) {
	roots, err := rootsOf(k)
	if err != nil {
		return nil, err
	}
	proxy, err := proxyOf(k)
	if err != nil {
		return nil, err
	}
	return utilnet.SetTransportDefaults(&http.Transport{
		Proxy:               proxy,
		DialContext:         c.dialer.DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 25,
		// A few bytes can become gigabytes, and headers have no end otherwise.
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

// rootsOf returns nil, the roots of the system, when the kubeconfig has no certificate authority.
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

func proxyOf(k pki.Kubeconfig) (func(*http.Request) (*url.URL, error), error) {
	if k.ProxyURL == "" {
		return http.ProxyFromEnvironment, nil
	}
	u, err := url.Parse(k.ProxyURL)
	if err != nil {
		return nil, errors.New("the kubeconfig's proxy-url is not a URL")
	}
	return http.ProxyURL(u), nil
}

func (c *Conn) clientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if cert := c.current.Load().certificate; cert != nil {
		return cert, nil
	}
	return &tls.Certificate{}, nil
}

// ErrRedirected says that a request would have left the server of the kubeconfig.
var ErrRedirected = errors.New("the API server sends us elsewhere: redirects to other servers are not followed")

// authenticated adds the current token to each request. It lets none go elsewhere than to the server: a redirect is
// followed by http.Client above us, with the headers of the first request.
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

// WrappedRoundTripper lets client-go find the transport, for instance to close idle connections.
func (a authenticated) WrappedRoundTripper() http.RoundTripper { return a.next }

// Config returns the configuration of clients of this cluster. It is valid, and always uses the newest credentials, for
// the life of the Conn. It is the same at each call and must be copied to be changed.
func (c *Conn) Config() *rest.Config { return c.config }

// StreamConfig returns a configuration with the credentials of this moment, for what client-go runs over connections of
// its own making: exec, attach and port-forward.
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

// Swap replaces the credentials and cuts every live connection, watches included: they come back with the new ones. A
// kubeconfig of another server or certificate authority is ErrOtherServer and changes nothing; the same kubeconfig again
// cuts nothing.
func (c *Conn) Swap(kubeconfig []byte) error {
	next, err := parseKubeconfig(kubeconfig)
	if err != nil {
		return err
	}
	before := c.current.Load().kubeconfig
	if !sameServer(before, next.kubeconfig) {
		return ErrOtherServer
	}
	if sameUser(before, next.kubeconfig) {
		return nil
	}
	// First the credentials, then the cut: who dials in between uses the new ones already.
	c.current.Store(next)
	c.closeConnections()
	return nil
}

func sameServer(a, b pki.Kubeconfig) bool {
	return strings.TrimSuffix(a.Server, "/") == strings.TrimSuffix(b.Server, "/") && bytes.Equal(a.CA, b.CA) &&
		a.ProxyURL == b.ProxyURL && a.TLSServerName == b.TLSServerName
}

func sameUser(a, b pki.Kubeconfig) bool {
	return a.Token == b.Token && bytes.Equal(a.Certificate, b.Certificate) && bytes.Equal(a.Key, b.Key)
}

func (c *Conn) closeConnections() {
	c.dialer.CloseAll()
	c.transport.CloseIdleConnections()
}

// ErrRefused says that the API server is alive and does not accept our credentials, or not for what we are here for.
var ErrRefused = errors.New("the API server refuses our credentials")

// Healthy asks the API server whether it is alive.
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

// Close ends every live connection. Clients of this Conn must have been stopped.
func (c *Conn) Close() { c.closeConnections() }
