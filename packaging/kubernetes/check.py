"""Checks the manifests and the chart against the schemas of Kubernetes, KEDA and the operator of Prometheus, and against each other.

`packaging/kubernetes/check` installs what it needs, and runs it with the directory of the tools.
"""

import json
import pathlib
import re
import subprocess
import sys
import tomllib

import jsonschema
import kubernetes_validate
import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CHART = ROOT / "packaging/helm/sluice"

# The oldest and the newest Kubernetes that the chart is for. The oldest is that of Chart.yaml.
KUBERNETES = ["1.30", "1.37"]

# What is rendered, besides the default values: a name, and the values that differ.
VARIANTS = {
    "tls": {"tls": {"secret": "certificate"}, "serviceMonitor": {"enabled": True}},
    "all": {
        "image": {"repository": "registry.example/sluice", "tag": "1.2.3", "pullPolicy": "Always", "pullSecrets": ["login"]},
        "firstUser": {"secret": "first"},
        "config": "heartbeat = 17\nlog.console.formatter = json\n",
        "storage": {"size": "1Ti", "className": "fast"},
        "resources": {},
        "service": {"type": "LoadBalancer", "annotations": {"example/internal": "true"}},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "queues": False},
        "podAnnotations": {"example/a": "b"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "broker", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
    },
}

# Values that the chart must refuse: a misspelled key, and values that the broker or Kubernetes would refuse later.
REFUSED = ["storag.size=1Gi", "storage.size=much", "service.type=Public", "serviceMonitor.enabled=perhaps", "image.repository="]

HEADER = """\
# {what}
#
# The Helm chart renders it: after a change of packaging/helm/sluice, run packaging/kubernetes/check --write.
"""


def fail(problem):
    sys.exit(f"packaging/kubernetes: {problem}")


def expect(condition, problem):
    if not condition:
        fail(problem)


class Helm:
    def __init__(self, tools):
        self.program = tools / "helm"

    def run(self, *arguments, values=None):
        command = [self.program, *arguments]
        command += ["--values", "-"] if values is not None else []
        return subprocess.run(command, input=json.dumps(values), capture_output=True, text=True)

    def render(self, values, *more):
        # `go install` gives Helm no version of Kubernetes.
        done = self.run("template", "sluice", CHART, "--kube-version", KUBERNETES[0], *more, values=values)
        expect(done.returncode == 0, f"helm template: {done.stderr}")
        return done.stdout


def plain(rendered):
    """Returns manifests without what Helm says about their templates."""
    text = re.sub(r"^# Source: .*\n", "", rendered, flags=re.M).removeprefix("---\n")
    return text.rstrip("\n") + "\n"


def crd(path):
    """Returns the kinds of a custom resource definition with their schemas. Unknown fields are refused, as kubectl does."""
    definition = yaml.safe_load(path.read_text())["spec"]
    for version in definition["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        schema["properties"]["metadata"] = {"type": "object"}
        close(schema)
        yield f"{definition['group']}/{version['name']}", definition["names"]["kind"], schema


def close(schema):
    if not isinstance(schema, dict):
        return
    if schema.get("x-kubernetes-int-or-string"):
        schema["type"] = ["integer", "string"]
        schema.pop("anyOf", None)
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    for part in schema.get("properties", {}).values():
        close(part)
    for key in ("items", "additionalProperties"):
        close(schema.get(key))


def validate(documents, custom, where):
    for document in documents:
        kind = (document["apiVersion"], document["kind"])
        name = f"{where}: {document['kind']} {document['metadata']['name']}"
        try:
            if kind in custom:
                jsonschema.Draft202012Validator(custom[kind]).validate(document)
            else:
                for version in KUBERNETES:
                    kubernetes_validate.validate(document, version, strict=True)
        except jsonschema.ValidationError as error:
            fail(f"{name}: {'.'.join(map(str, error.path))}: {error.message}")
        except kubernetes_validate.SchemaNotFoundError as error:
            fail(f"{name}: {error.message}")


def fits(documents, where):
    """Checks that the objects of one release refer to each other by the right names."""

    def find(kind, name):
        found = [each for each in documents if (each["kind"], each["metadata"]["name"]) == (kind, name)]
        expect(found, f"{where}: no {kind} {name}")
        return found[0]

    (stateful,) = [each for each in documents if each["kind"] == "StatefulSet"]
    pod = stateful["spec"]["template"]
    labels = pod["metadata"]["labels"]
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    expect(stateful["spec"]["replicas"] == 1, f"{where}: more than one broker")
    expect(stateful["spec"]["selector"]["matchLabels"].items() <= labels.items(), f"{where}: the selector misses the pod")
    find("Service", stateful["spec"]["serviceName"])
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        expect(ports[container[probe]["httpGet"]["port"]] == 15692, f"{where}: {probe} does not ask the port of the metrics")
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    find("ConfigMap", volumes["config"]["configMap"]["name"])
    claims = {claim["metadata"]["name"] for claim in stateful["spec"]["volumeClaimTemplates"]}
    for mount in container["volumeMounts"]:
        expect(mount["name"] in volumes.keys() | claims, f"{where}: no volume {mount['name']}")
    for service in (each for each in documents if each["kind"] == "Service"):
        expect(service["spec"]["selector"].items() <= labels.items(), f"{where}: {service['metadata']['name']} misses the pod")
        for port in service["spec"]["ports"]:
            expect(ports[port["targetPort"]] == port["port"], f"{where}: {service['metadata']['name']}: {port['name']}")
            headless = service["spec"].get("clusterIP") == "None"
            expect(headless or port["name"] != "metrics", f"{where}: clients reach the metrics, which need no password")
    for monitor in (each for each in documents if each["kind"] == "ServiceMonitor"):
        selector = monitor["spec"]["selector"]["matchLabels"]
        chosen = [each for each in documents if each["kind"] == "Service" and selector.items() <= each["metadata"]["labels"].items()]
        expect(len(chosen) == 1, f"{where}: the ServiceMonitor chooses {len(chosen)} Services")
        names = {port["name"] for port in chosen[0]["spec"]["ports"]}
        expect({end["port"] for end in monitor["spec"]["endpoints"]} <= names, f"{where}: the ServiceMonitor names no port")
    restricted(pod["spec"], container, where)
    return ports


def restricted(pod, container, where):
    """The Pod Security Standard `restricted`, and a root file system that is read-only."""
    security, inner = pod["securityContext"], container["securityContext"]
    expect(security["runAsNonRoot"] and security["runAsUser"] > 0, f"{where}: the pod may be root")
    expect(security["seccompProfile"]["type"] == "RuntimeDefault", f"{where}: no seccomp profile")
    expect(inner["capabilities"] == {"drop": ["ALL"]}, f"{where}: capabilities")
    expect(inner["allowPrivilegeEscalation"] is False, f"{where}: allowPrivilegeEscalation")
    expect(inner["readOnlyRootFilesystem"], f"{where}: the root file system can be written")


def documented(schema, values, path=""):
    """Checks that values.yaml and its schema have the same keys."""
    free = {"resources", "annotations", "labels", "podAnnotations", "nodeSelector", "affinity"}
    allowed = schema["properties"].keys() - {"global"}
    expect(allowed == values.keys(), f"values.yaml and its schema differ at '{path}': {sorted(allowed ^ values.keys())}")
    for key, part in schema["properties"].items():
        if "properties" in part and key not in free:
            documented(part, values[key], f"{path}.{key}")


def scaler(tools, trigger, authentication):
    """Checks that KEDA's scaler knows each parameter of a trigger."""
    source = (tools / f"keda/pkg/scalers/{trigger['type']}_scaler.go").read_text()
    known = {}
    for name, order in re.findall(r'keda:"name=([^,"]*),\s*order=([^,"]*)', source):
        known[name.strip()] = order
    for name in trigger["metadata"]:
        expect("triggerMetadata" in known.get(name, ""), f"KEDA's scaler {trigger['type']} has no parameter {name}")
    for name in authentication:
        expect("authParams" in known.get(name, ""), f"KEDA's scaler {trigger['type']} takes no {name} from a Secret")


def examples(tools, custom, names):
    for path in sorted((HERE / "examples").glob("*.yaml")):
        documents = list(yaml.safe_load_all(path.read_text()))
        validate(documents, custom, path.name)
        secrets = {}
        for each in documents:
            if each["kind"] == "TriggerAuthentication":
                secrets[each["metadata"]["name"]] = [entry["parameter"] for entry in each["spec"]["secretTargetRef"]]
        for each in documents:
            for trigger in each["spec"].get("triggers", []):
                wanted = trigger.get("authenticationRef", {}).get("name")
                expect(wanted is None or wanted in secrets, f"{path.name}: no TriggerAuthentication {wanted}")
                scaler(tools, trigger, secrets.get(wanted, []))
                host = trigger["metadata"].get("host")
                expect(host in (None, f"http://sluice:{names['management']}/"), f"{path.name}: {host} is not the Service")


def main(tools, write):
    helm = Helm(tools)
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    expect(chart["version"] == chart["appVersion"] == version, f"Chart.yaml is not of version {version}")
    expect(KUBERNETES[0] in chart["kubeVersion"], f"Chart.yaml is not for Kubernetes {KUBERNETES[0]}")
    documented(json.loads((CHART / "values.schema.json").read_text()), yaml.safe_load((CHART / "values.yaml").read_text()))
    custom = {}
    for path in [
        "prometheus-operator/example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
        "keda/config/crd/bases/keda.sh_scaledobjects.yaml",
        "keda/config/crd/bases/keda.sh_triggerauthentications.yaml",
    ]:
        custom |= {(version, kind): schema for version, kind, schema in crd(tools / path)}

    manifests = {
        "sluice.yaml": ("The broker: one pod with one volume, its Services and its settings.", plain(helm.render({}))),
        "servicemonitor.yaml": (
            "It makes the operator of Prometheus read the metrics.",
            plain(helm.render({"serviceMonitor": {"enabled": True}}, "--show-only", "templates/servicemonitor.yaml")),
        ),
    }
    for name, (what, text) in manifests.items():
        text = HEADER.format(what=what) + text
        if write:
            (HERE / name).write_text(text)
        expect((HERE / name).read_text() == text, f"{name} is not what the chart renders: run packaging/kubernetes/check --write")

    everything = [each for name in manifests for each in yaml.safe_load_all((HERE / name).read_text())]
    validate(everything, custom, "manifests")
    names = fits(everything, "manifests")
    exposed = re.search(r"^EXPOSE (.*)$", (ROOT / "packaging/container/Containerfile").read_text(), re.M)[1].split()
    expect(sorted(map(str, names.values())) == sorted(exposed), f"the image exposes {exposed}, and the pod {names}")

    for name, values in VARIANTS.items():
        lint = helm.run("lint", "--strict", CHART, "--kube-version", KUBERNETES[0], values=values)
        expect(lint.returncode == 0, f"helm lint, {name}: {lint.stdout}{lint.stderr}")
        documents = [each for each in yaml.safe_load_all(helm.render(values)) if each]
        validate(documents, custom, name)
        fits(documents, name)
    for setting in REFUSED:
        done = helm.run("template", "sluice", CHART, "--kube-version", KUBERNETES[0], "--set", setting)
        expect(done.returncode != 0 and "schema" in done.stderr, f"the chart takes --set {setting}")
    examples(tools, custom, names)
    print(f"packaging/kubernetes: valid for Kubernetes {' and '.join(KUBERNETES)}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), "--write" in sys.argv[2:])
