// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// This file has the waits for conditions of objects in a cluster: each wait watches, and retries while the API server has transient
// errors.

package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Watched selects the objects whose changes may end a wait.
type Watched struct {
	List client.ObjectList
	Opts []client.ListOption
}

// WatchOne returns the Watched of a single object.
func WatchOne(list client.ObjectList, key client.ObjectKey) Watched {
	return Watched{list, []client.ListOption{client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name}}}
}

// String returns a description for messages: "Connection tenant/gw-milan", "Pods in tenant".
func (w Watched) String() string {
	kind, o := ListKind(w.List), (&client.ListOptions{}).ApplyOptions(w.Opts)
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

// ListKind returns the kind of the objects of a list.
func ListKind(list client.ObjectList) string {
	if kind := list.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return strings.TrimSuffix(kind, "List")
	}
	name := fmt.Sprintf("%T", list)
	return strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "List")
}

// Pending is the error of an unmet condition, and names the missing part.
type Pending string

func (p Pending) Error() string { return string(p) }

// Skipped is the error of a wait skipped by a dry run, with the text of the Pending.
type Skipped string

func (s Skipped) Error() string { return string(s) }

// IsSkipped reports whether an error is of a skipped wait.
func IsSkipped(err error) bool {
	_, skipped := errors.AsType[Skipped](err)
	return skipped
}

// IgnoreSkipped returns nil for the error of a skipped wait.
func IgnoreSkipped(err error) error {
	if IsSkipped(err) {
		return nil
	}
	return err
}

// dryRun is a client of a dry run: waits check once.
type dryRun interface{ SkipsWaits() }

// progressKey is the context key of the progress callback.
type progressKey struct{}

// WithProgress returns a context whose waits call tell with the missing condition after each check. The callback of ctx is called, too.
func WithProgress(ctx context.Context, tell func(missing string)) context.Context {
	inner := tell
	if outer, ok := ctx.Value(progressKey{}).(func(string)); ok {
		tell = func(missing string) {
			outer(missing)
			inner(missing)
		}
	}
	return context.WithValue(ctx, progressKey{}, tell)
}

// retryDelay is the time between two attempts while the API server does not answer, and before an ended watch is restarted.
const retryDelay = time.Second

// WaitUntil calls check now and after each change of the watched objects, until check returns nil. WaitUntil goes on while check returns a
// Pending or the API server does not answer; any other error ends the wait. At the end of ctx the error has the last Pending and the time
// waited. A client of a dry run checks once: a Pending becomes a Skipped.
func WaitUntil(ctx context.Context, c client.WithWatch, check func(context.Context) error, what ...Watched) error {
	if _, skips := c.(dryRun); skips {
		return checkOnce(ctx, check)
	}
	w := &waitState{what: what, since: time.Now()}
	return w.until(ctx, func(within context.Context) error { return w.watch(within, c, check) })
}

// WaitForObject is Until for a single object. The object is read once into obj, and again only after its watch was lost: the events of the
// watch update obj. check gets whether the object exists; after a deletion obj keeps the last state.
func WaitForObject(ctx context.Context, c client.WithWatch, obj client.Object, check func(ctx context.Context, exists bool) error) error {
	if _, skips := c.(dryRun); skips {
		return checkOnce(ctx, func(ctx context.Context) error {
			exists, err := readObject(ctx, c, obj)
			if err != nil {
				return err
			}
			return check(ctx, exists)
		})
	}
	list, err := listFor(c, obj)
	if err != nil {
		return err
	}
	w := &waitState{what: []Watched{WatchOne(list, client.ObjectKeyFromObject(obj))}, since: time.Now()}
	return w.until(ctx, func(within context.Context) error { return w.follow(within, c, obj, check) })
}

// WaitForList is WaitUntil for the objects of one list. The objects are read once into list, and again only after their watch was lost: the
// events of the watch update list, with new objects last.
func WaitForList(ctx context.Context, c client.WithWatch, list client.ObjectList, check func(context.Context) error, opts ...client.ListOption) error {
	if _, skips := c.(dryRun); skips {
		return checkOnce(ctx, func(ctx context.Context) error {
			if err := c.List(ctx, list, opts...); err != nil {
				return err
			}
			return check(ctx)
		})
	}
	w := &waitState{what: []Watched{{list, opts}}, since: time.Now()}
	return w.until(ctx, func(within context.Context) error { return w.followList(within, c, check) })
}

// checkOnce calls check once, and turns a Pending into a Skipped.
func checkOnce(ctx context.Context, check func(context.Context) error) error {
	err := check(ctx)
	if pending, waits := errors.AsType[Pending](err); waits {
		return Skipped(pending)
	}
	return err
}

// WaitForReady is Object for an existing object: its deletion ends the wait.
func WaitForReady[T client.Object](ctx context.Context, c client.WithWatch, obj T, ready func(context.Context, T) error) error {
	return WaitForObject(ctx, c, obj, func(ctx context.Context, exists bool) error {
		if exists {
			return ready(ctx, obj)
		}
		list, err := listFor(c, obj)
		if err != nil {
			return err
		}
		return fmt.Errorf("the %s was deleted while waiting", WatchOne(list, client.ObjectKeyFromObject(obj)))
	})
}

// listFor returns an empty list of the objects of a kind.
func listFor(c client.Client, obj client.Object) (client.ObjectList, error) {
	kind, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return nil, err
	}
	kind.Kind += "List"
	switch obj.(type) {
	case *metav1.PartialObjectMetadata:
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		return list, nil
	case *unstructured.Unstructured:
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		return list, nil
	}
	list, err := c.Scheme().New(kind)
	if err != nil {
		return nil, err
	}
	return list.(client.ObjectList), nil
}

func (w *waitState) until(ctx context.Context, once func(context.Context) error) error {
	for {
		within, cancel := context.WithCancel(context.WithValue(ctx, attemptKey{}, true))
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
		case err != errWatchEnded && err != errForgotten && !IsTransient(err):
			return err
		}
		select {
		case <-ctx.Done():
			return w.overdue(ctx)
		case <-time.After(retryDelay):
		}
	}
}

// RetryTransient retries do until the API server answers, with success or with an error of the request. At the end of ctx the error has the
// last transient error and the time waited. Inside the check of Until it calls do once, because Until retries the whole check.
func RetryTransient(ctx context.Context, do func() error) error {
	if ctx.Value(attemptKey{}) != nil {
		return do()
	}
	since, waits := time.Now(), false
	var trouble error
	policy := Retry{Backoff: wait.Backoff{Duration: retryDelay}, Failed: func(err error) { trouble, waits = err, true }}
	err := policy.Do(ctx, func(context.Context) error {
		waits = false
		return do()
	})
	switch {
	case waits:
		return fmt.Errorf("%w: %w", trouble, timeoutError(since, ctx.Err()))
	case err == nil, ctx.Err() == nil, !errors.Is(err, ctx.Err()):
		return err
	case trouble != nil, err == ctx.Err(): // the timeout is no answer
		return fmt.Errorf("%w: %w", cmp.Or(trouble, errSilent), timeoutError(since, err))
	}
	return timeoutError(since, err) // the error names the request
}

// WrapCalls returns a client whose calls are made by through, except watches, which callers restart whenever they end.
func WrapCalls(c client.WithWatch, through func(ctx context.Context, call func() error) error) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return through(ctx, func() error { return c.Get(ctx, key, obj, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return through(ctx, func() error { return c.List(ctx, list, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return through(ctx, func() error { return c.Create(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return through(ctx, func() error { return c.Delete(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return through(ctx, func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return through(ctx, func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return through(ctx, func() error { return c.Apply(ctx, obj, opts...) })
		},
	})
}

// attemptKey is the context key of checks that are retried as a whole.
type attemptKey struct{}

// timeoutError adds the time waited to an error.
func timeoutError(since time.Time, err error) error {
	return fmt.Errorf("%w after %s", err, time.Since(since).Round(100*time.Millisecond))
}

// waitState is the state of one wait.
type waitState struct {
	what  []Watched
	since time.Time
	// forgotten reports that the API server no longer has the changes since the object was read (resource version expired).
	forgotten bool
	// missing is the last Pending, silent the last transient error.
	missing, silent error
}

// overdue returns the timeout error of a wait: the missing condition or the transient error, and the time waited.
func (w *waitState) overdue(ctx context.Context) error {
	why := timeoutError(w.since, ctx.Err())
	if w.silent != nil {
		why = fmt.Errorf("%w: %w", w.silent, why)
	}
	if w.missing != nil {
		return fmt.Errorf("%w: %w", w.missing, why)
	}
	return fmt.Errorf("waiting for %s: %w", w.named(), why)
}

// named returns the watched objects for messages.
func (w *waitState) named() string {
	var all []string
	for _, one := range w.what {
		all = append(all, one.String())
	}
	return strings.Join(all, ", ")
}

// watch runs the wait on lists. It returns nil once check does.
func (w *waitState) watch(ctx context.Context, c client.WithWatch, check func(context.Context) error) error {
	// The watches start before the check: no change after the check is missed.
	changed, ended := make(chan struct{}, 1), make(chan struct{}, len(w.what))
	for _, one := range w.what {
		events, err := c.Watch(ctx, one.List, one.Opts...)
		if err != nil {
			return w.heard(ctx, fmt.Errorf("watching: %w", err))
		}
		defer events.Stop()
		go forwardEvents(events, changed, ended)
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

// follow reads an object and watches from its resource version. If the API server no longer has this version, the watch starts first:
// the initial events give the current state, possibly older than the read.
func (w *waitState) follow(ctx context.Context, c client.WithWatch, obj client.Object, check func(context.Context, bool) error) error {
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
	exists, err := readObject(ctx, c, obj)
	if err != nil {
		return w.heard(ctx, err)
	}
	from := ""
	if exists {
		from = obj.GetResourceVersion()
	}
	for {
		err := w.heard(ctx, check(ctx, exists))
		if _, waits := errors.AsType[Pending](err); !waits {
			return err
		}
		if events == nil {
			if err := begin(from); err != nil {
				return err
			}
			defer events.Stop()
		}
		if exists, err = nextEvent(ctx, events, obj, from); err != nil {
			return err
		}
	}
}

// followList reads a list and watches from its resource version.
func (w *waitState) followList(ctx context.Context, c client.WithWatch, check func(context.Context) error) error {
	list, opts := w.what[0].List, w.what[0].Opts
	if err := c.List(ctx, list, opts...); err != nil {
		return w.heard(ctx, err)
	}
	items, err := apimeta.ExtractList(list)
	if err != nil {
		return err
	}
	begin := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
	var events watch.Interface
	for {
		err := w.heard(ctx, check(ctx))
		if _, waits := errors.AsType[Pending](err); !waits {
			return err
		}
		if events == nil {
			if events, err = c.Watch(ctx, list, append(slices.Clone(opts), begin)...); err != nil {
				return w.heard(ctx, fmt.Errorf("watching: %w", err))
			}
			defer events.Stop()
		}
		if items, err = nextEvents(ctx, events, items); err != nil {
			return err
		}
		if err := apimeta.SetList(list, items); err != nil {
			return err
		}
	}
}

// nextEvents waits for an event, and applies all available events to the items of a list.
func nextEvents(ctx context.Context, events watch.Interface, items []runtime.Object) ([]runtime.Object, error) {
	for changed := false; ; {
		var e watch.Event
		goes := true
		if changed {
			select {
			case e, goes = <-events.ResultChan():
			default:
				return items, nil
			}
		} else {
			select {
			case e, goes = <-events.ResultChan():
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		switch {
		case goes && e.Type == watch.Error && isForgotten(e.Object):
			return nil, errForgotten
		case !goes, e.Type == watch.Error: // a new watch shows whether the error is permanent
			return nil, errWatchEnded
		case e.Type != watch.Bookmark:
			items, changed = applyEvent(items, e), true
		}
	}
}

// applyEvent returns the items after an event.
func applyEvent(items []runtime.Object, e watch.Event) []runtime.Object {
	key := client.ObjectKeyFromObject(e.Object.(client.Object))
	i := slices.IndexFunc(items, func(item runtime.Object) bool { return client.ObjectKeyFromObject(item.(client.Object)) == key })
	switch {
	case e.Type == watch.Deleted && i >= 0:
		return slices.Delete(items, i, i+1)
	case e.Type == watch.Deleted:
		return items
	case i >= 0:
		items[i] = e.Object
		return items
	}
	return append(items, e.Object)
}

// readObject reads an object anew into a fresh copy, because fields missing in the answer would keep their old values in obj. The result
// reports whether the object exists.
func readObject(ctx context.Context, c client.Client, obj client.Object) (exists bool, err error) {
	now := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	now.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(obj), now); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	copyInto(obj, now)
	return true, nil
}

// nextEvent waits for an event newer than a version, copies the object of the event into obj, and reports whether the object exists.
func nextEvent(ctx context.Context, events watch.Interface, obj client.Object, than string) (exists bool, err error) {
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case e, goes := <-events.ResultChan():
			switch {
			case goes && e.Type == watch.Error && isForgotten(e.Object):
				return false, errForgotten
			case !goes, e.Type == watch.Error: // a new watch shows whether the error is permanent
				return false, errWatchEnded
			case e.Type == watch.Bookmark, !isChange(e, than):
				continue
			}
			copyInto(obj, e.Object)
			return e.Type != watch.Deleted, nil
		}
	}
}

// isForgotten reports whether a watch cannot start at the requested resource version.
func isForgotten(status runtime.Object) bool {
	err := apierrors.FromObject(status)
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// isChange reports whether an event is newer than a version, "" for none.
func isChange(e watch.Event, version string) bool {
	if version == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(e.Object.(client.Object).GetResourceVersion(), version)
	return err != nil || order > 0 || order == 0 && e.Type == watch.Deleted
}

// copyInto copies an object into another one of the same type. Objects of a watch have no kind unless unstructured: obj
// keeps its own kind.
func copyInto(obj client.Object, now runtime.Object) {
	kind := obj.GetObjectKind().GroupVersionKind()
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(now).Elem())
	obj.GetObjectKind().SetGroupVersionKind(kind)
}

// heard records whether the API server answered, for the timeout error. An error caused by the end of ctx is ignored.
func (w *waitState) heard(ctx context.Context, err error) error {
	if pending, waits := errors.AsType[Pending](err); waits {
		w.missing, w.silent = err, nil
		if tell, listens := ctx.Value(progressKey{}).(func(string)); listens {
			tell(string(pending))
		}
	} else if ctx.Err() == nil {
		w.silent = err
	}
	return err
}

var (
	errWatchEnded = errors.New("the watch ended")
	errForgotten  = errors.New("the watch cannot begin so early")
	errSilent     = errors.New("the API server does not answer")
)

// forwardEvents signals events of a watch, and the end of the watch. Events before the next check are coalesced.
func forwardEvents(events watch.Interface, changed, ended chan<- struct{}) {
	for e := range events.ResultChan() {
		// A new watch and its check show whether the error is permanent.
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
