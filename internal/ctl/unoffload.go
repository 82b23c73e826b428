// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/await"
	"liqo.io/liqo/internal/names"
)

type unoffloadOptions struct {
	namespaceSelector string
	timeout           time.Duration
	dryRunOptions
}

func (c *cli) newUnoffloadCommand() *cobra.Command {
	o := &unoffloadOptions{}
	cmd := &cobra.Command{
		Use:               "namespace NAME...",
		Aliases:           []string{"ns", "namespaces"},
		Short:             "Take namespaces back from other clusters",
		Args:              checkArguments(cobra.ArbitraryArgs, checkNamespace),
		ValidArgsFunction: c.completeOffloaded,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSelection(args, o.namespaceSelector); err != nil {
				return err
			}
			if err := c.confirmUnless(cmd.Context(), o.isRequested(), "unoffload"); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			return c.runUnoffload(ctx, o, args)
		},
	}
	cmd.Flags().StringVar(&o.namespaceSelector, "ns-selector", "", "Which namespaces, by their labels, instead of by names")
	o.dryRunOptions.addFlags(cmd, cmd.Flags())
	cmd.Flags().DurationVar(&o.timeout, "timeout", 120*time.Second, "How long all of it may take")
	return newGroup("unoffload", "Take a resource back from other clusters", cmd)
}

func (c *cli) runUnoffload(ctx context.Context, o *unoffloadOptions, args []string) error {
	kube, err := c.newClient(ctx)
	if err != nil {
		return err
	}
	namespaces, err := c.selectNamespaces(ctx, kube, args, o.namespaceSelector)
	if err != nil {
		return err
	}
	if len(namespaces) == 0 {
		c.Info("No namespaces can be unoffloaded")
		return nil
	}
	if !o.isRequested() {
		return c.eachNamespace(ctx, "unoffloading", namespaces, func(ctx context.Context, c *cli, ns string) error { return c.unoffloadOne(ctx, kube, ns) })
	}
	for _, ns := range namespaces {
		if err := c.previewUnoffload(ctx, kube, o, ns); err != nil {
			return err
		}
	}
	return nil
}

// previewUnoffload prints the name of the object to delete, if it exists.
func (c *cli) previewUnoffload(ctx context.Context, kube client.Client, o *unoffloadOptions, namespace string) error {
	nso := &offv1beta1.NamespaceOffloading{}
	err := kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: names.NamespaceOffloading}, nso)
	if apierrors.IsNotFound(err) {
		c.Info("Namespace %q is not offloaded", namespace)
		return nil
	}
	if err != nil {
		return err
	}
	bare, err := nameOnly(nso, kube.Scheme())
	if err != nil {
		return err
	}
	return c.printObject(bare, o.outputFormat())
}

func (c *cli) unoffloadOne(ctx context.Context, kube client.WithWatch, namespace string) error {
	nso := &offv1beta1.NamespaceOffloading{}
	nso.Namespace, nso.Name = namespace, names.NamespaceOffloading
	if err := kube.Delete(ctx, nso); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	c.Success("Offloading of namespace %q correctly disabled", namespace)
	return c.runStep(fmt.Sprintf("Unoffloading namespace %q", namespace), "Unoffloading completed successfully", func() error {
		return await.AllGone(ctx, kube, &offv1beta1.NamespaceOffloadingList{},
			client.InNamespace(namespace), client.MatchingFields{"metadata.name": names.NamespaceOffloading})
	})
}
