// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/policy"
)

const (
	// peeringUserLife is the validity of the certificate of a peering user: peering takes a minute, and certificates cannot be revoked.
	peeringUserLife = 24 * time.Hour
	// shortestLife is the shortest validity of certificates signed by Kubernetes.
	shortestLife = 10 * time.Minute
	longestLife  = 365 * 24 * time.Hour
)

type peeringUserOptions struct {
	*cluster.Placement
	cluster.DryRunOptions
	consumer, compatible string
	life, timeout        time.Duration
}

// GeneratePeeringUser returns the command "generate peeringuser".
func GeneratePeeringUser(c *cluster.Session, at *cluster.Placement) *cobra.Command {
	o := &peeringUserOptions{Placement: at}
	cmd := &cobra.Command{
		Use:   "peering-user",
		Short: "Make a user with which another cluster can peer with this one, and print its kubeconfig",
		Long: "Create a user for the administrator of another cluster, the consumer, to peer with this cluster, and print its kubeconfig.\n" +
			"The user may only write the Tenant, the network Configuration and the gateways of its cluster, in its tenant namespace.\n" +
			"Each cluster has at most one. Its certificate expires; `delete peering-user` revokes its permissions at once.",
		Example: "  liqoctl generate peering-user --consumer-cluster-id rome > rome-peers.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			return runGeneratePeeringUser(ctx, c, o)
		},
	}
	fs := cmd.Flags()
	consumerFlag(c, cmd, &o.consumer)
	modes := []string{"auto", "true", "false"}
	fs.Var(cluster.OneOf(&o.compatible, "auto", modes), "tls-compatibility-mode",
		"Generate an RSA key, for API servers behind proxies without Ed25519: "+strings.Join(modes, ", ")+"; auto is as Liqo was installed")
	fs.DurationVar(&o.life, "duration", peeringUserLife, "How long the certificate of the user lasts, unless the cluster signs shorter ones only")
	o.DryRunOptions.AddFlags(fs)
	fs.DurationVar(&o.timeout, "timeout", 2*time.Minute, "How long all of it may take")
	return cmd
}

func consumerFlag(c *cluster.Session, cmd *cobra.Command, consumer *string) {
	cmd.Flags().StringVar(consumer, "consumer-cluster-id", "", "The ID of the cluster that peers with this one")
	_ = cmd.MarkFlagRequired("consumer-cluster-id")
}

func runGeneratePeeringUser(ctx context.Context, c *cluster.Session, o *peeringUserOptions) error {
	if o.life < shortestLife {
		return ui.Fail("--duration: a certificate that lasts %s is not signed, %s is the least", o.life, shortestLife)
	}
	if o.life > longestLife {
		return ui.Fail("--duration: %s is too long, %s is the most", o.life, longestLife)
	}
	s, err := c.NewCluster(ctx, "", &cluster.ClusterFlags{Kube: c.KubeFlags, LiqoNamespace: o.LiqoNamespace})
	if err != nil {
		return err
	}
	cfg, err := c.RestConfig()
	if err != nil {
		return err
	}
	u := &newPeeringUser{Session: c, Cluster: s, peeringUserOptions: o}
	if err := u.readCluster(ctx, cfg); err != nil {
		return err
	}
	if o.IsRequested() {
		return u.printObjects()
	}
	c.Warn("Peering users do not work with clusters on EKS")
	c.Warn("Take note of the kubeconfig: it is stored nowhere")
	c.Warn("The user can peer from the cluster with ID %q only", o.consumer)
	if err := u.createAll(ctx); err != nil {
		return err
	}
	c.Success("User generated successfully")
	_, err = c.Result().Write(u.kubeconfig)
	return err
}

// newPeeringUser is the state of the creation of a peering user.
type newPeeringUser struct {
	*cluster.Session
	*cluster.Cluster
	*peeringUserOptions

	access   pki.Kubeconfig
	key      crypto.Signer
	request  *certv1.CertificateSigningRequest
	bindings []*rbacv1.RoleBinding
	// made lists the objects to delete in a rollback.
	made       []client.Object
	kubeconfig []byte
}

// readCluster checks the preconditions and changes nothing. It fails if the user cannot be created or would have unbounded
// permissions.
func (u *newPeeringUser) readCluster(ctx context.Context, cfg *rest.Config) error {
	id, err := cluster.ClusterIdentity(ctx, u.Kube, u.Cluster.LiqoNamespace)
	if err != nil {
		return err
	}
	if id == u.consumer {
		return ui.Fail("%s is this cluster itself: --consumer-cluster-id is for the ID of the other one", id)
	}
	inLiqo, inTenant, err := peeringRoles(ctx, u.Kube, u.Cluster.LiqoNamespace)
	if err != nil {
		return err
	}
	if err := u.FindNamespace(ctx, u.consumer); err != nil {
		return err
	}
	if usual := names.DefaultTenantNamespace(u.consumer); u.Cluster.Namespace != usual {
		u.Session.Warn("The tenant namespace of %s is called %s: commands find that of a peering user only if it is called %s", u.consumer, u.Cluster.Namespace, usual)
	}
	if err := u.checkVacant(ctx); err != nil {
		return err
	}
	if err := u.RequirePermissions(ctx, u.PermissionsFor("", "create peering user")...); err != nil {
		return err
	}
	if err := u.findServer(ctx, cfg); err != nil {
		return err
	}
	return u.prepareObjects(inLiqo, inTenant)
}

// peeringRoles returns the roles of the chart for peering users. It fails for a role of an earlier version, since such a role grants reading Secrets,
// and without the admission policy, since RBAC alone does not restrict the user enough.
func peeringRoles(ctx context.Context, cl client.Reader, liqoNamespace string) (inLiqo *rbacv1.Role, inTenant *rbacv1.ClusterRole, err error) {
	of := client.MatchingLabels{names.AppComponent: names.ComponentPeeringUser}
	var inside rbacv1.RoleList
	var wide rbacv1.ClusterRoleList
	if err = cl.List(ctx, &inside, of, client.InNamespace(liqoNamespace)); err == nil {
		err = cl.List(ctx, &wide, of)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("looking for the roles of peering users: %w", err)
	}
	if len(inside.Items) != 1 || len(wide.Items) != 1 {
		return nil, nil, ui.Fail("Liqo has %d Roles in namespace %q and %d ClusterRoles labelled %s=%s, and needs one of each",
			len(inside.Items), liqoNamespace, len(wide.Items), names.AppComponent, names.ComponentPeeringUser).
			Hint("They come with Liqo: install it again, or say where it is with --liqo-namespace")
	}
	marked := slices.ContainsFunc(wide.Items[0].Rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Verbs, names.VerbPeer) && slices.Contains(r.Resources, authv1beta1.TenantResource) && slices.Contains(r.APIGroups, authv1beta1.GroupName)
	})
	if !marked {
		return nil, nil, ui.Fail("the ClusterRole %s is not of this version of Liqo: whoever has it can read all Secrets of the peering", wide.Items[0].Name).
			Hint("Install this version: liqoctl install")
	}
	var policy admissionv1.ValidatingAdmissionPolicyBinding
	if err := cl.Get(ctx, client.ObjectKey{Name: names.PeeringUsersPolicy}, &policy); apierrors.IsNotFound(err) {
		return nil, nil, ui.Fail("the policy %s, which restricts peering users, does not exist", names.PeeringUsersPolicy).
			Hint("It comes with Liqo: install it again")
	} else if err != nil {
		return nil, nil, fmt.Errorf("looking for the policy of peering users: %w", err)
	}
	return &inside.Items[0], &wide.Items[0], nil
}

// checkVacant fails if the cluster has a peering user already: with two kubeconfigs, the valid one is unknown.
func (u *newPeeringUser) checkVacant(ctx context.Context) error {
	var current rbacv1.RoleBindingList
	if err := u.Kube.List(ctx, &current, OfPeeringUser(u.consumer)); err != nil {
		return fmt.Errorf("looking for peering users: %w", err)
	}
	if len(current.Items) > 0 {
		return ui.Fail("a peering user for the cluster %s already exists since %s: its kubeconfig was printed then and is stored nowhere",
			u.consumer, current.Items[0].CreationTimestamp.UTC().Format(time.RFC3339)).
			Hint("If it is lost or has expired, delete the user and make another: liqoctl delete peering-user --consumer-cluster-id %s", u.consumer)
	}
	for _, key := range u.objectKeys() {
		err := u.Kube.Get(ctx, key, &rbacv1.RoleBinding{})
		if err == nil {
			return ui.Fail("RoleBinding %s already exists and does not belong to a peering user: it lacks the label %s", key, names.PeeringUser).Hint("Delete it, or rename it")
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading the RoleBinding %s: %w", key, err)
		}
	}
	return nil
}

// OfPeeringUser returns the metadata of an object of a peering user.
func OfPeeringUser(consumer string) client.MatchingLabels {
	return client.MatchingLabels{names.PeeringUser: names.Label(names.PeeringUserName(consumer))}
}

// objectKeys returns the keys of the bindings: in the Liqo namespace, and in the tenant namespace.
func (u *newPeeringUser) objectKeys() []client.ObjectKey {
	name := names.PeeringUserName(u.consumer)
	return []client.ObjectKey{
		{Namespace: u.Cluster.LiqoNamespace, Name: name + "-liqo-ns-reader"},
		{Namespace: u.Cluster.Namespace, Name: name + "-tenant-ns-writer"},
	}
}

// findServer finds the API server address for peers, and its certificate authority.
func (u *newPeeringUser) findServer(ctx context.Context, cfg *rest.Config) error {
	manager, err := cluster.ControllerManager(ctx, u.Kube, u.Cluster.LiqoNamespace)
	if err != nil {
		return err
	}
	container, err := cluster.ManagerContainer(manager)
	if err != nil {
		return err
	}
	command := slices.Concat(container.Command, container.Args)
	if u.compatible == "auto" {
		u.compatible = strconv.FormatBool(cluster.FlagValue(command, "tls-compatibility-mode") == "true")
	}
	var nodes corev1.NodeList
	override := cluster.FlagValue(command, "api-server-address-override")
	if override == "" {
		if err := u.Kube.List(ctx, &nodes); err != nil {
			return fmt.Errorf("looking for the control plane: %w", err)
		}
	}
	if u.access.Server, err = policy.APIServerURL(override, nodes.Items); err != nil {
		return ui.Fail("determining the API server's address for peers: %w", err).Hint("Set apiServer.address: liqoctl install")
	}
	u.access.CA, err = certificateAuthority(command, cfg)
	return err
}

// certificateAuthority returns the authority of the API server for peers: from the configuration of Liqo, else from the local connection.
func certificateAuthority(command []string, cfg *rest.Config) ([]byte, error) {
	if cluster.FlagValue(command, "trusted-ca") == "true" {
		return nil, nil
	}
	if text := cluster.FlagValue(command, "ca-override"); text != "" {
		ca, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("reading --ca-override of the controller-manager: %w", err)
		}
		return ca, nil
	}
	known := rest.CopyConfig(cfg)
	if err := rest.LoadTLSFiles(known); err != nil {
		return nil, fmt.Errorf("reading the authority of the API server: %w", err)
	}
	return known.CAData, nil
}

// prepareObjects generates the key and builds all objects in memory.
func (u *newPeeringUser) prepareObjects(inLiqo *rbacv1.Role, inTenant *rbacv1.ClusterRole) (err error) {
	generate := pki.NewKey
	if u.compatible == "true" {
		generate = pki.NewCompatibleKey
	}
	if u.key, err = generate(); err != nil {
		return err
	}
	// The random suffix of the user name keeps the certificate of a deleted user from gaining the permissions of a new user.
	var random [16]byte
	_, _ = rand.Read(random[:]) // Read never fails
	user := names.PeeringUserName(u.consumer) + "-" + hex.EncodeToString(random[:])
	csr, err := pki.NewCSR(u.key, pki.Subject{CommonName: user, Organization: names.ControlPlaneGroup})
	if err != nil {
		return err
	}
	labels := OfPeeringUser(u.consumer)
	u.request = &certv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: names.PeeringUserName(u.consumer), Labels: labels},
		Spec: certv1.CertificateSigningRequestSpec{
			Request: csr, SignerName: certv1.KubeAPIServerClientSignerName, ExpirationSeconds: new(int32(u.life.Seconds())),
			Usages: []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageKeyEncipherment, certv1.UsageClientAuth},
		},
	}
	u.request.SetGroupVersionKind(certv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"))
	roles := []rbacv1.RoleRef{
		{APIGroup: rbacv1.GroupName, Kind: "Role", Name: inLiqo.Name}, {APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: inTenant.Name},
	}
	for i, key := range u.objectKeys() {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{names.RemoteClusterID: u.consumer}},
			RoleRef:    roles[i],
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}
		binding.Labels[names.PeeringUser] = labels[names.PeeringUser]
		binding.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"))
		u.bindings = append(u.bindings, binding)
	}
	for _, obj := range u.allObjects() {
		u.SetCommonMetadata(obj)
	}
	return nil
}

func (u *newPeeringUser) allObjects() []client.Object {
	return []client.Object{u.request, u.bindings[0], u.bindings[1]}
}

// printObjects prints the objects of a dry run. The printed key is unusable: a real run generates another key.
func (u *newPeeringUser) printObjects() error {
	all := u.allObjects()
	if ns := u.MissingNamespace(u.Session, u.bindings[1]); ns != nil {
		all = slices.Insert(all, 0, client.Object(ns))
	}
	for _, obj := range all {
		if err := u.PrintObject(obj, u.OutputFormat()); err != nil {
			return err
		}
	}
	return nil
}

// createAll creates the user, and rolls back on a failure.
func (u *newPeeringUser) createAll(ctx context.Context) (err error) {
	step := u.Session.Spin("Generating the user")
	defer step.Stop()
	defer func() {
		if err != nil {
			err = u.takenBack(ctx, err)
		}
	}()
	if err := u.EnsureNamespace(ctx, u.Session, u.bindings[1]); err != nil {
		return err
	}
	// The bindings come first: a denied role must fail before the certificate is requested.
	for _, b := range u.bindings {
		if err := u.Kube.Create(ctx, b.DeepCopy(), client.DryRunAll); err != nil {
			return explainTaken("RoleBinding", b, err)
		}
	}
	if err := u.removeEarlierRequest(ctx); err != nil {
		return err
	}
	certificate, err := u.signRequest(kube.WithProgress(ctx, step.Waits))
	if err != nil {
		return err
	}
	for _, b := range u.bindings {
		if err := u.createObject(ctx, "RoleBinding", b); err != nil {
			return err
		}
	}
	if err := awaitPeering(ctx, u.Kube, u.Cluster.Namespace, u.bindings[1].Subjects[0].Name, true); err != nil {
		return err
	}
	if u.kubeconfig, err = u.encodeKubeconfig(certificate); err != nil {
		return err
	}
	if err := u.Kube.Delete(ctx, u.request); client.IgnoreNotFound(err) != nil {
		u.Session.Warn("The request %s stays until Kubernetes removes it: %s", u.request.Name, cluster.DescribeError(err))
	}
	return nil
}

func (u *newPeeringUser) createObject(ctx context.Context, kind string, obj client.Object) error {
	u.made = append(u.made, obj.DeepCopyObject().(client.Object)) // also if the answer is lost
	if err := u.Kube.Create(ctx, obj); err != nil {
		return explainTaken(kind, obj, err)
	}
	return nil
}

// explainTaken returns the error about an existing object with the name of a new object.
func explainTaken(kind string, obj client.Object, err error) error {
	name := strings.TrimPrefix(client.ObjectKeyFromObject(obj).String(), "/")
	if apierrors.IsAlreadyExists(err) {
		return ui.Fail("%s %s was just created: another client creates this peering user, too", kind, name).Hint("Look who did, or try again")
	}
	return fmt.Errorf("making the %s %s: %w", kind, name, err)
}

// removeEarlierRequest deletes the certificate request of an interrupted attempt: the key of the request is lost.
func (u *newPeeringUser) removeEarlierRequest(ctx context.Context) error {
	var current certv1.CertificateSigningRequest
	if err := u.Kube.Get(ctx, client.ObjectKeyFromObject(u.request), &current); err != nil {
		return client.IgnoreNotFound(err)
	}
	if current.Labels[names.PeeringUser] != u.request.Labels[names.PeeringUser] {
		return ui.Fail("CertificateSigningRequest %s already exists and does not belong to a peering user: it lacks the label %s", current.Name, names.PeeringUser).Hint("Delete it")
	}
	if err := u.Kube.Delete(ctx, &current, client.Preconditions{UID: &current.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the request of an earlier attempt: %w", err)
	}
	return nil
}

// signRequest gets the certificate signed by the cluster.
func (u *newPeeringUser) signRequest(ctx context.Context) ([]byte, error) {
	if err := u.createObject(ctx, "CertificateSigningRequest", u.request); err != nil {
		return nil, err
	}
	approved := u.request.DeepCopy()
	approved.Status.Conditions = append(approved.Status.Conditions, certv1.CertificateSigningRequestCondition{
		Type: certv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "PeeringUser", Message: "approved by liqoctl generate peering-user",
	})
	if err := u.Kube.SubResource("approval").Update(ctx, approved); err != nil {
		return nil, fmt.Errorf("approving the certificate of the user: %w", err)
	}
	now := &certv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: u.request.Name}}
	err := kube.WaitForObject(ctx, u.Kube, now, func(_ context.Context, exists bool) error {
		if !exists || now.UID != u.request.UID {
			return ui.Fail("the CertificateSigningRequest %s was deleted while waiting", now.Name)
		}
		return checkSigned(now)
	})
	if err != nil {
		return nil, err
	}
	return now.Status.Certificate, u.checkCertificate(now.Status.Certificate)
}

// checkSigned returns a Pending until the certificate is issued, and an error if the request is denied.
func checkSigned(request *certv1.CertificateSigningRequest) error {
	for _, c := range request.Status.Conditions {
		if c.Type == certv1.CertificateDenied || c.Type == certv1.CertificateFailed {
			return ui.Fail("the signer refused the certificate of the user: %s: %s", c.Reason, c.Message)
		}
	}
	if len(request.Status.Certificate) == 0 {
		return kube.Pending(fmt.Sprintf("no signer of this cluster signed the CertificateSigningRequest %s, for %s", request.Name, request.Spec.SignerName))
	}
	return nil
}

// checkCertificate verifies the issued certificate. Some signers ignore parts of a request.
func (u *newPeeringUser) checkCertificate(certificate []byte) error {
	if err := pki.CheckCertificate(certificate, u.key.Public()); err != nil {
		return ui.Fail("the certificate that the cluster signed is of no use: %w", err)
	}
	parsed, err := pki.ParseCertificate(certificate)
	if err != nil {
		return err
	}
	if user := u.bindings[0].Subjects[0].Name; parsed.Subject.CommonName != user {
		return ui.Fail("the cluster signed a certificate for the user %q instead of %q", parsed.Subject.CommonName, user)
	}
	if longest := time.Now().Add(u.life + time.Hour); parsed.NotAfter.After(longest) {
		u.Session.Warn("The cluster signed a certificate that lasts until %s: delete the user when it has peered", parsed.NotAfter.UTC().Format(time.RFC3339))
	} else {
		u.Session.Info("The user can be used until %s", parsed.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

func (u *newPeeringUser) encodeKubeconfig(certificate []byte) ([]byte, error) {
	private, err := pki.EncodeKey(u.key)
	if err != nil {
		return nil, err
	}
	config := u.access
	config.Cluster, config.User, config.Namespace = u.consumer, u.consumer+"-user", u.Cluster.Namespace
	config.Certificate, config.Key = certificate, private
	return config.Encode()
}

// takenBack rolls back after a failure or an interruption: the key of half a user is lost.
func (u *newPeeringUser) takenBack(ctx context.Context, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), network.TakingBack)
	defer cancel()
	for _, obj := range slices.Backward(u.made) {
		if err := u.takeBack(ctx, obj); err != nil {
			why = errors.Join(why, fmt.Errorf("taking back %s: %w", obj.GetName(), err))
		}
	}
	return why
}

// takeBack deletes a created object. An object with the same name by another client, with another request or user, is kept.
func (u *newPeeringUser) takeBack(ctx context.Context, obj client.Object) error {
	current := obj.DeepCopyObject().(client.Object)
	if err := u.Kube.Get(ctx, client.ObjectKeyFromObject(obj), current); err != nil {
		return client.IgnoreNotFound(err)
	}
	mine := false
	switch have := current.(type) {
	case *certv1.CertificateSigningRequest:
		mine = bytes.Equal(have.Spec.Request, u.request.Spec.Request)
	case *rbacv1.RoleBinding:
		mine = slices.Equal(have.Subjects, u.bindings[0].Subjects)
	}
	if !mine {
		return nil
	}
	uid := current.GetUID()
	return client.IgnoreNotFound(u.Kube.Delete(ctx, current, client.Preconditions{UID: &uid}))
}
