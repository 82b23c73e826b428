// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const limit = 3 * time.Minute

// testEnv is a cluster with a namespace of the installation, where the templates are, and one with gateways.
type testEnv struct {
	*testing.T
	c           *testkit.ControlPlane
	liqo, where string
	options     GatewayOptions
	// rights are the controller-manager's.
	rights []rbacv1.PolicyRule
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	return beginIn(t, testkit.Cluster(t, testkit.WithControllers("garbage-collector-controller")))
}

func beginIn(t *testing.T, c *testkit.ControlPlane) *testEnv {
	t.Helper()
	s := &testEnv{T: t, c: c}
	s.liqo = testkit.Namespace(t, s.c, "liqo", nil)
	s.where = testkit.Namespace(t, s.c, "tenant", nil)
	s.options, s.rights = GatewayOptions{LiqoNamespace: s.liqo}, rights()
	testkit.ProcessRole(t, s.c, names.RoleTenantSecrets, "controller-manager", "tenant")
	t.Cleanup(func() { // the next story must not look after the gateways of this one
		for _, obj := range []client.Object{
			&networkingv1beta1.GatewayServer{}, &networkingv1beta1.GatewayClient{}, &networkingv1beta1.WgGatewayServer{}, &networkingv1beta1.WgGatewayClient{},
		} {
			_ = s.c.Client.DeleteAllOf(context.Background(), obj, client.InNamespace(s.where))
		}
	})
	return s
}

// rights are what the controllers need. Those for Secrets, and for writes of Leases and budgets, come with a gateway in its namespace.
func rights() []rbacv1.PolicyRule {
	const group = networkingv1beta1.GroupName
	read, write := []string{"get", "list", "watch"}, []string{"get", "list", "watch", "create", "patch"}
	bind := testkit.Rule(rbacv1.GroupName, "clusterroles", "bind")
	bind.ResourceNames = []string{names.RoleGateway, names.RoleGatewayReader, names.RoleTenantSecrets}
	var out []rbacv1.PolicyRule
	for _, kind := range []string{"gatewayservers", "gatewayclients"} {
		out = append(out, testkit.Rule(group, kind, read...), testkit.Rule(group, kind+"/status", "patch"),
			testkit.Rule(group, "wg"+kind, append(write, "delete")...), testkit.Rule(group, "wg"+kind+"/status", "patch"))
	}
	return append(out, bind,
		testkit.Rule(group, "connections", read...), testkit.Rule(group, "connections/status", "patch"),
		testkit.Rule(group, "wggatewayservertemplates", read...), testkit.Rule(group, "wggatewayclienttemplates", read...),
		testkit.Rule("apps", "deployments", append(write, "delete")...),
		testkit.Rule("", "services", write...), testkit.Rule("", "serviceaccounts", write...),
		testkit.Rule(rbacv1.GroupName, "rolebindings", append(write, "delete")...), testkit.Rule(rbacv1.GroupName, "clusterrolebindings", append(write, "delete")...),
		testkit.Rule("", "pods", append(read, "patch")...), testkit.Rule("", "nodes", read...),
		testkit.Rule(rbacv1.GroupName, "roles", "get", "create", "patch", "delete"),
		testkit.Rule("coordination.k8s.io", "leases", "list", "watch"), testkit.Rule("policy", "poddisruptionbudgets", "list", "watch"),
		testkit.Rule("discovery.k8s.io", "endpointslices", append(write, "delete")...),
		testkit.Rule("", "events", "create", "patch"), testkit.Rule("events.k8s.io", "events", "create", "patch"),
	)
}

// start lets the controllers work, with their rights alone, until the test ends.
func (s *testEnv) start() (stop func()) {
	s.Helper()
	user := "system:serviceaccount:" + s.liqo + ":" + names.ControllerManager
	testkit.Allow(s.T, s.c, "", user, s.rights...)
	return testkit.Manager(s.T, s.c.User(s.T, user), kube.ManagerOptions{Name: "gateways"}, func(mgr ctrl.Manager) error {
		return SetupGateways(mgr, s.options)
	})
}

func (s *testEnv) create(objs ...client.Object) {
	s.Helper()
	testkit.Create(s.T, s.c.Client, objs...)
}

func (s *testEnv) get(obj client.Object) error {
	return s.c.Client.Get(s.Context(), client.ObjectKeyFromObject(obj), obj)
}

func (s *testEnv) eventually(check func() error) {
	s.Helper()
	testkit.Eventually(s.T, limit, check)
}

// example is a template that users are given.
func example[T client.Object](s *testEnv, file string, into T) T {
	s.Helper()
	data, err := os.ReadFile("../../examples/networking/" + file)
	if err == nil {
		err = yaml.UnmarshalStrict(data, into)
	}
	if err != nil {
		s.Fatal(err)
	}
	into.SetNamespace(s.liqo)
	return into
}

func (s *testEnv) serverTemplate() *networkingv1beta1.WgGatewayServerTemplate {
	s.Helper()
	return example(s, "wireguard-server.yaml", &networkingv1beta1.WgGatewayServerTemplate{})
}

func (s *testEnv) clientTemplate() *networkingv1beta1.WgGatewayClientTemplate {
	s.Helper()
	return example(s, "wireguard-client.yaml", &networkingv1beta1.WgGatewayClientTemplate{})
}

func reference(kind string, of client.Object) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: networkingv1beta1.GroupVersion.String(), Kind: kind, Namespace: of.GetNamespace(), Name: of.GetName()}
}

func (s *testEnv) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.where, Name: name, Labels: map[string]string{names.RemoteClusterID: "rome"}}
}

func (s *testEnv) server(name string, of client.Object) *networkingv1beta1.GatewayServer {
	return &networkingv1beta1.GatewayServer{ObjectMeta: s.meta(name), Spec: networkingv1beta1.GatewayServerSpec{
		ServerTemplateRef: reference("WgGatewayServerTemplate", of), MTU: 1340,
		Endpoint: networkingv1beta1.Endpoint{Port: 51840, ServiceType: corev1.ServiceTypeNodePort},
	}}
}

func (s *testEnv) client(name string, of client.Object) *networkingv1beta1.GatewayClient {
	return &networkingv1beta1.GatewayClient{ObjectMeta: s.meta(name), Spec: networkingv1beta1.GatewayClientSpec{
		ClientTemplateRef: reference("WgGatewayClientTemplate", of), MTU: 1340,
		// No port that an API server may draw for a Service here: dumps name those.
		Endpoint: networkingv1beta1.EndpointStatus{Addresses: []string{"203.0.113.1"}, Port: 51841, Protocol: new(corev1.ProtocolUDP)},
	}}
}

// deployment waits for that of a gateway.
func (s *testEnv) deployment(name string) *appsv1.Deployment {
	s.Helper()
	out := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.where, Name: names.Gateway(name)}}
	s.eventually(func() error { return s.get(out) })
	return out
}

// run does what the Deployment controller, the scheduler and a kubelet would do with a gateway.
func (s *testEnv) run(name, ip, node string) *corev1.Pod {
	s.Helper()
	d := s.deployment(name)
	return s.runPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.where, GenerateName: d.Name + "-", Labels: d.Spec.Template.Labels},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "gateway", Image: "liqo", Args: d.Spec.Template.Spec.Containers[0].Args}}},
	}, ip)
}

// runPod makes a pod that runs.
func (s *testEnv) runPod(pod *corev1.Pod, ip string) *corev1.Pod {
	s.Helper()
	s.create(pod)
	s.Cleanup(func() { _ = s.c.Client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)) })
	testkit.UpdateStatus(s.T, s.c.Client, pod, func(p *corev1.Pod) {
		p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
	})
	return pod
}

// node makes one that is ready.
func (s *testEnv) node(address string) *corev1.Node {
	s.Helper()
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	s.create(out)
	s.Cleanup(func() { _ = s.c.Client.Delete(context.Background(), out) })
	testkit.UpdateStatus(s.T, s.c.Client, out, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
	return out
}

// wantReady expects the condition of a gateway to have a reason, and its message to have a text.
func (s *testEnv) wantReady(obj client.Object, reason, text string) {
	s.Helper()
	s.eventually(func() error {
		if err := s.get(obj); err != nil {
			return err
		}
		c := apimeta.FindStatusCondition(*gatewayOf(obj).conditions, networkingv1beta1.ConditionGatewayReady)
		if c == nil {
			return errors.New("no condition")
		}
		if c.Reason != reason || !strings.Contains(c.Message, text) || strings.Contains(c.Message, "%!") || c.ObservedGeneration != obj.GetGeneration() || (c.Status == metav1.ConditionTrue) != (reason == reasonReady) {
			return fmt.Errorf("condition %+v, want %s with %q", c, reason, text)
		}
		return nil
	})
}

func raw(s *testEnv, text string) runtime.RawExtension {
	s.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		s.Fatal(err)
	}
	return runtime.RawExtension{Raw: data}
}

// install makes a kind that others brought.
func (s *testEnv) install(crd *apiextensionsv1.CustomResourceDefinition) {
	s.Helper()
	scheme := runtime.NewScheme()
	err := apiextensionsv1.AddToScheme(scheme)
	var c client.Client
	if err == nil {
		c, err = client.New(s.c.Config, client.Options{Scheme: scheme})
	}
	if err == nil {
		err = c.Create(s.Context(), crd)
	}
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Delete(context.Background(), crd) })
	s.eventually(func() error {
		if err := c.Get(s.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
			return err
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return errors.New("not established")
	})
	served, err := discovery.NewDiscoveryClientForConfig(s.c.Config)
	if err != nil {
		s.Fatal(err)
	}
	s.eventually(func() error { return isServed(s.Context(), served, crd) })
}

// isServed tells whether the API server has learnt of a kind: it does after that is established.
func isServed(ctx context.Context, c discovery.DiscoveryInterface, crd *apiextensionsv1.CustomResourceDefinition) error {
	_, known, err := c.ServerGroupsAndResources()
	if err != nil {
		return err
	}
	for _, version := range crd.Spec.Versions {
		group, plural := crd.Spec.Group+"/"+version.Name, crd.Spec.Names.Plural
		if !slices.ContainsFunc(known, func(l *metav1.APIResourceList) bool {
			return l.GroupVersion == group && slices.ContainsFunc(l.APIResources, func(r metav1.APIResource) bool { return r.Name == plural })
		}) {
			return fmt.Errorf("%s/%s is not discovered", group, plural)
		}
		if err := c.RESTClient().Get().AbsPath("/apis", group, plural).Param("limit", "1").Do(ctx).Error(); err != nil {
			return fmt.Errorf("%s/%s is not served: %w", group, plural, err)
		}
	}
	return nil
}
