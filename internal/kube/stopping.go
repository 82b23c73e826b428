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

// A manager of controller-runtime 0.23 that is told to stop before its caches have synced waits for them for ever, and without
// a pause (runnableGroup.Start). So the caches let it go on, to where it stops. Nothing is decided on them: every read of a
// cache that has not synced waits, and fails when the manager stops. What uses no cache may start for a moment, and the lease
// may be taken and given back.

// stopping is closed when the manager is told to stop.
type stopping chan struct{}

type gracefulManager struct {
	ctrl.Manager
	end stopping
}

func (m *gracefulManager) Start(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { close(m.end) })()
	err := m.Manager.Start(ctx)
	if err != nil && strings.Contains(err.Error(), "leader election lost") { // which has no type
		return ErrLeadershipLost
	}
	return err
}

// ErrLeadershipLost is what a manager ends with that could not renew its lease in time: another may lead by now.
var ErrLeadershipLost = errors.New("the lease of the leader was not renewed in time")

type gracefulCache struct {
	cache.Cache
	end stopping
}

func (s stopping) newCache(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
	c, err := cache.New(cfg, o)
	return gracefulCache{c, s}, err
}

// WaitForCacheSync returns true when the cache has synced, or need not any more.
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
