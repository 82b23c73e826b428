// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package metricagent

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"

	"liqo.io/liqo/internal/pki"
)

// newAuthenticator accepts user names and groups only from the API server's aggregator, authenticated by the front-proxy certificate. The API
// server's configuration of this certificate is watched until ctx ends.
func newAuthenticator(ctx context.Context, clients kubernetes.Interface) (authenticator.Request, error) {
	const configMap = "extension-apiserver-authentication"
	ca, err := dynamiccertificates.NewDynamicCAFromConfigMapController("front-proxy-ca", metav1.NamespaceSystem, configMap, "requestheader-client-ca-file", clients)
	if err != nil {
		return nil, fmt.Errorf("following the authority of front-proxy certificates: %w", err)
	}
	headers := headerrequest.NewRequestHeaderAuthRequestController(configMap, metav1.NamespaceSystem, clients,
		"requestheader-username-headers", "requestheader-uid-headers", "requestheader-group-headers", "requestheader-extra-headers-prefix", "requestheader-allowed-names")
	for _, follow := range []dynamiccertificates.ControllerRunner{ca, headers} {
		if err := follow.RunOnce(ctx); err != nil {
			return nil, fmt.Errorf("reading how the API server authenticates as an aggregator: %w", err)
		}
		go follow.Run(ctx, 1)
	}
	value := func(of func() []string) headerrequest.StringSliceProvider {
		return headerrequest.StringSliceProviderFunc(of)
	}
	return headerrequest.NewDynamicVerifyOptionsSecure(ca.VerifyOptions, value(headers.AllowedClientNames), value(headers.UsernameHeaders),
		value(headers.UIDHeaders), value(headers.GroupHeaders), value(headers.ExtraHeaderPrefixes)), nil
}

// authenticateRequests passes requests that come through the API server, with their user in the context.
func authenticateRequests(authn authenticator.Request, next http.Handler, log logr.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		who, ok, err := authn.AuthenticateRequest(req)
		if err != nil {
			log.V(1).Info("client not authenticated", "from", req.RemoteAddr, "reason", err.Error())
		}
		if err != nil || !ok {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), userKey{}, who.User)))
	})
}

// userKey is the key of the user in the context of a request.
type userKey struct{}

// userOf returns the authenticated user of a request, nil for none.
func userOf(req *http.Request) user.Info {
	who, _ := req.Context().Value(userKey{}).(user.Info)
	return who
}

// isTenant reports whether a user is a virtual kubelet of the consumer: the certificate was signed for a slice of the consumer.
func isTenant(who user.Info, consumer string) bool {
	return consumer != "" && slices.Contains(who.GetGroups(), consumer) && pki.CouldBeOfSlice(who.GetName(), consumer)
}
