// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// choice is a flag with a fixed set of values.
type choice struct {
	value   *string
	allowed []string
}

func oneOf(value *string, def string, allowed []string) pflag.Value {
	*value = def
	return &choice{value, allowed}
}

func (c *choice) String() string { return *c.value }

func (c *choice) Type() string { return "string" }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return fmt.Errorf("it is one of %s", strings.Join(c.allowed, ", "))
	}
	*c.value = s
	return nil
}

// Completions ask the cluster, briefly; whatever goes wrong they offer nothing.
const completionTimeout = 2 * time.Second

func (c *cli) completeNamespaces(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.complete(cmd, args, func(ctx context.Context) (found []string) {
		var list corev1.NamespaceList
		if kube, err := c.client(ctx); err == nil && kube.List(ctx, &list) == nil {
			for _, ns := range list.Items {
				found = append(found, ns.Name)
			}
		}
		return found
	})
}

func (c *cli) completeOffloaded(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.complete(cmd, args, func(ctx context.Context) (found []string) {
		var list offv1beta1.NamespaceOffloadingList
		if kube, err := c.client(ctx); err == nil && kube.List(ctx, &list) == nil {
			for _, nso := range list.Items {
				found = append(found, nso.Namespace)
			}
		}
		return found
	})
}

// completeClusters offers the clusters that have a tenant namespace.
func (c *cli) completeClusters(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.complete(cmd, nil, func(ctx context.Context) (found []string) {
		var list corev1.NamespaceList
		if kube, err := c.client(ctx); err == nil && kube.List(ctx, &list, client.MatchingLabelsSelector{Selector: peer.Namespaces()}) == nil {
			for _, ns := range list.Items {
				found = append(found, ns.Labels[names.RemoteClusterID])
			}
		}
		return found
	})
}

func (c *cli) complete(cmd *cobra.Command, typed []string, find func(context.Context) []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	found := slices.DeleteFunc(find(ctx), func(s string) bool { return slices.Contains(typed, s) })
	return found, cobra.ShellCompDirectiveNoFileComp
}
