// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/certissuer"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

// claimant is a consumer that has a nonce of the provider.
type claimant struct {
	c      *testkit.ControlPlane
	id, ns string
	key    crypto.Signer
	secret *corev1.Secret
	nonce  []byte
}

func newClaimant(t *testing.T, c *testkit.ControlPlane) *claimant {
	t.Helper()
	p := newClaimantWithoutNonce(t, c)
	p.renonce(t)
	return p
}

func newClaimantWithoutNonce(t *testing.T, c *testkit.ControlPlane) *claimant {
	t.Helper()
	p := &claimant{c: c, id: testkit.UniqueID(), key: newKey(t)}
	p.ns = tenantNamespace(t, c, p.id)
	return p
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// renonce has a new nonce made in place of the one that is there.
func (p *claimant) renonce(t *testing.T) {
	t.Helper()
	if p.secret != nil {
		if err := p.c.Client.Delete(t.Context(), p.secret); err != nil {
			t.Fatal(err)
		}
	}
	p.secret = nonceSecret(p.ns, p.id)
	testkit.Create(t, p.c.Client, p.secret)
	p.nonce = filled(t, p.c, p.secret, names.NonceKey)
}

// tenant is what the consumer has its provider apply.
func (p *claimant) tenant(t *testing.T) *authv1beta1.Tenant {
	t.Helper()
	tenant := typedTenant(p.ns, p.id)
	tenant.Spec.AuthzPolicy = nil
	p.claim(t, tenant)
	return tenant
}

func (p *claimant) claim(t *testing.T, tenant *authv1beta1.Tenant) {
	t.Helper()
	signature, err := pki.Handshake{Provider: "provider", Consumer: p.id, Nonce: p.nonce}.Sign(p.key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := pki.EncodePublicKey(p.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	tenant.Spec.Signature, tenant.Spec.PublicKey = signature, public
	tenant.Spec.CSR = p.request(t, p.key, p.id, names.ControlPlaneGroup)
}

func (p *claimant) request(t *testing.T, key crypto.Signer, name, group string) []byte {
	t.Helper()
	csr, err := pki.NewCSR(key, pki.Subject{CommonName: name, Organization: group})
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

func (p *claimant) wantControlPlane(t *testing.T, bound bool) {
	t.Helper()
	testkit.Eventually(t, patient, func() error {
		got := &rbacv1.RoleBinding{}
		err := p.c.Client.Get(t.Context(), client.ObjectKey{Namespace: p.ns, Name: "liqo-binding-liqo-remote-controlplane"}, got)
		if !bound {
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("the binding is still there: %v", err)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if got.RoleRef.Name != names.RoleRemoteControlPlane {
			return fmt.Errorf("it binds %s", got.RoleRef.Name)
		}
		if diff := cmp.Diff([]rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: p.id}}, got.Subjects); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

func TestTenantKeyExchange(t *testing.T) {
	c := cluster(t)
	liqo := liqoNamespace(t, c)
	var later atomic.Int64
	run(t, c, func(mgr ctrl.Manager) error {
		return SetupTenant(mgr, TenantOptions{
			ClusterID: "provider", LiqoNamespace: liqo, Server: certissuer.Server{Address: c.Config.Host},
			Certificates: certissuer.Options{Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }},
		})
	})
	p := newClaimant(t, c)
	tenant := p.tenant(t)
	testkit.Create(t, c.Client, tenant)
	wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
	params := wantCertificate(t, c, tenant, metav1.ConditionTrue, reasonIssued, "").Status.AuthParams
	if params.APIServer != c.Config.Host || !bytes.Equal(params.CA, c.Config.CAData) {
		t.Fatalf("the consumer is told %+v", params)
	}
	if err := pki.CheckCertificate(params.SignedCRT, p.key.Public()); err != nil {
		t.Error(err)
	}
	certificate, err := pki.ParseCertificate(params.SignedCRT)
	if err != nil {
		t.Fatal(err)
	}
	if s := certificate.Subject; s.CommonName != p.id || len(s.Organization) != 1 || s.Organization[0] != names.ControlPlaneGroup {
		t.Errorf("the certificate is for %s", s)
	}
	if life := time.Until(certificate.NotAfter); life < 6*24*time.Hour {
		t.Errorf("the certificate lasts %s, which an outage between the clusters may outlast", life)
	}
	p.wantControlPlane(t, true)
	wantBound(t, c, p.id, true)

	t.Run("needs its nonce no more", func(t *testing.T) {
		if err := c.Client.Delete(t.Context(), p.secret); err != nil {
			t.Fatal(err)
		}
		p.secret = nil
		testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.ProxyURL = new("http://10.0.0.1:8118") })
		wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
		got := wantCertificate(t, c, tenant, metav1.ConditionTrue, reasonIssued, "")
		if proxy := got.Status.AuthParams.ProxyURL; proxy == nil || *proxy != "http://10.0.0.1:8118" {
			t.Error("the proxy is not told")
		}
	})
	t.Run("has its binding put right", func(t *testing.T) {
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "liqo-binding-liqo-remote-controlplane"}}
		testkit.Update(t, c.Client, binding, func(b *rbacv1.RoleBinding) { b.Subjects[0].Name = "somebody-else" })
		p.wantControlPlane(t, true)
	})
	t.Run("loses its rights while drained", func(t *testing.T) {
		testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantConditionDrained })
		wantReady(t, c, tenant, metav1.ConditionFalse, reasonDrained, "")
		p.wantControlPlane(t, false)
		testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantConditionActive })
		wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
		p.wantControlPlane(t, true)
	})
	t.Run("other key needs other nonce", func(t *testing.T) {
		old := p.key
		p.key = newKey(t)
		testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { p.claim(t, tn) })
		refused := wantReady(t, c, tenant, metav1.ConditionFalse, reasonNonceNotFound, names.Nonce)
		if refused.Status.AuthParams != nil {
			t.Error("the credentials are still told")
		}
		p.wantControlPlane(t, false)
		wantBound(t, c, p.id, false)
		later.Store(int64(pki.MinCertificateAge))
		p.renonce(t)
		testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { p.claim(t, tn) })
		got := wantCertificate(t, c, tenant, metav1.ConditionTrue, reasonIssued, "")
		if err := pki.CheckCertificate(got.Status.AuthParams.SignedCRT, p.key.Public()); err != nil {
			t.Error(err)
		}
		back := *p
		back.key = old
		testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { back.claim(t, tn) })
		wantReady(t, c, tenant, metav1.ConditionFalse, reasonNonceUsed, "")
		testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { p.claim(t, tn) })
		wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
	})
	t.Run("deleted Tenant cannot be recreated", func(t *testing.T) {
		if err := c.Client.Delete(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		p.wantControlPlane(t, false)
		wantBound(t, c, p.id, false)
		testkit.Eventually(t, patient, func() error {
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(tenant), &authv1beta1.Tenant{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the Tenant is still there: %v", err)
			}
			return nil
		})
		replay := p.tenant(t)
		testkit.Create(t, c.Client, replay)
		wantReady(t, c, replay, metav1.ConditionFalse, reasonNonceUsed, "")
		p.wantControlPlane(t, false)
		tenant = replay
	})
	t.Run("recreated nonce Secret does not restore Tenant", func(t *testing.T) {
		old := p.nonce
		p.renonce(t)
		testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { p.claim(t, tn) })
		wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
		if err := c.Client.Delete(t.Context(), p.secret); err != nil {
			t.Fatal(err)
		}
		p.secret, p.nonce = nonceSecret(p.ns, p.id), old
		p.secret.Data = map[string][]byte{names.NonceKey: old}
		testkit.Create(t, c.Client, p.secret)
		testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { p.claim(t, tn) })
		wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "") // of its key, which has not changed
		p.key = newKey(t)
		testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { p.claim(t, tn) })
		wantReady(t, c, tenant, metav1.ConditionFalse, reasonNonceUsed, "")
		served := &corev1.Secret{}
		if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: liqo, Name: names.ServedNoncesSecret(p.id)}, served); err != nil {
			t.Fatal(err)
		}
		whole := 0
		for _, by := range served.Data {
			if string(by) != "replaced" {
				whole++
			}
		}
		if len(served.Data) < 3 || whole != 1 {
			t.Errorf("%d of %d nonces have a Tenant and a key", whole, len(served.Data))
		}
	})
}

// A provider with the switch takes signatures of the nonce alone, too, and no others.
func TestTenantLegacySignature(t *testing.T) {
	c := cluster(t)
	liqo := liqoNamespace(t, c)
	run(t, c, func(mgr ctrl.Manager) error {
		return SetupTenant(mgr, TenantOptions{ClusterID: "provider", LiqoNamespace: liqo, LegacyNonces: true, Server: certissuer.Server{Address: c.Config.Host}})
	})
	for name, test := range map[string]struct {
		signed func(p *claimant, otherwise []byte) []byte
		reason string
	}{
		"the nonce alone":       {func(p *claimant, _ []byte) []byte { return ed25519.Sign(p.key.(ed25519.PrivateKey), p.nonce) }, reasonReady},
		"as today":              {func(_ *claimant, today []byte) []byte { return today }, reasonReady},
		"another nonce":         {func(p *claimant, _ []byte) []byte { return ed25519.Sign(p.key.(ed25519.PrivateKey), pki.NewNonce()) }, reasonWrongSignature},
		"the nonce, by another": {func(p *claimant, _ []byte) []byte { return ed25519.Sign(newKey(t).(ed25519.PrivateKey), p.nonce) }, reasonWrongSignature},
	} {
		t.Run(name, func(t *testing.T) {
			p := newClaimant(t, c)
			tenant := p.tenant(t)
			tenant.Spec.Signature = test.signed(p, tenant.Spec.Signature)
			testkit.Create(t, c.Client, tenant)
			status := metav1.ConditionFalse
			if test.reason == reasonReady {
				status = metav1.ConditionTrue
			}
			wantReady(t, c, tenant, status, test.reason, "")
			p.wantControlPlane(t, test.reason == reasonReady)
		})
	}
}

func TestUsedNoncesExpire(t *testing.T) {
	h := &handshake{options: TenantOptions{LiqoNamespace: "liqo"}}
	served := &corev1.Secret{Data: map[string][]byte{}}
	for n := range mostServed {
		served.Data[pki.NonceEntry([]byte{byte(n), byte(n >> 8)})] = []byte("replaced")
	}
	err := h.consumeNonce(t.Context(), served, typedTenant("tenant", "milan"), &corev1.Namespace{}, pki.NewNonce(), "uid key")
	if reason, _ := kube.InvalidReason(err); reason != reasonManyHandshakes {
		t.Errorf("one more is refused with %v", err)
	}
}

func TestTenantHandshakeRejected(t *testing.T) {
	c := cluster(t)
	runTenant(t, c)
	other := newKey(t)
	for name, test := range map[string]struct {
		edit   func(*testing.T, *claimant, *authv1beta1.Tenant)
		reason string
	}{
		"signed by another key": {reason: reasonWrongSignature, edit: func(t *testing.T, p *claimant, tn *authv1beta1.Tenant) {
			signature, err := pki.Handshake{Provider: "provider", Consumer: p.id, Nonce: p.nonce}.Sign(other)
			if err != nil {
				t.Fatal(err)
			}
			tn.Spec.Signature = signature
		}},
		"signed for another provider": {reason: reasonWrongSignature, edit: func(t *testing.T, p *claimant, tn *authv1beta1.Tenant) {
			signature, err := pki.Handshake{Provider: "another", Consumer: p.id, Nonce: p.nonce}.Sign(p.key)
			if err != nil {
				t.Fatal(err)
			}
			tn.Spec.Signature = signature
		}},
		"in the legacy form": {reason: reasonWrongSignature, edit: func(t *testing.T, p *claimant, tn *authv1beta1.Tenant) {
			tn.Spec.Signature = ed25519.Sign(p.key.(ed25519.PrivateKey), p.nonce)
		}},
		"of a stale nonce":   {reason: reasonWrongSignature, edit: func(t *testing.T, p *claimant, _ *authv1beta1.Tenant) { p.renonce(t) }},
		"without public key": {reason: reasonInvalidPublicKey, edit: func(_ *testing.T, _ *claimant, tn *authv1beta1.Tenant) { tn.Spec.PublicKey = nil }},
		"with a request for more": {reason: reasonInvalidCSR, edit: func(t *testing.T, p *claimant, tn *authv1beta1.Tenant) {
			tn.Spec.CSR = p.request(t, p.key, p.id, "system:masters")
		}},
		"with another's request": {reason: reasonInvalidCSR, edit: func(t *testing.T, p *claimant, tn *authv1beta1.Tenant) {
			tn.Spec.CSR = p.request(t, p.key, "another", names.ControlPlaneGroup)
		}},
		"with a request by another": {reason: reasonInvalidCSR, edit: func(t *testing.T, p *claimant, tn *authv1beta1.Tenant) {
			tn.Spec.CSR = p.request(t, other, p.id, names.ControlPlaneGroup)
		}},
		"with a tampered request": {reason: reasonInvalidCSR, edit: func(_ *testing.T, _ *claimant, tn *authv1beta1.Tenant) { tn.Spec.CSR[80] ^= 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			p := newClaimant(t, c)
			tenant := p.tenant(t)
			test.edit(t, p, tenant)
			testkit.Create(t, c.Client, tenant)
			got := wantReady(t, c, tenant, metav1.ConditionFalse, test.reason, "")
			if got.Status.AuthParams != nil {
				t.Error("it has credentials")
			}
			testkit.WantEvent(t, c, tenant, test.reason, "")
			p.wantControlPlane(t, false)
		})
	}
	for _, policy := range []authv1beta1.AuthzPolicy{authv1beta1.KeysExchange, authv1beta1.TolerateNoHandshake} {
		t.Run("cluster ID in other namespace, with "+string(policy), func(t *testing.T) {
			p := newClaimant(t, c)
			first := p.tenant(t)
			testkit.Create(t, c.Client, first)
			wantReady(t, c, first, metav1.ConditionTrue, reasonReady, "")
			second := *p
			second.ns, second.key, second.secret = tenantNamespace(t, c, p.id), newKey(t), nil
			second.renonce(t)
			later := second.tenant(t)
			later.Name, later.Spec.AuthzPolicy = "z"+later.Name, &policy
			nextSecond(t, first)
			testkit.Create(t, c.Client, later)
			wantReady(t, c, later, metav1.ConditionFalse, reasonIDTaken, first.Name)
			second.wantControlPlane(t, false)
			wantReady(t, c, first, metav1.ConditionTrue, reasonReady, "")
		})
	}
}

// nextSecond waits until what is made is younger than obj also by the clock of Kubernetes. Of objects of one second the first by
// namespace counts, and the names of namespaces are random.
func nextSecond(t *testing.T, obj client.Object) {
	t.Helper()
	testkit.Eventually(t, patient, func() error {
		if time.Since(obj.GetCreationTimestamp().Time) < 2*time.Second {
			return errors.New("they would be of the same second")
		}
		return nil
	})
}

func TestTenantPrecedence(t *testing.T) {
	tenant := func(namespace string, second int64, policy *authv1beta1.AuthzPolicy) authv1beta1.Tenant {
		out := *typedTenant(namespace, "milan")
		out.UID, out.Name, out.CreationTimestamp, out.Spec.AuthzPolicy = types.UID(namespace), namespace, metav1.Unix(second, 0), policy
		return out
	}
	exchange, tolerate := new(authv1beta1.KeysExchange), new(authv1beta1.TolerateNoHandshake)
	for name, test := range map[string]struct {
		older, newer *authv1beta1.AuthzPolicy
		refused      bool
	}{
		"both exchange keys":  {exchange, nil, true},
		"the newer one does":  {tolerate, exchange, true},
		"the older one does":  {nil, tolerate, true},
		"neither of them has": {tolerate, tolerate, false},
	} {
		// By the clock, and within one second by the name of the namespace.
		for _, older := range []authv1beta1.Tenant{tenant("b", 1, test.older), tenant("a", 2, test.older)} {
			t.Run(name+", first "+older.Namespace, func(t *testing.T) {
				newer := tenant("az", 2, test.newer)
				in := &tenantInputs{tenants: []authv1beta1.Tenant{newer, older}}
				for _, one := range in.tenants {
					in.namespace.Labels = map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: "milan"}
					reason, refused := kube.InvalidReason(in.refusalReason(&one))
					if want := test.refused && one.Namespace == newer.Namespace; refused != want || refused && reason != reasonIDTaken {
						t.Errorf("%s is refused: %t %s, want %t", one.Namespace, refused, reason, want)
					}
				}
			})
		}
	}
}

// A watch may be late by any time: here it never tells of what is made after it began.
func TestNonceLateCache(t *testing.T) {
	c := cluster(t)
	liqo := liqoNamespace(t, c)
	watched := make(chan string, 100)
	runAnswered(t, c, func(r *http.Request) (*http.Response, error) {
		namespace, ofSecrets := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"), "/secrets")
		if !ofSecrets || !testkit.IsWatch(r) || r.URL.Query().Get("labelSelector") != names.Nonce {
			return nil, nil
		}
		select {
		case watched <- namespace:
		default:
		}
		body, events := io.Pipe()
		go func() {
			fmt.Fprintln(events, `{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"Secret","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
			<-r.Context().Done()
			_ = events.Close()
		}()
		response := testkit.Answer(http.StatusOK, "")
		response.Body = body
		return response, nil
	}, func(mgr ctrl.Manager) error {
		return SetupTenant(mgr, TenantOptions{ClusterID: "provider", LiqoNamespace: liqo, Server: certissuer.Server{Address: c.Config.Host}})
	})
	p := newClaimantWithoutNonce(t, c)
	for namespace := ""; namespace != p.ns; {
		select {
		case namespace = <-watched:
		case <-time.After(patient):
			t.Fatal("the nonces of the namespace are not watched")
		}
	}
	secret := nonceSecret(p.ns, p.id)
	p.nonce = pki.NewNonce()
	secret.Data = map[string][]byte{names.NonceKey: p.nonce}
	testkit.Create(t, c.Client, secret)
	tenant := p.tenant(t)
	testkit.Create(t, c.Client, tenant)
	wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
}
