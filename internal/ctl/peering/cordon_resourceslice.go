// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
)

// sliceCommand returns the command cordon resourceslice or uncordon resourceslice.
func sliceCommand(c *cluster.Session, cordoned bool) *cobra.Command {
	verb, short := "uncordon", "Let a consumer start pods again with a ResourceSlice that was cordoned"
	if cordoned {
		verb, short = "cordon", "Let the pods of a ResourceSlice run on, and start no new ones"
	}
	o := &switchOptions{}
	var consumer string
	cmd := &cobra.Command{
		Use: "resourceslice NAME", Aliases: []string{"resourceslices", "rs"}, Short: short,
		Long:              short + ".\nThe command is for the provider of the ResourceSlice.",
		Example:           fmt.Sprintf("  liqoctl %s resourceslice big --remote-cluster-id rome", verb),
		Args:              cluster.OneName,
		ValidArgsFunction: c.CompleteOne(func() client.ObjectList { return &authv1beta1.ResourceSliceList{} }, client.MatchingLabels{names.Replicated: "true"}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.ConfirmUnless(cmd.Context(), o.IsRequested(), verb); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			return cordonSlice(ctx, c, o, args[0], consumer, cordoned)
		},
	}
	o.addFlags(cmd, "ResourceSlice; the tenant namespace of the consumer if empty")
	cmd.Flags().StringVar(&consumer, "remote-cluster-id", "", "The ID of the consumer")
	_ = cmd.MarkFlagRequired("remote-cluster-id")
	return cmd
}

func cordonSlice(ctx context.Context, c *cluster.Session, o *switchOptions, name, consumer string, cordoned bool) error {
	kubeClient, err := c.NewClient(ctx)
	if err != nil {
		return err
	}
	here := &cluster.Cluster{Scope: c.Scope("local"), Name: "local", Kube: kubeClient, Asked: o.namespace}
	if err := here.FindNamespace(ctx, consumer); err != nil {
		return fmt.Errorf("unable to get tenant namespace: %w", err)
	}
	if here.Missing {
		return ui.Fail("unable to get tenant namespace: none found for %s", consumer).Hint("%s", cluster.NoTenantNamespaceHint)
	}
	slice := &authv1beta1.ResourceSlice{}
	if err := kubeClient.Get(ctx, client.ObjectKey{Namespace: here.Namespace, Name: name}, slice); err != nil {
		return fmt.Errorf("unable to get ResourceSlice: %w", err)
	}
	if !peer.IsReplica(slice) {
		return ui.Fail("ResourceSlice %q is a request of this cluster to %s: only the provider can cordon it", name, consumer)
	}
	slice.SetGroupVersionKind(authv1beta1.GroupVersion.WithKind("ResourceSlice"))
	before := slice.DeepCopy()
	delete(slice.Annotations, names.Cordon)
	done := "uncordoned"
	if cordoned {
		metav1.SetMetaDataAnnotation(&slice.ObjectMeta, names.Cordon, "true")
		done = "cordoned"
	}
	c.SetCommonMetadata(slice)
	if o.IsRequested() {
		if err := client.NewDryRunClient(kubeClient).Patch(ctx, slice, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("unable to update ResourceSlice: %w", err)
		}
		return c.PrintObject(cordonOf(c, slice, cordoned), o.OutputFormat())
	}
	if err := kubeClient.Patch(ctx, slice, client.MergeFrom(before), client.FieldOwner(names.CLIFieldManager)); err != nil {
		return fmt.Errorf("unable to update ResourceSlice: %w", err)
	}
	c.Success("ResourceSlice %q %s", name, done)
	return sliceSwitched(ctx, c, o, kubeClient, slice, consumer)
}

// sliceSwitched waits for the Quota of the slice. The Quota also depends on the Tenant.
func sliceSwitched(ctx context.Context, c *cluster.Session, o *switchOptions, kubeClient client.WithWatch, slice *authv1beta1.ResourceSlice, consumer string) error {
	var tenants authv1beta1.TenantList
	if err := kubeClient.List(ctx, &tenants, client.InNamespace(slice.Namespace)); err != nil {
		c.Warn("What comes of it is not waited for: %s", cluster.DescribeError(err))
		return nil
	}
	tenant := peer.Tenant(tenants.Items, liqov1beta1.ClusterID(consumer))
	if tenant == nil {
		return nil // a slice without a grant has no Quota
	}
	if held := tenant.Spec.TenantCondition; !policy.IsCordoned(slice) && (held == authv1beta1.TenantConditionCordoned || held == authv1beta1.TenantConditionDrained) {
		c.Warn("The Tenant %q is %s, and its ResourceSlices with it", tenant.Name, held)
	}
	if !o.wait {
		return nil
	}
	return awaitSwitch(ctx, c, kubeClient, tenant, slice.Name)
}

// cordonOf returns the apply configuration of a ResourceSlice: only the fields owned by the command.
func cordonOf(c *cluster.Session, slice *authv1beta1.ResourceSlice, cordoned bool) client.Object {
	part := &metav1.PartialObjectMetadata{}
	part.SetGroupVersionKind(authv1beta1.GroupVersion.WithKind("ResourceSlice"))
	part.Namespace, part.Name = slice.Namespace, slice.Name
	part.Annotations = map[string]string{names.Cordon: fmt.Sprint(cordoned)}
	c.SetCommonMetadata(part)
	return part
}
