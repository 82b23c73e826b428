// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

// ecdsaKey is one that does not sign alike twice.
func ecdsaKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func tenantWith(t *testing.T, key crypto.Signer) *authv1beta1.Tenant {
	t.Helper()
	tenant, err := newTenant(client.ObjectKey{Namespace: "liqo-tenant-rome", Name: "rome"}, "rome", key, []byte("signature"), "")
	if err != nil {
		t.Fatal(err)
	}
	tenant.Generation = 3
	return tenant
}

func TestTenantProblems(t *testing.T) {
	ready := metav1.Condition{Type: authv1beta1.TenantReady, Status: metav1.ConditionTrue, ObservedGeneration: 3}
	issued := metav1.Condition{Type: authv1beta1.TenantCertificateIssued, Status: metav1.ConditionTrue, ObservedGeneration: 3}
	is := func(c metav1.Condition, generation int64, status metav1.ConditionStatus, reason string) metav1.Condition {
		c.ObservedGeneration, c.Status, c.Reason, c.Message = generation, status, reason, "because"
		return c
	}
	const pending, failed = "pending", "failed"
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		params     bool
		kind, want string
	}{
		"nobody looked":                   {kind: pending, want: "Tenant liqo-tenant-rome/rome has not been processed yet"},
		"an earlier one was refused":      {conditions: []metav1.Condition{is(ready, 2, metav1.ConditionFalse, "NonceUsed")}, kind: pending, want: "has not been processed yet"},
		"it is refused":                   {conditions: []metav1.Condition{is(ready, 3, metav1.ConditionFalse, "NonceUsed")}, kind: failed, want: "the Tenant liqo-tenant-rome/rome is refused: NonceUsed: because"},
		"no certificate was asked for":    {conditions: []metav1.Condition{ready}, kind: pending, want: "was not asked for yet"},
		"the certificate is an older one": {conditions: []metav1.Condition{ready, is(issued, 2, metav1.ConditionTrue, "CertificateIssued")}, params: true, kind: pending, want: "was not asked for yet"},
		"it is being signed":              {conditions: []metav1.Condition{ready, is(issued, 3, metav1.ConditionFalse, "CertificatePending")}, kind: pending, want: "because"},
		"nobody signs it for long":        {conditions: []metav1.Condition{ready, is(issued, 3, metav1.ConditionFalse, "CertificateLate")}, kind: pending, want: "is not served yet: because"},
		"the signer refuses":              {conditions: []metav1.Condition{ready, is(issued, 3, metav1.ConditionFalse, "AuthParamsFailed")}, kind: failed, want: "no certificate was issued for the Tenant liqo-tenant-rome/rome: AuthParamsFailed: because"},
		"it is there":                     {conditions: []metav1.Condition{ready, issued}, params: true},
		"it serves on":                    {conditions: []metav1.Condition{ready, is(issued, 3, metav1.ConditionTrue, "RenewalFailed")}, params: true},
	} {
		tenant := tenantWith(t, ecdsaKey(t))
		tenant.Status.Conditions, tenant.Status.TenantNamespace = test.conditions, "liqo-tenant-rome"
		if test.params {
			tenant.Status.AuthParams = &authv1beta1.AuthParams{}
		}
		err := checkGranted(tenant)
		_, waits := errors.AsType[kube.Pending](err)
		_, fails := errors.AsType[*ui.Failure](err)
		if waits != (test.kind == pending) || fails != (test.kind == failed) || (err != nil) != (test.kind != "") {
			t.Errorf("%s: %v", name, err)
		} else if err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}

// A key need not sign alike twice: what the provider signed a certificate for is not asked for again.
func TestAcceptedTenantUnchanged(t *testing.T) {
	key, other := ecdsaKey(t), ecdsaKey(t)
	got, again := tenantWith(t, key), tenantWith(t, key)
	if bytes.Equal(got.Spec.CSR, again.Spec.CSR) {
		t.Fatal("the key signs alike twice")
	}
	keepRequest(again, got, key.Public())
	if !bytes.Equal(got.Spec.CSR, again.Spec.CSR) {
		t.Error("the request changed")
	}
	replaced := tenantWith(t, other)
	before := replaced.Spec.CSR
	keepRequest(replaced, got, other.Public())
	keepRequest(replaced, nil, other.Public())
	if !bytes.Equal(before, replaced.Spec.CSR) {
		t.Error("the request of another key was kept")
	}

	got.Status.Conditions = []metav1.Condition{{Type: authv1beta1.TenantReady, Status: metav1.ConditionTrue, ObservedGeneration: 3}}
	if !isAccepted(got, key.Public()) || isAccepted(got, other.Public()) || isAccepted(nil, key.Public()) || isAccepted(again, key.Public()) {
		t.Error("who is accepted is not known")
	}
	got.Generation++
	if isAccepted(got, key.Public()) {
		t.Error("a Tenant that changed counts as accepted")
	}
}

func TestIdentityValidation(t *testing.T) {
	key := ecdsaKey(t)
	certificate := signedFor(t, key)
	for want, edit := range map[string]func(*authv1beta1.AuthParams){
		"":               func(*authv1beta1.AuthParams) {},
		"no certificate": func(p *authv1beta1.AuthParams) { p.SignedCRT = nil },
		"the certificate that the provider gave is of no use": func(p *authv1beta1.AuthParams) { p.SignedCRT = signedFor(t, ecdsaKey(t)) },
		"must be an https URL":                                func(p *authv1beta1.AuthParams) { p.APIServer = "http://192.0.2.1" },
		"certificate-authority-data":                          func(p *authv1beta1.AuthParams) { p.CA = []byte("x") },
		"proxy-url is a SOCKS proxy":                          func(p *authv1beta1.AuthParams) { p.ProxyURL = new("socks5://192.0.2.3") },
	} {
		tenant := tenantWith(t, key)
		tenant.Status.TenantNamespace = "liqo-tenant-rome"
		tenant.Status.AuthParams = &authv1beta1.AuthParams{APIServer: "https://192.0.2.1:6443", SignedCRT: certificate}
		edit(tenant.Status.AuthParams)
		err := checkIdentity(newIdentity(client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "controlplane-milan"}, "milan", tenant), key)
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
		if err != nil && strings.Contains(err.Error(), "PRIVATE") {
			t.Error("the private key is told")
		}
	}
}

func signedFor(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "rome"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestKubeconfigOfOldCertificate(t *testing.T) {
	key := ecdsaKey(t)
	private, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	tenant := tenantWith(t, key)
	tenant.Status.AuthParams = &authv1beta1.AuthParams{APIServer: "https://192.0.2.1:6443", SignedCRT: signedFor(t, key)}
	identity := newIdentity(client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "controlplane-milan"}, "milan", tenant)
	encoded, err := pki.Kubeconfig{Server: "https://192.0.2.1:6443", Certificate: tenant.Status.AuthParams.SignedCRT, Key: private, Cluster: "milan", User: "rome"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{Data: map[string][]byte{names.KubeconfigKey: encoded}}
	if !upToDate(secret, identity) {
		t.Error("it is up to date")
	}
	for _, edit := range []func(*authv1beta1.AuthParams){
		func(p *authv1beta1.AuthParams) { p.SignedCRT = signedFor(t, key) },
		func(p *authv1beta1.AuthParams) { p.APIServer = "https://192.0.2.2:6443" },
		func(p *authv1beta1.AuthParams) { p.ProxyURL = new("http://192.0.2.3:3128") },
	} {
		newer := identity.DeepCopy()
		edit(&newer.Spec.AuthParams)
		if upToDate(secret, newer) {
			t.Errorf("it is not up to date: %+v", newer.Spec.AuthParams)
		}
	}
	// A proxy in the tunnel is in the kubeconfig with its present address.
	encoded, err = pki.Kubeconfig{
		Server: "https://192.0.2.1:6443", ProxyURL: "http://10.42.0.9:8118", Certificate: tenant.Status.AuthParams.SignedCRT, Key: private, Cluster: "milan", User: "rome",
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for proxy, want := range map[authv1beta1.TunnelProxy]bool{
		{ConfiguredURL: "http://10.71.0.9:8118", URL: "http://10.42.0.9:8118"}: true,
		{ConfiguredURL: "http://10.71.0.9:8118", URL: "http://10.43.0.9:8118"}: false,
		{ConfiguredURL: "http://10.99.0.9:8118", URL: "http://10.42.0.9:8118"}: false, // of an earlier Identity
	} {
		moved := identity.DeepCopy()
		moved.Spec.AuthParams.ProxyURL, moved.Status.TunnelProxy = new("http://10.71.0.9:8118"), &proxy
		if got := upToDate(&corev1.Secret{Data: map[string][]byte{names.KubeconfigKey: encoded}}, moved); got != want {
			t.Errorf("up to date is %v with %+v, want %v", got, proxy, want)
		}
	}
	if upToDate(&corev1.Secret{}, identity) {
		t.Error("an empty one is not up to date")
	}
}
