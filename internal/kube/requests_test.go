// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

func TestRequestsFor(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "requests", nil)
	for _, name := range []string{"one", "two"} {
		testkit.Create(t, c.Client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
	}
	of := func(name string) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: ns, Name: name}}
	}
	all := kube.Requests(t.Context(), c.Client, &corev1.SecretList{}, kube.Every, client.InNamespace(ns))
	some := kube.Requests(t.Context(), c.Client, &corev1.SecretList{}, func(s *corev1.Secret) bool { return s.Name == "two" }, client.InNamespace(ns))
	stranger, err := client.New(c.User(t, "without-rights"), client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	none := kube.Requests(t.Context(), stranger, &corev1.SecretList{}, kube.Every, client.InNamespace(ns))
	if diff := cmp.Diff([][]reconcile.Request{{of("one"), of("two")}, {of("two")}, nil}, [][]reconcile.Request{all, some, none}); diff != "" {
		t.Error(diff)
	}
}

func TestResultOfErrors(t *testing.T) {
	failure := errors.New("refused")
	for rule, tc := range map[string]struct {
		err, want error
		after     time.Duration
	}{
		"nothing to do":     {},
		"quiet for a while": {err: fmt.Errorf("gathering: %w", kube.Wait(time.Minute, "not there yet")), after: time.Minute},
		"for the user":      {err: kube.Invalid("Wrong", failure)},
		"a failure":         {err: failure, want: failure},
	} {
		if got, err := kube.Result(tc.err); got.RequeueAfter != tc.after || !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, %v", rule, got.RequeueAfter, err)
		}
	}
}
