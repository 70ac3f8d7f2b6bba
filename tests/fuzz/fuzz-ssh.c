// SPDX-License-Identifier: Apache-2.0
/*
 * What SSH brings: the text of a private key, that of a host key, and messages to the signer, which
 * begin with two bytes of length here. Nothing is ever signed for who has not the host's key.
 */
#include "net/policy/ssh_signer.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char policy_text[] =
	"{\"rules\":[{\"match\":{\"domains\":[\"git.test\"]},\"action\":{\"ssh\":{\"users\":["
	"\"git\"],"
	"\"key\":\"-----BEGIN PRIVATE "
	"KEY-----\\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\\n-----END "
	"PRIVATE KEY-----\\n\",\"host_keys\":[\"ssh-ed25519 "
	"AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea\"]}}}]}";

static const struct policy *policy(void)
{
	static struct policy *p;

	if (!p) {
		json_t *value = json_loads(policy_text, 0, NULL);
		int r = policy_read(value, "policy", &p, NULL);

		assert(r == 0);
		json_decref(value);
	}
	return p;
}

static void try_texts(const uint8_t *data, size_t size)
{
	auto_free char *text = xstrndup((const char *)data, size);
	struct ssh_private_key *key = NULL;
	struct ssh_host_key *host_key = NULL;
	const char *why = NULL;

	if (ssh_private_key_read(text, &key, &why) < 0)
		assert(!key && why);
	ssh_private_key_free(key);
	if (ssh_host_key_read(text, &host_key, &why) < 0)
		assert(!host_key && why);
	ssh_host_key_free(host_key);
}

static void try_messages(const uint8_t *data, size_t size)
{
	static const struct range_site site;
	struct ssh_signer signer;

	ssh_signer_init(&signer);
	while (size >= 2) {
		size_t len = MIN((size_t)data[0] << 8 | data[1], size - 2);
		auto_call(buf_done) struct buf out = BUF_INIT(65536);
		struct ssh_signer_report report;
		int r = ssh_signer_answer(&signer, policy(), &site, data + 2, len, &out, &report);

		assert(r == 0 && out.len > 4 && report.outcome != SIGNER_SIGNED);
		assert((report.outcome == SIGNER_REFUSED) == (report.why != NULL));
		data += 2 + len;
		size -= 2 + len;
	}
	ssh_signer_done(&signer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] == 'm')
		try_messages(data + 1, size - 1);
	else
		try_texts(data + 1, size - 1);
	return 0;
}
