// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package several

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/test/clusters"
)

// lenders are the providers behind the virtual nodes. No two nodes have the same name, in whatever cluster.
var lenders = map[string]string{"a-b": "cl-b", "a-b-more": "cl-b", "a-c": "cl-c", "c-b": "cl-b"}

// isTwin tells twin namespaces from those of their consumers.
func isTwin(namespace string) bool { return strings.Contains(namespace, "-cl-") }

// application are the pods of the story in a cluster, its own and those of others. All of them are ready, none is on its
// way out; those that were aborted do not count.
func application(ctx context.Context, in *clusters.Cluster) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := in.Client.List(ctx, &pods); err != nil {
		return nil, err
	}
	var out []corev1.Pod
	for _, pod := range pods.Items {
		if !strings.HasPrefix(pod.Namespace, "shop") || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if pod.DeletionTimestamp != nil || !ready(&pod) {
			return nil, fmt.Errorf("pod %s/%s of %s is %s on %q, or goes: %s %s", pod.Namespace, pod.Name, in.ID, pod.Status.Phase, pod.Spec.NodeName, pod.Status.Reason, pod.Status.Message)
		}
		out = append(out, pod)
	}
	return out, nil
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// everyPodOnce wants each pod of a virtual node to have one Pod, in the twin namespace of its provider, on a real node, and
// no other Pod to be in any twin namespace: a pod that was lent is not lent on.
func everyPodOnce(ctx context.Context) error {
	var want, got []string
	for _, in := range all() {
		pods, err := application(ctx, in)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if provider, virtual := lenders[pod.Spec.NodeName]; virtual {
				want = append(want, fmt.Sprintf("%s %s-%s/%s", provider, pod.Namespace, in.ID, pod.Name))
			}
			if isTwin(pod.Namespace) {
				got = append(got, fmt.Sprintf("%s %s/%s", in.ID, pod.Namespace, pod.Name))
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("pods of providers (-want +got):\n%s", diff)
	}
	return nil
}

// nodesAre wants that many pods of an application of this cluster on each node.
func nodesAre(ctx context.Context, in *clusters.Cluster, app string, want map[string]int) error {
	pods, err := application(ctx, in)
	if err != nil {
		return err
	}
	got := map[string]int{}
	for _, pod := range pods {
		if pod.Labels["app"] == app && !isTwin(pod.Namespace) {
			got[pod.Spec.NodeName]++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("pods of %s per node of %s (-want +got):\n%s", app, in.ID, diff)
	}
	return nil
}

// lent says which pods of others there are in a cluster, which ones they are, and how often their containers were started.
func lent(ctx context.Context, in ...*clusters.Cluster) (map[string]string, error) {
	out := map[string]string{}
	for _, cluster := range in {
		pods, err := application(ctx, cluster)
		if err != nil {
			return nil, err
		}
		for _, pod := range pods {
			if !isTwin(pod.Namespace) {
				continue
			}
			var restarts []string
			for _, s := range pod.Status.ContainerStatuses {
				restarts = append(restarts, fmt.Sprint(s.RestartCount))
			}
			out[fmt.Sprintf("%s %s/%s", cluster.ID, pod.Namespace, pod.Name)] = fmt.Sprint(pod.UID, restarts)
		}
	}
	return out, nil
}

// chosen wants the namespace to have its twins in exactly these providers.
func chosen(ctx context.Context, in *clusters.Cluster, namespace string, providers ...string) error {
	var nso offv1beta1.NamespaceOffloading
	if err := in.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "offloading"}, &nso); err != nil {
		return err
	}
	var got []string
	for id, conditions := range nso.Status.RemoteNamespacesConditions {
		if slices.ContainsFunc(conditions, func(c offv1beta1.RemoteNamespaceCondition) bool {
			return c.Type == offv1beta1.NamespaceReady && c.Status == corev1.ConditionTrue
		}) {
			got = append(got, id)
		}
	}
	slices.Sort(got)
	if nso.Status.OffloadingPhase != offv1beta1.ReadyOffloadingPhaseType || !slices.Equal(got, providers) {
		return fmt.Errorf("namespace %s of %s is %s with twins in %v, want %v", namespace, in.ID, nso.Status.OffloadingPhase, got, providers)
	}
	return nil
}

// gone wants an object not to be there.
func gone(ctx context.Context, in *clusters.Cluster, key client.ObjectKey, obj client.Object) error {
	err := in.Client.Get(ctx, key, obj)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%T %s is still in %s, with the finalizers %v", obj, key.Name, in.ID, obj.GetFinalizers())
}

// readiness of a node.
func readiness(ctx context.Context, in *clusters.Cluster, name string) (corev1.NodeCondition, error) {
	var node corev1.Node
	if err := in.Client.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
		return corev1.NodeCondition{}, err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition, nil
		}
	}
	return corev1.NodeCondition{}, fmt.Errorf("node %s does not say whether it is ready", name)
}

// nodeIs wants a node to be Ready, or not.
func nodeIs(ctx context.Context, in *clusters.Cluster, name string, want bool) error {
	is, err := readiness(ctx, in, name)
	if err == nil && (is.Status == corev1.ConditionTrue) != want {
		err = fmt.Errorf("node %s: %s, %s", name, is.Status, is.Message)
	}
	return err
}

// passing are resources whose objects tell of what was.
var passing = []string{"events", "leases", "componentstatuses"}

// neverHeardOf wants no object of a cluster to name a peer, whatever it is.
func neverHeardOf(in *clusters.Cluster, peer string) error {
	names, err := in.Kubectl("", "api-resources", "--verbs=list", "-o", "name")
	if err != nil {
		return err
	}
	resources := slices.DeleteFunc(strings.Fields(names), func(name string) bool {
		plural, _, _ := strings.Cut(name, ".")
		return slices.Contains(passing, plural)
	})
	text, err := in.Kubectl("", "get", strings.Join(resources, ","), "-A", "-o", "json")
	if err != nil {
		return err
	}
	var list unstructured.UnstructuredList
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return err
	}
	named := regexp.MustCompile(`\b` + peer + `\b`)
	var errs []error
	for i := range list.Items {
		obj := &list.Items[i]
		delete(obj.Object, "status")
		obj.SetManagedFields(nil)
		body, err := json.Marshal(obj)
		if err != nil {
			return err
		}
		if found := named.FindIndex(body); found != nil {
			errs = append(errs, fmt.Errorf("%s %s/%s of %s: …%s…", obj.GetKind(), obj.GetNamespace(), obj.GetName(), in.ID, body[max(0, found[0]-60):min(len(body), found[1]+60)]))
		}
	}
	return errors.Join(errs...)
}
