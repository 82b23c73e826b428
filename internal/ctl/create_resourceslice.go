// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/names"
)

type createResourceSliceOptions struct {
	*creation
	amounts
	class         string
	noVirtualNode bool
}

func (c *cli) createResourceSlice(common *creation) *cobra.Command {
	o := &createResourceSliceOptions{creation: common}
	cmd := c.forPeer(common, &cobra.Command{
		Use:     "resourceslice NAME",
		Aliases: []string{"rs", "resourceslices"},
		Short:   "Ask a provider for resources, to be shown as a virtual node",
		Long: "Request resources of a provider, shown as a virtual node of the same name, and wait for the answer.\n" +
			"The provider chooses amounts that are not set. The clusters have to be authenticated: see liqoctl authenticate.",
		Example: "  liqoctl create resourceslice milan --remote-cluster-id milan --cpu 4 --memory 8Gi --pods 30",
	}, func(ctx context.Context, cluster client.WithWatch, key client.ObjectKey) error {
		return c.runCreateResourceSlice(ctx, o, cluster, key)
	})
	common.addFlags(c, cmd, false)
	o.amounts.addFlags(cmd.Flags(), "", "", "")
	cmd.PreRunE = o.amounts.checkFlags
	cmd.Flags().StringVar(&o.class, "class", string(authv1beta1.ResourceSliceClassDefault), "The class of the ResourceSlice")
	cmd.Flags().BoolVar(&o.noVirtualNode, "no-virtual-node", false, "Do not create a VirtualNode for the granted resources")
	return cmd
}

func (c *cli) runCreateResourceSlice(ctx context.Context, o *createResourceSliceOptions, cluster client.WithWatch, key client.ObjectKey) error {
	resources, err := o.amounts.parseAll()
	if err != nil {
		return err
	}
	slice := newResourceSlice(key, o.peer, o.class, resources, !o.noVirtualNode)
	c.setCommonMetadata(slice)
	if o.isRequested() {
		return c.printObject(slice, o.outputFormat())
	}
	return (&sliceRequest{kube: cluster, slice: slice, tell: c}).runSteps(ctx)
}

func newResourceSlice(key client.ObjectKey, provider, class string, resources corev1.ResourceList, virtualNode bool) *authv1beta1.ResourceSlice {
	slice := &authv1beta1.ResourceSlice{
		ObjectMeta: peerMeta(key, provider),
		Spec: authv1beta1.ResourceSliceSpec{
			Class: authv1beta1.ResourceSliceClass(class), ProviderClusterID: new(liqov1beta1.ClusterID(provider)), Resources: resources,
		},
	}
	slice.Labels[names.ReplicationDestination], slice.Labels[names.Replication] = provider, "true"
	if virtualNode {
		slice.Annotations = map[string]string{names.CreateVirtualNode: "true"}
	}
	slice.SetGroupVersionKind(authv1beta1.GroupVersion.WithKind("ResourceSlice"))
	return slice
}
