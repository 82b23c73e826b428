// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"liqo.io/liqo/internal/datapath"
)

// Routing is a user's routing table with its policy routing rules, made by RoutingOf.
type Routing struct {
	Of     Object
	Since  time.Time
	Table  int
	Rules  []datapath.Rule // Priority 0: just before our rule for packets to peers
	Routes []datapath.Route
}

// Firewall holds a user's nftables tables, at most one per family, made by FirewallOf.
type Firewall struct {
	Of     Object
	Since  time.Time
	Tables []datapath.Table
	// Stateful is true if a rule depends on conntrack.
	Stateful bool
}

// userPlace describes the state reserved against users' objects.
type userPlace struct {
	tables []int // reserved routing tables
	before int   // priority of our first rule for packets to peers
}

// addedRules is the result of adding users' firewalls.
type addedRules struct{ stateful bool }

// kernelTables are the routing tables of each host: unspecified, default, main, local.
var kernelTables = []int{0, 253, 254, 255}

// addUsers adds users' routes and firewalls. A table belongs to one object: the oldest wins (precedence).
func (s *model) addUsers(out *datapath.State, c Cluster, place userPlace) addedRules {
	s.addRoutings(out, c.Routings, place)
	return s.addFirewalls(out, c.Firewalls)
}

func (s *model) addRoutings(out *datapath.State, in []Routing, place userPlace) {
	owner := map[int]Object{}
	for _, r := range byRank(in, func(r Routing) Object { return r.Of }, func(r Routing) time.Time { return r.Since }) {
		if first, ok := owner[r.Table]; ok {
			s.addProblem(r.Of, "table %d is that of %s", r.Table, first)
			continue
		}
		if slices.Contains(place.tables, r.Table) || slices.Contains(kernelTables, r.Table) {
			s.addProblem(r.Of, "table %d is not for users", r.Table)
			continue
		}
		owner[r.Table] = r.Of
		for _, one := range r.Rules {
			if one.Priority == 0 {
				one.Priority = max(place.before-1, 1)
			}
			one.Table = r.Table
			out.Rules = append(out.Rules, one)
		}
		for _, one := range r.Routes {
			one.Table = r.Table
			out.Routes = append(out.Routes, one)
		}
	}
}

func (s *model) addFirewalls(out *datapath.State, in []Firewall) addedRules {
	type key struct {
		family datapath.Family
		name   string
	}
	var all addedRules
	owner := map[key]Object{}
	for _, f := range byRank(in, func(f Firewall) Object { return f.Of }, func(f Firewall) time.Time { return f.Since }) {
		if i := slices.IndexFunc(f.Tables, func(t datapath.Table) bool {
			return t.Name == datapath.TableName || t.Name == datapath.PendingFlushTable
		}); i >= 0 {
			s.addProblem(f.Of, "the table %s is not for users", f.Tables[i].Name)
			continue
		}
		if i := slices.IndexFunc(f.Tables, func(t datapath.Table) bool { return owner[key{t.Family, t.Name}] != Object{} }); i >= 0 {
			t := f.Tables[i]
			s.addProblem(f.Of, "the table %s is that of %s", t.Name, owner[key{t.Family, t.Name}])
			continue
		}
		for _, t := range f.Tables {
			owner[key{t.Family, t.Name}] = f.Of
			out.Tables = append(out.Tables, t)
		}
		all.stateful = all.stateful || f.Stateful
	}
	return all
}
