// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"errors"
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/internal/testkit/hostile"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// A field that a newer Kubernetes adds to events fails here until there is a rule for it.
func TestHostileEvent(t *testing.T) {
	var reported corev1.Event
	hostile.Fill(&reported, hostile.Fields{"Event.Type": {"Warning"}, "Event.ReportingController": {"example.org/kubelet"}})
	reported.FirstTimestamp, reported.EventTime, reported.Series.LastObservedTime = metav1.Now(), metav1.NowMicro(), metav1.NowMicro()
	r := &returningEvents{
		local: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "pod", UID: "local"}}, kind: "Pod", apiVersion: "v1",
		remote: []types.UID{reported.InvolvedObject.UID}, labels: map[string]string{"a": "b"}, now: time.Now(),
	}
	got := r.copyEvent(&reported)
	got.ObjectMeta = metav1.ObjectMeta{} // ours: its name is checked by the API server
	line := hostile.Short(policy.MaxForeignReason)
	checks := map[string]hostile.Rule{
		"Event.Reason": line, "Event.Message": hostile.Short(maxEventText), "Event.FirstTimestamp": hostile.Moment, "Event.LastTimestamp": hostile.Moment,
		"Event.Count": hostile.Between(0, 1<<31), "Event.Type": hostile.OneOf("Warning", "Normal"), "Event.EventTime": hostile.Moment, "Event.Action": line,
		"Event.ReportingController": hostile.OneOf("example.org/kubelet"), "Event.ReportingInstance": line,
		"EventSource.Component": hostile.Short(policy.MaxForeignReason + len(" (remote)")), "EventSource.Host": hostile.Short(policy.MaxForeignName),
		"EventSeries.Count": hostile.Between(0, 1<<31), "EventSeries.LastObservedTime": hostile.Moment,
		"ObjectReference.Kind": hostile.OneOf("Pod"), "ObjectReference.Namespace": hostile.OneOf("web"), "ObjectReference.Name": hostile.OneOf("pod"),
		"ObjectReference.UID": hostile.OneOf("local"), "ObjectReference.APIVersion": hostile.OneOf("v1"), "ObjectReference.ResourceVersion": hostile.Never,
		"ObjectReference.FieldPath": hostile.Short(policy.MaxForeignName),
		// Of another package.
		"ObjectMeta.Name": hostile.Never, "ObjectMeta.GenerateName": hostile.Never, "ObjectMeta.Namespace": hostile.Never, "ObjectMeta.SelfLink": hostile.Never,
		"ObjectMeta.UID": hostile.Never, "ObjectMeta.ResourceVersion": hostile.Never, "ObjectMeta.Generation": hostile.Never, "ObjectMeta.CreationTimestamp": hostile.Never,
		"ObjectMeta.DeletionTimestamp": hostile.Never, "ObjectMeta.DeletionGracePeriodSeconds": hostile.Never, "ObjectMeta.Labels": hostile.Never,
		"ObjectMeta.Annotations": hostile.Never, "ObjectMeta.OwnerReferences": hostile.Never, "ObjectMeta.Finalizers": hostile.Never, "ObjectMeta.ManagedFields": hostile.Never,
		"OwnerReference.APIVersion": hostile.Never, "OwnerReference.Kind": hostile.Never, "OwnerReference.Name": hostile.Never, "OwnerReference.UID": hostile.Never,
		"OwnerReference.Controller": hostile.Never, "OwnerReference.BlockOwnerDeletion": hostile.Never,
		"ManagedFieldsEntry.Manager": hostile.Never, "ManagedFieldsEntry.Operation": hostile.Never, "ManagedFieldsEntry.APIVersion": hostile.Never,
		"ManagedFieldsEntry.Time": hostile.Never, "ManagedFieldsEntry.FieldsType": hostile.Never, "ManagedFieldsEntry.FieldsV1": hostile.Never,
		"ManagedFieldsEntry.Subresource": hostile.Never, "TypeMeta.Kind": hostile.Never, "TypeMeta.APIVersion": hostile.Never, "FieldsV1.Raw": hostile.Never,
	}
	hostile.Check(t, *got, checks)
	together := (&returningEvents{
		local: r.local, kind: "Pod", remote: r.remote, now: r.now,
		events: []*corev1.Event{{Type: corev1.EventTypeNormal, Reason: "Pulled", Message: hostile.Text, InvolvedObject: corev1.ObjectReference{UID: reported.InvolvedObject.UID}, LastTimestamp: metav1.Now()}},
	}).mergeEvents(nil, nil, corev1.EventSource{Component: podComponent})
	if got := together.Message; len(got) > maxEventText || got != policy.CleanText(got, maxEventText) {
		t.Errorf("%d bytes are said together", len(got))
	}
}

// Of a ShadowPod a provider says that it is refused and why, or how its pod ended.
func TestHostileShadowPodStatus(t *testing.T) {
	var shadow offv1beta1.ShadowPod
	hostile.Fill(&shadow.Status, hostile.Fields{"Condition.Type": {offv1beta1.ShadowPodAccepted}, "Condition.Status": {"False"}})
	k := &podKind{options: Options{Provider: "milan"}}
	no := refusalOf(&shadow)
	if no == nil {
		t.Fatal("it refuses nothing")
	}
	refused := hostile.Nothing(corev1.PodStatus{})
	maps.Copy(refused, map[string]hostile.Rule{
		"PodStatus.Phase": hostile.OneOf("Pending"), "PodStatus.Conditions": hostile.AtMost(2), "PodStatus.Reason": hostile.OneOf(translate.ReasonBackOff),
		"PodStatus.Message": hostile.Short(policy.MaxForeignMessage), "PodCondition.Type": hostile.OneOf(string(names.PodAccepted), string(corev1.PodScheduled)),
		"PodCondition.Status": hostile.OneOf("True", "False"), "PodCondition.Reason": hostile.Short(policy.MaxForeignReason),
		"PodCondition.Message": hostile.Short(policy.MaxForeignMessage), "PodCondition.LastTransitionTime": hostile.Moment,
	})
	local := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}}}
	hostile.Check(t, refusedStatus(local, no.Reason, k.refusalText(no.Message)), refused)

	local = &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, StartTime: new(metav1.Now()), PodIP: "10.0.0.1"}}
	for _, phase := range []corev1.PodPhase{"", "Pending", "Running", "Unknown", "Excellent", corev1.PodPhase(hostile.Text)} {
		if policy.Ended(phase) {
			t.Errorf("%.40q is an end", phase)
		}
	}
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		if got := translate.Ended(local, phase); got.Phase != phase || got.Message != "" || got.PodIP != local.Status.PodIP {
			t.Errorf("%s became %+v", phase, got)
		}
	}
	done := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded, Reason: "Done"}}
	if diff := cmp.Diff(done.Status, translate.Ended(done, corev1.PodFailed)); diff != "" {
		t.Errorf("the end of a pod became another one: %s", diff)
	}
}

// What a provider says of its slice ends up on a Node here: a field of a Node that follows from it in some other way fails here.
func TestHostileNode(t *testing.T) {
	var reported authv1beta1.ResourceSliceStatus
	hostile.Fill(&reported, hostile.Fields{"ResourceSliceStatus.NodeLabels": {"value", "not a value"}})
	maps.DeleteFunc(reported.NodeLabels, few[string]) // those that are looked at follow
	maps.DeleteFunc(reported.Resources, func(name corev1.ResourceName, _ resource.Quantity) bool { return few(string(name), "") })
	for key, value := range map[string]string{
		corev1.LabelHostname: "loot", names.NodeType: "real", names.RemoteClusterID: "another", "node-role.kubernetes.io/control-plane": "", "node.kubernetes.io/exclude-from-external-load-balancers": "false",
		corev1.LabelTopologyZone: "north", "topology.ebs.csi.aws.com/zone": "loot",
	} {
		reported.NodeLabels[key] = value
	}
	for name, amount := range map[corev1.ResourceName]string{"cpu": "4", "memory": "1500m", "pods": "10500m", "nvidia.com/gpu": "100m", "ephemeral-storage": "-3Gi", "attachable-volumes-x": "9E"} {
		reported.Resources[name] = resource.MustParse(amount)
	}
	slice := policy.ResourceSliceStatus(&reported)
	vn := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: offv1beta1.VirtualNodeSpec{
		ClusterID: "milan", Labels: policy.OfferedNodeLabels(slice.NodeLabels, nil), ResourceQuota: corev1.ResourceQuotaSpec{Hard: slice.Resources},
	}}
	vn.Annotations = map[string]string{names.Withdrawn: policy.CleanText(hostile.Text, policy.MaxForeignMessage)}
	node := wantedNode(nodeFacts{
		virtualNode: vn, provider: answers, ip: netip.MustParseAddr("10.0.0.1"), port: 10250, kubernetesVersion: "v1.35.4", now: time.Now(),
		misbehaves: &multicluster.Misbehaviour{Reason: "Budget", Message: hostile.Text}, metricsMissing: &errNoMetrics{"MetricAgentFails", hostile.Text},
	})
	checks := hostile.Nothing(node.Status)
	text := hostile.Short(policy.MaxForeignMessage + 100)
	maps.Copy(checks, map[string]hostile.Rule{
		"NodeStatus.Capacity": hostile.AtMost(64, hostile.Amounts), "NodeStatus.Allocatable": hostile.AtMost(64, hostile.Amounts),
		"NodeStatus.Conditions": hostile.AtMost(7), "NodeCondition.Type": hostile.OneOf("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "PeerMisbehaves", "MetricsAvailable", "ResourceSliceWithdrawn"),
		"NodeCondition.Status": hostile.OneOf("True", "False"), "NodeCondition.LastHeartbeatTime": hostile.Moment, "NodeCondition.LastTransitionTime": hostile.Moment,
		"NodeCondition.Reason": hostile.Short(policy.MaxForeignReason), "NodeCondition.Message": text,
		"NodeStatus.Addresses": hostile.AtMost(1), "NodeAddress.Type": hostile.OneOf("InternalIP"), "NodeAddress.Address": hostile.OneOf("10.0.0.1"),
		"DaemonEndpoint.Port": hostile.Between(10250, 10250), "NodeSystemInfo.KubeletVersion": hostile.OneOf("v1.35.4"),
		"NodeSystemInfo.OperatingSystem": hostile.OneOf("linux"), "NodeSystemInfo.Architecture": hostile.OneOf("amd64"),
	})
	hostile.Check(t, node.Status, checks)
	for key, want := range map[string]string{
		corev1.LabelHostname: "milan", names.NodeType: names.NodeTypeVirtualNode, names.RemoteClusterID: "milan", corev1.LabelNodeExcludeBalancers: "true", corev1.LabelTopologyZone: "north",
		"node-role.kubernetes.io/control-plane": "", "topology.ebs.csi.aws.com/zone": "",
	} {
		if got, exists := node.Labels[key]; got != want || exists && want == "" {
			t.Errorf("the label %s is %q", key, got)
		}
	}
	if len(node.Annotations) > 0 || len(node.Spec.Taints) != 2 || node.Spec.PodCIDR+node.Spec.ProviderID != "" {
		t.Errorf("annotations %v, spec %+v", node.Annotations, node.Spec)
	}

	// One field that the API server refuses would keep all others from following.
	c := testkit.Cluster(t, testkit.WithControllers("root-ca-certificate-publisher-controller"))
	node.Name = testkit.Namespace(t, c, "hostile", nil)
	status := node.Status
	testkit.Create(t, c.Client, node)
	node.Status = status
	if err := c.Client.Status().Update(t.Context(), node); err != nil {
		t.Error(err)
	}
}

func few[V any](key string, _ V) bool { return len(key) > 5 && len(key) < 100 }

// How a provider reaches its Services and Ingresses, and what it writes into their copies, is its own affair.
func TestHostileCopies(t *testing.T) {
	s := newTestEnv(t, nil)
	s.run()
	service, ingress := serviceOf(s.local, "shop"), ingressOf(s.local, "shop")
	service.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.create(s.consumer, service)
	s.create(s.consumer, ingress)
	for _, status := range []string{
		`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.66"}]},"conditions":[{"type":"Loot","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
		`{"metadata":{"labels":{"loot":"x"},"annotations":{"loot":"x"},"finalizers":["loot.example/x"]},"status":{"loadBalancer":{"ingress":[{"hostname":"loot.example"}]}}}`,
	} {
		remoteService := eventually(s, s.provider, serviceOf(s.remoteNamespace, "shop"), exists)
		s.patchStatus(s.provider, remoteService, status)
	}
	remoteIngress := eventually(s, s.provider, ingressOf(s.remoteNamespace, "shop"), exists)
	s.patchStatus(s.provider, remoteIngress, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.66"},{"hostname":"loot.example"}]}}}`)
	s.patch(s.provider, remoteIngress, `{"metadata":{"labels":{"loot":"x"},"annotations":{"loot":"x"}},"spec":{"rules":[{"host":"loot.example"}]}}`)
	s.patch(s.provider, serviceOf(s.remoteNamespace, "shop"), `{"metadata":{"labels":{"loot":"x"},"annotations":{"loot":"x"}},"spec":{"externalIPs":["192.0.2.66"],"sessionAffinity":"ClientIP"}}`)
	// What is written here next arrives after what was done there.
	s.patch(s.consumer, service, `{"metadata":{"labels":{"sign":"x"}}}`)
	s.patch(s.consumer, ingress, `{"metadata":{"labels":{"sign":"x"}}}`)
	eventually(s, s.provider, serviceOf(s.remoteNamespace, "shop"), signed[*corev1.Service])
	eventually(s, s.provider, ingressOf(s.remoteNamespace, "shop"), signed[*networkingv1.Ingress])
	s.after("later")
	nowService, nowIngress := eventually(s, s.consumer, serviceOf(s.local, "shop"), exists), eventually(s, s.consumer, ingressOf(s.local, "shop"), exists)
	for _, diff := range []string{
		cmp.Diff(service.ObjectMeta, nowService.ObjectMeta), cmp.Diff(service.Spec, nowService.Spec), cmp.Diff(service.Status, nowService.Status),
		cmp.Diff(ingress.ObjectMeta, nowIngress.ObjectMeta), cmp.Diff(ingress.Spec, nowIngress.Spec), cmp.Diff(ingress.Status, nowIngress.Status),
	} {
		if diff != "" {
			t.Errorf("it came home:\n%s", diff)
		}
	}
}

func signed[T client.Object](obj T) error {
	if obj.GetLabels()["sign"] == "" {
		return errors.New("what was written last is not there yet")
	}
	return nil
}
