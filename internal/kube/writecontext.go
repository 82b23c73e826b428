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
