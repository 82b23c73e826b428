// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package home knows where the playground keeps its files.
package home

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"liqo.io/liqo/playground/internal/spec"
)

// Home is the folder that holds everything: programs, images, clusters, nodes.
type Home struct {
	Root  string
	World spec.World
}

// Open reads the environment: LIQO_PLAYGROUND_HOME, and for a second playground on the same machine
// LIQO_PLAYGROUND_NAME and LIQO_PLAYGROUND_NETWORK. It makes the folders.
func Open() (Home, error) {
	root := os.Getenv("LIQO_PLAYGROUND_HOME")
	if root == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return Home{}, fmt.Errorf("finding a folder for the playground (set LIQO_PLAYGROUND_HOME): %w", err)
		}
		root = filepath.Join(user, ".cache", "liqo-playground")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return Home{}, fmt.Errorf("finding %s: %w", root, err)
	}
	world, err := spec.NewWorld(env("LIQO_PLAYGROUND_NAME", "liqo-pg"), env("LIQO_PLAYGROUND_NETWORK", "172.29.0.0/16"))
	if err != nil {
		return Home{}, err
	}
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		world.IPv6 = netip.Prefix{}
	}
	h := Home{Root: root, World: world}
	for _, dir := range []string{h.Bin(), h.Images(), h.path("clusters"), h.path("nodes")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return Home{}, fmt.Errorf("making the playground's folders: %w", err)
		}
	}
	return h, nil
}

func env(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

func (h Home) path(elem ...string) string { return filepath.Join(append([]string{h.Root}, elem...)...) }

// Environment makes another run of this program open the same home.
func (h Home) Environment() []string {
	return []string{
		"LIQO_PLAYGROUND_HOME=" + h.Root,
		"LIQO_PLAYGROUND_NAME=" + h.World.Name,
		"LIQO_PLAYGROUND_NETWORK=" + h.World.IPv4.String(),
	}
}

// Bin holds the programs; it is also what KUBEBUILDER_ASSETS wants.
func (h Home) Bin() string { return h.path("bin") }

// Program is the path of one program.
func (h Home) Program(name string) string { return h.path("bin", name) }

// Images holds the images that every node has.
func (h Home) Images() string { return h.path("img") }

// Sources holds the unpacked sources of what is built.
func (h Home) Sources() string { return h.path("src") }

// Cluster is the folder of a cluster, Kubeconfig its administrator's.
func (h Home) Cluster(name string) string    { return h.path("clusters", name) }
func (h Home) Kubeconfig(name string) string { return h.path("clusters", name, "admin.kubeconfig") }

// Node is the folder of a node.
func (h Home) Node(name string) string { return h.path("nodes", name) }

// Clusters lists the clusters that exist, running or not.
func (h Home) Clusters() ([]spec.Cluster, error) {
	entries, err := os.ReadDir(h.path("clusters"))
	if err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	var clusters []spec.Cluster
	for _, e := range entries {
		c, err := h.Load(e.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // the rest of a run that was killed before it wrote anything
		case err != nil:
			return nil, err
		}
		clusters = append(clusters, c)
	}
	slices.SortFunc(clusters, func(a, b spec.Cluster) int { return a.Index() - b.Index() })
	return clusters, nil
}

// Load reads the description of a cluster; the error is fs.ErrNotExist if there is none.
func (h Home) Load(name string) (spec.Cluster, error) {
	var c spec.Cluster
	data, err := os.ReadFile(h.specFile(name))
	if err != nil {
		return c, fmt.Errorf("there is no cluster %q (playground status lists them): %w", name, err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("reading %s: %w", h.specFile(name), err)
	}
	return c, nil
}

// Save writes the description of a cluster.
func (h Home) Save(c spec.Cluster) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the description of cluster %s: %w", c.Name, err)
	}
	return Write(h.specFile(c.Name), data, 0o644)
}

func (h Home) specFile(name string) string { return filepath.Join(h.Cluster(name), "cluster.json") }

// Lock makes one run at a time change clusters; the kernel drops it with the process.
func (h Home) Lock(waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(h.path("lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the playground's lock: %w", err)
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		waiting()
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			return nil, fmt.Errorf("waiting for another run of the playground: %w", err)
		}
	}
	return func() { f.Close() }, nil
}

// Write replaces a file in one step, so that a killed run never leaves half of one.
func Write(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of %s: %w", path, err)
	}
	tmp := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	if err := os.WriteFile(tmp, data, mode); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
