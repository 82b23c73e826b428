// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

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

// A client asks the API server for its kinds when it needs the first one of a group. These requests know nothing of the context of
// the call that needs them, and an API server that takes them and says nothing would hold up the command for ever.

// A request for kinds is bounded, and so is one after the end of the command's time, by what still takes back what was made. Before the first
// answer nobody is waited for who may be the wrong one, or none.
const (
	patientDiscovery = 30 * time.Second
	lateDiscovery    = 10 * time.Second
)

// clientOf is a client that finds out what kinds there are no longer than ctx lasts. All else follows the contexts of its calls.
func clientOf(ctx context.Context, cfg *rest.Config) (client.WithWatch, error) {
	asking := rest.CopyConfig(cfg)
	asking.Wrap(func(next http.RoundTripper) http.RoundTripper { return within{ctx, next, patientDiscovery} })
	asker, err := rest.HTTPClientFor(asking)
	if err != nil {
		return nil, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(asking, asker)
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(cfg, client.Options{Scheme: kube.Scheme, Mapper: mapper})
}

// within ends requests with a context, besides their own, and after some time.
type within struct {
	ctx  context.Context
	next http.RoundTripper
	most time.Duration
}

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
	response.Body = limited{response.Body, over}
	return response, nil
}

// limited is the body of an answer, which is read within the same time.
type limited struct {
	io.ReadCloser
	over func()
}

func (l limited) Close() error {
	defer l.over()
	return l.ReadCloser.Close()
}
