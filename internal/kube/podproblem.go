// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// PodProblem is why a pod is not ready. Reason is that of its container or condition, "" for none.
type PodProblem struct {
	Reason, Message string
	exitCode        string // of the last run, ", exit code 1", "" for none
	restarts        int32
}

// String returns the problem for messages.
func (p PodProblem) String() string {
	if p.Message == "" {
		return p.Reason + p.exitCode
	}
	return p.Reason + p.exitCode + ": " + p.Message
}

// crashes is the number of restarts after which another restart will not help.
const crashes = 3

// noImage are the reasons of containers whose image cannot be pulled. The first two alternate.
var noImage = []string{
	"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
}

// LacksImage reports whether that is the reason of a container whose image cannot be pulled.
func LacksImage(reason string) bool { return slices.Contains(noImage, reason) }

// IsCrashing reports whether a container was restarted in vain.
func (p PodProblem) IsCrashing() bool { return p.Reason == "CrashLoopBackOff" && p.restarts >= crashes }

// IsPermanent reports whether the pod will not become ready without a change.
func (p PodProblem) IsPermanent() bool {
	return p.IsCrashing() || p.Reason == "InvalidImageName" || p.Reason == "ErrImageNeverPull"
}

// PodProblemOf returns why a pod is not ready: the state of a container, else the conditions of the pod.
func PodProblemOf(pod *corev1.Pod) PodProblem {
	if pod.Status.Phase == corev1.PodSucceeded {
		return PodProblem{}
	}
	var starting PodProblem
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting, ended := s.State.Waiting, s.State.Terminated
		switch {
		case waiting != nil && (waiting.Reason == "ContainerCreating" || waiting.Reason == "PodInitializing"):
			starting = cmp.Or(starting, PodProblem{Reason: waiting.Reason})
		case waiting != nil:
			p := PodProblem{Reason: cmp.Or(waiting.Reason, "waiting"), Message: waiting.Message, restarts: s.RestartCount}
			if last := s.LastTerminationState.Terminated; last != nil {
				p.exitCode, p.Message = fmt.Sprintf(", exit code %d", last.ExitCode), lastWords(last)
			}
			return p
		case ended != nil && ended.ExitCode != 0:
			return PodProblem{Reason: fmt.Sprintf("exit code %d", ended.ExitCode), Message: lastWords(ended)}
		}
	}
	for _, of := range []struct {
		kind    corev1.PodConditionType
		unnamed string
	}{{corev1.PodScheduled, "not scheduled"}, {corev1.PodReady, "not ready"}} {
		for _, c := range pod.Status.Conditions {
			if c.Type == of.kind && c.Status == corev1.ConditionFalse {
				return PodProblem{Reason: cmp.Or(c.Reason, of.unnamed), Message: c.Message}
			}
		}
	}
	return starting
}

// lastWords returns the last line of a termination message: the chart lets it be the end of the log.
func lastWords(ended *corev1.ContainerStateTerminated) string {
	text := strings.TrimSpace(ended.Message)
	return cmp.Or(text[strings.LastIndex(text, "\n")+1:], ended.Reason)
}

// NodeReady reports whether the Ready condition of a node is True.
func NodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
