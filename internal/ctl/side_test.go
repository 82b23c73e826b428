// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/testkit"
)

// bareSide is a cluster of a command in which no controller runs, and what is said of it.
func bareSide(t *testing.T, c *testkit.ControlPlane, name, id string) (*side, *bytes.Buffer) {
	t.Helper()
	said := &bytes.Buffer{}
	return &side{
		Scope: out.New(strings.NewReader(""), said, said).Scope(name), name: name, kube: c.Client, id: id,
		liqoNamespace: testkit.Namespace(t, c, "liqo", nil), namespace: testkit.Namespace(t, c, "tenant", nil),
	}, said
}

func TestClustersAreToldApartByTheWayToThem(t *testing.T) {
	at := func(cluster string) string {
		t.Helper()
		cfg, err := clientcmd.RESTConfigFromKubeConfig(fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
			contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "https://kubernetes:6443", %s}}]}`, cluster))
		if err != nil {
			t.Fatal(err)
		}
		return where(cfg)
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
