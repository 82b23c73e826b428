// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// forceWarning is the question before a forced unpeering.
const forceWarning = "force unpeer might leave the remote cluster in an inconsistent state and it"

// NewForceCommand returns the command "force".
func NewForceCommand(c *cluster.Session) *cobra.Command {
	var timeout time.Duration
	var p cluster.DryRunOptions
	cmd := &cobra.Command{
		Use:   "unpeer CLUSTER_ID",
		Short: "Forget a cluster that is gone for good",
		Long: "Remove all objects of a provider or consumer that is gone for good, with its tenant namespace, without calling it.\n" +
			"For a cluster that still answers, use unpeer.",
		Example:           "  liqoctl force unpeer milan",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.CompleteClusters,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return ui.Fail("Cluster ID must be specified")
			}
			if err := cluster.CheckClusterID(args[0]); err != nil {
				return err
			}
			if err := c.ConfirmUnless(cmd.Context(), p.IsRequested(), forceWarning); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if p.IsRequested() {
				return previewForce(ctx, c, &p, args[0])
			}
			return runForce(ctx, c, args[0])
		},
	}
	p.AddFlags(cmd.Flags())
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "How long all of it may take")
	return cluster.NewGroup("force", "Do what cannot be done with the other cluster", cmd)
}

func runForce(ctx context.Context, c *cluster.Session, id string) error {
	cluster, err := c.NewClient(ctx)
	if err != nil {
		return err
	}
	return ForceUnpeer(ctx, c, cluster, id)
}

// ForceUnpeer removes a lost peer. It retries after transient errors of the API server, because half a peering is useless.
func ForceUnpeer(ctx context.Context, c *cluster.Session, kubeClient client.WithWatch, id string) error {
	s := &cluster.Cluster{Scope: c.Scope("")} // the only cluster, without a name in messages
	s.Kube = cluster.NewRetryingClient(kubeClient, s.Scope)
	if err := s.FindNamespace(ctx, id); err != nil {
		return err
	}
	fc := &liqov1beta1.ForeignCluster{}
	err := s.Kube.Get(ctx, client.ObjectKey{Name: id}, fc)
	if client.IgnoreNotFound(err) != nil {
		if apimeta.IsNoMatchError(err) {
			return ui.Fail("Liqo is not installed in the current cluster!").Hint("--kubeconfig and --context choose another one")
		}
		return ui.Fail("Failed to get info about remote cluster: %w", err)
	}
	known := err == nil
	if !known && s.Missing {
		return ui.Fail("Remote cluster with ID %s not found", id)
	}
	if known {
		c.Success("Info about the remote cluster retrieved successfully")
	}
	all, err := aboutPeer(ctx, s, id)
	if err != nil {
		return err
	}
	if err := requireForgetPermissions(ctx, s, fc, all); err != nil {
		return err
	}
	if known {
		if err := declareGone(ctx, s.Kube, fc); err != nil {
			return ui.Fail("Failed to declare ForeignCluster as permanently unreachable: %w", err)
		}
		c.Success("Foreign cluster declared as permanently unreachable successfully")
	}
	if err := forgetPeer(ctx, s, id, all); err != nil {
		return ui.Fail("Failed to delete tenant namespace on consumer cluster: %w", err)
	}
	c.Success("Force unpeer executed successfully")
	return nil
}

// previewForce prints the ForeignCluster with the declaration that the cluster is lost, and the names of the objects to delete.
func previewForce(ctx context.Context, c *cluster.Session, p *cluster.DryRunOptions, id string) error {
	kubeClient, err := c.NewClient(ctx)
	if err != nil {
		return err
	}
	s := &cluster.Cluster{Scope: c.Scope(""), Kube: kubeClient}
	if err := s.FindNamespace(ctx, id); err != nil {
		return err
	}
	all, err := aboutPeer(ctx, s, id)
	if err != nil {
		return err
	}
	if !s.Missing {
		all = append(all, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}})
	}
	fc := &liqov1beta1.ForeignCluster{}
	if err := kubeClient.Get(ctx, client.ObjectKey{Name: id}, fc); client.IgnoreNotFound(err) != nil {
		return err
	} else if err == nil {
		gone := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: id, Annotations: map[string]string{names.PermanentlyUnreachable: "true"}}}
		gone.SetGroupVersionKind(liqov1beta1.GroupVersion.WithKind("ForeignCluster"))
		if err := c.PrintObject(gone, p.OutputFormat()); err != nil {
			return err
		}
	} else if s.Missing {
		return ui.Fail("Remote cluster with ID %s not found", id)
	}
	return c.PrintNames(p, kubeClient.Scheme(), all...)
}

func declareGone(ctx context.Context, cluster client.Client, fc *liqov1beta1.ForeignCluster) error {
	before := fc.DeepCopy()
	if fc.Annotations == nil {
		fc.Annotations = map[string]string{}
	}
	fc.Annotations[names.PermanentlyUnreachable] = "true"
	return client.IgnoreNotFound(cluster.Patch(ctx, fc, client.MergeFrom(before)))
}

// mayComeBack revokes the declaration that a cluster is permanently gone: a new peering or an answer of the cluster disproves the declaration.
// Peering users lack the permission; the error is ignored.
func mayComeBack(ctx context.Context, s *cluster.Cluster, id string) error {
	fc := &liqov1beta1.ForeignCluster{}
	err := s.Kube.Get(ctx, client.ObjectKey{Name: id}, fc)
	if _, gone := fc.Annotations[names.PermanentlyUnreachable]; err == nil && gone {
		before := fc.DeepCopy()
		delete(fc.Annotations, names.PermanentlyUnreachable)
		err = s.Kube.Patch(ctx, fc, client.MergeFrom(before))
	}
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// aboutPeer returns all objects about one cluster in all namespaces, in the order of removal.
func aboutPeer(ctx context.Context, s *cluster.Cluster, id string) (all []client.Object, err error) {
	for _, list := range []client.ObjectList{
		&authv1beta1.ResourceSliceList{}, &offv1beta1.VirtualNodeList{}, &authv1beta1.TenantList{}, &authv1beta1.IdentityList{},
		&networkingv1beta1.GatewayClientList{}, &networkingv1beta1.GatewayServerList{}, &networkingv1beta1.PublicKeyList{}, &networkingv1beta1.ConfigurationList{},
	} {
		found, err := network.FindOfPeer(ctx, s, list, id)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// requireForgetPermissions fails if the user may not declare a cluster gone (unless the cluster has no ForeignCluster) or may not remove all objects
// about the cluster.
func requireForgetPermissions(ctx context.Context, s *cluster.Cluster, fc *liqov1beta1.ForeignCluster, all []client.Object) error {
	var declaring error
	if fc.Name != "" {
		declaring = requireDeclarePermission(ctx, s, fc.Name)
	}
	return errors.Join(declaring, s.RequireDeletion(ctx, all...), mayDeleteNamespace(ctx, s, true))
}

// forgetPeer removes all objects about a cluster, including objects outside of the tenant namespace.
func forgetPeer(ctx context.Context, s *cluster.Cluster, id string, all []client.Object) error {
	if err := s.RemoveAll(ctx, all, false); err != nil {
		return err
	}
	if err := deleteNamespace(ctx, s, id, true); err != nil {
		return unlessAlive(ctx, s, id, err)
	}
	return s.RunStep("Waiting for what is elsewhere to go", "", func() error {
		for _, obj := range all {
			if err := kube.WaitForDeletion(ctx, s.Kube, obj, nil); err != nil {
				return unlessAlive(ctx, s, id, err)
			}
		}
		return nil
	})
}

// unlessAlive adds a hint to an error if the cluster answers, and is not gone.
func unlessAlive(ctx context.Context, s *cluster.Cluster, id string, why error) error {
	if ctx.Err() == nil {
		return why
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), network.TakingBack)
	defer cancel()
	fc := &liqov1beta1.ForeignCluster{}
	if s.Kube.Get(ctx, client.ObjectKey{Name: id}, fc) != nil {
		return why
	}
	for _, c := range fc.Status.Conditions {
		if c.Type == liqov1beta1.APIServerStatus && c.Status == liqov1beta1.ConditionEstablished {
			if err := mayComeBack(ctx, s, id); err != nil {
				return errors.Join(why, err)
			}
			return ui.Fail("%w", why).Hint("The API server of %s answers: it is not gone, and what is left there is removed by: liqoctl unpeer", id)
		}
	}
	return why
}
