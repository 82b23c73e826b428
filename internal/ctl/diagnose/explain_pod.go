// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

const (
	pagePending   = "docs/troubleshooting.md#a-pod-is-pending"
	pageMisplaced = "docs/troubleshooting.md#misplaced"
	pageOffload   = "docs/offload-namespaces.md"
	// schedulerPatience is how long a scheduler may take to look at a pod.
	schedulerPatience = 30 * time.Second
	// deletionGrace is how long a pod may outlast the grace period.
	deletionGrace = time.Minute
	// startPatience is how long the start of a pod may take before the pod counts as a problem.
	startPatience = time.Minute
)

// startReasons are the reasons why the containers of a young pod are not ready.
var startReasons = []string{"", "ContainerCreating", "PodInitializing", "ContainersNotReady", "ContainersNotInitialized", "not ready"}

// refusals are the parts of messages of providers that refuse a pod, and the remedies. The first match counts.
var refusals = []struct {
	text  string
	guide guide
}{
	{"user is cordoned", guide{"in the provider, run: liqoctl uncordon resourceslice", "docs/troubleshooting.md#user-is-cordoned"}},
	{"quota limit not found", guide{"ask for that resource: liqoctl create resourceslice --resource, or take it out of the pod", "docs/troubleshooting.md#quota-limit-not-found-for-this-peering"}},
	{"quota usage exceeded", guide{"ask for more: liqoctl create resourceslice, or end other pods", "docs/troubleshooting.md#quota-usage-exceeded"}},
	{"failed getting quota", guide{"see the ResourceSlice of the node, and the Tenant in the provider", "docs/troubleshooting.md#failed-getting-quota"}},
	{"exceeded quota: ", guide{"raise the ResourceQuota of the remote namespace in the provider, or end other pods", "docs/troubleshooting.md#failedcreatepod"}},
	{"violates PodSecurity", guide{"change the pod, or the Pod Security level of the remote namespace in the provider", "docs/offload-namespaces.md#protection-that-does-not-apply-in-the-provider"}},
}

// reflectionReasons are the remedies by the reason of an event about a pod that is not in the provider.
var reflectionReasons = map[string]guide{
	"FailedReflection":         {"change what the message names", "docs/troubleshooting.md#failedreflection"},
	"OffloadingRefused":        {"change the pod as the provider's answer says", "docs/troubleshooting.md#offloadingrefused"},
	"ProviderTooOld":           {"upgrade Kubernetes of the provider, or run the pod elsewhere", "docs/troubleshooting.md#providertooold"},
	"NetworkNotReady":          {"run: liqoctl network connect", "docs/troubleshooting.md#networknotready"},
	"TokenRefused":             {"see the ServiceAccount of the pod", "docs/troubleshooting.md#tokenrefused"},
	"TokenSecretNameTaken":     {"delete the Secret of that name in the remote namespace", "docs/troubleshooting.md#tokensecretnametaken"},
	"FailedSATokensReflection": {"see the message", "docs/troubleshooting.md#failedsatokensreflection"},
	"ClaimNotReflected":        {"use a claim of the class liqo, or keep the pod off virtual nodes", "docs/troubleshooting.md#claimnotreflected"},
	"ClaimNotReflectedYet":     {"see the events of the claim", "docs/troubleshooting.md#claimnotreflected"},
	"VolumeLost":               {"restore the data", "docs/troubleshooting.md#volumelost"},
	"ReflectionDisabled":       {"run: liqoctl offload namespace, or take the annotation away", "docs/troubleshooting.md#reflectiondisabled"},
	"TenantDrained":            {"in the provider, run: liqoctl activate tenant", "docs/troubleshooting.md#tenantdrained"},
}

// refusalGuide returns the remedy for a refusal of a provider.
func refusalGuide(reason, message string) guide {
	for _, known := range refusals {
		if strings.Contains(message, known.text) {
			return known.guide
		}
	}
	return cmp.Or(reflectionReasons[reason], reflectionReasons["OffloadingRefused"])
}

// podWorks reports whether a pod is ready, or has ended well.
func podWorks(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	return pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// falseCondition returns a False condition of a kind, nil if there is none.
func falseCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == corev1.ConditionFalse })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

// ExplainPod returns why the pod of the consumer's scene runs on its node, or does not run. The scene of the provider is nil if the provider was not
// asked.
func ExplainPod(consumer, provider *Scene) *Explanation {
	pod := consumer.Pod
	ref := Ref("Pod", pod)
	w := &chainWriter{chain: Chain{Name: ref}, lenient: podWorks(pod) || consumer.isEnding(pod)}
	w.addLink(consumer, "the pod exists, and has not failed", "", consumer.findEnd)
	switch node := pod.Spec.NodeName; {
	case node == "":
		w.addScheduling(consumer)
	case consumer.isVirtual(node, pod):
		w.chain.Name = fmt.Sprintf("%s on the virtual node %s", ref, node)
		w.addOffloading(consumer, provider)
	default:
		w.chain.Name = fmt.Sprintf("%s on the node %s", ref, node)
		w.addLink(consumer, "the scheduler chose a node of this cluster", consumer.whyHere(), consumer.findMisplaced, "NamespaceOffloading")
		w.addLink(consumer, "the containers run", "", func() []Finding { return consumer.findUnready(ref, pod) })
	}
	return newExplanation(ref, w)
}

// findEnd returns why a pod has ended, or does not.
func (s *Scene) findEnd() []Finding {
	pod := s.Pod
	ref := Ref("Pod", pod)
	switch {
	case pod.Status.Phase == corev1.PodFailed:
		page := pagePending
		if pod.Status.Reason == "OffloadingAborted" {
			page = "docs/troubleshooting.md#offloadingaborted"
		}
		why := joinNonEmpty(": ", pod.Status.Reason, pod.Status.Message)
		return []Finding{newFailure(ref, "it has failed: "+cmp.Or(why, kube.PodProblemOf(pod).String(), "no reason is given"), "its owner makes another; see kubectl logs and kubectl describe pod", page)}
	case s.isEnding(pod):
		return []Finding{warningOf(newFailure(ref, "it is being deleted", "wait", "docs/troubleshooting.md#a-pod-on-a-virtual-node-stays-terminating"))}
	case pod.DeletionTimestamp != nil:
		return []Finding{newFailure(ref, fmt.Sprintf("its deletion should have ended %s ago", s.Now.Sub(pod.DeletionTimestamp.Time).Round(time.Second)), "see the node and its finalizers",
			"docs/troubleshooting.md#a-pod-on-a-virtual-node-stays-terminating")}
	}
	return nil
}

// isEnding reports whether a pod is being deleted, and within its grace period.
func (s *Scene) isEnding(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && s.Now.Sub(pod.DeletionTimestamp.Time) <= deletionGrace
}

// isStarting reports whether a pod has been on its node for a short time only.
func (s *Scene) isStarting(pod *corev1.Pod) bool {
	began := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && c.LastTransitionTime.After(began) {
			began = c.LastTransitionTime.Time
		}
	}
	if started := pod.Status.StartTime; started != nil && started.After(began) {
		began = started.Time
	}
	return s.Now.Sub(began) < startPatience
}

// howAnew returns how a pod is made anew.
func howAnew(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return fmt.Sprintf("delete it: %s %s makes another", owner.Kind, owner.Name)
	}
	return "delete it, and make it again"
}

// whyHere returns why a pod is on a node of this cluster.
func (s *Scene) whyHere() string {
	switch {
	case s.Offloading == nil:
		return "the namespace is not offloaded"
	case s.Offloading.Spec.PodOffloadingStrategy == offv1beta1.LocalPodOffloadingStrategyType:
		return "the strategy Local keeps pods here"
	case isOfDaemonSet(s.Pod):
		return "pods of DaemonSets are not steered"
	case s.Pod.CreationTimestamp.Before(&s.Offloading.CreationTimestamp):
		return "the pod is older than the offloading"
	case s.Offloading.Spec.PodOffloadingStrategy == offv1beta1.RemotePodOffloadingStrategyType:
		return "the strategy is Remote"
	}
	return "the strategy LocalAndRemote permits both"
}

func isOfDaemonSet(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" })
}

// findMisplaced returns that the strategy forbids the node of a pod.
func (s *Scene) findMisplaced() []Finding {
	node := s.nodeOf(s.Pod.Spec.NodeName)
	if s.Offloading == nil || node == nil {
		return nil
	}
	if policy.RemedyForRunning(s.Pod, node, s.Offloading, names.RuntimeClass) == policy.Leave {
		return nil
	}
	return []Finding{warningOf(newFailure(Ref("Pod", s.Pod), "the strategy of the offloading forbids this node", howAnew(s.Pod), pageMisplaced))}
}

// findUnready returns why the containers of a pod do not run, or are not ready. For a pod that starts or ends, the findings are warnings.
func (s *Scene) findUnready(ref string, pod *corev1.Pod) []Finding {
	if s.isEnding(pod) && !podWorks(pod) {
		return []Finding{warningOf(newFailure(ref, "it is being deleted", "wait", pagePending))}
	}
	return weighFindings(s.findContainers(ref, pod), !s.isStarting(pod) || !slices.Contains(startReasons, kube.PodProblemOf(pod).Reason))
}

// findContainers returns why the containers of a pod do not run, or are not ready.
func (s *Scene) findContainers(ref string, pod *corev1.Pod) []Finding {
	if podWorks(pod) {
		return nil
	}
	problem := kube.PodProblemOf(pod)
	look := fmt.Sprintf("see kubectl describe pod and kubectl logs -n %s %s", s.Pod.Namespace, s.Pod.Name)
	switch {
	case problem == kube.PodProblem{}:
		return []Finding{newFailure(ref, "no status was reported", look, pagePending)}
	case problem.Reason == "ContainerCreating" || problem.Reason == "PodInitializing":
		return []Finding{newFailure(ref, "the containers are being made", look, pagePending)}
	case kube.LacksImage(problem.Reason):
		return []Finding{newFailure(ref, problem.String(), "give the image another name, or the pod an imagePullSecret", "docs/troubleshooting.md#remoteimagefailed")}
	}
	return []Finding{newFailure(ref, problem.String(), look, pagePending)}
}

// addScheduling adds the links of a pod without a node.
func (w *chainWriter) addScheduling(s *Scene) {
	pod := s.Pod
	ref := Ref("Pod", pod)
	w.addLink(s, "the namespace says where it may run", s.strategyNote(), s.findSelection, "NamespaceOffloading")
	w.addLink(s, "the pod fits the strategy", "", func() []Finding {
		if s.Offloading == nil {
			return nil
		}
		switch policy.RemedyForWaiting(pod, s.Offloading, names.RuntimeClass) {
		case policy.Tell:
			message := "it is older than the strategy of the offloading, and has no owner that would make it anew"
			if owner := metav1.GetControllerOf(pod); owner != nil {
				message = fmt.Sprintf("it is older than the strategy of the offloading, and Liqo does not replace pods of %s %s", owner.Kind, owner.Name)
			}
			return weighFindings([]Finding{newFailure(ref, message, howAnew(pod), pageMisplaced)}, s.Offloading.Spec.PodOffloadingStrategy == offv1beta1.RemotePodOffloadingStrategyType)
		case policy.Recreate, policy.Tolerate:
			return []Finding{warningOf(newFailure(ref, "it is older than the strategy of the offloading", "wait: Liqo changes it, or its owner makes another", pageMisplaced))}
		}
		return nil
	}, "NamespaceOffloading")
	w.addLink(s, "its volumes are there", "", s.findVolumes, "PersistentVolumeClaim")
	w.addLink(s, "a node takes it", "", s.findPlace)
}

// strategyNote returns where the pods of the namespace may run.
func (s *Scene) strategyNote() string {
	if s.Offloading == nil {
		return "only here: it is not offloaded"
	}
	if s.Offloading.Spec.PodOffloadingStrategy == offv1beta1.LocalPodOffloadingStrategyType {
		return "only here: the strategy is Local"
	}
	return "the strategy is " + string(s.Offloading.Spec.PodOffloadingStrategy)
}

// findSelection returns that no provider is selected: a failure for pods that may run only in providers.
func (s *Scene) findSelection() []Finding {
	if s.Offloading == nil || s.Offloading.Status.OffloadingPhase != offv1beta1.NoClusterSelectedOffloadingPhaseType ||
		s.Offloading.Spec.PodOffloadingStrategy == offv1beta1.LocalPodOffloadingStrategyType {
		return nil
	}
	found := newFailure(Ref("NamespaceOffloading", s.Offloading), "its clusterSelector matches no virtual node", "run liqoctl offload namespace with another --selector, or label the virtual node",
		"docs/troubleshooting.md#clusternotselected")
	if s.Offloading.Spec.PodOffloadingStrategy != offv1beta1.RemotePodOffloadingStrategyType {
		found = warningOf(found)
	}
	return []Finding{found}
}

// findVolumes returns claims of a pod that do not exist, or lost their volume.
func (s *Scene) findVolumes() (all []Finding) {
	for _, v := range s.Pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		name := v.PersistentVolumeClaim.ClaimName
		ref := "PersistentVolumeClaim " + s.Pod.Namespace + "/" + name
		i := slices.IndexFunc(s.Claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == name })
		if i < 0 {
			all = append(all, newFailure(ref, "it does not exist", "create it", pagePending))
			continue
		}
		if s.Claims[i].Status.Phase == corev1.ClaimLost {
			all = append(all, newFailure(ref, "its volume is lost", "restore the data", "docs/troubleshooting.md#volumelost"))
		}
		if e := s.latestEvent("PersistentVolumeClaim", &s.Claims[i], nil, "ProvisioningFailed", "RemoteClaimFailed", "ProvisioningSucceeded"); s.Claims[i].Status.Phase == corev1.ClaimPending && e != nil && e.Type == corev1.EventTypeWarning {
			all = append(all, newFailure(ref, e.Reason+": "+e.Message, "see kubectl describe pvc", "docs/troubleshooting.md#provisioningfailed"))
		}
	}
	return all
}

// findPlace returns why no node takes the pod: the obstacle of each virtual node, then the message of the scheduler.
func (s *Scene) findPlace() (all []Finding) {
	pod := s.Pod
	ref := Ref("Pod", pod)
	if len(pod.Spec.SchedulingGates) > 0 {
		return []Finding{newFailure(ref, "the scheduling gate "+pod.Spec.SchedulingGates[0].Name+" holds it back", "see the controller of that gate", pagePending)}
	}
	scheduled := falseCondition(pod, corev1.PodScheduled)
	if scheduled == nil {
		if s.Now.Sub(pod.CreationTimestamp.Time) < schedulerPatience {
			return []Finding{warningOf(newFailure(ref, "the scheduler has not looked at it yet", "wait", pagePending))}
		}
		return []Finding{newFailure(ref, fmt.Sprintf("the scheduler %q has not looked at it", cmp.Or(pod.Spec.SchedulerName, corev1.DefaultSchedulerName)), "see the pods of that scheduler", pagePending)}
	}
	remedy, page := "free resources, or add nodes", "docs/troubleshooting.md#failedscheduling-insufficient-resources"
	switch {
	case s.Offloading != nil && s.Offloading.Spec.PodOffloadingStrategy == offv1beta1.LocalPodOffloadingStrategyType:
		remedy, page = "free resources here, or offload with another --pod-offloading-strategy", "docs/troubleshooting.md#failedscheduling-virtual-nodeliqoionot-allowed"
	case s.Offloading == nil && s.Unreadable["NamespaceOffloading"] == "":
		remedy, page = "free resources here, or run: liqoctl offload namespace "+pod.Namespace, "docs/troubleshooting.md#failedscheduling-virtual-nodeliqoionot-allowed"
	case s.Offloading != nil && s.Unreadable["Node"] == "":
		all = s.findNodeObjections()
	}
	all = append(all, newFailure(ref, cmp.Or(scheduled.Message, scheduled.Reason), remedy, page))
	if excluded := s.excludedNodes(); len(excluded) > 0 && s.Offloading.Spec.PodOffloadingStrategy != offv1beta1.LocalPodOffloadingStrategyType {
		all = append(all, warningOf(newFailure(Ref("NamespaceOffloading", s.Offloading), "its clusterSelector excludes "+strings.Join(excluded, ", "), "run liqoctl offload namespace with another --selector, if they should be used",
			"docs/offload-namespaces.md#choose-providers")))
	}
	return all
}

// isExcluded reports whether the clusterSelector of the offloading does not match a virtual node.
func (s *Scene) isExcluded(n *corev1.Node) bool {
	if s.Offloading == nil || s.Offloading.Spec.ClusterSelector == nil || len(s.Offloading.Spec.ClusterSelector.NodeSelectorTerms) == 0 {
		return false
	}
	selector, err := nodeaffinity.NewNodeSelector(s.Offloading.Spec.ClusterSelector)
	return err == nil && !selector.Match(n)
}

// excludedNodes returns the names of the virtual nodes that the clusterSelector excludes, the first of many.
func (s *Scene) excludedNodes() (all []string) {
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Labels[names.NodeType] == names.NodeTypeVirtualNode && s.isExcluded(n) {
			all = append(all, n.Name)
		}
	}
	if more := len(all) - 5; more > 0 {
		all = append(all[:5], fmt.Sprintf("and %d more", more))
	}
	return all
}

// findNodeObjections returns why each virtual node does not take the pod.
func (s *Scene) findNodeObjections() (all []Finding) {
	seen := false
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Labels[names.NodeType] != names.NodeTypeVirtualNode {
			continue
		}
		seen = true
		if found := s.objectionOf(n); found != nil && !s.isExcluded(n) {
			all = append(all, *found)
		}
	}
	if !seen {
		all = append(all, newFailure("Node", "this cluster has no virtual node", "run: liqoctl create resourceslice", pageNode))
	}
	return all
}

// objectionOf returns why a virtual node does not take the pod, nil if the node would.
func (s *Scene) objectionOf(n *corev1.Node) *Finding {
	pod, ref := s.Pod, Ref("Node", n)
	object := func(message, remedy, page string) *Finding {
		found := newFailure(ref, message, remedy, page)
		return &found
	}
	if fits, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(n); err != nil || !fits {
		if why := policy.CheckMinor(pod, n.Labels); why != "" {
			return object(why, "upgrade Kubernetes of the provider, or run the pod elsewhere", "docs/troubleshooting.md#providertooold")
		}
		return object("the node selector or affinity of the pod, with the clusterSelector of the offloading, does not match its labels",
			"change the selector: liqoctl offload namespace --selector, or label the node", "docs/offload-namespaces.md#choose-providers")
	}
	switch {
	case !kube.NodeReady(n):
		return object("it is not Ready"+whyNotReady(n), "run: liqoctl explain node "+n.Name, pageNode)
	case n.Spec.Unschedulable:
		return object("it is cordoned", "run: kubectl uncordon "+n.Name, pageNode)
	}
	for _, taint := range n.Spec.Taints {
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || toleratesTaint(pod, &taint) {
			continue
		}
		if taint.Key == names.WithdrawnTaint {
			return object("its provider withdrew the ResourceSlice", "run: liqoctl explain node "+n.Name, "docs/troubleshooting.md#resourceslicewithdrawn")
		}
		return object("the pod does not tolerate its taint "+taint.Key, "add a toleration, or make the pod anew", "docs/troubleshooting.md#failedscheduling-virtual-nodeliqoionot-allowed")
	}
	if short := policy.FindShortages(policy.PodRequests(&pod.Spec), s.usageOf(n.Name), n.Status.Allocatable); short != nil && s.Unreadable["Pod"] == "" {
		var parts []string
		for _, one := range short {
			parts = append(parts, fmt.Sprintf("%s: %s free, %s requested", one.Resource, one.Free.String(), one.Need.String()))
		}
		return object("too little is free: "+strings.Join(parts, "; "), "ask for more: liqoctl create resourceslice, or end other pods", "docs/troubleshooting.md#failedscheduling-insufficient-resources")
	}
	return nil
}

// toleratesTaint reports whether a pod tolerates a taint. Operators that compare numbers count as tolerating: the scheduler's message has the rest.
func toleratesTaint(pod *corev1.Pod, taint *corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			return false
		}
		return t.Operator != corev1.TolerationOpEqual && t.Operator != "" || t.Value == taint.Value
	})
}

// usageOf returns the sum of the requests of a virtual node's pods.
func (f *Facts) usageOf(node string) corev1.ResourceList {
	used := corev1.ResourceList{}
	for i := range f.OffloadedPods {
		if pod := &f.OffloadedPods[i]; pod.Spec.NodeName == node && !policy.Ended(pod.Status.Phase) {
			policy.AddResources(used, policy.PodUsage(pod))
		}
	}
	return used
}

// addOffloading adds the links of a pod on a virtual node, from the offloading of the namespace to the containers in the provider.
func (w *chainWriter) addOffloading(s, remote *Scene) {
	pod := s.Pod
	node, provider := pod.Spec.NodeName, s.ProviderOfNode(pod.Spec.NodeName)
	if policy.KeptOff(pod) {
		w.addLink(s, "virtual nodes take such pods", "", func() []Finding {
			return []Finding{newFailure(Ref("Pod", pod), "virtual nodes do not run pods of a DaemonSet that tolerates every taint", "restart the rollout of the DaemonSet, which is kept off virtual nodes then",
				"docs/pods.md#daemonsets")}
		})
	}
	w.addPeering(s, provider)
	w.addLink(s, "the namespace is offloaded to the provider", s.RemoteNamespace(), func() []Finding { return s.findRemoteNamespace(provider) }, "NamespaceOffloading")
	isThere := len(pod.Status.ContainerStatuses) > 0 || remote != nil && remote.Pod != nil
	n := s.nodeOf(node)
	w.addNetwork(s, provider, n != nil && !kube.NodeReady(n))
	w.addVirtualNode(s, node, !isThere)
	if remote != nil {
		w.addTenant(remote, liqov1beta1.ClusterID(s.ClusterID), s.sliceOfNode(node), !isThere)
	}
	w.addLink(s, "the provider accepts the pod", "", func() []Finding { return s.findRefusal(remote) })
	shown, ref := pod, fmt.Sprintf("%s (in %s)", Ref("Pod", pod), cmp.Or(string(provider), "the provider"))
	at := s
	if remote != nil {
		at = remote
		w.addLink(remote, "the provider made the pod", s.RemoteNamespace(), func() []Finding { return s.findShadow(remote, node) }, "ShadowPod", "RemotePod")
		if remote.Pod != nil {
			shown, ref = remote.Pod, Ref("Pod", remote.Pod)
		}
	}
	w.addLink(at, "a node of the provider takes the pod", shownNode(remote), func() []Finding {
		c := falseCondition(shown, corev1.PodScheduled)
		if c == nil {
			return nil
		}
		return []Finding{newFailure(ref, cmp.Or(c.Message, c.Reason), "add or free nodes in the provider, or change what the pod requests and selects", "docs/troubleshooting.md#remoteunschedulable")}
	})
	w.addLink(at, "the containers run, and are ready", "", func() []Finding { return s.findUnready(ref, shown) })
	if pod.Labels[names.RemoteUnavailable] == "true" {
		w.addLink(s, "the virtual node vouches for it", "", func() []Finding {
			return []Finding{newFailure(Ref("Pod", pod), "its virtual node was not ready, so that it counts as not ready", "run: liqoctl explain node "+node, pageNode)}
		})
	}
}

// shownNode returns the node of the pod in the provider.
func shownNode(remote *Scene) string {
	if remote == nil || remote.Pod == nil {
		return ""
	}
	return remote.Pod.Spec.NodeName
}

// sliceOfNode returns the name of the ResourceSlice of a virtual node, "" if it has none.
func (s *Scene) sliceOfNode(node string) string {
	if vn := s.virtualNodeOf(node); vn != nil {
		return vn.Labels[names.ResourceSliceName]
	}
	return ""
}

// findRefusal returns why the provider does not take the pod: the condition of the pod, else the last event about the reflection.
func (s *Scene) findRefusal(remote *Scene) []Finding {
	pod := s.Pod
	ref := Ref("Pod", pod)
	if c := falseCondition(pod, names.PodAccepted); c != nil {
		g := refusalGuide(c.Reason, c.Message)
		return []Finding{newFailure(ref, joinNonEmpty(": ", c.Reason, c.Message), g.remedy, g.page)}
	}
	if podWorks(pod) || len(pod.Status.ContainerStatuses) > 0 || remote != nil && remote.Pod != nil {
		return nil
	}
	reasons := []string{"SuccessfulReflection"}
	for reason := range reflectionReasons {
		reasons = append(reasons, reason)
	}
	e := s.latestEvent("Pod", pod, []string{pod.Spec.NodeName}, reasons...)
	if e == nil || e.Reason == "SuccessfulReflection" {
		return nil
	}
	g := refusalGuide(e.Reason, e.Message)
	return []Finding{newFailure(ref, e.Reason+": "+e.Message, g.remedy, g.page)}
}

// findShadow returns that the provider lacks the ShadowPod or the pod.
func (s *Scene) findShadow(remote *Scene, node string) []Finding {
	name := remote.Scope + "/" + s.Pod.Name
	late := !s.isStarting(s.Pod)
	switch {
	case remote.Scope == "":
		return []Finding{newUnknown("ShadowPod", "the name of the remote namespace")}
	case remote.ShadowPod == nil:
		return weighFindings([]Finding{newFailure("ShadowPod "+name, "the virtual kubelet did not make it", "see the log of Deployment "+names.VirtualKubelet(node), pagePending)}, late)
	case remote.Pod != nil:
		return nil
	}
	for _, c := range remote.ShadowPod.Status.Conditions {
		if c.Type == offv1beta1.ShadowPodAccepted && c.Status != "True" {
			g := refusalGuide(c.Reason, c.Message)
			return []Finding{newFailure("ShadowPod "+name, c.Reason+": "+c.Message, g.remedy, g.page)}
		}
	}
	return weighFindings([]Finding{newFailure("Pod "+name, "the provider did not make it", "in the provider, see the events of the ShadowPod and the log of liqo-controller-manager", "docs/troubleshooting.md#failedcreatepod")}, late)
}
