// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"liqo.io/liqo/internal/kube"
)

// watchedReader answers reads from watches. The first read of objects starts the watch of these objects: watches are exactly as narrow as the reads.
// watchedReader is safe for concurrent use; callers must not change the results.
type watchedReader struct {
	cluster kube.Cluster
	// changed is called after each change, and when a watch breaks or recovers. It must not block.
	changed func()

	mu      sync.Mutex
	watches map[watchKey]*watched
	round   int
}

// watchKey identifies the objects of a read.
type watchKey struct {
	gvk                       schema.GroupVersionKind
	untyped                   bool
	namespace, labels, fields string
}

// watched is a running watch.
type watched struct {
	informer *kube.Informer
	stop     context.CancelFunc
	// failed is closed when the watch broke before the first list.
	failed chan struct{}
	once   sync.Once
	round  int
}

func newWatchedReader(cluster kube.Cluster, changed func()) *watchedReader {
	return &watchedReader{cluster: cluster, changed: changed, watches: map[watchKey]*watched{}}
}

// watchesKey is the context key of the context in which watches run.
type watchesKey struct{}

// startRound returns a context for reads whose watches run until the end of ctx, and ends watches not used by the round before.
func (r *watchedReader) startRound(ctx context.Context) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, w := range r.watches {
		if w.round < r.round {
			w.stop()
			delete(r.watches, key)
		}
	}
	r.round++
	return context.WithValue(ctx, watchesKey{}, ctx)
}

// List reads a list.
func (r *watchedReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(list, r.cluster.Scheme)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", list, err)
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	o := (&client.ListOptions{}).ApplyOptions(opts)
	_, untyped := list.(runtime.Unstructured)
	key := watchKey{gvk: gvk, untyped: untyped, namespace: o.Namespace}
	if o.LabelSelector != nil {
		key.labels = o.LabelSelector.String()
	}
	if o.FieldSelector != nil {
		key.fields = o.FieldSelector.String()
	}
	informer, err := r.watchObjects(ctx, key)
	if err != nil {
		return err
	}
	objects := informer.List()
	items := make([]runtime.Object, len(objects))
	for i, obj := range objects {
		items[i] = obj
	}
	return apimeta.SetList(list, items)
}

// Get reads one object.
func (r *watchedReader) Get(ctx context.Context, name client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(into, r.cluster.Scheme)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", into, err)
	}
	_, untyped := into.(runtime.Unstructured)
	informer, err := r.watchObjects(ctx, watchKey{gvk: gvk, untyped: untyped, namespace: name.Namespace, fields: "metadata.name=" + name.Name})
	if err != nil {
		return err
	}
	found, err := informer.Read(name.Namespace, name.Name, into)
	if err == nil && !found {
		plural, _ := apimeta.UnsafeGuessKindToResource(gvk)
		return apierrors.NewNotFound(plural.GroupResource(), name.Name)
	}
	return err
}

// watchObjects returns the filled Informer of a read, or why it cannot be filled.
func (r *watchedReader) watchObjects(ctx context.Context, key watchKey) (*kube.Informer, error) {
	w, err := r.startWatch(ctx, key)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.informer.Synced():
		return w.informer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.failed:
	}
	if err := w.informer.Err(); err != nil && !w.informer.HasSynced() {
		return nil, err
	}
	return w.informer, nil
}

func (r *watchedReader) startWatch(ctx context.Context, key watchKey) (*watched, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.watches[key]; w != nil {
		w.round = r.round
		return w, nil
	}
	prototype, err := r.newObject(key)
	if err != nil {
		return nil, err
	}
	w := &watched{failed: make(chan struct{}), round: r.round}
	w.informer, err = kube.NewInformer(kube.InformerOptions{
		Cluster: r.cluster, Object: prototype, Namespace: key.namespace, Labels: key.labels, Fields: key.fields, Optional: true,
		Changed: func(_, now client.Object) {
			if _, isLease := now.(*coordinationv1.Lease); !isLease { // renewed every few seconds
				r.changed()
			}
		},
		Broken: func(err error) {
			if !errors.Is(err, io.EOF) {
				w.once.Do(func() { close(w.failed) })
				r.changed()
			}
		},
		Recovered: r.changed,
	})
	if err != nil {
		return nil, err
	}
	within, isRound := ctx.Value(watchesKey{}).(context.Context)
	if !isRound {
		within = ctx
	}
	within, w.stop = context.WithCancel(within)
	r.watches[key] = w
	go w.informer.Run(within)
	return w, nil
}

func (r *watchedReader) newObject(key watchKey) (client.Object, error) {
	if key.untyped {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(key.gvk)
		return obj, nil
	}
	obj, err := r.cluster.Scheme.New(key.gvk)
	if err != nil {
		return nil, fmt.Errorf("finding the type of %s: %w", key.gvk, err)
	}
	return obj.(client.Object), nil
}

// findOutage returns why an earlier working watch does not work now, nil if all work.
func (r *watchedReader) findOutage() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.watches {
		if err := w.informer.Err(); err != nil && w.informer.HasSynced() && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}
