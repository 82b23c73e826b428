// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
)

// Formats of cosign.
const (
	simpleSigningType   types.MediaType = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureAnnotation                 = "dev.cosignproject.cosign/signature"
)

// signer signs as `cosign --key` does. Signatures are deterministic (RFC 6979), so that a release can be made again.
type signer struct {
	key    *ecdsa.PrivateKey
	public []byte // PEM
}

// loadSigner reads a private key: one of cosign, which is encrypted, or PKCS #8. Without a key there is no signer.
func loadSigner(key, password string) (*signer, error) {
	if key == "" {
		return nil, nil
	}
	block, _ := pem.Decode([]byte(key))
	if block == nil {
		return nil, errors.New("COSIGN_PRIVATE_KEY is no PEM")
	}
	der := block.Bytes
	if strings.HasPrefix(block.Type, "ENCRYPTED ") { // SIGSTORE or COSIGN PRIVATE KEY
		var err error
		if der, err = encrypted.Decrypt(der, []byte(password)); err != nil {
			return nil, fmt.Errorf("decrypting COSIGN_PRIVATE_KEY by COSIGN_PASSWORD: %w", err)
		}
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("reading COSIGN_PRIVATE_KEY: %w", err)
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return nil, errors.New("COSIGN_PRIVATE_KEY is not an ECDSA key of the curve P-256")
	}
	public, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		return nil, err
	}
	return &signer{key: private, public: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})}, nil
}

// sign returns the signature of a blob in base64, as `cosign sign-blob` prints it.
func (s *signer) sign(blob []byte) (string, error) {
	digest := sha256.Sum256(blob)
	signature, err := s.key.Sign(nil, digest[:], crypto.SHA256) // without a source of randomness: RFC 6979
	return base64.StdEncoding.EncodeToString(signature), err
}

// signManifest returns the signature of a manifest as a registry keeps it.
func (s *signer) signManifest(name string, digest v1.Hash, date time.Time) (artifact, error) {
	payload, err := signingPayload(name, digest)
	if err != nil {
		return artifact{}, err
	}
	signature, err := s.sign(payload)
	if err != nil {
		return artifact{}, err
	}
	layer, _, err := v1.SHA256(strings.NewReader(string(payload)))
	if err != nil {
		return artifact{}, err
	}
	config, err := json.Marshal(v1.ConfigFile{Created: v1.Time{Time: date}, RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{layer}}})
	if err != nil {
		return artifact{}, err
	}
	return newArtifact(types.OCIConfigJSON, config, simpleSigningType, payload, nil, map[string]string{signatureAnnotation: signature})
}

// signingPayload returns what is signed for a manifest: the "simple signing" document.
func signingPayload(name string, digest v1.Hash) ([]byte, error) {
	type identity struct {
		Reference string `json:"docker-reference"`
	}
	type image struct {
		Digest string `json:"docker-manifest-digest"`
	}
	type critical struct {
		Identity identity `json:"identity"`
		Image    image    `json:"image"`
		Type     string   `json:"type"`
	}
	return json.Marshal(struct {
		Critical critical       `json:"critical"`
		Optional map[string]any `json:"optional"`
	}{Critical: critical{identity{name}, image{digest.String()}, "cosign container image signature"}})
}

// signatureTag returns the tag under which cosign looks for the signature of a manifest.
func signatureTag(digest v1.Hash) string {
	return digest.Algorithm + "-" + digest.Hex + ".sig"
}

// envelope returns a signed statement.
func (s *signer) envelope(payloadType string, payload []byte) (*dsse.Envelope, error) {
	signature, err := s.sign(dsse.PAE(payloadType, payload))
	if err != nil {
		return nil, err
	}
	return &dsse.Envelope{
		PayloadType: payloadType,
		Payload:     base64.StdEncoding.EncodeToString(payload),
		Signatures:  []dsse.Signature{{Sig: signature}},
	}, nil
}
