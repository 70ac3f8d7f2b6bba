// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Calls that have a safer twin. Every file is compiled with -include base/banned.h, so a use is an
 * error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef sprintf /* macros where clang fortifies */
#undef vsprintf
#pragma GCC poison strcpy strcat strncpy strncat sprintf vsprintf strtok strtok_r gets atoi atol   \
	atoll
#pragma GCC poison system popen tmpnam mktemp
