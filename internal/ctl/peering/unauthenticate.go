// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

type unauthenticateOptions struct {
	local, remote cluster.ClusterFlags
	timeout       time.Duration
	wait          bool
	cluster.DryRunOptions
}

// NewUnauthenticateCommand returns the command "unauthenticate".
func NewUnauthenticateCommand(c *cluster.Session) *cobra.Command {
	o := &unauthenticateOptions{}
	cmd := &cobra.Command{
		Use:     "unauthenticate",
		Aliases: []string{"unauth"},
		Short:   "Have a provider forget this cluster, and drop its credentials",
		Long: "Remove this cluster as a consumer of the remote cluster, its provider, and delete the credentials. The other direction stays.\n" +
			"Refused while this cluster has ResourceSlices or virtual nodes of the provider.",
		Example: "  liqoctl unauthenticate --remote-kubeconfig milan.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.WithBoth(cmd.Context(), o.timeout, &o.local, &o.remote, func(ctx context.Context, local, remote *cluster.Cluster) error {
				return c.RunOrPrint(ctx, &o.DryRunOptions, cluster.ToDelete, func(ctx context.Context, c *cluster.Session) error {
					d := &deauthentication{Session: c, consumer: local, provider: remote, wait: o.wait}
					if err := d.readState(ctx); err != nil {
						return err
					}
					return d.runSteps(ctx)
				}, local, remote)
			})
		},
	}
	fs := cmd.Flags()
	fs.DurationVar(&o.timeout, "timeout", 2*time.Minute, "How long all of it may take")
	fs.BoolVar(&o.wait, "wait", true, "Wait until all of it is gone")
	o.DryRunOptions.AddFlags(fs)
	twoInstallations(cmd, &o.local, &o.remote)
	return cmd
}

// deauthentication makes a provider forget a consumer. The run only deletes existing objects, and is idempotent.
type deauthentication struct {
	*cluster.Session
	consumer, provider *cluster.Cluster
	wait               bool

	identities, tenants []client.Object
	// Secrets without a use after the deletion of the objects.
	signed, nonces, kubeconfigs []corev1.Secret
}

// readState finds the objects to delete. Nothing is changed. It fails if they are in use or may not be deleted.
func (d *deauthentication) readState(ctx context.Context) error {
	return inTurn(ctx, d.checkUnused, d.findObjects, d.mayRemove, d.findSecrets) // mayRemove reports missing permissions on Secrets, too
}

// inTurn runs functions in order until a function fails.
func inTurn(ctx context.Context, all ...func(context.Context) error) error {
	for _, next := range all {
		if err := next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// checkUnused fails while the consumer uses anything of the provider.
func (d *deauthentication) checkUnused(ctx context.Context) error {
	return d.consumer.WrapWithCluster(checkUnused(ctx, d.consumer, d.provider.ID))
}

// findObjects finds the objects to delete, in use or not, except Secrets.
func (d *deauthentication) findObjects(ctx context.Context) (err error) {
	c, p := d.consumer, d.provider
	if d.identities, err = network.FindOfPeer(ctx, c, &authv1beta1.IdentityList{}, p.ID); err != nil {
		return c.WrapWithCluster(err)
	}
	d.identities = slices.DeleteFunc(d.identities, func(obj client.Object) bool { return !isControlPlane(obj) })
	d.tenants, err = network.FindOfPeer(ctx, p, &authv1beta1.TenantList{}, c.ID)
	return p.WrapWithCluster(err)
}

func (d *deauthentication) findSecrets(ctx context.Context) (err error) {
	c, p := d.consumer, d.provider
	if d.signed, err = handshakeSecrets(ctx, c, names.SignedNonce, p.ID); err != nil {
		return c.WrapWithCluster(err)
	}
	if d.kubeconfigs, err = controlPlaneSecrets(ctx, c, p.ID); err != nil {
		return c.WrapWithCluster(err)
	}
	d.nonces, err = handshakeSecrets(ctx, p, names.Nonce, c.ID)
	return p.WrapWithCluster(err)
}

// mayRemove fails if the user may not delete the objects.
func (d *deauthentication) mayRemove(ctx context.Context) error {
	c, p := d.consumer, d.provider
	if err := c.RequireDeletion(ctx, d.identities...); err != nil {
		return err
	}
	if err := c.RequirePermissions(ctx, c.PermissionsFor("", "delete credentials")...); err != nil {
		return err
	}
	if err := p.RequireDeletion(ctx, d.tenants...); err != nil {
		return err
	}
	if err := p.RequirePermissions(ctx, noncePermissions(p, "delete nonce")...); err != nil {
		return err
	}
	return p.WrapWithCluster(kube.DeleteObjects(ctx, p.Kube, d.tenants, client.DryRunAll)) // a policy may deny a deletion that RBAC allows
}

// isControlPlane reports whether an Identity is the Identity of the consumer, not of a slice.
func isControlPlane(identity client.Object) bool {
	return identity.(*authv1beta1.Identity).Spec.Type == authv1beta1.ControlPlaneIdentityType
}

// checkUnused fails while this cluster uses anything of a provider.
func checkUnused(ctx context.Context, s *cluster.Cluster, provider string) error {
	for _, of := range []struct {
		what string
		find func() ([]client.Object, error)
	}{
		{"resourceslices", func() ([]client.Object, error) {
			return network.ListSlices(ctx, s, &authv1beta1.ResourceSliceList{}, provider)
		}},
		{"virtualnodes", func() ([]client.Object, error) {
			return network.FindOfPeer(ctx, s, &offv1beta1.VirtualNodeList{}, provider)
		}},
	} {
		found, err := of.find()
		if err != nil {
			return err
		}
		var all []string
		for _, obj := range found {
			all = append(all, client.ObjectKeyFromObject(obj).String())
		}
		if len(all) > 0 {
			return ui.Fail("%s are still present on consumer cluster: %s", of.what, strings.Join(all, ", ")).Hint("Delete them first: what is offloaded ends with them")
		}
	}
	return nil
}

func (d *deauthentication) runSteps(ctx context.Context) error {
	c, p := d.consumer, d.provider
	c.Success("No leftover resourceslices on consumer cluster")
	// The credentials go first: until then, the replicator uses the grants of the Tenant to delete its copies.
	if err := dropAll(ctx, c, d.identities, "Identity control plane", d.wait, func() error { return d.dropKubeconfigs(ctx) }); err != nil {
		return err
	}
	if err := c.WrapWithCluster(kube.DeleteObjects(ctx, c.Kube, secretObjects(d.signed))); err != nil {
		return err
	}
	return dropAll(ctx, p, d.tenants, "Tenant", d.wait, func() error {
		if err := kube.DeleteObjects(ctx, p.Kube, secretObjects(d.nonces)); err != nil || !d.wait {
			return err
		}
		return d.dropCertificates(ctx)
	})
}

// dropAll deletes objects, and their dependents.
func dropAll(ctx context.Context, s *cluster.Cluster, found []client.Object, what string, wait bool, then func() error) error {
	done := what + " correctly deleted"
	if len(found) == 0 {
		done = what + " already deleted"
	}
	return s.RunWaiting(ctx, "Deleting "+what, done, func(ctx context.Context) error {
		if err := s.RemoveAll(ctx, found, wait); err != nil {
			return err
		}
		return then()
	})
}

func secretObjects(secrets []corev1.Secret) (all []client.Object) {
	for i := range secrets {
		all = append(all, &secrets[i])
	}
	return all
}

// dropKubeconfigs waits until the credentials are no longer in use. Secrets made by hand are kept.
func (d *deauthentication) dropKubeconfigs(ctx context.Context) error {
	for i := range d.kubeconfigs {
		secret := &d.kubeconfigs[i]
		if of := metav1.GetControllerOf(secret); of == nil {
			d.consumer.Warn("The Secret %s has credentials that were made by hand: it stays", client.ObjectKeyFromObject(secret))
			continue
		}
		if !d.wait {
			continue
		}
		if err := d.consumer.RemoveAll(ctx, []client.Object{secret}, true); err != nil {
			return err
		}
	}
	return nil
}

// dropCertificates deletes the certificates issued for the deleted Tenants. The garbage collector would delete them some time later.
func (d *deauthentication) dropCertificates(ctx context.Context) error {
	var all corev1.SecretList
	err := d.provider.Kube.List(ctx, &all, client.InNamespace(d.provider.Namespace), client.MatchingLabels{names.RemoteClusterID: d.consumer.ID})
	if apierrors.IsForbidden(err) {
		return nil // a peering user lacks the permission: the garbage collector deletes them
	}
	if err != nil {
		return fmt.Errorf("looking for certificates: %w", err)
	}
	return kube.DeleteObjects(ctx, d.provider.Kube, secretObjects(slices.DeleteFunc(all.Items, func(secret corev1.Secret) bool {
		return !slices.ContainsFunc(d.tenants, func(tenant client.Object) bool { return metav1.IsControlledBy(&secret, tenant) })
	})))
}
