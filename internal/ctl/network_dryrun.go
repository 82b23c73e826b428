// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/await"
	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

// Headings of the manifests of each cluster in a dry run.
const (
	toApply  = "%s cluster: %s"
	toDelete = "%s cluster: %s, to be deleted"
)

func (c *cli) previewInit(ctx context.Context, o *networkOptions, both []*peerConfig) error {
	if err := demandToTell(ctx, both); err != nil {
		return err
	}
	pages, err := c.previewTold(ctx, both)
	if err != nil {
		return err
	}
	return c.printPages(o.outputFormat(), toApply, pages...)
}

// previewTold returns the Configurations that exchangeConfigurations would write, and fails if they would be unusable.
func (c *cli) previewTold(ctx context.Context, both []*peerConfig) (pages []*manifestPage, err error) {
	for _, t := range both {
		p := &manifestPage{Cluster: t.Cluster}
		if err := p.addNamespace(ctx, c, t.want); err != nil {
			return nil, err
		}
		if !t.hasConfiguration(ctx) { // otherwise nothing is written, and no permission to write is needed
			if err := p.dryRunCreate(ctx, c, t.want); err != nil {
				return nil, err
			}
		}
		if t.have != nil && !saysSame(t.have, t.want) {
			t.Warn("The Configuration %s names %s: it would name %s", client.ObjectKeyFromObject(t.have), networksOf(t.have), networksOf(t.want))
		}
		p.addManifest(c, t.want, "")
		pages = append(pages, p)
	}
	for _, t := range both {
		if err := t.predictConfiguration(ctx); err != nil {
			return nil, t.wrapWithCluster(err)
		}
	}
	return pages, nil
}

// predictConfiguration fails if no local prefixes are free for the networks of the other cluster, as far as predictable.
func (t *peerConfig) predictConfiguration(ctx context.Context) error {
	if t.have != nil && saysSame(t.have, t.want) {
		err := checkConfigured(ctx, t.kube, t.have)
		if _, pending := errors.AsType[await.Pending](err); pending {
			return nil
		}
		return err
	}
	land, err := t.readRanges(ctx)
	if err != nil {
		t.Warn("Whether there is room for the networks of the other cluster was not looked at: %s", describeError(err))
		return nil
	}
	return land.freeRange(t.want.Spec.Remote.CIDR)
}

// previewConnect returns the manifests for both clusters by which the tunnel comes up without further commands. Keys are included,
// because keys that gateways will generate are unknown.
func (c *cli) previewConnect(ctx context.Context, o *connectOptions, both []*peerConfig, t *gatewayPair) error {
	pages, err := c.connectPages(ctx, o, both, t)
	if err != nil {
		return err
	}
	return c.printPages(o.outputFormat(), toApply, pages...)
}

func (c *cli) connectPages(ctx context.Context, o *connectOptions, both []*peerConfig, t *gatewayPair) ([]*manifestPage, error) {
	if !both[0].hasConfiguration(ctx) || !both[1].hasConfiguration(ctx) {
		if err := demandToTell(ctx, both); err != nil {
			return nil, err
		}
	}
	pages, err := c.previewTold(ctx, both)
	if err != nil {
		return nil, err
	}
	local, remote := pages[0], pages[1]
	listens, err := remote.prepareGateway(ctx, c, t.server, !o.keysNotToShare)
	if err != nil {
		return nil, err
	}
	dials, err := local.prepareGateway(ctx, c, t.client, !o.keysNotToShare)
	if err != nil {
		return nil, err
	}
	endpoint, err := o.predictEndpoint(listens.now)
	if err != nil {
		return nil, err
	}
	note := ""
	if len(endpoint.Addresses) == 0 {
		note = "Where the server is will be known when it runs. Once one of the clusters has credentials of the other, it is told by itself."
		local.Warn("The GatewayClient dials nobody before it is told where the server is, by the replicator of a cluster that has credentials of the other, " +
			"or by --gw-client-address with --gw-client-port")
	}
	t.client.dialer.Spec.Endpoint = endpoint
	if err := remote.addGateway(ctx, c, listens, ""); err != nil {
		return nil, err
	}
	if err := local.addGateway(ctx, c, dials, note); err != nil {
		return nil, err
	}
	if !o.keysNotToShare {
		if err := errors.Join(remote.addKey(ctx, c, listens, dials.public, local.id), local.addKey(ctx, c, dials, listens.public, remote.id)); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

// predictEndpoint returns the endpoint that the client will dial, the zero value while it is unknown.
func (o *connectOptions) predictEndpoint(now *gateway) (networkingv1beta1.EndpointStatus, error) {
	at := networkingv1beta1.EndpointStatus{Protocol: new(corev1.ProtocolUDP)}
	wanted := o.server.newObject(client.ObjectKey{}, "", corev1.ObjectReference{}, 0).Spec.Endpoint
	switch {
	case now != nil && now.server.Status.Endpoint != nil && equality.Semantic.DeepEqual(now.server.Spec.Endpoint, wanted):
		at = *now.server.Status.Endpoint.DeepCopy()
	case o.server.serviceType == "NodePort":
		at.Port = o.server.nodePort
	default:
		at.Port = o.server.port
		if o.server.loadBalancerIP != "" {
			at.Addresses = []string{o.server.loadBalancerIP}
		}
	}
	if o.address != "" {
		at.Addresses = []string{o.address}
	}
	if o.port != 0 {
		at.Port, at.Ports = o.port, nil
	}
	switch {
	case o.address != "" && at.Port == 0 && len(at.Ports) == 0:
		return at, out.Fail("the port of the server is not known before it runs: add --gw-client-port, or --gw-server-service-nodeport")
	case o.port != 0 && len(at.Addresses) == 0:
		return at, out.Fail("the address of the server is not known before it runs: add --gw-client-address")
	case len(at.Addresses) == 0:
		return networkingv1beta1.EndpointStatus{}, nil
	}
	return at, nil
}

// prepared is a gateway to apply, with its keys.
type prepared struct {
	*gateway
	// now is the existing gateway, nil for none.
	now    *gateway
	public [32]byte
	// secret holds new keys, nil if keys exist or the gateway generates them.
	secret *corev1.Secret
	known  string // the object with the existing keys
}

func (p *manifestPage) prepareGateway(ctx context.Context, c *cli, gw *gateway, withKeys bool) (*prepared, error) {
	out := &prepared{gateway: gw}
	kind := server
	if gw.dialer != nil {
		kind = dialer
	}
	now := newGateway(kind, client.ObjectKeyFromObject(gw.Object))
	err := p.kube.Get(ctx, client.ObjectKeyFromObject(gw.Object), now.Object)
	if client.IgnoreNotFound(err) != nil {
		return nil, p.wrapWithCluster(fmt.Errorf("reading the %s: %w", gw.kindAndName(), err))
	}
	if err == nil {
		out.now = now
		*gw.secretRef() = *now.secretRef() // the manifest must be complete for Git
	}
	if err := p.addNamespace(ctx, c, gw.Object); err != nil || !withKeys {
		return out, err
	}
	return out, p.wrapWithCluster(p.findKeys(ctx, out))
}

// findKeys finds the keys that the gateway has or would use, and generates keys if there are none.
func (p *manifestPage) findKeys(ctx context.Context, gw *prepared) error {
	key := client.ObjectKey{Namespace: gw.GetNamespace(), Name: cmp.Or(gw.secretRef().Name, names.Gateway(gw.GetName()))}
	peer := gw.GetLabels()[names.RemoteClusterID]
	given, err := p.givenKeys(ctx, gw, key)
	switch known := gw.now != nil && gw.now.secretReference() != nil; {
	case err == nil:
	case !apierrors.IsForbidden(err) || gw.secretRef().Name != "" || known && len(gw.now.reportedPublicKey()) != len(gw.public):
		return err
	case known: // a peering user may not read the keys
		gw.public, gw.known = [32]byte(gw.now.reportedPublicKey()), gw.now.secretReference().Name
		return nil
	default:
		p.Warn("Whether the %s has keys was not looked at, and new ones come along: to read Secrets is forbidden, and to apply this takes more rights", gw.kindAndName())
	}
	if given != nil {
		if gw.public, err = pki.CheckTunnelSecret(peer, given); err != nil {
			return out.Fail("%w", err)
		}
		gw.known = given.Name
		if gw.now == nil || !metav1.IsControlledBy(given, gw.now) { // an owned Secret is deleted with the gateway
			gw.secretRef().Name = given.Name
		}
		return nil
	}
	private, public, err := pki.NewTunnelKey()
	if err != nil {
		return err
	}
	gw.public = public
	gw.secret = &corev1.Secret{
		ObjectMeta: peerMeta(key, peer),
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{names.PrivateKeyKey: private[:], names.PublicKeyKey: public[:]},
	}
	gw.secret.Labels[names.GatewayResource] = "true"
	gw.secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	gw.secretRef().Name = key.Name
	return nil
}

// givenKeys returns the Secret that the gateway would use, nil for none: the one in its spec, else the only one with the label, else
// the one with the default name. Secrets that will be garbage-collected are ignored.
func (p *manifestPage) givenKeys(ctx context.Context, gw *prepared, key client.ObjectKey) (*corev1.Secret, error) {
	if gw.secretRef().Name == "" {
		labelled, err := p.labelledKeys(ctx, gw)
		if apierrors.IsForbidden(err) && gw.now != nil && gw.now.secretReference() != nil {
			key.Name = gw.now.secretReference().Name // the gateway looked for this name
		} else if err != nil && !apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("looking for keys: %w", err)
		}
		if only, err := pki.OnlyTunnelSecret(gw.GetLabels()[names.RemoteClusterID], gw.keyOwner(), labelled); err != nil {
			return nil, out.Fail("%w", err)
		} else if only != nil {
			return only, nil
		}
	}
	secret := &corev1.Secret{}
	if err := p.kube.Get(ctx, key, secret); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("looking for keys: %w", err)
	}
	goes, err := p.replacesSecret(ctx, secret)
	if err != nil {
		return nil, err
	}
	if goes { // new keys with the same name would be deleted with it
		return nil, out.Fail("the Secret %s is being deleted: try again when it is gone", key)
	}
	if of := pki.MadeFor(secret); gw.secretRef().Name == "" && of != (pki.Gateway{}) && of != gw.keyOwner() {
		return nil, out.Fail("the Secret %s belongs to %s %s: give them different names", key, of.Kind, of.Name)
	}
	return secret, nil
}

// labelledKeys returns the Secrets with the label of the peer that will not be deleted.
func (p *manifestPage) labelledKeys(ctx context.Context, gw *prepared) (stay []corev1.Secret, err error) {
	var all corev1.SecretList
	if err := p.kube.List(ctx, &all, client.InNamespace(gw.GetNamespace()),
		client.MatchingLabels{names.GatewayResource: "true", names.RemoteClusterID: gw.GetLabels()[names.RemoteClusterID]}); err != nil {
		return nil, err
	}
	for i := range all.Items {
		goes, err := p.replacesSecret(ctx, &all.Items[i])
		if err != nil {
			return nil, err
		}
		if !goes {
			stay = append(stay, all.Items[i])
		}
	}
	return stay, nil
}

// replacesSecret reports whether a Secret is being deleted, or will be garbage-collected because its gateway is gone.
func (p *manifestPage) replacesSecret(ctx context.Context, secret *corev1.Secret) (bool, error) {
	of := metav1.GetControllerOf(secret)
	if secret.DeletionTimestamp != nil || of == nil {
		return secret.DeletionTimestamp != nil, nil
	}
	kind, ours := map[string]string{"GatewayServer": server, "GatewayClient": dialer}[of.Kind]
	if !ours {
		return false, nil
	}
	owner := newGateway(kind, client.ObjectKey{Namespace: secret.Namespace, Name: of.Name})
	err := p.kube.Get(ctx, client.ObjectKeyFromObject(owner.Object), owner.Object)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the %s: %w", owner.kindAndName(), err)
	}
	return err != nil || owner.GetUID() != of.UID || owner.GetDeletionTimestamp() != nil, nil
}

func (p *manifestPage) addGateway(ctx context.Context, c *cli, gw *prepared, note string) error {
	rehearsed := gw.gateway
	if gw.secret != nil { // a peering user may not choose keys, and a real run generates none
		rehearsed = gw.deepCopy()
		*rehearsed.secretRef() = corev1.LocalObjectReference{}
		if gw.now != nil {
			*rehearsed.secretRef() = *gw.now.secretRef()
		}
	}
	if err := p.dryRunCreate(ctx, c, rehearsed.Object); err != nil {
		return err
	}
	if gw.secret != nil {
		p.addManifest(c, gw.secret, "New keys, which nothing has yet. They are secret: encrypt this one where others can read it.")
		p.Warn("The Secret %s holds a new private key: encrypt it where others can read it", client.ObjectKeyFromObject(gw.secret))
	}
	if gw.known != "" {
		note = strings.TrimPrefix(note+"\nIts keys are in the Secret "+gw.known+", which is there.", "\n")
	}
	p.addManifest(c, gw.Object, note)
	return nil
}

// addKey adds the PublicKey of the other gateway. An existing PublicKey keeps its name, unless it is deleted with an earlier gateway.
func (p *manifestPage) addKey(ctx context.Context, c *cli, gw *prepared, public [32]byte, other string) error {
	key := newPublicKey(client.ObjectKey{Namespace: gw.GetNamespace(), Name: other}, other, public)
	have, err := p.keysFrom(ctx, other, key.Namespace)
	if err != nil {
		return p.wrapWithCluster(err)
	}
	for i := range have {
		if of := metav1.GetControllerOf(&have[i]); of == nil || (gw.now != nil && of.UID == gw.now.GetUID()) {
			key.Name = have[i].Name
		}
	}
	if err := p.dryRunCreate(ctx, c, key); err != nil {
		return err
	}
	p.addManifest(c, key, "")
	return nil
}

// previewRemoval prints the names of the objects to delete.
func (c *cli) previewRemoval(o *networkOptions, all []*networkRemains) error {
	var pages []*manifestPage
	for _, l := range all {
		n := slices.IndexFunc(pages, func(p *manifestPage) bool { return p.Cluster == l.Cluster })
		if n < 0 {
			n, pages = len(pages), append(pages, &manifestPage{Cluster: l.Cluster})
		}
		for _, obj := range l.found {
			bare, err := nameOnly(obj, l.kube.Scheme())
			if err != nil {
				return err
			}
			pages[n].entries = append(pages[n].entries, pageEntry{obj: bare})
		}
	}
	return c.printPages(o.outputFormat(), toDelete, pages...)
}
