// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"liqo.io/liqo/internal/kube"
)

// A client discovers kinds when a group is needed first. Discovery requests do not have the context of the caller:
// an API server that accepts connections and does not answer would block the command forever.

// patientDiscovery bounds a discovery request, lateDiscovery a request after the end of the command's own time (of a rollback). A server that never
// answered is not retried: the address may be wrong.
const (
	patientDiscovery = 30 * time.Second
	lateDiscovery    = 10 * time.Second
)

// ClientOf returns a client whose discovery ends with ctx. All other requests follow the contexts of their calls.
func ClientOf(ctx context.Context, cfg *rest.Config) (client.WithWatch, error) {
	asking := rest.CopyConfig(cfg)
	asking.Wrap(func(next http.RoundTripper) http.RoundTripper { return within{ctx, next, patientDiscovery} })
	httpClient, err := rest.HTTPClientFor(asking)
	if err != nil {
		return nil, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(asking, httpClient)
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(cfg, client.Options{Scheme: kube.Scheme, Mapper: mapper})
}

// within is a transport that cancels requests at the end of a second context and after a timeout.
type within struct {
	ctx  context.Context
	next http.RoundTripper
	most time.Duration
}

// RoundTrip sends the request with the time limit.
func (w within) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	limit, end := context.WithTimeout(w.ctx, w.most)
	if w.ctx.Err() != nil {
		end()
		limit, end = context.WithTimeout(context.WithoutCancel(w.ctx), lateDiscovery)
	}
	stop := context.AfterFunc(limit, func() { cancel(context.Cause(limit)) })
	over := func() {
		stop()
		end()
		cancel(nil)
	}
	response, err := w.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		over()
		return nil, err
	}
	response.Body = timedBody{response.Body, over}
	return response, nil
}

// timedBody is the body of an answer. The body must be read before the same timeout.
type timedBody struct {
	io.ReadCloser
	over func()
}

// Close ends the time limit with the body.
func (l timedBody) Close() error {
	defer l.over()
	return l.ReadCloser.Close()
}
