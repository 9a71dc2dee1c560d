"""What Go's decoder calls types and fields in the message of a 400: named strings and lists, embedded structs."""

import functools

_NAMED = """
AddressType: EndpointSlice.addressType
AppArmorProfileType: AppArmorProfile.type
AzureDataDiskCachingMode: AzureDiskVolumeSource.cachingMode
AzureDataDiskKind: AzureDiskVolumeSource.kind
Capability: Capabilities.add Capabilities.drop
CompletionMode: JobSpec.completionMode
ConcurrencyPolicy: CronJobSpec.concurrencyPolicy
ConditionStatus: PodFailurePolicyOnPodConditionsPattern.status
ContainerRestartPolicy: Container.restartPolicy EphemeralContainer.restartPolicy
ContainerRestartRuleAction: ContainerRestartRule.action
ContainerRestartRuleOnExitCodesOperator: ContainerRestartRuleOnExitCodes.operator
CoordinatedLeaseStrategy: LeaseSpec.strategy
DNSPolicy: PodSpec.dnsPolicy
DaemonSetUpdateStrategyType: DaemonSetUpdateStrategy.type
DeploymentStrategyType: DeploymentStrategy.type
FSGroupPolicy: CSIDriverSpec.fsGroupPolicy
FailurePolicyType: ValidatingAdmissionPolicySpec.failurePolicy ValidatingWebhook.failurePolicy MutatingWebhook.failurePolicy
FailurePolicyType: MutatingAdmissionPolicySpec.failurePolicy
FinalizerName: NamespaceSpec.finalizers
FlowDistinguisherMethodType: FlowDistinguisherMethod.type
HPAScalingPolicyType: HPAScalingPolicy.type
HostPathType: HostPathVolumeSource.type
IPFamily: ServiceSpec.ipFamilies
IPFamilyPolicy: ServiceSpec.ipFamilyPolicy
KeyUsage: CertificateSigningRequestSpec.usages
LimitResponseType: LimitResponse.type
LimitType: LimitRangeItem.type
LoadBalancerIPMode: LoadBalancerIngress.ipMode
MatchPolicyType: MatchResources.matchPolicy ValidatingWebhook.matchPolicy MutatingWebhook.matchPolicy
MetricSourceType: MetricSpec.type
MetricTargetType: MetricTarget.type
MountPropagationMode: VolumeMount.mountPropagation
NodeAddressType: NodeAddress.type
NodeInclusionPolicy: TopologySpreadConstraint.nodeAffinityPolicy TopologySpreadConstraint.nodeTaintsPolicy
NodeSelectorOperator: NodeSelectorRequirement.operator
OSName: PodOS.name
OperationType: RuleWithOperations.operations
ParameterNotFoundActionType: ParamRef.parameterNotFoundAction
PatchType: Mutation.patchType
PathType: HTTPIngressPath.pathType
PersistentVolumeAccessMode: PersistentVolumeSpec.accessModes PersistentVolumeClaimSpec.accessModes
PersistentVolumeClaimRetentionPolicyType: StatefulSetPersistentVolumeClaimRetentionPolicy.whenDeleted
PersistentVolumeClaimRetentionPolicyType: StatefulSetPersistentVolumeClaimRetentionPolicy.whenScaled
PersistentVolumeMode: PersistentVolumeSpec.volumeMode PersistentVolumeClaimSpec.volumeMode
PersistentVolumeReclaimPolicy: PersistentVolumeSpec.persistentVolumeReclaimPolicy StorageClass.reclaimPolicy
PodConditionType: PodReadinessGate.conditionType PodFailurePolicyOnPodConditionsPattern.type
PodFSGroupChangePolicy: PodSecurityContext.fsGroupChangePolicy
PodFailurePolicyAction: PodFailurePolicyRule.action
PodFailurePolicyOnExitCodesOperator: PodFailurePolicyOnExitCodesRequirement.operator
PodManagementPolicyType: StatefulSetSpec.podManagementPolicy
PodReplacementPolicy: JobSpec.podReplacementPolicy
PodSELinuxChangePolicy: PodSecurityContext.seLinuxChangePolicy
PolicyType: NetworkPolicySpec.policyTypes
PreemptionPolicy: PodSpec.preemptionPolicy PriorityClass.preemptionPolicy
PriorityLevelEnablement: PriorityLevelConfigurationSpec.type
ProcMountType: SecurityContext.procMount
Protocol: ContainerPort.protocol ServicePort.protocol EndpointPort.protocol NetworkPolicyPort.protocol
PullPolicy: Container.imagePullPolicy EphemeralContainer.imagePullPolicy ImageVolumeSource.pullPolicy
RecursiveReadOnlyMode: VolumeMount.recursiveReadOnly
ReinvocationPolicyType: MutatingWebhook.reinvocationPolicy MutatingAdmissionPolicySpec.reinvocationPolicy
ResourceList: PersistentVolumeSpec.capacity ResourceRequirements.limits ResourceRequirements.requests
ResourceList: VolumeResourceRequirements.limits VolumeResourceRequirements.requests PodSpec.overhead LimitRangeItem.max
ResourceList: LimitRangeItem.min LimitRangeItem.default LimitRangeItem.defaultRequest LimitRangeItem.maxLimitRequestRatio
ResourceList: ResourceQuotaSpec.hard Overhead.podFixed
ResourceName: ContainerResizePolicy.resourceName ResourceMetricSource.name ContainerResourceMetricSource.name
ResourceQuotaScope: ResourceQuotaSpec.scopes ScopedResourceSelectorRequirement.scopeName
ResourceResizeRestartPolicy: ContainerResizePolicy.restartPolicy
RestartPolicy: PodSpec.restartPolicy
ScalingPolicySelect: HPAScalingRules.selectPolicy
ScopeSelectorOperator: ScopedResourceSelectorRequirement.operator
ScopeType: Rule.scope
SeccompProfileType: SeccompProfile.type
SecretType: Secret.type
ServiceAffinity: ServiceSpec.sessionAffinity
ServiceExternalTrafficPolicy: ServiceSpec.externalTrafficPolicy
ServiceInternalTrafficPolicy: ServiceSpec.internalTrafficPolicy
ServiceType: ServiceSpec.type
SideEffectClass: ValidatingWebhook.sideEffects MutatingWebhook.sideEffects
Signal: Lifecycle.stopSignal
StatefulSetUpdateStrategyType: StatefulSetUpdateStrategy.type
StatusReason: Validation.reason
StorageMedium: EmptyDirVolumeSource.medium
SupplementalGroupsPolicy: PodSecurityContext.supplementalGroupsPolicy
TaintEffect: Taint.effect Toleration.effect
TerminationMessagePolicy: Container.terminationMessagePolicy EphemeralContainer.terminationMessagePolicy
TolerationOperator: Toleration.operator
UID: Preconditions.uid ObjectReference.uid
URIScheme: HTTPGetAction.scheme
UnhealthyPodEvictionPolicyType: PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy
UnsatisfiableConstraintAction: TopologySpreadConstraint.whenUnsatisfiable
ValidationAction: ValidatingAdmissionPolicyBindingSpec.validationActions
VolumeBindingMode: StorageClass.volumeBindingMode
VolumeLifecycleMode: CSIDriverSpec.volumeLifecycleModes
"""
"""Fields by the name of their Go type (of their items', for lists)."""

_EMBEDDED = {
    "Volume": "VolumeSource",
    "PersistentVolumeSpec": "PersistentVolumeSource",
    "ConfigMapProjection": "LocalObjectReference",
    "SecretProjection": "LocalObjectReference",
    "ConfigMapKeySelector": "LocalObjectReference",
    "SecretKeySelector": "LocalObjectReference",
    "ConfigMapEnvSource": "LocalObjectReference",
    "SecretEnvSource": "LocalObjectReference",
    "ConfigMapVolumeSource": "LocalObjectReference",
    "Probe": "ProbeHandler",
    "EphemeralContainer": "EphemeralContainerCommon",
    "IngressRule": "IngressRuleValue",
    "RuleWithOperations": "Rule",
}
_OWN = """
Volume: name
PersistentVolumeSpec: capacity accessModes claimRef persistentVolumeReclaimPolicy storageClassName mountOptions volumeMode nodeAffinity
PersistentVolumeSpec: volumeAttributesClassName
Probe: initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold terminationGracePeriodSeconds
EphemeralContainer: targetContainerName
IngressRule: host
RuleWithOperations: operations
ConfigMapProjection: items optional
SecretProjection: items optional
ConfigMapKeySelector: key optional
SecretKeySelector: key optional
ConfigMapEnvSource: optional
SecretEnvSource: optional
ConfigMapVolumeSource: items defaultMode optional
"""
"""Fields that a struct with an embedded one has itself."""


@functools.cache
def _named() -> dict[str, str]:
    lines = (line.split(": ") for line in _NAMED.strip().splitlines())
    return {field: name for name, fields in lines for field in fields.split()}


@functools.cache
def _own() -> frozenset[str]:
    lines = (line.split(": ") for line in _OWN.strip().splitlines())
    return frozenset(f"{struct}.{field}" for struct, fields in lines for field in fields.split())


def type_of(struct: str, field: str, plain: str) -> str:
    """The type of a field that is said to be `plain` (`string`, `[]string`, ...)."""
    name = _named().get(f"{struct}.{field}")
    if name is None:
        return plain
    return f"[]v1.{name}" if plain.startswith("[]") else f"v1.{name}"


def named(struct: str, field: str) -> str:
    """A field with the embedded struct that it comes from, where it does."""
    parent = _EMBEDDED.get(struct)
    return field if parent is None or f"{struct}.{field}" in _own() else f"{parent}.{field}"
