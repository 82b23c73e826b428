// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/testkit"
)

// runOtherProcesses is what the other processes do meanwhile: the provider answers what is asked of it, unless it is dead, and the
// virtual kubelet ends the pods of its node.
func runOtherProcesses(t *testing.T, c *testkit.ControlPlane, vn *offv1beta1.VirtualNode, dead bool) error {
	t.Helper()
	pods := &corev1.PodList{}
	if err := c.Client.List(t.Context(), pods, client.MatchingFields{"spec.nodeName": vn.Name}); err != nil {
		return err
	}
	for i := range pods.Items {
		if !dead && pods.Items[i].DeletionTimestamp != nil {
			if err := c.Client.Delete(t.Context(), &pods.Items[i], client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	nm := mapOf(vn)
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(nm), nm); err != nil || dead {
		return client.IgnoreNotFound(err)
	}
	before := nm.DeepCopy()
	nm.Status.CurrentMapping = map[string]offv1beta1.RemoteNamespaceStatus{}
	for local, remote := range nm.Spec.DesiredMapping {
		nm.Status.CurrentMapping[local] = offv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: offv1beta1.MappingAccepted}
	}
	return client.IgnoreNotFound(c.Client.Status().Patch(t.Context(), nm, client.MergeFrom(before)))
}

// remains tells which of the objects are still there, nil if none.
func remains(t *testing.T, c *testkit.ControlPlane, objects []client.Object) error {
	t.Helper()
	var errs []error
	for _, obj := range objects {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("%T %s is still there, held by %v (%v)", obj, obj.GetName(), obj.GetFinalizers(), err))
		}
	}
	return errors.Join(errs...)
}

func TestDeletionOrder(t *testing.T) {
	c := consumerCluster(t, "namespace-controller")
	for seed := range uint64(20) {
		id, dead := fmt.Sprintf("order%d", seed), seed%5 == 4
		vn := provide(t, c, id, id+"-1", "")
		nso := extend(t, c, func(s *offv1beta1.NamespaceOffloadingSpec) { s.ClusterSelector = choosing("name:" + vn.Name) })
		desires(t, c, vn, nso.Namespace, nso.Namespace+"-home")
		testkit.Eventually(t, patience, func() error { return runOtherProcesses(t, c, vn, false) })
		phaseIs(t, c, nso, offv1beta1.ReadyOffloadingPhaseType)
		node := run(t, c, vn)
		condition(t, c, vn, running, running)
		pod := podOn(t, c, nso.Namespace, "web", node.Name, func(*corev1.Pod) {})
		steps := []client.Object{
			vn, nso, mapOf(vn),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: nso.Namespace}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: vn.Namespace, Name: "kubeconfig-" + vn.Name}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: vn.Namespace}},
		}
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		var order []string
		for _, obj := range steps {
			order = append(order, strings.TrimPrefix(fmt.Sprintf("%T", obj), "*")+" "+obj.GetName())
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			t.Logf("order: %s; provider dead: %v", strings.Join(order, ", "), dead)
			if dead {
				giveUp(t, c, id)
			}
			for _, obj := range steps {
				if err := c.Client.Delete(t.Context(), obj); client.IgnoreNotFound(err) != nil {
					t.Fatal(err)
				}
				if err := runOtherProcesses(t, c, vn, dead); err != nil {
					t.Fatal(err)
				}
			}
			remaining := append(steps, node, pod, clusterRoleBinding(vn))
			testkit.Eventually(t, 5*patience, func() error { return errors.Join(runOtherProcesses(t, c, vn, dead), remains(t, c, remaining)) })
		})
	}
}

func TestProviderChanges(t *testing.T) {
	c := consumerCluster(t)
	first := provide(t, c, "athens", "athens-1", "tier=gold")
	other := provide(t, c, "berlin", "berlin-1", "tier=silver")
	nso := extend(t, c, func(s *offv1beta1.NamespaceOffloadingSpec) { s.ClusterSelector = choosing("tier=gold") })
	remoteNamespace := nso.Namespace + "-home"
	ready := func(t *testing.T, want ...string) {
		t.Helper()
		eventually(t, c, nso, func() error {
			for _, vn := range []*offv1beta1.VirtualNode{first, other} {
				if err := runOtherProcesses(t, c, vn, false); err != nil {
					return err
				}
			}
			var got []string
			for _, id := range []string{"athens", "berlin", "cairo"} {
				for _, condition := range nso.Status.RemoteNamespacesConditions[id] {
					if condition.Type == offv1beta1.NamespaceReady && condition.Status == corev1.ConditionTrue {
						got = append(got, id)
					}
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Errorf("ready in %v, want %v", got, want)
			}
			return nil
		})
	}
	relabel := func(t *testing.T, vn *offv1beta1.VirtualNode, tier string) {
		t.Helper()
		eventually(t, c, vn, func() error {
			before := vn.DeepCopy()
			vn.Spec.Labels = map[string]string{"tier": tier}
			return c.Client.Patch(t.Context(), vn, client.MergeFrom(before))
		})
	}
	ready(t, "athens")
	t.Run("one whose label changes", func(t *testing.T) {
		relabel(t, other, "gold")
		ready(t, "athens", "berlin")
	})
	t.Run("one of two nodes of a provider", func(t *testing.T) {
		second := provide(t, c, "berlin", "berlin-2", "tier=gold")
		exists(t, c, roleBinding(second, nso.Namespace, ""))
		relabel(t, other, "silver")
		phaseIs(t, c, nso, offv1beta1.ReadyOffloadingPhaseType)
		ready(t, "athens", "berlin")
		relabel(t, second, "silver")
		ready(t, "athens")
	})
	t.Run("one that goes", func(t *testing.T) {
		relabel(t, other, "gold")
		ready(t, "athens", "berlin")
		if err := c.Client.Delete(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		waitUntilDeleted(t, c, first)
		ready(t, "berlin")
		eventually(t, c, nso, func() error {
			if left, still := nso.Status.RemoteNamespacesConditions["athens"]; still {
				return fmt.Errorf("the status still speaks of it: %v", left)
			}
			return nil
		})
	})
	t.Run("one that comes", func(t *testing.T) {
		third := provide(t, c, "cairo", "cairo-1", "tier=gold")
		desires(t, c, third, nso.Namespace, remoteNamespace)
		answer(t, c, third, nso.Namespace, remoteNamespace, offv1beta1.MappingAccepted)
		ready(t, "berlin", "cairo")
	})
	t.Run("no writes without changes", func(t *testing.T) {
		exists(t, c, nso)
		version := nso.ResourceVersion
		node := run(t, c, other)
		for i := range 5 {
			eventually(t, c, node, func() error {
				before := node.DeepCopy()
				node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Message: fmt.Sprint(i)}}
				return c.Client.Status().Patch(t.Context(), node, client.MergeFrom(before))
			})
		}
		eventually(t, c, node, func() error {
			before := node.DeepCopy()
			node.Labels["beat"] = "1"
			return c.Client.Patch(t.Context(), node, client.MergeFrom(before))
		})
		fence := extend(t, c, func(s *offv1beta1.NamespaceOffloadingSpec) { s.ClusterSelector = choosing("beat=1") })
		desires(t, c, other, fence.Namespace, fence.Namespace+"-home") // the events of the Node have been handled
		exists(t, c, nso)
		if nso.ResourceVersion != version {
			t.Errorf("version %s, then %s", version, nso.ResourceVersion)
		}
	})
}
