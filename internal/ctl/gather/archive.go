// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"
)

// archive is a compressed tar file with one folder, readable only by the owner.
type archive struct {
	name   string
	file   *os.File
	zipped *gzip.Writer
	tape   *tar.Writer
	folder string
	at     time.Time
	// left is how many bytes, before compression, may still be added.
	left int64
	// problems name the missing parts.
	problems []string
}

// newArchive creates the file NAME.partial. closeArchive renames the file.
func newArchive(name, folder string, limit int64, at time.Time) (*archive, error) {
	file, err := os.OpenFile(name+partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating the archive: %w", err)
	}
	zipped := gzip.NewWriter(file)
	return &archive{name: name, file: file, zipped: zipped, tape: tar.NewWriter(zipped), folder: folder, at: at, left: limit}, nil
}

const partial = ".partial"

// addEnd adds a file. The beginning of the file may be missing already. The part of a file beyond the limit of the archive is cut off at the
// beginning.
func (a *archive) addEnd(name string, data []byte, cut bool) error {
	if over := int64(len(data)) - a.left; over > 0 {
		data, cut = data[over:], true
	}
	if cut {
		a.addProblem("%s: the beginning is missing, because it is too large", name)
	}
	a.left -= int64(len(data))
	return a.writeFile(name, data)
}

// addFile adds a file. The rest beyond the limit of the archive is cut off.
func (a *archive) addFile(name string, data []byte) error {
	if int64(len(data)) > a.left {
		a.addProblem("%s: %d of %d bytes are cut off by --max-size", name, int64(len(data))-a.left, len(data))
		data = data[:a.left]
	}
	a.left -= int64(len(data))
	return a.writeFile(name, data)
}

func (a *archive) writeFile(name string, data []byte) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(a.folder, name), Size: int64(len(data)), Mode: 0o600, ModTime: a.at}
	if err := a.tape.WriteHeader(header); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	if _, err := a.tape.Write(data); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return nil
}

// addProblem notes a missing part.
func (a *archive) addProblem(format string, args ...any) {
	a.problems = append(a.problems, redactText(fmt.Sprintf(format, args...)))
}

// closeArchive completes and renames the archive, or removes the file if there was an error.
func (a *archive) closeArchive(failed error) error {
	closers := []io.Closer{a.tape, a.zipped, a.file}
	for _, c := range closers {
		failed = errors.Join(failed, c.Close())
	}
	if failed != nil {
		return errors.Join(failed, os.Remove(a.file.Name()))
	}
	if err := os.Rename(a.file.Name(), a.name); err != nil {
		return fmt.Errorf("naming the archive: %w", err)
	}
	return nil
}
