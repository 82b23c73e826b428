// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"liqo.io/liqo/internal/ctl/cluster"
)

// goodValues are by the names of flags, or those of a command and a flag where it has another meaning there. Those of type bool are true.
var goodValues = map[string]string{
	"bench duration": "1s", "bench latency duration": "1s", "bench throughput duration": "1s", "node": "rome-1", "remote-node": "milan-1",
	"addresses": "192.0.2.1", "api-server-url": "https://192.0.2.1:6443", "class": "gold", "cluster-id": "rome", "cluster-labels": "region=eu",
	"containers-cpu-limits": "2", "containers-cpu-requests": "100m", "containers-ram-limits": "1Gi", "containers-ram-requests": "64Mi", "restic-image": "restic/restic:0.14.0",
	"restic-server-image": "restic/rest-server:0.11.0", "target-node": "milan",
	"consumer-cluster-id": "rome", "cpu": "2", "duration": "1h", "external-cidr": "10.70.0.0/16", "gateway-name": "x", "gateway-type": "server",
	"global-annotations": "a=b", "global-labels": "a=b", "gw-client-address": "192.0.2.1", "gw-client-port": "51840", "gw-client-template-name": "x",
	"gw-client-template-namespace": "x", "gw-client-type": cluster.ClientTemplates, "gw-server-service-loadbalancerip": "192.0.2.1",
	"gw-server-service-location": "Provider", "gw-server-service-nodeport": "30742", "gw-server-service-port": "51840", "gw-server-service-type": "LoadBalancer",
	"gw-server-template-name": "x", "gw-server-template-namespace": "x", "gw-server-type": cluster.ServerTemplates, "image": "liqo:test", "info get": "clusterid",
	"ingress-classes": "nginx", "labels": "a=b", "liqo-namespace": "liqo", "load-balancer-classes": "metallb",
	"load-balancer-ip": "192.0.2.1", "memory": "4Gi", "mtu": "1340", "namespace": "liqo", "namespace-mapping-strategy": "SelectedName", "node-port": "30742",
	"node-selector": "a=b", "nonce": strings.Repeat("A", 86) + "==", "np-nodes": "workers", "output": "json", "peer": "rome", "check wait": "1m", "max-size": "10Mi", "since": "1h", "output-file": "x.tar.gz", "pod-cidr": "10.200.0.0/16", "pod-offloading-strategy": "Remote",
	"pods": "10", "port": "51840", "profile": "hardened", "protocol": "UDP", "proxy-url": "http://proxy.example:3128", "public-key": aKey, "remote-cluster-id": "rome",
	"remote-liqo-namespace": "liqo", "remote-namespace": "liqo", "remote-namespace-name": "x", "remote-tenant-namespace": "x",
	"repo-url": "https://github.com/liqotech/liqo", "reserved-subnets": "10.1.0.0/16", "resource": "nvidia.com/gpu=2", "resource-slice-class": "gold",
	"resource-slice-name": "x", "runtime-class-name": "gvisor", "selector": "region=eu", "service-cidr": "10.96.0.0/16", "service-type": "LoadBalancer",
	"set": "networking.enabled=false", "set-string": "tag=v1", "storage-classes": "fast", "template-name": "x", "template-namespace": "x", "timeout": "5m",
	"tls-compatibility-mode": "auto", "type": cluster.ServerTemplates, "create gatewayclient type": cluster.ClientTemplates, "version": "v1.2.0", "vk-options-template": "x/y",
}

// apart are the flags of commands, and of those below them, that are not given beside all others, and why.
var apart = map[string]string{
	"check pre": "it is before there are peers",
	"create virtualnode kubeconfig-secret-name": "exactly one of it and --resource-slice-name is given, in the original, too",
	"info exit-code":                  "it is no flag of the original: the exit code of --get is that of the query",
	"info get":                        "it is no flag beside --exit-code",
	"info watch":                      "it is no flag beside --get and --wait, and ends with an interrupt",
	"info wait":                       "it is no flag beside --get and --watch",
	"images chart":                    "it is in a registry",
	"images copy-to":                  "it is a registry",
	"images local-chart-path":         "it is where the chart is, as is --chart",
	"images values":                   "it is a file",
	"install chart":                   "it is where the chart is, as is --repo-url",
	"install local-chart-path":        "it is where the chart is, as is --repo-url",
	"install values":                  "it is a file",
	"install dump-values-path":        "it is a file",
	"offload namespace ns-selector":   "it is given instead of names, in the original, too",
	"unoffload namespace ns-selector": "it is given instead of names, in the original, too",
	"test network remote-kubeconfigs": "it is in the line",
}

// TestAllFlagsTogether gives each command all of its flags at once: none is refused beside another one before a cluster is called.
func TestAllFlagsTogether(t *testing.T) {
	local, called := silent(t)
	remote, _ := silent(t)
	root, commands := commandTree(t)
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			line := lineOf(root, name, local, remote)
			if name == "create virtualnode" {
				line = slices.DeleteFunc(line, func(word string) bool { return word == "--kubeconfig-secret-name" || word == "s" })
			}
			commands[name].Flags().VisitAll(func(f *pflag.Flag) {
				own := name + " " + f.Name
				if f.Name == "help" || f.Hidden && f.Name != "repo-url" || f.Name == "verbose" || slices.Contains(line, "--"+f.Name) || apart[own] != "" || apart[strings.Fields(name)[0]+" "+f.Name] != "" ||
					slices.Contains(kubeFlags, strings.TrimPrefix(f.Name, "remote-")) {
					return
				}
				value, known := goodValues[own]
				if !known {
					value, known = goodValues[f.Name]
				}
				switch {
				case f.Value.Type() == "bool":
					value = "true"
				case !known:
					t.Fatalf("--%s has no row in goodValues", f.Name)
				}
				line = append(line, "--"+f.Name+"="+value)
			})
			called.Store(0)
			r := liqoctl(t, nil, line...)
			printsWithoutCluster := r.err == nil
			if !printsWithoutCluster && called.Load() == 0 {
				t.Errorf("%v:\n%s%s", line, r.stdout, r.stderr)
			}
		})
	}
}

// TestFlagsWithoutEffect has what the original accepts: a line tells which of the flags have no effect, and the command goes on.
func TestFlagsWithoutEffect(t *testing.T) {
	local, called := silent(t)
	remote, _ := silent(t)
	const cpu = "--cpu has no effect: --resource asks for cpu, too"
	for _, tc := range []struct {
		line string
		want []string
	}{
		{"test network --basic --np-ext --pod-np --lb --ip", []string{"--ip, --lb, --np-ext, --pod-np have no effect: --basic only tries the way from pods to pods"}},
		{"test network --basic --np-nodes workers", []string{"--np-nodes has no effect: --basic only tries the way from pods to pods"}},
		{"test network --np-nodes workers", []string{"--np-nodes has no effect: NodePorts are tried with --np-ext and --pod-np"}},
		{"test network --np-nodes workers --np-ext", nil},
		{"test network --basic --lb=false", nil},
		{"test network --basic --fail-fast --info", nil},
		{"peer --networking-disabled --mtu 1300 --gw-server-service-type NodePort --gw-server-service-nodeport 30742",
			[]string{"--gw-server-service-nodeport, --gw-server-service-type, --mtu have no effect: --networking-disabled leaves the networks alone"}},
		{"peer --networking-disabled --in-band", nil},
		{"peer --in-band --proxy-url http://proxy.example:3128", []string{"--in-band has no effect: --proxy-url is the way to the API server"}},
		{"peer --create-resource-slice=false --cpu 1 --pods 3", []string{"--cpu, --pods have no effect: --create-resource-slice=false asks for no resources"}},
		{"peer --create-resource-slice=false --create-virtual-node=false", nil},
		{"peer --cpu 1 --resource cpu=2", []string{cpu}},
		{"peer --gw-server-service-type ClusterIP --gw-server-service-nodeport 30742 --gw-server-service-loadbalancerip 192.0.2.1", []string{
			"--gw-server-service-nodeport has no effect: a Service of type ClusterIP has no node port",
			"--gw-server-service-loadbalancerip has no effect: only a Service of type LoadBalancer has the address of a load balancer"}},
		{"peer --gw-server-service-nodeport 30742", nil},
		{"network connect --server-service-type NodePort --load-balancer-ip 192.0.2.1",
			[]string{"--gw-server-service-loadbalancerip has no effect: only a Service of type LoadBalancer has the address of a load balancer"}},
		{"network connect --disable-sharing-keys --wait", []string{"--wait has no effect: without keys there is no tunnel to wait for"}},
		{"authenticate --in-band --proxy-url http://proxy.example:3128", []string{"--in-band has no effect: --proxy-url is the way to the API server"}},
		{"create resourceslice x --remote-cluster-id rome --cpu 1 --resource cpu=2", []string{cpu}},
		{"create gatewayserver x --remote-cluster-id rome --service-type NodePort --load-balancer-ip 192.0.2.1 --wait -n y -o yaml", []string{
			"--wait has no effect: objects are printed and not created",
			"--load-balancer-ip has no effect: only a Service of type LoadBalancer has the address of a load balancer"}},
		{"create virtualnode x --remote-cluster-id rome --resource-slice-name y --cpu 1 --labels a=b --node-selector a=b",
			[]string{"--cpu, --labels have no effect: the node has what was granted to the ResourceSlice"}},
		{"create virtualnode x --remote-cluster-id rome --kubeconfig-secret-name y --resource cpu=3", nil},
		{"offload namespace x --remote-namespace-name y", []string{"--remote-namespace-name has no effect: it is for --namespace-mapping-strategy SelectedName"}},
		{"offload namespace x --remote-namespace-name y --namespace-mapping-strategy SelectedName", nil},
		{"install k3s --repo-url https://github.com/liqotech/liqo", []string{"--repo-url has no effect: the chart is part of this program"}},
	} {
		line := append(strings.Fields(tc.line), "--kubeconfig", local)
		switch line[0] {
		case "test":
			line = append(line, "-p", remote)
		case "peer", "network", "authenticate":
			line = append(line, "--remote-kubeconfig", remote)
		}
		called.Store(0)
		r := liqoctl(t, nil, line...)
		var got []string
		for output := range strings.Lines(r.stderr) {
			if warning, is := strings.CutPrefix(output, " WARN  "); is && strings.Contains(warning, " no effect: ") {
				got = append(got, strings.TrimSpace(warning))
			}
		}
		if !slices.Equal(got, tc.want) || r.err != nil && called.Load() == 0 {
			t.Errorf("%s: warnings %q, not %q; %d calls:\n%s", tc.line, got, tc.want, called.Load(), r.stderr)
		}
	}
}

// TestOutputWithoutEffect has flags without effect change nothing of the object.
func TestOutputWithoutEffect(t *testing.T) {
	for with, without := range map[string]string{
		"create gatewayserver x --remote-cluster-id rome -n y -o yaml --service-type NodePort --load-balancer-ip 192.0.2.1": "create gatewayserver x --remote-cluster-id rome -n y -o yaml --service-type NodePort",
		"create gatewayserver x --remote-cluster-id rome -n y -o yaml --service-type ClusterIP --node-port 30742":           "create gatewayserver x --remote-cluster-id rome -n y -o yaml --service-type ClusterIP",
		"create resourceslice x --remote-cluster-id rome -n y -o yaml --cpu 1 --resource cpu=2":                             "create resourceslice x --remote-cluster-id rome -n y -o yaml --cpu 2",
	} {
		config := filepath.Join(t.TempDir(), "none")
		if err := os.WriteFile(config, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		a, b := liqoctl(t, nil, append(strings.Fields(with), "--kubeconfig", config)...), liqoctl(t, nil, append(strings.Fields(without), "--kubeconfig", config)...)
		if a.err != nil || b.err != nil || a.stdout != b.stdout || a.stdout == "" {
			t.Errorf("%s prints\n%s%s\nand not\n%s%s", with, a.stdout, a.stderr, b.stdout, b.stderr)
		}
	}
}
