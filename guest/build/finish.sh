# Runs behind a step's script, in the same shell: takes away what a build leaves and a template does not need, then tells
# what there is. IS_LAST: 1 for the template itself. WARM: Python modules that interpreters start with.
if [ "$IS_LAST" = 1 ]; then
	rm -rf /var/lib/cloche /usr/sbin/policy-rc.d
	if [ -n "$WARM" ]; then # else those of the template that it starts from stay
		mkdir -p /etc/cloche
		for module in $WARM; do
			echo "$module"
		done >/etc/cloche/warm
	fi
fi
# Caches, lists, logs and temporary files are left out by the seal itself.
rm -rf /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /root/.cache /root/.npm

[ "$IS_LAST" = 1 ] || exit 0
licence() {
	sed -n 's/^License: *//p' "/usr/share/doc/$1/copyright" 2>/dev/null | sort -u | head -n 8 | tr '\n\t' ',,' | sed 's/,$//; s/,/, /g'
}
if command -v dpkg-query >/dev/null; then
	dpkg-query -W -f '${Package}\t${Version}\n' | while read -r name version; do
		printf 'cloche:package\tdeb\t%s\t%s\t%s\n' "$name" "$version" "$(licence "$name")"
	done
fi
for file in /usr/local/lib/node_modules/*/package.json /usr/local/lib/node_modules/@*/*/package.json /usr/local/lib/node/package.json; do
	[ -f "$file" ] || continue
	field() { sed -n "s/^  \"$1\": *\"\\([^\"]*\\)\".*/\\1/p" "$file" | head -n 1; }
	printf 'cloche:package\tnpm\t%s\t%s\t%s\n' "$(field name)" "$(field version)" "$(field license)"
done
if command -v python3 >/dev/null; then
	[ -z "$PIP" ] || python3 - <<'END'
import glob, importlib.metadata as m
for d in m.distributions(path=glob.glob("/usr/local/lib/python3*/dist-packages")):
    licence = d.metadata.get("License-Expression") or d.metadata.get("License") or ""
    print("cloche:package", "pip", d.name, d.version, licence.split("\n")[0][:80], sep="\t")
END
	printf 'cloche:language\tpython\t%s\n' "$(python3 -c 'import platform; print(platform.python_version())')"
fi
if command -v node >/dev/null; then
	printf 'cloche:language\tjavascript\t%s\n' "$(node --version | tr -d v)"
fi
if command -v Rscript >/dev/null; then
	printf 'cloche:language\tr\t%s\n' "$(Rscript -e 'cat(R.version$major, R.version$minor, sep = ".")')"
fi
if command -v jshell >/dev/null; then # a JRE does not do
	printf 'cloche:language\tjava\t%s\n' "$(java -version 2>&1 | sed -n 's/.*version "\([^"]*\)".*/\1/p')"
fi
printf 'cloche:language\tbash\t%s\n' "${BASH_VERSION:-$(bash -c 'echo $BASH_VERSION')}"
