// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/auth"
	"liqo.io/liqo/internal/certissuer"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/peering"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

// newAuthCluster is a cluster with the authentication module.
func newAuthCluster(t *testing.T, n int, id string) *testCluster {
	t.Helper()
	c := &testCluster{ControlPlane: testkit.NthCluster(t, n, testkit.WithControllers(
		"certificatesigningrequest-signing-controller", "garbage-collector-controller", "namespace-controller")), id: id}
	c.liqo = testkit.Namespace(t, c.ControlPlane, "liqo", nil)
	testkit.Create(t, c.Client, identityOf(id, c.liqo))
	c.authenticates(t)
	return c
}

// authenticates runs the authentication module.
func (c *testCluster) authenticates(t *testing.T) {
	t.Helper()
	id := liqov1beta1.ClusterID(c.id)
	c.stop = testkit.Manager(t, c.Config, kube.ManagerOptions{Name: "auth-" + c.id}, func(mgr ctrl.Manager) error {
		return errors.Join(
			auth.SetupKeys(mgr, auth.KeysOptions{LiqoNamespace: c.liqo}),
			auth.SetupSigner(mgr, auth.SignerOptions{ClusterID: id, LiqoNamespace: c.liqo}),
			auth.SetupTenant(mgr, auth.TenantOptions{ClusterID: id, LiqoNamespace: c.liqo, Server: certissuer.Server{Address: c.Config.Host}}),
			auth.SetupIdentity(mgr, auth.IdentityOptions{AllowLoopbackPeers: true, ClusterID: id, LiqoNamespace: c.liqo}),
		)
	})
}

// introduced runs authenticate or unauthenticate from consumer to provider.
func introduced(t *testing.T, consumer, provider *testCluster, args ...string) result {
	t.Helper()
	return liqoctl(t, nil, introducing(t, consumer, provider, args...)...)
}

// introducing is the command line of a command from consumer to provider.
func introducing(t *testing.T, consumer, provider *testCluster, args ...string) []string {
	t.Helper()
	return append(args, "--kubeconfig", kubeconfigFile(t, consumer.Config), "--remote-kubeconfig", kubeconfigFile(t, provider.Config),
		"--namespace", consumer.liqo, "--remote-namespace", provider.liqo)
}

const authenticated = ` INFO   (local) Tenant namespace correctly ensured
 INFO   (remote) Tenant namespace correctly ensured
 INFO   (remote) Nonce secret ensured
 INFO   (remote) Nonce generated successfully
 INFO   (remote) Nonce retrieved
 INFO   (local) Signed nonce secret ensured
 INFO   (local) Nonce is signed
 INFO   (local) Signed nonce retrieved
 INFO   (local) Tenant correctly generated
 INFO   (remote) Tenant correctly applied on provider cluster
 INFO   (remote) Tenant status is filled
 INFO   (remote) Identity correctly generated
 INFO   (local) Identity correctly applied on consumer cluster
 INFO   (local) Identity status is filled
`

const (
	unauthenticated = ` INFO   (local) No leftover resourceslices on consumer cluster
 INFO   (local) Identity control plane correctly deleted
 INFO   (remote) Tenant correctly deleted
`
	neverAuthenticated = ` INFO   (local) No leftover resourceslices on consumer cluster
 INFO   (local) Identity control plane already deleted
 INFO   (remote) Tenant already deleted
`
)

// The two clusters of this story have real controllers, and nothing but authentication.
func TestAuthenticate(t *testing.T) {
	genoa, turin := newAuthCluster(t, 2, "genoa"), newAuthCluster(t, 3, "turin")
	nobodyIsAuthenticatedWrongly(t, genoa, turin)
	aDryRunPrintsWhatAuthenticates(t, genoa, turin)
	oneCommandAuthenticates(t, genoa, turin)
	whatIsRefusedIsToldAtOnce(t, genoa, turin)
	oneDirectionIsUndone(t, genoa, turin)
	whatWasLeftBehindIsReplaced(t, genoa, turin)
	theyAreAuthenticatedByHand(t, genoa, turin)
	theProxyInTheTunnelIsFound(t, genoa, turin)
	whoDoesNotRunIsTold(t, genoa, turin)
}

// nobodyIsAuthenticatedWrongly is about what is refused before anything is changed.
func nobodyIsAuthenticatedWrongly(t *testing.T, genoa, turin *testCluster) {
	t.Helper()
	introduced(t, genoa, genoa, "auth").refuses(t, "local and remote clusters must be different")
	introduced(t, genoa, &testCluster{ControlPlane: turin.ControlPlane, liqo: "elsewhere"}, "authenticate").refuses(t,
		`in the remote cluster: Liqo is not installed in namespace "elsewhere"`)
	introduced(t, genoa, turin, "authenticate", "--in-band").refuses(t,
		"in the remote cluster: its API server has no proxy in the tunnel: IP "+turin.liqo+"/api-server-proxy not found", "--proxy-url")
	introduced(t, genoa, turin, "authenticate", "--proxy-url", "socks5://proxy:1080").refuses(t, "--proxy-url: proxy-url is a SOCKS proxy")
	apart := installed(t, map[*testCluster]string{genoa: "v0.2.0", turin: "v0.4.0"})
	introduced(t, genoa, turin, "authenticate").refuses(t, "the local cluster has Liqo v0.2.0 and the remote one v0.4.0, which do not work together")
	introduced(t, genoa, turin, "authenticate", "--dry-run").refuses(t, "which do not work together")
	apart()
	introduced(t, genoa, turin, "authenticate", "--timeout", "soon").refuses(t, "invalid argument")
	introduced(t, genoa, turin, "authenticate", "genoa").refuses(t, "unknown command")
	liqoctl(t, genoa.Config, "authenticate", "--remote-kubeconfig", "/nowhere", "-n", genoa.liqo).refuses(t, "remote cluster: ", "/nowhere")
	limitedUser := turin.User(t, "guest")
	testkit.Allow(t, turin.ControlPlane, "", "guest", testkit.Rule("", "configmaps", "list"), testkit.Rule("", "namespaces", "get", "list"),
		testkit.Rule("authentication.liqo.io", "tenants", "list"))
	for _, command := range []string{"authenticate", "unauthenticate"} {
		liqoctl(t, genoa.Config, command, "--remote-kubeconfig", kubeconfigFile(t, limitedUser), "-n", genoa.liqo, "--remote-namespace", turin.liqo).
			refuses(t, "in the remote cluster: you are not allowed to ", "secrets")
	}
	for _, c := range []*testCluster{genoa, turin} {
		var tenants corev1.NamespaceList
		if err := c.Client.List(t.Context(), &tenants, client.MatchingLabels{names.RemoteClusterID: map[string]string{"genoa": "turin", "turin": "genoa"}[c.id]}); err != nil || len(tenants.Items) > 0 {
			t.Errorf("%s has a new namespace: %v, %v", c.id, tenants.Items, err)
		}
	}
	wantTranscript(t, introduced(t, genoa, turin, "unauthenticate"), identities+neverAuthenticated)
}

// oneCommandAuthenticates also where it is interrupted after each line, and where it is run again, which changes nothing.
func oneCommandAuthenticates(t *testing.T, genoa, turin *testCluster) {
	t.Helper()
	eachLine := func(command, says string) {
		all := lines(says)
		for n := range all - 1 {
			interruptedAt(t, n+1, 0, introducing(t, genoa, turin, command)...)
		}
		interruptedAt(t, all, all, introducing(t, genoa, turin, command)...)
	}
	eachLine("authenticate", identities+authenticated)
	eachLine("unauthenticate", identities+unauthenticated)
	wantTranscript(t, introduced(t, genoa, turin, "unauthenticate"), identities+neverAuthenticated)
	var before []string
	for range 2 {
		wantTranscript(t, introduced(t, genoa, turin, "authenticate"), identities+authenticated)
		now := append(versions(t, genoa, "liqo-tenant-turin"), versions(t, turin, "liqo-tenant-genoa")...)
		if diff := cmp.Diff(before, now); before != nil && diff != "" {
			t.Errorf("something changed (-before +after):\n%s", diff)
		}
		before = now
	}
	r := liqoctl(t, genoa.Config, "get", "kubeconfig", "controlplane-turin", "--remote-cluster-id", "turin")
	r.succeeds(t)
	wantUser(t, r.stdout, "genoa", "liqo-tenant-genoa")

	// What was asked for reaches the credentials.
	introduced(t, genoa, turin, "auth", "--proxy-url", "http://proxy.example:3128", "--global-labels", "team=${name}", "--global-annotations", "kind=${kind}").succeeds(t)
	tenant, identity := &authv1beta1.Tenant{}, &authv1beta1.Identity{}
	get(t, turin, "liqo-tenant-genoa", "genoa", tenant)
	get(t, genoa, "liqo-tenant-turin", "controlplane-turin", identity)
	for _, obj := range []client.Object{tenant, identity} {
		if obj.GetLabels()["team"] != obj.GetName() || obj.GetAnnotations()["kind"] == "" {
			t.Errorf("%s is not stamped: %v %v", obj.GetName(), obj.GetLabels(), obj.GetAnnotations())
		}
	}
	liqoctl(t, genoa.Config, "get", "kc", "controlplane-turin", "--remote-cluster-id", "turin").succeeds(t, "proxy-url: http://proxy.example:3128")
	introduced(t, genoa, turin, "authenticate").succeeds(t)
	get(t, turin, "liqo-tenant-genoa", "genoa", tenant)
	if tenant.Spec.ProxyURL != nil || tenant.Labels["team"] != "" {
		t.Errorf("what is not asked for any more stays: %+v", tenant)
	}
}

// versions are those of all that authentication leaves in a namespace.
func versions(t *testing.T, c *testCluster, namespace string) (all []string) {
	t.Helper()
	for _, list := range []client.ObjectList{&corev1.SecretList{}, &authv1beta1.TenantList{}, &authv1beta1.IdentityList{}} {
		if err := c.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		_ = apimeta.EachListItem(list, func(item runtime.Object) error {
			obj := item.(client.Object)
			all = append(all, fmt.Sprintf("%T %s %s", obj, obj.GetName(), obj.GetResourceVersion()))
			return nil
		})
	}
	slices.Sort(all)
	return all
}

// wantUser shows a kubeconfig to the cluster that it is of.
func wantUser(t *testing.T, kubeconfig, user, namespace string) {
	t.Helper()
	loaded, err := clientcmd.NewClientConfigFromBytes([]byte(kubeconfig))
	if err != nil {
		t.Fatalf("%v:\n%s", err, kubeconfig)
	}
	if in, _, err := loaded.Namespace(); err != nil || in != namespace {
		t.Errorf("the namespace is %q: %v", in, err)
	}
	cfg, err := loaded.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	review, err := kubernetes.NewForConfigOrDie(cfg).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username != user || !slices.Contains(review.Status.UserInfo.Groups, "liqo.io") {
		t.Errorf("the provider sees %+v: %v", review.Status.UserInfo, err)
	}
}

// whatIsRefusedIsToldAtOnce is about conditions of the Tenant that time does not change.
func whatIsRefusedIsToldAtOnce(t *testing.T, genoa, turin *testCluster) {
	t.Helper()
	tenant := &authv1beta1.Tenant{}
	get(t, turin, "liqo-tenant-genoa", "genoa", tenant)
	testkit.Update(t, turin.Client, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantConditionDrained })
	introduced(t, genoa, turin, "authenticate", "--timeout", "5m").refuses(t, "in the remote cluster: the Tenant liqo-tenant-genoa/genoa is refused: TenantDrained: ")
	testkit.Update(t, turin.Client, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantConditionActive })

	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "somebody-called-genoa"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "genoa"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}
	introduced(t, genoa, turin, "unauthenticate").succeeds(t)
	testkit.Create(t, turin.Client, binding)
	introduced(t, genoa, turin, "authenticate", "--timeout", "5m").refuses(t, "is refused: ClusterIDTaken: ", "somebody-called-genoa")
	liqoctlIn(t, turin, "generate", "identity", "--remote-cluster-id", "genoa").refuses(t, `tenant "genoa" does not have the required status fields: `, "ClusterIDTaken: ")
	if err := turin.Client.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		get(t, turin, "liqo-tenant-genoa", "genoa", tenant)
		if !peering.ConditionIs(tenant, authv1beta1.TenantReady, metav1.ConditionTrue) {
			return errors.New("the Tenant is still refused")
		}
		return nil
	})
	introduced(t, genoa, turin, "authenticate").succeeds(t)
}

// oneDirectionIsUndone while the other one stays.
func oneDirectionIsUndone(t *testing.T, genoa, turin *testCluster) {
	t.Helper()
	wantTranscript(t, introduced(t, turin, genoa, "authenticate"), identities+authenticated)
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-turin", Name: "turin", Labels: map[string]string{
		names.Replication: "true", names.ReplicationDestination: "turin", names.RemoteClusterID: "turin",
	}}}
	node := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-turin", Name: "turin", Labels: map[string]string{names.RemoteClusterID: "turin"}}}
	for what, obj := range map[string]client.Object{"resourceslices": slice, "virtualnodes": node} {
		testkit.Create(t, genoa.Client, obj)
		introduced(t, genoa, turin, "unauthenticate").refuses(t, "in the local cluster: "+what+" are still present on consumer cluster: liqo-tenant-turin/turin")
		if err := genoa.Client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	dry := introduced(t, genoa, turin, "unauth", "--dry-run")
	dry.succeeds(t)
	for _, want := range []string{"# local cluster: genoa, to be deleted", "  name: controlplane-turin\n", "  name: kubeconfig-controlplane-turin\n",
		"  name: liqo-signed-nonce\n", "kind: Tenant", "  name: liqo-nonce\n", "  name: liqo-remote-certificate\n"} {
		if !strings.Contains(dry.stdout, want) {
			t.Errorf("the dry run lacks %q:\n%s", want, dry.stdout)
		}
	}
	wantTranscript(t, introduced(t, genoa, turin, "unauth"), identities+unauthenticated)
	for _, c := range []struct {
		*testCluster
		in string
	}{{genoa, "liqo-tenant-turin"}, {turin, "liqo-tenant-genoa"}} {
		for _, v := range versions(t, c.testCluster, c.in) {
			if fields := strings.Fields(v); !slices.Contains(theOtherDirection[c.id], fields[1]) {
				t.Errorf("%s keeps %s", c.id, v)
			}
		}
	}
	wantTranscript(t, introduced(t, genoa, turin, "unauthenticate"), identities+neverAuthenticated)
	wantTranscript(t, introduced(t, turin, genoa, "authenticate"), identities+authenticated)
	wantTranscript(t, introduced(t, turin, genoa, "unauthenticate", "--wait=false"), identities+unauthenticated)
	// What goes is waited for.
	wantTranscript(t, introduced(t, turin, genoa, "authenticate"), identities+authenticated)
	wantTranscript(t, introduced(t, turin, genoa, "unauthenticate"), identities+unauthenticated)
}

// theOtherDirection is what stays of turin as the consumer of genoa.
var theOtherDirection = map[string][]string{
	"genoa": {"liqo-nonce", "turin", "liqo-remote-certificate"},
	"turin": {"liqo-signed-nonce", "controlplane-genoa", "kubeconfig-controlplane-genoa"},
}

// whatWasLeftBehindIsReplaced is about a nonce that served, and about one of a provider that is another now.
func whatWasLeftBehindIsReplaced(t *testing.T, genoa, turin *testCluster) {
	t.Helper()
	introduced(t, genoa, turin, "authenticate").succeeds(t)
	tenant := &authv1beta1.Tenant{}
	get(t, turin, "liqo-tenant-genoa", "genoa", tenant)
	if err := turin.Client.Delete(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	wantTranscript(t, introduced(t, genoa, turin, "authenticate"), identities+authenticated)

	// The provider is installed anew: all that it knew of the consumer is gone.
	get(t, turin, "liqo-tenant-genoa", "genoa", tenant)
	for _, obj := range []client.Object{
		tenant, peering.NewHandshakeSecret(client.ObjectKey{Namespace: "liqo-tenant-genoa", Name: "liqo-nonce"}, names.Nonce, "genoa"),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: turin.liqo, Name: names.ServedNoncesSecret("genoa")}},
	} {
		if err := turin.Client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	wantTranscript(t, introduced(t, genoa, turin, "authenticate"), identities+authenticated)

	// The consumer is: it has another key.
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: genoa.liqo, Name: names.PeerKeysSecret("turin")}}
	if err := genoa.Client.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	wantTranscript(t, introduced(t, genoa, turin, "authenticate"), identities+authenticated)
	r := liqoctl(t, genoa.Config, "get", "kubeconfig", "controlplane-turin", "--remote-cluster-id", "turin")
	r.succeeds(t)
	wantUser(t, r.stdout, "genoa", "liqo-tenant-genoa")
	introduced(t, genoa, turin, "unauthenticate").succeeds(t)
}

// theyAreAuthenticatedByHand is what two administrators type who only send each other files.
func theyAreAuthenticatedByHand(t *testing.T, genoa, turin *testCluster) {
	t.Helper()
	theBeginningIsMissing(t, genoa, turin)
	dry := liqoctlIn(t, turin, "create", "nonce", "--remote-cluster-id", "genoa", "--dry-run")
	dry.succeeds(t)
	if diff := cmp.Diff(noncePreview, dry.stdout); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	created := liqoctlIn(t, turin, "create", "nonce", "--remote-cluster-id", "genoa")
	created.succeeds(t, " INFO  Nonce created\n INFO  Nonce generated successfully\n INFO  Nonce retrieved: ")
	nonce := inTenant(t, turin, "get", "nonce", "--remote-cluster-id", "genoa")
	nonce.succeeds(t)
	if pki.CheckNonce([]byte(nonce.stdout)) != nil || !strings.HasSuffix(created.stderr, "Nonce retrieved: "+nonce.stdout+"\n") {
		t.Fatalf("the nonce is %q, and was %q", nonce.stdout, created.stderr)
	}
	liqoctlIn(t, turin, "create", "nonce", "--remote-cluster-id", "genoa").succeeds(t, "Nonce retrieved: "+nonce.stdout+"\n")

	stale := printed(t, genoa, "generate", "tenant", "--remote-cluster-id", "turin", "--nonce", string(pki.NewNonce()))
	with := printed(t, genoa, "generate", "tenant", "--remote-cluster-id", "turin", "--nonce", nonce.stdout+"\n", "--remote-tenant-namespace", "liqo-tenant-genoa", "--proxy-url", "http://proxy.example:3128")
	romes := printed(t, genoa, "generate", "tenants", "--remote-cluster-id", "turin", "--remote-tenant-namespace", "liqo-tenant-genoa")
	if romes != strings.Replace(with, "  proxyURL: http://proxy.example:3128\n", "", 1) || stale == with ||
		!strings.HasPrefix(romes, "apiVersion: authentication.liqo.io/v1beta1\nkind: Tenant\nmetadata:\n  labels:\n    liqo.io/remote-cluster-id: genoa\n  name: genoa\n  namespace: liqo-tenant-genoa\nspec:\n  clusterID: genoa\n  csr: ") {
		t.Errorf("the Tenants are\n%s\nand\n%s", with, romes)
	}
	applyManifest(t, turin, romes, "liqo-tenant-genoa")
	turins := printed(t, turin, "generate", "identity", "--remote-cluster-id", "genoa")
	for _, want := range []string{
		"kind: Identity\nmetadata:\n  labels:\n    liqo.io/remote-cluster-id: turin\n  name: controlplane-turin\nspec:\n  authParams:\n    apiServer: https://",
		"  clusterID: turin\n  namespace: liqo-tenant-genoa\n  type: ControlPlane\nstatus: {}\n",
	} {
		if !strings.Contains(turins, want) {
			t.Errorf("%q is missing:\n%s", want, turins)
		}
	}
	if strings.Contains(turins, "PRIVATE") {
		t.Error("the Identity tells a private key")
	}
	applyManifest(t, genoa, turins, "liqo-tenant-turin")
	kubeconfig := inTenant(t, genoa, "get", "kubeconfig", "controlplane-turin", "--remote-cluster-id", "turin")
	kubeconfig.succeeds(t)
	wantUser(t, kubeconfig.stdout, "genoa", "liqo-tenant-genoa")
	inTenant(t, genoa, "get", "kubeconfig", "controlplane-milan", "--remote-cluster-id", "turin").refuses(t, "Identity liqo-tenant-turin/controlplane-milan not found")
	liqoctl(t, nil, "__complete", "--kubeconfig", kubeconfigFile(t, genoa.Config), "get", "kubeconfig", "--remote-cluster-id", "turin", "").succeeds(t, "controlplane-turin\n")

	// Why an Identity has no kubeconfig is told at once.
	refused := &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-turin", Name: "empty", Labels: map[string]string{names.RemoteClusterID: "turin"}},
		Spec:       authv1beta1.IdentitySpec{ClusterID: "turin", Type: authv1beta1.ResourceSliceIdentityType},
	}
	testkit.Create(t, genoa.Client, refused)
	testkit.WantEvent(t, genoa.ControlPlane, refused, "InvalidAuthParams", "")
	inTenant(t, genoa, "get", "kubeconfig", "empty", "--remote-cluster-id", "turin").refuses(t,
		"the Identity liqo-tenant-turin/empty does not have a kubeconfig secret reference: InvalidAuthParams: ", "signedCRT")

	// A nonce that served is of no use: whoever asks gets another one, and who was accepted stays so.
	liqoctlIn(t, turin, "create", "nonce", "--remote-cluster-id", "genoa", "--wait=false").succeeds(t, "Nonce created")
	if again := inTenant(t, turin, "get", "nonce", "--remote-cluster-id", "genoa"); again.stdout == nonce.stdout || again.err != nil {
		t.Errorf("the nonce is %q again: %v", again.stdout, again.err)
	}
	wantTranscript(t, introduced(t, genoa, turin, "authenticate"), identities+authenticated)
	wantTranscript(t, introduced(t, genoa, turin, "unauthenticate"), identities+unauthenticated)
}

// theProxyInTheTunnelIsFound as the consumer sees it.
func theProxyInTheTunnelIsFound(t *testing.T, genoa, turin *testCluster) {
	t.Helper()
	ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: turin.liqo, Name: "api-server-proxy"}, Spec: ipamv1alpha1.IPSpec{IP: "10.96.0.20"}}
	testkit.Create(t, turin.Client, ip)
	introduced(t, genoa, turin, "authenticate", "--in-band").refuses(t, "in the remote cluster: the IP "+turin.liqo+"/api-server-proxy has no address yet")
	testkit.UpdateStatus(t, turin.Client, ip, func(ip *ipamv1alpha1.IP) { ip.Status.IP, ip.Status.CIDR = "10.70.0.9", "10.70.0.0/16" })
	introduced(t, genoa, turin, "authenticate", "--in-band").refuses(t, "in the local cluster: the networks are not connected", "liqoctl network connect")
	networks := networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.200.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}
	cfg := network.NewConfiguration(client.ObjectKey{Namespace: "liqo-tenant-turin", Name: "turin"}, "turin", networks)
	testkit.Create(t, genoa.Client, cfg)
	introduced(t, genoa, turin, "authenticate", "--in-band").refuses(t, "in the local cluster: the networks are not connected: the Configuration liqo-tenant-turin/turin has no prefixes yet")
	configured := func() {
		t.Helper()
		testkit.UpdateStatus(t, genoa.Client, cfg, func(cfg *networkingv1beta1.Configuration) {
			seen := networks
			seen.External = []networkingv1beta1.CIDR{"10.71.0.0/16"}
			cfg.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: seen}
			cfg.Status.Conditions = []metav1.Condition{{
				Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: "Configured", LastTransitionTime: metav1.Now(), ObservedGeneration: cfg.Generation,
			}}
		})
	}
	configured()
	dry := introduced(t, genoa, turin, "authenticate", "--in-band", "--dry-run")
	dry.succeeds(t, "  proxyURL: http://10.71.0.9:8118\n")
	testkit.Update(t, genoa.Client, cfg, func(cfg *networkingv1beta1.Configuration) {
		cfg.Spec.Remote.CIDR.External = []networkingv1beta1.CIDR{"10.80.0.0/16"}
	})
	configured()
	introduced(t, genoa, turin, "authenticate", "--in-band").refuses(t, "the Configuration liqo-tenant-turin/turin has no network with 10.70.0.9", "liqoctl network init")
	for c, obj := range map[*testCluster]client.Object{genoa: cfg, turin: ip} {
		if err := c.Client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

const noncePreview = `apiVersion: v1
kind: Namespace
metadata:
  labels:
    liqo.io/remote-cluster-id: genoa
    liqo.io/tenant-namespace: "true"
    pod-security.kubernetes.io/audit: privileged
    pod-security.kubernetes.io/enforce: privileged
    pod-security.kubernetes.io/warn: privileged
  name: liqo-tenant-genoa
spec: {}
status: {}
---
apiVersion: v1
kind: Secret
metadata:
  labels:
    liqo.io/nonce: "true"
    liqo.io/remote-cluster-id: genoa
  name: liqo-nonce
  namespace: liqo-tenant-genoa
---
`

// theBeginningIsMissing is about steps that are taken too early.
func theBeginningIsMissing(t *testing.T, genoa, turin *testCluster) {
	t.Helper()
	inTenant(t, turin, "get", "nonce", "--remote-cluster-id", "genoa").refuses(t, "nonce for genoa not found", "liqoctl create nonce")
	inTenant(t, turin, "get", "nonce", "--remote-cluster-id", "nobody").refuses(t, "tenant namespace of nobody not found")
	liqoctlIn(t, genoa, "generate", "tenant", "--remote-cluster-id", "turin").refuses(t, "nonce not provided and no nonce secret found", "--nonce")
	liqoctlIn(t, turin, "generate", "identity", "--remote-cluster-id", "genoa").refuses(t, "no Tenant of genoa found", "liqoctl generate tenant")
	for want, args := range map[string][]string{
		"--nonce: a nonce is 64 bytes in base64, 88 characters":         {"generate", "tenant", "--remote-cluster-id", "turin", "--nonce", "short"},
		"--proxy-url: proxy-url must be an http or https URL":           {"generate", "tenant", "--remote-cluster-id", "turin", "--proxy-url", "ftp://x"},
		`--remote-tenant-namespace: invalid namespace "No Namespace"`:   {"generate", "tenant", "--remote-cluster-id", "turin", "--remote-tenant-namespace", "No Namespace"},
		"genoa is this cluster itself":                                  {"generate", "tenant", "--remote-cluster-id", "genoa", "--nonce", string(pki.NewNonce())},
		`invalid cluster ID "Turin"`:                                    {"generate", "identity", "--remote-cluster-id", "Turin"},
		`--remote-tenant-namespace: invalid namespace "-"`:              {"generate", "identity", "--remote-cluster-id", "turin", "--remote-tenant-namespace", "-"},
		`required flag(s) "remote-cluster-id" not set`:                  {"create", "nonce"},
		"the tenant namespace of turin is liqo-tenant-turin, not other": {"create", "nonce", "--remote-cluster-id", "turin", "-n", "other"},
		"it is one of json, yaml":                                       {"create", "nonce", "--remote-cluster-id", "turin", "-o", "text"},
	} {
		r := liqoctlIn(t, genoa, args...)
		r.refuses(t, want)
		if strings.Contains(r.stderr, "==") {
			t.Errorf("a nonce is told: %s", r.stderr)
		}
	}
}

// inTenant runs a command that does not ask where Liqo is.
func inTenant(t *testing.T, c *testCluster, args ...string) result {
	t.Helper()
	return liqoctl(t, c.Config, append(args, "--timeout", "5m")...)
}

// applyManifest is kubectl apply -n.
func applyManifest(t *testing.T, c *testCluster, manifest, namespace string) {
	t.Helper()
	for doc := range strings.SplitSeq(manifest, "---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), obj); err != nil {
			t.Fatal(err)
		}
		if len(obj.Object) == 0 {
			continue
		}
		if obj.GetNamespace() == "" && obj.GetKind() != "Namespace" {
			obj.SetNamespace(namespace)
		}
		strict := client.WithFieldValidation(c.Client, metav1.FieldValidationStrict)
		if err := strict.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("kubectl"), client.ForceOwnership); err != nil {
			t.Fatalf("applying %s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	}
}

// aDryRunPrintsWhatAuthenticates: applied until controllers have nothing more to assign, it ends as the command does.
func aDryRunPrintsWhatAuthenticates(t *testing.T, genoa, turin *testCluster) {
	t.Helper()
	dry := func() result { return introduced(t, genoa, turin, "authenticate", "--dry-run") }
	first := dry()
	first.succeeds(t, "WARN   (remote) The Tenant liqo-tenant-genoa/genoa cannot be applied yet, because controllers assign a part of it",
		"WARN   (local) The Identity liqo-tenant-turin/controlplane-turin cannot be applied yet", "#   signature: "+cluster.Assigned+"\n", "# kind: Identity\n", "#   name: liqo-signed-nonce\n")
	if got, want := kindsOf(first.stdout), "Namespace Secret | Namespace"; got != want {
		t.Errorf("%s instead of %s:\n%s", got, want, first.stdout)
	}
	last := applyWhatIsComplete(t, dry, "# local cluster: genoa\n", turin, genoa)
	if got, want := kindsOf(last.stdout), "Secret Tenant | Secret Identity"; got != want || last.stderr != identities || strings.Contains(last.stdout, "PRIVATE") {
		t.Errorf("%s instead of %s:\n%s%s", got, want, last.stdout, last.stderr)
	}
	introduced(t, genoa, turin, "authenticate", "-o", "json").succeeds(t, `"remote": {`, `"kind": "Identity"`)
	r := liqoctl(t, genoa.Config, "get", "kubeconfig", "controlplane-turin", "--remote-cluster-id", "turin")
	r.succeeds(t)
	wantUser(t, r.stdout, "genoa", "liqo-tenant-genoa")
	wantTranscript(t, introduced(t, genoa, turin, "unauthenticate"), identities+unauthenticated)
}

// kindsOf are those that a dry run prints of the remote cluster, and then of the local one.
func kindsOf(stdout string) string {
	var all []string
	for line := range strings.Lines(stdout) {
		if kind, ok := strings.CutPrefix(line, "kind: "); ok {
			all = append(all, strings.TrimSpace(kind))
		}
		if strings.HasPrefix(line, "# local cluster: ") {
			all = append(all, "|")
		}
	}
	return strings.Join(all, " ")
}

// whoDoesNotRunIsTold is about clusters without a controller-manager.
func whoDoesNotRunIsTold(t *testing.T, genoa, turin *testCluster) {
	t.Helper()
	turin.stop()
	introduced(t, genoa, turin, "authenticate", untilMissing("has no nonce yet")).refuses(t,
		"in the remote cluster: the Secret liqo-tenant-genoa/liqo-nonce has no nonce yet: is liqo-controller-manager running?: timed out waiting for the condition")
	turin.authenticates(t)
	genoa.stop()
	introduced(t, genoa, turin, "authenticate", untilMissing("is not signed yet")).refuses(t,
		"in the local cluster: the nonce in the Secret liqo-tenant-turin/liqo-signed-nonce is not signed yet: is liqo-controller-manager running?: timed out waiting for the condition")
	genoa.authenticates(t)
	wantTranscript(t, introduced(t, genoa, turin, "authenticate"), identities+authenticated)
	wantTranscript(t, introduced(t, genoa, turin, "unauthenticate"), identities+unauthenticated)
}
