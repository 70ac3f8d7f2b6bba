// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Volumes: files of a project that outlive every sandbox. A sandbox has them at a path of its
 * choice while it runs.
 *
 *	volume ── sandbox_create(volumes) ──► sandbox A  /data
 *	       └─ … ────────────────────────► sandbox B  /data, read-only
 *
 * The broker has the bytes, the store the rows. A volume is made first and recorded then; on
 * removal the row goes before the bytes; bytes of this store without a row are removed at the next
 * start. A volume is charged for its whole size as long as it exists, as a sandbox is for its disk.
 * Its files are never part of a snapshot, a fork or a pause.
 */
#include "base/json/json.h"
#include "sandbox/model/sandbox.h"

struct fleet;
struct volume;

#define VOLUME_NAME_MAX    64
#define VOLUME_MIB_MIN     1
#define VOLUME_MIB_DEFAULT 1024

struct volume_wish {        /* borrowed for the call */
	const char *name;   /* unique in the project */
	const char *key_id; /* of the caller; NULL = none */
	/* NULL, or whose files it has at first, as they are at one moment; of the same project. */
	const struct volume *source;
	uint64_t bytes;      /* 0 = VOLUME_MIB_DEFAULT, or the source's; never less than that */
	bool has_one_writer; /* only one running sandbox at a time may write to it */
	const json_t *notes; /* as of a sandbox; NULL = nothing */
};
/* Called from the loop. Exactly one of v and err is NULL. */
typedef void (*volume_done_fn)(struct volume *v, const struct err *err, void *arg);
must_check int volume_create(struct fleet *fleet, const char *project_id,
                             const struct volume_wish *wish, volume_done_fn done, void *arg,
                             struct err *err);
must_check int volume_set_notes(struct volume *v, const json_t *notes, struct err *err);
/* Refused while a sandbox that runs has it. */
must_check int volume_remove(struct volume *v, struct err *err);

struct volume *volume_find(const struct fleet *fleet, const char *project_id,
                           const char *id_or_name); /* borrowed or NULL */
/* By a token that a caller shows instead of a key: a volume of any project, if says_yes() is
 * true. */
struct volume *volume_find_shown(const struct fleet *fleet, const char *id,
                                 bool (*says_yes)(const struct volume *v, const void *arg),
                                 const void *arg);
/* In order of creation. */
void volume_list(const struct fleet *fleet, const char *project_id,
                 void (*fn)(const struct volume *v, void *arg), void *arg);
/* Asks the broker how full they are, then calls fn, from the loop. */
must_check int volume_measure_all(struct fleet *fleet, void (*fn)(const struct err *err, void *arg),
                                  void *arg, struct err *err);

struct volume_facts { /* borrowed */
	const char *id, *name;
	const char *project_id, *key_id; /* that it was created with; "" = none */
	const json_t *notes;             /* or NULL */
	uint64_t bytes, used_bytes, created_us;
	bool has_one_writer;
	const struct sandbox *user; /* a running one that has it, a writer first; or NULL */
};
void volume_facts(const struct volume *v, struct volume_facts *ret);
/* The volumes of a sandbox, by name; "" for one that is gone. */
void sandbox_each_volume(const struct sandbox *s,
                         void (*fn)(const char *name, const char *path, bool is_read_only,
                                    void *arg),
                         void *arg);
void volume_put_fields(const struct volume *v, struct json_writer *w); /* into an open object */
void volume_to_json(const struct volume *v, struct json_writer *w, const char *name);
