"""Checks compose.yaml against the schema of Compose, and that the files beside it fit together.

`packaging/compose/check` installs what it needs, and runs it with the directory of the tools.
"""

import json
import pathlib
import re
import sys

import jsonschema
import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def read(path):
    return yaml.safe_load(path.read_text())


def expect(condition, problem):
    if not condition:
        sys.exit(f"packaging/compose: {problem}")


def main(tools):
    compose = read(HERE / "compose.yaml")
    schema = json.loads((tools / "compose/schema/compose-spec.json").read_text())
    jsonschema.validators.validator_for(schema)(schema).validate(compose)

    services = compose["services"]
    mounts = {}
    for name, service in services.items():
        for volume in service.get("volumes", []):
            source, target = volume.split(":")[:2]
            if source.startswith("."):
                path = (HERE / source).resolve()
                expect(path.exists(), f"{name} mounts {source}, which does not exist")
                mounts[name, target] = path
            else:
                expect(source in compose["volumes"], f"{name}: no volume {source}")
        for port in service.get("ports", []):
            expect(port.startswith("127.0.0.1:"), f"{name}: port {port} is open to other machines")

    containerfile = (ROOT / "packaging/container/Containerfile").read_text()
    exposed = re.search(r"^EXPOSE (.*)$", containerfile, re.M)[1].split()
    for port in services["sluice"]["ports"]:
        expect(port.split(":")[-1] in exposed, f"the image does not expose the port of {port}")

    prometheus = read(mounts["prometheus", "/etc/prometheus/prometheus.yml"])
    for job in prometheus["scrape_configs"]:
        for target in (target for static in job["static_configs"] for target in static["targets"]):
            host, port = target.split(":")
            expect(host in services, f"{job['job_name']}: {target} is no service")
            expect(port in exposed, f"{job['job_name']}: the image does not expose the port of {target}")

    shown = re.search(r"^```yaml\n(.*?)^```$", (ROOT / "docs/metrics.md").read_text(), re.M | re.S)[1]
    without_targets = lambda jobs: [{key: job[key] for key in job if key != "static_configs"} for job in jobs]
    same = without_targets(yaml.safe_load(shown)["scrape_configs"]) == without_targets(prometheus["scrape_configs"])
    expect(same, "docs/metrics.md shows other jobs than prometheus.yaml has")

    provisioning = "/etc/grafana/provisioning"
    sources = read(mounts["grafana", f"{provisioning}/datasources"] / "sluice.yaml")["datasources"]
    default = [source for source in sources if source.get("isDefault")]
    expect(len(default) == 1, "Grafana needs one default data source")
    expect(default[0]["url"].split("//")[1].split(":")[0] in services, f"{default[0]['url']} is no service")
    providers = read(mounts["grafana", f"{provisioning}/dashboards"] / "sluice.yaml")["providers"]
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    for provider in providers:
        path = provider["options"]["path"]
        expect(("grafana", path) in mounts, f"{provider['name']}: nothing is mounted at {path}")
        for file in mounts["grafana", path].glob("*.json"):
            variables = json.loads(file.read_text())["templating"]["list"]
            asked = [variable["query"] for variable in variables if variable["type"] == "datasource"]
            expect(asked == [default[0]["type"]], f"{file.name} asks for a data source {asked}")
    directory, name = home.rsplit("/", 1)
    expect((mounts["grafana", directory] / name).exists(), f"there is no {home}")
    print("packaging/compose: valid")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
