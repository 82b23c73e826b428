// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// Levels of the Pod Security Standards, the values of the namespace label PodSecurityLabel.
const (
	PodSecurityLabel      = "pod-security.kubernetes.io/enforce"
	PodSecurityPrivileged = "privileged"
	PodSecurityBaseline   = "baseline"
	PodSecurityRestricted = "restricted"
)

// Policy is the policy of a provider for the pods of a consumer in a namespace.
type Policy struct {
	// Consumer is the cluster that the namespace is for.
	Consumer string
	// PodSecurity is the level that the namespace enforces. Evident violations are denied early, with a clear message. The API
	// server still checks the whole pod.
	PodSecurity string
	// Pods is the further policy of the administrator.
	Pods RemotePods
}

// CheckShadowPod returns why the provider does not run the pod, nil if it may.
func CheckShadowPod(sp *offv1beta1.ShadowPod, p Policy) error {
	if err := CheckShadowPodItself(sp); err != nil {
		return err
	}
	switch origin := sp.Labels[names.OffloadingOrigin]; {
	case p.Consumer == "":
		return errors.New("the namespace belongs to no peering")
	case origin != p.Consumer:
		return fmt.Errorf("shadowpod Cluster ID label mismatch: the namespace belongs to cluster %q, the pod comes from %q", p.Consumer, origin)
	}
	if err := p.Pods.check(&sp.Spec.Pod, p.PodSecurity); err != nil {
		return err
	}
	if p.PodSecurity == "" || p.PodSecurity == PodSecurityPrivileged {
		return nil
	}
	return checkBaseline(&sp.Spec.Pod, p.PodSecurity)
}

// CheckShadowPodItself returns an error if the ShadowPod is invalid under every policy. No other object is read.
func CheckShadowPodItself(sp *offv1beta1.ShadowPod) error {
	if sp.Labels[names.OffloadingOrigin] == "" {
		return fmt.Errorf("the label %s is missing", names.OffloadingOrigin)
	}
	return checkPlacement(&sp.Spec.Pod)
}

// checkPlacement returns an error for fields not covered by the level of Pod Security: a consumer never selects nodes of
// the provider directly, shares the host namespaces or preempts system pods.
func checkPlacement(pod *corev1.PodSpec) error {
	switch {
	case len(pod.Containers) == 0:
		return errors.New("the pod has no containers")
	case pod.NodeName != "":
		return errors.New("a pod of another cluster may not choose its node by name (spec.nodeName)")
	case pod.HostNetwork:
		return errors.New("a pod of another cluster may not use the host's network (spec.hostNetwork)")
	case pod.HostPID:
		return errors.New("a pod of another cluster may not see the host's processes (spec.hostPID)")
	case pod.HostIPC:
		return errors.New("a pod of another cluster may not use the host's IPC namespace (spec.hostIPC)")
	case strings.HasPrefix(pod.PriorityClassName, "system-"):
		return fmt.Errorf("the priority class %q is kept for the provider's own system pods", pod.PriorityClassName)
	case pod.Priority != nil && *pod.Priority >= firstSystemPriority:
		return fmt.Errorf("a priority of %d is kept for the provider's own system pods", *pod.Priority)
	}
	return nil
}

// firstSystemPriority is the lowest value that Kubernetes reserves for system classes.
const firstSystemPriority = 1_000_000_000

func checkBaseline(pod *corev1.PodSpec, level string) error {
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if sc := c.SecurityContext; sc != nil && sc.Privileged != nil && *sc.Privileged {
			return fmt.Errorf("container %q is privileged, which the provider's Pod Security level %q forbids", c.Name, level)
		}
		for _, port := range c.Ports {
			if port.HostPort != 0 {
				return fmt.Errorf("container %q asks for port %d of the host, which the provider's Pod Security level %q forbids", c.Name, port.HostPort, level)
			}
		}
		if added := forbiddenCapability(c.SecurityContext); added != "" {
			return fmt.Errorf("container %q adds the capability %s, which the provider's Pod Security level %q forbids", c.Name, added, level)
		}
	}
	return nil
}

// baselineCapabilities may be added to a container at the baseline level.
var baselineCapabilities = []corev1.Capability{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

func forbiddenCapability(sc *corev1.SecurityContext) corev1.Capability {
	if sc == nil || sc.Capabilities == nil {
		return ""
	}
	for _, c := range sc.Capabilities.Add {
		if !slices.Contains(baselineCapabilities, c) {
			return c
		}
	}
	return ""
}

// CheckShadowPodUpdate returns why the update from old to now is invalid, nil if it is valid: as in a Pod, only images,
// resources, activeDeadlineSeconds, tolerations and ephemeral containers are mutable. Unchanged fields stay valid when the
// policy becomes stricter.
func CheckShadowPodUpdate(old, now *offv1beta1.ShadowPod, allowed RemotePods) error {
	if was, is := old.Labels[names.OffloadingOrigin], now.Labels[names.OffloadingOrigin]; was != is {
		return fmt.Errorf("the label %s is immutable: it was %q and would become %q", names.OffloadingOrigin, was, is)
	}
	if !reflect.DeepEqual(fixedPart(&old.Spec.Pod), fixedPart(&now.Spec.Pod)) {
		return errors.New("of a pod's spec only images, resources, activeDeadlineSeconds, tolerations and ephemeral containers may change")
	}
	added := slices.DeleteFunc(slices.Clone(now.Spec.Pod.Tolerations), func(t corev1.Toleration) bool {
		return slices.ContainsFunc(old.Spec.Pod.Tolerations, func(current corev1.Toleration) bool { return reflect.DeepEqual(current, t) })
	})
	return allowed.CheckTolerations(added)
}

func fixedPart(pod *corev1.PodSpec) *corev1.PodSpec {
	fixed := pod.DeepCopy()
	fixed.ActiveDeadlineSeconds, fixed.Tolerations, fixed.Resources, fixed.EphemeralContainers = nil, nil, nil, nil
	for _, list := range [][]corev1.Container{fixed.InitContainers, fixed.Containers} {
		for i := range list {
			list[i].Image, list[i].Resources = "", corev1.ResourceRequirements{}
		}
	}
	return fixed
}

var notInLabels = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// CreatorUser returns the value of the label CreatorUser for the name of a user.
func CreatorUser(user string) string {
	escaped := notInLabels.ReplaceAllString(user, "-")
	if len(escaped) > 63 {
		escaped = names.Join(escaped)
	}
	return strings.Trim(escaped, "-_.")
}
