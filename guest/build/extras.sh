# Runs in a sandbox of the step before, as root: what is not Debian's.
# NPM: lines "NAME VERSION HASH" (SHA-512 in hexadecimal). NPM_REGISTRY, PIP_INDEX: URLs or "". PIP: requirements.
# FILES: lines "PATH BASE64". Arguments: commands.
set -eu
umask 022
export LC_ALL=C.UTF-8

# Without a registry of the operator's, the one that Debian's own npm would ask.
find_registry() {
	[ -z "$NPM_REGISTRY" ] || return 0
	echo "Asking Debian's npm for its registry"
	set -- /var/lib/apt/lists/*Release
	[ -e "$1" ] || apt-get -q update
	(cd "$dir" && apt-get -q download npm && dpkg-deb --fsys-tarfile npm_*.deb | tar -x --wildcards '*/default-opts.js')
	NPM_REGISTRY=$(find "$dir" -name default-opts.js -exec sed -n "s/^ *registry: '\\(https:[^']*\\)'.*/\\1/p" {} + | head -n 1)
	[ -n "$NPM_REGISTRY" ] || {
		echo "E: no npm registry is known; set templates.npm_registry"
		exit 1
	}
}

if [ -n "$NPM" ]; then
	dir=$(mktemp -d)
	find_registry
	echo "$NPM" | while read -r name version hash; do
		echo "Fetching $name $version"
		/usr/lib/apt/apt-helper -o Acquire::Retries=3 download-file "${NPM_REGISTRY%/}/$name/-/${name##*/}-$version.tgz" "$dir/package.tgz" \
			"SHA512:$hash" 2>&1 || {
			echo "E: $name@$version could not be fetched, or is not what the recipe says"
			exit 1
		}
		mkdir -p "/usr/local/lib/node_modules/$name"
		tar -C "/usr/local/lib/node_modules/$name" --strip-components=1 --no-same-owner -xzf "$dir/package.tgz"
	done
	rm -r "$dir"
fi

if [ -n "$PIP" ]; then
	# Files that are compiled bear a hash instead of a time, which the end of this step changes.
	# shellcheck disable=SC2086 # requirements
	SOURCE_DATE_EPOCH=$DATE python3 -m pip install --no-input --no-cache-dir --break-system-packages --root-user-action=ignore \
		--disable-pip-version-check --progress-bar off ${PIP_INDEX:+--index-url "$PIP_INDEX"} $PIP
fi

if [ -n "$FILES" ]; then
	echo "$FILES" | while read -r content path; do
		mkdir -p "$(dirname "$path")"
		echo "$content" | base64 -d >"$path"
	done
fi

for command; do
	echo "+ $command"
	sh -ec "$command" || {
		echo "E: the command failed: $command"
		exit 1
	}
done
