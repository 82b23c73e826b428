// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// entry is one file, folder or link of a volume, as a line of the manifest. Names are bytes: they may be no text.
type entry struct {
	Path []byte `json:"path"`
	// Mode has the type and the permissions, as os.FileMode.
	Mode  os.FileMode `json:"mode"`
	UID   uint32      `json:"uid"`
	GID   uint32      `json:"gid"`
	MTime int64       `json:"mtime"` // nanoseconds
	Size  int64       `json:"size,omitempty"`
	// Names is the number of hard links of a regular file.
	Names uint64 `json:"names,omitempty"`
	// SameAs is the first path of a file with several names. Such an entry has no content.
	SameAs []byte `json:"sameAs,omitempty"`
	// Target is the target of a symbolic link.
	Target     []byte            `json:"target,omitempty"`
	Attributes map[string][]byte `json:"attributes,omitempty"`
	// Sum is the SHA-256 of the content, in the manifest to verify.
	Sum []byte `json:"sum,omitempty"`
}

// line is a line of a manifest: first the totals, then entries. An error ends the manifest.
type line struct {
	Totals *totals `json:"totals,omitempty"`
	Entry  *entry  `json:"entry,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// totals are the sums over a manifest. The entries must not exceed the totals.
type totals struct{ Files, Bytes int64 }

const (
	longestPath = 4096
	// longestLine has room for a path, a target and the attributes of a file, in base64.
	longestLine = 512 << 10
)

// checkEntry returns why an entry is not acceptable. The order of entries excludes duplicates.
func (e *entry) checkEntry(previous string) error {
	path, kind := string(e.Path), e.Mode.Type()
	switch {
	case path == "" || len(path) > longestPath || !filepath.IsLocal(path) || filepath.Clean(path) != path:
		return fmt.Errorf("invalid path %q", path)
	case previous != "" && comparePaths(previous, path) >= 0:
		return fmt.Errorf("invalid path %q: it does not follow %q", path, previous)
	case path == "." && kind != fs.ModeDir:
		return errors.New("the volume itself is not a folder")
	case !slices.Contains([]fs.FileMode{0, fs.ModeDir, fs.ModeSymlink, fs.ModeNamedPipe, fs.ModeSocket}, kind):
		return fmt.Errorf("%q is of the type %s, which cannot be moved", path, kind)
	case e.Size < 0:
		return fmt.Errorf("%q has the size %d", path, e.Size)
	case len(e.SameAs) > 0 && (kind != 0 || !filepath.IsLocal(string(e.SameAs))):
		return fmt.Errorf("%q cannot be the same file as %q", path, e.SameAs)
	case kind == fs.ModeSymlink && (len(e.Target) == 0 || len(e.Target) > longestPath):
		return fmt.Errorf("the symbolic link %q has no valid target", path)
	}
	return nil
}

// hasContent reports whether the entry is a regular file under the first name.
func (e *entry) hasContent() bool { return e.Mode.IsRegular() && len(e.SameAs) == 0 }

// comparePaths orders paths as walkTree visits them.
func comparePaths(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == ".":
		return -1
	case b == ".":
		return 1
	}
	return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}

// node is a file visited by walkTree.
type node struct {
	path string
	info fs.FileInfo
	// folder and name are the shortest way to the file.
	folder *os.Root
	name   string
}

// statOf returns the fields missing in os.FileInfo.
func (n node) statOf() *syscall.Stat_t { return n.info.Sys().(*syscall.Stat_t) }

// walkTree visits all files of a volume in the order of comparePaths: folders before their content. Files that disappear meanwhile are left out.
func walkTree(root *os.Root) iter.Seq2[node, error] {
	return func(yield func(node, error) bool) { visitTree(node{path: ".", folder: root, name: "."}, yield) }
}

func visitTree(n node, yield func(node, error) bool) bool {
	var err error
	if n.info, err = n.folder.Lstat(n.name); errors.Is(err, fs.ErrNotExist) || err == nil && n.isRecovered() {
		return true
	} else if err != nil {
		return yield(node{}, err)
	}
	if !yield(n, nil) {
		return false
	}
	if !n.info.IsDir() {
		return true
	}
	folder, names, err := n.openFolder()
	if err != nil {
		return yield(node{}, err)
	}
	if folder == nil {
		return true
	}
	defer folder.Close()
	for _, name := range names {
		if !visitTree(node{path: filepath.Join(n.path, name), folder: folder, name: name}, yield) {
			return false
		}
	}
	return true
}

// isRecovered reports whether a folder is lost+found, the folder for files recovered by ext4 after a crash: it belongs to the file system, not to the
// data.
func (n node) isRecovered() bool { return n.path == "lost+found" && n.info.IsDir() }

// openFolder returns a folder with its names in order, nil if the visitor replaced the folder.
func (n node) openFolder() (folder *os.Root, names []string, err error) {
	now, err := n.folder.Lstat(n.name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !now.IsDir() {
		return nil, nil, nil
	}
	if err == nil {
		folder, err = n.folder.OpenRoot(n.name)
	}
	if err != nil {
		return nil, nil, err
	}
	dir, err := folder.Open(".")
	if err == nil {
		names, err = dir.Readdirnames(-1)
		_ = dir.Close()
	}
	if err != nil {
		return nil, nil, errors.Join(err, folder.Close())
	}
	slices.Sort(names)
	return folder, names, nil
}

// newEntry returns the entry of a file without the checksum.
func newEntry(n node) (*entry, error) {
	stat := n.statOf()
	e := &entry{Path: []byte(n.path), Mode: n.info.Mode(), UID: stat.Uid, GID: stat.Gid, MTime: n.info.ModTime().UnixNano()}
	switch n.info.Mode().Type() {
	case 0:
		e.Size, e.Names = n.info.Size(), stat.Nlink
		fallthrough
	case fs.ModeDir:
		attributes, err := readAttributes(n.folder, n.name)
		if err != nil {
			return nil, err
		}
		e.Attributes = attributes
	case fs.ModeSymlink:
		target, err := n.folder.Readlink(n.name)
		if err != nil {
			return nil, err
		}
		e.Target = []byte(target)
	}
	return e, e.checkEntry("")
}

// readManifest yields the entries of a manifest. The memory is bounded. The sequence ends at the first invalid entry.
func readManifest(from io.Reader, started func(totals) error) iter.Seq2[*entry, error] {
	return func(yield func(*entry, error) bool) {
		fail := func(err error) { yield(nil, fmt.Errorf("reading the manifest: %w", err)) }
		lines := bufio.NewScanner(from)
		lines.Buffer(nil, longestLine)
		var sums *totals
		var previous string
		for lines.Scan() {
			if len(bytes.TrimSpace(lines.Bytes())) == 0 { // the source still computes
				continue
			}
			var l line
			if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
				fail(err)
				return
			}
			switch {
			case l.Error != "":
				fail(&sourceError{l.Error})
				return
			case sums == nil && l.Totals != nil:
				sums = l.Totals
				if err := started(*sums); err != nil {
					fail(err)
					return
				}
				continue
			case sums == nil || l.Entry == nil:
				fail(errors.New("invalid line"))
				return
			}
			e := l.Entry
			if err := e.checkEntry(previous); err != nil {
				fail(err)
				return
			}
			previous = string(e.Path)
			sums.Files--
			if e.hasContent() {
				sums.Bytes -= e.Size
			}
			if sums.Files < 0 || sums.Bytes < 0 {
				fail(errors.New("it has more than it announced"))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		switch err := lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			fail(err)
		case err != nil:
			fail(&connectionError{err})
		case sums == nil || sums.Files != 0 || sums.Bytes != 0:
			fail(&connectionError{io.ErrUnexpectedEOF})
		}
	}
}

// sourceError is a reported error of the source. A retry will not help.
type sourceError struct{ message string }

func (e *sourceError) Error() string { return "the source: " + e.message }

// connectionError is of a connection to the source. A retry may help.
type connectionError struct{ err error }

func (e *connectionError) Error() string { return "the connection to the source: " + e.err.Error() }

func (e *connectionError) Unwrap() error { return e.err }

func timeOf(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds) }

// sameTime reports whether a file system stored a time. Some store only seconds.
func sameTime(stored, set int64) bool {
	return stored == set || stored%int64(time.Second) == 0 && stored/int64(time.Second) == set/int64(time.Second)
}
