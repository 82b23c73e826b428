// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"liqo.io/liqo/playground/internal/build"
	"liqo.io/liqo/playground/internal/cluster"
	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/node"
	"liqo.io/liqo/playground/internal/progress"
	"liqo.io/liqo/playground/internal/spec"
	"liqo.io/liqo/playground/internal/world"
)

// readyLimit is generous: a loaded machine is slow, not broken.
const readyLimit = 3 * time.Minute

type upOptions struct {
	sources  fs.FS
	clusters string
	flags    *pflag.FlagSet
	wanted   spec.Cluster // what the flags say, without a name
	family   string
	cni      string
	noLB     bool
	dryRun   bool
}

func upCommand(sources fs.FS) *cobra.Command {
	cmd, _ := newUp(sources)
	return cmd
}

func newUp(sources fs.FS) (*cobra.Command, *upOptions) {
	o := &upOptions{sources: sources}
	cmd := &cobra.Command{
		Use: "up", Short: "Start clusters, or add workers to running ones", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	d := spec.Default("", spec.World{})
	o.flags = cmd.Flags()
	o.flags.StringVar(&o.clusters, "clusters", "2", "how many clusters (a, b, …), or their names: a,c")
	o.flags.IntVar(&o.wanted.Workers, "workers", d.Workers, "nodes of each cluster; the first one runs the control plane too")
	o.flags.BoolVar(&o.wanted.Overlap, "pod-cidr-overlap", d.Overlap, "every cluster has the same pod and Service networks")
	o.flags.StringVar(&o.family, "ip-family", string(d.Family), "ipv4, ipv6 or dual")
	o.flags.StringVar(&o.cni, "cni", string(d.CNI), "masquerade: pods hide behind their node outside of the pod network; plain: only outside of the cluster; overlay: masquerade, and a VXLAN between the nodes. One for all clusters, or one for each: masquerade,overlay")
	o.flags.DurationVar(&o.wanted.SigningDuration, "cluster-signing-duration", d.SigningDuration, "how long certificates live that the cluster signs")
	o.flags.BoolVar(&o.wanted.Audit, "audit", d.Audit, "write an audit log: clusters/<c>/log/audit.log")
	o.flags.BoolVar(&o.noLB, "no-lb", false, "Services of type LoadBalancer stay pending")
	o.flags.IntVar(&o.wanted.ClientQPS, "client-qps", d.ClientQPS, "requests per second of controller-manager and scheduler")
	o.flags.IntVar(&o.wanted.GOGC, "gogc", d.GOGC, "how much garbage programs leave before they collect it, in percent of what they need: more is more memory and less CPU")
	o.flags.StringArrayVar(&o.wanted.APIServerArgs, "apiserver-arg", nil, "one more argument for kube-apiserver")
	o.flags.IntVar(&o.wanted.SimulatedNodes, "simulated-nodes", 0, "nodes that only pretend to run their pods; pods need a toleration for kwok.x-k8s.io/node")
	o.flags.BoolVar(&o.dryRun, "dry-run", false, "print what would run, change nothing")
	return cmd, o
}

func (o *upOptions) run(cmd *cobra.Command) error {
	h, err := home.Open()
	if err != nil {
		return err
	}
	clusters, err := o.resolve(h)
	if err != nil {
		return err
	}
	if o.dryRun {
		text, err := dryRun(h, clusters)
		fmt.Fprint(cmd.OutOrStdout(), text)
		return err
	}
	log := progress.New(os.Stderr)
	unlock, err := control(h, log)
	if err != nil {
		return err
	}
	defer unlock()
	ctx := cmd.Context()
	if err := buildFor(ctx, builder(h, o.sources, log), clusters); err != nil {
		return err
	}
	if err := node.RaiseLimits(); err != nil {
		return err
	}
	if err := world.Up(h.World); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range clusters {
		group.Go(func() error { return bringUp(ctx, h, c, log) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	log.Say("try: %s kubectl %s get pods -A", os.Args[0], clusters[0].Name)
	return nil
}

// buildFor makes what the clusters need; the simulator of nodes is no part of the usual.
func buildFor(ctx context.Context, b build.Builder, clusters []spec.Cluster) error {
	if err := b.All(ctx); err != nil {
		return err
	}
	if slices.ContainsFunc(clusters, func(c spec.Cluster) bool { return c.SimulatedNodes > 0 }) {
		return b.Simulator(ctx)
	}
	return nil
}

// resolve turns flags into clusters. A cluster that exists keeps what it was made with; only workers can be added.
func (o *upOptions) resolve(h home.Home) ([]spec.Cluster, error) {
	names, err := clusterNames(o.clusters)
	if err != nil {
		return nil, err
	}
	cnis, err := eachOf(names, o.cni)
	if err != nil {
		return nil, err
	}
	var clusters []spec.Cluster
	for i, name := range names {
		have, err := h.Load(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			have = o.merge(spec.Default(name, h.World), cnis[i])
		case err != nil:
			return nil, err
		case have.World != h.World:
			return nil, fmt.Errorf("cluster %s was made with another LIQO_PLAYGROUND_NAME or LIQO_PLAYGROUND_NETWORK", name)
		default:
			if have, err = o.extend(have, cnis[i]); err != nil {
				return nil, err
			}
		}
		if err := have.Validate(); err != nil {
			return nil, err
		}
		clusters = append(clusters, have)
	}
	return clusters, nil
}

// eachOf reads a CNI for each of the clusters; one is for all of them.
func eachOf(names []string, text string) ([]spec.CNI, error) {
	given := strings.Split(text, ",")
	if len(given) == 1 {
		given = slices.Repeat(given, len(names))
	}
	if len(given) != len(names) {
		return nil, fmt.Errorf("--cni is one for all clusters, or one for each: %q is for %d, and there are %d", text, len(given), len(names))
	}
	out := make([]spec.CNI, len(given))
	for i := range given {
		out[i] = spec.CNI(given[i])
	}
	return out, nil
}

// merge puts the flags that were given over a description.
func (o *upOptions) merge(c spec.Cluster, cni spec.CNI) spec.Cluster {
	o.flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "workers":
			c.Workers = o.wanted.Workers
		case "pod-cidr-overlap":
			c.Overlap = o.wanted.Overlap
		case "ip-family":
			c.Family = spec.Family(o.family)
		case "cni":
			c.CNI = cni
		case "cluster-signing-duration":
			c.SigningDuration = o.wanted.SigningDuration
		case "audit":
			c.Audit = o.wanted.Audit
		case "no-lb":
			c.LoadBalancer = !o.noLB
		case "client-qps":
			c.ClientQPS = o.wanted.ClientQPS
		case "gogc":
			c.GOGC = o.wanted.GOGC
		case "apiserver-arg":
			c.APIServerArgs = o.wanted.APIServerArgs
		case "simulated-nodes":
			c.SimulatedNodes = o.wanted.SimulatedNodes
		}
	})
	return c
}

func (o *upOptions) extend(have spec.Cluster, cni spec.CNI) (spec.Cluster, error) {
	want := o.merge(have, cni)
	if want.Workers < have.Workers {
		return have, fmt.Errorf("cluster %s has %d workers, and none can be taken away: %[3]s down --clusters %[1]s first", have.Name, have.Workers, os.Args[0])
	}
	have.Workers = want.Workers
	if fmt.Sprint(want) != fmt.Sprint(have) {
		return have, fmt.Errorf("cluster %s exists and was made with other flags: %[2]s down --clusters %[1]s first", have.Name, os.Args[0])
	}
	return have, nil
}

// clusterNames understands "3" and "a,c".
func clusterNames(text string) ([]string, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return strings.Split(text, ","), nil
	}
	if n < 1 || n > spec.MaxClusters {
		return nil, fmt.Errorf("--clusters is 1 to %d: %d", spec.MaxClusters, n)
	}
	names := make([]string, n)
	for i := range names {
		names[i] = string(rune('a' + i))
	}
	return names, nil
}

// bringUp starts one cluster. Nodes boot and get their images while the API server starts.
func bringUp(ctx context.Context, h home.Home, c spec.Cluster, log *progress.Log) error {
	if err := h.Save(c); err != nil {
		return err
	}
	if err := cluster.Prepare(h, c); err != nil {
		return err
	}
	for _, n := range c.Nodes() {
		if err := node.Connect(c, n); err != nil {
			return err
		}
	}
	log.Say("%s: network ready", c.Name)
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := cluster.Start(inner, h, c); err != nil {
			return err
		}
		log.Say("%s: control plane ready", c.Name)
		return nil
	})
	for _, n := range c.Nodes() {
		group.Go(func() error {
			if err := boot(inner, h, c, n); err != nil {
				return err
			}
			log.Say("%s: booted", n.Name)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, n := range c.Nodes() {
		if err := node.Join(h, c, n); err != nil {
			return err
		}
	}
	if err := waitReady(ctx, h, c); err != nil {
		return err
	}
	log.Say("%s: ready, kubeconfig %s", c.Name, h.Kubeconfig(c.Name))
	return nil
}

func boot(ctx context.Context, h home.Home, c spec.Cluster, n spec.Node) error {
	if err := node.Start(h, c, n); err != nil {
		return err
	}
	if err := node.WaitRuntime(ctx, h, n.Name); err != nil {
		return err
	}
	return node.LoadAll(ctx, h, n.Name)
}

// waitReady waits for every node and for the cluster's DNS.
func waitReady(ctx context.Context, h home.Home, c spec.Cluster) error {
	config, err := cluster.Client(h, c.Name)
	if err != nil {
		return err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for cluster %s: %w", c.Name, err)
	}
	err = cluster.Poll(ctx, readyLimit, "cluster "+c.Name, func(ctx context.Context) error {
		for _, n := range c.Nodes() {
			if err := nodeIsReady(ctx, api, n.Name, h.Node(n.Name)+"/log"); err != nil {
				return err
			}
		}
		for _, name := range c.Simulated() {
			if err := nodeIsReady(ctx, api, name, h.Cluster(c.Name)+"/log/kwok.log"); err != nil {
				return err
			}
		}
		dns, err := api.AppsV1().Deployments("kube-system").Get(ctx, "coredns", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !available(dns) {
			return errors.New("CoreDNS is not ready")
		}
		return nil
	})
	for _, n := range c.Nodes() {
		if said := lastError(h.Node(n.Name) + "/log/kubelet.log"); err != nil && said != "" {
			err = fmt.Errorf("%w; last error of the kubelet of %s: %s", err, n.Name, said)
		}
	}
	return err
}

// lastError is the last line of a klog file that tells of an error, "" if there is none: whoever reads it may have no file
// any more, because clusters that did not come up are removed.
func lastError(file string) string {
	data, _ := os.ReadFile(file)
	last := ""
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "E") || strings.HasPrefix(line, "F") {
			last = strings.TrimSpace(line)
		}
	}
	return last
}

func nodeIsReady(ctx context.Context, api kubernetes.Interface, name, log string) error {
	have, err := api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !nodeReady(have) {
		return fmt.Errorf("node %s is not ready (logs: %s)", name, log)
	}
	return nil
}

func nodeReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func available(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.AvailableReplicas > 0
}
