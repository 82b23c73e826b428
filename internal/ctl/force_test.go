// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestForceUnpeerDryRun(t *testing.T) {
	c := testkit.Cluster(t)
	gone, other := testkit.UniqueID(), testkit.UniqueID()
	tenant := testkit.Namespace(t, c, "tenant", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: gone})
	otherNamespace := testkit.Namespace(t, c, "elsewhere", nil)
	fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: gone}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: liqov1beta1.ClusterID(gone)}}
	of := func(namespace, id string) metav1.ObjectMeta {
		return network.PeerMeta(client.ObjectKey{Namespace: namespace, Name: "x"}, id)
	}
	about := []client.Object{
		&authv1beta1.Tenant{ObjectMeta: of(tenant, gone), Spec: authv1beta1.TenantSpec{ClusterID: liqov1beta1.ClusterID(gone)}},
		&networkingv1beta1.PublicKey{ObjectMeta: of(otherNamespace, gone)},
		&networkingv1beta1.Configuration{ObjectMeta: of(otherNamespace, gone)},
	}
	before := append([]client.Object{fc}, about...)
	for _, obj := range append(before, &networkingv1beta1.Configuration{ObjectMeta: of(tenant, other)}) {
		ctltest.Lend(t, c, obj)
	}
	force := func(more ...string) result {
		return liqoctl(t, c.Config, append([]string{"force", "unpeer", gone}, more...)...)
	}
	deleted := fmt.Sprintf("apiVersion: authentication.liqo.io/v1beta1\nkind: Tenant\nmetadata:\n  name: x\n  namespace: %s\n---\n"+
		"apiVersion: networking.liqo.io/v1beta1\nkind: PublicKey\nmetadata:\n  name: x\n  namespace: %s\n---\n"+
		"apiVersion: networking.liqo.io/v1beta1\nkind: Configuration\nmetadata:\n  name: x\n  namespace: %s\n---\n"+
		"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n---\n", tenant, otherNamespace, otherNamespace, tenant)
	want := "apiVersion: core.liqo.io/v1beta1\nkind: ForeignCluster\nmetadata:\n  annotations:\n    " + names.PermanentlyUnreachable + ": \"true\"\n  name: " + gone + "\n---\n" + deleted
	for _, flags := range [][]string{{"--dry-run"}, {"-o", "yaml"}} {
		r := force(flags...)
		if diff := cmp.Diff(want, r.stdout); diff != "" || r.err != nil || r.stderr != "" {
			t.Errorf("%v: %v %s\n%s", flags, r.err, r.stderr, diff)
		}
	}
	if r := force("-o", "json"); r.err != nil || strings.Count(r.stdout, `"kind": "`) != 5 {
		t.Errorf("%v\n%s", r.err, r.stdout)
	}
	for _, obj := range before {
		had := obj.GetResourceVersion()
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil || obj.GetResourceVersion() != had || obj.GetDeletionTimestamp() != nil {
			t.Errorf("a dry run touched %T %s: %v", obj, client.ObjectKeyFromObject(obj), err)
		}
	}
	liqoctl(t, c.Config, "force", "unpeer", "nobody", "--dry-run").refuses(t, "Remote cluster with ID nobody not found")
}
