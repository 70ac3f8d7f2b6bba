// SPDX-License-Identifier: Apache-2.0
/*
 * JSON bodies through the parser and every reader: whatever comes, a reader gives a spec, or an
 * error with a sentence, and leaks nothing.
 */
#include "api/body.h"
#include "tenant/quota.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int r, const struct err *err)
{
	assert(r >= 0 || (err->code != ERR_NONE && err->message[0] != '\0'));
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
	check(body_read_create(body, &spec, &is_get, &ports, &err), &err);
	check(body_read_patch(body, &patch, &err), &err);
	check(body_read_exec(body, &exec, &err), &err);
	check(body_read_run(body, &run, &err), &err);
	check(body_read_signal(body, &signo, &whole_tree, &err), &err);
	check(quota_setting_read(body, &quota, &err), &err);
	check(body_read_terminal(body, "", &rows, &cols, &err), &err);
	return 0;
}
