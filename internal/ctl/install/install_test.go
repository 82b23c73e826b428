// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
)

func TestControllerManagerFlags(t *testing.T) {
	command := []string{"kube-controller-manager", "--cluster-cidr=10.1.0.0/16", "--service-cluster-ip-range", "10.2.0.0/16", "cluster-name", "x"}
	for flag, want := range map[string]string{
		"cluster-cidr": "10.1.0.0/16", "service-cluster-ip-range": "10.2.0.0/16", "cluster-name": "default", "absent": "default",
	} {
		if got := argumentValue(command, flag, "default"); got != want {
			t.Errorf("%s is %q, want %q", flag, got, want)
		}
	}
}

func TestAddressFamilyRanges(t *testing.T) {
	ranges := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("10.1.0.0/16")}
	for address, want := range map[string]bool{"10.0.3.4": true, "10.1.3.4": true, "10.2.3.4": false, "fd00::1": true, "": false} {
		if got := isWithin(address, ranges); got != want {
			t.Errorf("%q: %v, want %v", address, got, want)
		}
	}
}

func TestAPIServerAddress(t *testing.T) {
	for rule, tc := range map[string]struct {
		flag, previous, kubeconfig string
		node                       bool
		want                       string
	}{
		"the flag wins":                      {"https://api.example.com", "https://old", "https://10.0.0.1:6443", false, "https://api.example.com"},
		"then what was installed":            {"", "https://old", "https://10.0.0.1:6443", false, "https://old"},
		"then the kubeconfig":                {"", "", "https://10.0.0.1:6443", false, "https://10.0.0.1:6443"},
		"but not if it means this machine":   {"", "", "https://127.0.0.1:6443", false, ""},
		"nor by name":                        {"", "", "https://localhost:6443", false, ""},
		"nor if it means every address":      {"", "", "https://0.0.0.0:6443", false, ""},
		"nor if that kind of cluster has it": {"", "", "https://172.18.0.2:6443", true, ""},
	} {
		i := &Installer{Options: Options{APIServerURL: tc.flag, apiServerFromTheNode: tc.node}, Environment: Environment{Config: &rest.Config{Host: tc.kubeconfig}}}
		if got := i.chooseAPIServer(tc.previous); got != tc.want {
			t.Errorf("%s: %q, want %q", rule, got, tc.want)
		}
	}
}

func TestAddressPorts(t *testing.T) {
	for address, want := range map[string]string{
		"https://a.example.com": "a.example.com 443", "a.example.com:6443": "a.example.com 6443",
		"https://[fd00::1]:6443": "fd00::1 6443", "fd00::1": "fd00::1 443", "": " ", "https://a.example.com:443/path": "a.example.com 443", "https://%zz": " ",
	} {
		if host, port := hostPort(address); host+" "+port != want {
			t.Errorf("%s: %s %s, want %s", address, host, port, want)
		}
	}
}

func TestValuePrecedence(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	user, err := userValues(
		[]string{file("a.yaml", "a: {x: 1, k: 1}\npools: [10.0.0.0/8]\n"), file("b.yaml", "a: {k: 2}\npools: [192.168.0.0/16]\n"), "-"},
		[]string{"a.z=3,flag=true"}, []string{"text=4"}, strings.NewReader("input: here\n"))
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]any{"a": map[string]any{"x": "ours", "w": "ours"}}
	got := mergeValues(map[string]any{"old": "kept", "a": map[string]any{"w": "old"}}, ours, user)
	want := map[string]any{
		"old": "kept", "input": "here", "flag": true, "text": "4",
		"a":     map[string]any{"w": "ours", "x": 1.0, "k": 2.0, "z": int64(3)},
		"pools": []any{"192.168.0.0/16"}, // a list is replaced: nothing else could remove from it
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if ours["a"].(map[string]any)["k"] != nil {
		t.Error("merging changed its arguments")
	}
}

func TestGeneratedClusterID(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		id := generateID()
		if problems := validation.IsDNS1123Label(id); len(problems) > 0 {
			t.Fatalf("%q: %v", id, problems)
		}
		seen[id] = true
	}
	if len(seen) < 190 {
		t.Errorf("only %d of 200 differ", len(seen))
	}
}
