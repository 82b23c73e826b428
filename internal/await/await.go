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
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
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
	w := &waiting{what: what, since: time.Now()}
	return w.until(ctx, func(within context.Context) error { return w.watch(within, c, check) })
}

// Object is Until of what one object is. It is read once into obj, and again only where its watch was lost: the watch tells what
// became of it since. check is told whether it is there; obj keeps what it was last.
func Object(ctx context.Context, c client.WithWatch, obj client.Object, list client.ObjectList, check func(ctx context.Context, there bool) error) error {
	w := &waiting{what: []Watched{One(list, client.ObjectKeyFromObject(obj))}, since: time.Now()}
	return w.until(ctx, func(within context.Context) error { return w.follow(within, c, obj, check) })
}

func (w *waiting) until(ctx context.Context, once func(context.Context) error) error {
	for {
		within, cancel := context.WithCancel(context.WithValue(ctx, again{}, true))
		err := once(within)
		cancel()
		switch {
		case err == nil:
			return nil
		case err == errForgotten && !w.forgotten:
			w.forgotten = true
			continue
		case ctx.Err() != nil:
			return w.overdue(ctx)
		case err != errWatchEnded && err != errForgotten && !Transient(err):
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
	what  []Watched
	since time.Time
	// forgotten says that the API server does not remember changes since what is waited for was read.
	forgotten bool
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
func (w *waiting) watch(ctx context.Context, c client.WithWatch, check func(context.Context) error) error {
	// The watches come first: what changes after the check is seen by them.
	changed, ended := make(chan struct{}, 1), make(chan struct{}, len(w.what))
	for _, one := range w.what {
		events, err := c.Watch(ctx, one.List, one.Opts...)
		if err != nil {
			return w.heard(ctx, fmt.Errorf("watching: %w", err))
		}
		defer events.Stop()
		go forward(events, changed, ended)
	}
	for {
		err := w.heard(ctx, check(ctx))
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

// follow reads an object, and watches what becomes of it from there on. Where the API server does not remember so far back, it watches first:
// that tells what there is, maybe as it was before it was read.
func (w *waiting) follow(ctx context.Context, c client.WithWatch, obj client.Object, check func(context.Context, bool) error) error {
	var events watch.Interface
	begin := func(from string) (err error) {
		options := append(slices.Clone(w.what[0].Opts), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: from}})
		if events, err = c.Watch(ctx, w.what[0].List, options...); err != nil {
			return w.heard(ctx, fmt.Errorf("watching: %w", err))
		}
		return nil
	}
	if w.forgotten {
		if err := begin(""); err != nil {
			return err
		}
		defer events.Stop()
	}
	there, err := read(ctx, c, obj)
	if err != nil {
		return w.heard(ctx, err)
	}
	from := ""
	if there {
		from = obj.GetResourceVersion()
	}
	for {
		err := w.heard(ctx, check(ctx, there))
		if _, waits := errors.AsType[Pending](err); !waits {
			return err
		}
		if events == nil {
			if err := begin(from); err != nil {
				return err
			}
			defer events.Stop()
		}
		if there, err = next(ctx, events, obj, from); err != nil {
			return err
		}
	}
}

// read reads an object anew, and tells whether it is there: what is read into another one stays there where this has nothing.
func read(ctx context.Context, c client.Client, obj client.Object) (there bool, err error) {
	now := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	now.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(obj), now); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	become(obj, now)
	return true, nil
}

// next waits for an event of an object that is younger than a version, puts what it became into obj, and tells whether it is there.
func next(ctx context.Context, events watch.Interface, obj client.Object, than string) (there bool, err error) {
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case e, goes := <-events.ResultChan():
			switch {
			case goes && e.Type == watch.Error && isForgotten(e.Object):
				return false, errForgotten
			case !goes, e.Type == watch.Error: // whatever the error is, a new watch finds out whether it lasts
				return false, errWatchEnded
			case e.Type == watch.Bookmark, !isNews(e, than):
				continue
			}
			become(obj, e.Object)
			return e.Type != watch.Deleted, nil
		}
	}
}

// isForgotten tells that a watch cannot begin where it was asked to.
func isForgotten(status runtime.Object) bool {
	err := apierrors.FromObject(status)
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// isNews tells whether an event is of what an object became after a version, "" for none.
func isNews(e watch.Event, version string) bool {
	if version == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(e.Object.(client.Object).GetResourceVersion(), version)
	return err != nil || order > 0 || order == 0 && e.Type == watch.Deleted
}

// become has an object be another one of its type. What a watch tells has no kind, where the type of Go does not say it.
func become(obj client.Object, now runtime.Object) {
	kind := obj.GetObjectKind().GroupVersionKind()
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(now).Elem())
	obj.GetObjectKind().SetGroupVersionKind(kind)
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
	errForgotten  = errors.New("the watch cannot begin so early")
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
