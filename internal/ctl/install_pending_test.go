// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	releasecommon "helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/testkit"
)

// recorded is an installation of ours in a namespace of its own, as Helm remembers it.
func recorded(t *testing.T, c *testkit.ControlPlane, status releasecommon.Status, since time.Time, values ...map[string]any) (*storage.Storage, string) {
	t.Helper()
	ns := testkit.Namespace(t, c, "recorded", nil)
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	releases := storage.Init(driver.NewSecrets(clientset.CoreV1().Secrets(ns)))
	config := map[string]any{}
	for _, v := range values {
		maps.Copy(config, v)
	}
	err = releases.Create(&release.Release{
		Config: config, Name: "liqo", Namespace: ns, Version: 1, Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "liqo"}},
		Info: &release.Info{Status: status, LastDeployed: since, Deleted: since},
	})
	if err != nil {
		t.Fatal(err)
	}
	return releases, ns
}

func TestInstallLock(t *testing.T) {
	c := testkit.Cluster(t)
	for status, what := range map[releasecommon.Status]string{
		releasecommon.StatusPendingInstall:  "another installation or upgrade began 1m",
		releasecommon.StatusPendingUpgrade:  "another installation or upgrade began 1m",
		releasecommon.StatusPendingRollback: "another installation or upgrade began 1m",
		releasecommon.StatusUninstalling:    "another uninstallation began 1m",
	} {
		t.Run(status.String(), func(t *testing.T) {
			_, ns := recorded(t, c, status, time.Now().Add(-time.Minute))
			args := installArgs("--namespace", ns, "--dry-run")
			liqoctl(t, c.Config, append(args, "--timeout", "10m")...).refuses(t, what, "If it was killed, try again in ", "liqoctl uninstall -n "+ns)
			liqoctl(t, c.Config, append(args, "--timeout", "59s")...).succeeds(t)
		})
	}
}

// Whoever only looks must not end the revision of another installer.
func TestDryRunKeepsInterruptedRelease(t *testing.T) {
	c := testkit.Cluster(t)
	releases, ns := recorded(t, c, releasecommon.StatusPendingInstall, time.Now().Add(-24*time.Hour))
	for rule, args := range map[string][]string{
		"dry run":     {"--dry-run"},
		"only values": {"--only-output-values", "--dump-values-path", filepath.Join(t.TempDir(), "values.yaml")},
	} {
		t.Run(rule, func(t *testing.T) {
			liqoctl(t, c.Config, installArgs(append(args, "--namespace", ns)...)...).succeeds(t)
			got, err := releases.Get("liqo", 1)
			if err != nil {
				t.Fatal(err)
			}
			if status := got.(*release.Release).Info.Status; status != releasecommon.StatusPendingInstall {
				t.Errorf("the release is %s, want pending-install", status)
			}
		})
	}
}

func TestInstallProfile(t *testing.T) {
	c := testkit.Cluster(t)
	valuesOf := func(args ...string) map[string]any {
		t.Helper()
		path := filepath.Join(t.TempDir(), "values.yaml")
		liqoctl(t, c.Config, installArgs(append(args, "--only-output-values", "--dump-values-path", path)...)...).succeeds(t)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]any{}
		if err := yaml.Unmarshal(data, &values); err != nil {
			t.Fatal(err)
		}
		return values
	}
	byHand := []string{"--cluster-id", "cl-test", "--set", "controllerManager.replicas=3,proxy.enabled=true,offloading.twinNamespaces.maxPerTenant=21"}
	plain, hardened := valuesOf(byHand...), valuesOf(append(byHand, "--profile", "hardened")...)
	for name, tc := range map[string]struct {
		flags []string
		want  map[string]any
	}{
		"kept":     {nil, hardened},
		"hardened": {[]string{"--profile", "hardened"}, hardened},
		"default":  {[]string{"--profile", "default"}, plain},
	} {
		t.Run(name, func(t *testing.T) {
			_, ns := recorded(t, c, releasecommon.StatusDeployed, time.Now().Add(-time.Hour), hardened)
			got := valuesOf(append(tc.flags, "--namespace", ns, "--cluster-id", "cl-test")...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
