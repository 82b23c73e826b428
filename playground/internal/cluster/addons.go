// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/template"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"liqo.io/liqo/playground/internal/spec"
)

//go:embed addons/*.yaml
var addonFiles embed.FS

// addons are the templates that a new cluster gets, in order: nodes first, the scheduler waits for them.
var addons = template.Must(template.ParseFS(addonFiles, "addons/*.yaml"))

type addonValues struct {
	spec.Cluster
	CoreDNS, Version string
	Endpoint, CA     string
	Pods, Services   string
}

// Addons renders what kubeadm and its add-ons would have left in the cluster.
func Addons(c spec.Cluster, ca []byte) (string, error) {
	values := addonValues{
		Cluster: c, CoreDNS: spec.CoreDNS, Version: spec.Kubernetes,
		Endpoint: strings.TrimPrefix(c.Server(), "https://"), CA: base64.StdEncoding.EncodeToString(ca),
		Pods: join(c.PodCIDRs()), Services: join(c.ServiceCIDRs()),
	}
	var out bytes.Buffer
	for i, name := range []string{"nodes.yaml", "coredns.yaml", "kubeadm.yaml"} {
		if i > 0 {
			out.WriteString("---\n")
		}
		if err := addons.ExecuteTemplate(&out, name, values); err != nil {
			return "", fmt.Errorf("rendering add-on %s: %w", name, err)
		}
	}
	return out.String(), nil
}

func applyAddons(ctx context.Context, client dynamic.Interface, l layout) error {
	ca, err := os.ReadFile(l.pki.Cert("ca"))
	if err != nil {
		return fmt.Errorf("reading the cluster's CA: %w", err)
	}
	text, err := Addons(l.Cluster, ca)
	if err != nil {
		return err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var obj unstructured.Unstructured
		switch err := decoder.Decode(&obj); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading a rendered add-on: %w", err)
		}
		if err := apply(ctx, client, &obj); err != nil {
			return err
		}
	}
}

func apply(ctx context.Context, client dynamic.Interface, obj *unstructured.Unstructured) error {
	api := client.Resource(resource(obj.GroupVersionKind())).Namespace(obj.GetNamespace())
	_, err := api.Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "playground", Force: true})
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	return nil
}

// resource is the plural of the kinds in addons; all of them are regular.
func resource(k schema.GroupVersionKind) schema.GroupVersionResource {
	return k.GroupVersion().WithResource(strings.ToLower(k.Kind) + "s")
}
