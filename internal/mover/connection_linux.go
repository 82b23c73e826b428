// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Link is the connection of an end to the other end. Either end may listen. The keys of the listening end admit no one else to the data: others may
// read these keys.
type Link struct {
	// Listen is an address to listen on, Connect the address of the other end. Exactly one is set.
	Listen, Connect string
	// Keys is the folder with the keys of this end.
	Keys string
}

const (
	connectTimeout = 15 * time.Second
	// idleTimeout ends a connection whose other end is gone without a word. A computing source sends empty lines.
	idleTimeout = time.Minute
	// acceptDelay follows an error of accept, such as too many open files.
	acceptDelay = 100 * time.Millisecond
	// parallelHandshakes bounds the resources that unauthenticated clients can occupy.
	parallelHandshakes = 16
)

// keepAlive finds out within half a minute that the other end is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}

// connectFunc returns the next authenticated connection to the other end.
type connectFunc func(context.Context) (net.Conn, error)

// openConnections returns the connections of a link, until ctx ends.
func (l Link) openConnections(ctx context.Context) (connectFunc, error) {
	if (l.Listen == "") == (l.Connect == "") {
		return nil, errors.New("either an address to listen on or one to connect to must be set")
	}
	config, err := loadTLS(l.Keys)
	if err != nil {
		return nil, err
	}
	if l.Connect != "" {
		dialer := &tls.Dialer{NetDialer: &net.Dialer{KeepAliveConfig: keepAlive}, Config: config}
		return func(ctx context.Context) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, connectTimeout)
			defer cancel()
			return dialer.DialContext(ctx, "tcp", l.Connect)
		}, nil
	}
	listener, err := (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen(ctx, "tcp", l.Listen)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	accepted := make(chan net.Conn)
	go acceptAll(ctx, listener, config, accepted)
	return func(ctx context.Context) (net.Conn, error) {
		select {
		case conn := <-accepted:
			return conn, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, nil
}

// acceptAll passes on the authenticated connections, until ctx ends and closes the listener.
func acceptAll(ctx context.Context, listener net.Listener, config *tls.Config, accepted chan<- net.Conn) {
	handshakes := semaphore.NewWeighted(parallelHandshakes)
	for handshakes.Acquire(ctx, 1) == nil {
		raw, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, or the client is gone already
			handshakes.Release(1)
			waitFor(ctx, acceptDelay)
			continue
		}
		go func() {
			conn := tls.Server(raw, config)
			within, cancel := context.WithTimeout(ctx, connectTimeout)
			err := conn.HandshakeContext(within)
			cancel()
			handshakes.Release(1)
			if err != nil {
				_ = raw.Close()
				return
			}
			select {
			case accepted <- conn:
			case <-ctx.Done():
				_ = raw.Close()
			}
		}()
	}
}

// idleConn is a connection that ends if no data arrives for idleTimeout while a read waits.
type idleConn struct{ net.Conn }

// Read reads the data that arrives in time.
func (c *idleConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(idleTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// serverListener lets an HTTP server use the connections of a link. The slots bound their number.
type serverListener struct {
	ctx   context.Context
	next  connectFunc
	slots chan struct{}
	pause time.Duration // between attempts
}

// Accept returns the next connection. It retries until the other end connects.
func (l *serverListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
	for {
		conn, err := l.next(l.ctx)
		if err == nil {
			return &slotConn{Conn: conn, slots: l.slots}, nil
		}
		if !waitFor(l.ctx, l.pause) {
			return nil, net.ErrClosed
		}
	}
}

// waitFor waits, and reports whether ctx still goes on.
func waitFor(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// Close does nothing: the end of the context ends the listener.
func (l *serverListener) Close() error { return nil }

// Addr returns no real address.
func (l *serverListener) Addr() net.Addr { return &net.TCPAddr{} }

// slotConn frees its slot when it is closed.
type slotConn struct {
	net.Conn
	slots chan struct{}
	once  sync.Once
}

// Close closes the connection.
func (c *slotConn) Close() error {
	c.once.Do(func() { <-c.slots })
	return c.Conn.Close()
}
