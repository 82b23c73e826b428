// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// A standby once waited for ever for a cache that only the leader started: a rolling update never ended.
func TestAddCacheOnStandby(t *testing.T) {
	c := testkit.Cluster(t)
	elected := kube.ManagerOptions{Name: "addcache", LeaderElection: true, LeaderElectionNamespace: "default"}
	leads := make(chan struct{})
	testkit.Manager(t, c.Config, elected, func(mgr ctrl.Manager) error {
		go func() {
			<-mgr.Elected()
			close(leads)
		}()
		return nil
	})
	<-leads

	var narrow cache.Cache
	testkit.Manager(t, c.Config, elected, func(mgr ctrl.Manager) error {
		var err error
		narrow, err = kube.AddCache(mgr, map[client.Object]cache.ByObject{
			&corev1.Namespace{}: {Field: fields.OneTermEqualSelector("metadata.name", "default")},
		})
		if err != nil {
			return err
		}
		_, err = narrow.GetInformer(t.Context(), &corev1.Namespace{}, cache.BlockUntilSynced(false))
		return err
	})
	var list corev1.NamespaceList
	testkit.Eventually(t, limit, func() error { return narrow.List(t.Context(), &list) })
	if len(list.Items) != 1 {
		t.Errorf("the narrow cache holds %d namespaces, want 1", len(list.Items))
	}
}
