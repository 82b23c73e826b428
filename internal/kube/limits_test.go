// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

var testLimits = Limits{Body: 1 << 20, Event: 64 << 10, Rate: 1 << 30, Burst: 1 << 30}

// hostileCluster is an API server that answers as it likes.
type hostileCluster struct {
	Cluster
	reports atomic.Int64
	sent    atomic.Int64
}

func newHostileCluster(t *testing.T, handler http.HandlerFunc) *hostileCluster {
	t.Helper()
	h := &hostileCluster{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler(counted{w, &h.sent}, r)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	report := func(string, string) { h.reports.Add(1) }
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	cfg := &rest.Config{Host: server.URL, Transport: LimitResponses(transport, testLimits, report), DisableCompression: true, QPS: 1000, Burst: 1000}
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(offv1beta1.GroupVersion.WithKind("NamespaceMap"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	h.Cluster = Cluster{Config: cfg, HTTP: httpClient, Mapper: mapper, Scheme: Scheme, Budget: &CacheBudget{Bytes: 4 << 20, Objects: 5000, Full: report}}
	return h
}

type counted struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	c.sent.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

// follow runs an Informer until it says what is wrong.
func (h *hostileCluster) follow(t *testing.T, object client.Object) error {
	t.Helper()
	broken := make(chan error, 100)
	informer, err := NewInformer(InformerOptions{Cluster: h.Cluster, Object: object, Namespace: "demo", Changed: func(_, _ client.Object) {}, Broken: func(err error) {
		select {
		case broken <- err:
		default:
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	ended, stop := context.WithCancel(t.Context())
	go func() { defer close(done); informer.Run(ended) }()
	t.Cleanup(func() { stop(); <-done })
	limit := time.After(time.Minute)
	for {
		select {
		case err := <-broken:
			if !errors.Is(err, io.EOF) {
				return err
			}
			if h.reports.Load() > 0 {
				return ErrTooLarge // of watches the reflector says only that they ended
			}
		case <-limit:
			t.Fatal("the informer bears it")
		}
	}
}

// endless writes a beginning, and then the same for ever.
func endless(w http.ResponseWriter, begin, again string) {
	w.Header().Set("Content-Type", "application/json")
	if _, err := io.WriteString(w, begin); err != nil {
		return
	}
	chunk := strings.Repeat(again, 1+(16<<10)/len(again))
	for {
		if _, err := io.WriteString(w, chunk); err != nil {
			return
		}
	}
}

const emptyList = `{"kind":"NamespaceMapList","apiVersion":"offloading.liqo.io/v1beta1","metadata":{"resourceVersion":"1"},"items":[]}`

func TestLimitResponses(t *testing.T) {
	watches := func(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }
	bomb := &bytes.Buffer{}
	z := gzip.NewWriter(bomb)
	for range 64 {
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var page atomic.Int64
	for name, handler := range map[string]http.HandlerFunc{
		"endless_list": func(w http.ResponseWriter, _ *http.Request) {
			endless(w, `{"kind":"NamespaceMapList","apiVersion":"offloading.liqo.io/v1beta1","items":[`, `{"metadata":{"name":"a"}},`)
		},
		"endless_pages": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			n := page.Add(1)
			fmt.Fprintf(w, `{"kind":"NamespaceMapList","apiVersion":"offloading.liqo.io/v1beta1","metadata":{"continue":"c%d"},"items":[`, n)
			for i := range 50 {
				fmt.Fprintf(w, `{"metadata":{"name":"n%d-%d","namespace":"demo","uid":"%d"}},`, n, i, n*1000+int64(i))
			}
			fmt.Fprint(w, `{"metadata":{"name":"last"}}]}`)
		},
		"endless_empty_pages": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"kind":"NamespaceMapList","apiVersion":"offloading.liqo.io/v1beta1","metadata":{"continue":"c%d"},"items":[]}`, page.Add(1))
		},
		"endless_event": func(w http.ResponseWriter, r *http.Request) {
			if !watches(r) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, emptyList)
				return
			}
			endless(w, `{"type":"ADDED","object":{"kind":"NamespaceMap","apiVersion":"offloading.liqo.io/v1beta1","metadata":{"name":"`, "x")
		},
		"endless_event_in_lines": func(w http.ResponseWriter, r *http.Request) {
			if !watches(r) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, emptyList)
				return
			}
			endless(w, `{"type":"ADDED","object":`, " \n")
		},
		"endless_objects": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if !watches(r) {
				fmt.Fprint(w, emptyList)
				return
			}
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":"NamespaceMap","apiVersion":"offloading.liqo.io/v1beta1","metadata":{"name":"n%d","namespace":"demo","uid":"u%d","resourceVersion":"%d"}}}`+"\n", i, i, i+2); err != nil {
					return
				}
			}
		},
		"gzip_bomb": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			h := newHostileCluster(t, handler)
			err := h.follow(t, &offv1beta1.NamespaceMap{})
			if name == "gzip_bomb" {
				if !strings.Contains(err.Error(), "Content-Encoding") {
					t.Errorf("error %v", err)
				}
			} else if !errors.Is(err, ErrTooLarge) {
				t.Errorf("error %v", err)
			} else if name != "endless_empty_pages" && h.reports.Load() == 0 {
				t.Error("nobody was told")
			}
			runtime.ReadMemStats(&after)
			if grown := int64(after.Sys) - int64(before.Sys); grown > 128<<20 {
				t.Errorf("it took %d MiB", grown>>20)
			}
		})
	}
}

// A list of objects that are large but honest is read, in smaller pages.
func TestPagedList(t *testing.T) {
	const objects, large = 30, 100 << 10
	var requests, watched atomic.Int64
	h := newHostileCluster(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			if watched.Add(1) > 1 {
				<-r.Context().Done()
			}
			return // the first one ends, so that all is listed again
		}
		requests.Add(1)
		if version := r.URL.Query().Get("resourceVersion"); version != "" {
			t.Errorf("pages of exactly version %s are asked for, however old", version)
		}
		var limit, from int
		_, _ = fmt.Sscan(r.URL.Query().Get("limit"), &limit)
		_, _ = fmt.Sscan(r.URL.Query().Get("continue"), &from)
		list := &offv1beta1.NamespaceMapList{}
		list.Kind, list.APIVersion, list.ResourceVersion = "NamespaceMapList", offv1beta1.GroupVersion.String(), "1"
		for i := from; i < min(objects, from+limit); i++ {
			nm := offv1beta1.NamespaceMap{}
			nm.Name, nm.Namespace, nm.UID = fmt.Sprint("n", i), "demo", types.UID(fmt.Sprint(i))
			nm.Annotations = map[string]string{"large": strings.Repeat("x", large)}
			list.Items = append(list.Items, nm)
		}
		if from+limit < objects {
			list.Continue = fmt.Sprint(from + limit)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	})
	h.Budget.Bytes = 64 << 20
	informer, err := NewInformer(InformerOptions{Cluster: h.Cluster, Object: &offv1beta1.NamespaceMap{}, Namespace: "demo", Changed: func(_, _ client.Object) {}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); informer.Run(ctx) }()
	defer func() { stop(); <-done }()
	select {
	case <-informer.Synced():
	case <-time.After(time.Minute):
		t.Fatalf("not synced: %v", informer.Err())
	}
	for deadline := time.After(time.Minute); watched.Load() < 2; {
		select {
		case <-deadline:
			t.Fatal("the list was not read again")
		case <-time.After(10 * time.Millisecond):
		}
	}
	if got := len(informer.List()); got != objects || requests.Load() < 4 {
		t.Errorf("%d objects in %d requests", got, requests.Load())
	}
	if got := h.reports.Load(); got > 0 {
		t.Errorf("%d reports of a peer that sends large objects", got)
	}
}

// One peer that is hostile stops no other: each has a budget of its own.
func TestCacheBudgetPerPeer(t *testing.T) {
	mine, another := &CacheBudget{Bytes: 1000, Objects: 10}, &CacheBudget{Bytes: 1000, Objects: 10}
	for mine.exchangeBytes(0, 300) == nil {
	}
	if err := another.exchangeBytes(0, 300); err != nil {
		t.Error(err)
	}
	if err := mine.exchangeBytes(300, 200); err != nil {
		t.Errorf("an object that shrinks: %v", err)
	}
	if err := mine.exchangeBytes(200, 0); err != nil {
		t.Error(err)
	}
}

func TestCacheBudgetOfCopies(t *testing.T) {
	budget := &CacheBudget{Bytes: 1000, Objects: 2}
	budget.extendBytes(0, 5000)
	for _, size := range []int64{5000, 600, 400} {
		if err := budget.exchangeBytes(0, size); err != nil {
			t.Errorf("copies and objects of the peer below the limit: %v", err)
		}
	}
	if err := budget.exchangeBytes(0, 1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one object more: %v", err)
	}
	if err := budget.exchangeBytes(400, 401); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
	budget.extendBytes(5000, 0)
	if err := budget.exchangeBytes(600, 0); err != nil {
		t.Errorf("an object that goes: %v", err)
	}
	if err := budget.exchangeBytes(0, 1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one of this cluster is gone: %v", err)
	}
}

// The copies that a cluster made itself do not count.
func TestInformerExtendsCacheBudget(t *testing.T) {
	list := &offv1beta1.NamespaceMapList{}
	list.Kind, list.APIVersion, list.ResourceVersion = "NamespaceMapList", offv1beta1.GroupVersion.String(), "1"
	for i := range 50 {
		nm := offv1beta1.NamespaceMap{}
		nm.Name, nm.Namespace, nm.UID = fmt.Sprint("n", i), "demo", types.UID(fmt.Sprint(i))
		list.Items = append(list.Items, nm)
	}
	h := newHostileCluster(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
			return
		case r.URL.Query().Get("watch") != "":
			<-r.Context().Done()
			return
		}
		_ = json.NewEncoder(w).Encode(list)
	})
	h.Budget.Objects = 10
	local := h.Cluster
	local.Budget, local.Extends = nil, h.Budget
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for _, cluster := range []Cluster{local, h.Cluster} {
		informer, err := NewInformer(InformerOptions{Cluster: cluster, Object: &offv1beta1.NamespaceMap{}, Namespace: "demo", Changed: func(_, _ client.Object) {}})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() { informer.Run(ctx) })
		select {
		case <-informer.Synced():
		case <-time.After(time.Minute):
			t.Fatalf("not synced: %v", informer.Err())
		}
	}
}

func TestForeignErrorText(t *testing.T) {
	for name, body := range map[string]string{
		"status": `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no \u001b[2J rights` + strings.Repeat("x", 10_000) + `","reason":"Forbidden","code":403,"details":{"causes":[{"message":"\u001b]0;x"}]}}`,
		"text":   "no \x1b[2J rights" + strings.Repeat("x", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHostileCluster(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, body)
			})
			c, err := h.Client()
			if err != nil {
				t.Fatal(err)
			}
			err = c.Get(t.Context(), client.ObjectKey{Namespace: "demo", Name: "a"}, &offv1beta1.NamespaceMap{})
			if !apierrors.IsForbidden(err) {
				t.Fatalf("error %v", err)
			}
			if text := err.Error(); len(text) > 8<<10 || strings.ContainsRune(text, 0x1b) {
				t.Errorf("%d bytes: %.100q", len(text), text)
			}
		})
	}
}

func TestEventScanner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		var ends []int
		for range rapid.IntRange(1, 5).Draw(t, "events") {
			value := map[string]any{"type": "ADDED", "object": rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "object")}
			raw, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			stream = append(stream, raw...)
			ends = append(ends, len(stream))
			stream = append(stream, strings.Repeat("\n", rapid.IntRange(0, 2).Draw(t, "lines"))...)
		}
		s, at, found := &eventScanner{}, 0, []int{}
		for at < len(stream) {
			n := min(rapid.IntRange(1, 7).Draw(t, "read"), len(stream)-at)
			if rest, ended := s.scanEvents(stream[at : at+n]); ended {
				found = append(found, at+n-rest)
			}
			at += n
		}
		if len(found) == 0 || found[len(found)-1] != ends[len(ends)-1] {
			t.Fatalf("events end at %v, found %v", ends, found)
		}
	})
	frames := append([]byte{0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 0}, 0, 0, 0, 1, 9)
	s := &eventScanner{}
	var ends []int
	for i := range frames {
		if _, ended := s.scanEvents(frames[i : i+1]); ended {
			ends = append(ends, i)
		}
	}
	if fmt.Sprint(ends) != "[6 10 15]" {
		t.Errorf("frames end at %v", ends)
	}
}

func TestWriteBudget(t *testing.T) {
	var written atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		written.Add(n)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "{}")
	}))
	defer server.Close()
	var exceeded atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cfg := WriteBudget{Rate: 1000, Burst: 50_000, Exceeded: func(string, string) {
		exceeded.Add(1)
		stop()
	}}.LimitWrites(&rest.Config{Host: server.URL})
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL, strings.NewReader(strings.Repeat("x", 10_000)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			break
		}
		resp.Body.Close()
	}
	if got, most := written.Load(), 70_000+int64(1000*time.Since(start).Seconds()); got < 50_000 || got > most || exceeded.Load() == 0 {
		t.Errorf("%d bytes were written, and it was told %d times", got, exceeded.Load())
	}
	for range 10 { // reads are free
		resp, err := c.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
}
