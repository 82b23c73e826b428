// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// space is a namespace, "of" a NamespaceMap as the twin of local, or of nobody.
func space(name, of, local string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if of != "" {
		n.Annotations = map[string]string{names.ManagedByNamespaceMap: of, names.OriginalName: local}
	}
	return n
}

func going(n *corev1.Namespace) *corev1.Namespace {
	n.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0)))
	return n
}

const (
	ours   = "tenant-blue/blue-map"
	theirs = "tenant-red/red-map"
)

func show(in mapInput) string {
	words := map[action]string{create: "create", keep: "keep", remove: "remove", leave: "leave", refuse: "refuse"}
	var lines []string
	for _, s := range decideSteps(in) {
		line := fmt.Sprintf("%s %s>%s %s", words[s.do], s.local, s.remote, mappingPhase(in, s, nil))
		if s.refusal != nil {
			line += ": " + s.refusal.Error()
		}
		if s.warning != nil {
			line += ", " + s.warning.Error()
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestDecideSteps(t *testing.T) {
	for name, tc := range map[string]struct {
		desired    map[string]string
		namespaces []*corev1.Namespace
		access     accessState
		limit      int
		younger    bool
		bound      string
		want       string
	}{
		"nothing":           {},
		"a new one is made": {desired: map[string]string{"demo": "demo-blue"}, want: "create demo>demo-blue Accepted"},
		"ours is kept": {
			desired: map[string]string{"demo": "demo-blue"}, namespaces: []*corev1.Namespace{space("demo-blue", ours, "demo")},
			want: "keep demo>demo-blue Accepted",
		},
		"one of a user is never adopted": {
			desired: map[string]string{"demo": "demo"}, namespaces: []*corev1.Namespace{space("demo", "", "")},
			want: `refuse demo>demo CreationLoopBackOff: namespace "demo" already exists and was not created for this offloading`,
		},
		"nor one of another consumer": {
			desired: map[string]string{"demo": "demo"}, namespaces: []*corev1.Namespace{space("demo", theirs, "demo")},
			want: `refuse demo>demo CreationLoopBackOff: namespace "demo" already exists and was not created for this offloading`,
		},
		"two local namespaces never share a twin": {
			desired: map[string]string{"a": "x", "b": "x"}, namespaces: []*corev1.Namespace{space("x", ours, "a")},
			want: "keep a>x Accepted\n" + `refuse b>x CreationLoopBackOff: namespace "x" already exists and was not created for this offloading`,
		},
		"a reserved name is refused, whatever exists": {
			desired: map[string]string{"demo": "kube-system"}, namespaces: []*corev1.Namespace{space("kube-system", "", "")},
			want: `refuse demo>kube-system CreationLoopBackOff: the namespace "kube-system" belongs to Kubernetes`,
		},
		"what is no longer wanted is removed": {
			namespaces: []*corev1.Namespace{space("demo-blue", ours, "demo"), space("other", theirs, "demo"), space("mine", "", "")},
			want:       "remove demo>demo-blue Terminating",
		},
		"what is going is waited for": {
			namespaces: []*corev1.Namespace{going(space("demo-blue", ours, "demo"))},
			want:       "leave demo>demo-blue Terminating",
		},
		"terminating wanted namespace is recreated": {
			desired: map[string]string{"demo": "demo-blue"}, namespaces: []*corev1.Namespace{going(space("demo-blue", ours, "demo"))},
			want: "leave demo>demo-blue Terminating",
		},
		"under another name it goes before it comes": {
			desired: map[string]string{"demo": "new"}, namespaces: []*corev1.Namespace{space("old", ours, "demo")},
			want: "remove demo>old Terminating",
		},
		"limit counts all maps of the peering": {
			desired: map[string]string{"a": "a-blue", "b": "b-blue"}, namespaces: []*corev1.Namespace{space("x", "tenant-blue/second", "x")}, limit: 2,
			want: "create a>a-blue Accepted\nrefuse b>b-blue CreationLoopBackOff: the limit of 2 namespaces of one consumer is reached",
		},
		"missing Tenant": {
			desired: map[string]string{"a": "a-blue", "b": "b-blue"}, namespaces: []*corev1.Namespace{space("a-blue", ours, "a")}, access: suspended,
			want: "keep a>a-blue Accepted\nrefuse b>b-blue CreationLoopBackOff: the consumer has no Tenant",
		},
		"Tenant not ready": {
			desired: map[string]string{"a": "a-blue", "b": "b-blue"}, namespaces: []*corev1.Namespace{space("a-blue", ours, "a")}, access: refused,
			want: "keep a>a-blue Accepted\nrefuse b>b-blue CreationLoopBackOff: the Tenant is not ready",
		},
		"Tenant not processed": {
			desired: map[string]string{"a": "a-blue", "b": "b-blue"}, namespaces: []*corev1.Namespace{space("a-blue", ours, "a")}, access: undecided,
			want: "keep a>a-blue Accepted\nrefuse b>b-blue CreationLoopBackOff",
		},
		"drained Tenant": {
			desired: map[string]string{"a": "a-blue"}, namespaces: []*corev1.Namespace{space("a-blue", ours, "a")}, access: drained,
			want: "keep a>a-blue CreationLoopBackOff: the Tenant is drained",
		},
		"a_name_that_is_bound": {
			desired: map[string]string{"demo": "argocd"}, bound: "argocd",
			want: `refuse demo>argocd CreationLoopBackOff: ClusterRoleBinding x grants permissions to ServiceAccounts of the namespace "argocd", in which the consumer can run pods`,
		},
		"a_name_that_is_bound_later_is_kept": {
			desired: map[string]string{"demo": "argocd"}, bound: "argocd", namespaces: []*corev1.Namespace{space("argocd", ours, "demo")},
			want: `keep demo>argocd Accepted, ClusterRoleBinding x grants permissions to ServiceAccounts of the namespace "argocd", in which the consumer can run pods`,
		},
		"a_younger_map_gets_nothing_new": {
			desired: map[string]string{"a": "a-blue", "b": "b-blue"}, younger: true, namespaces: []*corev1.Namespace{space("a-blue", ours, "a")},
			want: "keep a>a-blue Accepted\nrefuse b>b-blue CreationLoopBackOff: another NamespaceMap of this consumer is older, and only the oldest one counts",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := mapInput{owner: ours, tenant: "tenant-blue", consumer: "blue", access: tc.access, desired: tc.desired, namespaces: map[string]*corev1.Namespace{}, limit: 10, younger: tc.younger}
			if tc.bound != "" {
				in.bound = map[string]string{tc.bound: "ClusterRoleBinding x"}
			}
			if tc.limit > 0 {
				in.limit = tc.limit
			}
			for _, n := range tc.namespaces {
				in.namespaces[n.Name] = n
			}
			if diff := cmp.Diff(tc.want, show(in)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMappingPhase(t *testing.T) {
	broken := errors.New("the API server is away")
	accepted := map[string]offv1beta1.RemoteNamespaceStatus{"demo": {RemoteNamespace: "demo-blue", Phase: offv1beta1.MappingAccepted}}
	for name, tc := range map[string]struct {
		current map[string]offv1beta1.RemoteNamespaceStatus
		do      action
		want    offv1beta1.MappingPhase
	}{
		"kept, accepted before":      {current: accepted, do: keep, want: offv1beta1.MappingAccepted},
		"kept, never accepted":       {do: keep, want: offv1beta1.MappingCreationLoopBackOff},
		"gone, and not made again":   {current: accepted, do: create, want: offv1beta1.MappingCreationLoopBackOff},
		"on its way out in any case": {current: accepted, do: remove, want: offv1beta1.MappingTerminating},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mappingPhase(mapInput{current: tc.current}, mapStep{local: "demo", remote: "demo-blue", do: tc.do}, broken); got != tc.want {
				t.Errorf("phase = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestMappingStatus(t *testing.T) {
	forbidden := func(reason string) error {
		return fmt.Errorf("creating namespace: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "demo-blue", errors.New(reason)))
	}
	for name, tc := range map[string]struct {
		refusal *denial
		do      action
		err     error
		access  accessState
		reason  string
		message string
		refused bool
	}{
		"accepted":                {do: keep},
		"refused":                 {do: refuse, refusal: errNotOurs("demo-blue"), reason: "NamespaceExists", message: `namespace "demo-blue" already exists`, refused: true},
		"detail_stays_here":       {do: refuse, refusal: &denial{reason: "NameBound", message: "bound", detail: "by ClusterRoleBinding secret"}, reason: "NameBound", message: "bound", refused: true},
		"drained":                 {do: keep, access: drained, refusal: drained.accessDenial(), reason: "TenantDrained", message: "drained", refused: true},
		"undecided":               {do: refuse, access: undecided, reason: "TenantPending", message: "not been processed"},
		"failed":                  {do: create, err: errors.New("dial tcp 10.0.0.1:443: connection refused"), reason: "Retried", message: "is being retried"},
		"forbidden":               {do: create, err: forbidden("denied by policy names"), reason: "Forbidden", message: "denied by policy names", refused: true},
		"forbidden_for_a_moment":  {do: create, err: forbidden("not yet ready to handle request"), reason: "Retried", message: "is being retried"},
		"long_messages_are_cut":   {do: create, err: forbidden(strings.Repeat("é", 500)), reason: "Forbidden", message: "…", refused: true},
		"removed_without_reasons": {do: remove, err: errors.New("broken")},
	} {
		t.Run(name, func(t *testing.T) {
			got := mappingStatus(mapInput{access: tc.access}, mapStep{local: "demo", remote: "demo-blue", do: tc.do, refusal: tc.refusal}, tc.err)
			if got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) || tc.message == "" && got.Message != "" || got.IsRefused() != tc.refused {
				t.Errorf("answer = %+v, refused %v", got, got.IsRefused())
			}
			if strings.Contains(got.Message, "10.0.0.1") || len(got.Message) > longestMessage+4 || !utf8.ValidString(got.Message) {
				t.Errorf("message %q", got.Message)
			}
		})
	}
}

func TestAccessOf(t *testing.T) {
	const active, cordoned, drain = authv1beta1.TenantConditionActive, authv1beta1.TenantConditionCordoned, authv1beta1.TenantConditionDrained
	// tenant was made at that second and is of generation 2; observed is what the condition is about, 0 for none.
	tenant := func(at int64, c authv1beta1.TenantCondition, observed int64, ready metav1.ConditionStatus) authv1beta1.Tenant {
		out := authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{ClusterID: "blue", TenantCondition: c}}
		out.CreationTimestamp, out.Generation = metav1.Unix(at, 0), 2
		if observed > 0 {
			out.Status.Conditions = []metav1.Condition{{Type: authv1beta1.TenantReady, Status: ready, ObservedGeneration: observed}}
		}
		return out
	}
	red := tenant(1, active, 2, metav1.ConditionTrue)
	red.Spec.ClusterID = "red"
	leaving := tenant(1, active, 2, metav1.ConditionTrue)
	leaving.DeletionTimestamp = new(metav1.Unix(1, 0))
	for name, tc := range map[string]struct {
		tenants []authv1beta1.Tenant
		want    accessState
	}{
		"ready":                      {tenants: []authv1beta1.Tenant{tenant(1, active, 2, metav1.ConditionTrue)}, want: granted},
		"cordoned keeps what it has": {tenants: []authv1beta1.Tenant{tenant(1, cordoned, 2, metav1.ConditionTrue)}, want: granted},
		"refused":                    {tenants: []authv1beta1.Tenant{tenant(1, active, 2, metav1.ConditionFalse)}, want: refused},
		"neither ready nor not":      {tenants: []authv1beta1.Tenant{tenant(1, active, 2, metav1.ConditionUnknown)}, want: refused},
		"not judged":                 {tenants: []authv1beta1.Tenant{tenant(1, active, 0, "")}, want: undecided},
		"ready before it changed":    {tenants: []authv1beta1.Tenant{tenant(1, active, 1, metav1.ConditionTrue)}, want: undecided},
		"refused before it changed":  {tenants: []authv1beta1.Tenant{tenant(1, active, 1, metav1.ConditionFalse)}, want: undecided},
		"drained, judged or not":     {tenants: []authv1beta1.Tenant{tenant(1, drain, 1, metav1.ConditionTrue)}, want: drained},
		"none":                       {want: suspended},
		"of somebody else":           {tenants: []authv1beta1.Tenant{red}, want: suspended},
		"on its way out":             {tenants: []authv1beta1.Tenant{leaving}, want: suspended},
		"of two the first": {
			tenants: []authv1beta1.Tenant{tenant(9, drain, 2, metav1.ConditionFalse), tenant(1, active, 2, metav1.ConditionTrue)}, want: granted,
		},
		"the second when the first goes": {
			tenants: []authv1beta1.Tenant{leaving, tenant(9, active, 2, metav1.ConditionFalse)}, want: refused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := accessOf(tc.tenants, "blue"); got != tc.want {
				t.Errorf("access = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestUsersOf(t *testing.T) {
	quota := func(user string) offv1beta1.Quota { return offv1beta1.Quota{Spec: offv1beta1.QuotaSpec{User: user}} }
	cordoned, leaving := quota("b"), quota("d")
	cordoned.Spec.Cordoned = new(true)
	leaving.DeletionTimestamp = new(metav1.Unix(1, 0))
	got := usersOf([]offv1beta1.Quota{quota("c"), cordoned, quota("a"), leaving, quota("c")})
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestMissingLabels(t *testing.T) {
	in := mapInput{consumer: "blue", level: policy.PodSecurityBaseline}
	n := space("demo", ours, "demo")
	want := map[string]string{names.RemoteClusterID: "blue", policy.PodSecurityLabel: policy.PodSecurityBaseline}
	if diff := cmp.Diff(want, missingLabels(in, n)); diff != "" {
		t.Error(diff)
	}
	n.Labels = map[string]string{names.RemoteClusterID: "blue", policy.PodSecurityLabel: policy.PodSecurityPrivileged}
	if remaining := missingLabels(in, n); len(remaining) > 0 {
		t.Errorf("would overwrite %v", remaining)
	}
}

func TestOwnedKeys(t *testing.T) {
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	got := ownedKeys([]metav1.ManagedFieldsEntry{
		entry("shadow-pod", `{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:liqo.io/x":{}},"f:annotations":{"f:note":{}}},"f:spec":{}}`),
		entry("kubelet", `{"f:metadata":{"f:labels":{"f:theirs":{}}}}`),
		entry("shadow-pod", `no JSON`),
	})
	if diff := cmp.Diff(keys{Labels: []string{"app", "liqo.io/x"}, Annotations: []string{"note"}}, got); diff != "" {
		t.Error(diff)
	}
}
