// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

// Kubeconfig is the accepted part of a foreign kubeconfig: the address of the API server and the credentials. No
// field makes its reader open a file, run a program or trust an unknown server.
type Kubeconfig struct {
	// Server is an https URL.
	Server string
	// CA verifies the server's certificate, PEM; empty for the roots of the system.
	CA []byte
	// ProxyURL and TLSServerName are empty for none.
	ProxyURL, TLSServerName string
	// Token authenticates, unless there is a certificate.
	Token string
	// Namespace is the default namespace; it may be empty.
	Namespace string
	// Certificate and Key authenticate, PEM. Both or none are set.
	Certificate, Key []byte
	// Cluster and User are the names of the entries.
	Cluster, User string
}

// contextName is the name of the only context that Encode writes.
const contextName = "default-context"

// ParseKubeconfig parses the current context of a kubeconfig. All fields that would expose this process's files, identity or CPU
// to the author are rejected, with a message for the author. The rest of the file is dropped.
func ParseKubeconfig(data []byte) (*Kubeconfig, error) {
	var config clientcmdv1.Config
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	context, err := currentContext(&config)
	if err != nil {
		return nil, err
	}
	cluster, err := entryNamed(config.Clusters, "cluster", context.Cluster, func(c clientcmdv1.NamedCluster) string { return c.Name })
	if err != nil {
		return nil, err
	}
	user, err := entryNamed(config.AuthInfos, "user", context.AuthInfo, func(u clientcmdv1.NamedAuthInfo) string { return u.Name })
	if err != nil {
		return nil, err
	}
	if err := errors.Join(refuseCluster(&cluster.Cluster), refuseUser(&user.AuthInfo)); err != nil {
		return nil, err
	}
	out := &Kubeconfig{
		Server:        cluster.Cluster.Server,
		CA:            cluster.Cluster.CertificateAuthorityData,
		ProxyURL:      cluster.Cluster.ProxyURL,
		TLSServerName: cluster.Cluster.TLSServerName,
		Token:         user.AuthInfo.Token,
		Namespace:     context.Namespace,
		Certificate:   user.AuthInfo.ClientCertificateData,
		Key:           user.AuthInfo.ClientKeyData,
		Cluster:       cluster.Name,
		User:          user.Name,
	}
	if err := out.checkFields(); err != nil {
		return nil, err
	}
	return out, nil
}

func currentContext(config *clientcmdv1.Config) (*clientcmdv1.Context, error) {
	if config.CurrentContext == "" {
		return nil, errors.New("the kubeconfig has no current-context")
	}
	context, err := entryNamed(config.Contexts, "context", config.CurrentContext, func(c clientcmdv1.NamedContext) string { return c.Name })
	if err != nil {
		return nil, err
	}
	return &context.Context, nil
}

// entryNamed returns the only entry of that name: with two, readers differ on precedence.
func entryNamed[T any](entries []T, kind, name string, nameOf func(T) string) (*T, error) {
	var found *T
	for i := range entries {
		if nameOf(entries[i]) != name {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("the kubeconfig has several %ss named %q", kind, name)
		}
		found = &entries[i]
	}
	if found == nil {
		return nil, fmt.Errorf("the kubeconfig has no %s %q", kind, name)
	}
	return found, nil
}

func refuseCluster(c *clientcmdv1.Cluster) error {
	switch {
	case c.InsecureSkipTLSVerify:
		return errors.New("insecure-skip-tls-verify is not allowed: use certificate-authority-data")
	case c.CertificateAuthority != "":
		return errors.New("certificate-authority names a file: use certificate-authority-data")
	}
	return nil
}

func refuseUser(u *clientcmdv1.AuthInfo) error {
	switch {
	case u.Exec != nil:
		return errors.New("exec runs a program, which is not allowed: use a client certificate or a token")
	case u.AuthProvider != nil:
		return errors.New("auth-provider is not allowed: use a client certificate or a token")
	case u.ClientCertificate != "" || u.ClientKey != "":
		return errors.New("client-certificate and client-key name files: use client-certificate-data and client-key-data")
	case u.TokenFile != "":
		return errors.New("tokenFile names a file: use token")
	case u.Username != "" || u.Password != "":
		return errors.New("username and password are not allowed: use a client certificate or a token")
	case u.Impersonate != "" || u.ImpersonateUID != "" || len(u.ImpersonateGroups) > 0 || len(u.ImpersonateUserExtra) > 0:
		return errors.New("impersonation is not allowed: use credentials of that user")
	}
	return nil
}

func (k *Kubeconfig) checkFields() error {
	if err := checkServer(k.Server); err != nil {
		return err
	}
	if err := CheckProxy(k.ProxyURL); err != nil {
		return err
	}
	if len(k.CA) > 0 {
		if err := checkCertificates(k.CA); err != nil {
			return fmt.Errorf("checking certificate-authority-data: %w", err)
		}
	}
	if k.Namespace != "" && len(validation.IsDNS1123Label(k.Namespace)) > 0 {
		return fmt.Errorf("%q is not the name of a namespace", k.Namespace)
	}
	return k.checkUser()
}

func (k *Kubeconfig) checkUser() error {
	switch {
	case len(k.Certificate) == 0 && len(k.Key) == 0 && k.Token == "":
		return errors.New("the kubeconfig has neither a client certificate nor a token")
	case strings.TrimFunc(k.Token, func(r rune) bool { return r > ' ' && r < 0x7f }) != "":
		return errors.New("the token has characters that a token cannot have")
	case len(k.Certificate) == 0 && len(k.Key) == 0:
		return nil
	case len(k.Certificate) == 0 || len(k.Key) == 0:
		return errors.New("client-certificate-data and client-key-data go together")
	}
	if _, err := tls.X509KeyPair(k.Certificate, k.Key); err != nil {
		return fmt.Errorf("checking the client certificate: %w", err)
	}
	return nil
}

func checkServer(server string) error {
	u, err := url.Parse(server)
	switch {
	case err != nil:
		return errors.New("server is not a URL")
	case u.Scheme != "https":
		return fmt.Errorf("server %q must be an https URL", server)
	case u.Hostname() == "":
		return fmt.Errorf("server %q has no host", server)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("server must be an https URL with a host and perhaps a port and a path, and no more")
	}
	return nil
}

// CheckProxy tells why a proxy cannot stand in a kubeconfig. Empty is none.
func CheckProxy(proxy string) error {
	if proxy == "" {
		return nil
	}
	u, err := url.Parse(proxy)
	if err != nil || u.Hostname() == "" {
		return errors.New("proxy-url is not a URL with a host")
	}
	switch u.Scheme {
	case "http", "https":
		return nil
	case "socks5", "socks5h":
		return errors.New("proxy-url is a SOCKS proxy, through which virtual nodes cannot open streams: use an http or https proxy")
	}
	return errors.New("proxy-url must be an http or https URL")
}

// Encode returns a kubeconfig with one cluster, one user and one context.
func (k Kubeconfig) Encode() ([]byte, error) {
	config := clientcmdv1.Config{
		APIVersion: "v1",
		Kind:       "Config",
		Clusters: []clientcmdv1.NamedCluster{{Name: k.Cluster, Cluster: clientcmdv1.Cluster{
			Server:                   k.Server,
			CertificateAuthorityData: k.CA,
			ProxyURL:                 k.ProxyURL,
			TLSServerName:            k.TLSServerName,
		}}},
		AuthInfos: []clientcmdv1.NamedAuthInfo{{Name: k.User, AuthInfo: clientcmdv1.AuthInfo{
			ClientCertificateData: k.Certificate,
			ClientKeyData:         k.Key,
			Token:                 k.Token,
		}}},
		Contexts: []clientcmdv1.NamedContext{{Name: contextName, Context: clientcmdv1.Context{
			Cluster:   k.Cluster,
			AuthInfo:  k.User,
			Namespace: k.Namespace,
		}}},
		CurrentContext: contextName,
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	return data, nil
}
