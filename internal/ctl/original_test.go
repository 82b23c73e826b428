// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"slices"
	"strings"
	"testing"
)

// ofOriginal are the commands of the original by all of their names, with the flags that each has beside those of all commands. A
// shorthand is before its flag.
var ofOriginal = map[string]string{
	"install|upgrade": "version repo-url local-chart-path only-output-values dump-values-path dry-run timeout cluster-id cluster-labels reserved-subnets set " +
		"set-string values disable-api-server-sanity-check skip-validation enable-metrics disable-telemetry disable-kernel-version-check n/namespace " +
		"api-server-url pod-cidr service-cidr",
	"install|upgrade kubeadm": "version cluster-id n/namespace", "install|upgrade kind": "version cluster-id n/namespace",
	"install|upgrade k3s": "version cluster-id n/namespace api-server-url pod-cidr service-cidr",
	"uninstall":           "purge timeout n/namespace",
	"peer": "timeout skip-validation networking-disabled gw-server-service-location gw-server-service-type gw-server-service-port gw-server-service-nodeport " +
		"gw-server-service-loadbalancerip gw-client-address gw-client-port mtu create-resource-slice resource-slice-class in-band proxy-url create-virtual-node " +
		"cpu memory pods resource n/namespace remote-namespace remote-kubeconfig remote-context remote-cluster remote-user remote-server remote-token",
	"unpeer": "timeout wait delete-namespaces n/namespace remote-namespace remote-kubeconfig",
	"network connect": "timeout wait skip-validation n/namespace remote-namespace liqo-namespace remote-liqo-namespace remote-kubeconfig gw-server-type " +
		"gw-server-template-name gw-server-template-namespace gw-server-service-type gw-server-service-port gw-server-service-nodeport " +
		"gw-server-service-loadbalancerip gw-client-type gw-client-address gw-client-port gw-client-template-name gw-client-template-namespace mtu " +
		"disable-sharing-keys server-service-type server-service-port server-service-nodeport server-service-loadbalancerip server-type server-template-name " +
		"server-template-namespace client-type client-address client-port client-template-name client-template-namespace server-port node-port load-balancer-ip",
	"network init":                             "timeout wait skip-validation n/namespace remote-namespace liqo-namespace remote-liqo-namespace remote-kubeconfig",
	"network disconnect":                       "timeout wait skip-validation n/namespace remote-namespace liqo-namespace remote-liqo-namespace remote-kubeconfig",
	"network reset":                            "timeout wait skip-validation n/namespace remote-namespace liqo-namespace remote-liqo-namespace remote-kubeconfig",
	"authenticate|auth":                        "timeout in-band proxy-url n/namespace remote-namespace remote-kubeconfig",
	"unauthenticate|unauth":                    "timeout wait n/namespace remote-namespace remote-kubeconfig",
	"offload namespace|ns|namespaces":          "pod-offloading-strategy namespace-mapping-strategy remote-namespace-name l/selector ns-selector o/output timeout",
	"unoffload namespace|ns|namespaces":        "ns-selector timeout",
	"version":                                  "client n/namespace",
	"activate tenant":                          "timeout",
	"cordon tenant|tenants":                    "timeout",
	"cordon resourceslice|resourceslices|rs":   "timeout remote-cluster-id",
	"uncordon tenant|tenants":                  "timeout",
	"uncordon resourceslice|resourceslices|rs": "timeout remote-cluster-id",
	"drain tenant":                             "timeout",
	"force unpeer":                             "",
	"move volume|pvc":                          "n/namespace target-node containers-cpu-requests containers-cpu-limits containers-ram-requests containers-ram-limits restic-server-image restic-image",
	"info":                                     "n/namespace v/verbose o/output g/get",
	"info peer":                                "n/namespace v/verbose o/output g/get",
	"test network|net":                         "timeout v/verbose fail-fast p/remote-kubeconfigs info rm basic np-ext np-nodes pod-np lb ip",
	"docs":                                     "dir type generate-headers",
	"create configuration|config|configurations":   "n/namespace liqo-namespace remote-cluster-id pod-cidr external-cidr wait o/output",
	"generate configuration|config|configurations": "n/namespace liqo-namespace o/output",
	"create gatewayserver|gatewayservers|server|servers|gws": "n/namespace liqo-namespace remote-cluster-id type template-name template-namespace service-type mtu port " +
		"node-port load-balancer-ip wait o/output",
	"create gatewayclient|gatewayclients|client|clients|gwc": "n/namespace liqo-namespace remote-cluster-id addresses port protocol type template-name template-namespace mtu wait o/output",
	"create publickey|publickeys|publickeies":                "n/namespace liqo-namespace remote-cluster-id public-key o/output",
	"generate publickey|publickeys|publickeies":              "n/namespace liqo-namespace gateway-type gateway-name o/output",
	"create resourceslice|rs|resourceslices":                 "n/namespace liqo-namespace remote-cluster-id class cpu memory pods resource no-virtual-node o/output",
	"create virtualnode|vn": "n/namespace liqo-namespace remote-cluster-id kubeconfig-secret-name resource-slice-name create-node disable-network-check vk-options-template cpu memory " +
		"pods resource storage-classes ingress-classes load-balancer-classes labels node-selector runtime-class-name o/output",
	"create nonce":                 "n/namespace liqo-namespace remote-cluster-id o/output",
	"get nonce":                    "n/namespace remote-cluster-id",
	"get kubeconfig|kc":            "n/namespace remote-cluster-id",
	"generate tenant|tenants":      "n/namespace liqo-namespace remote-cluster-id remote-tenant-namespace nonce proxy-url o/output",
	"generate identity|identities": "n/namespace liqo-namespace remote-cluster-id remote-tenant-namespace o/output",
	"generate peering-user":        "n/namespace liqo-namespace consumer-cluster-id tls-compatibility-mode",
	"delete peering-user":          "n/namespace consumer-cluster-id",
	"delete virtualnode|vn":        "n/namespace", "delete configuration|configurations": "n/namespace",
	"delete gatewayserver|gatewayservers|server|servers|gws": "n/namespace", "delete gatewayclient|gatewayclients|client|clients|gwc": "n/namespace",
	"delete publickey|publickeys|publickeies": "n/namespace",
}

// notThere are the commands of the original that say what to do instead, with what a script has behind them.
var notThere = []string{
	"install aks --resource-group-name x --resource-name y --subscription-id z", "install eks --eks-cluster-region eu-west-1 --eks-cluster-name x --kubeconfig /nowhere",
	"install gke --credentials-path x --project-id y --cluster-id Not_One --zone z", "install openshift", "upgrade eks", "install openshift --set a=b --only-output-values",
}

// everyName returns all command lines that one with alternatives means.
func everyName(words []string) (all [][]string) {
	if len(words) == 0 {
		return [][]string{nil}
	}
	for rest := range slices.Values(everyName(words[1:])) {
		for name := range strings.SplitSeq(words[0], "|") {
			all = append(all, append([]string{name}, rest...))
		}
	}
	return all
}

func TestCommandsOfTheOriginal(t *testing.T) {
	root, _ := commandTree(t)
	for names, flags := range ofOriginal {
		for _, line := range everyName(strings.Fields(names)) {
			cmd, rest, err := root.Find(line)
			if err != nil || len(rest) > 0 || !cmd.Runnable() {
				t.Errorf("%s: %v, the command found is %q", strings.Join(line, " "), err, cmd.CommandPath())
				continue
			}
			cmd.InheritedFlags()
			for flag := range strings.FieldsSeq(flags) {
				short, name, abbreviated := strings.Cut(flag, "/")
				if !abbreviated {
					short, name = "", flag
				}
				f := cmd.Flags().Lookup(name)
				if f == nil || abbreviated && f.Shorthand != short {
					t.Errorf("%s lacks --%s", strings.Join(line, " "), flag)
				}
			}
		}
	}
}

func TestMissingCommands(t *testing.T) {
	for _, line := range notThere {
		r := liqoctl(t, nil, strings.Fields(line)...)
		r.refuses(t, " is not available: ")
		if r.stdout != "" || strings.Count(r.stderr, "\n") != 2 {
			t.Errorf("%s says more than an error and its page:\n%s%s", line, r.stdout, r.stderr)
		}
	}
	for _, group := range []string{"", "install"} {
		help := liqoctl(t, nil, strings.Fields(group+" --help")...)
		for _, absent := range []string{"\n  eks ", "\n  openshift "} {
			if strings.Contains(help.stdout, absent) {
				t.Errorf("the help of %q offers %q", group, absent)
			}
		}
	}
}
