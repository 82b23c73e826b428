// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// lagging is an API server that cannot stream lists, and whose cache is as old as version.
type lagging struct {
	version string
	next    http.RoundTripper
}

func (l lagging) RoundTrip(req *http.Request) (*http.Response, error) {
	query := req.URL.Query()
	if query.Has("sendInitialEvents") {
		return &http.Response{
			Status: "400 Bad Request", StatusCode: http.StatusBadRequest, Request: req, Header: http.Header{},
			Body: io.NopCloser(strings.NewReader("sendInitialEvents is forbidden")),
		}, nil
	}
	if !query.Has("watch") && query.Get("resourceVersion") == "0" {
		req = req.Clone(req.Context())
		query.Set("resourceVersion", l.version)
		query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
		req.URL.RawQuery = query.Encode()
	}
	return l.next.RoundTrip(req)
}

func TestInformerFirstList(t *testing.T) {
	c := testkit.Cluster(t)
	namespace := testkit.Namespace(t, c, "informer", nil)
	var before corev1.ConfigMapList
	if err := c.Client.List(t.Context(), &before, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "new"}}); err != nil {
		t.Fatal(err)
	}
	cfg := rest.CopyConfig(c.Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return lagging{before.ResourceVersion, next} })
	cluster, err := kube.NewCluster(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var informer *kube.Informer
	atFirst := make(chan bool, 1)
	informer, err = kube.NewInformer(kube.InformerOptions{
		Cluster: cluster, Object: &corev1.ConfigMap{}, Namespace: namespace,
		Changed: func(_, now client.Object) {
			if now != nil && now.GetName() == "new" {
				atFirst <- !informer.HasSynced()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	go informer.Run(t.Context())
	select {
	case ok := <-atFirst:
		if !ok {
			t.Error("the informer was synced before it knew an object that was there before")
		}
	case <-time.After(limit):
		t.Fatalf("the informer never knew the object: %v", informer.Err())
	}
}
