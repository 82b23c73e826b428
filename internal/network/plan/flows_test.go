// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"liqo.io/liqo/internal/datapath"
)

// changed are the prefixes of which the two say something else.
func changed(was, is map[netip.Prefix]string) string {
	var out []string
	for p, text := range is {
		if before, known := was[p]; !known || before != text {
			out = append(out, p.String())
		}
	}
	for p := range was {
		if _, still := is[p]; !still {
			out = append(out, p.String())
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestRetranslatedFlows(t *testing.T) {
	users := func(priority int, rules ...rule) func(*Cluster) {
		return func(c *Cluster) {
			c.Firewalls = []Firewall{{Of: Object{"FirewallConfiguration", "home", "users"}, Stateful: true, Tables: []datapath.Table{{
				Family: datapath.IPv4, Name: "users", Chains: []datapath.Chain{newBaseChain("c", datapath.NAT, datapath.Prerouting, priority, rules...)},
			}}}}
		}
	}
	to := func(to string, match ...datapath.Statement) rule {
		return appendStatements(match, datapath.TranslateDestination{To: netip.MustParsePrefix(to)})
	}
	aliases := func(of ...TranslatedIP) func(*Cluster) {
		return func(c *Cluster) { c.Aliases = of }
	}
	network := func(p string) datapath.Statement { return isWithin(datapath.Destination, netip.MustParsePrefix(p)) }
	span := datapath.Cmp{Field: datapath.Source, Values: []datapath.Value{{Type: datapath.TypeAddress, Low: string([]byte{10, 71, 0, 7}), High: string([]byte{10, 71, 0, 9})}}}
	not := datapath.Cmp{Field: datapath.Source, Not: true, Values: []datapath.Value{datapath.Addr(addr("10.71.0.7"))}}
	nothing := func(*Cluster) {}
	const all = "0.0.0.0/0"
	for name, tc := range map[string]struct {
		was, is func(*Cluster)
		want    string
	}{
		"nothing":                          {nothing, nothing, ""},
		"a pod has an alias":               {nothing, aliases(alias("a", "10.70.0.22", "10.200.1.5", false)), "10.70.0.22/32"},
		"an alias is another pod's":        {aliases(alias("a", "10.70.0.22", "10.200.1.5", false)), aliases(alias("a", "10.70.0.22", "10.200.1.6", false)), "10.70.0.22/32"},
		"one of two aliases goes":          {aliases(alias("a", "10.70.0.22", "10.200.1.5", false), alias("b", "10.70.0.23", "10.200.1.6", false)), aliases(alias("b", "10.70.0.23", "10.200.1.6", false)), "10.70.0.22/32"},
		"a pod of another peer has one":    {nothing, aliases(alias("a", "10.70.0.22", "10.69.0.5", false)), "10.69.0.5/32"},
		"an alias that takes no state":     {aliases(alias("a", "10.70.0.22", "192.0.2.5", false)), aliases(alias("a", "10.70.0.22", "192.0.2.5", true)), ""},
		"a network of the peer comes":      {nothing, addedTo(0), ""},
		"one of another peer comes":        {nothing, addedTo(1), "10.65.0.0/16"},
		"another peer is gone":             {nothing, func(c *Cluster) { c.Peers = c.Peers[:1] }, "10.64.0.0/16 10.69.0.0/16"},
		"the external network is another":  {nothing, func(c *Cluster) { c.External = nets("10.60.0.0/16") }, "10.64.0.0/16 10.69.0.0/16"},
		"a user's rule comes":              {nothing, users(-100, to("10.200.1.5/32", network("10.70.1.0/24"))), "10.70.1.0/24"},
		"a user's rule is edited":          {users(-100, to("10.200.1.5/32", network("10.70.1.0/24"))), users(-100, to("10.200.1.6/32", network("10.70.1.0/24"))), "10.70.1.0/24"},
		"it comes sooner":                  {users(-100, to("10.200.1.5/32", network("10.70.1.0/24"))), users(-101, to("10.200.1.5/32", network("10.70.1.0/24"))), "10.70.1.0/24"},
		"it is for others":                 {users(-100, to("10.200.1.5/32", network("10.70.1.0/24"))), users(-100, to("10.200.1.5/32", network("10.70.2.0/24"))), "10.70.1.0/24 10.70.2.0/24"},
		"of two it is the second":          {users(-100, to("10.200.1.5/32", network("10.70.1.0/24")), to("10.200.1.5/32", network("10.70.2.0/24"))), users(-100, to("10.200.1.5/32", network("10.70.1.0/24"))), "10.70.2.0/24"},
		"a range":                          {nothing, users(-100, to("10.200.1.5/32", span)), "10.71.0.7/32 10.71.0.8/31"},
		"a rule for all but one":           {nothing, users(-100, to("10.200.1.5/32", not)), all},
		"a rule for a device":              {nothing, users(-100, to("10.200.1.5/32", fromDevice("eth0"))), all},
		"a rule for a device and one more": {users(-100, to("10.200.1.5/32", fromDevice("eth0"))), users(-100, to("10.200.1.5/32", fromDevice("eth0")), to("10.200.1.5/32", network("10.70.2.0/24"))), "10.70.2.0/24"},
	} {
		of := func(by func(*Cluster)) map[netip.Prefix]string {
			c := hub()
			by(&c)
			state, problems := Gateway(GatewayInput{Cluster: c, Of: c.Tunnels[0].Of, Peer: key("rome"), Address: c.Tunnels[0].Active, Node: "worker-1", MTU: 1340})
			if len(problems) > 0 {
				t.Fatalf("%s: %v", name, problems)
			}
			return Translations(state.Tables)
		}
		if got := changed(of(tc.was), of(tc.is)); got != tc.want {
			t.Errorf("%s: %q is translated otherwise, want %q", name, got, tc.want)
		}
	}
}

// addedTo gives a peer one more network.
func addedTo(peer int) func(*Cluster) {
	return func(c *Cluster) {
		c.Peers[peer].Pods = append(slices.Clone(c.Peers[peer].Pods), pairs("10.201.0.0/16 10.65.0.0/16")...)
	}
}

// On nodes, flows of the present networks of a peer go on, too.
func TestFlowsSurviveAddedNetwork(t *testing.T) {
	of := func(by func(*Cluster)) map[netip.Prefix]string {
		c := withAPIServer(withAliases(hub()))
		by(&c)
		state, problems := Node(NodeInput{Cluster: c, Name: "worker-1"})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return Translations(state.Tables)
	}
	if got := changed(of(func(*Cluster) {}), of(addedTo(0))); got != "" {
		t.Errorf("flows of %q are forgotten", got)
	}
}
