# Runs in a sandbox on `host`, behind archive.sh: where npm and pip have their packages from when nobody tells them otherwise.
# That is asked of the programs themselves, the host's own or else Debian's, so no template has a say in it.
# WANTED: npm, pip, or both.
: "${work:?}"

# Fetches a package of Debian's and unpacks it to $work/NAME.
fetch() {
	[ -n "$(find "$work/lists" -maxdepth 1 -name '*Packages*')" ] || apt-get -q update
	mkdir -p "$work/$1"
	(cd "$work/$1" && apt-get -q download "$1" && dpkg-deb -x "$1"_*.deb .)
}

find_npm() { # DIRECTORY…
	find "$@" -path '*npm-registry-fetch/lib/default-opts.js' -exec sed -n "s,^ *registry: '\\(https://[^']*\\)'.*,\\1,p" {} + 2>/dev/null | head -n 1
}

# The definition is one line, or one for each of its words.
find_pip() { # PATTERN FILE
	sed -n "/^PyPI *= PackageIndex(/,/)/s,.*$1.*,\\1,p" "$2" | head -n 1
}

# What is not known is left to the program itself.
tell() { # KIND URL
	[ -n "$2" ] || return 0
	echo "The registry of $1 is $2"
	printf 'cloche:registry\t%s\t%s\n' "$1" "$2"
}

for kind in $WANTED; do
	case $kind in
	npm)
		url=$(find_npm /usr/share/nodejs /usr/lib/node_modules || :)
		[ -n "$url" ] || { fetch npm && url=$(find_npm "$work/npm"); } || :
		tell npm "$url"
		;;
	pip)
		file=/usr/lib/python3/dist-packages/pip/_internal/models/index.py
		[ -e "$file" ] || { fetch python3-pip && file=$work/python3-pip$file; } || :
		url=$(find_pip '"\(https://[^"]*\)"' "$file" || :)
		tell pip "${url:+${url%/}/simple}"
		tell pip-files "$(find_pip 'file_storage_domain="\([^"]*\)"' "$file" || :)"
		;;
	esac
done
