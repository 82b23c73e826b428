// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/test/clusters"
)

// Endpoint is a network namespace and the address that it is reached at, there and from the other end.
type Endpoint struct {
	File      string // of the namespace
	Own, Seen netip.Addr
	Node      string // of a pod
}

// Do runs f in the network namespace of the endpoint. Sockets that f creates stay in it.
func (p Endpoint) Do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		handle, err := netns.GetFromPath(p.File)
		if err == nil {
			defer handle.Close()
			err = netns.Set(handle)
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// podLimit is the time that a pod may take to start on a slow machine.
const podLimit = 2 * time.Minute

// PodLabel is the label of pods of StartPod, whose value is the name of the node.
const PodLabel = "idle"

// StartPod starts a pod that does nothing on a node, and returns where it is.
func StartPod(ctx context.Context, c *clusters.Cluster, node string) (Endpoint, error) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64),
		NodeSelector:                  map[string]string{corev1.LabelHostname: node},
		Containers: []corev1.Container{{
			Name: "idle", Image: "docker.io/library/busybox:latest", ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sleep", "100000"},
		}},
	}}
	pod.Namespace, pod.Name, pod.Labels = "default", "idle-"+node, map[string]string{PodLabel: node}
	if err := client.IgnoreAlreadyExists(c.Client.Create(ctx, pod)); err != nil {
		return Endpoint{}, err
	}
	p := Endpoint{Node: node}
	var last error
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, podLimit, true, func(ctx context.Context) (bool, error) {
		last = p.locate(ctx, c, pod)
		return last == nil, nil
	})
	if err != nil {
		return p, fmt.Errorf("waiting for the pod %s: %w", pod.Name, errors.Join(last, err))
	}
	return p, nil
}

// locate sets where a running pod is.
func (p *Endpoint) locate(ctx context.Context, c *clusters.Cluster, pod *corev1.Pod) error {
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
	if err != nil {
		return err
	}
	if p.Own, err = netip.ParseAddr(pod.Status.PodIP); err != nil {
		return err
	}
	pids, err := Processes(pod.UID)
	if err == nil {
		p.File = fmt.Sprintf("/proc/%d/ns/net", pids[0])
	}
	return err
}

// LocatePod returns where a running pod is.
func LocatePod(ctx context.Context, c *clusters.Cluster, key client.ObjectKey) (Endpoint, error) {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = key.Namespace, key.Name
	var p Endpoint
	err := p.locate(ctx, c, pod)
	p.Node = pod.Spec.NodeName
	return p, err
}

// Signal sends a signal to the processes of a pod.
func Signal(uid types.UID, what syscall.Signal) error {
	all, err := Processes(uid)
	if err != nil {
		return err
	}
	for _, pid := range all {
		if err := syscall.Kill(pid, what); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("sending a signal to the process %d of a pod: %w", pid, err)
		}
	}
	return nil
}

// Processes returns the processes of a pod.
func Processes(uid types.UID) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(data), "pod"+string(uid)) {
			continue // it ended, or is another's
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			return nil, err
		}
		out = append(out, pid)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no process of pod %s runs", uid)
	}
	return out, nil
}

// TranslateAddress returns how a cluster sees the address of a pod of a peer.
func TranslateAddress(ctx context.Context, by *clusters.Cluster, namespace, peer string, addr netip.Addr) (netip.Addr, error) {
	var cfg networkingv1beta1.Configuration
	if err := by.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: peer}, &cfg); err != nil {
		return addr, err
	}
	if cfg.Status.Remote == nil || len(cfg.Status.Remote.CIDR.Pod) == 0 {
		return addr, fmt.Errorf("the pods of %s are seen under no prefix", peer)
	}
	to, err := netip.ParsePrefix(string(cfg.Status.Remote.CIDR.Pod[0]))
	if err != nil {
		return addr, err
	}
	out, host := to.Masked().Addr().As4(), addr.As4()
	for i := to.Bits(); i < 32; i++ {
		out[i/8] |= host[i/8] & (0x80 >> (i % 8))
	}
	return netip.AddrFrom4(out), nil
}

// Run runs a program of this machine in the network namespace of an endpoint.
func (p Endpoint) Run(ctx context.Context, command ...string) (string, error) {
	var out []byte
	err := p.Do(func() (err error) {
		if out, err = exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			err = fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, out)
		}
		return err
	})
	return string(out), err
}
