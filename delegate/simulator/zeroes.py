"""What the server's Go types do with zero values, which no schema says.

The server keeps objects as structs: a field that is no pointer and is empty is left out of the JSON, unless its type always
writes it (`always_written`); a pointer to a zero value is kept (`kept_when_zero`). Both tables are held to the recordings.
"""

import functools
from typing import Any

KEY_DEFAULTS: dict[str, dict[str, Any]] = {
    "ContainerPort": {"protocol": "TCP"},
    "ServicePort": {"protocol": "TCP"},
    "LocalObjectReference": {"name": ""},
}
"""Defaults inside list keys by struct, besides those of required fields."""

_ALWAYS: dict[str, dict[str, Any]] = {
    "Container": {"resources": {}},
    "EphemeralContainer": {"resources": {}},
    "PersistentVolumeClaimSpec": {"resources": {}},
    "PodSpec": {"containers": None},
    "PodTemplateSpec": {"metadata": {}, "spec": {}},
    "PodTemplate": {"template": {}},
    "DeploymentSpec": {"selector": None, "template": {}, "strategy": {}},
    "StatefulSetSpec": {"selector": None, "template": {}, "serviceName": "", "updateStrategy": {}},
    "StatefulSetStatus": {"replicas": 0, "availableReplicas": 0},
    "DaemonSetSpec": {"selector": None, "template": {}, "updateStrategy": {}},
    "DaemonSetStatus": {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0},
    "ReplicaSetSpec": {"selector": None, "template": {}},
    "ReplicaSetStatus": {"replicas": 0},
    "ReplicationControllerStatus": {"replicas": 0},
    "JobSpec": {"template": {}},
    "JobTemplateSpec": {"metadata": {}, "spec": {}},
    "CronJobSpec": {"schedule": "", "jobTemplate": {}},
    "ServiceStatus": {"loadBalancer": {}},
    "IngressStatus": {"loadBalancer": {}},
    "IngressServiceBackend": {"port": {}},
    "NetworkPolicySpec": {"podSelector": {}},
    "PodDisruptionBudgetStatus": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    "PolicyRule": {"verbs": None},
    "Role": {"rules": None},
    "ClusterRole": {"rules": None},
    "RoleBinding": {"roleRef": {}},
    "ClusterRoleBinding": {"roleRef": {}},
    "EndpointSlice": {"endpoints": None, "ports": None},
    "Endpoint": {"addresses": None, "conditions": {}},
    "LimitRangeSpec": {"limits": None},
    "ControllerRevision": {"revision": 0},
    "PriorityClass": {"value": 0},
    "ScaleStatus": {"replicas": 0},
    "HorizontalPodAutoscalerSpec": {"scaleTargetRef": {}, "maxReplicas": 0},
    "CrossVersionObjectReference": {"kind": "", "name": ""},
    "ResourceFieldSelector": {"divisor": "0"},
    "CustomResourceDefinitionVersion": {"name": "", "served": False, "storage": False},
    "RoleRef": {"apiGroup": "", "kind": "", "name": ""},
    "VolumeAttachmentSpec": {"attacher": "", "nodeName": "", "source": {}},
    "VolumeAttachmentStatus": {"attached": False},
    "FlowSchemaSpec": {"matchingPrecedence": 0, "priorityLevelConfiguration": {}},
    "PriorityLevelConfigurationReference": {"name": ""},
    "CustomResourceDefinitionSpec": {"group": "", "names": {}, "scope": "", "versions": None},
    "CSIDriver": {"spec": {}},
    "IngressClass": {"spec": {}},
    "ContainerStatus": {"state": {}, "lastState": {}, "ready": False, "restartCount": 0, "image": "", "imageID": ""},
    "ContainerStateRunning": {"startedAt": None},
    "ContainerStateTerminated": {"exitCode": 0, "startedAt": None, "finishedAt": None},
    "PodCondition": {"lastProbeTime": None, "lastTransitionTime": None},
    "JobCondition": {"lastProbeTime": None, "lastTransitionTime": None},
    "PersistentVolumeClaimCondition": {"lastProbeTime": None, "lastTransitionTime": None},
    "DeploymentCondition": {"lastUpdateTime": None, "lastTransitionTime": None},
    "StatefulSetCondition": {"lastTransitionTime": None},
    "DaemonSetCondition": {"lastTransitionTime": None},
    "ReplicaSetCondition": {"lastTransitionTime": None},
    "ReplicationControllerCondition": {"lastTransitionTime": None},
    "HorizontalPodAutoscalerCondition": {"lastTransitionTime": None},
    "NamespaceCondition": {"lastTransitionTime": None},
    "NodeCondition": {"lastHeartbeatTime": None, "lastTransitionTime": None},
    "NodeStatus": {"daemonEndpoints": {}, "nodeInfo": {}},
    "NodeDaemonEndpoints": {"kubeletEndpoint": {}},
    "DaemonEndpoint": {"Port": 0},
    "NodeSystemInfo": dict.fromkeys(
        [
            "machineID",
            "systemUUID",
            "bootID",
            "kernelVersion",
            "osImage",
            "containerRuntimeVersion",
            "kubeletVersion",
            "kubeProxyVersion",
            "operatingSystem",
            "architecture",
        ],
        "",
    ),
    "CustomResourceDefinitionStatus": {"conditions": None, "acceptedNames": {}, "storedVersions": None},
    "CustomResourceDefinitionNames": {"plural": "", "kind": ""},
    "io.k8s.api.autoscaling.v2.MetricStatus": {"type": ""},
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus": {"desiredReplicas": 0, "currentMetrics": None},
    "io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerStatus": {"currentReplicas": 0, "desiredReplicas": 0},
    "io.k8s.api.core.v1.Event": {
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
    "io.k8s.api.events.v1.Event": {
        "eventTime": None,
        "regarding": {},
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    },
}

_KEPT = """
PersistentVolumeSpec: volumeMode volumeAttributesClassName
PersistentVolumeClaimSpec: storageClassName volumeMode volumeAttributesClassName
PersistentVolumeClaimStatus: currentVolumeAttributesClassName
TypedObjectReference: namespace apiGroup
TypedLocalObjectReference: apiGroup
HostPathVolumeSource: type
EmptyDirVolumeSource: sizeLimit
SecretVolumeSource: defaultMode optional
ConfigMapVolumeSource: defaultMode optional
DownwardAPIVolumeSource: defaultMode
ProjectedVolumeSource: defaultMode
DownwardAPIVolumeFile: mode
KeyToPath: mode
SecretProjection: optional
ConfigMapProjection: optional
ServiceAccountTokenProjection: expirationSeconds
ClusterTrustBundleProjection: name signerName optional
FileKeySelector: optional
ConfigMapKeySelector: optional
SecretKeySelector: optional
ConfigMapEnvSource: optional
SecretEnvSource: optional
ISCSIVolumeSource: initiatorName lun
FCVolumeSource: lun
AzureDiskVolumeSource: cachingMode fsType readOnly kind
LocalVolumeSource: fsType
CSIVolumeSource: readOnly fsType
VolumeMount: recursiveReadOnly mountPropagation
Probe: terminationGracePeriodSeconds
GRPCAction: service
SleepAction: seconds
Container: restartPolicy
EphemeralContainer: restartPolicy
Lifecycle: stopSignal
ContainerStatus: started stopSignal
LinuxContainerUser: uid gid
Toleration: tolerationSeconds
WeightedPodAffinityTerm: weight
PreferredSchedulingTerm: weight
PodSpec: terminationGracePeriodSeconds activeDeadlineSeconds automountServiceAccountToken shareProcessNamespace priority\
 runtimeClassName enableServiceLinks preemptionPolicy setHostnameAsFQDN hostUsers hostnameOverride
PodResourceClaim: resourceClaimName resourceClaimTemplateName
TopologySpreadConstraint: minDomains nodeAffinityPolicy nodeTaintsPolicy
PodSecurityContext: runAsUser runAsGroup runAsNonRoot supplementalGroupsPolicy fsGroup fsGroupChangePolicy seLinuxChangePolicy
SecurityContext: privileged runAsUser runAsGroup runAsNonRoot readOnlyRootFilesystem allowPrivilegeEscalation procMount
WindowsSecurityContextOptions: gmsaCredentialSpecName gmsaCredentialSpec runAsUserName hostProcess
SeccompProfile: localhostProfile
AppArmorProfile: localhostProfile
PodDNSConfigOption: value
ReplicationControllerSpec: replicas
ClientIPConfig: timeoutSeconds
LoadBalancerIngress: ipMode
ServiceSpec: ipFamilyPolicy allocateLoadBalancerNodePorts loadBalancerClass internalTrafficPolicy trafficDistribution
ServicePort: appProtocol
ServiceAccount: automountServiceAccountToken
EndpointAddress: nodeName
EndpointPort: appProtocol name protocol port
Preconditions: uid resourceVersion
Secret: immutable
ConfigMap: immutable
PortStatus: error
StatefulSetOrdinals: start
RollingUpdateStatefulSetStrategy: partition maxUnavailable
StatefulSetSpec: replicas revisionHistoryLimit
StatefulSetStatus: collisionCount
DeploymentSpec: replicas revisionHistoryLimit progressDeadlineSeconds
RollingUpdateDeployment: maxUnavailable maxSurge
DeploymentStatus: terminatingReplicas collisionCount
RollingUpdateDaemonSet: maxUnavailable maxSurge
DaemonSetSpec: revisionHistoryLimit
DaemonSetStatus: collisionCount
ReplicaSetSpec: replicas
ReplicaSetStatus: terminatingReplicas
PodFailurePolicyOnExitCodesRequirement: containerName
SuccessPolicyRule: succeededIndexes succeededCount
JobSpec: parallelism completions activeDeadlineSeconds backoffLimit backoffLimitPerIndex maxFailedIndexes manualSelector\
 ttlSecondsAfterFinished completionMode suspend podReplacementPolicy managedBy
JobStatus: terminating failedIndexes ready
CronJobSpec: timeZone startingDeadlineSeconds suspend successfulJobsHistoryLimit failedJobsHistoryLimit
HorizontalPodAutoscalerSpec: minReplicas targetCPUUtilizationPercentage maxReplicas
HorizontalPodAutoscalerStatus: observedGeneration currentCPUUtilizationPercentage
HPAScalingRules: stabilizationWindowSeconds selectPolicy tolerance
HPAScalingPolicy: value periodSeconds
MetricTarget: value averageValue averageUtilization
MetricValueStatus: value averageValue averageUtilization
NetworkPolicyPort: protocol port endPort
IngressSpec: ingressClassName
IngressClassParametersReference: apiGroup namespace scope
HTTPIngressPath: pathType
PodDisruptionBudgetSpec: minAvailable maxUnavailable unhealthyPodEvictionPolicy
StorageClass: reclaimPolicy allowVolumeExpansion volumeBindingMode
VolumeAttachmentSource: persistentVolumeName
VolumeAttachmentStatus: attached
CSIDriverSpec: attachRequired podInfoOnMount storageCapacity fsGroupPolicy requiresRepublish seLinuxMount\
 nodeAllocatableUpdatePeriodSeconds serviceAccountTokenInSecrets
VolumeNodeResources: count
LeaseSpec: holderIdentity leaseDurationSeconds leaseTransitions strategy preferredHolder
PriorityClass: preemptionPolicy value
Endpoint: hostname nodeName zone
EndpointConditions: ready serving terminating
Rule: scope
ValidatingWebhook: failurePolicy matchPolicy timeoutSeconds sideEffects
MutatingWebhook: failurePolicy matchPolicy timeoutSeconds reinvocationPolicy sideEffects
WebhookClientConfig: url
ServiceReference: path port
OwnerReference: controller blockOwnerDeletion
ObjectMeta: deletionGracePeriodSeconds
DeleteOptions: gracePeriodSeconds orphanDependents propagationPolicy
CustomResourceDefinitionVersion: served storage deprecationWarning
CustomResourceDefinitionSpec: preserveUnknownFields
CustomResourceSubresourceScale: labelSelectorPath
JSONSchemaProps: maximum minimum maxLength minLength maxItems minItems multipleOf maxProperties minProperties\
 x-kubernetes-preserve-unknown-fields x-kubernetes-list-type x-kubernetes-map-type
ValidationRule: reason optionalOldSelf
"""


@functools.cache
def _kept() -> dict[str, frozenset[str]]:
    lines = (line.split(": ") for line in _KEPT.strip().splitlines())
    return {name: frozenset(fields.split()) for name, fields in lines}


def kept_when_zero(short: str) -> frozenset[str]:
    """Fields of a struct (by its short name) that stay when they hold 0, false or an empty string."""
    return _kept().get(short, frozenset())


def always_written(name: str) -> dict[str, Any]:
    """Fields of a struct (by its definition's name) that are written even when empty, with the value that is written then."""
    short = name.rpartition(".")[2]
    return _ALWAYS.get(name) or _ALWAYS.get(short) or {}
