// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"

	"liqo.io/liqo/playground/internal/spec"
)

func newPKI(t *testing.T) (spec.Cluster, PKI) {
	t.Helper()
	w, err := spec.NewWorld("liqo-pg", "172.29.0.0/16")
	if err != nil {
		t.Fatal(err)
	}
	c := spec.Default("a", w)
	c.Family, c.Workers = spec.Dual, 2
	p := PKI(t.TempDir())
	if err := p.Ensure(c); err != nil {
		t.Fatal(err)
	}
	return c, p
}

func TestCertificateNames(t *testing.T) {
	_, p := newPKI(t)
	roots := x509.NewCertPool()
	ca, _, err := p.loadKeyPair("ca")
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(ca)
	for name, hosts := range map[string][]string{
		"apiserver": {"kubernetes.default.svc", "172.29.1.1", "fd00:ac1d::1:1", "10.101.0.1", "127.0.0.1"},
		"a2":        {"a2", "172.29.1.2", "fd00:ac1d::1:2", "172.29.1.51", "fd00:ac1d::1:33"},
	} {
		cert, _, err := p.loadKeyPair(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, h := range hosts {
			if err := cert.VerifyHostname(h); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	kubelet, _, err := p.loadKeyPair("a2")
	if err != nil {
		t.Fatal(err)
	}
	if got := kubelet.Subject.String(); got != "CN=system:node:a2,O=system:nodes" {
		t.Errorf("the kubelet is %s", got)
	}
}

func TestEnsureKeepsFiles(t *testing.T) {
	c, p := newPKI(t)
	before := readFiles(t, p)
	if err := os.Remove(p.Cert("admin")); err != nil { // a killed run may leave a key without its certificate
		t.Fatal(err)
	}
	if err := p.Ensure(c); err != nil {
		t.Fatal(err)
	}
	after := readFiles(t, p)
	for _, changed := range []string{"admin.crt", "admin.key"} {
		if before[changed] == after[changed] {
			t.Errorf("%s was not replaced", changed)
		}
		delete(before, changed)
		delete(after, changed)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(p.Key("ca")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("invalid mode of the CA's key: %v %v", info.Mode(), err)
	}
}

func TestKubeconfigIsSelfContained(t *testing.T) {
	c, p := newPKI(t)
	path := filepath.Join(t.TempDir(), "k")
	if err := WriteKubeconfig(path, c, p, "admin"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(string(p)); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://172.29.1.1:6443" || len(config.CAData) == 0 || len(config.CertData) == 0 || len(config.KeyData) == 0 {
		t.Errorf("incomplete configuration: %+v", config)
	}
}

func readFiles(t *testing.T, p PKI) map[string]string {
	t.Helper()
	files, err := os.ReadDir(string(p))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(string(p), f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[f.Name()] = string(data)
	}
	return all
}
