// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"

	"liqo.io/liqo/internal/app"
	"sigs.k8s.io/yaml"
)

// pods are the pod templates of a release by the name of what makes them.
func pods(t testing.TB, r *release) map[string]corev1.PodTemplateSpec {
	t.Helper()
	out := map[string]corev1.PodTemplateSpec{}
	for _, obj := range r.objects {
		switch obj.GetKind() {
		case "Deployment":
			out[obj.GetName()] = as[appsv1.Deployment](t, obj).Spec.Template
		case "Job":
			out[obj.GetName()] = as[batchv1.Job](t, obj).Spec.Template
		}
	}
	return out
}

func TestPodSecurity(t *testing.T) {
	templates := pods(t, mustRender(t, values{}))
	if len(templates) != 5 {
		t.Errorf("%d workloads, want 5", len(templates))
	}
	for name, pod := range templates {
		if sc := pod.Spec.SecurityContext; sc == nil || !*sc.RunAsNonRoot || sc.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: security context of the pod: %v", name, sc)
		}
		for _, c := range pod.Spec.Containers {
			sc := c.SecurityContext
			if sc == nil || *sc.AllowPrivilegeEscalation || !*sc.ReadOnlyRootFilesystem || len(sc.Capabilities.Drop) != 1 || sc.Capabilities.Drop[0] != "ALL" {
				t.Errorf("%s: security context of the container: %v", name, sc)
			}
			if c.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
				t.Errorf("%s does not say why it ended", name)
			}
			if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() {
				t.Errorf("%s asks for no resources", name)
			}
			if name != "liqo-pre-delete" && (c.ReadinessProbe == nil || c.LivenessProbe == nil) {
				t.Errorf("%s has no probes", name)
			}
		}
	}
}

func TestSelectors(t *testing.T) {
	r := mustRender(t, values{
		"nameOverride": "mesh", "proxy": values{"replicas": int64(2)}, "crdReplicator": values{"replicas": int64(2)}, "metricAgent": values{"replicas": int64(2)},
		"controllerManager": values{"replicas": int64(2), "metrics": tree("serviceMonitor.enabled", true)},
	})
	templates := pods(t, r)
	of := func(name string) corev1.PodTemplateSpec {
		for _, component := range []string{"-proxy", "-metric-agent"} {
			if strings.HasSuffix(name, component) {
				return templates["mesh"+component]
			}
		}
		return templates["mesh-controller-manager"]
	}
	services, budgets := 0, 0
	for _, obj := range r.objects {
		switch obj.GetKind() {
		case "Deployment":
			d := as[appsv1.Deployment](t, obj)
			if !labels.SelectorFromSet(d.Spec.Selector.MatchLabels).Matches(labels.Set(d.Spec.Template.Labels)) {
				t.Errorf("Deployment %s does not select its own pods", d.Name)
			}
		case "PodDisruptionBudget":
			budgets++
			b := as[policyv1.PodDisruptionBudget](t, obj)
			if !labels.SelectorFromSet(b.Spec.Selector.MatchLabels).Matches(labels.Set(templates[b.Name].Labels)) {
				t.Errorf("PodDisruptionBudget %s does not select the pods of that name", b.Name)
			}
		case "Service":
			services++
			s := as[corev1.Service](t, obj)
			if !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(of(s.Name).Labels)) {
				t.Errorf("Service %s does not select its pods", s.Name)
			}
			if !hasPort(of(s.Name), s.Spec.Ports[0].TargetPort.StrVal) {
				t.Errorf("Service %s: no port %s", s.Name, s.Spec.Ports[0].TargetPort.StrVal)
			}
		}
	}
	if services != 4 || budgets != 4 {
		t.Errorf("%d Services and %d PodDisruptionBudgets, want 4 and 4", services, budgets)
	}
}

func hasPort(pod corev1.PodTemplateSpec, name string) bool {
	for _, p := range pod.Spec.Containers[0].Ports {
		if p.Name == name {
			return true
		}
	}
	return false
}

func TestReplicaAntiAffinity(t *testing.T) {
	for _, replicas := range []any{int64(2), 2.0} { // --set gives integers, files floats
		for of, name := range map[string]string{"controllerManager": "liqo-controller-manager", "crdReplicator": "liqo-crd-replicator"} {
			r := mustRender(t, tree(of+".replicas", replicas))
			if pod := pods(t, r)[name]; pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
				t.Errorf("%s, %T: no anti-affinity", name, replicas)
			}
			for _, obj := range r.objects {
				if obj.GetKind() != "Deployment" || obj.GetName() != name {
					continue
				}
				if d := as[appsv1.Deployment](t, obj); *d.Spec.Replicas != 2 {
					t.Errorf("%s, %T: %d replicas", name, replicas, *d.Spec.Replicas)
				}
			}
		}
	}
	// One replica with a budget could be drained only by force.
	if slices.ContainsFunc(mustRender(t, values{}).objects, func(obj *unstructured.Unstructured) bool { return obj.GetKind() == "PodDisruptionBudget" }) {
		t.Error("a single replica has a PodDisruptionBudget")
	}
	v := values{"controllerManager": values{"replicas": int64(2)}, "common": values{"affinity": values{"nodeAffinity": values{}}}}
	if pod := pods(t, mustRender(t, v))["liqo-controller-manager"]; pod.Spec.Affinity.PodAntiAffinity != nil {
		t.Error("the user's affinity was not left alone")
	}
}

func TestSliceCounts(t *testing.T) {
	for most, want := range map[int64]bool{0: false, 3: true} {
		args := pods(t, mustRender(t, tree("authentication.maxSlicesPerTenant", most)))["liqo-controller-manager"].Spec.Containers[0].Args
		if slices.Contains(args, "--max-slices-per-tenant=3") != want {
			t.Errorf("of %d slices: %q", most, args)
		}
	}
}

// A replica that leaves answers until no API server calls it any more, and then has time to end.
func TestReplicaTermination(t *testing.T) {
	pod := pods(t, mustRender(t, values{}))["liqo-controller-manager"].Spec
	lifecycle := pod.Containers[0].Lifecycle
	if lifecycle == nil || lifecycle.PreStop == nil || lifecycle.PreStop.Sleep == nil { // the image has no programs to run
		t.Fatalf("it leaves at once: %v", lifecycle)
	}
	const shutdown = 30 // of controller-runtime
	pause, grace := lifecycle.PreStop.Sleep.Seconds, pod.TerminationGracePeriodSeconds
	if pause < 5 || grace == nil || *grace < pause+shutdown {
		t.Errorf("%d s to pause and %v s for all", pause, grace)
	}
}

// Whoever reaches the proxy, and whoever takes it over, has nothing of this cluster but the way to its API server.
func TestProxyPermissions(t *testing.T) {
	r := mustRender(t, values{"proxy": values{"config": values{"listeningPort": int64(9118)}, "replicas": int64(3)}})
	pod := pods(t, r)["liqo-proxy"].Spec
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken || pod.ServiceAccountName != "" {
		t.Errorf("it has the account %q, its token: %v", pod.ServiceAccountName, pod.AutomountServiceAccountToken)
	}
	if args := pod.Containers[0].Args; !slices.Contains(args, "--port=9118") || !slices.Contains(args, "--metrics-address=0") {
		t.Errorf("its arguments are %v", args)
	}
	if pod.Affinity == nil || pod.Affinity.PodAntiAffinity == nil {
		t.Error("its replicas do not avoid each other")
	}
	lifecycle := pod.Containers[0].Lifecycle
	const patience = 20 // with those who are connected
	if pause, grace := lifecycle.PreStop.Sleep.Seconds, pod.TerminationGracePeriodSeconds; pause < 5 || *grace < pause+patience {
		t.Errorf("%d s to pause and %d s for all", pause, *grace)
	}
	for _, obj := range r.objects {
		if obj.GetKind() == "Service" && obj.GetName() == "liqo-proxy" {
			if s := as[corev1.Service](t, obj); s.Spec.Ports[0].Port != 8118 || s.Spec.Type != corev1.ServiceTypeClusterIP {
				t.Errorf("the Service is %+v", s.Spec)
			}
		}
	}
	for _, off := range []string{"proxy.enabled", "networking.enabled"} {
		for _, obj := range mustRender(t, tree(off, false)).objects {
			if strings.HasSuffix(obj.GetName(), "-proxy") {
				t.Errorf("without %s there is the %s %s", off, obj.GetKind(), obj.GetName())
			}
		}
	}
}

func TestControllerManagerArguments(t *testing.T) {
	for path, tc := range map[string]struct {
		value any
		flag  string
	}{
		"networking.enabled":                             {false, "--networking-enabled=false"},
		"offloading.enabled":                             {false, "--offloading-enabled=false"},
		"authentication.tlsCompatibilityMode":            {true, "--tls-compatibility-mode=true"},
		"authentication.legacyNonces":                    {true, "--legacy-nonces=true"},
		"authentication.controlPlaneCertificateDuration": {"48h", "--control-plane-certificate-duration=48h"},
		"networking.networkPoliciesEnforced":             {true, "--network-policies-enforced=true"},
		"networking.admitRemotePods":                     {true, "--admit-remote-pods=true"},
		"webhook.certificateDuration":                    {"2m", "--webhook-certificate-duration=2m"},
	} {
		args := pods(t, mustRender(t, tree(path, tc.value)))["liqo-controller-manager"].Spec.Containers[0].Args
		if !slices.Contains(args, tc.flag) {
			t.Errorf("%s: no %s in %v", path, tc.flag, args)
		}
	}
	for _, path := range []string{"webhook.certificateDuration", "authentication.controlPlaneCertificateDuration"} {
		if _, err := render(t, loadChart(t), tree(path, "2 months"), nil); err == nil {
			t.Errorf("%s: a duration that is none is accepted", path)
		}
	}
}

func TestFabricArguments(t *testing.T) {
	for path, tc := range map[string]struct {
		value any
		flag  string
	}{
		"networking.peerAccess":                     {"offloaded", "--peer-access=offloaded"},
		"offloading.twinNamespaces.pods.nodeAccess": {false, "--remote-pod-node-access=false"},
	} {
		for given, want := range map[*values]bool{new(tree(path, tc.value)): true, {}: false} {
			var args []string
			for _, obj := range mustRender(t, *given).objects {
				if obj.GetName() == "liqo-fabric" && obj.GetKind() == "DaemonSet" {
					args = containerArguments(t, obj.Object)
				}
			}
			if slices.Contains(args, tc.flag) != want {
				t.Errorf("%s of %v: %s in %v, want %t", path, *given, tc.flag, args, want)
			}
		}
	}
	if _, err := render(t, loadChart(t), tree("networking.peerAccess", "some"), nil); err == nil {
		t.Error("an unknown peerAccess is accepted")
	}
}

func TestProcessFlags(t *testing.T) {
	for name, pod := range pods(t, mustRender(t, tree("discovery.config.clusterLabels", values{"region": "eu"}))) {
		args := pod.Spec.Containers[0].Args
		cmd, rest, err := app.Command([]string{"liqo"}).Find(args)
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err != nil {
			t.Errorf("%s: %v: %v", name, err, args)
		}
	}
}

func TestWebhooks(t *testing.T) {
	for _, obj := range mustRender(t, values{}).objects {
		var hooks []admissionv1.ValidatingWebhook
		switch obj.GetKind() {
		case "ValidatingWebhookConfiguration":
			hooks = as[admissionv1.ValidatingWebhookConfiguration](t, obj).Webhooks
		case "MutatingWebhookConfiguration":
			for _, h := range as[admissionv1.MutatingWebhookConfiguration](t, obj).Webhooks {
				hooks = append(hooks, admissionv1.ValidatingWebhook{
					Name: h.Name, TimeoutSeconds: h.TimeoutSeconds, MatchConditions: h.MatchConditions, ClientConfig: h.ClientConfig, SideEffects: h.SideEffects,
				})
			}
		default:
			continue
		}
		for _, h := range hooks {
			switch {
			case h.TimeoutSeconds == nil || *h.TimeoutSeconds > 5:
				t.Errorf("%s: timeout %v", h.Name, h.TimeoutSeconds)
			case len(h.MatchConditions) == 0:
				t.Errorf("%s judges objects that are being deleted", h.Name)
			case h.ClientConfig.CABundle != nil:
				t.Errorf("%s: the chart must leave the CA to the process that makes it", h.Name)
			case *h.SideEffects != admissionv1.SideEffectClassNone:
				t.Errorf("%s: side effects %s", h.Name, *h.SideEffects)
			case strings.SplitN(h.Name, ".", 3)[1] != strings.Split(*h.ClientConfig.Service.Path, "/")[1]:
				t.Errorf("%s calls %s", h.Name, *h.ClientConfig.Service.Path)
			}
		}
	}
}

// installed answers look-ups of the chart with a cluster ID.
type installed string

func (i installed) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	cm := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-system", Name: "liqo-clusterid-configmap"},
		Data:       map[string]string{"CLUSTER_ID": string(i)},
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, false, err
	}
	client := fake.NewSimpleDynamicClient(scheme, cm)
	return client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}), true, nil
}

func TestClusterID(t *testing.T) {
	for name, tc := range map[string]struct {
		have, want string
		id         string
		err        string
	}{
		"the chosen one":              {want: "rome", id: "rome"},
		"the installed one is kept":   {have: "rome", id: "rome"},
		"the same again":              {have: "rome", want: "rome", id: "rome"},
		"another one":                 {have: "rome", want: "milan", err: `Changing the cluster ID from "rome" to "milan" is not allowed.`},
		"one with capitals":           {want: "Rome", err: "discovery/config/clusterID"},
		"one that no label can hold":  {want: strings.Repeat("r", 64), err: "discovery/config/clusterID"},
		"an installed one without ID": {have: "Rome!", err: "is not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			v := tree("discovery.config.clusterID", tc.want)
			var r *release
			var err error
			if tc.have == "" {
				r, err = render(t, loadChart(t), v, nil)
			} else {
				r, err = render(t, loadChart(t), v, installed(tc.have))
			}
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error = %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := clusterID(r); got != tc.id {
				t.Errorf("cluster ID = %q, want %q", got, tc.id)
			}
		})
	}
	if a, b := clusterID(mustRender(t, values{})), clusterID(mustRender(t, values{})); a == b || len(a) != 36 {
		t.Errorf("made up %q and %q", a, b)
	}
}

func clusterID(r *release) string {
	for _, obj := range r.objects {
		if obj.GetKind() == "ConfigMap" {
			id, _, _ := unstructured.NestedString(obj.Object, "data", "CLUSTER_ID")
			return id
		}
	}
	return ""
}

// TestMonitorManifests writes all monitors, and the Service of metrics, to a file, which test/alerts reads as the Prometheus operator does.
func TestMonitorManifests(t *testing.T) {
	var text bytes.Buffer
	all := mustRender(t, values{"metrics": values{"enabled": true, "prometheusOperator": values{"enabled": true}}})
	for _, obj := range all.objects {
		isMetrics := obj.GetKind() == "Service" && strings.HasSuffix(obj.GetName(), "-metrics")
		if obj.GetKind() != "ServiceMonitor" && obj.GetKind() != "PodMonitor" && !isMetrics {
			continue
		}
		data, err := yaml.Marshal(obj.Object)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n")
		text.Write(data)
	}
	golden(t, "monitors.yaml", text.Bytes())
}

// TestMonitoredJobs renders another prefix of names, with which the names of jobs begin.
func TestMonitoredJobs(t *testing.T) {
	count := 0
	for _, obj := range mustRender(t, values{"nameOverride": "mesh", "metrics": values{
		"enabled": true, "prometheusOperator": values{"enabled": true}, "grafanaDashboards": values{"enabled": true},
	}}).objects {
		if obj.GetKind() != "PrometheusRule" && !(obj.GetKind() == "ConfigMap" && strings.Contains(obj.GetName(), "-dashboard-")) {
			continue
		}
		text, err := yaml.Marshal(obj.Object)
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range regexp.MustCompile(`job=~\\*"[^"]*`).FindAllString(string(text), -1) {
			if count++; !strings.Contains(job, `"(.*/)?mesh-`) {
				t.Errorf("%s %s: %s does not match jobs of mesh", obj.GetKind(), obj.GetName(), job)
			}
		}
	}
	if count < 10 {
		t.Errorf("%d jobs in rules and dashboards, want those of all processes", count)
	}
}

// Each monitor scrapes a port that its pods have, in the way in which they serve it.
func TestMonitors(t *testing.T) {
	for name, tc := range map[string]struct {
		secure any // nil for the default
		scheme string
		arg    bool
	}{
		"by_default": {nil, "https", false},
		"secure":     {true, "https", false},
		"plain":      {false, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			v := values{"metrics": values{"enabled": true, "prometheusOperator": values{"enabled": true}}}
			if tc.secure != nil {
				v["virtualKubelet"] = values{"metrics": values{"secure": tc.secure}}
			}
			found := map[string]map[string]any{}
			said := false
			for _, obj := range mustRender(t, v).objects {
				switch obj.GetKind() {
				case "PodMonitor":
					endpoints, _, err := unstructured.NestedSlice(obj.Object, "spec", "podMetricsEndpoints")
					if err != nil || len(endpoints) != 1 {
						t.Fatalf("%s has the endpoints %v (%v)", obj.GetName(), endpoints, err)
					}
					found[obj.GetName()] = endpoints[0].(map[string]any)
				case "VkOptionsTemplate":
					args, _, err := unstructured.NestedStringSlice(obj.Object, "spec", "extraArgs")
					if err != nil {
						t.Fatal(err)
					}
					said = slices.Contains(args, "--metrics-secure=false")
				case "DaemonSet":
					if obj.GetName() == "liqo-fabric" && !hasPort(as[appsv1.DaemonSet](t, obj).Spec.Template, "metrics") {
						t.Error("the fabric has no port of metrics")
					}
				}
			}
			if got, _ := found["liqo-virtual-kubelet"]["scheme"].(string); got != tc.scheme || said != tc.arg {
				t.Errorf("virtual kubelets are scraped by %q and told to serve plainly: %t", got, said)
			}
			for _, monitor := range []string{"liqo-fabric", "liqo-gateway"} {
				if found[monitor]["scheme"] != "https" {
					t.Errorf("%s: %v", monitor, found[monitor])
				}
			}
		})
	}
}
