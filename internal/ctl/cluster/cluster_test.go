// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"

	"liqo.io/liqo/internal/testkit"
)

func newBareCluster(t *testing.T, c *testkit.ControlPlane, name, id string) (*Cluster, *bytes.Buffer) {
	t.Helper()
	output := &bytes.Buffer{}
	return &Cluster{
		Scope: ui.NewPrinter(strings.NewReader(""), output, output).Scope(name), Name: name, Kube: c.Client, ID: id,
		LiqoNamespace: testkit.Namespace(t, c, "liqo", nil), Namespace: testkit.Namespace(t, c, "tenant", nil),
	}, output
}

func TestLongWaitMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		output := &bytes.Buffer{}
		printer := ui.NewPrinter(strings.NewReader(""), output, output)
		remote := &Cluster{Scope: printer.Scope("remote"), Name: "remote"}
		p := ui.NewPlan(printer)
		remote.AddStep(p, "Waiting for the gateway pod to be ready", "", func(ctx context.Context) error {
			return kube.WaitUntil(ctx, nil, func(context.Context) error { return kube.Pending("pod gw-a does not start: ImagePullBackOff") })
		})
		if err := p.Run(ctx); err == nil {
			t.Error("it ended well")
		}
		want := " WARN   (remote) Waiting for the gateway pod to be ready: pod gw-a does not start: ImagePullBackOff\n"
		if output.String() != want {
			t.Errorf("it said %q, want %q", output, want)
		}
	})
}

func TestServerIdentity(t *testing.T) {
	at := func(cluster string) string {
		t.Helper()
		cfg, err := clientcmd.RESTConfigFromKubeConfig(fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
			contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "https://kubernetes:6443", %s}}]}`, cluster))
		if err != nil {
			t.Fatal(err)
		}
		return serverOf(cfg)
	}
	for cluster, want := range map[string]string{
		"":                                "https://kubernetes:6443",
		"tls-server-name: milan":          "https://kubernetes:6443 as milan",
		`proxy-url: "http://rome:3128"`:   "https://kubernetes:6443 through http://rome:3128",
		`proxy-url: "http://a:b@milan:1"`: "https://kubernetes:6443 through http://a:xxxxx@milan:1",
	} {
		if got := at(cluster); got != want {
			t.Errorf("{%s} is %q, not %q", cluster, got, want)
		}
	}
}
