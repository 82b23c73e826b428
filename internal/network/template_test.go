// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

const serverTemplate = `
metadata:
  name: '{{ .Name }}'
  namespace: "{{ .Namespace }}"
  labels: {peer: "{{ .ClusterID }}"}
spec:
  service:
    metadata:
      annotations: {kept: "yes", changed: "of the template"}
    spec:
      type: "{{ .Spec.Endpoint.ServiceType }}"
      selector: {peer: "{{ .ClusterID }}"}
      ports:
      - name: tunnel
        port: "{{ .Spec.Endpoint.Port }}"
        targetPort: "{{ .Spec.Endpoint.Port }}"
        protocol: UDP
        "?nodePort": "{{ .Spec.Endpoint.NodePort }}"
      "?loadBalancerIP": "{{ .Spec.Endpoint.LoadBalancerIP }}"
  deployment:
    spec:
      replicas: 1
      selector:
        matchLabels: {peer: "{{ .ClusterID }}"}
      template:
        metadata:
          labels: {peer: "{{ .ClusterID }}"}
        spec:
          containers:
          - name: gateway
            env:
            - {name: PORT, value: "{{ .Spec.Endpoint.Port }}"}
            args:
            - --mtu={{ .Spec.MTU }}
            - --gateway-uid={{ .GatewayUID }}
            - --listen-port={{ .Spec.Endpoint.Port }}
  secretRef:
    name: "{{ .SecretName }}"
`

func templateOf(t testing.TB, text string) networkingv1beta1.GatewayTemplateSpec {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return networkingv1beta1.GatewayTemplateSpec{
		ObjectKind: metav1.TypeMeta{APIVersion: "networking.liqo.io/v1beta1", Kind: "WgGatewayServer"},
		Template:   runtime.RawExtension{Raw: raw},
	}
}

// server is a GatewayServer whose peer has a name that reads as a number.
func server(edit func(*networkingv1beta1.GatewayServerSpec)) TemplateValues {
	spec := &networkingv1beta1.GatewayServerSpec{
		MTU:      1340,
		Endpoint: networkingv1beta1.Endpoint{Port: 51840, ServiceType: corev1.ServiceTypeNodePort},
	}
	if edit != nil {
		edit(spec)
	}
	return TemplateValues{Spec: spec, Name: "gw", Namespace: "liqo-tenant-123", GatewayUID: "u-1", ClusterID: "123", SecretName: "keys"}
}

const renderedServer = `apiVersion: networking.liqo.io/v1beta1
kind: WgGatewayServer
metadata:
  labels:
    peer: "123"
  name: gw
  namespace: liqo-tenant-123
spec:
  deployment:
    spec:
      replicas: 1
      selector:
        matchLabels:
          peer: "123"
      template:
        metadata:
          labels:
            peer: "123"
        spec:
          containers:
          - args:
            - --mtu=1340
            - --gateway-uid=u-1
            - --listen-port=51840
            env:
            - name: PORT
              value: "51840"
            name: gateway
  secretRef:
    name: keys
  service:
    metadata:
      annotations:
        changed: by the user
        kept: "yes"
    spec:
      ports:
      - name: tunnel
        nodePort: 30000
        port: 51840
        protocol: UDP
        targetPort: 51840
      selector:
        peer: "123"
      type: NodePort
`

func TestTemplate(t *testing.T) {
	g := server(func(s *networkingv1beta1.GatewayServerSpec) {
		s.Endpoint.NodePort = new(int32(30000))
		s.ServiceAnnotations = map[string]string{"changed": "by the user"}
	})
	out, err := Render(templateOf(t, serverTemplate), g, &networkingv1beta1.WgGatewayServerSpec{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := yaml.Marshal(out.Object)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(renderedServer, string(got)); diff != "" {
		t.Errorf("rendered (-want +got):\n%s", diff)
	}
}

func TestFields(t *testing.T) {
	long := "{{ range .Spec.Endpoint.Ports }}" + strings.Repeat("x", 10000) + "{{ end }}"
	typed := any(&networkingv1beta1.WgGatewayServerSpec{})
	for _, tc := range []struct {
		name, text string
		edit       func(*networkingv1beta1.GatewayServerSpec)
		kind       any
		want       string // of the rendered spec
		err        string
	}{
		{name: "an optional field of nothing is left out", text: `spec: {"?a": "{{ .Spec.Endpoint.NodePort }}", b: x}`, want: `{b: x}`},
		{
			name: "an optional field", text: `spec: {"?a": "port {{ .Spec.Endpoint.NodePort }}"}`, want: `{a: port 7}`,
			edit: func(s *networkingv1beta1.GatewayServerSpec) { s.Endpoint.NodePort = new(int32(7)) },
		},
		{name: "an optional field of zero is left out", text: `spec: {"?a": "{{ .Spec.Endpoint.NodePort }}"}`, want: `{}`,
			edit: func(s *networkingv1beta1.GatewayServerSpec) { s.Endpoint.NodePort = new(int32) }},
		{name: "a list of ports", text: `spec: {a: "{{ range .Spec.Endpoint.Ports }}{{ . }},{{ end }}"}`, want: `{a: "1,2,"}`,
			edit: func(s *networkingv1beta1.GatewayServerSpec) { s.Endpoint.Ports = []int32{1, 2} }},
		{name: "numbers where the type is not known", text: `spec: {a: "{{ .ClusterID }}", labels: {b: "{{ .ClusterID }}"}, c: [{d: "0x10"}]}`, want: `{a: 123, labels: {b: "123"}, c: [{d: "0x10"}]}`},
		{name: "an optional label", text: `spec: {"?a": "{{ .Spec.ServiceLabels.zone }}"}`, want: `{}`},
		{name: "labels", text: `spec: {a: "{{ range $k, $v := .Spec.ServiceLabels }}{{ $k }}={{ $v }}{{ end }}"}`, want: `{a: "zone=b", service: {metadata: {labels: {zone: b}}}}`,
			edit: func(s *networkingv1beta1.GatewayServerSpec) { s.ServiceLabels = map[string]string{"zone": "b"} }},
		{name: "names are no numbers", text: `spec: {selector: {matchLabels: {a: "{{ .ClusterID }}"}}, list: [{name: "{{ .ClusterID }}", port: "{{ .Spec.Endpoint.Port }}"}], zip: "007"}`,
			want: `{selector: {matchLabels: {a: "123"}}, list: [{name: "123", port: 51840}], zip: "007"}`},
		{name: "an optional field with a condition", text: `spec: {"?a": '{{ if eq .Name "gw" }}yes{{ end }}', "?b": '{{ if eq .Name "x" }}yes{{ end }}'}`, want: `{a: "yes"}`},
		{name: "what is no text stays", text: `spec: {a: 5, b: true, c: null, d: [1.5]}`, want: `{a: 5, b: true, c: null, d: [1.5]}`},
		{name: "a number for a text", text: `spec: {service: {metadata: {labels: {a: 5}}}}`, kind: typed, want: `{service: {metadata: {labels: {a: "5"}}}}`},
		{name: "a switch", text: `spec: {service: {spec: {allocateLoadBalancerNodePorts: "{{ eq .Name \"gw\" }}"}}}`, kind: typed, want: `{service: {spec: {allocateLoadBalancerNodePorts: true}}}`},
		{name: "an inlined type", text: `spec: {deployment: {spec: {template: {spec: {volumes: [{name: "1", secret: {defaultMode: "420"}}]}}}}}`, kind: typed,
			want: `{deployment: {spec: {template: {spec: {volumes: [{name: "1", secret: {defaultMode: 420}}]}}}}}`},

		{name: "no template", text: `spec: {a: "{{ .Name"}`, err: `spec.template.spec.a: "{{ .Name" is not a valid template`},
		{name: "no such variable", text: `spec: {a: [x, "{{ .Spec.Nope }}"]}`, err: `spec.template.spec.a[1]: "{{ .Spec.Nope }}" cannot be filled`},
		{name: "the optional field of the guide", text: `spec: {name: "{{ .Name }}", "?extraConfig": "{{ .Spec.ExtraConfig }}"}`, want: `{name: gw}`},
		{name: "optional field of unknown endpoint", text: `spec: {"?a": "{{ .Spec.Endpoint.Colour }}"}`, want: `{}`},
		{name: "an unknown variable that must be there", text: `spec: {a: "{{ .Spec.ExtraConfig }}"}`, err: `ExtraConfig`},
		{name: "optional without a variable", text: `spec: {"?a": x}`, err: `spec.template.spec.a is optional (?), so its value must be a text with a variable`},
		{name: "optional list", text: `spec: {"?a": [x]}`, err: `spec.template.spec.a is optional (?)`},
		{name: "twice", text: `spec: {a: x, "?a": "{{ .Name }}"}`, err: `spec.template.spec.a is set twice`},
		{name: "another namespace", text: `metadata: {namespace: kube-system}`, err: `must be in the namespace of its object, "liqo-tenant-123"`},
		{name: "a field that is none", text: `spec: {deployments: {}}`, kind: typed, err: `unknown field "deployments"`},
		{name: "a text for a number", text: `spec: {deployment: {spec: {replicas: "{{ .Name }}"}}}`, kind: typed, err: `spec.template.spec is not a WgGatewayServerSpec`},
		{name: "another case", text: `spec: {deployment: {spec: {Replicas: 1}}}`, kind: typed, err: `unknown field "deployment.spec.Replicas"`},
		{name: "a name that is a list", text: `metadata: {name: [x]}`, err: `spec.template.metadata is not a ObjectMeta`},
		{name: "a variable that is not set", text: `spec: {ports: [{nodePort: "{{ .Spec.Endpoint.NodePort }}"}]}`, err: `spec.template.spec.ports[0].nodePort: a variable of "{{ .Spec.Endpoint.NodePort }}" is not set; a field that may be left out begins with ?`},
		{name: "recursion", text: `spec: {a: '{{ define "x" }}{{ template "x" }}{{ end }}{{ template "x" }}'}`, err: "defines a template"},
		{name: "a template by name", text: `spec: {a: '{{ template "spec.template.spec.a" }}'}`, err: "uses a template by its name"},
		{name: "a loop for ever", text: `spec: {a: "{{ range 9000000000000000000 }}{{ end }}"}`, err: "a loop over something else than a list"},
		{name: "a long loop", text: `spec: {a: "{{ range .Spec.MTU }}{{ end }}"}`, err: "a loop over something else than a list"},
		{name: "a loop in a loop", text: `spec: {a: "{{ range .Spec.Endpoint.Ports }}{{ if true }}{{ range .Spec.Endpoint.Ports }}{{ end }}{{ end }}{{ end }}"}`, err: "a loop in a loop"},
		{name: "growth without words", text: `spec: {a: '{{ $a := printf "%[1]s%[1]s" "a" }}'}`, err: "calls printf, which is not supported"},
		{name: "growth in a condition", text: `spec: {a: '{{ if (eq "a" (print "b" "c")) }}x{{ end }}'}`, err: "calls print, which is not supported"},
		{name: "too long", text: `spec: {a: ['` + long + `', '` + long + `']}`, edit: func(s *networkingv1beta1.GatewayServerSpec) { s.Endpoint.Ports = make([]int32, 64) },
			err: "the template becomes longer than 1048576 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := Render(templateOf(t, tc.text), server(tc.edit), tc.kind)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error = %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var want any
			if err := yaml.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			got, err := yaml.Marshal(out.Object["spec"])
			if err != nil {
				t.Fatal(err)
			}
			text, err := yaml.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(text), string(got)); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOriginalContainers(t *testing.T) {
	for text, want := range map[string]bool{
		`spec: {deployment: {spec: {template: {spec: {containers: [{name: gateway}, {name: wireguard}, {name: geneve}]}}}}}`:              true,
		`spec: {deployment: {spec: {template: {spec: {containers: [{name: geneve, args: ["{{ .NoSuchThing }}"]}, {name: wireguard}]}}}}}`: true,
		`spec: {deployment: 7}`: false,
		serverTemplate:          false,
		`spec: {}`:              false,
	} {
		if got := IsOriginals(templateOf(t, text)); got != want {
			t.Errorf("IsOriginals = %t, want %t, of %s", got, want, text)
		}
	}
}

// Whatever a template says, it becomes an object of its own namespace, or an error.
func FuzzRender(f *testing.F) {
	f.Add(serverTemplate)
	f.Add(`spec: {"?a": "{{ .Spec.Endpoint.NodePort }}", labels: {b: "{{ .ClusterID }}"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return
		}
		spec := networkingv1beta1.GatewayTemplateSpec{
			ObjectKind: metav1.TypeMeta{APIVersion: "networking.liqo.io/v1beta1", Kind: "WgGatewayServer"}, Template: runtime.RawExtension{Raw: raw},
		}
		for _, kind := range []any{nil, &networkingv1beta1.WgGatewayServerSpec{}} {
			out, err := Render(spec, server(nil), kind)
			if err != nil {
				continue
			}
			if out.GetNamespace() != "liqo-tenant-123" {
				t.Errorf("namespace = %q", out.GetNamespace())
			}
			if _, err := out.MarshalJSON(); err != nil {
				t.Errorf("encoding: %v", err)
			}
		}
	})
}
