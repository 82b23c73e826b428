// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"
)

// ProcessRole makes a ClusterRole, unless there is one of that name, of what a process of the chart may do: in the whole
// cluster, or in the namespaces of that sort if namespace is one of its markers.
func ProcessRole(t testing.TB, c *ControlPlane, name, process, namespace string) {
	t.Helper()
	path, err := moduleFile("deploy/chart/files/rbac/" + process + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("reading the rights of %s: %v", process, err)
	}
	for doc := range strings.SplitSeq(string(data), "---\n") {
		role := &rbacv1.ClusterRole{} // a Role has the same fields
		if err := yaml.UnmarshalStrict([]byte(doc), role); err != nil {
			t.Fatalf("reading the rights of %s: %v", process, err)
		}
		if role.Kind == "" || role.Namespace != namespace {
			continue
		}
		role = &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: role.Rules}
		if err := client.IgnoreAlreadyExists(c.Client.Create(t.Context(), role)); err != nil {
			t.Fatalf("making ClusterRole %s: %v", name, err)
		}
		return
	}
	t.Fatalf("%s has no rights in namespace %q", process, namespace)
}

// settling is a client with which rights are in force when their binding was made or updated, if their role is there: the API server
// learns of them by a watch of its own, a little later. What failed only because a webhook was late, on a busy machine, is tried again.
func settling(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := unlessLate(func() error { return c.Create(ctx, obj, opts...) }); err != nil || slices.Contains(opts, client.CreateOption(client.DryRunAll)) {
				return err
			}
			return inForce(ctx, c, obj)
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			if err := unlessLate(func() error { return c.Update(ctx, obj, opts...) }); err != nil {
				return err
			}
			return inForce(ctx, c, obj)
		},
	})
}

// unlessLate does something until no webhook took longer than the API server waits for it, which then has written nothing, a few times at most.
func unlessLate(do func() error) error {
	const most = 10
	for i := 1; ; i++ {
		if err := do(); i == most || !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "failed calling webhook") || !strings.Contains(err.Error(), "deadline exceeded") {
			return err
		}
	}
}

// inForce waits until all rights that a binding gives are, if obj is one and its role exists.
func inForce(ctx context.Context, c client.Client, obj client.Object) error {
	var ref rbacv1.RoleRef
	var subjects []rbacv1.Subject
	switch b := obj.(type) {
	case *rbacv1.RoleBinding:
		ref, subjects = b.RoleRef, b.Subjects
	case *rbacv1.ClusterRoleBinding:
		ref, subjects = b.RoleRef, b.Subjects
	default:
		return nil
	}
	granted, err := rulesOf(ctx, c, obj.GetNamespace(), ref)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	for _, subject := range subjects {
		for _, rule := range granted {
			if len(rule.NonResourceURLs) > 0 && obj.GetNamespace() != "" {
				continue // a RoleBinding does not give that
			}
			review := reviewOf(subject, rule, obj.GetNamespace())
			err := retry(ctx, patience, func() error {
				review := review.DeepCopy()
				if err := c.Create(ctx, review); err != nil || review.Status.Allowed {
					return err
				}
				return fmt.Errorf("%s %s may not yet do what %s %s says: %v", subject.Kind, subject.Name, ref.Kind, ref.Name, rule)
			})
			if err != nil {
				return fmt.Errorf("waiting for rights: %w", err)
			}
		}
	}
	return nil
}

func rulesOf(ctx context.Context, c client.Client, namespace string, ref rbacv1.RoleRef) ([]rbacv1.PolicyRule, error) {
	if ref.Kind == "Role" {
		role := &rbacv1.Role{}
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, role)
		return role.Rules, err
	}
	role := &rbacv1.ClusterRole{}
	err := c.Get(ctx, client.ObjectKey{Name: ref.Name}, role)
	return role.Rules, err
}

// reviewOf asks for the first of what a rule allows: it comes into force as a whole.
func reviewOf(subject rbacv1.Subject, rule rbacv1.PolicyRule, namespace string) *authorizationv1.SubjectAccessReview {
	review := &authorizationv1.SubjectAccessReview{}
	switch spec := &review.Spec; subject.Kind {
	case rbacv1.UserKind:
		spec.User = subject.Name
	case rbacv1.GroupKind:
		spec.User, spec.Groups = "anybody", []string{subject.Name}
	case rbacv1.ServiceAccountKind:
		spec.User = "system:serviceaccount:" + subject.Namespace + ":" + subject.Name
	}
	first := func(of []string) string { return strings.Join(of[:min(1, len(of))], "") }
	if len(rule.NonResourceURLs) > 0 {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: first(rule.NonResourceURLs), Verb: first(rule.Verbs)}
		return review
	}
	resource, subresource, _ := strings.Cut(first(rule.Resources), "/")
	review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Namespace: namespace, Group: first(rule.APIGroups), Resource: resource, Subresource: subresource, Verb: first(rule.Verbs), Name: first(rule.ResourceNames),
	}
	return review
}
