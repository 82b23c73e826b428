// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/pki"
)

// reasonExpired is the reason of the event of an Identity whose certificate has ended.
const reasonExpired = "CertificateExpired"

// Next returns the time until the certificate of the Identity expires, unless it is renewed before.
func (i *identities) Next(identity *authv1beta1.Identity) time.Duration {
	end, ok := endOf(identity)
	if remaining := time.Until(end); ok && remaining > 0 {
		return remaining + time.Second
	}
	return 0
}

// expiryEvents returns the event of an expired certificate.
func expiryEvents(identity *authv1beta1.Identity, now time.Time) []kube.Event {
	end, ok := endOf(identity)
	if !ok || now.Before(end) {
		return nil
	}
	message := "the certificate ended at " + end.UTC().Format(time.RFC3339) + ", and the provider gave no other one"
	if identity.Spec.Type == authv1beta1.ControlPlaneIdentityType {
		message += ": create the Identity again, with status.authParams of the provider's Tenant"
	}
	return []kube.Event{{Type: corev1.EventTypeWarning, Reason: reasonExpired, Message: message}}
}

func endOf(identity *authv1beta1.Identity) (time.Time, bool) {
	certificate, err := pki.ParseCertificate(identity.Spec.AuthParams.SignedCRT)
	if err != nil {
		return time.Time{}, false
	}
	return certificate.NotAfter, true
}

// expiry exports the expiry of the Identities' certificates as metrics, collected at scrape time: deleted Identities have
// no metric.
type expiry struct {
	client client.Reader
	desc   *prometheus.Desc
}

func newExpiry(c client.Reader) *expiry {
	return &expiry{client: c, desc: prometheus.NewDesc("liqo_identity_certificate_expiration_timestamp_seconds",
		"When the certificate of an Identity ends, in seconds since 1970.", []string{"namespace", "name", "type", "cluster_id"}, nil)}
}

// Describe is of prometheus.Collector.
func (e *expiry) Describe(out chan<- *prometheus.Desc) { out <- e.desc }

// Collect is of prometheus.Collector.
func (e *expiry) Collect(out chan<- prometheus.Metric) {
	var all authv1beta1.IdentityList
	if err := e.client.List(context.Background(), &all); err != nil {
		out <- prometheus.NewInvalidMetric(e.desc, err)
		return
	}
	for n := range all.Items {
		identity := &all.Items[n]
		if end, ok := endOf(identity); ok {
			out <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue, float64(end.Unix()),
				identity.Namespace, identity.Name, string(identity.Spec.Type), string(identity.Spec.ClusterID))
		}
	}
}
