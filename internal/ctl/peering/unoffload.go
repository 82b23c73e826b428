// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

type unoffloadOptions struct {
	namespaceSelector string
	timeout           time.Duration
	cluster.DryRunOptions
}

// NewUnoffloadCommand returns the command "unoffload".
func NewUnoffloadCommand(c *cluster.Session) *cobra.Command {
	o := &unoffloadOptions{}
	cmd := &cobra.Command{
		Use:               "namespace NAME...",
		Aliases:           []string{"ns", "namespaces"},
		Short:             "Take namespaces back from other clusters",
		Args:              cluster.CheckArguments(cobra.ArbitraryArgs, cluster.CheckNamespace),
		ValidArgsFunction: c.CompleteOffloaded,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSelection(args, o.namespaceSelector); err != nil {
				return err
			}
			if err := c.ConfirmUnless(cmd.Context(), o.IsRequested(), "unoffload"); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			return runUnoffload(ctx, c, o, args)
		},
	}
	cmd.Flags().StringVar(&o.namespaceSelector, "ns-selector", "", "Which namespaces, by their labels, instead of by names")
	o.DryRunOptions.AddFlags(cmd.Flags())
	cmd.Flags().DurationVar(&o.timeout, "timeout", 120*time.Second, "How long all of it may take")
	return cluster.NewGroup("unoffload", "Take a resource back from other clusters", cmd)
}

func runUnoffload(ctx context.Context, c *cluster.Session, o *unoffloadOptions, args []string) error {
	cl, err := c.NewClient(ctx)
	if err != nil {
		return err
	}
	namespaces, err := selectNamespaces(ctx, c, cl, args, o.namespaceSelector)
	if err != nil {
		return err
	}
	if len(namespaces) == 0 {
		c.Info("No namespaces can be unoffloaded")
		return nil
	}
	if !o.IsRequested() {
		return eachNamespace(ctx, c, "unoffloading", namespaces, func(ctx context.Context, c *cluster.Session, ns string) error { return unoffloadOne(ctx, c, cl, ns) })
	}
	for _, ns := range namespaces {
		if err := previewUnoffload(ctx, c, cl, o, ns); err != nil {
			return err
		}
	}
	return nil
}

// previewUnoffload prints the name of the object to delete, if the object exists.
func previewUnoffload(ctx context.Context, c *cluster.Session, cl client.Client, o *unoffloadOptions, namespace string) error {
	nso := &offv1beta1.NamespaceOffloading{}
	err := cl.Get(ctx, client.ObjectKey{Namespace: namespace, Name: names.NamespaceOffloading}, nso)
	if apierrors.IsNotFound(err) {
		c.Info("Namespace %q is not offloaded", namespace)
		return nil
	}
	if err != nil {
		return err
	}
	return c.PrintNames(&o.DryRunOptions, cl.Scheme(), nso)
}

func unoffloadOne(ctx context.Context, c *cluster.Session, cl client.WithWatch, namespace string) error {
	if err := cluster.KeepData(ctx, cl, "", namespace); err != nil {
		return err
	}
	nso := &offv1beta1.NamespaceOffloading{}
	nso.Namespace, nso.Name = namespace, names.NamespaceOffloading
	if err := cl.Delete(ctx, nso); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	c.Success("Offloading of namespace %q correctly disabled", namespace)
	return c.RunStep(fmt.Sprintf("Unoffloading namespace %q", namespace), "Unoffloading completed successfully", func() error {
		return kube.WaitForNone(ctx, cl, &offv1beta1.NamespaceOffloadingList{},
			client.InNamespace(namespace), client.MatchingFields{"metadata.name": names.NamespaceOffloading})
	})
}
