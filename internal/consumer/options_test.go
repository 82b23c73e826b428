// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestVirtualNodeInvalidOptions(t *testing.T) {
	c := testkit.NthCluster(t, consumerClusters) // in a home it would be one more provider
	liqo := testkit.Namespace(t, c, "installation", nil)
	template := options()
	template.Namespace, template.Name = liqo, names.VkOptionsTemplate
	create(t, c, template)
	testkit.Manager(t, c.Config, kube.ManagerOptions{Name: "options"}, func(mgr ctrl.Manager) error {
		return SetupVirtualNodes(mgr, VirtualNodeOptions{ClusterID: "home", LiqoNamespace: liqo, CheckArguments: func(args []string) error {
			if slices.Contains(args, "--wrong=1") {
				return errors.New("unknown flag: --wrong")
			}
			return nil
		}})
	})
	tenant := testkit.Namespace(t, c, "tenant", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: "cl-options"})
	vn := &offv1beta1.VirtualNode{}
	manifest := "{metadata: {name: bad}, spec: {clusterID: cl-options, createNode: false, template: {spec: {template: {spec: {containers: [{args: [--wrong=1]}]}}}}}}"
	if err := yaml.UnmarshalStrict([]byte(manifest), vn); err != nil {
		t.Fatal(err)
	}
	vn.Namespace = tenant
	create(t, c, vn)
	testkit.Eventually(t, patience, func() error {
		list := &eventsv1.EventList{}
		if err := c.Client.List(t.Context(), list); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Regarding.UID != vn.UID {
				continue
			}
			if want := "Warning InvalidOptions: a virtual kubelet would not start with its options and arguments: unknown flag: --wrong"; e.Type+" "+e.Reason+": "+e.Note != want {
				t.Errorf("told %s %s: %s", e.Type, e.Reason, e.Note)
			}
			return nil
		}
		return fmt.Errorf("nothing is said of it")
	})
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(kubeletOf(vn)), kubeletOf(vn)); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("a virtual kubelet is made all the same: %v", err)
	}
}
