// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
)

// PodReady reports whether the pod is ready.
func PodReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// NotReady returns a Pending about pods of which none is ready, or an error if a change is needed.
func NotReady(of string, pods []corev1.Pod) error {
	for i := range pods {
		problem := kube.PodProblemOf(&pods[i])
		switch {
		case pods[i].DeletionTimestamp != nil || problem.Reason == "":
			continue
		case problem.IsPermanent():
			return ui.Fail("pod %s does not start: %s", pods[i].Name, problem)
		}
		return kube.Pending(fmt.Sprintf("pod %s does not start: %s", pods[i].Name, problem))
	}
	return kube.Pending(fmt.Sprintf("no pod of %s is ready", of))
}

// EndpointTexts returns all addresses with all ports, in order.
func EndpointTexts(e *networkingv1beta1.EndpointStatus) (all []string) {
	if e == nil {
		return nil
	}
	ports := e.Ports
	if len(ports) == 0 {
		ports = []int32{e.Port}
	}
	for _, address := range e.Addresses {
		for _, port := range ports {
			all = append(all, net.JoinHostPort(address, strconv.Itoa(int(port))))
		}
	}
	return all
}
