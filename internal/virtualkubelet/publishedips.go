// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
)

// publishedIPs tracks the addresses under which gateways publish other addresses to peers.
type publishedIPs struct {
	client client.Client
	// installation is the namespace in which an IP may be the API server's.
	installation string
	// changed is called for each namespace whose addresses changed.
	changed func(namespace string)
	// led is called when the API server becomes published.
	led func(context.Context) error

	mu sync.Mutex
	// last are the published addresses by namespace, nil before the first read.
	last map[string]map[netip.Addr]netip.Addr
	// apiServer is the published address of the API server as of the last read; the zero value is none.
	apiServer netip.Addr
}

func setupPublishedIPs(ctx context.Context, mgr ctrl.Manager, s *publishedIPs) error {
	// Slices are reflected only after this cache has synced: a restart must not remove an endpoint.
	if _, err := mgr.GetCache().GetInformer(ctx, &ipamv1alpha1.IP{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watching the IPs: %w", err)
	}
	b := ctrl.NewControllerManagedBy(mgr).Named("shown-addresses").
		Watches(&ipamv1alpha1.IP{}, allAtOnce(), builder.WithPredicates(predicate.Funcs{UpdateFunc: translationChanged}))
	if err := b.Complete(s); err != nil {
		return fmt.Errorf("registering the controller of the shown addresses: %w", err)
	}
	return nil
}

// publishDelay is the wait after the first change of IPs for further changes: the pods of a Service, possibly thousands, get IPs together.
const publishDelay = 100 * time.Millisecond

// allAtOnce enqueues one request for all changes within publishDelay.
func allAtOnce() handler.Funcs {
	all := reconcile.Request{NamespacedName: types.NamespacedName{Name: "all"}}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { q.AddAfter(all, publishDelay) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { q.AddAfter(all, publishDelay) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { q.AddAfter(all, publishDelay) },
	}
}

// translationChanged filters out updates of an IP without a changed translation, for example of labels and conditions.
func translationChanged(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*ipamv1alpha1.IP), e.ObjectNew.(*ipamv1alpha1.IP)
	was, wasReady, _ := plan.AliasOf(before)
	is, isReady, _ := plan.AliasOf(after)
	return !was.IsSameTranslation(is) || wasReady != isReady || before.Labels[names.IPType] != after.Labels[names.IPType]
}

// translationsIn returns the published addresses of the addresses in the IPs of a namespace.
func (s *publishedIPs) translationsIn(ctx context.Context, namespace string) (map[netip.Addr]netip.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.startWatch(ctx)
	return s.last[namespace], err
}

// allTranslations returns the published addresses of all namespaces.
func (s *publishedIPs) allTranslations(ctx context.Context) (map[netip.Addr]netip.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[netip.Addr]netip.Addr{}
	err := s.startWatch(ctx)
	for _, of := range s.last {
		maps.Copy(out, of)
	}
	return out, err
}

// atAPIServer returns the published address of the API server; the zero value is none.
func (s *publishedIPs) atAPIServer(ctx context.Context) (netip.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.startWatch(ctx)
	return s.apiServer, err
}

// startWatch does the first read.
func (s *publishedIPs) startWatch(ctx context.Context) (err error) {
	if s.last == nil {
		s.last, s.apiServer, err = s.readTranslations(ctx)
	}
	return err
}

func (s *publishedIPs) readTranslations(ctx context.Context) (map[string]map[netip.Addr]netip.Addr, netip.Addr, error) {
	var list ipamv1alpha1.IPList
	if err := s.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, netip.Addr{}, fmt.Errorf("listing the IPs: %w", err)
	}
	out := publishedAddresses(list.Items)
	return out, apiServerIn(list.Items, s.installation, out[s.installation]), nil
}

// apiServerIn returns the published address of the API server.
func apiServerIn(ips []ipamv1alpha1.IP, installation string, exposed map[netip.Addr]netip.Addr) netip.Addr {
	for i := range ips {
		if ips[i].Namespace != installation || ips[i].Labels[names.IPType] != names.IPTypeAPIServer {
			continue
		}
		alias, ready, _ := plan.AliasOf(&ips[i])
		if at, ok := exposed[alias.Address]; ready && ok {
			return at
		}
	}
	return netip.Addr{}
}

func (s *publishedIPs) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	now, apiServer, err := s.readTranslations(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	s.mu.Lock()
	before, was := s.last, s.apiServer
	s.last, s.apiServer = now, apiServer
	s.mu.Unlock()
	for namespace := range before {
		if !maps.Equal(before[namespace], now[namespace]) {
			s.changed(namespace)
		}
	}
	for namespace := range now {
		if _, known := before[namespace]; !known {
			s.changed(namespace)
		}
	}
	if apiServer.IsValid() && !was.IsValid() {
		if err := s.led(ctx); err != nil {
			s.mu.Lock()
			s.apiServer = was // and the next call retries
			s.mu.Unlock()
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, nil
}

// publishedAddresses returns, for each namespace, the published addresses of the addresses in its IPs. Gateways rank the IPs of all
// namespaces: if several IPs name one address, all their namespaces get the one translated alias.
func publishedAddresses(ips []ipamv1alpha1.IP) map[string]map[netip.Addr]netip.Addr {
	var all []plan.TranslatedIP
	for i := range ips {
		if alias, ready, _ := plan.AliasOf(&ips[i]); ready {
			all = append(all, alias)
		}
	}
	translated := map[netip.Addr]netip.Addr{}
	chosen, _ := plan.Aliases(all)
	for _, alias := range chosen {
		translated[alias.Address] = alias.Alias
	}
	out := map[string]map[netip.Addr]netip.Addr{}
	for _, alias := range all {
		at, ok := translated[alias.Address]
		if !ok {
			continue
		}
		if out[alias.Of.Namespace] == nil {
			out[alias.Of.Namespace] = map[netip.Addr]netip.Addr{}
		}
		out[alias.Of.Namespace][alias.Address] = at
	}
	return out
}
