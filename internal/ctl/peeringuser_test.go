// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	texttemplate "text/template"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"

	"liqo.io/liqo/internal/ctl/peering"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

// signers sign certificates of users.
var signers = testkit.WithControllers("certificatesigningrequest-signing-controller")

// hostess is a provider that makes peering users.
func hostess(t *testing.T) *testCluster {
	t.Helper()
	c := &testCluster{ControlPlane: testkit.Cluster(t, signers), id: testkit.UniqueID()}
	c.liqo = testkit.Namespace(t, c.ControlPlane, "liqo", nil)
	testkit.Create(t, c.Client, identityOf(c.id, c.liqo))
	welcome(t, c)
	return c
}

// welcome gives a provider what the chart has for peering users.
func welcome(t *testing.T, c *testCluster) {
	t.Helper()
	manager := managerOf(c.liqo, "liqo:dev")
	manager.Spec.Template.Spec.Containers[0].Args = []string{"--api-server-address-override=" + c.Config.Host}
	objs := []client.Object{manager}
	for _, name := range []string{"roles-peering-users.yaml", "policy-peering-users.yaml"} {
		for _, obj := range ofChart(t, name, c.liqo) {
			objs = append(objs, obj)
		}
	}
	for _, obj := range objs {
		if err := c.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Client.Delete(context.Background(), obj) })
	}
}

// ofChart renders a template of the chart that depends on the namespace only. Of its labels the one that commands look for is set.
func ofChart(t *testing.T, name, namespace string) (out []*unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/chart/templates/" + name)
	if err != nil {
		t.Fatal(err)
	}
	empty := func(...any) string { return "" }
	var rendered bytes.Buffer
	tmpl, err := texttemplate.New(name).Funcs(texttemplate.FuncMap{"include": empty, "nindent": empty, "dict": empty}).Parse(string(text))
	if err == nil {
		err = tmpl.Execute(&rendered, map[string]any{"Release": map[string]any{"Namespace": namespace}})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range strings.Split(rendered.String(), "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "roles-") {
			u.SetLabels(map[string]string{names.AppComponent: names.ComponentPeeringUser})
		}
		out = append(out, u)
	}
	return out
}

func (c *testCluster) generatesUser(t *testing.T, consumer string, more ...string) result {
	t.Helper()
	return liqoctl(t, c.Config, append([]string{"generate", "peering-user", "--consumer-cluster-id", consumer, "--liqo-namespace", c.liqo}, more...)...)
}

func (c *testCluster) deletesUser(t *testing.T, consumer string, more ...string) result {
	t.Helper()
	return liqoctl(t, c.Config, append([]string{"delete", "peering-user", "--consumer-cluster-id", consumer}, more...)...)
}

// userOf is who has a printed kubeconfig.
func userOf(t *testing.T, kubeconfig string) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	if err != nil {
		t.Fatalf("%v in\n%s", err, kubeconfig)
	}
	return cfg
}

// made is all that there is of peering users of a consumer.
func (c *testCluster) made(t *testing.T, consumer string) (all []string) {
	t.Helper()
	var bindings rbacv1.RoleBindingList
	var requests certv1.CertificateSigningRequestList
	if err := errors.Join(c.Client.List(t.Context(), &bindings, peering.OfPeeringUser(consumer)), c.Client.List(t.Context(), &requests, peering.OfPeeringUser(consumer))); err != nil {
		t.Fatal(err)
	}
	for i := range bindings.Items {
		all = append(all, bindings.Items[i].Namespace+"/"+bindings.Items[i].Name)
	}
	for i := range requests.Items {
		all = append(all, requests.Items[i].Name)
	}
	slices.Sort(all)
	return all
}

func TestPeeringUser(t *testing.T) {
	c := hostess(t)
	const rome = "rome-made"
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), namespaceNamed("liqo-tenant-"+rome)) })

	r := c.generatesUser(t, rome, "--dry-run")
	r.succeeds(t, "kind: Namespace", "kind: CertificateSigningRequest", "name: liqo-peer-user-"+rome+"-tenant-ns-writer", "expirationSeconds: 86400")
	if made := c.made(t, rome); len(made) > 0 {
		t.Fatalf("a dry run made %v", made)
	}

	r = c.generatesUser(t, rome)
	r.succeeds(t)
	if n := strings.Count(r.stderr, " WARN "); n != 3 || !strings.HasSuffix(r.stderr, " INFO  User generated successfully\n") {
		t.Errorf("it said\n%s", r.stderr)
	}
	config, err := pki.ParseKubeconfig([]byte(r.stdout))
	if err != nil {
		t.Fatalf("%v in\n%s", err, r.stdout)
	}
	if config.Cluster != rome || config.User != rome+"-user" || config.Namespace != "liqo-tenant-"+rome || config.Server != c.Config.Host {
		t.Errorf("the kubeconfig has %q, %q, %q, %q", config.Cluster, config.User, config.Namespace, config.Server)
	}
	certificate, err := pki.ParseCertificate(config.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := certificate.PublicKey.(ed25519.PublicKey); !ok {
		t.Errorf("the key is a %T", certificate.PublicKey)
	}
	if life := time.Until(certificate.NotAfter); life > 25*time.Hour {
		t.Errorf("the certificate lasts %s", life)
	}
	if user := certificate.Subject.CommonName; len(peering.PeeringUsers([]rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user}}, rome)) != 1 {
		t.Errorf("the user is %q", user)
	}
	// The request goes once it served.
	want := []string{c.liqo + "/liqo-peer-user-" + rome + "-liqo-ns-reader", "liqo-tenant-" + rome + "/liqo-peer-user-" + rome + "-tenant-ns-writer"}
	slices.Sort(want)
	if made := c.made(t, rome); !slices.Equal(made, want) {
		t.Errorf("there is %v, want %v", made, want)
	}

	guest := &cluster.Cluster{Name: "local", LiqoNamespace: c.liqo}
	if guest.Kube, err = cluster.ClientOf(t.Context(), userOf(t, r.stdout)); err != nil {
		t.Fatal(err)
	}
	if id, err := cluster.ClusterIdentity(t.Context(), guest.Kube, c.liqo); err != nil || id != c.id {
		t.Errorf("the user finds the ID %q: %v", id, err)
	}
	if err := guest.FindNamespace(t.Context(), rome); err != nil || guest.Missing || guest.Namespace != "liqo-tenant-"+rome {
		t.Errorf("the user finds the namespace %q: %v", guest.Namespace, err)
	}
	var tenants authv1beta1.TenantList
	if err := guest.Kube.List(t.Context(), &tenants, client.InNamespace(guest.Namespace)); err != nil {
		t.Error(err)
	}
	if err := guest.Kube.Get(t.Context(), client.ObjectKey{Namespace: guest.Namespace, Name: "kubeconfig-x"}, &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("reading a kubeconfig: %v", err)
	}

	c.generatesUser(t, rome).refuses(t, "a peering user for the cluster "+rome+" already exists", "liqoctl delete peering-user --consumer-cluster-id "+rome)
	c.deletesUser(t, rome, "--dry-run").succeeds(t, "name: liqo-peer-user-"+rome+"-liqo-ns-reader")
	c.deletesUser(t, "rome").succeeds(t, "already deleted") // whose users begin alike
	if err := guest.Kube.List(t.Context(), &tenants, client.InNamespace(guest.Namespace)); err != nil {
		t.Error(err)
	}
	c.deletesUser(t, rome).succeeds(t, `Peering user for cluster with ID "`+rome+`" deleted successfully`)
	if err := guest.Kube.List(t.Context(), &tenants, client.InNamespace(guest.Namespace)); !apierrors.IsForbidden(err) {
		t.Errorf("after the user was deleted: %v", err)
	}
	c.deletesUser(t, rome).succeeds(t, "already deleted")

	// Another one is another user: the first one gets nothing of it. Compatible keys are as asked, or as Liqo was installed.
	r = c.generatesUser(t, rome, "--tls-compatibility-mode", "true", "--duration", "10m")
	r.succeeds(t)
	if config, err = pki.ParseKubeconfig([]byte(r.stdout)); err != nil {
		t.Fatal(err)
	}
	if certificate, err = pki.ParseCertificate(config.Certificate); err != nil {
		t.Fatal(err)
	}
	if _, ok := certificate.PublicKey.(*rsa.PublicKey); !ok || time.Until(certificate.NotAfter) > 11*time.Minute {
		t.Errorf("the key is a %T, the certificate lasts until %s", certificate.PublicKey, certificate.NotAfter)
	}
	if err := guest.Kube.List(t.Context(), &tenants, client.InNamespace(guest.Namespace)); !apierrors.IsForbidden(err) {
		t.Errorf("with another user there: %v", err)
	}

	// What somebody else gave it is told, and not taken away.
	user := certificate.Subject.CommonName
	more := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: guest.Namespace, Name: "more"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	testkit.Create(t, c.Client, more)
	c.deletesUser(t, rome).refuses(t, "RoleBinding "+guest.Namespace+"/more")
	if made := c.made(t, rome); len(made) > 0 {
		t.Errorf("there is still %v", made)
	}
}

func namespaceNamed(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestPeeringUserConflicts(t *testing.T) {
	c := hostess(t)
	const rome = "rome-hindered"
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-" + rome, Labels: map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: rome}}}
	testkit.Create(t, c.Client, ns)
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), ns) })

	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no cluster":           {[]string{"--consumer-cluster-id", ""}, `invalid cluster ID ""`},
		"no name of one":       {[]string{"--consumer-cluster-id", "Rome!"}, "invalid cluster ID"},
		"the cluster itself":   {[]string{"--consumer-cluster-id", c.id}, "is this cluster itself"},
		"another mode":         {[]string{"--tls-compatibility-mode", "foo"}, "it is one of auto, true, false"},
		"too short a life":     {[]string{"--duration", "1m"}, "10m0s is the least"},
		"no Liqo":              {[]string{"--liqo-namespace", "default"}, "Liqo is not installed"},
		"an argument too many": {[]string{"x"}, "unknown command"},
	} {
		t.Run(name, func(t *testing.T) { c.generatesUser(t, rome, tc.args...).refuses(t, tc.want) })
	}
	for _, command := range []string{"generate", "delete"} {
		liqoctl(t, c.Config, command, "peering-user").refuses(t, "consumer-cluster-id")
	}
	c.deletesUser(t, "Rome!").refuses(t, "invalid cluster ID")

	// Nothing is signed, nor anything else made, where a part of it is missing or taken.
	admin, ctx := c.Client, t.Context()
	hindered := func(what, want string, hinder, restore func() error) {
		t.Helper()
		if err := hinder(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		c.generatesUser(t, rome).refuses(t, want)
		if made := c.made(t, rome); len(made) > 0 {
			t.Errorf("%s: it left %v", what, made)
		}
		if err := restore(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	replaced := func(obj client.Object) (without, back func() error) {
		kept := obj.DeepCopyObject().(client.Object)
		return func() error {
				return errors.Join(admin.Get(ctx, client.ObjectKeyFromObject(obj), kept), admin.Delete(ctx, obj))
			}, func() error {
				kept.SetResourceVersion("")
				kept.SetUID("")
				return admin.Create(ctx, kept)
			}
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: names.RolePeeringUser}}
	without, back := replaced(role)
	hindered("no ClusterRole", "0 ClusterRoles labelled", without, back)
	without, back = replaced(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: c.liqo, Name: "liqo-peering-user-liqo-ns"}})
	hindered("no Role", "0 Roles in namespace", without, back)
	var rules []rbacv1.PolicyRule
	hindered("a role of an earlier version", "is not of this version", func() error {
		testkit.Update(t, admin, role, func(r *rbacv1.ClusterRole) {
			rules, r.Rules = r.Rules, []rbacv1.PolicyRule{testkit.Rule("", "secrets", "get", "list")}
		})
		return nil
	}, func() error {
		testkit.Update(t, admin, role, func(r *rbacv1.ClusterRole) { r.Rules = rules })
		return nil
	})
	policy := ofChart(t, "policy-peering-users.yaml", c.liqo)[1]
	without, back = replaced(policy)
	hindered("no policy", "the policy liqo-peering-users", without, back)
	stranger := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "liqo-peer-user-" + rome + "-tenant-ns-writer"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}}
	hindered("a binding of that name", "does not belong to a peering user", func() error { return admin.Create(ctx, stranger) }, func() error { return admin.Delete(ctx, stranger) })
	request := requestNamed(t, "liqo-peer-user-"+rome)
	hindered("a request of that name", "does not belong to a peering user", func() error { return admin.Create(ctx, request) }, func() error { return admin.Delete(ctx, request) })

	// One of an attempt that was interrupted is replaced.
	request = requestNamed(t, "liqo-peer-user-"+rome)
	request.Labels = peering.OfPeeringUser(rome)
	testkit.Create(t, admin, request)
	c.generatesUser(t, rome).succeeds(t)
	c.deletesUser(t, rome).succeeds(t, "deleted successfully")
}

// requestNamed is a request that nobody approves.
func requestNamed(t *testing.T, name string) *certv1.CertificateSigningRequest {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.NewCSR(key, pki.Subject{CommonName: name, Organization: "x"})
	if err != nil {
		t.Fatal(err)
	}
	return &certv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certv1.CertificateSigningRequestSpec{
		Request: csr, SignerName: certv1.KubeAPIServerClientSignerName, Usages: []certv1.KeyUsage{certv1.UsageClientAuth},
	}}
}

// Who may not give the roles, or not approve, makes nothing; nor does who stops before the end.
func TestPeeringUserAtomic(t *testing.T) {
	c := hostess(t)
	const rome = "rome-whole"
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-" + rome, Labels: map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: rome}}}
	testkit.Create(t, c.Client, ns)
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), ns) })
	reads := func() []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{
			testkit.Rule("", "configmaps", "list"), testkit.Rule("", "namespaces", "list"), testkit.Rule("apps", "deployments", "list"),
			testkit.Rule(rbacv1.GroupName, "roles", "list"), testkit.Rule(rbacv1.GroupName, "clusterroles", "list"),
			testkit.Rule(rbacv1.GroupName, "rolebindings", "list", "get", "create", "delete"),
			testkit.Rule("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "get"),
			testkit.Rule(certv1.GroupName, "certificatesigningrequests", "get", "list", "watch", "create", "delete"),
			testkit.Rule(certv1.GroupName, "certificatesigningrequests/approval", "update"),
			testkit.Rule("authorization.k8s.io", "subjectaccessreviews", "create"),
		}
	}
	allowed := func(user string, rules ...rbacv1.PolicyRule) *rest.Config {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test-" + user}, Rules: rules}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}
		testkit.Create(t, c.Client, role, binding)
		return c.User(t, user)
	}
	try := func(cfg *rest.Config, args ...string) result {
		return liqoctl(t, cfg, append([]string{"generate", "peering-user", "--consumer-cluster-id", rome, "--liqo-namespace", c.liqo}, args...)...)
	}
	nothing := func(reason string) {
		t.Helper()
		if made := c.made(t, rome); len(made) > 0 {
			t.Errorf("%s: it left %v", reason, made)
		}
	}
	try(allowed("peeringuser-reader", reads()[:7]...)).refuses(t, "ERRO  you are not allowed to get certificatesigningrequests", "update certificatesigningrequests/approval.certificates.k8s.io")
	nothing("nobody may sign")
	try(allowed("peeringuser-granter", reads()...)).refuses(t, "making the RoleBinding", "attempting to grant RBAC permissions not currently held")
	nothing("nobody may give the roles")
	try(allowed("peeringuser-approver", append(reads(), testkit.Rule(rbacv1.GroupName, "roles", "bind"), testkit.Rule(rbacv1.GroupName, "clusterroles", "bind"))...)).
		refuses(t, "approving the certificate of the user")
	nothing("nobody may approve")

	// Interrupted as soon as the certificate is asked for. Who is faster than that has a user.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w, err := c.Client.Watch(t.Context(), &certv1.CertificateSigningRequestList{}, peering.OfPeeringUser(rome))
	if err != nil {
		t.Fatal(err)
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		for e := range w.ResultChan() {
			if csr, ok := e.Object.(*certv1.CertificateSigningRequest); ok && csr.Status.Certificate == nil {
				cancel()
			}
		}
	})
	r := liqoctlUntil(ctx, t, c.Config, "generate", "peering-user", "--consumer-cluster-id", rome, "--liqo-namespace", c.liqo)
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Error("no request was seen")
	}
	w.Stop()
	watching.Wait()
	if r.err != nil {
		nothing("interrupted")
	} else {
		c.deletesUser(t, rome).succeeds(t)
	}
}

// aPeeringUserConnectsThem with no right in milan but its own: it may not even look for namespaces.
func aPeeringUserConnectsThem(t *testing.T, rome, milan *testCluster) {
	t.Helper()
	testkit.NthCluster(t, 3, signers)
	welcome(t, milan)
	r := milan.generatesUser(t, "rome")
	r.succeeds(t)
	limitedUser := userOf(t, r.stdout)
	foresees := func(assigned int) {
		t.Helper()
		r := betweenAs(t, rome, milan, rome.Config, limitedUser, "connect", "--gw-server-service-type", "NodePort", "--dry-run")
		if r.succeeds(t); strings.Count(r.stdout, "kind: PublicKey\n") != 2 || strings.Count(r.stdout, "publicKey: "+cluster.Assigned) != assigned {
			t.Errorf("foreseen is\n%s", r.stdout)
		}
	}
	foresees(2)
	betweenAs(t, rome, milan, rome.Config, limitedUser, "connect", "--gw-server-service-type", "NodePort").succeeds(t, "(local) Connection is established", "(remote) Connection is established")
	foresees(0)
	betweenAs(t, rome, milan, rome.Config, limitedUser, "connect", "--gw-server-service-type", "NodePort").succeeds(t, "(remote) Connection is established")
	betweenAs(t, rome, milan, rome.Config, limitedUser, "reset", "--skip-confirm").succeeds(t, "(remote) Gateway server correctly deleted", "(remote) Network configuration correctly deleted")
	milan.deletesUser(t, "rome").succeeds(t, "deleted successfully")
	betweenAs(t, rome, milan, rome.Config, limitedUser, "connect").refuses(t, "forbidden")
}

// With no right in the provider but its own, a peering user has its cluster known there, and forgotten.
func TestPeeringUserAuthenticates(t *testing.T) {
	pisa, siena := newAuthCluster(t, 2, "pisa"), newAuthCluster(t, 3, "siena")
	welcome(t, siena)
	r := siena.generatesUser(t, "pisa")
	r.succeeds(t)
	guest := &testCluster{ControlPlane: &testkit.ControlPlane{Config: userOf(t, r.stdout)}, liqo: siena.liqo}
	foresees := func() { // without and with a Tenant
		t.Helper()
		r := introduced(t, pisa, guest, "authenticate", "--dry-run")
		if r.succeeds(t); !strings.Contains(r.stdout, "name: liqo-nonce\n") || !strings.Contains(r.stdout, "name: liqo-signed-nonce\n") {
			t.Errorf("foreseen is\n%s", r.stdout)
		}
	}
	foresees()
	for range 2 {
		wantTranscript(t, introduced(t, pisa, guest, "authenticate"), identities+authenticated)
		foresees()
	}
	var tenant authv1beta1.Tenant
	get(t, siena, "liqo-tenant-pisa", "pisa", &tenant)
	wantTranscript(t, introduced(t, pisa, guest, "unauthenticate"), identities+unauthenticated)

	// What the administrator decided stays, whoever asks again.
	wantTranscript(t, introduced(t, pisa, guest, "authenticate"), identities+authenticated)
	get(t, siena, "liqo-tenant-pisa", "pisa", &tenant)
	testkit.Update(t, siena.Client, &tenant, func(o *authv1beta1.Tenant) { o.Spec.TenantCondition = authv1beta1.TenantConditionCordoned })
	introduced(t, pisa, guest, "unauthenticate").refuses(t, "in the remote cluster", "may not delete a Tenant that the administrator cordoned")
	get(t, siena, "liqo-tenant-pisa", "pisa", &tenant)
	wantTranscript(t, introduced(t, pisa, siena, "unauthenticate"), identities+unauthenticated) // nothing was changed by the one before

	for range 2 { // the second finds one that did not serve yet
		liqoctl(t, guest.Config, "create", "nonce", "--remote-cluster-id", "pisa", "--liqo-namespace", siena.liqo).succeeds(t, "Nonce retrieved: ")
	}
	siena.deletesUser(t, "pisa").succeeds(t, "deleted successfully")
	introduced(t, pisa, guest, "authenticate").refuses(t, "in the remote cluster", "forbidden")
	for _, c := range []*testCluster{pisa, siena} {
		for _, id := range []string{"pisa", "siena"} {
			_ = c.Client.Delete(t.Context(), namespaceNamed("liqo-tenant-"+id))
		}
	}
}
