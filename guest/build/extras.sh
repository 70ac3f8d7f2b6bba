# Runs in a sandbox of the step before, as root: what is not Debian's.
# NPM: lines "NAME VERSION HASH" (SHA-512 in hexadecimal). NPM_REGISTRY, PIP_INDEX: URLs or "". PIP: requirements.
# NPM_PACKAGES: names, perhaps with versions. FILES: lines "PATH BASE64". Arguments: commands; one that fails may leave its reason in /tmp/.why.
set -euf # a '*' of a version is no pattern
umask 022
export LC_ALL=C.UTF-8

# The host's own certificates, for programs that bring others.
bundle=/etc/ssl/certs/ca-certificates.crt
[ ! -e "$bundle" ] || export PIP_CERT=$bundle NODE_EXTRA_CA_CERTS=$bundle

# Files that are compiled bear a hash instead of a time, which the end of this step changes.
install_by_pip() {
	SOURCE_DATE_EPOCH=$DATE python3 -m pip install --no-input --no-cache-dir --break-system-packages --root-user-action=ignore \
		--disable-pip-version-check --progress-bar off ${PIP_INDEX:+--index-url "$PIP_INDEX"} "$@"
}

# Of what a report of pip's would install, the packages that are here as Debian's: those have no list of files.
of_debian='
import importlib.metadata, json, sys
for package in json.load(open(sys.argv[1]))["install"]:
    name, version = package["metadata"]["name"], package["metadata"]["version"]
    try:
        if importlib.metadata.distribution(name).files is None:
            print(f"{name}=={version}")
    except importlib.metadata.PackageNotFoundError:
        pass
'

# Pip gives up where it would have to remove a package of Debian. A newer one goes beside it, into /usr/local, where Python looks first.
install_beside_debian() {
	report=$(mktemp)
	install_by_pip --quiet --dry-run --report "$report" "$@" >/dev/null 2>&1 || return 1
	newer=$(python3 -c "$of_debian" "$report")
	rm "$report"
	[ -n "$newer" ] || return 1
	echo "Beside what Debian has: $newer"
	# shellcheck disable=SC2086 # requirements
	install_by_pip --ignore-installed --no-deps $newer && install_by_pip "$@"
}

if [ -n "$NPM" ]; then
	dir=$(mktemp -d)
	[ -n "$NPM_REGISTRY" ] || {
		echo "E: no npm registry is known; set templates.npm_registry"
		exit 1
	}
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

if [ -n "$NPM_PACKAGES" ]; then
	command -v npm >/dev/null || {
		echo "E: there is no npm in this template, to install $NPM_PACKAGES"
		exit 1
	}
	dir=$(mktemp -d)
	# shellcheck disable=SC2086 # names
	npm install --global --prefix /usr/local --cache "$dir/cache" --no-audit --no-fund --no-update-notifier --loglevel error \
		${NPM_REGISTRY:+--registry "$NPM_REGISTRY"} $NPM_PACKAGES >"$dir/log" 2>&1 || {
		cat "$dir/log"
		why=$(sed -n -e "s/^npm \(error\|ERR!\) [0-9]* *\('.*' is not in this registry\).*/\2/p" \
			-e 's/^npm \(error\|ERR!\) notarget \(No matching version found for .*\)/\2/p' "$dir/log" | head -n 1)
		echo "E: npm: ${why:-$(grep -v -e ' code ' -e 'complete log' "$dir/log" | sed -n 's/^npm \(error\|ERR!\) //p' | head -n 1)}"
		exit 1
	}
	cat "$dir/log"
	rm -r "$dir"
	# Programs find them from whatever directory they run in, and so do modules.
	[ -e /node_modules ] || ln -s usr/local/lib/node_modules /node_modules
fi

if [ -n "$PIP" ]; then
	python3 -c 'import pip' 2>/dev/null || {
		echo "E: there is no pip in this template, to install $PIP"
		exit 1
	}
	# shellcheck disable=SC2086 # requirements
	install_by_pip $PIP || install_beside_debian $PIP
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
		why=$(cat /tmp/.why 2>/dev/null || :)
		echo "E: the command failed: $command${why:+: $why}"
		exit 1
	}
done
