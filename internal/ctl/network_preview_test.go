// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/testkit"
)

func tenantManifest(other string) string {
	return `apiVersion: v1
kind: Namespace
metadata:
  labels:
    liqo.io/remote-cluster-id: ` + other + `
    liqo.io/tenant-namespace: "true"
    pod-security.kubernetes.io/audit: privileged
    pod-security.kubernetes.io/enforce: privileged
    pod-security.kubernetes.io/warn: privileged
  name: liqo-tenant-` + other + `
spec: {}
status: {}
---
`
}

func configurationManifest(other string) string {
	return `apiVersion: networking.liqo.io/v1beta1
kind: Configuration
metadata:
  labels:
    liqo.io/remote-cluster-id: ` + other + `
  name: ` + other + `
  namespace: liqo-tenant-` + other + `
spec:
  remote:
    cidr:
      external:
      - 10.70.0.0/16
      pod:
      - 10.200.0.0/16
status: {}
---
`
}

func clientManifest(liqo, endpoint string) string {
	return `apiVersion: networking.liqo.io/v1beta1
kind: GatewayClient
metadata:
  labels:
    liqo.io/remote-cluster-id: milan
  name: milan
  namespace: liqo-tenant-milan
spec:
  clientTemplateRef:
    apiVersion: networking.liqo.io/v1beta1
    kind: WgGatewayClientTemplate
    name: wireguard-client
    namespace: ` + liqo + `
  endpoint:
    addresses:
    - ` + endpoint + `
    protocol: UDP
  mtu: 1340
status: {}
---
`
}

func serverManifest(liqo string) string {
	return `apiVersion: networking.liqo.io/v1beta1
kind: GatewayServer
metadata:
  labels:
    liqo.io/remote-cluster-id: rome
  name: rome
  namespace: liqo-tenant-rome
spec:
  endpoint:
    nodePort: 31901
    port: 51840
    serviceType: NodePort
  mtu: 1340
  serverTemplateRef:
    apiVersion: networking.liqo.io/v1beta1
    kind: WgGatewayServerTemplate
    name: wireguard-server
    namespace: ` + liqo + `
status: {}
---
`
}

func publicKeyManifest(other, public string) string {
	return `apiVersion: networking.liqo.io/v1beta1
kind: PublicKey
metadata:
  labels:
    liqo.io/remote-cluster-id: ` + other + `
    networking.liqo.io/gateway-resource: "true"
  name: ` + other + `
  namespace: liqo-tenant-` + other + `
spec:
  publicKey: ` + public + `
---
`
}

// comment is a manifest that is not to be applied.
func comment(manifest string) string {
	return "# " + strings.ReplaceAll(strings.TrimSuffix(manifest, "\n---\n"), "\n", "\n# ") + "\n---\n"
}

var tunnelKey = regexp.MustCompile(`[A-Za-z0-9+/]{43}=`)

// numbered replaces each key by a number, equal ones by the same.
func numbered(stream string) string {
	seen := map[string]string{}
	return tunnelKey.ReplaceAllStringFunc(stream, func(key string) string {
		if _, ok := seen[key]; !ok {
			seen[key] = fmt.Sprintf("<%d>", len(seen)+1)
		}
		return seen[key]
	})
}

// aDryRunPrintsWhatConnects applies what connect prints, and is connected.
func aDryRunPrintsWhatConnects(t *testing.T, rome, milan *testCluster) {
	t.Helper()
	limitedUser := milan.User(t, "visitor")
	testkit.Allow(t, milan.ControlPlane, "", "visitor", looking...)
	before := [2][]string{listing(t, rome.Config), listing(t, milan.Config)}
	const localHead, remoteHead = "# local cluster: rome\n", "# remote cluster: milan\n"
	init := between(t, rome, milan, "init", "--dry-run")
	init.succeeds(t)
	want := localHead + tenantManifest("milan") + configurationManifest("milan") + remoteHead + tenantManifest("rome") + configurationManifest("rome")
	if diff := cmp.Diff(want, init.stdout) + cmp.Diff(identities, init.stderr); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	t.Run("of clusters that flags choose", func(t *testing.T) { eitherClusterIsChosenByFlags(t, rome, milan, want) })
	flagsOfTheTunnelReachIt(t, rome, milan)

	flags := []string{"connect", "--dry-run", "--server-service-type", "NodePort", "--node-port", "31901", "--client-address", "192.0.2.1"}
	connect := between(t, rome, milan, flags...)
	connect.succeeds(t)
	want = localHead + tenantManifest("milan") + configurationManifest("milan") + comment(clientManifest(rome.liqo, cluster.Assigned)) + comment(publicKeyManifest("milan", cluster.Assigned)) +
		remoteHead + tenantManifest("rome") + configurationManifest("rome") + serverManifest(milan.liqo) + comment(publicKeyManifest("rome", cluster.Assigned))
	const partly = " cannot be applied yet, because controllers assign a part of it: once the others are applied, ask again\n"
	warned := identities + " WARN   (local) The GatewayClient liqo-tenant-milan/milan" + partly + " WARN   (local) The PublicKey liqo-tenant-milan/milan" + partly +
		" WARN   (remote) The PublicKey liqo-tenant-rome/rome" + partly
	if diff := cmp.Diff(want, connect.stdout) + cmp.Diff(warned, connect.stderr); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if r := between(t, rome, milan, "connect", "--dry-run", "--disable-sharing-keys"); r.err != nil || strings.Contains(r.stdout, "PublicKey") {
		t.Errorf("%v: keys are shared:\n%s", r.err, r.stdout)
	}
	lists := map[string]struct{ Items []map[string]any }{}
	asJSON := between(t, rome, milan, append(flags, "-o", "json")...)
	if err := json.Unmarshal([]byte(asJSON.stdout), &lists); err != nil || len(lists["local"].Items) != 2 || len(lists["remote"].Items) != 3 {
		t.Errorf("as JSON: %v\n%s", err, asJSON.stdout)
	}

	whatIsWrongIsSaidInADryRunToo(t, rome, milan, limitedUser)
	for i, c := range []*testCluster{rome, milan} {
		for _, name := range listing(t, c.Config) {
			if !slices.Contains(before[i], name) { // what earlier tests left may go meanwhile
				t.Errorf("a dry run made %s", name)
			}
		}
	}

	again := applyWhatIsComplete(t, func() result { return between(t, rome, milan, flags...) }, remoteHead, rome, milan)
	awaitConnected(t, rome, "liqo-tenant-milan", "gw-milan")
	awaitConnected(t, milan, "liqo-tenant-rome", "gw-rome")

	// Once more it prints the same, with what the controllers assigned.
	want = localHead + configurationManifest("milan") + clientManifest(rome.liqo, "192.0.2.1\n    port: 31901") + publicKeyManifest("milan", "<1>") +
		remoteHead + configurationManifest("rome") + serverManifest(milan.liqo) + publicKeyManifest("rome", "<2>")
	unwritten := [2][]string{writes(t, rome), writes(t, milan)}
	again = between(t, rome, milan, flags...)
	if diff := cmp.Diff(want, numbered(again.stdout)) + cmp.Diff(identities, again.stderr); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(unwritten, [2][]string{writes(t, rome), writes(t, milan)}); diff != "" {
		t.Errorf("a dry run wrote something (-before +after):\n%s", diff)
	}
	aDryRunPrintsWhatGoes(t, rome, milan)
	for c, other := range map[*testCluster]string{rome: "milan", milan: "rome"} {
		tenant := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-" + other}}
		if err := c.Client.Delete(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, time.Minute, func() error { return isGone(c.Client.Get(t.Context(), client.ObjectKeyFromObject(tenant), tenant)) })
	}
}

// eitherClusterIsChosenByFlags has one kubeconfig for both, whose current context is of somebody whom nobody knows.
func eitherClusterIsChosenByFlags(t *testing.T, rome, milan *testCluster, want string) {
	t.Helper()
	all := clientcmdapi.NewConfig()
	all.CurrentContext = "stranger@milan"
	for _, c := range []*testCluster{rome, milan} {
		all.Clusters[c.id] = &clientcmdapi.Cluster{Server: c.Config.Host, CertificateAuthorityData: c.Config.CAData}
		all.AuthInfos["root@"+c.id] = &clientcmdapi.AuthInfo{ClientCertificateData: c.Config.CertData, ClientKeyData: c.Config.KeyData, Token: c.Config.BearerToken}
		all.Contexts["root@"+c.id] = &clientcmdapi.Context{Cluster: c.id, AuthInfo: "root@" + c.id}
	}
	all.AuthInfos["stranger"] = &clientcmdapi.AuthInfo{Token: "of-nobody"}
	all.Contexts["stranger@milan"] = &clientcmdapi.Context{Cluster: "milan", AuthInfo: "stranger"}
	data, err := clientcmd.Write(*all)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: milan.liqo, Name: "connects"}}
	ctltest.Lend(t, milan.ControlPlane, account)
	root := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "connects-" + milan.liqo}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: milan.liqo, Name: account.Name}},
	}
	ctltest.Lend(t, milan.ControlPlane, root)
	request := &authenticationv1.TokenRequest{}
	if err := milan.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	ask := func(flags ...string) result {
		return liqoctl(t, nil, append([]string{"network", "init", "--dry-run", "--liqo-namespace", rome.liqo, "--remote-liqo-namespace", milan.liqo}, flags...)...)
	}
	withToken := []string{"--context", "root@rome", "--remote-context", "stranger@milan", "--remote-token", request.Status.Token}
	testkit.Eventually(t, 20*time.Second, func() error { return ask(withToken...).err }) // its rights may take a moment to count
	for name, flags := range map[string][]string{
		"a context each":            {"--context", "root@rome", "--remote-context", "root@milan"},
		"a cluster and user each":   {"--cluster", "rome", "--user", "root@rome", "--remote-cluster", "milan", "--remote-user", "root@milan"},
		"the user there":            {"--context", "root@rome", "--remote-context", "stranger@milan", "--remote-user", "root@milan"},
		"the token there":           withToken,
		"the server there":          {"--context", "root@rome", "--remote-context", "root@milan", "--remote-cluster", "rome", "--remote-server", milan.Config.Host, "--remote-certificate-authority", certificateFile(t, milan)},
		"the file of the one there": {"--kubeconfig", kubeconfigFile(t, rome.Config), "--remote-context", "root@milan"},
	} {
		r := ask(flags...)
		if diff := cmp.Diff(want, r.stdout); diff != "" || r.err != nil {
			t.Errorf("%s: %v, %s-want +got:\n%s", name, r.err, r.stderr, diff)
		}
	}
	for want, flags := range map[string][]string{
		"local and remote clusters must be different: both are " + rome.Config.Host: {"--context", "root@rome", "--remote-context", "root@rome"},
		"in the remote cluster: you are not allowed to create namespaces":           {"--context", "root@rome", "--remote-context", "root@milan", "--remote-as", "visitor"},
		"Unauthorized":        {"--context", "root@rome", "--remote-context", "stranger@milan"},
		"root@paris":          {"--context", "root@rome", "--remote-context", "root@paris"},
		"https://127.0.0.1:1": {"--context", "root@rome", "--remote-context", "root@milan", "--remote-server", "https://127.0.0.1:1"},
	} {
		ask(flags...).refuses(t, want, "remote")
	}
}

// certificateFile is the authority of a cluster.
func certificateFile(t *testing.T, of *testCluster) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, of.Config.CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// flagsOfTheTunnelReachIt is about those whose effect other stories do not see.
func flagsOfTheTunnelReachIt(t *testing.T, rome, milan *testCluster) {
	t.Helper()
	of := func(side, apiVersion, kind, name, namespace string) string {
		return "  " + side + "TemplateRef:\n    apiVersion: " + apiVersion + "\n    kind: " + kind + "\n    name: " + name + "\n    namespace: " + namespace + "\n"
	}
	const group = "networking.liqo.io/v1beta1"
	for _, c := range []struct {
		flags, want []string
	}{
		{[]string{"--gw-server-template-namespace", "theirs"}, []string{
			of("server", group, "WgGatewayServerTemplate", "wireguard-server", "theirs"), of("client", group, "WgGatewayClientTemplate", "wireguard-client", rome.liqo),
		}},
		{[]string{"--gw-client-template-namespace", "ours"}, []string{
			of("server", group, "WgGatewayServerTemplate", "wireguard-server", milan.liqo), of("client", group, "WgGatewayClientTemplate", "wireguard-client", "ours"),
		}},
		{[]string{"--gw-client-type", "apps/v1/deployments", "--gw-client-template-name", "mine"}, []string{of("client", "apps/v1", "Deployment", "mine", rome.liqo)}},
		{[]string{"--gw-server-service-type", "LoadBalancer", "--gw-server-service-loadbalancerip", "192.0.2.9"}, []string{
			"  endpoint:\n    loadBalancerIP: 192.0.2.9\n    port: 51840\n    serviceType: LoadBalancer\n",
		}},
		{[]string{"--gw-client-address", "vpn.example.com", "--gw-client-port", "7"}, []string{"  endpoint:\n    addresses:\n    - vpn.example.com\n    port: 7\n    protocol: UDP\n"}},
	} {
		between(t, rome, milan, append([]string{"connect", "--dry-run", "--skip-validation", "--client-address", "192.0.2.1", "--client-port", "7"}, c.flags...)...).succeeds(t, c.want...)
	}
}

// whatIsWrongIsSaidInADryRunToo compares with what the commands say that write.
func whatIsWrongIsSaidInADryRunToo(t *testing.T, rome, milan *testCluster, limitedUser *rest.Config) {
	t.Helper()
	between(t, rome, rome, "init", "--dry-run").refuses(t, "local and remote clusters must be different", "--remote-kubeconfig")
	between(t, rome, milan, "connect", "--dry-run", "--gw-server-template-name", "none").refuses(t, "in the remote cluster: template WgGatewayServerTemplate "+milan.liqo+"/none not found")
	between(t, rome, milan, "init", "--dry-run", "-n", "missing").refuses(t, "in the local cluster: ", `namespaces "missing" not found`)
	betweenAs(t, rome, milan, rome.Config, limitedUser, "init", "--dry-run").refuses(t, "in the remote cluster: you are not allowed to create namespaces")
}

// writes tells who wrote what last of what the commands write. Controllers go on writing what they see.
func writes(t *testing.T, c *testCluster) (all []string) {
	t.Helper()
	for _, list := range []client.ObjectList{
		&networkingv1beta1.ConfigurationList{}, &networkingv1beta1.GatewayServerList{}, &networkingv1beta1.GatewayClientList{}, &networkingv1beta1.PublicKeyList{},
	} {
		if err := c.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		err := apimeta.EachListItem(list, func(item runtime.Object) error {
			obj := item.(client.Object)
			line := fmt.Sprintf("%T %s, generation %d", obj, client.ObjectKeyFromObject(obj), obj.GetGeneration())
			for _, by := range obj.GetManagedFields() {
				if by.Subresource == "" {
					line += fmt.Sprintf(", %s by %s at %s", by.Operation, by.Manager, by.Time)
				}
			}
			all = append(all, line)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// aDryRunPrintsWhatGoes prints names, asks nobody and removes nothing.
func aDryRunPrintsWhatGoes(t *testing.T, rome, milan *testCluster) {
	t.Helper()
	name := func(kind, other string) string {
		return "apiVersion: networking.liqo.io/v1beta1\nkind: " + kind + "\nmetadata:\n  name: " + other + "\n  namespace: liqo-tenant-" + other + "\n---\n"
	}
	const localHead, remoteHead = "# local cluster: rome, to be deleted\n", "# remote cluster: milan, to be deleted\n"
	for range 2 {
		r := between(t, rome, milan, "disconnect", "--dry-run")
		want := localHead + name("GatewayClient", "milan") + remoteHead + name("GatewayServer", "rome")
		if diff := cmp.Diff(want, r.stdout); diff != "" || r.err != nil {
			t.Errorf("%v: -want +got:\n%s", r.err, diff)
		}
	}
	r := between(t, rome, milan, "reset", "-o", "yaml")
	want := localHead + name("GatewayClient", "milan") + name("Configuration", "milan") + remoteHead + name("GatewayServer", "rome") + name("Configuration", "rome")
	if diff := cmp.Diff(want, r.stdout); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	between(t, rome, milan, "reset", "--skip-confirm").succeeds(t, "(remote) Network configuration correctly deleted")
	if r := between(t, rome, milan, "reset", "--dry-run"); r.stdout != localHead+"# nothing\n---\n"+remoteHead+"# nothing\n---\n" {
		t.Errorf("of nothing it printed\n%s", r.stdout)
	}
}

// applyWhatIsComplete applies what a dry run prints for two clusters until no object is incomplete. It returns the last dry run.
func applyWhatIsComplete(t *testing.T, dry func() result, secondHead string, first, second *testCluster) (r result) {
	t.Helper()
	testkit.Eventually(t, 2*time.Minute, func() error {
		r = dry()
		if r.err != nil {
			return fmt.Errorf("%w: %s", r.err, r.stderr)
		}
		one, other, _ := strings.Cut(r.stdout, secondHead)
		for c, stream := range map[*testCluster]string{first: one, second: other} {
			for doc := range strings.SplitSeq(stream, "---\n") {
				applyManifest(t, c, doc, "")
			}
		}
		if strings.Contains(r.stdout, cluster.Assigned) {
			return fmt.Errorf("it is not complete:\n%s%s", r.stdout, r.stderr)
		}
		return nil
	})
	return r
}

// documents are the objects that a command printed as YAML.
func documents(t *testing.T, stream string) (all []*unstructured.Unstructured) {
	t.Helper()
	for doc := range strings.SplitSeq(strings.TrimSuffix(stream, "---\n"), "\n---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), obj); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		all = append(all, obj)
	}
	return all
}

func awaitConnected(t *testing.T, c *testCluster, namespace, name string) {
	t.Helper()
	awaitConnection(t, c, namespace, name, networkingv1beta1.Connected)
}

func awaitConnection(t *testing.T, c *testCluster, namespace, name string, want networkingv1beta1.ConnectionStatusValue) {
	t.Helper()
	connection := &networkingv1beta1.Connection{}
	testkit.Eventually(t, time.Minute, func() error {
		err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, connection)
		if err == nil && connection.Status.Value != want {
			err = fmt.Errorf("it is %q", connection.Status.Value)
		}
		return err
	})
}

func TestUnoffloadDryRun(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "preview", nil)
	liqoctl(t, c.Config, "unoffload", "namespace", ns, "--dry-run").succeeds(t, ` INFO  Namespace "`+ns+`" is not offloaded`)
	offloading := liqoctl(t, c.Config, "offload", "namespace", ns, "--dry-run")
	offloading.succeeds(t, "kind: NamespaceOffloading\n")
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.TrimSuffix(offloading.stdout, "---\n")), obj); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopy()); !apierrors.IsNotFound(err) {
		t.Errorf("the dry run left something: %v", err)
	}
	testkit.Create(t, c.Client, obj)
	want := "apiVersion: offloading.liqo.io/v1beta1\nkind: NamespaceOffloading\nmetadata:\n  name: offloading\n  namespace: " + ns + "\n---\n"
	for range 2 {
		if r := liqoctl(t, c.Config, "unoffload", "namespace", ns, "--dry-run"); r.err != nil || r.stdout != want {
			t.Errorf("%v\n%s%s", r.err, r.stdout, r.stderr)
		}
	}
}
