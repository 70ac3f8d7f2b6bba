# SPDX-License-Identifier: Apache-2.0
"""What each route does in a cluster when it is asked on a node that does not have what it is about. A new route needs a row here; tests/functional/test_cluster_wires.py tries those that are led.

node      is about the node that is asked
own       each node has its own part, which docs/guides/cluster.md says
agreed    is the same on all nodes
gathered  has the parts of all nodes
placed    may be made on another node; what the body names leads it to the node that has it, or is refused
id        an id in the path, the name of the host or a header leads it
named     an id or a name in the path leads it
body      what the body or query names leads it, or is refused with the node's name
"""

import pytest
from harness.routes import routes_of

WORDS = {"node", "own", "agreed", "gathered", "placed", "id", "named", "body"}
TABLES = {
    "api/routes.c": """
        GET    /v1/health                                                             node
        GET    /v1/ready                                                              node
        GET    /v1/figures                                                            node
        GET    /v1/doctor                                                             node
        GET    /v1/settings                                                           node
        GET    /v1/nodes                                                              node
        GET    /v1/login                                                              node
        POST   /v1/login                                                              node
        DELETE /v1/login                                                              node
        PATCH  /v1/login                                                              node
        POST   /v1/login/links                                                        node
        GET    /v1/login/oidc/start                                                   node
        GET    /v1/login/oidc/callback                                                node
        POST   /v1/login/oidc/logout                                                  node
        POST   /v1/login/device                                                       node
        POST   /v1/login/device/poll                                                  node
        POST   /v1/sandboxes                                                          placed
        POST   /v1/sandboxes:batch                                                    body
        DELETE /v1/batches/{batch}                                                    id
        GET    /v1/creates                                                            gathered
        POST   /v1/pool                                                               body
        GET    /v1/pool                                                               gathered
        GET    /v1/pool/{reservation}                                                 id
        DELETE /v1/pool/{reservation}                                                 id
        GET    /v1/sandboxes                                                          gathered
        GET    /v1/sandboxes/{id}                                                     named
        PATCH  /v1/sandboxes/{id}                                                     named
        DELETE /v1/sandboxes/{id}                                                     named
        POST   /v1/sandboxes/{id}/pause                                               named
        POST   /v1/sandboxes/{id}/resume                                              named
        POST   /v1/sandboxes/{id}/stop                                                named
        POST   /v1/sandboxes/{id}/extend                                              named
        GET    /v1/sandboxes/{id}/results                                             named
        POST   /v1/sandboxes/{id}/snapshots                                           named
        POST   /v1/sandboxes/{id}/fork                                                named, body
        POST   /v1/sandboxes/{id}/rollback                                            named, body
        GET    /v1/sandboxes/{id}/tree                                                named
        GET    /v1/snapshots                                                          gathered
        GET    /v1/snapshots/{snapshot}                                               named
        PATCH  /v1/snapshots/{snapshot}                                               named
        DELETE /v1/snapshots/{snapshot}                                               named
        GET    /v1/snapshots/{snapshot}/archive                                       named
        PUT    /v1/snapshots/{snapshot}/archive                                       named
        GET    /v1/snapshots/{snapshot}/tree                                          named
        GET    /v1/volumes                                                            gathered
        POST   /v1/volumes                                                            body
        GET    /v1/volumes/{volume}                                                   named
        DELETE /v1/volumes/{volume}                                                   named
        GET    /v1/diff                                                               body
        POST   /v1/sandboxes/{id}/apply                                               named, body
        GET    /v1/sandboxes/{id}/usage                                               named
        GET    /v1/sandboxes/{id}/usage/samples                                       named
        GET    /v1/sandboxes/{id}/network                                             named
        PUT    /v1/sandboxes/{id}/network                                             named
        POST   /v1/sandboxes/{id}/network/allow                                       named
        POST   /v1/sandboxes/{id}/network/explain                                     named
        GET    /v1/sandboxes/{id}/network/decisions                                   named
        GET    /v1/sandboxes/{id}/network/suggestion                                  named
        POST   /v1/sandboxes/{id}/execs                                               named
        GET    /v1/sandboxes/{id}/execs                                               named
        GET    /v1/sandboxes/{id}/execs/{exec_id}                                     named
        DELETE /v1/sandboxes/{id}/execs/{exec_id}                                     named
        GET    /v1/sandboxes/{id}/execs/{exec_id}/output                              named
        GET    /v1/sandboxes/{id}/execs/{exec_id}/wait                                named
        POST   /v1/sandboxes/{id}/execs/{exec_id}/stdin                               named
        POST   /v1/sandboxes/{id}/execs/{exec_id}/signal                              named
        POST   /v1/sandboxes/{id}/execs/{exec_id}/resize                              named
        GET    /v1/sandboxes/{id}/execs/{exec_id}/attach                              named
        POST   /v1/sandboxes/{id}/code                                                named
        POST   /v1/sandboxes/{id}/contexts                                            named
        GET    /v1/sandboxes/{id}/contexts                                            named
        GET    /v1/sandboxes/{id}/contexts/{context_id}                               named
        DELETE /v1/sandboxes/{id}/contexts/{context_id}                               named
        POST   /v1/sandboxes/{id}/contexts/{context_id}/restart                       named
        POST   /v1/sandboxes/{id}/contexts/{context_id}/interrupt                     named
        GET    /v1/sandboxes/{id}/ports                                               named
        POST   /v1/sandboxes/{id}/ports                                               named
        GET    /v1/sandboxes/{id}/ports/{port}/tcp                                    named
        DELETE /v1/sandboxes/{id}/ports/{port}                                        named
        GET    /v1/sandboxes/{id}/files                                               named
        PUT    /v1/sandboxes/{id}/files                                               named
        DELETE /v1/sandboxes/{id}/files                                               named
        GET    /v1/sandboxes/{id}/files/stat                                          named
        GET    /v1/sandboxes/{id}/files/exists                                        named
        GET    /v1/sandboxes/{id}/files/list                                          named
        POST   /v1/sandboxes/{id}/files/mkdir                                         named
        POST   /v1/sandboxes/{id}/files/move                                          named
        POST   /v1/sandboxes/{id}/files/copy                                          named
        POST   /v1/sandboxes/{id}/files/chmod                                         named
        POST   /v1/sandboxes/{id}/files/chown                                         named
        POST   /v1/sandboxes/{id}/files/symlink                                       named
        GET    /v1/sandboxes/{id}/files/tar                                           named
        PUT    /v1/sandboxes/{id}/files/tar                                           named
        GET    /v1/sandboxes/{id}/files/watch                                         named
        POST   /v1/run                                                                placed
        GET    /v1/templates                                                          agreed
        POST   /v1/templates                                                          agreed
        GET    /v1/templates/{template}                                               agreed
        DELETE /v1/templates/{template}                                               agreed
        GET    /v1/templates/{template}/archive                                       agreed
        PUT    /v1/templates/{template}/archive                                       agreed
        POST   /v1/templates/{template}/pull                                          agreed
        GET    /v1/builds                                                             gathered
        POST   /v1/builds                                                             own
        PUT    /v1/builds/files                                                       own
        GET    /v1/builds/{build_id}                                                  id
        DELETE /v1/builds/{build_id}                                                  id
        GET    /v1/builds/{build_id}/events                                           id
        POST   /v1/backups                                                            node
        GET    /v1/usage                                                              gathered
        GET    /v1/history                                                            own, body
        GET    /v1/history/running                                                    own, body
        GET    /metrics                                                               node
        GET    /v1/events                                                             own, body
        GET    /v1/events/head                                                        own, body
        GET    /v1/events/seals                                                       own, body
        GET    /v1/quota                                                              agreed
        GET    /v1/projects/{project_id}/quota                                        agreed
        PUT    /v1/projects/{project_id}/quota                                        agreed
        GET    /v1/keys/{key_id}/quota                                                agreed
        PUT    /v1/keys/{key_id}/quota                                                agreed
        GET    /v1/secrets                                                            agreed
        GET    /v1/secrets/{secret}                                                   agreed
        PUT    /v1/secrets/{secret}                                                   agreed
        DELETE /v1/secrets/{secret}                                                   agreed
        GET    /.well-known/openid-configuration                                      own
        GET    /.well-known/jwks.json                                                 own
        GET    /v1/authority                                                          own
        GET    /v1/identity                                                           own
        POST   /v1/identity/rotate                                                    own
        POST   /v1/sandboxes/{id}/identity-token                                      named
        GET    /v1/webhooks                                                           agreed
        POST   /v1/webhooks                                                           agreed
        GET    /v1/webhooks/{webhook_id}                                              agreed
        PATCH  /v1/webhooks/{webhook_id}                                              agreed
        DELETE /v1/webhooks/{webhook_id}                                              agreed
        GET    /v1/keys                                                               agreed
        POST   /v1/keys                                                               agreed
        DELETE /v1/keys/{key_id}                                                      agreed
        GET    /v1/projects                                                           agreed
        POST   /v1/projects                                                           agreed
        DELETE /v1/projects/{project_id}                                              agreed
    """,
    "compat/e2b/routes.c": """
        POST   /sandboxes                                                             placed
        POST   /v2/sandboxes                                                          placed
        GET    /sandboxes                                                             gathered
        GET    /v2/sandboxes                                                          gathered
        GET    /sandboxes/metrics                                                     own
        GET    /sandboxes/{id}                                                        id
        DELETE /sandboxes/{id}                                                        id
        POST   /sandboxes/{id}/connect                                                id
        POST   /v2/sandboxes/{id}/connect                                             id
        POST   /sandboxes/{id}/resume                                                 id
        POST   /sandboxes/{id}/pause                                                  id
        POST   /sandboxes/{id}/timeout                                                id
        POST   /sandboxes/{id}/refreshes                                              id
        PUT    /sandboxes/{id}/network                                                id
        GET    /sandboxes/{id}/logs                                                   id
        GET    /v2/sandboxes/{id}/logs                                                id
        GET    /sandboxes/{id}/metrics                                                id
        POST   /sandboxes/{id}/snapshots                                              id
        POST   /sandboxes/{id}/fork                                                   id
        GET    /snapshots                                                             gathered
        GET    /templates                                                             agreed
        GET    /v2/templates                                                          agreed
        GET    /default-templates                                                     agreed
        PATCH  /templates/{id}                                                        agreed
        PATCH  /v2/templates/{id}                                                     agreed
        GET    /templates/aliases/{alias}                                             agreed
        DELETE /templates/tags                                                        agreed
        DELETE /templates/{id}                                                        agreed
        POST   /v3/templates                                                          agreed
        POST   /v2/templates                                                          agreed
        GET    /templates/{id}/files/{hash}                                           own
        PUT    /templatefiles/{token}                                                 own
        POST   /v2/templates/{id}/builds/{build_id}                                   id
        GET    /templates/{id}/builds/{build_id}/status                               id
        GET    /templates/{id}/tags                                                   agreed
        GET    /templates/{id}/tags/count                                             agreed
        GET    /templates/{id}/tags/exists                                            agreed
        GET    /templates/{id}/tags/groups                                            agreed
        GET    /templates/{id}/tags/{tag}/assignments                                 agreed
        POST   /templates/tags                                                        agreed
        POST   /secrets                                                               agreed
        GET    /secrets                                                               agreed
        GET    /secrets/{secret_id}                                                   agreed
        POST   /secrets/{secret_id}                                                   agreed
        DELETE /secrets/{secret_id}                                                   agreed
        POST   /volumes                                                               body
        GET    /volumes                                                               gathered
        GET    /volumes/{id}                                                          id
        DELETE /volumes/{id}                                                          id
        GET    /volumecontent/{id}/dir                                                id
        POST   /volumecontent/{id}/dir                                                id
        GET    /volumecontent/{id}/path                                               id
        PATCH  /volumecontent/{id}/path                                               id
        DELETE /volumecontent/{id}/path                                               id
        GET    /volumecontent/{id}/file                                               id
        PUT    /volumecontent/{id}/file                                               id
        POST   /process.Process/Start                                                 id
        POST   /process.Process/Connect                                               id
        POST   /process.Process/List                                                  id
        POST   /process.Process/SendInput                                             id
        POST   /process.Process/StreamInput                                           id
        POST   /process.Process/CloseStdin                                            id
        POST   /process.Process/SendSignal                                            id
        POST   /process.Process/Update                                                id
        POST   /filesystem.Filesystem/Stat                                            id
        POST   /filesystem.Filesystem/ListDir                                         id
        POST   /filesystem.Filesystem/MakeDir                                         id
        POST   /filesystem.Filesystem/Move                                            id
        POST   /filesystem.Filesystem/Remove                                          id
        POST   /filesystem.Filesystem/WatchDir                                        id
        POST   /filesystem.Filesystem/CreateWatcher                                   id
        POST   /filesystem.Filesystem/GetWatcherEvents                                id
        POST   /filesystem.Filesystem/RemoveWatcher                                   id
        GET    /files                                                                 id
        POST   /files                                                                 id
        GET    /health                                                                node
        POST   /execute                                                               id
        POST   /contexts                                                              id
        GET    /contexts                                                              id
        POST   /contexts/{context_id}/restart                                         id
        DELETE /contexts/{context_id}                                                 id
    """,
    "compat/vercel/vercel.c": """
        POST   /vercel/api/v3/sandboxes                                               placed
        POST   /vercel/api/v2/sandboxes                                               placed
        GET    /vercel/api/v2/sandboxes                                               gathered
        GET    /vercel/api/v2/sandboxes/sessions                                      gathered
        GET    /vercel/api/v2/sandboxes/sessions/{session_id}                         id
        POST   /vercel/api/v2/sandboxes/sessions/{session_id}/cmd                     id
        GET    /vercel/api/v2/sandboxes/sessions/{session_id}/cmd                     id
        GET    /vercel/api/v2/sandboxes/sessions/{session_id}/cmd/{command_id}        id
        GET    /vercel/api/v2/sandboxes/sessions/{session_id}/cmd/{command_id}/logs   id
        POST   /vercel/api/v2/sandboxes/sessions/{session_id}/cmd/{command_id}/kill   id
        POST   /vercel/api/v2/sandboxes/sessions/{session_id}/cmd/{command_id}/stdin  id
        POST   /vercel/api/v2/sandboxes/sessions/{session_id}/fs/write                id
        POST   /vercel/api/v2/sandboxes/sessions/{session_id}/fs/read                 id
        POST   /vercel/api/v2/sandboxes/sessions/{session_id}/fs/mkdir                id
        POST   /vercel/api/v2/sandboxes/sessions/{session_id}/stop                    id
        POST   /vercel/api/v2/sandboxes/sessions/{session_id}/extend-timeout          id
        POST   /vercel/api/v2/sandboxes/sessions/{session_id}/network-policy          id
        POST   /vercel/api/v2/sandboxes/sessions/{session_id}/snapshot                id
        POST   /vercel/api/v2/sandboxes/sessions/{session_id}/interactive             id
        GET    /vercel/api/v2/sandboxes/snapshots                                     gathered
        GET    /vercel/api/v2/sandboxes/snapshots/tree                                body
        GET    /vercel/api/v2/sandboxes/snapshots/{snapshot_id}                       id
        DELETE /vercel/api/v2/sandboxes/snapshots/{snapshot_id}                       id
        GET    /vercel/api/v2/sandboxes/drives                                        gathered
        GET    /vercel/api/v2/sandboxes/drives/{drive}                                named
        POST   /vercel/api/v2/sandboxes/drives/{drive}                                named
        POST   /vercel/api/v2/sandboxes/drives/{drive}/fork                           named, body
        DELETE /vercel/api/v2/sandboxes/drives/{drive}                                named
        GET    /vercel/api/v2/sandboxes/{name}                                        named
        PATCH  /vercel/api/v2/sandboxes/{name}                                        named, body
        DELETE /vercel/api/v2/sandboxes/{name}                                        named
        POST   /vercel/api/v2/sandboxes/{name}/fork                                   named, body
    """,
    "mcp/server.c": """
        POST   /mcp                                                                   id
        GET    /mcp                                                                   id
        DELETE /mcp                                                                   id
    """,
}


def rows(source):
    """{(method, path): words}"""
    lines = [line.split(maxsplit=2) for line in TABLES[source].splitlines() if line.strip()]
    return {(method, path): set(words.split(", ")) for method, path, words in lines}


@pytest.mark.parametrize("source", TABLES)
def test_each_route_says_how_it_behaves_in_a_cluster(source):
    told = rows(source)
    assert set(told) == {(method, path) for method, path, *_ in routes_of(source)}
    assert set().union(*told.values()) <= WORDS


def test_what_a_path_names_is_led():
    """A path with an id that some node made cannot be one node's own."""
    for source in TABLES:
        for (method, path), words in rows(source).items():
            for part in ("{id}/", "{session_id}", "{snapshot", "{volume", "{batch}", "{reservation}", "{build_id}", "{drive}"):
                if part in path and not path.startswith(("/templates", "/v2/templates/{id}/tags")):
                    assert words & {"id", "named"}, (method, path)
