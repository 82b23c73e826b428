// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/internal/ctl/ui"
)

func TestErrorWording(t *testing.T) {
	refused := &url.Error{Op: "Get", URL: "https://10.0.0.1:6443/api/v1/pods?limit=500", Err: syscall.ECONNREFUSED}
	named := func(err error) error {
		return &url.Error{Op: "Get", URL: "https://milan.example:6443/api/v1/pods", Err: err}
	}
	ended := x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: x509.Expired, Detail: "it ended"}
	for want, err := range map[string]error{
		"the certificate of https://milan.example:6443 has ended or has not begun, or the clock of this machine is wrong: " + ended.Error(): named(&tls.CertificateVerificationError{Err: ended}),
		"the name of the server https://milan.example:6443 is not known: lookup milan.example: no such host":                                named(&net.DNSError{Err: "no such host", Name: "milan.example", IsNotFound: true}),
		"listing pods: the connection to the server https://10.0.0.1:6443 was refused - did you specify the right host or port?":            fmt.Errorf("listing pods: %w", refused),
		"waiting for x: timed out waiting for the condition":                                                                                fmt.Errorf("waiting for x: %w", context.DeadlineExceeded),
		"plain": fmt.Errorf("plain"),
	} {
		if got := DescribeError(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestPrintJoinedErrors has the hints of all parts of an error, not only of the first one.
func TestPrintJoinedErrors(t *testing.T) {
	var output strings.Builder
	c := &Session{Printer: ui.NewPrinter(strings.NewReader(""), &output, &output)}
	c.PrintError(errors.Join(ui.Fail("measuring: no answer"), ui.Fail("removing namespace x: no answer").Hint("Objects may be left")))
	const want = " ERRO  measuring: no answer\n       removing namespace x: no answer\n INFO  Objects may be left\n"
	if diff := cmp.Diff(want, output.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestPluginName(t *testing.T) {
	for argv0, want := range map[string]string{
		"/usr/local/bin/liqoctl":         "liqoctl",
		"./bin/liqoctl-linux":            "liqoctl",
		"/opt/krew/bin/kubectl-liqo":     "kubectl liqo",
		"kubectl-my_liqo-extra":          "kubectl my-liqo extra",
		"kubectl-liqo.exe":               "kubectl liqo",
		"/usr/bin/kubectl_complete-liqo": "kubectl liqo",
	} {
		if got := DisplayName(argv0); got != want {
			t.Errorf("%s is %q, want %q", argv0, got, want)
		}
	}
}
