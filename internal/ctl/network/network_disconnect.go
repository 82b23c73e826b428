// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
)

func networkDisconnect(c *cluster.Session, o *NetworkOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "disconnect",
		Short: "Remove the gateways between two clusters",
		Long: "Remove the gateways between two clusters, in either direction. Their Configurations stay.\n" +
			"Gateways are found in all namespaces, or in those of --namespace and --remote-namespace.",
		Example: "  liqoctl network disconnect --remote-kubeconfig milan.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.ConfirmUnless(cmd.Context(), o.IsRequested(), "disconnect"); err != nil {
				return err
			}
			return runBetween(cmd.Context(), c, o, cluster.ToDelete, func(ctx context.Context, c *cluster.Session, local, remote *cluster.Cluster) error {
				return removeAll(ctx, c, o, GatewaysBetween(local, remote))
			})
		},
	}
}

const configurations = "configurations"

// networkRemains are the objects of one kind in a cluster about the other cluster.
type networkRemains struct {
	*cluster.Cluster
	other, what, resource string
	list                  client.ObjectList
	// quiet suppresses the line about no objects.
	quiet bool
	found []client.Object
}

// GatewaysBetween returns the gateways of both clusters: clients first, because they dial.
func GatewaysBetween(local, remote *cluster.Cluster) []*networkRemains {
	of := func(in, other *cluster.Cluster, kind string, quiet bool) *networkRemains {
		return &networkRemains{Cluster: in, other: other.ID, what: "Gateway " + kind, resource: "gateway" + kind + "s", list: newGateway(kind, client.ObjectKey{}).newList(), quiet: quiet}
	}
	// The remote cluster usually has the server.
	return []*networkRemains{of(local, remote, dialer, false), of(remote, local, dialer, true), of(local, remote, server, true), of(remote, local, server, false)}
}

// ConfigurationsBetween returns the Configurations of both clusters for the networks of the opposite cluster.
func ConfigurationsBetween(local, remote *cluster.Cluster) []*networkRemains {
	of := func(in, other *cluster.Cluster) *networkRemains {
		return &networkRemains{Cluster: in, other: other.ID, what: "Network configuration", resource: configurations, list: &networkingv1beta1.ConfigurationList{}}
	}
	return []*networkRemains{of(local, remote), of(remote, local)}
}

// FindAll finds the objects of both clusters.
func FindAll(ctx context.Context, all []*networkRemains) error {
	finding, within := errgroup.WithContext(ctx)
	for _, l := range all {
		finding.Go(func() error { return l.WrapWithCluster(l.readState(within)) })
	}
	return finding.Wait()
}

// LookAll finds the objects and fails if the user may not delete all of them.
func LookAll(ctx context.Context, all []*networkRemains) error {
	looking, within := errgroup.WithContext(ctx)
	for _, l := range all {
		looking.Go(func() error {
			if err := l.readState(within); err != nil {
				return l.WrapWithCluster(err)
			}
			return l.RequireDeletion(within, l.found...)
		})
	}
	return looking.Wait()
}

// removeAll deletes the objects in all namespaces, or in the namespace given by the user. Without the permission to delete all objects, it deletes
// none.
func removeAll(ctx context.Context, c *cluster.Session, o *NetworkOptions, all []*networkRemains) error {
	if err := LookAll(ctx, all); err != nil {
		return err
	}
	return RemoveFound(ctx, c, all, o.Wait)
}

// RemoveFound deletes the objects after the permission check.
func RemoveFound(ctx context.Context, c *cluster.Session, all []*networkRemains, wait bool) error {
	p := ui.NewPlan(c.Printer)
	var gateways []*ui.Step
	for _, l := range all {
		remove := func(ctx context.Context, printer *ui.Printer) error {
			return l.removeGateway(ctx, l.WithPrinter(printer), wait)
		}
		if l.resource == configurations {
			p.Add(remove, gateways...) // gateways use the Configurations
			continue
		}
		gateways = append(gateways, p.Add(remove))
	}
	return p.Run(ctx)
}

// readState reads the objects of the networks.
func (l *networkRemains) readState(ctx context.Context) (err error) {
	l.found, err = FindOfPeer(ctx, l.Cluster, l.list, l.other)
	l.found = slices.DeleteFunc(l.found, func(obj client.Object) bool { return l.Asked != "" && obj.GetNamespace() != l.Asked })
	return err
}

func (l *networkRemains) removeGateway(ctx context.Context, in *cluster.Cluster, wait bool) error {
	if len(l.found) == 0 {
		if !l.quiet {
			in.Success("%s already deleted", l.what)
		}
		return nil
	}
	return in.RunWaiting(ctx, "Deleting "+l.what, l.what+" correctly deleted", func(ctx context.Context) error {
		return in.RemoveAll(ctx, l.found, wait)
	})
}

func networkReset(c *cluster.Session, o *NetworkOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "reset",
		Short: "Remove the gateways between two clusters, and their Configurations",
		Long: "Remove the gateways between two clusters, and their Configurations.\n" +
			"Objects are found in all namespaces, or in those of --namespace and --remote-namespace.",
		Example: "  liqoctl network reset --remote-kubeconfig milan.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.ConfirmUnless(cmd.Context(), o.IsRequested(), "reset"); err != nil {
				return err
			}
			return runBetween(cmd.Context(), c, o, cluster.ToDelete, func(ctx context.Context, c *cluster.Session, local, remote *cluster.Cluster) error {
				return removeAll(ctx, c, o, append(GatewaysBetween(local, remote), ConfigurationsBetween(local, remote)...))
			})
		},
	}
}
