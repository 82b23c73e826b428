// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// stays fails if check fails at any moment of a short while, in which whoever is wrong has had every chance to act.
func stays(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.After(3 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := check(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-deadline:
			return
		case <-tick.C:
		}
	}
}

func (p *peering) checkFinalizer() error {
	s := p.sliceAt(p.consumerTenant)
	if err := p.consumer.Client.Get(p.t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
		return err
	}
	if len(s.Finalizers) == 0 {
		return errors.New("the object was released without asking the peer")
	}
	return nil
}

// The original drops the finalizer when the cache of the copies is empty because the peer is away: the slice and all that
// was granted for it stay in the provider for ever.
func TestOutageRestart(t *testing.T) {
	p := newPeering(t)
	p.peered()
	stop := p.run()
	p.create(p.consumer, p.guideSlice(p.consumerTenant))
	copied := p.copied(nil)
	stop()

	p.provider.StopAPIServer(t)
	p.remove(p.consumer, p.sliceAt(p.consumerTenant))
	p.run()
	p.condition(failing)
	stays(t, p.checkFinalizer)
	p.provider.StartAPIServer(t)
	p.waitUntilDeleted(p.consumer, p.sliceAt(p.consumerTenant))
	p.waitUntilDeleted(p.provider, copied)
	p.condition(established)
}

func TestOrphanAfterRestart(t *testing.T) {
	p := newPeering(t)
	p.peered()
	stop := p.run()
	p.create(p.consumer, p.guideSlice(p.consumerTenant))
	copied := p.copied(nil)
	stop()
	p.patch(p.consumer, p.sliceAt(p.consumerTenant), `{"metadata":{"finalizers":null}}`)
	p.remove(p.consumer, p.sliceAt(p.consumerTenant))
	p.waitUntilDeleted(p.consumer, p.sliceAt(p.consumerTenant))
	p.run()
	p.waitUntilDeleted(p.provider, copied)
}

func TestOutage(t *testing.T) {
	p := newPeering(t)
	p.peered()
	p.run()
	p.create(p.consumer, p.guideSlice(p.consumerTenant))
	p.copied(nil)
	p.condition(established)

	p.provider.StopAPIServer(t)
	p.condition(failing)
	p.patch(p.consumer, p.sliceAt(p.consumerTenant), `{"metadata":{"labels":{"team":"away"}}}`)
	fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: p.providerID}}
	if err := p.consumer.Client.Get(t.Context(), client.ObjectKeyFromObject(fc), fc); err != nil {
		t.Fatal(err)
	}
	// A lasting failure is written once, however often it is seen.
	stays(t, func() error {
		now := &liqov1beta1.ForeignCluster{}
		if err := p.consumer.Client.Get(t.Context(), client.ObjectKeyFromObject(fc), now); err != nil {
			return err
		}
		if now.ResourceVersion != fc.ResourceVersion {
			return errors.New("the condition was written again")
		}
		return nil
	})
	p.provider.StartAPIServer(t)
	p.condition(established)
	p.copied(label("team", "away"))
}

func TestGivenUp(t *testing.T) {
	p := newPeering(t)
	secret := p.peered()
	p.run()
	renew := &authv1beta1.Renew{ObjectMeta: metav1.ObjectMeta{Namespace: p.consumerTenant, Name: "controlplane"}}
	p.create(p.consumer, p.guideSlice(p.consumerTenant), renew)
	copied := p.copied(nil)
	testkit.Eventually(t, limit, func() error {
		return p.provider.Client.Get(t.Context(), types.NamespacedName{Namespace: p.providerTenant, Name: "controlplane"}, &authv1beta1.Renew{})
	})

	// While it answers it is not gone, whatever the user says.
	p.giveUp()
	p.patch(p.consumer, p.sliceAt(p.consumerTenant), `{"metadata":{"labels":{"team":"hope"}}}`)
	p.copied(label("team", "hope"))

	p.provider.StopAPIServer(t)
	p.condition(failing)
	p.remove(p.consumer, p.sliceAt(p.consumerTenant))
	p.waitUntilDeleted(p.consumer, p.sliceAt(p.consumerTenant))
	if err := p.consumer.Client.Get(t.Context(), client.ObjectKeyFromObject(renew), renew); err != nil || len(renew.Finalizers) == 0 {
		t.Errorf("an object that nobody deleted: finalizers %v, %v", renew.Finalizers, err)
	}
	// With the credentials everything that is held for them goes.
	p.remove(p.consumer, secret)
	p.waitUntilDeleted(p.consumer, secret)
	testkit.Eventually(t, limit, func() error {
		if err := p.consumer.Client.Get(t.Context(), client.ObjectKeyFromObject(renew), renew); err != nil {
			return err
		}
		if len(renew.Finalizers) > 0 {
			return errors.New("the Renew is still held")
		}
		return nil
	})

	// Should it come back with new credentials, what was left there is cleaned up.
	p.provider.StartAPIServer(t)
	p.create(p.consumer, p.secret("again", testkit.Kubeconfig(t, p.user)))
	p.waitUntilDeleted(p.provider, copied)
}

// Rights that are taken back tell also where nothing is to be copied, and the watches that were let in go on.
func TestRevokedRights(t *testing.T) {
	p := newPeering(t)
	binding := p.bind(p.userName)
	p.create(p.consumer, p.secret("cplane-secret", testkit.Kubeconfig(t, p.user)))
	p.run()
	p.create(p.consumer, p.guideSlice(p.consumerTenant))
	p.copied(nil)
	p.condition(established, "the API server answers")
	p.remove(p.provider, binding)
	p.condition(established, "refuses our calls")
}

// A provider that answers and refuses everything cannot keep the consumer from taking its side down.
func TestGivenUpRefusing(t *testing.T) {
	p := newPeering(t)
	binding := p.bind(p.userName)
	p.create(p.consumer, p.secret("cplane-secret", testkit.Kubeconfig(t, p.user)))
	p.run()
	p.create(p.consumer, p.guideSlice(p.consumerTenant))
	p.copied(nil)
	p.remove(p.provider, binding)
	p.condition(established, "refuses our calls") // an API server learns of removed bindings some time later
	p.remove(p.consumer, p.sliceAt(p.consumerTenant))
	p.event("cplane-secret", "RefusedByPeer", "forbidden")
	stays(t, p.checkFinalizer)
	p.condition(established, "refuses our calls")
	p.giveUp()
	p.waitUntilDeleted(p.consumer, p.sliceAt(p.consumerTenant))
	// Whoever else waits for this peer goes by the condition.
	p.condition(failing, "refuses our credentials")
}

// Both sides are deleted at once, as from Git: the provider has forgotten the consumer before that could take its copies away.
func TestForgottenTenantNamespace(t *testing.T) {
	p := newPeering(t)
	binding := p.bind(p.userName)
	secret := p.secret("cplane-secret", testkit.Kubeconfig(t, p.user))
	p.create(p.consumer, secret)
	p.run()
	p.create(p.consumer, p.guideSlice(p.consumerTenant))
	p.copied(nil)
	p.remove(p.provider, binding)
	p.condition(established, "refuses our calls")
	for _, obj := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.consumerTenant}}, p.sliceAt(p.consumerTenant), secret} {
		p.remove(p.consumer, obj)
	}
	p.waitUntilDeleted(p.consumer, p.sliceAt(p.consumerTenant))
	p.waitUntilDeleted(p.consumer, secret)
}

func TestForgotten(t *testing.T) {
	now := time.Now()
	going, staying := corev1.Secret{}, corev1.Secret{}
	going.DeletionTimestamp = &metav1.Time{Time: now}
	const long = forgottenAfter + time.Second
	for name, c := range map[string]struct {
		removed bool
		secrets []corev1.Secret
		failure string
		refused time.Duration // for how long, 0 for not at all
		some    bool
		want    bool
		after   time.Duration
	}{
		"removed_on_both_sides":   {removed: true, secrets: []corev1.Secret{going}, refused: long, want: true},
		"refused_for_a_moment":    {removed: true, secrets: []corev1.Secret{going}, refused: forgottenAfter - time.Second, after: time.Second},
		"let_in":                  {removed: true, secrets: []corev1.Secret{going}},
		"refused_in_part":         {removed: true, secrets: []corev1.Secret{going}, refused: long, some: true},
		"away":                    {removed: true, secrets: []corev1.Secret{going}, refused: long, failure: "timeout"},
		"namespace_stays":         {secrets: []corev1.Secret{going}, refused: long},
		"credentials_stay":        {removed: true, secrets: []corev1.Secret{going, staying}, refused: long},
		"no_credentials_any_more": {removed: true, refused: long},
	} {
		t.Run(name, func(t *testing.T) {
			l := &link{health: peerHealth{looked: true, failure: c.failure}, changed: func() {}}
			if c.refused > 0 {
				key := access
				if c.some {
					key = "resourceslices/one"
				}
				l.setText(&l.health.refusals, key, "forbidden")
				if !c.some {
					l.health.refusedSince = now.Add(-c.refused)
				}
			}
			s := inputs{removed: c.removed, secrets: c.secrets}
			if is, after := s.isForgotten(l, forgottenAfter, now); is != c.want || after != c.after {
				t.Errorf("forgotten %v, again after %s", is, after)
			}
		})
	}
}

func TestGivenUpWithoutCredentials(t *testing.T) {
	p := newPeering(t)
	slice := p.guideSlice(p.consumerTenant)
	slice.SetFinalizers([]string{names.ReplicatorFinalizer})
	p.create(p.consumer, slice)
	p.remove(p.consumer, p.sliceAt(p.consumerTenant))
	p.run()
	stays(t, p.checkFinalizer)
	p.giveUp()
	p.waitUntilDeleted(p.consumer, p.sliceAt(p.consumerTenant))
}

func TestSecretWithoutLabel(t *testing.T) {
	p := newPeering(t)
	secret := p.peered()
	p.run()
	p.condition(established)
	p.patch(p.consumer, secret, `{"metadata":{"labels":{"liqo.io/identity-type":null}}}`)
	testkit.Eventually(t, limit, func() error {
		if err := p.consumer.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			return err
		}
		if len(secret.Finalizers) > 0 {
			return errors.New("the finalizer is still there")
		}
		return nil
	})
	p.condition("")
}

// Nothing is let go that has a copy, so somebody is told what is lacking; and once there are credentials again all goes on.
func TestOrphanCondition(t *testing.T) {
	p := newPeering(t)
	secret := p.peered()
	p.run()
	p.create(p.consumer, p.guideSlice(p.consumerTenant))
	copied := p.copied(nil)
	p.patch(p.consumer, secret, `{"metadata":{"labels":{"liqo.io/identity-type":null}}}`)
	p.condition(credless, "no credentials for this peer exist", "ResourceSlice test")
	p.remove(p.consumer, p.sliceAt(p.consumerTenant))
	p.patch(p.consumer, secret, `{"metadata":{"labels":{"liqo.io/identity-type":"ControlPlane"}}}`)
	p.waitUntilDeleted(p.consumer, p.sliceAt(p.consumerTenant))
	p.waitUntilDeleted(p.provider, copied)
	p.condition(established)
}

func TestSecretOutsideTenantNamespace(t *testing.T) {
	p := newPeering(t)
	secret := p.peered()
	p.run()
	p.condition(established)
	p.patch(p.consumer, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.consumerTenant}}, `{"metadata":{"labels":{"liqo.io/tenant-namespace":null}}}`)
	testkit.Eventually(t, limit, func() error {
		if err := p.consumer.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			return err
		}
		if len(secret.Finalizers) > 0 {
			return errors.New("the finalizer is still there")
		}
		return nil
	})
	p.condition("")
}

// renewed is a Renew that is replicated.
func (p *peering) renewed() *authv1beta1.Renew {
	p.t.Helper()
	renew := &authv1beta1.Renew{ObjectMeta: metav1.ObjectMeta{Namespace: p.consumerTenant, Name: "controlplane"}}
	p.create(p.consumer, renew)
	testkit.Eventually(p.t, limit, func() error {
		return p.provider.Client.Get(p.t.Context(), types.NamespacedName{Namespace: p.providerTenant, Name: "controlplane"}, &authv1beta1.Renew{})
	})
	return renew
}

// A provider that takes our rights away before we are done keeps nothing here for the sake of a Renew.
func TestRenewRefused(t *testing.T) {
	p := newPeering(t)
	binding := p.bind(p.userName)
	p.create(p.consumer, p.secret("cplane-secret", testkit.Kubeconfig(t, p.user)))
	p.run()
	renew := p.renewed()
	p.remove(p.provider, binding)
	p.remove(p.consumer, renew)
	p.waitUntilDeleted(p.consumer, renew)
}

// Credentials are not kept for a Renew, which is there for the credentials.
func TestSecretReleasedWithRenew(t *testing.T) {
	p := newPeering(t)
	secret := p.peered()
	p.run()
	renew := p.renewed()
	p.remove(p.consumer, secret)
	p.waitUntilDeleted(p.consumer, secret)
	p.waitUntilDeleted(p.provider, &authv1beta1.Renew{ObjectMeta: metav1.ObjectMeta{Namespace: p.providerTenant, Name: renew.Name}})
	if err := p.consumer.Client.Get(t.Context(), client.ObjectKeyFromObject(renew), renew); err != nil || len(renew.Finalizers) > 0 {
		t.Errorf("the Renew has the finalizers %v, or %v", renew.Finalizers, err)
	}
	// With other credentials it is copied again.
	p.create(p.consumer, p.secret("again", testkit.Kubeconfig(t, p.user)))
	p.renewed()
}

// secondNamespace is another tenant namespace of the provider, with a Secret that was in use once and is no good any more.
func (p *peering) secondNamespace() (string, *corev1.Secret) {
	p.t.Helper()
	other := testkit.Namespace(p.t, p.consumer, "to-provider-too", tenant(p.providerID))
	p.t.Cleanup(func() {
		second := *p
		second.consumerTenant = other
		second.hideNamespaces()
	})
	p.create(p.consumer, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "replicator"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: replicatorUser}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: names.RoleTenantReplication},
	})
	secret := p.secret("cplane-secret", []byte("broken"))
	secret.Namespace, secret.Finalizers = other, []string{names.ReplicatorSecretFinalizer}
	p.create(p.consumer, secret)
	return other, secret
}

// The link to a peer may be that of a Secret in another namespace, whose objects still need it.
func TestSecretOfOtherLink(t *testing.T) {
	p := newPeering(t)
	used := p.peered()
	stop := p.run()
	p.create(p.consumer, p.guideSlice(p.consumerTenant))
	copied := p.copied(nil)
	stop()

	other, secret := p.secondNamespace()
	renew := &authv1beta1.Renew{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "controlplane", Finalizers: []string{names.ReplicatorFinalizer}}}
	p.create(p.consumer, renew)
	p.remove(p.consumer, used)
	p.remove(p.consumer, secret)
	p.run()
	p.waitUntilDeleted(p.consumer, secret)
	p.event(used.Name, "Draining", "ResourceSlice test")
	if err := p.provider.Client.Get(t.Context(), client.ObjectKeyFromObject(copied), copied); err != nil || !copied.DeletionTimestamp.IsZero() {
		t.Errorf("the copy of a slice that stays: deleted at %v, %v", copied.DeletionTimestamp, err)
	}
	p.remove(p.consumer, p.sliceAt(p.consumerTenant))
	p.waitUntilDeleted(p.provider, copied)
	p.waitUntilDeleted(p.consumer, used)
}
