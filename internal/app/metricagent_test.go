// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestMetricAgentCommand(t *testing.T) {
	c := testkit.Cluster(t)
	liqo := testkit.Namespace(t, c, "liqo", nil)
	testkit.Create(t, c.Client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: liqo, Name: names.MetricAgentCertsSecret}})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, testkit.Kubeconfig(t, c.Config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	health, port := fmt.Sprintf("127.0.0.1:%d", testkit.Port(t)), testkit.Port(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Command([]string{"metric-agent", "--liqo-namespace=" + liqo, fmt.Sprint("--port=", port), "--health-probe-address=" + health, "--metrics-address=0"}).ExecuteContext(ctx)
	}()
	testkit.Eventually(t, time.Minute, func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+health+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("readiness is %s", resp.Status)
		}
		return nil
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
