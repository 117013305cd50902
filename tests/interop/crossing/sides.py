"""The two sides of the story: pika speaks AMQP 0.9.1, Proton speaks AMQP 1.0. Each is the client of its own suite."""

import importlib.util
import pathlib

SUITES = pathlib.Path(__file__).parent.parent


def client_of(suite):
    spec = importlib.util.spec_from_file_location(f"{suite}_client", SUITES / suite / "client.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


old, new = client_of("pika"), client_of("proton")
