// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Informer is a cache of the objects of one kind in one namespace. Unlike an informer of client-go, an Informer has one reader, calls the
// reader in its own goroutine, recovers from an outage within seconds, and can be stopped at run time.
type Informer struct {
	options   InformerOptions
	gvk       schema.GroupVersionKind
	synced    chan struct{}
	markOnce  sync.Once
	mu        sync.RWMutex
	objects   map[string]cachedObject
	lastError error
	// stop cancels the current list and watch.
	stop context.CancelCauseFunc
}

// InformerOptions configure an Informer.
type InformerOptions struct {
	// Cluster is the API server of the objects.
	Cluster Cluster
	// Object is the prototype, typed or unstructured with its kind; cached objects have the same type.
	Object client.Object
	// Namespace restricts the Informer; empty for all namespaces, and for cluster-scoped kinds.
	Namespace string
	// Labels and Fields are selectors; empty for all.
	Labels, Fields string
	// Optional means that the permission to read the objects may be missing permanently: the backoff then grows to a
	// longer maximum.
	Optional bool
	// Transform modifies each object before it is cached; nil strips the managed fields.
	Transform func(client.Object)
	// Pack caches the objects encoded, at a fraction of the memory and the cost of some microseconds per read. Pack
	// requires types with a protobuf encoding.
	Pack bool
	// Changed is called after each change, in one goroutine: old is nil for a new object, now is nil for a deleted one.
	// The objects belong to the Informer and must not be changed. Changed must not block.
	Changed func(old, now client.Object)
	// Broken is called each time the watch ends, with the reason; the Informer then retries. io.EOF is the regular end of a
	// watch. May be nil.
	Broken func(err error)
	// Recovered is called when the Informer watches its API server again after Broken. May be nil.
	Recovered func()
}

// Cluster contains the clients of one API server; informers share a Cluster.
type Cluster struct {
	// Budget is the cache budget of all informers together; nil is unlimited. With a cache budget, lists are read in pages.
	Budget *CacheBudget
	// Extends is the cache budget of a cluster that has copies of these objects; nil for none.
	Extends *CacheBudget
	Config  *rest.Config
	HTTP    *http.Client
	Mapper  meta.RESTMapper
	Scheme  *runtime.Scheme
}

// NewCluster returns a Cluster. No request is sent before the first use.
func NewCluster(cfg *rest.Config) (Cluster, error) {
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return Cluster{}, fmt.Errorf("making the HTTP client: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(cfg, httpClient)
	if err != nil {
		return Cluster{}, fmt.Errorf("making the REST mapper: %w", err)
	}
	return Cluster{Config: cfg, HTTP: httpClient, Mapper: mapper, Scheme: Scheme}, nil
}

// Client returns a client without a cache, for replicas.
func (c Cluster) Client() (client.Client, error) {
	direct, err := client.New(c.Config, client.Options{HTTPClient: c.HTTP, Scheme: c.Scheme, Mapper: c.Mapper})
	if err != nil {
		return nil, err
	}
	return limitCopies(direct), nil
}

// NewInformer returns an Informer; Run fills it.
func NewInformer(o InformerOptions) (*Informer, error) {
	gvk, err := apiutil.GVKForObject(o.Object, o.Cluster.Scheme)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", o.Object, err)
	}
	if o.Transform == nil {
		o.Transform = func(obj client.Object) { obj.SetManagedFields(nil) }
	}
	if _, ok := o.Object.(packable); o.Pack && !ok {
		return nil, fmt.Errorf("%s has no protobuf encoding", gvk.Kind)
	}
	return &Informer{options: o, gvk: gvk, synced: make(chan struct{}), objects: map[string]cachedObject{}}, nil
}

// packable is implemented by the types of Kubernetes itself.
type packable interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// cachedObject is a cached object, or its encoding with the identity and version.
type cachedObject struct {
	obj     client.Object
	packed  []byte
	uid     types.UID
	version string
	size    int64 // set if Budget or Extends is set
}

func (f *Informer) packObject(obj client.Object) (cachedObject, error) {
	k := cachedObject{obj: obj, uid: obj.GetUID(), version: obj.GetResourceVersion()}
	if !f.options.Pack {
		if f.options.Cluster.Budget != nil || f.options.Cluster.Extends != nil {
			k.size = sizeOf(obj)
		}
		return k, nil
	}
	packed, err := obj.(packable).Marshal()
	if err != nil {
		return cachedObject{}, fmt.Errorf("encoding %s %s: %w", f.gvk.Kind, client.ObjectKeyFromObject(obj), err)
	}
	k.obj, k.packed, k.size = nil, packed, int64(len(packed))+smallObject
	return k, nil
}

// unpackObject returns the decoded object, nil for the zero cachedObject.
func (f *Informer) unpackObject(k cachedObject) client.Object {
	if k.packed == nil {
		return k.obj
	}
	obj := reflect.New(reflect.TypeOf(f.options.Object).Elem()).Interface().(client.Object)
	if err := obj.(packable).Unmarshal(k.packed); err != nil {
		panic(fmt.Sprintf("%s %s of our own encoding cannot be read: %v", f.gvk.Kind, k.uid, err))
	}
	return obj
}

// Synced returns a channel that is closed after the first complete list has been cached and passed to Changed.
func (f *Informer) Synced() <-chan struct{} { return f.synced }

// HasSynced reports whether Synced is closed.
func (f *Informer) HasSynced() bool {
	select {
	case <-f.synced:
		return true
	default:
		return false
	}
}

// Err returns why the Informer is not watching its API server at present, or nil.
func (f *Informer) Err() error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.lastError
}

// Get returns the cached object, which must not be changed, or nil.
func (f *Informer) Get(namespace, name string) client.Object {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.unpackObject(f.objects[cacheKey(namespace, name)])
}

// Read copies an object into into, and returns false if the object is not cached.
func (f *Informer) Read(namespace, name string, into client.Object) (bool, error) {
	f.mu.RLock()
	k, found := f.objects[cacheKey(namespace, name)]
	f.mu.RUnlock()
	if !found {
		return false, nil
	}
	obj := f.unpackObject(k)
	if k.packed != nil && reflect.TypeOf(obj) == reflect.TypeOf(into) { // unpackObject returned a copy
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(obj).Elem())
		return true, nil
	}
	return true, CopyObject(obj, into)
}

// List returns the cached objects, which must not be changed, ordered by namespace and name.
func (f *Informer) List() []client.Object {
	f.mu.RLock()
	defer f.mu.RUnlock()
	out := make([]client.Object, 0, len(f.objects))
	for _, k := range f.objects {
		out = append(out, f.unpackObject(k))
	}
	slices.SortFunc(out, func(a, b client.Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return out
}

// watchRetryMin and watchRetryMax bound the backoff between two watches, watchForbiddenMax the backoff of an Optional kind
// without permission. A watch that lasted watchHealthy resets the backoff.
const (
	watchRetryMin     = 100 * time.Millisecond
	watchRetryMax     = 5 * time.Second
	watchForbiddenMax = time.Minute
	watchHealthy      = 20 * time.Second
)

// Run lists and watches the API server until ctx ends.
func (f *Informer) Run(ctx context.Context) {
	// Broken receives the reason why a watch ended; the reflector must not log the same reason.
	ctx = klog.NewContext(ctx, logr.Discard())
	defer f.releaseBudget()
	wait := watchRetryMin
	var reflector *toolscache.Reflector
	for ctx.Err() == nil {
		started := time.Now()
		if reflector == nil {
			lw, err := f.listWatch()
			if err != nil {
				f.recordBroken(err)
				wait = f.backOff(ctx, wait, err)
				continue
			}
			reflector = toolscache.NewReflectorWithOptions(lw, f.options.Object, informerStore{f}, toolscache.ReflectorOptions{
				Name:            "informer",
				TypeDescription: f.gvk.String(),
			})
		}
		err := f.attemptWatch(ctx, reflector)
		if ctx.Err() != nil {
			return
		}
		f.recordBroken(cmp.Or(err, io.EOF))
		if time.Since(started) > watchHealthy {
			wait = watchRetryMin
		}
		wait = f.backOff(ctx, wait, err)
	}
}

// attemptWatch lists and watches until the watch ends, or the cache budget is exceeded.
func (f *Informer) attemptWatch(ctx context.Context, reflector *toolscache.Reflector) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	f.mu.Lock()
	f.stop = stop
	f.mu.Unlock()
	err := reflector.ListAndWatchWithContext(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, ErrTooLarge) {
		return cause
	}
	return err
}

// backOff waits for about d after an error, with jitter, or until ctx ends, and returns the next delay.
func (f *Informer) backOff(ctx context.Context, d time.Duration, err error) time.Duration {
	longest := watchRetryMax
	if f.options.Optional && apierrors.IsForbidden(err) {
		longest = watchForbiddenMax
	}
	d = min(d, longest)
	timer := time.NewTimer(d + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return min(2*d, longest)
}

func (f *Informer) recordBroken(err error) {
	f.mu.Lock()
	f.lastError = err
	f.mu.Unlock()
	if f.options.Broken != nil {
		f.options.Broken(err)
	}
}

func cacheKey(namespace, name string) string { return namespace + "/" + name }

// informerStore is the Informer as the store of its reflector. The reflector calls all methods from one goroutine.
type informerStore struct{ *Informer }

func (s informerStore) Add(v any) error    { return s.setObject(v) }
func (s informerStore) Update(v any) error { return s.setObject(v) }
func (s informerStore) Resync() error      { return nil }

func (s informerStore) Delete(v any) error {
	obj, ok := v.(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", v)
	}
	s.dropObject(cacheKey(obj.GetNamespace(), obj.GetName()))
	return nil
}

// Replace replaces the cached objects by the list, and marks the Informer as synced.
func (s informerStore) Replace(list []any, _ string) error {
	present := make(map[string]bool, len(list))
	var errs []error
	for _, v := range list {
		errs = append(errs, s.setObject(v))
		if obj, ok := v.(client.Object); ok {
			present[cacheKey(obj.GetNamespace(), obj.GetName())] = true
		}
	}
	for _, key := range s.sortedKeys() {
		if !present[key] {
			s.dropObject(key)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.mu.Lock()
	recovered := s.lastError != nil
	s.lastError = nil
	s.mu.Unlock()
	s.markOnce.Do(func() { close(s.synced) })
	if recovered && s.options.Recovered != nil {
		s.options.Recovered()
	}
	return nil
}

func (s informerStore) setObject(v any) error {
	now, ok := v.(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", v)
	}
	s.options.Transform(now)
	k, err := s.packObject(now)
	if err != nil {
		return err
	}
	key := cacheKey(now.GetNamespace(), now.GetName())
	s.mu.Lock()
	old := s.objects[key]
	if err := s.exchangeBytes(old.size, k.size); err != nil {
		stop := s.stop
		s.mu.Unlock()
		if stop != nil {
			stop(err)
		}
		return err
	}
	s.objects[key] = k
	s.mu.Unlock()
	if old.uid == k.uid && old.version == k.version {
		return nil
	}
	s.options.Changed(s.unpackObject(old), now)
	return nil
}

func (s informerStore) dropObject(key string) {
	s.mu.Lock()
	old, was := s.objects[key]
	delete(s.objects, key)
	_ = s.exchangeBytes(old.size, 0)
	s.mu.Unlock()
	if was {
		s.options.Changed(s.unpackObject(old), nil)
	}
}

func (s informerStore) sortedKeys() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]string, 0, len(s.objects))
	for key := range s.objects {
		out = append(out, key)
	}
	return out
}
