// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/deploy"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/ctl/fleet"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// peerings makes a healthy peering with milan, whose network is not, and one with turin, which nothing is used of.
func peerings(t *testing.T, c *testkit.ControlPlane) (liqo string) {
	t.Helper()
	liqo = testkit.Namespace(t, c, "liqo", nil)
	id := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: liqo, Name: "id", Labels: map[string]string{names.AppName: names.ClusterIDApp}}}
	ctltest.Lend(t, c, id)
	in := testkit.Namespace(t, c, "tenant-milan", nil)
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: in, Name: name, Labels: map[string]string{names.RemoteClusterID: "milan", names.ResourceSliceName: "slice"}}
	}
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")}
	for _, name := range []string{"milan", "turin"} {
		fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: liqov1beta1.ClusterID(name)}}
		ctltest.LendWithStatus(t, c, fc, func(fc *liqov1beta1.ForeignCluster) {
			fc.Status.Role = liqov1beta1.UnknownRole
			if name == "milan" {
				on := liqov1beta1.Module{Enabled: true}
				fc.Status.Role, fc.Status.APIServerURL, fc.Status.Version = liqov1beta1.ProviderRole, "https://192.0.2.1:6443", "v1.3.0"
				fc.Status.Capabilities = []string{"bound-nonces", "moving-gateways"}
				fc.Status.Modules = liqov1beta1.Modules{Networking: on, Authentication: on, Offloading: on}
				fc.Status.Modules.Networking.Conditions = []liqov1beta1.Condition{{
					Type: liqov1beta1.NetworkConnectionStatus, Status: liqov1beta1.ConditionError, Reason: "ConnectionError", Message: "the tunnel is down",
				}}
			}
		})
	}
	cfg := &networkingv1beta1.Configuration{ObjectMeta: meta("milan")}
	cfg.Spec.Remote.CIDR = networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.200.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}
	ctltest.LendWithStatus(t, c, cfg, func(cfg *networkingv1beta1.Configuration) {
		cfg.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{
			Pod: []networkingv1beta1.CIDR{"10.71.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"},
		}}
	})
	gw := &networkingv1beta1.GatewayClient{ObjectMeta: meta("milan"), Spec: networkingv1beta1.GatewayClientSpec{MTU: 1340}}
	gw.Spec.Endpoint = networkingv1beta1.EndpointStatus{Addresses: []string{"172.18.0.3"}, Port: 32133, Protocol: new(corev1.ProtocolUDP)}
	ctltest.LendWithStatus(t, c, gw, func(gw *networkingv1beta1.GatewayClient) {
		gw.Status.Endpoint = &networkingv1beta1.EndpointStatus{Addresses: []string{"172.18.0.3", "172.18.0.4"}, Port: 32133}
	})
	connection := &networkingv1beta1.Connection{ObjectMeta: meta("gw-milan"), Spec: networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionTypeClient}}
	ctltest.LendWithStatus(t, c, connection, func(connection *networkingv1beta1.Connection) {
		connection.Status.Value = networkingv1beta1.ConnectionError
		connection.Status.Latency = networkingv1beta1.ConnectionLatency{Value: "3ms", Timestamp: metav1.Now()}
		connection.Status.FailedNodes = []string{"worker-1", "worker-2"}
	})
	ctltest.LendWithStatus(t, c, &authv1beta1.ResourceSlice{ObjectMeta: meta("slice")}, func(s *authv1beta1.ResourceSlice) {
		s.Status.Resources = amounts
		s.Status.Conditions = []authv1beta1.ResourceSliceCondition{{
			Type: authv1beta1.ResourceSliceConditionTypeResources, Status: authv1beta1.ResourceSliceConditionAccepted, LastTransitionTime: metav1.Now(),
		}}
	})
	vn := &offv1beta1.VirtualNode{ObjectMeta: meta("milan"), Spec: offv1beta1.VirtualNodeSpec{ClusterID: "milan", KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig-milan"}}}
	vn.Spec.ResourceQuota.Hard = amounts
	ctltest.LendWithStatus(t, c, vn, func(vn *offv1beta1.VirtualNode) {
		vn.Status.Conditions = []offv1beta1.VirtualNodeCondition{{Type: offv1beta1.NodeConditionType, Status: offv1beta1.RunningConditionStatusType}}
	})
	return liqo
}

const milanOnTheScreen = `
┌─ Peer cluster info ──────────────────────────────────────────────────────────┐
│ Cluster ID:   milan                                                          │
│ Role:         Provider                                                       │
│ Version:      v1.3.0                                                         │
│ Capabilities:                                                                │
│     - bound-nonces                                                           │
│     - moving-gateways                                                        │
└──────────────────────────────────────────────────────────────────────────────┘
┌─ Network ────────────────────────────────────────────────────────────────────┐
│ Status: Unhealthy                                                            │
│ Alerts                                                                       │
│     ConnectionError: the tunnel is down                                      │
│       → check that UDP reaches the address and port of the server            │
│       see docs/troubleshooting.md#connectionerror                            │
│ CIDR                                                                         │
│     Remote                                                                   │
│         Pod CIDR:      10.200.0.0/16 → Remapped to 10.71.0.0/16              │
│         External CIDR: 10.70.0.0/16                                          │
│ Gateway                                                                      │
│     Role:                 Server                                             │
│     Address:              172.18.0.3                                         │
│     Port:                 32133                                              │
│     Reported by the peer: 172.18.0.4:32133                                   │
│     MTU:                  1340                                               │
│ Connection                                                                   │
│     Status:       Error                                                      │
│     Latency:      3ms                                                        │
│     Failed nodes:                                                            │
│         - worker-1                                                           │
│         - worker-2                                                           │
└──────────────────────────────────────────────────────────────────────────────┘
┌─ Authentication ─────────────────────────────────────────────────────────────┐
│ Status:     Healthy                                                          │
│ API server: https://192.0.2.1:6443                                           │
│ Resource slices                                                              │
│     slice                                                                    │
│         Resource slice accepted                                              │
│         Action: Consuming                                                    │
│         Resources                                                            │
│             cpu:    4                                                        │
│             memory: 8Gi                                                      │
└──────────────────────────────────────────────────────────────────────────────┘
┌─ Offloading ─────────────────────────────────────────────────────────────────┐
│ Status: Healthy                                                              │
│ Virtual nodes                                                                │
│     milan                                                                    │
│         Status:         Healthy                                              │
│         Secret:         kubeconfig-milan                                     │
│         Resource slice: slice                                                │
│         Resources                                                            │
│             cpu:    4                                                        │
│             memory: 8Gi                                                      │
└──────────────────────────────────────────────────────────────────────────────┘
`

const milanAsADocument = `milan:
  authentication:
    APIServerAddr: https://192.0.2.1:6443
    resourceSlices:
    - accepted: true
      action: Consuming
      name: slice
      resources:
        cpu: "4"
        memory: 8Gi
    status: Healthy
  info:
    capabilities:
    - bound-nonces
    - moving-gateways
    clusterID: milan
    role: Provider
    version: v1.3.0
  network:
    CIDRs:
      remapped:
        external:
        - 10.70.0.0/16
        pod:
        - 10.71.0.0/16
      remote:
        external:
        - 10.70.0.0/16
        pod:
        - 10.200.0.0/16
    alerts:
    - 'ConnectionError: the tunnel is down'
    connection:
      failedNodes:
      - worker-1
      - worker-2
      latency: 3ms
      status: Error
    gateway:
      address:
      - 172.18.0.3
      mtu: 1340
      port: 32133
      role: Server
      toldEndpoints:
      - 172.18.0.4:32133
    status: Unhealthy
  offloading:
    status: Healthy
    virtualNodes:
    - name: milan
      resourceSlice: slice
      resources:
        cpu: "4"
        memory: 8Gi
      secret: kubeconfig-milan
      status: Healthy
`

func TestInfoAboutPeers(t *testing.T) {
	c := testkit.Cluster(t)
	ask := func(args ...string) result { return liqoctl(t, c.Config, append([]string{"info", "peer"}, args...)...) }
	ask().refuses(t, "Liqo is not installed in the current cluster!")
	liqo := peerings(t, c)
	for query, want := range map[string]string{
		"":                                 milanAsADocument,
		"network.gateway.port":             "32133\n",
		"milan.network.gateway.address[0]": "172.18.0.3\n",
		"network.cidrs.remapped.pod":       "- 10.71.0.0/16\n",
		"authentication.alerts":            "[]\n",
		"milan.offloading.virtualnodes[0].secret":  "kubeconfig-milan\n",
		"authentication.resourceslices.0.accepted": "true\n",
		"authentication.resourceSlices.slice.name": "slice\n",
		"network.gateway.ports":                    "[]\n",
		"network.gateway.toldEndpoints":            "- 172.18.0.4:32133\n",
	} {
		r := ask("-n", liqo, "milan", "--get", query, "-o", "yaml")
		r.succeeds(t)
		if diff := cmp.Diff(want, r.stdout); diff != "" || r.stderr != "" {
			t.Errorf("%q: %s-want +got:\n%s", query, r.stderr, diff)
		}
	}
	r := ask("-n", liqo, "milan")
	r.succeeds(t)
	if diff := cmp.Diff(strings.TrimPrefix(milanOnTheScreen, "\n"), r.stdout); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	all := ask("-n", liqo)
	all.succeeds(t, "│ Cluster ID: turin ")
	if !strings.HasPrefix(all.stdout, r.stdout+"\n\n┌─ Peer cluster info ─") {
		t.Errorf("both are %s", all.stdout)
	}
	// Those that are asked for are shown, whoever else there is.
	ctltest.Lend(t, c, &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "naples"}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: "naples"}})
	if both := ask("-n", liqo, "milan", "turin"); both.err != nil || both.stdout != all.stdout {
		t.Errorf("of two that are asked for it says %v\n%s%s", both.err, both.stderr, both.stdout)
	}
	ask("-n", liqo, "milan", "turin", "--get", "turin.network.status").succeeds(t, "Disabled\n")
	ask("-n", liqo, "--get", "turin.network.status").succeeds(t, "Disabled\n")
	ask("-n", liqo, "--get", "network.status").refuses(t, `cluster "network" in query "network.status" is not among the requested clusters`)
	ask("-n", liqo, "milan", "--get", "turin.network").refuses(t, `cluster "turin" in query "turin.network" is not among the requested clusters`)
	ask("-n", liqo, "rome", "milan", "genoa").refuses(t, `Peer clusters "rome, genoa" not found in active peerings`)

	// Scripts read the exit code only if they asked for one that tells.
	ask("-n", liqo, "turin", "--exit-code").succeeds(t)
	ask("-n", liqo, "--exit-code").refuses(t, " ERRO  the peering with milan is unhealthy")
	ask("-n", liqo, "--exit-code", "--get", "milan").refuses(t, "exit-code get")
	liqoctl(t, c.Config, "info", "-n", liqo).succeeds(t, "Liqo is unhealthy")
	liqoctl(t, c.Config, "info", "-n", liqo, "--exit-code", "-o", "json").refuses(t, "Liqo is unhealthy; the peering with milan is unhealthy; not all could be read")
	liqoctl(t, c.Config, "info", "-n", liqo, "--get", "health.healthy").succeeds(t, "false\n")

	// What is there twice or not at all is said, and the rest shown.
	second := &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: liqo, Name: "milan", Labels: map[string]string{names.RemoteClusterID: "milan"}}}
	ctltest.Lend(t, c, second)
	// Of two of the same second the first by the name of the namespace counts.
	younger := testkit.Namespace(t, c, "younger", nil)
	ctltest.Lend(t, c, &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: younger, Name: "milan", Labels: second.Labels}})
	ctltest.LendWithStatus(t, c, &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: liqo, Name: "unjudged", Labels: second.Labels}}, func(s *authv1beta1.ResourceSlice) {
		s.Status.Conditions = []authv1beta1.ResourceSliceCondition{{
			Type: authv1beta1.ResourceSliceConditionTypeAuthentication, Status: authv1beta1.ResourceSliceConditionAccepted, LastTransitionTime: metav1.Now(),
		}}
	})
	ask("-n", liqo, "milan", "-o", "json").succeeds(t, " WARN  reading the gateway of milan: 2 gateways exist instead of one",
		" WARN  reading the networks of milan: 2 Configurations exist instead of one", `"status": "Unhealthy"`, `"10.71.0.0/16"`, `"accepted": false`)
}

// A command that watches shows each change, one that waits shows the healthy end.
func TestInfoWatch(t *testing.T) {
	c := testkit.Cluster(t)
	liqo := peerings(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			Args:  []string{"liqoctl", "info", "peer", "milan", "-n", liqo, "--watch", "-o", "wide", "--kubeconfig", kubeconfigFile(t, c.Config)},
			Stdin: strings.NewReader(""), Stdout: write, Stderr: io.Discard, Chart: deploy.Chart(),
		})
		write.Close()
	}()
	lines := bufio.NewScanner(read)
	next := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Join(strings.Fields(lines.Text()), " ") == want {
				return
			}
		}
		t.Fatalf("the output ended before %q", want)
	}
	next("CLUSTER ID ROLE NETWORKING AUTHENTICATION OFFLOADING ALERTS")
	next("milan Provider Unhealthy Healthy Healthy ConnectionError")
	waiting, says := io.Pipe()
	waited, out := make(chan error, 1), &bytes.Buffer{}
	go func() {
		waited <- Run(t.Context(), Options{
			Args:  []string{"liqoctl", "info", "peer", "milan", "-n", liqo, "--wait", "healthy", "-o", "wide", "--kubeconfig", kubeconfigFile(t, c.Config)},
			Stdin: strings.NewReader(""), Stdout: out, Stderr: says, Chart: deploy.Chart(),
		})
		says.Close()
	}()
	progress := bufio.NewScanner(waiting)
	for progress.Scan() && !strings.Contains(progress.Text(), "the peering with milan is unhealthy") {
	}
	go func() { _, _ = io.Copy(io.Discard, waiting) }()
	if len(waited) > 0 || out.Len() > 0 {
		t.Fatalf("the command does not wait: %q", out)
	}
	milan := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(milan), milan); err != nil {
		t.Fatal(err)
	}
	testkit.UpdateStatus(t, c.Client, milan, func(fc *liqov1beta1.ForeignCluster) {
		fc.Status.Modules.Networking.Conditions[0].Status = liqov1beta1.ConditionEstablished
	})
	next("milan Provider Healthy Healthy Healthy")
	if err := <-waited; err != nil || out.String() != "CLUSTER ID   ROLE       NETWORKING   AUTHENTICATION   OFFLOADING   ALERTS\nmilan        Provider   Healthy      Healthy          Healthy      \n" {
		t.Errorf("the command that waited: %v, %q", err, out)
	}
	cancel()
	go func() { _, _ = io.Copy(io.Discard, read) }()
	if err := <-ended; err != nil {
		t.Errorf("after an interrupt: %v", err)
	}

	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"installation_without_pods": {[]string{"info"}, "Liqo is unhealthy"},
		"no_module":                 {[]string{"info", "peer", "turin"}, "the peering with turin has no module in use"},
		"unknown_peer":              {[]string{"info", "peer", "oslo"}, `Peer clusters "oslo" not found in active peerings`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			liqoctl(t, c.Config, append(test.args, "-n", liqo, "--wait", "healthy", untilMissing(test.want))...).refuses(t, test.want)
		})
	}
}

func TestCheckCommand(t *testing.T) {
	c := testkit.Cluster(t)
	ask := func(args ...string) result { return liqoctl(t, c.Config, append([]string{"check"}, args...)...) }
	ask().refuses(t, "Liqo is not installed in the current cluster!")
	liqo := peerings(t, c)
	broken := ask("-n", liqo, "--peer", "milan")
	broken.refuses(t, " checks failed")
	for _, want := range []string{"peer milan\n----------\n", "\n× network: the tunnel is connected (3ms)\n    Connection tenant-milan", "  → check that UDP reaches", "  see docs/troubleshooting.md#connectionerror\n"} {
		if !strings.Contains(broken.stdout, want) {
			t.Errorf("%q is missing:\n%s", want, broken.stdout)
		}
	}
	ask("-n", liqo, "--peer", "turin").succeeds(t, "peer turin\n", " checks passed, 0 with a warning")
	ask("-n", liqo, "--peer", "turin", "--wait", "1m", "-o", "json").succeeds(t, `"healthy": true`)
	ask("-n", liqo, "--peer", "rome").refuses(t, `Peer clusters "rome" not found in active peerings`)
	ask("-n", liqo).refuses(t, " checks failed")
	ask("--pre", "--wait", "1s").refuses(t, "pre wait")
	ask("-n", liqo, "--pre").succeeds(t, "√ you may install\n")
}

func TestFleetCommand(t *testing.T) {
	c := testkit.Cluster(t)
	ask := func(args ...string) result { return liqoctl(t, c.Config, append([]string{"fleet"}, args...)...) }
	ask().refuses(t, "Liqo is not installed in the current cluster!")
	liqo := peerings(t, c)
	table := ask("-n", liqo)
	table.succeeds(t)
	for _, want := range []string{"CLUSTER ", "\nmilan ", "Error 3ms", "\nturin "} {
		if !strings.Contains(table.stdout, want) {
			t.Errorf("%q is missing:\n%s", want, table.stdout)
		}
	}
	var d fleet.Document
	r := ask("-n", liqo, "-o", "json")
	if err := json.Unmarshal([]byte(r.stdout), &d); r.err != nil || err != nil {
		t.Fatal(r.err, err, r.stderr)
	}
	if len(d.Peers) != 2 || len(d.Tunnels) != 1 || d.Tunnels[0].Peer != "milan" || d.Check == nil || d.Check.Failed == 0 || d.Cluster.Kubernetes == "" || len(d.Unreadable) > 0 {
		t.Errorf("the document is %s", r.stdout)
	}
	ask("-n", liqo, "-o", "table").refuses(t, `--output is json or yaml, not "table"`)
}

// Who may read the namespace of Liqo alone is told what is there, and of the rest that it could not be read.
func TestInfoForbidden(t *testing.T) {
	c := testkit.Cluster(t)
	liqo := testkit.Namespace(t, c, "liqo", nil)
	ctltest.Lend(t, c, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: liqo, Name: "id", Labels: map[string]string{names.AppName: names.ClusterIDApp}}, Data: map[string]string{names.ClusterIDKey: "rome"},
	})
	user := c.User(t, "reader-of-"+liqo)
	testkit.Allow(t, c, liqo, "reader-of-"+liqo, testkit.Rule("", "configmaps", "get", "list"), testkit.Rule("", "pods", "list"))
	ask := func(args ...string) result { return liqoctl(t, user, append([]string{"info", "-n", liqo}, args...)...) }
	if r := ask("--get", "clusterid"); r.err != nil || r.stdout != "rome\n" || r.stderr != "" {
		t.Errorf("%v: %q, %q", r.err, r.stdout, r.stderr)
	}
	ask("--get", "network.podcidrs").refuses(t, "error: reading the networks", "forbidden")
	ask("--get", "health.healthy").refuses(t, "error: looking at the ", "forbidden")
	ask().succeeds(t, "Cluster ID: ", "rome", " WARN  reading the peerings", " WARN  looking at the health of the gateways")
}
