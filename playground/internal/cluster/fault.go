// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"

	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/proc"
	"liqo.io/liqo/playground/internal/spec"
)

// Program returns the name of a program of the control plane for its short name.
func Program(short string) (string, error) {
	switch short {
	case "apiserver", "controller-manager", "scheduler":
		return "kube-" + short, nil
	case "etcd", "loadbalancer", "kwok", "kube-apiserver", "kube-controller-manager", "kube-scheduler":
		return short, nil
	}
	return "", fmt.Errorf("invalid program %q: must be apiserver, controller-manager, scheduler, etcd, loadbalancer or kwok", short)
}

// Fail kills a program of the control plane and keeps it stopped.
func Fail(ctx context.Context, h home.Home, c spec.Cluster, program string) error {
	if err := os.Remove(Gate(h, c.Name, program)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("stopping %s of cluster %s: %w", program, c.Name, err)
	}
	return Poll(ctx, 20*time.Second, program+" to end", func(context.Context) error {
		if proc.Running(PIDFile(h, c.Name), program) {
			return errors.New("the program is still running")
		}
		return nil
	})
}

// Heal starts a program that Fail stopped. For etcd and the API server it waits until the API server is ready.
func Heal(ctx context.Context, h home.Home, c spec.Cluster, program string) error {
	l := newLayout(h, c)
	if err := openGates(l, program); err != nil {
		return err
	}
	if program != "kube-apiserver" && program != "etcd" {
		return nil
	}
	config, err := Client(h, c.Name)
	if err != nil {
		return err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client for cluster %s: %w", c.Name, err)
	}
	return waitForAPIServer(ctx, l, api)
}
