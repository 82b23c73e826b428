// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"io"
	"net"
	"sync"
	"time"
)

// tunnel is a client connected to the API server.
type tunnel struct {
	client, target net.Conn
	linger         time.Duration
}

// run copies in both directions until both have ended, and closes both connections. Data sent by the client before the response goes first.
func (t tunnel) run(early *bufio.Reader) {
	defer t.close()
	var up sync.WaitGroup
	up.Go(func() {
		if n := early.Buffered(); n > 0 {
			if _, err := io.CopyN(t.target, early, int64(n)); err != nil {
				t.close()
				return
			}
		}
		t.pass(t.target, t.client)
	})
	t.pass(t.client, t.target)
	up.Wait()
}

// pass copies one direction, in the kernel if possible (splice). At the end it half-closes the destination, which has Linger to end, too.
func (t tunnel) pass(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if closer, ok := to.(interface{ CloseWrite() error }); err == nil && ok {
		err = closer.CloseWrite()
	}
	if err != nil {
		t.close()
		return
	}
	end := time.Now().Add(t.linger)
	_, _ = to.SetReadDeadline(end), from.SetWriteDeadline(end)
}

// close may be called more than once.
func (t tunnel) close() { _, _ = t.client.Close(), t.target.Close() }
