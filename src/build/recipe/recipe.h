// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A recipe: what a template is made of, as a small TOML text (base/text/toml.h).
 *
 *	name = "python"                       what it is called
 *	summary = "Python 3.13 with pip"
 *	from = "debian:trixie"                a suite, or another template by its name
 *	kernel = ["linux-image-cloud"]        and nothing else: the kernel of vms
 *	packages = ["python3", "git"]         Debian's, each with "=VERSION" if it must be that one
 *	pip = ["numpy==2.3.4"]
 *	npm_packages = ["zod@^3"]             with what they need, by the template's own npm
 *	run = ["ln -s python3 /usr/bin/py"]   shell, as root, last
 *	checks = ["python3 -c 'import ssl'"]  shell, as the user, in a sandbox of what came out
 *	user, cwd, entrypoint, warm_modules   what sandboxes of it start with
 *	[env]           NAME = "value"
 *	[files]         "/etc/motd" = "text\n"
 *	[npm]           "npm@11.6.2" = "sha512-…"     unpacked to /usr/local/lib/node_modules/NAME
 *	[npm-amd64], [npm-arm64]                      the same on that architecture only
 *
 * A parsed recipe is a JSON object with the same names (sections are objects), so that it can be
 * stored, hashed and shown as it is. A client that may build may run anything in the build's
 * sandboxes; the reader's rules only make sure that no word is taken for an option, and that errors
 * name the line.
 */
#include "base/json/json.h"

#define RECIPE_BYTES_MAX 65536

/* A whole recipe or an error with file, line and field. On success the caller owns *ret. */
must_check int recipe_parse(const char *name, const char *text, size_t len, json_t **ret,
                            struct err *err);
/* "trixie" of "debian:trixie", or NULL if it starts from another template. Borrowed. */
const char *recipe_suite(const json_t *recipe);
/* The entries of [npm] and of the architecture's own section; the caller owns it. */
json_t *recipe_npm(const json_t *recipe, const char *arch);

/* A recipe that comes with cloche, or NULL. */
const char *recipe_shipped(const char *name);
bool recipe_is_shipped(const json_t *recipe); /* word for word */
const char *recipe_shipped_name(size_t i);    /* NULL behind the last */
