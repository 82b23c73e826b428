// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

var kubeletOptions = VirtualNodeOptions{ClusterID: "home", LiqoNamespace: "liqo", Image: "liqo:installed", PodCIDRs: []string{"10.1.0.0/16"}}

func options() *offv1beta1.VkOptionsTemplate {
	return &offv1beta1.VkOptionsTemplate{Spec: offv1beta1.VkOptionsTemplateSpec{
		CreateNode: true, ContainerImage: "liqo:options",
		ReflectorsConfig: map[string]offv1beta1.ReflectorConfig{
			"pod": {NumWorkers: 10, Type: offv1beta1.DenyListReflectionType}, "secret": {NumWorkers: 3, Type: offv1beta1.DenyListReflectionType},
		},
		ExtraLabels: map[string]string{"team": "a"}, ExtraArgs: []string{"--node-ping-interval=5s"},
		NodeExtraLabels: map[string]string{"b": "2", "a": "1"},
	}}
}

func TestDeployment(t *testing.T) {
	vn := vnode("milan-gold", "milan", "")
	vn.Spec.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "kubeconfig-gold"}
	vn.Spec.StorageClasses = []liqov1beta1.StorageType{{StorageClassName: "slow"}, {StorageClassName: "fast", Default: true}}
	d := newDeployment(&vn, options(), kubeletOptions)

	want := []string{
		"--foreign-cluster-id=milan", "--nodename=milan-gold", "--node-ip=$(POD_IP)", "--tenant-namespace=tenant",
		"--liqo-namespace=liqo", "--home-cluster-id=home", "--local-podcidr=10.1.0.0/16",
		"--enable-storage", "--remote-real-storage-class-name=fast",
		"--pod-reflection-workers=10", "--secret-reflection-workers=3", "--secret-reflection-type=DenyList",
		"--node-extra-labels=a=1,b=2", "--node-ping-interval=5s", "--metrics-enabled=false",
		"--foreign-kubeconfig-secret-name=kubeconfig-gold", "--create-node=true", "--node-check-network=true",
	}
	c := d.Spec.Template.Spec.Containers[0]
	if diff := cmp.Diff(want, c.Args); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"/usr/bin/virtual-kubelet"}, c.Command); diff != "" {
		t.Error(diff)
	}
	if d.Name != "vk-milan-gold" || d.Namespace != "tenant" || c.Image != "liqo:options" || *d.Spec.Replicas != 1 {
		t.Errorf("name %s/%s, image %s, replicas %d", d.Namespace, d.Name, c.Image, *d.Spec.Replicas)
	}
	if diff := cmp.Diff(map[string]string{
		"team": "a", names.AppManagedBy: "liqo", names.OffloadingComponent: "virtual-kubelet", names.RemoteClusterID: "milan", names.VirtualNode: "milan-gold",
	}, d.Spec.Template.Labels); diff != "" {
		t.Error(diff)
	}
	if _, changes := d.Spec.Selector.MatchLabels["team"]; changes {
		t.Error("the selector, which is immutable, holds a label that may change")
	}
}

// The virtual kubelet reads what was written, whatever is in it.
func TestDeploymentNodeMetadata(t *testing.T) {
	for _, want := range []map[string]string{
		{"a": "1"}, {"a": "1", "b": "2"}, {"a": "x,y"}, {"a": "x,y", "b": "z"}, {"a": "x=1,y=2"}, {"a": ""},
		{"a": `"quoted"`}, {"a": `{"k":"v","l":"w"}`}, {"a": `say "x"`, "b": "two\nlines, and more"}, {"a": " spaced "},
	} {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		got := flags.StringToString("node-extra-annotations", nil, "")
		args := mapFlags("--node-extra-annotations=", want)
		if err := flags.Parse(args); err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		if diff := cmp.Diff(want, *got); diff != "" {
			t.Errorf("%q: %s", args, diff)
		}
	}
}

func TestDeploymentOverrides(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*offv1beta1.VirtualNode, *offv1beta1.VkOptionsTemplate)
		want   string // is among the arguments, or after ! is not
	}{
		"a resource on request": {
			change: func(_ *offv1beta1.VirtualNode, o *offv1beta1.VkOptionsTemplate) {
				o.Spec.ReflectorsConfig["widgets.v1.example.com"] = offv1beta1.ReflectorConfig{NumWorkers: 2, Type: offv1beta1.AllowListReflectionType}
			}, want: "--resource-reflection=widgets.v1.example.com:2:AllowList",
		},
		"the VirtualNode decides about its Node": {
			change: func(vn *offv1beta1.VirtualNode, _ *offv1beta1.VkOptionsTemplate) { vn.Spec.CreateNode = new(false) }, want: "--create-node=false",
		},
		"and about the network check": {
			change: func(vn *offv1beta1.VirtualNode, _ *offv1beta1.VkOptionsTemplate) {
				vn.Spec.DisableNetworkCheck = new(true)
			}, want: "--node-check-network=false",
		},
		"metrics address only if enabled": {
			change: func(_ *offv1beta1.VirtualNode, o *offv1beta1.VkOptionsTemplate) { o.Spec.MetricsEnabled = true }, want: "--metrics-address=:5872",
		},
		"what the options keep at home": {
			change: func(_ *offv1beta1.VirtualNode, o *offv1beta1.VkOptionsTemplate) {
				o.Spec.LabelsNotReflected = []string{"team", "cost-centre"}
			}, want: "--labels-not-reflected=team,cost-centre",
		},
		"the user replaces an argument": {
			change: func(vn *offv1beta1.VirtualNode, _ *offv1beta1.VkOptionsTemplate) {
				user(vn, "--pod-reflection-workers=50")
			}, want: "--pod-reflection-workers=50",
		},
		"which is then there once": {
			change: func(vn *offv1beta1.VirtualNode, _ *offv1beta1.VkOptionsTemplate) {
				user(vn, "--pod-reflection-workers=50")
			}, want: "!--pod-reflection-workers=10",
		},
		"the user adds an argument without a value": {
			change: func(vn *offv1beta1.VirtualNode, _ *offv1beta1.VkOptionsTemplate) { user(vn, "--disable-ip-reflection") }, want: "--disable-ip-reflection",
		},
		"the user cannot make it another node": {
			change: func(vn *offv1beta1.VirtualNode, _ *offv1beta1.VkOptionsTemplate) { user(vn, "--nodename=other") }, want: "!--nodename=other",
		},
	} {
		t.Run(name, func(t *testing.T) {
			vn, opts := vnode("m", "milan", ""), options()
			tc.change(&vn, opts)
			args := strings.Join(newDeployment(&vn, opts, kubeletOptions).Spec.Template.Spec.Containers[0].Args, "\n") + "\n"
			arg, not := strings.CutPrefix(tc.want, "!")
			if strings.Contains(args, arg+"\n") == not {
				t.Errorf("want %s in\n%s", tc.want, args)
			}
		})
	}
}

func TestReflectedSlices(t *testing.T) {
	extra := func(args ...string) func(*offv1beta1.VirtualNode, *offv1beta1.VkOptionsTemplate) {
		return func(_ *offv1beta1.VirtualNode, o *offv1beta1.VkOptionsTemplate) { o.Spec.ExtraArgs = args }
	}
	reflector := func(kind string, c offv1beta1.ReflectorConfig) func(*offv1beta1.VirtualNode, *offv1beta1.VkOptionsTemplate) {
		return func(_ *offv1beta1.VirtualNode, o *offv1beta1.VkOptionsTemplate) {
			o.Spec.ReflectorsConfig = map[string]offv1beta1.ReflectorConfig{kind: c}
		}
	}
	for name, test := range map[string]struct {
		change func(*offv1beta1.VirtualNode, *offv1beta1.VkOptionsTemplate)
		want   translate.ReflectionType
		copies bool
	}{
		"defaults":          {extra(), translate.DenyList, true},
		"type_of_services":  {reflector("service", offv1beta1.ReflectorConfig{NumWorkers: 3, Type: offv1beta1.AllowListReflectionType}), translate.AllowList, true},
		"no_workers":        {reflector("endpointslice", offv1beta1.ReflectorConfig{}), translate.DenyList, false},
		"no_addresses":      {extra("--disable-ip-reflection"), translate.DenyList, false},
		"extra_argument":    {extra("-v", "2", "--service-reflection-type", "AllowList"), translate.AllowList, true},
		"invalid_arguments": {extra("--endpointslice-reflection-workers=many"), "", false},
		"argument_of_one_node": {func(vn *offv1beta1.VirtualNode, _ *offv1beta1.VkOptionsTemplate) {
			user(vn, "--service-reflection-type=AllowList")
		}, translate.AllowList, true},
	} {
		t.Run(name, func(t *testing.T) {
			vn, opts := vnode("m", "milan", ""), options()
			test.change(&vn, opts)
			if which, copies := reflectedSlices(&vn, opts); which != test.want || copies != test.copies {
				t.Errorf("%s %t, want %s %t", which, copies, test.want, test.copies)
			}
		})
	}
}

func user(vn *offv1beta1.VirtualNode, args ...string) {
	vn.Spec.Template = &offv1beta1.DeploymentTemplate{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"mine": "yes", names.VirtualNode: "other"}},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(2)), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Image: "mine:1", Args: args}},
		}}},
	}
}

func TestDeploymentUserTemplate(t *testing.T) {
	vn := vnode("m", "milan", "")
	user(&vn)
	d := newDeployment(&vn, options(), kubeletOptions)
	if image := d.Spec.Template.Spec.Containers[0].Image; image != "mine:1" || *d.Spec.Replicas != 2 {
		t.Errorf("image %s, replicas %d", image, *d.Spec.Replicas)
	}
	if d.Labels["mine"] != "yes" || d.Labels[names.VirtualNode] != "m" {
		t.Errorf("labels = %v", d.Labels)
	}
}

// What an installation of the original has written into the VirtualNode, and users have exported.
func renderedByTheOriginal(vn *offv1beta1.VirtualNode) {
	user(vn, "--foreign-cluster-id=milan", "--nodename=m", "--node-ip=$(POD_IP)", "--tenant-namespace=liqo-tenant-milan", "--liqo-namespace=liqo",
		"--home-cluster-id=home", "--local-podcidr=10.200.0.0/16", "--enable-storage", "--remote-real-storage-class-name=old",
		"--pod-reflection-workers=3", "--secret-reflection-type=AllowList", "--node-extra-labels=mine=yes", "--enable-apiserver-support=true",
		"--metrics-enabled=false", "--foreign-kubeconfig-secret-name=old", "--create-node=true", "--node-check-network=true", "--remote-pod-cidr=10.60.0.0/16")
	vn.Spec.Template.Spec.Template.Spec.Containers[0].Image = "ghcr.io/liqotech/virtual-kubelet:v1.0.0"
}

func TestDeploymentRenderedTemplate(t *testing.T) {
	vn, opts := vnode("m", "milan", ""), options()
	renderedByTheOriginal(&vn)
	vn.Spec.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "new"}
	vn.Spec.StorageClasses = []liqov1beta1.StorageType{{StorageClassName: "fast"}}
	opts.Spec.Replicas = new(int32(3))
	d := newDeployment(&vn, opts, kubeletOptions)
	c := d.Spec.Template.Spec.Containers[0]
	want := []string{
		"--foreign-cluster-id=milan", "--nodename=m", "--node-ip=$(POD_IP)", "--tenant-namespace=tenant",
		"--liqo-namespace=liqo", "--home-cluster-id=home", "--local-podcidr=10.1.0.0/16",
		"--enable-storage", "--remote-real-storage-class-name=fast",
		"--pod-reflection-workers=10", "--secret-reflection-workers=3", "--secret-reflection-type=DenyList",
		"--node-ping-interval=5s", "--foreign-kubeconfig-secret-name=new", "--create-node=true", "--node-check-network=true",
		"--node-extra-labels=mine=yes", "--enable-apiserver-support=true", "--metrics-enabled=false",
	}
	if diff := cmp.Diff(want, c.Args); diff != "" {
		t.Error(diff)
	}
	if c.Image != "liqo:options" || *d.Spec.Replicas != 3 {
		t.Errorf("image %s, replicas %d", c.Image, *d.Spec.Replicas)
	}
}

func TestDeploymentTemplateWithoutContainers(t *testing.T) {
	vn := vnode("m", "milan", "")
	plain := newDeployment(&vn, options(), kubeletOptions)
	vn.Spec.Template = &offv1beta1.DeploymentTemplate{}
	if diff := cmp.Diff(plain, newDeployment(&vn, options(), kubeletOptions), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func FuzzOverride(f *testing.F) {
	for _, seed := range []string{"", "-", "--", "=", "--enable-storage", "--nodename", "--pod-reflection-workers=", "a=b=c", "--x\n--x=1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		vn := vnode("m", "milan", "")
		user(&vn, strings.Split(text, "\n")...)
		args := newDeployment(&vn, options(), kubeletOptions).Spec.Template.Spec.Containers[0].Args
		for _, flag := range []string{"--nodename=m", "--foreign-cluster-id=milan", "--home-cluster-id=home", "--create-node=true"} {
			name, _, _ := strings.Cut(flag, "=")
			got := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return flagName(arg) != name })
			if !slices.Equal(got, []string{flag}) {
				t.Errorf("%q made it %v", text, got)
			}
		}
	})
}

func TestDeploymentDefaultImage(t *testing.T) {
	vn, opts := vnode("m", "milan", ""), options()
	opts.Spec.ContainerImage = ""
	if image := newDeployment(&vn, opts, kubeletOptions).Spec.Template.Spec.Containers[0].Image; image != "liqo:installed" {
		t.Errorf("image = %s", image)
	}
}

func TestDeploymentPatchHash(t *testing.T) {
	vn := vnode("m", "milan", "")
	hash := func() string {
		return newDeployment(&vn, options(), kubeletOptions).Spec.Template.Annotations[names.OffloadingPatchHash]
	}
	if hash() != "" {
		t.Errorf("hash of no patch = %q", hash())
	}
	vn.Spec.OffloadingPatch = &offv1beta1.OffloadingPatch{NodeSelector: map[string]string{"a": "1"}}
	first := hash()
	vn.Spec.OffloadingPatch.NodeSelector["a"] = "2"
	if first == "" || hash() == first {
		t.Errorf("hashes %q and %q", first, hash())
	}
}
