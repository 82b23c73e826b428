// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// output is a log that many may write to.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func captureLog(t *testing.T) *output {
	t.Helper()
	o := &output{}
	klog.LogToStderr(false)
	klog.SetOutput(o)
	t.Cleanup(func() {
		klog.Flush()
		klog.LogToStderr(true)
	})
	return o
}

func TestRemoteNamespaceChange(t *testing.T) {
	p := newPeering(t)
	secret := p.peered()
	p.run()
	p.create(p.consumer, p.guideSlice(p.consumerTenant))
	old := p.copied(nil)

	move := func() {
		p.providerTenant = testkit.Namespace(t, p.provider, "elsewhere", tenant(p.consumerID))
		p.bind(p.userName)
		p.patch(p.consumer, secret, `{"metadata":{"annotations":{"liqo.io/remote-tenant-namespace":"`+p.providerTenant+`"}}}`)
	}
	move()
	p.copied(nil)
	p.waitUntilDeleted(p.provider, old)
	p.event("cplane-secret", "ReplicationStarted", p.providerTenant)

	// Where the peer took our rights already, nothing can be removed: somebody is told.
	kept := p.copied(nil)
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: p.providerTenant, Name: "liqo-binding-liqo-remote-controlplane"}}
	p.remove(p.provider, binding)
	user, err := client.New(p.user, client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, limit, func() error {
		if err := user.Get(t.Context(), client.ObjectKeyFromObject(kept), &authv1beta1.ResourceSlice{}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the peer still lets us in: %v", err)
		}
		return nil
	})
	move()
	p.copied(nil)
	p.event("cplane-secret", "CopiesLeft", kept.Namespace, "forbidden")
}

// The peer may be away when the credentials lead to another namespace, and the replicator, too: nothing stays in the former one for that.
func TestRemoteNamespaceChangeOutage(t *testing.T) {
	p := newPeering(t)
	secret := p.peered()
	stop := p.run()
	p.create(p.consumer, p.guideSlice(p.consumerTenant))
	old := p.copied(nil)
	stop()
	p.providerTenant = testkit.Namespace(t, p.provider, "elsewhere", tenant(p.consumerID))
	p.bind(p.userName)
	p.provider.StopAPIServer(t)
	p.patch(p.consumer, secret, `{"metadata":{"annotations":{"liqo.io/remote-tenant-namespace":"`+p.providerTenant+`"}}}`)
	p.run()
	p.condition(failing)
	p.provider.StartAPIServer(t)
	p.copied(nil)
	p.waitUntilDeleted(p.provider, old)
	testkit.Eventually(t, limit, func() error {
		if err := p.consumer.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			return err
		}
		if in := secret.Annotations["crdreplicator.liqo.io/copies-in"]; in != p.providerTenant {
			return fmt.Errorf("there are copies in %q", in)
		}
		return nil
	})
}

func TestGuideSlice(t *testing.T) {
	p := newPeering(t)
	log := captureLog(t)
	secret := p.peered()
	p.run()
	p.condition(established)
	p.event("cplane-secret", "ReplicationStarted", p.providerTenant, p.providerID)
	p.create(p.consumer, p.guideSlice(p.consumerTenant))

	copied := p.copied(nil)
	want := map[string]string{
		"liqo.io/remote-cluster-id": "rome", "liqo.io/remoteID": p.providerID, "liqo.io/originID": "rome",
		"liqo.io/replicated": "true", "liqo.io/replication": "false",
	}
	if diff := cmp.Diff(want, copied.Labels); diff != "" {
		t.Errorf("labels of the copy: %s", diff)
	}
	if copied.Annotations["liqo.io/create-virtual-node"] != "true" || copied.Spec.Resources.Cpu().String() != "20" {
		t.Errorf("the copy is %+v", copied)
	}

	// The status comes back as it is.
	p.patchStatus(p.provider, copied, `{"status":{"conditions":[{"type":"Resources","status":"Accepted","reason":"R"}],"resources":{"cpu":"20"},"nodeLabels":{"a":"b"}}}`)
	p.local(func(s *authv1beta1.ResourceSlice) error {
		if len(s.Status.Conditions) != 1 || s.Status.Conditions[0].Status != "Accepted" || s.Status.NodeLabels["a"] != "b" {
			return fmt.Errorf("the status is %+v", s.Status)
		}
		return nil
	})

	// Edits of spec, labels and annotations follow, removals as well; the provider's own marks stay.
	p.patch(p.provider, copied, `{"metadata":{"annotations":{"liqo.io/cordon":"true"},"labels":{"provider":"own"}}}`)
	local := p.sliceAt(p.consumerTenant)
	p.patch(p.consumer, local, `{"metadata":{"labels":{"team":"blue"},"annotations":{"note":"hello"}},"spec":{"resources":{"cpu":"30"}}}`)
	copied = p.copied(label("team", "blue"))
	if copied.Annotations["note"] != "hello" || copied.Spec.Resources.Cpu().String() != "30" {
		t.Errorf("the copy is %+v", copied)
	}
	p.patch(p.consumer, local, `{"metadata":{"labels":{"team":null},"annotations":{"note":null}}}`)
	copied = p.copied(label("team", ""))
	if note, ok := copied.Annotations["note"]; ok {
		t.Errorf("the copy still says %q", note)
	}
	if copied.Annotations["liqo.io/cordon"] != "true" || copied.Labels["provider"] != "own" {
		t.Errorf("the provider's marks are gone: %v %v", copied.Annotations, copied.Labels)
	}

	// A copy that the provider deletes is made again.
	p.remove(p.provider, copied)
	p.copied(func(s *authv1beta1.ResourceSlice) error {
		if s.UID == copied.UID {
			return fmt.Errorf("it is the old copy")
		}
		return nil
	})
	// What the silent new copy does not say is not forgotten.
	if s := p.local(nil); len(s.Status.Conditions) != 1 {
		t.Errorf("the status is %+v", s.Status)
	}

	// Deleting the object deletes the copy, then the Secret may go.
	p.remove(p.consumer, local)
	p.waitUntilDeleted(p.consumer, local)
	p.waitUntilDeleted(p.provider, p.sliceAt(p.providerTenant))
	p.remove(p.consumer, secret)
	p.waitUntilDeleted(p.consumer, secret)
	p.condition("")

	checkLog(t, log.String(), p)
}

// checkLog looks for the guide's lines, as it prints them: klog's header, then exactly this text. Nothing else that the
// package logs comes between or after them, because the guide asks for the last five.
func checkLog(t *testing.T, log string, p *peering) {
	t.Helper()
	header := regexp.MustCompile(`^I\d{4} \d{2}:\d{2}:\d{2}\.\d{6} +\d+ log\.go:\d+\] `)
	var got []string
	for _, line := range strings.Split(log, "\n") {
		if strings.Contains(line, "log.go:") && header.MatchString(line) {
			got = append(got, header.ReplaceAllString(line, ""))
		}
	}
	want := []string{
		`Processing Secret "` + p.consumerTenant + `/cplane-secret"`,
		`[` + p.providerID + `] Starting reflection towards remote cluster`,
		`[` + p.providerID + `] Starting reflection of offloading.liqo.io/v1beta1, Resource=namespacemaps`,
		`[` + p.providerID + `] Starting reflection of authentication.liqo.io/v1beta1, Resource=resourceslices`,
		`[` + p.providerID + `] Reflection of authentication.liqo.io/v1beta1, Resource=resourceslices correctly started`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the lines of the guide (-guide +log):\n%s", diff)
	}
}

func TestNamespaceMapsAndRenews(t *testing.T) {
	p := newPeering(t)
	p.peered()
	p.run()
	nm := &offv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.consumerTenant, Name: p.providerID},
		Spec:       offv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"demo": "demo-rome"}},
	}
	renew := &authv1beta1.Renew{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.consumerTenant, Name: "controlplane"},
		Spec:       authv1beta1.RenewSpec{ConsumerClusterID: "rome", IdentityType: "ControlPlane"},
	}
	p.create(p.consumer, nm, renew)
	var copied offv1beta1.NamespaceMap
	testkit.Eventually(t, limit, func() error {
		return p.provider.Client.Get(t.Context(), types.NamespacedName{Namespace: p.providerTenant, Name: p.providerID}, &copied)
	})
	if got := copied.Annotations[names.Version]; got != "v1.2.3" {
		t.Errorf("the copy says that the consumer has version %q", got)
	}
	p.patchStatus(p.provider, &copied, `{"status":{"providerVersion":"v1.3.0","providerCapabilities":["bound-nonces"],"currentMapping":{"demo":{"remoteNamespace":"demo-rome","phase":"Accepted"}}}}`)
	testkit.Eventually(t, limit, func() error {
		if err := p.consumer.Client.Get(t.Context(), client.ObjectKeyFromObject(nm), nm); err != nil {
			return err
		}
		if nm.Status.CurrentMapping["demo"].Phase != "Accepted" || nm.Status.ProviderVersion != "v1.3.0" || len(nm.Status.ProviderCapabilities) != 1 {
			return fmt.Errorf("status %+v", nm.Status)
		}
		return nil
	})
	// The last namespace goes: a map whose last key was taken out once became null on its way, which no schema accepts.
	if err := p.consumer.Client.Patch(t.Context(), nm, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"desiredMapping":{"demo":null}}}`))); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, limit, func() error {
		if err := p.provider.Client.Get(t.Context(), client.ObjectKeyFromObject(&copied), &copied); err != nil {
			return err
		}
		if len(copied.Spec.DesiredMapping) != 0 {
			return fmt.Errorf("the copy still asks for %v", copied.Spec.DesiredMapping)
		}
		return nil
	})
	remoteRenew := &authv1beta1.Renew{}
	testkit.Eventually(t, limit, func() error {
		return p.provider.Client.Get(t.Context(), types.NamespacedName{Namespace: p.providerTenant, Name: "controlplane"}, remoteRenew)
	})
	p.patchStatus(p.provider, remoteRenew, `{"status":{"authParams":{"apiServer":"https://new:6443"}}}`)
	testkit.Eventually(t, limit, func() error {
		if err := p.consumer.Client.Get(t.Context(), client.ObjectKeyFromObject(renew), renew); err != nil {
			return err
		}
		if renew.Status.AuthParams == nil || renew.Status.AuthParams.APIServer != "https://new:6443" {
			return fmt.Errorf("status %+v", renew.Status)
		}
		return nil
	})
}

// Another writer adds to the copy and changes it, while the replicator is down and while it runs.
func TestForeignFieldsOfACopy(t *testing.T) {
	p := newPeering(t)
	p.peered()
	stop := p.run()
	nm := &offv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.consumerTenant, Name: p.providerID},
		Spec:       offv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"demo": "demo-rome"}},
	}
	p.create(p.consumer, nm, p.guideSlice(p.consumerTenant))
	copied := &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.providerTenant, Name: p.providerID}}
	restored := func() {
		t.Helper()
		testkit.Eventually(t, limit, func() error {
			copied.Spec = offv1beta1.NamespaceMapSpec{}
			if err := p.provider.Client.Get(t.Context(), client.ObjectKeyFromObject(copied), copied); err != nil {
				return err
			}
			if diff := cmp.Diff(map[string]string{"demo": "demo-rome"}, copied.Spec.DesiredMapping); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
		p.copied(func(s *authv1beta1.ResourceSlice) error {
			if _, ok := s.Spec.Resources["pods"]; ok || len(s.Spec.Resources) != 2 || s.Spec.CSR != nil {
				return fmt.Errorf("the copy has the spec %+v", s.Spec)
			}
			return nil
		})
	}
	interfere := func() {
		t.Helper()
		p.patch(p.provider, copied, `{"spec":{"desiredMapping":{"added":"added-rome","demo":"changed"}}}`)
		p.patch(p.provider, p.sliceAt(p.providerTenant), `{"spec":{"resources":{"pods":"7"},"csr":"eA=="}}`)
	}
	restored()
	interfere()
	restored()
	stop()
	interfere()
	p.run()
	restored()
}

func TestLateRights(t *testing.T) {
	p := newPeering(t)
	p.run()
	p.create(p.consumer, p.guideSlice(p.consumerTenant))
	p.create(p.consumer, p.secret("cplane-secret", testkit.Kubeconfig(t, p.user)))
	p.event("cplane-secret", "RefusedByPeer", "forbidden", p.userName)
	p.condition(established, "refuses", p.userName)
	binding := p.bind(p.userName)
	copied := p.copied(nil)
	p.condition(established, "the API server answers")

	// And rights that are taken away: the object stays held, says why, and goes when they are back.
	p.remove(p.provider, binding)
	p.condition(established, "refuses", p.userName)
	p.remove(p.consumer, p.sliceAt(p.consumerTenant))
	if s := p.local(nil); len(s.Finalizers) == 0 {
		t.Error("the object was released while its copy still exists")
	}
	p.bind(p.userName)
	p.waitUntilDeleted(p.consumer, p.sliceAt(p.consumerTenant))
	p.waitUntilDeleted(p.provider, copied)
}

func TestInvalidSecrets(t *testing.T) {
	p := newPeering(t)
	p.bind(p.userName)
	p.run()
	good := testkit.Kubeconfig(t, p.user)
	exec := strings.Replace(string(good), "client-certificate-data:", "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}\n    client-certificate-data:", 1)
	insecure := regexp.MustCompile(`certificate-authority-data: .*`).ReplaceAllString(string(good), "insecure-skip-tls-verify: true")
	otherKey := regexp.MustCompile(`client-key-data: .*`).FindString(string(testkit.Kubeconfig(t, p.provider.User(t, "somebody"))))
	mismatch := regexp.MustCompile(`client-key-data: .*`).ReplaceAllString(string(good), otherKey)
	for _, c := range []struct {
		name   string
		change func(*corev1.Secret)
		reason string
		words  []string
	}{
		{"no-annotation", func(s *corev1.Secret) { s.Annotations = nil }, "MissingRemoteTenantNamespace", []string{"liqo.io/remote-tenant-namespace"}},
		{"no-peer", func(s *corev1.Secret) { delete(s.Labels, "liqo.io/remote-cluster-id") }, "MissingRemoteClusterID", []string{"liqo.io/remote-cluster-id"}},
		{"other-peer", func(s *corev1.Secret) { s.Labels["liqo.io/remote-cluster-id"] = "turin" }, "WrongNamespace", []string{"turin", p.providerID}},
		{"no-kubeconfig", func(s *corev1.Secret) { s.Data = nil }, "InvalidKubeconfig", []string{"kubeconfig is missing"}},
		{"garbage", func(s *corev1.Secret) { s.Data["kubeconfig"] = []byte("{") }, "InvalidKubeconfig", nil},
		{"exec", func(s *corev1.Secret) { s.Data["kubeconfig"] = []byte(exec) }, "InvalidKubeconfig", []string{"exec"}},
		{"insecure", func(s *corev1.Secret) { s.Data["kubeconfig"] = []byte(insecure) }, "InvalidKubeconfig", []string{"insecure-skip-tls-verify"}},
		{"mismatch", func(s *corev1.Secret) { s.Data["kubeconfig"] = []byte(mismatch) }, "InvalidKubeconfig", []string{"key"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := p.in(t)
			s := p.secret(c.name, good)
			s.Data = map[string][]byte{"kubeconfig": good}
			c.change(s)
			p.create(p.consumer, s)
			p.event(c.name, c.reason, c.words...)
			p.condition(failing)
			p.remove(p.consumer, s)
			p.waitUntilDeleted(p.consumer, s)
		})
	}
	// And after all that, one that is good.
	p.create(p.consumer, p.guideSlice(p.consumerTenant), p.secret("good", good))
	p.copied(nil)
}

func TestTwoSecrets(t *testing.T) {
	p := newPeering(t)
	first := p.peered()
	p.run()
	p.condition(established)
	p.create(p.consumer, p.guideSlice(p.consumerTenant))
	p.copied(nil)
	second := p.secret("b-second", testkit.Kubeconfig(t, p.user))
	p.create(p.consumer, second)
	p.event("cplane-secret", "DuplicateCredentials", "cplane-secret", "b-second")
	p.event("b-second", "DuplicateCredentials", "cplane-secret", "b-second")

	// The other takes over without a break, so the first need not wait for the objects.
	p.remove(p.consumer, first)
	p.waitUntilDeleted(p.consumer, first)
	p.patch(p.consumer, p.sliceAt(p.consumerTenant), `{"metadata":{"labels":{"team":"green"}}}`)
	p.copied(label("team", "green"))
}

func TestBrokenKubeconfig(t *testing.T) {
	p := newPeering(t)
	secret := p.peered()
	p.run()
	p.create(p.consumer, p.guideSlice(p.consumerTenant))
	p.copied(nil)
	p.patch(p.consumer, secret, `{"data":{"kubeconfig":"e30="}}`)
	p.event("cplane-secret", "InvalidKubeconfig")
	p.patch(p.consumer, p.sliceAt(p.consumerTenant), `{"metadata":{"labels":{"team":"red"}}}`)
	p.copied(label("team", "red"))
}

func TestNewCredentials(t *testing.T) {
	p := newPeering(t)
	secret := p.peered()
	p.run()
	p.create(p.consumer, p.guideSlice(p.consumerTenant))
	p.copied(nil)

	next := p.provider.User(t, p.userName+"-next")
	binding := &metav1.ObjectMeta{Namespace: p.providerTenant, Name: "liqo-binding-liqo-remote-controlplane"}
	secret.Data["kubeconfig"] = testkit.Kubeconfig(t, next)
	if err := p.consumer.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	secret.Data["kubeconfig"] = testkit.Kubeconfig(t, next)
	if err := p.consumer.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	p.event("cplane-secret", "CredentialsChanged")
	old := p.bind(p.userName)
	old.ObjectMeta = *binding
	p.remove(p.provider, old)
	p.bind(p.userName + "-next")
	p.patch(p.consumer, p.sliceAt(p.consumerTenant), `{"metadata":{"labels":{"team":"new"}}}`)
	p.copied(label("team", "new"))
}

func TestSecretFinalizer(t *testing.T) {
	p := newPeering(t)
	secret := p.peered()
	p.run()
	p.create(p.consumer, p.guideSlice(p.consumerTenant))
	copied := p.copied(nil)
	p.remove(p.consumer, secret)
	p.event("cplane-secret", "Draining", "ResourceSlice test")

	// Nothing new is started on credentials that are about to go, what is there is kept in step.
	late := &authv1beta1.Renew{ObjectMeta: metav1.ObjectMeta{Namespace: p.consumerTenant, Name: "late"}}
	p.create(p.consumer, late)
	p.patch(p.consumer, p.sliceAt(p.consumerTenant), `{"metadata":{"labels":{"team":"last"}}}`)
	p.copied(label("team", "last"))
	if err := p.consumer.Client.Get(t.Context(), client.ObjectKeyFromObject(late), late); err != nil || len(late.Finalizers) > 0 {
		t.Errorf("late object: %v %v", late.Finalizers, err)
	}

	p.remove(p.consumer, p.sliceAt(p.consumerTenant))
	p.waitUntilDeleted(p.consumer, p.sliceAt(p.consumerTenant))
	p.waitUntilDeleted(p.provider, copied)
	p.waitUntilDeleted(p.consumer, secret)
	p.condition("")
}

func TestNameTaken(t *testing.T) {
	p := newPeering(t)
	p.peered()
	foreign := p.guideSlice(p.providerTenant)
	foreign.SetLabels(map[string]string{"liqo.io/remote-cluster-id": p.consumerID, "liqo.io/remoteID": p.consumerID})
	p.create(p.provider, foreign)
	p.run()
	p.create(p.consumer, p.guideSlice(p.consumerTenant))
	p.event("test", "NameTakenAtPeer", "of its own")
	p.condition(established, "does not take all that is copied to it", "resourceslices/test", "of its own")
	if s := p.copied(nil); s.Labels["liqo.io/replicated"] != "" || s.UID != foreign.GetUID() {
		t.Errorf("the peer's own object has labels %v", s.Labels)
	}
	// And deleting ours leaves theirs alone.
	p.remove(p.consumer, p.sliceAt(p.consumerTenant))
	p.waitUntilDeleted(p.consumer, p.sliceAt(p.consumerTenant))
	p.untroubled()
	if s := p.copied(nil); !s.DeletionTimestamp.IsZero() {
		t.Error("the peer's own object is being deleted")
	}
}

func TestReplicasNotReturned(t *testing.T) {
	p := newPeering(t)
	p.peered()
	p.run()
	replica := p.guideSlice(p.consumerTenant)
	replica.SetName("from-there")
	replica.SetLabels(map[string]string{"liqo.io/replicated": "true", "liqo.io/originID": p.providerID, "liqo.io/remote-cluster-id": p.providerID})
	p.create(p.consumer, replica, p.guideSlice(p.consumerTenant))
	p.copied(nil)
	var remoteSlices authv1beta1.ResourceSliceList
	if err := p.provider.Client.List(t.Context(), &remoteSlices, client.InNamespace(p.providerTenant)); err != nil {
		t.Fatal(err)
	}
	if len(remoteSlices.Items) != 1 {
		t.Errorf("%d copies", len(remoteSlices.Items))
	}
}

// refuse has a cluster take no slices of which the condition is true, as a schema of another version would.
func (p *peering) refuse(c *testkit.ControlPlane, name, resource, condition, probe string) {
	p.t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.decode(fmt.Sprintf(`
spec:
  matchConstraints:
    resourceRules:
    - apiGroups: [authentication.liqo.io]
      apiVersions: ["*"]
      operations: [CREATE, UPDATE]
      resources: [%s]
  validations:
  - expression: "!(%s)"
    message: this version does not know it
`, resource, condition), policy)
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}}
	p.create(c, policy, binding)
	p.t.Cleanup(func() {
		for _, obj := range []client.Object{binding, policy} {
			_ = c.Client.Delete(context.Background(), obj) // the test's own is over
		}
	})
	namespace := p.consumerTenant
	if c == p.provider {
		namespace = p.providerTenant
	}
	testkit.Eventually(p.t, limit, func() error {
		patch, of := client.RawPatch(types.MergePatchType, []byte(probe)), p.sliceAt(namespace)
		err := c.Client.Patch(p.t.Context(), of, patch, client.DryRunAll)
		if strings.HasSuffix(resource, "/status") {
			err = c.Client.Status().Patch(p.t.Context(), of, patch, client.DryRunAll)
		}
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("it is not refused yet: %v", err)
		}
		return nil
	})
}

// What one of two versions finds invalid is told at home, and what comes after it follows again.
func TestRejectedObjects(t *testing.T) {
	p := newPeering(t)
	p.peered()
	p.run()
	p.create(p.consumer, p.guideSlice(p.consumerTenant))
	copied, local := p.copied(nil), p.sliceAt(p.consumerTenant)

	t.Run("the copy", func(t *testing.T) {
		p := p.in(t)
		const note = `{"metadata":{"annotations":{"test/unknown-there":"yes"}}}`
		p.refuse(p.provider, "unknown-there", "resourceslices", "has(object.metadata.annotations) && 'test/unknown-there' in object.metadata.annotations", note)
		p.patch(p.consumer, local, note)
		p.event("test", "InvalidAtPeer", "this version does not know it")
		p.patch(p.consumer, local, `{"metadata":{"annotations":{"test/unknown-there":null},"labels":{"team":"blue"}}}`)
		p.copied(label("team", "blue"))
	})
	t.Run("the status that comes back", func(t *testing.T) {
		p := p.in(t)
		const status = `{"status":{"nodeLabels":{"unknown-here":"yes"}}}`
		p.refuse(p.consumer, "unknown-here", "resourceslices/status", "has(object.status) && has(object.status.nodeLabels) && 'unknown-here' in object.status.nodeLabels", status)
		p.patchStatus(p.provider, copied, status)
		p.event("test", "InvalidStatus", "the peer's status is not acceptable", "this version does not know it")
	})
	t.Run("so much that comes back", func(t *testing.T) {
		p := p.in(t)
		p.patchStatus(p.provider, copied, `{"status":{"nodeLabels":{"unknown-here":null,"large":"`+strings.Repeat("x", maxStatus)+`"}}}`)
		p.event("test", "StatusTooLarge", fmt.Sprintf("more than the %d that are accepted", maxStatus))
		if s := p.local(nil); len(s.Status.NodeLabels) > 0 {
			t.Errorf("%d labels of nodes came back", len(s.Status.NodeLabels))
		}
	})
	p.patchStatus(p.provider, copied, `{"status":{"nodeLabels":{"large":"x"}}}`)
	p.local(func(s *authv1beta1.ResourceSlice) error {
		if s.Status.NodeLabels["large"] != "x" {
			return fmt.Errorf("the status is %+v", s.Status)
		}
		return nil
	})
}
