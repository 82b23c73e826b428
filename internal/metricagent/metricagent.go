// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package metricagent serves the metrics of the pods of consumers, as measured by the kubelets of this cluster, as the aggregated API
// metrics.liqo.io. Each consumer gets the metrics of its own remote namespaces, under the names of the namespaces in the consumer.
package metricagent

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/servingcert"
)

// Options configure the agent.
type Options struct {
	// Config is the connection to the API server. Its credentials are also for the kubelets.
	Config *rest.Config
	// LiqoNamespace is the namespace of the Service and of the Secret with the certificate.
	LiqoNamespace string
	// Hosts are additional names and addresses of the certificate.
	Hosts []string
	// Host and Port to listen at; the defaults are every address and names.MetricAgentPort.
	Host string
	Port int
	// ReadTimeout and WriteTimeout of one request; 0 is 30 seconds.
	ReadTimeout, WriteTimeout time.Duration
	// SkipKubeletVerify trusts any certificate of a kubelet.
	SkipKubeletVerify bool
	// Accelerators are exported by pods beside the kubelets.
	Accelerators Accelerators
	// Log of the agent.
	Log logr.Logger
}

// scrapeInterval is the minimum time between two requests for one page of one kubelet.
const scrapeInterval = 10 * time.Second

// CachedObjects restricts the cache of the manager to the objects read by the agent.
func CachedObjects() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Namespace{}: {Label: selectLabel(names.RemoteClusterID, selection.Exists)},
		&corev1.Node{}:      {Label: selectLabel(names.NodeType, selection.NotIn, names.NodeTypeVirtualNode), Transform: slimNode},
		&corev1.Pod{}:       {Label: selectLabel(names.ManagedBy, selection.In, names.ManagedByShadowPod), Transform: slimPod},
	}
}

// withoutConsumers selects pods that are not pods of consumers.
var withoutConsumers = selectLabel(names.ManagedBy, selection.NotIn, names.ManagedByShadowPod)

func selectLabel(key string, operator selection.Operator, values ...string) labels.Selector {
	requirement, err := labels.NewRequirement(key, operator, values)
	if err != nil {
		panic(err) // all arguments are constants
	}
	return labels.NewSelector().Add(*requirement)
}

func slimNode(obj any) (any, error) {
	if node, ok := obj.(*corev1.Node); ok {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels},
			Status:     corev1.NodeStatus{Addresses: node.Status.Addresses, Conditions: node.Status.Conditions, DaemonEndpoints: node.Status.DaemonEndpoints},
		}, nil
	}
	return obj, nil
}

func slimPod(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Labels: pod.Labels},
			Spec:       corev1.PodSpec{NodeName: pod.Spec.NodeName},
		}, nil
	}
	return obj, nil
}

// Setup adds the agent to a manager whose cache is restricted to CachedObjects, on every replica.
func Setup(mgr ctrl.Manager, o Options) error {
	for _, kind := range []client.Object{&corev1.Namespace{}, &corev1.Node{}, &corev1.Pod{}} {
		if _, err := mgr.GetCache().GetInformer(context.Background(), kind); err != nil {
			return fmt.Errorf("caching %T: %w", kind, err)
		}
	}
	clients, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return fmt.Errorf("making the client: %w", err)
	}
	kubelets, err := newKubeletClient(o.Config, o.SkipKubeletVerify)
	if err != nil {
		return err
	}
	accelerators, err := newExporters(mgr, o.Accelerators)
	if err != nil {
		return err
	}
	certificate, err := servingcert.Setup(mgr, o.certificateOptions())
	if err != nil {
		return err
	}
	s := &server{options: o, clients: clients, certificate: certificate}
	s.agent = &agent{cluster: mgr.GetClient(), pages: newPageCache(kubelets, scrapeInterval), accelerators: accelerators, log: o.Log}
	if err := mgr.Add(s); err != nil {
		return fmt.Errorf("adding the server: %w", err)
	}
	return nil
}

// certificateOptions returns the options of the serving certificate, whose CA bundle is in the APIService.
func (o Options) certificateOptions() servingcert.Options {
	service := names.MetricAgent + "." + o.LiqoNamespace
	return servingcert.Options{
		Name:   "metric_agent_certificate",
		Secret: metav1.ObjectMeta{Namespace: o.LiqoNamespace, Name: names.MetricAgentCertsSecret},
		Hosts:  append([]string{service + ".svc", names.MetricAgent, service, service + ".svc.cluster.local"}, o.Hosts...),
		Trusting: []servingcert.Trusting{{
			Kind: newAPIService(), Name: names.MetricsAPIService, Bundles: bundlesOf, SetBundle: setBundle,
		}},
	}
}

// newAPIService returns an empty APIService. The Go type would add the module of the aggregator.
func newAPIService() *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	return out
}

func bundlesOf(obj client.Object) [][]byte {
	encoded, _, _ := unstructured.NestedString(obj.(*unstructured.Unstructured).Object, "spec", "caBundle")
	bundle, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		bundle = nil // to be replaced
	}
	return [][]byte{bundle}
}

func setBundle(obj client.Object, bundle []byte) {
	spec, _ := obj.(*unstructured.Unstructured).Object["spec"].(map[string]any)
	spec["caBundle"] = base64.StdEncoding.EncodeToString(bundle)
}

// server serves the aggregated API.
type server struct {
	options     Options
	clients     kubernetes.Interface
	certificate *servingcert.Current
	agent       *agent
}

// NeedLeaderElection returns false: every replica serves.
func (s *server) NeedLeaderElection() bool { return false }

const (
	readHeaderTimeout = 10 * time.Second
	defaultTimeout    = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	shutdownTimeout   = 5 * time.Second
)

// Start serves until ctx ends.
func (s *server) Start(ctx context.Context) error {
	authn, err := newAuthenticator(ctx, s.clients)
	if err != nil {
		return err
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", net.JoinHostPort(s.options.Host, strconv.Itoa(cmp.Or(s.options.Port, names.MetricAgentPort))))
	if err != nil {
		return fmt.Errorf("opening the port of the aggregated API: %w", err)
	}
	timeout := func(d time.Duration) time.Duration {
		if d == 0 {
			return defaultTimeout
		}
		return d
	}
	served := &http.Server{
		Handler:           authenticateRequests(authn, s.agent.newHandler(), s.options.Log),
		ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout,
		ReadTimeout: timeout(s.options.ReadTimeout), WriteTimeout: timeout(s.options.WriteTimeout),
		// The authenticator verifies client certificates, since it follows the authority of the API server.
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert, GetCertificate: s.certificate.GetCertificate},
		ErrorLog:  log.New(io.Discard, "", 0), // every port scanner would cause a line
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		_ = served.Shutdown(leave)
	})
	if err := served.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serving the aggregated API: %w", err)
	}
	<-ended
	return nil
}
