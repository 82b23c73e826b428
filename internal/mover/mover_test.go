// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/testkit"
)

// ends are the keys of a move, in folders as Secrets are mounted.
type ends struct{ source, target string }

func newEnds(t *testing.T) ends {
	t.Helper()
	one, other, err := NewKeys(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	e := ends{t.TempDir(), t.TempDir()}
	for dir, data := range map[string]map[string][]byte{e.source: one, e.target: other} {
		for name, content := range data {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return e
}

// serve runs a source until the end of the test.
func serve(t *testing.T, o SourceOptions) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	if o.Link.Listen != "" {
		testkit.Eventually(t, time.Minute, func() error {
			conn, err := net.Dial("tcp", o.Link.Listen)
			if err != nil {
				return err
			}
			return conn.Close()
		})
	}
}

func address(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(testkit.Port(t)))
}

const unlimited = 1 << 40

// move copies a folder to another one over an own link.
func move(t *testing.T, from, to string) (Progress, error) {
	t.Helper()
	keys, at := newEnds(t), address(t)
	serve(t, SourceOptions{Folder: from, Link: Link{Listen: at, Keys: keys.source}})
	return Fetch(t.Context(), TargetOptions{Folder: to, Link: Link{Connect: at, Keys: keys.target}, Limit: unlimited, Pause: 10 * time.Millisecond})
}

func write(t *testing.T, dir, path string, content []byte, mode os.FileMode) {
	t.Helper()
	path = filepath.Join(dir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

func noise(n int) []byte {
	out := make([]byte, n)
	random := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = random.Read(out)
	return out
}

// snapshot describes a folder, a line for each file.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	out, first := map[string]string{}, map[uint64]string{}
	for n, err := range walkTree(root) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := newEntry(n)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%s %d:%d", e.Mode, e.UID, e.GID)
		if e.Mode.Type() != fs.ModeSymlink {
			text += fmt.Sprintf(" %d %v", e.MTime, e.Attributes)
		}
		if e.Mode.IsRegular() {
			content, err := root.ReadFile(n.path)
			if err != nil {
				t.Fatal(err)
			}
			text += fmt.Sprintf(" %d %x", e.Size, sha256.Sum256(content))
			if same, known := first[n.statOf().Ino]; known {
				text += " = " + same
			} else {
				first[n.statOf().Ino] = n.path
			}
		}
		out[n.path] = text + " " + string(e.Target)
	}
	return out
}

func compare(t *testing.T, from, to string) {
	t.Helper()
	if diff := cmp.Diff(snapshot(t, from), snapshot(t, to)); diff != "" {
		t.Errorf("-source +target:\n%s", diff)
	}
}

// must fails the test at the first error.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestMove(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, from, to string){
		"empty": func(*testing.T, string, string) {},
		"files": func(t *testing.T, from, _ string) {
			write(t, from, "a/b/c", noise(5), 0o640)
			write(t, from, "a/empty", nil, 0o400)
			write(t, from, "large", noise(3*cachedSize+17), 0o644)
			write(t, from, "a.b", noise(bufferSize), 0o644)
			must(t, os.Mkdir(filepath.Join(from, "none"), 0o500))
		},
		"names": func(t *testing.T, from, _ string) {
			for _, name := range []string{"ünïcode ✓", "no text \xff\xfe", "line\nbreak", "-rf", " ", "a/..b/...", `back\slash`, strings.Repeat("n", 255)} {
				write(t, from, name, []byte(name), 0o644)
			}
		},
		"permissions": func(t *testing.T, from, _ string) {
			write(t, from, "set/uid", noise(1), 0o755|fs.ModeSetuid)
			write(t, from, "set/gid", noise(1), 0o750|fs.ModeSetgid)
			must(t, os.Chmod(filepath.Join(from, "set"), 0o2775|fs.ModeSetgid|fs.ModeSticky), os.Chmod(from, 0o770|fs.ModeSetgid))
			if os.Getuid() == 0 {
				must(t, os.Chown(filepath.Join(from, "set/uid"), 1000, 2000), os.Chmod(filepath.Join(from, "set/uid"), 0o4755|fs.ModeSetuid),
					os.Chown(from, 0, 3000), os.Chmod(from, 0o770|fs.ModeSetgid))
			}
		},
		"symbolic links": func(t *testing.T, from, _ string) {
			for name, target := range map[string]string{"out": "/etc/passwd", "up": "../../..", "nowhere": "a/b/c", "self": "self", "dir": "."} {
				must(t, os.Symlink(target, filepath.Join(from, name)))
			}
		},
		"hard links": func(t *testing.T, from, _ string) {
			write(t, from, "a/one", noise(100), 0o600)
			must(t, os.Link(filepath.Join(from, "a/one"), filepath.Join(from, "b")), os.Link(filepath.Join(from, "b"), filepath.Join(from, "a/zzz")))
		},
		"special files": func(t *testing.T, from, _ string) {
			must(t, unix.Mkfifo(filepath.Join(from, "pipe"), 0o640), unix.Mknod(filepath.Join(from, "socket"), unix.S_IFSOCK|0o666, 0))
		},
		"attributes": func(t *testing.T, from, to string) {
			write(t, from, "file", nil, 0o600)
			write(t, to, "file", nil, 0o600)
			must(t, unix.Setxattr(filepath.Join(from, "file"), "user.a", []byte{0, 1, 255}, 0), unix.Setxattr(from, "user.dir", nil, 0), unix.Setxattr(filepath.Join(to, "file"), "user.old", nil, 0))
		},
		"extra": func(t *testing.T, from, to string) {
			write(t, from, "b/keep", noise(1), 0o600)
			write(t, to, "a", noise(1), 0o600)
			write(t, to, "b/extra/deep/er", noise(1), 0o600)
			write(t, to, "c/extra", noise(1), 0o600)
			must(t, os.Symlink("/etc", filepath.Join(to, "b/link")))
		},
		"other types": func(t *testing.T, from, to string) {
			write(t, from, "b/keep", noise(10), 0o600)
			write(t, to, "b/keep", noise(10), 0o600)
			write(t, from, "file", noise(1), 0o600)
			write(t, to, "file/was/dir", nil, 0o600)
			write(t, from, "dir/x", noise(1), 0o600)
			write(t, to, "dir", nil, 0o600)
			must(t, os.Symlink("b", filepath.Join(from, "a")))
			write(t, to, "a/keep", nil, 0o600)
			write(t, from, "was-link", noise(3), 0o600)
			must(t, os.Symlink("b/keep", filepath.Join(to, "was-link")), os.Link(filepath.Join(to, "b/keep"), filepath.Join(to, "one-file")))
			write(t, from, "one-file", noise(7), 0o600)
		},
		"sticky": func(t *testing.T, from, to string) {
			must(t, os.Chmod(from, 0o777|fs.ModeSticky), os.Chmod(to, 0o777|fs.ModeSticky))
			write(t, from, "file", noise(5), 0o600)
			write(t, to, "file", noise(50), 0o600)
			if os.Getuid() == 0 {
				must(t, os.Chown(filepath.Join(to, "file"), 1000, 1000))
			}
		},
		"ext4": func(t *testing.T, from, to string) {
			must(t, os.Mkdir(filepath.Join(from, "data"), 0o755))
			write(t, to, "lost+found/stays", nil, 0o600)
			write(t, from, "data/lost+found/moves", nil, 0o600)
		},
		"partial": func(t *testing.T, from, to string) {
			content := noise(4 << 20)
			write(t, from, "good", content, 0o600)
			write(t, to, "good", content[:3<<20], 0o600)
			write(t, from, "wrong", content, 0o600)
			write(t, to, "wrong", content[1:3<<20], 0o600)
			write(t, from, "longer", content[:100], 0o600)
			write(t, to, "longer", content, 0o600)
			write(t, from, "same-size", content, 0o600)
			write(t, to, "same-size", noise(4<<20 + 1)[1:], 0o600)
			now := time.Now()
			must(t, os.Chtimes(filepath.Join(from, "same-size"), now, now), os.Chtimes(filepath.Join(to, "same-size"), now, now))
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			prepare(t, from, to)
			end, err := move(t, from, to)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, from, to)
			if end.Phase != Done || end.Files != end.TotalFiles || end.Bytes != end.TotalBytes {
				t.Errorf("it ends with %+v", end)
			}
			before := snapshot(t, to)
			if _, err := move(t, from, to); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, snapshot(t, to)); diff != "" {
				t.Errorf("the second time changes something:\n%s", diff)
			}
		})
	}
}

func TestMoveReversed(t *testing.T) {
	from, to, keys, at := t.TempDir(), t.TempDir(), newEnds(t), address(t)
	write(t, from, "a", noise(1<<20), 0o600)
	write(t, from, "b/c", noise(10), 0o600)
	serve(t, SourceOptions{Folder: from, Link: Link{Connect: at, Keys: keys.source}})
	if _, err := Fetch(t.Context(), TargetOptions{Folder: to, Link: Link{Listen: at, Keys: keys.target}, Limit: unlimited}); err != nil {
		t.Fatal(err)
	}
	compare(t, from, to)
}

func TestSparse(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	const size = 64 << 20
	f, err := os.Create(filepath.Join(from, "image"))
	must(t, err)
	_, err = f.WriteAt([]byte("middle"), size/2)
	must(t, err, f.Truncate(size), f.Close())
	if _, err := move(t, from, to); err != nil {
		t.Fatal(err)
	}
	compare(t, from, to)
	info, err := os.Stat(filepath.Join(to, "image"))
	must(t, err)
	if used := usedBy(info); used > 1<<20 {
		t.Errorf("a file of holes uses %d bytes", used)
	}
}

// cutter passes on connections, and cuts all of them after some bytes. The next ones have other bytes.
func cutter(t *testing.T, to string, after *atomic.Int64, next int64) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer out.Close()
				go func() { _, _ = io.Copy(out, in) }()
				buffer := make([]byte, 64<<10)
				for {
					n, err := out.Read(buffer)
					if err != nil {
						return
					}
					if after.Add(int64(-n)) < 0 {
						after.Store(next)
						return
					}
					if _, err := in.Write(buffer[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func TestResume(t *testing.T) {
	from, to, keys, at := t.TempDir(), t.TempDir(), newEnds(t), address(t)
	const size = 32 << 20
	write(t, from, "large", noise(size), 0o600)
	for i := range 100 {
		write(t, from, fmt.Sprintf("small/%d", i), noise(i), 0o600)
	}
	serve(t, SourceOptions{Folder: from, Link: Link{Listen: at, Keys: keys.source}})
	var after atomic.Int64
	after.Store(size / 2)
	link := Link{Connect: cutter(t, at, &after, 0), Keys: keys.target}
	_, err := Fetch(t.Context(), TargetOptions{Folder: to, Link: link, Limit: unlimited, Pause: time.Millisecond, Attempts: 3})
	if _, lost := errors.AsType[*connectionError](err); !lost {
		t.Fatalf("a cut connection is %v", err)
	}
	info, err := os.Stat(filepath.Join(to, "large"))
	must(t, err)
	if info.Size() == 0 || info.Size() >= size {
		t.Fatalf("%d bytes of a cut file are there", info.Size())
	}
	after.Store(size) // not enough to begin again
	if _, err := Fetch(t.Context(), TargetOptions{Folder: to, Link: link, Limit: unlimited, Pause: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	compare(t, from, to)
}

func TestReconnect(t *testing.T) {
	from, to, keys, at := t.TempDir(), t.TempDir(), newEnds(t), address(t)
	write(t, from, "large", noise(16<<20), 0o600)
	var after atomic.Int64
	after.Store(4 << 20)
	link := Link{Connect: cutter(t, at, &after, unlimited), Keys: keys.target}
	serve(t, SourceOptions{Folder: from, Link: Link{Listen: at, Keys: keys.source}})
	if _, err := Fetch(t.Context(), TargetOptions{Folder: to, Link: link, Limit: unlimited, Pause: time.Millisecond, Attempts: 3}); err != nil {
		t.Fatal(err)
	}
	compare(t, from, to)
}

func TestIdleSource(t *testing.T) {
	keys := newEnds(t)
	if err := Serve(t.Context(), SourceOptions{Folder: t.TempDir(), Link: Link{Listen: address(t), Keys: keys.source}, Idle: 10 * time.Millisecond}); err != nil {
		t.Error(err)
	}
}

func TestAuthentication(t *testing.T) {
	from, keys, others, at := t.TempDir(), newEnds(t), newEnds(t), address(t)
	write(t, from, "secret", noise(10), 0o600)
	serve(t, SourceOptions{Folder: from, Link: Link{Listen: at, Keys: keys.source}})
	for name, link := range map[string]Link{
		"other move":   {Connect: at, Keys: others.target},
		"source's own": {Connect: at, Keys: keys.source},
	} {
		to := t.TempDir()
		if _, err := Fetch(t.Context(), TargetOptions{Folder: to, Link: link, Limit: unlimited, Pause: time.Millisecond, Attempts: 2}); err == nil {
			t.Errorf("%s: it is served", name)
		}
	}
	conn, err := tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		_, err = fmt.Fprint(conn, "GET /manifest HTTP/1.0\r\n\r\n")
		if answer, read := io.ReadAll(conn); err == nil && (read == nil || len(answer) > 0) {
			t.Errorf("a client without a certificate is answered %q, %v", answer, read)
		}
	}
	for _, link := range []Link{{Keys: keys.source}, {Listen: at, Connect: at, Keys: keys.source}, {Listen: at, Keys: t.TempDir()}} {
		if err := Serve(t.Context(), SourceOptions{Folder: from, Link: link}); err == nil {
			t.Errorf("%+v is a link", link)
		}
	}
}

func TestHostileTarget(t *testing.T) {
	from, outside := t.TempDir(), t.TempDir()
	write(t, outside, "secret", []byte("secret"), 0o600)
	write(t, from, "dir/f", nil, 0o600)
	must(t, os.Symlink(outside, filepath.Join(from, "out")), os.Symlink(filepath.Join(outside, "secret"), filepath.Join(from, "link")), unix.Mkfifo(filepath.Join(from, "pipe"), 0o600))
	keys, at := newEnds(t), address(t)
	serve(t, SourceOptions{Folder: from, Link: Link{Listen: at, Keys: keys.source}})
	next, err := Link{Connect: at, Keys: keys.target}.openConnections(t.Context())
	must(t, err)
	hostile := &http.Client{Transport: &http.Transport{DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return next(ctx) }}}
	defer hostile.CloseIdleConnections()
	for _, path := range []string{"out/secret", "link", "../x", "/etc/passwd", "pipe", "dir", "missing", ""} {
		body, err := json.Marshal([]piece{{[]byte(path), 0, 6}})
		must(t, err)
		response, err := hostile.Post("https://"+serverName+contentsPath, "", bytes.NewReader(body))
		must(t, err)
		text, err := io.ReadAll(response.Body)
		must(t, err, response.Body.Close())
		if response.StatusCode != http.StatusConflict || bytes.Equal(text, []byte("secret")) {
			t.Errorf("%q is answered with %d %s", path, response.StatusCode, text)
		}
	}
}

// hostileSource answers with a manifest of lines, and with content of any length.
func hostileSource(t *testing.T, lines func(w io.Writer)) (Link, string) {
	t.Helper()
	keys, at := newEnds(t), address(t)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	next, err := Link{Listen: at, Keys: keys.source}.openConnections(ctx)
	must(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+manifestPath, func(w http.ResponseWriter, _ *http.Request) { lines(w) })
	mux.HandleFunc("POST "+contentsPath, func(w http.ResponseWriter, _ *http.Request) {
		for content := noise(1 << 20); ; {
			if _, err := w.Write(content); err != nil {
				return
			}
		}
	})
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(&serverListener{ctx: ctx, next: next, slots: make(chan struct{}, 100)}) }()
	t.Cleanup(func() { _ = server.Close() })
	return Link{Connect: at, Keys: keys.target}, t.TempDir()
}

func TestHostileSource(t *testing.T) {
	encode := func(w io.Writer, lines ...line) {
		out := json.NewEncoder(w)
		for _, l := range lines {
			_ = out.Encode(l)
		}
	}
	file := func(path string, size int64) line {
		return line{Entry: &entry{Path: []byte(path), Mode: 0o600, Size: size, Names: 1}}
	}
	dir := line{Entry: &entry{Path: []byte("."), Mode: fs.ModeDir | 0o755}}
	many := line{Totals: &totals{1 << 40, 1 << 50}}
	link := func(path, target string) line {
		return line{Entry: &entry{Path: []byte(path), Mode: fs.ModeSymlink | 0o777, Target: []byte(target)}}
	}
	for name, tc := range map[string]struct {
		lines func(w io.Writer)
		want  string
	}{
		"up":             {func(w io.Writer) { encode(w, many, dir, file("../x", 1)) }, "invalid path"},
		"absolute":       {func(w io.Writer) { encode(w, many, dir, file("/tmp/x", 1)) }, "invalid path"},
		"hidden up":      {func(w io.Writer) { encode(w, many, dir, file("a/../../x", 1)) }, "invalid path"},
		"through a link": {func(w io.Writer) { encode(w, many, dir, link("a", "/tmp"), file("a/x", 1)) }, "escapes"},
		"through two":    {func(w io.Writer) { encode(w, many, dir, link("a", ".."), link("b", "a/a"), file("b/x", 1)) }, "escapes"},
		"hard link out": {func(w io.Writer) {
			encode(w, many, dir, line{Entry: &entry{Path: []byte("a"), SameAs: []byte("../../etc/passwd")}})
		}, "cannot be the same file"},
		"hard link by symbolic": {func(w io.Writer) {
			encode(w, many, dir, link("a", "/etc"), line{Entry: &entry{Path: []byte("b"), SameAs: []byte("a/passwd")}})
		}, "escapes"},
		"device":         {func(w io.Writer) { encode(w, many, dir, line{Entry: &entry{Path: []byte("a"), Mode: fs.ModeDevice}}) }, "cannot be moved"},
		"twice":          {func(w io.Writer) { encode(w, many, dir, file("a", 1), file("a", 1)) }, "does not follow"},
		"order":          {func(w io.Writer) { encode(w, many, dir, file("b", 1), file("a", 1)) }, "does not follow"},
		"negative":       {func(w io.Writer) { encode(w, many, dir, file("a", -1)) }, "size -1"},
		"no totals":      {func(w io.Writer) { encode(w, dir) }, "invalid line"},
		"more than said": {func(w io.Writer) { encode(w, line{Totals: &totals{3, 10}}, dir, file("a", 5), file("b", 6)) }, "more than it announced"},
		"more files":     {func(w io.Writer) { encode(w, line{Totals: &totals{2, 0}}, dir, file("a", 0), file("b", 0)) }, "more than it announced"},
		"attribute": {func(w io.Writer) {
			encode(w, line{Totals: &totals{2, 0}}, dir, line{Entry: &entry{Path: []byte("a"), Mode: 0o600, Names: 1, Attributes: map[string][]byte{"security.capability": {1}}}})
		}, "not one to move"},
		"endless line": {func(w io.Writer) { _, _ = io.Copy(w, endless{}) }, "too long"},
		"endless files": {func(w io.Writer) {
			encode(w, many, dir)
			for i := 0; ; i++ {
				if err := json.NewEncoder(w).Encode(file(fmt.Sprintf("%09d", i), 0)); err != nil {
					return
				}
			}
		}, "larger than the volume"},
		"larger than volume": {func(w io.Writer) { encode(w, line{Totals: &totals{2, 1 << 45}}, dir, file("a", 1<<45)) }, "larger than the volume"},
		"error":              {func(w io.Writer) { encode(w, line{Error: "the disk is broken"}) }, "the source: the disk is broken"},
		"no manifest":        {func(w io.Writer) { w.(http.ResponseWriter).WriteHeader(http.StatusTeapot) }, "the source"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			link, to := hostileSource(t, tc.lines)
			_, err := Fetch(t.Context(), TargetOptions{Folder: to, Link: link, Limit: 4 << 20, Pause: time.Millisecond, Attempts: 2})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("it fails with %v, want %q", err, tc.want)
			}
		})
	}
}

// endless is a line without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, zerosAsText), nil }

var zerosAsText = strings.Repeat("0", 1<<16)

func TestManyFiles(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	const files = 20_000
	root, err := os.OpenRoot(from)
	must(t, err)
	defer root.Close()
	for i := range files {
		if i%1000 == 0 {
			must(t, root.Mkdir(fmt.Sprint(i/1000), 0o755))
		}
		must(t, root.WriteFile(fmt.Sprintf("%d/%d", i/1000, i), []byte{byte(i)}, 0o600))
	}
	most := atomic.Uint64{}
	measured, end := make(chan struct{}), make(chan struct{})
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	go func() {
		defer close(measured)
		ticks := time.NewTicker(50 * time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-end:
				return
			case <-ticks.C:
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				most.Store(max(most.Load(), now.HeapInuse))
			}
		}
	}()
	progress, err := move(t, from, to)
	close(end)
	<-measured
	if err != nil {
		t.Fatal(err)
	}
	if progress.Files != files+files/1000+1 {
		t.Errorf("%d files were moved", progress.Files)
	}
	// Both ends run in this process.
	if used := int64(most.Load()) - int64(before.HeapInuse); used > 48<<20 {
		t.Errorf("%d files take %d MiB of memory", files, used>>20)
	}
}

func TestTimeLeft(t *testing.T) {
	if left := (Progress{Bytes: 10, TotalBytes: 110, Rate: 10}).TimeLeft(); left != 10*time.Second {
		t.Errorf("100 bytes with 10 per second take %s", left)
	}
	if left := (Progress{TotalBytes: 1}).TimeLeft(); left != 0 {
		t.Errorf("without a rate %s are left", left)
	}
}
