// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"os"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/ctl/ui"
)

// installPlan holds all inputs of an installation, read before the first change.
type installPlan struct {
	chart    *chart.Chart
	helm     *helmClient
	previous *previousRelease
	values   map[string]any
	// objects are the objects of the release.
	objects []*unstructured.Unstructured
	// steering are the policies created before Helm ran.
	steering []client.Object
	// newNamespace reports that the Liqo namespace was missing.
	newNamespace bool
}

// preparePlan reads and checks, and changes nothing.
func (i *Installer) preparePlan(ctx context.Context) (*installPlan, error) {
	p := &installPlan{}
	if err := i.initPlan(ctx, p); err != nil {
		return nil, err
	}
	facts, err := i.inspectCluster(ctx, p)
	if err != nil {
		return nil, err
	}
	return p, i.setValues(ctx, p, facts)
}

func (i *Installer) initPlan(ctx context.Context, p *installPlan) error {
	step := i.Printer.Spin("Initializing installer")
	defer step.Stop()
	err := i.checkReachable(ctx)
	if err != nil {
		return err
	}
	if err := i.checkReading(ctx); err != nil {
		return err
	}
	if !i.SkipKernelCheck {
		if err := i.checkKernels(ctx); err != nil {
			return err
		}
	}
	p.chart = i.chart
	if p.helm, err = newHelm(i.Kube, i.Namespace, i.Stamp, i.HelmLog); err != nil {
		return err
	}
	if p.previous, err = i.findPrevious(ctx, p.helm); err != nil {
		return err
	}
	if i.Profile == defaultProfile {
		if err := i.dropProfiles(p.previous); err != nil {
			return err
		}
	}
	step.Done("Installer initialized")
	if i.ChartPath == "" && i.ChartRef == "" && i.versionGiven && i.Version != i.CLIVersion {
		i.Printer.Warn("The chart is that of version %s: use liqoctl %s to install %s as it was released", i.CLIVersion, i.Version, i.Version)
	}
	return nil
}

// dropProfiles removes the values of the other profiles from the values of the previous installation. A value changed by the user stays.
func (i *Installer) dropProfiles(previous *previousRelease) error {
	for _, profile := range Profiles[1:] {
		values, err := profileValues(i.chart, profile)
		if err != nil {
			return err
		}
		previous.values = withoutValues(previous.values, values)
	}
	return nil
}

func (i *Installer) inspectCluster(ctx context.Context, p *installPlan) (*clusterFacts, error) {
	step := i.Printer.Spin("Retrieving cluster configuration")
	defer step.Stop()
	f, err := i.detectCluster(ctx, p.previous)
	if err != nil {
		return nil, err
	}
	if err := i.resolveClusterID(f, p.previous); err != nil {
		return nil, err
	}
	step.Done("Cluster configuration correctly retrieved")
	return f, nil
}

func (i *Installer) setValues(ctx context.Context, p *installPlan, f *clusterFacts) error {
	step := i.Printer.Spin("Generating installation parameters")
	defer step.Stop()
	p.values = mergeValues(i.profile, p.previous.values, i.ourValues(f, p.previous), f.values, i.given)
	if err := p.previous.checkClusterID(stringAt(p.values, "discovery", "config", "clusterID")); err != nil {
		return err
	}
	rendered, err := p.helm.renderChart(ctx, p.chart, p.values, p.previous.revision)
	if err != nil {
		return err
	}
	p.objects = rendered
	// The final values count, independent of the flag or file that set them.
	if f, err = f.withValues(p.values); err != nil {
		return err
	}
	if !i.SkipValidation {
		if err := i.validateFacts(ctx, f); err != nil {
			return err
		}
	}
	if !i.SkipValidation && !i.OnlyOutputValues {
		if err := i.checkObjects(ctx, p.chart, rendered); err != nil {
			return err
		}
	}
	step.Done("Installation parameters correctly generated")
	return nil
}

// writeValues writes the values to a file readable only by the owner: values may hold credentials.
func (i *Installer) writeValues(values map[string]any) error {
	path := i.DumpValuesPath
	if path == "" {
		path = "./values.yaml"
	}
	data, err := yaml.Marshal(values)
	if err != nil {
		return fmt.Errorf("encoding the values: %w", err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return ui.Fail("writing the values: %w", err)
	}
	i.Printer.Success("All Set! Chart values written to %q", path)
	return nil
}
