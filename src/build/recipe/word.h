// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Checks words of a recipe that become arguments of apt-get, pip, curl or a shell's test: none of
 * these can take them for an option, a pattern or a path elsewhere.
 */
#include <stdbool.h>

bool word_is_name(const char *s);        /* of a template: a-z 0-9 . - */
bool word_is_suite(const char *s);       /* of Debian: "trixie" */
bool word_is_from(const char *s);        /* "debian:trixie", or a template's name */
bool word_is_package(const char *s);     /* "git", "git=1:2.47.3-0+deb13u1" */
bool word_is_requirement(const char *s); /* pip's: "numpy==2.3.4", "pandas[excel]>=2" */
bool word_is_npm(const char *s);         /* "npm@11.6.2", "@scope/name@1.0.0" */
bool word_is_npm_wish(const char *s); /* any version of it: "zod", "zod@^3", "@scope/name@latest" */
bool word_is_integrity(const char *s); /* "sha512-…" in base64 */
bool word_is_path(const char *s);      /* absolute, canonical, in a place that a template keeps */
bool word_is_variable(const char *s);  /* of the environment */
bool word_is_user(const char *s);
bool word_is_module(const char *s); /* of Python: "numpy", "matplotlib.pyplot" */
bool word_is_text(const char *s);   /* not empty */
bool word_is_any(const char *s);
