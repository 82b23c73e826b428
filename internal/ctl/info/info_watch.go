// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package info

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"text/tabwriter"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/kube"
)

const (
	// wide is the output with one line per peer.
	wide = "wide"
	// waitHealthy is the value of --wait.
	waitHealthy = "healthy"
)

// view is the output of a command at one time.
type view struct {
	document any
	// unhealthy is nil if all is healthy.
	unhealthy error
	print     func() error
}

// showViews shows the result of collect: once, after each change, or once it is healthy.
func (o *infoOptions) showViews(ctx context.Context, c *cluster.Session, kube client.WithWatch, collect func(context.Context) (view, error)) error {
	switch {
	case o.watch:
		return o.followViews(ctx, c, kube, collect)
	case o.wait != "":
		return o.awaitHealthy(ctx, c, kube, collect)
	}
	v, err := collect(ctx)
	if err != nil {
		return err
	}
	if err := v.print(); err != nil || !o.exitCode {
		return err
	}
	return v.unhealthy
}

// watchedObjects returns the objects whose changes lead to a new view. Leaders renew their Leases every few seconds: each renewal also refreshes the
// unwatched objects.
func (o *infoOptions) watchedObjects() []kube.Watched {
	in := []client.ListOption{client.InNamespace(o.namespace)}
	return []kube.Watched{{List: &liqov1beta1.ForeignClusterList{}}, {List: &corev1.PodList{}, Opts: in}, {List: &coordinationv1.LeaseList{}, Opts: in}}
}

// followViews prints each view that differs from the last view, until ctx ends.
func (o *infoOptions) followViews(ctx context.Context, c *cluster.Session, cl client.WithWatch, collect func(context.Context) (view, error)) error {
	var last any
	err := kube.WaitUntil(ctx, cl, func(ctx context.Context) error {
		v, err := collect(ctx)
		if err != nil {
			return err
		}
		if last == nil || !reflect.DeepEqual(last, v.document) {
			switch {
			case last == nil || c.IsTerminal():
			case o.output == "yaml":
				fmt.Fprintln(c.Result(), "---")
			default:
				fmt.Fprintln(c.Result())
			}
			c.ClearScreen()
			last = v.document
			if err := v.print(); err != nil {
				return err
			}
		}
		return kube.Pending("the next change")
	}, o.watchedObjects()...)
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	return err
}

// awaitHealthy prints the first healthy view, or after the time of --timeout the last view with the reason why it is unhealthy.
func (o *infoOptions) awaitHealthy(ctx context.Context, c *cluster.Session, cl client.WithWatch, collect func(context.Context) (view, error)) error {
	limited, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	var last *view
	step := c.Spin("Waiting until all is healthy")
	defer step.Stop()
	err := kube.WaitUntil(kube.WithProgress(limited, step.Waits), cl, func(ctx context.Context) error {
		v, err := collect(ctx)
		if err != nil {
			return err
		}
		last = &v
		if v.unhealthy != nil {
			return kube.Pending(v.unhealthy.Error())
		}
		return nil
	}, o.watchedObjects()...)
	step.Stop()
	if last == nil || ctx.Err() != nil || err != nil && limited.Err() == nil {
		return err
	}
	if err := last.print(); err != nil {
		return err
	}
	return last.unhealthy
}

// printWide prints one line per peer.
func printWide(c *cluster.Session, peers []peerInfo) {
	table := tabwriter.NewWriter(c.Result(), 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CLUSTER ID\tROLE\tNETWORKING\tAUTHENTICATION\tOFFLOADING\tALERTS")
	for _, p := range peers {
		reasons := []string{}
		for _, alert := range p.Alerts {
			reason, _, _ := strings.Cut(alert, ":")
			reasons = append(reasons, reason)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", p.ClusterID, p.Role, p.NetworkingStatus, p.AuthenticationStatus, p.OffloadingStatus, strings.Join(reasons, ","))
	}
	_ = table.Flush() // errors of the terminal are ignored
}
