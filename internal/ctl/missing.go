// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"github.com/spf13/cobra"

	"liqo.io/liqo/internal/ctl/out"
)

// newMissingCommand is a command of the original that is not there. It is accepted with whatever follows, says what to do instead, and fails: a script
// neither goes on without it, nor gets the help of another command. Help and completion do not offer it.
func newMissingCommand(use, instead string, aliases ...string) *cobra.Command {
	return &cobra.Command{
		Use: use, Aliases: aliases, Hidden: true, DisableFlagParsing: true, Args: cobra.ArbitraryArgs,
		Short: "Not available: " + instead,
		// Neither flags nor a cluster are looked at.
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return out.Fail("%s is not available: %s", cmd.CommandPath(), instead)
		},
	}
}

// missingProviders are the kinds of clusters that the original finds out about by itself, and this does not.
func missingProviders() []*cobra.Command {
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

// newMoveCommand is the only group of which nothing is there.
func (c *cli) newMoveCommand() *cobra.Command {
	const instead = "volumes stay in the cluster where they were made; back up the data of the claim and restore it into a claim of the other cluster, for example with Velero or restic"
	cmd := newMissingCommand("move", instead)
	cmd.AddCommand(newMissingCommand("volume", instead, "pvc"))
	return cmd
}
