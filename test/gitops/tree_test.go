// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"liqo.io/liqo/test/clusters"
)

const example = "../../examples/gitops"

// fillTree copies the example into a checkout and puts in what an administrator has to: networks, an address, keys and credentials.
func fillTree(t *testing.T, checkout string) {
	t.Helper()
	if err := os.CopyFS(checkout, os.DirFS(example)); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := provider.Credentials(t.Context(), "consumer")
	if err != nil {
		t.Fatal(err)
	}
	values := []string{
		"KUBECONFIG_FOR_THE_CONSUMER", base64.StdEncoding.EncodeToString(kubeconfig),
		"172.18.0.3", nodeAddress(t, provider),
	}
	for _, of := range []string{"CONSUMER", "PROVIDER"} {
		key, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, "PRIVATE_KEY_OF_THE_"+of, base64.StdEncoding.EncodeToString(key.Bytes()),
			"PUBLIC_KEY_OF_THE_"+of, base64.StdEncoding.EncodeToString(key.PublicKey().Bytes()))
	}
	for folder, peer := range map[string]*clusters.Cluster{"consumer": provider, "provider": consumer} {
		networks := []string{"10.200.0.0/16", network(t, peer, "network.podcidrs[0]"), "10.70.0.0/16", network(t, peer, "network.externalcidr")}
		fill := strings.NewReplacer(append(networks, values...)...)
		files, err := filepath.Glob(filepath.Join(checkout, folder, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no manifests: %v", folder, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(file, []byte(fill.Replace(string(text))), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func network(t *testing.T, of *clusters.Cluster, query string) string {
	t.Helper()
	out, err := of.Liqoctl("info", "--get", query)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func nodeAddress(t *testing.T, of *clusters.Cluster) string {
	t.Helper()
	return kubectl(t, of, "", "get", "nodes", "-l", "!liqo.io/type", "-o", `jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`)
}

// readExample returns a file of the example with the address of the repository in place of that of the example.
func readExample(t *testing.T, path string, r *repository) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(example, path))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "http://git.example/peering.git", r.url)
}

// eventually waits for a condition, much longer than it takes.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 500*time.Millisecond, 10*time.Minute, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		showClusters(t)
		t.Fatalf("waiting for %s: %v", what, errors.Join(last, err))
	}
}

// wantOutput compares what kubectl prints.
func wantOutput(on *clusters.Cluster, want string, args ...string) func() error {
	return func() error {
		out, err := on.Kubectl("", args...)
		if err == nil && out != want {
			err = fmt.Errorf("kubectl %v in %s prints %q, not %q", args, on.ID, out, want)
		}
		return err
	}
}

// waitForPeering waits until the application of the example runs in both clusters and the tunnel carries traffic.
func waitForPeering(t *testing.T) {
	t.Helper()
	connected := []string{"get", "connections", "-A", "-o", "jsonpath={.items[*].status.value}"}
	eventually(t, "the tunnel of the consumer", wantOutput(consumer, "Connected", connected...))
	eventually(t, "the tunnel of the provider", wantOutput(provider, "Connected", connected...))
	eventually(t, "the virtual node", wantOutput(consumer, "True", "get", "node", "cl-provider", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`))
	eventually(t, "a pod in each cluster", func() error {
		out, err := consumer.Kubectl("", "get", "pods", "-n", "demo", "-l", "app=web", "-o", `jsonpath={range .items[*]}{.spec.nodeName}/{.status.phase} {end}`)
		if err == nil && (strings.Count(out, "/Running") != 2 || !strings.Contains(out, "cl-provider/Running")) {
			err = fmt.Errorf("pods are on %q", out)
		}
		return err
	})
}

// waitForNothing waits until neither cluster has anything of the peering any more, finalizers included.
func waitForNothing(t *testing.T) {
	t.Helper()
	for _, c := range []*clusters.Cluster{consumer, provider} {
		eventually(t, "nothing to be left in "+c.ID, func() error {
			var errs []error
			for _, args := range [][]string{
				{"get", "namespaces", "-l", "liqo.io/tenant-namespace", "-o", "name"},
				{"get", "namespace", "demo", "demo-cl-consumer", "--ignore-not-found", "-o", "name"},
				{"get", "tenants,rslice,virtualnodes,namespaceoffloadings,namespacemaps,configurations,gatewayservers,gatewayclients,connections,shadowpods", "-A", "-o", "name"},
				{"get", "nodes", "-l", "liqo.io/type=virtual-node", "-o", "name"},
			} {
				errs = append(errs, wantOutput(c, "", args...)())
			}
			return errors.Join(errs...)
		})
	}
}

// showClusters prints what a reader of a failure asks first.
func showClusters(t *testing.T) {
	t.Helper()
	for _, c := range []*clusters.Cluster{consumer, provider} {
		for _, args := range [][]string{
			{"get", "nodes,ns,pods,foreignclusters,tenants,rslice,virtualnodes,namespaceoffloadings,namespacemaps,configurations,gatewayservers,gatewayclients,connections", "-A"},
			{"get", "events", "-A", "--field-selector", "type=Warning"},
			{"logs", "-n", "liqo", "-l", "app.kubernetes.io/name=controller-manager", "--tail", "40", "--ignore-errors"},
			{"logs", "-n", "liqo", "-l", "app.kubernetes.io/name=crd-replicator", "--tail", "40", "--ignore-errors"},
		} {
			out, err := c.Kubectl("", args...)
			t.Logf("%s $ kubectl %v\n%s%v", c.ID, args, out, err)
		}
	}
}
