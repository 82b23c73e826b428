// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

func certificate(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func sample(t testing.TB) Kubeconfig {
	t.Helper()
	key := edKey(t)
	encoded, err := EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := certificate(t, key)
	return Kubeconfig{
		Server: "https://provider:6443", CA: cert, ProxyURL: "http://10.0.0.1:8118", TLSServerName: "kubernetes",
		Namespace: "tenant", Certificate: cert, Key: encoded, Cluster: "provider", User: "controlplane-provider",
	}
}

func TestKubeconfigEncoding(t *testing.T) {
	want := sample(t)
	data, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseKubeconfig(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := clientcmd.RESTConfigFromKubeConfig(data); err != nil {
		t.Error("client-go does not read it:", err)
	}
	if !strings.Contains(string(data), "current-context: default-context") {
		t.Errorf("the context has another name:\n%s", data)
	}
}

const base = `
apiVersion: v1
kind: Config
current-context: here
contexts:
- {name: here, context: {cluster: c, user: u, namespace: tenant}}
- {name: elsewhere, context: {cluster: other, user: other}}
clusters:
- {name: c, cluster: {server: "https://provider:6443"}}
- {name: other, cluster: {server: "http://other", insecure-skip-tls-verify: true}}
users:
- {name: u, user: {token: abc}}
- {name: other, user: {exec: {command: sh, apiVersion: client.authentication.k8s.io/v1}}}
`

func TestParseKubeconfig(t *testing.T) {
	cluster := func(s string) string {
		return strings.Replace(base, `{server: "https://provider:6443"}`, `{`+s+`}`, 1)
	}
	user := func(s string) string { return strings.Replace(base, `{token: abc}`, `{`+s+`}`, 1) }
	const server = `server: "https://provider:6443", `
	b64 := base64.StdEncoding.EncodeToString
	key, other := edKey(t), edKey(t)
	cert := b64(certificate(t, key))
	encoded, err := EncodeKey(other)
	if err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct{ data, why string }{
		"takes a token of the current context": {data: base},
		"takes a CA and a proxy":               {data: cluster(server + `certificate-authority-data: ` + cert + `, proxy-url: "https://p:1"`)},
		"takes a path in the server":           {data: cluster(`server: "https://rancher/k8s/clusters/c-1"`)},
		"refuses exec":                         {data: user(`exec: {command: sh, apiVersion: v1}`), why: "exec runs a program"},
		"refuses exec beside a token":          {data: user(`token: abc, exec: {command: sh, apiVersion: v1}`), why: "exec runs a program"},
		"refuses an auth provider":             {data: user(`auth-provider: {name: gcp}`), why: "auth-provider"},
		"refuses a certificate file":           {data: user(`client-certificate: /a, client-key: /b`), why: "name files"},
		"refuses a key file":                   {data: user(`token: abc, client-key: /b`), why: "name files"},
		"refuses a token file":                 {data: user(`token: abc, tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token`), why: "tokenFile"},
		"refuses a password":                   {data: user(`username: a, password: b`), why: "password"},
		"refuses acting as a user":             {data: user(`token: abc, as: admin`), why: "impersonation"},
		"refuses acting as a group":            {data: user(`token: abc, as-groups: [system:masters]`), why: "impersonation"},
		"refuses acting as a UID":              {data: user(`token: abc, as-uid: "1"`), why: "impersonation"},
		"refuses acting with extra":            {data: user(`token: abc, as-user-extra: {a: [b]}`), why: "impersonation"},
		"refuses no credentials":               {data: user(``), why: "neither"},
		"refuses a token with a line break":    {data: user(`token: "a\nb"`), why: "characters"},
		"refuses a certificate without key":    {data: user(`client-certificate-data: ` + cert), why: "go together"},
		"refuses a certificate of another key": {data: user(`client-certificate-data: ` + cert + `, client-key-data: ` + b64(encoded)), why: "client certificate"},
		"refuses an unchecked server":          {data: cluster(server + `insecure-skip-tls-verify: true`), why: "insecure-skip-tls-verify"},
		"refuses a CA file":                    {data: cluster(server + `certificate-authority: /etc/ca.crt`), why: "names a file"},
		"refuses a CA that is none":            {data: cluster(server + `certificate-authority-data: ` + b64([]byte("x"))), why: "certificate-authority-data"},
		"refuses a server without TLS":         {data: cluster(`server: "http://provider"`), why: "https"},
		"refuses a server without scheme":      {data: cluster(`server: "provider:6443"`), why: "https"},
		"refuses a server without host":        {data: cluster(`server: "https://"`), why: "no host"},
		"refuses a server with a user":         {data: cluster(`server: "https://a:b@provider"`), why: "no more"},
		"refuses a server with a query":        {data: cluster(`server: "https://provider?x=y"`), why: "no more"},
		"refuses a proxy of another kind":      {data: cluster(server + `proxy-url: "file:///x"`), why: "proxy-url"},
		"refuses a SOCKS proxy":                {data: cluster(server + `proxy-url: "socks5://p:1"`), why: "SOCKS proxy"},
		"refuses a namespace that is none":     {data: strings.Replace(base, "namespace: tenant", `namespace: "../x"`, 1), why: "namespace"},
		"refuses no current context":           {data: strings.Replace(base, "current-context: here", "", 1), why: "no current-context"},
		"refuses a missing context":            {data: strings.Replace(base, "current-context: here", "current-context: x", 1), why: `no context "x"`},
		"refuses a missing cluster":            {data: strings.Replace(base, "cluster: c,", "cluster: x,", 1), why: `no cluster "x"`},
		"refuses a missing user":               {data: strings.Replace(base, "user: u,", "user: x,", 1), why: `no user "x"`},
		"refuses two users of one name":        {data: strings.Replace(base, "{name: other, user:", "{name: u, user:", 1), why: "several users"},
		"refuses what is not YAML":             {data: "{", why: "reading the kubeconfig"},
		"refuses nothing":                      {data: "", why: "no current-context"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseKubeconfig([]byte(test.data))
			wantRefusal(t, err, test.why)
		})
	}
}

func FuzzParseKubeconfig(f *testing.F) {
	f.Add([]byte(base))
	data, err := sample(f).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(strings.Replace(base, "token: abc", "Exec: {command: sh}, token: abc", 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		parsed, err := ParseKubeconfig(data)
		if err != nil {
			return
		}
		encoded, err := parsed.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseKubeconfig(encoded)
		if err != nil {
			t.Fatalf("what was accepted is refused once written: %v\n%s", err, encoded)
		}
		if diff := cmp.Diff(parsed, again); diff != "" {
			t.Fatal(diff)
		}
		var tree map[string]any
		if err := yaml.Unmarshal(encoded, &tree); err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(encoded)
		if err != nil {
			t.Fatalf("client-go does not read what was accepted: %v", err)
		}
		if config.ExecProvider != nil || config.AuthProvider != nil || config.Insecure || config.BearerTokenFile != "" ||
			config.CAFile != "" || config.CertFile != "" || config.KeyFile != "" || config.Impersonate.UserName != "" {
			t.Fatalf("something dangerous passed: %+v", config)
		}
	})
}
