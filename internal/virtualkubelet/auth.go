// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	authzv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"

	"liqo.io/liqo/internal/kube"
)

// authFilter passes requests of users that the local API server authenticates and authorizes for this node, as a kubelet does.
type authFilter struct {
	authn   authenticator.Request
	reviews *kube.Reviews
	node    string
	log     logr.Logger
	next    http.Handler
}

// newGate trusts the client certificates trusted by the local API server, and delegates tokens and permissions to the API server. The
// certificate authority is watched until ctx ends.
func newGate(ctx context.Context, clients kubernetes.Interface, node string, log logr.Logger) (*authFilter, error) {
	ca, err := dynamiccertificates.NewDynamicCAFromConfigMapController(
		"client-ca", metav1.NamespaceSystem, "extension-apiserver-authentication", "client-ca-file", clients)
	if err != nil {
		return nil, fmt.Errorf("following the authority of client certificates: %w", err)
	}
	if err := ca.RunOnce(ctx); err != nil {
		return nil, fmt.Errorf("reading the authority of client certificates: %w", err)
	}
	go ca.Run(ctx, 1)
	reviews := kube.NewReviews(clients.AuthenticationV1(), clients.AuthorizationV1())
	tokens := authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
		who, ok, err := reviews.Who(ctx, token)
		if err != nil || !ok {
			return nil, false, err
		}
		out := &user.DefaultInfo{Name: who.Username, UID: who.UID, Groups: who.Groups, Extra: map[string][]string{}}
		for key, values := range who.Extra {
			out.Extra[key] = values
		}
		return &authenticator.Response{User: out}, true, nil
	})
	authn := group.NewAuthenticatedGroupAdder(union.New(
		x509.NewDynamic(ca.VerifyOptions, x509.CommonNameUserConversion),
		bearertoken.New(tokens),
		websocket.NewProtocolAuthenticator(tokens),
	))
	return &authFilter{authn: authn, reviews: reviews, node: node, log: log}, nil
}

// wrapHandler puts the filter before h.
func (g *authFilter) wrapHandler(h http.Handler) http.Handler {
	guarded := *g
	guarded.next = h
	return &guarded
}

func (g *authFilter) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	who, ok, err := g.authn.AuthenticateRequest(req)
	if err != nil {
		g.log.V(1).Info("client not authenticated", "from", req.RemoteAddr, "reason", err.Error())
	}
	if err != nil || !ok {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	subresource, allowed, reason, err := g.authorizeRequest(who.User, req)
	switch {
	case err != nil:
		g.log.Error(err, "asking for the rights of a client", "user", who.User.GetName())
		http.Error(w, "Authorization error", http.StatusInternalServerError)
	case !allowed:
		g.log.V(1).Info("client not allowed", "user", who.User.GetName(), "subresource", subresource, "reason", reason)
		http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource=%s)",
			who.User.GetName(), verbOf(req), subresource), http.StatusForbidden)
	default:
		g.next.ServeHTTP(w, req)
	}
}

// authorizeRequest checks each sufficient node subresource, and returns the last one checked.
func (g *authFilter) authorizeRequest(who user.Info, req *http.Request) (subresource string, allowed bool, reason string, err error) {
	for _, subresource = range subresourcesOf(req.URL.Path) {
		allowed, reason, err = g.reviews.May(req.Context(), authzv1.SubjectAccessReviewSpec{
			User: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: kube.Extra(who.GetExtra()),
			ResourceAttributes: &authzv1.ResourceAttributes{
				Verb: verbOf(req), Version: "v1", Resource: "nodes", Subresource: subresource, Name: g.node,
			},
		})
		if err == nil && allowed {
			break
		}
	}
	return subresource, allowed, reason, err
}

// verbOf returns the verb of the method, except that running a command in a container is never just reading, though a WebSocket
// begins with GET.
func verbOf(req *http.Request) string {
	for _, prefix := range []string{"/exec/", "/attach/", "/portForward/"} {
		if strings.HasPrefix(req.URL.Path, prefix) {
			return "create"
		}
	}
	switch req.Method {
	case http.MethodGet, http.MethodHead:
		return "get"
	case http.MethodPost:
		return "create"
	}
	return strings.ToLower(req.Method)
}

// subresourcesOf returns the node subresources of a path, the same as of a kubelet. One must be allowed.
func subresourcesOf(path string) []string {
	for _, part := range []struct {
		prefix string
		names  []string
	}{
		{"/stats", []string{"stats"}},
		{"/metrics", []string{"metrics"}},
		{"/logs", []string{"log"}},
		{"/checkpoint", []string{"checkpoint"}},
		{"/pods", []string{"pods", "proxy"}},
		{"/runningpods", []string{"pods", "proxy"}},
		{"/healthz", []string{"healthz", "proxy"}},
	} {
		if path == part.prefix || strings.HasPrefix(path, part.prefix+"/") {
			return part.names
		}
	}
	return []string{"proxy"}
}
