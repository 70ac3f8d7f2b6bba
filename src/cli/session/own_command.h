// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What a template or image itself says: its command (ENTRYPOINT and CMD), for who names no other,
 * and where commands begin (WORKDIR). */
#include "cli/remote/remote.h"

#include <jansson.h>

/* The words of the template that a sandbox is of. */
must_check int own_command_read(struct remote *remote, const char *sandbox, json_t **ret_argv,
                                struct err *err);
/* Where commands begin in a sandbox, and as whom, by its template; for free(). NULL: in the user's
 * home, where relative paths of files begin, too; as the default user. */
void own_place_read(struct remote *remote, const char *sandbox, char **ret_directory,
                    char **ret_user);
