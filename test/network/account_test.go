// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"testing"
)

var (
	//go:embed testdata/account.yaml
	accountYAML string
	//go:embed testdata/lodger.yaml
	lodgerYAML string
)

// A pod in the provider is, for the API server of its own cluster, its own account, and reads there what that account may; the
// provider's API server it does not know. One that is to use the provider's has an account there, and reads there what that account may.
func TestPodAPIAccess(t *testing.T) {
	connect(t)
	p := peer(t, "account")
	// What is made while the network is not known yet would have no token.
	eventually(t, "the network to be known", func(context.Context) error {
		out, err := a.Kubectl("", "get", "foreigncluster", b.ID, "-o", "jsonpath={.status.modules.networking.enabled}")
		if err == nil && out != "true" {
			err = fmt.Errorf("networking is enabled: %q", out)
		}
		return err
	})
	eventually(t, "an account in the provider", func(context.Context) error {
		_, err := b.Kubectl(lodgerYAML, "apply", "-n", p.Twin(), "-f", "-")
		return err
	})
	kubectl(t, a, accountYAML, "apply", "-n", p.Namespace, "-f", "-")

	const files = "/var/run/secrets/kubernetes.io/serviceaccount/"
	for _, who := range []struct{ pod, in string }{{"asker", p.Namespace}, {"guest", p.Twin()}} {
		ask := func(path string) (string, error) {
			return a.Kubectl("", "exec", "-n", p.Namespace, who.pod, "--", "/httpd", "--ca", files+"ca.crt", "--token", files+"token", "get", "https://kubernetes.default"+path)
		}
		eventually(t, "the pod "+who.pod+" to read the pods of the namespace "+who.in, func(context.Context) error {
			out, err := ask("/api/v1/namespaces/" + who.in + "/pods/" + who.pod)
			if want := `"namespace":"` + who.in + `"`; err == nil && !strings.Contains(out, want) {
				err = fmt.Errorf("the answer is %.300q", out)
			}
			return err
		})
		if out, err := ask("/api/v1/nodes"); err == nil || !strings.Contains(err.Error(), "403") {
			t.Errorf("the pod %s reads what its account may not: %.300q, %v", who.pod, out, err)
		}
	}

	eventually(t, "the pod without access to run", func(context.Context) error {
		out, err := a.Kubectl("", "exec", "-n", p.Namespace, "hermit", "--", "sh", "-c", `echo "[$KUBERNETES_SERVICE_HOST]" $(ls `+files+`)`)
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
