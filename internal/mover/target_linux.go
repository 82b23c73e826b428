// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	// workers fetch contents at once, each of a large file or of many small ones.
	workers = 8
	// connections has room for the manifest, too.
	connections = workers + 2
	// A batch is fetched with one request: round trips do not matter for small files.
	batchFiles, batchBytes = 512, 8 << 20
	// costOfFile is the number of bytes that the limit counts for a file without content, since such files also fill the volume.
	costOfFile = 1 << 10
)

// TargetOptions configure a target.
type TargetOptions struct {
	// Folder is where the volume is mounted.
	Folder string
	Link   Link
	// Limit is how much may be written, in bytes.
	Limit int64
	// Report is called with the progress, each second.
	Report func(Progress)
	// Pause is the time between attempts without a connection, Attempts their number without progress; 0 for 2 seconds and 60.
	Pause    time.Duration
	Attempts int
}

// Fetch makes a volume equal to the volume of the source, and verifies it by checksums. The copies of an earlier attempt stay.
func Fetch(ctx context.Context, o TargetOptions) (Progress, error) {
	if o.Pause == 0 {
		o.Pause = 2 * time.Second
	}
	if o.Attempts == 0 {
		o.Attempts = 60
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	root, err := os.OpenRoot(o.Folder)
	if err != nil {
		return Progress{}, fmt.Errorf("opening the volume: %w", err)
	}
	defer root.Close()
	next, err := o.Link.openConnections(ctx)
	if err != nil {
		return Progress{}, err
	}
	t := &target{root: root, limit: o.Limit, meter: newMeter(), client: &http.Client{Transport: &http.Transport{
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := next(ctx)
			if err != nil {
				return nil, err
			}
			return &idleConn{conn}, nil
		},
		MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections, DisableCompression: true,
	}}}
	defer t.client.CloseIdleConnections()
	if o.Report != nil {
		defer t.meter.startReports(o.Report)()
	}
	for _, phase := range []struct {
		name string
		run  func(context.Context) error
	}{{Copying, t.copyAll}, {Verifying, t.verifyAll}} {
		if err := t.retryPhase(ctx, o, phase.name, phase.run); err != nil {
			return Progress{}, fmt.Errorf("%s: %w", phase.name, err)
		}
	}
	if err := syncVolume(root); err != nil {
		return Progress{}, err
	}
	t.meter.phase.Store(Done)
	return t.meter.currentProgress(), nil
}

// syncVolume writes the data cached by the kernel.
func syncVolume(root *os.Root) error {
	f, err := root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("writing the volume: %w", err)
	}
	return nil
}

// target is one volume that receives files.
type target struct {
	root   *os.Root
	client *http.Client
	limit  int64
	meter  *meter
}

// retryPhase runs a phase until it succeeds or fails for another reason than the connection. Attempts with progress do not count.
func (t *target) retryPhase(ctx context.Context, o TargetOptions, name string, run func(context.Context) error) error {
	t.meter.phase.Store(name)
	for failed := 0; ; {
		before := t.meter.transferred.Load()
		t.meter.beginAttempt()
		err := run(ctx)
		lost, isLost := errors.AsType[*connectionError](err)
		switch {
		case err == nil || ctx.Err() != nil || !isLost:
			return errors.Join(ctx.Err(), err)
		case t.meter.transferred.Load() > before:
			failed = 0
		default:
			failed++
		}
		if failed >= o.Attempts {
			return lost
		}
		t.client.CloseIdleConnections()
		waitFor(ctx, o.Pause)
	}
}

// requestManifest yields the entries of the source.
func (t *target) requestManifest(ctx context.Context, query string) iter.Seq2[*entry, error] {
	return func(yield func(*entry, error) bool) {
		body, err := t.sendRequest(ctx, http.MethodGet, manifestPath+query, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		defer body.Close()
		for e, err := range readManifest(body, func(sums totals) error {
			t.meter.totalFiles.Store(sums.Files)
			t.meter.totalBytes.Store(sums.Bytes)
			return nil
		}) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// sendRequest returns the body of an answer.
func (t *target) sendRequest(ctx context.Context, method, path string, content []byte) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, "https://"+serverName+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	response, err := t.client.Do(request)
	if err != nil {
		return nil, &connectionError{err}
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, longestPath))
	if err != nil {
		return nil, &connectionError{err}
	}
	return nil, &sourceError{strings.TrimSpace(string(text))}
}

// job is a file with missing content.
type job struct {
	*entry
	offset int64
}

// copyAll makes all entries of the manifest, fetches missing content, and removes everything else.
func (t *target) copyAll(ctx context.Context) error {
	group, within := errgroup.WithContext(ctx)
	batches := make(chan []job)
	for range workers {
		group.Go(func() error {
			for batch := range batches {
				if err := t.fetchBatch(within, batch, true); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(batches)
		return t.makeAll(within, batches)
	})
	return group.Wait()
}

// makeAll makes the entries of the manifest one by one, and sends the entries without content in batches.
func (t *target) makeAll(ctx context.Context, batches chan<- []job) error {
	var batch []job
	var size int64
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		select {
		case batches <- batch:
			batch, size = nil, 0
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	extra := newPruner(t.root)
	defer extra.stop()
	for e, err := range t.requestManifest(ctx, "") {
		if err != nil {
			return err
		}
		if err := t.meter.chargeLimit(costOfFile, t.limit); err != nil {
			return err
		}
		if err := extra.removeBefore(string(e.Path)); err != nil {
			return err
		}
		offset, err := t.ensureEntry(e)
		if err != nil {
			return fmt.Errorf("making %q: %w", e.Path, err)
		}
		if offset < 0 {
			continue
		}
		batch = append(batch, job{e, offset})
		if size += e.Size - offset; size >= batchBytes || len(batch) >= batchFiles {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := extra.removeBefore(""); err != nil {
		return err
	}
	return flush()
}

// ensureEntry makes an entry without content, and without the metadata of folders, because later changes in the folder would undo the metadata. It
// returns the offset of the missing content, -1 for a complete entry. A file of another type is removed.
func (t *target) ensureEntry(e *entry) (offset int64, err error) {
	path := string(e.Path)
	info, err := t.root.Lstat(path)
	if err == nil && !isReusable(t.root, e, node{path: path, info: info}) {
		if err := t.root.RemoveAll(path); err != nil {
			return 0, err
		}
		info, err = nil, fs.ErrNotExist
	}
	exists := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	switch {
	case e.hasContent():
		return t.ensureFile(e, info)
	case exists:
	case e.Mode.IsDir():
		err = t.root.Mkdir(path, 0o700)
	case e.Mode.Type() == fs.ModeSymlink:
		err = t.root.Symlink(string(e.Target), path)
	case e.Mode.IsRegular():
		err = t.root.Link(string(e.SameAs), path)
	default:
		err = makeSpecial(t.root, path, e.Mode.Type())
	}
	if exists || err == nil {
		err = nil
		if !e.Mode.IsDir() && !e.Mode.IsRegular() {
			err = setMetadata(t.root, e)
		}
	}
	t.meter.addDone(1, 0)
	return -1, err
}

// isReusable reports whether a file of an earlier attempt is of the type of its entry.
func isReusable(root *os.Root, e *entry, n node) bool {
	switch {
	case n.info.Mode().Type() != e.Mode.Type():
		return false
	case len(e.SameAs) > 0:
		first, err := root.Lstat(string(e.SameAs))
		return err == nil && os.SameFile(first, n.info)
	case e.Mode.IsRegular():
		return n.statOf().Nlink == 1 || e.Names > 1
	case e.Mode.Type() == fs.ModeSymlink:
		target, err := root.Readlink(n.path)
		return err == nil && target == string(e.Target)
	}
	return true
}

// ensureFile makes an empty file, or returns how much of an existing file was copied. The content is verified later.
func (t *target) ensureFile(e *entry, info fs.FileInfo) (offset int64, err error) {
	flags := os.O_WRONLY | os.O_TRUNC // in a sticky folder, even root must not open the file of another user with O_CREATE
	switch {
	case info == nil:
		flags |= os.O_CREATE
	case info.Size() == e.Size && sameTime(info.ModTime().UnixNano(), e.MTime):
		t.meter.addDone(1, e.Size)
		return -1, t.meter.chargeLimit(usedBy(info), t.limit)
	case info.Size() <= e.Size:
		t.meter.addDone(0, info.Size())
		return info.Size(), t.meter.chargeLimit(usedBy(info), t.limit)
	}
	f, err := openFile(t.root, string(e.Path), flags)
	if err != nil {
		return 0, err
	}
	return 0, f.Close()
}

// usedBy returns the size of a file without the holes.
func usedBy(info fs.FileInfo) int64 {
	return min(info.Size(), (node{info: info}).statOf().Blocks*512)
}

// fetchBatch gets the missing content of files, and sets their metadata.
func (t *target) fetchBatch(ctx context.Context, batch []job, counted bool) error {
	pieces := make([]piece, len(batch))
	for i, j := range batch {
		pieces[i] = piece{j.Path, j.offset, j.Size}
	}
	asked, err := json.Marshal(pieces)
	if err != nil {
		return err
	}
	body, err := t.sendRequest(ctx, http.MethodPost, contentsPath, asked)
	if err != nil {
		return err
	}
	defer body.Close()
	buffer := make([]byte, bufferSize)
	for _, j := range batch {
		if err := t.receiveFile(body, j, buffer, counted); err != nil {
			return fmt.Errorf("copying %q: %w", j.Path, err)
		}
		if err := setMetadata(t.root, j.entry); err != nil {
			return fmt.Errorf("copying %q: %w", j.Path, err)
		}
		if counted {
			t.meter.addDone(1, 0)
		}
	}
	return nil
}

// receiveFile writes the rest of a file. Zeros become holes.
func (t *target) receiveFile(body io.Reader, j job, buffer []byte, counted bool) (err error) {
	f, err := openFile(t.root, string(j.Path), os.O_WRONLY)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for at := j.offset; at < j.Size; {
		block := buffer[:min(int64(len(buffer)), j.Size-at)]
		n, read := io.ReadFull(body, block)
		block = block[:n]
		if !bytes.Equal(block, zeros[:n]) {
			if counted {
				if err := t.meter.chargeLimit(int64(n), t.limit); err != nil {
					return err
				}
			}
			if _, err := f.WriteAt(block, at); err != nil {
				return err
			}
		}
		at += int64(n)
		t.meter.transferred.Add(int64(n))
		if counted {
			t.meter.addDone(0, int64(n))
		}
		if read != nil {
			return errors.Join(&connectionError{read}, f.Truncate(at))
		}
	}
	return f.Truncate(j.Size)
}

// zeros is a block of a hole.
var zeros [bufferSize]byte

// verifyAll compares everything with the manifest, checksums included. It sets the metadata of folders, since folders do not change any more.
func (t *target) verifyAll(ctx context.Context) error {
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for e, err := range t.requestManifest(within, "?"+verifyKey) {
		if err != nil {
			return cmp.Or(group.Wait(), err) // the former has ended the latter
		}
		group.Go(func() error {
			if err := t.verifyEntry(within, e); err != nil {
				return fmt.Errorf("%q: %w", e.Path, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// verifyEntry compares a file with its entry. Wrong content is fetched once more: a part of an interrupted copy may not have been written.
func (t *target) verifyEntry(ctx context.Context, e *entry) error {
	if e.Mode.IsDir() {
		if err := setMetadata(t.root, e); err != nil {
			return err
		}
	}
	if !e.hasContent() {
		t.meter.addDone(1, 0)
		return sameMetadata(t.root, e)
	}
	same, err := t.hasSum(ctx, e)
	if err != nil {
		return err
	}
	if !same {
		if err := t.truncateFile(e); err != nil {
			return err
		}
		if err := t.fetchBatch(ctx, []job{{e, 0}}, false); err != nil {
			return err
		}
		if same, err = t.hasSum(ctx, e); err != nil {
			return err
		}
		if !same {
			return errors.New("the content does not have the checksum of the source")
		}
	} else if sameMetadata(t.root, e) != nil { // the source changed them between two attempts
		if err := setMetadata(t.root, e); err != nil {
			return err
		}
	}
	t.meter.addDone(1, e.Size)
	return sameMetadata(t.root, e)
}

func (t *target) truncateFile(e *entry) error {
	f, err := openFile(t.root, string(e.Path), os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return err
	}
	return f.Close()
}

// hasSum reports whether the content of a file has the checksum of its entry.
func (t *target) hasSum(ctx context.Context, e *entry) (bool, error) {
	f, err := openFile(t.root, string(e.Path), os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	sum, buffer := sha256.New(), make([]byte, min(bufferSize, e.Size+1))
	if _, err := io.CopyBuffer(onlyWriter{sum}, io.LimitReader(&endingReader{ctx, f}, e.Size+1), buffer); err != nil {
		return false, err
	}
	return bytes.Equal(sum.Sum(nil), e.Sum), nil
}

// endingReader is a reader that ends with its context.
type endingReader struct {
	ctx context.Context
	io.Reader
}

func (r *endingReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// pruner removes from a volume all files that are missing in the manifest. Both are walked in the same order.
type pruner struct {
	root    *os.Root
	next    func() (node, error, bool)
	stop    func()
	current string // the path that was not compared yet, "" for none
}

func newPruner(root *os.Root) *pruner {
	p := &pruner{root: root}
	p.next, p.stop = iter.Pull2(walkTree(root))
	return p
}

// removeBefore removes all that comes before a path of the manifest, or all that is left if path is "".
func (p *pruner) removeBefore(path string) error {
	for {
		if p.current == "" {
			n, err, more := p.next()
			if err != nil || !more {
				return err
			}
			p.current = n.path
		}
		if path != "" {
			if order := comparePaths(p.current, path); order > 0 {
				return nil
			} else if order == 0 {
				p.current = ""
				return nil
			}
		}
		if err := p.root.RemoveAll(p.current); err != nil {
			return fmt.Errorf("removing %q: %w", p.current, err)
		}
		p.current = ""
	}
}
