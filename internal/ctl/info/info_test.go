// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package info

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/testkit"
)

func sampleReport() *infoReport {
	return &infoReport{
		Local: localInfo{
			ClusterID: "cl01", Version: "v1.0.0", APIServerAddr: "https://10.0.0.1:6443",
			Labels: map[string]string{"region": "eu", "topology.liqo.io/type": "edge"},
		},
		Health: healthInfo{
			UnhealthyPods: map[string]unhealthyPod{"liqo-x": {Status: "Pending", TotalContainers: 2, Restarts: 3}},
			Healed:        []string{"cl02: NetworkConnectionStatus is Established again, after 3m20s of ConnectionError (2026-11-30T03:20:00Z)"},
		},
		Network: &networkInfo{PodCIDRs: []string{"10.200.0.0/16", "fd00::/56"}, ServiceCIDR: "10.80.0.0/12", ExternalCIDR: "10.70.0.0/16"},
		Peerings: peeringsInfo{Peers: []peerInfo{
			{ClusterID: "cl02", Role: "Provider", NetworkingStatus: "Disabled", AuthenticationStatus: "Healthy", OffloadingStatus: "Unhealthy",
				Alerts: []string{"NodesNotReady: 0 of 1 virtual nodes are ready"}},
		}},
	}
}

func TestInfoText(t *testing.T) {
	var stdout bytes.Buffer
	c := &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), &stdout, &bytes.Buffer{})}
	printInfo(c, sampleReport())
	want := `
┌─ Local installation info ────────────────────────────────────────────────────┐
│ Cluster ID:     cl01                                                         │
│ Version:        v1.0.0                                                       │
│ K8s API server: https://10.0.0.1:6443                                        │
│ Cluster labels                                                               │
│     region:                eu                                                │
│     topology.liqo.io/type: edge                                              │
└──────────────────────────────────────────────────────────────────────────────┘
┌─ Installation health ────────────────────────────────────────────────────────┐
│ ✖    Liqo is unhealthy                                                       │
│ Unhealthy pods                                                               │
│     liqo-x: Status: Pending, Ready: 0/2, Restarts: 3                         │
│ Healed                                                                       │
│     cl02: NetworkConnectionStatus is Established again, after 3m20s of       │
│     ConnectionError (2026-11-30T03:20:00Z)                                   │
└──────────────────────────────────────────────────────────────────────────────┘
┌─ Network ────────────────────────────────────────────────────────────────────┐
│ Pod CIDRs:                                                                   │
│     - 10.200.0.0/16                                                          │
│     - fd00::/56                                                              │
│ Service CIDR:  10.80.0.0/12                                                  │
│ External CIDR: 10.70.0.0/16                                                  │
│ Internal CIDR:                                                               │
└──────────────────────────────────────────────────────────────────────────────┘
┌─ Active peerings ────────────────────────────────────────────────────────────┐
│ cl02                                                                         │
│     Role:                  Provider                                          │
│     Networking status:     Disabled                                          │
│     Authentication status: Healthy                                           │
│     Offloading status:     Unhealthy                                         │
│     Alerts                                                                   │
│         NodesNotReady: 0 of 1 virtual nodes are ready                        │
│           → see the VirtualNode and its node: liqoctl check names the fault  │
│           see docs/troubleshooting.md#the-node-is-not-there-or-not-ready     │
└──────────────────────────────────────────────────────────────────────────────┘
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), stdout.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestInfoDocument(t *testing.T) {
	want := `health:
  healed:
  - 'cl02: NetworkConnectionStatus is Established again, after 3m20s of ConnectionError
    (2026-11-30T03:20:00Z)'
  healthy: false
  unhealthyPods:
    liqo-x:
      readyContainers: 0
      restarts: 3
      status: Pending
      totalContainers: 2
local:
  APIServerAddr: https://10.0.0.1:6443
  clusterID: cl01
  labels:
    region: eu
    topology.liqo.io/type: edge
  version: v1.0.0
peerings:
  peers:
  - alerts:
    - 'NodesNotReady: 0 of 1 virtual nodes are ready'
    authenticationStatus: Healthy
    clusterID: cl02
    networkingStatus: Disabled
    offloadingStatus: Unhealthy
    role: Provider
`
	report := sampleReport()
	report.Network = nil
	var yaml, json bytes.Buffer
	if err := cluster.PrintDocument(&yaml, documentOf(report), "yaml"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, yaml.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := cluster.PrintDocument(&json, documentOf(report), "json"); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(json.String(), "{\n  \"health\": {\n    \"healed\": [\n") {
		t.Errorf("JSON is %s", json.String())
	}
}

func TestQueryFields(t *testing.T) {
	for query, want := range map[string]string{
		"local.clusterid":                      "cl01\n",
		".local.ClusterID":                     "cl01\n",
		"local.apiserveraddr":                  "https://10.0.0.1:6443\n",
		"local.labels.region":                  "eu\n",
		"local.labels.topology.liqo.io/type":   "edge\n",  // a key with dots
		"health.healthy":                       "false\n", // a zero value is a value
		"health.unhealthypods.liqo-x.restarts": "3\n",
		"network.podcidrs":                     "- 10.200.0.0/16\n- fd00::/56\n",
		"local.clusterlabels.region":           "eu\n",
		"local.labels":                         "region: eu\ntopology.liqo.io/type: edge\n",
		"local.apiserveraddress":               "https://10.0.0.1:6443\n",
		"health.unhealthypods":                 "liqo-x:\n  readyContainers: 0\n  restarts: 3\n  status: Pending\n  totalContainers: 2\n",
		"health.unhealthyPods.liqo-x.reason":   "\n", // a field that the document leaves out
		"health.missingpods":                   "{}\n",
		"network.podcidr":                      "- 10.200.0.0/16\n- fd00::/56\n", // other versions say so
		"network.cidr":                         "- 10.200.0.0/16\n- fd00::/56\n",
		"network.podcidrs[1]":                  "fd00::/56\n",
		"network.internalcidr":                 "\n",
		"peerings.peers[0].role":               "Provider\n",
		"peerings.peers.0.networkingstatus":    "Disabled\n",
		"peerings.peers.cl02.role":             "Provider\n",
	} {
		value, err := lookUp(sampleReport(), query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		var printed bytes.Buffer
		if err := cluster.PrintValue(&printed, value, ""); err != nil || printed.String() != want {
			t.Errorf("%s is %q, want %q: %v", query, printed.String(), want, err)
		}
	}
}

func TestQueryNotFound(t *testing.T) {
	for query, want := range map[string]string{
		"nothing":                `invalid query "nothing": "nothing" not found`,
		"local.clusterid.deeper": `invalid query "local.clusterid.deeper": "deeper" is not an object`,
		"peerings.peers[1]":      `invalid query "peerings.peers[1]": "1" is neither an index below 1 nor a name in the list`,
		"peerings.peers.cl03":    `invalid query "peerings.peers.cl03": "cl03" is neither an index below 1 nor a name in the list`,
		"local.labels.none":      `invalid query "local.labels.none": "none" not found`,
		"local.labels.alerts":    `invalid query "local.labels.alerts": "alerts" not found`, // a field elsewhere
		"health.moods":           `invalid query "health.moods": "moods" not found`,
	} {
		if _, err := lookUp(sampleReport(), query); err == nil || err.Error() != want {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestQuerySingular(t *testing.T) {
	report := sampleReport()
	report.Network.PodCIDRs = report.Network.PodCIDRs[:1]
	for query, want := range map[string]any{
		"network.podcidr":  "10.200.0.0/16",
		"network.cidr":     "10.200.0.0/16",
		"network.podcidrs": []any{"10.200.0.0/16"},
	} {
		got, err := lookUp(report, query)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", query, err, diff)
		}
	}
}

func TestQueryEmptyFields(t *testing.T) {
	report := map[string]*peerReport{"milan": {}}
	for query, want := range map[string]string{
		"network.gateway":                       "address: null\nport: 0\nrole: \"\"\n",
		"network.gateway.port":                  "0\n",
		"network.gateway.ports":                 "[]\n",
		"network.gateway.mtu":                   "0\n",
		"network.alerts":                        "[]\n",
		"network.cidrs.remapped.pod":            "[]\n",
		"network.cidr.remote.external":          "[]\n",
		"network.connection.latency":            "\n",
		"network.connection.failednodes":        "[]\n",
		"authentication.resourceslices":         "[]\n",
		"authentication.apiserveraddr":          "\n",
		"offloading.virtualnodes":               "[]\n",
		"milan.offloading.status":               "\n",
		".milan.info.clusterid":                 "\n",
		"milan.authentication.alerts":           "[]\n",
		"milan.network.CIDRs.Remote.Pod":        "[]\n",
		"network.connection.failedNodes":        "[]\n",
		"milan.network.gateway.address":         "[]\n",
		"milan.offloading.virtualNodes":         "[]\n",
		"Authentication.resourceSlices":         "[]\n",
		"milan.authentication.apiServerAddress": "\n",
	} {
		value, err := lookUpPeer(report, query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		var printed bytes.Buffer
		if err := cluster.PrintValue(&printed, value, ""); err != nil || printed.String() != want {
			t.Errorf("%s is %q, want %q: %v", query, printed.String(), want, err)
		}
	}
}

func TestQueryUnreadableField(t *testing.T) {
	trouble := []infoProblem{{section: "local", err: errors.New("no rights")}}
	for rule, tc := range map[string]struct {
		get      string
		value    any
		problems []infoProblem
		want     string // on standard output
		fails    bool
		warns    bool
	}{
		"an empty value":                    {get: "local.clusterid", value: "", want: "\n"},
		"one that could not be read":        {get: "local.clusterid", value: "", problems: trouble, fails: true},
		"one that could, of a part":         {get: "local.clusterid", value: "rome", problems: trouble, want: "rome\n"},
		"a part of which some could not":    {get: "local", value: map[string]any{"a": "b", "c": ""}, problems: trouble, want: "a: b\nc: \"\"\n", warns: true},
		"health of which some is not known": {get: "health.healthy", value: true, problems: trouble, want: "true\n", warns: true},
		"unhealthy as far as one can see":   {get: "health.healthy", value: false, problems: trouble, fails: true},
		"unhealthy":                         {get: "health.healthy", value: false, want: "false\n"},
	} {
		var stdout, stderr bytes.Buffer
		c := &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), &stdout, &stderr)}
		err := printField(c, &infoOptions{get: tc.get}, tc.value, tc.problems)
		if (err != nil) != tc.fails || stdout.String() != tc.want || strings.Contains(stderr.String(), " WARN  no rights") != tc.warns {
			t.Errorf("%s: %v, %q, %q", rule, err, stdout.String(), stderr.String())
		}
	}
}

func TestModuleStatus(t *testing.T) {
	condition := func(s liqov1beta1.ConditionStatus) []liqov1beta1.Condition {
		return []liqov1beta1.Condition{{Type: liqov1beta1.APIServerStatus, Status: s}}
	}
	for want, m := range map[string]liqov1beta1.Module{
		"Disabled":  {Conditions: condition(liqov1beta1.ConditionError)},
		"Healthy":   {Enabled: true, Conditions: append(condition(liqov1beta1.ConditionEstablished), condition(liqov1beta1.ConditionReady)...)},
		"Unhealthy": {Enabled: true, Conditions: append(condition(liqov1beta1.ConditionReady), condition(liqov1beta1.ConditionPending)...)},
	} {
		if got := diagnose.ModuleStatus(m); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestAlertNotReplicated(t *testing.T) {
	for _, c := range []struct {
		condition liqov1beta1.ConditionStatus
		message   string
		enabled   bool
		module    liqov1beta1.ConditionStatus
		status    string
		alert     string
	}{
		{liqov1beta1.ConditionEstablished, peer.Answers, true, liqov1beta1.ConditionReady, diagnose.Healthy, ""},
		{liqov1beta1.ConditionEstablished, peer.RefusesSome + "no", true, liqov1beta1.ConditionReady, diagnose.Healthy, peer.RefusesSome + "no"},
		{liqov1beta1.ConditionEstablished, peer.TakesNotAll + "resourceslices/x: y", true, liqov1beta1.ConditionReady, diagnose.Healthy, peer.TakesNotAll + "resourceslices/x: y"},
		{liqov1beta1.ConditionError, "no credentials", true, liqov1beta1.ConditionReady, diagnose.Healthy, "no credentials"}, // of one that is a consumer, too
		{liqov1beta1.ConditionError, "no credentials", false, "", "Disabled", "no credentials"},
		{liqov1beta1.ConditionError, "no answer", true, liqov1beta1.ConditionNotReady, diagnose.Unhealthy, " is NotReady"}, // the module tells
	} {
		fc := &liqov1beta1.ForeignCluster{}
		fc.Status.Conditions = []liqov1beta1.Condition{{Type: liqov1beta1.APIServerStatus, Status: c.condition, Message: c.message}}
		fc.Status.Modules.Authentication = liqov1beta1.Module{Enabled: c.enabled, Conditions: []liqov1beta1.Condition{{Status: c.module}}}
		if got := authenticationOf(fc); got.Status != c.status || strings.Join(got.Alerts, "; ") != c.alert {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

func TestMisbehaviourAlert(t *testing.T) {
	fc := &liqov1beta1.ForeignCluster{}
	fc.Status.Modules.Authentication = liqov1beta1.Module{Enabled: true, Conditions: []liqov1beta1.Condition{{Status: liqov1beta1.ConditionReady}}}
	fc.Status.Conditions = []liqov1beta1.Condition{{Type: liqov1beta1.PeerMisbehaves, Status: liqov1beta1.ConditionError, Reason: "TooManyWrites", Message: "why"}}
	got := authenticationOf(fc)
	if diff := cmp.Diff([]string{"TooManyWrites: why"}, got.Alerts); diff != "" || got.Status != diagnose.Healthy {
		t.Errorf("%s: -want +got:\n%s", got.Status, diff)
	}
	if remedy, page := diagnose.Advise(got.Alerts[0]); remedy == "" || !strings.Contains(page, "toomanywrites") {
		t.Errorf("%q %q", remedy, page)
	}
}

func TestInfoAPIServerAddress(t *testing.T) {
	c := testkit.Cluster(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "of-six", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}}
	testkit.Create(t, c.Client, node)
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), node) })
	testkit.UpdateStatus(t, c.Client, node, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "fd00::1"}}
	})
	got, err := (&Collector{Reader: c.Client}).apiServer(t.Context(), "")
	if want := "https://[fd00::1]:6443"; err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}
