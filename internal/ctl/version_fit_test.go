// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/peering"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// installed has clusters say which version of Liqo they have, until the returned function takes it back.
func installed(t *testing.T, versions map[*testCluster]string) (takeBack func()) {
	t.Helper()
	say := func(c *testCluster, version string) {
		id := &corev1.ConfigMap{}
		if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: c.liqo, Name: names.ClusterIDConfigMap}, id); err != nil {
			t.Fatal(err)
		}
		testkit.Update(t, c.Client, id, func(id *corev1.ConfigMap) { id.Labels[names.AppVersion] = version })
	}
	for c, version := range versions {
		say(c, version)
	}
	return func() {
		for c := range versions {
			say(c, "")
		}
	}
}

func TestVersionMismatch(t *testing.T) {
	c := testkit.Cluster(t)
	local, _ := ctltest.NewBareCluster(t, c, "local", "rome-fits")
	remote, _ := ctltest.NewBareCluster(t, c, "remote", "milan-fits")
	if err := cluster.FitTogether(t.Context(), local, remote); err != nil {
		t.Errorf("what cannot be read is compared: %v", err)
	}
	for _, s := range []*cluster.Cluster{local, remote} {
		testkit.Create(t, c.Client, identityOf(s.ID, s.LiqoNamespace))
	}
	for _, v := range []struct{ local, remote, want string }{
		{"", "", ""},
		{"v0.2.0", "", ""},
		{"v0.2.0", "764a8d4", ""},
		{"v0.2.0", "v0.3.0", ""},
		{"v0.2.0", "v0.4.0", "the local cluster has Liqo v0.2.0 and the remote one v0.4.0"},
		{"v0.4.0", "v0.2.0", "the local cluster has Liqo v0.4.0 and the remote one v0.2.0"},
	} {
		installed(t, map[*testCluster]string{
			{ControlPlane: c, liqo: local.LiqoNamespace}: v.local, {ControlPlane: c, liqo: remote.LiqoNamespace}: v.remote,
		})
		if err := cluster.FitTogether(t.Context(), local, remote); (err != nil) != (v.want != "") || err != nil && !strings.Contains(err.Error(), v.want) {
			t.Errorf("%s and %s: %v", v.local, v.remote, err)
		}
	}
	a := &peering.Authentication{Consumer: local, Provider: remote}
	if err := a.MayBegin(t.Context()); err == nil {
		t.Error("clusters that do not fit may begin")
	}
	testkit.Create(t, c.Client, &authv1beta1.Tenant{
		ObjectMeta: network.PeerMeta(client.ObjectKey{Namespace: remote.Namespace, Name: local.ID}, local.ID), Spec: authv1beta1.TenantSpec{ClusterID: "rome-fits"},
	})
	if err := a.MayBegin(t.Context()); err != nil {
		t.Errorf("what is there cannot be mended: %v", err)
	}
}
