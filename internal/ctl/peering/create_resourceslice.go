// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/names"
)

type createResourceSliceOptions struct {
	*cluster.Creation
	cluster.Amounts
	class         string
	noVirtualNode bool
}

// CreateResourceSlice returns the command "create resourceslice".
func CreateResourceSlice(c *cluster.Session, common *cluster.Creation) *cobra.Command {
	o := &createResourceSliceOptions{Creation: common}
	cmd := c.ForPeer(common, &cobra.Command{
		Use:     "resourceslice NAME",
		Aliases: []string{"rs", "resourceslices"},
		Short:   "Ask a provider for resources, to be shown as a virtual node",
		Long: "Request resources of a provider, shown as a virtual node of the same name, and wait for the answer.\n" +
			"The provider chooses amounts that are not set. The clusters have to be authenticated: see liqoctl authenticate.",
		Example: "  liqoctl create resourceslice milan --remote-cluster-id milan --cpu 4 --memory 8Gi --pods 30",
	}, func(ctx context.Context, cluster client.WithWatch, key client.ObjectKey) error {
		return runCreateResourceSlice(ctx, c, o, cluster, key)
	})
	common.AddFlags(c, cmd, false)
	o.Amounts.AddFlags(cmd.Flags(), "", "", "")
	cmd.PreRunE = o.Amounts.CheckFlags
	cmd.Flags().StringVar(&o.class, "class", string(authv1beta1.ResourceSliceClassDefault), "The class of the ResourceSlice")
	cmd.Flags().BoolVar(&o.noVirtualNode, "no-virtual-node", false, "Do not create a VirtualNode for the granted resources")
	return cmd
}

func runCreateResourceSlice(ctx context.Context, c *cluster.Session, o *createResourceSliceOptions, cluster client.WithWatch, key client.ObjectKey) error {
	resources, err := o.Amounts.ParseAll()
	if err != nil {
		return err
	}
	slice := newResourceSlice(key, o.Peer, o.class, resources, !o.noVirtualNode)
	c.SetCommonMetadata(slice)
	if o.IsRequested() {
		return c.PrintObject(slice, o.OutputFormat())
	}
	return (&sliceRequest{kube: cluster, slice: slice, tell: c}).runSteps(ctx)
}

func newResourceSlice(key client.ObjectKey, provider, class string, resources corev1.ResourceList, virtualNode bool) *authv1beta1.ResourceSlice {
	slice := &authv1beta1.ResourceSlice{
		ObjectMeta: network.PeerMeta(key, provider),
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
