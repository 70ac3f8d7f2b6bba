# SPDX-License-Identifier: Apache-2.0
"""The docker-compose.yaml of a Harbor task, with what Harbor adds to its service `main`, as `cloche compose` takes it.

Harbor layers files of its own around the task's: the image or build of `main`, a command that keeps it running, the task's variables
and its limits. Here they become one file. Scalars stay as they are written, because Compose reads YAML 1.2 and PyYAML reads 1.1.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

import yaml
from harbor.constants import MAIN_SERVICE_NAME as MAIN
from harbor.environments.docker.compose_env import ComposeInfraEnvVars, legacy_log_mount_env_vars

FIELDS = ("engine", "min_grade", "timeout", "template")  # of Sandbox.create() that go for every service; `template` for main alone
LOG_MOUNT = re.compile(r"\$\{?HOST_(VERIFIER_LOGS|AGENT_LOGS|ARTIFACTS)_PATH")
KEEPS_RUNNING = ["sh", "-c", "sleep infinity"]


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    yaml_implicit_resolvers: Dict[str, Any] = {}


_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^<<$"), ["<"])


def read_services(path: Path) -> Dict[str, Any]:
    """The whole file; it has a service `main`, which the agent works in, or gets one."""
    try:
        model = yaml.load(path.read_text(encoding="utf-8"), _Loader) or {}
    except yaml.YAMLError as e:
        raise ValueError(f"{path}: {e}") from e
    services = model.get("services") if isinstance(model, dict) else None
    if not isinstance(services, dict) or not all(isinstance(one, (dict, type(None))) for one in services.values()):
        raise ValueError(f"{path}: there are no services")
    model["services"] = {name: dict(service or {}) for name, service in services.items()}
    model["services"].setdefault(MAIN, {})
    return model


def check_fields_of_project(fields: Mapping[str, Any], path: Path) -> None:
    wrong = [name for name, value in fields.items() if name not in FIELDS and value is not None]
    if wrong:
        raise ValueError(f"fields: {', '.join(wrong)} cannot be given beside {path.name}, which says it of each service; {', '.join(FIELDS)} can")


def _pairs(value: Any) -> Dict[str, Any]:
    """`environment`, which may be a list of A=B."""
    if isinstance(value, list):
        return {name: text if equals else None for name, equals, text in (str(one).partition("=") for one in value)}
    return dict(value or {})


def _origin(main: Dict[str, Any], context: Path, template: Optional[str], image: Optional[str]) -> None:
    """What it starts from, as Harbor's own files and then the task's say it."""
    own_image = main.get("image")
    if own_image is not None and "MAIN_IMAGE_NAME" in str(own_image):  # the name of what is built
        own_image = main.pop("image")
        own_image = None
    if template is not None:
        for name in ("image", "build"):
            main.pop(name, None)
        main["x-cloche"] = {**(main.get("x-cloche") or {}), "template": template}
    elif (main.get("x-cloche") or {}).get("template"):
        return
    elif image is not None:
        main.pop("build", None)
        main["image"] = own_image or image
    elif "build" in main or (context / "Dockerfile").exists():
        main.pop("image", None)
        main.setdefault("build", {"context": "."})
    elif own_image is None:
        raise ValueError(f"{context / 'docker-compose.yaml'}: the service {MAIN} has no image or build, and there is no Dockerfile")


def _limit(main: Dict[str, Any], cpus: Optional[float], memory_mb: Optional[int], disk_mb: Optional[int]) -> None:
    """What Harbor says is stronger than what the file says."""
    limits = ((main.get("deploy") or {}).get("resources") or {}).get("limits")
    for name, below, value in (("cpus", "cpus", cpus), ("mem_limit", "memory", memory_mb)):
        if value is None:
            continue
        main[name] = f"{value}m" if name == "mem_limit" else str(value)
        if isinstance(limits, dict):
            limits.pop(below, None)
    if disk_mb is not None:
        main["x-cloche"] = {**(main.get("x-cloche") or {}), "disk_mib": disk_mb}


def _is_log_mount(mount: Any) -> bool:
    """Of older tasks: the directories of Harbor's logs, which are made inside, and fetched from there."""
    return bool(LOG_MOUNT.search(str(mount.get("source") if isinstance(mount, dict) else mount)))


def whole_file(
    path: Path,
    *,
    template: Optional[str],
    image: Optional[str],
    env: Mapping[str, str],
    cpus: Optional[float],
    memory_mb: Optional[int],
    disk_mb: Optional[int],
) -> str:
    """One Compose file. JSON is YAML."""
    model = read_services(path)
    main = model["services"][MAIN]
    _origin(main, path.parent, template, image)
    main.setdefault("command", KEEPS_RUNNING)
    main["environment"] = {**_pairs(main.get("environment")), **{name: value.replace("$", "$$") for name, value in env.items()}}
    _limit(main, cpus, memory_mb, disk_mb)
    if isinstance(main.get("volumes"), list):
        main["volumes"] = [mount for mount in main["volumes"] if not _is_log_mount(mount)]
    return json.dumps(model, indent=1, ensure_ascii=False)


def variables(context: Path, environment_id: str, image: Optional[str], cpus: Optional[int], memory_mb: Optional[int], mounts: Any) -> Dict[str, str]:
    """What a task's file may use: Harbor's own, and those of this process."""
    own = ComposeInfraEnvVars(
        main_image_name=f"hb__{environment_id}",
        context_dir=str(context.resolve()),
        prebuilt_image_name=image,
        cpus=cpus,
        memory=f"{memory_mb}M" if memory_mb else None,
    )
    return {**os.environ, **own.to_env_dict(), **legacy_log_mount_env_vars(mounts, host_value="target")}


def working_dir_of(path: Path) -> Optional[str]:
    """What the file says of `main`, if that is a path."""
    said = read_services(path)["services"][MAIN].get("working_dir")
    return said if isinstance(said, str) and said.startswith("/") and "$" not in said else None
