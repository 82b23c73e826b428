// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestDelete(t *testing.T) {
	c := testkit.Cluster(t)
	tenant := testkit.Namespace(t, c, "tenant-delete", nil)
	meta := metav1.ObjectMeta{Namespace: tenant, Name: "deleted", Labels: map[string]string{names.RemoteClusterID: "milan"}}
	exists := func(obj client.Object) bool {
		err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return !apierrors.IsNotFound(err)
	}
	for _, tc := range []struct {
		obj   client.Object
		kinds []string
		title string
	}{
		{&offv1beta1.VirtualNode{ObjectMeta: meta, Spec: offv1beta1.VirtualNodeSpec{ClusterID: "milan", KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "x"}}}, []string{"virtualnode", "vn"}, "Virtual node"},
		{&networkingv1beta1.Configuration{ObjectMeta: meta}, []string{"configuration", "configurations", "config"}, "Configuration"},
		{&networkingv1beta1.GatewayServer{ObjectMeta: meta}, []string{"gatewayserver", "server"}, "GatewayServer"},
		{&networkingv1beta1.GatewayClient{ObjectMeta: meta}, []string{"gatewayclient", "client"}, "GatewayClient"},
		{&networkingv1beta1.PublicKey{ObjectMeta: meta}, []string{"publickey", "publickeies"}, "PublicKey"},
		{&authv1beta1.ResourceSlice{ObjectMeta: meta}, []string{"resourceslice", "rs"}, "ResourceSlice"},
		{&authv1beta1.Identity{ObjectMeta: meta, Spec: authv1beta1.IdentitySpec{ClusterID: "milan", Type: authv1beta1.ControlPlaneIdentityType}}, []string{"identity"}, "Identity"},
		{&authv1beta1.Tenant{ObjectMeta: meta, Spec: authv1beta1.TenantSpec{ClusterID: "milan"}}, []string{"tenant"}, "Tenant"},
	} {
		for _, kind := range tc.kinds {
			obj := tc.obj.DeepCopyObject().(client.Object)
			testkit.Create(t, c.Client, obj)
			dry := liqoctl(t, c.Config, "delete", kind, "deleted", "--dry-run")
			dry.succeeds(t, "\n  name: deleted\n  namespace: "+tenant+"\n---\n")
			liqoctl(t, c.Config, "delete", kind, "deleted", "-n", tenant, "-o", "json").succeeds(t, `"namespace": "`+tenant+`"`)
			if !exists(obj) {
				t.Fatalf("%s: a dry run deleted it", kind)
			}
			r := liqoctl(t, c.Config, "delete", kind, "deleted") // which is in no namespace that the kubeconfig names
			r.succeeds(t)
			if want := " INFO  " + tc.title + " deleted\n"; r.stderr != want || r.stdout != "" || exists(obj) {
				t.Errorf("%s: %q, %q", kind, r.stdout, r.stderr)
			}
			liqoctl(t, c.Config, "delete", kind, "deleted").refuses(t, " ERRO  unable to delete "+tc.title+": no namespace has the ", ` "deleted"`)
		}
	}
}

func TestDeleteSelectsObject(t *testing.T) {
	c := testkit.Cluster(t)
	one, other := testkit.Namespace(t, c, "delete-one", nil), testkit.Namespace(t, c, "delete-other", nil)
	in := func(namespace string) *networkingv1beta1.Configuration {
		return &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ambiguous"}}
	}
	testkit.Create(t, c.Client, in(one), in(other), in("default"))
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), in("default")) })

	liqoctl(t, c.Config, "delete", "configuration", "ambiguous", "-n", "kube-system").refuses(t, `namespace "kube-system" has no Configuration "ambiguous"`)
	liqoctl(t, c.Config, "delete", "configuration", "ambiguous").succeeds(t, "Configuration deleted") // that of the context
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(in("default")), in("default")); !apierrors.IsNotFound(err) {
		t.Errorf("another one was deleted: %v", err)
	}
	liqoctl(t, c.Config, "delete", "configuration", "ambiguous").refuses(t, "several namespaces have the Configuration", one+", "+other, " INFO  Say which one is meant with -n")
	liqoctl(t, c.Config, "delete", "configuration", "ambiguous", "-n", other).succeeds(t, "Configuration deleted")
	liqoctl(t, c.Config, "delete", "configuration", "ambiguous").succeeds(t, "Configuration deleted") // the last one

	// Who has rights in one namespace only has to name it.
	user := "deleter-of-" + one
	testkit.Allow(t, c, one, user, testkit.Rule(networkingv1beta1.GroupName, "configurations", "list", "delete"))
	testkit.Create(t, c.Client, in(one))
	as := c.User(t, user)
	liqoctl(t, as, "delete", "configuration", "ambiguous").refuses(t, "forbidden", `in the namespace "default"`, " INFO  You may not look into all namespaces: say with -n where it is")
	liqoctl(t, as, "delete", "configuration", "ambiguous", "-n", other).refuses(t, "unable to delete Configuration: ", "forbidden")
	liqoctl(t, as, "delete", "configuration", "ambiguous", "-n", one).succeeds(t, "Configuration deleted")

	copied := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: one, Name: "copied", Labels: map[string]string{
		names.Replicated: "true", names.ReplicationOrigin: "rome", names.RemoteClusterID: "rome",
	}}}
	ctltest.Lend(t, c, copied)
	liqoctl(t, c.Config, "delete", "resourceslice", "copied").refuses(t, "is a copy of what the cluster rome has, and would come back")
	liqoctl(t, c.Config, "delete", "gatewayserver").refuses(t, "accepts 1 arg(s), received 0")
	liqoctl(t, c.Config, "delete", "node", "x").refuses(t, `unknown command "node" for "liqoctl delete"`)
}
