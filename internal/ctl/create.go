// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/peering"
)

func newCreateCommand(c *cluster.Session) *cobra.Command {
	o := &cluster.Creation{}
	parent := cluster.NewGroup("create", "Create objects of Liqo, or print them",
		network.CreateConfiguration(c, o), network.CreateGatewayServer(c, o), network.CreateGatewayClient(c, o), network.CreatePublicKey(c, o), peering.CreateNonce(c, o))
	o.Placement.AddFlags(parent)
	parent.AddCommand(peering.CreateResourceSlice(c, o), peering.CreateVirtualNode(c, o))
	return parent
}
