// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// drainFor is how long a server that goes still answers: whoever keeps a connection in use has used it by then.
const drainFor = time.Second

// drained is a webhook server that goes without refusing anybody. API servers speak HTTP/1.1 with webhooks and keep their
// connections (https://github.com/kubernetes/apiserver/blob/master/pkg/util/webhook/client.go), and an admission that is
// sent just when its connection is closed has failed: so the connections end with an answer first.
type drained struct {
	webhook.Server
	going atomic.Bool
}

// Start serves until the context ends, and drainFor longer.
func (d *drained) Start(ctx context.Context) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		d.going.Store(true)
		time.AfterFunc(drainFor, stop)
	})()
	return d.Server.Start(serving)
}

// Register adds a hook whose answers ask for another connection once the server is going.
func (d *drained) Register(path string, hook http.Handler) {
	d.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.going.Load() {
			w.Header().Set("Connection", "close")
		}
		hook.ServeHTTP(w, r)
	}))
}
