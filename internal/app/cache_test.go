// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestCachedDeployments(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "cached", nil)
	for name, manager := range map[string]string{"others": "Helm", "ours": names.ManagedByLiqo} {
		labels := map[string]string{"app": name}
		d := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{names.AppManagedBy: manager}},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
				},
			},
		}
		if err := c.Client.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	var reader client.Reader
	testkit.Manager(t, c.Config, kube.ManagerOptions{Objects: cachedKinds("liqo")}, func(mgr ctrl.Manager) error {
		reader = mgr.GetCache()
		_, err := mgr.GetCache().GetInformer(t.Context(), &appsv1.Deployment{})
		return err
	})
	var list appsv1.DeploymentList
	testkit.Eventually(t, time.Minute, func() error {
		if err := reader.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return errors.New("nothing is cached yet")
		}
		return nil
	})
	if len(list.Items) != 1 || list.Items[0].Name != "ours" {
		t.Errorf("cached are %d, the first of them %s", len(list.Items), list.Items[0].Name)
	}
}
