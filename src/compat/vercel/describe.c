// SPDX-License-Identifier: Apache-2.0
#include "compat/vercel/policy.h"
#include "compat/vercel/wire.h"
#include "sandbox/exec.h"

#include <stdio.h>
#include <string.h>

#define REGION           "iad1" /* where their clients expect to be; there is one place here */
#define EXIT_KILLED      137    /* 128 + SIGKILL */
#define INTERACTIVE_PORT 23456

static const char *const status_names[] = {
	[LODGE_STOPPED] = "stopped",           [LODGE_STARTING] = "pending",
	[LODGE_RUNNING] = "running",           [LODGE_STOPPING] = "stopping",
	[LODGE_SNAPSHOTTING] = "snapshotting",
};

static void put_ms(struct json_writer *w, const char *name, uint64_t ms)
{
	if (ms)
		json_put_u64(w, name, ms);
}

static void put_text(struct json_writer *w, const char *name, const char *text)
{
	if (text && text[0])
		json_put_str(w, name, text);
}

static const char *region_of(const struct lodge *b)
{
	return b->config.region ? b->config.region : REGION;
}

static void put_still_id(struct json_writer *w, const char *name, const char *id)
{
	char theirs[ID_SIZE];

	if (!id[0])
		return;
	still_id_out(id, theirs);
	json_put_str(w, name, theirs);
}

static void put_transfer(struct json_writer *w, const struct stay *s)
{
	json_put_u64(w, "activeCpuDurationMs", s->cpu_ms);
	json_open_object(w, "networkTransfer");
	json_put_u64(w, "ingress", s->in_bytes);
	json_put_u64(w, "egress", s->out_bytes);
	json_close_object(w);
}

static const char *stay_status(const struct stay *s)
{
	if (s->is_over)
		return s->is_aborted ? "aborted" : "stopped";
	return status_names[lodge_phase(s->lodge)];
}

void put_session(struct json_writer *w, const char *name, const struct stay *s)
{
	const struct lodge *b = s->lodge;

	json_open_object(w, name);
	json_put_str(w, "id", s->id);
	json_put_str(w, "status", stay_status(s));
	json_put_u64(w, "memory", s->memory_mib);
	json_put_u64(w, "vcpus", s->vcpus);
	json_put_u64(w, "timeout", s->timeout_ms);
	json_put_u64(w, "requestedAt", s->requested_ms);
	json_put_u64(w, "createdAt", s->requested_ms);
	json_put_u64(w, "updatedAt", s->stopped_ms ? s->stopped_ms : b->updated_ms);
	put_ms(w, "startedAt", s->started_ms);
	put_ms(w, "requestedStopAt", s->stop_asked_ms);
	put_ms(w, "stoppedAt", s->stopped_ms);
	put_ms(w, "snapshottedAt", s->snapshotted_ms);
	json_put_str(w, "region", region_of(b));
	json_put_str(w, "cwd", VERCEL_HOME);
	put_text(w, "runtime", b->config.runtime);
	put_still_id(w, "sourceSnapshotId", s->source);
	json_put_str(w, "sourceSandboxName", b->name);
	put_text(w, "projectId", b->space);
	if (s->is_over) {
		json_put_u64(w, "duration", s->stopped_ms - MIN(s->started_ms, s->stopped_ms));
		put_transfer(w, s);
	} else {
		json_put_u64(w, "interactivePort", INTERACTIVE_PORT);
	}
	policy_put_theirs(b->config.policy, w, "networkPolicy");
	json_close_object(w);
}

static void put_keep_last(struct json_writer *w, const struct lodge_config *c)
{
	if (!c->keep_last)
		return;
	json_open_object(w, "keepLastSnapshots");
	json_put_u64(w, "count", c->keep_last);
	if (c->has_keep_expiry)
		json_put_u64(w, "expiration", c->keep_last_expires_ms);
	json_put_bool(w, "deleteEvicted", !c->keeps_evicted);
	json_close_object(w);
}

static void put_totals(struct json_writer *w, const struct lodge *b)
{
	json_put_u64(w, "totalIngressBytes", b->in_bytes);
	json_put_u64(w, "totalEgressBytes", b->out_bytes);
	json_put_u64(w, "totalActiveCpuDurationMs", b->cpu_ms);
	json_put_u64(w, "totalDurationMs", b->duration_ms);
}

void put_lodge(struct json_writer *w, const char *name, const struct lodge *b)
{
	const struct lodge_config *c = &b->config;
	const struct stay *s = lodge_stay(b);
	enum lodge_phase phase = lodge_phase(b);

	json_open_object(w, name);
	json_put_str(w, "name", b->name);
	json_put_bool(w, "persistent", c->is_persistent);
	json_put_str(w, "currentSessionId", s ? s->id : "");
	json_put_str(w, "status", status_names[phase]);
	json_put_u64(w, "createdAt", b->created_ms);
	json_put_u64(w, "updatedAt", b->updated_ms);
	json_put_u64(w, "statusUpdatedAt", b->status_ms);
	json_put_u64(w, "vcpus", c->vcpus);
	json_put_u64(w, "memory", c->memory_mib);
	json_put_u64(w, "timeout", c->timeout_ms);
	json_put_u64(w, "snapshotExpiration", c->snapshot_expires_ms);
	json_put_str(w, "region", region_of(b));
	json_put_str(w, "cwd", VERCEL_HOME);
	put_text(w, "runtime", c->runtime);
	put_text(w, "image", c->image);
	put_text(w, "networkId", c->network_id);
	put_still_id(w, "currentSnapshotId", b->snapshot);
	if (s && phase == LODGE_RUNNING)
		json_put_u64(w, "expiresAt", s->started_ms + s->timeout_ms);
	if (json_array_size(c->failover_regions) > 0)
		json_put_value(w, "failoverRegions", c->failover_regions);
	if (json_object_size(c->tags) > 0)
		json_put_value(w, "tags", c->tags);
	if (json_object_size(c->mounts) > 0)
		json_put_value(w, "mounts", c->mounts);
	put_keep_last(w, c);
	put_totals(w, b);
	policy_put_theirs(c->policy, w, "networkPolicy");
	json_close_object(w);
}

/*
 * The subdomain is what their client makes a URL of; shims find port and sandbox in it. The url is
 * where it really is.
 */
void put_routes(struct json_writer *w, const char *name, const struct lodge *b)
{
	const struct api *api = b->vercel->api;
	const struct stay *s = lodge_stay(b);

	json_open_array(w, name);
	for (size_t i = 0; s && i < json_array_size(b->config.ports); i++) {
		unsigned port = (unsigned)json_integer_value(json_array_get(b->config.ports, i));
		char subdomain[ID_SIZE + 8], url[1024];

		(void)snprintf(subdomain, sizeof(subdomain), "%u-%s", port, s->id + strlen("sb_"));
		if (api->preview.domain)
			(void)snprintf(url, sizeof(url), "%s://%s.%s%s", api->preview_scheme,
			               subdomain, api->preview.domain, api->preview_port);
		else
			(void)snprintf(url, sizeof(url), "%s/p/%s/%u/", api->preview_url, s->id,
			               port);
		json_open_object(w, NULL);
		json_put_str(w, "url", url);
		json_put_str(w, "subdomain", subdomain);
		json_put_u64(w, "port", port);
		json_close_object(w);
	}
	json_close_array(w);
}

void put_still(struct json_writer *w, const char *name, const struct still *still)
{
	json_open_object(w, name);
	put_still_id(w, "id", still->id);
	json_put_str(w, "sourceSessionId", still->session_id);
	json_put_str(w, "region", REGION);
	json_open_array(w, "regions");
	json_put_str(w, NULL, REGION);
	json_close_array(w);
	json_put_str(w, "status", still->is_deleted ? "deleted" : "created");
	json_put_u64(w, "sizeBytes", still->bytes);
	json_put_u64(w, "createdAt", still->created_ms);
	json_put_u64(w, "updatedAt", still->updated_ms);
	put_ms(w, "expiresAt", still->expires_ms);
	put_ms(w, "lastUsedAt", still->used_ms);
	json_put_str(w, "creationMethod", still->is_manual ? "manual" : "automatic");
	put_still_id(w, "parentId", still->parent_id);
	json_close_object(w);
}

static unsigned exit_code(const struct exec_facts *f)
{
	if (f->cause == END_TIMEOUT || f->is_cut)
		return EXIT_KILLED;
	return f->exit_signal ? 128 + f->exit_signal : f->exit_code;
}

void put_command(struct json_writer *w, const char *name, const struct exec *e,
                 const char *session_id, bool is_first)
{
	struct exec_facts f;

	exec_look(e, &f);
	json_open_object(w, name);
	json_put_str(w, "id", exec_id(e));
	json_put_str(w, "name", json_string_value(json_array_get(f.argv, 0)));
	json_open_array(w, "args");
	for (size_t i = 1; i < json_array_size(f.argv); i++)
		json_put_value(w, NULL, json_array_get(f.argv, i));
	json_close_array(w);
	json_put_str(w, "cwd", f.cwd ? f.cwd : VERCEL_HOME);
	json_put_str(w, "sessionId", session_id);
	json_put_u64(w, "startedAt", f.started_us / 1000);
	if (exec_is_over(e) && !is_first) {
		json_put_u64(w, "exitCode", exit_code(&f));
		json_put_u64(w, "durationMs", (f.ended_us - MIN(f.started_us, f.ended_us)) / 1000);
	} else {
		json_put_null(w, "exitCode");
	}
	json_close_object(w);
}
