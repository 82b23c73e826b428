// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/clusters"
)

//go:embed testdata/policies.yaml
var policiesYAML string

// policyStory is a namespace with a pod in each cluster.
type policyStory struct {
	p          *clusters.Peering
	home, away corev1.Pod
	// seenRemote returns an address of the consumer as the provider sees it, seenHome the reverse.
	seenRemote, seenHome func(string) string
}

// opens waits until a pod of the namespace opens a TCP connection, or does not.
func (s *policyStory) opens(t *testing.T, what, from, host string, port int, want bool) {
	t.Helper()
	eventually(t, what, func(context.Context) error {
		out, err := a.Kubectl("", "exec", "-n", s.p.Namespace, from, "--", "sh", "-c", fmt.Sprintf(`nc -w 2 %s %d </dev/null >/dev/null 2>&1 && echo open || echo closed`, host, port))
		if err == nil && (strings.TrimSpace(out) == "open") != want {
			err = fmt.Errorf("%s:%d is %s for the pod %s", host, port, strings.TrimSpace(out), from)
		}
		return err
	})
}

// A NetworkPolicy holds for the pod in the provider where its CNI plugin enforces them, and a condition says so where it does not. Values of the
// provider restrict what peers reach, and what pods of peers reach.
func TestNetworkPolicies(t *testing.T) {
	s := &policyStory{p: peer(t, "policies")}
	connectAs(t, s.p)
	kubectl(t, a, serviceYAML, "apply", "-n", s.p.Namespace, "-f", "-")
	wantAnswers(t, a, s.p.Namespace, "home", []string{"away", "home"})
	for name, pod := range map[string]*corev1.Pod{"home": &s.home, "away": &s.away} {
		if err := a.Client.Get(t.Context(), client.ObjectKey{Namespace: s.p.Namespace, Name: name}, pod); err != nil {
			t.Fatal(err)
		}
	}
	remote, home := seen(t, b, a.ID), seen(t, a, b.ID)
	s.seenRemote, s.seenHome = func(text string) string { return remote(text).String() }, func(text string) string { return home(text).String() }
	if knowsOwnPodsOnly(t) {
		t.Run("in_the_consumer", s.admitted)
	} else {
		t.Run("reflected", s.policies)
	}
	t.Run("values_of_the_provider", s.values)
}

func (s *policyStory) policies(t *testing.T) {
	reaches := func(what string, want bool) {
		t.Helper()
		s.opens(t, what, "home", s.away.Status.PodIP, port, want)
	}
	answers := func(what string, want bool) {
		t.Helper()
		s.opens(t, what, "away", s.seenRemote(s.home.Status.PodIP), port, want)
	}
	reaches("the pod in the provider without a policy", true)
	answers("the pod at home without a policy", true)
	kubectl(t, a, policiesYAML, "apply", "-n", s.p.Namespace, "-f", "-")
	eventually(t, "the copies of the policies", func(context.Context) error {
		_, err := b.Kubectl("", "get", "networkpolicy", "clients-only", "to-clients-only", "-n", s.p.Twin())
		return err
	})
	if !enforces(t, s.p) {
		eventually(t, "the condition of policies that are not enforced", func(context.Context) error {
			out, err := a.Kubectl("", "get", "namespaceoffloading", "offloading", "-n", s.p.Namespace, "-o", "jsonpath={.status.remoteNamespacesConditions}")
			if err == nil && !strings.Contains(out, "NotEnforced") {
				err = errors.New(out)
			}
			return err
		})
		return
	}
	reaches("the policy to keep the pod at home off", false)
	answers("the policy to keep the pod in the provider at bay", false)
	kubectl(t, a, "", "label", "pod", "home", "-n", s.p.Namespace, "client=true")
	reaches("the pod at home to be let in as a client", true)
	answers("the pod at home to be reached as a client", true)
	kubectl(t, a, "", "label", "pod", "home", "-n", s.p.Namespace, "client-")
	reaches("the pod at home to be kept off again", false)
	answers("the pod in the provider to be kept at bay again", false)
	kubectl(t, a, "", "annotate", "networkpolicy", "clients-only", "to-clients-only", "-n", s.p.Namespace, "liqo.io/skip-reflection=true")
	reaches("the copy of the ingress policy to go", true)
	answers("the copy of the egress policy to go", true)
}

// knowsOwnPodsOnly reports whether the CNI plugin of the consumer knows the labels of pods on its own nodes only. The suite has Cilium if
// clusters with it are given.
func knowsOwnPodsOnly(t *testing.T) bool {
	t.Helper()
	return strings.Contains(kubectl(t, a, "", "api-versions"), "cilium.io/")
}

// admitted has the policies of the story for the pods at home, which reach remote pods and are reached by them where labels say so.
func (s *policyStory) admitted(t *testing.T) {
	kubectl(t, a, "", "label", "pod", "away", "-n", s.p.Namespace, "--overwrite", "app=other") // so that no policy holds for it
	kubectl(t, a, policiesYAML, "apply", "-n", s.p.Namespace, "-f", "-")
	admitted := func(what string, want bool) {
		t.Helper()
		s.opens(t, "the pod in the provider "+what+" to reach the pod at home", "away", s.seenRemote(s.home.Status.PodIP), port, want)
		s.opens(t, "the pod at home "+what+" to reach the pod in the provider", "home", s.away.Status.PodIP, port, want)
	}
	admitted("without the label", false)
	kubectl(t, a, "", "label", "pod", "away", "-n", s.p.Namespace, "client=true")
	admitted("with the label", true)
	kubectl(t, a, "", "label", "pod", "away", "-n", s.p.Namespace, "client-")
	admitted("without the label again", false)
	kubectl(t, a, policiesYAML, "delete", "-n", s.p.Namespace, "-f", "-")
	admitted("without policies", true)
	kubectl(t, a, "", "label", "pod", "away", "-n", s.p.Namespace, "--overwrite", "app=web")
}

// values installs the provider with networking.peerAccess=offloaded and nodeAccess=false, and as it was.
func (s *policyStory) values(t *testing.T) {
	const namespace = "strangers"
	t.Cleanup(func() { kubectl(t, b, "", "delete", "namespace", "--ignore-not-found", "--wait=false", namespace) })
	kubectl(t, b, "", "create", "namespace", namespace)
	kubectl(t, b, strings.ReplaceAll(strangerYAML, "NAME", "stranger"), "apply", "-n", namespace, "-f", "-")
	kubectl(t, b, "", "wait", "--for=condition=Ready", "--timeout=2m", "pod/stranger", "-n", namespace)
	stranger := s.seenHome(strings.TrimSpace(kubectl(t, b, "", "get", "pod", "stranger", "-n", namespace, "-o", "jsonpath={.status.podIP}")))
	apiServer := strings.TrimSpace(kubectl(t, b, "", "get", "service", "kubernetes", "-n", "default", "-o", "jsonpath={.spec.clusterIP}"))
	nodeAccess := func(want bool) {
		t.Helper()
		for _, n := range nodes(t, b) {
			s.opens(t, "the kubelet of "+n.Name, "away", address(t, n).String(), 10250, want)
		}
		s.opens(t, "the API server of the provider", "away", apiServer, 443, want)
	}
	s.opens(t, "a pod of the provider", "home", stranger, port, true)
	nodeAccess(true)

	t.Cleanup(func() {
		if err := b.Install("--set", "networking.peerAccess=all", "--set", "offloading.twinNamespaces.pods.nodeAccess=true"); err != nil {
			t.Error(err)
		}
	})
	if err := b.Install("--set", "networking.peerAccess=offloaded", "--set", "offloading.twinNamespaces.pods.nodeAccess=false"); err != nil {
		t.Fatal(err)
	}
	nodeAccess(false)
	s.opens(t, "a pod of the provider to be no peer's", "home", stranger, port, false)
	s.opens(t, "the pod in the remote namespace", "home", s.away.Status.PodIP, port, true)
	s.opens(t, "the pod at home", "away", s.seenRemote(s.home.Status.PodIP), port, true)
	kubectl(t, b, "", "label", "namespace", namespace, "networking.liqo.io/reachable-from-peers=true")
	s.opens(t, "a pod of the provider with the label", "home", stranger, port, true)
	// A new pod is restricted and reached as an old one.
	kubectl(t, b, "", "label", "namespace", namespace, "networking.liqo.io/reachable-from-peers-")
	s.opens(t, "the label to go", "home", stranger, port, false)
	kubectl(t, b, strings.ReplaceAll(strangerYAML, "NAME", "labelled"), "apply", "-n", namespace, "-f", "-")
	kubectl(t, b, "", "label", "pod", "labelled", "-n", namespace, "networking.liqo.io/reachable-from-peers=true")
	kubectl(t, b, "", "wait", "--for=condition=Ready", "--timeout=2m", "pod/labelled", "-n", namespace)
	labelled := s.seenHome(strings.TrimSpace(kubectl(t, b, "", "get", "pod", "labelled", "-n", namespace, "-o", "jsonpath={.status.podIP}")))
	s.opens(t, "a new pod with the label", "home", labelled, port, true)
	s.opens(t, "the pod without it", "home", stranger, port, false)
	nodeAccess(false) // the first time may have been a loss while the fabric was rolled out
}

const strangerYAML = `apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 0
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: liqo.io/type, operator: NotIn, values: [virtual-node]}]}]}}}
  containers:
  - name: web
    image: docker.io/library/busybox:latest
    imagePullPolicy: IfNotPresent
    command: [httpd, -f, -p, "8080"]
    resources: {requests: {cpu: 5m, memory: 8Mi}}
`

// enforces reports whether the provider says that its CNI plugin enforces NetworkPolicies.
func enforces(t *testing.T, p *clusters.Peering) bool {
	t.Helper()
	var all offv1beta1.NamespaceMapList
	if err := a.Client.List(t.Context(), &all, client.InNamespace(p.ConsumerTenant)); err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all.Items, func(nm offv1beta1.NamespaceMap) bool {
		return slices.Contains(nm.Status.ProviderCapabilities, "enforced-network-policies")
	})
}
