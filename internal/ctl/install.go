// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/install"
)

func newInstallCommand(c *cluster.Session) *cobra.Command {
	o := &install.Options{}
	cmd := &cobra.Command{
		Use:     "install",
		Aliases: []string{"upgrade"},
		Short:   "Install or upgrade Liqo in the selected cluster",
		Long: "Install or upgrade Liqo in the selected cluster.\n\n" +
			"Without a sub-command, flags set the address ranges of the cluster; the sub-commands detect them.\n" +
			"An upgrade keeps the previous values, unless --reset-values is set.",
		Example: "  liqoctl install --pod-cidr=10.200.0.0/16 --service-cidr=10.80.0.0/12\n" +
			"  liqoctl install kubeadm --profile hardened\n" +
			"  liqoctl install kubeadm --cluster-id=milan --cluster-labels=region=europe",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Provider = "generic"
			return runInstall(cmd.Context(), c, o)
		},
	}
	cluster.LiqoNamespace(cmd, &o.Namespace)
	installFlags(cmd, o)
	genericFlags(cmd, o, "")

	for _, provider := range []struct{ name, title string }{
		{"kubeadm", "a cluster made by kubeadm"},
		{"kind", "a cluster made by kind"},
		{"k3s", "a cluster made by k3s"},
	} {
		sub := &cobra.Command{
			Use:   provider.name,
			Short: "Install or upgrade Liqo in " + provider.title,
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				o.Provider = provider.name
				return runInstall(cmd.Context(), c, o)
			},
		}
		if provider.name == "k3s" {
			genericFlags(sub, o, " (the default of k3s if empty)")
		}
		cmd.AddCommand(sub)
	}
	cmd.AddCommand(cluster.MissingProviders()...)
	return cmd
}

func installFlags(cmd *cobra.Command, o *install.Options) {
	fs := cmd.PersistentFlags()
	chartFlags(fs, o)
	fs.StringVar(&o.RepoURL, "repo-url", "", "A repository with the chart")
	fs.BoolVar(&o.OnlyOutputValues, "only-output-values", false, "Write the values of the chart to a file, and install nothing")
	fs.StringVar(&o.DumpValuesPath, "dump-values-path", "", "The file for --only-output-values (./values.yaml if empty)")
	fs.BoolVar(&o.DryRun, "dry-run", false, "Check everything, and install nothing")
	cluster.OutputFlag(fs, &o.Output, "", "Check everything, print the objects as json or yaml, and install nothing")
	fs.DurationVar(&o.Timeout, "timeout", 10*time.Minute, "How long the whole operation may take")
	fs.StringVar(&o.ClusterID, "cluster-id", "", "The name by which peers know this cluster (generated if empty)")
	fs.StringToStringVar(&o.ClusterLabels, "cluster-labels", nil, "Labels of this cluster, which its virtual nodes carry at peers, as k=v,k=v")
	fs.StringSliceVar(&o.ReservedSubnets, "reserved-subnets", nil, "CIDRs that Liqo must not use; those of pods and services need not be listed")
	fs.BoolVar(&o.ResetValues, "reset-values", false, "Forget the values of the previous installation")
	fs.BoolVar(&o.SkipAPIServerCheck, "disable-api-server-sanity-check", false, "Accept an API server address that is not that of the kubeconfig")
	fs.BoolVar(&o.SkipValidation, "skip-validation", false, "Skip the comparison of the configuration with the cluster")
	fs.BoolVar(&o.EnableMetrics, "enable-metrics", false, "Expose metrics to Prometheus")
	fs.BoolVar(&o.DisableTelemetry, "disable-telemetry", false, "Accepted for compatibility: nothing is ever reported to anybody")
	fs.BoolVar(&o.SkipKernelCheck, "disable-kernel-version-check", false, "Accept nodes with a kernel that is too old for the network")
	_ = fs.MarkHidden("repo-url")
	_ = fs.MarkHidden("disable-telemetry")
}

// chartFlags are the flags for the chart, the version and the values.
func chartFlags(fs *pflag.FlagSet, o *install.Options) {
	fs.StringVar(&o.Version, "version", "", "The version to install: the tag of the image (the version of this program if empty), and of a --chart without a tag")
	fs.StringVar(&o.ChartRef, "chart", "", "A chart in a registry to install instead of the one in this program, oci://REGISTRY/PATH with :TAG, @DIGEST or --version")
	fs.StringVar(&o.ChartPath, "local-chart-path", "", "A folder with a chart to install instead of the one in this program")
	fs.StringArrayVar(&o.Set, "set", nil, "Values of the chart, as those of helm --set")
	fs.StringArrayVar(&o.SetString, "set-string", nil, "Values of the chart that are strings, as those of helm --set-string")
	fs.StringArrayVar(&o.ValueFiles, "values", nil, "A YAML file with values of the chart, a URL, or - for standard input; later ones win")
	fs.Var(cluster.OneOf(&o.Profile, "default", install.Profiles), "profile", "Values to begin with: default, or hardened, the strict side of each choice; --values and --set win")
	o.Profile = "" // without the flag, an upgrade keeps the profile
}

func genericFlags(cmd *cobra.Command, o *install.Options, more string) {
	fs := cmd.Flags()
	fs.StringVar(&o.APIServerURL, "api-server-url", "", "The address of the API server for peers (that of the kubeconfig if empty)")
	fs.StringSliceVar(&o.PodCIDRs, "pod-cidr", nil, "The address ranges of the cluster's pods"+more)
	fs.StringVar(&o.ServiceCIDR, "service-cidr", "", "The address range of the cluster's services"+more)
}

func runInstall(ctx context.Context, c *cluster.Session, o *install.Options) error {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	cfg, err := c.RestConfig()
	if err != nil {
		return err
	}
	kube, err := c.NewClient(ctx)
	if err != nil {
		return err
	}
	return install.New(*o, install.Environment{
		Printer: c.Printer, Client: kube, Config: cfg, Kube: c.KubeFlags, Chart: c.Chart, Stamp: c.SetCommonMetadata,
		CLIVersion: cluster.Version, Stdin: c.Stdin, HelmLog: c.HelmLog(), Print: func(obj client.Object) error { return c.PrintObject(obj, o.Output) },
	}).Run(ctx)
}
