// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/pki"
)

// ServingOptions configure the approval of serving certificates.
type ServingOptions struct {
	// Now is the time; nil is the clock.
	Now func() time.Time
}

// servingRequests approves the serving certificates of virtual kubelets, and denies invalid requests in their name. An approved
// request is deleted after it was served, or with its virtual node: a peering leaves no orphan. Requests of real kubelets and
// of unknown clients are ignored.
type servingRequests struct {
	client client.Client
	// direct bypasses the cache: a virtual kubelet requests in its first second, and seldom again.
	direct  client.Reader
	options ServingOptions
}

// SetupServing registers the approval of serving certificates.
func SetupServing(mgr ctrl.Manager, o ServingOptions) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &servingRequests{client: mgr.GetClient(), direct: mgr.GetAPIReader(), options: o}
	c := kube.NewController[*certv1.CertificateSigningRequest](mgr, kube.Options{Name: "serving"}, s)
	concern := func(obj client.Object) bool {
		request, ok := obj.(*certv1.CertificateSigningRequest)
		return ok && (isUndecided(obj) || approvalOf(request) != nil)
	}
	gone := predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false }}
	b := c.Builder(predicate.NewPredicateFuncs(concern)).
		Watches(&offv1beta1.VirtualNode{}, handler.EnqueueRequestsFromMapFunc(s.approvedFor), builder.WithPredicates(gone))
	return c.Complete(b)
}

// approvedFor returns the approved requests of a virtual kubelet.
func (s *servingRequests) approvedFor(ctx context.Context, vn client.Object) []reconcile.Request {
	return kube.Requests(ctx, s.client, &certv1.CertificateSigningRequestList{}, func(request *certv1.CertificateSigningRequest) bool {
		return approvalOf(request) != nil && accountOf(request) == client.ObjectKeyFromObject(vn)
	})
}

// approvalOf returns ours of a request, or nil.
func approvalOf(request *certv1.CertificateSigningRequest) *certv1.CertificateSigningRequestCondition {
	if request.Spec.SignerName != certv1.KubeletServingSignerName {
		return nil
	}
	i := slices.IndexFunc(request.Status.Conditions, func(c certv1.CertificateSigningRequestCondition) bool {
		return c.Type == certv1.CertificateApproved && c.Reason == names.ServingApproved
	})
	if i < 0 {
		return nil
	}
	return &request.Status.Conditions[i]
}

// isUndecided passes requests for serving certificates that are neither approved nor denied.
func isUndecided(obj client.Object) bool {
	request, ok := obj.(*certv1.CertificateSigningRequest)
	if !ok || request.Spec.SignerName != certv1.KubeletServingSignerName {
		return false
	}
	return !slices.ContainsFunc(request.Status.Conditions, func(c certv1.CertificateSigningRequestCondition) bool {
		return c.Type == certv1.CertificateApproved || c.Type == certv1.CertificateDenied
	})
}

const (
	// addressLimit is the time the API server may need to learn the address of a running pod.
	addressLimit = 2 * time.Minute
	addressDelay = time.Second
	// servedFor is how long an issued certificate can be read. The requester watches for it, and repeats a lost request.
	servedFor = 10 * time.Second
)

// Sync decides one request.
func (s *servingRequests) Sync(ctx context.Context, request *certv1.CertificateSigningRequest) error {
	if approval := approvalOf(request); approval != nil {
		return s.removeRequest(ctx, request, approval.LastUpdateTime.Time)
	}
	if !isUndecided(request) {
		return nil
	}
	in, err := s.gatherRequester(ctx, request)
	if err != nil || in == nil {
		return err
	}
	denial := in.checkRequest(request)
	if denial != nil && in.addressMissing() && s.options.Now().Sub(request.CreationTimestamp.Time) < addressLimit {
		return kube.Wait(addressDelay, "the pod of the virtual kubelet has no address yet")
	}
	if denial != nil {
		gone, err := s.isKubeletGone(ctx, request, in.account)
		if err != nil {
			return err
		}
		if gone {
			return s.discardRequest(ctx, request)
		}
	}
	return s.decideRequest(ctx, request, denial)
}

// removeRequest deletes an approved request: a while after the certificate was issued, and at once without its virtual node.
func (s *servingRequests) removeRequest(ctx context.Context, request *certv1.CertificateSigningRequest, approved time.Time) error {
	var err error
	if account := accountOf(request); account.Name != "" {
		err = s.direct.Get(ctx, account, &offv1beta1.VirtualNode{})
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the VirtualNode: %w", err)
	}
	if err == nil {
		if len(request.Status.Certificate) == 0 {
			return nil
		}
		if remaining := approved.Add(servedFor).Sub(s.options.Now()); remaining > 0 {
			return kube.Wait(remaining, "the issued certificate is being read")
		}
	}
	return s.discardRequest(ctx, request)
}

func (s *servingRequests) discardRequest(ctx context.Context, request *certv1.CertificateSigningRequest) error {
	return kube.DeleteObject(ctx, s.client, request, "removing the request for a certificate")
}

// endingDelay is the retry interval for a terminating pod.
const endingDelay = time.Second

// isKubeletGone reports whether the requesting pod no longer exists, and waits for a terminating pod: the answer has no reader, and the pod's
// Deployment, which identifies the pod as a virtual kubelet, may be gone before. The result is false for a requester outside of a pod.
func (s *servingRequests) isKubeletGone(ctx context.Context, request *certv1.CertificateSigningRequest, account types.NamespacedName) (bool, error) {
	name, uid := request.Spec.Extra[podNameExtra], request.Spec.Extra[podUIDExtra]
	if account.Namespace == "" || len(name) != 1 || len(uid) != 1 {
		return false, nil
	}
	var found corev1.PodList
	if err := s.direct.List(ctx, &found, client.InNamespace(account.Namespace), client.MatchingFields{"metadata.name": name[0]}); err != nil {
		return false, fmt.Errorf("looking for the pod that asked: %w", err)
	}
	i := slices.IndexFunc(found.Items, func(pod corev1.Pod) bool { return string(pod.UID) == uid[0] })
	if i >= 0 && !found.Items[i].DeletionTimestamp.IsZero() {
		return false, kube.Wait(endingDelay, "the pod that asked ends")
	}
	return i < 0, nil
}

// certificateRequester is the ServiceAccount of the request, and its pods.
type certificateRequester struct {
	account types.NamespacedName
	// node is the VirtualNode of that name, or nil.
	node *offv1beta1.VirtualNode
	// pods of the virtual kubelet; only the pod of the used token, if known.
	pods []corev1.Pod
}

const accountPrefix = "system:serviceaccount:"

// accountOf returns the ServiceAccount of a request, named like its VirtualNode; the zero value for another kind of
// user.
func accountOf(request *certv1.CertificateSigningRequest) (account types.NamespacedName) {
	if rest, ok := strings.CutPrefix(request.Spec.Username, accountPrefix); ok {
		account.Namespace, account.Name, _ = strings.Cut(rest, ":")
	}
	return account
}

// gatherRequester returns nil if the request is out of scope: not from a ServiceAccount of a tenant namespace, and
// without the name of a virtual node.
func (s *servingRequests) gatherRequester(ctx context.Context, request *certv1.CertificateSigningRequest) (*certificateRequester, error) {
	in := &certificateRequester{account: accountOf(request)}
	owned, err := s.isOurs(ctx, request, in.account)
	if err != nil || !owned {
		return nil, err
	}
	if in.account.Name == "" {
		return in, nil
	}
	var vn offv1beta1.VirtualNode
	if err := s.direct.Get(ctx, in.account, &vn); err != nil {
		if apierrors.IsNotFound(err) {
			return in, nil
		}
		return nil, fmt.Errorf("reading the VirtualNode: %w", err)
	}
	in.node = &vn
	in.pods, err = s.kubeletPods(ctx, request, &vn)
	return in, err
}

func (s *servingRequests) isOurs(ctx context.Context, request *certv1.CertificateSigningRequest, account types.NamespacedName) (bool, error) {
	if account.Namespace != "" {
		var ns corev1.Namespace
		err := s.direct.Get(ctx, types.NamespacedName{Name: account.Namespace}, &ns)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading the namespace: %w", err)
		}
		if _, ok := peer.OfNamespace(&ns); ok {
			return true, nil
		}
	}
	node, err := pki.ServingNode(request.Spec.Request)
	if err != nil {
		return false, nil
	}
	var all offv1beta1.VirtualNodeList
	if err := s.direct.List(ctx, &all); err != nil {
		return false, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	return slices.ContainsFunc(all.Items, func(vn offv1beta1.VirtualNode) bool { return vn.Name == node }), nil
}

// Attributes of a pod's token that the API server adds to requests.
const (
	podNameExtra = "authentication.kubernetes.io/pod-name"
	podUIDExtra  = "authentication.kubernetes.io/pod-uid"
)

// kubeletPods returns the pods of the virtual kubelet's Deployment that run as the virtual kubelet's account.
func (s *servingRequests) kubeletPods(ctx context.Context, request *certv1.CertificateSigningRequest, vn *offv1beta1.VirtualNode) ([]corev1.Pod, error) {
	var all corev1.PodList
	if err := s.direct.List(ctx, &all, client.InNamespace(vn.Namespace), client.MatchingLabels{names.VirtualNode: vn.Name}); err != nil {
		return nil, fmt.Errorf("listing pods of the virtual kubelet: %w", err)
	}
	name, uid := request.Spec.Extra[podNameExtra], request.Spec.Extra[podUIDExtra]
	var out []corev1.Pod
	for i := range all.Items {
		pod := &all.Items[i]
		switch {
		case pod.Spec.ServiceAccountName != vn.Name:
			continue
		case len(name) > 0 && !slices.Equal(name, []string{pod.Name}), len(uid) > 0 && !slices.Equal(uid, []string{string(pod.UID)}):
			continue
		}
		runs, err := s.ofDeployment(ctx, pod, names.VirtualKubelet(vn.Name))
		if err != nil {
			return nil, err
		}
		if runs {
			out = append(out, *pod)
		}
	}
	return out, nil
}

func (s *servingRequests) ofDeployment(ctx context.Context, pod *corev1.Pod, deployment string) (bool, error) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "ReplicaSet" {
		return false, nil
	}
	var set appsv1.ReplicaSet
	if err := s.direct.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}, &set); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading the ReplicaSet of pod %s: %w", pod.Name, err)
	}
	above := metav1.GetControllerOf(&set)
	return set.UID == owner.UID && above != nil && above.Kind == "Deployment" && above.Name == deployment, nil
}

// addressMissing reports whether a pod that may have sent the request has no address yet.
func (a *certificateRequester) addressMissing() bool {
	return slices.ContainsFunc(a.pods, func(pod corev1.Pod) bool { return len(pod.Status.PodIPs) == 0 })
}

// checkRequest returns why the request is not exactly the expected request of a virtual kubelet for itself.
func (a *certificateRequester) checkRequest(request *certv1.CertificateSigningRequest) error {
	if a.node == nil {
		if a.account.Name == "" {
			return fmt.Errorf("user %q is not the ServiceAccount of a virtual node", request.Spec.Username)
		}
		return fmt.Errorf("ServiceAccount %s is not that of a VirtualNode", a.account)
	}
	if !servingUsages(request.Spec.Usages) {
		return fmt.Errorf("the usages %q are not those of a serving certificate", request.Spec.Usages)
	}
	if len(a.pods) == 0 {
		return errors.New("the request does not come from a pod of the virtual kubelet's Deployment")
	}
	// A request for some addresses of a pod is as valid as a request for all of them.
	var denial error
	for i := range a.pods {
		for _, ips := range addressSets(&a.pods[i]) {
			for _, dns := range [][]string{nil, {a.node.Name}} {
				if denial = pki.CheckServingCSR(request.Spec.Request, a.node.Name, ips, dns); denial == nil {
					return nil
				}
			}
		}
	}
	if denial == nil {
		return errors.New("no pod of the virtual kubelet has an address")
	}
	return pki.CheckServingCSR(request.Spec.Request, a.node.Name, firstAddresses(a.pods), nil)
}

func servingUsages(usages []certv1.KeyUsage) bool {
	sorted := slices.Sorted(slices.Values(usages))
	return slices.Equal(sorted, []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageServerAuth}) ||
		slices.Equal(sorted, []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageKeyEncipherment, certv1.UsageServerAuth})
}

// addressSets returns the sets of addresses under which a pod may serve: all addresses, or a single address.
func addressSets(pod *corev1.Pod) [][]netip.Addr {
	var all []netip.Addr
	for _, ip := range pod.Status.PodIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil {
			all = append(all, addr)
		}
	}
	if len(all) == 0 {
		return nil
	}
	out := [][]netip.Addr{all}
	if len(all) > 1 {
		for _, addr := range all {
			out = append(out, []netip.Addr{addr})
		}
	}
	return out
}

// firstAddresses returns the addresses for the message of a denial.
func firstAddresses(pods []corev1.Pod) []netip.Addr {
	for i := range pods {
		if sets := addressSets(&pods[i]); len(sets) > 0 {
			return sets[0]
		}
	}
	return nil
}

// reasonServingDenied is the reason of a denial.
const reasonServingDenied = "NotVirtualKubeletServing"

func (s *servingRequests) decideRequest(ctx context.Context, request *certv1.CertificateSigningRequest, denial error) error {
	condition := certv1.CertificateSigningRequestCondition{
		Type:    certv1.CertificateApproved,
		Status:  corev1.ConditionTrue,
		Reason:  names.ServingApproved,
		Message: "the request is that of a virtual kubelet for its own node and addresses",
	}
	if denial != nil {
		condition.Type, condition.Reason, condition.Message = certv1.CertificateDenied, reasonServingDenied, denial.Error()
	}
	decided := request.DeepCopy()
	decided.Status.Conditions = append(decided.Status.Conditions, condition)
	if err := s.client.SubResource("approval").Update(ctx, decided); err != nil {
		return fmt.Errorf("deciding about the serving certificate: %w", err)
	}
	return nil
}
