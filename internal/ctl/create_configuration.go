// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

type createConfigurationOptions struct {
	*creation
	pod, external []string
}

func (c *cli) createConfiguration(common *creation) *cobra.Command {
	o := &createConfigurationOptions{creation: common}
	cmd := c.withOneArgument(common, &cobra.Command{
		Use:     "configuration NAME",
		Aliases: []string{"config", "configurations"},
		Short:   "Create a Configuration with the networks of another cluster",
		Example: "  liqoctl create configuration milan --remote-cluster-id milan --pod-cidr 10.200.0.0/16 --external-cidr 10.70.0.0/16",
	}, func(ctx context.Context, key client.ObjectKey) error { return c.runCreateConfiguration(ctx, o, key) })
	common.addFlags(c, cmd, true)
	cmd.Flags().StringSliceVar(&o.pod, "pod-cidr", nil, "The pod networks of the other cluster")
	cmd.Flags().StringSliceVar(&o.external, "external-cidr", nil, "The external networks of the other cluster")
	_ = cmd.MarkFlagRequired("pod-cidr")
	_ = cmd.MarkFlagRequired("external-cidr")
	return cmd
}

func (c *cli) runCreateConfiguration(ctx context.Context, o *createConfigurationOptions, key client.ObjectKey) error {
	of := networkingv1beta1.ClusterConfigCIDR{Pod: parseCIDRs(o.pod), External: parseCIDRs(o.external)}
	return c.createAndWait(ctx, o.creation, newConfiguration(key, o.peer, of), "Configuration created", "Configuration is ready",
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
