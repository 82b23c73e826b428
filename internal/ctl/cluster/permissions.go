// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
)

// The namespaces of a rule, "" for cluster-scoped objects and all namespaces.
const (
	tenant = "tenant"
	liqo   = "liqo"
	object = "object"
)

// rules lists the verbs on resources that an action needs, and the namespace.
var rules = []struct{ action, namespace, resources, verbs string }{
	{"create tenant namespace", "", "namespaces", "create"},
	// The policy liqo-namespaces requires this of users who set the label of tenant namespaces.
	{"create tenant namespace", "", "tenants.authentication.liqo.io", names.VerbOriginate},
	{"delete tenant namespace", tenant, "namespaces", "get delete"},
	{"watch namespaces", "", "namespaces", "watch"},

	{"create nonce", tenant, "secrets", "create"},
	{"replace nonce", tenant, "secrets", "get list watch patch delete"},
	{"delete nonce", tenant, "secrets", "list delete"},
	{"sign nonce", tenant, "secrets", "get list watch create patch delete"},
	{"sign nonce", liqo, "secrets", "get watch"},
	{"delete credentials", tenant, "secrets", "get list watch delete"},
	{"create Tenant", tenant, "tenants.authentication.liqo.io", "get list watch create patch"},
	{"create Identity", tenant, "identities.authentication.liqo.io", "get list watch create patch"},
	{"create ResourceSlice", object, "resourceslices.authentication.liqo.io", "get watch create patch"},
	{"declare unreachable", "", "foreignclusters.core.liqo.io", "patch"},
	{"create peering user", "", "certificatesigningrequests.certificates.k8s.io", "get list watch create delete"},
	{"create peering user", "", "certificatesigningrequests/approval.certificates.k8s.io", "update"},
	{"create peering user", "", "subjectaccessreviews.authorization.k8s.io", "create"},
	{"create peering user", liqo, "rolebindings.rbac.authorization.k8s.io", "get create delete"},
	{"create peering user", tenant, "rolebindings.rbac.authorization.k8s.io", "get create delete"},

	{"write Configuration", object, "configurations.networking.liqo.io", "get list watch create patch delete"},
	{"create GatewayServer", object, "gatewayservers.networking.liqo.io", "get list watch create patch"},
	{"create GatewayServer", object, "wggatewayservers.networking.liqo.io", "get list watch"},
	{"create GatewayClient", object, "gatewayclients.networking.liqo.io", "get list watch create patch"},
	{"create GatewayClient", object, "wggatewayclients.networking.liqo.io", "get list watch"},
	{"connect gateway", object, "publickeies.networking.liqo.io", "get list create patch delete"},
	{"connect gateway", object, "pods", "list watch"},
	{"connect gateway", object, "connections.networking.liqo.io deployments.apps", "get list watch"},
	{"watch GatewayServer", object, "gatewayservers.networking.liqo.io", "get watch"},
	{"watch GatewayClient", object, "gatewayclients.networking.liqo.io", "get watch"},
	{"watch gateway", object, "connections.networking.liqo.io deployments.apps", "get watch"},
	{"watch gateway", object, "pods", "list watch"},

	{"test network", "", "namespaces", "get list watch create delete"},
	{"test network", "", "nodes configurations.networking.liqo.io", "list"},
	{"test from client pods", object, "pods", "get list watch create"},
	{"test from client pods", object, "serviceaccounts", "list watch"},
	{"test to Services", object, "services", "get list watch"},
	{"test to Services", object, "endpointslices.discovery.k8s.io", "list watch"},
	{"test to server pods", object, "pods", "list"},
	{"test offloaded servers", object, "services", "create"},
	{"test offloaded servers", object, "namespaceoffloadings.offloading.liqo.io", "get list watch create"},
	{"test offloaded servers", "", "virtualnodes.offloading.liqo.io", "list"},
	{"test IP", "", "ips.ipam.liqo.io", "list"},
	{"test IP", object, "ips.ipam.liqo.io", "get watch create"},

	{"bench", "", "namespaces", "get list watch create delete"},
	{"bench", "", "nodes configurations.networking.liqo.io", "list"},
	{"bench from pods", object, "pods", "get list watch create"},
	{"bench from pods", object, "serviceaccounts", "list watch"},
	{"bench local pods", object, "pods", "delete"},
	{"bench offloaded pods", object, "namespaceoffloadings.offloading.liqo.io", "get list watch create"},

	{"find image", liqo, "deployments.apps", "list"},

	{"move volume", "", "persistentvolumes", "get list patch delete"},
	{"move volume", "", "nodes storageclasses.storage.k8s.io", "get"},
	{"move volume", object, "persistentvolumeclaims", "get list watch create delete"},
	{"move volume", object, "pods", "get list watch create delete"},
	{"move volume", object, "secrets", "get list create delete"},
	{"move volume", object, "leases.coordination.k8s.io", "get create update delete"},
	{"move volume", object, "namespaceoffloadings.offloading.liqo.io", "get"},

	{"inspect cluster", "", "nodes configmaps deployments.apps daemonsets.apps", "list"},
	{"inspect cluster", liqo, "secrets", "list"}, // Helm stores its releases in Secrets
	{"validate cluster", "", "pods services", "list"},
	{"read CRDs", "", "customresourcedefinitions.apiextensions.k8s.io", "get"},
	{"install", "", "namespaces", "create"},
	{"install", "", "customresourcedefinitions.apiextensions.k8s.io", "get create patch watch"},
	{"install", liqo, "secrets", "get list create update delete"},
}

// Permission is one verb on a resource, or on the one object with a name. The namespace is "" for cluster-scoped objects.
type Permission struct {
	Namespace, Verb string
	Resource        schema.GroupResource
	Name            string
}

// String returns the permission for messages.
func (p Permission) String() string {
	return p.Verb + " " + p.Resource.String() + inNamespace(p.Namespace)
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}

// Permissions returns the permissions for verbs on resources, both separated by spaces.
func Permissions(namespace, resources, verbs string) (all []Permission) {
	for _, resource := range strings.Fields(resources) {
		for _, verb := range strings.Fields(verbs) {
			all = append(all, Permission{Namespace: namespace, Verb: verb, Resource: schema.ParseGroupResource(resource)})
		}
	}
	return all
}

// Namespaces are the namespaces in the rules: the tenant namespace, the namespace of Liqo and the namespace of the object.
type Namespaces struct{ Tenant, Liqo, Object string }

// PermissionsFor returns the permissions for actions.
func PermissionsFor(in Namespaces, actions ...string) (all []Permission) {
	namespaces := map[string]string{tenant: in.Tenant, liqo: in.Liqo, object: in.Object}
	for _, action := range actions {
		known := len(all)
		for _, rule := range rules {
			if rule.action == action {
				all = append(all, Permissions(namespaces[rule.namespace], rule.resources, rule.verbs)...)
			}
		}
		if len(all) == known {
			panic("no permissions are known for " + action)
		}
	}
	return all
}

// ForObject restricts permissions to the object with a name. Permissions for all objects include it.
func ForObject(name string, all []Permission) []Permission {
	for i := range all {
		all[i].Name = name
	}
	return all
}

// parallelReviews bounds the concurrent access reviews.
const parallelReviews = 16

// MissingPermissions returns the permissions that the user lacks, in order.
func MissingPermissions(ctx context.Context, c client.Client, wanted []Permission) ([]Permission, error) {
	unique := make([]Permission, 0, len(wanted))
	for _, p := range wanted {
		if !slices.Contains(unique, p) {
			unique = append(unique, p)
		}
	}
	if len(unique) > 1 { // an administrator has all permissions: one review is enough
		may, err := isAllowed(ctx, c, Permission{Verb: "*", Resource: schema.GroupResource{Group: "*", Resource: "*"}})
		if err != nil || may {
			return nil, err
		}
	}
	allowed := make(map[Permission]*bool, len(unique))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(parallelReviews)
	for _, p := range unique {
		may := new(bool)
		allowed[p] = may
		group.Go(func() (err error) {
			*may, err = isAllowed(within, c, p)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(unique, func(p Permission) bool { return *allowed[p] }), nil
}

// isAllowed reports whether the user has a permission. A * is allowed only to users with all permissions.
func isAllowed(ctx context.Context, c client.Client, p Permission) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: p.Namespace, Verb: p.Verb, Group: p.Resource.Group, Resource: p.Resource.Resource, Name: p.Name,
	}}}
	if err := c.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking what you may do: %w", err)
	}
	return review.Status.Allowed, nil
}

// Describe returns permissions in words. Adjacent permissions in the same namespace name it once.
func Describe(all []Permission) string {
	var text []string
	for i, p := range all {
		if i+1 < len(all) && all[i+1].Namespace == p.Namespace {
			p.Namespace = ""
		}
		text = append(text, p.String())
	}
	return strings.Join(text, ", ")
}
