// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"crypto"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

func TestNonceSignedAgainAfterKeyChange(t *testing.T) {
	c := testkit.Cluster(t)
	newKey := func() crypto.Signer {
		key, err := pki.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	key, earlier := newKey(), newKey()
	for name, tc := range map[string]struct {
		by     crypto.Signer // nil for nobody yet
		legacy bool
		stays  bool
	}{
		"not signed yet":             {nil, false, true},
		"signed":                     {key, false, true},
		"signed in the older form":   {key, true, true},
		"signed by an earlier key":   {earlier, false, false},
		"and that in the older form": {earlier, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := ctltest.NewBareCluster(t, c, "local", "rome")
			of := pki.Handshake{Provider: "milan", Consumer: "rome", Nonce: pki.NewNonce(), Legacy: tc.legacy}
			got := NewHandshakeSecret(client.ObjectKey{Namespace: s.Namespace, Name: names.SignedNonceSecret}, names.SignedNonce, "milan")
			got.Data = map[string][]byte{names.NonceKey: of.Nonce}
			if tc.by != nil {
				signature, err := of.Sign(tc.by)
				if err != nil {
					t.Fatal(err)
				}
				got.Data[names.SignedNonceKey] = signature
			}
			testkit.Create(t, c.Client, got)
			of.Legacy = false
			at, err := ensureSignedNonce(t.Context(), s, &cluster.Session{}, key.Public(), of)
			if err != nil {
				t.Fatal(err)
			}
			now := &corev1.Secret{}
			if err := c.Client.Get(t.Context(), at, now); err != nil {
				t.Fatal(err)
			}
			if stays := now.UID == got.UID; stays != tc.stays || string(now.Data[names.NonceKey]) != string(of.Nonce) || !stays && len(now.Data[names.SignedNonceKey]) > 0 {
				t.Errorf("it stays: %t, not %t; it has %d bytes of a signature", stays, tc.stays, len(now.Data[names.SignedNonceKey]))
			}
		})
	}
}
