// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	remotecommandproto "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	clientspdy "k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// remoteKubelet is the kubelet of the provider's node: it speaks what a kubelet speaks, and its containers are here.
type remoteKubelet struct {
	t  *testing.T
	mu sync.Mutex
	// log answers for logs.
	log http.HandlerFunc
	// asked are the options of the logs that were asked for; left tells that the other end of a stream went away.
	asked chan string
	left  chan struct{}
}

// newRemoteKubelet serves the pods of the provider's only node.
func (s *testEnv) newRemoteKubelet() *remoteKubelet {
	s.t.Helper()
	k := &remoteKubelet{t: s.t, asked: make(chan string, 10), left: make(chan struct{}, 10)}
	mux := http.NewServeMux()
	mux.HandleFunc("/containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, req *http.Request) {
		k.asked <- req.PathValue("container") + "?" + req.URL.RawQuery
		k.mu.Lock()
		handler := k.log
		k.mu.Unlock()
		handler(w, req)
	})
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.exec)
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", k.exec)
	mux.HandleFunc("/portForward/{namespace}/{pod}", k.portForward)
	server := httptest.NewTLSServer(mux)
	s.t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	port, err := strconv.Atoi(address.Port())
	if err != nil {
		s.t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "somewhere"}}
	s.create(s.provider, node)
	s.t.Cleanup(func() { _ = s.provider.Client.Delete(context.Background(), node) })
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address.Hostname()}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	if err := s.provider.Client.Status().Update(s.t.Context(), node); err != nil {
		s.t.Fatal(err)
	}
	return k
}

func (k *remoteKubelet) answerLogs(h http.HandlerFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.log = h
}

// exec runs one of the commands that containers here know. To attach is to find cat running.
func (k *remoteKubelet) exec(w http.ResponseWriter, req *http.Request) {
	query := req.URL.Query()
	expected := 1
	for _, key := range []string{"input", "output", "error", "tty"} {
		if query.Get(key) == "1" {
			expected++
		}
	}
	if strings.Join(query["command"], " ") == "refuse" {
		http.Error(w, "container not found (\"main\")", http.StatusInternalServerError)
		return
	}
	if _, err := httpstream.Handshake(req, w, []string{remotecommandproto.StreamProtocolV4Name}); err != nil {
		k.t.Error(err)
		return
	}
	arrived := make(chan httpstream.Stream, 5)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, req, func(s httpstream.Stream, _ <-chan struct{}) error {
		arrived <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	streams := map[string]httpstream.Stream{}
	for range expected {
		select {
		case s := <-arrived:
			streams[s.Headers().Get(corev1.StreamType)] = s
		case <-conn.CloseChan():
			return
		}
	}
	status := k.command(query["command"], streams, conn)
	if status == nil {
		return
	}
	for _, name := range []string{corev1.StreamTypeStdout, corev1.StreamTypeStderr} {
		if s := streams[name]; s != nil {
			_ = s.Close()
		}
	}
	_ = json.NewEncoder(streams[corev1.StreamTypeError]).Encode(status)
	_ = streams[corev1.StreamTypeError].Close()
	<-conn.CloseChan()
}

// command returns how it ended, nil for without a word.
func (k *remoteKubelet) command(command []string, streams map[string]httpstream.Stream, conn httpstream.Connection) *metav1.Status {
	stdin, stdout := streams[corev1.StreamTypeStdin], streams[corev1.StreamTypeStdout]
	success := &metav1.Status{Status: metav1.StatusSuccess}
	switch strings.Join(command, " ") {
	case "", "cat":
		_, _ = io.Copy(stdout, stdin)
	case "count": // answers long after its input has ended
		n, _ := io.Copy(io.Discard, stdin)
		for i := range 3 {
			fmt.Fprintf(stdout, "%d %d\n", i, n)
		}
		fmt.Fprint(streams[corev1.StreamTypeStderr], "counted")
	case "size":
		told := json.NewDecoder(streams[corev1.StreamTypeResize])
		for range 2 {
			var size remotecommand.TerminalSize
			_ = told.Decode(&size)
			fmt.Fprintf(stdout, "%dx%d\n", size.Width, size.Height)
		}
	case "fail":
		return &metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommandproto.NonZeroExitCodeReason, Message: "command terminated with non-zero exit code",
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommandproto.ExitCodeCauseType, Message: "7"}}},
		}
	case "wait":
		fmt.Fprint(stdout, "waiting\n")
		<-conn.CloseChan()
		k.left <- struct{}{}
		return nil
	case "vanish":
		fmt.Fprint(stdout, "going\n")
		_ = conn.Close()
		return nil
	}
	return success
}

// portForward gives back what is sent to a port, except to port 1, where nobody listens.
func (k *remoteKubelet) portForward(w http.ResponseWriter, req *http.Request) {
	if _, err := httpstream.Handshake(req, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		k.t.Error(err)
		return
	}
	var mu sync.Mutex
	failures := map[string]httpstream.Stream{}
	arrived := make(chan httpstream.Stream, 100)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, req, func(s httpstream.Stream, _ <-chan struct{}) error {
		arrived <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	for {
		select {
		case s := <-arrived:
			id := s.Headers().Get(corev1.PortForwardRequestIDHeader)
			if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				mu.Lock()
				failures[id] = s
				mu.Unlock()
				continue
			}
			mu.Lock()
			failure := failures[id] // client-go opens it first
			mu.Unlock()
			go func() {
				if s.Headers().Get(corev1.PortHeader) == "1" {
					fmt.Fprint(failure, "connection refused")
				} else {
					_, _ = io.Copy(s, s)
				}
				_ = failure.Close()
				_ = s.Close()
			}()
		case <-conn.CloseChan():
			return
		}
	}
}

// podConnection is one by which a client reaches the pod web.
type podConnection struct {
	name string
	// config and base of requests to a subresource; kubelet tells that base is the port itself.
	config *rest.Config
	base   func(subresource string) string
	direct bool
	// websocket or SPDY.
	websocket bool
}

// ways are the connections of clients: through the API server, as kubectl does, and directly to the port.
func (s *testEnv) ways() []podConnection {
	direct := rest.CopyConfig(s.consumer.Config)
	direct.CAData, direct.Insecure = nil, true
	port := func(subresource string) string {
		path := fmt.Sprintf("https://127.0.0.1:%d/%s/%s/web", s.options.ListenPort, subresource, s.local)
		if subresource != "portForward" {
			path += "/main"
		}
		return path
	}
	server := func(subresource string) string {
		return fmt.Sprintf("%s/api/v1/namespaces/%s/pods/web/%s", s.consumer.Config.Host, s.local, strings.ToLower(subresource))
	}
	return []podConnection{
		{"API server, websocket", s.consumer.Config, server, false, true},
		{"API server, SPDY", s.consumer.Config, server, false, false},
		{"port, websocket", direct, port, true, true},
		{"port, SPDY", direct, port, true, false},
	}
}

// stream runs a command, or attaches if there is none.
func (w podConnection) stream(ctx context.Context, o remotecommand.StreamOptions, command ...string) error {
	query := url.Values{"command": command}
	stdin, stdout, stderr, on := "stdin", "stdout", "stderr", "true"
	if w.direct {
		stdin, stdout, stderr, on = "input", "output", "error", "1"
	}
	for name, wanted := range map[string]bool{stdin: o.Stdin != nil, stdout: o.Stdout != nil, stderr: o.Stderr != nil, "tty": o.Tty} {
		if wanted {
			query.Set(name, on)
		}
	}
	subresource := "exec"
	if len(command) == 0 {
		subresource = "attach"
	}
	target, err := url.Parse(w.base(subresource) + "?" + query.Encode())
	if err != nil {
		return err
	}
	var executor remotecommand.Executor
	if w.websocket {
		executor, err = remotecommand.NewWebSocketExecutor(w.config, "GET", target.String())
	} else {
		executor, err = remotecommand.NewSPDYExecutor(w.config, "POST", target)
	}
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, o)
}

// running returns a testEnv with a pod that runs in the provider, and the kubelet there.
func running(t *testing.T) (*testEnv, *remoteKubelet) {
	t.Helper()
	s := newTestEnv(t, nil)
	k := s.newRemoteKubelet()
	s.run()
	eventually(s, s.consumer, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}, nodeReady(corev1.ConditionTrue))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: s.local},
		Spec: corev1.PodSpec{
			NodeName: s.node, Containers: []corev1.Container{{Name: "main", Image: "web:1"}},
			InitContainers: []corev1.Container{{Name: "init", Image: "web:1"}},
			Tolerations:    []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
	s.create(s.consumer, pod)
	s.runRemotely(eventually(s, s.provider, s.shadow("web"), exists), "10.7.0.9")
	eventually(s, s.consumer, s.localPod("web"), phaseIs(corev1.PodRunning))
	return s, k
}

// noise is the same for the same seed.
func noise(size int) []byte {
	out := make([]byte, size)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(out)
	return out
}

func TestStreamsExec(t *testing.T) {
	t.Parallel()
	s, k := running(t)
	for _, w := range s.ways() {
		s.step(w.name, func() {
			s.step("what is sent comes back, byte for byte", func() {
				payload := noise(50 << 20)
				var out bytes.Buffer
				if err := w.stream(s.t.Context(), remotecommand.StreamOptions{Stdin: bytes.NewReader(payload), Stdout: &out}, "cat"); err != nil {
					s.t.Fatal(err)
				}
				if !bytes.Equal(out.Bytes(), payload) {
					s.t.Errorf("%d bytes came back changed, of %d", out.Len(), len(payload))
				}
			})
			s.step("attaching is the same", func() {
				var out bytes.Buffer
				if err := w.stream(s.t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out}); err != nil || out.String() != "hello" {
					s.t.Errorf("got %q: %v", out.String(), err)
				}
			})
			s.step("output goes on after the input has ended", func() {
				var out, failures bytes.Buffer
				err := w.stream(s.t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("12345"), Stdout: &out, Stderr: &failures}, "count")
				if err != nil || out.String() != "0 5\n1 5\n2 5\n" || failures.String() != "counted" {
					s.t.Errorf("got %q, %q: %v", out.String(), failures.String(), err)
				}
			})
			s.step("terminals have a size, and get another one", func() {
				queue := make(sizes, 1)
				queue <- remotecommand.TerminalSize{Width: 80, Height: 25}
				in, out := io.Pipe()
				ended := make(chan error, 1)
				go func() {
					err := w.stream(s.t.Context(), remotecommand.StreamOptions{Stdout: out, Tty: true, TerminalSizeQueue: queue}, "size")
					out.CloseWithError(io.EOF)
					ended <- err
				}()
				shown := bufio.NewReader(in)
				for _, want := range []string{"80x25\n", "120x40\n"} {
					if line, err := shown.ReadString('\n'); line != want {
						s.t.Errorf("got %q: %v, want %q", line, err, want)
					}
					if want == "80x25\n" { // only now: the other end must hear of it while it runs
						queue <- remotecommand.TerminalSize{Width: 120, Height: 40}
						close(queue)
					}
				}
				if err := within(s.t, ended); err != nil {
					s.t.Error(err)
				}
			})
			s.step("exit codes arrive", func() {
				err := w.stream(s.t.Context(), remotecommand.StreamOptions{Stdout: io.Discard}, "fail")
				if exit, ok := errors.AsType[exec.CodeExitError](err); !ok || exit.Code != 7 {
					s.t.Errorf("got %v", err)
				}
			})
			s.step("errors of the provider's node arrive", func() {
				err := w.stream(s.t.Context(), remotecommand.StreamOptions{Stdout: io.Discard}, "refuse")
				if err == nil || !strings.Contains(err.Error(), `container not found ("main")`) {
					s.t.Errorf("got %v", err)
				}
			})
			s.step("a client that leaves ends the stream over there", func() {
				ctx, cancel := context.WithCancel(s.t.Context())
				in, out := io.Pipe()
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_ = w.stream(ctx, remotecommand.StreamOptions{Stdout: out}, "wait")
				}()
				if line, err := bufio.NewReader(in).ReadString('\n'); err != nil || line != "waiting\n" {
					s.t.Fatalf("got %q: %v", line, err)
				}
				cancel()
				within(s.t, k.left)
				within(s.t, ended)
			})
			s.step("a container that vanishes ends the stream here", func() {
				ended := make(chan error, 1)
				go func() {
					ended <- w.stream(s.t.Context(), remotecommand.StreamOptions{Stdin: &blocked{s.t.Context()}, Stdout: io.Discard}, "vanish")
				}()
				within(s.t, ended)
			})
		})
	}
}

// sizes are those that a terminal gets one after the other.
type sizes chan remotecommand.TerminalSize

func (q sizes) Next() *remotecommand.TerminalSize {
	if size, ok := <-q; ok {
		return &size
	}
	return nil
}

// blocked is an input that nobody types.
type blocked struct{ ctx context.Context }

func (b *blocked) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, io.EOF
}

func within[T any](t *testing.T, c <-chan T) (got T) {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case got = <-c:
	case <-timer.C:
		t.Fatal("nothing happens")
	}
	return got
}

func TestStreamsPortForward(t *testing.T) {
	s, _ := running(t)
	for _, w := range s.ways() {
		if w.direct && w.websocket {
			continue // kubelets do not speak it: API servers do
		}
		s.step(w.name, func() {
			target, err := url.Parse(w.base("portForward"))
			if err != nil {
				s.t.Fatal(err)
			}
			var dialer httpstream.Dialer
			if w.websocket {
				dialer, err = portforward.NewSPDYOverWebsocketDialerForStreaming(target, w.config)
			} else {
				var transport http.RoundTripper
				var upgrader clientspdy.Upgrader
				if transport, upgrader, err = clientspdy.RoundTripperFor(w.config); err == nil {
					dialer = clientspdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, "POST", target)
				}
			}
			if err != nil {
				s.t.Fatal(err)
			}
			ready, stop, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{"0:80", "0:1"}, stop, ready, io.Discard, io.Discard)
			if err != nil {
				s.t.Fatal(err)
			}
			go func() { done <- forwarder.ForwardPorts() }()
			within(s.t, ready)
			ports, err := forwarder.GetPorts()
			if err != nil {
				s.t.Fatal(err)
			}
			s.step("what is sent comes back, also after the sending end was closed", func() {
				payload := noise(50 << 20)
				conn := s.dial(ports[0].Local)
				go func() {
					_, _ = conn.Write(payload)
					_ = conn.CloseWrite()
				}()
				got, err := io.ReadAll(conn)
				if err != nil || !bytes.Equal(got, payload) {
					s.t.Errorf("%d bytes came back, of %d: %v", len(got), len(payload), err)
				}
			})
			s.step("two connections at once, of which one is not read", func() {
				slow, fast := s.dial(ports[0].Local), s.dial(ports[0].Local)
				go func() { _, _ = slow.Write(noise(1 << 20)) }()
				if _, err := io.WriteString(fast, "hello"); err != nil {
					s.t.Fatal(err)
				}
				got := make([]byte, 5)
				if _, err := io.ReadFull(fast, got); err != nil || string(got) != "hello" {
					s.t.Errorf("got %q: %v", got, err)
				}
			})
			s.step("a port where nobody listens ends it, as kubectl does", func() {
				_, _ = io.ReadAll(s.dial(ports[1].Local)) // a reset is as good as an end
				if err := within(s.t, done); !errors.Is(err, portforward.ErrLostConnectionToPod) {
					s.t.Errorf("ended with %v", err)
				}
			})
			close(stop)
		})
	}
}

func (s *testEnv) dial(port uint16) *net.TCPConn {
	s.t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(5 * limit)); err != nil {
		s.t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

func TestStreamsLogs(t *testing.T) {
	s, k := running(t)
	clients, err := kubernetes.NewForConfig(s.consumer.Config)
	if err != nil {
		t.Fatal(err)
	}
	line := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	read := func(o *corev1.PodLogOptions) (string, error) {
		stream, err := clients.CoreV1().Pods(s.local).GetLogs("web", o).Stream(s.t.Context())
		if err != nil {
			return "", err
		}
		defer stream.Close()
		out, err := io.ReadAll(stream)
		return string(out), err
	}
	k.answerLogs(line("a line\n"))
	since := metav1.NewTime(time.Unix(1_700_000_000, 0))
	for _, tc := range []struct {
		rule    string
		options corev1.PodLogOptions
		want    string
	}{
		{"no line at all", corev1.PodLogOptions{TailLines: new(int64(0))}, "main?tailLines=0"},
		{"the last of the one before", corev1.PodLogOptions{Previous: true, TailLines: new(int64(3)), Timestamps: true}, "main?previous=true&tailLines=3&timestamps=true"},
		{"a while", corev1.PodLogOptions{SinceSeconds: new(int64(5)), LimitBytes: new(int64(9))}, "main?limitBytes=9&sinceSeconds=5"},
		{"since a time", corev1.PodLogOptions{SinceTime: &since}, "main?sinceTime=" + url.QueryEscape(since.UTC().Format(time.RFC3339))},
		{"of an init container", corev1.PodLogOptions{Container: "init"}, "init?"},
	} {
		s.step(tc.rule, func() {
			if text, err := read(&tc.options); err != nil || text != "a line\n" {
				s.t.Errorf("got %q: %v", text, err)
			}
			if got := within(s.t, k.asked); got != tc.want {
				s.t.Errorf("the provider's node was asked for %s, want %s", got, tc.want)
			}
		})
	}
	s.step("what is wrong is said in words", func() {
		k.answerLogs(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `previous terminated container "main" in pod "web" not found`, http.StatusBadRequest)
		})
		_, err := read(&corev1.PodLogOptions{Previous: true})
		<-k.asked
		if !apierrors.IsBadRequest(err) || strings.TrimSpace(err.Error()) != `previous terminated container "main" in pod "web" not found` {
			s.t.Errorf("got %v", err)
		}
		c := clientOf(s.t, s.consumer.Config)
		base := fmt.Sprintf("https://127.0.0.1:%d/containerLogs/%s/", s.options.ListenPort, s.local)
		for path, want := range map[string]struct {
			status int
			text   string
		}{
			"web/main?tailLines=abc":       {400, "invalid syntax"},
			"web/main?tailLines=-1":        {422, "must be greater than or equal to 0"},
			"web/main?sinceTime=yesterday": {400, "yesterday"},
			"web/main?limitBytes=0":        {422, "must be greater than 0"},
			"web/nope":                     {400, "container nope is not valid for pod web"},
			"other/main":                   {404, "pod not found on this node"},
		} {
			status, text := ask(s.t, c, "GET", base+path)
			if status != want.status || !strings.Contains(text, want.text) || strings.Contains(text, "apiVersion") {
				s.t.Errorf("%s: got %d %s", path, status, text)
			}
		}
	})
	s.step("a followed log shows each line as it comes, and ends with the container", func() {
		next := make(chan string)
		k.answerLogs(func(w http.ResponseWriter, _ *http.Request) {
			for text := range next {
				fmt.Fprint(w, text)
				w.(http.Flusher).Flush()
			}
		})
		go func() { next <- "one\n" }()
		stream, err := clients.CoreV1().Pods(s.local).GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		defer stream.Close()
		<-k.asked
		in := bufio.NewReader(stream)
		for _, want := range []string{"one\n", "two\n"} {
			if got, err := in.ReadString('\n'); err != nil || got != want {
				s.t.Fatalf("got %q, %v", got, err)
			}
			if want == "one\n" {
				next <- "two\n"
			}
		}
		close(next) // the container restarts
		if rest, err := io.ReadAll(in); err != nil || len(rest) != 0 {
			s.t.Errorf("got %q: %v", rest, err)
		}
	})
	s.step("who does not read keeps back nobody, and who leaves is noticed", func() {
		k.answerLogs(func(w http.ResponseWriter, req *http.Request) {
			defer func() { k.left <- struct{}{} }()
			for block := noise(1 << 20); req.Context().Err() == nil; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		})
		ctx, cancel := context.WithCancel(s.t.Context())
		var slow []io.Closer
		for range 5 {
			stream, err := clients.CoreV1().Pods(s.local).GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(ctx)
			if err != nil {
				s.t.Fatal(err)
			}
			slow = append(slow, stream)
			<-k.asked
		}
		k.answerLogs(line("quick\n"))
		if text, err := read(&corev1.PodLogOptions{}); err != nil || text != "quick\n" {
			s.t.Errorf("got %q: %v", text, err)
		}
		<-k.asked
		s.pod(s.local, "another")
		eventually(s, s.provider, s.shadow("another"), exists)
		cancel()
		for _, stream := range slow {
			_ = stream.Close()
			within(s.t, k.left)
		}
	})
	s.step("of an ephemeral container", func() {
		k.answerLogs(line("debugging\n"))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: s.remoteNamespace}}
		eventually(s, s.provider, pod, exists)
		pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "debug", Image: "web:1", ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}}}
		if err := s.provider.Client.SubResource("ephemeralcontainers").Update(s.t.Context(), pod); err != nil {
			s.t.Fatal(err)
		}
		path := fmt.Sprintf("https://127.0.0.1:%d/containerLogs/%s/web/debug", s.options.ListenPort, s.local)
		if status, text := ask(s.t, clientOf(s.t, s.consumer.Config), "GET", path); status != 200 || text != "debugging\n" {
			s.t.Errorf("got %d %s", status, text)
		}
	})
	s.step("a pod that is gone over there", func() {
		s.deleteNow(s.provider, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: s.remoteNamespace}})
		w := s.ways()[3]
		err := w.stream(s.t.Context(), remotecommand.StreamOptions{Stdout: io.Discard}, "cat")
		if err == nil || !strings.Contains(err.Error(), `pods "web" not found`) { // clients of SPDY read the text only
			s.t.Errorf("got %v", err)
		}
	})
}
