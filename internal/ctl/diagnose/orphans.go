// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// deletionWarning and deletionFailure are how long the deletion of an object may take. The deletion of a virtual node waits for pods, and may take
// more than two minutes, the limit for naming a fault.
const deletionWarning, deletionFailure = 2 * time.Minute, 5 * time.Minute

// eachOfPeers calls visit for the objects of peerings, with their kind and cluster ID.
func (f *Facts) eachOfPeers(visit func(kind string, obj client.Object, id liqov1beta1.ClusterID)) {
	labelled := func(kind string, obj client.Object) {
		if id := obj.GetLabels()[names.RemoteClusterID]; id != "" {
			visit(kind, obj, liqov1beta1.ClusterID(id))
		}
	}
	for i := range f.Namespaces {
		labelled("Namespace", &f.Namespaces[i])
	}
	for i := range f.Configurations {
		labelled("Configuration", &f.Configurations[i])
	}
	for i := range f.Servers {
		labelled("GatewayServer", &f.Servers[i])
	}
	for i := range f.Clients {
		labelled("GatewayClient", &f.Clients[i])
	}
	for i := range f.Connections {
		labelled("Connection", &f.Connections[i])
	}
	for i := range f.PublicKeys {
		labelled("PublicKey", &f.PublicKeys[i])
	}
	for i := range f.Networks {
		labelled("Network", &f.Networks[i])
	}
	for i := range f.Quotas {
		visit("Quota", &f.Quotas[i], liqov1beta1.ClusterID(f.PeerOf(&f.Quotas[i])))
	}
	for i := range f.Slices {
		labelled("ResourceSlice", &f.Slices[i])
	}
	for i := range f.Tenants {
		visit("Tenant", &f.Tenants[i], f.Tenants[i].Spec.ClusterID)
	}
	for i := range f.Identities {
		visit("Identity", &f.Identities[i], f.Identities[i].Spec.ClusterID)
	}
	for i := range f.NamespaceMaps {
		m := &f.NamespaceMaps[i]
		id := cmp.Or(m.Labels[names.ReplicationDestination], m.Name)
		if m.Labels[names.Replicated] == "true" {
			id = m.Labels[names.ReplicationOrigin]
		}
		visit("NamespaceMap", m, liqov1beta1.ClusterID(id))
	}
	for i := range f.VirtualNodes {
		visit("VirtualNode", &f.VirtualNodes[i], f.VirtualNodes[i].Spec.ClusterID)
	}
}

// FindStuckDeletions returns objects whose deletion does not end.
func (f *Facts) FindStuckDeletions() (all []Finding) {
	f.eachOfPeers(func(kind string, obj client.Object, _ liqov1beta1.ClusterID) {
		deleted := obj.GetDeletionTimestamp()
		if deleted == nil || f.Now.Sub(deleted.Time) < deletionWarning {
			return
		}
		found := newFailure(Ref(kind, obj), fmt.Sprintf("it is being deleted for %s, and waits for the finalizers %s", f.Now.Sub(deleted.Time).Round(time.Second), strings.Join(obj.GetFinalizers(), ", ")),
			"see its events; if the peer is gone for good, run liqoctl force unpeer", pageDeletion)
		if f.Now.Sub(deleted.Time) < deletionFailure {
			found = warningOf(found)
		}
		all = append(all, found)
	})
	return all
}

// FindUnknownPeers returns objects of clusters without a ForeignCluster, and virtual nodes without a VirtualNode: an uninstallation does not finish
// before their deletion.
func (f *Facts) FindUnknownPeers() (all []Finding) {
	known := map[liqov1beta1.ClusterID]bool{}
	for i := range f.Peers {
		known[f.Peers[i].Spec.ClusterID] = true
	}
	f.eachOfPeers(func(kind string, obj client.Object, id liqov1beta1.ClusterID) {
		if !known[id] && id != "" && kind != "Namespace" {
			all = append(all, warningOf(newFailure(Ref(kind, obj), fmt.Sprintf("no ForeignCluster %s exists", id), fmt.Sprintf("delete it, or all of that peer: liqoctl force unpeer %s", id),
				"docs/troubleshooting.md#the-provider-is-gone-for-good")))
		}
	})
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Labels[names.NodeType] == names.NodeTypeVirtualNode && !slices.ContainsFunc(f.VirtualNodes, func(vn offv1beta1.VirtualNode) bool { return vn.Name == n.Name }) {
			all = append(all, newFailure(Ref("Node", n), "it is a virtual node without a VirtualNode", "run: kubectl delete node "+n.Name, "docs/troubleshooting.md#a-virtualnode-stays-although-it-is-deleted"))
		}
	}
	return all
}

// FindUnknownMappings returns the entries of NamespaceMaps of this cluster without a NamespaceOffloading: their remote namespaces stay.
func (f *Facts) FindUnknownMappings() (all []Finding) {
	for i := range f.NamespaceMaps {
		m := &f.NamespaceMaps[i]
		if m.Labels[names.Replicated] == "true" || m.DeletionTimestamp != nil {
			continue
		}
		for _, namespace := range slices.Sorted(maps.Keys(m.Spec.DesiredMapping)) {
			if !slices.ContainsFunc(f.Offloadings, func(nso offv1beta1.NamespaceOffloading) bool { return nso.Namespace == namespace }) {
				all = append(all, warningOf(newFailure(Ref("NamespaceMap", m), fmt.Sprintf("it asks for %s, and the namespace %s is not offloaded", m.Spec.DesiredMapping[namespace], namespace),
					"remove that entry: kubectl edit namespacemap, or offload the namespace again", pageDeletion)))
			}
		}
	}
	return all
}
