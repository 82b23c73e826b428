// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// ControlPlane is a Kubernetes cluster without nodes: an API server and the controllers that tests asked for.
type ControlPlane struct {
	// Config has all rights.
	Config *rest.Config
	// Client has all rights and no cache. The rights of a binding that it makes are in force at once.
	Client client.WithWatch

	lab         *lab
	assets      string
	name        string
	port        int
	apiserver   *process
	controllers []string
	managers    int
}

// startLimit is generous: a busy machine takes many times the usual five seconds.
const startLimit = 2 * time.Minute

func newControlPlane(l *lab, name, assets string) (*ControlPlane, error) {
	port, err := l.port()
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{lab: l, assets: assets, name: name, port: port}
	if c.Config, err = c.user("admin", "system:masters"); err != nil {
		return nil, fmt.Errorf("making the administrator's certificate: %w", err)
	}
	if err := c.startAPIServer(); err != nil {
		return nil, err
	}
	if err := installCRDs(c.Config); err != nil {
		return nil, fmt.Errorf("installing the CRDs: %w", err)
	}
	admin, err := client.NewWithWatch(c.Config, client.Options{Scheme: kube.Scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	c.Client = settling(admin)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}
	if err := client.IgnoreAlreadyExists(c.Client.Create(context.Background(), account)); err != nil {
		return nil, fmt.Errorf("making the default service account: %w", err)
	}
	return c, nil
}

func (c *ControlPlane) startAPIServer() error {
	file := c.lab.authority.file
	etcd, err := c.lab.lagging()
	if err != nil {
		return err
	}
	p, err := c.start(c.name+"-apiserver", "kube-apiserver",
		"--etcd-servers="+etcd, "--etcd-prefix=/"+c.name,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.port),
		"--tls-cert-file="+file(servingCert), "--tls-private-key-file="+file(servingKey),
		"--client-ca-file="+file(caCertFile),
		"--kubelet-client-certificate="+file(kubeletCert), "--kubelet-client-key="+file(kubeletKey), "--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file="+file(frontCACert), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+file(frontCert), "--proxy-client-key-file="+file(frontKey),
		"--authorization-mode=Node,RBAC", "--allow-privileged=true",
		"--service-cluster-ip-range=10.96.0.0/16",
		// Nothing routes those addresses here: a webhook called by one would be called beyond this machine.
		"--enable-aggregator-routing=true",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+file(accountsPub), "--service-account-signing-key-file="+file(accountsKey),
		"--profiling=false", "--endpoint-reconciler-type=none")
	if err != nil {
		return err
	}
	c.apiserver = p
	return c.waitReady()
}

// start runs a program of the cluster's version.
func (c *ControlPlane) start(name, binary string, args ...string) (*process, error) {
	return c.lab.run(name, nil, filepath.Join(c.assets, binary), args...)
}

func (c *ControlPlane) waitReady() error {
	probe, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	var dead error
	err = retry(context.Background(), startLimit, func() error {
		if dead = c.apiserver.alive(); dead != nil {
			return nil
		}
		_, err := probe.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(context.Background())
		return err
	})
	if err := errors.Join(dead, err); err != nil {
		return fmt.Errorf("waiting for the API server: %w\n%s", err, tail(c.apiserver.log))
	}
	return nil
}

// StopAPIServer kills the API server, as an outage does. What it stored stays.
func (c *ControlPlane) StopAPIServer(t testing.TB) {
	t.Helper()
	c.apiserver.kill()
	t.Cleanup(func() {
		if c.apiserver.alive() != nil {
			if err := c.startAPIServer(); err != nil {
				t.Errorf("starting the API server again: %v", err)
			}
		}
	})
}

// StartAPIServer starts the API server again, at the same address.
func (c *ControlPlane) StartAPIServer(t testing.TB) {
	t.Helper()
	if err := c.startAPIServer(); err != nil {
		t.Fatalf("starting the API server again: %v", err)
	}
}

// User returns the configuration of a user with a new client certificate. A new user has no rights.
func (c *ControlPlane) User(t testing.TB, name string, groups ...string) *rest.Config {
	t.Helper()
	cfg, err := c.user(name, groups...)
	if err != nil {
		t.Fatalf("making a certificate for %s: %v", name, err)
	}
	return cfg
}

// ServingCertificate returns a certificate for 127.0.0.1 that the authority of the cluster signed, as kubelets have.
func (c *ControlPlane) ServingCertificate(t testing.TB) tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(c.lab.authority.file(servingCert), c.lab.authority.file(servingKey))
	if err != nil {
		t.Fatalf("reading the serving certificate: %v", err)
	}
	return pair
}

func (c *ControlPlane) user(name string, groups ...string) (*rest.Config, error) {
	cert, key, err := c.lab.authority.client(name, groups)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            fmt.Sprintf("https://127.0.0.1:%d", c.port),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.lab.authority.pem, CertData: cert, KeyData: key},
		QPS:             -1,
	}, nil
}

// Kubeconfig encodes a configuration made by User, or the administrator's, as a kubeconfig file.
func Kubeconfig(t testing.TB, cfg *rest.Config) []byte {
	t.Helper()
	data, err := kubeconfig(cfg)
	if err != nil {
		t.Fatalf("encoding a kubeconfig: %v", err)
	}
	return data
}

func kubeconfig(cfg *rest.Config) ([]byte, error) {
	const name = "testkit"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: cfg.Host, CertificateAuthorityData: cfg.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData, Token: cfg.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
}

// runControllers starts those controllers that do not run yet, with more arguments.
func (c *ControlPlane) runControllers(names []string, more ...string) error {
	var missing []string
	for _, name := range names {
		if !slices.Contains(c.controllers, name) && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	config, err := kubeconfig(c.Config)
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	path := filepath.Join(c.lab.dir, c.name+".kubeconfig")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	file := c.lab.authority.file
	c.managers++
	_, err = c.start(fmt.Sprintf("%s-controllers%d", c.name, c.managers), "kube-controller-manager", append(more,
		"--kubeconfig="+path, "--controllers="+strings.Join(missing, ","),
		"--leader-elect=false", "--secure-port=0", "--profiling=false",
		"--kube-api-qps=500", "--kube-api-burst=1000",
		"--service-account-private-key-file="+file(accountsKey), "--root-ca-file="+file(caCertFile),
		"--cluster-signing-cert-file="+file(caCertFile), "--cluster-signing-key-file="+file(caKeyFile))...)
	if err != nil {
		return err
	}
	c.controllers = append(c.controllers, missing...)
	return nil
}
