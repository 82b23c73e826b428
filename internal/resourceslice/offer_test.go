// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
)

func TestStorageIsOffered(t *testing.T) {
	c := cluster(t)
	runRemote(t, c, RemoteOptions{Storage: true, RealStorageClass: "slow"})
	p := newConsumer(t, c)
	p.admit(t, c)
	slice := p.slice(t, "stored")
	testkit.Create(t, p.client, slice)
	wait(t, c.Client, slice, isGranted)
	for _, name := range []string{"slow", "fast"} {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/disk"}
		testkit.Create(t, c.Client, class)
		t.Cleanup(func() { _ = c.Client.Delete(context.Background(), class) })
	}
	wait(t, c.Client, slice, func(s *authv1beta1.ResourceSlice) error {
		offered := []liqov1beta1.StorageType{{StorageClassName: "fast"}, {StorageClassName: "slow", Default: true}}
		if diff := cmp.Diff(offered, s.Status.StorageClasses); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

func TestStorageOffer(t *testing.T) {
	class := func(name, isDefault string) storagev1.StorageClass {
		return storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{defaultStorageClass: isDefault}}}
	}
	own := class("of-liqo", "true")
	own.Provisioner = names.StorageProvider
	classes := []storagev1.StorageClass{class("b", "true"), own, class("a", "false")}
	for name, test := range map[string]struct {
		configured string
		want       []liqov1beta1.StorageType
	}{
		"the cluster's default, and not our own class": {want: []liqov1beta1.StorageType{{StorageClassName: "a"}, {StorageClassName: "b", Default: true}}},
		"the configured one":                           {configured: "a", want: []liqov1beta1.StorageType{{StorageClassName: "a", Default: true}, {StorageClassName: "b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, storageOffer(classes, test.configured)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlatformOfNodes(t *testing.T) {
	node := func(arch, os, kind string) corev1.Node {
		labels := map[string]string{corev1.LabelArchStable: arch, corev1.LabelOSStable: os, names.NodeType: kind}
		maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	}
	for rule, tc := range map[string]struct {
		nodes []corev1.Node
		want  map[string]string
	}{
		"no node says nothing":                  {nil, map[string]string{}},
		"all alike":                             {[]corev1.Node{node("arm64", "linux", ""), node("arm64", "linux", "")}, map[string]string{corev1.LabelArchStable: "arm64", corev1.LabelOSStable: "linux"}},
		"two architectures say nothing of that": {[]corev1.Node{node("arm64", "linux", ""), node("amd64", "linux", "")}, map[string]string{corev1.LabelOSStable: "linux"}},
		"a node that says nothing spoils it":    {[]corev1.Node{node("arm64", "linux", ""), node("", "linux", "")}, map[string]string{corev1.LabelOSStable: "linux"}},
		"nodes of other clusters do not count":  {[]corev1.Node{node("arm64", "linux", ""), node("amd64", "windows", names.NodeTypeVirtualNode)}, map[string]string{corev1.LabelArchStable: "arm64", corev1.LabelOSStable: "linux"}},
	} {
		t.Run(rule, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, commonPlatformLabels(tc.nodes)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFeaturesOfNodes(t *testing.T) {
	node := func(kind string, features ...string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{names.NodeType: kind}}, Status: corev1.NodeStatus{DeclaredFeatures: features}}
	}
	for rule, tc := range map[string]struct {
		nodes []corev1.Node
		want  string
	}{
		"no node":                 {nil, "[]"},
		"one node":                {[]corev1.Node{node("", "A", "B")}, "[A B]"},
		"those of all nodes":      {[]corev1.Node{node("", "A", "B", "D"), node("", "B", "C", "D")}, "[B D]"},
		"an older node":           {[]corev1.Node{node("", "A"), node("")}, "[]"},
		"nodes of other clusters": {[]corev1.Node{node(names.NodeTypeVirtualNode), node("", "A")}, "[A]"},
	} {
		t.Run(rule, func(t *testing.T) {
			if got := fmt.Sprint(commonFeatures(tc.nodes)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestOldestKubelet(t *testing.T) {
	for versions, want := range map[string]string{
		"": "", "v1.37.2": "37", "v1.37.2 v1.36.0-gke.1 v1.38.0": "36", "unknown v1.35.4+k3s1": "35", "virtual:v1.20.0 v1.37.0": "37", "v1.9.0 v1.37.0": "9",
	} {
		var nodes []corev1.Node
		for text := range strings.FieldsSeq(versions) {
			n := corev1.Node{}
			if of, ok := strings.CutPrefix(text, "virtual:"); ok {
				n.Labels, text = map[string]string{names.NodeType: names.NodeTypeVirtualNode}, of
			}
			n.Status.NodeInfo.KubeletVersion = text
			nodes = append(nodes, n)
		}
		if got := oldestKubelet(nodes); got != want {
			t.Errorf("%q: got %q, want %q", versions, got, want)
		}
	}
}

// The features and the version of a node arrive after the node.
func TestFeaturesOffer(t *testing.T) {
	c := cluster(t)
	runRemote(t, c, RemoteOptions{})
	p := newConsumer(t, c)
	p.admit(t, c)
	slice := p.slice(t, "features")
	testkit.Create(t, p.client, slice)
	wait(t, c.Client, slice, isGranted)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "features"}}
	testkit.Create(t, c.Client, node)
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), node) })
	node.Status.DeclaredFeatures, node.Status.NodeInfo.KubeletVersion = []string{"ExtendWebSocketsToKubelet", "RestartAllContainers"}, "v1.36.3-eks-1"
	if err := c.Client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	wait(t, c.Client, slice, func(s *authv1beta1.ResourceSlice) error {
		if got := fmt.Sprint(s.Status.DeclaredFeatures); got != "[RestartAllContainers]" {
			return fmt.Errorf("declared features are %s", got)
		}
		if got := s.Status.NodeLabels[names.KubernetesMinor]; got != "36" {
			return fmt.Errorf("the version is %q", got)
		}
		return nil
	})
}

// The labels that the administrator gave win, and a node that comes later counts.
func TestPlatformOffer(t *testing.T) {
	c := cluster(t)
	runRemote(t, c, RemoteOptions{Defaults: policy.SliceDefaults{NodeLabels: map[string]string{corev1.LabelOSStable: "windows"}}})
	p := newConsumer(t, c)
	p.admit(t, c)
	slice := p.slice(t, "platform")
	testkit.Create(t, p.client, slice)
	wait(t, c.Client, slice, isGranted)
	labelled := func(want map[string]string) {
		t.Helper()
		wait(t, c.Client, slice, func(s *authv1beta1.ResourceSlice) error {
			if diff := cmp.Diff(want, s.Status.NodeLabels); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
	}
	for _, arch := range []string{"arm64", "amd64"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "platform-" + arch, Labels: map[string]string{corev1.LabelArchStable: arch, corev1.LabelOSStable: "linux"}}}
		testkit.Create(t, c.Client, node)
		t.Cleanup(func() { _ = c.Client.Delete(context.Background(), node) })
		if arch == "arm64" {
			labelled(map[string]string{corev1.LabelArchStable: "arm64", corev1.LabelOSStable: "windows"})
		} else {
			labelled(map[string]string{corev1.LabelOSStable: "windows"})
		}
	}
}
