// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * An export: a template on its way out, as one OCI image layout. A sandbox of `host` without
 * network is shown the image, and its agent packs what it sees (src/agent/fileops/op_image_out.c).
 * What is exported can be imported again (import.h), here or elsewhere, and is the same image then:
 * the config has a label with the template's manifest, which says how it was sealed.
 */
#include "build/build.h"

struct export;
struct template;

struct export_ops {
	/* Once, before the first data: how many bytes there will be. */
	void (*on_begin)(uint64_t bytes, void *arg);
	void (*on_data)(const char *data, size_t len, void *arg);
	/* Exactly once, unless export_leave() came before; err NULL = it was all. */
	void (*on_end)(const struct err *err, void *arg);
};

must_check int export_start(struct builds *bs, const char *project_id, const struct template *t,
                            const struct export_ops *ops, void *arg, struct export **ret,
                            struct err *err);
void export_pause(struct export *ex, bool on); /* holds back the data */
void export_leave(struct export *ex);          /* whoever asked is gone */
