// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package check holds "liqoctl check", which gathers facts about a cluster and prints what the rules of package diagnose find.
package check

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/facts"
	"liqo.io/liqo/internal/ctl/info"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
)

type options struct {
	namespace, output, peer string
	wait                    time.Duration
	pre                     bool
}

// NewCheckCommand returns the command "check".
func NewCheckCommand(c *cluster.Session) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the installed Liqo, its network and its peerings, and say what to do",
		Long: "Check the installed Liqo, its network and its peerings, and say what to do. Nothing is changed. Each line is a check: √ passed, ‼ a warning, × failed.\n" +
			"Below it are the object, what is wrong, the remedy and the part of the documentation.\n\n" +
			"The exit code is 1 if a check failed; warnings do not fail. What the user may not read is a warning.",
		Example: "  liqoctl check\n" +
			"  liqoctl check --pre\n" +
			"  liqoctl check --peer milan\n" +
			"  liqoctl check --wait 5m\n" +
			"  liqoctl check --output json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.runCheck(cmd.Context(), c, cmd.Flags().Changed("wait"))
		},
	}
	cluster.LiqoNamespace(cmd, &o.namespace)
	fs := cmd.Flags()
	fs.StringVarP(&o.output, "output", "o", "", "Print a document instead: json or yaml")
	fs.StringVar(&o.peer, "peer", "", "Check only the peering with this cluster ID")
	fs.BoolVar(&o.pre, "pre", false, "Check whether Liqo can be installed in the cluster")
	fs.DurationVar(&o.wait, "wait", 0, "Repeat the checks until none fails, for this time at most")
	cmd.MarkFlagsMutuallyExclusive("pre", "peer")
	cmd.MarkFlagsMutuallyExclusive("pre", "wait")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("peer", c.CompleteClusters)
	return cmd
}

func (o *options) runCheck(ctx context.Context, c *cluster.Session, waits bool) error {
	if o.output != "" && o.output != "json" && o.output != "yaml" {
		return ui.Fail("--output is json or yaml, not %q", o.output)
	}
	if waits && o.wait <= 0 {
		return ui.Fail("--wait: invalid duration %s: must be greater than 0", o.wait)
	}
	g, err := NewGatherer(ctx, c, o.namespace)
	if err != nil {
		return err
	}
	if !o.pre {
		if err := info.CheckInstalled(ctx, c, g.Client, o.namespace); err != nil {
			return err
		}
	}
	report, err := o.waitForReport(ctx, g)
	if err != nil {
		return err
	}
	if o.output != "" {
		if err := cluster.PrintDocument(c.Result(), report, o.output); err != nil {
			return err
		}
	} else {
		printReport(c.Printer, report)
	}
	if report.Healthy {
		return nil
	}
	return ui.Fail("%d of %d checks failed", report.Failed, report.Count()).See("docs/info.md#find-what-is-wrong")
}

// waitForReport returns the first healthy report, or the last report after the time of --wait. Leaders renew their Leases every few seconds: watching
// Leases also repeats the checks of unwatched facts.
func (o *options) waitForReport(ctx context.Context, g *Gatherer) (report *diagnose.Report, err error) {
	if o.wait <= 0 {
		return o.newReport(ctx, g)
	}
	limited, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	in := client.InNamespace(o.namespace)
	err = kube.WaitUntil(limited, g.Client, func(ctx context.Context) error {
		found, err := o.newReport(ctx, g)
		if err != nil {
			return err
		}
		if report = found; !report.Healthy {
			return kube.Pending(fmt.Sprintf("%d of %d checks failed", report.Failed, report.Count()))
		}
		return nil
	}, kube.Watched{List: &coordinationv1.LeaseList{}, Opts: []client.ListOption{in}}, kube.Watched{List: &appsv1.DeploymentList{}, Opts: []client.ListOption{in}},
		kube.Watched{List: &liqov1beta1.ForeignClusterList{}})
	if report != nil && ctx.Err() == nil { // also if the CRD to watch is missing
		return report, nil
	}
	return nil, err
}

// newReport gathers the facts and applies the rules.
func (o *options) newReport(ctx context.Context, g *Gatherer) (*diagnose.Report, error) {
	if o.pre {
		f, err := g.gatherPreflight(ctx)
		if err != nil {
			return nil, err
		}
		return diagnose.NewReport(f.PreGroups()), nil
	}
	f, err := g.GatherFacts(ctx)
	if err != nil {
		return nil, err
	}
	if o.peer == "" {
		return diagnose.NewReport(f.Groups()), nil
	}
	group, known := f.GroupOf(liqov1beta1.ClusterID(o.peer))
	if !known {
		return nil, ui.Fail("Peer clusters %q not found in active peerings", o.peer)
	}
	return diagnose.NewReport([]diagnose.Group{group}), nil
}

func printReport(p *ui.Printer, r *diagnose.Report) {
	for _, g := range r.Groups {
		var items []ui.ChecklistItem
		for _, c := range g.Checks {
			items = append(items, facts.NewItem(c))
		}
		p.Checklist(g.Name, items)
	}
	if r.Healthy {
		p.Success("%d checks passed, %d with a warning", r.Count(), r.Warned)
	}
}
