// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v4/pkg/chart/common"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/internal/webhook"
)

var (
	offloadedNamespace = map[string]string{names.SchedulingEnabled: "true"}
	byPolicy           = tree("webhook.mutatingAdmissionPolicy", "enabled")
)

var requirements = rapid.SampledFrom([]corev1.NodeSelectorRequirement{
	{Key: "region", Operator: "In", Values: []string{"eu"}},
	{Key: "region", Operator: "In", Values: []string{"eu", "us"}},
	{Key: "region", Operator: "NotIn", Values: []string{"eu"}},
	{Key: "disk", Operator: "Exists"},
	{Key: "disk", Operator: "DoesNotExist"},
	{Key: "cores", Operator: "Gt", Values: []string{"8"}},
	{Key: names.NodeType, Operator: "In", Values: []string{names.NodeTypeVirtualNode}},
	{Key: names.NodeType, Operator: "NotIn", Values: []string{names.NodeTypeVirtualNode}},
})

var nodeFields = rapid.SampledFrom([]corev1.NodeSelectorRequirement{
	{Key: "metadata.name", Operator: "In", Values: []string{"n1"}},
	{Key: "metadata.name", Operator: "NotIn", Values: []string{"n2"}},
})

var nodeSelectors = rapid.Custom(func(t *rapid.T) *corev1.NodeSelector {
	if rapid.IntRange(0, 3).Draw(t, "selects") == 0 {
		return nil
	}
	return &corev1.NodeSelector{NodeSelectorTerms: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{
			MatchExpressions: rapid.SliceOfN(requirements, 0, 3).Draw(t, "expressions"),
			MatchFields:      rapid.SliceOfN(nodeFields, 0, 1).Draw(t, "fields"),
		}
	}), 1, 3).Draw(t, "terms")}
})

var podTolerations = rapid.SampledFrom([]corev1.Toleration{
	policy.VirtualNodeToleration(),
	{Operator: "Exists"},
	{Operator: "Exists", Effect: "NoSchedule"},
	{Key: names.VirtualNodeTaint, Value: "true"},
	{Key: names.VirtualNodeTaint, Operator: "Equal", Value: "false", Effect: "NoExecute"},
	{Key: names.VirtualNodeTaint, Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(30))},
	{Key: "other", Operator: "Exists"},
})

// steeredPods are pods of all kinds that matter. The API server adds no toleration to them.
var steeredPods = rapid.Custom(func(t *rapid.T) *corev1.Pod {
	pod := podIn("")
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: taint, Operator: "Exists", Effect: "NoExecute"})
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, rapid.SliceOfN(podTolerations, 0, 2).Draw(t, "tolerations")...)
	if own := nodeSelectors.Draw(t, "own"); own != nil {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: own}}
	}
	switch rapid.IntRange(0, 10).Draw(t, "kind") {
	case 0, 1:
		pod.Annotations = map[string]string{"note": "a"}
	case 2:
		pod.Spec.NodeName = "n1"
	case 3:
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}
	case 4:
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: "Exists"}}}},
		}}}
	case 5:
		kind := rapid.SampledFrom([]string{"ReplicaSet", "DaemonSet"}).Draw(t, "owner")
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "web", UID: "u", Controller: new(true)}}
	case 6:
		pod.Spec.RuntimeClassName = new(rapid.SampledFrom([]string{names.RuntimeClass, "gvisor"}).Draw(t, "class"))
	case 7:
		pod.Spec.NodeName, pod.Annotations = "n1", map[string]string{corev1.MirrorPodAnnotationKey: "a"}
	}
	return pod
})

// offloadings are NamespaceOffloadings, some of them with empty lists as a user can write them.
var offloadings = rapid.Custom(func(t *rapid.T) *unstructured.Unstructured {
	spec := map[string]any{"podOffloadingStrategy": rapid.SampledFrom([]string{"Remote", "LocalAndRemote", "Local", "Remote", "LocalAndRemote"}).Draw(t, "strategy")}
	if selector := nodeSelectors.Draw(t, "selector"); selector != nil {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(selector)
		if err != nil {
			t.Fatal(err)
		}
		terms, _ := content["nodeSelectorTerms"].([]any)
		if rapid.IntRange(0, 9).Draw(t, "without terms") == 0 {
			terms = []any{}
		}
		for _, of := range terms {
			expressions, found := of.(map[string]any)["matchExpressions"].([]any)
			if !found && rapid.Bool().Draw(t, "empty expressions") {
				of.(map[string]any)["matchExpressions"] = []any{}
			}
			for _, e := range expressions {
				if e := e.(map[string]any); e["values"] == nil && rapid.Bool().Draw(t, "empty values") {
					e["values"] = []any{}
				}
			}
		}
		content["nodeSelectorTerms"] = terms
		spec["clusterSelector"] = content
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": offv1beta1.GroupVersion.String(), "kind": "NamespaceOffloading",
		"metadata": map[string]any{"name": names.NamespaceOffloading}, "spec": spec,
	}}
})

// Where the API server has the policy, no pod waits for the webhook.
func TestPodPolicyChoice(t *testing.T) {
	without, with := common.DefaultCapabilities, common.DefaultCapabilities.Copy()
	with.APIVersions = append(with.APIVersions, "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")
	for _, tc := range []struct {
		choice  string
		cluster *common.Capabilities
		policy  bool
	}{{"auto", without, false}, {"auto", with, true}, {"enabled", without, true}, {"disabled", with, false}} {
		r, err := renderFor(t, tc.cluster, "liqo-system", loadChart(t), tree("webhook.mutatingAdmissionPolicy", tc.choice), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, obj := range r.objects {
			switch obj.GetKind() {
			case "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding":
				got = append(got, obj.GetKind())
			case "MutatingWebhookConfiguration":
				for _, w := range as[admissionv1.MutatingWebhookConfiguration](t, obj).Webhooks {
					if w.Name == "pod.mutate.liqo.io" {
						got = append(got, w.Name)
					}
				}
			}
		}
		want := []string{"pod.mutate.liqo.io"}
		if tc.policy {
			want = []string{"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: rendered %v, want %v", tc.choice, got, want)
		}
	}
}

// steerByPolicy lets the API server steer pods by the chart's policy for as long as the test lasts, without a process of Liqo. It returns
// a client that may create pods and nothing else.
func steerByPolicy(t testing.TB, c *testkit.ControlPlane) client.Client {
	t.Helper()
	user := clientOf(t, c.User(t, "developer"))
	testkit.Allow(t, c, "", "developer", testkit.Rule("", "pods", "create"))
	for _, obj := range mustRender(t, byPolicy).objects {
		if obj.GetKind() != "MutatingAdmissionPolicy" && obj.GetKind() != "MutatingAdmissionPolicyBinding" {
			continue
		}
		if err := c.Client.Create(t.Context(), obj); err != nil { // it needs Kubernetes 1.36
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Client.Delete(context.Background(), obj) })
	}
	orphan := testkit.Namespace(t, c, "without-offloading", offloadedNamespace)
	testkit.Eventually(t, 60*time.Second, func() error {
		return refused(c.Client.Create(t.Context(), podIn(orphan), client.DryRunAll), "no params found for policy binding")
	})
	if err := user.List(t.Context(), &offv1beta1.NamespaceOffloadingList{}); !apierrors.IsForbidden(err) {
		t.Fatal("the user reads NamespaceOffloadings:", err)
	}
	t.Cleanup(func() { // tests that come later have webhooks
		gone := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "liqo-pods"}}
		_ = c.Client.Delete(context.Background(), gone)
		deadline, stop := context.WithTimeout(context.Background(), 60*time.Second)
		defer stop()
		for c.Client.Create(deadline, podIn(orphan), client.DryRunAll) != nil && deadline.Err() == nil {
		}
	})
	return user
}

// The API server makes the same of 2000 pods as the webhook, of a user who reads no NamespaceOffloading, while no process of Liqo runs.
// It evaluates the policy twice, because the first time changes the pod.
func TestPodPolicyEqualsWebhook(t *testing.T) {
	const spaces, each = 100, 20
	c := testkit.Cluster(t)
	user := steerByPolicy(t, c)
	for _, class := range []string{names.RuntimeClass, "gvisor"} {
		testkit.Ensure(t, c, &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Handler: class})
	}
	var todo errgroup.Group
	todo.SetLimit(16)
	for n := range spaces {
		namespace := testkit.Namespace(t, c, "shop", offloadedNamespace)
		created := offloadings.Example(n)
		created.SetNamespace(namespace)
		if err := c.Client.Create(t.Context(), created); err != nil {
			t.Fatal(err)
		}
		nso := as[offv1beta1.NamespaceOffloading](t, created)
		for i := range each {
			todo.Go(func() error {
				pod := steeredPods.Example(n*each + i)
				pod.Namespace = namespace
				want := pod.DeepCopy()
				if isSentToWebhook(pod) {
					policy.SteerPod(want, nso, names.RuntimeClass)
				}
				if err := user.Create(t.Context(), pod, client.DryRunAll); err != nil {
					return fmt.Errorf("%v: %w", created.Object["spec"], err)
				}
				if diff := cmp.Diff(steeredFields(want), steeredFields(pod), cmpopts.EquateEmpty()); diff != "" {
					return fmt.Errorf("%v (-webhook +policy):\n%s", created.Object["spec"], diff)
				}
				return nil
			})
		}
	}
	if err := todo.Wait(); err != nil {
		t.Error(err)
	}
}

func steeredFields(pod *corev1.Pod) []any {
	return []any{pod.Annotations, pod.Spec.Tolerations, pod.Spec.Affinity}
}

// isSentToWebhook reports whether the pod meets the conditions of the webhook that the policy replaces.
func isSentToWebhook(pod *corev1.Pod) bool {
	_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return !static && (pod.Spec.NodeName == "" || !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == names.VirtualNodeTaint }))
}

// A pod may follow at once; one that came first is refused, as its owner tries again.
func TestPodPolicyOrder(t *testing.T) {
	c := testkit.Cluster(t)
	namespace := testkit.Namespace(t, c, "shop", offloadedNamespace)
	user := steerByPolicy(t, c)
	tolerates := func() (bool, error) {
		pod := podIn(namespace)
		err := user.Create(t.Context(), pod, client.DryRunAll)
		return slices.Contains(pod.Spec.Tolerations, policy.VirtualNodeToleration()), err
	}
	if _, err := tolerates(); !apierrors.IsForbidden(err) {
		t.Error("without a NamespaceOffloading:", err)
	}
	nso := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.NamespaceOffloading, Finalizers: []string{names.NamespaceOffloadingFinalizer}}}
	if err := c.Client.Create(t.Context(), nso); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 3*time.Minute, func() error {
		steered, err := tolerates()
		switch {
		case err == nil && !steered:
			t.Fatal("a pod was created that was not steered")
		case err != nil && !apierrors.IsForbidden(err):
			t.Fatal(err)
		}
		return err
	})
	if err := c.Client.Delete(t.Context(), nso); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 3*time.Minute, func() error {
		steered, err := tolerates()
		if err != nil {
			t.Fatal("while the NamespaceOffloading is being deleted:", err)
		}
		if steered {
			return errors.New("pods are still steered")
		}
		return nil
	})
	testkit.Update(t, c.Client, nso, func(nso *offv1beta1.NamespaceOffloading) { nso.Finalizers = nil })
	testkit.Eventually(t, 3*time.Minute, func() error {
		if _, err := tolerates(); !apierrors.IsForbidden(err) {
			return fmt.Errorf("after the NamespaceOffloading is gone: %w", err)
		}
		return nil
	})
}

// What others change later is steered again.
func TestPodPolicyReinvocation(t *testing.T) {
	c := testkit.Cluster(t)
	namespace := testkit.Namespace(t, c, "shop", map[string]string{names.SchedulingEnabled: "true", "zoned": "true"})
	user := steerByPolicy(t, c)
	nso := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.NamespaceOffloading}}
	nso.Spec.PodOffloadingStrategy = offv1beta1.RemotePodOffloadingStrategyType
	if err := c.Client.Create(t.Context(), nso); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a-zones", "z-zones"} { // by their names before ours and after, one at a time: the order is not defined
		t.Run(name, func(t *testing.T) {
			testkit.Create(t, c.Client, &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicySpec{
				ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
				MatchConstraints: &admissionv1.MatchResources{
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"zoned": "true"}},
					ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Create},
						Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
					}}},
				},
				Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: `[
				JSONPatch{op: 'add', path: '/spec/tolerations', value: []}, JSONPatch{op: 'add', path: '/spec/affinity', value: {'nodeAffinity':
				{'requiredDuringSchedulingIgnoredDuringExecution': {'nodeSelectorTerms': [{'matchExpressions': [{'key': dyn('zone'), 'operator': dyn('In'), 'values': dyn(['` + name + `'])}]}]}}}}]`}}},
			}}, &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name}})
			t.Cleanup(func() {
				_ = c.Client.Delete(context.Background(), &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}})
				_ = c.Client.Delete(context.Background(), &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}})
			})
			testkit.Eventually(t, 60*time.Second, func() error {
				pod := podIn(namespace)
				if err := user.Create(t.Context(), pod, client.DryRunAll); err != nil {
					return err
				}
				want := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
					{Key: names.NodeType, Operator: corev1.NodeSelectorOpIn, Values: []string{names.NodeTypeVirtualNode}},
				}}}
				if diff := cmp.Diff(want, pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms); diff != "" {
					return errors.New(diff)
				}
				if !slices.Contains(pod.Spec.Tolerations, policy.VirtualNodeToleration()) {
					return fmt.Errorf("tolerations are %v", pod.Spec.Tolerations)
				}
				return nil
			})
		})
	}
}

// The cost of an expression is limited: many terms fit, and a pod with too many is refused rather than placed anywhere.
func TestPodPolicyCost(t *testing.T) {
	c := testkit.Cluster(t)
	user := steerByPolicy(t, c)
	alternatives := func(n int, key string) *corev1.NodeSelector {
		out := &corev1.NodeSelector{}
		for i := range n {
			out.NodeSelectorTerms = append(out.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{fmt.Sprint("v", i)}},
			}})
		}
		return out
	}
	for name, tc := range map[string]struct {
		own, chosen int
		text        string
	}{
		"many clusters":   {own: 1, chosen: 200},
		"many of a pod":   {own: 200, chosen: 1},
		"many of both":    {own: 50, chosen: 50},
		"too many of all": {own: 500, chosen: 500, text: "cost limit exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podIn(testkit.Namespace(t, c, "shop", offloadedNamespace))
			nso := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: names.NamespaceOffloading}}
			nso.Spec.ClusterSelector = alternatives(tc.chosen, "cluster")
			testkit.Create(t, c.Client, nso)
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: alternatives(tc.own, "own")}}
			expect(t, user.Create(t.Context(), pod, client.DryRunAll), tc.text)
		})
	}
}

// BenchmarkPodAdmission creates pods where nothing steers them, and where the policy or the webhook does.
func BenchmarkPodAdmission(b *testing.B) {
	c := testkit.Cluster(b)
	create := func(b *testing.B, labels map[string]string) {
		namespace := testkit.Namespace(b, c, "shop", labels)
		nso := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.NamespaceOffloading}}
		nso.Spec.PodOffloadingStrategy = offv1beta1.RemotePodOffloadingStrategyType
		testkit.Create(b, c.Client, nso)
		testkit.Eventually(b, 60*time.Second, func() error {
			pod := podIn(namespace)
			if err := c.Client.Create(b.Context(), pod, client.DryRunAll); err != nil {
				return err
			}
			if _, steered := pod.Annotations[names.ImposedAffinity]; steered != (labels != nil) {
				return fmt.Errorf("the pod is steered: %t", steered)
			}
			return nil
		})
		var took []time.Duration
		for b.Loop() {
			began := time.Now()
			if err := c.Client.Create(b.Context(), podIn(namespace), client.DryRunAll); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	}
	b.Run("none", func(b *testing.B) { create(b, nil) })
	b.Run("policy", func(b *testing.B) {
		steerByPolicy(b, c)
		create(b, offloadedNamespace)
	})
	b.Run("webhook", func(b *testing.B) {
		serveWebhooks(b, c, webhook.Options{}, "pod.mutate.liqo.io")
		create(b, offloadedNamespace)
	})
}
