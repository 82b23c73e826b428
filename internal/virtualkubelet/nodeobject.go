// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// nodeFacts are all inputs of the Node.
type nodeFacts struct {
	virtualNode *offv1beta1.VirtualNode
	// peer is nil when the provider's ForeignCluster is missing.
	peer *liqov1beta1.ForeignCluster
	// provider is the health of its API server.
	provider reachability
	// misbehaves is a recent violation by the provider; nil for none.
	misbehaves *multicluster.Misbehaviour
	// metricsMissing is why the provider has no metrics; nil if it has, or was not asked.
	metricsMissing    *errNoMetrics
	checkNetwork      bool
	labels            map[string]string
	annotations       map[string]string
	ip                netip.Addr
	port              int
	kubernetesVersion string
	now               time.Time
	// current is the present Node; nil before it is created.
	current *corev1.Node
}

// wantedNode returns the Node with its status. Foreign taints are kept.
func wantedNode(in nodeFacts) *corev1.Node {
	spec := in.virtualNode.Spec
	labels := map[string]string{
		"kubernetes.io/role":                                      "agent",
		corev1.LabelOSStable:                                      "linux",
		corev1.LabelArchStable:                                    "amd64",
		corev1.LabelNodeExcludeBalancers:                          "true",
		"alpha.service-controller.kubernetes.io/exclude-balancer": "true",
	}
	maps.Copy(labels, in.labels)
	maps.Copy(labels, spec.Labels)
	// The identity of this node is not for the provider to set.
	maps.Copy(labels, map[string]string{
		corev1.LabelHostname:   in.virtualNode.Name,
		names.NodeType:         names.NodeTypeVirtualNode,
		"type":                 "virtual-kubelet",
		names.RemoteClusterID:  string(spec.ClusterID),
		names.StorageAvailable: policy.StorageAvailable(in.virtualNode),
	})
	annotations := maps.Clone(in.annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, spec.Annotations)
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: in.virtualNode.Name, Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{Taints: ownTaints(in.virtualNode)},
		Status:     nodeStatus(in, labels),
	}
}

// ownTaints returns the taints of a virtual node; the first keeps pods without a toleration away. Pods that run on a node whose
// slice is withdrawn go on.
func ownTaints(vn *offv1beta1.VirtualNode) []corev1.Taint {
	taints := append([]corev1.Taint{
		{Key: names.VirtualNodeTaint, Value: "true", Effect: corev1.TaintEffectNoExecute},
	}, vn.Spec.Taints...)
	if vn.Annotations[names.Withdrawn] != "" {
		taints = append(taints, corev1.Taint{Key: names.WithdrawnTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule})
	}
	return taints
}

// mergeTaints adds our taints to the foreign ones. previous are the taints added by us before: of these the unwanted are
// removed, and all others stay.
func mergeTaints(have, previous, want []corev1.Taint) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range have {
		owned := func(o corev1.Taint) bool { return t.MatchTaint(&o) }
		if !slices.ContainsFunc(previous, owned) && !slices.ContainsFunc(want, owned) {
			out = append(out, t)
		}
	}
	return append(out, want...)
}

func nodeStatus(in nodeFacts, labels map[string]string) corev1.NodeStatus {
	resources := in.virtualNode.Spec.ResourceQuota.Hard.DeepCopy()
	for _, ofClaims := range []corev1.ResourceName{corev1.ResourceRequestsStorage, corev1.ResourcePersistentVolumeClaims} {
		delete(resources, ofClaims) // which no pod requests
	}
	return corev1.NodeStatus{
		Capacity:        resources,
		Allocatable:     resources,
		Conditions:      nodeConditions(in),
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: in.ip.String()}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(in.port)}},
		NodeInfo: corev1.NodeSystemInfo{
			KubeletVersion: in.kubernetesVersion, OperatingSystem: labels[corev1.LabelOSStable], Architecture: labels[corev1.LabelArchStable],
		},
		Images:           in.virtualNode.Spec.Images,
		DeclaredFeatures: declaredFeatures(in),
	}
}

// firstWithFeatures is the first version of Kubernetes whose nodes have declaredFeatures.
var firstWithFeatures = version.MustParseGeneric("1.35.0")

// declaredFeatures returns none for an API server without the field, which would reject the whole status.
func declaredFeatures(in nodeFacts) []string {
	if v, err := version.ParseGeneric(in.kubernetesVersion); err != nil || v.LessThan(firstWithFeatures) {
		return nil
	}
	return policy.DeclaredFeatures(in.virtualNode.Spec.DeclaredFeatures)
}

// nodeConditions returns the present conditions of the node. keepTimes fills in the times.
func nodeConditions(in nodeFacts) []corev1.NodeCondition {
	hard := in.virtualNode.Spec.ResourceQuota.Hard
	enough := hard.Cpu().Sign() > 0 && hard.Memory().Sign() > 0
	network, checked := networkUp(in)
	out := []corev1.NodeCondition{
		readyCondition(in, enough, network || !checked),
		pressureCondition(corev1.NodeMemoryPressure, !enough, "Memory"),
		pressureCondition(corev1.NodeDiskPressure, !enough, "Disk"),
		pressureCondition(corev1.NodePIDPressure, !enough, "PID"),
	}
	if checked {
		c := corev1.NodeCondition{
			Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse,
			Reason: reasonNetworkUp, Message: "The Liqo cluster interconnection is established",
		}
		if !network {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, reasonNetworkDown, "The Liqo cluster interconnection is down"
		}
		out = append(out, c)
	} else if others := networkOfOthers(in.current); others != nil {
		out = append(out, *others)
	}
	if m := in.misbehaves; m != nil {
		out = append(out, corev1.NodeCondition{Type: conditionMisbehaves, Status: corev1.ConditionTrue, Reason: m.Reason, Message: kube.Note(m.Message)})
	}
	if none := in.metricsMissing; none != nil {
		out = append(out, corev1.NodeCondition{Type: conditionMetrics, Status: corev1.ConditionFalse, Reason: none.reason, Message: kube.Note(none.message)})
	}
	if reason := in.virtualNode.Annotations[names.Withdrawn]; reason != "" {
		out = append(out, corev1.NodeCondition{
			Type: conditionWithdrawn, Status: corev1.ConditionTrue,
			Reason: "Withdrawn", Message: "The ResourceSlice of this node accepts no more pods: " + reason,
		})
	}
	return keepTimes(out, in)
}

// reasonNetworkUp and reasonNetworkDown are the reasons of our network condition.
const (
	reasonNetworkUp        = "LiqoNetworkingUp"
	reasonNetworkDown      = "LiqoNetworkingDown"
	reasonNetworkUnchecked = "LiqoNetworkingUnchecked"
)

// networkOfOthers returns the replacement of a foreign network condition, or nil: a cloud without routes to a virtual
// node marks the node's network unavailable, and thereby keeps all pods away.
func networkOfOthers(current *corev1.Node) *corev1.NodeCondition {
	c, ok := conditionOf(current, corev1.NodeNetworkUnavailable)
	if !ok || c.Reason == reasonNetworkUp || c.Reason == reasonNetworkDown {
		return nil
	}
	return &corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse,
		Reason: reasonNetworkUnchecked, Message: "Liqo does not check the network of this node, to which no routes of the cluster lead",
	}
}

const (
	// conditionMisbehaves is set if the provider made this cluster read, keep or write more than allowed.
	conditionMisbehaves corev1.NodeConditionType = "PeerMisbehaves"
	// conditionMetrics is set, as False, if a client asked for metrics and the provider has none.
	conditionMetrics corev1.NodeConditionType = "MetricsAvailable"
	// conditionWithdrawn is set if the provider denies the ResourceSlice, or has too different a version: no new pod may be
	// scheduled.
	conditionWithdrawn corev1.NodeConditionType = "ResourceSliceWithdrawn"
	// reasonNotLetIn is the reason of a NotReady Node with credentials refused by the provider.
	reasonNotLetIn = "CredentialsRefused"
)

// readyCondition returns NotReady in a network partition (the provider is silent), and if the provider refuses the
// credentials of this cluster, grants no cpu or memory, or is not reachable for pods. Before the first check the condition stays.
func readyCondition(in nodeFacts, enough, network bool) corev1.NodeCondition {
	out := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionFalse,
		Reason: "KubeletNotReady", Message: "The Liqo Virtual Kubelet is currently not ready",
	}
	switch {
	case in.provider == refuses:
		out.Reason = reasonNotLetIn
		out.Message += ": the API server of " + string(in.virtualNode.Spec.ClusterID) + " refuses the credentials of this node"
	case in.provider == silent:
		out.Message += ": the API server of " + string(in.virtualNode.Spec.ClusterID) + " does not answer"
	case !enough:
		out.Message += ": no cpu or no memory is granted"
	case !network:
		out.Message += ": the network to " + string(in.virtualNode.Spec.ClusterID) + " is down"
	case in.provider == undecided:
		if now, ok := conditionOf(in.current, corev1.NodeReady); ok {
			return now
		}
		out.Message += ": the API server of " + string(in.virtualNode.Spec.ClusterID) + " was not asked yet"
	default:
		out.Status, out.Reason, out.Message = corev1.ConditionTrue, "KubeletReady", "The Liqo Virtual Kubelet is posting ready status"
	}
	return out
}

func pressureCondition(t corev1.NodeConditionType, under bool, what string) corev1.NodeCondition {
	if under {
		return corev1.NodeCondition{
			Type: t, Status: corev1.ConditionTrue, Reason: "RemoteClusterHas" + what + "Pressure",
			Message: "The remote cluster is advertising no or insufficient resources",
		}
	}
	reason := "RemoteClusterHasNo" + what + "Pressure"
	if t == corev1.NodeMemoryPressure {
		reason = "RemoteClusterHasSufficientMemory"
	}
	return corev1.NodeCondition{Type: t, Status: corev1.ConditionFalse, Reason: reason, Message: "The remote cluster is advertising sufficient resources"}
}

// networkUp reports whether pods of both clusters can communicate, even if only on some nodes: otherwise local pods would be
// evicted for a fault of one remote node. checked is false if no network is set up.
func networkUp(in nodeFacts) (up, checked bool) {
	if !in.checkNetwork || in.peer == nil || !in.peer.Status.Modules.Networking.Enabled {
		return false, false
	}
	for _, c := range in.peer.Status.Modules.Networking.Conditions {
		if c.Type == liqov1beta1.NetworkConnectionStatus {
			return c.Status == liqov1beta1.ConditionEstablished || c.Status == liqov1beta1.ConditionSomeNotReady, true
		}
	}
	return false, true
}

// keepTimes keeps the last transition time of unchanged conditions.
func keepTimes(conditions []corev1.NodeCondition, in nodeFacts) []corev1.NodeCondition {
	now := metav1.NewTime(in.now.Truncate(time.Second))
	for i := range conditions {
		c := &conditions[i]
		c.LastHeartbeatTime, c.LastTransitionTime = now, now
		if old, ok := conditionOf(in.current, c.Type); ok && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	return conditions
}

func conditionOf(node *corev1.Node, of corev1.NodeConditionType) (corev1.NodeCondition, bool) {
	if node == nil {
		return corev1.NodeCondition{}, false
	}
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == of })
	if i < 0 {
		return corev1.NodeCondition{}, false
	}
	return node.Status.Conditions[i], true
}
