// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// fakeArchive returns an archive in a folder of the test.
func fakeArchive(t *testing.T, limit int64) *archive {
	t.Helper()
	a, err := newArchive(filepath.Join(t.TempDir(), "x.tar.gz"), "x", limit, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.closeArchive(nil) })
	return a
}

func TestKeepEnd(t *testing.T) {
	long := strings.Repeat("0123456789abcde\n", 20<<10)
	for name, c := range map[string]struct {
		text  string
		limit int
		want  string
		cut   bool
	}{
		"short":        {"one\ntwo\n", 100, "one\ntwo\n", false},
		"exact":        {"one\ntwo\n", 8, "one\ntwo\n", false},
		"a line lost":  {"one\ntwo\n", 7, "two\n", true},
		"many chunks":  {long, 32, "0123456789abcde\n", true},
		"no line ends": {"abcdef", 3, "def", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, cut, err := keepEnd(strings.NewReader(c.text), c.limit)
			if err != nil || string(got) != c.want || cut != c.cut {
				t.Errorf("%q, %v, %v", got, cut, err)
			}
		})
	}
}

func TestFindPods(t *testing.T) {
	c := testkit.Cluster(t)
	liqo, tenant, other := testkit.Namespace(t, c, "liqo", nil), testkit.Namespace(t, c, "tenant", nil), testkit.Namespace(t, c, "other", nil)
	testkit.Create(t, c.Client, &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "milan"}})
	pod := func(namespace, name string, labels map[string]string) {
		testkit.Create(t, c.Client, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "x"}}},
		})
	}
	gateway := map[string]string{names.NetworkingComponent: names.ComponentGateway}
	pod(liqo, "manager", nil)
	pod(tenant, "gateway", gateway)
	pod(tenant, "user", nil)
	pod(other, "false-gateway", gateway)
	pod(tenant, "offloaded", map[string]string{names.NetworkingComponent: names.ComponentGateway, names.ShadowPod: "true"})
	g := &gatherer{client: c.Client, namespace: liqo, archive: fakeArchive(t, 1<<20)}
	var got []string
	for _, p := range g.findPods(t.Context()) {
		got = append(got, p.Name)
	}
	if strings.Join(got, " ") != "manager gateway" {
		t.Errorf("pods of Liqo are %q", got)
	}
}

// Pods of nodes whose kubelets do not answer cost one timeout for each batch, and nothing is lost without a word.
func TestGatherPods(t *testing.T) {
	c := testkit.Cluster(t)
	liqo := testkit.Namespace(t, c, "liqo", nil)
	testkit.Create(t, c.Client, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: liqo, Name: names.Diagnostics}})
	clients, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	var pods []corev1.Pod
	for i := range 20 {
		node := "up"
		if i%2 == 0 {
			node = "down"
		}
		pods = append(pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: liqo, Name: fmt.Sprintf("fabric-%02d", i), Labels: map[string]string{names.AppName: names.TargetFabric}},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "fabric", Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 8082}}}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "fabric", RestartCount: 1}}},
		})
	}
	var timeouts, calls atomic.Int32
	g := &gatherer{client: c.Client, clients: clients, namespace: liqo, since: time.Hour, archive: fakeArchive(t, 64<<10)}
	g.readPage = func(_ context.Context, pod *corev1.Pod, port int32, page, token string) (string, error) {
		calls.Add(1)
		if port != 8082 || token == "" {
			return "", errors.New("wrong port or token")
		}
		if pod.Spec.NodeName == "down" {
			timeouts.Add(1)
			return "", fmt.Errorf("forwarding a port: %w", context.DeadlineExceeded)
		}
		return "page " + page + " token=hunter2hunter2\n", nil
	}
	g.readLog = func(_ context.Context, pod *corev1.Pod, o *corev1.PodLogOptions) ([]byte, bool, error) {
		if pod.Spec.NodeName == "down" {
			t.Errorf("the log of %s is asked for", pod.Name)
		}
		if o.Previous == (o.SinceSeconds != nil) {
			t.Errorf("the options are %+v", o)
		}
		return []byte("password=hunter2hunter2 " + strings.Repeat("x ", 4<<10) + "the end"), false, nil
	}
	if err := g.gatherPods(t.Context(), pods); err != nil {
		t.Fatal(err)
	}
	if timeouts.Load() != 4 || calls.Load() != 4+2*10 {
		t.Errorf("%d of %d calls timed out", timeouts.Load(), calls.Load())
	}
	problems := strings.Join(g.archive.problems, "\n")
	for _, want := range []string{
		"metrics/" + liqo + "/fabric-00.txt: forwarding a port: timed out", "fabric-18: the kubelet of node down does not answer", "the beginning is missing, because it is too large", "--max-size is reached",
	} {
		if !strings.Contains(problems, want) {
			t.Errorf("no problem says %q:\n%s", want, problems)
		}
	}
	if g.archive.left != 0 {
		t.Errorf("%d bytes are left", g.archive.left)
	}
}
