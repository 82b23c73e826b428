// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package await

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mute is a cluster whose API server takes connections and says nothing.
type mute struct{ client.WithWatch }

func (mute) Watch(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// still is a cluster where nothing happens.
type still struct{ client.WithWatch }

func (still) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return watch.NewFake(), nil
}

func TestTheEndOfAWaitSaysForWhatAndForHowLong(t *testing.T) {
	one := One(&corev1.ConfigMapList{}, client.ObjectKey{Namespace: "liqo", Name: "a"})
	loose := &unstructured.UnstructuredList{}
	loose.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NodeList"})
	for name, tc := range map[string]struct {
		cluster client.WithWatch
		check   error
		what    []Watched
		want    string
	}{
		"nobody answers": {mute{}, nil, []Watched{one}, "waiting for ConfigMap liqo/a: context deadline exceeded after 30s"},
		"several things": {
			mute{}, nil, []Watched{one, {List: &corev1.PodList{}, Opts: []client.ListOption{client.InNamespace("liqo")}}, {List: loose}},
			"waiting for ConfigMap liqo/a, Pods in liqo, Nodes: context deadline exceeded after 30s",
		},
		"nothing happens": {still{}, Pending("a is red"), []Watched{one}, "a is red: context deadline exceeded after 30s"},
		"troubles": {
			still{}, apierrors.NewServiceUnavailable("no etcd"), []Watched{one}, "waiting for ConfigMap liqo/a: no etcd: context deadline exceeded after 30s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				err := Until(ctx, tc.cluster, func(context.Context) error { return tc.check }, tc.what...)
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
				err := Through(ctx, func() error {
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
		var told []string
		ctx = Telling(ctx, func(missing string) { told = append(told, missing) })
		answers := []error{apierrors.NewServiceUnavailable("no etcd"), Pending("a is red"), nil}
		err := Until(ctx, changing{}, func(context.Context) error {
			answer := answers[0]
			answers = answers[1:]
			return answer
		}, One(&corev1.ConfigMapList{}, client.ObjectKey{Namespace: "liqo", Name: "a"}))
		if err != nil || !slices.Equal(told, []string{"a is red"}) {
			t.Errorf("it told %q, and ended with %v", told, err)
		}
	})
}

// Whoever polled would look again in a day of which nothing is heard.
func TestAWaitLooksOnlyWhenSomethingHappens(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster client.WithWatch
		checks  int
	}{"nothing happens": {still{}, 1}, "something happens": {changing{}, 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				checks := 0
				err := Until(ctx, tc.cluster, func(context.Context) error {
					checks++
					return Pending("a is red")
				}, One(&corev1.ConfigMapList{}, client.ObjectKey{Namespace: "liqo", Name: "a"}))
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
		err := Until(t.Context(), still{}, func(ctx context.Context) error {
			checks++
			return Through(ctx, func() error {
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
	asked := 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"ConfigMap","apiVersion":"v1",`)
		if asked++; asked == 1 {
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
	err = Through(t.Context(), func() error {
		_, err := cluster.CoreV1().ConfigMaps("liqo").Get(t.Context(), "a", metav1.GetOptions{})
		return err
	})
	if err != nil || asked != 2 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}
