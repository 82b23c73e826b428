// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// whatIsInterruptedIsTakenUp sends the signal of Ctrl-C after each line, the next time after the next one. Each run that follows ends as
// one does that nothing disturbs. Gateways and the handshake go on at once: the lines of the handshake are come by one by one where it is
// alone, and those of Connections may come with all that follows.
func whatIsInterruptedIsTakenUp(t *testing.T, one, two *testCluster) {
	step := stride()
	before := portrait(t, one, two)
	for _, of := range []struct {
		peer                []string
		peered, unpeered    string
		interrupted, strict int // lines of peer
	}{
		{[]string{"peer"}, guided(), ended + disconnected, lines(initialised + connected + established), lines(initialised + connected)},
		{[]string{"peer", "--networking-disabled"}, authenticated + sliced, "", lines(authenticated + sliced), lines(authenticated+sliced) - 1},
	} {
		want := undisturbed(t, one, two, of.peer...)
		for n := 1; ; n += step {
			undone := lines(of.unpeered)
			if n <= undone { // at last it looks for what is left
				interruptedAt(t, n, 0, peers(t, one, two, "unpeer")...)
			}
			peered(t, one, two, "unpeer").succeeds(t)
			itIs(t, before, one, two)
			if n > of.interrupted && n >= undone {
				break
			}
			if n <= of.interrupted {
				all := 0
				if n > of.strict {
					all = lines(of.peered)
				}
				interruptedAt(t, n, all, peers(t, one, two, of.peer...)...)
			}
			wantTranscript(t, peered(t, one, two, of.peer...), of.peered)
			itIs(t, want, one, two)
		}
	}
}

// stride is from one line to the next after which a command is interrupted. All of them take minutes: LIQO_EACH_LINE=1 asks for them, as soak
// does; else it is each ninth one.
func stride() int {
	if os.Getenv("LIQO_EACH_LINE") == "1" {
		return 1
	}
	return 9
}

// oneOfTwoDirectionsIsTakenUp interrupts what peer and unpeer do of the second direction, while the first one stays as it is, and then unpeer
// that removes the namespaces, too.
func oneOfTwoDirectionsIsTakenUp(t *testing.T, one, two *testCluster) {
	first := undisturbed(t, one, two, "peer")
	both := undisturbed(t, two, one, "peer")
	for n := 1; n <= lines(secondDirection); n += stride() {
		if n <= lines(ended) { // at last it looks for what is left
			interruptedAt(t, n, 0, peers(t, two, one, "unpeer")...)
		}
		peered(t, two, one, "unpeer").succeeds(t)
		itIs(t, first, one, two)
		interruptedAt(t, n, lines(secondDirection), peers(t, two, one, "peer")...)
		wantTranscript(t, peered(t, two, one, "peer"), secondDirection)
		itIs(t, both, one, two)
	}
	peered(t, two, one, "unpeer").succeeds(t)
	all := lines(ended + disconnected + namespacesDeleted)
	for n := 1; n <= all; n += stride() {
		peered(t, one, two, "peer").succeeds(t)
		interruptedAt(t, n, all, peers(t, one, two, "unpeer", "--delete-namespaces")...)
		peered(t, one, two, "unpeer", "--delete-namespaces").succeeds(t)
		testkit.Eventually(t, 5*time.Minute, func() error {
			for c, other := range map[*testCluster]*testCluster{one: two, two: one} { // other tests have peers here, too
				for _, list := range append(peeringKinds(), followingKinds()...) {
					if err := c.Client.List(t.Context(), list, client.MatchingLabels{names.RemoteClusterID: other.id}); err != nil {
						return err
					}
					for _, obj := range cluster.ItemsOf(list) {
						return fmt.Errorf("interrupted after %d lines and done again it leaves %s %T %s", n, c.id, obj, client.ObjectKeyFromObject(obj))
					}
				}
			}
			return nil
		})
	}
}

func lines(of string) int { return strings.Count(of, "\n") }

// itIs waits for controllers that go on for a moment after a command.
func itIs(t *testing.T, want []string, one, two *testCluster) {
	t.Helper()
	testkit.Eventually(t, 5*time.Minute, func() error {
		if diff := cmp.Diff(want, portrait(t, one, two)); diff != "" {
			return fmt.Errorf("-want +got:\n%s", diff)
		}
		return nil
	})
}

// interruptedAt interrupts a command after so many lines, with which it cannot end well: something is to be done after them. Where all lines
// are given, it can if it says that many: nothing need be.
func interruptedAt(t *testing.T, n, all int, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stderr := &lineCounter{left: n, then: cancel}
	err := Run(ctx, Options{Args: append([]string{"liqoctl"}, args...), Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: stderr})
	output := lateness.ReplaceAllString(stderr.String(), "")
	if err == nil && (all == 0 || lines(output) != all) || err != nil && (stderr.left > 0 || strings.Count(output, " ERRO ") != 1) {
		t.Errorf("interrupted after %d lines it said, and ended with %v:\n%s", n, err, output)
	}
}

// peeringKinds are those of what a peering is made of.
func peeringKinds() []client.ObjectList {
	return []client.ObjectList{
		&networkingv1beta1.ConfigurationList{}, &networkingv1beta1.GatewayServerList{}, &networkingv1beta1.GatewayClientList{}, &networkingv1beta1.PublicKeyList{},
		&authv1beta1.TenantList{}, &authv1beta1.IdentityList{}, &authv1beta1.ResourceSliceList{}, &offv1beta1.VirtualNodeList{},
		&liqov1beta1.ForeignClusterList{}, &corev1.NamespaceList{},
	}
}

// followingKinds are those of what controllers make of that.
func followingKinds() []client.ObjectList {
	return []client.ObjectList{
		&networkingv1beta1.WgGatewayServerList{}, &networkingv1beta1.WgGatewayClientList{}, &networkingv1beta1.ConnectionList{}, &ipamv1alpha1.NetworkList{}, &ipamv1alpha1.IPList{},
		&offv1beta1.NamespaceMapList{}, &offv1beta1.QuotaList{}, &appsv1.DeploymentList{}, &corev1.NodeList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{},
		&rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleBindingList{},
	}
}

// objectsOf are those of some kinds in both clusters, each said in words.
func objectsOf(t *testing.T, one, two *testCluster, kinds []client.ObjectList, say func(client.Object) string) (all []string) {
	t.Helper()
	for _, c := range []*testCluster{one, two} {
		for _, list := range kinds {
			if err := c.Client.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			for _, obj := range cluster.ItemsOf(list) {
				all = append(all, fmt.Sprintf("%s %T %s %s", c.id, obj, client.ObjectKeyFromObject(obj), say(obj)))
			}
		}
	}
	slices.Sort(all)
	return all
}

// drawn are fields that are by chance: keys, what was signed with them, and ports of nodes.
var drawn = regexp.MustCompile(`"(csr|publicKey|signature|signedCRT|port)":("[^"]*"|\d+)`)

// portrait is what a peering is made of with its labels and its spec, and the names of what follows from it.
func portrait(t *testing.T, one, two *testCluster) []string {
	t.Helper()
	all := objectsOf(t, one, two, peeringKinds(), func(obj client.Object) string {
		whole, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(map[string]any{"labels": obj.GetLabels(), "spec": whole["spec"]})
		if err != nil {
			t.Fatal(err)
		}
		return drawn.ReplaceAllString(string(text), `"$1":"drawn"`)
	})
	return slices.DeleteFunc(append(all, objectsOf(t, one, two, followingKinds(), func(client.Object) string { return "" })...), uncounted.MatchString)
}

// undisturbed makes a peering, and again until a run of the same command changed nothing, while no controller did either. It is portrayed.
func undisturbed(t *testing.T, one, two *testCluster, command ...string) []string {
	t.Helper()
	peered(t, one, two, command...).succeeds(t)
	testkit.Eventually(t, 5*time.Minute, func() error {
		versions := func() []string { return objectsOf(t, one, two, peeringKinds(), client.Object.GetResourceVersion) }
		before := append(portrait(t, one, two), versions()...)
		peered(t, one, two, command...).succeeds(t)
		if diff := cmp.Diff(before, append(portrait(t, one, two), versions()...)); diff != "" {
			return fmt.Errorf("it changes what there is (-before +after):\n%s", diff)
		}
		return nil
	})
	return portrait(t, one, two)
}

// lineCounter does something after some lines.
type lineCounter struct {
	bytes.Buffer
	left int
	then func()
}

func (c *lineCounter) Write(p []byte) (int, error) {
	if strings.HasPrefix(string(p), " INFO ") {
		c.left -= bytes.Count(p, []byte("\n"))
	}
	n, err := c.Buffer.Write(p)
	if c.left <= 0 {
		c.then()
	}
	return n, err
}

// whatIsLostIsWaitedFor has commands lose the API server of one cluster after each of their lines, until they ask for it again.
func whatIsLostIsWaitedFor(t *testing.T, one, two *testCluster) {
	local, near := relayed(t, one)
	remote, far := relayed(t, two)
	for _, lost := range []*testkit.Relay{local, remote} {
		for _, of := range []struct{ command, want string }{{"peer", guided()}, {"unpeer", ended + disconnected}} {
			output, before := &outageWriter{of: lost}, lost.Refused()
			args := append([]string{"liqoctl"}, peers(t, near, far, of.command)...)
			if err := Run(t.Context(), Options{Args: args, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: output}); err != nil {
				t.Errorf("%s ended: %v", of.command, err)
			}
			if got := comparableOutput(output.String(), of.want); got != of.want {
				t.Errorf("%s said\n%s\nnot\n%s", of.command, got, of.want)
			}
			if lost.Refused() == before {
				t.Errorf("%s lost nothing", of.command)
			}
			lost.Cut(0)
		}
	}
	// One that does not come back ends the command when its time is over, and another run goes on from there.
	command := []string{"peer", "--networking-disabled"}
	said := &lineCounter{left: 2, then: func() { remote.Cut(math.MaxInt) }}
	args, refused := append([]string{"liqoctl"}, peers(t, near, far, command...)...), remote.Refused()
	end, over := newOvertime(t.Context())
	defer over()
	ended := make(chan error, 1)
	go func() {
		ended <- Run(end, Options{Args: args, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: said})
	}()
	testkit.Eventually(t, time.Minute, func() error {
		if n := remote.Refused() - refused; n < 2 { // the command has met the first one
			return fmt.Errorf("%d requests were refused", n)
		}
		return nil
	})
	over()
	err := <-ended
	remote.Cut(0)
	result{stderr: said.String(), err: err}.refuses(t, "in the remote cluster: ", "timed out waiting for the condition", "Run the command again to continue")
	wantTranscript(t, peered(t, one, two, command...), authenticated+sliced)
	peered(t, one, two, "unpeer").succeeds(t)
}

// relayed is a cluster behind a relay, which can cut connections to its API server.
func relayed(t *testing.T, c *testCluster) (*testkit.Relay, *testCluster) {
	t.Helper()
	behind := *c.ControlPlane
	relay, cfg := testkit.NewRelay(t, c.Config)
	behind.Config = cfg
	return relay, &testCluster{ControlPlane: &behind, id: c.id, liqo: c.liqo}
}

// outageWriter takes an API server away after each line, until somebody asks for it.
type outageWriter struct {
	bytes.Buffer
	of *testkit.Relay
}

func (l *outageWriter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), " Waiting for the API server: ") { // not where the libraries try again by themselves
		return len(p), nil
	}
	l.of.Cut(1)
	return l.Buffer.Write(p)
}
