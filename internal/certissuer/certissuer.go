// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package certissuer issues credentials to peers: client certificates signed by this cluster's signer, and the published
// address of the API server.
//
// A certificate is stored in a Secret to be requested once only, and a pending request is a CertificateSigningRequest:
// no other state exists, and no call blocks.
package certissuer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

const (
	defaultDuration = 24 * time.Hour
	// minDuration is the minimum that the API server accepts.
	minDuration = 10 * time.Minute
)

// Options say how certificates are issued.
type Options struct {
	// Duration is how long a certificate lasts; 0 is a day. Kubernetes allows ten minutes and more.
	Duration time.Duration
	// Now is the time; nil is the clock.
	Now func() time.Time
	// Kept is the cache of issued certificates; nil is a separate watch. Issuers of one process share the cache.
	Kept *CertificateCache
}

// Issuer has certificates signed.
type Issuer struct {
	client   client.Client // reads CertificateSigningRequests from the cache
	direct   client.Client // writes Secrets
	kept     *CertificateCache
	duration time.Duration
	now      func() time.Time
	// spent is the budget of each consumer.
	spent signingBudget
	// changed are the requests, by name, that were deleted because their content was modified.
	changed kube.Backoff[string]
}

// New makes an Issuer.
func New(mgr ctrl.Manager, o Options) (*Issuer, error) {
	direct, err := kube.DirectClient(mgr)
	if err != nil {
		return nil, err
	}
	if o.Duration == 0 {
		o.Duration = defaultDuration
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Kept == nil {
		if o.Kept, err = NewKept(mgr); err != nil {
			return nil, err
		}
	}
	return &Issuer{client: mgr.GetClient(), direct: direct, kept: o.Kept, duration: max(o.Duration, minDuration), now: o.Now}, nil
}

// Request describes a certificate. The caller authorizes the CSR.
type Request struct {
	// Owner is the owner of the certificate; the certificate is deleted with its owner.
	Owner client.Object
	// Mark is the annotation on a CertificateSigningRequest with the name of the Owner, a different one for each kind.
	Mark string
	// Consumer is the peer.
	Consumer liqov1beta1.ClusterID
	// Secret names where the certificate is kept, in the namespace of the Owner.
	Secret string
	// CSR is the request, PEM.
	CSR []byte
	// Slow is called with the reason of a delay: no signer has signed for long, or the request was modified.
	Slow func(message string)
}

// Keys of the Secret of a certificate.
const (
	requestKey     = "csr"
	certificateKey = "certificate"
	issuedKey      = "issued"
)

// patience is the time after which a missing signature is reported.
const patience = time.Minute

var clientUsages = []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageKeyEncipherment, certv1.UsageClientAuth}

// Certificate can be handed out.
type Certificate struct {
	// PEM is the certificate.
	PEM []byte
	// RenewAt is when to ask again.
	RenewAt  time.Time
	serial   string
	notAfter time.Time
}

// refusedRequest is the error of a request that the signer, or an administrator, denied, and the delay until the next attempt; 0 waits
// for a watch.
type refusedRequest struct {
	why   string
	again time.Duration
}

func (r *refusedRequest) Error() string { return r.why }

// IssueOrRenew returns the certificate for the request, renewed when due, or nil. fresh reports whether the certificate was issued
// just now. The error is Wait while a request is pending, even for the renewal of a still valid certificate.
func (i *Issuer) IssueOrRenew(ctx context.Context, r Request) (cert *Certificate, fresh bool, err error) {
	stored, issued, err := i.readStored(ctx, r)
	if err != nil {
		return nil, false, err
	}
	if stored != nil && i.now().Before(stored.RenewAt) {
		return stored, false, nil
	}
	if age := i.now().Sub(issued); age >= 0 && age < pki.MinCertificateAge { // a time in the future is of another clock
		return nil, false, kube.Wait(pki.MinCertificateAge-age, "the certificate for an earlier request was issued just now")
	}
	previous := ""
	if stored != nil {
		previous = stored.serial
		if !i.now().Before(stored.notAfter) {
			stored = nil
		}
	}
	request, err := i.requestCertificate(ctx, r, previous)
	if err != nil {
		return stored, false, err
	}
	renewed, err := i.takeCertificate(ctx, r, request)
	if err != nil {
		return stored, false, err
	}
	return renewed, true, nil
}

// readStored returns the certificate stored for this very request, or nil, and the time of the last issuance to the owner.
func (i *Issuer) readStored(ctx context.Context, r Request) (cert *Certificate, issued time.Time, err error) {
	var secret corev1.Secret
	key := types.NamespacedName{Namespace: r.Owner.GetNamespace(), Name: r.Secret}
	if err := i.kept.readSecret(ctx, key, &secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, issued, nil
		}
		return nil, issued, fmt.Errorf("reading the certificate: %w", err)
	}
	at, err := time.Parse(time.RFC3339, string(secret.Data[issuedKey]))
	if err != nil || !metav1.IsControlledBy(&secret, r.Owner) {
		return nil, issued, nil
	}
	if !bytes.Equal(secret.Data[requestKey], r.CSR) {
		return nil, at, nil
	}
	if cert, err = readIssued(secret.Data[certificateKey], r.CSR, at); err != nil {
		// A certificate for another request is ignored.
		return nil, issued, nil
	}
	return cert, at, nil
}

func readIssued(certificate, request []byte, at time.Time) (*Certificate, error) {
	key, err := pki.CSRKey(request)
	if err != nil {
		return nil, err
	}
	if err := pki.CheckCertificate(certificate, key); err != nil {
		return nil, err
	}
	parsed, err := pki.ParseCertificate(certificate)
	if err != nil {
		return nil, err
	}
	return &Certificate{
		PEM:      certificate,
		RenewAt:  pki.RenewAt(at, parsed.NotAfter),
		serial:   parsed.SerialNumber.Text(16),
		notAfter: parsed.NotAfter,
	}, nil
}

// requestCertificate returns the approved request for the certificate after the previous one.
func (i *Issuer) requestCertificate(ctx context.Context, r Request, previous string) (*certv1.CertificateSigningRequest, error) {
	want := i.wantRequest(r, previous)
	current := &certv1.CertificateSigningRequest{}
	err := i.client.Get(ctx, client.ObjectKeyFromObject(want), current)
	var differences []string
	if err == nil {
		differences = requestDifferences(&want.Spec, &current.Spec)
	}
	switch {
	case apierrors.IsNotFound(err):
		if err := i.checkNamespace(ctx, r.Owner.GetNamespace()); err != nil {
			return nil, err
		}
		if err := i.dropOthers(ctx, r, want.Name); err != nil {
			return nil, err
		}
		if remaining := i.spent.takeToken(r.Consumer, i.now()); remaining > 0 {
			reason := fmt.Sprintf("the consumer %s asks for more certificates than are signed: %d at once, and then one each %s", r.Consumer, certificatesAtOnce, certificateInterval)
			r.Slow(reason)
			return nil, kube.Wait(remaining, reason)
		}
		request := want.DeepCopy()
		if err := i.client.Create(ctx, request); err != nil {
			i.spent.returnToken(r.Consumer)
			return nil, fmt.Errorf("asking for the certificate: %w", err)
		}
		// An admission policy may have modified it: only the stored object counts.
		if differences := requestDifferences(&want.Spec, &request.Spec); len(differences) > 0 {
			return nil, i.changedRequest(ctx, r, request, true, differences)
		}
		current = request
	case err != nil:
		return nil, fmt.Errorf("reading the request for the certificate: %w", err)
	case len(differences) > 0:
		return nil, i.changedRequest(ctx, r, current, false, differences)
	}
	return i.awaitApproval(ctx, current)
}

// checkNamespace returns Wait in a namespace being deleted: the certificate is deleted before its owner, and the request for another
// would be orphaned.
func (i *Issuer) checkNamespace(ctx context.Context, namespace string) error {
	var ns corev1.Namespace
	if err := i.client.Get(ctx, types.NamespacedName{Name: namespace}, &ns); err != nil {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	if !ns.DeletionTimestamp.IsZero() {
		return kube.BeingDeleted("Namespace", namespace)
	}
	return nil
}

// dropOthers deletes earlier requests: for another key, or for a superseded certificate. An owner has one request at a time.
func (i *Issuer) dropOthers(ctx context.Context, r Request, but string) error {
	var all certv1.CertificateSigningRequestList
	ownLabels := client.MatchingLabels{names.RemoteTenantCSR: "true", names.RemoteClusterID: string(r.Consumer)}
	if err := i.client.List(ctx, &all, ownLabels); err != nil {
		return fmt.Errorf("listing requests for certificates: %w", err)
	}
	for n := range all.Items {
		old := &all.Items[n]
		if old.Name == but || old.Annotations[r.Mark] != client.ObjectKeyFromObject(r.Owner).String() {
			continue
		}
		if err := kube.DeleteObject(ctx, i.client, old, "removing an earlier request for the certificate"); err != nil {
			return err
		}
	}
	return nil
}

func (i *Issuer) wantRequest(r Request, previous string) *certv1.CertificateSigningRequest {
	// The name is unique for each certificate ever issued: a retry is idempotent, because it finds the first request.
	hash := sha256.New()
	for _, part := range []string{string(r.Owner.GetUID()), string(r.CSR), previous} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return &certv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "liqo-identity-" + hex.EncodeToString(hash.Sum(nil)[:16]),
			Labels:      map[string]string{names.RemoteTenantCSR: "true", names.RemoteClusterID: string(r.Consumer)},
			Annotations: map[string]string{r.Mark: client.ObjectKeyFromObject(r.Owner).String()},
		},
		Spec: certv1.CertificateSigningRequestSpec{
			Request:           r.CSR,
			SignerName:        certv1.KubeAPIServerClientSignerName,
			ExpirationSeconds: new(int32(i.duration.Seconds())),
			Usages:            clientUsages,
		},
	}
}

// requestDifferences returns the fields in which a stored request asks for more than the wanted request, or for something else. A shorter
// duration and fewer usages are permitted: an administrator may limit both, and renewal follows the actual expiry.
func requestDifferences(want, current *certv1.CertificateSigningRequestSpec) []string {
	var out []string
	if !bytes.Equal(want.Request, current.Request) {
		out = append(out, "spec.request is another one")
	}
	if want.SignerName != current.SignerName {
		out = append(out, fmt.Sprintf("spec.signerName is %q, not %q", current.SignerName, want.SignerName))
	}
	switch {
	case want.ExpirationSeconds == nil:
	case current.ExpirationSeconds == nil:
		out = append(out, fmt.Sprintf("spec.expirationSeconds is not set, and must be %d at most", *want.ExpirationSeconds))
	case *current.ExpirationSeconds > *want.ExpirationSeconds:
		out = append(out, fmt.Sprintf("spec.expirationSeconds is %d, and must be %d at most", *current.ExpirationSeconds, *want.ExpirationSeconds))
	}
	more := slices.ContainsFunc(current.Usages, func(u certv1.KeyUsage) bool { return !slices.Contains(want.Usages, u) })
	if more || !slices.Contains(current.Usages, certv1.UsageClientAuth) {
		out = append(out, fmt.Sprintf("spec.usages are %q, not %q", current.Usages, want.Usages))
	}
	return out
}

// changedRequest deletes a request under our name with modified content: its approval would sign for another user, or for more than was
// authorized. If an admission policy modifies each request, deletions repeat with backoff, and the owner is rejected meanwhile.
// requested reports whether the request was created in this call.
func (i *Issuer) changedRequest(ctx context.Context, r Request, current *certv1.CertificateSigningRequest, requested bool, differences []string) error {
	reason := fmt.Sprintf("the request %s was changed by an admission policy, or made by another user, and is not approved: %s", current.Name, strings.Join(differences, "; "))
	remaining := i.changed.Left(current.Name, i.now())
	if requested || remaining > 0 {
		return &refusedRequest{why: reason, again: max(remaining, time.Second)}
	}
	r.Slow(reason)
	if err := kube.DeleteObject(ctx, i.client, current, "removing a request that is not ours"); err != nil {
		return err
	}
	return kube.Wait(i.changed.Next(current.Name, i.now()), reason)
}

func (i *Issuer) awaitApproval(ctx context.Context, request *certv1.CertificateSigningRequest) (*certv1.CertificateSigningRequest, error) {
	for _, c := range request.Status.Conditions {
		switch c.Type {
		case certv1.CertificateDenied, certv1.CertificateFailed:
			return nil, &refusedRequest{why: fmt.Sprintf("the signer refused the certificate: %s %s", c.Reason, c.Message)}
		case certv1.CertificateApproved:
			return request, nil
		}
	}
	request = request.DeepCopy()
	request.Status.Conditions = append(request.Status.Conditions, certv1.CertificateSigningRequestCondition{
		Type:    certv1.CertificateApproved,
		Status:  corev1.ConditionTrue,
		Reason:  "IdentityManagerApproval",
		Message: "the request was checked",
	})
	if err := i.client.SubResource("approval").Update(ctx, request); err != nil {
		return nil, fmt.Errorf("approving the certificate: %w", err)
	}
	return request, nil
}

// takeCertificate stores the certificate once it is issued, and deletes the request.
func (i *Issuer) takeCertificate(ctx context.Context, r Request, request *certv1.CertificateSigningRequest) (*Certificate, error) {
	now := i.now()
	if len(request.Status.Certificate) == 0 {
		if now.Sub(request.CreationTimestamp.Time) > patience {
			r.Slow(fmt.Sprintf("no signer of this cluster has signed the request %s yet", request.Name))
		}
		return nil, kube.Wait(patience, "the certificate is being signed")
	}
	out, err := readIssued(request.Status.Certificate, r.CSR, now)
	if err != nil {
		return nil, fmt.Errorf("reading the signed certificate: %w", err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Owner.GetNamespace(),
			Name:      r.Secret,
			Labels:    map[string]string{names.RemoteClusterID: string(r.Consumer), names.IssuedCertificate: "true"},
		},
		Data: map[string][]byte{
			requestKey:     r.CSR,
			certificateKey: out.PEM,
			issuedKey:      []byte(now.UTC().Format(time.RFC3339)),
		},
	}
	i.kept.recordWrite(client.ObjectKeyFromObject(secret))
	if _, err := kube.Ensure(ctx, i.direct, secret, kube.OwnedBy(r.Owner, i.client.Scheme())); err != nil {
		return nil, fmt.Errorf("storing the certificate: %w", err)
	}
	if err := i.client.Delete(ctx, request); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("removing the request for the certificate: %w", err)
	}
	return out, nil
}

// IsRefused reports whether the signer, or an administrator, denied the request, and why.
func IsRefused(err error) (string, bool) {
	r, ok := errors.AsType[*refusedRequest](err)
	if !ok {
		return "", false
	}
	return r.why, true
}

// Refusal converts the error of a denied request, whose reason is shown to the user, to that of a controller's
// attempt.
func Refusal(reason string, err error) error {
	invalid := kube.Invalid(reason, err)
	if r, ok := errors.AsType[*refusedRequest](err); ok && r.again > 0 {
		return kube.Again(r.again, invalid)
	}
	return invalid
}

// Watch returns the handler that enqueues the owner of a CertificateSigningRequest with this mark.
func Watch(mark string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		namespace, name, ok := ownerOf(obj, mark)
		if !ok {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
	})
}
