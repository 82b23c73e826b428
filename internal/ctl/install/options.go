// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package install installs Liqo in a cluster: it detects the properties of the cluster, runs all preflight checks before the first
// change, and lets Helm install or upgrade the chart.
package install

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"time"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/ui"
)

// Release is the name of the Helm release.
const Release = "liqo"

// OriginalRepository is the default repository of the original's chart (--repo-url).
const OriginalRepository = "https://github.com/liqotech/liqo"

// Profiles are the sets of default values: the chart's, or the strict choices.
var Profiles = []string{defaultProfile, "hardened"}

const defaultProfile = "default"

// Options are the flags of the install command.
type Options struct {
	Provider             string // generic, kubeadm, kind or k3s
	Namespace            string
	Version              string // of the image; the CLI's own by default
	ChartPath            string // a folder instead of the embedded chart
	ChartRef             string // a chart in a registry instead of the embedded one, oci://…
	ClusterID            string
	ClusterLabels        map[string]string
	APIServerURL         string
	PodCIDRs             []string
	ServiceCIDR          string
	ReservedSubnets      []string
	Set, SetString       []string
	Profile              string // one of Profiles, or "" to keep that of the previous installation
	ValueFiles           []string
	ResetValues          bool
	EnableMetrics        bool
	OnlyOutputValues     bool
	DumpValuesPath       string
	DryRun               bool
	Output               string // format in which the objects are printed instead of installed, "" for an installation
	SkipValidation       bool
	SkipAPIServerCheck   bool
	SkipKernelCheck      bool
	Timeout              time.Duration
	DisableTelemetry     bool // accepted without effect: Liqo sends no telemetry
	RepoURL              string
	versionGiven         bool
	apiServerFromTheNode bool // leave the API server's address to the controllers
}

// Environment holds the dependencies of an installation.
type Environment struct {
	Printer *ui.Printer
	Client  client.WithWatch
	Config  *rest.Config
	// Kube are the kubeconfig flags for Helm.
	Kube genericclioptions.RESTClientGetter
	// Chart is the embedded chart.
	Chart fs.FS
	// Stamp sets the user's labels and annotations on every object.
	Stamp      func(client.Object)
	CLIVersion string
	Stdin      io.Reader
	HelmLog    slog.Handler
	// Print prints an object.
	Print func(client.Object) error
}

// Installer runs one installation.
type Installer struct {
	Options
	Environment

	// given are the values from flags for values, profile the values of the profile, chart is the chart to install.
	given   map[string]any
	profile map[string]any
	chart   *chart.Chart
}

// New returns an installer.
func New(o Options, env Environment) *Installer {
	o.versionGiven = o.Version != ""
	if !o.versionGiven {
		o.Version = env.CLIVersion
	}
	return &Installer{Options: o, Environment: env}
}

// Run installs or upgrades.
func (i *Installer) Run(ctx context.Context) error {
	if err := i.checkFlags(ctx); err != nil {
		return err
	}
	p, err := i.preparePlan(ctx)
	if err != nil {
		return err
	}
	switch {
	case i.OnlyOutputValues:
		return i.writeValues(p.values)
	case i.Output != "":
		return i.printPlan(p)
	case i.DryRun:
		i.Printer.Success("Installation completed (dry-run)")
		return nil
	}
	if err := i.applyPlan(ctx, p); err != nil {
		return err
	}
	i.Printer.Success("All Set! You can now proceed establishing a peering (liqoctl peer --help for more information)")
	i.Printer.Info("Make sure to use the same version of Liqo on all remote clusters")
	return nil
}

// printPlan prints all objects to apply, in order.
func (i *Installer) printPlan(p *installPlan) error {
	crds, err := crdsOf(p.chart)
	if err != nil {
		return err
	}
	for _, obj := range append(metadataSetter(i.Stamp).setAll(crds), p.objects...) {
		if _, hook := obj.GetAnnotations()[release.HookAnnotation]; hook {
			continue // Helm runs these hooks at another time
		}
		if err := i.Print(obj); err != nil {
			return err
		}
	}
	return nil
}

// checkFlags rejects flags that are invalid for any cluster, and reads the files in flags.
func (i *Installer) checkFlags(ctx context.Context) (err error) {
	switch {
	case i.RepoURL != "" && i.RepoURL != OriginalRepository:
		return ui.Fail("--repo-url is not supported: the chart is part of this program, use --chart or --local-chart-path for another one")
	case i.ChartRef != "" && i.ChartPath != "":
		return ui.Fail("--chart and --local-chart-path exclude each other")
	case i.DumpValuesPath != "" && !i.OnlyOutputValues:
		return ui.Fail("--dump-values-path is only valid with --only-output-values")
	}
	if i.given, err = userValues(i.ValueFiles, i.Set, i.SetString, i.Stdin); err != nil {
		return err
	}
	if i.APIServerURL != "" && !i.SkipValidation && stringAt(i.given, "apiServer", "address") == "" {
		if err := validateHost(i.APIServerURL); err != nil {
			return ui.Fail("--api-server-url: %w", err)
		}
	}
	if i.chart, err = i.loadChart(ctx); err != nil {
		return err
	}
	if i.Profile != "" && i.Profile != defaultProfile {
		i.profile, err = profileValues(i.chart, i.Profile)
	}
	return err
}
