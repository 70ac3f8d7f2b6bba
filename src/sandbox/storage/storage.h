// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The interface of images, templates and volumes for the rest of src/sandbox. */
#include "sandbox/model/sandbox_private.h"
#include "sandbox/storage/image.h"

/* image.c, template.c */
void image_open_all(struct fleet *fleet);
void image_close_all(struct fleet *fleet);
void image_add(struct fleet *fleet, const struct image_info *info); /* the broker has it */
/* The same, unless it is being removed right now. */
must_check int image_add_new(struct fleet *fleet, const struct image_info *info, struct err *err);
size_t image_count_stored(const struct fleet *fleet, const struct digest *image); /* snapshots */
/* Refuses an engine whose files cannot be made into an image. */
must_check int image_refuse_unreadable(uint32_t engine, struct err *err);
/* id: the sandbox whose files they are or were. snapshot: the one that has them, or NULL. */
must_check int image_ask_for_seal(struct fleet *fleet, const char id[ID_SIZE], const char *snapshot,
                                  const struct digest *base, const struct image_spec *spec,
                                  image_sealed_fn done, void *arg, struct image_seal **ret,
                                  struct err *err);
must_check int templates_open(struct fleet *fleet, struct err *err);
void templates_close(struct fleet *fleet);

/* shared_template.c */
void shared_templates_open(struct fleet *fleet);
void shared_templates_close(struct fleet *fleet);
void shared_templates_begin(struct fleet *fleet); /* the images that are here are known */

/* volume.c */
must_check int volumes_open(struct fleet *fleet, struct err *err);
void volumes_close(struct fleet *fleet);
void volume_found(struct fleet *fleet, const struct volume_info *info); /* the broker has it */
void volumes_settle(struct fleet *fleet);                               /* that was all */
void volumes_tick(struct fleet *fleet); /* charges their disk up to now */
bool volume_is_known(const struct fleet *fleet, const char *id);

/* volume_mounts.c */
void volume_mount_shown(const char *id, const char *path, struct guest_volume *ret);
bool volume_mounts_are_given(const struct sandbox *s);
bool volume_is_written_by(const struct sandbox *s, const char *id);
json_t *volume_mounts_describe(const struct sandbox *s); /* as a create has them; the caller's */
void volume_mounts_to_row(const struct sandbox *s, struct json_writer *w);
must_check int volume_mounts_from_row(const json_t *rows, struct sandbox *s);
void volume_mounts_to_json(const struct sandbox *s, struct json_writer *w);
/* Reads what a create asks for; and checks, then and at each start, that each volume exists and is
 * free. */
must_check int volume_mounts_read(const struct fleet *fleet, const char *project_id,
                                  const json_t *wishes, uint32_t engine,
                                  struct guest_volume ret[VOLUMES_MAX], struct err *err);
must_check int volume_mounts_check(const struct fleet *fleet, const char *project_id,
                                   const struct guest_volume places[VOLUMES_MAX], struct err *err);
