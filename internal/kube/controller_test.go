// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

const limit = 3 * time.Minute

type tenant = authv1beta1.Tenant

// script is a controller made of functions.
type script struct {
	mu      sync.Mutex
	calls   map[string]int
	sync    func(ctx context.Context, obj *tenant, call int) error
	cleanup func(ctx context.Context, obj *tenant, call int) error
}

func (s *script) count(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[key]++
	return s.calls[key]
}

func (s *script) called(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[key]
}

func (s *script) Sync(ctx context.Context, obj *tenant) error {
	return s.sync(ctx, obj, s.count(obj.Name))
}

func (s *script) Cleanup(ctx context.Context, obj *tenant) error {
	if s.cleanup == nil {
		return nil
	}
	return s.cleanup(ctx, obj, s.count("cleanup/"+obj.Name))
}

// reporting adds a Reporter that keeps one condition.
type reporting struct{ *script }

func (r reporting) Report(obj *tenant, err error) []kube.Event {
	condition := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Fine", Message: "all is well"}
	kind := corev1.EventTypeNormal
	if err != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, "Broken", err.Error()
		kind = corev1.EventTypeWarning
	}
	// The event is returned on every pass: the loop must tell it once.
	apimeta.SetStatusCondition(&obj.Status.Conditions, condition)
	return []kube.Event{{Type: kind, Reason: condition.Reason, Message: condition.Message}}
}

// bearing adds a StatusCopier that leaves the spec out.
type bearing struct{ reporting }

func (bearing) CopyForStatus(obj *tenant) *tenant {
	return &tenant{ObjectMeta: *obj.ObjectMeta.DeepCopy(), Status: *obj.Status.DeepCopy()}
}

// ReplayEvents says what the condition says.
func (r reporting) ReplayEvents(obj *tenant) []kube.Event {
	var out []kube.Event
	for _, c := range obj.Status.Conditions {
		kind := corev1.EventTypeNormal
		if c.Status != metav1.ConditionTrue {
			kind = corev1.EventTypeWarning
		}
		out = append(out, kube.Event{Type: kind, Reason: c.Reason, Message: c.Message})
	}
	return out
}

// bench is a running controller in a namespace of its own.
type bench struct {
	*testkit.ControlPlane
	namespace string
	traffic   *writeCounter
	errors    *errorLog
	stop      func()
}

func run(t *testing.T, o kube.Options, s kube.Syncer[*tenant]) *bench {
	t.Helper()
	c := testkit.Cluster(t)
	b := &bench{ControlPlane: c, namespace: testkit.Namespace(t, c, "controller", nil), errors: &errorLog{}}
	cfg, counts := counted(c.Config)
	b.traffic = counts
	options := kube.ManagerOptions{Namespaces: []string{b.namespace}, Log: b.errors.logger()}
	b.stop = testkit.Manager(t, cfg, options, func(mgr ctrl.Manager) error {
		controller := kube.NewController(mgr, o, s)
		return controller.Complete(controller.Builder())
	})
	return b
}

func (b *bench) create(t *testing.T, name string) *tenant {
	t.Helper()
	obj := &tenant{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	if err := b.Client.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func (b *bench) get(t *testing.T, name string) *tenant {
	t.Helper()
	obj := &tenant{}
	if err := b.Client.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// touch changes an annotation, so that the controller looks again.
func (b *bench) touch(t *testing.T, name, value string) {
	t.Helper()
	obj := b.get(t, name)
	patch := client.MergeFrom(obj.DeepCopy())
	metav1.SetMetaDataAnnotation(&obj.ObjectMeta, "touched", value)
	if err := b.Client.Patch(t.Context(), obj, patch); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) events(t *testing.T, name string) []string {
	t.Helper()
	var list eventsv1.EventList
	if err := b.Client.List(t.Context(), &list, client.InNamespace(b.namespace)); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list.Items {
		if e.Regarding.Name != name {
			continue
		}
		times := 1
		if e.Series != nil {
			times = int(e.Series.Count)
		}
		out = append(out, fmt.Sprintf("%s %s x%d", e.Type, e.Reason, times))
	}
	slices.Sort(out)
	return out
}

// reached waits until the controller was called so often for key.
func (s *script) reached(t *testing.T, key string, calls int) {
	t.Helper()
	testkit.Eventually(t, limit, func() error {
		if got := s.called(key); got < calls {
			return fmt.Errorf("%s: %d calls, want %d", key, got, calls)
		}
		return nil
	})
}

func newScript(sync func(ctx context.Context, obj *tenant, call int) error) *script {
	return &script{calls: map[string]int{}, sync: sync}
}

func TestFinalizerBeforeSync(t *testing.T) {
	c := testkit.Cluster(t)
	s := newScript(func(ctx context.Context, obj *tenant, _ int) error {
		stored := &tenant{}
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(obj), stored); err != nil {
			return err
		}
		if !slices.Contains(stored.Finalizers, names.TenantFinalizer) {
			t.Errorf("Sync ran while the stored finalizers were %v", stored.Finalizers)
		}
		return nil
	})
	b := run(t, kube.Options{Name: "finalizer", Finalizer: names.TenantFinalizer}, s)
	b.create(t, "x")
	s.reached(t, "x", 1)
}

func TestFinalizerAfterCleanup(t *testing.T) {
	s := newScript(func(context.Context, *tenant, int) error { return nil })
	s.cleanup = func(_ context.Context, obj *tenant, call int) error {
		if call < 3 {
			return kube.Wait(20*time.Millisecond, "something remains")
		}
		return nil
	}
	b := run(t, kube.Options{Name: "cleanup", Finalizer: names.TenantFinalizer}, s)
	obj := b.create(t, "x")
	s.reached(t, "x", 1)
	if err := b.Client.Delete(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, limit, func() error {
		err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), &tenant{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("got %v, want not found", err)
		}
		return nil
	})
	if got := s.called("cleanup/x"); got < 3 {
		t.Errorf("%d clean-ups, want 3: the finalizer went while something remained", got)
	}
	if lines := b.errors.about("x"); len(lines) > 0 {
		t.Errorf("waiting was logged as an error: %v", lines)
	}
}

func TestNeedsFinalizer(t *testing.T) {
	s := newScript(func(context.Context, *tenant, int) error { return nil })
	b := run(t, kube.Options{
		Name: "choosy", Finalizer: names.TenantFinalizer,
		NeedsFinalizer: func(o client.Object) bool { return o.GetName() == "needs" },
	}, s)
	b.create(t, "needs")
	b.create(t, "free")
	s.reached(t, "needs", 1)
	s.reached(t, "free", 1)
	if got := b.get(t, "free").Finalizers; len(got) > 0 {
		t.Errorf("finalizers %v, want none", got)
	}
	if got := b.get(t, "needs").Finalizers; !slices.Equal(got, []string{names.TenantFinalizer}) {
		t.Errorf("finalizers %v, want %s", got, names.TenantFinalizer)
	}
}

func TestStatusAndEventsOfTransitions(t *testing.T) {
	s := newScript(func(_ context.Context, obj *tenant, _ int) error {
		if obj.Annotations["touched"] == "break" {
			return kube.Invalid("Broken", errors.New("as asked"))
		}
		obj.Status.TenantNamespace = obj.Namespace
		return nil
	})
	b := run(t, kube.Options{Name: "status"}, reporting{s})
	b.create(t, "x")
	testkit.Eventually(t, limit, func() error {
		if got := b.get(t, "x").Status.TenantNamespace; got != b.namespace {
			return fmt.Errorf("status says %q", got)
		}
		return nil
	})
	// Three more passes that change nothing.
	for i := range 3 {
		before := s.called("x")
		b.touch(t, "x", fmt.Sprint(i))
		s.reached(t, "x", before+1)
	}
	if got := b.traffic.of("/tenants/x/status"); got != 1 {
		t.Errorf("%d status writes, want 1", got)
	}
	b.touch(t, "x", "break")
	testkit.Eventually(t, limit, func() error {
		if condition := apimeta.FindStatusCondition(b.get(t, "x").Status.Conditions, "Ready"); condition.Reason != "Broken" {
			return fmt.Errorf("condition %s", condition.Reason)
		}
		return nil
	})
	before := s.called("x")
	b.touch(t, "x", "fine")
	s.reached(t, "x", before+1)
	// The passes: fine, broken, fine again; "fine" is one series of events that was told twice.
	testkit.Eventually(t, limit, func() error {
		got := b.events(t, "x")
		if want := []string{"Normal Fine x2", "Warning Broken x1"}; !slices.Equal(got, want) && !slices.Equal(got, []string{"Normal Fine x1", "Normal Fine x1", "Warning Broken x1"}) {
			return fmt.Errorf("events %v, want %v", got, want)
		}
		return nil
	})
	if got := b.traffic.of("/tenants/x/status"); got != 3 {
		t.Errorf("%d status writes, want 3", got)
	}
}

func TestConflictOfSync(t *testing.T) {
	c := testkit.Cluster(t)
	s := newScript(func(ctx context.Context, obj *tenant, call int) error {
		if call > 1 {
			return nil
		}
		// Somebody else is faster, so that our own write of the object we read conflicts.
		other := obj.DeepCopy()
		metav1.SetMetaDataAnnotation(&other.ObjectMeta, "other", "first")
		if err := c.Client.Update(ctx, other); err != nil {
			return err
		}
		err := c.Client.Update(ctx, obj.DeepCopy())
		if !apierrors.IsConflict(err) {
			t.Errorf("got %v, want a conflict", err)
		}
		return fmt.Errorf("writing: %w", err)
	})
	b := run(t, kube.Options{Name: "conflict"}, s)
	b.create(t, "x")
	s.reached(t, "x", 2)
	if lines := b.errors.about("x"); len(lines) > 0 {
		t.Errorf("a conflict was logged as an error: %v", lines)
	}
	if got := reconcileErrors(t, "conflict"); got != 0 {
		t.Errorf("%v reconcile errors counted, want 0", got)
	}
}

func TestConflictOfStatus(t *testing.T) {
	for name, with := range map[string]func(*script) kube.Syncer[*tenant]{
		"patch": func(s *script) kube.Syncer[*tenant] { return reporting{s} },
		"whole": func(s *script) kube.Syncer[*tenant] { return bearing{reporting{s}} },
	} {
		t.Run(name, func(t *testing.T) { conflictOfTheStatus(t, name, with) })
	}
}

func conflictOfTheStatus(t *testing.T, name string, with func(*script) kube.Syncer[*tenant]) {
	c := testkit.Cluster(t)
	s := newScript(func(ctx context.Context, obj *tenant, call int) error {
		if call == 1 {
			other := obj.DeepCopy()
			metav1.SetMetaDataAnnotation(&other.ObjectMeta, "other", "first")
			return c.Client.Update(ctx, other)
		}
		return nil
	})
	b := run(t, kube.Options{Name: "status-conflict-" + name}, with(s))
	b.create(t, "x")
	testkit.Eventually(t, limit, func() error {
		if apimeta.FindStatusCondition(b.get(t, "x").Status.Conditions, "Ready") == nil {
			return errors.New("no condition")
		}
		return nil
	})
	testkit.Eventually(t, limit, func() error {
		if got, want := b.events(t, "x"), []string{"Normal Fine x1"}; !slices.Equal(got, want) {
			return fmt.Errorf("events %v, want %v", got, want)
		}
		return nil
	})
	if lines := b.errors.about("x"); len(lines) > 0 {
		t.Errorf("a conflict was logged as an error: %v", lines)
	}
}

func TestInvalidAndFailed(t *testing.T) {
	s := newScript(func(_ context.Context, obj *tenant, _ int) error {
		if obj.Name == "wrong" {
			return kube.Invalid("NotGood", errors.New("only you can fix it"))
		}
		return errors.New("out of luck")
	})
	b := run(t, kube.Options{Name: "invalid"}, s)
	b.create(t, "wrong")
	s.reached(t, "wrong", 1)
	b.create(t, "unlucky")
	// By the sixth attempt of the other one, a retry of the first would long have come.
	s.reached(t, "unlucky", 6)
	if got := s.called("wrong"); got != 1 {
		t.Errorf("%d attempts at what only the user can fix, want 1", got)
	}
	if lines := b.errors.about("wrong"); len(lines) > 0 {
		t.Errorf("what only the user can fix was logged as an error: %v", lines)
	}
	if len(b.errors.about("out of luck")) == 0 {
		t.Error("a failure was not logged")
	}
	testkit.Eventually(t, limit, func() error {
		if got, want := b.events(t, "wrong"), []string{"Warning NotGood x1"}; !slices.Equal(got, want) {
			return fmt.Errorf("events %v, want %v", got, want)
		}
		return nil
	})
}

func TestEventsAfterRestart(t *testing.T) {
	sync := func(_ context.Context, obj *tenant, _ int) error {
		if obj.Name == "wrong" {
			return errors.New("no way")
		}
		return nil
	}
	first := newScript(sync)
	b := run(t, kube.Options{Name: "restart"}, reporting{first})
	for _, name := range []string{"fine", "wrong"} {
		b.create(t, name)
		testkit.Eventually(t, limit, func() error {
			if got := b.events(t, name); len(got) != 1 {
				return fmt.Errorf("events %v, want one", got)
			}
			return nil
		})
	}
	b.stop()

	again := newScript(sync)
	testkit.Manager(t, b.Config, kube.ManagerOptions{Namespaces: []string{b.namespace}, Log: b.errors.logger()}, func(mgr ctrl.Manager) error {
		controller := kube.NewController(mgr, kube.Options{Name: "restart"}, reporting{again})
		return controller.Complete(controller.Builder())
	})
	again.reached(t, "fine", 1)
	again.reached(t, "wrong", 1)
	b.create(t, "later")
	for name, want := range map[string][]string{
		"later": {"Normal Fine x1"}, "fine": {"Normal Fine x1"}, "wrong": {"Warning Broken x1", "Warning Broken x1"},
	} {
		testkit.Eventually(t, limit, func() error {
			if got := b.events(t, name); !slices.Equal(got, want) {
				return fmt.Errorf("events about %s: %v, want %v", name, got, want)
			}
			return nil
		})
	}
}

func TestWaitOfSync(t *testing.T) {
	s := newScript(func(_ context.Context, _ *tenant, call int) error {
		if call < 4 {
			return kube.Wait(10*time.Millisecond, "not yet")
		}
		return nil
	})
	b := run(t, kube.Options{Name: "wait"}, s)
	b.create(t, "x")
	s.reached(t, "x", 4)
	if lines := b.errors.about("x"); len(lines) > 0 {
		t.Errorf("waiting was logged as an error: %v", lines)
	}
	if got := reconcileErrors(t, "wait"); got != 0 {
		t.Errorf("%v reconcile errors counted, want 0", got)
	}
	if got := b.events(t, "x"); len(got) > 0 {
		t.Errorf("waiting was told: %v", got)
	}
}

func TestObjectGoneDuringSync(t *testing.T) {
	c := testkit.Cluster(t)
	s := newScript(func(ctx context.Context, obj *tenant, _ int) error {
		obj.Status.TenantNamespace = "x"
		return c.Client.Delete(ctx, obj.DeepCopy())
	})
	b := run(t, kube.Options{Name: "gone"}, s)
	b.create(t, "x")
	s.reached(t, "x", 1)
	b.create(t, "y")
	s.reached(t, "y", 1)
	if lines := b.errors.about("gone"); len(lines) > 0 {
		t.Errorf("logged as errors: %v", lines)
	}
}

// clocked looks again after a while.
type clocked struct{ *script }

func (clocked) Next(*tenant) time.Duration { return 10 * time.Millisecond }

func TestRescheduler(t *testing.T) {
	s := newScript(func(context.Context, *tenant, int) error { return nil })
	b := run(t, kube.Options{Name: "clocked"}, clocked{s})
	b.create(t, "x")
	s.reached(t, "x", 3)
}

func reconcileErrors(t *testing.T, controller string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_errors_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "controller" && label.GetValue() == controller {
					return metric.GetCounter().GetValue()
				}
			}
		}
	}
	t.Fatalf("no count of the errors of controller %s", controller)
	return 0
}

// lateManager has a cache that goes on showing what was deleted.
type lateManager struct {
	ctrl.Manager
	client client.Client
}

func (m lateManager) GetClient() client.Client { return m.client }

// lateClient returns an object as it was last seen when it is gone.
type lateClient struct {
	client.Client
	last *tenant
}

func (c *lateClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, obj, opts...)
	into, ok := obj.(*tenant)
	if !ok {
		return err
	}
	if apierrors.IsNotFound(err) && c.last != nil {
		c.last.DeepCopyInto(into)
		return nil
	}
	if err == nil {
		c.last = into.DeepCopy()
	}
	return err
}

func TestCleanupWithStaleCache(t *testing.T) {
	c := testkit.Cluster(t)
	mgr, err := kube.NewManager(c.Config, kube.ManagerOptions{Name: "late", HealthAddress: "0", MetricsAddress: "0"})
	if err != nil {
		t.Fatal(err)
	}
	script := &script{calls: map[string]int{}}
	script.sync = func(context.Context, *tenant, int) error { return nil }
	script.cleanup = func(context.Context, *tenant, int) error { return nil }
	late := lateManager{Manager: mgr, client: &lateClient{Client: c.Client}}
	controller := kube.NewController[*tenant](late, kube.Options{Name: "late", Finalizer: "example.com/late"}, script)

	obj := &tenant{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace(t, c, "late", nil), Name: "one"}}
	if err := c.Client.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	reconcile := func() {
		t.Helper()
		if _, err := controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(obj)}); err != nil {
			t.Fatal(err)
		}
	}
	reconcile()
	if err := c.Client.Delete(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	reconcile()
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), &tenant{}); !apierrors.IsNotFound(err) {
		t.Fatalf("the object is still there: %v", err)
	}
	reconcile()
	if n := script.called("cleanup/one"); n != 1 {
		t.Errorf("cleaned up %d times", n)
	}
}

func TestCleanupWithoutFinalizer(t *testing.T) {
	c := testkit.Cluster(t)
	mgr, err := kube.NewManager(c.Config, kube.ManagerOptions{Name: "gone", HealthAddress: "0", MetricsAddress: "0"})
	if err != nil {
		t.Fatal(err)
	}
	script := &script{calls: map[string]int{}}
	script.sync = func(context.Context, *tenant, int) error { return nil }
	script.cleanup = func(_ context.Context, _ *tenant, call int) error {
		if call == 1 {
			return kube.Wait(time.Minute, "something else goes first")
		}
		return nil
	}
	direct := lateManager{Manager: mgr, client: c.Client}
	controller := kube.NewController[*tenant](direct, kube.Options{Name: "gone", Finalizer: "example.com/gone"}, script)

	obj := &tenant{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace(t, c, "gone", nil), Name: "one"}}
	if err := c.Client.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	reconcile := func() ctrl.Result {
		t.Helper()
		result, err := controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	reconcile()
	if err := c.Client.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Delete(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	if again := reconcile().RequeueAfter; again != time.Minute {
		t.Errorf("looks again after %s", again)
	}
	reconcile()
	reconcile()
	if n := script.called("cleanup/one"); n != 2 {
		t.Errorf("cleaned up %d times, want 2: once in vain and once for good", n)
	}
}
