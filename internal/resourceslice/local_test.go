// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"crypto"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/policy"

	"liqo.io/liqo/internal/testkit"
)

const self = "cl-consumer"

// home is a consumer cluster, as its controllers see it.
type home struct {
	provider  string
	namespace string // of the peering
	liqo      string
}

func newHome(t *testing.T, c *testkit.ControlPlane) *home {
	t.Helper()
	h := &home{provider: testkit.UniqueID(), liqo: testkit.Namespace(t, c, "liqo", nil)}
	h.namespace = tenantNamespace(t, c, h.provider)
	testkit.Allow(t, c, h.liqo, managerUser, rights.home...)
	run(t, c, func(mgr ctrl.Manager) error {
		return SetupLocal(mgr, LocalOptions{ClusterID: self, LiqoNamespace: h.liqo})
	})
	return h
}

// giveKey stores a new key pair for the provider.
func (h *home) giveKey(t *testing.T, c *testkit.ControlPlane) crypto.Signer {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	private, err := pki.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.liqo, Name: names.PeerKeysSecret(h.provider)},
		Data:       map[string][]byte{names.PrivateKeyKey: private},
	}
	if err := c.Client.Delete(t.Context(), secret.DeepCopy()); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	testkit.Create(t, c.Client, secret)
	return key
}

// typed is the slice that users are told to apply.
func (h *home) typed(t *testing.T, name string) *authv1beta1.ResourceSlice {
	t.Helper()
	slice := &authv1beta1.ResourceSlice{}
	if err := yaml.UnmarshalStrict(fmt.Appendf(nil, `
apiVersion: authentication.liqo.io/v1beta1
kind: ResourceSlice
metadata:
  annotations:
    liqo.io/create-virtual-node: "true"
  labels:
    liqo.io/remote-cluster-id: %[1]s
    liqo.io/remoteID: %[1]s
  name: %[2]s
  namespace: %[3]s
spec:
  class: default
  providerClusterID: %[1]s
  resources:
    cpu: 20
    memory: 128Gi
`, h.provider, name, h.namespace), slice); err != nil {
		t.Fatal(err)
	}
	return slice
}

// name is unique, because names of slices are in a cluster.
func name(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("slice-%d", time.Now().UnixNano())
}

func hasRequestFor(key crypto.Signer) func(*authv1beta1.ResourceSlice) error {
	return func(s *authv1beta1.ResourceSlice) error {
		if s.Spec.ConsumerClusterID == nil || *s.Spec.ConsumerClusterID != self {
			return errors.New("the consumer is not filled in")
		}
		return pki.CheckCSR(s.Spec.CSR, pki.SliceSubject(s.Name, self), key.Public())
	}
}

// answer is what the provider's grant looks like when it has come back.
func answer(t *testing.T, c *testkit.ControlPlane, slice *authv1beta1.ResourceSlice) {
	t.Helper()
	testkit.UpdateStatus(t, c.Client, slice, func(s *authv1beta1.ResourceSlice) {
		s.Status.Resources = s.Spec.Resources
		s.Status.AuthParams = &authv1beta1.AuthParams{APIServer: "https://provider:6443", SignedCRT: []byte("certificate")}
		s.Status.NodeLabels = map[string]string{
			"topology.kubernetes.io/zone":           "z1",
			"node-role.kubernetes.io/control-plane": "",
			names.RemoteClusterID:                   "somebody-else",
		}
		policy.AuthenticationAccepted().Set(&s.Status, time.Now())
		policy.ResourcesAccepted().Set(&s.Status, time.Now())
	})
}

func (h *home) identity(t *testing.T, c *testkit.ControlPlane, slice string) *authv1beta1.Identity {
	t.Helper()
	identity := &authv1beta1.Identity{}
	testkit.Eventually(t, patient, func() error {
		return c.Client.Get(t.Context(), client.ObjectKey{Namespace: h.namespace, Name: names.SliceIdentity(slice)}, identity)
	})
	return identity
}

func (h *home) virtualNode(t *testing.T, c *testkit.ControlPlane, slice string) *offv1beta1.VirtualNode {
	t.Helper()
	vn := &offv1beta1.VirtualNode{}
	testkit.Eventually(t, patient, func() error {
		return c.Client.Get(t.Context(), client.ObjectKey{Namespace: h.namespace, Name: slice}, vn)
	})
	return vn
}

// giveKubeconfig says what the controller of Identities would.
func giveKubeconfig(t *testing.T, c *testkit.ControlPlane, identity *authv1beta1.Identity) {
	t.Helper()
	testkit.UpdateStatus(t, c.Client, identity, func(i *authv1beta1.Identity) {
		i.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: names.KubeconfigSecret(i.Name)}
	})
}

func waitUntilDeleted(t *testing.T, c *testkit.ControlPlane, obj client.Object) {
	t.Helper()
	testkit.Eventually(t, patient, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s is still there: %v", obj.GetName(), err)
		}
		return nil
	})
}

func TestSliceBecomesVirtualNode(t *testing.T) {
	c := cluster(t)
	h := newHome(t, c)
	slice := h.typed(t, name(t))
	testkit.Create(t, c.Client, slice)
	key := h.giveKey(t, c) // after the slice: any order converges
	wait(t, c.Client, slice, hasRequestFor(key))

	answer(t, c, slice)
	identity := h.identity(t, c, slice.Name)
	if identity.Spec.ClusterID != liqov1beta1.ClusterID(h.provider) || identity.Spec.Type != authv1beta1.ResourceSliceIdentityType {
		t.Errorf("the Identity is %+v", identity.Spec)
	}
	giveKubeconfig(t, c, identity)
	vn := h.virtualNode(t, c, slice.Name)
	wantLabels := map[string]string{names.RemoteClusterID: h.provider, "topology.kubernetes.io/zone": "z1"}
	if diff := cmp.Diff(wantLabels, vn.Spec.Labels); diff != "" {
		t.Errorf("labels of the node: %s", diff)
	}
	if got := vn.Spec.ResourceQuota.Hard.Memory().String(); got != "128Gi" {
		t.Errorf("the node has %s", got)
	}
	testkit.WantEvent(t, c, slice, "VirtualNodeCreated", slice.Name)
	testkit.Eventually(t, patient, func() error {
		// The credentials stay while the node is drained, also after the slice.
		for _, owner := range h.identity(t, c, slice.Name).OwnerReferences {
			if owner.UID == vn.UID && owner.Controller == nil {
				return nil
			}
		}
		return errors.New("the VirtualNode does not hold the Identity")
	})

	t.Run("which follows the grant", func(t *testing.T) {
		testkit.UpdateStatus(t, c.Client, slice, func(s *authv1beta1.ResourceSlice) {
			s.Status.Resources = corev1.ResourceList{"cpu": resource.MustParse("2")}
		})
		testkit.Eventually(t, patient, func() error {
			hard := h.virtualNode(t, c, slice.Name).Spec.ResourceQuota.Hard
			if hard.Cpu().Value() != 2 || !hard.Memory().IsZero() {
				return fmt.Errorf("the node has %v", hard)
			}
			return nil
		})
	})
	t.Run("and keeps what its users changed", func(t *testing.T) {
		testkit.Update(t, c.Client, vn, func(vn *offv1beta1.VirtualNode) {
			vn.Spec.Taints = []corev1.Taint{{Key: "mine", Effect: corev1.TaintEffectNoSchedule}}
		})
		testkit.UpdateStatus(t, c.Client, slice, func(s *authv1beta1.ResourceSlice) {
			s.Status.Resources = corev1.ResourceList{"cpu": resource.MustParse("3")}
		})
		testkit.Eventually(t, patient, func() error {
			vn := h.virtualNode(t, c, slice.Name)
			if vn.Spec.ResourceQuota.Hard.Cpu().Value() != 3 || len(vn.Spec.Taints) != 1 {
				return fmt.Errorf("it has %v and %v", vn.Spec.ResourceQuota.Hard, vn.Spec.Taints)
			}
			return nil
		})
	})
	t.Run("denied slice loses Identity", func(t *testing.T) {
		testkit.UpdateStatus(t, c.Client, slice, func(s *authv1beta1.ResourceSlice) {
			policy.AuthenticationDenied("no").Set(&s.Status, time.Now())
		})
		testkit.Eventually(t, patient, func() error {
			err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(identity), &authv1beta1.Identity{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("the Identity is still there: %v", err)
			}
			return nil
		})
		testkit.WantEvent(t, c, slice, "IdentityDeleted", "")
	})
	t.Run("node of denied slice reports it", func(t *testing.T) {
		withdrawn := func(reason string) {
			t.Helper()
			testkit.Eventually(t, patient, func() error {
				if got := h.virtualNode(t, c, slice.Name).Annotations[names.Withdrawn]; got != reason {
					return fmt.Errorf("it says %q, not %q", got, reason)
				}
				return nil
			})
		}
		withdrawn("ResourceSlice authentication denied: no")
		// What a provider says is cut: a Node carries it.
		testkit.UpdateStatus(t, c.Client, slice, func(s *authv1beta1.ResourceSlice) {
			policy.AuthenticationDenied(strings.Repeat("è", 2000)).Set(&s.Status, time.Now())
		})
		withdrawn("ResourceSlice authentication denied: " + strings.Repeat("è", (policy.MaxForeignMessage-len("ResourceSlice authentication denied: …"))/2) + "…")
		answer(t, c, slice)
		withdrawn("")
	})
	t.Run("deleted slice waits for drain", func(t *testing.T) {
		going := h.typed(t, name(t))
		testkit.Create(t, c.Client, going)
		answer(t, c, going)
		giveKubeconfig(t, c, h.identity(t, c, going.Name))
		testkit.Update(t, c.Client, h.virtualNode(t, c, going.Name), func(vn *offv1beta1.VirtualNode) {
			vn.Finalizers = append(vn.Finalizers, "test/draining")
		})
		if err := c.Client.Delete(t.Context(), going); err != nil {
			t.Fatal(err)
		}
		var vn *offv1beta1.VirtualNode
		testkit.Eventually(t, patient, func() error {
			if vn = h.virtualNode(t, c, going.Name); vn.DeletionTimestamp.IsZero() {
				return errors.New("its node is not asked to go")
			}
			return nil
		})
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(going), going); err != nil {
			t.Fatalf("the slice went before its node: %v", err)
		}
		testkit.Update(t, c.Client, vn, func(vn *offv1beta1.VirtualNode) { vn.Finalizers = nil })
		waitUntilDeleted(t, c, going)
	})
	t.Run("deleted slice waits for manual VirtualNode", func(t *testing.T) {
		going := h.typed(t, name(t))
		going.Annotations = nil // it asks for no node
		testkit.Create(t, c.Client, going)
		answer(t, c, going)
		giveKubeconfig(t, c, h.identity(t, c, going.Name))
		foreign := &offv1beta1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name(t), Finalizers: []string{"test/draining"}},
			Spec:       offv1beta1.VirtualNodeSpec{ClusterID: "milan", KubeconfigSecretRef: h.identity(t, c, going.Name).Status.KubeconfigSecretRef},
		}
		testkit.Create(t, c.Client, foreign)
		for _, obj := range []client.Object{foreign, going} {
			if err := c.Client.Delete(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}
		next := h.typed(t, name(t)) // what came later was handled
		testkit.Create(t, c.Client, next)
		answer(t, c, next)
		h.identity(t, c, next.Name)
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(going), going); err != nil {
			t.Fatalf("the slice went before the node: %v", err)
		}
		testkit.Update(t, c.Client, foreign, func(vn *offv1beta1.VirtualNode) { vn.Finalizers = nil })
		waitUntilDeleted(t, c, going)
	})
	t.Run("lost key renews request", func(t *testing.T) {
		key := h.giveKey(t, c)
		testkit.Update(t, c.Client, slice, func(s *authv1beta1.ResourceSlice) { s.Annotations["test/touch"] = "1" })
		wait(t, c.Client, slice, hasRequestFor(key))
	})
}

// Nodes of a provider whose version does not work together with ours take no more pods, and no others are made, until it does.
// A new address of the provider begins the virtual kubelet anew: one that says another each moment would keep it from ever working.
func TestSliceCredentialsInterval(t *testing.T) {
	c := cluster(t)
	h := newHome(t, c)
	slice := h.typed(t, name(t))
	testkit.Create(t, c.Client, slice)
	wait(t, c.Client, slice, hasRequestFor(h.giveKey(t, c)))
	answer(t, c, slice)
	identity := h.identity(t, c, slice.Name)
	const rounds = 60
	for round := range rounds {
		testkit.UpdateStatus(t, c.Client, slice, func(s *authv1beta1.ResourceSlice) {
			s.Status.AuthParams.APIServer = fmt.Sprintf("https://provider-%d:6443", round)
		})
		if round > 0 {
			continue
		}
		testkit.Eventually(t, patient, func() error { // the first one is followed at once
			if identity = h.identity(t, c, slice.Name); identity.Spec.AuthParams.APIServer != "https://provider-0:6443" {
				return fmt.Errorf("it leads to %s", identity.Spec.AuthParams.APIServer)
			}
			return nil
		})
	}
	if identity = h.identity(t, c, slice.Name); identity.Generation > rounds/10 {
		t.Errorf("of %d addresses %d were followed", rounds, identity.Generation)
	}
}

func TestProviderVersionMismatch(t *testing.T) {
	c := cluster(t)
	h := newHome(t, c)
	h.giveKey(t, c)
	granted := func(slice *authv1beta1.ResourceSlice) {
		testkit.Create(t, c.Client, slice)
		answer(t, c, slice)
		giveKubeconfig(t, c, h.identity(t, c, slice.Name))
	}
	old, late := h.typed(t, name(t)+"-old"), h.typed(t, name(t)+"-late")
	granted(old)
	uid := h.virtualNode(t, c, old.Name).UID
	says := func(want string) {
		t.Helper()
		testkit.Eventually(t, patient, func() error {
			if vn := h.virtualNode(t, c, old.Name); vn.UID != uid || vn.Annotations[names.Withdrawn] != want {
				return fmt.Errorf("it says %q, not %q", vn.Annotations[names.Withdrawn], want)
			}
			return nil
		})
	}
	seenAs(t, c, h.provider, tooOld())
	says("it is too old")
	granted(late)
	testkit.WantEvent(t, c, late, "VersionRefused", "no VirtualNode is created for the slice: it is too old")
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(late), &offv1beta1.VirtualNode{}); !apierrors.IsNotFound(err) {
		t.Errorf("there is a VirtualNode of a slice that came too late, or %v", err)
	}
	h.identity(t, c, old.Name)

	seenAs(t, c, h.provider)
	says("")
	h.virtualNode(t, c, late.Name)
}

func TestSliceWithoutAnnotation(t *testing.T) {
	c := cluster(t)
	h := newHome(t, c)
	h.giveKey(t, c)
	quiet, probe := h.typed(t, name(t)), h.typed(t, name(t))
	quiet.Annotations = nil
	testkit.Create(t, c.Client, quiet, probe)
	for _, slice := range []*authv1beta1.ResourceSlice{quiet, probe} {
		answer(t, c, slice)
		giveKubeconfig(t, c, h.identity(t, c, slice.Name))
	}
	h.virtualNode(t, c, probe.Name)
	err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(quiet), &offv1beta1.VirtualNode{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("reading its VirtualNode: %v", err)
	}
	t.Run("until it is annotated", func(t *testing.T) {
		testkit.Update(t, c.Client, quiet, func(s *authv1beta1.ResourceSlice) {
			s.Annotations = map[string]string{names.CreateVirtualNode: "true"}
		})
		h.virtualNode(t, c, quiet.Name)
	})
}

func TestSliceProblem(t *testing.T) {
	c := cluster(t)
	h := newHome(t, c)
	key := h.giveKey(t, c)
	older := h.typed(t, name(t))
	testkit.Create(t, c.Client, older)
	otherNamespace := testkit.Namespace(t, c, "elsewhere", nil)
	second := tenantNamespace(t, c, testkit.UniqueID())
	foreign := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name(t)}}
	testkit.Create(t, c.Client, foreign)

	for test, want := range map[string]struct {
		edit   func(*authv1beta1.ResourceSlice)
		reason string
		then   func(*authv1beta1.ResourceSlice)
	}{
		"outside of a tenant namespace": {reason: "WrongNamespace", edit: func(s *authv1beta1.ResourceSlice) { s.Namespace = otherNamespace }},
		"for another provider": {reason: "WrongProvider", edit: func(s *authv1beta1.ResourceSlice) {
			s.Spec.ProviderClusterID = new(liqov1beta1.ClusterID("another"))
		}},
		"for another consumer": {reason: "WrongConsumer", edit: func(s *authv1beta1.ResourceSlice) {
			s.Spec.ConsumerClusterID = new(liqov1beta1.ClusterID("another"))
		}},
		"of a name that is no label": {reason: "WrongName", edit: func(s *authv1beta1.ResourceSlice) {
			s.Name = fmt.Sprintf("%s-%065d", s.Name, 0)
		}},
		"of the name of another slice": {reason: "NameTaken", edit: func(s *authv1beta1.ResourceSlice) {
			s.Name, s.Namespace, s.Spec.ProviderClusterID = older.Name, second, nil
		}},
		"of the name of another Identity": {reason: "IdentityTaken", edit: func(s *authv1beta1.ResourceSlice) {
			testkit.Create(t, c.Client, &authv1beta1.Identity{
				ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: names.SliceIdentity(s.Name)},
				Spec:       authv1beta1.IdentitySpec{ClusterID: liqov1beta1.ClusterID(h.provider), Type: authv1beta1.ResourceSliceIdentityType},
			})
		}, then: func(s *authv1beta1.ResourceSlice) { answer(t, c, s) }},
		"of the name of another VirtualNode": {reason: "VirtualNodeTaken", edit: func(s *authv1beta1.ResourceSlice) { s.Name = foreign.Name },
			then: func(s *authv1beta1.ResourceSlice) {
				answer(t, c, s)
				giveKubeconfig(t, c, h.identity(t, c, s.Name))
			}},
	} {
		t.Run(test, func(t *testing.T) {
			slice := h.typed(t, name(t))
			want.edit(slice)
			if want.reason == "NameTaken" {
				// The second that the API server counts in must be over for one to be the older one.
				testkit.Eventually(t, patient, func() error {
					if time.Since(older.CreationTimestamp.Time) < 2*time.Second {
						return errors.New("not yet")
					}
					return nil
				})
			}
			testkit.Create(t, c.Client, slice)
			if want.then != nil {
				want.then(slice)
			}
			testkit.WantEvent(t, c, slice, want.reason, "")
		})
	}
	t.Run("while the older one of a name works", func(t *testing.T) {
		wait(t, c.Client, older, hasRequestFor(key))
	})
}
