// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/benchmark"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// parallelCreations bounds the concurrent requests that create pods.
const parallelCreations = 10

// measureOffloading measures pods created in the provider, and, when they are gone, offloaded pods. A first round has one pod for each node of the
// provider, on the node if there is room: the first container of an image takes longer.
func (b *bench) measureOffloading(ctx context.Context) error {
	provider := b.providers[0]
	if err := b.offloadNamespace(ctx); err != nil {
		return err
	}
	var local *benchmark.Spread
	for round, count := range []int{min(len(provider.nodes), b.pods), b.pods} {
		var err error
		local, err = b.measureStarts(ctx, provider, count, func(i int, pod *corev1.Pod) {
			if round == 0 {
				pod.Spec.Affinity = preferNode(provider.nodes[i].Name)
			}
		})
		if err != nil {
			return err
		}
		if err := b.deleteStarted(ctx, provider); err != nil {
			return provider.WrapWithCluster(err)
		}
	}
	b.report.Offloading = append(b.report.Offloading, benchOffload{Path: pathLocal, Cluster: provider.ID, benchTimes: benchTimes{Spread: *local}})
	offloaded, err := b.measureStarts(ctx, b.consumer, b.pods, func(_ int, pod *corev1.Pod) {
		pod.Spec.Containers[0].Image = provider.image // the image in the cluster of the pod
		pod.Spec.Affinity = nodeAffinity(corev1.NodeSelectorTerm{MatchExpressions: ofClusters(provider.ID)})
		pod.Spec.Tolerations = []corev1.Toleration{{Key: names.VirtualNodeTaint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
	})
	if err != nil {
		return err
	}
	b.report.Offloading = append(b.report.Offloading, benchOffload{Path: pathOffloaded, Cluster: b.consumer.ID, benchTimes: benchTimes{Spread: *offloaded}})
	return nil
}

// measureStarts creates pods in a cluster, and returns the times until they are Ready in this cluster. place changes each pod.
func (b *bench) measureStarts(ctx context.Context, p *testCluster, count int, place func(i int, pod *corev1.Pod)) (*benchmark.Spread, error) {
	s := &starts{created: map[string]time.Time{}, ready: map[string]float64{}}
	doing := fmt.Sprintf("Waiting for %d pods to be ready", count)
	err := p.RunWaiting(ctx, doing, "", func(ctx context.Context) error {
		if err := b.awaitAccount(ctx, p); err != nil {
			return err
		}
		working, within := errgroup.WithContext(ctx)
		working.SetLimit(parallelCreations + 1)
		its := []client.ListOption{client.InNamespace(p.askers), client.MatchingLabels{BenchLabel: benchStarts}}
		working.Go(func() error {
			return awaitReady(within, p, its, func(pods []corev1.Pod) error { return s.recordReady(pods, count, time.Now()) })
		})
		for i := range count {
			pod := b.newBenchPod(p, fmt.Sprintf("start-%d", i), benchStarts, b.timeout+removalTimeout)
			place(i, pod)
			working.Go(func() error {
				s.recordCreation(pod.Name, time.Now())
				return b.ensureMade(within, p, pod)
			})
		}
		return working.Wait()
	})
	if err != nil {
		return nil, err
	}
	return s.sumUp(), nil
}

// preferNode returns a preference for a node, since the node may be full.
func preferNode(name string) *corev1.Affinity {
	term := onNode(name).NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: term}},
	}}
}

// starts are when pods were created, and how many seconds later they were ready.
type starts struct {
	mu      sync.Mutex
	created map[string]time.Time
	ready   map[string]float64
}

func (s *starts) recordCreation(pod string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created[pod] = now
}

// recordReady records the ready pods, and returns a Pending until all are ready.
func (s *starts) recordReady(pods []corev1.Pod, want int, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range pods {
		pod := &pods[i]
		created, ours := s.created[pod.Name]
		if _, known := s.ready[pod.Name]; ours && !known && cluster.PodReady(pod) {
			s.ready[pod.Name] = now.Sub(created).Seconds()
		}
	}
	if len(s.ready) < want {
		return kube.Pending(fmt.Sprintf("%d of %d pods are ready", len(s.ready), want))
	}
	return nil
}

func (s *starts) sumUp() *benchmark.Spread {
	var seconds []float64
	for _, took := range s.ready {
		seconds = append(seconds, took)
	}
	return benchmark.SpreadOf(seconds)
}

// deleteStarted deletes the pods of measureStarts: they must not take resources from the next pods.
func (b *bench) deleteStarted(ctx context.Context, p *testCluster) error {
	step := p.Spin("Waiting for the pods to be gone")
	defer step.Stop()
	its := []client.ListOption{client.InNamespace(p.askers), client.MatchingLabels{BenchLabel: benchStarts}}
	var list corev1.PodList
	if err := p.Kube.List(ctx, &list, its...); err != nil {
		return err
	}
	for i := range list.Items {
		err := kube.RetryTransient(ctx, func() error { return client.IgnoreNotFound(p.Kube.Delete(ctx, &list.Items[i])) })
		if err != nil {
			return err
		}
	}
	return kube.WaitForNone(ctx, p.Kube, &corev1.PodList{}, its...)
}
