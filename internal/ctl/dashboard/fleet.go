// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package dashboard holds "liqoctl fleet", which prints all that a cluster has with its peers, and "liqoctl dashboard", which shows the
// same document as a page.
package dashboard

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/fleet"
	"liqo.io/liqo/internal/ctl/ui"
)

// NewFleetCommand returns the command "fleet".
func NewFleetCommand(c *cluster.Session) *cobra.Command {
	var namespace, output string
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Show all that the cluster has with its peers, as a table or one document",
		Long: "Show all that the cluster has with its peers, as a table or one document. Nothing is changed. The document has the peers, tunnels, slices,\n" +
			"virtual nodes, offloaded namespaces, pods, certificates, events, and what check finds. What the user may not list is in its field unreadable.",
		Example: "  liqoctl fleet\n" +
			"  liqoctl fleet --output json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runFleet(cmd.Context(), c, namespace, output) },
	}
	cluster.LiqoNamespace(cmd, &namespace)
	cmd.Flags().StringVarP(&output, "output", "o", "", "Print a document instead: json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func runFleet(ctx context.Context, c *cluster.Session, namespace, output string) error {
	if output != "" && output != "json" && output != "yaml" {
		return ui.Fail("--output is json or yaml, not %q", output)
	}
	g, err := newGatherer(ctx, c, namespace)
	if err != nil {
		return err
	}
	facts, err := g.gatherFleet(ctx)
	if err != nil {
		return err
	}
	m, err := newThroughputMeter(g)
	if err != nil {
		return err
	}
	m.measureRates(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	m.addTo(facts)
	d := fleet.New(facts)
	if output != "" {
		return cluster.PrintDocument(c.Result(), d, output)
	}
	for _, kind := range cluster.SortedKeys(d.Unreadable) {
		if kind == fleet.UnreadableThroughput {
			c.Info("TUNNEL has no throughput: %s", d.Unreadable[kind])
			continue
		}
		c.Warn("%s could not be listed: %s", kind, d.Unreadable[kind])
	}
	return printTable(c, d)
}

// printTable prints a line for each peer, and a line for the cluster.
func printTable(c *cluster.Session, d *fleet.Document) error {
	table := tabwriter.NewWriter(c.Result(), 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CLUSTER\tROLE\tSTATE\tTUNNEL\tSLICES\tNODES\tPODS\tWAITING\tFINDINGS")
	for _, row := range d.Rows() {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\n",
			row.Cluster, row.Role, row.Phase, tunnelText(row.Tunnels), row.Slices, row.Nodes, row.Pods, row.Waiting, row.Findings)
	}
	return table.Flush()
}

// tunnelText returns the states of tunnels with their latencies, throughput and losses.
func tunnelText(all []fleet.Tunnel) string {
	var texts []string
	for _, t := range all {
		text := t.State
		if t.LatencyMilliseconds != nil {
			text += " " + time.Duration(*t.LatencyMilliseconds*float64(time.Millisecond)).String()
		}
		if t.ReceivedBitsPerSecond != nil && t.SentBitsPerSecond != nil {
			text += fmt.Sprintf(", %.1f Mbit/s in, %.1f out", float64(*t.ReceivedBitsPerSecond)/1e6, float64(*t.SentBitsPerSecond)/1e6)
		}
		switch {
		case t.Lost != "":
			text += ", loses " + strings.ToLower(t.Lost) + " packets"
		case t.LossPercent != nil && *t.LossPercent > 0:
			text += fmt.Sprintf(", loses %g %%", *t.LossPercent)
		}
		if len(t.FailedNodes) > 0 {
			text += ", not from " + strings.Join(t.FailedNodes, " ")
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return "-"
	}
	return strings.Join(texts, "; ")
}
