// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// What callers say of their writes, for the limit of put-backs.

type originKey struct{}

// WithOrigin returns a context for the writes that follow from an object. What is written for an object that was made anew puts nothing back.
func WithOrigin(ctx context.Context, uid types.UID) context.Context {
	return context.WithValue(ctx, originKey{}, uid)
}

func originOf(ctx context.Context) types.UID {
	uid, _ := ctx.Value(originKey{}).(types.UID)
	return uid
}

type steadyKey struct{}

// WithSteadyPutBacks returns a context for writes of fields that another writer, by what it is for, sets again and again: they are put back
// with the same delay each time, and not ever more seldom.
func WithSteadyPutBacks(ctx context.Context, delay time.Duration) context.Context {
	return context.WithValue(ctx, steadyKey{}, delay)
}

func steadyDelay(ctx context.Context) time.Duration {
	delay, _ := ctx.Value(steadyKey{}).(time.Duration)
	return delay
}

type ownRivalKey struct{}

// WithOwnRival returns a context for writes to what another process of Liqo writes, too, as a gateway and the controller that speaks for it
// while it does not run: what each undoes of the other is no conflict, and only a loop is slowed down.
func WithOwnRival(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownRivalKey{}, true)
}

func hasOwnRival(ctx context.Context) bool {
	own, _ := ctx.Value(ownRivalKey{}).(bool)
	return own
}
