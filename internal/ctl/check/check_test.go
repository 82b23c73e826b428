// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/deploy"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/test/faults"
)

// fixture is a healthy installation with a healthy peering, in both roles, with milan.
type fixture struct {
	*Gatherer
	*ctltest.Peering
	c    *testkit.ControlPlane
	liqo string

	manager   *appsv1.Deployment
	pod       *corev1.Pod
	fabric    *appsv1.DaemonSet
	mutating  *admissionv1.MutatingWebhookConfiguration
	endpoints *discoveryv1.EndpointSlice
	lease     *coordinationv1.Lease
	external  *ipamv1alpha1.Network
	worker    *corev1.Node
	internal  *networkingv1beta1.InternalNode
	binding   *rbacv1.ClusterRoleBinding
	kubelet   *coordinationv1.Lease
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := testkit.Cluster(t)
	f := &fixture{c: c, liqo: testkit.Namespace(t, c, "liqo", nil)}
	f.Gatherer = &Gatherer{Config: c.Config, Client: c.Client, Reader: c.Client, session: &cluster.Session{Chart: deploy.Chart()}, namespace: f.liqo, clock: &cluster.ServerClock{}}
	one := func(name string) (metav1.ObjectMeta, map[string]string, corev1.PodTemplateSpec) {
		labels := map[string]string{names.AppPartOf: "liqo", names.AppName: name, names.AppComponent: name, names.AppVersion: "v1.2.0"}
		return metav1.ObjectMeta{Namespace: f.liqo, Name: "liqo-" + name, Labels: labels}, labels, corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: "liqo:v1.2.0"}}},
		}
	}
	deployment := func(name string) *appsv1.Deployment {
		meta, labels, template := one(name)
		d := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}
		ctltest.LendWithStatus(t, c, d, func(d *appsv1.Deployment) { d.Status.Replicas, d.Status.ReadyReplicas = 1, 1 })
		return d
	}
	f.manager = deployment("controller-manager")
	deployment("crd-replicator")
	meta, _, template := one("controller-manager-pod")
	f.pod = &corev1.Pod{ObjectMeta: meta, Spec: template.Spec}
	ctltest.LendWithStatus(t, c, f.pod, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	meta, labels, template := one("fabric")
	f.fabric = &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}
	ctltest.LendWithStatus(t, c, f.fabric, func(d *appsv1.DaemonSet) { d.Status.DesiredNumberScheduled, d.Status.CurrentNumberScheduled = 1, 1 })
	f.lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: f.liqo, Name: names.ControllerManager}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: new("one"), LeaseDurationSeconds: new(int32(600)), RenewTime: new(metav1.NowMicro()),
	}}
	ctltest.Lend(t, c, f.lease)
	f.lendBindings(t)
	f.lendWebhook(t)
	for kind, cidr := range map[string]networkingv1beta1.CIDR{names.NetworkTypePod: "10.200.0.0/16", names.NetworkTypeService: "10.80.0.0/16", names.NetworkTypeExternal: "10.70.0.0/16"} {
		n := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: f.liqo, Name: kind, Labels: map[string]string{names.NetworkType: kind}}, Spec: ipamv1alpha1.NetworkSpec{CIDR: cidr}}
		ctltest.LendWithStatus(t, c, n, func(n *ipamv1alpha1.Network) { n.Status.CIDR = cidr })
		if kind == names.NetworkTypeExternal {
			f.external = n
		}
	}
	f.worker = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	ctltest.LendWithStatus(t, c, f.worker, ctltest.ReadyNode("192.0.2.7"))
	f.kubelet = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "worker"}, Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NowMicro())}}
	ctltest.Lend(t, c, f.kubelet)
	f.internal = &networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	f.internal.Spec.Interface.Gateway.Name, f.internal.Spec.Interface.Node.IP = "liqo.fabric", "10.70.0.5"
	ctltest.Lend(t, c, f.internal)
	f.Peering = ctltest.LendPeering(t, c, "milan")
	return f
}

// lendBindings binds the ServiceAccount of the fixture's workloads as the chart binds those of its own.
func (f *fixture) lendBindings(t *testing.T) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: f.liqo, Labels: map[string]string{names.AppPartOf: "liqo"}}
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "none"}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.liqo, Name: "default"}}
	f.binding = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: subjects}
	ctltest.Lend(t, f.c, f.binding)
	for _, namespace := range []string{f.liqo, metav1.NamespaceDefault} {
		b := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: subjects}
		b.Namespace = namespace
		ctltest.Lend(t, f.c, b)
	}
}

// lendWebhook gives the cluster a webhook that answers.
func (f *fixture) lendWebhook(t *testing.T) {
	t.Helper()
	at := admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: f.liqo, Name: names.WebhookConfiguration}, CABundle: f.c.Config.CAData}
	f.mutating = &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: names.WebhookConfiguration}, Webhooks: []admissionv1.MutatingWebhook{{
		Name: names.PodWebhook, ClientConfig: at, SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
	}}}
	ctltest.Lend(t, f.c, f.mutating)
	ctltest.Lend(t, f.c, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: names.WebhookConfiguration}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "tenant.validate.liqo.io", ClientConfig: at, SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
	}}})
	f.endpoints = &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.200.1.2"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}}}
	f.endpoints.Namespace, f.endpoints.Name, f.endpoints.Labels = f.liqo, "liqo-webhook-x", map[string]string{discoveryv1.LabelServiceName: names.WebhookConfiguration}
	ctltest.Lend(t, f.c, f.endpoints)
}

// report returns the report, and all findings of it.
func (f *fixture) report(t *testing.T) (*diagnose.Report, []diagnose.Finding) {
	t.Helper()
	facts, err := f.GatherFacts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := diagnose.NewReport(facts.Groups())
	var all []diagnose.Finding
	for _, g := range r.Groups {
		for _, c := range g.Checks {
			all = append(all, c.Findings...)
		}
	}
	return r, all
}

func TestCheckHealthyPeering(t *testing.T) {
	f := newFixture(t)
	r, all := f.report(t)
	if !r.Healthy || len(all) > 0 {
		t.Errorf("%d failed; %+v", r.Failed, all)
	}
	var groups []string
	for _, g := range r.Groups {
		groups = append(groups, g.Name)
	}
	if diff := cmp.Diff([]string{"kubernetes", "liqo", "network", "peer milan", "orphans"}, groups); diff != "" {
		t.Error(diff)
	}
}

// editStatus returns a fault in the status of an object, edit one in the rest of it.
func editStatus[T client.Object](of func(*fixture) T, change func(T)) func(*testing.T, *fixture) {
	return func(t *testing.T, f *fixture) { testkit.UpdateStatus(t, f.c.Client, of(f), change) }
}

func edit[T client.Object](of func(*fixture) T, change func(T)) func(*testing.T, *fixture) {
	return func(t *testing.T, f *fixture) { testkit.Update(t, f.c.Client, of(f), change) }
}

// notTrue returns a condition with a reason and a message.
func notTrue(kind, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}}
}

// TestCheckNodeClock has a kubelet whose clock is ahead.
func TestCheckNodeClock(t *testing.T) {
	f := newFixture(t)
	testkit.Update(t, f.c.Client, f.kubelet, func(l *coordinationv1.Lease) { l.Spec.RenewTime = new(metav1.NewMicroTime(time.Now().Add(time.Hour))) })
	if _, all := f.report(t); len(all) != 1 || all[0].Object != "Node worker" || !strings.Contains(all[0].Message, "ahead of the one of the API server") {
		t.Errorf("found %+v", all)
	}
}

func TestCheckFaults(t *testing.T) {
	module := func(m func(*liqov1beta1.ForeignCluster) *liqov1beta1.Module, kind liqov1beta1.ConditionType, reason string) func(*testing.T, *fixture) {
		return editStatus(func(f *fixture) *liqov1beta1.ForeignCluster { return f.ForeignCluster }, func(fc *liqov1beta1.ForeignCluster) {
			m(fc).Conditions = []liqov1beta1.Condition{{Type: kind, Status: liqov1beta1.ConditionNotReady, Reason: reason, Message: "why", LastTransitionTime: metav1.Now()}}
		})
	}
	authentication := func(fc *liqov1beta1.ForeignCluster) *liqov1beta1.Module { return &fc.Status.Modules.Authentication }
	networking := func(fc *liqov1beta1.ForeignCluster) *liqov1beta1.Module { return &fc.Status.Modules.Networking }
	injected := map[string]struct {
		inject func(t *testing.T, f *fixture)
		// The object, a word of the message, a word of the remedy, and the anchor.
		object, message, remedy, anchor string
	}{
		"crashing pod": {editStatus(func(f *fixture) *corev1.Pod { return f.pod }, func(p *corev1.Pod) { p.Status.Conditions = nil }),
			"Pod LIQO/liqo-controller-manager-pod", "Ready: 0/1", "log", "begin-here"},
		"deleted workload": {func(t *testing.T, f *fixture) {
			testkit.Update(t, f.c.Client, f.manager, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) })
		}, "Deployment LIQO/liqo-controller-manager", "Pods: 1/2", "install", "begin-here"},
		"mixed versions": {edit(func(f *fixture) *appsv1.DaemonSet { return f.fabric }, func(d *appsv1.DaemonSet) { d.Labels[names.AppVersion] = "v1.1.0" }),
			"DaemonSet LIQO/liqo-fabric", "v1.1.0", "liqoctl install", "begin-here"},
		"webhook without authority": {edit(func(f *fixture) *admissionv1.MutatingWebhookConfiguration { return f.mutating }, func(m *admissionv1.MutatingWebhookConfiguration) {
			m.Webhooks[0].ClientConfig.CABundle = nil
		}), "MutatingWebhookConfiguration liqo-webhook", "no valid authority", "log", "no-valid-authority-in-each-cabundle"},
		"webhook without pods": {edit(func(f *fixture) *discoveryv1.EndpointSlice { return f.endpoints }, func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[0].Conditions.Ready = new(false)
		}), "Service LIQO/liqo-webhook", "does not answer", "pods", "the-webhook-does-not-answer"},
		"binding without subjects": {edit(func(f *fixture) *rbacv1.ClusterRoleBinding { return f.binding }, func(b *rbacv1.ClusterRoleBinding) { b.Subjects = nil }),
			"ServiceAccount LIQO/default", "no ClusterRoleBinding", "liqoctl install", "a-binding-of-liqos-rights-is-missing"},
		"dead leader": {edit(func(f *fixture) *coordinationv1.Lease { return f.lease }, func(l *coordinationv1.Lease) {
			l.Spec.RenewTime = new(metav1.NewMicroTime(time.Now().Add(-time.Hour)))
		}), "Lease LIQO/liqo-controller-manager", "no process has led", "log", "begin-here"},
		"range not granted": {editStatus(func(f *fixture) *ipamv1alpha1.Network { return f.external }, func(n *ipamv1alpha1.Network) { n.Status.CIDR = "" }),
			"Network LIQO/external-cidr", "has no prefix", "log", "the-network-has-no-prefix"},
		"overlapping ranges": {editStatus(func(f *fixture) *ipamv1alpha1.Network { return f.external }, func(n *ipamv1alpha1.Network) { n.Status.CIDR = "10.200.128.0/17" }),
			"overlaps", "10.200.128.0/17", "another prefix", "networkintheway"},
		"range with a node": {editStatus(func(f *fixture) *corev1.Node { return f.worker }, func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.70.3.4" }),
			"Network LIQO/external-cidr", "Node worker", "--reserved-subnets", "networkintheway"},
		"node without InternalNode": {func(t *testing.T, f *fixture) {
			ctltest.LendWithStatus(t, f.c, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "second"}}, func(n *corev1.Node) { n.Status.Conditions = f.worker.Status.Conditions })
		}, "InternalNode second", "no InternalNode", "log", "a-network-an-ip-or-an-internalnode-is-given-nothing"},
		"old kernel": {editStatus(func(f *fixture) *corev1.Node { return f.worker }, func(n *corev1.Node) { n.Status.NodeInfo.KernelVersion = "4.18.0" }),
			"Node worker", "4.18.0", "upgrade", "install.md"},
		"refused credentials": {module(authentication, liqov1beta1.AuthIdentityControlPlaneStatus, "RefusedByPeer"),
			"ForeignCluster milan", "RefusedByPeer: why", "liqoctl authenticate", "refusedbypeer"},
		"silent API server": {module(authentication, liqov1beta1.AuthIdentityControlPlaneStatus, "APIServerNotReady"),
			"ForeignCluster milan", "APIServerNotReady", "API server of the peer", "apiservernotready"},
		"unusable kubeconfig": {module(authentication, liqov1beta1.AuthIdentityControlPlaneStatus, "InvalidKubeconfig"),
			"ForeignCluster milan", "InvalidKubeconfig: why", "liqoctl authenticate", "invalidkubeconfig"},
		"ended certificate": {module(authentication, liqov1beta1.AuthIdentityControlPlaneStatus, "CertificateExpired"),
			"ForeignCluster milan", "CertificateExpired: why", "liqoctl authenticate", "certificateexpired"},
		"wrong signature": {func(t *testing.T, f *fixture) {
			module(authentication, liqov1beta1.AuthTenantStatus, "TenantNotReady")(t, f)
			testkit.UpdateStatus(t, f.c.Client, f.Tenant, func(tenant *authv1beta1.Tenant) {
				tenant.Status.Conditions = notTrue(authv1beta1.TenantReady, "SignatureVerificationFailed", "why")
			})
		}, "Tenant TENANT/milan", "SignatureVerificationFailed: why", "liqoctl authenticate", "signatureverificationfailed"},
		"second Tenant of a cluster": {editStatus(func(f *fixture) *authv1beta1.Tenant { return f.Tenant }, func(tenant *authv1beta1.Tenant) {
			tenant.Status.Conditions = notTrue(authv1beta1.TenantReady, "NotUnique", "why")
		}), "Tenant TENANT/milan", "NotUnique: why", "delete the younger", "notunique"},
		"drained Tenant": {editStatus(func(f *fixture) *authv1beta1.ResourceSlice { return f.ResourceSlice }, func(s *authv1beta1.ResourceSlice) {
			s.Status.Conditions[0].Status, s.Status.Conditions[0].Reason, s.Status.Conditions[0].Message = authv1beta1.ResourceSliceConditionDenied, "TenantDrained", "why"
		}), "ResourceSlice TENANT/milan", "why", "liqoctl activate tenant", "tenantdrained"},
		"distant version": {editStatus(func(f *fixture) *liqov1beta1.ForeignCluster { return f.ForeignCluster }, func(fc *liqov1beta1.ForeignCluster) {
			fc.Status.Modules.Authentication.Conditions = []liqov1beta1.Condition{{Type: liqov1beta1.AuthVersionStatus, Status: liqov1beta1.ConditionError, Reason: "PeerTooOld", Message: "why", LastTransitionTime: metav1.Now()}}
		}), "ForeignCluster milan", "PeerTooOld", "upgrade the peer", "peertooold"},
		"old certificate": {edit(func(f *fixture) *authv1beta1.Identity { return f.Identity }, func(i *authv1beta1.Identity) {
			i.Spec.AuthParams.SignedCRT, _ = ctltest.ExpiredCertificate(t)
		}), "Identity TENANT/controlplane-milan", "ended at", "API server of milan", "the-certificate-of-an-identity-ended-or-was-not-renewed"},
		"no Configuration": {func(t *testing.T, f *fixture) {
			testkit.Update(t, f.c.Client, f.Configuration, func(cfg *networkingv1beta1.Configuration) { cfg.Labels = nil })
		}, "ForeignCluster milan", "NetworkConfigurationMissing", "liqoctl network init", "a-configuration-is-not-ready"},
		"Configuration refused": {editStatus(func(f *fixture) *networkingv1beta1.Configuration { return f.Configuration }, func(cfg *networkingv1beta1.Configuration) {
			cfg.Status.Conditions = notTrue(networkingv1beta1.ConditionNetworkCIDRsConfigured, "UnusableCIDRs", "why")
		}), "Configuration TENANT/milan", "UnusableCIDRs", "condition", "a-configuration-is-not-ready"},
		"gateway without template": {editStatus(func(f *fixture) *networkingv1beta1.GatewayClient { return f.GatewayClient }, func(g *networkingv1beta1.GatewayClient) {
			g.Status.Conditions = notTrue(networkingv1beta1.ConditionGatewayReady, "TemplateNotFound", "why")
		}), "GatewayClient TENANT/milan", "TemplateNotFound", "events", "a-gateway-is-not-ready"},
		"gateway without pods": {module(networking, liqov1beta1.NetworkGatewayClientStatus, "GatewaysNotReady"),
			"ForeignCluster milan", "GatewaysNotReady", "pods of the gateway", "a-gateway-is-not-ready"},
		"gateway without endpoint": {edit(func(f *fixture) *networkingv1beta1.GatewayClient { return f.GatewayClient }, func(g *networkingv1beta1.GatewayClient) {
			g.Spec.Endpoint = networkingv1beta1.EndpointStatus{}
		}), "GatewayClient TENANT/milan", "address of the server", "Service", "a-gateway-is-not-ready"},
		"no key": {edit(func(f *fixture) *networkingv1beta1.PublicKey { return f.PublicKey }, func(k *networkingv1beta1.PublicKey) { k.Labels = nil }),
			"GatewayClient TENANT/milan", "public key", "liqoctl network connect", "a-connection-is-not-connected"},
		"tunnel down": {editStatus(func(f *fixture) *networkingv1beta1.Connection { return f.Connection }, func(c *networkingv1beta1.Connection) {
			c.Status.Value = networkingv1beta1.ConnectionError
		}), "Connection TENANT/gw-milan", "ConnectionError", "UDP", "connectionerror"},
		"nodes without path": {editStatus(func(f *fixture) *networkingv1beta1.Connection { return f.Connection }, func(c *networkingv1beta1.Connection) {
			c.Status.Reach, c.Status.FailedNodes = networkingv1beta1.ReachSome, []string{"worker"}
		}), "Connection TENANT/gw-milan", "worker", "fabric", "connectionofsomenodes"},
		"large packets lost": {editStatus(func(f *fixture) *networkingv1beta1.Connection { return f.Connection }, func(c *networkingv1beta1.Connection) {
			c.Status.Value, c.Status.Lost = networkingv1beta1.ConnectionError, networkingv1beta1.LostLarge
		}), "Connection TENANT/gw-milan", "large packets", "MTU", "error-with-statuslost-large"},
		"denied slice": {editStatus(func(f *fixture) *authv1beta1.ResourceSlice { return f.ResourceSlice }, func(s *authv1beta1.ResourceSlice) {
			s.Status.Conditions[0].Status, s.Status.Conditions[0].Message = authv1beta1.ResourceSliceConditionDenied, "too much\x1b[31m"
		}), "ResourceSlice TENANT/milan", "too much[31m", "Tenant", "a-slice-is-not-accepted"},
		"virtual kubelet not made": {editStatus(func(f *fixture) *offv1beta1.VirtualNode { return f.VirtualNode }, func(vn *offv1beta1.VirtualNode) {
			vn.Status.Conditions[0].Status, vn.Status.Conditions[0].Message = offv1beta1.CreatingConditionStatusType, "why"
		}), "VirtualNode TENANT/milan", "Creating", "virtual kubelet", "the-node-is-not-there-or-not-ready"},
		"virtual node down": {editStatus(func(f *fixture) *corev1.Node { return f.Node }, func(n *corev1.Node) {
			n.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "LiqoNetworkingDown", Message: "why"}
		}), "Node milan", "LiqoNetworkingDown", "conditions", "the-node-is-not-there-or-not-ready"},
		"remote namespace refused": {func(t *testing.T, f *fixture) {
			nso := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace(t, f.c, "shop", nil), Name: "offloading"}}
			ctltest.LendWithStatus(t, f.c, nso, func(nso *offv1beta1.NamespaceOffloading) {
				nso.Status.RemoteNamespacesConditions = map[string]offv1beta1.RemoteNamespaceConditions{"milan": {
					{Type: offv1beta1.NamespaceOffloadingRequired, Status: corev1.ConditionTrue}, {Type: offv1beta1.NamespaceReady, Status: corev1.ConditionFalse, Reason: "CreationLoopBackOff", Message: "it exists"},
				}}
			})
		}, "/offloading", "it exists", "message", "creationloopbackoff"},
		"slices without Tenant": {func(t *testing.T, f *fixture) {
			s := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "left", Labels: map[string]string{names.Replicated: "true", names.ReplicationOrigin: "turin"}}}
			ctltest.Lend(t, f.c, s)
		}, "Tenant of turin", "no Tenant but 1", "liqoctl force unpeer turin", "the-consumer-has-no-tenant-and-still-has-resourceslices-here"},
		"node of a lost VirtualNode": {func(t *testing.T, f *fixture) {
			ctltest.Lend(t, f.c, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lost", Labels: map[string]string{names.NodeType: names.NodeTypeVirtualNode}}})
		}, "Node lost", "without a VirtualNode", "kubectl delete node lost", "a-virtualnode-stays-although-it-is-deleted"},
	}
	for _, fault := range faults.All {
		tc, known := injected[fault.Name]
		if fault.Command == "check" && (!known || !strings.HasPrefix(tc.object, fault.Object+" ") || !strings.Contains(tc.remedy, fault.Remedy) || !strings.HasSuffix(fault.Page, "#"+tc.anchor)) {
			t.Errorf("%q is not injected as it is listed", fault.Name)
		}
	}
	for name, tc := range injected {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			f := newFixture(t)
			tc.inject(t, f)
			r, all := f.report(t)
			object := strings.NewReplacer("LIQO", f.liqo, "TENANT", f.Namespace).Replace(tc.object)
			if !slices.ContainsFunc(all, func(found diagnose.Finding) bool {
				return strings.Contains(found.Object+" "+found.Message, object) && strings.Contains(found.Message, tc.message) && strings.Contains(found.Remedy, tc.remedy) &&
					strings.HasSuffix(found.Page, tc.anchor) && found.Severity == diagnose.Failed
			}) || r.Healthy {
				t.Errorf("healthy is %t, %s is not found: %+v", r.Healthy, object, all)
			}
			if len(all) > 2 {
				t.Errorf("one fault has %d findings: %+v", len(all), all)
			}
		})
	}
}

// The first report is unhealthy; the fault is mended while the command waits.
func TestCheckWaits(t *testing.T) {
	f := newFixture(t)
	broken := editStatus(func(f *fixture) *networkingv1beta1.Connection { return f.Connection }, func(c *networkingv1beta1.Connection) { c.Status.Value = networkingv1beta1.ConnectionError })
	broken(t, f)
	o := &options{namespace: f.liqo, wait: time.Minute}
	mended := false
	ctx := kube.WithProgress(t.Context(), func(missing string) {
		if mended || !strings.Contains(missing, "1 of ") {
			return
		}
		mended = true
		testkit.UpdateStatus(t, f.c.Client, f.Connection, func(c *networkingv1beta1.Connection) { c.Status.Value = networkingv1beta1.Connected })
		testkit.Update(t, f.c.Client, f.lease, func(l *coordinationv1.Lease) { l.Spec.RenewTime = new(metav1.NowMicro()) }) // as leaders do
	})
	if r, err := o.waitForReport(ctx, f.Gatherer); err != nil || !r.Healthy || !mended {
		t.Errorf("%v: %+v", err, r)
	}
	broken(t, f)
	o.wait = 10 * time.Second
	if r, err := o.waitForReport(t.Context(), f.Gatherer); err != nil || r.Failed != 1 {
		t.Errorf("at the end of the time: %v: %+v", err, r)
	}
}

func TestCheckBeforeInstallation(t *testing.T) {
	f := newFixture(t)
	o := &options{pre: true}
	f.Gatherer.namespace = "nothing-is-here"
	statuses := func() map[string]string {
		t.Helper()
		r, err := o.newReport(t.Context(), f.Gatherer)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for _, g := range r.Groups {
			for _, c := range g.Checks {
				all[c.Name] = string(c.Status)
				for _, found := range c.Findings {
					all[c.Name] += " " + found.Object + ": " + found.Message
				}
			}
		}
		return all
	}
	const rights, other, ranges, balancers = "you may install", "no other Liqo is in the way", "the address ranges are known, and no node is in them", "load balancers get addresses"
	got := statuses()
	want := map[string]string{"the version of Kubernetes is supported": "passed", "the clocks of nodes agree": "passed", "a signer answers requests for certificates": "passed",
		"the clocks agree": "passed", "nodes are ready, with a supported kernel": "passed",
		rights: "passed", other: "passed", balancers: "passed", "the CNI is known": "passed",
		ranges: "warning cluster: this cluster was not made by kubeadm: kube-system has neither a kube-controller-manager pod nor a ConfigMap kubeadm-config"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	ctltest.Lend(t, f.c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"}, Data: map[string]string{
		"ClusterConfiguration": "networking: {podSubnet: 192.0.2.0/24, serviceSubnet: 10.96.0.0/12}",
	}})
	ctltest.Lend(t, f.c, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: f.liqo, Name: "web"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}})
	ctltest.Lend(t, f.c, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.liqo, Name: "liqo-route", Labels: map[string]string{names.AppPartOf: "liqo"}}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "ghcr.io/liqotech/fabric:v1.0.0"}}}},
	}})
	ctltest.Lend(t, f.c, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.liqo, Name: "cilium"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}},
	}})
	ctltest.Lend(t, f.c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.liqo, Name: policy.CiliumConfig}, Data: map[string]string{"kube-proxy-replacement": "true"}})
	f.Gatherer.namespace = f.liqo
	of, err := cluster.NewClientOf(t.Context(), f.c.User(t, "reader-of-"+f.liqo))
	if err != nil {
		t.Fatal(err)
	}
	got = statuses()
	for name, want := range map[string]string{
		other:              "failed cluster: this cluster runs liqotech's Liqo, which cannot be upgraded to this one: DaemonSet " + f.liqo + "/liqo-route Namespace " + f.liqo + ": Liqo v1.2.0 is installed",
		ranges:             "failed Node worker: its address 192.0.2.7 is in 192.0.2.0/24, a range of pods or Services",
		balancers:          "warning Service " + f.liqo + "/web: it waits for an address, and no load balancer has one",
		"the CNI is known": "warning ConfigMap " + f.liqo + "/cilium-config: Cilium replaces kube-proxy: requests from outside the cluster to NodePorts and load balancers do not reach pods in peers",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	f.Gatherer.Reader, f.Gatherer.Client = of, of
	if got := statuses(); !strings.HasPrefix(got[rights], "failed user: you are not allowed to ") || !strings.HasPrefix(got[other], "warning other installations: not checked: ") {
		t.Errorf("of a user without rights: %v", got)
	}
}

// A user who may not list a kind is told so; what could be read is checked.
func TestCheckUnreadable(t *testing.T) {
	f := newFixture(t)
	user := f.c.User(t, "check-nobody")
	of, err := cluster.NewClientOf(t.Context(), user)
	if err != nil {
		t.Fatal(err)
	}
	f.Gatherer.Reader, f.Gatherer.Client = of, of
	r, all := f.report(t)
	if !r.Healthy || r.Warned < 10 || !slices.ContainsFunc(all, func(found diagnose.Finding) bool {
		return found.Object == "Node" && strings.Contains(found.Message, "not checked: ") && strings.HasSuffix(found.Page, "#is-forbidden-or-you-are-not-allowed-to")
	}) {
		t.Errorf("%d failed, %d warned: %+v", r.Failed, r.Warned, all)
	}
}

func TestReportText(t *testing.T) {
	r := diagnose.NewReport([]diagnose.Group{{Name: "liqo", Checks: []diagnose.Check{
		diagnose.NewCheck("leaders renew their Leases", nil),
		diagnose.NewCheck("nodes are ready", []diagnose.Finding{{Severity: diagnose.Warning, Object: "Node a", Message: "it is not Ready", Remedy: "see its kubelet", Page: "docs/install.md"}}),
		diagnose.NewCheck("the tunnel is connected", []diagnose.Finding{{Severity: diagnose.Failed, Object: "Connection t/gw", Message: "down\x1b[2J", Page: "docs/info.md"}}),
	}}})
	var stdout bytes.Buffer
	printReport(ui.NewPrinter(strings.NewReader(""), &stdout, &bytes.Buffer{}), r)
	want := `liqo
----
√ leaders renew their Leases
‼ nodes are ready
    Node a: it is not Ready
      → see its kubelet
      see docs/install.md
× the tunnel is connected
    Connection t/gw: down[2J
      see docs/info.md

`
	if diff := cmp.Diff(want, stdout.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var document bytes.Buffer
	if err := cluster.PrintDocument(&document, r, "yaml"); err != nil {
		t.Fatal(err)
	}
	wantDocument := `failed: 1
groups:
- checks:
  - name: leaders renew their Leases
    status: passed
  - findings:
    - message: it is not Ready
      object: Node a
      page: docs/install.md
      remedy: see its kubelet
      severity: warning
    name: nodes are ready
    status: warning
  - findings:
    - message: "down\e[2J"
      object: Connection t/gw
      page: docs/info.md
      severity: failed
    name: the tunnel is connected
    status: failed
  name: liqo
healthy: false
warnings: 1
`
	if diff := cmp.Diff(wantDocument, document.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
