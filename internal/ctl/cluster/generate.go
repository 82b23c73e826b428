// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Generation holds the common options of the generate commands, which print manifests for another cluster.
type Generation struct {
	Placement
	Output  string
	timeout time.Duration
}

// AddFlags adds the flags of the options to a command.
func (o *Generation) AddFlags(cmd *cobra.Command) {
	OutputFlag(cmd, cmd.Flags(), &o.Output, "yaml", "Print the object as json or yaml")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 2*time.Minute, "How long all of it may take")
}

// PrintGenerated prints an object for another cluster. The object has no namespace unless the user gives one: the namespace of the
// local context means nothing at the other cluster.
func (c *Session) PrintGenerated(o *Generation, obj client.Object) error {
	if o.Namespace != corev1.NamespaceDefault {
		obj.SetNamespace(o.Namespace)
	}
	c.SetCommonMetadata(obj)
	return c.PrintObject(obj, o.Output)
}

// WithTimeout runs a command without arguments within the timeout.
func (o *Generation) WithTimeout(run func(ctx context.Context) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
		defer cancel()
		return run(ctx)
	}
}
