// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
)

//go:embed testdata/streams.yaml
var streamsYAML string

// protocols are what kubectl may speak, and the environment that makes it do so.
var protocols = []struct {
	name string
	env  []string
}{
	{"websocket", []string{"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true", "KUBECTL_PORT_FORWARD_WEBSOCKETS=true"}},
	{"spdy", []string{"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"}},
}

// some is what goes through each stream: more than any buffer on the way holds.
const some = 8 << 20

// kubectl is a command for the consumer's cluster that ends with the test.
func kubectl(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), clusters.KubectlPath(), append([]string{"--kubeconfig", consumer.Kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// streams: attach, port-forward and cp carry all bytes both ways, whatever kubectl speaks.
func (p *peering) streams(t *testing.T) {
	if _, err := consumer.Kubectl(streamsYAML, "apply", "-n", p.Namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	consumer.mustKubectl(t, "wait", "pod", "-l", "story=streams", "-n", p.Namespace, "--for=condition=Ready", "--timeout=2m")
	for _, protocol := range protocols {
		t.Run(protocol.name, func(t *testing.T) {
			content := make([]byte, some)
			if _, err := rand.Read(content); err != nil {
				t.Fatal(err)
			}
			p.attach(t, protocol.name, protocol.env)
			p.copies(t, protocol.name, protocol.env, content)
			p.forwards(t, protocol.name, protocol.env, content)
		})
	}
}

// attach: what is typed arrives, what is answered comes back, and the end of the input ends it all.
func (p *peering) attach(t *testing.T, protocol string, env []string) {
	t.Helper()
	cmd := kubectl(t, env, "attach", "-i", "echo-"+protocol, "-n", p.Namespace)
	cmd.Stdin = strings.NewReader("one\ntwo\n")
	out, err := cmd.Output()
	if err != nil || string(out) != "heard one\nheard two\n" {
		t.Errorf("attach printed %q: %v", out, err)
	}
}

// copies: a file comes back as it went, and was the same in between.
func (p *peering) copies(t *testing.T, protocol string, env []string, content []byte) {
	t.Helper()
	dir := t.TempDir()
	uploaded, downloaded := filepath.Join(dir, "there"), filepath.Join(dir, "back")
	if err := os.WriteFile(uploaded, content, 0o600); err != nil {
		t.Fatal(err)
	}
	remote := p.Namespace + "/serve:/www/" + protocol
	if out, err := kubectl(t, env, "cp", uploaded, remote).CombinedOutput(); err != nil {
		t.Fatalf("copying into the pod: %v\n%s", err, out)
	}
	want := fmt.Sprintf("%x", sha256.Sum256(content))
	if sum := consumer.mustKubectl(t, "exec", "serve", "-n", p.Namespace, "--", "sha256sum", "/www/"+protocol); !strings.HasPrefix(sum, want) {
		t.Errorf("the file in the pod has the sum %s, want %s", sum, want)
	}
	if out, err := kubectl(t, env, "cp", remote, downloaded).CombinedOutput(); err != nil {
		t.Fatalf("copying out of the pod: %v\n%s", err, out)
	}
	if got, err := os.ReadFile(downloaded); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes came back, not the %d that went: %v", len(got), len(content), err)
	}
}

// forwards: the port of the pod is a port here, and the file that was copied comes out of it whole.
func (p *peering) forwards(t *testing.T, protocol string, env []string, content []byte) {
	t.Helper()
	address := forward(t, env, "-n", p.Namespace, "pod/serve", ":8080")
	response, err := http.Get("http://" + address + "/" + protocol)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got, err := io.ReadAll(response.Body); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes came through the port, not the %d there are: %v", len(got), len(content), err)
	}
}

// forward runs kubectl port-forward until the test ends, and returns the address that it listens at.
func forward(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := kubectl(t, env, append([]string{"port-forward"}, args...)...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed: its error says so
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("port-forward %v: %v\n%s", args, err, complaints.String())
	}
	address, _, _ := strings.Cut(strings.TrimPrefix(line, "Forwarding from "), " ")
	return address
}

// follows: of a log that is followed without its past only what comes later is seen. A follow ends with its container, as
// on any node; the one after that is of the next container, and the end of the former one can still be read.
func (p *peering) follows(t *testing.T) {
	say := func(line string) {
		consumer.mustKubectl(t, "exec", "follow", "-n", p.Namespace, "--", "sh", "-c", "echo "+line+" >/proc/1/fd/1")
	}
	say("early")
	eventually(t, "the early line", func(context.Context) error {
		out, err := consumer.Kubectl("", "logs", "follow", "-n", p.Namespace)
		if err == nil && !strings.Contains(out, "early\n") {
			err = fmt.Errorf("logs are %q", out)
		}
		return err
	})
	lines, wait := followed(t, "logs", "follow", "-n", p.Namespace, "--tail=0", "-f")
	// The follow may begin after the first lines that are said now: they are said until one of them comes.
	first := ""
	for i := 0; first == ""; i++ {
		say(fmt.Sprintf("late-%d", i))
		select {
		case first = <-lines:
		case <-t.Context().Done():
			t.Fatal("nothing is followed")
		default:
		}
	}
	if !strings.HasPrefix(first, "late-") {
		t.Errorf("the first line of a follow without past is %q", first)
	}
	say("last")
	_, _ = consumer.Kubectl("", "exec", "follow", "-n", p.Namespace, "--", "kill", "-TERM", "1") // it may end before its exit code is told
	last := first
	for line := range lines {
		last = line
	}
	if err := wait(); err != nil || last != "last" {
		t.Errorf("the follow ended with %q, not with the last line of its container: %v", last, err)
	}
	eventually(t, "the next container", func(ctx context.Context) error {
		var pod corev1.Pod
		if err := consumer.Client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: "follow"}, &pod); err != nil {
			return err
		}
		if states := pod.Status.ContainerStatuses; len(states) == 0 || states[0].RestartCount != 1 || states[0].State.Running == nil {
			return errors.New("it does not run")
		}
		return nil
	})
	say("again")
	eventually(t, "the line of the next container, and no other", func(context.Context) error {
		out, err := consumer.Kubectl("", "logs", "follow", "-n", p.Namespace)
		if err == nil && out != "again\n" {
			err = fmt.Errorf("logs are %q", out)
		}
		return err
	})
	if out := consumer.mustKubectl(t, "logs", "follow", "-n", p.Namespace, "--previous", "--tail=1"); out != "last\n" {
		t.Errorf("the former container ended with %q", out)
	}
}

// followed runs a kubectl that goes on, and returns its lines as they come and what waits for its end.
func followed(t *testing.T, args ...string) (lines <-chan string, wait func() error) {
	t.Helper()
	cmd := kubectl(t, nil, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	all := make(chan string, 1000)
	go func() {
		defer close(all)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			all <- scan.Text()
		}
	}()
	return all, cmd.Wait
}
