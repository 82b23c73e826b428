// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"strings"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// A manager of controller-runtime 0.23 stopped before its caches have synced waits for the sync for ever, in a busy loop
// (runnableGroup.Start). Therefore gracefulCache reports a sync when the manager stops, and the manager reaches its
// shutdown. No decision is based on an unsynced cache: every read of an unsynced cache blocks, and fails when the
// manager stops. Runnables without a cache may start for a moment, and the lease may be acquired and released.

// stopping is closed when the manager is asked to stop.
type stopping chan struct{}

type gracefulManager struct {
	ctrl.Manager
	end stopping
}

func (m *gracefulManager) Start(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { close(m.end) })()
	err := m.Manager.Start(ctx)
	if err != nil && strings.Contains(err.Error(), "leader election lost") { // controller-runtime returns an untyped error
		return ErrLeadershipLost
	}
	return err
}

// ErrLeadershipLost is returned by Start of a manager that did not renew its lease in time: another replica may be the
// leader by now.
var ErrLeadershipLost = errors.New("the lease of the leader was not renewed in time")

type gracefulCache struct {
	cache.Cache
	end stopping
}

func (s stopping) newCache(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
	c, err := cache.New(cfg, o)
	return gracefulCache{c, s}, err
}

// WaitForCacheSync returns true when the cache has synced, or when the manager stops.
func (c gracefulCache) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.end:
			cancel()
		case <-ctx.Done():
		}
	}()
	if c.Cache.WaitForCacheSync(ctx) {
		return true
	}
	select {
	case <-c.end:
		return true
	default:
		return false
	}
}
