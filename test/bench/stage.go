// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/figures"
)

// benchCluster is one cluster with a client that nothing slows down.
type benchCluster struct {
	*clusters.Cluster
	api kubernetes.Interface
}

// benchEnv is two clusters and a namespace that reaches from one into the other.
type benchEnv struct {
	playground         playground
	consumer, provider benchCluster
	namespace, twin    string
	peering            *clusters.Peering // nil where Liqo is not installed
	idleCPU            float64           // of everything, in CPU seconds per second
}

type podNamespace struct {
	side      benchCluster
	namespace string
}

// places are where pods come to be.
func (s *benchEnv) places() []podNamespace {
	return []podNamespace{{s.provider, vanillaNamespace}, {s.consumer, s.namespace}, {s.provider, s.twin}}
}

const vanillaNamespace = "bench-vanilla"

// newBenchClusters finds both clusters.
func newBenchClusters(p playground) (*benchEnv, error) {
	s := &benchEnv{playground: p}
	var err error
	if s.consumer, err = p.side("cl-consumer", consumerName); err != nil {
		return nil, err
	}
	s.provider, err = p.side("cl-provider", providerName)
	return s, err
}

// newBenchEnv installs and peers, or finds that this was done.
func newBenchEnv(ctx context.Context, p playground) (*benchEnv, error) {
	s, err := newBenchClusters(p)
	if err != nil {
		return nil, err
	}
	if err := s.realNodes(ctx, s.provider, "uncordon"); err != nil { // of an earlier run
		return nil, err
	}
	for _, c := range []benchCluster{s.consumer, s.provider} {
		if err := c.Install(); err != nil {
			return nil, err
		}
	}
	if s.peering, err = clusters.NewPeering(ctx, s.consumer.Cluster, s.provider.Cluster, "bench"); err != nil {
		return nil, err
	}
	s.namespace, s.twin = s.peering.Namespace, s.peering.Twin()
	s.peering.CPU, s.peering.Memory, s.peering.Pods, s.peering.Strategy = "1000", "4Ti", "2200", "Remote"
	if err := s.peer(); err != nil {
		return nil, err
	}
	return s, s.reserve(ctx)
}

func (p playground) side(id, name string) (benchCluster, error) {
	c, err := clusters.New(id, p.path("clusters", name, "admin.kubeconfig"))
	if err != nil {
		return benchCluster{}, err
	}
	config := rest.CopyConfig(c.Config)
	config.QPS, config.UserAgent = -1, agent
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	api, err := kubernetes.NewForConfig(config)
	return benchCluster{Cluster: c, api: api}, err
}

func (s *benchEnv) peer() error {
	docs, err := s.peering.Documents()
	if err != nil {
		return err
	}
	for _, d := range docs {
		at := s.consumer
		if d.Cluster == s.provider.ID {
			at = s.provider
		}
		if _, err := at.Kubectl(d.Manifest, "apply", "-f", "-"); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"wait", "node/" + s.peering.Slice, "--for=create", "--timeout=2m"},
		{"wait", "node/" + s.peering.Slice, "--for=condition=Ready", "--timeout=2m"},
		{"wait", "namespaceoffloading/offloading", "-n", s.peering.Namespace, "--for=jsonpath={.status.offloadingPhase}=Ready", "--timeout=2m"},
	} {
		if _, err := s.consumer.Kubectl("", args...); err != nil {
			return err
		}
	}
	return nil
}

// reserve leaves only simulated nodes to new pods of the provider, and makes the namespace of the bursts there.
func (s *benchEnv) reserve(ctx context.Context) error {
	if err := s.realNodes(ctx, s.provider, "cordon"); err != nil {
		return err
	}
	_, err := s.provider.api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: vanillaNamespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the namespace of the bursts: %w", err)
	}
	return nil
}

// realNodes cordons or uncordons the nodes of a cluster that are not simulated.
func (s *benchEnv) realNodes(ctx context.Context, of benchCluster, verb string) error {
	nodes, err := of.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "type!=kwok"})
	if err != nil {
		return fmt.Errorf("listing the nodes of %s: %w", of.ID, err)
	}
	for _, node := range nodes.Items {
		if _, err := of.Kubectl("", verb, node.Name); err != nil {
			return err
		}
	}
	return nil
}

// our tells whether a role is one of our processes.
func our(role string) bool {
	return slices.ContainsFunc([]string{"virtual-kubelet", " controller-manager", "liqo-controller-manager", "crd-replicator"}, func(program string) bool {
		return strings.HasSuffix(role, program)
	})
}

// virtualKubelet is the process of the one virtual kubelet, 0 if it does not run.
func virtualKubelet(processes []process) int {
	for _, p := range processes {
		if strings.HasSuffix(p.Role, "virtual-kubelet") {
			return p.PID
		}
	}
	return 0
}

const idleTime = 30 * time.Second

// idle measures what everybody uses while nobody asks for anything: in millicores, by process of ours. The rest of the
// machine's idling becomes the zero of later figures.
func (s *benchEnv) idle(ctx context.Context) (map[string]float64, error) {
	before, err := s.playground.processes()
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(idleTime):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	after, err := s.playground.processes()
	if err != nil {
		return nil, err
	}
	used := minus(cpu(after), cpu(before))
	s.idleCPU = max(sum(used), 0) / idleTime.Seconds()
	out := map[string]float64{}
	for role, seconds := range used {
		if our(role) {
			out[role] = seconds / idleTime.Seconds() * 1000
		}
	}
	return out, nil
}

// probe begins the names of the ConfigMaps that are measured.
const probe = "probe-"

// configMaps measures how long it takes until a new ConfigMap is seen in the provider.
func (s *benchEnv) configMaps(ctx context.Context, samples int) (figures.Spread, error) {
	near, far := s.consumer.api.CoreV1().ConfigMaps(s.namespace), s.provider.api.CoreV1().ConfigMaps(s.twin)
	list, err := far.List(ctx, metav1.ListOptions{})
	if err != nil {
		return figures.Spread{}, fmt.Errorf("listing ConfigMaps: %w", err)
	}
	w, err := far.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return figures.Spread{}, fmt.Errorf("watching ConfigMaps: %w", err)
	}
	defer w.Stop()
	var took []time.Duration
	for i := range samples {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf(probe+"%d", i)}, Data: map[string]string{"key": "value"}}
		started := time.Now()
		if _, err := near.Create(ctx, cm, metav1.CreateOptions{}); err != nil {
			return figures.Spread{}, fmt.Errorf("creating a ConfigMap: %w", err)
		}
		if err := seen(ctx, w.ResultChan(), cm.Name); err != nil {
			return figures.Spread{}, err
		}
		took = append(took, time.Since(started))
		if err := near.Delete(ctx, cm.Name, metav1.DeleteOptions{}); err != nil {
			return figures.Spread{}, fmt.Errorf("deleting a ConfigMap: %w", err)
		}
		time.Sleep(30 * time.Millisecond) // idle is what is asked for
	}
	return figures.SpreadOf(took), nil
}

// seen waits until a watch tells of a new object.
func seen(ctx context.Context, events <-chan watch.Event, name string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		select {
		case event, ok := <-events:
			if !ok {
				return errors.New("the watch of the ConfigMaps ended")
			}
			if cm, isOne := event.Object.(*corev1.ConfigMap); isOne && event.Type == watch.Added && cm.Name == name {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("waiting for ConfigMap %s: %w", name, ctx.Err())
		}
	}
}

// restart is what happens when the virtual kubelet starts with pods there.
type restart struct {
	Pods int `json:"pods"`
	// Ready is the time from the start of the process to the readiness of its pod, Works to the offloading of a new pod.
	Ready  float64        `json:"readySeconds"`
	Works  float64        `json:"worksSeconds"`
	Writes map[string]int `json:"redundantWrites"`
}

// restart lets the virtual kubelet start anew, asks for one more pod at once, and looks at what was written meanwhile.
func (s *benchEnv) restart(ctx context.Context, pods int) (*restart, error) {
	near, err := watchPods(ctx, s.consumer.api, s.peering.Namespace)
	if err != nil {
		return nil, err
	}
	defer near.close()
	kubelets, err := watchPods(ctx, s.consumer.api, s.peering.ConsumerTenant)
	if err != nil {
		return nil, err
	}
	defer kubelets.close()
	from, err := s.playground.mark()
	if err != nil {
		return nil, err
	}
	started, err := s.renewKubelet(ctx)
	if err != nil {
		return nil, err
	}
	old := map[string]bool{}
	near.mu.Lock()
	for pod := range near.there {
		old[pod] = true
	}
	near.mu.Unlock()
	if _, err := s.consumer.Kubectl("", "scale", "deployment", name, "-n", s.peering.Namespace, fmt.Sprintf("--replicas=%d", pods+1)); err != nil {
		return nil, err
	}
	r := &restart{Pods: pods}
	if err := near.allReady(ctx, pods+1); err != nil {
		return nil, err
	}
	r.Works = time.Since(started).Seconds()
	err = kubelets.until(ctx, "the new virtual kubelet to be ready", func(_ map[string]bool, ready map[string]time.Time) bool {
		for _, at := range ready {
			r.Ready = at.Sub(started).Seconds()
		}
		return r.Ready > 0
	})
	if err != nil {
		return nil, err
	}
	time.Sleep(settling)
	requests, err := s.playground.since(from)
	if err != nil {
		return nil, err
	}
	r.Writes = tally(slices.DeleteFunc(requests, func(q request) bool { return !q.redundant(old) }))
	return r, nil
}

// redundant tells whether a request of ours writes to what was there before, and so was right already.
func (r request) redundant(old map[string]bool) bool {
	switch r.Object.Resource {
	case "pods", "shadowpods":
		return r.ours() && r.writes() && old[r.Object.Name]
	case "configmaps", "secrets", "nodes", "namespaces", "namespacemaps", "virtualnodes":
		return r.ours() && r.writes()
	}
	return false
}

// renewKubelet ends the process of the virtual kubelet, whose pod stays and gets another, and returns when that started.
func (s *benchEnv) renewKubelet(ctx context.Context) (time.Time, error) {
	before, err := s.playground.processes()
	if err != nil {
		return time.Time{}, err
	}
	old := virtualKubelet(before)
	if old == 0 {
		return time.Time{}, errors.New("no virtual kubelet runs")
	}
	if err := syscall.Kill(old, syscall.SIGTERM); err != nil {
		return time.Time{}, fmt.Errorf("ending the virtual kubelet: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, limit, true, func(context.Context) (bool, error) {
		now, err := s.playground.processes()
		return slices.ContainsFunc(now, func(p process) bool { return strings.HasSuffix(p.Role, "virtual-kubelet") && p.PID != old }), err
	})
	return time.Now(), err
}
