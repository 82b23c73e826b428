// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/testkit"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (r roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// refusedTwins is a process with five twins that its provider lets it read nothing of; answered is called with the path
// of each question that was answered.
func refusedTwins(t *testing.T, answered func(path string)) *process {
	t.Helper()
	config := testkit.Cluster(t).User(t, testkit.UniqueID())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(req)
			if err == nil && strings.Contains(req.URL.Path, "/shadowpods") {
				answered(req.URL.Path)
			}
			return response, err
		})
	})
	p := &process{namespaces: &remoteNamespaces{}}
	mapping, desired := map[string]offv1beta1.RemoteNamespaceStatus{}, map[string]string{}
	for i := range 5 {
		desired[fmt.Sprint("web-", i)] = fmt.Sprint("twin-", i)
		mapping[fmt.Sprint("web-", i)] = offv1beta1.RemoteNamespaceStatus{RemoteNamespace: fmt.Sprint("twin-", i), Phase: offv1beta1.MappingAccepted}
	}
	p.namespaces.Set(&offv1beta1.NamespaceMap{Spec: offv1beta1.NamespaceMapSpec{DesiredMapping: desired}, Status: offv1beta1.NamespaceMapStatus{CurrentMapping: mapping}})
	var reader client.Reader = newClient(t, config)
	p.reader.Store(&reader)
	return p
}

func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMayWorkNamespaces(t *testing.T) {
	answers, requested := 0, map[string]bool{}
	p := refusedTwins(t, func(path string) { answers++; requested[path] = true })
	if err := p.mayWork(t.Context()); !errors.Is(err, multicluster.ErrRefused) || answers != 3 {
		t.Errorf("%v after %d answers", err, answers)
	}
	if err := p.mayWork(t.Context()); !errors.Is(err, multicluster.ErrRefused) || len(requested) != 5 {
		t.Errorf("%v of %d twins, want 5: some may be going, with all that was granted there", err, len(requested))
	}
}

func TestMayWorkTimeout(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answers := 0
	p := refusedTwins(t, func(string) {
		if answers++; answers == 2 {
			cancel() // the second answer is late
		}
	})
	if err := p.mayWork(ctx); !errors.Is(err, multicluster.ErrRefused) {
		t.Errorf("%v after %d answers", err, answers)
	}
}
