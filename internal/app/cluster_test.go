// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/deploy"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

const (
	controllerManagerRole = "controller-manager"
	replicatorRole        = "crd-replicator"
)

// roles are the processes that an installation runs; virtual kubelets come with VirtualNodes.
var roles = []string{controllerManagerRole, replicatorRole}

// testCluster is a cluster without nodes, and the processes of an installation in it: real ones, each with the rights that the
// chart gives it.
type testCluster struct {
	*testkit.ControlPlane
	id string

	webhookPort string
	admission   *httptest.Server
	webhooks    []*unstructured.Unstructured
	accounts    map[string]*rest.Config
	running     map[string]*testkit.Process // by role, virtual kubelets by namespace/name of their Deployment
}

// kubernetesControllers are those that deletion and certificates depend on.
var kubernetesControllers = testkit.WithControllers("namespace-controller", "garbage-collector-controller", "serviceaccount-controller",
	"certificatesigningrequest-signing-controller", "root-ca-certificate-publisher-controller")

func newTestCluster(t *testing.T, c *testkit.ControlPlane) *testCluster {
	t.Helper()
	s := &testCluster{ControlPlane: c, webhookPort: strconv.Itoa(testkit.Port(t)), accounts: map[string]*rest.Config{}, running: map[string]*testkit.Process{}}
	s.admission = s.frontend(t)
	for _, obj := range releaseObjects(t) {
		if strings.HasSuffix(obj.GetKind(), "WebhookConfiguration") {
			s.webhooks = append(s.webhooks, s.reachable(obj))
			continue
		}
		if obj.GetKind() == "APIService" {
			continue // without a metric agent behind it, the API server would list no kinds, and no namespace would go
		}
		s.install(t, obj)
	}
	for _, role := range roles {
		cfg, err := s.account(t.Context(), names.LiqoNamespace, "liqo-"+role)
		if err != nil {
			t.Fatal(err)
		}
		s.accounts[role] = cfg
	}
	t.Cleanup(func() {
		for _, p := range s.running {
			p.Kill()
		}
	})
	return s
}

func (s *testCluster) install(t *testing.T, obj *unstructured.Unstructured) {
	t.Helper()
	config := client.ApplyConfigurationFromUnstructured(obj.DeepCopy())
	if err := s.Client.Apply(t.Context(), config, client.FieldOwner("helm"), client.ForceOwnership); err != nil {
		t.Fatalf("installing %s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
}

// frontend is what a Service is for the webhooks: without nodes none leads to them.
func (s *testCluster) frontend(t *testing.T) *httptest.Server {
	t.Helper()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: "127.0.0.1:" + s.webhookPort})
		},
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
		ErrorLog:  log.New(io.Discard, "", 0), // what is not answered is the story
	}
	server := httptest.NewTLSServer(proxy)
	t.Cleanup(server.Close)
	return server
}

// reachable makes the API server call the frontend. Under another name, so that nobody changes whom it trusts.
func (s *testCluster) reachable(obj *unstructured.Unstructured) *unstructured.Unstructured {
	obj = obj.DeepCopy()
	obj.SetName("liqo-webhook-of-test")
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.admission.Certificate().Raw}))
	webhooks, _, _ := unstructured.NestedSlice(obj.Object, "webhooks")
	for i := range webhooks {
		webhook := webhooks[i].(map[string]any)
		path, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "path")
		webhook["clientConfig"] = map[string]any{"url": s.admission.URL + path, "caBundle": ca}
	}
	obj.Object["webhooks"] = webhooks
	return obj
}

// admit has the API server ask the webhooks, or not.
func (s *testCluster) admit(t *testing.T, requested bool) {
	t.Helper()
	for _, obj := range s.webhooks {
		if requested {
			s.install(t, obj)
			continue
		}
		if err := s.Client.Delete(t.Context(), obj.DeepCopy()); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
}

// releaseObjects are those of the chart that work without nodes: rights, policies, options.
func releaseObjects(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	out := []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": names.LiqoNamespace},
	}}}
	for _, text := range render(t) {
		for doc := range strings.SplitSeq(text, "\n---\n") {
			obj := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(doc), &obj.Object); err != nil {
				t.Fatal(err)
			}
			_, hook := obj.GetAnnotations()["helm.sh/hook"]
			skipped := []string{"", "Deployment", "Service", "ConfigMap"}
			if !hook && !slices.Contains(skipped, obj.GetKind()) {
				out = append(out, obj)
			}
		}
	}
	return out
}

// render is the chart as Helm renders it, file by file.
func render(t *testing.T) []string {
	t.Helper()
	var files []*archive.BufferedFile
	err := fs.WalkDir(deploy.Chart(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(deploy.Chart(), name)
		files = append(files, &archive.BufferedFile{Name: name, Data: data})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	chart, err := loader.LoadFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	release := common.ReleaseOptions{Name: "liqo", Namespace: names.LiqoNamespace, IsInstall: true}
	values, err := util.ToRenderValues(chart, map[string]any{}, release, common.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := engine.Render(chart, values)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if path.Ext(name) == ".yaml" {
			out = append(out, rendered[name])
		}
	}
	return out
}

// account is the configuration of a ServiceAccount, as a pod of it has.
func (s *testCluster) account(ctx context.Context, namespace, name string) (*rest.Config, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(24 * 3600))}}
	if err := s.Client.SubResource("token").Create(ctx, account, token); err != nil {
		return nil, fmt.Errorf("asking for a token of %s/%s: %w", namespace, name, err)
	}
	cfg := rest.AnonymousClientConfig(s.Config)
	cfg.BearerToken = token.Status.Token
	return cfg, nil
}

// start runs the process of a role unless it runs already.
func (s *testCluster) start(t *testing.T, role string) {
	t.Helper()
	args := []string{role, "--v=1", "--cluster-id=" + s.id, "--health-probe-address=0", "--metrics-address=0", "--enable-leader-election=false"}
	switch role {
	case controllerManagerRole:
		args = append(args, "--allow-loopback-peers", "--webhook-port="+s.webhookPort, "--api-server-address-override="+s.Config.Host,
			"--ca-override="+base64.StdEncoding.EncodeToString(s.Config.CAData))
	case replicatorRole:
		args = append(args, "--allow-loopback-peers", "--foreign-cluster-ping-interval=1s")
	}
	s.run(t, role, s.accounts[role], nil, args)
}

func (s *testCluster) run(t *testing.T, name string, cfg *rest.Config, env, args []string) {
	t.Helper()
	if p, ok := s.running[name]; ok && p.Alive() == nil {
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.running[name] = s.Run(t, cfg, strings.ReplaceAll(name, "/", "-"), append(env, asProgram+"=yes"), self, args...)
}

// kill ends a process without a last word.
func (s *testCluster) kill(name string) {
	if p, ok := s.running[name]; ok {
		p.Kill()
		delete(s.running, name)
	}
}

func (s *testCluster) killAll() {
	for name := range s.running {
		s.kill(name)
	}
}

// kubelets does what nodes do for virtual kubelets: it runs one for each Deployment of one, with the arguments there.
func (s *testCluster) kubelets(t *testing.T) {
	t.Helper()
	var deployments appsv1.DeploymentList
	wanted := client.MatchingLabels{names.OffloadingComponent: names.ComponentVirtualKubelet}
	if err := s.Client.List(t.Context(), &deployments, wanted); err != nil {
		return // as without an API server: what runs goes on
	}
	staying := map[string]bool{}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		key := client.ObjectKeyFromObject(d).String()
		staying[key] = d.DeletionTimestamp.IsZero()
		if p, ok := s.running[key]; staying[key] && (!ok || p.Alive() != nil) {
			s.startKubelet(t, key, d)
		}
	}
	for key := range s.running {
		if strings.Contains(key, "/") && !staying[key] {
			s.kill(key)
		}
	}
}

func (s *testCluster) startKubelet(t *testing.T, key string, d *appsv1.Deployment) {
	t.Helper()
	spec := d.Spec.Template.Spec
	cfg, err := s.account(t.Context(), d.Namespace, spec.ServiceAccountName)
	if err != nil {
		return // in a namespace that goes no pod would start either
	}
	args := append([]string{"virtual-kubelet", "--allow-loopback-peers"}, spec.Containers[0].Args...)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "$(POD_IP)", "127.0.0.1")
	}
	args = append(args, "--listen-port="+strconv.Itoa(testkit.Port(t)), "--health-probe-address=0", "--vk-lease-enabled=false", "--node-ping-interval=1s",
		"--certificate-type=self-signed") // the other type is for pods of the Deployment only, and there are none
	env := []string{"POD_IP=127.0.0.1", "POD_NAME=vk", "POD_NAMESPACE=" + d.Namespace}
	s.run(t, key, cfg, env, args)
}

// logs are the ends of what the processes said.
func (s *testCluster) logs() string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.running)) {
		fmt.Fprintf(&out, "%s\n(%v)\n", s.running[name].Log(), s.running[name].Alive())
	}
	return out.String()
}
