// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/install"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/pki"
)

// flagRules are the rules by the names of flags. A flag has the same meaning in all commands.
var flagRules = map[string]cluster.FlagRule{
	"timeout": cluster.CheckPositive,

	"remote-cluster-id": cluster.CheckClusterID, "consumer-cluster-id": cluster.CheckClusterID, "cluster-id": install.CheckClusterID, "peer": cluster.CheckClusterID,

	"namespace": cluster.CheckNamespace, "liqo-namespace": cluster.CheckNamespace, "remote-namespace": cluster.CheckNamespace, "remote-liqo-namespace": cluster.CheckNamespace,
	"remote-tenant-namespace": cluster.CheckNamespace, "remote-namespace-name": cluster.CheckNamespace,
	"template-namespace": cluster.CheckNamespace, "gw-server-template-namespace": cluster.CheckNamespace, "gw-client-template-namespace": cluster.CheckNamespace,

	"template-name": cluster.CheckName, "gw-server-template-name": cluster.CheckName, "gw-client-template-name": cluster.CheckName, "gateway-name": cluster.CheckName,
	"kubeconfig-secret-name": cluster.CheckName, "resource-slice-name": cluster.CheckName, "runtime-class-name": cluster.CheckName, "target-node": cluster.CheckName, "node": cluster.CheckName, "remote-node": cluster.CheckName,
	"storage-classes": cluster.CheckName, "ingress-classes": cluster.CheckName, "load-balancer-classes": cluster.CheckKey,
	"vk-options-template": cluster.CheckReference,
	"type":                cluster.CheckTemplates, "gw-server-type": cluster.CheckTemplates, "gw-client-type": cluster.CheckTemplates,

	"port": cluster.CheckPort, "gw-server-service-port": cluster.CheckPort, "gw-client-port": cluster.CheckPort, "node-port": cluster.CheckPort, "gw-server-service-nodeport": cluster.CheckPort,
	"mtu":              cluster.CheckMTU,
	"load-balancer-ip": cluster.CheckIP, "gw-server-service-loadbalancerip": cluster.CheckIP,
	"addresses": cluster.CheckAddress, "gw-client-address": cluster.CheckAddress,
	"pod-cidr": cluster.CheckCIDR, "external-cidr": cluster.CheckCIDR, "reserved-subnets": cluster.CheckCIDR, "service-cidr": cluster.CheckOneCIDR,
	"proxy-url": pki.CheckProxy,

	"cpu": cluster.AmountOf(corev1.ResourceCPU), "memory": cluster.AmountOf(corev1.ResourceMemory), "pods": cluster.AmountOf(corev1.ResourcePods), "resource": cluster.CheckResource,
	"containers-cpu-requests": cluster.AmountOf(corev1.ResourceCPU), "containers-cpu-limits": cluster.AmountOf(corev1.ResourceCPU),
	"containers-ram-requests": cluster.AmountOf(corev1.ResourceMemory), "containers-ram-limits": cluster.AmountOf(corev1.ResourceMemory),
	"labels": cluster.CheckLabel, "node-selector": cluster.CheckLabel, "cluster-labels": cluster.CheckEntry, "ns-selector": cluster.CheckSelector,
	"global-labels": cluster.OfOthers(cluster.CheckGlobalLabel), "global-annotations": cluster.OfOthers(cluster.CheckEntry),

	"version": cluster.CheckTag, "image": cluster.CheckImage, "dump-values-path": cluster.CheckFolder, "chart": install.CheckChart, "copy-to": install.CheckRegistry,
}

// checkFlags rejects flags with an invalid value. An optional flag may have an invalid default, such as an empty text.
func checkFlags(cmd *cobra.Command) (wrong error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, says := f.Value.(*cluster.Choice); says {
			return // the default is allowed
		}
		rule, needed := flagRules[f.Name], slices.Contains(f.Annotations[cobra.BashCompOneRequiredFlag], "true")
		if rule == nil || wrong != nil || (!needed && f.Value.String() == f.DefValue) {
			return
		}
		for _, text := range cluster.ValuesOf(cmd.Flags(), f) {
			if err := rule(text); err != nil {
				wrong = ui.Fail("--%s: %w", f.Name, err)
				return
			}
		}
	})
	return wrong
}
