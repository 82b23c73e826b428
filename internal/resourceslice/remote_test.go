// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
)

// minDuration is the shortest that the API server accepts.
const minDuration = 10 * time.Minute

const (
	authentication = authv1beta1.ResourceSliceConditionTypeAuthentication
	resources      = authv1beta1.ResourceSliceConditionTypeResources
	accepted       = authv1beta1.ResourceSliceConditionAccepted
	denied         = authv1beta1.ResourceSliceConditionDenied
)

// consumer is a peer that was given access to its tenant namespace.
type consumer struct {
	id        string
	namespace string
	key       crypto.Signer
	client    client.Client
	tenant    *authv1beta1.Tenant
}

// newConsumer makes the namespace and the credentials of a peer, which has the rights of any peer: no status.
func newConsumer(t *testing.T, c *testkit.ControlPlane) *consumer {
	t.Helper()
	id := testkit.UniqueID()
	ns := tenantNamespace(t, c, id)
	testkit.Allow(t, c, ns, id, testkit.Rule("authentication.liqo.io", "resourceslices", "create", "get", "list", "watch", "patch", "update", "delete"))
	user, err := client.New(c.User(t, id, names.ControlPlaneGroup), client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return &consumer{id: id, namespace: ns, key: key, client: user}
}

// admit makes the peer's Tenant, ready as its own controller would.
func (p *consumer) admit(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	p.tenant = &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.id},
		Spec:       authv1beta1.TenantSpec{ClusterID: liqov1beta1.ClusterID(p.id), AuthzPolicy: new(authv1beta1.TolerateNoHandshake)},
	}
	testkit.Create(t, c.Client, p.tenant)
	p.setTenantReady(t, c, metav1.ConditionTrue, "TenantReady")
}

func (p *consumer) setTenantReady(t *testing.T, c *testkit.ControlPlane, status metav1.ConditionStatus, reason string) {
	t.Helper()
	testkit.UpdateStatus(t, c.Client, p.tenant, func(tn *authv1beta1.Tenant) {
		apimeta.SetStatusCondition(&tn.Status.Conditions, metav1.Condition{
			Type: authv1beta1.TenantReady, Status: status, Reason: reason, Message: "said " + reason, ObservedGeneration: tn.Generation,
		})
	})
}

// turn moves the switch of the Tenant.
func (p *consumer) turn(t *testing.T, c *testkit.ControlPlane, to authv1beta1.TenantCondition) {
	t.Helper()
	testkit.Update(t, c.Client, p.tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = to })
	status := metav1.ConditionTrue
	if to == authv1beta1.TenantConditionDrained {
		status = metav1.ConditionFalse
	}
	p.setTenantReady(t, c, status, "Turned"+string(to))
}

// slice is a replica as the peer's replicator writes it.
func (p *consumer) slice(t *testing.T, name string) *authv1beta1.ResourceSlice {
	t.Helper()
	csr, err := pki.NewCSR(p.key, pki.SliceSubject(name, p.id))
	if err != nil {
		t.Fatal(err)
	}
	return &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name, Labels: map[string]string{
			names.Replicated: "true", names.ReplicationOrigin: p.id, names.RemoteClusterID: p.id,
		}},
		Spec: authv1beta1.ResourceSliceSpec{
			ConsumerClusterID: new(liqov1beta1.ClusterID(p.id)),
			Class:             "default",
			Resources:         corev1.ResourceList{"cpu": resource.MustParse("20"), "memory": resource.MustParse("128Gi")},
			CSR:               csr,
		},
	}
}

func (p *consumer) quota(t *testing.T, c *testkit.ControlPlane, slice string) (*offv1beta1.Quota, error) {
	t.Helper()
	quota := &offv1beta1.Quota{}
	key := client.ObjectKey{Namespace: p.namespace, Name: pki.SliceSubject(slice, p.id).CommonName}
	return quota, c.Client.Get(t.Context(), key, quota)
}

func runRemote(t *testing.T, c *testkit.ControlPlane, o RemoteOptions) (stop func()) {
	t.Helper()
	if o.APIServer == "" {
		o.APIServer = c.Config.Host
	}
	return run(t, c, func(mgr ctrl.Manager) error { return SetupRemote(mgr, o) })
}

var (
	isGranted    = both(condition(authentication, accepted, ""), condition(resources, accepted, ""))
	isTurnedDown = func(reason string) func(*authv1beta1.ResourceSlice) error {
		return both(condition(authentication, denied, reason), condition(resources, denied, reason))
	}
)

func TestSliceGranted(t *testing.T) {
	c := cluster(t)
	runRemote(t, c, RemoteOptions{
		Defaults:          policy.SliceDefaults{Resources: corev1.ResourceList{"cpu": resource.MustParse("4"), "pods": resource.MustParse("110")}},
		LimitsEnforcement: offv1beta1.SoftLimitsEnforcement,
	})
	p := newConsumer(t, c)
	slice := p.slice(t, "test")
	testkit.Create(t, p.client, slice)
	p.admit(t, c) // after the slice: any order converges
	got := wait(t, c.Client, slice, isGranted)

	wantGrant := corev1.ResourceList{"cpu": resource.MustParse("20"), "memory": resource.MustParse("128Gi"), "pods": resource.MustParse("110")}
	if diff := cmp.Diff(wantGrant, got.Status.Resources); diff != "" {
		t.Errorf("granted: %s", diff)
	}
	if got.Status.AuthParams.APIServer != c.Config.Host || !bytes.Equal(got.Status.AuthParams.CA, c.Config.CAData) {
		t.Errorf("the API server is told as %q", got.Status.AuthParams.APIServer)
	}
	who := whoIs(t, c, p.key, got.Status.AuthParams.SignedCRT)
	subject := pki.SliceSubject("test", p.id)
	if who.Username != subject.CommonName {
		t.Errorf("the certificate is for user %q, want %q", who.Username, subject.CommonName)
	}
	if diff := cmp.Diff([]string{p.id, "system:authenticated"}, who.Groups); diff != "" {
		t.Errorf("groups: %s", diff)
	}
	testkit.Eventually(t, patient, func() error {
		quota, err := p.quota(t, c, "test")
		if err != nil {
			return err
		}
		if diff := cmp.Diff(offv1beta1.QuotaSpec{User: subject.CommonName, LimitsEnforcement: offv1beta1.SoftLimitsEnforcement, Resources: wantGrant}, quota.Spec); diff != "" {
			return errors.New(diff)
		}
		if !metav1.IsControlledBy(quota, got) {
			return errors.New("the Quota does not go with the slice")
		}
		return nil
	})
	testkit.WantEvent(t, c, slice, policy.ReasonAuthenticationAccepted, "")
	wantNoRequests(t, c, p)

	t.Run("reduced request releases resources", func(t *testing.T) {
		testkit.Update(t, p.client, slice, func(s *authv1beta1.ResourceSlice) { delete(s.Spec.Resources, "memory") })
		wait(t, c.Client, slice, func(s *authv1beta1.ResourceSlice) error {
			if _, ok := s.Status.Resources["memory"]; ok {
				return errors.New("memory is still granted")
			}
			return nil
		})
	})
	t.Run("and its Quota is made again", func(t *testing.T) {
		quota, err := p.quota(t, c, "test")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Client.Delete(t.Context(), quota); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, patient, func() error { _, err := p.quota(t, c, "test"); return err })
	})
	t.Run("and an administrator may cordon it", func(t *testing.T) {
		testkit.Update(t, c.Client, slice, func(s *authv1beta1.ResourceSlice) {
			s.Annotations = map[string]string{names.Cordon: "true"}
		})
		wantCordoned(t, c, p, "test", true)
	})
	t.Run("deletion removes Quota and certificate", func(t *testing.T) {
		if err := p.client.Delete(t.Context(), slice); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, patient, func() error {
			if _, err := p.quota(t, c, "test"); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the Quota is still there: %v", err)
			}
			key := client.ObjectKey{Namespace: p.namespace, Name: names.RemoteCertificate("test")}
			if err := c.Client.Get(t.Context(), key, &corev1.Secret{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the certificate is still there: %v", err)
			}
			return nil
		})
	})
}

// whoIs asks the API server whom it sees behind a certificate.
func whoIs(t *testing.T, c *testkit.ControlPlane, key crypto.Signer, certificate []byte) authenticationv1.UserInfo {
	t.Helper()
	private, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &rest.Config{Host: c.Config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: c.Config.CAData, CertData: certificate, KeyData: private}}
	user, err := client.New(cfg, client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	review := &authenticationv1.SelfSubjectReview{}
	testkit.Create(t, user, review)
	return review.Status.UserInfo
}

// wantNoRequests checks that nothing is left of the way to a certificate.
func wantNoRequests(t *testing.T, c *testkit.ControlPlane, p *consumer) {
	t.Helper()
	testkit.Eventually(t, patient, func() error {
		var list certv1.CertificateSigningRequestList
		if err := c.Client.List(t.Context(), &list, client.MatchingLabels{names.RemoteClusterID: p.id}); err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("%d requests are left", len(list.Items))
		}
		return nil
	})
}

// wantNoQuota expects that the holder of the slice's certificate may nothing any more.
func wantNoQuota(t *testing.T, c *testkit.ControlPlane, p *consumer, slice string) {
	t.Helper()
	testkit.Eventually(t, patient, func() error {
		if _, err := p.quota(t, c, slice); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Quota is still there: %v", err)
		}
		return nil
	})
}

func wantCordoned(t *testing.T, c *testkit.ControlPlane, p *consumer, slice string, cordoned bool) {
	t.Helper()
	testkit.Eventually(t, patient, func() error {
		quota, err := p.quota(t, c, slice)
		if err != nil {
			return err
		}
		if got := quota.Spec.Cordoned != nil && *quota.Spec.Cordoned; got != cordoned {
			return fmt.Errorf("cordoned: %v, want %v", got, cordoned)
		}
		return nil
	})
}

// request signs any certificate request.
func request(t *testing.T, key crypto.Signer, subject pkix.Name, dns ...string) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject, DNSNames: dns}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestMaliciousRequests(t *testing.T) {
	c := cluster(t)
	runRemote(t, c, RemoteOptions{})
	p := newConsumer(t, c)
	p.admit(t, c)
	victim := newConsumer(t, c)
	victim.admit(t, c)
	name := func(slice string) pkix.Name {
		s := pki.SliceSubject(slice, p.id)
		return pkix.Name{CommonName: s.CommonName, Organization: []string{s.Organization}}
	}
	// Here, so that it is known when its slice is made, however late caches are.
	taken := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "of-somebody-else-" + p.id},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: pki.SliceSubject("wanted", p.id).CommonName}},
	}
	testkit.Create(t, c.Client, taken)
	for test, edit := range map[string]struct {
		edit func(*authv1beta1.ResourceSlice)
		why  string
	}{
		"a second organisation": {why: "one organisation", edit: func(s *authv1beta1.ResourceSlice) {
			n := name(s.Name)
			n.Organization = append(n.Organization, "kubeadm:cluster-admins")
			s.Spec.CSR = request(t, p.key, n)
		}},
		"an alternative name": {why: "extensions", edit: func(s *authv1beta1.ResourceSlice) {
			s.Spec.CSR = request(t, p.key, name(s.Name), "kubernetes")
		}},
		"the name of another slice": {why: "common name", edit: func(s *authv1beta1.ResourceSlice) {
			s.Spec.CSR = request(t, p.key, name("other"))
		}},
		"the name of another consumer's slice": {why: "common name", edit: func(s *authv1beta1.ResourceSlice) {
			other := pki.SliceSubject(s.Name, victim.id)
			s.Spec.CSR = request(t, p.key, pkix.Name{CommonName: other.CommonName, Organization: []string{victim.id}})
			// Where the peer may have set it, the spec says the same lie, and still does not decide.
			s.Spec.ConsumerClusterID = nil
		}},
		"no PEM": {why: "PEM", edit: func(s *authv1beta1.ResourceSlice) { s.Spec.CSR = []byte("x") }},
	} {
		t.Run(test, func(t *testing.T) {
			slice := p.slice(t, fmt.Sprintf("evil-%d", time.Now().UnixNano()))
			edit.edit(slice)
			testkit.Create(t, p.client, slice)
			got := wait(t, c.Client, slice, condition(authentication, denied, edit.why))
			if got.Status.AuthParams != nil {
				t.Error("credentials were given")
			}
			testkit.WantEvent(t, c, slice, "InvalidCSR", edit.why)
			wantNoRequests(t, c, p)
		})
	}
	t.Run("user with other permissions gets no certificate", func(t *testing.T) {
		slice := p.slice(t, "wanted")
		testkit.Create(t, p.client, slice)
		got := wait(t, c.Client, slice, condition(authentication, denied, "ClusterRoleBinding "+taken.Name+" already grants permissions"))
		if got.Status.AuthParams != nil {
			t.Error("credentials were given")
		}
		testkit.WantEvent(t, c, slice, "UserTaken", "or rename the slice")
		wantNoRequests(t, c, p)
		testkit.Update(t, c.Client, taken, func(b *rbacv1.ClusterRoleBinding) { b.Labels = map[string]string{names.RemoteClusterID: p.id} })
		wait(t, c.Client, slice, condition(authentication, accepted, ""))
	})
	t.Run("slice with other consumer ID is denied", func(t *testing.T) {
		slice := p.slice(t, "stranger")
		slice.Spec.ConsumerClusterID = new(liqov1beta1.ClusterID(victim.id))
		testkit.Create(t, p.client, slice)
		wait(t, c.Client, slice, isTurnedDown("in the namespace of"))
		if _, err := p.quota(t, c, "stranger"); !apierrors.IsNotFound(err) {
			t.Errorf("reading its Quota: %v", err)
		}
	})
	t.Run("slice with other key is denied", func(t *testing.T) {
		p := newConsumer(t, c)
		p.admit(t, c)
		public, err := pki.EncodePublicKey(p.key.Public())
		if err != nil {
			t.Fatal(err)
		}
		testkit.Update(t, c.Client, p.tenant, func(tn *authv1beta1.Tenant) {
			tn.Spec.AuthzPolicy, tn.Spec.PublicKey = new(authv1beta1.KeysExchange), public
		})
		p.setTenantReady(t, c, metav1.ConditionTrue, "TenantReady")
		own := p.slice(t, "own-key")
		testkit.Create(t, p.client, own)
		wait(t, c.Client, own, isGranted)
		p.key = victim.key
		other := p.slice(t, "other-key")
		testkit.Create(t, p.client, other)
		got := wait(t, c.Client, other, condition(authentication, denied, "another key than the registered one"))
		if got.Status.AuthParams != nil {
			t.Error("credentials were given")
		}
		testkit.WantEvent(t, c, other, "InvalidCSR", "another key")
		wantNoRequests(t, c, p)
	})
	t.Run("invalid slice loses credentials", func(t *testing.T) {
		slice := p.slice(t, "turning")
		testkit.Create(t, p.client, slice)
		wait(t, c.Client, slice, isGranted)
		testkit.Update(t, p.client, slice, func(s *authv1beta1.ResourceSlice) { s.Spec.CSR = request(t, p.key, name("admin")) })
		got := wait(t, c.Client, slice, condition(authentication, denied, "common name"))
		if got.Status.AuthParams != nil {
			t.Error("it still has credentials")
		}
		wantNoQuota(t, c, p, "turning")
		testkit.Update(t, p.client, slice, func(s *authv1beta1.ResourceSlice) { s.Spec.CSR = p.slice(t, "turning").Spec.CSR })
		wait(t, c.Client, slice, isGranted)
		testkit.Eventually(t, patient, func() error { _, err := p.quota(t, c, "turning"); return err })
	})
	t.Run("slice that is no replica is ignored", func(t *testing.T) {
		local, probe := p.slice(t, "local"), p.slice(t, "probe")
		delete(local.Labels, names.Replicated)
		testkit.Create(t, c.Client, local)
		testkit.Create(t, p.client, probe)
		wait(t, c.Client, probe, isGranted)
		wait(t, c.Client, local, condition(authentication, "", ""))
	})
}

func TestSliceUndecided(t *testing.T) {
	for reason, stays := range map[string]bool{whyDrained: false, whyNoTenant: false, whyNotReady + "said so": false, "the common name is another": true} {
		slice := &authv1beta1.ResourceSlice{}
		policy.AuthenticationDenied(reason).Set(&slice.Status, time.Now())
		policy.ResourcesDenied(whyDrained).Set(&slice.Status, time.Now())
		if err := (&remoteSlices{}).authenticateSlice(t.Context(), slice, nil); err == nil {
			t.Errorf("%s: the request is not waited for", reason)
		}
		if policy.IsDenied(slice, authentication) != stays {
			t.Errorf("%s: the conditions are %v", reason, slice.Status.Conditions)
		}
	}
}

func TestTenantSwitch(t *testing.T) {
	c := cluster(t)
	runRemote(t, c, RemoteOptions{})
	p := newConsumer(t, c)
	p.admit(t, c)
	old := p.slice(t, "old")
	testkit.Create(t, p.client, old)
	wait(t, c.Client, old, isGranted)

	p.turn(t, c, authv1beta1.TenantConditionCordoned)
	wantCordoned(t, c, p, "old", true)
	wait(t, c.Client, old, isGranted)
	late := p.slice(t, "late")
	testkit.Create(t, p.client, late)
	wait(t, c.Client, late, both(condition(authentication, accepted, ""), condition(resources, denied, "cordoned")))
	if _, err := p.quota(t, c, "late"); !apierrors.IsNotFound(err) {
		t.Errorf("reading the Quota of a slice that came too late: %v", err)
	}

	p.turn(t, c, authv1beta1.TenantConditionActive)
	wait(t, c.Client, late, isGranted)
	wantCordoned(t, c, p, "old", false)

	early := p.slice(t, "early") // its consumer makes the request for a certificate later
	early.Spec.CSR = nil
	testkit.Create(t, p.client, early)
	isEarly := both(condition(authentication, "", ""), condition(resources, accepted, ""))
	wait(t, c.Client, early, isEarly)

	p.turn(t, c, authv1beta1.TenantConditionDrained)
	got := wait(t, c.Client, old, isTurnedDown("drained"))
	if got.Status.AuthParams != nil || got.Status.Resources != nil {
		t.Errorf("a drained tenant keeps %+v", got.Status)
	}
	wantNoQuota(t, c, p, "old")
	wait(t, c.Client, early, isTurnedDown("drained"))

	p.turn(t, c, authv1beta1.TenantConditionActive)
	wait(t, c.Client, old, isGranted)
	wait(t, c.Client, early, isEarly)
	wantCordoned(t, c, p, "early", false)

	p.setTenantReady(t, c, metav1.ConditionFalse, "HandshakeNotAvailable")
	wait(t, c.Client, old, isTurnedDown("said HandshakeNotAvailable"))
	p.setTenantReady(t, c, metav1.ConditionTrue, "TenantReady")
	wait(t, c.Client, old, isGranted)

	if err := c.Client.Delete(t.Context(), p.tenant); err != nil {
		t.Fatal(err)
	}
	wait(t, c.Client, old, isTurnedDown("no Tenant found"))
}

// seenAs makes or changes what the cluster says of the version of a peer.
func seenAs(t *testing.T, c *testkit.ControlPlane, id string, conditions ...liqov1beta1.Condition) {
	t.Helper()
	fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: liqov1beta1.ClusterID(id)}}
	if err := c.Client.Create(t.Context(), fc); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	testkit.UpdateStatus(t, c.Client, fc, func(fc *liqov1beta1.ForeignCluster) {
		fc.Status.Role = liqov1beta1.UnknownRole
		fc.Status.Modules.Authentication = liqov1beta1.Module{Enabled: true, Conditions: conditions}
	})
}

func tooOld() liqov1beta1.Condition {
	return liqov1beta1.Condition{Type: liqov1beta1.AuthVersionStatus, Status: liqov1beta1.ConditionError, Reason: "PeerTooOld", Message: "it is too old", LastTransitionTime: metav1.Now()}
}

// What was granted to a consumer whose version does not work together with ours stays, and nothing new is granted, until it does.
func TestConsumerVersionMismatch(t *testing.T) {
	c := cluster(t)
	runRemote(t, c, RemoteOptions{})
	p := newConsumer(t, c)
	p.admit(t, c)
	old := p.slice(t, "old")
	testkit.Create(t, p.client, old)
	before := wait(t, c.Client, old, isGranted).DeepCopy()

	seenAs(t, c, p.id, tooOld())
	wantCordoned(t, c, p, "old", true)
	late := p.slice(t, "late")
	testkit.Create(t, p.client, late)
	wait(t, c.Client, late, both(condition(authentication, accepted, ""), condition(resources, denied, "the versions of Liqo are too far apart: it is too old")))
	if _, err := p.quota(t, c, "late"); !apierrors.IsNotFound(err) {
		t.Errorf("reading the Quota of a slice that came too late: %v", err)
	}
	if now := wait(t, c.Client, old, isGranted); !bytes.Equal(now.Status.AuthParams.SignedCRT, before.Status.AuthParams.SignedCRT) {
		t.Error("the credentials of what was granted before are others")
	}

	seenAs(t, c, p.id)
	wait(t, c.Client, late, isGranted)
	wantCordoned(t, c, p, "old", false)
}

func TestCertificateRenewed(t *testing.T) {
	c := cluster(t)
	clock := newClock()
	runRemote(t, c, RemoteOptions{CertificateDuration: minDuration, Now: clock.Now})
	p := newConsumer(t, c)
	p.admit(t, c)
	slice := p.slice(t, "renewed")
	testkit.Create(t, p.client, slice)
	first := wait(t, c.Client, slice, isGranted).Status.AuthParams.SignedCRT
	parsed, err := pki.ParseCertificate(first)
	if err != nil {
		t.Fatal(err)
	}
	if remaining := time.Until(parsed.NotAfter); remaining > minDuration || remaining < minDuration/2 {
		t.Errorf("the certificate lasts %v", remaining)
	}
	touch := func(value string) {
		testkit.Update(t, c.Client, slice, func(s *authv1beta1.ResourceSlice) {
			s.Annotations = map[string]string{"test/touch": value}
		})
	}
	other := func(than []byte) []byte {
		return wait(t, c.Client, slice, func(s *authv1beta1.ResourceSlice) error {
			if s.Status.AuthParams == nil || bytes.Equal(s.Status.AuthParams.SignedCRT, than) {
				return errors.New("it is still the same certificate")
			}
			return nil
		}).Status.AuthParams.SignedCRT
	}

	clock.Advance(7 * time.Minute)
	touch("due")
	second := other(first)
	testkit.WantEvent(t, c, slice, "CertificateRenewed", "")
	if got := secretOf(t, c, p.namespace, names.RemoteCertificate("renewed")).Data["certificate"]; !bytes.Equal(got, second) {
		t.Error("another certificate is kept than the one that was handed out")
	}
	whoIs(t, c, p.key, second)
	wantNoRequests(t, c, p)

	t.Run("other key gets other certificate", func(t *testing.T) {
		clock.Advance(pki.MinCertificateAge)
		if p.key, err = pki.NewKey(); err != nil {
			t.Fatal(err)
		}
		testkit.Update(t, p.client, slice, func(s *authv1beta1.ResourceSlice) { s.Spec.CSR = p.slice(t, "renewed").Spec.CSR })
		whoIs(t, c, p.key, other(second))
	})
}

func TestRestartKeepsCertificate(t *testing.T) {
	c := cluster(t)
	stop := runRemote(t, c, RemoteOptions{})
	p := newConsumer(t, c)
	p.admit(t, c)
	slice, probe := p.slice(t, "kept"), p.slice(t, "probe")
	testkit.Create(t, p.client, slice)
	before := wait(t, c.Client, slice, isGranted)
	testkit.Eventually(t, patient, func() error { _, err := p.quota(t, c, "kept"); return err })
	stop()
	runRemote(t, c, RemoteOptions{})
	testkit.Create(t, p.client, probe)
	wait(t, c.Client, probe, isGranted)
	after := wait(t, c.Client, slice, isGranted)
	if before.ResourceVersion != after.ResourceVersion {
		t.Errorf("the slice was written again: %s", cmp.Diff(before.Status, after.Status))
	}
}

func TestOtherClasses(t *testing.T) {
	c := cluster(t)
	runRemote(t, c, RemoteOptions{})
	p := newConsumer(t, c)
	p.admit(t, c)
	slice := p.slice(t, "special")
	slice.Spec.Class = "gpu"
	testkit.Create(t, p.client, slice)
	wait(t, c.Client, slice, both(condition(authentication, accepted, ""), condition(resources, "", "")))
	testkit.UpdateStatus(t, c.Client, slice, func(s *authv1beta1.ResourceSlice) {
		s.Status.Resources = corev1.ResourceList{"cpu": resource.MustParse("1")}
		s.Status.NodeSelector = map[string]string{"gpu": "true"}
		policy.ResourcesAccepted().Set(&s.Status, time.Now())
	})
	testkit.Eventually(t, patient, func() error {
		quota, err := p.quota(t, c, "special")
		if err != nil {
			return err
		}
		if quota.Spec.Resources.Cpu().Value() != 1 {
			return fmt.Errorf("the Quota is %v", quota.Spec.Resources)
		}
		return nil
	})

	p.turn(t, c, authv1beta1.TenantConditionDrained)
	wait(t, c.Client, slice, isTurnedDown("drained"))
	p.turn(t, c, authv1beta1.TenantConditionActive)
	got := wait(t, c.Client, slice, both(condition(authentication, accepted, ""), condition(resources, "", "")))
	if got.Status.NodeSelector["gpu"] != "true" {
		t.Error("what the class said was lost")
	}
}

func TestDefaultClassDisabled(t *testing.T) {
	c := cluster(t)
	runRemote(t, c, RemoteOptions{DisableDefaultClass: true})
	p := newConsumer(t, c)
	p.admit(t, c)
	slice := p.slice(t, "plain")
	slice.Spec.Class = ""
	testkit.Create(t, p.client, slice)
	got := wait(t, c.Client, slice, both(condition(authentication, accepted, ""), condition(resources, denied, "disabled")))
	for _, condition := range got.Status.Conditions {
		if condition.Type == resources && condition.Reason != policy.ReasonDefaultClassDisabled {
			t.Errorf("the reason is %s", condition.Reason)
		}
	}
}

func TestCaps(t *testing.T) {
	c := cluster(t)
	runRemote(t, c, RemoteOptions{Caps: policy.SliceCaps{Slices: 2}})
	p := newConsumer(t, c)
	p.admit(t, c)
	first, second, third := p.slice(t, "a1"), p.slice(t, "a2"), p.slice(t, "a3")
	testkit.Create(t, p.client, first)
	wait(t, c.Client, first, isGranted)
	testkit.Create(t, p.client, second)
	wait(t, c.Client, second, isGranted)
	testkit.Create(t, p.client, third)
	wait(t, c.Client, third, isTurnedDown("2 slices"))

	if err := p.client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	wait(t, c.Client, third, isGranted)
}
