"""How the API serves the built-in kinds that the program itself works with: no discovery is asked for those."""

from delegate.model.resources import ResourceType

CONFIG_MAPS = ResourceType(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)
EVENTS = ResourceType(group="", version="v1", kind="Event", plural="events", namespaced=True)
NAMESPACES = ResourceType(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)
PODS = ResourceType(group="", version="v1", kind="Pod", plural="pods", namespaced=True)
SECRETS = ResourceType(group="", version="v1", kind="Secret", plural="secrets", namespaced=True)
SERVICES = ResourceType(group="", version="v1", kind="Service", plural="services", namespaced=True)
AUTOSCALERS = ResourceType(
    group="autoscaling", version="v2", kind="HorizontalPodAutoscaler", plural="horizontalpodautoscalers", namespaced=True
)
CONTROLLER_REVISIONS = ResourceType(group="apps", version="v1", kind="ControllerRevision", plural="controllerrevisions", namespaced=True)
DAEMON_SETS = ResourceType(group="apps", version="v1", kind="DaemonSet", plural="daemonsets", namespaced=True)
DEPLOYMENTS = ResourceType(group="apps", version="v1", kind="Deployment", plural="deployments", namespaced=True)
REPLICA_SETS = ResourceType(group="apps", version="v1", kind="ReplicaSet", plural="replicasets", namespaced=True)
STATEFUL_SETS = ResourceType(group="apps", version="v1", kind="StatefulSet", plural="statefulsets", namespaced=True)
JOBS = ResourceType(group="batch", version="v1", kind="Job", plural="jobs", namespaced=True)
LEASES = ResourceType(group="coordination.k8s.io", version="v1", kind="Lease", plural="leases", namespaced=True)
ENDPOINT_SLICES = ResourceType(group="discovery.k8s.io", version="v1", kind="EndpointSlice", plural="endpointslices", namespaced=True)
INGRESSES = ResourceType(group="networking.k8s.io", version="v1", kind="Ingress", plural="ingresses", namespaced=True)
STORAGE_CLASSES = ResourceType(group="storage.k8s.io", version="v1", kind="StorageClass", plural="storageclasses", namespaced=False)

ROLLOUTS = ResourceType(group="argoproj.io", version="v1alpha1", kind="Rollout", plural="rollouts", namespaced=True)

WORKLOADS = {each.kind: each for each in (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS)}
"""What has pods and revisions of them, by kind."""
VERSIONED = {**WORKLOADS, ROLLOUTS.kind: ROLLOUTS}
"""Those and the ones of others."""
