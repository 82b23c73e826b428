// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// aloneLabel is on all that alone makes.
const aloneLabel = "liqo-bench-alone"

// alone has as many Deployments of one pod each in either cluster as a peering has there, made at once and deleted at once when their pods
// are at rest, and returns how many seconds both took, until all pods were Ready and until none was left. It is what Kubernetes takes of
// such pods on this machine, and so the least that peering and parting can.
func (w *benchEnv) alone(ctx context.Context, pods [2]int) (began, ended float64, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, w.endAlone(context.WithoutCancel(ctx)))
		}
	}()
	at := time.Now()
	for i, c := range w.clusters {
		for j := range pods[i] {
			if err := c.Client.Create(ctx, idleDeployment(fmt.Sprintf("alone-%d", j))); err != nil {
				return 0, 0, err
			}
		}
	}
	ready := func(longer time.Duration) func() error {
		return func() error { return w.countAlone(ctx, pods, longer) }
	}
	if err := until(ctx, "pods of Kubernetes alone", ready(0)); err != nil {
		return 0, 0, err
	}
	began = time.Since(at).Seconds()
	if err := until(ctx, "pods at rest", ready(rest)); err != nil {
		return 0, 0, err
	}
	at = time.Now()
	if err := w.endAlone(ctx); err != nil {
		return 0, 0, err
	}
	err = until(ctx, "the end of pods of Kubernetes alone", func() error { return w.countAlone(ctx, [2]int{}, -time.Hour) })
	return began, time.Since(at).Seconds(), err
}

func (w *benchEnv) endAlone(ctx context.Context) error {
	var errs []error
	for _, c := range w.clusters {
		errs = append(errs, c.Client.DeleteAllOf(ctx, &appsv1.Deployment{}, client.InNamespace(where), client.HasLabels{aloneLabel}, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	return errors.Join(errs...)
}

// countAlone fails where the clusters have not as many pods that have been ready for longer than that.
func (w *benchEnv) countAlone(ctx context.Context, want [2]int, longer time.Duration) error {
	for i, c := range w.clusters {
		var list corev1.PodList
		if err := c.Client.List(ctx, &list, client.InNamespace(where), client.HasLabels{aloneLabel}); err != nil {
			return err
		}
		n := 0
		for j := range list.Items {
			if readyFor(&list.Items[j]) > longer {
				n++
			}
		}
		if n != want[i] {
			return fmt.Errorf("%s has %d pods instead of %d", c.ID, n, want[i])
		}
	}
	return nil
}

func idleDeployment(name string) *appsv1.Deployment {
	labels := map[string]string{aloneLabel: name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: where, Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "idle", Image: "docker.io/library/busybox:latest", ImagePullPolicy: corev1.PullIfNotPresent,
					Command: []string{"sh", "-c", "trap exit TERM; sleep 100000 & wait"},
				}}},
			},
		},
	}
}

// readyFor is how long a pod has been ready, and -1 s where it is not. Its node tells whole seconds.
func readyFor(pod *corev1.Pod) time.Duration {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return time.Since(c.LastTransitionTime.Time)
		}
	}
	return -time.Second
}
