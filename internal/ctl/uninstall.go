// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/install"
	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/uninstall"
)

type uninstallOptions struct {
	namespace string
	purge     bool
	dryRunOptions
	timeout time.Duration
}

func (c *cli) newUninstallCommand() *cobra.Command {
	o := &uninstallOptions{}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Uninstall Liqo from the selected cluster",
		Long:  "Uninstall Liqo from the selected cluster. Peerings must be undone and namespaces unoffloaded before.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.confirmUnless(cmd.Context(), o.isRequested(), "uninstall"); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			return c.runUninstall(ctx, o)
		},
	}
	liqoNamespace(cmd, &o.namespace)
	cmd.Flags().BoolVar(&o.purge, "purge", false, "Remove the CRDs, the namespaces of Liqo and everything else that is left too")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "Check everything, print the names of what would be deleted, as yaml unless --output says otherwise, and uninstall nothing")
	outputFlag(cmd, cmd.Flags(), &o.output, "", "Check everything, print the names of what would be deleted as json or yaml, and uninstall nothing")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 10*time.Minute, "How long the whole operation may take")
	return cmd
}

func (c *cli) runUninstall(ctx context.Context, o *uninstallOptions) error {
	kube, err := c.newClient(ctx)
	if err != nil {
		return err
	}
	if err := c.checkUnused(ctx, kube); err != nil {
		return err
	}
	if o.isRequested() {
		if err := install.FindInstalled(ctx, kube, c.kubeFlags, o.namespace, c.helmLog()); err != nil {
			return err
		}
		if err := c.previewUninstall(ctx, o, kube); err != nil {
			return err
		}
		c.Success("Uninstallation completed (dry-run)")
		return nil
	}
	deadline, _ := ctx.Deadline()
	if err := c.runStep("Uninstalling Liqo", "Liqo uninstalled", func() error {
		return install.Uninstall(ctx, kube, c.kubeFlags, o.namespace, time.Until(deadline), c.helmLog())
	}); err != nil || !o.purge {
		return err
	}
	if err := c.runStep("Purging Liqo CRDs", "Liqo CRDs purged", func() error {
		return uninstall.PurgeCRDs(ctx, kube)
	}); err != nil {
		return err
	}
	return c.runStep("Deleting Liqo namespaces", "Liqo namespaces deleted", func() error {
		return uninstall.PurgeNamespaces(ctx, kube, o.namespace)
	})
}

// previewUninstall prints the names of the objects to delete.
func (c *cli) previewUninstall(ctx context.Context, o *uninstallOptions, kube client.Client) error {
	released, err := install.Released(c.kubeFlags, o.namespace, c.helmLog())
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
	for _, obj := range all {
		bare, err := nameOnly(obj, kube.Scheme())
		if err != nil {
			return err
		}
		if err := c.printObject(bare, o.outputFormat()); err != nil {
			return err
		}
	}
	return nil
}

func (c *cli) checkUnused(ctx context.Context, kube client.Reader) error {
	step := c.Step("Running pre-uninstall checks")
	defer step.Stop()
	blockers, err := uninstall.Check(ctx, kube)
	if err != nil {
		return err
	}
	if blockers.Empty() {
		step.Done("Pre-uninstall checks passed")
		return nil
	}
	failure := out.Fail("%s", blockers)
	if blockers.Peered() {
		failure.Hint("Active peerings are undone by: %s unpeer, and those that were made with manifests by deleting these", c.executable)
	}
	if len(blockers.Namespaces) > 0 {
		failure.Hint("Namespaces are unoffloaded by: %s unoffload namespace <name>", c.executable)
	}
	return failure
}

// runStep shows a spinner while do runs, and prints done on success.
func (c *cli) runStep(doing, done string, do func() error) error {
	step := c.Step(doing)
	defer step.Stop()
	if err := do(); err != nil {
		return err
	}
	step.Done("%s", done)
	return nil
}
