// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

var update = flag.Bool("update", false, "rewrite the golden documents")

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// newCertificate returns a certificate of a user that is valid for ten days.
func newCertificate(t *testing.T, user string) []byte {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: user}, NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(9 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func resources(cpu string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
}

// newPodOf returns a pod of a namespace that requests half a CPU.
func newPodOf(namespace, name, node string, ready bool, labels map[string]string) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: resources("500m")}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
	if ready {
		p.Status.Phase, p.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return p
}

// newFacts returns those of a cluster rome: milan is a provider and a consumer, turin has only been named.
func newFacts(t *testing.T) *Facts {
	t.Helper()
	at := func(name string, labels ...string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: name, Labels: map[string]string{names.RemoteClusterID: "milan"}}
		for i := 0; i < len(labels); i += 2 {
			m.Labels[labels[i]] = labels[i+1]
		}
		return m
	}
	ready := liqov1beta1.Module{Enabled: true, Conditions: []liqov1beta1.Condition{{Type: liqov1beta1.AuthTenantStatus, Status: liqov1beta1.ConditionReady}}}
	milan := liqov1beta1.ForeignCluster{Spec: liqov1beta1.ForeignClusterSpec{ClusterID: "milan"}, Status: liqov1beta1.ForeignClusterStatus{
		Role: liqov1beta1.ConsumerAndProviderRole, Version: "v1.2.0", Modules: liqov1beta1.Modules{Authentication: ready, Offloading: ready, Networking: liqov1beta1.Module{
			Enabled: true, Conditions: []liqov1beta1.Condition{{Type: liqov1beta1.NetworkConnectionStatus, Status: liqov1beta1.ConditionError, Reason: "ConnectionError", Message: "the tunnel\x1b[2J is down"}},
		}},
	}}
	milan.Status.Conditions = []liqov1beta1.Condition{{Type: liqov1beta1.PeerMisbehaves, Status: liqov1beta1.ConditionError, Reason: "TooManyWrites", Message: "what it does makes this cluster write too much"}}
	connection := networkingv1beta1.Connection{ObjectMeta: at("gw-milan"), Spec: networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionTypeClient}}
	connection.Status = networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.ConnectionError, Latency: networkingv1beta1.ConnectionLatency{Value: "3.25ms"}, Lost: networkingv1beta1.LostLarge, MTU: 1340}
	accepted := []authv1beta1.ResourceSliceCondition{{Type: authv1beta1.ResourceSliceConditionTypeResources, Status: authv1beta1.ResourceSliceConditionAccepted}}
	given := &authv1beta1.AuthParams{SignedCRT: newCertificate(t, "user-of-milan")}
	signed := authv1beta1.AuthParams{SignedCRT: newCertificate(t, "rome")}
	consumed := authv1beta1.ResourceSlice{ObjectMeta: at("big"), Spec: authv1beta1.ResourceSliceSpec{Class: "default", Resources: resources("4")},
		Status: authv1beta1.ResourceSliceStatus{Conditions: accepted, Resources: resources("2")}}
	provided := authv1beta1.ResourceSlice{ObjectMeta: at("theirs", names.Replicated, "true"), Spec: authv1beta1.ResourceSliceSpec{Class: "default", Resources: resources("1")},
		Status: authv1beta1.ResourceSliceStatus{Conditions: accepted, Resources: resources("1"), AuthParams: given}}
	denied := authv1beta1.ResourceSlice{ObjectMeta: at("gold"), Spec: authv1beta1.ResourceSliceSpec{Class: "gold"}, Status: authv1beta1.ResourceSliceStatus{
		Conditions: []authv1beta1.ResourceSliceCondition{{Type: authv1beta1.ResourceSliceConditionTypeResources, Status: authv1beta1.ResourceSliceConditionDenied, Message: "no such class"}}}}
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	waiting := newPodOf("shop", "big-0", "", false, nil)
	waiting.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/2 nodes are available"}}
	shadow := map[string]string{names.ShadowPod: "true"}
	event := func(name, reason string, ago time.Duration) corev1.Event {
		return corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Connection", Namespace: "liqo-tenant-milan", Name: name}, Type: corev1.EventTypeWarning, Reason: reason, Message: "why",
			EventTime: metav1.NewMicroTime(now.Add(-ago))}
	}
	series := event("gw-milan", "Lost", time.Hour)
	series.Series = &corev1.EventSeries{Count: 7, LastObservedTime: metav1.NewMicroTime(now.Add(-time.Second))}
	return &Facts{
		ClusterID: "rome", WebhookAuthority: newCertificate(t, "liqo-webhook"),
		Facts: &diagnose.Facts{
			Now: now, ServerVersion: "v1.37.0", Namespace: "liqo", Unreadable: map[string]string{"Lease": "leases is forbidden"},
			Deployments: []appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-controller-manager", Labels: map[string]string{names.AppName: "controller-manager", names.AppVersion: "v1.3.0"}}}},
			Peers:       []liqov1beta1.ForeignCluster{{Spec: liqov1beta1.ForeignClusterSpec{ClusterID: "turin"}, Status: liqov1beta1.ForeignClusterStatus{Role: liqov1beta1.UnknownRole}}, milan},
			Namespaces:  []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-milan", Labels: map[string]string{names.RemoteClusterID: "milan"}}}},
			Nodes:       []corev1.Node{node},
			Connections: []networkingv1beta1.Connection{connection},
			Slices:      []authv1beta1.ResourceSlice{provided, consumed, denied},
			Identities:  []authv1beta1.Identity{{ObjectMeta: at("controlplane-milan"), Spec: authv1beta1.IdentitySpec{ClusterID: "milan", AuthParams: signed}}},
			Tenants:     []authv1beta1.Tenant{{ObjectMeta: at("milan"), Spec: authv1beta1.TenantSpec{ClusterID: "milan"}, Status: authv1beta1.TenantStatus{AuthParams: given}}},
			VirtualNodes: []offv1beta1.VirtualNode{{ObjectMeta: at("milan", names.ResourceSliceName, "big"), Spec: offv1beta1.VirtualNodeSpec{ClusterID: "milan", ResourceQuota: corev1.ResourceQuotaSpec{Hard: resources("2")}},
				Status: offv1beta1.VirtualNodeStatus{Conditions: []offv1beta1.VirtualNodeCondition{{Type: offv1beta1.NodeConditionType, Status: offv1beta1.RunningConditionStatusType}}}}},
			OffloadedPods: []corev1.Pod{newPodOf("shop", "web-0", "milan", true, shadow), newPodOf("shop", "web-1", "milan", false, shadow)},
		},
		Offloadings: []offv1beta1.NamespaceOffloading{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "offloading"},
			Spec: offv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: offv1beta1.LocalAndRemotePodOffloadingStrategyType},
			Status: offv1beta1.NamespaceOffloadingStatus{RemoteNamespaceName: "shop-rome", OffloadingPhase: offv1beta1.SomeFailedOffloadingPhaseType, RemoteNamespacesConditions: map[string]offv1beta1.RemoteNamespaceConditions{
				"milan":  {{Type: offv1beta1.NamespaceReady, Status: corev1.ConditionTrue}, {Type: offv1beta1.NamespacePodSecuritySatisfied, Status: corev1.ConditionFalse, Reason: "PodsForbidden", Message: "refused, such as web"}},
				"naples": {{Type: offv1beta1.NamespaceReady, Status: corev1.ConditionFalse, Reason: "Refused", Message: "reserved name"}},
			}}}},
		Pods: []corev1.Pod{
			newPodOf("shop", "web-0", "milan", true, shadow), waiting, newPodOf("shop", "db-0", "worker", true, nil),
			newPodOf("theirs", "job-0", "worker", true, map[string]string{names.ManagedBy: names.ManagedByShadowPod, names.OffloadingOrigin: "milan", names.CreatorUser: policy.CreatorUser("user-of-milan")}),
		},
		Events: []corev1.Event{event("old", "Old", 2*time.Hour), event("gw-milan", "New", time.Minute), series},
	}
}

func TestDocument(t *testing.T) {
	f := newFacts(t)
	d := New(f)
	if diff := cmp.Diff(diagnose.NewReport(f.Groups()), d.Check); diff != "" {
		t.Error(diff)
	}
	d.Check = &diagnose.Report{Groups: []diagnose.Group{}} // its rules have tests of their own
	checkGolden(t, "testdata/fleet.json", d)
	checkGolden(t, "testdata/objects.json", objectsOf(f))
}

// objectsOf returns the facts as lists of objects by kind: what the tests of plugins/headlamp make the same document of.
func objectsOf(f *Facts) map[string]any {
	return map[string]any{"now": f.Now, "clusterID": f.ClusterID, "kubernetes": f.ServerVersion, "unreadable": f.Unreadable, "objects": map[string]any{
		"Deployment": f.Deployments, "ForeignCluster": f.Peers, "Namespace": f.Namespaces, "Node": f.Nodes, "Connection": f.Connections, "ResourceSlice": f.Slices,
		"Identity": f.Identities, "Tenant": f.Tenants, "VirtualNode": f.VirtualNodes, "NamespaceOffloading": f.Offloadings, "Pod": slices.Concat(f.OffloadedPods, f.Pods), "Event": f.Events,
		"MutatingWebhookConfiguration": []admissionv1.MutatingWebhookConfiguration{{ObjectMeta: metav1.ObjectMeta{Name: names.WebhookConfiguration},
			Webhooks: []admissionv1.MutatingWebhook{{ClientConfig: admissionv1.WebhookClientConfig{CABundle: f.WebhookAuthority}}}}},
	}}
}

// checkGolden compares a document with a file, or writes it there.
func checkGolden(t *testing.T, golden string, content any) {
	t.Helper()
	data, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(want)), string(data)); diff != "" {
		t.Errorf("%s is old, rewrite it: go test ./internal/ctl/fleet -update, then test/run.sh headlamp (-golden +now)\n%s", golden, diff)
	}
}

func TestRows(t *testing.T) {
	var got []string
	for _, r := range New(newFacts(t)).Rows() {
		got = append(got, fmt.Sprintf("%s %s %s %d tunnels %d slices %d nodes %d/%d pods", r.Cluster, r.Role, r.Phase, len(r.Tunnels), r.Slices, r.Nodes, r.Waiting, r.Pods))
	}
	want := []string{"rome Local Healthy 0 tunnels 0 slices 0 nodes 1/2 pods", "milan ConsumerAndProvider Unhealthy 1 tunnels 3 slices 1 nodes 1/3 pods", "turin Unknown Pending 0 tunnels 0 slices 0 nodes 0/0 pods"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestDocumentedFields has the page name every field.
func TestDocumentedFields(t *testing.T) {
	page, err := os.ReadFile("../../../docs/dashboard.md")
	if err != nil {
		t.Fatal(err)
	}
	var visit func(reflect.Type)
	visit = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Slice, reflect.Pointer:
			visit(of.Elem())
		case reflect.Struct:
			for i := range of.NumField() {
				field := of.Field(i)
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				if !strings.Contains(string(page), "`"+name+"`") {
					t.Errorf("docs/dashboard.md does not document %s.%s", of.Name(), name)
				}
				if strings.HasSuffix(field.Type.PkgPath(), "/fleet") || field.Type.Kind() == reflect.Slice {
					visit(field.Type)
				}
			}
		}
	}
	visit(reflect.TypeFor[Document]())
}

// TestDocumentBounds has what a peer may write in any size.
func TestDocumentBounds(t *testing.T) {
	f := newFacts(t)
	long := strings.Repeat("x", 100_000)
	f.Peers[1].Status.Version = long
	f.Peers[1].Status.Conditions = []liqov1beta1.Condition{{Type: liqov1beta1.APIServerStatus, Status: liqov1beta1.ConditionError, Message: long}}
	f.Slices[1].Status.Resources = corev1.ResourceList{}
	for i := range 1000 {
		f.Slices[1].Status.Resources[corev1.ResourceName(fmt.Sprint("example.com/", i))] = resource.MustParse("1")
		f.Events = append(f.Events, corev1.Event{Reason: long, Message: long})
	}
	f.Pods[3].Labels[names.OffloadingOrigin] = long
	f.Pods[1].Status.Conditions[0].Message = long
	f.Offloadings[0].Status.RemoteNamespacesConditions["naples"][0].Message = long
	f.Unreadable["Pod"] = long
	d := New(f)
	d.Check = nil
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 700_000 || len(d.Events) != maxEvents {
		t.Errorf("the document has %d bytes and %d events", len(data), len(d.Events))
	}
}
