// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"liqo.io/liqo/internal/mover"
	"liqo.io/liqo/internal/testkit"
)

func TestMoverCommand(t *testing.T) {
	from, to, keys := t.TempDir(), t.TempDir(), [2]string{t.TempDir(), t.TempDir()}
	one, other, err := mover.NewKeys(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for i, data := range []map[string][]byte{one, other} {
		for name, content := range data {
			err = errors.Join(err, os.WriteFile(filepath.Join(keys[i], name), content, 0o600))
		}
	}
	if err := errors.Join(err, os.WriteFile(filepath.Join(from, "file"), []byte("content"), 0o600)); err != nil {
		t.Fatal(err)
	}
	at := net.JoinHostPort("127.0.0.1", fmt.Sprint(testkit.Port(t)))
	serving, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Command([]string{"liqo", "mover", "source", "--volume", from, "--keys", keys[0], "--listen", at}).ExecuteContext(serving)
	}()
	file := filepath.Join(t.TempDir(), "termination-log")
	if err := Command([]string{"liqo", "mover", "target", "--volume", to, "--keys", keys[1], "--connect", at, "--limit", "1Mi", "--result", file}).ExecuteContext(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("serving: %v", err)
	}
	message, err := os.ReadFile(file)
	var end mover.Progress
	if err := errors.Join(err, json.Unmarshal(message, &end)); err != nil || end.Phase != mover.Done || end.Bytes != 7 || end.Files != 2 {
		t.Errorf("the result is %s, %v", message, err)
	}
	if content, err := os.ReadFile(filepath.Join(to, "file")); err != nil || string(content) != "content" {
		t.Errorf("the copy is %q, %v", content, err)
	}
	for _, args := range [][]string{{"source", "--volume", "/nowhere"}, {"target", "--limit", "much"}, {"source", "--volume", from}, {"target", "--volume", to, "--keys", keys[0]}} {
		cmd := Command(append([]string{"liqo", "mover"}, args...))
		cmd.SetErr(&bytes.Buffer{})
		if cmd.ExecuteContext(t.Context()) == nil {
			t.Errorf("%v does not fail", args)
		}
	}
}
