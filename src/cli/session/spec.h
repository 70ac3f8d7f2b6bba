// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What a new sandbox and a new exec shall be, from options to the API's JSON. */
#include "base/json/json.h"
#include "cli/term/opts.h"
#include "engine/limits.h"

/* What the table of limits has for the command line, in the units of the API. 0: not asked for. */
/* clang-format off */
#define LIMIT_TYPE_CPUS    double
#define LIMIT_TYPE_SIZE    uint64_t
#define LIMIT_TYPE_COUNT   uint64_t
#define LIMIT_TYPE_COUNT64 uint64_t
#define LIMIT_MEMBER(a, member, name, kind, ...) LIMIT_TYPE_##kind name;
/* clang-format on */

struct limit_opts {
	GUEST_LIMITS(LIMIT_MEMBER, )
};

struct sandbox_opts {
	const char *name, *group, *alias, *template, *image, *pull, *snapshot, *engine, *min_grade;
	struct opt_list tags, env, allow, packages, volumes, results;
	const char *language; /* that bare names of packages are of; or NULL */
	const char *network;  /* deny-all, allow-all, or a file with a policy */
	struct limit_opts limits;
	uint64_t wait_ms; /* for room */
};

struct life_opts { /* of one that stays */
	uint64_t timeout_ms, idle_timeout_ms;
	const char *on_timeout, *on_idle, *on_node_loss;
	bool is_persistent, auto_resumes, counts_paused, is_get;
};

/* Rows of a command's table; s is a struct sandbox_opts. */
/* clang-format off */
#define LIMIT_OPT_CPUS      OPT_DECIMAL
#define LIMIT_OPT_SIZE      OPT_MIB
#define LIMIT_OPT_COUNT     OPT_NUMBER
#define LIMIT_OPT_COUNT64   OPT_NUMBER
#define LIMIT_VALUE_CPUS    "N"
#define LIMIT_VALUE_SIZE    "SIZE"
#define LIMIT_VALUE_COUNT   "N"
#define LIMIT_VALUE_COUNT64 "N"
#define LIMIT_OPTION(s, name, kind, letter, option, about) {letter, option, LIMIT_OPT_##kind, &(s).limits.name, LIMIT_VALUE_##kind, about},
#define LIMIT_NO_OPTION(s, name, kind, letter, option, about)
#define LIMIT_OPT_ROW(s, member, name, kind, least, most, usual, ceiling, fixed, setting, option, about, about_ceiling, has, letter, word, help) \
	LIMIT_##has(s, name, kind, letter, word, help)
#define SANDBOX_OPT_ROWS(s)                                                                                                     \
	{0,   "name",      OPT_TEXT,    &(s).name,       "NAME",  "its name, which no other living sandbox may have"},       \
	{0,   "group",     OPT_TEXT,    &(s).group,      "NAME",  "sandboxes of one group reach each other by name; no other sandbox reaches them"}, \
	{0,   "alias",     OPT_TEXT,    &(s).alias,      "NAME",  "its host name in the group (default: its name)"}, \
	{'T', "template",  OPT_TEXT,    &(s).template,   "NAME",  "what it starts from (see 'cloche template ls'; host: this machine's programs)"}, \
	{0,   "image",     OPT_TEXT,    &(s).image,      "REF",   "start from this image of a registry instead, [HOST[:PORT]/]NAME[:TAG][@DIGEST]; it is pulled if it is not there"}, \
	{0,   "pull",      OPT_TEXT,    &(s).pull,       "WHEN",  "when to pull --image: always, or missing (default: a tag again after an hour)"}, \
	{0,   "snapshot",  OPT_TEXT,    &(s).snapshot,   "NAME",  "start from this snapshot instead (see 'cloche snapshot ls')"}, \
	{'P', "package",   OPT_LIST,    &(s).packages,   "NAME",  "install this package in it, such as pip:pandas, npm:zod@3 or apt:jq; may be repeated"}, \
	{'v', "volume",    OPT_LIST,    &(s).volumes,    "NAME:PATH", "mount this volume at PATH; NAME:PATH:ro is read-only; may be repeated"}, \
	GUEST_LIMITS(LIMIT_OPT_ROW, s)                                                                                          \
	{0,   "tag",       OPT_LIST,    &(s).tags,       "K=V",   "a tag to find it by; may be repeated"},                      \
	{'e', "env",       OPT_LIST,    &(s).env,        "K=V",   "set this variable; K alone takes the value that you have; may be repeated"},        \
	{0,   "network",   OPT_TEXT,    &(s).network,    "POLICY", "what it may reach: deny-all (the default), allow-all, or a JSON file"}, \
	{0,   "allow",     OPT_LIST,    &(s).allow,      "NAME",  "let it reach this name or range; pip, npm or apt: the hosts of their packages; may be repeated"}, \
	{0,   "engine",    OPT_TEXT,    &(s).engine,     "NAME",  "auto, jail or vm"}, \
	{0,   "min-grade", OPT_TEXT,    &(s).min_grade,  "GRADE", "refuse weaker isolation: process, emulated or hardware"}, \
	{0,   "wait",      OPT_MS,      &(s).wait_ms,    "TIME",  "wait this long for room while the project's quota or the host is full, instead of being refused"}
#define RESULT_OPT_ROW(list) \
	{0, "result", OPT_LIST, &(list), "PATH", "keep this file or directory when it ends, for 'cloche results'; may be repeated"}
/* clang-format on */

/* clang-format off */
#define LIFE_OPT_ROWS(l) \
	{0, "timeout",       OPT_MS,   &(l).timeout_ms,      "TIME",   "end it this long after its start (default: the daemon's)"}, \
	{0, "idle-timeout",  OPT_MS,   &(l).idle_timeout_ms, "TIME",   "end it when nothing ran in it for this long"}, \
	{0, "on-timeout",    OPT_TEXT, &(l).on_timeout,      "ACTION", "what happens then: delete, stop or pause (default: delete, or stop if persistent)"}, \
	{0, "on-idle",       OPT_TEXT, &(l).on_idle,         "ACTION", "what happens after --idle-timeout, if not the same; with pause, the next command resumes it"}, \
	{0, "persistent",    OPT_FLAG, &(l).is_persistent,   NULL,     "keep its files when it ends, until it is removed"}, \
	{0, "on-node-loss",  OPT_TEXT, &(l).on_node_loss,    "WORD",   "of a persistent one in a cluster, when its node is lost: end (the default), or restore it on another"}, \
	{0, "auto-resume",   OPT_FLAG, &(l).auto_resumes,    NULL,     "when it is paused, the next command resumes it"}, \
	{0, "paused-time-counts", OPT_FLAG, &(l).counts_paused, NULL, "its lifetime runs on while it is paused"}, \
	{0, "get-or-create", OPT_FLAG, &(l).is_get,          NULL,     "if there is one with this name, use and resume it instead"}
/* clang-format on */

void life_opts_to_json(const struct life_opts *l, json_t *body); /* all but the timeout */
void sandbox_opts_done(struct sandbox_opts *s);
bool sandbox_opts_are_given(const struct sandbox_opts *s); /* any of them */
/* The body of POST /v1/sandboxes; the caller owns *ret. */
must_check int sandbox_opts_to_json(const struct sandbox_opts *s, uint64_t timeout_ms, json_t **ret,
                                    struct err *err);

/* What --result asks for. */
must_check int result_opts_to_json(const struct opt_list *results, json_t *body, struct err *err);
/* What --network and --allow ask for; *ret is NULL where neither does. */
must_check int network_to_json(const char *network, const struct opt_list *allow, json_t **ret,
                               struct err *err);
/* "K=V", or "K" for the caller's own value (left out where there is none). */
must_check int env_to_json(const struct opt_list *env, json_t **ret, struct err *err);
/* How lists are filtered by a tag: the API writes NAME:VALUE what is NAME=VALUE here. For free().
 */
char *tag_to_query(const char *tag);
/* All of argv as an array; each word must be UTF-8, as JSON is. */
must_check int argv_to_json(char *const *argv, size_t n, json_t **ret, struct err *err);
