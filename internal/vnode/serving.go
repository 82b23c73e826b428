// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package vnode

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate"
)

// awsSigner signs serving certificates of kubelets on EKS.
const awsSigner = "beta.eks.amazonaws.com/app-serving"

var errNoCertificate = errors.New("the serving certificate is not issued yet")

// certificates hands out the serving certificate of the moment; nil is none yet.
type certificates func() *tls.Certificate

// forServer is the callback of the TLS stack.
func (c certificates) forServer(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := c(); cert != nil {
		return cert, nil
	}
	return nil, errNoCertificate
}

// newCertificates starts what gets and renews the serving certificate, until ctx ends.
func newCertificates(ctx context.Context, clients kubernetes.Interface, kind CertificateType, node string, ip netip.Addr) (certificates, error) {
	switch kind {
	case CertificateKubelet:
		return requestCertificates(ctx, clients, certv1.KubeletServingSignerName, node, ip)
	case CertificateAWS:
		return requestCertificates(ctx, clients, awsSigner, node, ip)
	case CertificateSelfSigned:
		return (&selfSigned{node: node, ip: ip, now: time.Now}).current, nil
	}
	return nil, fmt.Errorf("unknown certificate type %q", kind)
}

// requestCertificates asks a signer of the cluster. The certificate lives in memory only: a new process asks again, so
// that no key is ever written anywhere.
func requestCertificates(ctx context.Context, clients kubernetes.Interface, signer, node string, ip netip.Addr) (certificates, error) {
	manager, err := certificate.NewManager(&certificate.Config{
		Name:        "kubelet-serving",
		SignerName:  signer,
		ClientsetFn: func(*tls.Certificate) (kubernetes.Interface, error) { return clients, nil },
		GetTemplate: func() *x509.CertificateRequest {
			return &x509.CertificateRequest{
				Subject:     pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
				IPAddresses: []net.IP{ip.AsSlice()},
			}
		},
		GetUsages:        certificate.DefaultKubeletServingGetUsages,
		CertificateStore: &memoryStore{},
		Ctx:              &ctx,
	})
	if err != nil {
		return nil, fmt.Errorf("making the certificate manager: %w", err)
	}
	manager.Start()
	return manager.Current, nil
}

// memoryStore keeps one certificate.
type memoryStore struct {
	mu   sync.Mutex
	cert *tls.Certificate
}

func (s *memoryStore) Current() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cert == nil {
		return nil, new(certificate.NoCertKeyError)
	}
	return s.cert, nil
}

func (s *memoryStore) Update(certPEM, keyPEM []byte) (*tls.Certificate, error) {
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading the issued certificate: %w", err)
	}
	if cert.Leaf == nil {
		if cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
			return nil, fmt.Errorf("reading the issued certificate: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cert = &cert
	return s.cert, nil
}

// selfSigned makes its own certificate, a new one before the old ends.
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

func (s *selfSigned) current() *tls.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cert == nil || s.now().After(s.cert.Leaf.NotAfter.Add(-selfSignedMargin)) {
		if cert, err := s.issue(); err == nil {
			s.cert = cert
		}
	}
	return s.cert
}

func (s *selfSigned) issue() (*tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
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
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: leaf}, nil
}
