// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package info

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/ui"
)

func infoPeer(c *cluster.Session, o *infoOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "peer [ID...]",
		Short: "Show the peerings with some clusters, or with all",
		Example: "  liqoctl info peer\n" +
			"  liqoctl info peer milan turin --output yaml\n" +
			"  liqoctl info peer milan --get network.gateway\n" +
			"  liqoctl info peer milan --get authentication.resourceslices",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			found, directive := c.CompleteClusters(cmd, args, typed)
			return slices.DeleteFunc(found, func(id string) bool { return slices.Contains(args, id) }), directive
		},
		Args: cluster.CheckArguments(cobra.ArbitraryArgs, cluster.CheckClusterID),
		RunE: func(cmd *cobra.Command, args []string) error { return runInfoPeer(cmd.Context(), c, o, args) },
	}
}

func runInfoPeer(ctx context.Context, c *cluster.Session, o *infoOptions, ids []string) error {
	if first, _ := splitPath(o.get); o.get != "" && len(ids) > 0 && !slices.Contains(ids, first) && (len(ids) > 1 || !isPeerSection(first)) {
		return notRequested(first, o.get)
	}
	from, kube, err := newCollector(ctx, c, o)
	if err != nil {
		return err
	}
	if o.get != "" {
		reports, _, problems, err := from.collectPeers(ctx, ids)
		if err != nil {
			return err
		}
		value, err := lookUpPeer(reports, o.get)
		if err != nil {
			return err
		}
		return printField(c, o, value, problemsOf(o.get, problems))
	}
	return o.showViews(ctx, c, kube, func(ctx context.Context) (view, error) {
		reports, order, problems, err := from.collectPeers(ctx, ids)
		ailing := unhealthyPeers(reports, order)
		if missing, is := errors.AsType[missingPeers](err); is && o.wait != "" {
			ailing, err = append(ailing, missing.Error()), nil
		}
		if o.wait != "" {
			ailing = append(ailing, unusedPeers(reports, order)...)
		}
		return view{documentOf(reports), unhealthyError(ailing, problems), func() error {
			printProblems(c, problems)
			return o.printPeers(c, reports, order)
		}}, cmp.Or(err, ctx.Err())
	})
}

// collectPeers collects the reports about peers with the IDs, or about all, and their order.
func (f *Collector) collectPeers(ctx context.Context, ids []string) (reports map[string]*peerReport, order []string, problems []infoProblem, err error) {
	peers, err := f.selectedPeers(ctx, ids)
	if err != nil {
		return nil, nil, nil, err
	}
	reports = map[string]*peerReport{}
	for i := range peers {
		report, failed := f.collectPeer(ctx, &peers[i])
		problems = append(problems, failed...)
		reports[report.Info.ClusterID], order = report, append(order, report.Info.ClusterID)
	}
	return reports, order, problems, nil
}

func (o *infoOptions) printPeers(c *cluster.Session, reports map[string]*peerReport, order []string) error {
	switch {
	case o.output == wide:
		var lines []peerInfo
		for _, id := range order {
			lines = append(lines, reports[id].toPeerInfo())
		}
		printWide(c, lines)
	case o.output != "":
		return cluster.PrintDocument(c.Result(), documentOf(reports), o.output)
	case len(reports) == 0:
		c.Info("There are no active peerings")
	default:
		for i, id := range order {
			if i > 0 {
				fmt.Fprint(c.Result(), "\n\n")
			}
			printPeer(c, reports[id])
		}
	}
	return nil
}

// unhealthyPeers returns the unhealthy peerings in words.
func unhealthyPeers(reports map[string]*peerReport, order []string) (all []string) {
	for _, id := range order {
		r := reports[id]
		if slices.Contains([]string{r.Network.Status, r.Authentication.Status, r.Offloading.Status}, diagnose.Unhealthy) {
			all = append(all, fmt.Sprintf("the peering with %s is unhealthy", id))
		}
	}
	return all
}

// unusedPeers returns, in words, the peerings without a module in use, and that there is no peering: in both cases a wait goes on.
func unusedPeers(reports map[string]*peerReport, order []string) (all []string) {
	if len(order) == 0 {
		return []string{"there are no active peerings"}
	}
	for _, id := range order {
		r := reports[id]
		if !slices.ContainsFunc([]string{r.Network.Status, r.Authentication.Status, r.Offloading.Status}, func(s string) bool { return s != diagnose.Disabled }) {
			all = append(all, fmt.Sprintf("the peering with %s has no module in use", id))
		}
	}
	return all
}

// toPeerInfo returns the report as in the list of all peers.
func (r *peerReport) toPeerInfo() peerInfo {
	return peerInfo{
		ClusterID: r.Info.ClusterID, Role: r.Info.Role,
		NetworkingStatus: r.Network.Status, AuthenticationStatus: r.Authentication.Status, OffloadingStatus: r.Offloading.Status,
		Alerts: slices.Concat(r.Network.Alerts, r.Authentication.Alerts, r.Offloading.Alerts),
	}
}

// peerSections are the keys of a report about a peer.
var peerSections = []string{"info", "network", "authentication", "offloading"}

// splitPath splits off the first step of a path, without the dot or bracket.
func splitPath(path string) (first, rest string) {
	path = strings.TrimPrefix(path, ".")
	if n := strings.IndexAny(path, ".["); n >= 0 {
		return path[:n], path[n:]
	}
	return path, ""
}

// lookUpPeer resolves a path that begins with the ID of a peer. The ID may be left out with a single peer. Cluster IDs are DNS labels,
// without dots.
func lookUpPeer(peers map[string]*peerReport, query string) (any, error) {
	first, _ := splitPath(query)
	if _, ok := peers[first]; ok {
		return lookUp(peers, query)
	}
	for _, only := range peers {
		if len(peers) == 1 && isPeerSection(first) {
			return lookUp(only, query)
		}
	}
	return nil, notRequested(first, query)
}

func isPeerSection(s string) bool { return slices.Contains(peerSections, strings.ToLower(s)) }

func notRequested(id, query string) error {
	return ui.Fail("cluster %q in query %q is not among the requested clusters", id, query).
		Hint("--get takes a path below one of %s, preceded by the cluster ID if there are several clusters", strings.Join(peerSections, ", "))
}

// problemsOf returns the problems with the queried parts.
func problemsOf(query string, problems []infoProblem) []infoProblem {
	first, rest := splitPath(query)
	second, _ := splitPath(rest)
	return slices.DeleteFunc(slices.Clone(problems), func(p infoProblem) bool {
		section := first
		if p.peer == first {
			section = second
		}
		return section != "" && !strings.EqualFold(section, p.section)
	})
}

func printPeer(c *cluster.Session, r *peerReport) {
	info := ui.NewSection("Peer cluster info")
	info.Entry("Cluster ID", r.Info.ClusterID)
	info.Entry("Role", r.Info.Role)
	if r.Info.Version != "" {
		info.Entry("Version", r.Info.Version)
	}
	if len(r.Info.Capabilities) > 0 {
		info.Entry("Capabilities", r.Info.Capabilities...)
	}
	c.Box(info)
	c.Box(r.Network.newSection())
	c.Box(r.Authentication.newSection())
	c.Box(r.Offloading.newSection())
}

func (m moduleInfo) newSection(title string) *ui.Section {
	s := ui.NewSection(title)
	s.Entry("Status", m.Status)
	addAlerts(s, m.Alerts)
	return s
}

func (n *peerNetworkInfo) newSection() *ui.Section {
	s := n.moduleInfo.newSection("Network")
	if n.Status == "Disabled" {
		return s
	}
	remapped := n.CIDRs.Remapped
	if remapped == nil {
		remapped = &networkingv1beta1.ClusterConfigCIDR{}
	}
	remote := s.Section("CIDR").Section("Remote")
	remote.Entry("Pod CIDR", seenAs(n.CIDRs.Remote.Pod, n.CIDRs.placed.Pod, remapped.Pod))
	remote.Entry("External CIDR", seenAs(n.CIDRs.Remote.External, n.CIDRs.placed.External, remapped.External))
	gateway := s.Section("Gateway")
	gateway.Entry("Role", n.Gateway.Role)
	gateway.Entry("Address", orNone(n.Gateway.Address)...)
	ports := n.Gateway.Ports
	if n.Gateway.Port != 0 {
		ports = []int32{n.Gateway.Port}
	}
	gateway.Entry("Port", joinValues(ports))
	if len(n.Gateway.ToldEndpoints) > 0 {
		gateway.Entry("Reported by the peer", n.Gateway.ToldEndpoints...)
	}
	if n.Gateway.MTU != 0 {
		gateway.Entry("MTU", fmt.Sprint(n.Gateway.MTU))
	}
	if n.Connection != nil {
		connection := s.Section("Connection")
		connection.Entry("Status", n.Connection.Status)
		connection.Entry("Latency", n.Connection.Latency)
		if len(n.Connection.FailedNodes) > 0 {
			connection.Entry("Failed nodes", n.Connection.FailedNodes...)
		}
	}
	return s
}

// seenAs returns the ranges of a peer with their local prefixes. The local prefixes are in the order of placed.
func seenAs(ranges, placed, localCIDRs []networkingv1beta1.CIDR) string {
	if len(localCIDRs) == 0 || slices.Equal(ranges, localCIDRs) {
		return joinValues(ranges)
	}
	local := make([]networkingv1beta1.CIDR, len(ranges))
	for i, one := range ranges {
		local[i] = "none"
		if j := slices.Index(placed, one); j >= 0 && j < len(localCIDRs) {
			local[i] = localCIDRs[j]
		}
	}
	return joinValues(ranges) + " → Remapped to " + joinValues(local)
}

func joinValues[T any](values []T) string {
	var all []string
	for _, v := range values {
		all = append(all, fmt.Sprint(v))
	}
	return strings.Join(all, ", ")
}

func (a *peerAuthentication) newSection() *ui.Section {
	s := a.moduleInfo.newSection("Authentication")
	if a.APIServerAddr != "" {
		s.Entry("API server", a.APIServerAddr)
	}
	if len(a.ResourceSlices) == 0 {
		return s
	}
	slices := s.Section("Resource slices")
	for _, info := range a.ResourceSlices {
		one := slices.Section(info.Name)
		if info.Accepted {
			one.Entry("Resource slice accepted")
		} else {
			one.Entry("Resource slice not accepted")
		}
		addAlerts(one, info.Alerts)
		one.Entry("Action", info.Action)
		addResources(one, info.Resources)
	}
	return s
}

func (o *peerOffloading) newSection() *ui.Section {
	s := o.moduleInfo.newSection("Offloading")
	if len(o.VirtualNodes) == 0 {
		return s
	}
	nodes := s.Section("Virtual nodes")
	for _, info := range o.VirtualNodes {
		one := nodes.Section(info.Name)
		one.Entry("Status", info.Status)
		one.Entry("Secret", info.Secret)
		if info.ResourceSlice != "" {
			one.Entry("Resource slice", info.ResourceSlice)
		}
		addResources(one, info.Resources)
	}
	return s
}

func addResources(s *ui.Section, list corev1.ResourceList) {
	if len(list) == 0 {
		return
	}
	r := s.Section("Resources")
	amounts := map[string]string{}
	for name, amount := range list {
		amounts[string(name)] = amount.String()
	}
	for _, name := range cluster.SortedKeys(amounts) {
		r.Entry(name, amounts[name])
	}
}
