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

// copyBoth copies in both directions until both have ended, and closes both connections. Data sent by the client before the response goes first.
func (t tunnel) copyBoth(early *bufio.Reader) {
	defer t.closeBoth()
	var up sync.WaitGroup
	up.Go(func() {
		if n := early.Buffered(); n > 0 {
			if _, err := io.CopyN(t.target, early, int64(n)); err != nil {
				t.closeBoth()
				return
			}
		}
		t.copyOneWay(t.target, t.client)
	})
	t.copyOneWay(t.client, t.target)
	up.Wait()
}

// copyOneWay copies one direction, in the kernel if possible (splice). At the end it half-closes the destination, which has Linger to end, too.
func (t tunnel) copyOneWay(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if closer, ok := to.(interface{ CloseWrite() error }); err == nil && ok {
		err = closer.CloseWrite()
	}
	if err != nil {
		t.closeBoth()
		return
	}
	end := time.Now().Add(t.linger)
	_, _ = to.SetReadDeadline(end), from.SetWriteDeadline(end)
}

// closeBoth may be called more than once.
func (t tunnel) closeBoth() { _, _ = t.client.Close(), t.target.Close() }
