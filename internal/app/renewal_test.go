// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	remotecommandproto "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

// certificatesLast is how long certificates of the provider last: they are renewed every 80 s. A machine that is busy has 40 s then to bring
// the other ones, and an Identity takes over what is offered each 30 s at most, however late it was the last time.
const (
	certificatesLast = 2 * time.Minute
	renewedAfter     = certificatesLast * 2 / 3
)

// Certificates of the control plane and of a slice are renewed twice, and end twice, while a command runs, a watch goes on and all
// processes are the same. Then the Tenant goes, and with it all that the certificates may do.
func TestCertificateRenewal(t *testing.T) {
	t.Parallel()
	provider := testkit.NthCluster(t, 2*worlds, testkit.WithCertificatesFor(certificatesLast), testkit.WithControllers("namespace-controller",
		"garbage-collector-controller", "serviceaccount-controller", "root-ca-certificate-publisher-controller"))
	// Clusters of its own: it waits, beside stories that work.
	w := worldOf(t, testkit.NthCluster(t, 2*worlds+1, kubernetesControllers), provider)
	w.named(t, 950)
	defer w.deleteAll(t)
	w.startAll(t)
	w.shakeHands(t)
	w.eventually(t, "the peering to work", w.works)
	w.runShop(t)

	pods, err := w.consumer.Client.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(w.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Stop()
	command := w.execute(t)
	command.typeText(t, "before")
	ready := w.nodeReady(t)
	silence := w.silence(t)
	processes := []map[string]*testkit.Process{maps.Clone(w.consumer.running), maps.Clone(w.provider.running)}

	late := false // on a machine that is so busy nothing follows from a node that was not Ready
	for renewals := range int32(2) {
		before := w.inUse(t)
		w.eventually(t, "other certificates", func(ctx context.Context) error {
			for kind, now := range w.inUse(t) {
				was := before[kind]
				if now.Equal(was) {
					return fmt.Errorf("%s has the same certificate", kind)
				}
				if apart := now.NotBefore.Sub(was.NotBefore); apart < renewedAfter-time.Second { // full seconds are kept
					t.Errorf("the certificate of the %s is renewed after %s", kind, apart)
				}
			}
			return nil
		})
		for kind, was := range before {
			if remaining := time.Until(was.NotAfter); remaining < 5*time.Second { // of the third of their life that was there for it
				late = true
				t.Logf("the %s got another certificate %s before the end of the one before", kind, remaining)
			}
		}
		w.eventually(t, "the certificates of before to end", func(context.Context) error {
			for kind, was := range before {
				if remaining := time.Until(was.NotAfter); remaining > 0 {
					return fmt.Errorf("%s has one for %s", kind, remaining)
				}
			}
			return nil
		})
		command.typeText(t, "after")
		// What watches the provider with these certificates goes on.
		testkit.UpdateStatus(t, w.provider.Client, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Twin(), Name: "shop"}}, func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].RestartCount = 7 + renewals
		})
		awaitEvent(t, pods, func(p *corev1.Pod) bool {
			return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount == 7+renewals
		})
		w.replicates(t, fmt.Sprint("renewed-", renewals))
	}

	w.execute(t).typeText(t, "again")
	if longest := silence(); longest > 10*time.Second {
		late = true
		t.Logf("the API server of the provider was silent for %s", longest)
	}
	if now := w.nodeReady(t); !late && !now.Equal(&ready) {
		t.Errorf("the node was not Ready meanwhile: it is since %s, it was since %s\nconsumer:\n%s\nprovider:\n%s", now, ready, w.consumer.logs(), w.provider.logs())
	}
	for n, s := range w.sides() {
		for name, was := range processes[n] {
			if s.running[name] != was || was.Alive() != nil {
				t.Errorf("the process %s of %s is another one", name, s.id)
			}
		}
	}
	w.wantFewRequests(t)

	w.tenantGoes(t)
}

// What ends a peering of this kind, the Identity and the Tenant, may go at the same time: the consumer needs no word of a provider
// that refuses it already.
func TestHandshakeRevoked(t *testing.T) {
	t.Parallel()
	w := newTopology(t)
	w.named(t, 951)
	defer w.deleteAll(t)
	w.startAll(t)
	w.shakeHands(t)
	w.eventually(t, "the peering to work", w.works)
	for _, name := range []string{theApplication, theOffloading, theSlice} {
		w.remove(t, name)
	}
	w.eventually(t, "the slice to go", func(ctx context.Context) error {
		err := w.consumer.Client.Get(ctx, client.ObjectKey{Namespace: w.ConsumerTenant, Name: w.Slice}, &authv1beta1.ResourceSlice{})
		if !apierrors.IsNotFound(err) {
			return cmp.Or(err, errors.New("it is there"))
		}
		return nil
	})
	if err := w.provider.Client.Delete(t.Context(), &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: w.ProviderTenant, Name: w.Consumer}}); err != nil {
		t.Fatal(err)
	}
	w.remove(t, "Identity")
	kubeconfigs := client.HasLabels{names.IdentityType}
	w.eventually(t, "nothing to be left", func(ctx context.Context) error {
		return errors.Join(
			none(ctx, w.consumer, &authv1beta1.IdentityList{}, w.ConsumerTenant), none(ctx, w.consumer, &authv1beta1.RenewList{}, w.ConsumerTenant),
			none(ctx, w.consumer, &corev1.SecretList{}, w.ConsumerTenant, kubeconfigs), none(ctx, w.provider, &authv1beta1.TenantList{}, w.ProviderTenant),
			none(ctx, w.provider, &authv1beta1.RenewList{}, w.ProviderTenant), none(ctx, w.provider, &authv1beta1.ResourceSliceList{}, w.ProviderTenant))
	})
}

// none tells what of a kind is in a namespace.
func none(ctx context.Context, s *testCluster, list client.ObjectList, namespace string, opts ...client.ListOption) error {
	if err := s.Client.List(ctx, list, append(opts, client.InNamespace(namespace))...); err != nil {
		return err
	}
	if n := apimeta.LenList(list); n > 0 {
		return fmt.Errorf("%d of %T are in %s", n, list, namespace)
	}
	return nil
}

// shakeHands peers the clusters as docs/authentication.md does, and then makes all that the guide has but credentials.
func (w *topology) shakeHands(t *testing.T) {
	t.Helper()
	declared := []string{"RoleBinding", "Tenant", "Secret"}
	docs := slices.DeleteFunc(w.documents(t), func(d document) bool { return slices.Contains(declared, d.GetKind()) })
	for _, d := range docs {
		if d.GetKind() == "Namespace" {
			w.apply(t, d)
		}
	}
	secret := func(s *testCluster, namespace, label, peer, key string, data map[string][]byte) []byte {
		obj := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "handshake", Labels: map[string]string{label: "true", names.RemoteClusterID: peer}}, Data: data,
		}
		testkit.Create(t, s.Client, obj)
		return w.filled(t, s, obj, key)
	}
	nonce := secret(w.provider, w.ProviderTenant, names.Nonce, w.Consumer, names.NonceKey, nil)
	signature := secret(w.consumer, w.ConsumerTenant, names.SignedNonce, w.Provider, names.SignedNonceKey, map[string][]byte{names.NonceKey: nonce})
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: names.LiqoNamespace, Name: names.PeerKeysSecret(w.Provider)}}
	key, err := pki.ParseKey(w.filled(t, w.consumer, keys, names.PrivateKeyKey))
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.NewCSR(key, pki.Subject{CommonName: w.Consumer, Organization: names.ControlPlaneGroup})
	if err != nil {
		t.Fatal(err)
	}
	tenant := &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ProviderTenant, Name: w.Consumer},
		Spec: authv1beta1.TenantSpec{
			ClusterID: liqov1beta1.ClusterID(w.Consumer), PublicKey: keys.Data[names.PublicKeyKey], CSR: csr, Signature: signature,
		},
	}
	w.eventually(t, "the Tenant to be taken", func(ctx context.Context) error { return w.provider.Client.Create(ctx, tenant.DeepCopy()) })
	w.eventually(t, "the Tenant to be given credentials", func(ctx context.Context) error {
		if err := w.provider.Client.Get(ctx, client.ObjectKeyFromObject(tenant), tenant); err != nil {
			return err
		}
		if tenant.Status.AuthParams == nil {
			return fmt.Errorf("it says %+v", tenant.Status.Conditions)
		}
		return nil
	})
	testkit.Create(t, w.consumer.Client, &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ConsumerTenant, Name: "controlplane-" + w.Provider, Labels: map[string]string{names.RemoteClusterID: w.Provider}},
		Spec: authv1beta1.IdentitySpec{
			ClusterID: liqov1beta1.ClusterID(w.Provider), Type: authv1beta1.ControlPlaneIdentityType,
			AuthParams: *tenant.Status.AuthParams, Namespace: new(w.ProviderTenant),
		},
	})
	for _, d := range docs {
		w.apply(t, d)
	}
}

// filled waits until a Secret has a key.
func (w *topology) filled(t *testing.T, s *testCluster, secret *corev1.Secret, key string) []byte {
	t.Helper()
	w.eventually(t, "the key "+key+" of Secret "+secret.Name, func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
			return err
		}
		if len(secret.Data[key]) == 0 {
			return errors.New("it is not there")
		}
		return nil
	})
	return secret.Data[key]
}

// runShop has the pod of the application run on a node of the provider where each command gives back what it is sent.
func (w *topology) runShop(t *testing.T) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", func(rw http.ResponseWriter, req *http.Request) { echo(t, rw, req) })
	kubelet := httptest.NewTLSServer(mux)
	t.Cleanup(kubelet.Close)
	address, err := url.Parse(kubelet.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(address.Port())
	if err != nil {
		t.Fatal(err)
	}
	name := w.worker(t, w.provider)
	testkit.UpdateStatus(t, w.provider.Client, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address.Hostname()}}
		n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Twin(), Name: "shop"}}
	if err := w.provider.Client.SubResource("binding").Create(t.Context(), pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: name}}); err != nil {
		t.Fatal(err)
	}
	testkit.UpdateStatus(t, w.provider.Client, pod, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "shop", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}}
	})
	w.eventually(t, "the pod to run", func(ctx context.Context) error {
		var pod corev1.Pod
		if err := w.consumer.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: "shop"}, &pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return nil
	})
}

// echo is what a kubelet does for the command cat.
func echo(t *testing.T, w http.ResponseWriter, req *http.Request) {
	if _, err := httpstream.Handshake(req, w, []string{remotecommandproto.StreamProtocolV4Name}); err != nil {
		t.Error(err)
		return
	}
	arrived := make(chan httpstream.Stream, 3)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, req, func(s httpstream.Stream, _ <-chan struct{}) error {
		arrived <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	streams := map[string]httpstream.Stream{}
	for len(streams) < cap(arrived) {
		select {
		case s := <-arrived:
			streams[s.Headers().Get(corev1.StreamType)] = s
		case <-conn.CloseChan():
			return
		}
	}
	_, _ = io.Copy(streams[corev1.StreamTypeStdout], streams[corev1.StreamTypeStdin])
	_ = json.NewEncoder(streams[corev1.StreamTypeError]).Encode(&metav1.Status{Status: metav1.StatusSuccess})
}

// command runs in the pod of the application.
type command struct {
	in  io.Writer
	out *bufio.Reader
}

// execute begins a command in the consumer.
func (w *topology) execute(t *testing.T) *command {
	t.Helper()
	target, err := url.Parse(fmt.Sprintf("%s/api/v1/namespaces/%s/pods/shop/exec?container=shop&command=cat&stdin=true&stdout=true", w.consumer.Config.Host, w.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	executor, err := remotecommand.NewSPDYExecutor(w.consumer.Config, http.MethodPost, target)
	if err != nil {
		t.Fatal(err)
	}
	typed, in := io.Pipe()
	out, shown := io.Pipe()
	go func() {
		err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: typed, Stdout: shown})
		shown.CloseWithError(cmp.Or(err, io.EOF))
		typed.CloseWithError(io.ErrClosedPipe)
	}()
	t.Cleanup(func() { _ = in.Close() })
	return &command{in, bufio.NewReader(out)}
}

// typeText has the command say something.
func (c *command) typeText(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(c.in, text+"\n"); err != nil {
		t.Fatalf("typing %s: %v", text, err)
	}
	if line, err := c.out.ReadString('\n'); line != text+"\n" {
		t.Fatalf("the command says %q: %v", line, err)
	}
}

// inUse are the certificates of the moment, by whose they are.
func (w *topology) inUse(t *testing.T) map[string]*x509.Certificate {
	t.Helper()
	out := map[string]*x509.Certificate{}
	for kind, config := range w.kubeconfigs(t) {
		k, err := pki.ParseKubeconfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if out[kind], err = pki.ParseCertificate(k.Certificate); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// kubeconfigs are those of the consumer, by whose they are.
func (w *topology) kubeconfigs(t *testing.T) map[string][]byte {
	t.Helper()
	var secrets corev1.SecretList
	if err := w.consumer.Client.List(t.Context(), &secrets, client.InNamespace(w.ConsumerTenant), client.HasLabels{names.IdentityType}); err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for i := range secrets.Items {
		out[secrets.Items[i].Labels[names.IdentityType]] = secrets.Items[i].Data[names.KubeconfigKey]
	}
	if len(out) != 2 {
		t.Fatalf("there are the kubeconfigs of %v", slices.Sorted(maps.Keys(out)))
	}
	return out
}

// nodeReady is since when the virtual node is Ready, once it is.
func (w *topology) nodeReady(t *testing.T) (since metav1.Time) {
	t.Helper()
	w.eventually(t, "the node to be Ready", func(ctx context.Context) error {
		var node corev1.Node
		if err := w.consumer.Client.Get(ctx, client.ObjectKey{Name: w.Slice}, &node); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				since = c.LastTransitionTime
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", node.Status.Conditions)
	})
	return since
}

// silence asks the provider's API server each second, as a virtual kubelet does, but with a certificate that does not end. It tells for how
// long nothing was answered at most.
func (w *topology) silence(t *testing.T) (longest func() time.Duration) {
	t.Helper()
	cfg := rest.CopyConfig(w.provider.Config)
	cfg.Timeout = 5 * time.Second
	asks, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var most atomic.Int64
	go func() {
		for last := time.Now(); t.Context().Err() == nil; {
			resp, err := asks.Get(cfg.Host + "/livez")
			most.Store(max(most.Load(), int64(time.Since(last))))
			if err == nil {
				_ = resp.Body.Close()
				last = time.Now()
			}
			select {
			case <-time.After(time.Second):
			case <-t.Context().Done():
			}
		}
	}()
	return func() time.Duration { return time.Duration(most.Load()) }
}

// awaitEvent waits until a watch shows such a pod.
func awaitEvent(t *testing.T, w watch.Interface, is func(*corev1.Pod) bool) {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				t.Fatal("the watch has ended")
			}
			if pod, ok := e.Object.(*corev1.Pod); ok && is(pod) {
				return
			}
		case <-timer.C:
			t.Fatal("the watch shows nothing new")
		}
	}
}

// replicates says something new of the slice, and waits until the provider knows.
func (w *topology) replicates(t *testing.T, team string) {
	t.Helper()
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: w.ConsumerTenant, Name: w.Slice}}
	if err := w.consumer.Client.Patch(t.Context(), slice, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"team":%q}}}`, team))); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, "the slice to be replicated", func(ctx context.Context) error {
		var copied authv1beta1.ResourceSlice
		if err := w.provider.Client.Get(ctx, client.ObjectKey{Namespace: w.ProviderTenant, Name: w.Slice}, &copied); err != nil {
			return err
		}
		if copied.Labels["team"] != team {
			return errors.New("the copy does not say so")
		}
		return nil
	})
}

// wantFewRequests wants no certificate to be asked for twice.
func (w *topology) wantFewRequests(t *testing.T) {
	t.Helper()
	var all certv1.CertificateSigningRequestList
	if err := w.provider.Client.List(t.Context(), &all, client.MatchingLabels{names.RemoteClusterID: w.Consumer}); err != nil {
		t.Fatal(err)
	}
	if len(all.Items) > 2 {
		t.Errorf("there are %d requests for two certificates", len(all.Items))
	}
}

// tenantGoes deletes the Tenant. New calls with its certificates are refused at once.
func (w *topology) tenantGoes(t *testing.T) {
	t.Helper()
	as := map[string]client.Client{}
	for kind, config := range w.kubeconfigs(t) {
		conn, err := multicluster.NewConn(config, multicluster.AllowLoopback(true))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if as[kind], err = client.New(conn.Config(), client.Options{Scheme: kube.Scheme, Mapper: w.provider.Client.RESTMapper()}); err != nil {
			t.Fatal(err)
		}
	}
	calls := map[string]func() error{
		"slices of the tenant namespace": func() error {
			return as[string(authv1beta1.ControlPlaneIdentityType)].List(t.Context(), &authv1beta1.ResourceSliceList{}, client.InNamespace(w.ProviderTenant))
		},
		"ShadowPods of the twin namespace": func() error {
			return as[string(authv1beta1.ResourceSliceIdentityType)].List(t.Context(), &offv1beta1.ShadowPodList{}, client.InNamespace(w.Twin()))
		},
		"a Secret of the twin namespace": func() error {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.Twin(), Name: "late"}}
			return as[string(authv1beta1.ResourceSliceIdentityType)].Create(t.Context(), secret, client.DryRunAll)
		},
	}
	for what, call := range calls {
		if err := call(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := w.provider.Client.Delete(t.Context(), &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: w.ProviderTenant, Name: w.Consumer}}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	testkit.Eventually(t, time.Minute, func() error {
		for what, call := range calls {
			if err := call(); !apierrors.IsForbidden(err) {
				return fmt.Errorf("%s: %w", what, cmp.Or(err, errors.New("still granted")))
			}
		}
		return nil
	})
	t.Logf("all is refused %s after the Tenant was deleted", time.Since(start).Round(time.Millisecond))
}
