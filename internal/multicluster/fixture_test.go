// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"liqo.io/liqo/internal/multicluster"

	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	limit  = time.Minute
	copied = "test.liqo.io/copied"
	mine   = "test.liqo.io/mine"
)

// scene is two clusters with a user of each, and an engine between them.
type scene struct {
	local, far *testkit.ControlPlane
	localUser  string
	remoteUser string
	conn       *multicluster.Conn
	engine     *multicluster.Engine
	stop       func()
	log        *journal
}

// journal keeps what the engine tells.
type journal struct {
	mu      sync.Mutex
	lines   []string
	started []string
	syncs   map[string]int
	wrote   map[string]int // requests that change something, by side
}

func (j *journal) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.lines = append(j.lines, prefix+" "+args)
	}, funcr.Options{})
}

func (j *journal) countOf(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, line := range j.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (j *journal) sync(name string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.syncs[name]++
	return j.syncs[name]
}

func (j *journal) synced(name string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.syncs[name]
}

func (j *journal) attempts() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.syncs)
}

func (j *journal) writes(side string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.wrote[side]
}

func (j *journal) begun() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.started)
}

// counting counts the changing requests that go through cfg.
func (j *journal) counting(side string, cfg *rest.Config) {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Method != http.MethodGet {
				j.mu.Lock()
				j.wrote[side]++
				j.mu.Unlock()
			}
			return next.RoundTrip(req)
		})
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// play runs an engine with the given kinds; without kinds, with one that copies ConfigMaps.
func play(t *testing.T, kinds ...multicluster.Kind) *scene {
	t.Helper()
	s := &scene{
		local: testkit.Cluster(t), far: testkit.SecondCluster(t),
		localUser: "local-" + t.Name(), remoteUser: "remote-" + t.Name(),
		log: &journal{syncs: map[string]int{}, wrote: map[string]int{}},
	}
	if kinds == nil {
		kinds = []multicluster.Kind{s.copyKind()}
	}
	conn, err := multicluster.NewConn(testkit.Kubeconfig(t, s.far.User(t, s.remoteUser)), multicluster.AllowLoopback(true))
	if err != nil {
		t.Fatal(err)
	}
	s.connect(t, conn, kinds)
	return s
}

func (s *scene) connect(t *testing.T, conn *multicluster.Conn, kinds []multicluster.Kind) {
	t.Helper()
	s.conn = conn
	localConfig := s.local.User(t, s.localUser)
	s.log.counting("local", localConfig)
	s.log.counting("remote", conn.Config())
	engine, err := multicluster.New(multicluster.Options{
		Local: localConfig, Remote: conn, Kinds: kinds, Peer: t.Name(), Log: s.log.logger(),
		Started: func(p multicluster.Pair, kind string) {
			s.log.mu.Lock()
			defer s.log.mu.Unlock()
			s.log.started = append(s.log.started, p.Local+" "+kind)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.engine = engine
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		conn.Close()
	})
	t.Cleanup(s.stop)
}

// copyKind copies the labelled ConfigMaps from here to there and deletes copies whose original is gone.
func (s *scene) copyKind() multicluster.Kind {
	return multicluster.Kind{
		Name:   "configmaps",
		Local:  []multicluster.Source{{Object: &corev1.ConfigMap{}, Labels: mine}},
		Remote: []multicluster.Source{{Object: &corev1.ConfigMap{}, Labels: copied}},
		Sync: func(ctx context.Context, it *multicluster.Item) error {
			s.log.sync(it.Name)
			var local, copyOf corev1.ConfigMap
			exists, err := it.Local.Get(it.Name, &local)
			if err != nil {
				return err
			}
			if !exists {
				if found, err := it.Remote.Get(it.Name, &copyOf); err != nil || !found {
					return err
				}
				return it.Remote.Delete(ctx, &copyOf)
			}
			_, err = it.Remote.Apply(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: it.Name, Labels: map[string]string{copied: "true"}},
				Data:       local.Data,
			})
			return err
		},
	}
}

// pair makes a pair of namespaces, with rights for both users unless told otherwise.
func (s *scene) pair(t *testing.T, rights ...string) multicluster.Pair {
	t.Helper()
	p := multicluster.Pair{Local: testkit.Namespace(t, s.local, "local", nil), Remote: testkit.Namespace(t, s.far, "remote", nil)}
	if len(rights) == 0 {
		rights = []string{"local", "remote"}
	}
	for _, side := range rights {
		s.allow(t, p, side)
	}
	return p
}

func (s *scene) allow(t *testing.T, p multicluster.Pair, side string) {
	t.Helper()
	c, namespace, user := s.local, p.Local, s.localUser
	if side == "remote" {
		c, namespace, user = s.far, p.Remote, s.remoteUser
	}
	grant(t, c, namespace, user)
}

func grant(t *testing.T, c *testkit.ControlPlane, namespace, user string) {
	t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "all"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	}
	if err := client.IgnoreAlreadyExists(c.Client.Create(t.Context(), role)); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "all-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "all"},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
	}); err != nil {
		t.Fatal(err)
	}
}

// put makes or changes a ConfigMap with one value.
func put(t *testing.T, c *testkit.ControlPlane, namespace, name, value string, labels ...string) {
	t.Helper()
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
	obj.Data = map[string]string{"value": value}
	if obj.Labels == nil {
		obj.Labels = map[string]string{}
	}
	for _, label := range labels {
		obj.Labels[label] = "true"
	}
	switch {
	case apierrors.IsNotFound(err):
		err = c.Client.Create(t.Context(), obj)
	case err == nil:
		err = c.Client.Update(t.Context(), obj)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// values returns the ConfigMaps of a namespace that have a value.
func values(t *testing.T, c *testkit.ControlPlane, namespace string) map[string]string {
	t.Helper()
	var list corev1.ConfigMapList
	if err := c.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, obj := range list.Items {
		out[obj.Name] = obj.Data["value"]
	}
	return out
}

// eventually waits until the remote namespace of a pair holds exactly these values.
func (s *scene) eventually(t *testing.T, p multicluster.Pair, want map[string]string) {
	t.Helper()
	testkit.Eventually(t, limit, func() error {
		if got := values(t, s.far, p.Remote); !maps.Equal(got, want) {
			return fmt.Errorf("the remote side holds %v, want %v", got, want)
		}
		return nil
	})
}

func (s *scene) eventuallySynced(t *testing.T, name string, times int) {
	t.Helper()
	testkit.Eventually(t, limit, func() error {
		if got := s.log.synced(name); got < times {
			return fmt.Errorf("%s was looked at %d times, want %d", name, got, times)
		}
		return nil
	})
}

func remove(t *testing.T, c *testkit.ControlPlane, namespace, name string) {
	t.Helper()
	if err := c.Client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); err != nil {
		t.Fatal(err)
	}
}

// metric returns the value of a counter or gauge of the test's peer.
func metric(t *testing.T, name string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "peer" && label.GetValue() == t.Name() {
					return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
	}
	return 0
}
