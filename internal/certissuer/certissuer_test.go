// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package certissuer

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const patient = time.Minute

// testIssuer is an issuer, and a Tenant that asks for a certificate.
type testIssuer struct {
	c       *testkit.ControlPlane
	issuer  *Issuer
	key     crypto.Signer
	request Request
}

func newTestIssuer(t *testing.T) *testIssuer {
	t.Helper()
	l := &testIssuer{c: testkit.Cluster(t)}
	id := testkit.UniqueID()
	ns := testkit.Namespace(t, l.c, "tenant", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: id})
	var cached client.Reader
	testkit.Manager(t, l.c.Config, kube.ManagerOptions{Name: "test"}, func(mgr ctrl.Manager) (err error) {
		cached = mgr.GetCache()
		for _, obj := range []client.Object{&corev1.Namespace{}, &certv1.CertificateSigningRequest{}} {
			if _, err := mgr.GetCache().GetInformer(t.Context(), obj); err != nil {
				return err
			}
		}
		l.issuer, err = New(mgr, Options{})
		return errors.Join(err, SetupOrphans(mgr, "left", names.TenantCertificateFor, &authv1beta1.Tenant{}))
	})
	testkit.Eventually(t, patient, func() error { return cached.Get(t.Context(), client.ObjectKey{Name: ns}, &corev1.Namespace{}) })
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: id}, Spec: authv1beta1.TenantSpec{ClusterID: liqov1beta1.ClusterID(id)}}
	testkit.Create(t, l.c.Client, tenant)
	var err error
	if l.key, err = pki.NewKey(); err != nil {
		t.Fatal(err)
	}
	csr, err := pki.NewCSR(l.key, pki.Subject{CommonName: id, Organization: names.ControlPlaneGroup})
	if err != nil {
		t.Fatal(err)
	}
	l.request = Request{
		Owner: tenant, Mark: names.TenantCertificateFor, Consumer: tenant.Spec.ClusterID, Secret: names.ControlPlaneCertificate, CSR: csr, Slow: func(string) {},
	}
	return l
}

// asked is how many certificates are asked for.
func (l *testIssuer) asked(t *testing.T) int {
	t.Helper()
	var all certv1.CertificateSigningRequestList
	if err := l.c.Client.List(t.Context(), &all, client.MatchingLabels{names.RemoteClusterID: string(l.request.Consumer)}); err != nil {
		t.Fatal(err)
	}
	return len(all.Items)
}

func TestTerminatingNamespace(t *testing.T) {
	l := newTestIssuer(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.request.Owner.GetNamespace()}}
	if err := l.c.Client.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patient, func() error {
		if err := l.issuer.client.Get(t.Context(), client.ObjectKeyFromObject(ns), ns); err != nil || ns.DeletionTimestamp.IsZero() {
			return errors.Join(err, errors.New("the cache does not know that it goes"))
		}
		return nil
	})
	if cert, _, err := l.issuer.IssueOrRenew(t.Context(), l.request); cert != nil || !kube.IsWait(err) {
		t.Errorf("got %v, %v", cert, err)
	}
	if n := l.asked(t); n > 0 {
		t.Errorf("%d certificates are asked for", n)
	}
}

func TestStoredCertificateUsed(t *testing.T) {
	l := newTestIssuer(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, l.key.Public(), l.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	stored := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.request.Owner.GetNamespace(), Name: l.request.Secret}, // without the label
		Data:       map[string][]byte{requestKey: l.request.CSR, certificateKey: certificate, issuedKey: []byte(time.Now().UTC().Format(time.RFC3339))},
	}
	if err := ctrl.SetControllerReference(l.request.Owner, stored, kube.Scheme); err != nil {
		t.Fatal(err)
	}
	testkit.Create(t, l.c.Client, stored)
	got, fresh, err := l.issuer.IssueOrRenew(t.Context(), l.request)
	if err != nil || fresh || !bytes.Equal(got.PEM, certificate) {
		t.Errorf("got %v, %t, %v", got, fresh, err)
	}
	if n := l.asked(t); n > 0 {
		t.Errorf("%d certificates are asked for", n)
	}
}

// Who asks again and again for something else has no more signed than who waits for the end of each certificate.
func TestIssueRateLimit(t *testing.T) {
	l := newTestIssuer(t)
	now := time.Now()
	l.issuer.now = func() time.Time { return now }
	stored := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.request.Owner.GetNamespace(), Name: l.request.Secret, Labels: map[string]string{names.IssuedCertificate: "true"}},
		Data:       map[string][]byte{requestKey: []byte("another"), certificateKey: nil, issuedKey: []byte(now.UTC().Format(time.RFC3339))},
	}
	if err := ctrl.SetControllerReference(l.request.Owner, stored, kube.Scheme); err != nil {
		t.Fatal(err)
	}
	testkit.Create(t, l.c.Client, stored)
	ask := func(want int) {
		t.Helper()
		testkit.Eventually(t, patient, func() error {
			switch cert, _, err := l.issuer.IssueOrRenew(t.Context(), l.request); {
			case cert != nil, !kube.IsWait(err):
				return fmt.Errorf("got %v, %w", cert, err)
			case want == 0 && kube.Classify(err).After > pki.MinCertificateAge:
				t.Errorf("it waits for %s", kube.Classify(err).After)
			}
			return nil
		})
		if got := l.asked(t); got != want {
			t.Errorf("%d certificates are asked for, not %d", got, want)
		}
	}
	ask(0)
	now = now.Add(pki.MinCertificateAge - time.Second)
	ask(0)
	now = now.Add(time.Second)
	ask(1)
}

// A Tenant may go while its certificate is being signed, and one that is gone may be asked for by who does not know yet.
func TestRequestDeletedWithOwner(t *testing.T) {
	l := newTestIssuer(t)
	wait := func(n int) {
		t.Helper()
		testkit.Eventually(t, patient, func() error {
			if got := l.asked(t); got != n {
				return fmt.Errorf("%d certificates are asked for, not %d", got, n)
			}
			return nil
		})
	}
	ask := func() {
		t.Helper()
		testkit.Eventually(t, patient, func() error { // a late cache may show one that is gone
			if _, _, err := l.issuer.IssueOrRenew(t.Context(), l.request); !kube.IsWait(err) {
				return fmt.Errorf("asking: %w", err)
			}
			return nil
		})
	}
	ask()
	wait(1)
	if err := l.c.Client.Delete(t.Context(), l.request.Owner); err != nil {
		t.Fatal(err)
	}
	wait(0)
	ask()
	wait(0)
}

// Whoever may make requests could wait for ours under its name: what is not exactly ours is taken away, and nobody approves it.
func TestForeignRequest(t *testing.T) {
	l := newTestIssuer(t)
	other, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := pki.NewCSR(other, pki.Subject{CommonName: "somebody", Organization: names.ControlPlaneGroup})
	if err != nil {
		t.Fatal(err)
	}
	for what, edit := range map[string]func(*certv1.CertificateSigningRequestSpec){
		"of another key":    func(s *certv1.CertificateSigningRequestSpec) { s.Request = foreign },
		"to another signer": func(s *certv1.CertificateSigningRequestSpec) { s.SignerName = "example.com/signer" },
		"for longer":        func(s *certv1.CertificateSigningRequestSpec) { *s.ExpirationSeconds *= 10 },
		"for any time":      func(s *certv1.CertificateSigningRequestSpec) { s.ExpirationSeconds = nil },
		"for more than needed": func(s *certv1.CertificateSigningRequestSpec) {
			s.Usages = append(slices.Clone(s.Usages), certv1.UsageServerAuth)
		},
	} {
		t.Run(what, func(t *testing.T) {
			planted := l.issuer.wantRequest(l.request, what)
			edit(&planted.Spec)
			planted.Finalizers = []string{"example.com/seen"} // so that it can be looked at when it is gone
			testkit.Create(t, l.c.Client, planted)
			seen := planted.DeepCopy()
			testkit.Eventually(t, patient, func() error { return l.issuer.client.Get(t.Context(), client.ObjectKeyFromObject(planted), seen) })
			if request, err := l.issuer.requestCertificate(t.Context(), l.request, what); request != nil || !kube.IsWait(err) {
				t.Errorf("it goes on with %v, %v", request, err)
			}
			if err := l.c.Client.Get(t.Context(), client.ObjectKeyFromObject(planted), planted); err != nil {
				t.Fatal(err)
			}
			if planted.DeletionTimestamp.IsZero() || len(planted.Status.Conditions) > 0 {
				t.Errorf("it is going: %t, with %v", !planted.DeletionTimestamp.IsZero(), planted.Status.Conditions)
			}
			testkit.Update(t, l.c.Client, planted, func(p *certv1.CertificateSigningRequest) { p.Finalizers = nil })
			testkit.Eventually(t, patient, func() error { // then ours is made, and approved
				ours, err := l.issuer.requestCertificate(t.Context(), l.request, what)
				if err != nil {
					return err
				}
				if !bytes.Equal(ours.Spec.Request, l.request.CSR) || ours.UID == planted.UID || len(ours.Status.Conditions) != 1 {
					t.Errorf("ours is %+v", ours)
				}
				return nil
			})
		})
	}
}

func TestRequestDifferences(t *testing.T) {
	want := (&Issuer{duration: time.Hour}).wantRequest(Request{Owner: &authv1beta1.Tenant{}, CSR: []byte("request")}, "").Spec
	for name, c := range map[string]struct {
		edit func(*certv1.CertificateSigningRequestSpec)
		want string
	}{
		"same":             {func(*certv1.CertificateSigningRequestSpec) {}, ""},
		"shorter life":     {func(s *certv1.CertificateSigningRequestSpec) { s.ExpirationSeconds = new(int32(600)) }, ""},
		"fewer usages":     {func(s *certv1.CertificateSigningRequestSpec) { s.Usages = []certv1.KeyUsage{certv1.UsageClientAuth} }, ""},
		"other order":      {func(s *certv1.CertificateSigningRequestSpec) { slices.Reverse(s.Usages) }, ""},
		"longer life":      {func(s *certv1.CertificateSigningRequestSpec) { s.ExpirationSeconds = new(int32(7200)) }, "expirationSeconds is 7200, and must be 3600 at most"},
		"any life":         {func(s *certv1.CertificateSigningRequestSpec) { s.ExpirationSeconds = nil }, "expirationSeconds is not set"},
		"other request":    {func(s *certv1.CertificateSigningRequestSpec) { s.Request = []byte("another") }, "spec.request"},
		"other signer":     {func(s *certv1.CertificateSigningRequestSpec) { s.SignerName = "example.com/signer" }, `spec.signerName is "example.com/signer"`},
		"more usages":      {func(s *certv1.CertificateSigningRequestSpec) { s.Usages = append(s.Usages, certv1.UsageServerAuth) }, `"server auth"`},
		"no client usage":  {func(s *certv1.CertificateSigningRequestSpec) { s.Usages = s.Usages[:1] }, "spec.usages"},
		"no usages at all": {func(s *certv1.CertificateSigningRequestSpec) { s.Usages = nil }, "spec.usages"},
	} {
		t.Run(name, func(t *testing.T) {
			have := *want.DeepCopy()
			c.edit(&have)
			got := strings.Join(requestDifferences(&want, &have), "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// admitted is a client whose API server changes each CertificateSigningRequest that is made, as an admission policy does. It counts the writes.
type admitted struct {
	client.Client
	change func(*certv1.CertificateSigningRequestSpec)
	writes int
}

func (a *admitted) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	a.change(&obj.(*certv1.CertificateSigningRequest).Spec)
	return a.counted(a.Client.Create(ctx, obj, opts...))
}

func (a *admitted) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return a.counted(a.Client.Delete(ctx, obj, opts...))
}

func (a *admitted) counted(err error) error {
	if err == nil {
		a.writes++
	}
	return err
}

// An administrator may limit how long certificates last, by a policy for the requests.
func TestShortenedRequest(t *testing.T) {
	l := newTestIssuer(t)
	now := time.Now()
	l.issuer.now = func() time.Time { return now }
	policy := &admitted{Client: l.issuer.client, change: func(s *certv1.CertificateSigningRequestSpec) { s.ExpirationSeconds = new(int32(600)) }}
	l.issuer.client = policy
	var all certv1.CertificateSigningRequestList
	testkit.Eventually(t, patient, func() error { // it is asked for, and approved
		if _, _, err := l.issuer.IssueOrRenew(t.Context(), l.request); !kube.IsWait(err) {
			t.Fatalf("asking: %v", err)
		}
		if err := l.c.Client.List(t.Context(), &all, client.MatchingLabels{names.RemoteClusterID: string(l.request.Consumer)}); err != nil {
			return err
		}
		if len(all.Items) != 1 || len(all.Items[0].Status.Conditions) != 1 {
			return fmt.Errorf("the requests are %+v", all.Items)
		}
		return nil
	})
	if policy.writes != 1 {
		t.Errorf("%d requests were made or removed", policy.writes)
	}
	request := &all.Items[0]
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: now.Add(time.Duration(*request.Spec.ExpirationSeconds) * time.Second)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, l.key.Public(), l.key)
	if err != nil {
		t.Fatal(err)
	}
	request.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := l.c.Client.Status().Update(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patient, func() error {
		cert, _, err := l.issuer.IssueOrRenew(t.Context(), l.request)
		if err != nil {
			return err
		}
		if remaining := cert.RenewAt.Sub(now); remaining > 7*time.Minute || remaining < 6*time.Minute {
			t.Errorf("a certificate for ten minutes is renewed after %s", remaining)
		}
		return nil
	})
}

// An owner whose requests are always changed into what must not be signed is told so, and asks more and more seldom.
func TestChangedRequestsBackOff(t *testing.T) {
	l := newTestIssuer(t)
	now := time.Now()
	l.issuer.now = func() time.Time { return now }
	policy := &admitted{Client: l.issuer.client, change: func(s *certv1.CertificateSigningRequestSpec) { s.ExpirationSeconds = nil }}
	l.issuer.client = policy
	const rounds = 600
	told := ""
	for range rounds { // each a second later
		_, _, err := l.issuer.IssueOrRenew(t.Context(), l.request)
		if reason, refused := IsRefused(err); refused {
			told = reason
			if after := kube.Classify(Refusal("Refused", err)).After; after < time.Second || after > 5*time.Minute {
				t.Fatalf("it is tried again after %s", after)
			}
		} else if !kube.IsWait(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			t.Fatalf("asking: %v", err)
		}
		now = now.Add(time.Second)
	}
	if !strings.Contains(told, "spec.expirationSeconds is not set, and must be 86400 at most") {
		t.Errorf("the owner is told %q", told)
	}
	if policy.writes > 14 { // seven requests, in ten minutes
		t.Errorf("%d requests were made or removed in %d rounds", policy.writes, rounds)
	}
	var all certv1.CertificateSigningRequestList
	if err := l.c.Client.List(t.Context(), &all, client.MatchingLabels{names.RemoteClusterID: string(l.request.Consumer)}); err != nil {
		t.Fatal(err)
	}
	for _, request := range all.Items {
		if len(request.Status.Conditions) > 0 {
			t.Errorf("a changed request is approved: %+v", request)
		}
	}
}

func TestBudget(t *testing.T) {
	var b signingBudget
	now := time.Now()
	for i := range certificatesAtOnce {
		if remaining := b.takeToken("rome", now); remaining != 0 {
			t.Fatalf("after %d certificates it waits for %s", i, remaining)
		}
	}
	if remaining := b.takeToken("rome", now); remaining != certificateInterval {
		t.Errorf("after all of them it waits for %s", remaining)
	}
	if remaining := b.takeToken("milan", now); remaining != 0 {
		t.Errorf("another consumer waits for %s", remaining)
	}
	signed := 0
	for range 3600 { // an hour
		now = now.Add(time.Second)
		if b.takeToken("rome", now) == 0 {
			signed++
		}
	}
	if want := int(time.Hour / certificateInterval); signed != want {
		t.Errorf("%d are signed in an hour, want %d", signed, want)
	}
	now = now.Add(time.Hour)
	b.takeToken("milan", now)
	if len(b.full) != 1 {
		t.Errorf("%d consumers are remembered", len(b.full))
	}
}

// failingClient is a client that creates nothing.
type failingClient struct{ client.Client }

func (failingClient) Create(context.Context, client.Object, ...client.CreateOption) error {
	return apierrors.NewServiceUnavailable("etcd is down")
}

// What could not be asked for is not counted: after an outage the certificates are asked for at once.
func TestFailedRequestsSpendNoBudget(t *testing.T) {
	l := newTestIssuer(t)
	whole := l.issuer.client
	l.issuer.client = failingClient{whole}
	for range 2 * certificatesAtOnce {
		if _, _, err := l.issuer.IssueOrRenew(t.Context(), l.request); !apierrors.IsServiceUnavailable(err) {
			t.Fatalf("it says %v", err)
		}
	}
	l.issuer.client = whole
	l.request.Slow = func(message string) { t.Error(message) }
	if _, _, err := l.issuer.IssueOrRenew(t.Context(), l.request); err != nil && !kube.IsWait(err) {
		t.Error(err)
	}
	if requested := l.asked(t); requested != 1 {
		t.Errorf("%d certificates are asked for", requested)
	}
}

// A consumer that deletes and makes anew what certificates are for is another owner each time, of which nothing is remembered.
func TestIssueRateLimitRecreated(t *testing.T) {
	l := newTestIssuer(t)
	now := time.Now()
	l.issuer.now = func() time.Time { return now }
	count := &admitted{Client: l.issuer.client, change: func(*certv1.CertificateSigningRequestSpec) {}}
	l.issuer.client = count
	told := ""
	l.request.Slow = func(message string) { told = message }
	made := 0
	for range 3 * certificatesAtOnce {
		remade := l.request.Owner.DeepCopyObject().(client.Object)
		remade.SetUID(types.UID(testkit.UniqueID()))
		l.request.Owner = remade
		before := l.asked(t)
		_, _, err := l.issuer.IssueOrRenew(t.Context(), l.request)
		if err != nil && !kube.IsWait(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		if told == "" {
			made++
		} else if after := l.asked(t); after > before {
			t.Error("it says that nothing is signed, and asks")
		}
	}
	if made != certificatesAtOnce || !strings.Contains(told, "more certificates than are signed") {
		t.Errorf("%d are asked for, and then it says %q", made, told)
	}
	now = now.Add(certificateInterval)
	told = ""
	if _, _, err := l.issuer.IssueOrRenew(t.Context(), l.request); err != nil && !kube.IsWait(err) {
		t.Fatal(err)
	}
	if told != "" {
		t.Errorf("after a while it still says %q", told)
	}
}
