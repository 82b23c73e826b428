// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"

	"liqo.io/liqo/internal/ctl/out"
)

// errPrinted ends a command whose error was printed where it happened.
var errPrinted = errors.New("the error was printed")

// fail prints the one line about why the command ends.
func (c *cli) fail(err error) {
	if errors.Is(err, errPrinted) {
		return
	}
	f, ok := errors.AsType[*out.Failure](err)
	switch {
	case !ok:
		c.Error("error: %s", describe(err))
		return
	case f.Scope != "":
		c.Scope(f.Scope).Error("%s", describe(err))
	default:
		c.Error("%s", describe(err))
	}
	for _, hint := range f.All() {
		c.Info("%s", hint)
	}
}

// describe says an error in the words that kubectl's users know.
func describe(err error) string {
	if clientcmd.IsEmptyConfig(err) {
		return "no cluster is configured: set KUBECONFIG or --kubeconfig"
	}
	text := err.Error()
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		text = strings.ReplaceAll(text, urlErr.Error(), describeURL(urlErr))
	}
	text = strings.ReplaceAll(text, context.DeadlineExceeded.Error(), "timed out waiting for the condition")
	text = strings.ReplaceAll(text, "client rate limiter Wait returned an error: ", "")
	return text
}

func describeURL(err *url.Error) string {
	server := err.URL
	if u, parseErr := url.Parse(err.URL); parseErr == nil {
		server = u.Scheme + "://" + u.Host
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection to the server " + server + " was refused - did you specify the right host or port?"
	case isUnknownAuthority(err):
		return "the certificate of " + server + " is signed by an authority that the kubeconfig does not know"
	case err.Timeout():
		return "the server " + server + " does not answer: " + context.DeadlineExceeded.Error()
	}
	return "calling " + server + ": " + err.Err.Error()
}

func isUnknownAuthority(err error) bool {
	_, ok := errors.AsType[x509.UnknownAuthorityError](err)
	return ok
}
