// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package balance gives Services of type LoadBalancer an address of the world network. A node of the cluster answers
// for the address; its kube-proxy does the rest.
package balance

import (
	"context"
	"fmt"
	"log"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"liqo.io/liqo/playground/internal/cluster"
	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/spec"
)

// again is the wait after a failure, and between two looks when nothing seems to happen.
const (
	again = time.Second
	look  = 30 * time.Second
)

type balancer struct {
	home     home.Home
	cluster  string
	api      kubernetes.Interface
	services corelisters.ServiceLister
	nodes    corelisters.NodeLister
	slices   discoverylisters.EndpointSliceLister
}

// Run works until the context ends.
func Run(ctx context.Context, h home.Home, name string) error {
	config, err := cluster.Client(h, name)
	if err != nil {
		return err
	}
	config.Timeout = 0 // watches
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for cluster %s: %w", name, err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithTransform(strip))
	b := &balancer{
		home: h, cluster: name, api: api,
		services: factory.Core().V1().Services().Lister(),
		nodes:    factory.Core().V1().Nodes().Lister(),
		slices:   factory.Discovery().V1().EndpointSlices().Lister(),
	}
	changed := make(chan struct{}, 1)
	for _, informer := range []cache.SharedIndexInformer{
		factory.Core().V1().Services().Informer(),
		factory.Core().V1().Nodes().Informer(),
		factory.Discovery().V1().EndpointSlices().Informer(),
	} {
		if _, err := informer.AddEventHandler(notify(changed)); err != nil {
			return fmt.Errorf("watching cluster %s: %w", name, err)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return b.loop(ctx, changed)
}

// strip drops what nobody here reads and what is most of an object.
func strip(obj any) (any, error) {
	if o, err := meta.Accessor(obj); err == nil {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

func notify(changed chan<- struct{}) cache.ResourceEventHandler {
	poke := func() {
		select {
		case changed <- struct{}{}:
		default: // somebody has said so already
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { poke() },
		UpdateFunc: func(any, any) { poke() },
		DeleteFunc: func(any) { poke() },
	}
}

func (b *balancer) loop(ctx context.Context, changed <-chan struct{}) error {
	for {
		wait := look
		if err := b.once(ctx); err != nil {
			log.Printf("balancing: %v", err)
			wait = again
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-time.After(wait):
		}
	}
}

// once brings everything to what the plan says. The cluster is read again: it may have got more workers.
func (b *balancer) once(ctx context.Context) error {
	c, err := b.home.Load(b.cluster)
	if err != nil {
		return err
	}
	state, err := b.gather(c)
	if err != nil {
		return err
	}
	plan := Decide(state)
	if err := answer(c, plan); err != nil {
		return err
	}
	return b.publish(ctx, state, plan)
}

func (b *balancer) gather(c spec.Cluster) (State, error) {
	var services []*corev1.Service
	var nodes []*corev1.Node
	var slices []*discoveryv1.EndpointSlice
	services, err := b.services.List(labels.Everything())
	if err != nil {
		return State{}, fmt.Errorf("listing services: %w", err)
	}
	if nodes, err = b.nodes.List(labels.Everything()); err != nil {
		return State{}, fmt.Errorf("listing nodes: %w", err)
	}
	if slices, err = b.slices.List(labels.Everything()); err != nil {
		return State{}, fmt.Errorf("listing endpoint slices: %w", err)
	}
	return State{Cluster: c, Services: services, Nodes: nodes, Slices: slices}, nil
}
