// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"regexp"
	"strings"
	"sync"
	"testing"

	"liqo.io/liqo/test/story"
)

// currentTest is the running test: the names of its objects, or of their namespaces, begin with its name.
var currentTest struct {
	sync.Mutex
	name string
}

func setTestName(name string) {
	currentTest.Lock()
	defer currentTest.Unlock()
	currentTest.name = name
}

// interesting leaves out what every start of a process says.
func interesting(log string) string {
	return regexp.MustCompile(`(?m)^.*"(Starting|Registering|Serving|starting) .*\n`).ReplaceAllString(log, "")
}

// dump shows what a reader of a failure asks first: what there is, what our processes say, and who wrote what last.
func dump(t *testing.T) {
	t.Helper()
	currentTest.Lock()
	defer currentTest.Unlock()
	ours := []string{"logs", "--prefix", "--all-containers", "--ignore-errors", "--tail", "60"}
	for _, c := range []*cluster{consumer, provider} {
		for _, args := range [][]string{
			{"get", "nodes,rslice,identities,virtualnodes,namespacemaps,tenants,shadowpods,foreignclusters,pods", "-A", "-o", "wide", "--ignore-not-found"},
			{"get", "events", "-A", "--field-selector", "type=Warning"},
			append(ours, "-n", "liqo", "-l", "app.kubernetes.io/name=controller-manager"),
			append(ours, "-n", "liqo", "-l", "app.kubernetes.io/name=crd-replicator"),
			append(ours, "-n", currentTest.name+"-to-provider", "-l", "liqo.io/virtual-node"),
		} {
			out, err := c.Kubectl("", args...)
			t.Logf("%s $ kubectl %v\n%s%v", c.ID, args, interesting(out), err)
		}
		c.dumpAudit(t, currentTest.name)
	}
}

// dumpAudit shows the last writes to objects of the story. Clusters elsewhere than in the playground have no such log.
func (c *cluster) dumpAudit(t *testing.T, name string) {
	t.Helper()
	const last = 60
	writes, err := story.ReadAudit(c.Cluster, func(r story.Request) bool {
		concerned := name != "" && (strings.HasPrefix(r.Ref.Namespace, name) || strings.HasPrefix(r.Ref.Name, name))
		return concerned && r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" && r.Ref.Resource != "events" && r.Ref.Resource != "leases"
	})
	var text strings.Builder
	for _, w := range writes[max(0, len(writes)-last):] {
		text.WriteString(w.String() + "\n")
	}
	t.Logf("%s: the last writes to objects of %q: %v\n%s", c.ID, name, err, text.String())
}
