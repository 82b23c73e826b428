// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/deploy"
	"liqo.io/liqo/test/clusters"
)

// The command that tries the network finds that all of it works, by every way that it knows, and leaves nothing.
func TestNetworkTest(t *testing.T) {
	tunnel := connect(t)
	peer(t, "try")
	eventually(t, "the virtual node to be ready", func(ctx context.Context) error { return virtualNode(ctx, corev1.ConditionTrue) })

	out, err := a.Liqoctl("test", "network", "-p", b.Kubeconfig, "--pod-np", "--np-ext", "--lb", "--ip", "--info")
	t.Log(out)
	if err != nil {
		show(t)
		t.Fatal(err)
	}
	n, m := len(nodes(t, a)), len(nodes(t, b))
	for _, want := range []struct {
		way    string
		passed int
	}{
		{"pod to pod +cl-consumer +cl-provider", n * m}, {"pod to pod +cl-provider +cl-consumer", n * m},
		{"node to pod +cl-consumer +cl-provider", n * m}, {"node to pod +cl-provider +cl-consumer", n * m},
		{"pod to Service +cl-consumer +cl-provider", n}, {"pod to Service +cl-provider +cl-consumer", m},
		{"pod to headless Service +cl-consumer +cl-provider", n}, {"pod to headless Service +cl-provider +cl-consumer", m},
		{"pod to IP +cl-consumer +cl-provider", n}, {"pod to IP +cl-provider +cl-consumer", m},
		{"pod to IP +cl-consumer +cl-consumer", n}, {"pod to IP +cl-provider +cl-provider", m},
		{"pod to NodePort +cl-consumer +cl-provider", n * n}, {"pod to NodePort +cl-provider +cl-consumer", m * m},
		{"outside to NodePort +here +cl-consumer", n}, {"outside to NodePort +here +cl-provider", m},
		// Each node has a pod of its own, which answers alone.
		{`outside to NodePort \(Local\) +here +cl-consumer`, n}, {`outside to NodePort \(Local\) +here +cl-provider`, m},
		{"outside to load balancer +here +cl-consumer", 1}, {"outside to load balancer +here +cl-provider", 1},
	} {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^%s +%d +0 +0$`, want.way, want.passed)).MatchString(out) {
			t.Errorf("no row is %q with %d that passed", want.way, want.passed)
		}
	}
	checkNothingRemains(t)
	checkBenchmark(t)
	checkHealthy(t)
	checkArchive(t)

	// Without a tunnel no pod can be lent, and it is said who is missing.
	kubectl(t, b, "", "delete", "publickey", "-n", where, a.ID)
	eventually(t, "the virtual node to be no more ready", func(ctx context.Context) error { return virtualNode(ctx, corev1.ConditionFalse) })
	if _, err := a.Liqoctl("test", "network", "-p", b.Kubeconfig); err == nil || !strings.Contains(err.Error(), "the network to cl-provider is down") {
		t.Errorf("without a tunnel: %v", err)
	}
	checkNothingRemains(t)
	kubectl(t, b, strings.ReplaceAll(publicKey, "ID", a.ID)+tunnel.ClientKey, "apply", "-n", where, "-f", "-")
	if err := tunnel.Connected(t.Context()); err != nil {
		t.Error(err)
	}
}

// checkHealthy wants no check to fail on a healthy pair, which may still have a benchmark to recover from.
func checkHealthy(t *testing.T) {
	t.Helper()
	for _, c := range []*clusters.Cluster{a, b} {
		eventually(t, c.ID+" to be healthy", func(context.Context) error {
			out, err := c.Liqoctl("check")
			t.Log(out)
			return err
		})
	}
}

// checkArchive wants an archive to have what pods and nodes tell, and none of the values of Secrets in the namespaces of Liqo.
func checkArchive(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "archive.tar.gz")
	if out, err := a.Liqoctl("gather", "--output-file", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	listed, err := exec.Command("tar", "-xzvf", file, "-C", t.TempDir(), "--to-stdout").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, listed)
	}
	text := string(listed)
	for _, want := range []string{
		"link liqo.fabric", "dev liqo-tunnel", "table 6091", "liqo_node_dropped_packets_total", "/logs/liqo/liqo-fabric-", "/logs/" + where + "/gw-", "kind: ForeignCluster",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the archive lacks %q", want)
		}
	}
	checkQueried(t, text)
	var secrets corev1.SecretList
	if err := a.Client.List(t.Context(), &secrets); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, s := range secrets.Items {
		for key, value := range s.Data {
			if len(value) < 16 || strings.HasSuffix(key, ".crt") || key == "publicKey" {
				continue // short ones are words, and the others are public
			}
			compared++
			if strings.Contains(text, string(value)) || strings.Contains(text, base64.StdEncoding.EncodeToString(value)) {
				t.Errorf("the archive has the value of %s in Secret %s/%s", key, s.Namespace, s.Name)
			}
		}
	}
	if compared == 0 {
		t.Error("there is no Secret")
	}
}

// afterFaults are metrics of the dashboards that a process has only after what they count.
var afterFaults = []string{"liqo_peer_misbehaves_total", "liqo_virtual_kubelet_reflection_error_counter", "liqo_mirror_errors_total", "liqo_proxy_connections", "liqo_proxy_requests_total"}

// checkQueried wants the metrics of all queries of the dashboards to be in an archive.
func checkQueried(t *testing.T, text string) {
	t.Helper()
	dashboards, err := fs.Glob(deploy.Chart(), "files/dashboards/*.json")
	if err != nil || len(dashboards) == 0 {
		t.Fatalf("the chart has %d dashboards: %v", len(dashboards), err)
	}
	for _, name := range dashboards {
		data, err := fs.ReadFile(deploy.Chart(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, query := range regexp.MustCompile(`"expr": "[^"]*`).FindAllString(string(data), -1) {
			for _, metric := range regexp.MustCompile(`\b(liqo|controller_runtime|workqueue|rest_client|process)_\w+`).FindAllString(query, -1) {
				if !slices.Contains(afterFaults, metric) && !regexp.MustCompile(`(?m)^`+metric+`[{ ]`).MatchString(text) {
					t.Errorf("%s asks for %s, which no process has", name, metric)
				}
			}
		}
	}
}

// theVirtualNode is that of the peering.
func theVirtualNode(ctx context.Context) (*corev1.Node, error) {
	var list corev1.NodeList
	if err := a.Client.List(ctx, &list, client.MatchingLabels{"liqo.io/type": "virtual-node"}); err != nil {
		return nil, err
	}
	if len(list.Items) != 1 {
		return nil, fmt.Errorf("there are %d virtual nodes", len(list.Items))
	}
	return &list.Items[0], nil
}

// virtualNode wants it to be ready, or not.
func virtualNode(ctx context.Context, want corev1.ConditionStatus) error {
	node, err := theVirtualNode(ctx)
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		switch {
		case c.Type != corev1.NodeReady:
		case c.Status != want:
			return fmt.Errorf("it is %s: %s", c.Status, c.Message)
		default:
			return nil
		}
	}
	return errors.New("it says nothing")
}

func checkNothingRemains(t *testing.T) {
	t.Helper()
	for _, c := range []*clusters.Cluster{a, b} {
		if out := kubectl(t, c, "", "get", "namespaces", "-o", "name"); strings.Contains(out, "test-network") || strings.Contains(out, "bench") {
			t.Errorf("in %s there is\n%s", c.ID, out)
		}
	}
}
