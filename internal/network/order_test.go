// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// Whatever a tunnel is made of comes in a random order, and the controllers start in between; some of it goes and comes back. It ends as it
// does where all comes once, as the guide has it.
func TestTunnelOrder(t *testing.T) {
	private, public := keyPair(t)
	var want [2]string // by where the server is
	for seed := range uint64(2 + testkit.Seeds(t, 6)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inTenant := seed % 2
			s := newPuzzle(t, private, public, inTenant == 1)
			steps := s.steps()
			if seed >= 2 {
				steps = s.shuffled(rand.New(rand.NewPCG(seed, 0)))
			}
			var messages []string
			for _, step := range steps {
				messages = append(messages, step.name)
				step.do()
			}
			var got string
			testkit.Eventually(t, limit, func() (err error) {
				if err := s.works(); err != nil {
					return fmt.Errorf("%w after %s", err, strings.Join(messages, ", "))
				}
				if got, err = s.dump(); err == nil && seed >= 2 {
					if diff := cmp.Diff(want[inTenant], got); diff != "" {
						err = fmt.Errorf("%s after %s", diff, strings.Join(messages, ", "))
					}
				}
				return err
			})
			want[inTenant] = got
		})
	}
}

// puzzle is a cluster with two peers: rome, whose objects are in a namespace as default is one, and milan, whose are in its tenant namespace,
// and which has a second Configuration that does not count. The gateway to one of them is a server.
type puzzle struct {
	*cluster
	elsewhere, rome, milan, node string
	pieces                       []piece
}

// piece is an object that somebody makes, with the status that others give it.
type piece struct {
	client.Object
	status func(client.Object)
}

func newPuzzle(t *testing.T, private, public []byte, inTenant bool) *puzzle {
	t.Helper()
	s := &puzzle{cluster: installed(t), rome: testkit.UniqueID(), node: testkit.UniqueID()}
	s.elsewhere, s.milan = testkit.Namespace(t, s.c, "default", nil), s.rome+"-2"
	s.tenant(s.ns, s.milan)
	testkit.ProcessRole(t, s.c, names.RoleTenantSecrets, "controller-manager", "tenant")
	helper := &testEnv{T: t, c: s.c, liqo: s.installation}
	servers, clients := helper.serverTemplate(), helper.clientTemplate()
	server, peer := helper.server("rome", servers), helper.client("milan", clients)
	if inTenant {
		server.Name, peer.Name = peer.Name, server.Name
	}
	for _, gw := range []struct {
		client.Object
		secret *corev1.LocalObjectReference
	}{{server, &server.Spec.SecretRef}, {peer, &peer.Spec.SecretRef}} {
		ns, id := s.elsewhere, s.rome
		if gw.GetName() == "milan" {
			ns, id = s.ns, s.milan
		}
		meta := func(name string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{names.RemoteClusterID: id}}
		}
		gw.SetNamespace(ns)
		gw.SetLabels(meta("").Labels)
		gw.secret.Name = gw.GetName() + "-keys"
		secret := &corev1.Secret{ObjectMeta: meta(gw.secret.Name), Data: map[string][]byte{names.PrivateKeyKey: private, names.PublicKeyKey: public}}
		if gw.Object == client.Object(server) {
			secret.Labels = nil
		}
		pod := &corev1.Pod{ObjectMeta: meta(gw.GetName()), Spec: corev1.PodSpec{NodeName: s.node, Containers: []corev1.Container{{Name: "gateway", Image: "liqo"}}}}
		pod.Labels[names.NetworkingComponent], pod.Labels[names.GatewayActive] = names.ComponentGateway, "true"
		pod.Labels[names.GatewayName], pod.Labels[names.GatewayNamespace] = names.GatewayLabel(gw.GetName()), ns
		s.pieces = append(s.pieces,
			piece{configuration(ns, gw.GetName(), id, cidrs("10.200.0.0/16"), cidrs("10.70.0.0/16")), nil},
			piece{secret, nil}, piece{gw.Object, nil},
			piece{&networkingv1beta1.PublicKey{ObjectMeta: meta(gw.GetName()), Spec: networkingv1beta1.PublicKeySpec{PublicKey: public}}, nil},
			piece{pod, func(obj client.Object) {
				pod := obj.(*corev1.Pod)
				pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, "10.200.1.9", []corev1.PodIP{{IP: "10.200.1.9"}}
			}},
		)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}
	s.pieces = append(s.pieces, piece{servers, nil}, piece{clients, nil},
		piece{configuration(s.elsewhere, "stray", s.milan, cidrs("10.200.0.0/16"), cidrs("10.70.0.0/16")), nil},
		piece{node, func(obj client.Object) {
			node := obj.(*corev1.Node)
			node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}})
	t.Cleanup(func() { // the next one must not look after them
		for _, p := range s.pieces {
			_ = s.c.Client.Delete(context.Background(), p.Object, client.GracePeriodSeconds(0))
		}
	})
	return s
}

// start lets all controllers of the network work.
func (s *puzzle) start() {
	s.Helper()
	var of []netip.Prefix
	for _, p := range pools {
		of = append(of, netip.MustParsePrefix(p))
	}
	s.stop = testkit.Manager(s.T, s.c.Config, kube.ManagerOptions{Name: "network"}, func(mgr ctrl.Manager) error {
		return errors.Join(
			ipam.Setup(mgr, ipam.Options{LiqoNamespace: s.installation, Pools: of}),
			SetupConfigurations(mgr, ConfigurationOptions{LiqoNamespace: s.installation}),
			SetupGateways(mgr, GatewayOptions{LiqoNamespace: s.installation}),
		)
	})
}

// step is one thing that a story does.
type step struct {
	name string
	do   func()
}

// steps make each piece once, after the controllers.
func (s *puzzle) steps() []step {
	out := []step{{"start", s.start}}
	for _, p := range s.pieces {
		out = append(out, s.make(p))
	}
	return out
}

// shuffled are the steps in a random order. Some pieces are made, deleted, and made again: with others in between, or when all is at work.
func (s *puzzle) shuffled(random *rand.Rand) []step {
	out := s.steps()
	random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	const some = 4
	again := random.Perm(len(s.pieces))[:some]
	if random.IntN(2) == 0 {
		out = append(out, step{"wait", func() { testkit.Eventually(s.T, limit, s.works) }})
		for _, i := range again {
			out = append(out, s.unmake(s.pieces[i]))
		}
		for _, i := range random.Perm(some) {
			out = append(out, s.make(s.pieces[again[i]]))
		}
		return out
	}
	for _, i := range again {
		p := s.pieces[i]
		made := slices.IndexFunc(out, func(one step) bool { return one.name == s.make(p).name })
		gone := made + 1 + random.IntN(len(out)-made)
		out = slices.Insert(out, gone, s.unmake(p))
		out = slices.Insert(out, gone+1+random.IntN(len(out)-gone), s.make(p))
	}
	return out
}

func (s *puzzle) make(p piece) step {
	return step{fmt.Sprintf("make %s %s", kindOf(p.Object).Kind, s.short(p.GetNamespace()+"/"+p.GetName())), func() {
		s.Helper()
		obj := p.DeepCopyObject().(client.Object)
		testkit.Create(s.T, s.c.Client, obj)
		if p.status != nil {
			testkit.UpdateStatus(s.T, s.c.Client, obj, p.status)
		}
	}}
}

func (s *puzzle) unmake(p piece) step {
	one := s.make(p)
	return step{"un" + one.name, func() {
		s.Helper()
		obj := p.DeepCopyObject().(client.Object)
		if err := s.c.Client.Delete(s.Context(), obj, client.GracePeriodSeconds(0)); err != nil {
			s.Fatal(err)
		}
		testkit.Eventually(s.T, limit, func() error {
			if err := s.c.Client.Get(s.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
				return fmt.Errorf("to %s: %v, finalizers %v", "un"+one.name, err, obj.GetFinalizers())
			}
			return nil
		})
	}}
}

// works tells what is not done yet.
func (s *puzzle) works() error {
	for _, p := range s.pieces {
		obj := p.DeepCopyObject().(client.Object)
		if err := s.c.Client.Get(s.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		var conditions []metav1.Condition
		kind, reason := networkingv1beta1.ConditionGatewayReady, reasonReady
		switch o := obj.(type) {
		case *networkingv1beta1.Configuration:
			conditions, kind, reason = o.Status.Conditions, networkingv1beta1.ConditionNetworkCIDRsConfigured, ReasonConfigured
			if o.Name == "stray" {
				reason = ReasonSecond
			} else if o.Spec.Local == nil {
				return fmt.Errorf("the Configuration %s has no networks of this cluster", o.Name)
			}
		case *networkingv1beta1.GatewayServer, *networkingv1beta1.GatewayClient:
			conditions = *gatewayOf(o).conditions
		default:
			continue
		}
		if c := apimeta.FindStatusCondition(conditions, kind); c == nil || c.Reason != reason || c.ObservedGeneration != obj.GetGeneration() {
			return fmt.Errorf("the condition of %s is %+v, want %s", obj.GetName(), c, reason)
		}
	}
	for _, ns := range []string{s.ns, s.elsewhere} {
		one := *s.cluster
		one.ns = ns
		var ips ipamv1alpha1.IPList
		if err := errors.Join(one.settled(), s.c.Client.List(s.Context(), &ips, client.InNamespace(ns))); err != nil || len(ips.Items) != 1 {
			return fmt.Errorf("in %s there are %d IPs, want 1 (%w)", s.short(ns), len(ips.Items), err)
		}
	}
	readers := readersBinding()
	if err := s.c.Client.Get(s.Context(), client.ObjectKeyFromObject(readers), readers); err != nil || len(readers.Subjects) != 2 {
		return fmt.Errorf("%v may read, want 2 (%w)", readers.Subjects, err)
	}
	return nil
}

// short has names of namespaces that are the same in each puzzle.
func (s *puzzle) short(text string) string {
	return strings.NewReplacer(s.ns, "tenant", s.elsewhere, "default", s.installation, "liqo", s.milan, "MILAN", s.rome, "ROME", s.node, "NODE").Replace(text)
}

// dump is all that there is of both peers, but for what differs each time: who is granted which prefix and port, UIDs and times.
func (s *puzzle) dump() (string, error) {
	var texts, granted []string
	for _, kind := range []schema.GroupVersionKind{
		kindOf(&networkingv1beta1.Configuration{}), kindOf(&networkingv1beta1.PublicKey{}), kindOf(&networkingv1beta1.GatewayServer{}), kindOf(&networkingv1beta1.GatewayClient{}),
		kindOf(&networkingv1beta1.WgGatewayServer{}), kindOf(&networkingv1beta1.WgGatewayClient{}), kindOf(&ipamv1alpha1.Network{}), kindOf(&ipamv1alpha1.IP{}),
		{Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "Service"}, {Version: "v1", Kind: "ServiceAccount"}, {Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := s.c.Client.List(s.Context(), list); err != nil {
			return "", err
		}
		for _, o := range list.Items {
			id := kind.Kind + " " + o.GetName()
			if ns := o.GetNamespace(); ns != s.ns && ns != s.elsewhere && id != "ClusterRoleBinding "+readersBinding().Name {
				continue
			}
			granted = append(granted, string(o.GetUID()), "UID of "+id)
			switch at, _, _ := unstructured.NestedString(o.Object, "status", "ip"); kind.Kind {
			case "Configuration":
				for _, of := range []string{"pod", "external"} {
					for _, cidr := range first(unstructured.NestedStringSlice(o.Object, "status", "remote", "cidr", of)) {
						address, _, _ := strings.Cut(cidr, "/")
						granted = append(granted, cidr, of+" of "+id, address, "first of "+of+" of "+id)
					}
				}
			case "IP":
				granted = append(granted, at, "alias of "+id)
			case "Secret":
				o.SetLabels(nil) // are seen to each minute
			case "Service":
				ports, _, _ := unstructured.NestedSlice(o.Object, "spec", "ports")
				for _, p := range ports {
					granted = append(granted, fmt.Sprint(p.(map[string]any)["nodePort"]), "port of "+id)
				}
				for _, field := range []string{"clusterIP", "clusterIPs"} {
					unstructured.RemoveNestedField(o.Object, "spec", field)
				}
			}
			for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "annotations"} {
				unstructured.RemoveNestedField(o.Object, "metadata", field)
			}
			if conditions, ok, _ := unstructured.NestedSlice(o.Object, "status", "conditions"); ok {
				for _, c := range conditions {
					delete(c.(map[string]any), "lastTransitionTime")
					delete(c.(map[string]any), "observedGeneration")
				}
				_ = unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions")
			}
			text, err := yaml.Marshal(o.Object)
			if err != nil {
				return "", err
			}
			texts = append(texts, string(text))
		}
	}
	for i := len(granted) - 2; i >= 0; i -= 2 { // nothing is nothing of anybody
		if granted[i] == "" {
			granted = slices.Delete(granted, i, i+2)
		}
	}
	for i := range texts {
		texts[i] = s.short(strings.NewReplacer(granted...).Replace(texts[i]))
	}
	slices.Sort(texts)
	return strings.Join(texts, "---\n"), nil
}

func first[T any](v T, _ bool, _ error) T { return v }
