// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

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
	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/names"
)

type connectOptions struct {
	*networkOptions
	server         gatewayServer
	client         templateFlags
	address        string
	port           int32
	mtu            int
	keysNotToShare bool
}

// olderSpellings maps deprecated flags to the current ones.
var olderSpellings = map[string]string{
	"server-type": "gw-server-type", "server-template-name": "gw-server-template-name", "server-template-namespace": "gw-server-template-namespace",
	"server-service-type": "gw-server-service-type",
	"server-service-port": "gw-server-service-port", "server-port": "gw-server-service-port",
	"server-service-nodeport": "gw-server-service-nodeport", "node-port": "gw-server-service-nodeport",
	"server-service-loadbalancerip": "gw-server-service-loadbalancerip", "load-balancer-ip": "gw-server-service-loadbalancerip",
	"client-type": "gw-client-type", "client-template-name": "gw-client-template-name", "client-template-namespace": "gw-client-template-namespace",
	"client-address": "gw-client-address", "client-port": "gw-client-port",
}

func (c *cli) networkConnect(common *networkOptions) *cobra.Command {
	o := &connectOptions{networkOptions: common}
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
			o.server.dropUnused()
			return c.runWithBoth(cmd.Context(), common, func(ctx context.Context, c *cli, local, remote *Cluster) error {
				return c.runConnect(ctx, o, local, remote)
			})
		},
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.keysNotToShare, "disable-sharing-keys", false, "Do not exchange the keys of the gateways, and do not wait for the tunnel")
	return cmd
}

// addFlags adds the flags of the tunnel.
func (o *connectOptions) addFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	o.server.template.addFlags(fs, "gw-server-", serverTemplates, "wireguard-server")
	fs.Var(oneOf(&o.server.serviceType, "LoadBalancer", serviceTypes), "gw-server-service-type", "The type of the server's Service: "+strings.Join(serviceTypes, ", "))
	_ = cmd.RegisterFlagCompletionFunc("gw-server-service-type", cobra.FixedCompletions(serviceTypes, cobra.ShellCompDirectiveNoFileComp))
	fs.Int32Var(&o.server.port, "gw-server-service-port", names.TunnelPort, "The port of the server's Service")
	fs.Int32Var(&o.server.nodePort, "gw-server-service-nodeport", 0, "The node port of the server's Service; 0 lets the cluster choose")
	fs.StringVar(&o.server.loadBalancerIP, "gw-server-service-loadbalancerip", "", "The address of the server's load balancer; the cluster chooses if it is empty")
	o.client.addFlags(fs, "gw-client-", clientTemplates, "wireguard-client")
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

func (c *cli) runConnect(ctx context.Context, o *connectOptions, local, remote *Cluster) error {
	n, err := o.readConnection(ctx, local, remote)
	if err != nil {
		return err
	}
	if n.tunnel, err = o.planTunnel(ctx, n.localConfig(), n.remoteConfig()); err != nil {
		return err
	}
	ensureConfigurations := c.exchangeConfigurations
	if n.localConfig().hasConfiguration(ctx) && n.remoteConfig().hasConfiguration(ctx) {
		ensureConfigurations = c.keepConfigurations
	}
	if err := ensureConfigurations(ctx, n.both, true); err != nil {
		return err
	}
	if err := n.initNetwork(ctx, c, local); err != nil {
		return err
	}
	return n.tunnel.createTunnel(ctx, c, o)
}

// connection is the state of the networks of two clusters before they are connected.
type connection struct {
	both   []*peerConfig
	tunnel *gatewayPair
}

func (n *connection) localConfig() *peerConfig { return n.both[0] }

func (n *connection) remoteConfig() *peerConfig { return n.both[1] }

// inOrder returns both peer configurations, the one of the given cluster first.
func (n *connection) inOrder(first *Cluster) []*peerConfig {
	if n.localConfig().id == first.id {
		return n.both
	}
	return []*peerConfig{n.remoteConfig(), n.localConfig()}
}

// readConnection reads the Configurations and gateways of both clusters.
func (o *connectOptions) readConnection(ctx context.Context, local, remote *Cluster) (*connection, error) {
	both, err := exchangeConfigs(ctx, local, remote)
	return &connection{both: both}, err
}

// initNetwork exchanges the Configurations, and creates the namespaces of the gateways.
func (n *connection) initNetwork(ctx context.Context, c *cli, first *Cluster) error {
	local, remote := n.localConfig(), n.remoteConfig()
	// A Configuration made by hand may be in another namespace.
	if err := errors.Join(remote.wrapWithCluster(remote.ensureNamespace(ctx, c, n.tunnel.server)), local.wrapWithCluster(local.ensureNamespace(ctx, c, n.tunnel.client))); err != nil {
		return err
	}
	for _, t := range n.inOrder(first) {
		t.withPrinter(c.Printer).Success("Network correctly initialized")
	}
	return nil
}

// oppositeGateways returns the gateways of a tunnel whose server is in the local cluster, the local ones first. A gateway that is
// being deleted counts: its objects may have the names of new ones.
func oppositeGateways(ctx context.Context, local, remote *peerConfig) (servers, clients []client.Object, err error) {
	if servers, err = local.findOfPeer(ctx, newGateway(server, client.ObjectKey{}).newList(), remote.id); err != nil {
		return nil, nil, local.wrapWithCluster(err)
	}
	if clients, err = remote.findOfPeer(ctx, newGateway(dialer, client.ObjectKey{}).newList(), local.id); err != nil {
		return nil, nil, remote.wrapWithCluster(err)
	}
	return servers, clients, nil
}

// noOpposite fails if a tunnel with its server in the local cluster exists, or a part of one.
func noOpposite(ctx context.Context, local, remote *peerConfig, hint string) error {
	servers, clients, err := oppositeGateways(ctx, local, remote)
	if err != nil {
		return err
	}
	for _, reverse := range []struct {
		in    *peerConfig
		kind  string
		found []client.Object
	}{{local, server, servers}, {remote, dialer, clients}} {
		if len(reverse.found) > 0 {
			return reverse.in.wrapWithCluster(out.Fail("gateway %s for the other direction already exists: %s", reverse.kind, client.ObjectKeyFromObject(reverse.found[0])).
				Hint("%s", hint))
		}
	}
	return nil
}

// planTunnel plans the tunnel and checks all preconditions. It changes nothing.
func (o *connectOptions) planTunnel(ctx context.Context, local, remote *peerConfig) (*gatewayPair, error) {
	if err := noOpposite(ctx, local, remote, "Exchange the two clusters, or remove it by: liqoctl network disconnect"); err != nil {
		return nil, err
	}
	t := &gatewayPair{local: local.Cluster, remote: remote.Cluster}
	serverRef, err := o.checkTemplate(ctx, remote.Cluster, o.server.template, func(spec map[string]any) error { return o.server.checkService(spec) })
	if err != nil {
		return nil, remote.wrapWithCluster(err)
	}
	clientRef, err := o.checkTemplate(ctx, local.Cluster, o.client, func(map[string]any) error { return nil })
	if err != nil {
		return nil, local.wrapWithCluster(err)
	}
	key, err := remote.gatewayKey(ctx, server, local.id)
	if err != nil {
		return nil, remote.wrapWithCluster(err)
	}
	t.server = gatewayOf(o.server.newObject(key, local.id, serverRef, o.mtu))
	if key, err = local.gatewayKey(ctx, dialer, remote.id); err != nil {
		return nil, local.wrapWithCluster(err)
	}
	t.client = gatewayOf(newGatewayClient(key, remote.id, clientRef, o.mtu, networkingv1beta1.EndpointStatus{}))
	if err := remote.requirePermissions(ctx, remote.permissionsFor(t.server.GetNamespace(), "create GatewayServer", "connect gateway")...); err != nil {
		return nil, err
	}
	return t, local.requirePermissions(ctx, local.permissionsFor(t.client.GetNamespace(), "create GatewayClient", "connect gateway")...)
}

// checkTemplate resolves a template and checks, unless disabled by a flag, that it exists and supports the options.
func (o *connectOptions) checkTemplate(ctx context.Context, s *Cluster, t templateFlags, fits func(spec map[string]any) error) (corev1.ObjectReference, error) {
	ref, err := t.templateReference(ctx, s.liqoNamespace, func(context.Context) (apimeta.RESTMapper, error) { return s.kube.RESTMapper(), nil })
	if err != nil || o.skipValidation {
		return ref, err
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	err = s.kube.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, obj)
	switch {
	case apierrors.IsNotFound(err), apimeta.IsNoMatchError(err):
		return ref, out.Fail("template %s %s/%s not found", ref.Kind, ref.Namespace, ref.Name)
	case err != nil:
		return ref, fmt.Errorf("reading the template %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	spec, _, _ := unstructured.NestedMap(obj.Object, "spec", "template", "spec", "service", "spec")
	if err := fits(spec); err != nil {
		return ref, out.Fail("the template %s/%s cannot be used: %w", ref.Namespace, ref.Name, err)
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
