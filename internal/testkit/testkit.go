// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package testkit runs the real Kubernetes API server, and those of its controllers that a test asks for, beside a test.
//
// The servers start with the first test that needs them, are shared by all tests of the binary, and die with it:
//
//	func TestMain(m *testing.M) { testkit.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		c := testkit.Cluster(t)
//		ns := testkit.Namespace(t, c, "something", nil)
//		…
//	}
package testkit

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// servers are the servers of this test binary. They outlive every test, so they cannot belong to one.
var servers struct {
	sync.Mutex
	lab   *lab
	slots map[int]*slot
}

// slot is where one cluster is, and is started while others may be.
type slot struct {
	sync.Mutex
	cluster *ControlPlane
	failed  error
}

// atOnce is how many parallel tests run unless -parallel says it: most of the time they wait, also for their turn, whatever CPUs there are.
const atOnce = "16"

// Main runs the tests of a package and stops the servers that they started.
func Main(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err) // of no test binary
	}
	code := m.Run()
	shutdown()
	os.Exit(code)
}

func shutdown() {
	servers.Lock()
	defer servers.Unlock()
	if servers.lab == nil {
		return
	}
	servers.lab.close()
	servers.lab = nil
	clear(servers.slots)
}

// Option asks for more than an API server.
type Option func(*options)

type options struct {
	controllers  []string
	certificates time.Duration
	assets       string
}

// WithControllers runs controllers of the real kube-controller-manager, by the names of its --controllers flag, such as
// namespace-controller, garbage-collector-controller or certificatesigningrequest-signing-controller. Those that another
// test asked for keep running.
func WithControllers(names ...string) Option {
	return func(o *options) { o.controllers = append(o.controllers, names...) }
}

// WithCertificatesFor has client certificates signed that last so long, whatever is asked for, also less than the API server lets
// anybody ask for. Nobody else may have asked for the signer of that cluster.
func WithCertificatesFor(d time.Duration) Option {
	return func(o *options) { o.certificates = d }
}

// WithAssets runs the programs of another folder, such as those of another version of Kubernetes. The first test that asks for a cluster
// chooses its folder.
func WithAssets(folder string) Option {
	return func(o *options) { o.assets = folder }
}

// Cluster returns the cluster of this test binary.
func Cluster(t testing.TB, opts ...Option) *ControlPlane {
	t.Helper()
	return NthCluster(t, 0, opts...)
}

// SecondCluster returns another cluster, for what crosses clusters.
func SecondCluster(t testing.TB, opts ...Option) *ControlPlane {
	t.Helper()
	return NthCluster(t, 1, opts...)
}

// NthCluster returns one of any number of clusters, counted from 0: Cluster is the first. Tests that run at the same time
// can ask for it.
func NthCluster(t testing.TB, n int, opts ...Option) *ControlPlane {
	t.Helper()
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	l, s, err := slotOf(n)
	if err != nil {
		t.Fatalf("preparing the test servers: %v", err)
	}
	s.Lock()
	defer s.Unlock()
	if s.cluster == nil && s.failed == nil {
		s.cluster, s.failed = newControlPlane(l, fmt.Sprintf("cluster%d", n+1), cmp.Or(o.assets, l.assets))
	}
	if s.failed != nil {
		t.Fatalf("starting a test cluster: %v", s.failed)
	}
	if err := s.cluster.runControllers(o.controllers); err != nil {
		t.Fatalf("starting controllers: %v", err)
	}
	if o.certificates > 0 {
		if err := s.cluster.runControllers([]string{signer}, "--cluster-signing-duration="+o.certificates.String()); err != nil {
			t.Fatalf("starting the signer: %v", err)
		}
	}
	return s.cluster
}

const signer = "certificatesigningrequest-signing-controller"

func slotOf(n int) (*lab, *slot, error) {
	servers.Lock()
	defer servers.Unlock()
	if servers.lab == nil {
		l, err := newLab()
		if err != nil {
			return nil, nil, err
		}
		servers.lab, servers.slots = l, map[int]*slot{}
	}
	if servers.slots[n] == nil {
		servers.slots[n] = &slot{}
	}
	return servers.lab, servers.slots[n], nil
}

// Namespace makes a namespace with a name that begins with prefix, and the ServiceAccount without which no pod can be
// made in it. It is deleted after the test; it disappears only where the namespace-controller runs.
func Namespace(t testing.TB, c *ControlPlane, prefix string, labels map[string]string) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: strings.TrimSuffix(prefix, "-") + "-",
		Labels:       maps.Clone(labels),
	}}
	if err := c.Client.Create(t.Context(), ns); err != nil {
		t.Fatalf("making namespace %s: %v", prefix, err)
	}
	// The test's context is over when cleanups run.
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), ns) })
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "default"}}
	if err := client.IgnoreAlreadyExists(c.Client.Create(t.Context(), account)); err != nil {
		t.Fatalf("making the default service account of %s: %v", ns.Name, err)
	}
	return ns.Name
}
