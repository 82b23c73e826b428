// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"liqo.io/liqo/test/clusters"
)

// It runs after the other stories: their time counts.
func TestWebhookCertificateRenewal(t *testing.T) {
	eventually(t, "two renewals of a certificate of two minutes", func(context.Context) error {
		if _, certificates, _ := admissions.seen(); certificates < 3 {
			return fmt.Errorf("%d certificates were served with", certificates)
		}
		return nil
	})
	count, certificates, failures := admissions.seen()
	t.Logf("%d admissions, %d certificates", count, certificates)
	if failures != nil {
		t.Error(failures)
	}
}

// It is the last one: nothing runs after it.
func TestUninstall(t *testing.T) {
	if _, err := consumer.Liqoctl("uninstall", "--skip-confirm"); err == nil || !strings.Contains(err.Error(), admissionNamespace) {
		t.Fatalf("an installation in use was removed, or it is not said what uses it: %v", err)
	}
	consumer.mustKubectl(t, "delete", "namespace", admissionNamespace, "--timeout=2m")
	for _, c := range []*cluster{consumer, provider} {
		if _, err := c.Liqoctl("uninstall", "--skip-confirm", "--purge"); err != nil {
			t.Fatal(err)
		}
		eventually(t, c.ID+" to be as before the installation", func(ctx context.Context) error {
			now, err := c.Listing(ctx)
			if err != nil {
				return err
			}
			if diff := clusters.Changes(c.empty, now); diff != "" {
				return fmt.Errorf("(-before +after):\n%s", diff)
			}
			return nil
		})
	}
}
