// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package servingcert makes and renews the certificate that a process presents to the API server, and keeps the CA bundles of the objects that lead
// the API server to the process: webhook configurations or an APIService.
package servingcert

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

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
)

// Options configure the certificate of one process.
type Options struct {
	// Name of the controller and of the readiness check.
	Name string
	// Secret is the name, the namespace, and the least labels and annotations of the Secret shared by all replicas.
	Secret metav1.ObjectMeta
	// Hosts are the names and addresses of the process for callers; the first is also the common name.
	Hosts []string
	// Lifetime of the serving certificate; 0 is 90 days. The CA certificate lives four times as long.
	Lifetime time.Duration
	// Settle is how long a new CA certificate is in the CA bundle before a certificate signed by the new CA is served;
	// 0 is 30 seconds, or less for a short lifetime.
	Settle time.Duration
	// Trusting are the objects with the CA bundle.
	Trusting []Trusting
	// Clock returns the current time; nil is the real clock.
	Clock func() time.Time
}

// Trusting is an object with CA bundles. A missing object needs none.
type Trusting struct {
	// Kind is an empty object of the kind, and Name the name of the object.
	Kind client.Object
	Name string
	// Label, if any, must be "true" on the object.
	Label string
	// Bundles returns all CA bundles of an object of the kind, and SetBundle replaces them.
	Bundles   func(client.Object) [][]byte
	SetBundle func(client.Object, []byte)
}

const (
	defaultLifetime = 90 * 24 * time.Hour
	defaultSettle   = 30 * time.Second
)

// Setup has the certificate kept on every replica, with a cache restricted to the Secret and the trusting objects, and adds a readiness check.
func Setup(mgr ctrl.Manager, o Options) (*Current, error) {
	lifetime, current := o.Lifetime, &Current{}
	if lifetime == 0 {
		lifetime = defaultLifetime
	}
	r := &certificateRotation{
		client: mgr.GetClient(), recorder: mgr.GetEventRecorder("liqo-" + o.Name), secret: o.Secret, trusting: o.Trusting,
		policy: rotationPolicy{hosts: o.Hosts, lifetime: lifetime}, settle: o.Settle, clock: o.Clock, serving: current,
	}
	if r.settle == 0 {
		r.settle = min(defaultSettle, lifetime/12)
	}
	if r.clock == nil {
		r.clock = time.Now
	}
	if err := addRotation(mgr, o.Name, r); err != nil {
		return nil, err
	}
	if err := mgr.AddReadyzCheck(o.Name, current.readyCheck); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	return current, nil
}

// Current holds the certificate of new TLS connections.
type Current struct {
	pair atomic.Pointer[tls.Certificate]
}

// GetCertificate is the callback of the TLS stack.
func (s *Current) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if pair := s.pair.Load(); pair != nil {
		return pair, nil
	}
	return nil, errors.New("no certificate is loaded yet")
}

// readyCheck fails readiness without a valid certificate.
func (s *Current) readyCheck(*http.Request) error {
	pair := s.pair.Load()
	switch {
	case pair == nil:
		return errors.New("no serving certificate is loaded")
	case time.Now().After(pair.Leaf.NotAfter):
		return errors.New("the serving certificate has expired")
	}
	return nil
}

// certificateRotation keeps the shared Secret, the certificate served by this replica, and the CA bundles of the trusting objects consistent. Every
// replica runs the rotation: the first write wins, and the other replicas get a conflict and reload the Secret.
type certificateRotation struct {
	client   client.Client
	reader   client.Reader // a cache of only the Secret and the trusting objects
	recorder events.EventRecorder
	secret   metav1.ObjectMeta
	trusting []Trusting
	policy   rotationPolicy
	settle   time.Duration
	clock    func() time.Time
	serving  *Current
	// shown is the newest CA certificate contained in all trusting objects; since is the start of this state.
	shown struct {
		bundle string
		since  time.Time
	}
}

func (r *certificateRotation) secretKey() client.ObjectKey {
	return client.ObjectKey{Namespace: r.secret.Namespace, Name: r.secret.Name}
}

func addRotation(mgr ctrl.Manager, name string, r *certificateRotation) error {
	named := func(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }
	kinds := map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Namespaces: map[string]cache.Config{r.secret.Namespace: {}}, Field: named(r.secret.Name)},
	}
	for _, t := range r.trusting {
		kinds[t.Kind] = cache.ByObject{Field: named(t.Name)}
	}
	objects, err := kube.AddCache(mgr, kinds)
	if err != nil {
		return fmt.Errorf("reading serving certificates: %w", err)
	}
	r.reader = objects
	c, err := controller.New(name, mgr, controller.Options{
		Reconciler:         r,
		NeedLeaderElection: new(false),
	})
	if err != nil {
		return fmt.Errorf("making controller %s: %w", name, err)
	}
	// The Secret may not exist yet: an initial event triggers the first pass.
	err = c.Watch(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		q.Add(reconcile.Request{NamespacedName: r.secretKey()})
		return nil
	}))
	for kind := range kinds {
		err = errors.Join(err, c.Watch(source.Kind(objects, kind, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: r.secretKey()}}
		}))))
	}
	return err
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
	trusting, err := r.gatherTrusting(ctx)
	if err != nil {
		return 0, err
	}
	if current != nil && current.leaf != nil {
		r.serving.pair.Store(current.tlsCertificate())
	}
	now := r.clock()
	next, err := r.policy.nextKeyring(now, current, r.shownLongEnough(now, current, trusting))
	if err != nil {
		return 0, err
	}
	if next != current {
		if err := r.storeKeyring(ctx, secret, next); err != nil {
			return 0, err
		}
		log.FromContext(ctx).Info("serving certificate renewed", "until", next.leaf.NotAfter, "authorities", len(next.authorities))
	}
	r.serving.pair.Store(next.tlsCertificate())
	var failed []error
	for _, t := range trusting {
		err := t.writeBundle(ctx, r.client, next.caBundle())
		if message, conflict := kube.ConflictingWriter(err); conflict {
			r.recorder.Eventf(t.object, nil, corev1.EventTypeWarning, kube.ReasonConflictingWriter, "SetBundle", "%s", kube.Note(message))
		}
		failed = append(failed, err)
	}
	return r.waitTime(next), errors.Join(failed...)
}

// loadKeyring returns the Secret, nil if there is none, and its keyring. Of an incomplete keyring only the trusted CA certificates are used.
func (r *certificateRotation) loadKeyring(ctx context.Context) (*corev1.Secret, *servingCertificates, error) {
	secret := &corev1.Secret{}
	if err := r.reader.Get(ctx, r.secretKey(), secret); client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("reading the serving certificate: %w", err)
	} else if err != nil {
		return nil, nil, nil
	}
	current, err := decodeSecret(secret.Data)
	if err != nil {
		log.FromContext(ctx).Info("serving certificate is being renewed", "why", err.Error())
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
		labels := map[string]string{}
		maps.Copy(labels, r.secret.Labels)
		maps.Copy(labels, secret.Labels) // labels of the chart stay: Helm knows its objects by them
		secret.Labels = labels
		if err := r.client.Update(ctx, secret); err != nil {
			return fmt.Errorf("writing the serving certificate: %w", err)
		}
		return nil
	}
	secret = &corev1.Secret{ObjectMeta: *r.secret.DeepCopy(), Data: data}
	if err := r.client.Create(ctx, secret); err != nil {
		return fmt.Errorf("creating the serving certificate: %w", err)
	}
	return nil
}

// shownLongEnough reports whether every API server can be expected to trust the newest CA certificate: all trusting objects have contained the
// certificate for the settling time.
func (r *certificateRotation) shownLongEnough(now time.Time, current *servingCertificates, trusting []trustingObject) bool {
	if current == nil || len(current.authorities) == 0 {
		return false
	}
	newest := encodePEM("CERTIFICATE", current.authorities[0].Raw)
	for _, t := range trusting {
		if !t.trustsAuthority(newest) {
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

// gatherTrusting returns the existing trusting objects.
func (r *certificateRotation) gatherTrusting(ctx context.Context) ([]trustingObject, error) {
	var out []trustingObject
	for _, t := range r.trusting {
		obj := t.Kind.DeepCopyObject().(client.Object)
		err := r.reader.Get(ctx, client.ObjectKey{Name: t.Name}, obj)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading the object with the CA bundle: %w", err)
		}
		if err == nil && (t.Label == "" || obj.GetLabels()[t.Label] == "true") {
			out = append(out, trustingObject{t, obj})
		}
	}
	return out, nil
}

// trustingObject is an existing object with CA bundles.
type trustingObject struct {
	Trusting
	object client.Object
}

func (t trustingObject) trustsAuthority(authority []byte) bool {
	return !slices.ContainsFunc(t.Bundles(t.object), func(b []byte) bool { return !bytes.Contains(b, authority) })
}

// writeBundle writes the CA bundle to an object with a different bundle.
func (t trustingObject) writeBundle(ctx context.Context, c client.Client, bundle []byte) error {
	if !slices.ContainsFunc(t.Bundles(t.object), func(b []byte) bool { return !bytes.Equal(b, bundle) }) {
		return nil
	}
	changed := t.object.DeepCopyObject().(client.Object)
	t.SetBundle(changed, bundle)
	patch := client.MergeFromWithOptions(t.object, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, changed, patch); err != nil {
		return fmt.Errorf("writing the bundle of %s: %w", t.Name, err)
	}
	return nil
}
