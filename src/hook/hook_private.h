// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the files of webhooks share: hook.c delivers, hook_shared.c has those of a cluster. */
#include "base/id.h"
#include "hook/hook.h"
#include "hook/hook_secret.h"
#include "store/tables/hooks.h"

struct hook {
	struct list link;
	struct hooks *hooks;
	char id[ID_SIZE], project_id[ID_SIZE];
	char *url_text, *types_text; /* types_text may be "" */
	char *secret;                /* as in its row (hook_secret.h) */
	uint64_t types;
	uint64_t created_us;
	uint64_t cursor;   /* sent up to here, as written down */
	uint64_t after;    /* looked at up to here */
	bool is_seeking;   /* where it begins is not found yet (hook_shared.h) */
	uint64_t before;   /* and is looked for before this entry; 0: it has not begun */
	uint64_t seq;      /* the entry that it is at; 0 = none */
	struct buf entry;  /* and its line */
	uint64_t begun_us; /* when it was first tried */
	unsigned failures; /* of this entry */
	uint64_t dropped, delivered;
	struct outgoing_call *call; /* NULL: none is under way */
	struct loop_timer *timer;   /* the next attempt, or the next look at the log */
	char last_error[640];       /* "" = the last one went well */
};

struct hooks {
	struct hooks_config config;
	struct hook_timing timing;
	struct store_hooks *rows;
	uint32_t node; /* 0: this node is in no cluster */
	struct event_watch watch;
	struct list all;
	size_t n_all;
	uint64_t delivered, failed, dropped; /* also by hooks that are gone */
};

struct hook_secret hook_secret_of(const struct hook *h);
struct hook_row hook_row_of(const struct hook *h); /* what may change */
must_check int hook_make(struct hooks *hooks, const struct hook_row *row, struct hook **ret);
void hook_free(struct hook *h);
void hook_replace_text(char **at, const char *with);
/* Parses url_text and types_text, which were checked when they were set. */
must_check int hook_read_texts(struct hook *h);
/* Starts again after cursor: the current entry is matched and sent anew. */
void hook_begin_again(struct hook *h, uint64_t cursor);
must_check int hook_check_room(const struct hooks *hooks, const char *project_id, size_t most,
                               struct err *err);
must_check int hook_check_wish(const struct hooks *hooks, const char *project_id, const char *url,
                               const struct hook_wish *wish, struct err *err);

/* hook_shared.c */
/* Whether it was found where this hook begins; else its timer is set. */
bool hook_seek(struct hook *h);
