// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const patience = 5 * time.Minute

// consumerClusters is in how many clusters tests run at the same time: most of the time they wait for pauses between evictions.
const consumerClusters = 2

// consumerCluster is a cluster that no other test has, with our controllers and one installation of options. Where Kubernetes runs more controllers
// than those that delete what belongs to nobody, it is another one.
func consumerCluster(t *testing.T, more ...string) *testkit.ControlPlane {
	t.Helper()
	t.Parallel()
	n := consumerClusters
	if len(more) == 0 {
		n = testkit.Turn(t, "home", consumerClusters)
	} else {
		testkit.Turn(t, "home with controllers", 1)
	}
	c := testkit.NthCluster(t, n, testkit.WithControllers(append(more, "garbage-collector-controller")...))
	liqo := testkit.Namespace(t, c, "installation", nil)
	template := options()
	template.Namespace, template.Name = liqo, names.VkOptionsTemplate
	if err := c.Client.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	testkit.Manager(t, c.Config, kube.ManagerOptions{Name: "offload"}, func(mgr ctrl.Manager) error {
		return errors.Join(
			SetupNamespaceOffloadings(mgr, NamespaceOffloadingOptions{ClusterID: "home", LiqoNamespace: liqo}),
			SetupVirtualNodes(mgr, VirtualNodeOptions{ClusterID: "home", LiqoNamespace: liqo}),
		)
	})
	return c
}

// providers maps the ID of each provider to its test: what one test leaves of a provider would count in another.
var providers sync.Map

// provide makes a peering with a provider and one virtual node of it.
func provide(t *testing.T, c *testkit.ControlPlane, id, node, labels string) *offv1beta1.VirtualNode {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	if other, taken := providers.LoadOrStore(id, test); taken && other != test {
		t.Fatalf("the provider %q is also in %s, in the same API server", id, other)
	}
	list := &corev1.NamespaceList{}
	if err := c.Client.List(t.Context(), list, client.MatchingLabels{names.RemoteClusterID: id}); err != nil {
		t.Fatal(err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(ns corev1.Namespace) bool { return ns.DeletionTimestamp != nil }) // of another test, or an earlier run
	var tenant string
	if len(list.Items) == 0 {
		tenant = testkit.Namespace(t, c, "peering-"+id, map[string]string{names.RemoteClusterID: id, names.TenantNamespace: "true"})
		fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: liqov1beta1.ClusterID(id)}}
		if err := c.Client.Create(t.Context(), fc); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Client.Delete(context.Background(), fc) })
	} else {
		tenant = list.Items[0].Name
	}
	vn := vnode(node, id, labels)
	vn.Namespace = tenant
	vn.Spec.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "kubeconfig-" + node}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "kubeconfig-" + node}}
	for _, obj := range []client.Object{secret, &vn} {
		if err := c.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	return &vn
}

func extend(t *testing.T, c *testkit.ControlPlane, change func(*offv1beta1.NamespaceOffloadingSpec)) *offv1beta1.NamespaceOffloading {
	t.Helper()
	nso := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace(t, c, "demo", nil), Name: names.NamespaceOffloading}}
	change(&nso.Spec)
	if err := c.Client.Create(t.Context(), nso); err != nil {
		t.Fatal(err)
	}
	return nso
}

func eventually(t *testing.T, c *testkit.ControlPlane, obj client.Object, check func() error) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		return check()
	})
}

func exists(t *testing.T, c *testkit.ControlPlane, obj client.Object) {
	t.Helper()
	eventually(t, c, obj, func() error { return nil })
}

func waitUntilDeleted(t *testing.T, c *testkit.ControlPlane, obj client.Object) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%T %s is still there (%v)", obj, obj.GetName(), err)
		}
		return nil
	})
}

func mapOf(vn *offv1beta1.VirtualNode) *offv1beta1.NamespaceMap {
	return &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: vn.Namespace, Name: string(vn.Spec.ClusterID)}}
}

func desires(t *testing.T, c *testkit.ControlPlane, vn *offv1beta1.VirtualNode, namespace, remote string) {
	t.Helper()
	nm := mapOf(vn)
	eventually(t, c, nm, func() error {
		if got := nm.Spec.DesiredMapping[namespace]; got != remote {
			return fmt.Errorf("desired is %q, want %q", got, remote)
		}
		return nil
	})
}

// answer plays the provider; no phase is the end of the twin.
func answer(t *testing.T, c *testkit.ControlPlane, vn *offv1beta1.VirtualNode, namespace, remote string, phase offv1beta1.MappingPhase) {
	t.Helper()
	nm := mapOf(vn)
	eventually(t, c, nm, func() error {
		before := nm.DeepCopy()
		if nm.Status.CurrentMapping == nil {
			nm.Status.CurrentMapping = map[string]offv1beta1.RemoteNamespaceStatus{}
		}
		nm.Status.CurrentMapping[namespace] = offv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: phase}
		if phase == "" {
			delete(nm.Status.CurrentMapping, namespace)
		}
		return c.Client.Status().Patch(t.Context(), nm, client.MergeFrom(before))
	})
}

// answerUnasked plays a provider that has a twin of a namespace that is not offloaded to it: it was asked for for a moment.
func answerUnasked(t *testing.T, c *testkit.ControlPlane, vn *offv1beta1.VirtualNode, namespace, remote string) {
	t.Helper()
	nm := mapOf(vn)
	eventually(t, c, nm, func() error {
		asked := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"desiredMapping":{%q:%q}}}`, namespace, remote))
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"currentMapping":{%q:{"remoteNamespace":%q,"phase":"Accepted"}}}}`, namespace, remote))
		return errors.Join(c.Client.Patch(t.Context(), nm, asked), c.Client.Status().Patch(t.Context(), nm, patch))
	})
}

func phaseIs(t *testing.T, c *testkit.ControlPlane, nso *offv1beta1.NamespaceOffloading, want offv1beta1.OffloadingPhaseType) {
	t.Helper()
	eventually(t, c, nso, func() error {
		if nso.Status.OffloadingPhase != want || nso.Status.ObservedGeneration != nso.Generation {
			return fmt.Errorf("phase %s of generation %d, want %s", nso.Status.OffloadingPhase, nso.Status.ObservedGeneration, want)
		}
		return nil
	})
}

func TestNamespaceOffloading(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "milan", "milan-1", "region=eu")
	other := provide(t, c, "rome", "rome-1", "region=us")
	nso := extend(t, c, func(s *offv1beta1.NamespaceOffloadingSpec) { s.ClusterSelector = choosing("region=eu") })
	remoteNamespace := nso.Namespace + "-home"
	binding := roleBinding(vn, nso.Namespace, "")

	desires(t, c, vn, nso.Namespace, remoteNamespace)
	desires(t, c, other, nso.Namespace, "")
	phaseIs(t, c, nso, offv1beta1.InProgressOffloadingPhaseType)
	exists(t, c, binding)
	if binding.RoleRef.Name != names.RoleVirtualKubeletNamespace || binding.Subjects[0].Namespace != vn.Namespace {
		t.Errorf("binding = %+v", binding)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: nso.Namespace}}
	eventually(t, c, namespace, func() error {
		if namespace.Labels[names.SchedulingEnabled] != "true" {
			return fmt.Errorf("labels = %v", namespace.Labels)
		}
		return nil
	})
	answer(t, c, vn, nso.Namespace, remoteNamespace, offv1beta1.MappingAccepted)
	phaseIs(t, c, nso, offv1beta1.ReadyOffloadingPhaseType)

	t.Run("what somebody removed comes back", func(t *testing.T) {
		if err := c.Client.Delete(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
		exists(t, c, roleBinding(vn, nso.Namespace, ""))
		before := namespace.DeepCopy()
		delete(namespace.Labels, names.SchedulingEnabled)
		if err := c.Client.Patch(t.Context(), namespace, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		eventually(t, c, namespace, func() error {
			if namespace.Labels[names.SchedulingEnabled] != "true" {
				return errors.New("still without the label")
			}
			return nil
		})
	})
	t.Run("second matching node of provider", func(t *testing.T) {
		second := provide(t, c, "rome", "rome-2", "region=eu")
		desires(t, c, second, nso.Namespace, remoteNamespace)
		exists(t, c, roleBinding(other, nso.Namespace, ""))
		answer(t, c, second, nso.Namespace, remoteNamespace, offv1beta1.MappingCreationLoopBackOff)
		phaseIs(t, c, nso, offv1beta1.SomeFailedOffloadingPhaseType)
	})
	t.Run("the reason of the provider is told", func(t *testing.T) {
		nm := mapOf(other)
		eventually(t, c, nm, func() error {
			before := nm.DeepCopy()
			refused := nm.Status.CurrentMapping[nso.Namespace]
			refused.Reason, refused.Message = offv1beta1.MappingLimitReached, "no more than 1 namespaces"
			nm.Status.CurrentMapping[nso.Namespace] = refused
			return c.Client.Status().Patch(t.Context(), nm, client.MergeFrom(before))
		})
		eventually(t, c, nso, func() error {
			for _, c := range nso.Status.RemoteNamespacesConditions["rome"] {
				if c.Type == offv1beta1.NamespaceReady && strings.HasSuffix(c.Message, ": no more than 1 namespaces") {
					return nil
				}
			}
			return fmt.Errorf("conditions = %+v", nso.Status.RemoteNamespacesConditions)
		})
		testkit.Eventually(t, patience, func() error {
			list := &eventsv1.EventList{}
			if err := c.Client.List(t.Context(), list, client.InNamespace(nso.Namespace)); err != nil {
				return err
			}
			for _, e := range list.Items {
				if e.Regarding.Name == nso.Name && e.Reason == "CreationLoopBackOff" && strings.Contains(e.Note, "Cluster rome: ") && strings.Contains(e.Note, "no more than 1 namespaces") {
					return nil
				}
			}
			return fmt.Errorf("none of %d events says why", len(list.Items))
		})
	})
	t.Run("the selector may change", func(t *testing.T) {
		before := nso.DeepCopy()
		nso.Spec.ClusterSelector = choosing("name:milan-1")
		nso.Spec.PodOffloadingStrategy = offv1beta1.LocalPodOffloadingStrategyType
		if err := c.Client.Patch(t.Context(), nso, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		desires(t, c, other, nso.Namespace, "")
		answer(t, c, other, nso.Namespace, "", "")
		phaseIs(t, c, nso, offv1beta1.ReadyOffloadingPhaseType)
		waitUntilDeleted(t, c, roleBinding(other, nso.Namespace, ""))
		eventually(t, c, namespace, func() error {
			if _, open := namespace.Labels[names.SchedulingEnabled]; open {
				return errors.New("a local namespace is open to the webhook")
			}
			return nil
		})
	})
	t.Run("the end waits for the provider", func(t *testing.T) {
		if err := c.Client.Delete(t.Context(), nso); err != nil {
			t.Fatal(err)
		}
		phaseIs(t, c, nso, offv1beta1.TerminatingOffloadingPhaseType)
		desires(t, c, vn, nso.Namespace, "")
		exists(t, c, roleBinding(vn, nso.Namespace, ""))
		answer(t, c, vn, nso.Namespace, "", "")
		waitUntilDeleted(t, c, nso)
		waitUntilDeleted(t, c, roleBinding(vn, nso.Namespace, ""))
	})
}

func TestNamespaceOffloadingLostProvider(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "lost", "lost-1", "")
	nso := extend(t, c, func(s *offv1beta1.NamespaceOffloadingSpec) { s.ClusterSelector = choosing("name:lost-1") })
	remoteNamespace := nso.Namespace + "-home"
	desires(t, c, vn, nso.Namespace, remoteNamespace)
	answer(t, c, vn, nso.Namespace, remoteNamespace, offv1beta1.MappingAccepted)
	if err := c.Client.Delete(t.Context(), nso); err != nil {
		t.Fatal(err)
	}
	phaseIs(t, c, nso, offv1beta1.TerminatingOffloadingPhaseType)
	giveUp(t, c, "lost")
	waitUntilDeleted(t, c, nso)
}

func TestNamespaceOffloadingMissingForeignCluster(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "unnamed", "unnamed-1", "")
	nso := extend(t, c, func(s *offv1beta1.NamespaceOffloadingSpec) { s.ClusterSelector = choosing("name:unnamed-1") })
	remoteNamespace := nso.Namespace + "-home"
	desires(t, c, vn, nso.Namespace, remoteNamespace)
	answer(t, c, vn, nso.Namespace, remoteNamespace, offv1beta1.MappingAccepted)
	node := run(t, c, vn)
	condition(t, c, vn, running, running)
	pod := podOn(t, c, nso.Namespace, "web", node.Name, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(60)) })
	fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "unnamed"}}
	if err := c.Client.Delete(t.Context(), fc); err != nil {
		t.Fatal(err)
	}
	waitUntilDeleted(t, c, fc)
	for _, obj := range []client.Object{nso, vn} {
		if err := c.Client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, c, pod, func() error {
		if pod.DeletionTimestamp == nil {
			return errors.New("not evicted")
		}
		return nil
	})
	if grace := pod.DeletionGracePeriodSeconds; grace == nil || *grace != 60 {
		t.Errorf("the pod was given %v seconds to end", grace)
	}
	phaseIs(t, c, nso, offv1beta1.TerminatingOffloadingPhaseType)
	exists(t, c, roleBinding(vn, nso.Namespace, ""))
	// The end comes without it, too: the virtual node goes once its pods have ended, and its map with it.
	terminated(t, c, pod)
	waitUntilDeleted(t, c, vn)
	waitUntilDeleted(t, c, nso)
}

func giveUp(t *testing.T, c *testkit.ControlPlane, id string) {
	t.Helper()
	fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: id}}
	eventually(t, c, fc, func() error {
		before := fc.DeepCopy()
		fc.Annotations = map[string]string{names.PermanentlyUnreachable: "true"}
		return c.Client.Patch(t.Context(), fc, client.MergeFrom(before))
	})
}

func condition(t *testing.T, c *testkit.ControlPlane, vn *offv1beta1.VirtualNode, kubelet, node conditionStatus) {
	t.Helper()
	eventually(t, c, vn, func() error {
		if k, n := statusOf(vn, kubeletCondition), statusOf(vn, nodeCondition); k != kubelet || n != node || len(vn.Status.Conditions) > 2 {
			return fmt.Errorf("kubelet %s, node %s (%d conditions), want %s and %s", k, n, len(vn.Status.Conditions), kubelet, node)
		}
		return nil
	})
}

func kubeletOf(vn *offv1beta1.VirtualNode) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: vn.Namespace, Name: names.VirtualKubelet(vn.Name)}}
}

// run plays the cluster: the Deployment has a pod, and the virtual kubelet has made its Node.
func run(t *testing.T, c *testkit.ControlPlane, vn *offv1beta1.VirtualNode) *corev1.Node {
	t.Helper()
	d := kubeletOf(vn)
	eventually(t, c, d, func() error {
		before := d.DeepCopy()
		d.Status.Replicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = 1, 1, 1
		return c.Client.Status().Patch(t.Context(), d, client.MergeFrom(before))
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: vn.Name, Labels: map[string]string{
		names.NodeType: names.NodeTypeVirtualNode, names.RemoteClusterID: string(vn.Spec.ClusterID),
	}}}
	if err := c.Client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), node) })
	return node
}

func podOn(t *testing.T, c *testkit.ControlPlane, namespace, name, node string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name, names.ShadowPod: "true"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
	}
	change(pod)
	if err := c.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	// Disruption budgets protect only pods that run.
	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := c.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestVirtualNode(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "turin", "turin-1", "")
	condition(t, c, vn, creating, creating)
	d := kubeletOf(vn)
	exists(t, c, d)
	exists(t, c, serviceAccount(vn))
	exists(t, c, clusterRoleBinding(vn))
	exists(t, c, tenantBinding(vn))
	nm := mapOf(vn)
	exists(t, c, nm)
	if nm.Labels[names.Replication] != "true" || nm.Labels[names.ReplicationDestination] != "turin" {
		t.Errorf("labels of the NamespaceMap = %v", nm.Labels)
	}
	if len(d.OwnerReferences) > 0 {
		t.Error("the virtual kubelet would go before its pods are drained")
	}
	run(t, c, vn)
	condition(t, c, vn, running, running)

	t.Run("a new image reaches it", func(t *testing.T) {
		all := &offv1beta1.VkOptionsTemplateList{}
		if err := c.Client.List(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all.Items, func(x offv1beta1.VkOptionsTemplate) bool {
			return slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--liqo-namespace="+x.Namespace)
		})
		template := &all.Items[i]
		before := template.DeepCopy()
		template.Spec.ContainerImage = "liqo:next"
		template.Spec.ExtraLabels = nil
		if err := c.Client.Patch(t.Context(), template, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		eventually(t, c, d, func() error {
			if image := d.Spec.Template.Spec.Containers[0].Image; image != "liqo:next" || d.Labels["team"] != "" {
				return fmt.Errorf("image %s, labels %v", image, d.Labels)
			}
			return nil
		})
		condition(t, c, vn, running, running)
	})
	t.Run("a new class reaches it", func(t *testing.T) {
		eventually(t, c, vn, func() error {
			before := vn.DeepCopy()
			vn.Spec.StorageClasses = []liqov1beta1.StorageType{{StorageClassName: "fast"}}
			return c.Client.Patch(t.Context(), vn, client.MergeFrom(before))
		})
		eventually(t, c, d, func() error {
			if args := d.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--remote-real-storage-class-name=fast") {
				return fmt.Errorf("arguments = %v", args)
			}
			return nil
		})
		condition(t, c, vn, running, running)
	})
	t.Run("what somebody removed comes back", func(t *testing.T) {
		for _, obj := range []client.Object{kubeletOf(vn), clusterRoleBinding(vn), mapOf(vn)} {
			if err := c.Client.Delete(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, patience, func() error { return c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj) })
		}
	})
	t.Run("no writes without changes", func(t *testing.T) {
		exists(t, c, vn)
		exists(t, c, d)
		before := []string{vn.ResourceVersion, d.ResourceVersion}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: vn.Name}}
		eventually(t, c, node, func() error {
			patch := client.MergeFrom(node.DeepCopy())
			node.Labels["beat"] = "1"
			return c.Client.Patch(t.Context(), node, patch)
		})
		nso := extend(t, c, func(s *offv1beta1.NamespaceOffloadingSpec) { s.ClusterSelector = choosing("name:turin-1 beat=1") })
		desires(t, c, vn, nso.Namespace, nso.Namespace+"-home") // the event of the Node has been handled
		exists(t, c, vn)
		exists(t, c, d)
		if diff := []string{vn.ResourceVersion, d.ResourceVersion}; !slices.Equal(before, diff) {
			t.Errorf("versions %v, then %v", before, diff)
		}
	})
	t.Run("VirtualNode without Node keeps kubelet", func(t *testing.T) {
		exists(t, c, vn)
		before := vn.DeepCopy()
		vn.Spec.CreateNode = new(false)
		if err := c.Client.Patch(t.Context(), vn, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		waitUntilDeleted(t, c, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: vn.Name}})
		eventually(t, c, vn, func() error {
			if statusOf(vn, nodeCondition) != none {
				return fmt.Errorf("node %s", statusOf(vn, nodeCondition))
			}
			return nil
		})
		exists(t, c, kubeletOf(vn))
	})
}

// One that is not in the tenant namespace is looked at all the same when that is deleted, and when another one takes its place.
func TestVirtualNodeElsewhere(t *testing.T) {
	c := consumerCluster(t)
	id := testkit.UniqueID()
	tenant := func() string {
		return testkit.Namespace(t, c, "peering", map[string]string{names.RemoteClusterID: id, names.TenantNamespace: "true"})
	}
	first := tenant()
	vn := vnode("elsewhere", id, "")
	vn.Namespace = testkit.Namespace(t, c, "elsewhere", map[string]string{names.AllowVirtualNodes: "true"})
	testkit.Create(t, c.Client, &vn)
	exists(t, c, &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: first, Name: id}})
	exists(t, c, kubeletOf(&vn)) // which is made last
	condition(t, c, &vn, creating, creating)
	// Nobody empties namespaces here: the first one stays, being deleted, with its NamespaceMap.
	if err := c.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: first}}); err != nil {
		t.Fatal(err)
	}
	exists(t, c, &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant(), Name: id}})
}

func TestVirtualNodeForeignNode(t *testing.T) {
	c := consumerCluster(t)
	worker := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}
	if err := c.Client.Create(t.Context(), worker); err != nil {
		t.Fatal(err)
	}
	pod := podOn(t, c, testkit.Namespace(t, c, "neighbour", nil), "web", worker.Name, func(*corev1.Pod) {})
	vn := provide(t, c, "pisa", "worker-1", "")
	condition(t, c, vn, creating, creating)
	if err := c.Client.Delete(t.Context(), vn); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func() error {
		exists(t, c, pod)
		if pod.DeletionTimestamp != nil {
			t.Fatal("a pod of a real node was evicted")
		}
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(vn), vn); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the VirtualNode is still there (%v)", err)
		}
		return nil
	})
	exists(t, c, worker)
	if worker.Spec.Unschedulable {
		t.Error("a real node was cordoned")
	}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(kubeletOf(vn)), &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
		t.Errorf("a virtual kubelet ran for a real node: %v", err)
	}
}

func TestVirtualNodeEditedLabels(t *testing.T) {
	for label, value := range map[string]any{names.NodeType: nil, names.RemoteClusterID: "lucca"} {
		t.Run(path.Base(label), func(t *testing.T) {
			c := consumerCluster(t)
			vn := provide(t, c, "ravenna-"+path.Base(label), "ravenna-"+path.Base(label), "")
			node := run(t, c, vn)
			pod := podOn(t, c, testkit.Namespace(t, c, "edited", nil), "web", vn.Name, func(*corev1.Pod) {})
			patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
				"labels": map[string]any{label: value}, "annotations": map[string]any{names.AppliedTaints: "[]"},
			}})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Client.Patch(t.Context(), node, client.RawPatch(types.MergePatchType, patch)); err != nil {
				t.Fatal(err)
			}
			if err := c.Client.Delete(t.Context(), vn); err != nil {
				t.Fatal(err)
			}
			terminated(t, c, pod)
			waitUntilDeleted(t, c, node)
			waitUntilDeleted(t, c, vn)
		})
	}
}

func TestVirtualNodeSameName(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "rimini", "twice", "")
	node := run(t, c, vn)
	before := node.DeepCopy()
	node.Annotations = map[string]string{names.AppliedTaints: "[]"}
	if err := c.Client.Patch(t.Context(), node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	other := provide(t, c, "urbino", "twice", "")
	condition(t, c, other, creating, creating)
	if err := c.Client.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	waitUntilDeleted(t, c, other)
	exists(t, c, node)
	if node.Spec.Unschedulable {
		t.Error("it was cordoned")
	}
}

func TestVirtualNodeForeignAccount(t *testing.T) {
	c := consumerCluster(t)
	vn := vnode("robot", "siena", "")
	vn.Namespace = testkit.Namespace(t, c, "peering-siena", map[string]string{names.RemoteClusterID: "siena", names.TenantNamespace: "true"})
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: vn.Namespace, Name: vn.Name, Labels: map[string]string{"team": "a"}}}
	for _, obj := range []client.Object{account, &vn} {
		if err := c.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	before := account.DeepCopy()
	testkit.Eventually(t, patience, func() error {
		list := &eventsv1.EventList{}
		if err := c.Client.List(t.Context(), list, client.InNamespace(vn.Namespace)); err != nil {
			return err
		}
		if !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool { return e.Reason == "ServiceAccountTaken" && e.Regarding.Name == vn.Name }) {
			return fmt.Errorf("no event says why the virtual node does not run (%d others)", len(list.Items))
		}
		return nil
	})
	for _, obj := range []client.Object{clusterRoleBinding(&vn), tenantRole(&vn), tenantBinding(&vn), kubeletOf(&vn)} {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			t.Errorf("there is a %T for somebody else's account (%v)", obj, err)
		}
	}
	if err := c.Client.Delete(t.Context(), &vn); err != nil {
		t.Fatal(err)
	}
	waitUntilDeleted(t, c, &vn)
	exists(t, c, account)
	if diff := cmp.Diff(before, account); diff != "" {
		t.Error(diff)
	}
}

func TestNamespaceOffloadingCacheLag(t *testing.T) {
	c := testkit.NthCluster(t, consumerClusters)
	namespace := testkit.Namespace(t, c, "late", map[string]string{names.SchedulingEnabled: "true"})
	nm := &offv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace(t, c, "peering-late", map[string]string{names.AllowVirtualNodes: "true"}), Name: "late"},
		Spec:       offv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{namespace: "twin", "other": "stays"}},
	}
	nso := offloaded(namespace, offv1beta1.RemotePodOffloadingStrategyType)
	vn := vnode("late", "late", "")
	testkit.Create(t, c.Client, nm, nso, roleBinding(&vn, namespace, names.RoleVirtualKubeletNamespace))
	var late *namespaceOffloadings
	testkit.Manager(t, c.Config, kube.ManagerOptions{Name: "late"}, func(mgr ctrl.Manager) error {
		steering, err := newSteering(mgr, "liqo")
		if err != nil {
			return err
		}
		_, err = steering.waiting.GetInformer(t.Context(), &corev1.Pod{}, cache.BlockUntilSynced(false))
		late = &namespaceOffloadings{
			client: testkit.Unaware(c.Client, &offv1beta1.NamespaceMapList{}, &rbacv1.RoleBindingList{}), direct: c.Client, steering: steering, clusterID: "home",
		}
		return err
	})
	testkit.Eventually(t, patience, func() error { return late.Cleanup(t.Context(), nso) })
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(nm), nm); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"other": "stays"}, nm.Spec.DesiredMapping); diff != "" {
		t.Errorf("the mapping (-want +got):\n%s", diff)
	}
	waitUntilDeleted(t, c, roleBinding(&vn, namespace, names.RoleVirtualKubeletNamespace))
}
