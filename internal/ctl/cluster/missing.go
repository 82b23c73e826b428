// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/ctl/ui"
)

// newMissingCommand returns a hidden command of the original that does not exist in Liqo. The command accepts any arguments, prints the alternative,
// and fails: a script neither goes on nor gets the help of another command.
func newMissingCommand(use, instead string, aliases ...string) *cobra.Command {
	return &cobra.Command{
		Use: use, Aliases: aliases, Hidden: true, DisableFlagParsing: true, Args: cobra.ArbitraryArgs,
		Short: "Not available: " + instead,
		// Neither flags nor a cluster are checked.
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ui.Fail("%s is not available: %s", cmd.CommandPath(), instead)
		},
	}
}

// MissingProviders returns commands for the cluster providers detected by the original and not by this program.
func MissingProviders() []*cobra.Command {
	return []*cobra.Command{
		newMissingCommand("aks", `use liqoctl install with --pod-cidr and --service-cidr as "az aks show" has them (podCidr, or the subnet of the nodes with Azure CNI), `+
			`--reserved-subnets with the subnet of the nodes, and --set networking.fabric.config.gatewayMasqueradeBypass=true`),
		newMissingCommand("eks", `use liqoctl install with --pod-cidr as the VPC has it, --service-cidr as "aws eks describe-cluster" has it (serviceIpv4Cidr), `+
			`and --set networking.fabric.config.fullMasquerade=true`),
		newMissingCommand("gke", `use liqoctl install with --pod-cidr and --service-cidr as "gcloud container clusters describe" has them (clusterIpv4Cidr, servicesIpv4Cidr), `+
			`and --reserved-subnets with the subnet of the nodes`),
		newMissingCommand("openshift", `use liqoctl install with --pod-cidr and --service-cidr as "oc get network.config cluster -o yaml" has them (clusterNetwork, serviceNetwork), `+
			`and allow the ServiceAccounts of Liqo the SecurityContextConstraints privileged`),
	}
}
