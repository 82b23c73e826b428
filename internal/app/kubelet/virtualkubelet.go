// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/app/program"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/virtualkubelet"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// Cluster-wide permissions are those that RBAC cannot narrow to one node. The policies liqo-virtual-kubelets-* narrow them, and
// recognise a virtual kubelet by the virtual verb represent. The rest is granted in each offloaded namespace, marked "offloaded" below.
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=represent
// +kubebuilder:rbac:groups="",resources=nodes,verbs=create;get;list;patch;update;watch
// +kubebuilder:rbac:groups="",resources=nodes/status,verbs=patch;update
// +kubebuilder:rbac:groups="",resources=pods,verbs=delete;get;list;watch
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch;update
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create;get;patch;update
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations,verbs=get;list;watch
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips,verbs=get;list;watch
// The serving certificate of its port, and the authorization of its clients.
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=create;get;list;watch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=extension-apiserver-authentication,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=offloaded,resources=configmaps;events;persistentvolumeclaims;secrets;services,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=offloaded,resources=persistentvolumeclaims/status,verbs=update
// Tokens of their own accounts for the pods that run in the provider.
// +kubebuilder:rbac:groups="",namespace=offloaded,resources=serviceaccounts/token,verbs=create
// +kubebuilder:rbac:groups=discovery.k8s.io,namespace=offloaded,resources=endpointslices,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,namespace=offloaded,resources=ingresses;networkpolicies,verbs=get;list;watch

// kubeletOptions are the flags of the virtual kubelet. Names and defaults are the original's; manifests contain them, so flags without a meaning yet
// are accepted.
type kubeletOptions struct {
	virtualkubelet.Options
	nodeIP, home, foreign, certificate string
	apiServerHost, apiServerPort       string
	podWorkers, sliceWorkers           int
	claimWorkers                       int
	peerCache                          string
	localPods                          []string
	// configMaps and the following fields are the flags of one kind each.
	configMaps, secrets, ingresses, services, events                reflectionFlags
	networkPolicies                                                 reflectionFlags
	resources                                                       []string
	ingressClass, loadBalancerClass                                 string
	withIngressClass, withLoadBalancerClass, metrics, secureMetrics bool
	profiling                                                       program.Profiling
}

// reflectionFlags are the number of workers of a kind, and its reflection policy.
type reflectionFlags struct {
	workers int
	kind    string
}

func (r reflectionFlags) reflectionOption() virtualkubelet.Reflection {
	return virtualkubelet.Reflection{Workers: orOff(r.workers), Type: translate.ReflectionType(r.kind)}
}

// Command returns the virtual kubelet as a command.
func Command() *cobra.Command {
	o := &kubeletOptions{}
	cmd := &cobra.Command{
		Use:   "virtual-kubelet",
		Short: "Serves a virtual node: its Node, its pods and their objects, logs and exec",

		Annotations: map[string]string{program.RootsOnDemand: "yes"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return o.runKubelet(cmd.Context()) },
	}
	fs := cmd.Flags()
	o.addFlags(fs)
	o.addReflectionFlags(fs)
	o.addTimingFlags(fs)
	addAcceptedFlags(fs)
	return cmd
}

func (o *kubeletOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Node, "nodename", "virtual-kubelet", "name of the VirtualNode and of its Node")
	fs.StringVar(&o.nodeIP, "node-ip", os.Getenv("POD_IP"), "address of the kubelet API")
	fs.StringVar(&o.TenantNamespace, "tenant-namespace", "default", "namespace of the VirtualNode")
	fs.StringVar(&o.MapNamespace, "namespacemap-namespace", "", "namespace of the NamespaceMap; empty for that of the VirtualNode")
	fs.StringVar(&o.home, "home-cluster-id", "", "ID of this cluster")
	fs.StringVar(&o.foreign, "foreign-cluster-id", "", "ID of the provider")
	fs.StringVar(&o.KubeconfigSecret, "foreign-kubeconfig-secret-name", "", "Secret with the provider's kubeconfig; empty for that of the VirtualNode")
	fs.BoolVar(&o.CreateNode, "create-node", true, "show the Node")
	fs.BoolVar(&o.CheckNetwork, "node-check-network", true, "be ready only with a network to the provider, where one is set up")
	fs.StringToStringVar(&o.NodeLabels, "node-extra-labels", nil, "labels of the Node")
	fs.StringToStringVar(&o.NodeAnnotations, "node-extra-annotations", nil, "annotations of the Node")
	fs.BoolVar(&o.DisableIPReflection, "disable-ip-reflection", false, "hide the addresses of remote pods, and reflect no EndpointSlices")
	fs.StringSliceVar(&o.localPods, "local-podcidr", nil, "networks of the pods of this cluster, beside those in the Configuration of the provider")
	fs.StringVar(&o.LiqoNamespace, "liqo-namespace", names.LiqoNamespace, "namespace that Liqo is installed in")
	fs.BoolVar(&o.APIServerSupport, "enable-apiserver-support", false, "let pods use this API server, with tokens of their accounts, where a network leads to it")
	fs.StringSliceVar(&o.TokenAudiences, "token-audiences", nil, "audiences, beside this API server, whose tokens go along with the pods that ask for them; * is all")
	fs.StringVar(&o.apiServerHost, "home-api-server-host", "", "where pods reach this API server without a network to it; only with a port")
	fs.StringVar(&o.apiServerPort, "home-api-server-port", "", "the port of that")
	fs.BoolVar(&o.AllowLoopbackPeers, "allow-loopback-peers", false, "connect to a provider on the loopback addresses of this machine, as in tests")
	fs.StringVar(&o.certificate, "certificate-type", string(virtualkubelet.CertificateKubelet), "where the serving certificate comes from: kubelet, aws or self-signed")
	fs.IntVar(&o.ListenPort, "listen-port", names.KubeletPort, "port of the kubelet API")
	fs.BoolVar(&o.metrics, "metrics-enabled", false, "serve metrics")
	fs.StringVar(&o.MetricsAddress, "metrics-address", ":8082", "where, by TLS to those who may read them")
	fs.BoolVar(&o.secureMetrics, "metrics-secure", true, "false serves them by HTTP to anybody")
	fs.StringVar(&o.peerCache, "peer-cache-limit", "256Mi", "memory for objects of the provider, beside copies of those of this cluster")
	o.profiling.Flag(fs)
	fs.StringVar(&o.HealthAddress, "health-probe-address", ":8081", "where /healthz and /readyz are served; 0 for nowhere")
}

func (o *kubeletOptions) addReflectionFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.podWorkers, "pod-reflection-workers", 10, "pods handled at once")
	fs.IntVar(&o.sliceWorkers, "endpointslice-reflection-workers", 10, "EndpointSlices handled at once; 0 reflects none. Their Services say which")
	fs.IntVar(&o.claimWorkers, "persistentvolumeclaim-reflection-workers", 3, "claims handled at once; 0 reflects none")
	for name, kind := range map[string]*reflectionFlags{
		"configmap": &o.configMaps, "secret": &o.secrets, "ingress": &o.ingresses, "networkpolicy": &o.networkPolicies, "service": &o.services, "event": &o.events,
	} {
		types := "DenyList or AllowList"
		if name == "configmap" || name == "secret" {
			types = "DenyList, AllowList or UsedByPods"
		}
		fs.IntVar(&kind.workers, name+"-reflection-workers", 3, "objects handled at once; 0 reflects none")
		fs.StringVar(&kind.kind, name+"-reflection-type", "DenyList", types)
	}
	fs.StringSliceVar(&o.LabelsNotReflected, "labels-not-reflected", nil, "labels that are not reflected, in addition to those of the VirtualNode")
	fs.StringSliceVar(&o.AnnotationsNotReflected, "annotations-not-reflected", nil, "annotations that are not reflected, in addition to those of the VirtualNode")
	fs.StringArrayVar(&o.resources, "resource-reflection", nil,
		"one more resource to reflect, as resource.version.group:workers:type; both clusters must grant the rights")
	fs.BoolVar(&o.withIngressClass, "enable-ingress", false, "name a class of the provider in reflected Ingresses")
	fs.StringVar(&o.ingressClass, "remote-real-ingress-class-name", "", "which class that is")
	fs.BoolVar(&o.withLoadBalancerClass, "enable-load-balancer", false, "name a class of the provider in reflected Services of type LoadBalancer")
	fs.StringVar(&o.loadBalancerClass, "remote-real-load-balancer-class-name", "", "which class that is")
}

func (o *kubeletOptions) addTimingFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.PingInterval, "node-ping-interval", 10*time.Second, "time between two looks at the provider's API server; 0 trusts it blindly")
	fs.DurationVar(&o.PingTimeout, "node-ping-timeout", time.Second, "how long one look may take")
	fs.DurationVar(&o.NodeLeaseDuration, "node-lease-duration", 40*time.Second, "how long the Node is believed after its last sign of life")
	fs.BoolVar(&o.LeaseEnabled, "vk-lease-enabled", true, "let only one replica act")
	fs.DurationVar(&o.LeaseDuration, "vk-lease-duration", 15*time.Second, "how long a dead leader is waited for")
	fs.DurationVar(&o.LeaseRenew, "vk-lease-renew-interval", 10*time.Second, "how long a leader tries to stay one")
	fs.DurationVar(&o.LeaseRetry, "vk-lease-retry-period", 5*time.Second, "time between two tries")
}

// addAcceptedFlags adds flags in the original's templates without a meaning in this version.
func addAcceptedFlags(fs *pflag.FlagSet) {
	for _, name := range []string{
		"home-kubeconfig", "resync-period", "virtual-storage-class-name", "remote-real-storage-class-name",
		"client-qps", "client-max-burst", "client-timeout",
		"serviceaccount-reflection-workers",
	} {
		fs.String(name, "", "accepted, without effect")
	}
	fs.Bool("enable-storage", false, "accepted, without effect")
	for _, name := range []string{"remote-pod-cidr", "remote-pod-cidr-remap", "remote-external-cidr", "remote-external-cidr-remap"} {
		fs.StringArray(name, nil, "accepted, without effect")
	}
}

func (o *kubeletOptions) runKubelet(ctx context.Context) error {
	if err := o.parseFlags(); err != nil {
		return err
	}
	var err error
	if o.Config, err = program.LocalConfig(ctx, o.HealthAddress); err != nil {
		return err
	}
	if o.Config.CAFile == "" && len(o.Config.CAData) == 0 {
		program.PublicRoots()
	}
	o.PublicRoots = program.PublicRoots
	o.PodName = os.Getenv("POD_NAME")
	o.Log = klog.Background()
	program.LimitMemory()
	return virtualkubelet.Run(ctx, o.Options)
}

// Check returns why a virtual kubelet would not start with these arguments, or nil. The value of $(VAR) in an
// argument is known only at run time.
func Check(args []string) error {
	o := &kubeletOptions{}
	fs := pflag.NewFlagSet("virtual-kubelet", pflag.ContinueOnError)
	o.addFlags(fs)
	o.addReflectionFlags(fs)
	o.addTimingFlags(fs)
	addAcceptedFlags(fs)
	fs.String("log-format", "", "")
	fs.StringP("v", "v", "", "") // the logging flags would change how this process logs
	fs.String("vmodule", "", "")
	if err := fs.Parse(literalArguments(args)); err != nil {
		return err
	}
	o.nodeIP = netip.IPv4Unspecified().String()
	for _, needed := range []*string{&o.Node, &o.TenantNamespace, &o.home, &o.foreign} {
		*needed = cmp.Or(*needed, "unknown")
	}
	if err := o.parseFlags(); err != nil {
		return err
	}
	return o.Check()
}

// literalArguments drops the arguments expanded by Kubernetes, and the flags of these arguments.
func literalArguments(args []string) []string {
	var out []string
	for _, arg := range args {
		if !strings.Contains(arg, "$(") {
			out = append(out, arg)
			continue
		}
		if last := len(out) - 1; last >= 0 && !strings.HasPrefix(arg, "-") && strings.HasPrefix(out[last], "-") && !strings.Contains(out[last], "=") {
			out = out[:last]
		}
	}
	return out
}

// parseFlags converts the flags to options.
func (o *kubeletOptions) parseFlags() error {
	var err error
	if o.NodeIP, err = netip.ParseAddr(o.nodeIP); err != nil {
		return fmt.Errorf("reading --node-ip: %w", err)
	}
	o.ClusterID, o.Provider = liqov1beta1.ClusterID(o.home), liqov1beta1.ClusterID(o.foreign)
	o.Certificate = virtualkubelet.CertificateType(o.certificate)
	o.Pods = virtualkubelet.Reflection{Workers: orOff(o.podWorkers)}
	o.EndpointSlices = virtualkubelet.Reflection{Workers: orOff(o.sliceWorkers)}
	o.Claims = virtualkubelet.Reflection{Workers: orOff(o.claimWorkers)}
	o.ConfigMaps, o.Secrets, o.Ingresses, o.Services, o.Events =
		o.configMaps.reflectionOption(), o.secrets.reflectionOption(), o.ingresses.reflectionOption(), o.services.reflectionOption(), o.events.reflectionOption()
	o.NetworkPolicies = o.networkPolicies.reflectionOption()
	if o.withIngressClass {
		o.IngressClass = o.ingressClass
	}
	if o.withLoadBalancerClass {
		o.LoadBalancerClass = o.loadBalancerClass
	}
	if err := o.readAPIServer(); err != nil {
		return err
	}
	limit, err := resource.ParseQuantity(o.peerCache)
	if err == nil && limit.Sign() <= 0 {
		err = fmt.Errorf("invalid limit %q: must be greater than 0", o.peerCache)
	}
	if err != nil {
		return fmt.Errorf("reading --peer-cache-limit: %w", err)
	}
	o.PeerCacheLimit = limit.Value()
	for _, text := range o.localPods {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("reading --local-podcidr: %w", err)
		}
		o.LocalPods = append(o.LocalPods, prefix.Masked())
	}
	for _, text := range o.resources {
		resource, err := virtualkubelet.ParseResourceReflection(text)
		if err != nil {
			return fmt.Errorf("reading --resource-reflection: %w", err)
		}
		o.Resources = append(o.Resources, resource)
	}
	o.PlainMetrics = !o.secureMetrics
	if !o.metrics {
		o.MetricsAddress = "0"
	}
	o.ProfilingAddress = o.profiling.Address()
	if o.Options.PingInterval == 0 {
		o.PingInterval = -1
	}
	return nil
}

// readAPIServer returns the port of the API server as seen by pods of this cluster, unless the flags set the address.
func (o *kubeletOptions) readAPIServer() error {
	port := os.Getenv("KUBERNETES_SERVICE_PORT")
	if o.apiServerHost != "" && o.apiServerPort != "" {
		if o.APIServerSupport && isAPIServerService(o.apiServerHost) {
			return fmt.Errorf("reading --home-api-server-host: %q is the name of the provider's API server in its pods", o.apiServerHost)
		}
		o.APIServerHost, port = o.apiServerHost, o.apiServerPort
	}
	if port == "" {
		return nil
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return fmt.Errorf("reading --home-api-server-port, or the environment: invalid port %q", port)
	}
	o.APIServerPort = uint16(number)
	return nil
}

// isAPIServerService reports whether the name is the in-cluster name of the API server. The name is the same in every cluster.
func isAPIServerService(host string) bool {
	return host == names.APIServerService || host == names.APIServerHost || strings.HasPrefix(host+".", names.APIServerHost+".svc.")
}

// orOff converts the flags' 0 (reflection is disabled) to the options' negative value.
func orOff(workers int) int {
	if workers == 0 {
		return -1
	}
	return workers
}
