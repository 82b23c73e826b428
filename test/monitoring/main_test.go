// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package monitoring has a Prometheus, run by its operator, scrape two peered clusters by the chart's monitors, and evaluates each query of the
// dashboards and all rules. LIQO_E2E_KUBECONFIGS names the kubeconfigs of consumer and provider; LIQO_PLAYGROUND is the program that loads
// images into them; LIQO_MONITORING_HOME is where the programs are kept between runs.
package monitoring

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
	"liqo.io/liqo/test/thirdparty"
)

const operatorModule = "github.com/prometheus-operator/prometheus-operator"

var nested = []string{operatorModule + "/pkg/apis/monitoring", operatorModule + "/pkg/client"}

// The operator and its config reloader have the same version. The images have the names that the operator's manifests use.
var (
	operator   = thirdparty.Program{Name: "operator", Module: operatorModule, Version: "v0.85.0", Package: "./cmd/operator", Nested: nested}
	reloader   = thirdparty.Program{Name: "prometheus-config-reloader", Module: operatorModule, Version: "v0.85.0", Package: "./cmd/prometheus-config-reloader", Nested: nested}
	prometheus = thirdparty.Program{
		Name: "prometheus", Module: "github.com/prometheus/prometheus", Version: "v0.316.0", Package: "./cmd/prometheus", Tags: "remove_all_sd,enable_kubernetes_sd",
	}
)

// prometheusVersion is the release whose Go module has the version of the program.
const prometheusVersion = "v3.16.0"

var (
	consumer, provider *clusters.Cluster
	programs           thirdparty.Builder
)

func TestMain(m *testing.M) {
	if err := setUp(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func setUp(ctx context.Context) error {
	given, err := clusters.Given("cl-consumer", "cl-provider")
	if err != nil {
		return err
	}
	consumer, provider = given[0], given[1]
	if programs, err = thirdparty.NewBuilder("LIQO_MONITORING_HOME", "liqo-monitoring"); err != nil {
		return err
	}
	for p, reference := range map[*thirdparty.Program]string{
		&operator:   "quay.io/prometheus-operator/prometheus-operator:" + operator.Version,
		&reloader:   "quay.io/prometheus-operator/prometheus-config-reloader:" + reloader.Version,
		&prometheus: "quay.io/prometheus/prometheus:" + prometheusVersion,
	} {
		if err := programs.Build(ctx, *p); err != nil {
			return err
		}
		archive := filepath.Join(programs.Folder, p.Name+".tar")
		if err := programs.WriteImage(archive, reference, *p); err != nil {
			return err
		}
		if err := story.Playground("load", archive); err != nil {
			return err
		}
	}
	return nil
}
