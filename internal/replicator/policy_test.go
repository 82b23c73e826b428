// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"context"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

func as(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(cfg, client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// replica is what the replicator of the consumer would make in the provider.
func (p *peering) replica(name string) *unstructured.Unstructured {
	local := p.guideSlice(p.consumerTenant)
	local.SetName(name)
	out := clusterPair{local: "rome", peer: "milan"}.copyOf(local)
	out.SetNamespace(p.providerTenant)
	return out
}

func changed(obj *unstructured.Unstructured, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	change(obj)
	return obj
}

func setLabel(key, value string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		labels := u.GetLabels()
		labels[key] = value
		u.SetLabels(labels)
	}
}

// awaitPolicy waits until the API server enforces the policy, which it reads some time after it was made.
func (p *peering) awaitPolicy(c client.Client) {
	p.t.Helper()
	testkit.Eventually(p.t, limit, func() error {
		err := c.Create(p.t.Context(), changed(p.replica("probe"), setLabel("liqo.io/originID", "turin")), client.DryRunAll)
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "liqo-replicas") {
			return nil
		}
		return fmt.Errorf("the policy is not enforced yet: %v", err)
	})
	// The RoleBinding is seen as well once a good one passes.
	testkit.Eventually(p.t, limit, func() error { return c.Create(p.t.Context(), p.replica("probe"), client.DryRunAll) })
}

func TestReplicasPolicy(t *testing.T) {
	p := newPeering(t)
	p.bind(p.userName)
	peer := as(t, p.user)
	p.awaitPolicy(peer)

	// The provider's own object, and a replica with the provider's marks.
	own := p.guideSlice(p.providerTenant)
	own.SetName("own")
	replica := p.replica("there")
	replica.SetAnnotations(map[string]string{"liqo.io/cordon": "true"})
	replica.SetFinalizers([]string{"provider.example/held"})
	p.create(p.provider, own)
	if err := as(t, p.provider.Config).Create(t.Context(), replica); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.patchLate(replica, `{"metadata":{"finalizers":null}}`) })

	patch := func(name, body string) func() error {
		return func() error {
			obj := p.replica(name)
			return peer.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(body)))
		}
	}
	create := func(change func(*unstructured.Unstructured)) func() error {
		return func() error {
			return peer.Create(t.Context(), changed(p.replica("new"), change), client.DryRunAll)
		}
	}
	for _, c := range []struct {
		rule    string
		try     func() error
		allowed bool
	}{
		{"a replica of its own", create(func(*unstructured.Unstructured) {}), true},
		{"no replica", create(func(u *unstructured.Unstructured) { u.SetLabels(nil) }), false},
		{"the guide's slice, which is no replica", func() error {
			return peer.Create(t.Context(), p.guideSlice(p.providerTenant), client.DryRunAll)
		}, false},
		{"a replica that says it is none", create(setLabel("liqo.io/replicated", "false")), false},
		{"another origin", create(setLabel("liqo.io/originID", "turin")), false},
		{"for another cluster", create(setLabel("liqo.io/remote-cluster-id", "turin")), false},
		{"with a finalizer", create(func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"x.example/y"}) }), false},
		{"with an owner", create(func(u *unstructured.Unstructured) {
			u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "x", UID: "y"}})
		}), false},
		{"its spec", patch("there", `{"spec":{"resources":{"cpu":"7"}}}`), true},
		{"a user's label", patch("there", `{"metadata":{"labels":{"team":"blue"}}}`), true},
		{"a user's annotation", patch("there", `{"metadata":{"annotations":{"note":"x"}}}`), true},
		{"that it is a replica", patch("there", `{"metadata":{"labels":{"liqo.io/replicated":"false"}}}`), false},
		{"that label removed", patch("there", `{"metadata":{"labels":{"liqo.io/replicated":null}}}`), false},
		{"the origin", patch("there", `{"metadata":{"labels":{"liqo.io/originID":"turin"}}}`), false},
		{"whom it concerns", patch("there", `{"metadata":{"labels":{"liqo.io/remote-cluster-id":"turin"}}}`), false},
		{"another label of ours", patch("there", `{"metadata":{"labels":{"offloading.liqo.io/x":"y"}}}`), false},
		{"cordon removed", patch("there", `{"metadata":{"annotations":{"liqo.io/cordon":null}}}`), false},
		{"cordon changed", patch("there", `{"metadata":{"annotations":{"liqo.io/cordon":"false"}}}`), false},
		{"cordon of the tenant set", patch("there", `{"metadata":{"annotations":{"liqo.io/cordon-tenant":"false"}}}`), false},
		{"the provider's finalizer", patch("there", `{"metadata":{"finalizers":null}}`), false},
		{"the status", func() error {
			return peer.Status().Patch(t.Context(), p.replica("there"), client.RawPatch(types.MergePatchType, []byte(`{"status":{"resources":{"cpu":"1k"}}}`)))
		}, false},
		{"the provider's own object", patch("own", `{"spec":{"resources":{"cpu":"1"}}}`), false},
		{"the provider's own object made a replica", patch("own", `{"metadata":{"labels":{"liqo.io/replicated":"true","liqo.io/originID":"rome"}}}`), false},
		{"deleting the provider's own object", func() error { return peer.Delete(t.Context(), p.replica("own")) }, false},
		{"deleting all", func() error {
			return peer.DeleteAllOf(t.Context(), p.replica("own"), client.InNamespace(p.providerTenant))
		}, false},
		{"deleting its replica", func() error { return peer.Delete(t.Context(), p.replica("there")) }, true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			switch err := c.try(); {
			case c.allowed && err != nil:
				t.Errorf("a peer must be able to: %v", err)
			case !c.allowed && !apierrors.IsForbidden(err):
				t.Errorf("a peer must not be able to, got %v", err)
			}
		})
	}
}

func (p *peering) patchLate(obj client.Object, body string) {
	// The test's context is over when cleanups run.
	_ = p.provider.Client.Patch(context.Background(), obj, client.RawPatch(types.MergePatchType, []byte(body)))
}

func TestReplicasPolicyGuide(t *testing.T) {
	p := newPeering(t)
	installPeerRights(t, p.consumer)
	editors := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "slice-editor"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"authentication.liqo.io"}, Resources: []string{"resourceslices"},
		Verbs: []string{"create", "get", "list", "patch", "update", "delete"},
	}}}
	p.create(p.consumer, editors, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.consumerTenant, Name: "slice-editor"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "slice-editor"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "editor"}},
	})
	// The label of replicas is not for them, which also shows that the policy is enforced by now.
	testkit.Eventually(t, limit, func() error {
		forged := p.guideSlice(p.consumerTenant)
		forged.SetLabels(map[string]string{"liqo.io/replicated": "true"})
		if err := as(t, p.consumer.User(t, "editor")).Create(t.Context(), forged, client.DryRunAll); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "liqo-replicas") {
			return fmt.Errorf("an editor made a replica: %v", err)
		}
		return nil
	})
	for _, c := range []struct {
		who string
		cfg *rest.Config
	}{
		{"an administrator", p.consumer.User(t, "root", "system:masters")},
		{"a plain editor of the namespace", p.consumer.User(t, "editor")},
	} {
		t.Run(c.who, func(t *testing.T) {
			user := as(t, c.cfg)
			slice := p.guideSlice(p.consumerTenant)
			// The editor's RoleBinding may take a moment to count.
			testkit.Eventually(t, limit, func() error { return user.Create(t.Context(), slice) })
			if err := user.Patch(t.Context(), slice, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"liqo.io/remoteID":null}}}`))); err != nil {
				t.Errorf("editing: %v", err)
			}
			if err := user.Delete(t.Context(), slice); err != nil {
				t.Errorf("deleting: %v", err)
			}
		})
	}
}
