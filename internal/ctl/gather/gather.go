// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package gather holds "liqoctl gather", which writes an archive for those who help. Of objects only fields of an allow-list are written, and
// from text credentials are removed.
package gather

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/check"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/info"
	"liqo.io/liqo/internal/ctl/podpage"
	"liqo.io/liqo/internal/ctl/ui"
)

type options struct {
	namespace, file, maxSize string
	since                    time.Duration
}

// gatherer writes the objects and logs of a cluster to an archive.
type gatherer struct {
	config    *rest.Config
	client    client.Client
	clients   kubernetes.Interface
	namespace string
	since     time.Duration
	archive   *archive
	// readLog and readPage read from a pod; both are fields for tests, whose pods do not run.
	readLog  func(context.Context, *corev1.Pod, *corev1.PodLogOptions) (text []byte, cut bool, err error)
	readPage func(ctx context.Context, pod *corev1.Pod, port int32, page, token string) (string, error)
}

// NewGatherCommand returns the command "gather".
func NewGatherCommand(c *cluster.Session) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "gather",
		Short: "Write an archive with all that helps to find a fault, without credentials",
		Long: "Write an archive with all that helps to find a fault: the checks, the objects of Liqo, events, metrics, the state of the network on nodes and\n" +
			"gateways, and logs of now and before the last restart. Nothing is changed in the cluster. Run it on both clusters of a peering.\n\n" +
			"Of Secrets and ConfigMaps only the keys and lengths are written, of all other objects only fields of a list: no environment, arguments or\n" +
			"annotations of others. What looks like a credential is removed from texts. errors.txt in the archive says what could not be read.",
		Example: "  liqoctl gather\n" +
			"  liqoctl gather --since 2h --output-file rome.tar.gz",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.runGather(cmd.Context(), c) },
	}
	cluster.LiqoNamespace(cmd, &o.namespace)
	fs := cmd.Flags()
	fs.StringVar(&o.file, "output-file", "", "The archive to write, which must not exist; liqo-ID-TIME.tar.gz if empty")
	fs.DurationVar(&o.since, "since", 24*time.Hour, "Write logs that are at most this old")
	fs.StringVar(&o.maxSize, "max-size", "200Mi", "The size of the content, before compression; logs are cut first")
	return cmd
}

func (o *options) runGather(ctx context.Context, c *cluster.Session) error {
	size, err := resource.ParseQuantity(o.maxSize)
	if err != nil || size.Value() <= 0 {
		return ui.Fail("--max-size: invalid quantity %q: must be greater than 0, such as 200Mi", o.maxSize)
	}
	if o.since <= 0 {
		return ui.Fail("--since: invalid duration %s: must be greater than 0", o.since)
	}
	if err := checkTarget(o.file); err != nil {
		return err
	}
	config, err := c.RestConfig()
	if err != nil {
		return err
	}
	kube, err := cluster.NewClientOf(ctx, config)
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := info.CheckInstalled(ctx, c, kube, o.namespace); err != nil {
		return err
	}
	id, err := cluster.ClusterIdentity(ctx, kube, o.namespace)
	if err != nil {
		id = "unknown" // a missing ID may be the fault to diagnose
	}
	now := time.Now().UTC().Truncate(time.Second)
	folder := "liqo-" + id + "-" + now.Format("20060102-150405")
	if o.file == "" {
		o.file = folder + ".tar.gz"
	}
	a, err := newArchive(o.file, folder, size.Value(), now)
	if err != nil {
		return err
	}
	g := &gatherer{config: config, client: kube, clients: clients, namespace: o.namespace, since: o.since, archive: a}
	g.readLog, g.readPage = g.readLogEnd, podpage.NewReader(config, clients).ReadPage
	step := c.Spin("Gathering")
	defer step.Stop()
	if err := a.closeArchive(g.gatherAll(ctx, c, step)); err != nil {
		return err
	}
	step.Stop()
	if len(a.problems) > 0 {
		c.Warn("%d parts are missing: errors.txt in the archive says which", len(a.problems))
	}
	c.Success("Wrote the archive %s", o.file)
	return nil
}

// checkTarget returns an error for a file that cannot be created, before the cluster is read.
func checkTarget(file string) error {
	if _, err := os.Stat(file); err == nil {
		return ui.Fail("--output-file: %s exists", file)
	}
	if _, err := os.Stat(filepath.Dir(file)); err != nil {
		return fmt.Errorf("looking at the folder of --output-file: %w", err)
	}
	return nil
}

// gatherAll writes all parts, the smaller parts first.
func (g *gatherer) gatherAll(ctx context.Context, c *cluster.Session, step *ui.Spinner) error {
	step.Text("Gathering: checks")
	if err := g.gatherChecks(ctx, c); err != nil {
		return err
	}
	step.Text("Gathering: objects")
	pods := g.findPods(ctx)
	if err := g.gatherObjects(ctx, g.findNamespaces(ctx, pods)); err != nil {
		return err
	}
	step.Text("Gathering: metrics, network state and logs")
	if err := g.gatherPods(ctx, pods); err != nil {
		return err
	}
	version := fmt.Sprintf("liqoctl: %s\n", cluster.Version)
	if server, err := g.clients.Discovery().ServerVersion(); err == nil {
		version += "kubernetes: " + server.GitVersion + "\n"
	} else {
		g.archive.addProblem("version of Kubernetes: %s", cluster.DescribeError(err))
	}
	if err := g.archive.writeFile("version.txt", []byte(version)); err != nil {
		return err
	}
	return g.archive.writeFile("errors.txt", []byte(strings.Join(append(g.archive.problems, ""), "\n")))
}

// gatherChecks adds what "liqoctl check -o json" prints.
func (g *gatherer) gatherChecks(ctx context.Context, c *cluster.Session) error {
	facts, err := g.readFacts(ctx, c)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		g.archive.addProblem("check.json: %s", cluster.DescribeError(err))
		return nil
	}
	text, err := json.MarshalIndent(diagnose.NewReport(facts.Groups()), "", "  ")
	if err != nil {
		return fmt.Errorf("writing the checks: %w", err)
	}
	return g.archive.addFile("check.json", []byte(redactText(string(text))))
}

func (g *gatherer) readFacts(ctx context.Context, c *cluster.Session) (*diagnose.Facts, error) {
	from, err := check.NewGatherer(ctx, c, g.namespace)
	if err != nil {
		return nil, err
	}
	return from.GatherFacts(ctx)
}
