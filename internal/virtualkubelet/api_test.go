// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

// upstream is an API server of a provider that says what it was asked, and gives back what is written to a stream.
func upstream(t *testing.T, edit func(*pki.Kubeconfig)) *providerProxy {
	t.Helper()
	return upstreamOf(t, edit, func(w http.ResponseWriter, req *http.Request) {
		requested := fmt.Sprintf("%s %s?%s auth=%q", req.Method, req.URL.Path, req.URL.Query().Encode(), req.Header.Get("Authorization"))
		if req.Header.Get("Upgrade") == "" {
			fmt.Fprint(w, requested)
			return
		}
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\nX-Stream-Protocol-Version: %s\r\n\r\n%s\n",
			req.Header.Get("Upgrade"), req.Header.Get("X-Stream-Protocol-Version"), requested)
		_, _ = io.Copy(conn, buffered)
	})
}

// upstreamOf is an API server of a provider that answers as h does.
func upstreamOf(t *testing.T, edit func(*pki.Kubeconfig), h http.HandlerFunc) *providerProxy {
	t.Helper()
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	k := pki.Kubeconfig{Server: server.URL, CA: ca, Token: "ours", Cluster: "milan", User: "slice"}
	if edit != nil {
		edit(&k)
	}
	kubeconfig, err := k.Encode()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := multicluster.NewConn(kubeconfig, multicluster.AllowLoopback(true))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	p, err := newProvider(conn, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// startKubelet serves the kubelet API of a node with one pod, web/web, guarded if guard is not nil.
func startKubelet(t *testing.T, guard *authFilter) (address string) {
	t.Helper()
	up := upstream(t, nil)
	figures, _ := metricsOf(map[string]string{"/stats/summary": "{}", "/metrics": "a{namespace=\"web\",pod=\"a\"} 1\n"}, nil)
	k := &kubeletAPI{
		metrics: figures,
		find: func(_ context.Context, namespace, name string) (*corev1.Pod, error) {
			if namespace != "web" || name != "web" {
				return nil, errNoPod
			}
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, UID: "7", Labels: map[string]string{names.ShadowPod: "true"},
			}}, nil
		},
		list: func(context.Context) ([]corev1.Pod, error) {
			return []corev1.Pod{
				{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}},
				{ObjectMeta: metav1.ObjectMeta{Name: "done"}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}},
			}, nil
		},
		remoteNamespace: func(namespace string) (string, bool) { return namespace + "-rome", namespace == "web" },
		send:            up.forwardRequest,
		log:             logr.Discard(),
	}
	handler := k.newHandler()
	if guard != nil {
		handler = guard.wrapHandler(handler)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	certs := (&selfSigned{node: "milan", ip: netip.MustParseAddr("127.0.0.1"), now: time.Now}).currentCertificate
	done := make(chan error, 1)
	go func() { done <- serveTLS(t.Context(), listener, handler, certs) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// clientOf speaks as cfg says and trusts any server.
func clientOf(t *testing.T, cfg *rest.Config) *http.Client {
	t.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.TLSClientConfig.CAData, cfg.TLSClientConfig.Insecure = nil, true
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ask(t *testing.T, c *http.Client, method, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestKubeletAPIRequests(t *testing.T) {
	address := startKubelet(t, nil)
	c := clientOf(t, &rest.Config{BearerToken: "theirs"})
	for _, tc := range []struct {
		rule, method, path string
		status             int
		body               string
	}{
		{
			"logs with their options", "GET", "/containerLogs/web/web/main?follow=true&tailLines=0&previous=true&timestamps=true&sinceSeconds=5&limitBytes=9&stream=Stdout&insecureSkipTLSVerifyBackend=true",
			200, `GET /api/v1/namespaces/web-rome/pods/web/log?container=main&follow=true&limitBytes=9&previous=true&sinceSeconds=5&stream=Stdout&tailLines=0&timestamps=true auth="Bearer ours"`,
		},
		{
			"commands with their streams", "POST", "/exec/web/web/main?command=sh&command=-c&command=a+b&input=1&output=1&tty=1",
			200, `POST /api/v1/namespaces/web-rome/pods/web/exec?command=sh&command=-c&command=a+b&container=main&stdin=true&stdout=true&tty=true auth="Bearer ours"`,
		},
		{"attachments", "POST", "/attach/web/web/main?output=1&error=1", 200, `POST /api/v1/namespaces/web-rome/pods/web/attach?container=main&stderr=true&stdout=true auth="Bearer ours"`},
		{"forwarded ports", "GET", "/portForward/web/web?port=80&port=443", 200, `GET /api/v1/namespaces/web-rome/pods/web/portforward?ports=80&ports=443 auth="Bearer ours"`},
		{"not pods of other nodes", "GET", "/containerLogs/web/other/main", 404, "pod not found on this node"},
		{"not other namespaces", "GET", "/containerLogs/kube-system/web/main", 404, "pod not found on this node"},
		{"not by a crooked path", "GET", "/containerLogs/web/web/..%2f..%2f..%2fsecrets", 200, `GET /api/v1/namespaces/web-rome/pods/web/log?container=..%2F..%2F..%2Fsecrets auth="Bearer ours"`},
		{"a pod may be named with its UID", "POST", "/exec/web/web/7/main?command=id&output=1", 200, `POST /api/v1/namespaces/web-rome/pods/web/exec?command=id&container=main&stdout=true auth="Bearer ours"`},
		{"not another pod of that name", "POST", "/exec/web/web/8/main?command=id&output=1", 404, "pod not found on this node"},
		{"ports of a pod with its UID", "POST", "/portForward/web/web/7?port=80,443", 200, `POST /api/v1/namespaces/web-rome/pods/web/portforward?ports=80&ports=443 auth="Bearer ours"`},
		{"no commands by the old way", "POST", "/run/web/web/main?cmd=id", 501, "not served by virtual nodes"},
		{"no checkpoints", "POST", "/checkpoint/web/web/main", 501, "not served by virtual nodes"},
		{"no checkpoints of other pods", "POST", "/checkpoint/web/other/main", 404, "pod not found on this node"},
		{"statistics", "GET", "/stats/summary", 200, `{"node":{"nodeName":"milan","startTime":"1970-01-01T00:00:00.001Z","cpu":{"time":"1970-01-01T00:00:09Z","usageNanoCores":0,"usageCoreNanoSeconds":1},"memory":{"time":"1970-01-01T00:00:09Z","workingSetBytes":0}},"pods":[]}` + "\n"},
		{"metrics of resources", "GET", "/metrics/resource", 200, fmt.Sprintf(resourceTrailer, 1e-9, 1, 9000)},
		{"metrics", "GET", "/metrics", 200, "a{namespace=\"web\",pod=\"a\"} 1\n"},
		{"no other metrics", "GET", "/metrics/other", 501, "not served by virtual nodes"},
		{"no specification of the node", "GET", "/stats/", 501, "not served by virtual nodes"},
		{"no files of the node", "GET", "/logs/", 501, "not served by virtual nodes"},
		{"health", "GET", "/healthz", 200, "ok"},
		{"not by another method", "DELETE", "/exec/web/web/main", 405, "Method Not Allowed\n"},
		{"not what a kubelet has not", "GET", "/configz", 404, "404 page not found\n"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			status, body := ask(t, c, tc.method, "https://"+address+tc.path)
			if status != tc.status || body != tc.body {
				t.Errorf("got  %d %s\nwant %d %s", status, body, tc.status, tc.body)
			}
		})
	}
	if _, body := ask(t, c, "GET", "https://"+address+"/pods"); strings.Count(body, `"phase"`) != 2 {
		t.Errorf("pods are %s", body)
	}
	if _, body := ask(t, c, "GET", "https://"+address+"/runningpods/"); strings.Count(body, `"phase"`) != 1 || !strings.Contains(body, "Running") {
		t.Errorf("running pods are %s", body)
	}
}

// FuzzRequestsLeadNowhereElse asks for any path: what is sent to the provider is about the one pod that there is.
func FuzzRequestsLeadNowhereElse(f *testing.F) {
	for _, seed := range []string{
		"/containerLogs/web/web/main?follow=true&tailLines=0", "/exec/web/web/7/main?command=a&command=b&input=1", "/portForward/web/web?port=80,443&port=1",
		"/containerLogs/web/..%2fweb/main", "/exec/web/web%2f..%2fother/main", "//exec/web/web/main", "/attach/web/web/%00?tty=maybe", "/exec/web/web/main?%zz&;",
	} {
		f.Add("GET", seed)
		f.Add("POST", seed)
	}
	f.Fuzz(func(t *testing.T, method, target string) {
		to, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		figures, _ := metricsOf(nil, nil)
		k := &kubeletAPI{
			metrics: figures,
			find: func(_ context.Context, namespace, name string) (*corev1.Pod, error) {
				if namespace != "web" || name != "web" {
					return nil, errNoPod
				}
				return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web", UID: "7", Labels: map[string]string{names.ShadowPod: "true"}}}, nil
			},
			list:            func(context.Context) ([]corev1.Pod, error) { return nil, nil },
			remoteNamespace: func(string) (string, bool) { return "web-rome", true },
			send: func(_ http.ResponseWriter, _ *http.Request, to *url.URL) {
				subresource, owned := strings.CutPrefix(to.Path, "/api/v1/namespaces/web-rome/pods/web/")
				if !owned || !slices.Contains([]string{"log", "exec", "attach", "portforward"}, subresource) {
					t.Errorf("%s leads to %s", target, to.Path)
				}
				query, err := url.ParseQuery(to.RawQuery)
				for key := range query {
					if !slices.Contains(append([]string{"container", "command", "ports", "stdin", "stdout", "stderr", "tty"}, logParameters...), key) {
						t.Errorf("%s asks for %s", target, key)
					}
				}
				if err != nil || len(query["container"]) > 1 {
					t.Errorf("%s asks %s", target, to.RawQuery)
				}
			},
			log: logr.Discard(),
		}
		req := (&http.Request{Method: method, URL: to, Header: http.Header{}, Body: http.NoBody}).WithContext(t.Context())
		k.newHandler().ServeHTTP(httptest.NewRecorder(), req)
	})
}

func TestKubeletAPIStreams(t *testing.T) {
	address := startKubelet(t, nil)
	for _, protocol := range []string{"SPDY/3.1", "websocket"} {
		t.Run(protocol, func(t *testing.T) {
			conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "POST /exec/web/web/main?command=sh&tty=1 HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer theirs\r\n"+
				"Connection: Upgrade\r\nUpgrade: %s\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n", protocol)
			in := bufio.NewReader(conn)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("X-Stream-Protocol-Version") != "v4.channel.k8s.io" {
				t.Fatalf("got %s %v", resp.Status, resp.Header)
			}
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			want := `POST /api/v1/namespaces/web-rome/pods/web/exec?command=sh&container=main&tty=true auth="Bearer ours"` + "\n"
			if line != want {
				t.Errorf("asked %q, want %q", line, want)
			}
			payload := "\x00\x01resize\xff\x00"
			if _, err := io.WriteString(conn, payload); err != nil {
				t.Fatal(err)
			}
			echo := make([]byte, len(payload))
			if _, err := io.ReadFull(in, echo); err != nil || string(echo) != payload {
				t.Errorf("got %q back: %v", echo, err)
			}
		})
	}
}

func TestKubeletAPIAuthorization(t *testing.T) {
	c := testkit.Cluster(t)
	clients, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGate(t.Context(), clients, "milan", logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	base := "https://" + startKubelet(t, g)
	namespace := testkit.Namespace(t, c, "pod", nil)
	token, err := clients.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Allow(t, c, "", "reader", testkit.Rule("", "nodes/proxy", "get"))
	testkit.Allow(t, c, "", "lister", testkit.Rule("", "nodes/pods", "get"))
	testkit.Allow(t, c, "", "statistician", testkit.Rule("", "nodes/stats", "get"))

	logs, exec, stats := "/containerLogs/web/web/main", "/exec/web/web/main?command=id&output=1", "/stats/summary"
	testkit.Eventually(t, limit, func() error { // the authority of client certificates arrives a moment later
		if status, body := ask(t, clientOf(t, c.Config), "GET", base+logs); status != http.StatusOK {
			return fmt.Errorf("an administrator gets %d %s", status, body)
		}
		return nil
	})
	for _, tc := range []struct {
		rule         string
		client       *http.Client
		method, path string
		status       int
	}{
		{"nobody without a certificate", clientOf(t, &rest.Config{}), "GET", logs, 401},
		{"nobody with a token of elsewhere", clientOf(t, &rest.Config{BearerToken: "x"}), "GET", logs, 401},
		{"a pod's own account is known and not allowed", clientOf(t, &rest.Config{BearerToken: token.Status.Token}), "GET", logs, 403},
		{"nobody with a certificate of elsewhere", clientOf(t, stranger(t)), "GET", logs, 401},
		{"a user without rights", clientOf(t, c.User(t, "nobody")), "GET", "/pods", 403},
		{"who may read the proxy reads logs", clientOf(t, c.User(t, "reader")), "GET", logs, 200},
		{"who may only read runs nothing", clientOf(t, c.User(t, "reader")), "POST", exec, 403},
		{"not even by a method that reads", clientOf(t, c.User(t, "reader")), "GET", exec, 403},
		{"who may read statistics reads no logs", clientOf(t, c.User(t, "statistician")), "GET", logs, 403},
		{"who may list the pods of a node does", clientOf(t, c.User(t, "lister")), "GET", "/pods", 200},
		{"and so does who may read the proxy", clientOf(t, c.User(t, "reader")), "GET", "/pods", 200},
		{"who may list pods reads no logs", clientOf(t, c.User(t, "lister")), "GET", logs, 403},
		{"statistics have a right of their own", clientOf(t, c.User(t, "reader")), "GET", stats, 403},
		{"an administrator runs commands", clientOf(t, c.Config), "POST", exec, 200},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if status, body := ask(t, tc.client, tc.method, base+tc.path); status != tc.status {
				t.Errorf("got %d %s, want %d", status, body, tc.status)
			}
		})
	}
}

// stranger has a certificate that nobody here knows.
func stranger(t *testing.T) *rest.Config {
	t.Helper()
	own := (&selfSigned{node: "milan", ip: netip.MustParseAddr("127.0.0.1"), now: time.Now}).currentCertificate()
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return &rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}),
		KeyData:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}}
}

func TestServingCertificateRequest(t *testing.T) {
	c := testkit.Cluster(t, testkit.WithControllers("certificatesigningrequest-signing-controller"))
	clients, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := newCertificates(t.Context(), clients, CertificateKubelet, "milan", netip.MustParseAddr("10.0.0.5"), func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certs.forServer(nil); err == nil {
		t.Error("there is a certificate before one was issued")
	}
	var request certv1.CertificateSigningRequest
	testkit.Eventually(t, limit, func() error {
		list, err := clients.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, request = range list.Items {
			if len(request.Status.Conditions) == 0 {
				return nil
			}
		}
		return errors.New("no request")
	})
	if request.Spec.SignerName != certv1.KubeletServingSignerName {
		t.Errorf("signer is %s", request.Spec.SignerName)
	}
	if err := pki.CheckServingCSR(request.Spec.Request, "milan", []netip.Addr{netip.MustParseAddr("10.0.0.5")}, nil); err != nil {
		t.Errorf("the request breaks the rule it is approved by: %v", err)
	}
	request.Status.Conditions = append(request.Status.Conditions, certv1.CertificateSigningRequestCondition{
		Type: certv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "approved",
	})
	if _, err := clients.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), request.Name, &request, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, limit, func() error {
		cert, err := certs.forServer(nil)
		if err != nil {
			return err
		}
		return cert.Leaf.VerifyHostname("10.0.0.5")
	})
}

func TestSelfSignedCertificateRenewal(t *testing.T) {
	now := time.Now()
	s := &selfSigned{node: "milan", ip: netip.MustParseAddr("10.0.0.5"), now: func() time.Time { return now }}
	first := s.currentCertificate()
	now = now.Add(selfSignedLife - selfSignedMargin - time.Hour)
	if s.currentCertificate() != first {
		t.Error("renewed too early")
	}
	now = now.Add(2 * time.Hour)
	if second := s.currentCertificate(); second == first || !second.Leaf.NotAfter.After(first.Leaf.NotAfter) {
		t.Error("not renewed in time")
	}
}
