// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(klog.Background())
	testkit.Main(m)
}

const limit = 3 * time.Minute

// peering is one consumer and one provider with the guide's objects, each test with namespaces and IDs of its own.
type peering struct {
	t                              *testing.T
	consumer, provider             *testkit.ControlPlane
	consumerID, providerID         string
	consumerTenant, providerTenant string
	user                           *rest.Config // of the consumer, at the provider
	userName                       string
}

func newPeering(t *testing.T) *peering {
	t.Helper()
	p := &peering{t: t, consumer: testkit.Cluster(t), provider: testkit.SecondCluster(t)}
	short := strings.ToLower(strings.TrimPrefix(t.Name(), "Test"))
	short = strings.NewReplacer("/", "-", "_", "-", "#", "").Replace(short)
	p.consumerID, p.providerID = "rome", "milan-"+short[:min(len(short), 40)]
	p.consumerTenant = testkit.Namespace(t, p.consumer, "to-provider", tenant(p.providerID))
	p.providerTenant = testkit.Namespace(t, p.provider, "from-consumer", tenant(p.consumerID))
	t.Cleanup(p.hideNamespaces)
	p.userName = "user-" + short
	p.user = p.provider.User(t, p.userName)
	installPeerRights(t, p.provider)
	p.create(p.consumer, &liqov1beta1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: p.providerID},
		Spec:       liqov1beta1.ForeignClusterSpec{ClusterID: liqov1beta1.ClusterID(p.providerID)},
	})
	p.ownRights()
	return p
}

// in is the same peering in a subtest.
func (p *peering) in(t *testing.T) *peering {
	out := *p
	out.t = t
	return &out
}

// hideNamespaces makes the namespaces invisible to the next test: they stay where no namespace controller runs.
func (p *peering) hideNamespaces() {
	for c, name := range map[*testkit.ControlPlane]string{p.consumer: p.consumerTenant, p.provider: p.providerTenant} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_ = c.Client.Patch(context.Background(), ns, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null}}`)))
	}
}

func tenant(id string) map[string]string {
	return map[string]string{"liqo.io/remote-cluster-id": id, "liqo.io/tenant-namespace": "true"}
}

func (p *peering) create(c *testkit.ControlPlane, objects ...client.Object) {
	p.t.Helper()
	for _, obj := range objects {
		if err := c.Client.Create(p.t.Context(), obj); client.IgnoreAlreadyExists(err) != nil {
			p.t.Fatalf("creating %T %s: %v", obj, obj.GetName(), err)
		}
	}
}

func (p *peering) remove(c *testkit.ControlPlane, obj client.Object) {
	p.t.Helper()
	if err := c.Client.Delete(p.t.Context(), obj); err != nil {
		p.t.Fatalf("deleting %T %s: %v", obj, obj.GetName(), err)
	}
}

const replicatorUser = "liqo-crd-replicator"

func (p *peering) ownRights() {
	testkit.ProcessRole(p.t, p.consumer, "replicator-wide", "crd-replicator", "")
	testkit.ProcessRole(p.t, p.consumer, names.RoleTenantReplication, "crd-replicator", "tenant")
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: replicatorUser}}
	p.create(p.consumer,
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "replicator-wide"}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "replicator-wide"},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.consumerTenant, Name: "replicator"}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: names.RoleTenantReplication},
		})
}

// run starts the replicator with the rights it has in production.
func (p *peering) run() (stop func()) {
	p.t.Helper()
	return testkit.Manager(p.t, p.consumer.User(p.t, replicatorUser), kube.ManagerOptions{}, func(mgr ctrl.Manager) error {
		return Setup(mgr, Options{AllowLoopbackPeers: true, ClusterID: liqov1beta1.ClusterID(p.consumerID), Version: "v1.2.3", HealthInterval: time.Second, HealthTimeout: 2 * time.Second, ForgottenAfter: 15 * time.Second})
	})
}

// bind is the guide's RoleBinding.
func (p *peering) bind(user string) *rbacv1.RoleBinding {
	p.t.Helper()
	b := &rbacv1.RoleBinding{}
	p.decode(fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  labels:
    liqo.io/remote-cluster-id: %s
  name: liqo-binding-liqo-remote-controlplane
  namespace: %s
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: liqo-remote-controlplane
subjects:
- apiGroup: rbac.authorization.k8s.io
  kind: User
  name: %s
`, p.consumerID, p.providerTenant, user), b)
	p.create(p.provider, b)
	return b
}

// secret is the guide's Secret.
func (p *peering) secret(name string, kubeconfig []byte) *corev1.Secret {
	s := &corev1.Secret{}
	p.decode(fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata:
  labels:
    liqo.io/identity-type: ControlPlane
    liqo.io/remote-cluster-id: %s
  annotations:
    liqo.io/remote-tenant-namespace: %s
  name: %s
  namespace: %s
`, p.providerID, p.providerTenant, name, p.consumerTenant), s)
	s.Data = map[string][]byte{"kubeconfig": kubeconfig}
	return s
}

// guideSlice is the guide's ResourceSlice, as typed.
func (p *peering) guideSlice(namespace string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	p.decode(fmt.Sprintf(`
apiVersion: authentication.liqo.io/v1beta1
kind: ResourceSlice
metadata:
  annotations:
    liqo.io/create-virtual-node: "true"
  creationTimestamp: null
  labels:
    liqo.io/remote-cluster-id: %[1]s
    liqo.io/remoteID: %[1]s
  name: test
  namespace: %[2]s
spec:
  class: default
  providerClusterID: %[1]s
  resources:
    cpu: 20
    memory: 128Gi
`, p.providerID, namespace), &u.Object)
	return u
}

func (p *peering) decode(text string, into any) {
	p.t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		p.t.Fatal(err)
	}
}

// peered binds the user, applies the guide's Secret and returns it.
func (p *peering) peered() *corev1.Secret {
	p.bind(p.userName)
	s := p.secret("cplane-secret", testkit.Kubeconfig(p.t, p.user))
	p.create(p.consumer, s)
	return s
}

// copied waits until the slice's copy passes check, and returns it.
func (p *peering) copied(check func(*authv1beta1.ResourceSlice) error) *authv1beta1.ResourceSlice {
	p.t.Helper()
	return p.slice(p.provider, p.providerTenant, check)
}

func (p *peering) local(check func(*authv1beta1.ResourceSlice) error) *authv1beta1.ResourceSlice {
	p.t.Helper()
	return p.slice(p.consumer, p.consumerTenant, check)
}

func (p *peering) slice(c *testkit.ControlPlane, namespace string, check func(*authv1beta1.ResourceSlice) error) *authv1beta1.ResourceSlice {
	p.t.Helper()
	var out authv1beta1.ResourceSlice
	testkit.Eventually(p.t, limit, func() error {
		out = authv1beta1.ResourceSlice{}
		if err := c.Client.Get(p.t.Context(), types.NamespacedName{Namespace: namespace, Name: "test"}, &out); err != nil {
			return err
		}
		if check == nil {
			return nil
		}
		return check(&out)
	})
	return &out
}

func (p *peering) waitUntilDeleted(c *testkit.ControlPlane, obj client.Object) {
	p.t.Helper()
	testkit.Eventually(p.t, limit, func() error {
		err := c.Client.Get(p.t.Context(), client.ObjectKeyFromObject(obj), obj)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%T %s is still there, with finalizers %v, or %v", obj, obj.GetName(), obj.GetFinalizers(), err)
	})
}

// event waits for an event about an object of the consumer.
func (p *peering) event(object, reason string, words ...string) {
	p.t.Helper()
	testkit.Eventually(p.t, limit, func() error {
		var list eventsv1.EventList
		if err := p.consumer.Client.List(p.t.Context(), &list, client.InNamespace(p.consumerTenant)); err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			if e.Regarding.Name != object {
				continue
			}
			if e.Reason == reason && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e.Note, w) }) {
				return nil
			}
			seen = append(seen, e.Reason+": "+e.Note)
		}
		return fmt.Errorf("no event %s on %s about %q, only %q", reason, object, words, seen)
	})
}

// condition waits for what the ForeignCluster says about the peer's API server, "" for nothing.
func (p *peering) condition(want string, words ...string) {
	p.t.Helper()
	testkit.Eventually(p.t, limit, func() error {
		var fc liqov1beta1.ForeignCluster
		if err := p.consumer.Client.Get(p.t.Context(), types.NamespacedName{Name: p.providerID}, &fc); err != nil {
			return err
		}
		got, message := "", ""
		for _, c := range fc.Status.Conditions {
			got, message = fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason), c.Message
		}
		if got != want || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(message, w) }) {
			return fmt.Errorf("the condition is %q with message %q, want %q with %q", got, message, want, words)
		}
		return nil
	})
}

// untroubled waits until the ForeignCluster says that the peer takes all that is copied to it.
func (p *peering) untroubled() {
	p.t.Helper()
	testkit.Eventually(p.t, limit, func() error {
		var fc liqov1beta1.ForeignCluster
		if err := p.consumer.Client.Get(p.t.Context(), types.NamespacedName{Name: p.providerID}, &fc); err != nil {
			return err
		}
		if reason := peer.Trouble(&fc); reason != "" {
			return errors.New(reason)
		}
		return nil
	})
}

const (
	established = "APIServerStatus Established APIServerReady"
	failing     = "APIServerStatus Error APIServerNotReady"
	credless    = "APIServerStatus Error NoCredentials"
)

func (p *peering) giveUp() {
	p.t.Helper()
	p.patch(p.consumer, &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: p.providerID}},
		`{"metadata":{"annotations":{"liqo.io/foreign-cluster-permanently-unreachable":"true"}}}`)
}

func (p *peering) patch(c *testkit.ControlPlane, obj client.Object, body string) {
	p.t.Helper()
	if err := c.Client.Patch(p.t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		p.t.Fatalf("patching %T %s: %v", obj, obj.GetName(), err)
	}
}

func (p *peering) patchStatus(c *testkit.ControlPlane, obj client.Object, body string) {
	p.t.Helper()
	if err := c.Client.Status().Patch(p.t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		p.t.Fatalf("patching the status of %T %s: %v", obj, obj.GetName(), err)
	}
}

// label says that a label of the slice must have a value.
func label(key, value string) func(*authv1beta1.ResourceSlice) error {
	return func(s *authv1beta1.ResourceSlice) error {
		if got, ok := s.Labels[key]; got != value || ok != (value != "") {
			return fmt.Errorf("label %s is %q, want %q", key, got, value)
		}
		return nil
	}
}

func (p *peering) sliceAt(namespace string) *authv1beta1.ResourceSlice {
	return &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "test"}}
}

// installPeerRights gives a cluster the chart's roles for peers and the policies about replicas and endpoints.
func installPeerRights(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	install(t, c, "roles-peers.yaml")
	install(t, c, "policy-replicas.yaml")
	install(t, c, "policy-endpoints.yaml")
}

func install(t *testing.T, c *testkit.ControlPlane, name string) {
	t.Helper()
	for _, obj := range chartTemplate(t, name) {
		if err := c.Client.Create(t.Context(), obj); client.IgnoreAlreadyExists(err) != nil {
			t.Fatalf("creating %s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	}
}

// chartTemplate renders a template of the chart that depends on no value; its labels stay empty.
func chartTemplate(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	path := filepath.Join("..", "..", "deploy", "chart", "templates", name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	empty := func(...any) string { return "" }
	tmpl, err := template.New(name).Funcs(template.FuncMap{"include": empty, "nindent": empty, "dict": empty}).Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var rendered bytes.Buffer
	if err := tmpl.Execute(&rendered, nil); err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for _, doc := range strings.Split(rendered.String(), "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatalf("reading %s: %v", name, err)
		}
		if u.GetKind() != "" {
			out = append(out, u)
		}
	}
	return out
}
