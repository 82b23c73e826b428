// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/probe"
)

const (
	// ServerLabel marks server pods, with the number of their cluster: pods with the same number must not share a node.
	ServerLabel = "test-network.liqo.io/server"
	// AskerLabel marks client pods.
	AskerLabel = "test-network.liqo.io/asker"
	// ShownLabel marks the pods behind an IP.
	ShownLabel  = "test-network.liqo.io/shown"
	serverPort  = 8080
	servicePort = 80
	testUser    = 1000
)

// ofTest has the namespaces of the test. Some pods use the host network, to run checks as processes of the node do.
var ofTest = purpose{noun: "test", namespace: TestNamespace, label: "test-network.liqo.io/test", manager: "liqoctl-test-network", podSecurity: "privileged"}

// serviceName returns the name of the Service for the pods of the consumer and of the n-th provider.
func serviceName(n int) string { return "echo-" + strconv.Itoa(n+1) }

// headlessName returns the name of the headless Service for the same pods.
func headlessName(n int) string { return serviceName(n) + "-headless" }

// localName returns the name of the Service with externalTrafficPolicy Local for the same pods.
func localName(n int) string { return serviceName(n) + "-local" }

// backendLabel returns the label of the same pods.
func backendLabel(n int) string { return "test-network.liqo.io/" + serviceName(n) }

// newServices returns the Services of all providers.
func (t *networkTest) newServices() (all []*corev1.Service) {
	if t.basic {
		return nil
	}
	for n := range t.providers {
		all = append(all, t.servicesOf(n)...)
	}
	return all
}

// servicesOf returns the Services for the pods of the consumer and of the n-th provider.
func (t *networkTest) servicesOf(n int) []*corev1.Service {
	all := []*corev1.Service{t.newService(n), t.headlessService(n)}
	if t.nodePortOutside {
		all = append(all, t.localService(n))
	}
	return all
}

// newService returns a Service with a cluster IP.
func (t *networkTest) newService(n int) *corev1.Service {
	kind := corev1.ServiceTypeClusterIP
	switch {
	case t.loadBalancer:
		kind = corev1.ServiceTypeLoadBalancer
	case t.nodePortOutside, t.nodePortPods:
		kind = corev1.ServiceTypeNodePort
	}
	s := &corev1.Service{Spec: corev1.ServiceSpec{
		Type: kind, Selector: map[string]string{backendLabel(n): "true"},
		Ports: []corev1.ServicePort{{Name: "http", Port: servicePort, TargetPort: intstr.FromInt32(serverPort)}},
	}}
	s.Namespace, s.Name = t.consumer.servers, serviceName(n)
	s.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	return s
}

// headlessService returns a Service that resolves to the addresses of the pods. Clients use the port of the pods.
func (t *networkTest) headlessService(n int) *corev1.Service {
	s := t.newService(n)
	s.Name, s.Spec.Type, s.Spec.ClusterIP, s.Spec.Ports[0].Port = headlessName(n), corev1.ServiceTypeClusterIP, corev1.ClusterIPNone, serverPort
	return s
}

func (t *networkTest) localService(n int) *corev1.Service {
	s := t.newService(n)
	s.Name, s.Spec.Type, s.Spec.ExternalTrafficPolicy = localName(n), corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
	return s
}

// allServers returns the server pods.
func (t *networkTest) allServers() (all []*corev1.Pod) {
	for n, p := range t.providers {
		all = append(all, t.remoteServers(n, p)...)
	}
	return append(all, t.localServers()...)
}

// localServers returns one server pod for each node of the consumer, behind all Services.
func (t *networkTest) localServers() (all []*corev1.Pod) {
	for i := range t.consumer.nodes {
		pod := t.newServerPod("server-0-"+strconv.Itoa(i), t.consumer, 0)
		for n := range t.providers {
			pod.Labels[backendLabel(n)] = "true"
		}
		pod.Spec.Affinity = onNode(t.consumer.nodes[i].Name)
		all = append(all, pod)
	}
	return all
}

// remoteServers returns one server pod for each offloadable node of the n-th provider, with anti-affinity.
func (t *networkTest) remoteServers(n int, p *testCluster) (all []*corev1.Pod) {
	for i := range p.lent {
		pod := t.newServerPod(fmt.Sprintf("server-%d-%d", n+1, i), p, n+1)
		pod.Labels[backendLabel(n)] = "true"
		pod.Annotations = map[string]string{names.AntiAffinityPreset: "hard", names.AntiAffinityLabels: ServerLabel}
		pod.Spec.Affinity = nodeAffinity(corev1.NodeSelectorTerm{MatchExpressions: ofClusters(p.ID)})
		pod.Spec.Tolerations = []corev1.Toleration{{Key: names.VirtualNodeTaint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
		all = append(all, pod)
	}
	return all
}

// newServerPod returns a pod that answers with its name.
func (t *networkTest) newServerPod(name string, in *testCluster, cluster int) *corev1.Pod {
	pod := ofTest.newPod(t.consumer.servers, name, in.image, "reach", "serve", "--name", name)
	pod.Labels[ServerLabel] = strconv.Itoa(cluster)
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: serverPort}}
	pod.Spec.Containers[0].ReadinessProbe = answersAt(serverPort)
	return pod
}

func answersAt(port int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(port)}},
		PeriodSeconds: 1, TimeoutSeconds: 5,
	}
}

// newPod returns the manifest of the client pod. The termination message of the pod has the results.
func (a *clientPod) newPod() (*corev1.Pod, error) {
	targets := make([]probe.Target, len(a.checks))
	for i, c := range a.checks {
		targets[i] = c.target
	}
	text, err := json.Marshal(targets)
	if err != nil {
		return nil, err
	}
	pod := ofTest.newPod(a.of.askers, a.name, a.of.image, "reach", "ask", string(text))
	pod.Labels[AskerLabel] = "true"
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Affinity = onNode(a.node)
	if a.host {
		pod.Spec.HostNetwork, pod.Spec.DNSPolicy = true, corev1.DNSClusterFirstWithHostNet
	}
	return pod, nil
}
