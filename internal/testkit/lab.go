// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// lab holds what the clusters of one test binary share: a folder, a certificate authority, etcd, and the thread that
// starts processes.
type lab struct {
	dir       string
	assets    string
	authority *authority
	launch    chan func()
	etcdURL   string

	sync.Mutex // of processes and ports
	processes  []*process
	ports      []heldPort
}

const dirPrefix = "liqo-testkit-"

func newLab() (*lab, error) {
	assets, err := findAssets()
	if err != nil {
		return nil, err
	}
	sweep()
	dir, err := os.MkdirTemp("", dirPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	ca, err := newAuthority(dir)
	if err != nil {
		return nil, fmt.Errorf("making certificates: %w", err)
	}
	l := &lab{dir: dir, assets: assets, authority: ca, launch: make(chan func())}
	go l.launcher()
	if err := l.startEtcd(); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// findAssets returns the folder of the servers' binaries.
func findAssets() (string, error) {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("finding the home directory: %w", err)
		}
		dir = filepath.Join(home, ".cache", "liqo-playground", "bin")
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("%s is not in %s: run `make assets`, or set KUBEBUILDER_ASSETS", name, dir)
		}
	}
	return dir, nil
}

// sweep removes the folders of test binaries that were killed.
func sweep() {
	remaining, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range remaining {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}
}

// launcher starts all processes from one thread that lives as long as the test binary: the kernel kills a process with
// the thread that started it, not with the process.
func (l *lab) launcher() {
	runtime.LockOSThread()
	for start := range l.launch {
		start()
	}
}

func (l *lab) close() {
	for i := len(l.processes) - 1; i >= 0; i-- {
		l.processes[i].kill()
	}
	close(l.launch)
	for _, p := range l.ports {
		p.release()
	}
	_ = os.RemoveAll(l.dir)
}

// port is held until the lab closes.
func (l *lab) port() (int, error) {
	p, err := holdPort()
	if err != nil {
		return 0, err
	}
	l.Lock()
	defer l.Unlock()
	l.ports = append(l.ports, p)
	return p.number, nil
}

func (l *lab) startEtcd() error {
	clients, err := l.port()
	if err != nil {
		return err
	}
	peers, err := l.port()
	if err != nil {
		return err
	}
	l.etcdURL = fmt.Sprintf("http://127.0.0.1:%d", clients)
	peer := fmt.Sprintf("http://127.0.0.1:%d", peers)
	// API servers retry until etcd answers, so nobody waits for it here.
	_, err = l.start("etcd", "etcd",
		"--data-dir="+filepath.Join(l.dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+l.etcdURL, "--advertise-client-urls="+l.etcdURL,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)
	return err
}

// process is a running server.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// start runs a binary of the assets, with its output in a log file.
func (l *lab) start(name, binary string, args ...string) (*process, error) {
	return l.run(name, nil, filepath.Join(l.assets, binary), args...)
}

// run starts a program with more environment than that of the test. Its output is appended to the log of that name.
func (l *lab) run(name string, env []string, path string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(l.dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer out.Close()
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = l.dir, out, out
	p.cmd.Env = append(withoutProxy(os.Environ()), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	l.launch <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	l.Lock()
	defer l.Unlock()
	l.processes = append(l.processes, p)
	return p, nil
}

// withoutProxy returns an environment in which every call is direct: all that the servers have to call is on this machine.
func withoutProxy(env []string) []string {
	return append(slices.DeleteFunc(env, func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasSuffix(strings.ToUpper(name), "_PROXY")
	}), "NO_PROXY=*")
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// alive returns why the process ended, nil while it runs.
func (p *process) alive() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended: %v\n%s", p.name, p.err, tail(p.log))
	default:
		return nil
	}
}

// tail returns the end of a log.
func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	const size = 4096
	if info, err := f.Stat(); err == nil && info.Size() > size {
		_, _ = f.Seek(-size, io.SeekEnd)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
