// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
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
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/prefix"
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

func keysManifest(other, private, public string) string {
	return `# New keys, which nothing has yet. They are secret: encrypt this one where others can read it.
apiVersion: v1
data:
  privateKey: ` + private + `
  publicKey: ` + public + `
kind: Secret
metadata:
  labels:
    liqo.io/remote-cluster-id: ` + other + `
    networking.liqo.io/gateway-resource: "true"
  name: gw-` + other + `
  namespace: liqo-tenant-` + other + `
type: Opaque
---
`
}

func clientManifest(liqo string) string {
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
    - 192.0.2.1
    port: 31901
    protocol: UDP
  mtu: 1340
  secretRef:
    name: gw-milan
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
  secretRef:
    name: gw-rome
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
func aDryRunPrintsWhatConnects(t *testing.T, rome, milan *town) {
	t.Helper()
	for _, c := range []*town{rome, milan} {
		testkit.Create(t, c.Client, managerWith(c, "10.0.0.0/8"))
	}
	guest := milan.User(t, "visitor")
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
	want = localHead + tenantManifest("milan") + configurationManifest("milan") + keysManifest("milan", "<1>", "<2>") + clientManifest(rome.liqo) + publicKeyManifest("milan", "<3>") +
		remoteHead + tenantManifest("rome") + configurationManifest("rome") + keysManifest("rome", "<4>", "<3>") + serverManifest(milan.liqo) + publicKeyManifest("rome", "<2>")
	if diff := cmp.Diff(want, numbered(connect.stdout)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if want := identities + " WARN   (remote) The Secret liqo-tenant-rome/gw-rome holds a new private key: encrypt it where others can read it\n" +
		" WARN   (local) The Secret liqo-tenant-milan/gw-milan holds a new private key: encrypt it where others can read it\n"; connect.stderr != want {
		t.Errorf("it said\n%s", connect.stderr)
	}
	between(t, rome, milan, "connect", "--dry-run", "--disable-sharing-keys").succeeds(t,
		"# Where the server is will be known when it runs.", " WARN   (local) The GatewayClient dials nobody before it is told where the server is")
	lists := map[string]struct{ Items []map[string]any }{}
	asJSON := between(t, rome, milan, append(flags, "-o", "json")...)
	if err := json.Unmarshal([]byte(asJSON.stdout), &lists); err != nil || len(lists["local"].Items) != 5 || len(lists["remote"].Items) != 5 {
		t.Errorf("as JSON: %v\n%s", err, asJSON.stdout)
	}

	whatIsWrongIsSaidInADryRunToo(t, rome, milan, guest)
	keysThatAreGivenAreTaken(t, rome, milan)
	keysThatNoGatewayWouldHaveAreNotTaken(t, rome, milan)
	for i, c := range []*town{rome, milan} {
		for _, name := range listing(t, c.Config) {
			if !slices.Contains(before[i], name) { // what earlier tests left may go meanwhile
				t.Errorf("a dry run made %s", name)
			}
		}
	}

	romes, milans, _ := strings.Cut(connect.stdout, remoteHead)
	applyStream(t, rome, romes)
	applyStream(t, milan, milans)
	awaitConnected(t, rome, "liqo-tenant-milan", "gw-milan")
	awaitConnected(t, milan, "liqo-tenant-rome", "gw-rome")

	// Once more it prints the same, but for what is there and nobody else may have.
	const kept = "# Its keys are in the Secret gw-%s, which is there.\n"
	want = localHead + configurationManifest("milan") + fmt.Sprintf(kept, "milan") + clientManifest(rome.liqo) + publicKeyManifest("milan", "<1>") +
		remoteHead + configurationManifest("rome") + fmt.Sprintf(kept, "rome") + serverManifest(milan.liqo) + publicKeyManifest("rome", "<2>")
	unwritten := [2][]string{writes(t, rome), writes(t, milan)}
	again := between(t, rome, milan, flags...)
	if diff := cmp.Diff(want, numbered(again.stdout)) + cmp.Diff(identities, again.stderr); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(unwritten, [2][]string{writes(t, rome), writes(t, milan)}); diff != "" {
		t.Errorf("a dry run wrote something (-before +after):\n%s", diff)
	}
	aDryRunPrintsWhatGoes(t, rome, milan)
	for c, other := range map[*town]string{rome: "milan", milan: "rome"} {
		tenant := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-" + other}}
		for _, obj := range []client.Object{managerWith(c, ""), tenant} {
			if err := c.Client.Delete(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Eventually(t, time.Minute, func() error { return isGone(c.Client.Get(t.Context(), client.ObjectKeyFromObject(tenant), tenant)) })
	}
}

// eitherClusterIsChosenByFlags has one kubeconfig for both, whose current context is of somebody whom nobody knows.
func eitherClusterIsChosenByFlags(t *testing.T, rome, milan *town, want string) {
	t.Helper()
	all := clientcmdapi.NewConfig()
	all.CurrentContext = "stranger@milan"
	for _, c := range []*town{rome, milan} {
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
	lend(t, milan.ControlPlane, account)
	root := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "connects-" + milan.liqo}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: milan.liqo, Name: account.Name}},
	}
	lend(t, milan.ControlPlane, root)
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
func certificateFile(t *testing.T, of *town) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, of.Config.CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// flagsOfTheTunnelReachIt is about those whose effect other stories do not see.
func flagsOfTheTunnelReachIt(t *testing.T, rome, milan *town) {
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
			"  endpoint:\n    addresses:\n    - 192.0.2.9\n    port: 51840\n    protocol: UDP\n",
		}},
	} {
		between(t, rome, milan, append([]string{"connect", "--dry-run", "--skip-validation"}, c.flags...)...).succeeds(t, c.want...)
	}
}

// whatIsWrongIsSaidInADryRunToo compares with what the commands say that write.
func whatIsWrongIsSaidInADryRunToo(t *testing.T, rome, milan *town, guest *rest.Config) {
	t.Helper()
	between(t, rome, rome, "init", "--dry-run").refuses(t, "local and remote clusters must be different", "--remote-kubeconfig")
	between(t, rome, milan, "connect", "--dry-run", "--gw-server-template-name", "none").refuses(t, "in the remote cluster: there is no template WgGatewayServerTemplate "+milan.liqo+"/none")
	between(t, rome, milan, "connect", "-o", "yaml", "--client-address", "192.0.2.1", "--server-service-type", "NodePort").refuses(t, "add --gw-client-port, or --gw-server-service-nodeport")
	between(t, rome, milan, "init", "--dry-run", "-n", "missing").refuses(t, "in the local cluster: ", `namespaces "missing" not found`)
	betweenAs(t, rome, milan, rome.Config, guest, "init", "--dry-run").refuses(t, "in the remote cluster: you are not allowed to create namespaces")

	testkit.Update(t, rome.Client, managerWith(rome, ""), func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Args = []string{"--pools=10.200.0.0/16"}
	})
	between(t, rome, milan, "init", "--dry-run").refuses(t,
		"in the local cluster: the network 10.200.0.0/16 of the other cluster cannot be remapped: no prefix of length 16 is free in 10.200.0.0/16")
	testkit.Update(t, rome.Client, managerWith(rome, ""), func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Args = nil
	})
	between(t, rome, milan, "init", "--dry-run").succeeds(t, " WARN   (local) Whether there is room for the networks of the other cluster was not looked at: ")
}

// keysThatAreGivenAreTaken is about a Secret with a private key alone, which is called as that of the gateway would be.
func keysThatAreGivenAreTaken(t *testing.T, rome, milan *town) {
	t.Helper()
	private, public, err := pki.NewTunnelKey()
	if err != nil {
		t.Fatal(err)
	}
	given := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw-milan"}, Data: map[string][]byte{names.PrivateKeyKey: private[:]}}
	testkit.Create(t, rome.Client, given)
	r := between(t, rome, milan, "connect", "--dry-run", "-n", "default", "--remote-namespace", "default")
	r.succeeds(t, "# Its keys are in the Secret gw-milan, which is there.\n", "  secretRef:\n    name: gw-milan\n", "publicKey: "+base64.StdEncoding.EncodeToString(public[:]))
	if strings.Count(r.stdout, "kind: Secret") != 1 || strings.Contains(r.stdout, base64.StdEncoding.EncodeToString(private[:])) {
		t.Errorf("other Secrets than that of milan are printed:\n%s", r.stdout)
	}
	if err := rome.Client.Delete(t.Context(), given); err != nil {
		t.Fatal(err)
	}
}

// keysThatNoGatewayWouldHaveAreNotTaken is about Secrets that are there, and that the controller of gateways refuses or does not see.
func keysThatNoGatewayWouldHaveAreNotTaken(t *testing.T, rome, milan *town) {
	t.Helper()
	private, public, err := pki.NewTunnelKey()
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := pki.NewTunnelKey()
	if err != nil {
		t.Fatal(err)
	}
	secret := func(name, peer string, edit func(*corev1.Secret)) *corev1.Secret {
		s := &corev1.Secret{Data: map[string][]byte{names.PrivateKeyKey: private[:], names.PublicKeyKey: public[:]}}
		s.Namespace, s.Name = "default", name
		if peer != "" {
			s.Labels = map[string]string{names.GatewayResource: "true", names.RemoteClusterID: peer}
		}
		if edit != nil {
			edit(s)
		}
		return s
	}
	held := func(s *corev1.Secret) { s.Finalizers = []string{"example.com/held"} }
	orphaned := func(s *corev1.Secret) {
		s.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: networkingv1beta1.GroupVersion.String(), Kind: "GatewayClient", Name: "earlier", UID: "1b9a6f0e-0000-4000-8000-000000000000", Controller: new(true),
		}}
	}
	for name, tc := range map[string]struct {
		there   []*corev1.Secret
		refused string // "" for new keys
	}{
		"half of another pair":      {[]*corev1.Secret{secret("gw-milan", "", func(s *corev1.Secret) { s.Data[names.PublicKeyKey] = other[:] })}, "the Secret gw-milan: publicKey does not belong to privateKey"},
		"no private half":           {[]*corev1.Secret{secret("gw-milan", "milan", func(s *corev1.Secret) { delete(s.Data, names.PrivateKeyKey) })}, "the Secret gw-milan: it has no privateKey"},
		"for another peer":          {[]*corev1.Secret{secret("gw-milan", "paris", nil)}, `the Secret gw-milan has keys for "paris", and this gateway is for "milan"`},
		"several":                   {[]*corev1.Secret{secret("one", "milan", nil), secret("two", "milan", nil)}, "several Secrets have keys for milan: one, two; keep one, or name it in spec.secretRef"},
		"being deleted":             {[]*corev1.Secret{secret("going", "milan", held)}, ""},
		"being deleted, in the way": {[]*corev1.Secret{secret("gw-milan", "milan", held)}, "the Secret default/gw-milan is being deleted: try again when it is gone"},
		"of a gateway that is gone": {[]*corev1.Secret{secret("orphan", "milan", orphaned)}, ""},
	} {
		for _, s := range tc.there {
			testkit.Create(t, rome.Client, s)
			if len(s.Finalizers) > 0 {
				if err := rome.Client.Delete(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
		}
		r := between(t, rome, milan, "connect", "--dry-run", "-n", "default", "--remote-namespace", "default")
		switch mine := base64.StdEncoding.EncodeToString(public[:]); {
		case tc.refused != "":
			r.refuses(t, "in the local cluster: "+tc.refused)
		case r.err != nil || strings.Count(r.stdout, "kind: Secret") != 2 || strings.Contains(r.stdout, mine):
			t.Errorf("%s: no new keys: %v\n%s", name, r.err, r.stdout)
		}
		for _, s := range tc.there {
			if len(s.Finalizers) > 0 {
				testkit.Update(t, rome.Client, s, func(s *corev1.Secret) { s.Finalizers = nil })
			} else if err := client.IgnoreNotFound(rome.Client.Delete(t.Context(), s)); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, time.Minute, func() error { return isGone(rome.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s)) })
		}
	}
}

// writes tells who wrote what last of what the commands write. Controllers go on writing what they see.
func writes(t *testing.T, c *town) (all []string) {
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
func aDryRunPrintsWhatGoes(t *testing.T, rome, milan *town) {
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

// managerWith is the Deployment that says how an installation was configured.
func managerWith(c *town, pools string) *appsv1.Deployment {
	labels := map[string]string{names.AppName: "controller-manager", names.AppComponent: "controller-manager"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.liqo, Name: "liqo-controller-manager", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "controller-manager", Image: "liqo:dev", Args: []string{"--pools=" + pools}}}},
			},
		},
	}
}

// applyStream is kubectl apply of several documents.
func applyStream(t *testing.T, c *town, stream string) {
	t.Helper()
	for _, obj := range documents(t, stream) {
		testkit.Create(t, client.WithFieldValidation(c.Client, metav1.FieldValidationStrict), obj)
	}
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

func awaitConnected(t *testing.T, c *town, namespace, name string) {
	t.Helper()
	awaitConnection(t, c, namespace, name, networkingv1beta1.Connected)
}

func awaitConnection(t *testing.T, c *town, namespace, name string, want networkingv1beta1.ConnectionStatusValue) {
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

func TestWhereAServerWillBe(t *testing.T) {
	udp := new(corev1.ProtocolUDP)
	there := func(serviceType corev1.ServiceType) *gateway {
		gw := newGateway(server, client.ObjectKey{Name: "rome"})
		gw.server.Spec.Endpoint = networkingv1beta1.Endpoint{Port: 51840, ServiceType: serviceType}
		gw.server.Status.Endpoint = &networkingv1beta1.EndpointStatus{Addresses: []string{"192.0.2.7"}, Port: 30123, Protocol: udp}
		return gw
	}
	at := func(address string, port int32) networkingv1beta1.EndpointStatus {
		return networkingv1beta1.EndpointStatus{Addresses: []string{address}, Port: port, Protocol: udp}
	}
	for name, tc := range map[string]struct {
		asked   connectOptions
		now     *gateway
		want    networkingv1beta1.EndpointStatus
		refused string
	}{
		"a load balancer will get some address":     {asked: connectOptions{server: gatewayServer{serviceType: "LoadBalancer", port: 51840}}},
		"a load balancer with its address":          {asked: connectOptions{server: gatewayServer{serviceType: "LoadBalancer", port: 51840, loadBalancerIP: "192.0.2.9"}}, want: at("192.0.2.9", 51840)},
		"what the client dials, of a load balancer": {asked: connectOptions{server: gatewayServer{serviceType: "LoadBalancer", port: 51840}, address: "vpn.example.com"}, want: at("vpn.example.com", 51840)},
		"a node port will be some port":             {asked: connectOptions{server: gatewayServer{serviceType: "NodePort", port: 51840}}},
		"no node port for an address":               {asked: connectOptions{server: gatewayServer{serviceType: "NodePort", port: 51840}, address: "192.0.2.1"}, refused: "add --gw-client-port"},
		"a node port and an address":                {asked: connectOptions{server: gatewayServer{serviceType: "NodePort", port: 51840, nodePort: 31900}, address: "192.0.2.1"}, want: at("192.0.2.1", 31900)},
		"all that the client dials":                 {asked: connectOptions{server: gatewayServer{serviceType: "ClusterIP", port: 51840}, address: "192.0.2.1", port: 7}, want: at("192.0.2.1", 7)},
		"no address for a port":                     {asked: connectOptions{server: gatewayServer{serviceType: "ClusterIP", port: 51840}, port: 7}, refused: "add --gw-client-address"},
		"a server that is there":                    {asked: connectOptions{server: gatewayServer{serviceType: "NodePort", port: 51840}}, now: there("NodePort"), want: at("192.0.2.7", 30123)},
		"a server behind NAT that is there":         {asked: connectOptions{server: gatewayServer{serviceType: "NodePort", port: 51840}, address: "198.51.100.7", port: 9}, now: there("NodePort"), want: at("198.51.100.7", 9)},
		"a server that will be changed":             {asked: connectOptions{server: gatewayServer{serviceType: "NodePort", port: 51840}}, now: there("LoadBalancer")},
	} {
		got, err := tc.asked.predictEndpoint(tc.now)
		if tc.refused != "" {
			if err == nil || !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("%s: got %v, want %q", name, err, tc.refused)
			}
			continue
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, -want +got:\n%s", name, err, diff)
		}
	}
}

func TestRoomForTheNetworksOfAnother(t *testing.T) {
	prefixes := func(all ...string) (out []netip.Prefix) {
		for _, one := range all {
			out = append(out, netip.MustParsePrefix(one))
		}
		return out
	}
	both := networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.200.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}
	for name, tc := range map[string]struct {
		pools, taken []netip.Prefix
		of           networkingv1beta1.ClusterConfigCIDR
		want         string
	}{
		"as they are":             {pools: prefixes("10.0.0.0/8"), of: both},
		"under others":            {pools: prefixes("10.0.0.0/8"), taken: prefixes("10.200.0.0/16", "10.70.0.0/16"), of: both},
		"outside of the pools":    {pools: prefixes("172.16.0.0/12"), of: both},
		"one fits, two do not":    {pools: prefixes("172.16.0.0/16"), taken: prefixes("10.70.0.0/16", "10.200.0.0/16"), of: both, want: "10.70.0.0/16 of the other cluster cannot be remapped: no prefix of length 16 is free in 172.16.0.0/16"},
		"none is free":            {pools: prefixes("10.200.0.0/16"), taken: prefixes("10.200.1.0/24"), of: both, want: "10.200.0.0/16 of the other cluster cannot be remapped: no prefix"},
		"the controller says why": {pools: prefixes("10.0.0.0/8"), of: networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"ten"}}},
	} {
		l := &addressRanges{pools: tc.pools}
		for _, p := range tc.taken {
			l.taken = append(l.taken, prefix.Claim{Prefix: p, Of: "another"})
		}
		err := l.freeRange(tc.of)
		if got := fmt.Sprint(err); (tc.want == "") != (err == nil) || (err != nil && !strings.Contains(got, tc.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

func TestUnoffloadTellsWhatWouldGo(t *testing.T) {
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
