// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// ServingSubject returns the subject with which a node serves the kubelet API.
func ServingSubject(node string) Subject {
	return Subject{CommonName: "system:node:" + node, Organization: "system:nodes"}
}

// CheckServingCSR returns why a certificate request, PEM, is not exactly the expected request: for the serving
// certificate of the node with all these addresses and names, and no more.
func CheckServingCSR(data []byte, node string, ips []netip.Addr, dns []string) error {
	csr, err := parseRequest(data)
	if err != nil {
		return err
	}
	if err := onlyAlternativeNames(csr); err != nil {
		return err
	}
	if err := checkRequest(csr, ServingSubject(node)); err != nil {
		return err
	}
	requested, err := parseIPs(csr.IPAddresses)
	if err != nil {
		return err
	}
	wanted := make([]netip.Addr, 0, len(ips))
	for _, ip := range ips {
		wanted = append(wanted, ip.Unmap())
	}
	slices.SortFunc(wanted, netip.Addr.Compare)
	if !slices.Equal(requested, wanted) {
		return fmt.Errorf("the certificate request is for the addresses %v, not %v", requested, wanted)
	}
	if current, want := slices.Sorted(slices.Values(csr.DNSNames)), slices.Sorted(slices.Values(dns)); !slices.Equal(current, want) {
		return fmt.Errorf("the certificate request is for the names %q, not %q", current, want)
	}
	return nil
}

// ServingNode returns the node of a serving certificate request, without further checks.
func ServingNode(data []byte) (string, error) {
	csr, err := parseRequest(data)
	if err != nil {
		return "", err
	}
	prefix := ServingSubject("").CommonName
	name := csr.Subject.CommonName
	if len(name) <= len(prefix) || name[:len(prefix)] != prefix {
		return "", fmt.Errorf("the common name %q is not that of a node", name)
	}
	return name[len(prefix):], nil
}

func parseIPs(ips []net.IP) ([]netip.Addr, error) {
	out := make([]netip.Addr, 0, len(ips))
	for _, ip := range ips {
		addr, ok := netip.AddrFromSlice(ip)
		if !ok {
			return nil, fmt.Errorf("the certificate request has an address of %d bytes", len(ip))
		}
		out = append(out, addr.Unmap())
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out, nil
}

var oidSubjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

// onlyAlternativeNames checks that the request has one extension, the alternative names, and that all of them are
// addresses or DNS names. x509 leaves out unknown kinds of names: the names are counted.
func onlyAlternativeNames(csr *x509.CertificateRequest) error {
	attributes, err := rawAttributes(csr)
	if err != nil {
		return err
	}
	if len(attributes) != 1 || len(csr.Extensions) != 1 || !csr.Extensions[0].Id.Equal(oidSubjectAltName) {
		return errors.New("the certificate request must ask for alternative names and for no other extension")
	}
	var all []asn1.RawValue
	rest, err := asn1.Unmarshal(csr.Extensions[0].Value, &all)
	if err != nil {
		return fmt.Errorf("reading the alternative names of the certificate request: %w", err)
	}
	if len(rest) > 0 || len(all) != len(csr.DNSNames)+len(csr.IPAddresses) {
		return errors.New("the certificate request must ask for addresses and DNS names only")
	}
	return nil
}
