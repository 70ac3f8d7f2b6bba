// SPDX-License-Identifier: Apache-2.0
#include "sandbox/snapshot/snapshot_shared.h"

#include "base/log.h"
#include "node/node.h"
#include "sandbox/snapshot/snapshot_private.h"

#include <string.h>

void snapshots_follow(struct fleet *fleet, void (*changed)(void *arg), void *arg)
{
	fleet->snapshots_changed = changed;
	fleet->snapshots_changed_arg = arg;
}

void snapshot_tell(const struct fleet *fleet)
{
	if (fleet->snapshots_changed)
		fleet->snapshots_changed(fleet->snapshots_changed_arg);
}

bool snapshot_is_durable(const struct snapshot *sn)
{
	return sn->is_durable;
}

bool snapshot_is_fetched(const struct snapshot *sn)
{
	return sn->is_fetched;
}

bool snapshot_is_automatic(const struct snapshot *sn)
{
	return sn->is_automatic;
}

bool snapshot_is_unsent(const struct snapshot *sn)
{
	return sn->is_there && !sn->is_durable && !snapshot_is_warm_copy(sn) &&
	       (!sn->is_automatic || sn->is_wanted);
}

const json_t *snapshot_companion(const struct snapshot *sn)
{
	return sn->companion;
}

const char *snapshot_project_id(const struct snapshot *sn)
{
	return sn->project_id;
}

const char *snapshot_source_id(const struct snapshot *sn)
{
	return sn->source_id;
}

const char *snapshot_template(const struct snapshot *sn)
{
	return sn->template;
}

const struct digest *snapshot_image(const struct snapshot *sn)
{
	return &sn->image;
}

uint64_t snapshot_generation(const struct snapshot *sn)
{
	return sn->generation;
}

uint64_t snapshot_expires_us(const struct snapshot *sn)
{
	return sn->expires_us;
}

bool snapshot_is_used(const struct snapshot *sn)
{
	return snapshot_is_in_use(sn->fleet, sn);
}

int snapshot_want_sent(struct snapshot *sn, const json_t *with, struct err *err)
{
	if (sn->is_wanted && !with)
		return 0;
	sn->is_wanted = true;
	if (with && !sn->companion)
		sn->companion = json_deep_copy(with);
	snapshot_tell(sn->fleet);
	return snapshot_save(sn, err);
}

bool snapshot_is_wanted(const struct snapshot *sn)
{
	return sn->is_wanted;
}

int snapshot_set_sending(struct snapshot *sn, struct err *err)
{
	if (sn->is_sending)
		return 0;
	sn->is_sending = true;
	return snapshot_save(sn, err);
}

int snapshot_set_durable(struct snapshot *sn, bool on, struct err *err)
{
	sn->is_durable = on;
	sn->why = (struct err){0};
	sn->again_us = 0;
	return snapshot_save(sn, err);
}

void snapshot_set_unsent(struct snapshot *sn, const struct err *why, uint64_t again_us)
{
	sn->why = *why;
	sn->again_us = again_us;
}

const struct err *snapshot_unsent_why(const struct snapshot *sn)
{
	return &sn->why;
}

uint64_t snapshot_again_us(const struct snapshot *sn)
{
	return sn->again_us;
}

void snapshot_each(struct fleet *fleet, void (*fn)(struct snapshot *sn, void *arg), void *arg)
{
	list_for_each (&fleet->snapshots, struct snapshot, sn, link)
		fn(sn, arg);
}

/* Descriptions. */

json_t *snapshot_describe(const struct snapshot *sn)
{
	json_t *row = snapshot_row_json(sn);

	return row ? json_pack("{ss ss ss sI sI sI so}", "id", sn->id, "source_id", sn->source_id,
	                       "parent_id", sn->parent_id, "generation", (json_int_t)sn->generation,
	                       "created_us", (json_int_t)sn->created_us, "expires_us",
	                       (json_int_t)sn->expires_us, "row", row)
	           : NULL;
}

/* What was of the other node alone. */
static void clear(struct snapshot *sn)
{
	json_decref(take_ptr(sn->carried));
	sn->line = sn->bytes = sn->written_bytes = sn->memory_bytes = 0;
	sn->is_unshared = sn->is_wanted = false;
	sn->is_automatic = sn->is_fetched = sn->is_durable = true;
}

int snapshot_read_description(struct fleet *fleet, const char *project_id, const json_t *text,
                              struct snapshot **ret, struct err *err)
{
	struct snapshot_row row = {.project_id = project_id, .name = ""};
	json_t *inner = NULL;
	const struct json_field fields[] = {
		{"id", JSON_FIELD_STRING, &row.id, true, .max = ID_SIZE - 1},
		{"source_id", JSON_FIELD_STRING, &row.source_id, true, .max = ID_SIZE - 1},
		{"parent_id", JSON_FIELD_STRING, &row.parent_id, true, .max = ID_SIZE - 1},
		{"generation", JSON_FIELD_U64, &row.generation, true},
		{"created_us", JSON_FIELD_U64, &row.created_us, true},
		{"expires_us", JSON_FIELD_U64, &row.expires_us, true},
		{"row", JSON_FIELD_OBJECT, &inner, true},
	};
	auto_free char *dumped = NULL;
	int r = json_read(text, "", fields, ARRAY_SIZE(fields), err);

	if (r < 0)
		return err_prefix(err, "the snapshot's description");
	row.json = dumped = json_dumps(inner, JSON_COMPACT);
	if (!dumped || !id_is_valid(row.source_id, "sb") || snapshot_load(fleet, &row, ret) < 0)
		return err_set(err, ERR_CONFLICT, 0,
		               "the snapshot's description is of another shape");
	clear(*ret);
	return 0;
}

void snapshot_forget_described(struct snapshot *sn)
{
	if (sn)
		snapshot_free(sn);
}

void snapshot_drop(struct snapshot *sn)
{
	struct fleet *fleet = sn->fleet;
	struct err err;

	if (store_delete_snapshot(fleet->config.store, sn->id, &err) < 0) {
		log_warn("snapshot.not_removed", "error='%s'", err.message);
		return;
	}
	log_info("snapshot.dropped", "id=%s", sn->id);
	snapshot_discard(fleet, sn->id);
	snapshot_forget(sn);
	snapshot_tell(fleet);
}

/* Notes of what is removed. */

void snapshot_keep_removal(struct fleet *fleet, const char *id, const char *project_id)
{
	struct snapshot_removal *note = xnew0(struct snapshot_removal);

	(void)snprintf(note->id, sizeof(note->id), "%s", id);
	(void)snprintf(note->project_id, sizeof(note->project_id), "%s", project_id);
	list_append(&fleet->snapshot_removals, &note->link);
	snapshot_tell(fleet);
}

struct snapshot_removal *snapshot_first_removal(const struct fleet *fleet)
{
	return list_first(&fleet->snapshot_removals, struct snapshot_removal, link);
}

void snapshot_removal_told(struct fleet *fleet, struct snapshot_removal *note)
{
	struct err err;

	if (store_delete_snapshot(fleet->config.store, note->id, &err) < 0)
		log_warn("snapshot.not_removed", "error='%s'", err.message); /* told once more */
	list_remove(&note->link);
	free(note);
}

void snapshot_removals_close(struct fleet *fleet)
{
	list_for_each (&fleet->snapshot_removals, struct snapshot_removal, note, link) {
		list_remove(&note->link);
		free(note);
	}
}

/* What people see. */

void snapshot_cluster_to_json(const struct snapshot *sn, struct json_writer *w)
{
	const bool is_failed = !sn->is_durable && sn->why.code != ERR_NONE;

	json_put_bool(w, "durable", sn->is_durable);
	if (!node_is_in(sn->fleet->config.node)) {
		json_put_null(w, "cluster");
		return;
	}
	json_open_object(w, "cluster");
	json_put_str(w, "state",
	             sn->is_durable                         ? "durable"
	             : is_failed || !snapshot_is_unsent(sn) ? "here"
	                                                    : "sending");
	json_put_str(w, "message", is_failed ? sn->why.message : NULL);
	json_put_str(w, "hint", is_failed && sn->why.hint[0] ? sn->why.hint : NULL);
	json_close_object(w);
}
