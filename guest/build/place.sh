# Functions for the sandbox of a Dockerfile's part, as root: COPY, ADD and WORKDIR. They come behind copy.sh, whose variables they set.
# FROM: a directory. UNPACK: 1 for ADD. RENAME: a name for a file, or "".
umask 022

# Makes a directory; those that are new belong to USER[:GROUP].
make_dirs() {
	[ ! -d "$1" ] || return 0
	new=$1
	while [ ! -d "$(dirname "$new")" ]; do new=$(dirname "$new"); done
	mkdir -p "$1" || exit
	case $2 in
	"" | root | 0 | 0:0) ;;
	*:*) chown -R "$2" "$new" || exit ;;
	*[!0-9]*) chown -R "$2:" "$new" || exit ;;
	*) chown -R "$2:$2" "$new" || exit ;;
	esac
}

# Calls a function with each path that matches a pattern in FROM. A '*' or '?' matches a '.' at a name's beginning, too.
each_match() {
	pattern=$2 last=${2##*/} found='' old=$-
	case $pattern in
	*/*) hidden=${pattern%/*}/ ;;
	*) hidden='' ;;
	esac
	case $last in
	'*'*) hidden=$hidden.$last ;;
	'?'*) hidden=$hidden.${last#?} ;;
	*) hidden='' ;;
	esac
	IFS=''
	set +f
	for match in "$FROM"/$pattern ${hidden:+"$FROM"/$hidden}; do
		case $match in
		*/.. | */. ) [ "$pattern" = . ] || continue ;;
		esac
		[ -e "$match" ] || [ -L "$match" ] || continue
		found=1
		unset IFS
		"$1" "$match"
		IFS=''
	done
	unset IFS
	case $old in
	*f*) set -f ;;
	esac
	[ -n "$found" ] || {
		echo "E: nothing matches '$pattern'"
		exit 1
	}
}

# The file that a link stands for, if that is in FROM too.
follow_link() {
	[ -L "$1" ] || {
		echo "$1"
		return
	}
	real=$(readlink -f "$1")
	case $real in
	"$(readlink -f "$FROM")"/*) echo "$real" ;;
	*)
		echo "E: '${1#"$FROM"/}' is a link that leads out of what can be copied" >&2
		return 1
		;;
	esac
}

# Not every tar knows a compressed archive by itself.
unpack() {
	[ -n "$UNPACK" ] && [ -f "$1" ] || return 1
	for reader in cat 'gzip -dc' 'bzip2 -dc' 'xz -dc'; do
		[ -n "$($reader <"$1" 2>/dev/null | tar -tf - 2>/dev/null | head -n 1)" ] || continue
		make_dirs "${TARGET%/}/" "$OWNER"
		$reader <"$1" | tar -C "$TARGET" -xpf - || exit
		return 0
	done
	return 1
}

put_match() {
	name=${RENAME:-$(basename "$1")}
	match=$(follow_link "$1") || exit
	wanted=$TARGET
	if unpack "$match"; then
		return
	fi
	# What is copied gets its owner and mode in a place of its own: the next COPY may want the same files with others.
	staging=/opt/cloche/build/staging
	rm -rf "$staging" && mkdir -p "$staging" || exit
	if [ -d "$match" ]; then
		mkdir "$staging/tree" && cp -a "$match/." "$staging/tree/" || exit
		SRC=$staging/tree
		make_dirs "${TARGET%/}/" "$OWNER"
	else
		cp -a "$match" "$staging/$name" || exit
		SRC=$staging/$name
		case $TARGET in
		*/) make_dirs "${TARGET%/}/" "$OWNER" ;;
		*) make_dirs "$(dirname "$TARGET")" "$OWNER" ;;
		esac
	fi
	NAME=$1
	copy_in || exit
	TARGET=$wanted
	rm -rf "$staging"
}

place() {
	each_match put_match "$1"
}
