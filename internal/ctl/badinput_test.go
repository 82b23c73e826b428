// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/peering"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

// commandLines are what makes each command one that could run. A command that is missing here fails the tests about all of them.
var commandLines = map[string]string{
	"activate tenant":        "rome",
	"authenticate":           "",
	"bench":                  "",
	"bench latency":          "",
	"bench offload":          "",
	"bench throughput":       "",
	"check":                  "",
	"cordon resourceslice":   "big --remote-cluster-id rome --skip-confirm",
	"cordon tenant":          "rome --skip-confirm",
	"create configuration":   "x --remote-cluster-id rome --pod-cidr 10.200.0.0/16 --external-cidr 10.70.0.0/16",
	"create gatewayclient":   "x --remote-cluster-id rome --addresses 192.0.2.1 --port 31840",
	"create gatewayserver":   "x --remote-cluster-id rome",
	"create nonce":           "--remote-cluster-id rome",
	"create publickey":       "x --remote-cluster-id rome --public-key " + aKey,
	"create resourceslice":   "x --remote-cluster-id rome",
	"create virtualnode":     "x --remote-cluster-id rome --kubeconfig-secret-name s",
	"dashboard":              "",
	"delete configuration":   "x",
	"delete gatewayclient":   "x",
	"delete gatewayserver":   "x",
	"delete identity":        "x",
	"delete peering-user":    "--consumer-cluster-id milan",
	"delete publickey":       "x",
	"delete resourceslice":   "x",
	"delete tenant":          "x",
	"delete virtualnode":     "x",
	"drain tenant":           "rome --skip-confirm",
	"explain":                "pod web",
	"fleet":                  "",
	"force unpeer":           "rome --skip-confirm",
	"gather":                 "",
	"generate configuration": "",
	"generate identity":      "--remote-cluster-id rome",
	"generate peering-user":  "--consumer-cluster-id rome",
	"generate publickey":     "--gateway-type server --gateway-name x",
	"generate tenant":        "--remote-cluster-id rome",
	"get kubeconfig":         "x --remote-cluster-id rome",
	"get nonce":              "--remote-cluster-id rome",
	"images":                 "",
	"info":                   "",
	"info peer":              "",
	"install":                "--pod-cidr 10.200.0.0/16 --service-cidr 10.96.0.0/16 --cluster-id rome",
	"install k3s":            "--cluster-id rome",
	"install kind":           "--cluster-id rome",
	"install kubeadm":        "--cluster-id rome",
	"move volume":            "x --target-node milan",
	"network connect":        "",
	"network disconnect":     "--skip-confirm",
	"network init":           "",
	"network reset":          "--skip-confirm",
	"offload namespace":      "x",
	"peer":                   "",
	"test network":           "",
	"trace":                  "web 192.0.2.1",
	"unauthenticate":         "",
	"uncordon resourceslice": "big --remote-cluster-id rome --skip-confirm",
	"uncordon tenant":        "milan",
	"uninstall":              "--skip-confirm",
	"unoffload namespace":    "x --skip-confirm",
	"unpeer":                 "",
	"version":                "",
}

// kubeFlags are told of in the words of kubeconfigs.
var kubeFlags = []string{"kubeconfig", "context", "cluster", "user", "server", "request-timeout", "certificate-authority", "client-certificate"}

// badValue is one that a flag does not take, and what is said of it beside the name of the flag.
type badValue struct{ value, said string }

// badValues are by the names of flags, or those of a command and a flag where it has another meaning there.
var badValues = map[string]badValue{
	"addresses":                        {"rome.example:51840", `"rome.example:51840" is neither an IP address nor the name of a host`},
	"api-server-url":                   {"https://localhost:6443", `"https://localhost:6443": peers cannot reach a cluster at localhost`},
	"chart":                            {"https://charts.example/liqo", `invalid reference "https://charts.example/liqo": must begin with oci://`},
	"cluster-id":                       {"No_Label", `validating cluster id: "No_Label"`},
	"cluster-labels":                   {"a b=c", `invalid name "a b"`},
	"copy-to":                          {"a b", `invalid registry "a b"`},
	"consumer-cluster-id":              {"Rome", `invalid cluster ID "Rome": must be at most 63 lower-case letters`},
	"cpu":                              {"many", `invalid amount "many": must be a quantity such as 2, 500m or 4Gi`},
	"dump-values-path":                 {"/nowhere/values.yaml", `invalid path "/nowhere/values.yaml": its folder does not exist`},
	"bench duration":                   {"0s", `invalid duration "0s": must be greater than 0 and at most 1m0s`},
	"bench latency duration":           {"2m", `invalid duration "2m0s": must be greater than 0 and at most 1m0s`},
	"bench throughput duration":        {"-1s", `invalid duration "-1s": must be greater than 0 and at most 1m0s`},
	"bench pods":                       {"501", "invalid number 501: must be between 1 and 500"},
	"bench offload pods":               {"501", "invalid number 501: must be between 1 and 500"},
	"bench max-size":                   {"0", "must be greater than 0, such as 2Gi"},
	"bench throughput max-size":        {"-1", "must be greater than 0, such as 2Gi"},
	"duration":                         {"1s", "a certificate that lasts 1s is not signed, 10m0s is the least"},
	"external-cidr":                    {"10.70", `invalid address range "10.70": must be a CIDR such as`},
	"gateway-name":                     {"a/b", `invalid name "a/b"`},
	"gateway-type":                     {"peer", "it is one of server, client"},
	"get":                              {"nothing.here", `"nothing" not found`},
	"global-annotations":               {"a b=c", `invalid name "a b"`},
	"global-labels":                    {"a=${nothing}", "invalid label a=${nothing}"},
	"gw-client-address":                {"a b", `"a b" is neither an IP address nor the name of a host`},
	"gw-client-port":                   {"70000", "invalid port 70000: must be between 1 and 65535"},
	"gw-client-template-name":          {"A", `invalid name "A"`},
	"gw-client-template-namespace":     {"a.b", `invalid namespace "a.b"`},
	"gw-client-type":                   {"one/two", `invalid type of templates "one/two": must be group/version/plural`},
	"gw-server-service-loadbalancerip": {"x.example", `invalid IP address "x.example"`},
	"gw-server-service-location":       {"Elsewhere", "it is one of Consumer, Provider"},
	"gw-server-service-nodeport":       {"-1", "invalid port -1"},
	"gw-server-service-port":           {"0", "invalid port 0"},
	"gw-server-service-type":           {"None", "it is one of LoadBalancer, NodePort, ClusterIP"},
	"gw-server-template-name":          {"", `invalid name ""`},
	"gw-server-template-namespace":     {"A", `invalid namespace "A"`},
	"gw-server-type":                   {"a//b", `invalid type of templates "a//b"`},
	"image":                            {"a b", `invalid image reference "a b"`},
	"ingress-classes":                  {"A", `invalid name "A"`},
	"kubeconfig-secret-name":           {"A", `invalid name "A"`},
	"labels":                           {"a b=c", "invalid label a b=c"},
	"liqo-namespace":                   {"", `invalid namespace ""`},
	"load-balancer-classes":            {"a b", `invalid name "a b"`},
	"load-balancer-ip":                 {"x.example", `invalid IP address "x.example"`},
	"local-chart-path":                 {"/nowhere", "/nowhere"},
	"containers-cpu-limits":            {"two", `invalid amount "two"`},
	"containers-cpu-requests":          {"two", `invalid amount "two"`},
	"containers-ram-limits":            {"4 GB", `invalid amount "4 GB"`},
	"containers-ram-requests":          {"4 GB", `invalid amount "4 GB"`},
	"node":                             {"No_Node", `invalid name "No_Node"`},
	"target-node":                      {"No_Node", `invalid name "No_Node"`},
	"memory":                           {"4 GB", `invalid amount "4 GB"`},
	"mtu":                              {"1", "invalid MTU 1: must be between 576 and 65455"},
	"namespace":                        {"No Namespace", `invalid namespace "No Namespace": must be at most 63 lower-case letters`},
	"namespace-mapping-strategy":       {"Any", "it is one of DefaultName, EnforceSameName, SelectedName"},
	"node-port":                        {"70000", "invalid port 70000"},
	"node-selector":                    {"a=b c", "invalid label a=b c"},
	"nonce":                            {"short", "a nonce is 64 bytes in base64"},
	"np-nodes":                         {"some", "it is one of all, workers, control-planes"},
	"output":                           {"toml", "json"},
	"peer":                             {"Rome", `invalid cluster ID "Rome"`},
	"pod-cidr":                         {"10.1.0.0/8", `did you mean "10.0.0.0/8"?`},
	"pod-offloading-strategy":          {"Somewhere", "it is one of Local, Remote, LocalAndRemote"},
	"pods":                             {"1.5", `invalid amount "1.5": must be a whole number`},
	"port":                             {"0", "invalid port 0: must be between 1 and 65535"},
	"protocol":                         {"TCP", "it is one of UDP"},
	"profile":                          {"soft", "it is one of default, hardened"},
	"proxy-url":                        {"ftp://x", "proxy-url must be an http or https URL"},
	"public-key":                       {"short", "not an X25519 key (5 bytes)"},
	"remote-cluster-id":                {"", `invalid cluster ID ""`},
	"remote-kubeconfigs":               {"/nowhere", "/nowhere"},
	"remote-liqo-namespace":            {"A", `invalid namespace "A"`},
	"remote-namespace":                 {"A", `invalid namespace "A"`},
	"remote-namespace-name":            {"A", `invalid namespace "A"`},
	"remote-tenant-namespace":          {"A", `invalid namespace "A"`},
	"repo-url":                         {"https://charts.example", "is not supported"},
	"reserved-subnets":                 {"10.0.0.1", `invalid address range "10.0.0.1"`},
	"resource":                         {"a b=2", `invalid resource name "a b"`},
	"resource-slice-name":              {"A", `invalid name "A"`},
	"runtime-class-name":               {"A", `invalid name "A"`},
	"selector":                         {"a in", `"a in" is not a label selector`},
	"ns-selector":                      {"=", `"=" is not a label selector`},
	"service-cidr":                     {"10.96.0.0/16,fd00::/108", "is more than one address range"},
	"service-type":                     {"None", "it is one of LoadBalancer, NodePort, ClusterIP"},
	"set":                              {"nothing", `--set "nothing"`},
	"set-string":                       {"nothing", `--set-string "nothing"`},
	"storage-classes":                  {"A", `invalid name "A"`},
	"template-name":                    {"A", `invalid name "A"`},
	"template-namespace":               {"A", `invalid namespace "A"`},
	"timeout":                          {"0s", "invalid duration 0s: must be greater than 0"},
	"tls-compatibility-mode":           {"foo", "it is one of auto, true, false"},
	"type":                             {"wireguard", `invalid type of templates "wireguard"`},
	"values":                           {"/nowhere.yaml", "reading the values in /nowhere.yaml"},
	"version":                          {"a b", `invalid version "a b": must be the tag of an image`},
	"wait":                             {"ready", `--wait is healthy, not "ready"`},
	"max-size":                         {"0", "must be greater than 0, such as 200Mi"},
	"since":                            {"0s", "invalid duration 0s: must be greater than 0"},
	"output-file":                      {"/nowhere/x.tar.gz", "no such file or directory"},
	"dashboard port":                   {"70000", "invalid port 70000: must be between 1 and 65535"},
	"check wait":                       {"0s", "invalid duration 0s: must be greater than 0"},
	"vk-options-template":              {"fast", `"fast" is not written as namespace/name`},

	// How clusters are reached: kubectl's own words.
	"kubeconfig":            {"/nowhere", "/nowhere"},
	"context":               {"none", `context "none" does not exist`},
	"cluster":               {"none", `cluster "none" does not exist`},
	"user":                  {"none", `auth info "none" does not exist`},
	"server":                {"https://rome:many", "many"},
	"request-timeout":       {"soon", "imeout must be"},
	"certificate-authority": {"/nowhere.pem", "/nowhere.pem"},
	"client-certificate":    {"/nowhere.pem", "/nowhere.pem"},
}

// anyValue are the flags of which any value means something, and why.
var anyValue = map[string]string{
	"class":                "whoever grants slices names their classes",
	"resource-slice-class": "whoever grants slices names their classes",
	"info peer get":        "which clusters there are is known from the cluster",
	"restic-image":         "it has no effect",
	"restic-server-image":  "it has no effect",
	"as":                   "users have any names, which the API server judges",
	"as-group":             "groups have any names, which the API server judges",
	"as-uid":               "free text, which the API server judges",
	"as-user-extra":        "free text, which the API server judges",
	"cache-dir":            "nothing is cached",
	"client-key":           "it is looked at beside a certificate only",
	"tls-server-name":      "the certificate of the server says which one it has",
	"token":                "the API server judges it",
}

// commandTree are the commands that can be run, by their names without that of the program.
func commandTree(t *testing.T) (*cobra.Command, map[string]*cobra.Command) {
	t.Helper()
	c := commands()
	root := newRootCommand(c)
	addCompletions(c, root)
	all := map[string]*cobra.Command{}
	for _, cmd := range subcommandsOf(root) {
		if _, known := commandLines[nameOf(cmd)]; known || !cmd.HasSubCommands() { // others are groups
			all[nameOf(cmd)] = cmd
		}
	}
	return root, all
}

func nameOf(cmd *cobra.Command) string { return strings.TrimPrefix(cmd.CommandPath(), "liqoctl ") }

func TestValidCommandLines(t *testing.T) {
	_, commands := commandTree(t)
	for name := range commands {
		if _, ok := commandLines[name]; !ok {
			t.Errorf("commandLines lacks %s", name)
		}
	}
	for name := range commandLines {
		if commands[name] == nil {
			t.Errorf("there is no command %s", name)
		}
	}
}

// silent is a cluster that nobody may call, and its kubeconfig.
func silent(t *testing.T) (kubeconfig string, called *atomic.Int32) {
	t.Helper()
	called = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		called.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	return kubeconfigFile(t, &rest.Config{Host: server.URL}), called
}

// lineOf is a command line that could run, with the clusters of it.
func lineOf(root *cobra.Command, name, local, remote string) []string {
	line := append(strings.Fields(name), strings.Fields(commandLines[name])...)
	cmd, _, _ := root.Find(strings.Fields(name))
	cmd.InheritedFlags() // has it know those of its parents
	line = append(line, "--kubeconfig", local)
	if cmd.Flag("remote-kubeconfig") != nil {
		line = append(line, "--remote-kubeconfig", remote)
	}
	if cmd.Flag("remote-kubeconfigs") != nil {
		line = append(line, "--remote-kubeconfigs", remote)
	}
	return line
}

// badValueOf is the row of a flag of a command, and that there is one.
func badValueOf(command string, f *pflag.Flag) (bad badValue, known bool) {
	if f.Value.Type() == "bool" {
		return badValue{"maybe", "it is true or false"}, true
	}
	for _, key := range []string{command + " " + f.Name, f.Name, strings.TrimPrefix(f.Name, "remote-")} {
		if bad, ok := badValues[key]; ok && anyValue[command+" "+f.Name] == "" {
			return bad, true
		}
		if anyValue[key] != "" {
			return badValue{}, true
		}
	}
	return badValue{}, false
}

func TestInvalidFlags(t *testing.T) {
	local, called := silent(t)
	remote, calledToo := silent(t)
	root, commands := commandTree(t)
	tried := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		cmd := commands[name]
		cmd.InheritedFlags()
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || tried[f.Name] && sharedByAll(root, cmd, f) {
				return
			}
			tried[f.Name] = true
			bad, known := badValueOf(name, f)
			if !known {
				t.Errorf("%s: --%s has no row in badValues, and none in anyValue that says why there is no bad one", name, f.Name)
			}
			if bad.said == "" {
				return
			}
			line := lineOf(root, name, local, remote)
			r := liqoctl(t, nil, append(line, "--"+f.Name+"="+bad.value)...)
			if n := called.Swap(0) + calledToo.Swap(0); n > 0 || r.stdout != "" || r.err == nil || strings.Count(r.stderr, " ERRO ") != 1 ||
				!strings.Contains(r.stderr, bad.said) || !strings.Contains(r.stderr, nameIn(f)) {
				t.Errorf("%s --%s=%s: %d calls, %q is wanted:\n%s%s", name, f.Name, bad.value, n, bad.said, r.stdout, r.stderr)
			}
			r.explains(t)
		})
	}
}

// nameIn is what an error calls a flag.
func nameIn(f *pflag.Flag) string {
	name, remote := strings.CutPrefix(f.Name, "remote-")
	switch known := slices.Contains(kubeFlags, name); {
	case known && remote:
		return "--remote-kubeconfig and --remote-context"
	case known:
		return "--kubeconfig and --context"
	}
	return "--" + f.Name
}

// sharedByAll tells whether a flag is the same one in all commands, or in all about two clusters.
func sharedByAll(root, cmd *cobra.Command, f *pflag.Flag) bool {
	name := f.Name
	if cmd.Flag("remote-kubeconfig") != nil {
		name = strings.TrimPrefix(f.Name, "remote-")
	}
	shared := root.PersistentFlags().Lookup(name)
	return shared != nil && shared.Usage == strings.TrimSuffix(f.Usage, " (in the remote cluster)")
}

func TestInvalidArguments(t *testing.T) {
	local, called := silent(t)
	remote, calledToo := silent(t)
	root, commands := commandTree(t)
	// The arguments that are wrong by commands, and what is said of them.
	wrong := map[string]badValue{
		"create resourceslice": {"A", `"A" cannot be the name of a node`}, "create virtualnode": {"A", `"A" cannot be the name of a node`},
		"force unpeer": {"Rome", `invalid cluster ID "Rome"`}, "info peer": {"Rome", `invalid cluster ID "Rome"`},
		"offload namespace": {"a.b", `invalid namespace "a.b"`}, "unoffload namespace": {"a.b", `invalid namespace "a.b"`},
		"trace": {"a/b", `"a/b" is neither a pod nor a Service`},
	}
	for name, cmd := range commands {
		line := lineOf(root, name, local, remote)
		bad, takes := wrong[name], strings.Contains(cmd.Use, " ")
		if takes && bad.said == "" {
			bad = badValue{"a/b", `invalid name "a/b"`}
		}
		refused := func(output string, args []string) {
			t.Helper()
			r := liqoctl(t, nil, args...)
			if n := called.Swap(0) + calledToo.Swap(0); n > 0 || r.stdout != "" || r.err == nil || strings.Count(r.stderr, " ERRO ") != 1 || !strings.Contains(r.stderr, output) {
				t.Errorf("%v: %d calls, %q is wanted:\n%s%s", args, n, output, r.stdout, r.stderr)
			}
		}
		words := len(strings.Fields(name))
		if !takes {
			refused("extra", slices.Insert(slices.Clone(line), words, "extra"))
			continue
		}
		var without []string
		if commandLines[name] != "" {
			without = slices.Delete(slices.Clone(line), words, words+1)
		} else {
			without = slices.Clone(line)
		}
		refused(bad.said, slices.Insert(slices.Clone(without), words, bad.value))
		if many := strings.Contains(cmd.Use, "..."); !many {
			refused("arg(s), received", slices.Insert(slices.Clone(line), words, "one-more"))
		}
		if name != "info peer" {
			r := liqoctl(t, nil, without...)
			r.refuses(t, map[string]string{
				"force unpeer":        "Cluster ID must be specified",
				"offload namespace":   "namespace name or label selector must be specified",
				"unoffload namespace": "namespace name or label selector must be specified",
			}[name])
		}
	}
}

func TestUnknownCommands(t *testing.T) {
	root, _ := commandTree(t)
	for _, group := range append(root.Commands(), root) {
		if !group.HasSubCommands() || group.Name() == "completion" || group.Hidden {
			continue
		}
		args := []string{"dance"}
		if group != root {
			args = []string{group.Name(), "dance"}
		}
		liqoctl(t, nil, args...).refuses(t, `"dance" for "`+group.CommandPath()+`"`)
	}
}

// readers are the commands without a dry run, most because they write nothing, and why.
var readers = map[string]string{
	"bench":                  "each of its steps needs what the one before made, and all is removed at the end",
	"bench latency":          "each of its steps needs what the one before made, and all is removed at the end",
	"bench offload":          "each of its steps needs what the one before made, and all is removed at the end",
	"bench throughput":       "each of its steps needs what the one before made, and all is removed at the end",
	"check":                  "it reads",
	"dashboard":              "it reads",
	"explain":                "it reads",
	"fleet":                  "it reads",
	"gather":                 "it reads",
	"generate configuration": "it prints what another cluster is to have",
	"generate identity":      "it prints what another cluster is to have",
	"generate publickey":     "it prints what another cluster is to have",
	"get kubeconfig":         "it reads",
	"get nonce":              "it reads",
	"images":                 "it reads",
	"info":                   "it reads",
	"info peer":              "it reads",
	"move volume":            "each of its steps needs what the one before made",
	"trace":                  "it reads",
	"version":                "it reads",
}

// refusing are the commands for which these clusters are not, what they say then, and where their dry run is tested.
var refusing = map[string]struct{ said, elsewhere string }{
	"install":         {"already has the cluster ID", "TestInstallOutput has a cluster without Liqo"},
	"install k3s":     {"already has the cluster ID", "TestInstallOutput has a cluster without Liqo"},
	"install kind":    {"was not made by kubeadm", "TestInstallOutput has a cluster that was"},
	"install kubeadm": {"was not made by kubeadm", "TestInstallOutput has a cluster that was"},
	"test network":    {"the clusters are not connected", "TestNetworkTestCommand has clusters that are"},
	"uninstall":       {"you should:", "TestInstallationLifecycle has nothing in use"},
}

// undoing are the commands about what two clusters have of each other. All others are tried before it is there.
var undoing = []string{"network disconnect", "network reset", "unauthenticate", "unpeer"}

func TestDryRunWritesNothing(t *testing.T) {
	one, two := newTestCluster(t, 0, "dry-one"), newTestCluster(t, 1, "dry-two")
	one.stop() // nobody is to act upon what is there to look at
	two.stop()
	localProxy, remoteProxy := newCountingProxy(t, one.Config, false), newCountingProxy(t, two.Config, false)
	local, remote := kubeconfigFile(t, &rest.Config{Host: localProxy.URL}), kubeconfigFile(t, &rest.Config{Host: remoteProxy.URL})
	root, commands := commandTree(t)
	tenant := knowRome(t, one)
	try := func(name string) {
		cmd := commands[name]
		cmd.InheritedFlags()
		if cmd.Flag("dry-run") == nil || cmd.Flag("output") == nil {
			t.Errorf("%s has no --dry-run, or no --output", name)
			return
		}
		line := append(lineOf(root, name, local, remote), "--dry-run", "-o", "yaml")
		line = inLiqo(cmd, inLiqo(cmd, line, "", one.liqo), "remote-", two.liqo)
		if strings.HasPrefix(name, "delete ") && cmd.Flag("namespace") != nil {
			line = append(line, "--namespace", tenant)
		}
		r := liqoctl(t, nil, line...)
		if n, m := localProxy.writes.Swap(0), remoteProxy.writes.Swap(0); n+m > 0 {
			t.Errorf("%v: %d writes to the local cluster, %d to the remote one:\n%s%s", line, n, m, r.stdout, r.stderr)
		}
		refusal := refusing[name]
		switch {
		case r.err != nil && (refusal.said == "" || !strings.Contains(r.stderr, refusal.said)):
			t.Errorf("%v has a reason to refuse that refusing does not tell:\n%s%s", line, r.stdout, r.stderr)
		case r.err == nil && refusal.said != "":
			t.Errorf("%v refuses nothing: refusing is wrong", line)
		case r.err == nil && !strings.Contains(r.stdout, "kind: "):
			t.Errorf("%v prints no object:\n%s%s", line, r.stdout, r.stderr)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		if readers[name] == "" && !slices.Contains(undoing, name) {
			try(name)
		}
	}
	knowEachOther(t, one, two)
	for _, name := range undoing {
		try(name)
	}
}

// knowRome gives a cluster one object of all that the lines of commands name: of the consumer rome, and of milan, which is cordoned and has a user.
func knowRome(t *testing.T, c *testCluster) (tenant string) {
	t.Helper()
	welcome(t, c)
	namespaceOf := func(id string) string {
		return testkit.Namespace(t, c.ControlPlane, "tenant-"+id, map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: id})
	}
	tenant = namespaceOf("rome")
	of := func(name string) metav1.ObjectMeta {
		return network.PeerMeta(client.ObjectKey{Namespace: tenant, Name: name}, "rome")
	}
	big := &authv1beta1.ResourceSlice{ObjectMeta: of("big")}
	big.Labels[names.Replicated], big.Labels[names.ReplicationOrigin] = "true", "rome"
	cordoned := &authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{ClusterID: "milan", TenantCondition: authv1beta1.TenantConditionCordoned}}
	cordoned.ObjectMeta = network.PeerMeta(client.ObjectKey{Namespace: namespaceOf("milan"), Name: "milan"}, "milan")
	signed := peering.NewHandshakeSecret(client.ObjectKey{Namespace: tenant, Name: names.SignedNonceSecret}, names.SignedNonce, "rome")
	signed.Data = map[string][]byte{names.NonceKey: pki.NewNonce()}
	user := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "of-a-user", Labels: peering.OfPeeringUser("milan")}}
	user.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "x"}
	for _, obj := range []client.Object{
		&liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: "rome"}},
		&authv1beta1.Tenant{ObjectMeta: of("rome"), Spec: authv1beta1.TenantSpec{ClusterID: "rome"}},
		cordoned, big, signed, user,
		&authv1beta1.Tenant{ObjectMeta: of("x"), Spec: authv1beta1.TenantSpec{ClusterID: "x"}},
		&authv1beta1.ResourceSlice{ObjectMeta: of("x")},
		&authv1beta1.Identity{ObjectMeta: of("x"), Spec: authv1beta1.IdentitySpec{ClusterID: "rome", Type: authv1beta1.ResourceSliceIdentityType}},
		&networkingv1beta1.Configuration{ObjectMeta: of("x")},
		&networkingv1beta1.GatewayServer{ObjectMeta: of("x")},
		&networkingv1beta1.GatewayClient{ObjectMeta: of("x")},
		&networkingv1beta1.PublicKey{ObjectMeta: of("x")},
		&offv1beta1.VirtualNode{ObjectMeta: of("x"), Spec: offv1beta1.VirtualNodeSpec{ClusterID: "rome", KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "s"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}},
		&offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: names.NamespaceOffloading}},
	} {
		ctltest.Lend(t, c.ControlPlane, obj)
	}
	return tenant
}

// knowEachOther gives two clusters what a peering leaves in them.
func knowEachOther(t *testing.T, consumer, provider *testCluster) {
	t.Helper()
	for _, in := range []struct{ c, other *testCluster }{{consumer, provider}, {provider, consumer}} {
		tenant := testkit.Namespace(t, in.c.ControlPlane, "tenant-"+in.other.id, map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: in.other.id})
		of := network.PeerMeta(client.ObjectKey{Namespace: tenant, Name: in.other.id}, in.other.id)
		objs := []client.Object{&networkingv1beta1.Configuration{ObjectMeta: of}}
		if in.c == provider {
			objs = append(objs, &networkingv1beta1.GatewayServer{ObjectMeta: of}, &authv1beta1.Tenant{ObjectMeta: of, Spec: authv1beta1.TenantSpec{ClusterID: liqov1beta1.ClusterID(in.other.id)}})
		} else {
			objs = append(objs, &networkingv1beta1.GatewayClient{ObjectMeta: of},
				&authv1beta1.Identity{ObjectMeta: of, Spec: authv1beta1.IdentitySpec{ClusterID: liqov1beta1.ClusterID(in.other.id), Type: authv1beta1.ControlPlaneIdentityType}})
		}
		for _, obj := range objs {
			ctltest.Lend(t, in.c.ControlPlane, obj)
		}
	}
}

func TestGlobalLabelsReserved(t *testing.T) {
	for _, flag := range []string{"global-labels", "global-annotations"} {
		for entry, refused := range map[string]bool{
			"liqo.io/remote-cluster-id=rome":       true,
			"networking.liqo.io/external=true":     true,
			"liqo.io/create-virtual-node=false":    true,
			"team=net":                             false,
			"example.com/liqo.io=x":                false,
			"notliqo.io/remote-cluster-id=rome":    false,
			"app.kubernetes.io/managed-by=${name}": false,
		} {
			if err := flagRules[flag](entry); (err != nil) != refused {
				t.Errorf("--%s %s: %v", flag, entry, err)
			}
		}
	}
}

func TestUnknownFlagSuggestion(t *testing.T) {
	for line, want := range map[string]string{
		"test network --remote-kubeconfig x": "unknown flag: --remote-kubeconfig\n INFO  Did you mean --remote-kubeconfigs?\n",
		"peer --remote-kubconfig x":          "unknown flag: --remote-kubconfig\n INFO  Did you mean --remote-kubeconfig?\n",
		"unpeer --everything":                "unknown flag: --everything\n INFO  Its flags are listed by: liqoctl unpeer --help\n",
		"unpeer -x":                          "unknown shorthand flag: 'x' in -x\n INFO  Its flags are listed by: liqoctl unpeer --help\n",
	} {
		liqoctl(t, nil, strings.Fields(line)...).refuses(t, want)
	}
}
