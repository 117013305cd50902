"""Prints the pod of a StatefulSet as `podman kube play` takes it: pod.py MANIFESTS SECRET

It does what a cluster does before a kubelet starts a pod: it fills in the Secret, and makes a claim of each template. The probes are
left out, because podman would run them with a shell that the image does not have.
"""

import base64
import sys

import yaml

PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def main(manifests, secret):
    with open(manifests) as file:
        documents = list(yaml.safe_load_all(file))
    with open(secret) as file:
        secret = yaml.safe_load(file)
    (stateful,) = [each for each in documents if each["kind"] == "StatefulSet"]
    name = stateful["metadata"]["name"] + "-0"
    template = stateful["spec"]["template"]
    (container,) = template["spec"]["containers"]
    for probe in PROBES:
        del container[probe]
    for variable in container["env"]:
        wanted = variable.pop("valueFrom")["secretKeyRef"]
        if wanted["name"] != secret["metadata"]["name"]:
            sys.exit(f"{variable['name']} is in the Secret {wanted['name']}, not in {secret['metadata']['name']}")
        variable["value"] = base64.b64decode(secret["data"][wanted["key"]]).decode()
    for claim in stateful["spec"]["volumeClaimTemplates"]:
        volume = claim["metadata"]["name"]
        template["spec"]["volumes"].append({"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{name}"}})
    metadata = template["metadata"] | {"name": name}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    maps = [each for each in documents if each["kind"] == "ConfigMap"]
    print(yaml.safe_dump_all([*maps, pod]))


if __name__ == "__main__":
    main(*sys.argv[1:])
