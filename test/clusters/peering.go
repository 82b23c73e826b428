// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package clusters

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
	"fmt"
	"strings"
	"text/template"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

//go:embed peering.yaml
var peeringYAML string

// Peering names everything in the guide's manifests, so that several can live side by side.
type Peering struct {
	Consumer, Provider             string
	ConsumerTenant, ProviderTenant string
	User, Kubeconfig               string
	Slice, Namespace, Tenant       string
	CPU, Memory, Pods              string
	Strategy                       string
}

// Document is one manifest and the ID of the cluster that it is applied to.
type Document struct{ Cluster, Manifest string }

// NewPeering gets the credentials of a peering from the provider; everything else about it is in its documents.
func NewPeering(ctx context.Context, consumer, provider *Cluster, name string) (*Peering, error) {
	p := &Peering{
		Consumer: consumer.ID, Provider: provider.ID,
		ConsumerTenant: name + "-to-provider", ProviderTenant: name + "-from-consumer",
		User: name + "-user", Slice: name, Namespace: name + "-app", Tenant: "my-tenant",
		CPU: "20", Memory: "128Gi", Strategy: "LocalAndRemote",
	}
	kubeconfig, err := provider.Credentials(ctx, p.User)
	p.Kubeconfig = base64.StdEncoding.EncodeToString(kubeconfig)
	return p, err
}

// Twin is the name of the peering's namespace in the provider.
func (p *Peering) Twin() string { return p.Namespace + "-" + p.Consumer }

// Documents are the guide's manifests in the guide's order.
func (p *Peering) Documents() ([]Document, error) {
	var text bytes.Buffer
	if err := template.Must(template.New("peering").Parse(peeringYAML)).Execute(&text, p); err != nil {
		return nil, err
	}
	var docs []Document
	for part := range strings.SplitSeq(text.String(), "\n---\n") {
		d := Document{Cluster: p.Consumer, Manifest: part}
		if strings.Contains(part, "# cluster: provider") {
			d.Cluster = p.Provider
		}
		docs = append(docs, d)
	}
	return docs, nil
}

// Credentials are what an administrator of a provider hands out: a certificate for user, in a kubeconfig.
func (c *Cluster) Credentials(ctx context.Context, user string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: user}}, key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	certificate, err := c.sign(ctx, user, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	if err != nil {
		return nil, fmt.Errorf("getting a certificate for %s from %s: %w", user, c.ID, err)
	}
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["provider"] = &clientcmdapi.Cluster{Server: c.Config.Host, CertificateAuthorityData: c.Config.CAData}
	cfg.AuthInfos[user] = &clientcmdapi.AuthInfo{
		ClientCertificateData: certificate, ClientKeyData: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
	cfg.Contexts["provider"] = &clientcmdapi.Context{Cluster: "provider", AuthInfo: user}
	cfg.CurrentContext = "provider"
	return clientcmd.Write(*cfg)
}

// sign has the cluster issue a client certificate, the way `kubectl certificate approve` does.
func (c *Cluster) sign(ctx context.Context, user string, request []byte) ([]byte, error) {
	clients, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	csrs := clients.CertificatesV1().CertificateSigningRequests()
	csr, err := csrs.Create(ctx, &certv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: user + "-"},
		Spec: certv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certv1.KubeAPIServerClientSignerName, Usages: []certv1.KeyUsage{certv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = csrs.Delete(ctx, csr.Name, metav1.DeleteOptions{})
	}()
	csr.Status.Conditions = append(csr.Status.Conditions, certv1.CertificateSigningRequestCondition{
		Type: certv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", LastUpdateTime: metav1.Now(),
	})
	if _, err := csrs.UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{}); err != nil {
		return nil, err
	}
	var certificate []byte
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		now, err := csrs.Get(ctx, csr.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		certificate = now.Status.Certificate
		return len(certificate) > 0, nil
	})
	return certificate, err
}
