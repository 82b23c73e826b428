// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
)

type createGatewayServerOptions struct {
	*creation
	gatewayServer
	mtu int
}

func (c *cli) createGatewayServer(common *creation) *cobra.Command {
	o := &createGatewayServerOptions{creation: common}
	cmd := c.withOneArgument(common, &cobra.Command{
		Use:     "gatewayserver NAME",
		Aliases: []string{"gatewayservers", "server", "servers", "gws"},
		Short:   "Create a GatewayServer, which another cluster connects to",
		Example: "  liqoctl create gatewayserver server --remote-cluster-id rome --service-type NodePort",
	}, func(ctx context.Context, key client.ObjectKey) error { return c.runCreateGatewayServer(ctx, o, key) })
	common.addFlags(c, cmd, true)
	fs := cmd.Flags()
	o.template.addFlags(fs, "", serverTemplates, "wireguard-server")
	fs.Var(oneOf(&o.serviceType, "LoadBalancer", serviceTypes), "service-type", "The type of its Service: "+strings.Join(serviceTypes, ", "))
	_ = cmd.RegisterFlagCompletionFunc("service-type", cobra.FixedCompletions(serviceTypes, cobra.ShellCompDirectiveNoFileComp))
	fs.Int32Var(&o.port, "port", names.TunnelPort, "The port of its Service")
	fs.Int32Var(&o.nodePort, "node-port", 0, "The node port of its Service; 0 lets the cluster choose")
	fs.StringVar(&o.loadBalancerIP, "load-balancer-ip", "", "The address of its load balancer; the cluster chooses if it is empty")
	fs.IntVar(&o.mtu, "mtu", names.DefaultMTU, "The MTU of the tunnel, the same in both clusters; 0 uses the room of the outer network")
	return cmd
}

func (c *cli) runCreateGatewayServer(ctx context.Context, o *createGatewayServerOptions, key client.ObjectKey) error {
	o.dropUnused()
	of, err := o.template.templateReference(ctx, o.liqoNamespace, c.restMapper)
	if err != nil {
		return err
	}
	return c.createAndWait(ctx, o.creation, o.newObject(key, o.peer, of, o.mtu), "Gatewayserver created", "gatewayserver is ready",
		func(_ context.Context, _ client.Reader, obj client.Object) error {
			return gatewayOf(obj).checkExposed()
		})
}
