// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

// certified returns the stored key pair's private part and a certificate for it.
func certified(t *testing.T, secret *corev1.Secret) (private, certificate []byte) {
	t.Helper()
	key, err := pki.ParseKey(secret.Data[names.PrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	return secret.Data[names.PrivateKeyKey], certificateFor(t, key)
}

func certificateFor(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

type identityLab struct {
	c               *testkit.ControlPlane
	liqo, ns, peer  string
	private, cert   []byte // of the peer's key pair
	ownKey, ownCert []byte // of the cluster's key pair
}

func newIdentityLab(t *testing.T) *identityLab {
	t.Helper()
	return startIdentityLab(t, IdentityOptions{FollowInterval: time.Nanosecond, Networking: true})
}

// startIdentityLab starts the controllers with these options, to which it adds those of the lab.
func startIdentityLab(t *testing.T, options IdentityOptions) *identityLab {
	t.Helper()
	l := &identityLab{c: cluster(t), peer: testkit.UniqueID()}
	l.liqo = liqoNamespace(t, l.c)
	l.ns = tenantNamespace(t, l.c, l.peer)
	options.AllowLoopbackPeers, options.ClusterID, options.LiqoNamespace = true, "rome", l.liqo
	run(t, l.c, func(mgr ctrl.Manager) error {
		return errors.Join(SetupKeys(mgr, KeysOptions{LiqoNamespace: l.liqo}), SetupIdentity(mgr, options))
	})
	l.private, l.cert = certified(t, keyPair(t, l.c, l.liqo, names.PeerKeysSecret(l.peer)))
	l.ownKey, l.ownCert = certified(t, keyPair(t, l.c, l.liqo, names.KeysSecret))
	return l
}

func (l *identityLab) identity(name string, kind authv1beta1.IdentityType, cert []byte) *authv1beta1.Identity {
	return &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: name},
		Spec: authv1beta1.IdentitySpec{
			ClusterID: liqov1beta1.ClusterID(l.peer),
			Type:      kind,
			AuthParams: authv1beta1.AuthParams{
				APIServer: "https://provider:6443", CA: cert, SignedCRT: cert, ProxyURL: new("http://10.0.0.1:8118"),
			},
		},
	}
}

// kubeconfig waits for the Secret that the Identity refers to.
func (l *identityLab) kubeconfig(t *testing.T, identity *authv1beta1.Identity) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	testkit.Eventually(t, patient, func() error {
		got := &authv1beta1.Identity{}
		if err := l.c.Client.Get(t.Context(), client.ObjectKeyFromObject(identity), got); err != nil {
			return err
		}
		if got.Status.KubeconfigSecretRef == nil {
			return errors.New("the status names no Secret")
		}
		return l.c.Client.Get(t.Context(), client.ObjectKey{Namespace: l.ns, Name: got.Status.KubeconfigSecretRef.Name}, secret)
	})
	return secret
}

func parse(t *testing.T, secret *corev1.Secret) *pki.Kubeconfig {
	t.Helper()
	config, err := pki.ParseKubeconfig(secret.Data[names.KubeconfigKey])
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestIdentityKubeconfig(t *testing.T) {
	l := newIdentityLab(t)
	slice := l.identity("resourceslice-test", authv1beta1.ResourceSliceIdentityType, l.cert)
	testkit.Create(t, l.c.Client, slice)
	secret := l.kubeconfig(t, slice)
	if secret.Name != "kubeconfig-resourceslice-test" || !metav1.IsControlledBy(secret, slice) {
		t.Errorf("the Secret is %s with owners %v", secret.Name, secret.OwnerReferences)
	}
	if diff := cmp.Diff(map[string]string{names.RemoteClusterID: l.peer, names.IdentityType: "ResourceSlice"}, secret.Labels); diff != "" {
		t.Error(diff)
	}
	if _, ok := secret.Annotations[names.RemoteTenantNamespace]; ok {
		t.Error("the credentials of a slice name the tenant namespace")
	}
	want := &pki.Kubeconfig{
		Server: "https://provider:6443", CA: l.cert, ProxyURL: "http://10.0.0.1:8118",
		Certificate: l.cert, Key: l.private, Cluster: l.peer, User: "resourceslice-test",
	}
	if diff := cmp.Diff(want, parse(t, secret)); diff != "" {
		t.Error(diff)
	}
	testkit.WantEvent(t, l.c, slice, "KubeconfigEnsured", secret.Name)

	t.Run("that follows its certificate", func(t *testing.T) {
		l.renewCertificate(t, slice)
	})
	t.Run("that is made again", func(t *testing.T) {
		l.deleteKubeconfig(t, slice)
	})
}

// renewCertificate gives an Identity of a slice another certificate, and waits until the kubeconfig has it.
func (l *identityLab) renewCertificate(t *testing.T, slice *authv1beta1.Identity) {
	t.Helper()
	_, renewed := certified(t, keyPair(t, l.c, l.liqo, names.PeerKeysSecret(l.peer)))
	testkit.Update(t, l.c.Client, slice, func(i *authv1beta1.Identity) { i.Spec.AuthParams.SignedCRT = renewed })
	testkit.Eventually(t, patient, func() error {
		if !bytes.Equal(parse(t, l.kubeconfig(t, slice)).Certificate, renewed) {
			return errors.New("the kubeconfig has the old certificate")
		}
		return nil
	})
}

// deleteKubeconfig deletes the kubeconfig of an Identity, and waits for another one.
func (l *identityLab) deleteKubeconfig(t *testing.T, identity *authv1beta1.Identity) {
	t.Helper()
	deleted := l.kubeconfig(t, identity)
	if err := l.c.Client.Delete(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patient, func() error {
		if l.kubeconfig(t, identity).UID == deleted.UID {
			return errors.New("the kubeconfig is still the same")
		}
		return nil
	})
}

func TestIdentityNamespace(t *testing.T) {
	l := newIdentityLab(t)
	for name, test := range map[string]struct{ key, cert []byte }{
		"with the key pair of the peer":    {l.private, l.cert},
		"with the key pair of the cluster": {l.ownKey, l.ownCert},
	} {
		t.Run(name, func(t *testing.T) {
			identity := l.identity(fmt.Sprintf("controlplane-%d", time.Now().UnixNano()), authv1beta1.ControlPlaneIdentityType, test.cert)
			identity.Spec.Namespace = new("tenant-there")
			testkit.Create(t, l.c.Client, identity)
			secret := l.kubeconfig(t, identity)
			if got := secret.Annotations[names.RemoteTenantNamespace]; got != "tenant-there" {
				t.Errorf("the annotation is %q", got)
			}
			config := parse(t, secret)
			if config.Namespace != "tenant-there" || !cmp.Equal(config.Key, test.key) {
				t.Errorf("the kubeconfig has namespace %q or the wrong key", config.Namespace)
			}
		})
	}
}

func TestIdentityUnusable(t *testing.T) {
	l := newIdentityLab(t)
	const slice = authv1beta1.ResourceSliceIdentityType
	for name, test := range map[string]struct {
		edit        func(*authv1beta1.Identity)
		reason, why string
	}{
		"of another cluster":           {reason: "WrongNamespace", why: "another", edit: func(i *authv1beta1.Identity) { i.Spec.ClusterID = "another" }},
		"without certificate":          {reason: "InvalidAuthParams", why: "signedCRT", edit: func(i *authv1beta1.Identity) { i.Spec.AuthParams.SignedCRT = nil }},
		"to a server without TLS":      {reason: "InvalidAuthParams", why: "https", edit: func(i *authv1beta1.Identity) { i.Spec.AuthParams.APIServer = "http://provider" }},
		"by a proxy that is none":      {reason: "InvalidAuthParams", why: "proxy-url", edit: func(i *authv1beta1.Identity) { i.Spec.AuthParams.ProxyURL = new("file:///etc/shadow") }},
		"to the metadata of the cloud": {reason: "InvalidAuthParams", why: "link-local", edit: func(i *authv1beta1.Identity) { i.Spec.AuthParams.APIServer = "https://169.254.169.254" }},
		"to any address":               {reason: "InvalidAuthParams", why: "unspecified", edit: func(i *authv1beta1.Identity) { i.Spec.AuthParams.APIServer = "https://0.0.0.0:6443" }},
		"by a proxy that is inside":    {reason: "InvalidAuthParams", why: "link-local", edit: func(i *authv1beta1.Identity) { i.Spec.AuthParams.ProxyURL = new("http://169.254.169.254") }},
		"with a chain without end": {reason: "InvalidAuthParams", why: "bytes, more than", edit: func(i *authv1beta1.Identity) {
			i.Spec.AuthParams.SignedCRT = bytes.Repeat(i.Spec.AuthParams.SignedCRT, 600)
		}},
		"with a CA that is none": {reason: "InvalidAuthParams", why: "certificate-authority", edit: func(i *authv1beta1.Identity) { i.Spec.AuthParams.CA = []byte("x") }},
		"of a control plane, without namespace": {reason: "InvalidAuthParams", why: "spec.namespace", edit: func(i *authv1beta1.Identity) {
			i.Spec.Type = authv1beta1.ControlPlaneIdentityType
		}},
		"of AWS": {reason: "InvalidAuthParams", why: "AWS", edit: func(i *authv1beta1.Identity) {
			i.Spec.AuthParams.SignedCRT, i.Spec.AuthParams.AwsConfig = nil, &authv1beta1.AwsConfig{}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			identity := l.identity(fmt.Sprintf("bad-%d", time.Now().UnixNano()), slice, l.cert)
			test.edit(identity)
			testkit.Create(t, l.c.Client, identity)
			testkit.WantEvent(t, l.c, identity, test.reason, test.why)
		})
	}
	t.Run("certificate for other key is awaited", func(t *testing.T) {
		identity := l.identity("early", slice, l.ownCert) // a slice never uses the cluster's key pair
		testkit.Create(t, l.c.Client, identity)
		testkit.Update(t, l.c.Client, identity, func(i *authv1beta1.Identity) { i.Spec.AuthParams.SignedCRT = l.cert })
		if got := parse(t, l.kubeconfig(t, identity)); !cmp.Equal(got.Key, l.private) {
			t.Error("the kubeconfig has another key")
		}
	})
}
