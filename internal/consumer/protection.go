// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
)

// podProtection is the local protection of a namespace that does not extend to its pods in a provider.
type podProtection struct {
	// policies are the names of the NetworkPolicies reflected to capable providers, and kept the other names, sorted.
	policies, kept []string
	// mesh is the service mesh that injects sidecars into the pods, or "".
	mesh string
	// forbidden maps levels of Pod Security to the reason why a pod would be rejected.
	forbidden map[string]string
}

// findUnenforced returns why NetworkPolicies are not enforced by a provider with the capabilities, and their names.
func (p *podProtection) findUnenforced(capabilities []string) (reason, cause string, policies []string) {
	all := slices.Sorted(slices.Values(slices.Concat(p.policies, p.kept)))
	switch {
	case !slices.Contains(capabilities, peer.NetworkPolicies):
		return "NotReflected", "its version of Liqo takes no NetworkPolicies", all
	case !slices.Contains(capabilities, peer.EnforcedNetworkPolicies) && len(all) > 0:
		return "NotEnforced", "its CNI plugin enforces none, or is not known to (networking.networkPoliciesEnforced)", all
	}
	return "NotReflected", "they are not reflected", p.kept
}

// protectionConditions returns the conditions of a provider with the capabilities, whose remote namespace enforces a level of Pod Security, ""
// if unknown.
func (p *podProtection) protectionConditions(remote, level string, capabilities []string) []offv1beta1.RemoteNamespaceCondition {
	var out []offv1beta1.RemoteNamespaceCondition
	if reason, cause, policies := p.findUnenforced(capabilities); len(policies) > 0 {
		out = append(out, offv1beta1.RemoteNamespaceCondition{
			Type: offv1beta1.NamespaceNetworkPoliciesEnforced, Status: corev1.ConditionFalse, Reason: reason,
			Message: "NetworkPolicies of the namespace are not enforced for its pods in the remote cluster, " + cause + ": " + abridge(policies, 3),
		})
	}
	if !policy.IsEnforced(level) {
		return out
	}
	const relax = "%s: the remote namespace %s enforces the Pod Security level %q. The administrator of the remote cluster allows such pods by the label " +
		policy.PodSecurityLabel + "=" + policy.PodSecurityPrivileged + " on that namespace, or by offloading.twinNamespaces.podSecurity for the namespaces of all consumers to come"
	reason, forbidden := p.forbidden[level]
	switch {
	case forbidden:
		out = append(out, offv1beta1.RemoteNamespaceCondition{
			Type: offv1beta1.NamespacePodSecuritySatisfied, Status: corev1.ConditionFalse, Reason: "PodsForbidden",
			Message: fmt.Sprintf(relax, "Pods of the namespace are refused, such as "+reason, remote, level),
		})
	case p.mesh != "":
		out = append(out, offv1beta1.RemoteNamespaceCondition{
			Type: offv1beta1.NamespacePodSecuritySatisfied, Status: corev1.ConditionFalse, Reason: "SidecarsInjected",
			Message: fmt.Sprintf(relax, "Pods into which "+p.mesh+" injects an init container with NET_ADMIN are refused, unless its CNI plugin does that work", remote, level),
		})
	}
	return out
}

// abridge returns the first names, and the number of further names.
func abridge(all []string, most int) string {
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// isUnprotected reports whether a condition is about pods that are rejected or less protected in a provider.
func isUnprotected(c *offv1beta1.RemoteNamespaceCondition) bool {
	return c.Status == corev1.ConditionFalse && (c.Type == offv1beta1.NamespaceNetworkPoliciesEnforced || c.Type == offv1beta1.NamespacePodSecuritySatisfied)
}

// unprotectedEvents returns an event for each such condition.
func unprotectedEvents(status *offv1beta1.NamespaceOffloadingStatus) []kube.Event {
	var out []kube.Event
	for _, cluster := range slices.Sorted(maps.Keys(status.RemoteNamespacesConditions)) {
		for _, c := range status.RemoteNamespacesConditions[cluster] {
			if isUnprotected(&c) {
				out = append(out, kube.Event{Type: corev1.EventTypeWarning, Reason: c.Reason, Message: fmt.Sprintf("Cluster %s: %s", cluster, c.Message)})
			}
		}
	}
	return out
}

// lookDelay is the time to live of the cached result about the pods of a namespace.
const lookDelay = time.Minute

// podLooks caches the result about the pods of namespaces, which are not watched.
type podLooks struct {
	mu    sync.Mutex
	looks map[string]podLook
}

type podLook struct {
	at        time.Time
	levels    string
	forbidden map[string]string
}

// setProtection adds conditions to the status, after the previous ones in before, about protection that does not extend to the pods in each
// provider with the namespace.
func (s *namespaceOffloadings) setProtection(ctx context.Context, in *offloadingView, selected map[string]bool, before map[string]offv1beta1.RemoteNamespaceConditions, now time.Time) error {
	if in.nso.Spec.PodOffloadingStrategy == offv1beta1.LocalPodOffloadingStrategyType {
		return nil
	}
	levels := map[string]bool{}
	for i := range in.maps {
		if level := in.maps[i].Status.CurrentMapping[in.nso.Namespace].PodSecurity; selected[in.maps[i].Name] && policy.IsEnforced(level) {
			levels[level] = true
		}
	}
	found, err := s.readProtection(ctx, in.nso.Namespace, slices.Sorted(maps.Keys(levels)), now)
	if err != nil {
		return err
	}
	for i := range in.maps {
		nm := &in.maps[i]
		conditions := in.nso.Status.RemoteNamespacesConditions[nm.Name]
		if !selected[nm.Name] || len(conditions) == 0 || !in.isRelevant(nm) {
			continue
		}
		for _, c := range found.protectionConditions(in.nso.Status.RemoteNamespaceName, nm.Status.CurrentMapping[in.nso.Namespace].PodSecurity, nm.Status.ProviderCapabilities) {
			conditions = append(conditions, keepTransitionTime(before[nm.Name], c, metav1.NewTime(now)))
		}
		in.nso.Status.RemoteNamespacesConditions[nm.Name] = conditions
	}
	return nil
}

// lookAgain returns when the pods of the namespace are read again while some would be refused: no watch shows that they were corrected.
func lookAgain(status *offv1beta1.NamespaceOffloadingStatus) error {
	for _, conditions := range status.RemoteNamespacesConditions {
		for _, c := range conditions {
			if c.Type == offv1beta1.NamespacePodSecuritySatisfied && c.Status == corev1.ConditionFalse {
				return kube.Wait(lookDelay, "pods of the namespace would be refused")
			}
		}
	}
	return nil
}

func (s *namespaceOffloadings) readProtection(ctx context.Context, name string, levels []string, now time.Time) (*podProtection, error) {
	namespace := &corev1.Namespace{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return nil, fmt.Errorf("reading the namespace: %w", err)
	}
	policies := &metav1.PartialObjectMetadataList{}
	policies.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind("NetworkPolicyList"))
	if err := s.client.List(ctx, policies, client.InNamespace(name)); err != nil {
		return nil, fmt.Errorf("listing NetworkPolicies: %w", err)
	}
	out := &podProtection{mesh: policy.InjectedMesh(namespace)}
	for i := range policies.Items {
		if np := &policies.Items[i]; s.policyReflection.Allows(np, false) {
			out.policies = append(out.policies, np.Name)
		} else {
			out.kept = append(out.kept, np.Name)
		}
	}
	slices.Sort(out.kept)
	var err error
	out.forbidden, err = s.forbiddenPods(ctx, name, levels, now)
	return out, err
}

// forbiddenPods returns by level why existing pods would be rejected. One page of pods is read, at most once a minute: of many pods with
// one template, the first represents all.
func (s *namespaceOffloadings) forbiddenPods(ctx context.Context, namespace string, levels []string, now time.Time) (map[string]string, error) {
	if len(levels) == 0 {
		return nil, nil
	}
	wanted := strings.Join(levels, ",")
	s.podLooks.mu.Lock()
	last, known := s.podLooks.looks[namespace]
	s.podLooks.mu.Unlock()
	if known && last.levels == wanted && now.Sub(last.at) < lookDelay {
		return last.forbidden, nil
	}
	pods := &corev1.PodList{}
	if err := s.direct.List(ctx, pods, client.InNamespace(namespace), client.Limit(pageSize)); err != nil {
		return nil, fmt.Errorf("listing the pods of the namespace: %w", err)
	}
	look := podLook{at: now, levels: wanted, forbidden: map[string]string{}}
	for _, level := range levels {
		for i := range pods.Items {
			if reason := forbiddenReason(level, &pods.Items[i]); reason != "" {
				look.forbidden[level] = reason
				break
			}
		}
	}
	s.podLooks.mu.Lock()
	defer s.podLooks.mu.Unlock()
	maps.DeleteFunc(s.podLooks.looks, func(_ string, old podLook) bool { return now.Sub(old.at) >= lookDelay })
	s.podLooks.looks[namespace] = look
	return look.forbidden, nil
}

// forbiddenReason returns the pod that a level forbids and the reason, or "". A pod of a DaemonSet stays on its node, and a finished pod is not
// recreated.
func forbiddenReason(level string, pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" || pod.Status.Phase == corev1.PodSucceeded || pod.Annotations[corev1.MirrorPodAnnotationKey] != "" {
		return ""
	}
	if pod.Labels[names.ManagedBy] != "" {
		return "" // created for another cluster
	}
	if err := policy.CheckPodSecurity(&pod.Spec, level); err != nil {
		return cmp.Or(strings.TrimRight(pod.GenerateName, "-"), pod.Name) + ": " + err.Error()
	}
	return ""
}
