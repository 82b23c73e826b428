// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

func keyPair(t *testing.T) (private, public []byte) {
	t.Helper()
	a, b, err := pki.NewTunnelKey()
	if err != nil {
		t.Fatal(err)
	}
	return a[:], b[:]
}

func text(key []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(key) + "\n") }

func TestGatewayKeys(t *testing.T) {
	s := newTestEnv(t)
	s.start()
	of := s.serverTemplate()
	s.create(of)
	private, public := keyPair(t)
	for name, data := range map[string]map[string][]byte{
		"raw":      {names.PrivateKeyKey: private, names.PublicKeyKey: public},
		"text":     {names.PrivateKeyKey: text(private), names.PublicKeyKey: text(public)},
		"half":     {names.PrivateKeyKey: text(private)},
		"labelled": {names.PrivateKeyKey: private},
	} {
		secret := &corev1.Secret{ObjectMeta: s.meta("keys-" + name), Data: data}
		server := s.server(name, of)
		server.Labels[names.RemoteClusterID] = "peer-" + name
		secret.Labels = nil
		if name == "labelled" { // without being named
			secret.Labels = map[string]string{names.GatewayResource: "true", names.RemoteClusterID: "peer-labelled"}
		} else {
			server.Spec.SecretRef.Name = secret.Name
		}
		s.create(server, secret) // at first it is not there
		d := s.deployment(name)
		for _, v := range d.Spec.Template.Spec.Volumes {
			if v.Name == names.GatewayKeysVolume && v.Secret.SecretName != secret.Name {
				t.Errorf("%s: the pods mount %s", name, v.Secret.SecretName)
			}
		}
		if err := s.get(secret); err != nil {
			t.Fatal(err)
		}
		if secret.Labels[names.GatewayResource] != "true" || secret.Labels[names.RemoteClusterID] != "peer-"+name || len(secret.OwnerReferences) != 0 {
			t.Errorf("%s: metadata %+v", name, secret.ObjectMeta)
		}
		if got, err := pki.ParseTunnelPublicKey(secret.Data[names.PublicKeyKey]); err != nil || string(got[:]) != string(public) {
			t.Errorf("%s: public key: %v", name, err)
		}
		if string(secret.Data[names.PrivateKeyKey]) != string(data[names.PrivateKeyKey]) {
			t.Errorf("%s: the private key was written", name)
		}
		s.eventually(func() error {
			if err := s.get(server); err != nil {
				return err
			}
			if ref := server.Status.SecretRef; ref == nil || ref.Name != secret.Name || ref.Namespace != s.where {
				return fmt.Errorf("%s: secretRef %v", name, ref)
			}
			if got := server.Status.PublicKey; string(got) != string(public) {
				return fmt.Errorf("%s: the status has the public key %x, want %x", name, got, public)
			}
			return nil
		})
	}
}

func TestGatewayInvalidKeys(t *testing.T) {
	s := newTestEnv(t)
	s.start()
	of := s.serverTemplate()
	s.create(of)
	private, public := keyPair(t)
	other, _ := keyPair(t)
	immutable := func(x *corev1.Secret) { x.Immutable = new(true) }
	for name, tc := range map[string]struct {
		data map[string][]byte
		edit func(*corev1.Secret)
		want string
	}{
		"short":     {data: map[string][]byte{names.PrivateKeyKey: private[:31]}, want: "reading privateKey"},
		"noise":     {data: map[string][]byte{names.PrivateKeyKey: []byte("-----BEGIN NOISE-----")}, want: "reading privateKey"},
		"empty":     {data: map[string][]byte{}, want: "no privateKey"},
		"oneway":    {data: map[string][]byte{names.PublicKeyKey: public}, want: "no privateKey"},
		"stranger":  {data: map[string][]byte{names.PrivateKeyKey: other, names.PublicKeyKey: public}, want: "does not belong"},
		"badpublic": {data: map[string][]byte{names.PrivateKeyKey: private, names.PublicKeyKey: public[:30]}, want: "reading publicKey"},
		"frozen":    {data: map[string][]byte{names.PrivateKeyKey: private}, edit: immutable, want: "immutable"},
		"another": {data: map[string][]byte{names.PrivateKeyKey: private}, edit: func(x *corev1.Secret) {
			x.Labels = map[string]string{names.RemoteClusterID: "milan"}
		}, want: `keys for "milan"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &testEnv{T: t, c: s.c, liqo: s.liqo, where: s.where}
			secret := &corev1.Secret{ObjectMeta: s.meta("keys-" + name), Data: tc.data}
			secret.Labels = nil
			if tc.edit != nil {
				tc.edit(secret)
			}
			server := s.server(name, of)
			server.Spec.SecretRef.Name = secret.Name
			s.create(secret, server)
			s.wantReady(server, reasonInvalidKeys, tc.want)
			var events eventsv1.EventList
			if err := s.c.Client.List(t.Context(), &events, client.InNamespace(s.where)); err != nil {
				t.Fatal(err)
			}
			shown, err := yaml.Marshal([]any{server, events})
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range [][]byte{private, other} {
				if strings.Contains(string(shown), string(key)) || strings.Contains(string(shown), strings.TrimSpace(string(text(key)))) {
					t.Error("a private key is shown")
				}
			}
			if tc.edit == nil { // and mended, it is taken
				secret.Data = map[string][]byte{names.PrivateKeyKey: private, names.PublicKeyKey: public}
				secret.ResourceVersion = ""
				if err := s.c.Client.Update(t.Context(), secret); err != nil {
					t.Fatal(err)
				}
				s.deployment(name)
			}
		})
	}
}

func TestGatewayAmbiguousKeys(t *testing.T) {
	s := newTestEnv(t)
	s.start()
	of := s.serverTemplate()
	private, public := keyPair(t)
	for _, name := range []string{"one", "two"} {
		secret := &corev1.Secret{ObjectMeta: s.meta(name), Data: map[string][]byte{names.PrivateKeyKey: private, names.PublicKeyKey: public}}
		secret.Labels[names.GatewayResource] = "true"
		s.create(secret)
	}
	server := s.server("rome", of)
	s.create(of, server)
	s.wantReady(server, reasonInvalidKeys, "one, two")
	if err := s.c.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: s.meta("one")}); err != nil {
		t.Fatal(err)
	}
	s.deployment("rome")
	s.wantReady(server, reasonPending, "")
	if server.Status.SecretRef.Name != "two" {
		t.Errorf("took %v", server.Status.SecretRef)
	}
}

// Keys that were made for a gateway go with it, and whoever knows the public one of another gateway must not lose it then.
func TestGatewayKeysOfOther(t *testing.T) {
	s := newTestEnv(t)
	s.start()
	of := s.serverTemplate()
	first, second := s.server("rome", of), s.server("rome-anew", of)
	s.create(of, first)
	s.deployment("rome")
	s.create(second)
	s.deployment("rome-anew")
	own := func() []byte {
		t.Helper()
		s.eventually(func() error {
			if err := s.get(second); err != nil {
				return err
			}
			if ref := second.Status.SecretRef; ref == nil || ref.Name != "gw-rome-anew" {
				return fmt.Errorf("it took %v", ref)
			}
			return nil
		})
		return second.Status.PublicKey
	}
	public := own()
	if err := s.c.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	s.eventually(func() error {
		if err := s.get(&corev1.Secret{ObjectMeta: s.meta("gw-rome")}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Secret of the first one is there: %v", err)
		}
		return nil
	})
	if now := own(); !bytes.Equal(now, public) {
		t.Errorf("the key was %x and is %x", public, now)
	}
}
