// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package multicluster is the one engine for everything that is copied between two clusters.
//
// An Engine follows pairs of namespaces, a local and a remote one, which start and stop at run time. For each Kind it
// watches objects on both sides and runs the kind's Sync for every item, a name, that changed on either side:
// gather from the caches of both sides, decide, apply. Sync runs only when both sides are fully known, so that an absent
// object is one that does not exist; until then items are parked. Whatever happens to one item, its pair or its peer
// delays no other item.
package multicluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"

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

// Pair is a local namespace and the remote one that belongs to it.
type Pair struct{ Local, Remote string }

// Source is what to watch on one side.
type Source struct {
	// Object is a prototype, typed or unstructured with its kind.
	Object client.Object
	// Labels and Fields are selectors; empty for all.
	Labels, Fields string
	// Key returns the item that an object belongs to, empty for none; nil takes the object's name.
	Key func(client.Object) string
	// Keys is Key for objects that belong to several items, or of which an item has several: see Of.
	Keys func(client.Object) []string
	// Members has an item synced when an object begins or ceases to belong to it, and not when such an object changes.
	Members bool
	// Optional: the right to read them may be missing for good, and is asked for ever less often.
	Optional bool
	// Transform changes each object before it is cached; nil strips the managed fields.
	Transform *Transform
	// Pack keeps what is cached encoded, for kinds of Kubernetes itself: see kube.FeedOptions.
	Pack bool
}

// Transform is known by its address: sources with the same one share what they cache.
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

// Kind is one sort of item.
type Kind struct {
	// Name is for logs and metrics.
	Name string
	// Local and Remote are watched in the namespaces of each pair.
	Local, Remote []Source
	// Workers is the number of items handled at once; 0 is 4.
	Workers int
	// Sync makes the world follow one item. kube.Wait, kube.Invalid and kube.Again are understood.
	Sync func(ctx context.Context, it *Item) error
}

// Item is what a Sync works on. It is valid during that Sync only.
type Item struct {
	Pair          Pair
	Name          string
	Local, Remote Cluster
}

// Options of an Engine.
type Options struct {
	// Local is this cluster.
	Local *rest.Config
	// Remote is the other one.
	Remote *Conn
	// LocalCluster and RemoteCluster are the same two for several engines, which so share what they know of both APIs. Nil is
	// for one engine alone.
	LocalCluster, RemoteCluster *kube.Cluster
	Kinds                       []Kind
	// Room bounds what is kept of the remote cluster, where RemoteCluster is nil; nil bounds nothing.
	Room *kube.CacheBudget
	// FieldManager of what is applied; empty is names.FieldManager.
	FieldManager string
	Log          logr.Logger
	// Peer is the other cluster's ID, for metrics.
	Peer string
	// Started is called each time a kind of a pair knows both its sides and begins to work. May be nil.
	Started func(pair Pair, kind string)
	// Handled is called after each Sync of an item, with its error. It must not block. May be nil.
	Handled func(pair Pair, kind string, err error)
}

// defaultWorkers per kind.
const defaultWorkers = 4

// New makes an engine. Nothing is sent before Run.
func New(o Options) (*Engine, error) {
	o.FieldManager = cmp.Or(o.FieldManager, names.FieldManager)
	localConfig := rest.CopyConfig(o.Local)
	if localConfig.QPS == 0 {
		localConfig.QPS, localConfig.Burst = o.Remote.Config().QPS, o.Remote.Config().Burst
	}
	local, err := newEnd("local", localConfig, o.LocalCluster)
	if err != nil {
		return nil, fmt.Errorf("preparing the local side: %w", err)
	}
	far, err := newEnd("remote", o.Remote.Config(), o.RemoteCluster)
	if err != nil {
		return nil, fmt.Errorf("preparing the remote side: %w", err)
	}
	if o.RemoteCluster == nil {
		far.cluster.Room = o.Room
	}
	e := &Engine{
		options: o,
		local:   local,
		remote:  far,
		kinds:   map[string]*kindState{},
		pairs:   map[Pair]*pairRun{},
		feeds:   map[feedID]*sharedFeed{},
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
		return errors.New("there is one already")
	case k.Sync == nil:
		return errors.New("there is no Sync")
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

// watched is a Source that was checked.
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
