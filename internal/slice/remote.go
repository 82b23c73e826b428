// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package slice

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/cred"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/slice/want"
)

// RemoteOptions say what this cluster grants to consumers.
type RemoteOptions struct {
	// APIServer is where peers find this cluster's API server, host:port or URL; empty is a control-plane node.
	APIServer string
	// CA of the API server, PEM; nil is the one of our own connection.
	CA []byte
	// TrustedCA says that peers need no CA, because a public one signed the API server's certificate.
	TrustedCA bool
	// CertificateDuration is how long a slice's certificate lasts; 0 is a day. Kubernetes allows ten minutes and more.
	CertificateDuration time.Duration
	// DisableDefaultClass leaves slices of the default class denied.
	DisableDefaultClass bool
	// Defaults of the default class, less storage classes.
	Defaults want.Defaults
	// Storage offers the storage classes of this cluster. RealStorageClass is the default one; if empty, the cluster's.
	Storage          bool
	RealStorageClass string
	// Caps bound each tenant.
	Caps want.Caps
	// LimitsEnforcement of Quotas; empty is None.
	LimitsEnforcement offv1beta1.LimitsEnforcement
	// Workers is the number of slices handled at once; 0 is 1.
	Workers int
	// Now is the time; nil is the clock.
	Now func() time.Time
}

const (
	defaultDuration = 24 * time.Hour
	// minDuration is the shortest that the API server accepts.
	minDuration = 10 * time.Minute
)

func (o *RemoteOptions) complete(mgr ctrl.Manager) error {
	if o.CertificateDuration == 0 {
		o.CertificateDuration = defaultDuration
	}
	o.CertificateDuration = max(o.CertificateDuration, minDuration)
	if o.LimitsEnforcement == "" {
		o.LimitsEnforcement = offv1beta1.NoLimitsEnforcement
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	switch {
	case o.TrustedCA:
		o.CA = nil
	case len(o.CA) == 0:
		ca, err := authorityOf(mgr.GetConfig())
		if err != nil {
			return err
		}
		o.CA = ca
	}
	return nil
}

// remotes decides about the slices that consumers copied here.
type remotes struct {
	client  client.Client
	issuer  *issuer
	notes   *notes
	options RemoteOptions
}

// SetupRemote registers the controller of the provider.
func SetupRemote(mgr ctrl.Manager, o RemoteOptions) error {
	if err := o.complete(mgr); err != nil {
		return err
	}
	direct, err := directClient(mgr)
	if err != nil {
		return err
	}
	notes := newNotes()
	r := &remotes{
		client:  mgr.GetClient(),
		issuer:  &issuer{client: mgr.GetClient(), direct: direct, duration: o.CertificateDuration, now: o.Now, notes: notes},
		notes:   notes,
		options: o,
	}
	c := kube.NewController[*authv1beta1.ResourceSlice](mgr, kube.Options{Name: "resourceslice_remote", Workers: o.Workers}, r)
	b := c.Builder(predicate.NewPredicateFuncs(peer.IsReplica)).
		Owns(&offv1beta1.Quota{}).
		Watches(&certv1.CertificateSigningRequest{}, handler.EnqueueRequestsFromMapFunc(ofRequest)).
		Watches(&authv1beta1.Tenant{}, handler.EnqueueRequestsFromMapFunc(r.inNamespaceOf)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace),
			builder.WithPredicates(predicate.LabelChangedPredicate{}))
	if o.APIServer == "" {
		b.Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(controlPlaneMoved()))
	}
	if o.Storage {
		b.Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(r.all))
	}
	if o.Caps.Slices > 0 || len(o.Caps.Resources) > 0 {
		b.Watches(&authv1beta1.ResourceSlice{}, handler.EnqueueRequestsFromMapFunc(r.inNamespaceOf),
			builder.WithPredicates(predicate.NewPredicateFuncs(peer.IsReplica)))
	}
	return c.Complete(b)
}

// Sync decides about one slice.
func (r *remotes) Sync(ctx context.Context, slice *authv1beta1.ResourceSlice) error {
	if !peer.IsReplica(slice) {
		return nil
	}
	in, err := r.gather(ctx, slice)
	if err != nil {
		return err
	}
	if in.tenantPending(slice) {
		return kube.Wait(0, "the Tenant is not decided yet")
	}
	if why := in.refusal(slice, r.options.Caps); why != "" {
		r.refuse(slice, why)
		return r.dropQuota(ctx, slice, in)
	}
	authErr := r.authenticate(ctx, slice, in)
	r.grant(slice, in)
	return errors.Join(r.bound(ctx, slice, in), authErr)
}

// Report tells what changed about the slice.
func (r *remotes) Report(slice *authv1beta1.ResourceSlice, err error) []kube.Event {
	events := r.notes.takeEvents(slice, err)
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
func (r *remotes) Next(slice *authv1beta1.ResourceSlice) time.Duration {
	at, ok := r.notes.takeNext(slice)
	if !ok {
		return 0
	}
	return max(at.Sub(r.options.Now()), time.Second)
}

// view is all that the decisions about one slice depend on.
type view struct {
	consumer liqov1beta1.ClusterID
	subject  cred.Subject
	tenant   *authv1beta1.Tenant // nil if there is none
	siblings []authv1beta1.ResourceSlice
	nodes    []corev1.Node
	storage  []storagev1.StorageClass
}

func (r *remotes) gather(ctx context.Context, slice *authv1beta1.ResourceSlice) (*view, error) {
	consumer, err := peerOf(ctx, r.client, slice.Namespace)
	if err != nil {
		return nil, err
	}
	in := &view{consumer: consumer, subject: cred.SliceSubject(slice.Name, string(consumer))}
	var tenants authv1beta1.TenantList
	if err := r.client.List(ctx, &tenants, client.InNamespace(slice.Namespace)); err != nil {
		return nil, fmt.Errorf("listing tenants: %w", err)
	}
	for i := range tenants.Items {
		if t := &tenants.Items[i]; t.Spec.ClusterID == consumer && t.DeletionTimestamp.IsZero() {
			in.tenant = t
		}
	}
	var all authv1beta1.ResourceSliceList
	if err := r.client.List(ctx, &all, client.InNamespace(slice.Namespace), client.MatchingLabels{names.Replicated: "true"}); err != nil {
		return nil, fmt.Errorf("listing slices: %w", err)
	}
	in.siblings = all.Items
	if r.options.APIServer == "" {
		var nodes corev1.NodeList
		if err := r.client.List(ctx, &nodes); err != nil {
			return nil, fmt.Errorf("listing nodes: %w", err)
		}
		in.nodes = nodes.Items
	}
	if r.options.Storage {
		var classes storagev1.StorageClassList
		if err := r.client.List(ctx, &classes); err != nil {
			return nil, fmt.Errorf("listing storage classes: %w", err)
		}
		in.storage = classes.Items
	}
	return in, nil
}

// tenantPending tells whether the Tenant, or what its own controller says of it, has still to come. What was decided
// stands meanwhile, unless the Tenant went away.
func (v *view) tenantPending(slice *authv1beta1.ResourceSlice) bool {
	if v.tenant == nil {
		return len(slice.Status.Conditions) == 0
	}
	if v.tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
		return false
	}
	ready := apimeta.FindStatusCondition(v.tenant.Status.Conditions, authv1beta1.TenantReady)
	return ready == nil || ready.ObservedGeneration != v.tenant.Generation
}

// Sentences that say that the Tenant, not the slice, is the reason.
const (
	whyNoTenant = "there is no Tenant for this cluster"
	whyDrained  = "the tenant is drained"
	whyCordoned = "the tenant is cordoned"
	whyNotReady = "the Tenant is not ready: "
)

// refusal tells why the slice may have nothing at all, "" if it may.
func (v *view) refusal(slice *authv1beta1.ResourceSlice, caps want.Caps) string {
	if v.tenant == nil {
		return whyNoTenant
	}
	if v.tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
		return whyDrained
	}
	if ready := apimeta.FindStatusCondition(v.tenant.Status.Conditions, authv1beta1.TenantReady); ready == nil || ready.Status != metav1.ConditionTrue {
		why := whyNotReady
		if ready != nil {
			why += ready.Message
		}
		return why
	}
	if id := slice.Spec.ConsumerClusterID; id != nil && *id != v.consumer {
		return fmt.Sprintf("it is said to be for the consumer %q in the namespace of %q", *id, v.consumer)
	}
	if err := caps.Count(slice, v.siblings); err != nil {
		return err.Error()
	}
	return ""
}

func (r *remotes) refuse(slice *authv1beta1.ResourceSlice, why string) {
	want.AuthenticationDenied(why).Set(&slice.Status, r.options.Now())
	want.ResourcesDenied(why).Set(&slice.Status, r.options.Now())
	slice.Status.AuthParams = nil
	if want.DefaultClass(slice.Spec.Class) {
		want.Revoke(&slice.Status)
	}
}

// authenticate gives the slice its credentials.
func (r *remotes) authenticate(ctx context.Context, slice *authv1beta1.ResourceSlice, in *view) error {
	if len(slice.Spec.CSR) == 0 {
		return kube.Wait(0, "the slice has no certificate request yet")
	}
	deny := func(why string) {
		want.AuthenticationDenied(why).Set(&slice.Status, r.options.Now())
		slice.Status.AuthParams = nil
	}
	if err := r.checkRequest(slice, in); err != nil {
		deny(err.Error())
		return kube.Invalid("InvalidCSR", err)
	}
	url, err := apiServerURL(r.options.APIServer, in.nodes)
	if err != nil {
		deny(err.Error())
		return kube.Invalid("AuthParamsFailed", err)
	}
	cert, fresh, err := r.issuer.certificate(ctx, slice, in.consumer)
	if cert == nil {
		if why, ok := isRefused(err); ok {
			deny(why)
			return kube.Invalid("AuthParamsFailed", err)
		}
		return err
	}
	if fresh && slice.Status.AuthParams != nil {
		r.notes.normal(slice, "CertificateRenewed", "the certificate of the slice was renewed")
	}
	slice.Status.AuthParams = &authv1beta1.AuthParams{CA: r.options.CA, APIServer: url, SignedCRT: cert.certificate}
	if proxy := in.tenant.Spec.ProxyURL; proxy != nil && *proxy != "" {
		slice.Status.AuthParams.ProxyURL = proxy
	}
	want.AuthenticationAccepted().Set(&slice.Status, r.options.Now())
	if _, ok := isRefused(err); ok {
		// The old certificate serves until its end. The watch tells when the refused request is gone.
		return kube.Invalid("AuthParamsFailed", err)
	}
	if err == nil {
		r.notes.comeBack(slice, cert.renewAt)
	}
	return err
}

// checkRequest compares the key with the Tenant's where the handshake made that one known.
func (r *remotes) checkRequest(slice *authv1beta1.ResourceSlice, in *view) error {
	policy := in.tenant.Spec.AuthzPolicy
	if policy != nil && *policy == authv1beta1.TolerateNoHandshake {
		return cred.CheckCSR(slice.Spec.CSR, in.subject, nil)
	}
	key, err := cred.ParsePublicKey(in.tenant.Spec.PublicKey)
	if err != nil {
		return fmt.Errorf("reading the public key of the Tenant: %w", err)
	}
	return cred.CheckCSR(slice.Spec.CSR, in.subject, key)
}

// grant decides about the resources. Slices of other classes are left to whoever defined those.
func (r *remotes) grant(slice *authv1beta1.ResourceSlice, in *view) {
	status, now := &slice.Status, r.options.Now()
	own := want.DefaultClass(slice.Spec.Class)
	switch {
	case in.tenant.Spec.TenantCondition == authv1beta1.TenantConditionCordoned:
		// What was granted stays, nothing new is.
		if !want.Accepted(slice, authv1beta1.ResourceSliceConditionTypeResources) {
			want.ResourcesDenied(whyCordoned).Set(status, now)
		}
	case !own:
		if deniedForTenant(slice) {
			want.Undecide(status, authv1beta1.ResourceSliceConditionTypeResources)
		}
	case r.options.DisableDefaultClass:
		want.Revoke(status)
		want.DefaultClassDisabled().Set(status, now)
	default:
		r.grantDefault(slice, in)
	}
}

func (r *remotes) grantDefault(slice *authv1beta1.ResourceSlice, in *view) {
	status, now := &slice.Status, r.options.Now()
	defaults := r.options.Defaults
	defaults.StorageClasses = storageOffer(in.storage, r.options.RealStorageClass)
	var offer authv1beta1.ResourceSliceStatus
	want.Grant(&slice.Spec, defaults, &offer)
	err := errors.Join(
		want.CheckAmounts(slice.Spec.Resources),
		r.options.Caps.Sum(slice, offer.Resources, in.siblings),
	)
	if err != nil {
		want.Revoke(status)
		want.ResourcesDenied(err.Error()).Set(status, now)
		return
	}
	want.Grant(&slice.Spec, defaults, status)
	want.ResourcesAccepted().Set(status, now)
}

// deniedForTenant tells whether it was us who denied the resources, because of the Tenant alone.
func deniedForTenant(slice *authv1beta1.ResourceSlice) bool {
	for _, c := range slice.Status.Conditions {
		if c.Type != authv1beta1.ResourceSliceConditionTypeResources || c.Reason != want.ReasonResourcesDenied {
			continue
		}
		for _, why := range []string{whyNoTenant, whyDrained, whyCordoned, whyNotReady} {
			if strings.HasPrefix(c.Message, want.ResourcesDenied(why).Message) {
				return true
			}
		}
	}
	return false
}

// bound keeps the Quota of what was granted.
func (r *remotes) bound(ctx context.Context, slice *authv1beta1.ResourceSlice, in *view) error {
	if !want.Accepted(slice, authv1beta1.ResourceSliceConditionTypeResources) {
		return r.dropQuota(ctx, slice, in)
	}
	cordoned := want.Cordoned(slice) || in.tenant.Spec.TenantCondition == authv1beta1.TenantConditionCordoned
	quota := want.Quota(slice, in.subject.CommonName, r.options.LimitsEnforcement, cordoned)
	quota.Labels = map[string]string{names.RemoteClusterID: string(in.consumer), names.ResourceSliceName: slice.Name}
	if _, err := kube.Ensure(ctx, r.client, quota, kube.OwnedBy(slice, r.client.Scheme())); err != nil {
		return fmt.Errorf("bounding the slice: %w", err)
	}
	return nil
}

// dropQuota takes away the Quota, without which nothing new starts.
func (r *remotes) dropQuota(ctx context.Context, slice *authv1beta1.ResourceSlice, in *view) error {
	var quota offv1beta1.Quota
	key := types.NamespacedName{Namespace: slice.Namespace, Name: in.subject.CommonName}
	if err := r.client.Get(ctx, key, &quota); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading the Quota of the slice: %w", err)
	}
	if !metav1.IsControlledBy(&quota, slice) {
		return nil
	}
	if err := r.client.Delete(ctx, &quota, client.Preconditions{UID: &quota.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the Quota of the slice: %w", err)
	}
	return nil
}

// ofRequest wakes the slice that a CertificateSigningRequest is for.
func ofRequest(_ context.Context, obj client.Object) []reconcile.Request {
	if obj.GetLabels()[names.RemoteTenantCSR] != "true" {
		return nil
	}
	namespace, name, ok := strings.Cut(obj.GetAnnotations()[names.CertificateFor], "/")
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}
