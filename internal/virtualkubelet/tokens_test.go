// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// homeStage returns a testEnv with a network to the provider.
func homeStage(t *testing.T, status liqov1beta1.ConditionStatus) *testEnv {
	t.Helper()
	s, _ := networked(t, func(o *Options) { o.APIServerSupport, o.LiqoNamespace = true, o.TenantNamespace })
	foreign := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: s.node}}
	eventually(s, s.consumer, foreign, exists)
	testkit.UpdateStatus(t, s.consumer.Client, foreign, func(f *liqov1beta1.ForeignCluster) {
		f.Status.Modules.Networking.Conditions = []liqov1beta1.Condition{{
			Type: liqov1beta1.NetworkConnectionStatus, Status: status, LastTransitionTime: metav1.Now(),
		}}
	})
	s.create(s.consumer, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "builder", Namespace: s.local}})
	return s
}

// showAPIServer shows an address, which is no other test's.
func (s *testEnv) showAPIServer(address, alias networkingv1beta1.IP) {
	s.t.Helper()
	ip := &ipamv1alpha1.IP{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.tenant, Name: names.IPTypeAPIServer, Labels: map[string]string{names.IPType: names.IPTypeAPIServer}},
		Spec:       ipamv1alpha1.IPSpec{IP: address},
	}
	s.create(s.consumer, ip)
	testkit.UpdateStatus(s.t, s.consumer.Client, ip, func(ip *ipamv1alpha1.IP) { ip.Status.IP, ip.Status.CIDR = alias, "10.70.0.0/16" })
}

// withToken is a pod that mounts a token of an account.
func (s *testEnv) withToken(name, account string) *corev1.Pod {
	pod := s.newPod(s.local, name)
	pod.Spec.ServiceAccountName, pod.Spec.AutomountServiceAccountToken = account, new(false)
	pod.Spec.Volumes = []corev1.Volume{{Name: "api", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(600))}},
	}}}}}
	return pod
}

func (s *testEnv) tokens(pod string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.remoteNamespace, Name: pod + "-token"}}
}

// tokenOf is the token in a Secret, which has one.
func tokenOf(secret *corev1.Secret) string {
	for _, token := range secret.Data {
		return string(token)
	}
	return ""
}

func TestTokens(t *testing.T) {
	t.Parallel()
	s := homeStage(t, liqov1beta1.ConditionEstablished)
	s.showAPIServer("10.96.0.1", "10.70.0.25")
	stop := s.run()
	pod := s.withToken("web", "builder")
	s.create(s.consumer, pod)
	shadow := eventually(s, s.provider, s.shadow("web"), exists)
	secret := eventually(s, s.provider, s.tokens("web"), exists)

	s.step("the token is one of the account, good for this pod at this API server alone", func() {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: tokenOf(secret)}}
		if err := s.consumer.Client.Create(s.t.Context(), review); err != nil {
			s.t.Fatal(err)
		}
		user := review.Status.User
		if want := "system:serviceaccount:" + s.local + ":builder"; user.Username != want || user.Extra["authentication.kubernetes.io/pod-uid"][0] != string(pod.UID) {
			s.t.Errorf("the token is of %q, %v", user.Username, user.Extra)
		}
		remoteReview := &authenticationv1.TokenReview{Spec: review.Spec}
		if err := s.provider.Client.Create(s.t.Context(), remoteReview); err != nil || remoteReview.Status.Authenticated {
			s.t.Errorf("the provider's API server takes it: %v", err)
		}
	})
	s.step("the Secret goes with the ShadowPod", func() {
		want := []metav1.OwnerReference{{APIVersion: "offloading.liqo.io/v1beta1", Kind: "ShadowPod", Name: "web", UID: shadow.UID}}
		if diff := cmp.Diff(want, secret.OwnerReferences); diff != "" {
			s.t.Error(diff)
		}
	})
	s.step("the pod mounts it, and finds the API server by its name", func() {
		spec := shadow.Spec.Pod
		projected := spec.Volumes[0].Projected.Sources[0].Secret
		if projected == nil || projected.Name != "web-token" || len(secret.Data[projected.Items[0].Key]) == 0 || projected.Items[0].Path != "token" {
			s.t.Errorf("the volume is %+v", spec.Volumes[0])
		}
		want := []corev1.HostAlias{{IP: "10.70.0.25", Hostnames: []string{"kubernetes.default", "kubernetes.default.svc"}}}
		if diff := cmp.Diff(want, spec.HostAliases); diff != "" {
			s.t.Error(diff)
		}
	})
	stop()
	s.run()
	s.step("a new process asks for nothing", func() {
		s.create(s.consumer, s.withToken("after", "builder"))
		eventually(s, s.provider, s.tokens("after"), exists)
		if now := eventually(s, s.provider, s.tokens("web"), exists); now.ResourceVersion != secret.ResourceVersion {
			s.t.Error("the Secret was written")
		}
	})
	s.step("what is to be replaced is", func() {
		s.patch(s.provider, s.tokens("web"), `{"metadata":{"annotations":{"`+names.TokenRenewal+`":"2020-01-01T00:00:00Z"}}}`)
		eventually(s, s.provider, s.tokens("web"), func(now *corev1.Secret) error {
			if tokenOf(now) == tokenOf(secret) || !now.CreationTimestamp.Equal(&secret.CreationTimestamp) {
				return errors.New("the token is the same")
			}
			return nil
		})
	})
	s.step("what is gone is made again", func() {
		s.deleteNow(s.provider, s.tokens("web"))
		eventually(s, s.provider, s.tokens("web"), exists)
	})
	s.step("the reflection of Secrets leaves it alone", func() {
		own := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.local, Name: "web-token"}, StringData: map[string]string{"mine": "x"}}
		s.create(s.consumer, own)
		s.event(own, "FailedReflection", "already exists")
		if now := eventually(s, s.provider, s.tokens("web"), exists); len(now.Data["mine"]) > 0 {
			s.t.Error("the Secret was overwritten")
		}
	})
	s.step("a pod that wants none gets none", func() {
		off := s.withToken("off", "builder")
		off.Annotations = map[string]string{names.APIServerSupport: names.APIServerSupportDisabled}
		s.create(s.consumer, off)
		shadow := eventually(s, s.provider, s.shadow("off"), exists)
		if translate.RouteOf(shadow) != nil || len(shadow.Spec.Pod.HostAliases) > 0 {
			s.t.Errorf("the pod is led home: %v", shadow.Annotations)
		}
		s.event(off, "APIServerSupportDisabled", "stay here")
		s.create(s.consumer, s.withToken("after-off", "builder"))
		eventually(s, s.provider, s.tokens("after-off"), exists)
		s.absent(s.provider, s.tokens("off"))
	})
}

// A pod whose account gets no token is not started, and says why, until it gets one.
func TestTokensRequired(t *testing.T) {
	s := homeStage(t, liqov1beta1.ConditionEstablished)
	s.showAPIServer("10.96.0.2", "10.70.0.26")
	account := func() *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nobody", Namespace: s.local}}
	}
	s.create(s.consumer, account())
	pod := s.withToken("web", "nobody")
	s.create(s.consumer, pod)
	s.deleteNow(s.consumer, account())
	s.run()
	eventually(s, s.consumer, s.localPod("web"), func(p *corev1.Pod) error {
		for _, c := range p.Status.Conditions {
			if c.Type == names.PodAccepted && c.Status == corev1.ConditionFalse && c.Reason == reasonNoToken && strings.Contains(c.Message, `"nobody"`) {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", p.Status.Conditions)
	})
	s.absent(s.provider, s.shadow("web"))
	s.event(pod, "FailedReflection", `"nobody"`)
	s.create(s.consumer, account())
	eventually(s, s.provider, s.tokens("web"), exists)
	eventually(s, s.consumer, s.localPod("web"), func(p *corev1.Pod) error {
		for _, c := range p.Status.Conditions {
			if c.Type == names.PodAccepted {
				return fmt.Errorf("the condition is still there: %v", c)
			}
		}
		return nil
	})
}

// A pod is not made where a Secret of somebody else has the name of that with its tokens.
func TestTokensNameTaken(t *testing.T) {
	s := homeStage(t, liqov1beta1.ConditionEstablished)
	s.showAPIServer("10.96.0.4", "10.70.0.28")
	s.run()
	s.create(s.consumer, secret(s.local, "web-token"))
	eventually(s, s.provider, s.tokens("web"), exists)
	pod := s.withToken("web", "builder")
	s.create(s.consumer, pod)
	eventually(s, s.consumer, s.localPod("web"), hasCondition(names.PodAccepted, reasonNoPlace, "web-token already exists"))
	s.event(pod, reasonNoPlace, "rename the other Secret")
	s.absent(s.provider, s.shadow("web"))
	s.patch(s.consumer, pod, `{"metadata":{"annotations":{"`+names.APIServerSupport+`":"disabled"}}}`)
	eventually(s, s.provider, s.shadow("web"), exists)
}

// In an older provider nothing may have an owner: such a Secret goes when its pod does, also when nobody asks for tokens any more.
func TestTokensWithoutOwner(t *testing.T) {
	s := homeStage(t, liqov1beta1.ConditionEstablished)
	s.showAPIServer("10.96.0.5", "10.70.0.29")
	s.addPolicy("secrets", admissionv1.Validation{Expression: "!has(object.metadata.ownerReferences)", Reason: new(metav1.StatusReasonForbidden)})
	probe := secret(s.remoteNamespace, "probe")
	probe.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "x", UID: "x"}}
	testkit.Eventually(t, limit, func() error {
		if err := s.provider.Client.Create(t.Context(), probe.DeepCopy(), client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the policy is not in force: %w", err)
		}
		return nil
	})
	stop := s.run()
	pod := s.withToken("web", "builder")
	s.create(s.consumer, pod)
	if sent := eventually(s, s.provider, s.tokens("web"), exists); len(sent.OwnerReferences) > 0 || tokenOf(sent) == "" {
		t.Errorf("the Secret is %v", sent.ObjectMeta)
	}
	stop()
	s.options.APIServerSupport = false
	s.run()
	s.deleteNow(s.consumer, pod)
	s.waitUntilDeleted(s.provider, s.tokens("web"))
}

// Whoever has a token for a cloud is the pod to that cloud: it leaves where the pod or the installation says so.
func TestTokensOtherAudiences(t *testing.T) {
	s := homeStage(t, liqov1beta1.ConditionEstablished)
	s.showAPIServer("10.96.0.1", "10.70.0.25")
	s.options.TokenAudiences = []string{"vault"}
	s.run()
	cloudy := func(name, annotation string) *corev1.Pod {
		pod := s.withToken(name, "builder")
		pod.Annotations = map[string]string{names.TokenAudiences: annotation}
		for _, audience := range []string{"sts.amazonaws.com", "vault"} {
			source := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: audience}}
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
				Name: strings.ReplaceAll(audience, ".", "-"), VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}},
			})
		}
		s.create(s.consumer, pod)
		return pod
	}
	for name, want := range map[string]struct {
		annotation string
		audiences  string
	}{"kept": {"", "API server, vault"}, "allowed": {"sts.amazonaws.com", "API server, sts.amazonaws.com, vault"}} {
		pod := cloudy(name, want.annotation)
		var got []string
		for _, token := range eventually(s, s.provider, s.tokens(name), exists).Data {
			audience := "API server"
			for _, one := range []string{"sts.amazonaws.com", "vault"} {
				review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: string(token), Audiences: []string{one}}}
				if err := s.consumer.Client.Create(t.Context(), review); err != nil {
					t.Fatal(err)
				}
				if review.Status.Authenticated {
					audience = one
				}
			}
			got = append(got, audience)
		}
		slices.Sort(got)
		if is := strings.Join(got, ", "); is != want.audiences {
			t.Errorf("%s: tokens for %s left, want those for %s", name, is, want.audiences)
		}
		if want.annotation == "" {
			s.event(pod, "TokenAudienceNotAllowed", "sts.amazonaws.com")
		}
	}
}

// A token for the API server by its name is one for the API server, also for the process that comes next.
func TestTokensAPIServerAudience(t *testing.T) {
	s := homeStage(t, liqov1beta1.ConditionEstablished)
	s.showAPIServer("10.96.0.1", "10.70.0.25")
	stop := s.run()
	pod := s.withToken("web", "builder")
	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.local, Name: "builder"}}
	if err := s.consumer.Client.SubResource("token").Create(t.Context(), account, request); err != nil || len(request.Spec.Audiences) == 0 {
		t.Fatalf("the API server has the names %v: %v", request.Spec.Audiences, err)
	}
	for i := range pod.Spec.Volumes {
		if p := pod.Spec.Volumes[i].Projected; p != nil {
			p.Sources = []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: request.Spec.Audiences[0]}}}
		}
	}
	s.create(s.consumer, pod)
	hasToken := func(secret *corev1.Secret) error {
		for _, token := range secret.Data {
			if len(token) > 0 && len(secret.Data) == 1 {
				return nil
			}
		}
		return fmt.Errorf("%d tokens were sent", len(secret.Data))
	}
	secret := eventually(s, s.provider, s.tokens("web"), hasToken)
	stop()
	s.patch(s.provider, secret, `{"metadata":{"annotations":{"`+names.TokenRenewal+`":"2020-01-01T00:00:00Z"}}}`)
	s.run()
	eventually(s, s.provider, s.tokens("web"), func(again *corev1.Secret) error {
		if again.Annotations[names.TokenRenewal] == "2020-01-01T00:00:00Z" {
			return errors.New("the token is not renewed")
		}
		return hasToken(again)
	})
}

// What an annotation allows later has no place in a pod that runs, and what it allows no more keeps its file, which is empty.
func TestTokensRunningPod(t *testing.T) {
	t.Parallel()
	s := homeStage(t, liqov1beta1.ConditionEstablished)
	s.showAPIServer("10.96.0.1", "10.70.0.25")
	s.run()
	pod := s.withToken("web", "builder")
	pod.Annotations = map[string]string{names.TokenAudiences: "vault"}
	for _, audience := range []string{"cloud", "vault"} {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: audience, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: audience}}},
		}}})
	}
	s.create(s.consumer, pod)
	sent := func(secret *corev1.Secret) string {
		var out []string
		for key, token := range secret.Data {
			name, _, _ := strings.Cut(key, "-")
			out = append(out, fmt.Sprint(name, " ", len(token) > 0))
		}
		slices.Sort(out)
		return strings.Join(out, ", ")
	}
	are := func(parts ...string) func(*corev1.Secret) error {
		return func(secret *corev1.Secret) error {
			for _, part := range parts {
				if !strings.Contains(sent(secret), part) {
					return fmt.Errorf("the tokens are %s", sent(secret))
				}
			}
			return nil
		}
	}
	first := eventually(s, s.provider, s.tokens("web"), are("vault true"))
	if got := sent(first); strings.Contains(got, "cloud") {
		t.Errorf("the tokens are %s", got)
	}
	s.patch(s.consumer, pod, `{"metadata":{"annotations":{"`+names.TokenAudiences+`":"cloud"}}}`)
	eventually(s, s.provider, s.tokens("web"), are("vault false", "cloud false"))
}

// What fails is tried again after a while, by each pod at another time, and never for one that has ended.
func TestTokensFailedRenewals(t *testing.T) {
	now := time.Unix(1000, 0)
	requested := 0
	k := &podKind{
		options: Options{APIServerSupport: true}, states: newPodStates(func() time.Time { return now }), events: newEventLog(record.NewFakeRecorder(10)),
		route: func(context.Context) (*translate.APIServerRoute, bool, error) {
			requested++
			return nil, false, errors.New("nobody answers")
		},
	}
	item := func(name string) *podItem {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, UID: types.UID(name)}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "api", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
		}}}}
		due := (translate.Target{}).TokenSecret(pod, nil, translate.Tokens{Renew: now.Add(-time.Second)})
		due.Data = map[string][]byte{(translate.Target{}).TokenRequests(pod)[0].Key: nil}
		shadow := &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.APIServerRoute: "kubernetes.default:443@10.70.0.25"}}}
		return &podItem{Item: &multicluster.Item{}, local: pod, shadow: shadow, tokens: due}
	}
	again := func(it *podItem) time.Duration {
		_, after, _ := kube.WaitReason(k.sendTokens(t.Context(), it))
		return after
	}
	a, b := item("a"), item("b")
	first, second := again(a), again(b)
	if first < failedTokensDelay || second < failedTokensDelay || first == second || max(first, second) > failedTokensDelay+failedTokensSpread {
		t.Errorf("tried again after %s and %s", first, second)
	}
	now = now.Add(renewalInterval)
	if due := k.states.expiringTokens(); len(due) > 0 {
		t.Errorf("looked at before: %v", due)
	}
	if got := again(a); got != first-renewalInterval || requested != 2 {
		t.Errorf("asked %d times, and tried again after %s", requested, got)
	}
	now = now.Add(failedTokensDelay)
	if due := k.states.expiringTokens(); len(due) != 2 {
		t.Errorf("looked at again: %v", due)
	}
	if again(a); requested != 3 {
		t.Errorf("asked %d times", requested)
	}
	now = now.Add(time.Hour)
	for _, it := range []*podItem{a, b} {
		it.local.Status.Reason, it.shadow = translate.ReasonAborted, nil
		if err := k.finishPod(t.Context(), it); err != nil {
			t.Fatal(err)
		}
	}
	if due := k.states.expiringTokens(); len(due) > 0 {
		t.Errorf("pods that ended are looked at: %v", due)
	}
}

// With the tunnel down pods are made all the same; while nobody knows where the API server is those wait that need it.
func TestTokensRouteDown(t *testing.T) {
	s := homeStage(t, liqov1beta1.ConditionError)
	s.run()
	pod := s.withToken("web", "builder")
	s.create(s.consumer, pod)
	plain := s.newPod(s.local, "plain")
	plain.Spec.AutomountServiceAccountToken = new(false)
	s.create(s.consumer, plain)
	eventually(s, s.provider, s.shadow("plain"), exists)
	s.absent(s.provider, s.shadow("web"))
	s.showAPIServer("10.96.0.3", "10.70.0.27")
	eventually(s, s.provider, s.tokens("web"), exists)
	s.event(pod, "APIServerUnreachable", "as soon as")
}

// A pod that was made before there was a network gets its tokens while the provider has not made it; one that runs keeps what it has.
func TestTokensBeforeNetwork(t *testing.T) {
	t.Parallel()
	s := homeStage(t, liqov1beta1.ConditionEstablished)
	foreign := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: s.node}}
	enabled := func(is bool) {
		testkit.UpdateStatus(t, s.consumer.Client, foreign, func(f *liqov1beta1.ForeignCluster) { f.Status.Modules.Networking.Enabled = is })
	}
	enabled(false)
	s.run()
	before := map[string]*offv1beta1.ShadowPod{}
	for _, name := range []string{"runs", "waits", "wants-none"} {
		pod := s.withToken(name, "builder")
		if name == "wants-none" {
			pod.Annotations = map[string]string{names.APIServerSupport: names.APIServerSupportDisabled}
		}
		s.create(s.consumer, pod)
		before[name] = eventually(s, s.provider, s.shadow(name), exists)
		s.absent(s.provider, s.tokens(name))
	}
	s.runRemotely(before["runs"], "10.7.0.9")
	eventually(s, s.consumer, s.localPod("runs"), phaseIs(corev1.PodRunning))
	for _, name := range []string{"waits", "wants-none"} {
		s.refuseRemotely(name, offv1beta1.ReasonOverQuota, "free 0 / requested 1")
		eventually(s, s.consumer, s.localPod(name), hasCondition(names.PodAccepted, "OverQuota", "free 0"))
	}
	enabled(true)
	s.showAPIServer("10.96.0.6", "10.70.0.30")
	anew := eventually(s, s.provider, s.shadow("waits"), func(now *offv1beta1.ShadowPod) error {
		if now.UID == before["waits"].UID {
			return errors.New("it is the one from before")
		}
		return nil
	})
	eventually(s, s.provider, s.tokens("waits"), exists)
	if route := translate.RouteOf(anew); route == nil || route.Addr.String() != "10.70.0.30" {
		t.Errorf("the way home is %v", route)
	}
	s.event(s.localPod("waits"), reasonTokensSent, "Successfully")
	s.event(s.localPod("runs"), reasonNoAPIServer, "goes on without")
	for _, name := range []string{"runs", "wants-none"} {
		if now := eventually(s, s.provider, s.shadow(name), exists); now.UID != before[name].UID || !now.DeletionTimestamp.IsZero() {
			t.Errorf("%s was made anew", name)
		}
		s.absent(s.provider, s.tokens(name))
	}
}

// Pods that get their tokens in time are told so once for all of one owner, and each one that did not.
func TestTokensEvents(t *testing.T) {
	recorder := record.NewFakeRecorder(20)
	k := &podKind{options: Options{Provider: "milan"}, events: newEventLog(recorder)}
	pod := func(name, owner string) *podItem {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(owner), Controller: new(true)}}
		}
		return &podItem{local: p}
	}
	count := func(step string, want int) {
		t.Helper()
		if len(recorder.Events) != want {
			t.Errorf("%s: %d events, want %d", step, len(recorder.Events), want)
		}
		for len(recorder.Events) > 0 {
			<-recorder.Events
		}
	}
	all := []*podItem{pod("a", "set"), pod("b", "set"), pod("c", "")}
	send := func() {
		for _, it := range all {
			k.tellSent(it)
		}
	}
	send()
	count("the first ones", 2)
	send()
	count("new ones", 0)
	for range 2 {
		for _, it := range all {
			k.events.record(it.local, corev1.EventTypeWarning, reasonTokensFailed, "nobody answers")
		}
		count("none", 3)
		send()
		count("new ones after that", 3)
	}
}

// Without a network nothing is asked for.
func TestTokensWithoutNetwork(t *testing.T) {
	t.Parallel()
	s := newTestEnv(t, func(o *Options) { o.APIServerSupport = true })
	s.create(s.consumer, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "builder", Namespace: s.local}})
	s.run()
	pod := s.withToken("web", "builder")
	s.create(s.consumer, pod)
	shadow := eventually(s, s.provider, s.shadow("web"), exists)
	s.event(pod, "APIServerSupportDisabled", "stay here")
	if translate.RouteOf(shadow) != nil || len(shadow.Spec.Pod.Volumes[0].Projected.Sources) > 0 {
		t.Errorf("the ShadowPod is %+v", shadow)
	}
	s.absent(s.provider, s.tokens("web"))
}

func TestTokensRenewal(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newPodStates(func() time.Time { return now })
	for name, at := range map[string]time.Time{"unknown": {}, "due": now, "past": now.Add(-time.Hour), "later": now.Add(time.Second)} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name}}
		m.withState(pod, func(k *podState) { k.tokens.renew = at })
	}
	got := map[types.NamespacedName]bool{}
	for _, key := range m.expiringTokens() {
		got[key] = true
	}
	if diff := cmp.Diff(map[types.NamespacedName]bool{{Namespace: "web", Name: "due"}: true, {Namespace: "web", Name: "past"}: true}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTokensAPIServerEvent(t *testing.T) {
	ip := func(namespace, name, kind, from, to string) ipamv1alpha1.IP {
		return ipamv1alpha1.IP{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{names.IPType: kind}},
			Spec:       ipamv1alpha1.IPSpec{IP: networkingv1beta1.IP(from)}, Status: ipamv1alpha1.IPStatus{IP: networkingv1beta1.IP(to)},
		}
	}
	for name, test := range map[string]struct {
		ips  []ipamv1alpha1.IP
		want string
	}{
		"nowhere":            {nil, "invalid IP"},
		"there":              {[]ipamv1alpha1.IP{ip("liqo", "api-server", names.IPTypeAPIServer, "10.96.0.1", "10.70.0.25")}, "10.70.0.25"},
		"not yet":            {[]ipamv1alpha1.IP{ip("liqo", "api-server", names.IPTypeAPIServer, "10.96.0.1", "")}, "invalid IP"},
		"somebody else's":    {[]ipamv1alpha1.IP{ip("shop", "api-server", names.IPTypeAPIServer, "10.96.0.1", "10.70.0.25")}, "invalid IP"},
		"of something else":  {[]ipamv1alpha1.IP{ip("liqo", "printer", "", "192.0.2.1", "10.70.0.25")}, "invalid IP"},
		"under an older one": {[]ipamv1alpha1.IP{ip("liqo", "api-server", names.IPTypeAPIServer, "10.96.0.1", "10.70.0.25"), ip("a", "older", "", "10.96.0.1", "10.70.0.7")}, "10.70.0.7"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := apiServerIn(test.ips, "liqo", publishedAddresses(test.ips)["liqo"]); got.String() != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
