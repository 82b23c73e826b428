// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/test/story"
)

// tokensOfConsumer returns the tokens that the provider finds in the remote namespace, by audience; that of the API server of the consumer
// is the one which this API server takes, under "".
func tokensOfConsumer(ctx context.Context) (map[string]string, error) {
	var secrets corev1.SecretList
	if err := provider.Client.List(ctx, &secrets, client.InNamespace(remoteShop)); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, s := range secrets.Items {
		for _, value := range s.Data {
			parts := strings.Split(string(value), ".")
			if len(parts) != 3 {
				continue
			}
			var claims struct {
				Audiences []string `json:"aud"`
			}
			if text, err := base64.RawURLEncoding.DecodeString(parts[1]); err != nil || json.Unmarshal(text, &claims) != nil {
				continue
			}
			for _, audience := range claims.Audiences {
				if !strings.HasSuffix(audience, ".example.com") {
					audience = ""
				}
				out[audience] = string(value)
			}
		}
	}
	return out, nil
}

// The provider reaches for the consumer with all that it has of it: the tokens of the pods that it runs, and certificates of its own
// authority.
func TestProviderReach(t *testing.T) {
	var tokens map[string]string
	story.Eventually(t, "the tokens of the consumer's pods", patience, func(ctx context.Context) error {
		var err error
		if tokens, err = tokensOfConsumer(ctx); err == nil && (tokens[""] == "" || tokens["bank.example.com"] == "") {
			err = fmt.Errorf("there are tokens of %d audiences", len(tokens))
		}
		return err
	})
	t.Run("token_of_other_audience", func(t *testing.T) {
		if tokens["cloud.example.com"] != "" {
			t.Error("the provider has a token for an audience that the pod does not name in its annotation")
		}
	})
	stolen, err := tokenParty(consumer, tokens[""])
	if err != nil {
		t.Fatal(err)
	}
	if user, err := stolen.userName(t.Context()); err != nil || user != "system:serviceaccount:"+shop+":default" {
		t.Fatalf("the token is that of %q: %v", user, err)
	}
	signed, err := userParty(t.Context(), "kubernetes-admin")
	if err != nil {
		t.Fatal(err)
	}
	atConsumer := func(set func(*rest.Config)) attacker {
		config := rest.AnonymousClientConfig(consumer.Config)
		set(config)
		out, err := newAttackerWith(consumer, config, stolen.RESTMapper())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	forged := atConsumer(func(c *rest.Config) { c.CertData, c.KeyData = signed.config.CertData, signed.config.KeyData })
	bank := atConsumer(func(c *rest.Config) { c.BearerToken = tokens["bank.example.com"] })
	review := func(p attacker) request { return p.create(&authenticationv1.SelfSubjectReview{}) }
	view := stolen.list(&corev1.ConfigMapList{}, shop) // by a RoleBinding of the consumer
	runAttacks(t, map[string]attack{
		"certificate":            {review(forged), "Unauthorized", review(signed)},
		"token_for_a_bank":       {review(bank), "Unauthorized", review(stolen)},
		"secret":                 {stolen.get(secret(payroll, "canary")), forbidden, view},
		"secret_of_shop":         {stolen.get(secret(shop, "canary")), forbidden, view},
		"secret_elsewhere":       {stolen.get(secret(elsewhere, "canary")), forbidden, view},
		"all_secrets":            {stolen.list(&corev1.SecretList{}, ""), forbidden, view},
		"config_maps":            {stolen.list(&corev1.ConfigMapList{}, payroll), forbidden, view},
		"pods":                   {stolen.list(&corev1.PodList{}, payroll), forbidden, view},
		"token_of_account":       {stolen.token(payroll, "default", nil), forbidden, view},
		"credentials":            {stolen.list(&corev1.SecretList{}, consumerTenant), forbidden, view},
		"namespace_maps":         {stolen.list(&offv1beta1.NamespaceMapList{}, consumerTenant), forbidden, view},
		"role_binding":           {stolen.create(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "attack"}}), forbidden, view},
		"namespace_offloading":   {stolen.create(&offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: payroll, Name: "offloading"}}), forbidden, view},
		"token_of_shop_by_token": {stolen.token(shop, "cashier", nil), forbidden, view},
	})
}

// The provider looks for what was not sent: in its copies of the offloaded namespace, after a Secret that was.
func TestProviderCopies(t *testing.T) {
	kubectl(t, consumer, `
apiVersion: v1
kind: Secret
metadata: {name: token, namespace: attacks-shop, annotations: {kubernetes.io/service-account.name: cashier}}
type: kubernetes.io/service-account-token
---
apiVersion: v1
kind: Secret
metadata: {name: skipped, namespace: attacks-shop, annotations: {liqo.io/skip-reflection: "true"}}
stringData: {password: canary}
---
apiVersion: v1
kind: Secret
metadata: {name: sent, namespace: attacks-shop}
stringData: {password: canary}
`, "apply", "-f", "-")
	story.Eventually(t, "the copy of a Secret", patience, func(ctx context.Context) error {
		return provider.Client.Get(ctx, client.ObjectKey{Namespace: remoteShop, Name: "sent"}, &corev1.Secret{})
	})
	var secrets corev1.SecretList
	if err := provider.Client.List(t.Context(), &secrets, client.InNamespace(remoteShop)); err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]string{"account_token": "token", "skipped_secret": "skipped"} {
		t.Run(name, func(t *testing.T) {
			if slices.ContainsFunc(secrets.Items, func(s corev1.Secret) bool { return s.Name == of }) {
				t.Errorf("the provider has the Secret %s", of)
			}
		})
	}
}

// The provider fills the consumer's etcd by statuses and events of pods.
func TestProviderTexts(t *testing.T) {
	remote := read(t, provider, pod(remoteShop, "remote"))
	endless := strings.Repeat("x", 900_000)
	t.Run("pod_status", func(t *testing.T) {
		condition := func(kind corev1.PodConditionType, message string) {
			t.Helper()
			text, err := json.Marshal(corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: kind, Status: corev1.ConditionTrue, Message: message}}}})
			if err != nil {
				t.Fatal(err)
			}
			if err := provider.Client.Status().Patch(t.Context(), remote.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, text)); err != nil {
				t.Fatal(err)
			}
		}
		condition("attacks.example.com/Flood", endless)
		condition("attacks.example.com/Control", "ordinary")
		var shown *corev1.Pod
		story.Eventually(t, "the ordinary condition", patience, func(context.Context) error {
			shown = read(t, consumer, pod(shop, "remote"))
			if !slices.ContainsFunc(shown.Status.Conditions, func(c corev1.PodCondition) bool { return c.Message == "ordinary" }) {
				return fmt.Errorf("conditions are of %d kinds", len(shown.Status.Conditions))
			}
			return nil
		})
		if text, err := json.Marshal(shown.Status); err != nil || len(text) > 32<<10 {
			t.Errorf("the status has %d bytes, want 32 KiB at most: %v", len(text), err)
		}
	})
	t.Run("event", func(t *testing.T) {
		event := func(name, message string) {
			t.Helper()
			e := &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Namespace: remoteShop, Name: name},
				InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: remoteShop, Name: remote.Name, UID: remote.UID},
				Type:           corev1.EventTypeWarning, Reason: "Attack", Message: message, Source: corev1.EventSource{Component: "kubelet"},
				FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(), Count: 1,
			}
			if err := provider.Client.Create(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = provider.Client.Delete(context.WithoutCancel(t.Context()), e) })
		}
		event("attacks-flood", endless)
		event("attacks-control", "ordinary")
		story.Eventually(t, "both events", patience, func(ctx context.Context) error {
			var events corev1.EventList
			if err := consumer.Client.List(ctx, &events, client.InNamespace(shop)); err != nil {
				return err
			}
			var ordinary, flood bool
			for _, e := range events.Items {
				ordinary = ordinary || strings.Contains(e.Message, "ordinary")
				flood = flood || strings.Contains(e.Message, "xxx")
				if len(e.Message) > 1<<10 {
					t.Errorf("an event has a message of %d bytes, want 1 KiB at most", len(e.Message))
				}
			}
			if !ordinary || !flood {
				return fmt.Errorf("there are %d events: ordinary %t, long %t", len(events.Items), ordinary, flood)
			}
			return nil
		})
	})
}

// seenSecrets watches the Secrets of namespaces of the provider until the test ends.
type seenSecrets struct {
	sync.Mutex
	keys []string
}

func (s *seenSecrets) watch(t *testing.T, namespace string) {
	t.Helper()
	w, err := kubernetes.NewForConfigOrDie(provider.Config).CoreV1().Secrets(namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	go func() {
		for e := range w.ResultChan() {
			if found, ok := e.Object.(*corev1.Secret); ok {
				s.Lock()
				s.keys = append(s.keys, found.Namespace+"/"+found.Name)
				s.Unlock()
			}
		}
	}()
}

func (s *seenSecrets) inNamespace(namespace string) []string {
	s.Lock()
	defer s.Unlock()
	return slices.DeleteFunc(slices.Clone(s.keys), func(key string) bool { return !strings.HasPrefix(key, namespace+"/") })
}

// The provider answers what it was not asked: without its own Liqo, which would revert that, and without the rules of its CRDs.
func TestProviderStatus(t *testing.T) {
	const late = "attacks-late" // the one entry that was asked for
	hostile := map[string]string{payroll: "attacks-loot-payroll", elsewhere: "attacks-loot-elsewhere", metav1.NamespaceSystem: "attacks-loot-system", shop: "attacks-loot-shop"}
	user, err := slice.userName(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stripRules(t)
	stopLiqo(t, provider, "liqo-controller-manager", "controller-manager")
	kubectl(t, consumer, strings.ReplaceAll(offloadedYAML, "NAME", late), "apply", "-f", "-")
	t.Cleanup(func() {
		kubectl(t, consumer, "", "delete", "namespaceoffloading", "offloading", "-n", late, "--wait=false")
	})
	mapping := &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: providerTenant, Name: provider.ID}}
	remoteLate := names.DefaultTwin(late, consumer.ID)
	story.Eventually(t, "the question about "+late, patience, func(ctx context.Context) error {
		if err := provider.Client.Get(ctx, client.ObjectKeyFromObject(mapping), mapping); err == nil && mapping.Spec.DesiredMapping[late] != remoteLate {
			return fmt.Errorf("asked are %v", mapping.Spec.DesiredMapping)
		}
		return err
	})

	seen := &seenSecrets{}
	status := map[string]offv1beta1.RemoteNamespaceStatus{late: {RemoteNamespace: remoteLate, Phase: offv1beta1.MappingAccepted}}
	for local, remote := range hostile {
		allowCopies(t, remote, user)
		seen.watch(t, remote)
		status[local] = offv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: offv1beta1.MappingAccepted}
	}
	allowCopies(t, remoteLate, user)
	story.Eventually(t, "the hostile status to be taken without the rules of the CRD", patience, func(ctx context.Context) error {
		return provider.Client.Status().Patch(ctx, mapping, mergePatch(t, "status", "currentMapping", status))
	})
	for local, remote := range hostile {
		if entry := mapping.Status.CurrentMapping[local]; entry.RemoteNamespace != remote {
			t.Fatalf("the hostile entry of %s is not in the provider's status: %+v", local, entry)
		}
	}
	story.Eventually(t, "the Secret of the namespace that was asked for", patience, func(ctx context.Context) error {
		return provider.Client.Get(ctx, client.ObjectKey{Namespace: remoteLate, Name: "canary"}, &corev1.Secret{})
	})
	known := read(t, consumer, &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: consumerTenant, Name: provider.ID}})
	if known.Status.CurrentMapping[late].RemoteNamespace != remoteLate {
		t.Errorf("the consumer knows of %+v", known.Status.CurrentMapping)
	}
	for local, remote := range hostile {
		t.Run("mapping_of_"+strings.ReplaceAll(local, "-", "_"), func(t *testing.T) {
			if entry, is := known.Status.CurrentMapping[local]; is && entry.RemoteNamespace == remote {
				t.Errorf("the consumer believes %+v", entry)
			}
			if found := seen.inNamespace(remote); len(found) > 0 {
				t.Errorf("the provider has got %v", found)
			}
			if local != shop { // which it serves
				expectRefusal(t, kubelet.list(&corev1.SecretList{}, local)(t.Context()), forbidden)
			}
		})
	}
	t.Run("address_of_api_server", addressOfAPIServer)
}

const offloadedYAML = `
apiVersion: v1
kind: Namespace
metadata: {name: NAME}
---
apiVersion: v1
kind: Secret
metadata: {name: canary, namespace: NAME}
stringData: {password: canary}
---
apiVersion: offloading.liqo.io/v1beta1
kind: NamespaceOffloading
metadata: {name: offloading, namespace: NAME}
spec: {namespaceMappingStrategy: DefaultName, podOffloadingStrategy: LocalAndRemote, clusterSelector: {nodeSelectorTerms: []}}
`

// allowCopies makes a namespace in the provider into which the virtual kubelet of the consumer may copy.
func allowCopies(t *testing.T, namespace, user string) {
	t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "attack"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: names.RoleVirtualKubeletRemote},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{names.RemoteClusterID: consumer.ID}}}
	for _, obj := range []client.Object{ns, binding} {
		if err := client.IgnoreAlreadyExists(provider.Client.Create(t.Context(), obj)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { kubectl(t, provider, "", "delete", "namespace", namespace, "--wait=false") })
}

// stripRules takes the rules off the CRD of NamespaceMaps in the provider for as long as the test runs.
func stripRules(t *testing.T) {
	t.Helper()
	const crd, rules = "namespacemaps.offloading.liqo.io", "/spec/versions/0/schema/openAPIV3Schema/x-kubernetes-validations"
	before := kubectl(t, provider, "", "get", "crd", crd, "-o", "jsonpath={.spec.versions[0].schema.openAPIV3Schema.x-kubernetes-validations}")
	kubectl(t, provider, "", "patch", "crd", crd, "--type=json", "-p", `[{"op":"remove","path":"`+rules+`"}]`)
	t.Cleanup(func() {
		kubectl(t, provider, "", "patch", "crd", crd, "--type=json", "-p", `[{"op":"add","path":"`+rules+`","value":`+before+`}]`)
	})
}

// addressOfAPIServer reports in the name of the provider that its API server is at the metadata address of the consumer's cloud.
func addressOfAPIServer(t *testing.T) {
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: consumerTenant, Name: names.KubeconfigSecret(names.SliceIdentity(provider.ID))}}
	before := read(t, consumer, key.DeepCopy())
	granted := read(t, provider, &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: providerTenant, Name: provider.ID}})
	identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: consumerTenant, Name: names.SliceIdentity(provider.ID)}}
	story.Eventually(t, "the address of the provider", patience, func(context.Context) error { // an earlier run on these clusters left another one
		if now := read(t, consumer, identity).Spec.AuthParams.APIServer; now != granted.Status.AuthParams.APIServer {
			return fmt.Errorf("it is %s", now)
		}
		return nil
	})
	start := time.Now().Truncate(time.Second) // events have no more
	if err := provider.Client.Status().Patch(t.Context(), granted, mergePatch(t, "status", "authParams", map[string]string{
		"apiServer": "https://169.254.169.254:443", "proxyURL": "http://127.0.0.1:8082",
	})); err != nil {
		t.Fatal(err)
	}
	story.Eventually(t, "the event about the address", patience, func(ctx context.Context) error {
		var events corev1.EventList
		if err := consumer.Client.List(ctx, &events, client.InNamespace(consumerTenant)); err != nil {
			return err
		}
		for _, e := range events.Items {
			last := e.CreationTimestamp.Time
			if e.Series != nil { // repeated: an earlier run on these clusters said the same
				last = e.Series.LastObservedTime.Time
			}
			if e.Reason == "InvalidAuthParams" && !last.Before(start) {
				return nil
			}
		}
		return fmt.Errorf("it is none of %d events", len(events.Items))
	})
	if after := read(t, consumer, key); !apiequality.Semantic.DeepEqual(before.Data, after.Data) {
		t.Error("the kubeconfig of the slice has changed")
	}
}
