// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"liqo.io/liqo/playground/internal/cluster"
	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/spec"
)

func runCtr(ctx context.Context, h home.Home, node string, args ...string) error {
	socket := filepath.Join(h.Node(node), "run", "containerd.sock")
	cmd := exec.CommandContext(ctx, h.Program("ctr"), append([]string{"--address", socket, "--namespace", "k8s.io"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr %s on %s: %w: %s", strings.Join(args, " "), node, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// WaitForRuntime waits until the container runtime responds.
func WaitForRuntime(ctx context.Context, h home.Home, node string) error {
	subject := fmt.Sprintf("containerd of node %s (log: %s)", node, filepath.Join(h.Node(node), "log", "containerd.log"))
	return cluster.Poll(ctx, time.Minute, subject, func(ctx context.Context) error {
		return runCtr(ctx, h, node, "version")
	})
}

// LoadImages imports the images of the playground and of the CNI that the node does not have.
func LoadImages(ctx context.Context, h home.Home, cni spec.CNI, node string) error {
	files, err := filepath.Glob(filepath.Join(h.Images(), "*.tar"))
	if err != nil {
		return err
	}
	if cni.RunsInPods() {
		files = append(files, h.CNIImage(cni))
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return fmt.Errorf("reading image %s: %w", f, err)
		}
		marker := filepath.Join(h.Node(node), "images", fmt.Sprintf("%s-%d-%d", filepath.Base(f), info.Size(), info.ModTime().UnixNano()))
		if _, err := os.Stat(marker); err == nil {
			continue
		}
		if err := LoadImage(ctx, h, node, f); err != nil {
			return err
		}
		if err := home.Write(marker, nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// LoadImage imports an image archive.
func LoadImage(ctx context.Context, h home.Home, node, archive string) error {
	return runCtr(ctx, h, node, "images", "import", archive)
}
