// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
)

func edKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t testing.TB, bits int) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func ecKey(t testing.TB, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// request encodes any template, so that tests can ask for what NewCSR never would.
func request(t testing.TB, key crypto.Signer, template x509.CertificateRequest) []byte {
	t.Helper()
	data, err := newRequest(key, &template)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// wantRefusal checks that err is there and says why; "" is for none.
func wantRefusal(t testing.TB, err error, reason string) {
	t.Helper()
	switch {
	case reason == "" && err != nil:
		t.Errorf("refused: %v", err)
	case reason != "" && err == nil:
		t.Errorf("accepted; it should say %q", reason)
	case reason != "" && !strings.Contains(err.Error(), reason):
		t.Errorf("refused with %q; it should say %q", err, reason)
	}
}

func TestCheckCSR(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0")
	want := SliceSubject("slice", "consumer")
	key := edKey(t)
	good := request(t, key, x509.CertificateRequest{Subject: want.pkixName()})
	subject := func(edit func(*pkix.Name)) []byte {
		name := want.pkixName()
		edit(&name)
		return request(t, key, x509.CertificateRequest{Subject: name})
	}
	otherOID := asn1.ObjectIdentifier{1, 2, 3, 4}

	for name, test := range map[string]struct {
		csr []byte
		key crypto.PublicKey
		why string
	}{
		"takes one common name and one organisation":    {csr: good},
		"takes the registered key":                      {csr: good, key: key.Public()},
		"refuses another key than the registered one":   {csr: good, key: edKey(t).Public(), why: "another key"},
		"refuses a key of another type than registered": {csr: good, key: rsaKey(t, 2048).Public(), why: "another key"},
		"takes RSA from 2048 bits":                      {csr: request(t, rsaKey(t, 2048), x509.CertificateRequest{Subject: want.pkixName()})},
		"refuses RSA below 2048 bits":                   {csr: request(t, rsaKey(t, 1024), x509.CertificateRequest{Subject: want.pkixName()}), why: "1024 bits"},
		"takes P-256":                                   {csr: request(t, ecKey(t, elliptic.P256()), x509.CertificateRequest{Subject: want.pkixName()})},
		"takes P-384":                                   {csr: request(t, ecKey(t, elliptic.P384()), x509.CertificateRequest{Subject: want.pkixName()})},
		"takes P-521":                                   {csr: request(t, ecKey(t, elliptic.P521()), x509.CertificateRequest{Subject: want.pkixName()})},
		"refuses P-224":                                 {csr: request(t, ecKey(t, elliptic.P224()), x509.CertificateRequest{Subject: want.pkixName()}), why: "P-224"},
		"refuses a second organisation":                 {csr: subject(func(n *pkix.Name) { n.Organization = append(n.Organization, "kubeadm:cluster-admins") }), why: "one organisation, it has 2"},
		"refuses another organisation":                  {csr: subject(func(n *pkix.Name) { n.Organization = []string{"system:masters"} }), why: `organisation of the certificate request is "system:masters"`},
		"refuses no organisation":                       {csr: subject(func(n *pkix.Name) { n.Organization = nil }), why: "one organisation, it has 0"},
		"refuses another common name":                   {csr: subject(func(n *pkix.Name) { n.CommonName = "admin" }), why: `common name of the certificate request is "admin"`},
		"refuses no common name":                        {csr: subject(func(n *pkix.Name) { n.CommonName = "" }), why: "one common name, it has 0"},
		"refuses a second common name": {csr: subject(func(n *pkix.Name) {
			n.ExtraNames = []pkix.AttributeTypeAndValue{{Type: oidCommonName, Value: want.CommonName}, {Type: oidCommonName, Value: "admin"}}
		}), why: "one common name, it has 2"},
		"refuses an organisational unit":            {csr: subject(func(n *pkix.Name) { n.OrganizationalUnit = []string{"x"} }), why: "more than a common name"},
		"refuses a country":                         {csr: subject(func(n *pkix.Name) { n.Country = []string{"IT"} }), why: "more than a common name"},
		"refuses a serial number":                   {csr: subject(func(n *pkix.Name) { n.SerialNumber = "1" }), why: "more than a common name"},
		"refuses a part that nobody knows":          {csr: subject(func(n *pkix.Name) { n.ExtraNames = []pkix.AttributeTypeAndValue{{Type: otherOID, Value: "x"}} }), why: "more than a common name"},
		"refuses a DNS name":                        {csr: request(t, key, x509.CertificateRequest{Subject: want.pkixName(), DNSNames: []string{"kubernetes"}}), why: "must not"},
		"refuses an address":                        {csr: request(t, key, x509.CertificateRequest{Subject: want.pkixName(), IPAddresses: []net.IP{{10, 0, 0, 1}}}), why: "must not"},
		"refuses an extension":                      {csr: request(t, key, x509.CertificateRequest{Subject: want.pkixName(), ExtraExtensions: []pkix.Extension{{Id: otherOID, Value: []byte{5, 0}}}}), why: "must not"},
		"refuses an attribute that is no extension": {csr: withAttribute(t, key, want, otherOID), why: "must not"},
		"refuses a signature by another key":        {csr: tampered(t, good), why: "signature"},
		"refuses what follows the block":            {csr: append(good[:len(good):len(good)], good...), why: "nothing else"},
		"refuses what precedes the block":           {csr: append([]byte("x\n"), good...), why: "nothing else"},
		"refuses text after the block":              {csr: append(good[:len(good):len(good)], "x"...), why: "nothing else"},
		"refuses headers in the block":              {csr: headed(good), why: "nothing else"},
		"refuses another kind of block":             {csr: []byte(strings.ReplaceAll(string(good), blockRequest, "CERTIFICATE")), why: `found "CERTIFICATE"`},
		"refuses nothing":                           {why: "found none"},
		"refuses an empty block":                    {csr: pem.EncodeToMemory(&pem.Block{Type: blockRequest}), why: "reading the certificate request"},
	} {
		t.Run(name, func(t *testing.T) {
			wantRefusal(t, CheckCSR(test.csr, want, test.key), test.why)
		})
	}
	t.Run("empty expectation rejects all", func(t *testing.T) {
		empty := request(t, key, x509.CertificateRequest{})
		wantRefusal(t, CheckCSR(empty, Subject{}, nil), "one common name")
	})
}

// withAttribute signs a request with a PKCS#9 attribute that x509 itself neither writes nor shows.
func withAttribute(t testing.TB, key crypto.Signer, s Subject, oid asn1.ObjectIdentifier) []byte {
	t.Helper()
	block, _ := pem.Decode(request(t, key, x509.CertificateRequest{Subject: s.pkixName()}))
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	var tbs struct {
		Version    int
		Subject    asn1.RawValue
		PublicKey  asn1.RawValue
		Attributes []asn1.RawValue `asn1:"tag:0"`
	}
	if _, err := asn1.Unmarshal(csr.RawTBSCertificateRequest, &tbs); err != nil {
		t.Fatal(err)
	}
	attribute := mustMarshal(t, struct {
		ID     asn1.ObjectIdentifier
		Values []string `asn1:"set"`
	}{oid, []string{"x"}})
	tbs.Attributes = []asn1.RawValue{{FullBytes: attribute}}
	signed := mustMarshal(t, tbs)
	signature, err := key.Sign(rand.Reader, signed, crypto.Hash(0))
	if err != nil {
		t.Fatal(err)
	}
	der := mustMarshal(t, struct {
		TBS       asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{
		asn1.RawValue{FullBytes: signed},
		pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 3, 101, 112}},
		asn1.BitString{Bytes: signature, BitLength: len(signature) * 8},
	})
	parsed, err := x509.ParseCertificateRequest(der)
	if err != nil {
		t.Fatal(err)
	}
	if err := parsed.CheckSignature(); err != nil {
		t.Fatal("the test's own request is broken:", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockRequest, Bytes: der})
}

func mustMarshal(t testing.TB, v any) []byte {
	t.Helper()
	out, err := asn1.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tampered(t testing.TB, data []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(data)
	block.Bytes[len(block.Bytes)-1] ^= 1
	return pem.EncodeToMemory(block)
}

func headed(data []byte) []byte {
	block, _ := pem.Decode(data)
	block.Headers = map[string]string{"Proc-Type": "4,ENCRYPTED"}
	return pem.EncodeToMemory(block)
}

func TestCheckServingCSR(t *testing.T) {
	const node = "virtual"
	key := edKey(t)
	four, six := netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("fd00::1")
	build := func(edit func(*x509.CertificateRequest)) []byte {
		template := x509.CertificateRequest{Subject: ServingSubject(node).pkixName(), IPAddresses: []net.IP{four.AsSlice(), six.AsSlice()}}
		edit(&template)
		return request(t, key, template)
	}
	same := func(*x509.CertificateRequest) {}
	usage := pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 15}, Value: []byte{3, 2, 5, 160}}
	// A SAN extension with one address and one otherName, which x509 does not show.
	hidden := pkix.Extension{Id: oidSubjectAltName, Value: []byte{0x30, 0x0c, 0x87, 0x04, 10, 1, 2, 3, 0xa0, 0x04, 0x06, 0x02, 0x2a, 0x03}}

	for name, test := range map[string]struct {
		csr []byte
		ips []netip.Addr
		dns []string
		why string
	}{
		"takes exactly the addresses":            {csr: build(same), ips: []netip.Addr{six, four}},
		"takes exactly the names":                {csr: build(func(r *x509.CertificateRequest) { r.IPAddresses, r.DNSNames = nil, []string{"b", "a"} }), dns: []string{"a", "b"}},
		"refuses an address too many":            {csr: build(same), ips: []netip.Addr{four}, why: "addresses"},
		"refuses an address too few":             {csr: build(same), ips: []netip.Addr{four, six, netip.MustParseAddr("10.1.2.4")}, why: "addresses"},
		"refuses an address twice":               {csr: build(func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{four.AsSlice(), four.AsSlice()} }), ips: []netip.Addr{four}, why: "addresses"},
		"refuses another address":                {csr: build(same), ips: []netip.Addr{four, netip.MustParseAddr("fd00::2")}, why: "addresses"},
		"refuses a name":                         {csr: build(func(r *x509.CertificateRequest) { r.DNSNames = []string{"kubernetes"} }), ips: []netip.Addr{four, six}, why: "names"},
		"refuses a URI":                          {csr: build(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} }), ips: []netip.Addr{four, six}, why: "addresses and DNS names only"},
		"refuses an e-mail address":              {csr: build(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b"} }), ips: []netip.Addr{four, six}, why: "addresses and DNS names only"},
		"refuses a kind of name that x509 skips": {csr: build(func(r *x509.CertificateRequest) { r.IPAddresses, r.ExtraExtensions = nil, []pkix.Extension{hidden} }), ips: []netip.Addr{four}, why: "addresses and DNS names only"},
		"refuses a further extension":            {csr: build(func(r *x509.CertificateRequest) { r.ExtraExtensions = []pkix.Extension{usage} }), ips: []netip.Addr{four, six}, why: "no other extension"},
		"refuses no alternative names":           {csr: build(func(r *x509.CertificateRequest) { r.IPAddresses = nil }), why: "must ask for alternative names"},
		"refuses another node":                   {csr: build(func(r *x509.CertificateRequest) { r.Subject = ServingSubject("master").pkixName() }), ips: []netip.Addr{four, six}, why: "common name"},
		"refuses another group":                  {csr: build(func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} }), ips: []netip.Addr{four, six}, why: "organisation"},
		"refuses a second group": {csr: build(func(r *x509.CertificateRequest) {
			r.Subject.Organization = append(r.Subject.Organization, "system:masters")
		}), ips: []netip.Addr{four, six}, why: "one organisation"},
		"refuses what is not a request":           {csr: []byte("x"), why: "found none"},
		"sees an IPv4 address in an IPv6 wrapper": {csr: build(same), ips: []netip.Addr{netip.AddrFrom16(four.As16()), six}},
	} {
		t.Run(name, func(t *testing.T) {
			wantRefusal(t, CheckServingCSR(test.csr, node, test.ips, test.dns), test.why)
		})
	}
}

// newServingCSR asks, as a virtual kubelet does, for the certificate with which a node serves the API of a kubelet, PEM.
func newServingCSR(key crypto.Signer, node string, ips []netip.Addr, dns []string) ([]byte, error) {
	template := &x509.CertificateRequest{Subject: ServingSubject(node).pkixName(), DNSNames: dns}
	for _, ip := range ips {
		template.IPAddresses = append(template.IPAddresses, net.IP(ip.Unmap().AsSlice()))
	}
	return newRequest(key, template)
}

func TestServingCSRRoundTrip(t *testing.T) {
	ips, dns := []netip.Addr{netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("fd00::1")}, []string{"virtual"}
	csr, err := newServingCSR(edKey(t), "virtual", ips, dns)
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckServingCSR(csr, "virtual", ips, dns); err != nil {
		t.Error(err)
	}
	if node, err := ServingNode(csr); err != nil || node != "virtual" {
		t.Errorf("ServingNode = %q, %v", node, err)
	}
}

// What docs/authentication.md has users type: openssl req -new -key key.pem -subj /O=liqo.io/CN=rome.
func TestOpensslCSR(t *testing.T) {
	request := []byte(`-----BEGIN CERTIFICATE REQUEST-----
MIGgMFQCAQAwITEQMA4GA1UECgwHbGlxby5pbzENMAsGA1UEAwwEcm9tZTAqMAUG
AytlcAMhAKT78sURA+zS9stBZycYQ/M0Tx2Uo0twNw+4WdQQty6DoAAwBQYDK2Vw
A0EAacA2B+5xWc5R2uxoHDaSqXzbt9HgHZ417NlLkTJG97SE5oZtR46BRPc4BEEV
3+/pIUVAIPHG/M1h6b2YlJJKCA==
-----END CERTIFICATE REQUEST-----
`)
	if err := CheckCSR(request, Subject{"rome", "liqo.io"}, nil); err != nil {
		t.Error(err)
	}
}

func TestSubjects(t *testing.T) {
	// The hash is part of the contract with other versions: sha256("consumer") begins so.
	if got, want := SliceSubject("slice", "consumer"), (Subject{"slice-6bfbd709d5fd", "consumer"}); got != want {
		t.Errorf("slice: %+v, want %+v", got, want)
	}
}

func TestSupersedes(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	certificate := func(from, to time.Duration) []byte {
		start := time.Unix(1_000_000, 0)
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: start.Add(from), NotAfter: start.Add(to)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	have := certificate(0, time.Hour)
	for name, test := range map[string]struct {
		offered, have []byte
		want          bool
	}{
		"the next one":                     {certificate(time.Minute, 2*time.Hour), have, true},
		"the same":                         {have, have, true},
		"the one before":                   {certificate(-time.Minute, time.Minute), have, false},
		"a shorter one that began later":   {certificate(time.Minute, 2*time.Minute), have, true},
		"a longer one that is backdated":   {certificate(-time.Minute, 2*time.Hour), have, true},
		"one where there is none":          {have, nil, true},
		"one where there is no such thing": {have, []byte("x"), true},
		"nothing":                          {nil, have, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Supersedes(test.offered, test.have); got != test.want {
				t.Errorf("it does: %t, want %t", got, test.want)
			}
		})
	}
}

func TestRenewAt(t *testing.T) {
	issued := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct{ lasts, after time.Duration }{
		"two thirds of a year":          {lasts: 360 * 24 * time.Hour, after: 240 * 24 * time.Hour},
		"two thirds of ten minutes":     {lasts: 9 * time.Minute, after: 6 * time.Minute},
		"never within half a minute":    {lasts: 10 * time.Second, after: 30 * time.Second},
		"an expired one is not hurried": {lasts: -time.Hour, after: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if got := RenewAt(issued, issued.Add(test.lasts)).Sub(issued); got != test.after {
				t.Errorf("renewed after %v, want %v", got, test.after)
			}
		})
	}
}

func FuzzCheckCSR(f *testing.F) {
	want := SliceSubject("slice", "consumer")
	csr, err := NewCSR(edKey(f), want)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(csr)
	f.Add(request(f, edKey(f), x509.CertificateRequest{Subject: want.pkixName(), DNSNames: []string{"x"}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if CheckCSR(data, want, nil) != nil {
			return
		}
		// What passes must look the same to Kubernetes, which reads it with x509.
		block, rest := pem.Decode(data)
		if len(rest) > 0 && string(rest) != "\n" && strings.Trim(string(rest), "\n") != "" {
			t.Fatalf("trailing data passed: %q", rest)
		}
		csr, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if got := csr.Subject.String(); got != want.pkixName().String() {
			t.Fatalf("subject %q passed", got)
		}
		if len(csr.Extensions)+len(csr.DNSNames)+len(csr.IPAddresses)+len(csr.EmailAddresses)+len(csr.URIs) > 0 {
			t.Fatal("extensions passed")
		}
		if err := csr.CheckSignature(); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzCheckServingCSR(f *testing.F) {
	ips := []netip.Addr{netip.MustParseAddr("10.1.2.3")}
	csr, err := newServingCSR(edKey(f), "node", ips, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(csr)
	f.Fuzz(func(t *testing.T, data []byte) {
		if CheckServingCSR(data, "node", ips, nil) != nil {
			return
		}
		block, _ := pem.Decode(data)
		csr, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if csr.Subject.String() != ServingSubject("node").pkixName().String() {
			t.Fatalf("subject %q passed", csr.Subject)
		}
		if len(csr.IPAddresses) != 1 || len(csr.Extensions) != 1 || len(csr.DNSNames)+len(csr.EmailAddresses)+len(csr.URIs) > 0 {
			t.Fatal("other names or extensions passed")
		}
	})
}
