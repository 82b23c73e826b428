// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/policy"
)

// providerProxy forwards requests of users to the provider's API server.
type providerProxy struct {
	conn *multicluster.Conn
	base *url.URL
	log  logr.Logger
}

func newProvider(conn *multicluster.Conn, logger logr.Logger) (*providerProxy, error) {
	base, _, err := rest.DefaultServerUrlFor(conn.Config())
	if err != nil {
		return nil, fmt.Errorf("reading the address of the provider: %w", err)
	}
	base.Path = "/" + strings.Trim(base.Path, "/")
	return &providerProxy{conn: conn, base: base, log: logger}, nil
}

// forwarded are the headers of the request itself. Above all, the credentials with which the local API server
// authenticated are not forwarded.
var forwarded = []string{
	"Accept", "Accept-Encoding", "Connection", "Upgrade", "User-Agent", "X-Stream-Protocol-Version",
	"Sec-Websocket-Extensions", "Sec-Websocket-Key", "Sec-Websocket-Protocol", "Sec-Websocket-Version",
}

// forwardRequest sends req, without a body, to a path of the provider's API server with our own credentials. The streams then
// pass unchanged, both ways.
func (p *providerProxy) forwardRequest(w http.ResponseWriter, req *http.Request, to *url.URL) {
	transport, err := p.newTransport()
	if err != nil {
		p.writeUnreachable(w, req, err)
		return
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			header := http.Header{}
			for _, key := range forwarded {
				if values := r.Out.Header.Values(key); len(values) > 0 {
					header[key] = values
				}
			}
			target := p.base.JoinPath(to.Path)
			target.RawQuery = to.RawQuery
			r.Out.URL, r.Out.Host, r.Out.Header = target, "", header
			r.Out.Body, r.Out.ContentLength, r.Out.TransferEncoding = http.NoBody, 0, nil
		},
		FlushInterval:  -1, // each line of a followed log is sent at once
		ModifyResponse: stripHeaders,
		ErrorHandler:   p.writeUnreachable,
		// A closed connection of either endpoint is not worth a log line.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	proxy.ServeHTTP(w, req)
}

// dialTimeout limits how long a user waits for a provider that does not answer.
const dialTimeout = 15 * time.Second

// newTransport makes one connection, for one request: a slow reader delays no other request, least of all our watches, and
// new credentials interrupt no stream. Streams need HTTP/1.1.
func (p *providerProxy) newTransport() (http.RoundTripper, error) {
	cfg := p.conn.StreamConfig()
	config, err := cfg.TransportConfig()
	if err != nil {
		return nil, err
	}
	tlsConfig, err := transport.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	dialer := p.conn.Dialer(dialTimeout)
	return transport.HTTPWrappersForConfig(config, &http.Transport{
		Proxy: cfg.Proxy, DialContext: dialer.DialContext, TLSClientConfig: tlsConfig, TLSHandshakeTimeout: dialTimeout,
		DisableKeepAlives: true, DisableCompression: true,
	})
}

const (
	// maxMetrics is the maximum size of a page of metrics in bytes: cAdvisor's page for ten thousand pods has 200 MiB. A page is never held as a whole.
	maxMetrics = 256 << 20
	// metricsTimeout limits a scrape. Clients wait less.
	metricsTimeout = 60 * time.Second
)

// openPage requests a page of metrics with our own credentials. Pages are long and alike, so they are compressed on the way.
func (p *providerProxy) openPage(ctx context.Context, path string) (io.ReadCloser, error) {
	transport, err := p.newTransport()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base.JoinPath(path).String(), nil)
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		cancel()
		return nil, err
	}
	page := &metricsPage{Reader: resp.Body, closeIt: func() error { defer cancel(); return resp.Body.Close() }}
	if resp.StatusCode != http.StatusOK {
		defer page.Close()
		return nil, refusedMetrics(resp)
	}
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if page.Reader, err = gzip.NewReader(resp.Body); err != nil {
			return nil, errors.Join(err, page.Close())
		}
	}
	page.Reader = &limitedPage{page.Reader, maxMetrics}
	return page, nil
}

// metricsPage is a page as it comes from the provider.
type metricsPage struct {
	io.Reader
	closeIt func() error
}

func (m *metricsPage) Close() error { return m.closeIt() }

// limitedPage fails if a page is too large.
type limitedPage struct {
	page io.Reader
	left int64
}

var errLargePage = errors.New("the page is too large")

func (l *limitedPage) Read(into []byte) (int, error) {
	n, err := l.page.Read(into)
	if l.left -= int64(n); l.left < 0 {
		return 0, errLargePage
	}
	return n, err
}

// refusedMetrics returns why a page of metrics is not served. Without the metric agent, or while no kubelet lets the agent read, there are no metrics.
func refusedMetrics(resp *http.Response) error {
	text := resp.Status
	if body, err := io.ReadAll(io.LimitReader(resp.Body, maxError)); err == nil && len(body) > 0 && resp.StatusCode >= http.StatusBadRequest {
		text = policy.CleanLine(statusMessage(body), policy.MaxForeignReason)
	}
	switch resp.StatusCode {
	case http.StatusNotFound:
		return &errNoMetrics{reasonNoAgent, "The provider has no metric agent: set metricAgent.enabled in its installation of Liqo, or install metrics-server there"}
	case http.StatusServiceUnavailable, http.StatusForbidden:
		return &errNoMetrics{reasonAgentFails, "The metric agent of the provider has no metrics: " + text}
	}
	return errors.New(text)
}

// statusMessage returns the message of a Status, or the text itself.
func statusMessage(body []byte) string {
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" && status.Message != "" {
		return status.Message
	}
	return string(body)
}

// writeUnreachable answers a request if the provider does not.
func (p *providerProxy) writeUnreachable(w http.ResponseWriter, req *http.Request, err error) {
	if req.Context().Err() == nil {
		p.log.Info("request to the provider failed", "path", req.URL.Path, "reason", err.Error())
	}
	writeText(w, http.StatusBadGateway, "the provider cannot be reached: "+err.Error())
}

var errRedirects = errors.New("its API server sends us elsewhere, which is not followed")

// maxError is how much of an error is read.
const maxError = 64 << 10

// stripHeaders converts an error of the provider's API server to the form of a kubelet, a line of text: the local API
// server shows the line to the user unchanged. Clients of streams accept the other form too.
func stripHeaders(resp *http.Response) error {
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return errRedirects
	case resp.StatusCode < 400 || resp.Request.Header.Get("Upgrade") != "" || resp.Header.Get("Content-Encoding") != "":
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if err != nil {
		return fmt.Errorf("reading its answer: %w", err)
	}
	_ = resp.Body.Close()
	if message := []byte(statusMessage(body)); !bytes.Equal(message, body) {
		body = message
		resp.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}
