// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/api/networking/v1beta1/firewall"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/testkit"
)

// seenRoutes is what an agent sees whose cache has this RouteConfiguration.
func seenRoutes(t *testing.T, c client.Client, of *networkingv1beta1.RouteConfiguration) *Snapshot {
	t.Helper()
	now := &networkingv1beta1.RouteConfiguration{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(of), now); err != nil {
		t.Fatal(err)
	}
	return &Snapshot{Routes: []*networkingv1beta1.RouteConfiguration{now}}
}

func TestReporterOnce(t *testing.T) {
	cluster := testkit.Cluster(t)
	ns := testkit.Namespace(t, cluster, "report", nil)
	c := cluster.Client
	obj := &networkingv1beta1.RouteConfiguration{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a"}}
	obj.Spec.Table = networkingv1beta1.Table{Name: "a", Rules: []networkingv1beta1.Rule{{Routes: []networkingv1beta1.Route{{Dst: new(networkingv1beta1.CIDR("192.0.2.0/24")), Dev: new("eth0")}}}}}
	testkit.Create(t, c, obj)
	one, other := &Reporter{Client: c, Host: "one"}, &Reporter{Client: c, Host: "other"}
	problem := []plan.Problem{{Of: plan.Object{Kind: "RouteConfiguration", Namespace: ns, Name: "a"}, Message: "no"}}
	say := func(r *Reporter, snapshot *Snapshot, problems []plan.Problem, failed error) error {
		return r.Applied(context.Background(), snapshot, problems, failed)
	}
	old := seenRoutes(t, c, obj)
	if err := say(one, seenRoutes(t, c, obj), nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := say(other, old, problem, nil); err != nil {
		t.Errorf("a host whose cache is old is told %v", err)
	}
	done := networkingv1beta1.HostCondition{Status: metav1.ConditionTrue}
	wantConditions(t, c, obj, done, networkingv1beta1.HostCondition{Status: metav1.ConditionFalse, Reason: "NotApplied", Message: "no"})
	if err := say(one, seenRoutes(t, c, obj), nil, errors.New("the kernel said no")); err != nil {
		t.Fatal(err)
	}
	if err := say(other, seenRoutes(t, c, obj), nil, nil); err != nil {
		t.Fatal(err)
	}
	wantConditions(t, c, obj, networkingv1beta1.HostCondition{Status: metav1.ConditionFalse, Reason: "ApplyFailed", Message: "the kernel said no"}, done)
	changed := seenRoutes(t, c, obj).Routes[0].Status.Conditions[0].LastTransitionTime
	if err := say(one, seenRoutes(t, c, obj), append([]plan.Problem{{Of: problem[0].Of, Message: "never"}, {Of: plan.Object{Kind: "IP"}, Message: "else"}}, problem...), nil); err != nil {
		t.Fatal(err)
	}
	wantConditions(t, c, obj, networkingv1beta1.HostCondition{Status: metav1.ConditionFalse, Reason: "NotApplied", Message: "never; no"}, done)
	if now := seenRoutes(t, c, obj).Routes[0].Status.Conditions[0].LastTransitionTime; !now.Equal(&changed) {
		t.Error("another reason is told as another status")
	}
	version := seenRoutes(t, c, obj).Routes[0].ResourceVersion
	if err := say(other, seenRoutes(t, c, obj), nil, nil); err != nil {
		t.Fatal(err)
	}
	if now := seenRoutes(t, c, obj).Routes[0].ResourceVersion; now != version {
		t.Error("what did not change was written")
	}
	t.Log("what a host said last counts, whatever its cache shows yet")
	old = seenRoutes(t, c, obj)
	for _, failed := range []error{errors.New("the kernel said no"), nil} {
		if err := say(other, old, nil, failed); err != nil {
			t.Fatal(err)
		}
	}
	wantConditions(t, c, obj, networkingv1beta1.HostCondition{Status: metav1.ConditionFalse, Reason: "NotApplied", Message: "never; no"}, done)
}

func TestReporterConcurrentHosts(t *testing.T) {
	cluster := testkit.Cluster(t)
	c := cluster.Client
	obj := &networkingv1beta1.FirewallConfiguration{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace(t, cluster, "report", nil), Name: "a"}}
	obj.Spec.Table = firewall.Table{Name: new("a"), Family: new(firewall.TableFamilyIPv4), Chains: []firewall.Chain{}}
	testkit.Create(t, c, obj)
	const hosts = 20
	var all sync.WaitGroup
	var errs [hosts]error
	for i := range hosts {
		all.Go(func() {
			r := Reporter{Client: c, Host: fmt.Sprint("host-", i)}
			for _, failed := range []error{errors.New("not yet"), nil} {
				errs[i] = errors.Join(errs[i], r.Applied(t.Context(), &Snapshot{Firewalls: []*networkingv1beta1.FirewallConfiguration{obj}}, nil, failed))
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Error(err)
	}
	now := &networkingv1beta1.FirewallConfiguration{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), now); err != nil {
		t.Fatal(err)
	}
	done := slices.DeleteFunc(slices.Clone(now.Status.Conditions), func(c networkingv1beta1.HostCondition) bool { return c.Status != metav1.ConditionTrue })
	if len(done) != hosts || len(now.Status.Conditions) != hosts {
		t.Errorf("%d hosts say that it is done: %+v", len(done), now.Status.Conditions)
	}
}

func TestReporterLostCondition(t *testing.T) {
	r := Reporter{Host: "one"}
	says := func(hosts ...string) client.Object {
		f := &networkingv1beta1.FirewallConfiguration{}
		for _, h := range hosts {
			f.Status.Conditions = append(f.Status.Conditions, networkingv1beta1.HostCondition{Host: h, Type: networkingv1beta1.HostConditionApplied})
		}
		return f
	}
	for name, tc := range map[string]struct {
		old, now client.Object
		want     bool
	}{
		"its own":          {says("other", "one"), says("other"), true},
		"another's":        {says("other", "one"), says("one"), false},
		"nothing was said": {says("other"), says(), false},
		"another kind":     {&networkingv1beta1.InternalNode{}, &networkingv1beta1.InternalNode{}, false},
	} {
		if got := r.Lost(tc.old, tc.now); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func wantConditions(t *testing.T, c client.Client, of *networkingv1beta1.RouteConfiguration, one, other networkingv1beta1.HostCondition) {
	t.Helper()
	one.Host, other.Host = "one", "other"
	one.Type, other.Type = networkingv1beta1.HostConditionApplied, networkingv1beta1.HostConditionApplied
	want := []networkingv1beta1.HostCondition{one, other}
	got := seenRoutes(t, c, of).Routes[0].Status.Conditions
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(networkingv1beta1.HostCondition{}, "LastTransitionTime")); diff != "" {
		t.Error(diff)
	}
}

// noted takes events down.
type noted struct{ notes []string }

func (n *noted) Eventf(_ runtime.Object, _ runtime.Object, _, reason, _, format string, args ...any) {
	n.notes = append(n.notes, reason)
}

var _ events.EventRecorder = (*noted)(nil)

func TestReporterForbidden(t *testing.T) {
	var n noted
	r := Reporter{Events: &n, Host: "one", Namespace: "tenant"}
	of := plan.Object{Kind: "RouteConfiguration", Namespace: "home", Name: "a"}
	obj := &networkingv1beta1.RouteConfiguration{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "a"}}
	snapshot := &Snapshot{Objects: map[plan.Object]client.Object{of: obj}, Routes: []*networkingv1beta1.RouteConfiguration{obj}}
	problems := []plan.Problem{{Of: of, Message: "no"}}
	r.ReportProblems(t.Context(), snapshot, problems)
	if err := r.Applied(t.Context(), snapshot, problems, nil); err != nil || len(n.notes) > 0 {
		t.Errorf("events %q, %v", n.notes, err)
	}
}

func TestReporterNewProblem(t *testing.T) {
	var n noted
	r := Reporter{Events: &n, Host: "one"}
	of, gone := plan.Object{Kind: "IP", Namespace: "a", Name: "b"}, plan.Object{Kind: "IP", Namespace: "a", Name: "gone"}
	snapshot := &Snapshot{Objects: map[plan.Object]client.Object{of: &networkingv1beta1.InternalNode{}}}
	refusal := plan.Problem{Of: of, Message: "refused", Reason: plan.ReasonAnotherIP}
	first, second := plan.Problem{Of: of, Message: "first"}, plan.Problem{Of: of, Message: "second"}
	for i, step := range []struct {
		problems []plan.Problem
		events   int
	}{
		{[]plan.Problem{first}, 1},
		{[]plan.Problem{first}, 1},
		{[]plan.Problem{first, second}, 2},
		{[]plan.Problem{first, second, refusal}, 2},
		{nil, 2},
		{[]plan.Problem{first, {Of: gone, Message: "not there any more"}}, 3},
	} {
		r.ReportProblems(t.Context(), snapshot, step.problems)
		if len(n.notes) != step.events {
			t.Errorf("step %d: %d events, want %d", i, len(n.notes), step.events)
		}
	}
}
