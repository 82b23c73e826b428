// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/ctl/step"
)

func (c *cli) networkDisconnect(o *networkOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "disconnect",
		Short: "Remove the gateways between two clusters",
		Long: "Remove the gateways between two clusters, in either direction. Their Configurations stay.\n" +
			"Gateways are found in all namespaces, or in those of --namespace and --remote-namespace.",
		Example: "  liqoctl network disconnect --remote-kubeconfig milan.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.confirmUnless(cmd.Context(), o.isRequested(), "disconnect"); err != nil {
				return err
			}
			return c.runBetween(cmd.Context(), o, toDelete, func(ctx context.Context, c *cli, local, remote *Cluster) error {
				return c.removeAll(ctx, o, gatewaysBetween(local, remote))
			})
		},
	}
}

const configurations = "configurations"

// networkRemains are the objects of one kind in a cluster about the other cluster.
type networkRemains struct {
	*Cluster
	other, what, resource string
	list                  client.ObjectList
	// quiet suppresses the line about no objects.
	quiet bool
	found []client.Object
}

// gatewaysBetween returns the gateways of both clusters: clients first, because they dial.
func gatewaysBetween(local, remote *Cluster) []*networkRemains {
	of := func(in, other *Cluster, kind string, quiet bool) *networkRemains {
		return &networkRemains{Cluster: in, other: other.id, what: "Gateway " + kind, resource: "gateway" + kind + "s", list: newGateway(kind, client.ObjectKey{}).newList(), quiet: quiet}
	}
	// The remote cluster usually has the server.
	return []*networkRemains{of(local, remote, dialer, false), of(remote, local, dialer, true), of(local, remote, server, true), of(remote, local, server, false)}
}

// configurationsBetween returns the Configurations of both clusters about each other.
func configurationsBetween(local, remote *Cluster) []*networkRemains {
	of := func(in, other *Cluster) *networkRemains {
		return &networkRemains{Cluster: in, other: other.id, what: "Network configuration", resource: configurations, list: &networkingv1beta1.ConfigurationList{}}
	}
	return []*networkRemains{of(local, remote), of(remote, local)}
}

// findAll finds the objects of both clusters.
func findAll(ctx context.Context, all []*networkRemains) error {
	finding, within := errgroup.WithContext(ctx)
	for _, l := range all {
		finding.Go(func() error { return l.wrapWithCluster(l.readState(within)) })
	}
	return finding.Wait()
}

// lookAll finds the objects and fails if the user may not delete all of them.
func lookAll(ctx context.Context, all []*networkRemains) error {
	looking, within := errgroup.WithContext(ctx)
	for _, l := range all {
		looking.Go(func() error {
			if err := l.readState(within); err != nil {
				return l.wrapWithCluster(err)
			}
			return l.requireDeletion(within, l.found...)
		})
	}
	return looking.Wait()
}

// removeAll deletes the objects in all namespaces, or in the one given by the user. It deletes nothing unless the user may delete all.
func (c *cli) removeAll(ctx context.Context, o *networkOptions, all []*networkRemains) error {
	if err := lookAll(ctx, all); err != nil {
		return err
	}
	return c.removeFound(ctx, all, o.wait)
}

// removeFound deletes the objects after the permission check.
func (c *cli) removeFound(ctx context.Context, all []*networkRemains, wait bool) error {
	p := step.New(c.Printer)
	var gateways []*step.Step
	for _, l := range all {
		remove := func(ctx context.Context, told *out.Printer) error {
			return l.removeGateway(ctx, l.withPrinter(told), wait)
		}
		if l.resource == configurations {
			p.Add(remove, gateways...) // gateways use the Configurations
			continue
		}
		gateways = append(gateways, p.Add(remove))
	}
	return p.Run(ctx)
}

func (l *networkRemains) readState(ctx context.Context) (err error) {
	l.found, err = l.findOfPeer(ctx, l.list, l.other)
	l.found = slices.DeleteFunc(l.found, func(obj client.Object) bool { return l.asked != "" && obj.GetNamespace() != l.asked })
	return err
}

func (l *networkRemains) removeGateway(ctx context.Context, in *Cluster, wait bool) error {
	if len(l.found) == 0 {
		if !l.quiet {
			in.Success("%s already deleted", l.what)
		}
		return nil
	}
	return in.runWaiting(ctx, "Deleting "+l.what, l.what+" correctly deleted", func(ctx context.Context) error {
		return in.removeAll(ctx, l.found, wait)
	})
}
