// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package podpage reads pages of processes of Liqo, served beside the metrics, through the API server: the network of pods is not needed.
package podpage

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"liqo.io/liqo/internal/names"
)

// maxPage bounds a page.
const maxPage = 8 << 20

// TokenLifetime is how long a token of RequestToken is valid.
const TokenLifetime = 10 * time.Minute

// Reader reads pages of pods. It is safe for concurrent use.
type Reader struct {
	// Dial opens a connection to a port of a pod. Dial is a field for tests, whose pods do not run.
	Dial    func(ctx context.Context, pod *corev1.Pod, port int32) (net.Conn, error)
	config  *rest.Config
	clients kubernetes.Interface
}

// NewReader returns a Reader by port forwarding to pods.
func NewReader(config *rest.Config, clients kubernetes.Interface) *Reader {
	r := &Reader{config: config, clients: clients}
	r.Dial = r.forwardPort
	return r
}

// RequestToken returns a token of the ServiceAccount with access to /metrics and names.NetworkStatePath of all processes that authorize by the API
// server.
func RequestToken(ctx context.Context, clients kubernetes.Interface, namespace string) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(TokenLifetime.Seconds()))}}
	answer, err := clients.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, names.Diagnostics, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token of the ServiceAccount %s: %w", names.Diagnostics, err)
	}
	return answer.Status.Token, nil
}

// MetricsPort returns the port of the metrics of a pod, 0 for none.
func MetricsPort(pod *corev1.Pod) int32 {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == "metrics" || p.Name == "gw-metrics" {
				return p.ContainerPort
			}
		}
	}
	return 0
}

// mostWait bounds the seconds requested by a busy pod: commands wait for the pod.
const mostWait = 4

// BusyError is returned if a pod answers another request for the page now.
type BusyError struct {
	// After is when to ask again.
	After time.Duration
}

// Error returns the remedy.
func (e *BusyError) Error() string {
	return fmt.Sprintf("the pod is asked by others: ask again in %s", e.After)
}

// ReadPage returns a page of a pod. The certificate of the pod is self-signed: the API server and the kubelet guarantee that the connection
// ends in this pod.
func (r *Reader) ReadPage(ctx context.Context, pod *corev1.Pod, port int32, page, token string) (string, error) {
	ask := func(scheme, token string) (*http.Response, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+pod.Name+page, nil)
		if err != nil {
			return nil, err
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		return (&http.Transport{
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return r.Dial(ctx, pod, port) },
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
			DisableKeepAlives: true,
		}).RoundTrip(request)
	}
	answer, err := ask("https", token)
	if err != nil && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		answer, err = ask("http", "") // a process whose metrics are public
	}
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", page, cmp.Or(ctx.Err(), err))
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusTooManyRequests:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return "", fmt.Errorf("reading %s: %w", page, &BusyError{After: time.Duration(min(max(1, seconds), mostWait)) * time.Second})
	default:
		return "", fmt.Errorf("reading %s: %s", page, answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxPage))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", page, cmp.Or(ctx.Err(), err))
	}
	return string(text), nil
}

// forwardPort opens a connection to a port of a pod. The connection ends with the pod and with ctx.
func (r *Reader) forwardPort(ctx context.Context, pod *corev1.Pod, port int32) (net.Conn, error) {
	tunnel, err := r.dialWithin(ctx, pod)
	if err != nil {
		return nil, err
	}
	connection, err := openPort(tunnel, port)
	if err != nil {
		_ = tunnel.Close()
		return nil, err
	}
	connection.stopped = context.AfterFunc(ctx, func() { _ = tunnel.Close() })
	return connection, nil
}

// dialWithin is dialPod until the end of ctx, since the dialer does not know ctx. A later connection is closed.
func (r *Reader) dialWithin(ctx context.Context, pod *corev1.Pod) (httpstream.Connection, error) {
	type dialled struct {
		tunnel httpstream.Connection
		err    error
	}
	done := make(chan dialled, 1)
	go func() {
		tunnel, err := r.dialPod(pod)
		done <- dialled{tunnel, err}
	}()
	select {
	case d := <-done:
		return d.tunnel, d.err
	case <-ctx.Done():
		go func() {
			if d := <-done; d.err == nil {
				_ = d.tunnel.Close()
			}
		}()
		return nil, fmt.Errorf("forwarding a port: %w", ctx.Err())
	}
}

// dialPod opens a connection for port forwarding to a pod.
func (r *Reader) dialPod(pod *corev1.Pod) (httpstream.Connection, error) {
	url := r.clients.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	roundTripper, upgrader, err := spdy.RoundTripperFor(r.config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: roundTripper}, http.MethodPost, url)
	modern, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, r.config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	dialer := portforward.NewFallbackDialerForStreaming(modern, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	connection, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, fmt.Errorf("forwarding a port: %w", err)
	}
	return connection, nil
}

// podConn is a connection to a port of a pod. The connection has no deadlines: its context ends the tunnel.
type podConn struct {
	httpstream.Stream
	tunnel  httpstream.Connection
	stopped func() bool
}

// Close closes the tunnel, too.
func (c *podConn) Close() error {
	c.stopped()
	return c.tunnel.Close()
}

// openPort opens a connection to a port through a tunnel.
func openPort(tunnel httpstream.Connection, port int32) (*podConn, error) {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(int(port)))
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.FormatInt(time.Now().UnixNano(), 10))
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := tunnel.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("opening a stream: %w", err)
	}
	_ = failures.Close() // the stream is read only; a failed connection ends the data stream, too
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := tunnel.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("opening a stream: %w", err)
	}
	return &podConn{Stream: data, tunnel: tunnel}, nil
}

// LocalAddr returns no address of use.
func (*podConn) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr returns no address of use.
func (*podConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// SetDeadline does nothing.
func (*podConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (*podConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (*podConn) SetWriteDeadline(time.Time) error { return nil }
