// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"liqo.io/liqo/test/clusters"
)

//go:embed testdata/account.yaml
var accountYAML string

// curl asks the API server that the pod knows, with its token.
const curl = `d=/var/run/secrets/kubernetes.io/serviceaccount
wget -q -T 5 -O - --no-check-certificate --header "Authorization: Bearer $(cat $d/token)" --header "Content-Type: application/json" `

// A pod in the provider is, for the API server of its own cluster, its own account, and reads there what that account may; the
// provider's API server it does not know.
func TestAPodUsesTheAPIServerOfItsCluster(t *testing.T) {
	p, err := clusters.NewPeering(t.Context(), a, b, "account")
	if err != nil {
		t.Fatal(err)
	}
	tunnel, err := clusters.Connect(t.Context(), b, a, where)
	t.Cleanup(func() {
		if err := tunnel.Disconnect(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		show(t)
		t.Fatal(err)
	}
	documents, err := p.Documents()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, p) })
	for _, d := range documents {
		on := a
		if d.Cluster == b.ID {
			on = b
		}
		kubectl(t, on, d.Manifest, "apply", "-f", "-")
	}
	// What is made while the network is not known yet would have no token.
	eventually(t, "the network to be known", func(context.Context) error {
		out, err := a.Kubectl("", "get", "foreigncluster", b.ID, "-o", "jsonpath={.status.modules.networking.enabled}")
		if err == nil && out != "true" {
			err = fmt.Errorf("networking is enabled: %q", out)
		}
		return err
	})
	kubectl(t, a, accountYAML, "apply", "-n", p.Namespace, "-f", "-")

	base := `https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT`
	answers := func(what, script, want string) {
		t.Helper()
		eventually(t, what, func(context.Context) error {
			out, err := a.Kubectl("", "exec", "-n", p.Namespace, "asker", "--", "sh", "-c", curl+script)
			if err == nil && !strings.Contains(out, want) {
				err = fmt.Errorf("the answer is %.300q", out)
			}
			return err
		})
	}
	answers("the pod to read the pods of its namespace", base+`/api/v1/namespaces/$(cat $d/namespace)/pods/hermit`, `"namespace":"`+p.Namespace+`"`)
	answers("the pod to be its account", `--post-data '{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}' `+base+`/apis/authentication.k8s.io/v1/selfsubjectreviews`,
		"system:serviceaccount:"+p.Namespace+":reader")
	if out, err := a.Kubectl("", "exec", "-n", p.Namespace, "asker", "--", "sh", "-c", curl+base+"/api/v1/nodes"); err == nil {
		t.Errorf("the pod reads what its account may not: %.300q", out)
	}

	eventually(t, "the pod without access to run", func(context.Context) error {
		out, err := a.Kubectl("", "exec", "-n", p.Namespace, "hermit", "--", "sh", "-c", `echo "[$KUBERNETES_SERVICE_HOST]" $(ls /var/run/secrets/kubernetes.io/serviceaccount)`)
		if err == nil && strings.TrimSpace(out) != "[] ca.crt namespace" {
			err = fmt.Errorf("it has %q", out)
		}
		return err
	})
	kubectl(t, a, "", "delete", "pod", "-n", p.Namespace, "asker")
	eventually(t, "the Secret with the token to go", func(context.Context) error {
		out, err := b.Kubectl("", "get", "secret", "-n", p.Twin(), "--ignore-not-found", "-o", "name", "asker-token")
		if err == nil && out != "" {
			err = fmt.Errorf("%s is there", out)
		}
		return err
	})
}
