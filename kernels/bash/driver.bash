#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The bash driver of PROTOCOL.md: code is evaluated in this very shell, so the shell is the state.
#
# Everything of the driver's is named __cloche_*. Four things are less simple than they look:
#
# - The socket must not reach the code's children, and bash has no close-on-exec for what `exec {fd}` opens. But a
#   descriptor that a compound command redirects is put aside at a free number from 10 up, with close-on-exec, until that
#   command ends. So the whole loop runs with `3<&-`, which never ends, and speaks on the copy put aside.
# - `break`, `continue` and `return` in the code act on the driver's loop, for there is no other. Therefore a call is
#   finished where the next one is fetched, in the loop's condition, and __cloche_again begins the loop anew after its end.
# - Bash counts the lines of evaluated code from the line where `eval` stands, and names the file it stands in. So the loop
#   is the first line of a file of its own, called cell, and sourced without a path: "cell: line 3: foo: command not found".
# - A trapped SIGINT lets bash go on with the next command. The trap arms a DEBUG trap that, with extdebug,
#   makes bash skip each command to come, leave each loop and each function, until the condition is reached.
#
# SIGINT has to go to the process group, as a terminal sends it: bash looks at its traps when the command in the
# foreground has ended. With `set -e` the interrupted command then ends the shell, as it does in a terminal. Traps that
# code sets on EXIT and INT hold until its call ends; after that they are the driver's again.

BASH_ARGV0=bash # $0

declare __cloche_fd                  # the copy put aside
declare __cloche_id=0                # of the call
declare -i __cloche_busy=0           # 0 between calls, 1 in one, 2 in one that was interrupted
declare -i __cloche_count=0 __cloche_length=0
declare -a __cloche_lent=()          # of the call's variables: name, value, "=" and the value before or nothing
declare __cloche_code='' __cloche_flags='' __cloche_verb='' __cloche_rest='' __cloche_text='' __cloche_prefix=''
declare -r __cloche_bash=$BASH __cloche_debug=DEBUG __cloche_cell=cell
declare __cloche_dir=${BASH_SOURCE[0]%/*} __cloche_cwd='' __cloche_oldcwd=''
declare -ri __cloche_max=16777216    # bytes of a payload

# Written so that it runs in the level of the code: a function would keep its DEBUG trap to itself. The DEBUG trap's status
# is what counts: with 1 bash skips the command, with 2 it leaves the function. `break 0` gives 1 after it
# marked every loop of this level as left, and 0 where there is no loop.
# shellcheck disable=SC2016
declare -r __cloche_on_int='if ((__cloche_busy)); then
	__cloche_busy=2 __cloche_flags=$-
	builtin set -T
	builtin shopt -s extdebug
	builtin trap "[[ \$BASH_COMMAND == *__cloche_* ]] || { break 0 2>/dev/null && __cloche_return 2; }" DEBUG
fi'
# shellcheck disable=SC2016
declare -r __cloche_on_exit='__cloche_exit $?' __cloche_again='
	__cloche_cwd=$PWD __cloche_oldcwd=${OLDPWD-}
	builtin cd -- "$__cloche_dir" && builtin source "$__cloche_cell"
	eval "$__cloche_again"'

__cloche_return() { return "$1"; }

# In one write, so that whoever reads it wakes up once: bash's output goes out at the end of each line that printf makes,
# but of what echo is given, at the end of its last line. JSON may end in an empty one. With xpg_echo it has another meaning.
__cloche_send() { # VERB ID PAYLOAD, which is ASCII
	if builtin shopt -q xpg_echo; then
		builtin printf '%s %s %s\n%s' "$1" "$2" "${#3}" "$3" >&"$__cloche_fd"
	else
		builtin echo -n "$1 $2 $((${#3} + 1))"$'\n'"$3"$'\n' >&"$__cloche_fd"
	fi
}

__cloche_json() { # TEXT → __cloche_text, a JSON string; what is not ASCII becomes a question mark
	local LC_ALL=C s=$1
	s=${s//\\/\\\\}
	s=${s//\"/\\\"}
	s=${s//$'\n'/\\n}
	s=${s//$'\t'/\\t}
	__cloche_text="\"${s//[^[:print:]]/?}\""
}

__cloche_error() { # NAME MESSAGE
	__cloche_json "$2"
	__cloche_send error "$__cloche_id" "{\"name\":\"$1\",\"message\":$__cloche_text,\"traceback\":[$__cloche_text]}"
}

__cloche_done() { # STATUS EXIT_CODE
	__cloche_busy=0
	__cloche_send 'done' "$__cloche_id" "{\"status\":\"$1\",\"count\":$__cloche_count,\"exit_code\":$2}"
}

# Says what bash finds wrong in the code's grammar; false if nothing.
__cloche_syntax() {
	local extglob=+O
	builtin shopt -q extglob && extglob=-O
	! __cloche_text=$("$__cloche_bash" "$extglob" extglob -n 2>&1 <<<"${__cloche_code#"$__cloche_prefix"}") && [[ $__cloche_text ]]
}

__cloche_finish() { # EXIT_CODE
	if ((__cloche_busy == 2)); then # here each command has to have a name of the driver's in it
		builtin trap - "$__cloche_debug"
		builtin shopt -u extdebug
		[[ $__cloche_flags == *T* ]] && builtin set -T
		[[ $__cloche_flags == *E* ]] && builtin set -E
		__cloche_error Interrupt 'the call was interrupted'
		__cloche_done error 130
	elif (($1 == 1 || $1 == 2)) && __cloche_syntax; then # what bash gives for it
		__cloche_error SyntaxError "$__cloche_text"
		__cloche_done error "$1"
	else
		__cloche_done ok "$1"
	fi
}

__cloche_exit() { # EXIT_CODE
	((__cloche_busy)) && [[ $BASHPID == "$$" ]] && __cloche_done exit "$1"
}

# Reads a message's line. Bytes count, here and in payloads, so the locale is C meanwhile.
__cloche_read_line() {
	local LC_ALL=C
	IFS=' ' builtin read -r -n 64 -u "$__cloche_fd" __cloche_verb __cloche_id __cloche_rest || builtin exit 0
	[[ $__cloche_id =~ ^[0-9]{1,18}$ && $__cloche_rest =~ ^[0-9]{1,8}$ ]] || builtin exit 70
	__cloche_length=$((10#$__cloche_rest))
	((__cloche_length <= __cloche_max)) || builtin exit 70
}

# Reads code, which has no NUL byte: bash would pass over it and wait for one byte more.
__cloche_read_code() {
	local LC_ALL=C
	__cloche_code=''
	((__cloche_length == 0)) ||
		IFS='' builtin read -r -N "$__cloche_length" -u "$__cloche_fd" __cloche_code || builtin exit 0
}

# Seeds RANDOM; SRANDOM is the kernel's. Any byte may come, so it reads from NUL to NUL.
__cloche_renew() {
	local LC_ALL=C piece byte i
	local -i seed=${SRANDOM:-$$}
	while ((__cloche_length > 0)); do
		IFS='' builtin read -r -d '' -n "$__cloche_length" -u "$__cloche_fd" piece || builtin exit 0
		((__cloche_length -= ${#piece} < __cloche_length ? ${#piece} + 1 : ${#piece}))
		for ((i = 0; i < ${#piece}; i++)); do
			builtin printf -v byte %d "'${piece:i:1}"
			seed=$(((seed * 257 + byte) & 0x7fffffff))
		done
	done
	RANDOM=$seed
	__cloche_answer
}

__cloche_answer() {
	__cloche_send 'done' "$__cloche_id" "{\"status\":\"ok\",\"count\":$__cloche_count,\"env\":true}"
}

# Variables of the next call: each is set, and what it was is kept to be put back behind that call. A name that the code
# has made read-only is left alone.
__cloche_take_env() {
	local __cloche_line
	__cloche_read_code
	while IFS='' builtin read -r __cloche_line; do
		[[ $__cloche_line =~ ^([A-Z_]+)=(.*)$ ]] || continue
		__cloche_lent+=("${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}")
		if [[ -v ${BASH_REMATCH[1]} ]]; then __cloche_lent+=("=${!BASH_REMATCH[1]}"); else __cloche_lent+=(''); fi
		# shellcheck disable=SC2163 # the line is NAME=VALUE
		builtin export "$__cloche_line" 2>/dev/null
	done <<<"$__cloche_code"
}

__cloche_take_back_env() {
	local -i i
	local name
	for ((i = 0; i < ${#__cloche_lent[@]}; i += 3)); do
		name=${__cloche_lent[i]}
		[[ ${!name-} == "${__cloche_lent[i + 1]}" ]] || continue # the code has set it
		if [[ ${__cloche_lent[i + 2]} ]]; then
			builtin export "$name${__cloche_lent[i + 2]}" 2>/dev/null
		else
			builtin unset "$name" 2>/dev/null
		fi
	done
	__cloche_lent=()
}

# Sourcing the loop by its bare name needed another directory.
__cloche_return_to_cwd() {
	builtin cd -- "$__cloche_cwd" && OLDPWD=$__cloche_oldcwd
	__cloche_cwd=''
}

# The loop's condition: finishes the call that was evaluated, fetches the next one.
__cloche_turn() { # EXIT_CODE
	((__cloche_busy)) && __cloche_finish "$1"
	((${#__cloche_lent[@]})) && __cloche_take_back_env
	[[ $__cloche_cwd ]] && __cloche_return_to_cwd
	__cloche_prefix="__cloche_return $1; "
	while :; do
		__cloche_read_line
		case $__cloche_verb in
		run) break ;;
		env) __cloche_take_env ;;
		renew) __cloche_renew ;;
		sync) __cloche_answer ;;
		*) builtin exit 70 ;;
		esac
	done
	__cloche_read_code
	__cloche_busy=1 __cloche_count+=1
	# shellcheck disable=SC2064 # the text is meant to be taken now
	builtin trap "$__cloche_on_int" INT
	# shellcheck disable=SC2064
	builtin trap "$__cloche_on_exit" EXIT
	[[ $- == *e* ]] && __cloche_prefix=''
	[[ $- == *x* ]] && builtin set +x && __cloche_prefix='builtin set -x; '
	__cloche_code=$__cloche_prefix$__cloche_code
}

readonly -f __cloche_return __cloche_send __cloche_json __cloche_error __cloche_done __cloche_syntax __cloche_finish \
	__cloche_exit __cloche_read_line __cloche_read_code __cloche_renew __cloche_answer __cloche_take_env __cloche_take_back_env __cloche_return_to_cwd __cloche_turn

[[ $__cloche_dir == /* ]] || __cloche_dir=$PWD/$__cloche_dir
readonly __cloche_dir
# shellcheck disable=SC2064
trap "$__cloche_on_int" INT
exec {__cloche_fd}</dev/null {__cloche_fd}<&- # the number that the redirection below will put its copy at
{
	readonly __cloche_fd
	__cloche_send ready 0 "{\"language\":\"bash\",\"version\":\"$BASH_VERSION\",\"pid\":$$,\"env\":true}"
	eval "$__cloche_again"
} 3<&-
