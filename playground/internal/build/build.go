// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package build builds what clusters run: programs from Go modules, and images from these programs.
package build

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/progress"
	"liqo.io/liqo/playground/internal/spec"
)

// Builder builds into a home. Programs and images that are up to date are kept.
type Builder struct {
	Home    home.Home
	Sources fs.FS // go.mod, go.sum and the commands of this module
	Log     *progress.Log
}

// BuildAll builds everything that clusters of these Kubernetes releases need.
func (b Builder) BuildAll(ctx context.Context, releases ...string) error {
	if err := installPackages(ctx, b.Log, requiredTools); err != nil {
		return err
	}
	for _, release := range releases {
		if err := b.BuildAssets(ctx, release); err != nil {
			return err
		}
	}
	for _, p := range nodePrograms {
		if err := b.buildProgram(ctx, p); err != nil {
			return err
		}
	}
	return b.buildImages()
}

// BuildCNI builds the program and the image of a CNI that runs in pods.
func (b Builder) BuildCNI(ctx context.Context, cni spec.CNI) error {
	if !cni.RunsInPods() {
		return nil
	}
	cni = cni.Project()
	if err := installPackages(ctx, b.Log, cniTools[cni]); err != nil {
		return err
	}
	for _, p := range cniPrograms[cni] {
		if err := b.buildProgram(ctx, p); err != nil {
			return err
		}
	}
	img, err := b.cniImage(cni)
	if err != nil {
		return err
	}
	return b.buildImage(img)
}

// BuildAssets builds only what tests of controllers need: etcd, the Kubernetes programs and kubectl.
func (b Builder) BuildAssets(ctx context.Context, release string) error {
	for _, p := range kubernetesPrograms(release) {
		if err := b.buildProgram(ctx, p); err != nil {
			return err
		}
	}
	return b.createLinks(release)
}

// BuildSimulator builds kwok, the program that simulates nodes.
func (b Builder) BuildSimulator(ctx context.Context) error { return b.buildProgram(ctx, kwok) }

// createLinks links the names of etcd and the Kubernetes programs to hyperkube, which runs the program that it is called by.
func (b Builder) createLinks(release string) error {
	for _, name := range []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy",
	} {
		path := b.Home.KubernetesProgram(release, name)
		if target, err := os.Readlink(path); err == nil && target == hyperkube {
			continue
		}
		tmp := path + ".tmp"
		_ = os.Remove(tmp) // left by a killed run
		if err := os.Symlink(hyperkube, tmp); err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
		if err := os.Rename(tmp, path); err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
	}
	return nil
}
