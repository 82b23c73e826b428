// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// A provider writes the status of objects requested by this cluster, and may write arbitrary values. These functions return
// the accepted part: results for the requested items, of bounded size. A field without a rule is dropped.

// Limits of lists in the status of a peer.
const (
	maxPeerResources    = 64
	maxPeerClasses      = 64
	maxPeerLabels       = 64
	maxPeerConditions   = 8
	maxPeerCapabilities = 64
	maxPeerNetworks     = 64 // as in the CRD
	maxPeerCertificate  = 64 << 10
	maxPeerURL          = 2048
	maxMappingReason    = 64   // as in the CRD
	maxPeerAddresses    = 1000 // as in the policy liqo-endpoints
	maxPeerPorts        = 64   // as in the CRD
)

// maxPeerAmount exceeds the amounts of any cluster, and is small enough for milli-units.
func maxPeerAmount() resource.Quantity { return *resource.NewQuantity(1<<50, resource.BinarySI) }

// NamespaceMapStatus returns the accepted part of a provider's status: only mappings of requested namespaces. A
// namespace no longer requested is kept if it was accepted before: the provider reports its deletion.
func NamespaceMapStatus(spec *offv1beta1.NamespaceMapSpec, before, reported *offv1beta1.NamespaceMapStatus) offv1beta1.NamespaceMapStatus {
	out := offv1beta1.NamespaceMapStatus{ProviderVersion: CleanLine(reported.ProviderVersion, MaxForeignReason)}
	for _, capability := range reported.ProviderCapabilities[:min(len(reported.ProviderCapabilities), maxPeerCapabilities)] {
		if len(validation.IsQualifiedName(capability)) == 0 {
			out.ProviderCapabilities = append(out.ProviderCapabilities, capability)
		}
	}
	for _, n := range reported.ConsumerNetworks[:min(len(reported.ConsumerNetworks), maxPeerNetworks)] {
		from, err := netip.ParsePrefix(n.CIDR)
		to, also := netip.ParsePrefix(n.TranslatedCIDR)
		if err == nil && also == nil && from.Bits() == to.Bits() && from.Addr().BitLen() == to.Addr().BitLen() {
			out.ConsumerNetworks = append(out.ConsumerNetworks, n)
		}
	}
	for local, status := range reported.CurrentMapping {
		desired, requested := spec.DesiredMapping[local]
		known, had := before.CurrentMapping[local]
		believed := requested && status.RemoteNamespace == desired || had && known.RemoteNamespace == status.RemoteNamespace
		if !believed || !slices.Contains(mappingPhases, status.Phase) {
			continue
		}
		if out.CurrentMapping == nil {
			out.CurrentMapping = map[string]offv1beta1.RemoteNamespaceStatus{}
		}
		out.CurrentMapping[local] = offv1beta1.RemoteNamespaceStatus{
			RemoteNamespace: status.RemoteNamespace, Phase: status.Phase,
			Reason: CleanLine(status.Reason, maxMappingReason), Message: CleanLine(status.Message, MaxForeignMessage),
			PodSecurity: believedLevel(status.PodSecurity),
		}
	}
	return out
}

// believedLevel returns reported if it is a level of the Pod Security Standards, else "".
func believedLevel(reported string) string {
	if reported == PodSecurityPrivileged || IsEnforced(reported) {
		return reported
	}
	return ""
}

var mappingPhases = []offv1beta1.MappingPhase{
	offv1beta1.MappingAccepted, offv1beta1.MappingCreationLoopBackOff, offv1beta1.MappingTerminating,
}

// TwinOf returns the remote namespace for the objects of a local namespace: the requested one, once the provider has
// accepted exactly the requested name.
func TwinOf(nm *offv1beta1.NamespaceMap, local string) (string, bool) {
	desired, requested := nm.Spec.DesiredMapping[local]
	current, answered := nm.Status.CurrentMapping[local]
	ok := requested && answered && desired != "" && current.Phase == offv1beta1.MappingAccepted && current.RemoteNamespace == desired
	return desired, ok
}

// ResourceSliceStatus returns the accepted part of the status that a provider wrote to a ResourceSlice.
func ResourceSliceStatus(reported *authv1beta1.ResourceSliceStatus) authv1beta1.ResourceSliceStatus {
	return authv1beta1.ResourceSliceStatus{
		Conditions: sliceConditions(reported.Conditions),
		Resources:  Amounts(reported.Resources),
		AuthParams: authParams(reported.AuthParams),
		StorageClasses: classes(reported.StorageClasses,
			func(c *liqov1beta1.StorageType) (string, *bool) { return c.StorageClassName, &c.Default }),
		IngressClasses: classes(reported.IngressClasses,
			func(c *liqov1beta1.IngressType) (string, *bool) { return c.IngressClassName, &c.Default }),
		LoadBalancerClasses: classes(reported.LoadBalancerClasses,
			func(c *liqov1beta1.LoadBalancerType) (string, *bool) { return c.LoadBalancerClassName, &c.Default }),
		NodeLabels:   foreignLabels(reported.NodeLabels),
		NodeSelector: foreignLabels(reported.NodeSelector),

		DeclaredFeatures: DeclaredFeatures(reported.DeclaredFeatures),
	}
}

// RenewStatus returns the accepted part of the status that a provider wrote to a Renew.
func RenewStatus(reported *authv1beta1.RenewStatus) authv1beta1.RenewStatus {
	return authv1beta1.RenewStatus{AuthParams: authParams(reported.AuthParams), Conditions: foreignConditions(reported.Conditions)}
}

// PeerEndpoint returns the valid part of a gateway endpoint reported by a peer, or nil: valid addresses and ports, because they
// become arguments of a process, and only addresses that this cluster may connect to.
func PeerEndpoint(reported *networkingv1beta1.EndpointStatus) *networkingv1beta1.EndpointStatus {
	if reported == nil {
		return nil
	}
	out := &networkingv1beta1.EndpointStatus{}
	for _, address := range reported.Addresses {
		if isPeerHost(address) && len(out.Addresses) < maxPeerAddresses {
			out.Addresses = append(out.Addresses, address)
		}
	}
	if isPort(reported.Port) {
		out.Port = reported.Port
	} else {
		for _, port := range reported.Ports {
			if isPort(port) && len(out.Ports) < maxPeerPorts {
				out.Ports = append(out.Ports, port)
			}
		}
	}
	if len(out.Addresses) == 0 || out.Port == 0 && len(out.Ports) == 0 {
		return nil
	}
	if p := reported.Protocol; p != nil && (*p == corev1.ProtocolUDP || *p == corev1.ProtocolTCP) {
		out.Protocol = new(*p)
	}
	return out
}

// isPeerHost reports whether a text is a permitted address or a name of a peer. The addresses of a name are checked when it is
// resolved.
func isPeerHost(text string) bool {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.Zone() == "" && CheckPeerAddress(addr, false) == nil
	}
	return len(validation.IsDNS1123Subdomain(strings.ToLower(strings.TrimSuffix(text, ".")))) == 0
}

func isPort(n int32) bool { return len(validation.IsValidPortNum(int(n))) == 0 }

// sliceConditions returns one condition of each known type.
func sliceConditions(reported []authv1beta1.ResourceSliceCondition) []authv1beta1.ResourceSliceCondition {
	var out []authv1beta1.ResourceSliceCondition
	for _, c := range reported {
		known := c.Type == authv1beta1.ResourceSliceConditionTypeAuthentication || c.Type == authv1beta1.ResourceSliceConditionTypeResources
		decided := c.Status == authv1beta1.ResourceSliceConditionAccepted || c.Status == authv1beta1.ResourceSliceConditionDenied
		twice := slices.ContainsFunc(out, func(o authv1beta1.ResourceSliceCondition) bool { return o.Type == c.Type })
		if !known || !decided || twice {
			continue
		}
		c.Reason, c.Message = CleanLine(c.Reason, MaxForeignReason), CleanText(c.Message, MaxForeignMessage)
		out = append(out, c)
	}
	return out
}

func foreignConditions(reported []metav1.Condition) []metav1.Condition {
	var out []metav1.Condition
	for _, c := range reported {
		twice := slices.ContainsFunc(out, func(o metav1.Condition) bool { return o.Type == c.Type })
		value := c.Status == metav1.ConditionTrue || c.Status == metav1.ConditionFalse || c.Status == metav1.ConditionUnknown
		if twice || !value || len(validation.IsQualifiedName(c.Type)) > 0 || len(out) == maxPeerConditions {
			continue
		}
		c.ObservedGeneration = max(c.ObservedGeneration, 0)
		c.Reason, c.Message = CleanLine(c.Reason, MaxForeignReason), CleanText(c.Message, MaxForeignMessage)
		out = append(out, c)
	}
	return out
}

// Amounts returns the amounts of another cluster that a node can have. Invalid names, negative amounts, and fractions of integer
// resources are left out: the API server would reject the whole Node. Amounts are limited to prevent overflow of sums.
func Amounts(reported corev1.ResourceList) corev1.ResourceList {
	var out corev1.ResourceList
	for _, name := range slices.Sorted(maps.Keys(reported)) {
		quantity := reported[name].DeepCopy()
		if quantity.Sign() < 0 || len(validation.IsQualifiedName(string(name))) > 0 || len(out) == maxPeerResources {
			continue
		}
		if most := maxPeerAmount(); quantity.Cmp(most) > 0 {
			quantity = maxPeerAmount() // Cmp changed the notation of most
		}
		if whole := *resource.NewQuantity(quantity.Value(), quantity.Format); name != corev1.ResourceCPU && whole.Cmp(quantity) != 0 {
			quantity = *resource.NewQuantity(quantity.Value()-1, quantity.Format) // Value rounds up
		}
		if out == nil {
			out = corev1.ResourceList{}
		}
		out[name] = quantity
	}
	return out
}

// classes returns the classes with valid names, each once, with at most one default. field returns the name of a class and a
// pointer to the class's default flag.
func classes[T any](reported []T, field func(*T) (name string, isDefault *bool)) []T {
	var out []T
	names, hasDefault := map[string]bool{}, false
	for i := range reported {
		class := reported[i]
		name, isDefault := field(&class)
		if names[name] || len(validation.IsDNS1123Subdomain(name)) > 0 && len(validation.IsQualifiedName(name)) > 0 || len(out) == maxPeerClasses {
			continue
		}
		*isDefault = *isDefault && !hasDefault
		hasDefault = hasDefault || *isDefault
		names[name] = true
		out = append(out, class)
	}
	return out
}

// foreignLabels returns the valid labels.
func foreignLabels(reported map[string]string) map[string]string {
	var out map[string]string
	for _, key := range slices.Sorted(maps.Keys(reported)) {
		if !validLabel(key, reported[key]) || len(out) == maxPeerLabels {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = reported[key]
	}
	return out
}

// authParams returns the credentials if all parts are valid, else nil: partial credentials are useless.
func authParams(reported *authv1beta1.AuthParams) *authv1beta1.AuthParams {
	if reported == nil || len(reported.CA) > maxPeerCertificate || len(reported.SignedCRT) > maxPeerCertificate || !isURL(reported.APIServer) {
		return nil
	}
	out := &authv1beta1.AuthParams{CA: reported.CA, SignedCRT: reported.SignedCRT, APIServer: reported.APIServer}
	if reported.ProxyURL != nil {
		if !isURL(*reported.ProxyURL) {
			return nil
		}
		out.ProxyURL = new(*reported.ProxyURL)
	}
	if aws := reported.AwsConfig; aws != nil {
		for _, text := range []string{aws.AwsUserArn, aws.AwsAccessKeyID, aws.AwsSecretAccessKey, aws.AwsRegion, aws.AwsClusterName} {
			if CleanLine(text, maxPeerURL) != text {
				return nil
			}
		}
		out.AwsConfig = new(*aws)
	}
	return out
}

// isURL reports whether a text may be the URL of a server, or is empty.
func isURL(text string) bool {
	if CleanLine(text, maxPeerURL) != text {
		return false
	}
	_, err := url.Parse(cmp.Or(text, "https://none"))
	return err == nil
}
