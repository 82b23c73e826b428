// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watched is what may change what a wait is for.
type watched struct {
	list client.ObjectList
	opts []client.ListOption
}

// watchedOne is a single object.
func watchedOne(list client.ObjectList, key client.ObjectKey) watched {
	return watched{list, []client.ListOption{client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name}}}
}

// pending is what a wait is still for, in words.
type pending string

func (p pending) Error() string { return string(p) }

// retryDelay is between two attempts while the API server does not answer, and before a watch that ended is made anew.
const retryDelay = time.Second

// await calls check until it returns nil: now, and whenever something of what is watched changes. It goes on while check returns a
// pending, or the API server does not answer; any other error ends it. At the end of ctx what was missing last is why.
func await(ctx context.Context, kube client.WithWatch, check func(context.Context) error, what ...watched) error {
	w := &waiting{check: check, what: what}
	for {
		err := w.watch(ctx, kube)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return w.overdue(ctx)
		case err != errWatchEnded && !transient(err):
			return err
		}
		select {
		case <-ctx.Done():
			return w.overdue(ctx)
		case <-time.After(retryDelay):
		}
	}
}

// waiting is what an await knows so far.
type waiting struct {
	check func(context.Context) error
	what  []watched
	// missing is what was waited for last, silent why nothing was heard since.
	missing, silent error
}

// overdue says why nothing came of it in time.
func (w *waiting) overdue(ctx context.Context) error {
	why := ctx.Err()
	if w.silent != nil {
		why = fmt.Errorf("%w: %w", w.silent, why)
	}
	if w.missing != nil {
		why = fmt.Errorf("%w: %w", w.missing, why)
	}
	return why
}

// watch returns nil once nothing is missing.
func (w *waiting) watch(ctx context.Context, kube client.WithWatch) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	// The watches come first: what changes after the check is seen by them.
	changes := make(chan error)
	for _, one := range w.what {
		events, err := kube.Watch(within, one.list, one.opts...)
		if err != nil {
			return w.heard(ctx, fmt.Errorf("watching: %w", err))
		}
		defer events.Stop()
		go forward(within, events, changes)
	}
	for {
		err := w.heard(ctx, w.check(ctx))
		if _, waits := errors.AsType[pending](err); !waits {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-changes:
			if err != nil {
				return err
			}
		}
	}
}

// heard keeps what an answer says, for the end. That ctx ended meanwhile says nothing.
func (w *waiting) heard(ctx context.Context, err error) error {
	if _, waits := errors.AsType[pending](err); waits {
		w.missing, w.silent = err, nil
	} else if ctx.Err() == nil {
		w.silent = err
	}
	return err
}

// transient tells of an error that the next attempt may not meet: the API server has troubles of its own, or was not reached.
// One that was reached and cannot be trusted is met again, though its error is one of the network, too.
func transient(err error) bool {
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return false
	}
	if status, answered := errors.AsType[*apierrors.StatusError](err); answered {
		return status.ErrStatus.Code >= http.StatusInternalServerError || status.ErrStatus.Code == http.StatusTooManyRequests
	}
	_, unreached := errors.AsType[net.Error](err)
	return unreached || errors.Is(err, io.ErrUnexpectedEOF)
}

var errWatchEnded = errors.New("the watch ended")

// forward tells of every event, and of the end of the watch.
func forward(ctx context.Context, events watch.Interface, changes chan<- error) {
	tell := func(err error) bool {
		select {
		case changes <- err:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for e := range events.ResultChan() {
		// Whatever the error is, a new watch and its check find out whether it lasts.
		if e.Type == watch.Error || !tell(nil) {
			break
		}
	}
	tell(errWatchEnded)
}
