// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package info

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/deploy"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/install"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/testkit"
)

// lasting is a certificate between two times.
func lasting(t *testing.T, from, to time.Time) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: to}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func pemOf(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

func TestCertificateOverdue(t *testing.T) {
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	certificate := lasting(t, begin, begin.Add(6*time.Hour))
	for after, want := range map[time.Duration]string{
		time.Hour:                 "",
		5 * time.Hour:             "",
		5*time.Hour + time.Minute: "ends at 2026-11-01T06:00:00Z and was not renewed",
		6 * time.Hour:             "ended at 2026-11-01T06:00:00Z",
	} {
		got := ""
		if err := diagnose.CheckExpiry(certificate, begin.Add(after)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("after %s: %q, want %q", after, got, want)
		}
	}
	short := lasting(t, begin, begin.Add((5+2)*time.Minute)) // backdated by 5 minutes, and renewed 40 s before its end
	if err := diagnose.CheckExpiry(short, short.NotAfter.Add(-39*time.Second)); err != nil {
		t.Errorf("a certificate that was backdated: %v", err)
	}
	if diagnose.CheckExpiry(short, short.NotAfter.Add(-time.Second)) == nil {
		t.Error("a certificate of two minutes is not late a second before its end")
	}
	if !isTrusting(pemOf(certificate), begin) || isTrusting(pemOf(certificate), begin.Add(7*time.Hour)) || isTrusting(nil, begin) {
		t.Error("an authority is trusted that has ended, or one that has not is not")
	}
	older := lasting(t, begin, begin.Add(time.Hour))
	renewed := [][]byte{append(pemOf(older), pemOf(certificate)...)}
	if err := findLateAuthority(renewed, begin.Add(4*time.Hour)); err != nil {
		t.Errorf("a bundle with an old authority beside a new one: %v", err)
	}
	if err := findLateAuthority(renewed, begin.Add(5*time.Hour+time.Minute)); err == nil || err.Error() != "ends at 2026-11-01T06:00:00Z and was not renewed" {
		t.Errorf("a bundle whose newest authority is late: %v", err)
	}
}

func TestHealthCRDs(t *testing.T) {
	c := testkit.Cluster(t)
	crds, err := install.CRDs(deploy.Chart())
	if err != nil {
		t.Fatal(err)
	}
	missing := crds[0].DeepCopy()
	missing.SetName("nothings.core.liqo.io")
	f := &Collector{Reader: c.Client, Namespace: "default"}
	got, err := f.compareCRDs(t.Context(), append(slices.Clone(crds), missing))
	if want := []string{"CRD nothings.core.liqo.io is missing: run liqoctl install to create it"}; err != nil || !slices.Equal(diagnose.Alerts(got), want) {
		t.Errorf("%v: %q", err, got)
	}
	for _, want := range crds {
		existing := &unstructured.Unstructured{}
		existing.SetGroupVersionKind(want.GroupVersionKind())
		if err := c.Client.Get(t.Context(), client.ObjectKey{Name: want.GetName()}, existing); err != nil {
			t.Fatal(err)
		}
		if isOlder(existing, want) {
			t.Errorf("%s is called old", want.GetName())
		}
		newer := want.DeepCopy()
		versions, _, _ := unstructured.NestedSlice(newer.Object, "spec", "versions")
		field := map[string]any{"type": "string"}
		if err := unstructured.SetNestedField(versions[0].(map[string]any), field, "schema", "openAPIV3Schema", "properties", "another"); err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedSlice(newer.Object, versions, "spec", "versions"); err != nil {
			t.Fatal(err)
		}
		if !isOlder(existing, newer) {
			t.Errorf("%s lacks a field, and is not called old", want.GetName())
		}
	}
}

func TestHealthWebhooks(t *testing.T) {
	c := testkit.Cluster(t)
	f := &Collector{Reader: c.Client, Namespace: testkit.Namespace(t, c, "webhook", nil)}
	says := func(when string, want ...string) {
		t.Helper()
		got, err := f.FindWebhooks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %q", when, got)
		}
		for i := range want {
			if !strings.Contains(got[i].Alert(), want[i]) {
				t.Errorf("%s: %q, want %q", when, got[i].Alert(), want[i])
			}
		}
	}
	says("without any", "MutatingWebhookConfiguration liqo-webhook is missing", "ValidatingWebhookConfiguration liqo-webhook is missing")
	reached := admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: f.Namespace, Name: "liqo-webhook"}}
	mutating := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: names.WebhookConfiguration}, Webhooks: []admissionv1.MutatingWebhook{{
		Name: "pod.mutate.liqo.io", ClientConfig: reached, SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
	}}}
	validating := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: mutating.ObjectMeta, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "tenant.validate.liqo.io", ClientConfig: reached, SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
	}}}
	ctltest.Create(t, c, mutating)
	ctltest.Create(t, c, validating)
	says("before the webhook was there", "MutatingWebhookConfiguration liqo-webhook has no valid authority",
		"ValidatingWebhookConfiguration liqo-webhook has no valid authority", "has no ready pod")
	now := time.Now()
	bundle := pemOf(lasting(t, now.Add(-time.Hour), now.Add(time.Hour)))
	testkit.Update(t, c.Client, mutating, func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks[0].ClientConfig.CABundle = bundle })
	testkit.Update(t, c.Client, validating, func(v *admissionv1.ValidatingWebhookConfiguration) { v.Webhooks[0].ClientConfig.CABundle = bundle })
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{
		{Addresses: []string{"10.1.2.3"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}},
	}}
	slice.Namespace, slice.Name, slice.Labels = f.Namespace, "liqo-webhook-x", map[string]string{discoveryv1.LabelServiceName: "liqo-webhook"}
	ctltest.Create(t, c, slice)
	says("with pods that are not ready", "has no ready pod")
	testkit.Update(t, c.Client, slice, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = new(true) })
	says("when all is well")
	testkit.Update(t, c.Client, mutating, func(m *admissionv1.MutatingWebhookConfiguration) { m.Webhooks[0].Name = "tenant.mutate.liqo.io" })
	says("when nothing steers pods", "MutatingAdmissionPolicy liqo-pods is missing", "MutatingAdmissionPolicyBinding liqo-pods is missing")
}

func TestHealthCertificates(t *testing.T) {
	c := testkit.Cluster(t)
	f := &Collector{Reader: c.Client, Namespace: "default"}
	ns, now := testkit.Namespace(t, c, "aging", nil), time.Now()
	id := &authv1beta1.Identity{Spec: authv1beta1.IdentitySpec{ClusterID: "milan", Type: authv1beta1.ControlPlaneIdentityType}}
	id.Namespace, id.Name = ns, "controlplane-milan"
	id.Spec.AuthParams.SignedCRT = pemOf(lasting(t, now.Add(-10*time.Hour), now.Add(time.Hour)))
	ctltest.Create(t, c, id)
	found, err := f.FindCertificates(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(diagnose.Alerts(found), func(s string) bool { return !strings.Contains(s, ns) }) // those of other tests
	want := []string{"the certificate of the Identity " + ns + "/controlplane-milan ends at " + now.Add(time.Hour).UTC().Format(time.RFC3339) +
		" and was not renewed: is the API server of milan reached?"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestHealed(t *testing.T) {
	c := testkit.Cluster(t)
	at := metav1.NewTime(time.Date(2026, 11, 30, 3, 20, 0, 0, time.UTC))
	for name, of := range map[string]struct {
		object corev1.ObjectReference
		reason string
		ago    time.Duration
	}{
		"of-peer":  {corev1.ObjectReference{Kind: "ForeignCluster", Name: "milan"}, peer.ReasonHealed, 0},
		"older":    {corev1.ObjectReference{Kind: "ForeignCluster", Name: "milan"}, peer.ReasonHealed, time.Minute},
		"failure":  {corev1.ObjectReference{Kind: "ForeignCluster", Name: "milan"}, "ConnectionError", 0},
		"of-users": {corev1.ObjectReference{Kind: "Pod", Name: "milan", Namespace: "default"}, peer.ReasonHealed, 0},
	} {
		ctltest.Create(t, c, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "healed-" + name}, InvolvedObject: of.object,
			Reason: of.reason, Message: name, LastTimestamp: metav1.NewTime(at.Add(-of.ago)),
		})
	}
	f := &Collector{Reader: c.Client, Namespace: "default"}
	got, err := f.collectHealed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"milan: older (2026-11-30T03:19:00Z)", "milan: of-peer (2026-11-30T03:20:00Z)"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestHealthNetworks(t *testing.T) {
	c := testkit.Cluster(t)
	f := &Collector{Reader: c.Client, Namespace: testkit.Namespace(t, c, "without-prefix", nil)}
	tenant := testkit.Namespace(t, c, "tenant-without-prefix", nil)
	allocated := func(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}}
	}
	for _, n := range []struct {
		namespace, kind string
		status          ipamv1alpha1.NetworkStatus
	}{
		{f.Namespace, names.NetworkTypePod, ipamv1alpha1.NetworkStatus{CIDR: "10.200.0.0/16", Conditions: allocated(metav1.ConditionTrue, "Allocated", "10.200.0.0/16 is allocated")}},
		{f.Namespace, names.NetworkTypeExternal, ipamv1alpha1.NetworkStatus{Conditions: allocated(metav1.ConditionFalse, "Conflict", "10.70.0.0/16 overlaps 10.70.3.0/24 of Network a/b")}},
		{f.Namespace, names.NetworkTypeService, ipamv1alpha1.NetworkStatus{}},
		{f.Namespace, "", ipamv1alpha1.NetworkStatus{}},                   // somebody's own
		{tenant, names.NetworkTypeInternal, ipamv1alpha1.NetworkStatus{}}, // not of this cluster
	} {
		network := &ipamv1alpha1.Network{Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.70.0.0/16"}}
		network.Namespace, network.Name = n.namespace, "of-a-user"
		if n.kind != "" {
			network.Name, network.Labels = n.kind, map[string]string{names.NetworkType: n.kind}
		}
		ctltest.LendWithStatus(t, c, network, func(have *ipamv1alpha1.Network) { have.Status = n.status })
	}
	got, err := f.FindNetworks(t.Context())
	want := []string{
		"the Network " + f.Namespace + "/external-cidr has no prefix: 10.70.0.0/16 overlaps 10.70.3.0/24 of Network a/b: free the range, or delete the Network and pass another range to liqoctl install",
		"the Network " + f.Namespace + "/service-cidr has no prefix: the controller-manager grants it at once, and its log says why it does not",
	}
	if diff := cmp.Diff(want, diagnose.Alerts(got)); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}
