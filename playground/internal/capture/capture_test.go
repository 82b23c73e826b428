// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPcapHeaders(t *testing.T) {
	const want = "4d3cb2a1" + "02000400" + "0000000000000000" + "ffff0000" + "01000000"
	if diff := cmp.Diff(want, hex.EncodeToString(fileHeader())); diff != "" {
		t.Error(diff)
	}
	const packet = "01000000" + "02000000" + "3c000000" + "3c000000"
	if diff := cmp.Diff(packet, hex.EncodeToString(packetHeader(time.Unix(1, 2), 60))); diff != "" {
		t.Error(diff)
	}
}
