// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// Nobody removes the ForeignCluster here, and nothing holds it.
func TestWhatDoesNotGoWithAPeeringIsToldWithWhatToDo(t *testing.T) {
	c := testkit.Cluster(t)
	fc := &liqov1beta1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "rome-stays", Labels: map[string]string{names.RemoteClusterID: "rome-stays"}},
		Spec:       liqov1beta1.ForeignClusterSpec{ClusterID: "rome-stays"},
	}
	testkit.Create(t, c.Client, fc)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	consumer, said := bareSide(t, c, "local", "rome-stays")
	provider, _ := bareSide(t, c, "remote", "milan-stays")
	var reads atomic.Int32
	provider.kube = testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
		switch {
		case r.Method != http.MethodGet || testkit.IsWatch(r) || !strings.HasSuffix(r.URL.Path, "/foreignclusters/rome-stays"):
		case reads.Add(1) == 1: // it is read again, and the time is over then
			testkit.Update(t, c.Client, fc.DeepCopy(), func(fc *liqov1beta1.ForeignCluster) {
				fc.Annotations = map[string]string{"example.org/another": "look"}
			})
		default:
			cancel()
		}
		return nil, nil
	})
	err := (&unpeering{cli: &cli{Printer: out.New(strings.NewReader(""), said, said)}, options: &unpeerOptions{wait: true}, consumer: consumer, provider: provider}).run(ctx)
	f, ok := err.(*out.Failure)
	if !ok || !slices.ContainsFunc(f.All(), func(hint string) bool { return strings.HasPrefix(hint, "Run it again to go on from here.") }) {
		t.Errorf("it does not say what to do: %v", err)
	}
	want := "unable to end what was made of the peering: in the remote cluster: ForeignCluster rome-stays is still there: "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("it ended with %v\n%s", err, said)
	}
	if err := c.Client.Delete(t.Context(), fc); err != nil {
		t.Fatal(err)
	}
}
