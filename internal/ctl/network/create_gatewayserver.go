// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
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
	fs.IntVar(&o.mtu, "mtu", names.DefaultMTU, "The MTU of the tunnel, the same in both clusters; 0 uses the room of the outer network")
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
