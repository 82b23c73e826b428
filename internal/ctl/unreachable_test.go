// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/testkit"
)

// countingProxy is a way to an API server that counts what would change something there.
type countingProxy struct {
	*httptest.Server
	writes atomic.Int32
	// bare hides the kinds of Liqo.
	bare bool
}

func newCountingProxy(t *testing.T, cfg *rest.Config, bare bool) *countingProxy {
	t.Helper()
	target, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := &countingProxy{bare: bare}
	proxy := &httputil.ReverseProxy{Transport: transport, ModifyResponse: f.hide, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Set("Accept", "application/json")
	}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asks := strings.Contains(r.URL.Path, "accessreviews") || r.URL.Query().Get("dryRun") == "All"
		if r.Method == http.MethodDelete { // which says so in its body
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			r.Body, asks = io.NopCloser(bytes.NewReader(body)), asks || bytes.Contains(body, []byte(`"dryRun":["All"]`))
		}
		if r.Method != http.MethodGet && !asks {
			f.writes.Add(1)
		}
		if bare && strings.Contains(r.URL.Path, ".liqo.io") {
			http.NotFound(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// hide takes the groups of Liqo out of the list of groups.
func (f *countingProxy) hide(r *http.Response) error {
	if !f.bare || r.Request.URL.Path != "/apis" {
		return nil
	}
	var groups metav1.APIGroupList
	if err := json.NewDecoder(r.Body).Decode(&groups); err != nil {
		return err
	}
	groups.Groups = slices.DeleteFunc(groups.Groups, func(g metav1.APIGroup) bool { return strings.HasSuffix(g.Name, ".liqo.io") })
	data, err := json.Marshal(groups)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	r.Header.Del("Content-Length")
	return err
}

// trouble is why a cluster cannot be used, and what is said of that.
type trouble struct {
	flags map[string]string // without a prefix
	said  []string
}

func troubles(t *testing.T, c *testkit.ControlPlane) map[string]trouble {
	t.Helper()
	file := func(cfg *rest.Config) map[string]string {
		return map[string]string{"kubeconfig": kubeconfigFile(t, cfg)}
	}
	foreign := httptest.NewUnstartedServer(http.NotFoundHandler())
	foreign.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that do not trust it
	foreign.StartTLS()
	t.Cleanup(foreign.Close)
	expired := rest.AnonymousClientConfig(c.Config)
	expired.BearerToken = "expired"
	outdated := rest.AnonymousClientConfig(c.Config)
	outdated.CertData, outdated.KeyData = ctltest.ExpiredCertificate(t)
	return map[string]trouble{
		"a kubeconfig that is not there":  {map[string]string{"kubeconfig": "/nowhere/kubeconfig"}, []string{"/nowhere/kubeconfig", "kubeconfig"}},
		"a context that is not there":     {map[string]string{"kubeconfig": kubeconfigFile(t, c.Config), "context": "none"}, []string{`context "none" does not exist`, "context"}},
		"a server that is not there":      {file(&rest.Config{Host: "https://127.0.0.1:1"}), []string{"the connection to the server https://127.0.0.1:1 was refused", "kubeconfig"}},
		"a server of another authority":   {file(&rest.Config{Host: foreign.URL}), []string{"signed by an authority that the kubeconfig does not know", "kubeconfig"}},
		"a server of another name":        {map[string]string{"kubeconfig": kubeconfigFile(t, c.Config), "tls-server-name": "milan.example"}, []string{"is for another server: ", "milan.example", "kubeconfig"}},
		"credentials that expired":        {file(expired), []string{"does not accept the credentials of the kubeconfig", "kubeconfig"}},
		"a certificate that expired":      {file(outdated), []string{"does not accept the credentials of the kubeconfig", "kubeconfig"}},
		"a user without rights":           {file(c.User(t, "unreachable-nobody")), nil},
		"a cluster that does not have it": {file(&rest.Config{Host: newCountingProxy(t, c.Config, true).URL}), []string{"iqo"}},
	}
}

// nowhere is a namespace without Liqo.
const nowhere = "nothing-is-here"

// forbidden is what a user without rights is told: by the API server, or by the command, which asked it.
var forbidden = []string{"forbidden", "you are not allowed to"}

func TestUnusableCluster(t *testing.T) {
	c := testkit.Cluster(t)
	_, commands := commandTree(t)
	for what, trouble := range troubles(t, c) {
		for _, name := range slices.Sorted(maps.Keys(commands)) {
			if commands[name].Flag("remote-kubeconfig") != nil || commands[name].Flag("remote-kubeconfigs") != nil {
				continue // it has two
			}
			if kind, deletes := strings.CutPrefix(name, "delete "); deletes && kind != "configuration" && kind != "peering-user" || strings.HasPrefix(name, "install ") {
				continue // they are one command with several names
			}
			if strings.Contains(what, "have it") && (strings.HasPrefix(name, "install") || slices.Contains([]string{"uninstall", "delete peering-user"}, name)) {
				continue // there it does what is asked for, or nothing is to be done
			}
			if name == "images" || name == "move volume" && strings.Contains(what, "have it") {
				continue // the first needs no cluster, and the second names the claim that it does not find
			}
			line := append(strings.Fields(name), strings.Fields(commandLines[name])...)
			for flag, value := range trouble.flags {
				line = append(line, "--"+flag, value)
			}
			tellsTrouble(t, what, trouble, liqoctl(t, nil, inLiqo(commands[name], line, "", nowhere)...), line, name == "version")
		}
	}
}

// inLiqo says to a command in which namespace Liqo is.
func inLiqo(cmd *cobra.Command, line []string, prefix, namespace string) []string {
	cmd.InheritedFlags()
	for _, flag := range []string{prefix + "liqo-namespace", prefix + "namespace"} {
		if f := cmd.Flag(flag); f != nil && strings.HasPrefix(f.Usage, "The namespace where Liqo is installed") {
			return append(line, "--"+flag, namespace)
		}
	}
	return line
}

func tellsTrouble(t *testing.T, what string, of trouble, r result, line []string, warns bool) {
	t.Helper()
	level := " ERRO "
	if warns {
		level = " WARN  Failed"
	}
	complete := r.err != nil && strings.Count(r.stderr, level) == 1 && strings.Contains(r.stderr, " INFO ") != warns
	for i, output := range of.said {
		complete = complete && (strings.Contains(r.stderr, output) || warns && i > 0)
	}
	if of.said == nil {
		complete = complete && slices.ContainsFunc(forbidden, func(s string) bool { return strings.Contains(r.stderr, s) })
	}
	if !complete {
		t.Errorf("%s: %v, %q is wanted:\n%s%s", what, line, of.said, r.stdout, r.stderr)
	}
}

func TestUnusableRemoteCluster(t *testing.T) {
	one, two := newTestCluster(t, 0, "reach-one"), testkit.SecondCluster(t)
	well := newCountingProxy(t, one.Config, false)
	kubeconfig := kubeconfigFile(t, &rest.Config{Host: well.URL})
	_, commands := commandTree(t)
	all := troubles(t, two)
	all["the same cluster twice"] = trouble{map[string]string{"kubeconfig": kubeconfig}, []string{"clusters must be different"}}
	for what, trouble := range all {
		for _, name := range slices.Sorted(maps.Keys(commands)) {
			for _, bad := range []string{"", "remote-"} {
				cmd := commands[name]
				good := strings.TrimPrefix("remote-", bad)
				several := cmd.Flag("remote-kubeconfigs") != nil // providers, which have no other flags
				if cmd.Flag("remote-kubeconfig") == nil && !several || several && bad != "" && len(trouble.flags) > 1 {
					continue
				}
				line := append(strings.Fields(name), strings.Fields(commandLines[name])...)
				flags := map[string]string{good + "kubeconfig": kubeconfig}
				for flag, value := range trouble.flags {
					flags[bad+flag] = value
				}
				for flag, value := range flags {
					if several && flag == "remote-kubeconfig" {
						flag += "s"
					}
					line = append(line, "--"+flag, value)
				}
				line = inLiqo(cmd, inLiqo(cmd, line, good, one.liqo), bad, nowhere)
				tellsTrouble(t, what, trouble, liqoctl(t, nil, line...), line, false)
				if n := well.writes.Swap(0); n > 0 {
					t.Errorf("%s: %v: %d writes to the other cluster", what, line, n)
				}
			}
		}
	}
}

// A provider that does not answer leaves what the consumer shows.
func TestExplainWithoutProvider(t *testing.T) {
	one := newTestCluster(t, 0, "explain-one")
	r := liqoctl(t, one.Config, "explain", "namespace", "default", "--liqo-namespace", one.liqo, "--remote-kubeconfig", kubeconfigFile(t, &rest.Config{Host: "https://127.0.0.1:1"}))
	if !strings.Contains(r.stderr, " WARN  The remote cluster was not asked: ") || !strings.Contains(r.stderr, "the connection to the server https://127.0.0.1:1 was refused") ||
		r.err == nil || !strings.Contains(r.err.Error(), "it has no NamespaceOffloading") {
		t.Errorf("%v:\n%s%s", r.err, r.stdout, r.stderr)
	}
}
