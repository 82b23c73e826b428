// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"errors"
	"fmt"

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

// await calls check until it returns nil: now, and whenever something of what is watched changes. It goes on only while check
// returns a pending; any other error ends it. At the end of ctx the last pending is why.
func await(ctx context.Context, kube client.WithWatch, check func(context.Context) error, what ...watched) error {
	for {
		closed, err := awaitOnce(ctx, kube, check, what)
		if !closed {
			return err
		}
	}
}

// awaitOnce is await until a watch ends.
func awaitOnce(ctx context.Context, kube client.WithWatch, check func(context.Context) error, what []watched) (closed bool, err error) {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	// The watches come first: what changes after the check is seen by them.
	changes := make(chan error)
	for _, w := range what {
		events, err := kube.Watch(within, w.list, w.opts...)
		if err != nil {
			return false, fmt.Errorf("watching: %w", err)
		}
		defer events.Stop()
		go forward(within, events, changes)
	}
	for {
		err := check(ctx)
		missing, waits := errors.AsType[pending](err)
		if !waits {
			return false, err
		}
		switch err := waitForChange(ctx, changes); {
		case ctx.Err() != nil:
			return false, fmt.Errorf("%w: %w", missing, ctx.Err())
		case err == errWatchEnded:
			return true, nil
		case err != nil:
			return false, err
		}
	}
}

var errWatchEnded = errors.New("the watch ended")

func waitForChange(ctx context.Context, changes <-chan error) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-changes:
		return err
	}
}

// forward tells of every event, and of the end of the watch.
func forward(ctx context.Context, events watch.Interface, changes chan<- error) {
	tell := func(err error) bool {
		select {
		case changes <- err:
			return err == nil
		case <-ctx.Done():
			return false
		}
	}
	for e := range events.ResultChan() {
		var err error
		if e.Type == watch.Error {
			err = apierrors.FromObject(e.Object)
			if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				err = errWatchEnded
			}
		}
		if !tell(err) {
			return
		}
	}
	tell(errWatchEnded)
}
