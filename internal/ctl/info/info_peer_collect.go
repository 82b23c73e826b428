// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package info

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// peerReport is the report about one peer; the sections are in the order of the screen.
type peerReport struct {
	Info           peerIdentity       `json:"info"`
	Network        peerNetworkInfo    `json:"network"`
	Authentication peerAuthentication `json:"authentication"`
	Offloading     peerOffloading     `json:"offloading"`
}

type peerIdentity struct {
	ClusterID string `json:"clusterID"`
	Role      string `json:"role"`
	Version   string `json:"version,omitempty"`
	// Capabilities are the capabilities of Liqo at the peer.
	Capabilities []string `json:"capabilities,omitempty"`
}

type moduleInfo struct {
	Status string   `json:"status"`
	Alerts []string `json:"alerts,omitempty"`
}

type peerNetworkInfo struct {
	moduleInfo
	CIDRs      peerCIDRs       `json:"CIDRs" also:"CIDR"` // the key in existing scripts
	Gateway    peerGateway     `json:"gateway"`
	Connection *peerConnection `json:"connection,omitempty"`
}

type peerCIDRs struct {
	Remote   networkingv1beta1.ClusterConfigCIDR  `json:"remote"`
	Remapped *networkingv1beta1.ClusterConfigCIDR `json:"remapped,omitempty"`
	// placed are the ranges with a local prefix, in the order of Remapped.
	placed networkingv1beta1.ClusterConfigCIDR
}

// peerGateway is the gateway of the peer if the peer has the server, else the local gateway.
type peerGateway struct {
	Address []string `json:"address"`
	Port    int32    `json:"port"`
	Ports   []int32  `json:"ports,omitempty"`
	Role    string   `json:"role"`
	MTU     int      `json:"mtu,omitempty"`
	// ToldEndpoints are the server addresses that the peer reports and the gateway's configuration lacks: both are dialled.
	ToldEndpoints []string `json:"toldEndpoints,omitempty"`
}

type peerConnection struct {
	Status  string `json:"status"`
	Latency string `json:"latency,omitempty"`
	// FailedNodes are the nodes whose pods do not reach the peer although the tunnel is up, ten at most.
	FailedNodes []string `json:"failedNodes,omitempty"`
}

type peerAuthentication struct {
	moduleInfo
	APIServerAddr  string      `json:"APIServerAddr" also:"APIServerAddress"`
	ResourceSlices []peerSlice `json:"resourceSlices"`
}

type peerSlice struct {
	Name      string              `json:"name"`
	Action    string              `json:"action"`
	Accepted  bool                `json:"accepted"`
	Alerts    []string            `json:"alerts,omitempty"`
	Resources corev1.ResourceList `json:"resources"`
}

type peerOffloading struct {
	moduleInfo
	VirtualNodes []peerNode `json:"virtualNodes"`
}

type peerNode struct {
	Name          string              `json:"name"`
	Status        string              `json:"status"`
	Secret        string              `json:"secret"`
	ResourceSlice string              `json:"resourceSlice,omitempty"`
	Resources     corev1.ResourceList `json:"resources"`
}

// missingPeers is the error about unknown peers.
type missingPeers []string

// Error returns the text of the error.
func (m missingPeers) Error() string {
	return fmt.Sprintf("Peer clusters %q not found in active peerings", strings.Join(m, ", "))
}

// selectedPeers returns the peers with the IDs, or all peers.
func (f *Collector) selectedPeers(ctx context.Context, ids []string) ([]liqov1beta1.ForeignCluster, error) {
	var list liqov1beta1.ForeignClusterList
	if err := f.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("reading the peerings: %w", err)
	}
	missing := slices.Clone(ids)
	found := slices.DeleteFunc(list.Items, func(fc liqov1beta1.ForeignCluster) bool {
		id := string(fc.Spec.ClusterID)
		missing = slices.DeleteFunc(missing, func(s string) bool { return s == id })
		return len(ids) > 0 && !slices.Contains(ids, id)
	})
	if len(missing) > 0 {
		return nil, ui.Fail("%w", missingPeers(missing))
	}
	slices.SortFunc(found, func(a, b liqov1beta1.ForeignCluster) int { return cmp.Compare(a.Spec.ClusterID, b.Spec.ClusterID) })
	return found, nil
}

// collectPeer collects the report about a peer, without unreadable parts.
func (f *Collector) collectPeer(ctx context.Context, fc *liqov1beta1.ForeignCluster) (*peerReport, []infoProblem) {
	id, modules := string(fc.Spec.ClusterID), fc.Status.Modules
	r := &peerReport{
		Info:           peerIdentity{id, string(fc.Status.Role), fc.Status.Version, fc.Status.Capabilities},
		Network:        peerNetworkInfo{moduleInfo: newModuleInfo(modules.Networking), Gateway: peerGateway{Address: []string{}}},
		Authentication: peerAuthentication{moduleInfo: authenticationOf(fc), ResourceSlices: []peerSlice{}},
		Offloading:     peerOffloading{moduleInfo: newModuleInfo(modules.Offloading), VirtualNodes: []peerNode{}},
	}
	var problems []infoProblem
	for _, part := range []struct {
		of            liqov1beta1.Module
		section, what string
		read          func(context.Context, *peerReport, client.MatchingLabels) error
	}{
		{modules.Networking, "network", "networks", f.peerCIDRs},
		{modules.Networking, "network", "gateway", f.peerGateway},
		{modules.Authentication, "authentication", "ResourceSlices", f.peerSlices},
		{modules.Offloading, "offloading", "VirtualNodes", f.peerNodes},
	} {
		if !part.of.Enabled {
			continue
		}
		if err := part.read(ctx, r, client.MatchingLabels{names.RemoteClusterID: id}); err != nil {
			problems = append(problems, infoProblem{id, part.section, fmt.Errorf("reading the %s of %s: %w", part.what, id, err)})
		}
	}
	if modules.Authentication.Enabled {
		r.Authentication.APIServerAddr = cmp.Or(fc.Status.ForeignProxyURL, fc.Status.APIServerURL)
	}
	return r, problems
}

func newModuleInfo(m liqov1beta1.Module) moduleInfo {
	info := moduleInfo{Status: diagnose.ModuleStatus(m)}
	for _, c := range diagnose.Unready(m) {
		info.Alerts = append(info.Alerts, diagnose.ConditionText(c))
	}
	return info
}

// authenticationOf returns the state of the authentication. Alerts include objects not replicated to an authenticated peer, or because the
// credentials are gone, and a peer that sends too much.
func authenticationOf(fc *liqov1beta1.ForeignCluster) moduleInfo {
	info := newModuleInfo(fc.Status.Modules.Authentication)
	if reason := peer.Trouble(fc); reason != "" && info.Status != diagnose.Unhealthy {
		info.Alerts = append(info.Alerts, reason)
	}
	if c := peer.Misbehaviour(fc); c != nil {
		info.Alerts = append(info.Alerts, diagnose.ConditionText(*c))
	}
	return info
}

func (f *Collector) peerCIDRs(ctx context.Context, r *peerReport, of client.MatchingLabels) error {
	var list networkingv1beta1.ConfigurationList
	if err := f.List(ctx, &list, of); err != nil {
		return err
	}
	var problem error
	if len(list.Items) != 1 {
		problem = fmt.Errorf("%d Configurations exist instead of one", len(list.Items))
	}
	cfg := peer.Configuration(list.Items, liqov1beta1.ClusterID(of[names.RemoteClusterID]))
	if cfg == nil {
		return problem
	}
	r.Network.CIDRs.Remote = cfg.Spec.Remote.CIDR
	if local := cfg.Status.Remote; local != nil {
		r.Network.CIDRs.Remapped, r.Network.CIDRs.placed = &local.CIDR, cmp.Or(cfg.Status.ObservedRemote, &cfg.Spec.Remote).CIDR
	}
	return problem
}

func (f *Collector) peerGateway(ctx context.Context, r *peerReport, of client.MatchingLabels) error {
	var servers networkingv1beta1.GatewayServerList
	var clients networkingv1beta1.GatewayClientList
	for _, list := range []client.ObjectList{&servers, &clients} {
		if err := f.List(ctx, list, of); err != nil {
			return err
		}
	}
	if n := len(servers.Items) + len(clients.Items); n != 1 {
		return fmt.Errorf("%d gateways exist instead of one", n)
	}
	if len(servers.Items) == 1 {
		gw := &servers.Items[0]
		r.Network.Gateway = gatewayAt(gw.Status.Endpoint, "Client", cmp.Or(gw.Status.MTU, gw.Spec.MTU))
		return f.peerConnection(ctx, r, gw)
	}
	gw := &clients.Items[0]
	at, reported := &gw.Spec.Endpoint, gw.Status.Endpoint
	if len(at.Addresses) == 0 && reported != nil {
		at = reported
	}
	r.Network.Gateway = gatewayAt(at, "Server", cmp.Or(gw.Status.MTU, gw.Spec.MTU))
	r.Network.Gateway.ToldEndpoints = slices.DeleteFunc(cluster.EndpointTexts(reported), func(one string) bool { return slices.Contains(cluster.EndpointTexts(at), one) })
	return f.peerConnection(ctx, r, gw)
}

// gatewayAt returns the gateway of a report, by the endpoint of the server (possibly still unknown) and by the role of the peer.
func gatewayAt(at *networkingv1beta1.EndpointStatus, role string, mtu int) peerGateway {
	info := peerGateway{Address: []string{}, Role: role, MTU: mtu}
	if at != nil {
		info.Address, info.Port, info.Ports = append(info.Address, at.Addresses...), at.Port, at.Ports
	}
	return info
}

func (f *Collector) peerConnection(ctx context.Context, r *peerReport, gw client.Object) error {
	var connection networkingv1beta1.Connection
	err := f.Get(ctx, client.ObjectKey{Namespace: gw.GetNamespace(), Name: names.Gateway(gw.GetName())}, &connection)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	status := connection.Status
	r.Network.Connection = &peerConnection{string(status.Value), status.Latency.Value, status.FailedNodes}
	return nil
}

// peerSlices returns the ResourceSlices of a peer, including working slices without labels in the namespace of the peering.
func (f *Collector) peerSlices(ctx context.Context, r *peerReport, of client.MatchingLabels) error {
	id := of[names.RemoteClusterID]
	namespaces, err := peer.TenantNamespaces(ctx, f, liqov1beta1.ClusterID(id))
	if err != nil {
		return err
	}
	var list authv1beta1.ResourceSliceList
	if err := f.List(ctx, &list); err != nil {
		return err
	}
	for _, s := range list.Items {
		if s.Labels[names.RemoteClusterID] != id && !cluster.IsRequest(&s, id, namespaces...) {
			continue
		}
		info := peerSlice{Name: s.Name, Action: diagnose.ActionOf(&s), Resources: s.Status.Resources}
		info.Accepted, info.Alerts = diagnose.IsAccepted(&s)
		r.Authentication.ResourceSlices = append(r.Authentication.ResourceSlices, info)
	}
	return nil
}

func (f *Collector) peerNodes(ctx context.Context, r *peerReport, of client.MatchingLabels) error {
	var list offv1beta1.VirtualNodeList
	if err := f.List(ctx, &list); err != nil {
		return err
	}
	for _, vn := range list.Items {
		if string(vn.Spec.ClusterID) != of[names.RemoteClusterID] {
			continue
		}
		info := peerNode{Name: vn.Name, Status: diagnose.NodeStatus(&vn), ResourceSlice: vn.Labels[names.ResourceSliceName], Resources: vn.Spec.ResourceQuota.Hard}
		if vn.Spec.KubeconfigSecretRef != nil {
			info.Secret = vn.Spec.KubeconfigSecretRef.Name
		}
		r.Offloading.VirtualNodes = append(r.Offloading.VirtualNodes, info)
	}
	return nil
}
