// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/testkit"
)

// tryRule creates the first object of testdata/<kind>.yaml, or changes it, with a merge patch on top.
type tryRule struct {
	name   string
	kind   string // plural
	before string // patch of what is created; "-" creates nothing but the object itself, with patch
	patch  string // of what is judged
	status bool   // patch is of the status
	want   string // part of the refusal, "" for none
}

const fresh = "-"

var (
	many  = `{"spec":{"endpoint":{"port":null,"ports":[1,2]}}}`
	rules = []tryRule{
		{name: "a name that is no label", kind: "foreignclusters", before: fresh, patch: `{"spec":{"clusterID":"Milan"}}`, want: "spec.clusterID"},
		{name: "an ID that no label can hold", kind: "foreignclusters", before: fresh, patch: `{"spec":{"clusterID":"` + strings.Repeat("m", 64) + `"}}`, want: "spec.clusterID"},
		{name: "the longest ID", kind: "foreignclusters", before: fresh, patch: `{"spec":{"clusterID":"` + strings.Repeat("m", 63) + `"}}`},
		{name: "another ID", kind: "foreignclusters", patch: `{"spec":{"clusterID":"rome"}}`, want: "ClusterID field is immutable"},
		{name: "the same ID", kind: "foreignclusters", patch: `{"spec":{"clusterID":"milan"}}`},

		{name: "another tenant", kind: "tenants", patch: `{"spec":{"clusterID":"milan"}}`, want: "ClusterID is immutable"},
		{name: "no tenant any more", kind: "tenants", patch: `{"spec":{"clusterID":null}}`, want: "ClusterID is immutable"},
		{name: "a tenant that has none yet", kind: "tenants", before: `{"spec":{"clusterID":null}}`, patch: `{"spec":{"clusterID":"rome"}}`},
		{name: "another condition of a tenant", kind: "tenants", patch: `{"spec":{"tenantCondition":"Drained"}}`},

		{name: "another address", kind: "ips", patch: `{"spec":{"ip":"192.168.1.2"}}`, want: "IP field is immutable"},
		{name: "something that is no address", kind: "ips", before: fresh, patch: `{"spec":{"ip":"milan"}}`, want: "spec.ip"},
		{name: "an IPv6 address", kind: "ips", before: fresh, patch: `{"spec":{"ip":"fd00::7"}}`},
		{name: "another given address", kind: "ips", status: true, patch: `{"status":{"ip":"10.70.0.6"}}`, want: "IP field is immutable"},
		{name: "another given network", kind: "ips", status: true, patch: `{"status":{"cidr":"10.71.0.0/16"}}`, want: "CIDR field is immutable"},
		{name: "the same address", kind: "ips", patch: `{"spec":{"masquerade":false}}`},

		{name: "another CIDR", kind: "networks", patch: `{"spec":{"cidr":"10.72.0.0/16"}}`, want: "CIDR field is immutable"},
		{name: "more preallocated", kind: "networks", patch: `{"spec":{"preAllocated":2}}`, want: "PreAllocated field is immutable"},
		{name: "nothing preallocated any more", kind: "networks", patch: `{"spec":{"preAllocated":null}}`, want: "PreAllocated field is immutable"},
		{name: "nothing said and 0 are the same", kind: "networks", before: `{"spec":{"preAllocated":0}}`, patch: `{"spec":{"preAllocated":null}}`},
		{name: "less than nothing preallocated", kind: "networks", before: fresh, patch: `{"spec":{"preAllocated":-1}}`, want: "preAllocated"},

		{name: "a port and ports", kind: "gatewayclients", before: fresh, patch: `{"spec":{"endpoint":{"ports":[1]}}}`, want: "port and ports are mutually exclusive"},
		{name: "no port", kind: "gatewayclients", before: fresh, patch: `{"spec":{"endpoint":{"port":null}}}`, want: "at least one of port or ports must be set"},
		{name: "an empty list of ports", kind: "gatewayclients", before: fresh, patch: `{"spec":{"endpoint":{"port":null,"ports":[]}}}`, want: "at least one of port or ports must be set"},
		{name: "a port twice", kind: "gatewayclients", before: fresh, patch: `{"spec":{"endpoint":{"port":null,"ports":[1,1]}}}`, want: "ports must not contain duplicates"},
		{name: "two ports", kind: "gatewayclients", before: fresh, patch: many},
		{name: "no endpoint", kind: "gatewayclients", before: fresh, patch: `{"spec":{"endpoint":null}}`},

		{name: "a port and ports", kind: "gatewayservers", before: fresh, patch: `{"spec":{"endpoint":{"ports":[1]}}}`, want: "port and ports are mutually exclusive"},
		{name: "a node port and node ports", kind: "gatewayservers", before: fresh, patch: `{"spec":{"endpoint":{"nodePorts":[30000]}}}`, want: "nodePort and nodePorts are mutually exclusive"},
		{name: "no port", kind: "gatewayservers", before: fresh, patch: `{"spec":{"endpoint":{"port":null}}}`, want: "at least one of port or ports must be set"},
		{name: "a port twice", kind: "gatewayservers", before: fresh, patch: `{"spec":{"endpoint":{"port":null,"ports":[1,1]}}}`, want: "ports must not contain duplicates"},
		{name: "a node port twice", kind: "gatewayservers", before: fresh, patch: `{"spec":{"endpoint":{"nodePort":null,"nodePorts":[30000,30000]}}}`, want: "nodePorts must not contain duplicates"},
		{name: "two ports", kind: "gatewayservers", before: fresh, patch: many},

		{name: "a status with a port twice", kind: "wggatewayservers", status: true, patch: `{"status":{"endpoint":{"port":null,"ports":[1,1]}}}`, want: "ports must not contain duplicates"},
		{name: "a status with a port and ports", kind: "wggatewayservers", status: true, patch: `{"status":{"endpoint":{"ports":[1]}}}`, want: "port and ports are mutually exclusive"},
		{name: "a status without a port", kind: "wggatewayservers", status: true, patch: `{"status":{"endpoint":{"port":null}}}`, want: "at least one of port or ports must be set"},
		{name: "a status with two ports", kind: "wggatewayservers", status: true, patch: `{"status":{"endpoint":{"port":null,"ports":[1,2]}}}`},

		{name: "another table", kind: "firewallconfigurations", patch: `{"spec":{"table":{"name":"u"}}}`, want: "the name of the table is immutable"},
		{name: "another family", kind: "firewallconfigurations", patch: `{"spec":{"table":{"family":"IPV6"}}}`},
		{name: "rules of two types in a chain", kind: "firewallconfigurations", before: fresh, want: "must have at most 1 item",
			patch: `{"spec":{"table":{"chains":[{"name":"c","type":"nat","policy":"accept","hook":"input","priority":0,"rules":{"natRules":[],"routeRules":[]}}]}}}`},
		{name: "another routing table", kind: "routeconfigurations", patch: `{"spec":{"table":{"name":"u"}}}`, want: "the name of the table is immutable"},
		{name: "a target for the same table", kind: "routeconfigurations", patch: `{"spec":{"table":{"targetRef":null}}}`},
		{name: "a table without rules", kind: "routeconfigurations", before: fresh, patch: `{"spec":{"table":{"rules":[]}}}`, want: "spec.table.rules"},

		{name: "another name", kind: "namespaceoffloadings", before: fresh, patch: `{"metadata":{"name":"offload"}}`, want: "the name of a NamespaceOffloading must be offloading"},
		{name: "a chosen name that is not chosen", kind: "namespaceoffloadings", before: fresh, patch: `{"spec":{"remoteNamespaceName":null}}`, want: "remoteNamespaceName is required with the SelectedName strategy"},
		{name: "an empty chosen name", kind: "namespaceoffloadings", before: fresh, patch: `{"spec":{"remoteNamespaceName":""}}`, want: "remoteNamespaceName is required with the SelectedName strategy"},
		{name: "no strategy and no name", kind: "namespaceoffloadings", before: fresh, patch: `{"spec":{"namespaceMappingStrategy":null,"remoteNamespaceName":null}}`},
		{name: "another strategy", kind: "namespaceoffloadings", patch: `{"spec":{"namespaceMappingStrategy":"DefaultName"}}`, want: "namespaceMappingStrategy is immutable"},
		{name: "another chosen name", kind: "namespaceoffloadings", patch: `{"spec":{"remoteNamespaceName":"elsewhere"}}`, want: "remoteNamespaceName is immutable"},
		{name: "no name any more, and another strategy", kind: "namespaceoffloadings", patch: `{"spec":{"namespaceMappingStrategy":null,"remoteNamespaceName":null}}`, want: "is immutable"},
		{name: "other clusters", kind: "namespaceoffloadings", patch: `{"spec":{"clusterSelector":{"nodeSelectorTerms":[]}}}`},
		{name: "one more namespace", kind: "namespacemaps", patch: `{"spec":{"desiredMapping":{"more":"more-rome"}}}`},
		{name: "a remote name of no characters", kind: "namespacemaps", before: fresh, patch: `{"spec":{"desiredMapping":{"demo":""}}}`, want: "local names have 1 to 63 characters, remote ones 1 to 320"},
		{name: "a status of what is not asked for", kind: "namespacemaps", status: true, patch: `{"status":{"currentMapping":{"other":{"remoteNamespace":"other","phase":"Accepted"}}}}`,
			want: "status.currentMapping may only name namespaces of spec.desiredMapping, and those that it names already"},
		{name: "other pods", kind: "namespaceoffloadings", patch: `{"spec":{"podOffloadingStrategy":"Local"}}`},
	}
)

func TestRules(t *testing.T) {
	c := testkit.Cluster(t)
	all := crds(t)
	for _, r := range rules {
		t.Run(r.kind+"/"+r.name, func(t *testing.T) {
			obj := objects(t, r.kind)[0]
			if all[r.kind].Spec.Scope == apiextensionsv1.NamespaceScoped {
				obj.SetNamespace(testkit.Namespace(t, c, "rules", nil))
			}
			err := r.apply(t, c.Client, obj)
			switch {
			case r.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case r.want != "" && (err == nil || !strings.Contains(err.Error(), r.want)):
				t.Errorf("error = %v, want one with %q", err, r.want)
			}
		})
	}
}

func (r tryRule) apply(t *testing.T, c client.Client, obj *unstructured.Unstructured) error {
	t.Helper()
	status := obj.Object["status"]
	if r.before == fresh {
		return c.Create(t.Context(), merge(t, obj, r.patch), client.DryRunAll)
	}
	if r.before != "" {
		obj = merge(t, obj, r.before)
	}
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	if obj.GetNamespace() == "" {
		defer func() { _ = c.Delete(t.Context(), obj) }()
	}
	if !r.status {
		return c.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(r.patch)), client.DryRunAll)
	}
	obj.Object["status"] = status
	if err := c.Status().Update(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	return c.Status().Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(r.patch)))
}

// merge applies a merge patch.
func merge(t *testing.T, obj *unstructured.Unstructured, patch string) *unstructured.Unstructured {
	t.Helper()
	changes := map[string]any{}
	if err := yaml.Unmarshal([]byte(patch), &changes); err != nil {
		t.Fatal(err)
	}
	out := obj.DeepCopy()
	mergeInto(out.Object, changes)
	return out
}

func mergeInto(into, changes map[string]any) {
	for key, change := range changes {
		sub, isMap := change.(map[string]any)
		old, wasMap := into[key].(map[string]any)
		switch {
		case change == nil:
			delete(into, key)
		case isMap && wasMap:
			mergeInto(old, sub)
		default:
			into[key] = change
		}
	}
}

// Every CEL rule of the CRDs is broken by one entry of the table, and its kind accepted by another.
func TestRuleCoverage(t *testing.T) {
	refused, accepted := map[string]bool{}, map[string]bool{}
	for _, r := range rules {
		if r.want == "" {
			accepted[r.kind] = true
		}
		refused[r.kind+": "+r.want] = true
	}
	for plural, crd := range crds(t) {
		for message := range messages(*crd.Spec.Versions[0].Schema.OpenAPIV3Schema) {
			// The rules of GatewayClient.status and GatewayServer.status are those of the type that spec and WgGatewayServer have.
			if !refused[plural+": "+message] {
				t.Errorf("%s: no entry breaks the rule %q", plural, message)
			}
			if !accepted[plural] {
				t.Errorf("%s: no entry is accepted", plural)
			}
		}
	}
}

func messages(s apiextensionsv1.JSONSchemaProps) map[string]bool {
	out := map[string]bool{}
	for _, rule := range s.XValidations {
		out[rule.Message] = true
	}
	add := func(sub apiextensionsv1.JSONSchemaProps) {
		for message := range messages(sub) {
			out[message] = true
		}
	}
	for _, sub := range s.Properties {
		add(sub)
	}
	if s.Items != nil {
		add(*s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		add(*s.AdditionalProperties.Schema)
	}
	return out
}

// Objects that others wrote and that say nothing get the documented defaults.
func TestDefaults(t *testing.T) {
	c := testkit.Cluster(t)
	for kind, tc := range map[string]struct {
		patch string
		path  []string
		want  any
	}{
		"tenants":              {`{"spec":{"tenantCondition":null}}`, []string{"spec", "tenantCondition"}, "Active"},
		"namespaceoffloadings": {`{"spec":{"podOffloadingStrategy":null}}`, []string{"spec", "podOffloadingStrategy"}, "LocalAndRemote"},
		"gatewayservers":       {`{"spec":{"endpoint":{"serviceType":null}}}`, []string{"spec", "endpoint", "serviceType"}, "ClusterIP"},
	} {
		t.Run(kind, func(t *testing.T) {
			obj := merge(t, objects(t, kind)[0], tc.patch)
			obj.SetNamespace(testkit.Namespace(t, c, "defaults", nil))
			if err := c.Client.Create(t.Context(), obj, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			got, _, err := unstructured.NestedFieldNoCopy(obj.Object, tc.path...)
			if err != nil || fmt.Sprint(got) != tc.want {
				t.Errorf("%v = %v, want %v", tc.path, got, tc.want)
			}
		})
	}
}

// Every address may be one of IPv6: a field of format ipv4 has that of ipv6 beside it.
func TestIPv6Addresses(t *testing.T) {
	addresses := 0
	var walk func(path string, p *apiextensionsv1.JSONSchemaProps)
	walk = func(path string, p *apiextensionsv1.JSONSchemaProps) {
		if p == nil {
			return
		}
		if p.Format == "ipv4" {
			t.Errorf("%s takes IPv4 only", path)
		}
		var formats []string
		for _, one := range p.AnyOf {
			formats = append(formats, one.Format)
		}
		if slices.Contains(formats, "ipv4") {
			addresses++
			if !slices.Contains(formats, "ipv6") {
				t.Errorf("%s takes %v", path, formats)
			}
		}
		for name := range p.Properties {
			walk(path+"."+name, new(p.Properties[name]))
		}
		if p.Items != nil {
			walk(path+"[]", p.Items.Schema)
		}
		if p.AdditionalProperties != nil {
			walk(path+"{}", p.AdditionalProperties.Schema)
		}
	}
	for plural, crd := range crds(t) {
		for _, v := range crd.Spec.Versions {
			walk(plural, v.Schema.OpenAPIV3Schema)
		}
	}
	if addresses != 22 {
		t.Errorf("%d fields are addresses, not 22", addresses)
	}
}
