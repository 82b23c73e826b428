// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// A peer may be away for days, and watches tell when something is released.
func TestPermissionChecksBounded(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "away", nil)
	held := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "test", Finalizers: []string{"crdreplicator.liqo.io/resource"}}}
	tn := &tenantNamespaces{client: c.Client, live: c.Client, liqoNamespace: "liqo"}
	create(t, c.Client, held, tn.newBinding(allGrants()[0], ns, "lucca"))
	err := tn.revokeBindings(t.Context(), ns)
	if !kube.IsWait(err) {
		t.Fatalf("got %v, want a wait", err)
	}
	if after := kube.Classify(err).After; after < 10*time.Second {
		t.Errorf("looks again after %s", after)
	}
	held.Finalizers = nil
	if err := c.Client.Update(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	if err := tn.revokeBindings(t.Context(), ns); err != nil {
		t.Error(err)
	}
}
