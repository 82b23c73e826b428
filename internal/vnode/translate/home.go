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

// Home is how pods in the provider reach the API server of this cluster.
type Home struct {
	// Host and Port are what the pod is told.
	Host string
	Port uint16
	// Addr is where Host is, as it is shown to the provider; invalid where Host is no name of a cluster. The provider's own
	// API server answers to names.APIServerHost otherwise.
	Addr netip.Addr
}

// String is the way as ShadowPods remember it: host:port, and @ with the address of the host.
func (h Home) String() string {
	out := net.JoinHostPort(h.Host, strconv.Itoa(int(h.Port)))
	if h.Addr.IsValid() {
		out += "@" + h.Addr.String()
	}
	return out
}

// HomeOf is the way that a ShadowPod remembers, nil for none.
func HomeOf(shadow metav1.Object) *Home {
	way, at, named := strings.Cut(shadow.GetAnnotations()[names.HomeAPIServer], "@")
	host, portText, err := net.SplitHostPort(way)
	if err != nil || host == "" {
		return nil
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil
	}
	out := &Home{Host: host, Port: uint16(port)}
	if !named {
		return out
	}
	if out.Addr, err = netip.ParseAddr(at); err != nil {
		return nil
	}
	return out
}

// aliases come first: the first line of a name counts.
func (h *Home) aliases() []corev1.HostAlias {
	if !h.Addr.IsValid() {
		return nil
	}
	return []corev1.HostAlias{{IP: h.Addr.String(), Hostnames: []string{h.Host, h.Host + ".svc"}}}
}

// env are the variables that a kubelet of this cluster would set.
func (h *Home) env() []corev1.EnvVar {
	port := strconv.Itoa(int(h.Port))
	all, one := "tcp://"+net.JoinHostPort(h.Host, port), "KUBERNETES_PORT_"+port+"_TCP"
	return []corev1.EnvVar{
		{Name: "KUBERNETES_SERVICE_HOST", Value: h.Host},
		{Name: "KUBERNETES_SERVICE_PORT", Value: port},
		{Name: "KUBERNETES_PORT", Value: all},
		{Name: one, Value: all},
		{Name: one + "_PROTO", Value: "tcp"},
		{Name: one + "_ADDR", Value: h.Host},
		{Name: one + "_PORT", Value: port},
	}
}
