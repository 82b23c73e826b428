// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

const foreignFinalizer = "example.com/kept"

func TestTwinsPolicy(t *testing.T) {
	c := install(t)
	// Somebody removed every label and annotation of it: who is a peer does not depend on them.
	remoteNamespace := testkit.Namespace(t, c, "twin", nil)
	peer := clientOf(t, c.User(t, "gold-1234", "milan", "system:authenticated"))
	other := clientOf(t, c.User(t, "editor", "staff", "system:authenticated"))
	editor := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-editor-"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"create", "get"}},
		{APIGroups: []string{offv1beta1.GroupVersion.Group}, Resources: []string{"shadowpods"}, Verbs: []string{"create", "get"}},
	}}
	if err := c.Client.Create(t.Context(), editor); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), editor) })
	bind(t, c, remoteNamespace, names.RoleVirtualKubeletRemote, "gold-1234")
	bind(t, c, remoteNamespace, editor.Name, "editor")
	for _, user := range []client.Client{peer, other} {
		rights(t, func() error {
			return user.Get(t.Context(), client.ObjectKey{Namespace: remoteNamespace, Name: "x"}, &corev1.Secret{})
		})
	}

	meta := metav1.ObjectMeta{Namespace: remoteNamespace, Name: "data", Labels: map[string]string{"app": "web"}}
	for kind, bare := range map[string]client.Object{
		"ConfigMap": &corev1.ConfigMap{ObjectMeta: meta},
		"Secret":    &corev1.Secret{ObjectMeta: meta},
		"ShadowPod": &offv1beta1.ShadowPod{ObjectMeta: meta},
	} {
		t.Run(kind, func(t *testing.T) {
			with := func(finalizers []string, owner string) client.Object {
				obj := bare.DeepCopyObject().(client.Object)
				obj.SetFinalizers(finalizers)
				if owner != "" {
					obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner, UID: "y"}})
				}
				return obj
			}
			going, holding := with(nil, ""), with(nil, "")
			ref := metav1.OwnerReference{APIVersion: "offloading.liqo.io/v1beta1", Kind: "ShadowPod", Name: "x", UID: "y"}
			going.SetOwnerReferences([]metav1.OwnerReference{ref})
			ref.BlockOwnerDeletion = new(true)
			holding.SetOwnerReferences([]metav1.OwnerReference{ref})
			withShadowPod := map[bool]string{true: "", false: "may not touch finalizers and owners"}[kind == "Secret"]
			for name, tc := range map[string]struct {
				user client.Client
				obj  client.Object
				want string
			}{
				"a peer has one go with a ShadowPod": {peer, going, withShadowPod},
				"a peer has one hold up a ShadowPod": {peer, holding, "may not touch finalizers and owners"},
				"a peer makes one":                   {peer, with(nil, ""), ""},
				"a peer sets a finalizer":            {peer, with([]string{foreignFinalizer}, ""), "may not touch finalizers"},
				"a peer sets an owner":               {peer, with(nil, "x"), "may not touch finalizers and owners"},
				"somebody else sets a finalizer":     {other, with([]string{foreignFinalizer}, ""), ""},
				"an administrator sets both":         {c.Client, with([]string{foreignFinalizer}, "x"), ""},
			} {
				t.Run(name, func(t *testing.T) { expect(t, tc.user.Create(t.Context(), tc.obj, client.DryRunAll), tc.want) })
			}

			kept := with([]string{foreignFinalizer}, "")
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

// The provider puts a token of a ServiceAccount, without an end, into a Secret of that type.
func TestServiceAccountTokenSecrets(t *testing.T) {
	c := install(t)
	remoteNamespace := testkit.Namespace(t, c, "twin", nil)
	peer := clientOf(t, c.User(t, "gold-1234", "milan", "system:authenticated"))
	bind(t, c, remoteNamespace, names.RoleVirtualKubeletRemote, "gold-1234")
	rights(t, func() error {
		return peer.Get(t.Context(), client.ObjectKey{Namespace: remoteNamespace, Name: "x"}, &corev1.Secret{})
	})
	secret := func(kind corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: remoteNamespace, Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"},
		}, Type: kind}
	}
	testkit.Create(t, c.Client, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: "builder"}})
	expect(t, peer.Create(t.Context(), secret(corev1.SecretTypeServiceAccountToken), client.DryRunAll), "may not write Secrets of type kubernetes.io/service-account-token")
	expect(t, peer.Create(t.Context(), secret(corev1.SecretTypeOpaque), client.DryRunAll), "")
	foreign := secret(corev1.SecretTypeServiceAccountToken)
	foreign.Annotations[corev1.ServiceAccountNameKey] = "builder"
	testkit.Create(t, c.Client, foreign)
	change := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"kubernetes.io/service-account.name":"default"}}}`))
	expect(t, peer.Patch(t.Context(), foreign.DeepCopy(), change, client.DryRunAll), "may not write Secrets of type kubernetes.io/service-account-token")
}
