// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var testPolicy = rotationPolicy{hosts: []string{"liqo-webhook.liqo.svc", "127.0.0.1"}, lifetime: 2 * time.Minute}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func must(t testing.TB, k *servingCertificates, err error) *servingCertificates {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func verify(leaf *x509.Certificate, bundle []byte, now time.Time, host string) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, DNSName: host})
	return err
}

func TestKeyringHosts(t *testing.T) {
	first, err := testPolicy.nextKeyring(start, nil, false)
	k := must(t, first, err)
	for _, host := range testPolicy.hosts {
		if err := verify(k.leaf, k.caBundle(), start, host); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if life := k.leaf.NotAfter.Sub(start); life != testPolicy.lifetime {
		t.Errorf("the leaf lives %s", life)
	}
	if err := verify(k.leaf, k.caBundle(), start, "elsewhere"); err == nil {
		t.Error("the leaf is valid for another host")
	}
}

func TestKeyringSecret(t *testing.T) {
	first, err := testPolicy.nextKeyring(start, nil, false)
	k := must(t, first, err)
	data, err := k.encodeSecret()
	if err != nil {
		t.Fatal(err)
	}
	back, err := decodeSecret(data)
	if err != nil || !back.isEqual(k) {
		t.Fatalf("read back %v, %v", back, err)
	}
	again, err := testPolicy.nextKeyring(start.Add(time.Second), back, true)
	if must(t, again, err) != back {
		t.Error("a fresh keyring was replaced")
	}
}

func TestKeyringNext(t *testing.T) {
	first, err := testPolicy.nextKeyring(start, nil, false)
	k := must(t, first, err)
	for name, tc := range map[string]struct {
		at                    time.Duration
		shown                 bool
		change                func(*servingCertificates, *rotationPolicy)
		newLeaf, newAuthority bool
	}{
		"nothing is due at the start":                    {},
		"the leaf is renewed when a third is left":       {at: 80 * time.Second, newLeaf: true},
		"not a moment earlier":                           {at: 79 * time.Second},
		"an expired leaf is replaced":                    {at: 3 * time.Minute, newLeaf: true},
		"due authority is published before use":          {at: 321 * time.Second, newAuthority: true, newLeaf: true /* still of the old one */},
		"an expired authority is replaced with its leaf": {at: time.Hour, newAuthority: true, newLeaf: true},
		"another host needs another leaf":                {change: func(_ *servingCertificates, p *rotationPolicy) { p.hosts = append(p.hosts, "new.liqo.svc") }, newLeaf: true},
		"a lost authority key is replaced":               {change: func(k *servingCertificates, _ *rotationPolicy) { k.authorityKey = nil }, newAuthority: true, newLeaf: true},
	} {
		t.Run(name, func(t *testing.T) {
			have, p := *k, testPolicy
			if tc.change != nil {
				tc.change(&have, &p)
			}
			got, err := p.nextKeyring(start.Add(tc.at), &have, tc.shown)
			must(t, got, err)
			if newLeaf := !got.leaf.Equal(k.leaf); newLeaf != tc.newLeaf {
				t.Errorf("new leaf = %v, want %v", newLeaf, tc.newLeaf)
			}
			if fresh := !got.authorities[0].Equal(k.authorities[0]); fresh != tc.newAuthority {
				t.Errorf("new authority = %v, want %v", fresh, tc.newAuthority)
			}
			if err := verify(got.leaf, got.caBundle(), start.Add(tc.at), p.hosts[0]); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestKeyringDecode(t *testing.T) {
	first, err := testPolicy.nextKeyring(start, nil, false)
	k := must(t, first, err)
	second, err := testPolicy.nextKeyring(start, nil, false)
	other := must(t, second, err)
	foreign, err := other.encodeSecret()
	if err != nil {
		t.Fatal(err)
	}
	for key, broken := range map[string][]byte{keyAuthorities: nil, keyLeaf: []byte("no PEM"), keyAuthorityKey: foreign[keyAuthorityKey], keyLeafKey: foreign[keyLeafKey]} {
		data, err := k.encodeSecret()
		if err != nil {
			t.Fatal(err)
		}
		data[key] = broken
		half, err := decodeSecret(data)
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: error = %v", key, err)
		}
		if half.isUsable(start) {
			t.Errorf("%s: goes on with half a keyring", key)
		}
		if key != keyAuthorities && len(half.authorities) != 1 {
			t.Errorf("%s: forgets what is trusted", key)
		}
	}
}

// Replicas look at the Secret now and then, and the API server learns of a bundle late; still, whatever any replica
// serves is trusted at every moment.
func TestKeyringRotationTrust(t *testing.T) {
	const (
		settle  = 10 * time.Second
		maxLag  = 9 * time.Second  // of the API server
		maxIdle = 30 * time.Second // between two looks of a replica
	)
	rapid.Check(t, func(t *rapid.T) {
		type replica struct {
			certificateRotation
			leaf   *x509.Certificate
			looked time.Time
		}
		replicas := make([]*replica, rapid.IntRange(1, 3).Draw(t, "replicas"))
		for i := range replicas {
			replicas[i] = &replica{certificateRotation: certificateRotation{policy: testPolicy, settle: settle}}
		}
		bundles := make([][]byte, 2) // in the configuration
		configuration := trustingObject{Trusting: Trusting{Bundles: func(client.Object) [][]byte { return bundles }}}
		var stored *servingCertificates
		var written []byte // the bundle in the configuration
		var writtenAt time.Time
		var trusted []byte // the bundle as the API server knows it
		look := func(r *replica, now time.Time) {
			next, err := r.policy.nextKeyring(now, stored, r.shownLongEnough(now, stored, []trustingObject{configuration}))
			if err != nil {
				t.Fatal(err)
			}
			stored, r.leaf, r.looked = next, next.leaf, now
			if bundle := next.caBundle(); string(bundle) != string(written) {
				written, writtenAt = bundle, now
				bundles[0], bundles[1] = bundle, bundle
			}
		}
		now := start
		for _, r := range replicas {
			look(r, now)
		}
		trusted = written
		for now.Before(start.Add(12 * time.Minute)) {
			now = now.Add(time.Duration(rapid.IntRange(1, 8).Draw(t, "seconds")) * time.Second)
			if now.Sub(writtenAt) >= maxLag || rapid.Bool().Draw(t, "API server sees") {
				trusted = written
			}
			for i, r := range replicas {
				if now.Sub(r.looked) >= maxIdle || rapid.IntRange(0, 9).Draw(t, "looks") == 0 {
					look(r, now)
				}
				if err := verify(r.leaf, trusted, now, testPolicy.hosts[0]); err != nil {
					t.Fatalf("replica %d after %s: %v", i, now.Sub(start), err)
				}
			}
		}
		if stored.authorities[0].NotBefore.Equal(start.Add(-backdate)) {
			t.Fatal("twelve minutes went by without a new authority")
		}
	})
}
