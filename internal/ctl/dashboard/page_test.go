// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/fleet"
	"liqo.io/liqo/internal/names"
)

// TestPageConnection has a connection that gives nothing any more, but stays open, and a server that refuses.
func TestPageConnection(t *testing.T) {
	f, _ := newTestFeed(t, "web")
	ended := make(chan struct{})
	var stalls, refuses atomic.Bool
	server := httptest.NewUnstartedServer(nil)
	page := newHandler(f, testToken, server.Listener.Addr().(*net.TCPAddr))
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/events" && refuses.Load():
			http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		case r.URL.Path == "/events" && stalls.Load():
			select {
			case <-r.Context().Done():
			case <-ended:
			}
		default:
			page.ServeHTTP(w, r)
		}
	})
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(ended) })
	b := newBrowser(t)
	// A second of the page is 50 ms.
	b.call(t, "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": `const timer = setTimeout; window.setTimeout = (call, delay) => timer(call, delay / 20)`}, nil)
	b.open(t, server.URL+"/#"+testToken, "light")
	b.wait(t, `document.getElementById("live").textContent.includes("√ Live")`)
	stalls.Store(true)
	b.wait(t, `document.getElementById("live").textContent.includes("Not live") && document.getElementById("live").textContent.includes("no message for 45 seconds")`)
	refuses.Store(true)
	b.wait(t, `document.getElementById("live").textContent.includes("too many pages are open")`)
	stalls.Store(false)
	refuses.Store(false)
	b.wait(t, `document.getElementById("live").textContent.includes("√ Live")`)
}

// changingTown is a feed of facts that a test changes.
type changingTown struct {
	*feed
	facts *fleet.Facts
}

func newChangingTown(t *testing.T, peers ...string) *changingTown {
	t.Helper()
	town := &changingTown{facts: &fleet.Facts{Facts: &diagnose.Facts{Now: time.Now()}, ClusterID: "rome"}}
	town.feed = newFeed(func(context.Context) (*fleet.Facts, error) { return town.facts, nil }, func() error { return nil })
	town.change(t, func() {
		for _, id := range peers {
			town.addPeer(id)
		}
	})
	return town
}

func (c *changingTown) addPeer(id string) {
	c.facts.Peers = append(c.facts.Peers, liqov1beta1.ForeignCluster{Spec: liqov1beta1.ForeignClusterSpec{ClusterID: liqov1beta1.ClusterID(id)}, Status: liqov1beta1.ForeignClusterStatus{Role: liqov1beta1.ProviderRole}})
}

// setPod adds or replaces a pod.
func (c *changingTown) setPod(name string, phase corev1.PodPhase, message string) {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Status: corev1.PodStatus{Phase: phase}}
	if message != "" {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message}}
	}
	for i := range c.facts.Pods {
		if c.facts.Pods[i].Name == name {
			c.facts.Pods[i] = pod
			return
		}
	}
	c.facts.Pods = append(c.facts.Pods, pod)
}

// change publishes changed facts, a second later.
func (c *changingTown) change(t *testing.T, do func()) {
	t.Helper()
	do()
	c.facts.Now = c.facts.Now.Add(time.Second)
	if err := c.renewSnapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestPageChanges has changes that leave the focus, a click and what a screen reader speaks as they are.
func TestPageChanges(t *testing.T) {
	town := newChangingTown(t, "milan", "turin")
	reason := "0/51 nodes are available: " + strings.Repeat("1 node has an untolerated taint, ", 8) + "50 Insufficient cpu"
	town.change(t, func() {
		town.setPod("evicted", corev1.PodFailed, "")
		town.setPod("waits", corev1.PodPending, reason)
	})
	b := newBrowser(t)
	// A slow test is no dead connection.
	b.call(t, "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": `const timer = setTimeout; window.setTimeout = (call, delay) => delay < 45000 ? timer(call, delay) : 0`}, nil)
	b.open(t, "http://"+newTestServer(t, town.feed)+"/#"+testToken, "light")
	b.wait(t, `document.querySelectorAll("#map g").length === 3 && document.getElementById("found").textContent === "2 of 2"`)
	b.wait(t, `document.getElementById("counts").textContent.includes("2 pods, 1 waiting")`)
	b.wait(t, `document.getElementById("chart").getAttribute("aria-label").includes("now 1 of 2 pods wait and 0 of 0 tunnels are down")`)
	b.evaluate(t, `(() => {
		window.spoken = [];
		for (const part of document.querySelectorAll("[role=status]"))
			new MutationObserver(() => spoken.push(part.textContent)).observe(part, { childList: true, characterData: true, subtree: true });
	})()`)
	expectSpoken := func(want ...any) {
		t.Helper()
		if got := b.evaluate(t, `spoken.splice(0)`); !reflect.DeepEqual(got, append([]any{}, want...)) {
			t.Errorf("spoken: %q, want %q", got, want)
		}
	}

	// A click that begins before a change and ends after it counts.
	at := b.evaluate(t, `(() => { const place = document.querySelector("#map g[data-cluster=milan] circle").getBoundingClientRect(); return [place.x + place.width / 2, place.y + place.height / 2] })()`).([]any)
	mouse := func(kind string) {
		t.Helper()
		b.call(t, "Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1}, nil)
	}
	mouse("mousePressed")
	b.wait(t, `document.activeElement.dataset.cluster === "milan"`)
	b.evaluate(t, `document.activeElement.addEventListener("blur", () => { window.lostFocus = true })`)
	town.change(t, func() { town.setPod("waits", corev1.PodPending, reason+" now") })
	b.wait(t, `document.querySelector("#list .row[id='pod-1']").textContent.endsWith(" now")`)
	expectSpoken()
	mouse("mouseReleased")
	b.wait(t, `document.getElementById("found").textContent === "0 of 2 in milan"`)
	expectSpoken("0 of 2 in milan")

	// A new peer leaves the elements of the others, so that the focus stays.
	town.change(t, func() { town.addPeer("genoa") })
	b.wait(t, `[...document.querySelectorAll("#map g")].map((node) => node.dataset.cluster).join() === "genoa,milan,turin,rome" && document.querySelectorAll("#map line").length === 3`)
	if b.evaluate(t, `!window.lostFocus && document.activeElement.dataset.cluster === "milan"`) != true {
		t.Error("the focus was lost")
	}
	expectSpoken()

	// What the gateway of a peer counts is on the map, and for screen readers.
	town.change(t, func() {
		c := networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "gw-turin", Labels: map[string]string{names.RemoteClusterID: "turin"}}}
		c.Status.Value, c.Status.Latency.Value, c.Status.MTU = networkingv1beta1.Connected, "12.7ms", 1340
		town.facts.Connections = append(town.facts.Connections, c)
		town.facts.Throughput = map[client.ObjectKey]fleet.Throughput{client.ObjectKeyFromObject(&c): {Received: 12_345_678, Sent: 4_500_000, Loss: new(6.7)}}
		town.facts.ThroughputProblem = "1 gateway does not answer"
	})
	b.wait(t, `[...document.querySelectorAll("#map g[data-cluster=turin] text")].some((text) => text.textContent === "12.3 Mbit/s in, 4.5 out")`)
	b.wait(t, `document.querySelector("#map g[data-cluster=turin]").getAttribute("aria-label").includes("tunnel Connected 13 ms, loses 6.7 %, 12.3 Mbit/s in, 4.5 out, packets of at most 1340 bytes")`)
	b.wait(t, `document.getElementById("findings").textContent.includes("1 gateway does not answer")`)
	expectSpoken()

	// The table of tunnels follows the selection.
	selectMilan := func() {
		t.Helper()
		b.evaluate(t, `document.querySelector("#map g[data-cluster=milan]").dispatchEvent(new Event("click"))`)
	}
	b.wait(t, `document.querySelector("#tunnels .empty").textContent === "No tunnel to milan."`)
	selectMilan()
	b.wait(t, `[...document.querySelectorAll("#tunnels tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent).join("|")).join() === "turin|‼ Connected|13 ms|12.3, 4.5|6.7 %|1340|"`)
	b.wait(t, `document.querySelector("#map g[data-cluster=turin]").textContent.includes("‼") && document.querySelector("#map g[data-cluster=rome]").textContent.includes("√")`)
	selectMilan()
	expectSpoken("2 of 2", "0 of 2 in milan")

	// A selected peer that goes selects nothing any more, and the focus stays on the map.
	town.change(t, func() { town.facts.Peers = town.facts.Peers[1:] })
	b.wait(t, `document.getElementById("found").textContent === "2 of 2" && document.activeElement.dataset.cluster === "rome"`)
	expectSpoken("2 of 2")

	// The end and the return of changes are told once.
	for _, problem := range []string{"connection refused", "no route to host"} {
		town.tellProblem(errors.New(problem))
		b.wait(t, fmt.Sprintf(`document.getElementById("live").textContent.includes(%q)`, problem))
	}
	town.change(t, func() {})
	b.wait(t, `document.getElementById("live").textContent.includes("√ Live")`)
	expectSpoken("× Not live", "√ Live")

	// The active row can be read whole, and follows its pod.
	b.evaluate(t, `document.getElementById("list").focus()`)
	b.press(t, "End", 35)
	b.wait(t, fmt.Sprintf(`document.getElementById("row").textContent.includes(%q)`, reason+" now"))
	if b.evaluate(t, `[...document.querySelectorAll("#row dd")].every((text) => text.scrollWidth <= text.clientWidth && text.scrollHeight <= text.clientHeight) && document.getElementById("row").scrollWidth <= document.getElementById("row").clientWidth`) != true {
		t.Error("the active row is cut")
	}
	town.change(t, func() { town.setPod("waits", corev1.PodPending, "no nodes") })
	b.wait(t, `document.getElementById("row").textContent.includes("no nodes")`)
	b.searchFor(t, "evicted")
	b.wait(t, `document.getElementById("row").textContent === "" && document.querySelector("#list .row[id]").textContent.includes("× Failed")`)
	if errs := b.pageErrors(); len(errs) > 0 {
		t.Errorf("the page has errors: %v", errs)
	}
}
