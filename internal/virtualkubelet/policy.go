// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// ResourceReflection configures the reflection of one resource of a kind unknown to Liqo.
type ResourceReflection struct {
	Reflection
	Resource schema.GroupVersionResource
}

// ParseResourceReflection parses resource.version.group:workers:type; the last two are optional, with defaults 3 and
// DenyList.
func ParseResourceReflection(text string) (ResourceReflection, error) {
	parts := strings.Split(text, ":")
	if len(parts) > 3 {
		return ResourceReflection{}, fmt.Errorf("%q is not of the form resource.version.group:workers:type", text)
	}
	resource, _ := schema.ParseResourceArg(parts[0])
	if resource == nil {
		return ResourceReflection{}, fmt.Errorf("%q is not of the form resource.version.group", parts[0])
	}
	out := ResourceReflection{Resource: *resource, Reflection: Reflection{Workers: defaultConfigWorkers}}
	if len(parts) > 1 {
		workers, err := strconv.ParseUint(parts[1], 10, 16)
		if err != nil {
			return ResourceReflection{}, fmt.Errorf("reading the workers of %s: %w", parts[0], err)
		}
		out.Workers = int(workers)
	}
	if len(parts) > 2 {
		out.Type = translate.ReflectionType(parts[2])
	}
	return out, nil
}

// validateReflection refuses options that would copy more than was meant: a misspelled policy, or a guarded kind.
func (o Options) validateReflection() error {
	var errs []error
	check := func(what string, is translate.ReflectionType, among ...translate.ReflectionType) {
		if !slices.Contains(append(among, "", translate.DenyList, translate.AllowList, translate.CustomLiqo), is) {
			errs = append(errs, fmt.Errorf("the reflection type %q of %s does not exist", is, what))
		}
	}
	check("ConfigMaps", o.ConfigMaps.Type, translate.UsedByPods)
	check("Secrets", o.Secrets.Type, translate.UsedByPods)
	check("Ingresses", o.Ingresses.Type)
	check("Services", o.Services.Type)
	check("events", o.Events.Type)
	seen := map[schema.GroupResource]bool{}
	for _, r := range o.Resources {
		check(r.Resource.GroupResource().String(), r.Type)
		errs = append(errs, translate.MayReflect(r.Resource))
		if seen[r.Resource.GroupResource()] {
			errs = append(errs, fmt.Errorf("resource %s is named twice", r.Resource.GroupResource()))
		}
		seen[r.Resource.GroupResource()] = true
	}
	return errors.Join(errs...)
}
