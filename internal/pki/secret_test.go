// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/names"
)

func TestGatewaySecret(t *testing.T) {
	there := func(name string) corev1.Secret { return corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	going := func(name string) corev1.Secret {
		s := there(name)
		s.DeletionTimestamp = new(metav1.Unix(1, 0))
		return s
	}
	of := func(api, kind, gateway, name string) corev1.Secret {
		s := there(name)
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: api, Kind: kind, Name: gateway, Controller: new(true)}}
		return s
	}
	const ours = "networking.liqo.io/v1beta1"
	for name, tc := range map[string]struct {
		of            []corev1.Secret
		want, refused string
	}{
		"none":                        {},
		"one":                         {of: []corev1.Secret{there("one")}, want: "one"},
		"one that stays":              {of: []corev1.Secret{going("one"), there("two"), going("three")}, want: "two"},
		"none that stays":             {of: []corev1.Secret{going("one")}},
		"its own":                     {of: []corev1.Secret{of(ours, "GatewayServer", "gate", "its")}, want: "its"},
		"that of another gateway":     {of: []corev1.Secret{of(ours, "GatewayServer", "other", "theirs"), of(ours, "GatewayClient", "gate", "theirs-too")}},
		"given beside another's":      {of: []corev1.Secret{of(ours, "GatewayServer", "other", "theirs"), there("given")}, want: "given"},
		"given by an operator":        {of: []corev1.Secret{of("external-secrets.io/v1", "ExternalSecret", "vault", "given")}, want: "given"},
		"two are told by their order": {of: []corev1.Secret{there("two"), going("gone"), there("one")}, refused: "several Secrets have keys for milan: one, two; keep one, or name it in spec.secretRef"},
	} {
		got, err := OnlyTunnelSecret("milan", Gateway{"GatewayServer", "gate"}, tc.of)
		switch {
		case tc.refused != "":
			if err == nil || err.Error() != tc.refused {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil || (got == nil) != (tc.want == "") || got != nil && got.Name != tc.want:
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestGatewayKeys(t *testing.T) {
	private, public, err := NewTunnelKey()
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := NewTunnelKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		private, public []byte
		peer            string // of the label
		refused         string
	}{
		"a pair":                 {private: private[:], public: public[:], peer: "milan"},
		"a private key":          {private: private[:]},
		"no private key":         {public: public[:], refused: "the Secret keys: it has no privateKey"},
		"what is none":           {private: []byte("none"), refused: "the Secret keys: reading privateKey: "},
		"a public half of noise": {private: private[:], public: []byte("none"), refused: "the Secret keys: reading publicKey: "},
		"halves of two pairs":    {private: private[:], public: other[:], refused: "the Secret keys: publicKey does not belong to privateKey"},
		"of another peer":        {private: private[:], public: public[:], peer: "paris", refused: `the Secret keys has keys for "paris", and this gateway is for "milan"`},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "keys"}, Data: map[string][]byte{}}
		if tc.private != nil {
			secret.Data[names.PrivateKeyKey] = tc.private
		}
		if tc.public != nil {
			secret.Data[names.PublicKeyKey] = tc.public
		}
		if tc.peer != "" {
			secret.Labels = map[string]string{names.RemoteClusterID: tc.peer}
		}
		got, err := CheckTunnelSecret("milan", secret)
		switch {
		case tc.refused != "":
			if err == nil || !strings.HasPrefix(err.Error(), tc.refused) {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil || got != public:
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
