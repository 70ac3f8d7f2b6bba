# Functions for the sandbox of a Dockerfile's part, as root: what RUN --mount wants, as directories that are there while it runs.
# They come behind place.sh. TARGET: where. MODE: for chmod, or "".
aside=/opt/cloche/build/aside

put_aside() {
	mkdir -p "$aside" || exit
	rm -rf "${aside:?}/$1"
	if [ -e "$TARGET" ]; then
		cp -a "$TARGET" "$aside/$1" && rm -rf "$TARGET" || exit
	fi
	make_dirs "$(dirname "$TARGET")" 0
}

empty_mount() {
	mkdir -p "$TARGET" && chown "$1:$2" "$TARGET" && chmod "${MODE:-755}" "$TARGET" || exit
}

# A directory of the volume that CACHES names, by its key, or an empty one if there is no volume. IS_FULL: all that is in the volume goes first.
cache_mount() {
	if [ -z "${CACHES:-}" ]; then
		empty_mount "$2" "$3"
		return
	fi
	[ -z "$IS_FULL" ] || rm -rf "$CACHES"/[0-9a-f]*
	IS_FULL=
	if ! [ -d "$CACHES/$1" ]; then
		mkdir "$CACHES/$1" && chown "$2:$3" "$CACHES/$1" && chmod "${MODE:-755}" "$CACHES/$1" || exit
	fi
	ln -s "$CACHES/$1" "$TARGET" || exit
}

bind_match() {
	match=$(follow_link "$1") || exit
	cp -a "$match" "$TARGET"
}

bind_mount() {
	each_match bind_match "$1"
}

# With a second word the place stays, as an empty directory.
put_back() {
	rm -rf "$TARGET"
	if [ -e "$aside/$1" ]; then
		cp -a "$aside/$1" "$TARGET"
		rm -rf "${aside:?}/$1"
	elif [ -n "$2" ]; then
		mkdir -p "$TARGET"
	fi
}
