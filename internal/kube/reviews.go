// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/wait"
	authnclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authzclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Reviews authenticates and authorizes clients through the API server, as kubelets do (TokenReview,
// SubjectAccessReview).
//
// The equivalent package of k8s.io/apiserver imports CEL, gRPC and OpenTelemetry, which Liqo does not use: a sixth of
// the size of the program, in every process.
type Reviews struct {
	tokens  authnclient.TokenReviewInterface
	access  authzclient.SubjectAccessReviewInterface
	answers *cache.LRUExpireCache
}

const (
	// reviewTTL is how long a review is cached; a revoked permission stays effective for as long.
	reviewTTL     = 10 * time.Second
	reviewAnswers = 4096
)

// reviewRetry limits the retries while the API server does not answer.
var reviewRetry = Retry{
	Backoff: wait.Backoff{Duration: 200 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}, Attempts: 5, Timeout: 10 * time.Second,
}

// NewReviews returns Reviews with these clients of one API server.
func NewReviews(tokens authnclient.TokenReviewsGetter, access authzclient.SubjectAccessReviewsGetter) *Reviews {
	return &Reviews{tokens: tokens.TokenReviews(), access: access.SubjectAccessReviews(), answers: cache.NewLRUExpireCache(reviewAnswers)}
}

// reviewKey is the hash of a request: the cache stores no tokens.
type reviewKey [sha256.Size]byte

// Who returns the user authenticated by a bearer token, and false for an invalid token.
func (r *Reviews) Who(ctx context.Context, token string) (authnv1.UserInfo, bool, error) {
	key := reviewKey(sha256.Sum256([]byte("token " + token)))
	if known, ok := r.answers.Get(key); ok {
		status := known.(authnv1.TokenReviewStatus)
		return status.User, status.Authenticated, nil
	}
	var review *authnv1.TokenReview
	err := reviewRetry.Do(ctx, func(ctx context.Context) (err error) {
		review, err = r.tokens.Create(ctx, &authnv1.TokenReview{Spec: authnv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
		return err
	})
	switch {
	case err != nil:
		return authnv1.UserInfo{}, false, fmt.Errorf("reviewing a token: %w", err)
	case !review.Status.Authenticated && review.Status.Error != "": // not cached: the error may be transient
		return authnv1.UserInfo{}, false, nil
	}
	r.answers.Add(key, review.Status, reviewTTL)
	return review.Status.User, review.Status.Authenticated, nil
}

// May reports whether a user may perform a request, both in what, and the reason of the API server, if any.
func (r *Reviews) May(ctx context.Context, what authzv1.SubjectAccessReviewSpec) (allowed bool, reason string, err error) {
	question, err := json.Marshal(what)
	if err != nil {
		return false, "", fmt.Errorf("describing a request: %w", err)
	}
	key := reviewKey(sha256.Sum256(question))
	if known, ok := r.answers.Get(key); ok {
		status := known.(authzv1.SubjectAccessReviewStatus)
		return status.Allowed, status.Reason, nil
	}
	var review *authzv1.SubjectAccessReview
	err = reviewRetry.Do(ctx, func(ctx context.Context) (err error) {
		review, err = r.access.Create(ctx, &authzv1.SubjectAccessReview{Spec: what}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return false, "", fmt.Errorf("reviewing the rights of %q: %w", what.User, err)
	}
	status := review.Status
	if status.Allowed && status.Denied {
		return false, "", fmt.Errorf("reviewing the rights of %q: both allowed and denied", what.User)
	}
	r.answers.Add(key, status, reviewTTL)
	return status.Allowed, status.Reason, nil
}

// metricsFilter authenticates clients by bearer token, and authorizes those with permission to get the path.
func metricsFilter(config *rest.Config, transport *http.Client) (metricsserver.Filter, error) {
	authn, err := authnclient.NewForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("making a client for TokenReviews: %w", err)
	}
	authz, err := authzclient.NewForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("making a client for SubjectAccessReviews: %w", err)
	}
	reviews := NewReviews(authn, authz)
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			status, err := reviews.reviewRequest(req)
			switch {
			case err != nil:
				log.Error(err, "reviewing a client")
				http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			case status != http.StatusOK:
				http.Error(w, http.StatusText(status), status)
			default:
				next.ServeHTTP(w, req)
			}
		}), nil
	}, nil
}

// reviewRequest returns the status OK, Unauthorized or Forbidden for a request to a non-resource path.
func (r *Reviews) reviewRequest(req *http.Request) (status int, err error) {
	scheme, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "bearer") || token == "" {
		return http.StatusUnauthorized, nil
	}
	user, known, err := r.Who(req.Context(), token)
	if err != nil || !known {
		return http.StatusUnauthorized, err
	}
	allowed, _, err := r.May(req.Context(), authzv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: Extra(user.Extra),
		NonResourceAttributes: &authzv1.NonResourceAttributes{Path: req.URL.Path, Verb: strings.ToLower(req.Method)},
	})
	if err != nil || !allowed {
		return http.StatusForbidden, err
	}
	return http.StatusOK, nil
}

// Extra converts the extra attributes of a user to the type of a SubjectAccessReview.
func Extra[V ~[]string](of map[string]V) map[string]authzv1.ExtraValue {
	if len(of) == 0 {
		return nil
	}
	out := make(map[string]authzv1.ExtraValue, len(of))
	for key, values := range of {
		out[key] = authzv1.ExtraValue(values)
	}
	return out
}
