// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import "github.com/spf13/cobra"

func (c *cli) delete() *cobra.Command {
	return group("delete", "Delete objects of Liqo", c.deletePeeringUser())
}
