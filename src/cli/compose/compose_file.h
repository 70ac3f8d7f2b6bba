// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A Compose file as cloche understands it: plain JSON, with variables filled in and every short
 * form written out. A field that cloche cannot honour is refused with its file, line and name, and
 * with what to do instead. Only fields without a meaning here (labels, logging) are ignored.
 *
 *	{"name", "services": {NAME: {
 *		"line", "image", "template", "pull",
 *		"build": {"context", "dockerfile", "target", "args"},
 *		"command": [words], "entrypoint": [words],
 *		"environment": {}, "env_files": [{"path", "required"}],
 *		"depends_on": {NAME: CONDITION},	as Compose names them
 *		"healthcheck": {"test": [words] | null,
 *			"interval_ms", "timeout_ms", "retries", "start_period_ms"},
 *		"ports": [numbers], "files": [{"source", "target", "line"}],
 *		"volumes": [{"volume", "path", "read_only"}], "directories": [paths],
 *		"working_dir", "user", "limits": {}, "restart": {"always", "retries"},
 *		"profiles": [], "networks": {NAME: true}}},
 *	 "volumes": {NAME: {}}}
 */
#include "base/err.h"

#include <jansson.h>

#define COMPOSE_SERVICES_MAX 64

struct compose_source {
	const char *name; /* of the file, for errors */
	const char *text;
	size_t len;
	const json_t *variables; /* that its values may use */
};

/* No I/O. On success the caller owns *ret. */
must_check int compose_file_read(const struct compose_source *source, json_t **ret,
                                 struct err *err);
/* Whether all services can meet: a group is one network. */
must_check int compose_check_networks(const char *file, const json_t *services, struct err *err);
/* "1m30s", "500ms", "0": all of the text, in milliseconds. */
bool compose_parse_ms(const char *text, uint64_t *ret);
