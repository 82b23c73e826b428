// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"errors"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// A provider that writes a namespace into its status that was never offloaded to it gets no rights in that namespace.
func TestHostileMapping(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "siena", "siena-1", "")
	victim := extend(t, c, func(s *offv1beta1.NamespaceOffloadingSpec) { s.ClusterSelector = choosing("name:somebody-else") })
	phaseIs(t, c, victim, offv1beta1.NoClusterSelectedOffloadingPhaseType)
	nm := mapOf(vn)
	exists(t, c, nm)
	patch := func(to client.SubResourceWriter, text string) error {
		return to.Patch(t.Context(), nm, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, text, victim.Namespace)))
	}
	said := `{"status":{"currentMapping":{%q:{"remoteNamespace":"loot","phase":"Accepted"}}}}`
	t.Run("refused_by_the_kind", func(t *testing.T) {
		if err := patch(c.Client.Status(), said); !apierrors.IsInvalid(err) {
			t.Fatalf("the status was written: %v", err)
		}
	})
	t.Run("no_rights", func(t *testing.T) {
		answerUnasked(t, c, vn, victim.Namespace, "loot") // as one that an earlier version let in
		eventually(t, c, victim, func() error {
			if len(victim.Status.RemoteNamespacesConditions[nm.Name]) < 2 {
				return errors.New("what the provider says was not seen yet")
			}
			return nil
		})
		desires(t, c, vn, victim.Namespace, "")
		bindings := &rbacv1.RoleBindingList{}
		if err := c.Client.List(t.Context(), bindings, client.InNamespace(victim.Namespace), client.HasLabels{names.VirtualNode}); err != nil {
			t.Fatal(err)
		}
		for i := range bindings.Items {
			t.Errorf("the RoleBinding %s was made", bindings.Items[i].Name)
		}
	})
	t.Run("writable_while_it_shrinks", func(t *testing.T) {
		if err := patch(c.Client.Status(), `{"status":{"currentMapping":{%q:{"phase":"Terminating"}}}}`); err != nil {
			t.Error(err)
		}
		if err := patch(c.Client.Status(), `{"status":{"currentMapping":{%q:null}}}`); err != nil {
			t.Error(err)
		}
	})
}
