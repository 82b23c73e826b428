// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/resourceslice/want"
)

// sliceCommand returns the command cordon resourceslice or uncordon resourceslice.
func (c *cli) sliceCommand(cordoned bool) *cobra.Command {
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
		Args:              oneName,
		ValidArgsFunction: c.completeOne(func() client.ObjectList { return &authv1beta1.ResourceSliceList{} }, client.MatchingLabels{names.Replicated: "true"}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.confirmUnless(cmd.Context(), o.isRequested(), verb); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			return c.cordonSlice(ctx, o, args[0], consumer, cordoned)
		},
	}
	o.addFlags(cmd, "ResourceSlice; the tenant namespace of the consumer if empty")
	cmd.Flags().StringVar(&consumer, "remote-cluster-id", "", "The ID of the consumer")
	_ = cmd.MarkFlagRequired("remote-cluster-id")
	return cmd
}

func (c *cli) cordonSlice(ctx context.Context, o *switchOptions, name, consumer string, cordoned bool) error {
	cluster, err := c.newClient(ctx)
	if err != nil {
		return err
	}
	here := &Cluster{Scope: c.Scope("local"), name: "local", kube: cluster, asked: o.namespace}
	if err := here.findNamespace(ctx, consumer); err != nil {
		return fmt.Errorf("unable to get tenant namespace: %w", err)
	}
	if here.missing {
		return out.Fail("unable to get tenant namespace: none found for %s", consumer).Hint("%s", noTenantNamespaceHint)
	}
	slice := &authv1beta1.ResourceSlice{}
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: here.namespace, Name: name}, slice); err != nil {
		return fmt.Errorf("unable to get ResourceSlice: %w", err)
	}
	if !peer.IsReplica(slice) {
		return out.Fail("ResourceSlice %q is a request of this cluster to %s: only the provider can cordon it", name, consumer)
	}
	slice.SetGroupVersionKind(authv1beta1.GroupVersion.WithKind("ResourceSlice"))
	before := slice.DeepCopy()
	delete(slice.Annotations, names.Cordon)
	done := "uncordoned"
	if cordoned {
		metav1.SetMetaDataAnnotation(&slice.ObjectMeta, names.Cordon, "true")
		done = "cordoned"
	}
	c.setCommonMetadata(slice)
	if o.isRequested() {
		if err := client.NewDryRunClient(cluster).Patch(ctx, slice, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("unable to update ResourceSlice: %w", err)
		}
		return c.printObject(c.cordonOf(slice, cordoned), o.outputFormat())
	}
	if err := cluster.Patch(ctx, slice, client.MergeFrom(before), client.FieldOwner(names.CLIFieldManager)); err != nil {
		return fmt.Errorf("unable to update ResourceSlice: %w", err)
	}
	c.Success("ResourceSlice %q %s", name, done)
	return c.sliceSwitched(ctx, o, cluster, slice, consumer)
}

// sliceSwitched waits for the Quota of the slice, which also depends on the Tenant.
func (c *cli) sliceSwitched(ctx context.Context, o *switchOptions, cluster client.WithWatch, slice *authv1beta1.ResourceSlice, consumer string) error {
	var tenants authv1beta1.TenantList
	if err := cluster.List(ctx, &tenants, client.InNamespace(slice.Namespace)); err != nil {
		c.Warn("What comes of it is not waited for: %s", describeError(err))
		return nil
	}
	tenant := peer.Tenant(tenants.Items, liqov1beta1.ClusterID(consumer))
	if tenant == nil {
		return nil // a slice without a grant has no Quota
	}
	if held := tenant.Spec.TenantCondition; !want.Cordoned(slice) && (held == authv1beta1.TenantConditionCordoned || held == authv1beta1.TenantConditionDrained) {
		c.Warn("The Tenant %q is %s, and its ResourceSlices with it", tenant.Name, held)
	}
	if !o.wait {
		return nil
	}
	return c.awaitSwitch(ctx, cluster, tenant, slice.Name)
}

// cordonOf returns the apply configuration of a ResourceSlice: only the fields that the command owns.
func (c *cli) cordonOf(slice *authv1beta1.ResourceSlice, cordoned bool) client.Object {
	part := &metav1.PartialObjectMetadata{}
	part.SetGroupVersionKind(authv1beta1.GroupVersion.WithKind("ResourceSlice"))
	part.Namespace, part.Name = slice.Namespace, slice.Name
	part.Annotations = map[string]string{names.Cordon: fmt.Sprint(cordoned)}
	c.setCommonMetadata(part)
	return part
}
