// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AddCache makes a cache beside the manager's, for kinds of which one controller needs a narrower view than the others. It
// starts with the manager's, on every replica: added as it is, a cache would wait for leadership, and those who read from
// it on a standby would wait with it.
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

// uncachedCache is what the manager recognises a cache by: it then starts and syncs it before any controller.
type uncachedCache struct{ cache.Cache }

func (e uncachedCache) GetCache() cache.Cache { return e.Cache }
