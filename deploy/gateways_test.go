// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common/util"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/network"
)

// gatewayTemplates are those of a release by their kind.
func gatewayTemplates(r *release) map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for _, obj := range r.objects {
		if strings.HasPrefix(obj.GetKind(), "WgGateway") {
			out[obj.GetKind()] = obj
		}
	}
	return out
}

// renderedServer and renderedClient fill a template.
func renderedServer(t testing.TB, obj *unstructured.Unstructured, name string, e networkingv1beta1.Endpoint) *networkingv1beta1.WgGatewayServer {
	t.Helper()
	spec := &networkingv1beta1.GatewayServerSpec{MTU: 1400, Endpoint: e}
	out := &networkingv1beta1.WgGatewayServer{}
	fill(t, obj, network.TemplateValues{Spec: spec, Name: name, Namespace: "liqo-tenant-rome", GatewayUID: "u-1", ClusterID: "123"}, &out.Spec, out)
	return out
}

func renderedClient(t testing.TB, obj *unstructured.Unstructured, name string, e networkingv1beta1.EndpointStatus) *networkingv1beta1.WgGatewayClient {
	t.Helper()
	spec := &networkingv1beta1.GatewayClientSpec{Endpoint: e}
	out := &networkingv1beta1.WgGatewayClient{}
	fill(t, obj, network.TemplateValues{Spec: spec, Name: name, Namespace: "liqo-tenant-rome", GatewayUID: "u-1", ClusterID: "123", SecretName: "keys"}, &out.Spec, out)
	return out
}

func fill(t testing.TB, obj *unstructured.Unstructured, g network.TemplateValues, spec, into any) {
	t.Helper()
	var said networkingv1beta1.GatewayTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object["spec"].(values), &said); err != nil {
		t.Fatal(err)
	}
	rendered, err := network.Render(said, g, spec)
	if err != nil {
		t.Fatalf("%s: %v", obj.GetName(), err)
	}
	if network.IsOriginals(said) {
		t.Errorf("%s is made for other images", obj.GetName())
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(rendered.Object, into, true); err != nil {
		t.Fatalf("%s: %v", obj.GetName(), err)
	}
}

func TestGatewayPrivileges(t *testing.T) {
	all := gatewayTemplates(mustRender(t, values{}))
	for kind, d := range map[string]networkingv1beta1.DeploymentTemplate{
		"WgGatewayServerTemplate": renderedServer(t, all["WgGatewayServerTemplate"], "rome", networkingv1beta1.Endpoint{Port: 51840, ServiceType: corev1.ServiceTypeNodePort}).Spec.Deployment,
		"WgGatewayClientTemplate": renderedClient(t, all["WgGatewayClientTemplate"], "rome", networkingv1beta1.EndpointStatus{Addresses: []string{"a"}, Port: 1}).Spec.Deployment,
	} {
		pod := d.Spec.Template.Spec
		if len(pod.Containers) != 1 || pod.HostNetwork {
			t.Fatalf("%s: %d containers, host network %t", kind, len(pod.Containers), pod.HostNetwork)
		}
		c := pod.Containers[0]
		sc := c.SecurityContext
		if *sc.AllowPrivilegeEscalation || !*sc.ReadOnlyRootFilesystem || sc.Privileged != nil ||
			!slices.Equal(sc.Capabilities.Drop, []corev1.Capability{"ALL"}) || !slices.Equal(sc.Capabilities.Add, []corev1.Capability{"NET_ADMIN"}) {
			t.Errorf("%s: security context %v", kind, sc)
		}
		if c.LivenessProbe == nil || c.ReadinessProbe == nil || c.Resources.Requests.Cpu().IsZero() {
			t.Errorf("%s: probes %v and %v, requests %v", kind, c.LivenessProbe, c.ReadinessProbe, c.Resources.Requests)
		}
		for _, v := range pod.Volumes {
			if v.HostPath != nil && (v.HostPath.Path != "/dev/net/tun" || *v.HostPath.Type != corev1.HostPathCharDev) {
				t.Errorf("%s: mounts %s of the node", kind, v.HostPath.Path)
			}
		}
		if !labels.SelectorFromSet(d.Spec.Selector.MatchLabels).Matches(labels.Set(d.Spec.Template.Labels)) {
			t.Errorf("%s does not select its own pods", kind)
		}
	}
	if off := gatewayTemplates(mustRender(t, tree("networking.enabled", false))); len(off) != 0 {
		t.Errorf("there are templates without a network: %v", slices.Collect(maps.Keys(off)))
	}
}

func TestGatewayServerService(t *testing.T) {
	v := values{"networking": tree("gatewayTemplates.server.service", values{
		"allocateLoadBalancerNodePorts": "false", "externalTrafficPolicy": "Local", "annotations": values{"cloud.example/kind": "nlb"},
	})}
	usual, set := gatewayTemplates(mustRender(t, values{}))["WgGatewayServerTemplate"], gatewayTemplates(mustRender(t, v))["WgGatewayServerTemplate"]

	node := renderedServer(t, usual, "rome", networkingv1beta1.Endpoint{Port: 51840, ServiceType: corev1.ServiceTypeNodePort, NodePort: new(int32(30742))})
	s := node.Spec.Service.Spec
	if s.Type != corev1.ServiceTypeNodePort || s.Ports[0].NodePort != 30742 || s.Ports[0].Port != 51840 || s.Ports[0].TargetPort.IntVal != 51840 || s.Ports[0].Protocol != corev1.ProtocolUDP {
		t.Errorf("node port: %+v", s)
	}
	if pod := node.Spec.Deployment.Spec.Template; !labels.SelectorFromSet(s.Selector).Matches(labels.Set(pod.Labels)) {
		t.Errorf("the Service selects %v, the pods have %v", s.Selector, pod.Labels)
	}

	several := renderedServer(t, usual, "rome", networkingv1beta1.Endpoint{Ports: []int32{7, 8}, ServiceType: corev1.ServiceTypeClusterIP})
	if p := several.Spec.Service.Spec.Ports[0]; p.Port != 7 || p.NodePort != 0 || !slices.Contains(several.Spec.Deployment.Spec.Template.Spec.Containers[0].Args, "--listen-ports=7") {
		t.Errorf("several ports: %+v", p)
	}

	balanced := renderedServer(t, set, "rome", networkingv1beta1.Endpoint{Port: 51840, ServiceType: corev1.ServiceTypeLoadBalancer, LoadBalancerIP: new("203.0.113.1")}).Spec.Service
	if b := balanced.Spec; b.LoadBalancerIP != "203.0.113.1" || b.AllocateLoadBalancerNodePorts == nil || *b.AllocateLoadBalancerNodePorts || b.ExternalTrafficPolicy != "Local" {
		t.Errorf("load balancer: %+v", b)
	}
	if balanced.Metadata.Annotations["cloud.example/kind"] != "nlb" {
		t.Errorf("annotations: %v", balanced.Metadata.Annotations)
	}
	inner := renderedServer(t, set, "rome", networkingv1beta1.Endpoint{Port: 51840, ServiceType: corev1.ServiceTypeClusterIP}).Spec.Service.Spec
	if inner.ExternalTrafficPolicy != "" || inner.AllocateLoadBalancerNodePorts != nil { // the API server refuses both there
		t.Errorf("cluster IP: %+v", inner)
	}
}

func TestGatewayClientAddresses(t *testing.T) {
	of := gatewayTemplates(mustRender(t, values{}))["WgGatewayClientTemplate"]
	for want, e := range map[string]networkingv1beta1.EndpointStatus{
		"--endpoint-address=203.0.113.1,gw.example.com --endpoint-ports=51840": {Addresses: []string{"203.0.113.1", "gw.example.com"}, Port: 51840},
		"--endpoint-address=2001:db8::1 --endpoint-ports=7,8":                  {Addresses: []string{"2001:db8::1"}, Ports: []int32{7, 8}},
	} {
		args := renderedClient(t, of, "rome", e).Spec.Deployment.Spec.Template.Spec.Containers[0].Args
		for part := range strings.FieldsSeq(want) {
			if !slices.Contains(args, part) {
				t.Errorf("no %s in %v", part, args)
			}
		}
	}
}

func TestLongGatewayNames(t *testing.T) {
	of := gatewayTemplates(mustRender(t, values{}))["WgGatewayServerTemplate"]
	for _, name := range []string{"rome", strings.Repeat("a", 57), strings.Repeat("a", 58), strings.Repeat("a", 59), strings.Repeat("a", 63)} {
		pod := renderedServer(t, of, name, networkingv1beta1.Endpoint{Port: 1, ServiceType: corev1.ServiceTypeClusterIP}).Spec.Deployment.Spec.Template
		for key, value := range pod.Labels {
			if len(value) > 63 {
				t.Errorf("%d characters: %s has %d", len(name), key, len(value))
			}
		}
		if instance := pod.Labels["app.kubernetes.io/instance"]; len(name) < 50 && instance != "liqo-"+name {
			t.Errorf("instance %q", instance)
		}
	}
}

// examples are templates that differ from those of the chart, by file.
var examples = map[string]struct {
	note string
	of   string
	v    values
	edit func(spec values)
}{
	"wireguard-server.yaml":                    {note: "The template of the chart.", of: "WgGatewayServerTemplate"},
	"wireguard-client.yaml":                    {note: "The template of the chart.", of: "WgGatewayClientTemplate"},
	"wireguard-server-pingdisabled.yaml":       {note: silentNote, of: "WgGatewayServerTemplate", edit: silent},
	"wireguard-client-pingdisabled.yaml":       {note: silentNote, of: "WgGatewayClientTemplate", edit: silent},
	"wireguard-server-selector.yaml":           {note: chosenNote, of: "WgGatewayServerTemplate", v: chosen()},
	"wireguard-client-selector.yaml":           {note: chosenNote, of: "WgGatewayClientTemplate", v: chosen()},
	"wireguard-server-high-availability.yaml":  {note: replicasNote, of: "WgGatewayServerTemplate", v: tree("networking.gatewayTemplates.replicas", 2)},
	"wireguard-client-high-availability.yaml":  {note: replicasNote, of: "WgGatewayClientTemplate", v: tree("networking.gatewayTemplates.replicas", 2)},
	"wireguard-server-overridetargetport.yaml": {note: "The gateway listens at another port than its Service.", of: "WgGatewayServerTemplate", edit: otherPort},
}

const (
	silentNote   = "The tunnel is not watched: it counts as connected."
	replicasNote = "Two replicas, of which one is active; the other takes over within seconds."
	chosenNote   = "Gateways run on nodes that are labelled for it."
)

func chosen() values {
	return tree("networking.gatewayTemplates.pod.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms", []any{
		values{"matchExpressions": []any{values{"key": "nodeType", "operator": "In", "values": []any{"cpu-optimized"}}}},
	})
}

// gatewayArgs edits the arguments of a template's container.
func gatewayArgs(spec values, edit func([]any) []any) {
	pod, _ := at(spec, "template.spec.deployment.spec.template.spec")
	c := pod.(values)["containers"].([]any)[0].(values)
	c["args"] = edit(c["args"].([]any))
}

func silent(spec values) {
	gatewayArgs(spec, func(args []any) []any {
		kept := slices.DeleteFunc(args, func(a any) bool { return strings.HasPrefix(a.(string), "--ping-") })
		return append(kept, "--ping-enabled=false")
	})
}

func otherPort(spec values) {
	ports, _ := at(spec, "template.spec.service.spec")
	ports.(values)["ports"].([]any)[0].(values)["targetPort"] = int64(30000)
	gatewayArgs(spec, func(args []any) []any {
		for i, a := range args {
			if strings.HasPrefix(a.(string), "--listen-ports=") {
				args[i] = "--listen-ports=30000"
			}
		}
		return args
	})
}

// Examples are the templates of the chart, one thing changed: so none can grow old.
func TestGatewayTemplateExamples(t *testing.T) {
	const folder, namespace = "../examples/networking", "liqo" // where Liqo is installed by default
	for file, e := range examples {
		r, err := renderIn(t, namespace, loadChart(t), util.MergeTables(values{}, e.v), nil)
		if err != nil {
			t.Fatal(err)
		}
		obj := gatewayTemplates(r)[e.of]
		if e.edit != nil {
			e.edit(obj.Object["spec"].(values))
		}
		obj.SetName(strings.TrimSuffix(file, ".yaml"))
		obj.SetLabels(nil)
		body, err := yaml.Marshal(obj.Object)
		if err != nil {
			t.Fatal(err)
		}
		want, path := "# "+e.note+"\n"+string(body), filepath.Join(folder, file)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s differs (-update rewrites it):\n%s", file, diff)
		}
		read := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(got, &read.Object); err != nil {
			t.Fatal(err)
		}
		var deployment networkingv1beta1.DeploymentTemplate
		if e.of == "WgGatewayServerTemplate" {
			deployment = renderedServer(t, read, "rome", networkingv1beta1.Endpoint{Port: 51840, ServiceType: corev1.ServiceTypeLoadBalancer}).Spec.Deployment
		} else {
			deployment = renderedClient(t, read, "rome", networkingv1beta1.EndpointStatus{Addresses: []string{"203.0.113.1"}, Port: 51840}).Spec.Deployment
		}
		args, home := deployment.Spec.Template.Spec.Containers[0].Args, read.GetNamespace()
		if home != namespace || !slices.Contains(args, "--liqo-namespace="+home) { // a gateway that looks elsewhere carries nothing
			t.Errorf("%s lies in %s, and its gateway looks elsewhere: %q", file, home, args)
		}
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, known := examples[f.Name()]; !known && f.Name() != "README.md" {
			t.Errorf("%s is not tested", f.Name())
		}
	}
}

func TestGatewayReplicasLimited(t *testing.T) {
	for replicas, ok := range map[int]bool{0: true, 1: true, 2: true, 8: true, 9: false, -1: false} {
		_, err := render(t, loadChart(t), tree("networking.gatewayTemplates.replicas", replicas), nil)
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "replicas") {
			t.Errorf("%d replicas: %v", replicas, err)
		}
	}
}

// What a user lists there is what templates may make, so the controller-manager may, too.
func TestThirdPartyGatewayPermissions(t *testing.T) {
	of := func(r *release) []rbacv1.PolicyRule {
		role := &rbacv1.ClusterRole{}
		for _, obj := range r.objects {
			if obj.GetKind() == "ClusterRole" && strings.HasSuffix(obj.GetName(), "-gateway-kinds") {
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, role); err != nil {
					t.Fatal(err)
				}
			}
		}
		return role.Rules
	}
	listed := func(entries ...values) values {
		all := []any{map[string]any{"apiVersion": "networking.liqo.io/v1beta1", "resource": "wggatewayservers"}}
		for _, e := range entries {
			all = append(all, map[string]any(e))
		}
		return tree("networking.serverResources", all)
	}
	if rules := of(mustRender(t, values{})); rules != nil {
		t.Errorf("by default: %v", rules)
	}
	got := of(mustRender(t, listed(values{"apiVersion": "example.com/v1", "resource": "tunnels", "template": "tunneltemplates"})))
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{"example.com"}, Resources: []string{"tunnels"}, Verbs: []string{"create", "delete", "get", "list", "patch", "update", "watch"}},
		{APIGroups: []string{"example.com"}, Resources: []string{"tunneltemplates"}, Verbs: []string{"get"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []values{
		{"apiVersion": "rbac.authorization.k8s.io/v1", "resource": "clusterroles"}, {"apiVersion": "v1", "resource": "secrets"}, {"apiVersion": "apps/v1", "resource": "deployments"},
		{"apiVersion": "*/v1", "resource": "tunnels"}, {"apiVersion": "example.com/v1", "resource": "*"}, {"apiVersion": "example.com/v1", "resource": "tunnels/status"},
		{"apiVersion": "example.com/v1", "resource": "tunnels", "template": "*"}, {"apiVersion": "authentication.liqo.io/v1beta1", "resource": "tenants"},
	} {
		if _, err := render(t, loadChart(t), listed(bad), nil); err == nil || !strings.Contains(err.Error(), "cannot be what gateways are made of") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
