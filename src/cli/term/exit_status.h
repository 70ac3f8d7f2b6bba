// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What run, exec, shell, code and repl give is the command's own status, except: */
enum {
	EXIT_TIMEOUT = 124,        /* its time was up */
	EXIT_CLOCHE = 125,         /* cloche failed, not the command; also of all other commands */
	EXIT_NOT_EXECUTABLE = 126, /* it was found and could not be started */
	EXIT_NOT_FOUND = 127,      /* no such program in the sandbox */
	EXIT_SIGNAL = 128,         /* plus the number of the signal that ended it */
};
