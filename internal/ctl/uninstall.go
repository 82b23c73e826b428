// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/install"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/uninstall"
)

type uninstallOptions struct {
	namespace string
	purge     bool
	cluster.DryRunOptions
	timeout time.Duration
}

func newUninstallCommand(c *cluster.Session) *cobra.Command {
	o := &uninstallOptions{}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Uninstall Liqo from the selected cluster",
		Long:  "Uninstall Liqo from the selected cluster. Peerings must be undone and namespaces unoffloaded before.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.ConfirmUnless(cmd.Context(), o.IsRequested(), "uninstall"); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			return runUninstall(ctx, c, o)
		},
	}
	cluster.LiqoNamespace(cmd, &o.namespace)
	cmd.Flags().BoolVar(&o.purge, "purge", false, "Remove the CRDs, the namespaces of Liqo and everything else that is left too")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "Check everything, print the names of what would be deleted, as yaml unless --output says otherwise, and uninstall nothing")
	cluster.OutputFlag(cmd.Flags(), &o.Output, "", "Check everything, print the names of what would be deleted as json or yaml, and uninstall nothing")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 10*time.Minute, "How long the whole operation may take")
	return cmd
}

func runUninstall(ctx context.Context, c *cluster.Session, o *uninstallOptions) error {
	kube, err := c.NewClient(ctx)
	if err != nil {
		return err
	}
	if err := checkUnused(ctx, c, kube); err != nil {
		return err
	}
	if o.IsRequested() {
		if err := install.FindInstalled(ctx, kube, c.KubeFlags, o.namespace, c.HelmLog()); err != nil {
			return err
		}
		if err := previewUninstall(ctx, c, o, kube); err != nil {
			return err
		}
		c.Success("Uninstallation completed (dry-run)")
		return nil
	}
	deadline, _ := ctx.Deadline()
	if err := c.RunStep("Uninstalling Liqo", "Liqo uninstalled", func() error {
		return install.Uninstall(ctx, kube, c.KubeFlags, o.namespace, time.Until(deadline), c.HelmLog())
	}); err != nil || !o.purge {
		return err
	}
	if err := c.RunStep("Purging Liqo CRDs", "Liqo CRDs purged", func() error {
		return uninstall.PurgeCRDs(ctx, kube)
	}); err != nil {
		return err
	}
	return c.RunStep("Deleting Liqo namespaces", "Liqo namespaces deleted", func() error {
		return uninstall.PurgeNamespaces(ctx, kube, o.namespace)
	})
}

// previewUninstall prints the names of the objects to delete.
func previewUninstall(ctx context.Context, c *cluster.Session, o *uninstallOptions, kube client.Client) error {
	released, err := install.Released(c.KubeFlags, o.namespace, c.HelmLog())
	if err != nil {
		return err
	}
	var all []client.Object
	for _, obj := range released {
		all = append(all, obj)
	}
	if o.purge {
		purged, err := uninstall.Purged(ctx, kube, o.namespace)
		if err != nil {
			return err
		}
		all = append(all, purged...)
	}
	return c.PrintNames(&o.DryRunOptions, kube.Scheme(), all...)
}

func checkUnused(ctx context.Context, c *cluster.Session, kube client.Reader) error {
	step := c.Spin("Running pre-uninstall checks")
	defer step.Stop()
	blockers, err := uninstall.Check(ctx, kube)
	if err != nil {
		return err
	}
	if blockers.Empty() {
		step.Done("Pre-uninstall checks passed")
		return nil
	}
	failure := ui.Fail("%s", blockers)
	if blockers.Peered() {
		failure.Hint("Active peerings are undone by: %s unpeer, and those that were made with manifests by deleting these", c.Executable)
	}
	if len(blockers.Namespaces) > 0 {
		failure.Hint("Namespaces are unoffloaded by: %s unoffload namespace <name>", c.Executable)
	}
	return failure
}
