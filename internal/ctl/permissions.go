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

// permissions are what a command does to one resource, where its objects are or will be. Namespaces are in none.
type permissions struct {
	namespace string
	resource  schema.GroupResource
	verbs     []string
}

func networkingPermissions(namespace, resource string, verbs ...string) permissions {
	return permissions{namespace, schema.GroupResource{Group: networkingv1beta1.GroupName, Resource: resource}, verbs}
}

// missingRights are those to make the namespace of an object where there is none. The policy liqo-namespaces has only who may originate
// Tenants label it.
func (s *clusterSide) missingRights(namespace string) []permissions {
	if !s.clusterIDOf().missing || namespace != s.namespace {
		return nil
	}
	return []permissions{
		{"", schema.GroupResource{Resource: "namespaces"}, []string{"create"}},
		{"", schema.GroupResource{Group: authv1beta1.GroupVersion.Group, Resource: authv1beta1.TenantResource}, []string{names.VerbOriginate}},
	}
}

// parallelReviews bounds the questions that are asked at once.
const parallelReviews = 8

// requirePermissions fails, before anything is changed, with all that the user may not do.
func (s *clusterSide) requirePermissions(ctx context.Context, wanted ...permissions) error {
	return s.demandOf(ctx, "", wanted...)
}

// demandOf is demand about the objects of a name. Who has the rights on all objects has them, too.
func (s *clusterSide) demandOf(ctx context.Context, name string, wanted ...permissions) error {
	var asked []authorizationv1.ResourceAttributes
	for _, w := range wanted {
		for _, verb := range w.verbs {
			asked = append(asked, authorizationv1.ResourceAttributes{Verb: verb, Group: w.resource.Group, Resource: w.resource.Resource, Namespace: w.namespace, Name: name})
		}
	}
	if len(asked) > 1 { // an administrator may do all, and need not wait for each answer
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

// isAllowed tells whether the user may do something. A * is right only of who may do it to all.
func (s *clusterSide) isAllowed(ctx context.Context, a authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a}}
	if err := s.kube.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking what you may do: %w", err)
	}
	return review.Status.Allowed, nil
}

// listDenied names what is denied. Neighbours in one namespace name it once.
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
