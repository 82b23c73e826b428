// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"liqo.io/liqo/internal/ctl/install"
)

// effectRule names flags without effect in combination with other flags. The flags are accepted, since scripts use them, with a warning.
type effectRule struct {
	// flags are patterns of names.
	flags []string
	// when reports whether the flags have no effect.
	when func(fs *pflag.FlagSet) bool
	// because is the reason, in terms of the flag that takes precedence.
	because string
}

var (
	printsOnly  = effectRule{[]string{"wait"}, anyOf(isGiven("output"), isValue("dry-run", "true")), "objects are printed and not created"}
	proxyCounts = effectRule{[]string{"in-band"}, isGiven("proxy-url"), "--proxy-url is the way to the API server"}
)

// effectRules are the rules by the names of commands.
var effectRules = map[string][]effectRule{
	"test network": {
		{[]string{"np-ext", "np-nodes", "pod-np", "lb", "ip"}, isValue("basic", "true"), "--basic only tries the way from pods to pods"},
		{[]string{"np-nodes"}, anyOf(isValue("basic", "true"), noneOf("np-ext", "pod-np")), "NodePorts are tried with --np-ext and --pod-np"},
	},
	"peer": append([]effectRule{
		{[]string{"gw-*", "mtu", "skip-validation"}, isValue("networking-disabled", "true"), "--networking-disabled leaves the networks alone"},
		{[]string{"cpu", "memory", "pods", "resource", "resource-slice-class", "create-virtual-node"}, isValue("create-resource-slice", "false"),
			"--create-resource-slice=false asks for no resources"},
		proxyCounts, amountCounts("cpu"), amountCounts("memory"), amountCounts("pods"),
	}, ofService("gw-server-service-type", "gw-server-service-nodeport", "gw-server-service-loadbalancerip")...),
	"network connect": append([]effectRule{
		{[]string{"wait"}, isValue("disable-sharing-keys", "true"), "without keys there is no tunnel to wait for"},
	}, ofService("gw-server-service-type", "gw-server-service-nodeport", "gw-server-service-loadbalancerip")...),
	"authenticate":         {proxyCounts},
	"create gatewayserver": append([]effectRule{printsOnly}, ofService("service-type", "node-port", "load-balancer-ip")...),
	"create gatewayclient": {printsOnly}, "create configuration": {printsOnly}, "create publickey": {printsOnly}, "create nonce": {printsOnly},
	"create resourceslice": {amountCounts("cpu"), amountCounts("memory"), amountCounts("pods")},
	"create virtualnode": {
		{[]string{"cpu", "memory", "pods", "resource", "labels", "storage-classes", "ingress-classes", "load-balancer-classes"}, isGiven("resource-slice-name"),
			"the node has what was granted to the ResourceSlice"},
		amountCounts("cpu"), amountCounts("memory"), amountCounts("pods"),
	},
	"offload namespace": {
		{[]string{"remote-namespace-name"}, func(fs *pflag.FlagSet) bool { return !isValue("namespace-mapping-strategy", "SelectedName")(fs) },
			"it is for --namespace-mapping-strategy SelectedName"},
	},
	"move volume": {
		{[]string{"restic-server-image", "restic-image"}, func(*pflag.FlagSet) bool { return true }, "the pods that copy run the image of Liqo"},
	},
	"install": {
		{[]string{"repo-url"}, isValue("repo-url", install.OriginalRepository), "the chart is part of this program"},
	},
}

// ofService returns the rules for the flags of the Service of a gateway server.
func ofService(kind, nodePort, loadBalancerIP string) []effectRule {
	return []effectRule{
		{[]string{nodePort}, isValue(kind, "ClusterIP"), "a Service of type ClusterIP has no node port"},
		{[]string{loadBalancerIP}, func(fs *pflag.FlagSet) bool { return !isValue(kind, "LoadBalancer")(fs) }, "only a Service of type LoadBalancer has the address of a load balancer"},
	}
}

// amountCounts returns the rule for an amount that is also set by --resource.
func amountCounts(name string) effectRule {
	return effectRule{[]string{name}, func(fs *pflag.FlagSet) bool {
		others, err := fs.GetStringToString("resource")
		_, twice := others[name]
		return err == nil && twice
	}, "--resource asks for " + name + ", too"}
}

// isGiven reports whether a flag has a value on the command line.
func isGiven(name string) func(*pflag.FlagSet) bool {
	return func(fs *pflag.FlagSet) bool {
		f := fs.Lookup(name)
		return f != nil && f.Changed && f.Value.String() != ""
	}
}

func isValue(name, value string) func(*pflag.FlagSet) bool {
	return func(fs *pflag.FlagSet) bool {
		f := fs.Lookup(name)
		return f != nil && f.Value.String() == value
	}
}

// noneOf reports whether none of some bool flags is set.
func noneOf(flags ...string) func(*pflag.FlagSet) bool {
	return func(fs *pflag.FlagSet) bool {
		return !slices.ContainsFunc(flags, func(name string) bool { return isValue(name, "true")(fs) })
	}
}

func anyOf(conditions ...func(*pflag.FlagSet) bool) func(*pflag.FlagSet) bool {
	return func(fs *pflag.FlagSet) bool {
		return slices.ContainsFunc(conditions, func(is func(*pflag.FlagSet) bool) bool { return is(fs) })
	}
}

// withoutEffect returns a warning for each reason why given flags have no effect. Each flag is in one warning.
func withoutEffect(command string, fs *pflag.FlagSet) (lines []string) {
	reported := map[string]bool{}
	var rules []effectRule
	for words := strings.Fields(command); len(words) > 0; words = words[:len(words)-1] {
		rules = append(rules, effectRules[strings.Join(words, " ")]...) // a command has the flags of its parents
	}
	for _, rule := range rules {
		if !rule.when(fs) {
			continue
		}
		var all []string
		fs.Visit(func(f *pflag.Flag) {
			is := func(pattern string) bool { matched, _ := path.Match(pattern, f.Name); return matched }
			if !reported[f.Name] && f.Value.String() != "false" && slices.ContainsFunc(rule.flags, is) {
				reported[f.Name], all = true, append(all, "--"+f.Name)
			}
		})
		switch len(all) {
		case 0:
		case 1:
			lines = append(lines, all[0]+" has no effect: "+rule.because)
		default:
			lines = append(lines, strings.Join(all, ", ")+" have no effect: "+rule.because)
		}
	}
	return lines
}

// commandName returns the name of a command without the name of the program.
func commandName(cmd *cobra.Command) string {
	name := cmd.Name()
	for up := cmd.Parent(); up != nil && up.HasParent(); up = up.Parent() {
		name = up.Name() + " " + name
	}
	return name
}
