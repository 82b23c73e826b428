// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/agent/node"
	"liqo.io/liqo/internal/app/program"
	"liqo.io/liqo/internal/datapath/kernel"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// fabricOptions are the flags of the agent of a node. Names and defaults are the original's.
type fabricOptions struct {
	node, liqoNamespace           string
	healthAddress, metricsAddress string
	rulePriority                  int
	pingInterval                  time.Duration
	pingLossThreshold             int
	peerAccess                    string
	consumerNodeAccess            bool
	profiling                     program.Profiling
}

// Values of --peer-access.
const (
	peerAccessAll       = "all"
	peerAccessOffloaded = "offloaded"
)

// Peers, their gateways, the other nodes, and the pods of this node.
// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations;firewallconfigurations;gatewayclients;gatewayservers;internalnodes;routeconfigurations,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=firewallconfigurations/status;internalnodes/status;routeconfigurations/status,verbs=update;patch
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips;networks,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespaceoffloadings,verbs=list;watch
//
// The active replicas of gateways: a selector keeps all other Leases away, but RBAC knows none.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch
//
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
//
// The Services that may have a translated IP: of the API server, and of the proxy through which peers reach it.
// +kubebuilder:rbac:groups="",namespace=default,resources=services,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,namespace=default,resources=endpointslices,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=liqo,resources=services,resourceNames=liqo-proxy,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,namespace=liqo,resources=endpointslices,verbs=get;list;watch

// newFabricCommand returns the agent of a node. The agent routes to peers.
func newFabricCommand() *cobra.Command {
	o := &fabricOptions{}
	cmd := &cobra.Command{
		Use:   "fabric",
		Short: "Lead the pods of a node to the gateways of peers",
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.runFabric(cmd.Context()) },
	}
	fs := cmd.Flags()
	fs.StringVar(&o.node, "nodename", "", "name of this node")
	fs.StringVar(&o.liqoNamespace, "liqo-namespace", names.LiqoNamespace, "namespace that Liqo is installed in")
	fs.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "where /healthz and /readyz are served; 0 for nowhere")
	fs.StringVar(&o.metricsAddress, "metrics-address", ":8082", "where /metrics is served, by TLS to those who may read it; 0 for nowhere")
	fs.IntVar(&o.rulePriority, "fabric-route-rule-priority", 0, "priority of the rule that leads to peers; 0 for 105, before those of CNIs for single pods")
	fs.DurationVar(&o.pingInterval, "ping-interval", time.Second, "time between two probes of the way of pods to a peer; 0 for none")
	fs.IntVar(&o.pingLossThreshold, "ping-loss-threshold", 4, "lost probes in a row after which pods do not reach a peer")
	fs.StringVar(&o.peerAccess, "peer-access", peerAccessAll, "pods that peers reach: all, or offloaded for those of offloaded and of their own remote namespaces, and labelled ones")
	fs.BoolVar(&o.consumerNodeAccess, "remote-pod-node-access", true, "let pods of consumers reach nodes, metadata services and the API server")
	o.profiling.Flag(fs)
	return cmd
}

func (o *fabricOptions) runFabric(ctx context.Context) error {
	program.LeaveGarbage()
	if o.node == "" {
		return errors.New("--nodename is missing: it is the name of this node")
	}
	if o.pingInterval < 0 || o.pingLossThreshold <= 0 {
		return errors.New("--ping-interval is not below zero, and --ping-loss-threshold above")
	}
	if o.peerAccess != peerAccessAll && o.peerAccess != peerAccessOffloaded {
		return fmt.Errorf("invalid --peer-access %q: must be %s or %s", o.peerAccess, peerAccessAll, peerAccessOffloaded)
	}
	cfg, err := program.LocalConfig(ctx, o.healthAddress)
	if err != nil {
		return err
	}
	k, err := kernel.Open(kernel.Options{})
	if err != nil {
		return err
	}
	defer k.Close()
	mgr, err := kube.NewManager(cfg, kube.ManagerOptions{
		Name: names.Fabric, HealthAddress: o.healthAddress, MetricsAddress: o.metricsAddress, ProfilingAddress: o.profiling.Address(),
		Objects: o.cachedKinds(),
	})
	if err != nil {
		return err
	}
	if err := agent.ServeState(mgr, k); err != nil {
		return err
	}
	if err := node.Setup(mgr, k, node.Options{
		Node: o.node, LiqoNamespace: o.liqoNamespace, RulePriority: o.rulePriority,
		PingInterval: o.pingInterval, PingLossThreshold: o.pingLossThreshold,
		OffloadedOnly: o.peerAccess == peerAccessOffloaded, IsolateConsumers: !o.consumerNodeAccess,
	}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// cachedKinds restricts the cache of a node's agent: its own pods, the Services of the API server and of the proxy, and rules of the installation.
func (o *fabricOptions) cachedKinds() map[client.Object]cache.ByObject {
	home := cache.ByObject{Namespaces: map[string]cache.Config{o.liqoNamespace: {}}}
	services, slices := map[string]cache.Config{}, map[string]cache.Config{}
	for _, s := range []types.NamespacedName{
		{Namespace: o.liqoNamespace, Name: names.ProxyService}, {Namespace: metav1.NamespaceDefault, Name: names.APIServerService},
	} {
		services[s.Namespace] = cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", s.Name)}
		slices[s.Namespace] = cache.Config{LabelSelector: labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: s.Name})}
	}
	if o.liqoNamespace == metav1.NamespaceDefault { // both are in one namespace, and no field selector matches two names
		services, slices = map[string]cache.Config{o.liqoNamespace: {}}, map[string]cache.Config{o.liqoNamespace: {}}
	}
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:                              {Field: fields.OneTermEqualSelector("spec.nodeName", o.node), Transform: node.SlimPod},
		&corev1.Namespace{}:                        {Transform: node.SlimNamespace}, // all: the pods of an unknown namespace count as a consumer's
		&corev1.Service{}:                          {Namespaces: services},
		&discoveryv1.EndpointSlice{}:               {Namespaces: slices},
		&coordinationv1.Lease{}:                    gatewayLeases(),
		&networkingv1beta1.RouteConfiguration{}:    home,
		&networkingv1beta1.FirewallConfiguration{}: home,
	}
}
