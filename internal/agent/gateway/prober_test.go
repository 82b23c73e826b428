// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

func TestAPeerThatAsksIsAnsweredAndNoted(t *testing.T) {
	anywhere := netip.MustParseAddrPort("127.0.0.1:0")
	ours, err := bind(anywhere)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := bind(anywhere)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	p := newProber(Options{PingInterval: time.Second}, anywhere.Addr(), anywhere.Addr(), logr.Discard(), func() {})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.listen(ours)
	}()
	defer func() {
		_ = ours.Close()
		<-ended
	}()
	data, err := question("rome", noon, 0)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := theirs.WriteToUDP(data, ours.LocalAddr().(*net.UDPAddr)); err != nil {
		t.Fatal(err)
	}
	if err := theirs.SetReadDeadline(began.Add(patience)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, maxProbe)
	n, err := theirs.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := decodeProbe(buffer[:n]); err != nil || answer.Type != pong {
		t.Errorf("answered %+v, %v", answer, err)
	}
	if p.now().Asked.Before(began) {
		t.Error("the question is not noted")
	}
}
