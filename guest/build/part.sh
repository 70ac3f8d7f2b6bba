# Runs in the sandbox of a Dockerfile's part, as root. FILES: lines "BASE64 PATH". Arguments: a title and a script for each instruction.
set -u
umask 022

echo "$FILES" | while read -r content path; do
	mkdir -p "$(dirname "$path")"
	echo "$content" | base64 -d >"$path"
done
unset FILES
mkdir -p "$ROOT/"

while [ $# -gt 0 ]; do
	echo "+ $1"
	sh "$2" || {
		status=$?
		echo "E: $1: exit status $status"
		exit 1
	}
	shift 2
done
[ "$IS_LAST" = 1 ] && [ -z "$ROOT" ] || exit 0
