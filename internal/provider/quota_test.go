// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
)

// enforcing is a provider of several replicas that holds consumers to their Quotas.
func enforcing(t *testing.T, replicas int) *testkit.ControlPlane {
	t.Helper()
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller", "garbage-collector-controller", "serviceaccount-controller"))
	lease := testkit.Namespace(t, c, "leases", nil)
	for range replicas {
		replica(t, c, electing(lease), NamespaceMapOptions{}, ShadowPodOptions{Enforce: true})
	}
	return c
}

// electing has one of several replicas act, until it ends and gives its lease up. None is ever so slow that it loses it.
func electing(namespace string) kube.ManagerOptions {
	return kube.ManagerOptions{
		Name: "host", LeaderElection: true, LeaderElectionNamespace: namespace,
		LeaseDuration: time.Minute, RenewDeadline: 40 * time.Second, RetryPeriod: time.Second,
	}
}

// twinOf is a consumer with one namespace, and a Quota for each of its users.
func twinOf(t *testing.T, c *testkit.ControlPlane, id string, budget corev1.ResourceList, users ...string) (remoteNamespace string, quotas []*offv1beta1.Quota) {
	t.Helper()
	remoteNamespace = "demo-" + id
	nm := consumer(t, c, id, map[string]string{"demo": remoteNamespace})
	for _, user := range users {
		q := grant(t, c, nm.Namespace, user)
		rebudget(t, c, q, func(spec *offv1beta1.QuotaSpec) { spec.Resources = budget })
		quotas = append(quotas, q)
	}
	mapping(t, c, nm, "demo", remoteNamespace, offv1beta1.MappingAccepted)
	return remoteNamespace, quotas
}

func rebudget(t *testing.T, c *testkit.ControlPlane, q *offv1beta1.Quota, change func(*offv1beta1.QuotaSpec)) {
	t.Helper()
	before := q.DeepCopy()
	change(&q.Spec)
	if err := c.Client.Patch(t.Context(), q, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func cpus(n string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
}

// asked is a ShadowPod of a user, as admission leaves it.
func asked(remoteNamespace, name, origin, user, cpu string) *offv1beta1.ShadowPod {
	sp := shadowOf(remoteNamespace, name, origin)
	sp.Labels[names.CreatorUser] = user
	sp.Spec.Pod.RestartPolicy = corev1.RestartPolicyNever
	sp.Spec.Pod.Containers[0].Resources.Requests = cpus(cpu)
	return sp
}

func ask(t *testing.T, c *testkit.ControlPlane, sp *offv1beta1.ShadowPod) *offv1beta1.ShadowPod {
	t.Helper()
	if err := c.Client.Create(t.Context(), sp); err != nil {
		t.Fatal(err)
	}
	return sp
}

func runs(t *testing.T, c *testkit.ControlPlane, sp *offv1beta1.ShadowPod) *corev1.Pod {
	t.Helper()
	pod := podNamed(sp.Namespace, sp.Name)
	eventually(t, c, pod, func() error { return nil })
	eventually(t, c, sp, func() error {
		if len(sp.Status.Conditions) > 0 {
			return fmt.Errorf("conditions are %v", sp.Status.Conditions)
		}
		return nil
	})
	return pod
}

// decided is nil when a ShadowPod has its pod, or an answer why not.
func decided(t *testing.T, c *testkit.ControlPlane, sp *offv1beta1.ShadowPod) error {
	if len(sp.Status.Conditions) > 0 {
		return nil
	}
	pod := podNamed(sp.Namespace, sp.Name)
	return c.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
}

func refusedBecause(t *testing.T, c *testkit.ControlPlane, sp *offv1beta1.ShadowPod, reason, text string) {
	t.Helper()
	eventually(t, c, sp, func() error {
		no := apimeta.FindStatusCondition(sp.Status.Conditions, offv1beta1.ShadowPodAccepted)
		if no == nil || no.Status != metav1.ConditionFalse || no.Reason != reason || !strings.Contains(no.Message, text) || sp.Status.Phase != corev1.PodPending {
			return fmt.Errorf("status is %+v, want %s with %q", sp.Status, reason, text)
		}
		return nil
	})
}

func report(t *testing.T, c *testkit.ControlPlane, pod *corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	before := pod.DeepCopy()
	pod.Status.Phase = phase
	if err := c.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// podRecorder follows every event of the pods in a namespace.
type podRecorder struct {
	mu       sync.Mutex
	alive    map[string]bool
	most     int
	order    []string
	appeared func(*corev1.Pod)
	client   client.Client
	in       string
	marks    map[string]bool // pods of our own that the watch has shown
}

// markLabel is the label of pods that show a podRecorder how far its watch is.
const markLabel = "example.com/census"

func countPods(t *testing.T, c *testkit.ControlPlane, namespace string, appeared func(*corev1.Pod)) *podRecorder {
	t.Helper()
	watching, err := client.NewWithWatch(c.Config, client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	w, err := watching.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	n := &podRecorder{alive: map[string]bool{}, appeared: appeared, client: c.Client, in: namespace, marks: map[string]bool{}}
	go func() {
		for e := range w.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok {
				n.record(e.Type, pod)
			}
		}
	}()
	return n
}

func (n *podRecorder) record(what watch.EventType, pod *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, mark := pod.Labels[markLabel]; mark {
		n.marks[pod.Name] = true
		return
	}
	if what == watch.Deleted || hasEnded(pod.Status.Phase) {
		delete(n.alive, pod.Name)
	} else {
		n.alive[pod.Name] = true
	}
	n.most = max(n.most, len(n.alive))
	if what == watch.Added {
		n.order = append(n.order, pod.Name)
		if n.appeared != nil {
			go n.appeared(pod)
		}
	}
}

func (n *podRecorder) seen() (most int, order []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.most, append([]string(nil), n.order...)
}

// wants so many pods, and so many at a time, of all that were made until now.
func (n *podRecorder) wants(t *testing.T, most, made int) {
	t.Helper()
	n.catchUp(t)
	if at, order := n.seen(); at != most || len(order) != made {
		t.Fatalf("%d pods were made, %d at a time; want %d, %d at a time", len(order), at, made, most)
	}
}

// catchUp returns when the watch has shown every pod that was made before: it shows them in the order in which they were written.
func (n *podRecorder) catchUp(t *testing.T) {
	t.Helper()
	mark := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "census-", Namespace: n.in, Labels: map[string]string{markLabel: "true"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "mark", Image: "mark"}}},
	}
	if err := n.client.Create(t.Context(), mark); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if !n.marks[mark.Name] {
			return errors.New("the watch does not show the mark")
		}
		return nil
	})
	if err := n.client.Delete(t.Context(), mark, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
}

func TestQuotaLimit(t *testing.T) {
	const room, all = 10, 200
	c := enforcing(t, 2)
	remoteNamespace, _ := twinOf(t, c, "teal", cpus("1"), "teal-a")
	go1 := make(chan struct{})
	n := countPods(t, c, remoteNamespace, func(pod *corev1.Pod) {
		select {
		case <-go1:
		case <-t.Context().Done():
			return
		}
		before := pod.DeepCopy()
		pod.Status.Phase = corev1.PodSucceeded
		if err := c.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before)); err != nil && t.Context().Err() == nil {
			t.Errorf("ending a pod: %v", err)
		}
	})
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() {
			if err := c.Client.Create(t.Context(), asked(remoteNamespace, fmt.Sprintf("job-%03d", i), "teal", "teal-a", "100m")); err != nil {
				t.Errorf("asking for a pod: %v", err)
			}
		})
	}
	group.Wait()
	shadows := func(what func(*offv1beta1.ShadowPod) bool) (count int, err error) {
		list := &offv1beta1.ShadowPodList{}
		err = c.Client.List(t.Context(), list, client.InNamespace(remoteNamespace))
		for i := range list.Items {
			if what(&list.Items[i]) {
				count++
			}
		}
		return count, err
	}
	are := func(want int, what string, is func(*offv1beta1.ShadowPod) bool) {
		t.Helper()
		testkit.Eventually(t, 4*patience, func() error {
			if got, err := shadows(is); err != nil || got != want {
				return fmt.Errorf("%d are %s, want %d (%v)", got, what, want, err)
			}
			return nil
		})
	}
	are(all-room, "over the Quota", func(sp *offv1beta1.ShadowPod) bool {
		no := apimeta.FindStatusCondition(sp.Status.Conditions, offv1beta1.ShadowPodAccepted)
		return no != nil && no.Reason == offv1beta1.ReasonOverQuota
	})
	n.wants(t, room, room)
	close(go1)
	are(all, "done and without a complaint", func(sp *offv1beta1.ShadowPod) bool {
		return sp.Status.Phase == corev1.PodSucceeded && len(sp.Status.Conditions) == 0
	})
	n.wants(t, room, all)
}

func TestQuotaOrder(t *testing.T) {
	c := enforcing(t, 1)
	remoteNamespace, quotas := twinOf(t, c, "cyan", cpus("2"), "cyan-a")
	first := runs(t, c, ask(t, c, asked(remoteNamespace, "z-first", "cyan", "cyan-a", "2")))
	large := ask(t, c, asked(remoteNamespace, "y-large", "cyan", "cyan-a", "2"))
	refusedBecause(t, c, large, "OverQuota", "peering cpu quota usage exceeded - requested 2 of 2")
	waitForEvent(t, c, large, "FailedCreatePod", "peering cpu quota usage exceeded")
	var names []string
	for _, name := range []string{"x", "w", "v"} {
		small := ask(t, c, asked(remoteNamespace, name, "cyan", "cyan-a", "1"))
		refusedBecause(t, c, small, "OverQuota", "requested 1 of 2")
		names = append(names, name)
	}
	version := large.ResourceVersion
	report(t, c, first, corev1.PodRunning)
	report(t, c, first, corev1.PodFailed) // an evicted pod frees its share too
	pod := runs(t, c, large)
	for _, name := range names {
		sp := asked(remoteNamespace, name, "cyan", "cyan-a", "1")
		refusedBecause(t, c, sp, "OverQuota", "")
	}
	if version == large.ResourceVersion {
		t.Error("the condition is not cleared by a write")
	}

	t.Run("terminating pod counts until deleted", func(t *testing.T) {
		pod.Finalizers = []string{"example.com/kept"}
		if err := c.Client.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if err := c.Client.Delete(t.Context(), large); err != nil {
			t.Fatal(err)
		}
		eventually(t, c, pod, func() error {
			if pod.DeletionTimestamp.IsZero() {
				return errors.New("it is not being deleted")
			}
			return nil
		})
		other := ask(t, c, asked(remoteNamespace, "u", "cyan", "cyan-a", "1"))
		refusedBecause(t, c, other, "OverQuota", "requested 1 of 2")
		n := countPods(t, c, remoteNamespace, nil)
		if err := c.Client.Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"x", "w"} {
			runs(t, c, asked(remoteNamespace, name, "cyan", "cyan-a", "1"))
		}
		refusedBecause(t, c, asked(remoteNamespace, "v", "cyan", "cyan-a", "1"), "OverQuota", "")
		if most, _ := n.seen(); most > 3 { // those of the watch's beginning
			t.Errorf("%d pods at a time", most)
		}
	})
	t.Run("larger Quota starts pods, smaller one stops none", func(t *testing.T) {
		rebudget(t, c, quotas[0], func(spec *offv1beta1.QuotaSpec) { spec.Resources = cpus("3") })
		runs(t, c, asked(remoteNamespace, "v", "cyan", "cyan-a", "1"))
		refusedBecause(t, c, asked(remoteNamespace, "u", "cyan", "cyan-a", "1"), "OverQuota", "requested 1 of 3")
		rebudget(t, c, quotas[0], func(spec *offv1beta1.QuotaSpec) { spec.Resources = cpus("1") })
		refusedBecause(t, c, asked(remoteNamespace, "u", "cyan", "cyan-a", "1"), "OverQuota", "requested 1 of 1")
		for _, name := range []string{"x", "w", "v"} {
			runs(t, c, asked(remoteNamespace, name, "cyan", "cyan-a", "1"))
		}
	})
	t.Run("cordoned Quota only recreates lost pods", func(t *testing.T) {
		rebudget(t, c, quotas[0], func(spec *offv1beta1.QuotaSpec) { spec.Resources, spec.Cordoned = cpus("9"), new(true) })
		fresh := ask(t, c, asked(remoteNamespace, "t", "cyan", "cyan-a", "1"))
		refusedBecause(t, c, fresh, "Refused", "user is cordoned")
		refusedBecause(t, c, asked(remoteNamespace, "u", "cyan", "cyan-a", "1"), "Refused", "user is cordoned")
		lost, sp := podNamed(remoteNamespace, "x"), asked(remoteNamespace, "x", "cyan", "cyan-a", "1")
		eventually(t, c, lost, func() error { return nil })
		report(t, c, lost, corev1.PodRunning)
		eventually(t, c, sp, func() error {
			if sp.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("phase is %s", sp.Status.Phase)
			}
			return nil
		})
		if err := c.Client.Delete(t.Context(), lost, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		again := podNamed(remoteNamespace, "x")
		eventually(t, c, again, func() error {
			if again.UID == lost.UID {
				return errors.New("still the lost pod")
			}
			return nil
		})
		rebudget(t, c, quotas[0], func(spec *offv1beta1.QuotaSpec) { spec.Cordoned = nil })
		runs(t, c, fresh)
	})
}

// What is lost runs again for a cordoned user, although its ShadowPod is too young to say that it ran.
func TestQuotaCordon(t *testing.T) {
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller", "garbage-collector-controller", "serviceaccount-controller"))
	replica(t, c, kube.ManagerOptions{Name: "host"}, NamespaceMapOptions{}, ShadowPodOptions{Enforce: true, Youth: time.Hour})
	remoteNamespace, quotas := twinOf(t, c, "beige", cpus("99"), "beige-a")
	ran := runs(t, c, ask(t, c, asked(remoteNamespace, "ran", "beige", "beige-a", "1")))
	never := runs(t, c, ask(t, c, asked(remoteNamespace, "never", "beige", "beige-a", "1")))
	report(t, c, ran, corev1.PodRunning)
	rebudget(t, c, quotas[0], func(spec *offv1beta1.QuotaSpec) { spec.Cordoned = new(true) })
	for i, known := 0, false; !known; i++ { // until the controller has learnt of it
		if i == 60 {
			t.Fatal("the controller does not learn that the user is cordoned")
		}
		fresh := ask(t, c, asked(remoteNamespace, fmt.Sprint("fresh-", i), "beige", "beige-a", "1"))
		if eventually(t, c, fresh, func() error { return decided(t, c, fresh) }); len(fresh.Status.Conditions) > 0 {
			refusedBecause(t, c, fresh, "Refused", "user is cordoned")
			known = true
		}
	}
	for _, pod := range []*corev1.Pod{ran, never} {
		if err := c.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	refusedBecause(t, c, asked(remoteNamespace, "never", "beige", "beige-a", "1"), "Refused", "user is cordoned")
	again := podNamed(remoteNamespace, "ran")
	eventually(t, c, again, func() error {
		if again.UID == ran.UID {
			return errors.New("still the lost pod")
		}
		return nil
	})
}

func TestQuotaAccounts(t *testing.T) {
	c := enforcing(t, 1)
	mint, _ := twinOf(t, c, "mint", cpus("1"), "mint-a", "mint-b")
	rose, _ := twinOf(t, c, "rose", cpus("1"), "mint-a")
	for _, sp := range []*offv1beta1.ShadowPod{
		asked(mint, "a", "mint", "mint-a", "1"), asked(mint, "b", "mint", "mint-b", "1"), asked(rose, "a", "rose", "mint-a", "1"),
	} {
		runs(t, c, ask(t, c, sp))
	}
	for _, sp := range []*offv1beta1.ShadowPod{
		asked(mint, "a2", "mint", "mint-a", "1"), asked(mint, "b2", "mint", "mint-b", "1"), asked(rose, "a2", "rose", "mint-a", "1"),
	} {
		refusedBecause(t, c, ask(t, c, sp), "OverQuota", "requested 1 of 1")
	}
	nobody := ask(t, c, asked(rose, "nobody", "rose", "mint-b", "1"))
	refusedBecause(t, c, nobody, "Refused", `failed getting quota: user "mint-b" has none for cluster "rose"`)
	gpu := asked(mint, "gpu", "mint", "mint-a", "1")
	gpu.Spec.Pod.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	refusedBecause(t, c, ask(t, c, gpu), "Refused", "example.com/gpu quota limit not found")
}

func TestLeaderChangeUsage(t *testing.T) {
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller", "garbage-collector-controller", "serviceaccount-controller"))
	lease := testkit.Namespace(t, c, "leases", nil)
	stop := replica(t, c, electing(lease), NamespaceMapOptions{}, ShadowPodOptions{Enforce: true})
	remoteNamespace, _ := twinOf(t, c, "lime", cpus("3"), "lime-a")
	replica(t, c, electing(lease), NamespaceMapOptions{}, ShadowPodOptions{Enforce: true})
	n := countPods(t, c, remoteNamespace, nil)
	var all []*offv1beta1.ShadowPod
	for i := range 30 {
		all = append(all, ask(t, c, asked(remoteNamespace, fmt.Sprint("p", i), "lime", "lime-a", "1")))
		if i == 10 {
			stop()
		}
	}
	refusedBecause(t, c, all[29], "OverQuota", "")
	for _, sp := range all { // who has room may still wait for the pod
		eventually(t, c, sp, func() error { return decided(t, c, sp) })
	}
	n.wants(t, 3, 3)
}

// lastWrite stands for a leader that dies before it writes down what it saw: from then on nothing it writes arrives, but leases.
type lastWrite struct {
	next http.RoundTripper
	// dying is set by the test; died is called for what is to be the first's status and does not arrive.
	dying *atomic.Bool
	died  func()
}

func (l lastWrite) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet && l.dying.Load() && !strings.Contains(req.URL.Path, "/leases/") {
		if strings.HasSuffix(req.URL.Path, "/shadowpods/first/status") {
			l.died()
		}
		return nil, errors.New("the leader is dead")
	}
	return l.next.RoundTrip(req)
}

func TestLeaderChangeEndedPods(t *testing.T) {
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller", "garbage-collector-controller", "serviceaccount-controller"))
	lease := testkit.Namespace(t, c, "leases", nil)
	var dying atomic.Bool
	died := make(chan struct{})
	cfg := rest.CopyConfig(c.Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return lastWrite{next, &dying, sync.OnceFunc(func() { close(died) })}
	})
	mortal := *c
	mortal.Config = cfg
	stop := replica(t, &mortal, electing(lease), NamespaceMapOptions{}, ShadowPodOptions{Enforce: true})
	remoteNamespace, _ := twinOf(t, c, "teal", cpus("1"), "teal-a")
	n := countPods(t, c, remoteNamespace, nil)
	first := ask(t, c, asked(remoteNamespace, "first", "teal", "teal-a", "1"))
	pod := runs(t, c, first)
	report(t, c, pod, corev1.PodRunning)
	second := ask(t, c, asked(remoteNamespace, "second", "teal", "teal-a", "1"))
	refusedBecause(t, c, second, "OverQuota", "")

	dying.Store(true)
	report(t, c, pod, corev1.PodSucceeded)
	select {
	case <-died:
	case <-time.After(patience):
		t.Fatal("the leader did not write down the end")
	}
	stop()
	replica(t, c, electing(lease), NamespaceMapOptions{}, ShadowPodOptions{Enforce: true})
	eventually(t, c, first, func() error {
		if first.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("phase is %s", first.Status.Phase)
		}
		return nil
	})
	runs(t, c, second)
	// What belongs to an end goes with its ShadowPod, and nothing comes again.
	if err := c.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	waitUntilDeleted(t, c, pod)
	n.wants(t, 1, 2)
}

// rehearsals calls during while the API server is asked what would become of a pod.
type rehearsals struct {
	next   http.RoundTripper
	during func()
}

func (r rehearsals) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPost && req.URL.Query().Has("dryRun") {
		r.during()
	}
	return r.next.RoundTrip(req)
}

func TestQuotaCutDuringDryRun(t *testing.T) {
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller", "garbage-collector-controller", "serviceaccount-controller"))
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "heavy"}, Handler: "heavy", Overhead: &nodev1.Overhead{PodFixed: cpus("1")}}
	if err := c.Client.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	var cut atomic.Pointer[func()]
	cfg := rest.CopyConfig(c.Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return rehearsals{next, func() {
			if f := cut.Load(); f != nil {
				(*f)()
			}
		}}
	})
	var cached client.Reader
	testkit.Manager(t, cfg, kube.ManagerOptions{Name: "host"}, func(mgr ctrl.Manager) error {
		cached = mgr.GetCache()
		return errors.Join(SetupNamespaceMaps(mgr, NamespaceMapOptions{LiqoNamespace: "liqo"}), SetupShadowPods(mgr, ShadowPodOptions{Enforce: true, Pods: policy.RemotePods{RuntimeClasses: []string{class.Name}}}))
	})
	remoteNamespace, quotas := twinOf(t, c, "opal", cpus("3"), "opal-a")
	var once sync.Once
	cut.Store(new(func() {
		once.Do(func() {
			rebudget(t, c, quotas[0], func(spec *offv1beta1.QuotaSpec) { spec.Resources = cpus("1") })
			testkit.Eventually(t, patience, func() error {
				seen := &offv1beta1.Quota{}
				if err := cached.Get(t.Context(), client.ObjectKeyFromObject(quotas[0]), seen); err != nil || seen.ResourceVersion != quotas[0].ResourceVersion {
					return fmt.Errorf("the Quota is not seen (%v)", err)
				}
				return nil
			})
		})
	}))
	sp := asked(remoteNamespace, "web", "opal", "opal-a", "1")
	sp.Spec.Pod.RuntimeClassName = &class.Name
	refusedBecause(t, c, ask(t, c, sp), "OverQuota", "requested 2 of 1")
}

// aCPUByDefault is a LimitRange that gives one to each container.
func aCPUByDefault(namespace string) *corev1.LimitRange {
	out := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "defaults"}}
	out.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, DefaultRequest: cpus("1"), Default: cpus("1")}}
	return out
}

// bare requests nothing itself.
func bare(remoteNamespace, name, origin, user string) *offv1beta1.ShadowPod {
	sp := asked(remoteNamespace, name, origin, user, "0")
	sp.Spec.Pod.Containers[0].Resources = corev1.ResourceRequirements{}
	return sp
}

func TestQuotaAdmissionDefaults(t *testing.T) {
	c := enforcing(t, 1)
	remoteNamespace, _ := twinOf(t, c, "ruby", cpus("3"), "ruby-a")
	testkit.Create(t, c.Client, aCPUByDefault(remoteNamespace))
	for _, name := range []string{"a", "b", "c"} {
		pod := runs(t, c, ask(t, c, bare(remoteNamespace, name, "ruby", "ruby-a")))
		if got := pod.Spec.Containers[0].Resources.Requests.Cpu().String(); got != "1" {
			t.Fatalf("the LimitRange gave %s", got)
		}
	}
	refusedBecause(t, c, ask(t, c, bare(remoteNamespace, "d", "ruby", "ruby-a")), "OverQuota", "requested 1 of 3")
}

// Nobody knows before the first burst what admission will add.
func TestQuotaAdmissionDefaultsFirstBurst(t *testing.T) {
	c := enforcing(t, 1)
	remoteNamespace, _ := twinOf(t, c, "rust", cpus("3"), "rust-a")
	testkit.Create(t, c.Client, aCPUByDefault(remoteNamespace))
	n := countPods(t, c, remoteNamespace, nil)
	var all []*offv1beta1.ShadowPod
	var asking sync.WaitGroup
	for i := range 20 {
		sp := bare(remoteNamespace, fmt.Sprint("p", i), "rust", "rust-a")
		all = append(all, sp)
		asking.Go(func() { ask(t, c, sp) })
	}
	asking.Wait()
	waiting := 0
	testkit.Eventually(t, patience, func() error {
		waiting = 0
		for _, sp := range all {
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(sp), sp); err != nil {
				return err
			}
			if no := apimeta.FindStatusCondition(sp.Status.Conditions, offv1beta1.ShadowPodAccepted); no != nil && no.Reason == offv1beta1.ReasonOverQuota {
				waiting++
			}
		}
		if _, order := n.seen(); waiting+len(order) != len(all) {
			return fmt.Errorf("%d wait, and %d pods were made", waiting, len(order))
		}
		return nil
	})
	n.wants(t, 3, 3)
}
