// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package await waits for what others do in a cluster, through troubles of its API server.
package await

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Watched is what may change what a wait is for.
type Watched struct {
	List client.ObjectList
	Opts []client.ListOption
}

// One is a single object.
func One(list client.ObjectList, key client.ObjectKey) Watched {
	return Watched{list, []client.ListOption{client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name}}}
}

// String says what it is in words: "Connection tenant/gw-milan", "Pods in tenant".
func (w Watched) String() string {
	kind, o := KindOf(w.List), (&client.ListOptions{}).ApplyOptions(w.Opts)
	if o.FieldSelector != nil {
		if name, one := o.FieldSelector.RequiresExactMatch("metadata.name"); one {
			return kind + " " + strings.TrimPrefix(o.Namespace+"/"+name, "/")
		}
	}
	if o.Namespace != "" {
		return kind + "s in " + o.Namespace
	}
	return kind + "s"
}

// KindOf is the kind of the objects of a list.
func KindOf(list client.ObjectList) string {
	if kind := list.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return strings.TrimSuffix(kind, "List")
	}
	name := fmt.Sprintf("%T", list)
	return strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "List")
}

// Pending is what a wait is still for, in words.
type Pending string

func (p Pending) Error() string { return string(p) }

// tellKey is that of who is told, in a context.
type tellKey struct{}

// Telling returns a context with whose waits tell is called: with what they are still for, whenever somebody looked.
func Telling(ctx context.Context, tell func(missing string)) context.Context {
	return context.WithValue(ctx, tellKey{}, tell)
}

// retryDelay is between two attempts while the API server does not answer, and before a watch that ended is made anew.
const retryDelay = time.Second

// Until calls check until it returns nil: now, and whenever something of what is watched changes. It goes on while check returns a
// Pending, or the API server does not answer; any other error ends it. At the end of ctx what was missing last is why, after how long.
func Until(ctx context.Context, c client.WithWatch, check func(context.Context) error, what ...Watched) error {
	w := &waiting{check: check, what: what, since: time.Now()}
	for {
		err := w.watch(ctx, c)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return w.overdue(ctx)
		case err != errWatchEnded && !Transient(err):
			return err
		}
		select {
		case <-ctx.Done():
			return w.overdue(ctx)
		case <-time.After(retryDelay):
		}
	}
}

// Through calls do until the API server answers it, whatever the answer is. At the end of ctx the last trouble is why, after how long.
// In the check of Until it calls once: there the whole check is tried again.
func Through(ctx context.Context, do func() error) error {
	if ctx.Value(again{}) != nil {
		return do()
	}
	since := time.Now()
	var trouble error
	for {
		err := do()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && errors.Is(err, ctx.Err()): // which is no answer
			if trouble != nil || err == ctx.Err() {
				return fmt.Errorf("%w: %w", cmp.Or(trouble, errSilent), after(since, err))
			}
			return after(since, err) // which says what was asked
		case !Transient(err):
			return err
		}
		trouble = err
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", trouble, after(since, ctx.Err()))
		case <-time.After(retryDelay):
		}
	}
}

// again marks the contexts of checks that are tried again.
type again struct{}

// after says how long something took that did not end well.
func after(since time.Time, err error) error {
	return fmt.Errorf("%w after %s", err, time.Since(since).Round(100*time.Millisecond))
}

// waiting is what a wait knows so far.
type waiting struct {
	check func(context.Context) error
	what  []Watched
	since time.Time
	// missing is what was waited for last, silent why nothing was heard since.
	missing, silent error
}

// overdue says why nothing came of it in time.
func (w *waiting) overdue(ctx context.Context) error {
	why := after(w.since, ctx.Err())
	if w.silent != nil {
		why = fmt.Errorf("%w: %w", w.silent, why)
	}
	if w.missing != nil {
		return fmt.Errorf("%w: %w", w.missing, why)
	}
	return fmt.Errorf("waiting for %s: %w", w.named(), why)
}

// named is what is watched, in words.
func (w *waiting) named() string {
	var all []string
	for _, one := range w.what {
		all = append(all, one.String())
	}
	return strings.Join(all, ", ")
}

// watch returns nil once nothing is missing.
func (w *waiting) watch(ctx context.Context, c client.WithWatch) error {
	within, cancel := context.WithCancel(context.WithValue(ctx, again{}, true))
	defer cancel()
	// The watches come first: what changes after the check is seen by them.
	changed, ended := make(chan struct{}, 1), make(chan struct{}, len(w.what))
	for _, one := range w.what {
		events, err := c.Watch(within, one.List, one.Opts...)
		if err != nil {
			return w.heard(ctx, fmt.Errorf("watching: %w", err))
		}
		defer events.Stop()
		go forward(events, changed, ended)
	}
	for {
		err := w.heard(ctx, w.check(within))
		if _, waits := errors.AsType[Pending](err); !waits {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return errWatchEnded
		case <-changed:
		}
	}
}

// heard keeps what an answer says, for the end. That ctx ended meanwhile says nothing.
func (w *waiting) heard(ctx context.Context, err error) error {
	if pending, waits := errors.AsType[Pending](err); waits {
		w.missing, w.silent = err, nil
		if tell, listens := ctx.Value(tellKey{}).(func(string)); listens {
			tell(string(pending))
		}
	} else if ctx.Err() == nil {
		w.silent = err
	}
	return err
}

// Transient tells of an error that the next attempt may not meet: the API server has troubles of its own, or was not reached.
// One that was reached and cannot be trusted is met again, though its error is one of the network, too.
func Transient(err error) bool {
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return false
	}
	if status, answered := errors.AsType[*apierrors.StatusError](err); answered {
		return status.ErrStatus.Code >= http.StatusInternalServerError || status.ErrStatus.Code == http.StatusTooManyRequests
	}
	_, unreached := errors.AsType[net.Error](err)
	return unreached || errors.Is(err, io.ErrUnexpectedEOF) || err != nil && strings.Contains(err.Error(), brokenOff)
}

// brokenOff is how client-go says that an answer broke off, whose error has no type of its own: by the end of its connection, or of
// its stream.
const brokenOff = "when reading response body"

var (
	errWatchEnded = errors.New("the watch ended")
	errSilent     = errors.New("the API server does not answer")
)

// forward tells that there were events, and of the end of the watch. Events that nobody looked at yet are one.
func forward(events watch.Interface, changed, ended chan<- struct{}) {
	for e := range events.ResultChan() {
		// Whatever the error is, a new watch and its check find out whether it lasts.
		if e.Type == watch.Error {
			break
		}
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	ended <- struct{}{}
}
