// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/ecdh"
	"crypto/x509"
	"encoding/base64"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/datapath/wg"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/prefix"
)

func newKey(t *testing.T) wg.PrivateKey {
	t.Helper()
	private, _, err := pki.NewTunnelKey()
	if err != nil {
		t.Fatal(err)
	}
	return private
}

func written(name string, key []byte, age time.Duration) networkingv1beta1.PublicKey {
	return networkingv1beta1.PublicKey{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-age))},
		Spec:       networkingv1beta1.PublicKeySpec{PublicKey: key},
	}
}

func TestPeerKey(t *testing.T) {
	first, second := newKey(t).Public(), newKey(t).Public()
	broken := []byte("short")
	lowOrder := [32]byte{1}
	going := written("going", second[:], 0)
	going.DeletionTimestamp = new(metav1.Now())
	for name, test := range map[string]struct {
		keys   []networkingv1beta1.PublicKey
		want   *wg.PublicKey
		broken string
	}{
		"none":                        {},
		"one":                         {keys: []networkingv1beta1.PublicKey{written("a", first[:], 0)}, want: &first},
		"in base64":                   {keys: []networkingv1beta1.PublicKey{written("a", []byte(first.String()), 0)}, want: &first},
		"the newest":                  {keys: []networkingv1beta1.PublicKey{written("b", first[:], time.Hour), written("a", second[:], 0)}, want: &second},
		"of one age, always one":      {keys: []networkingv1beta1.PublicKey{written("b", second[:], 0), written("a", first[:], 0)}, want: &second},
		"not one that goes":           {keys: []networkingv1beta1.PublicKey{written("a", first[:], time.Hour), going}, want: &first},
		"none but one that goes":      {keys: []networkingv1beta1.PublicKey{going}},
		"broken":                      {keys: []networkingv1beta1.PublicKey{written("a", broken, 0)}, broken: "a"},
		"of low order":                {keys: []networkingv1beta1.PublicKey{written("a", lowOrder[:], 0), written("b", first[:], time.Hour)}, want: &first, broken: "a"},
		"broken, but an older is not": {keys: []networkingv1beta1.PublicKey{written("a", broken, 0), written("b", first[:], time.Hour)}, want: &first, broken: "a"},
	} {
		got, problems := publicKey(test.keys)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		var of []string
		for _, p := range problems {
			of = append(of, p.Of.Name)
		}
		if strings.Join(of, " ") != test.broken {
			t.Errorf("%s: problems %v, want one of %q", name, problems, test.broken)
		}
	}
}

func TestDeviceConfig(t *testing.T) {
	key, remote := newKey(t), newKey(t).Public()
	dir := t.TempDir()
	o := Options{KeysDir: dir, MTU: 1340, ListenPort: 7}
	peer := &plan.Peer{
		Pods:     []prefix.Pair{{Remote: netip.MustParsePrefix("10.200.0.0/16"), Local: netip.MustParsePrefix("10.71.0.0/16")}},
		External: []prefix.Pair{{Remote: netip.MustParsePrefix("10.70.0.0/16"), Local: netip.MustParsePrefix("10.68.0.0/16")}},
	}
	keys := []networkingv1beta1.PublicKey{written("a", remote[:], 0)}
	at := netip.MustParseAddrPort("192.0.2.1:51840")
	if _, err := o.wireguardConfig(); err == nil || !strings.Contains(err.Error(), "reading the private key") {
		t.Errorf("without a private key: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "privateKey"), key[:], 0o600); err != nil {
		t.Fatal(err)
	}
	none := wg.Config{MTU: 1340, PrivateKey: key, ListenPort: 7, Mark: names.TunnelMark}
	whole := none
	whole.Peers = []wg.Peer{{PublicKey: remote, Endpoint: at, Keepalive: 10 * time.Second, AllowedIPs: []netip.Prefix{
		netip.MustParsePrefix("169.254.18.0/30"), peer.Pods[0].Remote, peer.External[0].Remote,
	}}}
	for name, test := range map[string]struct {
		keys []networkingv1beta1.PublicKey
		peer *plan.Peer
		mtu  int
		want wg.Config
	}{
		"all is known":          {keys, peer, 1340, whole},
		"no key":                {nil, peer, 1340, none},
		"no place for the peer": {keys, nil, 1340, none},
		"what is no MTU":        {keys, peer, 70000, whole},
		"too large for a frame": {keys, peer, 65500, whole},
	} {
		o.MTU = test.mtu
		got, err := o.wireguardConfig()
		if err != nil {
			t.Fatal(err)
		}
		got.Peers, _ = Options{}.wantedPeers(test.keys, test.peer, at)
		if diff := cmp.Diff(test.want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
			cmp.Comparer(func(a, b wg.PrivateKey) bool { return a == b })); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// What the controller of gateways and liqoctl take for a key is one.
func TestKeyForms(t *testing.T) {
	private, public, err := pki.NewTunnelKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdh.X25519().NewPrivateKey(private[:])
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := x509.MarshalPKIXPublicKey(key.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, form := range map[string]func(raw, der []byte) []byte{
		"raw":         func(raw, _ []byte) []byte { return raw },
		"text":        func(raw, _ []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(raw) + "\n") },
		"DER":         func(_, der []byte) []byte { return der },
		"DER in text": func(_, der []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(der)) },
	} {
		if err := os.WriteFile(filepath.Join(dir, names.PrivateKeyKey), form(private[:], secret), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := (Options{KeysDir: dir}).privateKey(); err != nil || got != private {
			t.Errorf("%s: private key: %v", name, err)
		}
		if got, problems := publicKey([]networkingv1beta1.PublicKey{written("a", form(public[:], shown), 0)}); got == nil || *got != public {
			t.Errorf("%s: public key: %v", name, problems)
		}
	}
}

// The kernel sends keepalives also for a process that died.
func TestKeepaliveOfReplicas(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		want    time.Duration
	}{
		"one_replica":              {Options{}, keepalive},
		"several":                  {Options{LeaderElection: true}, 0},
		"several_without_probes":   {Options{LeaderElection: true, Unwatched: true}, keepalive},
		"one_replica_without_them": {Options{Unwatched: true}, keepalive},
	} {
		if got := test.options.persistentKeepalive(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
