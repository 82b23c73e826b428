// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/peering"
)

func newGenerateCommand(c *cluster.Session) *cobra.Command {
	o := &cluster.Generation{}
	parent := cluster.NewGroup("generate", "Print objects of this cluster for another cluster", network.GenerateConfiguration(c, o), network.GeneratePublicKey(c, o),
		peering.GenerateTenant(c, o), peering.GenerateIdentity(c, o), peering.GeneratePeeringUser(c, &o.Placement))
	o.Placement.AddFlags(parent)
	return parent
}
