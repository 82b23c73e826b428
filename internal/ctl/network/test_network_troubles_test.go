// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/testkit"
)

// partyIn has a namespace of the test in a cluster, which answer comes before.
func partyIn(t *testing.T, c *testkit.ControlPlane, id string, response func(*http.Request) (*http.Response, error)) *testCluster {
	t.Helper()
	p := partyOf(id)
	p.Name, p.Kube = id, testkit.Troubled(t, c, response)
	p.askers = testkit.Namespace(t, c, id, map[string]string{ofTest.label: "true"})
	p.servers = p.askers
	return p
}

func testOf(consumer *testCluster, providers ...*testCluster) *networkTest {
	session := &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), io.Discard, io.Discard)}
	return &networkTest{
		fixtures:           fixtures{Session: session, purpose: ofTest, consumer: consumer, providers: providers},
		testNetworkOptions: &testNetworkOptions{TestOptions: &TestOptions{}},
	}
}

func TestNetworkTestSilentCluster(t *testing.T) {
	c := testkit.Cluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	silent := partyIn(t, c, "silent", func(*http.Request) (*http.Response, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	var deleted atomic.Bool
	well := partyIn(t, c, "well", func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodDelete {
			deleted.Store(true)
			cancel() // the namespace has no controller here: it stays
		}
		return nil, nil
	})
	err := testOf(silent, well).removeAll(ctx)
	if err == nil || !strings.Contains(err.Error(), "in the silent cluster: ") || !deleted.Load() {
		t.Errorf("deleted: %v; %v", deleted.Load(), err)
	}
	want := fmt.Sprintf("Objects of the test may be left in cluster silent, namespace %s: the next run removes them, or kubectl delete namespace %[1]s", silent.askers)
	if f, ok := errors.AsType[*ui.Failure](err); !ok || !slices.Contains(f.All(), want) {
		t.Errorf("%v lacks the hint %q", err, want)
	}
}

func TestNetworkTestLostAnswer(t *testing.T) {
	c := testkit.Cluster(t)
	var lost atomic.Bool
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "made"}}
	p := partyIn(t, c, "lost", func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodPost || lost.Swap(true) {
			return nil, nil
		}
		if err := c.Client.Create(t.Context(), cm.DeepCopy()); err != nil {
			t.Error(err)
		}
		return nil, io.ErrUnexpectedEOF
	})
	cm.Namespace = p.askers
	if err := testOf(p).ensureMade(t.Context(), p, cm); err != nil || cm.UID == "" || !lost.Load() {
		t.Errorf("uid %q, %v", cm.UID, err)
	}
}

// Pods that asked before one that cannot start are heard.
func TestNetworkTestStuckPod(t *testing.T) {
	c := testkit.Cluster(t)
	p := partyIn(t, c, "stuck", ctltest.Nothing)
	p.image = "liqo"
	clients := []*clientPod{
		{of: p, name: "asker-0", node: "a", checks: []*check{{way: podToPod}}},
		{of: p, name: "asker-1", node: "b", checks: []*check{{way: podToPod}}},
	}
	for i, status := range []corev1.PodStatus{
		{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "InvalidImageName"}}}}},
		{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: `{"marks":"."}`}}}}},
	} {
		pod, err := clients[i].newPod()
		if err != nil {
			t.Fatal(err)
		}
		testkit.Create(t, c.Client, pod)
		testkit.UpdateStatus(t, c.Client, pod, func(pod *corev1.Pod) { pod.Status = status })
	}
	// They are there already, as if the answers that they were made got lost.
	var posts atomic.Int64
	p.Kube = testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPost && posts.Add(1)%2 == 1 {
			return testkit.Answer(500, testkit.InternalError), nil
		}
		return nil, nil
	})
	err := testOf(p).askInside(t.Context(), clients)
	if _, said := errors.AsType[*ui.Failure](err); !said || !strings.Contains(err.Error(), "InvalidImageName") || clients[0].checks[0].hasResult() || !clients[1].checks[0].hasResult() {
		t.Errorf("%v; %+v %+v", err, clients[0].checks[0], clients[1].checks[0])
	}
}

// All endpoints are waited for at once: each wait is over when the other one is there.
func TestNetworkTestEndpoints(t *testing.T) {
	c := testkit.Cluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	both := make(chan struct{})
	var there atomic.Int64
	meet := func(r *http.Request) (*http.Response, error) {
		if testkit.IsWatch(r) && strings.HasSuffix(r.URL.Path, "/services") {
			if there.Add(1) == 4 {
				close(both)
			}
			select {
			case <-both:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return nil, nil
	}
	consumer, provider := partyIn(t, c, "endpoints", meet), partyIn(t, c, "others", meet)
	for _, p := range []*testCluster{consumer, provider} {
		for _, s := range testOf(consumer, provider).newServices() {
			s.Namespace = p.servers
			testkit.Create(t, c.Client, s)
		}
	}
	test := testOf(consumer, provider)
	if err := test.exposeAll(ctx, [][]serverPod{{}}); err != nil || len(test.exposures[0]) != 2 {
		t.Errorf("%v, %d", err, len(test.exposures[0]))
	}
	for _, p := range []*testCluster{consumer, provider} {
		if err := c.Client.DeleteAllOf(t.Context(), &corev1.Service{}, client.InNamespace(p.servers)); err != nil {
			t.Error(err)
		}
	}
}
