// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package webhook serves the admission webhooks of an installation: a thin adapter between the API server and package
// policy, with certificate rotation, including the CA bundles of the webhook configurations.
package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/servingcert"
)

// Options configure the webhooks. The zero value of each field but LiqoNamespace is the installation's default.
type Options struct {
	// LiqoNamespace is the namespace of the installation and of its certificate Secret.
	LiqoNamespace string
	// Service is the name of the Service in front of the webhooks; "" is liqo-webhook.
	Service string
	// Hosts are additional DNS names and IP addresses of the certificate.
	Hosts []string
	// Host and Port to listen at; the defaults are every address and 9443.
	Host string
	Port int
	// Lifetime of the serving certificate; 0 is 90 days. The CA certificate lives four times as long.
	Lifetime time.Duration
	// Settle is how long a new CA certificate is in the CA bundle before a certificate signed by the new CA is served;
	// 0 is 30 seconds, or less for a short lifetime.
	Settle time.Duration
	// Configuration is the name of both webhook configurations; "" is liqo-webhook.
	Configuration string
	// RuntimeClass of pods that already have scheduling constraints for offloading; "" is liqo.
	RuntimeClass string
	// VkOptionsTemplate is used by VirtualNodes without a reference; the default is virtual-kubelet-default in
	// LiqoNamespace.
	VkOptionsTemplate types.NamespacedName
	// EnforceResources denies ShadowPods of users without a Quota or with a cordoned one, and ShadowPods that exceed
	// the Quota.
	EnforceResources bool
	// Pods are the privileges that the administrator of this cluster grants to pods of consumers.
	Pods policy.RemotePods
	// DroppedMetadata lists the labels and annotations that are removed from objects of consumers.
	DroppedMetadata []string
	// KubeletImages lists the images that virtual kubelets may run in addition to the image of the installation's
	// options; a trailing * is a wildcard.
	KubeletImages []string
	// MaxObjects of each consumer.
	MaxObjects MaxObjects
	// Clock returns the current time; nil is the real clock.
	Clock func() time.Time
}

func (o Options) withDefaults() Options {
	o.Service = valueOr(o.Service, names.WebhookConfiguration)
	o.Configuration = valueOr(o.Configuration, names.WebhookConfiguration)
	o.RuntimeClass = valueOr(o.RuntimeClass, names.RuntimeClass)
	o.Port = valueOr(o.Port, names.WebhookPort)
	o.VkOptionsTemplate = valueOr(o.VkOptionsTemplate, types.NamespacedName{Namespace: o.LiqoNamespace, Name: names.VkOptionsTemplate})
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return o
}

func valueOr[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// hostNames returns the names by which the API server may call the webhooks, the preferred name first.
func (o Options) hostNames() []string {
	service := o.Service + "." + o.LiqoNamespace
	return append([]string{service + ".svc", o.Service, service, service + ".svc.cluster.local"}, o.Hosts...)
}

// SetupWebhooks adds the webhooks to the manager, on every replica of the process.
func SetupWebhooks(mgr ctrl.Manager, o Options) error {
	o = o.withDefaults()
	current, err := servingcert.Setup(mgr, o.certificateOptions())
	if err != nil {
		return err
	}
	server := &drained{drainFor: defaultDrainTime, Server: webhook.NewServer(webhook.Options{
		Host: o.Host,
		Port: o.Port,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.MinVersion = tls.VersionTLS12
			c.GetCertificate = current.GetCertificate
		}},
	})}
	if err := registerHandlers(mgr, server, o); err != nil {
		return err
	}
	if err := mgr.Add(server); err != nil {
		return fmt.Errorf("adding the webhook server: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhook-server", server.StartedChecker()); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	return nil
}

// certificateOptions returns the options of the serving certificate, whose CA bundle is in both webhook configurations.
func (o Options) certificateOptions() servingcert.Options {
	return servingcert.Options{
		Name: "webhook_certificate",
		Secret: metav1.ObjectMeta{
			Namespace: o.LiqoNamespace, Name: names.WebhookCertsSecret,
			Labels:      map[string]string{names.Webhook: "true", names.AppManagedBy: names.ManagedByLiqo},
			Annotations: map[string]string{names.WebhookServiceName: o.Service},
		},
		Hosts: o.hostNames(), Lifetime: o.Lifetime, Settle: o.Settle, Clock: o.Clock,
		Trusting: []servingcert.Trusting{
			{Kind: &admissionv1.MutatingWebhookConfiguration{}, Name: o.Configuration, Label: names.Webhook, Bundles: caBundles, SetBundle: setBundle},
			{Kind: &admissionv1.ValidatingWebhookConfiguration{}, Name: o.Configuration, Label: names.Webhook, Bundles: caBundles, SetBundle: setBundle},
		},
	}
}

// clientConfigs returns pointers to how each webhook of a configuration is called.
func clientConfigs(configuration client.Object) (out []*admissionv1.WebhookClientConfig) {
	switch c := configuration.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range c.Webhooks {
			out = append(out, &c.Webhooks[i].ClientConfig)
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			out = append(out, &c.Webhooks[i].ClientConfig)
		}
	}
	return out
}

func caBundles(configuration client.Object) (out [][]byte) {
	for _, c := range clientConfigs(configuration) {
		out = append(out, c.CABundle)
	}
	return out
}

func setBundle(configuration client.Object, bundle []byte) {
	for _, c := range clientConfigs(configuration) {
		c.CABundle = bundle
	}
}

// registerHandlers registers the handler of each path, and caches the objects that handlers read on every replica.
func registerHandlers(mgr ctrl.Manager, server webhook.Server, o Options) error {
	for _, kind := range []client.Object{
		&corev1.Namespace{}, &offv1beta1.NamespaceOffloading{}, &offv1beta1.VirtualNode{}, &offv1beta1.VkOptionsTemplate{}, &offv1beta1.Quota{}, &authv1beta1.Tenant{},
	} {
		if _, err := mgr.GetCache().GetInformer(context.Background(), kind); err != nil {
			return fmt.Errorf("caching %T: %w", kind, err)
		}
	}
	newReader := func() cachedReader { // of one webhook: other webhooks stay usable while its budget is spent
		return cachedReader{cached: mgr.GetClient(), live: newRateLimitedReader(mgr.GetAPIReader())}
	}
	limits, err := setupLimits(mgr, newReader(), o.MaxObjects)
	if err != nil {
		return err
	}
	claims, err := setupClaimValidator(mgr, newReader(), o)
	if err != nil {
		return err
	}
	decoder := admission.NewDecoder(mgr.GetScheme())
	ofVirtualNodes := newReader()
	virtualNodes := &kubeletImages{
		cachedReader: ofVirtualNodes, options: o.VkOptionsTemplate, allowed: o.KubeletImages,
		next: withoutAmounts(mutatingHandler(decoder, &virtualNodeDefaulter{cachedReader: ofVirtualNodes, template: o.VkOptionsTemplate})),
	}
	for path, h := range map[string]admission.Handler{
		"/mutate/pod":                    mutatingHandler(decoder, &podSteerer{cachedReader: newReader(), runtimeClass: o.RuntimeClass}),
		"/mutate/pod-fields":             fieldSteering(decoder, newReader()),
		"/mutate/daemonsets":             mutatingHandler(decoder, daemonSetSteerer{}),
		"/mutate/virtualnodes":           virtualNodes,
		"/mutate/shadowpods":             mutatingHandler(decoder, shadowPodCreator{}),
		"/validate/shadowpods":           validatingHandler(decoder, &shadowPodValidator{cachedReader: newReader(), enforce: o.EnforceResources, allowed: o.Pods, limits: limits}),
		"/validate/claims":               validatingHandler(decoder, claims),
		"/validate/counts":               limits,
		"/mutate/tenants":                mutatingHandler(decoder, tenantDefaults{}),
		"/mutate/metadata":               consumerMetadata{dropped: o.DroppedMetadata},
		"/validate/tenants":              validatingHandler(decoder, &tenantValidator{cachedReader: newReader()}),
		"/validate/namespace-offloading": validatingHandler(decoder, namespaceOffloadingValidator{}),
	} {
		server.Register(path, &admission.Webhook{Handler: h, RecoverPanic: new(true)})
	}
	return nil
}

// cachedReader reads from the cache, and falls back to the API server for objects missing from the cache, which may
// have been created a moment ago.
type cachedReader struct {
	cached, live client.Reader
}

func (r cachedReader) getObject(ctx context.Context, key client.ObjectKey, into client.Object) error {
	err := r.cached.Get(ctx, key, into)
	if client.IgnoreNotFound(err) == nil && err != nil {
		return r.live.Get(ctx, key, into)
	}
	return err
}

// lookupRate and lookupBurst bound the reads from the API server for one webhook: any client with access to the port can cause
// them.
const (
	lookupRate  = 20 // per second
	lookupBurst = 200
)

// rateLimitedReader fails with TooManyRequests, without a request, when a token bucket is empty.
type rateLimitedReader struct {
	client.Reader
	budget flowcontrol.PassiveRateLimiter
}

func newRateLimitedReader(live client.Reader) client.Reader {
	return &rateLimitedReader{live, flowcontrol.NewTokenBucketPassiveRateLimiter(lookupRate, lookupBurst)}
}

var errTooManyLookups = apierrors.NewTooManyRequests("too many objects are looked up; try again", 1)

func (r *rateLimitedReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if !r.budget.TryAccept() {
		return errTooManyLookups
	}
	return r.Reader.Get(ctx, key, into, opts...)
}

func (r *rateLimitedReader) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	if !r.budget.TryAccept() {
		return errTooManyLookups
	}
	return r.Reader.List(ctx, into, opts...)
}
