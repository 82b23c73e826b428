// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const aKey = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="

func TestCreateDryRun(t *testing.T) {
	meta := func(name, more string) string {
		return "metadata:\n  labels:\n    liqo.io/remote-cluster-id: rome\n" + more + "  name: " + name + "\n  namespace: default\n"
	}
	const group = "apiVersion: networking.liqo.io/v1beta1\n"
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"gatewayserver", "server", "--service-type", "NodePort"}, group + "kind: GatewayServer\n" + meta("server", "") + `spec:
  endpoint:
    port: 51840
    serviceType: NodePort
  mtu: 1340
  serverTemplateRef:
    apiVersion: networking.liqo.io/v1beta1
    kind: WgGatewayServerTemplate
    name: wireguard-server
    namespace: liqo
`},
		{[]string{"gws", "server", "--port", "51841", "--load-balancer-ip", "192.0.2.9", "--node-port", "30100", "--liqo-namespace", "liqo-system"}, group + "kind: GatewayServer\n" + meta("server", "") + `spec:
  endpoint:
    loadBalancerIP: 192.0.2.9
    nodePort: 30100
    port: 51841
    serviceType: LoadBalancer
  mtu: 1340
  serverTemplateRef:
    apiVersion: networking.liqo.io/v1beta1
    kind: WgGatewayServerTemplate
    name: wireguard-server
    namespace: liqo-system
`},
		{[]string{"client", "client", "--addresses", "172.18.0.3,gw.example.org", "--port", "32133", "--mtu", "1400"}, group + "kind: GatewayClient\n" + meta("client", "") + `spec:
  clientTemplateRef:
    apiVersion: networking.liqo.io/v1beta1
    kind: WgGatewayClientTemplate
    name: wireguard-client
    namespace: liqo
  endpoint:
    addresses:
    - 172.18.0.3
    - gw.example.org
    port: 32133
    protocol: UDP
  mtu: 1400
`},
		{[]string{"client", "client", "--addresses", "172.18.0.3", "--port", "32133", "--mtu", "0"}, group + "kind: GatewayClient\n" + meta("client", "") + `spec:
  clientTemplateRef:
    apiVersion: networking.liqo.io/v1beta1
    kind: WgGatewayClientTemplate
    name: wireguard-client
    namespace: liqo
  endpoint:
    addresses:
    - 172.18.0.3
    port: 32133
    protocol: UDP
`},
		{[]string{"publickey", "rome", "--public-key", aKey}, group + "kind: PublicKey\n" +
			meta("rome", "    networking.liqo.io/gateway-resource: \"true\"\n") + "spec:\n  publicKey: " + aKey + "\n"},
		{[]string{"config", "rome", "--pod-cidr", "10.200.0.0/16", "--external-cidr", "10.70.0.0/16"}, group + "kind: Configuration\n" + meta("rome", "") + `spec:
  remote:
    cidr:
      external:
      - 10.70.0.0/16
      pod:
      - 10.200.0.0/16
`},
		{[]string{"resourceslice", "gold", "--cpu", "2", "--memory", "4Gi", "--pods", "10", "--resource", "nvidia.com/gpu=1", "--class", "fast"},
			"apiVersion: authentication.liqo.io/v1beta1\nkind: ResourceSlice\nmetadata:\n  annotations:\n    liqo.io/create-virtual-node: \"true\"\n" + strings.TrimPrefix(
				meta("gold", "    liqo.io/remoteID: rome\n    liqo.io/replication: \"true\"\n"), "metadata:\n") + `spec:
  class: fast
  providerClusterID: rome
  resources:
    cpu: "2"
    memory: 4Gi
    nvidia.com/gpu: "1"
    pods: "10"
`},
		{[]string{"rs", "gold", "--no-virtual-node"}, "apiVersion: authentication.liqo.io/v1beta1\nkind: ResourceSlice\n" +
			meta("gold", "    liqo.io/remoteID: rome\n    liqo.io/replication: \"true\"\n") + "spec:\n  class: default\n  providerClusterID: rome\n"},
		{[]string{"vn", "gold", "--kubeconfig-secret-name", "rome-user", "--storage-classes", "a,b", "--ingress-classes", "c", "--load-balancer-classes", "d", "--labels", "tier=gold",
			"--node-selector", "disk=ssd", "--runtime-class-name", "kata", "--vk-options-template", "liqo/fast", "--disable-network-check", "--create-node=false"},
			"apiVersion: offloading.liqo.io/v1beta1\nkind: VirtualNode\n" + meta("gold", "") + `spec:
  clusterID: rome
  createNode: false
  disableNetworkCheck: true
  ingressClasses:
  - default: true
    ingressClassName: c
  kubeconfigSecretRef:
    name: rome-user
  labels:
    liqo.io/remote-cluster-id: rome
    tier: gold
  loadBalancerClasses:
  - default: true
    loadBalancerClassName: d
  offloadingPatch:
    nodeSelector:
      disk: ssd
    runtimeClassName: kata
  resourceQuota:
    hard:
      cpu: "2"
      memory: 4Gi
      pods: "110"
  storageClasses:
  - default: true
    storageClassName: a
  - storageClassName: b
  vkOptionsTemplateRef:
    name: fast
    namespace: liqo
`},
	} {
		r := liqoctl(t, nil, slicesOf("create", tc.args, "--remote-cluster-id", "rome", "-o", "yaml", "-n", "default")...)
		r.succeeds(t)
		dry := liqoctl(t, nil, slicesOf("create", tc.args, "--remote-cluster-id", "rome", "--dry-run", "-n", "default")...)
		if diff := cmp.Diff(r.stdout, dry.stdout); diff != "" {
			t.Errorf("%v: -output +dry-run:\n%s", tc.args, diff)
		}
		want := tc.want + "status: {}\n---\n"
		if tc.args[0] == "publickey" { // the API server would refuse a status of it
			want = tc.want + "---\n"
		}
		if diff := cmp.Diff(want, r.stdout); diff != "" || r.stderr != "" {
			t.Errorf("%v: -want +got:\n%s%s", tc.args, diff, r.stderr)
		}
	}
	r := liqoctl(t, nil, "create", "publickey", "rome", "--remote-cluster-id", "rome", "--public-key", aKey, "-o", "json", "-n", "liqo-tenant-rome", "--global-labels", "app=${name}")
	r.succeeds(t, `"app": "rome"`, `"namespace": "liqo-tenant-rome"`)
	if !strings.HasPrefix(r.stdout, "{\n") {
		t.Errorf("no JSON:\n%s", r.stdout)
	}
}

func slicesOf(first string, args []string, more ...string) []string {
	return append(append([]string{first}, args...), more...)
}

func TestCreateInvalid(t *testing.T) {
	for want, args := range map[string][]string{
		`invalid cluster ID "Rome"`:                      {"publickey", "x", "--remote-cluster-id", "Rome", "--public-key", aKey},
		`"remote-cluster-id"`:                            {"publickey", "x", "--public-key", aKey},
		"--public-key: not an X25519 key (5 bytes)":      {"publickey", "x", "--remote-cluster-id", "rome", "--public-key", "short"},
		"accepts 1 arg(s), received 0":                   {"publickey", "--remote-cluster-id", "rome", "--public-key", aKey},
		`did you mean "10.0.0.0/8"?`:                     {"configuration", "x", "--remote-cluster-id", "rome", "--pod-cidr", "10.1.0.0/8", "--external-cidr", "10.70.0.0/16"},
		`--external-cidr: invalid address range "10.70"`: {"configuration", "x", "--remote-cluster-id", "rome", "--pod-cidr", "10.0.0.0/8", "--external-cidr", "10.70"},
		"it is one of LoadBalancer":                      {"gatewayserver", "x", "--remote-cluster-id", "rome", "--service-type", "None"},
		`invalid IP address "x.example"`:                 {"gatewayserver", "x", "--remote-cluster-id", "rome", "--load-balancer-ip", "x.example"},
		"invalid port 70000":                             {"gatewayclient", "x", "--remote-cluster-id", "rome", "--addresses", "192.0.2.1", "--port", "70000"},
		`"Gold" cannot be the name of a n`:               {"resourceslice", "Gold", "--remote-cluster-id", "rome"},
		`--memory: invalid amount "4 GB"`:                {"resourceslice", "gold", "--remote-cluster-id", "rome", "--memory", "4 GB"},
		"none of the others can be; [kube":               {"virtualnode", "gold", "--remote-cluster-id", "rome", "--kubeconfig-secret-name", "a", "--resource-slice-name", "b"},
		"at least one of the flags in the":               {"virtualnode", "gold", "--remote-cluster-id", "rome"},
		"--labels: invalid label a b=c":                  {"virtualnode", "gold", "--remote-cluster-id", "rome", "--kubeconfig-secret-name", "a", "--labels", "a b=c"},
		`"fast" is not written as namespa`:               {"virtualnode", "gold", "--remote-cluster-id", "rome", "--kubeconfig-secret-name", "a", "--vk-options-template", "fast"},
		`invalid type of templates "wireguard"`:          {"gatewayclient", "x", "--remote-cluster-id", "rome", "--addresses", "192.0.2.1", "--port", "7", "--type", "wireguard"},
	} {
		liqoctl(t, nil, append(append([]string{"create"}, args...), "-o", "yaml", "-n", "default")...).refuses(t, want)
	}
}
