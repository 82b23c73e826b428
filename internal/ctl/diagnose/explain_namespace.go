// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

const (
	pageNamespace = "docs/troubleshooting.md#a-namespace-is-somefailed-allfailed-or-stays-inprogress"
	// recentEvent is how old an event may be to stand for the present.
	recentEvent = 10 * time.Minute
)

// mappingGuides are the remedies by the reason of a provider that makes no namespace.
var mappingGuides = map[string]guide{
	offv1beta1.MappingNameReserved:    {"offload with another name: liqoctl offload namespace --remote-namespace-name", "docs/troubleshooting.md#namereserved"},
	offv1beta1.MappingNameBound:       {"offload with another name, or label the binding in the provider", "docs/troubleshooting.md#namebound"},
	offv1beta1.MappingNamespaceExists: {"offload with another name, or delete that namespace of the provider", "docs/troubleshooting.md#namespaceexists"},
	offv1beta1.MappingLimitReached:    {"in the provider, raise offloading.twinNamespaces.maxPerTenant", "docs/troubleshooting.md#limitreached"},
	offv1beta1.MappingNotTheOldest:    {"delete the younger NamespaceMap", "docs/troubleshooting.md#nottheoldestnamespacemap"},
	offv1beta1.MappingNoTenant:        {"run liqoctl authenticate again", "docs/troubleshooting.md#notenant"},
	offv1beta1.MappingTenantNotReady:  {"in the provider, see the conditions of the Tenant", "docs/troubleshooting.md#tenantnotready"},
	offv1beta1.MappingTenantDrained:   {"in the provider, run: liqoctl activate tenant", "docs/troubleshooting.md#tenantdrained"},
	offv1beta1.MappingForbidden:       {"ask the administrator of the provider", "docs/troubleshooting.md#forbidden"},
}

// protectionGuides are the remedies by the reason of a False condition of a remote namespace.
var protectionGuides = map[string]guide{
	"NotReflected":     {"create the NetworkPolicies in the remote namespace, or keep these pods local", "docs/troubleshooting.md#notreflected"},
	"NotEnforced":      {"keep these pods local, or state that the provider enforces them: networking.networkPoliciesEnforced", "docs/troubleshooting.md#notenforced"},
	"PodsForbidden":    {"change the Pod Security level of the remote namespace in the provider", "docs/troubleshooting.md#podsforbidden"},
	"SidecarsInjected": {"use the CNI plugin of the mesh", "docs/troubleshooting.md#sidecarsinjected"},
}

// ExplainNamespace returns why a namespace is offloaded or not, to each provider. The remote scene is nil if no provider was asked.
func ExplainNamespace(s, remote *Scene) *Explanation {
	w := &chainWriter{chain: Chain{Name: "Namespace " + s.Scope}}
	w.addLink(s, "the namespace stays", "", func() []Finding { return s.findTermination() })
	w.addLink(s, "it is offloaded", "", func() []Finding {
		if s.Offloading != nil {
			return nil
		}
		return []Finding{newFailure("Namespace "+s.Scope, "it has no NamespaceOffloading", "run: liqoctl offload namespace "+s.Scope, pageOffload)}
	}, "NamespaceOffloading")
	w.addLink(s, "the offloading is valid, and was processed", s.strategyNote(), s.findUnprocessed, "NamespaceOffloading")
	w.addLink(s, "a virtual node is selected", "", func() []Finding {
		all := s.findSelection()
		for i := range all {
			all[i].Severity = Failed
		}
		return all
	})
	w.addLink(s, "its pods can be created, and fit the strategy", "", s.findUncreated)
	chains := []*chainWriter{w}
	for _, id := range s.selectedProviders() {
		chains = append(chains, s.explainMapping(id, remote))
	}
	return newExplanation("Namespace "+s.Scope, chains...)
}

// selectedProviders returns the selected providers in order.
func (s *Scene) selectedProviders() (all []liqov1beta1.ClusterID) {
	if s.Offloading == nil {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(s.Offloading.Status.RemoteNamespacesConditions)) {
		if c := s.remoteCondition(liqov1beta1.ClusterID(id), offv1beta1.NamespaceOffloadingRequired); c != nil && c.Status == corev1.ConditionTrue {
			all = append(all, liqov1beta1.ClusterID(id))
		}
	}
	return all
}

// explainMapping returns the chain to one provider.
func (s *Scene) explainMapping(id liqov1beta1.ClusterID, remote *Scene) *chainWriter {
	w := &chainWriter{chain: Chain{Name: fmt.Sprintf("Namespace %s in %s", s.Scope, id)}}
	w.addPeering(s, id)
	w.addLink(s, "the remote namespace is made", s.RemoteNamespace(), func() []Finding { return s.findRemoteNamespace(id) })
	if remote != nil && remote.ClusterID == string(id) {
		w.addTenant(remote, liqov1beta1.ClusterID(s.ClusterID), "", true)
		w.addLink(remote, "the remote namespace stays", remote.Scope, func() []Finding { return remote.findTermination() })
	}
	for i := range s.VirtualNodes {
		if vn := &s.VirtualNodes[i]; vn.Spec.ClusterID == id && (vn.Spec.CreateNode == nil || *vn.Spec.CreateNode) {
			w.addVirtualNode(s, vn.Name, true)
		}
	}
	w.addLink(s, "its protection applies there", "", func() []Finding { return s.findProtection(id) })
	return w
}

// findTermination returns why a namespace is missing, or is being deleted.
func (s *Scene) findTermination() []Finding {
	switch {
	case s.Namespace == nil && s.Unreadable["Namespace"] != "":
		return s.findUnreadable([]string{"Namespace"})
	case s.Scope == "":
		return []Finding{newUnknown("Namespace", "the name of the remote namespace")}
	case s.Namespace == nil:
		return []Finding{newFailure("Namespace "+s.Scope, "it does not exist", "create it; remote namespaces are made again by Liqo", pageNamespace)}
	case s.Namespace.DeletionTimestamp == nil:
		return nil
	}
	var why []string
	for _, c := range s.Namespace.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			why = append(why, c.Message)
		}
	}
	return []Finding{newFailure("Namespace "+s.Scope, joinNonEmpty(": ", "it is being deleted", strings.Join(why, "; ")), "see its conditions and the finalizers of what is in it", pageDeletion)}
}

// findUnprocessed returns that the controller-manager does not process the offloading, or that the offloading is invalid.
func (s *Scene) findUnprocessed() []Finding {
	nso := s.Offloading
	ref := Ref("NamespaceOffloading", nso)
	switch {
	case nso.DeletionTimestamp != nil:
		return []Finding{newFailure(ref, "it is being deleted, and waits for the remote namespaces", "see its events", pageDeletion)}
	case nso.Status.ObservedGeneration >= nso.Generation:
		return nil
	}
	if e := s.latestEvent("NamespaceOffloading", nso, nil, "Invalid", "InvalidAnnotation"); e != nil && e.Reason == "Invalid" {
		return []Finding{newFailure(ref, e.Reason+": "+e.Message, "run: kubectl edit namespaceoffloading -n "+s.Scope, "docs/troubleshooting.md#invalid")}
	}
	return []Finding{newFailure(ref, "its present generation was not processed", "see the pods and the log of liqo-controller-manager", pageInstall)}
}

// findUncreated returns that the API server refuses pods of the namespace at their creation, or that pods do not fit the strategy.
func (s *Scene) findUncreated() (all []Finding) {
	for i := range s.Events {
		e := &s.Events[i]
		if e.Reason != "FailedCreate" || s.Now.Sub(eventTime(e)) > recentEvent {
			continue
		}
		page, remedy := "docs/troubleshooting.md#pods-cannot-be-created-in-an-offloaded-namespace", "see the message"
		switch {
		case strings.Contains(e.Message, names.PodWebhook):
			page, remedy = "docs/troubleshooting.md#failed-calling-webhook-podmutateliqoio", "see the pods of liqo-controller-manager"
		case strings.Contains(e.Message, "no params found"):
			page, remedy = "docs/troubleshooting.md#no-params-found-for-policy-binding", "run: liqoctl offload namespace "+s.Scope
		case strings.Contains(e.Message, "cost limit"):
			page, remedy = "docs/troubleshooting.md#cost-limit-exceeded", "use fewer terms in the clusterSelector"
		}
		all = append(all, newFailure(fmt.Sprintf("%s %s/%s", e.InvolvedObject.Kind, s.Scope, e.InvolvedObject.Name), e.Message, remedy, page))
		break
	}
	if s.Offloading != nil && s.Offloading.Status.MisplacedPods > 0 {
		all = append(all, warningOf(newFailure(Ref("NamespaceOffloading", s.Offloading), fmt.Sprintf("%d pods do not fit the strategy", s.Offloading.Status.MisplacedPods),
			"see the events Misplaced: kubectl events -n "+s.Scope, pageMisplaced)))
	}
	return all
}

// findRemoteNamespace returns why a provider has no namespace for this one.
func (s *Scene) findRemoteNamespace(provider liqov1beta1.ClusterID) []Finding {
	if s.Offloading == nil {
		return []Finding{newFailure("Namespace "+s.Scope, "it is not offloaded", "run: liqoctl offload namespace "+s.Scope, "docs/troubleshooting.md#offloadingbackoff")}
	}
	ref := Ref("NamespaceOffloading", s.Offloading)
	if provider == "" { // the user may not list the objects that name the provider
		if s.Offloading.Status.OffloadingPhase == offv1beta1.ReadyOffloadingPhaseType {
			return nil
		}
		return []Finding{warningOf(newFailure(ref, "its phase is "+string(s.Offloading.Status.OffloadingPhase), "run: liqoctl explain namespace "+s.Scope, pageNamespace))}
	}
	ready := s.remoteCondition(provider, offv1beta1.NamespaceReady)
	required := s.remoteCondition(provider, offv1beta1.NamespaceOffloadingRequired)
	switch {
	case ready != nil && ready.Status == corev1.ConditionTrue:
		return nil
	case required == nil && ready == nil:
		return []Finding{newFailure(ref, fmt.Sprintf("it has no condition about %s yet", provider), "see the NamespaceMap and the log of liqo-controller-manager", "docs/troubleshooting.md#creating")}
	case required != nil && required.Status != corev1.ConditionTrue:
		return []Finding{newFailure(ref, fmt.Sprintf("its clusterSelector does not match a virtual node of %s", provider), "run liqoctl offload namespace with another --selector", "docs/troubleshooting.md#clusternotselected")}
	case ready == nil:
		return nil
	}
	message, reason := ready.Message, ready.Reason
	if m := s.mapOf(provider); m != nil {
		if current, ok := m.Status.CurrentMapping[s.Scope]; ok && current.Reason != "" {
			reason = current.Reason
		}
		ref = Ref("NamespaceMap", m)
	}
	advice := cmp.Or(mappingGuides[reason], guide{"see the log of liqo-crd-replicator, and the events of the NamespaceMap in the provider", "docs/troubleshooting.md#creating"})
	if mappingGuides[reason] == (guide{}) && ready.Reason == "CreationLoopBackOff" {
		advice = guide{"see the message, which is the provider's", "docs/troubleshooting.md#creationloopbackoff"}
	}
	return []Finding{newFailure(ref, ForeignText(reason)+": "+message, advice.remedy, advice.page)}
}

// findProtection returns the False conditions of the remote namespace: a local protection of pods does not apply in the provider.
func (s *Scene) findProtection(provider liqov1beta1.ClusterID) (all []Finding) {
	for _, kind := range []offv1beta1.RemoteNamespaceConditionType{offv1beta1.NamespaceNetworkPoliciesEnforced, offv1beta1.NamespacePodSecuritySatisfied} {
		if c := s.remoteCondition(provider, kind); c != nil && c.Status == corev1.ConditionFalse {
			advice := cmp.Or(protectionGuides[c.Reason], guide{"see the message", "docs/offload-namespaces.md#protection-that-does-not-apply-in-the-provider"})
			all = append(all, warningOf(newFailure(Ref("NamespaceOffloading", s.Offloading), c.Reason+": "+c.Message, advice.remedy, advice.page)))
		}
	}
	return all
}
