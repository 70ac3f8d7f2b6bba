// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The interface of snapshots for the rest of src/sandbox. */
#include "sandbox/model/sandbox_private.h"
#include "sandbox/snapshot/snapshot.h"

must_check int snapshots_open(struct fleet *fleet, struct err *err);
void snapshots_close(struct fleet *fleet);
void snapshot_takings_close(struct fleet *fleet);
bool snapshot_saves_memory(const struct sandbox *s); /* a save with memory is under way */
void snapshot_holds_close(struct fleet *fleet);
void snapshot_found(struct fleet *fleet, const struct snapshot_info *info); /* the broker has it */
void snapshots_settle(struct fleet *fleet);                                 /* that was all */
void snapshots_tick(struct fleet *fleet); /* charges their disk up to now */
bool snapshot_is_known(const struct fleet *fleet, const char *id);
size_t snapshot_count_image(const struct fleet *fleet, const struct digest *image);
/* Removes an automatic snapshot that is not used; id NULL: all of them. */
void snapshot_drop_unused(struct fleet *fleet, const char *id);
/* Finds the snapshot of a create, and applies its settings. */
must_check int snapshot_resolve(const struct fleet *fleet, const char *project_id,
                                const struct sandbox_spec *spec, struct snapshot **ret,
                                struct err *err);
void snapshot_fill_limits(const struct snapshot *sn, struct guest_limits *limits);
must_check int snapshot_check_disk(const struct snapshot *sn, uint64_t disk_bytes, struct err *err);
void snapshot_apply(const struct snapshot *sn, bool with_memory, struct sandbox *s);
bool snapshot_is_warm_copy(const struct snapshot *sn); /* (pool/warm_copy.c), and no client's */

/* copied_processes.c: the processes that go on in a copy of a sandbox's memory */
json_t *copied_processes_describe(const struct sandbox *s); /* the caller's */
json_t *copied_processes_describe_warm(
	const struct sandbox *s); /* of a seed: the interpreters in it */
void copied_processes_expect(struct sandbox *s, const json_t *carried); /* before it is recorded */
void copied_processes_rejoin(struct sandbox *s); /* when it exists, before its link is up */
