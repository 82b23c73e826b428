// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/prefix"
	"liqo.io/liqo/internal/probe"
)

// planClients finds the pods, Services and addresses to check, and returns the client pods with their checks.
func (t *networkTest) planClients(ctx context.Context) ([]*clientPod, error) {
	var list corev1.PodList
	if err := t.consumer.Kube.List(ctx, &list, client.InNamespace(t.consumer.servers), client.HasLabels{ServerLabel}); err != nil {
		return nil, t.consumer.WrapWithCluster(fmt.Errorf("reading the pods to ask: %w", err))
	}
	servers := make([][]serverPod, len(t.providers))
	for n := range t.providers {
		var err error
		if servers[n], err = t.serverPods(ctx, n, list.Items); err != nil {
			return nil, err
		}
	}
	if err := t.exposeAll(ctx, servers); err != nil {
		return nil, err
	}
	var clients []*clientPod
	for n, provider := range t.providers {
		clients = append(clients, planChecks(t.testNetworkOptions, [2]*testCluster{t.consumer, provider}, servers[n], t.exposures[n])...)
	}
	if t.ip {
		its, err := t.planShown()
		if err != nil {
			return nil, err
		}
		clients = append(clients, its...)
	}
	return mergeClients(clients), nil
}

// exposeAll finds the addresses of all Services, and waits for their endpoints concurrently.
func (t *networkTest) exposeAll(ctx context.Context, servers [][]serverPod) error {
	t.exposures = make([]map[*testCluster]exposure, len(t.providers))
	finding, within := errgroup.WithContext(ctx)
	var mu sync.Mutex
	for n, provider := range t.providers {
		t.exposures[n] = map[*testCluster]exposure{}
		for _, p := range []*testCluster{t.consumer, provider} {
			if t.basic {
				continue
			}
			finding.Go(func() error {
				e, err := t.exposeServers(within, p, n, servers[n])
				mu.Lock()
				defer mu.Unlock()
				t.exposures[n][p] = e
				return err
			})
		}
	}
	return finding.Wait()
}

// planOutside returns the checks that run on this machine.
func (t *networkTest) planOutside(ctx context.Context) (checks []*check, err error) {
	if t.loadBalancer {
		t.findLoadBalancers(ctx)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("waiting for load balancers: %w", ctx.Err())
	}
	for n, provider := range t.providers {
		pair := [2]*testCluster{t.consumer, provider}
		for i, p := range pair {
			if !t.nodePortOutside {
				break
			}
			within := t.exposures[n][p].leaveOut(pair[1-i].seen[p.ID].networks, sourceTo)
			if within > 0 && (n == 0 || p == provider) {
				p.Warn("NodePorts with policy Local are not tried of %d nodes: this machine is one of them, or has an address of pods", within)
			}
		}
		checks = append(checks, planOutside(t.testNetworkOptions, pair, t.exposures[n])...)
	}
	return checks, nil
}

// leaveOut removes the nodes for which this machine is a local client: the source address is the address of the node or of a pod. Depending on its
// proxy, such a node may answer as with policy Cluster. leaveOut returns the number of removed nodes.
func (e exposure) leaveOut(networks []prefix.Pair, source func(address string) netip.Addr) (nodes int) {
	for i := range e.of.reached {
		node := &e.of.reached[i]
		if len(e.own[node.Name]) == 0 {
			continue
		}
		from := source(externalAddress(node))
		if slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Address == from.String() }) ||
			slices.ContainsFunc(networks, func(n prefix.Pair) bool { return n.Remote.Contains(from) }) {
			delete(e.own, node.Name)
			nodes++
		}
	}
	return nodes
}

// sourceTo returns the source address of this machine for a destination, without sending a packet.
func sourceTo(address string) netip.Addr {
	conn, err := net.Dial("udp", HostPort(address, servicePort))
	if err != nil {
		return netip.Addr{} // the check itself reports the error
	}
	defer conn.Close()
	addr, _ := netip.ParseAddrPort(conn.LocalAddr().String())
	return addr.Addr().Unmap()
}

// findLoadBalancers waits for the load balancers of all clusters concurrently. The check of a missing load balancer fails.
func (t *networkTest) findLoadBalancers(ctx context.Context) {
	step := t.Spin("Waiting for load balancers")
	defer step.Stop()
	within, cancel := context.WithTimeout(ctx, balancerTimeout)
	defer cancel()
	var mu sync.Mutex
	var waiting sync.WaitGroup
	for n, services := range t.exposures {
		for p, service := range maps.Clone(services) {
			waiting.Go(func() {
				service.loadBalancer, service.err = p.awaitLoadBalancer(within, client.ObjectKey{Namespace: p.servers, Name: serviceName(n)})
				mu.Lock()
				defer mu.Unlock()
				services[p] = service
			})
		}
	}
	waiting.Wait()
}

// serverPods returns the server pods of the consumer and of its n-th provider.
func (t *networkTest) serverPods(ctx context.Context, n int, pods []corev1.Pod) (all []serverPod, err error) {
	provider := t.providers[n]
	places, err := provider.podNodes(ctx)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		pod := &pods[i]
		s := serverPod{name: pod.Name, of: t.consumer, node: pod.Spec.NodeName, at: map[string]string{}}
		switch pod.Labels[ServerLabel] {
		case "0":
			addr, err := netip.ParseAddr(pod.Status.PodIP)
			if err != nil {
				return nil, t.consumer.WrapWithCluster(fmt.Errorf("reading the address of pod %s: %w", pod.Name, err))
			}
			seen, ok := provider.seen[t.consumer.ID].ToLocal(addr)
			if !ok {
				return nil, t.consumer.WrapWithCluster(ui.Fail("pod %s has the address %s, which is in no network that %s knows of", pod.Name, addr, provider.ID).
					Hint("The Configuration of %s in %s lacks a network of pods", t.consumer.ID, provider.ID))
			}
			s.at[provider.ID] = seen.String()
		case strconv.Itoa(n + 1):
			s.of, s.node, s.at[t.consumer.ID] = provider, places[pod.Name], pod.Status.PodIP
		default:
			continue
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b serverPod) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

// podNodes maps the names of the pods in the namespace offloaded to a provider, where they have the same names, to their nodes.
func (p *testCluster) podNodes(ctx context.Context) (map[string]string, error) {
	var list corev1.PodList
	if err := p.Kube.List(ctx, &list, client.InNamespace(p.servers)); err != nil {
		return nil, p.WrapWithCluster(fmt.Errorf("reading where the pods to ask are: %w", err))
	}
	on := map[string]string{}
	for i := range list.Items {
		on[list.Items[i].Name] = list.Items[i].Spec.NodeName
	}
	return on, nil
}

// exposeServers finds the addresses of the Services of the n-th provider in a cluster, and waits for all endpoints concurrently.
func (t *networkTest) exposeServers(ctx context.Context, p *testCluster, n int, servers []serverPod) (exposure, error) {
	e := exposure{of: p, name: hostOf(serviceName(n), p), headless: hostOf(headlessName(n), p), own: map[string][]string{}}
	for _, s := range servers {
		e.answers = append(e.answers, s.name)
		if s.of == p && s.node != "" {
			e.own[s.node] = append(e.own[s.node], s.name)
		}
	}
	step := p.Spin("Waiting for the endpoints of the Services " + serviceName(n))
	defer step.Stop()
	waiting, within := errgroup.WithContext(ctx)
	for _, one := range t.servicesOf(n) {
		waiting.Go(func() error {
			service, err := t.awaitEndpoints(within, p, one.Name, len(servers))
			if err != nil || len(service.Spec.Ports) == 0 {
				return err
			}
			switch port := service.Spec.Ports[0].NodePort; one.Name { // each Service sets another field
			case serviceName(n):
				e.nodePort = port
			case localName(n):
				e.localPort = port
			}
			return nil
		})
	}
	err := waiting.Wait()
	return e, err
}

func hostOf(service string, in *testCluster) string {
	return fmt.Sprintf("%s.%s.svc", service, in.servers)
}

// errEnough ends a wait after a failed check.
var errEnough = errors.New("something failed")

// askInside creates all client pods concurrently, and reads their results.
func (t *networkTest) askInside(ctx context.Context, clients []*clientPod) error {
	of := map[*testCluster][]*clientPod{}
	for _, a := range clients {
		of[a.of] = append(of[a.of], a)
	}
	asking, within := errgroup.WithContext(ctx)
	for p, its := range of {
		asking.Go(func() error { return p.WrapWithCluster(t.askFrom(within, p, its)) })
	}
	err := asking.Wait()
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// askFrom runs the client pods of one cluster.
func (t *networkTest) askFrom(ctx context.Context, p *testCluster, clients []*clientPod) error {
	if err := t.awaitAccount(ctx, p); err != nil {
		return err
	}
	open := map[string]*clientPod{}
	for _, a := range clients {
		pod, err := a.newPod()
		if err != nil {
			return err
		}
		t.SetCommonMetadata(pod)
		if err := t.ensureMade(ctx, p, pod); err != nil {
			return err
		}
		open[a.name] = a
	}
	what := kube.Watched{List: &corev1.PodList{}, Opts: []client.ListOption{client.InNamespace(p.askers), client.HasLabels{AskerLabel}}}
	step := p.Spin(fmt.Sprintf("%d pods ask", len(clients)))
	defer step.Stop()
	return kube.WaitUntil(ctx, p.Kube, func(ctx context.Context) error {
		var list corev1.PodList
		if err := p.Kube.List(ctx, &list, what.Opts...); err != nil {
			return err
		}
		var why, stuck error
		found := 0
		for i := range list.Items {
			pod := &list.Items[i]
			a := open[pod.Name]
			if a == nil {
				continue
			}
			if found++; !a.hasAnswered(pod) {
				why = asksStill(pod)
				if _, waits := errors.AsType[kube.Pending](why); !waits {
					stuck = why
				}
				continue
			}
			delete(open, pod.Name)
			found--
			if t.FailFast && anyFailed(a.checks) {
				return errEnough
			}
		}
		if stuck != nil { // the results of all remaining pods are complete
			return stuck
		}
		if found < len(open) {
			return ui.Fail("client pods were deleted while waiting")
		}
		return why
	}, what)
}

// asksStill returns a Pending until a client pod has ended.
func asksStill(pod *corev1.Pod) error {
	if pod.Status.Phase == corev1.PodRunning {
		return kube.Pending("pod " + pod.Name + " still asks")
	}
	return checkStarting(pod)
}

// askOutside runs checks on this machine.
func askOutside(ctx context.Context, checks []*check) {
	checks = slices.DeleteFunc(slices.Clone(checks), func(c *check) bool { return c.state != untried })
	targets := make([]probe.Target, len(checks))
	for i, c := range checks {
		targets[i] = c.target
	}
	for i, err := range probe.Ask(ctx, targets, probe.Options{}) {
		checks[i].setResult(err)
	}
}
