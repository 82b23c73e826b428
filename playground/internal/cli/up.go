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

// readyTimeout is long, because a loaded machine is slow.
const readyTimeout = 3 * time.Minute

type upOptions struct {
	sources    fs.FS
	clusters   string
	flags      *pflag.FlagSet
	spec       spec.Cluster // values of the flags, without a name
	family     string
	cni        string
	kubernetes string
	noLB       bool
	dryRun     bool
}

func upCommand(sources fs.FS) *cobra.Command {
	cmd, _ := newUpCommand(sources)
	return cmd
}

func newUpCommand(sources fs.FS) (*cobra.Command, *upOptions) {
	o := &upOptions{sources: sources}
	cmd := &cobra.Command{
		Use: "up", Short: "Start clusters, or add workers to running ones", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	d := spec.Default("", spec.World{})
	o.flags = cmd.Flags()
	o.flags.StringVar(&o.clusters, "clusters", "2", "number of clusters (a, b, …), or their names: a,c")
	o.flags.IntVar(&o.spec.Workers, "workers", d.Workers, "nodes of each cluster; the first one runs the control plane too")
	o.flags.BoolVar(&o.spec.Overlap, "pod-cidr-overlap", d.Overlap, "use the same pod and Service networks in all clusters")
	o.flags.StringVar(&o.family, "ip-family", string(d.Family), "ipv4, ipv6 or dual")
	o.flags.StringVar(&o.cni, "cni", string(d.CNI), "masquerade: traffic that leaves the pod network has the source address of the node; plain: only traffic that leaves the cluster; overlay: masquerade, with a VXLAN between the nodes; flannel, kube-router, cilium, cilium-without-kube-proxy: these projects. One value for all clusters, or one for each: flannel,kube-router")
	o.flags.DurationVar(&o.spec.SigningDuration, "cluster-signing-duration", d.SigningDuration, "lifetime of the certificates that the cluster signs")
	o.flags.BoolVar(&o.spec.Audit, "audit", d.Audit, "write an audit log: clusters/<c>/log/audit.log")
	o.flags.BoolVar(&o.noLB, "no-lb", false, "Services of type LoadBalancer stay pending")
	o.flags.IntVar(&o.spec.ClientQPS, "client-qps", d.ClientQPS, "requests per second of controller-manager and scheduler")
	o.flags.IntVar(&o.spec.GOGC, "gogc", d.GOGC, "GOGC of all programs, in percent: higher values use more memory and less CPU")
	o.flags.StringArrayVar(&o.spec.APIServerArgs, "apiserver-arg", nil, "additional argument of kube-apiserver, may be repeated")
	o.flags.IntVar(&o.spec.SimulatedNodes, "simulated-nodes", 0, "number of nodes simulated by kwok; pods need a toleration of kwok.x-k8s.io/node")
	o.flags.StringSliceVar(&o.spec.Addons, "addons", d.Addons, "local-path-provisioner: volumes of the default StorageClass local-path; metrics-server: figures for kubectl top. \"\" for none")
	releaseFlag(o.flags, &o.kubernetes)
	o.flags.BoolVar(&o.dryRun, "dry-run", false, "print what would run, without changes")
	return cmd, o
}

func (o *upOptions) run(cmd *cobra.Command) error {
	h, err := home.Open()
	if err != nil {
		return err
	}
	clusters, err := o.resolveClusters(h)
	if err != nil {
		return err
	}
	if o.dryRun {
		text, err := renderDryRun(h, clusters)
		fmt.Fprint(cmd.OutOrStdout(), text)
		return err
	}
	log := progress.New(os.Stderr)
	unlock, err := lockClusters(h, log)
	if err != nil {
		return err
	}
	defer unlock()
	ctx := cmd.Context()
	if err := buildPrograms(ctx, newBuilder(h, o.sources, log), clusters); err != nil {
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
		group.Go(func() error { return startCluster(ctx, h, c, log) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	log.Print("try: %s kubectl %s get pods -A", os.Args[0], clusters[0].Name)
	return nil
}

// buildPrograms builds what the clusters need; kwok only for clusters with simulated nodes.
func buildPrograms(ctx context.Context, b build.Builder, clusters []spec.Cluster) error {
	var releases []string
	for _, c := range clusters {
		if !slices.Contains(releases, c.Release()) {
			releases = append(releases, c.Release())
		}
	}
	if err := b.BuildAll(ctx, releases...); err != nil {
		return err
	}
	for _, c := range clusters {
		if err := b.BuildCNI(ctx, c.CNI); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(clusters, func(c spec.Cluster) bool { return c.SimulatedNodes > 0 }) {
		return b.BuildSimulator(ctx)
	}
	return nil
}

// resolveClusters returns the clusters of the flags. An existing cluster keeps its configuration; only workers can be added.
func (o *upOptions) resolveClusters(h home.Home) ([]spec.Cluster, error) {
	names, err := parseClusterNames(o.clusters)
	if err != nil {
		return nil, err
	}
	cnis, err := valuesPerCluster(names, "--cni", o.cni)
	if err != nil {
		return nil, err
	}
	versions, err := valuesPerCluster(names, "--kubernetes", o.kubernetes)
	if err != nil {
		return nil, err
	}
	var clusters []spec.Cluster
	for i, name := range names {
		flags := *o
		flags.spec.CNI = spec.CNI(cnis[i])
		if flags.spec.Kubernetes, err = spec.Release(versions[i]); err != nil {
			return nil, err
		}
		c, err := h.Load(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c = flags.applyFlags(spec.Default(name, h.World))
		case err != nil:
			return nil, err
		case c.World != h.World:
			return nil, fmt.Errorf("cluster %s was created with another LIQO_PLAYGROUND_NAME or LIQO_PLAYGROUND_NETWORK", name)
		default:
			if c, err = flags.extendCluster(c); err != nil {
				return nil, err
			}
		}
		if err := c.Validate(); err != nil {
			return nil, err
		}
		clusters = append(clusters, c)
	}
	return clusters, nil
}

// valuesPerCluster returns the value of a flag for each cluster; a single value applies to all clusters.
func valuesPerCluster(names []string, flag, text string) ([]string, error) {
	values := strings.Split(text, ",")
	if len(values) == 1 {
		values = slices.Repeat(values, len(names))
	}
	if len(values) != len(names) {
		return nil, fmt.Errorf("invalid %s %q: must be one value for all clusters or one for each, got %d values for %d clusters", flag, text, len(values), len(names))
	}
	return values, nil
}

// applyFlags sets the fields of the cluster whose flags were passed.
func (o *upOptions) applyFlags(c spec.Cluster) spec.Cluster {
	o.flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "workers":
			c.Workers = o.spec.Workers
		case "pod-cidr-overlap":
			c.Overlap = o.spec.Overlap
		case "ip-family":
			c.Family = spec.Family(o.family)
		case "cni":
			c.CNI = o.spec.CNI
		case "kubernetes":
			c.Kubernetes = o.spec.Kubernetes
		case "cluster-signing-duration":
			c.SigningDuration = o.spec.SigningDuration
		case "audit":
			c.Audit = o.spec.Audit
		case "no-lb":
			c.LoadBalancer = !o.noLB
		case "client-qps":
			c.ClientQPS = o.spec.ClientQPS
		case "gogc":
			c.GOGC = o.spec.GOGC
		case "apiserver-arg":
			c.APIServerArgs = o.spec.APIServerArgs
		case "simulated-nodes":
			c.SimulatedNodes = o.spec.SimulatedNodes
		case "addons":
			c.Addons = o.spec.Addons
		}
	})
	return c
}

// extendCluster returns the existing cluster with the number of workers of the flags; other changes are an error.
func (o *upOptions) extendCluster(current spec.Cluster) (spec.Cluster, error) {
	want := o.applyFlags(current)
	if want.Workers < current.Workers {
		return current, fmt.Errorf("cluster %s has %d workers, and workers cannot be removed: run \"%[3]s down --clusters %[1]s\" first", current.Name, current.Workers, os.Args[0])
	}
	current.Workers = want.Workers
	if fmt.Sprint(want) != fmt.Sprint(current) {
		return current, fmt.Errorf("cluster %s exists and was created with other flags: run \"%[2]s down --clusters %[1]s\" first", current.Name, os.Args[0])
	}
	return current, nil
}

// parseClusterNames returns the names of clusters for a number (3) or a list (a,c).
func parseClusterNames(text string) ([]string, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return strings.Split(text, ","), nil
	}
	if n < 1 || n > spec.MaxClusters {
		return nil, fmt.Errorf("invalid --clusters %d: must be between 1 and %d", n, spec.MaxClusters)
	}
	names := make([]string, n)
	for i := range names {
		names[i] = string(rune('a' + i))
	}
	return names, nil
}

// startCluster starts a cluster. Nodes boot and load their images while the API server starts.
func startCluster(ctx context.Context, h home.Home, c spec.Cluster, log *progress.Log) error {
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
	log.Print("%s: network ready", c.Name)
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := cluster.Start(inner, h, c); err != nil {
			return err
		}
		log.Print("%s: control plane ready", c.Name)
		return nil
	})
	for _, n := range c.Nodes() {
		group.Go(func() error {
			if err := bootNode(inner, h, c, n); err != nil {
				return err
			}
			log.Print("%s: container runtime ready", n.Name)
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
	if err := waitUntilReady(ctx, h, c); err != nil {
		return err
	}
	log.Print("%s: ready, kubeconfig %s", c.Name, h.Kubeconfig(c.Name))
	return nil
}

func bootNode(ctx context.Context, h home.Home, c spec.Cluster, n spec.Node) error {
	if err := node.Start(h, c, n); err != nil {
		return err
	}
	if err := node.WaitForRuntime(ctx, h, n.Name); err != nil {
		return err
	}
	return node.LoadImages(ctx, h, c.CNI, n.Name)
}

// waitUntilReady waits until all nodes, the DNS server and the add-ons of the cluster are ready.
func waitUntilReady(ctx context.Context, h home.Home, c spec.Cluster) error {
	config, err := cluster.Client(h, c.Name)
	if err != nil {
		return err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client for cluster %s: %w", c.Name, err)
	}
	err = cluster.Poll(ctx, readyTimeout, "cluster "+c.Name, func(ctx context.Context) error {
		for _, n := range c.Nodes() {
			if err := checkNodeReady(ctx, api, n.Name, h.Node(n.Name)+"/log"); err != nil {
				return err
			}
		}
		for _, name := range c.Simulated() {
			if err := checkNodeReady(ctx, api, name, h.Cluster(c.Name)+"/log/kwok.log"); err != nil {
				return err
			}
		}
		for _, name := range append([]string{"coredns"}, c.Addons...) {
			d, err := api.AppsV1().Deployments("kube-system").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !isAvailable(d) {
				return fmt.Errorf("add-on %s is not available", name)
			}
		}
		return nil
	})
	for _, n := range c.Nodes() {
		if last := lastError(h.Node(n.Name) + "/log/kubelet.log"); err != nil && last != "" {
			err = fmt.Errorf("%w; last error of the kubelet of %s: %s", err, n.Name, last)
		}
	}
	return err
}

// lastError returns the last error in a file of klog, or "". The error is part of the message, because tests remove clusters that do not
// start, together with their logs.
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

func checkNodeReady(ctx context.Context, api kubernetes.Interface, name, log string) error {
	current, err := api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !isNodeReady(current) {
		return fmt.Errorf("node %s is not ready (logs: %s)", name, log)
	}
	return nil
}

func isNodeReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func isAvailable(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.AvailableReplicas > 0
}
