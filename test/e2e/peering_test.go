// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"text/template"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

//go:embed testdata/peering.yaml
var peeringYAML string

// A document is one manifest of a story and the cluster that it is applied to.
type document struct {
	cluster  *cluster
	manifest string
}

// peering names everything in one story, so that stories do not meet.
type peering struct {
	Consumer, Provider             string
	ConsumerTenant, ProviderTenant string
	User, Kubeconfig               string
	Slice, Namespace               string
}

func newPeering(t *testing.T, name string) *peering {
	t.Helper()
	p := &peering{
		Consumer: consumer.id, Provider: provider.id,
		ConsumerTenant: name + "-to-provider", ProviderTenant: name + "-from-consumer",
		User: name + "-user", Slice: name, Namespace: name + "-app",
	}
	p.Kubeconfig = base64.StdEncoding.EncodeToString(credentials(t, provider, p.User))
	return p
}

// twin is the name of the story's namespace in the provider.
func (p *peering) twin() string { return p.Namespace + "-" + p.Consumer }

// documents are the guide's manifests in the guide's order.
func (p *peering) documents(t *testing.T) []document {
	t.Helper()
	var text bytes.Buffer
	if err := template.Must(template.New("peering").Parse(peeringYAML)).Execute(&text, p); err != nil {
		t.Fatal(err)
	}
	var docs []document
	for part := range strings.SplitSeq(text.String(), "\n---\n") {
		d := document{cluster: consumer, manifest: part}
		if strings.Contains(part, "# cluster: provider") {
			d.cluster = provider
		}
		docs = append(docs, d)
	}
	return docs
}

// credentials are what an administrator of the provider hands out: a certificate for user, in a kubeconfig.
func credentials(t *testing.T, c *cluster, user string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: user}}, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["provider"] = &clientcmdapi.Cluster{Server: c.config.Host, CertificateAuthorityData: c.config.CAData}
	cfg.AuthInfos[user] = &clientcmdapi.AuthInfo{
		ClientCertificateData: sign(t, c, user, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})),
		ClientKeyData:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
	cfg.Contexts["provider"] = &clientcmdapi.Context{Cluster: "provider", AuthInfo: user}
	cfg.CurrentContext = "provider"
	out, err := clientcmd.Write(*cfg)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sign has the cluster issue a client certificate, the way `kubectl certificate approve` does.
func sign(t *testing.T, c *cluster, user string, request []byte) []byte {
	t.Helper()
	csrs := kubernetes.NewForConfigOrDie(c.config).CertificatesV1().CertificateSigningRequests()
	csr, err := csrs.Create(t.Context(), &certv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: user + "-"},
		Spec: certv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certv1.KubeAPIServerClientSignerName, Usages: []certv1.KeyUsage{certv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certv1.CertificateSigningRequestCondition{
		Type: certv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", LastUpdateTime: metav1.Now(),
	})
	if _, err := csrs.UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = csrs.Delete(ctx, csr.Name, metav1.DeleteOptions{})
	})
	eventually(t, "a certificate for "+user, func(ctx context.Context) error {
		if csr, err = csrs.Get(ctx, csr.Name, metav1.GetOptions{}); err == nil && len(csr.Status.Certificate) == 0 {
			err = errors.New("not signed yet")
		}
		return err
	})
	return csr.Status.Certificate
}

// node waits for the virtual node of the peering.
func (p *peering) node(t *testing.T) *corev1.Node {
	t.Helper()
	var node corev1.Node
	eventually(t, "node "+p.Slice+" to be Ready", func(ctx context.Context) error {
		if err := consumer.client.Get(ctx, client.ObjectKey{Name: p.Slice}, &node); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", node.Status.Conditions)
	})
	return &node
}

// end takes the peering down the way a user does, and waits until both sides have forgotten it.
func (p *peering) end(t *testing.T) {
	t.Helper()
	consumer.mustKubectl(t, "delete", "namespaceoffloading", "offloading", "-n", p.Namespace, "--ignore-not-found", "--timeout=2m")
	consumer.mustKubectl(t, "delete", "rslice", p.Slice, "-n", p.ConsumerTenant, "--ignore-not-found", "--timeout=2m")
	consumer.mustKubectl(t, "delete", "secret", "cplane-secret", "-n", p.ConsumerTenant, "--ignore-not-found", "--timeout=2m")
	provider.mustKubectl(t, "delete", "tenant", "my-tenant", "-n", p.ProviderTenant, "--ignore-not-found", "--timeout=2m")
	consumer.mustKubectl(t, "delete", "namespace", p.ConsumerTenant, p.Namespace, "--ignore-not-found", "--timeout=2m")
	provider.mustKubectl(t, "delete", "namespace", p.ProviderTenant, "--ignore-not-found", "--timeout=2m")
}
