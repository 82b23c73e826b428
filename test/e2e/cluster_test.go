// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

const root = "../.."

// A cluster is one side of a story: its ID, its kubeconfig and an administrator's client.
type cluster struct {
	id         string
	kubeconfig string
	config     *rest.Config
	client     client.Client
	empty      []string // the listing before anything was installed
}

func newCluster(id, kubeconfig string) (*cluster, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", id, err)
	}
	cfg.QPS, cfg.Burst = 200, 400
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, authv1beta1.AddToScheme, liqov1beta1.AddToScheme, offv1beta1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	return &cluster{id: id, kubeconfig: kubeconfig, config: cfg, client: c}, err
}

// install runs liqoctl as a user would; on a cluster that has this installation it upgrades in place. Two replicas and a
// certificate of two minutes make its rotation part of every story.
func (c *cluster) install() error {
	_, err := c.liqoctl("install", "kubeadm", "--cluster-id", c.id, "--timeout", "3m",
		"--set", "controllerManager.replicas=2", "--set", "webhook.certificateDuration=2m")
	return err
}

// binary is a program of ours, or the one that the environment names.
func binary(name, env string) string {
	path, _ := filepath.Abs(filepath.Join(root, "bin", name))
	return cmp.Or(os.Getenv(env), path)
}

func (c *cluster) liqoctl(args ...string) (string, error) {
	return run("", binary("liqoctl", "LIQOCTL"), append(args, "--kubeconfig", c.kubeconfig)...)
}

func kubectlPath() string {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		return filepath.Join(assets, "kubectl")
	}
	return "kubectl"
}

func (c *cluster) kubectl(stdin string, args ...string) (string, error) {
	return run(stdin, kubectlPath(), append([]string{"--kubeconfig", c.kubeconfig}, args...)...)
}

func (c *cluster) mustKubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.kubectl("", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (c *cluster) apply(t *testing.T, manifest string) {
	t.Helper()
	if _, err := c.kubectl(manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// run returns what the program printed on standard output; its error carries the rest.
func run(stdin, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
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

// eventually waits until check holds. The time is wide: a story asserts that a thing happens, not how fast.
func eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	// A test's own context ends before its clean-up, which waits as well.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	pause := time.NewTicker(250 * time.Millisecond)
	defer pause.Stop()
	var last error // an error of the deadline itself says nothing
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			dump(t)
			t.Fatalf("waiting for %s: %v (load %s)", what, last, loadavg())
		}
	}
}

func loadavg() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return string(bytes.TrimSpace(data))
}

// interesting leaves out what every start of a process says.
func interesting(log string) string {
	return regexp.MustCompile(`(?m)^.*"(Starting|Registering|Serving|starting) .*\n`).ReplaceAllString(log, "")
}

// dump shows what a reader of a failure asks first.
func dump(t *testing.T) {
	t.Helper()
	for _, c := range []*cluster{consumer, provider} {
		for _, args := range [][]string{
			{"get", "nodes,rslice,identities,virtualnodes,namespacemaps,tenants,shadowpods,foreignclusters,pods", "-A", "-o", "wide", "--ignore-not-found"},
			{"get", "events", "-A", "--field-selector", "type=Warning"},
			{"logs", "-n", "liqo", "deploy/liqo-controller-manager", "--tail", "60"},
			{"logs", "-n", "liqo", "deploy/liqo-crd-replicator", "--tail", "30"},
		} {
			out, err := c.kubectl("", args...)
			t.Logf("%s $ kubectl %v\n%s%v", c.id, args, interesting(out), err)
		}
	}
}
