// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// newScene returns the consumer rome, whose namespace shop is offloaded to milan, with a pod that waits for a node.
func newScene() *Scene {
	virtual := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{names.NodeType: names.NodeTypeVirtualNode, names.RemoteClusterID: "milan"}}}
	virtual.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	virtual.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	virtual.Spec.Taints = []corev1.Taint{{Key: names.VirtualNodeTaint, Value: "true", Effect: corev1.TaintEffectNoExecute}}
	worker := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Status: corev1.NodeStatus{Conditions: virtual.Status.Conditions}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
	pod.Spec.Containers = []corev1.Container{{Name: "web", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: names.VirtualNodeTaint, Operator: corev1.TolerationOpExists}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no node fits"}}}
	nso := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "offloading", CreationTimestamp: metav1.NewTime(now.Add(-2 * time.Hour))}}
	nso.Spec.PodOffloadingStrategy = offv1beta1.LocalAndRemotePodOffloadingStrategyType
	nso.Status = offv1beta1.NamespaceOffloadingStatus{RemoteNamespaceName: "shop-rome", OffloadingPhase: offv1beta1.ReadyOffloadingPhaseType, RemoteNamespacesConditions: map[string]offv1beta1.RemoteNamespaceConditions{
		"milan": {{Type: offv1beta1.NamespaceOffloadingRequired, Status: corev1.ConditionTrue}, {Type: offv1beta1.NamespaceReady, Status: corev1.ConditionTrue}},
	}}
	return &Scene{
		Facts: &Facts{Now: now, Namespace: "liqo", Nodes: []corev1.Node{virtual, worker},
			Peers:        []liqov1beta1.ForeignCluster{{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: "milan"}}},
			VirtualNodes: []offv1beta1.VirtualNode{{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "milan"}, Spec: offv1beta1.VirtualNodeSpec{ClusterID: "milan"}}}},
		ClusterID: "rome", Scope: "shop", Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, Offloading: nso, Pod: pod,
		Service:        &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}},
		EndpointSlices: []discoveryv1.EndpointSlice{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"}, Endpoints: []discoveryv1.Endpoint{{}}}},
	}
}

// runs makes the pod of a scene one that works on a node.
func runs(s *Scene, node string) {
	s.Pod.Spec.NodeName = node
	s.Pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
}

func waiting(reason string) []corev1.ContainerStatus {
	return []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
}

func selectRegion(name string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "region", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}}}
}

func TestExplanations(t *testing.T) {
	pod := func(s *Scene) *Explanation { return ExplainPod(s, nil) }
	namespace := func(s *Scene) *Explanation { return ExplainNamespace(s, nil) }
	service := func(s *Scene) *Explanation { return ExplainService(s, nil) }
	node := func(name string) func(*Scene) *Explanation {
		return func(s *Scene) *Explanation { return ExplainNode(s, nil, name) }
	}
	for name, tc := range map[string]struct {
		explain func(*Scene) *Explanation
		change  func(*Scene)
		// want are the findings, "<status of the link>: <object>: <message>".
		want []string
	}{
		"pod/failed":    {pod, func(s *Scene) { s.Pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OffloadingAborted"} }, []string{"failed: Pod shop/web: it has failed: OffloadingAborted"}},
		"pod/succeeded": {pod, func(s *Scene) { runs(s, "milan"); s.Pod.Status.Phase = corev1.PodSucceeded }, nil},
		"pod/terminating": {pod, func(s *Scene) { s.Pod.DeletionTimestamp = new(metav1.NewTime(now.Add(-time.Hour))) },
			[]string{"failed: Pod shop/web: its deletion should have ended 1h0m0s ago"}},
		"pod/unschedulable": {pod, func(*Scene) {}, []string{"failed: Pod shop/web: no node fits"}},
		"pod/gate":          {pod, func(s *Scene) { s.Pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a/b"}} }, []string{"failed: Pod shop/web: the scheduling gate a/b holds it back"}},
		"pod/unseen": {pod, func(s *Scene) { s.Pod.Status.Conditions, s.Pod.Spec.SchedulerName = nil, "mine" },
			[]string{`failed: Pod shop/web: the scheduler "mine" has not looked at it`}},
		"pod/no_virtual_node": {pod, func(s *Scene) { s.Nodes = s.Nodes[1:] }, []string{"failed: Node: this cluster has no virtual node", "failed: Pod shop/web: no node fits"}},
		"pod/selector": {pod, func(s *Scene) { s.Pod.Spec.NodeSelector = map[string]string{"gpu": "yes"} },
			[]string{"failed: Node milan: the node selector or affinity of the pod, with the clusterSelector of the offloading, does not match its labels", "failed: Pod shop/web: no node fits"}},
		"pod/cordoned": {pod, func(s *Scene) { s.Nodes[0].Spec.Unschedulable = true }, []string{"failed: Node milan: it is cordoned", "failed: Pod shop/web: no node fits"}},
		"pod/node_down": {pod, func(s *Scene) {
			s.Nodes[0].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: "why"}}
		}, []string{"failed: Node milan: it is not Ready: KubeletNotReady: why", "failed: Pod shop/web: no node fits"}},
		"pod/withdrawn": {pod, func(s *Scene) {
			s.Nodes[0].Spec.Taints = append(s.Nodes[0].Spec.Taints, corev1.Taint{Key: names.WithdrawnTaint, Effect: corev1.TaintEffectNoSchedule})
		}, []string{"failed: Node milan: its provider withdrew the ResourceSlice", "failed: Pod shop/web: no node fits"}},
		"pod/taint": {pod, func(s *Scene) { s.Nodes[0].Spec.Taints[0].Key = "dedicated" },
			[]string{"failed: Node milan: the pod does not tolerate its taint dedicated", "failed: Pod shop/web: no node fits"}},
		"pod/full": {pod, func(s *Scene) { s.OffloadedPods = []corev1.Pod{offloaded("milan", "3500m", corev1.PodRunning)} },
			[]string{"failed: Node milan: too little is free: cpu: 500m free, 1 requested", "failed: Pod shop/web: no node fits"}},
		"pod/local": {pod, func(s *Scene) { s.Offloading.Spec.PodOffloadingStrategy = offv1beta1.LocalPodOffloadingStrategyType }, []string{"failed: Pod shop/web: no node fits"}},
		"pod/claim_missing": {pod, func(s *Scene) {
			s.Pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		}, []string{"failed: PersistentVolumeClaim shop/data: it does not exist"}},
		"pod/on_worker": {pod, func(s *Scene) { runs(s, "worker") }, nil},
		"pod/misplaced": {pod, func(s *Scene) {
			runs(s, "worker")
			s.Offloading.Spec.PodOffloadingStrategy = offv1beta1.RemotePodOffloadingStrategyType
		}, []string{"warning: Pod shop/web: the strategy of the offloading forbids this node"}},
		"pod/on_worker_starting": {pod, func(s *Scene) {
			s.Pod.Spec.NodeName, s.Pod.Status = "worker", corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waiting("ContainerCreating")}
		}, []string{"failed: Pod shop/web: the containers are being made"}},
		"pod/on_worker_just_made": {pod, func(s *Scene) {
			s.Pod.Spec.NodeName, s.Pod.Status, s.Pod.CreationTimestamp = "worker", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "containers with unready status: [web]"},
			}}, metav1.NewTime(now.Add(-20*time.Second))
		}, []string{"warning: Pod shop/web: ContainersNotReady: containers with unready status: [web]"}},
		"pod/on_worker_just_scheduled": {pod, func(s *Scene) {
			s.Pod.Spec.NodeName, s.Pod.Status = "worker", corev1.PodStatus{Phase: corev1.PodPending, StartTime: new(metav1.NewTime(now)), ContainerStatuses: waiting("ContainerCreating")}
		}, []string{"warning: Pod shop/web: the containers are being made"}},
		"pod/on_worker_without_image": {pod, func(s *Scene) {
			s.Pod.Spec.NodeName, s.Pod.Status = "worker", corev1.PodStatus{Phase: corev1.PodPending, StartTime: new(metav1.NewTime(now)), ContainerStatuses: waiting("ErrImagePull")}
		}, []string{"failed: Pod shop/web: ErrImagePull"}},
		"pod/just_made": {pod, func(s *Scene) { s.Pod.Status.Conditions, s.Pod.CreationTimestamp = nil, metav1.NewTime(now) },
			[]string{"warning: Pod shop/web: the scheduler has not looked at it yet"}},
		"pod/in_grace_period": {pod, func(s *Scene) {
			runs(s, "milan")
			s.Pod.DeletionTimestamp = new(metav1.NewTime(now.Add(20 * time.Second)))
		}, []string{"warning: Pod shop/web: it is being deleted", "warning: Pod shop/web (in milan): it is being deleted"}},
		"pod/of_Job": {pod, func(s *Scene) {
			s.Pod.OwnerReferences, s.Pod.Spec.RestartPolicy = []metav1.OwnerReference{{Kind: "Job", Name: "nightly", Controller: new(true)}}, corev1.RestartPolicyNever
			s.Offloading.Spec.PodOffloadingStrategy = offv1beta1.RemotePodOffloadingStrategyType
		}, []string{"failed: Pod shop/web: it is older than the strategy of the offloading, and Liqo does not replace pods of Job nightly"}},
		"pod/older_than_selector": {pod, func(s *Scene) {
			s.Offloading.Spec.ClusterSelector = selectRegion("north")
			s.Nodes[0].Labels["region"] = "north"
		}, []string{"warning: Pod shop/web: it is older than the strategy of the offloading, and has no owner that would make it anew", "failed: Pod shop/web: no node fits"}},
		"pod/excluded_nodes": {pod, func(s *Scene) {
			s.Offloading.Spec.ClusterSelector = selectRegion("north")
			s.Pod.OwnerReferences, s.Pod.Spec.RestartPolicy = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: new(true)}}, corev1.RestartPolicyAlways
			north := *s.Nodes[0].DeepCopy()
			north.Name, north.Labels["region"], north.Spec.Unschedulable = "turin", "north", true
			s.Nodes = append(s.Nodes, north)
		}, []string{
			"warning: Pod shop/web: it is older than the strategy of the offloading",
			"failed: Node turin: it is cordoned", "failed: Pod shop/web: no node fits", "failed: NamespaceOffloading shop/offloading: its clusterSelector excludes milan",
		}},
		"pod/unreachable": {pod, func(s *Scene) {
			runs(s, "milan")
			s.Nodes, s.VirtualNodes = nil, nil
			s.Pod.Labels = map[string]string{names.ShadowPod: "true"}
			s.Unreadable = map[string]string{"Node": "forbidden", "VirtualNode": "forbidden"}
		}, []string{"warning: ForeignCluster: not checked: the provider of the node is not known", "warning: VirtualNode, Node: not checked: forbidden"}},
		"pod/of_DaemonSet": {pod, func(s *Scene) {
			s.Pod.Spec.NodeName, s.Pod.Status.Conditions, s.Pod.Spec.Tolerations = "milan", nil, nil
			s.Pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: new(true)}}
		}, []string{"failed: Pod shop/web: virtual nodes do not run pods of a DaemonSet that tolerates every taint"}},
		"pod/works_without_tunnel": {pod, func(s *Scene) {
			runs(s, "milan")
			s.Peers[0].Status.Modules.Networking.Enabled = true
		}, []string{
			"warning: ForeignCluster milan: NetworkConfigurationMissing: there is no Configuration for this cluster",
			"warning: ForeignCluster milan: GatewayMissing: there is no gateway for this cluster",
		}},
		"pod/reflection_failed": {pod, func(s *Scene) {
			s.Pod.Spec.NodeName, s.Pod.Status.Conditions = "milan", nil
			event := func(reason string, ago time.Duration) corev1.Event {
				return corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "web"}, Reason: reason, Message: "why", LastTimestamp: metav1.NewTime(now.Add(-ago))}
			}
			s.Events = []corev1.Event{event("TokenRefused", time.Minute), event("SuccessfulReflection", time.Hour)}
		}, []string{"failed: Pod shop/web: TokenRefused: why"}},
		"pod/unavailable": {pod, func(s *Scene) {
			runs(s, "milan")
			s.Pod.Labels = map[string]string{names.RemoteUnavailable: "true"}
			s.Pod.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "RemoteUnavailable", Message: "down"}
		}, []string{"failed: Pod shop/web (in milan): RemoteUnavailable: down"}},
		"pod/unknown_provider": {pod, func(s *Scene) {
			runs(s, "milan")
			s.Nodes, s.VirtualNodes = nil, nil
			s.Pod.Labels = map[string]string{names.ShadowPod: "true"}
			s.Unreadable = map[string]string{"Node": "forbidden", "VirtualNode": "forbidden", "ForeignCluster": "forbidden"}
		}, []string{"warning: ForeignCluster: not checked: forbidden", "warning: ForeignCluster: not checked: forbidden", "warning: VirtualNode, Node: not checked: forbidden"}},
		"namespace/missing":  {namespace, func(s *Scene) { s.Namespace = nil }, []string{"failed: Namespace shop: it does not exist"}},
		"namespace/deleting": {namespace, func(s *Scene) { s.Namespace.DeletionTimestamp = new(metav1.NewTime(now)) }, []string{"failed: Namespace shop: it is being deleted"}},
		"namespace/local":    {namespace, func(s *Scene) { s.Offloading = nil }, []string{"failed: Namespace shop: it has no NamespaceOffloading"}},
		"namespace/fresh":    {namespace, func(s *Scene) { s.Offloading.Generation = 2 }, []string{"failed: NamespaceOffloading shop/offloading: its present generation was not processed"}},
		"namespace/invalid": {namespace, func(s *Scene) {
			s.Offloading.Generation = 2
			s.Events = []corev1.Event{{InvolvedObject: corev1.ObjectReference{Kind: "NamespaceOffloading", Name: "offloading"}, Reason: "Invalid", Message: "why"}}
		}, []string{"failed: NamespaceOffloading shop/offloading: Invalid: why"}},
		"namespace/pods_refused": {namespace, func(s *Scene) {
			s.Offloading.Status.MisplacedPods = 2
			s.Events = []corev1.Event{
				{InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: "old"}, Reason: "FailedCreate", Message: "before", LastTimestamp: metav1.NewTime(now.Add(-time.Hour))},
				{InvolvedObject: corev1.ObjectReference{Kind: "ReplicaSet", Name: "web-1"}, Reason: "FailedCreate", Message: "why", LastTimestamp: metav1.NewTime(now)},
			}
		}, []string{"failed: ReplicaSet shop/web-1: why", "failed: NamespaceOffloading shop/offloading: 2 pods do not fit the strategy"}},
		"namespace/creating": {namespace, func(s *Scene) {
			c := &s.Offloading.Status.RemoteNamespacesConditions["milan"][1]
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, "Creating", "being created"
		}, []string{"failed: NamespaceOffloading shop/offloading: Creating: being created"}},
		"namespace/unprotected": {namespace, func(s *Scene) {
			s.Offloading.Status.RemoteNamespacesConditions["milan"] = append(s.Offloading.Status.RemoteNamespacesConditions["milan"],
				offv1beta1.RemoteNamespaceCondition{Type: offv1beta1.NamespaceNetworkPoliciesEnforced, Status: corev1.ConditionFalse, Reason: "NotEnforced", Message: "why"})
		}, []string{"warning: NamespaceOffloading shop/offloading: NotEnforced: why"}},
		"node/unpeered": {node("milan"), func(s *Scene) { s.Peers = nil }, []string{"failed: ForeignCluster milan: there is no peering with this cluster"}},
		"node/only_slice": {node("big"), func(s *Scene) {
			s.Slices = []authv1beta1.ResourceSlice{{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "big", Labels: map[string]string{names.RemoteClusterID: "milan"}},
				Spec: authv1beta1.ResourceSliceSpec{ProviderClusterID: new(liqov1beta1.ClusterID("milan"))}}}
		}, []string{"failed: ResourceSlice tenant/big: the provider has neither accepted nor denied it"}},
		"node/withdrawn": {node("milan"), func(s *Scene) {
			s.Nodes[0].Status.Conditions = append(s.Nodes[0].Status.Conditions, corev1.NodeCondition{Type: "ResourceSliceWithdrawn", Status: corev1.ConditionTrue, Message: "denied"})
		}, []string{"failed: Node milan: denied"}},
		"node/peer_misbehaves": {node("milan"), func(s *Scene) {
			s.Peers[0].Status.Conditions = append(s.Peers[0].Status.Conditions, tooMuch)
			s.Nodes[0].Status.Conditions = append(s.Nodes[0].Status.Conditions, corev1.NodeCondition{Type: "PeerMisbehaves", Status: corev1.ConditionTrue, Reason: "ListTooLarge", Message: "a list is too large"})
		}, []string{"warning: ForeignCluster milan: TooManyWrites: what it does makes this cluster write too much", "warning: Node milan: ListTooLarge: a list is too large"}},
		"pod/peer_misbehaves": {pod, func(s *Scene) {
			runs(s, "milan")
			s.Pod.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waiting("ErrImagePull")}
			s.Peers[0].Status.Conditions = append(s.Peers[0].Status.Conditions, tooMuch)
			s.Nodes[0].Status.Conditions = append(s.Nodes[0].Status.Conditions, corev1.NodeCondition{Type: "PeerMisbehaves", Status: corev1.ConditionTrue, Reason: "ListTooLarge", Message: "a list is too large"})
		}, []string{
			"warning: ForeignCluster milan: TooManyWrites: what it does makes this cluster write too much", "warning: Node milan: ListTooLarge: a list is too large",
			"failed: Pod shop/web (in milan): ErrImagePull",
		}},
		"node/worker": {node("worker"), func(*Scene) {}, nil},
		"node/worker_without_fabric": {node("worker"), func(s *Scene) {
			s.DaemonSets = []appsv1.DaemonSet{{ObjectMeta: ofChart("fabric", ""), Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 2}}}
			s.InternalNodes = []networkingv1beta1.InternalNode{{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}}
			s.InternalNodes[0].Spec.Interface.Node.IP = "10.70.0.5"
		}, []string{"failed: Node worker: no pod of the fabric is on it"}},
		"node/worker_unreached": {node("worker"), func(s *Scene) {
			s.InternalNodes = []networkingv1beta1.InternalNode{{ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Status: networkingv1beta1.InternalNodeStatus{
				Peers: []networkingv1beta1.InternalNodePeer{{ClusterID: "milan", Value: networkingv1beta1.ConnectionError}},
			}}}
		}, []string{"failed: InternalNode worker: the peer milan does not answer this node: Error"}},
		"service/works":       {service, func(*Scene) {}, nil},
		"service/no_pod":      {service, func(s *Scene) { s.EndpointSlices = nil }, []string{"failed: Service shop/web: no pod has the labels of its selector: app=web"}},
		"service/no_selector": {service, func(s *Scene) { s.EndpointSlices, s.Service.Spec.Selector = nil, nil }, []string{"failed: Service shop/web: it has no selector, and no EndpointSlice has ready endpoints"}},
		"service/external":    {service, func(s *Scene) { s.EndpointSlices, s.Service.Spec.Type = nil, corev1.ServiceTypeExternalName }, nil},
		"service/no_slice": {service, func(s *Scene) {
			s.EndpointSlices = nil
			runs(s, "worker")
			s.Pod.Labels = map[string]string{"app": "web"}
			s.Pods = []corev1.Pod{*s.Pod}
		}, []string{"failed: Service shop/web: its pods are ready, and no EndpointSlice has ready endpoints"}},
		"service/DNS": {service, func(s *Scene) {
			s.Resolvers = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns"}}}
		},
			[]string{"failed: Pod kube-system/coredns: no pod of the DNS is ready: "}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			tc.change(s)
			e := tc.explain(s)
			var got []string
			for _, c := range e.Chains {
				failed := 0
				for _, l := range c.Links {
					for _, f := range l.Findings {
						got = append(got, fmt.Sprintf("%s: %s: %s", l.Status, f.Object, f.Message))
						if f.Remedy == "" || f.Page == "" {
							t.Errorf("incomplete: %+v", f)
						}
					}
					if (l.Status == Skipped) != (failed > 0) {
						t.Errorf("%s is %s behind %d links that failed", l.Name, l.Status, failed)
					}
					if l.Status == Failed {
						failed++
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			stop := e.Stop()
			if (stop != nil) != e.Stopped {
				t.Fatalf("stopped is %t, by %v", e.Stopped, stop)
			}
			if stop != nil && stop.Failure().Severity != Failed {
				t.Errorf("the headline is %+v", stop.Failure())
			}
			if strings.HasPrefix(name, "pod/") || strings.HasPrefix(name, "namespace/") {
				checkGolden(t, name, s, e)
			}
		})
	}
	if e := ExplainNode(newScene(), nil, "nothing"); e != nil {
		t.Errorf("a node that does not exist: %+v", e)
	}
}

// Why a pod is here is said without a problem, too.
func TestWhyHere(t *testing.T) {
	for want, change := range map[string]func(*Scene){
		"the namespace is not offloaded":           func(s *Scene) { s.Offloading = nil },
		"the strategy Local keeps pods here":       func(s *Scene) { s.Offloading.Spec.PodOffloadingStrategy = offv1beta1.LocalPodOffloadingStrategyType },
		"pods of DaemonSets are not steered":       func(s *Scene) { s.Pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet"}} },
		"the pod is older than the offloading":     func(s *Scene) { s.Offloading.CreationTimestamp = metav1.NewTime(now) },
		"the strategy LocalAndRemote permits both": func(*Scene) {},
	} {
		s := newScene()
		runs(s, "worker")
		change(s)
		if got := ExplainPod(s, nil).Chains[0].Links[1].Note; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Processes of a node have its address for peers, not that of the node.
func TestEndOfHostNetwork(t *testing.T) {
	s := newScene()
	runs(s, "worker")
	s.Pod.Status.PodIP = "192.0.2.7"
	s.InternalNodes = []networkingv1beta1.InternalNode{{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}}
	s.InternalNodes[0].Spec.Interface.Node.IP = "10.70.0.5"
	for host, want := range map[bool]string{false: "192.0.2.7", true: "10.70.0.5"} {
		s.Pod.Spec.HostNetwork = host
		if end := s.EndOfPod(s.Pod, nil, nil); end.Address.String() != want {
			t.Errorf("on the network of its node %t: %s, want %s", host, end.Address, want)
		}
		end := End{Pod: s.Pod, Policies: []netv1.NetworkPolicy{{}}} // NetworkPolicies do not apply to it
		if got := end.findPolicies(netv1.PolicyTypeIngress); (len(got) == 0) != host {
			t.Errorf("on the network of its node %t: %v", host, got)
		}
	}
}

// Selectors know the first address of a pod only, which is of the family of its node's first one.
func TestIsFirstOfPods(t *testing.T) {
	s := newScene()
	for i, cidr := range []networkingv1beta1.CIDR{"10.200.0.0/16", "fd00:200::/64"} {
		s.Networks = append(s.Networks, ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: s.Facts.Namespace, Name: fmt.Sprint(i), Labels: map[string]string{names.NetworkType: names.NetworkTypePod}}})
		s.Networks[i].Status.CIDR = cidr
	}
	for first, want := range map[string][]bool{"": {false, false}, "192.0.2.7": {true, false}, "fd00::7": {false, true}} {
		s.Nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}}
		if first != "" {
			s.Nodes[0].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "worker"}, {Type: corev1.NodeInternalIP, Address: first}, {Type: corev1.NodeInternalIP, Address: "192.0.2.9"}}
		}
		got := []bool{s.IsFirstOfPods(netip.MustParseAddr("10.200.0.5")), s.IsFirstOfPods(netip.MustParseAddr("fd00:200::5"))}
		if !slices.Equal(got, want) || s.IsFirstOfPods(netip.MustParseAddr("192.0.2.1")) {
			t.Errorf("nodes with %q: %v, want %v", first, got, want)
		}
	}
}

// newProvider returns what milan shows of the scene of rome: the copies of its pod, Service and endpoints.
func newProvider() *Scene {
	ready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return &Scene{
		Facts:     &Facts{Now: now, Namespace: "liqo", Tenants: []authv1beta1.Tenant{{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "rome"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}}},
		ClusterID: "milan", Scope: "shop-rome", Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome"}},
		ShadowPod:      &offv1beta1.ShadowPod{},
		Pod:            &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "web"}, Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: ready}},
		Service:        &corev1.Service{},
		EndpointSlices: []discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{{}}}},
		ShadowSlices:   []offv1beta1.ShadowEndpointSlice{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "web-1"}}},
	}
}

// Each case has the headline, "" if nothing stops the object, and the first warning.
func TestExplainWithProvider(t *testing.T) {
	event := func(kind, name, uid, host, reason string) corev1.Event {
		return corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name, UID: types.UID(uid)}, Source: corev1.EventSource{Component: "virtual-kubelet", Host: host},
			Reason: reason, Message: "why", LastTimestamp: metav1.NewTime(now.Add(-time.Minute))}
	}
	failedReflection := func(s, _ *Scene) { s.Events = []corev1.Event{event("Service", "web", "", "milan", "FailedReflection")} }
	service := func(s, remote *Scene) *Explanation { return ExplainService(s, remote) }
	unasked := func(s, _ *Scene) *Explanation { return ExplainService(s, nil) }
	pod := func(s, remote *Scene) *Explanation {
		s.Pod.Spec.NodeName = "milan"
		return ExplainPod(s, remote)
	}
	crashes := func(s, remote *Scene) {
		s.Pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: waiting("CrashLoopBackOff")}
		remote.Pod.Status = *s.Pod.Status.DeepCopy()
	}
	for name, tc := range map[string]struct {
		explain           func(s, remote *Scene) *Explanation
		change            func(s, remote *Scene)
		headline, warning string
	}{
		"event, copy missing": {service, func(s, remote *Scene) { failedReflection(s, nil); remote.Service = nil }, "Service shop/web: FailedReflection: why", ""},
		"event, then fixed":   {service, failedReflection, "", "Service shop/web: 1m0s ago, and may be over: FailedReflection: why"},
		"event, not asked":    {unasked, failedReflection, "", "Service shop/web: 1m0s ago, and may be over: FailedReflection: why"},
		"disabled, then enabled": {service, func(s, _ *Scene) {
			s.Events = []corev1.Event{event("Service", "web", "", "milan", "ReflectionDisabled")}
		}, "", ""},
		"event about a Service of before": {service, func(s, _ *Scene) {
			s.Service.UID = "new"
			s.Events = []corev1.Event{event("Service", "web", "old", "milan", "FailedReflection")}
		}, "", ""},
		"event about another provider": {service, func(s, _ *Scene) { s.Events = []corev1.Event{event("Service", "web", "", "turin", "FailedReflection")} }, "", ""},
		"success in another provider": {service, func(s, remote *Scene) {
			failedReflection(s, nil)
			s.Events = append(s.Events, event("Service", "web", "", "turin", "SuccessfulReflection"))
			remote.Service = nil
		}, "Service shop/web: FailedReflection: why", ""},
		"one endpoint of ten": {service, func(s, _ *Scene) {
			s.Events = []corev1.Event{event("EndpointSlice", "web-1", "", "milan", "EndpointsNotReflected")}
		},
			"", "EndpointSlice shop/web-1: 1m0s ago, and may be over: EndpointsNotReflected: why"},
		"all endpoints": {service, func(s, remote *Scene) {
			s.Events = []corev1.Event{event("EndpointSlice", "web-1", "", "milan", "EndpointsNotReflected")}
			remote.EndpointSlices = nil
		}, "EndpointSlice shop/web-1: EndpointsNotReflected: why", ""},
		"cordoned, new pod": {pod, func(s, remote *Scene) {
			remote.Tenants[0].Spec.TenantCondition, remote.Pod, s.Pod.Status = authv1beta1.TenantConditionCordoned, nil, corev1.PodStatus{Phase: corev1.PodPending}
		}, "Tenant tenant/rome: it is Cordoned", ""},
		"cordoned, crashing pod": {pod, func(s, remote *Scene) {
			crashes(s, remote)
			remote.Tenants[0].Spec.TenantCondition = authv1beta1.TenantConditionCordoned
		}, "Pod shop-rome/web: CrashLoopBackOff", "Tenant tenant/rome: it is Cordoned"},
		"withdrawn, crashing pod": {pod, func(s, remote *Scene) {
			crashes(s, remote)
			s.Nodes[0].Status.Conditions = append(s.Nodes[0].Status.Conditions, corev1.NodeCondition{Type: "ResourceSliceWithdrawn", Status: corev1.ConditionTrue, Message: "denied"})
		}, "Pod shop-rome/web: CrashLoopBackOff", "Node milan: denied"},
		"pod just made": {pod, func(s, remote *Scene) {
			s.Pod.Status, s.Pod.CreationTimestamp, remote.ShadowPod, remote.Pod = corev1.PodStatus{Phase: corev1.PodPending}, metav1.NewTime(now), nil, nil
		}, "", "ShadowPod shop-rome/web: the virtual kubelet did not make it"},
		"consumer not known": {pod, func(s, remote *Scene) { runs(s, ""); s.ClusterID = "" }, "", "Tenant: not checked: the ID of the consumer is not known"},
		"remote namespace not known": {pod, func(s, remote *Scene) {
			s.Offloading, s.Unreadable = nil, map[string]string{"NamespaceOffloading": "forbidden"}
			s.Pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: waiting("CrashLoopBackOff")}
			remote.Scope, remote.ShadowPod, remote.Pod = "", nil, nil
		}, "Pod shop/web (in milan): CrashLoopBackOff", "NamespaceOffloading: not checked: forbidden"},
		"not peered, not offloaded": {pod, func(s, _ *Scene) {
			s.Pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
			s.Peers, s.Offloading = nil, nil
		}, "ForeignCluster milan: there is no peering with this cluster", ""},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			s, remote := newScene(), newProvider()
			tc.change(s, remote)
			e := tc.explain(s, remote)
			headline, warning := "", ""
			if stop := e.Stop(); stop != nil {
				headline = stop.Failure().Object + ": " + stop.Failure().Message
			}
			for _, c := range e.Chains {
				for _, l := range c.Links {
					for _, f := range l.Findings {
						if f.Severity == Warning && warning == "" {
							warning = f.Object + ": " + f.Message
						}
					}
				}
			}
			if headline != tc.headline || warning != tc.warning {
				t.Errorf("%q with the warning %q, want %q with %q: %+v", headline, warning, tc.headline, tc.warning, e.Chains)
			}
		})
	}
}

// A Service in two providers has the events of each in its chain.
func TestExplainServiceInTwoProviders(t *testing.T) {
	s := newScene()
	s.Offloading.Status.RemoteNamespacesConditions["turin"] = s.Offloading.Status.RemoteNamespacesConditions["milan"]
	turin, node := s.Peers[0], s.VirtualNodes[0]
	turin.Name, turin.Spec.ClusterID, node.Name, node.Spec.ClusterID = "turin", "turin", "turin", "turin"
	s.Peers, s.VirtualNodes = append(s.Peers, turin), append(s.VirtualNodes, node)
	s.Events = []corev1.Event{
		{InvolvedObject: corev1.ObjectReference{Kind: "Service", Name: "web"}, Source: corev1.EventSource{Host: "turin"}, Reason: "FailedReflection", Message: "why", LastTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		{InvolvedObject: corev1.ObjectReference{Kind: "Service", Name: "web"}, Source: corev1.EventSource{Host: "milan"}, Reason: "SuccessfulReflection", LastTimestamp: metav1.NewTime(now)},
	}
	e := ExplainService(s, newProvider())
	var got []string
	for _, c := range e.Chains {
		for _, l := range c.Links {
			for _, f := range l.Findings {
				got = append(got, c.Name+": "+f.Message)
			}
		}
	}
	if diff := cmp.Diff([]string{"Service shop/web in turin: 1h0m0s ago, and may be over: FailedReflection: why"}, got); diff != "" || e.Stopped {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What could not be read has no note, and what can be asked for is said.
func TestUnreadableLinks(t *testing.T) {
	for why, remedy := range map[string]string{"pods is forbidden": "ask for the right", "the connection was refused": "does not answer"} {
		s := newScene()
		s.Offloading, s.Unreadable = nil, map[string]string{"NamespaceOffloading": why}
		e := ExplainPod(s, nil)
		l := e.Chains[0].Links[1]
		if l.Note != "" || l.Status != Warning || !strings.Contains(l.Findings[0].Remedy, remedy) || !e.IsPartial() {
			t.Errorf("%+v", l)
		}
	}
	if l := ExplainPod(newScene(), nil); l.IsPartial() {
		t.Errorf("%+v", l)
	}
}
