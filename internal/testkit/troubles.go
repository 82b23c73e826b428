// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/liqo/internal/kube"
)

// InternalError is what an API server says while its etcd has no leader, with code 500.
const InternalError = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500,"message":"etcdserver: leader changed"}`

// Troubled is a client of the cluster that answer comes before: what it returns nothing for goes to the API server.
func Troubled(t *testing.T, c *ControlPlane, response func(*http.Request) (*http.Response, error)) client.WithWatch {
	t.Helper()
	cluster, err := client.NewWithWatch(Answered(c.Config, response), client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// Answered is cfg with answer before the API server: what it returns nothing for goes there.
func Answered(cfg *rest.Config, response func(*http.Request) (*http.Response, error)) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return troubled{next, response} })
	return cfg
}

// Writes are the requests by which existing objects were written, with a change or without one, as METHOD PATH.
type Writes struct {
	mu  sync.Mutex
	all []string
}

// RecordWrites is cfg with a record of what is written with it.
func RecordWrites(cfg *rest.Config) (*rest.Config, *Writes) {
	w := &Writes{}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return recorded{next, w} })
	return cfg, w
}

type recorded struct {
	http.RoundTripper
	writes *Writes
}

func (r recorded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.RoundTripper.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusOK && (request.Method == http.MethodPut || request.Method == http.MethodPatch) {
		r.writes.mu.Lock()
		defer r.writes.mu.Unlock()
		r.writes.all = append(r.writes.all, request.Method+" "+request.URL.Path)
	}
	return response, err
}

// To returns the writes to an object, and forgets them. The object is named like the end of its path, as /services/db.
func (w *Writes) To(object string) (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	isTo := func(one string) bool { return strings.HasSuffix(one, object) }
	for _, one := range w.all {
		if isTo(one) {
			out = append(out, one)
		}
	}
	w.all = slices.DeleteFunc(w.all, isTo)
	return out
}

type troubled struct {
	http.RoundTripper
	answer func(*http.Request) (*http.Response, error)
}

func (t troubled) RoundTrip(r *http.Request) (*http.Response, error) {
	if response, err := t.answer(r); response != nil || err != nil {
		return response, err
	}
	return t.RoundTripper.RoundTrip(r)
}

// Answer is a response of an API server.
func Answer(code int, body string) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
}

// IsWatch tells a watch from other requests.
func IsWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// Unaware is a client whose reads find no objects of these types or lists, as a cache does that was not told of them yet. Writes
// arrive.
func Unaware(c client.WithWatch, types ...runtime.Object) client.WithWatch {
	unknown := func(obj runtime.Object) bool {
		return slices.ContainsFunc(types, func(of runtime.Object) bool { return reflect.TypeOf(of) == reflect.TypeOf(obj) })
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if unknown(obj) {
				return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", obj)}, key.Name)
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if unknown(list) {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
}
