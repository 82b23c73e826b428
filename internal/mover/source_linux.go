// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	manifestPath = "/manifest"
	contentsPath = "/contents"
	verifyKey    = "verify"

	bufferSize = 256 << 10
	// After aliveEvery bytes or aliveFiles files of work, the source shows that it is alive.
	aliveEvery, aliveFiles = 128 << 20, 10_000
	// cachedSums bounds the checksums kept from sending a file to verifying it, cachedSize is the minimum size of files with kept checksums.
	cachedSums, cachedSize = 1 << 16, 1 << 20
	largestRequest         = 8 << 20
)

// SourceOptions configure a source.
type SourceOptions struct {
	// Folder is where the volume is mounted.
	Folder string
	Link   Link
	// Idle is how long the source waits for a request before it ends; 0 is 15 minutes.
	Idle time.Duration
}

// Serve serves the files of a volume until ctx ends or no request arrives.
func Serve(ctx context.Context, o SourceOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	root, err := os.OpenRoot(o.Folder)
	if err != nil {
		return fmt.Errorf("opening the volume: %w", err)
	}
	defer root.Close()
	next, err := o.Link.openConnections(ctx)
	if err != nil {
		return err
	}
	if o.Idle == 0 {
		o.Idle = 15 * time.Minute
	}
	s := &source{root: root, idle: time.AfterFunc(o.Idle, cancel), patience: o.Idle, sums: map[string][]byte{}}
	defer s.idle.Stop()
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+manifestPath, s.serveManifest)
	mux.HandleFunc("POST "+contentsPath, s.serveContents)
	// The listener authenticates the peer before the server sees the connection: of the timeouts, only the idle timeout applies.
	server := &http.Server{Handler: mux}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	listener := &serverListener{ctx: ctx, next: next, slots: make(chan struct{}, 2*connections), pause: time.Second}
	if err := server.Serve(listener); ctx.Err() == nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// source serves one volume. The volume does not change.
type source struct {
	root     *os.Root
	idle     *time.Timer
	patience time.Duration

	mu     sync.Mutex
	sums   map[string][]byte
	totals *totals
}

// activeWriter postpones the end of an idle source with each write.
type activeWriter struct {
	http.ResponseWriter
	s *source
}

func (w activeWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	if err == nil {
		w.s.idle.Reset(w.s.patience)
	}
	return n, err
}

// contentWriter ends a connection from which the target does not read. The target always reads content; the manifest may have to wait.
type contentWriter struct{ activeWriter }

func (w *contentWriter) Write(p []byte) (int, error) {
	if err := http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(idleTimeout)); err != nil {
		return 0, err
	}
	return w.activeWriter.Write(p)
}

// showAlive sends an empty line.
func (w activeWriter) showAlive() error {
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// serveManifest sends the totals and all entries, with the checksums if they are asked for.
func (s *source) serveManifest(response http.ResponseWriter, request *http.Request) {
	w := activeWriter{response, s}
	if err := s.writeManifest(request.Context(), w, request.URL.Query().Has(verifyKey)); err != nil {
		_ = json.NewEncoder(w).Encode(line{Error: err.Error()})
	}
}

func (s *source) writeManifest(ctx context.Context, w activeWriter, verify bool) error {
	sums, err := s.computeTotals(w)
	if err != nil {
		return err
	}
	out := json.NewEncoder(w)
	if err := out.Encode(line{Totals: sums}); err != nil {
		return err
	}
	first := map[uint64]string{} // by inode
	for n, err := range walkTree(s.root) {
		if err != nil {
			return err
		}
		e, err := newEntry(n)
		if err != nil {
			return err
		}
		if stat := n.statOf(); e.Names > 1 {
			if path, known := first[stat.Ino]; known {
				e.SameAs = []byte(path)
			} else {
				first[stat.Ino] = n.path
			}
		}
		if verify && e.hasContent() {
			if e.Sum, err = s.sumOf(ctx, w, e); err != nil {
				return err
			}
		}
		if err := out.Encode(line{Entry: e}); err != nil {
			return err
		}
	}
	return nil
}

// computeTotals walks the volume once.
func (s *source) computeTotals(w activeWriter) (*totals, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.totals != nil {
		return s.totals, nil
	}
	sums, several := &totals{}, map[uint64]bool{}
	for n, err := range walkTree(s.root) {
		if err != nil {
			return nil, err
		}
		if sums.Files++; sums.Files%aliveFiles == 1 {
			if err := w.showAlive(); err != nil {
				return nil, err
			}
		}
		if stat := n.statOf(); n.info.Mode().IsRegular() && !several[stat.Ino] {
			sums.Bytes += n.info.Size()
			several[stat.Ino] = stat.Nlink > 1
		}
	}
	s.totals = sums
	return sums, nil
}

// sumOf returns the checksum of a file, computed when the file was sent, or now.
func (s *source) sumOf(ctx context.Context, w activeWriter, e *entry) ([]byte, error) {
	s.mu.Lock()
	sum := s.sums[string(e.Path)]
	s.mu.Unlock()
	if sum != nil {
		return sum, nil
	}
	f, err := openFile(s.root, string(e.Path), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, buffer := sha256.New(), make([]byte, min(bufferSize, e.Size+1))
	for done := int64(0); ; done += aliveEvery {
		_, err := io.CopyBuffer(onlyWriter{all}, io.LimitReader(f, aliveEvery), buffer)
		switch {
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case done+aliveEvery >= e.Size:
			return all.Sum(nil), nil
		}
		if err := w.showAlive(); err != nil {
			return nil, err
		}
	}
}

// onlyWriter hides other methods: io.CopyBuffer then uses its buffer.
type onlyWriter struct{ io.Writer }

// piece asks for the content of a file from an offset to the size in the manifest.
type piece struct {
	Path   []byte `json:"path"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`
}

// serveContents sends pieces of files, one after another. An error cuts the connection: the target knows how much must arrive.
func (s *source) serveContents(response http.ResponseWriter, request *http.Request) {
	var pieces []piece
	if err := json.NewDecoder(http.MaxBytesReader(response, request.Body, largestRequest)).Decode(&pieces); err != nil {
		http.Error(response, "reading the request: "+err.Error(), http.StatusBadRequest)
		return
	}
	w, buffer := &contentWriter{activeWriter{response, s}}, make([]byte, bufferSize)
	for i, p := range pieces {
		err := s.sendPiece(w, p, buffer)
		switch {
		case err != nil && i == 0 && isSourceProblem(err):
			http.Error(response, err.Error(), http.StatusConflict)
			return
		case err != nil:
			panic(http.ErrAbortHandler)
		}
	}
}

// isSourceProblem reports whether an error is of the volume, before anything was sent.
func isSourceProblem(err error) bool {
	_, ok := errors.AsType[*sourceError](err)
	return ok
}

func (s *source) sendPiece(w io.Writer, p piece, buffer []byte) error {
	f, err := openFile(s.root, string(p.Path), os.O_RDONLY)
	if err != nil {
		return &sourceError{err.Error()}
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return &sourceError{err.Error()}
	case !info.Mode().IsRegular() || info.Size() != p.Size || p.Offset < 0 || p.Offset > p.Size:
		return &sourceError{fmt.Sprintf("%q changed while it was copied", p.Path)}
	}
	if _, err := f.Seek(p.Offset, io.SeekStart); err != nil {
		return &sourceError{err.Error()}
	}
	var sum hash.Hash
	if p.Offset == 0 && p.Size >= cachedSize {
		sum = sha256.New()
		w = io.MultiWriter(w, sum)
	}
	if n, err := io.CopyBuffer(onlyWriter{w}, io.LimitReader(f, p.Size-p.Offset), buffer); err != nil || n < p.Size-p.Offset {
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	if sum != nil {
		s.keepSum(string(p.Path), sum.Sum(nil))
	}
	return nil
}

func (s *source) keepSum(path string, sum []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sums) < cachedSums {
		s.sums[path] = sum
	}
}
