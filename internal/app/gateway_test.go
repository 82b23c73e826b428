// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/deploy"
	agent "liqo.io/liqo/internal/agent/gateway"
)

// gatewayFlags are those that each gateway is given.
const gatewayFlags = "--name=rome --namespace=tenant --gateway-uid=7 --remote-cluster-id=rome --node-name=worker --pod-ip=10.200.1.9 "

func parseGateway(t *testing.T, flags string) (gatewayOptions, error) {
	t.Helper()
	var o gatewayOptions
	fs := pflag.NewFlagSet(t.Name(), pflag.ContinueOnError)
	o.addFlags(fs)
	if err := fs.Parse(strings.Fields(flags)); err != nil {
		t.Fatal(err)
	}
	return o, o.setDefaults()
}

func TestGatewayFlags(t *testing.T) {
	server := func(o *agent.Options) { o.Server, o.ListenPort = true, 51840 }
	to := func(endpoints ...string) func(*agent.Options) {
		return func(o *agent.Options) { o.Endpoints = endpoints }
	}
	for flags, edit := range map[string]func(*agent.Options){
		"--mode=server":                                                  server,
		"--mode=server --listen-ports=7,8":                               func(o *agent.Options) { o.Server, o.ListenPort = true, 7 },
		"--mode=server --endpoint-address=192.0.2.1":                     server,
		"--mode=server --mtu=0":                                          func(o *agent.Options) { server(o); o.MTU = 0 },
		"--mode=server --leader-election --mss-clamp=false --pod-name=x": func(o *agent.Options) { server(o); o.LeaderElection, o.Pod = true, "x" },
		"--mode=client":                                                  to(),
		"--mode=client --endpoint-address=192.0.2.1":                     to("192.0.2.1:51840"),
		"--mode=client --endpoint-address=2001:db8::1,rome.example --endpoint-ports=7,8": to(
			"[2001:db8::1]:7", "[2001:db8::1]:8", "rome.example:7", "rome.example:8"),
	} {
		got, err := parseGateway(t, gatewayFlags+flags)
		if err != nil {
			t.Errorf("%s: %v", flags, err)
		}
		want := agent.Options{
			Name: "rome", Namespace: "tenant", UID: "7", RemoteClusterID: "rome", LiqoNamespace: "liqo", Node: "worker", Address: netip.MustParseAddr("10.200.1.9"),
			MTU: 1340, KeysDir: "/etc/wireguard/keys", PingPort: 12345, PingInterval: time.Second, PingLossThreshold: 4, StatusInterval: 10 * time.Second,
			StateDir: os.TempDir(),
		}
		edit(&want)
		if diff := cmp.Diff(want, got.Options, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s: %s", flags, diff)
		}
	}
}

func TestGatewayInvalidFlags(t *testing.T) {
	for flags, want := range map[string]string{
		"":                                                          `--mode is server or client, not ""`,
		"--mode=peer":                                               `--mode is server or client, not "peer"`,
		"--mode=client --name=":                                     "--name is missing",
		"--mode=client --namespace=":                                "--namespace is missing",
		"--mode=client --gateway-uid=":                              "--gateway-uid is missing",
		"--mode=client --remote-cluster-id=":                        "--remote-cluster-id is missing",
		"--mode=client --node-name=":                                "--node-name is missing",
		"--mode=client --pod-ip=here":                               "reading --pod-ip: ",
		"--mode=client --ping-interval=0s":                          "--ping-interval and --ping-loss-threshold are above zero",
		"--mode=client --ping-loss-threshold=0":                     "--ping-interval and --ping-loss-threshold are above zero",
		"--mode=server --listen-ports=0":                            "--listen-ports [0] has no port",
		"--mode=server --listen-ports=65536":                        "--listen-ports [65536] has no port",
		"--mode=client --endpoint-ports=0 --endpoint-address=a":     "--endpoint-ports: invalid port 0",
		"--mode=server --leader-election":                           "--pod-name is missing",
		"--mode=client --endpoint-ports=65536 --endpoint-address=a": "--endpoint-ports: invalid port 65536",
	} {
		if _, err := parseGateway(t, gatewayFlags+flags); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", flags, err, want)
		}
	}
}

func TestForwardPackets(t *testing.T) {
	const v4, v6 = "ipv4/ip_forward", "ipv6/conf/all/forwarding"
	for name, test := range map[string]struct{ before, after map[string]string }{
		"both":         {map[string]string{v4: "0\n", v6: "0\n"}, map[string]string{v4: "1", v6: "1"}},
		"already":      {map[string]string{v4: "1\n", v6: "1\n"}, map[string]string{v4: "1\n", v6: "1\n"}},
		"without IPv6": {map[string]string{v4: "0\n"}, map[string]string{v4: "1"}},
	} {
		dir := t.TempDir()
		for file, value := range test.before {
			path := filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := forwardPackets(dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, want := test.before[v6]; hasIPv6(dir) != want {
			t.Errorf("%s: it is said that there is IPv6: %t", name, !want)
		}
		got := map[string]string{}
		for _, file := range []string{v4, v6} {
			if data, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				got[file] = string(data)
			}
		}
		if diff := cmp.Diff(test.after, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestForwardPacketsErrors(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "ipv4", "ip_forward"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := forwardPackets(dir); err == nil || !strings.Contains(err.Error(), "ip_forward") {
		t.Errorf("an error is lost: %v", err)
	}
}

// Templates of others say nothing of pings: what holds then is what holds in ours.
func TestGatewayPingFlags(t *testing.T) {
	data, err := fs.ReadFile(deploy.Chart(), "values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Networking struct {
			GatewayTemplates struct {
				Ping struct {
					LossThreshold                  int
					Interval, UpdateStatusInterval string
				}
			}
		}
	}
	if err := yaml.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	o, err := parseGateway(t, gatewayFlags+"--mode=server")
	if err != nil {
		t.Fatal(err)
	}
	ping := values.Networking.GatewayTemplates.Ping
	want := []string{ping.Interval, strconv.Itoa(ping.LossThreshold), ping.UpdateStatusInterval}
	if diff := cmp.Diff(want, []string{o.PingInterval.String(), strconv.Itoa(o.PingLossThreshold), o.StatusInterval.String()}); diff != "" {
		t.Errorf("-chart +flags:\n%s", diff)
	}
}

func TestGatewayThreads(t *testing.T) {
	for _, c := range []struct {
		setting     string
		procs, want int
	}{
		{"", 1, 1},
		{"", 2, 1},
		{"", 3, 1},
		{"", 8, 4},
		{"8", 8, 8},
		{"1", 1, 1},
		{"0", 8, 4}, // Go takes no notice of these two either
		{"many", 8, 4},
	} {
		if got := threadCount(c.setting, c.procs); got != c.want {
			t.Errorf("threads(%q, %d) = %d, want %d", c.setting, c.procs, got, c.want)
		}
	}
}

// The 41st field of proc_pid_stat(5) is the policy; 3 is SCHED_BATCH.
func TestGatewayNice(t *testing.T) {
	policy := make(chan string)
	go func() { // its thread ends with it
		if err := giveWay(); err != nil {
			t.Error(err)
		}
		out, err := exec.Command("cut", "-d", " ", "-f", "41", "/proc/self/stat").Output()
		if err != nil {
			t.Error(err)
		}
		policy <- strings.TrimSpace(string(out))
	}()
	if got := <-policy; got != "3" {
		t.Errorf("a process that it starts has the policy %s", got)
	}
}

func TestGatewayGODEBUG(t *testing.T) {
	for setting, want := range map[string]string{
		"":                       "schedtrace=2147483647",
		"gctrace=1":              "gctrace=1,schedtrace=2147483647",
		"schedtrace=5,gctrace=1": "schedtrace=5,gctrace=1",
	} {
		t.Setenv("GODEBUG", setting)
		out, err := withParentDeath(exec.Command("sh", "-c", "echo $GODEBUG")).Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("with %q it begins with %q, want %q (%v)", setting, got, want, err)
		}
	}
}
