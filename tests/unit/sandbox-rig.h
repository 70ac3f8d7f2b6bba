// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A fleet on a fake broker, with a store and spools in a directory of its own. */
#include "fake-guest.h"
#include "sandbox/exec/exec.h"
#include "sandbox/fileops/file_call.h"
#include "store/store.h"
#include "test.h"

struct outcome { /* of a sandbox_done_fn */
	unsigned calls;
	struct sandbox *s;
	struct err err;
};

struct rig {
	struct loop *loop;
	struct fake_broker broker;
	char dir[64], db[96];
	struct store *store;
	struct shares *shares;
	struct fleet *fleet;
	bool is_ready;
	unsigned losses; /* of the broker */
	/* set before rig_start() */
	uint64_t ended_bytes_max;         /* of output that is kept; 0 = plenty */
	bool is_hasty;                    /* little patience with agents */
	const struct link_timing *timing; /* NULL = by is_hasty */
	uint32_t sandboxes_max;           /* 0 = five */
	uint32_t pool_min, pool_max;
	char **pool_languages;
};

void rig_start(struct rig *r); /* on an empty directory */
void rig_stop(struct rig *r);
/* The gateway dies and comes back; the broker and the agents live on. */
void rig_go_away(struct rig *r);
void rig_come_back(struct rig *r);

void rig_note(struct sandbox *s, const struct err *err, void *arg); /* into a struct outcome */
struct sandbox *rig_create_in(struct rig *r, const char *project_id, const char *name);
struct sandbox *rig_create(struct rig *r, const char *name); /* in prj_test */
void rig_delete(struct rig *r, struct sandbox *s);
const char *rig_json(struct sandbox *s);         /* valid until the next call */
const char *rig_exec_json(const struct exec *e); /* likewise */
struct exec *rig_exec(struct rig *r, struct sandbox *s, const char *shell, bool has_stdin);
/* All output of one kind, NUL-terminated; gaps as "[gap N]". The caller frees. */
char *rig_output(struct exec *e, uint8_t kind);
size_t rig_spools(struct rig *r); /* files in the spool directory */
