// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// isMoved reports whether an extended attribute belongs to the data: access control lists and attributes of programs. Attributes of security modules
// belong to the node.
func isMoved(attribute string) bool {
	return strings.HasPrefix(attribute, "user.") || strings.HasPrefix(attribute, "system.posix_acl_")
}

// maxAttributes bounds the extended attributes of a file, as Linux does.
const maxAttributes = 64 << 10

// openFile opens a regular file or a folder. It never opens the target of a link, and never waits for the other end of a pipe. The methods of os.Root
// follow links inside of the root, with any flags.
func openFile(root *os.Root, path string, flags int) (*os.File, error) {
	if path == "." {
		return root.Open(path)
	}
	parent, err := root.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	fd, err := unix.Openat(int(parent.Fd()), filepath.Base(path), flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// readAttributes returns the extended attributes of a regular file or a folder.
func readAttributes(root *os.Root, path string) (map[string][]byte, error) {
	f, err := openFile(root, path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return attributesOf(f)
}

func attributesOf(f *os.File) (map[string][]byte, error) {
	buffer := make([]byte, 1<<10)
	n, err := unix.Flistxattr(int(f.Fd()), buffer)
	if errors.Is(err, unix.ERANGE) {
		buffer = make([]byte, maxAttributes)
		n, err = unix.Flistxattr(int(f.Fd()), buffer)
	}
	if errors.Is(err, unix.ENOTSUP) || n == 0 && err == nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the extended attributes of %s: %w", f.Name(), err)
	}
	all := map[string][]byte{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(buffer[:n]), "\x00"), "\x00") {
		if !isMoved(name) {
			continue
		}
		value := make([]byte, maxAttributes)
		n, err := unix.Fgetxattr(int(f.Fd()), name, value)
		if err != nil {
			return nil, fmt.Errorf("reading the extended attribute %s of %s: %w", name, f.Name(), err)
		}
		all[name] = bytes.Clone(value[:n])
	}
	return all, nil
}

// setMetadata gives a file the owner, permissions, attributes and time of the entry. The owner comes before permissions: a new owner clears some
// permissions.
func setMetadata(root *os.Root, e *entry) error {
	path := string(e.Path)
	if err := root.Lchown(path, int(e.UID), int(e.GID)); err != nil {
		return fmt.Errorf("setting the owner: %w", err)
	}
	if e.Mode.Type() == fs.ModeSymlink {
		return nil
	}
	if e.Mode.IsDir() || e.Mode.IsRegular() {
		if err := setAttributes(root, e); err != nil {
			return err
		}
	}
	if err := root.Chmod(path, e.Mode.Perm()|e.Mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)); err != nil {
		return fmt.Errorf("setting the permissions: %w", err)
	}
	if err := root.Chtimes(path, time.Time{}, timeOf(e.MTime)); err != nil {
		return fmt.Errorf("setting the time: %w", err)
	}
	return nil
}

func setAttributes(root *os.Root, e *entry) error {
	f, err := openFile(root, string(e.Path), os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("setting extended attributes: %w", err)
	}
	defer f.Close()
	current, err := attributesOf(f)
	if err != nil {
		return err
	}
	for name, value := range e.Attributes {
		if now, ok := current[name]; ok && bytes.Equal(now, value) {
			continue
		}
		if !isMoved(name) {
			return fmt.Errorf("the extended attribute %q of %q is not one to move", name, e.Path)
		}
		if err := unix.Fsetxattr(int(f.Fd()), name, value, 0); err != nil {
			return fmt.Errorf("setting the extended attribute %s of %s: %w", name, e.Path, err)
		}
	}
	for name := range current {
		if _, wanted := e.Attributes[name]; !wanted {
			if err := unix.Fremovexattr(int(f.Fd()), name); err != nil {
				return fmt.Errorf("removing the extended attribute %s of %s: %w", name, e.Path, err)
			}
		}
	}
	return nil
}

// sameMetadata returns why a file differs from the entry.
func sameMetadata(root *os.Root, e *entry) error {
	path := string(e.Path)
	info, err := root.Lstat(path)
	if err != nil {
		return err
	}
	now, err := newEntry(node{path: path, info: info, folder: root, name: path})
	if err != nil {
		return err
	}
	different := func(what string, now, want any) error {
		return fmt.Errorf("%q has the %s %v instead of %v", path, what, now, want)
	}
	switch {
	case now.Mode != e.Mode && (e.Mode.Type() != fs.ModeSymlink || now.Mode.Type() != fs.ModeSymlink):
		return different("mode", now.Mode, e.Mode)
	case now.UID != e.UID || now.GID != e.GID:
		return different("owner", fmt.Sprint(now.UID, ":", now.GID), fmt.Sprint(e.UID, ":", e.GID))
	case !sameTime(now.MTime, e.MTime) && e.Mode.Type() != fs.ModeSymlink:
		return different("time", timeOf(now.MTime), timeOf(e.MTime))
	case now.Size != e.Size:
		return different("size", now.Size, e.Size)
	case !bytes.Equal(now.Target, e.Target):
		return different("target", string(now.Target), string(e.Target))
	case !maps.EqualFunc(now.Attributes, e.Attributes, bytes.Equal):
		return different("extended attributes", now.Attributes, e.Attributes)
	case len(e.SameAs) > 0:
		first, err := root.Lstat(string(e.SameAs))
		if err != nil {
			return err
		}
		if !os.SameFile(first, info) {
			return fmt.Errorf("%q is not the same file as %q", path, e.SameAs)
		}
	}
	return nil
}

// makeSpecial makes a pipe or a socket.
func makeSpecial(root *os.Root, path string, kind fs.FileMode) error {
	parent, err := root.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer parent.Close()
	mode := uint32(syscall.S_IFIFO)
	if kind == fs.ModeSocket {
		mode = syscall.S_IFSOCK
	}
	if err := unix.Mknodat(int(parent.Fd()), filepath.Base(path), mode|0o600, 0); err != nil {
		return fmt.Errorf("making %q: %w", path, err)
	}
	return nil
}
