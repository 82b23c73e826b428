// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/await"
	"liqo.io/liqo/internal/ctl/out"
)

// patient is a cluster whose API server is asked again while it has troubles, so that what a command began is brought to its end once it
// is back. Whatever a command sends does the same when it is sent twice. One that never answered may be the wrong one, or none: its
// troubles end the command.
type patient struct {
	client.WithWatch
	scope *out.Scope

	mu       sync.Mutex
	answered bool
	told     map[string]bool // the troubles that were, each once
}

// patience is how long a call is waited for without a word.
const patience = 10 * time.Second

var errNoAnswer = errors.New("it does not answer")

// patiently has the scope tell that the cluster is waited for, and for which troubles.
func patiently(cluster client.WithWatch, s *out.Scope) *patient {
	return &patient{WithWatch: cluster, scope: s, told: map[string]bool{}}
}

// through makes a call until it is answered.
func (p *patient) through(ctx context.Context, call func() error) error {
	once := func() error {
		late := time.AfterFunc(patience, func() { p.suffer(errNoAnswer) })
		defer late.Stop()
		return p.heard(ctx, call())
	}
	if !p.known() {
		return once()
	}
	return await.Through(ctx, once)
}

func (p *patient) known() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered
}

// heard keeps what the end of a call says of the API server. That the time of the call was over says nothing.
func (p *patient) heard(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
	case await.Transient(err):
		p.suffer(err)
	default:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.answered = true
	}
	return err
}

func (p *patient) suffer(trouble error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, _, _ := strings.Cut(describe(trouble), " - error from a previous attempt: ") // which names ports of our own
	if p.answered && !p.told[text] {
		p.told[text] = true
		p.scope.Warn("Waiting for the API server: %s", text)
	}
}

func (p *patient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return p.through(ctx, func() error { return p.WithWatch.Get(ctx, key, obj, opts...) })
}

func (p *patient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return p.through(ctx, func() error { return p.WithWatch.List(ctx, list, opts...) })
}

// Watch is left to whoever watches, who has to begin anew whenever a watch ends.
func (p *patient) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	events, err := p.WithWatch.Watch(ctx, list, opts...)
	return events, p.heard(ctx, err)
}

func (p *patient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return p.through(ctx, func() error { return p.WithWatch.Create(ctx, obj, opts...) })
}

func (p *patient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return p.through(ctx, func() error { return p.WithWatch.Delete(ctx, obj, opts...) })
}

func (p *patient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return p.through(ctx, func() error { return p.WithWatch.Update(ctx, obj, opts...) })
}

func (p *patient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return p.through(ctx, func() error { return p.WithWatch.Patch(ctx, obj, patch, opts...) })
}

func (p *patient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return p.through(ctx, func() error { return p.WithWatch.Apply(ctx, obj, opts...) })
}
