// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

// PeerCertificate is a client certificate of a peering, and the object with the certificate.
type PeerCertificate struct {
	*x509.Certificate
	Kind   string
	Object client.Object
	Peer   string
	// IsIssued is true if this cluster issued the certificate to the peer.
	IsIssued bool
}

// PeerCertificates returns the certificates issued by peers, the certificates of Identities, and the certificates issued to peers by this cluster.
func (f *Facts) PeerCertificates() (all []PeerCertificate) {
	add := func(kind string, obj client.Object, of string, data []byte, issued bool) {
		if certificate, err := pki.ParseCertificate(data); err == nil {
			all = append(all, PeerCertificate{certificate, kind, obj, of, issued})
		}
	}
	for i := range f.Identities {
		id := &f.Identities[i]
		add("Identity", id, string(id.Spec.ClusterID), id.Spec.AuthParams.SignedCRT, false)
	}
	for i := range f.Tenants {
		if t := &f.Tenants[i]; t.Status.AuthParams != nil {
			add("Tenant", t, string(t.Spec.ClusterID), t.Status.AuthParams.SignedCRT, true)
		}
	}
	for i := range f.Slices {
		if s := &f.Slices[i]; s.Status.AuthParams != nil && s.Labels[names.Replicated] == "true" {
			add("ResourceSlice", s, f.PeerOf(s), s.Status.AuthParams.SignedCRT, true)
		}
	}
	return all
}

// certificatesByPeer returns the certificates of each peer.
func (f *Facts) certificatesByPeer() map[string][]PeerCertificate {
	of := map[string][]PeerCertificate{}
	for _, c := range f.PeerCertificates() {
		of[c.Peer] = append(of[c.Peer], c)
	}
	return of
}

// PeerOf returns the peer of an object in a tenant namespace, by the label of the namespace, else of the object.
func (f *Facts) PeerOf(obj client.Object) string {
	for i := range f.Namespaces {
		if f.Namespaces[i].Name == obj.GetNamespace() {
			return cmp.Or(f.Namespaces[i].Labels[names.RemoteClusterID], obj.GetLabels()[names.RemoteClusterID])
		}
	}
	return obj.GetLabels()[names.RemoteClusterID]
}

// backdated is how far the signer of Kubernetes backdates the start of a certificate.
const backdated = 5 * time.Minute

// CheckExpiry returns an error if a certificate has expired, or expires soon because the renewal is overdue.
func CheckExpiry(certificate *x509.Certificate, now time.Time) error {
	end, life := certificate.NotAfter, certificate.NotAfter.Sub(certificate.NotBefore)-backdated
	switch remaining := end.Sub(now); {
	case remaining <= 0:
		return errors.New("ended at " + end.UTC().Format(time.RFC3339))
	case remaining < life/6:
		return errors.New("ends at " + end.UTC().Format(time.RFC3339) + " and was not renewed")
	}
	return nil
}

// findIssued returns the certificates of a peer that this cluster issued, and did not renew in time. The certificates of a denied Tenant or
// ResourceSlice are never renewed.
func (f *Facts) findIssued(certificates []PeerCertificate) (all []Finding) {
	for _, c := range certificates {
		if !c.IsIssued || c.Object.GetDeletionTimestamp() != nil || isDenied(c.Object) {
			continue
		}
		if late := CheckExpiry(c.Certificate, f.Now); late != nil {
			all = append(all, newFailure(Ref(c.Kind, c.Object), fmt.Sprintf("the certificate that this cluster issued to %s %s", c.Peer, late),
				"see the events of the "+c.Kind+" and the CertificateSigningRequests: this cluster signs and renews it", pageSigner))
		}
	}
	return all
}

// isDenied reports whether this cluster refuses a Tenant or a ResourceSlice.
func isDenied(obj client.Object) bool {
	switch o := obj.(type) {
	case *authv1beta1.Tenant:
		return o.Spec.TenantCondition == authv1beta1.TenantConditionDrained
	case *authv1beta1.ResourceSlice:
		accepted, _ := IsAccepted(o)
		return !accepted
	}
	return false
}

// certificateAges returns when the first of a peer's certificates ends, and how old it is, "" if there is none.
func (f *Facts) certificateAges(certificates []PeerCertificate) string {
	own := slices.DeleteFunc(slices.Clone(certificates), func(c PeerCertificate) bool { return isDenied(c.Object) })
	if len(own) == 0 {
		return ""
	}
	first := slices.MinFunc(own, func(a, b PeerCertificate) int { return a.NotAfter.Compare(b.NotAfter) })
	text := fmt.Sprintf("%s old", formatAge(f.Now.Sub(first.NotBefore)))
	if left := first.NotAfter.Sub(f.Now); left > 0 {
		text = fmt.Sprintf("ends in %s, %s", formatAge(left), text)
	} else {
		text = fmt.Sprintf("ended %s ago, %s", formatAge(-left), text)
	}
	if len(own) > 1 {
		text = fmt.Sprintf("the first of %d %s", len(own), text)
	}
	return text
}

// formatAge returns a duration as days, hours or minutes.
func formatAge(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.0f d", math.Floor(d.Hours()/24))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.0f h", math.Floor(d.Hours()))
	}
	return fmt.Sprintf("%.0f min", math.Floor(d.Minutes()))
}
