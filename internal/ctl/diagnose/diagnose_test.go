// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	certv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/deploy"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func ofChart(name, version string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-" + name, Labels: map[string]string{names.AppPartOf: "liqo", names.AppName: name, names.AppVersion: version}}
}

func ofMilan(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "tenant", Name: name, Labels: map[string]string{names.RemoteClusterID: "milan"}}
}

func offloaded(node, cpu string, phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{Status: corev1.PodStatus{Phase: phase}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
	}}}}
}

// withKubelet returns a Ready node whose kubelet has a version.
func withKubelet(name, version string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions, n.Status.NodeInfo.KubeletVersion = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}, version
	return n
}

// ofConsumer returns a pod of a consumer in this cluster.
func ofConsumer(id, creator, cpu string) corev1.Pod {
	pod := offloaded("worker", cpu, corev1.PodRunning)
	pod.Labels = map[string]string{names.OffloadingOrigin: id, names.CreatorUser: creator}
	return pod
}

// offloadedTo returns the offloading of a namespace to milan, with conditions.
func offloadedTo(namespace string, conditions ...offv1beta1.RemoteNamespaceCondition) offv1beta1.NamespaceOffloading {
	return offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "offloading"}, Status: offv1beta1.NamespaceOffloadingStatus{
		RemoteNamespacesConditions: map[string]offv1beta1.RemoteNamespaceConditions{"milan": append([]offv1beta1.RemoteNamespaceCondition{{Type: offv1beta1.NamespaceOffloadingRequired, Status: corev1.ConditionTrue}}, conditions...)},
	}}
}

// lines returns findings as "<severity> <object>: <message>".
func lines(all []Finding) (out []string) {
	for _, f := range all {
		out = append(out, fmt.Sprintf("%s %s: %s", f.Severity, f.Object, f.Message))
		if f.Page == "" || f.Object == "" {
			out = append(out, "incomplete")
		}
	}
	return out
}

func TestRules(t *testing.T) {
	manager := appsv1.Deployment{ObjectMeta: ofChart("controller-manager", "v1.3.0")}
	alone := *manager.DeepCopy()
	alone.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"--enable-leader-election=false"}}}
	fabric := appsv1.DaemonSet{ObjectMeta: ofChart("fabric", "v1.3.0"), Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 1}}
	lease := func(name string, ago time.Duration) coordinationv1.Lease {
		return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: name}, Spec: coordinationv1.LeaseSpec{
			LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NewMicroTime(now.Add(-ago))),
		}}
	}
	lasting := func(l coordinationv1.Lease) coordinationv1.Lease {
		l.Spec.LeaseDurationSeconds = new(int32(480))
		return l
	}
	node := func(name, address, kernel string, status corev1.ConditionStatus) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Addresses = []corev1.NodeAddress{{Address: address}}
		n.Status.NodeInfo.KernelVersion = kernel
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: "KubeletNotReady", Message: "why"}}
		return n
	}
	network := func(name, cidr, kind string) ipamv1alpha1.Network {
		return ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: name, Labels: map[string]string{names.NetworkType: kind}},
			Status: ipamv1alpha1.NetworkStatus{CIDR: networkingv1beta1.CIDR(cidr)}}
	}
	request := func(name string, certificate []byte, condition certv1.RequestConditionType, ago time.Duration) certv1.CertificateSigningRequest {
		return certv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: certv1.CertificateSigningRequestStatus{
			Certificate: certificate, Conditions: []certv1.CertificateSigningRequestCondition{{Type: condition, Message: "why", LastUpdateTime: metav1.NewTime(now.Add(-ago))}},
		}}
	}
	failed := request("a", nil, certv1.CertificateApproved, time.Hour)
	failed.Status.Conditions = append(failed.Status.Conditions, certv1.CertificateSigningRequestCondition{Type: certv1.CertificateFailed, Message: "the key is too short"})
	api := func(namespace, status string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "v1beta1.metrics.liqo.io"}, "spec": map[string]any{"service": map[string]any{"namespace": namespace}},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": status, "reason": "MissingEndpoints", "message": "none"}}},
		}}
	}
	cilium := func(settings map[string]string) []corev1.ConfigMap {
		return []corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: policy.CiliumConfig}, Data: settings}}
	}
	leaving := ofMilan("leaving")
	leaving.DeletionTimestamp, leaving.Finalizers = new(metav1.NewTime(now.Add(-time.Hour))), []string{"liqo.io/x"}
	milan := []liqov1beta1.ForeignCluster{{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: "milan"}}}
	greedy := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "turin"}, Status: liqov1beta1.ForeignClusterStatus{Conditions: []liqov1beta1.Condition{tooMuch}}}
	connected := &liqov1beta1.ForeignCluster{Spec: liqov1beta1.ForeignClusterSpec{ClusterID: "milan"}}
	connected.Status.Modules.Networking.Enabled = true
	account := func(namespace, name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}
	}
	server := func(addresses ...string) networkingv1beta1.GatewayServer {
		s := networkingv1beta1.GatewayServer{ObjectMeta: ofMilan("gw"), Status: networkingv1beta1.GatewayServerStatus{Endpoint: &networkingv1beta1.EndpointStatus{Addresses: addresses, Port: 32133}}}
		s.Spec.Endpoint.ServiceType = corev1.ServiceTypeNodePort
		return s
	}
	keys := []networkingv1beta1.PublicKey{{ObjectMeta: ofMilan("key"), Spec: networkingv1beta1.PublicKeySpec{PublicKey: []byte("x")}}}
	for name, tc := range map[string]struct {
		facts Facts
		find  func(*Facts) []Finding
		want  []string
	}{
		"versions/equal":    {Facts{CLIVersion: "v1.3.1", Deployments: []appsv1.Deployment{manager}, DaemonSets: []appsv1.DaemonSet{fabric}}, (*Facts).FindVersions, nil},
		"versions/own_tool": {Facts{CLIVersion: "v1.5.0", Deployments: []appsv1.Deployment{manager}}, (*Facts).FindVersions, []string{"warning liqoctl: its version is v1.5.0, that of the installed Liqo v1.3.0"}},
		"versions/mixed": {Facts{Deployments: []appsv1.Deployment{manager, {ObjectMeta: ofChart("proxy", "v1.2.0")}}}, (*Facts).FindVersions,
			[]string{"failed Deployment liqo/liqo-proxy: its version is v1.2.0, that of the controller-manager v1.3.0"}},
		"leases/renewed":     {Facts{Now: now, Deployments: []appsv1.Deployment{manager}, Leases: []coordinationv1.Lease{lease("liqo-controller-manager", 20*time.Second)}}, (*Facts).FindLeases, nil},
		"leases/of_users":    {Facts{Now: now, Deployments: []appsv1.Deployment{manager}, Leases: []coordinationv1.Lease{lease("volume-move", time.Hour)}}, (*Facts).FindLeases, nil},
		"leases/no_election": {Facts{Now: now, Deployments: []appsv1.Deployment{alone}, Leases: []coordinationv1.Lease{lease("liqo-controller-manager", time.Hour)}}, (*Facts).FindLeases, nil},
		"leases/stale": {Facts{Now: now, Deployments: []appsv1.Deployment{manager}, Leases: []coordinationv1.Lease{lease("liqo-controller-manager", time.Hour)}}, (*Facts).FindLeases,
			[]string{"failed Lease liqo/liqo-controller-manager: no process has led for 1h0m0s"}},
		"apis/available":   {Facts{Namespace: "liqo", APIServices: []unstructured.Unstructured{api("liqo", "True"), api("other", "False")}}, (*Facts).FindAPIServices, nil},
		"apis/unavailable": {Facts{Namespace: "liqo", APIServices: []unstructured.Unstructured{api("liqo", "False")}}, (*Facts).FindAPIServices, []string{"failed APIService v1beta1.metrics.liqo.io: MissingEndpoints: none"}},
		"clock/equal":      {Facts{Skew: 20 * time.Second}, (*Facts).FindSkew, nil},
		"clock/ahead":      {Facts{Skew: time.Minute}, (*Facts).FindSkew, []string{"warning API server: its clock is 1m0s ahead of the one of this machine"}},
		"clock/far_behind": {Facts{Skew: -time.Hour}, (*Facts).FindSkew, []string{"failed API server: its clock is 1h0m0s behind the one of this machine"}},
		"version/old":      {Facts{ServerVersion: "v1.20.0", VersionProblem: "too old"}, (*Facts).FindVersion, []string{"failed API server v1.20.0: too old"}},
		"nodes/fine":       {Facts{Nodes: []corev1.Node{node("a", "192.0.2.1", "6.1.0-13-amd64", "True"), node("b", "192.0.2.2", "strange", "True")}}, (*Facts).FindNodes, nil},
		"nodes/bad": {Facts{Nodes: []corev1.Node{node("a", "192.0.2.1", "4.18.0", "False")}}, (*Facts).FindNodes,
			[]string{"warning Node a: it is not Ready: KubeletNotReady: why", "failed Node a: its kernel 4.18.0 is older than 5.10.0"}},
		"signing/works": {Facts{Now: now, Requests: []certv1.CertificateSigningRequest{request("a", []byte("x"), certv1.CertificateApproved, time.Hour), request("b", nil, certv1.CertificateApproved, time.Minute)}}, (*Facts).FindSigning, nil},
		"signing/fails": {Facts{Now: now, Requests: []certv1.CertificateSigningRequest{request("a", nil, certv1.CertificateApproved, time.Hour), request("b", nil, certv1.CertificateFailed, 0)}}, (*Facts).FindSigning,
			[]string{"failed CertificateSigningRequest a: approved 1h0m0s ago, and not signed", "failed CertificateSigningRequest b: Failed: why"}},
		"ranges/disjoint": {Facts{Nodes: []corev1.Node{node("a", "192.0.2.1", "", "True")}, Networks: []ipamv1alpha1.Network{
			network("pod", "10.200.0.0/16", names.NetworkTypePod), network("nodes", "192.0.2.0/24", names.NetworkTypeReserved), network("asked", "", ""),
		}}, (*Facts).FindRanges, nil},
		"ranges/overlap": {Facts{Nodes: []corev1.Node{node("a", "10.70.0.1", "", "True")}, Networks: []ipamv1alpha1.Network{
			network("pod", "10.70.0.0/16", names.NetworkTypePod), network("external", "10.70.128.0/17", names.NetworkTypeExternal),
		}}, (*Facts).FindRanges, []string{"failed Network liqo/pod: 10.70.0.0/16 has the address 10.70.0.1 of Node a", "failed Network liqo/external: 10.70.128.0/17 overlaps 10.70.0.0/16 of Network liqo/pod"}},
		"preflight/dual_stack": {Facts{Nodes: []corev1.Node{node("a", "192.0.2.1", "", "True")}, Preflight: Preflight{PodCIDRs: []string{"10.244.0.0/16", "fd00:1::/56"}, ServiceCIDR: "10.96.0.0/12, fd00::/112"}},
			(*Facts).FindClusterRanges, nil},
		"preflight/node_in_second_range": {Facts{Nodes: []corev1.Node{node("a", "fd00::7", "", "True")}, Preflight: Preflight{PodCIDRs: []string{"10.244.0.0/16"}, ServiceCIDR: "10.96.0.0/12,fd00::/112"}},
			(*Facts).FindClusterRanges, []string{"failed Node a: its address fd00::7 is in fd00::/112, a range of pods or Services"}},
		"preflight/no_range":        {Facts{Preflight: Preflight{PodCIDRs: []string{"10.244.0.0/16"}, ServiceCIDR: "10.96.0.0/12,x"}}, (*Facts).FindClusterRanges, []string{`failed cluster: "x" is no address range`}},
		"internal_nodes/no_network": {Facts{Namespace: "liqo", Nodes: []corev1.Node{node("a", "192.0.2.1", "", "True")}}, (*Facts).FindInternalNodes, nil},
		"internal_nodes/missing": {Facts{Namespace: "liqo", DaemonSets: []appsv1.DaemonSet{fabric}, Nodes: []corev1.Node{node("a", "", "", "True"), node("b", "", "", "True")},
			InternalNodes: []networkingv1beta1.InternalNode{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}, (*Facts).FindInternalNodes, []string{
			"failed InternalNode a: it has no address", "failed InternalNode b: Node b has no InternalNode",
			"warning DaemonSet liqo/liqo-fabric: it is for 1 of 2 nodes: pods of the others reach no peer",
		}},
		"cni/beside_kube_proxy": {Facts{CNISettings: cilium(map[string]string{"kube-proxy-replacement": "false", "enable-source-ip-verification": "true"})}, (*Facts).FindCNILimits, nil},
		"cni/alone": {Facts{CNISettings: cilium(map[string]string{"kube-proxy-replacement": "true"})}, (*Facts).FindCNILimits,
			[]string{"warning ConfigMap kube-system/cilium-config: Cilium replaces kube-proxy: requests from outside the cluster to NodePorts and load balancers do not reach pods in peers"}},
		"cni/unverified": {Facts{CNISettings: cilium(map[string]string{"enable-source-ip-verification": "false"})}, (*Facts).FindCNILimits,
			[]string{"warning ConfigMap kube-system/cilium-config: Cilium does not verify the sources of pods: a pod can send in the name of a pod of a peer"}},
		"orphans/known": {Facts{Peers: milan, Tenants: []authv1beta1.Tenant{{ObjectMeta: ofMilan("a"), Spec: authv1beta1.TenantSpec{ClusterID: "milan"}}}}, (*Facts).FindUnknownPeers, nil},
		"orphans/unknown": {Facts{Configurations: []networkingv1beta1.Configuration{{ObjectMeta: ofMilan("a")}}, Namespaces: []corev1.Namespace{{ObjectMeta: ofMilan("")}},
			VirtualNodes: []offv1beta1.VirtualNode{{ObjectMeta: ofMilan("vn"), Spec: offv1beta1.VirtualNodeSpec{ClusterID: "turin"}}}}, (*Facts).FindUnknownPeers,
			[]string{"warning Configuration tenant/a: no ForeignCluster milan exists", "warning VirtualNode tenant/vn: no ForeignCluster turin exists"}},
		"deletions/stuck": {Facts{Now: now, Slices: []authv1beta1.ResourceSlice{{ObjectMeta: leaving}}}, (*Facts).FindStuckDeletions,
			[]string{"failed ResourceSlice tenant/leaving: it is being deleted for 1h0m0s, and waits for the finalizers liqo.io/x"}},
		"deletions/slow": {Facts{Now: now.Add(-57 * time.Minute), Slices: []authv1beta1.ResourceSlice{{ObjectMeta: leaving}}}, (*Facts).FindStuckDeletions,
			[]string{"warning ResourceSlice tenant/leaving: it is being deleted for 3m0s, and waits for the finalizers liqo.io/x"}},
		"deletions/begun": {Facts{Now: now.Add(-59 * time.Minute), Slices: []authv1beta1.ResourceSlice{{ObjectMeta: leaving}}}, (*Facts).FindStuckDeletions, nil},
		"tenant/cordoned": {Facts{Tenants: []authv1beta1.Tenant{{ObjectMeta: ofMilan("milan"), Spec: authv1beta1.TenantSpec{ClusterID: "milan", TenantCondition: authv1beta1.TenantConditionCordoned}}}},
			func(f *Facts) []Finding { return f.findAuthentication(&milan[0]) }, []string{"warning Tenant tenant/milan: the Tenant is cordoned"}},
		"peer/misbehaves": {Facts{Peers: []liqov1beta1.ForeignCluster{*greedy}}, func(f *Facts) []Finding { return f.newPeerGroup(greedy, nil).Checks[0].Findings }, []string{
			"failed ForeignCluster turin: TooManyWrites: what it does makes this cluster write too much",
		}},
		"slices/not_judged": {Facts{Slices: []authv1beta1.ResourceSlice{{ObjectMeta: ofMilan("s")}}}, func(f *Facts) []Finding { return f.findSlices(&milan[0]) },
			[]string{"warning ResourceSlice tenant/s: the provider has neither accepted nor denied it"}},
		"slices/endless_message": {Facts{Slices: []authv1beta1.ResourceSlice{{ObjectMeta: ofMilan("s"), Status: authv1beta1.ResourceSliceStatus{Conditions: []authv1beta1.ResourceSliceCondition{{
			Type: authv1beta1.ResourceSliceConditionTypeResources, Status: authv1beta1.ResourceSliceConditionDenied, Message: strings.Repeat("x", 1<<20),
		}}}}}}, func(f *Facts) []Finding { return f.findSlices(&milan[0]) }, []string{"failed ResourceSlice tenant/s: " + strings.Repeat("x", 1021) + "…"}},
		"virtual_nodes/no_node": {Facts{VirtualNodes: []offv1beta1.VirtualNode{{ObjectMeta: ofMilan("vn"), Spec: offv1beta1.VirtualNodeSpec{ClusterID: "milan"},
			Status: offv1beta1.VirtualNodeStatus{Conditions: []offv1beta1.VirtualNodeCondition{{Status: offv1beta1.RunningConditionStatusType}}}}}},
			func(f *Facts) []Finding { return f.findVirtualNodes(&milan[0]) }, []string{"failed Node vn: the Node of the VirtualNode is missing"}},
		"used_up/nearly": {Facts{
			VirtualNodes: []offv1beta1.VirtualNode{{ObjectMeta: ofMilan("vn"), Spec: offv1beta1.VirtualNodeSpec{ClusterID: "milan", ResourceQuota: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("10"),
			}}}}},
			OffloadedPods: []corev1.Pod{offloaded("vn", "1900m", corev1.PodRunning), offloaded("vn", "1", corev1.PodSucceeded), offloaded("other", "1", corev1.PodRunning)},
		}, func(f *Facts) []Finding { return f.findUsedUp(&milan[0]) }, []string{"warning VirtualNode tenant/vn: its pods request 1900m of 2 cpu"}},
		"nodes/kubelets": {Facts{ServerVersion: "v1.37.2", Nodes: []corev1.Node{withKubelet("a", "v1.34.0"), withKubelet("b", "v1.33.9"), withKubelet("c", "v1.38.0"), withKubelet("d", "strange")}}, (*Facts).FindNodes, []string{
			"warning Node b: its kubelet v1.33.9 does not fit the API server v1.37.2", "warning Node c: its kubelet v1.38.0 does not fit the API server v1.37.2",
		}},
		"quotas/cordoned_and_nearly_used_up": {Facts{
			Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "tenant", Labels: map[string]string{names.RemoteClusterID: "milan"}}}},
			Quotas: []offv1beta1.Quota{
				{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "q"}, Spec: offv1beta1.QuotaSpec{User: "slice", Cordoned: new(true), Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}},
				{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "free"}, Spec: offv1beta1.QuotaSpec{User: "free", Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}},
				{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "q"}, Spec: offv1beta1.QuotaSpec{User: "slice", Cordoned: new(true)}},
			},
			ConsumerPods: []corev1.Pod{ofConsumer("milan", "slice", "1900m"), ofConsumer("turin", "slice", "9"), ofConsumer("milan", "free", "1")},
		}, func(f *Facts) []Finding { return f.findQuotas(&milan[0]) }, []string{
			"warning Quota tenant/q: it is cordoned: new pods are refused", "warning Quota tenant/q: pods of the consumer request 1900m of 2 cpu",
		}},
		"mtu/lowered": {Facts{Clients: []networkingv1beta1.GatewayClient{{ObjectMeta: ofMilan("gw")}}, Connections: []networkingv1beta1.Connection{{ObjectMeta: ofMilan("gw"),
			Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected, MTU: 1280}}}}, func(f *Facts) []Finding { return f.findConnection(connected) },
			[]string{"warning Connection tenant/gw: packets of more than 1280 bytes get lost, of 1340 asked for"}},
		"mtu/as_asked": {Facts{Clients: []networkingv1beta1.GatewayClient{{ObjectMeta: ofMilan("gw"), Spec: networkingv1beta1.GatewayClientSpec{MTU: 1280}}}, Connections: []networkingv1beta1.Connection{{ObjectMeta: ofMilan("gw"),
			Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected, MTU: 1280}}}}, func(f *Facts) []Finding { return f.findConnection(connected) }, nil},
		"tunnel/large_packets": {Facts{Clients: []networkingv1beta1.GatewayClient{{ObjectMeta: ofMilan("gw")}}, Connections: []networkingv1beta1.Connection{{ObjectMeta: ofMilan("gw"),
			Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.ConnectionError, Lost: networkingv1beta1.LostLarge, MTU: 1024}}}}, func(f *Facts) []Finding { return f.findConnection(connected) },
			[]string{"failed Connection tenant/gw: large packets are lost in the tunnel"}},
		"orphans/mapping": {Facts{
			Offloadings: []offv1beta1.NamespaceOffloading{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "offloading"}}},
			NamespaceMaps: []offv1beta1.NamespaceMap{
				{ObjectMeta: ofMilan("milan"), Spec: offv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"shop": "shop-rome", "gone": "gone-rome"}}},
				{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "rome", Labels: map[string]string{names.Replicated: "true"}}, Spec: offv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"of-others": "x"}}},
			},
		}, (*Facts).FindUnknownMappings, []string{"warning NamespaceMap tenant/milan: it asks for gone-rome, and the namespace gone is not offloaded"}},
		"orphans/maps": {Facts{Peers: milan, NamespaceMaps: []offv1beta1.NamespaceMap{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "milan"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "turin"}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "rome", Labels: map[string]string{names.Replicated: "true", names.ReplicationOrigin: "oslo"}}},
		}}, (*Facts).FindUnknownPeers, []string{"warning NamespaceMap tenant/turin: no ForeignCluster turin exists", "warning NamespaceMap tenant/rome: no ForeignCluster oslo exists"}},
		"offloaded/refused_and_unprotected": {Facts{Offloadings: []offv1beta1.NamespaceOffloading{
			offloadedTo("shop", offv1beta1.RemoteNamespaceCondition{Type: offv1beta1.NamespaceReady, Status: corev1.ConditionFalse, Reason: "CreationLoopBackOff", Message: "it exists"}),
			offloadedTo("fine", offv1beta1.RemoteNamespaceCondition{Type: offv1beta1.NamespaceReady, Status: corev1.ConditionTrue}),
			offloadedTo("open", offv1beta1.RemoteNamespaceCondition{Type: offv1beta1.NamespaceReady, Status: corev1.ConditionTrue},
				offv1beta1.RemoteNamespaceCondition{Type: offv1beta1.NamespaceNetworkPoliciesEnforced, Status: corev1.ConditionFalse, Reason: "NotEnforced", Message: "why"}),
		}}, func(f *Facts) []Finding { return f.findOffloaded(&milan[0]) }, []string{
			"failed NamespaceOffloading shop/offloading: CreationLoopBackOff: it exists", "warning NamespaceOffloading open/offloading: NotEnforced: why",
		}},
		"orphans/keys_and_quotas": {Facts{Peers: milan, PublicKeys: []networkingv1beta1.PublicKey{{ObjectMeta: ofMilan("known")}, {ObjectMeta: metav1.ObjectMeta{Namespace: "old", Name: "key", Labels: map[string]string{names.RemoteClusterID: "oslo"}}}},
			Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "old", Labels: map[string]string{names.RemoteClusterID: "oslo"}}}},
			Quotas:     []offv1beta1.Quota{{ObjectMeta: metav1.ObjectMeta{Namespace: "old", Name: "q"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "q"}}}}, (*Facts).FindUnknownPeers,
			[]string{"warning PublicKey old/key: no ForeignCluster oslo exists", "warning Quota old/q: no ForeignCluster oslo exists"}},
		"node_clocks/agree": {Facts{Now: now, Nodes: []corev1.Node{node("a", "", "", "True"), node("gone", "", "", "Unknown")}, NodeLeases: []coordinationv1.Lease{lease("a", 10*time.Second), lease("gone", time.Hour)}}, (*Facts).FindNodeClocks, nil},
		"node_clocks/differ": {Facts{Now: now, Nodes: []corev1.Node{node("a", "", "", "True"), node("b", "", "", "True")}, NodeLeases: []coordinationv1.Lease{lease("a", -time.Minute), lease("b", 10*time.Minute)}}, (*Facts).FindNodeClocks, []string{
			"warning Node a: its clock is at least 1m0s ahead of the one of the API server",
			"warning Node b: it is Ready, and renewed its Lease 10m0s ago by its own clock, which is behind the one of the API server",
		}},
		"node_clocks/outage": {Facts{Now: now, Nodes: []corev1.Node{node("a", "", "", "True"), node("b", "", "", "True")}, NodeLeases: []coordinationv1.Lease{lease("a", 3*time.Minute), lease("b", 10*time.Minute)}}, (*Facts).FindNodeClocks, nil},
		"node_clocks/long_leases": {Facts{Now: now, Nodes: []corev1.Node{node("a", "", "", "True"), node("b", "", "", "True"), node("c", "", "", "True")}, NodeLeases: []coordinationv1.Lease{lasting(lease("a", 10*time.Second)), lasting(lease("b", 30*time.Minute)), lasting(lease("c", 40*time.Minute))}}, (*Facts).FindNodeClocks,
			[]string{"warning Node c: it is Ready, and renewed its Lease 40m0s ago by its own clock, which is behind the one of the API server"}},
		"signer/failed":  {Facts{Now: now, Requests: []certv1.CertificateSigningRequest{failed}}, (*Facts).FindSigner, nil},
		"signing/failed": {Facts{Now: now, Requests: []certv1.CertificateSigningRequest{failed}}, (*Facts).FindSigning, []string{"failed CertificateSigningRequest a: Failed: the key is too short"}},
		"signer/unknown": {Facts{Now: now, Requests: []certv1.CertificateSigningRequest{request("a", nil, certv1.CertificateApproved, time.Minute), request("b", nil, certv1.CertificateDenied, time.Hour)}}, (*Facts).FindSigner, nil},
		"signer/works":   {Facts{Now: now, Requests: []certv1.CertificateSigningRequest{request("a", nil, certv1.CertificateApproved, time.Hour), request("b", []byte("x"), certv1.CertificateApproved, 0)}}, (*Facts).FindSigner, nil},
		"signer/silent": {Facts{Now: now, Requests: []certv1.CertificateSigningRequest{request("a", nil, certv1.CertificateApproved, time.Hour), request("b", nil, certv1.CertificateApproved, time.Hour)}}, (*Facts).FindSigner,
			[]string{"warning CertificateSigningRequest a: approved 1h0m0s ago, and not signed"}},
		"bindings/missing": {Facts{Namespace: "liqo", Deployments: []appsv1.Deployment{manager, {ObjectMeta: ofChart("proxy", "v1.3.0")}}, DaemonSets: []appsv1.DaemonSet{fabric}, ClusterBindings: []rbacv1.ClusterRoleBinding{{Subjects: account("other", "default")}},
			Bindings: []rbacv1.RoleBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo"}, Subjects: account("liqo", "default")}}}, (*Facts).FindBindings, []string{
			"failed ServiceAccount liqo/default: no ClusterRoleBinding of the chart gives it rights in the cluster",
			"failed ServiceAccount liqo/default: no RoleBinding of the chart gives it rights in the namespace default",
		}},
		"bindings/there": {Facts{Namespace: "liqo", Deployments: []appsv1.Deployment{manager}, ClusterBindings: []rbacv1.ClusterRoleBinding{{Subjects: account("liqo", "default")}},
			Bindings: []rbacv1.RoleBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo"}, Subjects: account("liqo", "default")}}}, (*Facts).FindBindings, nil},
		"tunnel/down_to_server": {Facts{Clients: []networkingv1beta1.GatewayClient{{ObjectMeta: ofMilan("gw"), Spec: networkingv1beta1.GatewayClientSpec{Endpoint: networkingv1beta1.EndpointStatus{Addresses: []string{"2001:db8::7"}, Port: 32133}}}},
			Connections: []networkingv1beta1.Connection{{ObjectMeta: ofMilan("gw"), Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.ConnectionError}}}}, func(f *Facts) []Finding { return f.findConnection(connected) },
			[]string{"failed Connection tenant/gw: ConnectionError: the tunnel is down, its server is [2001:db8::7]:32133/UDP"}},
		"tunnel/down_to_client": {Facts{Servers: []networkingv1beta1.GatewayServer{server("192.0.2.7")}, Connections: []networkingv1beta1.Connection{{ObjectMeta: ofMilan("gw"), Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.ConnectionError}}}},
			func(f *Facts) []Finding { return f.findConnection(connected) }, []string{"failed Connection tenant/gw: ConnectionError: the tunnel is down, its server is 192.0.2.7:32133/UDP, by a Service of type NodePort in this cluster"}},
		"node_port/of_nodes": {Facts{Servers: []networkingv1beta1.GatewayServer{server("192.0.2.7")}, PublicKeys: keys, Nodes: []corev1.Node{node("a", "192.0.2.7", "", "True")}}, func(f *Facts) []Finding { return f.findGateway(connected) }, nil},
		"node_port/one_lost": {Facts{Servers: []networkingv1beta1.GatewayServer{server("192.0.2.7", "192.0.2.8")}, PublicKeys: keys, Nodes: []corev1.Node{node("a", "192.0.2.7", "", "True")}}, func(f *Facts) []Finding { return f.findGateway(connected) }, []string{"warning GatewayServer tenant/gw: of the addresses of its node port, these are of no node: 192.0.2.8"}},
		"node_port/all_lost": {Facts{Servers: []networkingv1beta1.GatewayServer{server("192.0.2.8")}, PublicKeys: keys, Nodes: []corev1.Node{node("a", "192.0.2.7", "", "True")}}, func(f *Facts) []Finding { return f.findGateway(connected) }, []string{"failed GatewayServer tenant/gw: of the addresses of its node port, these are of no node: 192.0.2.8"}},
		"network/unused": {Facts{}, func(f *Facts) []Finding {
			return append(append(f.findConfiguration(&milan[0]), f.findGateway(&milan[0])...), f.findConnection(&milan[0])...)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, lines(tc.find(&tc.facts))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRangesOfK3s(t *testing.T) {
	for version, want := range map[string]string{"v1.35.4": "pass both: liqoctl install --pod-cidr", "v1.35.4+k3s1": "run: liqoctl install k3s"} {
		f := &Facts{ServerVersion: version, Preflight: Preflight{RangeProblem: "this cluster was not made by kubeadm"}}
		if got := f.FindClusterRanges(); len(got) != 1 || !strings.HasPrefix(got[0].Remedy, want) {
			t.Errorf("%s: %+v", version, got)
		}
	}
}

// tooMuch is the condition of a peer that sends more than a limit.
var tooMuch = liqov1beta1.Condition{Type: liqov1beta1.PeerMisbehaves, Status: liqov1beta1.ConditionError, Reason: "TooManyWrites", Message: "what it does makes this cluster write too much"}

func TestUnreadableFacts(t *testing.T) {
	f := &Facts{Unreadable: map[string]string{"Node": "no rights"}}
	got := f.newCheck("x", func() []Finding { return []Finding{{Severity: Failed}} }, "Pod", "Node")
	if got.Status != Warning || len(got.Findings) != 1 || got.Findings[0].Message != "not checked: no rights" {
		t.Errorf("%+v", got)
	}
	if got := f.newCheck("x", func() []Finding { return []Finding{{Severity: Warning}, {Severity: Failed}, {Severity: Warning}} }); got.Status != Failed {
		t.Errorf("%+v", got)
	}
}

func TestNotes(t *testing.T) {
	f := &Facts{ServerVersion: "v1.37.2", DaemonSets: []appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Name: "kube-flannel-ds"}}, {ObjectMeta: metav1.ObjectMeta{Name: "kube-proxy"}}, {ObjectMeta: metav1.ObjectMeta{Name: "kube-router"}}},
		Connections: []networkingv1beta1.Connection{{ObjectMeta: ofMilan("gw-milan"), Status: networkingv1beta1.ConnectionStatus{Latency: networkingv1beta1.ConnectionLatency{Value: "3ms"}}}},
		Preflight:   Preflight{PodCIDRs: []string{"10.200.0.0/16"}, ServiceCIDR: "10.96.0.0/12"}}
	milan := &liqov1beta1.ForeignCluster{Spec: liqov1beta1.ForeignClusterSpec{ClusterID: "milan"}}
	var notes []string
	for _, g := range append(f.PreGroups(), f.newPeerGroup(milan, nil)) {
		for _, c := range g.Checks {
			if c.Note != "" {
				notes = append(notes, c.Name+": "+c.Note)
			}
		}
	}
	if diff := cmp.Diff([]string{
		"the version of Kubernetes is supported: v1.37.2", "the address ranges are known, and no node is in them: 10.200.0.0/16, 10.96.0.0/12",
		"the CNI is known: flannel, kube-router, see docs/network-reach.md#cnis", "network: the tunnel is connected: 3ms",
	}, notes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRightsOfChart has the roles of the chart, of which FindBindings knows where they are bound. Those of the uninstaller and of virtual kubelets
// are of no workload of the chart.
func TestRightsOfChart(t *testing.T) {
	entries, err := fs.ReadDir(deploy.Chart(), "files/rbac")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, entry := range entries {
		component := strings.TrimSuffix(entry.Name(), ".yaml")
		if component == "pre-delete" || component == "virtual-kubelet" {
			continue
		}
		got[component] = nil
		data, err := fs.ReadFile(deploy.Chart(), "files/rbac/"+component+".yaml")
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(data), "\n---\n") {
			var role rbacv1.ClusterRole
			if err := yaml.Unmarshal([]byte(doc), &role); err != nil {
				t.Fatal(err)
			}
			if role.Kind == "Role" && role.Namespace != "tenant" && role.Namespace != "offloaded" {
				got[component] = append(got[component], role.Namespace)
			}
		}
	}
	if diff := cmp.Diff(rightsOf, got, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
