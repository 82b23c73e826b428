// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package guides

import (
	"encoding/base64"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestRead(t *testing.T) {
	got, err := Read("# a comment\n1$ one \\\n  more\nshown\n\n2? two\n1$ cat > x <<END\n# kept\na: b\n---\nc: d\nEND\n  seen\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{
		{Cluster: "1", Text: "one \\\n  more", Shown: []string{"shown"}}, {Cluster: "2", Again: true, Text: "two"},
		{Cluster: "1", Text: "cat > x <<END\n# kept\na: b\n---\nc: d\nEND", Shown: []string{"  seen"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"# kept\na: b", "c: d"}, got[2].Documents()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, wrong := range []string{"shown before\n1$ one\n", "1$ cat <<END\na: b\n"} {
		if _, err := Read(wrong); err == nil {
			t.Errorf("%q is read", wrong)
		}
	}
}

func TestGuidesAreRead(t *testing.T) {
	all, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		if lines, err := Open(strings.TrimSuffix(file.Name(), ".txt")); err != nil || len(lines) == 0 {
			t.Errorf("%s has %d lines: %v", file.Name(), len(lines), err)
		}
	}
}

// TestManifests has the API server take each manifest that is typed, with all its fields, and in any order once the namespaces are there.
func TestManifests(t *testing.T) {
	c := testkit.Cluster(t)
	strict := client.WithFieldValidation(c.Client, metav1.FieldValidationStrict)
	key := base64.StdEncoding.EncodeToString(make([]byte, 32))
	values := map[string]string{
		"CONSUMER": "guide-rome", "PROVIDER": "guide-milan", "REMOTE_IP": "192.0.2.9", "REQUEST": base64.StdEncoding.EncodeToString(request),
		"CONSUMER_PODS": "10.200.0.0/16", "CONSUMER_EXTERNAL": "10.70.0.0/16", "PROVIDER_PODS": "10.201.0.0/16", "PROVIDER_EXTERNAL": "10.71.0.0/16",
		"CONSUMER_PRIVATE_KEY": key, "CONSUMER_PUBLIC_KEY": key, "PROVIDER_PRIVATE_KEY": key, "PROVIDER_PUBLIC_KEY": key, "CREDENTIALS": key,
	}
	lines, err := Open("declarative")
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for _, line := range lines {
		for _, document := range line.Documents() {
			obj := &unstructured.Unstructured{}
			filled := os.Expand(document, func(name string) string {
				value, known := values[name]
				if !known {
					t.Errorf("$%s has no value", name)
				}
				return value
			})
			if err := yaml.UnmarshalStrict([]byte(filled), &obj.Object); err != nil {
				t.Fatalf("%v:\n%s", err, filled)
			}
			all = append(all, obj)
		}
	}
	kinds := map[string]int{}
	for _, obj := range all {
		kinds[obj.GetKind()]++
		if obj.GetKind() == "Namespace" {
			continue
		}
		if namespace := obj.GetNamespace(); namespace != "" {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
			if err := c.Client.Create(t.Context(), ns); client.IgnoreAlreadyExists(err) != nil {
				t.Fatal(err)
			}
		}
		if err := strict.Create(t.Context(), obj.DeepCopy(), client.DryRunAll); err != nil {
			t.Errorf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	}
	want := map[string]int{
		"Namespace": 2, "Secret": 3, "PublicKey": 2, "Configuration": 2, "GatewayServer": 1, "GatewayClient": 1, "Tenant": 1, "RoleBinding": 1, "ResourceSlice": 1,
		"NamespaceOffloading": 1, "CertificateSigningRequest": 1,
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("the kinds that are typed (-want +got):\n%s", diff)
	}
	ports := slices.DeleteFunc(slices.Clone(all), func(obj *unstructured.Unstructured) bool { return obj.GetKind() != "GatewayServer" })
	if port, _, _ := unstructured.NestedFieldNoCopy(ports[0].Object, "spec", "endpoint", "nodePort"); port != int64(30742) && port != 30742.0 {
		t.Errorf("the server is at %v", port)
	}
}

// request is one for a certificate of guide-consumer, as openssl makes it.
var request = []byte(`-----BEGIN CERTIFICATE REQUEST-----
MIHTMHsCAQAwGTEXMBUGA1UEAwwOZ3VpZGUtY29uc3VtZXIwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAAT83xbTUAJHsTGa8te+bOusS58jC0mvuFZebsVXethuQxER
xOb/mJHpDlSbzt9PMDhT43m8ctTk+glMV6giZzmioAAwCgYIKoZIzj0EAwIDSAAw
RQIgCiqeTnO20QDCIq4yaqJAMTBCRMf3OdZZRkK5z5bIyyMCIQDTC4UHULNTL9ew
Zx6w37sGcJx4ZoqgzRHYuHQGFk+hYw==
-----END CERTIFICATE REQUEST-----
`)
