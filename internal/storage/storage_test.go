// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const patient = 3 * time.Minute

// rights are all that the controllers have, and a subset of those of the controller-manager.
var rights = []rbacv1.PolicyRule{
	testkit.Rule("", "persistentvolumeclaims", "get", "list", "watch", "create", "patch", "delete"),
	testkit.Rule("", "persistentvolumeclaims/status", "patch"),
	testkit.Rule("", "persistentvolumes", "get", "list", "watch", "create", "patch", "delete"),
	testkit.Rule("", "namespaces", "create"),
	testkit.Rule("", "nodes", "get", "list", "watch"),
	testkit.Rule("offloading.liqo.io", "virtualnodes", "get", "list", "watch"),
	testkit.Rule("offloading.liqo.io", "namespacemaps", "get", "list", "watch"),
	testkit.Rule("offloading.liqo.io", "namespaceoffloadings", "get", "list", "watch"),
	testkit.Rule("storage.k8s.io", "storageclasses", "get", "list", "watch"),
	testkit.Rule("events.k8s.io", "events", "create", "patch"),
}

// stage is a cluster whose provisioner is the test itself.
type stage struct {
	*testkit.ControlPlane
	namespace string
	stop      func()
}

func newStage(t *testing.T) *stage {
	t.Helper()
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller", "persistentvolume-binder-controller",
		"persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller"))
	for name, provisioner := range map[string]string{"liqo": names.StorageProvider, "disk": "example.com/disk"} {
		class := &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, AllowVolumeExpansion: new(true),
			VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
		}
		if err := client.IgnoreAlreadyExists(c.Client.Create(t.Context(), class)); err != nil {
			t.Fatal(err)
		}
	}
	s := &stage{ControlPlane: c, namespace: testkit.Namespace(t, c, "shop", nil)}
	testkit.Allow(t, c, "", "storage", rights...)
	s.run(t)
	return s
}

func (s *stage) run(t *testing.T) {
	s.stop = testkit.Manager(t, s.User(t, "storage"), kube.ManagerOptions{}, func(mgr ctrl.Manager) error {
		return Setup(mgr, Options{Namespace: s.namespace + "-storage", RealStorageClass: "disk"})
	})
}

// claim makes a claim, and selects a node for it.
func (s *stage) claim(t *testing.T, name, node string) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("liqo"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	testkit.Create(t, s.Client, claim)
	s.selectNode(t, claim, node)
	return claim
}

func (s *stage) selectNode(t *testing.T, claim *corev1.PersistentVolumeClaim, node string) {
	t.Helper()
	testkit.Update(t, s.Client, claim, func(c *corev1.PersistentVolumeClaim) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, selectedNode, node) })
}

// node makes a node, a virtual one of a provider with these classes if there is one.
func (s *stage) node(t *testing.T, provider string, classes ...liqov1beta1.StorageType) string {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: testkit.UniqueID(), Labels: map[string]string{}}}
	if provider != "" {
		node.Labels[names.NodeType], node.Labels[names.RemoteClusterID] = names.NodeTypeVirtualNode, provider
		testkit.Create(t, s.Client, &offv1beta1.VirtualNode{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: node.Name},
			Spec:       offv1beta1.VirtualNodeSpec{ClusterID: liqov1beta1.ClusterID(provider), StorageClasses: classes},
		}, &offv1beta1.NamespaceMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: provider, Labels: map[string]string{names.RemoteClusterID: provider}},
			Spec:       offv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{s.namespace: s.namespace + "-remote"}},
		})
	}
	testkit.Create(t, s.Client, node)
	t.Cleanup(func() { _ = s.Client.Delete(t.Context(), node) })
	return node.Name
}

// real waits for the real claim of a claim.
func (s *stage) real(t *testing.T, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	t.Helper()
	real := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace + "-storage", Name: string(claim.UID)}}
	testkit.Eventually(t, patient, func() error { return s.Client.Get(t.Context(), client.ObjectKeyFromObject(real), real) })
	return real
}

// provision makes the volume of a real claim, as a provisioner does.
func (s *stage) provision(t *testing.T, real *corev1.PersistentVolumeClaim, size string) *corev1.PersistentVolume {
	t.Helper()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "real-" + real.Name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}, AccessModes: real.Spec.AccessModes, StorageClassName: "disk",
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data/" + real.Name}},
			ClaimRef:                      &corev1.ObjectReference{Namespace: real.Namespace, Name: real.Name, UID: real.UID},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		},
	}
	testkit.Create(t, s.Client, volume)
	return volume
}

// bound waits until a claim is bound, and returns its volume.
func (s *stage) bound(t *testing.T, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	t.Helper()
	volume := &corev1.PersistentVolume{}
	testkit.Eventually(t, patient, func() error {
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("the claim is %s", claim.Status.Phase)
		}
		return s.Client.Get(t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, volume)
	})
	return volume
}

func (s *stage) gone(t *testing.T, obj client.Object) {
	t.Helper()
	testkit.Eventually(t, patient, func() error {
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%T %s is there: %v", obj, obj.GetName(), err)
		}
		return nil
	})
}

func (s *stage) delete(t *testing.T, obj client.Object) {
	t.Helper()
	if err := s.Client.Delete(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
}

func TestLocalVolume(t *testing.T) {
	s := newStage(t)
	claim := s.claim(t, "data", s.node(t, ""))
	real := s.real(t, claim)
	if real.Labels[names.VirtualClaimNamespace] != s.namespace || real.Labels[names.VirtualClaimName] != "data" || real.Annotations[selectedNode] != claim.Annotations[selectedNode] {
		t.Errorf("the real claim has labels %v and annotations %v", real.Labels, real.Annotations)
	}
	realVolume := s.provision(t, real, "2Gi")
	volume := s.bound(t, claim)
	if volume.Name != "pvc-"+string(claim.UID) || volume.Spec.HostPath.Path != realVolume.Spec.HostPath.Path || claim.Status.Capacity.Storage().String() != "2Gi" {
		t.Errorf("the claim is bound to %s of %v", volume.Name, volume.Spec)
	}

	// A restart, a larger request, and its end.
	s.stop()
	s.run(t)
	testkit.Update(t, s.Client, claim, func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("3Gi")
	})
	testkit.Eventually(t, patient, func() error {
		if now := s.real(t, claim).Spec.Resources.Requests.Storage().String(); now != "3Gi" {
			return errors.New("the real claim requests " + now)
		}
		return nil
	})
	testkit.Update(t, s.Client, realVolume, func(v *corev1.PersistentVolume) { v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("3Gi") })
	testkit.UpdateStatus(t, s.Client, real, func(c *corev1.PersistentVolumeClaim) {
		c.Status.Capacity[corev1.ResourceStorage] = resource.MustParse("3Gi")
	})
	testkit.Eventually(t, patient, func() error {
		if volume := s.bound(t, claim); claim.Status.Capacity.Storage().String() != "3Gi" || volume.Spec.Capacity.Storage().String() != "3Gi" {
			return fmt.Errorf("the claim has %v, and its volume %v", claim.Status.Capacity, volume.Spec.Capacity)
		}
		return nil
	})

	// The volume and the real claim go with the claim.
	s.delete(t, claim)
	s.gone(t, volume)
	s.gone(t, real)
}

func TestRemoteVolume(t *testing.T) {
	s := newStage(t)
	provider := testkit.UniqueID()
	node := s.node(t, provider, liqov1beta1.StorageType{StorageClassName: "slow"}, liqov1beta1.StorageType{StorageClassName: "fast", Default: true})
	claim := s.claim(t, "data", node)
	volume := s.bound(t, claim)
	if volume.Labels[names.RemoteClusterID] != provider || volume.Annotations[names.RemoteClaim] != "data" || volume.Annotations[names.RemoteStorageClass] != "fast" {
		t.Errorf("the volume has labels %v and annotations %v", volume.Labels, volume.Annotations)
	}

	// The provider's volume is larger.
	testkit.UpdateStatus(t, s.Client, claim, func(c *corev1.PersistentVolumeClaim) {
		c.Status.Capacity[corev1.ResourceStorage] = resource.MustParse("5Gi")
	})
	testkit.Eventually(t, patient, func() error {
		if volume := s.bound(t, claim); volume.Spec.Capacity.Storage().String() != "5Gi" {
			return fmt.Errorf("the volume has %v", volume.Spec.Capacity)
		}
		return nil
	})

	// A retained volume stays, and keeps its name in the provider.
	testkit.Update(t, s.Client, volume, func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
	s.delete(t, claim)
	s.gone(t, claim)
	again := s.claim(t, "data", node)
	if next := s.bound(t, again); next.Annotations[names.RemoteClaim] != "data-"+string(again.UID)[:8] {
		t.Errorf("the next volume is of the claim %s", next.Annotations[names.RemoteClaim])
	}
	testkit.Eventually(t, patient, func() error {
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(volume), volume); err != nil || volume.Status.Phase == corev1.VolumeReleased {
			return err
		}
		return fmt.Errorf("the volume is %s", volume.Status.Phase)
	})
	testkit.Update(t, s.Client, volume, func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	})
	s.gone(t, volume)
}

// TestRescheduling: a node that cannot have the volume is not kept, and neither is what was made for it.
func TestRescheduling(t *testing.T) {
	s := newStage(t)
	claim := s.claim(t, "data", s.node(t, testkit.UniqueID()))
	testkit.WantEvent(t, s.ControlPlane, claim, reasonReschedule, "offers no storage")
	testkit.Eventually(t, patient, func() error {
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil || claim.Annotations[selectedNode] == "" {
			return err
		}
		return errors.New("the node stays selected")
	})
	s.selectNode(t, claim, s.node(t, ""))
	first := s.real(t, claim)
	s.selectNode(t, claim, s.node(t, ""))
	testkit.Eventually(t, patient, func() error {
		if now := s.real(t, claim); now.UID == first.UID || now.Annotations[selectedNode] != claim.Annotations[selectedNode] {
			return fmt.Errorf("the real claim is for %s", now.Annotations[selectedNode])
		}
		return nil
	})
	real := s.real(t, claim)
	s.delete(t, claim)
	s.gone(t, real)
}

// TestRetainedRealClaim: the data of a retained volume outlives it.
func TestRetainedRealClaim(t *testing.T) {
	s := newStage(t)
	claim := s.claim(t, "data", s.node(t, ""))
	real := s.real(t, claim)
	s.provision(t, real, "1Gi")
	volume := s.bound(t, claim)
	testkit.Update(t, s.Client, volume, func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
	s.delete(t, volume) // while it is in use
	s.delete(t, claim)
	s.gone(t, claim)
	s.gone(t, volume)
	s.stop()
	s.run(t)
	// A later claim is handled by then.
	s.real(t, s.claim(t, "later", s.node(t, "")))
	if real := s.real(t, claim); !real.DeletionTimestamp.IsZero() || real.Annotations[names.ReclaimPolicy] != string(corev1.PersistentVolumeReclaimRetain) {
		t.Errorf("the real claim is being deleted: %v", real.ObjectMeta)
	}
}
