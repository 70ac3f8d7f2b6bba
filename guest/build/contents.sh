# Runs on the host's programs: tells a hash of what each COPY of a Dockerfile takes from its context. It comes behind place.sh.
# FROM: the context. Arguments: the number of a COPY and a pattern; a COPY may have several.
list_match() {
	find "$1" -printf '%p\t%y\t%m\t%l\n' | sort
	find "$1" -type f -print0 | sort -z | xargs -0 -r sha256sum
}

while [ $# -gt 0 ]; do
	number=$1 list=$(mktemp)
	while [ $# -gt 0 ] && [ "$1" = "$number" ]; do
		(each_match list_match "$2") >>"$list" || {
			tail -n 1 "$list"
			exit 1
		}
		shift 2
	done
	printf 'cloche:content\t%s\t%s\n' "$number" "$(sha256sum <"$list" | cut -d ' ' -f 1)"
	rm "$list"
done
