// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// generation holds the common options of the generate commands, which print manifests for another cluster.
type generation struct {
	placement
	output  string
	timeout time.Duration
}

func (c *cli) newGenerateCommand() *cobra.Command {
	o := &generation{}
	parent := newGroup("generate", "Print objects of this cluster for another cluster", c.generateConfiguration(o), c.generatePublicKey(o),
		c.generateTenant(o), c.generateIdentity(o), c.generatePeeringUser(&o.placement))
	o.placement.addFlags(parent)
	return parent
}

func (o *generation) addFlags(cmd *cobra.Command) {
	outputFlag(cmd, cmd.Flags(), &o.output, "yaml", "Print the object as json or yaml")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 2*time.Minute, "How long all of it may take")
}

// printGenerated prints an object for another cluster. The object has no namespace unless the user gives one: the namespace of the
// local context means nothing at the other cluster.
func (c *cli) printGenerated(o *generation, obj client.Object) error {
	if o.namespace != corev1.NamespaceDefault {
		obj.SetNamespace(o.namespace)
	}
	c.setCommonMetadata(obj)
	return c.printObject(obj, o.output)
}

// withTimeout runs a command without arguments within the timeout.
func (o *generation) withTimeout(run func(ctx context.Context) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
		defer cancel()
		return run(ctx)
	}
}
