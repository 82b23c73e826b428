// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

// Reasons of the events on a Secret.
const (
	reasonMissingLabel      = "MissingRemoteClusterID"
	reasonMissingAnnotation = "MissingRemoteTenantNamespace"
	reasonWrongNamespace    = "WrongNamespace"
	reasonInvalidKubeconfig = "InvalidKubeconfig"
	reasonDuplicate         = "DuplicateCredentials"
	reasonRefused           = "RefusedByPeer"
	reasonDraining          = "Draining"
	reasonCopiesLeft        = "CopiesLeft"
	reasonStarted           = "ReplicationStarted"
	reasonCredentials       = "CredentialsChanged"
)

// peerCredentials are the content of a valid Secret.
type peerCredentials struct {
	secret          *corev1.Secret
	kubeconfig      []byte
	remoteNamespace string
}

func (c *peerCredentials) isDeleting() bool { return !c.secret.DeletionTimestamp.IsZero() }

func (c *peerCredentials) enginePair() multicluster.Pair {
	return multicluster.Pair{Local: c.secret.Namespace, Remote: c.remoteNamespace}
}

// checkSecret reads a Secret found in the tenant namespace of peer.
func checkSecret(peer liqov1beta1.ClusterID, secret *corev1.Secret) (*peerCredentials, *problem) {
	label, namespace := secret.Labels[names.RemoteClusterID], secret.Annotations[names.RemoteTenantNamespace]
	switch {
	case label == "":
		return nil, &problem{reasonMissingLabel, fmt.Sprintf("the label %s is missing: it names the cluster that the kubeconfig is for", names.RemoteClusterID)}
	case label != string(peer):
		return nil, &problem{reasonWrongNamespace, fmt.Sprintf("credentials for %q do not count in the tenant namespace of %q", label, peer)}
	case namespace == "":
		return nil, &problem{reasonMissingAnnotation, fmt.Sprintf("the annotation %s is missing: it names the tenant namespace at %q", names.RemoteTenantNamespace, peer)}
	}
	kubeconfig, ok := secret.Data[names.KubeconfigKey]
	if !ok {
		return nil, &problem{reasonInvalidKubeconfig, fmt.Sprintf("the key %s is missing", names.KubeconfigKey)}
	}
	if _, err := pki.ParseKubeconfig(kubeconfig); err != nil {
		return nil, &problem{reasonInvalidKubeconfig, err.Error()}
	}
	return &peerCredentials{secret: secret, kubeconfig: kubeconfig, remoteNamespace: namespace}, nil
}

// chooseCredentials selects the Secret for a peer and returns the problems of the rest. Of several valid Secrets the oldest takes
// precedence: a restart changes nothing. A Secret being deleted is used only without an alternative: replicas must still be
// removed from the peer.
func chooseCredentials(peer liqov1beta1.ClusterID, secrets []corev1.Secret) (*peerCredentials, map[types.UID]problem) {
	problems := make(map[types.UID]problem)
	var live, going []*peerCredentials
	for i := range secrets {
		c, wrong := checkSecret(peer, &secrets[i])
		switch {
		case wrong != nil:
			problems[secrets[i].UID] = *wrong
		case c.isDeleting():
			going = append(going, c)
		default:
			live = append(live, c)
		}
	}
	slices.SortFunc(live, compareAge)
	slices.SortFunc(going, compareAge)
	switch {
	case len(live) > 1:
		for i, c := range live {
			problems[c.secret.UID] = duplicateProblem(peer, live[0].secret, live[max(i, 1)].secret)
		}
		return live[0], problems
	case len(live) == 1:
		return live[0], problems
	case len(going) > 0:
		return going[0], problems
	}
	return nil, problems
}

func duplicateProblem(peer liqov1beta1.ClusterID, used, other *corev1.Secret) problem {
	return problem{reasonDuplicate, fmt.Sprintf("%q has more than one Secret with control-plane credentials: %s/%s, the older one, is used and not %s/%s",
		peer, used.Namespace, used.Name, other.Namespace, other.Name)}
}

func compareAge(a, b *peerCredentials) int {
	return cmp.Or(
		a.secret.CreationTimestamp.Compare(b.secret.CreationTimestamp.Time),
		cmp.Compare(a.secret.Namespace, b.secret.Namespace),
		cmp.Compare(a.secret.Name, b.secret.Name),
	)
}
