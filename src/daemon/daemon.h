// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The commands that are the daemon's: wiring, no logic of their own. argv[0] is the command's name;
 * the result is the program's exit code.
 *
 *	launcher (root) --+-- broker (root)     src/broker: namespaces, mounts, cgroups
 *	                  +-- gateway (cloche)  HTTP, store, sandboxes, execs
 */

#include <stdbool.h>

/* `cloche serve`: returns when the daemon has stopped. Options are those of config.h. */
int serve_command(int argc, char **argv);

/* `cloche doctor [--json]`: 0 if the jail engine can run on this host, 1 if not, 2 for bad usage.
 */
int doctor_command(int argc, char **argv);
int doctor_run(bool json);
char *doctor_json(void); /* the same as a text, to be freed; NULL: it could not be made */

#define EXIT_ALREADY_RUNNING 3 /* serve: another daemon holds this run directory */
