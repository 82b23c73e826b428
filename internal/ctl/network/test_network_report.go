// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"liqo.io/liqo/internal/ctl/cluster"
)

// networkReport is the result of the network test for scripts.
type networkReport struct {
	// Networks are the local prefixes of each cluster's networks in the other clusters.
	Networks []networkSeen `json:"networks"`
	Ways     []wayReport   `json:"ways"`
	Checks   []checkReport `json:"checks"`
}

type networkSeen struct {
	Cluster string `json:"cluster"`
	Sees    string `json:"sees"`
	Network string `json:"network"`
	As      string `json:"as"`
}

// wayReport is a line of the table.
type wayReport struct {
	Way      string `json:"way"`
	From     string `json:"from"`
	To       string `json:"to"`
	Passed   int    `json:"passed"`
	Failed   int    `json:"failed"`
	NotTried int    `json:"notTried"`
}

// checkReport is one check: the source, in the words of the lines about failures, the destination and the address.
type checkReport struct {
	Way     string `json:"way"`
	From    string `json:"from"`
	To      string `json:"to"`
	Origin  string `json:"origin"`
	Goal    string `json:"goal"`
	Address string `json:"address"`
	Result  string `json:"result"`
	Error   string `json:"error,omitempty"`
}

var results = [states]string{untried: "NotTried", passedCheck: "Passed", failedCheck: "Failed"}

func (t *networkTest) newReport(checks []*check) networkReport {
	r := networkReport{Networks: t.peerNetworks(), Ways: []wayReport{}, Checks: []checkReport{}}
	for _, row := range summaryRows(checks) {
		r.Ways = append(r.Ways, wayReport{row.way, row.from, row.to, row.counts[passedCheck], row.counts[failedCheck], row.counts[untried]})
	}
	for _, c := range checks {
		one := checkReport{Way: c.way, From: c.from, To: c.to, Origin: c.origin, Goal: c.goal, Address: c.target.At, Result: results[c.state]}
		if c.err != nil {
			one.Error = c.err.Error()
		}
		r.Checks = append(r.Checks, one)
	}
	return r
}

// peerNetworks returns the view of each cluster of the others' networks.
func (t *networkTest) peerNetworks() []networkSeen {
	all := []networkSeen{}
	for _, p := range t.allClusters() {
		for _, peer := range cluster.SortedKeys(p.seen) {
			for _, pair := range p.seen[peer].networks {
				all = append(all, networkSeen{p.ID, peer, pair.Remote.String(), pair.Local.String()})
			}
		}
	}
	return all
}
