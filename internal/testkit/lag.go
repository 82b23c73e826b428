// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"
)

// lagVariable names how late API servers learn at most of what was written, by themselves or by others: whatever relies on
// a cache being up to date shows. Every watch is late by a random time of its own, and so are the API server's own caches of
// rights, policies and quotas.
const lagVariable = "LIQO_LAG"

// lagging starts a server that stands between API servers and etcd, and returns its URL. Without a lag it is etcd's.
func (l *lab) lagging() (string, error) {
	value := os.Getenv(lagVariable)
	if value == "" {
		return l.etcdURL, nil
	}
	lag, err := time.ParseDuration(value)
	if err != nil || lag <= 0 {
		return "", fmt.Errorf("%s: %q is not a duration, such as 300ms", lagVariable, value)
	}
	etcd, err := url.Parse(l.etcdURL)
	if err != nil {
		return "", fmt.Errorf("reading the URL of etcd: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listening between the API server and etcd: %w", err)
	}
	plain := new(http.Protocols) // gRPC without TLS
	plain.SetUnencryptedHTTP2(true)
	proxy := &http.Server{Protocols: plain, Handler: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(etcd) },
		Transport:     &http.Transport{Protocols: plain},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // of API servers that were stopped
		ModifyResponse: func(r *http.Response) error {
			if strings.HasSuffix(r.Request.URL.Path, "/Watch") {
				r.Body = delayedBody{r.Body, lag}
			}
			return nil
		},
	}}
	go func() { _ = proxy.Serve(listener) }() // until the test binary ends
	return "http://" + listener.Addr().String(), nil
}

// delayedBody passes on what was read after a random time.
type delayedBody struct {
	io.ReadCloser
	most time.Duration
}

func (l delayedBody) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	time.Sleep(rand.N(l.most))
	return n, err
}
