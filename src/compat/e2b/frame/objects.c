// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/frame/objects.h"

#include "base/clock.h"
#include "base/units.h"
#include "sandbox/storage/volume.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define DOMAIN_SIZE 300
/* Where no name leads to a sandbox. A client that was not given E2B_SANDBOX_URL makes a name of the
 * domain. Without one it would take E2B's own, and send the sandbox's token there. This name cannot
 * exist, and the client's error shows it. */
#define NO_DOMAIN "set-e2b-sandbox-url-or-preview-domain.invalid"
/* The end time comes from two clocks that are not read at the same moment. It is rounded, so that a
 * client that compares two replies finds the same time. */
#define END_GRAIN_US 100000

void e2b_time(uint64_t wall_us, char ret[E2B_TIME_SIZE])
{
	time_t seconds = (time_t)(wall_us / 1000000);
	struct tm tm = {0};
	char date[32];

	(void)gmtime_r(&seconds, &tm);
	(void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(ret, E2B_TIME_SIZE, "%s.%06" PRIu64 "Z", date, wall_us % 1000000);
}

void e2b_put_time(struct json_writer *w, const char *name, uint64_t wall_us)
{
	char text[E2B_TIME_SIZE];

	e2b_time(wall_us, text);
	json_put_str(w, name, text);
}

const char *e2b_state(const struct sandbox *s)
{
	return sandbox_state(s) == SANDBOX_RUNNING || sandbox_state(s) == SANDBOX_CREATING
	               ? "running"
	               : "paused";
}

uint64_t e2b_started_us(const struct sandbox *s)
{
	struct sandbox_facts f;
	struct notes n;

	sandbox_facts(s, &f);
	notes_read(s, &n);
	return n.started_us ? n.started_us : f.created_us;
}

const char *e2b_template(const struct sandbox *s)
{
	struct sandbox_facts f;
	struct notes n;

	sandbox_facts(s, &f);
	notes_read(s, &n);
	return n.template ? n.template : f.template;
}

static void put_names(const struct sandbox *s, struct json_writer *w)
{
	char id[E2B_ID_SIZE];

	e2b_id(s, id);
	json_put_str(w, "sandboxID", id);
	json_put_str(w, "templateID", e2b_template(s));
	json_put_str(w, "alias", e2b_template(s));
	json_put_str(w, "clientID", "cloche");
	json_put_str(w, "envdVersion", E2B_ENVD_VERSION);
}

/* The client calls the API by the name that E2B_DOMAIN gives it, and a proxy of the operator's
 * leads that name here. */
static bool has_own_domain(const struct http_req *req)
{
	const char *host = http_header(req, "Host");

	return host && strncasecmp(host, "api.", 4) == 0;
}

/* The domain of sandboxes' ports; null leaves it to the client's settings. */
static void put_domain(const struct http_req *req, struct json_writer *w)
{
	const struct api *api = http_app_arg(req);
	char domain[DOMAIN_SIZE];

	if (!api->preview.domain) {
		json_put_str(w, "domain", has_own_domain(req) ? NULL : NO_DOMAIN);
		return;
	}
	(void)snprintf(domain, sizeof(domain), "%s%s", api->preview.domain, api->preview_tls_port);
	json_put_str(w, "domain", domain);
}

/* Writes the caller's own token. */
static void put_token(const struct http_req *req, const struct notes *n, struct json_writer *w)
{
	const char *token = e2b_may_enter(req) ? key_tokens_of(&n->tokens, http_user(req)) : NULL;

	if (token)
		json_put_str(w, "envdAccessToken", token);
}

void e2b_put_sandbox(const struct http_req *req, const struct sandbox *s, struct json_writer *w,
                     const char *name)
{
	struct notes n;

	notes_read(s, &n);
	json_open_object(w, name);
	put_names(s, w);
	put_token(req, &n, w);
	put_domain(req, w);
	json_put_str(w, "trafficAccessToken", n.traffic);
	json_close_object(w);
}

static void put_mount(const char *name, const char *path, bool is_read_only, void *arg)
{
	struct json_writer *w = arg;

	(void)is_read_only;
	json_open_object(w, NULL);
	json_put_str(w, "name", name);
	json_put_str(w, "path", path);
	json_close_object(w);
}

static void put_facts(const struct sandbox *s, struct json_writer *w)
{
	uint64_t started_us = e2b_started_us(s), end_us;
	struct sandbox_facts f;
	struct notes n;

	sandbox_facts(s, &f);
	notes_read(s, &n);
	/* A paused sandbox has no end, but clients expect a time. */
	end_us = f.expires_us ? f.expires_us : clock_wall_us() + f.timeout_ms * 1000;
	put_names(s, w);
	e2b_put_time(w, "startedAt", started_us);
	e2b_put_time(w, "endAt", (end_us + END_GRAIN_US / 2) / END_GRAIN_US * END_GRAIN_US);
	json_put_u64(w, "cpuCount", (f.limits.cpu_milli + 999) / 1000);
	json_put_u64(w, "memoryMB", f.limits.memory_bytes / MIB);
	json_put_u64(w, "diskSizeMB", f.limits.disk_bytes / MIB);
	json_put_str(w, "state", e2b_state(s));
	if (n.metadata)
		json_put_value(w, "metadata", n.metadata);
	else
		json_put_value(w, "metadata", f.tags);
	json_open_array(w, "volumeMounts");
	sandbox_each_volume(s, put_mount, w);
	json_close_array(w);
}

void e2b_put_listed(const struct sandbox *s, struct json_writer *w, const char *name)
{
	json_open_object(w, name);
	put_facts(s, w);
	json_close_object(w);
}

void e2b_put_detail(const struct http_req *req, const struct sandbox *s, struct json_writer *w)
{
	struct sandbox_facts f;
	struct notes n;

	sandbox_facts(s, &f);
	notes_read(s, &n);
	json_open_object(w, NULL);
	put_facts(s, w);
	put_token(req, &n, w);
	put_domain(req, w);
	if (n.internet)
		json_put_value(w, "allowInternetAccess", n.internet);
	if (n.network)
		json_put_value(w, "network", n.network);
	json_open_object(w, "lifecycle");
	json_put_bool(w, "autoResume", f.auto_resumes);
	json_put_str(w, "onTimeout", f.on_timeout == ON_TIMEOUT_PAUSE ? "pause" : "kill");
	json_close_object(w);
	json_close_object(w);
}
