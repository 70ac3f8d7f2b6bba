// SPDX-License-Identifier: Apache-2.0
/*
 * JSON bodies through the parser and every reader: whatever comes, a reader gives a spec, or an
 * error with a sentence, and leaks nothing.
 */
#include "api/frame/body.h"
#include "sandbox/lifecycle/create_source.h"
#include "sandbox/network/network.h"
#include "tenant/quota.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int r, const struct err *err)
{
	assert(r >= 0 || (err->code != ERR_NONE && err->message[0] != '\0'));
}

/* What a source opens is one place, whatever it says. */
static void read_source(const struct sandbox_spec *spec)
{
	auto_call(source_freep) struct source *source = NULL;
	auto_call(policy_freep) struct policy *own = NULL, *lent = NULL;
	auto_json json_t *told = NULL;
	struct err err = {};
	int r = network_read(spec->network, "network", &own, &err);

	check(r, &err);
	if (r < 0)
		return;
	r = source_read(spec->source, &source, &err);
	check(r, &err);
	if (r < 0)
		return;
	told = source_describe(source);
	assert(told && json_string_length(json_object_get(told, "path")) > 0);
	r = source_policy(source, own, &lent, &err);
	check(r, &err);
	if (r < 0)
		return;
	assert(lent->n_rules == own->n_rules + 1 && lent->mode == own->mode);
	assert(lent->rules[0].match.n_ports == 1);
	assert(lent->rules[0].match.n_domains + lent->rules[0].match.n_cidrs >= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_json json_t *body = NULL;
	auto_call(exec_body_done) struct exec_body exec = {};
	auto_call(run_body_done) struct run_body run = {};
	struct sandbox_spec spec;
	struct port_numbers ports;
	bool is_get;
	struct sandbox_patch patch;
	struct quota_setting quota;
	struct err err = {};
	uint16_t rows = 0, cols = 0;
	bool whole_tree;
	int signo;
	int r = json_parse((const char *)data, size, &body, &err);

	check(r, &err);
	if (r < 0)
		return 0;
	r = body_read_create(body, &spec, &is_get, &ports, &err);
	check(r, &err);
	if (r == 0 && spec.source)
		read_source(&spec);
	check(body_read_patch(body, &patch, &err), &err);
	check(body_read_exec(body, &exec, &err), &err);
	check(body_read_run(body, &run, &err), &err);
	check(body_read_signal(body, &signo, &whole_tree, &err), &err);
	check(quota_setting_read(body, &quota, &err), &err);
	check(body_read_terminal(body, "", &rows, &cols, &err), &err);
	return 0;
}
