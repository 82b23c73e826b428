// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/names"
)

type infoOptions struct {
	namespace string
	output    string
	get       string
	verbose   bool
}

func (c *cli) info() *cobra.Command {
	o := &infoOptions{}
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Show the installed Liqo, its health and its peerings",
		Example: "  liqoctl info\n" +
			"  liqoctl info --output yaml\n" +
			"  liqoctl info --get clusterid\n" +
			"  liqoctl info --get network.podcidrs",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runInfo(cmd.Context(), o) },
	}
	liqoNamespace(cmd, &o.namespace)
	fs := cmd.PersistentFlags()
	fs.BoolVarP(&o.verbose, "verbose", "v", false, "Show the network too")
	fs.StringVarP(&o.output, "output", "o", "", "Print a document instead: json or yaml")
	fs.StringVarP(&o.get, "get", "g", "", "Print one field of the document, by its path with dots")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.AddCommand(c.infoPeer(o))
	return cmd
}

// collector reads of a cluster that has Liqo.
func (c *cli) collector(ctx context.Context, o *infoOptions) (*collector, error) {
	if o.output != "" && o.output != "json" && o.output != "yaml" {
		return nil, out.Fail("--output is json or yaml, not %q", o.output)
	}
	kube, err := c.client(ctx)
	if err != nil {
		return nil, err
	}
	return &collector{Reader: kube, namespace: o.namespace}, c.checkInstalled(ctx, kube, o.namespace)
}

func (c *cli) runInfo(ctx context.Context, o *infoOptions) error {
	from, err := c.collector(ctx, o)
	if err != nil {
		return err
	}
	report := c.collect(ctx, from, o.verbose || o.get != "")
	switch {
	case o.get != "":
		return c.printField(report, o.get, o.output)
	case o.output != "":
		return printDocument(c.Result(), report.document(), o.output)
	}
	c.printInfo(report)
	return nil
}

func (c *cli) checkInstalled(ctx context.Context, kube client.Reader, namespace string) error {
	missing := apierrors.IsNotFound(kube.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{}))
	if !missing {
		var ids corev1.ConfigMapList
		if err := kube.List(ctx, &ids, client.InNamespace(namespace), client.MatchingLabels{names.AppName: names.ClusterIDApp}); err != nil {
			return fmt.Errorf("looking for Liqo: %w", err)
		}
		_, err := controllerManager(ctx, kube, namespace)
		missing = len(ids.Items) == 0 && err != nil
	}
	if missing {
		return out.Fail("Liqo is not installed in the current cluster!").
			Hint("Install it with: %s install. If it is in another namespace than %q, add -n", c.executable, namespace)
	}
	return nil
}

// collect gathers every section. What cannot be read is said and left out; the rest is still of use.
func (c *cli) collect(ctx context.Context, from *collector, network bool) *infoReport {
	r := &infoReport{}
	var problems []error
	r.Local, problems = from.local(ctx)
	var err error
	if r.Health, err = from.health(ctx); err != nil {
		problems = append(problems, err)
	}
	if network {
		if r.Network, err = from.network(ctx); err != nil {
			problems = append(problems, err)
		}
	}
	if r.Peerings, err = from.peerings(ctx); err != nil {
		problems = append(problems, err)
	}
	for _, problem := range problems {
		c.Warn("%s", describe(problem))
	}
	return r
}

func (c *cli) printField(report *infoReport, query, format string) error {
	if key := strings.TrimPrefix(query, "."); strings.EqualFold(key, "clusterid") {
		query = "local.clusterid"
	}
	value, err := lookUp(report.document(), query)
	if err != nil {
		return err
	}
	return printValue(c.Result(), value, format)
}

func (c *cli) printInfo(r *infoReport) {
	local := out.NewSection("Local installation info")
	local.Entry("Cluster ID", r.Local.ClusterID)
	local.Entry("Version", r.Local.Version)
	local.Entry("K8s API server", r.Local.APIServerAddr)
	if len(r.Local.Labels) > 0 {
		labels := local.Section("Cluster labels")
		for _, k := range sortedKeys(r.Local.Labels) {
			labels.Entry(k, r.Local.Labels[k])
		}
	}
	c.Box(local)
	c.Box(healthSection(r.Health))
	if r.Network != nil {
		n := out.NewSection("Network")
		n.Entry("Pod CIDRs", orNone(r.Network.PodCIDRs)...)
		n.Entry("Service CIDR", r.Network.ServiceCIDR)
		n.Entry("External CIDR", r.Network.ExternalCIDR)
		n.Entry("Internal CIDR", r.Network.InternalCIDR)
		c.Box(n)
	}
	peers := out.NewSection("Active peerings")
	for _, p := range r.Peerings.Peers {
		s := peers.Section(p.ClusterID)
		s.Entry("Role", p.Role)
		s.Entry("Networking status", p.NetworkingStatus)
		s.Entry("Authentication status", p.AuthenticationStatus)
		s.Entry("Offloading status", p.OffloadingStatus)
	}
	c.Box(peers)
}

func healthSection(h healthInfo) *out.Section {
	s := out.NewSection("Installation health")
	if h.Healthy {
		s.Entry("✔    Liqo is healthy")
		return s
	}
	s.Entry("✖    Liqo is unhealthy")
	if len(h.UnhealthyPods) > 0 {
		pods := s.Section("Unhealthy pods")
		for _, name := range sortedKeys(h.UnhealthyPods) {
			p := h.UnhealthyPods[name]
			pods.Entry(name, fmt.Sprintf("Status: %v, Ready: %v/%v, Restarts: %v", p.Status, p.ReadyContainers, p.TotalContainers, p.Restarts))
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

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// clusterID reads the ID of the cluster.
func (f *collector) clusterID(ctx context.Context) (string, error) {
	var list corev1.ConfigMapList
	err := f.List(ctx, &list, client.InNamespace(f.namespace), client.MatchingLabels{names.AppName: names.ClusterIDApp})
	if err != nil {
		return "", fmt.Errorf("reading the cluster ID: %w", err)
	}
	if len(list.Items) != 1 {
		return "", fmt.Errorf("reading the cluster ID: namespace %q has %d ConfigMaps with one, instead of 1", f.namespace, len(list.Items))
	}
	return list.Items[0].Data[names.ClusterIDKey], nil
}
