// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/probe"
)

const (
	// shownName is the name of the IP published by each cluster, and of the pod behind the IP.
	shownName = "external-ip"
	// shownPort is the port of the pod behind the IP, on the host network.
	shownPort = 16080
)

// shown is an address outside the pod network that an IP publishes to the other clusters.
type shown struct {
	node  *corev1.Node
	alias netip.Addr // the address in the cluster of the node
}

func (p *testCluster) shownAnswer() string { return "external-of-" + p.ID }

// showAll creates in each cluster an IP for the address of a node with a server pod.
func (t *networkTest) showAll(ctx context.Context) error {
	showing, within := errgroup.WithContext(ctx)
	for _, p := range t.allClusters() {
		showing.Go(func() error {
			step := p.Spin("Waiting for the IP " + shownName)
			defer step.Stop()
			return p.WrapWithCluster(kube.IgnoreSkipped(t.createIPs(within, p)))
		})
	}
	if err := showing.Wait(); err != nil {
		return err
	}
	for _, p := range t.allClusters() {
		p.Success("IP %s shows node %s as %s", shownName, p.shown.node.Name, p.shown.alias)
	}
	return nil
}

func (t *networkTest) createIPs(ctx context.Context, p *testCluster) error {
	if err := p.chooseShown(ctx); err != nil {
		return err
	}
	if err := t.awaitAccount(ctx, p); err != nil {
		return err
	}
	pod, ip := p.shownPod(), p.shownIP()
	for _, obj := range []client.Object{pod, ip} {
		t.SetCommonMetadata(obj)
		if err := t.ensureMade(ctx, p, obj); err != nil {
			return err
		}
	}
	its := kube.WatchOne(&corev1.PodList{}, client.ObjectKeyFromObject(pod))
	return kube.WaitUntil(ctx, p.Kube, func(ctx context.Context) error {
		if err := errors.Join(p.Kube.Get(ctx, client.ObjectKeyFromObject(ip), ip), p.Kube.Get(ctx, client.ObjectKeyFromObject(pod), pod)); err != nil {
			return err
		}
		if ip.Status.IP == "" {
			return kube.Pending(notAllocated(ip))
		}
		if !cluster.PodReady(pod) {
			return checkStarting(pod)
		}
		var err error
		p.shown.alias, err = netip.ParseAddr(string(ip.Status.IP))
		return err
	}, its, kube.WatchOne(&ipamv1alpha1.IPList{}, client.ObjectKeyFromObject(ip)))
}

// chooseShown selects the node for the IP.
func (p *testCluster) chooseShown(ctx context.Context) error {
	var all ipamv1alpha1.IPList
	if err := p.Kube.List(ctx, &all); err != nil {
		return fmt.Errorf("reading the IPs: %w", err)
	}
	others := slices.DeleteFunc(all.Items, func(ip ipamv1alpha1.IP) bool { return ip.Namespace == p.askers }) // the orphaned IP of a killed run will be deleted
	if p.shown.node = nodeWithoutIP(p.nodes, others); p.shown.node == nil {
		return ui.Fail("--ip has no node to try: other IPs show the addresses of all schedulable nodes, and the oldest IP of an address counts")
	}
	return nil
}

// nodeWithoutIP returns a node without an IP for its address, nil for none.
func nodeWithoutIP(nodes []corev1.Node, by []ipamv1alpha1.IP) *corev1.Node {
	taken := map[string]bool{"": true}
	for i := range by {
		taken[string(by[i].Spec.IP)] = true
	}
	for i := range nodes {
		if !taken[internalAddress(&nodes[i])] {
			return &nodes[i]
		}
	}
	return nil
}

// notAllocated returns the missing part of an IP, "" for none.
func notAllocated(ip *ipamv1alpha1.IP) string {
	for _, c := range ip.Status.Conditions {
		if c.Status == metav1.ConditionFalse {
			return fmt.Sprintf("the IP %s has no address: %s", ip.Name, cmp.Or(c.Message, c.Reason))
		}
	}
	return fmt.Sprintf("the IP %s has no address yet", ip.Name)
}

func (p *testCluster) shownIP() *ipamv1alpha1.IP {
	ip := &ipamv1alpha1.IP{Spec: ipamv1alpha1.IPSpec{IP: networkingv1beta1.IP(internalAddress(p.shown.node)), Masquerade: new(true)}}
	ip.Namespace, ip.Name = p.askers, shownName
	ip.SetGroupVersionKind(ipamv1alpha1.GroupVersion.WithKind("IP"))
	return ip
}

func (p *testCluster) shownPod() *corev1.Pod {
	pod := ofTest.newPod(p.askers, shownName, p.image, "reach", "serve", "--name", p.shownAnswer(), "--listen", ":"+strconv.Itoa(shownPort))
	pod.Labels[ShownLabel] = "true"
	pod.Spec.HostNetwork, pod.Spec.DNSPolicy = true, corev1.DNSClusterFirstWithHostNet
	pod.Spec.Affinity = onNode(p.shown.node.Name)
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: shownPort, HostPort: shownPort}}
	pod.Spec.Containers[0].ReadinessProbe = answersAt(shownPort)
	return pod
}

// planShown returns client pods in each cluster for the IPs of the other clusters and for the own IP: the own IP is also reachable locally.
func (t *networkTest) planShown() (clients []*clientPod, err error) {
	for _, from := range t.allClusters() {
		for _, to := range t.allClusters() {
			if from != to && from != t.consumer && to != t.consumer {
				continue // providers of one consumer are not connected
			}
			alias := to.shown.alias
			if from != to {
				var ok bool
				if alias, ok = from.seen[to.ID].ToLocal(alias); !ok {
					return nil, from.WrapWithCluster(ui.Fail("the IP %s of %s is %s, which is not in a network of its Configuration", shownName, to.ID, to.shown.alias))
				}
			}
			for i := range from.nodes {
				node := from.nodes[i].Name
				clients = append(clients, &clientPod{of: from, node: node, checks: []*check{{
					way: podToIP, from: from.ID, to: to.ID, origin: fmt.Sprintf("a pod on node %s of %s", node, from.ID), goal: "an address that an IP of " + to.ID + " shows",
					target: probe.Target{At: HostPort(alias.String(), shownPort), Answers: []string{to.shownAnswer()}},
				}}})
			}
		}
	}
	return clients, nil
}
