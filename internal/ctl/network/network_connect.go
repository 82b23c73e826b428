// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

// ConnectOptions are the options of the command "network connect".
type ConnectOptions struct {
	*NetworkOptions
	Server         gatewayServer
	client         templateFlags
	address        string
	port           int32
	mtu            int
	keysNotToShare bool
}

// olderSpellings maps deprecated flags to the current flags.
var olderSpellings = map[string]string{
	"server-type": "gw-server-type", "server-template-name": "gw-server-template-name", "server-template-namespace": "gw-server-template-namespace",
	"server-service-type": "gw-server-service-type",
	"server-service-port": "gw-server-service-port", "server-port": "gw-server-service-port",
	"server-service-nodeport": "gw-server-service-nodeport", "node-port": "gw-server-service-nodeport",
	"server-service-loadbalancerip": "gw-server-service-loadbalancerip", "load-balancer-ip": "gw-server-service-loadbalancerip",
	"client-type": "gw-client-type", "client-template-name": "gw-client-template-name", "client-template-namespace": "gw-client-template-namespace",
	"client-address": "gw-client-address", "client-port": "gw-client-port",
}

func networkConnect(c *cluster.Session, common *NetworkOptions) *cobra.Command {
	o := &ConnectOptions{NetworkOptions: common}
	cmd := &cobra.Command{
		Use:   "connect",
		Short: "Connect the networks of two clusters by a tunnel",
		Long: "Connect the networks of two clusters by a tunnel, with the server in the remote cluster and the client in the local cluster.\n" +
			"Missing Configurations are created first, as by `network init`.\n" +
			"Existing gateways between the two clusters, in the namespace of the Configuration, are updated.\n" +
			"Flags are also accepted without `gw-`, and as `--server-port`, `--node-port` and `--load-balancer-ip` for the server's Service.",
		Example: "  liqoctl network connect --remote-kubeconfig milan.kubeconfig --gw-server-service-type NodePort",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Server.DropUnused()
			return runWithBoth(cmd.Context(), c, common, func(ctx context.Context, c *cluster.Session, local, remote *cluster.Cluster) error {
				return runConnect(ctx, c, o, local, remote)
			})
		},
	}
	o.AddFlags(cmd)
	cmd.Flags().BoolVar(&o.keysNotToShare, "disable-sharing-keys", false, "Do not exchange the keys of the gateways, and do not wait for the tunnel")
	return cmd
}

// AddFlags adds the flags of the tunnel.
func (o *ConnectOptions) AddFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	o.Server.template.addFlags(fs, "gw-server-", cluster.ServerTemplates, "wireguard-server")
	fs.Var(cluster.OneOf(&o.Server.serviceType, "LoadBalancer", serviceTypes), "gw-server-service-type", "The type of the server's Service: "+strings.Join(serviceTypes, ", "))
	fs.Int32Var(&o.Server.port, "gw-server-service-port", names.TunnelPort, "The port of the server's Service")
	fs.Int32Var(&o.Server.nodePort, "gw-server-service-nodeport", 0, "The node port of the server's Service; 0 lets the cluster choose")
	fs.StringVar(&o.Server.loadBalancerIP, "gw-server-service-loadbalancerip", "", "The address of the server's load balancer; the cluster chooses if it is empty")
	o.client.addFlags(fs, "gw-client-", cluster.ClientTemplates, "wireguard-client")
	fs.StringVar(&o.address, "gw-client-address", "", "The address that the client dials, where it is not the one that the server knows")
	fs.Int32Var(&o.port, "gw-client-port", 0, "The port that the client dials, where it is not the one that the server knows")
	fs.IntVar(&o.mtu, "mtu", names.DefaultMTU, "The MTU of the tunnel; 0 uses the room of the outer networks")
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if today, ok := olderSpellings[name]; ok {
			name = today
		}
		return pflag.NormalizedName(name)
	})
}

func runConnect(ctx context.Context, c *cluster.Session, o *ConnectOptions, local, remote *cluster.Cluster) error {
	n, err := o.ReadConnection(ctx, local, remote)
	if err != nil {
		return err
	}
	if n.Tunnel, err = o.PlanTunnel(ctx, n.LocalConfig(), n.RemoteConfig()); err != nil {
		return err
	}
	ensureConfigurations := func(ctx context.Context, both []*peerConfig, wait bool) error {
		return ExchangeConfigurations(ctx, c, both, wait)
	}
	if n.LocalConfig().hasConfiguration(ctx) && n.RemoteConfig().hasConfiguration(ctx) {
		ensureConfigurations = func(p0 context.Context, both []*peerConfig, p2 bool) error {
			return keepConfigurations(p0, c, both, p2)
		}
	}
	if err := ensureConfigurations(ctx, n.Both, true); err != nil {
		return err
	}
	if err := n.InitNetwork(ctx, c, local); err != nil {
		return err
	}
	return n.Tunnel.CreateTunnel(ctx, c, o)
}

// Connection is the state of the networks of two clusters before they are connected.
type Connection struct {
	Both   []*peerConfig
	Tunnel *GatewayPair
}

// LocalConfig returns the configuration of the local cluster.
func (n *Connection) LocalConfig() *peerConfig { return n.Both[0] }

// RemoteConfig returns the configuration of the remote cluster.
func (n *Connection) RemoteConfig() *peerConfig { return n.Both[1] }

// InOrder returns both peer configurations, first the configuration of the given cluster.
func (n *Connection) InOrder(first *cluster.Cluster) []*peerConfig {
	if n.LocalConfig().ID == first.ID {
		return n.Both
	}
	return []*peerConfig{n.RemoteConfig(), n.LocalConfig()}
}

// ReadConnection reads the Configurations and gateways of both clusters.
func (o *ConnectOptions) ReadConnection(ctx context.Context, local, remote *cluster.Cluster) (*Connection, error) {
	both, err := exchangeConfigs(ctx, local, remote)
	return &Connection{Both: both}, err
}

// InitNetwork exchanges the Configurations, and creates the namespaces of the gateways.
func (n *Connection) InitNetwork(ctx context.Context, c *cluster.Session, first *cluster.Cluster) error {
	local, remote := n.LocalConfig(), n.RemoteConfig()
	// A Configuration made by hand may be in another namespace.
	if err := errors.Join(remote.WrapWithCluster(remote.EnsureNamespace(ctx, c, n.Tunnel.Server)), local.WrapWithCluster(local.EnsureNamespace(ctx, c, n.Tunnel.Client))); err != nil {
		return err
	}
	for _, t := range n.InOrder(first) {
		t.WithPrinter(c.Printer).Success("Network correctly initialized")
	}
	return nil
}

// OppositeGateways returns the gateways of a tunnel whose server is in the local cluster, the local gateways first. A gateway that is being deleted
// counts: its objects may have the names of new objects.
func OppositeGateways(ctx context.Context, local, remote *peerConfig) (servers, clients []client.Object, err error) {
	if servers, err = FindOfPeer(ctx, local.Cluster, newGateway(server, client.ObjectKey{}).newList(), remote.ID); err != nil {
		return nil, nil, local.WrapWithCluster(err)
	}
	if clients, err = FindOfPeer(ctx, remote.Cluster, newGateway(dialer, client.ObjectKey{}).newList(), local.ID); err != nil {
		return nil, nil, remote.WrapWithCluster(err)
	}
	return servers, clients, nil
}

// NoOpposite fails if a tunnel with its server in the local cluster exists, or a part of such a tunnel.
func NoOpposite(ctx context.Context, local, remote *peerConfig, hint string) error {
	servers, clients, err := OppositeGateways(ctx, local, remote)
	if err != nil {
		return err
	}
	for _, reverse := range []struct {
		in    *peerConfig
		kind  string
		found []client.Object
	}{{local, server, servers}, {remote, dialer, clients}} {
		if len(reverse.found) > 0 {
			return reverse.in.WrapWithCluster(ui.Fail("gateway %s for the other direction already exists: %s", reverse.kind, client.ObjectKeyFromObject(reverse.found[0])).
				Hint("%s", hint))
		}
	}
	return nil
}

// PlanTunnel plans the tunnel and checks all preconditions. Nothing is changed.
func (o *ConnectOptions) PlanTunnel(ctx context.Context, local, remote *peerConfig) (*GatewayPair, error) {
	if err := NoOpposite(ctx, local, remote, "Exchange the two clusters, or remove it by: liqoctl network disconnect"); err != nil {
		return nil, err
	}
	t := &GatewayPair{Local: local.Cluster, Remote: remote.Cluster}
	serverRef, err := o.checkTemplate(ctx, remote.Cluster, o.Server.template, func(spec map[string]any) error { return o.Server.checkService(spec) })
	if err != nil {
		return nil, remote.WrapWithCluster(err)
	}
	clientRef, err := o.checkTemplate(ctx, local.Cluster, o.client, func(map[string]any) error { return nil })
	if err != nil {
		return nil, local.WrapWithCluster(err)
	}
	key, err := remote.gatewayKey(ctx, server, local.ID)
	if err != nil {
		return nil, remote.WrapWithCluster(err)
	}
	t.Server = GatewayOf(o.Server.newObject(key, local.ID, serverRef, o.mtu))
	if key, err = local.gatewayKey(ctx, dialer, remote.ID); err != nil {
		return nil, local.WrapWithCluster(err)
	}
	t.Client = GatewayOf(newGatewayClient(key, remote.ID, clientRef, o.mtu, networkingv1beta1.EndpointStatus{}))
	if err := remote.RequirePermissions(ctx, remote.PermissionsFor(t.Server.GetNamespace(), "create GatewayServer", "connect gateway")...); err != nil {
		return nil, err
	}
	return t, local.RequirePermissions(ctx, local.PermissionsFor(t.Client.GetNamespace(), "create GatewayClient", "connect gateway")...)
}

// checkTemplate resolves a template and checks, unless disabled by a flag, that the template exists and supports the options.
func (o *ConnectOptions) checkTemplate(ctx context.Context, s *cluster.Cluster, t templateFlags, fits func(spec map[string]any) error) (corev1.ObjectReference, error) {
	ref, err := t.templateReference(ctx, s.LiqoNamespace, func(context.Context) (apimeta.RESTMapper, error) { return s.Kube.RESTMapper(), nil })
	if err != nil || o.SkipValidation {
		return ref, err
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	err = s.Kube.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, obj)
	switch {
	case apierrors.IsNotFound(err), apimeta.IsNoMatchError(err):
		return ref, ui.Fail("template %s %s/%s not found", ref.Kind, ref.Namespace, ref.Name)
	case err != nil:
		return ref, fmt.Errorf("reading the template %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	spec, _, _ := unstructured.NestedMap(obj.Object, "spec", "template", "spec", "service", "spec")
	if err := fits(spec); err != nil {
		return ref, ui.Fail("the template %s/%s cannot be used: %w", ref.Namespace, ref.Name, err)
	}
	return ref, nil
}

// checkService fails if a template ignores an option of the Service.
func (s *gatewayServer) checkService(service map[string]any) error {
	if s.loadBalancerIP != "" && !hasField(service, "loadBalancerIP") {
		return errors.New("it has no loadBalancerIP")
	}
	ports, _, _ := unstructured.NestedSlice(service, "ports")
	if s.nodePort == 0 {
		return nil
	}
	if len(ports) > 0 {
		if port, ok := ports[0].(map[string]any); ok && hasField(port, "nodePort") {
			return nil
		}
	}
	return errors.New("its first port has no nodePort")
}

// hasField reports whether fields contain a name, either required or optional.
func hasField(fields map[string]any, name string) bool {
	_, always := fields[name]
	_, optional := fields["?"+name]
	return always || optional
}
