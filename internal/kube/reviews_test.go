// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// account makes a ServiceAccount and returns a token of it.
func account(t *testing.T, clients kubernetes.Interface, name string) string {
	t.Helper()
	accounts := clients.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(t.Context(), name, &authnv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

func TestMetricsAuthorization(t *testing.T) {
	c := testkit.Cluster(t)
	clients := kubernetes.NewForConfigOrDie(c.Config)
	scraper, other := account(t, clients, "scraper"), account(t, clients, "other")
	_, err := clients.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = clients.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "scraper"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "scraper"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	mgr, err := kube.NewManager(c.Config, kube.ManagerOptions{Name: "reviewed", HealthAddress: "0", MetricsAddress: address, RepeatNames: true})
	if err != nil {
		t.Fatal(err)
	}
	visitor := visit(t, mgr)
	for _, try := range []struct {
		header string
		want   int
	}{
		{"", http.StatusUnauthorized},
		{"Bearer", http.StatusUnauthorized},
		{"Basic " + scraper, http.StatusUnauthorized},
		{"Bearer nobody", http.StatusUnauthorized},
		{"Bearer " + other, http.StatusForbidden},
		{"Bearer " + scraper, http.StatusOK},
		{"bearer " + scraper, http.StatusOK},
	} {
		// The API server learns of new rights by watches of its own.
		testkit.Eventually(t, limit, func() error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
			if err != nil {
				return err
			}
			req.Header.Set("Authorization", try.header)
			resp, err := visitor.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != try.want {
				return fmt.Errorf("%.12q: got %s, want %d", try.header, resp.Status, try.want)
			}
			return nil
		})
	}
}

func TestReviewsWithoutAPIServer(t *testing.T) {
	c := testkit.Cluster(t)
	clients := kubernetes.NewForConfigOrDie(c.Config)
	reviews := kube.NewReviews(clients.AuthenticationV1(), clients.AuthorizationV1())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok, err := reviews.Who(ctx, "token"); ok || err == nil {
		t.Errorf("a token: %v, %v", ok, err)
	}
	if ok, _, err := reviews.May(ctx, authzv1.SubjectAccessReviewSpec{User: "u", NonResourceAttributes: &authzv1.NonResourceAttributes{Path: "/", Verb: "get"}}); ok || err == nil {
		t.Errorf("a right: %v, %v", ok, err)
	}
}
