// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// floor offloads pods with the four requests that any design with ShadowPods must make, and nothing else: it checks, retries
// and remembers nothing. What bursts cost with it is what API servers, schedulers and controllers cost.
type floor struct {
	near, far client.WithWatch

	mu sync.Mutex
	// local are the pods that were offloaded, by name, as they were then; told are the remote ones whose status is here.
	local map[string]*corev1.Pod
	told  map[types.UID]bool
}

const (
	floorNode      = "floor"
	floorNamespace = "bench-floor"
	floorTwin      = floorNamespace + "-cl-consumer"
	// floorWorkers make each of the steps of offloading.
	floorWorkers = 8
	madeFrom     = "shadowpod"
)

func newFloor(consumer, provider benchCluster) (*floor, error) {
	f := &floor{local: map[string]*corev1.Pod{}, told: map[types.UID]bool{}}
	for _, end := range []struct {
		of   benchCluster
		into *client.WithWatch
	}{{consumer, &f.near}, {provider, &f.far}} {
		config := rest.CopyConfig(end.of.Config)
		config.UserAgent = floorNode // its requests count, unlike those of the benchmark
		c, err := client.NewWithWatch(config, client.Options{Scheme: end.of.Client.Scheme()})
		if err != nil {
			return nil, fmt.Errorf("making a client of %s: %w", end.of.ID, err)
		}
		*end.into = c
	}
	return f, nil
}

// run offloads the pods of the node until the context ends.
func (f *floor) run(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return f.beat(ctx) })
	for _, step := range []struct {
		at   client.WithWatch
		list client.ObjectList
		of   client.ListOption
		do   func(context.Context, watch.Event) error
	}{
		{f.near, &corev1.PodList{}, client.MatchingFields{"spec.nodeName": floorNode}, f.offload},
		{f.far, &offv1beta1.ShadowPodList{}, client.InNamespace(""), f.make},
		{f.far, &corev1.PodList{}, client.MatchingLabels{names.ManagedBy: madeFrom}, f.tell},
		{f.near, &corev1.ConfigMapList{}, client.InNamespace(floorNamespace), f.reflect},
	} {
		events := make(chan watch.Event, 1<<14) // so that no API server waits
		all.Go(func() error { return follow(ctx, step.at, step.list, step.of, events) })
		for range floorWorkers {
			all.Go(func() error {
				for event := range events {
					if err := step.do(ctx, event); err != nil && ctx.Err() == nil {
						return err
					}
				}
				return nil
			})
		}
	}
	return all.Wait()
}

// follow passes on what a watch tells. One that the API server ends begins anew with all that is there.
func follow(ctx context.Context, c client.WithWatch, list client.ObjectList, of client.ListOption, into chan<- watch.Event) error {
	defer close(into)
	for ctx.Err() == nil {
		w, err := c.Watch(ctx, list, of)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watching for the floor: %w", err)
		}
		for event := range w.ResultChan() {
			if event.Type == watch.Error { // of an API server that is too slow, which asks for patience
				w.Stop()
				break
			}
			select {
			case into <- event:
			case <-ctx.Done():
				w.Stop()
				return nil
			}
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return nil
}

// offload makes the ShadowPod of a new pod, and takes away one that is to go.
func (f *floor) offload(ctx context.Context, event watch.Event) error {
	pod, ok := event.Object.(*corev1.Pod)
	switch {
	case !ok:
		return fmt.Errorf("the watch of pods: %v", event.Object)
	case event.Type == watch.Deleted:
		return nil
	case !pod.DeletionTimestamp.IsZero():
		shadow := &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: floorTwin}}
		if err := client.IgnoreNotFound(f.far.Delete(ctx, shadow)); err != nil {
			return fmt.Errorf("deleting a ShadowPod: %w", err)
		}
		return client.IgnoreNotFound(f.near.Delete(ctx, pod, client.GracePeriodSeconds(0)))
	case !f.begins(pod):
		return nil
	}
	return f.far.Create(ctx, floorShadow(pod))
}

// begins tells whether a pod is seen for the first time.
func (f *floor) begins(pod *corev1.Pod) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.local[pod.Name] != nil {
		return false
	}
	f.local[pod.Name] = pod
	return true
}

// make makes the pod of a ShadowPod.
func (f *floor) make(ctx context.Context, event watch.Event) error {
	shadow, ok := event.Object.(*offv1beta1.ShadowPod)
	switch {
	case !ok:
		return fmt.Errorf("the watch of ShadowPods: %v", event.Object)
	case event.Type != watch.Added:
		return nil
	}
	return client.IgnoreAlreadyExists(f.far.Create(ctx, floorPod(shadow))) // a new watch tells of those that were there before
}

// tell writes the status of a pod that became ready there to the one here, and an event.
func (f *floor) tell(ctx context.Context, event watch.Event) error {
	remote, ok := event.Object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("the watch of remote pods: %v", event.Object)
	}
	local := f.news(remote)
	if local == nil {
		return nil
	}
	if err := f.near.Status().Update(ctx, local); err != nil {
		return fmt.Errorf("writing the status of a pod: %w", err)
	}
	now := metav1.Now()
	return f.near.Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", local.Name, now.UnixNano()), Namespace: local.Namespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Name: local.Name, Namespace: local.Namespace, UID: local.UID},
		Type:           corev1.EventTypeNormal, Reason: "SuccessfulReflection", Message: `Successfully reflected object to cluster "cl-provider"`,
		Source: corev1.EventSource{Component: floorNode}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	})
}

// reflect has a ConfigMap of the benchmark in the provider, too.
func (f *floor) reflect(ctx context.Context, event watch.Event) error {
	cm, ok := event.Object.(*corev1.ConfigMap)
	if !ok {
		return fmt.Errorf("the watch of ConfigMaps: %v", event.Object)
	}
	remoteConfigMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: cm.Name, Namespace: floorTwin}, Data: cm.Data}
	switch {
	case !strings.HasPrefix(cm.Name, probe): // the root CA, which every namespace has
		return nil
	case event.Type == watch.Deleted:
		return client.IgnoreNotFound(f.far.Delete(ctx, remoteConfigMap))
	case event.Type == watch.Added:
		return client.IgnoreAlreadyExists(f.far.Create(ctx, remoteConfigMap))
	}
	return nil
}

// news is the local pod with the status of the remote one, nil if there is nothing to tell yet or no more.
func (f *floor) news(remote *corev1.Pod) *corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	local := f.local[remote.Name]
	if local == nil || f.told[remote.UID] || !remote.DeletionTimestamp.IsZero() || !isReady(remote) {
		return nil
	}
	f.told[remote.UID] = true
	out := local.DeepCopy()
	out.ResourceVersion, out.ManagedFields, out.Status = "", nil, *remote.Status.DeepCopy()
	return out
}

// floorShadow is the ShadowPod that a virtual kubelet makes of a pod of the benchmark.
func floorShadow(pod *corev1.Pod) *offv1beta1.ShadowPod {
	out := &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{
		Name: pod.Name, Namespace: floorTwin,
		Labels: map[string]string{
			names.OffloadingOrigin: "cl-consumer", names.OffloadingDestination: "cl-provider",
			names.OffloadingNodeName: floorNode, names.CreatorUser: "bench-user",
		},
		Annotations: map[string]string{names.OffloadingNamespace: pod.Namespace, names.OffloadingUID: string(pod.UID)},
	}}
	for key, value := range pod.Labels {
		out.Labels[key] = value
	}
	spec := pod.Spec.DeepCopy()
	spec.NodeName, spec.SchedulerName, spec.Priority, spec.PreemptionPolicy = "", "", nil, nil
	spec.ServiceAccountName, spec.DeprecatedServiceAccount, spec.AutomountServiceAccountToken = "", "", new(false)
	for _, volume := range spec.Volumes {
		if volume.Projected != nil {
			volume.Projected.Sources = slices.DeleteFunc(volume.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
		}
	}
	out.Spec.Pod = *spec
	return out
}

// floorPod is the pod that a provider makes of a ShadowPod.
func floorPod(shadow *offv1beta1.ShadowPod) *corev1.Pod {
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: shadow.Name, Namespace: shadow.Namespace, Labels: map[string]string{names.ManagedBy: madeFrom}, Annotations: shadow.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(shadow, offv1beta1.GroupVersion.WithKind("ShadowPod"))},
		},
		Spec: shadow.Spec.Pod,
	}
	for key, value := range shadow.Labels {
		out.Labels[key] = value
	}
	return out
}

// beat keeps the node ready.
func (f *floor) beat(ctx context.Context) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: floorNode, Namespace: corev1.NamespaceNodeLease}}
	if err := f.near.Create(ctx, lease); err != nil {
		return fmt.Errorf("making the lease of the node: %w", err)
	}
	for {
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: new(floorNode), LeaseDurationSeconds: new(int32(40)), RenewTime: new(metav1.NowMicro())}
		if err := f.near.Update(ctx, lease); err != nil && ctx.Err() == nil {
			return fmt.Errorf("renewing the lease of the node: %w", err)
		}
		select {
		case <-time.After(10 * time.Second):
		case <-ctx.Done():
			return nil
		}
	}
}
