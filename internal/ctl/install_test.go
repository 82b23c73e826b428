// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/testkit"
)

// The test API server gives Services addresses of this range.
const serviceCIDR = "10.96.0.0/16"

// installArgs are right for the test cluster; what a test adds comes later and wins.
func installArgs(more ...string) []string {
	return append([]string{"install", "--pod-cidr", "10.200.0.0/16", "--service-cidr", serviceCIDR, "--cluster-id", "cl-test", "--timeout", "20s"}, more...)
}

// changesNothing fails if Liqo's namespace or a ClusterRole of it exists after the test.
func changesNothing(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	var roles rbacv1.ClusterRoleList
	if err := c.Client.List(t.Context(), &roles, client.MatchingLabels{"app.kubernetes.io/part-of": "liqo"}); err != nil {
		t.Fatal(err)
	}
	if len(roles.Items) > 0 {
		t.Errorf("%d ClusterRoles were made", len(roles.Items))
	}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: "liqo"}, &corev1.Namespace{}); err == nil {
		t.Error("namespace liqo was made")
	}
}

// awaitVacant waits for the namespaces of tests before, in which Liqo seemed to be installed.
func awaitVacant(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	testkit.Eventually(t, 5*time.Minute, func() error { return liqoctl(t, c.Config, installArgs("--dry-run")...).err })
}

func TestInstallDryRun(t *testing.T) {
	c := testkit.Cluster(t)
	awaitVacant(t, c)
	r := liqoctl(t, c.Config, installArgs("--dry-run")...)
	r.succeeds(t)
	want := " INFO  Installer initialized\n" +
		" INFO  Cluster configuration correctly retrieved\n" +
		" INFO  Installation parameters correctly generated\n" +
		" INFO  Installation completed (dry-run)\n"
	if diff := cmp.Diff(want, r.stderr); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	changesNothing(t, c)
}

func TestInstallOutput(t *testing.T) {
	c := testkit.Cluster(t)
	awaitVacant(t, c)
	ctltest.Create(t, c, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubeadm-config"},
		Data:       map[string]string{"ClusterConfiguration": "networking:\n  podSubnet: 10.210.0.0/16\n  serviceSubnet: " + serviceCIDR + "\n"},
	})
	for provider, pods := range map[string]string{"kubeadm": "10.210.0.0/16", "kind": "10.210.0.0/16", "k3s": "10.42.0.0/16"} {
		args := []string{"install", provider, "--cluster-id", "cl-test", "--dry-run", "-o", "yaml", "--skip-validation"}
		liqoctl(t, c.Config, args...).succeeds(t, "\nkind: DaemonSet\n", "cidr: "+pods)
	}
	asYAML, asJSON := liqoctl(t, c.Config, installArgs("-o", "yaml")...), liqoctl(t, c.Config, installArgs("-o", "json", "--dry-run")...)
	asJSON.succeeds(t)
	asYAML.succeeds(t)
	var names []string
	for _, obj := range documents(t, asYAML.stdout) {
		names = append(names, obj.GetKind()+" "+obj.GetNamespace()+"/"+obj.GetName())
	}
	for _, want := range []string{
		"CustomResourceDefinition /tenants.authentication.liqo.io", "Deployment liqo/liqo-controller-manager", "DaemonSet liqo/liqo-fabric",
		"ConfigMap liqo/liqo-clusterid-configmap",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("-o yaml lacks %s", want)
		}
	}
	var inJSON []string
	for stream := json.NewDecoder(strings.NewReader(asJSON.stdout)); stream.More(); {
		obj := &unstructured.Unstructured{}
		if err := stream.Decode(&obj.Object); err != nil {
			t.Fatal(err)
		}
		inJSON = append(inJSON, obj.GetKind()+" "+obj.GetNamespace()+"/"+obj.GetName())
	}
	if diff := cmp.Diff(names, inJSON); diff != "" {
		t.Errorf("-o yaml and -o json differ:\n%s", diff)
	}
	const level = "--twin-namespace-pod-security="
	for _, tc := range []struct {
		flags []string
		want  string
	}{
		{nil, "baseline"},
		{[]string{"--profile", "hardened"}, "restricted"},
		{[]string{"--profile", "hardened", "--set", "offloading.twinNamespaces.podSecurity=privileged"}, "privileged"}, // what is given wins
	} {
		liqoctl(t, c.Config, append(installArgs("-o", "yaml"), tc.flags...)...).succeeds(t, level+tc.want+"\n")
	}
	changesNothing(t, c)
}

func TestInstallPreflight(t *testing.T) {
	c := testkit.Cluster(t)
	for rule, tc := range map[string]struct {
		args []string
		want string
	}{
		"a pod CIDR that is none":                   {installArgs("--pod-cidr", "10.200.0.0"), `--pod-cidr: invalid address range "10.200.0.0"`},
		"a pod CIDR with host bits":                 {[]string{"install", "--pod-cidr", "10.200.1.0/16", "--service-cidr", serviceCIDR}, `did you mean "10.200.0.0/16"?`},
		"overlapping pod CIDRs":                     {installArgs("--pod-cidr", "10.200.128.0/17"), "10.200.0.0/16 and 10.200.128.0/17 overlap"},
		"pods and services in one range":            {installArgs("--pod-cidr", "10.0.0.0/8"), "overlap"},
		"no CIDRs at all":                           {[]string{"install"}, "--pod-cidr and --service-cidr are required"},
		"a service CIDR without the services":       {installArgs("--service-cidr", "10.99.0.0/16"), `validating Service CIDR "10.99.0.0/16": service default/kubernetes has cluster IP 10.96.0.1, which is outside`},
		"two service CIDRs":                         {installArgs("--service-cidr", serviceCIDR+",10.99.0.0/16"), `"` + serviceCIDR + `,10.99.0.0/16" is more than one`},
		"a cluster ID that is no label":             {installArgs("--cluster-id", "No_Label"), `validating cluster id: "No_Label"`},
		"an API server on this machine":             {installArgs("--api-server-url", "https://localhost:6443"), "peers cannot reach a cluster at localhost"},
		"an API server that is another":             {installArgs("--api-server-url", "https://10.1.2.3:6443"), "does not match the kubeconfig one"},
		"an API server on this machine, as a value": {installArgs("--set", "apiServer.address=https://127.0.0.1:6443"), "peers cannot reach a cluster at 127.0.0.1"},
		"an API server that is another, as a value": {installArgs("--set", "apiServer.address=https://10.1.2.3:6443"), "does not match the kubeconfig one"},
		"a pod CIDR that is none, as a value":       {installArgs("--set", "ipam.podCIDRs={bad}"), `the pod CIDR "bad" is not an address range`},
		"overlapping pod CIDRs, as a value":         {installArgs("--set", "ipam.podCIDRs={10.200.0.0/16,10.200.1.0/24}"), "overlap"},
		"a service CIDR without the services, in a file": {
			installArgs("--values", valuesFile(t, "ipam: {serviceCIDR: 10.99.0.0/16}")), "kubernetes has cluster IP 10.96.0.1, which is outside",
		},
		"no pod CIDR, as a value":                    {installArgs("--set", "ipam.podCIDRs=null"), "the values take away ipam.podCIDRs"},
		"a reserved subnet that is none, as a value": {installArgs("--set", "ipam.reservedSubnets={10.0.0.1/8}"), `did you mean "10.0.0.0/8"?`},
		"a cluster ID that is no label, as a value":  {installArgs("--set", "discovery.config.clusterID=No_Label"), `'No_Label' does not match pattern`},
		"values that the schema refuses":             {installArgs("--set", "controllerManager.replicas=many"), "the values are not valid"},
		"an image of the original":                   {installArgs("--set", "controllerManager.image.name=ghcr.io/liqotech/liqo-controller-manager"), "another distribution"},
		"a file of values that is not there":         {installArgs("--values", "/nowhere.yaml"), "reading the values in /nowhere.yaml"},
		"kubeadm on a cluster it did not make":       {[]string{"install", "kubeadm"}, "this cluster was not made by kubeadm"},
		"a dump path without dumping":                {installArgs("--dump-values-path", "x"), "--dump-values-path is only valid with --only-output-values"},
		"a repository, because the chart is here":    {installArgs("--repo-url", "https://example.com"), "--repo-url is not supported"},
	} {
		t.Run(rule, func(t *testing.T) {
			liqoctl(t, c.Config, tc.args...).refuses(t, tc.want)
		})
	}
	changesNothing(t, c)
}

func valuesFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A value that is right counts, not the flag that it replaces.
func TestInstallValueOverFlag(t *testing.T) {
	c := testkit.Cluster(t)
	liqoctl(t, c.Config, installArgs("--dry-run", "--service-cidr", "10.99.0.0/16", "--set", "ipam.serviceCIDR="+serviceCIDR)...).succeeds(t)
	liqoctl(t, c.Config, installArgs("--dry-run", "--set", "ipam.serviceCIDR=10.99.0.0/16", "--skip-validation")...).succeeds(t)
}

func TestInstallPodCIDR(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "cidr", nil)
	pod := ctltest.Create(t, c, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	})
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.201.0.7", PodIPs: []corev1.PodIP{{IP: "10.201.0.7"}}}
	if err := c.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	liqoctl(t, c.Config, installArgs("--dry-run")...).refuses(t,
		`validating Pod CIDRs "10.200.0.0/16": pod `+ns+`/web has IP 10.201.0.7, which is outside`)
	liqoctl(t, c.Config, installArgs("--dry-run", "--pod-cidr", "10.201.0.0/16")...).succeeds(t)
	liqoctl(t, c.Config, installArgs("--dry-run", "--skip-validation")...).succeeds(t)
}

func TestInstallKubeadm(t *testing.T) {
	c := testkit.Cluster(t)
	ctltest.Create(t, c, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubeadm-config"},
		Data:       map[string]string{"ClusterConfiguration": "networking:\n  podSubnet: 10.210.0.0/16\n  serviceSubnet: fd00:96::/108," + serviceCIDR + "\n"},
	})
	path := filepath.Join(t.TempDir(), "values.yaml")
	r := liqoctl(t, c.Config, "install", "kubeadm", "--cluster-id", "cl-a", "--only-output-values", "--dump-values-path", path,
		"--cluster-labels", "region=eu,note=a=b", "--set", "ipam.reservedSubnets={192.168.0.0/16}")
	r.succeeds(t, `All Set! Chart values written to "`+path+`"`)
	if want := "have the address ranges fd00:96::/108," + serviceCIDR + ": Liqo takes " + serviceCIDR; !strings.Contains(r.stderr, want) {
		t.Errorf("nothing says %q:\n%s", want, r.stderr)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := yaml.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"tag":       "dev",
		"apiServer": map[string]any{"address": ""}, // the kubeconfig says 127.0.0.1
		"discovery": map[string]any{"config": map[string]any{
			"clusterID":     "cl-a",
			"clusterLabels": map[string]any{"region": "eu", "note": "a=b", "liqo.io/provider": "kubeadm"},
		}},
		"ipam": map[string]any{
			"podCIDRs": []any{"10.210.0.0/16"}, "serviceCIDR": serviceCIDR, "reservedSubnets": []any{"192.168.0.0/16"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the values: %v %v", info.Mode(), err)
	}
	changesNothing(t, c)
}

func TestInstallReplicas(t *testing.T) {
	c := testkit.Cluster(t)
	chosen := func(more ...string) any {
		t.Helper()
		path := filepath.Join(t.TempDir(), "values.yaml")
		liqoctl(t, c.Config, installArgs(append(more, "--disable-kernel-version-check", "--only-output-values", "--dump-values-path", path)...)...).succeeds(t)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			ControllerManager struct{ Replicas any }
		}
		if err := yaml.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		return got.ControllerManager.Replicas
	}
	node := func(name string, edit func(*corev1.Node)) {
		t.Helper()
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		edit(n)
		ctltest.Create(t, c, n)
		ready := n.DeepCopy() // the API server taints new nodes as not ready
		edit(ready)
		if err := c.Client.Update(t.Context(), ready); err != nil {
			t.Fatal(err)
		}
	}
	node("one", func(n *corev1.Node) { n.Spec.Taints = nil })
	node("cordoned", func(n *corev1.Node) { n.Spec.Taints, n.Spec.Unschedulable = nil, true })
	node("controls", func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
	})
	node("virtual", func(n *corev1.Node) { n.Spec.Taints, n.Labels = nil, map[string]string{"liqo.io/type": "virtual-node"} })
	if got := chosen(); got != nil {
		t.Errorf("one node: %v", got)
	}
	node("two", func(n *corev1.Node) { n.Spec.Taints = nil })
	if got := chosen(); got != 2.0 {
		t.Errorf("two nodes: %v", got)
	}
	if got := chosen("--set", "controllerManager.replicas=1"); got != 1.0 {
		t.Errorf("two nodes, and a user who wants one: %v", got)
	}
	liqoctl(t, c.Config, installArgs("--disable-kernel-version-check", "--dry-run")...).succeeds(t) // the schema takes it
}

func TestInstallMissingPermissions(t *testing.T) {
	c := testkit.Cluster(t)
	ctltest.Create(t, c, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "ctl-test-reader"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}},
		},
	})
	bind(t, c, "ctl-test-reader", "reader")
	r := liqoctl(t, c.User(t, "reader"), installArgs()...)
	r.refuses(t, "you are not allowed to create ", "create clusterroles.rbac.authorization.k8s.io", "create secrets in namespace liqo", "cluster-admin")
	if strings.Contains(r.stderr, "get clusterroles") {
		t.Errorf("rights that are there are listed:\n%s", r.stderr)
	}
	changesNothing(t, c)
}

func TestInstallReadForbidden(t *testing.T) {
	c := testkit.Cluster(t)
	r := liqoctl(t, c.User(t, "stranger"), installArgs()...)
	r.refuses(t, "you are not allowed to get customresourcedefinitions.apiextensions.k8s.io, list configmaps, list daemonsets.apps, list deployments.apps, "+
		"list nodes, list pods, list secrets in namespace liqo, list services", "cluster-admin")
	changesNothing(t, c)
}

func TestInstallGrantForbidden(t *testing.T) {
	c := testkit.Cluster(t)
	ctltest.Create(t, c, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "ctl-test-almost"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
		}},
	})
	bind(t, c, "ctl-test-almost", "almost")
	liqoctl(t, c.User(t, "almost"), installArgs()...).refuses(t, "you are not allowed to grant what ClusterRole")
	changesNothing(t, c)
}

func bind(t *testing.T, c *testkit.ControlPlane, role, user string) {
	t.Helper()
	ctltest.Create(t, c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
	})
}

func TestInstallUnreachable(t *testing.T) {
	nobody := &rest.Config{Host: "https://127.0.0.1:1"}
	liqoctl(t, nobody, installArgs()...).refuses(t,
		"the API server cannot be reached: the connection to the server https://127.0.0.1:1 was refused", "Check --kubeconfig and --context")
}

func TestInstallOtherInstallation(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "other", nil)
	id := ctltest.Create(t, c, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "liqo-clusterid-configmap", Labels: map[string]string{"app.kubernetes.io/name": "clusterid-configmap"}},
		Data:       map[string]string{"CLUSTER_ID": "cl-old"},
	})
	liqoctl(t, c.Config, installArgs()...).refuses(t, `liqo is already installed in namespace "`+ns+`"`, "add -n "+ns)
	liqoctl(t, c.Config, installArgs("-n", ns)...).refuses(t, `this cluster already has the cluster ID "cl-old": changing it to "cl-test" is not allowed`)
	liqoctl(t, c.Config, "install", "--pod-cidr", "10.200.0.0/16", "--service-cidr", serviceCIDR, "-n", ns, "--set", "discovery.config.clusterID=cl-x").
		refuses(t, `changing it to "cl-x" is not allowed`)
	if err := c.Client.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	ctltest.Create(t, c, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "liqo-controller-manager"}})
	liqoctl(t, c.Config, installArgs()...).refuses(t, `ClusterRole "liqo-controller-manager" exists already and does not belong to this installation`)
}

func TestInstallOriginal(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "original", nil)
	for rule, d := range map[string]struct{ name, image string }{
		"known by its registry":    {"liqo-controller-manager", "ghcr.io/liqotech/liqo-controller-manager:v1.2.0"},
		"known by what it runs":    {"liqo-ipam", "mirror.example.com/ipam:v1.2.0"},
		"known by its own webhook": {"liqo-webhook", "mirror.example.com/webhook:v1.2.0"},
	} {
		t.Run(rule, func(t *testing.T) {
			labels := map[string]string{"app.kubernetes.io/part-of": "liqo"}
			ctltest.Create(t, c, &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: d.name, Labels: labels},
				Spec: appsv1.DeploymentSpec{
					Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: labels},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: d.image}}},
					},
				},
			})
			liqoctl(t, c.Config, installArgs()...).refuses(t, "this cluster runs liqotech's Liqo", ns+"/"+d.name, "liqoctl uninstall --purge")
		})
	}
}

func TestInstallKernelVersion(t *testing.T) {
	c := testkit.Cluster(t)
	node := ctltest.Create(t, c, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old", Labels: map[string]string{"liqo.io/type": "virtual-node"}}})
	node.Status.NodeInfo.KernelVersion = "4.19.0-27-amd64"
	if err := c.Client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	liqoctl(t, c.Config, installArgs("--dry-run")...).succeeds(t)
	node.Labels = nil
	if err := c.Client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	liqoctl(t, c.Config, installArgs("--dry-run")...).refuses(t, "kernel version 4.19.0-27-amd64 does not satisfy the minimum requirements 5.10.0")
	liqoctl(t, c.Config, installArgs("--dry-run", "--disable-kernel-version-check")...).succeeds(t)
}
