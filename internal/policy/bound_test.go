// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

func TestBoundNamespaces(t *testing.T) {
	account := func(namespace, name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	}
	user := func(name string) rbacv1.Subject { return rbacv1.Subject{Kind: rbacv1.UserKind, Name: name} }
	group := func(name string) rbacv1.Subject { return rbacv1.Subject{Kind: rbacv1.GroupKind, Name: name} }
	for name, tc := range map[string]struct {
		subjects []rbacv1.Subject
		in       string
		want     string
	}{
		"none":           {},
		"account":        {subjects: []rbacv1.Subject{account("argocd", "server")}, want: "argocd"},
		"user":           {subjects: []rbacv1.Subject{user("system:serviceaccount:argocd:server")}, want: "argocd"},
		"group":          {subjects: []rbacv1.Subject{group("system:serviceaccounts:argocd")}, want: "argocd"},
		"all_accounts":   {subjects: []rbacv1.Subject{group("system:serviceaccounts"), group("system:authenticated")}},
		"people":         {subjects: []rbacv1.Subject{user("alice"), group("argocd"), user("system:node:argocd")}},
		"several":        {subjects: []rbacv1.Subject{account("b", "x"), account("a", "x"), account("b", "y")}, want: "a b"},
		"its_own":        {subjects: []rbacv1.Subject{account("demo", "x")}, in: "demo"},
		"of_others":      {subjects: []rbacv1.Subject{account("demo", "x"), account("ci", "x")}, in: "demo", want: "ci"},
		"cut_short":      {subjects: []rbacv1.Subject{user("system:serviceaccount:"), group("system:serviceaccounts:")}},
		"without_a_name": {subjects: []rbacv1.Subject{user("system:serviceaccount:argocd")}, want: "argocd"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(BoundNamespaces(tc.subjects, tc.in), " "); got != tc.want {
				t.Errorf("namespaces = %q, want %q", got, tc.want)
			}
		})
	}
}
