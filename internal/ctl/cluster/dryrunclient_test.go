// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// dryRunTest is what a command does to one namespace that has a ConfigMap "have".
type dryRunTest struct {
	*testing.T
	*DryRunClient
	ns   string
	have *corev1.ConfigMap
}

func (s *dryRunTest) configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name, Labels: map[string]string{"of": "test"}}, Data: map[string]string{"key": value},
	}
}

func (s *dryRunTest) ensure(obj client.Object) error {
	_, err := kube.Ensure(s.Context(), s.DryRunClient, obj)
	return err
}

// seen returns the ConfigMaps that later reads find, by each way to read.
func (s *dryRunTest) seen() (all []string) {
	s.Helper()
	var list corev1.ConfigMapList
	if err := s.List(s.Context(), &list, client.InNamespace(s.ns), client.MatchingLabels{"of": "test"}); err != nil {
		s.Fatal(err)
	}
	for i := range list.Items {
		one := &list.Items[i]
		all = append(all, one.Name+"="+one.Data["key"])
		now := &metav1.PartialObjectMetadata{}
		now.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(one), now); err != nil || now.UID != one.UID {
			s.Errorf("%s is listed and not read: %v", one.Name, err)
		}
		var named corev1.ConfigMapList
		if err := s.List(s.Context(), &named, client.InNamespace(s.ns), client.MatchingFields{"metadata.name": one.Name}); err != nil || len(named.Items) != 1 {
			s.Errorf("%d are called %s: %v", len(named.Items), one.Name, err)
		}
	}
	slices.Sort(all)
	return all
}

func (s *dryRunTest) written() (all []string) {
	for _, w := range s.Writes() {
		line := string(w.Verb) + " " + w.Object.GetKind() + " " + w.Object.GetName()
		if w.Replaces {
			line = "replacing " + line
		}
		all = append(all, line)
	}
	return all
}

func TestDryRun(t *testing.T) {
	c := testkit.Cluster(t)
	for name, tc := range map[string]struct {
		do      func(s *dryRunTest) error
		fails   func(error) bool
		written []string
		seen    []string
	}{
		"create": {
			do:      func(s *dryRunTest) error { return s.Create(s.Context(), s.configMap("new", "1")) },
			written: []string{"create ConfigMap new"}, seen: []string{"have=0", "new=1"},
		},
		"create_twice": {
			do: func(s *dryRunTest) error {
				return errors.Join(s.Create(s.Context(), s.configMap("new", "1")), s.Create(s.Context(), s.configMap("new", "2")))
			},
			fails: apierrors.IsAlreadyExists, written: []string{"create ConfigMap new"}, seen: []string{"have=0", "new=1"},
		},
		"create_existing": {do: func(s *dryRunTest) error { return s.Create(s.Context(), s.configMap("have", "1")) }, fails: apierrors.IsAlreadyExists, seen: []string{"have=0"}},
		"create_invalid":  {do: func(s *dryRunTest) error { return s.Create(s.Context(), s.configMap("No Name", "1")) }, fails: apierrors.IsInvalid, seen: []string{"have=0"}},
		"apply_new": {
			do: func(s *dryRunTest) error {
				return errors.Join(s.ensure(s.configMap("new", "1")), s.ensure(s.configMap("new", "2")), s.ensure(s.configMap("new", "2")))
			},
			written: []string{"create ConfigMap new"}, seen: []string{"have=0", "new=2"},
		},
		"apply_existing": {
			do: func(s *dryRunTest) error {
				return errors.Join(s.ensure(s.configMap("have", "1")), s.ensure(s.configMap("have", "2")))
			},
			written: []string{"update ConfigMap have"}, seen: []string{"have=2"},
		},
		"apply_configuration": {
			do: func(s *dryRunTest) error {
				obj := newEmpty(corev1.SchemeGroupVersion.WithKind("ConfigMap"), client.ObjectKey{Namespace: s.ns, Name: "new"})
				obj.SetLabels(map[string]string{"of": "test"})
				return s.Apply(s.Context(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("test"))
			},
			written: []string{"create ConfigMap new"}, seen: []string{"have=0", "new="},
		},
		"update": {
			do: func(s *dryRunTest) error {
				s.have.Data["key"] = "1"
				if err := s.Update(s.Context(), s.have); err != nil {
					return err
				}
				s.have.Data["key"] = "2"
				return s.Update(s.Context(), s.have)
			},
			written: []string{"update ConfigMap have"}, seen: []string{"have=2"},
		},
		"patch": {
			do: func(s *dryRunTest) error {
				before := s.have.DeepCopy()
				s.have.Data["key"] = "1"
				return s.Patch(s.Context(), s.have, client.MergeFrom(before))
			},
			written: []string{"update ConfigMap have"}, seen: []string{"have=1"},
		},
		"patch_missing": {
			do: func(s *dryRunTest) error {
				return s.Patch(s.Context(), s.configMap("none", "1"), client.MergeFrom(s.configMap("none", "0")))
			},
			fails: apierrors.IsNotFound, seen: []string{"have=0"},
		},
		"patch_new": {
			do: func(s *dryRunTest) error {
				created := s.configMap("new", "1")
				if err := s.Create(s.Context(), created); err != nil {
					return err
				}
				before := created.DeepCopy()
				created.Data["key"] = "2"
				return s.Patch(s.Context(), created, client.MergeFrom(before))
			},
			written: []string{"create ConfigMap new"}, seen: []string{"have=0", "new=2"},
		},
		"delete": {do: func(s *dryRunTest) error { return s.Delete(s.Context(), s.have) }, written: []string{"delete ConfigMap have"}},
		"delete_twice": {
			do: func(s *dryRunTest) error {
				return errors.Join(s.Delete(s.Context(), s.have), s.Delete(s.Context(), s.have))
			},
			fails: apierrors.IsNotFound, written: []string{"delete ConfigMap have"},
		},
		"delete_another": {
			do: func(s *dryRunTest) error {
				return s.Delete(s.Context(), s.have, client.Preconditions{UID: new(s.have.UID + "x")})
			},
			fails: apierrors.IsConflict, seen: []string{"have=0"},
		},
		"delete_dry_run": {do: func(s *dryRunTest) error { return s.Delete(s.Context(), s.have, client.DryRunAll) }, seen: []string{"have=0"}},
		"delete_new": {
			do: func(s *dryRunTest) error {
				return errors.Join(s.Create(s.Context(), s.configMap("new", "1")), s.Delete(s.Context(), s.configMap("new", "")))
			},
			seen: []string{"have=0"},
		},
		"replace": {
			do: func(s *dryRunTest) error {
				return errors.Join(s.Delete(s.Context(), s.have), s.ensure(s.configMap("have", "1")))
			},
			written: []string{"replacing create ConfigMap have"}, seen: []string{"have=1"},
		},
		"replace_namespace": {
			do: func(s *dryRunTest) error {
				ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}
				again := ns.DeepCopy()
				return errors.Join(s.Delete(s.Context(), ns), s.Create(s.Context(), again), s.Create(s.Context(), s.configMap("have", "1")))
			},
			written: []string{"replacing create Namespace "}, seen: []string{"have=1"},
		},
		"new_namespace": {
			do: func(s *dryRunTest) error {
				s.ns += "-new"
				return errors.Join(s.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}), s.ensure(s.configMap("new", "1")), s.ensure(s.configMap("new", "2")))
			},
			written: []string{"create Namespace ", "create ConfigMap new"}, seen: []string{"new=2"},
		},
		"no_namespace": {
			do: func(s *dryRunTest) error {
				s.ns += "-none"
				return s.ensure(s.configMap("new", "1"))
			},
			fails: apierrors.IsNotFound,
		},
		"assigned": {
			do: func(s *dryRunTest) error {
				obj := s.configMap("new", Assigned)
				obj.Namespace = s.ns
				obj.BinaryData = map[string][]byte{"bytes": append([]byte(Assigned), 0, 0)}
				obj.Annotations = map[string]string{"invalid value": "which the API server does not see"}
				return s.ensure(obj)
			},
			written: []string{"create ConfigMap new"}, seen: []string{"have=0", "new=" + Assigned},
		},
		"keep": {
			do: func(s *dryRunTest) error {
				return errors.Join(s.Keep(s.configMap("have", "0")), s.Keep(s.configMap("other", "0")), s.ensure(s.configMap("have", "1")), s.Keep(s.configMap("have", "2")))
			},
			written: []string{"update ConfigMap have", "keep ConfigMap other"}, seen: []string{"have=1"},
		},
		"review": {
			do: func(s *dryRunTest) error {
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"},
				}}
				err := s.Create(s.Context(), review)
				if !review.Status.Allowed {
					s.Error("the review was not answered")
				}
				return err
			},
			seen: []string{"have=0"},
		},
		"custom_resource": {
			do: func(s *dryRunTest) error {
				key := &networkingv1beta1.PublicKey{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "new"}, Spec: networkingv1beta1.PublicKeySpec{PublicKey: []byte("short")}}
				if err := s.ensure(key); err != nil {
					return err
				}
				now := &networkingv1beta1.PublicKey{}
				if err := s.Get(s.Context(), client.ObjectKeyFromObject(key), now); err != nil || string(now.Spec.PublicKey) != "short" || now.UID == "" || now.Generation != 1 {
					s.Errorf("it is read as %+v: %v", now, err)
				}
				return nil
			},
			written: []string{"create PublicKey new"}, seen: []string{"have=0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &dryRunTest{T: t, DryRunClient: NewDryRunClient(c.Client), ns: testkit.Namespace(t, c, "dry-run", nil)}
			s.have = s.configMap("have", "0")
			testkit.Create(t, c.Client, s.have)
			version, ns := s.have.ResourceVersion, s.ns
			switch err := tc.do(s); {
			case tc.fails == nil && err != nil:
				t.Fatal(err)
			case tc.fails != nil && !tc.fails(err):
				t.Errorf("it fails with %v", err)
			}
			written := s.written()
			for i := range written {
				if written[i] == "create Namespace "+s.ns || written[i] == "replacing create Namespace "+s.ns {
					written[i] = written[i][:len(written[i])-len(s.ns)]
				}
			}
			if tc.written != nil && tc.written[0] == "replacing create Namespace " {
				written = written[:1] // then those in it
			}
			if diff := cmp.Diff(tc.written, written) + cmp.Diff(tc.seen, s.seen()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			var all corev1.ConfigMapList
			if err := c.Client.List(t.Context(), &all, client.MatchingLabels{"of": "test"}, client.InNamespace(ns)); err != nil || len(all.Items) != 1 || all.Items[0].ResourceVersion != version {
				t.Errorf("the cluster was changed: %v %+v", err, all.Items)
			}
		})
	}
}

func TestDryRunForbidden(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "dry-run", nil)
	s := &dryRunTest{T: t, DryRunClient: NewDryRunClient(clientOf(t, c.User(t, "looks"))), ns: ns}
	testkit.Allow(t, c, ns, "looks", testkit.Rule("", "configmaps", "get", "list"))
	s.have = s.configMap("have", "0")
	testkit.Create(t, c.Client, s.have)
	for name, err := range map[string]error{
		"create": s.Create(t.Context(), s.configMap("new", "1")), "apply": s.ensure(s.configMap("new", "1")), "delete": s.Delete(t.Context(), s.have.DeepCopy()),
		"update": s.Update(t.Context(), s.have.DeepCopy()),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(s.Writes()) > 0 {
		t.Errorf("recorded are %v", s.written())
	}
}

func clientOf(t *testing.T, cfg *rest.Config) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDryRunSkipsWaits(t *testing.T) {
	c := testkit.Cluster(t)
	dry := NewDryRunClient(c.Client)
	ns := testkit.Namespace(t, c, "dry-run", nil)
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "new"}}
	if err := dry.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	missing := func(context.Context, bool) error { return kube.Pending("it has no data yet") }
	err := kube.WaitForObject(t.Context(), dry, obj, missing)
	if !kube.IsSkipped(err) || err.Error() != "it has no data yet" || kube.IgnoreSkipped(err) != nil {
		t.Errorf("a wait for an object ends with %v", err)
	}
	until := func(answer error) error {
		return kube.WaitUntil(t.Context(), dry, func(context.Context) error { return answer }, kube.WatchOne(&corev1.ConfigMapList{}, client.ObjectKeyFromObject(obj)))
	}
	if err := until(kube.Pending("nothing")); !kube.IsSkipped(err) {
		t.Errorf("a wait ends with %v", err)
	}
	if err := until(errors.New("refused")); err == nil || kube.IgnoreSkipped(err) == nil {
		t.Errorf("an error is taken for a wait: %v", err)
	}
	if err := until(nil); err != nil {
		t.Error(err)
	}
}

func TestRevealAssigned(t *testing.T) {
	key := &networkingv1beta1.PublicKey{Spec: networkingv1beta1.PublicKeySpec{PublicKey: append([]byte(Assigned), 0, 0, 0, 0)}}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(key)
	if err != nil {
		t.Fatal(err)
	}
	got, assigned := RevealAssigned(content)
	if diff := cmp.Diff(map[string]any{"publicKey": Assigned}, got["spec"]); diff != "" || !assigned {
		t.Errorf("%v -want +got:\n%s", assigned, diff)
	}
	if _, assigned := RevealAssigned(map[string]any{"list": []any{"one", int64(2)}}); assigned {
		t.Error("a value of the user is taken for one of a controller")
	}
}
