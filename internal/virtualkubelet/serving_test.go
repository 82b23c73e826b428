// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

// nextRequest waits for a request for the certificate of node that nobody has judged yet.
func nextRequest(t *testing.T, clients kubernetes.Interface, node string, ip netip.Addr) *certv1.CertificateSigningRequest {
	t.Helper()
	var out *certv1.CertificateSigningRequest
	testkit.Eventually(t, limit, func() error {
		list, err := clients.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			r := &list.Items[i]
			if len(r.Status.Conditions) == 0 && pki.CheckServingCSR(r.Spec.Request, node, []netip.Addr{ip}, nil) == nil {
				out = r
				return nil
			}
		}
		return fmt.Errorf("no request for %s", node)
	})
	return out
}

func decideCSR(t *testing.T, clients kubernetes.Interface, r *certv1.CertificateSigningRequest, verdict certv1.RequestConditionType) {
	t.Helper()
	r.Status.Conditions = append(r.Status.Conditions, certv1.CertificateSigningRequestCondition{
		Type: verdict, Status: corev1.ConditionTrue, Reason: "Test", Message: "as the test says",
	})
	if _, err := clients.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), r.Name, r, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestServingCertificateRotation(t *testing.T) {
	c := testkit.Cluster(t, testkit.WithControllers("certificatesigningrequest-signing-controller"))
	clients, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	ip := netip.MustParseAddr("10.0.0.6")
	failures := make(chan error, 10)
	i := newIssuer(clients, CertificateKubelet, "turin", ip, func(err error) { failures <- err })
	i.renewIn = func(*x509.Certificate) time.Duration { return 0 }
	go i.runIssuer(t.Context())

	first := nextRequest(t, clients, "turin", ip)
	decideCSR(t, clients, first, certv1.CertificateApproved)
	testkit.Eventually(t, limit, func() error {
		_, err := certificates(i.current.Load).forServer(nil)
		return err
	})
	before := i.current.Load()
	second := nextRequest(t, clients, "turin", ip)
	if i.current.Load() != before {
		t.Error("the old certificate went before there was a new one")
	}
	decideCSR(t, clients, second, certv1.CertificateDenied)
	if err := within(t, failures); !strings.Contains(err.Error(), second.Name) || !strings.Contains(err.Error(), "denied, reason: Test, message: as the test says") {
		t.Errorf("told of %v", err)
	}
	third := nextRequest(t, clients, "turin", ip)
	if i.current.Load() != before {
		t.Error("the old certificate went because there is no new one")
	}
	decideCSR(t, clients, third, certv1.CertificateApproved)
	testkit.Eventually(t, limit, func() error {
		if i.current.Load() == before {
			return fmt.Errorf("still the old certificate")
		}
		return nil
	})
}

func TestServingCertificateDenied(t *testing.T) {
	s := newTestEnv(t, func(o *Options) { o.Certificate = CertificateKubelet })
	clients, err := kubernetes.NewForConfig(s.consumer.Config)
	if err != nil {
		t.Fatal(err)
	}
	s.run()
	decideCSR(t, clients, nextRequest(t, clients, s.node, s.options.NodeIP), certv1.CertificateDenied)
	s.event(s.virtualNode(), "ServingCertificateFailed", "as the test says")
	eventually(s, s.consumer, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}, nodeReady(corev1.ConditionTrue))
}

func TestServingCertificateBackoff(t *testing.T) {
	retry, tries := certificateRetry(), 0
	for spent := time.Duration(0); spent < time.Hour; spent += retry.Step() {
		tries++
	}
	if tries > 25 {
		t.Errorf("%d requests in an hour without an approver", tries)
	}
	for _, remaining := range []time.Duration{-time.Hour, 0, time.Minute, 2 * time.Minute, 365 * 24 * time.Hour} {
		got := renewIn(remaining)
		if got < renewMin || (remaining > time.Minute && (got < remaining*7/10 || got > remaining*9/10)) {
			t.Errorf("with %v left, renewed in %v", remaining, got)
		}
	}
}

func TestServingBadClients(t *testing.T) {
	t.Parallel()
	address := startKubelet(t, nil)
	trusting := func(edit func(*tls.Config)) *tls.Config {
		cfg := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}
		if edit != nil {
			edit(cfg)
		}
		return cfg
	}
	if _, err := tls.Dial("tcp", address, trusting(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 })); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	conn, err := tls.Dial("tcp", address, trusting(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("speaks %q", got)
	}
	silent, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	bodiless, err := tls.Dial("tcp", address, trusting(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer bodiless.Close()
	fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: node\r\nX-Slow: ")
	fmt.Fprint(bodiless, "POST /exec/web/other/main HTTP/1.1\r\nHost: node\r\nContent-Length: 1000\r\n\r\n")
	for name, c := range map[string]net.Conn{"without TLS": silent, "without the end of its header": conn, "without its body": bodiless} {
		if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); err != nil {
			t.Errorf("a client %s is not sent away: %v", name, err)
		}
	}
}
