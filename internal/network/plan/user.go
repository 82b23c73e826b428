// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"liqo.io/liqo/internal/datapath"
)

// Routing is a table of routes of a user, and the rules that lead there. RoutingOf makes it.
type Routing struct {
	Of     Object
	Since  time.Time
	Table  int
	Rules  []datapath.Rule // Priority 0: just before ours for what is inside of tunnels
	Routes []datapath.Route
}

// Firewall has the tables of nftables of a user, one for each family. FirewallOf makes it.
type Firewall struct {
	Of     Object
	Since  time.Time
	Tables []datapath.Table
	// Stateful is true if a rule asks connection tracking.
	Stateful bool
}

// userPlace is what users' objects have to leave alone.
type userPlace struct {
	tables []int // of routes
	before int   // priority of our first rule for that
}

// addedRules is what came of users' firewalls.
type addedRules struct{ stateful bool }

// kernelTables are the tables of routes that each host has: unspecified, default, main, local.
var kernelTables = []int{0, 253, 254, 255}

// addUsers adds what users wrote. A table is one object's: the elder's.
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
		if i := slices.IndexFunc(f.Tables, func(t datapath.Table) bool { return t.Name == datapath.TableName || t.Name == datapath.UnsettledName }); i >= 0 {
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
