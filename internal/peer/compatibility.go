// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// This file has the capabilities of this build for peers, and the rules for compatible versions of Liqo.

package peer

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// A capability is a behaviour of both clusters of a peering that some versions of Liqo lack. A missing capability is no error: the list only informs.
const (
	// BoundNonces: the signature of a nonce is bound to both clusters. The original signs the nonce alone.
	BoundNonces = "bound-nonces"
	// OfferedRenewals: a Renew of a control plane has no request, and the answer is the last certificate of the Tenant. The original
	// signs the request in a Renew.
	OfferedRenewals = "offered-renewals"
	// MovingGateways: the peer may read the gateways to the peer, and update the server addresses of clients.
	MovingGateways = "moving-gateways"
	// DirectConnections: an endpoint names its cluster. The provider maps only endpoints of other clusters by its own networks. Builds without this
	// capability map the addresses of all endpoints.
	DirectConnections = "direct-connections"
	// GivenGracePeriods: the peer may delete its pods in this cluster, and thereby end the pods with a different grace period.
	GivenGracePeriods = "given-grace-periods"
	// NetworkPolicies: the provider takes copies of NetworkPolicies, and reports its translation of the consumer's networks to the consumer.
	NetworkPolicies = "network-policies"
	// EnforcedNetworkPolicies: the CNI plugin of the provider enforces them. This is no capability of a build.
	EnforcedNetworkPolicies = "enforced-network-policies"
)

// Capabilities returns the capabilities of this build, in alphabetical order.
func Capabilities() []string {
	return []string{BoundNonces, DirectConnections, GivenGracePeriods, MovingGateways, NetworkPolicies, OfferedRenewals}
}

// mostCapabilities bounds the stored capabilities of a peer.
const mostCapabilities = 32

var (
	aVersion    = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]{0,62}$`)
	aCapability = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
)

// SanitizeVersion returns the version that a peer reports, "" if invalid.
func SanitizeVersion(reported string) string {
	if !aVersion.MatchString(reported) {
		return ""
	}
	return reported
}

// JoinCapabilities returns a list of capabilities in the form of the annotation.
func JoinCapabilities(capabilities []string) string { return strings.Join(capabilities, ",") }

// SplitCapabilities is the reverse of Joined.
func SplitCapabilities(reported string) []string { return strings.Split(reported, ",") }

// SanitizeCapabilities returns the valid capabilities reported by a peer, without duplicates. Some may be unknown to this build.
func SanitizeCapabilities(reported []string) []string {
	var out []string
	for _, name := range reported {
		if aCapability.MatchString(name) && !slices.Contains(out, name) && len(out) < mostCapabilities {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Gap is the kind of incompatibility of two versions.
type Gap string

// Gaps, also used as reasons of conditions.
const (
	NoGap      Gap = ""
	PeerTooOld Gap = "PeerTooOld"
	PeerTooNew Gap = "PeerTooNew"
)

// VersionGap returns the gap between the own version and a peer's. Versions of the same or an adjacent minor version are compatible. A missing
// version or the version of a build between releases is not compared.
func VersionGap(own, peer string) Gap {
	ours, err := version.ParseSemantic(own)
	if err != nil {
		return NoGap
	}
	other, err := version.ParseSemantic(peer)
	if err != nil {
		return NoGap
	}
	switch {
	case isFar(other, ours):
		return PeerTooOld
	case isFar(ours, other):
		return PeerTooNew
	}
	return NoGap
}

// isFar reports whether a version is older than another version by a major version or by more than one minor version.
func isFar(older, newer *version.Version) bool {
	return older.Major() < newer.Major() || older.Major() == newer.Major() && newer.Minor() > older.Minor()+1
}

// Explain returns instructions for a gap.
func (g Gap) Explain(own, peer string) string {
	older, newer := "the peer", "this cluster"
	if g == PeerTooNew {
		older, newer = newer, older
	}
	return fmt.Sprintf("the peer has Liqo %s and this cluster %s, which do not work together: upgrade %s until it is one minor version behind %s at most", peer, own, older, newer)
}
