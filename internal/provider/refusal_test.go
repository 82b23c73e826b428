// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
)

func TestRefusalStatus(t *testing.T) {
	c := enforcing(t, 1)
	remoteNamespace, _ := twinOf(t, c, "pink", cpus("9"), "pink-a")
	ctx := t.Context()

	t.Run("Pod Security level until it changes", func(t *testing.T) {
		early, late := asked(remoteNamespace, "early", "pink", "pink-a", "1"), asked(remoteNamespace, "late", "pink", "pink-a", "1")
		early.Spec.Pod.Volumes = []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		late.Spec.Pod.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}
		refusedBecause(t, c, ask(t, c, early), "Refused", "mounts a path of the host")
		refusedBecause(t, c, ask(t, c, late), "Refused", "violates PodSecurity")
		ns := namespaceOf(remoteNamespace)
		if err := c.Client.Patch(ctx, ns, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:"privileged"}}}`, policy.PodSecurityLabel))); err != nil {
			t.Fatal(err)
		}
		runs(t, c, early)
		runs(t, c, late)
	})
	t.Run("of a ResourceQuota, until a pod goes", func(t *testing.T) {
		limit := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: "pods"}}
		limit.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")}
		limit.Status.Hard, limit.Status.Used = limit.Spec.Hard, limit.Spec.Hard
		if err := c.Client.Create(ctx, limit); err != nil {
			t.Fatal(err)
		}
		// The controller of ResourceQuotas does not run here.
		used := func(n string) {
			t.Helper()
			testkit.UpdateStatus(t, c.Client, limit, func(q *corev1.ResourceQuota) {
				q.Status.Hard, q.Status.Used = q.Spec.Hard, corev1.ResourceList{corev1.ResourcePods: resource.MustParse(n)}
			})
		}
		used("2")
		waitUntilRefused(t, c, asked(remoteNamespace, "more", "pink", "pink-a", "1"))
		more := ask(t, c, asked(remoteNamespace, "more", "pink", "pink-a", "1"))
		refusedBecause(t, c, more, "Refused", "exceeded quota: pods")
		used("1")
		if err := c.Client.Delete(ctx, asked(remoteNamespace, "early", "pink", "pink-a", "1")); err != nil {
			t.Fatal(err)
		}
		runs(t, c, more)
		if err := c.Client.Delete(ctx, limit); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("and it frees its share meanwhile", func(t *testing.T) {
		bad := asked(remoteNamespace, "bad", "pink", "pink-a", "7")
		bad.Spec.Pod.Containers[0].Image = ""
		refusedBecause(t, c, ask(t, c, bad), "Refused", "spec.containers[0].image: Required value")
		runs(t, c, ask(t, c, asked(remoteNamespace, "good", "pink", "pink-a", "6")))
	})
}

func TestPodEndsOnce(t *testing.T) {
	c := enforcing(t, 1)
	remoteNamespace, _ := twinOf(t, c, "navy", cpus("9"), "navy-a")
	// Whoever sees each state of a pod in turn may still be too late to write it down.
	for i := range 10 {
		sp := ask(t, c, asked(remoteNamespace, fmt.Sprint("job-", i), "navy", "navy-a", "100m"))
		pod := runs(t, c, sp)
		n := countPods(t, c, remoteNamespace, nil)
		report(t, c, pod, corev1.PodRunning)
		report(t, c, pod, corev1.PodSucceeded)
		if err := c.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		eventually(t, c, sp, func() error {
			if sp.Status.Phase != corev1.PodSucceeded {
				return fmt.Errorf("phase is %s", sp.Status.Phase)
			}
			return nil
		})
		if _, order := n.seen(); len(order) > 1 {
			t.Fatalf("it ran again: %v", order)
		}
	}
}

func TestDeletedPodRecreated(t *testing.T) {
	c := provider(t, NamespaceMapOptions{})
	nm := consumer(t, c, "sand", map[string]string{"demo": "demo-sand"})
	mapping(t, c, nm, "demo", "demo-sand", offv1beta1.MappingAccepted)
	runs(t, c, ask(t, c, shadowOf("demo-sand", "web", "sand")))
	remoteNamespace := namespaceOf("demo-sand")
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(remoteNamespace), remoteNamespace); err != nil {
		t.Fatal(err)
	}
	uid := remoteNamespace.UID
	if err := c.Client.Delete(t.Context(), remoteNamespace); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, remoteNamespace, func() error {
		if remoteNamespace.UID == uid || remoteNamespace.DeletionTimestamp != nil {
			return errors.New("still the old namespace")
		}
		return nil
	})
	mapping(t, c, nm, "demo", "demo-sand", offv1beta1.MappingAccepted)
	eventually(t, c, bindingIn(nm, "demo-sand"), func() error { return nil })
	// The consumer asks for its pods again.
	runs(t, c, ask(t, c, shadowOf("demo-sand", "web", "sand")))
}

// A limit that the provider's administrator changes is no reason to wait for the next of the attempts, which become rare.
func TestRefusalLimitChanged(t *testing.T) {
	c := enforcing(t, 1)
	remoteNamespace, _ := twinOf(t, c, "coal", cpus("99"), "coal-a")
	ctx := t.Context()
	limit := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: "cpu"}}
	limit.Spec.Hard = corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("2")}
	if err := c.Client.Create(ctx, limit); err != nil {
		t.Fatal(err)
	}
	// The controller of ResourceQuotas does not run here.
	hard := func(n string) {
		t.Helper()
		testkit.Update(t, c.Client, limit, func(q *corev1.ResourceQuota) {
			q.Spec.Hard = corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse(n)}
		})
		testkit.UpdateStatus(t, c.Client, limit, func(q *corev1.ResourceQuota) {
			q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("0")}}
		})
	}
	hard("2")
	waitUntilRefused(t, c, asked(remoteNamespace, "a-never", "coal", "coal-a", "50"))
	never := ask(t, c, asked(remoteNamespace, "a-never", "coal", "coal-a", "50"))
	refusedBecause(t, c, never, "Refused", "exceeded quota: cpu, requested: requests.cpu=50, limited: requests.cpu=2")
	large := ask(t, c, asked(remoteNamespace, "b-large", "coal", "coal-a", "3"))
	refusedBecause(t, c, large, "Refused", "exceeded quota")
	hard("4")
	runs(t, c, large)

	bounds := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: "bounds"}}
	bounds.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Min: cpus("500m")}}
	if err := c.Client.Create(ctx, bounds); err != nil {
		t.Fatal(err)
	}
	small := asked(remoteNamespace, "c-small", "coal", "coal-a", "100m")
	waitUntilRefused(t, c, small)
	refusedBecause(t, c, ask(t, c, small), "Refused", "minimum cpu usage per Container is 500m")
	bounds.Spec.Limits[0].Min = cpus("100m")
	if err := c.Client.Update(ctx, bounds); err != nil {
		t.Fatal(err)
	}
	runs(t, c, small)
	version := never.ResourceVersion
	refusedBecause(t, c, never, "Refused", "requested: requests.cpu=50, limited: requests.cpu=4")
	if never.ResourceVersion == version {
		t.Error("what it says of the limit is old")
	}
}

// waitUntilRefused waits until the API server knows of a limit that a pod like this is above.
func waitUntilRefused(t *testing.T, c *testkit.ControlPlane, sp *offv1beta1.ShadowPod) {
	t.Helper()
	pod := podNamed(sp.Namespace, "probe")
	pod.Spec = sp.Spec.Pod
	testkit.Eventually(t, patience, func() error {
		if err := c.Client.Create(t.Context(), pod.DeepCopy(), client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("such a pod is not refused: %v", err)
		}
		return nil
	})
}

// writes counts requests that change pods or ShadowPods of one namespace. What is refused, because a cache was late, is none.
type writes struct {
	next      http.RoundTripper
	namespace *atomic.Pointer[string]
	count     *atomic.Int64
}

func (w writes) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(r)
	if in := w.namespace.Load(); r.Method != http.MethodGet && !r.URL.Query().Has("dryRun") && in != nil && strings.Contains(r.URL.Path, "/namespaces/"+*in+"/") && strings.Contains(r.URL.Path, "pods") &&
		err == nil && response.StatusCode < http.StatusBadRequest {
		w.count.Add(1)
	}
	return response, err
}

func TestWritesOfStart(t *testing.T) {
	costsTwoWrites(t, "jade", time.Nanosecond, corev1.PodRunning)
}

func TestWritesOfShortPod(t *testing.T) {
	costsTwoWrites(t, "onyx", time.Hour, corev1.PodRunning, corev1.PodSucceeded)
}

// costsTwoWrites has pods go through phases, of which the last one is told.
func costsTwoWrites(t *testing.T, id string, youth time.Duration, phases ...corev1.PodPhase) {
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller", "garbage-collector-controller", "serviceaccount-controller"))
	var namespace atomic.Pointer[string]
	var count atomic.Int64
	cfg := rest.CopyConfig(c.Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return writes{next, &namespace, &count} })
	testkit.Manager(t, cfg, kube.ManagerOptions{Name: "host"}, func(mgr ctrl.Manager) error {
		return errors.Join(SetupNamespaceMaps(mgr, NamespaceMapOptions{LiqoNamespace: "liqo"}), SetupShadowPods(mgr, ShadowPodOptions{Enforce: true, Youth: youth}))
	})
	remoteNamespace, _ := twinOf(t, c, id, cpus("9"), id+"-a")
	namespace.Store(&remoteNamespace)
	const pods = 20
	for i := range pods {
		sp := ask(t, c, asked(remoteNamespace, fmt.Sprint("p", i), id, id+"-a", "100m"))
		pod := runs(t, c, sp)
		before := pod.DeepCopy()
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}
		if err := c.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		for _, phase := range phases {
			report(t, c, pod, phase)
		}
		eventually(t, c, sp, func() error {
			if want := phases[len(phases)-1]; sp.Status.Phase != want {
				return fmt.Errorf("phase is %s", sp.Status.Phase)
			}
			return nil
		})
	}
	if got := count.Load(); got > 2*pods {
		t.Errorf("%d writes for %d pods", got, pods)
	}
}

func TestRunningGracePeriod(t *testing.T) {
	for name, c := range map[string]struct {
		age         time.Duration
		told, phase corev1.PodPhase
		want        corev1.PodPhase
		again       bool
	}{
		"made just now":            {0, "", corev1.PodPending, "", true},
		"runs already":             {time.Second, "", corev1.PodRunning, "", true},
		"ended already":            {time.Second, "", corev1.PodSucceeded, corev1.PodSucceeded, false},
		"runs for a while":         {time.Minute, "", corev1.PodRunning, corev1.PodRunning, false},
		"waits for a while":        {time.Minute, "", corev1.PodPending, "", false},
		"was refused before":       {time.Second, corev1.PodPending, corev1.PodRunning, corev1.PodRunning, false},
		"made by a clock ahead":    {-time.Minute, "", corev1.PodRunning, corev1.PodRunning, false},
		"lost, and does not count": {time.Minute, corev1.PodRunning, "", corev1.PodRunning, false},
	} {
		s := &shadowPods{youth: 30 * time.Second}
		sp := &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Now().Add(-c.age))}}
		sp.Status.Phase = c.told
		s.takePhase(sp, c.phase)
		if sp.Status.Phase != c.want {
			t.Errorf("%s: %q is told, want %q", name, sp.Status.Phase, c.want)
		}
		if again := sp.Status.Phase == "" && s.remainingGrace(sp) > 0; again != c.again {
			t.Errorf("%s: looks again: %v", name, again)
		}
	}
}

func TestClassifyAnswer(t *testing.T) {
	status := func(code int32, reason metav1.StatusReason) error {
		return fmt.Errorf("wrapped: %w", &statusError{metav1.Status{Code: code, Reason: reason}})
	}
	for name, tc := range map[string]struct {
		err              error
		refused, certain bool
	}{
		"forbidden":                             {status(403, metav1.StatusReasonForbidden), true, true},
		"invalid":                               {status(422, metav1.StatusReasonInvalid), true, true},
		"a webhook's own code":                  {status(418, ""), true, true},
		"a webhook that cannot be called":       {status(500, metav1.StatusReasonInternalError), true, false},
		"too many requests are no refusal":      {status(429, metav1.StatusReasonTooManyRequests), false, true},
		"a conflict is none":                    {status(409, metav1.StatusReasonConflict), false, true},
		"a namespace that is gone is none":      {status(404, metav1.StatusReasonNotFound), false, true},
		"after a time-out anything may be true": {status(504, metav1.StatusReasonTimeout), false, false},
		"after a lost connection too":           {errors.New("connection reset"), false, false},
	} {
		if refused, certain := classifyAnswer(tc.err); refused != tc.refused || certain != tc.certain {
			t.Errorf("%s: refused %t, certain %t", name, refused, certain)
		}
	}
}

type statusError struct{ status metav1.Status }

func (e *statusError) Error() string         { return string(e.status.Reason) }
func (e *statusError) Status() metav1.Status { return e.status }
