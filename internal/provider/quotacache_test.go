// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/policy"
)

// request is one to make a pod.
type request struct {
	pod  *corev1.Pod
	sent time.Time
}

// quotaModel is a cluster of the test's imagination: what exists is what counts, the quota cache learns of it late.
type quotaModel struct {
	quotas *quotaCache
	budget int
	quota  *offv1beta1.Quota
	exist  map[string]*corev1.Pod
	// unheard are the events that the watch has not delivered, in order.
	unheard []func()
	// sent are the requests whose answers have not come.
	sent map[string]func()
	// doubtful are the requests that nobody will answer: their pods may still be made, until the API server gives up.
	doubtful map[string][]request
	// adds is what admission adds to a pod.
	adds  map[string]int
	woken map[string]bool
	uids  int
	now   time.Time
	// tooMuch tells of a share that was given although there was no room.
	tooMuch string
}

func newQuotaModel(budget int) *quotaModel {
	w := &quotaModel{budget: budget, exist: map[string]*corev1.Pod{}, sent: map[string]func(){}, doubtful: map[string][]request{}, adds: map[string]int{}, woken: map[string]bool{}, now: time.Unix(0, 0)}
	w.quotas = newQuotaCache(true, func(key types.NamespacedName) { w.woken[key.Name] = true })
	w.quotas.now = func() time.Time { return w.now }
	w.quota = &offv1beta1.Quota{Spec: offv1beta1.QuotaSpec{Resources: cpus(fmt.Sprint(budget))}}
	return w
}

// grant changes the Quota.
func (w *quotaModel) grant(budget int) {
	w.budget = budget
	w.quota = w.quota.DeepCopy()
	w.quota.Generation++
	w.quota.Spec.Resources = cpus(fmt.Sprint(budget))
	w.quotas.SetQuota(accountOf(w.shadow("any", 0)), w.quota)
}

func (w *quotaModel) shadow(name string, size int) *offv1beta1.ShadowPod {
	return asked("twin", name, "grey", "user", fmt.Sprint(size))
}

// try is a pass of the controller over a ShadowPod, up to the request to make its pod.
func (w *quotaModel) try(name string, size int) error {
	pod, err := w.ask(name, size)
	if pod == nil {
		return err
	}
	if existing := w.exist[name]; existing != nil { // the request is refused, for the pod exists already
		w.quotas.Found(client.ObjectKeyFromObject(existing), existing)
		return nil
	}
	w.land(pod)
	w.sent[name] = func() { w.quotas.Made(pod, "") }
	return nil
}

// loseAnswer is a pass whose request nobody answers, which is known after a while. The pod may be made then or later, or never.
func (w *quotaModel) loseAnswer(name string, size int) {
	if pod, _ := w.ask(name, size); pod != nil {
		w.doubtful[name] = append(w.doubtful[name], request{pod, w.now})
		w.sent[name] = func() { w.quotas.Lost(types.NamespacedName{Namespace: "twin", Name: name}, "") }
	}
}

// refuse is a pass whose request admission refuses, before anybody looks whether there is such a pod.
func (w *quotaModel) refuse(name string, size int) {
	pod, _ := w.ask(name, size)
	if pod == nil {
		return
	}
	key := client.ObjectKeyFromObject(pod)
	w.sent[name] = func() {
		if existing := w.exist[name]; existing != nil && w.quotas.IsUncertain(key) {
			w.quotas.Found(client.ObjectKeyFromObject(existing), existing)
		} else {
			w.quotas.Release(key)
		}
	}
}

// fumble is a pass whose request is refused because there is a pod, which nobody can read then.
func (w *quotaModel) fumble(name string, size int) {
	if w.exist[name] == nil {
		return
	}
	if pod, _ := w.ask(name, size); pod != nil {
		w.quotas.Found(client.ObjectKeyFromObject(pod), nil)
	}
}

// ask reserves quota, and returns the pod to make then. What admission adds is known, unless the pod may be there.
func (w *quotaModel) ask(name string, size int) (*corev1.Pod, error) {
	key := types.NamespacedName{Namespace: "twin", Name: name}
	if w.sent[name] != nil || w.quotas.IsObserved(key) {
		return nil, nil
	}
	sp, asking := w.shadow(name, size), w.shadow(name, size)
	if w.quotas.IsUncertain(key) {
		asking = w.shadow(name, size-w.adds[name])
	}
	delete(w.woken, name)
	if err := w.quotas.Reserve(asking, w.quota, false); err != nil {
		return nil, err
	}
	pod := &corev1.Pod{ObjectMeta: sp.ObjectMeta, Spec: sp.Spec.Pod}
	w.uids++
	pod.UID = types.UID(fmt.Sprint(w.uids))
	possible := map[string]int{name: size}
	for other, pod := range w.exist {
		possible[other] = max(possible[other], cpuOf(pod))
	}
	for other, requests := range w.doubtful {
		for _, r := range requests {
			possible[other] = max(possible[other], cpuOf(r.pod))
		}
	}
	if total := sum(possible); total > w.budget {
		w.tooMuch = fmt.Sprintf("%s was given a share, and the pods that may exist take %d of %d: %v", name, total, w.budget, possible)
	}
	return pod, nil
}

// land makes a pod.
func (w *quotaModel) land(pod *corev1.Pod) {
	w.exist[pod.Name] = pod
	s := &shadowPods{quotas: w.quotas}
	w.unheard = append(w.unheard, func() { s.observePod(context.Background(), pod, true) })
}

// landLate makes the pod of the first request that nobody answered.
func (w *quotaModel) landLate(name string) {
	requests := w.doubtful[name]
	if len(requests) == 0 {
		return
	}
	if w.exist[name] == nil {
		w.land(requests[0].pod)
	}
	w.doubtful[name] = requests[1:]
}

// end has a pod end. If the watch has not shown it yet, it shows it so.
func (w *quotaModel) end(name string) {
	if pod := w.exist[name]; pod != nil {
		pod.Status.Phase = corev1.PodSucceeded
		w.remove(name)
	}
}

func (w *quotaModel) remove(name string) {
	if pod := w.exist[name]; pod != nil {
		delete(w.exist, name)
		w.unheard = append(w.unheard, func() { w.quotas.ObserveEnd(pod) })
	}
}

// drop deletes a ShadowPod, and with it its pod.
func (w *quotaModel) drop(name string) {
	delete(w.woken, name)
	w.quotas.Withdraw(w.shadow(name, 0))
	w.remove(name)
}

func (w *quotaModel) deliverEvents() {
	if len(w.unheard) > 0 {
		w.unheard[0]()
		w.unheard = w.unheard[1:]
	}
}

func (w *quotaModel) answer(name string) {
	if done := w.sent[name]; done != nil {
		done()
		delete(w.sent, name)
	}
}

func (w *quotaModel) used() int {
	total := 0
	for _, pod := range w.exist {
		total += cpuOf(pod)
	}
	return total
}

func cpuOf(pod *corev1.Pod) int {
	need := policy.PodRequests(&pod.Spec)
	return int(need.Cpu().Value())
}

func sum(of map[string]int) (total int) {
	for _, n := range of {
		total += n
	}
	return total
}

// wait lets some time pass, in which no answer and no event takes longer.
func (w *quotaModel) wait(d time.Duration) {
	for name := range w.sent {
		w.answer(name)
	}
	for len(w.unheard) > 0 {
		w.deliverEvents()
	}
	w.now = w.now.Add(d)
	for name, requests := range w.doubtful {
		w.doubtful[name] = slices.DeleteFunc(requests, func(r request) bool { return w.now.Sub(r.sent) > holdLimit })
	}
	w.quotas.ReleaseExpired()
}

// rest lets everything that is under way end, and every doubt, and every offer that nobody came for.
func (w *quotaModel) rest() {
	w.wait(0)
	clear(w.woken)
	w.wait(holdLimit + time.Second)
}

// A pod that went before the watch showed it is made again, and the watch shows the first one while the second is made.
func TestQuotaCacheRecreatedPod(t *testing.T) {
	w := newQuotaModel(1)
	if err := w.try("web", 1); err != nil {
		t.Fatal(err)
	}
	w.answer("web")
	w.remove("web")
	_ = w.try("next", 1)
	if err := w.try("web", 1); err != nil {
		t.Fatal(err)
	}
	w.deliverEvents()
	w.answer("web")
	w.deliverEvents()
	if w.woken["next"] {
		t.Error("the second pod does not count")
	}
}

// A request that nobody answered may have made its pod, although the Quota would not allow it any more.
func TestQuotaCacheUnansweredQuotaLowered(t *testing.T) {
	w := newQuotaModel(2)
	w.loseAnswer("web", 2)
	w.answer("web")
	w.grant(1)
	if err := w.try("web", 2); err == nil {
		t.Fatal("there is room for what the Quota does not allow")
	}
	if err := w.try("next", 1); err == nil {
		t.Error("there is room beside a pod that may exist")
	}
	w.landLate("web")
	w.deliverEvents()
	if err := w.try("next", 1); err == nil {
		t.Error("there is room beside a pod that exists")
	}
	w.remove("web")
	w.rest()
	if err := w.try("next", 1); err != nil {
		t.Errorf("nothing is there: %v", err)
	}
}

// What admission adds to a pod is not known when it is asked for again, after a request that nobody answered: it is not made where
// there is no room for that any more.
func TestQuotaCacheUnansweredAdmissionDefaults(t *testing.T) {
	w := newQuotaModel(2)
	w.adds["web"] = 1
	w.loseAnswer("web", 2)
	w.answer("web")
	w.grant(1)
	if err := w.try("web", 2); err == nil {
		t.Error("there is room for two where one is allowed")
	}
	w.now = w.now.Add(holdLimit + time.Second)
	if err := w.quotas.Reserve(w.shadow("web", 1), w.quota, false); err == nil {
		t.Error("what was not rehearsed again is given when the doubt ends")
	}
	w.quotas.ReleaseExpired()
	if err := w.try("next", 1); err != nil {
		t.Errorf("nothing is there: %v", err)
	}
}

// Nobody answered, and the watch shows the pod: it is a pod like others from then on.
func TestQuotaCacheUnansweredObserved(t *testing.T) {
	web := types.NamespacedName{Namespace: "twin", Name: "web"}
	for when, story := range map[string]func(*quotaModel){
		"before it is known that nobody answers": func(w *quotaModel) { w.landLate("web"); w.deliverEvents(); w.answer("web") },
		"after that":                             func(w *quotaModel) { w.answer("web"); w.landLate("web"); w.deliverEvents() },
	} {
		t.Run(when, func(t *testing.T) {
			w := newQuotaModel(1)
			w.loseAnswer("web", 1)
			if _ = w.try("next", 1); w.woken["next"] {
				t.Fatal("there is room for two")
			}
			story(w)
			if w.quotas.IsReserved(web) || w.quotas.IsUncertain(web) {
				t.Error("it is still in doubt")
			}
			if err := w.try("next", 1); err == nil {
				t.Error("it does not count")
			}
			w.remove("web")
			w.deliverEvents()
			if !w.woken["next"] {
				t.Error("it counts although it is gone")
			}
		})
	}
}

// Two requests that nobody answered may have made a pod each, one after the other: the first that is seen leaves the second in
// doubt, for as long as a request takes.
func TestQuotaCacheUnansweredTwice(t *testing.T) {
	w, web := newQuotaModel(1), types.NamespacedName{Namespace: "twin", Name: "web"}
	w.loseAnswer("web", 1)
	w.answer("web")
	w.landLate("web")
	w.remove("web")
	w.loseAnswer("web", 1)
	w.answer("web")
	w.deliverEvents()
	w.deliverEvents()
	if !w.quotas.IsReserved(web) {
		t.Error("the second pod may come, and is not waited for")
	}
	if err := w.try("next", 1); err == nil {
		t.Error("there is room beside a pod that may come")
	}
	w.now = w.now.Add(holdLimit + time.Second)
	if w.quotas.IsReserved(web) {
		t.Error("it is waited for without end")
	}
	w.landLate("web")
	w.remove("web")
	w.deliverEvents()
	w.deliverEvents()
	if !w.woken["next"] {
		t.Error("it counts although it is gone")
	}
}

// The API server may still be at a request that nobody answered when it refuses the next one, or makes the pod of that.
func TestQuotaCacheUnansweredThenAnswered(t *testing.T) {
	for next, story := range map[string]func(*quotaModel){
		"refused": func(w *quotaModel) { w.refuse("web", 1); w.answer("web") },
		"made a pod that is gone": func(w *quotaModel) {
			_ = w.try("web", 1)
			w.answer("web")
			w.deliverEvents()
			w.remove("web")
			w.deliverEvents()
		},
		"made one, seen before its answer": func(w *quotaModel) {
			_ = w.try("web", 1)
			w.deliverEvents()
			w.answer("web")
			w.remove("web")
			w.deliverEvents()
		},
	} {
		t.Run(next, func(t *testing.T) {
			w := newQuotaModel(1)
			w.loseAnswer("web", 1)
			w.answer("web")
			story(w)
			if err := w.try("next", 1); err == nil {
				t.Error("there is room beside a pod that may come")
			}
			if w.wait(holdLimit + time.Second); !w.woken["next"] {
				t.Error("it counts although it cannot come any more")
			}
		})
	}
}

// A ShadowPod that is tried again and again does not keep a share for a request of long ago.
func TestQuotaCacheUnansweredExpiry(t *testing.T) {
	w := newQuotaModel(1)
	w.loseAnswer("web", 1)
	w.answer("web")
	_ = w.try("next", 1)
	for range 4 {
		w.refuse("web", 1)
		w.wait(holdLimit / 3)
	}
	if !w.woken["next"] {
		t.Error("it counts although it cannot come any more")
	}
}

// A pod that had ended when the watch showed it first was made by the request that nobody answered.
func TestQuotaCacheUnansweredEnded(t *testing.T) {
	w, web := newQuotaModel(1), types.NamespacedName{Namespace: "twin", Name: "web"}
	w.loseAnswer("web", 1)
	w.answer("web")
	_ = w.try("next", 1)
	w.landLate("web")
	w.end("web")
	if w.deliverEvents(); w.quotas.IsReserved(web) || w.quotas.IsUncertain(web) || !w.woken["next"] {
		t.Error("it is still in doubt")
	}
}

// What else the watch tells of a pod that ended before the request was sent says nothing of that.
func TestQuotaCacheUnansweredAfterEnded(t *testing.T) {
	w := newQuotaModel(1)
	s := &shadowPods{quotas: w.quotas}
	if err := w.try("web", 1); err != nil {
		t.Fatal(err)
	}
	w.answer("web")
	old := w.exist["web"]
	w.end("web")
	w.deliverEvents()
	w.loseAnswer("web", 1)
	w.answer("web")
	s.observePod(t.Context(), old, false) // its deletion begins
	s.observeGone(t.Context(), old)
	if err := w.try("next", 1); err == nil {
		t.Error("there is room beside a pod that may come")
	}
}

// What a withdrawn ShadowPod asked for, and nobody answered, is forgotten also where nobody lacks room.
func TestQuotaCacheUnansweredWithdrawn(t *testing.T) {
	w := newQuotaModel(9)
	w.loseAnswer("web", 1)
	w.answer("web")
	w.drop("web")
	if w.wait(holdLimit + time.Second); len(w.quotas.reservations) > 0 || len(w.quotas.usages) > 0 {
		t.Errorf("kept is %v", w.quotas.reservations)
	}
}

// Two pods were made and went before the watch showed them: the first of them says nothing of the request for the third.
func TestQuotaCacheUnansweredLateWatch(t *testing.T) {
	w := newQuotaModel(1)
	for range 2 {
		if err := w.try("web", 1); err != nil {
			t.Fatal(err)
		}
		w.answer("web")
		w.remove("web")
	}
	w.loseAnswer("web", 1)
	w.deliverEvents()
	w.deliverEvents()
	if err := w.try("next", 1); err == nil {
		t.Error("there is room beside a pod that may come")
	}
}

// A second request that is refused says nothing of the first one.
func TestQuotaCacheUnansweredThenRefused(t *testing.T) {
	w := newQuotaModel(1)
	w.loseAnswer("web", 1)
	w.answer("web")
	w.landLate("web")
	w.refuse("web", 1)
	w.answer("web")
	if err := w.try("next", 1); err == nil {
		t.Error("there is room beside a pod that exists")
	}
}

// However late the quota cache learns of pods and of answers, if ever, and whatever becomes of the Quota, no share is given
// that may exceed the Quota, and in the end nothing that fits waits.
func TestQuotaCacheFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budgets := rapid.IntRange(1, 6)
		w := newQuotaModel(budgets.Draw(t, "budget"))
		sizes := map[string]int{}
		for i := range rapid.IntRange(1, 8).Draw(t, "pods") {
			sizes[fmt.Sprint("p", i)] = rapid.IntRange(1, 3).Draw(t, "size")
			w.adds[fmt.Sprint("p", i)] = rapid.IntRange(0, sizes[fmt.Sprint("p", i)]).Draw(t, "what admission adds")
		}
		name := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint("p", rapid.IntRange(0, len(sizes)-1).Draw(t, "pod")) })
		changed := false // a Quota that was lowered may take back what others were woken for
		t.Repeat(map[string]func(*rapid.T){
			"try":    func(t *rapid.T) { n := name.Draw(t, "name"); _ = w.try(n, sizes[n]) },
			"lose":   func(t *rapid.T) { n := name.Draw(t, "name"); w.loseAnswer(n, sizes[n]) },
			"refuse": func(t *rapid.T) { n := name.Draw(t, "name"); w.refuse(n, sizes[n]) },
			"land":   func(t *rapid.T) { w.landLate(name.Draw(t, "name")) },
			"remove": func(t *rapid.T) { w.remove(name.Draw(t, "name")) },
			"drop":   func(t *rapid.T) { w.drop(name.Draw(t, "name")) },
			"hear":   func(*rapid.T) { w.deliverEvents() },
			"answer": func(t *rapid.T) { w.answer(name.Draw(t, "name")) },
			"end":    func(t *rapid.T) { w.end(name.Draw(t, "name")) },
			"fumble": func(t *rapid.T) { n := name.Draw(t, "name"); w.fumble(n, sizes[n]) },
			"wait":   func(*rapid.T) { w.wait(holdLimit / 3) },
			"rest":   func(*rapid.T) { w.rest() },
			"grant":  func(t *rapid.T) { w.grant(budgets.Draw(t, "budget")); changed = true },
			"": func(t *rapid.T) {
				if w.tooMuch != "" {
					t.Fatal(w.tooMuch)
				}
			},
		})
		w.rest()
		for key := range w.quotas.reservations {
			if w.quotas.IsReserved(key) && !w.woken[key.Name] {
				t.Errorf("%s is waited for", key)
			}
		}
		for n := range w.woken {
			if err := w.try(n, sizes[n]); err != nil && !changed {
				t.Errorf("%s was woken and may not start: %v", n, err)
			}
		}
		waiting := 0
		if b := w.quotas.usages[account{"grey", "user"}]; b != nil {
			for _, waiter := range b.pending.of {
				waiting++
				if sizes[waiter.key.Name] <= w.budget-w.used() {
					t.Errorf("%s waits with %d of %d in use", waiter.key.Name, w.used(), w.budget)
				}
			}
		}
		if len(w.exist) == 0 && waiting == 0 && (len(w.quotas.reservations) > 0 || len(w.quotas.usages) > 0) {
			t.Errorf("nothing is left, and remembered are %v", w.quotas.reservations)
		}
	})
}

func TestQuotaCacheUnusedOffer(t *testing.T) {
	for how, leave := range map[string]func(w *quotaModel){
		"its ShadowPod is gone":   func(w *quotaModel) { w.drop("second") },
		"nobody told that it was": func(w *quotaModel) { w.wait(holdLimit + time.Second) },
	} {
		t.Run(how, func(t *testing.T) {
			w := newQuotaModel(1)
			if err := w.try("first", 1); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"second", "third"} {
				if err := w.quotas.Reserve(w.shadow(name, 1), w.quota, false); err == nil {
					t.Fatalf("there is room for %s", name)
				}
			}
			w.answer("first")
			w.deliverEvents()
			w.remove("first")
			w.deliverEvents()
			if !w.woken["second"] || w.woken["third"] {
				t.Fatalf("woken are %v", w.woken)
			}
			if leave(w); !w.woken["third"] {
				t.Error("the third still waits")
			}
		})
	}
}

// Whoever is woken for a share and has no use for it any more leaves it to the next.
func TestQuotaCacheUnneededOffer(t *testing.T) {
	for what, sync := range map[string]func(*shadowPods, *offv1beta1.ShadowPod) error{
		"its pod ended, as its status says": func(s *shadowPods, sp *offv1beta1.ShadowPod) error {
			sp.Status.Phase = corev1.PodSucceeded
			return s.Sync(t.Context(), sp)
		},
		"its pod ended, as is not written yet": func(s *shadowPods, sp *offv1beta1.ShadowPod) error {
			s.ends.Put(sp.UID, corev1.PodFailed)
			return s.createPod(t.Context(), sp)
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newQuotaModel(1)
			s := &shadowPods{quotas: w.quotas}
			if err := w.try("first", 1); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"second", "third"} {
				if err := w.try(name, 1); err == nil {
					t.Fatalf("there is room for %s", name)
				}
			}
			w.quotas.Release(types.NamespacedName{Namespace: "twin", Name: "first"})
			if err := sync(s, w.shadow("second", 1)); err != nil {
				t.Fatal(err)
			}
			if !w.woken["third"] {
				t.Error("the third still waits")
			}
		})
	}
}

// A request may have been sent when its ShadowPod goes: what it makes counts.
func TestQuotaCacheWithdrawDuringRequest(t *testing.T) {
	w := newQuotaModel(1)
	if err := w.try("web", 1); err != nil {
		t.Fatal(err)
	}
	w.quotas.Withdraw(w.shadow("web", 1))
	if err := w.try("next", 1); err == nil {
		t.Error("there are two pods")
	}
}

func TestQuotaCacheNeverObserved(t *testing.T) {
	w := newQuotaModel(1)
	if err := w.try("lost", 1); err != nil {
		t.Fatal(err)
	}
	w.answer("lost")
	w.exist, w.unheard = map[string]*corev1.Pod{}, nil // the watch was interrupted meanwhile
	if err := w.quotas.Reserve(w.shadow("next", 1), w.quota, false); err == nil {
		t.Fatal("there is room for two")
	}
	if w.wait(holdLimit + time.Second); !w.woken["next"] {
		t.Error("it still waits")
	}
}

func TestQuotaCacheResize(t *testing.T) {
	w := newQuotaModel(4)
	sp := w.shadow("web", 1)
	pod := &corev1.Pod{ObjectMeta: sp.ObjectMeta, Spec: sp.Spec.Pod}
	pod.UID, pod.ResourceVersion = "1", "10"
	w.quotas.ObservePod(pod)
	resized := func(cpu, version string) *corev1.Pod {
		out := pod.DeepCopy()
		out.ResourceVersion = version
		out.Spec.Containers[0].Resources.Requests = cpus(cpu)
		return out
	}
	counts := func(want string) {
		t.Helper()
		used := w.quotas.usages[accountOf(sp)].used
		if got := used.Cpu().String(); got != want {
			t.Errorf("%s are counted, want %s", got, want)
		}
	}
	asking := sp.DeepCopy()
	asking.Spec.Pod = resized("3", "").Spec
	if err := w.quotas.Reserve(asking, w.quota, true); err != nil {
		t.Fatal(err)
	}
	counts("3")
	w.quotas.Made(resized("3", "11"), "10")
	w.quotas.ObservePod(pod) // an event of before
	counts("3")
	w.quotas.ObservePod(resized("3", "11"))
	counts("3")
	w.quotas.Made(resized("2", "12"), "11")
	counts("3")
	w.quotas.ObservePod(resized("2", "12"))
	counts("2")
	w.quotas.ObserveEnd(pod)
	if len(w.quotas.reservations) > 0 || len(w.quotas.usages) > 0 {
		t.Error("something is left")
	}
}

// Whether a change that nobody answered was made is known when the watch shows a version of the pod after the one that it was for.
func TestQuotaCacheUnansweredResize(t *testing.T) {
	type story func(l *quotaCache, see func(version, cpu string), lost func())
	for name, tc := range map[string]struct {
		of   story
		want string
		held bool
	}{
		"nothing is seen":                {func(_ *quotaCache, _ func(string, string), lost func()) { lost() }, "3", true},
		"an event of before":             {func(_ *quotaCache, see func(string, string), lost func()) { lost(); see("9", "1"); see("10", "1") }, "3", true},
		"it was made":                    {func(_ *quotaCache, see func(string, string), lost func()) { lost(); see("11", "3") }, "3", false},
		"it was made and seen before":    {func(_ *quotaCache, see func(string, string), lost func()) { see("11", "3"); lost() }, "3", false},
		"something else was":             {func(_ *quotaCache, see func(string, string), lost func()) { lost(); see("11", "1") }, "1", false},
		"something else was seen before": {func(_ *quotaCache, see func(string, string), lost func()) { see("11", "1"); lost() }, "1", false},
		"another one was refused": {func(l *quotaCache, _ func(string, string), lost func()) {
			lost()
			l.Release(types.NamespacedName{Namespace: "twin", Name: "web"})
		}, "3", true},
		"its wish was taken back": {func(l *quotaCache, _ func(string, string), lost func()) {
			lost()
			l.Withdraw(asked("twin", "web", "grey", "user", "1"))
		}, "3", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newQuotaModel(3)
			sp := w.shadow("web", 1)
			key := client.ObjectKeyFromObject(sp)
			see := func(version, cpu string) {
				pod := &corev1.Pod{ObjectMeta: sp.ObjectMeta, Spec: asked("twin", "web", "grey", "user", cpu).Spec.Pod}
				pod.UID, pod.ResourceVersion = "1", version
				w.quotas.ObservePod(pod)
			}
			see("10", "1")
			if err := w.quotas.Reserve(w.shadow("web", 3), w.quota, true); err != nil {
				t.Fatal(err)
			}
			tc.of(w.quotas, see, func() { w.quotas.Lost(key, "10") })
			used := w.quotas.usages[accountOf(sp)].used
			if got := used.Cpu().String(); got != tc.want || w.quotas.IsReserved(key) != tc.held {
				t.Errorf("%s are counted, held: %t", got, w.quotas.IsReserved(key))
			}
			pod := &corev1.Pod{ObjectMeta: sp.ObjectMeta}
			pod.UID = "1"
			w.quotas.ObserveEnd(pod)
			if len(w.quotas.reservations) > 0 || len(w.quotas.usages) > 0 {
				t.Error("something is left when it is gone")
			}
		})
	}
}

// A pod that is to have more of one resource and less of another has both until that is done.
func TestQuotaCacheResizeBothWays(t *testing.T) {
	w := newQuotaModel(9)
	sp := w.shadow("web", 1)
	sp.Spec.Pod.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("4Gi")
	w.quota.Spec.Resources[corev1.ResourceMemory] = resource.MustParse("4Gi")
	pod := &corev1.Pod{ObjectMeta: sp.ObjectMeta, Spec: sp.Spec.Pod}
	pod.UID = "1"
	w.quotas.ObservePod(pod)
	asking := sp.DeepCopy()
	asking.Spec.Pod.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	if err := w.quotas.Reserve(asking, w.quota, true); err != nil {
		t.Fatal(err)
	}
	used := w.quotas.usages[accountOf(sp)].used
	if cpu, memory := used.Cpu().String(), used.Memory().String(); cpu != "2" || memory != "4Gi" {
		t.Errorf("%s and %s are counted", cpu, memory)
	}
}

// What a pod costs that asks, starts or goes does not depend on how many wait.
func TestQuotaCacheCost(t *testing.T) {
	cost := func(waiting int) float64 {
		w := newQuotaModel(2)
		for _, name := range []string{"a", "b"} {
			if err := w.try(name, 1); err != nil {
				t.Fatal(err)
			}
		}
		for i := range waiting {
			if err := w.try(fmt.Sprint("w", i), 2); err == nil {
				t.Fatal("there is room for three")
			}
		}
		a, last := w.shadow("a", 1), w.shadow(fmt.Sprint("w", waiting-1), 2)
		return testing.AllocsPerRun(20, func() {
			w.quotas.Release(client.ObjectKeyFromObject(a))
			asked := w.quotas.Reserve(a, w.quota, false)
			waits := w.quotas.Reserve(last, w.quota, false)
			if asked != nil || waits == nil {
				t.Fatalf("got %v and %v", asked, waits)
			}
		})
	}
	if few, many := cost(2), cost(2000); many > 2*few {
		t.Errorf("%v allocations where two wait, %v where 2000 do", few, many)
	}
}

// Why a pod waits does not change with what the others take: it is written and told of once.
func TestQuotaCacheStableReason(t *testing.T) {
	w := newQuotaModel(4)
	if err := w.try("a", 2); err != nil {
		t.Fatal(err)
	}
	before := w.try("large", 4)
	if err := w.try("b", 1); err != nil {
		t.Fatal(err)
	}
	if after := w.try("large", 4); before == nil || after == nil || before.Error() != after.Error() {
		t.Errorf("it was %v and is %v", before, after)
	}
}
