// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/probe"
)

// The paths to check.
const (
	podToPod              = "pod to pod"
	nodeToPod             = "node to pod"
	podToService          = "pod to Service"
	podToHeadless         = "pod to headless Service"
	podToIP               = "pod to IP"
	podToNodePort         = "pod to NodePort"
	outsideToNodePort     = "outside to NodePort"
	outsideToLocal        = "outside to NodePort (Local)"
	outsideToLoadBalancer = "outside to load balancer"
)

// The values of --np-nodes.
const (
	allNodes      = "all"
	workers       = "workers"
	controlPlanes = "control-planes"
)

type state int

const (
	untried state = iota
	passedCheck
	failedCheck
	states
)

// check is one connection test, from a source to a destination.
type check struct {
	way string
	// from and to are the clusters (for a Service, the cluster of its backends); origin and goal are the places in the clusters.
	from, to, origin, goal string
	target                 probe.Target
	state                  state
	err                    error
}

// setResult records the result. A check that ran out of time has none.
func (c *check) setResult(err error) {
	if errors.Is(err, probe.ErrUntried) {
		return
	}
	c.state, c.err = passedCheck, err
	if err != nil {
		c.state = failedCheck
	}
}

// String returns the line about a failed check.
func (c *check) String() string {
	return fmt.Sprintf("%s: from %s to %s (%s): %v", c.way, c.origin, c.goal, c.target.At, c.err)
}

// clientPod is a pod that runs checks on a node of a cluster, on the pod network or on the host network.
type clientPod struct {
	of         *testCluster
	name, node string
	host       bool
	checks     []*check
}

// serverPod is a pod that answers checks.
type serverPod struct {
	name string
	of   *testCluster
	// node is the node of the pod, if known.
	node string
	// at maps the IDs of client clusters to the pod's address in the client cluster.
	at map[string]string
}

// String returns the text of the value.
func (s *serverPod) String() string {
	if s.node == "" {
		return fmt.Sprintf("pod %s of %s", s.name, s.of.ID)
	}
	return fmt.Sprintf("the pod on node %s of %s", s.node, s.of.ID)
}

// exposure holds the addresses of the Services of the consumer and of one provider in a cluster.
type exposure struct {
	of *testCluster
	// name and headless are host names in DNS.
	name, headless string
	// nodePort and localPort are the NodePorts, localPort the NodePort with externalTrafficPolicy Local.
	nodePort, localPort int32
	loadBalancer        string
	// err is the reason for a missing load balancer.
	err error
	// answers are the names of all backends; own maps the nodes of this cluster to their backends.
	answers []string
	own     map[string][]string
}

// planChecks returns the checks from all nodes of two connected clusters.
func planChecks(o *testNetworkOptions, pair [2]*testCluster, servers []serverPod, services map[*testCluster]exposure) (clients []*clientPod) {
	for i, from := range pair {
		to := pair[1-i]
		for _, node := range from.nodes {
			inside := &clientPod{of: from, node: node.Name}
			origin := fmt.Sprintf("a pod on node %s of %s", node.Name, from.ID)
			inside.checks = toPods(podToPod, origin, from, to, servers)
			clients = append(clients, inside)
			if o.basic {
				continue
			}
			service := services[from]
			inside.checks = append(inside.checks, &check{
				way: podToService, from: from.ID, to: to.ID, origin: origin, goal: "a Service",
				target: probe.Target{At: HostPort(service.name, servicePort), Answers: service.answers},
			}, &check{
				way: podToHeadless, from: from.ID, to: to.ID, origin: origin, goal: "a headless Service",
				target: probe.Target{At: HostPort(service.headless, serverPort), Answers: service.answers},
			})
			if o.nodePortPods {
				inside.checks = append(inside.checks, toNodePorts(podToNodePort, origin, from.ID, to.ID, o.nodePortNodes, service, internalAddress)...)
			}
			clients = append(clients, &clientPod{
				of: from, node: node.Name, host: true,
				checks: toPods(nodeToPod, fmt.Sprintf("a process of node %s of %s", node.Name, from.ID), from, to, servers),
			})
		}
	}
	return clients
}

func toPods(path, origin string, from, to *testCluster, servers []serverPod) (checks []*check) {
	for i := range servers {
		if s := &servers[i]; s.of == to {
			checks = append(checks, &check{
				way: path, from: from.ID, to: to.ID, origin: origin, goal: s.String(),
				target: probe.Target{At: HostPort(s.at[from.ID], serverPort), Answers: []string{s.name}},
			})
		}
	}
	return checks
}

// toNodePorts returns a check for each node of the cluster with the Service.
func toNodePorts(path, origin, from, to, kind string, service exposure, address func(*corev1.Node) string) (checks []*check) {
	for _, node := range ofKind(service.of.reached, kind) {
		checks = append(checks, &check{
			way: path, from: from, to: to, origin: origin, goal: fmt.Sprintf("the NodePort of node %s of %s", node.Name, service.of.ID),
			target: probe.Target{At: HostPort(address(node), service.nodePort), Answers: service.answers},
		})
	}
	return checks
}

// untilNoStranger is the number of successive answers from local pods only: if two backends answer at random, the remote backend is missed with a
// probability of 1 in 65536.
const untilNoStranger = 16

// toLocalNodePorts returns a check for each node with a local backend. Only the local backend may answer: backends of the other cluster are on no
// local node. A node without a local backend is not checked, because its proxy decides: IPVS forwards even then.
func toLocalNodePorts(origin, from, kind string, service exposure) (checks []*check) {
	for _, node := range ofKind(service.of.reached, kind) {
		if its := service.own[node.Name]; len(its) > 0 {
			checks = append(checks, &check{
				way: outsideToLocal, from: from, to: service.of.ID, origin: origin, goal: fmt.Sprintf("the NodePort (Local) of node %s of %s", node.Name, service.of.ID),
				target: probe.Target{At: HostPort(externalAddress(node), service.localPort), Answers: its, Times: untilNoStranger},
			})
		}
	}
	return checks
}

// ofKind returns the nodes selected by --np-nodes.
func ofKind(nodes []corev1.Node, kind string) (found []*corev1.Node) {
	for i := range nodes {
		_, controls := nodes[i].Labels["node-role.kubernetes.io/control-plane"]
		if kind == workers && controls || kind == controlPlanes && !controls {
			continue
		}
		found = append(found, &nodes[i])
	}
	return found
}

// planOutside returns the checks that run on this machine.
func planOutside(o *testNetworkOptions, pair [2]*testCluster, services map[*testCluster]exposure) (checks []*check) {
	const here, origin = "here", "this machine"
	for _, p := range pair {
		service := services[p]
		if o.nodePortOutside {
			checks = append(checks, toNodePorts(outsideToNodePort, origin, here, p.ID, o.nodePortNodes, service, externalAddress)...)
			checks = append(checks, toLocalNodePorts(origin, here, o.nodePortNodes, service)...)
		}
		if !o.loadBalancer {
			continue
		}
		one := &check{
			way: outsideToLoadBalancer, from: here, to: p.ID, origin: origin, goal: "the load balancer of " + p.ID,
			target: probe.Target{At: HostPort(service.loadBalancer, servicePort), Answers: service.answers},
		}
		if service.err != nil {
			one.setResult(service.err)
		}
		checks = append(checks, one)
	}
	return checks
}

// HostPort returns an address with a port, in the form of URLs.
func HostPort(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

func internalAddress(n *corev1.Node) string { return nodeAddress(n, corev1.NodeInternalIP) }

// externalAddress returns the ExternalIP of a node, "" for none.
func externalAddress(n *corev1.Node) string {
	return cmp.Or(nodeAddress(n, corev1.NodeExternalIP), nodeAddress(n, corev1.NodeInternalIP))
}

func nodeAddress(n *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return ""
}

// mergeClients merges the client pods of the same place, and splits a client pod with too many checks into several with distinct names.
func mergeClients(clients []*clientPod) (out []*clientPod) {
	type place struct {
		of   *testCluster
		node string
		host bool
	}
	first := map[place]*clientPod{}
	for _, a := range clients {
		key := place{a.of, a.node, a.host}
		if current := first[key]; current != nil {
			current.checks = append(current.checks, a.checks...)
			continue
		}
		first[key] = a
		out = append(out, a)
	}
	var few []*clientPod
	for _, a := range out {
		for _, checks := range splitChecks(a.checks) {
			few = append(few, &clientPod{of: a.of, name: "asker-" + strconv.Itoa(len(few)), node: a.node, host: a.host, checks: checks})
		}
	}
	return few
}

// mostBytes bounds the list of targets of a pod: the limit of a process argument is twice as high.
const mostBytes = 64 << 10

// splitChecks splits checks into portions for one pod each.
func splitChecks(checks []*check) (all [][]*check) {
	from, length := 0, 0
	for i, c := range checks {
		text, _ := json.Marshal(c.target) // strings always marshal
		length += len(text) + len(",")
		if i > from && (i-from == probe.MostTargets || length > mostBytes) {
			all, from, length = append(all, checks[from:i]), i, len(text)+len(",")
		}
	}
	if from < len(checks) {
		all = append(all, checks[from:])
	}
	return all
}

func checksOf(clients []*clientPod) (checks []*check) {
	for _, a := range clients {
		checks = append(checks, a.checks...)
	}
	return checks
}

func (c *check) hasResult() bool { return c.state != untried }

func anyFailed(checks []*check) bool {
	return slices.ContainsFunc(checks, func(c *check) bool { return c.state == failedCheck })
}

// row counts the results of one path from one cluster to another.
type row struct {
	way, from, to string
	counts        [states]int
}

// summaryRows returns the rows in the order of their first checks.
func summaryRows(checks []*check) (rows []*row) {
	for _, c := range checks {
		i := slices.IndexFunc(rows, func(r *row) bool { return r.way == c.way && r.from == c.from && r.to == c.to })
		if i < 0 {
			i, rows = len(rows), append(rows, &row{way: c.way, from: c.from, to: c.to})
		}
		rows[i].counts[c.state]++
	}
	order := []string{podToPod, podToService, podToHeadless, nodeToPod, podToIP, podToNodePort, outsideToNodePort, outsideToLocal, outsideToLoadBalancer}
	slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Compare(slices.Index(order, a.way), slices.Index(order, b.way)) })
	return rows
}

// hasAnswered reads the results of a client pod, and reports whether the pod has ended.
func (a *clientPod) hasAnswered(pod *corev1.Pod) bool {
	message, ended := terminationMessage(pod)
	if !ended {
		return false
	}
	results, err := probe.ParseResults(message, len(a.checks))
	errs := results.Errors()
	for i, c := range a.checks {
		switch {
		case err == nil && pod.Status.Phase == corev1.PodSucceeded:
			c.setResult(errs[i])
		case message == "":
			c.setResult(errors.New("the pod that asks ended without a word"))
		default:
			c.setResult(fmt.Errorf("the pod that asks failed: %s", message))
		}
	}
	return true
}

// terminationMessage returns the termination message of a pod, else the reason of the end, and whether the pod has ended.
func terminationMessage(pod *corev1.Pod) (message string, ended bool) {
	if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		return "", false
	}
	message = cmp.Or(pod.Status.Message, pod.Status.Reason)
	for _, s := range pod.Status.ContainerStatuses {
		if ended := s.State.Terminated; ended != nil {
			message = cmp.Or(ended.Message, message, ended.Reason)
		}
	}
	return message, true
}
