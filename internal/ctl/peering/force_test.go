// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestForceUnpeerRetriesAPIErrors(t *testing.T) {
	c := testkit.Cluster(t)
	gone := testkit.UniqueID()
	otherNamespace := testkit.Namespace(t, c, "elsewhere", nil)
	fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: gone}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: liqov1beta1.ClusterID(gone)}}
	key := &networkingv1beta1.PublicKey{ObjectMeta: network.PeerMeta(client.ObjectKey{Namespace: otherNamespace, Name: "x"}, gone)}
	ctltest.Lend(t, c, fc)
	testkit.Create(t, c.Client, key)
	failed := map[string]bool{}
	kubeClient := testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
		if what := r.Method; (what == http.MethodPatch || what == http.MethodDelete) && !failed[what] {
			failed[what] = true
			return testkit.Answer(http.StatusInternalServerError, testkit.InternalError), nil
		}
		return nil, nil
	})
	output := &bytes.Buffer{}
	session := &cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), output, output)}
	if err := ForceUnpeer(t.Context(), session, kubeClient, gone); err != nil || len(failed) != 2 {
		t.Fatalf("%v; failed were %v; it said\n%s", err, failed, output)
	}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(key), key); !apierrors.IsNotFound(err) {
		t.Errorf("the key is left: %v", err)
	}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(fc), fc); err != nil || fc.Annotations[names.PermanentlyUnreachable] != "true" {
		t.Errorf("the peer is not declared gone: %v, %v", fc.Annotations, err)
	}
}
