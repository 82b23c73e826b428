// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"errors"
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/auth"
	"liqo.io/liqo/internal/issue"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// newParty is a cluster with the authentication module.
func newParty(t *testing.T, n int, id string) *town {
	t.Helper()
	c := &town{ControlPlane: testkit.NthCluster(t, n, testkit.WithControllers(
		"certificatesigningrequest-signing-controller", "garbage-collector-controller", "namespace-controller")), id: id}
	c.liqo = testkit.Namespace(t, c.ControlPlane, "liqo", nil)
	testkit.Create(t, c.Client, identityOf(id, c.liqo))
	c.authenticates(t)
	return c
}

// authenticates runs the authentication module.
func (c *town) authenticates(t *testing.T) {
	t.Helper()
	id := liqov1beta1.ClusterID(c.id)
	c.stop = testkit.Manager(t, c.Config, kube.ManagerOptions{Name: "auth-" + c.id}, func(mgr ctrl.Manager) error {
		return errors.Join(
			auth.SetupKeys(mgr, auth.KeysOptions{LiqoNamespace: c.liqo}),
			auth.SetupSigner(mgr, auth.SignerOptions{ClusterID: id, LiqoNamespace: c.liqo}),
			auth.SetupTenant(mgr, auth.TenantOptions{ClusterID: id, LiqoNamespace: c.liqo, Server: issue.Server{Address: c.Config.Host}}),
			auth.SetupIdentity(mgr, auth.IdentityOptions{LiqoNamespace: c.liqo}),
		)
	})
}

// introduced runs authenticate or unauthenticate from consumer to provider.
func introduced(t *testing.T, consumer, provider *town, args ...string) result {
	t.Helper()
	return liqoctl(t, consumer.Config, append(args, "--remote-kubeconfig", kubeconfigFile(t, provider.Config),
		"--namespace", consumer.liqo, "--remote-namespace", provider.liqo)...)
}

const authenticated = ` INFO   (local) Tenant namespace correctly ensured
 INFO   (remote) Tenant namespace correctly ensured
 INFO   (remote) Nonce secret ensured
 INFO   (remote) Nonce generated successfully
 INFO   (remote) Nonce retrieved
 INFO   (local) Signed nonce secret ensured
 INFO   (local) Nonce is signed
 INFO   (local) Signed nonce retrieved
 INFO   (local) Tenant correctly generated
 INFO   (remote) Tenant correctly applied on provider cluster
 INFO   (remote) Tenant status is filled
 INFO   (remote) Identity correctly generated
 INFO   (local) Identity correctly applied on consumer cluster
 INFO   (local) Identity status is filled
`

func TestAConsumerIsAuthenticated(t *testing.T) {
	genoa, turin := newParty(t, 2, "genoa"), newParty(t, 3, "turin")
	for range 2 {
		wantTranscript(t, introduced(t, genoa, turin, "authenticate"), identities+authenticated)
	}
}
