// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// countingProxy is a way to an API server that remembers what is written.
type countingProxy struct {
	mu     sync.Mutex
	writes []string
	// closed is a part of the paths that nothing is written to.
	closed string
	// late is a part of the paths whose watches tell nothing until thaw is closed.
	late string
	thaw chan struct{}
}

// newCountingProxy returns a way to the server of cfg, and cfg with the address of that way.
func newCountingProxy(t *testing.T, cfg *rest.Config) (*countingProxy, *rest.Config) {
	t.Helper()
	target, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := &countingProxy{}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Header.Del("Authorization") },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Query().Get("watch") != "" {
				r.Body = &watched{ReadCloser: r.Body, path: r.Request.URL.Path, by: c}
			}
			return nil
		},
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet {
			c.mu.Lock()
			c.writes = append(c.writes, req.Method+" "+req.URL.Path)
			closed := c.closed != "" && strings.Contains(req.URL.Path, c.closed)
			c.mu.Unlock()
			if closed {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
		}
		proxy.ServeHTTP(w, req)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.CloseClientConnections) // watches do not end by themselves
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return c, &rest.Config{Host: server.URL, BearerToken: "any", TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

// close refuses what is written to paths that contain part; empty ends that.
func (c *countingProxy) close(part string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = part
}

// delay keeps back what watches of paths that end in part tell, until the returned function is called.
func (c *countingProxy) delay(part string) (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late, c.thaw = part, make(chan struct{})
	return sync.OnceFunc(func() { close(c.thaw) })
}

// watched is what a watch tells.
type watched struct {
	io.ReadCloser
	path string
	by   *countingProxy
}

func (w *watched) Read(into []byte) (int, error) {
	n, err := w.ReadCloser.Read(into)
	w.by.mu.Lock()
	late, thaw := w.by.late, w.by.thaw
	w.by.mu.Unlock()
	if late != "" && strings.HasSuffix(w.path, late) {
		<-thaw
	}
	return n, err
}

// to returns what was written to paths that contain part, since the last take.
func (c *countingProxy) to(part string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.writes), func(write string) bool { return !strings.Contains(write, part) })
}

// take returns what was written to objects of a namespace since the last time.
func (c *countingProxy) take(namespace string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, write := range c.writes {
		if strings.Contains(write, "/namespaces/"+namespace+"/") && !strings.Contains(write, "/events") {
			out = append(out, write)
		}
	}
	c.writes = nil
	slices.Sort(out)
	return out
}

func TestRestartElsewhere(t *testing.T) {
	s := newTestEnv(t, func(o *Options) { o.Certificate = CertificateKubelet })
	clients, err := kubernetes.NewForConfig(s.consumer.Config)
	if err != nil {
		t.Fatal(err)
	}
	localProxy, config := newCountingProxy(t, s.consumer.Config)
	remoteProxy, remoteConfig := newCountingProxy(t, s.provider.User(t, "slice", "system:masters"))
	s.options.Config = config
	s.useKubeconfig(testkit.Kubeconfig(t, remoteConfig))
	stop := s.run()
	nextRequest(t, clients, s.node, s.options.NodeIP)
	for _, name := range []string{"one", "two", "three"} {
		s.pod(s.local, name)
		s.runRemotely(eventually(s, s.provider, s.shadow(name), exists), "10.7.0.9")
		eventually(s, s.consumer, s.localPod(name), phaseIs(corev1.PodRunning))
	}
	stop()
	localProxy.take(s.local)
	remoteProxy.take(s.remoteNamespace)

	s.options.NodeIP, s.options.ListenPort = netip.MustParseAddr("127.0.0.2"), testkit.Port(t)
	s.run()
	s.step("it asks for a certificate of its new address, and the Node leads there", func() {
		nextRequest(s.t, clients, s.node, s.options.NodeIP)
		eventually(s, s.consumer, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}, func(n *corev1.Node) error {
			if n.Status.Addresses[0].Address != "127.0.0.2" || n.Status.DaemonEndpoints.KubeletEndpoint.Port != int32(s.options.ListenPort) {
				return fmt.Errorf("reached at %v %v", n.Status.Addresses, n.Status.DaemonEndpoints)
			}
			return nodeReady(corev1.ConditionTrue)(n)
		})
	})
	s.step("only the address of the node is written to its pods", func() {
		for _, name := range []string{"one", "two", "three"} {
			eventually(s, s.consumer, s.localPod(name), func(p *corev1.Pod) error {
				if p.Status.HostIP != "127.0.0.2" {
					return fmt.Errorf("the node of %s is at %s", name, p.Status.HostIP)
				}
				return nil
			})
		}
		path := " /api/v1/namespaces/" + s.local + "/pods/"
		want := []string{"PUT" + path + "one/status", "PUT" + path + "three/status", "PUT" + path + "two/status"}
		if diff := cmp.Diff(want, localProxy.take(s.local)); diff != "" {
			s.t.Errorf("written here (-want +got):\n%s", diff)
		}
		if got := remoteProxy.take(s.remoteNamespace); len(got) != 0 {
			s.t.Errorf("written there: %v", got)
		}
	})
}

func TestNoWritesWithoutChange(t *testing.T) {
	s := newTestEnv(t, func(o *Options) { o.NodeLeaseDuration = patience })
	localProxy, config := newCountingProxy(t, s.consumer.Config)
	remoteProxy, remoteConfig := newCountingProxy(t, s.provider.User(t, "slice", "system:masters"))
	s.options.Config = config
	s.useKubeconfig(testkit.Kubeconfig(t, remoteConfig))
	stop := s.run()
	remote := map[string]*corev1.Pod{}
	for _, name := range []string{"one", "two", "three"} {
		s.pod(s.local, name)
		remote[name] = s.runRemotely(eventually(s, s.provider, s.shadow(name), exists), "10.7.0.9")
		eventually(s, s.consumer, s.localPod(name), phaseIs(corev1.PodRunning))
	}
	// change reports something new about one pod: when it has arrived, all others were looked at, too.
	change := func(name, reason string) {
		status := remote[name].Status
		status.Reason = reason
		s.report(remote[name], status)
		eventually(s, s.consumer, s.localPod(name), reasonIs(reason))
	}
	expect := func(names ...string) {
		s.t.Helper()
		var want []string
		for _, name := range names {
			want = append(want, "PUT /api/v1/namespaces/"+s.local+"/pods/"+name+"/status")
		}
		if diff := cmp.Diff(want, localProxy.take(s.local)); diff != "" {
			s.t.Errorf("written here (-want +got):\n%s", diff)
		}
		if got := remoteProxy.take(s.remoteNamespace); len(got) != 0 {
			s.t.Errorf("written there: %v", got)
		}
	}
	change("three", "Settled")
	stop()
	localProxy.take(s.local)
	remoteProxy.take(s.remoteNamespace)
	status := remote["one"].Status
	status.Reason = "WhileAway"
	s.report(remote["one"], status)
	s.run()
	s.step("by a new process", func() {
		eventually(s, s.consumer, s.localPod("one"), reasonIs("WhileAway"))
		change("two", "Back")
		if got := localProxy.to("/nodes/"); len(got) > 0 {
			s.t.Errorf("written to the Node, which had not changed: %v", got)
		}
		expect("one", "two")
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}
	all := func(want corev1.ConditionStatus) {
		s.t.Helper()
		for _, name := range []string{"one", "two", "three"} {
			eventually(s, s.consumer, s.localPod(name), isReady(want))
		}
	}
	s.step("in an outage, except once that a pod cannot be reached", func() {
		s.provider.StopAPIServer(s.t)
		eventually(s, s.consumer, node, nodeIsLost)
		all(corev1.ConditionFalse)
		expect("one", "three", "two")
	})
	s.step("after it, except once that a pod can be reached again", func() {
		s.provider.StartAPIServer(s.t)
		eventually(s, s.consumer, node, nodeReady(corev1.ConditionTrue))
		all(corev1.ConditionTrue)
		change("three", "Survived")
		expect("one", "three", "three", "two")
	})
}

func isReady(want corev1.ConditionStatus) func(*corev1.Pod) error {
	return func(p *corev1.Pod) error {
		label := ""
		if want == corev1.ConditionFalse {
			label = "true"
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == want && p.Labels[names.RemoteUnavailable] == label {
				return nil
			}
		}
		return fmt.Errorf("labels %v, conditions %v", p.Labels, p.Status.Conditions)
	}
}

// What the control plane says of the pods of a lost node stays true until the node is back.
func TestPodsOfNodeNotReady(t *testing.T) {
	s := newTestEnv(t, nil)
	s.run()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}
	s.pod(s.local, "web")
	remote := s.runRemotely(eventually(s, s.provider, s.shadow("web"), exists), "10.7.0.9")
	pod := eventually(s, s.consumer, s.localPod("web"), isReady(corev1.ConditionTrue))
	s.patch(s.consumer, s.virtualNode(), `{"spec":{"resourceQuota":{"hard":{"cpu":"0"}}}}`)
	eventually(s, s.consumer, node, nodeReady(corev1.ConditionFalse))
	eventually(s, s.consumer, pod, isReady(corev1.ConditionFalse))

	s.step("whatever happens in the provider", func() {
		status := remote.Status
		status.Reason = "Checked"
		s.report(remote, status)
		eventually(s, s.consumer, pod, reasonIs("Checked"))
		if err := isReady(corev1.ConditionFalse)(pod); err != nil {
			s.t.Error(err)
		}
	})
	s.step("and a pod that ends has nothing of it left", func() {
		status := remote.Status
		status.Phase = corev1.PodSucceeded
		s.report(remote, status)
		if eventually(s, s.consumer, pod, phaseIs(corev1.PodSucceeded)).Labels[names.RemoteUnavailable] != "" {
			s.t.Errorf("labels are %v", pod.Labels)
		}
	})
}

// nodeIsLost tells whether the Node is not ready, by whomever.
func nodeIsLost(n *corev1.Node) error {
	if nodeReady(corev1.ConditionTrue)(n) == nil {
		return errors.New("the node is still ready")
	}
	return nil
}

func TestStandby(t *testing.T) {
	s := newTestEnv(t, electing)
	s.options.PodName = "first"
	stop := s.run()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}
	eventually(s, s.consumer, node, nodeReady(corev1.ConditionTrue))
	first := s.options.ListenPort
	s.options.PodName, s.options.ListenPort = "second", testkit.Port(t)
	s.run()
	s.pod(s.local, "web")
	eventually(s, s.provider, s.shadow("web"), exists)
	if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.options.ListenPort)); err == nil {
		_ = conn.Close()
		t.Error("the standby listens")
	}
	if got := eventually(s, s.consumer, node, exists).Status.DaemonEndpoints.KubeletEndpoint.Port; got != int32(first) {
		t.Errorf("the node is reached at port %d, not at %d of the leader", got, first)
	}
	stop()
	eventually(s, s.consumer, node, func(n *corev1.Node) error {
		if got := n.Status.DaemonEndpoints.KubeletEndpoint.Port; got != int32(s.options.ListenPort) {
			return fmt.Errorf("the node is reached at port %d", got)
		}
		return nodeReady(corev1.ConditionTrue)(n)
	})
}

func (s *testEnv) virtualNode() *offv1beta1.VirtualNode {
	return &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: s.node, Namespace: s.tenant}}
}
