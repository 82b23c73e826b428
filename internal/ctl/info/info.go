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
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

// infoReport is the report of the command info; its sections are in the order of the screen.
type infoReport struct {
	Local    localInfo    `json:"local"`
	Health   healthInfo   `json:"health"`
	Network  *networkInfo `json:"network,omitempty"`
	Peerings peeringsInfo `json:"peerings"`
}

// documentOf converts a report or a part of one to the form that scripts see: maps, lists and scalars by their JSON names.
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
	fs.StringVarP(&o.output, "output", "o", "", "Print a document instead: json or yaml")
	fs.StringVarP(&o.get, "get", "g", "", "Print one field of the document, by its path with dots")
	fs.BoolVar(&o.exitCode, "exit-code", false, "Fail if Liqo or a peering is unhealthy, or something could not be read")
	cmd.MarkFlagsMutuallyExclusive("get", "exit-code")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.AddCommand(infoPeer(c, o))
	return cmd
}

// newCollector returns a collector for a cluster, which must have Liqo installed.
func newCollector(ctx context.Context, c *cluster.Session, o *infoOptions) (*Collector, error) {
	if o.output != "" && o.output != "json" && o.output != "yaml" {
		return nil, ui.Fail("--output is json or yaml, not %q", o.output)
	}
	kube, err := c.NewClient(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkInstalled(ctx, c, kube, o.namespace); err != nil {
		return nil, err
	}
	return &Collector{Reader: kube, Namespace: o.namespace, chart: c.Chart}, nil
}

func runInfo(ctx context.Context, c *cluster.Session, o *infoOptions) error {
	if o.get != "" && !slices.Contains(infoSections, o.querySection()) {
		return ui.Fail("invalid query %q: %q not found", o.get, o.querySection()).Hint("--get takes a path below one of %s", strings.Join(infoSections, ", "))
	}
	from, err := newCollector(ctx, c, o)
	if err != nil {
		return err
	}
	report, problems := from.collectReport(ctx, o.wantedSections())
	if o.get != "" {
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
	printProblems(c, problems)
	if o.output != "" {
		err = cluster.PrintDocument(c.Result(), documentOf(report), o.output)
	} else {
		printInfo(c, report)
	}
	if err != nil || !o.exitCode {
		return err
	}
	return unhealthyError(report.failedParts(), problems)
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
		if slices.Contains([]string{p.NetworkingStatus, p.AuthenticationStatus, p.OffloadingStatus}, unhealthy) {
			all = append(all, fmt.Sprintf("the peering with %s is unhealthy", p.ClusterID))
		}
	}
	return all
}

func checkInstalled(ctx context.Context, c *cluster.Session, kube client.Reader, namespace string) error {
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
	if wanted("local") {
		r.Local, all = f.collectLocal(ctx)
		failed("local", all...)
	}
	if wanted("health") {
		r.Health, all = f.CollectHealth(ctx)
		failed("health", all...)
		r.Health.Alerts, all = f.collectAlerts(ctx, time.Now())
		failed("health", all...)
		r.Health.Healthy = r.Health.Healthy && len(r.Health.Alerts) == 0
	}
	var err error
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

// printField prints the value of --get. It fails if the value is missing because it could not be read. Other unreadable parts are
// reported only with several values or with the health, which depends on all parts.
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
		if len(p.Alerts) > 0 {
			s.Entry("Alerts", p.Alerts...)
		}
	}
	c.Box(peers)
}

func healthSection(h healthInfo) *ui.Section {
	s := ui.NewSection("Installation health")
	if h.Healthy {
		s.Entry("✔    Liqo is healthy")
		return s
	}
	s.Entry("✖    Liqo is unhealthy")
	if len(h.Alerts) > 0 {
		alerts := s.Section("Alerts")
		for _, alert := range h.Alerts {
			alerts.Entry(alert)
		}
	}
	if len(h.UnhealthyPods) > 0 {
		pods := s.Section("Unhealthy pods")
		for _, name := range cluster.SortedKeys(h.UnhealthyPods) {
			p := h.UnhealthyPods[name]
			reason := fmt.Sprintf("Status: %v, Ready: %v/%v, Restarts: %v", p.Status, p.ReadyContainers, p.TotalContainers, p.Restarts)
			if p.Reason != "" {
				reason += ", " + p.Reason
			}
			pods.Entry(name, reason)
		}
	}
	if len(h.MissingPods) > 0 {
		workloads := s.Section("Missing pods")
		for _, name := range cluster.SortedKeys(h.MissingPods) {
			m := h.MissingPods[name]
			reason := fmt.Sprintf("%s, Pods: %v/%v", m.Kind, m.Pods, m.Wanted)
			if m.Reason != "" {
				reason += ", " + m.Reason
			}
			workloads.Entry(name, reason)
		}
	}
	return s
}

func orNone(values []string) []string {
	if len(values) == 0 {
		return []string{""}
	}
	return values
}

// clusterID returns the ID of the cluster.
func (f *Collector) clusterID(ctx context.Context) (string, error) {
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
