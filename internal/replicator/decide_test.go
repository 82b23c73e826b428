// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

var pair = clusterPair{local: "rome", peer: "milan"}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	if text == "" {
		return nil
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("apiVersion: authentication.liqo.io/v1beta1\nkind: ResourceSlice\n"+text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

const (
	fresh       = "metadata: {name: test}"
	held        = "metadata: {name: test, finalizers: [crdreplicator.liqo.io/resource]}"
	going       = `metadata: {name: test, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [someone/else]}`
	goingHeld   = `metadata: {name: test, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [crdreplicator.liqo.io/resource]}`
	goingNeeded = `metadata: {name: test, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [crdreplicator.liqo.io/resource, resourceslice.liqo.io/finalizer]}`
	elsewhere   = "metadata: {name: test, labels: {liqo.io/remoteID: turin}}"
	moved       = "metadata: {name: test, labels: {liqo.io/remoteID: turin}, finalizers: [crdreplicator.liqo.io/resource]}"
	replica     = `metadata: {name: test, labels: {liqo.io/replicated: "true", liqo.io/originID: milan}}`
	copied      = `metadata: {name: test, labels: {liqo.io/replicated: "true", liqo.io/originID: rome}}`
)

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		rule        string
		local, copy string
		draining    bool
		want        step
	}{
		{"a new object is copied", fresh, "", false, push},
		{"a copied object is kept in step", held, copied, false, push},
		{"a copy that vanished is made again", held, "", false, push},
		{"while draining nothing new is copied", fresh, "", true, idle},
		{"while draining what is copied is kept in step", held, copied, true, push},
		{"a deleted object takes its copy along", goingHeld, copied, false, withdraw},
		{"unless somebody else still needs it", goingNeeded, copied, false, push},
		{"also while draining", goingHeld, copied, true, withdraw},
		{"without the copy it may go", goingHeld, "", false, loosen},
		{"an object held by others is left to them", going, "", false, idle},
		{"a copy without an object is removed", "", copied, false, reap},
		{"an object for another peer is not copied", elsewhere, "", false, idle},
		{"an object sent elsewhere later loses its copy", moved, copied, false, reap},
		{"and then our finalizer", moved, "", false, loosen},
		{"what the peer sent is never sent back", replica, "", false, idle},
		{"nothing here, nothing there", "", "", false, idle},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if got := pair.decideStep(object(t, c.local), object(t, c.copy), c.draining); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestCopyOf(t *testing.T) {
	local := object(t, `
metadata:
  name: test
  namespace: liqo-tenant-milan
  uid: 1234
  resourceVersion: "7"
  finalizers: [crdreplicator.liqo.io/resource]
  labels:
    team: blue
    app.kubernetes.io/name: shop
    app.kubernetes.io/instance: shop-rome
    argocd.argoproj.io/instance: shop-rome
    kustomize.toolkit.fluxcd.io/name: shop
    helm.toolkit.fluxcd.io/name: shop
    liqo.io/remote-cluster-id: milan
    liqo.io/replication: "true"
    liqo.io/ownership: Shared
    liqo.io/virtual-node: x
    offloading.liqo.io/component: x
  annotations:
    note: hello
    liqo.io/create-virtual-node: "true"
    liqo.io/cordon: "false"
    liqo.io/cordon-tenant: "false"
    liqo.io/applied-hash: abc
    liqo.io/version: v9.9.9
    liqo.io/capabilities: of-somebody-else
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    argocd.argoproj.io/tracking-id: shop:authentication.liqo.io/ResourceSlice:tenant/test
    meta.helm.sh/release-name: shop
    kustomize.toolkit.fluxcd.io/checksum: abc
spec:
  class: default
  resources: {cpu: 20, memory: 128Gi}
  fromTheFuture: {a: [1, 2]}
status:
  resources: {cpu: 1}
`)
	want := object(t, `
metadata:
  name: test
  labels:
    team: blue
    app.kubernetes.io/name: shop
    liqo.io/ownership: Shared
    liqo.io/remote-cluster-id: rome
    liqo.io/replication: "false"
    liqo.io/replicated: "true"
    liqo.io/originID: rome
    liqo.io/remoteID: milan
  annotations:
    note: hello
    liqo.io/create-virtual-node: "true"
spec:
  class: default
  resources: {cpu: 20, memory: 128Gi}
  fromTheFuture: {a: [1, 2]}
`)
	if diff := cmp.Diff(want.Object, pair.copyOf(local).Object); diff != "" {
		t.Error(diff)
	}
}

func TestCopyOfVersion(t *testing.T) {
	from := pair
	from.version = "v1.2.3"
	for kind, want := range map[string]string{"NamespaceMap": "v1.2.3", "ResourceSlice": "", "Renew": ""} {
		local := object(t, "metadata: {name: test, annotations: {liqo.io/version: v9.9.9, liqo.io/capabilities: of-somebody-else}}")
		local.SetGroupVersionKind(offv1beta1.GroupVersion.WithKind(kind))
		said := from.copyOf(local).GetAnnotations()
		if got := said[names.Version]; got != want {
			t.Errorf("the copy of a %s says %q, want %q", kind, got, want)
		}
		if got := said[names.Capabilities]; (got != "") != (want != "") || want != "" && got != peer.JoinCapabilities(peer.Capabilities()) {
			t.Errorf("the copy of a %s says that the consumer is capable of %q", kind, got)
		}
	}
}

func TestStatusBack(t *testing.T) {
	local := object(t, fresh+"\nstatus: {resources: {cpu: 1}}")
	for _, c := range []struct {
		rule, copied string
		want         any // the status written, nil for none
		fails        bool
	}{
		{"an equal status is not written", fresh + "\nstatus: {resources: {cpu: 1}}", nil, false},
		{"a silent provider changes nothing", fresh, nil, false},
		{"an empty status is an answer", fresh + "\nstatus: {}", map[string]any{}, false},
		{"fields without a rule are not believed", fresh + "\nstatus: {new: {a: [b]}}", map[string]any{}, false},
		{"a status beyond all bounds is refused", fresh + "\nstatus: {nodeLabels: {a: " + strings.Repeat("x", maxStatus) + "}}", nil, true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			got, err := statusBack(local, object(t, c.copied))
			if (err != nil) != c.fails {
				t.Fatalf("error %v", err)
			}
			var status any
			if got != nil {
				status = got.Object["status"]
			}
			if diff := cmp.Diff(c.want, status); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever labels users put on an object, the copy's labels of ours are always the same five: the peer's admission
// refuses any change of them, so a single one that followed an edit would stop the object for good.
func TestCopyOfOwnLabels(t *testing.T) {
	key := rapid.StringMatching(`([a-z]{1,8}\.)?(liqo\.io|example\.org|notliqo\.io)/[a-zA-Z]{1,10}|[a-z]{1,8}`)
	rapid.Check(t, func(t *rapid.T) {
		local := &unstructured.Unstructured{Object: map[string]any{}}
		local.SetLabels(rapid.MapOf(key, rapid.StringMatching(`[a-z]{0,5}`)).Draw(t, "labels"))
		ours := map[string]string{}
		for k, v := range pair.copyOf(local).GetLabels() {
			if isOurs(k) {
				ours[k] = v
			} else if local.GetLabels()[k] != v {
				t.Fatalf("label %s is not the user's", k)
			}
		}
		want := map[string]string{
			"liqo.io/replication": "false", "liqo.io/replicated": "true", "liqo.io/originID": "rome",
			"liqo.io/remoteID": "milan", "liqo.io/remote-cluster-id": "rome",
		}
		if diff := cmp.Diff(want, ours); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestRemoveExtraFields(t *testing.T) {
	for name, c := range map[string]struct{ have, want, left string }{
		"equal":           {`{a: 1, b: {c: 2}}`, `{a: 1, b: {c: 2}}`, ""},
		"other_value":     {`{a: 1}`, `{a: 2}`, ""},
		"missing":         {`{a: 1}`, `{a: 1, b: 2}`, ""},
		"empty_map":       {`{a: {}}`, `{}`, ""},
		"field":           {`{a: 1, b: 2}`, `{a: 1}`, `{a: 1}`},
		"entry":           {`{a: {b: 1, c: 2}}`, `{a: {b: 1}}`, `{a: {b: 1}}`},
		"map":             {`{a: {b: 1}, c: 1}`, `{c: 1}`, `{c: 1}`},
		"whole_spec":      {`{a: {b: 1}}`, ``, `{}`},
		"map_for_a_value": {`{a: {b: 1}}`, `{a: 1}`, `{a: {}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var got, want, remaining map[string]any
			for into, text := range map[*map[string]any]string{&got: c.have, &want: c.want, &remaining: c.left} {
				if err := yaml.Unmarshal([]byte(text), into); err != nil {
					t.Fatal(err)
				}
			}
			if removed := removeExtraFields(got, want); removed != (c.left != "") {
				t.Errorf("removed: %t", removed)
			}
			if diff := cmp.Diff(remaining, got); c.left != "" && diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
