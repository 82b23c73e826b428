// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// browser is a headless Chromium with one page. Requests and answers are JSON that ends with a zero byte, on file descriptors 3 and 4.
type browser struct {
	to      *os.File
	session string
	answers chan answer

	mu     sync.Mutex
	last   int
	errors []string // of the page
}

type answer struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// newBrowser starts Chromium, which is a package of Debian.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v: install the Debian package chromium", err)
	}
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	profile, err := os.MkdirTemp("", "chromium-") // processes of the browser may outlive it for a moment
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+profile, "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{in, out}
	cmd.Cancel = func() error { return to.Close() } // the browser ends with its pipe
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	b := &browser{to: to, answers: make(chan answer, 1)}
	t.Cleanup(func() {
		_ = to.Close()
		_ = cmd.Wait()
		_ = os.RemoveAll(profile)
	})
	go b.readAnswers(bufio.NewReader(from))
	var target struct{ TargetID string }
	b.call(t, "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call(t, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(t, domain+".enable", nil, nil)
	}
	return b
}

// readAnswers keeps answers for call, and errors of the page.
func (b *browser) readAnswers(from *bufio.Reader) {
	defer close(b.answers)
	for {
		data, err := from.ReadBytes(0)
		if err != nil {
			return
		}
		var a answer
		if json.Unmarshal(data[:len(data)-1], &a) != nil {
			continue
		}
		if a.ID > 0 {
			b.answers <- a
			continue
		}
		if a.Method == "Runtime.exceptionThrown" || a.Method == "Log.entryAdded" && strings.Contains(string(a.Params), `"level":"error"`) {
			b.mu.Lock()
			b.errors = append(b.errors, string(a.Params))
			b.mu.Unlock()
		}
	}
}

// call calls a method of the DevTools protocol.
func (b *browser) call(t *testing.T, method string, params, result any) {
	t.Helper()
	b.last++
	request := map[string]any{"id": b.last, "method": method}
	if params != nil {
		request["params"] = params
	}
	if b.session != "" {
		request["sessionId"] = b.session
	}
	data, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.to.Write(append(data, 0)); err != nil {
		t.Fatal(err)
	}
	limit, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // longer than wait
	defer cancel()
	select {
	case a, running := <-b.answers:
		if !running || a.ID != b.last || a.Error != nil {
			t.Fatalf("%s: %+v", method, a)
		}
		if result != nil {
			if err := json.Unmarshal(a.Result, result); err != nil {
				t.Fatal(err)
			}
		}
	case <-limit.Done():
		t.Fatalf("%s: no answer", method)
	}
}

// evaluate returns the value of an expression in the page.
func (b *browser) evaluate(t *testing.T, expression string) any {
	t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails any
	}
	b.call(t, "Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		t.Fatalf("%s: %v", expression, r.ExceptionDetails)
	}
	return r.Result.Value
}

// wait waits until an expression is true in the page.
func (b *browser) wait(t *testing.T, expression string) {
	t.Helper()
	const limit = 180_000
	got := b.evaluate(t, fmt.Sprintf(`new Promise((end) => { const begin = performance.now(); (function look() {
		let is; try { is = %s } catch {}
		is || performance.now() - begin > %d ? end(!!is) : setTimeout(look, 50); })() })`, expression, limit))
	if got != true {
		t.Fatalf("not so: %s; the page reads\n%v\n%v", expression, b.evaluate(t, "document.body.innerText.slice(0, 2000)"), b.pageErrors())
	}
}

// pageErrors returns the exceptions of scripts, and what the browser refused.
func (b *browser) pageErrors() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.errors
}

// open opens a page in a theme, light or dark.
func (b *browser) open(t *testing.T, url, theme string) {
	t.Helper()
	b.resize(t, 860)
	b.setTheme(t, theme)
	b.call(t, "Page.navigate", map[string]any{"url": url}, nil)
}

func (b *browser) resize(t *testing.T, height int) {
	t.Helper()
	b.call(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": 1240, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
}

func (b *browser) setTheme(t *testing.T, theme string) {
	t.Helper()
	b.call(t, "Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": theme}}}, nil)
}

// press presses a key.
func (b *browser) press(t *testing.T, key string, code int) {
	t.Helper()
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		b.call(t, "Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}, nil)
	}
}

// screenshot returns the visible part of the page as a PNG.
func (b *browser) screenshot(t *testing.T) []byte {
	t.Helper()
	var r struct{ Data string }
	b.call(t, "Page.captureScreenshot", map[string]any{"format": "png", "optimizeForSpeed": false}, &r)
	data, err := base64.StdEncoding.DecodeString(r.Data)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
