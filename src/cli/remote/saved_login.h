// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The tokens that `cloche login` has got, by the daemon's URL: login.json (mode 0600) in
 * $XDG_CONFIG_HOME/cloche, or ~/.config/cloche. A file that others can read is not used.
 */
#include "base/err.h"

/* For free(); NULL: there is none. */
char *saved_login_find(const char *url);
/* token NULL: forgets it. */
must_check int saved_login_set(const char *url, const char *token, struct err *err);
/* Where it is kept: ~/.config/cloche, for free(). NULL: there is no home. */
char *saved_login_directory(void);
must_check int saved_login_make_directory(const char *dir);
