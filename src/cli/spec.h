// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What a new sandbox and a new exec shall be, from options to the API's JSON. */
#include "base/json.h"
#include "cli/opts.h"

struct sandbox_opts {
	const char *name, *template, *engine, *min_grade;
	struct opt_list tags, env;
	double vcpus;
	uint64_t memory_mib, disk_mib, pids;
};

/* Rows of a command's table; s is a struct sandbox_opts. */
/* clang-format off */
#define SANDBOX_OPT_ROWS(s)                                                                                                     \
	{0,   "name",      OPT_TEXT,    &(s).name,       "NAME",  "call it so; names are unique among living sandboxes"},       \
	{0,   "template",  OPT_TEXT,    &(s).template,   "NAME",  "what it starts from (default host: this machine's programs)"}, \
	{0,   "cpus",      OPT_DECIMAL, &(s).vcpus,      "N",     "its share of CPUs, such as 0.5 or 2"},                       \
	{'m', "memory",    OPT_MIB,     &(s).memory_mib, "SIZE",  "its memory, such as 512m or 2g"},                            \
	{0,   "disk",      OPT_MIB,     &(s).disk_mib,   "SIZE",  "what it may write to disk"},                                 \
	{0,   "pids",      OPT_NUMBER,  &(s).pids,       "N",     "processes at once"},                                         \
	{0,   "tag",       OPT_LIST,    &(s).tags,       "K=V",   "a tag to find it by; may be repeated"},                      \
	{'e', "env",       OPT_LIST,    &(s).env,        "K=V",   "environment; a bare K takes yours; may be repeated"},        \
	{0,   "engine",    OPT_TEXT,    &(s).engine,     "NAME",  "auto or jail"},                                              \
	{0,   "min-grade", OPT_TEXT,    &(s).min_grade,  "GRADE", "refuse weaker isolation: process, emulated or hardware"}
/* clang-format on */

void sandbox_opts_done(struct sandbox_opts *s);
bool sandbox_opts_are_given(const struct sandbox_opts *s); /* any of them */
/* The body of POST /v1/sandboxes; the caller owns *ret. */
must_check int sandbox_opts_to_json(const struct sandbox_opts *s, uint64_t timeout_ms, json_t **ret,
                                    struct err *err);

/* "K=V", or "K" for the caller's own value (left out where there is none). */
must_check int env_to_json(const struct opt_list *env, json_t **ret, struct err *err);
/* How lists are filtered by a tag: the API writes NAME:VALUE what is NAME=VALUE here. For free().
 */
char *tag_to_query(const char *tag);
/* All of argv as an array; each word must be UTF-8, as JSON is. */
must_check int argv_to_json(char *const *argv, size_t n, json_t **ret, struct err *err);
