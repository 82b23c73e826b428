// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	provenancev1 "github.com/in-toto/attestation/go/predicates/provenance/v1"
	attestation "github.com/in-toto/attestation/go/v1"
	"github.com/sigstore/cosign/v3/pkg/cosign"
	"github.com/sigstore/cosign/v3/pkg/oci/static"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"google.golang.org/protobuf/encoding/protojson"
)

// newSigner returns a signer with a key that cosign made, encrypted.
func newSigner(t *testing.T) *signer {
	t.Helper()
	keys, err := cosign.GenerateKeyPair(func(bool) ([]byte, error) { return []byte("secret"), nil })
	if err != nil {
		t.Fatal(err)
	}
	s, err := loadSigner(string(keys.PrivateBytes), "secret")
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(s.public)) != strings.TrimSpace(string(keys.PublicBytes)) {
		t.Errorf("the public key is\n%s, want\n%s", s.public, keys.PublicBytes)
	}
	if _, err := loadSigner(string(keys.PrivateBytes), "wrong"); err == nil {
		t.Error("a wrong password is accepted")
	}
	return s
}

// checkOptions are those of `cosign verify --key cosign.pub --insecure-ignore-tlog`.
func checkOptions(t *testing.T, s *signer) *cosign.CheckOpts {
	t.Helper()
	key, err := cryptoutils.UnmarshalPEMToPublicKey(s.public)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signature.LoadECDSAVerifier(key.(*ecdsa.PublicKey), crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return &cosign.CheckOpts{SigVerifier: verifier, IgnoreTlog: true, IgnoreSCT: true}
}

// verifyBlob verifies the signature of a blob as `cosign verify-blob` does.
func verifyBlob(t *testing.T, s *signer, blob []byte, sig string) error {
	t.Helper()
	signed, err := static.NewSignature(blob, sig)
	if err != nil {
		t.Fatal(err)
	}
	_, err = cosign.VerifyBlobSignature(t.Context(), signed, checkOptions(t, s))
	return err
}

func TestBlobSignature(t *testing.T) {
	s := newSigner(t)
	first, err := s.sign([]byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	if second, err := s.sign([]byte("content")); err != nil || first != second {
		t.Errorf("two signatures differ: %v", err)
	}
	if err := verifyBlob(t, s, []byte("content"), first); err != nil {
		t.Error(err)
	}
	if err := verifyBlob(t, s, []byte("Content"), first); err == nil {
		t.Error("other content is accepted")
	}
	if err := verifyBlob(t, newSigner(t), []byte("content"), first); err == nil {
		t.Error("another key is accepted")
	}
}

func TestSigningKeys(t *testing.T) {
	pkcs8 := func(curve elliptic.Curve) string {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	if s, err := loadSigner("", ""); s != nil || err != nil {
		t.Errorf("without a key: %v, %v", s, err)
	}
	if s, err := loadSigner(pkcs8(elliptic.P256()), ""); s == nil || err != nil {
		t.Errorf("P-256: %v, %v", s, err)
	}
	for name, key := range map[string]string{"P-384": pkcs8(elliptic.P384()), "no PEM": "x", "no key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if _, err := loadSigner(key, ""); err == nil || !strings.Contains(err.Error(), "COSIGN_PRIVATE_KEY") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStatement(t *testing.T) {
	o := &options{version: "v0.2.0", registry: "registry.example.com/liqo", builder: "https://ci.example.com", source: "https://git.example.com/liqo",
		platforms: []string{"linux/amd64"}, imagePlatforms: []string{"linux/amd64"}}
	src := &source{commit: strings.Repeat("c0ffee00de", 4), date: time.Unix(1700000000, 0).UTC(), tagged: true, toolchain: "go1.26.0"}
	data, err := json.Marshal(newStatement(o, src, fileSubjects([]fileSum{{"liqo.tgz", strings.Repeat("a", 64)}})))
	if err != nil {
		t.Fatal(err)
	}
	validateStatement(t, data)
	if want := `"uri":"git+https://git.example.com/liqo@refs/tags/v0.2.0"`; !strings.Contains(string(data), want) {
		t.Errorf("%s lacks %s", data, want)
	}
}

// validateStatement reads a statement by the types of in-toto and SLSA, which know no other fields.
func validateStatement(t *testing.T, data []byte) *attestation.Statement {
	t.Helper()
	var s attestation.Statement
	if err := protojson.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	predicate, err := protojson.Marshal(s.GetPredicate())
	if err != nil {
		t.Fatal(err)
	}
	var p provenancev1.Provenance
	if err := protojson.Unmarshal(predicate, &p); err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	return &s
}
