// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/names"
)

type createNonceOptions struct {
	*cluster.Creation
	waits bool
}

// CreateNonce returns the command "create nonce".
func CreateNonce(c *cluster.Session, common *cluster.Creation) *cobra.Command {
	o := &createNonceOptions{Creation: common}
	cmd := &cobra.Command{
		Use:   "nonce",
		Short: "Create, in a provider, the nonce that a consumer is to sign",
		Long: "Create, in a provider, the nonce for a consumer to sign, in the tenant namespace of the consumer, which is created if missing.\n" +
			"An unused nonce is kept. --namespace names a new tenant namespace.",
		Example: "  liqoctl create nonce --remote-cluster-id rome",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), o.Timeout)
			defer cancel()
			return runCreateNonce(ctx, c, o)
		},
	}
	common.AddFlags(c, cmd, false)
	cmd.Flags().BoolVar(&o.waits, "wait", true, "Wait for the nonce, and print it")
	return cmd
}

func runCreateNonce(ctx context.Context, c *cluster.Session, o *createNonceOptions) error {
	s, err := c.NewClusterOf(ctx, o.Peer, o.Placement)
	if err != nil {
		return err
	}
	if err := s.Identify(ctx, o.Peer); err != nil {
		return err
	}
	if err := s.RequirePermissions(ctx, append(s.PermissionsFor("", "create nonce"), noncePermissions(s, "replace nonce")...)...); err != nil {
		return err
	}
	if o.IsRequested() {
		return previewHandshake(c, s, o.Peer, o.OutputFormat(), names.NonceSecret, names.Nonce, nil)
	}
	if err := ensureTenantNamespace(ctx, s, c, o.Peer); err != nil {
		return err
	}
	at, err := ensureNonce(ctx, s, c, o.Peer, false)
	if err != nil {
		return err
	}
	c.Success("Nonce created")
	if !o.waits {
		return nil
	}
	var nonce []byte
	if err := s.RunStep("Waiting for nonce to be generated", "Nonce generated successfully", func() (err error) {
		nonce, err = awaitNonce(ctx, s, at)
		return err
	}); err != nil {
		return err
	}
	c.Success("Nonce retrieved: %s", nonce)
	return nil
}

// previewHandshake prints the tenant namespace, existing or not, and a Secret in the namespace.
func previewHandshake(c *cluster.Session, s *cluster.Cluster, other, format, name, label string, nonce []byte) error {
	ns := s.TenantNamespace(c, other)
	secret := NewHandshakeSecret(client.ObjectKey{Namespace: ns.Name, Name: name}, label, other)
	if len(nonce) > 0 {
		secret.Data = map[string][]byte{names.NonceKey: nonce}
	}
	c.SetCommonMetadata(secret)
	if err := c.PrintObject(ns, format); err != nil {
		return err
	}
	return c.PrintObject(secret, format)
}
