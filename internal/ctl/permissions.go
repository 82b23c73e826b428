// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/names"
)

// permissions are the verbs of a command on one resource in the namespace of its objects, "" for cluster-scoped ones.
type permissions struct {
	namespace string
	resource  schema.GroupResource
	verbs     []string
}

func networkingPermissions(namespace, resource string, verbs ...string) permissions {
	return permissions{namespace, schema.GroupResource{Group: networkingv1beta1.GroupName, Resource: resource}, verbs}
}

// missingRights returns the permissions to create the missing namespace of an object. The policy liqo-namespaces requires the
// permission to create Tenants from users who set its label.
func (s *Cluster) missingRights(namespace string) []permissions {
	if !s.wholeCluster().missing || namespace != s.namespace {
		return nil
	}
	return []permissions{
		{"", schema.GroupResource{Resource: "namespaces"}, []string{"create"}},
		{"", schema.GroupResource{Group: authv1beta1.GroupVersion.Group, Resource: authv1beta1.TenantResource}, []string{names.VerbOriginate}},
	}
}

// parallelReviews bounds the concurrent access reviews.
const parallelReviews = 8

// requirePermissions is the permission check of the preflight: it fails, before the first change, with all permissions that the user
// lacks.
func (s *Cluster) requirePermissions(ctx context.Context, wanted ...permissions) error {
	return s.demandOf(ctx, "", wanted...)
}

// demandOf is requirePermissions for an object with a name. Permissions for all objects include it.
func (s *Cluster) demandOf(ctx context.Context, name string, wanted ...permissions) error {
	var asked []authorizationv1.ResourceAttributes
	for _, w := range wanted {
		for _, verb := range w.verbs {
			asked = append(asked, authorizationv1.ResourceAttributes{Verb: verb, Group: w.resource.Group, Resource: w.resource.Resource, Namespace: w.namespace, Name: name})
		}
	}
	if len(asked) > 1 { // an administrator has all permissions: one review is enough
		may, err := s.isAllowed(ctx, authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"})
		if err != nil || may {
			return s.wrapWithCluster(err)
		}
	}
	denied := make([]bool, len(asked))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(parallelReviews)
	for i, a := range asked {
		group.Go(func() error {
			may, err := s.isAllowed(within, a)
			denied[i] = !may
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return s.wrapWithCluster(err)
	}
	if !slices.Contains(denied, true) {
		return nil
	}
	return s.wrapWithCluster(out.Fail("you are not allowed to %s", listDenied(asked, denied)).Hint(askForRights).
		See("docs/troubleshooting.md#is-forbidden-or-you-are-not-allowed-to"))
}

// isAllowed reports whether the user has a permission. A * is allowed only to users with all permissions.
func (s *Cluster) isAllowed(ctx context.Context, a authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a}}
	if err := s.kube.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking what you may do: %w", err)
	}
	return review.Status.Allowed, nil
}

// listDenied returns the denied permissions in words. Adjacent ones in the same namespace name it once.
func listDenied(asked []authorizationv1.ResourceAttributes, denied []bool) string {
	var text []string
	in := ""
	for i, a := range asked {
		if !denied[i] {
			continue
		}
		if in != "" && in != a.Namespace {
			text[len(text)-1] += " in namespace " + in
		}
		in = a.Namespace
		text = append(text, a.Verb+" "+schema.GroupResource{Group: a.Group, Resource: a.Resource}.String())
	}
	if in != "" {
		text[len(text)-1] += " in namespace " + in
	}
	return strings.Join(text, ", ")
}
