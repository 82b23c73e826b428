// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/deploy"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/testkit"
)

var update = flag.Bool("update", false, "rewrite the pictures of the docs")

// hostileText is what a peer may write to have a page run it.
const hostileText = `<img id=hostile src=x onerror="document.title='hostile'">`

// town is an installation in a cluster "rome" with peers and pods.
type town struct {
	c    *testkit.ControlPlane
	liqo string
	// tenant is the namespace of all peers, shop the offloaded one.
	tenant, shop string
}

var cities = strings.Fields("milan turin naples genoa bologna florence bari catania verona venice messina padua trieste brescia parma prato modena reggio perugia ravenna livorno rimini cagliari foggia ferrara")

// cityName returns the ID of the peer with an index.
func cityName(i int) string {
	if i < len(cities) {
		return cities[i]
	}
	return fmt.Sprintf("%s-%d", cities[i%len(cities)], i/len(cities)+1)
}

// newTown creates peers that are healthy, with a virtual node each, and pods on these nodes, of which every twentieth waits.
func newTown(t *testing.T, peers, pods int) *town {
	t.Helper()
	c := testkit.Cluster(t)
	f := &town{c: c, liqo: testkit.Namespace(t, c, "liqo", nil), shop: testkit.Namespace(t, c, "shop", nil)}
	f.tenant = testkit.Namespace(t, c, "liqo-tenant", map[string]string{names.TenantNamespace: "true"})
	labels := map[string]string{names.AppPartOf: "liqo", names.AppName: "controller-manager", names.AppVersion: "v1.2.0"}
	testkit.Create(t, c.Client, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.liqo, Name: "id", Labels: map[string]string{names.AppName: names.ClusterIDApp}}, Data: map[string]string{names.ClusterIDKey: "rome"}})
	testkit.Create(t, c.Client, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.liqo, Name: "liqo-controller-manager", Labels: labels}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "m", Image: "liqo:v1.2.0"}}}},
	}})
	offloading := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: f.shop, Name: "offloading"}, Spec: offv1beta1.NamespaceOffloadingSpec{
		PodOffloadingStrategy: offv1beta1.RemotePodOffloadingStrategyType, NamespaceMappingStrategy: offv1beta1.DefaultNameMappingStrategyType}}
	offloading.Status.OffloadingPhase = offv1beta1.SomeFailedOffloadingPhaseType
	offloading.Status.RemoteNamespacesConditions = map[string]offv1beta1.RemoteNamespaceConditions{
		"milan": {{Type: offv1beta1.NamespaceReady, Status: corev1.ConditionFalse, Reason: "Refused", Message: hostileText}},
	}
	if err := addWithStatus(t.Context(), c.Client, offloading); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // other tests find what is cluster-scoped, and lists of all namespaces
		ctx := context.Background() // the test's own is over
		for _, obj := range []client.Object{&liqov1beta1.ForeignCluster{}, &corev1.Node{}} {
			if err := c.Client.DeleteAllOf(ctx, obj); err != nil {
				t.Error(err)
			}
		}
		for _, obj := range []client.Object{&networkingv1beta1.Connection{}, &networkingv1beta1.Configuration{}, &networkingv1beta1.GatewayClient{}, &networkingv1beta1.PublicKey{}, &authv1beta1.Identity{}, &authv1beta1.ResourceSlice{}, &offv1beta1.VirtualNode{}} {
			if err := c.Client.DeleteAllOf(ctx, obj, client.InNamespace(f.tenant)); err != nil {
				t.Error(err)
			}
		}
		for _, obj := range []client.Object{&offv1beta1.NamespaceOffloading{}, &corev1.Pod{}} {
			if err := c.Client.DeleteAllOf(ctx, obj, client.InNamespace(f.shop), client.GracePeriodSeconds(0)); err != nil {
				t.Error(err)
			}
		}
	})
	var all errgroup.Group
	all.SetLimit(24)
	for i := range peers {
		all.Go(func() error { return f.addPeer(t.Context(), cityName(i)) })
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		all.Go(func() error {
			name := []string{"web", "cart", "search", "mail"}[i%4]
			return f.addPod(t.Context(), fmt.Sprintf("%s-%04d", name, i), cityName(i%peers), i%20 != 7)
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	return f
}

// addWithStatus creates an object with its status.
func addWithStatus(ctx context.Context, c client.Client, obj client.Object) error {
	with := obj.DeepCopyObject().(client.Object)
	if err := c.Create(ctx, obj); err != nil {
		return fmt.Errorf("creating %T: %w", obj, err)
	}
	with.SetResourceVersion(obj.GetResourceVersion())
	if err := c.Status().Update(ctx, with); err != nil {
		return fmt.Errorf("writing the status of %T: %w", obj, err)
	}
	return nil
}

// addPeer creates the objects of a peer.
func (f *town) addPeer(ctx context.Context, id string) error {
	p := newPeer(f.tenant, id)
	if err := f.c.Client.Create(ctx, &p.key); err != nil {
		return fmt.Errorf("creating a PublicKey: %w", err)
	}
	if err := f.c.Client.Create(ctx, &p.identity); err != nil {
		return fmt.Errorf("creating an Identity: %w", err)
	}
	for _, obj := range []client.Object{&p.configuration, &p.gateway, &p.foreign, &p.connection, &p.slice, &p.virtualNode, &p.node} {
		if err := addWithStatus(ctx, f.c.Client, obj); err != nil {
			return err
		}
	}
	return nil
}

// peerObjects are the objects of a healthy peer that is a provider.
type peerObjects struct {
	foreign       liqov1beta1.ForeignCluster
	key           networkingv1beta1.PublicKey
	identity      authv1beta1.Identity
	configuration networkingv1beta1.Configuration
	gateway       networkingv1beta1.GatewayClient
	connection    networkingv1beta1.Connection
	slice         authv1beta1.ResourceSlice
	virtualNode   offv1beta1.VirtualNode
	node          corev1.Node
}

// newCertificate returns a certificate that is an hour old, and valid for a day.
func newCertificate(now time.Time) []byte {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		panic(err) // the key is a constant
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func newPeer(tenant, id string) *peerObjects {
	now := metav1.Now()
	at := metav1.ObjectMeta{Namespace: tenant, Name: id, Labels: map[string]string{names.RemoteClusterID: id, names.ResourceSliceName: id}}
	amounts := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("200")}
	}
	on := func(kind liqov1beta1.ConditionType, status liqov1beta1.ConditionStatus) liqov1beta1.Module {
		return liqov1beta1.Module{Enabled: true, Conditions: []liqov1beta1.Condition{{Type: kind, Status: status, LastTransitionTime: now}}}
	}
	p := &peerObjects{
		foreign: liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: liqov1beta1.ClusterID(id)}, Status: liqov1beta1.ForeignClusterStatus{
			Role: liqov1beta1.ProviderRole, Modules: liqov1beta1.Modules{Networking: on(liqov1beta1.NetworkConnectionStatus, liqov1beta1.ConditionEstablished),
				Authentication: on(liqov1beta1.AuthIdentityControlPlaneStatus, liqov1beta1.ConditionReady), Offloading: on(liqov1beta1.OffloadingNodeStatus, liqov1beta1.ConditionReady)},
			Conditions: []liqov1beta1.Condition{{Type: liqov1beta1.APIServerStatus, Status: liqov1beta1.ConditionEstablished, Message: peer.Answers, LastTransitionTime: now}},
		}},
		key: networkingv1beta1.PublicKey{ObjectMeta: at, Spec: networkingv1beta1.PublicKeySpec{PublicKey: bytes.Repeat([]byte{1}, 32)}},
		identity: authv1beta1.Identity{ObjectMeta: at, Spec: authv1beta1.IdentitySpec{
			ClusterID: liqov1beta1.ClusterID(id), Type: authv1beta1.ControlPlaneIdentityType, AuthParams: authv1beta1.AuthParams{SignedCRT: newCertificate(now.Time)},
		}},
		configuration: networkingv1beta1.Configuration{ObjectMeta: at},
		gateway: networkingv1beta1.GatewayClient{ObjectMeta: at, Status: networkingv1beta1.GatewayClientStatus{
			Conditions: []metav1.Condition{{Type: networkingv1beta1.ConditionGatewayReady, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: now}},
		}},
		connection: networkingv1beta1.Connection{ObjectMeta: at, Spec: networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionTypeClient}, Status: networkingv1beta1.ConnectionStatus{
			Value: networkingv1beta1.Connected, Latency: networkingv1beta1.ConnectionLatency{Value: fmt.Sprintf("%d.4ms", len(id)), Timestamp: now}, MTU: 1340,
		}},
		slice: authv1beta1.ResourceSlice{ObjectMeta: at, Spec: authv1beta1.ResourceSliceSpec{Class: "default", Resources: amounts("64", "128Gi")}, Status: authv1beta1.ResourceSliceStatus{
			Resources:  amounts("32", "64Gi"),
			Conditions: []authv1beta1.ResourceSliceCondition{{Type: authv1beta1.ResourceSliceConditionTypeResources, Status: authv1beta1.ResourceSliceConditionAccepted, LastTransitionTime: now}},
		}},
		virtualNode: offv1beta1.VirtualNode{ObjectMeta: at, Spec: offv1beta1.VirtualNodeSpec{
			ClusterID: liqov1beta1.ClusterID(id), KubeconfigSecretRef: &corev1.LocalObjectReference{Name: id}, ResourceQuota: corev1.ResourceQuotaSpec{Hard: amounts("32", "64Gi")},
		}, Status: offv1beta1.VirtualNodeStatus{
			Conditions: []offv1beta1.VirtualNodeCondition{{Type: offv1beta1.NodeConditionType, Status: offv1beta1.RunningConditionStatusType, LastTransitionTime: now}},
		}},
		node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: id, Labels: map[string]string{names.NodeType: names.NodeTypeVirtualNode}}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}},
	}
	p.configuration.Spec.Remote.CIDR = networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.200.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}
	p.configuration.Status.Remote = &p.configuration.Spec.Remote
	p.gateway.Spec.Endpoint = networkingv1beta1.EndpointStatus{Addresses: []string{"172.18.0.3"}, Port: 32133, Protocol: new(corev1.ProtocolUDP)}
	return p
}

func (f *town) addPod(ctx context.Context, name, node string, ready bool) error {
	return addWithStatus(ctx, f.c.Client, newOffloadedPod(f.shop, name, node, ready))
}

// newOffloadedPod returns a pod on a virtual node, or one that waits for a node.
func newOffloadedPod(namespace, name, node string, ready bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{names.ShadowPod: "true"}}, Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}}}},
	}, Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	if !ready {
		pod.Spec.NodeName, pod.Status.Phase = "", corev1.PodPending
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/51 nodes are available: 51 Insufficient cpu"}}
	}
	return pod
}

// session returns one of the program, as a user.
func (f *town) session(t *testing.T, cfg *rest.Config, stdout *lines) *cluster.Session {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, testkit.Kubeconfig(t, cfg), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), stdout, &bytes.Buffer{}), Chart: deploy.Chart(), KubeFlags: cluster.NewKubeFlags()}
	*c.KubeFlags.KubeConfig = path
	return c
}

// lines is what a command printed, until it is read.
type lines struct {
	once  sync.Once
	first chan string
}

func newLines() *lines { return &lines{first: make(chan string, 1)} }

// Write keeps the first line.
func (l *lines) Write(data []byte) (int, error) {
	l.once.Do(func() { l.first <- strings.TrimSpace(string(data)) })
	return len(data), nil
}

// serve runs the command until the end of the test, and returns the link.
func (f *town) serve(t *testing.T) string {
	t.Helper()
	stdout := newLines()
	c := f.session(t, f.c.Config, stdout)
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runDashboard(ctx, c, f.liqo, 0) }()
	t.Cleanup(func() {
		interrupt()
		if err := <-ended; err != nil {
			t.Errorf("the command ended with %v", err)
		}
	})
	select {
	case link := <-stdout.first:
		return link
	case err := <-ended:
		ended <- err
		t.Fatal(err)
		return ""
	}
}

// TestPage has a fleet of the largest supported size in a browser.
func TestPage(t *testing.T) {
	const peers, pods = 50, 5000
	f := newTown(t, peers, pods)
	link := f.serve(t)
	b := newBrowser(t)
	b.open(t, link, "light")
	b.wait(t, `document.getElementById("found").textContent === "5000 of 5000"`)
	b.wait(t, `document.querySelectorAll("#map g").length === 51`)
	b.evaluate(t, `window.loadedOnce = true`)
	for what, expression := range map[string]string{
		"the address keeps the token":           `location.hash === "" && !document.cookie`,
		"rows out of view have no elements":     `document.querySelectorAll("#list .row").length < 60`,
		"the counts":                            `document.getElementById("counts").textContent.includes("50 of 50 tunnels") && document.getElementById("counts").textContent.includes("5000 pods, 250 waiting")`,
		"a slice with what is used":             `document.querySelectorAll("#slices tbody tr").length === 50 && document.getElementById("slices").textContent.includes("cpu 25 of 32")`,
		"the certificates":                      `document.querySelectorAll("#certificates tbody tr").length === 50`,
		"the virtual nodes":                     `document.querySelectorAll("#nodes tbody tr").length === 50`,
		"the offloaded namespace":               `document.querySelectorAll("#namespaces tbody tr").length === 1`,
		"what is wrong with the installation":   `document.getElementById("findings").textContent.includes("liqo-controller-manager")`,
		"no HTML of a peer":                     `!document.getElementById("hostile") && document.getElementById("namespaces").textContent.includes("<img id=hostile")`,
		"names of inputs":                       `[...document.querySelectorAll("input")].every((i) => i.labels.length === 1)`,
		"names of parts":                        `[...document.querySelectorAll("section")].every((s) => document.getElementById(s.getAttribute("aria-labelledby")))`,
		"names of clusters for screen readers":  `[...document.querySelectorAll("#map g")].every((g) => g.getAttribute("aria-label") && g.tabIndex === 0)`,
		"rows that know their place":            `document.getElementById("list").getAttribute("aria-rowcount") === "5001"`,
		"no text as wide as to scroll the page": `document.documentElement.scrollWidth <= innerWidth`,
	} {
		if b.evaluate(t, expression) != true {
			t.Errorf("%s: not so: %s", what, expression)
		}
	}

	b.searchFor(t, "cart milan")
	b.wait(t, `document.getElementById("found").textContent === "50 of 5000"`)
	if b.evaluate(t, `[...document.querySelectorAll("#list .row[id]")].every((row) => row.textContent.includes("cart") && row.textContent.includes("milan"))`) != true {
		t.Error("the search shows others")
	}
	b.searchFor(t, "")
	b.evaluate(t, `document.getElementById("waiting").click()`)
	b.wait(t, `document.getElementById("found").textContent === "250 of 5000"`)
	b.wait(t, `document.querySelector("#list .row[id]").textContent.includes("Insufficient cpu")`)
	b.evaluate(t, `document.getElementById("waiting").click()`)
	b.wait(t, `document.getElementById("found").textContent === "5000 of 5000"`)
	t.Logf("a search takes %v ms", b.evaluate(t, `(() => { const begin = performance.now(), s = document.getElementById("search"); s.value = "a"; s.dispatchEvent(new Event("input")); s.value = ""; s.dispatchEvent(new Event("input")); return (performance.now() - begin) / 2 })()`))

	b.evaluate(t, `document.getElementById("list").focus()`)
	b.press(t, "End", 35)
	b.wait(t, `document.querySelector("#list .active")?.getAttribute("aria-rowindex") === "5001" && document.getElementById("list").getAttribute("aria-activedescendant") === "pod-4999"`)
	b.press(t, "ArrowUp", 38)
	b.wait(t, `document.querySelector("#list .active")?.getAttribute("aria-rowindex") === "5000"`)
	b.press(t, "Home", 36)
	b.evaluate(t, `document.querySelector('#map g[data-cluster=milan]').focus()`)
	b.press(t, "Enter", 13)
	b.wait(t, `document.getElementById("found").textContent.endsWith("in milan") && document.activeElement.dataset.cluster === "milan"`)
	b.press(t, "Enter", 13)

	// What changes in the cluster arrives without a reload.
	connection := &networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{Namespace: f.tenant, Name: "turin"}}
	testkit.UpdateStatus(t, f.c.Client, connection, func(c *networkingv1beta1.Connection) {
		c.Status.Value, c.Status.Lost, c.Status.FailedNodes, c.Status.MTU = networkingv1beta1.ConnectionError, networkingv1beta1.LostLarge, []string{"rome-1", "rome-2"}, 1340
	})
	if err := f.addPod(t.Context(), "zebra", "turin", true); err != nil {
		t.Fatal(err)
	}
	b.wait(t, `document.getElementById("counts").textContent.includes("49 of 50 tunnels")`)
	b.wait(t, `document.getElementById("found").textContent === "5001 of 5001"`)
	b.wait(t, `document.querySelector('#map g[data-cluster=turin]').getAttribute("aria-label").includes("tunnel Error, loses large packets, not from rome-1 rome-2, packets of at most 1340 bytes")`)
	b.wait(t, `document.getElementById("changes").textContent.includes("tunnel to turin (turin): Error, was Connected")`)
	if err := f.c.Client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.shop, Name: "zebra"}}, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	b.wait(t, `document.getElementById("found").textContent === "5000 of 5000"`)
	if b.evaluate(t, `window.loadedOnce`) != true {
		t.Error("the page was loaded again")
	}
	if errs := b.pageErrors(); len(errs) > 0 {
		t.Errorf("the page has errors: %v", errs)
	}

	// A reload needs no link, and a link without a token shows nothing.
	b.call(t, "Page.reload", nil, nil)
	b.wait(t, `document.getElementById("found").textContent === "5000 of 5000"`)
	bare, _, _ := strings.Cut(link, "#")
	other := newBrowser(t)
	other.open(t, bare, "light")
	other.wait(t, `document.getElementById("live").textContent.includes("needs the link")`)
}

func (b *browser) searchFor(t *testing.T, words string) {
	t.Helper()
	b.evaluate(t, fmt.Sprintf(`(() => { const s = document.getElementById("search"); s.value = %q; s.dispatchEvent(new Event("input")) })()`, words))
}

// counter counts requests to an API server.
type counter struct {
	next http.RoundTripper
	n    atomic.Int32
}

// RoundTrip counts a request.
func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.next.RoundTrip(r)
}

// TestFeedWatches has a feed that lists once, follows changes, and does not ask again.
func TestFeedWatches(t *testing.T) {
	f := newTown(t, 2, 6)
	g, err := newGatherer(t.Context(), f.session(t, f.c.Config, newLines()), f.liqo)
	if err != nil {
		t.Fatal(err)
	}
	var requests counter
	g.Config.Wrap(func(next http.RoundTripper) http.RoundTripper { requests.next = next; return &requests })
	feed, err := newWatchedFeed(g)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first finds which namespaces to watch
		if err := feed.renewSnapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first := feed.current.Load()
	testkit.Eventually(t, time.Minute, func() error { // lists are answered, and watches begin
		before := requests.n.Load()
		for range 5 {
			if err := feed.renewSnapshot(t.Context()); err != nil {
				return err
			}
		}
		if after := requests.n.Load(); after != before || len(first.pods) != 6 {
			return fmt.Errorf("%d requests; %d pods", after-before, len(first.pods))
		}
		return nil
	})
	if unreadable := string(first.sections["unreadable"]); unreadable != "{}" {
		t.Errorf("unreadable: %s", unreadable)
	}
	select {
	case <-feed.changes:
	default:
	}
	lost := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: f.tenant, Name: "lost"}, EventTime: metav1.NowMicro(), Type: corev1.EventTypeWarning, Reason: "Lost", Note: "no answer", Action: "Probe",
		ReportingController: "gateway", ReportingInstance: "gateway-0", Regarding: corev1.ObjectReference{APIVersion: networkingv1beta1.GroupVersion.String(), Kind: "Connection", Namespace: f.tenant, Name: "milan"}}
	if err := f.c.Client.Create(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	if err := f.addPod(t.Context(), "late", "milan", true); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		select {
		case <-feed.changes:
		default:
			return fmt.Errorf("no change was noted")
		}
		if err := feed.renewSnapshot(t.Context()); err != nil {
			return err
		}
		m := feed.current.Load().compareTo(first)
		if !strings.Contains(string(m.Sections["events"]), "Connection "+f.tenant+"/milan") || len(m.Pods) != 1 || !strings.Contains(string(m.Pods[0]), `"late"`) || m.Full || m.Sections["slices"] == nil || m.Sections["certificates"] != nil {
			return fmt.Errorf("the change is %+v", m)
		}
		return nil
	})
}

// TestFeedOutage has an API server that ends, and starts again: the document stays, with why it may be old, and is followed again.
func TestFeedOutage(t *testing.T) {
	f := newTown(t, 1, 1)
	g, err := newGatherer(t.Context(), f.session(t, f.c.Config, newLines()), f.liqo)
	if err != nil {
		t.Fatal(err)
	}
	feed, err := newWatchedFeed(g)
	if err != nil {
		t.Fatal(err)
	}
	want := func(what string, is func(*snapshot) bool) {
		t.Helper()
		testkit.Eventually(t, 2*time.Minute, func() error {
			if err := feed.renewSnapshot(t.Context()); err != nil {
				return err
			}
			if s := feed.current.Load(); !is(s) {
				return fmt.Errorf("not %s: problem %q, %d pods, unreadable %s", what, s.problem, len(s.pods), s.sections["unreadable"])
			}
			return nil
		})
	}
	want("live", func(s *snapshot) bool { return s.problem == "" && len(s.pods) == 1 })
	f.c.StopAPIServer(t)
	want("stale", func(s *snapshot) bool { return strings.Contains(s.problem, "refused") && len(s.pods) == 1 })
	f.c.StartAPIServer(t)
	if err := f.addPod(t.Context(), "late", "milan", true); err != nil {
		t.Fatal(err)
	}
	want("live again", func(s *snapshot) bool {
		return s.problem == "" && len(s.pods) == 2 && string(s.sections["unreadable"]) == "{}"
	})
}

// TestFeedForbidden has a user who may read some kinds only.
func TestFeedForbidden(t *testing.T) {
	f := newTown(t, 1, 1)
	name := "reader-of-" + f.liqo
	user := f.c.User(t, name)
	testkit.Allow(t, f.c, "", name, testkit.Rule("", "namespaces", "get", "list", "watch"), testkit.Rule("", "configmaps", "list", "watch"),
		testkit.Rule("apps", "deployments", "list", "watch"), testkit.Rule("core.liqo.io", "foreignclusters", "list", "watch"))
	g, err := newGatherer(t.Context(), f.session(t, user, newLines()), f.liqo)
	if err != nil {
		t.Fatal(err)
	}
	feed, err := newWatchedFeed(g)
	if err != nil {
		t.Fatal(err)
	}
	if err := feed.renewSnapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := feed.current.Load()
	if !strings.Contains(string(s.sections["peers"]), `"milan"`) || !strings.Contains(string(s.sections["unreadable"]), "forbidden") || s.problem != "" {
		t.Errorf("peers %s, unreadable %s, problem %q", s.sections["peers"], s.sections["unreadable"], s.problem)
	}
}
