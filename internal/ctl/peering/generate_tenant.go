// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

type generateTenantOptions struct {
	*cluster.Generation
	peer, into      string
	nonce, proxyURL string
	dryRun          bool
}

// GenerateTenant returns the command "generate tenant".
func GenerateTenant(c *cluster.Session, common *cluster.Generation) *cobra.Command {
	o := &generateTenantOptions{Generation: common}
	cmd := &cobra.Command{
		Use:     "tenant",
		Aliases: []string{"tenants"},
		Short:   "Print, in a consumer, the Tenant by which a provider knows it",
		Long: "Print, in a consumer, its Tenant for a provider.\n" +
			"The nonce of the provider is signed, in a Secret of the tenant namespace, which is created if missing. An earlier nonce is\n" +
			"replaced. Without --nonce, the nonce signed last is used. --namespace names a new tenant namespace.",
		Example: "  liqoctl generate tenant --remote-cluster-id milan --remote-tenant-namespace liqo-tenant-rome --nonce \"$(cat nonce)\" > tenant-rome.yaml",
		Args:    cobra.NoArgs,
		RunE:    common.WithTimeout(func(ctx context.Context) error { return runGenerateTenant(ctx, c, o) }),
	}
	common.AddFlags(cmd)
	generatedFor(c, cmd, &o.peer, &o.into, "provider")
	cmd.Flags().StringVar(&o.nonce, "nonce", "", "The nonce that the provider made; the one that was signed already if empty")
	cmd.Flags().StringVar(&o.proxyURL, "proxy-url", "", "The proxy through which this cluster reaches the API server of the provider")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "Print the objects that would be written in this cluster, and change nothing")
	return cmd
}

// generatedFor adds the flags for objects of the tenant namespace of another cluster.
func generatedFor(c *cluster.Session, cmd *cobra.Command, other, into *string, role string) {
	cmd.Flags().StringVar(other, "remote-cluster-id", "", "The ID of the other cluster, the "+role)
	_ = cmd.MarkFlagRequired("remote-cluster-id")
	cmd.Flags().StringVar(into, "remote-tenant-namespace", "", "The tenant namespace of this cluster in the "+role+"; none is printed if empty")
}

func runGenerateTenant(ctx context.Context, c *cluster.Session, o *generateTenantOptions) error {
	if err := o.checkFlags(); err != nil {
		return err
	}
	s, err := c.NewClusterOf(ctx, o.peer, o.Placement)
	if err != nil {
		return err
	}
	if err := s.Identify(ctx, o.peer); err != nil {
		return err
	}
	if err := s.RequirePermissions(ctx, s.PermissionsFor("", "sign nonce")...); err != nil {
		return err
	}
	nonce := []byte(o.nonce)
	if o.nonce == "" {
		if nonce, err = signedNonce(ctx, s, o.peer); err != nil {
			return err
		}
	}
	if o.dryRun {
		return previewHandshake(c, s, o.peer, o.Output, names.SignedNonceSecret, names.SignedNonce, nonce)
	}
	if err := ensureTenantNamespace(ctx, s, c, o.peer); err != nil {
		return err
	}
	step := s.Spin("Waiting for nonce to be signed")
	defer step.Stop()
	key, err := awaitKey(ctx, s, o.peer)
	if err != nil {
		return err
	}
	of := pki.Handshake{Provider: o.peer, Consumer: s.ID, Nonce: nonce}
	at, err := ensureSignedNonce(ctx, s, c, key.Public(), of)
	if err != nil {
		return err
	}
	signature, err := awaitSignature(ctx, s, at, key.Public(), of)
	if err != nil {
		return err
	}
	tenant, err := newTenant(client.ObjectKey{Namespace: o.into, Name: s.ID}, s.ID, key, signature, o.proxyURL)
	if err != nil {
		return err
	}
	step.Stop()
	c.SetCommonMetadata(tenant)
	return c.PrintObject(tenant, o.Output)
}

func (o *generateTenantOptions) checkFlags() error {
	o.nonce = strings.TrimSpace(o.nonce)
	if o.nonce != "" {
		if err := pki.CheckNonce([]byte(o.nonce)); err != nil {
			return ui.Fail("--nonce: %w", err).Hint("The provider prints it, by: liqoctl get nonce")
		}
	}
	return nil
}

// signedNonce returns an earlier nonce of a provider, signed.
func signedNonce(ctx context.Context, s *cluster.Cluster, provider string) ([]byte, error) {
	have, err := handshakeSecrets(ctx, s, names.SignedNonce, provider)
	if err != nil {
		return nil, err
	}
	var all []string
	for i := range have {
		all = append(all, client.ObjectKeyFromObject(&have[i]).String())
	}
	switch {
	case len(have) == 0:
		return nil, ui.Fail("nonce not provided and no nonce secret found").
			Hint("Set --nonce to the output of `liqoctl get nonce` in the provider")
	case len(have) > 1:
		return nil, ui.Fail("several Secrets with a nonce of %s exist: %s", provider, strings.Join(all, ", ")).Hint("Say which nonce is meant, by --nonce")
	}
	nonce := have[0].Data[names.NonceKey]
	if err := pki.CheckNonce(nonce); err != nil {
		return nil, ui.Fail("the Secret %s has an invalid nonce: %w", all[0], err).Hint("Set --nonce to the nonce of the provider")
	}
	return nonce, nil
}
