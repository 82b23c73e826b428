// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package clusters is what end-to-end tests and benchmarks do with clusters that they know by their kubeconfigs only:
// install, peer, call kubectl and liqoctl as a user would.
package clusters

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Cluster is one side of a peering: its ID, its kubeconfig and an administrator's client.
type Cluster struct {
	ID         string
	Kubeconfig string
	Config     *rest.Config
	Client     client.Client
	// Program is its liqoctl; empty is that of this tree, or the one that LIQOCTL names.
	Program string
}

// kubeconfigs is the environment variable with the kubeconfigs of the clusters that tests are run on, with commas in between.
const kubeconfigs = "LIQO_E2E_KUBECONFIGS"

// Given are the clusters that tests are run on, which get these IDs.
func Given(ids ...string) ([]*Cluster, error) {
	files := strings.Split(os.Getenv(kubeconfigs), ",")
	if len(files) != len(ids) {
		return nil, fmt.Errorf("%s must name %d kubeconfigs, for %s: it is %q", kubeconfigs, len(ids), strings.Join(ids, ","), os.Getenv(kubeconfigs))
	}
	var all []*Cluster
	for i, id := range ids {
		c, err := New(id, files[i])
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// New reads a kubeconfig.
func New(id, kubeconfig string) (*Cluster, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", id, err)
	}
	cfg.QPS = -1 // an error of the limiter would hide what was waited for
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, authv1beta1.AddToScheme, ipamv1alpha1.AddToScheme, liqov1beta1.AddToScheme, networkingv1beta1.AddToScheme, offv1beta1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	return &Cluster{ID: id, Kubeconfig: kubeconfig, Config: cfg, Client: c}, err
}

// InParallel does something with all clusters at the same time.
func InParallel[T any](all []T, do func(T) error) error {
	var group errgroup.Group
	for _, c := range all {
		group.Go(func() error { return do(c) })
	}
	return group.Wait()
}

// Install runs liqoctl as a user would; on a cluster that has this installation it upgrades in place.
func (c *Cluster) Install(args ...string) error {
	_, err := c.Liqoctl(append([]string{"install", "kubeadm", "--cluster-id", c.ID, "--timeout", "10m"}, args...)...)
	return err
}

// Liqoctl runs the cluster's liqoctl.
func (c *Cluster) Liqoctl(args ...string) (string, error) {
	return run("", c.liqoctl(), append(args, "--kubeconfig", c.Kubeconfig)...)
}

func (c *Cluster) liqoctl() string {
	return cmp.Or(c.Program, os.Getenv("LIQOCTL"), filepath.Join(root(), "bin", "liqoctl"))
}

// Say is Liqoctl, and returns what the program says to people while it works, too.
func (c *Cluster) Say(args ...string) (string, error) {
	out, err := exec.Command(c.liqoctl(), append(args, "--kubeconfig", c.Kubeconfig)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("liqoctl %v: %w\n%s", args, err, out)
	}
	return string(out), err
}

// patience is how long a program that is interrupted may take to end.
const patience = 2 * time.Minute

// Follow is Say, and calls heard with each line as soon as the program says it. When the context ends the program is interrupted, as by Ctrl-C.
func (c *Cluster) Follow(ctx context.Context, heard func(line string), args ...string) (string, error) {
	said, saying := io.Pipe()
	cmd := exec.CommandContext(ctx, c.liqoctl(), append(args, "--kubeconfig", c.Kubeconfig)...)
	cmd.Stdout, cmd.Stderr = saying, saying
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		saying.Close()
	}()
	var out strings.Builder
	for lines := bufio.NewScanner(said); lines.Scan(); {
		out.WriteString(lines.Text() + "\n")
		heard(lines.Text())
	}
	said.Close() // a line that is too long ends the loop, and the program must not wait for a reader
	err := <-ended
	if cmd.ProcessState.Success() { // it was done before it was interrupted
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("liqoctl %v: %w\n%s", args, err, out.String())
	}
	return out.String(), err
}

// root is the folder of the module.
func root() string {
	start, err := os.Getwd()
	if err != nil {
		return "."
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return start
		}
	}
}

// KubectlPath is the kubectl of the test assets, if there are any.
func KubectlPath() string {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		return filepath.Join(assets, "kubectl")
	}
	return "kubectl"
}

// Kubectl returns what kubectl printed.
func (c *Cluster) Kubectl(stdin string, args ...string) (string, error) {
	return run(stdin, KubectlPath(), append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
}

// run returns what the program printed on standard output; its error carries the rest.
func run(stdin, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = bytes.NewBufferString(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %v: %w\n%s%s", filepath.Base(program), args, err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}
