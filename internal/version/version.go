// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package version says what this build does that a peer has to know of, and which versions of Liqo work together.
package version

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// A capability is a behaviour that both clusters of a peering take part in, and that not every Liqo has. Nothing is refused for
// want of one: whoever reads the list knows what to expect.
const (
	// BoundNonces: the signature of a nonce is bound to both clusters. The original signs the nonce alone.
	BoundNonces = "bound-nonces"
	// OfferedRenewals: a Renew of a control plane asks for nothing, and is answered with what the Tenant was given last. The original
	// signs what a Renew asks for.
	OfferedRenewals = "offered-renewals"
	// MovingGateways: the peer may read the gateways that lead to it, and tell clients where their servers are.
	MovingGateways = "moving-gateways"
	// GivenGracePeriods: the peer may delete the pods it has here, and so end them in another time than their own.
	GivenGracePeriods = "given-grace-periods"
)

// Capabilities are those of this build, in alphabetical order.
func Capabilities() []string {
	return []string{BoundNonces, GivenGracePeriods, MovingGateways, OfferedRenewals}
}

// mostCapabilities bounds what is stored of what a peer says.
const mostCapabilities = 32

var (
	aVersion    = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]{0,62}$`)
	aCapability = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
)

// SaidVersion is what a peer said its version is, "" if it is nothing to show.
func SaidVersion(said string) string {
	if !aVersion.MatchString(said) {
		return ""
	}
	return said
}

// Joined is a list of capabilities as an annotation carries it.
func Joined(capabilities []string) string { return strings.Join(capabilities, ",") }

// Split is the reverse of Joined.
func Split(said string) []string { return strings.Split(said, ",") }

// SaidCapabilities are those that a peer said it has and that have the form of one, each once. Some may be unknown here.
func SaidCapabilities(said []string) []string {
	var out []string
	for _, name := range said {
		if aCapability.MatchString(name) && !slices.Contains(out, name) && len(out) < mostCapabilities {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Gap is what is between two versions that do not work together.
type Gap string

// Gaps. They are reasons of conditions, too.
const (
	NoGap      Gap = ""
	PeerTooOld Gap = "PeerTooOld"
	PeerTooNew Gap = "PeerTooNew"
)

// Between tells how far the version of a peer is from our own. Those of one minor version and of its neighbours work together. A version
// that is not told, or that is none of a release, such as that of a build in between, is not compared.
func Between(own, peer string) Gap {
	ours, err := version.ParseSemantic(own)
	if err != nil {
		return NoGap
	}
	theirs, err := version.ParseSemantic(peer)
	if err != nil {
		return NoGap
	}
	switch {
	case far(theirs, ours):
		return PeerTooOld
	case far(ours, theirs):
		return PeerTooNew
	}
	return NoGap
}

// far tells whether a version is more than one minor version, or a major one, before another.
func far(older, newer *version.Version) bool {
	return older.Major() < newer.Major() || older.Major() == newer.Major() && newer.Minor() > older.Minor()+1
}

// Explain says what to do about a gap.
func (g Gap) Explain(own, peer string) string {
	older, newer := "the peer", "this cluster"
	if g == PeerTooNew {
		older, newer = newer, older
	}
	return fmt.Sprintf("the peer has Liqo %s and this cluster %s, which do not work together: upgrade %s until it is one minor version behind %s at most", peer, own, older, newer)
}
