// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/pki"
)

type createPublicKeyOptions struct {
	*cluster.Creation
	key string
}

// CreatePublicKey returns the command "create publickey".
func CreatePublicKey(c *cluster.Session, common *cluster.Creation) *cobra.Command {
	o := &createPublicKeyOptions{Creation: common}
	cmd := c.WithOneArgument(common, &cobra.Command{
		Use:     "publickey NAME",
		Aliases: []string{"publickeys", "publickeies"},
		Short:   "Create the PublicKey of the gateway of another cluster",
		Example: "  liqoctl create publickey milan --remote-cluster-id milan --public-key \"$(wg pubkey < key)\"",
	}, func(ctx context.Context, key client.ObjectKey) error { return runCreatePublicKey(ctx, c, o, key) })
	common.AddFlags(c, cmd, false)
	cmd.Flags().StringVar(&o.key, "public-key", "", "The key in base64 or as PEM, as printed by wg pubkey or openssl pkey -pubout")
	_ = cmd.MarkFlagRequired("public-key")
	return cmd
}

func runCreatePublicKey(ctx context.Context, c *cluster.Session, o *createPublicKeyOptions, key client.ObjectKey) error {
	public, err := pki.ParseTunnelPublicKey([]byte(o.key))
	if err != nil {
		return ui.Fail("--public-key: %w", err)
	}
	return c.CreateAndWait(ctx, o.Creation, newPublicKey(key, o.Peer, public), "Publickey created", "", nil)
}
