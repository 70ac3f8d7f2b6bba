# Functions for the sandbox of a build, as root: put files that a client has sent where a step wants them, as Docker's COPY does.
# NAME: what the step calls them. SRC: where they are. TARGET: a path, to be taken from here. OWNER: USER:GROUP, or "" to keep it. MODE: for chmod, or "".
own() {
	[ -n "$OWNER" ] || return 0
	# A group of the user's name need not be there.
	chown "$1" "$OWNER" "$SRC" 2>/dev/null || chown "$1" "${OWNER%%:*}" "$SRC"
}

copy_in() {
	case $TARGET in
	/*) ;;
	*) TARGET=$PWD/$TARGET ;;
	esac
	[ -e "$SRC" ] || [ -L "$SRC" ] || {
		echo "E: there is no $NAME in what was sent"
		exit 1
	}
	if [ -d "$SRC" ] && [ ! -L "$SRC" ]; then
		own -R || exit
		[ -z "$MODE" ] || chmod -R "$MODE" "$SRC" || exit
		mkdir -p "$TARGET" || exit
		# GNU tar leaves directories that are there as they are, and writes through no link; where it is not, they take over what the new ones have.
		if tar --version 2>/dev/null | grep -q GNU; then
			tar -C "$SRC" -cf - . | tar -C "$TARGET" -xpf - --keep-directory-symlink --no-overwrite-dir
		else
			for entry in "$SRC"/* "$SRC"/.[!.]* "$SRC"/..?*; do
				[ ! -e "$entry" ] && [ ! -L "$entry" ] || cp -a "$entry" "$TARGET/" || exit
			done
		fi
	else
		own -h || exit
		[ -z "$MODE" ] || [ -L "$SRC" ] || chmod "$MODE" "$SRC" || exit
		case $TARGET in
		*/) mkdir -p "$TARGET" ;;
		*) mkdir -p "$(dirname "$TARGET")" ;;
		esac
		cp -a "$SRC" "$TARGET"
	fi
}
