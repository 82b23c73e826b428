// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package home has the paths of the playground's files.
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

// Home is the folder of programs, images, clusters and nodes.
type Home struct {
	Root  string
	World spec.World
}

// Open reads the environment: LIQO_PLAYGROUND_HOME, and for a second playground on the same machine
// LIQO_PLAYGROUND_NAME and LIQO_PLAYGROUND_NETWORK. It creates the folders.
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
	world, err := spec.NewWorld(getenv("LIQO_PLAYGROUND_NAME", "liqo-pg"), getenv("LIQO_PLAYGROUND_NETWORK", "172.29.0.0/16"))
	if err != nil {
		return Home{}, err
	}
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		world.IPv6 = netip.Prefix{}
	}
	h := Home{Root: root, World: world}
	for _, dir := range []string{h.Bin(), h.Images(), h.join("clusters"), h.join("nodes")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return Home{}, fmt.Errorf("creating the folders of the playground: %w", err)
		}
	}
	return h, nil
}

func getenv(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

func (h Home) join(elem ...string) string { return filepath.Join(append([]string{h.Root}, elem...)...) }

// Environment returns the variables with which another process opens the same home.
func (h Home) Environment() []string {
	return []string{
		"LIQO_PLAYGROUND_HOME=" + h.Root,
		"LIQO_PLAYGROUND_NAME=" + h.World.Name,
		"LIQO_PLAYGROUND_NETWORK=" + h.World.IPv4.String(),
	}
}

// Bin is the folder of programs, and the value of KUBEBUILDER_ASSETS.
func (h Home) Bin() string { return h.join("bin") }

// Program returns the path of a program.
func (h Home) Program(name string) string { return h.join("bin", name) }

// Assets returns the folder of etcd, kubectl and the programs of a Kubernetes release: Bin for the default release.
func (h Home) Assets(release string) string {
	if release == spec.Kubernetes {
		return h.Bin()
	}
	return h.join("bin-" + spec.Minor(release))
}

// KubernetesProgram returns the path of a program of a Kubernetes release.
func (h Home) KubernetesProgram(release, name string) string {
	return filepath.Join(h.Assets(release), name)
}

// Images is the folder of images that every node has.
func (h Home) Images() string { return h.join("img") }

// CNIImage returns the path of the image of a CNI, which only nodes of clusters with this CNI have.
func (h Home) CNIImage(cni spec.CNI) string {
	return h.join("img", "cni", string(cni.Project())+".tar")
}

// Sources is the folder of unpacked sources of programs.
func (h Home) Sources() string { return h.join("src") }

// Cluster returns the folder of a cluster, Kubeconfig the path of its administrator's kubeconfig.
func (h Home) Cluster(name string) string    { return h.join("clusters", name) }
func (h Home) Kubeconfig(name string) string { return h.join("clusters", name, "admin.kubeconfig") }

// Node returns the folder of a node.
func (h Home) Node(name string) string { return h.join("nodes", name) }

// Clusters lists the clusters that exist, running or not.
func (h Home) Clusters() ([]spec.Cluster, error) {
	entries, err := os.ReadDir(h.join("clusters"))
	if err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	var clusters []spec.Cluster
	for _, e := range entries {
		c, err := h.Load(e.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // a killed run created the folder only
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

// Lock waits until no other run changes clusters. The kernel releases the lock when the process ends.
func (h Home) Lock(waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(h.join("lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
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

// Write replaces a file by a rename, so that a killed run leaves no partial file.
func Write(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("creating the folder of %s: %w", path, err)
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
