// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// runs counts how often a loop ran, and answers what a test wants.
type runs struct {
	mu     sync.Mutex
	times  int
	answer func(run int) (time.Duration, error)
}

func (r *runs) run(context.Context) (time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times++
	if r.answer == nil {
		return 0, nil
	}
	return r.answer(r.times)
}

func (r *runs) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.times
}

func (r *runs) reach(t *testing.T, times int) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		if n := r.count(); n < times {
			return fmt.Errorf("it ran %d times, want %d", n, times)
		}
		return nil
	})
}

// loop runs a loop over the ConfigMaps of a new namespace, and over what is sent to news.
func loop(t *testing.T, r *runs) (c client.Client, namespace string, news chan<- struct{}) {
	t.Helper()
	cluster := testkit.Cluster(t)
	namespace = testkit.Namespace(t, cluster, "loop", nil)
	changes := make(chan struct{})
	only := map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{namespace: {}}}}
	testkit.Manager(t, cluster.Config, kube.ManagerOptions{Objects: only}, func(mgr ctrl.Manager) error {
		return Loop{
			Name: "test", Kinds: []client.Object{&corev1.ConfigMap{}}, Run: r.run,
			Matters: func(old, now client.Object) bool { return old.GetLabels()["matters"] != now.GetLabels()["matters"] },
			Watches: []Watch{func(context.Context) (<-chan struct{}, error) { return changes, nil }},
		}.Setup(mgr)
	})
	return cluster.Client, namespace, changes
}

func TestLoopInitialRun(t *testing.T) {
	var r runs
	loop(t, &r)
	r.reach(t, 1)
}

func TestLoopKernelChange(t *testing.T) {
	var r runs
	_, _, news := loop(t, &r)
	for i := range 3 {
		r.reach(t, i+1)
		news <- struct{}{}
	}
	r.reach(t, 4)
}

func TestLoopRelevantChanges(t *testing.T) {
	var r runs
	c, ns, _ := loop(t, &r)
	r.reach(t, 1)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a"}}
	testkit.Create(t, c, cm)
	r.reach(t, 2)
	testkit.Update(t, c, cm, func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"nothing": "new"} })
	testkit.Update(t, c, cm, func(cm *corev1.ConfigMap) { cm.Labels = map[string]string{"matters": "1"} })
	r.reach(t, 3)
	before := r.count()
	if err := c.Delete(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	r.reach(t, before+1)
}

func TestLoopBatching(t *testing.T) {
	const many = 200
	busy, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r := runs{answer: func(int) (time.Duration, error) {
		once.Do(func() {
			close(busy)
			<-release
		})
		return 0, nil
	}}
	_, _, news := loop(t, &r)
	<-busy // what comes during a run waits for its end
	for range many {
		news <- struct{}{}
	}
	close(release)
	r.reach(t, 2)
	if n := r.count(); n > many/10 {
		t.Errorf("%d news are %d runs", many, n)
	}
}

// However much is heard, one run comes after another only when a while is over. Each may tell of itself late, and none too early, so that what
// can be asked for is the time that all of them take.
func TestLoopRateLimit(t *testing.T) {
	var r runs
	r.spaced(t, func() {
		_, _, news := loop(t, &r)
		for r.count() < spacedRuns {
			news <- struct{}{}
		}
	})
}

func TestLoopRetry(t *testing.T) {
	for name, err := range map[string]error{
		"failure": errors.New("broken"),
		"race":    apierrors.NewConflict(schema.GroupResource{Resource: "routes"}, "a", errors.New("somebody was faster")),
	} {
		t.Run(name, func(t *testing.T) {
			r := runs{answer: func(run int) (time.Duration, error) {
				if run < 4 {
					return 0, errors.Join(nil, fmt.Errorf("writing: %w", err))
				}
				return 0, nil
			}}
			loop(t, &r)
			r.reach(t, 4)
		})
	}
}

func TestLoopRequeue(t *testing.T) {
	r := runs{answer: func(int) (time.Duration, error) { return time.Millisecond, nil }}
	r.spaced(t, func() {
		loop(t, &r)
		r.reach(t, spacedRuns)
	})
}

func TestLoopPodsOfNodes(t *testing.T) {
	old := &networkingv1beta1.InternalNode{}
	pods, both := old.DeepCopy(), old.DeepCopy()
	pods.Status.PodCIDRs = []networkingv1beta1.CIDR{"10.200.9.5/32"}
	both.Status = networkingv1beta1.InternalNodeStatus{PodCIDRs: pods.Status.PodCIDRs, NodeIP: networkingv1beta1.InternalNodeStatusNodeIP{Local: new(networkingv1beta1.IP("10.200.2.1"))}}
	onlyPods, address := event.UpdateEvent{ObjectOld: old, ObjectNew: pods}, event.UpdateEvent{ObjectOld: old, ObjectNew: both}
	network := event.UpdateEvent{ObjectOld: &networkingv1beta1.Configuration{}, ObjectNew: &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Generation: 2}}}
	const apart = 10 * time.Millisecond
	for name, test := range map[string]struct {
		changes []event.UpdateEvent // one every 10 ms
		want    time.Duration
	}{
		"pods":                      {[]event.UpdateEvent{onlyPods, onlyPods, onlyPods}, podGathering},
		"address":                   {[]event.UpdateEvent{address}, gathering},
		"address_overtakes_pods":    {[]event.UpdateEvent{onlyPods, address}, apart + gathering},
		"network_overtakes_pods":    {[]event.UpdateEvent{onlyPods, onlyPods, network}, 2*apart + gathering},
		"pods_do_not_delay_network": {[]event.UpdateEvent{network, onlyPods}, gathering},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := Loop{Matters: Matters}.wakeHandler(reconcile.Request{}, func() time.Duration { return 0 })
				q := priorityqueue.New[reconcile.Request]("pods-of-nodes")
				defer q.ShutDown()
				start := time.Now()
				go func() {
					for _, change := range test.changes {
						h.Update(t.Context(), change, q)
						time.Sleep(apart)
					}
				}()
				request, _ := q.Get()
				if got := time.Since(start); got != test.want {
					t.Errorf("the run comes after %s, want %s", got, test.want)
				}
				q.Done(request)
				time.Sleep(2 * podGathering)
				if q.Len() > 0 {
					t.Error("there is a second run")
				}
			})
		})
	}
}

const spacedRuns = 12

// spaced has so many runs take as long as they must.
func (r *runs) spaced(t *testing.T, run func()) {
	t.Helper()
	testkit.Cluster(t) // which takes its time to start
	start := time.Now()
	run()
	if took := time.Since(start); took < (spacedRuns-1)*spacing {
		t.Errorf("%d runs took %s", spacedRuns, took)
	}
}
