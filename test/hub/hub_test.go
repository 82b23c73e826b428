// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package hub tells the story of one Service with pods in a consumer and in two providers, which know each other through the consumer only:
// a is the hub, b and c are its leaves. All have the same addresses. LIQO_E2E_KUBECONFIGS names the kubeconfigs of a, b and c, fresh ones.
package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
	"liqo.io/liqo/test/traffic"
)

var a, b, c *clusters.Cluster

func TestMain(m *testing.M) {
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "hub:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// setUp installs all clusters, and has a borrow from b and c.
func setUp() error {
	given, err := clusters.Given("cl-a", "cl-b", "cl-c")
	if err != nil {
		return err
	}
	a, b, c = given[0], given[1], given[2]
	if err := clusters.InParallel(given, func(of *clusters.Cluster) error {
		args := []string{"--set", "controllerManager.replicas=1"}
		if of == a {
			args = append(args, "--set", fmt.Sprintf("networking.gatewayTemplates.replicas=%d", replicas))
		}
		return of.Install(args...)
	}); err != nil {
		return err
	}
	return clusters.InParallel([]*clusters.Cluster{b, c}, func(provider *clusters.Cluster) error {
		_, err := a.Say("peer", "--remote-kubeconfig", provider.Kubeconfig)
		return err
	})
}

const (
	port     = 8080
	nodePort = 30080
	replicas = 3 // of each gateway of the hub
)

// shop is a pod on a node of each cluster, whose answers fill many packets and say whom it sees, and Services in front of all.
const shop = `
apiVersion: v1
kind: Service
metadata: {name: web, annotations: {liqo.io/force-remote-node-port: "true"}}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 8080, nodePort: 30080}]
---
apiVersion: v1
kind: Service
metadata: {name: headless}
spec:
  clusterIP: None
  selector: {app: web}
  ports: [{port: 8080}]
`

const podTemplate = `
---
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 0
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [WHERE]}]}}}
  containers:
  - name: web
    image: docker.io/library/busybox:latest
    imagePullPolicy: IfNotPresent
    command:
    - sh
    - -c
    - |
      mkdir -p /www/cgi-bin
      (printf 'Content-Type: text/plain\r\n\r\n'; head -c 20000 /dev/zero | tr '\0' x; echo) > /www/much
      cat > /www/cgi-bin/who <<'EOF'
      #!/bin/sh
      cat /www/much
      who=${REMOTE_ADDR#"["}
      who=${who#::ffff:}
      echo NAME sees ${who%%"]"*}
      EOF
      chmod +x /www/cgi-bin/who
      exec httpd -f -p 8080 -h /www
    resources: {requests: {cpu: 5m, memory: 8Mi}}
`

var names = []string{"in-a", "in-b", "in-c"}

func pods() string {
	var out strings.Builder
	for name, where := range map[string]string{
		"in-a": "{key: liqo.io/type, operator: NotIn, values: [virtual-node]}",
		"in-b": "{key: liqo.io/remote-cluster-id, operator: In, values: [cl-b]}",
		"in-c": "{key: liqo.io/remote-cluster-id, operator: In, values: [cl-c]}",
	} {
		out.WriteString(strings.NewReplacer("NAME", name, "WHERE", where).Replace(podTemplate))
	}
	return out.String()
}

// place is a cluster with its pod of the story.
type place struct {
	*clusters.Cluster
	namespace, pod string
}

func places() []place {
	return []place{{a, "shop", "in-a"}, {b, "shop-cl-a", "in-b"}, {c, "shop-cl-a", "in-c"}}
}

func TestHub(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			show(t)
		}
	})
	kubectl(t, a, "", "create", "namespace", "shop")
	if _, err := a.Say("offload", "namespace", "shop"); err != nil {
		t.Fatal(err)
	}
	kubectl(t, a, shop+pods(), "apply", "-n", "shop", "-f", "-")
	for _, chapter := range []struct {
		name string
		tell func(*testing.T)
	}{
		{"service", service},
		{"identity", identity},
		{"node_ports", nodePorts},
		{"errors", icmpErrors},
		{"gateway_fails", gatewayFails},
		{"gateways_restarted", gatewaysRestarted},
		{"pod_ends", podEnds},
		{"pod_network_added", podNetworkAdded},
		{"direct_connections", directConnections},
	} {
		if !t.Run(chapter.name, chapter.tell) {
			t.FailNow()
		}
	}
}

// service: each pod reaches all pods, by the name of either Service.
func service(t *testing.T) { allAnswer(t, names) }

func allAnswer(t *testing.T, want []string) {
	t.Helper()
	for _, from := range places() {
		if slices.Contains(want, from.pod) {
			eventually(t, fmt.Sprintf("%v to answer %s", want, from.pod), func(context.Context) error { return answers(from, want) })
		}
	}
}

// answers wants exactly these pods behind both Services, and an answer to each question.
func answers(from place, want []string) error {
	for service, addresses := range map[string]string{
		// Forty questions: that one of three backends never answers is one chance in millions.
		"web":      `for i in $(seq 40); do echo web; done`,
		"headless": fmt.Sprintf(`nslookup headless.%s.svc.cluster.local | awk '/^Name:/ {found = 1} found && /^Address/ {print $NF}'`, from.namespace),
	} {
		got := map[string]bool{}
		lines, err := ask(from, addresses)
		if err != nil {
			return err
		}
		for _, line := range lines {
			name, _, _ := strings.Cut(line, " ")
			got[name] = true
		}
		if got := slices.Sorted(maps.Keys(got)); !slices.Equal(got, want) {
			return fmt.Errorf("%v answered behind the Service %s", got, service)
		}
	}
	return nil
}

// ask returns the last line of the answer at each address that a script prints.
func ask(from place, addresses string) ([]string, error) {
	script := fmt.Sprintf(`for to in $(%s); do printf 'GET /cgi-bin/who HTTP/1.0\r\n\r\n' | nc -w 2 $to %d 2>/dev/null | tail -n 1 | grep . || { echo nobody; break; }; done`, addresses, port)
	out, err := from.Kubectl("", "exec", "-n", from.namespace, from.pod, "--", "sh", "-c", script)
	return strings.FieldsFunc(out, func(r rune) bool { return r == '\n' }), err
}

// endpoint returns the address by which a leaf knows a pod.
func endpoint(in place, pod string) (string, error) {
	out, err := in.Kubectl("", "get", "endpointslices", "-n", in.namespace, "-l", "kubernetes.io/service-name=headless",
		"-o", `jsonpath={range .items[*].endpoints[?(@.targetRef.name=="`+pod+`")]}{.addresses[0]}{" "}{end}`)
	if fields := strings.Fields(out); err == nil && len(fields) == 1 {
		return fields[0], nil
	}
	return "", errors.Join(err, fmt.Errorf("the endpoint %s of %s is %q", pod, in.ID, out))
}

// identity: leaves see each other under the addresses by which they know each other, and only pods of leaves have an IP.
func identity(t *testing.T) {
	leaves := places()[1:]
	for i, from := range leaves {
		to := leaves[1-i]
		eventually(t, to.pod+" to answer "+from.pod, func(context.Context) error {
			address, err := endpoint(from, to.pod)
			if err != nil {
				return err
			}
			own, err := endpoint(to, from.pod)
			if err != nil {
				return err
			}
			if !strings.HasPrefix(address, "10.68.") {
				return fmt.Errorf("%s knows %s as %s, which is not of the hub's external network", from.ID, to.pod, address)
			}
			lines, err := ask(from, "echo "+address)
			if want := []string{to.pod + " sees " + own}; err == nil && !slices.Equal(lines, want) {
				err = fmt.Errorf("the answer is %q, want %q", lines, want)
			}
			return err
		})
	}
	wantIPs(t, "in-b in-c")
}

func wantIPs(t *testing.T, want string) {
	t.Helper()
	eventually(t, "the IPs "+want, func(context.Context) error {
		out, err := a.Kubectl("", "get", "ips", "-n", "shop", "-o", "jsonpath={.items[*].metadata.name}")
		if err == nil && out != want {
			err = fmt.Errorf("they are %q", out)
		}
		return err
	})
}

// nodePorts: a client outside reaches all pods by a node of any cluster, and so does the node itself, whose address no IP shows.
func nodePorts(t *testing.T) {
	for _, by := range places() {
		var nodes corev1.NodeList
		if err := by.Client.List(t.Context(), &nodes); err != nil {
			t.Fatal(err)
		}
		for i := range nodes.Items {
			if nodes.Items[i].Labels["liqo.io/type"] == "virtual-node" {
				continue
			}
			address := net.JoinHostPort(internalIP(&nodes.Items[i]), strconv.Itoa(nodePort))
			eventually(t, fmt.Sprintf("%v to answer by %s of %s", names, address, by.ID), func(context.Context) error {
				got := map[string]bool{}
				for range 40 {
					name, err := dial(address)
					if err != nil {
						return err
					}
					got[name] = true
				}
				if got := slices.Sorted(maps.Keys(got)); !slices.Equal(got, names) {
					return fmt.Errorf("%v answered", got)
				}
				return nil
			})
		}
	}
}

func internalIP(node *corev1.Node) string {
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address
		}
	}
	return ""
}

// dial returns the name of the pod that answers.
func dial(address string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, 3*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte("GET /cgi-bin/who HTTP/1.0\r\n\r\n")); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return "", err
	}
	lines := strings.Fields(strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", " "))
	if len(lines) < 3 {
		return "", fmt.Errorf("the answer is %q", text)
	}
	return lines[len(lines)-3], nil
}

// icmpErrors: the refusal of a port of a pod in another leaf comes back through the hub.
func icmpErrors(t *testing.T) {
	leaves := places()[1:]
	for i, from := range leaves {
		address, err := endpoint(from, leaves[1-i].pod)
		if err != nil {
			t.Fatal(err)
		}
		// The last hop of traceroute is the one that refuses.
		out, err := from.Kubectl("", "exec", "-n", from.namespace, from.pod, "--", "traceroute", "-n", "-q", "1", "-w", "1", "-m", "12", address)
		t.Logf("from %s to %s:\n%s", from.pod, leaves[1-i].pod, out)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if last := strings.Fields(lines[len(lines)-1]); err != nil || len(last) < 2 || last[1] != address {
			t.Errorf("the refusal of %s does not arrive in %s: %v", address, from.ID, err)
		}
	}
}

// gatewayFails: the leaves reach each other again, in both directions, when the active replica of the hub's gateway to one of them is killed.
func gatewayFails(t *testing.T) {
	leaves := places()[1:]
	path := traffic.Path{Name: "leaves", From: endOf(t, leaves[0], leaves[1]), To: endOf(t, leaves[1], leaves[0])}
	for _, leaf := range leaves {
		active := activeReplica(t, leaf.ID)
		asking, err := path.Watch()
		if err != nil {
			t.Fatal(err)
		}
		defer asking.Close()
		if _, err := asking.Answered(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		since := time.Now()
		if err := traffic.Signal(active.UID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if _, err := asking.Answered(ctx, since.Add(100*time.Millisecond)); err != nil {
			t.Fatalf("the gateway to %s failed: %v", leaf.ID, err)
		}
		gap, lost := asking.Gap(since)
		t.Logf("the gateway to %s failed: no answer for %.2f s, %d questions lost", leaf.ID, gap.Seconds(), lost)
	}
	for _, leaf := range leaves {
		activeReplica(t, leaf.ID) // all are back
	}
}

// endOf returns where the pod in a leaf is, as the other leaf sees it.
func endOf(t *testing.T, leaf, other place) traffic.Endpoint {
	t.Helper()
	out, err := traffic.LocatePod(t.Context(), leaf.Cluster, client.ObjectKey{Namespace: leaf.namespace, Name: leaf.pod})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := endpoint(other, leaf.pod)
	if err != nil {
		t.Fatal(err)
	}
	out.Seen = netip.MustParseAddr(seen)
	return out
}

// activeReplica waits until the hub's gateway to a leaf has all replicas, one of them active and the others standbys, and returns that.
func activeReplica(t *testing.T, leaf string) (active corev1.Pod) {
	t.Helper()
	of := client.MatchingLabels{"networking.liqo.io/component": "gateway"}
	in := client.InNamespace("liqo-tenant-" + leaf)
	eventually(t, "all replicas of the gateway to "+leaf, func(ctx context.Context) error {
		var pods corev1.PodList
		var leases coordinationv1.LeaseList
		if err := errors.Join(a.Client.List(ctx, &pods, in, of), a.Client.List(ctx, &leases, in, of)); err != nil {
			return err
		}
		if len(leases.Items) != 1 || len(pods.Items) != replicas {
			return fmt.Errorf("there are %d Leases and %d pods", len(leases.Items), len(pods.Items))
		}
		standbys := strings.Split(leases.Items[0].Annotations["networking.liqo.io/standbys"], ",")
		for _, p := range pods.Items {
			switch labelled := p.Labels["networking.liqo.io/active"] == "true"; {
			case !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }):
				return fmt.Errorf("%s is not ready", p.Name)
			case leases.Items[0].Spec.HolderIdentity == nil || labelled != (p.Name == *leases.Items[0].Spec.HolderIdentity) || labelled == slices.Contains(standbys, p.Name):
				return fmt.Errorf("%s is labelled as active %v, and the Lease is %+v with %v", p.Name, labelled, leases.Items[0].Spec, standbys)
			case labelled:
				active = p
			}
		}
		return nil
	})
	return active
}

// gatewaysRestarted: the gateways of the hub come back, and all answer.
func gatewaysRestarted(t *testing.T) {
	before := kubectl(t, a, "", "get", "pods", "-A", "-l", "networking.liqo.io/component=gateway", "-o", "jsonpath={.items[*].metadata.uid}")
	kubectl(t, a, "", "delete", "pods", "-A", "-l", "networking.liqo.io/component=gateway", "--timeout=5m")
	eventually(t, "new gateways", func(context.Context) error {
		now, err := a.Kubectl("", "get", "pods", "-A", "-l", "networking.liqo.io/component=gateway", "-o", "jsonpath={.items[*].metadata.uid}")
		for _, uid := range strings.Fields(now) {
			if strings.Contains(before, uid) {
				err = errors.Join(err, fmt.Errorf("%s is there still", uid))
			}
		}
		if len(strings.Fields(now)) != len(strings.Fields(before)) {
			err = errors.Join(err, fmt.Errorf("there are %q", now))
		}
		return err
	})
	allAnswer(t, names)
}

// podEnds: the IP of a pod ends with the pod, and its successor gets one.
func podEnds(t *testing.T) {
	kubectl(t, a, "", "delete", "pod", "-n", "shop", "in-c", "--timeout=5m")
	wantIPs(t, "in-b")
	allAnswer(t, []string{"in-a", "in-b"})
	kubectl(t, a, pods(), "apply", "-n", "shop", "-f", "-")
	wantIPs(t, "in-b in-c")
	allAnswer(t, names)
}

// podNetworkAdded: providers follow a new pod network of the hub, and the hub one of a provider.
func podNetworkAdded(t *testing.T) {
	network := func(cidr string) string {
		return fmt.Sprintf("{apiVersion: ipam.liqo.io/v1alpha1, kind: Network, metadata: {name: pod-cidr-more, namespace: liqo, labels: {ipam.liqo.io/network-type: pod-cidr, "+
			"ipam.liqo.io/network-not-remapped: \"true\", ipam.liqo.io/network-shared: \"true\"}}, spec: {cidr: %s}}", cidr)
	}
	follows := func(in, of *clusters.Cluster, cidr string) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s to have a prefix for %s of %s", in.ID, cidr, of.ID), func(context.Context) error {
			out, err := in.Kubectl("", "get", "configurations", "-A", "-l", "liqo.io/remote-cluster-id="+of.ID, "-o", "jsonpath={.items[0].spec.remote.cidr.pod} {.items[0].status.remote.cidr.pod[1]}")
			if remote, local, _ := strings.Cut(out, " "); err == nil && (!strings.Contains(remote, cidr) || local == "") {
				err = fmt.Errorf("it has %q", out)
			}
			return err
		})
	}
	kubectl(t, a, network("10.202.0.0/16"), "apply", "-f", "-")
	kubectl(t, b, network("10.203.0.0/16"), "apply", "-f", "-")
	follows(b, a, "10.202.0.0/16")
	follows(c, a, "10.202.0.0/16")
	follows(a, b, "10.203.0.0/16")
	allAnswer(t, names)
}

// directConnections: leaves that are connected themselves do without the hub.
func directConnections(t *testing.T) {
	if _, err := b.Say("network", "connect", "--remote-kubeconfig", c.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	kubectl(t, a, "", "annotate", "service", "-n", "shop", "web", "headless", "liqo.io/use-direct-connections=true")
	wantIPs(t, "")
	leaves := places()[1:]
	for i, from := range leaves {
		to := leaves[1-i]
		prefix := kubectl(t, from.Cluster, "", "get", "configurations", "-A", "-l", "liqo.io/remote-cluster-id="+to.ID, "-o", "jsonpath={.items[0].status.remote.cidr.pod[0]}")
		network := strings.Join(strings.SplitN(prefix, ".", 3)[:2], ".") + "."
		eventually(t, fmt.Sprintf("%s to know %s in %s", from.ID, to.pod, prefix), func(context.Context) error {
			address, err := endpoint(from, to.pod)
			if err == nil && !strings.HasPrefix(address, network) {
				err = fmt.Errorf("it is %s", address)
			}
			return err
		})
	}
	allAnswer(t, names)
}

func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	took := story.Eventually(t, what, 5*time.Minute, check)
	t.Logf("%s: %s", what, took)
}

func kubectl(t *testing.T, on *clusters.Cluster, stdin string, args ...string) string {
	t.Helper()
	out, err := on.Kubectl(stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// show prints what a reader of a failure asks first.
func show(t *testing.T) {
	t.Helper()
	for _, of := range []*clusters.Cluster{a, b, c} {
		for _, args := range [][]string{
			{"get", "configurations,connections,ips,internalnodes,shadowendpointslices,endpointslices,namespacemaps,namespaceoffloadings,pods,services", "-A", "-o", "wide"},
			{"get", "shadowendpointslices,endpointslices", "-A", "-l", "kubernetes.io/service-name=headless", "-o", "yaml"},
			{"get", "events", "-A", "--field-selector", "type=Warning"},
			{"logs", "--prefix", "--tail", "60", "-n", "liqo", "-l", "app.kubernetes.io/name=controller-manager"},
		} {
			out, err := of.Kubectl("", args...)
			t.Logf("%s $ kubectl %v\n%s%v", of.ID, args, out, err)
		}
	}
}
