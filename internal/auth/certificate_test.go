// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/certissuer"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// wantCertificate waits for the condition, about the Tenant as it is now, and for the credentials that go with it.
func wantCertificate(t *testing.T, c *testkit.ControlPlane, tenant *authv1beta1.Tenant, status metav1.ConditionStatus, reason, why string) *authv1beta1.Tenant {
	t.Helper()
	got := &authv1beta1.Tenant{}
	testkit.Eventually(t, patient, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(tenant), got); err != nil {
			return err
		}
		have := apimeta.FindStatusCondition(got.Status.Conditions, authv1beta1.TenantCertificateIssued)
		if have == nil || have.ObservedGeneration != got.Generation || have.Status != status || have.Reason != reason || !strings.Contains(have.Message, why) {
			return fmt.Errorf("the condition is %+v, want %s %s with %q", have, status, reason, why)
		}
		if given := got.Status.AuthParams != nil; given != (status == metav1.ConditionTrue) {
			return fmt.Errorf("the condition is %+v, and there are credentials: %t", have, given)
		}
		return nil
	})
	return got
}

// touch has the Tenant looked at.
func touch(t *testing.T, c *testkit.ControlPlane, tenant *authv1beta1.Tenant) {
	t.Helper()
	testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) {
		tn.Spec.ProxyURL = new(fmt.Sprintf("http://10.0.0.1:%d", 1000+tn.Generation))
	})
}

// requestFor waits for the request for the certificate of the Tenant.
func requestFor(t *testing.T, c *testkit.ControlPlane, tenant *authv1beta1.Tenant) *certv1.CertificateSigningRequest {
	t.Helper()
	var got *certv1.CertificateSigningRequest
	testkit.Eventually(t, patient, func() error {
		var all certv1.CertificateSigningRequestList
		if err := c.Client.List(t.Context(), &all); err != nil {
			return err
		}
		for i := range all.Items {
			if all.Items[i].Annotations[names.TenantCertificateFor] == client.ObjectKeyFromObject(tenant).String() {
				got = &all.Items[i]
				return nil
			}
		}
		return errors.New("no certificate is asked for")
	})
	return got
}

func deny(t *testing.T, c *testkit.ControlPlane, request *certv1.CertificateSigningRequest) {
	t.Helper()
	request.Status.Conditions = append(request.Status.Conditions, certv1.CertificateSigningRequestCondition{
		Type: certv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: "ByTheTest",
	})
	if err := c.Client.SubResource("approval").Update(t.Context(), request); err != nil {
		t.Fatal(err)
	}
}

func TestGrantBeforeCertificate(t *testing.T) {
	c := cluster(t)
	liqo := liqoNamespace(t, c)
	var unapproved, unreadable atomic.Bool
	var later atomic.Int64
	response := func(r *http.Request) (*http.Response, error) {
		switch {
		case unapproved.Load() && strings.HasSuffix(r.URL.Path, "/approval"):
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			same := testkit.Answer(http.StatusOK, string(body))
			same.Header.Set("Content-Type", r.Header.Get("Content-Type"))
			return same, nil
		case unreadable.Load() && strings.HasSuffix(r.URL.Path, "/secrets/"+names.ControlPlaneCertificate):
			return testkit.Answer(http.StatusInternalServerError, testkit.InternalError), nil
		}
		return nil, nil
	}
	runAnswered(t, c, response, func(mgr ctrl.Manager) error {
		return SetupTenant(mgr, TenantOptions{
			ClusterID: "provider", LiqoNamespace: liqo, Server: certissuer.Server{Address: c.Config.Host},
			Certificates: certissuer.Options{Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }},
		})
	})
	p := newClaimant(t, c)
	tenant := p.tenant(t)
	unapproved.Store(true)
	testkit.Create(t, c.Client, tenant)
	wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
	wantCertificate(t, c, tenant, metav1.ConditionFalse, reasonPending, "")
	wantBound(t, c, p.id, true)
	unapproved.Store(false)
	touch(t, c, tenant)
	given := wantCertificate(t, c, tenant, metav1.ConditionTrue, reasonIssued, "").Status.AuthParams

	t.Run("while it cannot be read", func(t *testing.T) {
		unreadable.Store(true)
		defer unreadable.Store(false)
		touch(t, c, tenant)
		got := wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
		if got.Status.AuthParams == nil || !bytes.Equal(got.Status.AuthParams.SignedCRT, given.SignedCRT) {
			t.Error("the credentials are told no more")
		}
	})
	t.Run("while no other one is signed", func(t *testing.T) {
		unapproved.Store(true)
		later.Store(int64(5 * 24 * time.Hour))
		touch(t, c, tenant)
		request := requestFor(t, c, tenant)
		wantCertificate(t, c, tenant, metav1.ConditionTrue, reasonRenewal, "no signer")
		deny(t, c, request)
		got := wantCertificate(t, c, tenant, metav1.ConditionTrue, reasonRenewal, "refused")
		wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
		if !bytes.Equal(got.Status.AuthParams.SignedCRT, given.SignedCRT) {
			t.Error("the certificate that serves is told no more")
		}
		testkit.WantEvent(t, c, tenant, reasonRenewal, "refused")
		unapproved.Store(false)
		if err := c.Client.Delete(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, patient, func() error {
			got := wantCertificate(t, c, tenant, metav1.ConditionTrue, reasonIssued, "")
			if bytes.Equal(got.Status.AuthParams.SignedCRT, given.SignedCRT) {
				return errors.New("the certificate is the old one")
			}
			return nil
		})
	})
	t.Run("missing signer", func(t *testing.T) {
		unapproved.Store(true)
		kept := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: names.ControlPlaneCertificate}}
		if err := c.Client.Delete(t.Context(), kept); err != nil {
			t.Fatal(err)
		}
		touch(t, c, tenant)
		wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
		request := requestFor(t, c, tenant)
		wantCertificate(t, c, tenant, metav1.ConditionFalse, reasonLate, "no signer of this cluster has signed the request "+request.Name)
		testkit.WantEvent(t, c, tenant, reasonLate, "no signer")
		deny(t, c, request)
		wantCertificate(t, c, tenant, metav1.ConditionFalse, reasonAuthParams, "refused")
		wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
		testkit.WantEvent(t, c, tenant, reasonAuthParams, "refused")
		unapproved.Store(false)
		if err := c.Client.Delete(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		wantCertificate(t, c, tenant, metav1.ConditionTrue, reasonIssued, "")
	})
}

func TestGrantBeforeAddress(t *testing.T) {
	c := cluster(t)
	liqo := liqoNamespace(t, c)
	run(t, c, func(mgr ctrl.Manager) error {
		return SetupTenant(mgr, TenantOptions{ClusterID: "provider", LiqoNamespace: liqo})
	})
	p := newClaimant(t, c)
	tenant := p.tenant(t)
	testkit.Create(t, c.Client, tenant)
	wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
	wantCertificate(t, c, tenant, metav1.ConditionFalse, reasonAuthParams, "control-plane node")
	testkit.WantEvent(t, c, tenant, reasonAuthParams, "control-plane node")

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "of-" + p.id, Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}}
	testkit.Create(t, c.Client, node)
	testkit.UpdateStatus(t, c.Client, node, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.2.3"}}
	})
	given := wantCertificate(t, c, tenant, metav1.ConditionTrue, reasonIssued, "").Status.AuthParams
	if err := c.Client.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	got := wantCertificate(t, c, tenant, metav1.ConditionTrue, reasonRenewal, "control-plane node")
	if got.Status.AuthParams.APIServer != given.APIServer || !bytes.Equal(got.Status.AuthParams.SignedCRT, given.SignedCRT) {
		t.Error("what serves on is told no more")
	}
	wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
}

func TestCertificateRenewed(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, test := range map[string]struct {
		edit func(*authv1beta1.Tenant)
		at   time.Duration // of the renewal, from now
		want time.Duration
	}{
		"later":             {func(*authv1beta1.Tenant) {}, time.Hour, time.Hour},
		"late":              {func(*authv1beta1.Tenant) {}, -time.Hour, time.Second},
		"not while drained": {func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantConditionDrained }, -time.Hour, 0},
		"not without a handshake": {func(tn *authv1beta1.Tenant) {
			tn.Spec.AuthzPolicy = new(authv1beta1.TolerateNoHandshake)
		}, -time.Hour, 0},
		"not while there is none": {func(tn *authv1beta1.Tenant) { tn.Status.AuthParams = nil }, -time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tenants := &tenants{options: TenantOptions{Certificates: certissuer.Options{Now: func() time.Time { return now }}}}
			tenant := typedTenant("here", "milan")
			tenant.UID, tenant.Spec.AuthzPolicy, tenant.Status.AuthParams = "1", nil, &authv1beta1.AuthParams{}
			tenants.renewals.Put(tenant.UID, now.Add(test.at))
			test.edit(tenant)
			if got := tenants.Next(tenant); got != test.want {
				t.Errorf("it is looked at after %s, want %s", got, test.want)
			}
		})
	}
}

func TestAcceptedTenantFromCache(t *testing.T) {
	c := cluster(t)
	liqo := liqoNamespace(t, c)
	var reads atomic.Int64
	response := func(r *http.Request) (*http.Response, error) {
		of := func(name string) bool { return strings.Contains(r.URL.Path, "/secrets/"+name) }
		if r.Method == http.MethodGet && (of("authentication-nonces-") || of(names.ControlPlaneCertificate)) {
			reads.Add(1)
		}
		return nil, nil
	}
	runAnswered(t, c, response, func(mgr ctrl.Manager) error {
		return SetupTenant(mgr, TenantOptions{ClusterID: "provider", LiqoNamespace: liqo, Server: certissuer.Server{Address: c.Config.Host}})
	})
	p := newClaimant(t, c)
	tenant := p.tenant(t)
	testkit.Create(t, c.Client, tenant)
	wantCertificate(t, c, tenant, metav1.ConditionTrue, reasonIssued, "")
	testkit.Eventually(t, patient, func() error {
		before := reads.Load()
		touch(t, c, tenant)
		wantCertificate(t, c, tenant, metav1.ConditionTrue, reasonIssued, "")
		if n := reads.Load() - before; n > 0 { // until the cache has what was written
			return fmt.Errorf("the nonces that served and the certificate were read %d times from the API server", n)
		}
		return nil
	})
}

func TestCertificateRequestedOnce(t *testing.T) {
	c := cluster(t)
	liqo := liqoNamespace(t, c)
	response := func(r *http.Request) (*http.Response, error) { // nothing is ever approved
		if !strings.HasSuffix(r.URL.Path, "/approval") {
			return nil, nil
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		same := testkit.Answer(http.StatusOK, string(body))
		same.Header.Set("Content-Type", r.Header.Get("Content-Type"))
		return same, nil
	}
	runAnswered(t, c, response, func(mgr ctrl.Manager) error {
		return SetupTenant(mgr, TenantOptions{ClusterID: "provider", LiqoNamespace: liqo, Server: certissuer.Server{Address: c.Config.Host}})
	})
	p := newClaimant(t, c)
	tenant := p.tenant(t)
	testkit.Create(t, c.Client, tenant)
	first := requestFor(t, c, tenant)
	p.key = newKey(t)
	p.renonce(t)
	testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { p.claim(t, tn) })
	testkit.Eventually(t, patient, func() error {
		requests := p.requests(t)
		if len(requests) != 1 || requests[0].Name == first.Name {
			return fmt.Errorf("there are %d requests, or only that for the earlier key", len(requests))
		}
		return nil
	})
	if err := c.Client.Delete(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patient, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(tenant), tenant); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Tenant is there: %w", err)
		}
		if remaining := p.requests(t); len(remaining) > 0 {
			return fmt.Errorf("the request for the certificate of a Tenant that is gone is left: %s", remaining[0].Name)
		}
		return nil
	})
}
