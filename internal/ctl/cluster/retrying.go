// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
)

// retryingClient retries requests while the API server has transient errors: a command is completed once the server is back. All requests of commands
// are idempotent. A server that never answered is not retried: the address may be wrong.
type retryingClient struct {
	client.WithWatch
	scope *ui.Scope

	mu       sync.Mutex
	answered bool
	printed  map[string]bool // the transient errors printed so far
}

// QuietPeriod is how long a call is retried without a message.
const QuietPeriod = 10 * time.Second

var errNoAnswer = errors.New("it does not answer")

// NewRetryingClient returns a client that reports retries, and the errors behind them, by the scope.
func NewRetryingClient(cluster client.WithWatch, s *ui.Scope) *retryingClient {
	p := &retryingClient{scope: s, printed: map[string]bool{}}
	p.WithWatch = kube.WrapCalls(cluster, p.callThrough)
	return p
}

// callThrough retries a call until the server answers.
func (p *retryingClient) callThrough(ctx context.Context, call func() error) error {
	once := func() error {
		late := time.AfterFunc(QuietPeriod, func() { p.waitOut(errNoAnswer) })
		defer late.Stop()
		return p.recordAnswer(ctx, call())
	}
	if !p.isKnown() {
		return once()
	}
	return kube.RetryTransient(ctx, once)
}

func (p *retryingClient) isKnown() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered
}

// recordAnswer records whether the API server answered. A timeout of the call itself is ignored.
func (p *retryingClient) recordAnswer(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
	case kube.IsTransient(err):
		p.waitOut(err)
	default:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.answered = true
	}
	return err
}

func (p *retryingClient) waitOut(trouble error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, _, _ := strings.Cut(DescribeError(trouble), " - error from a previous attempt: ") // the rest has local port numbers
	if p.answered && !p.printed[text] {
		p.printed[text] = true
		p.scope.Warn("Waiting for the API server: %s", text)
	}
}

// Watch is not retried: callers restart a watch whenever it ends.
func (p *retryingClient) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	events, err := p.WithWatch.Watch(ctx, list, opts...)
	return events, p.recordAnswer(ctx, err)
}
