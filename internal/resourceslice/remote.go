// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"context"
	"errors"
	"fmt"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/certissuer"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/policy"
)

// RemoteOptions configure the grants to consumers.
type RemoteOptions struct {
	// APIServer is where peers find this cluster's API server, host:port or URL; empty is a control-plane node.
	APIServer string
	// CA of the API server, PEM; nil for the CA of our own connection.
	CA []byte
	// TrustedCA is true if peers need no CA, because a public CA signed the API server's certificate.
	TrustedCA bool
	// CertificateDuration is how long a slice's certificate lasts; 0 is a day. Kubernetes allows ten minutes and more.
	CertificateDuration time.Duration
	// Kept is the cache of issued certificates; nil is a separate watch.
	Kept *certissuer.CertificateCache
	// DisableDefaultClass leaves slices of the default class denied.
	DisableDefaultClass bool
	// Defaults of the default class, without storage classes. Its labels take precedence over the labels
	// shared by all nodes.
	Defaults policy.SliceDefaults
	// Storage publishes the storage classes of this cluster. RealStorageClass is the default class; if empty, the
	// cluster's own.
	Storage          bool
	RealStorageClass string
	// Caps bound each tenant.
	Caps policy.SliceCaps
	// LimitsEnforcement of Quotas; empty is None.
	LimitsEnforcement offv1beta1.LimitsEnforcement
	// Now is the time; nil is the clock.
	Now func() time.Time
}

func (o *RemoteOptions) setDefaults() {
	if o.LimitsEnforcement == "" {
		o.LimitsEnforcement = offv1beta1.NoLimitsEnforcement
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// remoteWorkers is how many slices are decided about at once.
const remoteWorkers = 4

// remoteSlices reconciles the replicated ResourceSlices of consumers.
type remoteSlices struct {
	client  client.Client
	issuer  *certissuer.Issuer
	server  certissuer.Server
	notes   *eventRecorder
	grants  grantTotals
	options RemoteOptions
}

// SetupRemote registers the controller of the provider.
func SetupRemote(mgr ctrl.Manager, o RemoteOptions) error {
	o.setDefaults()
	server := certissuer.Server{Address: o.APIServer, CA: o.CA, TrustedCA: o.TrustedCA}
	if err := server.Complete(mgr); err != nil {
		return err
	}
	issuer, err := certissuer.New(mgr, certissuer.Options{Duration: o.CertificateDuration, Now: o.Now, Kept: o.Kept})
	if err != nil {
		return err
	}
	if err := certissuer.SetupOrphans(mgr, "resourceslice_requests", names.CertificateFor, &authv1beta1.ResourceSlice{}); err != nil {
		return err
	}
	r := &remoteSlices{client: mgr.GetClient(), issuer: issuer, server: server, notes: newNotes(), options: o}
	c := kube.NewController[*authv1beta1.ResourceSlice](mgr, kube.Options{Name: "resourceslice_remote", Workers: remoteWorkers, Group: kube.PeerOf(mgr.GetClient())}, r)
	b := c.Builder(predicate.NewPredicateFuncs(peer.IsReplica)).
		Owns(&offv1beta1.Quota{}).
		Watches(&certv1.CertificateSigningRequest{}, certissuer.Watch(names.CertificateFor)).
		WatchesRawSource(issuer.Source(&authv1beta1.ResourceSlice{})).
		Watches(&authv1beta1.Tenant{}, handler.EnqueueRequestsFromMapFunc(r.inNamespaceOf)).
		Watches(&rbacv1.ClusterRoleBinding{}, handler.EnqueueRequestsFromMapFunc(r.requestsForBinding)).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(r.requestsForBinding)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(kube.NamespaceChanged)).
		Watches(&liqov1beta1.ForeignCluster{}, handler.EnqueueRequestsFromMapFunc(r.allRequests), builder.WithPredicates(versionJudged()))
	nodes := predicate.Or(platformChanged(), server.Moved())
	b.Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.allRequests), builder.WithPredicates(nodes))
	if o.Storage {
		b.Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(r.allRequests))
	}
	if o.Caps.Slices > 0 || o.Caps.Bounded() {
		b.Watches(&authv1beta1.ResourceSlice{}, handler.EnqueueRequestsFromMapFunc(r.requestsForDenied), builder.WithPredicates(leavesRoom()))
	}
	return c.Complete(b)
}

// Sync decides one ResourceSlice.
func (r *remoteSlices) Sync(ctx context.Context, slice *authv1beta1.ResourceSlice) error {
	if !peer.IsReplica(slice) {
		return nil
	}
	in, err := r.gatherView(ctx, slice)
	if err != nil {
		return err
	}
	if in.tenantPending(slice) {
		return kube.Wait(0, "the Tenant is not decided yet")
	}
	if reason := in.refusalReason(slice, r.options.Caps); reason != "" {
		r.refuseSlice(slice, reason)
		return r.dropQuota(ctx, slice, in)
	}
	authErr := r.authenticateSlice(ctx, slice, in)
	r.grantResources(slice, in)
	return errors.Join(r.checkBounds(ctx, slice, in), authErr)
}

// Report emits the changes of the ResourceSlice.
func (r *remoteSlices) Report(slice *authv1beta1.ResourceSlice, err error) []kube.Event {
	return append(r.notes.takeEvents(slice, err), r.ReplayEvents(slice)...)
}

// ReplayEvents replays the events of the conditions.
func (r *remoteSlices) ReplayEvents(slice *authv1beta1.ResourceSlice) []kube.Event {
	var events []kube.Event
	for _, c := range slice.Status.Conditions {
		e := kube.Event{Type: corev1.EventTypeNormal, Reason: c.Reason, Message: c.Message}
		if c.Status == authv1beta1.ResourceSliceConditionDenied {
			e.Type = corev1.EventTypeWarning
		}
		events = append(events, e)
	}
	return events
}

// Next is when the slice's certificate is to be renewed.
func (r *remoteSlices) Next(slice *authv1beta1.ResourceSlice) time.Duration {
	at, ok := r.notes.takeNext(slice)
	if !ok {
		return 0
	}
	return max(at.Sub(r.options.Now()), time.Second)
}

// authenticateSlice issues the credentials of the ResourceSlice.
func (r *remoteSlices) authenticateSlice(ctx context.Context, slice *authv1beta1.ResourceSlice, in *sliceView) error {
	if len(slice.Spec.CSR) == 0 {
		// The denial of another request stays: its key may be in use.
		if deniedForTenant(slice, policy.AuthenticationDenied) {
			policy.ClearDecision(&slice.Status, authv1beta1.ResourceSliceConditionTypeAuthentication)
		}
		return kube.Wait(0, "the slice has no certificate request yet")
	}
	deny := func(reason string) {
		policy.AuthenticationDenied(reason).Set(&slice.Status, r.options.Now())
		slice.Status.AuthParams = nil
	}
	if err := r.checkRequest(slice, in); err != nil {
		deny(err.Error())
		return kube.Invalid("InvalidCSR", err)
	}
	if slice.Status.AuthParams == nil {
		taken, err := r.userTaken(ctx, slice, in)
		if err != nil {
			return err
		}
		if taken != nil {
			deny(taken.Error())
			return kube.Invalid("UserTaken", taken)
		}
	}
	params, err := r.server.Params(in.nodes, in.tenant.Spec.ProxyURL)
	if err != nil {
		if slice.Status.AuthParams == nil { // issued credentials stay valid: the request is not at fault
			deny(err.Error())
		}
		return kube.Invalid("AuthParamsFailed", err)
	}
	cert, fresh, err := r.issuer.IssueOrRenew(ctx, certissuer.Request{
		Owner: slice, Mark: names.CertificateFor, Consumer: in.consumer, Secret: names.RemoteCertificate(slice.Name), CSR: slice.Spec.CSR,
		Slow: func(message string) { r.notes.recordWarning(slice, authv1beta1.ReasonCertificateLate, message) },
	})
	if cert == nil {
		if reason, ok := certissuer.IsRefused(err); ok {
			deny(reason)
			return certissuer.Refusal("AuthParamsFailed", err)
		}
		return err
	}
	if fresh && slice.Status.AuthParams != nil {
		r.notes.recordNormal(slice, "CertificateRenewed", "the certificate of the slice was renewed")
	}
	params.SignedCRT = cert.PEM
	slice.Status.AuthParams = params
	policy.AuthenticationAccepted().Set(&slice.Status, r.options.Now())
	if _, ok := certissuer.IsRefused(err); ok {
		// The old certificate is valid until it expires. The deletion of the denied request triggers the next
		// attempt.
		return certissuer.Refusal("AuthParamsFailed", err)
	}
	if err == nil {
		r.notes.comeBack(slice, cert.RenewAt)
	}
	return err
}

// userTaken returns why the user of the ResourceSlice, whose name the consumer chose except for a truncated hash, has permissions of another
// origin. After the first certificate, bindings to the user are intended.
func (r *remoteSlices) userTaken(ctx context.Context, slice *authv1beta1.ResourceSlice, in *sliceView) (taken, err error) {
	bindings, err := peer.Bindings(ctx, r.client)
	if err != nil {
		return nil, err
	}
	for _, b := range bindings {
		if why := b.Check(in.subject.CommonName, in.consumer, slice.Namespace, &slice.CreationTimestamp); why != nil {
			return fmt.Errorf("%w, or rename the slice", why), nil
		}
	}
	return nil, nil
}

// checkRequest compares the key with the Tenant's if the handshake established that key.
func (r *remoteSlices) checkRequest(slice *authv1beta1.ResourceSlice, in *sliceView) error {
	if !policy.ExchangesKeys(in.tenant) {
		return pki.CheckCSR(slice.Spec.CSR, in.subject, nil)
	}
	key, err := pki.ParsePublicKey(in.tenant.Spec.PublicKey)
	if err != nil {
		return fmt.Errorf("reading the public key of the Tenant: %w", err)
	}
	return pki.CheckCSR(slice.Spec.CSR, in.subject, key)
}
