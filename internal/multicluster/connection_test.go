// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

func connect(t *testing.T, cfg *rest.Config) *multicluster.Conn {
	t.Helper()
	conn, err := multicluster.NewConn(testkit.Kubeconfig(t, cfg), multicluster.AllowLoopback(true))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func whoami(t *testing.T, cfg *rest.Config) string {
	t.Helper()
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	review, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.UserInfo.Username
}

// watchConfigMaps watches the ConfigMaps of a namespace through a connection.
func watchConfigMaps(t *testing.T, cfg *rest.Config, namespace string) watch.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.CoreV1().ConfigMaps(namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

func ended(t *testing.T, w watch.Interface) {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case _, open := <-w.ResultChan():
			if !open {
				return
			}
		case <-timer.C:
			t.Fatal("the watch goes on with the old credentials")
		}
	}
}

func TestSwapCertificates(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "swap", nil)
	mayRead(t, c, ns, "before", "after")
	relay, cfg := testkit.NewRelay(t, c.User(t, "before"))
	conn := connect(t, cfg)
	w := watchConfigMaps(t, conn.Config(), ns)
	if got := whoami(t, conn.Config()); got != "before" {
		t.Fatalf("connected as %s, want before", got)
	}
	old := relay.Live()

	next := c.User(t, "after")
	next.Host = cfg.Host
	if err := conn.Swap(testkit.Kubeconfig(t, next)); err != nil {
		t.Fatal(err)
	}
	ended(t, w)
	if got := whoami(t, conn.Config()); got != "after" {
		t.Errorf("connected as %s, want after", got)
	}
	testkit.Eventually(t, limit, func() error {
		for n := range relay.Live() {
			if old[n] {
				return fmt.Errorf("connection %d with the old certificate lives", n)
			}
		}
		return nil
	})
	if got := whoami(t, conn.StreamConfig()); got != "after" {
		t.Errorf("streams are opened as %s, want after", got)
	}
}

func TestSwapSameCredentials(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "same", nil)
	mayRead(t, c, ns, "same")
	relay, cfg := testkit.NewRelay(t, c.User(t, "same"))
	conn := connect(t, cfg)
	w := watchConfigMaps(t, conn.Config(), ns)
	if err := conn.Swap(testkit.Kubeconfig(t, cfg)); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}}); err != nil {
		t.Fatal(err)
	}
	if e := <-w.ResultChan(); e.Type != watch.Added {
		t.Fatalf("the watch was cut: %v", e)
	}
	if got := relay.Opened(); got != 1 {
		t.Errorf("%d connections were opened, want 1", got)
	}
}

func TestSwapTokens(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "tokens", nil)
	conn := connect(t, withToken(t, c, ns, "one"))
	if got, want := whoami(t, conn.Config()), "system:serviceaccount:"+ns+":one"; got != want {
		t.Fatalf("connected as %s, want %s", got, want)
	}
	if err := conn.Swap(testkit.Kubeconfig(t, withToken(t, c, ns, "two"))); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]*rest.Config{"requests": conn.Config(), "streams": conn.StreamConfig()} {
		if got, want := whoami(t, cfg), "system:serviceaccount:"+ns+":two"; got != want {
			t.Errorf("%s: connected as %s, want %s", name, got, want)
		}
	}
}

func withToken(t *testing.T, c *testkit.ControlPlane, namespace, account string) *rest.Config {
	t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	if err := c.Client.Create(t.Context(), sa); err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{}
	if err := c.Client.SubResource("token").Create(t.Context(), sa, request); err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(c.Config)
	cfg.BearerToken = request.Status.Token
	return cfg
}

// A proxy that moved, as one in a tunnel does, is a way to the same server: watches go on by the new one.
func TestSwapProxy(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "proxied", nil)
	mayRead(t, c, ns, "proxied")
	user := c.User(t, "proxied")
	through := func(proxyURL string) []byte {
		t.Helper()
		k, err := pki.ParseKubeconfig(testkit.Kubeconfig(t, user))
		if err != nil {
			t.Fatal(err)
		}
		k.ProxyURL = proxyURL
		encoded, err := k.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return encoded
	}
	before, requestsBefore := testkit.ConnectProxy(t)
	after, requestsAfter := testkit.ConnectProxy(t)
	conn, err := multicluster.NewConn(through(before), multicluster.AllowLoopback(true))
	if err != nil {
		t.Fatal(err)
	}
	w := watchConfigMaps(t, conn.Config(), ns)
	if len(requestsBefore()) == 0 {
		t.Error("the first proxy is not used")
	}
	if err := conn.Swap(through("http://169.254.169.254:80")); err == nil || errors.Is(err, multicluster.ErrOtherServer) {
		t.Errorf("a proxy that a peer must not name: %v", err)
	}
	if err := conn.Swap(through(after)); err != nil {
		t.Fatal(err)
	}
	ended(t, w)
	last := len(requestsBefore())
	for name, cfg := range map[string]*rest.Config{"requests": conn.Config(), "streams": conn.StreamConfig()} {
		requests := len(requestsAfter())
		if got := whoami(t, cfg); got != "proxied" {
			t.Errorf("%s: connected as %s", name, got)
		}
		if len(requestsAfter()) == requests || len(requestsBefore()) != last {
			t.Errorf("%s: %d connections by the new proxy, %d by the old one", name, len(requestsAfter())-requests, len(requestsBefore())-last)
		}
	}
}

// A connection to the former proxy that is established while it is replaced is not used.
func TestSwapProxyWhileDialling(t *testing.T) {
	c := testkit.Cluster(t)
	user := c.User(t, "dialling")
	k, err := pki.ParseKubeconfig(testkit.Kubeconfig(t, user))
	if err != nil {
		t.Fatal(err)
	}
	after, requests := testkit.ConnectProxy(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var conn *multicluster.Conn
	through := func(proxyURL string) []byte {
		t.Helper()
		k.ProxyURL = proxyURL
		encoded, err := k.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return encoded
	}
	if conn, err = multicluster.NewConn(through("http://"+listener.Addr().String()), multicluster.AllowLoopback(true)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	transport := conn.Config().Transport
	for {
		wrapper, ok := transport.(interface{ WrappedRoundTripper() http.RoundTripper })
		if !ok {
			break
		}
		transport = wrapper.WrappedRoundTripper()
	}
	if err := conn.Swap(through(after)); err != nil {
		t.Fatal(err)
	}
	former, err := transport.(*http.Transport).DialContext(t.Context(), "tcp", listener.Addr().String()) // as begun before
	if err == nil {
		former.Close()
		t.Error("the former proxy is connected")
	}
	if got := whoami(t, conn.Config()); got != "dialling" || len(requests()) == 0 {
		t.Errorf("connected as %q, %d times by the next proxy", got, len(requests()))
	}
}

func TestSwapOtherServer(t *testing.T) {
	c := testkit.Cluster(t)
	cfg := c.User(t, "stays")
	conn := connect(t, cfg)
	other := rest.CopyConfig(cfg)
	other.Host = "https://127.0.0.1:1"
	if err := conn.Swap(testkit.Kubeconfig(t, other)); !errors.Is(err, multicluster.ErrOtherServer) {
		t.Errorf("another address: got %v, want %v", err, multicluster.ErrOtherServer)
	}
	if err := conn.Swap([]byte("nonsense")); err == nil {
		t.Error("nonsense was accepted")
	}
	if got := whoami(t, conn.Config()); got != "stays" {
		t.Errorf("connected as %s, want stays", got)
	}
}

func TestHealthyOutage(t *testing.T) {
	c := testkit.SecondCluster(t)
	conn := connect(t, c.User(t, "patient"))
	if err := conn.Healthy(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.StopAPIServer(t)
	if err := conn.Healthy(t.Context()); err == nil {
		t.Error("a stopped API server is called healthy")
	}
	c.StartAPIServer(t)
	testkit.Eventually(t, limit, func() error { return conn.Healthy(context.Background()) })
}

func TestConnUntrustedServer(t *testing.T) {
	c := testkit.Cluster(t)
	cfg := c.User(t, "careful")
	cfg.CAData = nil
	conn := connect(t, cfg)
	if err := conn.Healthy(t.Context()); err == nil {
		t.Error("a server with a certificate that nobody vouches for is trusted")
	}
}

func TestConnNamesAuthority(t *testing.T) {
	for ca, want := range map[string]bool{"some": true, "": false} {
		cfg := &rest.Config{Host: "https://192.0.2.1", BearerToken: "token"}
		if ca != "" {
			cfg.CAData = testkit.Cluster(t).Config.CAData
		}
		if got := connect(t, cfg).NamesAuthority(); got != want {
			t.Errorf("with %q authority: %v", ca, got)
		}
	}
}

func mayRead(t *testing.T, c *testkit.ControlPlane, namespace string, users ...string) {
	t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
	}
	for _, user := range users {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: user})
	}
	for _, obj := range []client.Object{role, binding} {
		if err := c.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

// A peer names its server, and the proxy to it, itself: neither leads into this machine or to what serves its credentials, however it is spelled.
func TestConnPeerAddresses(t *testing.T) {
	reached := &atomic.Int32{}
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(inside.Close)
	_, port, err := net.SplitHostPort(inside.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []pki.Kubeconfig{
		{Server: "https://127.0.0.1:" + port}, {Server: "https://localhost:" + port}, {Server: "https://[::1]:" + port},
		{Server: "https://169.254.169.254"}, {Server: "https://[fe80::1]"}, {Server: "https://0.0.0.0:" + port},
		{Server: "https://192.0.2.1", ProxyURL: "http://127.0.0.1:" + port}, {Server: "https://192.0.2.1", ProxyURL: "http://169.254.169.254"},
	} {
		to.Token, to.Cluster, to.User = "secret", "c", "u"
		kubeconfig, err := to.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := multicluster.NewConn(kubeconfig); err == nil || !strings.Contains(err.Error(), "which no peer can have") {
			t.Errorf("%s by %q: %v", to.Server, to.ProxyURL, err)
		}
	}
	// A name is no address before it is resolved: the dialer looks.
	kubeconfig, err := pki.Kubeconfig{Server: "https://api.example.com", Token: "secret", Cluster: "c", User: "u"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := multicluster.NewConn(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	for _, host := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1", "0.0.0.0"} {
		if c, err := conn.Dialer(time.Minute).DialContext(t.Context(), "tcp", net.JoinHostPort(host, port)); err == nil || !strings.Contains(err.Error(), "which no peer can have") {
			t.Errorf("dialling %s: %v, %v", host, c, err)
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("%d requests reached a server inside", n)
	}
}
