"""What the server serves: one `Resource` for each kind in each version, built in or defined by a CustomResourceDefinition."""

import functools
from typing import TYPE_CHECKING

import msgspec

from delegate.simulator import schemas
from delegate.simulator.schemas import FieldType

if TYPE_CHECKING:
    from delegate.simulator.customs import Definition

USUAL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CHANGE = ("get", "patch", "update")
_PROXY = ("create", "delete", "get", "patch", "update")


class Subresource(msgspec.Struct, frozen=True):
    """A part of an object with a path of its own; group and version are empty where they are the parent's."""

    name: str
    kind: str
    verbs: tuple[str, ...] = _CHANGE
    group: str = ""
    version: str = ""


class Resource(msgspec.Struct, eq=False):
    """A kind as one version serves it. Objects of all versions are stored once, under `storage`, in `storage_version`."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    singular: str = ""
    verbs: tuple[str, ...] = USUAL_VERBS
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: dict[str, Subresource] = {}
    storage: tuple[str, str] = ("", "")
    storage_version: str = ""
    definition: "Definition | None" = None
    list_kind: str = ""
    type_: FieldType | None = None
    deprecation: str = ""

    @property
    def deprecations(self) -> tuple[str, ...]:
        """What everyone who asks for it is warned of."""
        if (self.group, self.kind) == ("", "Endpoints"):
            return ("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",)
        return (self.deprecation,) if self.deprecation else ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def custom(self) -> bool:
        return self.definition is not None

    @property
    def type(self) -> FieldType:
        """The field type; a kind without any schema is untyped."""
        if self.type_ is None:
            self.type_ = schemas.of_kind(self.group, self.version, self.kind) or schemas.ANY
        return self.type_

    @property
    def qualified(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _named(name: str, kind: str) -> Subresource:
    special = {
        "scale": Subresource("scale", "Scale", _CHANGE, "autoscaling", "v1"),
        "eviction": Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
        "token": Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),
        "binding": Subresource("binding", "Binding", ("create",)),
        "finalize": Subresource("finalize", kind, ("update",)),
        "log": Subresource("log", kind, ("get",)),
        "proxy": Subresource("proxy", f"{kind}ProxyOptions", _PROXY),
        "attach": Subresource("attach", "PodAttachOptions", ("create", "get")),
        "exec": Subresource("exec", "PodExecOptions", ("create", "get")),
        "portforward": Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
    }
    return special.get(name) or Subresource(name, kind)


def _parse(line: str, group: str, version: str) -> Resource:
    plural, kind, scope, *rest = line.split()
    options = dict(word.split("=") for word in rest if "=" in word)
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        namespaced=scope == "namespaced",
        singular=options.get("singular", kind.lower()),
        verbs=tuple(options["verbs"].split(",")) if "verbs" in options else USUAL_VERBS,
        short_names=tuple(options["short"].split(",")) if "short" in options else (),
        categories=tuple(options["in"].split(",")) if "in" in options else (),
        subresources={word[1:]: _named(word[1:], kind) for word in rest if word.startswith("/")},
        storage=("", "events") if plural == "events" else (group, plural),
        storage_version="v1" if plural == "events" else ("v2" if group == "autoscaling" else version),
        list_kind=kind + "List",
    )


@functools.cache
def built_in() -> tuple[Resource, ...]:
    """The kinds of a Kubernetes 1.36 control plane, in the order of its discovery."""
    found = []
    group = version = ""
    for line in TABLE.strip().splitlines():
        if line.startswith("# "):
            group, _, version = line[2:].rpartition("/")
            group = "" if group == "core" else group
        else:
            found.append(_parse(line, group, version))
    return tuple(found)


TABLE = """
# core/v1
bindings Binding namespaced verbs=create
componentstatuses ComponentStatus cluster short=cs verbs=get,list
configmaps ConfigMap namespaced short=cm
endpoints Endpoints namespaced short=ep
events Event namespaced short=ev
limitranges LimitRange namespaced short=limits
namespaces Namespace cluster short=ns verbs=create,delete,get,list,patch,update,watch /finalize /status
nodes Node cluster short=no /proxy /status
persistentvolumeclaims PersistentVolumeClaim namespaced short=pvc /status
persistentvolumes PersistentVolume cluster short=pv /status
pods Pod namespaced short=po in=all /attach /binding /ephemeralcontainers /eviction /exec /log /portforward /proxy /resize /status
podtemplates PodTemplate namespaced
replicationcontrollers ReplicationController namespaced short=rc in=all /scale /status
resourcequotas ResourceQuota namespaced short=quota /status
secrets Secret namespaced
serviceaccounts ServiceAccount namespaced short=sa /token
services Service namespaced short=svc in=all /proxy /status
# apiregistration.k8s.io/v1
apiservices APIService cluster in=api-extensions /status
# apps/v1
controllerrevisions ControllerRevision namespaced
daemonsets DaemonSet namespaced short=ds in=all /status
deployments Deployment namespaced short=deploy in=all /scale /status
replicasets ReplicaSet namespaced short=rs in=all /scale /status
statefulsets StatefulSet namespaced short=sts in=all /scale /status
# events.k8s.io/v1
events Event namespaced short=ev
# authentication.k8s.io/v1
selfsubjectreviews SelfSubjectReview cluster verbs=create
tokenreviews TokenReview cluster verbs=create
# authorization.k8s.io/v1
localsubjectaccessreviews LocalSubjectAccessReview namespaced verbs=create
selfsubjectaccessreviews SelfSubjectAccessReview cluster verbs=create
selfsubjectrulesreviews SelfSubjectRulesReview cluster verbs=create
subjectaccessreviews SubjectAccessReview cluster verbs=create
# autoscaling/v2
horizontalpodautoscalers HorizontalPodAutoscaler namespaced short=hpa in=all /status
# autoscaling/v1
horizontalpodautoscalers HorizontalPodAutoscaler namespaced short=hpa in=all /status
# batch/v1
cronjobs CronJob namespaced short=cj in=all /status
jobs Job namespaced in=all /status
# certificates.k8s.io/v1
certificatesigningrequests CertificateSigningRequest cluster short=csr /approval /status
# networking.k8s.io/v1
ingressclasses IngressClass cluster
ingresses Ingress namespaced short=ing /status
ipaddresses IPAddress cluster short=ip
networkpolicies NetworkPolicy namespaced short=netpol
servicecidrs ServiceCIDR cluster /status
# policy/v1
poddisruptionbudgets PodDisruptionBudget namespaced short=pdb /status
# rbac.authorization.k8s.io/v1
clusterrolebindings ClusterRoleBinding cluster
clusterroles ClusterRole cluster
rolebindings RoleBinding namespaced
roles Role namespaced
# storage.k8s.io/v1
csidrivers CSIDriver cluster
csinodes CSINode cluster
csistoragecapacities CSIStorageCapacity namespaced
storageclasses StorageClass cluster short=sc
volumeattachments VolumeAttachment cluster /status
volumeattributesclasses VolumeAttributesClass cluster short=vac
# admissionregistration.k8s.io/v1
mutatingadmissionpolicies MutatingAdmissionPolicy cluster in=api-extensions
mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding cluster in=api-extensions
mutatingwebhookconfigurations MutatingWebhookConfiguration cluster in=api-extensions
validatingadmissionpolicies ValidatingAdmissionPolicy cluster in=api-extensions /status
validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding cluster in=api-extensions
validatingwebhookconfigurations ValidatingWebhookConfiguration cluster in=api-extensions
# apiextensions.k8s.io/v1
customresourcedefinitions CustomResourceDefinition cluster short=crd,crds in=api-extensions /status
# scheduling.k8s.io/v1
priorityclasses PriorityClass cluster short=pc
# coordination.k8s.io/v1
leases Lease namespaced
# node.k8s.io/v1
runtimeclasses RuntimeClass cluster
# discovery.k8s.io/v1
endpointslices EndpointSlice namespaced
# resource.k8s.io/v1
deviceclasses DeviceClass cluster
resourceclaims ResourceClaim namespaced /status
resourceclaimtemplates ResourceClaimTemplate namespaced
resourceslices ResourceSlice cluster
# flowcontrol.apiserver.k8s.io/v1
flowschemas FlowSchema cluster /status
prioritylevelconfigurations PriorityLevelConfiguration cluster /status
"""
