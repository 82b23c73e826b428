// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/auth"
	"liqo.io/liqo/internal/certissuer"
	"liqo.io/liqo/internal/ctl/peering"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/resourceslice"
	"liqo.io/liqo/internal/testkit"
)

// lodger is a consumer as its provider sees it: with a Tenant, and with the ResourceSlices big and small.
type lodger struct {
	*testkit.ControlPlane
	id, namespace string
}

func newLodger(t *testing.T, c *testkit.ControlPlane) *lodger {
	t.Helper()
	id := testkit.UniqueID()
	l := &lodger{c, id, testkit.Namespace(t, c, "tenant", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: id})}
	testkit.Create(t, c.Client, &authv1beta1.Tenant{ObjectMeta: l.meta(id), Spec: authv1beta1.TenantSpec{
		ClusterID: liqov1beta1.ClusterID(id), AuthzPolicy: new(authv1beta1.TolerateNoHandshake),
	}})
	for _, name := range []string{"big", "small"} {
		s := &authv1beta1.ResourceSlice{ObjectMeta: l.meta(name)}
		s.Labels[names.Replicated], s.Labels[names.ReplicationOrigin] = "true", id
		s.Spec.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		testkit.Create(t, c.Client, s)
	}
	return l
}

func (l *lodger) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: l.namespace, Name: name, Labels: map[string]string{names.RemoteClusterID: l.id}}
}

// state is what the switches are at, and what came of it: for the Tenant, and for each Quota that there is.
func (l *lodger) state(t *testing.T) string {
	t.Helper()
	var tenant authv1beta1.Tenant
	if err := l.Client.Get(t.Context(), client.ObjectKey{Namespace: l.namespace, Name: l.id}, &tenant); err != nil {
		t.Fatal(err)
	}
	output := []string{string(tenant.Spec.TenantCondition)}
	for _, name := range []string{"big", "small"} {
		var quotas offv1beta1.QuotaList
		if err := l.Client.List(t.Context(), &quotas, client.InNamespace(l.namespace), client.MatchingLabels{names.ResourceSliceName: name}); err != nil {
			t.Fatal(err)
		}
		for _, q := range quotas.Items {
			if q.Spec.Cordoned != nil && *q.Spec.Cordoned {
				name += " cordoned"
			}
			output = append(output, name)
		}
	}
	return strings.Join(output, ", ")
}

// grantor runs the controllers of a provider.
func grantor(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	liqo := testkit.Namespace(t, c, "liqo", nil)
	testkit.Manager(t, c.Config, kube.ManagerOptions{Name: "grantor"}, func(mgr ctrl.Manager) error {
		return errors.Join(
			auth.SetupTenant(mgr, auth.TenantOptions{ClusterID: "milan", LiqoNamespace: liqo, Server: certissuer.Server{Address: c.Config.Host}}),
			resourceslice.SetupRemote(mgr, resourceslice.RemoteOptions{APIServer: c.Config.Host, Defaults: policy.SliceDefaults{
				Resources: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")},
			}}),
		)
	})
}

func TestTenantSwitch(t *testing.T) {
	c := testkit.Cluster(t)
	rome := newLodger(t, c)
	run := func(args ...string) result { return liqoctl(t, c.Config, args...) }
	wants := func(r result, stderr, state string) {
		t.Helper()
		r.succeeds(t)
		if diff := cmp.Diff(fmt.Sprintf(stderr, rome.id), r.stderr); diff != "" || r.stdout != "" {
			t.Errorf("-want +got:\n%s%s", diff, r.stdout)
		}
		if got := rome.state(t); got != state {
			t.Errorf("then it is %q, want %q", got, state)
		}
	}
	// Nobody carries it out yet.
	run("drain", "tenant", rome.id, "--skip-confirm", untilMissing("")).refuses(t, "waiting for what comes of it: ", "is liqo-controller-manager running?")
	wants(run("activate", "tenant", rome.id, "--wait=false"), " INFO  Tenant %q activated\n", "Active")

	grantor(t, c)
	testkit.Eventually(t, time.Minute, func() error {
		if got := rome.state(t); got != "Active, big, small" {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
	for _, command := range []string{"cordon", "drain"} {
		run(command, "tenant", rome.id).refuses(t, "add --skip-confirm")
	}
	wants(run("uncordon", "tenant", rome.id), " WARN  Tenant %q is not cordoned\n", "Active, big, small")
	dry := run("cordon", "tenant", rome.id, "--dry-run", "--global-labels", "team=${name}")
	dry.succeeds(t)
	wantTenant := "apiVersion: authentication.liqo.io/v1beta1\nkind: Tenant\nmetadata:\n  labels:\n    team: " + rome.id + "\n  name: " + rome.id +
		"\n  namespace: " + rome.namespace + "\nspec:\n  clusterID: " + rome.id + "\n  tenantCondition: Cordoned\nstatus: {}\n---\n"
	if diff := cmp.Diff(wantTenant, dry.stdout); diff != "" || rome.state(t) != "Active, big, small" {
		t.Errorf("%s: -want +got:\n%s", rome.state(t), diff)
	}
	wants(run("cordon", "tenant", rome.id, "--skip-confirm"), " INFO  Tenant %q cordoned\n", "Cordoned, big cordoned, small cordoned")
	wants(run("cordon", "tenants", rome.id, "--skip-confirm"), " WARN  Tenant %q is not active. Activate the tenant to cordon it.\n", "Cordoned, big cordoned, small cordoned")
	wants(run("uncordon", "tenant", rome.id), " INFO  Tenant %q uncordoned\n", "Active, big, small")
	slicesAreCordoned(t, rome)
	wants(run("drain", "tenant", rome.id, "--skip-confirm"), " INFO  Tenant %q drained\n", "Drained")
	wants(run("drain", "tenant", rome.id, "--skip-confirm"), " INFO  Tenant %q drained\n", "Drained")
	wants(run("cordon", "tenant", rome.id, "--skip-confirm"), " WARN  Tenant %q is not active. Activate the tenant to cordon it.\n", "Drained")
	run("activate", "tenant", rome.id).succeeds(t, "activated")
	testkit.Eventually(t, time.Minute, func() error {
		if got := rome.state(t); got != "Active, big, small" {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})

	// Two of one name; the second one is refused, because its namespace is nobody's.
	otherNamespace := testkit.Namespace(t, c, "elsewhere", nil)
	testkit.Create(t, c.Client, &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: otherNamespace, Name: rome.id}, Spec: authv1beta1.TenantSpec{ClusterID: "another"}})
	run("activate", "tenant", rome.id).refuses(t, "unable to get tenant: several namespaces have a Tenant", otherNamespace+", "+rome.namespace, "Say which one is meant with -n")
	run("activate", "tenant", rome.id, "-n", otherNamespace).succeeds(t, "activated\n WARN  Tenant \""+rome.id+"\" is not ready: WrongNamespace: ")
	run("activate", "tenant", "nobody").refuses(t, `unable to get tenant: tenants.authentication.liqo.io "nobody" not found`)
	run("activate", "tenant", rome.id, "-n", rome.namespace, "-o", "toml").refuses(t, "it is one of json, yaml")

	run("delete", "tenant", rome.id, "-n", rome.namespace).succeeds(t)
	run("delete", "tenant", rome.id, "-n", otherNamespace).succeeds(t)
	testkit.Eventually(t, time.Minute, func() error {
		if _, err := peering.FindTenant(t.Context(), c.Client, "", rome.id); !apierrors.IsNotFound(err) {
			return fmt.Errorf("a Tenant is left: %w", err)
		}
		return nil
	})
}

func slicesAreCordoned(t *testing.T, rome *lodger) {
	t.Helper()
	run := func(command string, args ...string) result {
		return liqoctl(t, rome.Config, append([]string{command, "resourceslice", "--remote-cluster-id", rome.id}, args...)...)
	}
	for _, tc := range []struct{ command, slice, state string }{
		{"cordon", "big", "Active, big cordoned, small"},
		{"cordon", "big", "Active, big cordoned, small"},
		{"uncordon", "big", "Active, big, small"},
		{"uncordon", "small", "Active, big, small"},
	} {
		run(tc.command, tc.slice).refuses(t, "add --skip-confirm")
		r := run(tc.command, tc.slice, "--skip-confirm")
		r.succeeds(t)
		if want := fmt.Sprintf(" INFO  ResourceSlice %q %sed\n", tc.slice, tc.command); r.stderr != want || r.stdout != "" || rome.state(t) != tc.state {
			t.Errorf("%v: %s%s, then it is %q", tc, r.stdout, r.stderr, rome.state(t))
		}
	}
	dry := run("cordon", "big", "-o", "yaml")
	dry.succeeds(t)
	want := "apiVersion: authentication.liqo.io/v1beta1\nkind: ResourceSlice\nmetadata:\n  annotations:\n    liqo.io/cordon: \"true\"\n  name: big\n  namespace: " + rome.namespace + "\n---\n"
	if diff := cmp.Diff(want, dry.stdout); diff != "" || rome.state(t) != "Active, big, small" {
		t.Errorf("%s: -want +got:\n%s", rome.state(t), diff)
	}
	liqoctl(t, rome.Config, "cordon", "tenant", rome.id, "--skip-confirm").succeeds(t)
	run("uncordon", "big", "--skip-confirm").succeeds(t, "uncordoned\n WARN  The Tenant \""+rome.id+"\" is Cordoned, and its ResourceSlices with it\n")
	liqoctl(t, rome.Config, "uncordon", "tenant", rome.id).succeeds(t)

	testkit.Create(t, rome.Client, &authv1beta1.ResourceSlice{ObjectMeta: rome.meta("own")})
	run("cordon", "own", "--skip-confirm").refuses(t, "only the provider can cordon it")
	run("cordon", "none", "--skip-confirm").refuses(t, `unable to get ResourceSlice: resourceslices.authentication.liqo.io "none" not found`)
	liqoctl(t, rome.Config, "cordon", "rs", "big", "--remote-cluster-id", "nobody", "--skip-confirm").refuses(t, "unable to get tenant namespace: none found for nobody")
	liqoctl(t, rome.Config, "cordon", "rs", "big", "--remote-cluster-id", "No Body").refuses(t, `invalid cluster ID "No Body"`)
	liqoctl(t, rome.Config, "cordon", "rs", "big").refuses(t, `"remote-cluster-id"`)
}
