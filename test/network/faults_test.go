// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/faults"
)

// namesFaults injects faults into a peering with the pods home and away, and waits until the commands of liqoctl name each of them, and find
// nothing any more when it is mended.
func namesFaults(t *testing.T, p *clusters.Peering, tunnel *clusters.Tunnel) {
	trace := []string{"trace", "home", "away"}
	on := func(namespace string, args ...string) func() {
		return func() { kubectl(t, a, "", append([]string{"-n", namespace}, args...)...) }
	}
	node := strings.TrimSpace(kubectl(t, a, "", "get", "pod", "home", "-n", p.Namespace, "-o", "jsonpath={.spec.nodeName}"))
	key := strings.ReplaceAll(publicKey, "ID", a.ID) + tunnel.ClientKey
	const missing = `apiVersion: v1
kind: Pod
metadata: {name: missing}
spec:
  nodeSelector: {liqo.io/type: virtual-node}
  containers: [{name: one, image: "docker.io/playground/missing:v1", imagePullPolicy: Never}]
`
	gateway := strings.TrimSpace(kubectl(t, a, "", "get", "pods", "-n", tunnel.ClientNamespace, "-l", "networking.liqo.io/component=gateway", "-o", "jsonpath={.items[0].spec.nodeName}"))
	gatewayClient := strings.TrimSpace(kubectl(t, a, "", "get", "gatewayclients", "-n", tunnel.ClientNamespace, "-o", "name"))
	template := strings.TrimSpace(kubectl(t, a, "", "get", gatewayClient, "-n", tunnel.ClientNamespace, "-o", "jsonpath={.spec.clientTemplateRef.name}"))
	setTemplate := func(name string) func() {
		return on(tunnel.ClientNamespace, "patch", gatewayClient, "--type", "merge", "-p", fmt.Sprintf(`{"spec":{"clientTemplateRef":{"name":%q}}}`, name))
	}
	awayNode := strings.TrimSpace(kubectl(t, b, "", "get", "pod", "away", "-n", p.Twin(), "-o", "jsonpath={.spec.nodeName}"))
	const still = `apiVersion: v1
kind: Pod
metadata: {name: still}
spec:
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: liqo.io/type, operator: DoesNotExist}]}]
  containers: [{name: one, image: "docker.io/playground/missing:v1", imagePullPolicy: Never}]
`
	for _, test := range []struct {
		name         string // in the list of faults
		how          string // if there are several ways
		command      []string
		inject, mend func()
	}{
		{"no packet passes the tunnel", "the server does not know the key", trace,
			func() { kubectl(t, b, "", "delete", "publickey", "-n", tunnel.ServerNamespace, a.ID) },
			func() { kubectl(t, b, key, "apply", "-n", tunnel.ServerNamespace, "-f", "-") }},
		{"no packet passes the tunnel", "a firewall drops UDP", trace,
			func() { dropForwarded(t, gateway, "udp dport "+tunnel.Port) },
			func() { mend(t, gateway) }},
		{"the key of the peer is missing", "", trace,
			func() { kubectl(t, a, "", "delete", "publickey", "-n", tunnel.ClientNamespace, b.ID) },
			func() {
				kubectl(t, a, strings.ReplaceAll(publicKey, "ID", b.ID)+tunnel.ServerKey, "apply", "-n", tunnel.ClientNamespace, "-f", "-")
			}},
		{"packets between a node and the gateway get lost", "", trace,
			func() { dropForwarded(t, node, `oifname "liqo.fabric"`) },
			func() { mend(t, node) }},
		{"the fabric of a node does not run", "", trace,
			func() { crashFabric(t, a, node) },
			func() { mendFabric(t, a) }},
		{"the fabric of a node of the provider does not run", "", trace,
			func() { crashFabric(t, b, awayNode) },
			func() { mendFabric(t, b) }},
		{"a gateway has no template", "", trace, setTemplate("absent"), setTemplate(template)},
		{"the Service has no ready endpoint", "", []string{"trace", "home", "empty"},
			on(p.Namespace, "create", "service", "clusterip", "empty", "--tcp=80"),
			nil},
		{"the pod that sends does not run", "", []string{"trace", "still", "away"},
			func() { kubectl(t, a, still, "apply", "-n", p.Namespace, "-f", "-") },
			nil},
		{"an annotation keeps the Service here", "", []string{"explain", "service", "web"},
			on(p.Namespace, "annotate", "service", "web", "liqo.io/skip-reflection=true"),
			on(p.Namespace, "annotate", "service", "web", "liqo.io/skip-reflection-")},
		{"the provider does not get the image", "", []string{"explain", "pod", "missing"},
			func() { kubectl(t, a, missing, "apply", "-n", p.Namespace, "-f", "-") },
			nil},
		{"large packets are lost in the tunnel", "", trace, // last: the search finds the largest size again minutes later
			func() { dropForwarded(t, gateway, "udp dport "+tunnel.Port+" ip length > 700") },
			func() { mend(t, gateway) }},
	} {
		t.Run(strings.ReplaceAll(strings.TrimSuffix(test.name+"/"+test.how, "/"), " ", "_"), func(t *testing.T) {
			i := slices.IndexFunc(faults.All, func(f faults.Fault) bool { return f.Name == test.name })
			if i < 0 {
				t.Fatal("it is not in the list of faults")
			}
			want := faults.All[i]
			start := time.Now()
			test.inject()
			eventually(t, "the fault to be named", func(context.Context) error {
				e, err := ask(p, test.command)
				if err != nil {
					return err
				}
				stop := e.Stop()
				if stop == nil {
					return fmt.Errorf("nothing stops %s", e.Object)
				}
				if f := stop.Failure(); !strings.HasPrefix(f.Object, want.Object+" ") || !strings.Contains(f.Remedy, want.Remedy) || f.Page != "docs/"+want.Page {
					return fmt.Errorf("it is stopped by %+v, want %+v", f, want)
				}
				return nil
			})
			t.Logf("named after %s", time.Since(start).Round(100*time.Millisecond))
			if test.mend == nil {
				return
			}
			test.mend()
			eventually(t, "nothing to be wrong", func(context.Context) error {
				e, err := ask(p, test.command)
				if err == nil && e.Stop() != nil {
					err = fmt.Errorf("it is stopped by %+v", e.Stop().Failure())
				}
				return err
			})
		})
	}
	kubectl(t, a, "", "delete", "pod/missing", "pod/still", "service/empty", "-n", p.Namespace)
}

// crashFabric has the fabric of a node crash, and of no other.
func crashFabric(t *testing.T, c *clusters.Cluster, node string) {
	t.Helper()
	kubectl(t, c, "", "patch", "daemonset", "liqo-fabric", "-n", "liqo", "--type", "json", "-p",
		`[{"op": "replace", "path": "/spec/updateStrategy", "value": {"type": "OnDelete"}}, {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--no-such-flag"}]`)
	kubectl(t, c, "", "delete", "pod", "-n", "liqo", "-l", "app.kubernetes.io/name=fabric", "--field-selector", "spec.nodeName="+node)
}

// mendFabric restores the template first: pods that have it stay.
func mendFabric(t *testing.T, c *clusters.Cluster) {
	t.Helper()
	kubectl(t, c, "", "rollout", "undo", "daemonset", "liqo-fabric", "-n", "liqo")
	kubectl(t, c, "", "patch", "daemonset", "liqo-fabric", "-n", "liqo", "-p", `{"spec": {"updateStrategy": {"type": "RollingUpdate"}}}`)
}

// ask runs a command of liqoctl that explains something, with both clusters. The exit code is 1 if something is stopped.
func ask(p *clusters.Peering, command []string) (*diagnose.Explanation, error) {
	out, failure := a.Liqoctl(append(slices.Clone(command), "-n", p.Namespace, "--remote-kubeconfig", b.Kubeconfig, "-o", "json")...)
	e := &diagnose.Explanation{}
	if err := json.Unmarshal([]byte(out), e); err != nil {
		return nil, fmt.Errorf("%w: %w", failure, err)
	}
	return e, nil
}
