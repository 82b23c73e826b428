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

// alone has as many Deployments of one pod each in either cluster as a peering has there, made at once and deleted at once when their pods
// are at rest, and returns how many seconds both took, until all pods were Ready and until none was left. It is what Kubernetes takes of
// such pods on this machine, and so the least that peering and parting can.
func (w *world) alone(ctx context.Context, pods [2]int) (began, ended float64, err error) {
	const name = "alone"
	labels := client.MatchingLabels{"liqo-bench": name}
	of := func(do func(c client.Client) error) error {
		return errors.Join(do(w.clusters[0].Client), do(w.clusters[1].Client))
	}
	var all [2][]client.Object
	for i, n := range pods {
		for j := range n {
			all[i] = append(all[i], &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: where, Name: fmt.Sprintf("%s-%d", name, j)},
				Spec: appsv1.DeploymentSpec{
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"liqo-bench": name, "app": fmt.Sprint(j)}},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"liqo-bench": name, "app": fmt.Sprint(j)}},
						Spec: corev1.PodSpec{Containers: []corev1.Container{{
							Name: "idle", Image: "docker.io/library/busybox:latest", ImagePullPolicy: corev1.PullIfNotPresent,
							Command: []string{"sh", "-c", "trap exit TERM; sleep 100000 & wait"},
						}}},
					},
				},
			})
		}
	}
	each := func(do func(client.Client, client.Object) error) error {
		var errs []error
		for i, objects := range all {
			for _, obj := range objects {
				errs = append(errs, do(w.clusters[i].Client, obj))
			}
		}
		return errors.Join(errs...)
	}
	ready := func(since time.Duration) error {
		n := 0
		err := of(func(c client.Client) error {
			var list corev1.PodList
			err := c.List(ctx, &list, client.InNamespace(where), labels)
			for i := range list.Items {
				if readyFor(&list.Items[i]) > since {
					n++
				}
			}
			return err
		})
		if want := pods[0] + pods[1]; err == nil && n != want {
			return fmt.Errorf("%d of %d pods are ready", n, want)
		}
		return err
	}

	at := time.Now()
	if err := each(func(c client.Client, obj client.Object) error { return c.Create(ctx, obj) }); err != nil {
		return 0, 0, err
	}
	if err := until(ctx, "pods of Kubernetes alone", func() error { return ready(0) }); err != nil {
		return 0, 0, err
	}
	began = time.Since(at).Seconds()
	if err := until(ctx, "pods at rest", func() error { return ready(rest) }); err != nil {
		return 0, 0, err
	}
	at = time.Now()
	err = each(func(c client.Client, obj client.Object) error {
		return c.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground))
	})
	if err != nil {
		return 0, 0, err
	}
	err = until(ctx, "the end of pods of Kubernetes alone", func() error {
		return of(func(c client.Client) error {
			var list corev1.PodList
			if err := c.List(ctx, &list, client.InNamespace(where), labels); err != nil {
				return err
			}
			if len(list.Items) > 0 {
				return fmt.Errorf("%d pods are left", len(list.Items))
			}
			return nil
		})
	})
	return began, time.Since(at).Seconds(), err
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
