// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package multicluster is the engine for all objects copied between two clusters.
//
// An Engine runs pairs of a local and a remote namespace, started and stopped at run time. For each Kind it watches objects in both clusters
// and calls the kind's Sync for every item, a name, with a change in either cluster: gather from both caches, decide, apply. Sync is called
// only when both caches are synced: an object missing from the cache does not exist. Until then items are parked. A failure of one item,
// pair or peer delays no other item.
package multicluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// Pair is a local namespace with its remote namespace.
type Pair struct{ Local, Remote string }

// Source selects the objects to watch in one cluster.
type Source struct {
	// Object is a prototype, typed or unstructured with its kind.
	Object client.Object
	// Labels and Fields are selectors; empty selects all.
	Labels, Fields string
	// Key returns the item of an object, empty for none; nil uses the object's name.
	Key func(client.Object) string
	// Keys is Key for a many-to-many relation of objects and items: see Of.
	Keys func(client.Object) []string
	// Members limits enqueueing to objects that start or stop belonging to an item; other changes of the objects are ignored.
	Members bool
	// ClusterScoped shares one watch of a kind without namespaces among all pairs.
	ClusterScoped bool
	// Optional tolerates missing permissions: the watch is retried with growing backoff.
	Optional bool
	// Transform changes each object before it is cached; nil strips the managed fields.
	Transform *Transform
	// Pack keeps the cached objects encoded, for kinds of Kubernetes itself: see kube.InformerOptions.
	Pack bool
}

// Transform is compared by address: sources with the same Transform share a cache.
type Transform struct{ Apply func(client.Object) }

func (s Source) keysOf(obj client.Object) []string {
	if s.Keys != nil {
		return s.Keys(obj)
	}
	key := obj.GetName()
	if s.Key != nil {
		key = s.Key(obj)
	}
	if key == "" {
		return nil
	}
	return []string{key}
}

// Kind is one kind of item.
type Kind struct {
	// Name is the name in logs and metrics.
	Name string
	// Local and Remote are the sources in the two namespaces of each pair.
	Local, Remote []Source
	// Workers is the number of concurrent items; 0 is 4.
	Workers int
	// Sync reconciles one item. Sync may return kube.Wait, kube.Invalid and kube.Again.
	Sync func(ctx context.Context, it *Item) error
}

// Item is the argument of a Sync, valid during the Sync only.
type Item struct {
	Pair          Pair
	Name          string
	Local, Remote Cluster

	// after is the time until the next Sync, 0 for none.
	after time.Duration
}

// RequeueAfter queues the item again after this Sync, if that does not fail; of several times the first counts.
func (it *Item) RequeueAfter(after time.Duration) {
	if it.after == 0 || after < it.after {
		it.after = after
	}
}

// Options configure an Engine.
type Options struct {
	// Local is the local cluster.
	Local *rest.Config
	// Remote is the remote cluster.
	Remote *Conn
	// LocalCluster and RemoteCluster are the same clusters, passed to several engines to share clients and API discovery. With nil the engine
	// creates its own.
	LocalCluster, RemoteCluster *kube.Cluster
	Kinds                       []Kind
	// Budget limits the cache of the remote cluster if RemoteCluster is nil; nil means no limit.
	Budget *kube.CacheBudget
	// FieldManager of server-side apply; empty is names.FieldManager.
	FieldManager string
	Log          logr.Logger
	// Peer is the cluster ID of the remote cluster, for metrics.
	Peer string
	// Started is called when the caches of a kind of a pair are synced and work begins. May be nil.
	Started func(pair Pair, kind string)
	// Handled is called after each Sync of an item, with the error. Handled must not block. May be nil.
	Handled func(pair Pair, kind string, err error)
}

// defaultWorkers is the number of workers per kind.
const defaultWorkers = 4

// New returns an engine. It sends no request before Run.
func New(o Options) (*Engine, error) {
	o.FieldManager = cmp.Or(o.FieldManager, names.FieldManager)
	localConfig := rest.CopyConfig(o.Local)
	if localConfig.QPS == 0 {
		localConfig.QPS, localConfig.Burst = o.Remote.Config().QPS, o.Remote.Config().Burst
	}
	local, err := newEnd("local", localConfig, o.LocalCluster)
	if err != nil {
		return nil, fmt.Errorf("preparing the local cluster: %w", err)
	}
	far, err := newEnd("remote", o.Remote.Config(), o.RemoteCluster)
	if err != nil {
		return nil, fmt.Errorf("preparing the remote cluster: %w", err)
	}
	if o.RemoteCluster == nil {
		far.cluster.Budget = o.Budget
	}
	e := &Engine{
		options:   o,
		local:     local,
		remote:    far,
		kinds:     map[string]*kindState{},
		pairs:     map[Pair]*pairRun{},
		informers: map[informerID]*sharedInformer{},
	}
	for _, k := range o.Kinds {
		if err := e.addKind(k); err != nil {
			return nil, fmt.Errorf("adding kind %q: %w", k.Name, err)
		}
	}
	return e, nil
}

func (e *Engine) addKind(k Kind) error {
	switch {
	case k.Name == "":
		return errors.New("a kind needs a name")
	case e.kinds[k.Name] != nil:
		return errors.New("the name is in use")
	case k.Sync == nil:
		return errors.New("the function Sync is missing")
	}
	added := newKind(k, e.options.Peer)
	var err error
	if added.local, err = e.newWatches("local", k.Local); err != nil {
		return err
	}
	if added.remote, err = e.newWatches("remote", k.Remote); err != nil {
		return err
	}
	e.kinds[k.Name] = added
	e.order = append(e.order, k.Name)
	return nil
}

// watched is a validated Source.
type watched struct {
	Source
	gvk schema.GroupVersionKind
}

func (e *Engine) newWatches(side string, sources []Source) ([]watched, error) {
	var out []watched
	for _, s := range sources {
		gvk, err := apiutil.GVKForObject(s.Object, kube.Scheme)
		if err != nil {
			return nil, fmt.Errorf("finding the kind of a %s source: %w", side, err)
		}
		if _, err := labels.Parse(s.Labels); err != nil {
			return nil, fmt.Errorf("reading the label selector of %s %s: %w", side, gvk.Kind, err)
		}
		if _, err := fields.ParseSelector(s.Fields); err != nil {
			return nil, fmt.Errorf("reading the field selector of %s %s: %w", side, gvk.Kind, err)
		}
		out = append(out, watched{Source: s, gvk: gvk})
	}
	return out, nil
}

// endpoint is one of the two clusters.
type endpoint struct {
	name    string
	cluster kube.Cluster
	client  client.Client
}

func newEnd(name string, cfg *rest.Config, shared *kube.Cluster) (*endpoint, error) {
	if shared == nil {
		cluster, err := kube.NewCluster(cfg)
		if err != nil {
			return nil, err
		}
		shared = &cluster
	}
	cluster := *shared
	direct, err := cluster.Client()
	if err != nil {
		return nil, fmt.Errorf("making the client: %w", err)
	}
	return &endpoint{name: name, cluster: cluster, client: direct}, nil
}
