// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// peeringUser is a peering user of the cluster milan.
type peeringUser struct {
	client.WithWatch
	c          *testkit.ControlPlane
	ns, liqo   string
	user, peer string
}

func newPeeringUser(t *testing.T, user string) *peeringUser {
	t.Helper()
	c := install(t)
	g := &peeringUser{c: c, peer: "milan", user: user, ns: tenantNamespace(t, c, "milan"), liqo: testkit.Namespace(t, c, "liqo", nil)}
	g.WithWatch = watcherOf(t, c.User(t, user, names.ControlPlaneGroup))
	for _, obj := range mustRender(t, values{}).objects {
		if obj.GetKind() == "Role" && obj.GetLabels()[names.AppComponent] == names.ComponentPeeringUser {
			role := as[rbacv1.Role](t, obj)
			role.Namespace = g.liqo
			testkit.Create(t, c.Client, role, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: g.liqo, Name: "guest"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
			})
			rights(t, func() error { return g.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(g.liqo)) })
		}
	}
	bind(t, c, g.ns, names.RolePeeringUser, user)
	rights(t, func() error { return g.Get(t.Context(), g.key("x"), &authv1beta1.Tenant{}) })
	// The policy is enforced once it refuses something.
	testkit.Eventually(t, 3*time.Minute, func() error {
		return refused(g.Create(t.Context(), g.tenant(func(o *authv1beta1.Tenant) { o.Name = "rome" }), client.DryRunAll), "has the name of its cluster")
	})
	return g
}

func watcherOf(t *testing.T, cfg *rest.Config) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (g *peeringUser) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: g.ns, Name: name}
}

func (g *peeringUser) meta(name string, labels ...string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Namespace: g.ns, Name: name, Labels: map[string]string{names.RemoteClusterID: g.peer}}
	for _, label := range labels {
		meta.Labels[label] = "true"
	}
	return meta
}

func edited[T any](obj T, edits []func(T)) T {
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

func (g *peeringUser) nonce(edits ...func(*corev1.Secret)) *corev1.Secret {
	return edited(&corev1.Secret{ObjectMeta: g.meta("liqo-nonce", names.Nonce)}, edits)
}

func (g *peeringUser) tenant(edits ...func(*authv1beta1.Tenant)) *authv1beta1.Tenant {
	return edited(&authv1beta1.Tenant{ObjectMeta: g.meta(g.peer), Spec: authv1beta1.TenantSpec{
		ClusterID: liqov1beta1.ClusterID(g.peer), PublicKey: []byte("k"), CSR: []byte("r"), Signature: []byte("s"),
	}}, edits)
}

func (g *peeringUser) server(edits ...func(*networkingv1beta1.GatewayServer)) *networkingv1beta1.GatewayServer {
	return edited(&networkingv1beta1.GatewayServer{ObjectMeta: g.meta(g.peer), Spec: networkingv1beta1.GatewayServerSpec{
		ServerTemplateRef: corev1.ObjectReference{APIVersion: networkingv1beta1.GroupVersion.String(), Kind: "WgGatewayServerTemplate", Namespace: g.liqo, Name: "wireguard-server"},
		Endpoint:          networkingv1beta1.Endpoint{Port: 51840, ServiceType: corev1.ServiceTypeLoadBalancer, LoadBalancerIP: new("192.0.2.7")},
	}}, edits)
}

func (g *peeringUser) dialer(edits ...func(*networkingv1beta1.GatewayClient)) *networkingv1beta1.GatewayClient {
	return edited(&networkingv1beta1.GatewayClient{ObjectMeta: g.meta(g.peer), Spec: networkingv1beta1.GatewayClientSpec{
		Endpoint: networkingv1beta1.EndpointStatus{Addresses: []string{"192.0.2.1", "fd00::1", "gw.example"}, Port: 51840},
	}}, edits)
}

func (g *peeringUser) configuration(edits ...func(*networkingv1beta1.Configuration)) *networkingv1beta1.Configuration {
	return edited(&networkingv1beta1.Configuration{ObjectMeta: g.meta(g.peer), Spec: networkingv1beta1.ConfigurationSpec{
		Remote: networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.9.0.0/16"}, External: []networkingv1beta1.CIDR{"10.8.0.0/16"}}},
	}}, edits)
}

func (g *peeringUser) publicKey(edits ...func(*networkingv1beta1.PublicKey)) *networkingv1beta1.PublicKey {
	return edited(&networkingv1beta1.PublicKey{ObjectMeta: g.meta(g.peer, names.GatewayResource), Spec: networkingv1beta1.PublicKeySpec{PublicKey: make([]byte, 32)}}, edits)
}

// Each request that peering and unpeering make to the provider.
func TestPeeringUserPermissions(t *testing.T) {
	g := newPeeringUser(t, "guest-peers")
	ctx, admin := t.Context(), g.c.Client
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	watches := func(list client.ObjectList, in string, opts ...client.ListOption) {
		t.Helper()
		w, err := g.Watch(ctx, list, append(opts, client.InNamespace(in))...)
		must(fmt.Sprintf("watching %T", list), err)
		if err == nil {
			w.Stop()
		}
	}
	applies := func(obj client.Object, opts ...kube.EnsureOption) {
		t.Helper()
		_, err := kube.Ensure(ctx, g, obj, append(opts, kube.FieldManager(names.CLIFieldManager))...)
		must(fmt.Sprintf("applying %T", obj), err)
	}
	named := client.MatchingFields{"metadata.name": "liqo-nonce"}

	must("reading its namespace", g.Get(ctx, client.ObjectKey{Name: g.ns}, &corev1.Namespace{}))
	must("finding the cluster ID", g.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(g.liqo)))
	must("reading the networks", g.List(ctx, &ipamv1alpha1.NetworkList{}, client.InNamespace(g.liqo)))
	for _, obj := range []client.Object{&networkingv1beta1.WgGatewayServerTemplate{}, &networkingv1beta1.WgGatewayClientTemplate{}} {
		must("reading a template", client.IgnoreNotFound(g.Get(ctx, client.ObjectKey{Namespace: g.liqo, Name: "t"}, obj)))
	}
	must("finding the proxy", client.IgnoreNotFound(g.Get(ctx, client.ObjectKey{Namespace: g.liqo, Name: "api-server-proxy"}, &ipamv1alpha1.IP{})))

	for range 2 { // again changes nothing
		applies(g.nonce(func(s *corev1.Secret) { s.TypeMeta = metav1.TypeMeta{} }))
	}
	watches(&corev1.SecretList{}, g.ns, named)
	must("listing the nonce", g.List(ctx, &corev1.SecretList{}, client.InNamespace(g.ns), named))
	testkit.Update(t, admin, g.nonce(), func(s *corev1.Secret) { s.Data = map[string][]byte{names.NonceKey: []byte("n")} })
	secret := g.nonce()
	must("reading the nonce", g.Get(ctx, client.ObjectKeyFromObject(secret), secret))
	if string(secret.Data[names.NonceKey]) != "n" {
		t.Errorf("the nonce is %q", secret.Data[names.NonceKey])
	}
	secret.Annotations["team"] = "peering"
	must("annotating the nonce", g.Update(ctx, secret))
	must("deleting the nonce", g.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}))

	applies(g.tenant())
	watches(&authv1beta1.TenantList{}, g.ns)
	testkit.UpdateStatus(t, admin, g.tenant(), func(o *authv1beta1.Tenant) { o.Status.TenantNamespace = g.ns })
	testkit.Update(t, admin, g.tenant(), func(o *authv1beta1.Tenant) { o.Finalizers = []string{names.TenantFinalizer} })
	tenant := g.tenant()
	must("reading the Tenant", g.Get(ctx, client.ObjectKeyFromObject(tenant), tenant))
	if tenant.Status.TenantNamespace != g.ns {
		t.Errorf("the status of the Tenant is %v", tenant.Status)
	}
	applies(g.tenant(func(o *authv1beta1.Tenant) {
		o.Spec.Signature, o.Spec.ProxyURL = []byte("again"), new("http://192.0.2.1:8118")
	}))
	must("finding the Tenant", g.List(ctx, &authv1beta1.TenantList{}, client.InNamespace(g.ns), client.MatchingLabels{names.RemoteClusterID: g.peer}))

	applies(g.configuration())
	testkit.Update(t, admin, g.configuration(), func(o *networkingv1beta1.Configuration) {
		o.Spec.Local = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.1.0.0/16"}}}
		o.Labels["configuration.liqo.io/x"], o.Finalizers = "y", []string{foreignFinalizer}
	})
	applies(g.configuration(func(o *networkingv1beta1.Configuration) { o.Spec.Remote.CIDR.Pod[0] = "10.10.0.0/16" }))
	applies(g.server())
	applies(g.server(func(o *networkingv1beta1.GatewayServer) {
		o.Spec.Endpoint.ServiceType, o.Spec.Endpoint.LoadBalancerIP = corev1.ServiceTypeNodePort, nil
	}))
	applies(g.dialer())
	server := g.server()
	must("reading the server", g.Get(ctx, client.ObjectKeyFromObject(server), server))
	for range 2 {
		applies(g.publicKey(), kube.OwnedBy(server, g.Scheme()))
	}
	for _, list := range []client.ObjectList{
		&networkingv1beta1.ConfigurationList{}, &networkingv1beta1.GatewayServerList{}, &networkingv1beta1.GatewayClientList{}, &networkingv1beta1.PublicKeyList{},
		&networkingv1beta1.ConnectionList{}, &networkingv1beta1.WgGatewayServerList{}, &networkingv1beta1.WgGatewayClientList{},
		&appsv1.DeploymentList{}, &corev1.PodList{},
	} {
		must(fmt.Sprintf("reading %T", list), g.List(ctx, list, client.InNamespace(g.ns)))
		watches(list, g.ns)
	}
	must("reading what its networks became", g.List(ctx, &ipamv1alpha1.NetworkList{}, client.InNamespace(g.ns)))
	must("reading the Service", client.IgnoreNotFound(g.Get(ctx, g.key("gw-milan"), &corev1.Service{})))

	for _, obj := range []client.Object{g.publicKey(), g.dialer(), g.server(), g.configuration(), g.tenant()} {
		must(fmt.Sprintf("deleting %T", obj), g.Delete(ctx, obj))
	}
	for _, obj := range []client.Object{g.configuration(), g.tenant()} {
		must("cleaning up", admin.Patch(context.Background(), obj, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	}
}

func TestPeeringUserForbidden(t *testing.T) {
	g := newPeeringUser(t, "guest-threatens")
	admin := g.c.Client
	other := tenantNamespace(t, g.c, "rome")
	// What the provider has there, of a peering in both directions.
	kept := []client.Object{
		&corev1.Secret{ObjectMeta: g.meta("kubeconfig-controlplane-milan")}, &corev1.Secret{ObjectMeta: g.meta("gw-milan", names.GatewayResource)},
		g.tenant(func(o *authv1beta1.Tenant) { o.Finalizers = []string{foreignFinalizer} }),
		g.nonce(func(s *corev1.Secret) { s.Data = map[string][]byte{names.NonceKey: []byte("n")} }),
		g.server(func(o *networkingv1beta1.GatewayServer) { o.Finalizers = []string{foreignFinalizer} }),
		g.configuration(func(o *networkingv1beta1.Configuration) { o.Name, o.Labels[names.RemoteClusterID] = "of-rome", "rome" }),
		g.publicKey(),
	}
	testkit.Create(t, admin, kept...)
	t.Cleanup(func() {
		for _, obj := range kept {
			_ = admin.Patch(context.Background(), obj, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
		}
	})
	const (
		mine, name, label, held = "about its own cluster", "has the name of its cluster", "labels of Liqo", "finalizers and owners"
		only, trust, del        = "the only Secret of a peering user", "how far its cluster is trusted", "may not delete a Tenant"
		keys, exposed           = "may not choose the keys", "the Service of a gateway"
	)
	ctx := t.Context()
	creates := func(obj client.Object) func() error {
		return func() error { return g.Create(ctx, obj, client.DryRunAll) }
	}
	patches := func(obj client.Object, patch string) func() error {
		return func() error {
			return g.Patch(ctx, obj, client.RawPatch("application/merge-patch+json", []byte(patch)), client.DryRunAll)
		}
	}
	deletes := func(obj client.Object) func() error {
		return func() error { return g.Delete(ctx, obj, client.DryRunAll) }
	}
	reads := func(name string, obj client.Object) func() error {
		return func() error { return g.Get(ctx, g.key(name), obj) }
	}
	lists := func(list client.ObjectList, in string) func() error {
		return func() error { return g.List(ctx, list, client.InNamespace(in)) }
	}
	second := func(obj client.Object) client.Object { // the names are taken by now
		obj.SetNamespace(g.ns)
		return obj
	}
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "y"}}
	for name, tc := range map[string]struct {
		do   func() error
		want string
	}{
		"has the provider's networks filled in anew": {creates(g.configuration(func(o *networkingv1beta1.Configuration) {
			o.Annotations = map[string]string{names.AppliedHash + ".liqo-configuration-local": "x"}
		})), "what controllers of Liqo applied"},
		// Credentials of the provider.
		"reads a kubeconfig":          {reads("kubeconfig-controlplane-milan", &corev1.Secret{}), "cannot get resource"},
		"reads the keys of a tunnel":  {reads("gw-milan", &corev1.Secret{}), "cannot get resource"},
		"lists Secrets":               {lists(&corev1.SecretList{}, g.ns), "cannot list resource"},
		"lists Secrets of the others": {lists(&corev1.SecretList{}, other), "cannot list resource"},
		"lists Secrets of Liqo":       {lists(&corev1.SecretList{}, g.liqo), "cannot list resource"},
		"deletes a kubeconfig":        {deletes(&corev1.Secret{ObjectMeta: g.meta("kubeconfig-controlplane-milan")}), "cannot delete resource"},
		"asks for a token of an account": {creates(g.nonce(func(s *corev1.Secret) {
			s.Type, s.Annotations = corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: "gw-milan"}
		})), only},
		"asks for a token under another name": {creates(g.nonce(func(s *corev1.Secret) {
			s.Name, s.Type, s.Annotations = "x", corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: "gw-milan"}
		})), name},
		"has a name generated":          {creates(g.nonce(func(s *corev1.Secret) { s.Name, s.GenerateName = "", "liqo-nonce" })), name},
		"has anything signed":           {creates(g.nonce(func(s *corev1.Secret) { s.Labels[names.SignedNonce] = "true" })), label},
		"has anything signed later":     {patches(g.nonce(), `{"metadata":{"labels":{"liqo.io/signed-nonce":"true"}}}`), label},
		"has its nonce signed instead":  {creates(g.nonce(func(s *corev1.Secret) { delete(s.Labels, names.Nonce); s.Labels[names.SignedNonce] = "true" })), label},
		"gives a kubeconfig":            {creates(g.nonce(func(s *corev1.Secret) { s.Labels[names.IdentityType] = "ControlPlane" })), label},
		"gives a kubeconfig later":      {patches(g.nonce(), `{"metadata":{"labels":{"liqo.io/identity-type":"ControlPlane"}}}`), label},
		"gives keys of a tunnel":        {creates(g.nonce(func(s *corev1.Secret) { s.Labels[names.GatewayResource] = "true" })), label},
		"chooses the nonce":             {creates(g.nonce(func(s *corev1.Secret) { s.Data = map[string][]byte{names.NonceKey: []byte("n")} })), only},
		"chooses the nonce as text":     {creates(g.nonce(func(s *corev1.Secret) { s.StringData = map[string]string{names.NonceKey: "n"} })), only},
		"changes the nonce":             {patches(g.nonce(), `{"data":{"nonce":"bQ=="}}`), only},
		"changes the nonce as text":     {patches(g.nonce(), `{"stringData":{"nonce":"m"}}`), only},
		"makes a Secret that is none":   {creates(g.nonce(func(s *corev1.Secret) { delete(s.Labels, names.Nonce) })), only},
		"makes another Secret":          {creates(&corev1.Secret{ObjectMeta: g.meta("x", names.Nonce)}), name},
		"keeps the nonce for ever":      {patches(g.nonce(), `{"metadata":{"finalizers":["example.com/kept"]}}`), held},
		"gives the nonce an owner":      {creates(g.nonce(func(s *corev1.Secret) { s.OwnerReferences = owner })), held},
		"makes a nonce for another":     {creates(g.nonce(func(s *corev1.Secret) { s.Labels[names.RemoteClusterID] = "rome" })), mine},
		"makes a nonce there":           {creates(g.nonce(func(s *corev1.Secret) { s.Namespace = other })), "cannot create resource"},
		"reads ConfigMaps":              {lists(&corev1.ConfigMapList{}, g.ns), "cannot list resource"},
		"makes a pod":                   {creates(&corev1.Pod{ObjectMeta: g.meta("x")}), "cannot create resource"},
		"changes a Deployment":          {patches(&appsv1.Deployment{ObjectMeta: g.meta("gw-milan")}, `{"spec":{}}`), "cannot patch resource"},
		"binds a role":                  {creates(&rbacv1.RoleBinding{ObjectMeta: g.meta("x")}), "cannot create resource"},
		"looks for namespaces":          {lists(&corev1.NamespaceList{}, ""), "cannot list resource"},
		"makes a namespace":             {creates(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}), "cannot create resource"},
		"reads its consumer's requests": {lists(&authv1beta1.ResourceSliceList{}, g.ns), "cannot list resource"},

		// Its standing here. Another cluster is what the policy liqo-tenants refuses, too: either may be first.
		"is trusted without a handshake":      {patches(g.tenant(), `{"spec":{"authzPolicy":"TolerateNoHandshake"}}`), trust},
		"is trusted from the start":           {creates(g.tenant(func(o *authv1beta1.Tenant) { o.Spec.AuthzPolicy = new(authv1beta1.TolerateNoHandshake) })), trust},
		"is drained from the start":           {creates(g.tenant(func(o *authv1beta1.Tenant) { o.Spec.TenantCondition = authv1beta1.TenantConditionDrained })), trust},
		"cordons itself":                      {patches(g.tenant(), `{"spec":{"tenantCondition":"Cordoned"}}`), trust},
		"is another cluster":                  {creates(g.tenant(func(o *authv1beta1.Tenant) { o.Spec.ClusterID = "rome" })), "denied request"},
		"takes the name of another":           {creates(g.tenant(func(o *authv1beta1.Tenant) { o.Name = "rome" })), name},
		"says it is of another":               {patches(g.tenant(), `{"metadata":{"labels":{"liqo.io/remote-cluster-id":"rome"}}}`), "denied request"},
		"skips the webhooks":                  {patches(g.tenant(), `{"metadata":{"labels":{"liqo.io/webhook-skip":"true"}}}`), label},
		"keeps rights when its Tenant goes":   {patches(g.tenant(), `{"metadata":{"finalizers":null}}`), held},
		"keeps the namespace for ever":        {creates(g.tenant(func(o *authv1beta1.Tenant) { o.Finalizers = []string{foreignFinalizer} })), held},
		"gives its Tenant an owner":           {creates(g.tenant(func(o *authv1beta1.Tenant) { o.OwnerReferences = owner })), held},
		"makes a Tenant in another namespace": {creates(g.tenant(func(o *authv1beta1.Tenant) { o.Namespace, o.Spec.ClusterID = other, "rome" })), "cannot create resource"},
		"says that it is accepted": {func() error {
			return g.Status().Patch(ctx, g.tenant(), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"tenantNamespace":"x"}}`)))
		}, "cannot patch resource"},
		"deletes all Tenants": {func() error {
			return g.DeleteAllOf(ctx, &authv1beta1.Tenant{}, client.InNamespace(g.ns))
		}, "cannot deletecollection resource"},

		// What is shown to it, and what the tunnel reaches.
		"shows an address": {creates(&ipamv1alpha1.IP{ObjectMeta: g.meta(g.peer), Spec: ipamv1alpha1.IPSpec{IP: "169.254.169.254"}}), "cannot create resource"},
		"says our networks": {creates(g.configuration(func(o *networkingv1beta1.Configuration) {
			o.Spec.Local = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"0.0.0.0/0"}}}
		})), "none of this one"},
		"takes all prefixes": {creates(g.configuration(func(o *networkingv1beta1.Configuration) {
			for i := range 33 {
				o.Spec.Remote.CIDR.Pod = append(o.Spec.Remote.CIDR.Pod, networkingv1beta1.CIDR(fmt.Sprintf("10.%d.0.0/16", i)))
			}
		})), "at most 32"},
		"says the networks of another":    {creates(g.configuration(func(o *networkingv1beta1.Configuration) { o.Labels[names.RemoteClusterID] = "rome" })), mine},
		"changes the networks of another": {patches(g.configuration(func(o *networkingv1beta1.Configuration) { o.Name = "of-rome" }), `{"spec":{"remote":{"cidr":{"pod":["10.1.0.0/16"]}}}}`), mine},
		"takes the networks of another":   {patches(g.configuration(func(o *networkingv1beta1.Configuration) { o.Name = "of-rome" }), `{"metadata":{"labels":{"liqo.io/remote-cluster-id":"milan"}}}`), mine},
		"deletes the networks of another": {deletes(g.configuration(func(o *networkingv1beta1.Configuration) { o.Name = "of-rome" })), mine},
		"makes a second Configuration":    {creates(g.configuration(func(o *networkingv1beta1.Configuration) { o.Name = "more" })), name},
		"makes a second server":           {creates(g.server(func(o *networkingv1beta1.GatewayServer) { o.Name = "more" })), name},
		"has a server for another":        {patches(g.server(), `{"metadata":{"labels":{"liqo.io/remote-cluster-id":"rome"}}}`), mine},
		"has a server keep its place":     {patches(g.server(), `{"metadata":{"finalizers":null}}`), held},
		"has a server with other keys":    {patches(g.server(), `{"spec":{"secretRef":{"name":"kubeconfig-controlplane-milan"}}}`), keys},
		"annotates the Service":           {patches(g.server(), `{"spec":{"serviceAnnotations":{"example.com/internal":"false"}}}`), keys},
		"labels the Service":              {patches(g.server(), `{"spec":{"serviceLabels":{"app":"shop"}}}`), keys},
		"has a Service lead elsewhere":    {patches(g.server(), `{"spec":{"endpoint":{"serviceType":"ExternalName"}}}`), exposed},
		"has an address that is none":     {patches(g.server(), `{"spec":{"endpoint":{"loadBalancerIP":"--x"}}}`), exposed},
		"has a client with other keys": {creates(second(g.dialer(func(o *networkingv1beta1.GatewayClient) {
			o.Spec.SecretRef.Name = "kubeconfig-controlplane-milan"
		}))), keys},
		"has a client given an argument": {creates(g.dialer(func(o *networkingv1beta1.GatewayClient) { o.Spec.Endpoint.Addresses = []string{"--mode=server"} })), "addresses or names"},
		"has a client dial for another":  {creates(g.dialer(func(o *networkingv1beta1.GatewayClient) { o.Labels[names.RemoteClusterID] = "rome" })), mine},
		"has a key go with anything":     {patches(g.publicKey(), `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]}}`), held},
		"says that the tunnel is up":     {creates(&networkingv1beta1.Connection{ObjectMeta: g.meta("gw-milan")}), "cannot create resource"},
		"makes a gateway by itself":      {creates(&networkingv1beta1.WgGatewayServer{ObjectMeta: g.meta("x")}), "cannot create resource"},
		"makes a template":               {creates(&networkingv1beta1.WgGatewayServerTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: g.liqo, Name: "x"}}), "cannot create resource"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, tc.do(), tc.want) })
	}

	// What the administrator decided about the Tenant, it neither changes nor escapes.
	for _, condition := range []authv1beta1.TenantCondition{authv1beta1.TenantConditionCordoned, authv1beta1.TenantConditionDrained} {
		testkit.Update(t, admin, g.tenant(), func(o *authv1beta1.Tenant) { o.Spec.TenantCondition = condition })
		expect(t, g.Patch(ctx, g.tenant(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"tenantCondition":"Active"}}`)), client.DryRunAll), trust)
		expect(t, g.Patch(ctx, g.tenant(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"tenantCondition":null}}`)), client.DryRunAll), trust)
		expect(t, g.Delete(ctx, g.tenant(), client.DryRunAll), del)
		expect(t, g.Patch(ctx, g.tenant(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"signature":"YQ=="}}`)), client.DryRunAll), "")
	}
	testkit.Update(t, admin, g.tenant(), func(o *authv1beta1.Tenant) {
		o.Spec.TenantCondition, o.Spec.AuthzPolicy = authv1beta1.TenantConditionActive, new(authv1beta1.TolerateNoHandshake)
	})
	expect(t, g.Patch(ctx, g.tenant(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"authzPolicy":null}}`)), client.DryRunAll), trust)
	expect(t, g.Delete(ctx, g.tenant(), client.DryRunAll), del)
	expect(t, admin.Delete(ctx, g.tenant(), client.DryRunAll), "")
}
