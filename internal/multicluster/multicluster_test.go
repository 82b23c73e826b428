// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"

	"liqo.io/liqo/internal/testkit"
)

func TestPairLifecycle(t *testing.T) {
	s := play(t)
	first, second := s.pair(t), s.pair(t)
	put(t, s.local, first.Local, "a", "1", mine)
	put(t, s.local, second.Local, "b", "2", mine)

	s.engine.Set([]multicluster.Pair{first})
	s.eventually(t, first, map[string]string{"a": "1"})
	s.engine.Set([]multicluster.Pair{first, second})
	s.eventually(t, second, map[string]string{"b": "2"})
	put(t, s.local, first.Local, "a", "changed", mine)
	s.eventually(t, first, map[string]string{"a": "changed"})
	remove(t, s.local, first.Local, "a")
	s.eventually(t, first, map[string]string{})

	// The first pair goes: nothing is deleted, and nothing is copied any more.
	put(t, s.local, first.Local, "c", "3", mine)
	s.eventually(t, first, map[string]string{"c": "3"})
	s.engine.Set([]multicluster.Pair{second})
	put(t, s.local, first.Local, "c", "not copied", mine)
	put(t, s.local, second.Local, "d", "4", mine)
	s.eventually(t, second, map[string]string{"b": "2", "d": "4"})
	s.eventually(t, first, map[string]string{"c": "3"})

	// It comes back and catches up, with what was deleted meanwhile too.
	remove(t, s.local, first.Local, "c")
	s.engine.Set([]multicluster.Pair{first, second})
	s.eventually(t, first, map[string]string{})
	want := []string{first.Local + " configmaps", second.Local + " configmaps", first.Local + " configmaps"}
	testkit.Eventually(t, limit, func() error {
		if got := s.log.begun(); !slices.Equal(got, want) {
			return fmt.Errorf("begun %v, want %v", got, want)
		}
		return nil
	})
}

func TestApplyEqual(t *testing.T) {
	s := play(t)
	p := s.pair(t)
	put(t, s.local, p.Local, "a", "1", mine)
	s.engine.Set([]multicluster.Pair{p})
	s.eventually(t, p, map[string]string{"a": "1"})
	testkit.Eventually(t, limit, func() error {
		// The engine's own write comes back and is looked at once more.
		if got := s.log.synced("a"); got < 2 {
			return fmt.Errorf("looked at %d times", got)
		}
		return nil
	})
	before, looked := s.log.writes("remote"), s.log.synced("a")
	for i := range 3 {
		s.engine.Enqueue("configmaps", p, "a")
		s.eventuallySynced(t, "a", looked+i+1)
	}
	if got := s.log.writes("remote") + s.log.writes("local"); got != before {
		t.Errorf("%d writes of what is equal", got-before)
	}
	if before != 1 {
		t.Errorf("%d writes for one object, want 1", before)
	}
}

func TestParkedWhileForbidden(t *testing.T) {
	for _, side := range []string{"local", "remote"} {
		t.Run(side, func(t *testing.T) {
			other := map[string]string{"local": "remote", "remote": "local"}[side]
			s := play(t)
			healthy, forbidden := s.pair(t), s.pair(t, other)
			put(t, s.local, forbidden.Local, "kept", "1", mine)
			put(t, s.far, forbidden.Remote, "kept", "old", copied)
			put(t, s.far, forbidden.Remote, "orphan", "old", copied)
			s.engine.Set([]multicluster.Pair{forbidden, healthy})

			// While another pair works, the forbidden one decides nothing: above all it deletes nothing.
			put(t, s.local, healthy.Local, "a", "1", mine)
			s.eventually(t, healthy, map[string]string{"a": "1"})
			testkit.Eventually(t, limit, func() error {
				if s.log.countOf("cannot follow") == 0 || metric(t, "liqo_mirror_parked") == 0 {
					return errors.New("nothing is parked yet")
				}
				return nil
			})
			if s.log.synced("kept")+s.log.synced("orphan") > 0 {
				t.Error("an item was handled while one side was unknown")
			}
			if s.engine.Synced(forbidden) || !s.engine.Synced(healthy) {
				t.Errorf("synced: forbidden %t, healthy %t", s.engine.Synced(forbidden), s.engine.Synced(healthy))
			}
			s.eventually(t, forbidden, map[string]string{"kept": "old", "orphan": "old"})

			s.allow(t, forbidden, side)
			s.eventually(t, forbidden, map[string]string{"kept": "1"})
			if got := metric(t, "liqo_mirror_parked"); got != 0 {
				t.Errorf("%v items are still parked", got)
			}
			if got := s.log.countOf("cannot follow"); got != 1 {
				t.Errorf("told %d times that a side cannot be followed, want 1", got)
			}
		})
	}
}

func TestCredentialSwap(t *testing.T) {
	s := &scene{
		local: testkit.Cluster(t), far: testkit.SecondCluster(t), localUser: "local-swap", remoteUser: "before",
		log: &journal{syncs: map[string]int{}, wrote: map[string]int{}},
	}
	relay, cfg := testkit.NewRelay(t, s.far.User(t, "before"))
	conn, err := multicluster.NewConn(testkit.Kubeconfig(t, cfg), multicluster.AllowLoopback(true))
	if err != nil {
		t.Fatal(err)
	}
	s.connect(t, conn, []multicluster.Kind{s.copyKind()})
	p := s.pair(t)
	grant(t, s.far, p.Remote, "after")
	put(t, s.local, p.Local, "a", "1", mine)
	s.engine.Set([]multicluster.Pair{p})
	s.eventually(t, p, map[string]string{"a": "1"})
	old := relay.Live()

	next := s.far.User(t, "after")
	next.Host = cfg.Host
	if err := conn.Swap(testkit.Kubeconfig(t, next)); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, limit, func() error {
		for n := range relay.Live() {
			if old[n] {
				return fmt.Errorf("connection %d with the old certificate lives", n)
			}
		}
		return nil
	})
	// Both directions work: our write, and the watch of what others change there.
	put(t, s.local, p.Local, "a", "2", mine)
	s.eventually(t, p, map[string]string{"a": "2"})
	put(t, s.far, p.Remote, "a", "changed by somebody")
	s.eventually(t, p, map[string]string{"a": "2"})
	if got := s.log.begun(); len(got) != 1 {
		t.Errorf("begun %v: a swap must not start the pair again", got)
	}
}

func TestRemoteOutage(t *testing.T) {
	s := play(t)
	p := s.pair(t)
	put(t, s.local, p.Local, "changed", "1", mine)
	put(t, s.local, p.Local, "removed", "1", mine)
	s.engine.Set([]multicluster.Pair{p})
	s.eventually(t, p, map[string]string{"changed": "1", "removed": "1"})

	s.far.StopAPIServer(t)
	looked := s.log.synced("changed")
	put(t, s.local, p.Local, "changed", "2", mine)
	put(t, s.local, p.Local, "added", "1", mine)
	remove(t, s.local, p.Local, "removed")
	s.eventuallySynced(t, "changed", looked+1)
	s.far.StartAPIServer(t)

	s.eventually(t, p, map[string]string{"changed": "2", "added": "1"})
	// What is changed there is noticed again.
	put(t, s.far, p.Remote, "added", "changed by somebody")
	s.eventually(t, p, map[string]string{"changed": "2", "added": "1"})
	if metric(t, "liqo_mirror_errors_total") == 0 {
		t.Error("the failures of the outage were not counted")
	}
}

func TestErrorsOfOneItem(t *testing.T) {
	log := &journal{syncs: map[string]int{}}
	s := play(t, multicluster.Kind{
		Name: "odd", Workers: 1,
		Local:  []multicluster.Source{{Object: &corev1.ConfigMap{}, Labels: mine}},
		Remote: []multicluster.Source{{Object: &corev1.ConfigMap{}, Labels: copied}},
		Sync: func(_ context.Context, it *multicluster.Item) error {
			call := log.sync(it.Name)
			switch it.Name {
			case "failing":
				return errors.New("out of luck")
			case "panicking":
				panic("odd object")
			case "invalid":
				return kube.Invalid("Odd", errors.New("only you can fix it"))
			case "waiting":
				if call < 3 {
					return kube.Wait(10*time.Millisecond, "not yet")
				}
			}
			return nil
		},
	})
	p := s.pair(t)
	for _, name := range []string{"failing", "panicking", "invalid", "waiting", "fine"} {
		put(t, s.local, p.Local, name, "1", mine)
	}
	s.engine.Set([]multicluster.Pair{p})
	testkit.Eventually(t, limit, func() error {
		if log.synced("fine") == 0 || log.synced("waiting") < 3 || log.synced("failing") < 4 || log.synced("panicking") < 4 {
			return fmt.Errorf("attempts so far: %v", log.attempts())
		}
		return nil
	})
	if got := log.synced("invalid"); got != 1 {
		t.Errorf("%d attempts at what only the user can fix, want 1", got)
	}
	if s.log.countOf("out of luck") == 0 {
		t.Error("a failure was not logged")
	}
	if got := s.log.countOf("not yet"); got != 0 {
		t.Error("waiting was logged")
	}
	if metric(t, "liqo_mirror_lag_seconds") == 0 {
		t.Error("no lag was measured")
	}
}

// TestSeveralSources has items that follow objects of two kinds, typed and unstructured, under a common name.
func TestSeveralSources(t *testing.T) {
	loose := &unstructured.Unstructured{}
	loose.SetGroupVersionKind(offv1beta1.GroupVersion.WithKind("Quota"))
	type sight struct{ quota, configMaps, user string }
	seen := make(chan sight, 100)
	s := play(t, multicluster.Kind{
		Name: "several",
		Local: []multicluster.Source{
			{Object: &corev1.ConfigMap{}, Labels: mine, Key: func(o client.Object) string { return o.GetAnnotations()["item"] },
				Transform: &multicluster.Transform{Apply: func(o client.Object) { o.(*corev1.ConfigMap).Data = map[string]string{"value": "cut"} }}},
			{Object: &corev1.ConfigMap{}, Labels: copied, Key: func(client.Object) string { return "x" }},
		},
		Remote: []multicluster.Source{{Object: loose}},
		Sync: func(ctx context.Context, it *multicluster.Item) error {
			if it.Name != "x" {
				return fmt.Errorf("item %q", it.Name)
			}
			var list corev1.ConfigMapList
			if err := it.Local.List(&list); err != nil {
				return err
			}
			var got sight
			for _, obj := range list.Items {
				got.configMaps += obj.Name + "=" + obj.Data["value"] + " "
			}
			var quota offv1beta1.Quota
			if found, err := it.Remote.Get("x", &quota); err != nil {
				return err
			} else if found {
				got.quota, got.user = quota.Name, quota.Spec.User
			}
			if _, err := it.Local.Get("x", &corev1.Secret{}); err == nil {
				return errors.New("a kind that is not watched was read")
			}
			seen <- got
			return nil
		},
	})
	p := s.pair(t)
	annotated := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Local, Name: "a", Labels: map[string]string{mine: "true"}, Annotations: map[string]string{"item": "x"}},
		Data:       map[string]string{"value": "long"},
	}
	if err := s.local.Client.Create(t.Context(), annotated); err != nil {
		t.Fatal(err)
	}
	put(t, s.local, p.Local, "b", "whole", copied)
	put(t, s.local, p.Local, "ignored", "no item", mine)
	if err := s.far.Client.Create(t.Context(), &offv1beta1.Quota{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Remote, Name: "x"},
		Spec:       offv1beta1.QuotaSpec{User: "milan", Resources: corev1.ResourceList{}},
	}); err != nil {
		t.Fatal(err)
	}
	s.engine.Set([]multicluster.Pair{p})
	want := sight{quota: "x", user: "milan", configMaps: "a=cut ignored=cut b=whole "}
	testkit.Eventually(t, limit, func() error {
		select {
		case got := <-seen:
			if got != want {
				return fmt.Errorf("saw %+v, want %+v", got, want)
			}
			return nil
		default:
			return errors.New("nothing seen")
		}
	})
}

// TestStatusCopy brings the status of a remote object back to the local one.
func TestStatusCopy(t *testing.T) {
	log := &journal{syncs: map[string]int{}}
	s := play(t, multicluster.Kind{
		Name:   "maps",
		Local:  []multicluster.Source{{Object: &offv1beta1.NamespaceMap{}}},
		Remote: []multicluster.Source{{Object: &offv1beta1.NamespaceMap{}}},
		Sync: func(ctx context.Context, it *multicluster.Item) error {
			log.sync(it.Name)
			var local, far offv1beta1.NamespaceMap
			if found, err := it.Local.Get(it.Name, &local); err != nil || !found {
				return err
			}
			found, err := it.Remote.Get(it.Name, &far)
			if err != nil {
				return err
			}
			if !found {
				created := &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: it.Name}, Spec: local.Spec}
				return it.Remote.Create(ctx, created)
			}
			if len(local.Status.CurrentMapping) > 0 {
				log.sync("cached back")
			}
			local.Status = far.Status
			return it.Local.UpdateStatus(ctx, &local)
		},
	})
	p := s.pair(t)
	local := &offv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Local, Name: "x"},
		Spec:       offv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"a": "a-rome"}},
	}
	if err := s.local.Client.Create(t.Context(), local); err != nil {
		t.Fatal(err)
	}
	s.engine.Set([]multicluster.Pair{p})
	var far offv1beta1.NamespaceMap
	testkit.Eventually(t, limit, func() error {
		return s.far.Client.Get(t.Context(), client.ObjectKey{Namespace: p.Remote, Name: "x"}, &far)
	})
	far.Status.CurrentMapping = map[string]offv1beta1.RemoteNamespaceStatus{
		"a": {RemoteNamespace: "a-rome", Phase: offv1beta1.MappingAccepted},
	}
	if err := s.far.Client.Status().Update(t.Context(), &far); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, limit, func() error {
		if err := s.local.Client.Get(t.Context(), client.ObjectKeyFromObject(local), local); err != nil {
			return err
		}
		if got := local.Status.CurrentMapping["a"].RemoteNamespace; got != "a-rome" {
			return fmt.Errorf("the local status says %q", got)
		}
		return nil
	})
	for looked := range 4 { // the first time by the watch: before it has told of the write, another one would be tried and refused
		if looked > 0 {
			s.engine.Enqueue("maps", p, "x")
		}
		testkit.Eventually(t, limit, func() error {
			if log.synced("cached back") <= looked {
				return errors.New("not looked at")
			}
			return nil
		})
	}
	if got := s.log.writes("local"); got != 1 {
		t.Errorf("%d writes of the local status, want 1", got)
	}
}

func TestDeletePrecondition(t *testing.T) {
	result := make(chan error, 1)
	var stale corev1.ConfigMap
	s := play(t, multicluster.Kind{
		Name:   "deleting",
		Remote: []multicluster.Source{{Object: &corev1.ConfigMap{}, Labels: copied}},
		Sync: func(ctx context.Context, it *multicluster.Item) error {
			result <- it.Remote.Delete(ctx, &stale)
			return nil
		},
	})
	p := s.pair(t)
	put(t, s.far, p.Remote, "x", "old", mine)
	if err := s.far.Client.Get(t.Context(), client.ObjectKey{Namespace: p.Remote, Name: "x"}, &stale); err != nil {
		t.Fatal(err)
	}
	remove(t, s.far, p.Remote, "x")
	put(t, s.far, p.Remote, "x", "new", copied)
	s.engine.Set([]multicluster.Pair{p})
	if err := <-result; err == nil {
		t.Error("an object was deleted that took the name of another one")
	} else if kube.Classify(err).Failed() {
		t.Errorf("got %v, want a quiet conflict", err)
	}
	s.eventually(t, p, map[string]string{"x": "new"})
}

func TestEngineStop(t *testing.T) {
	// What the servers of the test binary and earlier tests left running is not ours.
	testkit.Cluster(t)
	testkit.SecondCluster(t)
	before := goleak.IgnoreCurrent()
	s := play(t)
	p := s.pair(t)
	unreachable := s.pair(t, "local")
	put(t, s.local, p.Local, "a", "1", mine)
	s.engine.Set([]multicluster.Pair{p, unreachable})
	s.eventually(t, p, map[string]string{"a": "1"})
	s.stop()
	s.engine.Set([]multicluster.Pair{p})
	s.engine.Enqueue("configmaps", p, "a")
	testkit.Eventually(t, limit, func() error {
		return goleak.Find(before,
			// Idle connections of clients that client-go shares by configuration.
			goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
			goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
			goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"),
			goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"))
	})
	if got := metric(t, "liqo_mirror_items_total"); got != 0 {
		t.Errorf("the metrics of a peer that is gone remain: %v", got)
	}
}

func TestNewInvalidKinds(t *testing.T) {
	c := testkit.Cluster(t)
	conn, err := multicluster.NewConn(testkit.Kubeconfig(t, c.User(t, "x")), multicluster.AllowLoopback(true))
	if err != nil {
		t.Fatal(err)
	}
	sync := func(context.Context, *multicluster.Item) error { return nil }
	for name, kinds := range map[string][]multicluster.Kind{
		"without a name":            {{Sync: sync}},
		"without Sync":              {{Name: "a"}},
		"twice the same name":       {{Name: "a", Sync: sync}, {Name: "a", Sync: sync}},
		"a prototype of no kind":    {{Name: "a", Sync: sync, Local: []multicluster.Source{{Object: &unstructured.Unstructured{}}}}},
		"a label selector of noise": {{Name: "a", Sync: sync, Local: []multicluster.Source{{Object: &corev1.Pod{}, Labels: "a=b=c"}}}},
	} {
		if _, err := multicluster.New(multicluster.Options{Local: c.Config, Remote: conn, Kinds: kinds}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
