// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// CertificateType is the source of the serving certificate.
type CertificateType string

const (
	// CertificateKubelet asks the signer kubernetes.io/kubelet-serving. It is the default.
	CertificateKubelet CertificateType = "kubelet"
	// CertificateAWS asks the signer of EKS, a separate one for kubelets.
	CertificateAWS CertificateType = "aws"
	// CertificateSelfSigned needs no signer, for API servers that do not verify kubelets.
	CertificateSelfSigned CertificateType = "self-signed"
)

// Reflection configures the reflection of one kind.
type Reflection struct {
	// Workers is the number of objects handled at once; 0 is the default, a negative number disables the kind.
	Workers int
	// Type selects the objects; empty is DenyList. Pods have none.
	Type translate.ReflectionType
}

// Options configure one virtual kubelet. Each field is a flag, except PublicRoots.
type Options struct {
	// Config reaches the local API server (--home-kubeconfig).
	Config *rest.Config
	// PublicRoots is called before connecting to a provider whose kubeconfig has no certificate authority; may be nil.
	PublicRoots func()
	// Node is the name of the VirtualNode, of the Node and of the lease of this process (--nodename).
	Node string
	// NodeIP is the address of the kubelet API, that of the pod (--node-ip).
	NodeIP netip.Addr
	// AllowLoopbackPeers lets the provider be on this machine (--allow-loopback-peers).
	AllowLoopbackPeers bool
	// TenantNamespace holds the VirtualNode, its kubeconfig Secret and the NamespaceMap (--tenant-namespace).
	TenantNamespace string
	// MapNamespace holds the NamespaceMap of a VirtualNode outside of the tenant namespace; empty for TenantNamespace
	// (--namespacemap-namespace).
	MapNamespace string
	// ClusterID is this cluster and Provider the other (--home-cluster-id, --foreign-cluster-id).
	ClusterID, Provider liqov1beta1.ClusterID
	// KubeconfigSecret names the Secret with the provider's kubeconfig (--foreign-kubeconfig-secret-name); empty selects that
	// of the VirtualNode.
	KubeconfigSecret string
	// CreateNode creates the Node (--create-node).
	CreateNode bool
	// CheckNetwork makes the Node ready only with a network to the provider, where one is set up (--node-check-network).
	CheckNetwork bool
	// NodeLabels and NodeAnnotations are added to the Node (--node-extra-labels, --node-extra-annotations).
	NodeLabels, NodeAnnotations map[string]string
	// PingInterval and PingTimeout configure the check of the provider's API server (--node-ping-interval, --node-ping-timeout);
	// 0 is 10 s and 1 s, a negative interval disables the check.
	PingInterval, PingTimeout time.Duration
	// NodeLeaseDuration is the validity of the Node lease after a renewal (--node-lease-duration); 0 is 40 s.
	NodeLeaseDuration time.Duration
	// DisableIPReflection hides the addresses of remote pods even if a network leads to them, and reflects no
	// EndpointSlices (--disable-ip-reflection).
	DisableIPReflection bool
	// APIServerSupport gives pods tokens of their ServiceAccounts, and routes them to this cluster's API server if a network leads to it
	// (--enable-apiserver-support).
	APIServerSupport bool
	// TokenAudiences are the audiences, beside the API server, whose tokens are sent to the provider for each pod that projects them
	// (--token-audiences); "*" is all. A pod may name others by an annotation.
	TokenAudiences []string
	// APIServerHost is the address of this cluster's API server for pods without a network to it (--home-api-server-host); empty
	// gives them no access. APIServerPort is the port, also by a network (--home-api-server-port); 0 is 443.
	APIServerHost string
	APIServerPort uint16
	// LiqoNamespace is the namespace of the installation (--liqo-namespace); empty is names.LiqoNamespace.
	LiqoNamespace string
	// Certificate is the source of the serving certificate (--certificate-type); empty is CertificateKubelet.
	Certificate CertificateType
	// ListenPort is the port of the kubelet API (--listen-port); 0 is 10250.
	ListenPort int
	// Pods, ConfigMaps, Secrets, Ingresses, NetworkPolicies, Services and Events: --<kind>-reflection-workers and --<kind>-reflection-type.
	Pods, ConfigMaps, Secrets, Ingresses, NetworkPolicies, Services, Events Reflection
	// EndpointSlices have no type: the type of Services decides. Claims have no type: claims of virtual volumes are reflected.
	EndpointSlices, Claims Reflection
	// LocalPods are the networks of the pods of this cluster (--local-podcidr), beside those in the Configuration of the
	// provider.
	LocalPods []netip.Prefix
	// LabelsNotReflected and AnnotationsNotReflected are not reflected, beside those in the VirtualNode's patch
	// (--labels-not-reflected, --annotations-not-reflected).
	LabelsNotReflected, AnnotationsNotReflected []string
	// Resources are copied on request (--resource-reflection).
	Resources []ResourceReflection
	// IngressClass is the class that Ingresses have in the provider (--remote-real-ingress-class-name, only with
	// --enable-ingress); empty leaves the class to the provider.
	IngressClass string
	// LoadBalancerClass is the same for Services of type LoadBalancer (--remote-real-load-balancer-class-name, only with
	// --enable-load-balancer).
	LoadBalancerClass string
	// LeaseEnabled, LeaseDuration, LeaseRenew and LeaseRetry configure the leader election of several replicas (--vk-lease-enabled,
	// --vk-lease-duration, --vk-lease-renew-interval, --vk-lease-retry-period).
	LeaseEnabled                          bool
	LeaseDuration, LeaseRenew, LeaseRetry time.Duration
	// PeerCacheLimit is the maximum size of the objects that are cached from the provider, in bytes, beside the copies of objects of
	// this cluster (--peer-cache-limit); 0 is 256 MiB.
	PeerCacheLimit int64
	// PodName identifies this replica in leases (env POD_NAME); empty is the host name.
	PodName string
	// MetricsAddress serves /metrics to authorised clients (--metrics-address, "0" unless --metrics-enabled).
	MetricsAddress string
	// PlainMetrics serves metrics by plain HTTP, without authorisation (--metrics-secure=false).
	PlainMetrics bool
	// ProfilingAddress serves /debug/pprof/ (--enable-profiling); empty disables it.
	ProfilingAddress string
	// HealthAddress serves /healthz and /readyz; empty is :8081, "0" disables it.
	HealthAddress string
	// Log is the logger of the process; the zero value is silent.
	Log logr.Logger
	// RepeatNames allows several virtual kubelets in one process, as in tests.
	RepeatNames bool
}

// The defaults are the original's: manifests rely on them.
const (
	defaultPodWorkers    = 10
	defaultConfigWorkers = 3
	defaultSliceWorkers  = 10
	defaultPingInterval  = 10 * time.Second
	defaultPingTimeout   = time.Second
	defaultNodeLease     = 40 * time.Second
	defaultLease         = 15 * time.Second
	defaultRenew         = 10 * time.Second
	defaultRetry         = 5 * time.Second

	defaultPeerCache = 256 << 20
)

func (o Options) withDefaults() Options {
	o.PingInterval = cmp.Or(o.PingInterval, defaultPingInterval)
	o.PingTimeout = cmp.Or(o.PingTimeout, defaultPingTimeout)
	o.NodeLeaseDuration = cmp.Or(o.NodeLeaseDuration, defaultNodeLease)
	o.LeaseDuration = cmp.Or(o.LeaseDuration, defaultLease)
	o.LeaseRenew = cmp.Or(o.LeaseRenew, defaultRenew)
	o.LeaseRetry = cmp.Or(o.LeaseRetry, defaultRetry)
	o.Certificate = cmp.Or(o.Certificate, CertificateKubelet)
	o.APIServerPort = cmp.Or(o.APIServerPort, 443)
	o.LiqoNamespace = cmp.Or(o.LiqoNamespace, names.LiqoNamespace)
	o.ListenPort = cmp.Or(o.ListenPort, names.KubeletPort)
	o.MetricsAddress = cmp.Or(o.MetricsAddress, "0")
	o.PeerCacheLimit = cmp.Or(o.PeerCacheLimit, defaultPeerCache)
	o.Pods.Workers = cmp.Or(o.Pods.Workers, defaultPodWorkers)
	o.EndpointSlices.Workers = cmp.Or(o.EndpointSlices.Workers, defaultSliceWorkers)
	for _, r := range []*Reflection{&o.ConfigMaps, &o.Secrets, &o.Ingresses, &o.NetworkPolicies, &o.Services, &o.Events, &o.Claims} {
		r.Workers = cmp.Or(r.Workers, defaultConfigWorkers)
	}
	return o
}

func (o Options) validateOptions() error {
	if o.Config == nil {
		return errors.New("no connection to the local cluster")
	}
	return o.Check()
}

// Check validates the options.
func (o Options) Check() error {
	switch {
	case o.Node == "" || o.TenantNamespace == "":
		return errors.New("the names of the virtual node and of its tenant namespace are needed")
	case o.ClusterID == "" || o.Provider == "":
		return errors.New("the cluster IDs of both clusters are needed")
	case !o.NodeIP.IsValid():
		return errors.New("the address of the virtual node is needed")
	case !slices.Contains([]CertificateType{"", CertificateKubelet, CertificateAWS, CertificateSelfSigned}, o.Certificate):
		return fmt.Errorf("the source of certificates %q does not exist: it can be kubelet, aws or self-signed", o.Certificate)
	}
	return errors.Join(o.checkNode(), o.checkMetrics(), o.validateReflection())
}

// checkNode refuses labels and annotations that the API server would refuse on the Node.
func (o Options) checkNode() error {
	errs := metav1validation.ValidateLabels(o.NodeLabels, field.NewPath("the labels of the node"))
	errs = append(errs, apivalidation.ValidateAnnotations(o.NodeAnnotations, field.NewPath("the annotations of the node"))...)
	return errs.ToAggregate()
}

func (o Options) checkMetrics() error {
	if o.MetricsAddress == "" || o.MetricsAddress == "0" {
		return nil
	}
	_, port, err := net.SplitHostPort(o.MetricsAddress)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("the address of metrics %q is not of the form host:port or :port", o.MetricsAddress)
	}
	return nil
}

// targetIn returns the translation target of a remote namespace.
func (o Options) targetIn(namespace string) translate.Target {
	return translate.Target{Origin: o.ClusterID, Destination: o.Provider, Node: o.Node, Namespace: namespace, Audiences: o.TokenAudiences}
}

// ResourceReflection configures the reflection of one resource of a kind unknown to Liqo.
type ResourceReflection struct {
	Reflection
	Resource schema.GroupVersionResource
}

// ParseResourceReflection parses resource.version.group:workers:type; the last two are optional, with defaults 3 and
// DenyList.
func ParseResourceReflection(text string) (ResourceReflection, error) {
	parts := strings.Split(text, ":")
	if len(parts) > 3 {
		return ResourceReflection{}, fmt.Errorf("%q is not of the form resource.version.group:workers:type", text)
	}
	resource, _ := schema.ParseResourceArg(parts[0])
	if resource == nil {
		return ResourceReflection{}, fmt.Errorf("%q is not of the form resource.version.group", parts[0])
	}
	out := ResourceReflection{Resource: *resource, Reflection: Reflection{Workers: defaultConfigWorkers}}
	if len(parts) > 1 {
		workers, err := strconv.ParseUint(parts[1], 10, 16)
		if err != nil {
			return ResourceReflection{}, fmt.Errorf("reading the workers of %s: %w", parts[0], err)
		}
		out.Workers = int(workers)
	}
	if len(parts) > 2 {
		out.Type = translate.ReflectionType(parts[2])
	}
	return out, nil
}

// validateReflection refuses options that would copy more than was meant: a misspelled policy, or a guarded kind.
func (o Options) validateReflection() error {
	var errs []error
	check := func(what string, is translate.ReflectionType, among ...translate.ReflectionType) {
		if !slices.Contains(append(among, "", translate.DenyList, translate.AllowList, translate.CustomLiqo), is) {
			errs = append(errs, fmt.Errorf("the reflection type %q of %s does not exist", is, what))
		}
	}
	check("ConfigMaps", o.ConfigMaps.Type, translate.UsedByPods)
	check("Secrets", o.Secrets.Type, translate.UsedByPods)
	check("Ingresses", o.Ingresses.Type)
	check("NetworkPolicies", o.NetworkPolicies.Type)
	check("Services", o.Services.Type)
	check("events", o.Events.Type)
	seen := map[schema.GroupResource]bool{}
	for _, r := range o.Resources {
		check(r.Resource.GroupResource().String(), r.Type)
		errs = append(errs, translate.MayReflect(r.Resource))
		if seen[r.Resource.GroupResource()] {
			errs = append(errs, fmt.Errorf("resource %s is named twice", r.Resource.GroupResource()))
		}
		seen[r.Resource.GroupResource()] = true
	}
	return errors.Join(errs...)
}
