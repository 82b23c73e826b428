// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/podpage"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
)

// probeTime bounds the probes of one end: agents wait two seconds for answers.
const probeTime = 8 * time.Second

// probeSender has nodes and gateways send probes, each once, and adds the results to scenes.
type probeSender struct {
	// newReader returns the reader of pages of pods; nil for podpage.NewReader.
	newReader func(*cluster.Cluster, kubernetes.Interface) *podpage.Reader
	// limit bounds the probes of one end, probeTime if 0.
	limit time.Duration
	// problem is the first reason why a hop was not probed.
	problem string
}

// sendFrom has the node of an end and the gateway to the other cluster send probes.
func (p *probeSender) sendFrom(ctx context.Context, c *cluster.Cluster, end *diagnose.End, other liqov1beta1.ClusterID) {
	s := end.Scene
	node := ""
	if end.Pod != nil {
		node = end.Pod.Spec.NodeName
	}
	_, nodeKnown := s.NodeProbes[node]
	_, gatewayKnown := s.GatewayProbes[string(other)]
	if gatewayKnown && (nodeKnown || node == "") {
		return
	}
	if s.NodeProbes == nil {
		s.NodeProbes, s.GatewayProbes = map[string][]plan.ProbeResult{}, map[string][]plan.ProbeResult{}
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(p.limit, probeTime))
	defer cancel()
	var byNode, byGateway []plan.ProbeResult
	var nodeFailed, gatewayFailed error
	read, err := p.newPageReader(ctx, c, s.Facts.Namespace)
	if err == nil {
		var asking sync.WaitGroup
		if i := slices.IndexFunc(s.Fabric, func(pod corev1.Pod) bool { return pod.Spec.NodeName == node }); i >= 0 && !nodeKnown {
			asking.Go(func() { byNode, nodeFailed = read(&s.Fabric[i]) })
		}
		if !gatewayKnown {
			asking.Go(func() {
				gateway, err := findGateway(ctx, c.Kube, s, other)
				if err == nil && gateway != nil {
					byGateway, err = read(gateway)
				}
				gatewayFailed = err
			})
		}
		asking.Wait()
	}
	if !nodeKnown {
		s.NodeProbes[node] = byNode
	}
	if !gatewayKnown {
		s.GatewayProbes[string(other)] = byGateway
	}
	for _, err := range []error{err, nodeFailed, gatewayFailed} {
		if err != nil {
			p.problem = cmp.Or(p.problem, cluster.DescribeError(err))
		}
	}
}

// newPageReader returns a function that has the agent in a pod send probes.
func (p *probeSender) newPageReader(ctx context.Context, c *cluster.Cluster, namespace string) (func(*corev1.Pod) ([]plan.ProbeResult, error), error) {
	clients, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	token, err := podpage.RequestToken(ctx, clients, namespace)
	if err != nil {
		return nil, err
	}
	pages := podpage.NewReader(c.Config, clients)
	if p.newReader != nil {
		pages = p.newReader(c, clients)
	}
	return func(pod *corev1.Pod) (out []plan.ProbeResult, err error) {
		port := podpage.MetricsPort(pod)
		if port == 0 {
			return nil, fmt.Errorf("pod %s/%s has no port for metrics: it is of an older version, or its template has none", pod.Namespace, pod.Name)
		}
		text, err := readFreePage(ctx, pages, pod, port, token)
		if err != nil {
			return nil, fmt.Errorf("asking pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		if json.Unmarshal([]byte(text), &out) != nil {
			return nil, errors.New("asking pod " + pod.Namespace + "/" + pod.Name + ": its version sends no probes on request")
		}
		return out, nil
	}, nil
}

// readFreePage requests probes of the agent in a pod, and asks once more if the agent is busy with probes.
func readFreePage(ctx context.Context, pages *podpage.Reader, pod *corev1.Pod, port int32, token string) (string, error) {
	text, err := pages.ReadPage(ctx, pod, port, names.ProbePath, token)
	busy, ok := errors.AsType[*podpage.BusyError](err)
	if !ok {
		return text, err
	}
	wait := time.NewTimer(busy.After)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return "", err
	case <-wait.C:
		return pages.ReadPage(ctx, pod, port, names.ProbePath, token)
	}
}

// findGateway returns the pod of the active gateway to a peer, nil if none runs.
func findGateway(ctx context.Context, c client.Reader, s *diagnose.Scene, other liqov1beta1.ClusterID) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.MatchingLabels{
		names.NetworkingComponent: names.ComponentGateway, names.GatewayActive: "true", names.RemoteClusterID: string(other),
	}); err != nil {
		return nil, fmt.Errorf("listing pods of gateways: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		foreign := pod.Labels[names.ManagedBy] == names.ManagedByShadowPod || pod.Labels[names.ShadowPod] != ""
		owned := slices.ContainsFunc(s.Servers, func(g networkingv1beta1.GatewayServer) bool { return g.Namespace == pod.Namespace }) ||
			slices.ContainsFunc(s.Clients, func(g networkingv1beta1.GatewayClient) bool { return g.Namespace == pod.Namespace })
		if owned && !foreign && pod.Status.Phase == corev1.PodRunning {
			return pod, nil
		}
	}
	return nil, nil
}
