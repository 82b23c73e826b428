// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// measureFloor measures bursts, in clusters without Liqo, of which the floor offloads every second one.
func measureFloor(ctx context.Context, p playground, sizes []int, o options) (r *result, err error) {
	s, err := newBenchClusters(p)
	if err != nil {
		return nil, err
	}
	for _, c := range []benchCluster{s.consumer, s.provider} {
		out, err := c.Kubectl("", "get", "deployments", "-A", "-l", "app.kubernetes.io/part-of=liqo", "-o", "name")
		if err != nil {
			return nil, err
		}
		if out != "" {
			return nil, fmt.Errorf("%s has Liqo installed: the floor is measured in new clusters without it", c.ID)
		}
	}
	s.namespace, s.twin = floorNamespace, floorTwin
	if err := s.takeFloor(ctx); err != nil { // of a run that was interrupted
		return nil, err
	}
	defer func() { err = errors.Join(err, s.takeFloor(context.WithoutCancel(ctx))) }()
	if err := s.layFloor(ctx); err != nil {
		return nil, err
	}
	f, err := newFloor(s.consumer, s.provider)
	if err != nil {
		return nil, err
	}
	r = &result{Floor: true}
	all, ctx := errgroup.WithContext(ctx)
	ctx, done := context.WithCancel(ctx)
	all.Go(func() error { return f.run(ctx) })
	all.Go(func() error {
		defer done()
		if err := s.warmUp(ctx, r); err != nil {
			return err
		}
		var err error
		if r.Config, err = s.configMaps(ctx, o.samples); err != nil {
			return err
		}
		for _, pods := range sizes {
			if err := s.rounds(ctx, r, pods, o.rounds); err != nil {
				return err
			}
		}
		return s.clear(ctx)
	})
	return r, all.Wait()
}

// layFloor makes all that must be there before the floor offloads.
func (s *benchEnv) layFloor(ctx context.Context) error {
	for _, step := range []struct {
		at   benchCluster
		args []string
	}{
		{s.provider, []string{"apply", "-f", "deploy/chart/crds/offloading.liqo.io_shadowpods.yaml"}},
		{s.provider, []string{"wait", shadowPodCRD, "--for=condition=Established", "--timeout=1m"}},
		{s.consumer, []string{"create", "namespace", s.namespace}},
		{s.provider, []string{"create", "namespace", s.twin}},
		{s.provider, []string{"wait", "serviceaccount/default", "-n", s.twin, "--for=create", "--timeout=1m"}},
	} {
		if _, err := step.at.Kubectl("", step.args...); err != nil {
			return err
		}
	}
	if err := s.reserve(ctx); err != nil {
		return err
	}
	if err := s.realNodes(ctx, s.consumer, "cordon"); err != nil {
		return err
	}
	nodes := s.consumer.api.CoreV1().Nodes()
	node, err := nodes.Create(ctx, floorNodeObject(), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making the node: %w", err)
	}
	node.ResourceVersion, node.Status = "", floorNodeObject().Status // controllers write it, too
	if _, err := nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("making the node ready: %w", err)
	}
	return nil
}

const shadowPodCRD = "crd/shadowpods.offloading.liqo.io"

// floorNodeObject is a node with room for all, whose taint the pods of the benchmark tolerate.
func floorNodeObject() *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("4Ti"), corev1.ResourcePods: resource.MustParse("2200"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: floorNode, Labels: map[string]string{"type": "kwok", corev1.LabelHostname: floorNode}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "kwok.x-k8s.io/node", Value: floorNode, Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Floor", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}},
		},
	}
}

// takeFloor takes all of it away again, and what the bursts of vanilla left. Pods whose node is gone go by themselves.
func (s *benchEnv) takeFloor(ctx context.Context) error {
	var errs []error
	for _, step := range []struct {
		at   benchCluster
		args []string
	}{
		{s.consumer, []string{"node/" + floorNode}},
		{s.consumer, []string{"lease/" + floorNode, "-n", corev1.NamespaceNodeLease}},
		{s.consumer, []string{"namespace/" + s.namespace}},
		{s.provider, []string{shadowPodCRD}},
		{s.provider, []string{"namespace/" + s.twin}},
		{s.provider, []string{"namespace/" + vanillaNamespace}},
	} {
		_, err := step.at.Kubectl("", append([]string{"delete", "--ignore-not-found"}, step.args...)...)
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.realNodes(ctx, s.consumer, "uncordon"), s.realNodes(ctx, s.provider, "uncordon"))...)
}
