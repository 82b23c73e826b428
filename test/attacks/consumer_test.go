// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"encoding/json"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// shadowPod returns an ordinary one of the consumer, with a change.
func shadowPod(namespace string, edit func(*offv1beta1.ShadowPod)) *offv1beta1.ShadowPod {
	sp := &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "attack", Labels: map[string]string{names.OffloadingOrigin: consumer.ID}}}
	sp.Spec.Pod = corev1.PodSpec{
		AutomountServiceAccountToken: new(false),
		Containers: []corev1.Container{{
			Name: "c", Image: "docker.io/library/busybox:latest",
			Resources: corev1.ResourceRequirements{Requests: amounts("10m", "16Mi")},
		}},
	}
	edit(sp)
	return sp
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// The consumer asks for pods, with the certificate of its ResourceSlice.
func TestConsumerPods(t *testing.T) {
	type edit = func(*offv1beta1.ShadowPod)
	spec := func(change func(*corev1.PodSpec)) edit {
		return func(sp *offv1beta1.ShadowPod) { change(&sp.Spec.Pod) }
	}
	container := func(change func(*corev1.Container)) edit {
		return spec(func(s *corev1.PodSpec) { change(&s.Containers[0]) })
	}
	volume := func(source corev1.VolumeSource) edit {
		return spec(func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} })
	}
	projected := func(source corev1.VolumeProjection) edit {
		return volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}})
	}
	toleration := func(key string) edit {
		return spec(func(s *corev1.PodSpec) {
			s.Tolerations = []corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists}}
		})
	}
	capability := func(c corev1.Capability) edit {
		return container(func(c0 *corev1.Container) {
			c0.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{c}}}
		})
	}
	plain := func(*offv1beta1.ShadowPod) {}
	requests := func(cpu, memory string) edit {
		return container(func(c *corev1.Container) { c.Resources.Requests = amounts(cpu, memory) })
	}
	limits := func(cpu, memory string) edit {
		return container(func(c *corev1.Container) { c.Resources.Limits = amounts(cpu, memory) })
	}
	port := func(port corev1.ContainerPort) edit {
		return container(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{port} })
	}
	emptyDir := volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	attacks := map[string]attack{}
	for name, tc := range map[string]struct {
		attack     edit
		want       string
		legitimate edit
	}{
		"negative_requests": {requests("-1000000", "-1000Ti"), "in body should match", requests("20m", "32Mi")},
		"negative_limits":   {limits("-1", "-1Gi"), "in body should match", limits("20m", "32Mi")},
		"oversized":         {requests("1000", "16Mi"), "quota usage exceeded", requests("1", "16Mi")},

		"host_path":  {volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}), "mounts a path of the host", emptyDir},
		"nfs":        {volume(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "127.0.0.1", Path: "/"}}), "is of the kind nfs", emptyDir},
		"iscsi":      {volume(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "127.0.0.1:3260", IQN: "iqn.2001-04.com.example:x"}}), "is of the kind iscsi", emptyDir},
		"inline_csi": {volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "secrets-store.csi.k8s.io"}}), "is of the kind csi", emptyDir},
		"ephemeral_claim": {volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100Ti")}}},
		}}}), "is of the kind ephemeral", emptyDir},

		"system_priority_class": {spec(func(s *corev1.PodSpec) { s.PriorityClassName = "system-node-critical" }), "system pods", plain},
		"priority_class":        {spec(func(s *corev1.PodSpec) { s.PriorityClassName = "attacks-high" }), "the priority class", plain},
		"priority":              {spec(func(s *corev1.PodSpec) { s.Priority = new(int32(2_000_000_000)) }), "system pods", plain},
		"runtime_class":         {spec(func(s *corev1.PodSpec) { s.RuntimeClassName = new(names.LiqoNamespace) }), "the runtime class", plain},

		"host_network": {spec(func(s *corev1.PodSpec) { s.HostNetwork = true }), "the host's network", plain},
		"host_pid":     {spec(func(s *corev1.PodSpec) { s.HostPID = true }), "the host's processes", plain},
		"host_ipc":     {spec(func(s *corev1.PodSpec) { s.HostIPC = true }), "the host's IPC", plain},
		"host_port":    {port(corev1.ContainerPort{ContainerPort: 80, HostPort: 80}), "of the host", port(corev1.ContainerPort{ContainerPort: 80})},
		"capability":   {capability("SYS_ADMIN"), "adds the capability", capability("NET_BIND_SERVICE")},
		"privileged": {container(func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{Privileged: new(true)} }), "is privileged",
			container(func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{Privileged: new(false)} })},

		"node_name": {spec(func(s *corev1.PodSpec) { s.NodeName = "node" }), "choose its node by name",
			spec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{corev1.LabelOSStable: "linux"} })},
		"control_plane_toleration": {toleration("node-role.kubernetes.io/control-plane"), "tolerate the taint", toleration("example.com/spot")},
		"addons_toleration":        {toleration("CriticalAddonsOnly"), "tolerate the taint", toleration("example.com/spot")},

		"account":       {spec(func(s *corev1.PodSpec) { s.ServiceAccountName = "builder" }), "the identity", spec(func(s *corev1.PodSpec) { s.ServiceAccountName = "default" })},
		"account_token": {spec(func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = new(true) }), "a token", plain},
		"projected_token": {projected(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}), "a token",
			projected(corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}}})},

		"foreign_origin": {func(sp *offv1beta1.ShadowPod) { sp.Labels[names.OffloadingOrigin] = "cl-other" }, "label mismatch", plain},
		"finalizer":      {func(sp *offv1beta1.ShadowPod) { sp.Finalizers = []string{"example.com/never"} }, "finalizers", plain},
	} {
		attacks[name] = attack{slice.create(shadowPod(remoteShop, tc.attack)), tc.want, slice.create(shadowPod(remoteShop, tc.legitimate))}
	}
	runAttacks(t, attacks)
}

// exposedIP would show the API server of the provider to all its peers.
func exposedIP(namespace string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "ipam.liqo.io/v1alpha1", "kind": "IP", "metadata": map[string]any{"namespace": namespace, "name": "attack"},
		"spec": map[string]any{"ip": "10.96.0.1"},
	}}
}

// The consumer writes other objects into its remote namespace.
func TestConsumerObjects(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: remoteShop, Name: "attack", Labels: map[string]string{names.OffloadingOrigin: consumer.ID}}
	ofType := func(kind corev1.SecretType) request {
		s := &corev1.Secret{ObjectMeta: *meta.DeepCopy(), Type: kind}
		s.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
		return slice.create(s)
	}
	service := func(edit func(*corev1.Service)) request {
		s := &corev1.Service{ObjectMeta: *meta.DeepCopy(), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		edit(s)
		return slice.create(s)
	}
	plain := service(func(*corev1.Service) {})
	named := func(name string) request {
		return service(func(s *corev1.Service) {
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: name}
		})
	}
	ingress := func(annotation string) request {
		i := &networkingv1.Ingress{ObjectMeta: *meta.DeepCopy()}
		i.Annotations = map[string]string{annotation: "x"}
		i.Spec.DefaultBackend = &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "x", Port: networkingv1.ServiceBackendPort{Number: 80}}}
		return slice.create(i)
	}
	shadow := slice.create(shadowPod(remoteShop, func(*offv1beta1.ShadowPod) {}))
	endpoints := slice.create(&offv1beta1.ShadowEndpointSlice{
		ObjectMeta: meta, Spec: offv1beta1.ShadowEndpointSliceSpec{Template: offv1beta1.EndpointSliceTemplate{AddressType: discoveryv1.AddressTypeIPv4}},
	})
	claims := slice.list(&corev1.PersistentVolumeClaimList{}, remoteShop)
	claim := func(edit func(*corev1.PersistentVolumeClaim)) request {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: *meta.DeepCopy(), Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("not-offered"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}
		edit(c)
		return slice.create(c)
	}
	const elsewhere = "may not stand for an address"
	outside := named("www.example.com")
	runAttacks(t, map[string]attack{
		"account_token_secret":   {ofType(corev1.SecretTypeServiceAccountToken), "may not write Secrets of type", ofType(corev1.SecretTypeOpaque)},
		"external_ip":            {service(func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} }), "external addresses", plain},
		"service_foreign_origin": {service(func(s *corev1.Service) { s.Labels[names.OffloadingOrigin] = "cl-other" }), "what it reflects itself", plain},
		"service_finalizer":      {service(func(s *corev1.Service) { s.Finalizers = []string{"example.com/never"} }), "finalizers", plain},
		"external_name_metadata": {named("169.254.169.254"), elsewhere, outside},
		"external_name_hex":      {named("0x7f.0.0.1"), elsewhere, outside},
		"external_name_decimal":  {named("2130706433"), elsewhere, outside},
		"external_name_loopback": {named("localhost"), elsewhere, outside},
		"external_name_service":  {named("kubernetes.default.svc.cluster.local"), elsewhere, outside},
		"external_name_tenant":   {named("web." + otherShop + ".svc"), elsewhere, named("web." + remoteShop + ".svc")},
		"ingress_snippet":        {ingress("nginx.ingress.kubernetes.io/server-snippet"), "snippet", ingress("example.com/harmless")},
		"endpoint_slice":         {slice.create(&discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4}), forbidden, endpoints},
		"pod":                    {slice.create(&corev1.Pod{ObjectMeta: meta}), forbidden, shadow},
		"pod_status":             {slice.patchStatus(pod(remoteShop, "remote"), `{"status":{"message":"x"}}`), forbidden, slice.get(pod(remoteShop, "remote"))},
		"pod_of_provider":        {slice.remove(pod(remoteShop, providerPod(t))), "made from ShadowPods", slice.remove(pod(remoteShop, "remote"), client.GracePeriodSeconds(1))},
		"pod_without_grace":      {slice.remove(pod(remoteShop, "remote"), client.GracePeriodSeconds(0)), "without a grace period", slice.remove(pod(remoteShop, "remote"), client.GracePeriodSeconds(1))},
		"claim_of_volume":        {claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "x" }), "new and empty volume", claims},
		"claim_of_copy": {claim(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "x"}
		}), "new and empty volume", claims},
		"claim_on_node": {claim(func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "x"}
		}), "annotations of schedulers", claims},
		"claim_class":          {claim(func(*corev1.PersistentVolumeClaim) {}), "is not offered", claims},
		"claim_foreign_origin": {claim(func(c *corev1.PersistentVolumeClaim) { c.Labels[names.OffloadingOrigin] = "cl-other" }), "what it reflects itself", claims},
		"claim_finalizer":      {claim(func(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{"example.com/never"} }), "finalizers", claims},
		"volume":               {slice.create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "attacks"}}), forbidden, claims},
		"role_binding":         {slice.create(&rbacv1.RoleBinding{ObjectMeta: meta}), forbidden, shadow},
		"network_policy": {slice.create(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: remoteShop, Name: "attacks"}}), names.OffloadingOrigin,
			slice.create(&networkingv1.NetworkPolicy{ObjectMeta: meta})},
		"resource_quota": {slice.remove(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: remoteShop, Name: "liqo-default"}}), forbidden, shadow},
		"event":          {slice.create(&corev1.Event{ObjectMeta: meta}), forbidden, slice.list(&corev1.EventList{}, remoteShop)},
	})
}

// providerPod makes a pod of the provider in the remote namespace of the consumer, which runs nowhere.
func providerPod(t *testing.T) string {
	t.Helper()
	own := pod(remoteShop, "attacks-own")
	own.Spec = corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "c", Image: "docker.io/library/busybox:latest"}}}
	if err := client.IgnoreAlreadyExists(provider.Client.Create(t.Context(), own)); err != nil {
		t.Fatal(err)
	}
	return own.Name
}

// The consumer reaches for what is not its own, with both of its certificates.
func TestConsumerReach(t *testing.T) {
	own := slice.list(&corev1.SecretList{}, remoteShop)
	slices := controlPlane.list(&authv1beta1.ResourceSliceList{}, providerTenant)
	me := func(p attacker) request { return p.create(&authenticationv1.SelfSubjectReview{}) }
	admin, controlAdmin := slice.impersonateAdmin(t, provider), controlPlane.impersonateAdmin(t, provider)
	runAttacks(t, map[string]attack{
		"secrets_of_other_tenant":        {slice.list(&corev1.SecretList{}, otherShop), forbidden, own},
		"secret_of_other_tenant":         {slice.get(secret(otherShop, "canary")), forbidden, own},
		"pods_of_other_tenant":           {slice.list(&corev1.PodList{}, otherShop), forbidden, slice.list(&corev1.PodList{}, remoteShop)},
		"shadow_pod_of_other_tenant":     {slice.create(shadowPod(otherShop, func(*offv1beta1.ShadowPod) {})), forbidden, slice.create(shadowPod(remoteShop, func(*offv1beta1.ShadowPod) {}))},
		"namespaces_of_other_tenant":     {controlPlane.list(&offv1beta1.NamespaceMapList{}, otherTenant), forbidden, controlPlane.list(&offv1beta1.NamespaceMapList{}, providerTenant)},
		"slices_of_other_tenant":         {controlPlane.list(&authv1beta1.ResourceSliceList{}, otherTenant), forbidden, slices},
		"networks_of_other_tenant":       {controlPlane.list(&networkingv1beta1.ConfigurationList{}, otherTenant), forbidden, controlPlane.list(&networkingv1beta1.ConfigurationList{}, providerTenant)},
		"all_slices":                     {controlPlane.list(&authv1beta1.ResourceSliceList{}, ""), forbidden, slices},
		"secrets_of_tenant_namespace":    {controlPlane.list(&corev1.SecretList{}, providerTenant), forbidden, slices},
		"slice_in_tenant_namespace":      {slice.list(&authv1beta1.ResourceSliceList{}, providerTenant), forbidden, own},
		"control_plane_in_own_namespace": {controlPlane.list(&corev1.SecretList{}, remoteShop), forbidden, own},
		"quotas":                         {controlPlane.list(&offv1beta1.QuotaList{}, providerTenant), forbidden, slices},
		"quotas_by_slice":                {slice.list(&offv1beta1.QuotaList{}, providerTenant), forbidden, own},
		"all_quotas":                     {slice.list(&offv1beta1.QuotaList{}, ""), forbidden, own},
		"all_secrets":                    {slice.list(&corev1.SecretList{}, ""), forbidden, own},
		"secrets_of_provider":            {slice.list(&corev1.SecretList{}, metav1.NamespaceSystem), forbidden, own},
		"secrets_of_liqo":                {controlPlane.list(&corev1.SecretList{}, names.LiqoNamespace), forbidden, slices},
		"all_pods":                       {slice.list(&corev1.PodList{}, ""), forbidden, slice.list(&corev1.PodList{}, remoteShop)},
		"nodes":                          {slice.list(&corev1.NodeList{}, ""), forbidden, me(slice)},
		"namespaces":                     {slice.list(&corev1.NamespaceList{}, ""), forbidden, me(slice)},
		"metrics_of_other_tenant":        {slice.scrape("cl-other"), "only virtual kubelets of a cluster get its metrics", slice.scrape(consumer.ID)},
		"metrics_by_control_plane":       {controlPlane.scrape(consumer.ID), forbidden, slice.scrape(consumer.ID)},
		"account_token":                  {slice.token(remoteShop, "default", nil), forbidden, own},
		"impersonation":                  {admin.list(&corev1.SecretList{}, ""), "cannot impersonate", own},
		"impersonation_by_control_plane": {controlAdmin.list(&corev1.SecretList{}, ""), "cannot impersonate", slices},
	})
}

// namespaceMap returns one as the replicator of a consumer makes it in the tenant namespace.
func namespaceMap(namespace, origin string, desired map[string]string) *offv1beta1.NamespaceMap {
	return &offv1beta1.NamespaceMap{ObjectMeta: replica(namespace, "attack", origin), Spec: offv1beta1.NamespaceMapSpec{DesiredMapping: desired}}
}

func replica(namespace, name, origin string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
		names.Replicated: "true", names.Replication: "false", names.ReplicationOrigin: origin, names.RemoteClusterID: origin,
	}}
}

// The consumer writes into its tenant namespace what grants it more than it may have, with the certificate of its control plane.
func TestConsumerReplicas(t *testing.T) {
	resourceSlice := func(edit func(*metav1.ObjectMeta)) request {
		s := &authv1beta1.ResourceSlice{ObjectMeta: replica(providerTenant, "attack", consumer.ID), Spec: authv1beta1.ResourceSliceSpec{Class: authv1beta1.ResourceSliceClassDefault}}
		edit(&s.ObjectMeta)
		return controlPlane.create(s)
	}
	plain := resourceSlice(func(*metav1.ObjectMeta) {})
	own := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: providerTenant, Name: provider.ID}}
	mapping := &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: providerTenant, Name: provider.ID}}
	annotated := controlPlane.patch(own, `{"metadata":{"annotations":{"example.com/team":"x"}}}`)
	runAttacks(t, map[string]attack{
		"foreign_origin":       {resourceSlice(func(m *metav1.ObjectMeta) { m.Labels[names.ReplicationOrigin] = "cl-other" }), "replicas of its own objects", plain},
		"unmarked":             {resourceSlice(func(m *metav1.ObjectMeta) { delete(m.Labels, names.Replicated) }), "replicas of its own objects", plain},
		"finalizer":            {resourceSlice(func(m *metav1.ObjectMeta) { m.Finalizers = []string{"example.com/never"} }), "finalizers", plain},
		"other_tenant":         {resourceSlice(func(m *metav1.ObjectMeta) { m.Namespace = otherTenant }), forbidden, plain},
		"cordon":               {controlPlane.patch(own, `{"metadata":{"annotations":{"liqo.io/cordon":"false"}}}`), "cordoned", annotated},
		"origin":               {controlPlane.patch(own, `{"metadata":{"labels":{"liqo.io/originID":"cl-other"}}}`), "never change", annotated},
		"granted_resources":    {controlPlane.patchStatus(own, `{"status":{"resources":{"cpu":"1000"}}}`), forbidden, annotated},
		"granted_namespaces":   {controlPlane.patchStatus(mapping, `{"status":{"currentMapping":null}}`), forbidden, controlPlane.get(mapping)},
		"tenant":               {controlPlane.create(&authv1beta1.Tenant{ObjectMeta: replica(providerTenant, "attack", consumer.ID)}), forbidden, plain},
		"quota":                {controlPlane.create(&offv1beta1.Quota{ObjectMeta: replica(providerTenant, "attack", consumer.ID)}), forbidden, plain},
		"role_binding":         {controlPlane.create(&rbacv1.RoleBinding{ObjectMeta: replica(providerTenant, "attack", consumer.ID)}), forbidden, plain},
		"cluster_role_binding": {controlPlane.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "attack"}}), forbidden, plain},
		"namespace":            {controlPlane.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "attack"}}), forbidden, plain},
		"tenant_labels":        {controlPlane.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: remoteShop}}, `{"metadata":{"labels":{"liqo.io/tenant-namespace":"true"}}}`), forbidden, plain},
		"ip":                   {controlPlane.create(exposedIP(providerTenant)), forbidden, plain},
		"ip_of_virtual_node":   {slice.create(exposedIP(remoteShop)), forbidden, plain},
		"networks":             {controlPlane.patch(&networkingv1beta1.Configuration{ObjectMeta: replica(providerTenant, "attack", consumer.ID)}, `{"spec":null}`), forbidden, plain},
		"virtual_node":         {controlPlane.create(&offv1beta1.VirtualNode{ObjectMeta: replica(providerTenant, "attack", consumer.ID)}), forbidden, plain},
	})
}

// The consumer reports its networks, and where its gateway is, and with that more than it may.
func TestConsumerReports(t *testing.T) {
	var configurations networkingv1beta1.ConfigurationList
	if err := provider.Client.List(t.Context(), &configurations, client.MatchingLabels{names.RemoteClusterID: consumer.ID}); err != nil || len(configurations.Items) != 1 {
		t.Fatalf("there are %d Configurations of the consumer: %v", len(configurations.Items), err)
	}
	own := &configurations.Items[0]
	newClient := func(name, of string) *networkingv1beta1.GatewayClient {
		c := &networkingv1beta1.GatewayClient{ObjectMeta: metav1.ObjectMeta{Namespace: providerTenant, Name: name, Labels: map[string]string{names.RemoteClusterID: of}}}
		c.Spec.ClientTemplateRef = corev1.ObjectReference{Kind: "WgGatewayClientTemplate", Namespace: names.LiqoNamespace, Name: "attacks-none"} // nothing runs
		if err := provider.Client.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { kubectl(t, provider, "", "delete", "gatewayclient", "-n", c.Namespace, c.Name) })
		return c
	}
	mine, others := newClient("attacks-mine", consumer.ID), newClient("attacks-others", "cl-other")
	const endpoint = `{"status":{"endpoint":{"addresses":["192.0.2.1"],"port":51840}}}`
	networks := func(n int) string {
		return `{"status":{"reportedRemote":{"cidr":{"pod":["10.200.0.0/16"` + strings.Repeat(`,"10.201.0.0/16"`, n-1) + `]}}}}`
	}
	addresses := `{"status":{"endpoint":{"port":51840,"addresses":["192.0.2.1"` + strings.Repeat(`,"192.0.2.2"`, 1000) + `]}}}`
	present, err := json.Marshal(own.Status.ReportedRemote)
	if err != nil {
		t.Fatal(err)
	}
	moved, dialled := controlPlane.patchStatus(own, `{"status":{"reportedRemote":`+string(present)+`}}`), controlPlane.patchStatus(mine, endpoint)
	runAttacks(t, map[string]attack{
		"local_networks":      {controlPlane.patchStatus(own, `{"status":{"remote":{"cidr":{"pod":["10.96.0.0/16"]}}}}`), "may only change status.reportedRemote", moved},
		"network_conditions":  {controlPlane.patchStatus(own, `{"status":{"conditions":null}}`), "may only change status.reportedRemote", moved},
		"too_many_networks":   {controlPlane.patchStatus(own, networks(17)), "at most 16 networks", moved},
		"networks_spec":       {controlPlane.patch(own, `{"spec":{"remote":{"cidr":{"pod":["10.96.0.0/16"]}}}}`), forbidden, moved},
		"networks_elsewhere":  {controlPlane.patchStatus(&networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: otherTenant, Name: "attack"}}, networks(1)), forbidden, moved},
		"gateway_of_another":  {controlPlane.patchStatus(others, endpoint), "GatewayClient that leads to it", dialled},
		"gateway_address":     {controlPlane.patchStatus(mine, `{"status":{"internalEndpoint":{"ip":"10.200.1.9","node":"attack"}}}`), "may only change status.endpoint", dialled},
		"gateway_replicas":    {controlPlane.patchStatus(mine, `{"status":{"replicas":[{"name":"attack","ip":"10.200.1.9"}]}}`), "may only change status.endpoint", dialled},
		"too_many_endpoints":  {controlPlane.patchStatus(mine, addresses), "at most 1000 addresses", dialled},
		"argument_as_address": {controlPlane.patchStatus(mine, `{"status":{"endpoint":{"addresses":["--insecure"],"port":51840}}}`), "addresses or names", dialled},
		"gateway_spec":        {controlPlane.patch(mine, `{"spec":{"mtu":1280}}`), forbidden, dialled},
	})
}
