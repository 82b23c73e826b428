// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// crdFolder holds the CRDs of the product, one per file.
const crdFolder = "deploy/chart/crds"

// installCRDs makes every CRD of the chart and waits until they are served.
func installCRDs(cfg *rest.Config) error {
	crds, err := readCRDs()
	if err != nil || len(crds) == 0 {
		return err
	}
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	ctx := context.Background()
	for _, crd := range crds {
		if err := client.IgnoreAlreadyExists(c.Create(ctx, crd)); err != nil {
			return fmt.Errorf("making %s: %w", crd.Name, err)
		}
	}
	served, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}
	return retry(ctx, startLimit, func() error { return errors.Join(allEstablished(ctx, c, crds), allServed(ctx, served, crds)) })
}

// allServed tells whether the API server has learnt of them: it does after they are established.
func allServed(ctx context.Context, c discovery.DiscoveryInterface, crds []*apiextensionsv1.CustomResourceDefinition) error {
	_, known, err := c.ServerGroupsAndResources()
	if err != nil {
		return err
	}
	resources := sets.New[string]()
	for _, group := range known {
		for _, resource := range group.APIResources {
			resources.Insert(group.GroupVersion + "/" + resource.Name)
		}
	}
	for _, crd := range crds {
		for _, version := range crd.Spec.Versions {
			path := crd.Spec.Group + "/" + version.Name + "/" + crd.Spec.Names.Plural
			if !version.Served {
				continue
			}
			if !resources.Has(path) {
				return fmt.Errorf("%s is not discovered", path)
			}
			if err := c.RESTClient().Get().AbsPath("/apis/"+path).Param("limit", "1").Do(ctx).Error(); err != nil {
				return fmt.Errorf("%s is not served: %w", path, err)
			}
		}
	}
	return nil
}

func readCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	folder, err := moduleFile(crdFolder)
	if err != nil {
		return nil, err
	}
	files, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".yaml") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file.Name(), err)
		}
		out = append(out, crd)
	}
	return out, nil
}

func allEstablished(ctx context.Context, c client.Client, crds []*apiextensionsv1.CustomResourceDefinition) error {
	for _, crd := range crds {
		var now apiextensionsv1.CustomResourceDefinition
		if err := c.Get(ctx, client.ObjectKeyFromObject(crd), &now); err != nil {
			return err
		}
		if !established(&now) {
			return fmt.Errorf("%s is not established", crd.Name)
		}
	}
	return nil
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}
