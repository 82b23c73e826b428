// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package balance allocates addresses of the world network to Services of type LoadBalancer. A node of the cluster has the address; its
// kube-proxy forwards the traffic.
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

const (
	retryDelay   = time.Second // after a failure
	resyncPeriod = 30 * time.Second
)

type balancer struct {
	home     home.Home
	cluster  string
	api      kubernetes.Interface
	services corelisters.ServiceLister
	nodes    corelisters.NodeLister
	slices   discoverylisters.EndpointSliceLister
}

// Run allocates addresses until the context ends.
func Run(ctx context.Context, h home.Home, name string) error {
	config, err := cluster.Client(h, name)
	if err != nil {
		return err
	}
	config.Timeout = 0 // watches
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client for cluster %s: %w", name, err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithTransform(dropManagedFields))
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
		if _, err := informer.AddEventHandler(notifyOnChange(changed)); err != nil {
			return fmt.Errorf("watching cluster %s: %w", name, err)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return b.runLoop(ctx, changed)
}

// dropManagedFields removes the largest part of an object, which the package does not read.
func dropManagedFields(obj any) (any, error) {
	if o, err := meta.Accessor(obj); err == nil {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

func notifyOnChange(changed chan<- struct{}) cache.ResourceEventHandler {
	send := func() {
		select {
		case changed <- struct{}{}:
		default: // a notification is pending
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { send() },
		UpdateFunc: func(any, any) { send() },
		DeleteFunc: func(any) { send() },
	}
}

func (b *balancer) runLoop(ctx context.Context, changed <-chan struct{}) error {
	for {
		wait := resyncPeriod
		if err := b.reconcile(ctx); err != nil {
			log.Printf("balancing: %v", err)
			wait = retryDelay
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-time.After(wait):
		}
	}
}

// reconcile applies the plan. It reads the description of the cluster again, because workers may have been added.
func (b *balancer) reconcile(ctx context.Context) error {
	c, err := b.home.Load(b.cluster)
	if err != nil {
		return err
	}
	state, err := b.listState(c)
	if err != nil {
		return err
	}
	plan := Decide(state)
	if err := assignAddresses(c, plan); err != nil {
		return err
	}
	return b.writeStatus(ctx, state, plan)
}

func (b *balancer) listState(c spec.Cluster) (State, error) {
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
