// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package info

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// Collector reads the data of the command info.
type Collector struct {
	client.Reader
	Namespace string
	// Chart has the CRDs of this version.
	Chart fs.FS
}

type localInfo struct {
	ClusterID     string            `json:"clusterID"`
	Version       string            `json:"version"`
	Labels        map[string]string `json:"labels" also:"clusterLabels"`
	APIServerAddr string            `also:"APIServerAddress"` // the key in existing scripts
}

type healthInfo struct {
	Healthy       bool                    `json:"healthy"`
	UnhealthyPods map[string]unhealthyPod `json:"unhealthyPods,omitempty"`
	// MissingPods are workloads with fewer pods than desired.
	MissingPods map[string]missingPods `json:"missingPods,omitempty"`
	// Alerts are all other problems, in words.
	Alerts []string `json:"alerts,omitempty"`
	// Healed are failures of peerings that are over, the newest last. By default the API server keeps them for an hour.
	Healed []string `json:"healed,omitempty"`
	// Findings are the alerts with their remedies.
	Findings []diagnose.Finding `json:"-"`
}

type unhealthyPod struct {
	Status          string `json:"status"`
	ReadyContainers int    `json:"readyContainers"`
	TotalContainers int    `json:"totalContainers"`
	Restarts        int    `json:"restarts"`
	Reason          string `json:"reason,omitempty"`
}

type missingPods struct {
	Kind   string `json:"kind"`
	Pods   int32  `json:"pods"`
	Wanted int32  `json:"wanted"`
	Reason string `json:"reason,omitempty"`
}

type networkInfo struct {
	PodCIDRs     []string `json:"podCIDRs" also:"podCIDR,CIDR"`
	ServiceCIDR  string   `json:"serviceCIDR"`
	ExternalCIDR string   `json:"externalCIDR"`
	InternalCIDR string   `json:"internalCIDR"`
}

type peeringsInfo struct {
	Peers []peerInfo `json:"peers"`
}

type peerInfo struct {
	ClusterID            string `json:"clusterID"`
	Role                 string `json:"role"`
	NetworkingStatus     string `json:"networkingStatus"`
	AuthenticationStatus string `json:"authenticationStatus"`
	OffloadingStatus     string `json:"offloadingStatus"`
	// Alerts give the reasons why a module is unhealthy.
	Alerts []string `json:"alerts,omitempty"`
}

// collectLocal reads the static data of an installation. Each part may be missing independently.
func (f *Collector) collectLocal(ctx context.Context) (localInfo, []error) {
	info := localInfo{Labels: map[string]string{}}
	var problems []error
	var err error
	if info.ClusterID, err = f.ReadClusterID(ctx); err != nil {
		problems = append(problems, err)
	}
	manager, err := cluster.ControllerManager(ctx, f, f.Namespace)
	if err != nil {
		return info, append(problems, err)
	}
	container, err := cluster.ManagerContainer(manager)
	if err != nil {
		return info, append(problems, err)
	}
	info.Version = cluster.ImageVersion(container.Image)
	command := slices.Concat(container.Command, container.Args)
	info.Labels = parseLabels(cluster.FlagValue(command, "cluster-labels"))
	if info.APIServerAddr, err = f.apiServer(ctx, cluster.FlagValue(command, "api-server-address-override")); err != nil {
		problems = append(problems, err)
	}
	return info, problems
}

// parseLabels parses k=v,k=v; a value may contain further equal signs.
func parseLabels(text string) map[string]string {
	labels := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			labels[k] = v
		}
	}
	return labels
}

// apiServer returns the API server address reported to peers.
func (f *Collector) apiServer(ctx context.Context, override string) (string, error) {
	var nodes corev1.NodeList
	if override == "" {
		if err := f.List(ctx, &nodes); err != nil {
			return "", fmt.Errorf("looking for the control plane: %w", err)
		}
	}
	return policy.APIServerURL(override, nodes.Items)
}

func (f *Collector) collectNetwork(ctx context.Context) (*networkInfo, error) {
	info := &networkInfo{PodCIDRs: []string{}}
	var list ipamv1alpha1.NetworkList
	if err := f.List(ctx, &list); err != nil {
		return info, fmt.Errorf("reading the networks: %w", err)
	}
	for _, n := range list.Items {
		cidr := string(n.Status.CIDR)
		if cidr == "" {
			continue // not granted yet
		}
		switch n.Labels[names.NetworkType] {
		case names.NetworkTypePod:
			info.PodCIDRs = append(info.PodCIDRs, cidr)
		case names.NetworkTypeService:
			info.ServiceCIDR = cidr
		case names.NetworkTypeExternal:
			info.ExternalCIDR = cidr
		case names.NetworkTypeInternal:
			info.InternalCIDR = cidr
		}
	}
	slices.Sort(info.PodCIDRs)
	return info, nil
}

func (f *Collector) collectPeerings(ctx context.Context) (peeringsInfo, error) {
	info := peeringsInfo{Peers: []peerInfo{}}
	var list liqov1beta1.ForeignClusterList
	if err := f.List(ctx, &list); apimeta.IsNoMatchError(err) {
		return info, fmt.Errorf("the CRDs of Liqo are not installed")
	} else if err != nil {
		return info, fmt.Errorf("reading the peerings: %w", err)
	}
	for _, fc := range list.Items {
		networking, authentication, offloading := newModuleInfo(fc.Status.Modules.Networking), authenticationOf(&fc), newModuleInfo(fc.Status.Modules.Offloading)
		info.Peers = append(info.Peers, peerInfo{
			ClusterID:            string(fc.Spec.ClusterID),
			Role:                 string(fc.Status.Role),
			NetworkingStatus:     networking.Status,
			AuthenticationStatus: authentication.Status,
			OffloadingStatus:     offloading.Status,
			Alerts:               slices.Concat(networking.Alerts, authentication.Alerts, offloading.Alerts),
		})
	}
	slices.SortFunc(info.Peers, func(a, b peerInfo) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
	return info, nil
}
