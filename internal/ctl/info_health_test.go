// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/ctl/info"
	"liqo.io/liqo/internal/testkit"
)

// What the chart installs is made, and each workload deleted, as somebody might by mistake. Nothing makes pods here.
func TestHealthMissingWorkloads(t *testing.T) {
	c := testkit.Cluster(t)
	for rule, tc := range map[string]struct {
		set  []string
		want []string
	}{
		"by default":          {nil, []string{"liqo-controller-manager", "liqo-crd-replicator", "liqo-fabric", "liqo-metric-agent", "liqo-proxy"}},
		"with another name":   {[]string{"nameOverride=mesh"}, []string{"mesh-controller-manager", "mesh-crd-replicator", "mesh-fabric", "mesh-metric-agent", "mesh-proxy"}},
		"without the network": {[]string{"networking.enabled=false"}, []string{"liqo-controller-manager", "liqo-crd-replicator", "liqo-metric-agent"}},
		"without options":     {[]string{"proxy.enabled=false", "metricAgent.enabled=false"}, []string{"liqo-controller-manager", "liqo-crd-replicator", "liqo-fabric"}},
		"with all that there may be": {
			[]string{"metrics.enabled=true", "metricAgent.enabled=true", "telemetry.enabled=true", "storage.enabled=true", "controllerManager.replicas=2"},
			[]string{"liqo-controller-manager", "liqo-crd-replicator", "liqo-fabric", "liqo-metric-agent", "liqo-proxy"},
		},
	} {
		t.Run(rule, func(t *testing.T) {
			liqo := testkit.Namespace(t, c, "liqo", nil)
			args := installArgs("-n", liqo, "-o", "yaml")
			for _, set := range tc.set {
				args = append(args, "--set", set)
			}
			installed := liqoctl(t, c.Config, args...)
			installed.succeeds(t)
			var workloads []client.Object
			for _, obj := range documents(t, installed.stdout) {
				switch {
				case slices.Contains([]string{"Deployment", "DaemonSet", "StatefulSet", "CronJob"}, obj.GetKind()):
					workloads = append(workloads, obj)
				case !slices.Contains([]string{"ServiceAccount", "Service"}, obj.GetKind()):
					continue
				}
				ctltest.Lend(t, c, obj)
			}
			from := &info.Collector{Reader: c.Client, Namespace: liqo}
			missing := func() (named, gone []string) {
				info, problems := from.CollectHealth(t.Context())
				if len(problems) > 0 || info.Healthy {
					t.Errorf("healthy is %t; %v", info.Healthy, problems)
				}
				for name, m := range info.MissingPods {
					if want := "the " + m.Kind + " is missing: run liqoctl install to create it"; m.Reason == want {
						gone = append(gone, name)
					}
				}
				slices.Sort(gone)
				return slices.Sorted(maps.Keys(info.MissingPods)), gone
			}
			if _, gone := missing(); len(gone) > 0 {
				t.Errorf("%v are told as missing, and are there", gone)
			}
			for _, obj := range workloads {
				if err := c.Client.Delete(t.Context(), obj); err != nil {
					t.Fatal(err)
				}
				if named, gone := missing(); !slices.Contains(named, obj.GetName()) || !slices.Equal(gone, []string{obj.GetName()}) {
					t.Errorf("without %s %v are told as missing", obj.GetName(), gone)
				}
				obj.SetResourceVersion("")
				testkit.Create(t, c.Client, obj)
			}
			var got []string
			for _, obj := range workloads {
				got = append(got, obj.GetName())
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the chart has other workloads (-want +got):\n%s", diff)
			}
		})
	}
}
