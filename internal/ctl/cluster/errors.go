// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"liqo.io/liqo/internal/ctl/ui"
)

// ErrPrinted ends a command whose error was already printed.
var ErrPrinted = errors.New("the error was printed")

// PrintError prints the final error line of a command, then hints. The last hint is the part of the documentation about the error, or else about the
// command.
func (c *Session) PrintError(err error) {
	if errors.Is(err, ErrPrinted) {
		return
	}
	var hints []string
	f, ok := errors.AsType[*ui.Failure](err)
	switch {
	case !ok:
		c.Error("error: %s", DescribeError(err))
	case f.Scope != "":
		c.Scope(f.Scope).Error("%s", DescribeError(err))
	default:
		c.Error("%s", DescribeError(err))
	}
	advice, page := adviceFor(err)
	if ok {
		hints, page = ui.AllHints(err), cmp.Or(page, f.Page())
	}
	if len(hints) == 0 && advice != "" {
		hints = []string{advice}
	}
	page = cmp.Or(page, c.Page)
	if page != "" {
		hints = append(hints, "See "+page)
	}
	for _, hint := range hints {
		c.Info("%s", hint)
	}
}

const (
	choose = "--kubeconfig, --context and --user choose it, and those with --remote- before them the other one of two"
	// askForRights is the hint for missing permissions.
	askForRights = "Ask the administrator of that cluster for the right, or take another user of it: " + choose
)

// adviceFor returns a hint about an unusable cluster, and a part of the documentation; "" for all other errors.
func adviceFor(err error) (hint, page string) {
	switch {
	case errors.Is(err, context.Canceled): // by the user
		return "", ""
	case apierrors.IsUnauthorized(err):
		return "Have they expired? Get a new kubeconfig from whoever gave it, or take another user of the cluster: " + choose,
			"docs/troubleshooting.md#the-api-server-does-not-accept-the-credentials-of-the-kubeconfig"
	case apierrors.IsForbidden(err):
		return askForRights, "docs/troubleshooting.md#is-forbidden-or-you-are-not-allowed-to"
	case apimeta.IsNoMatchError(err):
		return "Run liqoctl install on it, or choose another cluster: " + choose,
			"docs/troubleshooting.md#liqo-is-not-installed-or-the-cluster-has-no-kind"
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return "Check that this is the right cluster, and that this machine can reach it: " + choose, "docs/troubleshooting.md#a-command-does-not-reach-a-cluster"
	}
	return "", ""
}

// DescribeError returns the text of an error in the terms of kubectl.
func DescribeError(err error) string {
	text := err.Error()
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && apierrors.IsUnauthorized(status) {
		text = strings.ReplaceAll(text, status.Error(), "the API server does not accept the credentials of the kubeconfig: Unauthorized")
	}
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		text = strings.ReplaceAll(text, urlErr.Error(), describeURL(urlErr))
	}
	if kind, ok := errors.AsType[*apimeta.NoKindMatchError](err); ok && strings.HasSuffix(kind.GroupKind.Group, ".liqo.io") {
		text = strings.ReplaceAll(text, kind.Error(), "the cluster has no kind "+kind.GroupKind.Kind+": Liqo is not installed in it")
	}
	text = strings.ReplaceAll(text, context.DeadlineExceeded.Error(), "timed out waiting for the condition")
	text = strings.ReplaceAll(text, context.Canceled.Error(), "interrupted") // only the user cancels the context of a command
	text = strings.ReplaceAll(text, "client rate limiter Wait returned an error: ", "")
	return text
}

func describeURL(err *url.Error) string {
	server := err.URL
	if u, parseErr := url.Parse(err.URL); parseErr == nil {
		server = u.Scheme + "://" + u.Host
	}
	invalid, _ := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection to the server " + server + " was refused - did you specify the right host or port?"
	case isA[x509.UnknownAuthorityError](err):
		return "the certificate of " + server + " is signed by an authority that the kubeconfig does not know"
	case isA[x509.HostnameError](err):
		return "the certificate of " + server + " is for another server: " + err.Err.Error()
	case invalid.Cert != nil && invalid.Reason == x509.Expired:
		return "the certificate of " + server + " has ended or has not begun, or the clock of this machine is wrong: " + invalid.Error()
	case isUnknownHost(err):
		return "the name of the server " + server + " is not known: " + err.Err.Error()
	case err.Timeout():
		return "the server " + server + " does not answer: " + context.DeadlineExceeded.Error()
	}
	return "calling " + server + ": " + err.Err.Error()
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func isUnknownHost(err error) bool {
	lookup, ok := errors.AsType[*net.DNSError](err)
	return ok && lookup.IsNotFound
}
