// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/benchmark"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// BenchLabel marks the pods of a benchmark with their purpose.
const BenchLabel = "bench.liqo.io/pods"

// Values of BenchLabel.
const (
	benchServers  = "servers"
	benchMeasures = "measures"
	benchStarts   = "starts"
)

// benchPlaces are the nodes of a cluster with the pods of the paths. The pods of the tunnel are on the first node.
type benchPlaces [2]benchPlace

// choosePlaces returns the node from the flag, else the first schedulable node, and another node. A cluster with a single node has it twice.
func choosePlaces(p *testCluster, want string) (benchPlaces, error) {
	var all []string
	for i := range p.nodes {
		all = append(all, p.nodes[i].Name)
	}
	first := cmp.Or(want, all[0])
	if !slices.Contains(all, first) {
		return benchPlaces{}, ui.Fail("node %q does not exist, or takes no pods", first).Hint("These do: %s", strings.Join(all, ", "))
	}
	second := first
	if i := slices.IndexFunc(all, func(name string) bool { return name != first }); i >= 0 {
		second = all[i]
	}
	return benchPlaces{{p.ID, first}, {p.ID, second}}, nil
}

// choosePlaces chooses the nodes in both clusters.
func (b *bench) choosePlaces() error {
	if !b.measuresPaths() {
		return nil
	}
	for i, p := range b.allClusters() {
		var err error
		if b.places[i], err = choosePlaces(p, []string{b.node, b.remoteNode}[i]); err != nil {
			return p.WrapWithCluster(err)
		}
	}
	return nil
}

// newPlan returns the measurements of a client pod: the tunnel, and the direct path.
func (o *benchOptions) newPlan(l benchmark.Limits, token string, tunnel, direct netip.AddrPort) benchmark.Plan {
	return benchmark.Plan{Token: token, Limits: l, Targets: []string{tunnel.String(), direct.String()}, Streams: o.streams, RoundTrips: o.roundTrips}
}

// measurePaths measures first the paths to the consumer, and then the paths to the provider.
func (b *bench) measurePaths(ctx context.Context) error {
	clusters := b.allClusters()
	var servers [2][2]netip.Addr
	starting, within := errgroup.WithContext(ctx)
	for i, p := range clusters {
		if b.places[i][0] == b.places[i][1] {
			p.Warn("It has one node that takes pods: the path without tunnel is between two pods of the same node")
		}
		starting.Go(func() (err error) {
			step := p.Spin("Waiting for the pods that send")
			defer step.Stop()
			servers[i], err = b.startServers(within, p, b.places[i])
			return p.WrapWithCluster(err)
		})
	}
	if err := starting.Wait(); err != nil {
		return err
	}
	for i, p := range clusters {
		other := clusters[1-i]
		seen, ok := p.seen[other.ID].ToLocal(servers[1-i][0])
		if !ok {
			return other.WrapWithCluster(ui.Fail("its pod has the address %s, which is in no network that %s knows of", servers[1-i][0], p.ID).
				Hint("The Configuration of %s in %s lacks a network of pods", other.ID, p.ID))
		}
		plan := b.newPlan(b.limit, b.token, netip.AddrPortFrom(seen, serverPort), netip.AddrPortFrom(servers[i][1], serverPort))
		results, err := b.measureFrom(ctx, p, b.places[i][0], plan)
		if err != nil {
			return p.WrapWithCluster(err)
		}
		b.report.Paths = append(b.report.Paths,
			newBenchPath(pathTunnel, b.places[1-i][0], b.places[i][0], b.streams, results[0]), newBenchPath(pathDirect, b.places[i][1], b.places[i][0], b.streams, results[1]))
	}
	return b.report.pathError()
}

// pathError returns the failures of paths with an error.
func (r *benchReport) pathError() error {
	var errs []error
	for _, p := range r.Paths {
		if p.Error == "" {
			continue
		}
		f := ui.Fail("from %s to %s: %s", p.From, p.To, p.Error)
		if p.Path == pathTunnel {
			f.Hint("liqoctl test network tries the paths between all nodes").See("docs/troubleshooting.md#by-symptom-between-clusters")
		}
		errs = append(errs, f)
	}
	return errors.Join(errs...)
}

// startServers starts the sending pods in a cluster, and returns their addresses.
func (b *bench) startServers(ctx context.Context, p *testCluster, places benchPlaces) (at [2]netip.Addr, err error) {
	if err := b.awaitAccount(ctx, p); err != nil {
		return at, err
	}
	for i, place := range places {
		pod := b.newBenchPod(p, fmt.Sprintf("server-%d", i), benchServers, b.timeout+removalTimeout)
		pod.Labels[names.ReachableFromPeers] = "true"
		pod.Spec.Affinity = onNode(place.Node)
		pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(serverPort)}},
			PeriodSeconds: 1, TimeoutSeconds: 5,
		}
		if err := b.ensureMade(ctx, p, pod); err != nil {
			return at, err
		}
	}
	its := []client.ListOption{client.InNamespace(p.askers), client.MatchingLabels{BenchLabel: benchServers}}
	err = awaitReady(ctx, p, its, func(pods []corev1.Pod) error {
		if len(pods) != len(places) {
			return ui.Fail("%d pods that send exist instead of %d: another client created or deleted some", len(pods), len(places))
		}
		slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
		for i := range pods {
			at[i], _ = netip.ParseAddr(pods[i].Status.PodIP) // awaitReady waits for an address
		}
		return nil
	})
	return at, err
}

// newBenchPod returns a pod that sends to clients with the token, and ends by itself after a time.
func (b *bench) newBenchPod(p *testCluster, name, label string, ends time.Duration) *corev1.Pod {
	pod := b.newPod(p.askers, name, p.image, "bench", "serve", "--token", b.token)
	pod.Labels[BenchLabel] = label
	pod.Spec.ActiveDeadlineSeconds = new(int64(ends.Seconds()) + 1)
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	b.SetCommonMetadata(pod)
	return pod
}

// measureFrom runs a plan in a pod on a node, and returns the results of its targets.
func (b *bench) measureFrom(ctx context.Context, p *testCluster, place benchPlace, plan benchmark.Plan) (results []benchmark.Measured, err error) {
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	pod := b.newBenchPod(p, "client", benchMeasures, b.timeout+removalTimeout)
	pod.Spec.Containers[0].Args = []string{"bench", "measure", string(text)}
	pod.Spec.Affinity = onNode(place.Node)
	step := p.Spin(fmt.Sprintf("Measuring on node %s for %s", place.Node, plan.Time().Round(time.Second)))
	defer step.Stop()
	if err := b.ensureMade(ctx, p, pod); err != nil {
		return nil, err
	}
	err = kube.WaitForReady(ctx, p.Kube, pod, func(_ context.Context, pod *corev1.Pod) error {
		message, ended := terminationMessage(pod)
		if !ended {
			return measuresStill(pod)
		}
		if pod.Status.Phase == corev1.PodFailed {
			return ui.Fail("the pod that measures failed: %s", cmp.Or(message, "it ended without a word"))
		}
		if results, err = plan.ParseResults(message); err != nil {
			return ui.Fail("the pod that measures failed: %w", err)
		}
		return nil
	})
	return results, err
}

// measuresStill returns a Pending until a measuring pod has ended.
func measuresStill(pod *corev1.Pod) error {
	if pod.Status.Phase == corev1.PodRunning {
		return kube.Pending("pod " + pod.Name + " still measures")
	}
	return checkStarting(pod)
}
