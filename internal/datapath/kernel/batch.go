// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// batch is an nftables transaction: atomic.
type batch struct {
	messages []message
	sets     uint32
	err      error
}

type message struct {
	kind, flags int
	body        []byte
	what        string // "" for a part of the next message
}

func (b *batch) isEmpty() bool { return len(b.messages) == 0 }

func (b *batch) addError(err error) { b.err = errors.Join(b.err, err) }

// nextSet numbers the anonymous sets, so that rules of the same transaction can refer to them.
func (b *batch) nextSet() uint32 {
	b.sets++
	return b.sets
}

func (b *batch) addMessage(id tableID, kind, flags int, what string, attrs ...[]byte) {
	if what != "" {
		family := "ip"
		if id.family == unix.NFPROTO_IPV6 {
			family = "ip6"
		}
		what = fmt.Sprintf("%s in table %s %s", what, family, id.name)
	}
	b.messages = append(b.messages, message{nftType(kind), flags, joinBytes(encodeGenmsg(id.family), joinBytes(attrs...)), what})
}

// text returns the transaction, one line per part.
func (b *batch) text() string {
	var lines []string
	for _, m := range b.messages {
		if m.what != "" {
			lines = append(lines, m.what)
		}
	}
	return "nft: " + strings.Join(lines, "\n")
}

// encode returns the messages between the begin and end of a batch. Only the last message requests an acknowledgement: errors arrive before.
func (b *batch) encode(firstSequence uint32) []byte {
	begin := []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES} // subsystem in network byte order
	out := messageOf(unix.NFNL_MSG_BATCH_BEGIN, 0, firstSequence, begin)
	for i, m := range b.messages {
		flags := m.flags
		if i == len(b.messages)-1 {
			flags |= unix.NLM_F_ACK
		}
		out = append(out, messageOf(m.kind, flags, firstSequence+uint32(i)+1, m.body)...)
	}
	return append(out, messageOf(unix.NFNL_MSG_BATCH_END, 0, firstSequence+uint32(len(b.messages))+1, begin)...)
}

func messageOf(kind, flags int, sequence uint32, body []byte) []byte {
	out := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+len(body))
	nativeOrder().PutUint32(out, uint32(unix.SizeofNlMsghdr+len(body)))
	nativeOrder().PutUint16(out[4:], uint16(kind))
	nativeOrder().PutUint16(out[6:], uint16(unix.NLM_F_REQUEST|flags))
	nativeOrder().PutUint32(out[8:], sequence)
	return append(out, body...)
}

// commitBatch sends the batch and waits for the result.
func (s sockets) commitBatch(b *batch) error {
	if b.err != nil {
		return b.err
	}
	h := s[unix.NETLINK_NETFILTER]
	h.Socket.Lock()
	defer h.Socket.Unlock()
	messages := uint32(len(b.messages)) + 2
	first := atomic.AddUint32(&h.Seq, messages) - messages + 1
	data := b.encode(first)
	if err := sendAll(h.Socket.GetFd(), data); err != nil {
		return fmt.Errorf("sending %d bytes: %w", len(data), err)
	}
	last := first + uint32(len(b.messages))
	var errs []error
	for {
		msgs, _, err := h.Socket.Receive()
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("waiting for the answer: %w", err))...)
		}
		for _, m := range msgs {
			if m.Header.Type != unix.NLMSG_ERROR || m.Header.Seq < first || m.Header.Seq > last+1 || len(m.Data) < 4 {
				continue
			}
			if errno := -int32(nativeOrder().Uint32(m.Data)); errno != 0 {
				errs = append(errs, b.wrapRefusal(int(m.Header.Seq-first)-1, syscall.Errno(errno)))
			}
			if m.Header.Seq == first || m.Header.Seq == last {
				return errors.Join(errs...)
			}
		}
	}
}

// wrapRefusal names the refused part in the error. Index -1 is the batch as a whole.
func (b *batch) wrapRefusal(index int, err error) error {
	for ; index >= 0 && index < len(b.messages); index++ {
		if what := b.messages[index].what; what != "" {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return fmt.Errorf("the whole transaction: %w", err)
}

// sendAll sends the whole batch as one message; the socket's send buffer must be large enough.
func sendAll(fd int, data []byte) error {
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	err := unix.Sendto(fd, data, 0, to)
	if !errors.Is(err, unix.EMSGSIZE) {
		return err
	}
	for _, option := range []int{unix.SO_SNDBUF, unix.SO_SNDBUFFORCE} { // SO_SNDBUFFORCE needs CAP_NET_ADMIN
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 2*len(data))
	}
	return unix.Sendto(fd, data, 0, to)
}
