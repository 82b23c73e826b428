// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"fmt"
	"maps"
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

func gatewayClient(namespace, name, cluster string) *networkingv1beta1.GatewayClient {
	return &networkingv1beta1.GatewayClient{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{names.RemoteClusterID: cluster}}}
}

// A peer says where its server is, and nothing else of any gateway here.
func TestEndpointsPolicy(t *testing.T) {
	c := install(t)
	ns := tenantNamespace(t, c, "milan")
	unmarked := testkit.Namespace(t, c, "unmarked", map[string]string{names.RemoteClusterID: "milan"})
	peer := clientOf(t, c.User(t, "peer-endpoints"))
	merge := func(body string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(body)) }
	for _, namespace := range []string{ns, unmarked} {
		bind(t, c, namespace, names.RoleRemoteControlPlane, "peer-endpoints")
		rights(t, func() error {
			return peer.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "x"}, &networkingv1beta1.GatewayClient{})
		})
		for name, cluster := range map[string]string{"mine": "milan", "other": "rome"} {
			gw := gatewayClient(namespace, name, cluster)
			testkit.Create(t, c.Client, gw)
			patch := `{"status":{"clientRef":{"name":"c"},"secretRef":{"name":"s"},"internalEndpoint":{"ip":"10.0.0.9","node":"n"},"endpoint":{"addresses":["192.0.2.1"],"port":7},
				"conditions":[{"type":"Ready","status":"False","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
			if err := c.Client.Status().Patch(t.Context(), gw, merge(patch)); err != nil {
				t.Fatal(err)
			}
		}
	}
	at := func(addresses ...string) string {
		return fmt.Sprintf(`{"status":{"endpoint":{"addresses":["%s"]}}}`, strings.Join(addresses, `","`))
	}
	nodes := make([]string, 1000)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("node-%d.compute.internal", i)
	}
	const only, form = "only change status.endpoint", "at most 1000 addresses"
	dry := &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}}
	// The policy is enforced once it refuses something.
	testkit.Eventually(t, 3*time.Minute, func() error {
		return refused(peer.Status().Patch(t.Context(), gatewayClient(ns, "mine", ""), merge(`{"status":{"internalEndpoint":null}}`), dry), only)
	})
	for name, tc := range map[string]struct {
		user                  client.Client
		namespace, name, body string
		want                  string
	}{
		"where it is":                    {peer, ns, "mine", at("192.0.2.2", "fd00::1", "Rome.example", "host."), ""},
		"on many nodes":                  {peer, ns, "mine", at(nodes...), ""},
		"on too many":                    {peer, ns, "mine", at(append(nodes, "x")...), form},
		"at another port":                {peer, ns, "mine", `{"status":{"endpoint":{"port":65535,"protocol":"UDP"}}}`, ""},
		"at several":                     {peer, ns, "mine", `{"status":{"endpoint":{"port":null,"ports":[1,2]}}}`, ""},
		"at none":                        {peer, ns, "mine", `{"status":{"endpoint":{"port":0}}}`, form},
		"at one that is none":            {peer, ns, "mine", `{"status":{"endpoint":{"port":null,"ports":[1,65536]}}}`, form},
		"no more":                        {peer, ns, "mine", `{"status":{"endpoint":null}}`, ""},
		"two in one":                     {peer, ns, "mine", at("192.0.2.2,192.0.2.3"), form},
		"an argument":                    {peer, ns, "mine", at("--mode=server"), form},
		"a template":                     {peer, ns, "mine", at("$(POD_IP)"), form},
		"an empty one":                   {peer, ns, "mine", at(""), form},
		"a long one":                     {peer, ns, "mine", at(strings.Repeat("a", 254)), form},
		"where our gateway is":           {peer, ns, "mine", `{"status":{"internalEndpoint":{"ip":"10.0.0.1"}}}`, only},
		"that our gateway is nowhere":    {peer, ns, "mine", `{"status":{"internalEndpoint":null}}`, only},
		"both":                           {peer, ns, "mine", `{"status":{"endpoint":{"port":8},"internalEndpoint":{"ip":"10.0.0.1"}}}`, only},
		"keys":                           {peer, ns, "mine", `{"status":{"secretRef":{"name":"x"}}}`, only},
		"what was made":                  {peer, ns, "mine", `{"status":{"clientRef":null}}`, only},
		"that it is well":                {peer, ns, "mine", `{"status":{"conditions":[]}}`, only},
		"nothing at all":                 {peer, ns, "mine", `{"status":null}`, only},
		"for the client of another":      {peer, ns, "other", at("192.0.2.2"), "a GatewayClient that leads to it"},
		"in a namespace that is not its": {peer, unmarked, "mine", at("192.0.2.2"), "tenant namespace of its own"},
		"an administrator":               {c.Client, ns, "mine", `{"status":{"internalEndpoint":null,"endpoint":{"addresses":["a,b"]}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, tc.user.Status().Patch(t.Context(), gatewayClient(tc.namespace, tc.name, ""), merge(tc.body), dry), tc.want)
		})
	}

	// Beside the status it writes nothing, not even through it.
	mine := gatewayClient(ns, "mine", "")
	for what, err := range map[string]error{
		"cannot patch resource \"gatewayclients\"":         peer.Patch(t.Context(), mine.DeepCopy(), merge(`{"spec":{"endpoint":{"port":8}}}`), client.DryRunAll),
		"cannot delete resource \"gatewayclients\"":        peer.Delete(t.Context(), mine.DeepCopy(), client.DryRunAll),
		"cannot create resource \"gatewayclients\"":        peer.Create(t.Context(), gatewayClient(ns, "new", "milan"), client.DryRunAll),
		"cannot update resource \"gatewayclients/status\"": peer.Status().Update(t.Context(), mine.DeepCopy(), client.DryRunAll),
		"cannot patch resource \"gatewayservers/status\"": peer.Status().Patch(t.Context(), &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "s"}},
			merge(`{"status":{"endpoint":{"port":8}}}`), dry),
	} {
		expect(t, err, what)
	}
	through := merge(`{"metadata":{"labels":{"liqo.io/remote-cluster-id":"rome"},"annotations":{"x":"y"},"finalizers":["x.example/y"]},"spec":{"endpoint":{"port":8}},"status":{"endpoint":{"port":9}}}`)
	if err := peer.Status().Patch(t.Context(), mine, through); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(mine.Labels, map[string]string{names.RemoteClusterID: "milan"}) || len(mine.Annotations)+len(mine.Finalizers) > 0 || mine.Spec.Endpoint.Port != 0 || mine.Status.Endpoint.Port != 9 {
		t.Errorf("written through the status: %+v", mine)
	}
}
