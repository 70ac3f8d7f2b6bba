# Runs in a sandbox on `host`, as root: fetches one image of a registry (OCI distribution, Docker's v2) into an OCI image layout. Its one argument is a JSON:
#
#	places       where to ask, in this order: {"url", "shown", "signs"}. The next is asked when one does not have the image or cannot be reached
#	signs        further authorities "HOST:PORT" that tokens may be asked for with credentials
#	name         of the repository
#	digest, tag  which image of it; the digest counts where there is one
#	arch         "amd64" or "arm64"
#	bytes        the most that all blobs may have together
#	into         the directory of the layout, which it makes
#	asks         whether somebody may have some of its lowest layers: then it names them on stdout, "cloche:chain" and what OCI calls a ChainID, and
#	             reads on stdin how many need not be fetched
#	skip         how many need not be fetched
#
# It has no credentials. Where some are due it sends the field `Authorization: Basic cloche`, and the wall puts the real ones in its place, for the hosts that
# they are meant for. Servers are verified by the wall, too.
#
# Every byte that comes is a stranger's. A blob is kept only if it has its digest and its size. A connection that is cut goes on where it was, by Range.
# Lines on stdout tell how far it is, in bytes of all, and how it ends: "cloche:pull", then "cloche:pulled" or "cloche:failed".
import concurrent.futures
import errno
import hashlib
import http.client
import json
import os
import re
import ssl
import sys
import threading
import time
import urllib.parse

JSON_MAX = 4 << 20
LAYERS_MAX = 512
NESTING_MAX = 4
REDIRECTS_MAX = 5
TRIES = 5
STREAMS = 4
QUIET_S = 60
CHUNK = 1 << 18
OCI, DOCKER = "application/vnd.oci.image.", "application/vnd.docker.distribution."
INDEXES = (OCI + "index.v1+json", DOCKER + "manifest.list.v2+json")
MANIFESTS = (OCI + "manifest.v1+json", DOCKER + "manifest.v2+json")
PLACEHOLDER = "Basic cloche"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Failed(Exception):
    """Ends the pull. code: one of the words that src/build/registry/pull_fetch.c knows."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Cut(Exception):
    """The connection, or the server behind it; worth another try."""


wish = json.loads(sys.argv[1])
context = ssl.create_default_context()
lock = threading.Lock()
done = total = 0
told = 0.0


def tell(n):
    """Counts bytes, and says how far it is five times a second at most."""
    global done, told
    with lock:
        done += n
        now = time.monotonic()
        if now - told > 0.2 or n == 0:
            told = now
            print(f"cloche:pull {done} {total}", flush=True)


def authority(url):
    return f"{url.hostname}:{url.port or (443 if url.scheme == 'https' else 80)}"


def open_once(url, headers):
    """One request; the connection is closed by who reads."""
    make = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    more = {"context": context} if url.scheme == "https" else {}
    connection = make(url.hostname, url.port, timeout=QUIET_S, **more)
    target = (url.path or "/") + ("?" + url.query if url.query else "")
    try:
        connection.request("GET", target, headers={"User-Agent": "cloche", "Accept-Encoding": "identity", **headers})
        return connection, connection.getresponse()
    except (OSError, http.client.HTTPException) as e:
        connection.close()
        raise Cut(f"{url.hostname} cannot be reached: {e}") from e


def get(url, headers):
    """Follows redirects. Fields that are meant for one authority do not go to another."""
    for _ in range(REDIRECTS_MAX + 1):
        connection, reply = open_once(url, headers)
        where = reply.getheader("Location")
        if reply.status not in (301, 302, 303, 307, 308) or not where:
            return url, connection, reply
        connection.close()
        to = urllib.parse.urlsplit(urllib.parse.urljoin(url.geturl(), where))
        if to.scheme != "https" and (to.scheme, authority(to)) != (url.scheme, authority(url)):
            raise Failed("refused", f"{url.hostname} leads to '{to.scheme}://{to.hostname}', which is not https")
        if authority(to) != authority(url):
            headers = {k: v for k, v in headers.items() if k != "Authorization"}
        url = to
    raise Failed("refused", f"{url.hostname} redirects more than {REDIRECTS_MAX} times")


def small(connection, reply, what):
    try:
        data = reply.read(JSON_MAX + 1)
    except (OSError, http.client.HTTPException) as e:
        raise Cut(f"{what} was cut off: {e}") from e
    finally:
        connection.close()
    if len(data) > JSON_MAX:
        raise Failed("invalid", f"{what} is over {JSON_MAX >> 20} MiB")
    return data


def parse(data, what):
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Failed("invalid", f"{what} is no JSON object")
    return value


def wall_said(reply, data, shown):
    """What the wall itself answers, which no registry has said. shown: whom it was asked for, as people know it."""
    kind = reply.getheader("X-Cloche-Wall")
    if not kind:
        return
    words = " ".join(data.decode("utf-8", "replace").split())[:300]
    if kind == "denied":
        raise Failed("denied", f"pulls may not reach {shown}")
    raise Failed("untrusted", words) if "certificate" in words or "TLS" in words else Cut(words)


class Place:
    """One registry that may have the image."""

    def __init__(self, row):
        self.url, self.shown, self.signs = urllib.parse.urlsplit(row["url"]), row["shown"], row["signs"]
        self.authorization = None
        self.passed_over = ""  # who gives tokens, and may not have the credentials
        self.is_left = False  # another is asked: streams from here end
        self.lock = threading.Lock()

    def at(self, kind, what):
        path = f"{self.url.path.rstrip('/')}/v2/{wish['name']}/{kind}/{what}"
        return self.url._replace(path=path)

    def refuse(self):
        knows = "the credentials were not taken" if self.signs else "no credentials are known for it"
        if self.passed_over:
            knows = f"{self.passed_over}, which gives its tokens, is not among the hosts that may have the credentials"
        raise Failed("unauthorized", f"{self.shown} does not let it be pulled: {knows}")

    def token(self, words):
        """By a Bearer challenge: a token from its realm."""
        fields = dict(re.findall(r'([a-z]+)="([^"]*)"', words))
        realm = urllib.parse.urlsplit(fields.get("realm", ""))
        if realm.scheme != "https" and (realm.scheme, authority(realm)) != ("http", authority(self.url)):
            raise Failed("refused", f"{self.shown} wants a token of '{fields.get('realm', '')[:200]}', which is not https")
        query = [("service", fields["service"])] if "service" in fields else []
        query += [("scope", fields.get("scope") or f"repository:{wish['name']}:pull")]
        realm = realm._replace(query="&".join(filter(None, (realm.query, urllib.parse.urlencode(query)))))
        signs = self.signs and (authority(realm) == authority(self.url) or authority(realm) in wish["signs"])
        self.passed_over = authority(realm) if self.signs and not signs else ""
        _, connection, reply = get(realm, {"Authorization": PLACEHOLDER} if signs else {})
        data = small(connection, reply, f"the token of {realm.hostname}")
        wall_said(reply, data, realm.hostname)
        if reply.status in (401, 403):
            self.refuse()
        if reply.status != 200:
            raise Cut(f"{realm.hostname} answers {reply.status} instead of a token")
        answer = parse(data, f"the token of {realm.hostname}")
        token = answer.get("token") or answer.get("access_token")
        if not isinstance(token, str) or not re.fullmatch(r"[!-~]+", token):
            raise Failed("invalid", f"the token of {realm.hostname} is no text")
        return "Bearer " + token

    def authorize(self, reply, before):
        """After a 401. Another stream may have done it meanwhile."""
        challenges = ", ".join(reply.headers.get_all("WWW-Authenticate") or [])
        with self.lock:
            if self.authorization != before:
                return
            bearer = re.search(r"\bbearer\s+(.*)", challenges, re.I)
            if bearer:
                self.authorization = self.token(bearer[1])
            elif re.search(r"\bbasic\b", challenges, re.I) and self.signs and before is None:
                self.authorization = PLACEHOLDER
            else:
                self.refuse()

    def ask(self, kind, what, headers):
        for attempt in range(3):
            before = self.authorization
            more = {"Authorization": before} if before else {}
            url, connection, reply = get(self.at(kind, what), {**headers, **more})
            if reply.status in (200, 206, 416):
                return connection, reply
            data = small(connection, reply, "an answer")
            wall_said(reply, data, self.shown if authority(url) == authority(self.url) else url.hostname)
            if reply.status == 401 and attempt < 2 and authority(url) == authority(self.url):
                self.authorize(reply, before)
                continue
            if reply.status in (401, 403):
                self.refuse()
            if reply.status == 404:
                raise Failed("unknown", f"{self.shown} has no {shown(kind, what)}")
            if reply.status == 429 or reply.status >= 500:
                raise Cut(f"{self.shown} answers {reply.status}")
            raise Failed("refused", f"{self.shown} answers {reply.status} to {kind}")
        return self.refuse()


def shown(kind, what):
    return f"image {wish['name']}{'@' if what.startswith('sha256:') else ':'}{what}" if kind == "manifests" else f"blob {what} of {wish['name']}"


def retried(fn):
    """A connection that is cut is made again, with a pause that grows."""
    for attempt in range(TRIES):
        try:
            return fn()
        except Cut as e:
            if attempt == TRIES - 1:
                raise Failed("unreachable", str(e)) from e
            print(f"{e}; once more", flush=True)
            time.sleep(0.2 * 2**attempt)


def blob_path(digest):
    return os.path.join(wish["into"], "blobs", "sha256", digest[7:])


def check_digest(value, what):
    if not isinstance(value, str) or not DIGEST.fullmatch(value):
        raise Failed("invalid", f"{what} has a digest that is not of sha256")
    return value


def manifest(place, what):
    """One manifest or index by tag or digest: what it says, its type and its digest; it is kept as a blob."""
    connection, reply = place.ask("manifests", what, {"Accept": ", ".join(INDEXES + MANIFESTS)})
    kind = (reply.getheader("Content-Type") or "").split(";")[0].strip()
    data = small(connection, reply, f"the manifest {what}")
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    if what.startswith("sha256:") and digest != what:
        raise Failed("digest", f"{place.shown} answers to {what} with something else, whose digest is {digest}")
    value = parse(data, f"the manifest {what}")
    kind = value.get("mediaType") or kind
    if kind not in INDEXES + MANIFESTS:
        raise Failed("invalid", f"{what} is of the type '{str(kind)[:100]}', which is no image")
    with open(blob_path(digest), "wb") as f:
        f.write(data)
    return value, {"mediaType": kind, "digest": digest, "size": len(data)}


def choose(index):
    """The entry of an index that is for this machine."""
    rows = index.get("manifests")
    if not isinstance(rows, list) or len(rows) > 1000:
        raise Failed("invalid", "the index has no list of manifests, or a longer one than 1000")
    seen = []
    for row in rows:
        of = row.get("platform") if isinstance(row, dict) else None
        of = of if isinstance(of, dict) else {}
        seen.append(f"{of.get('os')}/{of.get('architecture')}")
        if of.get("os") == "linux" and of.get("architecture") == wish["arch"]:
            return check_digest(row.get("digest"), "an entry of the index")
    raise Failed("invalid", f"the image is for {', '.join(sorted(set(map(str, seen))))[:200]}, and this machine is linux/{wish['arch']}")


def write_on(path, digest, size, hashed, place):
    """Asks for what is missing of a blob, and appends it."""
    have = os.path.getsize(path)
    connection, reply = place.ask("blobs", digest, {"Range": f"bytes={have}-"} if have else {})
    if have and reply.status != 206:  # this server begins anew each time
        tell(-have)
        os.truncate(path, 0)
        hashed[0], have = hashlib.sha256(), 0
    if reply.status == 416:
        connection.close()
        raise Cut(f"{place.shown} has no such part of {digest}")
    try:
        with open(path, "ab") as f:
            while data := reply.read(CHUNK):
                if place.is_left:
                    raise Failed("unreachable", "another place is asked")
                have += len(data)
                if have > size:
                    raise Failed("digest", f"the blob {digest} is longer than the {size} bytes that its manifest says")
                f.write(data)
                hashed[0].update(data)
                tell(len(data))
    except http.client.HTTPException as e:
        raise Cut(f"{place.shown} cut the blob {digest[:19]} off at {have} of {size} bytes") from e
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise Cut(f"the connection to {place.shown} broke: {e}") from e
    finally:
        connection.close()
    if have < size:
        raise Cut(f"{place.shown} gave {have} of the {size} bytes of the blob {digest[:19]}")


def fetch_blob(place, row):
    digest, size = row["digest"], row["size"]
    if os.path.exists(blob_path(digest)):
        return
    path, hashed = f"{blob_path(digest)}.{id(place)}", [hashlib.sha256()]
    open(path, "wb").close()
    retried(lambda: write_on(path, digest, size, hashed, place))
    if hashed[0].hexdigest() != digest[7:]:
        raise Failed("digest", f"the blob {digest} is damaged: what came has the digest sha256:{hashed[0].hexdigest()}")
    os.rename(path, blob_path(digest))


def blobs_of(image):
    """The config's row and those of the layers."""
    layers = image.get("layers")
    if not isinstance(layers, list) or len(layers) > LAYERS_MAX:
        raise Failed("invalid", f"the manifest has no layers, or more than {LAYERS_MAX}")
    rows = [image.get("config"), *layers]
    for row in rows:
        size = row.get("size") if isinstance(row, dict) else None
        if not isinstance(size, int) or size < 0:
            raise Failed("invalid", "the manifest names a blob without its size")
        check_digest(row.get("digest"), "a blob of the manifest")
    return rows[0], rows[1:]


def ask_what_is_here(place, config, layers):
    """How many of the lowest layers need not be fetched. What the config says of them is checked where they are unpacked."""
    global total
    total = config["size"]
    if total > JSON_MAX:
        raise Failed("invalid", f"the config is over {JSON_MAX >> 20} MiB")
    wish["asks"] = False  # once; of what another place has instead, all is fetched
    fetch_blob(place, config)
    with open(blob_path(config["digest"]), "rb") as f:
        rootfs = parse(f.read(), "the config").get("rootfs")
    ids = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    if not isinstance(ids, list) or len(ids) != len(layers):
        raise Failed("invalid", "the config knows other layers than the manifest")
    chain = None
    for each in ids:
        check_digest(each, "a layer of the config")
        chain = each if chain is None else "sha256:" + hashlib.sha256(f"{chain} {each}".encode()).hexdigest()
        print(f"cloche:chain {chain}")
    print("cloche:chains", flush=True)
    return int(sys.stdin.readline())


def fetch_blobs(place, image):
    global total
    config, layers = blobs_of(image)
    skip = ask_what_is_here(place, config, layers) if wish["asks"] else wish["skip"]
    rows = {row["digest"]: row for row in (config, *layers[skip:])}
    total = sum(row["size"] for row in rows.values())
    if total > wish["bytes"]:
        raise Failed("large", f"the image has {total >> 20} MiB in its layers, and a pull may have {wish['bytes'] >> 20}")
    pool = concurrent.futures.ThreadPoolExecutor(STREAMS)
    for job in concurrent.futures.as_completed([pool.submit(fetch_blob, place, row) for row in rows.values()]):
        if job.exception():  # nobody waits for what runs in the other streams
            place.is_left = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise job.exception()


def pull_from(place):
    global done
    done = 0
    what = wish["digest"] or wish["tag"]
    outermost = None
    for _ in range(NESTING_MAX):
        value, row = retried(lambda what=what: manifest(place, what))
        outermost = outermost or row["digest"]
        if row["mediaType"] in MANIFESTS:
            break
        what = choose(value)
    else:
        raise Failed("invalid", f"indexes are nested deeper than {NESTING_MAX}")
    print(f"Pulling {wish['name']} from {place.shown}: {outermost}", flush=True)
    print(f"cloche:image {outermost}", flush=True)
    fetch_blobs(place, value)
    with open(os.path.join(wish["into"], "index.json"), "w") as f:
        json.dump({"schemaVersion": 2, "manifests": [row]}, f)
    tell(0)
    print(f"cloche:pulled {outermost}", flush=True)


def print_end(e):
    code = e.code if isinstance(e, Failed) else "full" if isinstance(e, OSError) and e.errno in (errno.ENOSPC, errno.EDQUOT) else "broken"
    words = " ".join(str(e).split()) if code != "full" else "the image does not fit on the disk of the sandbox that fetches it"
    print(f"cloche:failed {code} {words[:600]}", flush=True)


def main():
    os.makedirs(os.path.join(wish["into"], "blobs", "sha256"))
    with open(os.path.join(wish["into"], "oci-layout"), "w") as f:
        f.write('{"imageLayoutVersion": "1.0.0"}')
    places = [Place(row) for row in wish["places"]]
    for place in places:
        try:
            return pull_from(place)
        except Failed as e:
            if place is places[-1] or e.code in ("digest", "invalid", "large"):
                raise
            print(f"{place.shown}: {e}; asking the next", flush=True)


try:
    main()
except Exception as e:
    print_end(e)
    os._exit(1)  # streams may wait for a server that says nothing more
