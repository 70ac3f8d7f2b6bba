// SPDX-License-Identifier: Apache-2.0
#include "cli/compose/health.h"

#include "base/clock.h"
#include "base/json/json.h"
#include "base/parse.h"
#include "cli/compose/compose_file.h"

#include <stdio.h>
#include <string.h>

#define SECOND_US      UINT64_C(1000000)
#define USUAL_US       (30 * SECOND_US)
#define USUAL_TRIES    3
#define FIRST_PAUSE_US UINT64_C(50000)
#define MOST_PAUSE_US  SECOND_US

/* Of the image: as its HEALTHCHECK has it. */
static uint64_t image_us(const json_t *check, const char *name, uint64_t usual)
{
	uint64_t ms;

	return compose_parse_ms(command_text(check, name), &ms) && ms > 0 ? ms * 1000 : usual;
}

static uint64_t file_us(const json_t *check, const char *name, uint64_t usual)
{
	const json_t *ms = json_object_get(check, name);

	return json_is_integer(ms) && json_integer_value(ms) > 0
	               ? (uint64_t)json_integer_value(ms) * 1000
	               : usual;
}

void health_init(struct health *h, const json_t *spec, const json_t *manifest, uint64_t start_us)
{
	const json_t *own = json_object_get(spec, "healthcheck");
	const json_t *image = json_object_get(json_object_get(manifest, "config"), "healthcheck");
	const json_t *test = json_object_get(own, "test");
	uint64_t tries = USUAL_TRIES;

	*h = (struct health){.pause_us = FIRST_PAUSE_US, .next_us = start_us};
	if (!test)
		test = json_object_get(image, "test");
	if (!json_is_array(test) || json_array_size(test) < 2)
		return;
	h->test = json_incref(unconst(test));
	h->interval_us = file_us(own, "interval_ms", image_us(image, "interval", USUAL_US));
	h->timeout_ms = file_us(own, "timeout_ms", image_us(image, "timeout", USUAL_US)) / 1000;
	h->start_us =
		start_us + file_us(own, "start_period_ms", image_us(image, "start-period", 0));
	if (parse_u64(command_text(image, "retries"), 100000, &tries) < 0)
		tries = USUAL_TRIES;
	if (command_number(own, "retries") > 0)
		tries = command_number(own, "retries");
	h->retries = (unsigned)MAX(tries, 1);
	h->counted_us = h->start_us;
}

void health_done(struct health *h)
{
	json_decref(h->test);
	h->test = NULL;
}

static json_t *probe_body(const struct health *h, const json_t *spec)
{
	json_t *body = json_object(), *argv = NULL;

	if (strcmp(json_string_value(json_array_get(h->test, 0)), "CMD-SHELL") == 0) {
		(void)json_object_set(body, "shell", json_array_get(h->test, 1));
	} else {
		argv = json_copy(h->test);
		(void)json_array_remove(argv, 0);
		(void)json_object_set_new(body, "argv", argv);
	}
	if (json_object_get(spec, "user"))
		(void)json_object_set(body, "user", json_object_get(spec, "user"));
	if (json_object_get(spec, "working_dir"))
		(void)json_object_set(body, "cwd", json_object_get(spec, "working_dir"));
	(void)json_object_set_new(body, "timeout_ms", json_integer((json_int_t)h->timeout_ms));
	return body;
}

static void on_failure(struct health *h, const char *said)
{
	const uint64_t now = clock_steady_us();

	(void)snprintf(h->said, sizeof(h->said), "%s", said);
	h->said[strcspn(h->said, "\n")] = '\0';
	if (now < h->counted_us)
		return;
	h->counted_us = now + h->interval_us;
	h->failed++;
	h->is_unhealthy = h->failed >= h->retries;
}

int health_probe(struct health *h, struct remote *remote, const char *sandbox, const json_t *spec,
                 struct err *err)
{
	auto_free char *path = remote_path("sandboxes", sandbox, "execs");
	auto_json json_t *body = NULL, *reply = NULL;
	const json_t *exec;
	int r;

	if (!h->test || h->is_healthy || h->is_unhealthy || clock_steady_us() < h->next_us)
		return 0;
	body = probe_body(h, spec);
	r = remote_call(remote, "POST", path, body, &reply, err);
	exec = json_object_get(reply, "exec");
	if (r < 0 && (err->code == ERR_NOT_FOUND || err->code == ERR_GONE ||
	              err->code == ERR_UNAVAILABLE || err->code == ERR_UNAUTHENTICATED))
		return r; /* the sandbox or the daemon, and not the check */
	if (r == 0 && json_is_integer(json_object_get(exec, "exit_code")) &&
	    command_number(exec, "exit_code") == 0)
		h->is_healthy = true;
	else if (r < 0)
		on_failure(h, err->message);
	else
		on_failure(h, *command_text(reply, "stderr") ? command_text(reply, "stderr")
		                                             : command_text(reply, "stdout"));
	h->next_us = clock_steady_us() + h->pause_us;
	h->pause_us = MIN(h->pause_us * 2, MIN(MOST_PAUSE_US, MAX(h->interval_us, FIRST_PAUSE_US)));
	return 0;
}
