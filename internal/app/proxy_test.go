// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

// A consumer that has no other way to the API server reads, watches and writes through the proxy.
func TestProxyTargets(t *testing.T) {
	c := testkit.Cluster(t)
	local := func() string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(testkit.Port(t))) }
	port, healthz, metrics := testkit.Port(t), local(), local()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- Command([]string{
			"/usr/bin/proxy", fmt.Sprintf("--port=%d", port), "--force-host=" + strings.TrimPrefix(c.Config.Host, "https://"),
			"--health-probe-address=" + healthz, "--metrics-address=" + metrics,
		}).ExecuteContext(ctx)
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	testkit.Eventually(t, time.Minute, func() error {
		_, err := get("http://" + healthz + "/readyz")
		return err
	})

	kubeconfig, err := pki.ParseKubeconfig(testkit.Kubeconfig(t, c.Config))
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig.Server = "https://127.0.0.1:1" // where nobody listens
	connected := func(proxyURL string) *multicluster.Conn {
		t.Helper()
		kubeconfig.ProxyURL = proxyURL
		data, err := kubeconfig.Encode()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := multicluster.NewConn(data, multicluster.AllowLoopback(true))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	if err := connected("").Healthy(t.Context()); err == nil {
		t.Fatal("the API server is reached without the proxy")
	}
	conn := connected(fmt.Sprintf("http://127.0.0.1:%d", port))
	defer conn.Close() // before the proxy ends, which would wait
	if err := conn.Healthy(t.Context()); err != nil {
		t.Fatal(err)
	}
	provider, err := client.NewWithWatch(conn.Config(), client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	ns := testkit.Namespace(t, c, "in-band", nil)
	seen, err := provider.Watch(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(ns))
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Stop()
	if err := provider.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "written"}}); err != nil {
		t.Fatal(err)
	}
	for found := false; !found; {
		select {
		case e := <-seen.ResultChan():
			obj, ok := e.Object.(*corev1.ConfigMap)
			found = ok && obj.Name == "written"
		case <-time.After(time.Minute):
			t.Fatal("the watch does not show what was written")
		}
	}
	text, err := get("http://" + metrics + "/metrics")
	if err != nil || strings.Contains(text, `liqo_proxy_requests_total{result="accepted"} 0`) {
		t.Errorf("nobody was served: %v\n%s", err, text)
	}
}

func get(url string) (string, error) {
	resp, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, data)
	}
	return string(data), err
}

func TestProxyInvalidFlags(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for want, args := range map[string][]string{
		"--force-host must be set":           {},
		"is not a host with a port":          {"--force-host=https://api.example"},
		"is not a host":                      {"--force-host=api.example:443", "--allowed-hosts=a b"},
		"--max-connections is above zero":    {"--force-host=api.example:443", "--max-connections=0"},
		"invalid port":                       {"--force-host=api.example:443", "--port=70000"},
		`unknown command "more" for "proxy"`: {"more"},
	} {
		cmd := newProxyCommand()
		cmd.SetArgs(args)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}

// What aliases may stand for nodes translate themselves, and of that the ports alone: it is all that they know of Services.
func TestFabricServices(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "home", nil)
	for _, name := range []string{names.ProxyService, "other"} {
		testkit.Create(t, c.Client, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: names.ProxyPort}}},
		}, &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4,
		})
	}
	var reader client.Reader
	o := &fabricOptions{node: "worker", liqoNamespace: ns}
	for marked, namespace := range map[string]string{"liqo": ns, "default": metav1.NamespaceDefault} {
		role := "fabric-of-services-" + marked
		testkit.ProcessRole(t, c, role, "fabric", marked)
		testkit.Create(t, c.Client, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "fabric-of-services"}},
		})
	}
	testkit.Manager(t, c.User(t, "fabric-of-services"), kube.ManagerOptions{Name: "fabric-of-services", Objects: o.cachedKinds()}, func(mgr ctrl.Manager) error {
		reader = mgr.GetCache()
		for _, obj := range []client.Object{&corev1.Service{}, &discoveryv1.EndpointSlice{}} {
			if _, err := mgr.GetCache().GetInformer(t.Context(), obj); err != nil {
				return err
			}
		}
		return nil
	})
	testkit.Eventually(t, time.Minute, func() error {
		var services corev1.ServiceList
		var behind discoveryv1.EndpointSliceList
		if err := reader.List(t.Context(), &services); err != nil {
			return err
		}
		if err := reader.List(t.Context(), &behind, client.InNamespace(ns)); err != nil {
			return err
		}
		got := map[string]bool{}
		for _, s := range services.Items {
			got[s.Namespace+"/"+s.Name] = true
		}
		if len(got) != 2 || !got["default/kubernetes"] || !got[ns+"/"+names.ProxyService] {
			return fmt.Errorf("known are the Services %v", got)
		}
		if len(behind.Items) != 1 || behind.Items[0].Name != names.ProxyService {
			return fmt.Errorf("%d EndpointSlices are known", len(behind.Items))
		}
		return nil
	})
}

func TestFabricServicesOfNamespace(t *testing.T) {
	o := &fabricOptions{node: "worker", liqoNamespace: metav1.NamespaceDefault}
	for obj, by := range o.cachedKinds() {
		for namespace, c := range by.Namespaces {
			if c.FieldSelector != nil && !c.FieldSelector.Matches(fields.Set{"metadata.name": names.ProxyService}) ||
				c.LabelSelector != nil && !c.LabelSelector.Matches(labels.Set{discoveryv1.LabelServiceName: names.ProxyService}) {
				t.Errorf("%T in %s is without the proxy", obj, namespace)
			}
		}
	}
}
