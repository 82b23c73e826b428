// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/podpage"
	"liqo.io/liqo/internal/names"
)

// logLimit bounds the log of one container. The end of the log is kept.
const logLimit = 4 << 20

// readTimeout bounds the reading of one page or log.
const readTimeout = 30 * time.Second

// parallelPods are how many pods are read at the same time.
const parallelPods = 8

// findPods returns the pods of the installation, and the pods of gateways and virtual kubelets, in namespaces with a gateway or VirtualNode. Users
// may give any label to a pod of their own: a pod that runs in a provider, or a pod of a consumer, is no pod of Liqo.
func (g *gatherer) findPods(ctx context.Context) (pods []corev1.Pod) {
	owners := map[string][]string{}
	for component, lists := range map[string][]client.ObjectList{
		names.NetworkingComponent: {&networkingv1beta1.GatewayServerList{}, &networkingv1beta1.GatewayClientList{}},
		names.OffloadingComponent: {&offv1beta1.VirtualNodeList{}},
	} {
		for _, list := range lists {
			if err := g.client.List(ctx, list); err != nil {
				g.archive.addProblem("owners of pods of Liqo: %s", cluster.DescribeError(err))
			}
			for _, owner := range cluster.ItemsOf(list) {
				owners[component] = append(owners[component], owner.GetNamespace())
			}
		}
	}
	for _, of := range []struct {
		selector   client.ListOption
		namespaces []string
	}{
		{client.InNamespace(g.namespace), []string{g.namespace}},
		{client.MatchingLabels{names.NetworkingComponent: names.ComponentGateway}, owners[names.NetworkingComponent]},
		{client.MatchingLabels{names.OffloadingComponent: names.ComponentVirtualKubelet}, owners[names.OffloadingComponent]},
	} {
		var list corev1.PodList
		if err := g.client.List(ctx, &list, of.selector); err != nil {
			g.archive.addProblem("pods of Liqo: %s", cluster.DescribeError(err))
		}
		for _, pod := range list.Items {
			known := slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.UID == pod.UID })
			foreign := pod.Labels[names.ManagedBy] == names.ManagedByShadowPod || pod.Labels[names.ShadowPod] != ""
			if !known && !foreign && slices.Contains(of.namespaces, pod.Namespace) {
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

// found is the data of a pod: files in order, or problems with missing files.
type found struct {
	files    []foundFile
	problems []string
	// silent is set if the kubelet of the pod does not answer.
	silent bool
}

type foundFile struct {
	name string
	data []byte
	// cut is set if the beginning is missing.
	cut bool
}

func (f *found) addProblem(format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

// gatherPods adds the pages and logs of pods. Pages are first: logs take the rest of --max-size.
func (g *gatherer) gatherPods(ctx context.Context, pods []corev1.Pod) error {
	token, err := podpage.RequestToken(ctx, g.clients, g.namespace)
	if err != nil {
		g.archive.addProblem("metrics and network state: %s", cluster.DescribeError(err))
	}
	silent := map[string]bool{} // nodes
	if token != "" {
		if err := g.readPods(ctx, pods, silent, func(ctx context.Context, pod *corev1.Pod, to *found) { g.gatherPages(ctx, pod, token, to) }); err != nil {
			return err
		}
	}
	return g.readPods(ctx, pods, silent, g.gatherLogs)
}

// readPods reads some pods at a time, and adds the results to the archive. If the kubelet of a node does not answer, further pods of the node are
// left out.
func (g *gatherer) readPods(ctx context.Context, pods []corev1.Pod, silent map[string]bool, read func(context.Context, *corev1.Pod, *found)) error {
	for batch := range slices.Chunk(pods, parallelPods) {
		results := make([]found, len(batch))
		var reading sync.WaitGroup
		for i := range batch {
			if silent[batch[i].Spec.NodeName] {
				results[i].addProblem("pod %s/%s: the kubelet of node %s does not answer", batch[i].Namespace, batch[i].Name, batch[i].Spec.NodeName)
				continue
			}
			reading.Go(func() { read(ctx, &batch[i], &results[i]) })
		}
		reading.Wait()
		if err := ctx.Err(); err != nil {
			return err
		}
		for i, result := range results {
			silent[batch[i].Spec.NodeName] = silent[batch[i].Spec.NodeName] || result.silent
			for _, problem := range result.problems {
				g.archive.addProblem("%s", problem)
			}
			for _, file := range result.files {
				if err := g.archive.addEnd(file.name, file.data, file.cut); err != nil {
					return err
				}
			}
		}
		if g.archive.left == 0 {
			g.archive.addProblem("--max-size is reached: further pods are left out")
			return nil
		}
	}
	return nil
}

// gatherLogs reads the logs of the containers of a pod, now and before their last restart.
func (g *gatherer) gatherLogs(ctx context.Context, pod *corev1.Pod, to *found) {
	since := max(1, int64(g.since.Seconds()))
	for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		for _, previous := range []bool{false, true} {
			if previous && status.RestartCount == 0 || !previous && status.State.Waiting != nil && status.RestartCount == 0 {
				continue
			}
			name := path.Join("logs", pod.Namespace, pod.Name, status.Name+".log")
			options := &corev1.PodLogOptions{Container: status.Name, Previous: previous, Timestamps: true, SinceSeconds: &since}
			if previous {
				name, options.SinceSeconds = path.Join("logs", pod.Namespace, pod.Name, status.Name+".previous.log"), nil
			}
			text, cut, err := g.readLog(ctx, pod, options)
			if err != nil {
				to.addProblem("%s: %s", name, cluster.DescribeError(err))
				to.silent = to.silent || errors.Is(err, context.DeadlineExceeded)
			}
			if len(text) > 0 {
				to.files = append(to.files, foundFile{name, []byte(redactText(string(text))), cut})
			}
		}
	}
}

// readLogEnd returns the end of a log, and whether the beginning is missing.
func (g *gatherer) readLogEnd(ctx context.Context, pod *corev1.Pod, options *corev1.PodLogOptions) (text []byte, cut bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	stream, err := g.clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		return nil, false, err
	}
	defer stream.Close()
	return keepEnd(stream, logLimit)
}

// keepEnd reads a stream, and returns the last bytes, from the beginning of a line.
func keepEnd(stream io.Reader, limit int) (text []byte, cut bool, err error) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := stream.Read(chunk)
		text = append(text, chunk[:n]...)
		if len(text) > 2*limit {
			text, cut = append([]byte{}, text[len(text)-limit:]...), true
		}
		if err != nil {
			if len(text) > limit {
				text, cut = text[len(text)-limit:], true
			}
			if i := bytes.IndexByte(text, '\n'); cut && i >= 0 {
				text = text[i+1:]
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return text, cut, err
		}
	}
}

// gatherPages reads the metrics of a pod and, of a node or a gateway, the state of the network.
func (g *gatherer) gatherPages(ctx context.Context, pod *corev1.Pod, token string, to *found) {
	agent := pod.Labels[names.AppName] == names.TargetFabric || pod.Labels[names.NetworkingComponent] == names.ComponentGateway
	port := podpage.MetricsPort(pod)
	switch {
	case pod.Status.Phase != corev1.PodRunning:
		return
	case port == 0:
		if agent {
			to.addProblem("network state of %s/%s: it has no port for metrics: it is of an older version, or its template has none", pod.Namespace, pod.Name)
		}
		return
	}
	pages := []struct{ page, folder string }{{"/metrics", "metrics"}}
	if agent {
		pages = append(pages, struct{ page, folder string }{names.NetworkStatePath, "network"})
	}
	for _, p := range pages {
		name := path.Join(p.folder, pod.Namespace, pod.Name+".txt")
		text, err := g.readPageInTime(ctx, pod, port, p.page, token)
		if err != nil {
			to.addProblem("%s: %s", name, cluster.DescribeError(err))
			to.silent = errors.Is(err, context.DeadlineExceeded)
			return
		}
		to.files = append(to.files, foundFile{name: name, data: []byte(redactText(text))})
	}
}

// readPageInTime is readPage with a time limit.
func (g *gatherer) readPageInTime(ctx context.Context, pod *corev1.Pod, port int32, page, token string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return g.readPage(ctx, pod, port, page, token)
}
