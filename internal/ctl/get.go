// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/peering"
)

func newGetCommand(c *cluster.Session) *cobra.Command {
	o := &cluster.Retrieval{}
	parent := cluster.NewGroup("get", "Print one value that others need", peering.GetNonce(c, o), peering.GetKubeconfig(c, o))
	parent.PersistentFlags().StringVarP(&o.Namespace, "namespace", "n", "", "The tenant namespace of the other cluster, which is found by its labels if empty")
	return parent
}
