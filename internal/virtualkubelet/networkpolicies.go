// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

const (
	// policiesKind names the kind to the engine, and allPolicies the item that stands for all of a namespace.
	policiesKind = "networkpolicies"
	allPolicies  = "/"
	// policyDebounce is the time from a change of pods or namespaces to that of the copies.
	policyDebounce = time.Second
	// reasonNarrowed is the reason of the event on a NetworkPolicy whose copy allows less than the original, or selects fewer pods.
	reasonNarrowed = "NetworkPolicyNotTranslated"
)

// policyKind reflects NetworkPolicies, with their peers as the provider sees them.
type policyKind struct {
	*copyKind[*networkingv1.NetworkPolicy, *networkingv1.NetworkPolicy]
	// view returns the addresses of both clusters, without namespaces.
	view  func(ctx context.Context) (translate.PolicyView, error)
	peers *policyPeers
	// enqueue requests the reflection of one policy.
	enqueue func(pair multicluster.Pair, name string)
}

func networkPolicies(o Options, view func(ctx context.Context) (translate.PolicyView, error), peers *policyPeers) *policyKind {
	k := &policyKind{view: view, peers: peers}
	k.copyKind = &copyKind[*networkingv1.NetworkPolicy, *networkingv1.NetworkPolicy]{
		name: policiesKind, component: "liqo-networkpolicy-reflection", options: o, reflection: o.NetworkPolicies,
		empty: newObject[networkingv1.NetworkPolicy], emptyCopy: newObject[networkingv1.NetworkPolicy],
		copyOf: k.copyOf,
	}
	return k
}

// withAll adds to the kind the item allPolicies, and accepts providers that take no NetworkPolicies.
func (k *policyKind) withAll(kind multicluster.Kind) multicluster.Kind {
	kind.Remote[0].Optional = true
	one := kind.Sync
	kind.Sync = func(ctx context.Context, it *multicluster.Item) error {
		if it.Name != allPolicies {
			return one(ctx, it)
		}
		var list networkingv1.NetworkPolicyList
		if err := it.Local.List(&list); err != nil {
			return fmt.Errorf("listing the NetworkPolicies: %w", err)
		}
		for i := range list.Items {
			k.enqueue(it.Pair, list.Items[i].Name)
		}
		return nil
	}
	return kind
}

func (k *policyKind) copyOf(ctx context.Context, _ *multicluster.Item, t translate.Target, local *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, error) {
	view, err := k.view(ctx)
	if err != nil {
		return nil, err
	}
	if selectsPeers(local) {
		if view.Namespaces, err = k.peers.readNamespaces(); err != nil {
			return nil, err
		}
	}
	want, problems := t.NetworkPolicy(local, view)
	if len(problems) == 0 {
		k.events.forgetFailure(local, reasonNarrowed)
		return want, nil
	}
	k.events.record(local, corev1.EventTypeWarning, reasonNarrowed, fmt.Sprintf("In cluster %q: %s", t.Destination, strings.Join(problems, "; ")))
	return want, nil
}

// selectsPeers reports whether a peer of the policy is selected by labels.
func selectsPeers(np *networkingv1.NetworkPolicy) bool {
	byLabels := func(p networkingv1.NetworkPolicyPeer) bool { return p.IPBlock == nil }
	return slices.ContainsFunc(np.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool { return slices.ContainsFunc(r.From, byLabels) }) ||
		slices.ContainsFunc(np.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool { return slices.ContainsFunc(r.To, byLabels) })
}

// policyPeers caches all pods and namespaces of this cluster, from when a NetworkPolicy first selects peers by labels.
type policyPeers struct {
	ctx     context.Context
	cluster kube.Cluster
	// remote returns the remote namespace of a namespace.
	remote func(namespace string) (string, bool)
	// changed is called policyDebounce after the first of several changes.
	changed func()

	running          sync.WaitGroup
	mu               sync.Mutex
	namespaces, pods *kube.Informer
	// read is the result of the last read, nil after a change.
	read    []translate.PolicyNamespace
	pending bool
}

// readNamespaces returns the namespaces with their pods. They must not be changed.
func (p *policyPeers) readNamespaces() ([]translate.PolicyNamespace, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.startInformers(); err != nil {
		return nil, err
	}
	if !p.namespaces.HasSynced() || !p.pods.HasSynced() {
		return nil, kube.Wait(policyDebounce, "the pods that NetworkPolicies select are being read")
	}
	if p.read == nil {
		p.read = p.groupPods()
	}
	out := slices.Clone(p.read)
	for i := range out {
		out[i].Remote, _ = p.remote(out[i].Name)
	}
	return out, nil
}

func (p *policyPeers) startInformers() error {
	if p.pods != nil {
		return nil
	}
	namespaces, err := kube.NewInformer(kube.InformerOptions{
		Cluster: p.cluster, Object: &corev1.Namespace{}, Transform: trimNamespace,
		Changed: func(old, now client.Object) {
			if old == nil || now == nil || !maps.Equal(old.GetLabels(), now.GetLabels()) {
				p.recordChange()
			}
		},
	})
	if err != nil {
		return fmt.Errorf("preparing the namespaces of NetworkPolicies: %w", err)
	}
	pods, err := kube.NewInformer(kube.InformerOptions{
		Cluster: p.cluster, Object: &corev1.Pod{}, Transform: func(obj client.Object) { translate.TrimPolicyPod(obj.(*corev1.Pod)) }, Pack: true,
		Changed: func(old, now client.Object) {
			if old == nil || now == nil || !translate.IsSamePolicyPod(old.(*corev1.Pod), now.(*corev1.Pod)) {
				p.recordChange()
			}
		},
	})
	if err != nil {
		return fmt.Errorf("preparing the pods of NetworkPolicies: %w", err)
	}
	p.namespaces, p.pods = namespaces, pods
	p.running.Go(func() { namespaces.Run(p.ctx) })
	p.running.Go(func() { pods.Run(p.ctx) })
	return nil
}

func trimNamespace(obj client.Object) {
	ns := obj.(*corev1.Namespace)
	trimmed := corev1.Namespace{}
	trimmed.Name, trimmed.UID, trimmed.ResourceVersion, trimmed.Labels = ns.Name, ns.UID, ns.ResourceVersion, ns.Labels
	*ns = trimmed
}

func (p *policyPeers) recordChange() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = nil
	if p.pending {
		return
	}
	p.pending = true
	time.AfterFunc(policyDebounce, func() {
		p.mu.Lock()
		p.pending = false
		p.mu.Unlock()
		if p.ctx.Err() == nil {
			p.changed()
		}
	})
}

func (p *policyPeers) groupPods() []translate.PolicyNamespace {
	out := []translate.PolicyNamespace{}
	at := map[string]int{}
	for _, obj := range p.namespaces.List() {
		at[obj.GetName()] = len(out)
		out = append(out, translate.PolicyNamespace{Name: obj.GetName(), Labels: obj.GetLabels()})
	}
	for _, obj := range p.pods.List() {
		pod := obj.(*corev1.Pod)
		i, known := at[pod.Namespace]
		if peer, ok := translate.NewPolicyPod(pod, netip.Addr.IsValid); ok && known {
			out[i].Pods = append(out[i].Pods, peer)
		}
	}
	return out
}
