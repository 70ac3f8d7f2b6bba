// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a project or one of its keys may have at once, create in a minute and spend in a month.
 * Resources are taken from the quota at admission, before anything is made, and given back once at
 * the end, so that parallel calls cannot exceed a quota together. The sums are in memory; after a
 * restart they are computed from the living sandboxes. All of this is on the loop's thread.
 *
 * A project without limits of its own has the daemon's. A key has only its own limits, and its
 * project's limits hold for it too.
 */
#include "base/json/json.h"
#include "tenant/ceiling.h"
#include "tenant/price.h"

enum quota_what {
	QUOTA_SANDBOXES,
	QUOTA_CPU_MILLI,
	QUOTA_MEMORY_BYTES,
	QUOTA_DISK_BYTES,
	QUOTA_HELD_COUNT, /* those above are held, and given back */
	QUOTA_CREATES_PER_MINUTE = QUOTA_HELD_COUNT,
	QUOTA_BUDGET_NANO, /* a month of UTC */
	QUOTA_COUNT
};

#define QUOTA_UNLIMITED UINT64_MAX

struct quota_limits {
	uint64_t of[QUOTA_COUNT];
};
struct quota_held {
	uint64_t of[QUOTA_HELD_COUNT];
};

struct quota_config {
	struct store *store;
	struct shares *shares;        /* whose weights follow the projects' settings; NULL: none */
	struct event_log *events;     /* whose entries are kept as long as those say; NULL: none */
	struct quota_limits defaults; /* of projects */
	struct prices prices;
	const char *currency; /* borrowed */
	/* The longest time until the next check of budgets; the cost of that time is held back. */
	uint64_t ahead_ms;
	uint64_t (*steady_us)(void), (*wall_us)(void); /* NULL = the clocks */
};

struct quota;
must_check int quota_open(const struct quota_config *config, struct quota **ret, struct err *err);
void quota_close(struct quota *q); /* NULL is fine */

struct quota_owner {
	const char *project_id;
	const char *key_id; /* "" = none */
};
/* Takes more from the quota, or fails with figures (ERR_QUOTA, ERR_BUDGET) of what would be
 * exceeded. What the limit never allows, whatever else ends, is final. */
must_check int quota_admit(struct quota *q, const struct quota_owner *owner,
                           const struct quota_held *more, bool is_create, struct err *err);
/* Whether it would, without taking anything. */
bool quota_has_room(struct quota *q, const struct quota_owner *owner,
                    const struct quota_held *more);
/* Fails, as that would, if no end of others can ever make room for it. */
must_check int quota_check_possible(struct quota *q, const struct quota_owner *owner,
                                    const struct quota_held *more, struct err *err);
/* Takes it without a check, for something that exists already. */
void quota_take(struct quota *q, const struct quota_owner *owner, const struct quota_held *more);
void quota_give(struct quota *q, const struct quota_owner *owner, const struct quota_held *less);
/* Something was used: a meters_fn, with the quota as arg. */
void quota_on_use(const char *project_id, const char *key_id, const struct usage *more, void *arg);
/* Whether what it holds could exceed the budget before the next check. If so, err says whose
 * budget. */
bool quota_is_spent(struct quota *q, const struct quota_owner *owner, struct err *err);

/* Checks the wanted values of a single sandbox (0 = none) against its project's and key's
 * ceilings. */
must_check int quota_check_ceilings(struct quota *q, const struct quota_owner *owner,
                                    const struct ceilings *asked, struct err *err);
void quota_lower_to_ceilings(struct quota *q, const struct quota_owner *owner,
                             struct ceilings *values);

struct quota_setting { /* what an owner was given; the rest is by default */
	bool is_set[QUOTA_COUNT];
	struct quota_limits limits;
	struct ceilings ceilings;
	uint32_t weight;        /* of a project's share (share.h); 0 = the usual */
	uint64_t events_age_ms; /* how long a project's events are kept; 0 = as the daemon's */
};
/* {sandboxes, vcpus, memory_mib, disk_mib, creates_per_minute, budget}; each a number (budget:
 * text), "unlimited", or absent for the default; weight; events_age_ms; and those of ceiling.h. */
must_check int quota_setting_read(const json_t *object, struct quota_setting *ret, struct err *err);
/* What a key cannot have. */
must_check int quota_setting_check(const struct quota_owner *owner,
                                   const struct quota_setting *setting, struct err *err);
/* Of a project (key_id "") or key. */
must_check int quota_set(struct quota *q, const struct quota_owner *owner,
                         const struct quota_setting *setting, struct err *err);
/* {project_id, key_id, limits, max_limits, max_timeout_ms, weight, events_age_ms, current,
 * currency, month} */
void quota_to_json(struct quota *q, const struct quota_owner *owner, struct json_writer *w,
                   const char *name);
