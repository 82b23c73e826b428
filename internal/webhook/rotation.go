// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// servingCertificate holds the certificate of new TLS connections.
type servingCertificate struct {
	pair atomic.Pointer[tls.Certificate]
}

func (s *servingCertificate) currentCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if pair := s.pair.Load(); pair != nil {
		return pair, nil
	}
	return nil, errors.New("no certificate is loaded yet")
}

// readyCheck fails readiness without a valid certificate.
func (s *servingCertificate) readyCheck(*http.Request) error {
	pair := s.pair.Load()
	switch {
	case pair == nil:
		return errors.New("no webhook certificate is loaded")
	case time.Now().After(pair.Leaf.NotAfter):
		return errors.New("the webhook certificate has expired")
	}
	return nil
}

// certificateRotation keeps the shared Secret, the certificate that this replica serves, and the CA bundles of the
// webhook configurations consistent. Every replica runs the rotation: the first write wins, and the other replicas get
// a conflict and reload the Secret.
type certificateRotation struct {
	client        client.Client
	reader        client.Reader // a cache of only the Secret and the webhook configurations
	recorder      events.EventRecorder
	secret        client.ObjectKey
	service       string
	configuration string
	policy        rotationPolicy
	settle        time.Duration
	clock         func() time.Time
	serving       *servingCertificate
	// shown is the newest CA certificate that all webhook configurations contained, and the time since which they have.
	shown struct {
		bundle string
		since  time.Time
	}
}

// addRotation runs r on every replica, with a cache restricted to the Secret and the webhook configurations.
func addRotation(mgr ctrl.Manager, r *certificateRotation) error {
	named := func(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }
	objects, err := kube.AddCache(mgr, map[client.Object]cache.ByObject{
		&corev1.Secret{}: {
			Namespaces: map[string]cache.Config{r.secret.Namespace: {}},
			Field:      named(r.secret.Name),
		},
		&admissionv1.MutatingWebhookConfiguration{}:   {Field: named(r.configuration)},
		&admissionv1.ValidatingWebhookConfiguration{}: {Field: named(r.configuration)},
	})
	if err != nil {
		return fmt.Errorf("reading webhook certificates: %w", err)
	}
	r.reader = objects
	c, err := controller.New("webhook_certificate", mgr, controller.Options{
		Reconciler:         r,
		NeedLeaderElection: new(false),
	})
	if err != nil {
		return fmt.Errorf("making controller webhook_certificate: %w", err)
	}
	// The Secret may not exist yet: an initial event triggers the first pass.
	return errors.Join(
		c.Watch(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			q.Add(reconcile.Request{NamespacedName: r.secret})
			return nil
		})),
		watchObject(c, objects, r.secret, &corev1.Secret{}),
		watchObject(c, objects, r.secret, &admissionv1.MutatingWebhookConfiguration{}),
		watchObject(c, objects, r.secret, &admissionv1.ValidatingWebhookConfiguration{}),
	)
}

// watchObject maps every event of a kind to the Secret.
func watchObject[T client.Object](c controller.Controller, objects cache.Cache, key client.ObjectKey, kind T) error {
	return c.Watch(source.Kind(objects, kind, handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, T) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: key}}
	})))
}

// Reconcile runs one pass: load the Secret, renew due certificates, update the CA bundles.
func (r *certificateRotation) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	after, err := r.runOnce(ctx)
	if err != nil {
		return kube.Result(err)
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

func (r *certificateRotation) runOnce(ctx context.Context) (time.Duration, error) {
	secret, current, err := r.loadKeyring(ctx)
	if err != nil {
		return 0, err
	}
	configurations, err := r.gatherTrusting(ctx)
	if err != nil {
		return 0, err
	}
	if current != nil && current.leaf != nil {
		r.serving.pair.Store(current.tlsCertificate())
	}
	now := r.clock()
	next, err := r.policy.nextKeyring(now, current, r.shownLongEnough(now, current, configurations))
	if err != nil {
		return 0, err
	}
	if next != current {
		if err := r.storeKeyring(ctx, secret, next); err != nil {
			return 0, err
		}
		log.FromContext(ctx).Info("webhook certificate renewed", "until", next.leaf.NotAfter, "authorities", len(next.authorities))
	}
	r.serving.pair.Store(next.tlsCertificate())
	var failed []error
	for _, configuration := range configurations {
		err := configuration.setBundle(ctx, r.client, next.caBundle())
		if message, conflict := kube.ConflictingWriter(err); conflict {
			r.recorder.Eventf(configuration.object, nil, corev1.EventTypeWarning, kube.ReasonConflictingWriter, "SetBundle", "%s", kube.Note(message))
		}
		failed = append(failed, err)
	}
	return r.waitTime(next), errors.Join(failed...)
}

// loadKeyring returns the Secret, nil if there is none, and its keyring. Of an incomplete keyring only the trusted CA
// certificates are used.
func (r *certificateRotation) loadKeyring(ctx context.Context) (*corev1.Secret, *servingCertificates, error) {
	secret := &corev1.Secret{}
	if err := r.reader.Get(ctx, r.secret, secret); client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("reading the webhook certificate: %w", err)
	} else if err != nil {
		return nil, nil, nil
	}
	current, err := decodeSecret(secret.Data)
	if err != nil {
		log.FromContext(ctx).Info("webhook certificate is being renewed", "why", err.Error())
	}
	return secret, current, nil
}

// storeKeyring writes the keyring, with the resourceVersion of the Secret as a precondition.
func (r *certificateRotation) storeKeyring(ctx context.Context, secret *corev1.Secret, k *servingCertificates) error {
	data, err := k.encodeSecret()
	if err != nil {
		return err
	}
	if secret != nil {
		secret = secret.DeepCopy()
		secret.Data = data
		secret.Labels = withKey(secret.Labels, names.Webhook, "true")
		if err := r.client.Update(ctx, secret); err != nil {
			return fmt.Errorf("writing the webhook certificate: %w", err)
		}
		return nil
	}
	secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: r.secret.Name, Namespace: r.secret.Namespace,
			Labels:      map[string]string{names.Webhook: "true", names.AppManagedBy: names.ManagedByLiqo},
			Annotations: map[string]string{names.WebhookServiceName: r.service},
		},
		Data: data,
	}
	if err := r.client.Create(ctx, secret); err != nil {
		return fmt.Errorf("creating the webhook certificate: %w", err)
	}
	return nil
}

func withKey(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// shownLongEnough reports whether every API server can be expected to trust the newest CA certificate: all webhook
// configurations have contained it for the settling time.
func (r *certificateRotation) shownLongEnough(now time.Time, current *servingCertificates, configurations []trustingConfig) bool {
	if current == nil || len(current.authorities) == 0 {
		return false
	}
	newest := encodePEM("CERTIFICATE", current.authorities[0].Raw)
	for _, c := range configurations {
		if !c.trustsAuthority(newest) {
			r.shown.bundle = ""
			return false
		}
	}
	if r.shown.bundle != string(newest) {
		r.shown.bundle, r.shown.since = string(newest), now
	}
	return now.Sub(r.shown.since) >= r.settle
}

// waitTime returns the delay to the next pass: the next renewal, or the end of the settling time of a new CA
// certificate.
func (r *certificateRotation) waitTime(k *servingCertificates) time.Duration {
	if !signedBy(k.leaf, k.authorities[0]) {
		return r.settle/2 + minWait
	}
	// A serving certificate that is due but was not renewed waits for the settling time of its CA certificate.
	if due := r.policy.dueAt(k).Sub(r.clock()); due > 0 {
		return due + minWait
	}
	return r.settle/2 + minWait
}

const minWait = 20 * time.Millisecond

// trustingConfig is a mutating or validating webhook configuration.
type trustingConfig struct {
	object client.Object
	// bundles returns pointers to the CA bundles of all webhooks of an object of that kind.
	bundles func(client.Object) []*[]byte
}

// gatherTrusting returns the webhook configurations of this installation, selected by name and label.
func (r *certificateRotation) gatherTrusting(ctx context.Context) ([]trustingConfig, error) {
	all := []trustingConfig{
		{&admissionv1.MutatingWebhookConfiguration{}, mutatingBundles},
		{&admissionv1.ValidatingWebhookConfiguration{}, validatingBundles},
	}
	var out []trustingConfig
	for _, c := range all {
		err := r.reader.Get(ctx, client.ObjectKey{Name: r.configuration}, c.object)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading the webhook configuration: %w", err)
		}
		if err == nil && c.object.GetLabels()[names.Webhook] == "true" {
			out = append(out, c)
		}
	}
	return out, nil
}

func mutatingBundles(obj client.Object) []*[]byte {
	hooks := obj.(*admissionv1.MutatingWebhookConfiguration).Webhooks
	var out []*[]byte
	for i := range hooks {
		out = append(out, &hooks[i].ClientConfig.CABundle)
	}
	return out
}

func validatingBundles(obj client.Object) []*[]byte {
	hooks := obj.(*admissionv1.ValidatingWebhookConfiguration).Webhooks
	var out []*[]byte
	for i := range hooks {
		out = append(out, &hooks[i].ClientConfig.CABundle)
	}
	return out
}

func (t trustingConfig) trustsAuthority(authority []byte) bool {
	return !slices.ContainsFunc(t.bundles(t.object), func(b *[]byte) bool { return !bytes.Contains(*b, authority) })
}

// setBundle writes the CA bundle to every webhook with a different one.
func (t trustingConfig) setBundle(ctx context.Context, c client.Client, bundle []byte) error {
	changed := t.object.DeepCopyObject().(client.Object)
	different := false
	for _, b := range t.bundles(changed) {
		if !bytes.Equal(*b, bundle) {
			*b, different = bundle, true
		}
	}
	if !different {
		return nil
	}
	patch := client.MergeFromWithOptions(t.object, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, changed, patch); err != nil {
		return fmt.Errorf("writing the bundle of %T: %w", t.object, err)
	}
	return nil
}
