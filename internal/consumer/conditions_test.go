// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func TestSetCondition(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want conditionStatus }{
		"creation ends":                    {creating, running, running},
		"what runs is not created again":   {running, creating, running},
		"what runs is drained":             {running, draining, draining},
		"what is not there is not drained": {none, draining, none},
		"what is not there is not deleted": {none, deleting, none},
		"what is not there may come":       {none, creating, creating},
		"drained, then deleted":            {draining, deleting, deleting},
		"what is deleted is not drained":   {deleting, draining, deleting},
		"what was deleted is not there":    {deleting, none, none},
		"creation may be given up":         {creating, draining, draining},
	} {
		t.Run(name, func(t *testing.T) {
			vn := &offv1beta1.VirtualNode{}
			setCondition(vn, kubeletCondition, running, "", metav1.NewTime(time.Unix(1, 0)))
			setCondition(vn, nodeCondition, tc.from, "", metav1.NewTime(time.Unix(1, 0)))
			setCondition(vn, nodeCondition, tc.to, "", metav1.NewTime(time.Unix(2, 0)))
			if len(vn.Status.Conditions) != 2 || statusOf(vn, kubeletCondition) != running {
				t.Fatalf("conditions = %+v", vn.Status.Conditions)
			}
			got := vn.Status.Conditions[1]
			if got.Status != tc.want {
				t.Errorf("status = %s, want %s", got.Status, tc.want)
			}
			if moved := got.LastTransitionTime.Unix() == 2; moved != (tc.from != tc.want) {
				t.Errorf("dated %s", got.LastTransitionTime)
			}
		})
	}
}

func TestSetConditionRemovesDuplicates(t *testing.T) {
	vn := &offv1beta1.VirtualNode{Status: offv1beta1.VirtualNodeStatus{Conditions: []offv1beta1.VirtualNodeCondition{
		{Type: nodeCondition, Status: creating}, {Type: nodeCondition, Status: running}, {Type: kubeletCondition, Status: running},
	}}}
	setCondition(vn, nodeCondition, running, "", metav1.Time{})
	want := []offv1beta1.VirtualNodeCondition{{Type: nodeCondition, Status: running}, {Type: kubeletCondition, Status: running}}
	if diff := cmp.Diff(want, vn.Status.Conditions); diff != "" {
		t.Error(diff)
	}
}
