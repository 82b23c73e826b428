// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package supervise keeps programs running, as the first process of a node or of a control plane.
package supervise

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"liqo.io/liqo/playground/internal/home"
)

// Unit is a program to keep running.
type Unit struct {
	Name string   `json:"name"`
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"`
	// Gate is a file: the program runs only while the file exists. The command fail removes the file.
	Gate string `json:"gate,omitempty"`
}

// Save writes units where the supervisor reads them.
func Save(folder string, units []Unit) error {
	data, err := json.MarshalIndent(units, "", "  ")
	if err != nil {
		return fmt.Errorf("writing units: %w", err)
	}
	return home.Write(filepath.Join(folder, "units.json"), data, 0o644)
}

// Load reads what Save wrote.
func Load(folder string) ([]Unit, error) {
	data, err := os.ReadFile(filepath.Join(folder, "units.json"))
	if err != nil {
		return nil, fmt.Errorf("reading units: %w", err)
	}
	var units []Unit
	if err := json.Unmarshal(data, &units); err != nil {
		return nil, fmt.Errorf("reading units of %s: %w", folder, err)
	}
	return units, nil
}

const (
	gateInterval = 100 * time.Millisecond // between two checks of the gates
	restartDelay = time.Second            // between the end of a program and its restart
)

// Run keeps the units running until it receives a signal; logs are in folder/log. One goroutine starts, stops and reaps children, so that
// no child ends before its pid is recorded.
func Run(folder string, units []Unit) error {
	runtime.LockOSThread() // children receive Pdeathsig when the thread that started them ends
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGINT)
	s := &supervisor{logs: filepath.Join(folder, "log"), programs: make([]program, len(units))}
	for i, u := range units {
		s.programs[i].Unit = u
	}
	if err := os.MkdirAll(s.logs, 0o755); err != nil {
		return fmt.Errorf("creating the log folder: %w", err)
	}
	ticker := time.NewTicker(gateInterval)
	for {
		s.reapChildren()
		s.startAndStop(time.Now())
		select {
		case <-ticker.C:
		case sig := <-signals:
			if sig != syscall.SIGCHLD {
				return nil // the kernel kills the children
			}
		}
	}
}

type supervisor struct {
	logs     string
	programs []program
}

type program struct {
	Unit
	pid  int
	next time.Time // earliest restart
}

func (s *supervisor) reapChildren() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err != nil || pid <= 0 {
			return
		}
		for i := range s.programs {
			if p := &s.programs[i]; p.pid == pid {
				log.Printf("%s ended: exit %d signal %d", p.Name, status.ExitStatus(), status.Signal())
				p.pid, p.next = 0, time.Now().Add(restartDelay)
			}
		}
	}
}

func (s *supervisor) startAndStop(now time.Time) {
	for i := range s.programs {
		p := &s.programs[i]
		open := isGateOpen(p.Gate)
		switch {
		case p.pid == 0 && open && now.After(p.next):
			if err := s.startProgram(p); err != nil {
				log.Printf("%s: %v", p.Name, err)
				p.next = now.Add(restartDelay)
			}
		case p.pid != 0 && !open:
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // the child is not reaped yet, so its number is not reused
		}
	}
}

func isGateOpen(gate string) bool {
	if gate == "" {
		return true
	}
	_, err := os.Stat(gate)
	return err == nil
}

func (s *supervisor) startProgram(p *program) error {
	path, err := exec.LookPath(p.Argv[0])
	if err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	out, err := os.OpenFile(filepath.Join(s.logs, p.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	p.pid, err = syscall.ForkExec(path, p.Argv, &syscall.ProcAttr{
		Env:   append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/root"}, p.Env...), // no proxies, no credentials
		Files: []uintptr{null.Fd(), out.Fd(), out.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		p.pid = 0
		return fmt.Errorf("starting the program: %w", err)
	}
	log.Printf("%s started: pid %d", p.Name, p.pid)
	return nil
}
