// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package info holds "liqoctl info" and what it collects.
package info

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

// infoReport is the report of the command info; the sections are in the order of the screen.
type infoReport struct {
	Local    localInfo    `json:"local"`
	Health   healthInfo   `json:"health"`
	Network  *networkInfo `json:"network,omitempty"`
	Peerings peeringsInfo `json:"peerings"`
}

// documentOf converts a report or a part of a report to the form for scripts: maps, lists and scalars by their JSON names.
func documentOf(report any) any {
	data, err := json.Marshal(report)
	if err != nil {
		panic(err) // these types always marshal
	}
	var document any
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	if err := decoder.Decode(&document); err != nil {
		panic(err)
	}
	return document
}

type infoOptions struct {
	namespace string
	output    string
	get       string
	verbose   bool
	// exitCode makes the command fail if anything is unhealthy.
	exitCode bool
	// watch shows each change, and wait is the awaited state, for the time of timeout at most.
	watch   bool
	wait    string
	timeout time.Duration
}

// NewInfoCommand returns the command "info".
func NewInfoCommand(c *cluster.Session) *cobra.Command {
	o := &infoOptions{}
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Show the installed Liqo, its health and its peerings",
		Long: "Show the installed Liqo, its health and its peerings. The health covers the pods of Liqo, gateways and virtual kubelets in all namespaces\n" +
			"(without pods of Jobs, terminating pods, and ended pods that were replaced), deleted workloads of the chart, CRDs, the webhook, the networks\n" +
			"of the cluster, and the certificates issued by peers.\n\n" +
			"Unreadable parts are warnings. The exit code is 0 even if something is unhealthy, unless --exit-code is set.\n" +
			"--get prints a field: a scalar as plain text, anything else as a document. Names are case-insensitive; elements of lists are selected by index or\n" +
			"name, as in peerings.peers[0].role or peerings.peers.milan.role. An empty field is not an error, an unreadable one is.",
		Example: "  liqoctl info\n" +
			"  liqoctl info --output yaml\n" +
			"  liqoctl info --get clusterid\n" +
			"  liqoctl info --get network.podcidrs\n" +
			"  liqoctl info --get health.healthy",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runInfo(cmd.Context(), c, o) },
	}
	cluster.LiqoNamespace(cmd, &o.namespace)
	fs := cmd.PersistentFlags()
	fs.BoolVarP(&o.verbose, "verbose", "v", false, "Show the network too")
	fs.StringVarP(&o.output, "output", "o", "", "Print one line per peer: wide; or a document: json or yaml")
	fs.StringVarP(&o.get, "get", "g", "", "Print one field of the document, by its path with dots")
	fs.BoolVarP(&o.watch, "watch", "w", false, "Show it again after each change, until the command is interrupted")
	fs.StringVar(&o.wait, "wait", "", "Wait until all is "+waitHealthy+" before it is shown, and fail otherwise")
	fs.DurationVar(&o.timeout, "timeout", 5*time.Minute, "Time limit of --wait")
	fs.BoolVar(&o.exitCode, "exit-code", false, "Fail if Liqo or a peering is unhealthy, or something could not be read")
	cmd.MarkFlagsMutuallyExclusive("get", "exit-code")
	cmd.MarkFlagsMutuallyExclusive("get", "watch", "wait")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml", wide}, cobra.ShellCompDirectiveNoFileComp))
	cmd.AddCommand(infoPeer(c, o))
	return cmd
}

// newCollector returns a collector for a cluster with Liqo, and the client of the collector.
func newCollector(ctx context.Context, c *cluster.Session, o *infoOptions) (*Collector, client.WithWatch, error) {
	if o.output != "" && o.output != "json" && o.output != "yaml" && o.output != wide {
		return nil, nil, ui.Fail("--output is json or yaml, or wide for one line per peer, not %q", o.output)
	}
	if o.wait != "" && o.wait != waitHealthy {
		return nil, nil, ui.Fail("--wait is %s, not %q", waitHealthy, o.wait)
	}
	if o.timeout <= 0 {
		return nil, nil, ui.Fail("--timeout: invalid duration %s: must be greater than 0", o.timeout)
	}
	kube, err := c.NewClient(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := CheckInstalled(ctx, c, kube, o.namespace); err != nil {
		return nil, nil, err
	}
	return &Collector{Reader: kube, Namespace: o.namespace, Chart: c.Chart}, kube, nil
}

func runInfo(ctx context.Context, c *cluster.Session, o *infoOptions) error {
	if o.get != "" && !slices.Contains(infoSections, o.querySection()) {
		return ui.Fail("invalid query %q: %q not found", o.get, o.querySection()).Hint("--get takes a path below one of %s", strings.Join(infoSections, ", "))
	}
	from, kube, err := newCollector(ctx, c, o)
	if err != nil {
		return err
	}
	if o.get != "" {
		report, problems := from.collectReport(ctx, o.wantedSections())
		query := o.get
		if o.isClusterID() {
			query = "local.clusterid"
		}
		value, err := lookUp(report, query)
		if err != nil {
			return err
		}
		return printField(c, o, value, problems)
	}
	return o.showViews(ctx, c, kube, func(ctx context.Context) (view, error) {
		report, problems := from.collectReport(ctx, o.wantedSections())
		return view{documentOf(report), unhealthyError(report.failedParts(), problems), func() error {
			printProblems(c, problems)
			switch o.output {
			case "":
				printInfo(c, report)
			case wide:
				printWide(c, report.Peerings.Peers)
			default:
				return cluster.PrintDocument(c.Result(), documentOf(report), o.output)
			}
			return nil
		}}, ctx.Err()
	})
}

// infoSections are the keys of a report.
var infoSections = []string{"local", "health", "network", "peerings"}

// querySection returns the section that --get asks for, "" for none.
func (o *infoOptions) querySection() string {
	if o.isClusterID() {
		return "local"
	}
	first, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimPrefix(o.get, "."), "[", "."), ".")
	return strings.ToLower(first)
}

func (o *infoOptions) isClusterID() bool {
	return strings.EqualFold(strings.TrimPrefix(o.get, "."), "clusterid")
}

// wantedSections returns a function that reports whether a section is needed.
func (o *infoOptions) wantedSections() func(string) bool {
	if o.get != "" {
		requested := o.querySection()
		return func(section string) bool { return section == requested }
	}
	return func(section string) bool { return section != "network" || o.verbose }
}

// unhealthyError returns an error if a part is unhealthy or unreadable.
func unhealthyError(ailing []string, problems []infoProblem) error {
	if len(problems) > 0 {
		ailing = append(ailing, "not all could be read")
	}
	if len(ailing) == 0 {
		return nil
	}
	return ui.Fail("%s", strings.Join(ailing, "; "))
}

// failedParts returns the unhealthy parts in words.
func (r *infoReport) failedParts() (all []string) {
	if !r.Health.Healthy {
		all = append(all, "Liqo is unhealthy")
	}
	for _, p := range r.Peerings.Peers {
		if slices.Contains([]string{p.NetworkingStatus, p.AuthenticationStatus, p.OffloadingStatus}, diagnose.Unhealthy) {
			all = append(all, fmt.Sprintf("the peering with %s is unhealthy", p.ClusterID))
		}
	}
	return all
}

// CheckInstalled returns an error unless Liqo is installed in a namespace of the cluster.
func CheckInstalled(ctx context.Context, c *cluster.Session, kube client.Reader, namespace string) error {
	missing := apierrors.IsNotFound(kube.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{}))
	if !missing {
		var ids corev1.ConfigMapList
		if err := kube.List(ctx, &ids, client.InNamespace(namespace), client.MatchingLabels{names.AppName: names.ClusterIDApp}); err != nil {
			return fmt.Errorf("looking for Liqo: %w", err)
		}
		_, err := cluster.ControllerManager(ctx, kube, namespace)
		missing = len(ids.Items) == 0 && err != nil
	}
	if missing {
		return ui.Fail("Liqo is not installed in the current cluster!").
			Hint("Install it with: %s install. If it is in another namespace than %q, add -n", c.Executable, namespace)
	}
	return nil
}

// infoProblem is the reason why a part of a report is missing.
type infoProblem struct {
	// peer is "" in the report about the cluster itself.
	peer, section string
	err           error
}

// printProblems prints warnings about unreadable parts; the other parts are still printed.
func printProblems(c *cluster.Session, problems []infoProblem) {
	for _, p := range problems {
		c.Warn("%s", cluster.DescribeError(p.err))
	}
}

// collectReport collects the wanted sections, without unreadable parts.
func (f *Collector) collectReport(ctx context.Context, wanted func(section string) bool) (*infoReport, []infoProblem) {
	r := &infoReport{}
	var problems []infoProblem
	failed := func(section string, all ...error) {
		for _, err := range all {
			if err != nil {
				problems = append(problems, infoProblem{section: section, err: err})
			}
		}
	}
	var all []error
	var err error
	if wanted("local") {
		r.Local, all = f.collectLocal(ctx)
		failed("local", all...)
	}
	if wanted("health") {
		r.Health, all = f.CollectHealth(ctx)
		failed("health", all...)
		r.Health.Findings, all = f.collectAlerts(ctx, time.Now())
		failed("health", all...)
		r.Health.Alerts = diagnose.Alerts(r.Health.Findings)
		if r.Health.Healed, err = f.collectHealed(ctx); err != nil {
			failed("health", err)
		}
		r.Health.Healthy = r.Health.Healthy && len(r.Health.Alerts) == 0
	}
	if wanted("network") {
		r.Network, err = f.collectNetwork(ctx)
		failed("network", err)
	}
	if wanted("peerings") {
		r.Peerings, err = f.collectPeerings(ctx)
		failed("peerings", err)
	}
	return r, problems
}

// printField prints the value of --get. It fails if the value is missing because it was unreadable. Other unreadable parts are reported only with
// several values or with the health, since the health depends on all parts.
func printField(c *cluster.Session, o *infoOptions, value any, problems []infoProblem) error {
	if len(problems) > 0 && isBlank(value) {
		printProblems(c, problems[:len(problems)-1])
		return problems[len(problems)-1].err
	}
	switch value.(type) {
	case map[string]any, []any:
		printProblems(c, problems)
	default:
		if o.querySection() == "health" {
			printProblems(c, problems)
		}
	}
	return cluster.PrintValue(c.Result(), value, o.output)
}

func printInfo(c *cluster.Session, r *infoReport) {
	local := ui.NewSection("Local installation info")
	local.Entry("Cluster ID", r.Local.ClusterID)
	local.Entry("Version", r.Local.Version)
	local.Entry("K8s API server", r.Local.APIServerAddr)
	if len(r.Local.Labels) > 0 {
		labels := local.Section("Cluster labels")
		for _, k := range cluster.SortedKeys(r.Local.Labels) {
			labels.Entry(k, r.Local.Labels[k])
		}
	}
	c.Box(local)
	c.Box(healthSection(r.Health))
	if r.Network != nil {
		n := ui.NewSection("Network")
		n.Entry("Pod CIDRs", orNone(r.Network.PodCIDRs)...)
		n.Entry("Service CIDR", r.Network.ServiceCIDR)
		n.Entry("External CIDR", r.Network.ExternalCIDR)
		n.Entry("Internal CIDR", r.Network.InternalCIDR)
		c.Box(n)
	}
	peers := ui.NewSection("Active peerings")
	for _, p := range r.Peerings.Peers {
		s := peers.Section(p.ClusterID)
		s.Entry("Role", p.Role)
		s.Entry("Networking status", p.NetworkingStatus)
		s.Entry("Authentication status", p.AuthenticationStatus)
		s.Entry("Offloading status", p.OffloadingStatus)
		addAlerts(s, p.Alerts)
	}
	c.Box(peers)
}

func healthSection(h healthInfo) *ui.Section {
	s := ui.NewSection("Installation health")
	if h.Healthy {
		s.Entry("✔    Liqo is healthy")
	} else {
		s.Entry("✖    Liqo is unhealthy")
	}
	if len(h.Findings) > 0 {
		alerts := s.Section("Alerts")
		for _, f := range h.Findings {
			addAlert(alerts, f.Message, f.Remedy, f.Page)
		}
	}
	if len(h.UnhealthyPods) > 0 {
		pods := s.Section("Unhealthy pods")
		for _, name := range cluster.SortedKeys(h.UnhealthyPods) {
			pods.Entry(name, h.UnhealthyPods[name].String())
		}
	}
	if len(h.MissingPods) > 0 {
		workloads := s.Section("Missing pods")
		for _, name := range cluster.SortedKeys(h.MissingPods) {
			workloads.Entry(name, h.MissingPods[name].String())
		}
	}
	if len(h.Healed) > 0 {
		healed := s.Section("Healed")
		for _, line := range h.Healed {
			healed.Entry(line)
		}
	}
	return s
}

// addAlerts adds the alerts of a peer, each with its remedy.
func addAlerts(s *ui.Section, alerts []string) {
	if len(alerts) == 0 {
		return
	}
	section := s.Section("Alerts")
	for _, alert := range alerts {
		remedy, page := diagnose.Advise(alert)
		addAlert(section, alert, remedy, page)
	}
}

func addAlert(s *ui.Section, message, remedy, page string) {
	s.Entry(message)
	if remedy != "" {
		s.Entry("  → " + remedy)
	}
	if page != "" {
		s.Entry("  see " + page)
	}
}

func orNone(values []string) []string {
	if len(values) == 0 {
		return []string{""}
	}
	return values
}

// ReadClusterID returns the ID of the cluster.
func (f *Collector) ReadClusterID(ctx context.Context) (string, error) {
	var list corev1.ConfigMapList
	err := f.List(ctx, &list, client.InNamespace(f.Namespace), client.MatchingLabels{names.AppName: names.ClusterIDApp})
	if err != nil {
		return "", fmt.Errorf("reading the cluster ID: %w", err)
	}
	if len(list.Items) != 1 {
		return "", fmt.Errorf("reading the cluster ID: namespace %q has %d ConfigMaps with one, instead of 1", f.Namespace, len(list.Items))
	}
	return list.Items[0].Data[names.ClusterIDKey], nil
}
