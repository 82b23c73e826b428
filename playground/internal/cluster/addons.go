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

// addons are the templates of the objects of a new cluster.
var addons = template.Must(template.ParseFS(addonFiles, "addons/*.yaml"))

type addonValues struct {
	spec.Cluster
	CoreDNS, MetricsServer, LocalPathProvisioner string
	CNIVersion, Version, Endpoint, CA            string
	Pods, Services                               string
}

// Addons returns the objects that kubeadm and the add-ons create. Nodes are first, because the scheduler waits for them.
func Addons(c spec.Cluster, ca []byte) (string, error) {
	values := addonValues{
		Cluster: c, CoreDNS: spec.CoreDNS, MetricsServer: spec.MetricsServer, LocalPathProvisioner: spec.LocalPathProvisioner, CNIVersion: c.CNI.Version(), Version: c.Release(),
		Endpoint: strings.TrimPrefix(c.Server(), "https://"), CA: base64.StdEncoding.EncodeToString(ca),
		Pods: joinStrings(c.PodCIDRs()), Services: joinStrings(c.ServiceCIDRs()),
	}
	var out bytes.Buffer
	names := []string{"nodes", "coredns", "kubeadm"}
	if c.CNI.RunsInPods() {
		names = append(names, string(c.CNI.Project()))
	}
	for i, name := range append(names, c.Addons...) {
		if i > 0 {
			out.WriteString("---\n")
		}
		if err := addons.ExecuteTemplate(&out, name+".yaml", values); err != nil {
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
		if err := applyObject(ctx, client, &obj); err != nil {
			return err
		}
	}
}

func applyObject(ctx context.Context, client dynamic.Interface, obj *unstructured.Unstructured) error {
	api := client.Resource(resourceOf(obj.GroupVersionKind())).Namespace(obj.GetNamespace())
	_, err := api.Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "playground", Force: true})
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	return nil
}

// resourceOf returns the resource of a kind. Other kinds of addons have regular plurals.
func resourceOf(k schema.GroupVersionKind) schema.GroupVersionResource {
	if k.Kind == "StorageClass" {
		return k.GroupVersion().WithResource("storageclasses")
	}
	return k.GroupVersion().WithResource(strings.ToLower(k.Kind) + "s")
}
