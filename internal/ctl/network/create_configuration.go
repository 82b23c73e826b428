// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
)

type createConfigurationOptions struct {
	*cluster.Creation
	pod, external []string
}

// CreateConfiguration returns the command "create configuration".
func CreateConfiguration(c *cluster.Session, common *cluster.Creation) *cobra.Command {
	o := &createConfigurationOptions{Creation: common}
	cmd := c.WithOneArgument(common, &cobra.Command{
		Use:     "configuration NAME",
		Aliases: []string{"config", "configurations"},
		Short:   "Create a Configuration with the networks of another cluster",
		Example: "  liqoctl create configuration milan --remote-cluster-id milan --pod-cidr 10.200.0.0/16 --external-cidr 10.70.0.0/16",
	}, func(ctx context.Context, key client.ObjectKey) error { return runCreateConfiguration(ctx, c, o, key) })
	common.AddFlags(c, cmd, true)
	cmd.Flags().StringSliceVar(&o.pod, "pod-cidr", nil, "The pod networks of the other cluster")
	cmd.Flags().StringSliceVar(&o.external, "external-cidr", nil, "The external networks of the other cluster")
	_ = cmd.MarkFlagRequired("pod-cidr")
	_ = cmd.MarkFlagRequired("external-cidr")
	return cmd
}

func runCreateConfiguration(ctx context.Context, c *cluster.Session, o *createConfigurationOptions, key client.ObjectKey) error {
	of := networkingv1beta1.ClusterConfigCIDR{Pod: parseCIDRs(o.pod), External: parseCIDRs(o.external)}
	return c.CreateAndWait(ctx, o.Creation, NewConfiguration(key, o.Peer, of), "Configuration created", "Configuration is ready",
		func(ctx context.Context, kube client.Reader, obj client.Object) error {
			return checkConfigured(ctx, kube, obj.(*networkingv1beta1.Configuration))
		})
}

func parseCIDRs(texts []string) (all []networkingv1beta1.CIDR) {
	for _, text := range texts {
		all = append(all, networkingv1beta1.CIDR(strings.TrimSpace(text)))
	}
	return all
}
