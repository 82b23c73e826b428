// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package attacks plays each party of a peering against the others on two real clusters, with the credentials that the party has there: a
// consumer with the certificates of its tenant, a provider with what it can write and read of its own cluster, a virtual kubelet with its
// ServiceAccount, users with theirs. Each attack has to be refused, or to have no effect, and its legitimate form has to pass: where that
// does not, the attack proves nothing. LIQO_E2E_KUBECONFIGS names the clusters, the consumer first; they stay peered.
package attacks

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

// Namespaces of the consumer. Each has a Secret called canary.
const (
	shop      = "attacks-shop"      // offloaded to the provider
	payroll   = "attacks-payroll"   // offloaded to no provider
	elsewhere = "attacks-elsewhere" // offloaded to another provider
)

// Namespaces of the provider.
const (
	staff       = "attacks-staff"    // of its own users
	otherTenant = "attacks-other"    // the tenant namespace of another consumer
	otherShop   = "attacks-shop-two" // the remote namespace of that one
)

// patience is how long an effect may take: a test asserts that it happens, not how fast.
const patience = 2 * time.Minute

var (
	consumer, provider *clusters.Cluster
	// Tenant namespaces, and the remote namespace of shop.
	consumerTenant, providerTenant, remoteShop string
	// slice and controlPlane are the consumer at the provider, with the certificate of its ResourceSlice and with that of its control plane.
	slice, controlPlane attacker
	// kubelet is the virtual kubelet in the consumer.
	kubelet attacker

	//go:embed testdata/consumer.yaml
	consumerYAML string
	//go:embed testdata/pods.yaml
	podsYAML string
	//go:embed testdata/provider.yaml
	providerYAML string
)

func TestMain(m *testing.M) {
	ctx := context.Background()
	if err := setUp(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "attacks:", err)
		os.Exit(1)
	}
	os.Exit(story.Run(m, consumer, provider))
}

func setUp(ctx context.Context) error {
	both, err := clusters.Given("cl-consumer", "cl-provider")
	if err != nil {
		return err
	}
	consumer, provider = both[0], both[1]
	consumerTenant, providerTenant = names.DefaultTenantNamespace(provider.ID), names.DefaultTenantNamespace(consumer.ID)
	remoteShop = names.DefaultTwin(shop, consumer.ID)
	replicas := func() error {
		return provider.Install("--reset-values", "--set", "networking.gatewayTemplates.replicas=2")
	}
	if err := runAtOnce(func() error { return consumer.Install("--reset-values") }, replicas); err != nil {
		return err
	}
	return runAtOnce(
		func() error { return deployConsumer(ctx) },
		func() error { return deployOtherTenant(ctx) },
	)
}

// runAtOnce runs functions at the same time.
func runAtOnce(do ...func() error) error {
	errs := make([]error, len(do))
	var all sync.WaitGroup
	for i := range do {
		all.Go(func() { errs[i] = do[i]() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// deployConsumer peers the clusters and waits until a pod of the consumer runs in the provider.
func deployConsumer(ctx context.Context) error {
	if _, err := consumer.Liqoctl("peer", "--remote-kubeconfig", provider.Kubeconfig, "--gw-server-service-type", "NodePort", "--cpu", "4", "--memory", "4Gi"); err != nil {
		return err
	}
	if _, err := consumer.Kubectl(consumerYAML, "apply", "-f", "-"); err != nil {
		return err
	}
	if _, err := consumer.Kubectl("", "wait", "namespaceoffloading/offloading", "-n", shop, "--for=jsonpath={.status.offloadingPhase}=Ready", "--timeout=2m"); err != nil {
		return err
	}
	if _, err := consumer.Kubectl(podsYAML, "apply", "-f", "-"); err != nil {
		return err
	}
	var err error
	if slice, err = tenantParty(ctx, "ResourceSlice"); err != nil {
		return err
	}
	if controlPlane, err = tenantParty(ctx, "ControlPlane"); err != nil {
		return err
	}
	if kubelet, err = accountParty(ctx, consumer, consumerTenant, provider.ID); err != nil {
		return err
	}
	for _, pod := range []string{"pod/remote", "pod/cloudy"} {
		if _, err := consumer.Kubectl("", "wait", pod, "-n", shop, "--for=condition=Ready", "--timeout=2m"); err != nil {
			return err
		}
	}
	return nil
}

// deployOtherTenant has another consumer at the provider, which has no cluster of its own, but a tenant namespace, credentials and a
// remote namespace.
func deployOtherTenant(ctx context.Context) error {
	if _, err := provider.Kubectl(providerYAML, "apply", "-f", "-"); err != nil {
		return err
	}
	other, err := userParty(ctx, "attacks-other-user")
	if err != nil {
		return err
	}
	wanted := namespaceMap(otherTenant, "cl-other", map[string]string{"shop": otherShop})
	if err := story.Retry(ctx, patience, func(ctx context.Context) error { // until the rights are known
		return client.IgnoreAlreadyExists(other.Create(ctx, wanted.DeepCopy()))
	}); err != nil {
		return fmt.Errorf("asking for a namespace of another consumer: %w", err)
	}
	return story.Retry(ctx, patience, func(ctx context.Context) error {
		if err := provider.Client.Get(ctx, client.ObjectKey{Name: otherShop}, &corev1.Namespace{}); err != nil {
			return err
		}
		return client.IgnoreAlreadyExists(provider.Client.Create(ctx, secret(otherShop, "canary")))
	})
}

// attacker is a client with its credentials.
type attacker struct {
	client.Client
	config *rest.Config
}

func newAttacker(of *clusters.Cluster, config *rest.Config) (attacker, error) {
	return newAttackerWith(of, config, nil)
}

// newAttackerWith returns an attacker that does not use discovery, which its credentials may not allow.
func newAttackerWith(of *clusters.Cluster, config *rest.Config, mapper apimeta.RESTMapper) (attacker, error) {
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: of.Client.Scheme(), Mapper: mapper})
	return attacker{c, config}, err
}
