// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/pki"
)

type createPublicKeyOptions struct {
	*creation
	key string
}

func (c *cli) createPublicKey(common *creation) *cobra.Command {
	o := &createPublicKeyOptions{creation: common}
	cmd := c.withOneArgument(common, &cobra.Command{
		Use:     "publickey NAME",
		Aliases: []string{"publickeys", "publickeies"},
		Short:   "Create the PublicKey of the gateway of another cluster",
		Example: "  liqoctl create publickey milan --remote-cluster-id milan --public-key \"$(wg pubkey < key)\"",
	}, func(ctx context.Context, key client.ObjectKey) error { return c.runCreatePublicKey(ctx, o, key) })
	common.addFlags(c, cmd, false)
	cmd.Flags().StringVar(&o.key, "public-key", "", "The key in base64 or as PEM, as printed by wg pubkey or openssl pkey -pubout")
	_ = cmd.MarkFlagRequired("public-key")
	return cmd
}

func (c *cli) runCreatePublicKey(ctx context.Context, o *createPublicKeyOptions, key client.ObjectKey) error {
	public, err := pki.ParseTunnelPublicKey([]byte(o.key))
	if err != nil {
		return out.Fail("--public-key: %w", err)
	}
	return c.createAndWait(ctx, o.creation, newPublicKey(key, o.peer, public), "Publickey created", "", nil)
}
