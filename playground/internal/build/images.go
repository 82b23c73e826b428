// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"liqo.io/liqo/playground/internal/node"
	"liqo.io/liqo/playground/internal/spec"
)

// image describes a container image: one layer of files, without a base image.
type image struct {
	file       string // in the images folder
	refs       []string
	entrypoint []string
	command    []string
	files      map[string]string // path in the image: file on this machine
	links      map[string]string // path in the image: target
}

func (b Builder) buildImages() error {
	busybox, err := busyboxImage()
	if err != nil {
		return err
	}
	all := []image{
		b.singleProgramImage("pause", node.PauseImage),
		b.singleProgramImage("coredns", "registry.k8s.io/coredns/coredns:"+spec.CoreDNS),
		b.singleProgramImage("metrics-server", "registry.k8s.io/metrics-server/metrics-server:"+spec.MetricsServer),
		b.singleProgramImage("local-path-provisioner", "docker.io/rancher/local-path-provisioner:"+spec.LocalPathProvisioner),
		b.singleProgramImage("httpd", "docker.io/playground/httpd:v1", "docker.io/playground/httpd:latest"),
		busybox,
	}
	for _, img := range all {
		if err := b.buildImage(img); err != nil {
			return fmt.Errorf("building image %s: %w", img.refs[0], err)
		}
	}
	return nil
}

// cniRepositories are the images of the CNIs that run in pods.
var cniRepositories = map[spec.CNI]string{spec.Flannel: "ghcr.io/flannel-io/flannel", spec.KubeRouter: "docker.io/cloudnativelabs/kube-router", spec.Cilium: "quay.io/cilium/cilium"}

// singleProgramImage returns an image that contains one program.
func (b Builder) singleProgramImage(program string, refs ...string) image {
	return image{
		file: program + ".tar", refs: refs, entrypoint: []string{"/" + program},
		files: map[string]string{"/" + program: b.Home.Program(program)},
	}
}

// routingTables has the names of routing tables, to which kube-router adds its own.
const routingTables = "/etc/iproute2/rt_tables"

// cniImage returns the image of a CNI that runs in pods: its program, and the programs of this machine that it runs.
func (b Builder) cniImage(cni spec.CNI) (image, error) {
	img := image{
		file: filepath.Join("cni", string(cni)+".tar"), refs: []string{cniRepositories[cni] + ":" + cni.Version()},
		files: map[string]string{}, links: map[string]string{},
	}
	for _, p := range cniPrograms[cni] {
		img.files["/"+p.name] = b.Home.Program(p.name)
	}
	img.entrypoint = []string{"/" + cniPrograms[cni][0].name}
	programs := []string{xtables}
	switch cni {
	case spec.KubeRouter:
		programs = append(programs, "ip", "ipset")
		img.files[routingTables] = routingTables
	case spec.Cilium:
		programs = append(programs, "ipset", clang, "bpftool")
		if err := b.addCilium(img); err != nil {
			return image{}, err
		}
	}
	for _, name := range programs {
		if err := img.addProgram(name); err != nil {
			return image{}, err
		}
	}
	for _, applet := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-save", "-restore"} {
			img.links["/sbin/"+applet+suffix] = xtables
		}
	}
	extensions, err := filepath.Glob("/usr/lib*/*/xtables/*.so")
	for _, file := range extensions {
		img.files[file] = file
	}
	return img, err
}

// addProgram adds a program of this machine, with its shared libraries.
func (img image) addProgram(name string) error {
	program, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("finding %s: %w", name, err)
	}
	out, err := exec.Command("ldd", program).Output()
	if err != nil {
		return fmt.Errorf("listing the libraries of %s: %w", program, err)
	}
	img.files["/sbin/"+name] = program
	for field := range strings.FieldsSeq(string(out)) {
		if filepath.IsAbs(field) {
			img.files[field] = field
		}
	}
	return nil
}

// busyboxImage returns an image of busybox with a link for each applet.
func busyboxImage() (image, error) {
	program, err := exec.LookPath("busybox")
	if err != nil {
		return image{}, fmt.Errorf("finding busybox: %w", err)
	}
	if isDynamic(program) {
		return image{}, fmt.Errorf("%s is not static: install a static one (Debian: busybox-static)", program)
	}
	list, err := exec.Command(program, "--list").Output()
	if err != nil {
		return image{}, fmt.Errorf("listing the applets of busybox: %w", err)
	}
	img := image{
		file: "busybox.tar", refs: []string{"docker.io/library/busybox:latest", "docker.io/library/busybox:1"},
		command: []string{"sh"},
		files:   map[string]string{"/bin/busybox": program}, links: map[string]string{},
	}
	for _, applet := range strings.Fields(string(list)) {
		if applet != "busybox" {
			img.links["/bin/"+applet] = "busybox"
		}
	}
	return img, nil
}

func isDynamic(program string) bool {
	f, err := elf.Open(program)
	if err != nil {
		return false
	}
	defer f.Close()
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// buildImage writes the archive of the image unless the archive is newer than all files of the image.
func (b Builder) buildImage(img image) error {
	archive := filepath.Join(b.Home.Images(), img.file)
	fresh, err := img.isUpToDate(archive)
	if err != nil || fresh {
		return err
	}
	b.Log.Print("building image %s", img.refs[0])
	layer, err := img.buildLayer()
	if err != nil {
		return err
	}
	built, err := img.buildConfig(layer)
	if err != nil {
		return err
	}
	tags := map[name.Reference]v1.Image{}
	for _, ref := range img.refs {
		tag, err := name.NewTag(ref)
		if err != nil {
			return err
		}
		tags[tag] = built
	}
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		return err
	}
	tmp := archive + ".new"
	if err := tarball.MultiRefWriteToFile(tmp, tags); err != nil {
		return err
	}
	return os.Rename(tmp, archive)
}

func (img image) isUpToDate(archive string) (bool, error) {
	built, err := os.Stat(archive)
	if err != nil {
		return false, nil
	}
	for _, source := range img.files {
		info, err := os.Stat(source)
		if err != nil {
			return false, err
		}
		if info.ModTime().After(built.ModTime()) {
			return false, nil
		}
	}
	return true, nil
}

// buildConfig returns the image of a layer. The layer is not compressed, because it is only sent to a local socket.
func (img image) buildConfig(layer []byte) (v1.Image, error) {
	built, err := mutate.AppendLayers(empty.Image, static.NewLayer(layer, types.DockerUncompressedLayer))
	if err != nil {
		return nil, err
	}
	file, err := built.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Architecture, file.OS = runtime.GOARCH, "linux"
	file.Config.Entrypoint, file.Config.Cmd = img.entrypoint, img.command
	file.Config.Env = []string{"PATH=/bin:/usr/bin:/sbin:/usr/sbin"}
	return mutate.ConfigFile(built, file)
}

// buildLayer returns a tar archive with fixed times and order, so that the same files give the same image.
func (img image) buildLayer() ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	texts := map[string]string{
		"/etc/passwd":        "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
		"/etc/group":         "root:x:0:\nnobody:x:65534:\n",
		"/etc/nsswitch.conf": "hosts: files dns\n",
	}
	for _, dir := range img.folders(texts) {
		mode := int64(0o755)
		if dir == "tmp" {
			mode = 0o1777
		}
		if err := writeEntry(w, tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: mode}, nil); err != nil {
			return nil, err
		}
	}
	for _, p := range sortedKeys(texts) {
		if err := writeEntry(w, tar.Header{Name: p[1:], Mode: 0o644}, []byte(texts[p])); err != nil {
			return nil, err
		}
	}
	for _, p := range sortedKeys(img.files) {
		data, err := os.ReadFile(img.files[p])
		if err != nil {
			return nil, err
		}
		if err := writeEntry(w, tar.Header{Name: p[1:], Mode: 0o755}, data); err != nil {
			return nil, err
		}
	}
	for _, p := range sortedKeys(img.links) {
		if err := writeEntry(w, tar.Header{Name: p[1:], Typeflag: tar.TypeSymlink, Linkname: img.links[p], Mode: 0o777}, nil); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}

func (img image) folders(texts map[string]string) []string {
	dirs := []string{"dev", "proc", "sys", "tmp", "var"}
	for _, files := range []map[string]string{texts, img.files, img.links} {
		for p := range files {
			for dir := path.Dir(p[1:]); dir != "."; dir = path.Dir(dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func writeEntry(w *tar.Writer, h tar.Header, data []byte) error {
	h.Size, h.ModTime = int64(len(data)), time.Unix(0, 0)
	if h.Typeflag == 0 {
		h.Typeflag = tar.TypeReg
	}
	if err := w.WriteHeader(&h); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
