// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

type generateIdentityOptions struct {
	*cluster.Generation
	peer, into string
}

// GenerateIdentity returns the command "generate identity".
func GenerateIdentity(c *cluster.Session, common *cluster.Generation) *cobra.Command {
	o := &generateIdentityOptions{Generation: common}
	cmd := &cobra.Command{
		Use:     "identity",
		Aliases: []string{"identities"},
		Short:   "Print the Identity of a consumer, in its provider",
		Long: "Print, in a provider, the Identity of a consumer, once its Tenant has a certificate.\n" +
			"The Identity contains no secret: the private key stays in the consumer.",
		Example: "  liqoctl generate identity --remote-cluster-id rome --remote-tenant-namespace liqo-tenant-milan > identity-milan.yaml",
		Args:    cobra.NoArgs,
		RunE:    common.WithTimeout(func(ctx context.Context) error { return runGenerateIdentity(ctx, c, o) }),
	}
	common.AddFlags(cmd)
	generatedFor(c, cmd, &o.peer, &o.into, "consumer")
	return cmd
}

func runGenerateIdentity(ctx context.Context, c *cluster.Session, o *generateIdentityOptions) error {
	s, err := c.NewClusterOf(ctx, o.peer, o.Placement)
	if err != nil {
		return err
	}
	if err := s.Identify(ctx, o.peer); err != nil {
		return err
	}
	tenant, err := tenantOf(ctx, s, o.peer)
	if err != nil {
		return err
	}
	if tenant == nil {
		return ui.Fail("no Tenant of %s found", o.peer).Hint("Apply the Tenant printed by `liqoctl generate tenant` in the consumer")
	}
	if err := s.RunWaiting(ctx, "Waiting for tenant status to be filled", "", func(ctx context.Context) error {
		at := client.ObjectKeyFromObject(tenant)
		if tenant, err = awaitTenant(ctx, s, at); err != nil {
			return fmt.Errorf("tenant %q does not have the required status fields: %w", at.Name, err)
		}
		return nil
	}); err != nil {
		return err
	}
	identity := newIdentity(client.ObjectKey{Namespace: o.into, Name: names.ControlPlaneIdentity(s.ID)}, s.ID, tenant)
	identity.Status = authv1beta1.IdentityStatus{}
	c.SetCommonMetadata(identity)
	return c.PrintObject(identity, o.Output)
}
