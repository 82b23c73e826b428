// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/names"
)

func TestBindingCheck(t *testing.T) {
	at := func(second int64) metav1.Time { return metav1.NewTime(time.Unix(second, 0)) }
	subject := func(kind, name string) []rbacv1.Subject { return []rbacv1.Subject{{Kind: kind, Name: name}} }
	for name, test := range map[string]struct {
		meta     metav1.ObjectMeta
		subjects []rbacv1.Subject
		refused  bool
	}{
		"an older group":                 {meta: metav1.ObjectMeta{CreationTimestamp: at(50)}, subjects: subject("Group", "blue"), refused: true},
		"an older user":                  {meta: metav1.ObjectMeta{CreationTimestamp: at(50)}, subjects: subject("User", "blue"), refused: true},
		"a group of the same second":     {meta: metav1.ObjectMeta{CreationTimestamp: at(100)}, subjects: subject("Group", "blue"), refused: true},
		"a newer group is meant":         {meta: metav1.ObjectMeta{CreationTimestamp: at(101)}, subjects: subject("Group", "blue")},
		"another group":                  {meta: metav1.ObjectMeta{CreationTimestamp: at(50)}, subjects: subject("Group", "red")},
		"a service account is no user":   {meta: metav1.ObjectMeta{CreationTimestamp: at(50)}, subjects: subject("ServiceAccount", "blue")},
		"one labelled as the consumer's": {meta: metav1.ObjectMeta{CreationTimestamp: at(50), Labels: map[string]string{names.RemoteClusterID: "blue"}}, subjects: subject("Group", "blue")},
		"one labelled as another's":      {meta: metav1.ObjectMeta{CreationTimestamp: at(50), Labels: map[string]string{names.RemoteClusterID: "red"}}, subjects: subject("Group", "blue"), refused: true},
		"one in the tenant namespace":    {meta: metav1.ObjectMeta{CreationTimestamp: at(50), Namespace: "tenant"}, subjects: subject("User", "blue")},
		"one among several subjects":     {meta: metav1.ObjectMeta{CreationTimestamp: at(50)}, subjects: append(subject("User", "x"), subject("Group", "blue")...), refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := Binding{Kind: "RoleBinding", Object: &rbacv1.RoleBinding{ObjectMeta: test.meta}, Subjects: test.subjects}
			since := at(100)
			if err := b.Check("blue", "blue", "tenant", &since); (err != nil) != test.refused {
				t.Errorf("got %v", err)
			}
			early := test.refused || name == "a newer group is meant"
			if err := b.Check("blue", "blue", "tenant", nil); (err != nil) != early {
				t.Errorf("before anybody of that name was accepted: %v", err)
			}
		})
	}
}
