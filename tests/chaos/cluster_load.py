# SPDX-License-Identifier: Apache-2.0
"""Clients of a cluster, each of which asks any node for anything: creates with names that all want, calls by id and by name, deletes, keys that are made on one
node, used on another and revoked on a third."""

import random
import threading
import time
import traceback

PROJECT, LIMIT = "crowd", 12  # of sandboxes
NAMES = [f"name-{i}" for i in range(5)]
KEPT_MOST = 4  # sandboxes that a client has at a time
KEYS_MOST = 2


class Client(threading.Thread):
    def __init__(self, load, number):
        super().__init__(name=f"client-{number}", daemon=True)
        self.load, self.rng, self.mine, self.keys, self.n = load, random.Random(f"{load.seed}/client/{number}"), [], [], 0

    def run(self):
        try:
            while not self.load.is_over.is_set():
                if self.load.is_held.is_set():
                    self.load.is_resting(self)
                    continue
                self.step()
                time.sleep(self.rng.uniform(0, 0.15))
        except Exception:
            self.load.failures.append(traceback.format_exc())

    def ask(self, what, method, path, body=None, key=None, headers=None, node=None):
        node = node or self.rng.choice(self.load.site.nodes)
        began = time.monotonic()
        status, answer = self.load.site.call(node, method, path, body, key=key or self.load.key, headers=headers)
        self.load.history.note(self.name, began, node, f"{what} {path}", status, answer)
        if status is None:
            time.sleep(0.05)
        return began, status, answer

    def step(self):
        acts = [(self.create, 4), (self.create_named, 4), (self.look, 5), (self.call, 5), (self.delete, 3), (self.make_key, 1), (self.use_key, 2), (self.revoke, 1)]
        self.rng.choices([a for a, _ in acts], [w for _, w in acts])[0]()

    def create(self, name=None):
        if len(self.mine) >= KEPT_MOST:
            return self.delete()
        self.n += 1
        body = {"template": "host", "timeout_ms": 3_600_000, **({"name": name} if name else {})}
        headers = {"Idempotency-Key": f"{self.load.seed}-{self.name}-{self.n}"} if self.rng.random() < 0.3 else None
        began, status, answer = self.ask("create-named" if name else "create", "POST", "/v1/sandboxes", body, headers=headers)
        if status is None and headers:  # the same again, at another node: at most one comes of both
            began, status, answer = self.ask("again", "POST", "/v1/sandboxes", body, headers=headers)
        if status in (200, 201):
            self.load.history.created(answer, name, self.load.key, began)
            self.mine.append((answer["id"], name))

    def create_named(self):
        self.create(self.rng.choice(NAMES))

    def look(self):
        """By its name, from anywhere."""
        name = self.rng.choice(NAMES)
        began, status, answer = self.ask("look", "GET", f"/v1/sandboxes/{name}")
        if status == 200 and answer["state"] == "running":
            self.load.history.answered(name, answer["id"], began, time.monotonic())

    def call(self):
        if not self.mine:
            return
        sandbox_id, name = self.rng.choice(self.mine)
        word = name if name and self.rng.random() < 0.5 else sandbox_id
        began, status, answer = self.ask("call", "POST", f"/v1/sandboxes/{word}/execs", {"argv": ["echo", self.name]})
        if status == 200 and answer.get("stdout") != f"{self.name}\n":
            self.load.history.wrong.append(f"{word} answered {answer}")

    def delete(self):
        if not self.mine:
            return
        sandbox_id, name = self.mine.pop(self.rng.randrange(len(self.mine)))
        began, status, answer = self.ask("delete", "DELETE", f"/v1/sandboxes/{sandbox_id}")
        done = status is not None and status < 300
        self.load.history.deleted(sandbox_id, began, done, (answer.get("ended") or {}).get("cause", "") if done else "")
        if status is None or status >= 500:
            self.mine.append((sandbox_id, name))  # once more, later

    def make_key(self):
        if len(self.keys) >= KEYS_MOST:
            return
        self.n += 1
        _, status, answer = self.ask("make-key", "POST", "/v1/keys", {"name": f"{self.name}-{self.n}", "project": PROJECT}, key=self.load.site.key)
        if status == 201:
            self.keys.append((answer["key"]["id"], answer["secret"]))
            with self.load.history.lock:
                self.load.history.keys[answer["key"]["id"]] = answer["secret"]

    def use_key(self):
        if self.keys:
            self.ask("use-key", "GET", "/v1/sandboxes?limit=1", key=self.rng.choice(self.keys)[1])

    def revoke(self):
        """A key whose revocation got no answer may be good or not: nothing is said of it."""
        if len(self.keys) < KEYS_MOST:
            return
        key_id, secret = self.keys.pop(0)
        _, status, _ = self.ask("revoke", "DELETE", f"/v1/keys/{key_id}?project={PROJECT}", key=self.load.site.key)
        if status == 404:
            self.load.history.wrong.append(f"the key {key_id} was made, and is unknown where it is to be revoked")
        with self.load.history.lock:
            del self.load.history.keys[key_id]
            if status is not None and status < 300:
                self.load.history.revoked[key_id] = secret


class Load:
    """The clients, which may be held for a look at the whole."""

    def __init__(self, site, history, seed, clients):
        self.site, self.history, self.seed, self.failures = site, history, seed, []
        self.is_over, self.is_held, self.resting = threading.Event(), threading.Event(), set()
        first = site.nodes[0]
        status, project = site.call(first, "POST", "/v1/projects", {"name": PROJECT})
        assert status == 201, project
        self.project = project["id"]
        status, made = site.call(first, "POST", "/v1/keys", {"name": "crowd", "project": PROJECT})
        assert status == 201, made
        self.key = made["secret"]
        status, said = site.call(first, "PUT", f"/v1/projects/{self.project}/quota", {"sandboxes": LIMIT})
        assert status == 200, said
        site.await_peace(self.key)
        self.clients = [Client(self, i) for i in range(clients)]
        for c in self.clients:
            c.start()

    def is_resting(self, client):
        self.resting.add(client)
        time.sleep(0.05)

    def hold(self):
        self.resting.clear()
        self.is_held.set()
        deadline = time.monotonic() + 120
        while len(self.resting) < len(self.clients) and not self.failures:
            assert time.monotonic() < deadline, "a client does not come to rest"
            time.sleep(0.05)

    def go_on(self):
        self.is_held.clear()

    def end(self):
        self.is_over.set()
        for c in self.clients:
            c.join(120)
