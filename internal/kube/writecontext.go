// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Context values with which callers describe their writes to the put-back limiter.

type originKey struct{}

// WithOrigin returns a context for writes derived from an object. A write derived from a recreated object (another UID)
// is no put-back.
func WithOrigin(ctx context.Context, uid types.UID) context.Context {
	return context.WithValue(ctx, originKey{}, uid)
}

func originOf(ctx context.Context) types.UID {
	uid, _ := ctx.Value(originKey{}).(types.UID)
	return uid
}

type steadyKey struct{}

// WithSteadyPutBacks returns a context for writes of fields that another writer resets repeatedly by design: each
// put-back waits the same delay, without exponential backoff.
func WithSteadyPutBacks(ctx context.Context, delay time.Duration) context.Context {
	return context.WithValue(ctx, steadyKey{}, delay)
}

func steadyDelay(ctx context.Context) time.Duration {
	delay, _ := ctx.Value(steadyKey{}).(time.Duration)
	return delay
}

type ownRivalKey struct{}

// WithOwnRival returns a context for writes to an object also written by another process of Liqo, such as a gateway and
// the controller that acts for the gateway while the gateway is down: mutual overwrites are no conflict, and only a loop
// is slowed down.
func WithOwnRival(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownRivalKey{}, true)
}

func hasOwnRival(ctx context.Context) bool {
	own, _ := ctx.Value(ownRivalKey{}).(bool)
	return own
}
