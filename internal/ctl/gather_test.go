// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// readArchive returns the files of an archive by their names below its folder.
func readArchive(t *testing.T, name string) map[string]string {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for tape := tar.NewReader(unzipped); ; {
		header, err := tape.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tape)
		if err != nil {
			t.Fatal(err)
		}
		_, below, _ := strings.Cut(header.Name, "/")
		files[below] = string(data)
	}
}

// secretObjects have SECRET where credentials are in practice; NS is the namespace of Liqo.
const secretObjects = `
{apiVersion: v1, kind: Secret, metadata: {name: a, annotations: {kubectl.kubernetes.io/last-applied-configuration: SECRET}}, stringData: {password: SECRET}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {x: SECRET}}, data: {config: SECRET}}
---
{apiVersion: v1, kind: Service, metadata: {name: a, annotations: {x: SECRET}}, spec: {ports: [{port: 80}]}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a, annotations: {x: SECRET}}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a, annotations: {x: SECRET}}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a, annotations: {x: SECRET}}, addressType: IPv4, endpoints: []}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a, annotations: {x: SECRET}}, spec: {podSelector: {}}}
---
apiVersion: v1
kind: Pod
metadata: {name: a, annotations: {x: SECRET}}
spec:
  initContainers: [{name: i, image: x, env: [{name: P, value: SECRET}], args: [SECRET]}]
  containers:
  - {name: a, image: x, env: [{name: P, value: SECRET}], args: [SECRET], command: [SECRET], lifecycle: {preStop: {exec: {command: [SECRET]}}}, livenessProbe: {exec: {command: [SECRET]}}}
  - {name: b, image: x, readinessProbe: {httpGet: {port: 80, httpHeaders: [{name: X-Key, value: SECRET}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, annotations: {x: SECRET}}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}, annotations: {x: SECRET}}, spec: {containers: [{name: a, image: x, env: [{name: P, value: SECRET}], args: [SECRET]}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: a}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: x, env: [{name: P, value: SECRET}], command: [SECRET]}]}}
---
{apiVersion: v1, kind: Event, metadata: {name: a}, involvedObject: {namespace: NS, name: a}, message: 'calling with Authorization: Bearer SECRET'}
---
{apiVersion: v1, kind: Event, metadata: {name: b}, involvedObject: {namespace: NS, name: a}, message: 'cannot log in with password=SECRET'}
---
{apiVersion: v1, kind: Event, metadata: {name: c}, involvedObject: {namespace: NS, name: a}, message: 'cannot reach https://me:SECRET@proxy.example:3128/'}
---
{apiVersion: networking.liqo.io/v1beta1, kind: GatewayServer, metadata: {name: a, annotations: {x: SECRET}}, spec: {serviceAnnotations: {x: SECRET}}}
---
{apiVersion: offloading.liqo.io/v1beta1, kind: ShadowPod, metadata: {name: b, annotations: {offloading.liqo.io/annotations: SECRET}}, spec: {pod: {containers: [{name: a, image: x}]}}}
---
{apiVersion: v1, kind: Event, metadata: {name: d}, involvedObject: {namespace: NS, name: a}, message: 'ran redis-cli --password SECRET ping'}
---
{apiVersion: authentication.liqo.io/v1beta1, kind: Tenant, metadata: {name: turin, annotations: {x: SECRET}}, spec: {clusterID: turin, proxyURL: 'http://me:SECRET@proxy.example:3128'}}
---
apiVersion: authentication.liqo.io/v1beta1
kind: Identity
metadata: {name: a}
spec:
  clusterID: turin
  type: ControlPlane
  authParams:
    ca: eA==
    signedCRT: eA==
    apiServer: https://192.0.2.1:6443
    proxyURL: http://me:SECRET@proxy.example:3128
    awsConfig: {awsAccessKeyID: SECRET, awsSecretAccessKey: SECRET, awsRegion: x, awsClusterName: x, awsUserArn: x}
---
apiVersion: offloading.liqo.io/v1beta1
kind: VirtualNode
metadata: {name: a}
spec:
  clusterID: turin
  template:
    metadata: {}
    spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: x, env: [{name: P, value: SECRET}], args: [SECRET]}]}}}
---
apiVersion: networking.liqo.io/v1beta1
kind: WgGatewayServerTemplate
metadata: {name: a}
spec:
  objectKind: {apiVersion: networking.liqo.io/v1beta1, kind: WgGatewayServer}
  template:
    metadata: {annotations: {x: SECRET}}
    spec:
      service: {metadata: {annotations: {x: SECRET}}, spec: {type: LoadBalancer}}
      deployment: {spec: {template: {spec: {containers: [{name: gateway, image: x, env: [{name: P, value: SECRET}], args: [SECRET]}]}}}}
---
apiVersion: offloading.liqo.io/v1beta1
kind: VkOptionsTemplate
metadata: {name: a}
spec: {createNode: true, disableNetworkCheck: false, containerImage: x, metricsEnabled: false, extraArgs: [SECRET], extraAnnotations: {x: SECRET}, nodeExtraAnnotations: {x: SECRET}}
---
{apiVersion: authentication.liqo.io/v1beta1, kind: Renew, metadata: {name: a, annotations: {x: SECRET}}, spec: {consumerClusterID: turin}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: liqo-a, annotations: {x: SECRET}, labels: {app.kubernetes.io/part-of: liqo}}, spec: {matchConstraints: {resourceRules: [{apiGroups: [x.example.com], apiVersions: [v1], operations: [CREATE], resources: [xs]}]}, validations: [{expression: "true"}]}}
---
apiVersion: offloading.liqo.io/v1beta1
kind: ShadowPod
metadata: {name: a}
spec: {pod: {containers: [{name: a, image: x, env: [{name: P, value: SECRET}], args: [SECRET]}]}}
`

func TestGather(t *testing.T) {
	c := testkit.Cluster(t)
	liqo := peerings(t, c)
	var planted []string
	text := regexp.MustCompile("SECRET").ReplaceAllStringFunc(strings.ReplaceAll(secretObjects, "NS", liqo), func(string) string {
		planted = append(planted, fmt.Sprintf("planted-secret-%02d", len(planted)))
		return planted[len(planted)-1]
	})
	if len(planted) < 30 {
		t.Fatalf("only %d secrets are planted", len(planted))
	}
	for _, one := range strings.Split(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(one), &object.Object); err != nil {
			t.Fatalf("%v in %s", err, one)
		}
		if object.GetKind() != "ValidatingAdmissionPolicy" {
			object.SetNamespace(liqo)
		}
		ctltest.Lend(t, c, object)
	}
	file := filepath.Join(t.TempDir(), "rome.tar.gz")
	gathered := liqoctl(t, c.Config, "gather", "-n", liqo, "--output-file", file)
	gathered.succeeds(t, "Wrote the archive "+file, "parts are missing: errors.txt in the archive says which")
	files := readArchive(t, file)
	for name, text := range files {
		for _, secret := range planted {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s is in %s: %s", secret, name, text[max(0, i-80):i])
			}
		}
	}
	for name, want := range map[string]string{
		"check.json":                             `"healthy": false`,
		"objects/Secret.yaml":                    "password: 24 characters",
		"objects/ConfigMap.yaml":                 "config: 17 characters",
		"objects/Pod.yaml":                       "image: x",
		"objects/VirtualNode.yaml":               "clusterID: turin",
		"objects/Identity.yaml":                  "clusterID: turin",
		"objects/Event.yaml":                     "message: cannot log in with password=REDACTED",
		"objects/ForeignCluster.yaml":            "clusterID: milan",
		"objects/Connection.yaml":                "value: Error",
		"objects/WgGatewayServerTemplate.yaml":   "name: gateway",
		"objects/VkOptionsTemplate.yaml":         "containerImage: x",
		"objects/Renew.yaml":                     "consumerClusterID: turin",
		"objects/ValidatingAdmissionPolicy.yaml": `expression: "true"`,
		"objects/NamespaceMap.yaml":              "",
		"version.txt":                            "kubernetes: v1.",
		"errors.txt":                             "metrics and network state: requesting a token of the ServiceAccount liqo-diagnostics",
		"objects/Namespace.yaml":                 "name: " + liqo,
		"objects/GatewayClient.yaml":             "",
		"objects/ResourceSlice.yaml":             "",
		"objects/CustomResourceDefinition.yaml":  "name: foreignclusters.core.liqo.io",
	} {
		if want != "" && !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %q:\n%.2000s", name, want, files[name])
		}
	}
	if strings.Contains(files["objects/CustomResourceDefinition.yaml"], "openAPIV3Schema") {
		t.Error("schemas of CRDs are in the archive")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the archive has the mode %v, %v", info.Mode(), err)
	}
	liqoctl(t, c.Config, "gather", "-n", liqo, "--output-file", file).refuses(t, "--output-file: "+file+" exists")

	small := filepath.Join(t.TempDir(), "small.tar.gz")
	liqoctl(t, c.Config, "gather", "-n", liqo, "--output-file", small, "--max-size", "10Ki").succeeds(t, "Wrote the archive ")
	total := 0
	for name, text := range readArchive(t, small) {
		if name != "errors.txt" && name != "version.txt" {
			total += len(text)
		}
	}
	if total != 10<<10 {
		t.Errorf("%d bytes are written, not 10 KiB", total)
	}
	if !strings.Contains(readArchive(t, small)["errors.txt"], "are cut off by --max-size") {
		t.Error("errors.txt does not say what is cut off")
	}
}

// A user who may read the namespace of Liqo only gets what is there.
func TestGatherForbidden(t *testing.T) {
	c := testkit.Cluster(t)
	liqo := testkit.Namespace(t, c, "liqo", nil)
	ctltest.Lend(t, c, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: liqo, Name: "id", Labels: map[string]string{names.AppName: names.ClusterIDApp}}, Data: map[string]string{names.ClusterIDKey: "rome"},
	})
	user := c.User(t, "gatherer-of-"+liqo)
	testkit.Allow(t, c, liqo, "gatherer-of-"+liqo, testkit.Rule("", "configmaps", "get", "list"), testkit.Rule("", "pods", "list"))
	file := filepath.Join(t.TempDir(), "rome.tar.gz")
	liqoctl(t, user, "gather", "-n", liqo, "--output-file", file).succeeds(t, "Wrote the archive ")
	files := readArchive(t, file)
	if !strings.Contains(files["errors.txt"], "forbidden") || !strings.Contains(files["objects/ConfigMap.yaml"], "name: id") {
		t.Errorf("the archive has %q and errors.txt:\n%s", slices.Sorted(maps.Keys(files)), files["errors.txt"])
	}
}
