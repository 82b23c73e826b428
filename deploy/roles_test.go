// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/liqo/internal/names"
)

// given are the roles that somebody else binds: those of peers, which the chart has by hand, and those that a process gets
// namespace by namespace, or with its VirtualNode.
var given = []string{
	names.RoleRemoteControlPlane, names.RoleVirtualKubeletRemote, names.RoleVirtualKubeletRemoteWide,
	names.RoleVirtualKubeletLocal, names.RoleVirtualKubeletNamespace, names.RoleTenantSecrets, names.RoleTenantReplication,
	names.RoleGateway, names.RoleGatewayReader, names.RolePeeringUser,
}

// processes are those whose rights are generated.
var processes = []string{"controller-manager", "crd-replicator", "pre-delete"}

func as[T any](t testing.TB, obj *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, out, true); err != nil {
		t.Fatal(err)
	}
	return out
}

func clusterRole(t testing.TB, r *release, name string) *rbacv1.ClusterRole {
	t.Helper()
	for _, obj := range r.objects {
		if obj.GetKind() == "ClusterRole" && obj.GetName() == name {
			return as[rbacv1.ClusterRole](t, obj)
		}
	}
	t.Fatalf("no ClusterRole %s", name)
	return nil
}

// table has one line for each resource of a role.
func table(role *rbacv1.ClusterRole) string {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, role.Name)
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				name := strings.TrimPrefix(group+"/"+resource, "/")
				if len(rule.ResourceNames) > 0 {
					name += " " + strings.Join(rule.ResourceNames, ",")
				}
				fmt.Fprintf(w, "  %s\t%s\n", name, strings.Join(rule.Verbs, " "))
			}
		}
	}
	w.Flush()
	return out.String()
}

func TestDelegatedRoles(t *testing.T) {
	r := mustRender(t, values{})
	var text strings.Builder
	for _, name := range given {
		text.WriteString(table(clusterRole(t, r, name)))
	}
	golden(t, "roles.txt", []byte(text.String()))
}

func TestPeerRoleScope(t *testing.T) {
	r := mustRender(t, values{})
	for _, name := range []string{names.RoleRemoteControlPlane, names.RoleVirtualKubeletRemote, names.RoleVirtualKubeletRemoteWide, names.RolePeeringUser} {
		for _, rule := range clusterRole(t, r, name).Rules {
			for _, resource := range rule.Resources {
				// Within the policies liqo-endpoints and liqo-networks.
				reported := (resource == "gatewayclients/status" || resource == "configurations/status") && slices.Equal(rule.Verbs, []string{"patch"})
				if strings.HasSuffix(resource, "/status") && !reported || strings.Contains(resource, "*") {
					t.Errorf("%s: resource %s", name, resource)
				}
			}
			if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Verbs, names.VerbOriginate) || slices.Contains(rule.APIGroups, "*") {
				t.Errorf("%s: %v", name, rule)
			}
		}
	}
}

// Only credentials given to peers hold the verb that marks a peer, only virtual kubelets the one that marks those, and only peering
// users theirs.
func TestMarkingVerbs(t *testing.T) {
	holders := map[string][]string{}
	for _, role := range allRules(t, mustRender(t, values{})) {
		for _, verb := range role.rule.Verbs {
			if verb == names.VerbReplicate || verb == "represent" || verb == names.VerbPeer {
				if !slices.Contains(holders[verb], role.name) {
					holders[verb] = append(holders[verb], role.name)
				}
			}
		}
	}
	for verb, want := range map[string]string{names.VerbReplicate: names.RoleRemoteControlPlane + " " + names.RoleVirtualKubeletRemote, "represent": names.RoleVirtualKubeletLocal, names.VerbPeer: names.RolePeeringUser} {
		if got := strings.Join(holders[verb], " "); got != want {
			t.Errorf("%s is held by %q, want %s", verb, got, want)
		}
	}
}

// A resource on request is in the roles and the policy of both sides, and nothing that gives rights or makes pods can be.
func TestReflectionOnRequest(t *testing.T) {
	r := mustRender(t, everything(t))
	for role, verbs := range map[string]string{
		names.RoleVirtualKubeletNamespace: "get list watch", names.RoleVirtualKubeletRemote: "create delete get list patch update watch",
	} {
		found := slices.ContainsFunc(clusterRole(t, r, role).Rules, func(rule rbacv1.PolicyRule) bool {
			return slices.Equal(rule.APIGroups, []string{"example.com"}) && slices.Equal(rule.Resources, []string{"widgets"}) &&
				strings.Join(rule.Verbs, " ") == verbs
		})
		if !found {
			t.Errorf("%s has no rule for widgets.example.com", role)
		}
	}
	for _, group := range []string{
		"", "apps", "batch", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "offloading.liqo.io", "liqo.io",
		"admissionregistration.k8s.io", "apiextensions.k8s.io", "certificates.k8s.io",
	} {
		for _, v := range []values{
			tree("offloading.twinNamespaces.resources", []any{"things." + group}),
			tree("offloading.reflection.resources", []any{map[string]any{"resource": "things.v1." + group}}),
		} {
			if _, err := render(t, loadChart(t), v, nil); err == nil || !strings.Contains(err.Error(), "never reflected on request") {
				t.Errorf("%v: error = %v", v, err)
			}
		}
	}
	for _, text := range []string{"*.example.com", "things/status.example.com", "things"} {
		if _, err := render(t, loadChart(t), tree("offloading.twinNamespaces.resources", []any{text}), nil); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

type namedRule struct {
	name    string
	cluster bool
	rule    rbacv1.PolicyRule
}

func allRules(t testing.TB, r *release) []namedRule {
	t.Helper()
	var out []namedRule
	for _, obj := range r.objects {
		switch obj.GetKind() {
		case "ClusterRole":
			for _, rule := range as[rbacv1.ClusterRole](t, obj).Rules {
				out = append(out, namedRule{obj.GetName(), true, rule})
			}
		case "Role":
			for _, rule := range as[rbacv1.Role](t, obj).Rules {
				out = append(out, namedRule{obj.GetName(), false, rule})
			}
		}
	}
	return out
}

func TestProcessPermissions(t *testing.T) {
	r := mustRender(t, values{})
	for _, process := range processes {
		if role := clusterRole(t, r, "liqo-"+process); len(role.Rules) == 0 {
			t.Errorf("%s has no rules", role.Name)
		}
	}
	for _, role := range allRules(t, r) {
		if slices.Contains(given, role.name) {
			continue
		}
		rule := role.rule
		switch {
		case slices.Contains(rule.Verbs, "*"), slices.Contains(rule.Resources, "*"), slices.Contains(rule.APIGroups, "*"):
			t.Errorf("%s holds a wildcard: %v", role.name, rule)
		case slices.Contains(rule.Verbs, "escalate"), slices.Contains(rule.Verbs, "impersonate"):
			t.Errorf("%s holds %v", role.name, rule.Verbs)
		case slices.Contains(rule.Verbs, "bind") && len(rule.ResourceNames) == 0:
			t.Errorf("%s may bind any role", role.name)
		case role.cluster && slices.Contains(rule.Resources, "secrets"):
			t.Errorf("%s reaches the Secrets of every namespace", role.name)
		}
	}
}

// The fabric watches namespaces only for the restrictions of pods.
func TestFabricPermissions(t *testing.T) {
	nodeAccess := "offloading.twinNamespaces.pods.nodeAccess"
	for name, tc := range map[string]struct {
		v    values
		want []string
	}{
		"default":       {values{}, nil},
		"no nodeAccess": {tree(nodeAccess, false), []string{"namespaces"}},
		"offloaded":     {tree("networking.peerAccess", "offloaded"), []string{"namespaces", "namespaceoffloadings"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, rule := range clusterRole(t, mustRender(t, tc.v), "liqo-fabric").Rules {
				for _, resource := range rule.Resources {
					if resource == "namespaces" || resource == "namespaceoffloadings" {
						got = append(got, resource)
					}
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// Whatever the prefix of names, every binding leads from an account to a role of the same rendering, and roles keep
// their rules.
func TestRoleBindings(t *testing.T) {
	for _, prefix := range []string{"", "mesh"} {
		r := mustRender(t, tree("nameOverride", prefix))
		got := map[string]bool{}
		for _, obj := range r.objects {
			got[obj.GetKind()+"/"+obj.GetName()] = true
		}
		bindings := 0
		for _, obj := range r.objects {
			if !strings.HasSuffix(obj.GetKind(), "RoleBinding") {
				continue
			}
			bindings++
			b := as[rbacv1.RoleBinding](t, obj)
			if !got[b.RoleRef.Kind+"/"+b.RoleRef.Name] {
				t.Errorf("%s %s: no %s %s", b.Kind, b.Name, b.RoleRef.Kind, b.RoleRef.Name)
			}
			for _, s := range b.Subjects {
				if !got[s.Kind+"/"+s.Name] || s.Namespace != "liqo-system" {
					t.Errorf("%s %s: no %s %s/%s", b.Kind, b.Name, s.Kind, s.Namespace, s.Name)
				}
			}
		}
		if bindings < len(processes) {
			t.Errorf("prefix %q: %d bindings for %d processes", prefix, bindings, len(processes))
		}
		for _, obj := range r.objects {
			if obj.GetKind() == "ClusterRole" && len(as[rbacv1.ClusterRole](t, obj).Rules) == 0 {
				t.Errorf("prefix %q: ClusterRole %s is empty", prefix, obj.GetName())
			}
		}
	}
}

// Processes have rights in namespaces that have their names, and an installation may be in one of those.
func TestUniqueNames(t *testing.T) {
	for _, namespace := range []string{"liqo-system", "default"} {
		r, err := renderIn(t, namespace, loadChart(t), values{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, obj := range r.objects {
			id := obj.GetKind() + " " + obj.GetNamespace() + "/" + obj.GetName()
			if got[id] {
				t.Errorf("installed in %s there are two of %s", namespace, id)
			}
			got[id] = true
		}
	}
}

// The roles of the processes come from their sources: what is in the chart is what the markers say.
func TestGeneratedPermissions(t *testing.T) {
	for _, process := range append([]string{"virtual-kubelet"}, processes...) {
		if _, err := os.Stat("chart/files/rbac/" + process + ".yaml"); err != nil {
			t.Error(err)
		}
	}
}
