// SPDX-License-Identifier: Apache-2.0
#include "compat/vercel/policy.h"
#include "compat/vercel/wire.h"
#include "sandbox/exec/exec.h"

#include <stdio.h>
#include <string.h>

#define REGION           "iad1" /* where their clients expect to be; there is one place here */
#define EXIT_KILLED      137    /* 128 + SIGKILL */
#define INTERACTIVE_PORT 23456

static const char *const status_names[] = {
	[VERCEL_SANDBOX_STOPPED] = "stopped",           [VERCEL_SANDBOX_STARTING] = "pending",
	[VERCEL_SANDBOX_RUNNING] = "running",           [VERCEL_SANDBOX_STOPPING] = "stopping",
	[VERCEL_SANDBOX_SNAPSHOTTING] = "snapshotting",
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

static const char *region_of(const struct vercel_sandbox *box)
{
	return box->config.region ? box->config.region : REGION;
}

static void put_snapshot_id(struct json_writer *w, const char *name, const char *id)
{
	char theirs[ID_SIZE];

	if (!id[0])
		return;
	vercel_snapshot_id_out(id, theirs);
	json_put_str(w, name, theirs);
}

static void put_transfer(struct json_writer *w, const struct vercel_session *s)
{
	json_put_u64(w, "activeCpuDurationMs", s->cpu_ms);
	json_open_object(w, "networkTransfer");
	json_put_u64(w, "ingress", s->in_bytes);
	json_put_u64(w, "egress", s->out_bytes);
	json_close_object(w);
}

static const char *vercel_session_status(const struct vercel_session *s)
{
	if (s->is_over)
		return s->is_aborted ? "aborted" : "stopped";
	return status_names[vercel_sandbox_phase(s->sandbox)];
}

void put_session(struct json_writer *w, const char *name, const struct vercel_session *s)
{
	const struct vercel_sandbox *box = s->sandbox;

	json_open_object(w, name);
	json_put_str(w, "id", s->id);
	json_put_str(w, "status", vercel_session_status(s));
	json_put_u64(w, "memory", s->memory_mib);
	json_put_u64(w, "vcpus", s->vcpus);
	json_put_u64(w, "timeout", s->timeout_ms);
	json_put_u64(w, "requestedAt", s->requested_ms);
	json_put_u64(w, "createdAt", s->requested_ms);
	json_put_u64(w, "updatedAt", s->stopped_ms ? s->stopped_ms : box->updated_ms);
	put_ms(w, "startedAt", s->started_ms);
	put_ms(w, "requestedStopAt", s->stop_asked_ms);
	put_ms(w, "stoppedAt", s->stopped_ms);
	put_ms(w, "snapshottedAt", s->snapshotted_ms);
	json_put_str(w, "region", region_of(box));
	json_put_str(w, "cwd", VERCEL_HOME);
	put_text(w, "runtime", box->config.runtime);
	put_snapshot_id(w, "sourceSnapshotId", s->source);
	json_put_str(w, "sourceSandboxName", box->name);
	put_text(w, "projectId", box->space);
	if (s->is_over) {
		json_put_u64(w, "duration", s->stopped_ms - MIN(s->started_ms, s->stopped_ms));
		put_transfer(w, s);
	} else {
		json_put_u64(w, "interactivePort", INTERACTIVE_PORT);
	}
	policy_put_theirs(box->config.policy, w, "networkPolicy");
	json_close_object(w);
}

static void put_keep_last(struct json_writer *w, const struct vercel_sandbox_config *c)
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

static void put_totals(struct json_writer *w, const struct vercel_sandbox *box)
{
	json_put_u64(w, "totalIngressBytes", box->in_bytes);
	json_put_u64(w, "totalEgressBytes", box->out_bytes);
	json_put_u64(w, "totalActiveCpuDurationMs", box->cpu_ms);
	json_put_u64(w, "totalDurationMs", box->duration_ms);
}

void put_vercel_sandbox(struct json_writer *w, const char *name, const struct vercel_sandbox *box)
{
	const struct vercel_sandbox_config *c = &box->config;
	const struct vercel_session *s = vercel_sandbox_session(box);
	enum vercel_sandbox_phase phase = vercel_sandbox_phase(box);

	json_open_object(w, name);
	json_put_str(w, "name", box->name);
	json_put_bool(w, "persistent", c->is_persistent);
	json_put_str(w, "currentSessionId", s ? s->id : "");
	json_put_str(w, "status", status_names[phase]);
	json_put_u64(w, "createdAt", box->created_ms);
	json_put_u64(w, "updatedAt", box->updated_ms);
	json_put_u64(w, "statusUpdatedAt", box->status_ms);
	json_put_u64(w, "vcpus", c->vcpus);
	json_put_u64(w, "memory", c->memory_mib);
	json_put_u64(w, "timeout", c->timeout_ms);
	json_put_u64(w, "snapshotExpiration", c->snapshot_expires_ms);
	json_put_str(w, "region", region_of(box));
	json_put_str(w, "cwd", VERCEL_HOME);
	put_text(w, "runtime", c->runtime);
	put_text(w, "image", c->image);
	put_text(w, "networkId", c->network_id);
	put_snapshot_id(w, "currentSnapshotId", box->snapshot);
	if (s && phase == VERCEL_SANDBOX_RUNNING)
		json_put_u64(w, "expiresAt", s->started_ms + s->timeout_ms);
	if (json_array_size(c->failover_regions) > 0)
		json_put_value(w, "failoverRegions", c->failover_regions);
	if (json_object_size(c->tags) > 0)
		json_put_value(w, "tags", c->tags);
	if (json_object_size(c->mounts) > 0)
		json_put_value(w, "mounts", c->mounts);
	put_keep_last(w, c);
	put_totals(w, box);
	policy_put_theirs(c->policy, w, "networkPolicy");
	json_close_object(w);
}

/*
 * Vercel's client makes a URL of the subdomain; shims find port and sandbox in it. The url is the
 * real address.
 */
void put_routes(struct json_writer *w, const char *name, const struct vercel_sandbox *box)
{
	const struct api *api = box->vercel->api;
	const struct vercel_session *s = vercel_sandbox_session(box);

	json_open_array(w, name);
	for (size_t i = 0; s && i < json_array_size(box->config.ports); i++) {
		unsigned port = (unsigned)json_integer_value(json_array_get(box->config.ports, i));
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

void put_vercel_snapshot(struct json_writer *w, const char *name,
                         const struct vercel_snapshot *snapshot)
{
	json_open_object(w, name);
	put_snapshot_id(w, "id", snapshot->id);
	json_put_str(w, "sourceSessionId", snapshot->session_id);
	json_put_str(w, "region", REGION);
	json_open_array(w, "regions");
	json_put_str(w, NULL, REGION);
	json_close_array(w);
	json_put_str(w, "status", snapshot->is_deleted ? "deleted" : "created");
	json_put_u64(w, "sizeBytes", snapshot->bytes);
	json_put_u64(w, "createdAt", snapshot->created_ms);
	json_put_u64(w, "updatedAt", snapshot->updated_ms);
	put_ms(w, "expiresAt", snapshot->expires_ms);
	put_ms(w, "lastUsedAt", snapshot->used_ms);
	json_put_str(w, "creationMethod", snapshot->is_manual ? "manual" : "automatic");
	put_snapshot_id(w, "parentId", snapshot->parent_id);
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
