// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/prefix"
	"liqo.io/liqo/test/clusters"
)

const inBandPod = `
apiVersion: v1
kind: Pod
metadata: {name: guest, namespace: in-band}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: guest
    image: docker.io/library/busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "echo is here; exec sleep 100000"]
    resources: {requests: {cpu: 5m, memory: 8Mi}}
`

// throughTunnel has a cluster peer with another one, of which it has that kubeconfig, by the tunnel that is there already. Its pods and nodes have no other way to the API
// server of the provider, and all of it works.
func throughTunnel(t *testing.T, consumer, provider *clusters.Cluster, kubeconfig string) {
	t.Helper()
	its := nodes(t, consumer)
	open := func() {
		for _, n := range its {
			if err := mayAsk(n.Name); err != nil {
				t.Error(err)
			}
		}
	}
	defer open()
	for _, n := range its {
		mayNotAsk(t, n.Name, nodes(t, provider))
	}
	if out, err := consumer.Say("peer", "--remote-kubeconfig", kubeconfig, "--in-band"); err != nil {
		show(t)
		t.Fatal(err, out)
	}
	if out := kubectl(t, consumer, "", "get", "foreigncluster", provider.ID, "-o", "jsonpath={.status.foreignProxyUrl}"); !regexp.MustCompile(`^http://[0-9.]+:8118$`).MatchString(out) {
		t.Errorf("the proxy is %q", out)
	}
	kubectl(t, consumer, "", "create", "namespace", "in-band")
	if out, err := consumer.Say("offload", "namespace", "in-band", "--pod-offloading-strategy", "Remote"); err != nil {
		t.Fatal(err, out)
	}
	kubectl(t, consumer, inBandPod, "apply", "-f", "-")
	usable := func() {
		t.Helper()
		for what, args := range map[string][]string{
			"the logs of a pod in the provider": {"logs", "-n", "in-band", "guest"},
			"a command in it":                   {"exec", "-n", "in-band", "guest", "--", "echo", "is here"},
		} {
			eventually(t, what, func(context.Context) error {
				out, err := consumer.Kubectl("", args...)
				if err == nil && strings.TrimSpace(out) != "is here" {
					err = fmt.Errorf("it says %q", out)
				}
				return err
			})
		}
	}
	usable()
	// Into a range of another size: the consumer sees the proxy at another address.
	present := kubectl(t, provider, "", "get", "network", "-n", "liqo", "external-cidr", "-o", "jsonpath={.spec.cidr}")
	replaceExternalCIDR(t, consumer, provider, "10.120.0.0/14")
	usable()
	newSliceUsesTunnel(t, consumer, provider)
	replaceExternalCIDR(t, consumer, provider, present)
	usable()
	kubectl(t, consumer, "", "delete", "namespace", "--wait=false", "in-band")
}

// replaceExternalCIDR gives the provider another external CIDR, and waits until a consumer that has only the tunnel sees it, and the proxy in it.
func replaceExternalCIDR(t *testing.T, consumer, provider *clusters.Cluster, cidr string) {
	t.Helper()
	start := time.Now()
	network := &ipamv1alpha1.Network{}
	if err := provider.Client.Get(t.Context(), client.ObjectKey{Namespace: "liqo", Name: "external-cidr"}, network); err != nil {
		t.Fatal(err)
	}
	next := &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: network.Namespace, Name: network.Name, Labels: network.Labels, Annotations: network.Annotations},
		Spec:       network.Spec,
	}
	next.Spec.CIDR = networkingv1beta1.CIDR(cidr)
	if err := errors.Join(provider.Client.Delete(t.Context(), network), provider.Client.Create(t.Context(), next)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the consumer to follow the external CIDR "+cidr, func(ctx context.Context) error {
		cfg, foreign := &networkingv1beta1.Configuration{}, &liqov1beta1.ForeignCluster{}
		if err := errors.Join(consumer.Client.Get(ctx, client.ObjectKey{Namespace: "liqo-tenant-" + provider.ID, Name: provider.ID}, cfg),
			consumer.Client.Get(ctx, client.ObjectKey{Name: provider.ID}, foreign)); err != nil {
			return err
		}
		networks, _, errs := prefix.Placed(cfg)
		proxy, err := url.Parse(foreign.Status.ForeignProxyURL)
		if err := errors.Join(append(errs, err)...); err != nil {
			return err
		}
		ip := &ipamv1alpha1.IP{}
		if err := provider.Client.Get(ctx, client.ObjectKey{Namespace: "liqo", Name: "api-server-proxy"}, ip); err != nil {
			return err
		}
		remote, err := netip.ParseAddr(string(ip.Status.IP))
		if err == nil && (len(networks.External) != 1 || networks.External[0].Remote.String() != cidr || prefix.Move(remote, networks.External[0].Local).String() != proxy.Hostname()) {
			err = fmt.Errorf("it sees %v, and the proxy, which is at %s, at %s", networks.External, remote, proxy)
		}
		return err
	})
	t.Logf("external CIDR %s followed after %s", cidr, time.Since(start).Round(100*time.Millisecond))
}

// newSliceUsesTunnel makes a ResourceSlice, for which the provider knows the address of the time of the peering, and waits until its virtual node is
// ready.
func newSliceUsesTunnel(t *testing.T, consumer, provider *clusters.Cluster) {
	t.Helper()
	if out, err := consumer.Say("create", "resourceslice", "later", "--remote-cluster-id", provider.ID, "--cpu", "1", "--memory", "1Gi"); err != nil {
		t.Fatal(err, out)
	}
	eventually(t, "the virtual node of a new ResourceSlice", func(context.Context) error {
		out, err := consumer.Kubectl("", "get", "node", "later", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && out != "True" {
			err = fmt.Errorf("it is ready: %q", out)
		}
		return err
	})
	kubectl(t, consumer, "", "delete", "resourceslices.authentication.liqo.io", "-n", "liqo-tenant-"+provider.ID, "later", "--timeout=3m")
}

// hasGone waits for the end of what throughTunnel made beside the peering.
func hasGone(t *testing.T, consumer *clusters.Cluster) {
	t.Helper()
	eventually(t, "the namespace in-band to go", func(context.Context) error {
		out, err := consumer.Kubectl("", "get", "namespace", "--ignore-not-found", "-o", "name", "in-band")
		if err == nil && out != "" {
			err = fmt.Errorf("%s is there", out)
		}
		return err
	})
}

// mayNotAsk has a node drop each connection that its pods, and itself, begin with nodes of a provider, its API server among them. Answers
// are let through: the other direction has a way of its own.
func mayNotAsk(t *testing.T, node string, provider []corev1.Node) {
	t.Helper()
	var at []string
	for _, n := range provider {
		at = append(at, address(t, n).String())
	}
	drop := fmt.Sprintf("ip daddr { %s } tcp flags & (syn | ack) == syn counter drop", strings.Join(at, ", "))
	if err := errors.Join(
		nft(node, "add", "table", "ip", "in_band"),
		nft(node, "add", "chain", "ip", "in_band", "through", "{ type filter hook prerouting priority -310 ; }"),
		nft(node, "add", "rule", "ip", "in_band", "through", drop),
		nft(node, "add", "chain", "ip", "in_band", "out", "{ type filter hook output priority -310 ; }"),
		nft(node, "add", "rule", "ip", "in_band", "out", drop),
	); err != nil {
		t.Fatal(err)
	}
}

func mayAsk(node string) error {
	return errors.Join(nft(node, "add", "table", "ip", "in_band"), nft(node, "delete", "table", "ip", "in_band"))
}
