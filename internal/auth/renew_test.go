// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	certv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/certissuer"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestRenewResult(t *testing.T) {
	given := &authv1beta1.AuthParams{APIServer: "https://provider:6443", SignedCRT: []byte("certificate")}
	type edits struct {
		renew  func(*authv1beta1.Renew)
		tenant func(*authv1beta1.Tenant)
	}
	ready := func(status metav1.ConditionStatus, reason string) func(*authv1beta1.Tenant) {
		return func(tn *authv1beta1.Tenant) { setReady(tn, status, reason, "as it is") }
	}
	for name, test := range map[string]struct {
		edits
		outside bool // no tenant namespace
		none    bool // no Tenant
		others  []authv1beta1.Renew
		reason  string
		want    *authv1beta1.AuthParams
	}{
		"what its Tenant has": {reason: reasonIssued, want: given},
		"that of a cordoned Tenant, too": {reason: reasonIssued, want: given, edits: edits{tenant: func(tn *authv1beta1.Tenant) {
			tn.Spec.TenantCondition = authv1beta1.TenantConditionCordoned
			setReady(tn, metav1.ConditionTrue, reasonCordoned, "")
		}}},
		"the trouble of its Tenant": {reason: reasonRenewal, want: given, edits: edits{tenant: func(tn *authv1beta1.Tenant) { setCertificate(tn, "", "no signer", "") }}},
		"patience": {reason: reasonPending, edits: edits{tenant: func(tn *authv1beta1.Tenant) {
			tn.Status.AuthParams, tn.Status.Conditions = nil, tn.Status.Conditions[:1]
		}}},
		"nothing without a Tenant": {reason: reasonTenantNotFound, none: true},
		"nothing of a drained Tenant": {reason: reasonDrained, edits: edits{tenant: func(tn *authv1beta1.Tenant) {
			tn.Spec.TenantCondition = authv1beta1.TenantConditionDrained
		}}},
		"nothing of one that is refused": {reason: reasonTenantNotReady, edits: edits{tenant: ready(metav1.ConditionFalse, reasonNonceUsed)}},
		"nothing where credentials are declared": {reason: reasonNoHandshake, edits: edits{tenant: func(tn *authv1beta1.Tenant) {
			tn.Spec.AuthzPolicy = new(authv1beta1.TolerateNoHandshake)
		}}},
		"nothing for another consumer": {reason: reasonWrongConsumer, edits: edits{renew: func(r *authv1beta1.Renew) { r.Spec.ConsumerClusterID = "rome" }}},
		"nothing for slices": {reason: reasonUnsupportedType, edits: edits{renew: func(r *authv1beta1.Renew) {
			r.Spec.IdentityType = authv1beta1.ResourceSliceIdentityType
		}}},
		"nothing beside an older one": {reason: reasonOlderRenew, others: []authv1beta1.Renew{replicaOf("old", 1)}},
		"Renew of Tenant beside rejected ones": {reason: reasonIssued, want: given, others: []authv1beta1.Renew{
			replicaOf("young", 3),
			replicaOf("going", 1, func(r *authv1beta1.Renew) { r.DeletionTimestamp = new(metav1.Unix(2, 0)) }),
			replicaOf("of-ours", 1, func(r *authv1beta1.Renew) { r.Labels = nil }),
			replicaOf("of-a-slice", 1, func(r *authv1beta1.Renew) { r.Spec.IdentityType = authv1beta1.ResourceSliceIdentityType }),
			replicaOf("of-another", 1, func(r *authv1beta1.Renew) { r.Spec.ConsumerClusterID = "rome" }),
		}},
		"nothing outside tenant namespaces": {reason: reasonWrongNamespace, outside: true},
	} {
		t.Run(name, func(t *testing.T) {
			renew := new(replicaOf("this", 2))
			renew.Status.AuthParams = &authv1beta1.AuthParams{APIServer: "https://of-before:6443"}
			tenant := typedTenant("here", "milan")
			tenant.Spec.AuthzPolicy, tenant.Status.AuthParams = nil, given.DeepCopy()
			setReady(tenant, metav1.ConditionTrue, reasonReady, "")
			setCertificate(tenant, "", "", "")
			consumer := tenant.Spec.ClusterID
			if test.outside {
				consumer = ""
			}
			if test.renew != nil {
				test.renew(renew)
			}
			if test.tenant != nil {
				test.tenant(tenant)
			}
			if test.none {
				tenant = nil
			}
			answerRenew(renew, consumer, tenant, append(test.others, *renew))
			if diff := cmp.Diff(test.want, renew.Status.AuthParams); diff != "" {
				t.Error(diff)
			}
			status := metav1.ConditionFalse
			if test.want != nil {
				status = metav1.ConditionTrue
			}
			condition := apimeta.FindStatusCondition(renew.Status.Conditions, authv1beta1.RenewCertificateIssued)
			want := &metav1.Condition{Type: authv1beta1.RenewCertificateIssued, Status: status, Reason: test.reason}
			if diff := cmp.Diff(want, condition, cmpopts.IgnoreFields(metav1.Condition{}, "Message", "LastTransitionTime")); diff != "" {
				t.Error(diff)
			}
			if condition.Message == "" {
				t.Error("it does not say why")
			}
		})
	}
}

// replicaOf is a Renew of milan, made at that second.
func replicaOf(name string, second int64, edits ...func(*authv1beta1.Renew)) authv1beta1.Renew {
	out := authv1beta1.Renew{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.Unix(second, 0), Labels: map[string]string{names.Replicated: "true"}},
		Spec:       authv1beta1.RenewSpec{ConsumerClusterID: "milan", IdentityType: authv1beta1.ControlPlaneIdentityType},
	}
	for _, edit := range edits {
		edit(&out)
	}
	return out
}

// clock is as late as the test says.
type clock struct{ late atomic.Int64 }

func (c *clock) now() time.Time       { return time.Now().Add(time.Duration(c.late.Load())) }
func (c *clock) pass(d time.Duration) { c.late.Add(int64(d)) }

// renewOf is the copy of a Renew of the consumer.
func (p *claimant) renewOf() *authv1beta1.Renew {
	return &authv1beta1.Renew{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "controlplane-provider", Labels: map[string]string{
			names.Replicated: "true", names.ReplicationOrigin: p.id, names.RemoteClusterID: p.id,
		}},
		Spec: authv1beta1.RenewSpec{ConsumerClusterID: liqov1beta1.ClusterID(p.id), IdentityType: authv1beta1.ControlPlaneIdentityType},
	}
}

func wantAnswer(t *testing.T, c *testkit.ControlPlane, renew *authv1beta1.Renew, reason string, check func(*authv1beta1.Renew) error) *authv1beta1.Renew {
	t.Helper()
	got := &authv1beta1.Renew{}
	testkit.Eventually(t, patient, func() error {
		*got = authv1beta1.Renew{}
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(renew), got); err != nil {
			return err
		}
		condition := apimeta.FindStatusCondition(got.Status.Conditions, authv1beta1.RenewCertificateIssued)
		if condition == nil || condition.Reason != reason {
			return fmt.Errorf("the condition is %+v, want %s", condition, reason)
		}
		if check == nil {
			return nil
		}
		return check(got)
	})
	return got
}

// another wants a certificate other than before.
func another(before []byte) func(*authv1beta1.Renew) error {
	return func(r *authv1beta1.Renew) error {
		if r.Status.AuthParams == nil || bytes.Equal(r.Status.AuthParams.SignedCRT, before) {
			return errors.New("there is no other certificate")
		}
		return nil
	}
}

func TestRenewFollowsTenant(t *testing.T) {
	c := cluster(t)
	liqo := liqoNamespace(t, c)
	clock := &clock{}
	run(t, c, func(mgr ctrl.Manager) error {
		o := TenantOptions{
			ClusterID: "provider", LiqoNamespace: liqo, Server: certissuer.Server{Address: c.Config.Host}, Certificates: certissuer.Options{Now: clock.now},
		}
		return errors.Join(SetupTenant(mgr, o), SetupRenew(mgr))
	})
	p := newClaimant(t, c)
	renew := p.renewOf()
	testkit.Create(t, c.Client, renew)
	wantAnswer(t, c, renew, reasonTenantNotFound, nil)
	tenant := p.tenant(t)
	testkit.Create(t, c.Client, tenant)
	first := wantAnswer(t, c, renew, reasonIssued, another(nil))
	if len(first.OwnerReferences) != 1 || first.OwnerReferences[0].UID != tenant.UID {
		t.Errorf("its owners are %v", first.OwnerReferences)
	}

	before := first.Status.AuthParams.SignedCRT
	for range 2 {
		clock.pass(5 * 24 * time.Hour)
		touch(t, c, tenant)
		before = wantAnswer(t, c, renew, reasonIssued, another(before)).Status.AuthParams.SignedCRT
	}
	if requests := p.requests(t); len(requests) > 0 {
		t.Errorf("%d requests are left", len(requests))
	}

	next := p.renewOf()
	next.Name = "z" + next.Name
	testkit.Create(t, c.Client, next)
	if got := wantAnswer(t, c, next, reasonOlderRenew, nil); got.Status.AuthParams != nil {
		t.Error("a second Renew is answered")
	}
	if err := c.Client.Delete(t.Context(), renew); err != nil {
		t.Fatal(err)
	}
	renew = next
	wantAnswer(t, c, renew, reasonIssued, another(nil))

	testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantConditionDrained })
	if got := wantAnswer(t, c, renew, reasonDrained, nil); got.Status.AuthParams != nil {
		t.Error("a drained tenant is given credentials")
	}
	testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantConditionActive })
	wantAnswer(t, c, renew, reasonIssued, nil)

	if err := c.Client.Delete(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patient, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(renew), renew); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the copy is still there: %v", err)
		}
		return nil
	})
}

// requests are the requests for certificates of the consumer.
func (p *claimant) requests(t *testing.T) []certv1.CertificateSigningRequest {
	t.Helper()
	var all certv1.CertificateSigningRequestList
	if err := p.c.Client.List(t.Context(), &all, client.MatchingLabels{names.RemoteClusterID: p.id}); err != nil {
		t.Fatal(err)
	}
	return all.Items
}
