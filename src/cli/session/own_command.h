// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The command of a template or image itself (ENTRYPOINT and CMD), for who names no other. */
#include "cli/remote/remote.h"

#include <jansson.h>

/* The words of the template that a sandbox is of. */
must_check int own_command_read(struct remote *remote, const char *sandbox, json_t **ret_argv,
                                struct err *err);
