// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/names"
)

// APIServerRoute is the path of pods in the provider to the API server of this cluster.
type APIServerRoute struct {
	// Host and Port are the values in the pod's environment.
	Host string
	Port uint16
	// Addr is the address of Host, as published to the provider; invalid if Host needs no host alias. Without the alias
	// the provider's own API server would answer to names.APIServerHost.
	Addr netip.Addr
}

// String returns the form stored in ShadowPods: host:port, and @ with the address of the host.
func (h APIServerRoute) String() string {
	out := net.JoinHostPort(h.Host, strconv.Itoa(int(h.Port)))
	if h.Addr.IsValid() {
		out += "@" + h.Addr.String()
	}
	return out
}

// RouteOf returns the Home stored in a ShadowPod, nil for none.
func RouteOf(shadow metav1.Object) *APIServerRoute {
	way, at, named := strings.Cut(shadow.GetAnnotations()[names.APIServerRoute], "@")
	host, portText, err := net.SplitHostPort(way)
	if err != nil || host == "" {
		return nil
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil
	}
	out := &APIServerRoute{Host: host, Port: uint16(port)}
	if !named {
		return out
	}
	if out.Addr, err = netip.ParseAddr(at); err != nil {
		return nil
	}
	return out
}

// hostAliases come first: the first line of a name takes precedence.
func (h *APIServerRoute) hostAliases() []corev1.HostAlias {
	if !h.Addr.IsValid() {
		return nil
	}
	return []corev1.HostAlias{{IP: h.Addr.String(), Hostnames: []string{h.Host, h.Host + ".svc"}}}
}

// standardPort is the port in the names of the variables of nearly every cluster.
const standardPort = "443"

// envVars returns the variables that a kubelet of this cluster would set for its API server. For a nil route all are empty: client
// libraries must find no API server. The variables cover all that a kubelet of the provider would set for its API server.
func (h *APIServerRoute) envVars() []corev1.EnvVar {
	if h == nil {
		return apiServerEnv("", "", standardPort)
	}
	port := strconv.Itoa(int(h.Port))
	out := apiServerEnv(h.Host, port, port)
	if port != standardPort {
		out = append(out, portEnv("", "", standardPort)...)
	}
	return out
}

func apiServerEnv(host, port, named string) []corev1.EnvVar {
	return append([]corev1.EnvVar{
		{Name: "KUBERNETES_SERVICE_HOST", Value: host},
		{Name: "KUBERNETES_SERVICE_PORT", Value: port},
		{Name: "KUBERNETES_SERVICE_PORT_HTTPS", Value: port},
		{Name: "KUBERNETES_PORT", Value: urlOf(host, port)},
	}, portEnv(host, port, named)...)
}

func portEnv(host, port, named string) []corev1.EnvVar {
	name, protocol := "KUBERNETES_PORT_"+named+"_TCP", ""
	if host != "" {
		protocol = "tcp"
	}
	return []corev1.EnvVar{
		{Name: name, Value: urlOf(host, port)},
		{Name: name + "_PROTO", Value: protocol},
		{Name: name + "_ADDR", Value: host},
		{Name: name + "_PORT", Value: port},
	}
}

func urlOf(host, port string) string {
	if host == "" {
		return ""
	}
	return "tcp://" + net.JoinHostPort(host, port)
}
