// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AddCache adds a second cache to the manager, for kinds of which one controller needs a narrower view than the others.
// The cache starts with the manager's cache, on every replica: a cache added as a plain Runnable would wait for leader
// election, and readers on a standby replica would block.
func AddCache(mgr ctrl.Manager, objects map[client.Object]cache.ByObject) (cache.Cache, error) {
	made, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient:                  mgr.GetHTTPClient(),
		Scheme:                      mgr.GetScheme(),
		Mapper:                      mgr.GetRESTMapper(),
		DefaultTransform:            cache.TransformStripManagedFields(),
		ReaderFailOnMissingInformer: true,
		ByObject:                    objects,
	})
	if err != nil {
		return nil, fmt.Errorf("making a cache: %w", err)
	}
	if m, ok := mgr.(*gracefulManager); ok {
		made = gracefulCache{made, m.end}
	}
	if err := mgr.Add(uncachedCache{made}); err != nil {
		return nil, fmt.Errorf("adding a cache: %w", err)
	}
	return made, nil
}

// uncachedCache marks a Runnable as a cache: the manager then starts and syncs the cache before any controller.
type uncachedCache struct{ cache.Cache }

func (e uncachedCache) GetCache() cache.Cache { return e.Cache }
