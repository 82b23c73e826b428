// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"
)

func TestCompatible(t *testing.T) {
	for _, c := range []struct {
		rule, own, peer string
		want            Gap
	}{
		{"the same", "v0.3.0", "v0.3.0", NoGap},
		{"another patch", "v0.3.0", "v0.3.7", NoGap},
		{"one minor version older", "v0.3.0", "v0.2.9", NoGap},
		{"one minor version newer", "v0.3.9", "v0.4.0", NoGap},
		{"two minor versions older", "v0.3.0", "v0.1.9", PeerTooOld},
		{"two minor versions newer", "v0.3.0", "v0.5.0", PeerTooNew},
		{"the last major version", "v1.0.0", "v0.9.0", PeerTooOld},
		{"the next major version", "v0.9.0", "v1.0.0", PeerTooNew},
		{"an older minor version of the next major version", "v1.5.0", "v2.0.0", PeerTooNew},
		{"a newer minor version of the last major version", "v2.0.0", "v1.5.0", PeerTooOld},
		{"a candidate of the next minor version", "v0.3.0", "v0.4.0-rc.1", NoGap},
		{"a candidate of the one after", "v0.3.0", "v0.5.0-rc.1", PeerTooNew},
		{"a build after a release", "v0.3.0", "v0.2.0-12-g764a8d4-dirty", NoGap},
		{"a build after a release long ago", "v0.3.0", "v0.1.0-12-g764a8d4", PeerTooOld},
		{"without the v", "0.3.0", "0.1.0", PeerTooOld},
		{"says nothing: the original, or older than this rule", "v0.3.0", "", NoGap},
		{"a build without a release", "v0.3.0", "764a8d4-dirty", NoGap},
		{"dev", "v0.3.0", "dev", NoGap},
		{"a digest", "v0.3.0", "sha256:0123", NoGap},
		{"no version at all", "v0.3.0", "v0.one.0", NoGap},
		{"a number that no number has room for", "v0.3.0", "v0.99999999999999999999.0", NoGap},
		{"we are no release", "dev", "v0.1.0", NoGap},
		{"we say nothing", "", "v0.1.0", NoGap},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if got := VersionGap(c.own, c.peer); got != c.want {
				t.Errorf("Between(%q, %q) is %q, want %q", c.own, c.peer, got, c.want)
			}
		})
	}
}

// Both clusters come to the same conclusion, each from its side.
func TestCompatibleSymmetric(t *testing.T) {
	opposite := map[Gap]Gap{NoGap: NoGap, PeerTooOld: PeerTooNew, PeerTooNew: PeerTooOld}
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.Custom(func(t *rapid.T) string {
			n := rapid.IntRange(0, 4)
			return fmt.Sprintf("v%d.%d.%d", n.Draw(t, "major"), n.Draw(t, "minor"), n.Draw(t, "patch"))
		})
		a, b := some.Draw(t, "a"), some.Draw(t, "b")
		if here, there := VersionGap(a, b), VersionGap(b, a); there != opposite[here] {
			t.Fatalf("%s says %q of %s, which says %q of it", a, here, b, there)
		}
	})
}

func TestGapRemedy(t *testing.T) {
	for gap, want := range map[Gap]string{
		PeerTooOld: "the peer has Liqo v0.1.0 and this cluster v0.3.0, which do not work together: upgrade the peer until it is one minor version behind this cluster at most",
		PeerTooNew: "the peer has Liqo v0.1.0 and this cluster v0.3.0, which do not work together: upgrade this cluster until it is one minor version behind the peer at most",
	} {
		if diff := cmp.Diff(want, gap.Explain("v0.3.0", "v0.1.0")); diff != "" {
			t.Error(diff)
		}
	}
}

func TestPeerVersionSanitized(t *testing.T) {
	for reported, want := range map[string][]string{
		"":                                 nil,
		JoinCapabilities(Capabilities()):   Capabilities(),
		"moving-gateways,bound-nonces":     {"bound-nonces", "moving-gateways"},
		"bound-nonces,of-tomorrow":         {"bound-nonces", "of-tomorrow"},
		"bound-nonces,bound-nonces":        {"bound-nonces"},
		"bound-nonces, <b>,A,-,a b,é,\n":   {"bound-nonces"},
		strings.Repeat("a", 64) + ",b":     {"b"},
		strings.Repeat("x,", 9) + "y,x, y": {"x", "y"},
	} {
		if diff := cmp.Diff(want, SanitizeCapabilities(SplitCapabilities(reported))); diff != "" {
			t.Errorf("%q: %s", reported, diff)
		}
	}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("c%02d", i))
	}
	if got := SanitizeCapabilities(many); len(got) != mostCapabilities {
		t.Errorf("%d are kept", len(got))
	}
	for reported, want := range map[string]string{"v1.3.0": "v1.3.0", "764a8d4-dirty": "764a8d4-dirty", "v1 <b>": "", strings.Repeat("v", 64): "", "": ""} {
		if got := SanitizeVersion(reported); got != want {
			t.Errorf("%q is shown as %q", reported, got)
		}
	}
}

func TestCapabilitiesSorted(t *testing.T) {
	if ours := Capabilities(); !slices.IsSorted(ours) || !slices.Equal(ours, SanitizeCapabilities(ours)) {
		t.Errorf("%v", ours)
	}
}
