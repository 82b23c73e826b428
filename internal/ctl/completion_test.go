// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// offered is what a shell shows for the last word of a command line.
func offered(t *testing.T, line ...string) (words []string, directive string) {
	t.Helper()
	r := liqoctl(t, nil, append([]string{"__complete"}, line...)...)
	if r.err != nil {
		t.Fatalf("%v: %v", line, r.err)
	}
	words = strings.Split(strings.TrimSpace(r.stdout), "\n")
	return words[:len(words)-1], words[len(words)-1]
}

const (
	noFiles = ":4"
	files   = ":0"
)

func TestCompletion(t *testing.T) {
	c, other := testkit.Cluster(t), testkit.SecondCluster(t)
	here, there := kubeconfigFile(t, c.Config), kubeconfigFile(t, other.Config)
	tenant := testkit.Namespace(t, c, "tenant-completion", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: "completion"})
	otherNamespace := testkit.Namespace(t, other, "elsewhere", nil)
	meta := func(name string, more ...string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: tenant, Name: name, Labels: map[string]string{names.RemoteClusterID: "completion"}}
		for _, label := range more {
			m.Labels[label] = "true"
		}
		return m
	}
	ctltest.Lend(t, c, &networkingv1beta1.GatewayServer{ObjectMeta: meta("completed-server")})
	ctltest.Lend(t, c, &networkingv1beta1.GatewayClient{ObjectMeta: meta("completed-client")})
	ctltest.Lend(t, c, &authv1beta1.Tenant{ObjectMeta: meta("completed-tenant"), Spec: authv1beta1.TenantSpec{ClusterID: "completion"}})
	ctltest.Lend(t, c, &authv1beta1.ResourceSlice{ObjectMeta: meta("completed-copy", names.Replicated)})
	ctltest.Lend(t, c, &authv1beta1.ResourceSlice{ObjectMeta: meta("completed-slice")})
	node := func(name, region string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{names.NodeType: names.NodeTypeVirtualNode, "region": region}}}
	}
	ctltest.Lend(t, c, node("completed-a", "eu"))
	ctltest.Lend(t, c, node("completed-b", "us"))

	for _, tc := range []struct {
		line       []string
		have, lack string
	}{
		{[]string{"offload", "namespace", "default", ""}, tenant, "default"},
		{[]string{"offload", "namespace", "--selector", ""}, "region=eu", names.NodeType + "=" + names.NodeTypeVirtualNode},
		{[]string{"offload", "namespace", "--ns-selector", ""}, names.RemoteClusterID + "=completion", ""},
		{[]string{"info", "peer", ""}, "completion", ""},
		{[]string{"info", "peer", "completion", ""}, "", "completion"},
		{[]string{"info", "--namespace", ""}, tenant, ""},
		{[]string{"info", "-o", ""}, "yaml", ""},
		{[]string{"cordon", "tenant", ""}, "completed-tenant", ""},
		{[]string{"activate", "tenant", "one", ""}, "", "completed-tenant"},
		{[]string{"uncordon", "tenant", "-n", "default", ""}, "", "completed-tenant"},
		{[]string{"cordon", "resourceslice", ""}, "completed-copy", "completed-slice"},
		{[]string{"cordon", "resourceslice", "--remote-cluster-id", "another", ""}, "", "completed-copy"},
		{[]string{"cordon", "resourceslice", "--remote-cluster-id", ""}, "completion", ""},
		{[]string{"delete", "gatewayserver", "-n", tenant, ""}, "completed-server", "completed-client"},
		{[]string{"delete", "rs", ""}, "completed-slice", ""},
		{[]string{"generate", "publickey", "--gateway-name", ""}, "completed-client", ""},
		{[]string{"create", "configuration", "completion", "--remote-cluster-id", ""}, "completion", ""},
		{[]string{"create", "gatewayclient", "x", "--protocol", ""}, "UDP", ""},
		{[]string{"network", "connect", "--remote-kubeconfig", there, "--remote-namespace", ""}, otherNamespace, tenant},
		{[]string{"network", "connect", "--remote-kubeconfig", there, "--namespace", ""}, tenant, otherNamespace},
		{[]string{"network", "connect", "--remote-kubeconfig", there, "--remote-context", ""}, "testkit", ""},
		{[]string{"info", "--context", ""}, "testkit", ""},
		{[]string{"version", ""}, "", tenant},
	} {
		line := slices.Insert(tc.line, len(tc.line)-1, "--kubeconfig", here)
		if last := tc.line[len(tc.line)-2]; strings.HasPrefix(last, "-") && last != there { // the flag that is completed comes last
			line = slices.Insert(slices.Clone(tc.line), len(tc.line)-2, "--kubeconfig", here)
		}
		got, directive := offered(t, line...)
		if (tc.have != "" && !slices.Contains(got, tc.have)) || (tc.lack != "" && slices.Contains(got, tc.lack)) || directive != noFiles {
			t.Errorf("%q: want %q and not %q, offers %q %s", tc.line, tc.have, tc.lack, got, directive)
		}
		if unique := slices.Compact(slices.Sorted(slices.Values(got))); len(unique) != len(got) {
			t.Errorf("%q: offers something twice: %q", tc.line, got)
		}
	}
}

func TestCompletionWithoutCluster(t *testing.T) {
	for _, line := range [][]string{{"offload", "namespace", ""}, {"delete", "vn", ""}, {"info", "peer", ""}, {"info", "-n", ""}, {"info", "--context", ""}} {
		line = append([]string{"--kubeconfig", "/nowhere"}, line...)
		if got, directive := offered(t, line...); len(got) != 0 || directive != noFiles {
			t.Errorf("%q: offers %q %s", line, got, directive)
		}
	}
	for _, flag := range []string{"--kubeconfig", "--client-key"} {
		if got, directive := offered(t, "info", flag, ""); len(got) != 0 || directive != files {
			t.Errorf("%s: offers %q %s", flag, got, directive)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		liqoctl(t, nil, "completion", shell).succeeds(t, "completion")
	}
}

// As a plugin the program is called by two names: the second one is for completions.
func TestPluginCompletion(t *testing.T) {
	run := func(args ...string) string {
		var stdout, stderr bytes.Buffer
		if err := Run(t.Context(), Options{Args: args, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr}); err != nil {
			t.Errorf("%q: %v: %s", args, err, stderr.String())
		}
		return stdout.String()
	}
	if got := run("/opt/krew/bin/kubectl_complete-liqo", "cordon", ""); !strings.Contains(got, "resourceslice\t") || !strings.HasSuffix(got, noFiles+"\n") {
		t.Errorf("offers %q", got)
	}
	if got := run("kubectl_complete-liqo", "info", "-o", ""); got != "json\nyaml\nwide\n"+noFiles+"\n" {
		t.Errorf("offers %q", got)
	}
	help := run("/opt/krew/bin/kubectl-liqo", "info", "--help")
	for _, want := range []string{"kubectl liqo info [flags]", "  kubectl liqo info --get clusterid\n"} {
		if !strings.Contains(help, want) {
			t.Errorf("%q is missing:\n%s", want, help)
		}
	}
	if strings.Contains(help, "liqoctl") {
		t.Errorf("it is called otherwise:\n%s", help)
	}
}

func TestCompletionKubeconfigFlag(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k")
	content := `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: k, user: u}}, {name: b, context: {cluster: k, user: u}}],
clusters: [{name: k, cluster: {server: "https://192.0.2.1"}}], users: [{name: u, user: {}}]}`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"", "remote-"} {
		for flag, want := range map[string][]string{"context": {"a", "b"}, "cluster": {"k"}, "user": {"u"}} {
			if got, _ := offered(t, "network", "connect", "--"+prefix+"kubeconfig", path, "--"+prefix+flag, ""); !slices.Equal(got, want) {
				t.Errorf("--%s%s offers %q", prefix, flag, got)
			}
		}
	}
}
