// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/info"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestHealthOrphanSlices(t *testing.T) {
	c := testkit.Cluster(t)
	f := &info.Collector{Reader: c.Client}
	served, lost := testkit.UniqueID(), testkit.UniqueID()
	for _, id := range []string{served, lost} {
		ns := testkit.Namespace(t, c, "of-a-consumer", nil)
		slice := &authv1beta1.ResourceSlice{ObjectMeta: network.PeerMeta(client.ObjectKey{Namespace: ns, Name: "x"}, id)}
		slice.Labels[names.Replicated], slice.Labels[names.ReplicationOrigin] = "true", id
		ctltest.Lend(t, c, slice)
		if id == served {
			ctltest.Lend(t, c, &authv1beta1.Tenant{ObjectMeta: network.PeerMeta(client.ObjectKey{Namespace: ns, Name: id}, id), Spec: authv1beta1.TenantSpec{ClusterID: liqov1beta1.ClusterID(id)}})
		}
	}
	got, err := f.FindOrphans(t.Context())
	all := strings.Join(diagnose.Alerts(got), "\n")
	if err != nil || strings.Contains(all, served) || !strings.Contains(all, "Consumer "+lost+" has no Tenant but 1 ResourceSlices") {
		t.Errorf("%v: %s", err, all)
	}
}
