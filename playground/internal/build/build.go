// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package build makes what clusters are made of: programs from Go modules, images from these programs.
package build

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/progress"
)

// Builder builds into a home. What is there and made of the same sources is kept.
type Builder struct {
	Home    home.Home
	Sources fs.FS // go.mod, go.sum and the commands of this module
	Log     *progress.Log
}

// All makes everything that clusters need.
func (b Builder) All(ctx context.Context) error {
	if err := Packages(ctx, b.Log); err != nil {
		return err
	}
	for _, p := range programs {
		if err := b.program(ctx, p); err != nil {
			return err
		}
	}
	if err := b.links(); err != nil {
		return err
	}
	return b.images()
}

// Assets makes only what tests of controllers need: etcd, the Kubernetes programs and kubectl.
func (b Builder) Assets(ctx context.Context) error {
	for _, p := range []program{hyperkube, kubectl} {
		if err := b.program(ctx, p); err != nil {
			return err
		}
	}
	return b.links()
}

// Simulator makes the program that pretends to be nodes.
func (b Builder) Simulator(ctx context.Context) error { return b.program(ctx, kwok) }

// links are the names under which the multi-call binary is the one or the other program.
func (b Builder) links() error {
	for _, name := range []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy",
	} {
		path := b.Home.Program(name)
		if target, err := os.Readlink(path); err == nil && target == hyperkube.name {
			continue
		}
		tmp := path + ".tmp"
		_ = os.Remove(tmp) // of a killed run
		if err := os.Symlink(hyperkube.name, tmp); err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
		if err := os.Rename(tmp, path); err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
	}
	return nil
}
