// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
)

type createNonceOptions struct {
	*creation
	waits bool
}

func (c *cli) createNonce(common *creation) *cobra.Command {
	o := &createNonceOptions{creation: common}
	cmd := &cobra.Command{
		Use:   "nonce",
		Short: "Create, in a provider, the nonce that a consumer is to sign",
		Long: "Create, in a provider, the nonce for a consumer to sign, in the tenant namespace of the consumer, which is created if missing.\n" +
			"An unused nonce is kept. --namespace names a new tenant namespace.",
		Example: "  liqoctl create nonce --remote-cluster-id rome",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			return c.runCreateNonce(ctx, o)
		},
	}
	common.addFlags(c, cmd, false)
	cmd.Flags().BoolVar(&o.waits, "wait", true, "Wait for the nonce, and print it")
	return cmd
}

func (c *cli) runCreateNonce(ctx context.Context, o *createNonceOptions) error {
	s, err := c.newClusterOf(ctx, o.peer, o.placement)
	if err != nil {
		return err
	}
	if err := s.identify(ctx, o.peer); err != nil {
		return err
	}
	if err := s.requirePermissions(ctx, append(s.permissionsFor("", "create nonce"), s.noncePermissions("replace nonce")...)...); err != nil {
		return err
	}
	if o.isRequested() {
		return c.previewHandshake(s, o.peer, o.outputFormat(), names.NonceSecret, names.Nonce, nil)
	}
	if err := s.ensureTenantNamespace(ctx, c, o.peer); err != nil {
		return err
	}
	at, err := s.ensureNonce(ctx, c, o.peer, false)
	if err != nil {
		return err
	}
	c.Success("Nonce created")
	if !o.waits {
		return nil
	}
	var nonce []byte
	if err := s.runStep("Waiting for nonce to be generated", "Nonce generated successfully", func() (err error) {
		nonce, err = s.awaitNonce(ctx, at)
		return err
	}); err != nil {
		return err
	}
	c.Success("Nonce retrieved: %s", nonce)
	return nil
}

// previewHandshake prints the tenant namespace, whether it exists or not, and a Secret in it.
func (c *cli) previewHandshake(s *Cluster, other, format, name, label string, nonce []byte) error {
	ns := s.tenantNamespace(c, other)
	secret := newHandshakeSecret(client.ObjectKey{Namespace: ns.Name, Name: name}, label, other)
	if len(nonce) > 0 {
		secret.Data = map[string][]byte{names.NonceKey: nonce}
	}
	c.setCommonMetadata(secret)
	if err := c.printObject(ns, format); err != nil {
		return err
	}
	return c.printObject(secret, format)
}
