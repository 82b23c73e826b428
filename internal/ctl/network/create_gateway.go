// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

type createGatewayServerOptions struct {
	*cluster.Creation
	gatewayServer
	mtu int
}

// CreateGatewayServer returns the command "create gatewayserver".
func CreateGatewayServer(c *cluster.Session, common *cluster.Creation) *cobra.Command {
	o := &createGatewayServerOptions{Creation: common}
	cmd := c.WithOneArgument(common, &cobra.Command{
		Use:     "gatewayserver NAME",
		Aliases: []string{"gatewayservers", "server", "servers", "gws"},
		Short:   "Create a GatewayServer, which another cluster connects to",
		Example: "  liqoctl create gatewayserver server --remote-cluster-id rome --service-type NodePort",
	}, func(ctx context.Context, key client.ObjectKey) error { return runCreateGatewayServer(ctx, c, o, key) })
	common.AddFlags(c, cmd, true)
	fs := cmd.Flags()
	o.template.addFlags(fs, "", cluster.ServerTemplates, "wireguard-server")
	fs.Var(cluster.OneOf(&o.serviceType, "LoadBalancer", serviceTypes), "service-type", "The type of its Service: "+strings.Join(serviceTypes, ", "))
	fs.Int32Var(&o.port, "port", names.TunnelPort, "The port of its Service")
	fs.Int32Var(&o.nodePort, "node-port", 0, "The node port of its Service; 0 lets the cluster choose")
	fs.StringVar(&o.loadBalancerIP, "load-balancer-ip", "", "The address of its load balancer; the cluster chooses if it is empty")
	fs.IntVar(&o.mtu, "mtu", names.DefaultMTU, "The largest MTU of the tunnel; 0 uses the room of the outer network")
	return cmd
}

func runCreateGatewayServer(ctx context.Context, c *cluster.Session, o *createGatewayServerOptions, key client.ObjectKey) error {
	o.DropUnused()
	of, err := o.template.templateReference(ctx, o.LiqoNamespace, c.RestMapper)
	if err != nil {
		return err
	}
	return c.CreateAndWait(ctx, o.Creation, o.newObject(key, o.Peer, of, o.mtu), "Gatewayserver created", "gatewayserver is ready",
		func(_ context.Context, _ client.Reader, obj client.Object) error {
			return GatewayOf(obj).checkExposed()
		})
}

type createGatewayClientOptions struct {
	*cluster.Creation
	template  templateFlags
	addresses []string
	port      int32
	protocol  string
	mtu       int
}

// CreateGatewayClient returns the command "create gatewayclient".
func CreateGatewayClient(c *cluster.Session, common *cluster.Creation) *cobra.Command {
	o := &createGatewayClientOptions{Creation: common}
	cmd := c.WithOneArgument(common, &cobra.Command{
		Use:     "gatewayclient NAME",
		Aliases: []string{"gatewayclients", "client", "clients", "gwc"},
		Short:   "Create a GatewayClient, which connects to the GatewayServer of another cluster",
		Example: "  liqoctl create gatewayclient client --remote-cluster-id milan --addresses 172.18.0.3 --port 32133",
	}, func(ctx context.Context, key client.ObjectKey) error { return runCreateGatewayClient(ctx, c, o, key) })
	common.AddFlags(c, cmd, true)
	fs := cmd.Flags()
	o.template.addFlags(fs, "", cluster.ClientTemplates, "wireguard-client")
	fs.StringSliceVar(&o.addresses, "addresses", nil, "The addresses of the server")
	fs.Int32Var(&o.port, "port", 0, "The port of the server")
	fs.Var(cluster.OneOf(&o.protocol, "UDP", []string{"UDP"}), "protocol", "The protocol of the tunnel: UDP")
	fs.IntVar(&o.mtu, "mtu", names.DefaultMTU, "The largest MTU of the tunnel; 0 uses the room of the outer network")
	_ = cmd.MarkFlagRequired("addresses")
	_ = cmd.MarkFlagRequired("port")
	return cmd
}

func runCreateGatewayClient(ctx context.Context, c *cluster.Session, o *createGatewayClientOptions, key client.ObjectKey) error {
	of, err := o.template.templateReference(ctx, o.LiqoNamespace, c.RestMapper)
	if err != nil {
		return err
	}
	server := networkingv1beta1.EndpointStatus{Addresses: o.addresses, Port: o.port, Protocol: new(corev1.Protocol(o.protocol))}
	return c.CreateAndWait(ctx, o.Creation, newGatewayClient(key, o.Peer, of, o.mtu, server), "Gatewayclient created", "gatewayclient is ready",
		func(_ context.Context, _ client.Reader, obj client.Object) error {
			gw := obj.(*networkingv1beta1.GatewayClient)
			if err := checkRefused(gw.Status.Conditions, gw.Generation); err != nil {
				return err
			}
			if gw.Status.ClientRef == nil {
				return kube.Pending("nothing was made of the GatewayClient yet" + ConditionSuffix(gw.Status.Conditions, networkingv1beta1.ConditionGatewayReady))
			}
			return nil
		})
}
