// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// hostilePods are the pods of a consumer that writes ShadowPods itself, each with what it is refused for.
var hostilePods = map[string]struct{ pod, want string }{
	"a negative request":              {`{"containers":[{"name":"c","resources":{"requests":{"cpu":"-1000000"}}}]}`, "cpu"},
	"a negative request as a number":  {`{"containers":[{"name":"c","resources":{"requests":{"cpu":-1000000}}}]}`, "cpu"},
	"a negative limit":                {`{"containers":[{"name":"c","resources":{"limits":{"memory":"-1Ti"}}}]}`, "memory"},
	"a negative init container":       {`{"containers":[{"name":"c"}],"initContainers":[{"name":"i","resources":{"requests":{"cpu":"-1"}}}]}`, "cpu"},
	"a negative overhead":             {`{"containers":[{"name":"c"}],"overhead":{"cpu":"-1"}}`, "cpu"},
	"a negative amount of the pod":    {`{"containers":[{"name":"c"}],"resources":{"requests":{"cpu":"-1"}}}`, "cpu"},
	"a volume of the nodes' network":  {`{"containers":[{"name":"c"}],"volumes":[{"name":"v","nfs":{"server":"10.0.0.1","path":"/"}}]}`, "kind nfs"},
	"a disk of the nodes' network":    {`{"containers":[{"name":"c"}],"volumes":[{"name":"v","iscsi":{"targetPortal":"10.0.0.1:3260","iqn":"iqn","lun":0}}]}`, "kind iscsi"},
	"an inline volume of a driver":    {`{"containers":[{"name":"c"}],"volumes":[{"name":"v","csi":{"driver":"secrets-store.csi.k8s.io"}}]}`, "kind csi"},
	"a claim that the pod brings":     {`{"containers":[{"name":"c"}],"volumes":[{"name":"v","ephemeral":{"volumeClaimTemplate":{"spec":{"resources":{"requests":{"storage":"100Ti"}}}}}}]}`, "kind ephemeral"},
	"a kind of volume of a later day": {`{"containers":[{"name":"c"}],"volumes":[{"name":"v","later":{"path":"/"}}]}`, "no source that this version of Liqo knows"},
	"a token of the provider":         {`{"containers":[{"name":"c"}],"volumes":[{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"t","audience":"vault"}}]}}]}`, "a token of its ServiceAccount"},
	"an account of the provider":      {`{"containers":[{"name":"c"}],"serviceAccountName":"builder"}`, `ServiceAccount "builder"`},
	"the same by its old name":        {`{"containers":[{"name":"c"}],"serviceAccount":"builder"}`, `ServiceAccount "builder"`},
	"a priority class":                {`{"containers":[{"name":"c"}],"priorityClassName":"urgent"}`, `priority class "urgent"`},
	"a runtime class":                 {`{"containers":[{"name":"c"}],"runtimeClassName":"runc"}`, `runtime class "runc"`},
	"the control plane's taint":       {`{"containers":[{"name":"c"}],"tolerations":[{"key":"node-role.kubernetes.io/control-plane","operator":"Exists"}]}`, "tolerate the taint"},
}

func rawShadowPod(t *testing.T, namespace, origin, pod string) *unstructured.Unstructured {
	t.Helper()
	sp := &unstructured.Unstructured{}
	sp.SetGroupVersionKind(schema.GroupVersionKind{Group: "offloading.liqo.io", Version: "v1beta1", Kind: "ShadowPod"})
	sp.SetNamespace(namespace)
	sp.SetName("web")
	sp.SetLabels(map[string]string{names.OffloadingOrigin: origin})
	var spec map[string]any
	if err := json.Unmarshal([]byte(pod), &spec); err != nil {
		t.Fatal(err)
	}
	sp.Object["spec"] = map[string]any{"pod": spec}
	return sp
}

func TestHostilePods(t *testing.T) {
	c := testkit.Cluster(t)
	install(t, c, 1, Options{EnforceResources: true})
	tenant := testkit.Namespace(t, c, "tenant", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: "amber"})
	remoteNamespace := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "amber"})
	user := as(t, c, "slice-amber")
	if err := c.Client.Create(t.Context(), granted(tenant, "slice-amber")); err != nil {
		t.Fatal(err)
	}
	ask := func(pod string) error {
		return user.Create(t.Context(), rawShadowPod(t, remoteNamespace, "amber", pod), client.DryRunAll)
	}
	soon(t, func() error {
		return ask(`{"containers":[{"name":"c","resources":{"requests":{"cpu":"1m"}}}],"tolerations":[{"operator":"Exists"}],"volumes":[{"name":"v","emptyDir":{}}]}`)
	})
	for name, tc := range hostilePods {
		t.Run(name, func(t *testing.T) {
			err := ask(tc.pod)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "failed calling webhook") {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	existing := rawShadowPod(t, remoteNamespace, "amber", `{"containers":[{"name":"c","resources":{"requests":{"cpu":"1m"}}}]}`)
	if err := user.Create(t.Context(), existing); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ patch, want string }{
		"a resize below nothing":    {`{"spec":{"pod":{"containers":[{"name":"c","resources":{"requests":{"cpu":"-5"}}}]}}}`, "cpu"},
		"the control plane's taint": {`{"spec":{"pod":{"tolerations":[{"key":"node-role.kubernetes.io/master","operator":"Exists"}]}}}`, "tolerate the taint"},
	} {
		t.Run(name, func(t *testing.T) {
			err := user.Patch(t.Context(), existing.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(tc.patch)))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
