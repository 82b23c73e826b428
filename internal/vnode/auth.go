// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package vnode

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

// gate lets through who the local API server knows and allows to use this node, as a kubelet does.
type gate struct {
	authn authenticator.Request
	authz authorizer.Authorizer
	node  string
	log   logr.Logger
	next  http.Handler
}

const (
	authCacheTTL      = 10 * time.Second
	authAnswerTimeout = 10 * time.Second
)

// authBackoff bounds how long a client waits while the local API server does not answer.
var authBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}

// newGate trusts the client certificates that the local API server trusts, and asks it about tokens and rights. The
// certificate authority is followed until ctx ends.
func newGate(ctx context.Context, clients kubernetes.Interface, node string, log logr.Logger) (*gate, error) {
	ca, err := dynamiccertificates.NewDynamicCAFromConfigMapController(
		"client-ca", metav1.NamespaceSystem, "extension-apiserver-authentication", "client-ca-file", clients)
	if err != nil {
		return nil, fmt.Errorf("following the authority of client certificates: %w", err)
	}
	if err := ca.RunOnce(ctx); err != nil {
		return nil, fmt.Errorf("reading the authority of client certificates: %w", err)
	}
	go ca.Run(ctx, 1)
	backoff := authBackoff
	authn, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient:            clients.AuthenticationV1(),
		TokenAccessReviewTimeout:           authAnswerTimeout,
		WebhookRetryBackoff:                &backoff,
		CacheTTL:                           authCacheTTL,
		ClientCertificateCAContentProvider: ca,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("making the authenticator: %w", err)
	}
	authz, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: clients.AuthorizationV1(),
		AllowCacheTTL:             authCacheTTL,
		DenyCacheTTL:              authCacheTTL,
		WebhookRetryBackoff:       &backoff,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("making the authorizer: %w", err)
	}
	return &gate{authn: authn, authz: authz, node: node, log: log}, nil
}

// guard puts the gate before h.
func (g *gate) guard(h http.Handler) http.Handler {
	guarded := *g
	guarded.next = h
	return &guarded
}

func (g *gate) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	who, ok, err := g.authn.AuthenticateRequest(req)
	if err != nil {
		g.log.V(1).Info("client not authenticated", "from", req.RemoteAddr, "reason", err.Error())
	}
	if err != nil || !ok {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	what, decision, reason, err := g.authorize(who.User, req)
	switch {
	case err != nil:
		g.log.Error(err, "asking for the rights of a client", "user", who.User.GetName())
		http.Error(w, "Authorization error", http.StatusInternalServerError)
	case decision != authorizer.DecisionAllow:
		g.log.V(1).Info("client not allowed", "user", who.User.GetName(), "subresource", what.Subresource, "reason", reason)
		http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource=%s)",
			who.User.GetName(), what.Verb, what.Subresource), http.StatusForbidden)
	default:
		g.next.ServeHTTP(w, req)
	}
}

// authorize asks for each right that suffices, and returns the last that it asked for.
func (g *gate) authorize(who user.Info, req *http.Request) (what authorizer.AttributesRecord, decision authorizer.Decision, reason string, err error) {
	for _, sub := range subresources(req.URL.Path) {
		what = attributes(who, g.node, sub, req)
		decision, reason, err = g.authz.Authorize(req.Context(), what)
		if err == nil && decision == authorizer.DecisionAllow {
			break
		}
	}
	return what, decision, reason, err
}

// attributes are a right to a part of the node.
func attributes(who user.Info, node, subresource string, req *http.Request) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: who, Verb: verb(req), APIVersion: "v1", Resource: "nodes", Subresource: subresource,
		Name: node, ResourceRequest: true, Path: req.URL.Path,
	}
}

// verb follows the method, except that running something in a container is never just reading, though a WebSocket
// begins with GET.
func verb(req *http.Request) string {
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

// subresources are the parts of the node of which one must be allowed, those of a kubelet.
func subresources(path string) []string {
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
