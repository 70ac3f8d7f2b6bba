// SPDX-License-Identifier: Apache-2.0
/*
 * Bodies of Vercel's wire. What is taken of a policy is one of ours, is told again without its
 * secrets, and its settings are whole whatever was sent.
 */
#include "compat/vercel/policy.h"
#include "compat/vercel/wire.h"
#include "net/policy/policy.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 16384

static void try_policy(const json_t *theirs)
{
	auto_call(buf_done) struct buf told = BUF_INIT(1024 * 1024);
	auto_call(policy_freep) struct policy *policy = NULL;
	auto_json json_t *native = NULL;
	struct json_writer w;
	struct err err = {0};

	assert(policy_to_native(theirs, &native, &err) == 0);
	assert(policy_read(native, "policy", &policy, &err) == 0);
	json_writer_init(&w, &told);
	policy_put_theirs(theirs, &w, NULL);
	assert(json_writer_end(&w) == 0);
	assert(!memmem(told.data, told.len, "s3cret", 6));
}

static void try_body(const json_t *body, enum body_kind kind)
{
	auto_call(vercel_sandbox_config_done) struct vercel_sandbox_config config;
	auto_call(vercel_sandbox_body_done) struct vercel_sandbox_body read = {0};
	struct err err = {0};

	vercel_sandbox_config_default(&config);
	if (body_read_vercel_sandbox(body, kind, &config, &read, &err) < 0)
		assert(err.code != ERR_NONE && err.message[0]);
	assert(config.policy && config.env && config.tags && config.ports);
	assert(config.vcpus > 0 && config.memory_mib > 0 && config.timeout_ms > 0);
	try_policy(config.policy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_json json_t *body = NULL;

	if (size > INPUT_MAX || json_parse((const char *)data, size, &body, NULL) < 0)
		return 0;
	for (enum body_kind kind = BODY_CREATE; kind <= BODY_UPDATE; kind++)
		try_body(body, kind);
	return 0;
}
