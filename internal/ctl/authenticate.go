// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"crypto"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

type authenticateOptions struct {
	local, remote clusterFlags
	timeout       time.Duration
	inBand        bool
	proxyURL      string
	dryRunOptions
}

func (c *cli) newAuthenticateCommand() *cobra.Command {
	o := &authenticateOptions{}
	cmd := &cobra.Command{
		Use:     "authenticate",
		Aliases: []string{"auth"},
		Short:   "Have a provider know this cluster, and take its credentials",
		Long: "Register this cluster as a consumer of the remote cluster, its provider, and store the credentials that the provider issues.\n" +
			"Remains of an earlier attempt or peering are reused or replaced. A second run changes nothing.\n" +
			"Without access to both clusters use: create nonce, generate tenant, generate identity.",
		Example: "  liqoctl authenticate --remote-kubeconfig milan.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withBoth(cmd.Context(), o.timeout, &o.local, &o.remote, func(ctx context.Context, local, remote *Cluster) error {
				a := &authentication{cli: c, consumer: local, provider: remote, inBand: o.inBand, proxyURL: o.proxyURL, asBefore: !asksForWay(cmd.Flags())}
				if err := a.mayBegin(ctx); err != nil {
					return err
				}
				return c.runOrPrint(ctx, &o.dryRunOptions, toApply, func(ctx context.Context, c *cli) error {
					a.cli = c
					return a.runSteps(ctx)
				}, remote, local)
			})
		},
	}
	fs := cmd.Flags()
	fs.DurationVar(&o.timeout, "timeout", 2*time.Minute, "How long all of it may take")
	fs.BoolVar(&o.inBand, "in-band", false, "Reach the API server of the provider through the tunnel between the networks")
	fs.StringVar(&o.proxyURL, "proxy-url", "", "The proxy through which this cluster reaches the API server of the provider")
	o.dryRunOptions.addFlags(cmd, fs)
	twoInstallations(cmd, &o.local, &o.remote)
	return cmd
}

// asksForWay reports whether a flag about the path to the API server of the provider was given.
func asksForWay(fs *pflag.FlagSet) bool { return fs.Changed("in-band") || fs.Changed("proxy-url") }

// twoInstallations adds the flags of two clusters whose -n is the Liqo namespace. All other objects go to tenant namespaces.
func twoInstallations(cmd *cobra.Command, local, remote *clusterFlags) {
	liqoNamespace(cmd, &local.liqoNamespace)
	cmd.PersistentFlags().StringVar(&remote.liqoNamespace, "remote-namespace", names.LiqoNamespace, "The namespace where Liqo is installed in (in the remote cluster)")
	remoteFlags(cmd, remote)
}

// authentication authenticates a consumer with a provider. The cluster IDs are known; the tenant namespaces may be missing. The steps
// are idempotent: existing objects are kept if usable, and replaced if not.
type authentication struct {
	*cli
	consumer, provider *Cluster
	// inBand makes the consumer reach the API server through the tunnel, proxyURL through that proxy.
	inBand   bool
	proxyURL string
	// asBefore keeps an existing path through the tunnel, because no flag asks for another path.
	asBefore bool
	// connects reports that a dry run connects the networks before the authentication.
	connects bool

	// State read so far. have is nil without a Tenant.
	have      *authv1beta1.Tenant
	identity  string
	key       crypto.Signer
	nonce     []byte
	signature []byte
	tenant    *authv1beta1.Tenant
}

func (a *authentication) runSteps(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		a.readState, a.comeBack, a.ensureNamespaces, a.getNonce, a.signNonce, a.registerTenant, a.takeIdentity,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// mayBegin fails if the versions are incompatible and no earlier peering exists that may have to be repaired.
func (a *authentication) mayBegin(ctx context.Context) error {
	have, err := a.provider.tenantOf(ctx, a.consumer.id)
	if err != nil {
		return a.provider.wrapWithCluster(err)
	}
	if have != nil {
		return nil
	}
	return fitTogether(ctx, a.consumer, a.provider)
}

// comeBack revokes the declaration that either cluster is permanently gone.
func (a *authentication) comeBack(ctx context.Context) error {
	if err := a.provider.mayComeBack(ctx, a.consumer.id); err != nil {
		return a.provider.wrapWithCluster(err)
	}
	return a.consumer.wrapWithCluster(a.consumer.mayComeBack(ctx, a.provider.id))
}

// readState reads the state of both clusters and checks all preconditions. It changes nothing.
func (a *authentication) readState(ctx context.Context) (err error) {
	if a.have, err = a.provider.tenantOf(ctx, a.consumer.id); err != nil {
		return a.provider.wrapWithCluster(err)
	}
	if a.identity, err = a.consumer.identityFor(ctx, a.provider.id); err != nil {
		return a.consumer.wrapWithCluster(err)
	}
	if a.proxyURL, err = a.apiServerURL(ctx); err != nil {
		return err
	}
	wanted := append(a.provider.permissionsFor("", "create nonce", "create Tenant"), a.provider.noncePermissions("replace nonce")...)
	if err := a.provider.requirePermissions(ctx, wanted...); err != nil {
		return err
	}
	return a.consumer.requirePermissions(ctx, a.consumer.permissionsFor("", "sign nonce", "create Identity")...)
}

func (a *authentication) ensureNamespaces(ctx context.Context) error {
	for _, s := range []struct {
		*Cluster
		other string
	}{{a.consumer, a.provider.id}, {a.provider, a.consumer.id}} {
		if err := s.runStep("Ensuring tenant namespace", "Tenant namespace correctly ensured", func() error {
			return s.ensureTenantNamespace(ctx, a.cli, s.other)
		}); err != nil {
			return err
		}
	}
	return nil
}

// getNonce gets a usable nonce. A used nonce is valid only for the key that it was used with.
func (a *authentication) getNonce(ctx context.Context) error {
	if err := a.consumer.runWaiting(ctx, "Waiting for the key pair", "", func(ctx context.Context) (err error) {
		a.key, err = a.consumer.awaitKey(ctx, a.provider.id)
		return err
	}); err != nil {
		return err
	}
	p := a.provider
	var at client.ObjectKey
	if err := p.runStep("Ensuring nonce", "Nonce secret ensured", func() (err error) {
		at, err = p.ensureNonce(ctx, a.cli, a.consumer.id, isAccepted(a.have, a.key.Public()))
		return err
	}); err != nil {
		return err
	}
	if err := p.runWaiting(ctx, "Waiting for nonce to be generated", "Nonce generated successfully", func(ctx context.Context) (err error) {
		a.nonce, err = p.awaitNonce(ctx, at)
		return err
	}); err != nil {
		return err
	}
	p.Success("Nonce retrieved")
	return nil
}

func (a *authentication) signNonce(ctx context.Context) error {
	c, of := a.consumer, pki.Handshake{Provider: a.provider.id, Consumer: a.consumer.id, Nonce: a.nonce}
	var at client.ObjectKey
	if err := c.runStep("Ensuring signed nonce", "Signed nonce secret ensured", func() (err error) {
		at, err = c.ensureSignedNonce(ctx, a.cli, a.key.Public(), of)
		return err
	}); err != nil {
		return err
	}
	if err := c.runWaiting(ctx, "Waiting for nonce to be signed", "Nonce is signed", func(ctx context.Context) (err error) {
		a.signature, err = c.awaitSignature(ctx, at, a.key.Public(), of)
		return err
	}); err != nil {
		return err
	}
	c.Success("Signed nonce retrieved")
	return nil
}

// registerTenant creates the Tenant, and waits until the provider accepted it and granted the credentials of the consumer.
func (a *authentication) registerTenant(ctx context.Context) error {
	at := client.ObjectKey{Namespace: a.provider.namespace, Name: a.consumer.id}
	if a.have != nil {
		at = client.ObjectKeyFromObject(a.have)
	}
	var want *authv1beta1.Tenant
	if err := a.consumer.runStep("Generating tenant", "Tenant correctly generated", func() (err error) {
		want, err = newTenant(at, a.consumer.id, a.key, a.signature, a.proxyURL)
		return err
	}); err != nil {
		return err
	}
	keepRequest(want, a.have, a.key.Public())
	p := a.provider
	if err := p.runWaiting(ctx, "Applying tenant on provider cluster", "Tenant correctly applied on provider cluster", func(ctx context.Context) error {
		a.setCommonMetadata(want)
		return applyObject(ctx, p.kube, want)
	}); err != nil {
		return err
	}
	return p.runWaiting(ctx, "Waiting for tenant status to be filled", "Tenant status is filled", func(ctx context.Context) (err error) {
		a.tenant, err = p.awaitTenant(ctx, at)
		return err
	})
}

// takeIdentity creates the Identity at the consumer, from which its controllers make a kubeconfig.
func (a *authentication) takeIdentity(ctx context.Context) error {
	at := client.ObjectKey{Namespace: a.consumer.namespace, Name: a.identity}
	want := newIdentity(at, a.provider.id, a.tenant)
	if err := a.provider.runStep("Generating identity", "Identity correctly generated", func() error { return checkIdentity(want, a.key) }); err != nil {
		return err
	}
	c := a.consumer
	if err := c.runWaiting(ctx, "Applying identity on consumer cluster", "Identity correctly applied on consumer cluster", func(ctx context.Context) error {
		a.setCommonMetadata(want)
		return applyObject(ctx, c.kube, want)
	}); err != nil {
		return err
	}
	return c.runWaiting(ctx, "Waiting for identity status to be filled", "Identity status is filled", func(ctx context.Context) error { return c.awaitKubeconfig(ctx, at) })
}
