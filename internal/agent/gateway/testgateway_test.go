// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/datapath/kernel"
	"liqo.io/liqo/internal/datapath/wg"
	"liqo.io/liqo/internal/election"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// inside is a device that is only used from its network namespace.
type inside struct {
	*wg.Device
	space *testkit.Space
	mute  *atomic.Bool // it does not tell what it does
}

func (d inside) Observe() (wg.Status, error) {
	if d.mute.Load() {
		return wg.Status{}, errors.New("mute")
	}
	return d.Device.Observe()
}
func (d inside) Apply(c wg.Config) error {
	return d.space.Inside(func() error { return d.Device.Apply(c) })
}
func (d inside) Rebind() error { return d.space.Inside(d.Device.Rebind) }
func (d inside) Restart(k wg.PublicKey) error {
	return d.space.Inside(func() error { return d.Device.Restart(k) })
}

// hangingClient writes no status while it hangs, as if the API server had lost its power.
type hangingClient struct {
	client.Client
	hangs *atomic.Bool
}

type hangingWriter struct {
	client.SubResourceWriter
	hangs *atomic.Bool
}

func (c hangingClient) Status() client.SubResourceWriter {
	return hangingWriter{c.Client.Status(), c.hangs}
}

func (w hangingWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if w.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return w.SubResourceWriter.Patch(ctx, obj, patch, opts...)
}

// stubborn is a network namespace that may refuse what it is told.
type stubborn struct {
	FencedKernel
	refuses, refusesFence atomic.Bool
}

func (k *stubborn) NewFence() (*kernel.Fence, error) {
	if k.refusesFence.Load() {
		return nil, errors.New("no fence")
	}
	return k.FencedKernel.NewFence()
}

func (k *stubborn) Apply(ctx context.Context, state datapath.State) (kernel.Changes, error) {
	if k.refuses.Load() {
		return kernel.Changes{}, errors.New("refused")
	}
	return k.FencedKernel.Apply(ctx, state)
}

// testGateway is one of two clusters, with a gateway whose pod is a network namespace.
type testGateway struct {
	client.Client
	cluster  *testkit.ControlPlane
	space    *testkit.Space
	device   inside
	kernel   stubborn
	options  Options
	key      wg.PrivateKey
	exporter *tunnelExporter
	resolve  dnsResolver   // nil: that of this machine
	silence  time.Duration // 0: the usual
	elector  *elector      // of several replicas
	left     []wg.Peer     // of an earlier process, in the device
	settle   time.Duration // until the elector goes by promises
	cut      cut
	hangs    atomic.Bool     // writes of statuses get no answer
	ending   context.Context // nil: it is not told to end
	ended    context.CancelFunc
}

// The peer of either side has the same networks. Both gateways have addresses of one cable, which is the outer network.
const serverAt, clientAt = "192.0.2.1", "192.0.2.2"

func newTestGateways(t *testing.T) (server, cl *testGateway) {
	t.Helper()
	n := 2 * testkit.Turn(t, "clusters", 2) // a gateway sees the peers of its whole cluster
	server = &testGateway{cluster: testkit.NthCluster(t, n), options: Options{RemoteClusterID: "rome", Server: true, ListenPort: 51840, Address: netip.MustParseAddr(serverAt)}}
	cl = &testGateway{cluster: testkit.NthCluster(t, n+1), options: Options{RemoteClusterID: "milan", Endpoints: []string{serverAt + ":51840"}, Address: netip.MustParseAddr(clientAt)}}
	for _, s := range []*testGateway{server, cl} {
		s.space = testkit.NewSpace(t, "lqag")
		s.device = inside{space: s.space, mute: &atomic.Bool{}}
		s.Client = s.cluster.Client
		s.options.Name, s.options.UID, s.options.Node, s.options.MTU = "gw", "7", "worker", names.DefaultMTU
		s.options.PingPort, s.options.PingInterval, s.options.PingLossThreshold, s.options.StatusInterval = 7007, 200*time.Millisecond, 10, time.Second
		s.options.LiqoNamespace = testkit.Namespace(t, s.cluster, "home", nil)
		s.options.Namespace = testkit.Namespace(t, s.cluster, "tenant", nil)
		s.options.KeysDir, s.options.StateDir = t.TempDir(), t.TempDir()
		s.newKey(t)
		s.configure(t)
	}
	testkit.Cable(t, server.space, serverAt+"/24", cl.space, clientAt+"/24")
	return server, cl
}

// connectGateways runs both gateways until they have a tunnel, and returns the function that stops the first one.
func connectGateways(t *testing.T, a, b *testGateway) (stop func()) {
	t.Helper()
	stop = a.run(t)
	b.run(t)
	a.trust(t, "peer", b)
	b.trust(t, "peer", a)
	a.is(t, connected)
	b.is(t, connected)
	return stop
}

// newKey gives the gateway another private key, as a Secret that changes does.
func (s *testGateway) newKey(t *testing.T) {
	t.Helper()
	s.key = newKey(t)
	s.write(t, s.key[:])
}

// write has the file of the private key hold something.
func (s *testGateway) write(t *testing.T, key []byte) {
	t.Helper()
	path := filepath.Join(s.options.KeysDir, names.PrivateKeyKey)
	if err := os.WriteFile(path+".new", key, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func (s *testGateway) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.options.Namespace, Name: name, Labels: map[string]string{names.RemoteClusterID: s.options.RemoteClusterID}}
}

// configure says where the peer's networks have their place.
func (s *testGateway) configure(t *testing.T) {
	t.Helper()
	cidr := func(pod, external networkingv1beta1.CIDR) networkingv1beta1.ClusterConfig {
		return networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{
			Pod: []networkingv1beta1.CIDR{pod}, External: []networkingv1beta1.CIDR{external},
		}}
	}
	c := &networkingv1beta1.Configuration{ObjectMeta: s.meta("peer")}
	c.Spec.Remote = cidr("10.200.0.0/16", "10.70.0.0/16")
	testkit.Create(t, s, c)
	t.Cleanup(func() { _ = s.Delete(context.Background(), c) }) // gateways of other tests see it, too
	testkit.UpdateStatus(t, s, c, func(c *networkingv1beta1.Configuration) {
		c.Status.Remote = new(cidr("10.71.0.0/16", "10.68.0.0/16"))
		c.Status.Conditions = []metav1.Condition{{
			Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: "Test",
			ObservedGeneration: c.Generation, LastTransitionTime: metav1.Now(),
		}}
	})
}

// trust makes the PublicKey of the other side.
func (s *testGateway) trust(t *testing.T, name string, other *testGateway) *networkingv1beta1.PublicKey {
	t.Helper()
	public := other.key.Public()
	k := &networkingv1beta1.PublicKey{ObjectMeta: s.meta(name), Spec: networkingv1beta1.PublicKeySpec{PublicKey: public[:]}}
	testkit.Create(t, s, k)
	return k
}

// user has the rights of a gateway: to its own objects in its namespace, and to read what is about the whole cluster.
func (s *testGateway) user(t *testing.T) *rest.Config {
	t.Helper()
	name, group := s.options.Namespace, networkingv1beta1.GroupVersion.Group
	testkit.Allow(t, s.cluster, s.options.Namespace, name,
		testkit.Rule(group, "connections", "get", "list", "watch", "create", "update", "patch"),
		testkit.Rule(group, "connections/status", "update", "patch"),
		testkit.Rule(group, "firewallconfigurations/status", "update", "patch"),
		testkit.Rule(group, "routeconfigurations/status", "update", "patch"),
		testkit.Rule(group, "publickeies", "get", "list", "watch"),
		testkit.Rule("events.k8s.io", "events", "create", "patch"),
		testkit.Rule("coordination.k8s.io", "leases", "update"),
		testkit.Rule("discovery.k8s.io", "endpointslices", "get", "list", "watch", "patch"))
	reads := []rbacv1.PolicyRule{
		testkit.Rule(ipamv1alpha1.GroupVersion.Group, "ips", "get", "list", "watch"),
		testkit.Rule(ipamv1alpha1.GroupVersion.Group, "networks", "get", "list", "watch"),
		testkit.Rule("coordination.k8s.io", "leases", "get", "list", "watch"),
	}
	for _, r := range []string{"configurations", "gatewayservers", "gatewayclients", "internalnodes", "firewallconfigurations", "routeconfigurations"} {
		reads = append(reads, testkit.Rule(group, r, "get", "list", "watch"))
	}
	testkit.Allow(t, s.cluster, "", name, reads...)
	return s.cluster.User(t, name)
}

func (s *testGateway) cached() map[client.Object]cache.ByObject {
	own := cache.ByObject{Namespaces: map[string]cache.Config{s.options.Namespace: {}}}
	leases := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{names.NetworkingComponent: names.ComponentGateway})}
	return map[client.Object]cache.ByObject{&networkingv1beta1.PublicKey{}: own, &networkingv1beta1.Connection{}: own, &coordinationv1.Lease{}: leases, &discoveryv1.EndpointSlice{}: own}
}

// run starts the gateway. It ends with the returned function; its network namespace and its device stay.
func (s *testGateway) run(t *testing.T) (stop func()) {
	t.Helper()
	k, err := kernel.Open(kernel.Options{Namespace: s.space.Path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	s.kernel.FencedKernel = k
	err = s.space.Inside(func() (err error) {
		s.device.Device, err = wg.Open(names.TunnelDevice, wg.Userspace, slog.New(slog.DiscardHandler))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	device := s.device
	if s.left != nil {
		if err := device.Apply(wg.Config{MTU: names.DefaultMTU, PrivateKey: s.key, Peers: s.left}); err != nil {
			t.Fatal(err)
		}
	}
	end := testkit.Manager(t, s.user(t), kube.ManagerOptions{Objects: s.cached()}, func(mgr ctrl.Manager) error {
		g := newGateway(mgr, &s.kernel, device, s.options)
		s.exporter, g.silence = g.exporter, s.silence
		g.client = hangingClient{g.client, &s.hangs}
		if s.ending != nil {
			g.endAfter(s.ending, s.ended, time.Hour)
		}
		if s.resolve != nil {
			g.endpoints.resolve = s.resolve
		}
		g.prober.search.again = 10 * time.Second // a busy machine may answer too late for the first search
		g.prober.bind = func(at netip.AddrPort) (conn *net.UDPConn, err error) {
			err = s.space.Inside(func() error {
				conn, err = bindSocket(at)
				return err
			})
			return conn, err
		}
		if s.elector = g.elector; g.elector != nil {
			times := election.Default()
			times.Settle = s.settle
			g.elector.rule = election.NewReplica(s.options.Pod, times, newNonce)
			g.elector.client, g.elector.live = s.cut.client(g.elector.client), s.cut.reader(g.elector.live)
			g.elector.bind = func(at netip.AddrPort) (conn *net.UDPConn, err error) {
				err = s.space.Inside(func() error {
					conn, err = bindReplica(at)
					return err
				})
				return conn, err
			}
		}
		err := g.setupController(mgr)
		if status, observed := device.Observe(); g.elector != nil && observed == nil && len(status.Peers) > 0 {
			err = errors.Join(err, errors.New("the peer of an earlier process is left in the device"))
		}
		return err
	})
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		end()
		if err := device.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}
