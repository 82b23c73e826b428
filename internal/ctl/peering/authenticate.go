// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"crypto"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

type authenticateOptions struct {
	local, remote cluster.ClusterFlags
	timeout       time.Duration
	inBand        bool
	proxyURL      string
	cluster.DryRunOptions
}

// NewAuthenticateCommand returns the command "authenticate".
func NewAuthenticateCommand(c *cluster.Session) *cobra.Command {
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
			return c.WithBoth(cmd.Context(), o.timeout, &o.local, &o.remote, func(ctx context.Context, local, remote *cluster.Cluster) error {
				a := &Authentication{Session: c, Consumer: local, Provider: remote, inBand: o.inBand, proxyURL: o.proxyURL, asBefore: !asksForWay(cmd.Flags())}
				if err := a.MayBegin(ctx); err != nil {
					return err
				}
				return c.RunOrPrint(ctx, &o.DryRunOptions, cluster.ToApply, func(ctx context.Context, c *cluster.Session) error {
					a.Session = c
					return a.runSteps(ctx)
				}, remote, local)
			})
		},
	}
	fs := cmd.Flags()
	fs.DurationVar(&o.timeout, "timeout", 2*time.Minute, "How long all of it may take")
	fs.BoolVar(&o.inBand, "in-band", false, "Reach the API server of the provider through the tunnel between the networks")
	fs.StringVar(&o.proxyURL, "proxy-url", "", "The proxy through which this cluster reaches the API server of the provider")
	o.DryRunOptions.AddFlags(fs)
	twoInstallations(cmd, &o.local, &o.remote)
	return cmd
}

// asksForWay reports whether a flag about the path to the API server of the provider was given.
func asksForWay(fs *pflag.FlagSet) bool { return fs.Changed("in-band") || fs.Changed("proxy-url") }

// twoInstallations adds the flags of two clusters whose -n is the Liqo namespace. All other objects go to tenant namespaces.
func twoInstallations(cmd *cobra.Command, local, remote *cluster.ClusterFlags) {
	cluster.LiqoNamespace(cmd, &local.LiqoNamespace)
	cmd.PersistentFlags().StringVar(&remote.LiqoNamespace, "remote-namespace", names.LiqoNamespace, "The namespace where Liqo is installed in (in the remote cluster)")
	cluster.RemoteFlags(cmd, remote)
}

// Authentication authenticates a consumer with a provider. The cluster IDs are known; the tenant namespaces may be missing. The steps
// are idempotent: existing objects are kept if usable, and replaced if not.
type Authentication struct {
	*cluster.Session
	Consumer, Provider *cluster.Cluster
	// inBand makes the consumer reach the API server through the tunnel, proxyURL through the given proxy. readState sets both.
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

func (a *Authentication) runSteps(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		a.readState, a.comeBack, a.ensureNamespaces, a.getNonce, a.signNonce, a.registerTenant, a.takeIdentity,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// MayBegin fails if the versions are incompatible and no earlier peering exists for a repair.
func (a *Authentication) MayBegin(ctx context.Context) error {
	current, err := tenantOf(ctx, a.Provider, a.Consumer.ID)
	if err != nil {
		return a.Provider.WrapWithCluster(err)
	}
	if current != nil {
		return nil
	}
	return cluster.FitTogether(ctx, a.Consumer, a.Provider)
}

// comeBack revokes the declaration that either cluster is permanently gone.
func (a *Authentication) comeBack(ctx context.Context) error {
	if err := mayComeBack(ctx, a.Provider, a.Consumer.ID); err != nil {
		return a.Provider.WrapWithCluster(err)
	}
	return a.Consumer.WrapWithCluster(mayComeBack(ctx, a.Consumer, a.Provider.ID))
}

// readState reads the state of both clusters and checks all preconditions. Nothing is changed.
func (a *Authentication) readState(ctx context.Context) (err error) {
	if a.have, err = tenantOf(ctx, a.Provider, a.Consumer.ID); err != nil {
		return a.Provider.WrapWithCluster(err)
	}
	if a.identity, err = identityFor(ctx, a.Consumer, a.Provider.ID); err != nil {
		return a.Consumer.WrapWithCluster(err)
	}
	if a.proxyURL, err = a.apiServerURL(ctx); err != nil {
		return err
	}
	wanted := append(a.Provider.PermissionsFor("", "create nonce", "create Tenant"), noncePermissions(a.Provider, "replace nonce")...)
	if err := a.Provider.RequirePermissions(ctx, wanted...); err != nil {
		return err
	}
	return a.Consumer.RequirePermissions(ctx, a.Consumer.PermissionsFor("", "sign nonce", "create Identity")...)
}

func (a *Authentication) ensureNamespaces(ctx context.Context) error {
	for _, s := range []struct {
		*cluster.Cluster
		other string
	}{{a.Consumer, a.Provider.ID}, {a.Provider, a.Consumer.ID}} {
		if err := s.RunStep("Ensuring tenant namespace", "Tenant namespace correctly ensured", func() error {
			return ensureTenantNamespace(ctx, s.Cluster, a.Session, s.other)
		}); err != nil {
			return err
		}
	}
	return nil
}

// getNonce gets a usable nonce. A used nonce is valid only with its first key.
func (a *Authentication) getNonce(ctx context.Context) error {
	if err := a.Consumer.RunWaiting(ctx, "Waiting for the key pair", "", func(ctx context.Context) (err error) {
		a.key, err = awaitKey(ctx, a.Consumer, a.Provider.ID)
		return err
	}); err != nil {
		return err
	}
	p := a.Provider
	var at client.ObjectKey
	if err := p.RunStep("Ensuring nonce", "Nonce secret ensured", func() (err error) {
		at, err = ensureNonce(ctx, p, a.Session, a.Consumer.ID, isAccepted(a.have, a.key.Public()))
		return err
	}); err != nil {
		return err
	}
	if err := p.RunWaiting(ctx, "Waiting for nonce to be generated", "Nonce generated successfully", func(ctx context.Context) (err error) {
		a.nonce, err = awaitNonce(ctx, p, at)
		return err
	}); err != nil {
		return err
	}
	p.Success("Nonce retrieved")
	return nil
}

func (a *Authentication) signNonce(ctx context.Context) error {
	c, of := a.Consumer, pki.Handshake{Provider: a.Provider.ID, Consumer: a.Consumer.ID, Nonce: a.nonce}
	var at client.ObjectKey
	if err := c.RunStep("Ensuring signed nonce", "Signed nonce secret ensured", func() (err error) {
		at, err = ensureSignedNonce(ctx, c, a.Session, a.key.Public(), of)
		return err
	}); err != nil {
		return err
	}
	if err := c.RunWaiting(ctx, "Waiting for nonce to be signed", "Nonce is signed", func(ctx context.Context) (err error) {
		a.signature, err = awaitSignature(ctx, c, at, a.key.Public(), of)
		return err
	}); err != nil {
		return err
	}
	c.Success("Signed nonce retrieved")
	return nil
}

// registerTenant creates the Tenant, and waits until the provider accepted it and granted the credentials of the consumer.
func (a *Authentication) registerTenant(ctx context.Context) error {
	at := client.ObjectKey{Namespace: a.Provider.Namespace, Name: a.Consumer.ID}
	if a.have != nil {
		at = client.ObjectKeyFromObject(a.have)
	}
	var want *authv1beta1.Tenant
	if err := a.Consumer.RunStep("Generating tenant", "Tenant correctly generated", func() (err error) {
		want, err = newTenant(at, a.Consumer.ID, a.key, a.signature, a.proxyURL)
		return err
	}); err != nil {
		return err
	}
	keepRequest(want, a.have, a.key.Public())
	p := a.Provider
	if err := p.RunWaiting(ctx, "Applying tenant on provider cluster", "Tenant correctly applied on provider cluster", func(ctx context.Context) error {
		a.SetCommonMetadata(want)
		return cluster.ApplyObject(ctx, p.Kube, want)
	}); err != nil {
		return err
	}
	return p.RunWaiting(ctx, "Waiting for tenant status to be filled", "Tenant status is filled", func(ctx context.Context) (err error) {
		a.tenant, err = awaitTenant(ctx, p, at)
		return err
	})
}

// takeIdentity creates the Identity in the consumer. The consumer's controllers make a kubeconfig from the Identity.
func (a *Authentication) takeIdentity(ctx context.Context) error {
	at := client.ObjectKey{Namespace: a.Consumer.Namespace, Name: a.identity}
	want := newIdentity(at, a.Provider.ID, a.tenant)
	if err := a.Provider.RunStep("Generating identity", "Identity correctly generated", func() error { return checkIdentity(want, a.key) }); err != nil {
		return err
	}
	c := a.Consumer
	if err := c.RunWaiting(ctx, "Applying identity on consumer cluster", "Identity correctly applied on consumer cluster", func(ctx context.Context) error {
		a.SetCommonMetadata(want)
		return cluster.ApplyObject(ctx, c.Kube, want)
	}); err != nil {
		return err
	}
	return c.RunWaiting(ctx, "Waiting for identity status to be filled", "Identity status is filled", func(ctx context.Context) error { return awaitKubeconfig(ctx, c, at) })
}
