// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

func (s *testEnv) useKubeconfig(data []byte) *corev1.Secret {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "kubeconfig", Namespace: s.tenant}}
	eventually(s, s.consumer, secret, exists)
	secret.Data = map[string][]byte{names.KubeconfigKey: data}
	if err := s.consumer.Client.Update(s.t.Context(), secret); err != nil {
		s.t.Fatal(err)
	}
	return secret
}

func TestKubeconfigChange(t *testing.T) {
	s := newTestEnv(t, nil)
	good := testkit.Kubeconfig(t, s.provider.User(t, "slice", "system:masters"))
	secret := s.useKubeconfig([]byte("no kubeconfig"))
	s.run()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}
	eventually(s, s.consumer, node, nodeReady(corev1.ConditionFalse))
	s.event(secret, "InvalidKubeconfig", "kubeconfig")

	s.useKubeconfig(good)
	eventually(s, s.consumer, node, nodeReady(corev1.ConditionTrue))
	s.pod(s.local, "first")
	eventually(s, s.provider, s.shadow("first"), exists)

	s.useKubeconfig([]byte("nonsense"))
	s.pod(s.local, "second")
	eventually(s, s.provider, s.shadow("second"), exists)

	s.useKubeconfig(testkit.Kubeconfig(t, s.provider.User(t, "renewed", "system:masters")))
	s.pod(s.local, "third")
	eventually(s, s.provider, s.shadow("third"), exists)
	remote := s.runRemotely(eventually(s, s.provider, s.shadow("first"), exists), "10.7.0.9")
	eventually(s, s.consumer, s.localPod("first"), phaseIs(corev1.PodRunning))
	if remote.UID == "" {
		t.Error("the remote pod was not made")
	}
}

func TestKubeconfigOfAnotherServer(t *testing.T) {
	s := newTestEnv(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 3*limit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- Run(ctx, s.options) }()
	eventually(s, s.consumer, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}, nodeReady(corev1.ConditionTrue))
	s.useKubeconfig(testkit.Kubeconfig(t, s.consumer.User(t, "slice", "system:masters")))
	if err := <-done; !errors.Is(err, multicluster.ErrOtherServer) {
		t.Errorf("ended with %v", err)
	}
}

func TestKubeconfigProxy(t *testing.T) {
	proxy, requested := testkit.ConnectProxy(t)
	via, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	via.User = url.UserPassword("user", "word")
	up := upstream(t, func(k *pki.Kubeconfig) { k.ProxyURL = via.String() })
	for _, upgrade := range []string{"", "SPDY/3.1"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			up.forwardRequest(w, req, &url.URL{Path: "/api/v1/namespaces/web-rome/pods/web/exec"})
		}))
		defer server.Close()
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		header := ""
		if upgrade != "" {
			header = "Connection: Upgrade\r\nUpgrade: " + upgrade + "\r\n"
		}
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: node\r\n%s\r\n", header)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: 200, false: 101}[upgrade == ""]; resp.StatusCode != want {
			t.Errorf("got %s, want %d", resp.Status, want)
		}
	}
	want := "CONNECT " + up.base.Host + " Basic dXNlcjp3b3Jk"
	if diff := cmp.Diff([]string{want, want}, requested()); diff != "" {
		t.Errorf("the proxy was asked (-want +got):\n%s", diff)
	}
}
