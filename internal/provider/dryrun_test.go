// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestPodTemplateKey(t *testing.T) {
	of := func(change func(*corev1.Pod)) podTemplateKey {
		sp := asked("twin", "web-0", "grey", "user", "1")
		pod := &corev1.Pod{ObjectMeta: *sp.ObjectMeta.DeepCopy(), Spec: sp.Spec.Pod}
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		change(pod)
		return templateKeyOf(pod)
	}
	first := of(func(*corev1.Pod) {})
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		same   bool
	}{
		"another name":      {func(p *corev1.Pod) { p.Name = "web-1" }, true},
		"an index":          {func(p *corev1.Pod) { p.Labels[appsv1.PodIndexLabel] = "1" }, true},
		"an origin":         {func(p *corev1.Pod) { p.Annotations[names.OffloadingUID] = "uid" }, true},
		"a runtime class":   {func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("heavy") }, false},
		"a label":           {func(p *corev1.Pod) { p.Labels["inject"] = "true" }, false},
		"an annotation":     {func(p *corev1.Pod) { p.Annotations["example.com/inject"] = "true" }, false},
		"another namespace": {func(p *corev1.Pod) { p.Namespace = "other" }, false},
		"another request":   {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = cpus("2") }, false},
		"a limit":           {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = cpus("2") }, false},
		"another container": {func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0]) }, false},
		"one at the start": {func(p *corev1.Pod) {
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, p.Spec.InitContainers
		}, false},
		"a request as a whole": {func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: cpus("1")} }, false},
	} {
		if got := of(c.change) == first; got != c.same {
			t.Errorf("%s: looks the same is %t", name, got)
		}
	}
}

func TestTemplateCache(t *testing.T) {
	now := time.Now()
	var s templateCache
	a, b := podTemplateKey{"twin", "a"}, podTemplateKey{"other", "b"}
	spec := &corev1.PodSpec{}
	is := func(of podTemplateKey, want bool, when string) {
		t.Helper()
		if got := s.Get(of, now) != nil; got != want {
			t.Errorf("%s, known: %t", when, got)
		}
	}
	is(a, false, "before the first")
	s.Learn(a, spec, now)
	s.Learn(b, spec, now)
	s.Forget("other")
	is(a, true, "after the first")
	is(b, false, "after its LimitRange changed")
	now = now.Add(outcomeAge + 1)
	is(a, false, "a minute later")
	s.Learn(b, spec, now)
	if len(s.known) != 1 {
		t.Errorf("kept are %v", s.known)
	}
}

// The answer to the request that made a pod is lost, and nobody can be asked for a while. Its share is nobody else's meanwhile.
func TestDryRunAfterUnanswered(t *testing.T) {
	c := testkit.Cluster(t)
	remoteNamespace := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "onyx"})
	home := testkit.Namespace(t, c, "tenant", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: "onyx"})
	q := offv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "q", ResourceVersion: "1"}, Spec: offv1beta1.QuotaSpec{User: "onyx-a", Resources: cpus("3")}}
	var unsure []string
	cut := interceptor.NewClient(c.Client, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			list.(*offv1beta1.QuotaList).Items = []offv1beta1.Quota{q}
			return nil
		},
		Create: func(_ context.Context, _ client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			o := &client.CreateOptions{}
			if o.ApplyOptions(opts); len(o.DryRun) == 0 {
				unsure = append(unsure, obj.GetName())
				return errors.New("the connection broke")
			}
			if len(unsure) > 0 {
				return errors.New("connection refused")
			}
			obj.(*corev1.Pod).Spec.Containers[0].Resources.Requests = cpus("2") // as a LimitRange would
			return nil
		},
	})
	s := &shadowPods{client: cut, quotas: newQuotaCache(true, func(types.NamespacedName) {})}
	share := func(name string) error {
		sp := bare(remoteNamespace, name, "onyx", "onyx-a")
		pod := &corev1.Pod{ObjectMeta: *sp.ObjectMeta.DeepCopy(), Spec: *sp.Spec.Pod.DeepCopy()}
		if err := s.dryRunShared(t.Context(), sp, pod); err != nil {
			return err
		}
		return s.notMade(t.Context(), sp, cut.Create(t.Context(), pod), pod)
	}
	for range 3 {
		if err := share("lost"); err == nil || !strings.Contains(err.Error(), "the connection broke") {
			t.Errorf("it is not asked for again: %v", err)
		}
		s.templates.Forget(remoteNamespace)
	}
	if err := s.reserveQuota(t.Context(), asked(remoteNamespace, "next", "onyx", "onyx-a", "2"), &asked(remoteNamespace, "next", "onyx", "onyx-a", "2").Spec.Pod); err == nil {
		t.Error("what the pod may have is given to another")
	}
	if err := s.reserveQuota(t.Context(), asked(remoteNamespace, "small", "onyx", "onyx-a", "1"), &asked(remoteNamespace, "small", "onyx", "onyx-a", "1").Spec.Pod); err != nil {
		t.Error(err)
	}
}

// A pod is in the way, and nobody can read it: that is no other request without an answer.
func TestExistingPodUnreadable(t *testing.T) {
	w, web := newQuotaModel(1), types.NamespacedName{Namespace: "twin", Name: "web"}
	s := &shadowPods{quotas: w.quotas, live: interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("connection refused")
		},
	})}
	w.loseAnswer("web", 1)
	w.answer("web")
	w.landLate("web")
	if err := w.quotas.Reserve(w.shadow("web", 1), w.quota, false); err != nil {
		t.Fatal(err)
	}
	if err := s.checkExisting(t.Context(), w.shadow("web", 1)); err == nil {
		t.Error("it was read")
	}
	if err := w.try("next", 1); err == nil {
		t.Error("there is room beside a pod that exists")
	}
	if w.deliverEvents(); w.quotas.IsReserved(web) || w.quotas.IsUncertain(web) {
		t.Error("it is still in doubt when the watch shows it")
	}
}

// The first request made the pod, and nobody answered; the second one is refused, by a ResourceQuota that the first one used up.
func TestRefusalAfterUnanswered(t *testing.T) {
	c := testkit.Cluster(t, testkit.WithControllers("serviceaccount-controller"))
	remoteNamespace := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "sand"})
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("exceeded quota"))
	for name, tc := range map[string]struct{ made, told bool }{
		"made":                          {true, true},
		"made, and nobody can tell":     {true, false},
		"not made":                      {false, true},
		"not made, and nobody can tell": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newQuotaModel(1)
			live := interceptor.NewClient(c.Client, interceptor.Funcs{
				Get: func(ctx context.Context, next client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if !tc.told {
						return errors.New("connection refused")
					}
					return next.Get(ctx, key, obj, opts...)
				},
			})
			s := &shadowPods{client: c.Client, live: live, quotas: w.quotas}
			sp := w.shadow("web-"+fmt.Sprint(tc.made, "-", tc.told), 1)
			sp.Namespace, sp.UID = remoteNamespace, types.UID(name)
			pod, err := s.podOf(t.Context(), sp)
			if err != nil {
				t.Fatal(err)
			}
			asks := func(answer error) error {
				if err := w.quotas.Reserve(sp, w.quota, false); err != nil {
					t.Fatal(err)
				}
				return s.notMade(t.Context(), sp, answer, pod)
			}
			if tc.made {
				testkit.Create(t, c.Client, pod.DeepCopy())
			}
			if err := asks(errors.New("the connection broke")); err == nil {
				t.Error("it is not asked for again")
			}
			if err := asks(forbidden); (err == nil) != (tc.made && tc.told) {
				t.Errorf("after the refusal: %v", err)
			}
			if err := w.try("next", 1); err == nil {
				t.Error("there is room beside a pod that may come")
			}
		})
	}
}
