// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package slice

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/cred"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// issuer has the cluster's signer sign the certificates of slices. A certificate is kept in a Secret, so that it is
// asked for once, and a request that is under way is a CertificateSigningRequest: nothing is remembered elsewhere and
// nobody waits.
type issuer struct {
	client   client.Client // reads CertificateSigningRequests from the cache
	direct   client.Client // reads Secrets
	duration time.Duration
	now      func() time.Time
	notes    *notes
}

// Keys of the Secret of a certificate.
const (
	requestKey     = "csr"
	certificateKey = "certificate"
	issuedKey      = "issued"
)

// patience is how long a signer may take before somebody should look at it.
const patience = time.Minute

var clientUsages = []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageKeyEncipherment, certv1.UsageClientAuth}

// issued is a certificate that can be handed out.
type issued struct {
	certificate []byte
	serial      string
	notAfter    time.Time
	renewAt     time.Time
}

// refused says that the signer, or an administrator, denied a request.
type refused struct{ why string }

func (r *refused) Error() string { return r.why }

// certificate returns the certificate for the slice's request, nil while there is none. fresh tells that it was issued
// just now. The error is Wait while a request is under way, also one that renews a certificate that can still be used.
func (i *issuer) certificate(ctx context.Context, slice *authv1beta1.ResourceSlice, consumer liqov1beta1.ClusterID) (cert *issued, fresh bool, err error) {
	stored, err := i.stored(ctx, slice)
	if err != nil {
		return nil, false, err
	}
	if stored != nil && i.now().Before(stored.renewAt) {
		return stored, false, nil
	}
	previous := ""
	if stored != nil {
		previous = stored.serial
		if !i.now().Before(stored.notAfter) {
			stored = nil
		}
	}
	request, err := i.request(ctx, slice, consumer, previous)
	if err != nil {
		return stored, false, err
	}
	renewed, err := i.take(ctx, slice, consumer, request)
	if err != nil {
		return stored, false, err
	}
	return renewed, true, nil
}

// stored returns the certificate kept for this very request, nil if there is none.
func (i *issuer) stored(ctx context.Context, slice *authv1beta1.ResourceSlice) (*issued, error) {
	var secret corev1.Secret
	key := types.NamespacedName{Namespace: slice.Namespace, Name: names.RemoteCertificate(slice.Name)}
	if err := i.direct.Get(ctx, key, &secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading the certificate of the slice: %w", err)
	}
	if !bytes.Equal(secret.Data[requestKey], slice.Spec.CSR) || !metav1.IsControlledBy(&secret, slice) {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, string(secret.Data[issuedKey]))
	if err != nil {
		return nil, nil
	}
	out, err := readIssued(secret.Data[certificateKey], slice.Spec.CSR, at)
	if err != nil {
		// What is not a certificate for this request is as good as none.
		return nil, nil
	}
	return out, nil
}

func readIssued(certificate, request []byte, at time.Time) (*issued, error) {
	key, err := cred.CSRKey(request)
	if err != nil {
		return nil, err
	}
	if err := cred.CheckCertificate(certificate, key); err != nil {
		return nil, err
	}
	parsed, err := cred.ParseCertificate(certificate)
	if err != nil {
		return nil, err
	}
	return &issued{
		certificate: certificate,
		serial:      parsed.SerialNumber.Text(16),
		notAfter:    parsed.NotAfter,
		renewAt:     cred.RenewAt(at, parsed.NotAfter),
	}, nil
}

// request returns the approved request for the certificate that follows the previous one.
func (i *issuer) request(ctx context.Context, slice *authv1beta1.ResourceSlice, consumer liqov1beta1.ClusterID, previous string) (*certv1.CertificateSigningRequest, error) {
	want := i.wantRequest(slice, consumer, previous)
	have := &certv1.CertificateSigningRequest{}
	err := i.client.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case apierrors.IsNotFound(err):
		if err := i.client.Create(ctx, want); err != nil {
			return nil, fmt.Errorf("asking for the certificate: %w", err)
		}
		have = want
	case err != nil:
		return nil, fmt.Errorf("reading the request for the certificate: %w", err)
	case !sameRequest(want, have):
		// Approving what another one wrote under our name would sign for that one.
		if err := i.client.Delete(ctx, have, client.Preconditions{UID: &have.UID}); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("removing a request that is not ours: %w", err)
		}
		return nil, kube.Wait(time.Second, "a request that is not ours was removed")
	}
	return i.approved(ctx, have)
}

func (i *issuer) wantRequest(slice *authv1beta1.ResourceSlice, consumer liqov1beta1.ClusterID, previous string) *certv1.CertificateSigningRequest {
	// One name for each certificate ever issued: a second attempt finds the first one's request.
	hash := sha256.New()
	for _, part := range []string{string(slice.UID), string(slice.Spec.CSR), previous} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return &certv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "liqo-identity-" + hex.EncodeToString(hash.Sum(nil)[:16]),
			Labels:      map[string]string{names.RemoteTenantCSR: "true", names.RemoteClusterID: string(consumer)},
			Annotations: map[string]string{names.CertificateFor: client.ObjectKeyFromObject(slice).String()},
		},
		Spec: certv1.CertificateSigningRequestSpec{
			Request:           slice.Spec.CSR,
			SignerName:        certv1.KubeAPIServerClientSignerName,
			ExpirationSeconds: new(int32(i.duration.Seconds())),
			Usages:            clientUsages,
		},
	}
}

func sameRequest(want, have *certv1.CertificateSigningRequest) bool {
	return bytes.Equal(want.Spec.Request, have.Spec.Request) &&
		want.Spec.SignerName == have.Spec.SignerName &&
		slices.Equal(want.Spec.Usages, have.Spec.Usages)
}

func (i *issuer) approved(ctx context.Context, request *certv1.CertificateSigningRequest) (*certv1.CertificateSigningRequest, error) {
	for _, c := range request.Status.Conditions {
		switch c.Type {
		case certv1.CertificateDenied, certv1.CertificateFailed:
			return nil, &refused{why: fmt.Sprintf("the signer refused the certificate: %s %s", c.Reason, c.Message)}
		case certv1.CertificateApproved:
			return request, nil
		}
	}
	request = request.DeepCopy()
	request.Status.Conditions = append(request.Status.Conditions, certv1.CertificateSigningRequestCondition{
		Type:    certv1.CertificateApproved,
		Status:  corev1.ConditionTrue,
		Reason:  "IdentityManagerApproval",
		Message: "the request of the ResourceSlice was checked",
	})
	if err := i.client.SubResource("approval").Update(ctx, request); err != nil {
		return nil, fmt.Errorf("approving the certificate: %w", err)
	}
	return request, nil
}

// take stores the certificate once it is there, and removes the request.
func (i *issuer) take(ctx context.Context, slice *authv1beta1.ResourceSlice, consumer liqov1beta1.ClusterID, request *certv1.CertificateSigningRequest) (*issued, error) {
	now := i.now()
	if len(request.Status.Certificate) == 0 {
		if now.Sub(request.CreationTimestamp.Time) > patience {
			i.notes.warning(slice, "AuthParamsFailed", fmt.Sprintf("no signer of this cluster has signed the request %s yet", request.Name))
		}
		return nil, kube.Wait(patience, "the certificate is being signed")
	}
	out, err := readIssued(request.Status.Certificate, slice.Spec.CSR, now)
	if err != nil {
		return nil, fmt.Errorf("reading the signed certificate: %w", err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: slice.Namespace,
			Name:      names.RemoteCertificate(slice.Name),
			Labels:    map[string]string{names.RemoteClusterID: string(consumer)},
		},
		Data: map[string][]byte{
			requestKey:     slice.Spec.CSR,
			certificateKey: out.certificate,
			issuedKey:      []byte(now.UTC().Format(time.RFC3339)),
		},
	}
	if _, err := kube.Ensure(ctx, i.direct, secret, kube.OwnedBy(slice, i.client.Scheme())); err != nil {
		return nil, fmt.Errorf("storing the certificate: %w", err)
	}
	if err := i.client.Delete(ctx, request); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("removing the request for the certificate: %w", err)
	}
	return out, nil
}

func isRefused(err error) (string, bool) {
	r, ok := errors.AsType[*refused](err)
	if !ok {
		return "", false
	}
	return r.why, true
}
