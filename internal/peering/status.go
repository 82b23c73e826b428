// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/policy"
)

// newStatus returns the desired status of the ForeignCluster, without the conditions of the replicator and
// without times.
func (v *peerView) newStatus(generation int64, disabled Disabled) liqov1beta1.ForeignClusterStatus {
	version, capabilities := v.reportedVersion()
	return liqov1beta1.ForeignClusterStatus{
		ObservedGeneration: generation,
		Role:               v.roleOf(),
		Version:            version,
		Capabilities:       capabilities,
		APIServerURL:       withoutUser(v.apiServerURL()),
		ForeignProxyURL:    withoutUser(v.proxyURL()),
		TenantNamespace:    liqov1beta1.TenantNamespaceType{Local: v.localNamespace(), Remote: v.remoteNamespace()},
		Modules: liqov1beta1.Modules{
			Networking:     moduleOf(disabled.Networking, v.networkingModule()),
			Authentication: moduleOf(disabled.Authentication, v.authenticationModule()),
			Offloading:     moduleOf(disabled.Offloading, v.offloadingModule()),
		},
	}
}

// moduleOf hides a disabled module, and the conditions of an unused module.
func moduleOf(disabled bool, m liqov1beta1.Module) liqov1beta1.Module {
	if disabled || !m.Enabled {
		return liqov1beta1.Module{}
	}
	return m
}

func (v *peerView) roleOf() liqov1beta1.RoleType {
	consumer := len(v.tenants) > 0
	provider := len(v.identities)+len(v.secrets)+len(v.virtualNodes) > 0
	switch {
	case consumer && provider:
		return liqov1beta1.ConsumerAndProviderRole
	case consumer:
		return liqov1beta1.ConsumerRole
	case provider:
		return liqov1beta1.ProviderRole
	}
	return liqov1beta1.UnknownRole
}

// reportedVersion returns the peer's version of Liqo: a consumer reports it in the replicated NamespaceMap, a provider in the status of
// the local NamespaceMap.
func (v *peerView) reportedVersion() (running string, capabilities []string) {
	for i := range v.namespaceMaps {
		if running, capabilities = versionOf(&v.namespaceMaps[i]); running != "" {
			return running, peer.SanitizeCapabilities(capabilities)
		}
	}
	return "", nil
}

// versionOf returns the version in one NamespaceMap, or "" if it is invalid.
func versionOf(m *offv1beta1.NamespaceMap) (running string, capabilities []string) {
	running, capabilities = m.Status.ProviderVersion, m.Status.ProviderCapabilities
	if peer.IsReplica(m) {
		running, capabilities = m.Annotations[names.Version], peer.SplitCapabilities(m.Annotations[names.Capabilities])
	}
	return peer.SanitizeVersion(running), capabilities
}

// apiServerURL returns the URL from the Identity, or else from a manual kubeconfig.
func (v *peerView) apiServerURL() string {
	if len(v.identities) > 0 {
		return v.identities[0].Spec.AuthParams.APIServer
	}
	if kubeconfig := v.parseKubeconfig(); kubeconfig != nil {
		return kubeconfig.Server
	}
	return ""
}

// parseKubeconfig returns the first manual kubeconfig that is valid.
func (v *peerView) parseKubeconfig() *pki.Kubeconfig {
	for i := range v.secrets {
		if kubeconfig, err := pki.ParseKubeconfig(v.secrets[i].Data[names.KubeconfigKey]); err == nil {
			return kubeconfig
		}
	}
	return nil
}

// proxyURL returns the URL of the proxy of the Identity, with the present address of a proxy in the tunnel, or else from a manual kubeconfig.
func (v *peerView) proxyURL() string {
	if len(v.identities) > 0 {
		configured, tunnel := v.identities[0].Spec.AuthParams.ProxyURL, v.identities[0].Status.TunnelProxy
		switch {
		case configured == nil:
			return ""
		case tunnel != nil && tunnel.ConfiguredURL == *configured:
			return tunnel.URL
		}
		return *configured
	}
	if kubeconfig := v.parseKubeconfig(); kubeconfig != nil {
		return kubeconfig.ProxyURL
	}
	return ""
}

// withoutUser leaves out the name and password in a URL: more people may read the status than the Secret.
func withoutUser(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	u.User = nil
	return u.String()
}

func (v *peerView) localNamespace() string {
	switch {
	case len(v.identities) > 0:
		return v.identities[0].Namespace
	case len(v.tenants) > 0 && v.tenants[0].Status.TenantNamespace != "":
		return v.tenants[0].Status.TenantNamespace
	case len(v.secrets) > 0:
		return v.secrets[0].Namespace
	case len(v.namespaces) == 1:
		return v.namespaces[0]
	}
	return ""
}

func (v *peerView) remoteNamespace() string {
	switch {
	case len(v.identities) > 0 && v.identities[0].Spec.Namespace != nil:
		return *v.identities[0].Spec.Namespace
	case len(v.secrets) > 0:
		return v.secrets[0].Annotations[names.RemoteTenantNamespace]
	}
	return ""
}

func newCondition(t liqov1beta1.ConditionType, s liqov1beta1.ConditionStatus, reason, message string) liqov1beta1.Condition {
	return liqov1beta1.Condition{Type: t, Status: s, Reason: reason, Message: message}
}

func (v *peerView) networkingModule() liqov1beta1.Module {
	gateways := len(v.servers) + len(v.clients)
	m := liqov1beta1.Module{Enabled: len(v.configurations)+gateways+len(v.connections) > 0}
	m.Conditions = append(m.Conditions, v.configurationStatus(), gatewayPresence(gateways))
	if len(v.servers) > 0 {
		m.Conditions = append(m.Conditions, gatewayStatus(liqov1beta1.NetworkGatewayServerStatus, v.deployments[gatewayOf(&v.servers[0])]))
	}
	if len(v.clients) > 0 {
		m.Conditions = append(m.Conditions, gatewayStatus(liqov1beta1.NetworkGatewayClientStatus, v.deployments[gatewayOf(&v.clients[0])]))
	}
	m.Conditions = append(m.Conditions, v.connectionStatus())
	return m
}

func (v *peerView) configurationStatus() liqov1beta1.Condition {
	if len(v.configurations) == 0 {
		return newCondition(liqov1beta1.NetworkConfigurationStatus, liqov1beta1.ConditionNotReady, "NetworkConfigurationMissing", "there is no Configuration for this cluster")
	}
	return newCondition(liqov1beta1.NetworkConfigurationStatus, liqov1beta1.ConditionReady, "NetworkConfigurationPresence", "there is a Configuration for this cluster")
}

func gatewayPresence(gateways int) liqov1beta1.Condition {
	if gateways == 0 {
		return newCondition(liqov1beta1.NetworkGatewayPresence, liqov1beta1.ConditionNotReady, "GatewayMissing", "there is no gateway for this cluster")
	}
	return newCondition(liqov1beta1.NetworkGatewayPresence, liqov1beta1.ConditionReady, "GatewayPresence", "there is a gateway for this cluster")
}

func gatewayStatus(t liqov1beta1.ConditionType, d *appsv1.Deployment) liqov1beta1.Condition {
	switch {
	case d == nil || d.Status.ReadyReplicas == 0:
		return newCondition(t, liqov1beta1.ConditionNotReady, "GatewaysNotReady", "no replica of the gateway is ready")
	case d.Status.UnavailableReplicas > 0:
		return newCondition(t, liqov1beta1.ConditionSomeNotReady, "GatewaysSomeNotReady", "some replicas of the gateway are not ready")
	}
	return newCondition(t, liqov1beta1.ConditionReady, "GatewaysReady", "the gateway is ready")
}

func (v *peerView) connectionStatus() liqov1beta1.Condition {
	if len(v.connections) == 0 {
		return newCondition(liqov1beta1.NetworkConnectionStatus, liqov1beta1.ConditionNotReady, "ConnectionMissing", "there is no Connection with this cluster")
	}
	status := v.connections[0].Status
	switch status.Reach {
	case networkingv1beta1.ReachSome:
		return newCondition(liqov1beta1.NetworkConnectionStatus, liqov1beta1.ConditionSomeNotReady, "ConnectionOfSomeNodes",
			"the tunnel is up, and pods of these nodes do not reach the peer: "+strings.Join(status.FailedNodes, ", "))
	case networkingv1beta1.ReachNone:
		return newCondition(liqov1beta1.NetworkConnectionStatus, liqov1beta1.ConditionError, "ConnectionOfNoNode",
			"the tunnel is up, and pods of no node reach the peer by it: "+strings.Join(status.FailedNodes, ", "))
	}
	switch status.Value {
	case networkingv1beta1.Connected:
		return newCondition(liqov1beta1.NetworkConnectionStatus, liqov1beta1.ConditionEstablished, "ConnectionEstablished", "the tunnel is up")
	case networkingv1beta1.Connecting:
		return newCondition(liqov1beta1.NetworkConnectionStatus, liqov1beta1.ConditionPending, "ConnectionPending", "the tunnel is being established")
	}
	return newCondition(liqov1beta1.NetworkConnectionStatus, liqov1beta1.ConditionError, "ConnectionError", "the tunnel is down")
}

func (v *peerView) authenticationModule() liqov1beta1.Module {
	m := liqov1beta1.Module{Enabled: len(v.tenants)+len(v.identities)+len(v.secrets) > 0}
	if len(v.tenants) > 0 {
		m.Conditions = append(m.Conditions, tenantStatus(&v.tenants[0]))
	}
	switch {
	case len(v.identities) > 0:
		m.Conditions = append(m.Conditions, v.identityStatus())
	case len(v.secrets) > 0:
		m.Conditions = append(m.Conditions, v.credentialsStatus())
	}
	if c := v.versionStatus(); c != nil {
		m.Conditions = append(m.Conditions, *c)
	}
	return m
}

// versionStatus returns why new objects are not offered to the peer, or nil. One of two NamespaceMaps may be an orphan of a failed
// teardown with an outdated version: one compatible version is enough.
func (v *peerView) versionStatus() *liqov1beta1.Condition {
	var other string
	for i := range v.namespaceMaps {
		version, _ := versionOf(&v.namespaceMaps[i])
		if version == "" {
			continue
		}
		if peer.VersionGap(v.own, version) == peer.NoGap {
			return nil
		}
		other = cmp.Or(other, version)
	}
	gap := peer.VersionGap(v.own, other)
	if gap == peer.NoGap {
		return nil
	}
	return new(newCondition(liqov1beta1.AuthVersionStatus, liqov1beta1.ConditionError, string(gap), gap.Explain(v.own, other)))
}

// tenantStatus returns the condition reported by the Tenant: the rejecting controller knows the reason.
func tenantStatus(t *authv1beta1.Tenant) liqov1beta1.Condition {
	notReady := func(reason, message string) liqov1beta1.Condition {
		return newCondition(liqov1beta1.AuthTenantStatus, liqov1beta1.ConditionNotReady, reason, message)
	}
	ready := apimeta.FindStatusCondition(t.Status.Conditions, authv1beta1.TenantReady)
	issued := apimeta.FindStatusCondition(t.Status.Conditions, authv1beta1.TenantCertificateIssued)
	switch {
	case ready != nil && ready.Status != metav1.ConditionTrue:
		return notReady(ready.Reason, ready.Message)
	case t.Status.TenantNamespace == "":
		return notReady("TenantNotReady", "the tenant has no namespace yet")
	case policy.ExchangesKeys(t) && t.Status.AuthParams == nil && issued != nil && issued.Status != metav1.ConditionTrue:
		return notReady("TenantNotReady", "the tenant has no credentials yet: "+issued.Reason+": "+issued.Message)
	case policy.ExchangesKeys(t) && t.Status.AuthParams == nil:
		return notReady("TenantNotReady", "the tenant has no credentials yet")
	}
	return newCondition(liqov1beta1.AuthTenantStatus, liqov1beta1.ConditionReady, "TenantReady", "the tenant is ready")
}

// identityStatus returns whether the credentials of the Identity are usable. An expired certificate needs no check by
// the peer.
func (v *peerView) identityStatus() liqov1beta1.Condition {
	ref := v.identities[0].Status.KubeconfigSecretRef
	end, ends := v.certificateEnd()
	switch {
	case ref == nil || ref.Name == "":
		return credentialsAre(liqov1beta1.ConditionNotReady, "IdentityNotReady", "the identity has no kubeconfig yet")
	case ends && !v.now.Before(end):
		return credentialsAre(liqov1beta1.ConditionNotReady, "CertificateExpired",
			"the certificate of the Identity ended at "+end.UTC().Format(time.RFC3339)+", and the provider gave no other one")
	}
	return v.apiServerCondition("the identity is ready")
}

// certificateEnd is when the certificate of the Identity ends.
func (v *peerView) certificateEnd() (time.Time, bool) {
	if len(v.identities) == 0 {
		return time.Time{}, false
	}
	certificate, err := pki.ParseCertificate(v.identities[0].Spec.AuthParams.SignedCRT)
	if err != nil {
		return time.Time{}, false
	}
	return certificate.NotAfter, true
}

// nextCheck is when the status changes although nothing else does; 0 is never.
func (v *peerView) nextCheck() time.Duration {
	if end, ends := v.certificateEnd(); ends && v.now.Before(end) {
		return end.Sub(v.now) + time.Second
	}
	return 0
}

// credentialsStatus returns whether a manual kubeconfig, which has no Identity, is usable.
func (v *peerView) credentialsStatus() liqov1beta1.Condition {
	if v.parseKubeconfig() == nil { // why is told where the Secret can be read
		return credentialsAre(liqov1beta1.ConditionNotReady, "InvalidKubeconfig", "the kubeconfig in the Secret cannot be used: the events of the Secret say why")
	}
	return v.apiServerCondition("the peer takes the credentials in the Secret")
}

// apiServerCondition returns the answer of the peer to the credentials; they are ready if the peer accepts
// them.
func (v *peerView) apiServerCondition(taken string) liqov1beta1.Condition {
	switch {
	case v.answer == nil:
		return credentialsAre(liqov1beta1.ConditionPending, "APIServerNotAsked", "the API server of the peer was not asked yet")
	case v.answer.Status != liqov1beta1.ConditionEstablished:
		return credentialsAre(liqov1beta1.ConditionNotReady, v.answer.Reason, v.answer.Message)
	case strings.HasPrefix(v.answer.Message, peer.RefusesCalls):
		return credentialsAre(liqov1beta1.ConditionNotReady, "RefusedByPeer", v.answer.Message+v.wayOut())
	}
	return credentialsAre(liqov1beta1.ConditionReady, "IdentityReady", taken)
}

// wayOut returns the advice if the peer removed this cluster first: the kubeconfig of a deleted Identity waits for the
// removal of replicated objects, and can no longer perform the removal.
func (v *peerView) wayOut() string {
	goes := func(secret corev1.Secret) bool {
		return !secret.DeletionTimestamp.IsZero() && metav1.GetControllerOf(&secret) != nil
	}
	if len(v.identities) > 0 || !slices.ContainsFunc(v.secrets, goes) {
		return ""
	}
	return ". The credentials are being deleted, and wait for the replicas in the peer: if the peer's Tenant is gone, run liqoctl unpeer, else liqoctl force unpeer"
}

func credentialsAre(s liqov1beta1.ConditionStatus, reason, message string) liqov1beta1.Condition {
	return newCondition(liqov1beta1.AuthIdentityControlPlaneStatus, s, reason, message)
}

func (v *peerView) offloadingModule() liqov1beta1.Module {
	m := liqov1beta1.Module{Enabled: len(v.virtualNodes) > 0}
	var kubelets, wanted, nodes int
	for i := range v.virtualNodes {
		if isRunning(v.deployments[kubeletOf(&v.virtualNodes[i])]) {
			kubelets++
		}
		if create := v.virtualNodes[i].Spec.CreateNode; create == nil || *create {
			wanted++
		}
	}
	for i := range v.nodes {
		if kube.NodeReady(&v.nodes[i]) {
			nodes++
		}
	}
	m.Conditions = append(m.Conditions,
		countCondition(liqov1beta1.OffloadingVirtualNodeStatus, "VirtualNodes", "virtual kubelets", kubelets, len(v.virtualNodes)),
		countCondition(liqov1beta1.OffloadingNodeStatus, "Nodes", "virtual nodes", nodes, wanted))
	if c := v.misbehaviour(); c != nil {
		m.Conditions = append(m.Conditions, *c)
	}
	return m
}

// misbehaviour returns the provider's misbehaviour as reported by a virtual kubelet on its Node, or nil. A virtual kubelet writes no
// ForeignClusters itself.
func (v *peerView) misbehaviour() *liqov1beta1.Condition {
	for i := range v.nodes {
		for _, c := range v.nodes[i].Status.Conditions {
			if string(c.Type) == string(liqov1beta1.PeerMisbehaves) && c.Status == corev1.ConditionTrue {
				return new(newCondition(liqov1beta1.PeerMisbehaves, liqov1beta1.ConditionError, c.Reason, kube.Note("virtual node "+v.nodes[i].Name+": "+c.Message)))
			}
		}
	}
	return nil
}

// countCondition is a condition about how many of something are ready.
func countCondition(t liqov1beta1.ConditionType, prefix, what string, ready, all int) liqov1beta1.Condition {
	message := fmt.Sprintf("%d of %d %s are ready", ready, all, what)
	switch ready {
	case all:
		return newCondition(t, liqov1beta1.ConditionReady, prefix+"Ready", message)
	case 0:
		return newCondition(t, liqov1beta1.ConditionNotReady, prefix+"NotReady", message)
	}
	return newCondition(t, liqov1beta1.ConditionSomeNotReady, prefix+"SomeNotReady", message)
}

// isRunning reports whether a Deployment has rolled out and all its pods are ready.
func isRunning(d *appsv1.Deployment) bool {
	if d == nil || d.Status.ObservedGeneration < d.Generation {
		return false
	}
	replicas := int32(1)
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	return replicas > 0 && d.Status.UpdatedReplicas >= replicas && d.Status.ReadyReplicas >= replicas && d.Status.UnavailableReplicas == 0
}

// keepTimes stamps the conditions of each module: an unchanged status keeps its time.
func keepTimes(want *liqov1beta1.Modules, current liqov1beta1.Modules, now metav1.Time) {
	for _, m := range []struct{ want, have *liqov1beta1.Module }{
		{&want.Networking, &current.Networking},
		{&want.Authentication, &current.Authentication},
		{&want.Offloading, &current.Offloading},
	} {
		for i := range m.want.Conditions {
			c := &m.want.Conditions[i]
			c.LastTransitionTime = now
			j := slices.IndexFunc(m.have.Conditions, func(old liqov1beta1.Condition) bool { return old.Type == c.Type && old.Status == c.Status })
			if j >= 0 && !m.have.Conditions[j].LastTransitionTime.IsZero() {
				c.LastTransitionTime = m.have.Conditions[j].LastTransitionTime
			}
		}
	}
}
