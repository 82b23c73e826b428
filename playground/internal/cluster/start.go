// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/proc"
	"liqo.io/liqo/playground/internal/spec"
	"liqo.io/liqo/playground/internal/supervise"
)

// Prepare writes every file that the control plane and the nodes read.
func Prepare(h home.Home, c spec.Cluster) error {
	l := newLayout(h, c)
	if err := l.pki.Ensure(c); err != nil {
		return err
	}
	for _, user := range []string{"admin", "controller-manager", "scheduler", "proxy"} {
		if err := WriteKubeconfig(l.kubeconfig(user), c, l.pki, user); err != nil {
			return err
		}
	}
	for name, text := range Files(h, c) {
		if err := home.Write(l.file(name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return supervise.Save(l.dir, Units(h, c))
}

// PIDFile returns the path of the pid file of a cluster's control plane.
func PIDFile(h home.Home, name string) string {
	return filepath.Join(h.Cluster(name), "control-plane.pid")
}

// Start starts the control plane and creates the initial objects. It returns when nodes may join.
func Start(ctx context.Context, h home.Home, c spec.Cluster) error {
	l := newLayout(h, c)
	if err := openGates(l, "etcd", "kube-apiserver"); err != nil {
		return err
	}
	err := proc.Start(proc.Spec{
		PIDFile: PIDFile(h, c.Name),
		Log:     l.file("log", "control-plane.log"),
		Netns:   c.World.NodeNetns(c.ControlPlane().Name),
		Argv:    append([]string{proc.Self, "internal", "control-plane", l.dir}, c.ProgramGroup(c.ControlPlane().Name)...),
	})
	if err != nil {
		return err
	}
	config, err := Client(h, c.Name)
	if err != nil {
		return err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client for cluster %s: %w", c.Name, err)
	}
	if err := waitForAPIServer(ctx, l, api); err != nil {
		return err
	}
	if err := openGates(l, "kube-controller-manager", "kube-scheduler", "loadbalancer", "kwok"); err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client for cluster %s: %w", c.Name, err)
	}
	return applyAddons(ctx, objects, l)
}

// Client returns an administrator's client configuration, without client-side throttling.
func Client(h home.Home, name string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", h.Kubeconfig(name))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of cluster %s: %w", name, err)
	}
	config.QPS, config.Timeout = -1, 20*time.Second
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil } // a proxy cannot reach the world network
	return config, nil
}

func openGates(l layout, programs ...string) error {
	for _, p := range programs {
		if err := home.Write(Gate(l.home, l.Name, p), nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// waitForAPIServer waits for the API server and for its bootstrap roles and namespaces, without which the controller-manager ends.
func waitForAPIServer(ctx context.Context, l layout, api kubernetes.Interface) error {
	subject := fmt.Sprintf("the API server of cluster %s (log: %s)", l.Name, l.file("log", "kube-apiserver.log"))
	return Poll(ctx, 2*time.Minute, subject, func(ctx context.Context) error {
		if _, err := api.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
			return err
		}
		for _, name := range []string{"system:kube-controller-manager", "system:kube-scheduler"} {
			if _, err := api.RbacV1().ClusterRoleBindings().Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		for _, name := range []string{"kube-system", "kube-public", "default"} {
			if _, err := api.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		_, err := api.RbacV1().RoleBindings("kube-system").Get(ctx, "system::extension-apiserver-authentication-reader", metav1.GetOptions{})
		return err
	})
}

// Poll calls check every 100 ms until it returns no error, and returns its last error after the timeout.
func Poll(ctx context.Context, timeout time.Duration, subject string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if apierrors.IsUnauthorized(err) {
			return fmt.Errorf("waiting for %s: %w", subject, err) // another cluster has this address
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", subject, err)
		case <-ticker.C:
		}
	}
}

// Stop kills the control plane; its programs end with it.
func Stop(h home.Home, name string) error { return proc.Kill(PIDFile(h, name)) }
