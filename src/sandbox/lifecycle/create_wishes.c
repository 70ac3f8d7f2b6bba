// SPDX-License-Identifier: Apache-2.0
#include "sandbox/lifecycle/create_wishes.h"

#include "sandbox/code/language.h"
#include "sandbox/model/create_rules.h"
#include "sandbox/model/registry.h"
#include "sandbox/network/identity_fill.h"
#include "sandbox/network/network.h"
#include "sandbox/network/secret_fill.h"
#include "sandbox/snapshot/snapshots.h"
#include "sandbox/storage/template.h"

void wishes_done(struct wishes *w)
{
	policy_free(w->policy);
	source_free(w->source);
	policy_free(w->lent);
}

/* What a machine of its own cannot have or be. */
static bool needs_base(const struct sandbox_spec *spec, const struct wishes *w)
{
	const bool has_image = spec->image || w->template || w->snapshot;

	return !has_image || json_array_size(spec->volumes) > 0 || spec->shown_volume ||
	       w->limits.memory_bytes < MACHINE_MEMORY_LEAST ||
	       w->limits.disk_bytes < MACHINE_DISK_LEAST;
}

/* A password that is a reference is replaced in a copy: what is kept of a source has none. */
static int read_source(const struct fleet *fleet, const char *project_id, const json_t *value,
                       struct source **ret, struct err *err)
{
	auto_json json_t *filled = json_deep_copy(value);
	json_t *credentials = json_object_get(filled, "credentials");
	const char *password = json_string_value(json_object_get(credentials, "password"));
	const char *url = json_string_value(json_object_get(filled, "url"));
	char *text = NULL;
	int r = password && url ? secret_fill_text(fleet, project_id, password, url,
	                                           "source.credentials", &text, err)
	                        : 0;

	if (text) {
		(void)json_object_set_new(credentials, "password", json_string(text));
		explicit_bzero(text, strlen(text));
		free(text);
	}
	return r < 0 ? r : source_read(filled, ret, err);
}

int wishes_read(struct fleet *fleet, const char *project_id, const struct sandbox_spec *spec,
                struct wishes *w, struct err *err)
{
	struct sandbox_spec filled = *spec;
	int r = 0;

	if (spec->snapshot)
		r = snapshot_resolve(fleet, project_id, spec, &w->snapshot, err);
	if (w->snapshot)
		snapshot_fill_limits(w->snapshot, &filled.limits);
	if (r == 0)
		r = rules_check(fleet, project_id, &filled, &w->limits, &w->timeout_ms, err);
	if (r == 0 && w->snapshot)
		r = snapshot_check_disk(w->snapshot, w->limits.disk_bytes, err);
	if (r == 0 && !spec->image && !spec->snapshot)
		r = spec->language && !spec->template
		            ? language_template(fleet, project_id, spec->language, &w->template,
		                                err)
		            : template_resolve(fleet, project_id, spec->template, &w->template,
		                               err);
	w->engine = ENGINE_BASE;
	if (r == 0 && (!spec->is_own || spec->engine))
		r = engine_choose(fleet, spec->engine, spec->min_grade,
		                  w->snapshot ? snapshot_engine(w->snapshot) : 0,
		                  needs_base(spec, w), &w->engine, err);
	if (r == 0 && json_array_size(spec->volumes) > 0 && w->snapshot &&
	    snapshot_has_memory(w->snapshot) && !spec->has_no_memory)
		r = err_field(err, "volumes",
		              "cannot be put below processes that go on: give "
		              "memory: false");
	if (r == 0 && spec->volumes)
		r = volume_mounts_read(fleet, project_id, spec->volumes, w->engine, w->volumes,
		                       err);
	if (r == 0 && spec->shown_volume)
		volume_mount_shown(spec->shown_volume, spec->shown_volume_path, w->volumes);
	if (r == 0)
		r = group_check_spec(spec, err);
	if (r == 0)
		r = network_read_wish(fleet, spec->network, "network", &w->policy, err);
	if (r == 0)
		r = secret_check_policy(fleet, project_id, w->policy, "network", err);
	if (r == 0)
		r = identity_check_policy(fleet, w->policy, "network", err);
	if (r == 0 && spec->source)
		r = read_source(fleet, project_id, spec->source, &w->source, err);
	if (r == 0 && spec->source)
		r = source_policy(w->source, w->policy, &w->lent, err);
	return r;
}

struct spare_kind wishes_spare(const struct fleet *fleet, const char *project_id,
                               const struct sandbox_spec *spec, const struct wishes *w)
{
	return (struct spare_kind){
		.project_id = project_id,
		.share = shares_get(fleet->config.shares, project_id),
		.engine = w->engine,
		.template = spec->set ? spec->set : w->template,
		.limits = &w->limits,
		.has_door = (network_wants_door(w->policy) || spec->group) &&
	                    !engine_traits(w->engine)->has_copies && !spec->is_own,
	};
}

const char *wishes_spare_bar(const struct sandbox_spec *spec, const struct wishes *w)
{
	/* The name is also the host name inside, which is set at the start; so is the mark of a
	 * kept layer. A spare has neither. */
	if (spec->name)
		return "name";
	if (spec->is_persistent)
		return "persistent";
	if (spec->image || spec->shown[0])
		return "template";
	if (w->snapshot)
		return "snapshot";
	if (w->volumes[0].id[0])
		return "volumes";
	return engine_traits(w->engine)->has_copies && spec->set ? "packages" : NULL;
}
