// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/app/kubelet"
	"liqo.io/liqo/internal/app/program"
	"liqo.io/liqo/internal/auth"
	"liqo.io/liqo/internal/certissuer"
	"liqo.io/liqo/internal/consumer"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/peering"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/provider"
	"liqo.io/liqo/internal/resourceslice"
	"liqo.io/liqo/internal/storage"
	"liqo.io/liqo/internal/virtualkubelet/translate"

	"liqo.io/liqo/internal/webhook"
)

// controllerManagerOptions are the flags of the controller-manager. Names and defaults are the original's.
type controllerManagerOptions struct {
	processOptions
	networking, authentication, offloading bool

	pools                           []string
	serverKinds, clientKinds        []string
	templateNamespaces              []string
	webhookPort                     int
	webhookCertificate              time.Duration
	vkOptionsTemplate, runtimeClass string
	tlsCompatibility, legacyNonces  bool
	apiServer, ca                   string
	trustedCA, allowLoopbackPeers   bool
	sliceCertificate                time.Duration
	controlPlaneCertificate         time.Duration
	defaultClass                    bool
	nodeResources, clusterLabels    map[string]string
	acceptedNodeLabels              []string
	ingressClasses, loadBalancers   string
	storage                         bool
	volumes                         storage.Options
	maxSlices                       int
	maxOfTenant, maxOfAll           map[string]string
	limits                          string
	enforce, nodeFailure            bool
	podSecurity, networkPolicies    string
	admitRemotePods                 string
	policyReflection                string
	maxNamespaces                   int
	maxObjects                      webhook.MaxObjects
	reserved                        []string
	remotePods                      policy.RemotePods
	defaultRequests                 map[string]string
	twinQuota                       map[string]string
	twinRequests, twinLimits        map[string]string
	droppedMetadata                 []string
	kubeletImages                   []string
	shadowPodWorkers                int
	shadowSliceWorkers              int
	denyDirect                      bool
}

func (o *controllerManagerOptions) addFlags(fs *pflag.FlagSet) {
	o.processOptions.addFlags(fs)
	fs.BoolVar(&o.networking, "networking-enabled", true, "grant addresses, and show the networking module")
	fs.BoolVar(&o.authentication, "authentication-enabled", true, "show the authentication module")
	fs.BoolVar(&o.offloading, "offloading-enabled", true, "make virtual nodes of granted slices")
	fs.StringSliceVar(&o.pools, "pools", []string{"10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12"}, "ranges from which prefixes for the networks of peers are allocated")
	fs.StringSliceVar(&o.serverKinds, "gateway-server-resources", []string{networkingv1beta1.GroupVersion.String() + "/" + networkingv1beta1.WgGatewayServerResource}, "kinds that templates of GatewayServers may render, as group/version/plural")
	fs.StringSliceVar(&o.clientKinds, "gateway-client-resources", []string{networkingv1beta1.GroupVersion.String() + "/" + networkingv1beta1.WgGatewayClientResource}, "kinds that templates of GatewayClients may render, as group/version/plural")
	fs.StringSliceVar(&o.templateNamespaces, "gateway-template-namespaces", nil, "namespaces besides that of Liqo whose templates gateways may use")
	fs.IntVar(&o.webhookPort, "webhook-port", names.WebhookPort, "port of the admission webhooks")
	fs.DurationVar(&o.webhookCertificate, "webhook-certificate-duration", 90*24*time.Hour, "how long a certificate of the webhooks lasts; it is renewed at two thirds of that")
	fs.String("secret-name", names.WebhookCertsSecret, "")
	ofReplicator(fs)
	fs.StringVar(&o.vkOptionsTemplate, "vk-options-default-template", "", "<namespace>/<name> of the VkOptionsTemplate of VirtualNodes that name none")
	fs.StringSliceVar(&o.kubeletImages, "virtual-kubelet-images", nil, "images that VirtualNodes may have besides those of the VkOptionsTemplates of this installation; a trailing * takes all that begin so")
	fs.StringVar(&o.runtimeClass, "liqo-runtime-class", names.RuntimeClass, "runtime class whose pods are steered by it alone")
	fs.BoolVar(&o.tlsCompatibility, "tls-compatibility-mode", false, "make RSA keys instead of Ed25519 ones")
	fs.BoolVar(&o.legacyNonces, "legacy-nonces", false, "sign nonces alone, and accept such signatures, as Liqo did before they were bound to both clusters")
	fs.StringVar(&o.apiServer, "api-server-address-override", "", "where peers reach this API server; empty for port 6443 of a control-plane node")
	fs.StringVar(&o.ca, "ca-override", "", "certificate authority of the API server for peers, base64")
	fs.BoolVar(&o.allowLoopbackPeers, "allow-loopback-peers", false, "take kubeconfigs of peers that lead to the loopback addresses of this machine, as in tests")
	fs.BoolVar(&o.trustedCA, "trusted-ca", false, "peers know the authority of the API server already")
	fs.DurationVar(&o.sliceCertificate, "slice-certificate-duration", 24*time.Hour, "lifetime of consumers' certificates for slices; renewed after two thirds")
	fs.DurationVar(&o.controlPlaneCertificate, "control-plane-certificate-duration", 7*24*time.Hour, "how long those for their control planes last: an outage between the clusters may be a third as long")
	fs.BoolVar(&o.defaultClass, "default-resource-slice-class-enabled", true, "grant slices of the default class")
	fs.StringToStringVar(&o.nodeResources, "default-node-resources", map[string]string{"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "20Gi"}, "resources granted to a slice that requests none")
	fs.StringToStringVar(&o.clusterLabels, "cluster-labels", nil, "labels that this cluster offers for the virtual nodes of its consumers")
	fs.StringSliceVar(&o.acceptedNodeLabels, "accepted-node-labels", nil, "labels of providers that virtual nodes may have; a trailing * is a wildcard")
	fs.StringVar(&o.ingressClasses, "ingress-classes", "", "classes offered to consumers: a;default,b")
	fs.StringVar(&o.loadBalancers, "load-balancer-classes", "", "classes offered to consumers: a;default,b")
	fs.BoolVar(&o.storage, "enable-storage", false, "offer the storage classes of this cluster, and bind claims of those of Liqo")
	fs.StringVar(&o.volumes.RealStorageClass, "real-storage-class-name", "", "the default one of them, and that of volumes on nodes of this cluster; empty for the cluster's")
	fs.StringVar(&o.volumes.Namespace, "storage-namespace", names.StorageNamespace, "namespace of the claims behind volumes on nodes of this cluster")
	fs.String("virtual-storage-class-name", names.StorageClass, "")
	fs.IntVar(&o.maxSlices, "max-slices-per-tenant", 16, "slices that a consumer may have; 0 for any number")
	fs.StringToStringVar(&o.maxOfTenant, "max-resources-per-tenant", nil, "sum of the resources granted to all slices of the default class of one consumer; unlisted resources are unlimited")
	fs.StringToStringVar(&o.maxOfAll, "max-resources", nil, "sum of the resources granted to all slices of all consumers; unlisted resources are unlimited")
	fs.StringVar(&o.limits, "default-limits-enforcement", string(offv1beta1.NoLimitsEnforcement), "None, Soft or Hard")
	fs.BoolVar(&o.enforce, "enable-resource-enforcement", true, "hold consumers to their quota")
	fs.BoolVar(&o.nodeFailure, "enable-node-failure-controller", false, "remove the pods of consumers that cannot end because their node has failed")
	fs.StringVar(&o.podSecurity, "twin-namespace-pod-security", "baseline", "Pod Security level enforced in namespaces of consumers")
	fs.StringVar(&o.networkPolicies, "network-policies-enforced", provider.PoliciesDetected, "whether the CNI plugin enforces NetworkPolicies, for consumers: auto, true or false")
	fs.StringVar(&o.admitRemotePods, "admit-remote-pods", consumer.AdmitDetected, "NetworkPolicies that admit pods by labels get one beside them that admits remote pods by address: auto (Cilium, Kube-OVN, OVN-Kubernetes), true or false")
	fs.StringVar(&o.policyReflection, "networkpolicy-reflection-type", string(translate.DenyList), "NetworkPolicies that virtual kubelets reflect: DenyList, AllowList or Never")
	fs.IntVar(&o.maxObjects.ShadowPods, "max-shadowpods-per-tenant", 20_000, "ShadowPods that one consumer may have; 0 is any number")
	fs.IntVar(&o.maxObjects.ShadowEndpointSlices, "max-shadowendpointslices-per-tenant", 20_000, "ShadowEndpointSlices that one consumer may have; 0 is any number")
	fs.IntVar(&o.maxObjects.NamespaceMaps, "max-namespacemaps-per-tenant", 4, "NamespaceMaps that one consumer may have; 0 is any number")
	fs.IntVar(&o.maxNamespaces, "max-namespaces-per-tenant", 100, "maximum number of namespaces of one consumer")
	pods := &o.remotePods
	fs.StringSliceVar(&pods.Volumes, "remote-pod-volumes", policy.DefaultVolumes(), "kinds of volumes that pods of consumers may have")
	fs.StringSliceVar(&pods.PriorityClasses, "remote-pod-priority-classes", nil, "priority classes that they may have; a trailing * takes all that begin so")
	fs.StringSliceVar(&pods.RuntimeClasses, "remote-pod-runtime-classes", nil, "runtime classes that they may have; a trailing * takes all that begin so")
	fs.StringSliceVar(&pods.ServiceAccounts, "remote-pod-service-accounts", nil, "accounts of this cluster that they may run as, with their tokens; a trailing * takes all that begin so")
	fs.BoolVar(&pods.ControlPlane, "remote-pod-control-plane", false, "let them tolerate the taints of nodes that have a role")
	fs.StringToStringVar(&o.defaultRequests, "remote-pod-default-requests", nil, "requests added to containers of consumers that have none")
	fs.StringSliceVar(&o.reserved, "reserved-namespaces", nil, "names that no consumer gets; * at the begin or end stands for any characters")
	fs.StringToStringVar(&o.twinQuota, "twin-namespace-quota", nil, "default ResourceQuota of namespaces of consumers")
	fs.StringToStringVar(&o.twinRequests, "twin-namespace-default-requests", nil, "requests of containers of consumers that have none")
	fs.StringToStringVar(&o.twinLimits, "twin-namespace-default-limits", nil, "limits of containers of consumers that have none")
	fs.StringSliceVar(&o.droppedMetadata, "dropped-metadata", nil, "labels and annotations that objects of consumers do not get; * at the begin or end stands for any characters")
	fs.IntVar(&o.shadowPodWorkers, "shadow-pod-ctrl-workers", 10, "ShadowPods handled at once")
	fs.IntVar(&o.shadowSliceWorkers, "shadow-endpointslice-ctrl-workers", 10, "ShadowEndpointSlices handled at once")
	fs.BoolVar(&o.denyDirect, "deny-direct-connections", false, "drop endpoints of consumers that belong to other peers")
}

// ofReplicator accepts flags that belong to the original's controller-manager and to the crd-replicator of Liqo now. Their use logs a
// warning and is not an error.
func ofReplicator(fs *pflag.FlagSet) {
	for name, value := range map[string]time.Duration{"foreign-cluster-ping-interval": 15 * time.Second, "foreign-cluster-ping-timeout": 5 * time.Second} {
		fs.Duration(name, value, "")
		if err := fs.MarkDeprecated(name, "no effect in this process: set it for the crd-replicator, in crdReplicator.pod.extraArgs"); err != nil {
			panic(err) // unreachable: the flag exists
		}
	}
}

// settings are the flags, parsed, as the rooms want them.
type settings struct {
	disabled     peering.Disabled
	addresses    ipam.Options
	gateways     network.GatewayOptions
	webhooks     webhook.Options
	local        resourceslice.LocalOptions
	remote       resourceslice.RemoteOptions
	tenants      auth.TenantOptions
	virtualNodes consumer.VirtualNodeOptions
	offloadings  consumer.NamespaceOffloadingOptions
	twins        provider.NamespaceMapOptions
	shadowPods   provider.ShadowPodOptions
}

func (o *controllerManagerOptions) parseSettings() (*settings, error) {
	if err := o.checkFlags(); err != nil {
		return nil, err
	}
	template, err := namespacedName(o.vkOptionsTemplate, types.NamespacedName{Namespace: o.liqoNamespace, Name: names.VkOptionsTemplate})
	if err != nil {
		return nil, fmt.Errorf("reading --vk-options-default-template: %w", err)
	}
	remote, err := o.remoteSliceOptions()
	if err != nil {
		return nil, err
	}
	pools, err := parsePrefixes(o.pools)
	if err != nil {
		return nil, fmt.Errorf("reading --pools: %w", err)
	}
	defaultRequests, err := parseResources(o.defaultRequests)
	if err != nil {
		return nil, fmt.Errorf("reading --remote-pod-default-requests: %w", err)
	}
	twins, err := o.namespaceMapOptions()
	if err != nil {
		return nil, err
	}
	return &settings{
		addresses: ipam.Options{LiqoNamespace: o.liqoNamespace, Pools: pools},
		gateways: network.GatewayOptions{
			LiqoNamespace: o.liqoNamespace, TemplateNamespaces: o.templateNamespaces, ServerResources: o.serverKinds, ClientResources: o.clientKinds,
		},
		disabled: peering.Disabled{Networking: !o.networking, Authentication: !o.authentication, Offloading: !o.offloading},
		webhooks: webhook.Options{
			LiqoNamespace: o.liqoNamespace, Port: o.webhookPort, Lifetime: o.webhookCertificate,
			RuntimeClass: o.runtimeClass, VkOptionsTemplate: template, EnforceResources: o.enforce, Pods: o.remotePods, DroppedMetadata: o.droppedMetadata, MaxObjects: o.maxObjects, KubeletImages: o.kubeletImages,
		},
		local: resourceslice.LocalOptions{
			ClusterID: o.clusterIdentity(), LiqoNamespace: o.liqoNamespace, NodeLabels: o.acceptedNodeLabels, DisableOffloading: !o.offloading,
		},
		remote: remote,
		tenants: auth.TenantOptions{
			ClusterID: o.clusterIdentity(), LiqoNamespace: o.liqoNamespace, LegacyNonces: o.legacyNonces,
			Server:       certissuer.Server{Address: remote.APIServer, CA: remote.CA, TrustedCA: remote.TrustedCA},
			Certificates: certissuer.Options{Duration: o.controlPlaneCertificate},
		},
		virtualNodes: consumer.VirtualNodeOptions{
			ClusterID: o.clusterIdentity(), LiqoNamespace: o.liqoNamespace, VkOptionsTemplate: template, CheckArguments: kubelet.Check, Images: o.kubeletImages,
		},
		offloadings: consumer.NamespaceOffloadingOptions{ClusterID: o.clusterIdentity(), LiqoNamespace: o.liqoNamespace, RuntimeClass: o.runtimeClass, PolicyReflection: translate.ReflectionType(o.policyReflection)},
		twins:       twins,
		shadowPods: provider.ShadowPodOptions{
			Workers: o.shadowPodWorkers, Enforce: o.enforce, NodeFailure: o.nodeFailure, Pods: o.remotePods, DefaultRequests: defaultRequests, DroppedMetadata: o.droppedMetadata,
		},
	}, nil
}

func (o *controllerManagerOptions) namespaceMapOptions() (provider.NamespaceMapOptions, error) {
	out := provider.NamespaceMapOptions{
		LiqoNamespace: o.liqoNamespace, Version: program.Version, PodSecurity: o.podSecurity, NetworkPolicies: o.networkPolicies, MaxNamespaces: o.maxNamespaces, ReservedNamespaces: o.reserved,
	}
	for _, amounts := range []struct {
		flag  string
		given map[string]string
		into  *corev1.ResourceList
	}{
		{"twin-namespace-quota", o.twinQuota, &out.Quota},
		{"twin-namespace-default-requests", o.twinRequests, &out.Requests},
		{"twin-namespace-default-limits", o.twinLimits, &out.Limits},
	} {
		parsed, err := parseResources(amounts.given)
		if err != nil {
			return out, fmt.Errorf("reading --%s: %w", amounts.flag, err)
		}
		*amounts.into = parsed
	}
	return out, nil
}

func (o *controllerManagerOptions) remoteSliceOptions() (resourceslice.RemoteOptions, error) {
	out := resourceslice.RemoteOptions{
		APIServer: o.apiServer, TrustedCA: o.trustedCA, CertificateDuration: o.sliceCertificate,
		DisableDefaultClass: !o.defaultClass, Storage: o.storage, RealStorageClass: o.volumes.RealStorageClass,
		Caps: policy.SliceCaps{Slices: o.maxSlices}, LimitsEnforcement: offv1beta1.LimitsEnforcement(o.limits),
	}
	ca, err := base64.StdEncoding.DecodeString(o.ca)
	if err != nil {
		return out, fmt.Errorf("reading --ca-override: %w", err)
	}
	out.CA = ca
	out.Defaults.NodeLabels = o.clusterLabels
	if out.Defaults.Resources, err = parseResources(o.nodeResources); err != nil {
		return out, fmt.Errorf("reading --default-node-resources: %w", err)
	}
	if out.Caps.Tenant, err = parseResources(o.maxOfTenant); err != nil {
		return out, fmt.Errorf("reading --max-resources-per-tenant: %w", err)
	}
	if out.Caps.Provider, err = parseResources(o.maxOfAll); err != nil {
		return out, fmt.Errorf("reading --max-resources: %w", err)
	}
	for _, c := range parseClasses(o.ingressClasses) {
		out.Defaults.IngressClasses = append(out.Defaults.IngressClasses, liqov1beta1.IngressType{IngressClassName: c.name, Default: c.isDefault})
	}
	for _, c := range parseClasses(o.loadBalancers) {
		out.Defaults.LoadBalancerClasses = append(out.Defaults.LoadBalancerClasses, liqov1beta1.LoadBalancerType{LoadBalancerClassName: c.name, Default: c.isDefault})
	}
	return out, nil
}

// parsePrefixes parses prefixes and rejects overlaps.
func parsePrefixes(texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		switch {
		case err != nil || p.Addr().Is4In6():
			return nil, fmt.Errorf("%q is not an address range", text)
		case p.Masked() != p:
			return nil, fmt.Errorf("%q: did you mean %q?", text, p.Masked())
		}
		if i := slices.IndexFunc(out, p.Overlaps); i >= 0 {
			return nil, fmt.Errorf("%s and %s overlap", out[i], p)
		}
		out = append(out, p)
	}
	return out, nil
}

func namespacedName(s string, fallback types.NamespacedName) (types.NamespacedName, error) {
	if s == "" {
		return fallback, nil
	}
	namespace, name, ok := strings.Cut(s, "/")
	if !ok || namespace == "" || name == "" {
		return fallback, fmt.Errorf("%q is not <namespace>/<name>", s)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

func parseResources(m map[string]string) (corev1.ResourceList, error) {
	out := corev1.ResourceList{}
	for name, text := range m {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", name, text, err)
		}
		out[corev1.ResourceName(name)] = q
	}
	return out, nil
}

type gatewayClass struct {
	name      string
	isDefault bool
}

// parseClasses reads a;default,b.
func parseClasses(s string) []gatewayClass {
	var out []gatewayClass
	for part := range strings.SplitSeq(s, ",") {
		if name, mark, _ := strings.Cut(strings.TrimSpace(part), ";"); name != "" {
			out = append(out, gatewayClass{name: name, isDefault: mark == "default"})
		}
	}
	return out
}

// cachedKinds restricts the cache of the controller-manager: of Secrets only its own certificates, of Deployments only its own, of volumes only the
// virtual ones.
func cachedKinds(liqoNamespace string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Namespaces: map[string]cache.Config{
			liqoNamespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", names.WebhookCertsSecret)},
		}},
		&appsv1.Deployment{}:       {Label: labels.SelectorFromSet(labels.Set{names.AppManagedBy: names.ManagedByLiqo})},
		&corev1.PersistentVolume{}: {Label: labels.SelectorFromSet(labels.Set{names.StorageProvisioner: "true"})},
	}
}
