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

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/out"
)

func (c *cli) infoPeer(o *infoOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "peer [ID...]",
		Short: "Show the peerings with some clusters, or with all",
		Example: "  liqoctl info peer\n" +
			"  liqoctl info peer milan turin --output yaml\n" +
			"  liqoctl info peer milan --get network.gateway",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			found, directive := c.completeClusters(cmd, args, typed)
			return slices.DeleteFunc(found, func(id string) bool { return slices.Contains(args, id) }), directive
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.runInfoPeer(cmd.Context(), o, args) },
	}
}

func (c *cli) runInfoPeer(ctx context.Context, o *infoOptions, ids []string) error {
	from, err := c.collector(ctx, o)
	if err != nil {
		return err
	}
	peers, err := from.selected(ctx, ids)
	if err != nil {
		return err
	}
	var reports []*peerReport
	for i := range peers {
		report, problems := from.peer(ctx, &peers[i])
		for _, problem := range problems {
			c.Warn("%s", describe(problem))
		}
		reports = append(reports, report)
	}
	switch {
	case o.get != "":
		value, err := lookUpPeer(peerDocument(reports), o.get)
		if err != nil {
			return err
		}
		return printValue(c.Result(), value, o.output)
	case o.output != "":
		return printDocument(c.Result(), peerDocument(reports), o.output)
	case len(reports) == 0:
		c.Info("There are no active peerings")
	}
	for i, r := range reports {
		if i > 0 {
			fmt.Fprint(c.Result(), "\n\n")
		}
		c.printPeer(r)
	}
	return nil
}

// peerDocument is what scripts see: the peers by their IDs, also where there is one.
func peerDocument(reports []*peerReport) map[string]any {
	byID := map[string]*peerReport{}
	for _, r := range reports {
		byID[r.Info.ClusterID] = r
	}
	return documentOf(byID)
}

// lookUpPeer follows a path that begins with the ID of a peer, which may be left out where there is one.
func lookUpPeer(peers map[string]any, query string) (any, error) {
	path := strings.TrimPrefix(query, ".")
	if _, _, ok := field(peers, path); ok {
		return lookUp(peers, query)
	}
	first, _, _ := strings.Cut(path, ".")
	for _, only := range peers {
		if _, _, ok := field(only.(map[string]any), first); ok && len(peers) == 1 {
			return lookUp(only, query)
		}
	}
	return nil, out.Fail("cluster %q in query %q is not among the requested clusters", first, query)
}

func (c *cli) printPeer(r *peerReport) {
	info := out.NewSection("Peer cluster info")
	info.Entry("Cluster ID", r.Info.ClusterID)
	info.Entry("Role", r.Info.Role)
	c.Box(info)
	c.Box(r.Network.section())
	c.Box(r.Authentication.section())
	c.Box(r.Offloading.section())
}

func (m moduleInfo) section(title string) *out.Section {
	s := out.NewSection(title)
	s.Entry("Status", m.Status)
	if len(m.Alerts) > 0 {
		s.Entry("Alerts", m.Alerts...)
	}
	return s
}

func (n *peerNetwork) section() *out.Section {
	s := n.moduleInfo.section("Network")
	if n.Status == "Disabled" {
		return s
	}
	remapped := n.CIDRs.Remapped
	if remapped == nil {
		remapped = &networkingv1beta1.ClusterConfigCIDR{}
	}
	remote := s.Section("CIDR").Section("Remote")
	remote.Entry("Pod CIDR", seenAs(n.CIDRs.Remote.Pod, remapped.Pod))
	remote.Entry("External CIDR", seenAs(n.CIDRs.Remote.External, remapped.External))
	gateway := s.Section("Gateway")
	gateway.Entry("Role", n.Gateway.Role)
	gateway.Entry("Address", orNone(n.Gateway.Address)...)
	ports := n.Gateway.Ports
	if n.Gateway.Port != 0 {
		ports = []int32{n.Gateway.Port}
	}
	gateway.Entry("Port", joined(ports))
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

// seenAs says under which prefixes ranges of a peer are seen here.
func seenAs(ranges, here []networkingv1beta1.CIDR) string {
	if len(here) == 0 || slices.Equal(ranges, here) {
		return joined(ranges)
	}
	return joined(ranges) + " → Remapped to " + joined(here)
}

func joined[T any](values []T) string {
	var all []string
	for _, v := range values {
		all = append(all, fmt.Sprint(v))
	}
	return strings.Join(all, ", ")
}

func (a *peerAuthentication) section() *out.Section {
	s := a.moduleInfo.section("Authentication")
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
		if len(info.Alerts) > 0 {
			one.Entry("Alerts", info.Alerts...)
		}
		one.Entry("Action", info.Action)
		resources(one, info.Resources)
	}
	return s
}

func (o *peerOffloading) section() *out.Section {
	s := o.moduleInfo.section("Offloading")
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
		resources(one, info.Resources)
	}
	return s
}

func resources(s *out.Section, list corev1.ResourceList) {
	if len(list) == 0 {
		return
	}
	r := s.Section("Resources")
	amounts := map[string]string{}
	for name, amount := range list {
		amounts[string(name)] = amount.String()
	}
	for _, name := range sortedKeys(amounts) {
		r.Entry(name, amounts[name])
	}
}
