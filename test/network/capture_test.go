// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"liqo.io/liqo/test/story"
)

// capture records what passes between nodes, and returns a function that ends it and has the frames.
func capture(t *testing.T) func() [][]byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "world.pcap")
	cmd := exec.Command(story.Program(), "capture", file)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // of the thread that starts it, which therefore waits for it
	started, ended := make(chan error), make(chan struct{})
	var failed error
	go func() {
		runtime.LockOSThread()
		defer close(ended)
		err := cmd.Start()
		if started <- err; err == nil {
			failed = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	end := func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
	}
	t.Cleanup(end)
	read := func() []byte {
		data, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return data
	}
	for start := time.Now(); len(read()) == 0; time.Sleep(20 * time.Millisecond) { // the head is written once it listens
		if time.Since(start) > 10*time.Second {
			t.Fatal("nothing is captured")
		}
	}
	return func() [][]byte {
		end()
		if failed != nil {
			t.Fatalf("not all is captured: %v", failed)
		}
		return frames(read())
	}
}

// frames are those of a file of packets.
func frames(pcap []byte) [][]byte {
	const fileHead, frameHead = 24, 16
	var out [][]byte
	for rest := pcap[min(fileHead, len(pcap)):]; len(rest) >= frameHead; {
		size := frameHead + int(binary.LittleEndian.Uint32(rest[8:]))
		if size > len(rest) {
			break
		}
		out = append(out, rest[frameHead:size])
		rest = rest[size:]
	}
	return out
}

// inSecret fails if what was asked or answered passed between both clusters in clear. Between nodes of one cluster, and with hosts of
// the world, it does; so the capture is known to show it.
func inSecret(t *testing.T, frames [][]byte, sides []testCluster) {
	t.Helper()
	const world = "the world"
	owners := map[[6]byte]string{} // of MACs; all but those of nodes are of the world
	nodes := map[netip.Addr]string{}
	var answers [][]byte
	for _, s := range sides {
		for i, n := range s.nodes {
			nodes[address(t, n)] = s.ID
			answers = append(answers, []byte(s.pods[i].Name+" sees "))
		}
	}
	for _, f := range frames {
		if len(f) >= 34 && binary.BigEndian.Uint16(f[12:]) == 0x0800 {
			if of, ok := nodes[netip.AddrFrom4([4]byte(f[26:30]))]; ok {
				owners[[6]byte(f[6:12])] = of
			}
		}
	}
	passed, clear := map[[2]string]int{}, map[[2]string]int{}
	for _, f := range frames {
		if len(f) < 34 {
			continue
		}
		way := [2]string{cmp.Or(owners[[6]byte(f[6:12])], world), cmp.Or(owners[[6]byte(f[:6])], world)}
		passed[way]++
		requested := bytes.Contains(f, []byte(request))
		if requested && way[1] == world {
			t.Errorf("a frame from %s leaves by the default route with what was asked", way[0])
		}
		if requested || slices.ContainsFunc(answers, func(a []byte) bool { return bytes.Contains(f, a) }) {
			clear[way]++
		}
	}
	t.Logf("%d frames between nodes, %v; in clear %v", len(frames), passed, clear)
	for i, s := range sides {
		peer := sides[1-i].ID
		if passed[[2]string{s.ID, peer}] == 0 || clear[[2]string{s.ID, s.ID}] == 0 || !s.replacesKubeProxy() && clear[[2]string{s.ID, world}] == 0 {
			t.Errorf("the capture of %s has missed something", s.ID)
		}
		if n := clear[[2]string{s.ID, peer}]; n > 0 {
			t.Errorf("%d frames from %s to %s have what was said in clear", n, s.ID, peer)
		}
	}
}
