// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"
)

// awsSigner signs serving certificates of kubelets on EKS.
const awsSigner = "beta.eks.amazonaws.com/app-serving"

var errNoCertificate = errors.New("the serving certificate is not issued yet")

// certificates returns the present serving certificate; nil if there is none yet.
type certificates func() *tls.Certificate

// forServer is the callback of the TLS stack.
func (c certificates) forServer(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := c(); cert != nil {
		return cert, nil
	}
	return nil, errNoCertificate
}

// newCertificates starts the issuing and renewal of the serving certificate, until ctx ends. failed receives the errors.
func newCertificates(
	ctx context.Context, clients kubernetes.Interface, kind CertificateType, node string, ip netip.Addr, failed func(error),
) (certificates, error) {
	switch kind {
	case CertificateKubelet, CertificateAWS:
		i := newIssuer(clients, kind, node, ip, failed)
		go i.runIssuer(ctx)
		return i.current.Load, nil
	case CertificateSelfSigned:
		return (&selfSigned{node: node, ip: ip, now: time.Now}).currentCertificate, nil
	}
	return nil, fmt.Errorf("unknown certificate type %q", kind)
}

// servingIssuer requests the certificate from a signer of the cluster, and renews it in time; until then the old certificate is served.
// The key is kept in memory only: a new process, perhaps with another address, requests a new certificate, and no key is written to disk.
type servingIssuer struct {
	clients kubernetes.Interface
	signer  string
	request x509.CertificateRequest
	failed  func(error)
	// renewIn returns when to request the next certificate after one was issued.
	renewIn func(leaf *x509.Certificate) time.Duration
	current atomic.Pointer[tls.Certificate]
}

func newIssuer(clients kubernetes.Interface, kind CertificateType, node string, ip netip.Addr, failed func(error)) *servingIssuer {
	signer := certv1.KubeletServingSignerName
	if kind == CertificateAWS {
		signer = awsSigner
	}
	return &servingIssuer{
		clients: clients, signer: signer, failed: failed,
		request: x509.CertificateRequest{
			Subject:     pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
			IPAddresses: []net.IP{ip.AsSlice()},
		},
		renewIn: func(leaf *x509.Certificate) time.Duration { return renewIn(time.Until(leaf.NotAfter)) },
	}
}

const (
	// approvalWarning is how long a request may be pending before an event is recorded, and approvalTimeout before another is made.
	approvalWarning = time.Minute
	approvalTimeout = 15 * time.Minute
	renewMin        = 10 * time.Second
)

// renewIn returns 70 to 90 % of the remaining lifetime: signers backdate the start of a certificate, so the start says nothing.
func renewIn(remaining time.Duration) time.Duration {
	return max(renewMin, remaining*7/10+rand.N(max(1, remaining/5)))
}

// certificateRetry is slow: each try leaves a CertificateSigningRequest behind, and a refusal is rarely transient.
func certificateRetry() wait.Backoff {
	return wait.Backoff{Duration: 2 * time.Second, Factor: 2, Jitter: 0.1, Steps: 10, Cap: 5 * time.Minute}
}

func (i *servingIssuer) runIssuer(ctx context.Context) {
	retry := certificateRetry()
	for {
		pause := time.Duration(0)
		if cert, err := i.issueCertificate(ctx); err == nil {
			i.current.Store(cert)
			if pause = i.renewIn(cert.Leaf); time.Until(cert.Leaf.NotAfter) > renewMin {
				retry = certificateRetry()
			} else { // the certificate has expired already, or will at once: the next one will hardly be better
				pause = max(pause, retry.Step())
			}
		} else if ctx.Err() == nil {
			i.failed(err)
			pause = retry.Step()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// issueCertificate requests a certificate and waits for it.
func (i *servingIssuer) issueCertificate(ctx context.Context) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(cryptorand.Reader, &i.request, key)
	if err != nil {
		return nil, fmt.Errorf("making a request for a certificate: %w", err)
	}
	requestPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	ctx, cancel := context.WithTimeout(ctx, approvalTimeout)
	defer cancel()
	name, uid, err := csr.RequestCertificateWithContext(ctx, i.clients, requestPEM, "", i.signer, nil, certificate.DefaultKubeletServingGetUsages(key), key)
	if err != nil {
		return nil, fmt.Errorf("asking for a certificate: %w", err)
	}
	late := time.AfterFunc(approvalWarning, func() {
		i.failed(fmt.Errorf("CertificateSigningRequest %s is neither issued nor denied: check its approver and the signer %s", name, i.signer))
	})
	defer late.Stop()
	certPEM, err := csr.WaitForCertificate(ctx, i.clients, name, uid)
	if err != nil {
		return nil, fmt.Errorf("waiting for the certificate of CertificateSigningRequest %s: %w", name, err)
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading the issued certificate: %w", err)
	}
	return &cert, nil
}

// selfSigned signs its own certificate, and a new certificate before the old one expires.
type selfSigned struct {
	node string
	ip   netip.Addr
	now  func() time.Time

	mu   sync.Mutex
	cert *tls.Certificate
}

const (
	selfSignedLife   = 365 * 24 * time.Hour
	selfSignedMargin = 24 * time.Hour
)

func (s *selfSigned) currentCertificate() *tls.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cert == nil || s.now().After(s.cert.Leaf.NotAfter.Add(-selfSignedMargin)) {
		if cert, err := s.issueCertificate(); err == nil {
			s.cert = cert
		}
	}
	return s.cert
}

func (s *selfSigned) issueCertificate() (*tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(cryptorand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := cryptorand.Int(cryptorand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "system:node:" + s.node, Organization: []string{"liqo.io"}},
		NotBefore:    s.now().Add(-5 * time.Minute),
		NotAfter:     s.now().Add(selfSignedLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{s.ip.AsSlice()},
	}
	der, err := x509.CreateCertificate(cryptorand.Reader, template, template, public, private)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: leaf}, nil
}
