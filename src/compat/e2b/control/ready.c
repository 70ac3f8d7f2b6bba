// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/control/ready.h"

#include "base/buf.h"

/* Those that listen, a line each, as `ss -Htuln` tells them; "sport = :8080" chooses a port. 0A is
 * a TCP socket that listens, 07 a UDP socket that is connected to nobody. */
static const char ss[] = "command -v ss >/dev/null || ss() {\n"
			 "	wanted=\n"
			 "	for word; do case $word in :*) wanted=${word#:} ;; esac; done\n"
			 "	for kind in tcp tcp6 udp udp6; do\n"
			 "		[ -r /proc/net/$kind ] || continue\n"
			 "		while read -r _ at _ state _; do\n"
			 "			case $kind$state in tcp0A | tcp60A | udp07 | "
			 "udp607) ;; *) continue ;; esac\n"
			 "			port=$((0x${at##*:}))\n"
			 "			[ \"${wanted:-$port}\" = $port ] || continue\n"
			 "			echo \"${kind%6} LISTEN 0 0 *:$port *:*\"\n"
			 "		done </proc/net/$kind\n"
			 "	done\n"
			 "}\n";

/* By its name, as it is in the kernel: 15 bytes of it. */
static const char pgrep[] =
	"command -v pgrep >/dev/null || pgrep() {\n"
	"	for word; do :; done\n"
	"	found=1\n"
	"	for at in /proc/[0-9]*; do\n"
	"		{ read -r name <$at/comm; } 2>/dev/null || continue\n"
	"		case $name in *\"$word\"*) echo ${at#/proc/}; found=0 ;; esac\n"
	"	done\n"
	"	return $found\n"
	"}\n";

void ready_put(struct buf *out, const char *ready)
{
	(void)!buf_printf(out, "%s%s%s", ss, pgrep, ready);
}
