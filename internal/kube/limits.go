// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"liqo.io/liqo/internal/policy"
)

// Reasons why a limit on data of a peer was exceeded.
const (
	ReasonAnswerTooLarge = "AnswerTooLarge"
	ReasonListTooLarge   = "ListTooLarge"
	ReasonTooManyObjects = "TooManyObjects"
	ReasonTooManyWrites  = "TooManyWrites"
)

// Limits bound how much this process reads from the API server of another cluster.
type Limits struct {
	// Body is the maximum size of a response in bytes.
	Body int64
	// Event is the maximum size of a watch event in bytes.
	Event int64
	// Rate is the rate limit of all responses and watches together, in bytes per second, after a first Burst.
	Rate, Burst int64
}

// DefaultLimits are the limits of a process with one peer.
var DefaultLimits = Limits{Body: 32 << 20, Event: 4 << 20, Rate: 16 << 20, Burst: 256 << 20}

// maxErrorBody is the maximum size that is read of an error response.
const maxErrorBody = 64 << 10

// ErrTooLarge reports that a response of an API server, or the list of objects in it, exceeds the limits.
var ErrTooLarge = errors.New("the answer of the API server is too large")

// LimitResponses returns a transport that enforces the limits on the responses of next, removes terminal control sequences
// from errors, and calls report for too large responses. Too large pages of several objects are not reported, but requested
// again with fewer objects. The transport below must not decompress.
func LimitResponses(next http.RoundTripper, l Limits, report func(reason, message string)) http.RoundTripper {
	return &limitedTransport{next: next, limits: l, report: report, reads: newBucket(l.Rate, l.Burst)}
}

type limitedTransport struct {
	next   http.RoundTripper
	limits Limits
	report func(reason, message string)
	reads  *tokenBucket
}

// WrappedRoundTripper returns the wrapped transport, which client-go needs, for example, to close idle connections.
func (t *limitedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t *limitedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, foreignError{err}
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		resp.Body.Close()
		return nil, fmt.Errorf("the API server answered with an unrequested Content-Encoding %q", policy.CleanLine(encoding, policy.MaxForeignReason))
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, nil
	}
	watches, _ := strconv.ParseBool(req.URL.Query().Get("watch"))
	page, _ := strconv.ParseInt(req.URL.Query().Get("limit"), 10, 64)
	body := &limitedBody{ReadCloser: resp.Body, ctx: req.Context(), transport: t, left: t.limits.Body, what: "an answer", divisible: page > 1 && !watches}
	switch {
	case resp.StatusCode >= http.StatusBadRequest:
		return t.failResponse(resp)
	case watches:
		body.left, body.what, body.events = t.limits.Event, "an event of a watch", &eventScanner{}
	}
	resp.Body = body
	return resp, nil
}

// failResponse replaces the body of an error response by a sanitized one.
func (t *limitedTransport) failResponse(resp *http.Response) (*http.Response, error) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	resp.Body.Close()
	if err != nil {
		return nil, foreignError{err}
	}
	clean, ofType := cleanFailure(text)
	resp.Header.Set("Content-Type", ofType)
	resp.Header.Del("Content-Length")
	resp.Header.Del("Warning")
	resp.ContentLength = int64(len(clean))
	resp.Body = io.NopCloser(bytes.NewReader(clean))
	return resp, nil
}

// cleanFailure returns a sanitized Status as JSON, or a sanitized text.
func cleanFailure(text []byte) (clean []byte, contentType string) {
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	status, ok := obj.(*metav1.Status)
	if err != nil || !ok {
		return []byte(policy.CleanText(string(text), policy.MaxForeignMessage)), "text/plain"
	}
	status.Message = policy.CleanText(status.Message, 4*policy.MaxForeignMessage)
	status.Reason = metav1.StatusReason(policy.CleanLine(string(status.Reason), policy.MaxForeignReason))
	if d := status.Details; d != nil {
		d.Name, d.Kind, d.Group = policy.CleanLine(d.Name, policy.MaxForeignName), policy.CleanLine(d.Kind, policy.MaxForeignName), policy.CleanLine(d.Group, policy.MaxForeignName)
		for i := range d.Causes {
			c := &d.Causes[i]
			c.Message, c.Field = policy.CleanText(c.Message, policy.MaxForeignMessage), policy.CleanLine(c.Field, policy.MaxForeignName)
			c.Type = metav1.CauseType(policy.CleanLine(string(c.Type), policy.MaxForeignReason))
		}
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	clean, err = json.Marshal(status)
	if err != nil {
		return []byte("an error without a message"), "text/plain"
	}
	return clean, runtime.ContentTypeJSON
}

// foreignError is an error with text that may contain data of another cluster, such as the names in a certificate.
type foreignError struct{ error }

func (e foreignError) Error() string {
	return policy.CleanText(e.error.Error(), 4*policy.MaxForeignMessage)
}
func (e foreignError) Unwrap() error { return e.error }

// limitedBody is a response body that fails with ErrTooLarge at the limit.
type limitedBody struct {
	io.ReadCloser
	ctx       context.Context
	transport *limitedTransport
	what      string
	left      int64
	events    *eventScanner // nil for a single response
	divisible bool          // a page of several objects
	failed    error
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.failed != nil {
		return 0, b.failed
	}
	if int64(len(p)) > b.left+1 { // one more byte distinguishes a body of exactly the limit from a longer one
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.events != nil {
		if rest, ended := b.events.scanEvents(p[:n]); ended {
			b.left = b.transport.limits.Event - int64(rest)
		}
	}
	if b.left < 0 {
		b.failed = fmt.Errorf("%s has more than %d bytes: %w", b.what, b.remainingLimit(), ErrTooLarge)
		if !b.divisible {
			b.transport.report(ReasonAnswerTooLarge, b.failed.Error())
		}
		return 0, b.failed
	}
	if waited := b.transport.reads.takeTokens(b.ctx, int64(n)); waited != nil && err == nil {
		err = waited
	}
	return n, err
}

func (b *limitedBody) remainingLimit() int64 {
	if b.events != nil {
		return b.transport.limits.Event
	}
	return b.transport.limits.Body
}

// eventScanner finds the ends of watch events in the raw JSON stream: the decoder reads a whole event into memory,
// however large. A non-JSON stream has no ends, and all of it counts as one event. Protobuf frames carry their
// length, and client-go limits the length, but the peer chooses the encoding.
type eventScanner struct {
	depth           int
	inText, escaped bool
	frame           protobufFrame
	begun, binary   bool
}

// protobufFrame tracks the rest of a frame: a length of four bytes, then as many bytes.
type protobufFrame struct {
	header  [4]byte
	have    int
	missing int64
}

// scanEvents scans the next bytes, and returns whether an event ended in p, and the number of bytes after the last end.
func (s *eventScanner) scanEvents(p []byte) (rest int, ended bool) {
	if !s.begun && len(p) > 0 {
		s.begun, s.binary = true, p[0] == 0 // a frame over 16 MiB begins with another byte, and exceeds the limit anyway
	}
	for i, c := range p {
		done := false
		if s.binary {
			done = s.frame.nextByte(c)
		} else {
			done = s.nextByte(c)
		}
		if done {
			rest, ended = len(p)-i-1, true
		}
	}
	return rest, ended
}

func (s *eventScanner) nextByte(c byte) (done bool) {
	switch {
	case s.escaped:
		s.escaped = false
	case s.inText:
		s.escaped, s.inText = c == '\\', c != '"'
	case c == '"':
		s.inText = true
	case c == '{' || c == '[':
		s.depth++
	case c == '}' || c == ']':
		s.depth--
		return s.depth == 0
	}
	return false
}

func (f *protobufFrame) nextByte(c byte) (done bool) {
	if f.have < len(f.header) {
		f.header[f.have] = c
		f.have++
		f.missing = int64(f.header[0])<<24 | int64(f.header[1])<<16 | int64(f.header[2])<<8 | int64(f.header[3])
		if f.have < len(f.header) || f.missing > 0 {
			return false
		}
		f.have = 0
		return true
	}
	f.missing--
	if f.missing > 0 {
		return false
	}
	f.have = 0
	return true
}

// tokenBucket is a rate limiter of bytes per second.
type tokenBucket struct {
	rate, burst float64
	now         func() time.Time

	mu   sync.Mutex
	left float64
	at   time.Time
}

func newBucket(rate, burst int64) *tokenBucket {
	return &tokenBucket{rate: float64(rate), burst: float64(burst), left: float64(burst), now: time.Now}
}

// reserveTokens takes n tokens, and returns the delay until the bucket has refilled.
func (b *tokenBucket) reserveTokens(n int64) time.Duration {
	if b.rate <= 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if !b.at.IsZero() {
		b.left = min(b.burst, b.left+now.Sub(b.at).Seconds()*b.rate)
	}
	b.at = now
	b.left -= float64(n)
	if b.left >= 0 {
		return 0
	}
	return time.Duration(-b.left / b.rate * float64(time.Second))
}

// takeTokens takes n tokens, and waits until they are available. An error is that of ctx.
func (b *tokenBucket) takeTokens(ctx context.Context, n int64) error {
	return pauseFor(ctx, b.reserveTokens(n))
}

func pauseFor(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
