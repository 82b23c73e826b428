// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package benchmark

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseResults(t *testing.T) {
	const (
		rate  = `{"bitsPerSecond": 1e9, "bytes": 5}`
		trips = `, "roundTrips": {"count": 9, "p50Seconds": 0.1, "p90Seconds": 0.2, "p99Seconds": 0.3}`
	)
	p := Plan{Targets: []string{"a"}, Streams: []int{1, 4}, RoundTrips: true}
	both := `"rates": [` + rate + "," + rate + "]"
	want := Measured{Rates: []Rate{{1e9, 5}, {1e9, 5}}, RoundTrips: &Spread{9, 0.1, 0.2, 0.3}}
	if got, err := p.ParseResults("[{" + both + trips + "}]"); err != nil || !cmp.Equal(got, []Measured{want}) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, tc := range map[string]struct {
		results string
		valid   bool
	}{
		"failed_at_once":     {`[{"error": "refused"}]`, true},
		"failed_later":       {`[{"rates": [` + rate + `], "error": "refused"}]`, true},
		"none":               {``, false},
		"null":               {`[null]`, false},
		"of_another_target":  {"[{" + both + trips + "},{" + both + trips + "}]", false},
		"too_few_rates":      {`[{"rates": [` + rate + "]" + trips + "}]", false},
		"too_many_rates":     {`[{"rates": [` + strings.Repeat(rate+",", 2) + rate + "]" + trips + "}]", false},
		"too_many_and_error": {`[{"error": "refused", "rates": [` + strings.Repeat(rate+",", 2) + rate + "]}]", false},
		"no_round_trips":     {"[{" + both + "}]", false},
		"negative":           {"[{" + strings.Replace(both, "1e9", "-1e9", 1) + trips + "}]", false},
		"tiny":               {"[{" + strings.Replace(both, "1e9", "5e-324", 1) + trips + "}]", false},
		"huge":               {"[{" + strings.Replace(both, "1e9", "1e300", 1) + trips + "}]", false},
		"infinite":           {"[{" + strings.Replace(both, "1e9", "1e999", 1) + trips + "}]", false},
		"no_data":            {"[{" + strings.Replace(both, `"bytes": 5`, `"bytes": 0`, 1) + trips + "}]", false},
		"quantiles_fall":     {"[{" + both + strings.Replace(trips, "0.1", "0.25", 1) + "}]", false},
		"no_time":            {"[{" + both + strings.Replace(trips, "0.1", "0", 1) + "}]", false},
		"long_time":          {"[{" + both + strings.Replace(trips, "0.3", "1e300", 1) + "}]", false},
		"no_trips":           {"[{" + both + strings.Replace(trips, "9", "-9", 1) + "}]", false},
		"long_text":          {`[{"error": "` + strings.Repeat("x", mostText) + `"}]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := p.ParseResults(tc.results); (err == nil) != tc.valid {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	if _, err := (Plan{Targets: []string{"a"}}).ParseResults("[{" + strings.TrimPrefix(trips, ", ") + "}]"); err == nil {
		t.Error("round trips that nobody asked for are accepted")
	}
}

// FuzzParseResults has results of any text be refused, or be printable as a document.
func FuzzParseResults(f *testing.F) {
	f.Add(`[{"rates":[{"bitsPerSecond":1e9,"bytes":5}],"roundTrips":{"count":1,"p50Seconds":1,"p90Seconds":1,"p99Seconds":1}}]`)
	f.Add(`[{"error":"x","rates":[{},{}]}]`)
	p := Plan{Targets: []string{"a"}, Streams: []int{1}, RoundTrips: true}
	f.Fuzz(func(t *testing.T, text string) {
		results, err := p.ParseResults(text)
		if err != nil {
			return
		}
		if _, err := json.Marshal(results); err != nil || len(results[0].Rates) > len(p.Streams) {
			t.Errorf("%+v, %v", results, err)
		}
	})
}
