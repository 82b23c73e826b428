// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// action is what is between the braces of a template: in the roles of the chart only labels and comments.
var action = regexp.MustCompile(`(?s)\{\{.*?\}\}`)

// installRoles makes the ClusterRoles of a template of the chart.
func installRoles(t *testing.T, c *testkit.ControlPlane, file string) {
	t.Helper()
	data, err := os.ReadFile("../../deploy/chart/templates/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(action.ReplaceAllString(string(data), ""), "\n---\n") {
		role := &rbacv1.ClusterRole{}
		if err := yaml.Unmarshal([]byte(document), role); err != nil {
			t.Fatalf("reading %s: %v", file, err)
		}
		if role.Kind != "ClusterRole" || !strings.Contains(role.Name, "virtual-kubelet") {
			continue
		}
		if err := c.Client.Create(t.Context(), role); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

func (s *testEnv) bind(c *testkit.ControlPlane, namespace, role string, subject rbacv1.Subject) {
	s.t.Helper()
	meta := metav1.ObjectMeta{Name: s.tenant + "-" + role, Namespace: namespace}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	if namespace == "" {
		s.create(c, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: []rbacv1.Subject{subject}})
		return
	}
	s.create(c, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: []rbacv1.Subject{subject}})
}

// tenantRole gives what the controller of virtual nodes gives for the tenant namespace.
func (s *testEnv) tenantRole(subject rbacv1.Subject) {
	s.t.Helper()
	vn := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: s.node, Namespace: s.tenant}}
	vn.Spec.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "kubeconfig"}
	meta := metav1.ObjectMeta{Name: s.node, Namespace: s.tenant}
	s.create(s.consumer, &rbacv1.Role{ObjectMeta: meta, Rules: policy.KubeletInTenant(vn)})
	s.create(s.consumer, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}, Subjects: []rbacv1.Subject{subject},
	})
}

// chartRights leaves both processes with what the chart gives to a virtual kubelet and to a slice.
func (s *testEnv) chartRights() {
	s.t.Helper()
	testkit.ProcessRole(s.t, s.consumer, names.RoleVirtualKubeletLocal, "virtual-kubelet", "")
	testkit.ProcessRole(s.t, s.consumer, names.RoleVirtualKubeletNamespace, "virtual-kubelet", "offloaded")
	installRoles(s.t, s.provider, "roles-peers.yaml")

	s.create(s.consumer, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: s.node, Namespace: s.tenant}})
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: s.node, Namespace: s.tenant}
	s.bind(s.consumer, "", names.RoleVirtualKubeletLocal, account)
	s.tenantRole(account)
	s.bind(s.consumer, s.local, names.RoleVirtualKubeletNamespace, account)
	s.bind(s.provider, s.remoteNamespace, names.RoleVirtualKubeletRemote, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "slice-1"})

	clients, err := kubernetes.NewForConfig(s.consumer.Config)
	if err != nil {
		s.t.Fatal(err)
	}
	token, err := clients.CoreV1().ServiceAccounts(s.tenant).CreateToken(s.t.Context(), s.node, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.options.Config = &rest.Config{
		Host: s.consumer.Config.Host, BearerToken: token.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: s.consumer.Config.CAData},
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "kubeconfig", Namespace: s.tenant}}
	eventually(s, s.consumer, secret, exists)
	secret.Data[names.KubeconfigKey] = testkit.Kubeconfig(s.t, s.provider.User(s.t, "slice-1", "rome"))
	if err := s.consumer.Client.Update(s.t.Context(), secret); err != nil {
		s.t.Fatal(err)
	}
}

// TestChartPermissions lives through a pod's life with what the chart gives to a virtual kubelet and to a slice.
func TestChartPermissions(t *testing.T) {
	s := newTestEnv(t, func(o *Options) {
		electing(o)
		o.APIServerSupport, o.APIServerHost, o.APIServerPort = true, "192.0.2.1", 6443
	})
	s.chartRights()
	s.run()
	eventually(s, s.consumer, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}, nodeReady(corev1.ConditionTrue))
	s.create(s.consumer, configMap(s.local, "settings", map[string]string{"a": "1"}))
	eventually(s, s.provider, configMap(s.remoteNamespace, "settings", nil), exists)
	s.create(s.consumer, serviceOf(s.local, "web"))
	s.create(s.consumer, localSlice(s.local, "web", "web", at("worker", "192.0.2.7")))
	eventually(s, s.provider, serviceOf(s.remoteNamespace, "web"), exists)
	eventually(s, s.provider, shadowSlice(s.remoteNamespace, "web"), asksFor("192.0.2.7"))
	s.pod(s.local, "web")
	remote := s.runRemotely(eventually(s, s.provider, s.shadow("web"), exists), "10.7.0.9")
	eventually(s, s.provider, s.tokens("web"), exists)
	eventually(s, s.consumer, s.localPod("web"), phaseIs(corev1.PodRunning))
	s.event(s.localPod("web"), "SuccessfulReflection", "milan")
	if err := s.consumer.Client.Delete(t.Context(), s.localPod("web")); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	s.waitUntilDeleted(s.provider, s.shadow("web"))
	s.deleteNow(s.provider, remote)
	s.waitUntilDeleted(s.consumer, s.localPod("web"))
	s.deleteNow(s.consumer, configMap(s.local, "settings", nil))
	s.waitUntilDeleted(s.provider, configMap(s.remoteNamespace, "settings", nil))
	s.deleteNow(s.consumer, serviceOf(s.local, "web"))
	s.waitUntilDeleted(s.provider, serviceOf(s.remoteNamespace, "web"))
	s.deleteNow(s.consumer, localSlice(s.local, "web", "web"))
	s.waitUntilDeleted(s.provider, shadowSlice(s.remoteNamespace, "web"))

	s.step("elsewhere a pod may go, too", func() {
		other := testkit.Namespace(s.t, s.consumer, "other", nil)
		pod := s.pod(other, "stranger")
		eventually(s, s.consumer, pod, reasonIs("OffloadingBackOff"))
		if err := s.consumer.Client.Delete(s.t.Context(), pod); err != nil {
			s.t.Fatal(err)
		}
		s.waitUntilDeleted(s.consumer, pod)
	})
	s.step("the kubelet API knows its clients", func() {
		url := fmt.Sprintf("https://127.0.0.1:%d/pods", s.options.ListenPort)
		testkit.Eventually(s.t, limit, func() error {
			if status, body := ask(s.t, clientOf(s.t, s.consumer.Config), "GET", url); status != 200 {
				return fmt.Errorf("an administrator gets %d %s", status, body)
			}
			return nil
		})
		if status, _ := ask(s.t, clientOf(s.t, s.options.Config), "GET", url); status != 403 {
			s.t.Errorf("its own account gets %d", status)
		}
	})
}

// TestChartPermissionsUsedByPods has pods of other nodes refer to the same object.
func TestChartPermissionsUsedByPods(t *testing.T) {
	s := newTestEnv(t, func(o *Options) { o.ConfigMaps.Type = translate.UsedByPods })
	s.chartRights()
	uses := func(name, node, settings string) *corev1.Pod {
		pod := s.newPod(s.local, name)
		pod.Spec.NodeName = node
		pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: settings}}},
		}
		return pod
	}
	another := &offv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: s.node + "-b", Namespace: s.tenant}, Spec: offv1beta1.VirtualNodeSpec{ClusterID: s.providerID},
	}
	s.create(s.consumer, another)
	for _, settings := range []string{"both", "elsewhere", "nowhere"} {
		s.create(s.consumer, configMap(s.local, settings, nil))
		s.create(s.consumer, uses("a-"+settings, "an-ordinary-node", settings))
	}
	s.create(s.consumer, uses("web", s.node, "both"))
	s.create(s.consumer, uses("other", another.Name, "elsewhere"))
	var one atomic.Int32 // questions about the node of one pod
	s.options.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			if _, node, ok := strings.Cut(req.URL.Path, "/virtualnodes/"); ok && node != s.node {
				one.Add(1)
			}
			return next.RoundTrip(req)
		})
	})
	s.run()
	eventually(s, s.provider, configMap(s.remoteNamespace, "both", nil), exists)
	eventually(s, s.provider, configMap(s.remoteNamespace, "elsewhere", nil), exists)
	s.absent(s.provider, configMap(s.remoteNamespace, "nowhere", nil))
	if one.Load() > 0 {
		t.Errorf("%d nodes were asked for, one by one", one.Load())
	}
}
