// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rsa"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

func runKeys(t *testing.T, c *testkit.ControlPlane, o KeysOptions) {
	t.Helper()
	run(t, c, func(mgr ctrl.Manager) error { return SetupKeys(mgr, o) })
}

func keyPair(t *testing.T, c *testkit.ControlPlane, namespace, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	testkit.Eventually(t, patient, func() error {
		return c.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret)
	})
	return secret
}

func TestKeysPerPeer(t *testing.T) {
	c := cluster(t)
	liqo := liqoNamespace(t, c)
	peer := testkit.UniqueID()
	ns := tenantNamespace(t, c, peer)
	runKeys(t, c, KeysOptions{LiqoNamespace: liqo})

	own := keyPair(t, c, liqo, names.KeysSecret)
	first := keyPair(t, c, liqo, names.PeerKeysSecret(peer))
	key, err := pki.ParseKey(first.Data[names.PrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := key.(ed25519.PrivateKey); !ok {
		t.Errorf("the key is a %T", key)
	}
	public, err := pki.ParsePublicKey(first.Data[names.PublicKeyKey])
	if err != nil || !key.Public().(ed25519.PublicKey).Equal(public) {
		t.Errorf("the public key is not that of the private one: %v", err)
	}
	if bytes.Equal(own.Data[names.PrivateKeyKey], first.Data[names.PrivateKeyKey]) {
		t.Error("a peer has the key pair of the cluster")
	}
	if len(own.OwnerReferences) > 0 {
		t.Error("the key pair of the cluster goes with something")
	}

	t.Run("and once more when one was deleted", func(t *testing.T) {
		if err := c.Client.Delete(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, patient, func() error {
			second := &corev1.Secret{}
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(first), second); err != nil {
				return err
			}
			if second.UID == first.UID {
				return fmt.Errorf("it is still the same")
			}
			return nil
		})
	})
	t.Run("and go with the tenant namespace", func(t *testing.T) {
		if err := c.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, patient, func() error {
			err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(first), &corev1.Secret{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("the key pair is still there: %v", err)
			}
			return nil
		})
	})
}

func TestKeysKept(t *testing.T) {
	c := cluster(t)
	liqo := liqoNamespace(t, c)
	peer, broken, probe := testkit.UniqueID(), testkit.UniqueID(), testkit.UniqueID()
	key, err := pki.NewCompatibleKey()
	if err != nil {
		t.Fatal(err)
	}
	private, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{names.PeerKeysSecret(peer): private, names.PeerKeysSecret(broken): []byte("precious")} {
		testkit.Create(t, c.Client, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: liqo, Name: name},
			Data:       map[string][]byte{names.PrivateKeyKey: data},
		})
	}
	ns := tenantNamespace(t, c, peer)
	brokenNS := tenantNamespace(t, c, broken)
	runKeys(t, c, KeysOptions{LiqoNamespace: liqo})

	testkit.Eventually(t, patient, func() error {
		secret := keyPair(t, c, liqo, names.PeerKeysSecret(peer))
		if !bytes.Equal(secret.Data[names.PrivateKeyKey], private) {
			t.Fatal("the key pair was replaced")
		}
		if owners := secret.OwnerReferences; len(owners) != 1 || owners[0].Name != ns {
			return fmt.Errorf("the key pair does not go with its namespace: %v", owners)
		}
		return nil
	})
	testkit.WantEvent(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: brokenNS}}, "WrongKey", "")
	tenantNamespace(t, c, probe)
	keyPair(t, c, liqo, names.PeerKeysSecret(probe))
	if got := keyPair(t, c, liqo, names.PeerKeysSecret(broken)).Data[names.PrivateKeyKey]; string(got) != "precious" {
		t.Error("what is no key was overwritten")
	}
}

// They took the key pair from each other, a hundred times a second.
func TestKeysShared(t *testing.T) {
	c := cluster(t)
	liqo, peer := liqoNamespace(t, c), testkit.UniqueID()
	namespaces := []string{tenantNamespace(t, c, peer)}
	runKeys(t, c, KeysOptions{LiqoNamespace: liqo})
	created := keyPair(t, c, liqo, names.PeerKeysSecret(peer))
	namespaces = append(namespaces, tenantNamespace(t, c, peer))
	for len(namespaces) > 0 {
		testkit.Eventually(t, patient, func() error {
			secret := keyPair(t, c, liqo, created.Name)
			var owners []string
			for _, ref := range secret.OwnerReferences {
				owners = append(owners, ref.Name)
			}
			if secret.UID != created.UID || !slices.Equal(owners, namespaces) {
				return fmt.Errorf("it is of %v, not of %v", owners, namespaces)
			}
			return nil
		})
		if err := c.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaces[0]}}); err != nil {
			t.Fatal(err)
		}
		namespaces = namespaces[1:]
	}
	testkit.Eventually(t, patient, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(created), &corev1.Secret{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the key pair is still there: %v", err)
		}
		return nil
	})
}

func TestKeysRSA(t *testing.T) {
	c := cluster(t)
	liqo := liqoNamespace(t, c)
	runKeys(t, c, KeysOptions{LiqoNamespace: liqo, TLSCompatibility: true})
	key, err := pki.ParseKey(keyPair(t, c, liqo, names.KeysSecret).Data[names.PrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := key.(*rsa.PrivateKey); !ok {
		t.Errorf("the key is a %T", key)
	}
}
