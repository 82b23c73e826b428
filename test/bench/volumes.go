// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"liqo.io/liqo/test/figures"
)

// volumes are the times from the creation of a claim and its pod until the provider has bound the claim.
type volumes struct {
	Direct    figures.Spread `json:"directSeconds"`
	Offloaded figures.Spread `json:"offloadedSeconds"`
}

// measureVolumes creates claims directly in the provider and through the virtual node, by turns.
func (s *benchEnv) measureVolumes(ctx context.Context, samples int) (*volumes, error) {
	if err := s.realNodes(ctx, s.provider, "uncordon"); err != nil { // simulated nodes have no disks
		return nil, err
	}
	var direct, offloaded []time.Duration
	for range samples {
		took, err := bindClaim(ctx, podNamespace{s.provider, vanillaNamespace}, podNamespace{s.provider, vanillaNamespace}, "local-path")
		if err != nil {
			return nil, err
		}
		direct = append(direct, took)
		if took, err = bindClaim(ctx, podNamespace{s.consumer, s.namespace}, podNamespace{s.provider, s.twin}, "liqo"); err != nil {
			return nil, err
		}
		offloaded = append(offloaded, took)
	}
	return &volumes{figures.SpreadOf(direct), figures.SpreadOf(offloaded)}, s.realNodes(ctx, s.provider, "cordon")
}

// bindClaim creates a claim and a pod that uses it, and returns the time until the claim of that name is bound at the place of the data.
// Nothing is left of them when it returns.
func bindClaim(ctx context.Context, at, data podNamespace, class string) (time.Duration, error) {
	const volume = "volume"
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	claims, pods := at.side.api.CoreV1().PersistentVolumeClaims(at.namespace), at.side.api.CoreV1().Pods(at.namespace)
	bound := data.side.api.CoreV1().PersistentVolumeClaims(data.namespace)
	events, err := bound.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", volume).String()})
	if err != nil {
		return 0, fmt.Errorf("watching claims: %w", err)
	}
	defer events.Stop()
	start := time.Now()
	_, err = claims.Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: volume},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("creating a claim: %w", err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: volume},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{
				Name: "app", Image: "docker.io/library/busybox:1", Command: []string{"sleep", "600"},
				VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: "/data"}},
			}},
			Volumes: []corev1.Volume{{Name: volume, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: volume},
			}}},
		},
	}
	if _, err = pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return 0, fmt.Errorf("creating a pod: %w", err)
	}
	var took time.Duration
	for took == 0 {
		event, ok := <-events.ResultChan()
		if !ok {
			return 0, errors.Join(errors.New("the watch of the claims ended"), ctx.Err())
		}
		if claim, isClaim := event.Object.(*corev1.PersistentVolumeClaim); isClaim && claim.Status.Phase == corev1.ClaimBound {
			took = time.Since(start)
		}
	}
	err = errors.Join(pods.Delete(ctx, volume, metav1.DeleteOptions{}), claims.Delete(ctx, volume, metav1.DeleteOptions{}))
	for err == nil {
		if _, err = bound.Get(ctx, volume, metav1.GetOptions{}); err == nil {
			time.Sleep(50 * time.Millisecond)
		}
	}
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return took, err
}
