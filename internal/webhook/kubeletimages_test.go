// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestKubeletImages(t *testing.T) {
	c := testkit.Cluster(t)
	install(t, c, 1, Options{KubeletImages: []string{"example.com/listed:*"}})
	tenant := testkit.Namespace(t, c, "tenant", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: "provider"})
	withImage := func(name, image string, args ...string) *offv1beta1.VirtualNode {
		vn := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: tenant + name}, Spec: offv1beta1.VirtualNodeSpec{ClusterID: "provider"}}
		vn.Spec.Template = &offv1beta1.DeploymentTemplate{}
		vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: image, Args: args}}
		return vn
	}
	const why = `the image "evil:1" is none that virtual kubelets may run`
	soon(t, func() error {
		return refusedWith(c.Client.Create(t.Context(), withImage("-evil", "evil:1"), client.DryRunAll), why)
	})
	for name, vn := range map[string]*offv1beta1.VirtualNode{
		"ours": withImage("-ours", "liqo:test"), "listed": withImage("-listed", "example.com/listed:2"), "none": withImage("-none", ""),
		"rendered_by_the_original": withImage("-rendered", "evil:1", "--foreign-cluster-id=provider"),
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.Client.Create(t.Context(), vn, client.DryRunAll); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("options_of_a_user", func(t *testing.T) {
		for image, want := range map[string]string{"evil:1": why, "example.com/listed:3": ""} {
			options := &offv1beta1.VkOptionsTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, GenerateName: "options-"}, Spec: offv1beta1.VkOptionsTemplateSpec{ContainerImage: image}}
			testkit.Create(t, c.Client, options)
			vn := withImage("-options", "")
			vn.Spec.VkOptionsTemplateRef = &corev1.ObjectReference{Namespace: tenant, Name: options.Name}
			err := c.Client.Create(t.Context(), vn, client.DryRunAll)
			if want == "" && err != nil || want != "" && refusedWith(err, want) != nil {
				t.Errorf("%s: %v, want %q", image, err, want)
			}
		}
	})
	vn := withImage("-later", "liqo:test")
	if err := c.Client.Create(t.Context(), vn); err != nil {
		t.Fatal(err)
	}
	vn.Spec.Template.Spec.Template.Spec.Containers[0].Image = "evil:1"
	if err := refusedWith(c.Client.Update(t.Context(), vn.DeepCopy(), client.DryRunAll), why); err != nil {
		t.Error("a change:", err)
	}
}
