// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

const owner = client.FieldOwner("chart")

// install applies the roles and policies of the chart, and waits until the policies are enforced.
func install(t *testing.T) *testkit.ControlPlane {
	t.Helper()
	c := testkit.Cluster(t)
	for _, obj := range mustRender(t, values{}).objects {
		switch obj.GetKind() {
		case "ClusterRole", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			if err := c.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj), owner, client.ForceOwnership); err != nil {
				t.Fatal(err)
			}
		}
	}
	ns := testkit.Namespace(t, c, "enforced", nil)
	testkit.Eventually(t, 3*time.Minute, func() error {
		tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probe"}}
		tenant.Spec.ClusterID = "milan"
		return refused(c.Client.Create(t.Context(), tenant, client.DryRunAll), "must be in a tenant namespace")
	})
	return c
}

// refused is nil if err is a refusal with that text.
func refused(err error, text string) error {
	switch {
	case err == nil:
		return errors.New("was accepted")
	case !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err), !strings.Contains(err.Error(), text):
		return fmt.Errorf("was refused otherwise: %w", err)
	}
	return nil
}

func expect(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "":
		if err := refused(err, want); err != nil {
			t.Error(err)
		}
	}
}

func clientOf(t testing.TB, cfg *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(cfg, client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// bind gives a user a ClusterRole of the chart in a namespace, everywhere if it is "".
func bind(t testing.TB, c *testkit.ControlPlane, namespace, role, user string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, GenerateName: "test-"}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	var obj client.Object = &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	if namespace == "" {
		obj = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	}
	if err := c.Client.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), obj) })
}

// rights waits until the API server has seen what a user may do.
func rights(t testing.TB, try func() error) {
	t.Helper()
	testkit.Eventually(t, 3*time.Minute, func() error {
		if err := try(); err != nil && !strings.Contains(err.Error(), "not found") {
			return err
		}
		return nil
	})
}

func tenantNamespace(t testing.TB, c *testkit.ControlPlane, id string) string {
	t.Helper()
	return testkit.Namespace(t, c, "tenant", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: id})
}

func slice(namespace, name string, labels map[string]string) *authv1beta1.ResourceSlice {
	return &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
}

func replicaOf(id string) map[string]string {
	return map[string]string{names.Replicated: "true", names.ReplicationOrigin: id, names.RemoteClusterID: id, names.Replication: "false"}
}

func TestReplicasPolicyOnCreation(t *testing.T) {
	c := install(t)
	ns, stray := tenantNamespace(t, c, "milan"), testkit.Namespace(t, c, "stray", nil)
	peer, plain := clientOf(t, c.User(t, "peer-create")), clientOf(t, c.User(t, "plain-create"))
	bind(t, c, ns, names.RoleRemoteControlPlane, "peer-create")
	bind(t, c, stray, names.RoleRemoteControlPlane, "peer-create")
	editor := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "slice-editor"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{authv1beta1.GroupName}, Resources: []string{authv1beta1.ResourceSliceResource}, Verbs: []string{"create", "get", "update"},
	}}}
	if err := c.Client.Create(t.Context(), editor); err != nil {
		t.Fatal(err)
	}
	bind(t, c, ns, editor.Name, "plain-create")
	for _, user := range []client.Client{peer, plain} {
		rights(t, func() error {
			return user.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "x"}, &authv1beta1.ResourceSlice{})
		})
	}
	with := func(m map[string]string, key, value string) map[string]string {
		m[key] = value
		return m
	}
	finalized := slice(ns, "s", replicaOf("milan"))
	finalized.Finalizers = []string{"example.com/x"}
	owned := slice(ns, "s", replicaOf("milan"))
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "y"}}
	for name, tc := range map[string]struct {
		user client.Client
		obj  client.Object
		want string
	}{
		"a peer makes a replica of its own":      {peer, slice(ns, "s", replicaOf("milan")), ""},
		"a peer makes a local object":            {peer, slice(ns, "s", nil), "may only create replicas of its own"},
		"a peer speaks for another cluster":      {peer, slice(ns, "s", replicaOf("rome")), "may only create replicas of its own"},
		"a peer mixes labels":                    {peer, slice(ns, "s", with(replicaOf("milan"), names.RemoteClusterID, "rome")), "may only create replicas of its own"},
		"a peer writes where no peering is":      {peer, slice(stray, "s", replicaOf("")), "may only create replicas of its own"},
		"a peer sets a finalizer":                {peer, finalized, "may not touch finalizers"},
		"a peer sets an owner":                   {peer, owned, "may not touch finalizers and owners"},
		"a user makes a local object":            {plain, slice(ns, "s", nil), ""},
		"a user forges a replica":                {plain, slice(ns, "s", replicaOf("milan")), "only a peer may create"},
		"an administrator makes a local object":  {c.Client, slice(ns, "s", nil), ""},
		"an administrator may do what others do": {c.Client, slice(ns, "s", replicaOf("milan")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, tc.user.Create(t.Context(), tc.obj, client.DryRunAll), tc.want)
		})
	}
}

// Keys that mean something to us are the same to the policy.
func TestReplicasPolicyKeys(t *testing.T) {
	data, err := os.ReadFile("chart/templates/policy-replicas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(data), "- name: ownKeys")
	list, _, ended := strings.Cut(list, "validations:")
	if !found || !ended {
		t.Fatal("the policy has no list of keys")
	}
	var got []string
	for _, match := range regexp.MustCompile(`'(liqo\.io/[^']+)'`).FindAllStringSubmatch(list, -1) {
		got = append(got, match[1])
	}
	if diff := cmp.Diff(names.Known(), got); diff != "" {
		t.Error(diff)
	}
}

func TestReplicasPolicyOnChange(t *testing.T) {
	c := install(t)
	ns := tenantNamespace(t, c, "milan")
	peer := clientOf(t, c.User(t, "peer-change"))
	bind(t, c, ns, names.RoleRemoteControlPlane, "peer-change")
	rights(t, func() error {
		return peer.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "x"}, &authv1beta1.ResourceSlice{})
	})

	for _, s := range []*authv1beta1.ResourceSlice{slice(ns, "local", nil), slice(ns, "other", replicaOf("rome")), slice(ns, "mine", replicaOf("milan"))} {
		s.Annotations = map[string]string{names.Cordon: "true", names.CreateVirtualNode: "true"}
		s.Finalizers = []string{"example.com/kept"}
		if err := c.Client.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Client.Patch(context.Background(), s, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
		})
	}
	for name, tc := range map[string]struct {
		user  client.Client
		name  string
		patch string
		want  string
	}{
		"a peer changes its own":            {peer, "mine", `{"spec":{"class":"gold"}}`, ""},
		"a peer labels its own":             {peer, "mine", `{"metadata":{"labels":{"tier":"gold"}}}`, ""},
		"a peer annotates its own":          {peer, "mine", `{"metadata":{"annotations":{"liqo.io/create-virtual-node":"false"}}}`, ""},
		"a peer changes a local object":     {peer, "local", `{"spec":{"class":"gold"}}`, "only change and delete replicas of its own"},
		"a peer changes another's":          {peer, "other", `{"spec":{"class":"gold"}}`, "only change and delete replicas of its own"},
		"a peer adopts a local object":      {peer, "local", `{"metadata":{"labels":{"liqo.io/replicated":"true"}}}`, "never change"},
		"a peer changes who it is":          {peer, "mine", `{"metadata":{"labels":{"liqo.io/remote-cluster-id":"rome"}}}`, "may not change labels of liqo.io"},
		"a peer removes a label of Liqo":    {peer, "mine", `{"metadata":{"labels":{"liqo.io/replication":null}}}`, "may not change labels of liqo.io"},
		"a peer adds a label of Liqo":       {peer, "mine", `{"metadata":{"labels":{"offloading.liqo.io/x":"y"}}}`, "may not change labels of liqo.io"},
		"a peer adds a label of its user":   {peer, "mine", `{"metadata":{"labels":{"liqo.io/ownership":"Shared"}}}`, ""},
		"a domain that ends alike is free":  {peer, "mine", `{"metadata":{"labels":{"notliqo.io/x":"y"}}}`, ""},
		"a peer lifts its cordon":           {peer, "mine", `{"metadata":{"annotations":{"liqo.io/cordon":null}}}`, "cordoned"},
		"a peer denies its cordon":          {peer, "mine", `{"metadata":{"annotations":{"liqo.io/cordon":"false"}}}`, "cordoned"},
		"a peer cordons the tenant":         {peer, "mine", `{"metadata":{"annotations":{"liqo.io/cordon-tenant":"true"}}}`, "cordoned"},
		"a peer removes a finalizer":        {peer, "mine", `{"metadata":{"finalizers":null}}`, "may not touch finalizers"},
		"a peer grants itself what it asks": {peer, "mine", `{"status":{"resources":{"cpu":"100"}}}`, "cannot patch resource \"resourceslices/status\""},
		"an administrator lifts the cordon": {c.Client, "mine", `{"metadata":{"annotations":{"liqo.io/cordon":null}}}`, ""},
		"an administrator changes a label":  {c.Client, "mine", `{"metadata":{"labels":{"liqo.io/replicated":"false"}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			patch := client.RawPatch("application/merge-patch+json", []byte(tc.patch))
			var err error
			if strings.HasPrefix(tc.patch, `{"status"`) {
				err = tc.user.Status().Patch(t.Context(), slice(ns, tc.name, nil), patch, &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}})
			} else {
				err = tc.user.Patch(t.Context(), slice(ns, tc.name, nil), patch, client.DryRunAll)
			}
			expect(t, err, tc.want)
		})
	}
	expect(t, peer.Delete(t.Context(), slice(ns, "local", nil), client.DryRunAll), "only change and delete replicas of its own")
	expect(t, peer.Delete(t.Context(), slice(ns, "mine", nil), client.DryRunAll), "")
}

func TestTenantsPolicy(t *testing.T) {
	c := install(t)
	ns, unmarked := tenantNamespace(t, c, "milan"), testkit.Namespace(t, c, "plain", map[string]string{names.RemoteClusterID: "milan"})
	for name, tc := range map[string]struct {
		namespace, id string
		labels        map[string]string
		want          string
	}{
		"the cluster of the namespace":    {ns, "milan", nil, ""},
		"the same in the label":           {ns, "milan", map[string]string{names.RemoteClusterID: "milan"}, ""},
		"another cluster":                 {ns, "rome", nil, "of the namespace"},
		"another cluster in the label":    {ns, "milan", map[string]string{names.RemoteClusterID: "rome"}, "must be spec.clusterID"},
		"no cluster":                      {ns, "", nil, "spec.clusterID is required"},
		"a namespace that is no tenant's": {unmarked, "milan", nil, "must be in a tenant namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Name: "t", Labels: tc.labels}}
			if tc.id != "" {
				tenant.Spec.ClusterID = "milan"
				if tc.id == "rome" {
					tenant.Spec.ClusterID = "rome"
				}
			}
			expect(t, c.Client.Create(t.Context(), tenant, client.DryRunAll), tc.want)
		})
	}
}

func TestVirtualKubeletsPolicy(t *testing.T) {
	c := install(t)
	home := tenantNamespace(t, c, "milan")
	user := "system:serviceaccount:" + home + ":gold"
	vk := clientOf(t, c.User(t, user, "system:serviceaccounts", "system:serviceaccounts:"+home, "system:authenticated"))
	bind(t, c, "", names.RoleVirtualKubeletLocal, user)
	rights(t, func() error { return vk.Get(t.Context(), client.ObjectKey{Name: "x"}, &corev1.Node{}) })

	node := func(name, kind string, taints ...corev1.Taint) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}, Spec: corev1.NodeSpec{Taints: taints}}
		if kind != "" {
			n.Labels[names.NodeType] = kind
		}
		return n
	}
	taint := corev1.Taint{Key: names.VirtualNodeTaint, Value: "true", Effect: corev1.TaintEffectNoExecute}
	master := node("gold", names.NodeTypeVirtualNode, taint)
	master.Labels["node-role.kubernetes.io/control-plane"] = ""
	for name, tc := range map[string]struct {
		node *corev1.Node
		want string
	}{
		"its own node":                  {node("gold", names.NodeTypeVirtualNode, taint), ""},
		"a node of another name":        {node("silver", names.NodeTypeVirtualNode, taint), "its own node"},
		"a node that looks physical":    {node("gold", "", taint), "keeps the label"},
		"a node that everybody may use": {node("gold", names.NodeTypeVirtualNode), "keeps the taint"},
		"a control-plane node":          {master, "no control-plane node"},
	} {
		t.Run("creates "+name, func(t *testing.T) { expect(t, vk.Create(t.Context(), tc.node, client.DryRunAll), tc.want) })
	}

	if err := c.Client.Create(t.Context(), node("worker", "")); err != nil {
		t.Fatal(err)
	}
	if err := vk.Create(t.Context(), node("gold", names.NodeTypeVirtualNode, taint)); err != nil {
		t.Fatal(err)
	}
	merge := func(text string) client.Patch { return client.RawPatch("application/merge-patch+json", []byte(text)) }
	dry := &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}}
	expect(t, vk.Patch(t.Context(), node("gold", ""), merge(`{"metadata":{"labels":{"tier":"gold"}}}`), client.DryRunAll), "")
	expect(t, vk.Patch(t.Context(), node("gold", ""), merge(`{"spec":{"taints":null}}`), client.DryRunAll), "keeps the taint")
	expect(t, vk.Patch(t.Context(), node("worker", ""), merge(`{"metadata":{"labels":{"tier":"gold"}}}`), client.DryRunAll), "its own node")
	expect(t, vk.Delete(t.Context(), node("worker", ""), client.DryRunAll), "cannot delete resource")
	expect(t, vk.Status().Patch(t.Context(), node("gold", ""), merge(`{"status":{"phase":"Running"}}`), dry), "")
	expect(t, vk.Status().Patch(t.Context(), node("worker", ""), merge(`{"status":{"phase":"Running"}}`), dry), "its own node")
	podsOfOtherNodes(t, c, vk, home)
	statusOfClaims(t, c, vk, user)
	leasesOfOthers(t, vk, home)
	eventsAboutOthers(t, c, vk, home, user)
	tokensOfOthers(t, c, vk, user)
}

// statusOfClaims is what a provider reports, and nothing that has Kubernetes take a claim for bound.
func statusOfClaims(t *testing.T, c *testkit.ControlPlane, vk client.Client, user string) {
	t.Helper()
	served := testkit.Namespace(t, c, "served", nil)
	bind(t, c, served, names.RoleVirtualKubeletNamespace, user)
	rights(t, func() error {
		return vk.List(t.Context(), &corev1.PersistentVolumeClaimList{}, client.InNamespace(served))
	})
	claim := claimOf(served, nil)
	testkit.Create(t, c.Client, claim)
	for name, tc := range map[string]struct {
		edit func(*corev1.PersistentVolumeClaim)
		want string
	}{
		"its capacity": {func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = c.Spec.Resources.Requests }, ""},
		"its phase":    {func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }, "may only write the capacity"},
		"its labels":   {func(c *corev1.PersistentVolumeClaim) { c.Labels["app"] = "web" }, "may only write the capacity"},
	} {
		t.Run("of a claim "+name, func(t *testing.T) {
			edited := claim.DeepCopy()
			tc.edit(edited)
			expect(t, vk.Status().Update(t.Context(), edited, &client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}}}), tc.want)
		})
	}
	expect(t, vk.Update(t.Context(), claim), "cannot update resource")
}

// tokensOfOthers are those that are not bound to a pod.
func tokensOfOthers(t *testing.T, c *testkit.ControlPlane, vk client.Client, user string) {
	t.Helper()
	served, other := testkit.Namespace(t, c, "served", nil), testkit.Namespace(t, c, "not-served", nil)
	bind(t, c, served, names.RoleVirtualKubeletNamespace, user)
	rights(t, func() error { return vk.List(t.Context(), &corev1.EventList{}, client.InNamespace(served)) })
	account := func(namespace string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "builder"}}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: served, Name: "web"}, Spec: corev1.PodSpec{
		ServiceAccountName: "builder", AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}}
	for _, obj := range []client.Object{account(served), account(other), pod} {
		if err := c.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	bound := &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	for name, tc := range map[string]struct {
		namespace string
		bound     *authenticationv1.BoundObjectReference
		want      string
	}{
		"bound to a pod":                    {served, bound, ""},
		"bound to nothing":                  {served, nil, "bound to pods"},
		"bound to a Secret":                 {served, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: "x"}, "bound to pods"},
		"in a namespace that is not served": {other, bound, "cannot create resource"},
	} {
		t.Run("a token "+name, func(t *testing.T) {
			request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: tc.bound}}
			expect(t, vk.SubResource("token").Create(t.Context(), account(tc.namespace), request), tc.want)
		})
	}
}

func eventsAboutOthers(t *testing.T, c *testkit.ControlPlane, vk client.Client, home, user string) {
	t.Helper()
	shop, otherNamespace := testkit.Namespace(t, c, "shop", nil), testkit.Namespace(t, c, "elsewhere", nil)
	bind(t, c, shop, names.RoleVirtualKubeletNamespace, user)
	rights(t, func() error { return vk.List(t.Context(), &corev1.EventList{}, client.InNamespace(shop)) })
	event := func(namespace, kind, name string) *corev1.Event {
		e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "e"}, Type: corev1.EventTypeNormal, Reason: "Test", Message: "test"}
		e.InvolvedObject = corev1.ObjectReference{Kind: kind, Name: name}
		if kind != "Node" {
			e.InvolvedObject.Namespace = namespace
		}
		return e
	}
	const foreign = "may only write events about"
	for name, tc := range map[string]struct {
		event *corev1.Event
		want  string
	}{
		"its own node":                           {event("default", "Node", "gold"), ""},
		"another node":                           {event("default", "Node", "worker"), foreign},
		"its VirtualNode":                        {event(home, "VirtualNode", "gold"), ""},
		"another VirtualNode":                    {event(home, "VirtualNode", "silver"), foreign},
		"a VirtualNode of its name elsewhere":    {event(otherNamespace, "VirtualNode", "gold"), foreign},
		"a VirtualNode in a namespace it serves": {event(shop, "VirtualNode", "gold"), foreign},
		"its credentials":                        {event(home, "Secret", "kubeconfig"), ""},
		"a pod":                                  {event(otherNamespace, "Pod", "web"), ""},
		"a DaemonSet":                            {event(otherNamespace, "DaemonSet", "logs"), ""},
		"a ConfigMap in a namespace it serves":   {event(shop, "ConfigMap", "web"), ""},
		"an Ingress in a namespace it serves":    {event(shop, "Ingress", "web"), ""},
		"a ConfigMap elsewhere":                  {event(otherNamespace, "ConfigMap", "web"), foreign},
		"a Secret elsewhere":                     {event(otherNamespace, "Secret", "web"), foreign},
		"a Deployment elsewhere":                 {event("kube-system", "Deployment", "coredns"), foreign},
		"nothing that can be told":               {event(otherNamespace, "", ""), foreign},
	} {
		t.Run("an event about "+name, func(t *testing.T) { expect(t, vk.Create(t.Context(), tc.event, client.DryRunAll), tc.want) })
	}

	// The same by the other door to events.
	later := unstructuredOf(map[string]any{
		"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": map[string]any{"namespace": otherNamespace, "name": "e"},
		"eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "Test", "action": "Test", "reportingController": "example.com/x", "reportingInstance": "x",
		"regarding": map[string]any{"kind": "ConfigMap", "name": "web", "namespace": otherNamespace},
	})
	expect(t, vk.Create(t.Context(), later, client.DryRunAll), foreign)

	for name, of := range map[string]*corev1.Event{"others": event(otherNamespace, "ConfigMap", "web"), "its": event(otherNamespace, "Pod", "web")} {
		of.Name = name
		if err := c.Client.Create(t.Context(), of); err != nil {
			t.Fatal(err)
		}
	}
	merge := func(name, text string) error {
		patch := client.RawPatch("application/merge-patch+json", []byte(text))
		return vk.Patch(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: otherNamespace, Name: name}}, patch, client.DryRunAll)
	}
	expect(t, merge("its", `{"message":"again"}`), "")
	expect(t, merge("others", `{"message":"again"}`), foreign)
	expect(t, merge("others", `{"involvedObject":{"kind":"Pod"}}`), "stays about what it is about")
}

func podsOfOtherNodes(t *testing.T, c *testkit.ControlPlane, vk client.Client, namespace string) {
	t.Helper()
	for name, on := range map[string]string{"mine": "gold", "theirs": "worker"} {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"example.com/mine": "1"}}
		pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
			NodeName: on, AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{Name: "c", Image: "i"}},
		}}
		if err := c.Client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Running"}}`))
	dry := &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}}
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	expect(t, vk.Status().Patch(t.Context(), pod("mine"), status, dry), "")
	expect(t, vk.Status().Patch(t.Context(), pod("theirs"), status, dry), "pods of its own node")
	const owned = "only change the labels liqo.io/shadowPod and liqo.io/remote-unavailable"
	for patch, want := range map[string]string{
		`{"metadata":{"labels":{"liqo.io/remote-unavailable":"true"}},"status":{"phase":"Running"}}`: "",
		`{"metadata":{"labels":{"liqo.io/shadowPod":"true"}},"status":{"phase":"Running"}}`:          "",
		`{"metadata":{"labels":{"app":"other"}}}`:                                                    owned,
		`{"metadata":{"labels":{"app":null}}}`:                                                       owned,
		`{"metadata":{"labels":{"virtual":"true"}}}`:                                                 owned,
		`{"metadata":{"labels":{"empty":""}}}`:                                                       owned,
		`{"metadata":{"annotations":{"example.com/inject":"true"}}}`:                                 owned,
		`{"metadata":{"annotations":{"example.com/mine":null}}}`:                                     owned,
		`{"metadata":{"finalizers":["example.com/held"]}}`:                                           owned,
	} {
		t.Run(patch, func(t *testing.T) {
			expect(t, vk.Status().Patch(t.Context(), pod("mine"), client.RawPatch("application/merge-patch+json", []byte(patch)), dry), want)
		})
	}
	expect(t, vk.Delete(t.Context(), pod("mine"), client.DryRunAll), "")
	expect(t, vk.Delete(t.Context(), pod("theirs"), client.DryRunAll), "pods of its own node")
}

func leasesOfOthers(t *testing.T, vk client.Client, home string) {
	t.Helper()
	for name, tc := range map[string]struct{ namespace, name, want string }{
		"of its node":      {"kube-node-lease", "gold", ""},
		"at home":          {home, "whatever", ""},
		"of another node":  {"kube-node-lease", "worker", "its own leases"},
		"of another place": {"default", "gold", "its own leases"},
	} {
		lease := map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"namespace": tc.namespace, "name": tc.name}}
		t.Run("a lease "+name, func(t *testing.T) {
			expect(t, vk.Create(t.Context(), unstructuredOf(lease), client.DryRunAll), tc.want)
		})
	}
}

func unstructuredOf(content map[string]any) client.Object {
	return &unstructured.Unstructured{Object: content}
}
