# SPDX-License-Identifier: Apache-2.0
"""Several projects that use one daemon at once, each with workers and sandboxes of its own. To who runs a load they are one."""

from harness.daemon import call

from .load import Load


class View:
    """The daemon as a project sees it: all is the daemon's own but the key."""

    def __init__(self, daemon, key):
        self.daemon, self.key = daemon, key

    def __getattr__(self, name):
        return getattr(self.daemon, name)


def make_project(daemon, name):
    """A project with a key that may write."""
    status, project = call(daemon, "POST", "/v1/projects", {"name": name})
    assert status == 201, project
    status, key = call(daemon, "POST", "/v1/keys", {"name": name, "scope": "write", "project": project["id"]})
    assert status == 201, key
    return View(daemon, key["secret"])


class Projects:
    def __init__(self, views, seed, workers):
        """views: by the name of their project."""
        self.views = list(views.values())
        self.loads = [Load(view, f"{seed}-{name}", workers) for name, view in views.items()]

    def start(self):
        for load in self.loads:
            load.start()

    def hold(self):
        for load in self.loads:
            load.hold()

    def go_on(self):
        for load in self.loads:
            load.go_on()

    def let_broken_alone(self):
        for load in self.loads:
            load.let_broken_alone()

    def end(self):
        for load in self.loads:
            load.end()

    def settle(self, _):
        for load in self.loads:
            load.settle(load.listing())

    def has_unfinished(self):
        return any([load.has_unfinished() for load in self.loads])

    def listing(self):
        return [s for load in self.loads for s in load.listing()]

    def delete_all(self):
        for load in self.loads:
            load.delete_all()

    @property
    def is_calm(self):
        return all(load.is_calm for load in self.loads)

    @is_calm.setter
    def is_calm(self, is_calm):
        for load in self.loads:
            load.is_calm = is_calm

    @property
    def workers(self):
        return [w for load in self.loads for w in load.workers]

    @property
    def boxes(self):
        return [b for load in self.loads for b in load.boxes]

    @property
    def closed(self):
        return {i for load in self.loads for i in load.closed}
