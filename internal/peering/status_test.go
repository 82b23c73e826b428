// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/pki"
)

// summary is a status in one line for each thing it says.
func summary(s liqov1beta1.ForeignClusterStatus) []string {
	out := []string{"role " + string(s.Role)}
	add := func(what, value string) {
		if value != "" {
			out = append(out, what+" "+value)
		}
	}
	add("api", s.APIServerURL)
	add("proxy", s.ForeignProxyURL)
	add("local", s.TenantNamespace.Local)
	add("remote", s.TenantNamespace.Remote)
	for _, m := range []struct {
		name string
		liqov1beta1.Module
	}{{"networking", s.Modules.Networking}, {"authentication", s.Modules.Authentication}, {"offloading", s.Modules.Offloading}} {
		if m.Enabled {
			out = append(out, m.name)
		}
		for _, c := range m.Conditions {
			out = append(out, fmt.Sprintf("%s %s %s (%s)", m.name, c.Type, c.Status, c.Reason))
		}
	}
	return out
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "tenant", Name: name} }

func aged(name string, second int64, leaving bool) metav1.ObjectMeta {
	m := meta(name)
	m.CreationTimestamp = metav1.Unix(second, 0)
	if leaving {
		m.DeletionTimestamp = new(metav1.Unix(second, 0))
	}
	return m
}

func in(namespace string, m metav1.ObjectMeta) metav1.ObjectMeta {
	m.Namespace = namespace
	return m
}

func configuration(namespace string, second int64, refused string) networkingv1beta1.Configuration {
	c := networkingv1beta1.Configuration{ObjectMeta: in(namespace, aged("milan", second, false))}
	c.Labels = map[string]string{names.RemoteClusterID: "milan"}
	if refused != "" {
		c.Status.Conditions = []metav1.Condition{{Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionFalse, Reason: refused}}
	}
	return c
}

func tenant(policy authv1beta1.AuthzPolicy, namespace string) authv1beta1.Tenant {
	return authv1beta1.Tenant{
		Spec:   authv1beta1.TenantSpec{ClusterID: "milan", AuthzPolicy: &policy},
		Status: authv1beta1.TenantStatus{TenantNamespace: namespace},
	}
}

func judged(t authv1beta1.Tenant, status metav1.ConditionStatus, reason string) authv1beta1.Tenant {
	t.Status.Conditions = []metav1.Condition{{Type: authv1beta1.TenantReady, Status: status, Reason: reason, Message: "because"}}
	return t
}

func identity(secret string) authv1beta1.Identity {
	i := authv1beta1.Identity{ObjectMeta: meta("controlplane-milan"), Spec: authv1beta1.IdentitySpec{
		Type: authv1beta1.ControlPlaneIdentityType, Namespace: new("at-milan"),
		AuthParams: authv1beta1.AuthParams{APIServer: "https://milan:6443", ProxyURL: new("http://proxy:8118")},
	}}
	if secret != "" {
		i.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: secret}
	}
	return i
}

func identityThrough(proxy string) authv1beta1.Identity {
	i := identity("kubeconfig-controlplane-milan")
	i.Spec.AuthParams.ProxyURL = &proxy
	return i
}

// remapped gives an Identity another address of a proxy in the tunnel.
func remapped(i authv1beta1.Identity, configured string) authv1beta1.Identity {
	i.Status.TunnelProxy = &authv1beta1.TunnelProxy{ConfiguredURL: configured, URL: "http://10.42.0.9:8118"}
	return i
}

func identityUntil(t *testing.T, end time.Time) authv1beta1.Identity {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		t.Fatal(err)
	}
	i := identity("kubeconfig")
	i.Spec.AuthParams.SignedCRT = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return i
}

func credentials(t *testing.T) corev1.Secret {
	t.Helper()
	return credentialsThrough(t, "")
}

func credentialsThrough(t *testing.T, proxy string) corev1.Secret {
	t.Helper()
	kubeconfig, err := pki.Kubeconfig{Server: "https://by-hand:6443", ProxyURL: proxy, Token: "token", Cluster: "milan", User: "rome"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	s := corev1.Secret{ObjectMeta: meta("cplane-secret"), Data: map[string][]byte{"kubeconfig": kubeconfig}}
	s.Annotations = map[string]string{"liqo.io/remote-tenant-namespace": "at-milan"}
	return s
}

func answer(s liqov1beta1.ConditionStatus, reason, message string) *liqov1beta1.Condition {
	return &liqov1beta1.Condition{Type: liqov1beta1.APIServerStatus, Status: s, Reason: reason, Message: message}
}

func deployment(name string, replicas, ready int32) map[types.NamespacedName]*appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: meta(name), Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
	d.Generation, d.Status.ObservedGeneration = 2, 2
	d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.UnavailableReplicas = replicas, ready, replicas-ready
	return map[types.NamespacedName]*appsv1.Deployment{{Namespace: "tenant", Name: name}: d}
}

func node(ready corev1.ConditionStatus) corev1.Node {
	return corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
}

// misbehaving is a ready node whose provider reached a bound, or did so before.
func misbehaving(now corev1.ConditionStatus) corev1.Node {
	out := node("True")
	out.Name = "a"
	out.Status.Conditions = append(out.Status.Conditions, corev1.NodeCondition{Type: "PeerMisbehaves", Status: now, Reason: "WriteBudget", Message: "too many bytes"})
	return out
}

func TestMisbehaviourOfNodes(t *testing.T) {
	v := peerView{nodes: []corev1.Node{node("True"), misbehaving("False"), misbehaving("True")}}
	want := newCondition(liqov1beta1.PeerMisbehaves, liqov1beta1.ConditionError, "WriteBudget", "virtual node a: too many bytes")
	if got := v.misbehaviour(); got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	v.nodes = v.nodes[:2]
	if got := v.misbehaviour(); got != nil {
		t.Errorf("what is over is there: %+v", got)
	}
}

func TestStatus(t *testing.T) {
	hand := credentials(t)
	answers := answer(liqov1beta1.ConditionEstablished, "APIServerReady", "the API server answers")
	from := []string{"role Provider", "api https://milan:6443", "proxy http://proxy:8118", "local tenant", "remote at-milan", "authentication"}
	identityIs := func(status string) []string {
		return append(slices.Clone(from), "authentication AuthIdentityControlPlaneStatus "+status)
	}
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	up := networkingv1beta1.GatewayServerStatus{InternalEndpoint: &networkingv1beta1.InternalGatewayEndpoint{IP: new(networkingv1beta1.IP("10.200.1.9"))}}
	for _, c := range []struct {
		rule     string
		view     peerView
		disabled Disabled
		want     []string
	}{
		{rule: "nothing known", want: []string{"role Unknown"}},
		{
			rule: "a tenant makes a consumer",
			view: peerView{tenants: []authv1beta1.Tenant{tenant("TolerateNoHandshake", "here")}},
			want: []string{"role Consumer", "local here", "authentication", "authentication AuthTenantStatus Ready (TenantReady)"},
		},
		{
			rule: "a tenant that must shake hands waits for credentials",
			view: peerView{tenants: []authv1beta1.Tenant{tenant("KeysExchange", "here")}},
			want: []string{"role Consumer", "local here", "authentication", "authentication AuthTenantStatus NotReady (TenantNotReady)"},
		},
		{
			rule: "a tenant without namespace is not ready, and the labelled namespace is shown",
			view: peerView{tenants: []authv1beta1.Tenant{tenant("TolerateNoHandshake", "")}, namespaces: []string{"any-name"}},
			want: []string{"role Consumer", "local any-name", "authentication", "authentication AuthTenantStatus NotReady (TenantNotReady)"},
		},
		{
			rule: "a tenant that is refused says why",
			view: peerView{tenants: []authv1beta1.Tenant{judged(tenant("KeysExchange", ""), metav1.ConditionFalse, "SignatureVerificationFailed")}},
			want: []string{"role Consumer", "authentication", "authentication AuthTenantStatus NotReady (SignatureVerificationFailed)"},
		},
		{
			rule: "a drained tenant has its namespace and is granted nothing",
			view: peerView{tenants: []authv1beta1.Tenant{judged(tenant("TolerateNoHandshake", "here"), metav1.ConditionFalse, "TenantDrained")}},
			want: []string{"role Consumer", "local here", "authentication", "authentication AuthTenantStatus NotReady (TenantDrained)"},
		},
		{
			rule: "a cordoned tenant keeps what it has",
			view: peerView{tenants: []authv1beta1.Tenant{judged(tenant("TolerateNoHandshake", "here"), metav1.ConditionTrue, "TenantCordoned")}},
			want: []string{"role Consumer", "local here", "authentication", "authentication AuthTenantStatus Ready (TenantReady)"},
		},
		{
			rule: "credentials made by hand make a provider, and wait for its answer",
			view: peerView{secrets: []corev1.Secret{hand}},
			want: []string{
				"role Provider", "api https://by-hand:6443", "local tenant", "remote at-milan", "authentication",
				"authentication AuthIdentityControlPlaneStatus Pending (APIServerNotAsked)",
			},
		},
		{
			rule: "credentials made by hand are ready when the peer takes them",
			view: peerView{secrets: []corev1.Secret{hand}, answer: answer(liqov1beta1.ConditionEstablished, "APIServerReady", "the API server answers")},
			want: []string{
				"role Provider", "api https://by-hand:6443", "local tenant", "remote at-milan", "authentication",
				"authentication AuthIdentityControlPlaneStatus Ready (IdentityReady)",
			},
		},
		{
			rule: "a peer that answers may refuse them",
			view: peerView{secrets: []corev1.Secret{hand}, answer: answer(liqov1beta1.ConditionEstablished, "APIServerReady", peer.RefusesCalls+"Unauthorized")},
			want: []string{
				"role Provider", "api https://by-hand:6443", "local tenant", "remote at-milan", "authentication",
				"authentication AuthIdentityControlPlaneStatus NotReady (RefusedByPeer)",
			},
		},
		{
			rule: "credentials for a peer that does not answer are not ready",
			view: peerView{secrets: []corev1.Secret{hand}, answer: answer(liqov1beta1.ConditionError, "APIServerNotReady", "connection refused")},
			want: []string{
				"role Provider", "api https://by-hand:6443", "local tenant", "remote at-milan", "authentication",
				"authentication AuthIdentityControlPlaneStatus NotReady (APIServerNotReady)",
			},
		},
		{
			rule: "the password of a proxy in a kubeconfig is not shown",
			view: peerView{secrets: []corev1.Secret{credentialsThrough(t, "http://user:secret@proxy:8118")}},
			want: []string{"role Provider", "api https://by-hand:6443", "proxy http://proxy:8118", "local tenant", "remote at-milan", "authentication",
				"authentication AuthIdentityControlPlaneStatus Pending (APIServerNotAsked)"},
		},
		{
			rule: "the password of a proxy in an Identity is not shown",
			view: peerView{identities: []authv1beta1.Identity{identityThrough("https://user:secret@proxy:8118")}, answer: answers},
			want: []string{
				"role Provider", "api https://milan:6443", "proxy https://proxy:8118", "local tenant", "remote at-milan", "authentication",
				"authentication AuthIdentityControlPlaneStatus Ready (IdentityReady)",
			},
		},
		{
			rule: "a proxy in the tunnel is shown with its present address",
			view: peerView{identities: []authv1beta1.Identity{remapped(identityThrough("http://10.71.0.9:8118"), "http://10.71.0.9:8118")}, answer: answers},
			want: []string{
				"role Provider", "api https://milan:6443", "proxy http://10.42.0.9:8118", "local tenant", "remote at-milan", "authentication",
				"authentication AuthIdentityControlPlaneStatus Ready (IdentityReady)",
			},
		},
		{
			rule: "an Identity that changed its proxy has none in the tunnel for now",
			view: peerView{identities: []authv1beta1.Identity{remapped(identityThrough("http://proxy:8118"), "http://10.71.0.9:8118")}, answer: answers},
			want: []string{
				"role Provider", "api https://milan:6443", "proxy http://proxy:8118", "local tenant", "remote at-milan", "authentication",
				"authentication AuthIdentityControlPlaneStatus Ready (IdentityReady)",
			},
		},
		{
			rule: "a proxy that is not a URL is not shown, for it may be a password",
			view: peerView{identities: []authv1beta1.Identity{identityThrough("user:secret@proxy:8118")}, answer: answers},
			want: []string{
				"role Provider", "api https://milan:6443", "local tenant", "remote at-milan", "authentication",
				"authentication AuthIdentityControlPlaneStatus Ready (IdentityReady)",
			},
		},
		{
			rule: "an unreadable kubeconfig has no address and is not ready",
			view: peerView{secrets: []corev1.Secret{{ObjectMeta: meta("x"), Data: map[string][]byte{"kubeconfig": []byte("?")}}}},
			want: []string{"role Provider", "local tenant", "authentication", "authentication AuthIdentityControlPlaneStatus NotReady (InvalidKubeconfig)"},
		},
		{
			rule: "an identity says more than its Secret",
			view: peerView{identities: []authv1beta1.Identity{identity("kubeconfig-controlplane-milan")}, secrets: []corev1.Secret{hand}, answer: answers},
			want: []string{
				"role Provider", "api https://milan:6443", "proxy http://proxy:8118", "local tenant", "remote at-milan", "authentication",
				"authentication AuthIdentityControlPlaneStatus Ready (IdentityReady)",
			},
		},
		{
			rule: "an identity waits for the answer of the peer",
			view: peerView{identities: []authv1beta1.Identity{identity("kubeconfig")}},
			want: identityIs("Pending (APIServerNotAsked)"),
		},
		{
			rule: "an identity that the peer refuses is of no use: so it is once the Tenant there is deleted",
			view: peerView{identities: []authv1beta1.Identity{identity("kubeconfig")}, answer: answer(liqov1beta1.ConditionEstablished, "APIServerReady", peer.RefusesCalls+"forbidden")},
			want: identityIs("NotReady (RefusedByPeer)"),
		},
		{
			rule: "nor is one for a peer that does not answer",
			view: peerView{identities: []authv1beta1.Identity{identity("kubeconfig")}, answer: answer(liqov1beta1.ConditionError, "APIServerNotReady", "connection refused")},
			want: identityIs("NotReady (APIServerNotReady)"),
		},
		{
			rule: "an identity whose certificate ended is of no use, whatever was answered to it before",
			view: peerView{identities: []authv1beta1.Identity{identityUntil(t, noon)}, answer: answers, now: noon},
			want: identityIs("NotReady (CertificateExpired)"),
		},
		{
			rule: "until then it is",
			view: peerView{identities: []authv1beta1.Identity{identityUntil(t, noon)}, answer: answers, now: noon.Add(-time.Second)},
			want: identityIs("Ready (IdentityReady)"),
		},
		{
			rule: "an identity without kubeconfig is not ready; with a tenant the peer is both",
			view: peerView{identities: []authv1beta1.Identity{identity("")}, tenants: []authv1beta1.Tenant{tenant("TolerateNoHandshake", "here")}},
			want: []string{
				"role ConsumerAndProvider", "api https://milan:6443", "proxy http://proxy:8118", "local tenant", "remote at-milan", "authentication",
				"authentication AuthTenantStatus Ready (TenantReady)", "authentication AuthIdentityControlPlaneStatus NotReady (IdentityNotReady)",
			},
		},
		{
			rule: "a virtual node whose kubelet and node are ready",
			view: peerView{
				virtualNodes: []offv1beta1.VirtualNode{{ObjectMeta: meta("a")}},
				deployments:  deployment("vk-a", 1, 1), nodes: []corev1.Node{node("True")},
			},
			want: []string{
				"role Provider", "offloading", "offloading OffloadingVirtualNodeStatus Ready (VirtualNodesReady)",
				"offloading OffloadingNodeStatus Ready (NodesReady)",
			},
		},
		{
			rule: "a virtual node whose provider reached a bound",
			view: peerView{
				virtualNodes: []offv1beta1.VirtualNode{{ObjectMeta: meta("a")}},
				deployments:  deployment("vk-a", 1, 1), nodes: []corev1.Node{misbehaving("True")},
			},
			want: []string{
				"role Provider", "offloading", "offloading OffloadingVirtualNodeStatus Ready (VirtualNodesReady)",
				"offloading OffloadingNodeStatus Ready (NodesReady)", "offloading PeerMisbehaves Error (WriteBudget)",
			},
		},
		{
			rule: "no kubelet is not a ready kubelet",
			view: peerView{virtualNodes: []offv1beta1.VirtualNode{{ObjectMeta: meta("a")}}},
			want: []string{
				"role Provider", "offloading", "offloading OffloadingVirtualNodeStatus NotReady (VirtualNodesNotReady)",
				"offloading OffloadingNodeStatus NotReady (NodesNotReady)",
			},
		},
		{
			rule: "one of two, and a node that is not wanted",
			view: peerView{
				virtualNodes: []offv1beta1.VirtualNode{{ObjectMeta: meta("a")}, {ObjectMeta: meta("b"), Spec: offv1beta1.VirtualNodeSpec{CreateNode: new(false)}}},
				deployments:  deployment("vk-b", 1, 1), nodes: []corev1.Node{node("True"), node("Unknown")},
			},
			want: []string{
				"role Provider", "offloading", "offloading OffloadingVirtualNodeStatus SomeNotReady (VirtualNodesSomeNotReady)",
				"offloading OffloadingNodeStatus Ready (NodesReady)",
			},
		},
		{
			rule: "a network that is being made",
			view: peerView{servers: []networkingv1beta1.GatewayServer{{ObjectMeta: meta("server")}}},
			want: []string{
				"role Unknown", "networking", "networking NetworkConfigurationStatus NotReady (NetworkConfigurationMissing)",
				"networking NetworkGatewayPresence Ready (GatewayPresence)", "networking NetworkGatewayServerStatus NotReady (GatewaysNotReady)",
				"networking NetworkConnectionStatus NotReady (ConnectionMissing)",
			},
		},
		{
			rule: "a network that is up on one of two replicas",
			view: peerView{
				configurations: []networkingv1beta1.Configuration{{}}, clients: []networkingv1beta1.GatewayClient{{ObjectMeta: meta("client")}},
				deployments: deployment("gw-client", 2, 1), connections: []networkingv1beta1.Connection{{Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected}}},
			},
			want: []string{
				"role Unknown", "networking", "networking NetworkConfigurationStatus Ready (NetworkConfigurationPresence)",
				"networking NetworkGatewayPresence Ready (GatewayPresence)", "networking NetworkGatewayClientStatus SomeNotReady (GatewaysSomeNotReady)",
				"networking NetworkConnectionStatus Established (ConnectionEstablished)",
			},
		},
		{
			rule: "a tunnel that is being established",
			view: peerView{connections: []networkingv1beta1.Connection{{Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connecting}}}},
			want: []string{
				"role Unknown", "networking", "networking NetworkConfigurationStatus NotReady (NetworkConfigurationMissing)",
				"networking NetworkGatewayPresence NotReady (GatewayMissing)", "networking NetworkConnectionStatus Pending (ConnectionPending)",
			},
		},
		{
			rule: "a tunnel that is down",
			view: peerView{connections: []networkingv1beta1.Connection{{Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.ConnectionError}}}},
			want: []string{
				"role Unknown", "networking", "networking NetworkConfigurationStatus NotReady (NetworkConfigurationMissing)",
				"networking NetworkGatewayPresence NotReady (GatewayMissing)", "networking NetworkConnectionStatus Error (ConnectionError)",
			},
		},
		{
			rule: "a tunnel that some nodes do not reach",
			view: peerView{connections: []networkingv1beta1.Connection{{Status: networkingv1beta1.ConnectionStatus{
				Value: networkingv1beta1.ConnectionError, Reach: networkingv1beta1.ReachSome, FailedNodes: []string{"worker"},
			}}}},
			want: []string{
				"role Unknown", "networking", "networking NetworkConfigurationStatus NotReady (NetworkConfigurationMissing)",
				"networking NetworkGatewayPresence NotReady (GatewayMissing)", "networking NetworkConnectionStatus SomeNotReady (ConnectionOfSomeNodes)",
			},
		},
		{
			rule: "a tunnel that no node reaches",
			view: peerView{connections: []networkingv1beta1.Connection{{Status: networkingv1beta1.ConnectionStatus{
				Value: networkingv1beta1.ConnectionError, Reach: networkingv1beta1.ReachNone, FailedNodes: []string{"worker"},
			}}}},
			want: []string{
				"role Unknown", "networking", "networking NetworkConfigurationStatus NotReady (NetworkConfigurationMissing)",
				"networking NetworkGatewayPresence NotReady (GatewayMissing)", "networking NetworkConnectionStatus Error (ConnectionOfNoNode)",
			},
		},
		{
			rule: "of several the first that stays counts, of gateways the first that runs",
			view: peerView{
				tenants: []authv1beta1.Tenant{
					{ObjectMeta: aged("leaving", 1, true), Status: authv1beta1.TenantStatus{TenantNamespace: "of-leaving"}},
					{ObjectMeta: aged("later", 3, false), Status: authv1beta1.TenantStatus{TenantNamespace: "of-later"}},
					{ObjectMeta: aged("first", 2, false), Status: authv1beta1.TenantStatus{TenantNamespace: "of-first"}},
				},
				servers: []networkingv1beta1.GatewayServer{
					{ObjectMeta: aged("stopped", 1, false)}, {ObjectMeta: aged("later", 3, false), Status: up}, {ObjectMeta: aged("first", 2, false), Status: up},
				},
				deployments: deployment("gw-first", 1, 1),
				connections: []networkingv1beta1.Connection{
					{ObjectMeta: aged("gw-stopped", 1, false), Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.ConnectionError}},
					{ObjectMeta: aged("gw-later", 3, false), Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connecting}},
					{ObjectMeta: aged("gw-first", 4, false), Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected}},
				},
			},
			want: []string{
				"role Consumer", "local of-first", "networking", "networking NetworkConfigurationStatus NotReady (NetworkConfigurationMissing)",
				"networking NetworkGatewayPresence Ready (GatewayPresence)", "networking NetworkGatewayServerStatus Ready (GatewaysReady)",
				"networking NetworkConnectionStatus Established (ConnectionEstablished)", "authentication", "authentication AuthTenantStatus NotReady (TenantNotReady)",
			},
		},
		{
			rule: "gateways outside the namespace of the Configuration that counts lead nowhere",
			view: peerView{
				configurations: []networkingv1beta1.Configuration{configuration("elsewhere", 1, networkingv1beta1.ReasonAnotherConfiguration), configuration("tenant", 2, "")},
				servers: []networkingv1beta1.GatewayServer{
					{ObjectMeta: in("elsewhere", aged("milan", 1, false)), Status: up}, {ObjectMeta: aged("milan", 3, false)},
				},
				clients: []networkingv1beta1.GatewayClient{{ObjectMeta: in("elsewhere", aged("older", 1, false)), Status: networkingv1beta1.GatewayClientStatus{InternalEndpoint: up.InternalEndpoint}}},
				connections: []networkingv1beta1.Connection{
					{ObjectMeta: in("elsewhere", aged("gw-milan", 1, false)), Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connecting}},
					{ObjectMeta: in("elsewhere", aged("gw-older", 1, false)), Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connecting}},
					{ObjectMeta: aged("gw-milan", 3, false), Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected}},
				},
				deployments: deployment("gw-milan", 1, 1),
			},
			want: []string{
				"role Unknown", "networking", "networking NetworkConfigurationStatus Ready (NetworkConfigurationPresence)",
				"networking NetworkGatewayPresence Ready (GatewayPresence)", "networking NetworkGatewayServerStatus Ready (GatewaysReady)",
				"networking NetworkGatewayClientStatus NotReady (GatewaysNotReady)", "networking NetworkConnectionStatus Established (ConnectionEstablished)",
			},
		},
		{
			rule:     "modules that are switched off say nothing",
			view:     peerView{configurations: []networkingv1beta1.Configuration{{}}, secrets: []corev1.Secret{hand}, virtualNodes: []offv1beta1.VirtualNode{{}}},
			disabled: Disabled{Networking: true, Authentication: true, Offloading: true},
			want:     []string{"role Provider", "api https://by-hand:6443", "local tenant", "remote at-milan"},
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			c.view.sortObjects("milan")
			got := c.view.newStatus(3, c.disabled)
			if got.ObservedGeneration != 3 {
				t.Errorf("observedGeneration %d", got.ObservedGeneration)
			}
			if diff := cmp.Diff(c.want, summary(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStatusAtCertificateEnd(t *testing.T) {
	end := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for rule, c := range map[string]struct {
		view peerView
		want time.Duration
	}{
		"a moment after its end":         {peerView{identities: []authv1beta1.Identity{identityUntil(t, end)}, now: end.Add(-time.Hour)}, time.Hour + time.Second},
		"and never again":                {peerView{identities: []authv1beta1.Identity{identityUntil(t, end)}, now: end}, 0},
		"nobody knows when a token ends": {peerView{secrets: []corev1.Secret{credentials(t)}, now: end}, 0},
		"nor what is in no certificate":  {peerView{identities: []authv1beta1.Identity{identity("")}, now: end}, 0},
	} {
		t.Run(rule, func(t *testing.T) {
			if got := c.view.nextCheck(); got != c.want {
				t.Errorf("in %s, want %s", got, c.want)
			}
		})
	}
}

func TestTenantNotReadyReason(t *testing.T) {
	unsigned := judged(tenant("KeysExchange", "here"), metav1.ConditionTrue, "TenantReady")
	unsigned.Status.Conditions = append(unsigned.Status.Conditions, metav1.Condition{
		Type: authv1beta1.TenantCertificateIssued, Status: metav1.ConditionFalse, Reason: "CertificateLate", Message: "no signer signs",
	})
	for want, of := range map[string]authv1beta1.Tenant{
		"because":                         judged(tenant("KeysExchange", ""), metav1.ConditionFalse, "ClusterIDTaken"),
		"the tenant has no namespace yet": tenant("TolerateNoHandshake", ""),
		"the tenant has no credentials yet: CertificateLate: no signer signs": unsigned,
		"the tenant has no credentials yet":                                   tenant("KeysExchange", "here"),
	} {
		if got := tenantStatus(&of).Message; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

func TestPeerVersion(t *testing.T) {
	ours := func(says string) offv1beta1.NamespaceMap {
		return offv1beta1.NamespaceMap{Status: offv1beta1.NamespaceMapStatus{ProviderVersion: says}}
	}
	theirs := func(says string) offv1beta1.NamespaceMap {
		out := ours("of-this-cluster")
		out.Labels, out.Annotations = map[string]string{names.Replicated: "true"}, map[string]string{names.Version: says}
		return out
	}
	for rule, c := range map[string]struct {
		maps []offv1beta1.NamespaceMap
		want string
	}{
		"nobody said":                     {nil, ""},
		"a provider answers":              {[]offv1beta1.NamespaceMap{ours("v1.2.3")}, "v1.2.3"},
		"a provider of before it did not": {[]offv1beta1.NamespaceMap{ours("")}, ""},
		"a consumer tells":                {[]offv1beta1.NamespaceMap{theirs("v1.2.4-rc.1+dirty")}, "v1.2.4-rc.1+dirty"},
		"a consumer of before it did not": {[]offv1beta1.NamespaceMap{theirs("")}, ""},
		"the one that says it":            {[]offv1beta1.NamespaceMap{theirs(""), ours("v2")}, "v2"},
		"what is none is not shown":       {[]offv1beta1.NamespaceMap{theirs("v1\n\x1b[31mHello")}, ""},
		"nor what has no end":             {[]offv1beta1.NamespaceMap{ours(strings.Repeat("1", 64))}, ""},
	} {
		t.Run(rule, func(t *testing.T) {
			v := peerView{namespaceMaps: c.maps}
			if got := v.newStatus(1, Disabled{}).Version; got != c.want {
				t.Errorf("it is %q, want %q", got, c.want)
			}
		})
	}
}

func TestPeerCapabilities(t *testing.T) {
	consumer := offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{names.Replicated: "true"},
		Annotations: map[string]string{names.Version: "v1.2.3", names.Capabilities: "of-tomorrow,bound-nonces,<b>"},
	}}
	provider := offv1beta1.NamespaceMap{Status: offv1beta1.NamespaceMapStatus{ProviderVersion: "v1.2.3", ProviderCapabilities: []string{"bound-nonces", "Hello"}}}
	mute := consumer
	mute.Annotations = map[string]string{names.Capabilities: "bound-nonces"}
	for rule, c := range map[string]struct {
		of   offv1beta1.NamespaceMap
		want []string
	}{
		"a consumer tells, also of what is unknown here": {consumer, []string{"bound-nonces", "of-tomorrow"}},
		"a provider answers":                             {provider, []string{"bound-nonces"}},
		"what has no version says nothing":               {mute, nil},
	} {
		t.Run(rule, func(t *testing.T) {
			v := peerView{namespaceMaps: []offv1beta1.NamespaceMap{c.of}}
			if diff := cmp.Diff(c.want, v.newStatus(1, Disabled{}).Capabilities); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Of a direction that ended badly a NamespaceMap may be left that says what was once.
func TestVersionOneFits(t *testing.T) {
	says := func(version string) offv1beta1.NamespaceMap {
		return offv1beta1.NamespaceMap{Status: offv1beta1.NamespaceMapStatus{ProviderVersion: version}}
	}
	for want, all := range map[string][]offv1beta1.NamespaceMap{
		"":           {says("v1.1.0"), says(""), says("v1.2.0")},
		"PeerTooOld": {says(""), says("v1.1.0"), says("v1.0.0")},
	} {
		v := peerView{own: "v1.3.0", namespaceMaps: all}
		if c := v.versionStatus(); (c != nil) != (want != "") || c != nil && c.Reason != want {
			t.Errorf("it is %v, want %q", c, want)
		}
	}
}

func TestVersionCondition(t *testing.T) {
	for _, c := range []struct{ rule, own, peer, want string }{
		{"the same", "v1.3.0", "v1.3.0", ""},
		{"the one before", "v1.3.0", "v1.2.9", ""},
		{"too old", "v1.3.0", "v1.1.0", "authentication AuthVersionStatus Error (PeerTooOld)"},
		{"too new", "v1.3.0", "v1.5.0", "authentication AuthVersionStatus Error (PeerTooNew)"},
		{"says nothing", "v1.3.0", "", ""},
		{"a build in between", "v1.3.0", "764a8d4", ""},
		{"we are one", "dev", "v1.1.0", ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			v := peerView{own: c.own, tenants: []authv1beta1.Tenant{{ObjectMeta: meta("tenant")}}}
			v.namespaceMaps = []offv1beta1.NamespaceMap{{Status: offv1beta1.NamespaceMapStatus{ProviderVersion: c.peer}}}
			want := []string{"role Consumer", "authentication", "authentication AuthTenantStatus NotReady (TenantNotReady)"}
			if c.want != "" {
				want = append(want, c.want)
			}
			status := v.newStatus(1, Disabled{})
			if diff := cmp.Diff(want, summary(status)); diff != "" {
				t.Error(diff)
			}
			if refused := peer.VersionRefused(&liqov1beta1.ForeignCluster{Status: status}); (refused != nil) != (c.want != "") {
				t.Errorf("others read of it %v", refused)
			}
		})
	}
}

func TestKeepTimes(t *testing.T) {
	before, now := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	have := liqov1beta1.Modules{Authentication: liqov1beta1.Module{Conditions: []liqov1beta1.Condition{
		{Type: liqov1beta1.AuthTenantStatus, Status: liqov1beta1.ConditionReady, LastTransitionTime: before},
		{Type: liqov1beta1.AuthIdentityControlPlaneStatus, Status: liqov1beta1.ConditionNotReady, LastTransitionTime: before},
	}}}
	want := liqov1beta1.Modules{Authentication: liqov1beta1.Module{Conditions: []liqov1beta1.Condition{
		{Type: liqov1beta1.AuthTenantStatus, Status: liqov1beta1.ConditionReady},
		{Type: liqov1beta1.AuthIdentityControlPlaneStatus, Status: liqov1beta1.ConditionReady},
	}}}
	keepTimes(&want, have, now)
	got := []metav1.Time{want.Authentication.Conditions[0].LastTransitionTime, want.Authentication.Conditions[1].LastTransitionTime}
	if !slices.Equal(got, []metav1.Time{before, now}) {
		t.Errorf("times %v: the same status keeps its time, another one gets a new one", got)
	}
}

func TestAbout(t *testing.T) {
	tenants := func(namespace string) liqov1beta1.ClusterID {
		return map[string]liqov1beta1.ClusterID{"tenant": "milan"}[namespace]
	}
	labelled := metav1.ObjectMeta{Namespace: "elsewhere", Labels: map[string]string{"liqo.io/remote-cluster-id": "turin"}}
	for _, c := range []struct {
		rule string
		obj  client.Object
		want string
	}{
		{"a label names the peer", &networkingv1beta1.Configuration{ObjectMeta: labelled}, "turin"},
		{"else the namespace does", &authv1beta1.ResourceSlice{ObjectMeta: meta("test")}, "milan"},
		{"a spec that names it too counts as well", &authv1beta1.Tenant{ObjectMeta: labelled, Spec: authv1beta1.TenantSpec{ClusterID: "milan"}}, "milan turin"},
		{"an object of nobody", &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere"}}, ""},
		{"an ordinary node is no peer's", &corev1.Node{ObjectMeta: labelled}, ""},
		{"credentials count in their peer's namespace", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Labels: map[string]string{"liqo.io/remote-cluster-id": "milan"}}}, "milan"},
		{"and in no other", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Labels: map[string]string{"liqo.io/remote-cluster-id": "turin"}}}, ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var got []string
			for _, id := range peersOf(c.obj, tenants) {
				got = append(got, string(id))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q, want %q", strings.Join(got, " "), c.want)
			}
		})
	}
}

// Credentials that are being deleted and are of no use to take back what was copied would wait for ever, and nobody would know for what.
func TestRejectedCredentials(t *testing.T) {
	refused := &liqov1beta1.Condition{Status: liqov1beta1.ConditionEstablished, Message: peer.RefusesCalls + "forbidden"}
	goes, byHand := credentials(t), credentials(t)
	goes.OwnerReferences = []metav1.OwnerReference{{Kind: "Identity", Controller: new(true)}}
	stays := *goes.DeepCopy()
	goes.DeletionTimestamp, byHand.DeletionTimestamp = new(metav1.Now()), new(metav1.Now())
	for name, tc := range map[string]struct {
		view peerView
		want bool
	}{
		"they stay":              {peerView{secrets: []corev1.Secret{stays}, answer: refused}, false},
		"they go":                {peerView{secrets: []corev1.Secret{goes}, answer: refused}, true},
		"they were made by hand": {peerView{secrets: []corev1.Secret{byHand}, answer: refused}, false},
		"an Identity makes more": {peerView{secrets: []corev1.Secret{goes}, identities: make([]authv1beta1.Identity, 1), answer: refused}, false},
	} {
		if got := tc.view.apiServerCondition("").Message; strings.Contains(got, "liqoctl unpeer") != tc.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
