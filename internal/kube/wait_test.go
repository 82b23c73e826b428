// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// silentClient is a cluster whose API server takes connections and says nothing.
type silentClient struct{ client.WithWatch }

func (silentClient) Watch(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// quietClient is a cluster where nothing happens.
type quietClient struct{ client.WithWatch }

func (quietClient) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return watch.NewFake(), nil
}

func TestTheEndOfAWaitSaysForWhatAndForHowLong(t *testing.T) {
	one := WatchOne(&corev1.ConfigMapList{}, client.ObjectKey{Namespace: "liqo", Name: "a"})
	loose := &unstructured.UnstructuredList{}
	loose.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NodeList"})
	for name, tc := range map[string]struct {
		cluster client.WithWatch
		check   error
		what    []Watched
		want    string
	}{
		"nobody answers": {silentClient{}, nil, []Watched{one}, "waiting for ConfigMap liqo/a: context deadline exceeded after 30s"},
		"several things": {
			silentClient{}, nil, []Watched{one, {List: &corev1.PodList{}, Opts: []client.ListOption{client.InNamespace("liqo")}}, {List: loose}},
			"waiting for ConfigMap liqo/a, Pods in liqo, Nodes: context deadline exceeded after 30s",
		},
		"nothing happens": {quietClient{}, Pending("a is red"), []Watched{one}, "a is red: context deadline exceeded after 30s"},
		"troubles": {
			quietClient{}, apierrors.NewServiceUnavailable("no etcd"), []Watched{one}, "waiting for ConfigMap liqo/a: no etcd: context deadline exceeded after 30s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				err := WaitUntil(ctx, tc.cluster, func(context.Context) error { return tc.check }, tc.what...)
				if err == nil || err.Error() != tc.want || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v\nwant %s", err, tc.want)
				}
			})
		})
	}
}

func TestACallThatIsNotAnsweredSaysForHowLong(t *testing.T) {
	refused := apierrors.NewBadRequest("no")
	for name, tc := range map[string]struct {
		answers []error // nil waits for the end, with the error of a client
		want    string
	}{
		"none":           {[]error{nil}, `Get "https://10.0.0.1/api": context deadline exceeded after 30s`},
		"not even asked": {[]error{context.DeadlineExceeded}, "the API server does not answer: context deadline exceeded after 30s"},
		"troubles first": {[]error{apierrors.NewServiceUnavailable("no etcd"), nil}, `no etcd: Get "https://10.0.0.1/api": context deadline exceeded after 30s`},
		"an answer":      {[]error{apierrors.NewServiceUnavailable("no etcd"), refused}, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				err := RetryTransient(ctx, func() error {
					answer := tc.answers[0]
					tc.answers = tc.answers[1:]
					if answer == nil {
						<-ctx.Done()
						return &url.Error{Op: "Get", URL: "https://10.0.0.1/api", Err: ctx.Err()}
					}
					if answer == context.DeadlineExceeded {
						<-ctx.Done()
					}
					return answer
				})
				if err == nil || err.Error() != tc.want {
					t.Errorf("got %v\nwant %s", err, tc.want)
				}
			})
		})
	}
}

func TestAWaitTellsWhatItIsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var messages []string
		ctx = WithProgress(ctx, func(missing string) { messages = append(messages, missing) })
		answers := []error{apierrors.NewServiceUnavailable("no etcd"), Pending("a is red"), nil}
		err := WaitUntil(ctx, changing{}, func(context.Context) error {
			answer := answers[0]
			answers = answers[1:]
			return answer
		}, WatchOne(&corev1.ConfigMapList{}, client.ObjectKey{Namespace: "liqo", Name: "a"}))
		if err != nil || !slices.Equal(messages, []string{"a is red"}) {
			t.Errorf("it told %q, and ended with %v", messages, err)
		}
	})
}

// Whoever polled would look again in a day of which nothing is heard.
func TestAWaitLooksOnlyWhenSomethingHappens(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster client.WithWatch
		checks  int
	}{"nothing happens": {quietClient{}, 1}, "something happens": {changing{}, 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				checks := 0
				err := WaitUntil(ctx, tc.cluster, func(context.Context) error {
					checks++
					return Pending("a is red")
				}, WatchOne(&corev1.ConfigMapList{}, client.ObjectKey{Namespace: "liqo", Name: "a"}))
				if checks != tc.checks || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("it looked %d times, not %d, and ended with %v", checks, tc.checks, err)
				}
			})
		})
	}
}

// changing is a cluster where something happens after 20 s.
type changing struct{ client.WithWatch }

func (changing) Watch(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
	events := watch.NewFake()
	go func() {
		select {
		case <-time.After(20 * time.Second):
			events.Add(&corev1.ConfigMap{})
		case <-ctx.Done():
		}
	}()
	return events, nil
}

func TestACallInACheckIsTriedAgainWithTheCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checks, calls := 0, 0
		err := WaitUntil(t.Context(), quietClient{}, func(ctx context.Context) error {
			checks++
			return RetryTransient(ctx, func() error {
				if calls++; calls < 3 {
					return apierrors.NewServiceUnavailable("no etcd")
				}
				return nil
			})
		})
		if err != nil || checks != 3 || calls != 3 {
			t.Errorf("%d checks made %d calls: %v", checks, calls, err)
		}
	})
}

func TestAnAnswerThatBreaksOffIsAskedForAgain(t *testing.T) {
	requested := 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"ConfigMap","apiVersion":"v1",`)
		if requested++; requested == 1 {
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, `"metadata":{"namespace":"liqo","name":"a"}}`)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	trusted := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	cluster, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: trusted}})
	if err != nil {
		t.Fatal(err)
	}
	err = RetryTransient(t.Context(), func() error {
		_, err := cluster.CoreV1().ConfigMaps("liqo").Get(t.Context(), "a", metav1.GetOptions{})
		return err
	})
	if err != nil || requested != 2 {
		t.Errorf("asked %d times: %v", requested, err)
	}
}

// TestAnObjectIsReadOnceAndThenFollowed counts what a wait for one object asks of the API server.
func TestAnObjectIsReadOnceAndThenFollowed(t *testing.T) {
	red := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "a", ResourceVersion: "7", Finalizers: []string{"example.org/held"}}}
	blue := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "a", ResourceVersion: "8"}, Data: map[string]string{"is": "blue"}}
	green := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "a", ResourceVersion: "9"}, Data: map[string]string{"is": "green"}}
	forgot := watch.Event{Type: watch.Error, Object: &apierrors.NewResourceExpired("too old resource version").ErrStatus}
	event := func(what watch.EventType, obj *corev1.ConfigMap) watch.Event {
		return watch.Event{Type: what, Object: obj.DeepCopy()}
	}
	for name, tc := range map[string]struct {
		script followed
		from   []string // the resource version of each watch
		seen   []string
	}{
		"as it should be":       {followed{reads: []*corev1.ConfigMap{green}}, nil, []string{"green"}},
		"not there":             {followed{reads: []*corev1.ConfigMap{nil}, events: [][]watch.Event{{event(watch.Added, green)}}}, []string{""}, []string{"none", "green"}},
		"it changes":            {followed{reads: []*corev1.ConfigMap{red}, events: [][]watch.Event{{event(watch.Modified, blue), event(watch.Modified, green)}}}, []string{"7"}, []string{" held", "blue", "green"}},
		"it goes and comes":     {followed{reads: []*corev1.ConfigMap{blue}, events: [][]watch.Event{{event(watch.Deleted, blue), event(watch.Bookmark, red), event(watch.Added, green)}}}, []string{"8"}, []string{"blue", "none", "green"}},
		"its watch ends":        {followed{reads: []*corev1.ConfigMap{red, blue, green}, events: [][]watch.Event{{}, {}}}, []string{"7", "8"}, []string{" held", "blue", "green"}},
		"the server forgot":     {followed{reads: []*corev1.ConfigMap{red, blue}, events: [][]watch.Event{{forgot}, {event(watch.Added, red), event(watch.Modified, blue), event(watch.Modified, green)}}}, []string{"7", ""}, []string{" held", "blue", "green"}},
		"it goes, forgotten":    {followed{reads: []*corev1.ConfigMap{red, red}, events: [][]watch.Event{{forgot}, {event(watch.Added, red), event(watch.Deleted, blue), event(watch.Added, green)}}}, []string{"7", ""}, []string{" held", " held", "none", "green"}},
		"an error is no end":    {followed{reads: []*corev1.ConfigMap{red, green}, events: [][]watch.Event{{{Type: watch.Error, Object: &metav1.Status{Code: 500}}}}}, []string{"7"}, []string{" held", "green"}},
		"it goes, unseen":       {followed{reads: []*corev1.ConfigMap{red, nil}, events: [][]watch.Event{{}, {event(watch.Added, green)}}}, []string{"7", ""}, []string{" held", "none", "green"}},
		"an answer is an error": {followed{reads: []*corev1.ConfigMap{red, green}, refused: 1, events: [][]watch.Event{{}}}, nil, []string{" held", "green"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen []string
				obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "a"}}
				start := time.Now()
				err := WaitForObject(t.Context(), &tc.script, obj, func(_ context.Context, exists bool) error {
					is := "none"
					if exists {
						if is = obj.Data["is"]; len(obj.Finalizers) > 0 {
							is += " held"
						}
					}
					if seen = append(seen, is); is == "green" {
						return nil
					}
					return Pending("a is " + is)
				})
				if forgetful := strings.Contains(name, "forg"); forgetful && time.Since(start) > 0 {
					t.Errorf("it waited for %s", time.Since(start))
				}
				if err != nil || !slices.Equal(seen, tc.seen) || !slices.Equal(tc.script.from, tc.from) || len(tc.script.reads) > 0 {
					t.Errorf("it ended with %v, saw %q, and watched from %q; reads that were not made: %d", err, seen, tc.script.from, len(tc.script.reads))
				}
			})
		})
	}
}

// followed is a cluster whose API server answers reads and watches of one object in turn. A watch ends after its events.
type followed struct {
	client.WithWatch
	reads   []*corev1.ConfigMap // nil: not found
	events  [][]watch.Event
	refused int // watches
	from    []string
}

func (*followed) Scheme() *runtime.Scheme { return scheme.Scheme }

func (f *followed) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if _, typed := obj.(*corev1.ConfigMap); !typed && obj.GetObjectKind().GroupVersionKind().Kind != "ConfigMap" {
		return errors.New("nobody knows the kind")
	}
	now := f.reads[0]
	if f.reads = f.reads[1:]; now == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
	}
	body, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, obj) // which leaves what it does not name
}

func (f *followed) Watch(_ context.Context, _ client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	if f.refused > 0 {
		f.refused--
		return nil, apierrors.NewServiceUnavailable("no etcd")
	}
	f.from = append(f.from, (&client.ListOptions{}).ApplyOptions(opts).Raw.ResourceVersion)
	events := watch.NewFakeWithChanSize(len(f.events[0]), false)
	for _, e := range f.events[0] {
		events.Action(e.Type, e.Object)
	}
	f.events = f.events[1:]
	events.Stop()
	return events, nil
}

// What a watch tells of metadata says not of which kind.
func TestTheKindOfAnObjectStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "a", ResourceVersion: "7"}}
		stale := &metav1.PartialObjectMetadata{ObjectMeta: *read.ObjectMeta.DeepCopy()}
		stale.ResourceVersion = "8"
		script := &followed{reads: []*corev1.ConfigMap{read, nil}, events: [][]watch.Event{{{Type: watch.Modified, Object: stale}}}}
		obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "a"}}
		obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		err := WaitForObject(t.Context(), script, obj, func(_ context.Context, exists bool) error {
			if exists {
				return Pending("it is there")
			}
			return nil
		})
		if err != nil || len(script.reads) > 0 || obj.ResourceVersion != "8" {
			t.Errorf("it ended with %v, of %+v", err, obj)
		}
	})
}
