// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

// nonceSecret is the Secret that administrators make to have a nonce.
func nonceSecret(namespace, id string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "liqo-nonce", Labels: map[string]string{names.Nonce: "true", names.RemoteClusterID: id},
	}}
}

// filled waits until the Secret has that key.
func filled(t *testing.T, c *testkit.ControlPlane, secret *corev1.Secret, key string) []byte {
	t.Helper()
	got := &corev1.Secret{}
	testkit.Eventually(t, patient, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), got); err != nil {
			return err
		}
		if len(got.Data[key]) == 0 {
			return errors.New("the Secret has no " + key)
		}
		return nil
	})
	return got.Data[key]
}

func TestNonceOnce(t *testing.T) {
	c := cluster(t)
	runTenant(t, c)
	id := testkit.UniqueID()
	ns := tenantNamespace(t, c, id)
	secret := nonceSecret(ns, id)
	secret.Data = map[string][]byte{"note": []byte("for milan")}
	testkit.Create(t, c.Client, secret)
	nonce := filled(t, c, secret, names.NonceKey)
	if note := filled(t, c, secret, "note"); string(note) != "for milan" {
		t.Errorf("what else is in the Secret is now %q", note)
	}
	if err := pki.CheckNonce(nonce); err != nil {
		t.Error(err)
	}
	testkit.WantEvent(t, c, secret, reasonNonceGenerated, "")

	t.Run("and again where it was removed", func(t *testing.T) {
		testkit.Update(t, c.Client, secret, func(s *corev1.Secret) { s.Labels["touched"] = "yes" })
		if again := filled(t, c, secret, names.NonceKey); !bytes.Equal(again, nonce) {
			t.Error("a touch changed the nonce")
		}
		if err := c.Client.Delete(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		anew := nonceSecret(ns, id)
		testkit.Create(t, c.Client, anew)
		if again := filled(t, c, anew, names.NonceKey); bytes.Equal(again, nonce) {
			t.Error("the nonce of a new Secret is the old one")
		}
	})
}

func TestNonceProblem(t *testing.T) {
	c := cluster(t)
	runTenant(t, c)
	id := testkit.UniqueID()
	ns := tenantNamespace(t, c, id)
	for name, test := range map[string]struct {
		edit        func(*corev1.Secret)
		reason, why string
	}{
		"unlabelled":   {func(s *corev1.Secret) { delete(s.Labels, names.RemoteClusterID) }, reasonMissingRemoteCluster, names.RemoteClusterID},
		"of-another":   {func(s *corev1.Secret) { s.Labels[names.RemoteClusterID] = "another" }, reasonWrongNamespace, "another"},
		"of-own-words": {func(s *corev1.Secret) { s.Data = map[string][]byte{names.NonceKey: []byte("secret")} }, reasonInvalidNonce, "88"},
	} {
		t.Run(name, func(t *testing.T) {
			secret := nonceSecret(ns, id)
			secret.Name = name
			test.edit(secret)
			testkit.Create(t, c.Client, secret)
			testkit.WantEvent(t, c, secret, test.reason, test.why)
			got := &corev1.Secret{}
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), got); err != nil {
				t.Fatal(err)
			}
			if len(got.Data) != len(secret.Data) {
				t.Error("it was filled in")
			}
		})
	}
	t.Run("until its label is put right", func(t *testing.T) {
		secret := nonceSecret(ns, id)
		secret.Name = "mended"
		secret.Labels[names.RemoteClusterID] = "another"
		testkit.Create(t, c.Client, secret)
		testkit.WantEvent(t, c, secret, reasonWrongNamespace, "another")
		testkit.Update(t, c.Client, secret, func(s *corev1.Secret) { s.Labels[names.RemoteClusterID] = id })
		filled(t, c, secret, names.NonceKey)
	})
}
