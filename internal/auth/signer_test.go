// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

type signerLab struct {
	c         *testkit.ControlPlane
	ns, peer  string
	liqo      string
	handshake pki.Handshake
}

func newSignerLab(t *testing.T, legacy bool) *signerLab {
	t.Helper()
	l := &signerLab{c: cluster(t), peer: testkit.UniqueID()}
	l.liqo = liqoNamespace(t, l.c)
	l.ns = tenantNamespace(t, l.c, l.peer)
	l.handshake = pki.Handshake{Provider: l.peer, Consumer: "rome", Nonce: pki.NewNonce(), Legacy: legacy}
	run(t, l.c, func(mgr ctrl.Manager) error {
		return SetupSigner(mgr, SignerOptions{ClusterID: "rome", LiqoNamespace: l.liqo, LegacyNonces: legacy})
	})
	return l
}

// use stores the key pair for the peer.
func (l *signerLab) use(t *testing.T, generate func() (crypto.Signer, error)) crypto.Signer {
	t.Helper()
	key, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	private, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Create(t, l.c.Client, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.liqo, Name: names.PeerKeysSecret(l.peer)},
		Data:       map[string][]byte{names.PrivateKeyKey: private},
	})
	return key
}

func (l *signerLab) secret(nonce []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: l.ns, Name: "liqo-signed-nonce", Labels: map[string]string{names.SignedNonce: "true", names.RemoteClusterID: l.peer},
		},
		Data: map[string][]byte{names.NonceKey: nonce},
	}
}

// wantSigned waits for a signature that proves the handshake.
func (l *signerLab) wantSigned(t *testing.T, secret *corev1.Secret, key crypto.PublicKey) *corev1.Secret {
	t.Helper()
	got := &corev1.Secret{}
	testkit.Eventually(t, patient, func() error {
		if err := l.c.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), got); err != nil {
			return err
		}
		return l.handshake.Verify(key, got.Data[names.SignedNonceKey])
	})
	return got
}

func TestSignNonceForProviderOnly(t *testing.T) {
	l := newSignerLab(t, false)
	secret := l.secret(l.handshake.Nonce)
	testkit.Create(t, l.c.Client, secret)
	key := l.use(t, func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }) // comes later, too
	first := l.wantSigned(t, secret, key.Public())
	testkit.WantEvent(t, l.c, secret, reasonNonceSigned, "")
	alone := l.handshake
	alone.Legacy = true
	if alone.Verify(key.Public(), first.Data[names.SignedNonceKey]) == nil {
		t.Error("the nonce alone is signed")
	}

	t.Run("ECDSA signature is written once", func(t *testing.T) {
		other := l.secret(l.handshake.Nonce)
		other.Name = "later"
		testkit.Update(t, l.c.Client, secret, func(s *corev1.Secret) { s.Labels["touched"] = "yes" })
		testkit.Create(t, l.c.Client, other) // what is handled after the touch
		l.wantSigned(t, other, key.Public())
		again := l.wantSigned(t, secret, key.Public())
		if !bytes.Equal(first.Data[names.SignedNonceKey], again.Data[names.SignedNonceKey]) {
			t.Error("it was signed again")
		}
	})
	t.Run("again when the nonce is another one", func(t *testing.T) {
		l.handshake.Nonce = pki.NewNonce()
		testkit.Update(t, l.c.Client, secret, func(s *corev1.Secret) { s.Data[names.NonceKey] = l.handshake.Nonce })
		l.wantSigned(t, secret, key.Public())
	})
	t.Run("again when the signature is of no use", func(t *testing.T) {
		testkit.Update(t, l.c.Client, secret, func(s *corev1.Secret) { s.Data[names.SignedNonceKey] = []byte("none") })
		l.wantSigned(t, secret, key.Public())
	})
}

func TestSignNonceAlone(t *testing.T) {
	l := newSignerLab(t, true)
	key := l.use(t, pki.NewKey)
	secret := l.secret(l.handshake.Nonce)
	testkit.Create(t, l.c.Client, secret)
	l.wantSigned(t, secret, key.Public())
}

func TestSignNonceOfProvider(t *testing.T) {
	l := newSignerLab(t, false)
	l.use(t, pki.NewKey)
	for name, test := range map[string]struct {
		edit        func(*corev1.Secret)
		reason, why string
	}{
		"empty":      {func(s *corev1.Secret) { s.Data = nil }, reasonMissingNonce, names.NonceKey},
		"of-tls":     {func(s *corev1.Secret) { s.Data[names.NonceKey] = []byte(strings.Repeat(" ", 64)) }, reasonInvalidNonce, "88"},
		"unlabelled": {func(s *corev1.Secret) { delete(s.Labels, names.RemoteClusterID) }, reasonMissingRemoteCluster, names.RemoteClusterID},
		"of-another": {func(s *corev1.Secret) { s.Labels[names.RemoteClusterID] = "another" }, reasonWrongNamespace, "another"},
	} {
		t.Run(name, func(t *testing.T) {
			secret := l.secret(pki.NewNonce())
			secret.Name = name
			test.edit(secret)
			testkit.Create(t, l.c.Client, secret)
			testkit.WantEvent(t, l.c, secret, test.reason, test.why)
			got := &corev1.Secret{}
			if err := l.c.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), got); err != nil {
				t.Fatal(err)
			}
			if len(got.Data[names.SignedNonceKey]) > 0 {
				t.Errorf("%q was signed", got.Data[names.NonceKey])
			}
		})
	}
}
