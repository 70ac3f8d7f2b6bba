# A function for the sandbox of a Dockerfile's part, as root: ADD of a URL. It comes behind place.sh. FETCHED: a directory of this step's own.
has() { type "$1" >/dev/null 2>&1; }

# With what the base has. Each verifies the server by the base's own certificates.
get() {
	if has curl; then
		curl -fsSL --retry 3 --proto '=http,https' -o "$2" "$1"
	elif has wget && wget --version 2>&1 | grep -q GNU; then
		wget -q -O "$2" "$1"
	elif has python3; then
		python3 -c 'import shutil, sys, urllib.request
with urllib.request.urlopen(sys.argv[1]) as reply, open(sys.argv[2], "wb") as file:
    shutil.copyfileobj(reply, file)' "$1" "$2"
	elif has wget && { [ -n "$3" ] || [ "${1#https:}" = "$1" ]; }; then # busybox's own does not verify
		wget -q -O "$2" "$1"
	elif has wget; then
		echo "E: the base's wget does not verify servers: say --checksum=sha256:…"
		return 1
	else
		echo "E: the base has no curl, wget or python3, one of which fetches '$1'"
		return 1
	fi
}

# URL, the file's name, and "" or its SHA-256.
fetch() {
	rm -rf "$FETCHED" && mkdir -p "$FETCHED" || exit
	get "$1" "$FETCHED/$2" "$3" || {
		echo "E: '$1' cannot be fetched"
		exit 1
	}
	chmod 600 "$FETCHED/$2" || exit
	[ -n "$3" ] || return 0
	if has sha256sum; then
		came=$(sha256sum <"$FETCHED/$2")
	else
		came=$(openssl dgst -sha256 -r <"$FETCHED/$2")
	fi
	[ "${came%%[ *]*}" = "$3" ] || {
		echo "E: '$1' has another checksum: sha256:${came%%[ *]*}"
		exit 1
	}
}
