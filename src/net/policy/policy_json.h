// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Shared by the files that read and write policies; private to them. */
#include "net/policy/policy.h"

#define POLICY_REDACTED "<redacted>"
#define FIELD_SIZE      64 /* of a field's name in an err */

/* A policy being read: its name in errors, and what was counted so far. */
struct policy_reader {
	const char *prefix;
	size_t n_entries, n_patterns, n_states, n_scrubs;
	size_t n_references; /* to identities */
	size_t n_ssh, n_ssh_hosts;
	struct err *err;
};

/* "PREFIX.rules[3].match.", to be followed by a field's name. */
int policy_read_match(struct policy_reader *r, const json_t *value, const char *prefix,
                      struct policy_match *ret);
int policy_read_action(struct policy_reader *r, const json_t *value, const char *field,
                       struct policy_rule *ret);
/* prefix: "PREFIX.rules[3].action.ssh." */
int policy_read_ssh(struct policy_reader *r, const json_t *value, const char *prefix,
                    struct policy_rule *ret);
/* What else a rule with a key must have; prefix: "PREFIX.rules[3].match." */
int policy_check_ssh(struct policy_reader *r, const char *prefix, struct policy_rule *rule);
/* prefix: "PREFIX.proxy." */
int policy_read_proxy(struct policy_reader *r, const json_t *value, const char *prefix,
                      struct policy_target *ret);
/* Refuses the entry i of a list. */
int policy_refuse_entry(struct policy_reader *r, const char *field, size_t i, const char *text,
                        const char *why);
/* Counts n more entries against POLICY_ENTRIES_MAX. */
int policy_count(struct policy_reader *r, const char *field, size_t n);
int policy_read_domain(struct policy_reader *r, const char *field, size_t i, const json_t *value,
                       struct hostname_pattern *ret);
int policy_read_cidr(struct policy_reader *r, const char *field, size_t i, const json_t *value,
                     struct cidr *ret);
extern const char *const policy_text_names[TEXT_KIND_COUNT];
