// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
)

// serviceRetry and serviceRetryCap bound the backoff of writes that lead the Service to this replica.
const (
	serviceRetry    = 50 * time.Millisecond
	serviceRetryCap = 5 * time.Second
)

// keepEndpointReady marks this replica as the ready endpoint of the Service of a server while the replica is the active one, until the context ends.
func (e *elector) keepEndpointReady(ctx context.Context) {
	if !e.options.Server {
		return
	}
	watches := false
	for wait := serviceRetry; ; {
		var err error
		if !watches {
			err = e.watchEndpoints(ctx)
			watches = err == nil
		}
		if err == nil {
			err = e.writeEndpoints(ctx)
		}
		var again <-chan time.Time
		if err != nil {
			e.log.Info("the Service does not lead to this replica yet", "reason", err.Error())
			again = time.After(wait)
			wait = min(2*wait, serviceRetryCap)
		} else {
			wait = serviceRetry
		}
		select {
		case <-e.endpointDue:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// watchEndpoints requests a look at the endpoints whenever they change: a write of a deposed replica may have been on its way.
func (e *elector) watchEndpoints(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serviceRetryCap) // without the right to watch, the informer never syncs
	defer cancel()
	informer, err := e.cache.GetInformer(ctx, &discoveryv1.EndpointSlice{})
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { e.endpointDue.Send() }, UpdateFunc: func(any, any) { e.endpointDue.Send() },
		})
	}
	if err != nil {
		return fmt.Errorf("watching the endpoints of the Service: %w", err)
	}
	return nil
}

// writeEndpoints marks this replica as the only ready endpoint of the Service, if it is active.
func (e *elector) writeEndpoints(ctx context.Context) error {
	if !e.isActive() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	slice := &discoveryv1.EndpointSlice{}
	if err := e.client.Get(ctx, client.ObjectKey{Namespace: e.options.Namespace, Name: names.Gateway(e.options.Name)}, slice); err != nil {
		return fmt.Errorf("reading the endpoints of the Service: %w", err)
	}
	before, listed, changed := slice.DeepCopy(), false, false
	for i := range slice.Endpoints {
		endpoint := &slice.Endpoints[i]
		own := endpoint.TargetRef != nil && endpoint.TargetRef.Name == e.options.Pod
		listed = listed || own
		for _, is := range []**bool{&endpoint.Conditions.Ready, &endpoint.Conditions.Serving} { // kube-proxy keeps flows to what serves
			if *is == nil || **is != own {
				*is, changed = &own, true
			}
		}
	}
	if !listed {
		return errors.New("the endpoints do not have this replica yet")
	}
	if !changed || !e.isActive() { // the active replica corrects a pending write
		return nil
	}
	err := e.client.Patch(ctx, slice, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing the endpoints of the Service: %w", err)
	}
	e.log.Info("the Service leads to this replica")
	return nil
}
