# Runs in a sandbox on `host`: what the archive is at this moment, as one hash and one date.
# SOURCES: a line "OPTIONS URI SUITE COMPONENT…" for each; OPTIONS is apt's [..] without blanks.
set -eu
dir=$(mktemp -d)
n=0
while read -r _ uri suite _; do
	n=$((n + 1))
	get="/usr/lib/apt/apt-helper -o Acquire::Retries=2 -o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15 download-file"
	$get "${uri%/}/dists/$suite/InRelease" "$dir/$n" >"$dir/log" 2>&1 || $get "${uri%/}/dists/$suite/Release" "$dir/$n" >"$dir/log" 2>&1 || {
		cat "$dir/log"
		echo "E: no release file of $suite at $uri"
		exit 1
	}
done <<END
$SOURCES
END
rm -f "$dir/log"
newest=0
for date in $(sed -n 's/^Date: //p' "$dir"/* | while read -r text; do date -d "$text" +%s; done); do
	[ "$date" -le "$newest" ] || newest=$date
done
echo "cloche:state $(cat "$dir"/* | sha256sum | cut -c 1-64)"
echo "cloche:date $newest"
