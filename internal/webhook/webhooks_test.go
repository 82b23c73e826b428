// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// frontend stands for the Service: it spreads connections over the replicas.
func frontend(t *testing.T, backends []string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var turn atomic.Int64
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := net.Dial("tcp", backends[int(turn.Add(1))%len(backends)])
				if err != nil {
					return
				}
				defer out.Close()
				go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
	return l.Addr().String()
}

// install runs replicas of the webhooks, configured as the chart does but reached by URL, and returns their addresses.
func install(t *testing.T, c *testkit.ControlPlane, replicas int, o Options) (namespace string, backends []string) {
	t.Helper()
	namespace = testkit.Namespace(t, c, "webhooks", nil)
	o.LiqoNamespace, o.Configuration, o.Hosts, o.Host = namespace, namespace, []string{"127.0.0.1"}, "127.0.0.1"
	template := &offv1beta1.VkOptionsTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.VkOptionsTemplate},
		Spec:       offv1beta1.VkOptionsTemplateSpec{CreateNode: true, ContainerImage: "liqo:test"},
	}
	if err := c.Client.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	for range replicas {
		o.Port = testkit.Port(t)
		backends = append(backends, fmt.Sprintf("127.0.0.1:%d", o.Port))
		testkit.Manager(t, c.Config, kube.ManagerOptions{Name: "admit"}, func(mgr ctrl.Manager) error { return SetupWebhooks(mgr, o) })
	}
	configure(t, c, namespace, frontend(t, backends))
	return namespace, backends
}

func configure(t *testing.T, c *testkit.ControlPlane, name, address string) {
	t.Helper()
	rule := func(group, version, resource string, ops ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{Operations: ops, Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}}}}
	}
	to := func(path string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{URL: new("https://" + address + path)}
	}
	const create, update = admissionv1.Create, admissionv1.Update
	meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{names.Webhook: "true"}}
	mutating := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: meta}
	add := func(name, path string, rules []admissionv1.RuleWithOperations, namespaces *metav1.LabelSelector) {
		mutating.Webhooks = append(mutating.Webhooks, admissionv1.MutatingWebhook{
			Name: name, ClientConfig: to(path), Rules: rules, NamespaceSelector: namespaces, TimeoutSeconds: new(int32(5)),
			SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		})
	}
	add("pod.mutate.liqo.io", "/mutate/pod", rule("", "v1", "pods", create), &metav1.LabelSelector{MatchLabels: map[string]string{names.SchedulingEnabled: "true"}})
	add("podfields.mutate.liqo.io", "/mutate/pod-fields", rule("", "v1", "pods", create), &metav1.LabelSelector{MatchLabels: map[string]string{names.SchedulingEnabled: "true"}})
	add("daemonset.mutate.liqo.io", "/mutate/daemonsets", rule("apps", "v1", "daemonsets", create, update), nil)
	add("shadowpod.mutate.liqo.io", "/mutate/shadowpods", rule("offloading.liqo.io", "v1beta1", "shadowpods", create, update), nil)
	add("virtualnode.mutate.liqo.io", "/mutate/virtualnodes", rule("offloading.liqo.io", "v1beta1", "virtualnodes", create, update), nil)
	add("tenant.mutate.liqo.io", "/mutate/tenants", rule("authentication.liqo.io", "v1beta1", "tenants", create, update), nil)
	validating := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: meta}
	check := func(name, path string, rules []admissionv1.RuleWithOperations) {
		validating.Webhooks = append(validating.Webhooks, admissionv1.ValidatingWebhook{
			Name: name, ClientConfig: to(path), Rules: rules, TimeoutSeconds: new(int32(5)),
			SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		})
	}
	check("shadowpod.validate.liqo.io", "/validate/shadowpods", rule("offloading.liqo.io", "v1beta1", "shadowpods", create, update))
	check("tenant.validate.liqo.io", "/validate/tenants", rule("authentication.liqo.io", "v1beta1", "tenants", create, update))
	check("nsoff.validate.liqo.io", "/validate/namespace-offloading", rule("offloading.liqo.io", "v1beta1", "namespaceoffloadings", create, update))
	for _, configuration := range []client.Object{mutating, validating} {
		if err := c.Client.Create(t.Context(), configuration); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Client.Delete(context.Background(), configuration) })
	}
	testkit.Eventually(t, 2*time.Minute, func() error {
		for _, configuration := range []client.Object{mutating, validating} {
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(configuration), configuration); err != nil {
				return err
			}
			for _, bundle := range caBundles(configuration) {
				if !bytes.Contains(bundle, []byte("BEGIN CERTIFICATE")) {
					return fmt.Errorf("%T has no bundle", configuration)
				}
			}
		}
		return nil
	})
}

// soon retries while the API server still uses the configuration of a moment ago.
func soon(t *testing.T, check func() error) {
	t.Helper()
	testkit.Eventually(t, 2*time.Minute, check)
}

func pod(namespace string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "web-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
}

func offloaded(t *testing.T, c *testkit.ControlPlane, strategy offv1beta1.PodOffloadingStrategyType) string {
	t.Helper()
	namespace := testkit.Namespace(t, c, "demo", map[string]string{names.SchedulingEnabled: "true"})
	nso := &offv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.NamespaceOffloading},
		Spec:       offv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: strategy},
	}
	soon(t, func() error { return client.IgnoreAlreadyExists(c.Client.Create(t.Context(), nso)) })
	return namespace
}

func TestWebhooks(t *testing.T) {
	c := testkit.Cluster(t)
	install(t, c, 1, Options{})
	ctx := t.Context()

	t.Run("pod in offloaded namespace is steered", func(t *testing.T) {
		demo := offloaded(t, c, offv1beta1.RemotePodOffloadingStrategyType)
		soon(t, func() error {
			p := pod(demo)
			if err := c.Client.Create(ctx, p); err != nil || p.Spec.Affinity != nil && len(p.Spec.Tolerations) > 0 {
				return err
			}
			return fmt.Errorf("affinity %v, tolerations %v", p.Spec.Affinity, p.Spec.Tolerations)
		})
	})
	t.Run("pod with new field is kept off old providers", func(t *testing.T) {
		p := pod(offloaded(t, c, offv1beta1.LocalAndRemotePodOffloadingStrategyType))
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: new("bundle"), Path: "ca.crt"}}},
		}}}}
		warned := &warnings{}
		cfg := rest.CopyConfig(c.Config)
		cfg.WarningHandler = warned
		user, err := client.New(cfg, client.Options{Scheme: kube.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		soon(t, func() error { return user.Create(ctx, p, client.DryRunAll) })
		if p.Spec.Affinity == nil || !strings.Contains(fmt.Sprint(p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution), names.KubernetesMinor) {
			t.Errorf("affinity is %v", p.Spec.Affinity)
		}
		if !strings.Contains(strings.Join(*warned, ""), "needs Kubernetes 1.37") {
			t.Errorf("warnings = %q", *warned)
		}
	})
	t.Run("pod is denied without NamespaceOffloading", func(t *testing.T) {
		err := c.Client.Create(ctx, pod(testkit.Namespace(t, c, "early", map[string]string{names.SchedulingEnabled: "true"})))
		if !apierrors.IsInternalError(err) {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("a change of strategy warns", func(t *testing.T) {
		namespace := offloaded(t, c, offv1beta1.LocalAndRemotePodOffloadingStrategyType)
		warned := &warnings{}
		cfg := rest.CopyConfig(c.Config)
		cfg.WarningHandler = warned
		user, err := client.New(cfg, client.Options{Scheme: kube.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		nso := &offv1beta1.NamespaceOffloading{}
		if err := user.Get(ctx, client.ObjectKey{Namespace: namespace, Name: names.NamespaceOffloading}, nso); err != nil {
			t.Fatal(err)
		}
		nso.Spec.PodOffloadingStrategy = offv1beta1.RemotePodOffloadingStrategyType
		if err := user.Update(ctx, nso); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(*warned, ""), "stay where they are") {
			t.Errorf("warnings = %q", *warned)
		}
	})
	ofProvider := testkit.Namespace(t, c, "tenant", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: "provider"})
	t.Run("VirtualNode uses its VkOptionsTemplate", func(t *testing.T) {
		vn := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: ofProvider, Name: "vn-defaults"}, Spec: offv1beta1.VirtualNodeSpec{ClusterID: "provider"}}
		soon(t, func() error { return c.Client.Create(ctx, vn) })
		if diff := cmp.Diff(offv1beta1.VirtualNodeSpec{ClusterID: "provider"}, vn.Spec); diff != "" {
			t.Errorf("spec (-want +got):\n%s", diff)
		}
		moved := vn.DeepCopy()
		moved.Spec.ClusterID = "another"
		soon(t, func() error { return refusedWith(c.Client.Update(ctx, moved), "spec.clusterID is immutable") })
		duplicate := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace(t, c, "granted", map[string]string{names.AllowVirtualNodes: "true"}), Name: vn.Name}, Spec: vn.Spec}
		soon(t, func() error { return refusedWith(c.Client.Create(ctx, duplicate, client.DryRunAll), "exists already") })
	})
	t.Run("VirtualNode with huge amount", func(t *testing.T) {
		vn := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"clusterID": "provider", "resourceQuota": map[string]any{"hard": map[string]any{"cpu": "1e-999999999"}},
		}}}
		vn.SetGroupVersionKind(offv1beta1.GroupVersion.WithKind("VirtualNode"))
		vn.SetNamespace(ofProvider)
		vn.SetName("slow")
		soon(t, func() error {
			if err := c.Client.Create(ctx, vn.DeepCopy()); !apierrors.IsInvalid(err) {
				return fmt.Errorf("want the complaint of the CRD: %w", err)
			}
			return nil
		})
	})
	t.Run("VirtualNode with the name of a Node", func(t *testing.T) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "taken"}}
		if err := c.Client.Create(ctx, node); err != nil {
			t.Fatal(err)
		}
		vn := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: ofProvider, Name: "taken"}, Spec: offv1beta1.VirtualNodeSpec{ClusterID: "provider"}}
		if err := refusedWith(c.Client.Create(ctx, vn), "node taken already exists"); err != nil {
			t.Error(err)
		}
	})
	t.Run("a VirtualNode needs its template", func(t *testing.T) {
		vn := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: ofProvider, Name: "no-template"}, Spec: offv1beta1.VirtualNodeSpec{
			ClusterID: "provider", VkOptionsTemplateRef: &corev1.ObjectReference{Name: "missing"},
		}}
		if err := refusedWith(c.Client.Create(ctx, vn), ofProvider+`/missing" does not exist`); err != nil {
			t.Error(err)
		}
	})
	t.Run("DaemonSet is kept off virtual nodes", func(t *testing.T) {
		ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace(t, c, "agents", nil), Name: "agent"}}
		ds.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}
		ds.Spec.Template.Labels = ds.Spec.Selector.MatchLabels
		ds.Spec.Template.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
		if err := c.Client.Create(ctx, ds); err != nil {
			t.Fatal(err)
		}
		if a := ds.Spec.Template.Spec.Affinity; a == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Key != names.NodeType {
			t.Errorf("its affinity is %+v", a)
		}
	})
	t.Run("VirtualNode outside of allowed namespaces", func(t *testing.T) {
		for name, labels := range map[string]map[string]string{
			"of a user": nil, "of another peer": {names.TenantNamespace: "true", names.RemoteClusterID: "another"},
			"that is no tenant namespace": {names.RemoteClusterID: "provider"}, "whose label says no": {names.AllowVirtualNodes: "false"},
		} {
			vn := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace(t, c, "user", labels), Name: "stray"}, Spec: offv1beta1.VirtualNodeSpec{ClusterID: "provider"}}
			vn.Labels = map[string]string{"liqo.io/webhook-skip": "true"}
			if err := refusedWith(c.Client.Create(ctx, vn), "must be in the tenant namespace"); err != nil {
				t.Errorf("in a namespace %s: %v", name, err)
			}
		}
	})
	t.Run("a Tenant is labelled and checked", func(t *testing.T) {
		namespace := testkit.Namespace(t, c, "tenant", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: "blue"})
		tenant := func(id string) *authv1beta1.Tenant {
			tn := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tenant-" + id}}
			tn.Spec.ClusterID = "blue"
			if id != "blue" {
				tn.Spec.ClusterID = "red"
			}
			return tn
		}
		if err := refusedWith(c.Client.Create(ctx, tenant("red")), `the namespace is for cluster "blue"`); err != nil {
			t.Error(err)
		}
		first := tenant("blue")
		soon(t, func() error { return c.Client.Create(ctx, first) })
		if first.Labels[names.RemoteClusterID] != "blue" {
			t.Errorf("labels = %v", first.Labels)
		}
		second := tenant("blue")
		second.Name = "another"
		if err := refusedWith(c.Client.Create(ctx, second), "has the Tenant"); err != nil {
			t.Error(err)
		}
	})
	t.Run("ShadowPod creator and policy", func(t *testing.T) { shadowPodStory(t, c) })
}

type warnings []string

func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

func shadowPodStory(t *testing.T, c *testkit.ControlPlane) {
	ctx := t.Context()
	namespace := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "blue", policy.PodSecurityLabel: policy.PodSecurityBaseline})
	shadow := func(change func(*corev1.PodSpec)) *offv1beta1.ShadowPod {
		sp := &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Labels: map[string]string{
			names.OffloadingOrigin: "blue", names.CreatorUser: "somebody-else",
		}}}
		sp.Spec.Pod = pod(namespace).Spec
		change(&sp.Spec.Pod)
		return sp
	}
	if err := refusedWith(c.Client.Create(ctx, shadow(func(p *corev1.PodSpec) { p.HostPID = true })), "spec.hostPID"); err != nil {
		t.Error(err)
	}
	stranger := shadow(func(*corev1.PodSpec) {})
	stranger.Labels[names.OffloadingOrigin] = "red"
	if err := refusedWith(c.Client.Create(ctx, stranger), "mismatch"); err != nil {
		t.Error(err)
	}
	sp := shadow(func(*corev1.PodSpec) {})
	if err := c.Client.Create(ctx, sp); err != nil {
		t.Fatal(err)
	}
	creator := sp.Labels[names.CreatorUser]
	if creator == "" || creator == "somebody-else" {
		t.Errorf("creator = %q", creator)
	}
	sp.Labels[names.CreatorUser] = "somebody-else"
	sp.Spec.Pod.Containers[0].Image = "web:2"
	if err := c.Client.Update(ctx, sp); err != nil {
		t.Fatal(err)
	}
	if sp.Labels[names.CreatorUser] != creator {
		t.Errorf("creator changed to %q", sp.Labels[names.CreatorUser])
	}
	sp.Spec.Pod.Containers[0].Command = []string{"sh"}
	if err := refusedWith(c.Client.Update(ctx, sp), "only images"); err != nil {
		t.Error(err)
	}
}

func refusedWith(err error, text string) error {
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), text) {
		return fmt.Errorf("error = %v, want a refusal with %q", err, text)
	}
	return nil
}

// Two replicas go through several certificates and two authorities while pods are created all the time and new
// connections are made to each replica: not one may fail. A machine that is busy may be late by some seconds.
func TestRotationAvailability(t *testing.T) {
	c := testkit.Cluster(t)
	namespace, backends := install(t, c, 2, Options{Lifetime: 40 * time.Second, Settle: 12 * time.Second})
	demo := offloaded(t, c, offv1beta1.LocalAndRemotePodOffloadingStrategyType)
	soon(t, func() error {
		p := pod(demo)
		if err := c.Client.Create(t.Context(), p, client.DryRunAll); err != nil || len(p.Spec.Tolerations) > 0 {
			return err
		}
		return errors.New("a pod is not steered yet")
	})
	for _, backend := range backends { // the one that did not answer for the pod may still start
		soon(t, func() error { _, err := handshake(t, c, namespace, backend); return err })
	}

	leaves, issuers := map[string]bool{}, map[string]bool{} // by backend, and what each has served
	rotated := func() bool { return len(leaves) >= 4*len(backends) && len(issuers) >= 2*len(backends) }
	pace := time.NewTicker(50 * time.Millisecond)
	defer pace.Stop()
	limit := time.After(10 * time.Minute)
	for rounds := 1; !rotated(); rounds++ {
		select {
		case <-pace.C:
		case <-limit:
			t.Fatalf("after %d rounds the replicas have served %d certificates of %d authorities", rounds, len(leaves), len(issuers))
		}
		p := pod(demo)
		if err := c.Client.Create(t.Context(), p, client.DryRunAll); err != nil {
			t.Fatalf("admission %d: %v", rounds, err)
		}
		if len(p.Spec.Tolerations) == 0 {
			t.Fatal("a pod was not steered")
		}
		for _, backend := range backends {
			leaf, err := handshake(t, c, namespace, backend)
			if err != nil {
				t.Fatalf("handshake %d with %s: %v", rounds, backend, err)
			}
			leaves[backend+" "+leaf.SerialNumber.String()] = true
			issuers[backend+" "+leaf.Issuer.SerialNumber] = true
		}
	}
}

// handshake makes a new connection, trusting what the API server is told to trust.
func handshake(t *testing.T, c *testkit.ControlPlane, configuration, backend string) (*x509.Certificate, error) {
	t.Helper()
	hooks := &admissionv1.MutatingWebhookConfiguration{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: configuration}, hooks); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(hooks.Webhooks[0].ClientConfig.CABundle) {
		return nil, errors.New("no bundle")
	}
	conn, err := tls.Dial("tcp", backend, &tls.Config{RootCAs: roots, ServerName: "liqo-webhook." + configuration + ".svc", MinVersion: tls.VersionTLS12})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0], nil
}

func TestRotationForeignConfigurations(t *testing.T) {
	c := testkit.Cluster(t)
	foreign := func(name string, labels map[string]string) *admissionv1.ValidatingWebhookConfiguration {
		return &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "other.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
				SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			}},
		}
	}
	labelled := foreign("labelled-like-ours", map[string]string{names.Webhook: "true"})
	if err := c.Client.Create(t.Context(), labelled); err != nil {
		t.Fatal(err)
	}
	namespace, _ := install(t, c, 1, Options{})
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(labelled), labelled); err != nil {
		t.Fatal(err)
	}
	if len(labelled.Webhooks[0].ClientConfig.CABundle) > 0 {
		t.Error("a configuration of somebody else was given our bundle")
	}

	// A bundle that is reset, as an upgrade of the chart may, is put back; where that happens again and again, an event says so.
	ours := &admissionv1.ValidatingWebhookConfiguration{}
	for range 5 {
		soon(t, func() error {
			if err := c.Client.Get(t.Context(), client.ObjectKey{Name: namespace}, ours); err != nil {
				return err
			}
			if len(ours.Webhooks[0].ClientConfig.CABundle) == 0 {
				return errors.New("the bundle is still gone")
			}
			ours.Webhooks[0].ClientConfig.CABundle = nil
			return c.Client.Update(t.Context(), ours)
		})
	}
	testkit.WantEvent(t, c, ours, kube.ReasonConflictingWriter, "each time after Liqo wrote it")
}
