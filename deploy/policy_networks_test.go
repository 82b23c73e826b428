// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// A peer reports its networks, and nothing else of any Configuration here.
func TestNetworksPolicy(t *testing.T) {
	c := install(t)
	ns := tenantNamespace(t, c, "milan")
	unmarked := testkit.Namespace(t, c, "unmarked", map[string]string{names.RemoteClusterID: "milan"})
	peer := clientOf(t, c.User(t, "peer-networks"))
	merge := func(body string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(body)) }
	configuration := func(namespace, name, cluster string) *networkingv1beta1.Configuration {
		return &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{names.RemoteClusterID: cluster}}}
	}
	for _, namespace := range []string{ns, unmarked} {
		bind(t, c, namespace, names.RoleRemoteControlPlane, "peer-networks")
		rights(t, func() error {
			return peer.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "x"}, &networkingv1beta1.Configuration{})
		})
		for name, cluster := range map[string]string{"mine": "milan", "other": "rome"} {
			cfg := configuration(namespace, name, cluster)
			testkit.Create(t, c.Client, cfg)
			status := `{"status":{"remote":{"cidr":{"pod":["10.71.0.0/16"]}},"agreedRemote":{"cidr":{"pod":["10.1.0.0/16"]}},"reportedRemote":{"cidr":{"pod":["10.1.0.0/16"]}}}}`
			if err := c.Client.Status().Patch(t.Context(), cfg, merge(status)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const only = "only change status.reportedRemote"
	dry := &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}}
	testkit.Eventually(t, 3*time.Minute, func() error { // the policy is enforced once it refuses something
		return refused(peer.Status().Patch(t.Context(), configuration(ns, "mine", ""), merge(`{"status":{"remote":null}}`), dry), only)
	})
	report := func(n int) string {
		pods := make([]string, n)
		for i := range pods {
			pods[i] = fmt.Sprintf(`"10.%d.0.0/16"`, i)
		}
		return `{"status":{"reportedRemote":{"cidr":{"pod":[` + strings.Join(pods, ",") + `]}}}}`
	}
	for name, tc := range map[string]struct {
		user                        client.Client
		namespace, name, body, want string
	}{
		"networks":          {peer, ns, "mine", report(2), ""},
		"many":              {peer, ns, "mine", report(16), ""},
		"too_many":          {peer, ns, "mine", report(17), "at most 16"},
		"none":              {peer, ns, "mine", `{"status":{"reportedRemote":null}}`, ""},
		"local_prefixes":    {peer, ns, "mine", `{"status":{"remote":{"cidr":{"pod":["10.200.0.0/16"]}}}}`, only},
		"agreement":         {peer, ns, "mine", `{"status":{"agreedRemote":null}}`, only},
		"conditions":        {peer, ns, "mine", `{"status":{"conditions":[{"type":"X","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, only},
		"of_other_cluster":  {peer, ns, "other", report(1), "Configuration of its own"},
		"no_tenant":         {peer, unmarked, "mine", report(1), "tenant namespace"},
		"administrator":     {c.Client, ns, "mine", `{"status":{"remote":null}}`, ""},
		"spec_via_status":   {peer, ns, "mine", `{"spec":{"remote":{"cidr":{"pod":["10.9.0.0/16"]}}}}`, ""}, // the subresource ignores it
		"labels_via_status": {peer, ns, "mine", `{"metadata":{"labels":{"liqo.io/remote-cluster-id":"rome"}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, tc.user.Status().Patch(t.Context(), configuration(tc.namespace, tc.name, ""), merge(tc.body), dry), tc.want)
		})
	}
	mine := configuration(ns, "mine", "")
	for what, err := range map[string]error{
		"cannot patch resource \"configurations\"":  peer.Patch(t.Context(), mine.DeepCopy(), merge(`{"spec":{"remote":{"cidr":{"pod":["10.9.0.0/16"]}}}}`), client.DryRunAll),
		"cannot delete resource \"configurations\"": peer.Delete(t.Context(), mine.DeepCopy(), client.DryRunAll),
		"cannot create resource \"configurations\"": peer.Create(t.Context(), configuration(ns, "new", "milan"), client.DryRunAll),
	} {
		expect(t, err, what)
	}
}
