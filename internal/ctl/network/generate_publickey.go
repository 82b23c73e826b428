// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

type generatePublicKeyOptions struct {
	*cluster.Generation
	kind, gateway string
}

// Endpoints of a tunnel, as in flags.
const (
	server = "server"
	dialer = "client"
)

// GeneratePublicKey returns the command "generate publickey".
func GeneratePublicKey(c *cluster.Session, common *cluster.Generation) *cobra.Command {
	o := &generatePublicKeyOptions{Generation: common}
	cmd := &cobra.Command{
		Use:     "publickey",
		Aliases: []string{"publickeys", "publickeies"},
		Short:   "Print the PublicKey with which another cluster knows a gateway of this one",
		Example: "  liqoctl generate publickey --gateway-type server --gateway-name server > publickey-server.yaml",
		Args:    cobra.NoArgs,
		RunE:    common.WithTimeout(func(ctx context.Context) error { return runGeneratePublicKey(ctx, c, o) }),
	}
	common.AddFlags(cmd)
	kinds := []string{server, dialer}
	cmd.Flags().Var(cluster.OneOf(&o.kind, "", kinds), "gateway-type", "Type of the gateway: "+strings.Join(kinds, ", "))
	cmd.Flags().StringVar(&o.gateway, "gateway-name", "", "The name of the GatewayServer or GatewayClient")
	_ = cmd.MarkFlagRequired("gateway-type")
	_ = cmd.MarkFlagRequired("gateway-name")
	return cmd
}

// runGeneratePublicKey waits for the key, because the command usually follows the creation of the gateway directly.
func runGeneratePublicKey(ctx context.Context, c *cluster.Session, o *generatePublicKeyOptions) error {
	kube, err := c.NewClient(ctx)
	if err != nil {
		return err
	}
	id, err := cluster.ClusterIdentity(ctx, kube, o.LiqoNamespace)
	if err != nil {
		return err
	}
	namespace, err := c.ResourceNamespace(o.Namespace)
	if err != nil {
		return err
	}
	gw := newGateway(o.kind, client.ObjectKey{Namespace: namespace, Name: o.gateway})
	step := c.Spin("Waiting for the keys of the gateway")
	defer step.Stop()
	if err := gw.awaitKeys(ctx, kube); err != nil {
		return err
	}
	public, err := gw.publicKey(ctx, kube)
	if err != nil {
		return err
	}
	step.Stop()
	return c.PrintGenerated(o.Generation, newPublicKey(client.ObjectKey{Name: id}, id, public))
}

// publicKey reads the public key of the gateway: from the Secret, since the Secret changes first, or from the status if the user may not read the
// Secret.
func (g *gateway) publicKey(ctx context.Context, kube client.Reader) (public [32]byte, err error) {
	var secret corev1.Secret
	ref := g.secretReference()
	key := client.ObjectKey{Namespace: g.GetNamespace(), Name: ref.Name}
	err = kube.Get(ctx, key, &secret)
	if reportedKey := g.reportedPublicKey(); apierrors.IsForbidden(err) && len(reportedKey) == len(public) {
		return [32]byte(reportedKey), nil
	}
	if apierrors.IsNotFound(err) {
		return public, ui.Fail("the Secret %s, which %s names, does not exist", key, g.kindAndName())
	} else if err != nil {
		return public, fmt.Errorf("reading the keys of %s: %w", g.kindAndName(), err)
	}
	return publicKeyOf(&secret)
}

// publicKeyOf returns the public key in a Secret. As in the gateway, the key is derived from a private key alone.
func publicKeyOf(secret *corev1.Secret) ([32]byte, error) {
	if len(secret.Data[names.PublicKeyKey]) == 0 {
		private, err := pki.ParseTunnelKey(secret.Data[names.PrivateKeyKey])
		if err != nil {
			return private, ui.Fail("%s of the Secret %s: %w", names.PrivateKeyKey, client.ObjectKeyFromObject(secret), err)
		}
		return pki.TunnelPublicKey(private)
	}
	public, err := pki.ParseTunnelPublicKey(secret.Data[names.PublicKeyKey])
	if err != nil {
		return public, ui.Fail("%s of the Secret %s: %w", names.PublicKeyKey, client.ObjectKeyFromObject(secret), err)
	}
	return public, nil
}
