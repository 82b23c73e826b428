// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/check"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/fleet"
	"liqo.io/liqo/internal/ctl/info"
	"liqo.io/liqo/internal/names"
)

// gatherer reads the facts of a fleet: those of "liqoctl check", offloaded namespaces with their pods, pods of consumers, and events.
type gatherer struct {
	*check.Gatherer
	namespace string
}

func newGatherer(ctx context.Context, c *cluster.Session, namespace string) (*gatherer, error) {
	from, err := check.NewGatherer(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	if err := info.CheckInstalled(ctx, c, from.Client, namespace); err != nil {
		return nil, err
	}
	return &gatherer{from, namespace}, nil
}

// groups are the API groups of objects whose events belong to a fleet.
var groups = []schema.GroupVersion{
	liqov1beta1.GroupVersion, authv1beta1.GroupVersion, networkingv1beta1.GroupVersion, offv1beta1.GroupVersion, ipamv1alpha1.GroupVersion,
}

// parallelLists bounds the concurrent lists.
const parallelLists = 8

// gatherFleet reads everything once. Kinds that cannot be listed are unreadable, and missing in the document.
func (g *gatherer) gatherFleet(ctx context.Context) (*fleet.Facts, error) {
	facts, err := g.GatherFacts(ctx)
	if err != nil {
		return nil, err
	}
	f := &fleet.Facts{Facts: facts}
	if f.ClusterID, err = (&info.Collector{Reader: g.Reader, Namespace: g.namespace}).ReadClusterID(ctx); err != nil {
		f.Unreadable["ConfigMap"] = cluster.DescribeError(err)
	}
	f.Offloadings, f.Pods = facts.Offloadings, slices.Clone(facts.ConsumerPods)
	var webhooks admissionv1.MutatingWebhookConfiguration
	if err := g.Reader.Get(ctx, client.ObjectKey{Name: names.WebhookConfiguration}, &webhooks); client.IgnoreNotFound(err) != nil {
		f.Unreadable["MutatingWebhookConfiguration"] = cluster.DescribeError(err)
	}
	if len(webhooks.Webhooks) > 0 { // all have the same
		f.WebhookAuthority = webhooks.Webhooks[0].ClientConfig.CABundle
	}
	return f, g.gatherNamespaces(ctx, f)
}

// gatherNamespaces lists pods and warnings of each offloaded namespace, and the events of objects of Liqo.
func (g *gatherer) gatherNamespaces(ctx context.Context, f *fleet.Facts) error {
	var mu sync.Mutex
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(parallelLists)
	list := func(kind string, into client.ObjectList, take func(), opts ...client.ListOption) {
		all.Go(func() error {
			err := g.Reader.List(ctx, into, opts...)
			if err != nil && ctx.Err() != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				f.Unreadable[kind] = cluster.DescribeError(err)
				return nil
			}
			take()
			return nil
		})
	}
	events := func(opts ...client.ListOption) {
		found := &corev1.EventList{}
		list("Event", found, func() { f.Events = append(f.Events, found.Items...) }, opts...)
	}
	for _, group := range groups {
		events(client.MatchingFields{"involvedObject.apiVersion": group.String()})
	}
	for i := range f.Offloadings {
		in := client.InNamespace(f.Offloadings[i].Namespace)
		pods := &corev1.PodList{}
		list("Pod", pods, func() { f.Pods = append(f.Pods, pods.Items...) }, in)
		events(in, client.MatchingFields{"involvedObject.kind": "Pod", "type": corev1.EventTypeWarning})
	}
	return all.Wait()
}
