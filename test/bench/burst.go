// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/test/figures"
)

// burst is one Deployment, from its creation until all its pods are ready and nobody has anything left to do.
type burst struct {
	Pods      int  `json:"pods"`
	Offloaded bool `json:"offloaded"`
	// Seconds until the last pod was ready where the Deployment is.
	Seconds float64 `json:"seconds"`
	// CPU seconds per pod of both clusters, without what they use when idle, and the same by process.
	CPU    float64            `json:"cpuPerPod"`
	CPUOf  map[string]float64 `json:"cpuSecondsByProcess"`
	Lag    figures.Spread     `json:"statusLagSeconds"`
	Ours   float64            `json:"ourRequestsPerPod"`
	All    float64            `json:"allRequestsPerPod"`
	Counts map[string]int     `json:"requests"`
	// Memory of the virtual kubelet in bytes while the pods run.
	Resident  float64 `json:"virtualKubeletResidentBytes,omitempty"`
	Anonymous float64 `json:"virtualKubeletAnonymousBytes,omitempty"`
}

const (
	// settling is how long it takes until nothing moves any more.
	settling = 4 * time.Second
	// lateWrites is how long after the last pod events and other writes may take; they are part of the price. The provider tells
	// in a ShadowPod that its pod runs when that is 10 s old.
	lateWrites = 12 * time.Second
)

// burst measures one Deployment and leaves it there.
func (s *benchEnv) burst(ctx context.Context, pods int, offloaded bool) (*burst, error) {
	at, namespace := s.provider, vanillaNamespace
	if offloaded {
		at, namespace = s.consumer, s.namespace
	}
	near, err := watchPods(ctx, at.api, namespace)
	if err != nil {
		return nil, err
	}
	defer near.close()
	far := near
	if offloaded {
		if far, err = watchPods(ctx, s.provider.api, s.twin); err != nil {
			return nil, err
		}
		defer far.close()
	}
	from, err := s.playground.mark()
	if err != nil {
		return nil, err
	}
	before, err := s.playground.processes()
	if err != nil {
		return nil, err
	}
	started := time.Now()
	if _, err := at.api.AppsV1().Deployments(namespace).Create(ctx, deployment(pods), metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating the deployment: %w", err)
	}
	if err := near.allReady(ctx, pods); err != nil {
		return nil, err
	}
	b := &burst{Pods: pods, Offloaded: offloaded, Seconds: time.Since(started).Seconds()}
	time.Sleep(lateWrites)
	if offloaded {
		b.Lag = figures.SpreadOf(near.lags(far))
	}
	return b, s.account(b, before, from, time.Since(started))
}

// account fills in what the burst cost.
func (s *benchEnv) account(b *burst, before []process, from mark, took time.Duration) error {
	after, err := s.playground.processes()
	if err != nil {
		return err
	}
	b.CPUOf = minus(cpu(after), cpu(before))
	b.CPU = max(sum(b.CPUOf)-s.idleCPU*took.Seconds(), 0) / float64(b.Pods)
	if b.Offloaded && s.peering != nil {
		if b.Resident, b.Anonymous, err = memory(virtualKubelet(after)); err != nil {
			return err
		}
	}
	requests, err := s.playground.since(from)
	if err != nil {
		return err
	}
	b.Counts = tally(requests)
	b.All = float64(len(requests)) / float64(b.Pods)
	for _, r := range requests {
		if r.ours() {
			b.Ours += 1 / float64(b.Pods)
		}
	}
	return nil
}

const name = "burst"

// clear takes the Deployment away and waits until nothing is left of it on either side.
func (s *benchEnv) clear(ctx context.Context) error {
	for _, place := range s.places() {
		err := place.side.api.AppsV1().Deployments(place.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("deleting the deployment: %w", err)
		}
	}
	for _, place := range s.places() {
		seen, err := watchPods(ctx, place.side.api, place.namespace)
		if err != nil {
			return err
		}
		err = seen.allGone(ctx)
		seen.close()
		if err != nil {
			return err
		}
	}
	time.Sleep(settling)
	return nil
}

// deployment is the same wherever it is made: its pods tolerate the simulated nodes, and the real ones are cordoned.
func deployment(pods int) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(pods)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: new(int64(1)),
					Tolerations:                   []corev1.Toleration{{Key: "kwok.x-k8s.io/node", Operator: corev1.TolerationOpExists}},
					Containers: []corev1.Container{{
						Name: "app", Image: "example.org/app:1",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
						}},
					}},
				},
			},
		},
	}
}
