// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

// tenantParty returns the consumer at the provider, with the kubeconfig that an Identity of that type has in the consumer.
func tenantParty(ctx context.Context, identityType string) (attacker, error) {
	var secrets corev1.SecretList
	if err := consumer.Client.List(ctx, &secrets, client.InNamespace(consumerTenant), client.MatchingLabels{names.IdentityType: identityType}); err != nil {
		return attacker{}, err
	}
	if len(secrets.Items) != 1 {
		return attacker{}, fmt.Errorf("there are %d kubeconfigs of type %s, want 1", len(secrets.Items), identityType)
	}
	return kubeconfigParty(secrets.Items[0].Data["kubeconfig"])
}

// userParty returns a user of the provider, with a certificate that its administrator had signed.
func userParty(ctx context.Context, user string) (attacker, error) {
	kubeconfig, err := provider.Credentials(ctx, user)
	if err != nil {
		return attacker{}, err
	}
	return kubeconfigParty(kubeconfig)
}

// kubeconfigParty returns the user of a kubeconfig, at the address by which the tests reach the provider: peers may have another one.
func kubeconfigParty(kubeconfig []byte) (attacker, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return attacker{}, err
	}
	at := rest.AnonymousClientConfig(provider.Config)
	at.CertData, at.KeyData = config.CertData, config.KeyData
	return newAttacker(provider, at)
}

// accountParty returns a ServiceAccount, with a token of its own.
func accountParty(ctx context.Context, of *clusters.Cluster, namespace, name string) (attacker, error) {
	request := &authenticationv1.TokenRequest{}
	if err := of.Client.SubResource("token").Create(ctx, serviceAccount(namespace, name), request); err != nil {
		return attacker{}, fmt.Errorf("requesting a token of %s/%s: %w", namespace, name, err)
	}
	return tokenParty(of, request.Status.Token)
}

func tokenParty(of *clusters.Cluster, token string) (attacker, error) {
	config := rest.AnonymousClientConfig(of.Config)
	config.BearerToken = token
	return newAttacker(of, config)
}

// impersonateAdmin returns the attacker as it pretends to be an administrator.
func (p attacker) impersonateAdmin(t *testing.T, of *clusters.Cluster) attacker {
	t.Helper()
	config := rest.CopyConfig(p.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "attacks-admin", Groups: []string{"system:masters"}}
	out, err := newAttackerWith(of, config, p.RESTMapper())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// userName returns the user name of the attacker in the cluster.
func (p attacker) userName(ctx context.Context) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	err := p.Create(ctx, review)
	return review.Status.UserInfo.Username, err
}

// A request is sent by an attacker. Those that write are dry: what gets through breaks nothing, and admission sees no difference.
type request func(ctx context.Context) error

func (p attacker) create(obj client.Object) request {
	return func(ctx context.Context) error {
		return p.Create(ctx, obj.DeepCopyObject().(client.Object), client.DryRunAll)
	}
}

func (p attacker) remove(obj client.Object, how ...client.DeleteOption) request {
	return func(ctx context.Context) error {
		return p.Delete(ctx, obj.DeepCopyObject().(client.Object), append(how, client.DryRunAll)...)
	}
}

// patch sends a merge patch.
func (p attacker) patch(obj client.Object, text string) request {
	return func(ctx context.Context) error {
		return p.Patch(ctx, obj.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
	}
}

func (p attacker) patchStatus(obj client.Object, text string) request {
	dry := &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}}
	return func(ctx context.Context) error {
		return p.Status().Patch(ctx, obj.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(text)), dry)
	}
}

func (p attacker) get(obj client.Object) request {
	return func(ctx context.Context) error { return p.Get(ctx, client.ObjectKeyFromObject(obj), obj) }
}

// list lists a namespace; "" is the whole cluster.
func (p attacker) list(list client.ObjectList, namespace string) request {
	return func(ctx context.Context) error { return p.List(ctx, list, client.InNamespace(namespace)) }
}

// scrape asks the metric agent for the figures of a cluster.
func (p attacker) scrape(cluster string) request {
	return func(ctx context.Context) error {
		api, err := discovery.NewDiscoveryClientForConfig(p.config)
		if err != nil {
			return err
		}
		return api.RESTClient().Get().AbsPath("/apis/"+names.MetricsGroup, names.MetricsVersion, "scrape", cluster, "metrics/resource").Do(ctx).Error()
	}
}

// token requests a token of a ServiceAccount, bound to a pod unless that is nil.
func (p attacker) token(namespace, name string, boundTo *corev1.Pod) request {
	return func(ctx context.Context) error {
		requested := &authenticationv1.TokenRequest{}
		if boundTo != nil {
			requested.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: boundTo.Name, UID: boundTo.UID}
		}
		return p.SubResource("token").Create(ctx, serviceAccount(namespace, name), requested)
	}
}

// An attack is a request that has to be refused, beside the one that it resembles and that has to pass.
type attack struct {
	attempt    request
	want       string // in the refusal
	legitimate request
}

// forbidden is what RBAC says.
const forbidden = "cannot "

// runAttacks makes a sub-test of each attack.
func runAttacks(t *testing.T, attacks map[string]attack) {
	t.Helper()
	for name, a := range attacks {
		t.Run(name, func(t *testing.T) {
			expectRefusal(t, a.attempt(t.Context()), a.want)
			var err error
			_ = story.Retry(t.Context(), time.Minute, func(context.Context) error {
				if err = a.legitimate(t.Context()); apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) { // as when a kubelet is late
					return err
				}
				return nil
			})
			if err != nil {
				t.Errorf("the legitimate form is refused: %v", err)
			}
		})
	}
}

// expectRefusal fails the test unless the API server refused a request for the expected reason. An error of another kind, as that of a
// webhook which does not answer, is no refusal.
func expectRefusal(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case err == nil:
		t.Error("the attack got through")
	case !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) && !apierrors.IsUnauthorized(err):
		t.Errorf("the attack was not refused, but failed: %v", err)
	case !strings.Contains(err.Error(), want):
		t.Errorf("the attack was refused for another reason: %v; want %q", err, want)
	}
}

func serviceAccount(namespace, name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func secret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: map[string]string{"password": "canary"}}
}

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// read returns the object with its content.
func read[T client.Object](t *testing.T, from *clusters.Cluster, obj T) T {
	t.Helper()
	if err := from.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func kubectl(t *testing.T, on *clusters.Cluster, stdin string, args ...string) string {
	t.Helper()
	out, err := on.Kubectl(stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
