// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What volume.c and volume_create.c share. */
#include "event/event.h"
#include "sandbox/storage/volume.h"

struct volume {
	struct fleet *fleet;
	struct list link;
	char id[ID_SIZE], project_id[ID_SIZE], key_id[ID_SIZE];
	char *name;
	uint64_t bytes, used_bytes, created_us;
	bool has_one_writer;
	bool is_making; /* nobody but its maker knows of it */
	bool is_copy;   /* while it is made */
	bool is_there;  /* the broker has it */
	json_t *notes;  /* or NULL */
	struct meter *meter;
};

struct volume *volume_alloc(struct fleet *fleet);
void volume_free(struct volume *v);
/* Its size in the quota of disk; is_asked: it may be refused. */
must_check int volume_take(const struct volume *v, bool is_asked, struct err *err);
void volume_give(const struct volume *v);
void volume_meter(struct volume *v);
must_check int volume_save(const struct volume *v, struct err *err); /* its row */
void volume_emit(const struct volume *v, enum event_type type);
void volume_drop_bytes(struct fleet *fleet, const char *id); /* its bytes, at the broker */
