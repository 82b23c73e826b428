// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"encoding/base64"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestGenerateTenantDryRun(t *testing.T) {
	c := &testCluster{ControlPlane: testkit.Cluster(t), id: testkit.UniqueID()}
	c.liqo = testkit.Namespace(t, c.ControlPlane, "liqo", nil)
	ctltest.Lend(t, c.ControlPlane, identityOf(c.id, c.liqo))
	provider, nonce := testkit.UniqueID(), strings.Repeat("YWFh", 21)+"YQ=="
	r := liqoctlIn(t, c, "generate", "tenant", "--remote-cluster-id", provider, "--nonce", nonce, "--dry-run")
	r.succeeds(t)
	written := documents(t, r.stdout)
	if len(written) != 2 || written[0].GetKind() != "Namespace" || written[1].GetKind() != "Secret" {
		t.Fatalf("it prints\n%s", r.stdout)
	}
	namespace, secret := written[0], written[1]
	if namespace.GetName() != "liqo-tenant-"+provider || namespace.GetLabels()[names.TenantNamespace] != "true" || namespace.GetLabels()[names.RemoteClusterID] != provider {
		t.Errorf("the namespace is\n%s", r.stdout)
	}
	held, _, err := unstructured.NestedString(secret.Object, "data", names.NonceKey)
	if want := base64.StdEncoding.EncodeToString([]byte(nonce)); err != nil || held != want {
		t.Errorf("it has the nonce %q, want %q: %v", held, want, err)
	}
	if secret.GetNamespace() != namespace.GetName() || secret.GetName() != names.SignedNonceSecret || secret.GetLabels()[names.SignedNonce] != "true" || secret.GetLabels()[names.RemoteClusterID] != provider {
		t.Errorf("the Secret is\n%s", r.stdout)
	}
	for _, obj := range written {
		if err := isGone(c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)); err != nil {
			t.Errorf("a dry run made the %s: %v", obj.GetKind(), err)
		}
	}
}
