// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common/util"
)

// pinned are the values of the profile that are the default, too: an upgrade to the profile takes back what was given before.
var pinned = []string{
	"authentication.legacyNonces", "controllerManager.config.enableResourceEnforcement", "offloading.twinNamespaces.resources", "webhook.failurePolicy",
	"offloading.tokenAudiences", "offloading.twinNamespaces.pods.controlPlane", "offloading.twinNamespaces.pods.priorityClasses",
	"offloading.twinNamespaces.pods.runtimeClasses", "offloading.twinNamespaces.pods.serviceAccounts",
}

// leaves are the values of a tree by their paths. A map whose keys are the user's is one value, as the schema has it.
func leaves(prefix string, v values, known []string, out map[string]any) map[string]any {
	for key, value := range v {
		if below, ok := value.(values); ok && len(below) > 0 && !slices.Contains(known, join(prefix, key)) {
			leaves(join(prefix, key), below, known, out)
			continue
		}
		out[join(prefix, key)] = value
	}
	return out
}

func TestHardenedProfile(t *testing.T) {
	profile, defaults := parse(t, chartFile(t, "values-hardened.yaml")), parse(t, chartFile(t, "values.yaml"))
	if err := util.ValidateAgainstSingleSchema(profile, chartFile(t, "values.schema.json")); err != nil {
		t.Fatal(err)
	}
	known := knownPaths(t)
	for path, value := range leaves("", profile, known, map[string]any{}) {
		was, ok := at(defaults, path)
		if !ok {
			t.Errorf("%s is no value of the chart", path)
		}
		if same := reflect.DeepEqual(was, value); same != slices.Contains(pinned, path) {
			t.Errorf("%s is %v, the default %v; pinned: %t", path, value, was, !same)
		}
	}
}

// TestHardenedInstallation has the profile change what it says, and nothing else: each argument that differs comes of a value that is listed.
func TestHardenedInstallation(t *testing.T) {
	profile := parse(t, chartFile(t, "values-hardened.yaml"))
	fixed := tree("discovery.config.clusterID", "milan")
	hardened := mustRender(t, util.MergeTables(parse(t, chartFile(t, "values-hardened.yaml")), fixed))
	plain := mustRender(t, tree("discovery.config.clusterID", "milan"))
	arguments := func(r *release) (all []string) {
		for _, obj := range r.objects {
			if obj.GetKind() == "Deployment" && obj.GetName() == "liqo-controller-manager" {
				all = append(all, containerArguments(t, obj.Object)...)
			}
		}
		slices.Sort(all)
		return all
	}
	got, before := arguments(hardened), arguments(plain)
	for _, want := range []string{
		"--twin-namespace-pod-security=restricted", "--max-namespaces-per-tenant=20", "--max-slices-per-tenant=4", "--default-limits-enforcement=Soft",
		"--enable-resource-enforcement=true",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("the controller-manager lacks %s:\n%s", want, strings.Join(got, "\n"))
		}
	}
	quota := slices.IndexFunc(got, func(arg string) bool { return strings.HasPrefix(arg, "--twin-namespace-quota=") })
	for _, want := range []string{"services.nodeports=0", "services.loadbalancers=0", "count/ingresses.networking.k8s.io=1000"} { // the last is the default
		if quota < 0 || !strings.Contains(got[quota], want) {
			t.Errorf("the quota of namespaces lacks %s:\n%s", want, strings.Join(got, "\n"))
		}
	}
	// Whatever is not in the profile is as it was.
	undone := values{}
	for path := range leaves("", profile, knownPaths(t), map[string]any{}) {
		value, _ := at(parse(t, chartFile(t, "values.yaml")), path)
		undone = util.MergeTables(undone, tree(path, value))
	}
	if again := arguments(mustRender(t, util.MergeTables(undone, tree("discovery.config.clusterID", "milan")))); !slices.Equal(again, before) {
		t.Errorf("the defaults of the values of the profile are not the defaults:\n%s\n%s", again, before)
	}
	kinds := func(r *release) (all []string) {
		for _, obj := range r.objects {
			all = append(all, obj.GetKind()+" "+obj.GetName())
		}
		slices.Sort(all)
		return all
	}
	gone := slices.DeleteFunc(kinds(plain), func(name string) bool { return slices.Contains(kinds(hardened), name) })
	for _, name := range gone {
		if !strings.Contains(name, "proxy") {
			t.Errorf("the profile lacks %s", name)
		}
	}
	if len(gone) == 0 {
		t.Error("the proxy of the API server is there")
	}
}

func containerArguments(t *testing.T, deployment map[string]any) (all []string) {
	t.Helper()
	containers, _ := at(deployment, "spec.template.spec.containers")
	for _, c := range containers.([]any) {
		for _, arg := range c.(map[string]any)["args"].([]any) {
			all = append(all, arg.(string))
		}
	}
	return all
}
