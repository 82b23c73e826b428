// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// controlPlaneLabels mark the nodes that run the API server. The first label found on any node counts.
var controlPlaneLabels = []string{
	"node-role.kubernetes.io/control-plane",
	"node-role.kubernetes.io/master",
	"node-role.kubernetes.io/controlplane",
}

// addressTypes are the types of node addresses in the order in which a peer is likely to reach them.
var addressTypes = []corev1.NodeAddressType{
	corev1.NodeExternalDNS, corev1.NodeExternalIP, corev1.NodeInternalDNS, corev1.NodeInternalIP, corev1.NodeHostName,
}

const apiServerPort = "6443"

// APIServerURL returns the URL at which peers find the API server of this cluster: the configured address, with or without a
// scheme, else the address of a control-plane node.
func APIServerURL(configured string, nodes []corev1.Node) (string, error) {
	if configured != "" {
		return asURL(configured), nil
	}
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	for _, label := range controlPlaneLabels {
		for i := range nodes {
			if _, ok := nodes[i].Labels[label]; !ok {
				continue
			}
			if address := bestAddress(nodes[i].Status.Addresses); address != "" {
				return "https://" + net.JoinHostPort(address, apiServerPort), nil
			}
		}
	}
	return "", errors.New("no control-plane node with an address was found: set the address of the API server in the configuration")
}

// asURL adds the missing parts of an address: the scheme, and the brackets of an IPv6 address.
func asURL(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "https", address
	}
	host, path, more := strings.Cut(rest, "/")
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
		host = "[" + host + "]"
	}
	if more {
		host += "/" + path
	}
	return scheme + "://" + host
}

func bestAddress(addresses []corev1.NodeAddress) string {
	for _, t := range addressTypes {
		for _, address := range addresses {
			if address.Type == t && address.Address != "" {
				return address.Address
			}
		}
	}
	return ""
}

// IsControlPlane reports whether peers may be directed to the node as one with the API server.
func IsControlPlane(node *corev1.Node) bool {
	return slices.ContainsFunc(controlPlaneLabels, func(label string) bool {
		_, ok := node.Labels[label]
		return ok
	})
}
