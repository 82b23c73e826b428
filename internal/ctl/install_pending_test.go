// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"path/filepath"
	"testing"
	"time"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	releasecommon "helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/client-go/kubernetes"

	"liqo.io/liqo/internal/testkit"
)

// Whoever only looks must not end the revision of another installer.
func TestOnlyLookingLeavesAnInterruptedReleaseAsItIs(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "pending", nil)
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	releases := storage.Init(driver.NewSecrets(clientset.CoreV1().Secrets(ns)))
	err = releases.Create(&release.Release{
		Name: "liqo", Namespace: ns, Version: 1, Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "liqo"}},
		Info: &release.Info{Status: releasecommon.StatusPendingInstall, LastDeployed: time.Now().Add(-24 * time.Hour)},
	})
	if err != nil {
		t.Fatal(err)
	}
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
