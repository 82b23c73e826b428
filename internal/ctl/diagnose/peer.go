// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
)

// guide is the remedy for the reason of a condition.
type guide struct{ remedy, page string }

// guides are by the reasons of conditions of ForeignClusters, Tenants and ResourceSlices.
var guides = map[string]guide{
	"TenantNotReady":              {"see the conditions of the Tenant", "docs/troubleshooting.md#tenantnotready"},
	"IdentityNotReady":            {"run liqoctl authenticate again", "docs/troubleshooting.md#identitynotready"},
	"CertificateExpired":          {"run liqoctl authenticate again", "docs/troubleshooting.md#certificateexpired"},
	"InvalidKubeconfig":           {"run liqoctl authenticate again", "docs/troubleshooting.md#invalidkubeconfig"},
	"APIServerNotAsked":           {"see the pods of liqo-crd-replicator", "docs/troubleshooting.md#apiservernotasked"},
	"APIServerNotReady":           {"check the API server of the peer, and the way to it", "docs/troubleshooting.md#apiservernotready"},
	"RefusedByPeer":               {"run liqoctl authenticate again, or liqoctl unpeer if the peer ended the peering", "docs/troubleshooting.md#refusedbypeer"},
	"NoCredentials":               {"run liqoctl authenticate again, or liqoctl force unpeer if the peer is gone", "docs/troubleshooting.md#nocredentials"},
	string(peer.PeerTooOld):       {"upgrade the peer", "docs/troubleshooting.md#peertooold"},
	string(peer.PeerTooNew):       {"upgrade this cluster by liqoctl install", "docs/troubleshooting.md#peertoonew"},
	"ConnectionMissing":           {"run liqoctl network connect", "docs/troubleshooting.md#connectionmissing"},
	"ConnectionPending":           {"wait for the handshake, then check the address and port of the server", "docs/troubleshooting.md#connectionpending"},
	"ConnectionError":             {"check that UDP reaches the address and port of the server", "docs/troubleshooting.md#connectionerror"},
	"ConnectionOfSomeNodes":       {"see the fabric of these nodes", "docs/troubleshooting.md#connectionofsomenodes"},
	"ConnectionOfNoNode":          {"see the fabric and the gateway of the peer", "docs/troubleshooting.md#connectionofnonode"},
	"NetworkConfigurationMissing": {"run liqoctl network init", "docs/troubleshooting.md#a-configuration-is-not-ready"},
	"GatewayMissing":              {"run liqoctl network connect", "docs/troubleshooting.md#a-gateway-is-not-ready"},
	"GatewaysNotReady":            {"see the pods of the gateway", "docs/troubleshooting.md#a-gateway-is-not-ready"},
	"VirtualNodesNotReady":        {"see the VirtualNode and the pod of its virtual kubelet: liqoctl check names the fault", pageNode},
	"VirtualNodesSomeNotReady":    {"see the VirtualNode and the pod of its virtual kubelet: liqoctl check names the fault", pageNode},
	"NodesNotReady":               {"see the VirtualNode and its node: liqoctl check names the fault", pageNode},
	"NodesSomeNotReady":           {"see the VirtualNode and its node: liqoctl check names the fault", pageNode},
	"GatewaysSomeNotReady":        {"see the pods of the gateway", "docs/troubleshooting.md#a-gateway-is-not-ready"},

	kube.ReasonAnswerTooLarge: misbehaviourGuide,
	kube.ReasonListTooLarge:   cacheGuide,
	kube.ReasonTooManyObjects: cacheGuide,
	kube.ReasonTooManyWrites:  misbehaviourGuide,
	"TooManyStatuses":         misbehaviourGuide,

	"NonceNotFound":               {"the consumer runs liqoctl authenticate again", "docs/troubleshooting.md#noncenotfound"},
	"NonceUsed":                   {"the consumer runs liqoctl authenticate again", "docs/troubleshooting.md#nonceused"},
	"SignatureVerificationFailed": {"the consumer runs liqoctl authenticate again", "docs/troubleshooting.md#signatureverificationfailed"},
	"InvalidPublicKey":            {"the consumer runs liqoctl authenticate again", "docs/troubleshooting.md#invalidpublickey"},
	"InvalidCSR":                  {"the consumer runs liqoctl authenticate again", "docs/troubleshooting.md#invalidcsr"},
	"TooManyHandshakes":           {"delete the tenant namespace, and peer again", "docs/troubleshooting.md#toomanyhandshakes"},
	"NotUnique":                   {"delete the younger Tenant", "docs/troubleshooting.md#notunique"},
	"ClusterIDTaken":              {"see the object that the message names", "docs/troubleshooting.md#clusteridtaken"},
	"WrongNamespace":              {"create the Tenant in the tenant namespace of the consumer", "docs/troubleshooting.md#wrongnamespace"},

	"ResourceSliceAuthenticationDenied": {"see the Tenant in the provider", "docs/troubleshooting.md#resourcesliceauthenticationdenied"},
	"ResourceSliceResourcesDenied":      {"see the Tenant in the provider", "docs/troubleshooting.md#resourcesliceresourcesdenied"},
	"DefaultResourceSliceClassDisabled": {"ask for another class: liqoctl create resourceslice --class", "docs/troubleshooting.md#defaultresourcesliceclassdisabled"},
	"TenantCordoned":                    {"in the provider, run: liqoctl activate tenant", "docs/troubleshooting.md#tenantcordoned"},
	"TenantDrained":                     {"in the provider, run: liqoctl activate tenant", "docs/troubleshooting.md#tenantdrained"},
}

const pageMisbehaviour = "docs/troubleshooting.md#answertoolarge-listtoolarge-toomanyobjects-toomanywrites-toomanystatuses"

var (
	// misbehaviourGuide is the remedy for a peer that exceeds a limit.
	misbehaviourGuide = guide{"ask the administrator of the peer", pageMisbehaviour}
	// cacheGuide is the remedy for caches: a flag sets the limit of a virtual kubelet; the limit of the crd-replicator is fixed.
	cacheGuide = guide{"ask the administrator of the peer; if the virtual kubelet of a large provider says so, raise its --peer-cache-limit", pageMisbehaviour}
)

// Advise returns what to do about an alert that begins with the reason of a condition, and the part of the documentation; "" if neither is known.
func Advise(alert string) (remedy, page string) {
	reason, _, _ := strings.Cut(alert, ":")
	g := guides[reason]
	return g.remedy, g.page
}

const (
	pageAuthentication = "docs/troubleshooting.md#nothing-is-replicated"
	pageNetwork        = "docs/troubleshooting.md#a-connection-is-not-connected"
	pageConfiguration  = "docs/troubleshooting.md#a-configuration-is-not-ready"
	pageGateway        = "docs/troubleshooting.md#a-gateway-is-not-ready"
	pageApplied        = "docs/troubleshooting.md#what-is-written-is-not-done"
	pageNode           = "docs/troubleshooting.md#the-node-is-not-there-or-not-ready"
	pageSlice          = "docs/troubleshooting.md#a-slice-is-not-accepted"
	pageDeletion       = "docs/troubleshooting.md#deletion-does-not-end"
)

// Unready returns the unhealthy conditions of a module.
func Unready(m liqov1beta1.Module) (all []liqov1beta1.Condition) {
	for _, c := range m.Conditions {
		if m.Enabled && c.Status != liqov1beta1.ConditionEstablished && c.Status != liqov1beta1.ConditionReady {
			all = append(all, c)
		}
	}
	return all
}

// ConditionText returns the message of an unhealthy condition, with the reason. The documentation lists the reasons.
func ConditionText(c liqov1beta1.Condition) string {
	text := cmp.Or(c.Message, fmt.Sprintf("%s is %s", c.Type, c.Status))
	if c.Reason == "" {
		return text
	}
	return c.Reason + ": " + text
}

// ForeignText bounds a text possibly written by a peer.
func ForeignText(text string) string { return policy.CleanLine(text, policy.MaxForeignMessage) }

// newFailure returns a finding that fails the check.
func newFailure(object, message, remedy, page string) Finding {
	return Finding{Severity: Failed, Object: object, Message: ForeignText(message), Remedy: remedy, Page: page}
}

func warningOf(f Finding) Finding {
	f.Severity = Warning
	return f
}

// conditionFailure returns the finding of a condition of a ForeignCluster.
func conditionFailure(fc *liqov1beta1.ForeignCluster, c liqov1beta1.Condition, otherwise guide) Finding {
	advice, known := guides[c.Reason]
	if !known {
		advice = otherwise
	}
	found := newFailure(Ref("ForeignCluster", fc), ConditionText(c), advice.remedy, advice.page)
	if c.Status == liqov1beta1.ConditionPending || c.Status == liqov1beta1.ConditionSomeNotReady {
		return warningOf(found)
	}
	return found
}

// authenticationGuide returns the remedy for a condition of the authentication without a guide for its reason.
func authenticationGuide(kind liqov1beta1.ConditionType) guide {
	if kind == liqov1beta1.AuthTenantStatus {
		return guide{"see the conditions of the Tenant", pageSlice}
	}
	return guide{"see the events of the tenant namespace", pageAuthentication}
}

// findTenants returns denied Tenants of a peer.
func (f *Facts) findTenants(fc *liqov1beta1.ForeignCluster) (all []Finding) {
	for i := range f.Tenants {
		t := &f.Tenants[i]
		if c := apimeta.FindStatusCondition(t.Status.Conditions, authv1beta1.TenantReady); t.Spec.ClusterID == fc.Spec.ClusterID && c != nil && c.Status == metav1.ConditionFalse {
			advice, known := guides[c.Reason]
			if !known {
				advice = guide{"see its condition", pageSlice}
			}
			all = append(all, newFailure(Ref("Tenant", t), c.Reason+": "+c.Message, advice.remedy, advice.page))
		}
	}
	return all
}

// findAuthentication returns the unhealthy conditions of the authentication, a peer that does not answer or refuses calls, and denied or cordoned
// Tenants.
func (f *Facts) findAuthentication(fc *liqov1beta1.ForeignCluster) (all []Finding) {
	all = f.findTenants(fc)
	refused := len(all) > 0
	for _, c := range Unready(fc.Status.Modules.Authentication) {
		if c.Type == liqov1beta1.AuthTenantStatus && refused {
			continue // the Tenant says more
		}
		if c.Type != liqov1beta1.AuthVersionStatus {
			all = append(all, conditionFailure(fc, c, authenticationGuide(c.Type)))
		}
	}
	if trouble := peer.Trouble(fc); trouble != "" && len(all) == 0 {
		all = append(all, newFailure(Ref("ForeignCluster", fc), trouble, "see the events of the tenant namespace", pageAuthentication))
	}
	for i := range f.Tenants {
		if t := &f.Tenants[i]; t.Spec.ClusterID == fc.Spec.ClusterID && t.Spec.TenantCondition != "" && t.Spec.TenantCondition != authv1beta1.TenantConditionActive {
			all = append(all, warningOf(newFailure(Ref("Tenant", t), "the Tenant is "+strings.ToLower(string(t.Spec.TenantCondition)),
				"run: liqoctl activate tenant "+t.Name, "docs/troubleshooting.md#tenantcordoned")))
		}
	}
	return all
}

// findMisbehaviour returns that a peer exceeds a limit, and that the rest is ignored.
func (f *Facts) findMisbehaviour(fc *liqov1beta1.ForeignCluster) []Finding {
	if c := peer.Misbehaviour(fc); c != nil {
		return []Finding{conditionFailure(fc, *c, misbehaviourGuide)}
	}
	return nil
}

// nodeMisbehaviour returns the misbehaviour of the provider that a virtual kubelet reports on the Node.
func nodeMisbehaviour(node string, c corev1.NodeCondition) Finding {
	advice, known := guides[c.Reason]
	if !known {
		advice = misbehaviourGuide
	}
	return newFailure("Node "+node, c.Reason+": "+c.Message, advice.remedy, advice.page)
}

// findVersionGap returns the condition that stops new objects, or a gap not reported yet by the ForeignCluster.
func (f *Facts) findVersionGap(fc *liqov1beta1.ForeignCluster) []Finding {
	if c := peer.VersionRefused(fc); c != nil {
		return []Finding{conditionFailure(fc, *c, guide{"upgrade the older cluster", "docs/troubleshooting.md#versions-do-not-work-together"})}
	}
	return nil
}

// isOf reports whether an object is of the network with a peer.
func isOf(fc *liqov1beta1.ForeignCluster, obj client.Object) bool {
	return obj.GetLabels()[names.RemoteClusterID] == string(fc.Spec.ClusterID)
}

// findFalse returns a finding if a condition exists and is False.
func findFalse(object string, conditions []metav1.Condition, kind, remedy, page string) []Finding {
	c := apimeta.FindStatusCondition(conditions, kind)
	if c == nil || c.Status == metav1.ConditionTrue {
		return nil
	}
	return []Finding{newFailure(object, c.Reason+": "+c.Message, remedy, page)}
}

func (f *Facts) findConfiguration(fc *liqov1beta1.ForeignCluster) (all []Finding) {
	if !fc.Status.Modules.Networking.Enabled {
		return nil
	}
	cfg := peer.Configuration(f.Configurations, fc.Spec.ClusterID)
	if cfg == nil {
		return []Finding{newFailure(Ref("ForeignCluster", fc), "NetworkConfigurationMissing: there is no Configuration for this cluster",
			guides["NetworkConfigurationMissing"].remedy, pageConfiguration)}
	}
	ref := Ref("Configuration", cfg)
	all = findFalse(ref, cfg.Status.Conditions, networkingv1beta1.ConditionNetworkCIDRsConfigured, "see its condition and the Networks beside it", pageConfiguration)
	if len(all) == 0 && cfg.Status.Remote == nil {
		all = append(all, newFailure(ref, "the ranges of the peer have no local prefixes yet", "see the log of liqo-controller-manager", pageConfiguration))
	}
	all = append(all, findFalse(ref, cfg.Status.Conditions, networkingv1beta1.ConditionApplied, "see what the message names", pageApplied)...)
	for i := range f.Configurations {
		if other := &f.Configurations[i]; isOf(fc, other) && other.UID != cfg.UID {
			all = append(all, warningOf(newFailure(Ref("Configuration", other), "is a second one for this peer, and has no effect", "delete it", "docs/troubleshooting.md#anotherconfiguration")))
		}
	}
	return all
}

// gateway is the common part of a GatewayServer and a GatewayClient.
type gateway struct {
	client.Object
	kind       string
	conditions []metav1.Condition
	endpoint   *networkingv1beta1.EndpointStatus
	mtu        int // as asked for, 0 for the default
	// service is the type of the Service of a server.
	service corev1.ServiceType
}

// gatewaysOf returns the gateways to a peer.
func (f *Facts) gatewaysOf(fc *liqov1beta1.ForeignCluster) (all []gateway) {
	for i := range f.Servers {
		if s := &f.Servers[i]; isOf(fc, s) {
			all = append(all, gateway{s, "GatewayServer", s.Status.Conditions, s.Status.Endpoint, s.Spec.MTU, s.Spec.Endpoint.ServiceType})
		}
	}
	for i := range f.Clients {
		if c := &f.Clients[i]; isOf(fc, c) {
			endpoint := &c.Spec.Endpoint
			if len(endpoint.Addresses) == 0 {
				endpoint = c.Status.Endpoint
			}
			all = append(all, gateway{c, "GatewayClient", c.Status.Conditions, endpoint, c.Spec.MTU, ""})
		}
	}
	return all
}

func (f *Facts) findGateway(fc *liqov1beta1.ForeignCluster) (all []Finding) {
	if !fc.Status.Modules.Networking.Enabled {
		return nil
	}
	gateways := f.gatewaysOf(fc)
	if len(gateways) == 0 {
		return []Finding{newFailure(Ref("ForeignCluster", fc), "GatewayMissing: there is no gateway for this cluster", guides["GatewayMissing"].remedy, pageGateway)}
	}
	for _, g := range gateways {
		ref := Ref(g.kind, g)
		found := findFalse(ref, g.conditions, networkingv1beta1.ConditionGatewayReady, "see the condition, the events and the pods of the gateway", pageGateway)
		if len(found) == 0 && (g.endpoint == nil || len(g.endpoint.Addresses) == 0) {
			found = append(found, newFailure(ref, "the address of the server is not known", "see the Service of the server: a load balancer or a node gives the address", pageGateway))
		}
		if len(found) == 0 {
			found = f.findLostNodes(ref, g)
		}
		all = append(all, found...)
		all = append(all, findFalse(ref, g.conditions, networkingv1beta1.ConditionApplied, "see what the message names", pageApplied)...)
		if !slices.ContainsFunc(f.PublicKeys, func(k networkingv1beta1.PublicKey) bool { return isOf(fc, &k) && len(k.Spec.PublicKey) > 0 }) {
			all = append(all, newFailure(ref, "the public key of the peer is missing", "run liqoctl network connect, or create the PublicKey", pageNetwork))
		}
	}
	if len(all) == 0 { // the pods of a gateway without an object of Liqo
		for _, c := range Unready(fc.Status.Modules.Networking) {
			if c.Type == liqov1beta1.NetworkGatewayServerStatus || c.Type == liqov1beta1.NetworkGatewayClientStatus {
				all = append(all, conditionFailure(fc, c, guide{"see the pods of the gateway", pageGateway}))
			}
		}
	}
	return all
}

// findLostNodes returns the addresses of a server on node ports without a node.
func (f *Facts) findLostNodes(ref string, g gateway) []Finding {
	if g.service != corev1.ServiceTypeNodePort || f.Unreadable["Node"] != "" {
		return nil
	}
	remaining := slices.Clone(g.endpoint.Addresses)
	for _, n := range f.realNodes() {
		remaining = slices.DeleteFunc(remaining, func(address string) bool {
			return slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Address == address })
		})
	}
	if len(remaining) == 0 {
		return nil
	}
	found := newFailure(ref, fmt.Sprintf("of the addresses of its node port, these are of no node: %s", strings.Join(remaining, ", ")),
		"see the log of liqo-controller-manager, which replaces them; the client needs the new ones: liqoctl network connect", pageGateway)
	if len(remaining) < len(g.endpoint.Addresses) {
		found = warningOf(found)
	}
	return []Finding{found}
}

func (f *Facts) findConnection(fc *liqov1beta1.ForeignCluster) (all []Finding) {
	if !fc.Status.Modules.Networking.Enabled || len(f.gatewaysOf(fc)) == 0 {
		return nil // the gateway is reported
	}
	seen := false
	for i := range f.Connections {
		c := &f.Connections[i]
		if !isOf(fc, c) {
			continue
		}
		seen = true
		reason, text := "", ""
		switch {
		case c.Status.Lost == networkingv1beta1.LostLarge:
			all = append(all, newLargeLost(c))
		case c.Status.Reach == networkingv1beta1.ReachSome:
			reason, text = "ConnectionOfSomeNodes", "pods of these nodes do not reach the peer: "+strings.Join(c.Status.FailedNodes, ", ")
		case c.Status.Reach == networkingv1beta1.ReachNone:
			reason, text = "ConnectionOfNoNode", "the tunnel is up, and pods of no node reach the peer by it"
		case c.Status.Value == networkingv1beta1.Connecting:
			reason, text = "ConnectionPending", "the tunnel is being established"
		case c.Status.Value != networkingv1beta1.Connected:
			reason, text = "ConnectionError", "the tunnel is down"+f.serverText(fc)
		}
		if reason == "" && c.Status.Lost == "" {
			all = append(all, f.findLoweredMTU(fc, c)...)
		}
		if reason != "" {
			all = append(all, newFailure(Ref("Connection", c), reason+": "+text, guides[reason].remedy, guides[reason].page))
		}
	}
	if !seen {
		all = append(all, newFailure(Ref("ForeignCluster", fc), "ConnectionMissing: there is no Connection with this cluster", guides["ConnectionMissing"].remedy, guides["ConnectionMissing"].page))
	}
	return all
}

// serverText returns ", its server is <address>:<port>/<protocol>" of the tunnel to a peer, with the type of the Service if the server is in this
// cluster; "" if it is not known.
func (f *Facts) serverText(fc *liqov1beta1.ForeignCluster) (text string) {
	for _, g := range f.gatewaysOf(fc) {
		if g.endpoint == nil || len(g.endpoint.Addresses) == 0 {
			continue
		}
		var all []string
		for _, port := range append(slices.Clone(g.endpoint.Ports), g.endpoint.Port) {
			if port != 0 {
				all = append(all, net.JoinHostPort(g.endpoint.Addresses[0], strconv.Itoa(int(port))))
			}
		}
		protocol := corev1.ProtocolUDP
		if g.endpoint.Protocol != nil {
			protocol = *g.endpoint.Protocol
		}
		text += fmt.Sprintf(", its server is %s/%s", strings.Join(all, " "), protocol)
		if g.service != "" {
			text += fmt.Sprintf(", by a Service of type %s in this cluster", g.service)
		}
	}
	return text
}

func newLargeLost(c *networkingv1beta1.Connection) Finding {
	return newFailure(Ref("Connection", c), "large packets are lost in the tunnel", "lower the MTU: liqoctl network connect --mtu 1300", "docs/troubleshooting.md#error-with-statuslost-large")
}

// findLoweredMTU returns that a tunnel has a smaller MTU than configured, since larger packets get lost.
func (f *Facts) findLoweredMTU(fc *liqov1beta1.ForeignCluster, c *networkingv1beta1.Connection) []Finding {
	for _, g := range f.gatewaysOf(fc) {
		if asked := cmp.Or(g.mtu, names.DefaultMTU); c.Status.MTU > 0 && c.Status.MTU < asked {
			return []Finding{warningOf(newFailure(Ref("Connection", c), fmt.Sprintf("packets of more than %d bytes get lost, of %d asked for", c.Status.MTU, asked),
				fmt.Sprintf("mend the link that drops them, or ask for less: liqoctl network connect --mtu %d", c.Status.MTU), "docs/troubleshooting.md#mtulowered"))}
		}
	}
	return nil
}

// findSlices returns denied ResourceSlices, and ResourceSlices not judged yet. Reasons of slices come from the provider.
func (f *Facts) findSlices(fc *liqov1beta1.ForeignCluster) (all []Finding) {
	for i := range f.Slices {
		s := &f.Slices[i]
		if !isOf(fc, s) || s.DeletionTimestamp != nil {
			continue
		}
		judged := false
		for _, c := range s.Status.Conditions {
			judged = judged || c.Type == authv1beta1.ResourceSliceConditionTypeResources
			if c.Status != authv1beta1.ResourceSliceConditionAccepted {
				advice, known := guides[c.Reason]
				if !known {
					advice = guide{"see the Tenant in the provider", pageSlice}
				}
				all = append(all, newFailure(Ref("ResourceSlice", s), cmp.Or(c.Message, fmt.Sprintf("%s is %s", c.Type, c.Status)), advice.remedy, advice.page))
			}
		}
		if !judged {
			all = append(all, warningOf(newFailure(Ref("ResourceSlice", s), "the provider has neither accepted nor denied it", "see whether it is copied to the provider", pageSlice)))
		}
	}
	return all
}

// findVirtualNodes returns VirtualNodes that do not run, and their Nodes that are not Ready.
func (f *Facts) findVirtualNodes(fc *liqov1beta1.ForeignCluster) (all []Finding) {
	for i := range f.VirtualNodes {
		vn := &f.VirtualNodes[i]
		if vn.Spec.ClusterID != fc.Spec.ClusterID || vn.DeletionTimestamp != nil {
			continue
		}
		before := len(all)
		for _, c := range vn.Status.Conditions {
			if c.Status != offv1beta1.RunningConditionStatusType && c.Status != offv1beta1.NoneConditionStatusType {
				all = append(all, newFailure(Ref("VirtualNode", vn), fmt.Sprintf("%s is %s: %s", c.Type, c.Status, cmp.Or(c.Message, c.Reason)), "see its events and the pod of its virtual kubelet", pageNode))
			}
		}
		if len(vn.Status.Conditions) == 0 {
			all = append(all, newFailure(Ref("VirtualNode", vn), "no virtual kubelet was made", "see the events of the VirtualNode", pageNode))
		}
		if create := vn.Spec.CreateNode; len(all) > before || create != nil && !*create {
			continue
		}
		n := slices.IndexFunc(f.Nodes, func(n corev1.Node) bool { return n.Name == vn.Name })
		switch {
		case n < 0:
			all = append(all, newFailure("Node "+vn.Name, "the Node of the VirtualNode is missing", "see the pod of its virtual kubelet", pageNode))
		case !kube.NodeReady(&f.Nodes[n]):
			all = append(all, newFailure("Node "+vn.Name, "the virtual node is not Ready"+whyNotReady(&f.Nodes[n]), "see the conditions of the Node", pageNode))
		case f.Nodes[n].Spec.Unschedulable:
			all = append(all, warningOf(newFailure("Node "+vn.Name, "the virtual node is cordoned", "run: kubectl uncordon "+vn.Name, pageNode)))
		}
		if n < 0 {
			continue
		}
		for _, c := range f.Nodes[n].Status.Conditions {
			if string(c.Type) == string(liqov1beta1.PeerMisbehaves) && c.Status == corev1.ConditionTrue {
				all = append(all, nodeMisbehaviour(vn.Name, c))
			}
		}
	}
	return all
}

// usedUpPercent is the used part of a resource that counts as nearly used up.
const usedUpPercent = 90

// findUsedUp returns nearly used up resources of virtual nodes: further pods stay Pending.
func (f *Facts) findUsedUp(fc *liqov1beta1.ForeignCluster) (all []Finding) {
	for i := range f.VirtualNodes {
		vn := &f.VirtualNodes[i]
		if vn.Spec.ClusterID != fc.Spec.ClusterID {
			continue
		}
		all = append(all, findScarce(Ref("VirtualNode", vn), "its pods", f.usageOf(vn.Name), vn.Spec.ResourceQuota.Hard)...)
	}
	return all
}

// findOffloaded returns namespaces missing in the provider, and the protections that do not apply to pods in the provider.
func (f *Facts) findOffloaded(fc *liqov1beta1.ForeignCluster) (all []Finding) {
	for i := range f.Offloadings {
		s := &Scene{Facts: f, Scope: f.Offloadings[i].Namespace, Offloading: &f.Offloadings[i], Maps: f.NamespaceMaps}
		if slices.Contains(s.selectedProviders(), fc.Spec.ClusterID) {
			all = append(all, s.findRemoteNamespace(fc.Spec.ClusterID)...)
			all = append(all, s.findProtection(fc.Spec.ClusterID)...)
		}
	}
	return all
}

// findQuotas returns Quotas of the consumer that take no pods, or are nearly used up.
func (f *Facts) findQuotas(fc *liqov1beta1.ForeignCluster) (all []Finding) {
	tenant := f.TenantNamespace(fc.Spec.ClusterID)
	for i := range f.Quotas {
		q := &f.Quotas[i]
		if q.Namespace != tenant || tenant == "" {
			continue
		}
		if q.Spec.Cordoned != nil && *q.Spec.Cordoned {
			all = append(all, warningOf(newFailure(Ref("Quota", q), "it is cordoned: new pods are refused", "run: liqoctl uncordon resourceslice", "docs/troubleshooting.md#user-is-cordoned")))
		}
		used := corev1.ResourceList{}
		for j := range f.ConsumerPods {
			pod := &f.ConsumerPods[j]
			if pod.Labels[names.OffloadingOrigin] == string(fc.Spec.ClusterID) && pod.Labels[names.CreatorUser] == policy.CreatorUser(q.Spec.User) && !policy.Ended(pod.Status.Phase) {
				policy.AddResources(used, policy.PodUsage(pod))
			}
		}
		all = append(all, findScarce(Ref("Quota", q), "pods of the consumer", used, q.Spec.Resources)...)
	}
	return all
}

// findScarce returns the nearly used up resources.
func findScarce(ref, whose string, used, hard corev1.ResourceList) (all []Finding) {
	for _, name := range slices.Sorted(maps.Keys(hard)) {
		limit, sum := hard[name], used[name]
		if limit.IsZero() || sum.AsApproximateFloat64() < limit.AsApproximateFloat64()*usedUpPercent/100 {
			continue
		}
		all = append(all, warningOf(newFailure(ref, fmt.Sprintf("%s request %s of %s %s", whose, sum.String(), limit.String(), name),
			"ask for more: liqoctl create resourceslice", "docs/troubleshooting.md#quota-usage-exceeded")))
	}
	return all
}

// latencyOf returns the latency of the tunnel to a peer, "" if it is not known.
func (f *Facts) latencyOf(fc *liqov1beta1.ForeignCluster) string {
	for i := range f.Connections {
		if isOf(fc, &f.Connections[i]) {
			return f.Connections[i].Status.Latency.Value
		}
	}
	return ""
}

// whyNotReady returns ": <reason>: <message>" of the condition Ready, or "".
func whyNotReady(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return fmt.Sprintf(": %s: %s", c.Reason, c.Message)
		}
	}
	return ""
}
