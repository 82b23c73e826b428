// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// defaultCompletionTimeout bounds the requests of a completion. A failed request offers no completions; only arguments for files offer file names.
const defaultCompletionTimeout = 2 * time.Second

// FlagCompletion returns the completion of a flag by type or name, nil for none.
func (c *Session) FlagCompletion(f *pflag.Flag) cobra.CompletionFunc {
	if of, ok := f.Value.(*Choice); ok {
		return cobra.FixedCompletions(of.allowed, cobra.ShellCompDirectiveNoFileComp)
	}
	name, remote := strings.CutPrefix(f.Name, "remote-")
	switch name {
	case "kubeconfig", "certificate-authority", "client-certificate", "client-key", "cache-dir", "values", "local-chart-path", "dump-values-path":
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		}
	case "context":
		return c.completeEntries(remote, func(k api.Config) []string { return SortedKeys(k.Contexts) })
	case "cluster":
		return c.completeEntries(remote, func(k api.Config) []string { return SortedKeys(k.Clusters) })
	case "user":
		return c.completeEntries(remote, func(k api.Config) []string { return SortedKeys(k.AuthInfos) })
	case "namespace", "liqo-namespace":
		return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return c.completeFrom(cmd, remote, nil, func(obj client.Object) string { return obj.GetName() }, offer{list: &corev1.NamespaceList{}})
		}
	case "node":
		return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return c.completeFrom(cmd, remote, nil, func(obj client.Object) string { return obj.GetName() }, offer{list: &corev1.NodeList{}})
		}
	}
	switch f.Name {
	case "remote-cluster-id", "consumer-cluster-id":
		return c.CompleteClusters
	case "gateway-name":
		return c.completeNames(func() []offer {
			return []offer{{list: &networkingv1beta1.GatewayServerList{}}, {list: &networkingv1beta1.GatewayClientList{}}}
		})
	case "kubeconfig-secret-name":
		return c.completeNames(func() []offer {
			of := client.MatchingLabels{names.IdentityType: string(authv1beta1.ResourceSliceIdentityType)}
			return []offer{{&corev1.SecretList{}, []client.ListOption{of}}}
		})
	case "resource-slice-name":
		return c.completeNames(func() []offer { return []offer{{list: &authv1beta1.ResourceSliceList{}}} })
	case "selector":
		return c.completeLabels(func() offer {
			return offer{&corev1.NodeList{}, []client.ListOption{client.MatchingLabels{names.NodeType: names.NodeTypeVirtualNode}}}
		})
	case "ns-selector":
		return c.completeLabels(func() offer { return offer{list: &corev1.NamespaceList{}} })
	}
	return nil
}

// offer is a list of objects whose names or labels are offered.
type offer struct {
	list client.ObjectList
	opts []client.ListOption
}

// CompleteNamespaces completes the names of namespaces.
func (c *Session) CompleteNamespaces(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.completeFrom(cmd, false, args, func(obj client.Object) string { return obj.GetName() }, offer{list: &corev1.NamespaceList{}})
}

// CompleteOffloaded completes the names of offloaded namespaces.
func (c *Session) CompleteOffloaded(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.completeFrom(cmd, false, args, func(obj client.Object) string { return obj.GetNamespace() }, offer{list: &offv1beta1.NamespaceOffloadingList{}})
}

// CompleteClusters offers the IDs of clusters with a tenant namespace.
func (c *Session) CompleteClusters(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.completeFrom(cmd, false, nil, func(obj client.Object) string { return obj.GetLabels()[names.RemoteClusterID] },
		offer{&corev1.NamespaceList{}, []client.ListOption{client.MatchingLabelsSelector{Selector: peer.Namespaces()}}})
}

// CompleteOne offers the names of objects for a command with a single argument.
func (c *Session) CompleteOne(list func() client.ObjectList, labels client.MatchingLabels) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var opts []client.ListOption
		if labels != nil {
			opts = append(opts, labels)
		}
		return c.completeNames(func() []offer { return []offer{{list(), opts}} })(cmd, args, typed)
	}
}

// completeNames offers the names of objects in the namespace on the command line, or in all namespaces, and of the peer on the command
// line.
func (c *Session) completeNames(offers func() []offer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		var within []client.ListOption
		if f := cmd.Flag("namespace"); f != nil && f.Changed {
			within = append(within, client.InNamespace(f.Value.String()))
		}
		if f := cmd.Flag("remote-cluster-id"); f != nil && f.Changed {
			within = append(within, client.MatchingLabels{names.RemoteClusterID: f.Value.String()})
		}
		all := offers()
		for i := range all {
			all[i].opts = append(all[i].opts, within...)
		}
		return c.completeFrom(cmd, false, nil, func(obj client.Object) string { return obj.GetName() }, all...)
	}
}

// completeLabels offers the labels that distinguish objects: labels common to all of them are left out.
func (c *Session) completeLabels(of func() offer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return c.CompleteArguments(cmd, nil, func(ctx context.Context) (found []string) {
			o := of()
			kube, err := c.typedClient(ctx, cmd, false)
			if err != nil || kube.List(ctx, o.list, o.opts...) != nil {
				return nil
			}
			all, times := ItemsOf(o.list), map[string]int{}
			for _, obj := range all {
				for k, v := range obj.GetLabels() {
					times[k+"="+v]++
				}
			}
			for _, label := range SortedKeys(times) {
				if times[label] < len(all) || len(all) == 1 {
					found = append(found, label)
				}
			}
			return found
		})
	}
}

// completeFrom offers a value of each object, without duplicates and without values already on the command line.
func (c *Session) completeFrom(cmd *cobra.Command, remote bool, typed []string, of func(client.Object) string, offers ...offer) ([]string, cobra.ShellCompDirective) {
	return c.CompleteArguments(cmd, typed, func(ctx context.Context) (found []string) {
		kube, err := c.typedClient(ctx, cmd, remote)
		if err != nil {
			return nil
		}
		for _, o := range offers {
			if kube.List(ctx, o.list, o.opts...) != nil {
				continue
			}
			for _, obj := range ItemsOf(o.list) {
				if one := of(obj); one != "" {
					found = append(found, one)
				}
			}
		}
		slices.Sort(found)
		return slices.Compact(found)
	})
}

// CompleteArguments offers the values that find returns before the timeout, without values already on the command line.
func (c *Session) CompleteArguments(cmd *cobra.Command, typed []string, find func(context.Context) []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), cmp.Or(c.CompletionTimeout, defaultCompletionTimeout))
	defer cancel()
	found := slices.DeleteFunc(find(ctx), func(s string) bool { return slices.Contains(typed, s) })
	return found, cobra.ShellCompDirectiveNoFileComp
}

// typedClient returns a client of the cluster that the flags on the command line select.
func (c *Session) typedClient(ctx context.Context, cmd *cobra.Command, remote bool) (client.Reader, error) {
	cfg, err := configOf(c.kubeFlagsOf(cmd, remote))
	if err != nil {
		return nil, err
	}
	return ClientOf(ctx, cfg)
}

// completeEntries offers names of entries of a kubeconfig.
func (c *Session) completeEntries(remote bool, of func(api.Config) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		kubeconfig, err := c.kubeFlagsOf(cmd, remote).ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return of(kubeconfig), cobra.ShellCompDirectiveNoFileComp
	}
}

// kubeFlagsOf returns the kubeconfig flags of one of the clusters, as far as they are on the command line.
func (c *Session) kubeFlagsOf(cmd *cobra.Command, remote bool) *genericclioptions.ConfigFlags {
	if !remote {
		return c.KubeFlags
	}
	flags, typed := NewKubeFlags(), pflag.NewFlagSet("remote", pflag.ContinueOnError)
	flags.Namespace = nil
	flags.AddFlags(typed)
	typed.VisitAll(func(f *pflag.Flag) {
		if from := cmd.Flag("remote-" + f.Name); from != nil && from.Changed {
			_ = f.Value.Set(from.Value.String())
		}
	})
	return flags
}
