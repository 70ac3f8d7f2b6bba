// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What a client may ask for. */
#include "sandbox/model/sandbox_private.h"

/* engine_choice.c: by the words of a create, or NULL; bound: the only possible engine, or 0 */
must_check int engine_choose(const struct fleet *fleet, const char *engine, const char *min_grade,
                             uint32_t bound, bool needs_base, uint32_t *ret, struct err *err);
/* What a sandbox gets that asks for none and needs nothing special, and why; 0: none. */
uint32_t engine_default(const struct fleet *fleet, char *why, size_t size);
/* One that would be the default if its guests were seen to run, which nobody has tried; 0: none. */
uint32_t engine_untried(const struct fleet *fleet);
/* Refuses a feature that the engine does not have. */
must_check int engine_refuse_without(bool has, uint32_t engine, const char *what, struct err *err);

/* create_rules.c: what a client may ask for. Each names the field that is wrong. */
must_check int rules_check(const struct fleet *fleet, const char *project_id,
                           const struct sandbox_spec *spec, struct guest_limits *ret_limits,
                           uint64_t *ret_timeout_ms, struct err *err);
must_check int rules_check_tags(const json_t *tags, struct err *err);
must_check int rules_check_env(const json_t *env, struct err *err);
/* 0 in *asked = what *base has. */
must_check int rules_limits(const struct fleet *fleet, const struct guest_limits *asked,
                            const struct guest_limits *base, struct guest_limits *ret,
                            struct err *err);
must_check int rules_exec_limits(const struct fleet *fleet, const char *project_id,
                                 const char *key_id, const struct exec_limits *asked,
                                 struct err *err);
/* For a running sandbox: limits that cannot change must be the same. */
must_check int rules_fixed_limits(const struct guest_limits *before,
                                  const struct guest_limits *after, struct err *err);
/* The effective limits: the daemon's if the sandbox has none of its own, or higher ones. */
struct exec_limits rules_effective_exec_limits(const struct sandbox *s);
must_check int rules_timeout(const struct fleet *fleet, uint64_t timeout_ms, struct err *err);
must_check int rules_idle_timeout(uint64_t timeout_ms, struct err *err);
must_check int rules_on_timeout(const char *word, bool is_persistent, enum timeout_action *ret,
                                struct err *err);
/* Whether it can outlive its node, if it is to. */
must_check int rules_on_node_loss(const struct fleet *fleet, const struct sandbox_spec *spec,
                                  enum on_node_loss *ret, struct err *err);
must_check int rules_on_idle(const char *word, enum timeout_action *ret, struct err *err);
must_check int rules_check_name(const char *name, struct err *err);
/* The same of another field with such a name. */
must_check int rules_check_word(const char *word, const char *field, struct err *err);
