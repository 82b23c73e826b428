// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package metricagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"liqo.io/liqo/internal/exposition"
)

const (
	// fetchTimeout limits how long one node delays an answer.
	fetchTimeout = 5 * time.Second
	// maxPage is the maximum size of a page in bytes; the page of a thousand pods has some ten MiB.
	maxPage = 64 << 20
	// maxFetches is the maximum number of concurrent fetches.
	maxFetches = 32
)

// newKubeletClient returns a client with the credentials of this process. The client trusts the certificate authority of the cluster.
func newKubeletClient(cfg *rest.Config, skipVerify bool) (*http.Client, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.TLSClientConfig.ServerName = ""
	if skipVerify {
		cfg.TLSClientConfig.Insecure, cfg.TLSClientConfig.CAData, cfg.TLSClientConfig.CAFile = true, nil, ""
	}
	kubelets, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the client of kubelets: %w", err)
	}
	// The token is for kubelets only.
	return &http.Client{Transport: kubelets.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// source is where a page is fetched from.
type source struct {
	// name is the name of the node or exporter, for messages.
	name, url string
}

// pageCache fetches each page at most once in an interval, for all consumers, and only on request.
type pageCache struct {
	client   *http.Client
	interval time.Duration
	slots    chan struct{}

	mu      sync.Mutex
	fetches map[source]*fetch
}

// fetch is a present or past read of one page.
type fetch struct {
	done chan struct{}
	page any
	err  error
}

func newPageCache(kubelets *http.Client, interval time.Duration) *pageCache {
	return &pageCache{client: kubelets, interval: interval, slots: make(chan struct{}, maxFetches), fetches: map[source]*fetch{}}
}

// getPage returns the page of a source. read parses it.
func (c *pageCache) getPage(ctx context.Context, from source, read func(io.Reader) (any, error)) (any, error) {
	c.mu.Lock()
	f := c.fetches[from]
	if f == nil {
		f = &fetch{done: make(chan struct{})}
		c.fetches[from] = f
		// A consumer that leaves must not take the page from other consumers.
		go c.runFetch(context.WithoutCancel(ctx), from, f, read)
	}
	c.mu.Unlock()
	select {
	case <-f.done:
		return f.page, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// runFetch fetches a page, and drops the page after the interval.
func (c *pageCache) runFetch(ctx context.Context, from source, f *fetch, read func(io.Reader) (any, error)) {
	time.AfterFunc(c.interval, func() {
		<-f.done
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.fetches, from)
	})
	defer close(f.done)
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	f.page, f.err = c.downloadPage(ctx, from, read)
}

var errTooLarge = errors.New("the page is too large")

// downloadPage reads one page. Some versions of the kubelet lack some pages: a page that is not found is empty.
func (c *pageCache) downloadPage(ctx context.Context, from source, read func(io.Reader) (any, error)) (any, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", exposition.ContentType)
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body := &io.LimitedReader{R: resp.Body, N: maxPage}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		body.R = http.NoBody
	default:
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 256))
		return nil, fmt.Errorf("%s: %q", resp.Status, text)
	}
	page, err := read(body)
	if body.N <= 0 {
		err = errTooLarge
	}
	return page, err
}
