// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/prefix"
)

const (
	pageReach      = "docs/network-reach.md#show-a-host-or-a-node-to-peers"
	pagePeerAccess = "docs/network-reach.md#what-a-peer-reaches"
	pageTrace      = "docs/info.md#where-a-packet-gets-lost"
)

// Network is the state of a cluster's network without the peerings.
type Network struct {
	// Fabric are the pods of the fabric.
	Fabric []corev1.Pod
	IPs    []ipamv1alpha1.IP
	// NodeProbes and GatewayProbes are the results of the trace's probes, by node and by peer of the gateway.
	NodeProbes, GatewayProbes map[string][]plan.ProbeResult
}

// probeOf returns the lost probe to a peer, or else the first probe; nil without probes.
func probeOf(all []plan.ProbeResult, other liqov1beta1.ClusterID) (worst *plan.ProbeResult) {
	for i := range all {
		if r := &all[i]; r.Peer == string(other) && (worst == nil || worst.Answered && !r.Answered) {
			worst = r
		}
	}
	return worst
}

// noteProbe returns the note of a hop with the round trip of the probe.
func noteProbe(note string, probe *plan.ProbeResult) string {
	if probe == nil || !probe.Answered {
		return note
	}
	return joinNonEmpty(", ", note, fmt.Sprintf("probed now: %.3g ms", probe.Milliseconds))
}

// End is the source or the destination of a packet.
type End struct {
	// Scene is the cluster of the end, nil if the cluster was not asked.
	Scene   *Scene
	Cluster liqov1beta1.ClusterID
	// Name is the pod or address for messages, Pod the pod if known.
	Name string
	Pod  *corev1.Pod
	// Address is the address in the cluster of the pod.
	Address netip.Addr
	// Vacant reports whether the address is in the range of pods and no pod has it.
	Vacant bool
	// Namespace is the namespace of the pod, nil if unknown. Offloaded reports whether the namespace is offloaded. Policies are the policies of the
	// namespace.
	Namespace *corev1.Namespace
	Offloaded bool
	Policies  []netv1.NetworkPolicy
}

// nodeName returns the name of the node of the end.
func (e *End) nodeName() string {
	if e.Pod == nil {
		return ""
	}
	return e.Pod.Spec.NodeName
}

// EndOfPod returns the end of a pod of this cluster. Behind a virtual node the end is in the provider; far is the pod in the provider if remote was
// asked.
func (s *Scene) EndOfPod(pod *corev1.Pod, remote *Scene, far *corev1.Pod) End {
	address, _ := netip.ParseAddr(pod.Status.PodIP)
	if !s.isVirtual(pod.Spec.NodeName, pod) {
		if pod.Spec.HostNetwork {
			address = s.addressForPeers(pod.Spec.NodeName)
		}
		return End{Scene: s, Cluster: liqov1beta1.ClusterID(s.ClusterID), Name: Ref("Pod", pod), Pod: pod, Address: address}
	}
	end := End{Cluster: s.ProviderOfNode(pod.Spec.NodeName), Name: Ref("Pod", pod)}
	if cfg := peer.Configuration(s.Configurations, end.Cluster); cfg != nil {
		end.Address = toRemote(cfg, address)
	}
	if remote != nil && remote.ClusterID == string(end.Cluster) {
		end.Scene, end.Pod = remote, far
	}
	return end
}

// addressForPeers returns the source address of a node's processes as seen by peers, invalid if unknown.
func (s *Scene) addressForPeers(node string) netip.Addr {
	for i := range s.InternalNodes {
		if s.InternalNodes[i].Name == node {
			address, _ := netip.ParseAddr(string(s.InternalNodes[i].Spec.Interface.Node.IP))
			return address
		}
	}
	return netip.Addr{}
}

// EndOfAddress returns the end with an address in this cluster; false if there is none.
func (s *Scene) EndOfAddress(address netip.Addr, remote *Scene) (End, bool) {
	for i := range s.Configurations {
		cfg := &s.Configurations[i]
		id := liqov1beta1.ClusterID(cfg.Labels[names.RemoteClusterID])
		if real := toRemote(cfg, address); real.IsValid() && peer.Configuration(s.Configurations, id) == cfg {
			end := End{Cluster: id, Name: address.String(), Address: real}
			if remote != nil && remote.ClusterID == string(id) {
				end.Scene = remote
			}
			return end, true
		}
	}
	pods, services, external, _ := plan.Own(s.Networks, s.Facts.Namespace)
	inside := isIn(slices.Concat(pods, services, external), address) || s.isOfNode(address) || s.ipOf(address) != nil
	return End{Scene: s, Cluster: liqov1beta1.ClusterID(s.ClusterID), Name: address.String(), Address: address}, inside
}

// IsFirstOfPods reports whether an address is in the range of pods of this cluster, and of the family of the pods' first address: selectors of pods
// match only first addresses. The family is the family of the nodes' first address.
func (s *Scene) IsFirstOfPods(address netip.Addr) bool {
	pods, _, _, _ := plan.Own(s.Networks, s.Facts.Namespace)
	return isIn(pods, address) && slices.ContainsFunc(s.realNodes(), func(n *corev1.Node) bool {
		i := slices.IndexFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
		if i < 0 {
			return false
		}
		first, err := netip.ParseAddr(n.Status.Addresses[i].Address)
		return err == nil && first.Is4() == address.Is4()
	})
}

// IsOfServices reports whether an address is in the range of Services of this cluster.
func (s *Scene) IsOfServices(address netip.Addr) bool {
	_, services, _, _ := plan.Own(s.Networks, s.Facts.Namespace)
	return isIn(services, address)
}

func isIn(all []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(address) })
}

// isOfNode reports whether an address belongs to a node of this cluster.
func (s *Scene) isOfNode(address netip.Addr) bool {
	return slices.ContainsFunc(s.realNodes(), func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Address == address.String() })
	})
}

// ipOf returns the IP that publishes an address to peers, nil if there is none.
func (s *Scene) ipOf(address netip.Addr) *ipamv1alpha1.IP {
	i := slices.IndexFunc(s.IPs, func(ip ipamv1alpha1.IP) bool { return string(ip.Spec.IP) == address.String() })
	if i < 0 {
		return nil
	}
	return &s.IPs[i]
}

// toRemote returns the address in the peer's own cluster, invalid if the address is in no network of the peer.
func toRemote(cfg *networkingv1beta1.Configuration, local netip.Addr) netip.Addr {
	m, ok, err := prefix.Of(cfg)
	if !ok || err != nil {
		return netip.Addr{}
	}
	remote, _ := m.ToRemote(local)
	return remote
}

// toLocal returns the local translation of a peer's address, invalid if there is none.
func (s *Scene) toLocal(of liqov1beta1.ClusterID, remote netip.Addr) netip.Addr {
	cfg := peer.Configuration(s.Configurations, of)
	if cfg == nil {
		return netip.Addr{}
	}
	m, ok, err := prefix.Of(cfg)
	if !ok || err != nil {
		return netip.Addr{}
	}
	local, _ := m.ToLocal(remote)
	return local
}

// packetText returns source and destination, with ? for an unknown address.
func packetText(from, to netip.Addr) string { return addressText(from) + " > " + addressText(to) }

func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return "?"
	}
	return a.String()
}

// Trace returns the hops of a packet, each with addresses and with the results of Liqo's probes.
func Trace(from, to End) *Explanation {
	name := from.Name + " to " + to.Name
	w := &chainWriter{chain: Chain{Name: name}}
	if from.Cluster == to.Cluster {
		w.addNeighbours(&from, &to)
	} else {
		w.addExit(&from, &to)
		w.addEntry(&from, &to)
	}
	return newExplanation(name, w)
}

// TraceUnknown returns the trace to an address without an end.
func TraceUnknown(s *Scene, from *End, to string) *Explanation {
	name := from.Name + " to " + to
	w := &chainWriter{chain: Chain{Name: name}}
	w.addLink(s, "the address is one of this cluster or a peer", to, func() []Finding {
		return []Finding{newFailure("address "+to, "it is in no network of this cluster or a peer", "see liqoctl info peer; show hosts to peers by an IP", pageReach)}
	}, "Configuration", "Network")
	return newExplanation(name, w)
}

// TraceVacantService returns the trace to an unused address of the range of Services.
func TraceVacantService(s *Scene, from *End, to string) *Explanation {
	name := from.Name + " to " + to
	w := &chainWriter{chain: Chain{Name: name}}
	w.addLink(s, "a Service has the address", to, func() []Finding {
		return []Finding{newFailure("address "+to, "no Service has it", "see the addresses of Services: kubectl get services -A", pageTrace)}
	}, "Service")
	return newExplanation(name, w)
}

// addUnasked adds a link for the hops in a cluster that was not asked.
func (w *chainWriter) addUnasked(id liqov1beta1.ClusterID, packet string) {
	w.chain.Links = append(w.chain.Links, Link{Cluster: string(id), Check: Check{Name: "its hops: not asked, see --remote-kubeconfig", Note: packet, Status: Skipped}})
}

// addNeighbours adds the hops between pods of one cluster. Liqo adds nothing to these hops.
func (w *chainWriter) addNeighbours(from, to *End) {
	packet := packetText(from.Address, to.Address)
	if from.Scene == nil || to.Scene == nil {
		w.addUnasked(from.Cluster, packet)
		return
	}
	w.addPod(from, "the pod sends it", packet, netv1.PolicyTypeEgress)
	w.addPod(to, "it arrives by the CNI of this cluster", packet, netv1.PolicyTypeIngress)
}

// addPod adds the hop of a pod, with the NetworkPolicies of one direction; "" for none.
func (w *chainWriter) addPod(e *End, what, note string, direction netv1.PolicyType) {
	needs := []string{"RemotePod"}
	if e.Pod == nil {
		needs = append(needs, "Pod")
	}
	w.addLink(e.Scene, what, note, func() []Finding {
		switch {
		case e.Vacant:
			return []Finding{newFailure("address "+e.Address.String(), "no pod has this address", "see the addresses of pods: kubectl get pods -A -o wide", pageTrace)}
		case e.Pod == nil:
			return nil
		}
		alone := *e.Scene
		alone.Pod = e.Pod
		return append(alone.findContainers(Ref("Pod", e.Pod), e.Pod), e.findPolicies(direction)...)
	}, needs...)
}

// findPolicies returns the NetworkPolicies for a direction, since they may drop the packet. No NetworkPolicy selects pods in the network of their
// node.
func (e *End) findPolicies(direction netv1.PolicyType) (all []Finding) {
	if e.Pod.Spec.HostNetwork {
		return nil
	}
	text, remedy := "it selects the pod: only what its ingress rules allow arrives", "see whether it allows the source"
	if direction == netv1.PolicyTypeEgress {
		text, remedy = "it selects the pod: only what its egress rules allow leaves", "see whether it allows the destination"
	}
	for i := range e.Policies {
		p := &e.Policies[i]
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		if err == nil && selector.Matches(labels.Set(e.Pod.Labels)) && slices.Contains(policyTypes(p), direction) {
			all = append(all, warningOf(newFailure(Ref("NetworkPolicy", p), text, remedy, "docs/reflection.md#networkpolicies")))
		}
	}
	return all
}

// policyTypes returns the directions restricted by a NetworkPolicy.
func policyTypes(p *netv1.NetworkPolicy) []netv1.PolicyType {
	switch {
	case len(p.Spec.PolicyTypes) > 0:
		return p.Spec.PolicyTypes
	case len(p.Spec.Egress) > 0:
		return []netv1.PolicyType{netv1.PolicyTypeIngress, netv1.PolicyTypeEgress}
	}
	return []netv1.PolicyType{netv1.PolicyTypeIngress}
}

// addExit adds the hops in the cluster of the sender, and the tunnel.
func (w *chainWriter) addExit(from, to *End) {
	s := from.Scene
	if s == nil {
		w.addUnasked(from.Cluster, packetText(from.Address, netip.Addr{}))
		return
	}
	seen := packetText(from.Address, s.toLocal(to.Cluster, to.Address))
	w.addPod(from, "the pod sends it", seen, netv1.PolicyTypeEgress)
	w.addFabric(s, from, to.Cluster, "the fabric carries it to the gateway", seen)
	w.addGateway(s, to.Cluster, "the gateway translates it", packetText(from.Address, to.Address)+" into the tunnel")
	w.addTunnel(s, to.Cluster)
}

// addEntry adds the hops in the cluster of the receiver.
func (w *chainWriter) addEntry(from, to *End) {
	s := to.Scene
	if s == nil {
		w.addUnasked(to.Cluster, packetText(netip.Addr{}, to.Address))
		return
	}
	seen := packetText(s.toLocal(from.Cluster, from.Address), to.Address)
	if from.Scene == nil {
		w.addTunnel(s, from.Cluster)
	}
	w.addGateway(s, from.Cluster, "the gateway translates it", seen)
	if to.Pod != nil {
		w.addFabric(s, to, from.Cluster, "the fabric carries it to the node", seen)
	}
	w.addLink(s, "peers reach the pod", "", func() []Finding { return s.findAccess(to, from.Cluster) })
	w.addPod(to, "it arrives", seen, "")
}

// addFabric adds the hop between the node of an end and the gateway.
func (w *chainWriter) addFabric(s *Scene, e *End, other liqov1beta1.ClusterID, what, note string) {
	node := e.nodeName()
	if gateway := s.gatewayAddress(other); gateway != "" {
		note = joinNonEmpty(", ", note, joinNonEmpty(" and ", node, "gateway "+gateway))
	}
	w.addLink(s, what, noteProbe(note, probeOf(s.NodeProbes[node], other)), func() []Finding {
		n := s.nodeOf(node)
		if n == nil {
			return nil // the pod has no node, or the nodes are not known
		}
		alone := *s.Facts
		alone.Nodes = []corev1.Node{*n}
		all := append(alone.FindInternalNodes(), s.findFabric(n)...)
		if len(all) == 0 {
			all = s.findNodePath(node, other)
		}
		return all
	}, "InternalNode", "DaemonSet", "Fabric")
}

// gatewayAddress returns the address of the active gateway to a peer.
func (s *Scene) gatewayAddress(other liqov1beta1.ClusterID) string {
	for _, t := range s.planTunnels() {
		if t.Peer.ClusterID == string(other) && t.Active.IsValid() {
			return t.Active.String()
		}
	}
	return ""
}

// findNodePath returns that the probe of a node gets no answer while the tunnel works: the fault is between the node and the gateway.
func (s *Scene) findNodePath(node string, other liqov1beta1.ClusterID) []Finding {
	up := slices.ContainsFunc(s.Connections, func(c networkingv1beta1.Connection) bool {
		return c.Labels[names.RemoteClusterID] == string(other) && (c.Status.Value == networkingv1beta1.Connected || c.Status.Reach != "")
	})
	probe, tunnel := probeOf(s.NodeProbes[node], other), probeOf(s.GatewayProbes[string(other)], other)
	if tunnel != nil { // newer than the status
		up = tunnel.Answered
	}
	for i := range s.InternalNodes {
		if s.InternalNodes[i].Name != node || !up {
			continue
		}
		if probe != nil && !probe.Answered && tunnel != nil {
			return []Finding{newNodePath(node, other)}
		}
		for _, p := range s.InternalNodes[i].Status.Peers {
			if p.ClusterID == string(other) && p.Value != networkingv1beta1.Connected {
				return []Finding{newNodePath(node, other)}
			}
		}
	}
	return nil
}

func newNodePath(node string, other liqov1beta1.ClusterID) Finding {
	return newFailure("InternalNode "+node, fmt.Sprintf("the tunnel works, and its probe gets no answer from %s", other), "see the fabric of the node, and what blocks UDP 6091 between the nodes",
		"docs/troubleshooting.md#connected-and-pods-of-one-node-do-not-reach-the-peer")
}

// findLostProbe returns that the trace's probe into the tunnel got no answer.
func (s *Scene) findLostProbe(fc *liqov1beta1.ForeignCluster) []Finding {
	probe := probeOf(s.GatewayProbes[string(fc.Spec.ClusterID)], fc.Spec.ClusterID)
	i := slices.IndexFunc(s.Connections, func(c networkingv1beta1.Connection) bool { return isOf(fc, &c) })
	switch {
	case probe == nil || probe.Answered || i < 0:
		return nil
	case probe.Bytes > 0:
		return []Finding{newLargeLost(&s.Connections[i])}
	}
	return []Finding{newFailure(Ref("Connection", &s.Connections[i]), "a probe that was sent now got no answer", guides["ConnectionError"].remedy, guides["ConnectionError"].page)}
}

// addGateway adds the hop of a gateway.
func (w *chainWriter) addGateway(s *Scene, other liqov1beta1.ClusterID, what, note string) {
	w.addLink(s, what, note, func() []Finding {
		fc := s.peerOf(other)
		if fc == nil {
			return []Finding{newFailure("ForeignCluster "+string(other), "there is no peering with this cluster", "run: liqoctl peer", "docs/peering.md")}
		}
		if !fc.Status.Modules.Networking.Enabled {
			return []Finding{newFailure(Ref("ForeignCluster", fc), "the clusters have no network with each other", "run: liqoctl network connect", pageNetwork)}
		}
		all := append(s.findConfiguration(fc), s.findRejected(fc)...)
		return append(all, s.findGateway(fc)...)
	}, "ForeignCluster", "Configuration", "GatewayServer", "GatewayClient", "PublicKey")
}

// addTunnel adds the hop of the tunnel.
func (w *chainWriter) addTunnel(s *Scene, other liqov1beta1.ClusterID) {
	fc := s.peerOf(other)
	note := ""
	if fc != nil {
		note = s.latencyOf(fc)
	}
	w.addLink(s, "the tunnel carries it", noteProbe(note, probeOf(s.GatewayProbes[string(other)], other)), func() []Finding {
		if fc == nil {
			return nil // the gateway reports the fault
		}
		if lost := s.findLostProbe(fc); len(lost) > 0 {
			return lost
		}
		return slices.DeleteFunc(s.findConnection(fc), func(f Finding) bool { return strings.HasPrefix(f.Message, "ConnectionOfSomeNodes") }) // the fabric reports the fault of the node
	}, "ForeignCluster", "Connection")
}

// rejections are the remedies by the reason why no node and no gateway applies a part of an object.
var rejections = map[string]guide{
	plan.ReasonNetworkInTheWay:        {"delete the Network of the peer, which is given another prefix", "docs/troubleshooting.md#networkintheway"},
	plan.ReasonAnotherGateway:         {"delete one of both gateways", "docs/troubleshooting.md#anothergateway"},
	plan.ReasonConfigurationElsewhere: {"move the Configuration to the namespace of the gateway", "docs/troubleshooting.md#configurationelsewhere"},
	plan.ReasonUnusableMTU:            {"correct spec.mtu of the gateway", "docs/troubleshooting.md#unusablemtu"},
}

// findRejected returns the parts of the Configuration and the gateways of a peer left out by the plan of nodes and gateways.
func (s *Scene) findRejected(fc *liqov1beta1.ForeignCluster) (all []Finding) {
	problems, _ := plan.Refused(s.planCluster())
	for _, p := range problems {
		advice, known := rejections[p.Reason]
		of := func(o metav1.Object) bool {
			return o.GetNamespace() == p.Of.Namespace && o.GetName() == p.Of.Name && o.GetLabels()[names.RemoteClusterID] == string(fc.Spec.ClusterID)
		}
		ours := slices.ContainsFunc(s.Configurations, func(c networkingv1beta1.Configuration) bool { return p.Of.Kind == "Configuration" && of(&c) }) ||
			slices.ContainsFunc(s.gatewaysOf(fc), func(g gateway) bool { return p.Of.Kind == g.kind && of(g) })
		if known && ours {
			all = append(all, newFailure(p.Of.String(), p.Reason+": "+p.Message, advice.remedy, advice.page))
		}
	}
	return all
}

// planTunnels returns the gateways as the plan sees them.
func (s *Scene) planTunnels() (all []plan.Tunnel) {
	for i := range s.Servers {
		if t, ok, _ := plan.TunnelOfServer(&s.Servers[i]); ok {
			all = append(all, t)
		}
	}
	for i := range s.Clients {
		if t, ok, _ := plan.TunnelOfClient(&s.Clients[i]); ok {
			all = append(all, t)
		}
	}
	return all
}

// planCluster returns the input of the plan, restricted to peers.
func (s *Scene) planCluster() plan.Cluster {
	c := plan.Cluster{Tunnels: s.planTunnels()}
	c.Pods, c.Services, c.External, _ = plan.Own(s.Networks, s.Facts.Namespace)
	c.Held, _ = plan.Held(s.Networks)
	for i := range s.Configurations {
		if p, ok, _ := plan.PeerOf(&s.Configurations[i]); ok {
			c.Peers = append(c.Peers, p)
		}
	}
	for i := range s.InternalNodes {
		m, _ := plan.MemberOf(&s.InternalNodes[i])
		c.Members = append(c.Members, m)
	}
	for _, n := range s.realNodes() {
		c.Taken = append(c.Taken, plan.TakenByNode(n)...)
	}
	return c
}

// findAccess returns the obstacles of a peer's packets to an end: no IP publishes the address, peers do not reach the pod, or NetworkPolicies.
func (s *Scene) findAccess(e *End, from liqov1beta1.ClusterID) (all []Finding) {
	if e.Pod == nil {
		return s.findAddressAccess(e.Address)
	}
	ref := Ref("Pod", e.Pod)
	labelled := e.Pod.Labels[names.ReachableFromPeers] == "true" || e.Namespace != nil && e.Namespace.Labels[names.ReachableFromPeers] == "true"
	switch why := s.Unreadable["NamespaceOffloading"]; {
	case !s.restrictsPeers() || labelled || e.Offloaded || e.Pod.Labels[names.ManagedBy] == names.ManagedByShadowPod:
	case why != "":
		all = append(all, newUnchecked("NamespaceOffloading", why))
	default:
		all = append(all, newFailure(ref, fmt.Sprintf("networking.peerAccess is offloaded, and %s does not reach this pod", from), "label it "+names.ReachableFromPeers+"=true, or offload its namespace", pagePeerAccess))
	}
	return append(all, e.findPolicies(netv1.PolicyTypeIngress)...)
}

// findAddressAccess returns why packets of a peer do not reach an address without a known pod.
func (s *Scene) findAddressAccess(address netip.Addr) []Finding {
	pods, _, external, _ := plan.Own(s.Networks, s.Facts.Namespace)
	ip := s.ipOf(address)
	shown := slices.ContainsFunc(s.IPs, func(ip ipamv1alpha1.IP) bool { return string(ip.Status.IP) == address.String() })
	switch {
	case shown || isIn(pods, address) || s.Unreadable["IP"]+s.Unreadable["Network"] != "":
		return nil
	case ip != nil && ip.Status.IP == "":
		return []Finding{newFailure(Ref("IP", ip), "peers have no address for "+address.String()+" yet: no status.ip", "see its conditions", pageInternalNode)}
	case ip != nil:
		return []Finding{newFailure(Ref("IP", ip), fmt.Sprintf("peers use status.ip %s instead of %s", ip.Status.IP, address), "use that address, in the prefix by which the peer sees the external CIDR", pageReach)}
	case isIn(external, address):
		return []Finding{newFailure("address "+address.String(), "no IP of this cluster shows a host under it", "make an IP for the host", pageReach)}
	}
	return []Finding{newFailure("address "+address.String(), "it is in no network of this cluster that peers reach", "make an IP for the host", pageReach)}
}

// restrictsPeers reports whether the fabric lets peers reach offloaded pods only.
func (s *Scene) restrictsPeers() bool {
	for i := range s.DaemonSets {
		if !s.isFabric(s.DaemonSets[i]) {
			continue
		}
		for _, c := range s.DaemonSets[i].Spec.Template.Spec.Containers {
			if slices.Contains(slices.Concat(c.Command, c.Args), "--peer-access=offloaded") {
				return true
			}
		}
	}
	return false
}

// TraceWithoutEndpoints returns the trace to a Service without ready endpoints.
func TraceWithoutEndpoints(s *Scene, from *End) *Explanation {
	ref := Ref("Service", s.Service)
	w := &chainWriter{chain: Chain{Name: from.Name + " to " + ref}}
	w.addLink(s, "the Service has ready endpoints", "", func() []Finding {
		return []Finding{newFailure(ref, "no endpoint is ready", fmt.Sprintf("run: liqoctl explain service %s -n %s", s.Service.Name, s.Service.Namespace), pageServices)}
	}, "EndpointSlice")
	return newExplanation(cmp.Or(w.chain.Name, ref), w)
}

// Merge returns one explanation of several, for example of the endpoints of a Service.
func Merge(object string, all []*Explanation) *Explanation {
	out := &Explanation{Object: object}
	for _, e := range all {
		out.Chains, out.Stopped = append(out.Chains, e.Chains...), out.Stopped || e.Stopped
	}
	return out
}
