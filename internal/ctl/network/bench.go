// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"liqo.io/liqo/internal/benchmark"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

// BenchNamespace is the namespace of a benchmark in the consumer.
const BenchNamespace = "liqo-bench"

var ofBenchmark = purpose{noun: "benchmark", namespace: BenchNamespace, label: "bench.liqo.io/benchmark", manager: "liqoctl-bench", podSecurity: "restricted"}

// severalStreams is the number of connections in the measurement of several connections.
const severalStreams = 4

// mostPods bounds the pods of a benchmark of offloading.
const mostPods = 500

type benchOptions struct {
	local, remote     cluster.ClusterFlags
	timeout, duration time.Duration
	maxSize           string
	node, remoteNode  string
	pods              int
	image, output     string
	// streams, roundTrips and offloading select the measurements.
	streams    []int
	roundTrips bool
	offloading bool
}

// NewBenchCommand returns the command "bench".
func NewBenchCommand(c *cluster.Session) *cobra.Command {
	o := &benchOptions{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure throughput, latency and offloading between two clusters, beside what their nodes do without Liqo",
		Long: "Measure TCP throughput and round trips between a pod of the consumer and a pod of the provider, both ways, beside pods of two nodes of the same cluster, " +
			"and how long offloaded pods take to be Ready, beside pods that are created in the provider.\n\n" +
			"It loads the nodes and the tunnel while it measures. The benchmark creates a namespace in each cluster, and removes both at the end, also after Ctrl-C; " +
			"the next run removes the objects of a killed run. The pods use the image of Liqo.",
		Example: "  liqoctl bench --kubeconfig rome.kubeconfig --remote-kubeconfig milan.kubeconfig\n" +
			"  liqoctl bench throughput --kubeconfig rome.kubeconfig --remote-kubeconfig milan.kubeconfig --node rome-1 --remote-node milan-2\n" +
			"  liqoctl bench -o json --kubeconfig rome.kubeconfig --remote-kubeconfig milan.kubeconfig",
		Args: cluster.CheckSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBench(cmd.Context(), c, o, []int{1, severalStreams}, true, true)
		},
	}
	fs := cmd.PersistentFlags()
	fs.DurationVar(&o.timeout, "timeout", 5*time.Minute, "Time limit of the benchmark; its objects are removed in any case")
	fs.StringVar(&o.image, "image", "", "The image of the pods, one of Liqo; that of the controller-manager of each cluster if empty")
	fs.StringVar(&o.local.LiqoNamespace, "liqo-namespace", names.LiqoNamespace, "The namespace where Liqo is installed in")
	fs.StringVar(&o.remote.LiqoNamespace, "remote-liqo-namespace", names.LiqoNamespace, "The namespace where Liqo is installed in (in the remote cluster)")
	cluster.OutputFlag(fs, &o.output, "", "Print a document instead of tables: json or yaml")
	cluster.RemoteFlags(cmd, &o.remote)

	sub := func(use, short string, run func(context.Context) error, flags ...func(*pflag.FlagSet)) *cobra.Command {
		part := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context()) }}
		part.Example = "  liqoctl bench " + use + " --kubeconfig rome.kubeconfig --remote-kubeconfig milan.kubeconfig"
		for _, add := range flags {
			add(part.Flags())
			add(cmd.Flags())
		}
		return part
	}
	cmd.AddCommand(
		sub("throughput", "Measure TCP throughput between two pods", func(ctx context.Context) error { return runBench(ctx, c, o, []int{1, severalStreams}, false, false) }, o.addPlaces, o.addLimit),
		sub("latency", "Measure round trips between two pods", func(ctx context.Context) error { return runBench(ctx, c, o, nil, true, false) }, o.addPlaces),
		sub("offload", "Measure how long pods take to be Ready", func(ctx context.Context) error { return runBench(ctx, c, o, nil, false, true) }, o.addPods),
	)
	return cmd
}

func (o *benchOptions) addPlaces(fs *pflag.FlagSet) {
	if fs.Lookup("node") != nil {
		return
	}
	fs.DurationVar(&o.duration, "duration", 5*time.Second, "How long each measurement takes, after half a second to warm up; at most 1m")
	fs.StringVar(&o.node, "node", "", "The node of the consumer's pod; the first that takes pods if empty")
	fs.StringVar(&o.remoteNode, "remote-node", "", "The node of the provider's pod; the first that takes pods if empty")
}

func (o *benchOptions) addLimit(fs *pflag.FlagSet) {
	fs.StringVar(&o.maxSize, "max-size", "2Gi", "How much data ends a measurement of throughput early")
}

func (o *benchOptions) addPods(fs *pflag.FlagSet) {
	fs.IntVar(&o.pods, "pods", 10, "How many pods are created in each way of offload")
}

// parseLimits returns the limits of each measurement.
func (o *benchOptions) parseLimits() (benchmark.Limits, error) {
	l := benchmark.Limits{Time: o.duration}
	if len(o.streams) > 0 {
		size, err := resource.ParseQuantity(o.maxSize)
		if err != nil || size.Sign() <= 0 {
			return l, ui.Fail("--max-size: invalid quantity %q: must be greater than 0, such as 2Gi", o.maxSize)
		}
		l.Bytes = size.Value()
	}
	if o.measuresPaths() && (o.duration <= 0 || o.duration > benchmark.MostTime) {
		return l, ui.Fail("--duration: invalid duration %q: must be greater than 0 and at most %s", o.duration, benchmark.MostTime)
	}
	if o.offloading && (o.pods < 1 || o.pods > mostPods) {
		return l, ui.Fail("--pods: invalid number %d: must be between 1 and %d", o.pods, mostPods)
	}
	if takes := 2 * o.newPlan(l, "", netip.AddrPort{}, netip.AddrPort{}).Time(); takes >= o.timeout {
		return l, ui.Fail("the measurements alone take %s, and --timeout is %s", takes, o.timeout).Hint("Give a longer --timeout, or a shorter --duration")
	}
	return l, nil
}

func (o *benchOptions) measuresPaths() bool { return len(o.streams) > 0 || o.roundTrips }

// bench is one run of the command.
type bench struct {
	fixtures
	*benchOptions
	limit benchmark.Limits
	// places are the nodes of the measuring pods, by cluster.
	places [2]benchPlaces
	// token authenticates the clients of this run to servers.
	token  string
	report benchReport
}

func runBench(ctx context.Context, c *cluster.Session, o *benchOptions, streams []int, roundTrips, offloading bool) (err error) {
	o.streams, o.roundTrips, o.offloading = streams, roundTrips, offloading
	limit, err := o.parseLimits()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	b, err := newBench(ctx, c, o)
	if err != nil {
		return err
	}
	b.limit = limit
	if err := b.removeFixtures(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.removeAtEnd(ctx)) }()
	return errors.Join(b.measureAll(ctx), b.printReport())
}

// newBench reads the state of both clusters, and changes nothing.
func newBench(ctx context.Context, c *cluster.Session, o *benchOptions) (*bench, error) {
	local, remote, err := c.NewClusterPair(ctx, &o.local, &o.remote)
	if err != nil {
		return nil, err
	}
	b := &bench{fixtures: fixtures{Session: c, purpose: ofBenchmark}, benchOptions: o, token: rand.Text()}
	b.report.Paths, b.report.Offloading = []benchPath{}, []benchOffload{}
	if b.consumer, err = newTestCluster(ctx, c, local); err != nil {
		return nil, err
	}
	provider, err := newTestCluster(ctx, c, remote)
	if err != nil {
		return nil, err
	}
	if err := cluster.CheckDifferent(local, remote); err != nil {
		return nil, err
	}
	b.providers = []*testCluster{provider}
	b.nameNamespaces()
	for _, p := range b.allClusters() {
		if err := p.RequirePermissions(ctx, b.requiredPermissions(p)...); err != nil {
			return nil, err
		}
		if err := p.RunStep("Looking at the cluster", "", func() error { return b.readCluster(ctx, p) }); err != nil {
			return nil, err
		}
	}
	return b, b.choosePlaces()
}

func (b *bench) requiredPermissions(p *testCluster) []cluster.Permission {
	wanted := append(p.PermissionsFor("", "bench"), p.PermissionsFor(p.askers, "bench from pods")...)
	if b.offloading && p == b.consumer {
		wanted = append(wanted, p.PermissionsFor(p.askers, "bench offloaded pods")...)
	}
	if b.offloading && p != b.consumer {
		wanted = append(wanted, p.PermissionsFor(p.askers, "bench local pods")...)
	}
	if b.image == "" {
		wanted = append(wanted, p.PermissionsFor("", "find image")...)
	}
	return wanted
}

func (b *bench) readCluster(ctx context.Context, p *testCluster) error {
	nodes, err := p.readState(ctx, b.othersOf(p), b.image)
	if err != nil {
		return err
	}
	if p == b.consumer && b.offloading {
		return checkOffloadable(nodes, b.providers[0].ID)
	}
	return nil
}

// measureAll makes all measurements. After an error the report has the earlier measurements.
func (b *bench) measureAll(ctx context.Context) error {
	if err := b.createNamespaces(ctx); err != nil {
		return err
	}
	var failed error
	if b.measuresPaths() {
		failed = b.measurePaths(ctx)
		if ended := ctx.Err(); ended != nil {
			if !errors.Is(failed, ended) {
				failed = errors.Join(failed, ended)
			}
			return failed
		}
	}
	if b.offloading {
		failed = errors.Join(failed, b.measureOffloading(ctx))
	}
	return failed
}

// printReport prints the results, if any.
func (b *bench) printReport() error {
	if len(b.report.Paths) == 0 && len(b.report.Offloading) == 0 {
		return nil
	}
	b.report.setRatios()
	if b.output != "" {
		return cluster.PrintDocument(b.Result(), b.report, b.output)
	}
	return b.report.printTables(b.Result())
}
