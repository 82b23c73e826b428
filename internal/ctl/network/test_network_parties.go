// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/prefix"
)

// TestNamespace is the namespace in the consumer.
const TestNamespace = "liqo-test-network"

// networkTest is one run of the test.
type networkTest struct {
	fixtures
	*testNetworkOptions
	// lenders are the ready virtual nodes.
	lenders map[string]bool
	// exposures are the addresses of the Services of each provider, by cluster.
	exposures []map[*testCluster]exposure
}

// testCluster is one of the tested clusters.
type testCluster struct {
	*cluster.Cluster
	// nodes are the schedulable nodes.
	nodes []corev1.Node
	// reached are the nodes with NodePorts, including unschedulable nodes.
	reached []corev1.Node
	// lent are the nodes of a provider for pods of the consumer.
	lent  []corev1.Node
	image string
	// seen maps the IDs of the remote clusters to the view of their networks.
	seen map[string]networkView
	// servers and clients are the namespaces of server pods and of client pods. The consumer has one namespace, offloaded to the providers. Client
	// pods are created in each cluster directly, to have one on each node and on host networks.
	servers, askers string
	// shown is the address published with --ip.
	shown shown
}

type networkView struct {
	networks []prefix.Pair
	addresses
}

// addresses translates addresses by prefix.
type addresses = prefix.Map

// newNetworkTest reads the state of all clusters, and changes nothing.
func newNetworkTest(ctx context.Context, c *cluster.Session, o *testNetworkOptions) (*networkTest, error) {
	t := &networkTest{fixtures: fixtures{Session: c, purpose: ofTest}, testNetworkOptions: o}
	sides, err := testClusters(ctx, c, o)
	if err != nil {
		return nil, err
	}
	for i, s := range sides {
		p, err := newTestCluster(ctx, c, s)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			t.consumer = p
			continue
		}
		if slices.ContainsFunc(t.allClusters(), func(other *testCluster) bool { return other.ID == p.ID }) {
			return nil, namedTwice("cluster %q", p.ID)
		}
		t.providers = append(t.providers, p)
	}
	t.nameNamespaces()
	for _, p := range t.allClusters() {
		if err := p.RequirePermissions(ctx, t.requiredPermissions(p)...); err != nil {
			return nil, err
		}
		if err := p.RunStep("Looking at the cluster", "", func() error { return t.readCluster(ctx, p) }); err != nil {
			return nil, err
		}
	}
	if err := t.checkNodePorts(); err != nil {
		return nil, err
	}
	for _, p := range t.providers {
		if err := t.consumer.RunStep("Looking at the virtual nodes of "+p.ID, "", func() error { return t.findVirtualNodes(ctx, p) }); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// testClusters returns the clusters, the consumer first, without any request to them.
func testClusters(ctx context.Context, c *cluster.Session, o *testNetworkOptions) ([]*cluster.Cluster, error) {
	s, err := c.NewCluster(ctx, "local", &cluster.ClusterFlags{Kube: c.KubeFlags, LiqoNamespace: o.liqoNamespace})
	if err != nil {
		return nil, fmt.Errorf("local cluster: %w", err)
	}
	all := []*cluster.Cluster{s}
	for _, file := range o.kubeconfigs {
		flags := &cluster.ClusterFlags{Kube: cluster.NewKubeFlags(), LiqoNamespace: o.remoteLiqoNamespace, ChosenBy: "--remote-kubeconfigs"}
		flags.Kube.Namespace, flags.Kube.KubeConfig = nil, &file
		name := "remote"
		if len(o.kubeconfigs) > 1 {
			name = filepath.Base(file)
		}
		if s, err = c.NewCluster(ctx, name, flags); err != nil {
			return nil, fmt.Errorf("remote cluster: %w", err)
		}
		if slices.ContainsFunc(all, func(other *cluster.Cluster) bool { return other.Host == s.Host }) {
			return nil, namedTwice("%s", s.Host)
		}
		all = append(all, s)
	}
	return all, nil
}

func namedTwice(format string, what any) error {
	return ui.Fail("the clusters must be different: "+format+" is named twice", what).
		Hint("The consumer is that of --kubeconfig or --context, the providers those of --remote-kubeconfigs")
}

// checkNodePorts fails if --np-nodes selects no nodes.
func (t *networkTest) checkNodePorts() error {
	if !t.nodePortOutside && !t.nodePortPods {
		return nil
	}
	var without []*testCluster
	for _, p := range t.allClusters() {
		if len(ofKind(p.reached, t.nodePortNodes)) == 0 {
			without = append(without, p)
		}
	}
	if len(without) == len(t.allClusters()) {
		return ui.Fail("--np-nodes %s selects no node that is ready, in no cluster", t.nodePortNodes)
	}
	for _, p := range without {
		p.Warn("--np-nodes %s selects no node that is ready: no NodePort of this cluster is tried", t.nodePortNodes)
	}
	return nil
}

// findVirtualNodes finds the nodes of a provider for pods of the consumer.
func (t *networkTest) findVirtualNodes(ctx context.Context, p *testCluster) error {
	var list offv1beta1.VirtualNodeList
	if err := t.consumer.Kube.List(ctx, &list); err != nil {
		return fmt.Errorf("reading the VirtualNodes of %s: %w", p.ID, err)
	}
	var err error
	if p.lent, err = nodesOf(p.nodes, readyVirtualNodes(list.Items, p.ID, t.lenders)); err == nil && len(p.lent) == 0 {
		err = ui.Fail("no node of %s takes pods of this cluster: the offloadingPatch of its VirtualNode asks for others", p.ID)
	}
	return err
}

// readyVirtualNodes returns the VirtualNodes of a provider whose nodes are ready.
func readyVirtualNodes(all []offv1beta1.VirtualNode, provider string, ready map[string]bool) []offv1beta1.VirtualNode {
	return slices.DeleteFunc(slices.Clone(all), func(v offv1beta1.VirtualNode) bool {
		return string(v.Spec.ClusterID) != provider || !ready[v.Name]
	})
}

// nodesOf returns the nodes to which the virtual nodes offload pods.
func nodesOf(nodes []corev1.Node, virtual []offv1beta1.VirtualNode) ([]corev1.Node, error) {
	if len(virtual) == 0 {
		return nodes, nil
	}
	var found []corev1.Node
	for i := range nodes {
		for _, v := range virtual {
			pod := &corev1.Pod{}
			if patch := v.Spec.OffloadingPatch; patch != nil {
				pod.Spec.NodeSelector = patch.NodeSelector
				if patch.Affinity != nil {
					pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: patch.Affinity.NodeAffinity}
				}
			}
			takes, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(&nodes[i])
			if err != nil {
				return nil, fmt.Errorf("reading the offloadingPatch of VirtualNode %s: %w", v.Name, err)
			}
			if takes {
				found = append(found, nodes[i])
				break
			}
		}
	}
	return found, nil
}

func newTestCluster(ctx context.Context, c *cluster.Session, s *cluster.Cluster) (*testCluster, error) {
	err := s.RunStep("Retrieving cluster identity", "", func() (err error) {
		s.ID, err = cluster.ClusterIdentity(ctx, s.Kube, s.LiqoNamespace)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.Name, s.Scope = s.ID, c.Scope(s.ID)
	s.Success("Cluster identity correctly retrieved")
	return &testCluster{Cluster: s, seen: map[string]networkView{}}, nil
}

// readCluster reads the state of a cluster.
func (t *networkTest) readCluster(ctx context.Context, p *testCluster) error {
	others := t.othersOf(p)
	nodes, err := p.readState(ctx, others, t.image)
	if err != nil {
		return err
	}
	if p != t.consumer {
		return nil
	}
	for _, other := range others {
		if err := checkOffloadable(nodes, other.ID); err != nil {
			return err
		}
	}
	t.lenders = offloadableProviders(nodes)
	return nil
}

// othersOf returns the connected clusters of a cluster.
func (f *fixtures) othersOf(p *testCluster) []*testCluster {
	if p == f.consumer {
		return f.providers
	}
	return []*testCluster{f.consumer}
}

// readState reads the views of other clusters, the nodes, and the image unless the image is given. It returns all nodes.
func (p *testCluster) readState(ctx context.Context, others []*testCluster, image string) ([]corev1.Node, error) {
	for _, other := range others {
		seen, err := p.viewOf(ctx, other.ID)
		if err != nil {
			return nil, err
		}
		p.seen[other.ID] = seen
	}
	var list corev1.NodeList
	if err := p.Kube.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("reading the nodes: %w", err)
	}
	p.nodes, p.reached = schedulableNodes(list.Items), servingPorts(list.Items)
	if len(p.nodes) == 0 {
		return nil, ui.Fail("no node takes pods: all have taints, are cordoned or not ready")
	}
	if p.image = image; image != "" {
		return list.Items, nil
	}
	manager, err := cluster.ControllerManager(ctx, p.Kube, p.LiqoNamespace)
	if err != nil {
		return nil, err
	}
	container, err := cluster.ManagerContainer(manager)
	if err != nil {
		return nil, err
	}
	p.image = container.Image
	return list.Items, nil
}

// requiredPermissions returns the permissions of the test in a cluster.
func (t *networkTest) requiredPermissions(p *testCluster) []cluster.Permission {
	wanted := slices.Concat(p.PermissionsFor("", "test network"), p.PermissionsFor(p.askers, "test from client pods"), p.PermissionsFor(p.servers, "test to Services"))
	if p != t.consumer {
		wanted = append(wanted, p.PermissionsFor(p.servers, "test to server pods")...)
	} else {
		wanted = append(wanted, p.PermissionsFor(p.servers, "test offloaded servers")...)
	}
	if t.ip {
		wanted = append(wanted, p.PermissionsFor(p.askers, "test IP")...)
	}
	if t.image == "" {
		wanted = append(wanted, p.PermissionsFor("", "find image")...)
	}
	return wanted
}

// viewOf returns the cluster's view of the networks of another cluster.
func (p *testCluster) viewOf(ctx context.Context, other string) (networkView, error) {
	var list networkingv1beta1.ConfigurationList
	if err := p.Kube.List(ctx, &list, client.MatchingLabels{names.RemoteClusterID: other}); err != nil {
		return networkView{}, fmt.Errorf("reading the networks of %s: %w", other, err)
	}
	cfg := peer.Configuration(list.Items, liqov1beta1.ClusterID(other))
	if cfg == nil {
		return networkView{}, ui.Fail("no Configuration of %s found: the clusters are not connected", other).
			Hint("Connect them by: liqoctl network connect")
	}
	name := client.ObjectKeyFromObject(cfg)
	networks, placed, _ := prefix.Placed(cfg)
	seen, ok, err := prefix.Of(cfg)
	switch {
	case err != nil:
		return networkView{}, fmt.Errorf("reading the Configuration %s: %w", name, err)
	case !placed, !ok:
		return networkView{}, ui.Fail("the networks of %s are seen under no prefixes: its Configuration %s is not ready", other, name)
	}
	return networkView{append(networks.Pods, networks.External...), seen}, nil
}

// schedulableNodes returns the nodes that take a pod without tolerations, by name.
func schedulableNodes(all []corev1.Node) []corev1.Node {
	return slices.DeleteFunc(servingPorts(all), func(n corev1.Node) bool {
		return n.Spec.Unschedulable ||
			slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule })
	})
}

// servingPorts returns the nodes with a kube-proxy, independent of their taints, by name.
func servingPorts(all []corev1.Node) []corev1.Node {
	found := slices.DeleteFunc(slices.Clone(all), func(n corev1.Node) bool {
		return n.Labels[names.NodeType] == names.NodeTypeVirtualNode || n.DeletionTimestamp != nil || !kube.NodeReady(&n)
	})
	slices.SortFunc(found, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// offloadableProviders returns the ready virtual nodes, by name.
func offloadableProviders(all []corev1.Node) map[string]bool {
	ready := map[string]bool{}
	for i := range all {
		if n := &all[i]; n.Labels[names.NodeType] == names.NodeTypeVirtualNode && kube.NodeReady(n) {
			ready[n.Name] = true
		}
	}
	return ready
}

// checkOffloadable returns the reason why no pod can be offloaded to a provider, such as a broken network.
func checkOffloadable(all []corev1.Node, provider string) error {
	failure := ui.Fail("no virtual node of %s found: no pod can be offloaded to it", provider)
	for i := range all {
		n := &all[i]
		if n.Labels[names.NodeType] != names.NodeTypeVirtualNode || n.Labels[names.RemoteClusterID] != provider {
			continue
		}
		if kube.NodeReady(n) {
			return nil
		}
		reason := "for an unknown reason"
		if c := readyCondition(n); c != nil {
			reason = c.Message
		}
		failure = ui.Fail("no virtual node of %s is ready: %s: %s", provider, n.Name, reason)
	}
	return failure.Hint("Run: liqoctl info peer %s", provider).See("docs/troubleshooting.md#the-node-is-not-there-or-not-ready")
}

func readyCondition(n *corev1.Node) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == corev1.NodeReady {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}
