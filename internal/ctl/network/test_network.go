// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

type testNetworkOptions struct {
	*TestOptions
	kubeconfigs                        []string
	liqoNamespace, remoteLiqoNamespace string
	image                              string
	info, remove, basic                bool
	nodePortOutside, nodePortPods      bool
	loadBalancer, ip                   bool
	nodePortNodes                      string
	dryRun                             bool
	output                             string
}

// TestNetwork returns the command "test network".
func TestNetwork(c *cluster.Session, common *TestOptions) *cobra.Command {
	o := &testNetworkOptions{TestOptions: common}
	cmd := &cobra.Command{
		Use:     "network",
		Aliases: []string{"net"},
		Short:   "Try the network between a consumer and its providers, from every node to every node",
		Long: "Check the network between a consumer and its providers, from every node to every node, in both directions: between pods by address, " +
			"by a Service and by a headless Service, and from processes of nodes.\n\n" +
			"The test creates a namespace in each cluster, offloads that of the consumer, and removes both at the end, also after Ctrl-C; " +
			"the next run removes the objects of a killed run. The pods use the image of Liqo.",
		Example: "  liqoctl test network --kubeconfig rome.kubeconfig --remote-kubeconfigs milan.kubeconfig,turin.kubeconfig\n" +
			"  liqoctl test network --kubeconfig rome.kubeconfig -p milan.kubeconfig --basic\n" +
			"  liqoctl test network --kubeconfig rome.kubeconfig -p milan.kubeconfig --np-ext --pod-np --lb --ip\n" +
			"  liqoctl test network --kubeconfig rome.kubeconfig -p milan.kubeconfig -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), o.Timeout)
			defer cancel()
			return runTestNetwork(ctx, c, o)
		},
	}
	fs := cmd.Flags()
	fs.StringSliceVarP(&o.kubeconfigs, "remote-kubeconfigs", "p", nil, "The kubeconfigs of the providers")
	_ = cmd.MarkFlagRequired("remote-kubeconfigs")
	fs.StringVar(&o.liqoNamespace, "liqo-namespace", names.LiqoNamespace, "The namespace where Liqo is installed in")
	fs.StringVar(&o.remoteLiqoNamespace, "remote-liqo-namespace", names.LiqoNamespace, "The namespace where Liqo is installed in (in the providers)")
	fs.StringVar(&o.image, "image", "", "The image of the pods, one of Liqo; that of the controller-manager of each cluster if empty")
	fs.BoolVar(&o.info, "info", false, "First show under which networks the clusters see each other")
	fs.BoolVar(&o.remove, "rm", true, "Remove the namespaces in the end")
	fs.BoolVar(&o.basic, "basic", false, "Only try the way from pods to pods")
	fs.BoolVar(&o.nodePortOutside, "np-ext", false, "Try NodePorts from this machine, too, also with externalTrafficPolicy Local")
	fs.BoolVar(&o.nodePortPods, "pod-np", false, "Try NodePorts from pods, too")
	fs.BoolVar(&o.loadBalancer, "lb", false, "Try load balancers from this machine, too")
	fs.BoolVar(&o.ip, "ip", false, "Try addresses that IPs show, too: each cluster shows one of a node, where a pod answers")
	fs.BoolVar(&o.dryRun, "dry-run", false, "Print the objects that would be made, as yaml unless --output says otherwise, and change nothing")
	cluster.OutputFlag(fs, &o.output, "", "Print a document of all checks instead of the tables: json or yaml")
	kinds := []string{allNodes, workers, controlPlanes}
	fs.Var(cluster.OneOf(&o.nodePortNodes, allNodes, kinds), "np-nodes", "The nodes whose NodePorts are tried: "+strings.Join(kinds, ", "))
	return cmd
}

func runTestNetwork(ctx context.Context, c *cluster.Session, o *testNetworkOptions) error {
	if o.basic { // no Services and IPs exist
		o.nodePortOutside, o.nodePortPods, o.loadBalancer, o.ip = false, false, false, false
	}
	t, err := newNetworkTest(ctx, c, o)
	if err != nil {
		return err
	}
	if o.dryRun {
		return t.printFixtures(ctx)
	}
	if o.info && o.output == "" {
		t.showNetworks()
	}
	if err := t.removeFixtures(ctx); err != nil {
		return err
	}
	checks, err := t.runChecks(ctx)
	if err == nil {
		err = t.summaryError(checks)
	} else if slices.ContainsFunc(checks, (*check).hasResult) {
		_, shown := t.countResults(checks) // the results until now
		err = errors.Join(err, shown)
	}
	return errors.Join(err, t.finishTest(ctx))
}

// toTry is the heading of each cluster in a dry run: the cluster ID, as in all messages of the test.
const toTry = "%[2]s cluster"

// printFixtures prints the fixtures instead of deploying them. The targets of client pods follow from the addresses of the server pods.
func (t *networkTest) printFixtures(ctx context.Context) error {
	t.Warn("The pods that ask are not shown: what they ask follows from the addresses of those that are asked")
	var clusters []*cluster.Cluster
	for _, p := range t.allClusters() {
		clusters = append(clusters, p.Cluster)
	}
	return t.RunOrPrint(ctx, &cluster.DryRunOptions{DryRun: true, Output: t.output}, toTry, func(ctx context.Context, c *cluster.Session) error {
		t.Session = c
		if err := t.removeFixtures(ctx); err != nil {
			return err
		}
		return t.deployFixtures(ctx)
	}, clusters...)
}

// runChecks deploys the fixtures and runs all checks. After an error some checks may have no result.
func (t *networkTest) runChecks(ctx context.Context) ([]*check, error) {
	if err := t.deployFixtures(ctx); err != nil {
		return nil, err
	}
	clients, err := t.planClients(ctx)
	if err != nil {
		return nil, err
	}
	outside, err := t.planOutside(ctx)
	if err != nil {
		return nil, err
	}
	t.Info("Running checks ...")
	checks := checksOf(clients)
	if err := t.askInside(ctx, clients); err != nil {
		return append(checks, outside...), err
	}
	if !t.FailFast || !anyFailed(checks) {
		askOutside(ctx, outside)
	}
	if ctx.Err() != nil { // an interrupted check has no result
		return checks, fmt.Errorf("asking from this machine: %w", ctx.Err())
	}
	return append(checks, outside...), nil
}

// mostFailures is the maximum number of failures printed one by one, unless the user asks for all.
const mostFailures = 20

// summaryError prints the results, and returns an error unless all checks passed.
func (t *networkTest) summaryError(checks []*check) error {
	counts, err := t.countResults(checks)
	switch {
	case err != nil:
		return err
	case counts[failedCheck] > 0:
		return ui.Fail("some checks failed").Hint("liqoctl info peer shows the state of the tunnel").See("docs/troubleshooting.md#by-symptom-between-clusters")
	case counts[untried] > 0:
		return ui.Fail("%d checks were not tried before the timeout", counts[untried])
	}
	t.Success("All checks completed")
	return nil
}

// countResults prints the results and counts them.
func (t *networkTest) countResults(checks []*check) (counts [states]int, err error) {
	for _, one := range checks {
		counts[one.state]++
		if one.state == failedCheck && (counts[failedCheck] <= mostFailures || t.Verbose) {
			t.Error("%s", one)
		}
	}
	failed := counts[failedCheck]
	if hidden := failed - mostFailures; hidden > 0 && !t.Verbose {
		t.Error("%d more: --verbose shows them", hidden)
	}
	if t.output != "" {
		err = cluster.PrintDocument(t.Result(), t.newReport(checks), t.output)
	} else {
		err = showWays(t.Result(), checks)
	}
	if err != nil {
		return counts, err
	}
	t.Info("Checks succeeded counter=%d", counts[passedCheck])
	if failed > 0 {
		t.Info("Checks failed counter=%d", failed)
	}
	return counts, nil
}

func showWays(w io.Writer, checks []*check) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "WAY\tFROM\tTO\tPASSED\tFAILED\tNOT TRIED")
	for _, row := range summaryRows(checks) {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\n", row.way, row.from, row.to, row.counts[passedCheck], row.counts[failedCheck], row.counts[untried])
	}
	return table.Flush()
}

// showNetworks prints the local prefixes of each cluster's networks in the other clusters.
func (t *networkTest) showNetworks() {
	table := tabwriter.NewWriter(t.Result(), 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CLUSTER\tSEES\tNETWORK\tAS")
	for _, n := range t.peerNetworks() {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", n.Cluster, n.Sees, n.Network, n.As)
	}
	_ = table.Flush()
	fmt.Fprintln(t.Result())
}

// TestOptions hold the common options of the test commands.
type TestOptions struct {
	Timeout  time.Duration
	FailFast bool
}
