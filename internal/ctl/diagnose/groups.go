// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"slices"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// Names of the findings of Health, for unreadable kinds.
const (
	Workloads    = "workloads"
	CRDs         = "CRDs"
	Webhooks     = "webhooks"
	Networks     = "networks of this cluster"
	Orphans      = "slices of consumers"
	Certificates = "certificates"
	Rights       = "rights"
	OtherLiqo    = "other installations"
)

// Health has the findings that "liqoctl info" prints as alerts, too.
type Health struct {
	Workloads, CRDs, Webhooks, Networks, Orphans, Certificates []Finding
}

// newCheck applies a rule, unless a needed kind is unreadable.
func (f *Facts) newCheck(name string, find func() []Finding, needs ...string) Check {
	var missing []Finding
	for _, kind := range needs {
		if reason := f.Unreadable[kind]; reason != "" {
			missing = append(missing, Finding{Severity: Warning, Object: kind, Message: "not checked: " + ForeignText(reason),
				Remedy: "ask for the right to list it", Page: "docs/troubleshooting.md#is-forbidden-or-you-are-not-allowed-to"})
		}
	}
	if len(missing) > 0 {
		return NewCheck(name, missing)
	}
	return NewCheck(name, find())
}

// gatheredBefore returns findings of an earlier gathering.
func gatheredBefore(all []Finding) func() []Finding { return func() []Finding { return all } }

// checkVersion, checkClock, checkNodeClocks, checkNodes and checkCNI are made before an installation, too.
func (f *Facts) checkVersion() Check {
	return f.newCheck("the version of Kubernetes is supported", f.FindVersion, "version").withNote(f.ServerVersion)
}

func (f *Facts) checkClock() Check { return f.newCheck("the clocks agree", f.FindSkew) }

func (f *Facts) checkNodeClocks() Check {
	return f.newCheck("the clocks of nodes agree", f.FindNodeClocks, "Node", UnreadableNodeLeases)
}

func (f *Facts) checkNodes() Check {
	return f.newCheck("nodes are ready, with a supported kernel", f.FindNodes, "Node")
}

func (f *Facts) checkCNI() Check {
	c := f.newCheck("the CNI is known", f.FindCNILimits, "DaemonSet", "ConfigMap")
	if name := f.FindCNI(); name != "" {
		return c.withNote(name + ", see docs/network-reach.md#cnis")
	}
	return c.withNote("none that is known: liqoctl test network tries it")
}

// PreGroups returns the checks before an installation.
func (f *Facts) PreGroups() []Group {
	return []Group{
		{"kubernetes", []Check{f.checkVersion(), f.checkClock(), f.checkNodeClocks(), f.checkNodes()}},
		{"installation", []Check{
			f.newCheck("you may install", f.FindMissingRights, Rights),
			f.newCheck("a signer answers requests for certificates", f.FindSigner, "CertificateSigningRequest"),
			f.newCheck("no other Liqo is in the way", f.FindOtherLiqo, OtherLiqo),
			f.newCheck("the address ranges are known, and no node is in them", f.FindClusterRanges, "Node").withNote(f.Preflight.joinRanges()),
			f.newCheck("load balancers get addresses", f.FindLoadBalancers, "Service"),
			f.checkCNI(),
		}},
	}
}

// Groups returns all groups: the cluster, Liqo, the network, each peer, and orphans.
func (f *Facts) Groups() []Group {
	all := []Group{
		{"kubernetes", []Check{
			f.checkVersion(), f.checkClock(), f.checkNodeClocks(), f.checkNodes(),
			f.newCheck("certificates are signed", f.FindSigning, "CertificateSigningRequest"),
		}},
		{"liqo", []Check{
			f.newCheck("every workload has its pods, and all are ready", gatheredBefore(f.Health.Workloads), Workloads),
			f.newCheck("the versions of workloads and liqoctl fit", f.FindVersions, "Deployment", "DaemonSet"),
			f.newCheck("its ServiceAccounts have their rights", f.FindBindings, "Deployment", "DaemonSet", "ClusterRoleBinding", "RoleBinding"),
			f.newCheck("CRDs are of this version", gatheredBefore(f.Health.CRDs), CRDs),
			f.newCheck("webhooks and policies work", gatheredBefore(f.Health.Webhooks), Webhooks),
			f.newCheck("leaders renew their Leases", f.FindLeases, "Lease", "Deployment"),
			f.newCheck("aggregated APIs are available", f.FindAPIServices, "APIService"),
		}},
		{"network", []Check{
			f.newCheck("the address ranges of this cluster are granted", gatheredBefore(f.Health.Networks), Networks),
			f.newCheck("no address ranges overlap each other or nodes", f.FindRanges, "Network", "Node"),
			f.newCheck("every node has its fabric and its address", f.FindInternalNodes, "InternalNode", "Node", "DaemonSet"),
			f.checkCNI(),
		}},
	}
	peers := slices.SortedFunc(slices.Values(f.Peers), func(a, b liqov1beta1.ForeignCluster) int { return cmp.Compare(a.Spec.ClusterID, b.Spec.ClusterID) })
	if f.Unreadable["ForeignCluster"] != "" {
		all = append(all, Group{"peers", []Check{f.newCheck("the peerings work", gatheredBefore(nil), "ForeignCluster")}})
	}
	certificates := f.certificatesByPeer()
	for i := range peers {
		all = append(all, f.newPeerGroup(&peers[i], certificates[string(peers[i].Spec.ClusterID)]))
	}
	return append(all, Group{"orphans", []Check{
		f.newCheck("consumers with ResourceSlices have a Tenant", gatheredBefore(f.Health.Orphans), Orphans),
		f.newCheck("all objects are of a known peer", f.FindUnknownPeers, "ForeignCluster", "Node", "VirtualNode"),
		f.newCheck("all remote namespaces are of an offloaded one", f.FindUnknownMappings, "NamespaceMap", "NamespaceOffloading"),
		f.newCheck("deletions end", f.FindStuckDeletions),
	}})
}

// GroupOf returns the group of one peer.
func (f *Facts) GroupOf(id liqov1beta1.ClusterID) (Group, bool) {
	i := slices.IndexFunc(f.Peers, func(fc liqov1beta1.ForeignCluster) bool { return fc.Spec.ClusterID == id })
	if i < 0 {
		return Group{}, false
	}
	return f.newPeerGroup(&f.Peers[i], f.certificatesByPeer()[string(id)]), true
}

// PeerGroup returns the name of the group of a peer.
func PeerGroup(id string) string { return "peer " + id }

// newPeerGroup returns the checks of one peering, from the credentials along the tunnel to the virtual nodes.
func (f *Facts) newPeerGroup(fc *liqov1beta1.ForeignCluster, certificates []PeerCertificate) Group {
	id := string(fc.Spec.ClusterID)
	late := slices.DeleteFunc(slices.Clone(f.Health.Certificates), func(c Finding) bool { return c.Peer != id })
	of := func(find func(*liqov1beta1.ForeignCluster) []Finding) func() []Finding {
		return func() []Finding { return find(fc) }
	}
	return Group{PeerGroup(id), []Check{
		f.newCheck("the clusters accept each other", func() []Finding { return append(f.findAuthentication(fc), f.findMisbehaviour(fc)...) }, "Tenant"),
		f.newCheck("certificates are renewed in time", func() []Finding { return append(late, f.findIssued(certificates)...) }, Certificates, "Tenant", "ResourceSlice").withNote(f.certificateAges(certificates)),
		f.newCheck("the versions of Liqo fit", of(f.findVersionGap)),
		f.newCheck("network: the address ranges are agreed", of(f.findConfiguration), "Configuration"),
		f.newCheck("network: the gateway is ready", of(f.findGateway), "GatewayServer", "GatewayClient", "PublicKey"),
		f.newCheck("network: the tunnel is connected", of(f.findConnection), "GatewayServer", "GatewayClient", "Connection").withNote(f.latencyOf(fc)),
		f.newCheck("ResourceSlices are accepted", of(f.findSlices), "ResourceSlice"),
		f.newCheck("virtual nodes are ready", of(f.findVirtualNodes), "VirtualNode", "Node"),
		f.newCheck("granted resources are not used up", of(f.findUsedUp), "VirtualNode", "Pod"),
		f.newCheck("offloaded namespaces are in the provider, and protected", of(f.findOffloaded), "NamespaceOffloading", "NamespaceMap"),
		f.newCheck("the Quotas of the consumer are not used up", of(f.findQuotas), "Quota", "Pod", "Namespace"),
	}}
}
