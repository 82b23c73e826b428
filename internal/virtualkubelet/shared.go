// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// reflectShared copies the objects that the pods of all virtual nodes of this provider need.
func (p *process) reflectShared(ctx context.Context) error {
	var kinds []multicluster.Kind
	var about []involvedKind
	add := func(workers int, kind multicluster.Kind, of involvedKind) {
		if workers > 0 {
			kinds, about = append(kinds, kind), append(about, of)
		}
	}
	cm, secret, ingress := configMapKind(p.options), secretKind(p.options), ingressKind(p.options)
	add(p.options.ConfigMaps.Workers, newCopyKind(p, cm), cm)
	add(p.options.Secrets.Workers, newCopyKind(p, secret), secret)
	add(p.options.Ingresses.Workers, newCopyKind(p, ingress), ingress)
	service, slice := serviceKind(p.options, p.namespaces.RemoteOf), endpointSlices(p.options, p.network.addressesIn)
	add(p.options.Services.Workers, newCopyKind(p, service), service)
	add(p.options.EndpointSlices.Workers, slice.withWatches(newCopyKind(p, slice.copyKind)), slice)
	turn, endTurn := context.WithCancel(ctx)
	peers := &policyPeers{ctx: turn, cluster: *p.localCluster, remote: p.namespaces.RemoteOf, changed: p.lookAtPolicies}
	peers.cluster.Extends = nil
	defer peers.running.Wait()
	defer endTurn()
	policies := networkPolicies(p.options, p.policyView, peers)
	add(p.options.NetworkPolicies.Workers, policies.withAll(newCopyKind(p, policies.copyKind)), policies)
	claim := &claimKind{options: p.options, patch: p.offloadingPatch, events: newEventLog(p.newRecorder("liqo-claim-reflection"))}
	add(p.options.Claims.Workers, claim.engineKind(), claim)
	if p.options.Events.Workers > 0 && len(about) > 0 {
		events := sharedEvents(p.options, about...)
		events.onClaim = claim.warnPods
		kinds = append(kinds, events.engineKind())
	}
	engine, err := p.newEngine(kinds...)
	if err != nil {
		return err
	}
	slice.enqueue = func(pair multicluster.Pair, name string) { engine.Enqueue(slicesKind, pair, name) }
	policies.enqueue = func(pair multicluster.Pair, name string) { engine.Enqueue(policiesKind, pair, name) }
	p.shared.Store(engine)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.runEngine(ctx, engine) })
	for _, r := range p.options.Resources {
		if r.Workers > 0 {
			group.Go(func() error { return p.reflectResource(ctx, r) })
		}
	}
	return group.Wait()
}

// newCopyKind sets the fields of a kind that depend on this process.
func newCopyKind[L, R client.Object](p *process, c *copyKind[L, R]) multicluster.Kind {
	c.patch, c.events, c.begun = p.offloadingPatch, newEventLog(p.newRecorder(c.component)), time.Now()
	return c.engineKind()
}

func (p *process) startReflection(ctx context.Context, kinds ...multicluster.Kind) error {
	engine, err := p.newEngine(kinds...)
	if err != nil {
		return err
	}
	return p.runEngine(ctx, engine)
}

// podEvents returns the recorder of events about the pods of this node, and the kind of the provider's events about them.
func (p *process) podEvents() (record.EventRecorder, []multicluster.Kind) {
	recorder := p.newRecorder(podComponent)
	if p.options.Events.Workers <= 0 {
		return recorder, nil
	}
	back := podEvents(p.options)
	say := func(pod types.NamespacedName, text string) {
		back.rememberText(pod, text)
		if remoteNamespace, ok := p.namespaces.RemoteOf(pod.Namespace); ok {
			p.pods.Load().Enqueue(eventsKind, multicluster.Pair{Local: pod.Namespace, Remote: remoteNamespace}, involvedIn(podKindName, pod.Name))
		}
	}
	return mergedEvents{EventRecorder: recorder, say: say}, []multicluster.Kind{back.engineKind()}
}

// resourceKind returns the kind that copies the objects of one requested resource.
func resourceKind(o Options, r ResourceReflection, kind schema.GroupVersionKind) *copyKind[*unstructured.Unstructured, *unstructured.Unstructured] {
	empty := func() *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(kind)
		return u
	}
	return &copyKind[*unstructured.Unstructured, *unstructured.Unstructured]{
		name: r.Resource.GroupResource().String(), component: "liqo-" + r.Resource.Resource + "-reflection", options: o, reflection: r.Reflection,
		empty: empty, emptyCopy: empty,
		copyOf: ignoreItem(translate.Target.Object),
	}
}

// unknownDelay is the interval of lookups of a resource that this cluster does not have.
const unknownDelay = 15 * time.Second

// reflectResource copies one requested resource, once it exists in this cluster. The resource has a separate engine: a missing or
// forbidden resource delays no other.
func (p *process) reflectResource(ctx context.Context, r ResourceReflection) error {
	for waiting := false; ; waiting = true {
		kind, err := p.mgr.GetRESTMapper().KindFor(r.Resource)
		if err == nil {
			return p.startReflection(ctx, newCopyKind(p, resourceKind(p.options, r, kind)))
		}
		if !waiting {
			p.options.Log.Info("waiting for a resource to reflect", "resource", r.Resource.String(), "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(unknownDelay):
		}
	}
}
