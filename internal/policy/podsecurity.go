// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Service meshes that inject sidecars into the pods of a namespace.
const (
	MeshIstio   = "Istio"
	MeshLinkerd = "Linkerd"
)

// InjectedMesh returns the service mesh whose webhook adds containers to the pods of a namespace, "" for none. The proxies of
// Istio's ambient mode run outside of the pods.
func InjectedMesh(namespace metav1.Object) string {
	labels, annotations := namespace.GetLabels(), namespace.GetAnnotations()
	switch {
	case labels["istio-injection"] == "enabled", labels["istio.io/rev"] != "" && labels["istio-injection"] != "disabled" && labels["istio.io/dataplane-mode"] != "ambient":
		return MeshIstio
	case isInjected(labels["linkerd.io/inject"]), isInjected(annotations["linkerd.io/inject"]):
		return MeshLinkerd
	}
	return ""
}

func isInjected(value string) bool { return value == "enabled" || value == "ingress" }

// IsEnforced reports whether a level of the Pod Security Standards forbids anything. An unknown level, as a peer may write it,
// does not.
func IsEnforced(level string) bool {
	return level == PodSecurityBaseline || level == PodSecurityRestricted
}

// CheckPodSecurity returns why a namespace that enforces a level rejects the pod, nil if no violation is evident. The check
// covers common fields of application pods; the API server of the namespace checks the whole pod.
func CheckPodSecurity(pod *corev1.PodSpec, level string) error {
	if !IsEnforced(level) {
		return nil
	}
	for _, v := range pod.Volumes {
		if v.HostPath != nil {
			return fmt.Errorf("volume %q mounts a path of the host", v.Name)
		}
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		sc := c.SecurityContext
		if sc != nil && sc.Privileged != nil && *sc.Privileged {
			return fmt.Errorf("container %q is privileged", c.Name)
		}
		if port := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 }); port >= 0 {
			return fmt.Errorf("container %q asks for port %d of the host", c.Name, c.Ports[port].HostPort)
		}
		if added := forbiddenCapability(sc); added != "" {
			return fmt.Errorf("container %q adds the capability %s", c.Name, added)
		}
		if level != PodSecurityRestricted {
			continue
		}
		if err := checkRestricted(pod.SecurityContext, &c); err != nil {
			return err
		}
	}
	return nil
}

// checkRestricted returns an error that names a requirement of the level restricted not met by a container.
func checkRestricted(pod *corev1.PodSecurityContext, c *corev1.Container) error {
	if pod == nil {
		pod = &corev1.PodSecurityContext{}
	}
	sc := c.SecurityContext
	if sc == nil {
		sc = &corev1.SecurityContext{}
	}
	nonRoot, seccomp := pod.RunAsNonRoot, pod.SeccompProfile
	if sc.RunAsNonRoot != nil {
		nonRoot = sc.RunAsNonRoot
	}
	if sc.SeccompProfile != nil {
		seccomp = sc.SeccompProfile
	}
	switch {
	case sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation:
		return fmt.Errorf("container %q may escalate privileges", c.Name)
	case sc.Capabilities == nil || !slices.Contains(sc.Capabilities.Drop, "ALL"):
		return fmt.Errorf("container %q does not drop all capabilities", c.Name)
	case slices.ContainsFunc(sc.Capabilities.Add, func(added corev1.Capability) bool { return added != "NET_BIND_SERVICE" }):
		return fmt.Errorf("container %q adds capabilities", c.Name)
	case nonRoot == nil || !*nonRoot:
		return fmt.Errorf("container %q may run as root", c.Name)
	case seccomp == nil || seccomp.Type == corev1.SeccompProfileTypeUnconfined:
		return fmt.Errorf("container %q has no seccomp profile", c.Name)
	}
	return nil
}
