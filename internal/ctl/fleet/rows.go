// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"

	"liqo.io/liqo/internal/ctl/diagnose"
)

// Row is the table row of a cluster.
type Row struct {
	Cluster, Role, Phase string
	Tunnels              []Tunnel
	Slices, Nodes        int
	// Pods are the pods that run in the cluster, and the pods of the consumer; Waiting are the pods of both kinds that are not ready and have not
	// ended. Pods without a node are in the row of the local cluster.
	Pods, Waiting int
	// Findings is the number of findings of "liqoctl check".
	Findings int
}

// Rows returns the row of the local cluster, then the rows of the peers.
func (d *Document) Rows() []Row {
	local := Row{Cluster: d.Cluster.ID, Role: "Local", Phase: PhaseHealthy}
	for _, g := range d.Check.Groups {
		if !slices.ContainsFunc(d.Peers, func(p Peer) bool { return g.Name == diagnose.PeerGroup(p.ID) }) {
			local.Findings += countFindings(g)
			if slices.ContainsFunc(g.Checks, func(c diagnose.Check) bool { return c.Status == diagnose.Failed }) {
				local.Phase = PhaseUnhealthy
			}
		}
	}
	rows := []Row{local}
	index := map[string]int{d.Cluster.ID: 0, "": 0}
	for _, p := range d.Peers {
		row := Row{Cluster: p.ID, Role: p.Role, Phase: p.Phase}
		for _, t := range d.Tunnels {
			if t.Peer == p.ID {
				row.Tunnels = append(row.Tunnels, t)
			}
		}
		for _, g := range d.Check.Groups {
			if g.Name == diagnose.PeerGroup(p.ID) {
				row.Findings = countFindings(g)
			}
		}
		index[p.ID] = len(rows)
		rows = append(rows, row)
	}
	for _, s := range d.Slices {
		if i, known := index[s.Peer]; known {
			rows[i].Slices++
		}
	}
	for _, n := range d.VirtualNodes {
		if i, known := index[n.Peer]; known {
			rows[i].Nodes++
		}
	}
	for _, p := range d.Pods {
		at := p.Cluster
		if p.Consumer != "" {
			at = p.Consumer
		}
		i, known := index[at]
		if !known {
			continue
		}
		rows[i].Pods++
		if p.IsWaiting() {
			rows[i].Waiting++
		}
	}
	return rows
}

// IsWaiting reports whether a pod is not ready, and may become ready: a pod that succeeded or failed, such as an evicted pod, has ended.
func (p *Pod) IsWaiting() bool { return !p.Ready && p.Phase != "Succeeded" && p.Phase != "Failed" }

func countFindings(g diagnose.Group) (n int) {
	for _, c := range g.Checks {
		n += len(c.Findings)
	}
	return n
}
