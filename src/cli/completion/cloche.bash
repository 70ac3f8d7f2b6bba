# SPDX-License-Identifier: Apache-2.0
# bash completion for cloche, which itself tells what may come next. Where it names nothing, files are offered.
_cloche() {
	local word
	COMPREPLY=()
	while IFS=$'\t' read -r word _; do
		COMPREPLY+=("$word")
	done < <("${COMP_WORDS[0]}" completion --words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
	[[ ${COMPREPLY[0]-} != *: ]] || compopt -o nospace 2>/dev/null || :
}
complete -o default -F _cloche cloche
