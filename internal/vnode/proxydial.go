// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package vnode

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialTimeout bounds how long a user waits for a stream to a provider that does not answer.
const dialTimeout = 15 * time.Second

// dialVia dials through the proxy that the kubeconfig names for target, if any. Ordinary requests leave this to
// net/http, but a stream has a connection of its own.
func dialVia(proxyFor func(*http.Request) (*url.URL, error), target *url.URL) dialFunc {
	dialer := &net.Dialer{Timeout: dialTimeout}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if proxyFor == nil {
			return dialer.DialContext(ctx, network, address)
		}
		proxy, err := proxyFor(&http.Request{URL: target})
		if err != nil {
			return nil, fmt.Errorf("choosing a proxy: %w", err)
		}
		if proxy == nil {
			return dialer.DialContext(ctx, network, address)
		}
		conn, err := dialer.DialContext(ctx, network, proxyAddress(proxy))
		if err != nil {
			return nil, fmt.Errorf("dialing the proxy: %w", err)
		}
		if proxy.Scheme == "https" {
			conn = tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: proxy.Hostname()})
		}
		if err := connect(conn, proxy, address); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("asking the proxy for %s: %w", address, err)
		}
		return conn, nil
	}
}

func proxyAddress(proxy *url.URL) string {
	if port := proxy.Port(); port != "" {
		return proxy.Host
	}
	if proxy.Scheme == "https" {
		return net.JoinHostPort(proxy.Hostname(), "443")
	}
	return net.JoinHostPort(proxy.Hostname(), "80")
}

// connect asks the proxy at the other end of conn for a tunnel. The server behind it speaks only after us, so nothing of
// what it says can be left in the reader.
func connect(conn net.Conn, proxy *url.URL, address string) error {
	if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if proxy.User != nil {
		password, _ := proxy.User.Password()
		pair := base64.StdEncoding.EncodeToString([]byte(proxy.User.Username() + ":" + password))
		req.Header.Set("Proxy-Authorization", "Basic "+pair)
	}
	if err := req.Write(conn); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the proxy says %s", resp.Status)
	}
	return conn.SetDeadline(time.Time{})
}
