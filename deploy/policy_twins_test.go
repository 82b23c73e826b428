// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

const foreignFinalizer = "example.com/kept"

func TestTwinsPolicy(t *testing.T) {
	c := install(t)
	twin := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "milan"})
	unmarked := testkit.Namespace(t, c, "plain", map[string]string{names.RemoteClusterID: "milan"})
	annotate(t, c, twin, names.ManagedByNamespaceMap, "tenant-milan/home")
	peer := clientOf(t, c.User(t, "gold-1234", "milan", "system:authenticated"))
	other := clientOf(t, c.User(t, "editor", "staff", "system:authenticated"))
	for _, user := range []string{"gold-1234", "editor"} {
		for _, ns := range []string{twin, unmarked} {
			bind(t, c, ns, names.RoleVirtualKubeletRemote, user)
		}
	}
	for _, user := range []client.Client{peer, other} {
		rights(t, func() error {
			return user.Get(t.Context(), client.ObjectKey{Namespace: twin, Name: "x"}, &corev1.Secret{})
		})
		rights(t, func() error {
			return user.Get(t.Context(), client.ObjectKey{Namespace: unmarked, Name: "x"}, &corev1.Secret{})
		})
	}

	meta := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: "data", Labels: map[string]string{"app": "web"}}
	}
	for kind, bare := range map[string]func(namespace string) client.Object{
		"ConfigMap": func(ns string) client.Object { return &corev1.ConfigMap{ObjectMeta: meta(ns)} },
		"Secret":    func(ns string) client.Object { return &corev1.Secret{ObjectMeta: meta(ns)} },
		"ShadowPod": func(ns string) client.Object { return &offv1beta1.ShadowPod{ObjectMeta: meta(ns)} },
	} {
		t.Run(kind, func(t *testing.T) {
			with := func(namespace string, finalizers []string, owner string) client.Object {
				obj := bare(namespace)
				obj.SetFinalizers(finalizers)
				if owner != "" {
					obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner, UID: "y"}})
				}
				return obj
			}
			for name, tc := range map[string]struct {
				user client.Client
				obj  client.Object
				want string
			}{
				"a peer makes one":                       {peer, bare(twin), ""},
				"a peer sets a finalizer":                {peer, with(twin, []string{foreignFinalizer}, ""), "may not touch finalizers"},
				"a peer sets an owner":                   {peer, with(twin, nil, "x"), "may not touch finalizers and owners"},
				"somebody else sets a finalizer":         {other, with(twin, []string{foreignFinalizer}, ""), ""},
				"an administrator sets both":             {c.Client, with(twin, []string{foreignFinalizer}, "x"), ""},
				"a namespace that is no twin is no case": {peer, with(unmarked, []string{foreignFinalizer}, ""), ""},
			} {
				t.Run(name, func(t *testing.T) { expect(t, tc.user.Create(t.Context(), tc.obj, client.DryRunAll), tc.want) })
			}

			kept := with(twin, []string{foreignFinalizer}, "")
			if err := c.Client.Create(t.Context(), kept); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = c.Client.Patch(context.Background(), kept, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
			})
			for name, tc := range map[string]struct{ patch, want string }{
				"a peer changes its own":     {`{"metadata":{"labels":{"tier":"gold"}}}`, ""},
				"a peer adds a finalizer":    {`{"metadata":{"finalizers":["example.com/kept","example.com/more"]}}`, "may not touch finalizers"},
				"a peer removes a finalizer": {`{"metadata":{"finalizers":null}}`, "may not touch finalizers"},
				"a peer adds an owner":       {`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"y"}]}}`, "may not touch finalizers and owners"},
			} {
				t.Run(name, func(t *testing.T) {
					obj := kept.DeepCopyObject().(client.Object)
					expect(t, peer.Patch(t.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(tc.patch)), client.DryRunAll), tc.want)
				})
			}
		})
	}
}

func annotate(t testing.TB, c *testkit.ControlPlane, namespace, key, value string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+key+`":"`+value+`"}}}`))
	if err := c.Client.Patch(t.Context(), ns, patch); err != nil {
		t.Fatal(err)
	}
}
