// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

// signed is a certificate for the key of the peer that began and ends so long from now.
func (l *identityLab) signed(t *testing.T, from, to time.Duration) []byte {
	t.Helper()
	key, err := pki.ParseKey(l.private)
	if err != nil {
		t.Fatal(err)
	}
	return signedFor(t, key, from, to)
}

func signedFor(t *testing.T, key crypto.Signer, from, to time.Duration) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(to)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// controlPlane makes an Identity of the control plane.
func (l *identityLab) controlPlane(t *testing.T, name string, certificate []byte) *authv1beta1.Identity {
	t.Helper()
	identity := l.identity(name, authv1beta1.ControlPlaneIdentityType, certificate)
	identity.Spec.Namespace = new("tenant-there")
	testkit.Create(t, l.c.Client, identity)
	return identity
}

// renew waits for the Renew of the Identity.
func (l *identityLab) renew(t *testing.T, identity *authv1beta1.Identity) *authv1beta1.Renew {
	t.Helper()
	renew := &authv1beta1.Renew{}
	testkit.Eventually(t, patient, func() error {
		return l.c.Client.Get(t.Context(), client.ObjectKeyFromObject(identity), renew)
	})
	return renew
}

// offer is what comes back from the provider.
func (l *identityLab) offer(t *testing.T, renew *authv1beta1.Renew, edit func(*authv1beta1.AuthParams)) {
	t.Helper()
	testkit.UpdateStatus(t, l.c.Client, renew, func(r *authv1beta1.Renew) {
		if r.Status.AuthParams == nil {
			r.Status.AuthParams = &authv1beta1.AuthParams{APIServer: "https://provider:6443", CA: l.cert}
		}
		edit(r.Status.AuthParams)
	})
}

// wantKubeconfig waits until the kubeconfig has what check wants.
func (l *identityLab) wantKubeconfig(t *testing.T, identity *authv1beta1.Identity, check func(*pki.Kubeconfig) bool) {
	t.Helper()
	testkit.Eventually(t, patient, func() error {
		if got := parse(t, l.kubeconfig(t, identity)); !check(got) {
			return fmt.Errorf("the kubeconfig leads to %s", got.Server)
		}
		return nil
	})
}

func TestIdentityFollowsProvider(t *testing.T) {
	l := newIdentityLab(t)
	identity := l.controlPlane(t, "controlplane", l.signed(t, -2*time.Hour, time.Hour))
	renew := l.renew(t, identity)
	if !metav1.IsControlledBy(renew, identity) {
		t.Errorf("its owners are %v", renew.OwnerReferences)
	}
	wantLabels := map[string]string{names.Replication: "true", names.ReplicationDestination: l.peer, names.RemoteClusterID: l.peer}
	if diff := cmp.Diff(wantLabels, renew.Labels); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(authv1beta1.RenewSpec{ConsumerClusterID: "rome", IdentityType: authv1beta1.ControlPlaneIdentityType}, renew.Spec); diff != "" {
		t.Error(diff)
	}

	second := l.signed(t, -time.Hour, 2*time.Hour)
	l.offer(t, renew, func(p *authv1beta1.AuthParams) { p.SignedCRT = second })
	l.wantKubeconfig(t, identity, func(k *pki.Kubeconfig) bool { return bytes.Equal(k.Certificate, second) && k.ProxyURL == "" })
	l.wantExpiry(t, identity, second)

	t.Run("other address with same certificate", func(t *testing.T) {
		l.offer(t, renew, func(p *authv1beta1.AuthParams) { p.APIServer = "https://elsewhere:6443" })
		l.wantKubeconfig(t, identity, func(k *pki.Kubeconfig) bool { return k.Server == "https://elsewhere:6443" })
	})
	t.Run("administrator's address is kept", func(t *testing.T) {
		testkit.Update(t, l.c.Client, identity, func(i *authv1beta1.Identity) { i.Spec.AuthParams.APIServer = "https://moved:6443" })
		l.wantKubeconfig(t, identity, func(k *pki.Kubeconfig) bool { return k.Server == "https://moved:6443" })
	})
	t.Run("not back", func(t *testing.T) {
		third := l.signed(t, -time.Minute, 3*time.Hour)
		testkit.Update(t, l.c.Client, identity, func(i *authv1beta1.Identity) { i.Spec.AuthParams.SignedCRT = third })
		l.wantKubeconfig(t, identity, func(k *pki.Kubeconfig) bool { return bytes.Equal(k.Certificate, third) })
		l.offer(t, renew, func(p *authv1beta1.AuthParams) { p.ProxyURL = new("http://10.0.0.9:8118") }) // late: with the second certificate
		fourth := l.signed(t, time.Second, 4*time.Hour)
		l.offer(t, renew, func(p *authv1beta1.AuthParams) { p.SignedCRT = fourth })
		l.wantKubeconfig(t, identity, func(k *pki.Kubeconfig) bool {
			if bytes.Equal(k.Certificate, second) {
				t.Error("the older certificate came back")
			}
			return bytes.Equal(k.Certificate, fourth) && k.ProxyURL == "http://10.0.0.9:8118"
		})
	})
	t.Run("out of an administrator's mistake", func(t *testing.T) {
		testkit.Update(t, l.c.Client, identity, func(i *authv1beta1.Identity) {
			i.Spec.AuthParams.SignedCRT = signedFor(t, newKey(t), time.Hour, 9*time.Hour)
		})
		testkit.Eventually(t, patient, func() error {
			got := &authv1beta1.Identity{}
			if err := l.c.Client.Get(t.Context(), client.ObjectKeyFromObject(identity), got); err != nil {
				return err
			}
			if !bytes.Equal(got.Spec.AuthParams.SignedCRT, renewOffer(t, l, identity)) {
				return errors.New("it says what is of no use")
			}
			return nil
		})
	})
}

func TestIdentityUpdateInterval(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for name, test := range map[string]struct {
		annotation string
		want       time.Duration
	}{
		"the first time at once":              {"", 0},
		"of an earlier version at once":       {"0123456789abcdef", 0},
		"at once after long":                  {"0123456789abcdef 2026-05-04T03:01:31Z", 0},
		"a moment later for the rest":         {"0123456789abcdef 2026-05-04T03:01:51Z", 20 * time.Second},
		"in the same second for all of it":    {"0123456789abcdef 2026-05-04T03:02:01Z", 30 * time.Second},
		"at once after a clock was set back":  {"0123456789abcdef 2026-05-04T03:02:02Z", 0},
		"at once where somebody wrote a word": {"0123456789abcdef soon", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parseFollowed(test.annotation).earlyBy(now, followInterval); got != test.want {
				t.Errorf("it waits %s, want %s", got, test.want)
			}
		})
	}
	of := followedIdentity{"0123456789abcdef", now}
	if got := parseFollowed(of.String()); got != of {
		t.Errorf("%q is read as %v", of, got)
	}
	if got := (followedIdentity{hash: of.hash}).String(); got != of.hash {
		t.Errorf("it says %q", got)
	}
}

// followedAt waits until the Identity has the certificate, and says when it took it over.
func (l *identityLab) followedAt(t *testing.T, identity *authv1beta1.Identity, certificate []byte) time.Time {
	t.Helper()
	got := &authv1beta1.Identity{}
	testkit.Eventually(t, patient, func() error {
		if err := l.c.Client.Get(t.Context(), client.ObjectKeyFromObject(identity), got); err != nil {
			return err
		}
		if !bytes.Equal(got.Spec.AuthParams.SignedCRT, certificate) {
			return errors.New("the Identity has another certificate")
		}
		return nil
	})
	return parseFollowed(got.Annotations[names.FollowedOffer]).at
}

func TestIdentityUpdateDamped(t *testing.T) {
	const interval = 5 * time.Second
	l := startIdentityLab(t, IdentityOptions{FollowInterval: interval})
	identity := l.controlPlane(t, "controlplane", l.signed(t, -2*time.Hour, time.Hour))
	renew := l.renew(t, identity)
	l.offer(t, renew, func(p *authv1beta1.AuthParams) { *p = *identity.Spec.AuthParams.DeepCopy() }) // what it says already
	testkit.Eventually(t, patient, func() error {
		if err := l.c.Client.Get(t.Context(), client.ObjectKeyFromObject(identity), identity); err != nil {
			return err
		}
		if last := parseFollowed(identity.Annotations[names.FollowedOffer]); last.hash == "" || !last.at.IsZero() {
			return fmt.Errorf("it followed %v", last)
		}
		return nil
	})
	var before time.Time
	for n := range 3 {
		next := l.signed(t, time.Duration(n)*time.Second, 2*time.Hour)
		l.offer(t, renew, func(p *authv1beta1.AuthParams) { p.SignedCRT = next })
		at := l.followedAt(t, identity, next)
		if at.Sub(before) < interval {
			t.Errorf("it followed at %s and again at %s", before, at)
		}
		before = at
	}
}

func TestIdentityInvalidUpdate(t *testing.T) {
	l := newIdentityLab(t)
	have := l.signed(t, -time.Hour, time.Hour)
	for name, test := range map[string]struct {
		why  string
		edit func(*authv1beta1.AuthParams)
	}{
		"no-ca":   {"certificate-authority", func(p *authv1beta1.AuthParams) { p.CA = []byte("x") }},
		"no-key":  {"no key pair", func(p *authv1beta1.AuthParams) { p.SignedCRT = certificateFor(t, newKey(t)) }},
		"no-cert": {"no certificate", func(p *authv1beta1.AuthParams) { p.SignedCRT = nil }},
		"no-tls":  {"https", func(p *authv1beta1.AuthParams) { p.APIServer = "http://metadata" }},
	} {
		t.Run(name, func(t *testing.T) {
			identity := l.controlPlane(t, name, have)
			l.offer(t, l.renew(t, identity), func(p *authv1beta1.AuthParams) {
				p.SignedCRT = l.signed(t, 0, 2*time.Hour)
				test.edit(p)
			})
			testkit.WantEvent(t, l.c, identity, reasonRenewRefused, test.why)
			if got := parse(t, l.kubeconfig(t, identity)); !bytes.Equal(got.Certificate, have) {
				t.Errorf("the kubeconfig leads to %s", got.Server)
			}
		})
	}
}

func renewOffer(t *testing.T, l *identityLab, identity *authv1beta1.Identity) []byte {
	t.Helper()
	return l.renew(t, identity).Status.AuthParams.SignedCRT
}

// wantExpiry waits until the metrics say when the certificate of the Identity ends.
func (l *identityLab) wantExpiry(t *testing.T, identity *authv1beta1.Identity, certificate []byte) {
	t.Helper()
	parsed, err := pki.ParseCertificate(certificate)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patient, func() error {
		families, err := metrics.Registry.Gather()
		if err != nil {
			return err
		}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if family.GetName() == "liqo_identity_certificate_expiration_timestamp_seconds" && strings.Contains(m.String(), identity.Namespace) &&
					m.GetGauge().GetValue() == float64(parsed.NotAfter.Unix()) {
					return nil
				}
			}
		}
		return errors.New("no metric says when it ends")
	})
}

func TestIdentityExpired(t *testing.T) {
	l := newIdentityLab(t)
	identity := l.controlPlane(t, "controlplane", l.signed(t, -time.Hour, 3*time.Second))
	l.kubeconfig(t, identity)
	testkit.WantEvent(t, l.c, identity, reasonExpired, "status.authParams of the provider's Tenant")
}

func TestRenewOfOther(t *testing.T) {
	l := newIdentityLab(t)
	renew := &authv1beta1.Renew{ObjectMeta: metav1.ObjectMeta{
		Namespace: l.ns, Name: "controlplane", Labels: map[string]string{names.Replicated: "true"},
	}}
	testkit.Create(t, l.c.Client, renew)
	before := l.signed(t, -time.Hour, time.Hour)
	l.offer(t, renew, func(p *authv1beta1.AuthParams) { p.SignedCRT = l.signed(t, 0, 2*time.Hour) })
	identity := l.controlPlane(t, "controlplane", before)
	testkit.WantEvent(t, l.c, identity, reasonRenewTaken, renew.Name)
	if got := parse(t, l.kubeconfig(t, identity)); !bytes.Equal(got.Certificate, before) {
		t.Error("the Identity took over what is not for it")
	}
	if got := l.renew(t, identity); len(got.OwnerReferences) > 0 {
		t.Errorf("it has the owners %v", got.OwnerReferences)
	}
}
