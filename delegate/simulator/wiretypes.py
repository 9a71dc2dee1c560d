"""How the server's Go types look from outside: names, protobuf numbers and types of fields, in the order of declaration.

Two things need it: requests that kubectl sends as protobuf, and the hash that a Deployment gives its ReplicaSets, which is of a
dump of the Go values. One struct a paragraph; a field is `GoName[=jsonName]:number:type` (the JSON name is the Go name with a small
first letter where none is given, and empty for an embedded struct); `@` is the metadata that every object begins with. Kinds that
nobody creates with a typed client, and the rarest volumes, are not here.
"""

import functools
from typing import NamedTuple


class Field(NamedTuple):
    """A field of a struct; `json` is empty where the struct is embedded."""

    go: str
    json: str
    number: int
    type: str


@functools.cache
def structs() -> dict[str, tuple[Field, ...]]:
    """Fields by struct."""
    found: dict[str, list[Field]] = {}
    name = ""
    for line in TABLE.strip().splitlines():
        if not line.startswith(" "):
            name = line
            found[name] = []
            continue
        found[name] += [_parse(word) for word in line.split()]
    return {key: tuple(fields) for key, fields in found.items()}


def _parse(word: str) -> Field:
    if word == "@":
        return Field("ObjectMeta", "metadata", 1, "ObjectMeta")
    names, number, kind = word.split(":")
    go, given, json = names.partition("=")
    return Field(go, json if given else go[0].lower() + go[1:], int(number), kind)


TABLE = """
ObjectMeta
  Name:1:string GenerateName:2:string Namespace:3:string SelfLink:4:string UID=uid:5:types.UID ResourceVersion:6:string
  Generation:7:int64 CreationTimestamp:8:Time DeletionTimestamp:9:*Time DeletionGracePeriodSeconds:10:*int64 Labels:11:map[string]string
  Annotations:12:map[string]string OwnerReferences:13:[]OwnerReference Finalizers:14:[]string ManagedFields:17:[]ManagedFieldsEntry
OwnerReference
  APIVersion=apiVersion:5:string Kind:1:string Name:3:string UID=uid:4:types.UID Controller:6:*bool BlockOwnerDeletion:7:*bool
LabelSelector
  MatchLabels:1:map[string]string MatchExpressions:2:[]LabelSelectorRequirement
LabelSelectorRequirement
  Key:1:string Operator:2:LabelSelectorOperator Values:3:[]string
DeleteOptions
  GracePeriodSeconds:1:*int64 Preconditions:2:*Preconditions OrphanDependents:3:*bool PropagationPolicy:4:*DeletionPropagation
  DryRun:5:[]string
Preconditions
  UID=uid:1:*types.UID ResourceVersion:2:*string
Volume
  Name:1:string VolumeSource=:2:VolumeSource
VolumeSource
  HostPath:1:*HostPathVolumeSource EmptyDir:2:*EmptyDirVolumeSource GCEPersistentDisk=gcePersistentDisk:3:*GCEPersistentDiskVolumeSource
  AWSElasticBlockStore=awsElasticBlockStore:4:*AWSElasticBlockStoreVolumeSource GitRepo:5:*GitRepoVolumeSource
  Secret:6:*SecretVolumeSource NFS=nfs:7:*NFSVolumeSource ISCSI=iscsi:8:*ISCSIVolumeSource Glusterfs:9:*GlusterfsVolumeSource
  PersistentVolumeClaim:10:*PersistentVolumeClaimVolumeSource RBD=rbd:11:*RBDVolumeSource FlexVolume:12:*FlexVolumeSource
  Cinder:13:*CinderVolumeSource CephFS=cephfs:14:*CephFSVolumeSource Flocker:15:*FlockerVolumeSource
  DownwardAPI:16:*DownwardAPIVolumeSource FC=fc:17:*FCVolumeSource AzureFile:18:*AzureFileVolumeSource
  ConfigMap:19:*ConfigMapVolumeSource VsphereVolume:20:*VsphereVirtualDiskVolumeSource Quobyte:21:*QuobyteVolumeSource
  AzureDisk:22:*AzureDiskVolumeSource PhotonPersistentDisk:23:*PhotonPersistentDiskVolumeSource Projected:26:*ProjectedVolumeSource
  PortworxVolume:24:*PortworxVolumeSource ScaleIO:25:*ScaleIOVolumeSource StorageOS=storageos:27:*StorageOSVolumeSource
  CSI=csi:28:*CSIVolumeSource Ephemeral:29:*EphemeralVolumeSource Image:30:*ImageVolumeSource
PersistentVolumeClaimVolumeSource
  ClaimName:1:string ReadOnly:2:bool
HostPathVolumeSource
  Path:1:string Type:2:*HostPathType
EmptyDirVolumeSource
  Medium:1:StorageMedium SizeLimit:2:*Quantity
SecretVolumeSource
  SecretName:1:string Items:2:[]KeyToPath DefaultMode:3:*int32 Optional:4:*bool
SecretProjection
  LocalObjectReference=:1:LocalObjectReference Items:2:[]KeyToPath Optional:4:*bool
NFSVolumeSource
  Server:1:string Path:2:string ReadOnly:3:bool
ConfigMapVolumeSource
  LocalObjectReference=:1:LocalObjectReference Items:2:[]KeyToPath DefaultMode:3:*int32 Optional:4:*bool
ConfigMapProjection
  LocalObjectReference=:1:LocalObjectReference Items:2:[]KeyToPath Optional:4:*bool
ServiceAccountTokenProjection
  Audience:1:string ExpirationSeconds:2:*int64 Path:3:string
ProjectedVolumeSource
  Sources:1:[]VolumeProjection DefaultMode:2:*int32
VolumeProjection
  Secret:1:*SecretProjection DownwardAPI:2:*DownwardAPIProjection ConfigMap:3:*ConfigMapProjection
  ServiceAccountToken:4:*ServiceAccountTokenProjection ClusterTrustBundle:5:*ClusterTrustBundleProjection
  PodCertificate:6:*PodCertificateProjection
KeyToPath
  Key:1:string Path:2:string Mode:3:*int32
CSIVolumeSource
  Driver:1:string ReadOnly:2:*bool FSType=fsType:3:*string VolumeAttributes:4:map[string]string
  NodePublishSecretRef:5:*LocalObjectReference
ContainerPort
  Name:1:string HostPort:2:int32 ContainerPort:3:int32 Protocol:4:Protocol HostIP:5:string
VolumeMount
  Name:1:string ReadOnly:2:bool RecursiveReadOnly:7:*RecursiveReadOnlyMode MountPath:3:string SubPath:4:string
  MountPropagation:5:*MountPropagationMode SubPathExpr:6:string
VolumeDevice
  Name:1:string DevicePath:2:string
EnvVar
  Name:1:string Value:2:string ValueFrom:3:*EnvVarSource
EnvVarSource
  FieldRef:1:*ObjectFieldSelector ResourceFieldRef:2:*ResourceFieldSelector ConfigMapKeyRef:3:*ConfigMapKeySelector
  SecretKeyRef:4:*SecretKeySelector FileKeyRef:5:*FileKeySelector
FileKeySelector
  VolumeName:1:string Path:2:string Key:3:string Optional:4:*bool
ObjectFieldSelector
  APIVersion=apiVersion:1:string FieldPath:2:string
ResourceFieldSelector
  ContainerName:1:string Resource:2:string Divisor:3:Quantity
ConfigMapKeySelector
  LocalObjectReference=:1:LocalObjectReference Key:2:string Optional:3:*bool
SecretKeySelector
  LocalObjectReference=:1:LocalObjectReference Key:2:string Optional:3:*bool
EnvFromSource
  Prefix:1:string ConfigMapRef:2:*ConfigMapEnvSource SecretRef:3:*SecretEnvSource
ConfigMapEnvSource
  LocalObjectReference=:1:LocalObjectReference Optional:2:*bool
SecretEnvSource
  LocalObjectReference=:1:LocalObjectReference Optional:2:*bool
HTTPHeader
  Name:1:string Value:2:string
HTTPGetAction
  Path:1:string Port:2:IntOrString Host:3:string Scheme:4:URIScheme HTTPHeaders=httpHeaders:5:[]HTTPHeader
TCPSocketAction
  Port:1:IntOrString Host:2:string
GRPCAction
  Port:1:int32 Service:2:*string
ExecAction
  Command:1:[]string
SleepAction
  Seconds:1:int64
Probe
  ProbeHandler=:1:ProbeHandler InitialDelaySeconds:2:int32 TimeoutSeconds:3:int32 PeriodSeconds:4:int32 SuccessThreshold:5:int32
  FailureThreshold:6:int32 TerminationGracePeriodSeconds:7:*int64
ContainerResizePolicy
  ResourceName:1:ResourceName RestartPolicy:2:ResourceResizeRestartPolicy
Capabilities
  Add:1:[]Capability Drop:2:[]Capability
ResourceRequirements
  Limits:1:ResourceList Requests:2:ResourceList Claims:3:[]ResourceClaim
ResourceClaim
  Name:1:string Request:2:string
Container
  Name:1:string Image:2:string Command:3:[]string Args:4:[]string WorkingDir:5:string Ports:6:[]ContainerPort EnvFrom:19:[]EnvFromSource
  Env:7:[]EnvVar Resources:8:ResourceRequirements ResizePolicy:23:[]ContainerResizePolicy RestartPolicy:24:*ContainerRestartPolicy
  RestartPolicyRules:25:[]ContainerRestartRule VolumeMounts:9:[]VolumeMount VolumeDevices:21:[]VolumeDevice LivenessProbe:10:*Probe
  ReadinessProbe:11:*Probe StartupProbe:22:*Probe Lifecycle:12:*Lifecycle TerminationMessagePath:13:string
  TerminationMessagePolicy:20:TerminationMessagePolicy ImagePullPolicy:14:PullPolicy SecurityContext:15:*SecurityContext Stdin:16:bool
  StdinOnce:17:bool TTY=tty:18:bool
ProbeHandler
  Exec:1:*ExecAction HTTPGet=httpGet:2:*HTTPGetAction TCPSocket=tcpSocket:3:*TCPSocketAction GRPC=grpc:4:*GRPCAction
LifecycleHandler
  Exec:1:*ExecAction HTTPGet=httpGet:2:*HTTPGetAction TCPSocket=tcpSocket:3:*TCPSocketAction Sleep:4:*SleepAction
Lifecycle
  PostStart:1:*LifecycleHandler PreStop:2:*LifecycleHandler StopSignal:3:*Signal
ContainerRestartRule
  Action:1:ContainerRestartRuleAction ExitCodes:2:*ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes
  Operator:1:ContainerRestartRuleOnExitCodesOperator Values:2:[]int32
NodeSelector
  NodeSelectorTerms:1:[]NodeSelectorTerm
NodeSelectorTerm
  MatchExpressions:1:[]NodeSelectorRequirement MatchFields:2:[]NodeSelectorRequirement
NodeSelectorRequirement
  Key:1:string Operator:2:NodeSelectorOperator Values:3:[]string
Affinity
  NodeAffinity:1:*NodeAffinity PodAffinity:2:*PodAffinity PodAntiAffinity:3:*PodAntiAffinity
PodAffinity
  RequiredDuringSchedulingIgnoredDuringExecution:1:[]PodAffinityTerm
  PreferredDuringSchedulingIgnoredDuringExecution:2:[]WeightedPodAffinityTerm
PodAntiAffinity
  RequiredDuringSchedulingIgnoredDuringExecution:1:[]PodAffinityTerm
  PreferredDuringSchedulingIgnoredDuringExecution:2:[]WeightedPodAffinityTerm
WeightedPodAffinityTerm
  Weight:1:int32 PodAffinityTerm:2:PodAffinityTerm
PodAffinityTerm
  LabelSelector:1:*LabelSelector Namespaces:2:[]string TopologyKey:3:string NamespaceSelector:4:*LabelSelector MatchLabelKeys:5:[]string
  MismatchLabelKeys:6:[]string
NodeAffinity
  RequiredDuringSchedulingIgnoredDuringExecution:1:*NodeSelector
  PreferredDuringSchedulingIgnoredDuringExecution:2:[]PreferredSchedulingTerm
PreferredSchedulingTerm
  Weight:1:int32 Preference:2:NodeSelectorTerm
Toleration
  Key:1:string Operator:2:TolerationOperator Value:3:string Effect:4:TaintEffect TolerationSeconds:5:*int64
PodReadinessGate
  ConditionType:1:PodConditionType
PodSpec
  Volumes:1:[]Volume InitContainers:20:[]Container Containers:2:[]Container EphemeralContainers:34:[]EphemeralContainer
  RestartPolicy:3:RestartPolicy TerminationGracePeriodSeconds:4:*int64 ActiveDeadlineSeconds:5:*int64 DNSPolicy=dnsPolicy:6:DNSPolicy
  NodeSelector:7:map[string]string ServiceAccountName:8:string DeprecatedServiceAccount=serviceAccount:9:string
  AutomountServiceAccountToken:21:*bool NodeName:10:string HostNetwork:11:bool HostPID:12:bool HostIPC:13:bool
  ShareProcessNamespace:27:*bool SecurityContext:14:*PodSecurityContext ImagePullSecrets:15:[]LocalObjectReference Hostname:16:string
  Subdomain:17:string Affinity:18:*Affinity SchedulerName:19:string Tolerations:22:[]Toleration HostAliases:23:[]HostAlias
  PriorityClassName:24:string Priority:25:*int32 DNSConfig=dnsConfig:26:*PodDNSConfig ReadinessGates:28:[]PodReadinessGate
  RuntimeClassName:29:*string EnableServiceLinks:30:*bool PreemptionPolicy:31:*PreemptionPolicy Overhead:32:ResourceList
  TopologySpreadConstraints:33:[]TopologySpreadConstraint SetHostnameAsFQDN:35:*bool OS=os:36:*PodOS HostUsers:37:*bool
  SchedulingGates:38:[]PodSchedulingGate ResourceClaims:39:[]PodResourceClaim Resources:40:*ResourceRequirements
  HostnameOverride:41:*string SchedulingGroup:43:*PodSchedulingGroup
PodResourceClaim
  Name:1:string ResourceClaimName:3:*string ResourceClaimTemplateName:4:*string
PodOS
  Name:1:OSName
PodSchedulingGate
  Name:1:string
TopologySpreadConstraint
  MaxSkew:1:int32 TopologyKey:2:string WhenUnsatisfiable:3:UnsatisfiableConstraintAction LabelSelector:4:*LabelSelector
  MinDomains:5:*int32 NodeAffinityPolicy:6:*NodeInclusionPolicy NodeTaintsPolicy:7:*NodeInclusionPolicy MatchLabelKeys:8:[]string
HostAlias
  IP=ip:1:string Hostnames:2:[]string
PodSecurityContext
  SELinuxOptions=seLinuxOptions:1:*SELinuxOptions WindowsOptions:8:*WindowsSecurityContextOptions RunAsUser:2:*int64 RunAsGroup:6:*int64
  RunAsNonRoot:3:*bool SupplementalGroups:4:[]int64 SupplementalGroupsPolicy:12:*SupplementalGroupsPolicy FSGroup=fsGroup:5:*int64
  Sysctls:7:[]Sysctl FSGroupChangePolicy=fsGroupChangePolicy:9:*PodFSGroupChangePolicy SeccompProfile:10:*SeccompProfile
  AppArmorProfile:11:*AppArmorProfile SELinuxChangePolicy=seLinuxChangePolicy:13:*PodSELinuxChangePolicy
SeccompProfile
  Type:1:SeccompProfileType LocalhostProfile:2:*string
AppArmorProfile
  Type:1:AppArmorProfileType LocalhostProfile:2:*string
PodDNSConfig
  Nameservers:1:[]string Searches:2:[]string Options:3:[]PodDNSConfigOption
PodDNSConfigOption
  Name:1:string Value:2:*string
EphemeralContainerCommon
  Name:1:string Image:2:string Command:3:[]string Args:4:[]string WorkingDir:5:string Ports:6:[]ContainerPort EnvFrom:19:[]EnvFromSource
  Env:7:[]EnvVar Resources:8:ResourceRequirements ResizePolicy:23:[]ContainerResizePolicy RestartPolicy:24:*ContainerRestartPolicy
  RestartPolicyRules:25:[]ContainerRestartRule VolumeMounts:9:[]VolumeMount VolumeDevices:21:[]VolumeDevice LivenessProbe:10:*Probe
  ReadinessProbe:11:*Probe StartupProbe:22:*Probe Lifecycle:12:*Lifecycle TerminationMessagePath:13:string
  TerminationMessagePolicy:20:TerminationMessagePolicy ImagePullPolicy:14:PullPolicy SecurityContext:15:*SecurityContext Stdin:16:bool
  StdinOnce:17:bool TTY=tty:18:bool
EphemeralContainer
  EphemeralContainerCommon=:1:EphemeralContainerCommon TargetContainerName:2:string
PodTemplateSpec
  @ Spec:2:PodSpec
ServiceSpec
  Ports:1:[]ServicePort Selector:2:map[string]string ClusterIP:3:string ClusterIPs:18:[]string Type:4:ServiceType ExternalIPs:5:[]string
  SessionAffinity:7:ServiceAffinity LoadBalancerIP:8:string LoadBalancerSourceRanges:9:[]string ExternalName:10:string
  ExternalTrafficPolicy:11:ServiceExternalTrafficPolicy HealthCheckNodePort:12:int32 PublishNotReadyAddresses:13:bool
  SessionAffinityConfig:14:*SessionAffinityConfig IPFamilies=ipFamilies:19:[]IPFamily IPFamilyPolicy=ipFamilyPolicy:17:*IPFamilyPolicy
  AllocateLoadBalancerNodePorts:20:*bool LoadBalancerClass:21:*string InternalTrafficPolicy:22:*ServiceInternalTrafficPolicy
  TrafficDistribution:23:*string
ServicePort
  Name:1:string Protocol:2:Protocol AppProtocol:6:*string Port:3:int32 TargetPort:4:IntOrString NodePort:5:int32
Service
  @ Spec:2:ServiceSpec
ServiceAccount
  @ Secrets:2:[]ObjectReference ImagePullSecrets:3:[]LocalObjectReference AutomountServiceAccountToken:4:*bool
NamespaceSpec
  Finalizers:1:[]FinalizerName
Namespace
  @ Spec:2:NamespaceSpec
ObjectReference
  Kind:1:string Namespace:2:string Name:3:string UID=uid:4:types.UID APIVersion=apiVersion:5:string ResourceVersion:6:string
  FieldPath:7:string
LocalObjectReference
  Name:1:string
ResourceQuotaSpec
  Hard:1:ResourceList Scopes:2:[]ResourceQuotaScope ScopeSelector:3:*ScopeSelector
ResourceQuota
  @ Spec:2:ResourceQuotaSpec
Secret
  @ Immutable:5:*bool Data:2:map[string][]byte StringData:4:map[string]string Type:3:SecretType
ConfigMap
  @ Immutable:4:*bool Data:2:map[string]string BinaryData:3:map[string][]byte
DownwardAPIVolumeSource
  Items:1:[]DownwardAPIVolumeFile DefaultMode:2:*int32
DownwardAPIVolumeFile
  Path:1:string FieldRef:2:*ObjectFieldSelector ResourceFieldRef:3:*ResourceFieldSelector Mode:4:*int32
DownwardAPIProjection
  Items:1:[]DownwardAPIVolumeFile
SecurityContext
  Capabilities:1:*Capabilities Privileged:2:*bool SELinuxOptions=seLinuxOptions:3:*SELinuxOptions
  WindowsOptions:10:*WindowsSecurityContextOptions RunAsUser:4:*int64 RunAsGroup:8:*int64 RunAsNonRoot:5:*bool
  ReadOnlyRootFilesystem:6:*bool AllowPrivilegeEscalation:7:*bool ProcMount:9:*ProcMountType SeccompProfile:11:*SeccompProfile
  AppArmorProfile:12:*AppArmorProfile
SELinuxOptions
  User:1:string Role:2:string Type:3:string Level:4:string
Sysctl
  Name:1:string Value:2:string
Deployment
  @ Spec:2:DeploymentSpec
DeploymentSpec
  Replicas:1:*int32 Selector:2:*LabelSelector Template:3:PodTemplateSpec Strategy:4:DeploymentStrategy MinReadySeconds:5:int32
  RevisionHistoryLimit:6:*int32 Paused:7:bool ProgressDeadlineSeconds:9:*int32
DeploymentStrategy
  Type:1:DeploymentStrategyType RollingUpdate:2:*RollingUpdateDeployment
RollingUpdateDeployment
  MaxUnavailable:1:*IntOrString MaxSurge:2:*IntOrString
Job
  @ Spec:2:JobSpec
JobSpec
  Parallelism:1:*int32 Completions:2:*int32 ActiveDeadlineSeconds:3:*int64 PodFailurePolicy:11:*PodFailurePolicy
  SuccessPolicy:16:*SuccessPolicy BackoffLimit:7:*int32 BackoffLimitPerIndex:12:*int32 MaxFailedIndexes:13:*int32
  Selector:4:*LabelSelector ManualSelector:5:*bool Template:6:PodTemplateSpec TTLSecondsAfterFinished=ttlSecondsAfterFinished:8:*int32
  CompletionMode:9:*CompletionMode Suspend:10:*bool PodReplacementPolicy:14:*PodReplacementPolicy ManagedBy:15:*string
JobTemplateSpec
  @ Spec:2:JobSpec
CronJob
  @ Spec:2:CronJobSpec
CronJobSpec
  Schedule:1:string TimeZone:8:*string StartingDeadlineSeconds:2:*int64 ConcurrencyPolicy:3:ConcurrencyPolicy Suspend:4:*bool
  JobTemplate:5:JobTemplateSpec SuccessfulJobsHistoryLimit:6:*int32 FailedJobsHistoryLimit:7:*int32
PolicyRule
  Verbs:1:[]string APIGroups=apiGroups:2:[]string Resources:3:[]string ResourceNames:4:[]string NonResourceURLs:5:[]string
Subject
  Kind:1:string APIGroup=apiGroup:2:string Name:3:string Namespace:4:string
RoleRef
  APIGroup=apiGroup:1:string Kind:2:string Name:3:string
Role
  @ Rules:2:[]PolicyRule
RoleBinding
  @ Subjects:2:[]Subject RoleRef:3:RoleRef
ClusterRole
  @ Rules:2:[]PolicyRule AggregationRule:3:*AggregationRule
AggregationRule
  ClusterRoleSelectors:1:[]LabelSelector
ClusterRoleBinding
  @ Subjects:2:[]Subject RoleRef:3:RoleRef
PodDisruptionBudgetSpec
  MinAvailable:1:*IntOrString Selector:2:*LabelSelector MaxUnavailable:3:*IntOrString
  UnhealthyPodEvictionPolicy:4:*UnhealthyPodEvictionPolicyType
PodDisruptionBudget
  @ Spec:2:PodDisruptionBudgetSpec
Eviction
  @ DeleteOptions:2:*DeleteOptions
Ingress
  @ Spec:2:IngressSpec
IngressSpec
  IngressClassName:4:*string DefaultBackend:1:*IngressBackend TLS=tls:2:[]IngressTLS Rules:3:[]IngressRule
IngressTLS
  Hosts:1:[]string SecretName:2:string
IngressRule
  Host:1:string IngressRuleValue=:2:IngressRuleValue
IngressRuleValue
  HTTP=http:1:*HTTPIngressRuleValue
HTTPIngressRuleValue
  Paths:1:[]HTTPIngressPath
HTTPIngressPath
  Path:1:string PathType:3:*PathType Backend:2:IngressBackend
IngressBackend
  Service:4:*IngressServiceBackend Resource:3:*TypedLocalObjectReference
IngressServiceBackend
  Name:1:string Port:2:ServiceBackendPort
ServiceBackendPort
  Name:1:string Number:2:int32
SelfSubjectAccessReview
  @ Spec:2:SelfSubjectAccessReviewSpec
ResourceAttributes
  Namespace:1:string Verb:2:string Group:3:string Version:4:string Resource:5:string Subresource:6:string Name:7:string
  FieldSelector:8:*FieldSelectorAttributes LabelSelector:9:*LabelSelectorAttributes
NonResourceAttributes
  Path:1:string Verb:2:string
SelfSubjectAccessReviewSpec
  ResourceAttributes:1:*ResourceAttributes NonResourceAttributes:2:*NonResourceAttributes
SelfSubjectRulesReview
  @ Spec:2:SelfSubjectRulesReviewSpec
SelfSubjectRulesReviewSpec
  Namespace:1:string
TokenRequest
  @ Spec:2:TokenRequestSpec
TokenRequestSpec
  Audiences:1:[]string ExpirationSeconds:4:*int64 BoundObjectRef:3:*BoundObjectReference
SelfSubjectReview
  @
CrossVersionObjectReference
  Kind:1:string Name:2:string APIVersion=apiVersion:3:string
MetricTarget
  Type:1:string Value:2:*Quantity AverageValue:3:*Quantity AverageUtilization:4:*int32
ResourceMetricSource
  Name:1:string Target:2:MetricTarget
MetricSpec
  Type:1:string Resource:4:*ResourceMetricSource
HorizontalPodAutoscaler
  @ Spec:2:HorizontalPodAutoscalerSpec
HorizontalPodAutoscalerSpec
  ScaleTargetRef:1:CrossVersionObjectReference MinReplicas:2:*int32 MaxReplicas:3:int32 Metrics:4:[]MetricSpec
PriorityClass
  @ Value:2:int32 GlobalDefault:3:bool Description:4:string PreemptionPolicy:5:*PreemptionPolicy
"""
