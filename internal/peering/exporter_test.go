// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/testkit"
)

func TestConditionExporter(t *testing.T) {
	c := testkit.Cluster(t)
	fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "exported"}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: "exported"}}
	testkit.Create(t, c.Client, fc)
	condition := func(kind liqov1beta1.ConditionType, status liqov1beta1.ConditionStatus) liqov1beta1.Condition {
		return liqov1beta1.Condition{Type: kind, Status: status, LastTransitionTime: metav1.Now()}
	}
	misbehaves := condition(liqov1beta1.PeerMisbehaves, liqov1beta1.ConditionError)
	testkit.UpdateStatus(t, c.Client, fc, func(fc *liqov1beta1.ForeignCluster) {
		fc.Status.Conditions = []liqov1beta1.Condition{condition(liqov1beta1.APIServerStatus, liqov1beta1.ConditionEstablished), misbehaves}
		fc.Status.Modules.Networking = liqov1beta1.Module{Enabled: true, Conditions: []liqov1beta1.Condition{condition(liqov1beta1.NetworkConnectionStatus, liqov1beta1.ConditionPending)}}
		fc.Status.Modules.Offloading = liqov1beta1.Module{Enabled: true, Conditions: []liqov1beta1.Condition{misbehaves}}
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(newConditionExporter(c.Client))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			text := family.GetName()
			for _, l := range m.GetLabel() {
				text += " " + l.GetValue()
			}
			if strings.HasPrefix(text, "liqo_peer_condition exported ") && m.GetGauge().GetValue() == 1 {
				got = append(got, text)
			}
		}
	}
	if diff := cmp.Diff([]string{
		"liqo_peer_condition exported APIServerStatus Established", "liqo_peer_condition exported NetworkConnectionStatus Pending", "liqo_peer_condition exported PeerMisbehaves Error",
	}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
